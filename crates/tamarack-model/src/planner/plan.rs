//! [`CompactionPlan`]: one decision of the planner, as a value that can be printed and compared,
//! and its effect on an occupancy.
//!
//! A compaction **begins** by moving the labels of its inputs to the target level ([`begin`]). That
//! moves no bytes and keeps the order of age: the inputs are neighbours, and nothing remains
//! between their old levels and the new one. Concurrent compactions need it. Suppose level 1's runs
//! a, b, c are being compacted into level 2 and kept their label; then d, e, f fill level 1 and are
//! compacted into level 2 as well. If the second compaction ends first, its output is in level 2,
//! *below* the older a, b, c in level 1, and readers would return the older value. With labels
//! moved at the beginning, a, b, c are in level 2 already, below d, e, f and their output.
//!
//! A compaction **finishes** when its output replaces its inputs ([`finish`]).

use std::fmt;

use crate::occupancy::{Occupancy, Run, RunId};
use crate::units::Bytes;

/// A flush or compaction to be carried out: its inputs, its target level and its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// The reason for it.
    pub cause: Cause,
    /// Inputs, young to old; neighbours in the order of age. Empty only for a flush into a run of
    /// its own.
    pub inputs: Vec<RunId>,
    /// Bytes of the immutable memtable, which is younger than all inputs; zero unless this is a
    /// flush.
    pub buffer: Bytes,
    /// The level of the output.
    pub target: usize,
}

/// The reason for a flush or compaction. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An immutable memtable is ready.
    Flush,
    /// An arrival found this level full, and the batch from it fills all levels up to `through`.
    Full {
        /// The level that was examined.
        level: usize,
        /// The last level that is emptied.
        through: usize,
    },
    /// The user requested one run for the whole tree.
    Compact,
    /// The user requested one run for a range of keys; see [`CompactionPlan::is_partial`].
    CompactRange,
    /// The tombstones of this run have reached their maximum age.
    TombstonesDue {
        /// The run.
        run: RunId,
    },
    /// Space amplification exceeds its upper bound.
    SpaceBound,
    /// The user requested a reshape, and this level did not fit its shape: it was full, or had more
    /// runs than slots.
    Reshape {
        /// The level that was examined.
        level: usize,
    },
    /// This run was ingested, and the level where it arrived has an active run for it, or no free
    /// slot.
    Ingested {
        /// The run.
        run: RunId,
    },
    /// The disk lacks space for a larger compaction, which these runs were a part of; see
    /// [`CompactionPlan::part_within`].
    SpaceShort,
    /// Nothing has been flushed for a while, and a level does not fit its shape, or level 1 has
    /// several runs, in more slots than the next level has.
    Rest,
    /// Lookups and scans are expected to save more by fewer runs than these take to be written: the
    /// [`read_compaction`](crate::navigator::read_compaction).
    Reads {
        /// The runs of the levels down to this one become one run.
        through: usize,
    },
}

/// The event or request for which the planner is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A flush (for level 1) or a compaction has finished, so a batch has arrived at this level.
    Arrived {
        /// The level.
        level: usize,
    },
    /// See [`Cause::Compact`].
    Compact,
    /// See [`Cause::CompactRange`].
    CompactRange,
    /// See [`Cause::TombstonesDue`].
    TombstonesDue {
        /// The run.
        run: RunId,
    },
    /// See [`Cause::SpaceBound`]. All idle runs from the oldest on become one; whether that
    /// suffices is the caller's question ([`bound`](crate::bound)).
    SpaceBound,
    /// See [`Cause::Reshape`]. Raised for every level, small to large, until each one
    /// [fits](super::fits).
    Reshape {
        /// The level.
        level: usize,
    },
    /// See [`Cause::Ingested`]. Raised after the run's level was examined for its arrival.
    Ingested {
        /// The run.
        run: RunId,
    },
    /// See [`Cause::Rest`].
    Rest,
    /// See [`Cause::Reads`].
    Reads {
        /// The last level whose runs are compacted.
        through: usize,
    },
}

