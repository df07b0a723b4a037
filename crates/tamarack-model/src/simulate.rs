//! The [agenda](crate::agenda) on counts: what a tree does with a sequence of flushes, without an
//! entry being written.
//!
//! In: a policy, a buffer size, the size of each flush, and a [`Pace`]. Out: a [`Report`] of bytes
//! written per level, runs, space, and how the levels filled and emptied over time. It drives the
//! same agenda as the engine, so it predicts what the engine will do. It assumes that no key is
//! written twice, so that a compaction's output is as large as its inputs; or that keys are
//! [drawn](Tree::drawing) again and again, by a known law; or is told [what is in the
//! runs](Tree::holding).
//!
//! Time, where there is any, is virtual and counted in flushes: one buffer is sealed per unit of
//! time.
//!
//! A [`Tree`] can also be driven step by step, or [written to](Tree::write) by writers who feel
//! what merges cost.
//!
//! Cost: a few microseconds per merge. Tests: `tests/suite/closed_forms.rs` compares with
//! [`cost`](crate::cost), `tests/suite/twin.rs` with a slow obvious tree; `tests/suite/pace.rs` is
//! about writers.

mod data;
mod keys;
mod writers;

use std::collections::VecDeque;

use crate::agenda::{Agenda, Design, Next, RequestId, Scope, Situation};
use crate::bound::SpaceBound;
use crate::cost::space;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, Cause, CompactionPlan, Occasion};
use crate::policy::Policy;
use crate::shape::Shape;
use crate::units::Bytes;

pub use data::Data;
pub use keys::Keys;
pub use writers::{STEPS, Writers, Writing};

/// How fast merges are, compared to what arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// All merges end before the next flush.
    Settled,
    /// Flushes and merges together write `speed` buffers' worth of bytes while one buffer fills.
    /// What leads to the smallest level goes first, flushes before all: the level that it
    /// empties is the first to be full again.
    Concurrent {
        /// Buffers per buffer; above the write amplification, or debt grows without end.
        speed: f64,
    },
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Bytes that were flushed.
    pub flushed: Bytes,
    /// Bytes written to each level by flushes and merges, level 1 first. Moves write nothing.
    pub written: Vec<Bytes>,
    /// Merges, flushes and moves not counted.
    pub compactions: u64,
    /// Moves: single runs that changed their level.
    pub moves: u64,
    /// Changes of shape because the data grew or shrank.
    pub growths: u64,
    /// Runs of each level, level 1 first, seen after each flush (when all merges had ended, if the
    /// pace is settled).
    pub runs: Vec<Seen>,
    /// Runs of the whole tree.
    pub runs_total: Seen,
    /// Space amplification, should all younger entries be updates of those in the largest run.
    pub space_worst: Seen,
    /// Buffers that waited to be flushed, the one in progress included. Zero at a settled pace.
    pub sealed: Seen,
    /// Occupancy over time: about [`SAMPLES`] moments, evenly spaced.
    pub samples: Vec<Sample>,
}

/// The largest and the mean of what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The largest.
    pub most: f64,
    sum: f64,
    count: u64,
}

/// How full a tree was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// After so many flushes.
    pub flushes: u64,
    /// Capacity and bytes of each level, level 1 first.
    pub levels: Vec<(Bytes, Bytes)>,
}

/// About how many samples a report holds.
pub const SAMPLES: usize = 256;

/// What becomes of these flushes, from an empty tree on.
pub fn simulate(policy: &dyn Policy, buffer: Bytes, flushes: &[Bytes], pace: Pace) -> Report {
    Tree::new(policy, buffer).run(flushes, pace)
}

/// What flushes and merges write from now on if a tree changes its policy, in either way, and if it
/// does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// With the policy that it has.
    pub kept: Bytes,
    /// With the other one, the tree being carried over by merges that arrivals call for.
    pub lazily: Bytes,
    /// With the other one, the tree taking its form before anything else arrives.
    pub at_once: Bytes,
    /// Of that: what the merges write by which it takes its form.
    pub reshaped: Bytes,
}

impl Change {
    /// Bytes that the change costs if the tree is carried over as data arrives; below 0 if it
    /// spares more than that.
    pub fn extra_lazily(&self) -> f64 {
        self.lazily.as_f64() - self.kept.as_f64()
    }

    /// The same if the tree takes its form at once.
    pub fn extra_at_once(&self) -> f64 {
        self.at_once.as_f64() - self.kept.as_f64()
    }
}

