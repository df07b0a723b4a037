//! [`Zipf`]: draws of ranks by Zipf's law, from a table of sums, which is plain and exact.

use crate::random::Random;

/// Ranks from 0 on, of which the r-th is drawn in proportion to `(r + 1)^-θ`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// For each rank, the share of all draws that it and those before it get.
    sums: Vec<f64>,
}

impl Zipf {
    /// Makes a distribution over so many ranks; with an exponent of 0 all are equally likely.
    ///
    /// # Panics
    /// If there are no ranks.
    pub fn new(ranks: u64, theta: f64) -> Self {
        assert!(ranks > 0, "there is no rank to draw");
        let shares: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).collect();
        let all: f64 = shares.iter().sum();
        let sums = shares.iter().scan(0.0, |sum, share| {
            *sum += share / all;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let drawn = random.fraction();
        self.sums.partition_point(|sum| *sum < drawn).min(self.sums.len() - 1) as u64
    }
}

/// The shares of the first ranks are those of the law.
#[test]
fn shares_are_those_of_the_law() {
    let (zipf, mut random) = (Zipf::new(100, 1.0), Random::new(1));
    let mut counts = [0_u32; 100];
    (0..100_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
    let all: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [0, 1, 9] {
        let expected = 100_000.0 / f64::from(rank + 1) / all;
        assert!((f64::from(counts[rank as usize]) / expected - 1.0).abs() < 0.05, "rank {rank}: {counts:?}");
    }
}
