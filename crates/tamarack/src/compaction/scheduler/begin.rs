//! Beginning of the agenda's decisions: a flush or a compaction becomes a job, a new shape an edit.
//!
//! Everything here runs under the schedule's lock, with at most one edit per decision, so that the
//! tree is still the one that the agenda decided on when the edit is installed.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{Ordering, fence};
use tamarack_model::agenda::{Contents, Next, RequestId};
use tamarack_model::planner::{self, Cause};
use tamarack_model::{Bytes, Shape, growth, tables};

use super::part_space::with_margin;
use super::{REST_MIN, REST_SHARE, Scheduler};
use crate::compaction::edits;
use crate::compaction::job::{Copies, Inputs, Job, JobPart};
use crate::compaction::progress::JobProgress;
use crate::compaction::retry::Attempts;
use crate::compaction::schedule::{Schedule, Startable};
use crate::compaction::task::Task;
use crate::error::Result;
use crate::events::Event;
use crate::format::edit::KeyRange;
use crate::format::meta::EditNumber;
use crate::mistake::{self, Mistake};
use crate::tree::occupancy::RunContents;
use crate::tree::state::ImmutableMemtable;
use crate::tree::version::{TreeVersion, Version};

/// Names of the steps that fail for lack of disk space.
const FLUSH_SPACE: &str = "flush: find space";
const COMPACTION_SPACE: &str = "compaction: find space";

impl Scheduler {
    /// Makes jobs for the compactions in progress of a version.
    pub(super) fn resume(&self, version: &Arc<Version>) -> Result<()> {
        // The size of tables depends on that of the disk, which nobody has queried yet.
        self.reserve.look();
        let mut schedule = self.schedule.lock();
        for compaction in self.tree.of(version).compactions() {
            let level = self.tree.of(version).run(compaction.output).map_or(1, |(_, level, _)| level as usize);
            let cause = Cause::Full { level: level.saturating_sub(1).max(1), through: level.saturating_sub(1).max(1) };
            let ranges = edits::gaps(&compaction.done);
            let job =
                self.open_job(&mut schedule, version, Task::Compaction { id: compaction.id }, (cause, None), &ranges)?;
            schedule.jobs.get(job).resumed = true;
        }
        Ok(())
    }

    /// Begins the agenda's decisions one by one, until there is nothing to begin. After a failure,
    /// flushes or compactions wait for their retry; the other kind goes on. Returns when the tree
    /// will have rested long enough, if it is to be compacted then.
    pub(super) fn begin(&self, schedule: &mut Schedule) -> Option<Duration> {
        let before = schedule.agenda.clone();
        let mut may_flush = self.flush_retry.pause().is_none();
        let mut may_compact = self.compaction_retry.pause().is_none();
        if !schedule.jobs.is_empty() || !schedule.agenda.is_at_rest() {
            schedule.busy_at = self.env.now();
        }
        let mut rests_from = None;
        while self.database.health.check_running().is_ok() {
            let version = self.manifest.version();
            let is_space_low = self.follow_space(schedule, &version);
            let immutable = self.flushable();
            let memtable = immutable.as_ref().map(|immutable| Bytes(immutable.memtable.raw_bytes()));
            let tree = self.tree.of(&version);
            let contents = self.contents(tree, is_space_low);
            // Compactions share the space that is left: then one goes on at a time.
            let waits_for_space = is_space_low && schedule.jobs.compactions().next().is_some();
            let asks_for_compactions = may_compact && !waits_for_space;
            let startable = Startable { memtable, may_flush, may_compact: asks_for_compactions };
            let tree = (version.edit_number(), &**tree);
            let mut next = schedule.next(tree, &contents, startable);
            if next == Next::Nothing && !is_space_low && schedule.jobs.is_empty() {
                (next, rests_from) = self.next_at_rest(schedule, tree, &contents, startable);
            }
            let for_reads = match &next {
                Next::Compact { plan, .. } if matches!(plan.cause, Cause::Reads { .. }) => Some(plan),
                _ => None,
            };
            if for_reads.is_some_and(|plan| is_space_low || !self.has_space_for_reads(tree.1, plan)) {
                schedule.agenda.forget_reads();
                continue;
            }
            tracing::debug!(%next, "agenda decided");
            let outcome = match &next {
                Next::Nothing => {
                    // What could not begin has begun, or is not needed any more.
                    if asks_for_compactions && !schedule.agenda.is_paused() && self.compaction_retry.is_failing() {
                        self.compaction_retry.succeeded();
                        self.report_recovery_of_compactions(schedule);
                    }
                    break;
                }
                Next::Flush(plan) => self.begin_flush(schedule, &version, immutable, plan),
                Next::Compact { plan, request } => self.begin_compaction(schedule, &version, plan, *request),
                Next::NewShape(shape) => {
                    let policy = schedule.policy().clone();
                    self.take_shape(schedule, policy, shape.clone(), None)
                }
            };
            let Err(error) = outcome else { continue };
            if matches!(next, Next::Compact { .. })
                && error.is_storage_full()
                && schedule.jobs.compactions().next().is_some()
            {
                // Those in progress use the space, and are not to be paused: when one has ended,
                // this is decided again.
                may_compact = false;
                continue;
            }
            if let Next::Compact { request, .. } = next
                && error.is_storage_full()
                && schedule.withdraw_rewrite(request)
            {
                // Nothing else would begin before it.
                tracing::warn!(%error, "tables keep their block size until other compactions rewrite them");
                continue;
            }
            if for_reads.is_some() {
                // It may be decided again, and others go on.
                schedule.agenda.forget_reads();
                tracing::warn!(%error, "a compaction for reads could not begin");
                continue;
            }
            let retry = if let Next::Flush(_) = next {
                may_flush = false;
                &self.flush_retry
            } else {
                may_compact = false;
                &self.compaction_retry
            };
            retry.failed([], error);
        }
        if before.has_arrivals() && !schedule.agenda.has_arrivals() {
            // The filter rebuild waits for this: the tree may have been about to grow.
            self.filters.wake();
        }
        if schedule.agenda != before {
            // Callers may wait for this change.
            self.database.progress.notify();
        }
        rests_from
    }

