//! [`Scheduler`]: asks the planner what is to be done, hands parts of jobs to workers, and makes what they finish part of the tree.
//!
//! ```text
//!   a buffer was sealed ─┐                              ┌─▶ worker: copies for a few milliseconds ─┐
//!   something arrived ───┼─▶ desk: planner ─▶ job ─ parts                                          ├─▶ edit ─▶ version
//!   somebody asked ──────┘                              └─▶ worker: …                             ─┘
//!            ▲                                                                                         │
//!            └──────────────── arrived at level i ◀── the last part of a job ends it ◀──────────────────┘
//! ```
//!
//! # One step
//!
//! Any number of workers call [`Work::step`]. Under the lock of the **desk**, where everything that is going on is noted, a worker first sees to what is to
//! be begun: levels at which something arrived are examined, the oldest sealed buffer gets its flush. Then it takes one part, the
//! most urgent that nobody works on, leaves the desk, copies for a few milliseconds, and puts the part back. So no merge, however large, keeps a
//! worker from a flush for longer than a step.
//!
//! # What is committed where
//!
//! Edits that begin or end a job, install a flush or change the shape are committed under the desk's lock: they say which runs there are, and the
//! planner decides on that. Handovers in the middle of a merge are not: they commute.
//!
//! The merges in progress stand in the version; after a crash they are found there and gone on with. A flush in progress does not: its buffer is
//! in the log, and it begins anew.
//!
//! # Order of urgency
//!
//! Flushes first, then what leads to the smallest level: the level that it empties is the first to be full again.
//!
//! # Failures
//!
//! A failed sync, of whatever, stops writing for good. After any other failure the part's files since its last handover are removed, whoever waits
//! is told, and the part is tried again after a pause; flushes and merges pause independently.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tamarack_env::sync::atomic::{Ordering, fence};
use tamarack_env::sync::{Mutex, MutexGuard};
use tamarack_env::{Env, Progress, Work, Worker};
use tamarack_model::planner::{self, Cause, Occasion};
use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Occupancy, Shape, growth};

use crate::compact::TREE;
use crate::compact::edits;
use crate::compact::job::{Done, Inputs, Job, Part, Reached, Task};
use crate::compact::output::{Output, Workshop};
use crate::compact::progress::{GoingOn, JobProgress};
use crate::compact::retry::Retry;
use crate::error::{Error, Result};
use crate::format::edit::{Change, KeyRange, MergeId};
use crate::format::meta::TableMeta;
use crate::format::shape;
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::occupancy;
use crate::tree::state::{Activity, Tree};
use crate::tree::table_file::TableFiles;
use crate::tree::version::{TreeVersion, Version};
use crate::wal::Log;

/// How background work is done.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// How many workers there are, and so how many parts one merge is divided into at most.
    pub threads: usize,
    /// The size of tables in bytes of the file; `None` derives it from the run: a thirty-second of it, between
    /// [`TABLE_BYTES_MIN`] and [`TABLE_BYTES_MAX`].
    pub table_bytes: Option<u64>,
    /// The size of the buffer that policies are asked with, in raw bytes.
    pub buffer_bytes: u64,
}

/// Smaller tables are not made without being asked for: each costs a sync and an entry in the manifest.
pub const TABLE_BYTES_MIN: u64 = 2 << 20;
/// Larger tables are not made without being asked for: a merge needs extra space for one table per input, and hands over one at a time.
pub const TABLE_BYTES_MAX: u64 = 64 << 20;
/// A run has about so many tables, if these sizes allow.
const TABLES_PER_RUN: u64 = 32;

/// Plans and carries out the flushes and merges of a tree, and removes the tables they leave behind.
pub struct Scheduler {
    env: Arc<dyn Env>,
    tree: Arc<Tree>,
    log: Arc<Log>,
    manifest: Arc<Manifest>,
    tables: Arc<TableFiles>,
    workshop: Arc<Workshop>,
    counters: Arc<Counters>,
    settings: SchedulerSettings,
    desk: Mutex<Desk>,
    flush_retry: Retry,
    merge_retry: Retry,
    workers: OnceLock<Arc<dyn Worker>>,
}

