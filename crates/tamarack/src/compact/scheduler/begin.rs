//! What is begun: merges that the planner calls for, flushes of sealed buffers, changes of shape.
//!
//! All of it happens under the desk's lock, each with one edit, so that what the planner decided on is still so when the edit is committed.

use std::sync::Arc;

use tamarack_env::sync::atomic::{Ordering, fence};
use tamarack_model::planner::{self, Cause, Occasion};
use tamarack_model::{Bytes, RunId as RunName, Shape, growth};

use super::{Scheduler, TABLE_BYTES_MAX, TABLE_BYTES_MIN};
use crate::compact::desk::{Desk, Request};
use crate::compact::edits;
use crate::compact::job::{Inputs, Job, Part, Task};
use crate::compact::progress::JobProgress;
use crate::database::Activity;
use crate::error::Result;
use crate::events::Event;
use crate::format::edit::{KeyRange, RunId};
use crate::mistake::{self, Mistake};
use crate::tree::version::{TreeVersion, Version};

/// What is being done when there is no space to begin.
const FLUSH_ROOM: &str = "flush: find space";
const MERGE_ROOM: &str = "merge: find space";

/// A run has about so many tables, if the bounds of their size allow.
const TABLES_PER_RUN: u64 = 32;

/// Tables may be larger than they should by one part of this: files are a little larger than what is in them.
const TABLE_MARGIN: u64 = 16;

impl Scheduler {
    /// Makes jobs of the merges that the version has.
    pub(super) fn resume(&self, version: &Arc<Version>) -> Result<()> {
        let mut desk = self.desk.lock();
        for merge in self.tree.of(version).merges() {
            let level = self.tree.of(version).run(merge.output).map_or(1, |(_, level, _)| level as usize);
            let cause = Cause::Full { level: level.saturating_sub(1).max(1), through: level.saturating_sub(1).max(1) };
            let ranges = edits::gaps(&merge.done);
            let job = self.open_job(&mut desk, version, Task::Merge { id: merge.id }, cause, &ranges)?;
            desk.job(job).resumed = true;
        }
        Ok(())
    }

    /// Sees to what is to be begun.
    pub(super) fn begin(&self, desk: &mut Desk) {
        if desk.pauses == 0 && self.merge_retry.pause().is_none() {
            match self.begin_merges(desk) {
                // What failed before has been made up for, or is not called for any more.
                Ok(()) if desk.jobs.iter().all(Job::is_flush) => self.database.health.report_recovery(Activity::Merge),
                Ok(()) => {}
                Err(error) => {
                    self.counters.merge_failures.add(1);
                    self.merge_retry.failed([], error);
                }
            }
        }
        if self.flush_retry.pause().is_none()
            && let Err(error) = self.begin_flush(desk)
        {
            self.counters.flush_failures.add(1);
            self.flush_retry.failed([], error);
        }
    }

    fn begin_merges(&self, desk: &mut Desk) -> Result<()> {
        if desk.may_shrink {
            self.shrink(desk)?;
        }
        while desk.waiting_request().is_some() {
            // Nothing else is begun meanwhile, or a busy tree might never come to rest.
            if !self.begin_request(desk)? {
                return Ok(());
            }
        }
        // Before what has arrived may take runs that it waits for.
        self.begin_reshape(desk)?;
        let unshaped = desk.unshaped;
        let something_arrived = !desk.arrivals.is_empty() || !desk.ingested.is_empty();
        loop {
            while let Some(level) = desk.arrivals.front().copied() {
                self.examine(desk, level)?;
                self.sink_tombstones(desk)?;
                desk.arrivals.pop_front();
            }
            // What only has to be moved arrives at another level at once.
            let Some(run) = desk.ingested.front().copied() else { break };
            self.join_ingested(desk, run)?;
            desk.ingested.pop_front();
        }
        if something_arrived {
            // It waits for that, so as not to take a tree for what it is that is about to grow.
            self.filters.wake();
        }
        if something_arrived && desk.jobs.is_empty() {
            // Somebody may wait for just that.
            self.database.progress.notify();
        }
        if desk.unshaped != unshaped {
            // The tree has grown, and every level is to be looked at anew; nobody else may come by to do it.
            return self.begin_merges(desk);
        }
        Ok(())
    }

