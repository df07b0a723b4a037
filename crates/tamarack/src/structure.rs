//! [`Stats`]: state and counters of a database, as plain numbers.
//!
//! # Units
//!
//! **Raw bytes** are those of entries: key, value, and 8 for each entry. Shapes, debts and write
//! amplification are in raw bytes, which do not depend on compression. **File bytes** are the bytes
//! of tables on storage.
//!
//! # Precision
//!
//! Levels, runs, jobs and memtables are of one moment; counters go on meanwhile. A table that a
//! compaction has cut counts for its run by a share (a half if one side is cut, a third if both
//! are), since the position of a cut among the table's entries is not known without reading it; so
//! sizes of runs in compactions are estimates.
//!
//! Lookups are counted exactly in sum. Lookups by run, and latencies, come from a random sample of
//! one lookup in [`LOOKUPS_PER_SAMPLE`](crate::LOOKUPS_PER_SAMPLE) ([`RunLookups`]).
//!
//! Cost: one pass over all slices. Jobs and the state are read under the scheduler's lock; the pass
//! is made without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_filter::kind_to_number;
use tamarack_model::FilterKind;
use tamarack_model::filter::predict;

use crate::compaction::progress::{BackgroundSnapshot, JobProgress};
use crate::database::Activity;
use crate::engine::Engine;
use crate::format::meta::TableId;
use crate::memory::{Account, MemoryPart};
use crate::stats::{LatencyStats, LookupCounts, ReadStats, RunLookups};
use crate::tree::run::Run;
use crate::tree::state::State;
use crate::tree::table_file::TableFile;
use crate::write::DiskStats;

