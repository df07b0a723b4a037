//! Monkey's closed forms beside exact sums over the runs of full trees: where they agree, and how
//! far off they are for few levels.

use tamarack_model::allocate::weights::{in_oldest, weights};
use tamarack_model::allocate::{Load, ideal, ideal_rate, uniform};
use tamarack_model::cost::lookup;
use tamarack_model::cost::monkey::{Merging, MonkeyTree};
use tamarack_model::units::Entries;

/// Large enough that whole entries do not matter in the smallest run.
const SMALLEST: f64 = 1e6;

/// The runs of a full tree, young to old.
fn runs(tree: &MonkeyTree, levels: u32) -> Vec<Load> {
    let per_level = tree.runs() as usize;
    let size = |level: u32| (SMALLEST * tree.ratio.powi(level as i32) / per_level as f64) as u64;
    (0..levels).flat_map(|level| std::iter::repeat_n(Load::new(size(level)), per_level)).collect()
}

fn rates(allocated: &[f64]) -> Vec<f64> {
    allocated.iter().map(|bits| ideal_rate(*bits)).collect()
}

fn bits_of(runs: &[Load], bits_per_entry: f64) -> f64 {
    runs.iter().map(|run| run.entries.0 as f64).sum::<f64>() * bits_per_entry
}

/// The exact least number of block reads of a lookup that finds nothing.
fn exact(tree: &MonkeyTree, levels: u32, bits_per_entry: f64) -> f64 {
    let runs = runs(tree, levels);
    lookup::zero_result(&rates(&ideal(&runs, bits_of(&runs, bits_per_entry))))
}

const LEVELING: fn(f64) -> MonkeyTree = |ratio| MonkeyTree { ratio, merging: Merging::Leveling };
const TIERING: fn(f64) -> MonkeyTree = |ratio| MonkeyTree { ratio, merging: Merging::Tiering };

/// Eq. 7: with many levels the closed form is the exact sum, with filters on all levels and without
/// on the largest ones; for few levels it is too high by as much as is said here, at 5 bits per
/// entry.
#[test]
fn zero_result_is_the_limit() {
    for tree in [LEVELING(2.0), LEVELING(4.0), LEVELING(10.0), TIERING(3.0), TIERING(6.0)] {
        for bits in [0.05, 0.3, 1.0, 5.0, 10.0] {
            let levels = if tree.ratio == 2.0 { 24 } else { 12 };
            let (closed, sum) = (tree.zero_result(bits, levels), exact(&tree, levels, bits));
            assert!((closed / sum - 1.0).abs() < 2e-3, "{tree:?} at {bits} bits: {closed}, {sum}");
        }
    }
    assert_eq!(LEVELING(2.0).zero_result(1.0, 2), 2.0, "no more than the runs");
    for (ratio, levels, off) in [(2.0, 5, 0.15), (2.0, 8, 0.026), (4.0, 5, 0.008), (10.0, 3, 0.008)] {
        let tree = LEVELING(ratio);
        let error = tree.zero_result(5.0, levels) / exact(&tree, levels, 5.0) - 1.0;
        assert!((error / off - 1.0).abs() < 0.15, "T = {ratio}, {levels} levels: {error} instead of {off}");
    }
}

/// Eq. 8 and what follows: below the threshold, as many levels go without filters as the exact
/// allocation leaves without.
#[test]
fn unfiltered_levels() {
    for tree in [LEVELING(2.0), LEVELING(5.0), TIERING(4.0)] {
        let levels = 16;
        let runs = runs(&tree, levels);
        for bits in [0.02, 0.1, 0.5, 1.0, 3.0] {
            let allocated = ideal(&runs, bits_of(&runs, bits));
            let without = allocated.iter().filter(|bits| **bits == 0.0).count() as u32 / tree.runs() as u32;
            assert_eq!(tree.unfiltered(bits, levels), without, "{tree:?} at {bits} bits");
        }
    }
}

/// Eq. 32 and 33: the rates for a given cost are those that the exact allocation of their memory
/// has.
#[test]
fn rates_for_a_cost() {
    for tree in [LEVELING(2.0), LEVELING(4.0), TIERING(3.0)] {
        for reads in [0.01, 0.5, 1.5, 3.2] {
            let levels = 7;
            let by_level = tree.rates(reads, levels);
            let runs = runs(&tree, levels);
            let per_level = tree.runs() as usize;
            let bits: f64 = runs
                .iter()
                .enumerate()
                .map(|(at, run)| {
                    -by_level[at / per_level].ln() / tamarack_model::allocate::LN2_SQUARED * run.entries.0 as f64
                })
                .sum();
            let optimal = rates(&ideal(&runs, bits));
            for (at, rate) in optimal.iter().enumerate() {
                assert!((rate / by_level[at / per_level] - 1.0).abs() < 1e-4, "{tree:?}, R = {reads}: {optimal:?}");
            }
            assert!((lookup::zero_result(&optimal) / reads - 1.0).abs() < 1e-4, "{tree:?}, R = {reads}");
        }
    }
}

