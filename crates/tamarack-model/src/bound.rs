//! [`SpaceBound`]: compactions that keep space amplification below an upper bound.
//!
//! ```text
//!                           all bytes / bytes of the run live at worst     bound 1.5
//! level 1  ▭▭▭▭             (4 + 12 + 32) / 32 = 1.5                       within the bound
//! level 2  ▭▭▭▭▭▭ ▭▭▭▭▭▭
//! level 3  ▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭
//!
//! level 1  ▭▭▭▭▭            (5 + 12 + 32) / 32 = 1.53                      all runs become one
//! ```
//!
//! The bound applies to the worst amplification that counts permit ([`space`]): no run is read for
//! it, and a tree within the bound may really take less. Compactions alone enforce it, for any
//! policy: when an arrival makes the tree exceed the bound, all idle runs from the oldest on become
//! one.
//!
//! **Cost.** Such a compaction of a tree at rest leaves one run of S bytes. The next one is due
//! when (bound - 1) · S more bytes have come, and writes bound · S: `bound / (bound - 1)` bytes per
//! byte ingested, besides the policy's own writes; 3 with a bound of 1.5, 11 with 1.1. In a busy
//! tree, runs in other compactions are left out if at most half of the permitted excess would be
//! used up afterwards, so the cost is at most twice as high. Otherwise the compaction waits until
//! another one has ended, since each end is an arrival.
//!
//! **It comes to rest.** The output is one run, and a single run is never compacted for this cause.
//! Nothing is written again before the next arrival, even if nothing was removed: where a snapshot
//! needs all versions, they make the one run larger, and the next compaction waits for that many
//! more bytes. Versions that snapshots keep count as live.
//!
//! Tests: `tests/suite/bound.rs`.

use crate::cost::space::{self, RunContent};
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, CompactionPlan, Occasion};
use crate::shape::Shape;

/// Upper bound on the space amplification of a tree: bytes per byte that is live in the worst case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpaceBound {
    most: f64,
}

/// The smallest bound, one hundredth above 1, at which about a hundred bytes are written per byte
/// ingested.
pub const SPACE_BOUND_MIN: f64 = 1.01;

impl SpaceBound {
    /// Creates a bound; `None` unless `most` is finite and at least [`SPACE_BOUND_MIN`].
    pub fn new(most: f64) -> Option<Self> {
        (most.is_finite() && most >= SPACE_BOUND_MIN).then_some(Self { most })
    }

    /// The space amplification that it allows.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// Returns the compaction that brings the tree within the bound, if it exceeds it; `None` also
    /// if no compaction that can begin now would suffice. `content` gives the contents of a run.
    pub fn next_compaction(
        &self,
        shape: &Shape,
        occupancy: &Occupancy,
        in_progress: &[CompactionPlan],
        content: &dyn Fn(&Run) -> RunContent,
    ) -> Option<CompactionPlan> {
        if worst(occupancy, in_progress, content) <= self.most {
            return None;
        }
        let plan = planner::next_compaction(shape, occupancy, in_progress, Occasion::SpaceBound)?;
        let with_it = [in_progress, std::slice::from_ref(&plan)].concat();
        (worst(occupancy, &with_it, content) <= (1.0 + self.most) / 2.0).then_some(plan)
    }
}

/// The worst space amplification once all compactions in progress have ended, if they remove
/// nothing. `content` gives the contents of a run.
pub fn worst(occupancy: &Occupancy, in_progress: &[CompactionPlan], content: &dyn Fn(&Run) -> RunContent) -> f64 {
    let whole = || in_progress.iter().filter(|plan| !plan.is_partial());
    let mut contents: Vec<RunContent> = Vec::new();
    // The remaining inputs, which are neighbours, of the compaction that includes the last run.
    let mut inputs: &[RunId] = &[];
    for (_, run) in occupancy.runs() {
        match (inputs.split_first(), contents.last_mut()) {
            (Some((next, others)), Some(sum)) => {
                assert_eq!(*next, run.id, "inputs of a compaction stand side by side");
                *sum = sum.plus(content(run));
                inputs = others;
            }
            _ => {
                contents.push(content(run));
                inputs =
                    whole().find(|plan| plan.inputs.first() == Some(&run.id)).map_or(&[], |plan| &plan.inputs[1..]);
            }
        }
    }
    space::worst_of(&contents)
}
