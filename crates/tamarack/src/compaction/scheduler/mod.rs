//! [`Scheduler`]: carries out the decisions of the [agenda](tamarack_model::agenda). It turns each
//! decision into an edit and a job, hands parts of jobs to workers, and installs their output in
//! the tree.
//!
//! ```text
//!   full memtable ──┐                             ┌─▶ worker: copies a few ms ─┐
//!   arrived data ───┼─▶ agenda: next ─▶ job ─ parts                            ├─▶ edit ─▶ version
//!   request ────────┘                             └─▶ worker: …               ─┘             │
//!         ▲                                                                                  │
//!         └──────────── arrived at level i ◀── the last part of a job ends it ◀──────────────┘
//! ```
//!
//! # One step
//!
//! Any number of workers call [`Work::step`]. Under the lock of the **schedule**, a worker first
//! begins all jobs that the agenda decides on. Then it takes the most urgent part that no worker
//! has, releases the lock, copies for a few milliseconds, and puts the part back. So no compaction,
//! however large, delays a flush by more than a step.
//!
//! # Edits and the schedule's lock
//!
//! Edits that begin or end a job, install a flush or change the shape are committed under the
//! schedule's lock, since the agenda decides on the set of runs that they change. Handovers in the
//! middle of a compaction are not: they commute.
//!
//! Compactions in progress are recorded in the version and resumed after a crash. A flush in
//! progress is not: its memtable is recovered from the WAL, and the flush begins anew.
//!
//! # Urgency
//!
//! Jobs are ordered by deadline: the bytes that may still be written before the level that a
//! compaction empties, or the set of memtables, is full ([`tamarack_model::pace`]). The same model
//! gives the rate of writes at which no deadline is missed, as a share of the jobs' measured speed;
//! [`Throttle`] delays writers to that rate.
//!
//! # Rest
//!
//! A tree that nothing has been flushed to for a second, and for [`REST_SHARE`] times as long as it
//! would take, gets the compaction of a tree at rest (the agenda's last question). So it takes at
//! most a fifth of the device's time even where memtables are flushed again and again.
//!
//! # Failures
//!
//! A failed sync stops writing, unless a table's sync found no space: another table replaces it.
//! After any other failure the part's files since its last handover are removed, waiting callers
//! get the error, and the part is retried after a pause; flushes, and each compaction, pause
//! independently.

mod begin;
mod carry;
mod filtered;
mod ingest;
mod part_space;
mod range_deletes;
mod reshape;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Progress, Work, Worker};
use tamarack_model::bound::SpaceBound;
use tamarack_model::filter::FilterChoice;
use tamarack_model::planner;
use tamarack_model::policy::Policy;
use tamarack_model::{Occupancy, Shape};

use crate::compaction::filter_rebuild::{FilterRebuild, View};
use crate::compaction::output::OutputContext;
use crate::compaction::progress::{BackgroundSnapshot, JobProgress};
use crate::compaction::retry::{self, Retry};
use crate::compaction::schedule::Schedule;
use crate::compaction::speed::CopySpeed;
use crate::compaction::tree_filter::TreeFilter;
use crate::database::{Activity, Database};
use crate::error::{Error, Result};
use crate::format::edit::{Change, KeyRange};
use crate::format::shape::TreeDesign;
use crate::stats::{Counters, DiskStats};
use crate::tree::level_ids::FilterView;
use crate::tree::manifest::Manifest;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::Wal;
use crate::write::Reserve;
use crate::write::throttle::Throttle;

pub use reshape::{DesignChange, ReshapeEstimate};

/// Settings of background work.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// Number of workers, and so the maximum number of parts of a compaction.
    pub threads: usize,
    /// Size of table files, in bytes; `None` derives it from the run
    /// ([`tamarack_model::tables`]).
    pub table_bytes: Option<u64>,
    /// Size of memtables that policies get at first, in raw bytes.
    pub memtable_bytes: u64,
    /// Upper bound on the memtable size of a custom shape, in raw bytes.
    pub memtable_bytes_max: u64,
    /// Number of full memtables at which write throttling is strongest.
    pub immutable_memtables_max: usize,
    /// Memory of all memtables at which writes stall, in bytes.
    pub memtables_memory_max: u64,
    /// Number of memtables by which compactions may be late.
    pub late_memtables_max: usize,
    /// Limit on the speed of compactions, in raw bytes per second; flushes are not limited.
    pub compaction_rate: Option<u64>,
    /// Upper bound on space amplification.
    pub space_bound: Option<SpaceBound>,
    /// Filters of tables, until others are chosen.
    pub filter: FilterChoice,
}

