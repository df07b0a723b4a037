//! A history: operations on a database, as data. Prints as text, one operation per line, and is
//! parsed from it.
//!
//! ```text
//! setup environment=faulty seed=7 memtable=200 block=64 threads=2 policy=tiering:T=3
//! write usual put "a" "v1" delete "" merge "b" "v2" delete-range "c" "d"
//! snapshot 1
//! policy custom:buffer 100; level 400 in 2 runs
//! fault sync-drops-pages 2
//! interrupt 3 crash 99: flush
//! scan now in:"a" ex:"k"*300 fb 10 told
//! ```
//!
//! Bytes are quoted and escaped as in Rust; `"k"*300` repeats a string 300 times. The specification
//! of a policy, and an option set, extend to the end of the line. A line that begins
//! with `#` is a comment.

use std::fmt;
use std::ops::Bound;

use tamarack_env::sim::Failure;

use crate::options::OptionSet;

/// A database's setup, and the operations on it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct History {
    pub(crate) setup: Setup,
    pub(crate) operations: Vec<Operation>,
}

/// The environment, and the options of the first opening.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Setup {
    pub(crate) environment: Environment,
    /// The environment's seed.
    pub(crate) seed: u64,
    pub(crate) options: OptionSet,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Environment {
    Memory,
    Files,
    Simulator,
    /// The simulator, with faults.
    Faulty,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Operation {
    /// One write, or a batch of none or several.
    Write {
        writes: Vec<Write>,
        level: Level,
    },
    Get {
        reader: Reader,
        key: Vec<u8>,
    },
    Contains {
        reader: Reader,
        key: Vec<u8>,
    },
    /// The key, all that there are, and the key once more are looked up together.
    MultiGet {
        reader: Reader,
        key: Vec<u8>,
    },
    /// A scan whose ends are called in the order of `turns`, repeatedly, for up to `limit` items,
    /// and which may be told so.
    Scan {
        reader: Reader,
        range: Range,
        turns: Vec<Turn>,
        limit: u64,
        is_told: bool,
    },
    TakeSnapshot(u8),
    DropSnapshot(u8),
    /// A scan that stays open during other operations.
    OpenScan {
        slot: u8,
        reader: Reader,
        range: Range,
    },
    StepScan {
        slot: u8,
        turns: Vec<Turn>,
    },
    DropScan(u8),
    /// Begins an ingest: sorted puts, in tables that are not part of the database yet.
    OpenIngest {
        slot: u8,
        writes: Vec<Write>,
    },
    FinishIngest(u8),
    DropIngest(u8),
    /// A whole ingest.
    Ingest(Vec<Write>),
    Flush,
    /// Flush, and compact everything.
    Compact,
    /// Compact a range of keys.
    CompactRange(Range),
    /// Wait until no compaction is due.
    Settle,
    /// Reshape: every level gets its shape at once.
    Reshape,
    /// Predict the cost of a change of policy while so many bytes arrive.
    Estimate {
        bytes: u64,
        policy: String,
    },
    /// A checkpoint is made, opened, compared, written to and closed; it is compared again later.
    Checkpoint,
    /// Pause compactions, or resume them.
    Pause,
    Resume,
    /// Change of policy.
    Policy(String),
    /// Change of filters.
    Filter(String),
    /// Wait until no filter is to be rebuilt.
    SettleFilters,
    /// Options from the next opening on.
    Options(OptionSet),
    Verify,
    /// Compare the statistics with what the model knows.
    Stats,
    Sync,
    /// Calls with arguments that are not valid: each is refused, and nothing changes.
    Refused,
    /// Open the database in every way while it is open: each is refused.
    Locked,
    /// Close and open again.
    Reopen,
    /// The same, with a clone of the handle that reads in between.
    Linger,
    /// The same, with read-only openings in between.
    Look,
    /// The same, with a verification in between, and a repair that finds nothing to do.
    VerifyClosed,
    /// The same; in between a copy without `CURRENT` is repaired and compared.
    Repair,
    /// A scan of everything is ingested by a new database with these options, and compared there.
    Transfer(OptionSet),
    /// The process or the machine ends, and the database is opened again.
    End(Ending),
    /// An operation, and an end before its nth call that changes storage, counted from 0; after it
    /// if there are fewer.
    Interrupt {
        calls: u64,
        ending: Ending,
        operation: Box<Operation>,
    },
    /// Steps of background work.
    Background(u64),
    /// Advance the clock by milliseconds, and let background work react.
    Advance(u64),
    /// One call fails like this, after the given number of calls that could have.
    Fault {
        failure: Failure,
        after: u64,
    },
    /// Limit of further bytes on the disk; `None` removes it.
    Limit(Option<u64>),
}

/// A change of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Put(Vec<u8>),
    Delete,
    /// An operand of the merge operator, which appends it.
    Merge(Vec<u8>),
    /// A range delete from the key to this one, without it; to the end of all keys if it is empty.
    DeleteRange(Vec<u8>),
}

