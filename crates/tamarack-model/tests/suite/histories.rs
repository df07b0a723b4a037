//! Random histories: shapes, flushes of odd sizes, concurrent compactions that end in any order,
//! changes of shape in mid-history, and requests of every cause.
//!
//! What must hold after every step:
//!
//! * **nothing is lost, nothing passes another**: each run knows the first and last flush whose
//!   entries are in it; from old to young through the whole tree, these ranges follow each other
//!   without a gap, compactions in progress or not;
//! * **no run is in two compactions**, and the inputs of each are neighbours in its target level;
//! * **slots are kept**: when all compactions have ended, a level has at most as many runs as
//!   slots, or as many as the last change of shape left there;
//! * **at once**: asked level by level, a tree at rest takes the form of its shape;
//! * **nothing is stuck**: when all compactions have ended, level 1 is not full, unless it is the
//!   last.

use std::collections::BTreeMap;

use tamarack_model::planner::{self, Cause, CompactionPlan, Occasion};
use tamarack_model::{Bytes, Level, Occupancy, Run, RunId, Shape};
use tamarack_testing::{Random, seeds};

/// A tree, driven by hand, so that every step can be checked.
struct World {
    shape: Shape,
    tree: Occupancy,
    in_progress: Vec<(CompactionPlan, Flushes)>,
    /// What each run that ever was is made of.
    made_of: BTreeMap<RunId, Flushes>,
    /// Bytes of each flush, in order.
    flushed: Vec<u64>,
    /// How many flushes have arrived.
    arrived: usize,
    /// The most runs that each level may have at rest.
    allowed: Vec<usize>,
}

/// Flushes `first..end`, of which a run is made.
type Flushes = std::ops::Range<usize>;

impl World {
    fn new(shape: Shape) -> Self {
        let mut world = Self {
            tree: Occupancy::default(),
            in_progress: Vec::new(),
            made_of: BTreeMap::new(),
            flushed: Vec::new(),
            arrived: 0,
            allowed: Vec::new(),
            shape,
        };
        world.allow();
        world
    }

    fn compactions(&self) -> Vec<CompactionPlan> {
        self.in_progress.iter().map(|(plan, _)| plan.clone()).collect()
    }

    fn allow(&mut self) {
        let slots = |level: usize| self.shape.level(level).runs as usize;
        self.allowed = (1..=self.shape.last()).map(|level| slots(level).max(self.tree.level(level).len())).collect();
    }

    fn flush(&mut self, bytes: u64) {
        let plan = planner::flush(&self.shape, &self.tree, &self.compactions(), Bytes(bytes));
        assert!(plan.inputs.len() <= 1 && plan.target == 1, "{plan}");
        self.flushed.push(bytes);
        self.begin(plan);
    }

    fn begin(&mut self, plan: CompactionPlan) {
        let number = self.flushed.len();
        let young = if plan.cause == Cause::Flush { number - 1..number } else { number..number };
        let ranges = plan.inputs.iter().map(|run| self.made_of[run].clone());
        let whole = ranges.fold(young, |young, old| {
            assert!(young.is_empty() || old.end == young.start, "inputs are neighbours: {plan}");
            old.start..if young.is_empty() { old.end } else { young.end }
        });
        planner::begin(&mut self.tree, &plan);
        self.in_progress.push((plan, whole));
    }

    /// Ends a compaction; a flush only if it is the first of those in progress.
    fn end(&mut self, index: usize) {
        let (mut plan, mut made_of) = self.in_progress.remove(index);
        if plan.is_partial() {
            return self.ask(Occasion::Arrived { level: 1 });
        }
        if plan.cause == Cause::Flush {
            let first = self.in_progress[..index].iter().position(|(plan, _)| plan.cause == Cause::Flush);
            if let Some(first) = first {
                self.in_progress.insert(index, (plan, made_of));
                (plan, made_of) = self.in_progress.remove(first);
            }
            self.arrived += 1;
        }
        let bytes = Bytes(self.flushed[made_of.clone()].iter().sum());
        let id = if plan.is_move() { plan.inputs[0] } else { RunId(self.made_of.len() as u64) };
        self.made_of.insert(id, made_of);
        planner::finish(&mut self.tree, &plan, Some(Run { id, bytes, entries: None }));
        self.ask(Occasion::Arrived { level: plan.target });
        self.ask(Occasion::Arrived { level: 1 });
    }

