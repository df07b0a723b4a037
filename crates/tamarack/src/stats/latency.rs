//! Latencies of sampled lookups, as histograms.
//!
//! A histogram has eight buckets per doubling of the latency, so its percentiles are at most 6 %
//! off:
//!
//! ```text
//! ns      … 512   576   640   704   768   832   896   960   1024    1152 …
//! bucket    ├─────┼─────┼─────┼─────┼─────┼─────┼─────┼─────┼────────┼──
//! ```
//!
//! Memory: 2 KiB per kind. Cost: one atomic addition per sample.

use std::time::Duration;

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

/// Latencies by kind.
#[derive(Debug, Default)]
pub struct Latencies([Histogram; KINDS]);

impl Latencies {
    /// Adds a latency.
    pub fn note(&self, kind: LookupKind, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0[kind as usize].0[bucket_of(ns)].add(1);
    }

    /// Returns the percentiles so far.
    pub fn get(&self) -> LatencyStats {
        let of = |kind| Percentiles::of(&self.0[kind as usize]);
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
    /// Percentiles of a latency, in nanoseconds, within 6 %. All 0 without samples.
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

/// Number of doublings. Latencies below 8 ns are exact; those from 2³⁶ ns (69 s) on share a bucket.
const DOUBLINGS: usize = 36;

/// Buckets per doubling, as a power of two.
const FINENESS: u32 = 3;

const BUCKETS: usize = (DOUBLINGS - FINENESS as usize + 1) << FINENESS;

#[derive(Debug)]
struct Histogram([Counter; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// Returns the bucket of a latency.
fn bucket_of(ns: u64) -> usize {
    let doublings = ns.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
    // The leading bit adds the first eight buckets.
    let bucket = ((doublings as usize) << FINENESS) + (ns >> doublings) as usize;
    bucket.min(BUCKETS - 1)
}

/// Returns the middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket >> FINENESS).saturating_sub(1);
    let first = (bucket - (doublings << FINENESS)) as u64;
    (first << doublings) + (1 << doublings) / 2
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let counts: [u64; BUCKETS] = std::array::from_fn(|bucket| histogram.0[bucket].get());
        let samples: u64 = counts.iter().sum();
        let at = |of_thousand: u64| {
            let wanted = (samples * of_thousand).div_ceil(1000);
            let mut below = 0;
            let bucket = counts.iter().position(|count| {
                below += count;
                below >= wanted.max(1)
            });
            bucket.map_or(0, middle_of)
        };
        Self { samples, p50_ns: at(500), p99_ns: at(990), p999_ns: at(999) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets are contiguous, and the middle of each is close to all its latencies.
    #[test]
    fn buckets_are_close() {
        assert_eq!((0..8).map(bucket_of).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for ns in 1..100_000 {
            assert!((0..2).contains(&(bucket_of(ns) - bucket_of(ns - 1))), "{ns} is in {}", bucket_of(ns));
        }
        for ns in (0..100_000).chain((17..36).flat_map(|power| [(1 << power) - 1, 1 << power, 5 << (power - 2)])) {
            let middle = middle_of(bucket_of(ns));
            assert!(middle.abs_diff(ns) * 16 <= ns, "{ns} is in the bucket of {middle}");
        }
        assert_eq!(bucket_of((1 << 36) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// The percentiles of known latencies are correct.
    #[test]
    fn percentiles_of_known_latencies() {
        let latencies = Latencies::default();
        assert_eq!(latencies.get(), LatencyStats::default());
        for ns in 1..=100_000 {
            latencies.note(LookupKind::Seek, Duration::from_nanos(ns));
        }
        let Percentiles { samples, p50_ns, p99_ns, p999_ns } = latencies.get().seeks;
        assert_eq!(samples, 100_000);
        for (found, expected) in [(p50_ns, 50_000), (p99_ns, 99_000), (p999_ns, 99_900)] {
            assert!(found.abs_diff(expected) * 16 <= expected, "{found} instead of {expected}");
        }
        assert_eq!(latencies.get().not_found, Percentiles::default());
    }
}
