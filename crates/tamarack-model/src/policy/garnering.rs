//! Garnering (Autumn, section 3.1): leveling with size ratios that grow towards the small levels.
//! The last level is T times the one above, that one T/c times the next, then T/c², and so on: `C_i
//! / C_(i-1) = T / c^(L-i)`, Eq. 4. There are fewer levels, √(log N) of them instead of log N, so a
//! lookup or scan visits fewer runs; level 1 is rewritten most.
//!
//! ```text
//!            T=2, c=0.8              all in buffers
//! 1 level     2
//! 2 levels    2.5   5
//! 3 levels    3.1   7.8   15.6
//! 4 levels    3.9  12.2   30.5   61
//! ```
//!
//! All capacities grow with the number of levels. When the last level is full, one more level makes
//! level i larger by c^(-i), so no level is full any more, and a new level moves nothing at first.
//! That is Autumn's *delayed last-level compaction*; it needs no rule of its own, since
//! [`relabel`](crate::planner::relabel) keeps runs in levels that hold them.
//!
//! With `first` slots in level 1, flushes stay runs of their own there until its slots are taken
//! (section 3.2); with as many slots as its ratio, level 1 is tiered.

use std::fmt;

use super::steps::{ShapeFamily, by_number_of_levels};
use super::words::{PolicyError, check_ratio};
use crate::shape::{Level, Shape};
use crate::units::Bytes;

/// The specification `garnering:T=2,c=0.8`, Autumn's defaults for omitted parameters; with a first
/// level of up to four runs, `garnering:T=2,c=0.8,first=4`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Garnering {
    ratio: u32,
    scaling: f64,
    first: u32,
}

/// The minimum `c`: ratios then grow tenfold from level to level.
const SCALING_MIN: f64 = 0.1;

impl Garnering {
    /// Creates the policy with size ratio `T` of the last two levels, ratios that grow by `1/c`
    /// from level to level above them, and up to `first` run slots in level 1 (at most the batches
    /// that fill it).
    ///
    /// # Errors
    /// If the ratio is below 2, `c` is not from 0.1 to 1, or `first` is 0.
    pub fn new(ratio: u32, scaling: f64, first: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        PolicyError::unless_within("c", scaling, SCALING_MIN, 1.0, "the factor between neighbouring size ratios")?;
        PolicyError::unless_within("first", first, 1, u32::MAX, "the number of run slots of the first level")?;
        Ok(Self { ratio, scaling, first })
    }

    /// Returns the size ratio `T` of the last two levels.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }

    /// Returns the factor `c` between neighbouring size ratios.
    pub fn scaling(&self) -> f64 {
        self.scaling
    }

    /// Returns the maximum number of run slots of level 1.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The levels of a tree with `count` of them: Eq. 5, `C_i = F · T^i / c^(i(2L-1-i)/2)`. `None`
    /// if their capacities do not fit 64 bits.
    fn levels(&self, buffer: Bytes, count: u32) -> Option<Vec<Level>> {
        // `power` is T^i in whole numbers, so that c = 1 is leveling to the last byte; `stretch`
        // the rest.
        let (mut power, mut stretch) = (buffer.0, 1.0);
        let (mut levels, mut sum) = (Vec::new(), 0_u64);
        for number in 1..=count {
            power = power.checked_mul(u64::from(self.ratio))?;
            for _ in number..count {
                stretch /= self.scaling;
            }
            let more = (power as f64 * (stretch - 1.0)).round();
            if more >= 2_f64.powi(63) {
                return None;
            }
            let capacity = power.checked_add(more as u64)?;
            sum = sum.checked_add(capacity)?;
            let batches = u32::try_from(capacity / buffer.0).unwrap_or(u32::MAX);
            let runs = if number == 1 { self.first.min(batches) } else { 1 };
            levels.push(Level { capacity: Bytes(capacity), runs });
        }
        Some(levels)
    }
}

impl ShapeFamily for Garnering {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        by_number_of_levels(data, buffer, |count| self.levels(buffer, count))
    }
}

impl fmt::Display for Garnering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "garnering:T={},c={}", self.ratio, self.scaling)?;
        if self.first > 1 { write!(f, ",first={}", self.first) } else { Ok(()) }
    }
}
