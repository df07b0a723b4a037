//! Tiering: as many run slots in a level as batches fill it. Each entry is written once per level,
//! and a lookup visits up to T-1 runs in each.

use std::fmt;

use super::steps::{ShapeFamily, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `tiering:T=4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiering {
    ratio: u32,
}

impl Tiering {
    /// Creates the policy with size ratio `T` and T slots in every level.
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

impl ShapeFamily for Tiering {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        geometric(data, buffer, self.ratio, |_, _| self.ratio)
    }
}

impl fmt::Display for Tiering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tiering:T={}", self.ratio)
    }
}
