//! [`FilterRebuild`]: which filters tables are to carry, and the one loop that gives tables other
//! filters while they stay, and loads what nobody has asked for yet.
//!
//! ```text
//! choice ───────────┐
//! an edit ──────────┼─► inputs ─► filter_plan ─┬─► the filter of a new run, when its job begins
//! sampled lookups ──┘   tables    decides      └─► changes, smaller first ─► some tables a step
//! ```
//!
//! # When it decides
//!
//! For a new run: when its job is opened, from the tree as it will be. Compactions may take long;
//! what is flushed and compacted above them meanwhile was reckoned with.
//!
//! For the tables that exist: after every edit and every choice, and with elastic filters also
//! after every eighth of a half-life of sampled lookups. The changes that an earlier decision left
//! are forgotten then. Changes that only save false positives wait until lookups have lost as much
//! time by them as the rebuild takes ([`RebuildWait`]), unless somebody asks for all. While
//! compactions are paused, or something has arrived that the planner has not looked at, it waits
//! (the tree may be about to grow); elastic filters do not, since lookups go on.
//!
//! # How it carries out
//!
//! Filters that shrink without reading anything do so in the step that decides. All others come one
//! after the other, from a table's digests or its file, in steps of some milliseconds. A table that
//! is not open is only told what to open with. A filter that cannot be read is tried again after a
//! pause. A table whose digests are damaged is reported as corruption; it keeps the filter it has,
//! or goes without if that is too large. A unit of an elastic filter that cannot be read is left to
//! the next decision.
//!
//! A worker of its own does this, beside flushes and compactions; neither waits for the other.
//! Nothing of it is durable: opening the database decides anew.
//!
//! # What it loads
//!
//! When nothing is left to carry out, the same steps open the tables that nobody has opened, those
//! of young runs first, and load their lower index blocks, as far as open files and the budget for
//! such blocks are left ([`TableFile::load_some`]). After compactions that reads nothing: builders
//! leave what they have in memory. When the database is opened it takes a read for the end of each
//! table and one for half a MiB of index; the call waits for that for at most
//! [`LOADING_AT_OPENING`]. A table that cannot be read is left to whoever needs it.
//!
//! # The budget
//!
//! The sum of all filters keeps to the budget, but for: half a cache line of each table; the filter
//! that a step replaces, and those that lookups in progress still ask; what inputs of compactions
//! have until their tables go; and, after an edit that took entries away or the choice of a smaller
//! budget, what the next steps have not come to.
//!
//! Tests: `tests/suite/filter_rebuild.rs`, `tests/suite/elastic.rs`, `tests/suite/allocation.rs`,
//! `tests/suite/observed.rs`, `tests/suite/cold.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Progress, Worker};
use tamarack_model::allocate::weights::Asked;
use tamarack_model::device::Device;
use tamarack_model::filter::{Allocation, FilterChoice, FilterKind, FilterSettings};
use tamarack_model::filter_plan::{self, FilterChange, FilterTarget, RebuildDecision, RebuildWait, RunFilters};
use tamarack_model::planner::is_level_full;
use tamarack_model::{Bytes, Shape};

use crate::compaction::access_frequency::AccessFrequencies;
use crate::compaction::filter_inputs::{FilterInputs, new_run};
use crate::compaction::output::OutputContext;
use crate::compaction::retry::PAUSE;
use crate::compaction::task::Task;
use crate::database::Activity;
use crate::error::{Error, Result};
use crate::format::meta::EditNumber;
use crate::stats::{Counters, LOOKUPS_PER_SAMPLE};
use crate::table::{FilterOutcome, Loaded};
use crate::tree::state::Tree;
use crate::tree::table_file::{TableFile, TableFiles};
use crate::tree::version::{TreeVersion, Version};

/// A step ends after so many tables, or the first that needed a read.
const TABLES_PER_STEP: usize = 8;

/// How long opening a database may wait for tables to be loaded: nearly enough for a gigabyte of
/// data on a network disk.
const LOADING_AT_OPENING: Duration = Duration::from_millis(50);

/// The filters of a tree.
pub struct FilterRebuild {
    env: Arc<dyn Env>,
    tree: Arc<Tree>,
    tables: Arc<TableFiles>,
    output_context: Arc<OutputContext>,
    counters: Arc<Counters>,
    worker: OnceLock<Arc<dyn Worker>>,
    /// What was chosen. Held while a choice is made, so that new tables, jobs and the loop change
    /// over together.
    chosen: Mutex<Chosen>,
    /// Held for a step.
    state: Mutex<RebuildState>,
}

