//! [`Controller`]: the worker that redesigns a tree with an automatic policy while it is in use.
//!
//! ```text
//! counters of lookups, scans, writes ─► observed ─► Monitor ─┐ once a second
//! tree, memory, cache ─────┬─────────► request ──────────────┴─► model: decide ─► Redesign
//! times of reads ─► device ┘
//!                                                                   │ keep, or change
//!                                                                   ▼
//!                                                     events, log, statistics
//! ```
//!
//! Everything that is decided is decided by [`tamarack_model::navigator::controller`], from
//! numbers; here they are collected, and the decision is carried out: one edit for policy,
//! memtables and blocks, one for filters, and in the background a reshape, or a rewrite of all
//! tables where they are to have other blocks. A change is not begun while the one before is still
//! being carried out, nor during a write stall, nor while disk space is low or compactions are
//! paused.
//!
//! The worker sleeps for a second while there are operations, and up to a minute while there are
//! none. What begins then wakes it: a sampled lookup or seek, which is one of 64, and a full
//! memtable ring an alarm (`IdleAlarm`). A search takes some tenths of a second of its thread,
//! which gives way to others. It ends early when the database is closed.
//!
//! Where the design stays, runs of the tree become one if reads repay that
//! ([`tamarack_model::navigator::read_compaction`]).
//!
//! A crash between two steps of a change leaves a valid design, from which the controller of the
//! next opening goes on.
//!
//! Tests: `tests/suite/controller.rs`.

mod device;
mod observed;
mod reads;
mod words;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Progress, Work, Worker};
use tamarack_model::Bytes;
use tamarack_model::bound::SpaceBound;
use tamarack_model::cost::cache;
use tamarack_model::device::Device;
use tamarack_model::navigator::controller::{Decision, Monitor, Present, decide, skew_of_hits};
use tamarack_model::navigator::read_compaction::{ReadCompaction, ReadTree, Reads, read_compaction};
use tamarack_model::navigator::union::{Bounds, Impossible, Limits, PricedDesign, Request};
use tamarack_model::simulate;

use crate::cache::BlockCache;
use crate::compaction::Scheduler;
use crate::database::Database;
use crate::error::Result;
use crate::events::Event;
use crate::memory::Account;
use crate::mistake::{self, Mistake};
use crate::redesign::{Chosen, Redesign};
use crate::stats::{Counters, DecisionStats};
use crate::tree::state::Tree;
use crate::write::{CommitQueue, Reserve};

use device::{ReadTimes, with_sampled_reads};
use observed::Observed;
use reads::RunsRead;

/// The time between two looks at the counters, while there are operations.
const LOOK: Duration = Duration::from_secs(1);

/// The same after a long time without operations.
const LOOK_MAX: Duration = Duration::from_secs(64);

/// From this time on between looks, operations wake the worker. Those that begin earlier are
/// noticed soon.
const ALARM_MIN: Duration = Duration::from_secs(4);

/// The same as [`LOOK`] for designs at random.
const LOOK_AT_RANDOM: Duration = Duration::from_micros(300);

/// Searches take at most one part in this many and one of the time.
const SEARCHES_SHARE: u32 = 19;

/// The largest size ratio of a tree in use: what a level's compaction rewrites at once should be a
/// part of the data.
const RATIO_MAX: u64 = 64;

/// The most memtables that the data may be divided into for a search: simulating more takes long.
const MEMTABLES_MAX: u64 = 1 << 16;

/// The largest blocks that are chosen, as by `tamarack design`.
const BLOCK_BYTES_MAX: u64 = 32 << 10;

/// What [`Account::set_memtable_bytes`] reserves, in memtables.
const MEMTABLES_KEPT: f64 = 3.0;

/// Decisions that are remembered.
const DECISIONS: usize = 16;

/// The parts of a database that the controller looks at, and changes.
pub(crate) struct ControllerParts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) database: Arc<Database>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) commits: Arc<CommitQueue>,
    pub(crate) account: Arc<Account>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) redesign: Arc<Redesign>,
}

