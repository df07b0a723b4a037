//! [`OperationKind`]: what histories do to a database, one kind for each call of the public
//! interface that answers or changes something of its own, and for each thing that can happen to
//! its process, machine and disk.
//!
//! One table names them, says how often they are drawn, and where they are possible. An operand of
//! a merge operator is written in place of a value, and counts as one.

use crate::operation::{Ending, Environment, Level, Operation, Range, Reader, Turn};

macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident $name:literal $weight:literal $needs:ident,)*) => {
        /// The kind of an operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum OperationKind {
            $($(#[$about])* $kind,)*
        }

        impl OperationKind {
            /// All kinds.
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),*];

            pub(crate) fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }

            /// Average frequency in histories.
            pub(crate) fn weight(self) -> u64 {
                [$($weight),*][self as usize]
            }

            /// Returns true if an environment can do it.
            pub(crate) fn is_possible(self, environment: Environment) -> bool {
                match [$(Needs::$needs),*][self as usize] {
                    Needs::Nothing => true,
                    Needs::Simulator => environment.is_simulated(),
                    Needs::Faults => environment == Environment::Faulty,
                }
            }
        }
    };
}

impl OperationKind {
    /// Returns true if it reads, or begins or ends what reads.
    pub(crate) fn is_read(self) -> bool {
        (Self::Get as u8..=Self::DropScan as u8).contains(&(self as u8))
    }

    /// Returns true if it writes entries, or lets background work follow.
    pub(crate) fn is_write(self) -> bool {
        (Self::Put as u8..=Self::WriteInterval as u8).contains(&(self as u8)) || self == Self::Background
    }
}

#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Simulator,
    Faults,
}

kinds! {
    Put "put" 9 Nothing,
    Delete "delete" 5 Nothing,
    /// A batch with the durability of the options.
    Write "write" 4 Nothing,
    WriteBuffered "write-buffered" 3 Nothing,
    WriteSync "write-sync" 4 Nothing,
    WriteInterval "write-interval" 3 Nothing,
    Get "get" 3 Nothing,
    GetAt "get-at-snapshot" 2 Nothing,
    Contains "contains" 1 Nothing,
    ContainsAt "contains-at-snapshot" 1 Nothing,
    MultiGet "multi-get" 1 Nothing,
    MultiGetAt "multi-get-at-snapshot" 1 Nothing,
    Scan "scan" 1 Nothing,
    ScanBack "scan-back" 1 Nothing,
    /// From both ends.
    ScanEnds "scan-both-ends" 1 Nothing,
    ScanPrefix "scan-prefix" 1 Nothing,
    /// With entries that are lent, not copied.
    ScanLent "scan-lent" 1 Nothing,
    ScanAt "scan-at-snapshot" 1 Nothing,
    TakeSnapshot "snapshot" 3 Nothing,
    DropSnapshot "drop-snapshot" 1 Nothing,
    OpenScan "open-scan" 2 Nothing,
    StepScan "step-scan" 4 Nothing,
    DropScan "drop-scan" 1 Nothing,
    OpenIngest "open-ingest" 2 Nothing,
    FinishIngest "finish-ingest" 2 Nothing,
    DropIngest "drop-ingest" 1 Nothing,
    Ingest "ingest" 1 Nothing,
    Flush "flush" 2 Nothing,
    Compact "compact" 1 Nothing,
    CompactRange "compact-range" 1 Nothing,
    Settle "settle" 1 Nothing,
    Reshape "reshape" 1 Nothing,
    Estimate "estimate" 1 Nothing,
    Checkpoint "checkpoint" 1 Nothing,
    Pause "pause" 1 Nothing,
    Resume "resume" 1 Nothing,
    Policy "policy" 1 Nothing,
    Filter "filter" 2 Nothing,
    SettleFilters "settle-filters" 1 Nothing,
    Options "options" 1 Nothing,
    Verify "verify" 1 Nothing,
    Stats "stats" 1 Nothing,
    Sync "sync" 2 Nothing,
    /// Arguments that are not valid.
    Refused "refused" 1 Nothing,
    /// Openings of what is open.
    Locked "locked" 1 Nothing,
    Reopen "reopen" 1 Nothing,
    /// Close while a clone of the handle stays.
    Linger "linger" 1 Nothing,
    /// Close, look at it read-only, and open again.
    Look "look" 1 Nothing,
    /// Close, verify, and open again.
    VerifyClosed "verify-closed" 1 Nothing,
    /// Close, repair a damaged copy, and open again.
    Repair "repair" 1 Nothing,
    /// A scan is ingested by another database, with other options.
    Transfer "transfer" 1 Nothing,
    Kill "kill" 1 Nothing,
    Crash "crash" 2 Simulator,
    Interrupt "interrupt" 2 Simulator,
    Background "background" 6 Simulator,
    Advance "advance" 2 Simulator,
    Fault "fault" 3 Faults,
    Limit "limit" 1 Faults,
    NoLimit "no-limit" 1 Faults,
}

