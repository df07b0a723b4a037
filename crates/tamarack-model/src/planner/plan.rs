//! [`CompactionPlan`]: one decision of the planner, as a value that can be printed and compared; and what it does to an
//! occupancy.
//!
//! A merge **begins** by moving the labels of its inputs to the level it leads to ([`begin`]). That
//! moves no bytes and keeps the order of age: the inputs are neighbours, and between their old
//! levels and the new one nothing else is left. It is needed as soon as two merges run at once.
//! Suppose that level 1's runs a, b, c are being merged into level 2, and kept their label; then d,
//! e, f fill level 1, and are merged into level 2 as well. If that one ends first, its output
//! stands in level 2, *below* a, b, c in level 1, which are older: readers would take the older
//! value for the newer one. With labels moved at the beginning, a, b, c stand in level 2 already,
//! below d, e, f and all that comes of them.
//!
//! A merge **finishes** by its output taking the place of its inputs ([`finish`]).

use std::fmt;

use crate::occupancy::{Occupancy, Run, RunId};
use crate::units::Bytes;

/// Runs to be merged into one, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPlan {
    /// Why.
    pub cause: Cause,
    /// The runs, young to old; neighbours in the order of age. Empty only for a flush that becomes
    /// a run of its own.
    pub inputs: Vec<RunId>,
    /// What comes from a sealed buffer, which is younger than all inputs; zero unless this is a
    /// flush.
    pub buffer: Bytes,
    /// The level where the output will stand.
    pub target: usize,
}

/// Why a merge takes place. There are no other causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A buffer was sealed.
    Flush,
    /// A level was found full when something arrived at it, and so were, with what comes down, all
    /// levels until `through`.
    Full {
        /// The level that was looked at.
        level: usize,
        /// The last level that is emptied.
        through: usize,
    },
    /// The user asked for the whole tree in one run.
    Compact,
    /// The user asked for a range of keys in one run; see [`CompactionPlan::is_partial`].
    CompactRange,
    /// Tombstones in this run have waited as long as they may.
    TombstonesDue {
        /// The run.
        run: RunId,
    },
    /// The tree takes more space than it may.
    SpaceBound,
    /// The user asked for the tree to take the form of its shape now, and this level had another:
    /// it was full, or had more runs than slots.
    Reshape {
        /// The level that was looked at.
        level: usize,
    },
    /// This run came from outside, and the level where it arrived has an active run for it, or no
    /// slot.
    Ingested {
        /// The run.
        run: RunId,
    },
}

/// What makes somebody ask the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A flush (at level 1) or a merge has finished, so something has arrived at this level.
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
    /// See [`Cause::SpaceBound`]. All runs from the oldest on that no merge holds become one;
    /// whether that is enough is for who asks to see ([`bound`](crate::bound)).
    SpaceBound,
    /// See [`Cause::Reshape`]. Asked for every level, small to large, until each
    /// [fits](super::fits).
    Reshape {
        /// The level.
        level: usize,
    },
    /// See [`Cause::Ingested`]. Asked once the run's level was looked at because of its arrival.
    Ingested {
        /// The run.
        run: RunId,
    },
}

impl CompactionPlan {
    /// Whether the output is the one input as it is, under another label: nothing need be written.
    /// A single run is rewritten only to rid it of something.
    pub fn is_move(&self) -> bool {
        self.inputs.len() == 1 && matches!(self.cause, Cause::Full { .. } | Cause::Reshape { .. })
    }

    /// Whether only a range of keys is merged. Its inputs stay runs of their levels, less that
    /// range, which the oldest of them takes up. How many bytes that is cannot be known from
    /// counts, so here it changes nothing; and until it has finished, its runs are in a merge
    /// where they stand, so it should be done in small ranges.
    pub fn is_partial(&self) -> bool {
        self.cause == Cause::CompactRange
    }
}

/// The occupancy once `merge` has begun: its inputs stand in the level that it leads to.
///
/// # Panics
/// If the inputs are not there, as neighbours, young to old.
pub fn begin(occupancy: &mut Occupancy, merge: &CompactionPlan) {
    if merge.is_partial() || merge.inputs.is_empty() {
        return;
    }
    let mut moved: Vec<Run> = Vec::with_capacity(merge.inputs.len());
    let mut place = 0;
    for number in 1..=occupancy.deepest() {
        let Some(next) = merge.inputs.get(moved.len()) else { break };
        let runs = occupancy.level_mut(number);
        let Some(first) = runs.iter().position(|run| run.id == *next) else { continue };
        let inputs = runs[first..].iter().zip(&merge.inputs[moved.len()..]);
        let count = inputs.take_while(|(run, input)| run.id == **input).count();
        moved.extend(runs.drain(first..first + count));
        place = if number == merge.target { first } else { 0 };
    }
    assert_eq!(moved.len(), merge.inputs.len(), "inputs are neighbours, young to old: {merge}, found {moved:?}");
    occupancy.level_mut(merge.target).splice(place..place, moved);
}

/// The occupancy once `merge`, which had begun, has finished. `output` is `None` if nothing was
/// left to keep.
///
/// # Panics
/// If the inputs do not stand side by side in the merge's target level.
pub fn finish(occupancy: &mut Occupancy, merge: &CompactionPlan, output: Option<Run>) {
    if merge.is_partial() {
        return;
    }
    let runs = occupancy.level_mut(merge.target);
    let place = merge.inputs.first().map_or(0, |first| {
        runs.iter().position(|run| run.id == *first).unwrap_or_else(|| panic!("{merge} has begun, but {first} is gone"))
    });
    let taken: Vec<RunId> = runs.splice(place..place + merge.inputs.len(), output).map(|run| run.id).collect();
    assert_eq!(taken, merge.inputs, "inputs of a merge stand side by side in its target level: {merge}");
}

/// The occupancy after `merge` from beginning to end.
///
/// # Panics
/// As [`begin`].
pub fn apply(occupancy: &mut Occupancy, merge: &CompactionPlan, output: Option<Run>) {
    begin(occupancy, merge);
    finish(occupancy, merge, output);
}

impl fmt::Display for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flushed = (self.cause == Cause::Flush).then(|| format!("buffer {}", self.buffer));
        let inputs: Vec<String> = flushed.into_iter().chain(self.inputs.iter().map(RunId::to_string)).collect();
        let verb = if self.is_move() { "move" } else { "merge" };
        match self.cause {
            Cause::Flush => write!(f, "flush {} into level {}", inputs.join(" + "), self.target),
            cause => write!(f, "{verb} {} into level {}: {cause}", inputs.join(" + "), self.target),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush => write!(f, "a buffer was sealed"),
            Self::Full { level, through } if level == through => write!(f, "level {level} is full"),
            Self::Full { level, through } => match through - level {
                1 => write!(f, "level {level} is full, and with it level {through}"),
                _ => write!(f, "level {level} is full, and with it levels {} to {through}", level + 1),
            },
            Self::Compact => write!(f, "compact"),
            Self::CompactRange => write!(f, "compact a range"),
            Self::TombstonesDue { run } => write!(f, "tombstones of {run} are due"),
            Self::SpaceBound => write!(f, "space bound"),
            Self::Reshape { level } => write!(f, "level {level} takes its form"),
            Self::Ingested { run } => write!(f, "{run} was ingested"),
        }
    }
}
