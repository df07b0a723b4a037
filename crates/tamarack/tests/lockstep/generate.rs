//! Generates a history from a seed.
//!
//! Each history draws its own few keys, sizes, and frequencies of operations, many of them zero: a
//! history that only writes, flushes and crashes reaches states that an even mixture never does.
//! Every history has a policy, most often with memtables so small that a few dozen writes make a
//! tree of several levels.

use std::ops::Bound;

use tamarack_env::Random;

use crate::operation::{
    Ending, Environment, History, Level, Operation, Range, Reader, Setup, TreeSetup, Turn, Write, failures,
};

/// Maximum number of open snapshots, and of open scans.
const SLOTS: u64 = 3;

/// Returns the history of a seed.
pub(crate) fn history(environment: Environment, seed: u64) -> History {
    let random = Random::for_purpose(seed, environment as u64);
    let setup = Setup {
        environment,
        seed,
        immutable_memtables_max: 1 + random.below(3),
        block_bytes: 64 + random.below(200),
        table_bytes: 1 + random.below([100, 1500][random.below(2) as usize]),
        cache_bytes: random.below(2) * 10_000,
        tree: tree(&random),
    };
    let mut generator = Generator::new(&random, environment);
    let length = (20 + random.below(60)) as usize;
    let mut operations = Vec::with_capacity(length);
    while operations.len() < length {
        generator.operations(&mut operations);
    }
    History { setup, operations }
}

fn tree(random: &Random) -> TreeSetup {
    let policy = (random.below(8) > 0).then(|| policy(random));
    let space = (random.below(4) == 0).then(|| [102, 120, 150, 250][random.below(4) as usize]);
    TreeSetup { memtable_bytes: size(random), threads: 1 + random.below(3), space, policy }
}

/// Draws the size of a memtable: often one entry, seldom many.
fn size(random: &Random) -> u64 {
    1 + random.below([10, 60, 200, 600][random.below(4) as usize])
}

