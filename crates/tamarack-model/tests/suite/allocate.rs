//! The allocator of filter memory, held against optima that were found in other ways.
//!
//! `TAMARACK_SEED` repeats one seed of a randomised test, `TAMARACK_ROUNDS` changes how many are
//! tried.

use tamarack_model::allocate::{
    Curve, LN2_SQUARED, Load, entropy, false_positives, ideal, ideal_rate, uniform, used, weights,
};
use tamarack_model::units::Entries;
use tamarack_model::{FilterKind, filter};
use tamarack_testing::{Random, seeds};

/// A random tree: few or many runs, of sizes within some orders of magnitude, some equal; weights
/// of 1, or any.
fn random_tree(random: &mut Random) -> Vec<Load> {
    let most = if random.below(10) == 0 { 300 } else { 20 };
    let runs = 1 + random.below(most);
    let span = 1 + random.below(20);
    let weighted = random.below(2) == 0;
    (0..runs)
        .map(|_| {
            let entries = 1 + random.below(1000) * (1 << random.below(span));
            let weight = if weighted { random.below(1001) as f64 / 1000.0 } else { 1.0 };
            Load { entries: Entries(entries), weight }
        })
        .collect()
}

fn entries(runs: &[Load]) -> f64 {
    runs.iter().map(|run| run.entries.0 as f64).sum()
}

fn ideal_cost(runs: &[Load], bits: &[f64]) -> f64 {
    false_positives(runs, bits.iter().map(|bits| ideal_rate(*bits)))
}

/// The optimum on the ideal curve by the dual problem, without sorting or a closed form: the
/// largest of a concave function of the price, found by ternary search. By strong duality it is the
/// least cost; it is computed in another way, and from below.
fn dual_optimum(runs: &[Load], bits: f64) -> f64 {
    // For price e^x: each run by itself minimises w p + price n b, where p = e^(-b c), by p =
    // min(1, price n / (w c)).
    let dual = |x: f64| -> f64 {
        let price = x.exp();
        let each = runs.iter().filter(|run| run.weight > 0.0).map(|run| {
            let (entries, weight) = (run.entries.0 as f64, run.weight);
            let rate = (price * entries / (weight * LN2_SQUARED)).min(1.0);
            weight * rate - price * entries * rate.ln() / LN2_SQUARED
        });
        each.sum::<f64>() - price * bits
    };
    let (mut low, mut high) = (-120.0, 5.0);
    for _ in 0..200 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if dual(a) < dual(b) { low = a } else { high = b }
    }
    dual((low + high) / 2.0)
}

/// On the ideal curve, the allocation costs what the dual problem says is the least possible, to
/// 10⁻⁶; it uses the bits that there are, and where all runs have filters it is the identity R =
/// 2^H · e^(-m ln²2).
#[test]
fn ideal_is_the_optimum() {
    let mut with_all_filtered = 0;
    for seed in seeds(10_000) {
        let mut random = Random::new(seed);
        let runs = random_tree(&mut random);
        let bits = entries(&runs) * random.below(2000) as f64 / 100.0;
        let allocated = ideal(&runs, bits);
        let counted: Vec<Load> = runs.iter().copied().filter(|run| run.weight > 0.0).collect();
        let cost = ideal_cost(&runs, &allocated);
        let least = dual_optimum(&runs, bits);
        assert!((cost - least).abs() <= 1e-6 * least.max(1e-9), "seed {seed}: {cost} instead of {least}");
        if counted.is_empty() {
            continue;
        }
        let used = used(&runs, &allocated);
        assert!(used <= bits * (1.0 + 1e-12) && used >= bits * (1.0 - 1e-9), "seed {seed}: {used} of {bits} bits");
        if counted.len() == runs.len() && runs.iter().all(|run| run.weight == 1.0) && allocated.iter().all(|b| *b > 0.0)
        {
            let identity = entropy(&runs).exp2() * (-bits / entries(&runs) * LN2_SQUARED).exp();
            assert!((cost / identity - 1.0).abs() < 1e-9, "seed {seed}: {cost} instead of {identity}");
            with_all_filtered += 1;
        }
    }
    assert!(with_all_filtered > 0 || std::env::var_os("TAMARACK_SEED").is_some());
}