/// State of a database, and counters since it was opened. Each field names its unit.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Specification of the compaction policy, which gives the tree its shape: `leveling:T=10`.
    pub policy: String,
    /// Size at which a memtable becomes immutable, in raw bytes.
    pub memtable_capacity_bytes: u64,
    /// Memtables: the active one first, then the immutable ones, young to old.
    pub buffers: Vec<MemtableStats>,
    /// Levels of the shape, level 1 (young) first, empty ones included.
    pub levels: Vec<LevelStats>,
    /// Flushes and compactions in progress, in the order in which they began.
    pub jobs: Vec<JobStats>,
    /// Compaction debt: upper bound on the raw bytes that flushes and compactions in progress have
    /// yet to write (garbage among them is dropped). Work that becomes due when they end is not
    /// included.
    pub debt_bytes: u64,
    /// Time to write the debt at the recent speed of flushes and compactions, in seconds. `None` if
    /// the speed has not been measured since opening, or compactions are paused.
    pub debt_seconds: Option<f64>,
    /// Recent speed of all flushes and compactions together while busy, in raw bytes per second, at
    /// most [`crate::AdvancedOptions::compaction_bytes_per_second`]. `None` if not measured since
    /// opening.
    pub compaction_bytes_per_second: Option<f64>,
    /// True while compactions are paused; see [`crate::Db::pause_compactions`].
    pub compactions_paused: bool,
    /// Error that keeps flushes or compactions from making progress now. They are retried
    /// automatically, unless writing has stopped.
    pub background_error: Option<String>,
    /// Error that stopped writing until the database is opened again.
    pub writing_stopped: Option<String>,
    /// Space on the disk, and whether puts are refused for lack of it. `None` if the disk's
    /// capacity is unlimited or unknown.
    pub disk: Option<DiskStats>,
    /// Last error of background work since opening, recovered from or not.
    pub last_background_error: Option<String>,
    /// Space on storage, by kind.
    pub space: SpaceStats,
    /// Upper bound on space amplification once all compactions in progress have ended: raw bytes in
    /// runs per live raw byte, computed from the numbers of entries and tombstones in each run as
    /// if each of them hid an entry of an older run. 1 for an empty tree; infinite if everything
    /// may be deleted. An estimate if the sizes of entries differ much. Entries that snapshots pin
    /// count as live.
    pub space_amplification_worst: f64,
    /// Bound on space amplification that the database keeps; see
    /// [`crate::Options::space_amplification_max`].
    pub space_amplification_max: Option<f64>,
    /// WAL segments on storage.
    pub wal_segments: usize,
    /// Bytes of these WAL segments.
    pub wal_bytes: u64,
    /// Youngest sequence number that readers see.
    pub visible_sequence: u64,
    /// Open snapshots and iterators.
    pub snapshots: usize,
    /// Memory of the database, by part.
    pub memory: MemoryStats,
    /// Size of the block cache and the entry cache together, in bytes.
    pub cache_bytes: u64,
    /// Size of the entry cache alone, in bytes. Its hits: [`LookupCounts::cached_entries`].
    pub cache_entry_bytes: u64,
    /// Block cache hits since opening.
    pub cache_hits: u64,
    /// Block cache misses since opening.
    pub cache_misses: u64,
    /// Reads of data blocks and index blocks from tables since opening, by reader. Blocks that were
    /// in the block cache do not count.
    pub reads: ReadStats,
    /// Memory of the filters of open tables, in bytes. A table is opened when it is first read.
    pub filter_bytes: u64,
    /// Lookups (`get`, `contains` and `multi_get`, also of snapshots) since opening. Lookups by
    /// run: [`RunStats::lookups`].
    pub lookups: LookupCounts,
    /// Lookups that were sampled, about one in [`crate::LOOKUPS_PER_SAMPLE`].
    pub lookups_sampled: u64,
    /// Latencies of the sampled lookups.
    pub latencies: LatencyStats,
    /// Entries committed since opening.
    pub entries_written: u64,
    /// Raw bytes of these entries.
    pub raw_bytes_written: u64,
    /// Commit groups since opening; each is one write to the WAL.
    pub commit_groups: u64,
    /// Memtables flushed since opening.
    pub flushes: u64,
    /// Raw bytes of the entries in these memtables.
    pub flushed_raw_bytes: u64,
    /// File bytes that flushes wrote since opening.
    pub flush_bytes: u64,
    /// Flushes that failed since opening.
    pub flush_failures: u64,
    /// Runs ingested since opening.
    pub ingests: u64,
    /// Raw bytes of the entries in these runs.
    pub ingested_raw_bytes: u64,
    /// File bytes that ingests wrote since opening.
    pub ingest_bytes: u64,
    /// Compactions that ended since opening.
    pub compactions: u64,
    /// File bytes that compactions wrote since opening.
    pub compaction_bytes: u64,
    /// Compactions that failed since opening.
    pub compaction_failures: u64,
    /// Runs moved to another level since opening, without writing data.
    pub moves: u64,
    /// Changes of shape since opening, by growth and by changes of policy.
    pub reshapes: u64,
    /// Filters rebuilt from digests since opening, without reading data; see
    /// [`crate::Db::set_filter`].
    pub filters_rebuilt: u64,
    /// Stored filters, or units of elastic filters, loaded again for open tables since opening.
    pub filters_loaded: u64,
    /// Filters, or units of elastic filters, dropped from memory for open tables since opening.
    pub filters_dropped: u64,
    /// File bytes read to rebuild and load filters since opening.
    pub filter_rebuild_bytes_read: u64,
    /// Writes delayed by write throttling since opening.
    pub write_delays: u64,
    /// Time of these delays, in seconds, summed over writers.
    pub write_delay_seconds: f64,
    /// Write stalls since opening: writes that waited for a flush.
    pub write_stalls: u64,
    /// Time of these stalls, in seconds, summed over writers.
    pub write_stall_seconds: f64,
}

/// A memtable.
#[derive(Clone, Debug, Default)]
pub struct MemtableStats {
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Raw bytes of its entries.
    pub raw_bytes: u64,
    /// Memory that it takes, in bytes.
    pub memory_bytes: u64,
}

