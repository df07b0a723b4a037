//! Generates a history from a seed.
//!
//! ```text
//!   seed ─┬─ options: named set seed mod 44         ┌─ in half of them: options drawn anew
//!         └─ kinds that are due: 5, round seed/44   ▼
//!            setup │ some writes │ kinds that are due │ what the history draws …
//! ```
//!
//! Each history draws its own few keys, sizes, and frequencies of operations, many of them zero: a
//! history that only writes, flushes and crashes reaches states that an even mixture never does.
//! Every history has a policy, most often with memtables so small that a few dozen writes make a
//! tree of several levels.
//!
//! So that no pair of a kind and a named set is left to luck, each history begins with the kinds
//! that are due under its set: after [`histories_of_all_pairs`] seeds in a row, every pair has had
//! its turn.
//!
//! A **long** history has no kinds that are due. About nine in ten of its operations read, through
//! snapshots and open scans too; one in a hundred to one in eight writes; one in some two hundred
//! is of another kind: it flushes, compacts, reshapes, changes options, closes, or ends the
//! process.

use std::ops::Bound;

use tamarack_env::Random;

use crate::kind::OperationKind as Kind;
use crate::operation::{
    Change, Ending, Environment, History, Level, Operation, Range, Reader, Setup, Turn, Write, failures,
};
use crate::options::{OptionSet, option_sets};

/// Maximum number of open snapshots, and of open scans.
const SLOTS: u64 = 3;

/// Number of kinds that are due in one history. With 44 sets and 52 kinds, 500 histories on files
/// are enough for all pairs.
const DUE: u64 = 5;

/// Number of operations of a long history.
const LONG_OPERATIONS: usize = 2000;

/// Keeps the random numbers of long histories apart.
const LONG_PURPOSE: u64 = 16;

/// Keeps apart the random numbers that choose operands.
const OPERANDS_PURPOSE: u64 = 32;

/// Keeps apart the random numbers that choose range deletes.
const RANGE_DELETES_PURPOSE: u64 = 48;

/// The number of histories, of seeds in a row, that meet every possible kind of operation under
/// every named option set.
pub(crate) fn histories_of_all_pairs(environment: Environment) -> u64 {
    (possible(environment).len() as u64).div_ceil(DUE) * option_sets().len() as u64
}

fn possible(environment: Environment) -> Vec<Kind> {
    Kind::ALL.iter().copied().filter(|kind| kind.is_possible(environment)).collect()
}

/// The kinds that are due in a history. What changes the options, pauses or fails comes last, so
/// that it is in nobody's way.
fn due(environment: Environment, seed: u64) -> Vec<Kind> {
    let kinds = possible(environment);
    let first = seed / option_sets().len() as u64 * DUE;
    let mut due: Vec<_> = (first..first + DUE).map(|at| kinds[(at % kinds.len() as u64) as usize]).collect();
    due.sort_by_key(|kind| match kind {
        Kind::Fault | Kind::Limit | Kind::NoLimit => 3,
        Kind::Options => 2,
        Kind::Pause | Kind::Resume => 1,
        _ => 0,
    });
    due
}

/// Returns the history of a seed.
pub(crate) fn history(environment: Environment, seed: u64) -> History {
    let random = Random::for_purpose(seed, environment as u64);
    let options = option_sets()[(seed % option_sets().len() as u64) as usize].clone();
    let mut generator = Generator::new(&random, environment);
    let mut operations = generator.burst();
    for kind in due(environment, seed) {
        generator.prepared(kind, &mut operations);
    }
    if random.below(2) == 0 {
        operations.push(Operation::Options(drawn(&random)));
        operations.push(Operation::Reopen);
    }
    let length = operations.len() + generator.length(environment) as usize;
    while operations.len() < length {
        generator.operations(&mut operations);
    }
    with_operands(&mut operations, environment, seed);
    with_range_deletes(&mut operations, environment, seed);
    History { setup: Setup { environment, seed, options }, operations }
}