/// What is given.
#[derive(Clone, Debug)]
pub(crate) struct ControllerSettings {
    /// The figures of the machine, if somebody had them measured.
    pub(crate) calibrated: Option<Device>,
    /// The size of blocks in bytes as the options have it: the smallest that is chosen.
    pub(crate) block_bytes: u64,
    /// True if the user has set it, so that it stays.
    pub(crate) is_block_given: bool,
    /// The bound on space amplification.
    pub(crate) space_bound: Option<SpaceBound>,
    /// The largest memtable of which there may be as many as usual, in raw bytes.
    pub(crate) memtable_bytes_max: u64,
    /// True if the user has set the size of memtables, which stays then.
    pub(crate) is_memtable_given: bool,
    /// The same of the filters, or if tables cannot get others.
    pub(crate) is_filter_given: bool,
}

/// See the module's documentation.
pub(crate) struct Controller {
    parts: ControllerParts,
    settings: ControllerSettings,
    /// Only the worker takes it.
    state: Mutex<ControllerState>,
    decisions: Mutex<VecDeque<DecisionStats>>,
    /// True while a search is in progress.
    is_searching: AtomicBool,
    /// True once the database closes.
    is_given_up: AtomicBool,
    worker: OnceLock<Arc<dyn Worker>>,
}

/// What was counted since the policy became automatic.
#[derive(Default)]
struct ControllerState {
    monitor: Monitor,
    /// The counters as of the beginning of the phase, and of the last look.
    seen: Option<[Observed; 2]>,
    /// The time between looks, as of late.
    pause: Duration,
    looked_at: Duration,
    look_at: Duration,
    /// No search begins before.
    search_at: Duration,
    /// See [`ReadTimes::measure`].
    place: u64,
    /// The exponent of Zipf's law by which lookups choose among existing keys, as of the last phase
    /// that had any.
    theta: f64,
}

impl Controller {
    pub(crate) fn new(parts: ControllerParts, settings: ControllerSettings) -> Self {
        Self {
            parts,
            settings,
            state: Mutex::new(Rank::Controller, ControllerState::default()),
            decisions: Mutex::new(Rank::Decisions, VecDeque::new()),
            is_searching: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            worker: OnceLock::new(),
        }
    }

    /// Sets the worker that calls this.
    ///
    /// # Panics
    /// If it is set already.
    pub(crate) fn set_worker(&self, worker: Arc<dyn Worker>) {
        self.parts.tree.lookups.idle_alarm().set_worker(worker.clone());
        assert!(self.worker.set(worker).is_ok(), "the worker of the controller is set already");
    }

    /// Looks whether the policy is automatic now.
    pub(crate) fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// Ends a search or a simulation in progress, and begins no other.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Returns true while a search is in progress.
    pub(crate) fn is_searching(&self) -> bool {
        self.is_searching.load(Ordering::Relaxed)
    }

    /// Returns false once the database closes.
    fn goes_on(&self) -> bool {
        !self.is_given_up.load(Ordering::Relaxed)
    }

    /// The last decisions, in the order of time.
    pub(crate) fn decisions(&self) -> Vec<DecisionStats> {
        self.decisions.lock().iter().cloned().collect()
    }

