//! [`SpaceBound`]: what is merged because a tree takes more space than it may.
//!
//! ```text
//!                                   all bytes / bytes of the run that is live at worst        bound 1.5
//! level 1  ▭▭▭▭                     (4 + 12 + 32) / 32 = 1.5                                  kept
//! level 2  ▭▭▭▭▭▭ ▭▭▭▭▭▭
//! level 3  ▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭
//!
//! level 1  ▭▭▭▭▭                    (5 + 12 + 32) / 32 = 1.53                                 all become one run
//! ```
//!
//! The bound is on the amplification that is possible by what counts tell ([`space`]): no run is
//! read for it, and a tree that is within it may in truth take less. It is kept by merges alone,
//! whatever the shape: with any policy, all runs from the oldest on that no merge holds become one
//! when something has arrived that makes it too much.
//!
//! **What that costs.** After such a merge of a tree at rest, all is one run of S bytes. The next
//! one is called for when (bound - 1) · S more have come, and writes bound · S: so
//! `bound / (bound - 1)` bytes for each that came, whatever the policy writes besides; 3 with a
//! bound of 1.5, 11 with 1.1. A busy tree has runs that merges hold; then what they hold stays out
//! of it, if no more than half of what the bound leaves would be used up afterwards, so that it is
//! at most twice as much. Else it waits until one of them has ended, since each end is an arrival.
//!
//! **It comes to rest.** What was merged is one run, and a run alone is never merged for this. So
//! nothing is written again before something has arrived, also where nothing went: where a snapshot
//! needs all versions, they make the one run larger, and the next merge waits for so much more.
//! What snapshots keep counts as live.
//!
//! Tests: `tests/suite/bound.rs`.

use crate::cost::space::{self, Content};
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, CompactionPlan, Occasion};
use crate::shape::Shape;

/// How many bytes a tree may take for each that is live at worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpaceBound {
    most: f64,
}

/// The least bound: a hundredth more than what is live, at which a hundred bytes are written for
/// each that comes.
pub const SPACE_BOUND_MIN: f64 = 1.01;

impl SpaceBound {
    /// A bound on the space amplification; `None` if it is not a number from [`SPACE_BOUND_MIN`]
    /// on.
    pub fn new(most: f64) -> Option<Self> {
        (most.is_finite() && most >= SPACE_BOUND_MIN).then_some(Self { most })
    }

    /// The amplification that it allows.
    pub fn most(&self) -> f64 {
        self.most
    }

    /// The merge that brings the tree within the bound, if it is not; `None` also if one that can
    /// begin now would not bring it there. `content` says what is in a run.
    pub fn next_compaction(
        &self,
        shape: &Shape,
        occupancy: &Occupancy,
        in_progress: &[CompactionPlan],
        content: &dyn Fn(&Run) -> Content,
    ) -> Option<CompactionPlan> {
        if worst(occupancy, in_progress, content) <= self.most {
            return None;
        }
        let merge = planner::next_compaction(shape, occupancy, in_progress, Occasion::SpaceBound)?;
        let with_it = [in_progress, std::slice::from_ref(&merge)].concat();
        (worst(occupancy, &with_it, content) <= (1.0 + self.most) / 2.0).then_some(merge)
    }
}

/// The amplification that is possible once all merges in progress have ended, if nothing goes by
/// them. `content` says what is in a run.
pub fn worst(occupancy: &Occupancy, in_progress: &[CompactionPlan], content: &dyn Fn(&Run) -> Content) -> f64 {
    let whole = || in_progress.iter().filter(|merge| !merge.is_partial());
    let mut contents: Vec<Content> = Vec::new();
    // Of the merge that the last run is in: the inputs that come next. They are neighbours.
    let mut inputs: &[RunId] = &[];
    for (_, run) in occupancy.runs() {
        match (inputs.split_first(), contents.last_mut()) {
            (Some((next, others)), Some(sum)) => {
                assert_eq!(*next, run.id, "inputs of a merge stand side by side");
                *sum = sum.plus(content(run));
                inputs = others;
            }
            _ => {
                contents.push(content(run));
                inputs =
                    whole().find(|merge| merge.inputs.first() == Some(&run.id)).map_or(&[], |merge| &merge.inputs[1..]);
            }
        }
    }
    space::worst_of(&contents)
}
