//! [`Scheduler`]: carries out what the [agenda](tamarack_model::agenda) decides: it makes an edit
//! and a job of each decision, hands parts of jobs to workers, and makes what they finish part of
//! the tree.
//!
//! ```text
//!   a memtable is full ──┐                              ┌─▶ worker: copies for a few milliseconds ─┐
//!   something arrived ───┼─▶ agenda: next ─▶ job ─ parts                                           ├─▶ edit ─▶ version
//!   somebody asked ──────┘                              └─▶ worker: …                             ─┘
//!            ▲                                                                                         │
//!            └──────────────── arrived at level i ◀── the last part of a job ends it ◀──────────────────┘
//! ```
//!
//! # One step
//!
//! Any number of workers call [`Work::step`]. Under the lock of the **schedule**, a worker first
//! carries out what the agenda decides, until there is nothing to begin. Then it takes one part,
//! the most urgent that nobody works on, releases the lock, copies for a few milliseconds, and puts
//! the part back. So no compaction, however large, keeps a worker from a flush for longer than a
//! step.
//!
//! # What is committed where
//!
//! Edits that begin or end a job, install a flush or change the shape are committed under the
//! schedule's lock: they say which runs there are, and the agenda decides on that. Handovers in the
//! middle of a merge are not: they commute.
//!
//! The merges in progress stand in the version; after a crash they are found there and gone on
//! with. A flush in progress does not: its buffer is in the log, and it begins anew.
//!
//! # Order of urgency
//!
//! By deadline: how many bytes may still be written before the level that a merge empties is full
//! again, or the buffers are ([`tamarack_model::pace`]). The same model says how fast writers may
//! go so that no deadline is missed; the measured speed of the jobs makes bytes per second of it,
//! and [`Throttle`] holds writers to that.
//!
//! # Failures
//!
//! A failed sync stops writing for good, unless a table's sync found no space: another table takes
//! its place. After any other failure the part's files since its last handover are removed, whoever
//! waits is told, and the part is tried again after a pause; flushes and merges pause
//! independently.

mod begin;
mod carry;
mod ingest;
mod reshape;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Progress, Work, Worker};
use tamarack_model::bound::SpaceBound;
use tamarack_model::filter::FilterChoice;
use tamarack_model::planner;
use tamarack_model::policy::Policy;
use tamarack_model::{Occupancy, Shape};

use crate::compaction::filter_rebuild::{FilterRebuild, View};
use crate::compaction::output::Workshop;
use crate::compaction::progress::{GoingOn, JobProgress};
use crate::compaction::retry::Retry;
use crate::compaction::schedule::Schedule;
use crate::compaction::speed::CopySpeed;
use crate::database::{Activity, Database};
use crate::error::{Error, Result};
use crate::format::edit::{Change, KeyRange};
use crate::format::shape::TreeDesign;
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::Wal;
use crate::write::throttle::Throttle;
use crate::write::{DiskStats, Reserve};

pub use reshape::ReshapeEstimate;

/// How background work is done.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// How many workers there are, and so how many parts one merge is divided into at most.
    pub threads: usize,
    /// The size of tables in bytes of the file; `None` derives it from the run: a thirty-second of
    /// it, between [`TABLE_BYTES_MIN`] and [`TABLE_BYTES_MAX`].
    pub table_bytes: Option<u64>,
    /// The size of the buffer that policies are asked with, in raw bytes.
    pub memtable_bytes: u64,
    /// The largest buffer that a shape which names its own may have.
    pub memtable_bytes_max: u64,
    /// How many full buffers may wait before writers are slowed down as far as they ever are.
    pub immutable_memtables_max: usize,
    /// Writers wait for a flush rather than let the buffers take more memory than this.
    pub memtables_memory_max: u64,
    /// How many raw bytes per second merges may copy; flushes are not held back.
    pub compaction_rate: Option<u64>,
    /// How much space the tree may take for each byte that is live.
    pub space_bound: Option<SpaceBound>,
    /// Which filters tables carry, until others are chosen.
    pub filter: FilterChoice,
}

/// Smaller tables are not made without being asked for: each costs a sync and an entry in the
/// manifest.
pub const TABLE_BYTES_MIN: u64 = 2 << 20;
/// Larger tables are not made without being asked for: a merge needs extra space for one table per
/// input, and hands over one at a time.
pub const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Plans and carries out the flushes and merges of a tree, and removes the tables they leave
/// behind.
pub struct Scheduler {
    env: Arc<dyn Env>,
    database: Arc<Database>,
    tree: Arc<Tree>,
    wal: Arc<Wal>,
    manifest: Arc<Manifest>,
    tables: Arc<TableFiles>,
    workshop: Arc<Workshop>,
    counters: Arc<Counters>,
    throttle: Arc<Throttle>,
    reserve: Arc<Reserve>,
    settings: SchedulerSettings,
    filters: FilterRebuild,
    /// What is in progress and what is next. Edits that begin or end a job, or change the shape,
    /// are installed under this lock.
    schedule: Mutex<Schedule>,
    flush_retry: Retry,
    compaction_retry: Retry,
    workers: OnceLock<Arc<dyn Worker>>,
}