    /// Counts what happened since the last look, and decides if it is time to.
    fn look(&self, state: &mut ControllerState, present: &Chosen) -> Result<()> {
        let now = Observed::new(&self.parts.tree, &self.parts.counters);
        let [began, last] = state.seen.unwrap_or([now; 2]);
        let operations = now.since(&last);
        state.pause = if operations.sum() > 0.0 { LOOK } else { (state.pause * 2).clamp(LOOK, LOOK_MAX) };
        // After a pause, most of it was idle.
        let seconds = self.parts.env.now().saturating_sub(state.looked_at).min(2 * LOOK).as_secs_f64();
        let phases = state.monitor.phases();
        state.monitor.observe(&operations, seconds);
        let first = if state.monitor.phases() > phases { now } else { began };
        state.seen = Some([first, now]);
        let data = now.stored_bytes();
        if data == 0.0 || !state.monitor.is_search_due(data) || !self.may_change() {
            return Ok(());
        }
        if self.parts.env.now() < state.search_at {
            return Ok(());
        }
        self.is_searching.store(true, Ordering::Relaxed);
        let outcome = self.search(state, (&first, &now), present);
        self.is_searching.store(false, Ordering::Relaxed);
        outcome
    }

    /// Decides, and carries that out.
    fn search(
        &self,
        state: &mut ControllerState,
        (first, now): (&Observed, &Observed),
        present: &Chosen,
    ) -> Result<()> {
        let began = self.parts.env.now();
        let device = self.device(present, &mut state.place);
        let Some(decided) = self.decide(state, (first, now), present, device) else { return Ok(()) };
        let ended = self.parts.env.now();
        state.monitor.searched(now.stored_bytes());
        state.search_at = ended + ended.saturating_sub(began) * SEARCHES_SHARE;
        match decided {
            Ok(mut decision) => {
                // A user may have changed the design meanwhile.
                let carried_out = decision.is_change.then(|| self.carry_out(&decision, present, &device)).transpose();
                // What has failed between two edits is a change as well, and is told.
                let is_half_done =
                    carried_out.is_err() && self.parts.redesign.present().is_some_and(|chosen| chosen != *present);
                decision.is_change = is_half_done || matches!(carried_out, Ok(Some(true)));
                let is_kept = carried_out.is_ok() && !decision.is_change;
                let compaction = is_kept.then(|| self.compact_for_reads(&decision, present, device)).flatten();
                if carried_out.is_ok() || is_half_done {
                    self.note(&decision, compaction.as_ref(), &device);
                }
                carried_out?;
            }
            Err(impossible) => tracing::debug!(?impossible, "no design was found that could be compared"),
        }
        Ok(())
    }

    /// Returns false while something else is to be done first.
    fn may_change(&self) -> bool {
        let ControllerParts { scheduler, commits, reserve, .. } = &self.parts;
        let is_changing = scheduler.is_reshaping() || scheduler.is_rewriting();
        let is_busy = commits.is_stalled() || reserve.is_low() || scheduler.is_paused() || is_changing;
        !is_busy
    }

