//! [`Schedule`]: the scheduler's state of a tree, under its lock: the design, the agenda, the jobs
//! in progress, and their speed.
//!
//! ```text
//!   version ──► counts ─┐
//!   jobs ──► plans ─────┼──► Agenda::next ──► Next      what is begun next
//!   design ─────────────┘
//!   counts, jobs, memtables ──► Pacer ──► order, rate   which job goes on, how fast writers may go
//! ```
//!
//! It decides nothing itself: it passes the state of the tree to the
//! [agenda](tamarack_model::agenda) and the [pace](tamarack_model::pace). No I/O.

use std::sync::Arc;
use std::time::Duration;

use tamarack_model::agenda::{Agenda, Contents, Design, Next, RequestId, Scope, Situation};
use tamarack_model::bound::SpaceBound;
use tamarack_model::pace::{self, Load, Pacer};
use tamarack_model::planner;
use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Occupancy, Shape};

use crate::compaction::job::Job;
use crate::compaction::jobs::Jobs;
use crate::compaction::speed::CopySpeed;
use crate::error::{Error, Result};
use crate::format::edit::{CompactionId, KeyRange};
use crate::format::meta::EditNumber;
use crate::tree::version::TreeVersion;

/// State of the scheduler for a tree.
pub(super) struct Schedule {
    design: ScheduledDesign,
    pub(super) agenda: Agenda,
    /// Key ranges of requests that are not served.
    requested: Vec<(RequestId, KeyRange)>,
    pub(super) jobs: Jobs,
    pub(super) speed: CopySpeed,
    /// True if the disk's space was low when the agenda was last asked.
    pub(super) was_space_low: bool,
    /// The version whose compactions the disk's reserve counts with.
    pub(super) space_of: Option<EditNumber>,
    counted: Option<Counted>,
    /// Bytes by which a compaction was late when writers were last paced.
    pub(super) late: Bytes,
    /// The request for a rewrite of all tables that nobody waits for; it may be served.
    pub(super) rewrite: Option<RequestId>,
    /// When something was last due or in progress: what the tree's rest is measured from.
    pub(super) busy_at: Duration,
}

/// The design of the tree, with the pacer for its shape.
struct ScheduledDesign {
    policy: Arc<Policy>,
    shape: Shape,
    bound: Option<SpaceBound>,
    pacer: Pacer,
}

/// Counts of a version, cached.
struct Counted {
    of: EditNumber,
    occupancy: Occupancy,
    compactions: Vec<(CompactionId, planner::CompactionPlan)>,
}

/// Work that may begin, as far as the agenda does not know it.
#[derive(Clone, Copy)]
pub(super) struct Startable {
    /// Raw bytes of the oldest immutable memtable, if it is complete.
    pub(super) memtable: Option<Bytes>,
    /// False while flushes wait for a retry.
    pub(super) may_flush: bool,
    /// False while compactions wait for a retry.
    pub(super) may_compact: bool,
}

/// Raw bytes in memtables, and the limits that writers are paced by.
#[derive(Clone, Copy)]
pub(super) struct Ingestion {
    /// In memtables.
    pub(super) buffered: Bytes,
    /// In memtables at which writers are slowed to the floor.
    pub(super) buffered_max: Bytes,
    /// By which compactions may be late where space amplification has no bound.
    pub(super) late_max: Bytes,
}

impl Schedule {
    /// Makes the state of a tree that was opened at `now`, without jobs.
    pub(super) fn new(
        (policy, shape): (Arc<Policy>, Shape),
        bound: Option<SpaceBound>,
        speed: CopySpeed,
        now: Duration,
    ) -> Self {
        Self {
            design: ScheduledDesign { policy, pacer: Pacer::new(&shape), shape, bound },
            agenda: Agenda::of_opened(),
            requested: Vec::new(),
            jobs: Jobs::default(),
            speed,
            was_space_low: false,
            space_of: None,
            counted: None,
            late: Bytes::ZERO,
            rewrite: None,
            busy_at: now,
        }
    }

    pub(super) fn policy(&self) -> &Arc<Policy> {
        &self.design.policy
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.design.shape
    }

    /// Changes the policy and the shape.
    pub(super) fn set_design(&mut self, policy: Arc<Policy>, shape: Shape) {
        self.design = ScheduledDesign { policy, pacer: Pacer::new(&shape), shape, bound: self.design.bound };
        self.agenda.design_changed();
    }

    /// Returns an error while compactions are paused: a caller who paused them would wait for ever.
    pub(super) fn refuse_if_paused(&self) -> Result<()> {
        match self.agenda.is_paused() {
            false => Ok(()),
            true => Err(Error::InvalidArgument("compactions are paused; resume them first".to_owned())),
        }
    }

    /// Requests a compaction of a range of keys. Equal requests that wait are one.
    pub(super) fn request(&mut self, range: KeyRange) -> RequestId {
        let Self { agenda, requested, .. } = self;
        requested.retain(|(request, _)| !agenda.is_served(*request));
        let same = requested.iter().find(|(request, other)| *other == range && agenda.is_waiting(*request));
        if let Some((request, _)) = same {
            return *request;
        }
        let scope = if range == KeyRange::ALL { Scope::All } else { Scope::Range };
        let request = agenda.request(scope);
        requested.push((request, range));
        request
    }

    /// Requests a rewrite of all tables that nobody waits for.
    pub(super) fn request_rewrite(&mut self) {
        self.rewrite = Some(self.request(KeyRange::ALL));
    }