    /// Takes the policy's next shapes as long as what is at this level must go on and fills the last one.
    pub(super) fn grow(&self, desk: &mut Desk, level: usize) -> Result<Arc<Version>> {
        loop {
            let version = self.manifest.version();
            let (occupancy, in_progress) = desk.counts(&version);
            if !planner::outgrown(&desk.shape, &occupancy, &in_progress, level) {
                return Ok(version);
            }
            let policy = desk.policy.clone();
            let Some(shape) = growth::grown(&*policy, &desk.shape, occupancy.bytes()) else { return Ok(version) };
            self.take_shape(desk, policy, shape)?;
        }
    }

    /// Something has arrived at a level.
    fn examine(&self, desk: &mut Desk, level: usize) -> Result<()> {
        let version = self.grow(desk, level)?;
        let (occupancy, in_progress) = desk.counts(&version);
        if let Some(merge) = planner::next_merge(&desk.shape, &occupancy, &in_progress, Occasion::Arrived { level }) {
            self.begin_merge(desk, &version, &merge)?;
        }
        self.keep_space(desk)
    }

    /// If the tree takes more space than it may, and will when all that has begun has ended, it is merged.
    fn keep_space(&self, desk: &mut Desk) -> Result<()> {
        let Some(bound) = self.settings.space_bound else { return Ok(()) };
        let version = self.manifest.version();
        let (contents, (occupancy, in_progress)) = (self.tree.of(&version).contents(), desk.counts(&version));
        match bound.next_merge(&desk.shape, &occupancy, &in_progress, &|run| contents[&run.id]) {
            Some(merge) => self.begin_merge(desk, &version, &merge).map(drop),
            None => Ok(()),
        }
    }

    /// A run was ingested.
    fn join_ingested(&self, desk: &mut Desk, run: RunId) -> Result<()> {
        // Where it stands now: if it made the tree grow, it was relabelled, and nothing has looked at that level yet.
        let level_of = |version: &Version| {
            let tree = self.tree.of(version);
            let is_idle = tree.merge_of(run).is_none();
            tree.run(run).filter(|_| is_idle).map(|(_, level, _)| level as usize)
        };
        let mut examined = None;
        let version = loop {
            let version = self.manifest.version();
            let level = level_of(&version);
            if level == examined {
                break version;
            }
            if let Some(level) = level {
                self.examine(desk, level)?;
            }
            examined = level;
        };
        let (occupancy, in_progress) = desk.counts(&version);
        let occasion = Occasion::Ingested { run: RunName(run.0) };
        match planner::next_merge(&desk.shape, &occupancy, &in_progress, occasion) {
            Some(merge) => self.begin_merge(desk, &version, &merge).map(drop),
            None => Ok(()),
        }
    }

    /// Tombstones that have waited long enough go one level down.
    fn sink_tombstones(&self, desk: &mut Desk) -> Result<()> {
        let version = self.manifest.version();
        let readable = self.database.sequences.readable();
        let (oldest, visible) = (readable[0], readable[readable.len() - 1]);
        let Some(run) = desk.tombstones_due(self.tree.of(&version), visible, oldest) else { return Ok(()) };
        let (occupancy, in_progress) = desk.counts(&version);
        let occasion = Occasion::TombstonesDue { run: RunName(run.0) };
        match planner::next_merge(&desk.shape, &occupancy, &in_progress, occasion) {
            Some(merge) => self.begin_merge(desk, &version, &merge).map(drop),
            None => Ok(()),
        }
    }