/// A choice of filters.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    filter: FilterChoice,
    /// How many choices were made before.
    number: u64,
}

/// An edit, and the number of a choice.
type Moment = (EditNumber, u64);

/// How far the loop is.
#[derive(Default)]
struct RebuildState {
    /// The moment that was decided for.
    decided: Option<Moment>,
    /// The number of sampled lookups at which to decide again.
    next: u64,
    /// What is left to do.
    changes: VecDeque<(Weak<TableFile>, FilterTarget)>,
    /// Tables that may lack something in memory, young ones first.
    loading: VecDeque<Weak<TableFile>>,
    /// Whether the budget for their lower index blocks was used up since the last decision.
    is_index_budget_used_up: bool,
    /// The last choice that all tables were given.
    settled: Option<u64>,
    frequencies: AccessFrequencies,
    /// What lookups have lost by filters that are not as they should be.
    losses: RebuildWait,
    /// The number of sampled lookups when that was counted.
    sampled: u64,
    /// Threads that wait until all filters are as they should be, due or not.
    waiting: u64,
    /// After a failure: not before that time.
    pause_until: Duration,
    error: Option<Error>,
}

/// What is decided on.
pub(super) struct View {
    pub(super) version: Arc<Version>,
    pub(super) shape: Shape,
}

impl FilterRebuild {
    /// For a tree whose tables are to carry such filters, until others are chosen.
    pub(super) fn new(
        filter: FilterChoice,
        env: Arc<dyn Env>,
        tree: Arc<Tree>,
        tables: Arc<TableFiles>,
        output_context: Arc<OutputContext>,
        counters: Arc<Counters>,
    ) -> Self {
        let chosen = Mutex::new(Rank::FilterChoice, Chosen { filter, number: 0 });
        let (worker, state) = (OnceLock::new(), Mutex::new(Rank::FilterRebuild, RebuildState::default()));
        Self { env, tree, tables, output_context, counters, worker, chosen, state }
    }