/// Returns the long history of a seed: it begins with a named set, and goes on with others.
pub(crate) fn long_history(environment: Environment, seed: u64) -> History {
    let random = Random::for_purpose(seed, LONG_PURPOSE + environment as u64);
    let options = option_sets()[(seed % option_sets().len() as u64) as usize].clone();
    let mut generator = Generator::of_long(&random, environment);
    let mut operations = generator.burst();
    while operations.len() < LONG_OPERATIONS {
        generator.operations(&mut operations);
    }
    with_operands(&mut operations, environment, seed);
    with_range_deletes(&mut operations, environment, seed);
    History { setup: Setup { environment, seed, options }, operations }
}

/// One of so many histories has operands of a merge operator in place of half of its puts.
const OPERANDS_IN: u64 = 4;

/// Values that are merged again and again stay short.
const OPERAND_BYTES_MAX: usize = 8;

/// Makes operands of puts, if the history of this seed is to have some.
fn with_operands(operations: &mut [Operation], environment: Environment, seed: u64) {
    let random = Random::for_purpose(seed, OPERANDS_PURPOSE + environment as u64);
    if random.below(OPERANDS_IN) == 0 {
        operations.iter_mut().for_each(|operation| merge_some(operation, &random));
    }
}

fn merge_some(operation: &mut Operation, random: &Random) {
    match operation {
        Operation::Write { writes, .. } => {
            for write in writes {
                if let Change::Put(value) = &mut write.change
                    && random.below(2) == 0
                {
                    value.truncate(OPERAND_BYTES_MAX);
                    write.change = Change::Merge(std::mem::take(value));
                }
            }
        }
        Operation::Interrupt { operation, .. } => merge_some(operation, random),
        _ => {}
    }
}

/// One of so many histories has range deletes in place of some of its deletes.
const RANGE_DELETES_IN: u64 = 3;

/// Makes range deletes of deletes, if the history of this seed is to have some: they begin where
/// the delete was, and end at other keys that the history writes.
fn with_range_deletes(operations: &mut [Operation], environment: Environment, seed: u64) {
    let random = Random::for_purpose(seed, RANGE_DELETES_PURPOSE + environment as u64);
    if random.below(RANGE_DELETES_IN) > 0 {
        return;
    }
    let written = |operation: &Operation| match operation {
        Operation::Write { writes, .. } => writes.iter().map(|write| write.key.clone()).collect(),
        _ => Vec::new(),
    };
    let keys: Vec<_> = operations.iter().flat_map(written).collect();
    let deletes = RangeDeletes { random: &random, keys, one_in: 1 + random.below(6) };
    operations.iter_mut().for_each(|operation| deletes.make_some(operation));
}

struct RangeDeletes<'a> {
    random: &'a Random,
    /// Where they may end.
    keys: Vec<Vec<u8>>,
    /// One in so many deletes of a key becomes a range delete.
    one_in: u64,
}

impl RangeDeletes<'_> {
    fn make_some(&self, operation: &mut Operation) {
        match operation {
            Operation::Write { writes, .. } => {
                let deletes = writes.iter_mut().filter(|write| write.change == Change::Delete);
                deletes.for_each(|write| self.make_of(write));
            }
            Operation::Interrupt { operation, .. } => self.make_some(operation),
            _ => {}
        }
    }

    fn make_of(&self, write: &mut Write) {
        if self.random.below(self.one_in) > 0 {
            return;
        }
        let end = match self.random.below(10) {
            0 => Vec::new(),
            // All keys that begin with this one, if that can be said.
            1 | 2 if write.key.last().is_some_and(|last| *last < 255) => {
                let mut end = write.key.clone();
                end.last_mut().into_iter().for_each(|last| *last += 1);
                end
            }
            _ => self.keys[self.random.below(self.keys.len() as u64) as usize].clone(),
        };
        // A reversed range deletes nothing, which needs no more than a few.
        let is_reversed = !end.is_empty() && end < write.key && self.random.below(8) > 0;
        let (from, to) = if is_reversed { (end, write.key.clone()) } else { (write.key.clone(), end) };
        *write = Write { key: from, change: Change::DeleteRange(to) };
    }
}

