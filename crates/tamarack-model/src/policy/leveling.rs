//! Leveling: one run per level. Fewest runs to search, most writes: each entry is rewritten about
//! (T-1)/2 times in each level.

use std::fmt;

use super::steps::{ShapeFamily, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `leveling:T=10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leveling {
    ratio: u32,
}

impl Leveling {
    /// Creates the policy with size ratio `T`.
    ///
    /// # Errors
    /// If it is below 2 or above 65536.
    pub fn new(ratio: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        Ok(Self { ratio })
    }

    /// Returns the size ratio `T`.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }
}

impl ShapeFamily for Leveling {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        geometric(data, buffer, self.ratio, |_| 1)
    }
}

impl fmt::Display for Leveling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leveling:T={}", self.ratio)
    }
}