/// Memory of a database, in bytes, by part: all that counts towards its memory budget, as of about
/// now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Memory budget of all parts together; see [`crate::Options::memory_bytes`].
    pub budget_bytes: u64,
    /// Memory of all parts together.
    pub total_bytes: u64,
    /// Memory over the budget, although the caches have shrunk: filters, indexes or pinned memory
    /// have outgrown it.
    pub over_bytes: u64,
    /// Active and immutable memtables.
    pub memtables_bytes: u64,
    /// Block cache and entry cache, with their bookkeeping.
    pub cache_bytes: u64,
    /// Present upper bound on the size of the caches.
    pub cache_capacity_bytes: u64,
    /// Filters of open tables.
    pub filters_bytes: u64,
    /// Indexes of open tables, without index blocks in the block cache.
    pub indexes_bytes: u64,
    /// Cursors of scans and their read-ahead.
    pub iterators_bytes: u64,
    /// Read-ahead of flushes and compactions, and the tables that they build.
    pub compactions_bytes: u64,
    /// Memory that only readers pin: blocks that the cache has evicted, memtables that are flushed.
    pub pinned_bytes: u64,
    /// Writes on their way into the WAL.
    pub wal_bytes: u64,
    /// Metadata of tables.
    pub tables_bytes: u64,
}

impl MemoryStats {
    fn of(account: &Account, memtables_bytes: u64) -> Self {
        let all_memtables_bytes = account.bytes(MemoryPart::Memtables);
        let memtables_bytes = memtables_bytes.min(all_memtables_bytes);
        let mut this = Self {
            budget_bytes: account.budget().total_bytes,
            total_bytes: 0,
            over_bytes: 0,
            memtables_bytes,
            cache_bytes: account.cache_bytes(),
            cache_capacity_bytes: account.cache_capacity(),
            filters_bytes: account.bytes(MemoryPart::Filters),
            indexes_bytes: account.bytes(MemoryPart::Indexes) + account.kept_bytes(),
            iterators_bytes: account.bytes(MemoryPart::Iterators),
            compactions_bytes: account.bytes(MemoryPart::Compactions),
            pinned_bytes: account.pinned_bytes() + all_memtables_bytes - memtables_bytes,
            wal_bytes: account.bytes(MemoryPart::Wal),
            tables_bytes: account.bytes(MemoryPart::Tables),
        };
        this.total_bytes = this.parts().iter().map(|part| part.1).sum();
        this.over_bytes = this.total_bytes.saturating_sub(this.budget_bytes);
        this
    }

    /// Returns the parts of the total, by name, in bytes.
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("memtables", self.memtables_bytes),
            ("cache", self.cache_bytes),
            ("filters", self.filters_bytes),
            ("indexes", self.indexes_bytes),
            ("iterators", self.iterators_bytes),
            ("compactions", self.compactions_bytes),
            ("pinned", self.pinned_bytes),
            ("wal", self.wal_bytes),
            ("tables", self.tables_bytes),
        ]
    }
}

/// A level.
#[derive(Clone, Debug, Default)]
pub struct LevelStats {
    /// Capacity, in raw bytes.
    pub capacity_bytes: u64,
    /// Maximum number of runs that the shape allows, at least 1.
    pub run_slots: u32,
    /// Runs, young to old. The inputs and the output of a compaction into this level belong to it
    /// from the compaction's beginning.
    pub runs: Vec<RunStats>,
    /// Raw bytes that flushes, compactions and ingests wrote into this level since opening.
    pub written_raw_bytes: u64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct RunStats {
    /// Number of the run, unique in the database's lifetime.
    pub id: u64,
    /// True if it is an input or the output of a compaction in progress.
    pub in_compaction: bool,
    /// Number of tables that its slices belong to.
    pub tables: u64,
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Raw bytes of the entries.
    pub raw_bytes: u64,
    /// Its share of the bytes of its tables' files.
    pub file_bytes: u64,
    /// Its share of the bits of its tables' filters that are in memory, or will be once the tables
    /// are opened.
    pub filter_bits: u64,
    /// Predicted false positive rate of filters of this size; 1 without filters, and in between if
    /// some of its tables have none.
    pub filter_fpr: f64,
    /// Sampled lookups that reached its tables. For a table that a compaction has cut, all lookups
    /// of the table count.
    pub lookups: RunLookups,
}

/// A flush or a compaction in progress.
#[derive(Clone, Debug, Default)]
pub struct JobStats {
    /// True for a flush.
    pub is_flush: bool,
    /// Cause, as the planner states it. For a job that was resumed at opening it says so instead.
    pub cause: String,
    /// Numbers of its input runs, young to old. A flush takes a memtable, and perhaps a run of
    /// level 1.
    pub inputs: Vec<u64>,
    /// Level of its output.
    pub target_level: usize,
    /// Raw bytes read since it began, or since the database was opened.
    pub done_bytes: u64,
    /// Raw bytes left to be read.
    pub left_bytes: u64,
    /// Parts that a worker is carrying out.
    pub parts_working: usize,
    /// Parts that wait for a worker.
    pub parts_waiting: usize,
}

/// Space of tables on storage, in file bytes. Tables that are being written are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Tables, and parts of tables, that belong to runs of the tree.
    pub live_bytes: u64,
    /// Parts of the tree's tables that compactions in progress have replaced and that belong to no
    /// run any more. They are removed with the rest of their table.
    pub stale_bytes: u64,
    /// Tables that left the tree and are not removed yet: a reader pins them, or their removal is
    /// pending.
    pub pending_delete_bytes: u64,
}

