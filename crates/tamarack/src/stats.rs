//! Statistics, as tables of rows, and the counters of the engine, below all layers so that each can
//! count. [`Stats`] has all of them; `collect` fills it.
//!
//! All but those of [lookups](LookupCounters), kept per thread, and of levels, under a lock, are
//! relaxed atomics: they order nothing, and a concurrent read gives each value as of about now.

mod database;
mod idle;
mod latency;
mod lookups;
mod number;
#[cfg(feature = "metrics")]
mod openmetrics;
mod reads;
mod resources;
mod samples;
mod statistics;
mod tree;
mod writes;

use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};

pub use database::{Counters, Stats};
pub(crate) use latency::LatencyKind;
pub use latency::{LatencyStats, Percentiles};
pub(crate) use lookups::{LookupCounters, THREAD_SLOTS};
pub use lookups::{LookupCounts, LookupTally, ScanCounts};
#[cfg(all(feature = "metrics", feature = "internals"))]
pub use openmetrics::openmetrics_name;
#[cfg(feature = "metrics")]
pub use openmetrics::{OPENMETRICS_CONTENT_TYPE, openmetrics};
pub(crate) use reads::{ReadCounters, Reader, ReaderCounters};
pub use reads::{ReadStats, ReaderStats};
pub use resources::{DiskStats, MemoryStats};
pub use samples::{LOOKUPS_PER_SAMPLE, RunLookups};
pub(crate) use samples::{TableSamples, sampled_lately};
pub use statistics::{Figure, Statistic};
pub use tree::{DecisionStats, JobStats, LevelStats, MemtableStats, RunStats, SpaceStats};
pub use writes::WRITES_PER_SAMPLE;
pub(crate) use writes::{WriteCountdown, WriteSampler};

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

/// Sum of durations that only grows.
#[derive(Debug, Default)]
pub struct Seconds(Counter);

impl Seconds {
    /// Adds `time`, with the precision of a nanosecond.
    pub fn add(&self, time: Duration) {
        self.0.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the sum so far, in seconds.
    pub fn get(&self) -> f64 {
        self.0.get() as f64 / 1e9
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
