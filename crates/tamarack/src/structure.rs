//! [`Stats`]: what a database looks like, as plain numbers.
//!
//! # Units
//!
//! **Raw bytes** are those of entries: key, value, and 8 for each. Shapes, debts and write
//! amplification are counted in them, since they mean the same whatever compression reaches. **File
//! bytes** are what tables take on storage.
//!
//! # What is exact, and what is not
//!
//! Levels, runs, jobs and buffers are of one moment. Counters go on meanwhile. A table that a merge
//! has cut counts for its run as a fair part (a half if one side is gone, a third if both are),
//! since where a cut falls among its entries is not known without reading it; so what merges in
//! progress hold is an estimate.
//!
//! What lookups did is counted exactly in sum; what each run saw of them, and how long they took,
//! is known of one in [`LOOKUPS_PER_SAMPLE`](crate::LOOKUPS_PER_SAMPLE) only, which is chosen at
//! random ([`RunLookups`]).
//!
//! Cost: one pass over all slices. Jobs and state are taken under the lock that background work is
//! planned under, the pass is made without it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_filter::kind_to_number;
use tamarack_model::FilterKind;
use tamarack_model::filter::promise;

use crate::compaction::progress::{GoingOn, JobProgress};
use crate::database::Activity;
use crate::engine::Engine;
use crate::format::meta::TableId;
use crate::memory::{Account, MemoryPart};
use crate::stats::{LatencyStats, LookupCounts, ReadStats, RunLookups};
use crate::tree::run::Run;
use crate::tree::state::State;
use crate::tree::table_file::TableFile;
use crate::write::DiskStats;