/// Draws options: a named set, or small sizes of everything.
fn drawn(random: &Random) -> OptionSet {
    if random.below(3) == 0 {
        return option_sets()[random.below(option_sets().len() as u64) as usize].clone();
    }
    let one_of = |values: &[Option<u64>]| values[random.below(values.len() as u64) as usize];
    OptionSet {
        memory: Some(1 << 20),
        memtable: Some(size(random)),
        immutable: Some(1 + random.below(3)),
        block: Some(64 + random.below(200)),
        table: Some(1 + random.below([100, 1500][random.below(2) as usize])),
        cache: Some(random.below(2) * 10_000),
        index: one_of(&[None, None, Some(0)]),
        manifest: one_of(&[None, None, Some(0), Some(2000)]),
        reserve: one_of(&[None, None, None, Some(0)]),
        files: one_of(&[None, None, Some(1), Some(5)]),
        threads: Some(1 + random.below(3)),
        space: one_of(&[None, None, None, Some([102, 120, 150, 250][random.below(4) as usize])]),
        direct: Some(random.below(2)),
        digests: one_of(&[None, None, None, Some(0)]),
        strict: one_of(&[None, None, None, Some(1)]),
        compression: one_of(&[None, None, Some(0)]),
        durability: [None, None, Some(Level::Sync), Some(Level::Interval(5))][random.below(4) as usize],
        filter: (random.below(3) == 0).then(|| filter(random)),
        policy: (random.below(8) > 0).then(|| policy(random)),
        ..OptionSet::default()
    }
}

/// Draws the size of a memtable: often one entry, seldom many.
fn size(random: &Random) -> u64 {
    1 + random.below([10, 60, 200, 600][random.below(4) as usize])
}

/// Draws the specification of a policy.
fn policy(random: &Random) -> String {
    let ratio = 2 + random.below([2, 9][random.below(2) as usize]);
    match random.below(7) {
        0 if ratio == 3 => "auto".to_owned(),
        1 if ratio == 3 => "auto:tiering:T=3".to_owned(),
        0 => format!("leveling:T={ratio}"),
        1 => format!("tiering:T={ratio}"),
        2 => format!("lazy-leveling:T={ratio}"),
        3 => {
            let slots = |random: &Random| 1 + random.below(ratio - 1);
            format!("dostoevsky:T={ratio},K={},Z={}", slots(random), slots(random))
        }
        4 | 5 => custom(random),
        _ => uneven(random, ratio),
    }
}

/// The history of a seed, in databases whose policy is always automatic, and whose memtables and
/// filters are not given.
pub(crate) fn automatic(environment: Environment, seed: u64) -> History {
    let mut history = history(environment, seed);
    let automate = |options: &mut OptionSet| {
        options.policy = Some("auto".to_owned());
        (options.memtable, options.filter) = (None, None);
    };
    automate(&mut history.setup.options);
    for operation in &mut history.operations {
        match operation {
            Operation::Options(options) | Operation::Transfer(options) => automate(options),
            Operation::Policy(words) => "auto".clone_into(words),
            _ => {}
        }
    }
    history
}