/// The parts of a database that the scheduler works with.
pub struct Surroundings {
    /// Clock.
    pub env: Arc<dyn Env>,
    /// Whose buffers and runs these are.
    pub tree: Arc<Tree>,
    /// What is released when a buffer was flushed.
    pub log: Arc<Log>,
    /// Where edits are committed.
    pub manifest: Arc<Manifest>,
    /// What tables are garbage.
    pub tables: Arc<TableFiles>,
    /// Where tables are written.
    pub workshop: Arc<Workshop>,
    /// What is counted.
    pub counters: Arc<Counters>,
}

/// Everything that is going on.
struct Desk {
    policy: Arc<dyn Policy>,
    shape: Shape,
    /// In the order in which they began.
    jobs: Vec<Job>,
    jobs_begun: u64,
    /// Levels at which something has arrived and that have not been examined since.
    arrivals: VecDeque<usize>,
    /// Merges are neither begun nor gone on with while this is not 0.
    pauses: usize,
    compact: Requests,
}

/// Who asked for everything to be merged.
#[derive(Clone, Copy, Default)]
struct Requests {
    /// How often it was asked for.
    made: u64,
    /// Up to which request it has been done.
    served: u64,
    /// The job that is doing it, and the requests that will have been served then.
    in_progress: Option<(u64, u64)>,
}

impl Work for Scheduler {
    fn step(&self) -> Progress {
        self.remove_garbage();
        let part = {
            let mut desk = self.desk.lock();
            if self.tree.check_running().is_err() {
                return Progress::Done;
            }
            self.begin(&mut desk);
            self.take(&mut desk)
        };
        match part {
            Some(part) => self.work(part),
            None => self.rest(),
        }
    }
}

impl Scheduler {
    /// A scheduler for a tree whose version has a shape. Goes on with the merges that the version has.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Unsupported`] if the shape cannot be read.
    pub fn new(around: Surroundings, settings: SchedulerSettings) -> Result<Self> {
        let Surroundings { env, tree, log, manifest, tables, workshop, counters } = around;
        let version = manifest.version();
        let stored = version.tree(TREE).and_then(|tree| tree.shape());
        let (policy, shape) = shape::decode(stored.expect("opening gives every tree a shape"))
            .map_err(|error| error.at(workshop.dir()))?;
        let desk = Desk {
            policy,
            shape,
            jobs: Vec::new(),
            jobs_begun: 0,
            // A process that ended between an arrival and its examination left level 1 as it was.
            arrivals: VecDeque::from([1]),
            pauses: 0,
            compact: Requests::default(),
        };
        let flush_retry = Retry::new(env.clone(), tree.clone(), Activity::Flush);
        let merge_retry = Retry::new(env.clone(), tree.clone(), Activity::Merge);
        let desk = Mutex::new(desk);
        let workers = OnceLock::new();
        let scheduler = Self {
            env,
            tree,
            log,
            manifest,
            tables,
            workshop,
            counters,
            settings,
            desk,
            flush_retry,
            merge_retry,
            workers,
        };
        scheduler.resume(&version)?;
        Ok(scheduler)
    }

    /// Registers the workers that call this; may be called once.
    pub fn set_workers(&self, workers: Arc<dyn Worker>) {
        assert!(self.workers.set(workers).is_ok(), "a scheduler has one set of workers");
    }

    /// The policy and the shape that the tree has now.
    pub fn shape(&self) -> (Arc<dyn Policy>, Shape) {
        let desk = self.desk.lock();
        (desk.policy.clone(), desk.shape.clone())
    }

    /// The shape that the tree has now, and its runs as the planner counts them, both of one moment.
    pub fn standing(&self) -> (Shape, Occupancy) {
        let desk = self.desk.lock();
        (desk.shape.clone(), tree_of(&self.manifest.version()).occupancy())
    }

    /// What the tree is to look like, what it looks like, and what is going on to make it so: all at one moment.
    pub fn going_on(&self) -> GoingOn {
        let desk = self.desk.lock();
        let state = self.tree.pin_owned();
        let jobs = desk.jobs.iter().map(|job| JobProgress::of(job, tree_of(&state.version))).collect();
        let paused = desk.pauses > 0;
        GoingOn { policy: desk.policy.clone(), shape: desk.shape.clone(), state, jobs, paused }
    }

    /// How many workers there are.
    pub fn threads(&self) -> usize {
        self.settings.threads
    }

