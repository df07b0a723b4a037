//! [`PlannerView`]: the runs of each level once all compactions in progress have finished, which is
//! what the planner decides on.
//!
//! ```text
//! level 2   │ r9 r8 r7 + r4 │ r3 │      three runs on their way into r4, and a static one
//! seen as   │     busy      │ r3 │      one run with the bytes of all four, closed to others
//! ```

use crate::occupancy::{Occupancy, RunId};
use crate::planner::plan::CompactionPlan;

/// A tree and its compactions in progress.
#[derive(Clone, Copy)]
pub(super) struct PlannerView<'a> {
    occupancy: &'a Occupancy,
    in_progress: &'a [CompactionPlan],
}

/// One run as it will be after the compactions in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunView {
    /// Size in bytes; how much the compaction will shrink it is not known before.
    pub(super) bytes: u64,
    pub(super) state: Availability,
}

/// Whether a compaction may take a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Availability {
    /// In no compaction.
    Idle(RunId),
    /// The output of a compaction in progress, in the place of its inputs.
    Busy,
    /// The output of a flush in progress into a run of its own, younger than all present runs.
    Coming,
}

impl<'a> PlannerView<'a> {
    pub(super) fn new(occupancy: &'a Occupancy, in_progress: &'a [CompactionPlan]) -> Self {
        debug_assert_eq!(shared_run(in_progress), None, "a run is in two compactions: {in_progress:?}");
        Self { occupancy, in_progress }
    }

    /// Runs of a level, young to old.
    pub(super) fn level(&self, number: usize) -> Vec<RunView> {
        let runs = self.occupancy.level(number);
        let mut slots = Vec::with_capacity(runs.len() + 1);
        slots.extend(self.coming(number));
        let mut at = 0;
        while let Some(run) = runs.get(at) {
            let slot = match self.compaction_that_begins_with(run.id, number) {
                Some(plan) => {
                    let inputs = &runs[at..at + plan.inputs.len()];
                    at += inputs.len() - 1;
                    let bytes = inputs.iter().map(|run| run.bytes.0).sum::<u64>() + plan.buffer.0;
                    RunView { bytes, state: Availability::Busy }
                }
                None if self.is_partly_compacting(run.id) => RunView { bytes: run.bytes.0, state: Availability::Busy },
                None => RunView { bytes: run.bytes.0, state: Availability::Idle(run.id) },
            };
            slots.push(slot);
            at += 1;
        }
        slots
    }

    /// Runs of a level without those that flushes in progress will add.
    pub(super) fn runs(&self, number: usize) -> Vec<RunView> {
        self.level(number).into_iter().filter(|slot| slot.state != Availability::Coming).collect()
    }

    /// Bytes of a level's runs, without those that flushes in progress will add.
    pub(super) fn bytes(&self, number: usize) -> u64 {
        self.occupancy.level_bytes(number).0
    }

    /// Finds the compaction whose youngest input this is: inputs are neighbours in the target
    /// level.
    fn compaction_that_begins_with(&self, run: RunId, target: usize) -> Option<&'a CompactionPlan> {
        let mut whole = self.in_progress.iter().filter(|plan| plan.target == target && !plan.is_partial());
        whole.find(|plan| plan.inputs.first() == Some(&run))
    }

    /// True if the run is an input of a range compaction, whose inputs keep their places.
    fn is_partly_compacting(&self, run: RunId) -> bool {
        self.in_progress.iter().any(|plan| plan.is_partial() && plan.inputs.contains(&run))
    }

    /// Flushes in progress into runs of their own, young to old: the last to begin is the youngest.
    fn coming(&self, number: usize) -> impl Iterator<Item = RunView> {
        let flushes = self.in_progress.iter().filter(move |plan| plan.inputs.is_empty() && plan.target == number);
        flushes.rev().map(|flush| RunView { bytes: flush.buffer.0, state: Availability::Coming })
    }
}

/// Ids of all these runs, or `None` if one is busy. Coming flushes are younger and stay behind.
pub(super) fn all_idle(slots: &[RunView]) -> Option<Vec<RunId>> {
    let mut runs = Vec::with_capacity(slots.len());
    for slot in slots {
        match slot.state {
            Availability::Idle(run) => runs.push(run),
            Availability::Coming => {}
            Availability::Busy => return None,
        }
    }
    Some(runs)
}

/// Ids of the youngest runs, at most `count`, up to the first that is not idle.
pub(super) fn youngest_idle(slots: &[RunView], count: usize) -> Vec<RunId> {
    slots
        .iter()
        .take(count)
        .map_while(|slot| if let Availability::Idle(run) = slot.state { Some(run) } else { None })
        .collect()
}

/// Bytes of all runs, including those that flushes in progress will add.
pub(super) fn bytes_expected(slots: &[RunView]) -> u64 {
    slots.iter().map(|slot| slot.bytes).sum()
}

/// A run that two compactions share, if there is one.
fn shared_run(in_progress: &[CompactionPlan]) -> Option<RunId> {
    let mut all: Vec<RunId> = in_progress.iter().flat_map(|plan| plan.inputs.iter().copied()).collect();
    all.sort_unstable();
    all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