/// Draws the specification of a policy.
fn policy(random: &Random) -> String {
    let ratio = 2 + random.below([2, 9][random.below(2) as usize]);
    match random.below(7) {
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
    match random.below(6) {
        0 => "none".to_owned(),
        1 => format!("elastic:bits={bits}"),
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

/// Operations that can be drawn, with their average frequency.
const KINDS: [(Kind, u64); 31] = [
    (Kind::Write, 24),
    (Kind::Burst, 2),
    (Kind::Get, 6),
    (Kind::Contains, 2),
    (Kind::Scan, 5),
    (Kind::TakeSnapshot, 3),
    (Kind::DropSnapshot, 1),
    (Kind::OpenScan, 2),
    (Kind::StepScan, 4),
    (Kind::OpenIngest, 2),
    (Kind::FinishIngest, 2),
    (Kind::Ingest, 1),
    (Kind::Flush, 2),
    (Kind::Compact, 1),
    (Kind::CompactRange, 1),
    (Kind::Settle, 1),
    (Kind::Reshape, 1),
    (Kind::Checkpoint, 1),
    (Kind::Pause, 1),
    (Kind::Resume, 1),
    (Kind::Policy, 1),
    (Kind::Options, 1),
    (Kind::Verify, 1),
    (Kind::Sync, 2),
    (Kind::Reopen, 1),
    (Kind::End, 2),
    (Kind::Interrupt, 2),
    (Kind::Background, 6),
    (Kind::Advance, 2),
    (Kind::Fault, 3),
    (Kind::Filter, 2),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Write,
    /// Many writes.
    Burst,
    Get,
    Contains,
    Scan,
    TakeSnapshot,
    DropSnapshot,
    OpenScan,
    StepScan,
    OpenIngest,
    FinishIngest,
    Ingest,
    Flush,
    Compact,
    CompactRange,
    Settle,
    Reshape,
    Checkpoint,
    Pause,
    Resume,
    Policy,
    Options,
    Verify,
    Sync,
    Reopen,
    End,
    Interrupt,
    Background,
    Advance,
    Fault,
    Filter,
}

struct Generator<'a> {
    random: &'a Random,
    /// Draws the frequency of each kind.
    kinds: Vec<Kind>,
    keys: Vec<Vec<u8>>,
    /// Percentage of deletes.
    deletes: u64,
    /// A counter that makes values distinct.
    values_made: u64,
}

impl<'a> Generator<'a> {
    fn new(random: &'a Random, environment: Environment) -> Self {
        let mut kinds = Vec::new();
        for (kind, weight) in KINDS {
            let possible = match kind {
                Kind::Fault => environment == Environment::Faulty,
                Kind::Background | Kind::Advance | Kind::Interrupt => environment.is_simulated(),
                _ => true,
            };
            // Every history writes; anything else may be missing.
            let factor = if kind == Kind::Write { 2 } else { [0, 1, 2, 6][random.below(4) as usize] };
            let count = if possible { weight * factor } else { 0 };
            kinds.extend(std::iter::repeat_n(kind, count as usize));
        }
        // With few keys there are many versions of each; with many, runs grow and have parts
        // without overlap.
        let keys = match random.below(3) {
            0 => (0..12 + random.below(60)).map(|_| wide_key(random)).collect(),
            _ => (0..1 + random.below(10)).map(|_| key(random)).collect(),
        };
        Self { random, kinds, keys, deletes: [10, 30, 60][random.below(3) as usize], values_made: 0 }
    }

    /// Appends an operation, or a burst of writes.
    fn operations(&mut self, operations: &mut Vec<Operation>) {
        match self.kinds[self.random.below(self.kinds.len() as u64) as usize] {
            Kind::Burst => {
                let count = 10 + self.random.below(50);
                operations.extend((0..count).map(|_| self.operation_of(Kind::Write)));
            }
            kind => operations.push(self.operation_of(kind)),
        }
    }

    fn operation_of(&mut self, kind: Kind) -> Operation {
        match kind {
            Kind::Write | Kind::Burst => Operation::Write { writes: self.writes(), level: self.level() },
            Kind::Get => Operation::Get { reader: self.reader(), key: self.key() },
            Kind::Contains => Operation::Contains { reader: self.reader(), key: self.key() },
            Kind::Scan => Operation::Scan {
                reader: self.reader(),
                range: self.range(),
                turns: self.turns(),
                limit: [3, 100][self.random.below(2) as usize],
            },
            Kind::TakeSnapshot => Operation::TakeSnapshot(self.slot()),
            Kind::DropSnapshot => Operation::DropSnapshot(self.slot()),
            Kind::OpenScan => Operation::OpenScan { slot: self.slot(), reader: self.reader(), range: self.range() },
            Kind::StepScan if self.random.below(8) == 0 => Operation::DropScan(self.slot()),
            Kind::StepScan => Operation::StepScan { slot: self.slot(), turns: self.turns() },
            Kind::OpenIngest => Operation::OpenIngest { slot: self.slot(), writes: self.sorted() },
            Kind::FinishIngest if self.random.below(10) == 0 => Operation::DropIngest(self.slot()),
            Kind::FinishIngest => Operation::FinishIngest(self.slot()),
            Kind::Ingest => Operation::Ingest(self.sorted()),
            Kind::Flush => Operation::Flush,
            Kind::Compact => Operation::Compact,
            Kind::CompactRange => Operation::CompactRange(self.range()),
            Kind::Settle => Operation::Settle,
            Kind::Reshape => Operation::Reshape,
            Kind::Checkpoint => Operation::Checkpoint,
            Kind::Pause => Operation::Pause,
            Kind::Resume => Operation::Resume,
            Kind::Policy => Operation::Policy(policy(self.random)),
            Kind::Filter => Operation::Filter(filter(self.random)),
            Kind::Options => Operation::Options(tree(self.random)),
            Kind::Verify => Operation::Verify,
            Kind::Sync => Operation::Sync,
            Kind::Reopen => Operation::Reopen,
            Kind::End => Operation::End(self.ending()),
            Kind::Interrupt => {
                let kinds = [
                    Kind::Write,
                    Kind::Write,
                    Kind::Ingest,
                    Kind::Ingest,
                    Kind::FinishIngest,
                    Kind::Flush,
                    Kind::Compact,
                    Kind::CompactRange,
                    Kind::Settle,
                    Kind::Reshape,
                    Kind::Checkpoint,
                    Kind::Policy,
                    Kind::Sync,
                    Kind::Reopen,
                    Kind::End,
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
            Kind::Fault => match self.random.below(8) {
                0 => Operation::Limit(Some(self.random.below(40_000))),
                1 => Operation::Limit(None),
                _ => {
                    let all: Vec<_> = failures().collect();
                    let failure = all[self.random.below(all.len() as u64) as usize].clone();
                    Operation::Fault { failure, after: self.random.below([3, 30][self.random.below(2) as usize]) }
                }
            },
        }
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
        keys.into_iter().map(|key| Write { key, value: Some(self.value()) }).collect()
    }

    fn write(&mut self) -> Write {
        let value = (self.random.below(100) >= self.deletes).then(|| self.value());
        Write { key: self.key(), value }
    }

    fn value(&mut self) -> Vec<u8> {
        self.values_made += 1;
        match self.random.below(20) {
            0 => Vec::new(),
            1 => vec![b'a' + (self.values_made % 26) as u8; 200 + self.random.below(6000) as usize],
            _ => format!("v{}", self.values_made).into_bytes(),
        }
    }

    fn level(&self) -> Level {
        match self.random.below(6) {
            0 | 1 => Level::Sync,
            2 => Level::Interval(self.random.below(20)),
            _ => Level::Buffered,
        }
    }

    fn ending(&self) -> Ending {
        if self.random.below(3) == 0 { Ending::Kill } else { Ending::Crash(self.random.below(1 << 32)) }
    }

    fn key(&self) -> Vec<u8> {
        self.keys[self.random.below(self.keys.len() as u64) as usize].clone()
    }

    fn reader(&self) -> Reader {
        if self.random.below(2) == 0 { Reader::Now } else { Reader::Snapshot(self.slot()) }
    }

    fn slot(&self) -> u8 {
        self.random.below(SLOTS) as u8
    }

    fn range(&self) -> Range {
        match self.random.below(4) {
            0 => Range::Bounds(Bound::Unbounded, Bound::Unbounded),
            1 => {
                let key = self.key();
                Range::Prefix(key[..self.random.below(key.len() as u64 + 1) as usize].to_vec())
            }
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

    fn turns(&self) -> Vec<Turn> {
        match self.random.below(3) {
            0 => vec![Turn::Front],
            1 => vec![Turn::Back],
            _ => (0..1 + self.random.below(6))
                .map(|_| [Turn::Front, Turn::Back][self.random.below(2) as usize])
                .collect(),
        }
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