/// Draws a policy whose size ratios differ from level to level.
fn uneven(random: &Random, ratio: u64) -> String {
    let one_of = |values: [&'static str; 5]| values[random.below(5) as usize];
    match random.below(3) {
        0 => {
            let first = [String::new(), format!(",first={}", 2 + random.below(6))][random.below(2) as usize].clone();
            format!("garnering:T={ratio},c={}{first}", one_of(["0.1", "0.4", "0.8", "0.95", "1"]))
        }
        1 => format!(
            "moose:last={},k={}",
            one_of(["0.5", "0.6", "0.8", "0.9", "0.99"]),
            one_of(["0.01", "0.5", "1", "2", "100"])
        ),
        _ => format!("qlsm-bush:T={},X={}", ratio.min(4), 1 + random.below(3)),
    }
}

/// Draws filters of any kind and size, uniform or allocated, or none.
fn filter(random: &Random) -> String {
    let kind = ["bloom", "blocked"][random.below(2) as usize];
    let bits = [0.5, 2.0, 5.0, 10.0, 20.0][random.below(5) as usize];
    let allocation = ["uniform", "monkey", "monkey-general,v=2", "observed"][random.below(4) as usize];
    match random.below(7) {
        0 => "none".to_owned(),
        1 => format!("elastic:bits={bits}"),
        2 => format!("chucky:bits={}", [10, 12, 15, 18][random.below(4) as usize]),
        _ => format!("{kind}:bits={bits},allocation={allocation}"),
    }
}

/// Draws a valid shape of one to four levels: a level has at least one and a half of what arrives
/// at a time, and a slot all of it.
fn custom(random: &Random) -> String {
    let buffer = size(random);
    let (mut words, mut batch) = (format!("custom:buffer {buffer}"), buffer);
    for _ in 0..1 + random.below(4) {
        let halves = 3 + random.below([2, 8, 16][random.below(3) as usize]);
        let capacity = (batch * halves).div_ceil(2);
        let slots = 1 + random.below(capacity / batch);
        words += &format!("; level {capacity} in {slots} runs");
        batch = capacity;
    }
    words
}

/// Draws the frequency of each kind.
fn kinds(random: &Random, possible: &[Kind]) -> Vec<Kind> {
    let mut drawn = Vec::new();
    for kind in possible {
        // Every history writes; anything else may be missing.
        let writes = matches!(kind, Kind::Put | Kind::Delete | Kind::Write | Kind::WriteBuffered | Kind::WriteSync);
        let factor = if writes { 2 } else { [0, 1, 2, 6][random.below(4) as usize] };
        drawn.extend(std::iter::repeat_n(*kind, (kind.weight() * factor) as usize));
    }
    drawn
}

struct Generator<'a> {
    random: &'a Random,
    /// Kinds, each as often as its frequency says, times that of its list.
    kinds: Vec<(u64, Vec<Kind>)>,
    /// Draws in a thousand that are many writes at once.
    bursts: u64,
    /// The slot of everything that has one, while an operation and what it needs are drawn.
    slot: Option<u8>,
    keys: Vec<Vec<u8>>,
    /// Percentage of deletes.
    deletes: u64,
    /// A counter that makes values distinct.
    values_made: u64,
}

impl<'a> Generator<'a> {
    fn new(random: &'a Random, environment: Environment) -> Self {
        let kinds = kinds(random, &possible(environment));
        Self::with_kinds(random, vec![(1, kinds)], [0, 20, 40, 120][random.below(4) as usize])
    }

    /// For a long history: nine in ten operations read, one in some hundreds neither reads nor
    /// writes.
    fn of_long(random: &'a Random, environment: Environment) -> Self {
        let (quick, others): (Vec<_>, Vec<_>) = possible(environment).into_iter().partition(|kind| kind.is_read());
        let (writes, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|kind| kind.is_write());
        let frequency = [2, 6, 20][random.below(3) as usize];
        let lists = [(250, quick), (frequency, writes), (1, others)];
        let kinds = lists.map(|(factor, list)| (factor, kinds(random, &list))).to_vec();
        Self::with_kinds(random, kinds, random.below(2))
    }

    fn with_kinds(random: &'a Random, kinds: Vec<(u64, Vec<Kind>)>, bursts: u64) -> Self {
        // With few keys there are many versions of each; with many, runs grow and have parts
        // without overlap.
        let keys = match random.below(3) {
            0 => (0..12 + random.below(60)).map(|_| wide_key(random)).collect(),
            _ => (0..1 + random.below(10)).map(|_| key(random)).collect(),
        };
        let deletes = [10, 30, 60][random.below(3) as usize];
        Self { random, kinds, bursts, slot: None, keys, deletes, values_made: 0 }
    }

    /// Draws how many operations follow those that are due.
    fn length(&self, _environment: Environment) -> u64 {
        15 + self.random.below(60)
    }

    /// Appends an operation, or a burst of writes.
    fn operations(&mut self, operations: &mut Vec<Operation>) {
        if self.random.below(1000) < self.bursts {
            operations.extend(self.burst());
        } else {
            let kind = self.kind();
            operations.push(self.operation_of(kind));
        }
    }

    fn kind(&self) -> Kind {
        let mut at = self.random.below(self.kinds.iter().map(|(factor, kinds)| factor * kinds.len() as u64).sum());
        for (factor, kinds) in &self.kinds {
            match kinds.get((at / factor) as usize) {
                Some(kind) => return *kind,
                None => at -= factor * kinds.len() as u64,
            }
        }
        unreachable!("the number is below the sum")
    }