    /// Gives the tree the shape of another policy. Moves no bytes: the tree is carried over as it is written to.
    ///
    /// # Errors
    /// As [`Manifest::commit`].
    pub fn set_policy(&self, policy: Arc<dyn Policy>) -> Result<Shape> {
        let mut desk = self.desk.lock();
        let version = self.manifest.version();
        let data = tree_of(&version).occupancy().bytes();
        let shape = policy.shape(data, Bytes(self.settings.buffer_bytes));
        self.take_shape(&mut desk, policy, shape.clone())?;
        Ok(shape)
    }

    /// Holds all merges where they are, at the end of their present steps, until [`Scheduler::resume_merges`] was called as often as this.
    pub fn pause_merges(&self) {
        self.desk.lock().pauses += 1;
    }

    /// Takes back one [`Scheduler::pause_merges`].
    pub fn resume_merges(&self) {
        {
            let mut desk = self.desk.lock();
            desk.pauses = desk.pauses.checked_sub(1).expect("merges are resumed as often as they were paused");
        }
        self.wake();
    }

    /// Has all runs that there are now merged into one, and waits for that.
    ///
    /// # Errors
    /// [`Error::Io`] if a merge fails; it is tried again in the background. [`Error::Stopped`] if writing has ended.
    pub fn merge_all(&self) -> Result<()> {
        let request = {
            let mut desk = self.desk.lock();
            desk.compact.made += 1;
            desk.compact.made
        };
        self.wake();
        self.wait(|desk| desk.compact.served >= request)
    }

    /// Waits until no merge is in progress and none is called for.
    ///
    /// # Errors
    /// As [`Scheduler::merge_all`].
    pub fn wait_for_merges(&self) -> Result<()> {
        self.wake();
        self.wait(|desk| desk.jobs.is_empty() && desk.arrivals.is_empty() && !desk.compact.is_asked_for())
    }

    fn wait(&self, is_done: impl Fn(&Desk) -> bool) -> Result<()> {
        let mut outcome = Ok(());
        self.env.wait(&self.tree.progress, None, &mut || {
            let done = is_done(&self.desk.lock());
            outcome = if done { Ok(()) } else { self.tree.check_progress(Activity::Merge) };
            done || outcome.is_err()
        });
        outcome
    }

    fn wake(&self) {
        if let Some(workers) = self.workers.get() {
            workers.wake();
        }
    }

    /// What to answer when there is nothing to work on.
    fn rest(&self) -> Progress {
        let pauses = self.flush_retry.pause().into_iter().chain(self.merge_retry.pause());
        pauses.min().map_or(Progress::Idle, Progress::IdleUntil)
    }
}

// What is begun.
impl Scheduler {
    /// Makes jobs of the merges that the version has.
    fn resume(&self, version: &Arc<Version>) -> Result<()> {
        let mut desk = self.desk.lock();
        for merge in tree_of(version).merges() {
            let level = tree_of(version).run(merge.output).map_or(1, |(_, level, _)| level as usize);
            let cause = Cause::Full { level: level.saturating_sub(1).max(1), through: level.saturating_sub(1).max(1) };
            let ranges = edits::gaps(&merge.done);
            let job = self.open_job(&mut desk, version, Task::Merge { id: merge.id }, cause, &ranges)?;
            desk.job(job).resumed = true;
        }
        Ok(())
    }

    /// Sees to what is to be begun.
    fn begin(&self, desk: &mut Desk) {
        if desk.pauses == 0
            && self.merge_retry.pause().is_none()
            && let Err(error) = self.begin_merges(desk)
        {
            self.counters.merge_failures.add(1);
            self.merge_retry.failed([], error);
        }
        if self.flush_retry.pause().is_none()
            && let Err(error) = self.begin_flush(desk)
        {
            self.counters.flush_failures.add(1);
            self.flush_retry.failed([], error);
        }
    }

    fn begin_merges(&self, desk: &mut Desk) -> Result<()> {
        if desk.compact.is_asked_for() {
            // Nothing else is begun meanwhile, or a busy tree might never come to rest.
            return self.begin_compact(desk);
        }
        while let Some(level) = desk.arrivals.front().copied() {
            self.examine(desk, level)?;
            desk.arrivals.pop_front();
            if desk.arrivals.is_empty() {
                // Whoever waits for merges is told, also if none was called for.
                self.tree.progress.notify();
            }
        }
        Ok(())
    }

