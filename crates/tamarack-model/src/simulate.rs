//! A simulation of the [agenda](crate::agenda) on counts: what a tree does with a sequence of
//! flushes, without writing an entry.
//!
//! In: a policy, a memtable size, the size of each flush, and a [`Pace`]. Out: a [`Report`] of
//! bytes written per level, runs, space amplification, and the occupancy of the levels over time.
//! It drives the same agenda as the engine, so it predicts what the engine will do. By default no
//! key is written twice, so that a compaction's output is as large as its inputs. Alternatively
//! keys are [drawn](Tree::drawing) repeatedly from a known distribution, or the caller supplies
//! [the contents of runs](Tree::holding).
//!
//! Time is virtual and counted in flushes: one memtable becomes immutable per unit of time.
//!
//! What runs cover of the key space is simulated with keys in [`coverage`].
//!
//! A [`Tree`] can also be driven step by step, or [written to](Tree::write) by writers that feel
//! the cost of compactions.
//!
//! Cost: a few microseconds per compaction. Tests: `tests/suite/closed_forms.rs` compares with
//! [`cost`](crate::cost), `tests/suite/twin.rs` with a slow obvious tree; `tests/suite/pace.rs`
//! and `tests/suite/full_speed.rs` test writers.

pub mod coverage;
mod data;
mod draws;
mod full_speed;
mod keys;
mod stream;
mod writers;

use std::collections::VecDeque;

use crate::agenda::{Agenda, Design, Next, RequestId, Scope, Situation};
use crate::bound::SpaceBound;
use crate::cost::space;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, Cause, CompactionPlan, Occasion};
use crate::policy::ShapeFamily;
use crate::shape::Shape;
use crate::tables;
use crate::units::Bytes;

pub use data::Data;
pub use draws::{DrawnContent, Keys, Sought};
pub use full_speed::{FullSpeed, Threads};
pub use writers::{STEPS, Writers, Writing};

use stream::Stream;

/// The speed of compactions relative to the speed of writers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// All compactions end before the next flush.
    Settled,
    /// Flushes and compactions together write `speed` memtables' worth of bytes while one memtable
    /// fills. Work for the smallest target level goes first, flushes before all else: the level
    /// that it empties is the first to be full again.
    Concurrent {
        /// Memtables per memtable; must exceed the write amplification, or debt grows without
        /// bound.
        speed: f64,
    },
    /// Compactions and writers share a device, and compactions may be late. The queue of writers
    /// begins anew with each memtable.
    Beside(Writers),
    /// Writers put as fast as they can, beside the workers of the same machine.
    AtFullSpeed(FullSpeed),
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Bytes flushed.
    pub flushed: Bytes,
    /// Bytes written to each level by flushes and compactions, level 1 first. Moves write nothing.
    pub written: Vec<Bytes>,
    /// Compactions, without flushes and moves.
    pub compactions: u64,
    /// Moves: single runs that changed their level without being rewritten.
    pub moves: u64,
    /// Changes of shape because the data grew or shrank.
    pub growths: u64,
    /// Runs of each level, level 1 first, after each flush (and at a settled pace after its
    /// compactions).
    pub runs: Vec<Seen>,
    /// Runs of the whole tree.
    pub runs_total: Seen,
    /// Space amplification if all younger entries are updates of those in the largest run.
    pub space_worst: Seen,
    /// Immutable memtables, including the one being flushed. Zero at a settled pace.
    pub immutable_memtables: Seen,
    /// Occupancy over time: about [`SAMPLES`] evenly spaced samples.
    pub samples: Vec<OccupancySample>,
}

/// Extremes and mean of a series of values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// The minimum; 0 if nothing was seen.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    sum: f64,
    count: u64,
}

/// The occupancy of a tree at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OccupancySample {
    /// The number of flushes before it.
    pub flushes: u64,
    /// Capacity and bytes of each level, level 1 first.
    pub levels: Vec<(Bytes, Bytes)>,
}

/// The approximate number of samples in a report.
pub const SAMPLES: usize = 256;

/// Simulates these flushes from an empty tree on.
pub fn simulate(policy: &dyn ShapeFamily, buffer: Bytes, flushes: &[Bytes], pace: Pace) -> Report {
    Tree::new(policy, buffer).run(flushes, pace)
}

