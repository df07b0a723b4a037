//! When garbage is due: entries that only take space are compacted away after a time, also where
//! nothing else calls for a compaction.
//!
//! Time is counted in **writes**. The garbage of a run is due when more writes have come since it
//! than the tree has entries: all of the tree could have been rewritten meanwhile. One step then
//! takes the run a level down, or makes it one with all older runs of the last level
//! ([`Occasion::TombstonesDue`](crate::planner::Occasion::TombstonesDue)), and its output has an
//! arrival, after which the question is asked again. So a key that was deleted is gone from storage
//! after at most about one such time for each level, while entries are written.
//!
//! The caller leaves out what a snapshot still needs: a compaction would not rid the run of it.
//! Garbage is what [`Contents::garbage`] says it is. Tombstones are; ranges of deleted keys and
//! expired entries go by the same rule.

use super::situation::Contents;
use crate::occupancy::RunId;
use crate::planner::CompactionPlan;

/// The youngest run whose garbage is due and that no flush or compaction holds.
pub(super) fn due(contents: &dyn Contents, in_progress: &[CompactionPlan]) -> Option<RunId> {
    let garbage = contents.garbage();
    let entries = if garbage.is_empty() { 0 } else { contents.entries().0 };
    let is_idle = |run: RunId| !in_progress.iter().any(|merge| merge.inputs.contains(&run));
    garbage.into_iter().find(|garbage| garbage.age > entries && is_idle(garbage.run)).map(|garbage| garbage.run)
}
