//! [`Situation`]: the input of the [agenda](super): a tree and its design at one moment.

use crate::bound::SpaceBound;
use crate::cost::space::RunContent;
use crate::growth;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, CompactionPlan, Occasion};
use crate::policy::ShapeFamily;
use crate::shape::Shape;
use crate::units::{Bytes, Entries};

/// The design of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Design<'a> {
    /// The source of its next shapes.
    pub policy: &'a dyn ShapeFamily,
    /// Its present shape.
    pub shape: &'a Shape,
    /// The upper bound on its space amplification, if any.
    pub bound: Option<SpaceBound>,
}

/// A tree at one moment.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// Its design.
    pub design: Design<'a>,
    /// Its runs.
    pub occupancy: &'a Occupancy,
    /// Flushes and compactions that have begun and not ended, in the order in which they began.
    pub in_progress: &'a [CompactionPlan],
    /// Raw bytes of the oldest immutable memtable, if one can be flushed.
    pub memtable: Option<Bytes>,
    /// The contents of its runs; read only if a rule needs them.
    pub contents: &'a dyn Contents,
    /// False while flushes wait for a retry.
    pub may_flush: bool,
    /// False while compactions wait for a retry.
    pub may_compact: bool,
}

/// Garbage of one run that no snapshot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// The run.
    pub run: RunId,
    /// Entries written since its oldest garbage was written, or since an earlier entry of the same
    /// table if only that is known.
    pub age: u64,
}

/// The contents of a tree's runs, beyond their sizes. By default no entry is a tombstone.
pub trait Contents {
    /// Counts of one run, which bound the share of garbage in the tree.
    fn content(&self, run: &Run) -> RunContent {
        RunContent::of_size(run)
    }

    /// Entries of the whole tree, including tombstones and old versions.
    fn entries(&self) -> Entries {
        Entries(0)
    }

    /// The age of the garbage in each run that has any no snapshot needs, young to old.
    fn garbage(&self) -> Vec<Garbage> {
        Vec::new()
    }
}

impl Situation<'_> {
    /// Returns the compaction due on this occasion; see [`planner::next_compaction`].
    pub(super) fn plan(&self, occasion: Occasion) -> Option<CompactionPlan> {
        planner::next_compaction(self.design.shape, self.occupancy, self.in_progress, occasion)
    }

    /// Returns the policy's next shape if the batch at `level` would move on and fill the last
    /// level.
    pub(super) fn larger_shape(&self, level: usize) -> Option<Shape> {
        let Design { policy, shape, .. } = self.design;
        let is_outgrown = planner::outgrown(shape, self.occupancy, self.in_progress, level);
        if is_outgrown { growth::grown(policy, shape, self.occupancy.bytes()) } else { None }
    }

    /// Returns the compaction that brings the tree back within its bound on space, if it exceeds
    /// it.
    pub(super) fn plan_for_space(&self) -> Option<CompactionPlan> {
        let content = |run: &Run| self.contents.content(run);
        self.design.bound?.next_compaction(self.design.shape, self.occupancy, self.in_progress, &content)
    }
}
