//! How the levels will stand once all merges in progress have finished: what the planner decides on.
//!
//! ```text
//! level 2   │ r9 r8 r7 + r4 │ r3 │      three runs on their way into r4, and a static one
//! stands as │     busy      │ r3 │      one run with the bytes of all four, which no other merge may touch
//! ```

use crate::occupancy::{Occupancy, RunId};
use crate::planner::merge::Merge;

/// A tree and what happens to it.
pub(super) struct Standing<'a> {
    occupancy: &'a Occupancy,
    in_progress: &'a [Merge],
    /// For each run in a merge: which merge. Ordered by run.
    merging: Vec<(RunId, usize)>,
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
    /// The output of a flush in progress that will be a run of its own, younger than all that is there.
    Coming,
}

impl<'a> Standing<'a> {
    /// # Panics
    /// If a run is in two merges.
    pub(super) fn new(occupancy: &'a Occupancy, in_progress: &'a [Merge]) -> Self {
        let of_merge = |(index, merge): (usize, &'a Merge)| merge.inputs.iter().map(move |run| (*run, index));
        let mut merging: Vec<_> = in_progress.iter().enumerate().flat_map(of_merge).collect();
        merging.sort_unstable();
        let twice = merging.windows(2).find(|pair| pair[0].0 == pair[1].0);
        assert!(twice.is_none(), "a run is in two merges: {twice:?} of {in_progress:?}");
        Self { occupancy, in_progress, merging }
    }

    /// The runs of a level, young to old.
    pub(super) fn level(&self, number: usize) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.coming(number).collect();
        let mut last_merge = None;
        for run in self.occupancy.level(number) {
            let merge = self.merge_of(run.id);
            match merge {
                None => slots.push(Slot { bytes: run.bytes.0, state: State::Idle(run.id) }),
                Some(index) if last_merge == merge => {
                    let slot = slots.last_mut().unwrap_or_else(|| panic!("merge {index} pushed one"));
                    slot.bytes += run.bytes.0;
                }
                Some(index) => {
                    let bytes = self.in_progress[index].buffer.0 + run.bytes.0;
                    slots.push(Slot { bytes, state: State::Busy });
                }
            }
            last_merge = merge;
        }
        slots
    }

    pub(super) fn is_merging(&self, run: RunId) -> bool {
        self.merge_of(run).is_some()
    }

    fn merge_of(&self, run: RunId) -> Option<usize> {
        let found = self.merging.binary_search_by_key(&run, |(run, _)| *run);
        found.ok().map(|at| self.merging[at].1)
    }

    /// Flushes on their way into runs of their own, young to old: the one that began last is the youngest.
    fn coming(&self, number: usize) -> impl Iterator<Item = Slot> {
        let flushes = self.in_progress.iter().filter(move |merge| merge.inputs.is_empty() && merge.target == number);
        flushes.rev().map(|flush| Slot { bytes: flush.buffer.0, state: State::Coming })
    }
}

/// The ids of all these runs, if nobody touches any of them. Flushes that are still coming are not among them: they are younger, and stay behind.
pub(super) fn all_idle(slots: &[Slot]) -> Option<Vec<RunId>> {
    let there = slots.iter().filter(|slot| slot.state != State::Coming);
    there.map(|slot| if let State::Idle(run) = slot.state { Some(run) } else { None }).collect()
}

/// The ids of the youngest runs, at most `count` of them, as far as nobody touches them.
pub(super) fn youngest_idle(slots: &[Slot], count: usize) -> Vec<RunId> {
    slots
        .iter()
        .take(count)
        .map_while(|slot| if let State::Idle(run) = slot.state { Some(run) } else { None })
        .collect()
}

/// Bytes of all runs that are there, those that merges will leave included.
pub(super) fn bytes_there(slots: &[Slot]) -> u64 {
    slots.iter().filter(|slot| slot.state != State::Coming).map(|slot| slot.bytes).sum()
}

/// Bytes of all runs, also those that are still coming.
pub(super) fn bytes_expected(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.bytes).sum()
}