    /// Searches. `None` if the database closes meanwhile, or there is nothing to search.
    fn decide(
        &self,
        state: &mut ControllerState,
        (first, now): (&Observed, &Observed),
        chosen: &Chosen,
        device: Device,
    ) -> Option<std::result::Result<Decision, Impossible>> {
        let ControllerParts { scheduler, account, tree, redesign, .. } = &self.parts;
        let ControllerSettings { space_bound, memtable_bytes_max, .. } = self.settings;
        let ControllerSettings { is_memtable_given, is_filter_given, .. } = self.settings;
        let (shape, occupancy, in_progress) = scheduler.planner_state();
        let entries: u64 = occupancy.runs().filter_map(|(_, run)| Some(run.entries?.0)).sum();
        let entry_bytes = occupancy.bytes().0.checked_div(entries)?.max(1);
        let occupancy = simulate::ended(occupancy, &in_progress);
        let Chosen { policy, filter, block_bytes, .. } = chosen;
        let (filter, block_bytes) = (*filter, *block_bytes as u64);
        let present = Present { policy, filter, block_bytes, shape: &shape, occupancy: &occupancy };
        // Other blocks come by rewriting all tables.
        let may_change_blocks = !self.settings.is_block_given && scheduler.has_space_to_rewrite();
        let (block_bytes, block_bytes_max) =
            if may_change_blocks { (self.settings.block_bytes, BLOCK_BYTES_MAX) } else { (block_bytes, 0) };
        if let Some(hits) = now.hits(first) {
            let cached = self.cached_entries(entry_bytes as f64);
            state.theta = skew_of_hits(hits, cached, entries as f64);
        }
        // Filters are made of digests; without these, others could not be made.
        let lacks_digests = || tree.pin().tree().tables().any(|table| table.meta().digest_bytes == 0);
        let keeps_filter = is_filter_given || redesign.is_filter_given() || lacks_digests();
        let limits = Limits {
            buffer: is_memtable_given.then(|| shape.buffer()),
            buffer_max: Bytes(memtable_bytes_max),
            memtables_max: MEMTABLES_MAX,
            ratio_max: RATIO_MAX,
            memtables_kept: MEMTABLES_KEPT,
            filter: keeps_filter.then_some(chosen.filter),
            block_bytes_max,
            may_lack_filters: false,
            cache_max: Bytes(account.budget().cache_bytes_max),
            update_theta: Some(0.0),
        };
        let request = Request {
            entries,
            entry_bytes,
            block_bytes,
            memory: Bytes(account.budget().total_bytes - account.budget().compactions_bytes),
            workload: state.monitor.phase().workload()?,
            inserts: now.inserts(first),
            theta: state.theta,
            device,
            bounds: Bounds { space_amplification: space_bound.map(|bound| bound.most()), ..Bounds::default() },
            limits,
        };
        decide(&state.monitor, &request, &present, &|| self.goes_on())
    }

    /// Entries of so many raw bytes in the block cache: copies, and those in its blocks.
    fn cached_entries(&self, entry_bytes: f64) -> f64 {
        let cache = &self.parts.cache;
        let copied_bytes = cache.entry_bytes();
        let block_bytes = cache.used_bytes().saturating_sub(copied_bytes);
        cache::entries(copied_bytes as f64, entry_bytes) + block_bytes as f64 / entry_bytes
    }

    /// Has runs compacted into one if reads repay it, in a tree whose design is still this one.
    fn compact_for_reads(&self, decision: &Decision, present: &Chosen, device: Device) -> Option<ReadCompaction> {
        let RunsRead { shape, occupancy, fprs } = reads::runs(&self.parts.scheduler)?;
        let PricedDesign { block_hits, lookup_hits, filter, work, .. } = &decision.before;
        let reads = Reads {
            workload: decision.workload,
            operations: decision.expected,
            hits: *block_hits,
            lookup_hits: *lookup_hits,
            filter: *filter,
            entry_bytes: work.entry_bytes as u64,
            block_bytes: present.block_bytes as u64,
            device,
        };
        let bound = self.settings.space_bound;
        let tree = ReadTree { policy: &present.policy, shape: &shape, occupancy: &occupancy, fprs: &fprs, bound };
        let compaction = read_compaction(&tree, &reads, &|| self.goes_on())?;
        // The search has taken a while.
        let is_same = self.parts.redesign.present().as_ref() == Some(present) && self.may_change();
        let is_ordered = is_same && self.parts.scheduler.compact_for_reads(&occupancy, compaction.through);
        is_ordered.then_some(compaction)
    }

    /// The machine as the database meets it: `place` counts the pages read to measure it.
    fn device(&self, present: &Chosen, place: &mut u64) -> Device {
        let ControllerParts { env, tree, .. } = &self.parts;
        let device = self.settings.calibrated.unwrap_or_else(|| {
            let measured = ReadTimes::measure(&**env, tree, place, &|| self.goes_on());
            measured.map_or_else(Device::default, |times| times.of(Device::default()))
        });
        with_sampled_reads(device, &tree.lookups, present.block_bytes)
    }

