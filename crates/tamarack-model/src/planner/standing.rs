//! How the levels will stand once all merges in progress have finished: what the planner decides
//! on.
//!
//! ```text
//! level 2   │ r9 r8 r7 + r4 │ r3 │      three runs on their way into r4, and a static one
//! stands as │     busy      │ r3 │      one run with the bytes of all four, which no other merge may touch
//! ```

use crate::occupancy::{Occupancy, RunId};
use crate::planner::plan::CompactionPlan;

/// A tree and what happens to it.
#[derive(Clone, Copy)]
pub(super) struct Standing<'a> {
    occupancy: &'a Occupancy,
    in_progress: &'a [CompactionPlan],
}

/// One run as it will be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Its size; what merging will make it shrink by is not known before.
    pub(super) bytes: u64,
    pub(super) state: State,
}

/// Whether a merge may take a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nobody touches it.
    Idle(RunId),
    /// The output of a merge in progress, in the place of its inputs.
    Busy,
    /// The output of a flush in progress that will be a run of its own, younger than all that is
    /// there.
    Coming,
}

impl<'a> Standing<'a> {
    pub(super) fn new(occupancy: &'a Occupancy, in_progress: &'a [CompactionPlan]) -> Self {
        debug_assert_eq!(shared_run(in_progress), None, "a run is in two merges: {in_progress:?}");
        Self { occupancy, in_progress }
    }

    /// The runs of a level, young to old.
    pub(super) fn level(&self, number: usize) -> Vec<Slot> {
        let runs = self.occupancy.level(number);
        let mut slots = Vec::with_capacity(runs.len() + 1);
        slots.extend(self.coming(number));
        let mut at = 0;
        while let Some(run) = runs.get(at) {
            let slot = match self.compaction_that_begins_with(run.id, number) {
                Some(merge) => {
                    let inputs = &runs[at..at + merge.inputs.len()];
                    at += inputs.len() - 1;
                    let bytes = inputs.iter().map(|run| run.bytes.0).sum::<u64>() + merge.buffer.0;
                    Slot { bytes, state: State::Busy }
                }
                None if self.is_partly_compacting(run.id) => Slot { bytes: run.bytes.0, state: State::Busy },
                None => Slot { bytes: run.bytes.0, state: State::Idle(run.id) },
            };
            slots.push(slot);
            at += 1;
        }
        slots
    }

    /// The same without those that are still coming.
    pub(super) fn runs(&self, number: usize) -> Vec<Slot> {
        self.level(number).into_iter().filter(|slot| slot.state != State::Coming).collect()
    }

    /// Bytes of a level's runs, without what flushes in progress will add.
    pub(super) fn bytes(&self, number: usize) -> u64 {
        self.occupancy.level_bytes(number).0
    }

    /// The inputs of a merge stand side by side in its target level, so its youngest input finds
    /// all.
    fn compaction_that_begins_with(&self, run: RunId, target: usize) -> Option<&'a CompactionPlan> {
        let mut whole = self.in_progress.iter().filter(|merge| merge.target == target && !merge.is_partial());
        whole.find(|merge| merge.inputs.first() == Some(&run))
    }

    /// Those of a merge of a range stand where they did.
    fn is_partly_compacting(&self, run: RunId) -> bool {
        self.in_progress.iter().any(|merge| merge.is_partial() && merge.inputs.contains(&run))
    }

    /// Flushes on their way into runs of their own, young to old: the one that began last is the
    /// youngest.
    fn coming(&self, number: usize) -> impl Iterator<Item = Slot> {
        let flushes = self.in_progress.iter().filter(move |merge| merge.inputs.is_empty() && merge.target == number);
        flushes.rev().map(|flush| Slot { bytes: flush.buffer.0, state: State::Coming })
    }
}

/// The ids of all these runs, if nobody touches any of them. Flushes that are still coming are not
/// among them: they are younger, and stay behind.
pub(super) fn all_idle(slots: &[Slot]) -> Option<Vec<RunId>> {
    let mut runs = Vec::with_capacity(slots.len());
    for slot in slots {
        match slot.state {
            State::Idle(run) => runs.push(run),
            State::Coming => {}
            State::Busy => return None,
        }
    }
    Some(runs)
}

/// The ids of the youngest runs, at most `count` of them, as far as nobody touches them.
pub(super) fn youngest_idle(slots: &[Slot], count: usize) -> Vec<RunId> {
    slots
        .iter()
        .take(count)
        .map_while(|slot| if let State::Idle(run) = slot.state { Some(run) } else { None })
        .collect()
}

/// Bytes of all runs, also those that are still coming.
pub(super) fn bytes_expected(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.bytes).sum()
}

/// A run that is in two merges, if there is one.
fn shared_run(in_progress: &[CompactionPlan]) -> Option<RunId> {
    let mut all: Vec<RunId> = in_progress.iter().flat_map(|merge| merge.inputs.iter().copied()).collect();
    all.sort_unstable();
    all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