impl Stats {
    /// Returns the write amplification since opening: raw bytes that flushes, compactions and
    /// ingests wrote into levels, per raw byte of the memtables flushed and the runs ingested;
    /// `None` if there were none. The WAL, which writes every entry once more, is not included;
    /// moved runs write nothing. Raw over raw, so that neither compression nor indexes matter, as
    /// in the models.
    pub fn write_amplification(&self) -> Option<f64> {
        let arrived = self.flushed_raw_bytes + self.ingested_raw_bytes;
        (arrived > 0).then(|| self.written_raw_bytes() as f64 / arrived as f64)
    }

    /// Returns the raw bytes that flushes, compactions and ingests wrote into all levels since
    /// opening.
    pub fn written_raw_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.written_raw_bytes).sum()
    }

    pub(crate) fn of(engine: &Engine) -> Self {
        let background = engine.scheduler.background();
        let BackgroundSnapshot { policy, shape, state, jobs, paused, speed, space_bound } = &background;
        let buffers = std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
        let counters = &engine.counters;
        let debt = jobs.iter().map(|job| job.left).sum();
        // A database opened for reading only is in good health, although it takes no writes.
        let health = &engine.database.health;
        let errors = [Activity::Flush, Activity::Compaction].map(|activity| health.check_progress(activity).err());
        let background_error = errors.into_iter().flatten().next().filter(|_| !health.is_read_only());
        let stopped = health.check_running().err().filter(|_| !health.is_read_only());
        Self {
            policy: policy.to_string(),
            memtable_capacity_bytes: shape.buffer().0,
            buffers: buffers
                .map(|buffer| MemtableStats {
                    entries: buffer.entries(),
                    raw_bytes: buffer.raw_bytes(),
                    memory_bytes: buffer.memory_bytes(),
                })
                .collect(),
            levels: levels(&background, &counters.level_bytes.get()),
            jobs: jobs.iter().map(JobStats::of).collect(),
            debt_bytes: debt,
            debt_seconds: speed.filter(|_| !paused).map(|speed| debt as f64 / speed),
            compaction_bytes_per_second: *speed,
            compactions_paused: *paused,
            background_error: background_error.map(|error| error.to_string()),
            writing_stopped: stopped.map(|error| error.to_string()),
            disk: engine.scheduler.disk(),
            last_background_error: health.last_error().map(|error| error.to_string()),
            space: SpaceStats::of(state, engine.tables.pending_bytes()),
            space_amplification_worst: state.tree().space_amplification_worst(),
            space_amplification_max: space_bound.map(|bound| bound.most()),
            wal_segments: engine.wal.segments().len(),
            wal_bytes: engine.wal.segments().iter().map(|segment| segment.bytes).sum(),
            visible_sequence: engine.database.sequences.visible().0,
            snapshots: engine.database.sequences.snapshots(),
            memory: MemoryStats::of(&engine.account, state.memtables_memory_bytes()),
            cache_bytes: engine.cache.used_bytes(),
            cache_entry_bytes: engine.cache.entry_bytes(),
            cache_hits: engine.cache.hits(),
            cache_misses: engine.cache.misses(),
            reads: engine.tables.storage().counters().get(),
            filter_bytes: engine.tables.filter_bytes(),
            lookups: engine.tree.lookups.sums(),
            lookups_sampled: engine.tree.lookups.sampled(),
            latencies: engine.tree.lookups.latencies().get(),
            entries_written: counters.entries_written.get(),
            raw_bytes_written: counters.raw_bytes_written.get(),
            commit_groups: counters.commit_groups.get(),
            flushes: counters.flushes.get(),
            flushed_raw_bytes: counters.flushed_raw_bytes.get(),
            flush_bytes: counters.flush_bytes.get(),
            flush_failures: counters.flush_failures.get(),
            ingests: counters.ingests.get(),
            ingested_raw_bytes: counters.ingested_raw_bytes.get(),
            ingest_bytes: counters.ingest_bytes.get(),
            compactions: counters.compactions.get(),
            compaction_bytes: counters.compaction_bytes.get(),
            compaction_failures: counters.compaction_failures.get(),
            moves: counters.moves.get(),
            reshapes: counters.reshapes.get(),
            filters_rebuilt: counters.filters_rebuilt.get(),
            filters_loaded: counters.filters_loaded.get(),
            filters_dropped: counters.filters_dropped.get(),
            filter_rebuild_bytes_read: counters.filter_rebuild_bytes_read.get(),
            write_delays: counters.write_delays.get(),
            write_delay_seconds: counters.write_delay_ns.get() as f64 / 1e9,
            write_stalls: counters.write_stalls.get(),
            write_stall_seconds: counters.write_stall_ns.get() as f64 / 1e9,
        }
    }
}