impl Operation {
    /// Its kind.
    pub(crate) fn kind(&self) -> OperationKind {
        use OperationKind as Kind;

        let at = |reader: &Reader, now, at| if *reader == Reader::Now { now } else { at };
        match self {
            Self::Write { writes, level } => match (level, &writes[..]) {
                (Level::Usual, [write]) if !write.change.deletes() => Kind::Put,
                (Level::Usual, [_]) => Kind::Delete,
                (Level::Usual, _) => Kind::Write,
                (Level::Buffered, _) => Kind::WriteBuffered,
                (Level::Sync, _) => Kind::WriteSync,
                (Level::Interval(_), _) => Kind::WriteInterval,
            },
            Self::Get { reader, .. } => at(reader, Kind::Get, Kind::GetAt),
            Self::Contains { reader, .. } => at(reader, Kind::Contains, Kind::ContainsAt),
            Self::MultiGet { reader, .. } => at(reader, Kind::MultiGet, Kind::MultiGetAt),
            Self::Scan { reader, range, turns, .. } => {
                let any = |turn| turns.contains(&turn);
                match range {
                    _ if *reader != Reader::Now => Kind::ScanAt,
                    _ if any(Turn::LentFront) || any(Turn::LentBack) => Kind::ScanLent,
                    Range::Prefix(_) => Kind::ScanPrefix,
                    Range::Bounds(..) => match (any(Turn::Front), any(Turn::Back)) {
                        (true, true) => Kind::ScanEnds,
                        (false, true) => Kind::ScanBack,
                        _ => Kind::Scan,
                    },
                }
            }
            Self::TakeSnapshot(_) => Kind::TakeSnapshot,
            Self::DropSnapshot(_) => Kind::DropSnapshot,
            Self::OpenScan { .. } => Kind::OpenScan,
            Self::StepScan { .. } => Kind::StepScan,
            Self::DropScan(_) => Kind::DropScan,
            Self::OpenIngest { .. } => Kind::OpenIngest,
            Self::FinishIngest(_) => Kind::FinishIngest,
            Self::DropIngest(_) => Kind::DropIngest,
            Self::Ingest(_) => Kind::Ingest,
            Self::Flush => Kind::Flush,
            Self::Compact => Kind::Compact,
            Self::CompactRange(_) => Kind::CompactRange,
            Self::Settle => Kind::Settle,
            Self::Reshape => Kind::Reshape,
            Self::Estimate { .. } => Kind::Estimate,
            Self::Checkpoint => Kind::Checkpoint,
            Self::Pause => Kind::Pause,
            Self::Resume => Kind::Resume,
            Self::Policy(_) => Kind::Policy,
            Self::Filter(_) => Kind::Filter,
            Self::SettleFilters => Kind::SettleFilters,
            Self::Options(_) => Kind::Options,
            Self::Verify => Kind::Verify,
            Self::Stats => Kind::Stats,
            Self::Sync => Kind::Sync,
            Self::Refused => Kind::Refused,
            Self::Locked => Kind::Locked,
            Self::Reopen => Kind::Reopen,
            Self::Linger => Kind::Linger,
            Self::Look => Kind::Look,
            Self::VerifyClosed => Kind::VerifyClosed,
            Self::Repair => Kind::Repair,
            Self::Transfer(_) => Kind::Transfer,
            Self::End(Ending::Kill) => Kind::Kill,
            Self::End(Ending::Crash(_)) => Kind::Crash,
            Self::Interrupt { .. } => Kind::Interrupt,
            Self::Background(_) => Kind::Background,
            Self::Advance(_) => Kind::Advance,
            Self::Fault { .. } => Kind::Fault,
            Self::Limit(Some(_)) => Kind::Limit,
            Self::Limit(None) => Kind::NoLimit,
        }
    }
}
