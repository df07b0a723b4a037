//! Autumn's closed forms: trees whose size ratios grow by `1/c` from level to level towards the
//! small ones ([`Garnering`](crate::policy::Garnering)).
//!
//! Everything follows from Eq. 5: full levels in proportion to `T^i / c^(i(2L-1-i)/2)`, one run
//! each. Shapes, [`super::update`] and [`crate::allocate`] give the same results for any tree;
//! `tests/suite/autumn.rs` compares them.
//!
//! Symbols are the paper's, except for its memtable size B: data is counted in memtables here.
//! Where the paper uses (T-1)/T for the share of the last level, which holds for c = 1 and many
//! levels, the exact share is used here: for T = 2 and c = 0.8 that is 11 % more filter memory than
//! Eq. 8 says.

use crate::allocate::LN2_SQUARED;

/// A tree of full levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutumnTree {
    /// `T`, the ratio of the last two levels, at least 2.
    pub ratio: f64,
    /// `c`, above 0; at most 1, which is leveling.
    pub scaling: f64,
    /// `L`.
    pub levels: u32,
}

impl AutumnTree {
    /// `L` for a last level of this many memtables: the smallest whole number with `C_L` at least
    /// that. The paper uses N (T-1)/T instead, and in Eq. 6 drops a factor of √2.
    ///
    /// # Panics
    /// If `last` is infinite or no number.
    pub fn levels_for(ratio: f64, scaling: f64, last: f64) -> u32 {
        assert!(last.is_finite(), "a last level of {last} buffers");
        let (t, a, x) = (ratio.ln(), -scaling.ln(), last.ln());
        let linear = t - a / 2.0;
        // The larger root of a/2 L² + (t - a/2) L = x, in a form that also holds for a = 0.
        let levels = 2.0 * x / (linear + (linear * linear + 2.0 * a * x).sqrt());
        // A whole result must not be rounded up for its last digit.
        (levels - 1e-9).ceil().max(1.0) as u32
    }

    /// `r_i = T / c^(L-i)`: Eq. 4.
    pub fn ratio_of(&self, level: u32) -> f64 {
        self.ratio / self.scaling.powi((self.levels - level) as i32)
    }

    /// `C_i` in memtables: Eq. 5.
    pub fn capacity(&self, level: u32) -> f64 {
        let (i, levels) = (f64::from(level), f64::from(self.levels));
        self.ratio.powi(level as i32) / self.scaling.powf(i * (2.0 * levels - 1.0 - i) / 2.0)
    }

    /// `N / N_L`, the data for each byte of the last level: `Σ c^(j(j-1)/2) T^-j`, less than
    /// T/(T-1). It is also the worst space amplification (section 3.1, which calls it O((T+1)/T)):
    /// all younger data may be new versions of the last level's entries.
    pub fn over_last(&self) -> f64 {
        (0..self.levels).map(|above| self.share_above(above)).sum()
    }

    /// The rates for `R` block reads of a zero-result lookup, level 1 first: Eq. 9 and 10 with the
    /// exact sum. They hold while none of them is above 1.
    pub fn rates(&self, reads: f64) -> Vec<f64> {
        let last = reads / self.over_last();
        (1..=self.levels).map(|level| last * self.share_above(self.levels - level)).collect()
    }

    /// Bits per entry for such rates: Eq. 8 with the exact share of the last level.
    pub fn memory(&self, reads: f64) -> f64 {
        let bits = |(level, rate): (u32, f64)| match self.share_above(self.levels - level) {
            // A level too small to be represented needs no bits, although its rate is 0.
            0.0 => 0.0,
            share => -rate.ln() / LN2_SQUARED * share,
        };
        (1..=self.levels).zip(self.rates(reads)).map(bits).sum::<f64>() / self.over_last()
    }

    /// The minimum bits per entry with which every level has a filter; below it, the last has none.
    /// It is largest for T = 2 and c = 1, 1/ln 2 = 1.44 bits (the paper's 1.52 is the sum of two
    /// terms).
    pub fn threshold(&self) -> f64 {
        self.memory(self.over_last())
    }

    /// Bytes written in level i for each byte that passes through, `(r_i - 1) / 2`: each batch that
    /// arrives rewrites the level, except the one that fills it. The paper has `O(r_i)`. For ratios
    /// that are not whole, see [`super::update`].
    pub fn writes(&self, level: u32) -> f64 {
        (self.ratio_of(level) - 1.0) / 2.0
    }

    /// The size of the level `above` levels over the last, as a share of the last: `c^(j(j-1)/2) /
    /// T^j`.
    fn share_above(&self, above: u32) -> f64 {
        let j = f64::from(above);
        self.scaling.powf(j * (j - 1.0) / 2.0) / self.ratio.powi(above as i32)
    }
}
