//! Filters that runs get when they are built, in trees that grow by simulation: beside the optimum
//! at every moment, and within the budget.

use std::collections::HashMap;

use tamarack_model::allocate::weights::Asked;
use tamarack_model::allocate::{Curve, Load};
use tamarack_model::filter::{Allocation, FilterChoice};
use tamarack_model::filter_plan::{RunFilters, TableFilters, for_new};
use tamarack_model::simulate::Tree;
use tamarack_model::{Bytes, FilterKind, RunId, policy};

/// Bytes of an entry.
const ENTRY: u64 = 100;

/// Entries of a buffer.
const BUFFER: u64 = 10_000;

/// What was seen while a tree grew.
#[derive(Debug, Default)]
struct Seen {
    moments: f64,
    /// False positives, summed over moments.
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
    grow_with(words, bits_per_entry, flushes, |_| ENTRY)
}

/// The same with entries whose size depends on the number of the flush.
fn grow_with(words: &str, bits_per_entry: f64, flushes: u64, entry_bytes: impl Fn(u64) -> u64) -> Seen {
    let policy = policy::parse(words).expect("a policy");
    let curve = Curve::new(FilterKind::Bloom);
    let mut tree = Tree::new(&policy, Bytes(BUFFER * ENTRY));
    let mut filters: HashMap<RunId, f64> = HashMap::new();
    let mut entries: HashMap<RunId, u64> = HashMap::new();
    let mut seen = Seen::default();
    for flush in 0..flushes {
        tree.rotate_memtable(Bytes(BUFFER * ENTRY));
        while let Some(plan) = tree.in_progress().first() {
            let flushed = plan.buffer.0 / entry_bytes(flush);
            let output = flushed + plan.inputs.iter().map(|input| entries[input]).sum::<u64>();
            tree.end(0);
            for (_, run) in tree.occupancy().runs() {
                entries.entry(run.id).or_insert(output);
            }
            give(bits_per_entry, &tree, &entries, &mut filters);
        }
        let runs: Vec<(f64, f64)> = runs(&tree, &entries, &filters).iter().map(entries_and_bits).collect();
        let loads: Vec<Load> = runs.iter().map(|(entries, _)| Load::new(*entries as u64)).collect();
        let entries: f64 = runs.iter().map(|(entries, _)| entries).sum();
        let assigned: f64 = runs.iter().map(|(entries, bits)| curve.rate(bits / entries)).sum();
        let best: f64 = curve.allocate(&loads, entries * bits_per_entry).iter().map(|bits| curve.rate(*bits)).sum();
        let used: f64 = runs.iter().map(|(_, bits)| bits).sum::<f64>() / (entries * bits_per_entry);
        seen.moments += 1.0;
        seen.assigned += assigned;
        seen.best += best;
        seen.uniform += curve.rate(bits_per_entry) * loads.len() as f64;
        seen.worst = seen.worst.max(assigned / best);
        seen.used = seen.used.max(used);
    }
    seen
}

/// The runs of the tree, young to old, each one table; a new one has no filter yet.
fn runs(tree: &Tree<'_>, entries: &HashMap<RunId, u64>, filters: &HashMap<RunId, f64>) -> Vec<RunFilters> {
    let run = |(level, run): (usize, &tamarack_model::Run)| {
        let entries = entries[&run.id];
        let in_use = filters.get(&run.id).map(|bits| (FilterKind::Bloom, *bits));
        let table = TableFilters { entries, live: entries, in_use, ..TableFilters::default() };
        RunFilters { level, bytes: run.bytes, seen: None, tables: vec![table] }
    };
    tree.occupancy().runs().map(run).collect()
}

fn entries_and_bits(run: &RunFilters) -> (f64, f64) {
    (run.tables[0].entries as f64, run.tables[0].in_use.map_or(0.0, |(_, bits)| bits))
}

fn give(bits_per_entry: f64, tree: &Tree<'_>, entries: &HashMap<RunId, u64>, filters: &mut HashMap<RunId, f64>) {
    let choice = FilterChoice::Each { kind: FilterKind::Bloom, bits_per_entry, allocation: Allocation::Monkey };
    let ids: Vec<RunId> = tree.occupancy().runs().map(|(_, run)| run.id).collect();
    for (at, id) in ids.iter().enumerate().rev() {
        if !filters.contains_key(id) {
            let runs = runs(tree, entries, filters);
            let filter = for_new(choice, &Asked::Found(0.0), tree.shape(), &runs, at);
            let bits = filter.map_or(0.0, |filter| filter.bits_per_entry);
            filters.insert(*id, bits * runs[at].tables[0].entries as f64);
        }
    }
}

/// While a tree grows from one buffer to a thousand, the bits in use never pass the budget; lookups
/// have few more false positives than with the best allocation of the moment, on
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
                "{words:<24} {bits:>4} bits: {:.4} false positives, {ratio:.3} of the best, {:.3} at worst; equal bits {uniform:.3}",
                seen.assigned / seen.moments,
                seen.worst,
            );
            assert!(seen.used <= 1.0 + 1e-9, "{words}, {bits} bits: {} of the budget", seen.used);
            assert!((1.0 - 1e-6..above).contains(&ratio), "{words}, {bits} bits: {ratio} of the best");
            assert!(uniform > 1.25 * ratio, "{words}, {bits} bits: {ratio} of the best, equal bits {uniform}");
        }
    }
}

/// Values that grow or shrink over time, so that younger levels have fewer or more entries than a
/// new run's own entries suggest: the bits in use do not pass the budget, and there are at most a
/// seventh more false positives than in trees with entries of one size.
#[test]
fn entries_of_other_sizes_in_younger_levels() {
    const FLUSHES: u64 = 1000;
    // By a factor of 16, steadily.
    let grown = |flush| (ENTRY as f64 * 16_f64.powf(flush as f64 / FLUSHES as f64)) as u64;
    for (words, above) in [("leveling:T=4", 1.18), ("leveling:T=10", 1.14), ("lazy-leveling:T=5", 1.60)] {
        for bits in [2.0, 5.0, 10.0] {
            let growing = grow_with(words, bits, FLUSHES, grown);
            let shrinking = grow_with(words, bits, FLUSHES, |flush| grown(FLUSHES - flush));
            let ratios = [&growing, &shrinking].map(|seen| seen.assigned / seen.best);
            println!("{words:<24} {bits:>4} bits: growing {:.3} of the best, shrinking {:.3}", ratios[0], ratios[1]);
            for (seen, ratio) in [(&growing, ratios[0]), (&shrinking, ratios[1])] {
                assert!(seen.used <= 1.0 + 1e-9, "{words}, {bits} bits: {} of the budget", seen.used);
                assert!((1.0 - 1e-6..above).contains(&ratio), "{words}, {bits} bits: {ratio} of the best");
            }
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
