//! Due dates of garbage: entries that only take space are compacted away after a time, even if
//! nothing else causes a compaction.
//!
//! Time is counted in **writes**. A run's garbage is due when more entries have been written since
//! than the tree has: the whole tree could have been rewritten meanwhile. One step then moves the
//! run a level down, or compacts it with all older runs of the last level
//! ([`Occasion::TombstonesDue`](crate::planner::Occasion::TombstonesDue)). Its output is an
//! arrival, after which the question is asked again. A deleted key therefore leaves storage after
//! at most about one such time per level, as long as entries are written.
//!
//! The caller leaves out garbage that a snapshot still needs, since a compaction would not remove
//! it. [`Contents::garbage`] defines garbage: tombstones, and merge operands, which become values
//! at the latest at the bottom; deleted key ranges and expired entries can be due by the same rule.

use super::situation::Contents;
use crate::occupancy::RunId;
use crate::planner::CompactionPlan;

/// Returns the youngest idle run whose garbage is due.
pub(super) fn due(contents: &dyn Contents, in_progress: &[CompactionPlan]) -> Option<RunId> {
    let garbage = contents.garbage();
    let entries = if garbage.is_empty() { 0 } else { contents.entries().0 };
    let is_idle = |run: RunId| !in_progress.iter().any(|plan| plan.inputs.contains(&run));
    garbage.into_iter().find(|garbage| garbage.age > entries && is_idle(garbage.run)).map(|garbage| garbage.run)
}
