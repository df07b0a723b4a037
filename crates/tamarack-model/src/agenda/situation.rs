//! [`Situation`]: what the [agenda](super) decides on, a tree and its design as they are now.

use crate::bound::SpaceBound;
use crate::cost::space::Content;
use crate::growth;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, CompactionPlan, Occasion};
use crate::policy::Policy;
use crate::shape::Shape;
use crate::units::{Bytes, Entries};

/// How a tree is meant to be.
#[derive(Clone, Copy, Debug)]
pub struct Design<'a> {
    /// Where its next shapes come from.
    pub policy: &'a dyn Policy,
    /// The shape that it has.
    pub shape: &'a Shape,
    /// The upper bound on its space amplification, if it has one.
    pub bound: Option<SpaceBound>,
}

/// A tree at one moment.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// How it is meant to be.
    pub design: Design<'a>,
    /// Its runs.
    pub occupancy: &'a Occupancy,
    /// Flushes and compactions that have begun and not ended, in the order in which they began.
    pub in_progress: &'a [CompactionPlan],
    /// Raw bytes of the oldest immutable memtable, if one can be flushed.
    pub memtable: Option<Bytes>,
    /// What is in its runs; asked only where a rule needs it.
    pub contents: &'a dyn Contents,
    /// False while flushes wait for a retry.
    pub may_flush: bool,
    /// False while compactions wait for a retry.
    pub may_compact: bool,
}

/// Garbage in one run that no snapshot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// The run.
    pub run: RunId,
    /// Writes that came since its oldest garbage was written, or since an earlier entry of the same
    /// table where only that is known.
    pub age: u64,
}

/// What is in the runs of a tree, beyond their sizes. Where nothing more is known, no entry is a
/// tombstone.
pub trait Contents {
    /// Counts of one run, from which follows how much of the tree may be garbage.
    fn content(&self, run: &Run) -> Content {
        Content::of_size(run)
    }

    /// Entries of the whole tree, tombstones and old versions included.
    fn entries(&self) -> Entries {
        Entries(0)
    }

    /// For each run with garbage that no snapshot needs, young to old: how long it has been there.
    fn garbage(&self) -> Vec<Garbage> {
        Vec::new()
    }
}

impl Situation<'_> {
    /// The compaction that this occasion calls for; see [`planner::next_compaction`].
    pub(super) fn plan(&self, occasion: Occasion) -> Option<CompactionPlan> {
        planner::next_compaction(self.design.shape, self.occupancy, self.in_progress, occasion)
    }

    /// The policy's next shape, if what is at `level` must go on and fills the last one.
    pub(super) fn larger_shape(&self, level: usize) -> Option<Shape> {
        let Design { policy, shape, .. } = self.design;
        let is_outgrown = planner::outgrown(shape, self.occupancy, self.in_progress, level);
        if is_outgrown { growth::grown(policy, shape, self.occupancy.bytes()) } else { None }
    }

    /// The compaction that brings the tree back within its bound on space, if it is above it.
    pub(super) fn plan_for_space(&self) -> Option<CompactionPlan> {
        let content = |run: &Run| self.contents.content(run);
        self.design.bound?.next_compaction(self.design.shape, self.occupancy, self.in_progress, &content)
    }
}