/// What a database looks like and what it did since it was opened. See the words of each field for
/// its unit.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The words that name the policy, which gives the tree its shape: `leveling:T=10`.
    pub policy: String,
    /// The size at which a buffer is sealed, in raw bytes.
    pub memtable_capacity_bytes: u64,
    /// The buffers, the one that takes writes first, then the sealed ones, young to old.
    pub buffers: Vec<MemtableStats>,
    /// The levels, level 1 (young) first: those of the shape, empty ones included.
    pub levels: Vec<LevelStats>,
    /// Flushes and merges in progress, in the order in which they began.
    pub jobs: Vec<JobStats>,
    /// Raw bytes that flushes and merges in progress have still to write, at most: what is garbage
    /// among them is not written. It does not count what will be called for when they end.
    pub debt_bytes: u64,
    /// How long it takes to write these, in seconds, if nothing is added: by the speed that flushes
    /// and merges had lately. `None` if that was not measured since opening, or merges are
    /// held.
    pub debt_seconds: Option<f64>,
    /// Raw bytes that flushes and merges, all together, copy in a second while they are busy: an
    /// average over the last of them, not above the limit that was
    /// set ([`crate::AdvancedOptions::compaction_bytes_per_second`]). `None` if it was not measured
    /// since opening.
    pub compaction_bytes_per_second: Option<f64>,
    /// Merges are held; see [`crate::Db::pause_compactions`].
    pub compactions_paused: bool,
    /// Why flushes or merges make no progress, if something keeps them; they are tried again by
    /// themselves unless writing has ended.
    pub trouble: Option<String>,
    /// Why no more writes are taken until the database is opened again, if that is so.
    pub writing_stopped: Option<String>,
    /// The disk's space, and whether puts are refused because of it. `None` if the disk has no
    /// limit, or none that could be found.
    pub disk: Option<DiskStats>,
    /// What went wrong last in the background since opening, whether it was made up for or not.
    pub last_background_error: Option<String>,
    /// What the tables take on storage, by kind.
    pub space: SpaceStats,
    /// Raw bytes in runs for each one that is live, at worst, once all merges in progress have
    /// ended: by the numbers of entries and tombstones in each run, as if each stood for a key
    /// of an older run. 1 for an empty tree; infinite if everything may be deleted. If entries
    /// differ much in size it is an estimate. What snapshots hold counts as live.
    pub space_amplification_worst: f64,
    /// What that may be; see [`crate::Options::space_amplification_max`].
    pub space_amplification_max: Option<f64>,
    /// Log segments on storage.
    pub wal_segments: usize,
    /// Bytes in the log since the oldest segment's begin.
    pub wal_bytes: u64,
    /// The youngest sequence that readers see: the number of entries ever written.
    pub visible_sequence: u64,
    /// Snapshots and iterators that are held.
    pub snapshots: usize,
    /// The memory that the database takes, by part.
    pub memory: MemoryStats,
    /// Size of the cache's content, blocks and single entries, in bytes.
    pub cache_bytes: u64,
    /// The part of it that single entries take. How many were found there:
    /// [`LookupCounts::cached_entries`].
    pub cache_entry_bytes: u64,
    /// Blocks found in the cache since opening.
    pub cache_hits: u64,
    /// Blocks that were not there since opening.
    pub cache_misses: u64,
    /// What was read from tables since opening, by who read it: data blocks and index blocks, as
    /// the environment was asked for them.
    pub reads: ReadStats,
    /// Memory that the filters of open tables take, in bytes. A table is opened when it is first
    /// read.
    pub filter_bytes: u64,
    /// What lookups (`get`, `contains` and `multi_get`, of snapshots too) did since opening. What
    /// runs saw of them: [`RunStats::lookups`].
    pub lookups: LookupCounts,
    /// How many of these lookups were sampled: about one in [`crate::LOOKUPS_PER_SAMPLE`].
    pub lookups_sampled: u64,
    /// How long lookups took, of those that were sampled.
    pub latencies: LatencyStats,
    /// Entries committed since opening.
    pub entries_written: u64,
    /// Raw bytes of these entries.
    pub raw_bytes_written: u64,
    /// Commit groups since opening: writes to the log.
    pub commit_groups: u64,
    /// Buffers flushed since opening.
    pub flushes: u64,
    /// Raw bytes of the entries in these buffers.
    pub flushed_raw_bytes: u64,
    /// Bytes of tables (file bytes) that flushes wrote since opening.
    pub flush_bytes: u64,
    /// Flushes that failed since opening.
    pub flush_failures: u64,
    /// Runs of sorted data that were ingested since opening.
    pub ingests: u64,
    /// Raw bytes of the entries in these runs.
    pub ingested_raw_bytes: u64,
    /// Bytes of tables (file bytes) that were written for them since opening.
    pub ingest_bytes: u64,
    /// Merges that ended since opening.
    pub compactions: u64,
    /// Bytes of tables (file bytes) that merges wrote since opening.
    pub compaction_bytes: u64,
    /// Merges that failed since opening.
    pub compaction_failures: u64,
    /// Runs that went to another level as they were since opening: nothing was written.
    pub moves: u64,
    /// Changes of shape since opening: growth, and other policies.
    pub reshapes: u64,
    /// Filters of tables that were made anew from digests since opening, without reading data; see
    /// [`crate::Db::set_filter`].
    pub filters_rebuilt: u64,
    /// Stored filters of open tables, or units of elastic ones, that were read again since opening.
    pub filters_loaded: u64,
    /// Filters of open tables, or units of elastic ones, that were dropped since opening.
    pub filters_dropped: u64,
    /// Bytes of tables (file bytes) that were read for that since opening.
    pub filter_rebuild_bytes_read: u64,
    /// Times a writer was held back a little since opening, so that merges could follow.
    pub write_delays: u64,
    /// How long writers were held back for that since opening, in seconds, summed over writers.
    pub write_delay_seconds: f64,
    /// Times a writer had to wait for a flush since opening.
    pub write_stalls: u64,
    /// How long writers waited for flushes since opening, in seconds, summed over writers.
    pub write_stall_seconds: f64,
}

/// A buffer.
#[derive(Clone, Debug, Default)]
pub struct MemtableStats {
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Raw bytes of its entries.
    pub raw_bytes: u64,
    /// Memory it takes, in bytes.
    pub memory_bytes: u64,
}