/// Runs of very different sizes: what the large one takes part in must not swallow what the small
/// one does. Without bits nothing is given out.
#[test]
fn ideal_does_not_cancel() {
    for (large, small) in [(1e15, 1.0), (1e15, 3.0), (1e12, 7.0), (1e18, 1.0)] {
        let runs: Vec<Load> = [large, small].into_iter().map(|entries| Load::new(entries as u64)).collect();
        assert_eq!(ideal(&runs, 0.0), [0.0, 0.0]);
        // Too few for the large one: all for the small one.
        let few = ideal(&runs, 5.0 * small);
        assert!(few[0] == 0.0 && (few[1] - 5.0).abs() < 1e-9, "{few:?}");
        let mut many = vec![Load::new(large as u64)];
        many.extend([Load::new(1); 500]);
        assert!((ideal_cost(&many, &ideal(&many, 0.0)) - 501.0).abs() < 1e-9);
    }
}

/// The best that any allocation on a grid reaches, on a real curve.
fn brute_force(curve: &Curve, runs: &[Load], bits: f64) -> f64 {
    const STEP: f64 = 0.25;
    fn best(rates: &[f64], runs: &[Load], bits: f64, so_far: f64, least: &mut f64) {
        let Some((run, rest)) = runs.split_first() else {
            *least = least.min(so_far);
            return;
        };
        let affordable = (bits / run.entries.0 as f64 / STEP + 1e-9) as usize;
        if rest.is_empty() {
            // The last one gets all that is left.
            return best(rates, rest, 0.0, so_far + run.weight * rates[affordable.min(rates.len() - 1)], least);
        }
        for step in 0..=affordable.min(rates.len() - 1) {
            let cost = so_far + run.weight * rates[step];
            best(rates, rest, bits - step as f64 * STEP * run.entries.0 as f64, cost, least);
        }
    }
    let rates: Vec<f64> = (0..=256).map(|step| curve.rate(f64::from(step) * STEP)).collect();
    let mut least = f64::MAX;
    best(&rates, runs, bits, 0.0, &mut least);
    least
}

/// On real curves, with their whole numbers of probes, no allocation of a fine grid beats the
/// allocator by more than 1 % on small trees.
#[test]
fn real_curves_are_within_a_hundredth_of_brute_force() {
    for kind in FilterKind::OF_ONE_PIECE {
        let curve = Curve::new(kind);
        let mut worst = 0.0_f64;
        for seed in seeds(300) {
            let mut random = Random::new(seed);
            let count = 1 + random.below(4) as usize;
            let mut runs: Vec<Load> = random_tree(&mut random).into_iter().cycle().take(count).collect();
            for run in &mut runs {
                // Sizes that a grid can share out, within a factor of some hundreds.
                run.entries = Entries(1 << random.below(9));
            }
            let most = if count == 4 { 600 } else { 1600 };
            let bits = entries(&runs) * random.below(most) as f64 / 100.0;
            let allocated = curve.allocate(&runs, bits);
            assert!(used(&runs, &allocated) <= bits * (1.0 + 1e-9) + 1e-9, "{kind:?}, seed {seed}");
            let cost = false_positives(&runs, allocated.iter().map(|bits| curve.rate(*bits)));
            let least = brute_force(&curve, &runs, bits);
            worst = worst.max(cost / least.max(1e-12) - 1.0);
            assert!(
                cost <= least * 1.01 + 1e-12,
                "{kind:?}, seed {seed}: {cost} instead of {least} for {bits} bits, {runs:?}: {allocated:?}"
            );
        }
        println!("{kind:?}: at most {:.3} % above brute force", worst * 100.0);
    }
}