    /// Remembers a decision, and tells it.
    fn note(&self, decision: &Decision, compaction: Option<&ReadCompaction>, device: &Device) {
        let stats = words::stats(decision, compaction, device, self.parts.env.now());
        let DecisionStats { policy, filter, reason, .. } = &stats;
        if decision.is_change {
            tracing::info!(%policy, %filter, %reason, "design changed");
        } else if compaction.is_some() {
            tracing::info!(%policy, %filter, %reason, "runs are to become one for reads");
        } else {
            tracing::debug!(%policy, %filter, %reason, "design kept");
        }
        self.parts.database.events.post(|| Event::DesignDecided { decision: stats.clone() });
        let mut decisions = self.decisions.lock();
        if decisions.len() == DECISIONS {
            decisions.pop_front();
        }
        decisions.push_back(stats);
    }

    /// Any change, for tests.
    fn change_at_random(&self, present: &Chosen) -> Result<()> {
        let ControllerParts { env, redesign, scheduler, .. } = &self.parts;
        let one_of = |many: &[&'static str]| many[(env.random() % many.len() as u64) as usize];
        let policies =
            ["leveling:T=2", "leveling:T=4,first=3", "tiering:T=3", "lazy-leveling:T=4", "moose", "garnering"];
        let filters = ["none", "bloom:bits=3,allocation=monkey", "blocked:bits=9", "elastic:bits=6", "chucky:bits=12"];
        let mut next = present.clone();
        if env.random() % 2 == 0 {
            next.policy = one_of(&policies).parse().expect("it is in the list");
            next.memtable_bytes = 1 + env.random() % 300;
        }
        if env.random() % 3 == 0 {
            next.filter = one_of(&filters).parse().expect("it is in the list");
        }
        if env.random() % 3 == 0 {
            scheduler.request_reshape();
        }
        let blocks = env.random();
        if blocks % 8 == 0 {
            next.block_bytes = [64, 200, 1000, 4096][(blocks / 8 % 4) as usize];
        }
        if next == *present {
            return Ok(());
        }
        let why = words::at_random(scheduler.decisions().last().map(String::as_str));
        redesign.choose(present, &next, &words::line(present, &next, &why)).map(drop)
    }

    /// Returns false if the design has changed since it was looked at, so that nothing was done.
    fn carry_out(&self, decision: &Decision, present: &Chosen, device: &Device) -> Result<bool> {
        let PricedDesign { policy, buffer, filter, block_bytes, .. } = &decision.after;
        let (policy, block_bytes) = (policy.clone(), *block_bytes as usize);
        let next = Chosen { policy, memtable_bytes: buffer.0, filter: *filter, block_bytes };
        self.parts.redesign.choose(present, &next, &words::line(present, &next, &words::reason(decision, device)))
    }
}

impl Work for Controller {
    fn step(&self) -> Progress {
        let ControllerParts { env, redesign, database, .. } = &self.parts;
        if !self.goes_on() || database.health.check_running().is_err() {
            return Progress::Done;
        }
        let mut state = self.state.lock();
        let Some(present) = redesign.present() else {
            *state = ControllerState::default();
            self.parts.tree.lookups.idle_alarm().set(false);
            return Progress::Idle;
        };
        let now = env.now();
        if mistake::is_planted(Mistake::DesignsAtRandom) {
            // Whether it fails is up to the storage.
            drop(self.change_at_random(&present));
            return Progress::IdleUntil(now + LOOK_AT_RANDOM);
        }
        let alarm = self.parts.tree.lookups.idle_alarm();
        if state.pause >= ALARM_MIN && !alarm.is_set() {
            // It has rung.
            state.look_at = state.look_at.min(state.looked_at + LOOK);
        }
        if now >= state.look_at {
            if let Err(error) = self.look(&mut state, &present) {
                // It is decided anew when the next search is due.
                tracing::warn!(%error, "a change of the design failed");
            }
            (state.looked_at, state.look_at) = (now, now + state.pause);
            alarm.set(state.pause >= ALARM_MIN);
        }
        Progress::IdleUntil(state.look_at)
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("settings", &self.settings).finish_non_exhaustive()
    }
}