    /// Draws many writes.
    fn burst(&mut self) -> Vec<Operation> {
        let kinds = [Kind::Put, Kind::Put, Kind::Delete, Kind::Write, Kind::WriteBuffered, Kind::WriteSync];
        let count = 5 + self.random.below(50);
        (0..count).map(|_| self.operation_of(kinds[self.random.below(kinds.len() as u64) as usize])).collect()
    }

    /// Appends an operation with what it needs: a snapshot, a scan, an ingest, a pause, a limit.
    fn prepared(&mut self, kind: Kind, operations: &mut Vec<Operation>) {
        self.slot = Some(self.random.below(SLOTS) as u8);
        let needs = match kind {
            Kind::GetAt | Kind::ContainsAt | Kind::MultiGetAt | Kind::ScanAt | Kind::DropSnapshot => {
                Some(Kind::TakeSnapshot)
            }
            Kind::OpenScan => Some(Kind::TakeSnapshot),
            Kind::StepScan | Kind::DropScan => {
                operations.push(self.operation_of(Kind::TakeSnapshot));
                Some(Kind::OpenScan)
            }
            Kind::FinishIngest | Kind::DropIngest => Some(Kind::OpenIngest),
            Kind::Resume => Some(Kind::Pause),
            Kind::NoLimit => Some(Kind::Limit),
            _ => None,
        };
        operations.extend(needs.map(|needed| self.operation_of(needed)));
        operations.push(self.operation_of(kind));
        self.slot = None;
    }

