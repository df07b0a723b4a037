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
//! By deadline: how many bytes may still be written before the level that a merge empties is full again, or the buffers are
//! ([`tamarack_model::pace`]). The same model says how fast writers may go so that no deadline is missed; the measured speed of the jobs makes bytes per
//! second of it, and [`Throttle`] holds writers to that.
//!
//! # Failures
//!
//! A failed sync, of whatever, stops writing for good. After any other failure the part's files since its last handover are removed, whoever waits
//! is told, and the part is tried again after a pause; flushes and merges pause independently.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::atomic::{Ordering, fence};
use tamarack_env::sync::{Mutex, MutexGuard};
use tamarack_env::{Env, Progress, Work, Worker};
use tamarack_model::planner::{self, Cause, Occasion};
use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Occupancy, RunId as RunName, Shape, growth};

use crate::compact::TREE;
use crate::compact::desk::{Desk, Request, target_of, tree_of};
use crate::compact::edits;
use crate::compact::job::{Done, Inputs, Job, Part, Reached, Task};
use crate::compact::output::{Output, Workshop};
use crate::compact::progress::{GoingOn, JobProgress};
use crate::compact::retry::Retry;
use crate::error::{Error, Result};
use crate::format::edit::{Change, KeyRange, RunId};
use crate::format::meta::TableMeta;
use crate::format::shape;
use crate::mistake::{self, Mistake};
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::{Activity, Tree};
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::Log;
use crate::write::throttle::Throttle;

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
    /// How many full buffers may wait before writers are slowed down as far as they ever are.
    pub sealed_max: usize,
    /// How many raw bytes per second merges may copy; flushes are not held back.
    pub merge_rate: Option<u64>,
}

/// Smaller tables are not made without being asked for: each costs a sync and an entry in the manifest.
pub const TABLE_BYTES_MIN: u64 = 2 << 20;
/// Larger tables are not made without being asked for: a merge needs extra space for one table per input, and hands over one at a time.
pub const TABLE_BYTES_MAX: u64 = 64 << 20;
/// When a worker looks again that left a job alone: about when a step ends.
const LEFT_ALONE: Duration = Duration::from_millis(4);
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
    throttle: Arc<Throttle>,
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
    /// Who is told how fast writers may go.
    pub throttle: Arc<Throttle>,
}

impl Work for Scheduler {
    fn step(&self) -> Progress {
        self.remove_garbage();
        // A pause that ends while we decide because of it that there is nothing to do would be slept through.
        let paused_until = self.paused_until();
        let (part, look_again) = {
            let mut desk = self.desk.lock();
            if self.tree.check_running().is_err() {
                return Progress::Done;
            }
            self.begin(&mut desk);
            self.take(&mut desk)
        };
        match part {
            Some(part) => self.work(part),
            None => {
                let moments = [paused_until, self.paused_until(), look_again];
                moments.into_iter().flatten().min().map_or(Progress::Idle, Progress::IdleUntil)
            }
        }
    }
}