/// The predicted cost of a change of policy: what flushes and compactions write from now on with
/// the change, made in either way, and without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCost {
    /// Bytes written with the present policy.
    pub kept: Bytes,
    /// Bytes written with the new policy, if the tree is reshaped as data arrives.
    pub lazily: Bytes,
    /// Bytes written with the new policy, if the tree is reshaped before any other data arrives.
    pub at_once: Bytes,
    /// The part of `at_once` that the reshape itself writes.
    pub reshaped: Bytes,
}

impl ChangeCost {
    /// Extra bytes of a change that takes effect as data arrives; negative if the new policy saves
    /// more.
    pub fn extra_lazily(&self) -> f64 {
        self.lazily.as_f64() - self.kept.as_f64()
    }

    /// Extra bytes of a change with a reshape at once.
    pub fn extra_at_once(&self) -> f64 {
        self.at_once.as_f64() - self.kept.as_f64()
    }
}

/// Predicts the cost of a change of policy over future flushes: an estimate for a tree at rest with
/// these runs, its present policy and shape, and the new ones. The change itself moves no byte; the
/// tree is reshaped by the compactions that arrivals cause, so most of the cost comes with the
/// data, or [at once](Tree::reshape). `flushes` returns what a tree of a given shape will flush,
/// `bound` is the upper bound on space amplification.
pub fn change(
    (from, shape): (&dyn ShapeFamily, &Shape),
    (to, new_shape): (&dyn ShapeFamily, &Shape),
    occupancy: &Occupancy,
    bound: Option<SpaceBound>,
    flushes: impl Fn(&Shape) -> Vec<Bytes>,
) -> ChangeCost {
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
    ChangeCost { kept: written(kept()), lazily: written(changed()), at_once: written(at_once), reshaped }
}

/// The runs of a tree once these compactions in progress, none of them a flush, have ended.
pub fn ended(mut occupancy: Occupancy, in_progress: &[CompactionPlan]) -> Occupancy {
    for plan in in_progress.iter().filter(|plan| !plan.is_partial()) {
        let inputs = occupancy.runs().filter(|(_, run)| plan.inputs.contains(&run.id));
        let bytes = inputs.map(|(_, run)| run.bytes).sum();
        planner::finish(&mut occupancy, plan, Some(Run { id: plan.inputs[0], bytes, entries: None }));
    }
    occupancy
}

/// A simulated tree, and the compactions in progress on it.
#[derive(Debug)]
pub struct Tree<'a> {
    policy: &'a dyn ShapeFamily,
    shape: Shape,
    occupancy: Occupancy,
    agenda: Agenda,
    /// Flushes and compactions that have begun.
    in_progress: Vec<CompactionPlan>,
    /// Further state of each of these.
    unfinished: Vec<Unfinished>,
    /// Decisions since the last event.
    decided: Vec<Next>,
    /// Immutable memtables that wait behind the flush in progress, the next one first.
    waiting: VecDeque<Bytes>,
    next_run: u64,
    report: Report,
    /// The contents of the runs.
    data: Box<dyn Data + 'a>,
    /// The upper bound on space amplification, if any.
    bound: Option<SpaceBound>,
    /// Writers at full speed.
    stream: Stream,
}

/// A flush or compaction in progress.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// The part of `whole` that is left.
    left: f64,
    /// Its work, in bytes: its output, or beside writers at full speed its inputs, since workers
    /// that copy them take as long for those of which nothing remains.
    whole: f64,
    /// Bytes of its output.
    output: Bytes,
    /// The request that it serves, if any.
    request: Option<RequestId>,
}

impl Unfinished {
    /// The part that is done, from 0 to 1.
    fn part_done(&self) -> f64 {
        if self.whole > 0.0 { 1.0 - self.left / self.whole } else { 0.0 }
    }
}

impl<'a> Tree<'a> {
    /// Creates an empty tree in the policy's smallest shape.
    pub fn new(policy: &'a dyn ShapeFamily, buffer: Bytes) -> Self {
        Self::resume(policy, policy.shape(Bytes::ZERO, buffer), Occupancy::default())
    }

