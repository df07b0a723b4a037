//! Latencies, as histograms of one type: a counter per bucket of a [`Histogram`], for each
//! [`LatencyKind`].
//!
//! Lookups, seeks and writes are sampled ([`super::samples`], [`super::writes`]); delays by write
//! throttling and write stalls are all timed, since a writer that waits has time to read a clock.
//!
//! Memory: 5 KiB for each kind that has occurred. Cost: two atomic additions and a comparison per
//! latency.

use std::sync::OnceLock;
use std::time::Duration;

use tamarack_env::histogram::{BUCKETS, Histogram, bucket_of};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use super::Counter;
use super::statistics::statistics;

/// Kind of a timed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LatencyKind {
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
    /// Write that succeeded.
    Write,
    /// Delay of a write by write throttling.
    WriteDelay,
    /// Write stall of a write.
    WriteStall,
}

const KINDS: usize = LatencyKind::WriteStall as usize + 1;

/// Latencies by kind.
#[derive(Debug, Default)]
pub struct Latencies([LatencyCounters; KINDS]);

/// Latencies of one kind.
#[derive(Debug, Default)]
struct LatencyCounters {
    /// Made with the first latency, since few databases have them of all kinds.
    buckets: OnceLock<Box<[Counter]>>,
    sum_ns: Counter,
    longest_ns: AtomicU64,
}

impl Latencies {
    /// Adds a latency.
    pub fn note(&self, kind: LatencyKind, latency: Duration) {
        let counters = &self.0[kind as usize];
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        // Longer ones are rare, so that most samples only read it.
        if counters.longest_ns.load(Ordering::Relaxed) < ns {
            counters.longest_ns.fetch_max(ns, Ordering::Relaxed);
        }
        counters.sum_ns.add(ns);
        let buckets = counters.buckets.get_or_init(|| (0..BUCKETS).map(|_| Counter::default()).collect());
        buckets[bucket_of(latency)].add(1);
    }

    /// Returns the latencies of a kind so far.
    pub fn of(&self, kind: LatencyKind) -> Histogram {
        let LatencyCounters { buckets, sum_ns, longest_ns } = &self.0[kind as usize];
        let Some(buckets) = buckets.get() else { return Histogram::default() };
        Histogram::of_counts(buckets.iter().map(Counter::get), sum_ns.get(), longest_ns.load(Ordering::Relaxed))
    }

    /// Returns the latencies of sampled operations so far.
    pub fn get(&self) -> LatencyStats {
        LatencyStats {
            found_in_memory: self.of(LatencyKind::FoundInMemory),
            found_by_reads: self.of(LatencyKind::FoundByReads),
            not_found: self.of(LatencyKind::NotFound),
            multi_gets: self.of(LatencyKind::MultiGet),
            seeks: self.of(LatencyKind::Seek),
            writes: self.of(LatencyKind::Write),
        }
    }
}

statistics! {
    /// Latencies of sampled operations since the database was opened, as histograms, which can be
    /// added. [`Percentiles`] are of each of them.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct LatencyStats {
        /// Lookups of one existing key, without reading a data block.
        found_in_memory: Histogram;

        /// Lookups of one existing key that read data blocks.
        found_by_reads: Histogram;

        /// Zero-result lookups of one key.
        not_found: Histogram;

        /// Calls of [`crate::Db::multi_get`], each as a whole.
        multi_gets: Histogram;

        /// Seeks of scans in all runs: one at the beginning of each scan, and more where it
        /// skips many deleted or overwritten entries.
        seeks: Histogram;

        /// Writes that succeeded: puts, deletes, batches and commits of transactions, each as a
        /// whole. Delays by write throttling, write stalls and the sync that its durability asks
        /// for are included.
        writes: Histogram;
    }
}

statistics! {
    /// Percentiles of latencies, in nanoseconds, within 3.1 %
    /// ([`crate::Histogram::RELATIVE_ERROR`]). All 0 without samples.
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

        /// The longest, exactly.
        longest_ns: u64, "nanoseconds";
    }
}

impl Percentiles {
    /// Returns the percentiles of a histogram.
    pub fn of(histogram: &Histogram) -> Self {
        let [p50_ns, p99_ns, p999_ns] = histogram.percentiles_ns();
        Self { samples: histogram.samples(), p50_ns, p99_ns, p999_ns, longest_ns: histogram.longest_ns() }
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
        (1..=100).for_each(|us| latencies.note(LatencyKind::Seek, Duration::from_micros(us)));
        latencies.note(LatencyKind::WriteStall, Duration::from_secs(1));
        let seeks = latencies.get().seeks;
        let Percentiles { samples, p50_ns, p99_ns, longest_ns, .. } = Percentiles::of(&seeks);
        assert_eq!((samples, longest_ns, seeks.sum_ns()), (100, 100_000, 5_050_000));
        for (found, expected) in [(p50_ns, 50_000_u64), (p99_ns, 99_000)] {
            assert!(found.abs_diff(expected) * 32 <= expected, "{found} instead of {expected}");
        }
        assert_eq!(latencies.get(), LatencyStats { seeks, ..LatencyStats::default() });
        let stalls = Percentiles::of(&latencies.of(LatencyKind::WriteStall));
        assert_eq!((stalls.samples, stalls.longest_ns), (1, 1_000_000_000));
        assert_eq!(latencies.of(LatencyKind::WriteDelay), Histogram::default());
    }

    /// What several threads count at once is what one of them would have counted.
    #[cfg(not(feature = "shuttle"))]
    #[test]
    fn threads_count_together() {
        let (latencies, mut expected) = (Latencies::default(), Histogram::default());
        tamarack_env::sync::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let latencies = &latencies;
                scope.spawn(move || {
                    (0..1000).for_each(|at| latencies.note(LatencyKind::Write, Duration::from_nanos(at * 4 + thread)));
                });
            }
        });
        (0..4000).for_each(|ns| expected.note(Duration::from_nanos(ns)));
        assert_eq!(latencies.get().writes, expected);
    }
}
