//! SMOOSE's trees: MOOSE's, with the levels above the last that a workload of scans and updates
//! pays least for (section 3.6; [`LevelCost::Mixed`]).
//!
//! A scan pays `range` for each run, and an update `update` for each time that its entry is
//! rewritten, so a level of ratio `r` in `n` runs costs `range · n + update · r / n`. Where one of
//! them prevails, fewer and larger levels are best, of one run or of many:
//!
//! ```text
//! a last level of 10,000 buffers           ratios                    k
//! moose:last=0.8                           7  7  7  6.1  4.8         1
//! smoose:range=0.98,update=0.0025          50  49  4.1               0.0505
//! smoose:range=0.33,update=0.0825          11  6  6  5.1  4.9        0.5
//! smoose:range=0.01,update=0.245           11  14  15.2  4.3         4.95
//! ```
//!
//! Only `range / update` matters for the ratios. `k` should be `√(update / range)`, with which `k
//! √r` runs cost least; that is its default. The navigator finds all parameters for a workload.
//!
//! **Growth** is that of [`Moose`]. The search for a structure has a bound on its steps
//! ([`structure::STEPS_MAX`](super::structure::STEPS_MAX)).

use std::fmt;

use super::moose::Moose;
use super::steps::ShapeFamily;
use super::structure::LevelCost;
use super::words::PolicyError;
use crate::shape::Shape;
use crate::units::Bytes;

/// The specification `smoose:last=0.8,k=0.5,range=0.33,update=0.0825`. Omitted parameters have
/// these values, a third of scans and a third of updates with four entries to a block; if `k` is
/// omitted it is [`runs_for`](Self::runs_for) the other two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoose {
    moose: Moose,
    range: f64,
    update: f64,
}

impl Smoose {
    /// The least cost of a run, which is 1 at most.
    pub const RANGE_MIN: f64 = 0.0001;

    /// The least cost of a rewriting, which is 1 at most.
    pub const UPDATE_MIN: f64 = 0.00001;

    /// The default share of the last level: MOOSE's.
    pub const LAST: f64 = 0.8;

    /// The default cost of a run: a third of all operations are scans.
    pub const RANGE: f64 = 0.33;

    /// The default cost of a rewriting: a third of all operations are updates, with four entries to
    /// a block.
    pub const UPDATE: f64 = 0.0825;

    /// Creates the policy with this share of all capacity in the last level, `k √r` runs in a level
    /// of size ratio `r`, and structures for these costs of an operation: `range` for each run, the
    /// share of scans; `update` for each rewriting of an entry, the share of updates over entries
    /// to a block.
    ///
    /// # Errors
    /// If `last` is not from 0.5 to 0.99, `k` not from 0.01 to 100, `range` not from
    /// [`RANGE_MIN`](Self::RANGE_MIN) to 1, or `update` not from [`UPDATE_MIN`](Self::UPDATE_MIN)
    /// to 1.
    pub fn new(last: f64, runs: f64, range: f64, update: f64) -> Result<Self, PolicyError> {
        PolicyError::unless_within("range", range, Self::RANGE_MIN, 1.0, "the cost of a run, the share of scans,")?;
        let of_update = "the cost of a rewriting, the share of updates over entries to a block,";
        PolicyError::unless_within("update", update, Self::UPDATE_MIN, 1.0, of_update)?;
        Ok(Self { moose: Moose::new(last, runs)?, range, update })
    }

    /// The `k` for which `k √r` runs cost least, `√(update / range)`, in three digits and at least
    /// 0.01, the smallest that is allowed.
    pub fn runs_for(range: f64, update: f64) -> f64 {
        let runs = (update / range).sqrt().max(0.01);
        format!("{runs:.2e}").parse().unwrap_or(runs)
    }

    /// Returns the last level's share of the tree.
    pub fn last(&self) -> f64 {
        self.moose.last()
    }

    /// Returns the factor `k` of the number of run slots.
    pub fn runs(&self) -> f64 {
        self.moose.runs()
    }

    /// Returns what a level is taken to cost.
    pub fn level_cost(&self) -> LevelCost {
        LevelCost::Mixed { range: self.range, update: self.update }
    }

    /// The shape with a last level of this many memtables.
    pub fn with_last(&self, last: u64, buffer: Bytes) -> Shape {
        self.moose.structured(last, buffer, self.level_cost())
    }
}

impl ShapeFamily for Smoose {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        self.with_last(Moose::last_for(data, buffer), buffer)
    }
}

impl fmt::Display for Smoose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (last, runs) = (self.last(), self.runs());
        write!(f, "smoose:last={last},k={runs},range={},update={}", self.range, self.update)
    }
}
