//! Workloads of the fault tests: short scripts, some written, some drawn from a seed, that make
//! every kind of call.

use std::time::Duration;

use tamarack::Durability;
use tamarack::mistake::{self, Mistake};
use tamarack_env::Random;

use crate::history::KeyWrite;

/// How long a write with `Durability::Interval` waits for its sync.
pub(crate) const INTERVAL: Duration = Duration::from_millis(10);

/// How long a controller waits that changes designs at random.
const BETWEEN_CHANGES: Duration = Duration::from_micros(300);

/// One thing that a user does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes a batch.
    Write(Vec<KeyWrite>, Durability),
    /// Writes a batch of a range delete and what follows it.
    DeleteRange(Vec<u8>, Vec<u8>, Vec<KeyWrite>, Durability),
    /// `Db::sync`.
    Sync,
    /// `Db::flush`.
    Flush,
    /// `Db::compact`.
    Compact,
    /// `Db::compact_range` of the keys between two.
    CompactRange(Vec<u8>, Vec<u8>),
    /// `Db::wait_for_compactions`.
    Settle,
    /// `Db::reshape`.
    Reshape,
    /// `Db::set_policy`.
    Policy(&'static str),
    /// `Db::checkpoint`, each in a directory of its own.
    Checkpoint,
    /// `Db::get` of one key.
    Get(Vec<u8>),
    /// `Db::multi_get` of every key that there is, and of one that there is not.
    GetAll,
    /// A scan of everything, forward or backward.
    Scan { reverse: bool },
    /// Takes a snapshot, in place of an earlier one.
    Snapshot,
    /// Scans the snapshot.
    ScanSnapshot,
    /// `Db::verify`.
    Verify,
    /// Lets so much time pass, and the background work do what it can.
    Wait(Duration),
    /// `Db::close`, then opens it again.
    Reopen,
    /// Drops the handle and opens the database again.
    DropAndReopen,
}

/// A script.
pub(crate) struct Workload {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Its steps; opening comes before them.
    pub(crate) ops: Vec<Op>,
    /// The policy is automatic, and all of the design changes at random.
    pub(crate) is_at_random: bool,
}

impl Workload {
    fn new(name: impl Into<String>, ops: Vec<Op>) -> Self {
        Self { name: name.into(), ops, is_at_random: false }
    }

    /// The same with a design that changes at random: once before each step.
    pub(crate) fn at_random(self) -> Self {
        let ops = self.ops.into_iter().flat_map(|op| {
            let op = if let Op::Policy(_) = op { Op::Policy("auto") } else { op };
            [Op::Wait(BETWEEN_CHANGES), op]
        });
        Self { name: self.name + " with designs at random", ops: ops.collect(), is_at_random: true }
    }

    /// Runs it in this way.
    pub(crate) fn planted<T>(&self, run: impl FnOnce() -> T) -> T {
        if self.is_at_random { mistake::with(Mistake::DesignsAtRandom, run) } else { run() }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:02}").into_bytes()
}

fn put(number: u64, value: impl std::fmt::Display) -> KeyWrite {
    (key(number), Some(format!("value {value:03}").into_bytes()))
}

fn delete(number: u64) -> KeyWrite {
    (key(number), None)
}

/// Deletes of all keys of the workloads that lie between two.
pub(crate) fn deletes_within(from: &[u8], to: &[u8]) -> impl Iterator<Item = KeyWrite> {
    (0..100).map(key).filter(move |key| from <= &key[..] && &key[..] < to).map(|key| (key, None))
}

fn write(durability: Durability, changes: impl IntoIterator<Item = KeyWrite>) -> Op {
    Op::Write(changes.into_iter().collect(), durability)
}

/// Puts of single keys, numbered from `first`.
fn puts(durability: Durability, first: u64, count: u64) -> impl Iterator<Item = Op> {
    (first..first + count).map(move |number| write(durability, [put(number * 7 % 12, number)]))
}

/// Memtables fill, segments rotate, tables and edits follow in the background, the WAL is released;
/// reads from all of them.
pub(crate) fn rotation() -> Workload {
    let mut ops: Vec<Op> = puts(Durability::Buffered, 0, 9).collect();
    ops.extend([Op::Wait(Duration::ZERO), Op::Get(key(7)), Op::Scan { reverse: false }]);
    ops.extend(puts(Durability::Buffered, 9, 14));
    ops.extend([Op::Flush, Op::Get(key(0)), Op::GetAll, Op::Scan { reverse: true }, Op::Verify]);
    ops.extend(puts(Durability::Buffered, 23, 3));
    Workload::new("rotation", ops)
}

