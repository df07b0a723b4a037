//! The planner on counts: what a tree does with a sequence of flushes, without an entry being written.
//!
//! In: a policy, a buffer size, the size of each flush, and a [`Pace`]. Out: a [`Report`] of bytes written per level,
//! runs, space, and how the levels filled and emptied over time. It asks the same [`planner`] as the engine, so it
//! predicts what the engine will do. It assumes that no key is written twice, so that a merge's output is as large as its
//! inputs; or that keys are [drawn](Tree::drawing) again and again, by a known law.
//!
//! Time, where there is any, is virtual and counted in flushes: one buffer is sealed per unit of time.
//!
//! A [`Tree`] can also be driven step by step, or [written to](Tree::write) by writers who feel what merges cost.
//!
//! Cost: a few microseconds per merge. Tests: `tests/closed_forms.rs` compares with [`cost`](crate::cost),
//! `tests/twin.rs` with a slow obvious tree; `tests/pace.rs` is about writers.

mod keys;
mod writers;

use std::collections::VecDeque;

use crate::bound::SpaceBound;
use crate::cost::space::{self, Content};
use crate::growth;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::{self, Cause, Merge, Occasion};
use crate::policy::Policy;
use crate::shape::Shape;
use crate::units::Bytes;

pub use keys::Keys;
pub use writers::{STEPS, Writers, Writing};

/// How fast merges are, compared to what arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// All merges end before the next flush.
    Settled,
    /// Flushes and merges together write `speed` buffers' worth of bytes while one buffer fills. What leads to the
    /// smallest level goes first, flushes before all: the level that it empties is the first to be full again.
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
    pub merges: u64,
    /// Moves: single runs that changed their level.
    pub moves: u64,
    /// Changes of shape.
    pub growths: u64,
    /// Runs of each level, level 1 first, seen after each flush (when all merges had ended, if the pace is settled).
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

/// What flushes and merges write from now on if a tree changes its policy, in either way, and if it does not.
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
    /// Bytes that the change costs if the tree is carried over as data arrives; below 0 if it spares more than that.
    pub fn extra_lazily(&self) -> f64 {
        self.lazily.as_f64() - self.kept.as_f64()
    }

    /// The same if the tree takes its form at once.
    pub fn extra_at_once(&self) -> f64 {
        self.at_once.as_f64() - self.kept.as_f64()
    }
}

/// What a change of policy will cost over the flushes to come, before it begins: an estimate for a tree of these runs, at rest, that has one policy and shape and is to have another.
/// The change itself moves no byte; the tree is carried over by merges that arrivals call for, so most of it is paid as data comes, or [at once](Tree::reshape). `flushes` says what a
/// tree of a given shape will flush, `bound` to which bound on space it keeps.
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
pub fn ended(mut occupancy: Occupancy, in_progress: &[Merge]) -> Occupancy {
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
    /// Merges that have begun, the flush among them.
    in_progress: Vec<Merge>,
    /// For each merge in progress, bytes still to be written.
    left: Vec<f64>,
    /// Buffers that wait behind the flush in progress, the next one first.
    waiting: VecDeque<Bytes>,
    next_run: u64,
    report: Report,
    /// What is in the runs, if keys are written more than once.
    drawn: Option<keys::Drawn>,
    /// How much space it may take.
    bound: Option<SpaceBound>,
}

impl<'a> Tree<'a> {
    /// An empty tree in the policy's smallest shape.
    pub fn new(policy: &'a dyn Policy, buffer: Bytes) -> Self {
        Self::resume(policy, policy.shape(Bytes::ZERO, buffer), Occupancy::default())
    }

    /// A tree that has these runs, and takes its next shapes from the policy. Nothing is in progress on it.
    ///
    /// # Panics
    /// If it has runs in levels that the shape lacks.
    pub fn resume(policy: &'a dyn Policy, shape: Shape, occupancy: Occupancy) -> Self {
        assert!(occupancy.deepest() <= shape.last(), "a tree is relabelled when its shape changes");
        let next_run = occupancy.runs().map(|(_, run)| run.id.0).max().unwrap_or(0) + 1;
        let (in_progress, left) = (Vec::new(), Vec::new());
        Self {
            policy,
            shape,
            occupancy,
            in_progress,
            left,
            waiting: VecDeque::new(),
            next_run,
            report: Report::default(),
            drawn: None,
            bound: None,
        }
    }

