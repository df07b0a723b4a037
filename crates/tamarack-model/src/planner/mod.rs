//! The planner: what is merged next, decided by one pure function for every shape.
//!
//! In: a [`Shape`], an [`Occupancy`], the merges in progress, and the [`Occasion`]. Out: a
//! [`CompactionPlan`] that names its cause, or nothing. The planner sees numbers only: no policy,
//! no key, no file, no clock. The engine asks it what to do, and the [simulation](crate::simulate)
//! asks the same functions what would be done, so a prediction is made by the code that will run.
//!
//! ```text
//!   buffer      ▪ sealed
//!                ╲  flush: one run of level 1
//!   level 1    ▭▭ ▭▭ ▭▪        full with it: all of level 1 is one batch for level 2,
//!                ╲╲╲
//!   level 2    ▭▭▭▭▭ ▭▭▭▭▭     which that fills; so nothing is written here, both go straight down
//!                ╲╲╲╲╲
//!   level 3    ▭▭▭▭▭▭▭▭▭▭▭▭    into the active run, since this level is not full yet
//! ```
//!
//! # The six rules
//!
//! 1. **Arrival.** A batch that arrives at a level goes into its youngest run if that is not full
//!    (the active run), else opens a new one. When a level is full, all of it becomes one batch for
//!    the next level; if the arriving batch is the one that fills it, everything goes straight down
//!    instead of being written here first: through as many levels as that fills, in one merge.
//! 2. **Flush.** A flush writes one run of level 1: into the active run if that is idle, else as a
//!    run of its own, also if the level is full with it. So what fills level 1 is written once, and
//!    goes down with the rest by a merge; a flush is never a merge of gigabytes.
//! 3. **Full** means: within half a nominal batch. See the page of the private module `full`, which
//!    also says how batches are spread over slots.
//! 4. **Examined on arrival.** A level is looked at only when something arrives at it
//!    ([`Occasion::Arrived`]). What a change of shape left over waits for the next arrival. The
//!    other occasions are requests from outside.
//! 5. **Concurrency.** Merges run at once when they share no run. An arrival at a level whose
//!    active run is in a merge opens a younger run, and the slot count may be exceeded meanwhile;
//!    the next arrival that finds those runs idle takes them along. What would have to go on down
//!    through a level waits while something is still on its way into that level: if it did not, a
//!    busy level might never come to be emptied.
//! 6. **Growth and change** are another shape, and [`relabel()`]. When what comes down would fill
//!    the last level, the tree has [outgrown] its shape; the caller then takes a larger one,
//!    relabels, and asks again. A tree that is not given a larger shape stays correct, and merges
//!    what comes into its last level.
//!
//! A run that comes from outside (ingested, sorted already) is a batch like any other: it arrives
//! at its [`entrance`], and rule 1 says what becomes of it there. Its arrival is two occasions,
//! [`Occasion::Arrived`] (again where it stands then, if that made the tree grow) and
//! [`Occasion::Ingested`], since it stands in the tree before it is merged with anything.
//!
//! **At once.** A change of shape is carried over as data arrives. Who wants it now has every level
//! looked at, from small to large, as if something had arrived there ([`Occasion::Reshape`]): a
//! full one goes down by rule 1, and where there are more runs than slots the youngest run counts
//! as a batch that has just come, which takes along as many of the next older ones as it needs for
//! the slots to suffice. What went down is not looked at again where it came to rest, so no byte is
//! written twice, and a tree that has the form of its shape writes none.
//!
//! # What the caller guarantees
//!
//! It [`begin`]s a merge at once when it accepts it, keeps it among those in progress until it
//! [`finish`]es, and then asks again: for the level where the output stands, and for level 1, where
//! a batch may have had to wait for that merge. Flushes finish in the order in which they began.
//! `in_progress` lists merges in the order in which they began. If a change of shape has meanwhile
//! taken away the level where something arrived, the last level is looked at: it stands there.
//!
//! Cost: proportional to the runs of the levels looked at, a few microseconds for hundreds of runs.
//! Tests: `tests/expectations/*.txt` teach each rule with an example; `tests/suite/twin.rs`
//! compares with a slow obvious tree of single entries; `tests/suite/histories.rs` checks
//! invariants over random shapes, relabels and concurrent merges.

mod full;
mod plan;
mod relabel;
mod standing;

use crate::occupancy::{Occupancy, RunId};
use crate::shape::Shape;
use crate::units::Bytes;

pub use full::is_level_full;
pub use plan::{Cause, CompactionPlan, Occasion, apply, begin, finish};
pub use relabel::relabel;

use full::runs_to_join;
use standing::{Standing, State, all_idle, bytes_expected, youngest_idle};

/// Where a sealed buffer of this many bytes goes.
pub fn flush(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], buffer: Bytes) -> CompactionPlan {
    let runs = Standing::new(occupancy, in_progress).level(1);
    // What fills level 1 goes down right after; in a tree of one level, nothing does.
    let goes_down = shape.last() > 1 && is_level_full(shape, 1, bytes_expected(&runs) + buffer.0);
    let join = if goes_down { 0 } else { runs_to_join(shape, 1, &runs, buffer.0).min(1) };
    CompactionPlan { cause: Cause::Flush, inputs: youngest_idle(&runs, join), buffer, target: 1 }
}