    /// What the agenda asks about the runs of `tree`.
    pub(super) fn contents<'a>(&'a self, tree: &'a TreeVersion, is_space_low: bool) -> RunContents<'a> {
        RunContents::new(tree, &self.database.sequences, is_space_low, self.tree.merging.can_fold())
    }

    /// Returns the compaction of a tree at rest, if it has rested for long enough; else when it
    /// will have, if there is one.
    fn next_at_rest(
        &self,
        schedule: &mut Schedule,
        tree: (EditNumber, &TreeVersion),
        contents: &dyn Contents,
        startable: Startable,
    ) -> (Next, Option<Duration>) {
        let Some((plan, bytes)) = schedule.next_at_rest(tree, contents, startable) else {
            return (Next::Nothing, None);
        };
        let takes = schedule.speed.estimate().map_or(0.0, |speed| bytes.as_f64() / speed);
        let rest = Duration::try_from_secs_f64(REST_SHARE * takes).map_or(REST_MIN, |rest| rest.max(REST_MIN));
        let from = schedule.busy_at.saturating_add(rest);
        if self.env.now() < from {
            return (Next::Nothing, Some(from));
        }
        // It is no necessity: it takes nothing from the reserve.
        if !self.reserve.spares(bytes.0) {
            schedule.busy_at = self.env.now();
            return (Next::Nothing, Some(schedule.busy_at.saturating_add(rest)));
        }
        (Next::Compact { plan, request: None }, None)
    }

    /// A compaction for reads is no necessity either.
    fn has_space_for_reads(&self, tree: &TreeVersion, plan: &planner::CompactionPlan) -> bool {
        let bytes = plan.inputs.iter().filter_map(|run| tree.run(*run)).map(|(run, ..)| run.raw_bytes()).sum();
        self.reserve.spares(bytes)
    }

    /// Returns the oldest immutable memtable, if it is complete.
    fn flushable(&self) -> Option<Arc<ImmutableMemtable>> {
        let state = self.tree.pin();
        let immutable = state.immutable.last()?;
        // The other half of the fence in the commit queue's `publish`.
        fence(Ordering::SeqCst);
        let is_complete =
            self.database.sequences.visible() >= immutable.last || mistake::is_planted(Mistake::IncompleteMemtable);
        is_complete.then(|| immutable.clone())
    }

    /// Begins a compaction. One that only moves a run ends with its edit.
    fn begin_compaction(
        &self,
        schedule: &mut Schedule,
        version: &Arc<Version>,
        plan: &planner::CompactionPlan,
        request: Option<RequestId>,
    ) -> Result<()> {
        let tree = self.tree.of(version);
        if plan.is_move() {
            let mut occupancy = tree.occupancy();
            planner::begin(&mut occupancy, plan);
            self.install(edits::relabelled(tree, &occupancy).into_iter().collect())?;
            self.counters.moves.add(1);
            schedule.agenda.begun(plan);
            schedule.agenda.moved(plan.target);
            return Ok(());
        }
        let part = self.part_for_space(schedule, tree, plan)?;
        // The whole of it is decided again when the part has ended.
        let (plan, request) = part.as_ref().map_or((plan, request), |part| (part, None));
        if plan.is_partial() {
            let inputs = plan.inputs.clone().into();
            let range = schedule.range_of(request.expect("a range is compacted on request")).clone();
            self.open_job(schedule, version, Task::Range { inputs }, (plan.cause, request), &[range])?;
        } else {
            let id = self.manifest.new_compaction_id();
            let begun = edits::begun(tree, plan, id, self.manifest.new_run_id());
            let version = self.install(begun)?;
            self.open_job(schedule, &version, Task::Compaction { id }, (plan.cause, request), &[KeyRange::ALL])?;
        }
        schedule.agenda.begun(plan);
        Ok(())
    }

