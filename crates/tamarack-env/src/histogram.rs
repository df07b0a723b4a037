//! [`Histogram`]: latencies, counted in buckets, sixteen for each doubling of the latency.
//!
//! ```text
//! ns      … 512   544   576   608   640   672  …  992   1024    1088    1152 …
//! bucket    ├─────┼─────┼─────┼─────┼─────┼─────   ──┼─────┼───────┼───────┼──
//! ```
//!
//! A percentile is the middle of a bucket, and so at most 3 % off. Latencies below 16 ns are exact;
//! those from 2⁴⁰ ns (18 minutes) on share a bucket. Memory: 4.6 KiB. Cost: one addition each.
//!
//! A histogram belongs to one thread. Several threads count in histograms of their own, which are
//! added up ([`Histogram::add`]), or in atomic counters, one per bucket ([`bucket_of`],
//! [`Histogram::of_counts`]).

use std::time::Duration;

const DOUBLINGS: u32 = 40;

/// Buckets per doubling, as a power of two.
const FINENESS: u32 = 4;

/// Number of buckets.
pub const BUCKETS: usize = ((DOUBLINGS - FINENESS + 1) as usize) << FINENESS;

/// Latencies of many operations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    samples: u64,
    longest_ns: u64,
}

impl Default for Histogram {
    /// No latencies yet.
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], samples: 0, longest_ns: 0 }
    }
}

impl Histogram {
    /// Returns the histogram of latencies that were counted by bucket. The longest is known only by
    /// its bucket.
    ///
    /// # Panics
    /// If there are more counts than buckets.
    pub fn of_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = Self::default();
        for (bucket, count) in counts.into_iter().enumerate() {
            histogram.counts[bucket] = count;
            histogram.samples += count;
            histogram.longest_ns = if count > 0 { middle_of(bucket) } else { histogram.longest_ns };
        }
        histogram
    }

    /// Counts a latency.
    pub fn note(&mut self, latency: Duration) {
        self.counts[bucket_of(latency)] += 1;
        self.samples += 1;
        self.longest_ns = self.longest_ns.max(nanoseconds(latency));
    }

    /// Adds the latencies of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.samples += other.samples;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the number of latencies.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the longest latency in nanoseconds, exactly; 0 if there is none.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Returns the median, the 99th and the 99.9th [percentile](Histogram::percentile_ns).
    pub fn percentiles_ns(&self) -> [u64; 3] {
        [500, 990, 999].map(|per_mille| self.percentile_ns(per_mille))
    }

    /// Returns the latency in nanoseconds that `per_mille` of every thousand operations did not
    /// exceed, within 3 %: 500 for the median, 999 for the 99.9th percentile. 0 without latencies.
    pub fn percentile_ns(&self, per_mille: u64) -> u64 {
        let wanted = (self.samples * per_mille).div_ceil(1000).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        // The middle of a bucket may lie beyond the longest latency in it.
        bucket.map_or(0, middle_of).min(self.longest_ns)
    }
}

/// Returns the bucket of a latency, below [`BUCKETS`].
pub fn bucket_of(latency: Duration) -> usize {
    let ns = nanoseconds(latency);
    let doublings = ns.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
    // The leading bit adds the first sixteen buckets.
    let bucket = ((doublings as usize) << FINENESS) + (ns >> doublings) as usize;
    bucket.min(BUCKETS - 1)
}

/// Returns the middle of a bucket, in nanoseconds.
fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket >> FINENESS).saturating_sub(1);
    let first = (bucket - (doublings << FINENESS)) as u64;
    (first << doublings) + (1 << doublings) / 2
}

fn nanoseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets are contiguous, and the middle of each is close to all its latencies.
    #[test]
    fn buckets_are_close() {
        let bucket = |ns| bucket_of(Duration::from_nanos(ns));
        assert!((0..16).map(bucket).eq(0..16));
        for ns in 1..100_000 {
            assert!((0..2).contains(&(bucket(ns) - bucket(ns - 1))), "{ns} is in {}", bucket(ns));
        }
        let powers = (17..DOUBLINGS).flat_map(|power| [(1 << power) - 1, 1 << power, 5 << (power - 2)]);
        for ns in (0..100_000).chain(powers) {
            let middle = middle_of(bucket(ns));
            assert!(middle.abs_diff(ns) * 32 <= ns, "{ns} is in the bucket of {middle}");
        }
        assert_eq!((bucket((1 << DOUBLINGS) - 1), bucket_of(Duration::MAX)), (BUCKETS - 1, BUCKETS - 1));
    }

    /// The percentiles of known latencies are correct, whoever counted them.
    #[test]
    fn percentiles_of_known_latencies() {
        let (mut one, mut other, mut counts) = (Histogram::default(), Histogram::default(), [0; BUCKETS]);
        assert_eq!((one.percentile_ns(500), one.longest_ns()), (0, 0));
        for ns in 1..=100_000 {
            let latency = Duration::from_nanos(ns);
            if ns <= 50_000 { &mut one } else { &mut other }.note(latency);
            counts[bucket_of(latency)] += 1;
        }
        one.add(&other);
        assert_eq!(one.longest_ns(), 100_000);
        for histogram in [one, Histogram::of_counts(counts)] {
            assert_eq!(histogram.samples(), 100_000);
            for (per_mille, expected) in [(500, 50_000_u64), (990, 99_000), (999, 99_900), (1000, 100_000)] {
                let found = histogram.percentile_ns(per_mille);
                assert!(found.abs_diff(expected) * 32 <= expected, "{found} instead of {expected}");
            }
        }
    }

    /// A single latency is every percentile, exactly.
    #[test]
    fn percentiles_do_not_exceed_the_longest() {
        let mut one = Histogram::default();
        one.note(Duration::from_nanos(1024));
        assert_eq!([one.percentile_ns(500), one.percentile_ns(999)], [1024; 2]);
    }
}
