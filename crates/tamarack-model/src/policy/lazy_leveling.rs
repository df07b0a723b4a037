//! Lazy leveling: tiered, but for the last level, which is one run. Most entries are in the last
//! level, so that is where fewer runs save most; most writes are spared in the levels above.

use std::fmt;

use super::steps::{Policy, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// `lazy-leveling:T=5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LazyLeveling {
    ratio: u32,
}

impl LazyLeveling {
    /// With the size ratio `T` from level to level, and as many slots in all levels but the last.
    ///
    /// # Errors
    /// If it is below 2.
    pub fn new(ratio: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        Ok(Self { ratio })
    }
}

impl Policy for LazyLeveling {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        geometric(data, buffer, self.ratio, |last| if last { 1 } else { self.ratio })
    }
}

impl fmt::Display for LazyLeveling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lazy-leveling:T={}", self.ratio)
    }
}