    /// Begins the flush of this memtable.
    fn begin_flush(
        &self,
        schedule: &mut Schedule,
        version: &Arc<Version>,
        immutable: Option<Arc<ImmutableMemtable>>,
        plan: &planner::CompactionPlan,
    ) -> Result<()> {
        let immutable = immutable.expect("the agenda only flushes a memtable that it was given");
        let input = plan.inputs.first().copied();
        let buffer = immutable.memtable.raw_bytes();
        let active = input.and_then(|run| self.tree.of(version).run(run)).map_or(0, |(run, ..)| run.raw_bytes());
        let compactions = Self::space_of_compactions(schedule);
        // Where the active run once more would take from the reserve, the memtable becomes a run of
        // its own.
        let input = input.filter(|_| self.reserve.spares(buffer + active));
        if input.is_none() {
            // Half is enough to try: tables may be smaller than their entries.
            self.reserve.check_space(FLUSH_SPACE, (buffer / 2).saturating_add(compactions))?;
        }
        self.open_job(schedule, version, Task::Flush { immutable, input }, (Cause::Flush, None), &[KeyRange::ALL])?;
        schedule.agenda.begun(plan);
        Ok(())
    }

    /// Tells the reserve what a compaction of this version takes, and the agenda that garbage is
    /// due since space has become low. Returns true while it is low.
    fn follow_space(&self, schedule: &mut Schedule, version: &Arc<Version>) -> bool {
        // Once for each version: this looks at all slices.
        let is_known = schedule.space_of.replace(version.edit_number()) == Some(version.edit_number());
        if self.reserve.is_limited() && !is_known {
            let tree = self.tree.of(version);
            let runs = tree.runs().map(|run| (run.id(), run.raw_bytes()));
            let (runs, raw_bytes): (Vec<_>, Vec<_>) = runs.unzip();
            // For tables as they are while space suffices: the reserve does not depend on that.
            let derived = || self.derived_table_bytes(raw_bytes.iter().sum());
            let table_bytes = self.settings.table_bytes.unwrap_or_else(derived);
            self.reserve.set_compaction_bytes(tree.temporary_bytes(runs, table_bytes));
        }
        let is_low = self.reserve.is_low();
        if is_low && !std::mem::replace(&mut schedule.was_space_low, is_low) {
            schedule.agenda.garbage_is_due();
        }
        schedule.was_space_low = is_low;
        is_low
    }

    /// Checks that the disk has the temporary space of a compaction, which one thread carries out
    /// if there is not enough for several. If it has not, returns a part of the compaction for
    /// which the space suffices.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if it suffices for no part.
    fn part_for_space(
        &self,
        schedule: &Schedule,
        tree: &TreeVersion,
        plan: &planner::CompactionPlan,
    ) -> Result<Option<planner::CompactionPlan>> {
        if !self.reserve.is_limited() {
            return Ok(None);
        }
        let inputs = || plan.inputs.iter().copied();
        let raw_bytes: u64 = inputs().filter_map(|run| tree.run(run)).map(|(run, ..)| run.raw_bytes()).sum();
        let output = self.table_bytes(raw_bytes);
        let others = Self::space_of_compactions(schedule);
        // The output is never larger than all inputs, but for what takes space beside entries.
        let temporary = tree.temporary_bytes(inputs(), output).min(raw_bytes);
        let needed = with_margin(temporary).saturating_add(others);
        let lacks = match self.reserve.check_space(COMPACTION_SPACE, needed) {
            Ok(()) => return Ok(None),
            Err(error) => error,
        };
        let temporary: Vec<u64> = inputs().map(|run| tree.temporary_bytes([run], 0)).collect();
        let free = self.reserve.look().map_or(0, |disk| disk.free_bytes);
        // The other half is for flushes in the meantime, and for what estimates leave out: edits of
        // the manifest, whole pages of a file system.
        let space = (free.saturating_sub(others) / 2).saturating_sub(output);
        let part = if plan.is_partial() { None } else { plan.part_within(&tree.occupancy(), &temporary, space) };
        part.map(Some).ok_or(lacks)
    }