    /// From now on, the tree keeps to this bound on space, by the rule that the engine has: it is looked at whenever something has arrived.
    #[must_use]
    pub fn bounded(mut self, bound: SpaceBound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// From now on, what is flushed are draws of these keys, and a merge keeps one entry of each. What the tree holds is
    /// taken to be some of them, each once.
    ///
    /// # Panics
    /// If anything is in progress.
    #[must_use]
    pub fn drawing(mut self, keys: Keys) -> Self {
        assert!(self.in_progress.is_empty(), "{:?} in progress", self.in_progress);
        self.drawn = Some(keys::Drawn::new(keys, &self.occupancy));
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
    pub fn in_progress(&self) -> &[Merge] {
        &self.in_progress
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
    }

    /// A buffer is full. Its flush begins at once, unless another one is in progress.
    pub fn seal(&mut self, bytes: Bytes) {
        self.report.flushed += bytes;
        self.waiting.push_back(bytes);
        self.flush_next();
    }

    /// A sorted run comes from outside, younger than all that is there. Nothing is sealed or being flushed. Returns the level at which it
    /// arrives, and begins what follows from that.
    pub fn ingest(&mut self, bytes: Bytes) -> usize {
        assert_eq!(self.sealed(), 0, "what is in buffers is older, and is flushed before a run is ingested");
        let level = planner::entrance(&self.shape, &self.occupancy, &self.in_progress, bytes);
        let run = Run { id: self.new_run(), bytes, entries: None };
        self.occupancy.level_mut(level).insert(0, run);
        // If it makes the tree grow, it is relabelled, and has arrived at another level.
        let level_of = |tree: &Self| {
            let is_idle = !tree.in_progress.iter().any(|merge| merge.inputs.contains(&run.id));
            tree.occupancy.runs().find(|(_, other)| other.id == run.id && is_idle).map(|(level, _)| level)
        };
        let mut examined = None;
        while let Some(level) = level_of(self).filter(|level| Some(*level) != examined) {
            self.arrived(level);
            examined = Some(level);
        }
        self.ask(Occasion::Ingested { run: run.id });
        level
    }

    /// Ends the merge with this index among those in progress, and begins what follows from that.
    pub fn end(&mut self, index: usize) {
        let merge = self.in_progress.remove(index);
        self.left.remove(index);
        if merge.is_partial() {
            return self.arrived(1);
        }
        let bytes = self.output_bytes(&merge);
        let id = if merge.is_move() { merge.inputs[0] } else { self.new_run() };
        if let Some(drawn) = &mut self.drawn {
            drawn.merged(&merge, id);
        }
        planner::finish(&mut self.occupancy, &merge, (bytes > Bytes::ZERO).then_some(Run { id, bytes, entries: None }));
        self.count(&merge, bytes);
        self.arrived(merge.target);
        if merge.target > 1 {
            // What is in level 1 may have had to wait for this merge.
            self.arrived(1);
        }
        if merge.cause == Cause::Flush {
            self.flush_next();
        }
    }

    /// Begins what is to be done for the tree to take the form of its shape; for that, ends what is in the way.
    pub fn reshape(&mut self) {
        let mut level = 1;
        while level <= self.shape.last() {
            if self.grow(level) {
                level = 1;
            } else if planner::fits(&self.shape, &self.occupancy, &self.in_progress, level) {
                level += 1;
            } else if !self.ask(Occasion::Reshape { level }) {
                self.end(0);
            }
        }
    }

    /// Asks the planner on this occasion, and begins what it says; the cause is then the last one in progress.
    pub fn ask(&mut self, occasion: Occasion) -> bool {
        let merge = planner::next_merge(&self.shape, &self.occupancy, &self.in_progress, occasion);
        merge.map(|merge| self.begin(merge)).is_some()
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
            let written = budget.min(self.left[next]);
            budget -= written;
            self.left[next] -= written;
            if self.left[next] > 0.0 {
                return;
            }
            self.end(next);
        }
    }

    fn flush_next(&mut self) {
        if self.is_flushing() {
            return;
        }
        if let Some(bytes) = self.waiting.pop_front() {
            self.begin(planner::flush(&self.shape, &self.occupancy, &self.in_progress, bytes));
        }
    }

    fn arrived(&mut self, level: usize) {
        self.grow(level);
        self.ask(Occasion::Arrived { level });
        if let Some(bound) = self.bound
            && let Some(merge) = bound.next_merge(&self.shape, &self.occupancy, &self.in_progress, &Content::of_size)
        {
            self.begin(merge);
        }
    }

    /// Takes the policy's next shapes as long as what is at this level must go on and fills the last one; true if it did.
    fn grow(&mut self, level: usize) -> bool {
        let before = self.report.growths;
        while planner::outgrown(&self.shape, &self.occupancy, &self.in_progress, level) {
            let Some(shape) = growth::grown(self.policy, &self.shape, self.occupancy.bytes()) else { break };
            self.take_shape(shape);
            self.report.growths += 1;
        }
        self.report.growths > before
    }

    fn begin(&mut self, merge: Merge) {
        planner::begin(&mut self.occupancy, &merge);
        let free = merge.is_move() || merge.is_partial();
        let bytes = if free { Bytes::ZERO } else { self.output_bytes(&merge) };
        self.left.push(bytes.as_f64());
        self.in_progress.push(merge);
    }

    fn output_bytes(&self, merge: &Merge) -> Bytes {
        self.drawn.as_ref().map_or_else(|| merge.buffer + self.bytes_of(merge), |drawn| drawn.output_bytes(merge))
    }

    fn bytes_of(&self, merge: &Merge) -> Bytes {
        let mut runs = self.occupancy.level(merge.target).iter();
        let first = runs.position(|run| merge.inputs.first() == Some(&run.id));
        let rest = runs.take(merge.inputs.len().saturating_sub(1));
        first.map_or(Bytes::ZERO, |at| self.occupancy.level(merge.target)[at].bytes + rest.map(|run| run.bytes).sum())
    }

    fn new_run(&mut self) -> RunId {
        let id = RunId(self.next_run);
        self.next_run += 1;
        id
    }

    fn count(&mut self, merge: &Merge, bytes: Bytes) {
        if merge.is_move() {
            self.report.moves += 1;
            return;
        }
        self.report.merges += u64::from(merge.cause != Cause::Flush);
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