/// Minimum time without a flush before a tree counts as at rest.
const REST_MIN: Duration = Duration::from_secs(1);

/// The same as a multiple of the time that its compaction will take.
const REST_SHARE: f64 = 4.0;

/// Plans and carries out the flushes and compactions of a tree, and removes the tables that they
/// make garbage.
pub struct Scheduler {
    env: Arc<dyn Env>,
    database: Arc<Database>,
    tree: Arc<Tree>,
    wal: Arc<Wal>,
    manifest: Arc<Manifest>,
    tables: Arc<TableFiles>,
    output_context: Arc<OutputContext>,
    counters: Arc<Counters>,
    throttle: Arc<Throttle>,
    reserve: Arc<Reserve>,
    settings: SchedulerSettings,
    /// Size of memtables that policies get, in raw bytes.
    memtable_bytes: AtomicU64,
    /// Decisions of the navigator, as they are recorded with the design.
    decisions: Mutex<Vec<String>>,
    filters: FilterRebuild,
    /// The filter over the whole tree, if one is chosen.
    tree_filter: TreeFilter,
    /// Jobs in progress and the agenda. Edits that begin or end a job, or change the shape, are
    /// installed under this lock.
    schedule: Mutex<Schedule>,
    /// Of flushes that could not begin or end.
    flush_retry: Retry,
    /// Of compactions that could not begin.
    compaction_retry: Retry,
    /// The version and the oldest readable sequence of the last attempt to apply range deletes.
    range_deletes_tried: [AtomicU64; 2],
    /// Time of the next one after one that has failed, in nanoseconds on the environment's clock.
    range_deletes_from_ns: AtomicU64,
    /// Time of the next attempt to remove tables, in nanoseconds on the environment's clock.
    removals_from_ns: AtomicU64,
    workers: OnceLock<Arc<dyn Worker>>,
}

/// Parts of a database that the scheduler uses.
pub struct SchedulerParts {
    /// Clock.
    pub env: Arc<dyn Env>,
    /// State shared by all trees.
    pub database: Arc<Database>,
    /// The tree.
    pub tree: Arc<Tree>,
    /// Its segments are released after flushes.
    pub wal: Arc<Wal>,
    /// Edits are committed here.
    pub manifest: Arc<Manifest>,
    /// Knows which tables are garbage.
    pub tables: Arc<TableFiles>,
    /// Writes tables.
    pub output_context: Arc<OutputContext>,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Limits the rate of writes.
    pub throttle: Arc<Throttle>,
    /// Checks free disk space.
    pub reserve: Arc<Reserve>,
}

impl Work for Scheduler {
    fn step(&self) -> Progress {
        let range_deletes = self.apply_range_deletes();
        let removals = self.remove_garbage();
        // Read before and after deciding: a pause that ends in between would be slept through
        // otherwise.
        let paused_until = self.paused_until();
        let (part, look_again, rests_from) = {
            let mut schedule = self.schedule.lock();
            if self.database.health.check_running().is_err() {
                // Nobody else would release delayed writers.
                self.throttle.set_rate(None);
                return Progress::Done;
            }
            let rests_from = self.begin(&mut schedule);
            let (part, look_again) = self.take(&mut schedule);
            (part, look_again, rests_from)
        };
        match part {
            Some(part) => self.work(part),
            None => {
                if !self.range_deletes_are_tried() && !self.is_paused() {
                    // What was begun has changed the version.
                    return Progress::More;
                }
                let was_low = self.reserve.is_low();
                let space = self.reserve.look_again();
                if was_low && space.is_none() {
                    // What was not begun for lack of space may begin now.
                    return Progress::More;
                }
                let pauses = [paused_until, self.paused_until(), range_deletes];
                let moments = [removals, look_again, space, rests_from].into_iter().chain(pauses);
                moments.flatten().min().map_or(Progress::Idle, Progress::IdleUntil)
            }
        }
    }
}

