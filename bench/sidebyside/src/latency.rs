//! A histogram of latencies whose buckets are at most 1/32 wide, relative to their value.
//!
//! ```text
//! nanoseconds   0 … 31 one bucket each, then 32 buckets for each power of two
//! ```

/// Buckets per power of two, as a power of two.
const FINE_BITS: u32 = 5;

/// Counts of latencies.
#[derive(Clone)]
pub struct Latencies {
    buckets: Vec<u64>,
    greatest_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; (65 - FINE_BITS as usize) << FINE_BITS], greatest_ns: 0 }
    }
}

impl Latencies {
    /// No latencies yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one latency.
    pub fn add(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.greatest_ns = self.greatest_ns.max(ns);
    }

    /// Counts all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.greatest_ns = self.greatest_ns.max(other.greatest_ns);
    }

    /// The greatest of all, exactly.
    pub fn greatest_ns(&self) -> u64 {
        self.greatest_ns
    }

    /// The latency, in nanoseconds, that this fraction of all did not exceed: the least value of
    /// its bucket.
    pub fn quantile_ns(&self, fraction: f64) -> u64 {
        let rank = (self.buckets.iter().sum::<u64>() as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        for (i, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return least(i);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    let Some(shift) = (63 - FINE_BITS).checked_sub(ns.leading_zeros()) else { return ns as usize };
    ((shift as usize + 1) << FINE_BITS) + (ns >> shift) as usize - (1 << FINE_BITS)
}

fn least(bucket: usize) -> u64 {
    let (row, column) = (bucket >> FINE_BITS, (bucket & ((1 << FINE_BITS) - 1)) as u64);
    if row == 0 { column } else { (column + (1 << FINE_BITS)) << (row - 1) }
}

/// Every value lies in its bucket, which is narrow; quantiles come out within that width.
#[test]
fn buckets_are_narrow() {
    for shift in 0..64 {
        for value in [1u64 << shift, (1 << shift) + 1, (1u64 << shift).wrapping_mul(2).wrapping_sub(1)] {
            let floor = least(bucket(value));
            assert!(floor <= value && value - floor <= value / 32, "{value} is counted as {floor}");
        }
    }
    let mut latencies = Latencies::new();
    (1..=1000).for_each(|ns| latencies.add(ns));
    assert!((480..=500).contains(&latencies.quantile_ns(0.5)), "{}", latencies.quantile_ns(0.5));
    assert!((960..=990).contains(&latencies.quantile_ns(0.99)), "{}", latencies.quantile_ns(0.99));
}