    /// Something has arrived at a level.
    fn examine(&self, desk: &mut Desk, level: usize) -> Result<()> {
        let version = loop {
            let version = self.manifest.version();
            let (occupancy, in_progress) = desk.counts(&version);
            if !planner::outgrown(&desk.shape, &occupancy, &in_progress, level) {
                break version;
            }
            let policy = desk.policy.clone();
            let Some(shape) = growth::grown(&*policy, &desk.shape, occupancy.bytes()) else { break version };
            self.take_shape(desk, policy, shape)?;
        };
        let (occupancy, in_progress) = desk.counts(&version);
        match planner::next_merge(&desk.shape, &occupancy, &in_progress, Occasion::Arrived { level }) {
            Some(merge) => self.begin_merge(desk, &version, &merge).map(drop),
            None => Ok(()),
        }
    }

    fn begin_compact(&self, desk: &mut Desk) -> Result<()> {
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let made = desk.compact.made;
        match planner::next_merge(&desk.shape, &occupancy, &in_progress, Occasion::Compact) {
            Some(merge) => {
                let job = self.begin_merge(desk, &version, &merge)?;
                desk.compact.in_progress = job.map(|job| (job, made));
            }
            // With something in progress, that is waited for.
            None if in_progress.is_empty() => desk.compact.serve(made),
            None => return Ok(()),
        }
        self.tree.progress.notify();
        Ok(())
    }

    /// Begins a merge of the planner's; returns the number of its job, unless it was only a change of label.
    fn begin_merge(&self, desk: &mut Desk, version: &Arc<Version>, merge: &planner::Merge) -> Result<Option<u64>> {
        tracing::debug!(%merge, "begins");
        let tree = tree_of(version);
        if merge.is_move() {
            let mut occupancy = tree.occupancy();
            planner::begin(&mut occupancy, merge);
            self.commit(edits::relabelled(tree, &occupancy).into_iter().collect())?;
            self.counters.moves.add(1);
            desk.arrived(merge.target);
            return Ok(None);
        }
        let id = self.manifest.new_merge_id();
        let version = self.commit(edits::begun(tree, merge, id, self.manifest.new_run_id()))?;
        self.open_job(desk, &version, Task::Merge { id }, merge.cause, &[KeyRange::ALL]).map(Some)
    }

    /// Takes the oldest sealed buffer, if it is complete and nobody flushes it yet.
    fn begin_flush(&self, desk: &mut Desk) -> Result<()> {
        let state = self.tree.pin_owned();
        let Some(sealed) = state.sealed.last().filter(|_| desk.flush().is_none()) else { return Ok(()) };
        // The other half of the fence in the commit queue's `publish`.
        fence(Ordering::SeqCst);
        if self.tree.visible.sequence() < sealed.last {
            return Ok(());
        }
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let flush = planner::flush(&desk.shape, &occupancy, &in_progress, Bytes(sealed.buffer.raw_bytes()));
        tracing::debug!(%flush, "begins");
        let input = flush.inputs.first().map(|run| crate::format::edit::RunId(run.0));
        let task = Task::Flush { sealed: sealed.clone(), input };
        self.open_job(desk, &version, task, Cause::Flush, &[KeyRange::ALL]).map(drop)
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
        let inputs = Inputs::of(&task, version);
        let table_bytes = self
            .settings
            .table_bytes
            .unwrap_or_else(|| (inputs.raw_bytes() / TABLES_PER_RUN).clamp(TABLE_BYTES_MIN, TABLE_BYTES_MAX));
        let rewrite = matches!(cause, Cause::Compact | Cause::TombstonesDue { .. });
        let pieces = inputs.pieces(ranges, self.settings.threads, table_bytes, rewrite)?;
        assert!(!pieces.is_empty(), "a job has something to do: {task:?} in {ranges:?}");
        let number = desk.jobs_begun;
        desk.jobs_begun += 1;
        let left = pieces.iter().map(|(piece, _)| piece.bytes).sum();
        let parts = pieces
            .into_iter()
            .map(|(piece, moved)| Part::new(number, task.clone(), piece.range, moved, table_bytes))
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
        });
        self.wake();
        Ok(number)
    }

    /// The tree has another shape from now on.
    fn take_shape(&self, desk: &mut Desk, policy: Arc<dyn Policy>, shape: Shape) -> Result<()> {
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let (relabelled, _) = planner::relabel(&occupancy, &in_progress, &shape);
        let set = Change::ShapeSet { tree: TREE, shape: shape::encode(&*policy, &shape) };
        let moved = edits::relabelled(tree_of(&version), &relabelled);
        self.commit([set].into_iter().chain(moved).collect())?;
        self.counters.reshapes.add(1);
        // What arrived at a level that is gone now stands in the last one or above.
        desk.arrivals.iter_mut().for_each(|level| *level = shape.last().min(*level));
        (desk.policy, desk.shape) = (policy, shape);
        Ok(())
    }
}