/// All durability levels beside each other; batches; deletes.
pub(crate) fn durability() -> Workload {
    use Durability::{Buffered, Sync};
    let ops = vec![
        write(Sync, [put(1, 1), put(2, 1)]),
        write(Buffered, [put(1, 2), delete(2), put(3, 2)]),
        write(Durability::Interval(INTERVAL), [put(4, 3)]),
        Op::Wait(INTERVAL),
        write(Buffered, [delete(1), put(5, 4)]),
        Op::Sync,
        write(Buffered, [put(6, 5)]),
        write(Sync, [delete(6), put(2, 6)]),
        write(Buffered, (0..10).map(|number| put(number, 7))),
        write(Sync, [put(0, 8)]),
        Op::Wait(Duration::from_secs(1)),
        Op::Scan { reverse: false },
        write(Durability::Interval(INTERVAL), [put(7, 9)]),
        write(Buffered, [put(8, 10)]),
        Op::Wait(INTERVAL),
        write(Sync, [put(8, 11)]),
        Op::Get(key(8)),
    ];
    Workload::new("durability", ops)
}

/// Runs are compacted into one, in several handovers, beneath a snapshot; and once more, with
/// nothing left of a deleted key.
pub(crate) fn merging() -> Workload {
    use Durability::Buffered;
    let mut ops: Vec<Op> = puts(Buffered, 0, 10).collect();
    ops.extend([Op::Snapshot, write(Buffered, [delete(0), delete(7), put(2, 50)])]);
    ops.extend(puts(Buffered, 12, 6));
    ops.extend([Op::Compact, Op::Get(key(7)), Op::ScanSnapshot, Op::Scan { reverse: true }]);
    ops.extend([write(Buffered, [delete(1), put(3, 51)]), Op::Compact, Op::Scan { reverse: false }, Op::Verify]);
    Workload::new("merging", ops)
}

/// Due compactions: several levels fill, the tree grows, its policy changes meanwhile, and it
/// shrinks again.
pub(crate) fn shaping() -> Workload {
    use Durability::Buffered;
    let mut ops = vec![Op::Policy("tiering:T=2")];
    ops.extend(puts(Buffered, 0, 12));
    ops.extend([Op::Settle, Op::Get(key(7)), Op::GetAll]);
    ops.extend(puts(Buffered, 12, 8));
    ops.extend([Op::Policy("custom:buffer 90; level 200 in 2 runs; level 500 in 1 run"), write(Buffered, [delete(3)])]);
    ops.extend(puts(Buffered, 20, 10));
    ops.extend([Op::Settle, Op::CompactRange(key(2), key(8)), Op::Scan { reverse: true }, Op::DropAndReopen]);
    ops.push(write(Buffered, (0..11).map(delete)));
    ops.extend([Op::Compact, Op::Policy("leveling:T=3"), Op::Reshape, Op::Scan { reverse: false }, Op::Verify]);
    Workload::new("shaping", ops)
}

/// Checkpoints of nothing, of what is in the WAL, of a tree that is compacted right after.
pub(crate) fn checkpoints() -> Workload {
    use Durability::{Buffered, Sync};
    let mut ops = vec![Op::Checkpoint];
    ops.extend(puts(Buffered, 0, 9));
    ops.extend([Op::Checkpoint, write(Sync, [put(1, 60), delete(7)]), Op::Checkpoint, Op::Compact]);
    ops.extend(puts(Buffered, 9, 5));
    ops.extend([
        Op::Get(key(7)),
        Op::Checkpoint,
        Op::Scan { reverse: false },
        write(Buffered, [delete(2)]),
        Op::Verify,
    ]);
    Workload::new("checkpoints", ops)
}

/// What a snapshot sees, while flushes pass beneath it.
pub(crate) fn snapshots() -> Workload {
    use Durability::Buffered;
    let mut ops: Vec<Op> = puts(Buffered, 0, 6).collect();
    ops.push(Op::Snapshot);
    ops.extend(puts(Buffered, 12, 6));
    ops.extend([write(Buffered, [delete(0), delete(7)]), Op::Flush, Op::ScanSnapshot]);
    ops.extend(puts(Buffered, 24, 8));
    ops.extend([Op::Wait(Duration::ZERO), Op::ScanSnapshot, Op::Scan { reverse: true }, Op::Snapshot, Op::Verify]);
    Workload::new("snapshots", ops)
}

