//! The agenda: decides the next action for a tree, as one pure state machine.
//!
//! **Events** go in: a flush or compaction ended, a run was ingested, a compaction was requested,
//! the design changed, compactions were paused. [`Agenda::next`] examines the [`Situation`] of the
//! tree and returns one decision, a [`Next`]: flush the oldest immutable memtable, begin this
//! compaction, install this shape, or nothing. The caller carries it out, reports that, and asks
//! again.
//!
//! ```text
//!   events ──► Agenda ──► next ──► Flush(plan)      ──► carried out ──► begun(plan) … flushed()
//!                ▲                 Compact{plan, …}                     begun(plan) … ended(…)
//!                │                 NewShape(shape)                      design_changed()
//!                │                 Nothing                                │
//!                └───────────────────────── asked again ◄─────────────────┘
//! ```
//!
//! The engine's scheduler turns a decision into an edit and a job; the
//! [simulation](crate::simulate) applies it to counts. Neither decides anything itself, so
//! predictions come from the code that runs.
//!
//! # Order of the questions
//!
//! 1. Has the tree lost so much data that a smaller shape holds it ([`growth`])?
//! 2. Is a requested compaction waiting? Nothing else begins before it, or a busy tree would never
//!    serve it.
//! 3. Was a reshape requested, and does its next level not fit the shape?
//! 4. Did a batch arrive at a level: has the tree outgrown its shape; is the level full; does the
//!    tree exceed its [bound on space](crate::bound); is garbage due?
//! 5. Was a run ingested: the same for its level; does it join an older run?
//! 6. Is nothing in progress, and do reads still repay a compaction
//!    ([`Agenda::compact_for_reads`])?
//! 7. Is a memtable ready, and no flush in progress?
//! 8. Nothing is due or in progress, and nothing has been flushed for a while: does a level not fit
//!    its shape, or has level 1 more runs than a tree at rest? The caller has the clock, so it asks
//!    this separately ([`Agenda::next_at_rest`]).
//!
//! Questions 2 to 6 and 8 are skipped while compactions are [paused](Agenda::pause), 1 to 6 and 8
//! while they wait for a retry. The [`planner`] chooses a compaction's inputs and target level.
//!
//! # Invariants
//!
//! - A question is settled when its answer has been carried out or is "no". A decision that failed
//!   is made again at the next call, from the tree as it is then.
//! - A level is examined only after an arrival (rule 4 of the [`planner`]). Whenever a compaction
//!   ends, level 1 is examined as well: its runs may have waited for it.
//! - The agenda asks no clock, knows no file, key or thread, and holds plain values; two agendas
//!   with the same events compare equal. A database has one agenda for each tree.
//!
//! The caller defines garbage ([`Contents::garbage`]): tombstones today; deleted key ranges and
//! expired entries can be due by the same rule.
//!
//! Cost: that of the planner, a few microseconds for each decision. Tests:
//! `tests/expectations/14_…` to `19_…` teach it; `predicted` in the engine compares engine and
//! simulation after every flush.

mod arrivals;
mod garbage;
mod next;
mod requests;
mod situation;

use std::fmt;

pub use next::Next;
pub use requests::{RequestId, Scope};
pub use situation::{Contents, Design, Garbage, Situation};

use arrivals::Arrivals;
use requests::{Requests, Turn};

use crate::growth;
use crate::occupancy::RunId;
use crate::planner::{self, Cause, CompactionPlan, Occasion};
use crate::shape::Shape;

/// The pending decisions of one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agenda {
    arrivals: Arrivals,
    requests: Requests,
    /// A requested reshape that is not complete.
    reshape: Option<Reshape>,
    /// The levels down to this one are to become one run, for the sake of reads.
    reads: Option<usize>,
    /// True if a compaction has ended since the data's size was last compared with smaller shapes.
    may_shrink: bool,
    /// Compactions are paused while this is not 0.
    pauses: usize,
    /// Announced ingested runs; while this is not 0, flushes become runs of their own.
    runs_expected: usize,
}

/// The progress of a reshape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reshape {
    /// The level to examine next; `None` when only compactions in progress remain.
    level: Option<usize>,
}

impl Agenda {
    /// Creates the agenda of a tree that was opened. Level 1 is examined first: the previous
    /// process may have ended between an arrival and its examination.
    pub fn of_opened() -> Self {
        let mut agenda = Self::default();
        agenda.arrivals.arrived(1);
        agenda
    }

    /// Returns the next decision. It stays the same until it is reported as carried out, or the
    /// tree or the agenda has changed.
    ///
    /// # Panics
    /// As [`planner::next_compaction`], if the tree does not fit its shape.
    pub fn next(&mut self, now: &Situation<'_>) -> Next {
        let next = if now.may_compact { self.next_shape_or_compaction(now) } else { None };
        if next.is_none() && !self.is_reshaping(now) {
            self.reshape = None;
        }
        next.or_else(|| self.next_flush(now)).unwrap_or(Next::Nothing)
    }