impl CompactionPlan {
    /// Returns true if the output is the single input under another label, so that nothing is
    /// written. A single run is rewritten only to remove garbage from it.
    pub fn is_move(&self) -> bool {
        self.inputs.len() == 1 && matches!(self.cause, Cause::Full { .. } | Cause::Reshape { .. } | Cause::Rest)
    }

    /// Returns a compaction of some neighbouring inputs of this plan, at least two, for a disk that
    /// lacks space for all of them: as many as take at most `space` bytes of temporary space, and
    /// of equally many the oldest. `temporary` has the space that each input takes. `None` if no
    /// two neighbours are few enough.
    ///
    /// Each such compaction leaves at least one run fewer, so the plan that remains takes less
    /// space.
    ///
    /// # Panics
    /// If the inputs are not in the tree, or `temporary` has not one number for each.
    pub fn part_within(&self, occupancy: &Occupancy, temporary: &[u64], space: u64) -> Option<Self> {
        assert_eq!(temporary.len(), self.inputs.len(), "one number for each input of {self}");
        let (mut best, mut taken, mut end) = (0..0, 0_u64, self.inputs.len());
        // Windows from old to young: `start..end` is the largest one that ends at `end` and fits.
        for start in (0..self.inputs.len()).rev() {
            taken = taken.saturating_add(temporary[start]);
            while taken > space && end > start {
                end -= 1;
                taken = taken.saturating_sub(temporary[end]);
            }
            if end - start > best.len() {
                best = start..end;
            }
        }
        if best.len() < 2 {
            return None;
        }
        let oldest = self.inputs[best.end - 1];
        let level = || occupancy.runs().find(|(_, run)| run.id == oldest).expect("inputs are runs of the tree").0;
        let target = if best.end == self.inputs.len() { self.target } else { level() };
        Some(Self { cause: Cause::SpaceShort, inputs: self.inputs[best].to_vec(), buffer: Bytes::ZERO, target })
    }

    /// Returns true if only a range of keys is compacted. The inputs stay runs of their levels
    /// without that range, which the oldest input absorbs. Counts do not show how many bytes that
    /// is, so the plan changes nothing here. Its runs stay busy until it has finished, so ranges
    /// should be small.
    pub fn is_partial(&self) -> bool {
        self.cause == Cause::CompactRange
    }
}

/// Applies the beginning of `plan`: its inputs move to the target level.
///
/// # Panics
/// If the inputs are not in the tree as neighbours, young to old.
pub fn begin(occupancy: &mut Occupancy, plan: &CompactionPlan) {
    if plan.is_partial() || plan.inputs.is_empty() {
        return;
    }
    let mut moved: Vec<Run> = Vec::with_capacity(plan.inputs.len());
    let mut place = 0;
    for number in 1..=occupancy.deepest() {
        let Some(next) = plan.inputs.get(moved.len()) else { break };
        let runs = occupancy.level_mut(number);
        let Some(first) = runs.iter().position(|run| run.id == *next) else { continue };
        let inputs = runs[first..].iter().zip(&plan.inputs[moved.len()..]);
        let count = inputs.take_while(|(run, input)| run.id == **input).count();
        moved.extend(runs.drain(first..first + count));
        place = if number == plan.target { first } else { 0 };
    }
    assert_eq!(moved.len(), plan.inputs.len(), "inputs are neighbours, young to old: {plan}, found {moved:?}");
    occupancy.level_mut(plan.target).splice(place..place, moved);
}

/// Applies the end of `plan`, which had begun. `output` is `None` if nothing was left to keep.
///
/// # Panics
/// If the inputs are not neighbours in the target level.
pub fn finish(occupancy: &mut Occupancy, plan: &CompactionPlan, output: Option<Run>) {
    if plan.is_partial() {
        return;
    }
    let runs = occupancy.level_mut(plan.target);
    let place = plan.inputs.first().map_or(0, |first| {
        runs.iter().position(|run| run.id == *first).unwrap_or_else(|| panic!("{plan} has begun, but {first} is gone"))
    });
    let taken: Vec<RunId> = runs.splice(place..place + plan.inputs.len(), output).map(|run| run.id).collect();
    assert_eq!(taken, plan.inputs, "inputs of a compaction are neighbours in its target level: {plan}");
}

