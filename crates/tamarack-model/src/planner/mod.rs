//! The compaction planner: chooses the next compaction, with one pure function for every shape.
//!
//! In: a [`Shape`], an [`Occupancy`], the compactions in progress, and the [`Occasion`]. Out: a
//! [`CompactionPlan`] that names its cause, or nothing. The planner sees numbers only: no policy,
//! no key, no file, no clock. The engine and the [simulation](crate::simulate) call the same
//! functions, so a prediction comes from the code that will run.
//!
//! ```text
//!   memtable    ▪ immutable
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
//! 1. **Arrival.** A batch that arrives at a level joins the level's youngest run if that run is
//!    not full (the *active* run), else it opens a new run. A full level becomes one batch for the
//!    next level. If the arriving batch is the one that fills the level, the batch and the level
//!    move straight down together instead of being written here first: through every level that
//!    they fill, in one compaction.
//! 2. **Flush.** A flush writes one run of level 1: into the active run if that is idle, else as a
//!    run of its own, even if that fills the level. A batch that fills level 1 is therefore written
//!    once there and moves down in a compaction of its own; a flush never rewrites gigabytes.
//! 3. **Full** means within half a nominal batch of the capacity. The private module `full`
//!    explains why, and how batches are spread over run slots.
//! 4. **Examined on arrival.** A level is examined only when a batch arrives at it
//!    ([`Occasion::Arrived`]). Whatever a change of shape left behind waits for the next arrival.
//!    All other occasions are requests from outside.
//! 5. **Concurrency.** Compactions that share no run proceed at the same time. A batch that arrives
//!    at a level whose active run is being compacted opens a younger run, even beyond the level's
//!    slots; the next arrival that finds those runs idle takes them along. A batch cannot move down
//!    through a level while a compaction into that level is in progress; otherwise a busy level
//!    might never be emptied.
//! 6. **Growth and change** replace the shape and [`relabel()`] the runs. When a batch would fill
//!    the last level, the tree has [outgrown] its shape: the caller installs a larger one,
//!    relabels, and asks again. Without a larger shape the tree stays correct and keeps compacting
//!    into its last level.
//!
//! An ingested run, which is sorted already, is a batch like any other: it arrives at its
//! [`entrance`], where rule 1 applies. It is part of the tree before it is compacted with anything,
//! so its arrival is two occasions: [`Occasion::Arrived`] (repeated for its new level if the tree
//! grew because of it) and [`Occasion::Ingested`].
//!
//! **Reshape at once.** By default a change of shape takes effect as data arrives.
//! [`Occasion::Reshape`] applies it immediately: every level is examined, from small to large, as
//! if a batch had just arrived. A full level moves down by rule 1. A level with more runs than
//! slots treats its youngest run as the arriving batch, which takes along as many of the next older
//! runs as needed. A batch is not examined again at the level where it comes to rest, so no byte is
//! written twice, and a tree that fits its shape writes nothing.
//!
//! **Rest.** Runs above slots, and full levels that wait, save writing while entries arrive, and
//! cost each lookup and scan a look at more runs. To a tree that nothing is written to they are no
//! use: on [`Occasion::Rest`] each level is made to fit its shape, as by a reshape at once. More
//! slots in level 1 than in the next level are no use either: then the runs of level 1 become one.
//! That writes at most the bytes of a full level 1. Larger levels keep the runs that have slots.
//!
//! **Reads.** Runs within their slots may still cost readers more than it would take to make them
//! one. On [`Occasion::Reads`], which is raised when the model says so, all runs of the levels down
//! to one become a run of that level, if it is not full with it.
//!
//! # What the caller guarantees
//!
//! The caller [`begin`]s a compaction as soon as it accepts the plan, lists it as in progress until
//! it [`finish`]es, and then asks again for the level of the output and for level 1, where a batch
//! may have waited. Flushes finish in the order in which they began, and `in_progress` lists all
//! plans in that order. If a change of shape has removed the level of an arrival, the last level is
//! examined instead, since relabelling moved the run there.
//!
//! Cost: proportional to the runs of the levels looked at, a few microseconds for hundreds of runs.
//! Tests: `tests/expectations/*.txt` teach each rule with an example; `tests/suite/twin.rs`
//! compares with a slow obvious tree of single entries; `tests/suite/histories.rs` checks
//! invariants over random shapes, relabels and concurrent compactions.

