//! Lazy leveling: tiered, except for a last level of one run. Most entries are in the last level,
//! where fewer runs save most; the levels above save most of the writes.

use std::fmt;

use super::steps::{ShapeFamily, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `lazy-leveling:T=5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyLeveling {
    ratio: u32,
}

impl LazyLeveling {
    /// Creates the policy with size ratio `T`, and T slots in all levels but the last.
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

impl ShapeFamily for LazyLeveling {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        geometric(data, buffer, self.ratio, |_, last| if last { 1 } else { self.ratio })
    }
}

impl fmt::Display for LazyLeveling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lazy-leveling:T={}", self.ratio)
    }
}