    fn operation_of(&mut self, kind: Kind) -> Operation {
        let snapshot = |generator: &Self| Reader::Snapshot(generator.slot());
        match kind {
            Kind::Put => Operation::Write {
                writes: vec![Write { key: self.key(), change: Change::Put(self.value()) }],
                level: Level::Usual,
            },
            Kind::Delete => Operation::Write {
                writes: vec![Write { key: self.key(), change: Change::Delete }],
                level: Level::Usual,
            },
            Kind::Write => {
                // One write alone would be a put or a delete.
                let count = [0, 2, 3, 5][self.random.below(4) as usize];
                Operation::Write { writes: (0..count).map(|_| self.write()).collect(), level: Level::Usual }
            }
            Kind::WriteBuffered => Operation::Write { writes: self.writes(), level: Level::Buffered },
            Kind::WriteSync => Operation::Write { writes: self.writes(), level: Level::Sync },
            Kind::WriteInterval => {
                Operation::Write { writes: self.writes(), level: Level::Interval(self.random.below(20)) }
            }
            Kind::Get => Operation::Get { reader: Reader::Now, key: self.key() },
            Kind::GetAt => Operation::Get { reader: snapshot(self), key: self.key() },
            Kind::Contains => Operation::Contains { reader: Reader::Now, key: self.key() },
            Kind::ContainsAt => Operation::Contains { reader: snapshot(self), key: self.key() },
            Kind::MultiGet => Operation::MultiGet { reader: Reader::Now, key: self.key() },
            Kind::MultiGetAt => Operation::MultiGet { reader: snapshot(self), key: self.key() },
            Kind::Scan => self.scan(self.bounds(), vec![Turn::Front]),
            Kind::ScanBack => self.scan(self.bounds(), vec![Turn::Back]),
            Kind::ScanEnds => {
                let mut turns = vec![Turn::Front, Turn::Back];
                turns.extend(
                    (0..self.random.below(5)).map(|_| [Turn::Front, Turn::Back][self.random.below(2) as usize]),
                );
                self.scan(self.bounds(), turns)
            }
            Kind::ScanPrefix => {
                let turn = [Turn::Front, Turn::Back][self.random.below(2) as usize];
                self.scan(self.prefix(), vec![turn])
            }
            Kind::ScanLent => {
                let turns = if self.random.below(2) == 0 { vec![Turn::LentFront] } else { self.turns(true) };
                self.scan(self.range(), turns)
            }
            Kind::ScanAt => {
                let (limit, is_told) = (self.limit(), self.is_told());
                let (range, turns) = (self.range(), self.turns(false));
                Operation::Scan { reader: snapshot(self), range, turns, limit, is_told }
            }
            Kind::TakeSnapshot => Operation::TakeSnapshot(self.slot()),
            Kind::DropSnapshot => Operation::DropSnapshot(self.slot()),
            Kind::OpenScan => Operation::OpenScan { slot: self.slot(), reader: self.reader(), range: self.range() },
            Kind::StepScan => Operation::StepScan { slot: self.slot(), turns: self.turns(false) },
            Kind::DropScan => Operation::DropScan(self.slot()),
            Kind::OpenIngest => Operation::OpenIngest { slot: self.slot(), writes: self.sorted() },
            Kind::DropIngest => Operation::DropIngest(self.slot()),
            Kind::FinishIngest => Operation::FinishIngest(self.slot()),
            Kind::Ingest => Operation::Ingest(self.sorted()),
            Kind::Flush => Operation::Flush,
            Kind::Compact => Operation::Compact,
            Kind::CompactRange => Operation::CompactRange(self.range()),
            Kind::Settle => Operation::Settle,
            Kind::Reshape => Operation::Reshape,
            Kind::Estimate => Operation::Estimate { bytes: self.random.below(5000), policy: policy(self.random) },
            Kind::Checkpoint => Operation::Checkpoint,
            Kind::Pause => Operation::Pause,
            Kind::Resume => Operation::Resume,
            Kind::Policy => Operation::Policy(policy(self.random)),
            Kind::Filter => Operation::Filter(filter(self.random)),
            Kind::SettleFilters => Operation::SettleFilters,
            Kind::Options => Operation::Options(drawn(self.random)),
            Kind::Verify => Operation::Verify,
            Kind::Stats => Operation::Stats,
            Kind::Sync => Operation::Sync,
            Kind::Refused => Operation::Refused,
            Kind::Locked => Operation::Locked,
            Kind::Reopen => Operation::Reopen,
            Kind::Linger => Operation::Linger,
            Kind::Look => Operation::Look,
            Kind::VerifyClosed => Operation::VerifyClosed,
            Kind::Repair => Operation::Repair,
            Kind::Transfer => Operation::Transfer(drawn(self.random)),
            Kind::Kill => Operation::End(Ending::Kill),
            Kind::Crash => Operation::End(self.crash()),
            Kind::Interrupt => {
                let kinds = [
                    Kind::Put,
                    Kind::Write,
                    Kind::WriteSync,
                    Kind::Ingest,
                    Kind::Ingest,
                    Kind::FinishIngest,
                    Kind::Flush,
                    Kind::Compact,
                    Kind::CompactRange,
                    Kind::Settle,
                    Kind::SettleFilters,
                    Kind::Reshape,
                    Kind::Checkpoint,
                    Kind::Policy,
                    Kind::Filter,
                    Kind::Sync,
                    Kind::Reopen,
                    Kind::Kill,
                    Kind::Crash,
                    Kind::Background,
                ];
                let kind = kinds[self.random.below(kinds.len() as u64) as usize];
                Operation::Interrupt {
                    calls: self.random.below([4, 25][self.random.below(2) as usize]),
                    ending: self.ending(),
                    operation: Box::new(self.operation_of(kind)),
                }
            }
            Kind::Background => {
                Operation::Background(1 + self.random.below([6, 40, 200][self.random.below(3) as usize]))
            }
            Kind::Advance => Operation::Advance([1, 10, 1000][self.random.below(3) as usize]),
            Kind::Fault => {
                let all: Vec<_> = failures().collect();
                let failure = all[self.random.below(all.len() as u64) as usize].clone();
                Operation::Fault { failure, after: self.random.below([3, 30][self.random.below(2) as usize]) }
            }
            Kind::Limit => Operation::Limit(Some(self.random.below(40_000))),
            Kind::NoLimit => Operation::Limit(None),
        }
    }

    fn scan(&self, range: Range, turns: Vec<Turn>) -> Operation {
        Operation::Scan { reader: Reader::Now, range, turns, limit: self.limit(), is_told: self.is_told() }
    }