    /// Registers the worker that calls `FilterWorker`; may be called once.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        self.tree.lookups.set_watcher(worker.clone());
        assert!(self.worker.set(worker).is_ok(), "filters are rebuilt by one worker");
    }

    /// Something has changed that filters may depend on.
    pub(super) fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// What was chosen last.
    pub fn chosen(&self) -> FilterChoice {
        self.chosen.lock().filter
    }

    /// Chooses other filters, for existing tables and for new ones, which keep digests or not. Of
    /// two concurrent choices one is the last for all of them.
    ///
    /// # Errors
    /// [`Error::Stopped`] if writing has ended.
    pub fn choose(&self, filter: FilterChoice, keeps_digests: bool) -> Result<()> {
        self.tree.database.health.check_running()?;
        {
            let mut chosen = self.chosen.lock();
            *chosen = Chosen { filter, number: chosen.number + 1 };
            self.output_context.keep_digests(keeps_digests);
            self.tables.set_elastic_bits_per_entry(filter.bits_per_entry());
        }
        self.wake();
        Ok(())
    }

    /// The filter for the tables of a job, of a tree that has `shape` when the job is done.
    pub(super) fn for_job(&self, shape: &Shape, tree: &TreeVersion, task: &Task) -> Option<FilterSettings> {
        self.for_new(shape, tree, |inputs| inputs.after(tree, task))
    }

    /// The filter for a table of a run that is built outside and will be the youngest of the tree,
    /// at such a level of `shape`.
    pub(super) fn for_youngest(
        &self,
        shape: &Shape,
        tree: &TreeVersion,
        level: usize,
        bytes: Bytes,
        entries: u64,
    ) -> Option<FilterSettings> {
        self.for_new(shape, tree, |mut inputs| {
            inputs.runs.insert(0, new_run(level, bytes, entries));
            (inputs.runs, inputs.asked, 0)
        })
    }

    /// `arrange` makes of the runs of the tree those that will be, and says where the new one is.
    fn for_new(
        &self,
        shape: &Shape,
        tree: &TreeVersion,
        arrange: impl FnOnce(FilterInputs) -> (Vec<RunFilters>, Asked, usize),
    ) -> Option<FilterSettings> {
        let filter = self.chosen.lock().filter;
        let FilterChoice::Each { kind, bits_per_entry, allocation } = filter else { return None };
        if allocation == Allocation::Uniform {
            return Some(FilterSettings::stored(kind, bits_per_entry));
        }
        let (mut runs, asked, new) = arrange(FilterInputs::of(tree, allocation, &self.tree.lookups, false));
        // A flush that makes the tree grow goes on to where it does not fill its level any more.
        let built = &mut runs[new];
        while built.level < shape.last() && is_level_full(shape, built.level, built.bytes.0) {
            built.level += 1;
        }
        filter_plan::for_new(filter, &asked, shape, &runs, new)
    }

    /// Decides for the tables that exist.
    fn decide(&self, state: &mut RebuildState, view: &View) {
        let chosen = *self.chosen.lock();
        let tree = self.tree.of(&view.version);
        let allocation = match chosen.filter {
            FilterChoice::None | FilterChoice::Tree { .. } => Allocation::Uniform,
            FilterChoice::Each { allocation, .. } => allocation,
        };
        let mut inputs = FilterInputs::of(tree, allocation, &self.tree.lookups, !chosen.is_elastic());
        (state.decided, state.next) = (Some((view.version.edit_number(), chosen.number)), u64::MAX);
        let mut gone = Vec::new();
        if chosen.is_elastic() {
            (state.next, gone) = state.frequencies.follow(&mut inputs, self.tree.lookups.sampled());
        } else {
            state.frequencies = AccessFrequencies::default();
        }
        // Another choice is not put off until no compaction is in progress, which may be never.
        let is_chosen = state.settled != Some(chosen.number);
        let at_rest = inputs.is_known && (is_chosen || tree.compactions().is_empty());
        let decision = filter_plan::decide(chosen.filter, &inputs.asked, &view.shape, &inputs.runs, at_rest);
        let changes = self.due(state, decision, is_chosen);
        let changes = changes.into_iter().map(|change| (&inputs.files[change.run][change.table], change.target));
        // Somebody may be reading a table that the tree has no more: without a filter from now on.
        let gone = gone.iter().map(|file| (file, FilterTarget::Nothing));
        state.loading.clear();
        state.is_index_budget_used_up = false;
        state
            .loading
            .extend(tree.runs().flat_map(|run| run.slices().iter().map(|slice| Arc::downgrade(slice.table()))));
        state.changes.clear();
        for (file, target) in gone.chain(changes) {
            if file.shrinks_without_reading(target) {
                // It reads nothing, so it cannot fail.
                let _ = self.carry_out(file, target);
            } else {
                state.changes.push_back((Arc::downgrade(file), target));
            }
        }
    }

    /// The changes that are due: all, or none yet; then says at how many lookups they will be.
    fn due(&self, state: &mut RebuildState, decision: RebuildDecision, is_chosen: bool) -> Vec<FilterChange> {
        let sampled = self.tree.lookups.sampled();
        let lookups = (sampled - std::mem::replace(&mut state.sampled, sampled)) * LOOKUPS_PER_SAMPLE;
        let left = state.losses.lookups_left(decision.gain, lookups as f64, self.read_seconds());
        // What has begun goes on: filters shrink first, and others are to grow by that.
        let is_unfinished = !state.changes.is_empty();
        let changes = match left {
            Some(left) if !is_chosen && !is_unfinished && state.waiting == 0 => {
                // At least one more sample, so that this comes to an end.
                let samples = (left / LOOKUPS_PER_SAMPLE as f64) as u64 + 1;
                state.next = state.next.min(sampled.saturating_add(samples));
                Vec::new()
            }
            _ => decision.changes,
        };
        self.tree.lookups.wake_at(state.next);
        changes
    }

    /// What a block read takes: as lookups have it, or, before enough of them were timed, as the
    /// default device.
    fn read_seconds(&self) -> f64 {
        self.tree.lookups.block_read_seconds().unwrap_or_else(|| Device::default().read_seconds)
    }

    /// Carries out a few of the changes that are left. True if there are more.
    fn carry_out_some(&self, state: &mut RebuildState) -> Result<bool> {
        for _ in 0..TABLES_PER_STEP {
            let Some((table, target)) = state.changes.pop_front() else { return Ok(false) };
            let Some(file) = table.upgrade() else { continue };
            match self.carry_out(&file, target) {
                Ok(0) => {}
                Ok(_) => return Ok(true),
                Err(error) if matches!(target, FilterTarget::Units(_)) => {
                    tracing::warn!(%error, "filter units read failed; lookups use those in memory");
                }
                Err(error) => {
                    state.changes.push_front((table, target));
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// Gives a table its filter; returns how many bytes that read.
    fn carry_out(&self, file: &TableFile, target: FilterTarget) -> Result<u64> {
        let known = file.digest_damage().is_some();
        let (outcome, bytes_read) = file.set_filter(target)?;
        self.counters.filter_rebuild_bytes_read.add(bytes_read);
        match outcome {
            FilterOutcome::Unchanged => {}
            FilterOutcome::Loaded => self.counters.filters_loaded.add(1),
            FilterOutcome::Rebuilt => self.counters.filters_rebuilt.add(1),
            FilterOutcome::Dropped => self.counters.filters_dropped.add(1),
        }
        if let Some(damage) = file.digest_damage().filter(|_| !known) {
            self.tree.database.events.noticed(&damage);
        }
        Ok(bytes_read)
    }

    /// Decides, and says what tables are to be opened with. Then loads for a short time, so that
    /// the first lookups find a database of ordinary size in memory; the worker does the rest.
    pub(super) fn begin(&self, view: &View) {
        let state = &mut *self.state.lock();
        self.decide(state, view);
        // A failure shows again when the worker comes by.
        while let Ok(true) = self.carry_out_some(state) {}
        let until = self.env.now() + LOADING_AT_OPENING;
        while self.env.now() < until && load_some(state) {}
    }

    /// One step of the loop.
    pub(super) fn step(&self, view: View) -> Progress {
        let state = &mut *self.state.lock();
        if self.env.now() < state.pause_until {
            return Progress::IdleUntil(state.pause_until);
        }
        if state.decided != Some(self.moment(&view.version)) || self.tree.lookups.sampled() >= state.next {
            self.decide(state, &view);
        }
        drop(view);
        match self.carry_out_some(state) {
            Ok(is_more) => {
                state.error = None;
                if is_more {
                    return Progress::More;
                }
                state.settled = state.decided.map(|(_, number)| number);
            }
            Err(error) => {
                tracing::warn!(%error, "filter rebuild failed; it will be retried");
                state.pause_until = self.env.now() + PAUSE;
                state.error = Some(error);
            }
        }
        self.tree.database.progress.notify();
        if state.error.is_some() {
            return Progress::IdleUntil(state.pause_until);
        }
        if load_some(state) { Progress::More } else { Progress::Idle }
    }

    fn moment(&self, version: &Version) -> Moment {
        (version.edit_number(), self.chosen.lock().number)
    }

    /// True while units of elastic filters follow lookups.
    pub(super) fn follows_lookups(&self) -> bool {
        self.chosen.lock().is_elastic()
    }

    /// Waits until no table is due to get another filter, and `is_ready`. With `all`, every change
    /// is due. `view` gives
    /// what is decided on; `None` while that waits for a compaction, or compactions are paused.
    ///
    /// # Errors
    /// [`Error::Io`] if a filter cannot be read, or the awaited compaction fails; both are tried
    /// again. [`Error::Stopped`] if writing has ended.
    pub(super) fn wait(
        &self,
        all: bool,
        view: impl Fn() -> Option<View>,
        is_ready: impl Fn(&View) -> bool,
        is_paused: impl Fn() -> bool,
    ) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.error = None;
            if all {
                state.decided = None;
                state.waiting += 1;
            }
        }
        self.wake();
        let waited = self.tree.database.wait(&*self.env, || {
            if is_paused() {
                return Err(Error::InvalidArgument("compactions were paused, and filters with them".to_owned()));
            }
            let view = view();
            let is_ready = view.as_ref().is_some_and(&is_ready);
            let now = view.map(|view| self.moment(&view.version));
            let state = self.state.lock();
            let is_done = is_ready && state.decided == now && state.changes.is_empty();
            if !is_done {
                let health = &self.tree.database.health;
                health.check_running()?;
                state.error.clone().map_or(Ok(()), Err)?;
                if now.is_none() {
                    // A compaction must begin first, and may itself wait for a flush.
                    health.check_progress(Activity::Compaction)?;
                    health.check_progress(Activity::Flush)?;
                }
            }
            Ok(is_done)
        });
        self.state.lock().waiting -= u64::from(all);
        waited
    }
}

/// Loads a part of a table that nobody has asked for yet. False if there is none left.
fn load_some(state: &mut RebuildState) -> bool {
    while let Some(table) = state.loading.front() {
        match table.upgrade().map(|table| table.load_some(!state.is_index_budget_used_up)) {
            Some(Ok(Loaded::Some)) => return true,
            Some(Ok(Loaded::BudgetUsedUp)) => state.is_index_budget_used_up = true,
            Some(Ok(Loaded::Nothing)) | None => {}
            // Whoever needs the table is told.
            Some(Err(error)) => tracing::warn!(%error, "table could not be loaded before it is needed"),
        }
        state.loading.pop_front();
    }
    false
}

impl Chosen {
    fn is_elastic(self) -> bool {
        matches!(self.filter, FilterChoice::Each { kind: FilterKind::Elastic, .. })
    }
}