/// All levels of the shape, and any others that the tree has.
fn levels(background: &BackgroundSnapshot, written: &[u64]) -> Vec<LevelStats> {
    let (shape, tree) = (&background.shape, background.state.tree());
    // The version does not record the inputs of flushes and of compactions of a range.
    let in_job = |run: &Run| background.jobs.iter().any(|job| job.inputs.contains(&run.id()));
    let count = shape.last().max(tree.levels().len()).max(written.len());
    let level = |index: usize| {
        let of_shape = shape.levels().get(index);
        let runs = tree.levels().get(index).into_iter().flat_map(|level| level.runs());
        LevelStats {
            capacity_bytes: of_shape.map_or(0, |level| level.capacity.0),
            run_slots: of_shape.map_or(1, |level| level.runs),
            runs: runs.map(|run| RunStats::of(run, tree.compaction_of(run.id()).is_some() || in_job(run))).collect(),
            written_raw_bytes: written.get(index).copied().unwrap_or(0),
        }
    };
    (0..count).map(level).collect()
}

impl LevelStats {
    /// Returns the size of the level divided by its capacity: 1 is full. It may be more, since
    /// compactions into the level count from their beginning. 0 for a level that the shape does not
    /// have.
    pub fn occupancy(&self) -> f64 {
        if self.capacity_bytes == 0 { 0.0 } else { self.total().raw_bytes as f64 / self.capacity_bytes as f64 }
    }

    /// Returns the sums over its runs, with number 0.
    pub fn total(&self) -> RunStats {
        RunStats::total(&self.runs)
    }

    /// Returns the number of its runs that are inputs or outputs of compactions in progress.
    pub fn runs_in_compactions(&self) -> usize {
        self.runs.iter().filter(|run| run.in_compaction).count()
    }

    /// Returns the number of runs outside of compactions beyond the level's [`Self::run_slots`].
    /// They are compacted when data arrives at the level.
    pub fn runs_above_slots(&self) -> usize {
        (self.runs.len() - self.runs_in_compactions()).saturating_sub(self.run_slots as usize)
    }
}

impl RunStats {
    fn of(run: &Run, in_compaction: bool) -> Self {
        let lookups = tables_of(run).fold(RunLookups::default(), |sum, table| sum.plus(&table.lookups()));
        let sums = run.slices().iter().fold(Self { id: run.id().0, in_compaction, ..Self::default() }, |sum, slice| {
            let meta = slice.table().meta();
            Self {
                tables: sum.tables + 1,
                entries: sum.entries + slice.share_of(meta.entries),
                tombstones: sum.tombstones + slice.share_of(meta.tombstones),
                raw_bytes: sum.raw_bytes + slice.share_of(meta.raw_bytes),
                file_bytes: sum.file_bytes + slice.share_of(meta.file_bytes),
                filter_bits: sum.filter_bits + slice.share_of(slice.table().filter().1),
                ..sum
            }
        });
        Self { lookups, filter_fpr: filter_fpr(run), ..sums }
    }

