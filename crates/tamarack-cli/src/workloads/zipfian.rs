//! Ranks from a Zipfian distribution: of n ranks from 0 on, rank r comes in proportion to `1 / (r +
//! 1)^0.99`, which is YCSB's skew.
//!
//! The method is rejection-inversion (Hörmann and Derflinger, *Rejection-inversion to generate
//! variates from monotone discrete distributions*, 1996):
//!
//! ```text
//! uniform u ──► x, where the area under 1 / x^0.99 is u ──► the whole number next to x, taken or
//!               drawn again so that the areas become the sums
//! ```
//!
//! It is exact, needs no table and no sum over all ranks, and hardly ever draws twice. YCSB itself
//! (`ZipfianGenerator`, after Gray and others, *Quickly generating billion-record synthetic
//! databases*, 1994) takes ranks 0 and 1 by their exact shares and approximates the others: of 1000
//! ranks, it draws rank 2 a sixth too often, and rank 3 a tenth.
//!
//! The mapping from ranks to entries is the caller's. Cost: four powers per rank. Test: against the
//! exact shares, with a bound that YCSB's method would fail.

use tamarack_env::Random;

/// The exponent.
pub(super) const THETA: f64 = 0.99;

/// The distribution over a number of ranks.
pub(crate) struct Zipfian {
    ranks: u64,
    /// The area up to the first rank's end, less 1 for that rank's own share; and that up to the
    /// last one's.
    first: f64,
    last: f64,
    /// A draw that lies so near below its whole number is kept in any case.
    near: f64,
}

impl Zipfian {
    /// Over `ranks` ranks, at least 1.
    pub(crate) fn new(ranks: u64) -> Self {
        let near = 2.0 - inverse_area(area(2.5) - height(2.0));
        Self { ranks, first: area(1.5) - 1.0, last: area(ranks as f64 + 0.5), near }
    }

    /// Draws a rank.
    pub(crate) fn rank(&self, random: &Random) -> u64 {
        loop {
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let drawn = self.last + uniform * (self.first - self.last);
            let x = inverse_area(drawn);
            let whole = x.round().clamp(1.0, self.ranks as f64);
            if whole - x <= self.near || drawn >= area(whole + 0.5) - height(whole) {
                return whole as u64 - 1;
            }
        }
    }
}

/// In proportion to the share of the x-th rank, counted from 1.
fn height(x: f64) -> f64 {
    x.powf(-THETA)
}

/// Under the heights, from 1 to x.
fn area(x: f64) -> f64 {
    (x.powf(1.0 - THETA) - 1.0) / (1.0 - THETA)
}

/// The x up to which the area is this.
fn inverse_area(area: f64) -> f64 {
    (1.0 + (1.0 - THETA) * area).powf(1.0 / (1.0 - THETA))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Squared differences from the exact shares are as large as chance makes them, no larger:
    /// chi-squared, within six standard deviations.
    #[test]
    fn shares_are_exact() {
        for (seed, ranks) in [(1, 2_usize), (2, 30), (3, 1000)] {
            let (zipfian, random, draws) = (Zipfian::new(ranks as u64), Random::new(seed), 400_000);
            let mut counts = vec![0_u32; ranks];
            (0..draws).for_each(|_| counts[zipfian.rank(&random) as usize] += 1);
            let heights = || (0..ranks).map(|rank| height(rank as f64 + 1.0));
            let sum: f64 = heights().sum();
            let expected = heights().map(|height| height / sum * f64::from(draws));
            let squares: f64 = counts.iter().zip(expected).map(|(n, e)| (f64::from(*n) - e).powi(2) / e).sum();
            let freedom = (ranks - 1) as f64;
            assert!(squares < freedom + 6.0 * (2.0 * freedom).sqrt(), "{ranks} ranks: {squares}");
        }
        let (one, random) = (Zipfian::new(1), Random::new(4));
        assert!((0..100).all(|_| one.rank(&random) == 0));
    }
}
