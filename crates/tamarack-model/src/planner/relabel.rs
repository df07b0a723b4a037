//! [`relabel`]: carries a tree over to another shape without moving a byte (rule 6).
//!
//! ```text
//!           old shape            new shape
//! level 1   ▭                    ▭                 keeps its level
//! level 2   ▭▭▭▭                                   the new level 2 is too small for it, so
//! level 3   ▭▭▭▭▭▭▭▭▭▭           ▭▭▭▭              it goes to the next that holds it, and
//! level 4                        ▭▭▭▭▭▭▭▭▭▭        so, before it, did what was older
//! ```
//!
//! Runs that just fill their level keep it: the next arrival sends them straight down in one
//! compaction. Relabelling them instead would put several small runs into slots meant for larger
//! ones; ten runs of a full tiered level would take all ten slots of the next level with a tenth of
//! its bytes.
//!
//! Afterwards a level may have more runs than slots, or runs of unsuitable sizes. The next arrival
//! there repairs that, or an explicit [reshape](super::Occasion::Reshape).

use crate::occupancy::Occupancy;
use crate::planner::full::is_level_overfull;
use crate::planner::plan::CompactionPlan;
use crate::shape::Shape;

/// Returns the same runs under the levels of another shape, and the compactions in progress with
/// their new target levels.
///
/// From old to young, the runs of a level keep their level if the new shape's level holds them (is
/// not more than full with them); otherwise they move to the next larger level that does. Runs past
/// the new last level join it. No runs overtake older ones: if only an overtaken level would hold
/// them, they join the level below them. The inputs of a compaction in progress are all in one
/// level, so they and their plan move together.
pub fn relabel(
    occupancy: &Occupancy,
    in_progress: &[CompactionPlan],
    shape: &Shape,
) -> (Occupancy, Vec<CompactionPlan>) {
    let mut new = Occupancy::default();
    let mut labels = vec![0; occupancy.deepest() + 1];
    let mut bound = shape.last();
    for old in (1..=occupancy.deepest()).rev().filter(|old| !occupancy.level(*old).is_empty()) {
        let bytes = occupancy.level_bytes(old);
        let holds = |label: &usize| !is_level_overfull(shape, *label, (new.level_bytes(*label) + bytes).0);
        let label = (old.min(bound)..=bound).find(holds).unwrap_or(bound);
        new.level_mut(label).splice(0..0, occupancy.level(old).iter().copied());
        labels[old] = label;
        bound = label;
    }
    let moved = in_progress.iter().map(|plan| {
        // A flush into a run of its own has no inputs and arrives at level 1 under any shape.
        let target = if plan.inputs.is_empty() { plan.target } else { labels[plan.target] };
        CompactionPlan { target, ..plan.clone() }
    });
    (new, moved.collect())
}