/// Appendix D: equal bits for all entries cost the same in every run.
#[test]
fn uniform_is_the_baseline() {
    let tree = TIERING(4.0);
    let runs = runs(&tree, 5);
    let sum = lookup::zero_result(&rates(&uniform(&runs, bits_of(&runs, 10.0))));
    assert!((tree.zero_result_uniform(10.0, 5) / sum - 1.0).abs() < 1e-9);
}

/// Eq. 18 to 20: with lookups that find something in the largest level, all of whose runs have one
/// rate, the closed form is the exact sum.
#[test]
fn mixed_is_the_limit() {
    for tree in [LEVELING(2.0), LEVELING(4.0), LEVELING(10.0), TIERING(3.0), TIERING(6.0)] {
        for found in [0.0, 0.5, 0.9] {
            for bits in [0.02, 0.3, 1.0, 3.0, 8.0] {
                let levels = if tree.ratio == 2.0 { 20 } else { 10 };
                let runs = runs(&tree, levels);
                let oldest = tree.runs() as usize;
                let targets = in_oldest(oldest, runs.len());
                let each = weights(&targets, found);
                let of_largest: f64 = each[runs.len() - oldest..].iter().sum::<f64>() / oldest as f64;
                let of_level = |at: usize| if at < runs.len() - oldest { 1.0 } else { of_largest };
                let loads: Vec<Load> =
                    runs.iter().enumerate().map(|(at, run)| Load { weight: of_level(at), ..*run }).collect();
                let allocated = rates(&ideal(&loads, bits_of(&runs, bits)));
                let sum = lookup::mixed(&allocated, &targets, found);
                let closed = tree.mixed(bits, levels, found);
                assert!((closed / sum - 1.0).abs() < 5e-3, "{tree:?}, {found} found, {bits} bits: {closed}, {sum}");
            }
        }
    }
}

/// A weight for each run of a tiered largest level does better than the paper's one rate for all of
/// them: by 4 % for T = 6, two lookups of three finding something, 5 bits per entry.
#[test]
fn weights_for_each_run_do_better() {
    let tree = TIERING(6.0);
    let found = 2.0 / 3.0;
    let runs = runs(&tree, 6);
    let targets = in_oldest(5, runs.len());
    let each = weights(&targets, found);
    let mean = each[runs.len() - 5..].iter().sum::<f64>() / 5.0;
    let cost = |weight: &dyn Fn(usize) -> f64| {
        let loads: Vec<Load> = runs
            .iter()
            .enumerate()
            .map(|(at, run)| Load { entries: Entries(run.entries.0), weight: weight(at) })
            .collect();
        lookup::mixed(&rates(&ideal(&loads, bits_of(&runs, 5.0))), &targets, found) - found
    };
    let of_level = cost(&|at| if at < runs.len() - 5 { 1.0 } else { mean });
    let of_each = cost(&|at| each[at]);
    let better = 1.0 - of_each / of_level;
    assert!((0.03..0.05).contains(&better), "better by {better}");
}

/// Eq. 1 does not lose or add a level where the logarithm is whole.
#[test]
fn levels_of_whole_logarithms() {
    for (ratio, data, levels) in
        [(2.0, 1.0, 1), (2.0, 2.0, 1), (2.0, 1024.0, 9), (2.0, 1025.0, 10), (10.0, 1000.0 / 0.9, 3)]
    {
        assert_eq!(LEVELING(ratio).levels(data), levels, "{ratio}, {data}");
    }
}

/// What optimal filters need to cost as little as equal ones with 10 bits per entry do, with T = 2
/// and ten levels: 8.1 bits if nothing is found, 4.1 if everything is found in the largest level,
/// which then goes without. (Monkey §6 says 6 and 4 in its text.)
#[test]
fn memory_for_the_cost_of_ten_bits() {
    let runs = runs(&LEVELING(2.0), 10);
    let targets = in_oldest(1, runs.len());
    for (found, expected) in [(0.0, 8.1), (1.0, 4.1)] {
        let loads: Vec<Load> =
            runs.iter().zip(weights(&targets, found)).map(|(run, weight)| Load { weight, ..*run }).collect();
        let cost = |bits: f64| lookup::mixed(&rates(&ideal(&loads, bits_of(&runs, bits))), &targets, found);
        let equal = lookup::mixed(&rates(&uniform(&runs, bits_of(&runs, 10.0))), &targets, found);
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if cost(middle) > equal { low = middle } else { high = middle }
        }
        assert!((high - expected).abs() < 0.05, "{high} bits instead of {expected}, {found} found");
    }
}