/// What a change of policy will cost over the flushes to come, before it begins: an estimate for a
/// tree of these runs, at rest, that has one policy and shape and is to have another. The change
/// itself moves no byte; the tree is carried over by merges that arrivals call for, so most of it
/// is paid as data comes, or [at once](Tree::reshape). `flushes` says what a tree of a given shape
/// will flush, `bound` to which bound on space it keeps.
pub fn change(
    (from, shape): (&dyn Policy, &Shape),
    (to, new_shape): (&dyn Policy, &Shape),
    occupancy: &Occupancy,
    bound: Option<SpaceBound>,
    flushes: impl Fn(&Shape) -> Vec<Bytes>,
) -> Change {
    let kept = || Tree { bound, ..Tree::resume(from, shape.clone(), occupancy.clone()) };
    let changed = || {
        let mut tree = kept();
        tree.policy = to;
        if new_shape != shape {
            tree.take_shape(new_shape.clone());
        }
        tree
    };
    let mut at_once = changed();
    at_once.reshape();
    at_once.settle();
    let reshaped = at_once.report.written_total();
    let written = |tree: Tree<'_>| {
        let flushes = flushes(&tree.shape);
        tree.run(&flushes, Pace::Settled).written_total()
    };
    Change { kept: written(kept()), lazily: written(changed()), at_once: written(at_once), reshaped }
}

/// The runs of a tree once these merges in progress on it, none of them a flush, have ended.
pub fn ended(mut occupancy: Occupancy, in_progress: &[CompactionPlan]) -> Occupancy {
    for merge in in_progress.iter().filter(|merge| !merge.is_partial()) {
        let inputs = occupancy.runs().filter(|(_, run)| merge.inputs.contains(&run.id));
        let bytes = inputs.map(|(_, run)| run.bytes).sum();
        planner::finish(&mut occupancy, merge, Some(Run { id: merge.inputs[0], bytes, entries: None }));
    }
    occupancy
}

/// A tree of counts, and what is in progress on it.
#[derive(Debug)]
pub struct Tree<'a> {
    policy: &'a dyn Policy,
    shape: Shape,
    occupancy: Occupancy,
    agenda: Agenda,
    /// Merges that have begun, the flush among them.
    in_progress: Vec<CompactionPlan>,
    /// What else is known of each of these.
    unfinished: Vec<Unfinished>,
    /// What was decided because of the last event.
    decided: Vec<Next>,
    /// Buffers that wait behind the flush in progress, the next one first.
    waiting: VecDeque<Bytes>,
    next_run: u64,
    report: Report,
    /// What is in the runs.
    data: Box<dyn Data + 'a>,
    /// How much space it may take.
    bound: Option<SpaceBound>,
}

/// A merge in progress.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// Bytes still to be written.
    left: f64,
    /// Who asked for it.
    request: Option<RequestId>,
}

impl<'a> Tree<'a> {
    /// An empty tree in the policy's smallest shape.
    pub fn new(policy: &'a dyn Policy, buffer: Bytes) -> Self {
        Self::resume(policy, policy.shape(Bytes::ZERO, buffer), Occupancy::default())
    }

    /// A tree that has these runs, and takes its next shapes from the policy. Nothing is in
    /// progress on it.
    ///
    /// # Panics
    /// If it has runs in levels that the shape lacks.
    pub fn resume(policy: &'a dyn Policy, shape: Shape, occupancy: Occupancy) -> Self {
        assert!(occupancy.deepest() <= shape.last(), "a tree is relabelled when its shape changes");
        let next_run = occupancy.runs().map(|(_, run)| run.id.0).max().unwrap_or(0) + 1;
        Self {
            policy,
            shape,
            occupancy,
            agenda: Agenda::default(),
            in_progress: Vec::new(),
            unfinished: Vec::new(),
            decided: Vec::new(),
            waiting: VecDeque::new(),
            next_run,
            report: Report::default(),
            data: Box::new(data::Unique),
            bound: None,
        }
    }

