//! [`Data`]: the contents of a simulated tree's runs, which determine the sizes of outputs.

use std::fmt;

use super::draws::{DrawnContent, Keys};
use crate::agenda::Contents;
use crate::occupancy::{Occupancy, RunId};
use crate::planner::CompactionPlan;
use crate::units::Bytes;

/// The contents of a simulated tree's runs. The agenda sees them as [`Contents`].
pub trait Data: Contents + fmt::Debug {
    /// Raw bytes that this flush or compaction writes; 0 if nothing is left. Its inputs are in its
    /// target level. Called at its beginning and at its end.
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes;

    /// Reports that this flush or compaction has ended: its inputs became the run `output`, unless
    /// nothing was left.
    fn written(&mut self, plan: &CompactionPlan, occupancy: &Occupancy, output: RunId);

    /// The distribution of keys, if runs are draws from one.
    fn keys(&self) -> Option<&Keys> {
        None
    }

    /// What was drawn for a run of the tree, if runs are draws; nothing otherwise.
    fn drawn(&self, _run: RunId) -> DrawnContent {
        DrawnContent::default()
    }
}

/// Data in which no key is written twice, so an output is as large as its inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unique;

impl Contents for Unique {}

impl Data for Unique {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        input_bytes(plan, occupancy)
    }

    fn written(&mut self, _plan: &CompactionPlan, _occupancy: &Occupancy, _output: RunId) {}
}

/// Raw bytes of all inputs of a flush or compaction in progress. Its runs are in its target level.
pub(super) fn input_bytes(plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
    let runs = occupancy.level(plan.target).iter();
    let inputs = runs.skip_while(|run| plan.inputs.first() != Some(&run.id)).take(plan.inputs.len());
    plan.buffer + inputs.map(|run| run.bytes).sum()
}