    /// Returns the temporary space that the compactions in progress may still take, in bytes: those
    /// that have not begun to copy take that of one part.
    fn space_of_compactions(schedule: &Schedule) -> u64 {
        schedule.jobs.compactions().map(|job| job.temporary_bytes_of(job.begun().max(1))).sum()
    }

    /// Returns the size of the tables of a job with inputs of `raw_bytes`. While space is low, it
    /// is at most the derived one: a table that was chosen larger could take more space than is
    /// left.
    fn table_bytes(&self, raw_bytes: u64) -> u64 {
        let derived = || self.derived_table_bytes(raw_bytes);
        match self.settings.table_bytes {
            Some(bytes) if self.reserve.is_low() => bytes.min(derived()),
            Some(bytes) => bytes,
            None => derived(),
        }
    }

    /// Returns the size of these tables where none is set.
    fn derived_table_bytes(&self, raw_bytes: u64) -> u64 {
        // On a small disk, small tables: a compaction takes space for one of each input.
        tables::table_bytes(raw_bytes, self.reserve.table_bytes())
    }

    /// Makes the job of a task, divided into parts.
    fn open_job(
        &self,
        schedule: &mut Schedule,
        version: &Version,
        task: Task,
        (cause, request): (Cause, Option<RequestId>),
        ranges: &[KeyRange],
    ) -> Result<u64> {
        let tree = self.tree.of(version);
        let inputs = Inputs::of(&task, tree);
        let table_bytes = self.table_bytes(inputs.raw_bytes());
        let copies = Copies {
            all: matches!(
                cause,
                Cause::Compact | Cause::CompactRange | Cause::TombstonesDue { .. } | Cause::SpaceShort
            ),
            cut: self.tree_filter.epoch().is_some(),
            operands: self.tree.merging.can_fold(),
            deleted_at: self.database.sequences.readable()[0],
        };
        let pieces = inputs.pieces(ranges, self.settings.threads, table_bytes, copies)?;
        assert!(!pieces.is_empty(), "a job has something to do: {task:?} in {ranges:?}");
        // All other growth happens before its job begins.
        let grown = match &task {
            Task::Flush { immutable, .. } => {
                self.shape_after_arrival(schedule, version, 1, Bytes(immutable.memtable.raw_bytes()))
            }
            Task::Compaction { .. } | Task::Range { .. } => None,
        };
        let shape = grown.as_ref().unwrap_or(schedule.shape());
        let filter = self.filters.for_job(shape, tree, &task);
        let number = schedule.jobs.next_number();
        let left = pieces.iter().map(|(piece, _)| piece.bytes).sum();
        let temporary_bytes = match &task {
            Task::Flush { .. } => 0,
            Task::Compaction { .. } | Task::Range { .. } => tree.temporary_bytes(inputs.ids(), table_bytes),
        };
        let parts = pieces
            .into_iter()
            .map(|(piece, moved)| JobPart::new(number, task.clone(), piece.range, moved, table_bytes, filter))
            .collect();
        let job = Job {
            number,
            task,
            cause,
            request,
            parts,
            taken: 0,
            total: left,
            left,
            temporary_bytes,
            resumed: false,
            done: Vec::new(),
            began: self.env.now(),
            written: 0,
            attempts: Attempts::first(self.env.now()),
        };
        self.post_begin(&job, version);
        schedule.jobs.begin(job);
        self.wake();
        Ok(number)
    }

    /// Returns the shape that the tree takes if so much arrives at this level: a larger one if that
    /// fills the last level.
    pub(super) fn shape_after_arrival(
        &self,
        schedule: &mut Schedule,
        version: &Version,
        level: usize,
        bytes: Bytes,
    ) -> Option<Shape> {
        let last = schedule.shape().last();
        let occupancy = schedule.counts(version.edit_number(), self.tree.of(version)).0;
        let (in_last, all) = (occupancy.level_bytes(last) + bytes, occupancy.bytes() + bytes);
        if level < last || !planner::is_level_full(schedule.shape(), last, in_last.0) {
            return None;
        }
        growth::grown(&**schedule.policy(), schedule.shape(), all)
    }

    fn post_begin(&self, job: &Job, version: &Version) {
        let event = || match &job.task {
            Task::Flush { immutable, .. } => {
                Event::FlushBegun { entries: immutable.memtable.entries(), raw_bytes: immutable.memtable.raw_bytes() }
            }
            Task::Compaction { .. } | Task::Range { .. } => {
                let JobProgress { inputs, target, .. } = JobProgress::of(job, self.tree.of(version));
                let (number, cause, inputs) = (job.number, job.cause.to_string(), inputs.len());
                Event::CompactionBegun { number, cause, inputs, target, raw_bytes: job.total }
            }
        };
        self.database.events.post(event);
    }
}