mod full;
mod plan;
mod relabel;
mod view;

use crate::occupancy::{Occupancy, RunId};
use crate::shape::Shape;
use crate::units::Bytes;

pub use full::is_level_full;
pub use plan::{Cause, CompactionPlan, Occasion, apply, begin, finish};
pub use relabel::relabel;

use full::runs_to_join;
use view::{Availability, PlannerView, all_idle, bytes_expected, youngest_idle};

/// Plans the flush of an immutable memtable of `buffer` bytes.
pub fn flush(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], buffer: Bytes) -> CompactionPlan {
    let runs = PlannerView::new(occupancy, in_progress).level(1);
    // A batch that fills level 1 moves down right after; in a tree of one level, nothing does.
    let goes_down = shape.last() > 1 && is_level_full(shape, 1, bytes_expected(&runs) + buffer.0);
    let join = if goes_down { 0 } else { runs_to_join(shape, 1, &runs, buffer.0).min(1) };
    CompactionPlan { cause: Cause::Flush, inputs: youngest_idle(&runs, join), buffer, target: 1 }
}

/// Returns the level at which an ingested run of this size arrives: the smallest level that is not
/// full with it, but none below an occupied level, since the run is younger than all present data.
/// If no such level holds it, the deepest permitted one takes it and the planner moves it on from
/// there.
pub fn entrance(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], bytes: Bytes) -> usize {
    let view = PlannerView::new(occupancy, in_progress);
    let is_occupied = |level: &usize| !view.level(*level).is_empty();
    let deepest = (1..=shape.last()).find(is_occupied).unwrap_or(shape.last());
    let holds = |level: &usize| {
        let expected = bytes_expected(&view.level(*level)).saturating_add(bytes.0);
        !is_level_full(shape, *level, expected)
    };
    (1..=deepest).find(holds).unwrap_or(deepest)
}

/// Returns the compaction due on this occasion, if any; it has not begun yet.
///
/// Also returns `None` if a compaction in progress uses a run that is needed. A level is then
/// examined again at its next arrival; a request should be repeated once a compaction has finished.
///
/// # Panics
/// If the tree has runs in levels that the shape lacks (it was not relabelled), or two compactions
/// share a run.
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
    let view = PlannerView::new(occupancy, in_progress);
    match occasion {
        Occasion::Arrived { level } => {
            let level = level.min(shape.last());
            if !is_full(shape, &view, level) {
                return None;
            }
            let down = descend(shape, &view, level)?;
            let cause = Cause::Full { level, through: down.through };
            Some(CompactionPlan { cause, inputs: down.inputs, buffer: Bytes::ZERO, target: down.target })
        }
        Occasion::Compact => compact(shape, occupancy, &view, Cause::Compact),
        Occasion::SpaceBound => fold_oldest(shape, occupancy, &view),
        Occasion::CompactRange => {
            // The range stays in the oldest run's level, like the rest of that run.
            let plan = compact(shape, occupancy, &view, Cause::CompactRange)?;
            Some(CompactionPlan { target: occupancy.deepest(), ..plan })
        }
        Occasion::TombstonesDue { run } => sink(shape, occupancy, &view, run),
        Occasion::Reshape { level } => reshape(shape, &view, level.min(shape.last())),
        Occasion::Ingested { run } => join(shape, occupancy, &view, run),
        Occasion::Rest => rest(shape, &view),
        Occasion::Reads { through } => compact_for_reads(shape, &view, through.min(shape.last())),
    }
}

