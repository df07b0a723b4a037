//! [`Stats`] of an open database, collected from its parts. The tables in `stats` say which
//! statistics there are.
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
//! Lookups are counted exactly in sum. Lookups by run, and latencies, come from random samples: of
//! one lookup in [`LOOKUPS_PER_SAMPLE`](crate::LOOKUPS_PER_SAMPLE) ([`RunLookups`]), and one write
//! in [`WRITES_PER_SAMPLE`](crate::WRITES_PER_SAMPLE).
//!
//! Cost: one pass over all slices. Jobs and the state are read under the scheduler's lock; the pass
//! is made without it.

use std::collections::BTreeMap;

use crate::compaction::progress::{BackgroundSnapshot, JobProgress};
use crate::database::Activity;
use crate::engine::Engine;
use crate::format::edit::RunId;
use crate::format::meta::TableId;
use crate::memory::{Account, MemoryPart};
use crate::stats::{
    JobStats, LatencyKind, LevelStats, MemoryStats, MemtableStats, RunLookups, RunStats, SpaceStats, Stats,
};
use crate::tree::run::Run;
use crate::tree::state::State;

impl MemoryStats {
    fn of(account: &Account) -> Self {
        let mut this = Self {
            budget_bytes: account.budget().total_bytes,
            total_bytes: 0,
            over_bytes: 0,
            memtables_bytes: account.bytes(MemoryPart::Memtables),
            cache_bytes: account.cache_bytes(),
            cache_capacity_bytes: account.cache_capacity(),
            filters_bytes: account.bytes(MemoryPart::Filters),
            indexes_bytes: account.bytes(MemoryPart::Indexes) + account.kept_bytes(),
            iterators_bytes: account.scans_bytes(),
            compactions_bytes: account.bytes(MemoryPart::Compactions),
            pinned_bytes: account.pinned_bytes() + account.bytes(MemoryPart::PinnedMemtables),
            wal_bytes: account.bytes(MemoryPart::Wal),
            tables_bytes: account.bytes(MemoryPart::Tables),
            transactions_bytes: account.bytes(MemoryPart::Transactions),
        };
        this.total_bytes = this.parts().iter().map(|part| part.1).sum();
        this.over_bytes = this.total_bytes.saturating_sub(this.budget_bytes);
        this
    }
}

impl Stats {
    pub(crate) fn of(engine: &Engine) -> Self {
        let background = engine.scheduler.background();
        let BackgroundSnapshot { policy, shape: _, state, jobs, paused, speed, late, space_bound, tree_filter: _ } =
            &background;
        let counters = &engine.counters;
        let debt = jobs.iter().map(|job| job.left).sum();
        // A database opened for reading only is in good health, although it takes no writes.
        let health = &engine.database.health;
        let errors = [Activity::Flush, Activity::Compaction].map(|activity| health.check_progress(activity).err());
        let background_error = errors.into_iter().flatten().next().filter(|_| !health.is_read_only());
        let stopped = health.check_running().err().filter(|_| !health.is_read_only());
        let lookups = engine.tree.lookups.sums();
        let latencies = engine.tree.lookups.latencies();
        Self {
            policy: policy.to_string(),
            decisions: engine.controller.as_ref().map_or_else(Vec::new, |controller| controller.decisions()),
            searching_design: engine.controller.as_ref().is_some_and(|controller| controller.is_searching()),
            memtable_capacity_bytes: engine.commits.memtable_bytes(),
            block_bytes: engine.scheduler.block_bytes() as u64,
            memtables: state
                .memtables()
                .map(|memtable| MemtableStats {
                    entries: memtable.entries(),
                    raw_bytes: memtable.raw_bytes(),
                    memory_bytes: memtable.memory_bytes(),
                })
                .collect(),
            levels: levels(&background, &counters.level_bytes.get()),
            jobs: jobs.iter().map(JobStats::of).collect(),
            debt_bytes: debt,
            late_bytes: late.0,
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
            range_deletes: state.tree().range_deletes().list().len(),
            memory: MemoryStats::of(&engine.account),
            cache_bytes: engine.cache.used_bytes(),
            cache_entry_bytes: engine.cache.entry_bytes(),
            cache_hits: engine.cache.hits() + lookups.data_blocks_cached,
            cache_misses: engine.cache.misses() + lookups.data_blocks_read,
            reads: engine.tables.storage().counters().get(),
            filter_bytes: engine.tables.filter_bytes(),
            lookups,
            scans: engine.tree.lookups.scans(),
            lookups_sampled: engine.tree.lookups.sampled(),
            latencies: latencies.get(),
            write_delay_times: latencies.of(LatencyKind::WriteDelay),
            write_stall_times: latencies.of(LatencyKind::WriteStall),
            ..Self::counted(counters)
        }
    }
}

/// All levels of the shape, and any others that the tree has.
fn levels(background: &BackgroundSnapshot, written: &[u64]) -> Vec<LevelStats> {
    let (shape, tree) = (&background.shape, background.state.tree());
    // The version does not record the inputs of flushes and of compactions of a range.
    let in_job = |run: &Run| background.jobs.iter().any(|job| job.inputs.contains(&run.id()));
    let count = shape.last().max(tree.levels().len()).max(written.len());
    let with_tree_filter = |run: RunStats| match background.tree_filter.get(&RunId(run.id)) {
        Some((fpr, bits)) => RunStats { filter_fpr: *fpr, filter_bits: *bits, ..run },
        None => run,
    };
    let level = |index: usize| {
        let of_shape = shape.levels().get(index);
        let runs = tree.levels().get(index).into_iter().flat_map(|level| level.runs());
        LevelStats {
            capacity_bytes: of_shape.map_or(0, |level| level.capacity.0),
            run_slots: of_shape.map_or(1, |level| level.runs),
            runs: runs
                .map(|run| RunStats::of(run, tree.compaction_of(run.id()).is_some() || in_job(run)))
                .map(with_tree_filter)
                .collect(),
            written_raw_bytes: written.get(index).copied().unwrap_or(0),
        }
    };
    (0..count).map(level).collect()
}

impl RunStats {
    fn of(run: &Run, in_compaction: bool) -> Self {
        let (tables, lookups) =
            run.tables().fold((0, RunLookups::default()), |(tables, sum), table| (tables + 1, sum + table.lookups()));
        let sums = run.slices().iter().fold(Self { id: run.id().0, in_compaction, ..Self::default() }, |sum, slice| {
            let meta = slice.table().meta();
            Self {
                entries: sum.entries + slice.entries(),
                tombstones: sum.tombstones + slice.share_of(meta.tombstones),
                merge_operands: sum.merge_operands + slice.share_of(meta.merge_operands()),
                raw_bytes: sum.raw_bytes + slice.share_of(meta.raw_bytes),
                file_bytes: sum.file_bytes + slice.share_of(meta.file_bytes),
                filter_bits: sum.filter_bits + slice.share_of(slice.table().filter().1),
                ..sum
            }
        });
        Self { tables, lookups, filter_fpr: run.filter_fpr(), ..sums }
    }
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
