//! MOOSE: a last level with a given share of all data, and above it the ratios and numbers of runs
//! with the lowest cost of scans and updates (sections 3.3 and 3.4).
//!
//! ```text
//! moose:last=0.8,k=1, with a last level of 10,000 buffers
//!
//!            buffers     r       n = √r
//! level 1         7      7       3
//! level 2        49      7       3
//! level 3       343      7       3
//! level 4      2101      6.1     2
//! level 5     10000      4.8     2
//! ```
//!
//! For given ratios, `n_i = k √r_i` runs minimise the product of scan cost and update cost, and `k`
//! trades one for the other; see [`structure`](super::structure) for the ratios.
//!
//! **Growth** enlarges the last level first: when it is full, it becomes a quarter larger (in whole
//! memtables), and the levels above are recomputed.

use std::fmt;

use super::steps::{ShapeFamily, enough};
use super::structure::{self, LevelCost};
use super::words::PolicyError;
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `moose:last=0.8,k=1`; omitted parameters have these values, MOOSE's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moose {
    last: f64,
    runs: f64,
}

impl Moose {
    /// Creates the policy with this share of all capacity in the last level, and `k √r` runs in a
    /// level of size ratio `r`, rounded, at least 1 and at most one for each batch.
    ///
    /// # Errors
    /// If `last` is not from 0.5 to 0.99, or `k` not from 0.01 to 100.
    pub fn new(last: f64, runs: f64) -> Result<Self, PolicyError> {
        PolicyError::unless_within("last", last, 0.5, 0.99, "the last level's share of all")?;
        PolicyError::unless_within("k", runs, 0.01, 100.0, "runs of a level for each √r")?;
        Ok(Self { last, runs })
    }

    /// Returns the last level's share of the tree.
    pub fn last(&self) -> f64 {
        self.last
    }

    /// Returns the factor `k` of the number of run slots.
    pub fn runs(&self) -> f64 {
        self.runs
    }

    /// The shape with a last level of this many memtables.
    pub fn with_last(&self, last: u64, buffer: Bytes) -> Shape {
        self.structured(last, buffer, LevelCost::Root)
    }

    /// The same with the structure that is cheapest if levels cost this.
    pub(super) fn structured(&self, last: u64, buffer: Bytes, cost: LevelCost) -> Shape {
        // A whole number must not be rounded down for its last digit.
        let above = (last as f64 * (1.0 - self.last) / self.last + 1e-9) as u64;
        let mut capacities = structure::levels_above(above, last as f64, cost);
        capacities.push(last);
        structure::shape_of(&capacities, self.runs, buffer)
            .unwrap_or_else(|error| panic!("{self}, {last} buffers, {cost:?}: {error}"))
    }

    /// Memtables of the first last level that holds more than this much data: each is a quarter
    /// larger than the one before.
    pub(super) fn last_for(data: Bytes, buffer: Bytes) -> u64 {
        let enough = enough(data);
        let mut last = 2;
        while buffer * last <= enough {
            last = (last + 1).max(last / 4 * 5 + last % 4);
        }
        last
    }
}

impl ShapeFamily for Moose {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        self.with_last(Self::last_for(data, buffer), buffer)
    }
}

impl fmt::Display for Moose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "moose:last={},k={}", self.last, self.runs)
    }
}