    /// From now on, the tree keeps to this bound on space, by the rule that the engine has: it is
    /// looked at whenever something has arrived.
    #[must_use]
    pub fn bounded(mut self, bound: SpaceBound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// From now on, what is flushed are draws of these keys, and a merge keeps one entry of each.
    /// What the tree holds is taken to be some of them, each once.
    ///
    /// # Panics
    /// If anything is in progress.
    #[must_use]
    pub fn drawing(self, keys: Keys) -> Self {
        let drawn = keys::Drawn::new(keys, &self.occupancy);
        self.holding(drawn)
    }

    /// From now on, `data` says what is in the runs, and what flushes and compactions make of it.
    ///
    /// # Panics
    /// If anything is in progress.
    #[must_use]
    pub fn holding(mut self, data: impl Data + 'a) -> Self {
        assert!(self.in_progress.is_empty(), "{:?} in progress", self.in_progress);
        self.data = Box::new(data);
        self
    }

    /// What becomes of these flushes.
    pub fn run(mut self, flushes: &[Bytes], pace: Pace) -> Report {
        let every = flushes.len().div_ceil(SAMPLES).max(1);
        for (number, bytes) in (1..).zip(flushes) {
            self.seal(*bytes);
            match pace {
                Pace::Settled => self.settle(),
                Pace::Concurrent { speed } => self.pass(speed * self.shape.buffer().as_f64()),
            }
            self.look();
            if number % every == 0 {
                let sample = self.sample(number as u64);
                self.report.samples.push(sample);
            }
        }
        self.settle();
        self.report
    }

    /// Where its next shapes come from.
    pub fn policy(&self) -> &'a dyn Policy {
        self.policy
    }

    /// Its present shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its runs.
    pub fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    /// Merges that have begun, in that order; at most one of them is a flush.
    pub fn in_progress(&self) -> &[CompactionPlan] {
        &self.in_progress
    }