/// The memory that a database takes, in bytes, by part: what is charged to the one budget, as of
/// about now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// What all parts together may take; see [`crate::Options::memory_bytes`].
    pub budget_bytes: u64,
    /// What all parts together take.
    pub total_bytes: u64,
    /// How much that is over the budget, although the cache has given way: filters, indexes, or
    /// what readers hold have outgrown it.
    pub over_bytes: u64,
    /// Buffers that take writes or wait for their flush.
    pub memtables_bytes: u64,
    /// The cache, with what it needs for itself.
    pub cache_bytes: u64,
    /// What the cache may take now.
    pub cache_capacity_bytes: u64,
    /// Filters of open tables.
    pub filters_bytes: u64,
    /// Indexes of open tables, but for index blocks in the cache.
    pub indexes_bytes: u64,
    /// Cursors of scans, and what they have read ahead.
    pub iterators_bytes: u64,
    /// What flushes and merges read ahead, and the tables that they build.
    pub compactions_bytes: u64,
    /// What only readers hold any more: blocks that the cache let go of, buffers that are flushed.
    pub pinned_bytes: u64,
    /// Writes on their way into the log.
    pub wal_bytes: u64,
    /// What is known of each table.
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

    /// The parts of the total, by name, in bytes.
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("buffers", self.memtables_bytes),
            ("cache", self.cache_bytes),
            ("filters", self.filters_bytes),
            ("indexes", self.indexes_bytes),
            ("iterators", self.iterators_bytes),
            ("merges", self.compactions_bytes),
            ("held", self.pinned_bytes),
            ("log", self.wal_bytes),
            ("tables", self.tables_bytes),
        ]
    }
}

/// A level.
#[derive(Clone, Debug, Default)]
pub struct LevelStats {
    /// Raw bytes that the shape lets it hold.
    pub capacity_bytes: u64,
    /// How many runs the shape gives it, at least 1.
    pub run_slots: u32,
    /// Its runs, young to old. Those of a merge into this level, its output included, stand here
    /// from its beginning.
    pub runs: Vec<RunStats>,
    /// Raw bytes that flushes and merges wrote into this level since opening.
    pub written_raw_bytes: u64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct RunStats {
    /// Its number; never used twice in a database.
    pub id: u64,
    /// A merge in progress takes or fills it.
    pub in_compaction: bool,
    /// Tables that its slices belong to.
    pub tables: u64,
    /// Its entries, all versions and tombstones included.
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
    /// The false positive rate that filters of so many bits promise; 1 without filters, and between
    /// if some of its tables have none.
    pub filter_fpr: f64,
    /// What became of lookups that came to its tables. Those of a table that a merge has cut are
    /// all of the table's.
    pub lookups: RunLookups,
}

/// A flush or a merge in progress.
#[derive(Clone, Debug, Default)]
pub struct JobStats {
    /// True for a flush.
    pub is_flush: bool,
    /// Why it takes place, in the planner's words; for what was resumed, that it was.
    pub cause: String,
    /// The numbers of the runs it takes, young to old. A flush takes a buffer, and perhaps a run of
    /// level 1.
    pub inputs: Vec<u64>,
    /// The level that its output stands in.
    pub target_level: usize,
    /// Raw bytes read since it began, or since the database was opened.
    pub done_bytes: u64,
    /// Raw bytes that are left to be read.
    pub left_bytes: u64,
    /// Parts of it that a worker is at.
    pub parts_working: usize,
    /// Parts of it that wait for a worker.
    pub parts_waiting: usize,
}

/// What tables take on storage, in file bytes. Tables that are being written belong to none of
/// these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// What belongs to the runs of the tree.
    pub live_bytes: u64,
    /// Parts of the tree's tables that belong to no run any more: merges in progress have handed
    /// them over. They go with the rest of their table.
    pub stale_bytes: u64,
    /// Tables that are no part of the tree any more, but that a reader still holds, or that nobody
    /// has got to removing.
    pub pending_delete_bytes: u64,
}