/// Returns true if the arrival at this level would move on and fill the last level: the tree needs
/// a larger shape first.
pub fn outgrown(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], arrived: usize) -> bool {
    let view = PlannerView::new(occupancy, in_progress);
    let arrived = arrived.min(shape.last());
    is_full(shape, &view, arrived)
        && (arrived == shape.last() || descend(shape, &view, arrived).is_some_and(|down| down.fills_last))
}

/// Returns true if a level fits its shape: no more runs than slots, and not full unless it is the
/// last. Compactions in progress count as finished; flushes into runs of their own do not count. If
/// a level does not fit and nothing is in progress, [`Occasion::Reshape`] yields a compaction.
pub fn fits(shape: &Shape, occupancy: &Occupancy, in_progress: &[CompactionPlan], level: usize) -> bool {
    let view = PlannerView::new(occupancy, in_progress);
    let level = level.min(shape.last());
    !has_to_go(shape, &view, level) && view.runs(level).len() <= shape.level(level).runs as usize
}

/// A batch on its way down.
struct Descent {
    /// Inputs of the compaction, young to old.
    inputs: Vec<RunId>,
    /// The last level that is emptied.
    through: usize,
    /// The level where the batch comes to rest.
    target: usize,
    /// True if that is the last level, and full with the batch.
    fills_last: bool,
}

fn is_full(shape: &Shape, view: &PlannerView<'_>, level: usize) -> bool {
    is_level_full(shape, level, view.bytes(level))
}

fn has_to_go(shape: &Shape, view: &PlannerView<'_>, level: usize) -> bool {
    level < shape.last() && is_full(shape, view, level)
}