/// The bounds of a range of keys.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl Write {
    /// The bounds of a range delete.
    pub(crate) fn range(&self) -> Option<Bounds> {
        let Change::DeleteRange(to) = &self.change else { return None };
        let end = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to.clone()) };
        Some((Bound::Included(self.key.clone()), end))
    }
}

impl Change {
    /// Returns true if it only takes away.
    pub(crate) fn deletes(&self) -> bool {
        matches!(self, Self::Delete | Self::DeleteRange(_))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// What the options say: by the calls that name no durability.
    Usual,
    Buffered,
    Sync,
    /// In milliseconds.
    Interval(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    Now,
    Snapshot(u8),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Range {
    Bounds(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Front,
    Back,
    /// The same, with an entry that is lent.
    LentFront,
    LentBack,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The process ends.
    Kill,
    /// Loss of power; the seed draws what survives.
    Crash(u64),
}

/// The failures of histories, with their names. Disks that lie about their writes are not among
/// them: no answer can be right then, and other tests check that it is an error.
const FAILURES: [(&str, Failure); 9] = [
    ("io", Failure::Io),
    ("storage-full", Failure::StorageFull),
    ("error-after-effect", Failure::ErrorAfterEffect),
    ("short-write", Failure::ShortWrite),
    ("partial-write", Failure::PartialWrite),
    ("short-read", Failure::ShortRead),
    ("sync-keeps-pages", Failure::SyncKeepsPages),
    ("sync-drops-pages", Failure::SyncDropsPages),
    ("sync-keeps-length-only", Failure::SyncKeepsLengthOnly),
];

const ENVIRONMENTS: [(&str, Environment); 4] = [
    ("memory", Environment::Memory),
    ("files", Environment::Files),
    ("simulator", Environment::Simulator),
    ("faulty", Environment::Faulty),
];

const TURNS: [(&str, Turn); 4] = [("f", Turn::Front), ("b", Turn::Back), ("F", Turn::LentFront), ("B", Turn::LentBack)];

/// The failures of histories.
pub(crate) fn failures() -> impl Iterator<Item = Failure> {
    FAILURES.iter().map(|(_, failure)| failure.clone())
}

impl Environment {
    pub(crate) fn is_simulated(self) -> bool {
        matches!(self, Self::Simulator | Self::Faulty)
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&ENVIRONMENTS, self))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { environment, seed, options } = &self.setup;
        writeln!(f, "setup environment={environment} seed={seed} {options}")?;
        self.operations.iter().try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { writes, level } => {
                write!(f, "write {level}")?;
                fmt_writes(f, writes)
            }
            Self::Get { reader, key } => write!(f, "get {reader} {}", Quoted(key)),
            Self::Contains { reader, key } => write!(f, "contains {reader} {}", Quoted(key)),
            Self::MultiGet { reader, key } => write!(f, "multi-get {reader} {}", Quoted(key)),
            Self::Scan { reader, range, turns, limit, is_told } => {
                let told = if *is_told { " told" } else { "" };
                write!(f, "scan {reader} {range} {} {limit}{told}", Turns(turns))
            }
            Self::TakeSnapshot(slot) => write!(f, "snapshot {slot}"),
            Self::DropSnapshot(slot) => write!(f, "drop-snapshot {slot}"),
            Self::OpenScan { slot, reader, range } => write!(f, "open-scan {slot} {reader} {range}"),
            Self::StepScan { slot, turns } => write!(f, "step-scan {slot} {}", Turns(turns)),
            Self::DropScan(slot) => write!(f, "drop-scan {slot}"),
            Self::OpenIngest { slot, writes } => {
                write!(f, "open-ingest {slot}")?;
                fmt_writes(f, writes)
            }
            Self::FinishIngest(slot) => write!(f, "finish-ingest {slot}"),
            Self::DropIngest(slot) => write!(f, "drop-ingest {slot}"),
            Self::Ingest(writes) => {
                f.write_str("ingest")?;
                fmt_writes(f, writes)
            }
            Self::Flush => f.write_str("flush"),
            Self::Compact => f.write_str("compact"),
            Self::CompactRange(range) => write!(f, "compact-range {range}"),
            Self::Settle => f.write_str("settle"),
            Self::Reshape => f.write_str("reshape"),
            Self::Estimate { bytes, policy } => write!(f, "estimate {bytes} {policy}"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Policy(words) => write!(f, "policy {words}"),
            Self::Filter(words) => write!(f, "filter {words}"),
            Self::SettleFilters => f.write_str("settle-filters"),
            Self::Options(options) => write!(f, "options {options}"),
            Self::Verify => f.write_str("verify"),
            Self::Stats => f.write_str("stats"),
            Self::Sync => f.write_str("sync"),
            Self::Refused => f.write_str("refused"),
            Self::Locked => f.write_str("locked"),
            Self::Reopen => f.write_str("reopen"),
            Self::Linger => f.write_str("linger"),
            Self::Look => f.write_str("look"),
            Self::VerifyClosed => f.write_str("verify-closed"),
            Self::Repair => f.write_str("repair"),
            Self::Transfer(options) => write!(f, "transfer {options}"),
            Self::End(ending) => write!(f, "{ending}"),
            Self::Interrupt { calls, ending, operation } => write!(f, "interrupt {calls} {ending}: {operation}"),
            Self::Background(steps) => write!(f, "background {steps}"),
            Self::Advance(ms) => write!(f, "advance {ms}"),
            Self::Fault { failure, after } => write!(f, "fault {} {after}", name_of(&FAILURES, failure)),
            Self::Limit(Some(bytes)) => write!(f, "limit {bytes}"),
            Self::Limit(None) => f.write_str("no-limit"),
        }
    }
}

fn fmt_writes(f: &mut fmt::Formatter<'_>, writes: &[Write]) -> fmt::Result {
    writes.iter().try_for_each(|write| match &write.change {
        Change::Put(value) => write!(f, " put {} {}", Quoted(&write.key), Quoted(value)),
        Change::Delete => write!(f, " delete {}", Quoted(&write.key)),
        Change::Merge(operand) => write!(f, " merge {} {}", Quoted(&write.key), Quoted(operand)),
        Change::DeleteRange(to) => write!(f, " delete-range {} {}", Quoted(&write.key), Quoted(to)),
    })
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usual => f.write_str("usual"),
            Self::Buffered => f.write_str("buffered"),
            Self::Sync => f.write_str("sync"),
            Self::Interval(ms) => write!(f, "interval {ms}"),
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Snapshot(slot) => write!(f, "at {slot}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => format!("in:{}", Quoted(key)),
            Bound::Excluded(key) => format!("ex:{}", Quoted(key)),
            Bound::Unbounded => "open".to_owned(),
        };
        match self {
            Self::Bounds(start, end) => write!(f, "{} {}", bound(start), bound(end)),
            Self::Prefix(prefix) => write!(f, "prefix:{}", Quoted(prefix)),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Crash(seed) => write!(f, "crash {seed}"),
        }
    }
}

struct Turns<'a>(&'a [Turn]);

