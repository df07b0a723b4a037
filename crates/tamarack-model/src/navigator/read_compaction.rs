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
//! had ([`controller`](super::controller)). Writers end the gain earlier: once as much was written
//! as levels 1 to j have space for, these levels would have been compacted anyway.
//!
//! The run that results is taken to have the worst false positive rate of those that it replaces:
//! its filter is decided when it is built, and larger levels have fewer bits per entry.

use crate::cost::range;
use crate::cost::time::{LookupWork, ScanWork, Work};
use crate::device::Device;
use crate::filter::FilterChoice;
use crate::shape::Shape;
use crate::units::Bytes;
use crate::workload::Workload;

/// A run, as readers meet it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadRun {
    /// Its level.
    pub level: usize,
    /// Its raw bytes.
    pub bytes: Bytes,
    /// The false positive rate of its filter, from 0 to 1; 1 without a filter.
    pub fpr: f64,
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
    /// Operations that are expected while it lasts.
    pub operations: f64,
    /// Seconds that these operations are expected to save, those of the compaction not subtracted.
    pub gain_seconds: f64,
    /// Seconds that the compaction takes.
    pub compaction_time: f64,
}

/// The compaction with the largest gain after its cost; `None` if none saves more than it takes.
/// `runs` are those of the tree, young to old, with nothing in progress.
///
/// # Panics
/// If the runs are not in the order of their levels.
pub fn read_compaction(shape: &Shape, runs: &[ReadRun], reads: &Reads) -> Option<ReadCompaction> {
    assert!(runs.is_sorted_by_key(|run| run.level), "runs are ordered by level: {runs:?}");
    let before = reads.seconds(runs);
    let compactions = (1..=runs.len()).filter_map(|count| {
        let (taken, older) = runs.split_at(count);
        let through = taken[count - 1].level;
        // Runs of the same level are taken together.
        let is_whole = older.first().is_none_or(|next| next.level > through);
        let bytes: Bytes = taken.iter().map(|run| run.bytes).sum();
        let stays = through >= shape.last() || bytes < shape.full_from(through);
        if count < 2 || !is_whole || !stays {
            return None;
        }
        let fpr = taken.iter().map(|run| run.fpr).fold(0.0, f64::max);
        let after: Vec<ReadRun> =
            [ReadRun { level: through, bytes, fpr }].into_iter().chain(older.iter().copied()).collect();
        let operations = reads.operations.min(reads.operations_until_full(shape, through, bytes));
        let gain_seconds = (before - reads.seconds(&after)) * operations;
        let compaction_time = reads.compaction_time(bytes);
        Some(ReadCompaction { through, runs: count, bytes, operations, gain_seconds, compaction_time })
    });
    let net = |found: &ReadCompaction| found.gain_seconds - found.compaction_time;
    compactions.filter(|found| net(found) > 0.0).max_by(|one, other| net(one).total_cmp(&net(other)))
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
        let lookup = |probes, blocks| LookupWork { probes, blocks, hits: self.hits };
        let per_block = range::entries_per_block(self.block_bytes as f64, self.entry_bytes as f64);
        let entries = self.workload.range_entries;
        let scan = ScanWork { seeks: runs.len() as f64, blocks: entries / per_block, entries, hits: self.hits };
        let work = Work {
            zero_result: lookup(absent_probes, absent_blocks),
            existing: lookup(probes, blocks),
            scan,
            update_writes: 1.0,
            entry_bytes: self.entry_bytes as f64,
            block_bytes: self.block_bytes as f64,
            filter: self.filter,
        };
        work.seconds(&self.device).mean(&self.workload)
    }

    /// Operations until writers have filled the levels down to this one, which have so many bytes.
    fn operations_until_full(&self, shape: &Shape, through: usize, bytes: Bytes) -> f64 {
        let space: f64 = (1..=through.min(shape.last())).map(|level| shape.full_from(level).as_f64()).sum();
        let written = self.workload.updates * self.entry_bytes as f64;
        if written == 0.0 { f64::INFINITY } else { (space - bytes.as_f64()).max(0.0) / written }
    }

    /// Seconds of reading and writing so many bytes once.
    fn compaction_time(&self, bytes: Bytes) -> f64 {
        let Device { read_bytes_per_second, write_bytes_per_second, compaction_seconds, .. } = self.device;
        let bytes = bytes.as_f64();
        bytes / self.entry_bytes as f64 * compaction_seconds
            + bytes / read_bytes_per_second
            + bytes / write_bytes_per_second
    }
}