// What is carried out.
impl Scheduler {
    /// The most urgent part that nobody works on.
    fn take(&self, desk: &mut Desk) -> Option<Part> {
        let flushes = self.flush_retry.pause().is_none();
        let merges = desk.pauses == 0 && self.merge_retry.pause().is_none();
        let version = self.manifest.version();
        let tree = tree_of(&version);
        let urgency = |job: &Job| match &job.task {
            Task::Flush { .. } => (0, job.number),
            Task::Merge { id } => (tree.target_of(*id), job.number),
        };
        let may_go_on = |job: &&mut Job| !job.parts.is_empty() && if job.is_flush() { flushes } else { merges };
        let job = desk.jobs.iter_mut().filter(may_go_on).min_by_key(|job| urgency(job))?;
        job.taken += 1;
        Some(job.parts.remove(0))
    }

    /// One step of a part that was taken.
    fn work(&self, mut part: Part) -> Progress {
        let began = self.env.now();
        let advanced = self.advance(&mut part);
        if let (Task::Merge { .. }, Ok(Advanced { bytes, .. })) = (&part.task, &advanced) {
            self.counters.merged_raw_bytes.add(*bytes);
            self.counters.merging_ns.add((self.env.now() - began).as_nanos() as u64);
        }
        match advanced {
            Ok(Advanced { bytes, ended: false }) => {
                let mut desk = self.desk.lock();
                let job = desk.job(part.job);
                job.left = job.left.saturating_sub(bytes);
                job.put_back(part);
            }
            Ok(Advanced { bytes, ended: true }) => {
                let mut desk = self.desk.lock();
                let job = desk.job(part.job);
                job.left = job.left.saturating_sub(bytes);
                self.end_part(desk, part);
            }
            Err(error) => {
                let mut desk = self.desk.lock();
                self.part_failed(&mut desk, part, error);
            }
        }
        Progress::More
    }

    /// Copies, and hands over what is full.
    fn advance(&self, part: &mut Part) -> Result<Advanced> {
        if !part.moved.is_empty() {
            return Ok(Advanced { bytes: 0, ended: true });
        }
        let copied = part.copy(&*self.env, &self.tree, &self.manifest.version(), &self.workshop)?;
        let ended = match copied.reached {
            Reached::Pause => false,
            Reached::Border(border) => {
                part.finish()?;
                let done = KeyRange { from: part.range.from.clone(), to: Some(border.clone()) };
                self.hand_over(part, done, false)?;
                part.go_on_at(border);
                false
            }
            Reached::End => {
                part.finish()?;
                true
            }
        };
        Ok(Advanced { bytes: copied.bytes, ended })
    }

    /// Gives the output of a merge what was made of `range`, and cuts all inputs back.
    fn hand_over(&self, part: &mut Part, range: KeyRange, ends: bool) -> Result<()> {
        let Task::Merge { id } = part.task else { panic!("a flush hands over nothing before it is installed") };
        let moved = part.moved.clone();
        let tables = part.output().map_or(Ok(&[][..]), |output| output.ready())?;
        let mut changes = edits::advanced(id, range, moved, tables);
        changes.extend(ends.then(|| edits::ended(id)));
        let target = tree_of(&self.manifest.version()).target_of(id);
        self.commit(changes)?;
        let tables = part.output().map(Output::installed).unwrap_or_default();
        self.counters.merge_bytes.add(tables.iter().map(|table| table.file_bytes).sum());
        self.counters.level_bytes.add(target, raw_bytes(&tables));
        Ok(())
    }