impl fmt::Display for Turns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|turn| f.write_str(name_of(&TURNS, turn)))
    }
}

/// Bytes in quotes.
pub(crate) struct Quoted<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [first, rest @ ..] if self.0.len() > 16 && rest.iter().all(|byte| byte == first) => {
                write!(f, "\"{}\"*{}", first.escape_ascii(), self.0.len())
            }
            bytes => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, named)| named == value).expect("every value in a history has a name").0
}

impl Operation {
    /// Returns true if it writes an operand of a merge operator.
    fn has_operands(&self) -> bool {
        match self {
            Self::Write { writes, .. } => writes.iter().any(|write| matches!(write.change, Change::Merge(_))),
            Self::Interrupt { operation, .. } => operation.has_operands(),
            _ => false,
        }
    }
}

impl History {
    /// Returns true if its databases need a merge operator.
    pub(crate) fn has_operands(&self) -> bool {
        self.operations.iter().any(Operation::has_operands)
    }

    /// Parses a history.
    ///
    /// # Errors
    /// The first invalid line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut setup = None;
        let mut operations = Vec::new();
        for line in lines {
            let mut words = Words { rest: line };
            let parsed = match &setup {
                None => words.setup().map(|read| setup = Some(read)),
                Some(_) => words.operation().map(|read| operations.push(read)),
            };
            parsed
                .filter(|()| words.rest.is_empty())
                .ok_or_else(|| format!("cannot read this line of a history: {line}\n(from here: {})", words.rest))?;
        }
        Ok(Self { setup: setup.ok_or("a history begins with its setup")?, operations })
    }
}