impl Scheduler {
    /// A scheduler for a tree whose version has a shape. Goes on with the merges that the version has.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Unsupported`] if the shape cannot be read.
    pub fn new(around: Surroundings, settings: SchedulerSettings) -> Result<Self> {
        let Surroundings { env, tree, log, manifest, tables, workshop, counters, throttle } = around;
        let version = manifest.version();
        let stored = version.tree(TREE).and_then(|tree| tree.shape());
        let (policy, shape) = shape::decode(stored.expect("opening gives every tree a shape"))
            .map_err(|error| error.at(workshop.dir()))?;
        let flush_retry = Retry::new(env.clone(), tree.clone(), Activity::Flush);
        let merge_retry = Retry::new(env.clone(), tree.clone(), Activity::Merge);
        let desk = Mutex::new(Desk::new(policy, shape));
        let workers = OnceLock::new();
        let scheduler = Self {
            env,
            tree,
            log,
            manifest,
            tables,
            workshop,
            counters,
            throttle,
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

    /// What the planner sees now: the shape, the runs, and the merges in progress, flushes left out.
    pub fn standing(&self) -> (Shape, Occupancy, Vec<planner::Merge>) {
        let desk = self.desk.lock();
        let version = self.manifest.version();
        let tree = tree_of(&version);
        (desk.shape.clone(), tree.occupancy(), tree.merges_in_progress())
    }

    /// Raw bytes per second that flushes and merges copy while they are busy, if that was ever measured.
    pub fn speed(&self) -> Option<f64> {
        self.desk.lock().meter.speed()
    }

    /// What the tree is to look like, what it looks like, and what is going on to make it so: all at one moment.
    pub fn going_on(&self) -> GoingOn {
        let desk = self.desk.lock();
        let state = self.tree.pin_owned();
        let jobs = desk.jobs.iter().map(|job| JobProgress::of(job, tree_of(&state.version))).collect();
        let rate = self.settings.merge_rate.map_or(f64::INFINITY, |rate| rate as f64);
        let speed = desk.meter.speed().map(|speed| speed.min(rate));
        let paused = desk.pauses > 0;
        GoingOn { policy: desk.policy.clone(), shape: desk.shape.clone(), state, jobs, paused, speed }
    }

    /// Gives the tree the shape of another policy. Moves no bytes: the tree is carried over as it is written to.
    ///
    /// # Errors
    /// As [`Manifest::commit`].
    pub fn set_policy(&self, policy: Arc<dyn Policy>) -> Result<Shape> {
        let mut desk = self.desk.lock();
        self.tree.check_running()?;
        let version = self.manifest.version();
        let data = tree_of(&version).occupancy().bytes();
        let shape = policy.shape(data, Bytes(self.settings.buffer_bytes));
        self.take_shape(&mut desk, policy, shape.clone()).inspect_err(|error| {
            if let Error::Stopped { .. } = error {
                self.tree.report_stop(error.clone());
            }
        })?;
        Ok(shape)
    }

    /// Lets go of whoever waits for the scheduler, and waits until what was begun here by others than workers has ended. To be called when writing has
    /// ended: then nothing is begun any more.
    pub fn finish(&self) {
        self.throttle.set_rate(None);
        drop(self.desk.lock());
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

    /// Has the keys of `range` of all runs that there are now merged into one, and waits for that.
    ///
    /// # Errors
    /// [`Error::Io`] if a merge fails; it is tried again in the background. [`Error::Stopped`] if writing has ended.
    /// [`Error::InvalidArgument`] while merges are paused.
    pub fn merge(&self, range: KeyRange) -> Result<()> {
        let number = {
            let mut desk = self.desk.lock();
            desk.refuse_if_paused()?;
            let number = desk.requests_made;
            desk.requests_made += 1;
            desk.requests.push_back(Request { number, range, job: None });
            number
        };
        self.wake();
        self.wait(|desk| desk.requests.iter().all(|request| request.number != number))
    }

    /// Waits until no merge is in progress and none is called for.
    ///
    /// # Errors
    /// As [`Scheduler::merge`].
    pub fn wait_for_merges(&self) -> Result<()> {
        self.desk.lock().refuse_if_paused()?;
        self.wake();
        self.wait(|desk| desk.jobs.is_empty() && desk.arrivals.is_empty() && desk.requests.is_empty())
    }

    fn wait(&self, is_done: impl Fn(&Desk) -> bool) -> Result<()> {
        let mut outcome = Ok(());
        self.env.wait(&self.tree.progress, None, &mut || {
            let done = is_done(&self.desk.lock());
            // Merges may have to wait for a flush.
            let no_trouble =
                || [Activity::Merge, Activity::Flush].into_iter().try_for_each(|what| self.tree.check_progress(what));
            outcome = if done { Ok(()) } else { no_trouble() };
            done || outcome.is_err()
        });
        outcome
    }

    fn wake(&self) {
        if let Some(workers) = self.workers.get() {
            workers.wake();
        }
    }

    /// When the first pause after a failure ends.
    fn paused_until(&self) -> Option<Duration> {
        self.flush_retry.pause().into_iter().chain(self.merge_retry.pause()).min()
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
        while desk.waiting_request().is_some() {
            // Nothing else is begun meanwhile, or a busy tree might never come to rest.
            if !self.begin_request(desk)? {
                return Ok(());
            }
        }
        let something_arrived = !desk.arrivals.is_empty();
        while let Some(level) = desk.arrivals.front().copied() {
            self.examine(desk, level)?;
            self.sink_tombstones(desk)?;
            desk.arrivals.pop_front();
        }
        if something_arrived && desk.jobs.is_empty() {
            // Somebody may wait for just that.
            self.tree.progress.notify();
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

    /// Tombstones that have waited long enough go one level down.
    fn sink_tombstones(&self, desk: &mut Desk) -> Result<()> {
        let version = self.manifest.version();
        let readable = self.tree.visible.readable();
        let (oldest, visible) = (readable[0], readable[readable.len() - 1]);
        let Some(run) = desk.tombstones_due(tree_of(&version), visible, oldest) else { return Ok(()) };
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
                    let inputs = merge.inputs.iter().map(|run| RunId(run.0)).collect();
                    Some(self.open_job(desk, &version, Task::Range { inputs }, merge.cause, &[range])?)
                };
                let request = desk.requests.iter_mut().find(|request| request.number == number);
                request.expect("it is still asked for").job = job;
            }
            // With something in progress, that is waited for.
            None if !in_progress.is_empty() => return Ok(false),
            None => {
                desk.requests.retain(|request| request.number != number);
                self.tree.progress.notify();
            }
        }
        Ok(true)
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
        let Some(sealed) = state.sealed.last().filter(|_| !desk.is_flushing()) else { return Ok(()) };
        // The other half of the fence in the commit queue's `publish`.
        fence(Ordering::SeqCst);
        if self.tree.visible.sequence() < sealed.last && !mistake::is_planted(Mistake::IncompleteBuffer) {
            return Ok(());
        }
        let version = self.manifest.version();
        let (occupancy, in_progress) = desk.counts(&version);
        let flush = planner::flush(&desk.shape, &occupancy, &in_progress, Bytes(sealed.buffer.raw_bytes()));
        tracing::debug!(%flush, "begins");
        let input = flush.inputs.first().map(|run| RunId(run.0));
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
        let rewrite = matches!(cause, Cause::Compact | Cause::CompactRange | Cause::TombstonesDue { .. });
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
        desk.set_shape(policy, shape);
        Ok(())
    }
}

// What is carried out.
impl Scheduler {
    /// The most urgent part that nobody works on; and when to look again, if one is left alone though nobody works on it. Says on this occasion how
    /// fast writers may go.
    fn take(&self, desk: &mut Desk) -> (Option<Part>, Option<Duration>) {
        let now = self.env.now();
        let flushes = self.flush_retry.pause().is_none();
        let merges = desk.pauses == 0 && self.merge_retry.pause().is_none();
        let goes_on = |job: &Job| if job.is_flush() { flushes } else { merges };
        let pace = {
            let state = self.tree.pin();
            let sealed: u64 = state.sealed.iter().map(|sealed| sealed.buffer.raw_bytes()).sum();
            let buffered = Bytes(sealed + state.active.raw_bytes());
            let buffered_max = desk.shape.buffer() * self.settings.sealed_max as u64;
            desk.pace(&self.manifest.version(), buffered, buffered_max, goes_on)
        };
        self.throttle.set_rate(pace.rate);
        let merges_now = desk.merges_from <= now;
        let room_max = if self.throttle.holds_back(now) { pace.tight } else { Bytes(u64::MAX) };
        let waits = |job: &Job| !job.parts.is_empty() && goes_on(job);
        let is_left_alone = |job: &Job, room: Bytes| !job.is_flush() && (!merges_now || room > room_max);
        let jobs = || desk.jobs.iter().zip(&pace.rooms).filter(|(job, _)| waits(job));
        let leaves_some = jobs().any(|(job, room)| is_left_alone(job, *room));
        let look_again = leaves_some.then(|| desk.merges_from.max(now + LEFT_ALONE));
        let candidates = desk.jobs.iter_mut().zip(&pace.rooms);
        let candidates = candidates.filter(|(job, room)| waits(job) && !is_left_alone(job, **room));
        let found = candidates.min_by_key(|(job, room)| (**room, !job.is_flush(), job.number));
        let part = found.map(|(job, _)| {
            job.taken += 1;
            job.parts.remove(0)
        });
        let is_busy = desk.jobs.iter().any(|job| job.taken > 0);
        desk.meter.look(is_busy, now);
        (part, look_again)
    }

    /// One step of a part that was taken.
    fn work(&self, mut part: Part) -> Progress {
        match self.advance(&mut part) {
            Ok(Advanced { bytes, ended }) => {
                let mut desk = self.desk.lock();
                self.account(&mut desk, part.job, bytes);
                if ended {
                    self.end_part(desk, part);
                } else {
                    desk.job(part.job).put_back(part);
                }
            }
            Err(error) => {
                let mut desk = self.desk.lock();
                self.part_failed(&mut desk, part, error);
            }
        }
        Progress::More
    }

    /// Notes that a job has copied so much.
    fn account(&self, desk: &mut Desk, number: u64, bytes: u64) {
        let now = self.env.now();
        desk.copied(bytes, now);
        let job = desk.job(number);
        job.left = job.left.saturating_sub(bytes);
        if let Some(rate) = self.settings.merge_rate
            && !job.is_flush()
        {
            let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
            desk.merges_from = desk.merges_from.max(now) + takes;
        }
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
                // A range's handover says which runs there are, unlike a merge's.
                let desk = matches!(part.task, Task::Range { .. }).then(|| self.desk.lock());
                self.hand_over(part, done, false)?;
                drop(desk);
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
        let version = self.manifest.version();
        let (task, mut moved) = (part.task.clone(), part.moved.clone());
        if mistake::is_planted(Mistake::SliceLeftBehind) {
            moved.pop();
        }
        if mistake::is_planted(Mistake::SliceMovedTwice) {
            moved.extend(part.moved.last().cloned());
        }
        let tables = part.output().map_or(Ok(&[][..]), |output| output.ready())?;
        let (target, changes) = match task {
            Task::Merge { id } => {
                let advanced = edits::advanced(id, range, moved, tables).into_iter();
                (target_of(tree_of(&version), id), advanced.chain(ends.then(|| edits::ended(id))).collect())
            }
            Task::Range { inputs } => {
                let tree = tree_of(&version);
                (tree.levels().len(), edits::ranged(tree, &inputs, &range, tables))
            }
            Task::Flush { .. } => panic!("a flush hands over nothing before it is installed"),
        };
        self.commit(changes)?;
        let tables = part.output().map(Output::installed).unwrap_or_default();
        self.counters.merge_bytes.add(tables.iter().map(|table| table.file_bytes).sum());
        self.counters.level_bytes.add(target, raw_bytes(&tables));
        Ok(())
    }

    /// A part has come to its end: makes what it did part of the tree, and ends its job if it was the last.
    fn end_part(&self, mut desk: MutexGuard<'_, Desk>, mut part: Part) {
        let job = desk.job(part.job);
        let is_last = job.taken == 1 && job.parts.is_empty();
        if job.is_flush() {
            let output = part.close().unwrap_or_else(|| self.workshop.output(part.table_bytes));
            let (from, moved) = (part.range.from.take(), std::mem::take(&mut part.moved));
            job.taken -= 1;
            job.done.push(Done { from, moved, output });
            if is_last {
                self.end_flush(&mut desk, part.job);
            }
        } else {
            let target = match part.task {
                Task::Merge { id } => target_of(tree_of(&self.manifest.version()), id),
                _ => 1,
            };
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
        drop(desk);
        self.remove_garbage();
        self.tree.progress.notify();
        self.wake();
    }

    /// A merge into `target` has ended.
    fn end_merge(&self, desk: &mut Desk, number: u64, target: usize) {
        desk.jobs.retain(|job| job.number != number);
        desk.requests.retain(|request| request.job != Some(number));
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

fn raw_bytes(tables: &[TableMeta]) -> u64 {
    tables.iter().map(|table| table.raw_bytes).sum()
}