    /// Begins what was asked for first, if nothing is in its way.
    fn begin_request(&self, desk: &mut Desk) -> Result<bool> {
        let request = desk.waiting_request().expect("somebody asks");
        let (number, range) = (request.number, request.range.clone());
        let is_whole = range == KeyRange::ALL;
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let occasion = if is_whole { Occasion::Compact } else { Occasion::CompactRange };
        match planner::next_merge(&desk.shape, &occupancy, &in_progress, occasion) {
            Some(merge) => {
                let job = if is_whole {
                    self.begin_merge(desk, &version, &merge)?
                } else {
                    self.check_merge_room(self.tree.of(&version), &merge)?;
                    let inputs = merge.inputs.iter().map(|run| RunId(run.0)).collect();
                    Some(self.open_job(
                        desk,
                        &version,
                        Task::Range { inputs },
                        merge.cause,
                        std::slice::from_ref(&range),
                    )?)
                };
                // Who asks for the same thing meanwhile is served by it too.
                let same = |other: &&mut Request| other.job.is_none() && other.range == range;
                desk.requests.iter_mut().filter(same).for_each(|request| request.job = job);
            }
            // With something in progress, that is waited for.
            None if !in_progress.is_empty() => return Ok(false),
            None => {
                desk.requests.retain(|request| request.number != number);
                self.database.progress.notify();
            }
        }
        Ok(true)
    }

    /// Begins a merge of the planner's; returns the number of its job, unless it was only a change of label.
    pub(super) fn begin_merge(
        &self,
        desk: &mut Desk,
        version: &Arc<Version>,
        merge: &planner::Merge,
    ) -> Result<Option<u64>> {
        tracing::debug!(%merge, "begins");
        let tree = self.tree.of(version);
        if merge.is_move() {
            let mut occupancy = tree.occupancy();
            planner::begin(&mut occupancy, merge);
            self.install(edits::relabelled(tree, &occupancy).into_iter().collect(), Activity::Merge)?;
            self.counters.moves.add(1);
            desk.arrived(merge.target);
            return Ok(None);
        }
        self.check_merge_room(tree, merge)?;
        let id = self.manifest.new_merge_id();
        let version = self.install(edits::begun(tree, merge, id, self.manifest.new_run_id()), Activity::Merge)?;
        self.open_job(desk, &version, Task::Merge { id }, merge.cause, &[KeyRange::ALL]).map(Some)
    }

    /// Takes the oldest sealed buffer, if it is complete and nobody flushes it yet.
    fn begin_flush(&self, desk: &mut Desk) -> Result<()> {
        let state = self.tree.pin();
        let Some(sealed) = state.sealed.last().filter(|_| !desk.is_flushing()) else { return Ok(()) };
        // The other half of the fence in the commit queue's `publish`.
        fence(Ordering::SeqCst);
        if self.database.sequences.visible() < sealed.last && !mistake::is_planted(Mistake::IncompleteBuffer) {
            return Ok(());
        }
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let mut flush = planner::flush(&desk.shape, &occupancy, &in_progress, Bytes(sealed.buffer.raw_bytes()));
        if self.runs_expected.load(Ordering::Relaxed) > 0 {
            // The active run is not idle: a run that somebody waits for is to come above it, and above this flush.
            flush.inputs.clear();
        }
        tracing::debug!(%flush, "begins");
        let input = flush.inputs.first().map(|run| RunId(run.0));
        let buffer = sealed.buffer.raw_bytes();
        let active = input.and_then(|run| self.tree.of(&version).run(run)).map_or(0, |(run, ..)| run.raw_bytes());
        // Where the active run cannot be written once more beside itself, the buffer becomes a run of its own.
        let input = input.filter(|_| self.reserve.check_room(FLUSH_ROOM, buffer + active).is_ok());
        if input.is_none() {
            self.reserve.check_room(FLUSH_ROOM, buffer)?;
        }
        let task = Task::Flush { sealed: sealed.clone(), input };
        self.open_job(desk, &version, task, Cause::Flush, &[KeyRange::ALL]).map(drop)
    }