impl Scheduler {
    /// Makes a scheduler for a tree that has a shape, and resumes the compactions of its version.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] or [`crate::Error::Unsupported`] if the shape cannot be read.
    pub fn new(around: SchedulerParts, settings: SchedulerSettings) -> Result<Self> {
        let SchedulerParts { env, database, tree, wal, manifest, tables, output_context, counters, throttle, reserve } =
            around;
        let version = manifest.version();
        let stored = tree.of(&version).shape();
        let TreeDesign { policy, shape, decisions, block_bytes, .. } =
            TreeDesign::decode(stored.expect("opening gives every tree a shape"))
                .map_err(|error| Error::shape(output_context.dir(), error))?;
        if let Some(block_bytes) = block_bytes {
            output_context.set_block_bytes(block_bytes as usize);
        }
        let flush_retry = Retry::new(env.clone(), database.clone(), counters.clone(), Activity::Flush);
        let compaction_retry = Retry::new(env.clone(), database.clone(), counters.clone(), Activity::Compaction);
        let speed = CopySpeed::new(settings.compaction_rate);
        let schedule =
            Mutex::new(Rank::Schedule, Schedule::new((policy, shape), settings.space_bound, speed, env.now()));
        let filters = FilterRebuild::new(
            settings.filter,
            env.clone(),
            tree.clone(),
            tables.clone(),
            output_context.clone(),
            counters.clone(),
        );
        let tree_filter = TreeFilter::new(tree.clone(), tables.storage().account().clone());
        let workers = OnceLock::new();
        let scheduler = Self {
            env,
            database,
            tree,
            wal,
            manifest,
            tables,
            output_context,
            counters,
            throttle,
            reserve,
            filters,
            tree_filter,
            memtable_bytes: AtomicU64::new(settings.memtable_bytes),
            decisions: Mutex::new(Rank::DesignHistory, decisions),
            settings,
            schedule,
            flush_retry,
            compaction_retry,
            range_deletes_tried: Default::default(),
            range_deletes_from_ns: AtomicU64::new(0),
            removals_from_ns: AtomicU64::new(0),
            workers,
        };
        scheduler.resume(&version)?;
        Ok(scheduler)
    }

    /// Sets the workers that call this.
    ///
    /// # Panics
    /// If they are set already.
    pub fn set_workers(&self, workers: Arc<dyn Worker>) {
        assert!(self.workers.set(workers).is_ok(), "the workers of the scheduler are set already");
    }

    /// Returns the present policy and shape.
    pub fn shape(&self) -> (Arc<Policy>, Shape) {
        let schedule = self.schedule.lock();
        (schedule.policy().clone(), schedule.shape().clone())
    }

