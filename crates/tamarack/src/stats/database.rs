//! The statistics of a database as a whole: [`Stats`] and its [`Counters`].
//!
//! To add a counter, write its row in the second part of the table, and count where it happens:
//! `counters.name.add(1)`. To add a state, write its row in the first part, and set its value in
//! `collect.rs`. `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite documents` then writes
//! `docs/STATS.md` anew.

use tamarack_env::histogram::Histogram;

use super::statistics::statistics;
use super::tree::{DecisionStats, JobStats, LevelStats, MemtableStats, SpaceStats};
use super::{DiskStats, LatencyStats, LevelBytes, LookupCounts, MemoryStats, ReadStats, ScanCounts};

statistics! {
    /// State of a database, and counters since it was opened. Each field names its unit.
    #[derive(Clone, Debug, Default)]
    pub struct Stats {
        /// Specification of the compaction policy, which gives the tree its shape:
        /// `leveling:T=10`.
        policy: String;

        /// Last decisions of the navigator since opening, in the order of time; none unless the
        /// policy is `auto`.
        decisions: Vec<DecisionStats>;

        /// True while the navigator searches for a design. A thread of low priority is busy then,
        /// and has memory that [`MemoryStats`] does not count.
        searching_design: bool;

        /// Size at which a memtable becomes immutable.
        memtable_capacity_bytes: u64, "raw bytes";

        /// Size of blocks of new tables. Existing tables keep theirs until they are rewritten.
        block_bytes: u64, "bytes";

        /// Memtables: the active one first, then the immutable ones, young to old.
        memtables: Vec<MemtableStats>;

        /// Levels of the shape, level 1 (young) first, empty ones included.
        levels: Vec<LevelStats>;

        /// Flushes and compactions in progress, in the order in which they began.
        jobs: Vec<JobStats>;

        /// Compaction debt: upper bound on what flushes and compactions in
        /// progress have yet to write (garbage among them is dropped). Work that becomes due
        /// when they end is not included.
        debt_bytes: u64, "raw bytes";

        /// Raw bytes that have been written since the deadline of a compaction in progress, for the
        /// latest one: 0 if none is late, at most
        /// [`crate::AdvancedOptions::late_memtables_max`] memtables unless a change of shape has
        /// brought deadlines forward.
        late_bytes: u64, "raw bytes";

        /// Time to write the debt at the recent speed of flushes and compactions. `None` if the
        /// speed has not been measured since opening, or compactions are paused.
        debt_seconds: Option<f64>, "seconds";

        /// Recent speed of all flushes and compactions together while busy, at most
        /// [`crate::AdvancedOptions::compaction_bytes_per_second`]. `None` if not measured
        /// since opening.
        compaction_bytes_per_second: Option<f64>, "raw bytes per second";

        /// True while compactions are paused; see [`crate::Db::pause_compactions`].
        compactions_paused: bool;

        /// Error that keeps flushes or compactions from making progress now. They are retried
        /// automatically, unless writing has stopped.
        background_error: Option<String>;

        /// Error that stopped writing until the database is opened again.
        writing_stopped: Option<String>;

        /// Space on the disk, and whether puts are refused for lack of it. `None` if the disk's
        /// capacity is unlimited or unknown.
        disk: Option<DiskStats>;

        /// Last error of background work since opening, recovered from or not.
        last_background_error: Option<String>;

        /// Space on storage, by kind.
        space: SpaceStats;

        /// Upper bound on space amplification once all compactions in progress have ended: raw
        /// bytes in runs per live raw byte, computed from the numbers of entries and tombstones
        /// in each run as if each of them hid an entry of an older run. 1 for an empty tree;
        /// infinite if everything may be deleted. An estimate if the sizes of entries differ
        /// much. Entries that snapshots pin count as live.
        space_amplification_worst: f64, "raw bytes per live raw byte";

        /// Bound on space amplification that the database keeps; see
        /// [`crate::Options::space_amplification_max`].
        space_amplification_max: Option<f64>, "raw bytes per live raw byte";

        /// WAL segments on storage.
        wal_segments: usize, "segments";

        /// Bytes of these WAL segments.
        wal_bytes: u64, "bytes";

        /// Youngest sequence number that readers see.
        visible_sequence: u64, "sequence number";

        /// Open snapshots and iterators.
        snapshots: usize, "snapshots and iterators";

        /// Range deletes that hide entries of tables, and have not been applied to all of them: a
        /// snapshot sees the entries, a compaction reads them, or they wait for one beside younger
        /// ones. Reads compare each key with these ranges.
        range_deletes: usize, "ranges";

        /// Memory of the database, by part.
        memory: MemoryStats;

        /// Size of the block cache and the entry cache together.
        cache_bytes: u64, "bytes";

        /// Size of the entry cache alone. Its hits: [`LookupCounts::cached_entries`].
        cache_entry_bytes: u64, "bytes";

        /// Block cache hits since opening.
        cache_hits: u64, "block reads", counter;

        /// Block cache misses since opening.
        cache_misses: u64, "block reads", counter;

        /// Reads of data blocks and index blocks from tables since opening, by reader. Blocks
        /// that were in the block cache do not count.
        reads: ReadStats;

        /// Memory of the filters of open tables. A table is opened when it is first read.
        filter_bytes: u64, "bytes";

        /// Lookups (`get`, `contains` and `multi_get`, also of snapshots) since opening.
        /// Lookups by run: [`crate::RunStats::lookups`].
        lookups: LookupCounts;

        /// Scans since opening.
        scans: ScanCounts;

        /// Lookups that were sampled, about one in [`crate::LOOKUPS_PER_SAMPLE`].
        lookups_sampled: u64, "lookups", counter;

        /// Latencies of sampled operations: about one lookup in [`crate::LOOKUPS_PER_SAMPLE`], and
        /// one write in [`crate::WRITES_PER_SAMPLE`].
        latencies: LatencyStats;

        /// Delays of writes by write throttling since opening: each of [`Stats::write_delays`].
        write_delay_times: Histogram;

        /// Write stalls since opening, by the time that a write waited: each of
        /// [`Stats::write_stalls`].
        write_stall_times: Histogram;
    }

    /// Counters of one database since it was opened.
    counters Counters {
        /// Entries committed since opening.
        entries_written: u64, "entries";

        /// Raw bytes of these entries.
        raw_bytes_written: u64, "raw bytes";

        /// Commit groups since opening; each is one write to the WAL.
        commit_groups: u64, "commit groups";

        /// Transactions with writes that were committed since opening, those of
        /// [`crate::Db::transact`] and its relatives included.
        transactions_committed: u64, "transactions";

        /// Commits of transactions that were refused since opening because of a conflict
        /// ([`crate::Error::Conflict`]), each attempt counted.
        transaction_conflicts: u64, "transactions";

        /// Locks of pessimistic transactions that were waited for since opening, whatever became of
        /// the wait.
        lock_waits: u64, "locks";

        /// Waits for a lock that ended since opening because of their time-out
        /// ([`crate::Error::LockTimeout`]).
        lock_timeouts: u64, "locks";

        /// Pessimistic transactions that were rolled back since opening because of a deadlock
        /// ([`crate::Error::Deadlock`]).
        deadlocks: u64, "transactions";

        /// Memtables flushed since opening.
        flushes: u64, "memtables";

        /// Raw bytes of the entries in these memtables.
        flushed_raw_bytes: u64, "raw bytes";

        /// File bytes that flushes wrote since opening.
        flush_bytes: u64, "file bytes";

        /// Flushes that failed since opening.
        flush_failures: u64, "flushes";

        /// Runs ingested since opening.
        ingests: u64, "runs";

        /// Raw bytes of the entries in these runs.
        ingested_raw_bytes: u64, "raw bytes";

        /// File bytes that ingests wrote since opening.
        ingest_bytes: u64, "file bytes";

        /// Compactions that ended since opening.
        compactions: u64, "compactions";

        /// File bytes that compactions wrote since opening.
        compaction_bytes: u64, "file bytes";

        /// Compactions that failed since opening.
        compaction_failures: u64, "compactions";

        /// Entries that the compaction filter dropped since opening; see
        /// [`crate::CompactionFilter`].
        compaction_filter_dropped: u64, "entries";

        /// Entries to which the compaction filter gave another value since opening.
        compaction_filter_changed: u64, "entries";

        /// Entries that were kept because the compaction filter failed for them, since opening. An
        /// entry counts each time.
        compaction_filter_failures: u64, "entries";

        /// Runs moved to another level since opening, without writing data.
        moves: u64, "runs";

        /// Changes of shape since opening, by growth and by changes of policy.
        reshapes: u64, "shapes";

        /// Filters rebuilt from digests since opening, without reading data; see
        /// [`crate::Db::set_filter`].
        filters_rebuilt: u64, "filters";

        /// Stored filters, or units of elastic filters, loaded again for open tables since
        /// opening.
        filters_loaded: u64, "filters or units";

        /// Filters, or units of elastic filters, dropped from memory for open tables since
        /// opening.
        filters_dropped: u64, "filters or units";

        /// File bytes read to rebuild and load filters since opening.
        filter_rebuild_bytes_read: u64, "file bytes";

        /// Writes delayed by write throttling since opening.
        write_delays: u64, "writes";

        /// Time of these delays, summed over writers.
        write_delay_seconds: f64, "seconds";

        /// Write stalls since opening: writes that waited for a flush.
        write_stalls: u64, "writes";

        /// Time of these stalls, summed over writers.
        write_stall_seconds: f64, "seconds";

        + {
            /// Raw bytes of entries written by flushes, compactions and ingests, by level:
            /// [`LevelStats::written_raw_bytes`].
            level_bytes: LevelBytes,
        }
    }
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
}
