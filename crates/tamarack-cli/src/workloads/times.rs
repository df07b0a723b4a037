//! Latency histogram with sixteen buckets per doubling: what it tells
//! is at most 3 % off.
//!
//! Each client records every operation in its own histogram; they are added up at the end. Memory:
//! 8 KiB. Cost: one addition per operation.

use std::time::Duration;

/// Buckets per doubling, as a power of two.
const FINENESS: u32 = 4;

const BUCKETS: usize = ((u64::BITS - FINENESS + 1) as usize) << FINENESS;

/// Times of many operations.
pub(crate) struct Times {
    counts: Vec<u64>,
    operations: u64,
    longest: Duration,
}

/// What a histogram tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    /// How many operations there were.
    pub(crate) operations: u64,
    /// Within how many nanoseconds half of them ended, 99 of 100, and 999 of 1000; 0 if there were
    /// none.
    pub(crate) within_ns: [u64; 3],
    /// How many the longest took.
    pub(crate) longest_ns: u64,
}

impl Times {
    /// Of none.
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], operations: 0, longest: Duration::ZERO }
    }

    /// An operation took so long.
    pub(crate) fn note(&mut self, took: Duration) {
        self.counts[bucket_of(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))] += 1;
        self.operations += 1;
        self.longest = self.longest.max(took);
    }

    /// Adds those of another client.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.operations += other.operations;
        self.longest = self.longest.max(other.longest);
    }

    /// All that is told of them.
    pub(crate) fn latency(&self) -> Latency {
        let longest_ns = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX);
        // The middle of a bucket may lie beyond the longest time in it.
        let within_ns = [500, 990, 999].map(|of_thousand| self.within_ns(of_thousand).min(longest_ns));
        Latency { operations: self.operations, within_ns, longest_ns }
    }

    /// Within how many nanoseconds `of_thousand` of every thousand operations ended; 0 if there
    /// were none.
    fn within_ns(&self, of_thousand: u64) -> u64 {
        let wanted = (self.operations * of_thousand).div_ceil(1000).max(1);
        let mut ended = 0;
        let bucket = self.counts.iter().position(|count| {
            ended += count;
            ended >= wanted
        });
        bucket.map_or(0, middle_of)
    }
}

fn bucket_of(ns: u64) -> usize {
    let doublings = ns.checked_ilog2().unwrap_or(0).saturating_sub(FINENESS);
    ((doublings as usize) << FINENESS) + (ns >> doublings) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket >> FINENESS).saturating_sub(1);
    let first = (bucket - (doublings << FINENESS)) as u64;
    (first << doublings) + (1 << doublings) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every time has a bucket whose middle is near it.
    #[test]
    fn middles_are_near() {
        for ns in (0..10_000).chain((4..64).flat_map(|power| [(1 << power) - 1, 1 << power, 3 << (power - 1)])) {
            let middle = middle_of(bucket_of(ns));
            assert!(middle.abs_diff(ns) <= ns / 32, "{ns} is told as {middle}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// Of known times in two parts, percentiles are those of the whole.
    #[test]
    fn percentiles_are_those_of_all() {
        let (mut times, mut others) = (Times::new(), Times::new());
        assert_eq!(times.within_ns(500), 0);
        (1..=50_000).for_each(|ns| times.note(Duration::from_nanos(ns)));
        (50_001..=100_000).for_each(|ns| others.note(Duration::from_nanos(ns)));
        times.add(&others);
        assert_eq!((times.latency().operations, times.latency().longest_ns), (100_000, 100_000));
        for (of_thousand, expected) in [(500, 50_000_u64), (990, 99_000), (999, 99_900)] {
            let found = times.within_ns(of_thousand);
            assert!(found.abs_diff(expected) <= expected / 32, "{found} instead of {expected}");
        }
    }
}
