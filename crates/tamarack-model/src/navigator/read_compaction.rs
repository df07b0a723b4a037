//! Compactions because runs are read: whether lookups and scans repay it, and how far down.
//!
//! ```text
//! level 1  ▭ ▭      one run for levels 1 to j:  saves  (runs - 1) seeks of each scan, and the
//! level 2  ▭ ▭                                         false positives and probes of each lookup,
//! level 3  ▭                                           while so many operations come
//!                                               costs  reading and writing their bytes once
//! ```
//!
//! LevelDB compacts a table after a number of seeks that found nothing in it. Here the same is
//! decided for whole levels, by time: the reads that are expected to come, at what the model says
//! that they save, against the bytes.
//!
//! **How long it lasts.** As many operations are expected as the present phase of the workload has
//! had ([`controller`](super::controller)). Where some of them write, the tree is
//! [simulated](crate::simulate) with and without the compaction, and the runs of the two are
//! compared while so much is written. In a leveled tree nothing is gained then: each level is empty
//! once in a cycle, and the compaction only changes when. Levels of many runs have fewer for long.
//!
//! A compaction has to save [`GAIN_MIN`] times what it takes, since operations to come are a guess.
//!
//! A run that is built is taken to have the worst false positive rate of those that are now in its
//! level or above: its filter is decided when it is built, and larger levels have fewer bits per
//! entry.

use std::collections::BTreeMap;

use crate::bound::SpaceBound;
use crate::cost::range;
use crate::cost::time::{LookupWork, ScanWork, Work};
use crate::device::Device;
use crate::filter::FilterChoice;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::policy::ShapeFamily;
use crate::shape::Shape;
use crate::simulate::{Pace, Tree};
use crate::units::Bytes;
use crate::workload::Workload;

/// What a compaction has to save, in times of what it takes.
pub const GAIN_MIN: f64 = 2.0;

/// The most memtables for which trees are simulated: what comes later is not counted.
const MEMTABLES_MAX: usize = 1000;

/// A tree with nothing in progress.
#[derive(Clone, Copy, Debug)]
pub struct ReadTree<'a> {
    /// The policy.
    pub policy: &'a dyn ShapeFamily,
    /// The shape.
    pub shape: &'a Shape,
    /// The runs.
    pub occupancy: &'a Occupancy,
    /// The false positive rates of their filters, young to old, from 0 to 1; 1 without a filter.
    pub fprs: &'a [f64],
    /// The upper bound on space amplification, if any.
    pub bound: Option<SpaceBound>,
}

/// A run, as readers meet it.
#[derive(Clone, Copy, Debug)]
struct ReadRun {
    bytes: Bytes,
    fpr: f64,
}

/// What reads of a tree cost, and how many come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    /// The operations.
    pub workload: Workload,
    /// How many of them are expected.
    pub operations: f64,
    /// The share of block reads that a cache serves, from 0 to 1.
    pub hits: f64,
    /// The same for lookups of existing keys, which entries in the cache serve as well.
    pub lookup_hits: f64,
    /// The kind of the filters.
    pub filter: FilterChoice,
    /// Raw bytes of an entry, at least 1.
    pub entry_bytes: u64,
    /// Bytes of a block, at least 1.
    pub block_bytes: u64,
    /// The machine.
    pub device: Device,
}

/// A compaction that pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadCompaction {
    /// The runs of levels 1 to this one become one.
    pub through: usize,
    /// How many these are.
    pub runs: usize,
    /// Their raw bytes.
    pub bytes: Bytes,
    /// Operations that are expected while it saves something.
    pub operations: f64,
    /// Seconds that these operations are expected to save, those of the compaction not subtracted.
    pub gain_seconds: f64,
    /// Seconds that the compaction takes.
    pub compaction_time: f64,
}

/// The compaction with the largest gain after its cost; `None` if none saves [`GAIN_MIN`] times
/// what it takes, or `goes_on` has returned false, which is asked before each simulated memtable.
///
/// # Panics
/// If there are not as many rates as runs, or the tree has levels that its shape lacks.
pub fn read_compaction(tree: &ReadTree<'_>, reads: &Reads, goes_on: &dyn Fn() -> bool) -> Option<ReadCompaction> {
    let ReadTree { shape, occupancy, .. } = *tree;
    let counts = (1..=occupancy.deepest()).scan((0, Bytes::ZERO), |(runs, bytes), level| {
        *runs += occupancy.level(level).len();
        *bytes += occupancy.level_bytes(level);
        Some((level, *runs, *bytes))
    });
    let is_sound = |&(level, runs, bytes): &(usize, usize, Bytes)| {
        let stays = level >= shape.last() || bytes < shape.full_from(level);
        runs > 1 && stays && !occupancy.level(level).is_empty()
    };
    let compaction = |(through, runs, bytes): (usize, usize, Bytes)| {
        let (operations, gain_seconds) = reads.gain(tree, through, goes_on)?;
        let compaction_time = reads.device.copy_seconds(bytes, reads.entry_bytes as f64);
        Some(ReadCompaction { through, runs, bytes, operations, gain_seconds, compaction_time })
    };
    let compactions = counts.filter(is_sound).map(compaction).collect::<Option<Vec<_>>>()?;
    let net = |found: &ReadCompaction| found.gain_seconds - found.compaction_time;
    let pays = |found: &ReadCompaction| found.gain_seconds > GAIN_MIN * found.compaction_time;
    compactions.into_iter().filter(pays).max_by(|one, other| net(one).total_cmp(&net(other)))
}