    fn next_shape_or_compaction(&mut self, now: &Situation<'_>) -> Option<Next> {
        if let Some(shape) = self.smaller_shape(now) {
            return Some(Next::NewShape(shape));
        }
        self.may_shrink = false;
        if self.is_paused() {
            return None;
        }
        match self.requests.next(now) {
            Turn::Begins(plan, request) => return Some(Next::Compact { plan, request: Some(request) }),
            Turn::Waits => return None,
            Turn::Nobody => {}
        }
        // Before arrivals, which may take runs that the reshape waits for.
        self.next_of_reshape(now).or_else(|| self.arrivals.next(now)).or_else(|| self.next_for_reads(now))
    }

    fn smaller_shape(&self, now: &Situation<'_>) -> Option<Shape> {
        let Design { policy, shape, .. } = now.design;
        if self.may_shrink { growth::shrunk(policy, shape, now.occupancy.bytes()) } else { None }
    }

    fn next_of_reshape(&mut self, now: &Situation<'_>) -> Option<Next> {
        let reshape = self.reshape.as_mut()?;
        while let Some(level) = reshape.level {
            if let Some(shape) = now.larger_shape(level) {
                return Some(Next::NewShape(shape));
            }
            if !planner::fits(now.design.shape, now.occupancy, now.in_progress, level) {
                // Without a plan, a compaction in progress uses a run that is needed.
                return now.plan(Occasion::Reshape { level }).map(Next::compact);
            }
            reshape.level = (level < now.design.shape.last()).then_some(level + 1);
        }
        None
    }

    /// It waits until nothing else is in progress, and is forgotten if that leaves nothing to
    /// compact.
    fn next_for_reads(&mut self, now: &Situation<'_>) -> Option<Next> {
        let through = self.reads.filter(|_| now.in_progress.is_empty())?;
        let plan = now.plan(Occasion::Reads { through });
        if plan.is_none() {
            self.reads = None;
        }
        plan.map(Next::compact)
    }

    fn next_flush(&self, now: &Situation<'_>) -> Option<Next> {
        let memtable = now.memtable.filter(|_| now.may_flush)?;
        if now.in_progress.iter().any(|plan| plan.cause == Cause::Flush) {
            return None;
        }
        let mut plan = planner::flush(now.design.shape, now.occupancy, now.in_progress, memtable);
        if self.runs_expected > 0 {
            // The ingested run must be above the active run and above this flush, which its caller
            // waits for.
            plan.inputs.clear();
        }
        Some(Next::Flush(plan))
    }

    /// Returns the compaction of a tree that nothing is written to, to be begun when nothing has
    /// been flushed for a while; see [`Occasion::Rest`]. `None` while anything else is due, in
    /// progress or announced.
    ///
    /// A tree of one level is seen as it will be with two, so that a small tree of a policy rests
    /// as a large one does. What would make the tree grow waits for an arrival.
    pub fn next_at_rest(&self, now: &Situation<'_>) -> Option<CompactionPlan> {
        let is_awaited = self.is_paused() || self.runs_expected > 0 || now.memtable.is_some() || !now.may_compact;
        if is_awaited || !self.is_at_rest() || !now.in_progress.is_empty() {
            return None;
        }
        let Design { policy, shape, .. } = now.design;
        if (1..=shape.last()).any(|level| now.larger_shape(level).is_some()) {
            return None;
        }
        let larger = if shape.last() == 1 { growth::grown(policy, shape, now.occupancy.bytes()) } else { None };
        let plan = planner::next_compaction(larger.as_ref().unwrap_or(shape), now.occupancy, &[], Occasion::Rest);
        plan.filter(|plan| plan.target <= shape.last())
    }

    /// Reports that a flush or compaction of this plan has begun and is among those in progress.
    pub fn begun(&mut self, plan: &CompactionPlan) {
        self.arrivals.begun(plan.cause);
        self.requests.begun(plan.cause);
        // Or the tree becomes another one than it was decided for.
        self.reads = None;
    }

    /// Forgets a compaction for reads that has not begun.
    pub fn forget_reads(&mut self) {
        self.reads = None;
    }

    /// Reports that a flush has ended.
    pub fn flushed(&mut self) {
        self.arrivals.arrived(1);
    }

    /// Reports that a run was moved to `level` without being rewritten.
    pub fn moved(&mut self, level: usize) {
        self.arrivals.arrived(level);
        self.arrivals.arrived(1);
    }

    /// Reports that a compaction into `level` has ended, and the request that it served. For a
    /// range of keys, whose runs keep their levels, `level` is 1.
    pub fn ended(&mut self, level: usize, request: Option<RequestId>) {
        self.moved(level);
        self.may_shrink = true;
        if let Some(request) = request {
            self.requests.served(request);
        }
    }