    /// Returns true until the requested rewrite has ended.
    pub(super) fn is_rewriting(&self) -> bool {
        self.rewrite.is_some_and(|request| !self.agenda.is_served(request))
    }

    /// Withdraws this request if it is for the rewrite, which is then left to later compactions.
    /// Returns false, and does nothing, if it is another.
    pub(super) fn withdraw_rewrite(&mut self, request: Option<RequestId>) -> bool {
        let is_rewrite = request.is_some() && request == self.rewrite;
        if is_rewrite {
            self.rewrite.take().into_iter().for_each(|request| self.agenda.withdraw(request));
        }
        is_rewrite
    }

    /// Returns the range of a request that is not served.
    ///
    /// # Panics
    /// If it is served.
    pub(super) fn range_of(&self, request: RequestId) -> &KeyRange {
        let found = self.requested.iter().find(|(other, _)| *other == request);
        found.map_or_else(|| panic!("{request:?} is served already"), |(_, range)| range)
    }

    /// Returns the agenda's next decision for the tree of this version.
    pub(super) fn next(
        &mut self,
        tree: (EditNumber, &TreeVersion),
        contents: &dyn Contents,
        startable: Startable,
    ) -> Next {
        self.with_situation(tree, contents, startable, |agenda, now| agenda.next(now))
    }

    /// Returns the compaction of the tree of this version if nothing is written to it, and the raw
    /// bytes of its inputs.
    pub(super) fn next_at_rest(
        &mut self,
        tree: (EditNumber, &TreeVersion),
        contents: &dyn Contents,
        startable: Startable,
    ) -> Option<(planner::CompactionPlan, Bytes)> {
        self.with_situation(tree, contents, startable, |agenda, now| {
            let plan = agenda.next_at_rest(now)?;
            let inputs = now.occupancy.runs().filter(|(_, run)| plan.inputs.contains(&run.id));
            let bytes = inputs.map(|(_, run)| run.bytes).sum();
            Some((plan, bytes))
        })
    }

    /// Returns true if a requested reshape is not complete.
    pub(super) fn is_reshaping(&mut self, tree: (EditNumber, &TreeVersion), contents: &dyn Contents) -> bool {
        let startable = Startable { memtable: None, may_flush: false, may_compact: false };
        self.with_situation(tree, contents, startable, |agenda, now| agenda.is_reshaping(now))
    }

    fn with_situation<T>(
        &mut self,
        (edit, tree): (EditNumber, &TreeVersion),
        contents: &dyn Contents,
        Startable { memtable, may_flush, may_compact }: Startable,
        ask: impl FnOnce(&mut Agenda, &Situation<'_>) -> T,
    ) -> T {
        let in_progress = self.in_progress(edit, tree);
        let ScheduledDesign { policy, shape, bound, .. } = &self.design;
        let design = Design { policy: &**policy, shape, bound: *bound };
        let occupancy = &self.counted.as_ref().expect("just counted").occupancy;
        let in_progress = &in_progress;
        let now = Situation { design, occupancy, in_progress, memtable, contents, may_flush, may_compact };
        ask(&mut self.agenda, &now)
    }

    /// Returns the runs of the tree of this version, and the flushes and compactions in progress.
    pub(super) fn counts(
        &mut self,
        edit: EditNumber,
        tree: &TreeVersion,
    ) -> (&Occupancy, Vec<planner::CompactionPlan>) {
        let in_progress = self.in_progress(edit, tree);
        (&self.counted.as_ref().expect("just counted").occupancy, in_progress)
    }

    fn in_progress(&mut self, edit: EditNumber, tree: &TreeVersion) -> Vec<planner::CompactionPlan> {
        if self.counted.as_ref().is_none_or(|counted| counted.of != edit) {
            let compactions =
                tree.compactions().iter().map(|compaction| compaction.id).zip(tree.compactions_in_progress()).collect();
            self.counted = Some(Counted { of: edit, occupancy: tree.occupancy(), compactions });
        }
        self.jobs.plans(tree, &self.counted.as_ref().expect("just counted").compactions)
    }

    /// Returns the order of jobs by deadline, as indices of the list, the most urgent first; and
    /// the limit on the rate of writes, in raw bytes per second, `None` for no limit. `goes_on` is
    /// false for paused jobs, which have no deadline.
    pub(super) fn pace(
        &mut self,
        (edit, tree): (EditNumber, &TreeVersion),
        Ingestion { buffered, buffered_max, late_max }: Ingestion,
        writers_wait: bool,
        goes_on: impl Fn(&Job) -> bool,
    ) -> (Vec<usize>, Option<f64>) {
        let in_progress = self.in_progress(edit, tree);
        let left = |job: &Job| if goes_on(job) { Bytes(job.left) } else { Bytes::ZERO };
        let jobs = self.jobs.iter().zip(&in_progress);
        let jobs: Vec<pace::PacedJob> = jobs.map(|(job, plan)| pace::PacedJob::of(plan, left(job))).collect();
        let occupancy = &self.counted.as_ref().expect("just counted").occupancy;
        // A bound on space is a bound on what late compactions leave behind.
        let late_max = if self.design.bound.is_some() { Bytes::ZERO } else { late_max };
        let plan = self.design.pacer.plan(&Load { occupancy, buffered, buffered_max, late_max }, &jobs);
        self.late = plan.late;
        let rate = self.speed.get().map(|speed| speed * plan.share).filter(|rate| rate.is_finite());
        (plan.order(&jobs, writers_wait), rate)
    }
}