/// What filters of runs are like: those that are there, and those to be built.
struct Rates {
    known: BTreeMap<RunId, f64>,
    /// Of runs to be built, level 1 first.
    built: Vec<f64>,
}

impl Rates {
    fn of(tree: &ReadTree<'_>) -> Self {
        assert_eq!(tree.occupancy.runs().count(), tree.fprs.len(), "one rate for each run");
        let known: BTreeMap<RunId, f64> =
            tree.occupancy.runs().map(|(_, run)| run.id).zip(tree.fprs.iter().copied()).collect();
        let worst = |level: usize| {
            let runs = tree.occupancy.runs().filter(|(at, _)| *at <= level);
            runs.map(|(_, run)| known[&run.id]).reduce(f64::max)
        };
        let all = tree.fprs.iter().copied().fold(0.0, f64::max);
        let built = (1..=tree.shape.last()).map(|level| worst(level).unwrap_or(all)).collect();
        Self { known, built }
    }

    /// The runs of a simulated tree, young to old.
    fn runs(&self, tree: &Tree<'_>) -> Vec<ReadRun> {
        let built = |level: usize| self.built[level.min(self.built.len()) - 1];
        let run = |(level, run): (usize, &Run)| ReadRun {
            bytes: run.bytes,
            fpr: self.known.get(&run.id).copied().unwrap_or_else(|| built(level)),
        };
        tree.occupancy().runs().map(run).collect()
    }
}

impl Reads {
    /// Mean seconds of an operation, what writes cause later not included.
    fn seconds(&self, runs: &[ReadRun]) -> f64 {
        let all: f64 = runs.iter().map(|run| run.bytes.as_f64()).sum();
        let has_filter = |run: &ReadRun| if run.fpr < 1.0 { 1.0 } else { 0.0 };
        let (mut probes, mut blocks, mut younger) = (0.0, 1.0, 0.0);
        for run in runs {
            younger += run.bytes.as_f64();
            let passed = 1.0 - younger / all.max(1.0);
            // The run that has the key is probed as well.
            probes += (passed + run.bytes.as_f64() / all.max(1.0)) * has_filter(run);
            blocks += passed * run.fpr;
        }
        let (mut absent_probes, absent_blocks) =
            (runs.iter().map(has_filter).sum(), runs.iter().map(|run| run.fpr).sum());
        if matches!(self.filter, FilterChoice::Tree { .. }) {
            (probes, absent_probes) = (1.0, 1.0);
        }
        let per_block = range::entries_per_block(self.block_bytes as f64, self.entry_bytes as f64);
        let entries = self.workload.range_entries;
        let scan = ScanWork { seeks: runs.len() as f64, blocks: entries / per_block, entries, hits: self.hits };
        let work = Work {
            zero_result: LookupWork { probes: absent_probes, blocks: absent_blocks, hits: self.hits },
            existing: LookupWork { probes, blocks, hits: self.lookup_hits },
            scan,
            // The same whatever is compacted.
            update_writes: 0.0,
            tables: 0.0,
            filter_entries: 0.0,
            filters_rebuilt: 0.0,
            entry_bytes: self.entry_bytes as f64,
            block_bytes: self.block_bytes as f64,
            filter: self.filter,
        };
        work.seconds(&self.device).mean(&self.workload)
    }

    /// The expected operations that count, and the seconds that they save with one run for the
    /// levels down to this one; `None` if `goes_on` has returned false.
    fn gain(&self, tree: &ReadTree<'_>, through: usize, goes_on: &dyn Fn() -> bool) -> Option<(f64, f64)> {
        let rates = Rates::of(tree);
        let resumed = || {
            let resumed = Tree::resume(tree.policy, tree.shape.clone(), tree.occupancy.clone());
            match tree.bound {
                Some(bound) => resumed.bounded(bound),
                None => resumed,
            }
        };
        let (mut kept, mut one_run) = (resumed(), resumed());
        one_run.compact_for_reads(through);
        one_run.settle();
        let saved =
            |kept: &Tree<'_>, one_run: &Tree<'_>| self.seconds(&rates.runs(kept)) - self.seconds(&rates.runs(one_run));
        let written = self.workload.updates * self.entry_bytes as f64;
        if written == 0.0 {
            return Some((self.operations, self.operations * saved(&kept, &one_run)));
        }
        let (mut operations, mut gain) = (0.0, 0.0);
        for _ in 0..MEMTABLES_MAX {
            if !goes_on() {
                return None;
            }
            let fills_one = kept.shape().buffer().as_f64() / written;
            let meanwhile = fills_one.min(self.operations - operations);
            gain += meanwhile * saved(&kept, &one_run);
            operations += meanwhile;
            if meanwhile < fills_one {
                break;
            }
            for tree in [&mut kept, &mut one_run] {
                tree.fill(tree.shape().buffer(), Pace::Settled);
            }
        }
        Some((operations, gain))
    }
}
