//! How long sampled lookups took, as histograms.
//!
//! A histogram has eight buckets for each doubling of the time, so what it tells is at most 6 %
//! off:
//!
//! ```text
//! ns      … 512   576   640   704   768   832   896   960   1024    1152 …
//! bucket    ├─────┼─────┼─────┼─────┼─────┼─────┼─────┼─────┼────────┼──
//! ```
//!
//! Memory: 2 KiB for each kind. Cost: one atomic addition for a sample.

use std::time::Duration;

use super::Counter;

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupKind {
    /// A lookup that found something, without reading a data block.
    FoundInMemory,
    /// A lookup that found something and read data blocks.
    FoundByReads,
    /// A lookup that found nothing.
    NotFound,
    /// A lookup of many keys.
    MultiGet,
    /// A seek of a scan in all runs: that with which it begins, and few others.
    Seek,
}

const KINDS: usize = LookupKind::Seek as usize + 1;

/// How long lookups took, by kind.
#[derive(Debug, Default)]
pub struct Latencies([Histogram; KINDS]);

impl Latencies {
    /// Something took so long.
    pub fn note(&self, kind: LookupKind, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0[kind as usize].0[bucket_of(ns)].add(1);
    }

    /// The numbers so far.
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

/// How long lookups took since the database was opened, of those that were sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats {
    /// Lookups of one key that found something, without reading a data block.
    pub found_in_memory: Percentiles,
    /// Lookups of one key that found something and read data blocks.
    pub found_by_reads: Percentiles,
    /// Lookups of one key that found nothing.
    pub not_found: Percentiles,
    /// Lookups of many keys, each as a whole.
    pub multi_gets: Percentiles,
    /// Seeks of scans in all runs: each scan begins with one; it makes more where many deleted or
    /// old entries are leapt over.
    pub seeks: Percentiles,
}

/// Of every hundred, or thousand, so many took at most so long, in nanoseconds; within 6 %. All 0
/// without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// How many were timed.
    pub samples: u64,
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1000.
    pub p999_ns: u64,
}

/// Times below 8 ns are exact, and those from 2³⁶ ns (69 s) on are one.
const DOUBLINGS: usize = 36;

/// Buckets for each doubling, as a power of two.
const FINENESS: u32 = 3;

const BUCKETS: usize = (DOUBLINGS - FINENESS as usize + 1) << FINENESS;

#[derive(Debug)]
struct Histogram([Counter; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

/// The bucket for a time.
fn bucket_of(ns: u64) -> usize {
    let doublings = ns.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
    // The leading bit counts as the bucket's first eight.
    let bucket = ((doublings as usize) << FINENESS) + (ns >> doublings) as usize;
    bucket.min(BUCKETS - 1)
}

/// The middle of a bucket.
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

    /// Buckets follow each other without a gap, and their middles are close to all that is in them.
    #[test]
    fn buckets_are_close() {
        assert_eq!((0..8).map(bucket_of).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        for ns in 1..100_000 {
            assert!((0..2).contains(&(bucket_of(ns) - bucket_of(ns - 1))), "{ns} is in {}", bucket_of(ns));
        }
        for ns in (0..100_000).chain((17..36).flat_map(|power| [(1 << power) - 1, 1 << power, 5 << (power - 2)])) {
            let middle = middle_of(bucket_of(ns));
            assert!(middle.abs_diff(ns) * 16 <= ns, "{ns} is told as {middle}");
        }
        assert_eq!(bucket_of((1 << 36) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// Of known times, the percentiles are what they should be.
    #[test]
    fn percentiles_are_those_of_the_times() {
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
