//! The bound on space, kept by compactions: random histories of flushes, ingested runs, changes of
//! policy and requests, compacted at once or by compactions that end in any order.
//!
//! What must hold: at rest, no tree is above its bound; and compactions whose cause is the bound
//! write no more than the page of [`bound`](tamarack_model::bound) says, whatever the policy.

use tamarack_model::Bytes;
use tamarack_model::bound::{SPACE_BOUND_MIN, SpaceBound};
use tamarack_model::cost::space::worst_now;
use tamarack_model::planner::{Cause, Occasion};
use tamarack_model::policy::{self, ShapeFamily};
use tamarack_model::simulate::Tree;
use tamarack_testing::{Random, seeds};

const POLICIES: [&str; 10] = [
    "leveling:T=10",
    "leveling:T=2",
    "tiering:T=4",
    "tiering:T=30",
    "lazy-leveling:T=5",
    "dostoevsky:T=5,K=2,Z=2",
    "garnering:T=2,c=0.8,first=4",
    "moose:last=0.5,k=2",
    "smoose:last=0.5,k=2,range=0.33,update=0.33",
    "qlsm-bush:T=2,X=2",
];

const BUFFER: u64 = 100;

/// Drives a tree, and sums what compactions for the bound write.
struct World<'a> {
    tree: Tree<'a>,
    seen: Vec<Vec<tamarack_model::RunId>>,
    written: u64,
    came: u64,
}

impl<'a> World<'a> {
    fn new(policy: &'a dyn ShapeFamily, bound: SpaceBound) -> Self {
        let tree = Tree::new(policy, Bytes(BUFFER)).bounded(bound);
        Self { tree, seen: Vec::new(), written: 0, came: 0 }
    }

    /// Counts compactions for the bound that have begun since.
    fn look(&mut self) {
        for plan in self.tree.in_progress().iter().filter(|plan| plan.cause == Cause::SpaceBound) {
            if !self.seen.contains(&plan.inputs) {
                assert!(plan.inputs.len() > 1, "a run alone is not merged for space: {plan}");
                let runs = self.tree.occupancy().runs().filter(|(_, run)| plan.inputs.contains(&run.id));
                self.written += runs.map(|(_, run)| run.bytes.0).sum::<u64>();
                self.seen.push(plan.inputs.clone());
            }
        }
    }

    fn flush(&mut self, bytes: u64) {
        self.came += bytes;
        self.tree.rotate_memtable(Bytes(bytes));
        self.look();
    }

    fn end(&mut self, index: usize) {
        self.tree.end(index);
        self.look();
    }

    fn settle(&mut self) {
        while !self.tree.in_progress().is_empty() {
            self.end(0);
        }
    }
}

/// Bounds from close to the least to what few trees ever reach.
fn random_bound(random: &mut Random) -> SpaceBound {
    let most = [1.02, 1.1, 1.3, 1.5, 2.0, 3.5][random.below(6) as usize];
    SpaceBound::new(most).expect("a bound")
}

/// If all compactions end before the next flush, the tree is within the bound after each flush; and
/// for each byte flushed, at most bound / (bound - 1) are written because of the bound.
#[test]
fn a_settled_tree_is_within_its_bound() {
    let policies = POLICIES.map(|words| policy::parse(words).expect("a policy"));
    let mut some_merged = 0;
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let bound = random_bound(&mut random);
        let most = bound.most();
        let mut world = World::new(&policies[random.below(9) as usize], bound);
        println!("TAMARACK_SEED={seed}");
        for _ in 0..200 {
            match random.below(60) {
                0 => world.tree.change_policy(&policies[random.below(9) as usize]),
                1 => _ = world.tree.ask(Occasion::Compact),
                2 => {
                    let bytes = 1 + random.below(20 * BUFFER);
                    world.came += bytes;
                    world.tree.ingest(Bytes(bytes));
                    world.look();
                }
                _ => world.flush(1 + random.below(2 * BUFFER)),
            }
            world.settle();
            let now = worst_now(world.tree.occupancy());
            assert!(now <= most, "seed {seed}: {now} with a bound of {most}:\n{}", world.tree.occupancy());
            let least = most / (most - 1.0);
            assert!(
                world.written as f64 <= world.came as f64 * least,
                "seed {seed}: {} of {}",
                world.written,
                world.came
            );
        }
        some_merged += u64::from(world.written > 0);
    }
    assert!(some_merged > 50, "{some_merged} histories had compactions for the bound");
}

/// If compactions end in any order, and much later, the tree is within the bound once it has come
/// to rest; and at most twice as much is written for it.
#[test]
fn a_busy_tree_comes_to_rest_within_its_bound() {
    let policies = POLICIES.map(|words| policy::parse(words).expect("a policy"));
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let bound = random_bound(&mut random);
        let most = bound.most();
        let mut world = World::new(&policies[random.below(9) as usize], bound);
        println!("TAMARACK_SEED={seed}");
        for _ in 0..300 {
            let going_on = world.tree.in_progress().len() as u64;
            match random.below(80) {
                0 => world.tree.change_policy(&policies[random.below(9) as usize]),
                1 => _ = world.tree.ask(Occasion::Compact),
                2..40 if going_on > 0 => world.end(random.below(going_on) as usize),
                _ => world.flush(1 + random.below(2 * BUFFER)),
            }
        }
        world.settle();
        let now = worst_now(world.tree.occupancy());
        assert!(now <= most, "seed {seed}: {now} with a bound of {most}:\n{}", world.tree.occupancy());
        let least = 2.0 * most / (most - 1.0);
        assert!(world.written as f64 <= world.came as f64 * least, "seed {seed}: {} of {}", world.written, world.came);
    }
}

/// Without a bound the same trees take more: the test above shows something.
#[test]
fn without_a_bound_trees_take_more() {
    let flushes = vec![Bytes(BUFFER); 300];
    for words in POLICIES {
        let policy = policy::parse(words).expect("a policy");
        let run = |tree: Tree<'_>| tree.run(&flushes, tamarack_model::simulate::Pace::Settled);
        let free = run(Tree::new(&policy, Bytes(BUFFER)));
        let bound = SpaceBound::new(1.5).expect("a bound");
        let bounded = run(Tree::new(&policy, Bytes(BUFFER)).bounded(bound));
        assert!(free.space_worst.most > 1.5, "{words}: {}", free.space_worst.most);
        assert!(bounded.space_worst.most <= 1.5, "{words}: {}", bounded.space_worst.most);
        let (more, less) = (bounded.write_amplification(), free.write_amplification());
        assert!(more <= less + 3.0, "{words}: {more} after {less}");
    }
}

/// What is no bound is refused.
#[test]
fn bounds_are_numbers_above_one() {
    for no in [0.0, 1.0, 1.009, f64::NAN, f64::INFINITY, -2.0] {
        assert_eq!(SpaceBound::new(no), None, "{no}");
    }
    assert_eq!(SpaceBound::new(SPACE_BOUND_MIN).map(|bound| bound.most()), Some(SPACE_BOUND_MIN));
}