/// Moves a whole level straight down to the first level that it does not fill. Returns `None` for
/// the last level, or if a run that it needs is busy.
fn descend(shape: &Shape, view: &PlannerView<'_>, from: usize) -> Option<Descent> {
    let mut inputs = all_idle(&view.level(from))?;
    let mut batch = view.bytes(from);
    for target in from + 1..=shape.last() {
        let runs = view.level(target);
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

/// Compacts everything into one run, in the oldest run's level or the next one that holds it.
fn compact(shape: &Shape, occupancy: &Occupancy, view: &PlannerView<'_>, cause: Cause) -> Option<CompactionPlan> {
    let deepest = occupancy.deepest();
    let mut inputs = Vec::new();
    for level in 1..=deepest {
        inputs.extend(all_idle(&view.level(level))?);
    }
    // One run alone may hold garbage that counts do not show; the caller decides.
    if inputs.is_empty() {
        return None;
    }
    let holds = |level: &usize| !is_level_full(shape, *level, occupancy.bytes().0);
    let target = (deepest..=shape.last()).find(holds).unwrap_or(shape.last());
    Some(CompactionPlan { cause, inputs, buffer: Bytes::ZERO, target })
}

/// Compacts all idle runs from the oldest on into one, if there are at least two, in the oldest
/// run's level or the next one that holds the result.
fn fold_oldest(shape: &Shape, occupancy: &Occupancy, view: &PlannerView<'_>) -> Option<CompactionPlan> {
    let deepest = occupancy.deepest();
    let (mut inputs, mut bytes) = (Vec::new(), 0);
    let old_to_young = (1..=deepest).rev().flat_map(|level| view.level(level).into_iter().rev());
    for slot in old_to_young {
        let Availability::Idle(run) = slot.state else { break };
        inputs.push(run);
        bytes += slot.bytes;
    }
    if inputs.len() < 2 {
        return None;
    }
    // Runs left behind in the deepest level belong to a compaction into it; no other level has any.
    let taken_there = view.level(deepest).iter().rev().take(inputs.len()).map(|slot| slot.bytes).sum::<u64>();
    let beside = |level| if level == deepest { view.bytes(level).saturating_sub(taken_there) } else { 0 };
    let holds = |level: &usize| !is_level_full(shape, *level, bytes + beside(*level));
    let target = (deepest..=shape.last()).find(holds).unwrap_or(shape.last());
    inputs.reverse();
    Some(CompactionPlan { cause: Cause::SpaceBound, inputs, buffer: Bytes::ZERO, target })
}

/// Compacts an ingested run with the runs that a batch of its size would have joined on arrival
/// (rule 1).
fn join(shape: &Shape, occupancy: &Occupancy, view: &PlannerView<'_>, ingested: RunId) -> Option<CompactionPlan> {
    let (target, _) = occupancy.runs().find(|(_, run)| run.id == ingested)?;
    let runs = view.level(target);
    let place = runs.iter().position(|run| run.state == Availability::Idle(ingested))?;
    let older = &runs[place + 1..];
    // A level that is full with the run moves down instead, and has been examined.
    if is_full(shape, view, target) || older.is_empty() {
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

/// Makes a level fit its shape, by rule 1 as if its youngest run had just arrived. Returns `None`
/// if it fits already or a run that is needed is busy.
fn reshape(shape: &Shape, view: &PlannerView<'_>, level: usize) -> Option<CompactionPlan> {
    let (inputs, target) = if has_to_go(shape, view, level) {
        let down = descend(shape, view, level)?;
        (down.inputs, down.target)
    } else {
        let runs = view.runs(level);
        let (youngest, older) = runs.split_first().filter(|_| runs.len() > shape.level(level).runs as usize)?;
        let joined = runs_to_join(shape, level, older, youngest.bytes);
        (all_idle(&runs[..=joined])?, level)
    };
    Some(CompactionPlan { cause: Cause::Reshape { level }, inputs, buffer: Bytes::ZERO, target })
}

/// Makes the smallest level that does not fit its shape fit it. If all do: compacts the runs of
/// level 1 into one, if the next level has fewer slots.
fn rest(shape: &Shape, view: &PlannerView<'_>) -> Option<CompactionPlan> {
    let misfit = (1..=shape.last()).find_map(|level| reshape(shape, view, level));
    if let Some(plan) = misfit {
        return Some(CompactionPlan { cause: Cause::Rest, ..plan });
    }
    let has_spare_slots = shape.last() > 1 && shape.level(1).runs > shape.level(2).runs;
    let inputs = all_idle(&view.runs(1)).filter(|inputs| has_spare_slots && inputs.len() > 1)?;
    Some(CompactionPlan { cause: Cause::Rest, inputs, buffer: Bytes::ZERO, target: 1 })
}

/// Compacts the runs of the levels down to this one into one run of it, unless that fills it: then
/// the run would have to move on at once.
fn compact_for_reads(shape: &Shape, view: &PlannerView<'_>, through: usize) -> Option<CompactionPlan> {
    let (mut inputs, mut bytes) = (Vec::new(), 0);
    for level in 1..=through {
        let runs = view.level(level);
        bytes += bytes_expected(&runs);
        inputs.extend(all_idle(&runs)?);
    }
    let stays = through == shape.last() || !is_level_full(shape, through, bytes);
    (stays && inputs.len() > 1).then_some(CompactionPlan {
        cause: Cause::Reads { through },
        inputs,
        buffer: Bytes::ZERO,
        target: through,
    })
}

/// Moves a run's tombstones one step closer to their removal: the run's level moves down, or, if
/// the run is in the deepest level, the run and all older ones become one.
fn sink(shape: &Shape, occupancy: &Occupancy, view: &PlannerView<'_>, due: RunId) -> Option<CompactionPlan> {
    let (level, _) = occupancy.runs().find(|(_, run)| run.id == due)?;
    let (inputs, target) = if level < occupancy.deepest() {
        let down = descend(shape, view, level)?;
        (down.inputs, down.target)
    } else {
        let runs = view.level(level);
        let place = runs.iter().position(|run| run.state == Availability::Idle(due))?;
        (all_idle(&runs[place..])?, level)
    };
    Some(CompactionPlan { cause: Cause::TombstonesDue { run: due }, inputs, buffer: Bytes::ZERO, target })
}