/// The level at which a run of this many bytes arrives that comes from outside, sorted already: the
/// smallest that is not full with it, but none below a level that holds something, as it is younger
/// than all that is there. Where no level holds it, it takes the last one that it may, and the
/// planner carries it on from there.
pub fn entrance(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], bytes: Bytes) -> usize {
    let standing = Standing::new(occupancy, in_progress);
    let is_occupied = |level: &usize| !standing.level(*level).is_empty();
    let deepest = (1..=shape.last()).find(is_occupied).unwrap_or(shape.last());
    let holds = |level: &usize| {
        let expected = bytes_expected(&standing.level(*level)).saturating_add(bytes.0);
        !is_level_full(shape, *level, expected)
    };
    (1..=deepest).find(holds).unwrap_or(deepest)
}

/// The merge that this occasion calls for, if any; it has not begun yet.
///
/// `None` also when a merge in progress holds a run that is needed. Levels are then looked at again
/// at their next arrival; a request should be repeated once a merge has finished.
///
/// # Panics
/// If the tree has runs in levels that the shape does not have (it was not relabelled), or a run is
/// in two merges.
pub fn next_compaction(
    shape: &Shape,
    occupancy: &Occupancy,
    in_progress: &[CompactionPlan],
    occasion: Occasion,
) -> Option<CompactionPlan> {
    assert!(
        occupancy.deepest() <= shape.last(),
        "a tree is relabelled when its shape changes:\n{occupancy}does not fit\n{shape}"
    );
    let standing = Standing::new(occupancy, in_progress);
    match occasion {
        Occasion::Arrived { level } => {
            let level = level.min(shape.last());
            if !is_full(shape, &standing, level) {
                return None;
            }
            let down = descend(shape, &standing, level)?;
            let cause = Cause::Full { level, through: down.through };
            Some(CompactionPlan { cause, inputs: down.inputs, buffer: Bytes::ZERO, target: down.target })
        }
        Occasion::Compact => compact(shape, occupancy, &standing, Cause::Compact),
        Occasion::SpaceBound => fold_oldest(shape, occupancy, &standing),
        Occasion::CompactRange => {
            // The rest of the oldest run stays where it is, so the range does, too.
            let merge = compact(shape, occupancy, &standing, Cause::CompactRange)?;
            Some(CompactionPlan { target: occupancy.deepest(), ..merge })
        }
        Occasion::TombstonesDue { run } => sink(shape, occupancy, &standing, run),
        Occasion::Reshape { level } => reshape(shape, &standing, level.min(shape.last())),
        Occasion::Ingested { run } => join(shape, occupancy, &standing, run),
    }
}

/// Whether what has arrived at this level must go on and fills the last one, so that the tree needs
/// a larger shape before it is merged.
pub fn outgrown(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], arrived: usize) -> bool {
    let standing = Standing::new(occupancy, in_progress);
    let arrived = arrived.min(shape.last());
    is_full(shape, &standing, arrived)
        && (arrived == shape.last() || descend(shape, &standing, arrived).is_some_and(|down| down.fills_last))
}

/// Whether a level has the form that the shape gives it: no more runs than slots, and not full
/// unless it is the last. Merges in progress count as if they had ended, and what is being
/// flushed into runs of its own as if it had not come. Where one does not, and nothing is in
/// progress, there is a merge for [`Occasion::Reshape`].
pub fn fits(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], level: usize) -> bool {
    let standing = Standing::new(occupancy, in_progress);
    let level = level.min(shape.last());
    !has_to_go(shape, &standing, level) && standing.runs(level).len() <= shape.level(level).runs as usize
}

/// A batch on its way down.
struct Descent {
    /// All that is merged, young to old.
    inputs: Vec<RunId>,
    /// The last level that is emptied.
    through: usize,
    /// Where the batch comes to rest.
    target: usize,
    /// Whether that is the last level, and full with it.
    fills_last: bool,
}

fn is_full(shape: &Shape, standing: &Standing<'_>, level: usize) -> bool {
    is_level_full(shape, level, standing.bytes(level))
}

fn has_to_go(shape: &Shape, standing: &Standing<'_>, level: usize) -> bool {
    level < shape.last() && is_full(shape, standing, level)
}

/// All of a level, straight down to where it does not fill a level any more. `None` if it is the
/// last level, or has to wait.
fn descend(shape: &Shape, standing: &Standing<'_>, from: usize) -> Option<Descent> {
    let mut inputs = all_idle(&standing.level(from))?;
    let mut batch = standing.bytes(from);
    for target in from + 1..=shape.last() {
        let runs = standing.level(target);
        let fills = is_level_full(shape, target, bytes_expected(&runs) + batch);
        if !fills || target == shape.last() {
            inputs.extend(youngest_idle(&runs, runs_to_join(shape, target, &runs, batch)));
            return Some(Descent { inputs, through: target - 1, target, fills_last: fills });
        }
        inputs.extend(all_idle(&runs)?);
        batch += bytes_expected(&runs);
    }
    None
}