    /// Creates a tree at rest with these runs, which takes its next shapes from the policy.
    ///
    /// # Panics
    /// If it has runs in levels that the shape lacks.
    pub fn resume(policy: &'a dyn ShapeFamily, shape: Shape, occupancy: Occupancy) -> Self {
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
            stream: Stream::default(),
        }
    }

    /// Sets an upper bound on space amplification, which is checked after every arrival, as in the
    /// engine.
    #[must_use]
    pub fn bounded(mut self, bound: SpaceBound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Makes future flushes draws of these keys, of which a compaction keeps one entry each. The
    /// present runs contain some of the keys, each once.
    ///
    /// # Panics
    /// If anything is in progress.
    #[must_use]
    pub fn drawing(self, keys: Keys) -> Self {
        let drawn = keys::Drawn::new(keys, &self.occupancy);
        self.holding(drawn)
    }

    /// Makes `data` the source of the contents of runs, flushes and compactions.
    ///
    /// # Panics
    /// If anything is in progress.
    #[must_use]
    pub fn holding(mut self, data: impl Data + 'a) -> Self {
        assert!(self.in_progress.is_empty(), "{:?} in progress", self.in_progress);
        self.data = Box::new(data);
        self
    }

    /// Simulates these flushes.
    pub fn run(mut self, flushes: &[Bytes], pace: Pace) -> Report {
        let every = flushes.len().div_ceil(SAMPLES).max(1);
        for (number, bytes) in (1..).zip(flushes) {
            self.fill(*bytes, pace);
            if number % every == 0 {
                let sample = self.sample(number as u64);
                self.report.samples.push(sample);
            }
        }
        self.settle();
        self.report
    }

    /// Lets a memtable of this size fill up and be switched, and compactions go on meanwhile.
    pub fn fill(&mut self, bytes: Bytes, pace: Pace) {
        match pace {
            Pace::Settled => {
                self.rotate_memtable(bytes);
                self.settle();
            }
            Pace::Concurrent { speed } => {
                self.rotate_memtable(bytes);
                self.pass(speed * self.shape.buffer().as_f64());
            }
            Pace::Beside(writers) => return drop(self.write(&writers, &[bytes])),
            Pace::AtFullSpeed(speed) => return self.write_at_full_speed(&speed, bytes, &mut |_, _, _| {}),
        }
        self.record();
    }

    /// The source of its next shapes.
    pub fn policy(&self) -> &'a dyn ShapeFamily {
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

    /// Flushes and compactions that have begun, in that order; at most one is a flush.
    pub fn in_progress(&self) -> &[CompactionPlan] {
        &self.in_progress
    }

    /// The pending decisions.
    pub fn agenda(&self) -> &Agenda {
        &self.agenda
    }

    /// The agenda's decisions since the last event, in order. All have been carried out, moves to
    /// their end.
    pub fn decided(&self) -> &[Next] {
        &self.decided
    }

    /// The number of immutable memtables, including the one being flushed.
    pub fn immutable_memtables(&self) -> usize {
        self.waiting.len() + usize::from(self.is_flushing())
    }

    /// The mean number of runs that cover a key: a compaction in progress has handed over the part
    /// of its keys for which it has written its output. Memtables do not count.
    pub fn runs_met(&self) -> f64 {
        let handed_over = |(plan, rest): (&CompactionPlan, &Unfinished)| {
            if plan.is_partial() { 0.0 } else { rest.part_done() * (1.0 - plan.inputs.len() as f64) }
        };
        let in_progress = self.in_progress.iter().zip(&self.unfinished);
        self.occupancy.runs().count() as f64 + in_progress.map(handed_over).sum::<f64>()
    }

    /// The probability that the newest entry of an existing key is in the memtable, of so many raw
    /// bytes, or in each of the runs, young to old. If no key is written twice, each entry is as
    /// likely.
    pub fn newest(&self, memtable: f64, sought: Sought) -> Vec<f64> {
        let runs = || self.occupancy.runs().map(|(_, run)| run);
        if let Some(keys) = self.data.keys() {
            let contents: Vec<DrawnContent> =
                std::iter::once(keys.written(memtable)).chain(runs().map(|run| self.data.drawn(run.id))).collect();
            return keys.newest(&contents, sought);
        }
        let all = memtable + self.occupancy.bytes().as_f64();
        let bytes = std::iter::once(memtable).chain(runs().map(|run| run.bytes.as_f64()));
        bytes.map(|bytes| if all > 0.0 { bytes / all } else { 0.0 }).collect()
    }

    /// Returns true if writers draw each key as often, so that [`Sought`] makes no difference.
    pub fn has_keys_alike(&self) -> bool {
        self.data.keys().is_none_or(Keys::are_alike)
    }

    /// The number of live keys, if runs are draws from a known distribution.
    pub fn keys(&self) -> Option<f64> {
        self.data.keys().map(Keys::live)
    }

    /// Compactions in progress that hand over their keys, with the part of their keys that they
    /// have handed over, from 0 to 1, and the size of their output. Beside writers at full speed
    /// they hand over whole tables. Flushes and compactions of a range of keys are left out.
    pub fn handing_over(&self) -> impl Iterator<Item = (&CompactionPlan, f64, Bytes)> {
        let whole = |(plan, _): &(&CompactionPlan, &Unfinished)| !plan.is_partial() && plan.cause != Cause::Flush;
        let in_progress = self.in_progress.iter().zip(&self.unfinished).filter(whole);
        in_progress.map(|(plan, rest)| {
            let times = match self.stream.workers {
                0 => None,
                workers => Some(tables::handovers(rest.whole as u64, workers) as f64),
            };
            let part = times.map_or(rest.part_done(), |times| (rest.part_done() * times).floor() / times);
            (plan, part, rest.output)
        })
    }

    /// The counts so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Changes the policy, to its shape for the present data.
    pub fn change_policy(&mut self, policy: &'a dyn ShapeFamily) {
        self.policy = policy;
        let data = self.occupancy.bytes();
        self.take_shape(policy.shape(data, self.shape.buffer()));
    }

    /// Changes the shape.
    pub fn take_shape(&mut self, shape: Shape) {
        (self.occupancy, self.in_progress) = planner::relabel(&self.occupancy, &self.in_progress, &shape);
        self.shape = shape;
        self.agenda.design_changed();
    }

    /// Switches a full memtable of this size. Its flush begins at once, unless another one is in
    /// progress.
    pub fn rotate_memtable(&mut self, bytes: Bytes) {
        self.report.flushed += bytes;
        self.waiting.push_back(bytes);
        self.follow();
    }

    /// Ingests a sorted run, younger than all others, and begins what follows from that. Returns
    /// the level at which it arrives. All memtables must have been flushed.
    pub fn ingest(&mut self, bytes: Bytes) -> usize {
        assert_eq!(self.immutable_memtables(), 0, "memtables are older than an ingested run, and are flushed first");
        let level = planner::entrance(&self.shape, &self.occupancy, &self.in_progress, bytes);
        let run = Run { id: self.new_run(), bytes, entries: None };
        self.occupancy.level_mut(level).insert(0, run);
        self.agenda.ingested(run.id);
        self.follow();
        level
    }

    /// Ends the compaction with this index among those in progress, and begins what follows from
    /// that.
    pub fn end(&mut self, index: usize) {
        self.finish(index);
        self.follow();
    }

    /// Requests a compaction of the whole tree or of a range of keys. It begins when no compaction
    /// in progress is in its way.
    pub fn request(&mut self, scope: Scope) -> RequestId {
        let request = self.agenda.request(scope);
        self.follow();
        request
    }

    /// Begins the compactions of a reshape; ends compactions that are in the way.
    pub fn reshape(&mut self) {
        self.agenda.request_reshape();
        self.decided.clear();
        self.carry_out();
        while self.agenda.has_levels_to_reshape() {
            self.finish(0);
            self.carry_out();
        }
    }

    /// Begins a compaction for reads of the levels down to this one ([`Agenda::compact_for_reads`])
    /// as soon as nothing is in progress.
    pub fn compact_for_reads(&mut self, through: usize) {
        self.agenda.compact_for_reads(through);
        self.decided.clear();
        self.carry_out();
    }

    /// Pauses compactions until [`Tree::resume_compactions`].
    pub fn pause_compactions(&mut self) {
        self.agenda.pause();
    }

    /// Withdraws one [`Tree::pause_compactions`].
    pub fn resume_compactions(&mut self) {
        self.agenda.resume();
        self.follow();
    }

    /// Begins the planner's compaction for this occasion, whatever the agenda says, and returns
    /// true if there is one; it is then the last in progress.
    pub fn ask(&mut self, occasion: Occasion) -> bool {
        self.decided.clear();
        let plan = planner::next_compaction(&self.shape, &self.occupancy, &self.in_progress, occasion);
        plan.map(|plan| self.begin(plan, None)).is_some()
    }

    /// Begins the compaction of a tree that nothing is written to ([`Agenda::next_at_rest`]), and
    /// returns true if there is one; it is then the only one in progress.
    pub fn rest(&mut self) -> bool {
        self.decided.clear();
        let plan = self.agenda.next_at_rest(&self.situation());
        if let Some(plan) = plan {
            self.decided.push(Next::Compact { plan: plan.clone(), request: None });
            self.begin(plan, None);
            return true;
        }
        false
    }

    /// Ends all compactions in progress and all that follow.
    pub fn settle(&mut self) {
        while !self.in_progress.is_empty() {
            self.end(0);
        }
    }

    /// Advances time by one unit, in which `budget` bytes can be written.
    fn pass(&mut self, mut budget: f64) {
        while let Some((next, _)) = self.in_progress.iter().enumerate().min_by_key(|(_, plan)| plan.target) {
            let written = budget.min(self.unfinished[next].left);
            budget -= written;
            self.unfinished[next].left -= written;
            if self.unfinished[next].left > 0.0 {
                return;
            }
            self.end(next);
        }
    }

    /// Carries out the agenda's decisions after an event.
    fn follow(&mut self) {
        self.decided.clear();
        self.carry_out();
    }

    fn carry_out(&mut self) {
        loop {
            let mut agenda = std::mem::take(&mut self.agenda);
            let next = agenda.next(&self.situation());
            self.agenda = agenda;
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

    fn situation(&self) -> Situation<'_> {
        Situation {
            design: Design { policy: self.policy, shape: &self.shape, bound: self.bound },
            occupancy: &self.occupancy,
            in_progress: &self.in_progress,
            memtable: self.waiting.front().copied(),
            contents: &*self.data,
            may_flush: true,
            may_compact: true,
        }
    }

    fn begin(&mut self, plan: CompactionPlan, request: Option<RequestId>) {
        planner::begin(&mut self.occupancy, &plan);
        self.agenda.begun(&plan);
        if plan.is_move() {
            self.report.moves += 1;
            return self.agenda.moved(plan.target);
        }
        let (mut whole, mut output) = (Bytes::ZERO, Bytes::ZERO);
        if !plan.is_partial() {
            output = self.data.output_bytes(&plan, &self.occupancy);
            let at_full_speed = self.stream.workers > 0;
            whole = if at_full_speed { data::input_bytes(&plan, &self.occupancy) } else { output };
        }
        self.unfinished.push(Unfinished { left: whole.as_f64(), whole: whole.as_f64(), output, request });
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

    fn count(&mut self, plan: &CompactionPlan, bytes: Bytes) {
        self.report.compactions += u64::from(plan.cause != Cause::Flush);
        if self.report.written.len() < plan.target {
            self.report.written.resize(plan.target, Bytes::ZERO);
        }
        self.report.written[plan.target - 1] += bytes;
    }

    fn is_flushing(&self) -> bool {
        self.in_progress.iter().any(|plan| plan.cause == Cause::Flush)
    }

    fn record(&mut self) {
        let immutable = self.immutable_memtables();
        let report = &mut self.report;
        let levels = self.shape.last().max(report.runs.len());
        report.runs.resize(levels, Seen::default());
        for (index, seen) in report.runs.iter_mut().enumerate() {
            seen.see(self.occupancy.level(index + 1).len() as f64);
        }
        report.runs_total.see(self.occupancy.runs().count() as f64);
        report.space_worst.see(space::worst_now(&self.occupancy));
        report.immutable_memtables.see(immutable as f64);
    }

    fn sample(&self, flushes: u64) -> OccupancySample {
        let level = |number| (self.shape.level(number).capacity, self.occupancy.level_bytes(number));
        OccupancySample { flushes, levels: (1..=self.shape.last()).map(level).collect() }
    }
}

impl Report {
    /// Bytes written by flushes and compactions.
    pub fn written_total(&self) -> Bytes {
        self.written.iter().copied().sum()
    }

    /// Bytes written by flushes and compactions per byte flushed; 0 without flushes.
    pub fn write_amplification(&self) -> f64 {
        if self.flushed == Bytes::ZERO { 0.0 } else { self.written_total().ratio(self.flushed) }
    }
}

impl Seen {
    /// The mean; 0 if nothing was seen.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Adds a value.
    pub fn see(&mut self, value: f64) {
        self.least = if self.count == 0 { value } else { self.least.min(value) };
        self.most = self.most.max(value);
        self.sum += value;
        self.count += 1;
    }
}
