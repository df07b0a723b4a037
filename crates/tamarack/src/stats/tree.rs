//! The statistics of a tree: memtables, levels, runs, jobs and space.

use super::RunLookups;
use super::statistics::statistics;

statistics! {
    /// A decision of the navigator about the design of a tree whose policy is `auto`. It has the
    /// design before it, and the design chosen, or the best one found if nothing was changed.
    #[derive(Clone, Debug, Default)]
    pub struct DecisionStats {
        /// Time since the environment's clock began, mostly that since opening.
        at_seconds: f64, "seconds";

        /// Whether the design was changed.
        is_change: bool;

        /// Operations of the present phase of the workload so far; or, if the decision is for
        /// several mixes that alternate, of one phase of each.
        operations: u64, "operations";

        /// Operations that were expected to come.
        expected_operations: u64, "operations";

        /// Policy before.
        policy_before: String;

        /// Policy chosen.
        policy: String;

        /// Filters before.
        filter_before: String;

        /// Filters chosen.
        filter: String;

        /// Size of memtables before.
        memtable_bytes_before: u64, "raw bytes";

        /// Size of memtables chosen.
        memtable_bytes: u64, "raw bytes";

        /// Size of blocks of new tables before.
        block_bytes_before: u64, "bytes";

        /// Size of blocks of new tables chosen.
        block_bytes: u64, "bytes";

        /// Predicted mean time of an operation with the design before.
        op_seconds_before: f64, "seconds";

        /// The same with the design chosen.
        op_seconds: f64, "seconds";

        /// Predicted time of the change.
        change_seconds: f64, "seconds";

        /// The time of a random block read alone that the predictions rest on.
        read_seconds: f64, "seconds";

        /// The same of eight of them that begin together.
        concurrent_reads_seconds: f64, "seconds";

        /// The decision in words.
        reason: String;
    }
}

statistics! {
    /// A memtable.
    #[derive(Clone, Debug, Default)]
    pub struct MemtableStats {
        /// Entries, all versions and tombstones included.
        entries: u64, "entries";

        /// Raw bytes of its entries.
        raw_bytes: u64, "raw bytes";

        /// Memory that it takes.
        memory_bytes: u64, "bytes";
    }
}

statistics! {
    /// A level.
    #[derive(Clone, Debug, Default)]
    pub struct LevelStats {
        /// Capacity.
        capacity_bytes: u64, "raw bytes";

        /// Maximum number of runs that the shape allows, at least 1.
        run_slots: u32, "runs";

        /// Runs, young to old. The inputs and the output of a compaction into this level belong
        /// to it from the compaction's beginning.
        runs: Vec<RunStats>;

        /// Raw bytes that flushes, compactions and ingests wrote into this level since opening.
        written_raw_bytes: u64, "raw bytes", counter;
    }
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

statistics! {
    /// A run.
    #[derive(Clone, Debug, Default)]
    pub struct RunStats {
        /// Number of the run, unique in the database's lifetime.
        id: u64, "run number";

        /// True if it is an input or the output of a compaction in progress.
        in_compaction: bool;

        /// Number of tables that its slices belong to.
        tables: u64, "tables";

        /// Entries, all versions and tombstones included.
        entries: u64, "entries";

        /// Tombstones among them.
        tombstones: u64, "tombstones";

        /// Merge operands among them. Compactions make them values once no snapshot needs them;
        /// many that stay are a sign of an operator that is missing, fails, or has no partial form.
        merge_operands: u64, "merge operands";

        /// Raw bytes of the entries.
        raw_bytes: u64, "raw bytes";

        /// Its share of the bytes of its tables' files.
        file_bytes: u64, "file bytes";

        /// Its share of the bits of its tables' filters that are in memory, or will be once the
        /// tables are opened.
        filter_bits: u64, "bits";

        /// Predicted false positive rate of filters of this size; 1 without filters, and in
        /// between if some of its tables have none.
        filter_fpr: f64, "fraction";

        /// Sampled lookups that reached its tables. For a table that a compaction has cut, all
        /// lookups of the table count.
        lookups: RunLookups;
    }
}

impl RunStats {
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
            merge_operands: sum.merge_operands + run.merge_operands,
            raw_bytes: sum.raw_bytes + run.raw_bytes,
            file_bytes: sum.file_bytes + run.file_bytes,
            filter_bits: sum.filter_bits + run.filter_bits,
            filter_fpr: {
                let weighted = sum.filter_fpr * sum.entries as f64 + run.filter_fpr * run.entries as f64;
                weighted / (sum.entries + run.entries).max(1) as f64
            },
            lookups: sum.lookups + run.lookups,
        })
    }
}

statistics! {
    /// A flush or a compaction in progress.
    #[derive(Clone, Debug, Default)]
    pub struct JobStats {
        /// True for a flush.
        is_flush: bool;

        /// Cause, as the planner states it. For a job that was resumed at opening it says so
        /// instead.
        cause: String;

        /// Numbers of its input runs, young to old. A flush takes a memtable, and perhaps a run
        /// of level 1.
        inputs: Vec<u64>, "run numbers";

        /// Level of its output.
        target_level: usize, "level";

        /// Raw bytes read since it began, or since the database was opened.
        done_bytes: u64, "raw bytes";

        /// Raw bytes left to be read.
        left_bytes: u64, "raw bytes";

        /// Parts that a worker is carrying out.
        parts_working: usize, "parts";

        /// Parts that wait for a worker.
        parts_waiting: usize, "parts";
    }
}

statistics! {
    /// Space of tables on storage, in file bytes. Tables that are being written are not included.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SpaceStats {
        /// Tables, and parts of tables, that belong to runs of the tree.
        live_bytes: u64, "file bytes";

        /// Parts of the tree's tables that compactions in progress have replaced and that
        /// belong to no run any more. They are removed with the rest of their table.
        stale_bytes: u64, "file bytes";

        /// Tables that left the tree and are not removed yet: a reader pins them, or their
        /// removal is pending.
        pending_delete_bytes: u64, "file bytes";
    }
}
