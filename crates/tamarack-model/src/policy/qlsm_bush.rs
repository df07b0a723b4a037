//! QLSM-Bush: tiered, except the last level, with size ratios that grow doubly exponentially: from
//! the last level up T, T^X, T^(X²), and so on. Few levels hold much data and each entry is
//! rewritten only once per level; but small levels have so many runs that reading them is
//! expensive.
//!
//! ```text
//! qlsm-bush:T=2,X=2      r             runs          buffers in all
//! 3 levels               16, 4, 2      16, 4, 1      128 in the last
//! 4 levels         256,  16, 4, 2     256, 16, 4, 1  32,768
//! ```
//!
//! All capacities grow with the number of levels, as in [Garnering](super::Garnering), so another
//! level moves nothing at first.

use std::fmt;

use super::steps::{ShapeFamily, by_number_of_levels};
use super::words::{PolicyError, check_ratio};
use crate::shape::{Level, Shape};
use crate::units::Bytes;

/// The specification `qlsm-bush:T=2,X=2`; omitted parameters have these values, MOOSE's baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QlsmBush {
    ratio: u32,
    exponent: u32,
}

impl QlsmBush {
    /// Creates the policy with size ratio `T` of the last level; the ratio of each level above is
    /// that of the level below to the power `X`.
    ///
    /// # Errors
    /// If the ratio is below 2, or `X` is not from 1 (which is lazy leveling) to 16.
    pub fn new(ratio: u32, exponent: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        PolicyError::unless_within("X", exponent, 1, 16, "the exponent from ratio to ratio")?;
        Ok(Self { ratio, exponent })
    }

    /// Returns the size ratio `T` of the last two levels.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }

    /// Returns the exponent `X` between neighbouring size ratios.
    pub fn exponent(&self) -> u32 {
        self.exponent
    }

    /// The levels of a tree with `count` of them. `None` if their capacities do not fit 64 bits.
    fn levels(&self, buffer: Bytes, count: u32) -> Option<Vec<Level>> {
        // From the last level up; run slots are counted in 32 bits.
        let mut ratios = vec![self.ratio];
        for _ in 1..count {
            ratios.push(ratios[ratios.len() - 1].checked_pow(self.exponent)?);
        }
        let (mut capacity, mut sum) = (buffer.0, 0_u64);
        let mut levels = Vec::with_capacity(ratios.len());
        for (above, ratio) in ratios.into_iter().enumerate().rev() {
            capacity = capacity.checked_mul(u64::from(ratio))?;
            sum = sum.checked_add(capacity)?;
            levels.push(Level { capacity: Bytes(capacity), runs: if above == 0 { 1 } else { ratio } });
        }
        Some(levels)
    }
}

impl ShapeFamily for QlsmBush {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        by_number_of_levels(data, buffer, |count| self.levels(buffer, count))
    }
}

impl fmt::Display for QlsmBush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qlsm-bush:T={},X={}", self.ratio, self.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::LazyLeveling;

    /// MOOSE's baseline, 11 GB over a memtable of 2 MB: {256,16,4,2}; half full, it shows 128 + 8 +
    /// 2 + 1 = 139 runs, the block reads of a scan in Table 5 for workload A.
    #[test]
    fn the_papers_baseline() {
        let shape = QlsmBush::new(2, 2).expect("a policy").shape(Bytes(11_000_000_000), Bytes(2_000_000));
        let ratios: Vec<f64> = (1..=shape.last()).map(|level| shape.ratio(level)).collect();
        let runs: Vec<u32> = shape.levels().iter().map(|level| level.runs).collect();
        assert_eq!((ratios, runs), (vec![256.0, 16.0, 4.0, 2.0], vec![256, 16, 4, 1]));
        let half: u64 = (1..shape.last()).map(|level| shape.batches(level) / 2).sum::<u64>() + 1;
        assert_eq!(half, 139);
    }

    /// With X = 1 it is lazy leveling.
    #[test]
    fn without_growth_it_is_lazy_leveling() {
        for ratio in 2..20 {
            let (one, other) =
                (QlsmBush::new(ratio, 1).expect("a policy"), LazyLeveling::new(ratio).expect("a policy"));
            for power in 0..46 {
                let (data, buffer) = (Bytes(1 << power), Bytes(3));
                assert_eq!(one.shape(data, buffer), other.shape(data, buffer));
            }
        }
    }
}
