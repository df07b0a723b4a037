//! Dostoevsky's (T, K, Z): K visible runs in each level but the last, Z in the last. Leveling is K
//! = Z = 1, tiering K = Z = T-1, lazy leveling K = T-1, Z = 1.

use std::fmt;

use super::steps::{ShapeFamily, geometric};
use super::words::{PolicyError, check_ratio};
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `dostoevsky:T=5,K=4,Z=1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dostoevsky {
    ratio: u32,
    inner: u32,
    last: u32,
}

impl Dostoevsky {
    /// Creates the policy with size ratio `T`, `K` visible runs in all levels but the last, and `Z`
    /// in the last.
    ///
    /// # Errors
    /// If the ratio is below 2, or K or Z is not from 1 to T-1.
    pub fn new(ratio: u32, inner: u32, last: u32) -> Result<Self, PolicyError> {
        check_ratio(ratio)?;
        PolicyError::unless_within("K", inner, 1, ratio - 1, "the number of visible runs of a level")?;
        PolicyError::unless_within("Z", last, 1, ratio - 1, "the number of visible runs of the last level")?;
        Ok(Self { ratio, inner, last })
    }

    /// Returns the size ratio `T`.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }

    /// Returns the number of runs `K` of all levels but the last.
    pub fn inner(&self) -> u32 {
        self.inner
    }

    /// Returns the number of runs `Z` of the last level.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// The number of slots for this many visible runs. T slots show T-1 runs, since the batch that
    /// would take the last slot moves the level down. For fewer, slots and visible runs are the
    /// same.
    fn slots(&self, visible: u32) -> u32 {
        if visible == self.ratio - 1 { self.ratio } else { visible }
    }
}

impl ShapeFamily for Dostoevsky {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        // T = 2 has at most one visible run; leveling and tiering are then the same tree, and its
        // levels get one slot.
        let slots = |visible| if self.ratio == 2 { 1 } else { self.slots(visible) };
        geometric(data, buffer, self.ratio, |_, last| slots(if last { self.last } else { self.inner }))
    }
}

impl fmt::Display for Dostoevsky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dostoevsky:T={},K={},Z={}", self.ratio, self.inner, self.last)
    }
}