/// The least cost on a fine grid for up to three runs of any sizes: the largest has all that the
/// others leave.
fn fine_brute_force(curve: &Curve, runs: &[Load], bits: f64) -> f64 {
    let grid: Vec<f64> =
        (0..64).map(|step| f64::from(step) / 16.0).chain((16..112).map(|step| f64::from(step) / 4.0)).collect();
    let rates: Vec<f64> = grid.iter().map(|bits| curve.rate(*bits)).collect();
    let mut by_size = runs.to_vec();
    by_size.sort_by_key(|run| run.entries);
    let (largest, others) = by_size.split_last().expect("a run");
    let mut ways = vec![(bits, 0.0)];
    for run in others {
        let more = |(left, cost): (f64, f64)| {
            let each = grid
                .iter()
                .zip(&rates)
                .map(move |(bits, rate)| (left - bits * run.entries.0 as f64, cost + run.weight * rate));
            each.take_while(|(left, _)| *left >= 0.0)
        };
        ways = ways.into_iter().flat_map(more).collect();
    }
    let all = ways.into_iter().map(|(left, cost)| cost + largest.weight * curve.rate(left / largest.entries.0 as f64));
    all.fold(f64::INFINITY, f64::min)
}

/// Two and three runs of any sizes and weights, with few bits as well: within 1 % of a fine grid.
/// The worst of 50,000 such trees (`TAMARACK_ROUNDS=25000`, both kinds) is 0.76 % above it. That is
/// no bound: with 50,000 rounds one tree of 72 entries is 1.04 % above it.
#[test]
fn small_trees_are_close_to_a_fine_grid() {
    let load = |(entries, weight): (u64, f64)| Load { entries: Entries(entries), weight };
    let known = [(1401, 0.1), (7, 1.0), (7552, 0.5)].map(load);
    for kind in FilterKind::OF_ONE_PIECE {
        let curve = Curve::new(kind);
        let check = |runs: &[Load], bits: f64| {
            let allocated = curve.allocate(runs, bits);
            assert!(used(runs, &allocated) <= bits * (1.0 + 1e-9) + 1e-9, "{runs:?}, {bits} bits: {allocated:?}");
            let cost = false_positives(runs, allocated.iter().map(|bits| curve.rate(*bits)));
            let least = fine_brute_force(&curve, runs, bits);
            let off = cost / least.max(1e-12) - 1.0;
            assert!(off <= 0.01, "{kind:?}, {runs:?}, {bits} bits: {cost} instead of {least}, {allocated:?}");
            off
        };
        let mut worst = check(&known, 0.50877 * entries(&known));
        for seed in seeds(1000) {
            let mut random = Random::new(seed);
            let span = 1 + random.below(14);
            let runs: Vec<Load> = (0..2 + random.below(2))
                .map(|_| {
                    let entries = 1 + random.below(1000) * (1 << random.below(span)) / 16;
                    load((entries, [1.0, 0.5, 0.1, 0.01 + 0.01 * random.below(100) as f64][random.below(4) as usize]))
                })
                .collect();
            let most = [100, 300, 1200][random.below(3) as usize];
            worst = worst.max(check(&runs, entries(&runs) * random.below(most) as f64 / 100.0));
        }
        println!("{kind:?}: at most {:.3} % above a fine grid", worst * 100.0);
    }
}

/// Monkey's Algorithms 2 to 4: bits are moved between pairs of runs, fewer and fewer at a time,
/// while that lowers the sum of rates.
fn autotune(runs: &[Load], bits: f64) -> Vec<f64> {
    let rate = |run: &Load, bits: f64| ideal_rate(bits / run.entries.0 as f64);
    let mut given = vec![0.0; runs.len()];
    given[0] = bits;
    let mut delta = bits;
    while delta >= 1.0 {
        let mut changed = false;
        for to in 0..runs.len() {
            for from in 0..runs.len() {
                if to == from || given[from] - delta <= 0.0 {
                    continue;
                }
                let before = rate(&runs[to], given[to]) + rate(&runs[from], given[from]);
                let after = rate(&runs[to], given[to] + delta) + rate(&runs[from], given[from] - delta);
                if after < before {
                    given[to] += delta;
                    given[from] -= delta;
                    changed = true;
                }
            }
        }
        if !changed {
            delta /= 2.0;
        }
    }
    given.iter().zip(runs).map(|(bits, run)| bits / run.entries.0 as f64).collect()
}