    fn ask(&mut self, occasion: Occasion) {
        if let Some(plan) = planner::next_compaction(&self.shape, &self.tree, &self.compactions(), occasion) {
            self.begin(plan);
        }
    }

    /// Reshapes the tree at once, as the engine does on request; returns the number of compactions.
    /// Each run that was at rest is in at most one of them.
    fn reshape(&mut self) -> u64 {
        let (mut compactions, mut level, was_at_rest) = (0, 1, self.in_progress.is_empty());
        while level <= self.shape.last() {
            if planner::fits(&self.shape, &self.tree, &self.compactions(), level) {
                level += 1;
                continue;
            }
            let before = self.in_progress.len();
            self.ask(Occasion::Reshape { level });
            if self.in_progress.len() > before {
                compactions += 1;
            } else {
                assert!(!was_at_rest, "level {level} waits for another:\n{}\n{}", self.shape, self.tree);
                self.end(0);
            }
        }
        compactions
    }

    fn relabel(&mut self, shape: Shape) {
        let (tree, compactions) = planner::relabel(&self.tree, &self.compactions(), &shape);
        self.tree = tree;
        self.in_progress.iter_mut().zip(compactions).for_each(|((plan, _), new)| *plan = new);
        self.shape = shape;
        self.allow();
    }

    fn settle(&mut self) {
        while !self.in_progress.is_empty() {
            self.end(0);
        }
    }

    fn check(&self) {
        let mut end = 0;
        for (_, run) in self.tree.runs().rev() {
            let made_of = &self.made_of[&run.id];
            assert_eq!(made_of.start, end, "{} follows what is older in\n{}", run.id, self.tree);
            assert_eq!(run.bytes.0, self.flushed[made_of.clone()].iter().sum::<u64>());
            end = made_of.end;
        }
        assert_eq!(end, self.arrived, "everything that has arrived is there:\n{}", self.tree);
        for (index, (plan, _)) in self.in_progress.iter().enumerate() {
            let others = self.in_progress[..index].iter().flat_map(|(plan, _)| &plan.inputs);
            assert!(others.into_iter().all(|run| !plan.inputs.contains(run)), "{plan} shares a run with another");
            if plan.is_partial() {
                continue;
            }
            let runs = self.tree.level(plan.target);
            let first = plan.inputs.first().and_then(|first| runs.iter().position(|run| run.id == *first)).unwrap_or(0);
            let beside = runs[first..].iter().map(|run| run.id).take(plan.inputs.len());
            assert!(beside.eq(plan.inputs.iter().copied()), "{plan} in\n{}", self.tree);
        }
    }

    fn check_rest(&self) {
        for level in 1..=self.shape.last() {
            let (runs, allowed) = (self.tree.level(level).len(), self.allowed[level - 1]);
            assert!(
                runs <= allowed,
                "{runs} runs in level {level}, {allowed} are allowed:\n{}\n{}",
                self.shape,
                self.tree
            );
        }
        // By the definition, not by the function that the planner asks.
        let (buffer, capacity) = (self.shape.buffer().as_f64(), self.shape.level(1).capacity.as_f64());
        let batches = (capacity / buffer + 33.0 / 64.0).floor().max(1.0);
        let full = self.tree.level_bytes(1).as_f64() >= f64::min((batches - 0.5) * buffer, capacity);
        assert!(!full || self.shape.last() == 1, "level 1 is stuck:\n{}\n{}", self.shape, self.tree);
    }
}

fn random_shape(random: &mut Random, least: u64) -> Shape {
    let buffer = 1 + random.below(6);
    let mut batch = buffer;
    let levels = (0..least + random.below(5)).map(|_| {
        let capacity = (batch * 3).div_ceil(2) + random.below(batch * 8);
        let runs = 1 + random.below(capacity / batch);
        batch = capacity;
        Level { capacity: Bytes(capacity), runs: u32::try_from(runs).expect("few") }
    });
    Shape::new(Bytes(buffer), levels.collect()).expect("a shape")
}

