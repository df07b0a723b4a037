//! Counters of the engine, below all layers so that each can count.
//!
//! All but those of [lookups](LookupCounters), which are kept per thread, are relaxed atomics: they
//! order nothing, and a concurrent read gives each value as of about now.

mod latency;
mod lookups;
mod number;
mod reads;
mod samples;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};

pub(crate) use latency::LookupKind;
pub use latency::{LatencyStats, Percentiles};
pub(crate) use lookups::LookupCounters;
pub use lookups::{LookupCounts, LookupTally};
pub(crate) use reads::{ReadCounters, Reader, ReaderCounters};
pub use reads::{ReadStats, ReaderStats};
pub use samples::{LOOKUPS_PER_SAMPLE, RunLookups};
pub(crate) use samples::{TableSamples, sampled_lately};

/// Counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Returns the sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counter per level.
#[derive(Debug)]
pub struct LevelBytes(Mutex<Vec<u64>>);

impl Default for LevelBytes {
    /// Nothing was added.
    fn default() -> Self {
        Self(Mutex::new(Rank::LevelCounters, Vec::new()))
    }
}

impl LevelBytes {
    /// Adds `amount` to a level; the first is 1.
    pub fn add(&self, level: usize, amount: u64) {
        let mut levels = self.0.lock();
        if levels.len() < level {
            levels.resize(level, 0);
        }
        levels[level - 1] += amount;
    }

    /// Returns the sums so far, level 1 first.
    pub fn get(&self) -> Vec<u64> {
        self.0.lock().clone()
    }
}

/// Counters of one database since it was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Entries committed.
    pub entries_written: Counter,
    /// Raw bytes of entries committed (see [`crate::Entry::raw_bytes`]).
    pub raw_bytes_written: Counter,
    /// Commit groups; each is one write to the WAL.
    pub commit_groups: Counter,
    /// Writes delayed by write throttling.
    pub write_delays: Counter,
    /// Time of these delays, in nanoseconds, summed over writers.
    pub write_delay_ns: Counter,
    /// Write stalls: writes that waited for a flush.
    pub write_stalls: Counter,
    /// Time of these stalls, in nanoseconds, summed over writers.
    pub write_stall_ns: Counter,
    /// Memtables flushed.
    pub flushes: Counter,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Counter,
    /// Raw bytes of the entries in the flushed memtables.
    pub flushed_raw_bytes: Counter,
    /// Flushes that failed; they are retried.
    pub flush_failures: Counter,
    /// Runs ingested.
    pub ingests: Counter,
    /// Bytes of tables written by ingests.
    pub ingest_bytes: Counter,
    /// Raw bytes of the entries ingested.
    pub ingested_raw_bytes: Counter,
    /// Compactions that ended.
    pub compactions: Counter,
    /// Bytes of tables written by compactions.
    pub compaction_bytes: Counter,
    /// Raw bytes of entries written by flushes, compactions and ingests, by level.
    pub level_bytes: LevelBytes,
    /// Runs moved to another level without writing data.
    pub moves: Counter,
    /// Changes of shape, growth included.
    pub reshapes: Counter,
    /// Filters rebuilt from digests.
    pub filters_rebuilt: Counter,
    /// Stored filters, or units of elastic filters, loaded again.
    pub filters_loaded: Counter,
    /// Filters, or units of elastic filters, dropped from memory.
    pub filters_dropped: Counter,
    /// Bytes of tables read to rebuild and load filters.
    pub filter_rebuild_bytes_read: Counter,
    /// Compactions that failed; they are retried.
    pub compaction_failures: Counter,
}