/// The rest of a line. Each method takes one thing off its front, or returns `None` if something
/// else is there.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn setup(&mut self) -> Option<Setup> {
        self.literal("setup")?;
        Some(Setup {
            environment: {
                let name = self.word()?.strip_prefix("environment=")?;
                ENVIRONMENTS.iter().find(|(other, _)| *other == name)?.1
            },
            seed: self.assignment("seed=")?,
            options: self.options()?,
        })
    }

    fn options(&mut self) -> Option<OptionSet> {
        OptionSet::parse(&self.rest_of_line())
    }

    fn operation(&mut self) -> Option<Operation> {
        Some(match self.word()? {
            "write" => Operation::Write { level: self.level()?, writes: self.writes()? },
            "get" => Operation::Get { reader: self.reader()?, key: self.bytes()? },
            "contains" => Operation::Contains { reader: self.reader()?, key: self.bytes()? },
            "multi-get" => Operation::MultiGet { reader: self.reader()?, key: self.bytes()? },
            "scan" => Operation::Scan {
                reader: self.reader()?,
                range: self.range()?,
                turns: self.turns()?,
                limit: self.number()?,
                is_told: !self.rest.is_empty() && self.literal("told").map(|()| true)?,
            },
            "snapshot" => Operation::TakeSnapshot(self.number()? as u8),
            "drop-snapshot" => Operation::DropSnapshot(self.number()? as u8),
            "open-scan" => {
                Operation::OpenScan { slot: self.number()? as u8, reader: self.reader()?, range: self.range()? }
            }
            "step-scan" => Operation::StepScan { slot: self.number()? as u8, turns: self.turns()? },
            "drop-scan" => Operation::DropScan(self.number()? as u8),
            "open-ingest" => Operation::OpenIngest { slot: self.number()? as u8, writes: self.writes()? },
            "finish-ingest" => Operation::FinishIngest(self.number()? as u8),
            "drop-ingest" => Operation::DropIngest(self.number()? as u8),
            "ingest" => Operation::Ingest(self.writes()?),
            "flush" => Operation::Flush,
            "compact" => Operation::Compact,
            "compact-range" => Operation::CompactRange(self.range()?),
            "settle" => Operation::Settle,
            "reshape" => Operation::Reshape,
            "estimate" => Operation::Estimate { bytes: self.number()?, policy: self.rest_of_line() },
            "checkpoint" => Operation::Checkpoint,
            "pause" => Operation::Pause,
            "resume" => Operation::Resume,
            "policy" => Operation::Policy(self.rest_of_line()),
            "filter" => Operation::Filter(self.rest_of_line()),
            "settle-filters" => Operation::SettleFilters,
            "options" => Operation::Options(self.options()?),
            "verify" => Operation::Verify,
            "stats" => Operation::Stats,
            "sync" => Operation::Sync,
            "refused" => Operation::Refused,
            "locked" => Operation::Locked,
            "reopen" => Operation::Reopen,
            "linger" => Operation::Linger,
            "look" => Operation::Look,
            "verify-closed" => Operation::VerifyClosed,
            "repair" => Operation::Repair,
            "transfer" => Operation::Transfer(self.options()?),
            "kill" => Operation::End(Ending::Kill),
            "crash" => Operation::End(Ending::Crash(self.number()?)),
            "interrupt" => {
                let (calls, ending) = (self.number()?, self.ending()?);
                Operation::Interrupt { calls, ending, operation: Box::new(self.operation()?) }
            }
            "background" => Operation::Background(self.number()?),
            "advance" => Operation::Advance(self.number()?),
            "fault" => {
                let name = self.word()?;
                let failure = FAILURES.iter().find(|(other, _)| *other == name)?.1.clone();
                Operation::Fault { failure, after: self.number()? }
            }
            "limit" => Operation::Limit(Some(self.number()?)),
            "no-limit" => Operation::Limit(None),
            _ => return None,
        })
    }

    fn writes(&mut self) -> Option<Vec<Write>> {
        let mut writes = Vec::new();
        while !self.rest.is_empty() {
            writes.push(match self.word()? {
                "put" => Write { key: self.bytes()?, change: Change::Put(self.bytes()?) },
                "delete" => Write { key: self.bytes()?, change: Change::Delete },
                "merge" => Write { key: self.bytes()?, change: Change::Merge(self.bytes()?) },
                "delete-range" => Write { key: self.bytes()?, change: Change::DeleteRange(self.bytes()?) },
                _ => return None,
            });
        }
        Some(writes)
    }

    fn level(&mut self) -> Option<Level> {
        Some(match self.word()? {
            "usual" => Level::Usual,
            "buffered" => Level::Buffered,
            "sync" => Level::Sync,
            "interval" => Level::Interval(self.number()?),
            _ => return None,
        })
    }

    fn reader(&mut self) -> Option<Reader> {
        Some(match self.word()? {
            "now" => Reader::Now,
            "at" => Reader::Snapshot(self.number()? as u8),
            _ => return None,
        })
    }

    /// Ends with the colon before the interrupted operation.
    fn ending(&mut self) -> Option<Ending> {
        let (ending, operation) = self.rest.split_once(':')?;
        let mut words = Words { rest: ending };
        let ending = match words.word()? {
            "kill" => Ending::Kill,
            "crash" => Ending::Crash(words.number()?),
            _ => return None,
        };
        self.rest = operation.trim_start();
        words.rest.is_empty().then_some(ending)
    }

    fn range(&mut self) -> Option<Range> {
        if let Some(rest) = self.rest.strip_prefix("prefix:") {
            self.rest = rest;
            return Some(Range::Prefix(self.bytes()?));
        }
        Some(Range::Bounds(self.bound()?, self.bound()?))
    }

    fn bound(&mut self) -> Option<Bound<Vec<u8>>> {
        if let Some(rest) = self.rest.strip_prefix("in:") {
            self.rest = rest;
            self.bytes().map(Bound::Included)
        } else if let Some(rest) = self.rest.strip_prefix("ex:") {
            self.rest = rest;
            self.bytes().map(Bound::Excluded)
        } else {
            self.literal("open").map(|()| Bound::Unbounded)
        }
    }

    fn turns(&mut self) -> Option<Vec<Turn>> {
        let letters = self.word()?;
        (0..letters.len())
            .map(|at| TURNS.iter().find(|(letter, _)| letters.get(at..=at) == Some(letter)).map(|(_, turn)| *turn))
            .collect()
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut rest = self.rest.strip_prefix('"')?.as_bytes();
        loop {
            let (byte, used) = match *rest {
                [b'"', ..] => break,
                [b'\\', b'x', high, low, ..] => {
                    let digits = [high, low];
                    (u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?, 4)
                }
                [b'\\', letter, ..] => {
                    let byte = match letter {
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'n' => b'\n',
                        other => other,
                    };
                    (byte, 2)
                }
                [byte, ..] => (byte, 1),
                [] => return None,
            };
            bytes.push(byte);
            rest = &rest[used..];
        }
        self.rest = std::str::from_utf8(&rest[1..]).ok()?;
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            bytes = bytes.repeat(self.number()? as usize);
        }
        self.rest = self.rest.trim_start();
        Some(bytes)
    }

    fn assignment(&mut self, name: &str) -> Option<u64> {
        self.word()?.strip_prefix(name)?.parse().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }

    fn rest_of_line(&mut self) -> String {
        std::mem::take(&mut self.rest).to_owned()
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        (self.word()? == word).then_some(())
    }

    fn word(&mut self) -> Option<&'a str> {
        let end = self.rest.find(' ').unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = self.rest[end..].trim_start();
        (!word.is_empty()).then_some(word)
    }
}