    /// What waits to be decided.
    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }

    /// What the agenda has decided because of the last event, in order. All of it has been carried
    /// out, moves to their end.
    pub fn decided(&self) -> &[Next] {
        &self.decided
    }

    /// Buffers that are full and not flushed yet, the one in progress included.
    pub fn sealed(&self) -> usize {
        self.waiting.len() + usize::from(self.is_flushing())
    }

    /// What has been counted up to now.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Another policy from now on: its shape for the present data.
    pub fn change_policy(&mut self, policy: &'a dyn Policy) {
        self.policy = policy;
        let held: Bytes = self.occupancy.bytes();
        self.take_shape(policy.shape(held, self.shape.buffer()));
    }

    /// Another shape from now on.
    pub fn take_shape(&mut self, shape: Shape) {
        (self.occupancy, self.in_progress) = planner::relabel(&self.occupancy, &self.in_progress, &shape);
        self.shape = shape;
        self.agenda.design_changed();
    }

    /// A buffer is full. Its flush begins at once, unless another one is in progress.
    pub fn seal(&mut self, bytes: Bytes) {
        self.report.flushed += bytes;
        self.waiting.push_back(bytes);
        self.follow();
    }

    /// A sorted run comes from outside, younger than all that is there. Nothing is sealed or being
    /// flushed. Returns the level at which it arrives, and begins what follows from that.
    pub fn ingest(&mut self, bytes: Bytes) -> usize {
        assert_eq!(self.sealed(), 0, "what is in buffers is older, and is flushed before a run is ingested");
        let level = planner::entrance(&self.shape, &self.occupancy, &self.in_progress, bytes);
        let run = Run { id: self.new_run(), bytes, entries: None };
        self.occupancy.level_mut(level).insert(0, run);
        self.agenda.ingested(run.id);
        self.follow();
        level
    }

    /// Ends the merge with this index among those in progress, and begins what follows from that.
    pub fn end(&mut self, index: usize) {
        self.finish(index);
        self.follow();
    }

    /// Somebody asks for a compaction of the whole tree, or of a range of keys. It begins when
    /// nothing in progress is in its way.
    pub fn request(&mut self, scope: Scope) -> RequestId {
        let request = self.agenda.request(scope);
        self.follow();
        request
    }

    /// Begins what is to be done for the tree to take the form of its shape; for that, ends what is
    /// in the way.
    pub fn reshape(&mut self) {
        self.agenda.request_reshape();
        self.decided.clear();
        self.carry_out();
        while self.agenda.has_levels_to_reshape() {
            self.finish(0);
            self.carry_out();
        }
    }

    /// No compaction begins from now on, until [`Tree::resume_compactions`].
    pub fn pause_compactions(&mut self) {
        self.agenda.pause();
    }

    /// Takes back one [`Tree::pause_compactions`].
    pub fn resume_compactions(&mut self) {
        self.agenda.resume();
        self.follow();
    }

    /// Asks the planner on this occasion, whatever is on the agenda, and begins what it says; the
    /// cause is then the last one in progress.
    pub fn ask(&mut self, occasion: Occasion) -> bool {
        self.decided.clear();
        let plan = planner::next_compaction(&self.shape, &self.occupancy, &self.in_progress, occasion);
        plan.map(|plan| self.begin(plan, None)).is_some()
    }

    /// Ends all that is in progress, and all that follows from it.
    pub fn settle(&mut self) {
        while !self.in_progress.is_empty() {
            self.end(0);
        }
    }

    /// Lets one unit of time pass, in which so many bytes can be written.
    fn pass(&mut self, mut budget: f64) {
        while let Some((next, _)) = self.in_progress.iter().enumerate().min_by_key(|(_, merge)| merge.target) {
            let written = budget.min(self.unfinished[next].left);
            budget -= written;
            self.unfinished[next].left -= written;
            if self.unfinished[next].left > 0.0 {
                return;
            }
            self.end(next);
        }
    }

    /// Carries out what is on the agenda after an event.
    fn follow(&mut self) {
        self.decided.clear();
        self.carry_out();
    }

    fn carry_out(&mut self) {
        loop {
            let next = self.agenda.next(&Situation {
                design: Design { policy: self.policy, shape: &self.shape, bound: self.bound },
                occupancy: &self.occupancy,
                in_progress: &self.in_progress,
                memtable: self.waiting.front().copied(),
                contents: &*self.data,
                may_flush: true,
                may_compact: true,
            });
            if next == Next::Nothing {
                return;
            }
            self.decided.push(next.clone());
            match next {
                Next::Flush(plan) => {
                    self.waiting.pop_front();
                    self.begin(plan, None);
                }
                Next::Compact { plan, request } => self.begin(plan, request),
                Next::NewShape(shape) => {
                    self.take_shape(shape);
                    self.report.growths += 1;
                }
                Next::Nothing => {}
            }
        }
    }

    fn begin(&mut self, plan: CompactionPlan, request: Option<RequestId>) {
        planner::begin(&mut self.occupancy, &plan);
        self.agenda.begun(&plan);
        if plan.is_move() {
            self.report.moves += 1;
            return self.agenda.moved(plan.target);
        }
        let bytes = if plan.is_partial() { Bytes::ZERO } else { self.data.output_bytes(&plan, &self.occupancy) };
        self.unfinished.push(Unfinished { left: bytes.as_f64(), request });
        self.in_progress.push(plan);
    }

    fn finish(&mut self, index: usize) {
        let plan = self.in_progress.remove(index);
        let Unfinished { request, .. } = self.unfinished.remove(index);
        if plan.is_partial() {
            return self.agenda.ended(1, request);
        }
        let id = self.new_run();
        let bytes = self.data.output_bytes(&plan, &self.occupancy);
        self.data.written(&plan, &self.occupancy, id);
        planner::finish(&mut self.occupancy, &plan, (bytes > Bytes::ZERO).then_some(Run { id, bytes, entries: None }));
        self.count(&plan, bytes);
        match plan.cause {
            Cause::Flush => self.agenda.flushed(),
            _ => self.agenda.ended(plan.target, request),
        }
    }

    fn new_run(&mut self) -> RunId {
        let id = RunId(self.next_run);
        self.next_run += 1;
        id
    }

    fn count(&mut self, merge: &CompactionPlan, bytes: Bytes) {
        self.report.compactions += u64::from(merge.cause != Cause::Flush);
        if self.report.written.len() < merge.target {
            self.report.written.resize(merge.target, Bytes::ZERO);
        }
        self.report.written[merge.target - 1] += bytes;
    }

    fn is_flushing(&self) -> bool {
        self.in_progress.iter().any(|merge| merge.cause == Cause::Flush)
    }

    fn look(&mut self) {
        let sealed = self.sealed();
        let report = &mut self.report;
        let levels = self.shape.last().max(report.runs.len());
        report.runs.resize(levels, Seen::default());
        for (index, seen) in report.runs.iter_mut().enumerate() {
            seen.see(self.occupancy.level(index + 1).len() as f64);
        }
        report.runs_total.see(self.occupancy.runs().count() as f64);
        report.space_worst.see(space::worst_now(&self.occupancy));
        report.sealed.see(sealed as f64);
    }

    fn sample(&self, flushes: u64) -> Sample {
        let level = |number| (self.shape.level(number).capacity, self.occupancy.level_bytes(number));
        Sample { flushes, levels: (1..=self.shape.last()).map(level).collect() }
    }
}

impl Report {
    /// Bytes written by flushes and merges.
    pub fn written_total(&self) -> Bytes {
        self.written.iter().copied().sum()
    }

    /// Bytes written by flushes and merges for each byte that was flushed; 0 if none was.
    pub fn write_amplification(&self) -> f64 {
        if self.flushed == Bytes::ZERO { 0.0 } else { self.written_total().ratio(self.flushed) }
    }
}

impl Seen {
    /// The mean; 0 if nothing was seen.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    fn see(&mut self, value: f64) {
        self.most = self.most.max(value);
        self.sum += value;
        self.count += 1;
    }
}