/// One random step; most are flushes and ends of compactions.
fn step(world: &mut World, random: &mut Random, relabels: bool) {
    let some_run = world.tree.runs().next_back().map(|(_, run)| run.id);
    match random.below(40) {
        0 if relabels => world.relabel(random_shape(random, 1)),
        1 => world.ask(Occasion::Compact),
        2 => world.ask(Occasion::SpaceBound),
        3 => world.ask(Occasion::CompactRange),
        5 => world.ask(Occasion::Reshape { level: 1 + random.below(world.shape.last() as u64) as usize }),
        4 => some_run.into_iter().for_each(|run| world.ask(Occasion::TombstonesDue { run })),
        6..20 if !world.in_progress.is_empty() => world.end(random.below(world.in_progress.len() as u64) as usize),
        _ => world.flush(1 + random.below(2 * world.shape.buffer().0)),
    }
}

#[test]
fn invariants_hold_in_random_histories() {
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut world = World::new(random_shape(&mut random, 1));
        println!("TAMARACK_SEED={seed}");
        for _ in 0..300 {
            step(&mut world, &mut random, true);
            world.check();
        }
        world.settle();
        world.check();
        let bytes: u64 = world.flushed.iter().sum();
        assert_eq!(world.tree.bytes().0, bytes, "seed {seed}");
    }
}

/// Whatever a change of shape has left, and whatever is in progress then: looked at from small to
/// large, each level takes the form of its shape, and no run is written twice.
#[test]
fn a_tree_takes_the_form_of_its_shape() {
    let mut compactions = 0;
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut world = World::new(random_shape(&mut random, 1));
        println!("TAMARACK_SEED={seed}");
        for _ in 0..10 {
            for _ in 0..30 {
                step(&mut world, &mut random, false);
            }
            let is_at_rest = random.below(2) == 0;
            if is_at_rest {
                world.settle();
            }
            world.relabel(random_shape(&mut random, 1));
            compactions += world.reshape();
            world.check();
            world.settle();
            world.check();
            // During compactions, flushed memtables may have become runs of their own.
            for level in (1..=world.shape.last()).filter(|_| is_at_rest) {
                let fits = planner::fits(&world.shape, &world.tree, &[], level);
                assert!(fits, "level {level} in\n{}\n{}", world.shape, world.tree);
            }
        }
    }
    assert!(compactions > 500, "{compactions} compactions");
}

/// With all compactions run to completion after each step, a level never has more runs than slots,
/// except for what a change of shape left.
#[test]
fn slots_are_kept_at_rest() {
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut world = World::new(random_shape(&mut random, 1));
        println!("TAMARACK_SEED={seed}");
        for _ in 0..300 {
            let before = world.shape.clone();
            step(&mut world, &mut random, true);
            world.settle();
            world.check();
            if world.shape == before {
                world.check_rest();
            } else {
                world.allow();
            }
        }
    }
}

/// Runs that concurrent compactions left in excess of the slots go away by ordinary arrivals, once
/// compactions have time to end. (Not in a tree of one level, where only flushes arrive, which join
/// one run at most; it has to grow first.)
#[test]
fn excess_goes_away() {
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let shape = random_shape(&mut random, 2);
        let mut world = World::new(shape.clone());
        println!("TAMARACK_SEED={seed}");
        for _ in 0..100 {
            step(&mut world, &mut random, false);
            world.check();
        }
        world.settle();
        // A full cycle of every level but the last: each level is emptied, or gets a batch that
        // takes the excess along.
        let cycle: u64 = (1..shape.last()).map(|level| shape.level(level).capacity.0).sum::<u64>() / shape.buffer().0;
        for _ in 0..=2 * cycle + 1 {
            world.flush(shape.buffer().0);
            world.settle();
        }
        world.allowed = shape.levels().iter().map(|level| level.runs as usize).collect();
        world.check_rest();
    }
}