/// Applies `plan` from beginning to end.
///
/// # Panics
/// As [`begin`].
pub fn apply(occupancy: &mut Occupancy, plan: &CompactionPlan, output: Option<Run>) {
    begin(occupancy, plan);
    finish(occupancy, plan, output);
}

impl fmt::Display for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flushed = (self.cause == Cause::Flush).then(|| format!("memtable {}", self.buffer));
        let inputs: Vec<String> = flushed.into_iter().chain(self.inputs.iter().map(RunId::to_string)).collect();
        let action = if self.is_move() { "move" } else { "compact" };
        match self.cause {
            Cause::Flush => write!(f, "flush {} into level {}", inputs.join(" + "), self.target),
            cause => write!(f, "{action} {} into level {}: {cause}", inputs.join(" + "), self.target),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush => write!(f, "an immutable memtable is ready"),
            Self::Full { level, through } if level == through => write!(f, "level {level} is full"),
            Self::Full { level, through } => match through - level {
                1 => write!(f, "level {level} is full and fills level {through}"),
                _ => write!(f, "level {level} is full and fills levels {} to {through}", level + 1),
            },
            Self::Compact => write!(f, "compaction of the whole tree requested"),
            Self::CompactRange => write!(f, "compaction of a key range requested"),
            Self::TombstonesDue { run } => write!(f, "tombstones of run {} are due", run.0),
            Self::SpaceBound => write!(f, "space amplification exceeds its bound"),
            Self::Reshape { level } => write!(f, "reshape of level {level}"),
            Self::Ingested { run } => write!(f, "run {} was ingested", run.0),
            Self::SpaceShort => write!(f, "part of a compaction that the disk lacks space for"),
            Self::Rest => write!(f, "writers rest"),
            Self::Reads { through } => write!(f, "reads repay one run down to level {through}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    /// The part of a plan for a disk that lacks space is neighbours that fit, as many as possible,
    /// of equally many the oldest: compared with all windows. Applied again and again, it leaves
    /// one run, or nothing that fits.
    #[test]
    fn parts_are_the_largest_windows_that_fit() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let mut below = |limit: u64| random.below(limit);
            let ids = 1..=2 + below(12);
            let runs: Vec<Run> =
                ids.map(|id| Run { id: RunId(id), bytes: Bytes(1 + below(9)), entries: None }).collect();
            let (young, old) = runs.split_at(below(runs.len() as u64) as usize);
            let mut tree = Occupancy::new(vec![young.to_vec(), old.to_vec()]);
            let mut plan = CompactionPlan {
                cause: Cause::Compact,
                inputs: runs.iter().map(|run| run.id).collect(),
                buffer: Bytes::ZERO,
                target: 3,
            };
            let space = below(40);
            loop {
                let temporary: Vec<u64> = plan.inputs.iter().map(|id| size(&tree, *id)).collect();
                let count = plan.inputs.len();
                let windows = (0..count).flat_map(|start| (start + 2..=count).map(move |end| start..end));
                let fits = |window: &std::ops::Range<usize>| temporary[window.clone()].iter().sum::<u64>() <= space;
                let best = windows.filter(fits).max_by_key(|window| (window.len(), window.end));
                let part = plan.part_within(&tree, &temporary, space);
                assert_eq!(
                    part.as_ref().map(|part| &part.inputs[..]),
                    best.map(|window| &plan.inputs[window]),
                    "seed {seed}: {plan}, {temporary:?} within {space}"
                );
                let Some(part) = part else { break };
                let output = Run { id: RunId(100 + count as u64), bytes: Bytes(below(9)), entries: None };
                apply(&mut tree, &part, Some(output));
                plan.inputs = tree.runs().map(|(_, run)| run.id).collect();
                assert_eq!(plan.inputs.len(), count - part.inputs.len() + 1, "seed {seed}");
            }
        }
    }

    fn size(tree: &Occupancy, id: RunId) -> u64 {
        tree.runs().find(|(_, run)| run.id == id).expect("an input").1.bytes.0
    }
}