    /// Whether there is space for what a merge needs before it gives some back: in each part that is open, a table of each input and one of the output.
    fn check_merge_room(&self, tree: &TreeVersion, merge: &planner::Merge) -> Result<()> {
        let raw_bytes = |run: &RunName| tree.run(RunId(run.0)).map_or(0, |(run, ..)| run.raw_bytes());
        let all: u64 = merge.inputs.iter().map(raw_bytes).sum();
        let tables = (merge.inputs.len() as u64 + 1) * self.settings.threads as u64;
        self.reserve.check_room(MERGE_ROOM, all.min(tables.saturating_mul(self.table_bytes(all))))
    }

    /// The size of the tables that a job writes whose inputs have so many raw bytes.
    fn table_bytes(&self, raw_bytes: u64) -> u64 {
        let derived = (raw_bytes / TABLES_PER_RUN).clamp(TABLE_BYTES_MIN, TABLE_BYTES_MAX);
        // A small rest would be a table of its own, whose filter takes a cache line for a few entries: a run of few tables has tables that are alike.
        let tables = ((raw_bytes + derived / 2) / derived).max(1);
        let alike = raw_bytes / tables;
        self.settings.table_bytes.unwrap_or((alike + alike / TABLE_MARGIN).max(TABLE_BYTES_MIN))
    }

    /// Puts a job on the desk, divided into parts that can be worked on.
    fn open_job(
        &self,
        desk: &mut Desk,
        version: &Version,
        task: Task,
        cause: Cause,
        ranges: &[KeyRange],
    ) -> Result<u64> {
        let inputs = Inputs::of(&task, self.tree.of(version));
        let table_bytes = self.table_bytes(inputs.raw_bytes());
        let rewrite = matches!(cause, Cause::Compact | Cause::CompactRange | Cause::TombstonesDue { .. });
        let pieces = inputs.pieces(ranges, self.settings.threads, table_bytes, rewrite)?;
        assert!(!pieces.is_empty(), "a job has something to do: {task:?} in {ranges:?}");
        let grown = self.shape_after(desk, version, &task);
        let shape = grown.as_ref().unwrap_or(&desk.shape);
        let filter = self.filters.for_job(shape, self.tree.of(version), &task);
        let number = desk.jobs_begun;
        desk.jobs_begun += 1;
        let left = pieces.iter().map(|(piece, _)| piece.bytes).sum();
        let parts = pieces
            .into_iter()
            .map(|(piece, moved)| Part::new(number, task.clone(), piece.range, moved, table_bytes, filter))
            .collect();
        desk.jobs.push(Job {
            number,
            task,
            cause,
            parts,
            taken: 0,
            total: left,
            left,
            resumed: false,
            done: Vec::new(),
            began: self.env.now(),
            written: 0,
        });
        self.tell_of_begin(desk.job(number), version);
        self.wake();
        Ok(number)
    }

    /// The shape that the tree takes as soon as this flush is done, if it fills the only level. (Whatever else makes the tree grow has done so before its job begins.)
    fn shape_after(&self, desk: &mut Desk, version: &Version, task: &Task) -> Option<Shape> {
        let Task::Flush { sealed, .. } = task else { return None };
        let all = desk.counts(version).0.bytes() + Bytes(sealed.buffer.raw_bytes());
        if desk.shape.last() > 1 || !planner::is_level_full(&desk.shape, 1, all.0) {
            return None;
        }
        growth::grown(&*desk.policy, &desk.shape, all)
    }

    fn tell_of_begin(&self, job: &Job, version: &Version) {
        let event = || match &job.task {
            Task::Flush { sealed, .. } => {
                Event::FlushBegun { entries: sealed.buffer.entries(), raw_bytes: sealed.buffer.raw_bytes() }
            }
            Task::Merge { .. } | Task::Range { .. } => {
                let JobProgress { inputs, target, .. } = JobProgress::of(job, self.tree.of(version));
                let (number, cause, inputs) = (job.number, job.cause.to_string(), inputs.len());
                Event::MergeBegun { number, cause, inputs, target, raw_bytes: job.total }
            }
        };
        self.database.events.post(event);
    }
}