    /// A part has come to its end: makes what it did part of the tree, and ends its job if it was the last.
    fn end_part(&self, mut desk: MutexGuard<'_, Desk>, mut part: Part) {
        let is_last = desk.job(part.job).taken == 1 && desk.job(part.job).parts.is_empty();
        match part.task {
            Task::Merge { id } => {
                let target = tree_of(&self.manifest.version()).target_of(id);
                let range = part.range.clone();
                if let Err(error) = self.hand_over(&mut part, range, is_last) {
                    return self.part_failed(&mut desk, part, error);
                }
                // Its cursors held the last of what it merged.
                part.close();
                desk.job(part.job).taken -= 1;
                if is_last {
                    self.counters.merges.add(1);
                    self.end_merge(&mut desk, part.job, target);
                }
            }
            Task::Flush { .. } => {
                let output = part.close().unwrap_or_else(|| self.workshop.output(part.table_bytes));
                let (from, moved) = (part.range.from.take(), std::mem::take(&mut part.moved));
                let job = desk.job(part.job);
                job.taken -= 1;
                job.done.push(Done { from, moved, output });
                if is_last {
                    self.end_flush(&mut desk, part.job);
                }
            }
        }
        drop(desk);
        self.remove_garbage();
        self.tree.progress.notify();
        self.wake();
    }

    /// A merge into `target` has ended.
    fn end_merge(&self, desk: &mut Desk, number: u64, target: usize) {
        desk.jobs.retain(|job| job.number != number);
        if let Some((job, requests)) = desk.compact.in_progress
            && job == number
        {
            desk.compact.serve(requests);
        }
        desk.arrived(target);
        if let Err(error) = self.shrink(desk) {
            self.counters.merge_failures.add(1);
            self.merge_retry.failed([], error);
        }
    }

    /// Goes back to a smaller shape if the tree has lost enough data.
    fn shrink(&self, desk: &mut Desk) -> Result<()> {
        let data = tree_of(&self.manifest.version()).occupancy().bytes();
        let policy = desk.policy.clone();
        match growth::shrunk(&*policy, &desk.shape, data) {
            Some(shape) => self.take_shape(desk, policy, shape),
            None => Ok(()),
        }
    }

    /// All parts of a flush have ended: names durable, edit durable, state published, log released, in this order.
    fn end_flush(&self, desk: &mut Desk, number: u64) {
        let at = desk.jobs.iter().position(|job| job.number == number).expect("the job that just ended");
        let mut job = desk.jobs.remove(at);
        job.done.sort_by(|a, b| a.from.cmp(&b.from));
        if let Err(error) = self.install(&mut job) {
            self.counters.flush_failures.add(1);
            return self.flush_retry.failed(job.done.into_iter().map(|done| done.output), error);
        }
        desk.arrived(1);
        if let Task::Flush { sealed, .. } = &job.task
            && let Err(error) = self.log.release(sealed.last)
        {
            // Nothing depends on it: the segments stay listed and the next flush, or the next open, removes them.
            tracing::warn!(%error, "a segment of the log could not be removed");
        }
    }

    fn install(&self, job: &mut Job) -> Result<()> {
        let Task::Flush { sealed, input } = &job.task else { panic!("only a flush is installed whole: {job:?}") };
        let (mut changes, mut slices) = (Vec::new(), Vec::new());
        for Done { moved, output, .. } in &job.done {
            let tables = output.ready()?;
            changes.extend(edits::added(tables));
            slices.extend(moved.iter().cloned().chain(edits::whole(tables)));
        }
        let version = self.manifest.version();
        changes.extend(edits::installed(tree_of(&version), *input, self.manifest.new_run_id(), slices));
        changes.push(Change::FlushedThrough { tree: TREE, sequence: sealed.last });
        changes.push(Change::LogDurable { position: self.log.durable().0 });
        let version = self.manifest.commit(self.reopened().into_iter().chain(changes).collect())?;
        self.tree.publish_flush(sealed, version);
        let tables: Vec<TableMeta> = job.done.iter_mut().flat_map(|done| done.output.installed()).collect();
        self.counters.flushes.add(1);
        self.counters.flushed_raw_bytes.add(sealed.buffer.raw_bytes());
        self.counters.flush_bytes.add(tables.iter().map(|table| table.file_bytes).sum());
        self.counters.level_bytes.add(1, raw_bytes(&tables));
        tracing::debug!(through = sealed.last.0, "flushed a buffer");
        Ok(())
    }

