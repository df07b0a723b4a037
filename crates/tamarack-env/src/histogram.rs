//! [`Histogram`]: latencies, counted in buckets, sixteen for each doubling of the latency.
//!
//! ```text
//! ns      … 512   544   576   608   640   672  …  992   1024    1088    1152 …
//! bucket    ├─────┼─────┼─────┼─────┼─────┼─────   ──┼─────┼───────┼───────┼──
//! ```
//!
//! A percentile is the middle of a bucket, and so at most 1/32 (3.1 %) off
//! ([`Histogram::RELATIVE_ERROR`]). Latencies below 16 ns are exact, as are the number of
//! latencies, their sum and the longest; those from 2⁴⁰ ns (18 minutes) on share a bucket. Memory:
//! 4.6 KiB. Cost: two additions each.
//!
//! A histogram belongs to one thread. Several threads count in histograms of their own, which are
//! added up (`a + b`, [`Histogram::add`]), or in atomic counters, one per bucket ([`bucket_of`],
//! [`Histogram::of_counts`]). A sum of histograms is the histogram of all their latencies, exactly:
//! nothing is rounded once more.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

const DOUBLINGS: u32 = 40;

/// Buckets per doubling, as a power of two.
const FINENESS: u32 = 4;

/// Number of buckets.
pub const BUCKETS: usize = ((DOUBLINGS - FINENESS + 1) as usize) << FINENESS;

/// Latencies of many operations, counted in buckets: percentiles within
/// [`Histogram::RELATIVE_ERROR`]; number, sum and longest exactly. Histograms of several threads,
/// databases or periods can be added: `a + b` is the histogram of all latencies.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    samples: u64,
    sum_ns: u64,
    longest_ns: u64,
}

impl Default for Histogram {
    /// No latencies yet.
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], samples: 0, sum_ns: 0, longest_ns: 0 }
    }
}

impl fmt::Debug for Histogram {
    /// Shows percentiles instead of all buckets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts: _, samples, sum_ns, longest_ns } = self;
        let [p50_ns, p99_ns, p999_ns] = self.percentiles_ns();
        let mut shown = f.debug_struct("Histogram");
        shown.field("samples", samples).field("sum_ns", sum_ns).field("p50_ns", &p50_ns).field("p99_ns", &p99_ns);
        shown.field("p999_ns", &p999_ns).field("longest_ns", longest_ns).finish_non_exhaustive()
    }
}

impl Histogram {
    /// Upper bound on the relative error of a percentile, for latencies up to 18 minutes: half the
    /// width of a bucket, which is at most a sixteenth of the latencies in it.
    pub const RELATIVE_ERROR: f64 = 1.0 / (2 << FINENESS) as f64;

    /// Returns the histogram of latencies that were counted by bucket, with their sum and the
    /// longest in nanoseconds. If other threads were counting meanwhile, the longest may be in a
    /// bucket that has no count yet.
    ///
    /// # Panics
    /// If there are more counts than buckets.
    pub fn of_counts(counts: impl IntoIterator<Item = u64>, sum_ns: u64, longest_ns: u64) -> Self {
        let mut histogram = Self { sum_ns, longest_ns, ..Self::default() };
        for (bucket, count) in counts.into_iter().enumerate() {
            histogram.counts[bucket] = count;
            histogram.samples += count;
        }
        histogram
    }

    /// Counts a latency.
    pub fn note(&mut self, latency: Duration) {
        self.counts[bucket_of(latency)] += 1;
        self.samples += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanoseconds(latency));
        self.longest_ns = self.longest_ns.max(nanoseconds(latency));
    }

    /// Adds the latencies of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.samples += other.samples;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the number of latencies.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the sum of all latencies in nanoseconds, exactly.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the number of latencies below 2 to the power of `doublings`, in nanoseconds,
    /// exactly.
    ///
    /// # Panics
    /// If the power is below 2⁴ or above 2³⁹, where no bucket ends at it.
    pub fn samples_below(&self, doublings: u32) -> u64 {
        assert!((FINENESS..DOUBLINGS).contains(&doublings), "no bucket ends at 2 to the power of {doublings} ns");
        let buckets = bucket_of(Duration::from_nanos(1 << doublings));
        self.counts[..buckets].iter().sum()
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

impl AddAssign for Histogram {
    fn add_assign(&mut self, other: Self) {
        Self::add(self, &other);
    }
}

impl Add for Histogram {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for Histogram {
    fn sum<I: Iterator<Item = Self>>(histograms: I) -> Self {
        histograms.fold(Self::default(), |sum, histogram| sum + histogram)
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
        let sum_ns = 100_000 * 100_001 / 2;
        let counted = Histogram::of_counts(counts, sum_ns, 100_000);
        for histogram in [one + other, counted] {
            assert_eq!((histogram.samples(), histogram.sum_ns()), (100_000, sum_ns));
            assert_eq!(histogram.longest_ns(), 100_000);
            for (per_mille, expected) in [(500, 50_000_u64), (990, 99_000), (999, 99_900), (1000, 100_000)] {
                let found = histogram.percentile_ns(per_mille);
                assert!(found.abs_diff(expected) * 32 <= expected, "{found} instead of {expected}");
            }
        }
    }

    /// A sum of histograms is the histogram of all latencies, in whatever order they are added;
    /// and their counts below powers of two are exact.
    #[test]
    fn sums_are_of_all_latencies() {
        let mut random = 1_u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Of all magnitudes.
            (random >> 24) >> ((random >> 8) % 40)
        };
        let (mut all, mut parts, mut latencies) = (Histogram::default(), vec![Histogram::default(); 7], Vec::new());
        for at in 0..10_000 {
            let ns = draw();
            latencies.push(ns);
            all.note(Duration::from_nanos(ns));
            parts[at % 7].note(Duration::from_nanos(ns));
        }
        assert_eq!(parts.iter().cloned().sum::<Histogram>(), all);
        assert_eq!(parts.into_iter().rev().reduce(|sum, part| sum + part), Some(all.clone()));
        assert_eq!(all.clone() + Histogram::default(), all);
        for doublings in FINENESS..DOUBLINGS {
            let below = latencies.iter().filter(|ns| **ns < 1 << doublings).count() as u64;
            assert_eq!(all.samples_below(doublings), below, "below 2 to the power of {doublings}");
        }
        latencies.sort_unstable();
        for per_mille in 1..=1000 {
            let exact = latencies[latencies.len() * per_mille / 1000 - 1];
            let found = all.percentile_ns(per_mille as u64);
            let error = found.abs_diff(exact) as f64;
            assert!(error <= Histogram::RELATIVE_ERROR * exact as f64, "{found} instead of {exact}");
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
