//! Counters of what the engine did, at the bottom so that every layer can count.
//!
//! All but those of [lookups](LookupCounters), which are counted per thread, are plain relaxed
//! atomics: they order nothing, and reading them while others write gives each figure as of about
//! now.

mod latency;
mod lookups;
mod number;
mod reads;
mod samples;

use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

pub(crate) use latency::LookupKind;
pub use latency::{LatencyStats, Percentiles};
pub(crate) use lookups::LookupCounters;
pub use lookups::{LookupCounts, LookupTally};
pub(crate) use reads::{ReadCounters, Reader, ReaderCounters};
pub use reads::{ReadStats, ReaderStats};
pub use samples::{LOOKUPS_PER_SAMPLE, RunLookups};
pub(crate) use samples::{TableSamples, sampled_lately};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number for each level.
#[derive(Debug, Default)]
pub struct LevelBytes(Mutex<Vec<u64>>);

impl LevelBytes {
    /// Adds `amount` for a level, 1 the first.
    pub fn add(&self, level: usize, amount: u64) {
        let mut levels = self.0.lock();
        if levels.len() < level {
            levels.resize(level, 0);
        }
        levels[level - 1] += amount;
    }

    /// The sums so far, level 1 first.
    pub fn get(&self) -> Vec<u64> {
        self.0.lock().clone()
    }
}

/// What one database did since it was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Entries committed.
    pub entries_written: Counter,
    /// Raw bytes of entries committed (see [`crate::Entry::raw_bytes`]).
    pub raw_bytes_written: Counter,
    /// Commit groups: each is one write to the log.
    pub commit_groups: Counter,
    /// Times a writer was held back so that merges could follow.
    pub write_delays: Counter,
    /// How long writers were held back for that, in nanoseconds, summed over writers.
    pub write_delay_ns: Counter,
    /// Times a writer waited because flushes were behind.
    pub write_stalls: Counter,
    /// How long writers waited for flushes, in nanoseconds, summed over writers.
    pub write_stall_ns: Counter,
    /// Buffers flushed.
    pub flushes: Counter,
    /// Bytes of tables written by flushes.
    pub flush_bytes: Counter,
    /// Raw bytes of the entries in the buffers that were flushed.
    pub flushed_raw_bytes: Counter,
    /// Flushes that failed and were or will be tried again.
    pub flush_failures: Counter,
    /// Runs that were ingested.
    pub ingests: Counter,
    /// Bytes of tables written for these.
    pub ingest_bytes: Counter,
    /// Raw bytes of their entries.
    pub ingested_raw_bytes: Counter,
    /// Merges that ended.
    pub compactions: Counter,
    /// Bytes of tables written by merges.
    pub compaction_bytes: Counter,
    /// Raw bytes of entries that flushes, merges and ingests wrote, by level, level 1 first.
    pub level_bytes: LevelBytes,
    /// Runs that changed their level as they were.
    pub moves: Counter,
    /// Changes of shape since opening, growth included.
    pub reshapes: Counter,
    /// Filters of tables that were made anew from digests.
    pub filters_rebuilt: Counter,
    /// Stored filters, or units of elastic ones, that were read again.
    pub filters_loaded: Counter,
    /// Filters, or units of elastic ones, that tables do without from then on.
    pub filters_dropped: Counter,
    /// Bytes of tables that were read for that.
    pub filter_rebuild_bytes_read: Counter,
    /// Merges that failed and were or will be gone on with.
    pub compaction_failures: Counter,
}
