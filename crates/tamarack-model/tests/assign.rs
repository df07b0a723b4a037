//! Filters that runs get when they are built, in trees that grow by simulation: beside the optimum at every moment, and within the budget.

use std::collections::HashMap;

use tamarack_model::allocate::weights::Asked;
use tamarack_model::allocate::{Curve, Load};
use tamarack_model::assign::{Budget, Standing, bits_for_new};
use tamarack_model::simulate::Tree;
use tamarack_model::units::Entries;
use tamarack_model::{Bytes, FilterKind, RunId, policy};

/// Bytes of an entry.
const ENTRY: u64 = 100;

/// Entries of a buffer.
const BUFFER: u64 = 10_000;

/// What was seen while a tree grew.
#[derive(Debug, Default)]
struct Seen {
    moments: f64,
    /// Searches in vain, summed over moments.
    assigned: f64,
    /// The same of the best allocation of the whole budget over the runs of each moment.
    best: f64,
    /// The same with equal bits for all.
    uniform: f64,
    /// At one moment, over the best.
    worst: f64,
    /// The most bits in use, per bit of the budget.
    used: f64,
}

/// Lets a tree grow and gives each run its filter when it is built.
fn grow(words: &str, bits_per_entry: f64, flushes: u64) -> Seen {
    let policy = policy::parse(words).expect("a policy");
    let curve = Curve::new(FilterKind::Bloom);
    let mut tree = Tree::new(policy.as_ref(), Bytes(BUFFER * ENTRY));
    let mut filters: HashMap<RunId, f64> = HashMap::new();
    let mut seen = Seen::default();
    for _ in 0..flushes {
        tree.seal(Bytes(BUFFER * ENTRY));
        while !tree.in_progress().is_empty() {
            tree.end(0);
            give(&curve, bits_per_entry, &tree, &mut filters);
        }
        let standing = standing(&tree, &filters);
        let loads: Vec<Load> = standing.iter().map(|run| Load::new(run.entries.0)).collect();
        let entries: f64 = standing.iter().map(|run| run.entries.0 as f64).sum();
        let assigned: f64 = standing.iter().map(|run| curve.rate(run.filter_bits / run.entries.0 as f64)).sum();
        let best: f64 = curve.allocate(&loads, entries * bits_per_entry).iter().map(|bits| curve.rate(*bits)).sum();
        let used: f64 = standing.iter().map(|run| run.filter_bits).sum::<f64>() / (entries * bits_per_entry);
        seen.moments += 1.0;
        seen.assigned += assigned;
        seen.best += best;
        seen.uniform += curve.rate(bits_per_entry) * loads.len() as f64;
        seen.worst = seen.worst.max(assigned / best);
        seen.used = seen.used.max(used);
    }
    seen
}

/// The runs of the tree, young to old; a new one has no filter yet.
fn standing(tree: &Tree<'_>, filters: &HashMap<RunId, f64>) -> Vec<Standing> {
    let run = |(level, run): (usize, &tamarack_model::Run)| Standing {
        level,
        bytes: run.bytes,
        entries: Entries(run.bytes.0 / ENTRY),
        filter_bits: filters.get(&run.id).copied().unwrap_or(0.0),
        seen: None,
    };
    tree.occupancy().runs().map(run).collect()
}

fn give(curve: &Curve, bits_per_entry: f64, tree: &Tree<'_>, filters: &mut HashMap<RunId, f64>) {
    let ids: Vec<RunId> = tree.occupancy().runs().map(|(_, run)| run.id).collect();
    for (at, id) in ids.iter().enumerate().rev() {
        if !filters.contains_key(id) {
            let runs = standing(tree, filters);
            let bits =
                bits_for_new(curve, Budget { bits_per_entry, asked: &Asked::Found(0.0) }, tree.shape(), &runs, at);
            filters.insert(*id, bits * runs[at].entries.0 as f64);
        }
    }
}

/// While a tree grows from one buffer to a thousand, the bits in use never pass the budget; lookups search little more in vain than the best allocation of the moment would let them, on
/// average, and much less than with equal bits for all.
#[test]
fn growing_trees_are_near_the_optimum() {
    for (words, above) in [
        ("leveling:T=2", 1.20),
        ("leveling:T=4", 1.11),
        ("leveling:T=10", 1.10),
        ("tiering:T=4", 1.20),
        ("lazy-leveling:T=5", 1.39),
        ("dostoevsky:T=6,K=3,Z=2", 1.39),
    ] {
        for bits in [1.0, 2.0, 5.0, 10.0] {
            let seen = grow(words, bits, 1000);
            let (ratio, uniform) = (seen.assigned / seen.best, seen.uniform / seen.best);
            println!(
                "{words:<24} {bits:>4} bits: {:.4} searches in vain, {ratio:.3} of the best, {:.3} at worst; equal bits {uniform:.3}",
                seen.assigned / seen.moments,
                seen.worst,
            );
            assert!(seen.used <= 1.0 + 1e-9, "{words}, {bits} bits: {} of the budget", seen.used);
            assert!((1.0 - 1e-6..above).contains(&ratio), "{words}, {bits} bits: {ratio} of the best");
            assert!(uniform > 1.25 * ratio, "{words}, {bits} bits: {ratio} of the best, equal bits {uniform}");
        }
    }
}

/// When all levels are full, runs have what the best allocation gives them.
#[test]
fn full_trees_have_the_optimum() {
    for power in 2..=10 {
        for bits in [2.0, 5.0, 10.0] {
            let flushes = (1 << power) - 1;
            let (all, before) = (grow("leveling:T=2", bits, flushes), grow("leveling:T=2", bits, flushes - 1));
            let ratio = (all.assigned - before.assigned) / (all.best - before.best);
            assert!((ratio - 1.0).abs() < 1e-6, "2^{power} - 1 buffers, {bits} bits: {ratio} of the best");
        }
    }
}
