//! [`Data`]: what is in the runs of a simulated tree, and so what flushes and compactions write.

use std::fmt;

use crate::agenda::Contents;
use crate::occupancy::{Occupancy, RunId};
use crate::planner::CompactionPlan;
use crate::units::Bytes;

/// What is in the runs of a simulated tree. The agenda is shown the [`Contents`] of it.
pub trait Data: Contents + fmt::Debug {
    /// Raw bytes that this flush or compaction writes, whose inputs stand in its target level; 0 if
    /// nothing is left of them. Asked when it begins and when it ends.
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes;

    /// It ends: its inputs become the run `output`, if anything is left of them.
    fn written(&mut self, plan: &CompactionPlan, occupancy: &Occupancy, output: RunId);
}

/// No key is written twice, so an output is as large as its inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unique;

impl Contents for Unique {}

impl Data for Unique {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        let runs = occupancy.level(plan.target).iter();
        let inputs = runs.skip_while(|run| plan.inputs.first() != Some(&run.id)).take(plan.inputs.len());
        plan.buffer + inputs.map(|run| run.bytes).sum()
    }

    fn written(&mut self, _plan: &CompactionPlan, _occupancy: &Occupancy, _output: RunId) {}
}