    /// Reports that this run was ingested: it is in the tree, younger than all other runs.
    pub fn ingested(&mut self, run: RunId) {
        self.arrivals.ingested(run);
    }

    /// Reports that garbage has become due without an arrival, because the disk has little space
    /// left: level 1 is examined.
    pub fn garbage_is_due(&mut self) {
        self.arrivals.arrived(1);
    }

    /// Announces a run to be ingested, until [`Agenda::expect_run_no_longer`]. Flushes meanwhile
    /// become runs of their own, so that they write no more than the memtable.
    pub fn expect_run(&mut self) {
        self.runs_expected += 1;
    }

    /// Withdraws one [`Agenda::expect_run`].
    pub fn expect_run_no_longer(&mut self) {
        self.runs_expected = self.runs_expected.checked_sub(1).expect("a run was expected");
    }

    /// Reports a change of shape, and perhaps of policy. A reshape restarts at level 1, and a
    /// compaction for reads is forgotten.
    pub fn design_changed(&mut self) {
        self.reads = None;
        if let Some(reshape) = &mut self.reshape {
            reshape.level = Some(1);
        }
    }

    /// Requests a compaction of the tree as it is now.
    pub fn request(&mut self, scope: Scope) -> RequestId {
        self.requests.make(scope)
    }

    /// Withdraws a request for which no compaction has begun.
    pub fn withdraw(&mut self, request: RequestId) {
        self.requests.withdraw(request);
    }

    /// Returns true if no compaction has begun for this request, so that it also serves a later
    /// request of the same scope.
    pub fn is_waiting(&self, request: RequestId) -> bool {
        self.requests.is_waiting(request)
    }

    /// Returns true if the requested compaction has ended, or there was nothing to compact.
    pub fn is_served(&self, request: RequestId) -> bool {
        self.requests.is_served(request)
    }

    /// Requests a reshape: every level is made to fit the shape now.
    pub fn request_reshape(&mut self) {
        self.reshape = Some(Reshape { level: Some(1) });
    }

    /// Reports that reads repay one run for the levels down to this one
    /// ([`read_compaction`](crate::navigator::read_compaction)). It begins once nothing is in
    /// progress, and is forgotten when anything else begins, or the shape changes: it was decided
    /// for the tree as it is.
    pub fn compact_for_reads(&mut self, through: usize) {
        self.reads = Some(through);
    }

    /// Returns true if a requested reshape is not complete: a level is still to be examined, one of
    /// its compactions is in progress, or the tree is about to take a smaller shape.
    pub fn is_reshaping(&self, now: &Situation<'_>) -> bool {
        let is_busy = || now.in_progress.iter().any(|plan| matches!(plan.cause, Cause::Reshape { .. }));
        self.reshape.is_some() && (self.has_levels_to_reshape() || is_busy() || self.smaller_shape(now).is_some())
    }

    /// Returns true if a reshape still has levels to examine; once it has none, only its
    /// compactions in progress remain.
    pub fn has_levels_to_reshape(&self) -> bool {
        self.reshape.is_some_and(|reshape| reshape.level.is_some())
    }

    /// Pauses compactions until [`Agenda::resume`] was called as often.
    pub fn pause(&mut self) {
        self.pauses += 1;
    }

    /// Withdraws one [`Agenda::pause`].
    ///
    /// # Panics
    /// If compactions are not paused.
    pub fn resume(&mut self) {
        self.pauses = self.pauses.checked_sub(1).expect("compactions are resumed as often as they were paused");
    }

    /// Returns true if compactions are paused.
    pub fn is_paused(&self) -> bool {
        self.pauses > 0
    }

    /// Returns true if an arrival is still to be examined: the tree may be about to grow.
    pub fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Returns true if nothing is pending: no arrival, no request, no reshape, no
    /// compaction for reads.
    pub fn is_at_rest(&self) -> bool {
        self.arrivals.is_empty() && self.requests.is_empty() && self.reshape.is_none() && self.reads.is_none()
    }
}

/// Formats the pending decisions in one line; empty at rest.
impl fmt::Display for Agenda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items: Vec<String> = Vec::new();
        items.extend(self.is_paused().then(|| "compactions paused".to_owned()));
        items.extend(self.requests.describe());
        items.extend(self.reshape.map(|reshape| match reshape.level {
            Some(level) => format!("reshape from level {level} on"),
            None => "reshape until its compactions end".to_owned(),
        }));
        items.extend(self.arrivals.describe());
        items.extend(self.reads.map(|through| format!("one run down to level {through} for reads")));
        items.extend((self.runs_expected > 0).then(|| "ingested run expected".to_owned()));
        f.write_str(&items.join("; "))
    }
}
