//! Predictions of a workload's cost from the present tree.
//!
//! ```text
//! runs, young to old    p = predicted FPR of the filter, e = share of entries, memtables included
//!   absent key    Σ p                              a block per false positive
//!   present key   Σ e · (1 + Σ p of younger runs)  and one with the key; none for memtables
//!   range         a block in each run, the blocks between two fences, and the entries that follow:
//!                 `cost::range::blocks`
//!
//! writes          the simulated planner: these runs, so many bytes flushed ──► bytes written
//! space           bytes of all tables / bytes of live entries
//! ```
//!
//! The models assume no cache. Reads beside writes are predicted for uniform keys only: keys that
//! are read often are also written often, and then lie in young runs, which no share of entries
//! tells.

use tamarack::{RunStats, Stats};
use tamarack_model::bound::SpaceBound;
use tamarack_model::cost::range::{self, Met};
use tamarack_model::simulate::{Keys, Pace, Tree};
use tamarack_model::{Bytes, Level, Occupancy, Run, RunId, Shape, policy};

use super::data::Data;
use super::zipfian::THETA;
use super::{Choice, Does, Mix, Operation, Order, Workload};

/// What an entry has besides key and value, where bytes are raw.
pub(super) const RAW_BYTES_PER_ENTRY: u64 = 8;

/// Blocks per operation; `None` if the models do not cover it.
pub(super) fn blocks(workload: &Workload, stats: &Stats, data: &Data, block_bytes: u64) -> Option<f64> {
    let Does::Mix(mix) = workload.does else { return None };
    if !workload.reads() || (workload.writes() && mix.choice != Choice::Uniform) {
        return None;
    }
    let runs = || stats.levels.iter().flat_map(|level| &level.runs).filter(|run| run.entries > 0);
    let buffered = stats.memtables.iter().map(|memtable| memtable.entries).sum();
    let met: Vec<Met> = runs().map(|run| Met { entries: run.entries as f64, covers: 1.0 }).collect();
    let per_block = range::entries_per_block(block_bytes as f64, (data.entry_bytes() + RAW_BYTES_PER_ENTRY) as f64);
    let scan = |entries| range::blocks(&met, data.all_entries() as f64, entries, per_block, data.digits());
    let of = |operation| match operation {
        Operation::Get | Operation::ReadModifyWrite => found(runs(), buffered),
        Operation::GetMissing => runs().map(|run| run.filter_fpr).sum(),
        Operation::Seek { nexts } => scan(nexts as f64 + 1.0),
        Operation::Scan { entries_max } => scan((entries_max + 1) as f64 / 2.0),
        Operation::Update | Operation::Insert => 0.0,
    };
    Some(mix.operations.iter().map(|(share, operation)| *share as f64 / mix.whole() as f64 * of(*operation)).sum())
}

/// Data blocks that a lookup reads without a cache: of a key that is not there, and of any entry,
/// each as likely.
pub(crate) fn lookup_blocks(stats: &Stats) -> (f64, f64) {
    let runs = || stats.levels.iter().flat_map(|level| &level.runs).filter(|run| run.entries > 0);
    let buffered = stats.memtables.iter().map(|memtable| memtable.entries).sum();
    (runs().map(|run| run.filter_fpr).sum(), found(runs(), buffered))
}

/// For a key that is in one of the runs, which are given young to old, or in a buffer, where so
/// many entries are.
fn found<'a>(runs: impl Iterator<Item = &'a RunStats> + Clone, buffered: u64) -> f64 {
    let entries: u64 = runs.clone().map(|run| run.entries).sum::<u64>() + buffered;
    let mut errors = 0.0;
    runs.map(|run| {
        let blocks = run.entries as f64 / entries as f64 * (1.0 + errors);
        errors += run.filter_fpr;
        blocks
    })
    .sum()
}

/// Write amplification between two moments at which the tree was settled; `None` if nothing was, or
/// the tree of the first moment is none that the planner knows, or the navigator has changed the
/// design in between.
pub(super) fn write_amplification(workload: &Workload, before: &Stats, after: &Stats, data: &Data) -> Option<f64> {
    let buffer = before.memtable_capacity_bytes;
    let flushed = after.flushed_raw_bytes - before.flushed_raw_bytes;
    let design = |stats: &Stats| (stats.policy.clone(), stats.memtable_capacity_bytes);
    if flushed == 0 || design(before) != design(after) {
        return None;
    }
    if matches!(workload.does, Does::Load(Order::Ascending)) {
        // Tables that overlap nothing are moved by compactions, not rewritten.
        return Some(1.0);
    }
    let policy = policy::parse(&before.policy).ok()?;
    let level = |level: &tamarack::LevelStats| Level { capacity: Bytes(level.capacity_bytes), runs: level.run_slots };
    let shape = Shape::new(Bytes(buffer), before.levels.iter().map(level).collect()).ok()?;
    let run = |run: &RunStats| Run { id: RunId(run.id), bytes: Bytes(run.raw_bytes), entries: None };
    let occupancy = before.levels.iter().map(|level| level.runs.iter().map(run).collect()).collect();
    let mut tree = Tree::resume(&policy, shape, Occupancy::new(occupancy));
    if let Some(bound) = before.space_amplification_max.and_then(SpaceBound::new) {
        tree = tree.bounded(bound);
    }
    let entry_bytes = data.entry_bytes() + RAW_BYTES_PER_ENTRY;
    match workload.overwrites() {
        Some(Choice::Uniform) => tree = tree.drawing(Keys::drawn(data.all_entries(), entry_bytes, 0.0)),
        Some(Choice::Zipfian) => tree = tree.drawing(Keys::drawn(data.all_entries(), entry_bytes, THETA)),
        Some(Choice::Latest) => return None,
        None => {}
    }
    let rest = flushed % buffer;
    let whole = (0..flushed / buffer).map(|_| Bytes(buffer));
    let flushes: Vec<Bytes> = whole.chain((rest > 0).then_some(Bytes(rest))).collect();
    Some(tree.run(&flushes, Pace::Settled).write_amplification())
}