impl Stats {
    /// Raw bytes that flushes, merges and ingests wrote into levels since opening, for each raw
    /// byte of entries in the buffers flushed and the runs ingested since opening;
    /// `None` if there were none. The log, which writes everything once more, is not counted;
    /// neither are runs that were moved. Raw over raw, so that neither compression nor indexes
    /// matter, as the models count.
    pub fn write_amplification(&self) -> Option<f64> {
        let arrived = self.flushed_raw_bytes + self.ingested_raw_bytes;
        (arrived > 0).then(|| self.written_raw_bytes() as f64 / arrived as f64)
    }

    /// Raw bytes that flushes, merges and ingests wrote into all levels since opening.
    pub fn written_raw_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.written_raw_bytes).sum()
    }

    pub(crate) fn of(engine: &Engine) -> Self {
        let going_on = engine.scheduler.going_on();
        let GoingOn { policy, shape, state, jobs, paused, speed, space_bound } = &going_on;
        let buffers = std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.memtable));
        let counters = &engine.counters;
        let debt = jobs.iter().map(|job| job.left).sum();
        // Who opened it for reading only wants none.
        let trouble = |activity| {
            engine.database.health.check_progress(activity).err().filter(|_| !engine.database.health.is_read_only())
        };
        let trouble = [Activity::Flush, Activity::Compaction].map(trouble);
        // Whoever opened it for reading only knows that.
        let stopped = engine.database.health.check_running().err().filter(|_| !engine.database.health.is_read_only());
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
            levels: levels(&going_on, &counters.level_bytes.get()),
            jobs: jobs.iter().map(JobStats::of).collect(),
            debt_bytes: debt,
            debt_seconds: speed.filter(|_| !paused).map(|speed| debt as f64 / speed),
            compaction_bytes_per_second: *speed,
            compactions_paused: *paused,
            trouble: trouble.into_iter().flatten().next().map(|error| error.to_string()),
            writing_stopped: stopped.map(|error| error.to_string()),
            disk: engine.scheduler.disk(),
            last_background_error: engine.database.health.last_error().map(|error| error.to_string()),
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

/// All levels of the shape, and any that the tree has besides.
fn levels(going_on: &GoingOn, written: &[u64]) -> Vec<LevelStats> {
    let (shape, tree) = (&going_on.shape, going_on.state.tree());
    // The version does not say which runs a flush, or a merge of a range, takes.
    let in_job = |run: &Run| going_on.jobs.iter().any(|job| job.inputs.contains(&run.id()));
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
    /// The share of its capacity that the level holds: 1 is full. More is no mistake: merges that
    /// lead here are counted from their beginning. 0 for a level that the shape does not have.
    pub fn occupancy(&self) -> f64 {
        if self.capacity_bytes == 0 { 0.0 } else { self.total().raw_bytes as f64 / self.capacity_bytes as f64 }
    }

    /// The sums over its runs; the number is 0.
    pub fn total(&self) -> RunStats {
        RunStats::total(&self.runs)
    }

    /// Its runs that merges in progress take or fill.
    pub fn runs_in_compactions(&self) -> usize {
        self.runs.iter().filter(|run| run.in_compaction).count()
    }

    /// Runs that no merge holds, above the number that the shape gives the level. They are merged
    /// when something arrives here.
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

    /// Bits of filters for each entry; 0 without entries.
    pub fn filter_bits_per_entry(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { self.filter_bits as f64 / self.entries as f64 }
    }

    /// The sums over runs, and the mean false positive rate over their entries; the number is 0.
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

/// What the filters of a run's tables promise, on average over entries. Tables that have about as
/// many bits for each entry are taken for one.
fn filter_fpr(run: &Run) -> f64 {
    /// Sizes are told apart by this part of a bit per entry: in between, rates differ by less than
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
        passed += entries * promise(FilterKind::ALL[kind], bits as f64 / entries).fpr;
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
            // The shares of a table's slices are estimates; together they are not more than the table.
            *bytes = table.file_bytes.min(*bytes + slice.share_of(table.file_bytes));
        }
        let live_bytes = live.values().sum();
        let all_bytes: u64 = state.tree().tables().map(|table| table.meta().file_bytes).sum();
        Self { live_bytes, stale_bytes: all_bytes - live_bytes, pending_delete_bytes }
    }
}