    /// A part goes back to where it was last handed over.
    fn part_failed(&self, desk: &mut Desk, mut part: Part, error: Error) {
        let output = part.close();
        let job = desk.job(part.job);
        let is_flush = job.is_flush();
        job.put_back(part);
        let (failures, retry) = if is_flush {
            (&self.counters.flush_failures, &self.flush_retry)
        } else {
            (&self.counters.merge_failures, &self.merge_retry)
        };
        failures.add(1);
        retry.failed(output, error);
    }

    fn commit(&self, changes: Vec<Change>) -> Result<Arc<Version>> {
        let version = self.manifest.commit(self.reopened().into_iter().chain(changes).collect())?;
        self.tree.publish(version.clone(), Activity::Merge);
        Ok(version)
    }

    /// What the first edit after a clean close begins with.
    fn reopened(&self) -> Option<Change> {
        self.manifest.version().log_end().map(|_| Change::LogReopened)
    }

    /// Removes the tables that no version and no reader names any more.
    fn remove_garbage(&self) {
        for table in self.tables.take_garbage() {
            match self.workshop.remove(table.id) {
                Ok(()) => self.tables.removed(&table),
                Err(error) => {
                    tracing::warn!(%error, "a table that nothing names could not be removed; the next open will try again");
                }
            }
        }
    }
}

/// What came of one step of a part.
struct Advanced {
    /// Raw bytes read.
    bytes: u64,
    /// The part is at its end; what it made since its last handover is finished.
    ended: bool,
}

impl Desk {
    /// What the planner decides on.
    fn counts(&self, version: &Version) -> (Occupancy, Vec<planner::Merge>) {
        let tree = tree_of(version);
        let mut in_progress = tree.merges_in_progress();
        in_progress.extend(self.flush().map(|(job, sealed_bytes, input)| {
            let level = input.and_then(|run| tree.run(run)).map_or(1, |(_, level, _)| level as usize);
            let inputs = input.into_iter().map(occupancy::name).collect();
            planner::Merge { cause: job.cause, inputs, buffer: Bytes(sealed_bytes), target: level }
        }));
        (tree.occupancy(), in_progress)
    }

    /// The flush in progress, the bytes of its buffer, and the run it takes along.
    fn flush(&self) -> Option<(&Job, u64, Option<crate::format::edit::RunId>)> {
        self.jobs.iter().find_map(|job| match &job.task {
            Task::Flush { sealed, input } => Some((job, sealed.buffer.raw_bytes(), *input)),
            Task::Merge { .. } => None,
        })
    }

    fn job(&mut self, number: u64) -> &mut Job {
        let job = self.jobs.iter_mut().find(|job| job.number == number);
        job.unwrap_or_else(|| panic!("job {number} has ended, but a part of it has not"))
    }

    /// Something has arrived at a level; what is in level 1 may have had to wait for it.
    fn arrived(&mut self, level: usize) {
        for level in [level, 1] {
            if !self.arrivals.contains(&level) {
                self.arrivals.push_back(level);
            }
        }
    }
}

impl Job {
    fn is_flush(&self) -> bool {
        matches!(self.task, Task::Flush { .. })
    }

    /// Gives a part back that was taken. It is the next one to be taken: what has begun is to end first.
    fn put_back(&mut self, part: Part) {
        self.taken -= 1;
        self.parts.insert(0, part);
    }
}

impl Requests {
    /// Whether somebody waits for a merge that has not begun.
    fn is_asked_for(&self) -> bool {
        self.in_progress.is_none() && self.served < self.made
    }

    fn serve(&mut self, request: u64) {
        self.served = self.served.max(request);
        self.in_progress = None;
    }
}

fn tree_of(version: &Version) -> &Arc<TreeVersion> {
    version.tree(TREE).expect("every version has the one tree")
}

fn raw_bytes(tables: &[TableMeta]) -> u64 {
    tables.iter().map(|table| table.raw_bytes).sum()
}

impl TreeVersion {
    /// The level that a merge in progress leads to.
    fn target_of(&self, merge: MergeId) -> usize {
        let merge = self.merges().iter().find(|other| other.id == merge);
        merge.and_then(|merge| self.run(merge.output)).map_or(0, |(_, level, _)| level as usize)
    }
}