/// So many edits that the manifest is rolled several times.
pub(crate) fn rolling() -> Workload {
    use Durability::{Buffered, Sync};
    let mut ops: Vec<Op> = puts(Buffered, 0, 16).collect();
    ops.extend([Op::Flush, write(Sync, [put(1, 60)]), Op::Compact]);
    ops.extend(puts(Buffered, 16, 16));
    ops.extend([Op::Settle, Op::DropAndReopen]);
    ops.extend(puts(Sync, 32, 12));
    ops.extend([Op::Flush, Op::Scan { reverse: false }, Op::Verify]);
    Workload::new("rolling", ops)
}

/// Clean and unclean ends, each with something in the WAL, in tables, and half on the way from one
/// to the other.
pub(crate) fn reopening() -> Workload {
    use Durability::{Buffered, Sync};
    let mut ops: Vec<Op> = puts(Buffered, 0, 8).collect();
    ops.push(Op::Reopen);
    ops.extend(puts(Buffered, 8, 3));
    ops.push(Op::DropAndReopen);
    ops.extend([Op::GetAll, Op::Scan { reverse: false }, write(Sync, [put(1, 90), delete(3)])]);
    ops.extend(puts(Buffered, 11, 9));
    ops.extend([Op::DropAndReopen, Op::Flush, Op::Reopen, Op::Reopen, Op::Get(key(1)), write(Buffered, [put(2, 91)])]);
    Workload::new("reopening", ops)
}

/// Ranges are deleted in the WAL, in tables, beneath a snapshot, and while compactions go on.
pub(crate) fn range_deletes() -> Workload {
    use Durability::{Buffered, Sync};
    let range = |from, to, changes: Vec<KeyWrite>, durability| Op::DeleteRange(key(from), key(to), changes, durability);
    let mut ops: Vec<Op> = puts(Buffered, 0, 10).collect();
    ops.extend([range(2, 5, vec![], Sync), Op::Flush, Op::GetAll, Op::Snapshot]);
    ops.extend([range(6, 11, vec![put(7, 60)], Buffered), Op::Flush, Op::Scan { reverse: true }, Op::ScanSnapshot]);
    ops.extend(puts(Buffered, 12, 8));
    ops.extend([range(0, 9, vec![put(3, 61)], Buffered), Op::DropAndReopen, Op::Scan { reverse: false }, Op::Settle]);
    ops.extend(puts(Buffered, 21, 6));
    ops.extend([range(1, 8, vec![], Buffered), Op::Compact, Op::GetAll, Op::Verify]);
    Workload::new("range deletes", ops)
}

/// All workloads that are written down here.
pub(crate) fn scripts() -> [Workload; 9] {
    [
        rotation(),
        durability(),
        snapshots(),
        merging(),
        shaping(),
        checkpoints(),
        reopening(),
        rolling(),
        range_deletes(),
    ]
}

/// A script drawn from a seed.
pub(crate) fn drawn(seed: u64) -> Workload {
    let random = Random::new(seed);
    let ops = (0..30).map(|at| draw(&random, at)).collect();
    Workload::new(format!("drawn from seed {seed}"), ops)
}

/// What policies change to.
const POLICIES: [&str; 6] = [
    "tiering:T=2",
    "garnering:T=2,c=0.5",
    "leveling:T=2",
    "moose:last=0.8,k=1",
    "lazy-leveling:T=3",
    "qlsm-bush:T=2,X=2",
];

fn draw(random: &Random, at: u64) -> Op {
    match random.below(38) {
        37 => Op::Reshape,
        35 => Op::GetAll,
        36 => Op::Checkpoint,
        32 => Op::Settle,
        33 => Op::Policy(POLICIES[random.below(6) as usize]),
        34 => Op::CompactRange(key(random.below(8)), key(8 + random.below(8))),
        0 => Op::Sync,
        1 => Op::Flush,
        2 => Op::Compact,
        3 | 4 => Op::Get(key(random.below(16))),
        5 | 6 => Op::Scan { reverse: random.below(2) == 0 },
        7 => Op::Snapshot,
        8 => Op::ScanSnapshot,
        9 => Op::Verify,
        10 | 11 => Op::Wait(INTERVAL * random.below(2) as u32),
        12 => Op::Reopen,
        13 => Op::DropAndReopen,
        _ => {
            let durability = match random.below(6) {
                0 => Durability::Sync,
                1 => Durability::Interval(INTERVAL),
                _ => Durability::Buffered,
            };
            let changes = (0..=random.below(3)).map(|_| match random.below(4) {
                0 => delete(random.below(16)),
                _ => put(random.below(16), at),
            });
            write(durability, changes)
        }
    }
}
