//! Applying range deletes: cutting what they hide out of runs that nobody reads for a compaction,
//! and ending them once no table needs them ([`crate::tree::range_delete_cuts`]). No data is read
//! or written but one edit.
//!
//! A worker tries it before each step, if the version has range deletes and anything has changed
//! since the last attempt: the version, or the oldest snapshot. It looks at range deletes, runs and
//! cached entries without the lock of the schedule, and once more with it only if the version has
//! changed meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::Ordering;

use super::Scheduler;
use crate::compaction::retry;
use crate::compaction::schedule::Schedule;
use crate::compaction::task::Task;
use crate::entry::Sequence;
use crate::format::edit::RunId;
use crate::format::meta::EditNumber;
use crate::mistake::{self, Mistake};
use crate::tree::range_delete_cuts::AppliedRangeDeletes;
use crate::tree::version::{TreeVersion, Version};

impl Scheduler {
    /// Applies the range deletes that can be applied now. Returns when to try again, if that has
    /// failed.
    pub(super) fn apply_range_deletes(&self) -> Option<Duration> {
        if !self.tree.may_have_range_deletes() || self.has_ended() {
            return None;
        }
        if let Some(pause) = self.range_deletes_pause() {
            return Some(pause);
        }
        let version = self.manifest.version();
        let attempt = self.range_delete_attempt(version.edit_number());
        if self.tree.of(&version).range_deletes().is_empty() || self.was_tried(attempt) {
            return None;
        }
        drop(version);
        let mut situation = {
            let schedule = self.schedule.lock();
            if schedule.agenda.is_paused() {
                return None;
            }
            self.cut_situation(&schedule)
        };
        let mut applied = self.plan_cuts(&situation);
        // The gate comes before the lock of the schedule.
        let unit = self.tree_filter.begin_cuts();
        let schedule = self.schedule.lock();
        if self.has_ended() || schedule.agenda.is_paused() {
            drop(unit);
            return None;
        }
        let now = self.cut_situation(&schedule);
        if !now.allows_what(&situation) {
            situation = now;
            applied = self.plan_cuts(&situation);
        }
        let oldest = situation.oldest;
        self.note_attempt((situation.version.edit_number(), oldest));
        if applied.changes.is_empty() {
            // Callers may wait for the attempt.
            self.database.progress.notify();
            drop(unit);
            return None;
        }
        self.tree_filter.note_leftovers();
        let (cuts, ended) = (applied.changes.len(), applied.ended.len());
        let installed = self.install(applied.changes);
        drop(schedule);
        match installed {
            Ok(version) => {
                tracing::debug!(cuts, ended, "range deletes applied");
                unit.published(version.edit_number());
                self.remove_garbage();
                None
            }
            Err(error) => {
                unit.failed(&error);
                // They stay, and hide what they hide, until the next attempt.
                tracing::warn!(%error, "range deletes could not be applied; that will be retried");
                let again = self.env.now() + retry::PAUSE;
                self.range_deletes_from_ns.store(again.as_nanos() as u64, Ordering::Relaxed);
                self.note_attempt((EditNumber(0), oldest));
                self.database.progress.notify();
                Some(again)
            }
        }
    }

    /// What cuts depend on.
    fn cut_situation(&self, schedule: &Schedule) -> CutSituation {
        let version = self.manifest.version();
        let busy = busy_runs(schedule, self.tree.of(&version));
        CutSituation { oldest: self.database.sequences.readable()[0], version, busy }
    }

    /// Returns the edit that applies range deletes, and forgets the cached entries that those hide
    /// which it ends.
    fn plan_cuts(&self, situation: &CutSituation) -> AppliedRangeDeletes {
        let CutSituation { version, oldest, busy } = situation;
        let applied = self.tree.of(version).apply_range_deletes(*oldest, |run| busy.contains(&run));
        if !mistake::is_planted(Mistake::CachedThroughRangeDelete) {
            // Lookups that are in progress and do not see the range deletes have not seen the flush
            // that brought them, so they cache nothing any more.
            version.files().storage().cache().forget(&applied.ended);
        }
        applied
    }

    /// The end of the pause after an attempt that has failed.
    fn range_deletes_pause(&self) -> Option<Duration> {
        let from = Duration::from_nanos(self.range_deletes_from_ns.load(Ordering::Relaxed));
        (self.env.now() < from).then_some(from)
    }

    /// Returns true if there is no range delete that might be applied now.
    pub(super) fn range_deletes_are_tried(&self) -> bool {
        !self.tree.may_have_range_deletes()
            || self.range_deletes_pause().is_some()
            || self.was_tried(self.range_delete_attempt(self.manifest.version().edit_number()))
    }

    /// What an attempt depends on: the version, and the oldest sequence that is read.
    fn range_delete_attempt(&self, edit: EditNumber) -> (EditNumber, Sequence) {
        (edit, self.database.sequences.readable()[0])
    }

    fn was_tried(&self, (edit, oldest): (EditNumber, Sequence)) -> bool {
        let [tried_edit, tried_oldest] = &self.range_deletes_tried;
        let is_oldest = tried_oldest.load(Ordering::Relaxed) == oldest.0;
        // Without snapshots, what is visible grows with each write, and all range deletes are seen.
        let sees_all = || {
            let version = self.manifest.version();
            let last = self.tree.of(&version).range_deletes().list().last().map(|last| last.sequence);
            last.is_none_or(|last| last.0 <= tried_oldest.load(Ordering::Relaxed).min(oldest.0))
        };
        tried_edit.load(Ordering::Relaxed) == edit.0 && (is_oldest || sees_all())
    }

    fn note_attempt(&self, (edit, oldest): (EditNumber, Sequence)) {
        let [tried_edit, tried_oldest] = &self.range_deletes_tried;
        tried_oldest.store(oldest.0, Ordering::Relaxed);
        tried_edit.store(edit.0, Ordering::Relaxed);
    }
}

/// What cuts depend on: the version, the oldest sequence that is read, and the runs that must not
/// be cut.
struct CutSituation {
    version: Arc<Version>,
    oldest: Sequence,
    busy: BTreeSet<RunId>,
}

impl CutSituation {
    /// Returns true if cuts that were planned in an earlier situation can be made in this one. The
    /// oldest sequence that is read only grows.
    fn allows_what(&self, planned: &Self) -> bool {
        self.version.edit_number() == planned.version.edit_number() && self.busy.is_subset(&planned.busy)
    }
}

/// The runs that flushes and compactions in progress read, or add to.
fn busy_runs(schedule: &Schedule, tree: &TreeVersion) -> BTreeSet<RunId> {
    let compactions = tree.compactions().iter();
    let mut busy: BTreeSet<RunId> =
        compactions.flat_map(|compaction| compaction.inputs.iter().copied().chain([compaction.output])).collect();
    for job in schedule.jobs.iter() {
        match &job.task {
            Task::Flush { input, .. } => busy.extend(input),
            Task::Range { inputs } => busy.extend(inputs.iter()),
            Task::Compaction { .. } => {}
        }
    }
    busy
}