/// Water-filling reaches what Monkey's iterative algorithm (AutotuneFilters) reaches.
#[test]
fn autotune_agrees() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let runs: Vec<Load> =
            (0..1 + random.below(8)).map(|_| Load::new(1000 + random.below(1000) * (1 << random.below(10)))).collect();
        let bits = entries(&runs) * (1 + random.below(12)) as f64;
        let (by_moves, by_filling) =
            (ideal_cost(&runs, &autotune(&runs, bits)), ideal_cost(&runs, &ideal(&runs, bits)));
        assert!((by_moves / by_filling - 1.0).abs() < 1e-3, "seed {seed}: {by_moves}, {by_filling}");
        assert!(by_filling <= by_moves * (1.0 + 1e-9), "seed {seed}: {by_moves}, {by_filling}");
    }
}

/// An allocation for the lookups that there are is never worse for them than one for lookups of
/// absent keys, and better for most.
#[test]
fn weights_never_hurt() {
    let curve = Curve::new(FilterKind::Bloom);
    let mut gains = 0;
    for seed in seeds(500) {
        let mut random = Random::new(seed);
        let sizes: Vec<u64> =
            (0..2 + random.below(20)).map(|_| 1 + random.below(100) * (1 << random.below(12))).collect();
        let found = random.below(101) as f64 / 100.0;
        let weights = weights::weights(&weights::by_entries(&sizes), found);
        let missing: Vec<Load> = sizes.iter().map(|size| Load::new(*size)).collect();
        let mixed: Vec<Load> = missing.iter().zip(weights).map(|(run, weight)| Load { weight, ..*run }).collect();
        let bits = entries(&missing) * (1 + random.below(1000)) as f64 / 100.0;
        let cost = |allocated: Vec<f64>| false_positives(&mixed, allocated.into_iter().map(|bits| curve.rate(bits)));
        let (general, zero) = (cost(curve.allocate(&mixed, bits)), cost(curve.allocate(&missing, bits)));
        assert!(general <= zero * 1.01 + 1e-12, "seed {seed}: {general} for the mix, {zero} for absent keys");
        assert!(general <= cost(uniform(&mixed, bits)) * (1.0 + 1e-9), "seed {seed}");
        gains += u64::from(general < zero * 0.99);
        // On the ideal curve, where both are exact, never by anything.
        let ideal_of = |runs: &[Load]| ideal_cost(&mixed, &ideal(runs, bits));
        assert!(ideal_of(&mixed) <= ideal_of(&missing) * (1.0 + 1e-9) + 1e-15, "seed {seed}: {found} found");
    }
    assert!(gains > 200 || std::env::var_os("TAMARACK_SEED").is_some(), "{gains} gains");
}

/// What cannot have filters gets none, and what is of no use is not given out.
#[test]
fn nothing_for_nothing() {
    for kind in FilterKind::OF_ONE_PIECE {
        let curve = Curve::new(kind);
        assert!(curve.allocate(&[], 100.0).is_empty());
        let idle = Load { weight: 0.0, ..Load::new(10) };
        assert_eq!(curve.allocate(&[idle, Load::new(0)], 100.0), [0.0, 0.0]);
        assert_eq!(curve.allocate(&[Load::new(10)], 0.0), [0.0]);
        let much = curve.allocate(&[Load::new(10), idle], 1e9);
        assert!(much[0] > 40.0 && much[0] <= filter::BITS_MAX && much[1] == 0.0, "{much:?}");
    }
    assert!(ideal(&[], 1.0).is_empty());
    assert_eq!(uniform(&[], 1.0), [0.0; 0]);
}