    /// Returns the filter bits per entry; 0 without entries.
    pub fn filter_bits_per_entry(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { self.filter_bits as f64 / self.entries as f64 }
    }

    /// Returns the sums over runs, with the mean false positive rate over their entries, and number
    /// 0.
    pub fn total<'a>(runs: impl IntoIterator<Item = &'a Self>) -> Self {
        runs.into_iter().fold(Self::default(), |sum, run| Self {
            id: 0,
            in_compaction: sum.in_compaction || run.in_compaction,
            tables: sum.tables + run.tables,
            entries: sum.entries + run.entries,
            tombstones: sum.tombstones + run.tombstones,
            raw_bytes: sum.raw_bytes + run.raw_bytes,
            file_bytes: sum.file_bytes + run.file_bytes,
            filter_bits: sum.filter_bits + run.filter_bits,
            filter_fpr: {
                let weighted = sum.filter_fpr * sum.entries as f64 + run.filter_fpr * run.entries as f64;
                weighted / (sum.entries + run.entries).max(1) as f64
            },
            lookups: sum.lookups.plus(&run.lookups),
        })
    }
}

/// The tables of a run, each once.
fn tables_of(run: &Run) -> impl Iterator<Item = &Arc<TableFile>> {
    let mut before = None;
    // Slices of one table are neighbours, since they are in key order.
    run.slices().iter().map(|slice| slice.table()).filter(move |table| before.replace(table.id()) != Some(table.id()))
}

/// Predicted false positive rate of the filters of a run's tables, averaged over entries. Tables
/// with about the same bits per entry are taken together.
fn filter_fpr(run: &Run) -> f64 {
    /// Sizes are rounded to this fraction of a bit per entry; within it, rates differ by less than
    /// 1 %.
    const PARTS: u64 = 64;
    let (mut all, mut passed) = (0, 0.0);
    let mut alike: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
    for table in tables_of(run) {
        let (meta, (filter_kind, filter_bits)) = (table.meta(), table.filter());
        all += meta.entries;
        if let Some(units) = table.units().filter(|units| units.in_memory > 0) {
            passed += meta.entries as f64 * units.fpr(meta);
            continue;
        }
        match FilterKind::ALL.into_iter().position(|kind| kind_to_number(kind) == filter_kind) {
            Some(kind) => {
                let sums = alike.entry((kind, filter_bits * PARTS / meta.entries.max(1))).or_default();
                *sums = (sums.0 + filter_bits, sums.1 + meta.entries);
            }
            None => passed += meta.entries as f64,
        }
    }
    for ((kind, _), (bits, entries)) in alike {
        let entries = entries.max(1) as f64;
        passed += entries * predict(FilterKind::ALL[kind], bits as f64 / entries).fpr;
    }
    if all == 0 { 1.0 } else { passed / all as f64 }
}

impl JobStats {
    fn of(job: &JobProgress) -> Self {
        let resumed = || "resumed from before the database was opened".to_owned();
        Self {
            is_flush: job.is_flush,
            cause: job.cause.map_or_else(resumed, |cause| cause.to_string()),
            inputs: job.inputs.iter().map(|run| run.0).collect(),
            target_level: job.target,
            done_bytes: job.total.saturating_sub(job.left),
            left_bytes: job.left,
            parts_working: job.parts_taken,
            parts_waiting: job.parts_waiting,
        }
    }
}

impl SpaceStats {
    fn of(state: &State, pending_delete_bytes: u64) -> Self {
        let mut live: BTreeMap<TableId, u64> = BTreeMap::new();
        for slice in state.tree().runs().flat_map(|run| run.slices().iter()) {
            let table = slice.table().meta();
            let bytes = live.entry(table.id).or_default();
            // The shares of a table's slices are estimates; together they are not more than the
            // table.
            *bytes = table.file_bytes.min(*bytes + slice.share_of(table.file_bytes));
        }
        let live_bytes = live.values().sum();
        let all_bytes: u64 = state.tree().tables().map(|table| table.meta().file_bytes).sum();
        Self { live_bytes, stale_bytes: all_bytes - live_bytes, pending_delete_bytes }
    }
}