/// Everything into one run, in the level of the oldest or the next that is not full with it.
fn compact(shape: &Shape, occupancy: &Occupancy, standing: &Standing<'_>, cause: Cause) -> Option<CompactionPlan> {
    let deepest = occupancy.deepest();
    let mut inputs = Vec::new();
    for level in 1..=deepest {
        inputs.extend(all_idle(&standing.level(level))?);
    }
    // A run alone may hold what nobody can see any more; counts do not tell, whoever asks for it does.
    if inputs.is_empty() {
        return None;
    }
    let holds = |level: &usize| !is_level_full(shape, *level, occupancy.bytes().0);
    let target = (deepest..=shape.last()).find(holds).unwrap_or(shape.last());
    Some(CompactionPlan { cause, inputs, buffer: Bytes::ZERO, target })
}

/// All runs from the oldest on that nobody touches into one, if they are several: in the level of
/// the oldest, or the next that is not full with it.
fn fold_oldest(shape: &Shape, occupancy: &Occupancy, standing: &Standing<'_>) -> Option<CompactionPlan> {
    let deepest = occupancy.deepest();
    let (mut inputs, mut bytes) = (Vec::new(), 0);
    let old_to_young = (1..=deepest).rev().flat_map(|level| standing.level(level).into_iter().rev());
    for slot in old_to_young {
        let State::Idle(run) = slot.state else { break };
        inputs.push(run);
        bytes += slot.bytes;
    }
    if inputs.len() < 2 {
        return None;
    }
    // What stays of the deepest level, and of no other below level 1, is in a merge that leads there.
    let taken_there = standing.level(deepest).iter().rev().take(inputs.len()).map(|slot| slot.bytes).sum::<u64>();
    let beside = |level| if level == deepest { standing.bytes(level).saturating_sub(taken_there) } else { 0 };
    let holds = |level: &usize| !is_level_full(shape, *level, bytes + beside(*level));
    let target = (deepest..=shape.last()).find(holds).unwrap_or(shape.last());
    inputs.reverse();
    Some(CompactionPlan { cause: Cause::SpaceBound, inputs, buffer: Bytes::ZERO, target })
}

/// A run that came from outside with those that a batch of its size would have been merged with
/// when it arrived: rule 1.
fn join(shape: &Shape, occupancy: &Occupancy, standing: &Standing<'_>, ingested: RunId) -> Option<CompactionPlan> {
    let (target, _) = occupancy.runs().find(|(_, run)| run.id == ingested)?;
    let runs = standing.level(target);
    let place = runs.iter().position(|run| run.state == State::Idle(ingested))?;
    let older = &runs[place + 1..];
    // A level that is full with it goes down instead, and has been looked at.
    if is_full(shape, standing, target) || older.is_empty() {
        return None;
    }
    let mut inputs = vec![ingested];
    inputs.extend(youngest_idle(older, runs_to_join(shape, target, older, runs[place].bytes)));
    (inputs.len() > 1).then_some(CompactionPlan {
        cause: Cause::Ingested { run: ingested },
        inputs,
        buffer: Bytes::ZERO,
        target,
    })
}

/// A level takes the form that the shape gives it, by rule 1 as if its youngest run had just come.
/// `None` if it has that form, or a run that is needed is in a merge.
fn reshape(shape: &Shape, standing: &Standing<'_>, level: usize) -> Option<CompactionPlan> {
    let (inputs, target) = if has_to_go(shape, standing, level) {
        let down = descend(shape, standing, level)?;
        (down.inputs, down.target)
    } else {
        let runs = standing.runs(level);
        let (youngest, older) = runs.split_first().filter(|_| runs.len() > shape.level(level).runs as usize)?;
        let joined = runs_to_join(shape, level, older, youngest.bytes);
        (all_idle(&runs[..=joined])?, level)
    };
    Some(CompactionPlan { cause: Cause::Reshape { level }, inputs, buffer: Bytes::ZERO, target })
}

/// One step towards the end of a run's tombstones: its level goes down, or, if nothing is below,
/// the run and all older ones become one.
fn sink(shape: &Shape, occupancy: &Occupancy, standing: &Standing<'_>, due: RunId) -> Option<CompactionPlan> {
    let (level, _) = occupancy.runs().find(|(_, run)| run.id == due)?;
    let (inputs, target) = if level < occupancy.deepest() {
        let down = descend(shape, standing, level)?;
        (down.inputs, down.target)
    } else {
        let runs = standing.level(level);
        let place = runs.iter().position(|run| run.state == State::Idle(due))?;
        (all_idle(&runs[place..])?, level)
    };
    Some(CompactionPlan { cause: Cause::TombstonesDue { run: due }, inputs, buffer: Bytes::ZERO, target })
}
