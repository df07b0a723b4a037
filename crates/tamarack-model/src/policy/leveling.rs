//! Leveling: one run per level. Fewest runs to search, most writes: each entry is rewritten about
//! (T-1)/2 times in each level.
//!
//! With `first` slots in level 1, a flush rewrites a run that has at most its part of the level,
//! and an entry is rewritten about (T/first - 1)/2 times there. Those runs are small, and so are
//! their filters and indexes.

use std::fmt;

use super::steps::{ShapeFamily, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `leveling:T=10`; with a first level of up to four runs,
/// `leveling:T=10,first=4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leveling {
    ratio: u32,
    first: u32,
}

impl Leveling {
    /// Creates the policy with size ratio `T`, from 2 to 65536, and up to `first` run slots in
    /// level 1, from 1 to `T`.
    ///
    /// # Errors
    /// If one is out of range.
    pub fn new(ratio: u32, first: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        PolicyError::unless_within("first", first, 1, ratio, "the number of run slots of the first level")?;
        Ok(Self { ratio, first })
    }

    /// Returns the size ratio `T`.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }

    /// Returns the maximum number of run slots of level 1.
    pub fn first(&self) -> u32 {
        self.first
    }
}

impl ShapeFamily for Leveling {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        geometric(data, buffer, self.ratio, |level, _| if level == 1 { self.first } else { 1 })
    }
}

impl fmt::Display for Leveling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leveling:T={}", self.ratio)?;
        if self.first > 1 { write!(f, ",first={}", self.first) } else { Ok(()) }
    }
}