    /// Returns the size of blocks of new tables, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.output_context.block_bytes()
    }

    /// Returns the planner's input: the shape, the runs, and the compactions in progress, without
    /// flushes.
    pub fn planner_state(&self) -> (Shape, Occupancy, Vec<planner::CompactionPlan>) {
        self.planner_state_of(&self.schedule.lock())
    }

    fn planner_state_of(&self, schedule: &Schedule) -> (Shape, Occupancy, Vec<planner::CompactionPlan>) {
        let version = self.manifest.version();
        let tree = self.tree.of(&version);
        (schedule.shape().clone(), tree.occupancy(), tree.compactions_in_progress())
    }

    /// Returns the space on the disk, if it is known.
    pub fn disk(&self) -> Option<DiskStats> {
        let disk = self.reserve.look();
        if disk.is_some_and(|disk| disk.is_low) {
            // A worker has to look again.
            self.wake();
        }
        disk
    }

    /// Checks the disk's reserve before new data is written to tables.
    ///
    /// # Errors
    /// [`crate::Error::Io`] while the disk has little more space than its reserve.
    pub fn leave_reserve(&self) -> Result<()> {
        self.disk();
        self.reserve.check()
    }

    /// Returns the shape, the state and the work in progress, as of one moment.
    pub fn background(&self) -> BackgroundSnapshot {
        let schedule = self.schedule.lock();
        let state = self.tree.pin_scan();
        let tree_filter = self.tree.pin().filter().map(FilterView::predicted).unwrap_or_default();
        let jobs = schedule.jobs.iter().map(|job| JobProgress::of(job, state.tree())).collect();
        let (paused, speed, late) = (schedule.agenda.is_paused(), schedule.speed.get(), schedule.late);
        let (policy, shape) = (schedule.policy().clone(), schedule.shape().clone());
        let space_bound = self.settings.space_bound;
        BackgroundSnapshot { policy, shape, state, tree_filter, jobs, paused, speed, late, space_bound }
    }

    /// Releases delayed writers, and waits for calls that hold the schedule. To be called once
    /// writing has stopped, after which nothing begins.
    pub fn finish(&self) {
        self.throttle.set_rate(None);
        drop(self.schedule.lock());
    }

    /// Pauses all compactions at the end of their present steps, until
    /// [`Scheduler::resume_compactions`] has been called as often as this.
    pub fn pause_compactions(&self) {
        self.schedule.lock().agenda.pause();
    }

    /// Ends one [`Scheduler::pause_compactions`].
    pub fn resume_compactions(&self) {
        self.schedule.lock().agenda.resume();
        self.wake();
        self.filters.wake();
    }

    /// Compacts the keys in `range` of all present runs into one run, and blocks until that is
    /// done.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if a compaction fails; it is retried in the background.
    /// [`crate::Error::Stopped`] if writing has stopped. [`crate::Error::InvalidArgument`] while
    /// compactions are paused.
    pub fn compact(&self, range: KeyRange) -> Result<()> {
        let request = {
            let mut schedule = self.schedule.lock();
            schedule.refuse_if_paused()?;
            // Earlier callers have got the error.
            self.database.health.clear_error(Activity::Compaction);
            let request = schedule.request(range);
            // Somebody waits for it now: it is not withdrawn.
            schedule.rewrite.take_if(|rewrite| *rewrite == request);
            request
        };
        self.wake();
        self.wait(|schedule| schedule.agenda.is_served(request))
    }

    /// Blocks until no flush or compaction is running or pending.
    ///
    /// # Errors
    /// As [`Scheduler::compact`].
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.schedule.lock().refuse_if_paused()?;
        self.wake();
        self.wait(|schedule| {
            let is_flushed = self.tree.pin().immutable.is_empty();
            let is_idle = is_flushed && schedule.jobs.is_empty() && schedule.agenda.is_at_rest();
            is_idle && self.range_deletes_are_tried()
        })
    }

    fn wait(&self, is_done: impl Fn(&mut Schedule) -> bool) -> Result<()> {
        self.database.wait(&*self.env, || {
            let done = is_done(&mut self.schedule.lock());
            if !done {
                // A compaction may wait for a flush, so errors of either count.
                self.database.health.check_progress(Activity::Compaction)?;
                self.database.health.check_progress(Activity::Flush)?;
            }
            Ok(done)
        })
    }

    fn wake(&self) {
        if let Some(workers) = self.workers.get() {
            workers.wake();
        }
    }

    /// Returns true while compactions are paused.
    pub fn is_paused(&self) -> bool {
        self.schedule.lock().agenda.is_paused()
    }

    /// Returns true once writing has stopped.
    pub(super) fn has_ended(&self) -> bool {
        self.database.health.check_running().is_err()
    }

    /// Returns the filters of its tables.
    pub fn filters(&self) -> &FilterRebuild {
        &self.filters
    }

    /// Blocks until no filter rebuild is running or due. With `all`, every rebuild is due that
    /// saves anything.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if a filter cannot be read, or a compaction that the rebuild waits for
    /// fails; both are retried. [`crate::Error::InvalidArgument`] while compactions are paused.
    /// [`crate::Error::Stopped`] if writing has stopped.
    pub fn wait_for_filter_rebuild(&self, all: bool) -> Result<()> {
        self.schedule.lock().refuse_if_paused()?;
        let is_ready = |view: &View| self.tree_filter.is_settled(self.filters.chosen(), &view.shape);
        self.filters.wait(all, || self.filter_view(), is_ready, || self.schedule.lock().agenda.is_paused())
    }

    /// One step of the filter worker: tables' filters first, then the one over the whole tree.
    pub(super) fn filter_step(&self) -> Progress {
        let Some(view) = self.filter_view() else { return Progress::Idle };
        let shape = view.shape.clone();
        let progress = self.filters.step(view);
        if !matches!(progress, Progress::More) && self.tree_filter.step(self.filters.chosen(), &shape) {
            return Progress::More;
        }
        self.database.progress.notify();
        progress
    }

    /// Checks that the filter over the whole tree, if there is one, has the entries of the runs.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if entries are missing or too many; errors of reading digests.
    pub fn verify_tree_filter(&self) -> Result<()> {
        match self.tree_filter.compare()? {
            (0, None | Some(0)) => Ok(()),
            (missing, excess) => {
                let what =
                    format!("the filter over the whole tree lacks {missing} entries and has {excess:?} too many");
                Err(Error::corruption(self.output_context.dir(), 0, what))
            }
        }
    }

    /// Returns the input of the filter decider. `None` while compactions are paused, or while the
    /// agenda has not seen arrived data: the tree may be about to grow, which changes the
    /// allocation. Filters that follow lookups do not wait for that.
    pub(super) fn filter_view(&self) -> Option<View> {
        let schedule = self.schedule.lock();
        let is_settled = !schedule.agenda.is_paused() && !schedule.agenda.has_arrivals();
        (is_settled || self.filters.follows_lookups()).then(|| self.view(&schedule))
    }

    /// Returns it at opening, before any other work.
    pub(super) fn view_at_opening(&self) -> View {
        self.view(&self.schedule.lock())
    }

    fn view(&self, schedule: &Schedule) -> View {
        View { version: self.manifest.version(), shape: schedule.shape().clone() }
    }

    /// Returns the end of the first pause after a failure.
    fn paused_until(&self) -> Option<Duration> {
        self.flush_retry.pause().into_iter().chain(self.compaction_retry.pause()).min()
    }

    /// Installs an edit: commits it to the manifest, publishes the new version to readers, and
    /// wakes the filter rebuild. Runs and shape of an open database change only here.
    ///
    /// # Errors
    /// As [`Manifest::commit`]; readers do not see the edit then. If it is unknown whether the edit
    /// is durable, writing has ended when this returns, before the caller gives up any lock.
    pub fn install(&self, edit: Vec<Change>) -> Result<Arc<Version>> {
        // The first edit after a clean close records that the WAL is open again.
        let reopened = self.manifest.version().wal_end().map(|_| Change::WalReopened);
        let edit = reopened.into_iter().chain(edit).collect();
        let committed = self.database.events.timed(&*self.env, "manifest: commit", || self.manifest.commit(edit));
        let version = committed.inspect_err(|error| self.report_stop(error))?;
        self.tree.install(version.clone());
        self.filters.wake();
        self.database.progress.notify();
        Ok(version)
    }

    /// Removes obsolete tables when the database is closed and all workers have ended. The filter
    /// worker may have dropped an old version after the compaction workers, which remove files, had
    /// ended.
    pub fn remove_remaining_garbage(&self) {
        if !self.has_ended() {
            self.remove_garbage();
        }
    }

    /// Removes the tables that no version and no reader uses any more. Returns when to try again if
    /// one cannot be removed.
    fn remove_garbage(&self) -> Option<Duration> {
        let now = self.env.now();
        let retried = Duration::from_nanos(self.removals_from_ns.load(Ordering::Relaxed));
        if now < retried {
            return Some(retried);
        }
        let mut again = None;
        for table in self.tables.take_garbage() {
            match self.output_context.remove(table.id) {
                Ok(()) => self.tables.removed(&table),
                Err(error) => {
                    tracing::warn!(%error, "table removal failed; it will be retried");
                    self.tables.not_removed(table);
                    again = Some(now + retry::PAUSE);
                }
            }
        }
        if let Some(again) = again {
            self.removals_from_ns.store(again.as_nanos() as u64, Ordering::Relaxed);
        }
        again
    }
}