/// Bytes of tables on storage for each byte that the live entries would take there alone, if those
/// have so many raw bytes. Compression makes both smaller, so the tree's raw bytes stand for its
/// own tables.
pub(super) fn space_amplification(stats: &Stats, live_raw_bytes: u64) -> Option<f64> {
    let space = &stats.space;
    let in_runs: u64 = stats.levels.iter().map(|level| level.total().raw_bytes).sum();
    let in_buffers: u64 = stats.memtables.iter().map(|memtable| memtable.raw_bytes).sum();
    let beside = match space.live_bytes {
        0 => 0.0,
        live => (space.stale_bytes + space.pending_delete_bytes) as f64 / live as f64,
    };
    (live_raw_bytes > 0).then(|| (in_runs as f64 * (1.0 + beside) + in_buffers as f64) / live_raw_bytes as f64)
}

impl Workload {
    /// Which entries it overwrites, if it does.
    fn overwrites(&self) -> Option<Choice> {
        let Does::Mix(Mix { operations, choice, beside_writer }) = self.does else { return None };
        let is_one =
            |(_, operation): &(u64, Operation)| matches!(operation, Operation::Update | Operation::ReadModifyWrite);
        (beside_writer || operations.iter().any(is_one)).then_some(choice)
    }
}

#[cfg(test)]
mod tests {
    use tamarack::{LevelStats, MemtableStats};

    use super::*;
    use crate::testing::with;

    /// Three runs in two levels, by hand.
    fn three_runs() -> Stats {
        let run = |entries, fpr| with(|run: &mut RunStats| (run.entries, run.filter_fpr) = (entries, fpr));
        let level = |runs| with(|level: &mut LevelStats| level.runs = runs);
        let levels = vec![level(vec![run(100, 0.5), run(300, 0.1), run(0, 1.0)]), level(vec![run(600, 0.01)])];
        with(|stats: &mut Stats| stats.levels = levels)
    }

    fn near(found: Option<f64>, expected: f64) {
        assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} instead of {expected}");
    }

    #[test]
    fn blocks_by_hand() {
        let (mut stats, data) = (three_runs(), Data::new(1000, 16, 84));
        let of = |stats: &Stats, name| blocks(Workload::named(name).expect("it is in the list"), stats, &data, 1200);
        let lookup = 0.1 + 0.3 * 1.5 + 0.6 * 1.6;
        // Eleven entries of 84 bytes, with keys of 16 and 8 more, fill a block of 1200; where a run
        // lacks the key, one gap in eleven is one between two blocks.
        let between = |entries, lacks: f64| lacks / 11.0 * range::before_fence(entries, 16.0);
        let seek = 3.0 + between(100.0, 0.9) + between(300.0, 0.7) + between(600.0, 0.4);
        near(of(&stats, "readmissing"), 0.61);
        near(of(&stats, "readrandom"), lookup);
        near(of(&stats, "readwhilewriting"), lookup);
        near(of(&stats, "ycsb-c"), lookup);
        near(of(&stats, "seekrandom"), seek);
        near(of(&stats, "seekrandom-next10"), seek + 10.0 / 11.0);
        near(of(&stats, "moose-a"), 0.98 * (seek + 9.0 / 11.0) + 0.01 * lookup);
        near(of(&stats, "moose-j"), (seek + 9.0 / 11.0 + lookup) / 3.0);
        for none in ["fillseq", "overwrite", "ycsb-a", "ycsb-e"] {
            assert_eq!(of(&stats, none), None, "{none}");
        }
        // Half as many entries again are in a memtable, and cost nothing.
        stats.memtables = vec![with(|memtable: &mut MemtableStats| memtable.entries = 500)];
        near(of(&stats, "readrandom"), lookup / 1.5);
    }

    /// Tables for 3000 raw bytes, half as much again beside them, and 500 in a buffer; 2000 are
    /// live.
    #[test]
    fn space_by_hand() {
        let runs = vec![with(|run: &mut RunStats| run.raw_bytes = 3000)];
        let levels = vec![with(|level: &mut LevelStats| level.runs = runs)];
        let mut stats = with(|stats: &mut Stats| stats.levels = levels);
        near(space_amplification(&stats, 2000), 1.5);
        stats.space.live_bytes = 1000;
        stats.space.stale_bytes = 300;
        stats.space.pending_delete_bytes = 200;
        stats.memtables = vec![with(|memtable: &mut MemtableStats| memtable.raw_bytes = 500)];
        near(space_amplification(&stats, 2000), 2.5);
        assert_eq!(space_amplification(&stats, 0), None);
    }
}
