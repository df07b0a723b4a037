//! [`Zipfian`]: skewed draws of entries, and [`scatter`], so that an entry's frequency depends
//! neither on its age nor on its key.

/// Ranks from a Zipfian distribution: rank r is drawn in proportion to 1 / (r + 1)^0.99. The method
/// is rejection-inversion (Hörmann and Derflinger, 1996), which is exact; YCSB's draws ranks 2 to 9
/// a tenth too often.
pub struct Zipfian {
    items: u64,
    /// The integral at both ends, and the distance from a whole number within which a draw is
    /// accepted at once.
    first: f64,
    last: f64,
    near: f64,
}

/// The exponent, YCSB's.
pub const THETA: f64 = 0.99;

impl Zipfian {
    pub fn new(items: u64) -> Self {
        let near = 2.0 - inverse(integral(2.5) - 2f64.powf(-THETA));
        Self { items, first: integral(1.5) - 1.0, last: integral(items as f64 + 0.5), near }
    }

    /// Draws a rank. `unit` gives numbers from 0, inclusive, to 1, exclusive.
    pub fn rank(&self, mut unit: impl FnMut() -> f64) -> u64 {
        loop {
            let u = self.last + unit() * (self.first - self.last);
            let x = inverse(u);
            let k = x.round().clamp(1.0, self.items as f64);
            if k - x <= self.near || u >= integral(k + 0.5) - k.powf(-THETA) {
                return k as u64 - 1;
            }
        }
    }
}

/// Of x^-0.99.
fn integral(x: f64) -> f64 {
    (x.powf(1.0 - THETA) - 1.0) / (1.0 - THETA)
}

fn inverse(y: f64) -> f64 {
    (1.0 + (1.0 - THETA) * y).powf(1.0 / (1.0 - THETA))
}

/// Permutes the numbers below `bound` without visible order.
pub fn scatter(n: u64, bound: u64) -> u64 {
    let bits = 64 - (bound - 1).max(1).leading_zeros();
    let mask = u64::MAX >> (64 - bits);
    let mut number = n;
    // Permutes the numbers of `bits` bits, repeatedly until the result is below the bound.
    loop {
        for factor in [0x9e37_79b9_7f4a_7c15u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            number = number.wrapping_mul(factor) & mask;
            number ^= number >> (bits / 2).max(1);
        }
        if number < bound {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::Random;

    use super::*;
    use crate::numbers::unit;

    #[test]
    fn scattered_numbers_are_a_permutation() {
        for bound in [1, 2, 3, 10, 1000, 1 << 12] {
            let mut scattered: Vec<u64> = (0..bound).map(|n| scatter(n, bound)).collect();
            scattered.sort_unstable();
            assert_eq!(scattered, (0..bound).collect::<Vec<_>>(), "below {bound}");
        }
    }

    /// The share of the first ranks is what the formula says.
    #[test]
    fn ranks_are_zipfian() {
        let (zipfian, random) = (Zipfian::new(10_000), Random::new(1));
        let draws = 200_000;
        let mut counts = vec![0u32; 10_000];
        (0..draws).for_each(|_| counts[zipfian.rank(|| unit(random.next())) as usize] += 1);
        let zeta: f64 = (1..=10_000).map(|i| f64::from(i).powf(-THETA)).sum();
        for (first, ranks) in [(0, 1), (1, 1), (2, 8), (10, 90), (100, 900)] {
            let share = f64::from(counts[first..first + ranks].iter().sum::<u32>()) / f64::from(draws);
            let expected: f64 = (first..first + ranks).map(|r| (r as f64 + 1.0).powf(-THETA) / zeta).sum();
            assert!((share / expected - 1.0).abs() < 0.05, "ranks {first}..+{ranks}: {share} instead of {expected}");
        }
    }
}