    fn is_told(&self) -> bool {
        self.random.below(2) == 0
    }

    fn limit(&self) -> u64 {
        [3, 100][self.random.below(2) as usize]
    }

    fn writes(&mut self) -> Vec<Write> {
        let count = if self.random.below(3) > 0 { 1 } else { self.random.below(6) };
        (0..count).map(|_| self.write()).collect()
    }

    /// Puts of different keys, in order.
    fn sorted(&mut self) -> Vec<Write> {
        let count = self.random.below([4, 30][self.random.below(2) as usize]);
        let mut keys: Vec<_> = (0..count).map(|_| self.key()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter().map(|key| Write { key, change: Change::Put(self.value()) }).collect()
    }

    fn write(&mut self) -> Write {
        let is_put = self.random.below(100) >= self.deletes;
        let change = if is_put { Change::Put(self.value()) } else { Change::Delete };
        Write { key: self.key(), change }
    }

    fn value(&mut self) -> Vec<u8> {
        self.values_made += 1;
        match self.random.below(20) {
            0 => Vec::new(),
            1 => vec![b'a' + (self.values_made % 26) as u8; 200 + self.random.below(6000) as usize],
            _ => format!("v{}", self.values_made).into_bytes(),
        }
    }

    fn ending(&self) -> Ending {
        if self.random.below(3) == 0 { Ending::Kill } else { self.crash() }
    }

    fn crash(&self) -> Ending {
        Ending::Crash(self.random.below(1 << 32))
    }

    fn key(&self) -> Vec<u8> {
        self.keys[self.random.below(self.keys.len() as u64) as usize].clone()
    }

    fn reader(&self) -> Reader {
        if self.random.below(2) == 0 { Reader::Now } else { Reader::Snapshot(self.slot()) }
    }

    fn slot(&self) -> u8 {
        self.slot.unwrap_or_else(|| self.random.below(SLOTS) as u8)
    }

    fn range(&self) -> Range {
        if self.random.below(4) == 0 { self.prefix() } else { self.bounds() }
    }

    fn prefix(&self) -> Range {
        let key = self.key();
        Range::Prefix(key[..self.random.below(key.len() as u64 + 1) as usize].to_vec())
    }

    fn bounds(&self) -> Range {
        match self.random.below(3) {
            0 => Range::Bounds(Bound::Unbounded, Bound::Unbounded),
            _ => Range::Bounds(self.bound(), self.bound()),
        }
    }

    fn bound(&self) -> Bound<Vec<u8>> {
        let key = if self.random.below(2) == 0 { self.key() } else { key(self.random) };
        match self.random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// Draws turns; lent ones are among them if they must be, and may be otherwise.
    fn turns(&self, lent: bool) -> Vec<Turn> {
        let all = [Turn::Front, Turn::Back, Turn::LentFront, Turn::LentBack];
        let mut turns = match self.random.below(3) {
            0 => vec![Turn::Front],
            1 => vec![Turn::Back],
            _ => (0..1 + self.random.below(6)).map(|_| all[self.random.below(4) as usize]).collect(),
        };
        turns.extend(lent.then(|| all[2 + self.random.below(2) as usize]));
        turns
    }
}

/// One of some hundred keys.
fn wide_key(random: &Random) -> Vec<u8> {
    (0..1 + random.below(3)).map(|_| b'a' + random.below(8) as u8).collect()
}

/// Short keys, so that some are prefixes of others; sometimes empty, long, or at the borders of
/// what bytes can be.
fn key(random: &Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => vec![b'k'; 100 + random.below(600) as usize],
        2 => vec![255; 1 + random.below(2) as usize],
        3 => vec![b'a', 0],
        _ => (0..1 + random.below(3)).map(|_| b'a' + random.below(3) as u8).collect(),
    }
}

#[test]
fn operations_are_of_the_kind_that_is_drawn() {
    let random = Random::for_purpose(1, 0);
    let mut generator = Generator::new(&random, Environment::Faulty);
    for kind in Kind::ALL.iter().flat_map(|kind| [*kind; 50]) {
        assert_eq!(generator.operation_of(kind).kind(), kind);
    }
}
