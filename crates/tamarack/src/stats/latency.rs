//! Latencies of sampled lookups, as histograms: a counter per bucket of a
//! [`Histogram`], for each kind of lookup.
//!
//! Memory: 5 KiB per kind. Cost: one atomic addition per sample.

use std::time::Duration;

use tamarack_env::histogram::{BUCKETS, Histogram, bucket_of};

use super::Counter;
use super::statistics::statistics;

/// Kind of a timed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupKind {
    /// Lookup of an existing key, without reading a data block.
    FoundInMemory,
    /// Lookup of an existing key that read data blocks.
    FoundByReads,
    /// Zero-result lookup.
    NotFound,
    /// Lookup of several keys.
    MultiGet,
    /// Seek of a scan in all runs: its first one, and few others.
    Seek,
}

const KINDS: usize = LookupKind::Seek as usize + 1;

/// Latencies by kind: the buckets of the first, then those of the next. On the heap, since they
/// would take most of a small stack.
#[derive(Debug)]
pub struct Latencies(Box<[Counter]>);

impl Default for Latencies {
    /// No latencies yet.
    fn default() -> Self {
        Self((0..KINDS * BUCKETS).map(|_| Counter::default()).collect())
    }
}

impl Latencies {
    /// Adds a latency.
    pub fn note(&self, kind: LookupKind, latency: Duration) {
        self.0[kind as usize * BUCKETS + bucket_of(latency)].add(1);
    }

    /// Returns the percentiles so far.
    pub fn get(&self) -> LatencyStats {
        let of = |kind| Percentiles::of(&self.0[kind as usize * BUCKETS..][..BUCKETS]);
        LatencyStats {
            found_in_memory: of(LookupKind::FoundInMemory),
            found_by_reads: of(LookupKind::FoundByReads),
            not_found: of(LookupKind::NotFound),
            multi_gets: of(LookupKind::MultiGet),
            seeks: of(LookupKind::Seek),
        }
    }
}

statistics! {
    /// Latencies of sampled lookups since the database was opened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LatencyStats {
        /// Lookups of one existing key, without reading a data block.
        found_in_memory: Percentiles;

        /// Lookups of one existing key that read data blocks.
        found_by_reads: Percentiles;

        /// Zero-result lookups of one key.
        not_found: Percentiles;

        /// Calls of [`crate::Db::multi_get`], each as a whole.
        multi_gets: Percentiles;

        /// Seeks of scans in all runs: one at the beginning of each scan, and more where it
        /// skips many deleted or overwritten entries.
        seeks: Percentiles;
    }
}

statistics! {
    /// Percentiles of a latency, in nanoseconds, within 3 %. All 0 without samples.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Percentiles {
        /// Number of samples.
        samples: u64, "samples";

        /// The median.
        p50_ns: u64, "nanoseconds";

        /// The 99th percentile.
        p99_ns: u64, "nanoseconds";

        /// The 99.9th percentile.
        p999_ns: u64, "nanoseconds";
    }
}

impl Percentiles {
    fn of(counts: &[Counter]) -> Self {
        let histogram = Histogram::of_counts(counts.iter().map(Counter::get));
        let [p50_ns, p99_ns, p999_ns] = histogram.percentiles_ns();
        Self { samples: histogram.samples(), p50_ns, p99_ns, p999_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies are counted by their kind.
    #[test]
    fn kinds_are_apart() {
        let latencies = Latencies::default();
        assert_eq!(latencies.get(), LatencyStats::default());
        (1..=100).for_each(|us| latencies.note(LookupKind::Seek, Duration::from_micros(us)));
        let Percentiles { samples, p50_ns, p99_ns, .. } = latencies.get().seeks;
        assert_eq!(samples, 100);
        for (found, expected) in [(p50_ns, 50_000_u64), (p99_ns, 99_000)] {
            assert!(found.abs_diff(expected) * 32 <= expected, "{found} instead of {expected}");
        }
        assert_eq!(latencies.get(), LatencyStats { seeks: latencies.get().seeks, ..LatencyStats::default() });
    }
}
