//! [`relabel`]: a tree carried over into another shape without moving a byte: rule 6.
//!
//! ```text
//!           old shape            new shape
//! level 1   ▭                    ▭                 keeps its level
//! level 2   ▭▭▭▭                                   the new level 2 is too small for it, so
//! level 3   ▭▭▭▭▭▭▭▭▭▭           ▭▭▭▭              it goes to the next that holds it, and
//! level 4                        ▭▭▭▭▭▭▭▭▭▭        so, before it, did what was older
//! ```
//!
//! What just fills its level keeps it, since the next arrival sends it straight down, merged with
//! all else that goes there. To relabel it would move several runs into slots that are meant for
//! larger ones: ten runs of a full tiered level would take all ten slots of the next level, with a
//! tenth of the bytes.
//!
//! Afterwards a level may have more runs than slots, or sizes that fit badly. That is mended when
//! something arrives there, not before, unless somebody [asks for it](super::Occasion::Reshape).

use crate::occupancy::Occupancy;
use crate::planner::full::is_level_overfull;
use crate::planner::plan::CompactionPlan;
use crate::shape::Shape;

/// The same runs under the levels of another shape, and the merges in progress with their new
/// target levels.
///
/// From old to young, the runs of a level keep their level if the new shape's level holds them (is
/// not more than full with them); else they take the next larger level that does. What was past the
/// new last level joins it. None passes another: where only a passed level would hold them, they
/// join the level above which they stood. The inputs of a merge in progress all stand in one level,
/// so they and it move together.
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
    let moved = in_progress.iter().map(|merge| {
        // A flush into a run of its own has no inputs, and arrives at level 1 whatever the shape.
        let target = if merge.inputs.is_empty() { merge.target } else { labels[merge.target] };
        CompactionPlan { target, ..merge.clone() }
    });
    (new, moved.collect())
}