/// The parts of a database that the scheduler works with.
pub struct SchedulerParts {
    /// Clock.
    pub env: Arc<dyn Env>,
    /// What all trees share.
    pub database: Arc<Database>,
    /// Whose buffers and runs these are.
    pub tree: Arc<Tree>,
    /// What is released when a buffer was flushed.
    pub wal: Arc<Wal>,
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
    /// Knows how much space there is.
    pub reserve: Arc<Reserve>,
}

impl Work for Scheduler {
    fn step(&self) -> Progress {
        self.remove_garbage();
        // A pause that ends while we decide because of it that there is nothing to do would be slept
        // through.
        let paused_until = self.paused_until();
        let (part, look_again) = {
            let mut schedule = self.schedule.lock();
            if self.database.health.check_running().is_err() {
                return Progress::Done;
            }
            self.begin(&mut schedule);
            self.take(&mut schedule)
        };
        match part {
            Some(part) => self.work(part),
            None => {
                let moments = [paused_until, self.paused_until(), look_again, self.reserve.look_again()];
                moments.into_iter().flatten().min().map_or(Progress::Idle, Progress::IdleUntil)
            }
        }
    }
}

impl Scheduler {
    /// A scheduler for a tree whose version has a shape. Goes on with the merges that the version
    /// has.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] or [`crate::Error::Unsupported`] if the shape cannot be read.
    pub fn new(around: SchedulerParts, settings: SchedulerSettings) -> Result<Self> {
        let SchedulerParts { env, database, tree, wal, manifest, tables, workshop, counters, throttle, reserve } =
            around;
        let version = manifest.version();
        let stored = tree.of(&version).shape();
        let TreeDesign { policy, shape, .. } = TreeDesign::decode(stored.expect("opening gives every tree a shape"))
            .map_err(|error| Error::shape(workshop.dir(), error))?;
        let flush_retry = Retry::new(env.clone(), database.clone(), Activity::Flush);
        let compaction_retry = Retry::new(env.clone(), database.clone(), Activity::Compaction);
        let speed = CopySpeed::new(settings.compaction_rate);
        let schedule = Mutex::new(Schedule::new((policy, shape), settings.space_bound, speed));
        let filters = FilterRebuild::new(
            settings.filter,
            env.clone(),
            tree.clone(),
            tables.clone(),
            workshop.clone(),
            counters.clone(),
        );
        let workers = OnceLock::new();
        let scheduler = Self {
            env,
            database,
            tree,
            wal,
            manifest,
            tables,
            workshop,
            counters,
            throttle,
            reserve,
            filters,
            settings,
            schedule,
            flush_retry,
            compaction_retry,
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
        let schedule = self.schedule.lock();
        (schedule.policy().clone(), schedule.shape().clone())
    }

    /// What the planner sees now: the shape, the runs, and the merges in progress, flushes left
    /// out.
    pub fn standing(&self) -> (Shape, Occupancy, Vec<planner::CompactionPlan>) {
        self.standing_at(&self.schedule.lock())
    }

    fn standing_at(&self, schedule: &Schedule) -> (Shape, Occupancy, Vec<planner::CompactionPlan>) {
        let version = self.manifest.version();
        let tree = self.tree.of(&version);
        (schedule.shape().clone(), tree.occupancy(), tree.compactions_in_progress())
    }

    /// The disk's space now, if it is known.
    pub fn disk(&self) -> Option<DiskStats> {
        let disk = self.reserve.look();
        if disk.is_some_and(|disk| disk.is_low) {
            // Somebody has to look again.
            self.wake();
        }
        disk
    }

    /// For who writes tables of what is new.
    ///
    /// # Errors
    /// [`crate::Error::Io`] while the disk has little more space than its reserve.
    pub fn leave_reserve(&self) -> Result<()> {
        self.disk();
        self.reserve.check()
    }

    /// What the tree is to look like, what it looks like, and what is going on to make it so: all
    /// at one moment.
    pub fn going_on(&self) -> GoingOn {
        let schedule = self.schedule.lock();
        let state = self.tree.pin_scan();
        let jobs = schedule.jobs.iter().map(|job| JobProgress::of(job, state.tree())).collect();
        let (paused, speed) = (schedule.agenda.is_paused(), schedule.speed.get());
        let (policy, shape) = (schedule.policy().clone(), schedule.shape().clone());
        GoingOn { policy, shape, state, jobs, paused, speed, space_bound: self.settings.space_bound }
    }

    /// Lets go of whoever waits for the scheduler, and waits until what was begun here by others
    /// than workers has ended. To be called when writing has ended: then nothing is begun any
    /// more.
    pub fn finish(&self) {
        self.throttle.set_rate(None);
        drop(self.schedule.lock());
    }

    /// Holds all merges where they are, at the end of their present steps, until
    /// [`Scheduler::resume_compactions`] was called as often as this.
    pub fn pause_compactions(&self) {
        self.schedule.lock().agenda.pause();
    }

    /// Takes back one [`Scheduler::pause_compactions`].
    pub fn resume_compactions(&self) {
        self.schedule.lock().agenda.resume();
        self.wake();
        self.filters.wake();
    }

    /// Has the keys of `range` of all runs that there are now merged into one, and waits for that.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if a merge fails; it is tried again in the background.
    /// [`crate::Error::Stopped`] if writing has ended. [`crate::Error::InvalidArgument`] while
    /// merges are paused.
    pub fn merge(&self, range: KeyRange) -> Result<()> {
        let request = {
            let mut schedule = self.schedule.lock();
            schedule.refuse_if_paused()?;
            // Who asked before was told of it.
            self.database.health.clear_error(Activity::Compaction);
            schedule.request(range)
        };
        self.wake();
        self.wait(|schedule| schedule.agenda.is_served(request))
    }

    /// Waits until no merge is in progress and none is called for.
    ///
    /// # Errors
    /// As [`Scheduler::merge`].
    pub fn wait_for_compactions(&self) -> Result<()> {
        self.schedule.lock().refuse_if_paused()?;
        self.wake();
        self.wait(|schedule| schedule.jobs.is_empty() && schedule.agenda.is_at_rest())
    }

    fn wait(&self, is_done: impl Fn(&mut Schedule) -> bool) -> Result<()> {
        let mut outcome = Ok(());
        self.env.wait(&self.database.progress, None, &mut || {
            let done = is_done(&mut self.schedule.lock());
            // Merges may have to wait for a flush.
            let no_trouble = || {
                [Activity::Compaction, Activity::Flush]
                    .into_iter()
                    .try_for_each(|what| self.database.health.check_progress(what))
            };
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

    /// True once writing has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.database.health.check_running().is_err()
    }

    /// The filters of its tables.
    pub fn filters(&self) -> &FilterRebuild {
        &self.filters
    }

    /// Waits until all tables have the filters that they are to have.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if a filter cannot be read; it is tried again.
    /// [`crate::Error::InvalidArgument`] while merges are paused. [`crate::Error::Stopped`] if
    /// writing has ended.
    pub fn wait_for_filter_rebuild(&self) -> Result<()> {
        self.schedule.lock().refuse_if_paused()?;
        self.filters.wait(|| self.filter_view(), || self.schedule.lock().agenda.is_paused())
    }

    /// What filters are decided on. `None` while merges are paused, or while something has arrived
    /// that nobody has looked at: the tree may be about to grow, and then more is to come above
    /// what there is. Where filters follow lookups, that does not wait.
    pub(super) fn filter_view(&self) -> Option<View> {
        let schedule = self.schedule.lock();
        let is_settled = !schedule.agenda.is_paused() && !schedule.agenda.has_arrivals();
        (is_settled || self.filters.follows_lookups()).then(|| self.view(&schedule))
    }

    /// The same when the database is opened, before anything else is done.
    pub(super) fn view_at_opening(&self) -> View {
        self.view(&self.schedule.lock())
    }

    fn view(&self, schedule: &Schedule) -> View {
        View { version: self.manifest.version(), shape: schedule.shape().clone() }
    }

    /// When the first pause after a failure ends.
    fn paused_until(&self) -> Option<Duration> {
        self.flush_retry.pause().into_iter().chain(self.compaction_retry.pause()).min()
    }

    /// Installs an edit, which an activity made: commits it to the manifest, shows readers the
    /// version that it makes, and has filters follow. The one way by which an open database's
    /// runs and shape change.
    ///
    /// # Errors
    /// As [`Manifest::commit`]; readers see nothing of the edit then.
    pub fn install(&self, edit: Vec<Change>, by: Activity) -> Result<Arc<Version>> {
        // The first edit after a clean close says so.
        let reopened = self.manifest.version().wal_end().map(|_| Change::WalReopened);
        let edit = reopened.into_iter().chain(edit).collect();
        let version = self.database.events.timed(&*self.env, "manifest: commit", || self.manifest.commit(edit))?;
        self.tree.install(version.clone());
        self.filters.wake();
        self.database.health.report_recovery(by);
        self.database.progress.notify();
        Ok(version)
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
