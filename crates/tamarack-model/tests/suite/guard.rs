//! The uncertainty guard against brute force over workloads, and with its dual as a certificate: a
//! workload within the divergence shows that the worst cost is no less, and for any λ the dual that
//! it is no more.

use tamarack_model::navigator::guard::{self, WorstCase};
use tamarack_testing::{Random, seeds};

/// Two to five operations with random costs and shares; sometimes one that is not expected, costs
/// that are equal, or of very different size.
fn operations(random: &mut Random) -> (Vec<f64>, Vec<f64>) {
    let count = 2 + random.below(4) as usize;
    let size = *random.pick(&[1e-6, 1.0, 1.0, 1e6]);
    let mut costs: Vec<f64> = (0..count).map(|_| size * 10_f64.powf(3.0 * random.fraction() - 1.5)).collect();
    let mut shares: Vec<f64> = (0..count).map(|_| 10_f64.powf(-3.0 * random.fraction())).collect();
    if random.one_in(4) {
        costs[0] = costs[1];
    }
    if random.one_in(4) && count > 2 {
        shares[count - 1] = 0.0;
    }
    let sum: f64 = shares.iter().sum();
    (costs, shares.into_iter().map(|share| share / sum).collect())
}

fn mean(costs: &[f64], workload: &[f64]) -> f64 {
    costs.iter().zip(workload).map(|(cost, share)| cost * share).sum()
}

/// The largest cost among operations that are expected, and the divergence of having these alone.
fn extreme(costs: &[f64], expected: &[f64]) -> (f64, f64) {
    let there = || costs.iter().zip(expected).filter(|(_, share)| **share > 0.0);
    let largest = there().map(|(cost, _)| *cost).fold(f64::NEG_INFINITY, f64::max);
    let share: f64 = there().filter(|(cost, _)| **cost == largest).map(|(_, share)| share).sum();
    (largest, -share.ln())
}

/// `λ ρ + λ ln Σ w_i e^(c_i / λ)`.
fn dual(costs: &[f64], expected: &[f64], rho: f64, lambda: f64) -> f64 {
    let (largest, _) = extreme(costs, expected);
    let sum: f64 =
        costs.iter().zip(expected).filter(|(_, w)| **w > 0.0).map(|(c, w)| w * ((c - largest) / lambda).exp()).sum();
    lambda * rho + largest + lambda * sum.ln()
}

/// The dual's least value by golden sections over ln λ; as a function of it, it has one minimum.
fn least_dual(costs: &[f64], expected: &[f64], rho: f64) -> f64 {
    let at = |x: f64| dual(costs, expected, rho, x.exp());
    let size = costs.iter().fold(0.0_f64, |size, cost| size.max(cost.abs())).ln();
    let (mut low, mut high) = (size - 40.0, size + 20.0);
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..150 {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        if at(a) < at(b) { high = b } else { low = a }
    }
    at(low + (high - low) / 2.0)
}

/// What must hold of every answer but that nothing is worse.
fn check(costs: &[f64], expected: &[f64], rho: f64, found: &WorstCase) {
    let context = || format!("{costs:?} with {expected:?}, rho {rho}: {found:?}");
    let (largest, divergence_of_largest) = extreme(costs, expected);
    assert!((found.workload.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{}", context());
    let stated = mean(costs, &found.workload);
    assert!((found.cost - stated).abs() <= 1e-12 * largest.abs(), "its cost is {stated}: {}", context());
    let divergence = guard::divergence(&found.workload, expected);
    if rho >= divergence_of_largest {
        assert_eq!(found.cost, largest, "{}", context());
    } else {
        assert!((divergence - rho).abs() <= 1e-8 * rho + 1e-15, "{divergence} nats: {}", context());
    }
}

/// For 2,000 random designs: the worst workload has the divergence and the cost that it should
/// have, and the dual, minimised apart, is the same number.
#[test]
fn the_dual_says_the_same() {
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let (costs, expected) = operations(&mut random);
        let rho = 10_f64.powf(5.0 * random.fraction() - 4.0);
        let found = guard::worst_case(&costs, &expected, rho);
        check(&costs, &expected, rho, &found);
        let (largest, _) = extreme(&costs, &expected);
        let bound = least_dual(&costs, &expected, rho);
        assert!(
            (found.cost - bound).abs() <= 1e-9 * largest,
            "seed {seed}: {} and {bound} for {costs:?} with {expected:?}, rho {rho}",
            found.cost
        );
    }
}

/// The workload in this direction from the expected one whose divergence is `rho`, or which has
/// nothing left of some operation.
fn towards(expected: &[f64], direction: &[f64], rho: f64) -> Vec<f64> {
    let there = expected.iter().zip(direction);
    let most = there.clone().filter(|(_, d)| **d < 0.0).map(|(w, d)| -w / d).fold(f64::INFINITY, f64::min);
    let at = |distance: f64| -> Vec<f64> { there.clone().map(|(w, d)| (w + distance * d).max(0.0)).collect() };
    let (mut low, mut high) = (0.0, most);
    if guard::divergence(&at(high), expected) <= rho {
        return at(high);
    }
    for _ in 0..80 {
        let middle = low + (high - low) / 2.0;
        if guard::divergence(&at(middle), expected) <= rho { low = middle } else { high = middle }
    }
    at(low)
}

/// Brute force: the worst workload on the border of the ball, by random directions within the
/// simplex, first any, then near the best.
fn brute(costs: &[f64], expected: &[f64], rho: f64, random: &mut Random) -> f64 {
    let direction = |around: &[f64], width: f64, random: &mut Random| -> Option<Vec<f64>> {
        let mut found: Vec<f64> = around
            .iter()
            .zip(expected)
            .map(|(d, w)| if *w > 0.0 { d + width * (2.0 * random.fraction() - 1.0) } else { 0.0 })
            .collect();
        let count = expected.iter().filter(|w| **w > 0.0).count() as f64;
        let mean = found.iter().sum::<f64>() / count;
        found.iter_mut().zip(expected).filter(|(_, w)| **w > 0.0).for_each(|(d, _)| *d -= mean);
        let length = found.iter().map(|d| d * d).sum::<f64>().sqrt();
        (length > 1e-12).then(|| found.iter().map(|d| d / length).collect())
    };
    let nowhere = vec![0.0; costs.len()];
    let (mut best, mut worst_way) = (mean(costs, expected), nowhere.clone());
    for round in 0..3000 {
        let (around, width) =
            if round < 300 { (&nowhere, 1.0) } else { (&worst_way, 0.5_f64.powf(f64::from(round - 300) / 90.0)) };
        let Some(direction) = direction(around, width, random) else { continue };
        let cost = mean(costs, &towards(expected, &direction, rho));
        if cost > best {
            (best, worst_way) = (cost, direction);
        }
    }
    best
}

/// No workload in the ball that brute force tries is worse, and the worst of them is as bad within
/// a hundred-thousandth of what the ball adds to the expected cost. Balls contain no workload of
/// one operation alone: climbing would end there. For larger ones the dual is the test.
#[test]
fn brute_force_finds_nothing_worse() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let (costs, expected) = operations(&mut random);
        let corner = expected.iter().filter(|w| **w > 0.0).map(|w| -w.ln()).fold(f64::INFINITY, f64::min);
        let rho = corner * 10_f64.powf(-3.0 * random.fraction());
        let found = guard::worst_case(&costs, &expected, rho).cost;
        let tried = brute(&costs, &expected, rho, &mut random);
        let context = format!("seed {seed}: {tried}, {costs:?} with {expected:?}, rho {rho}");
        assert!(found >= tried * (1.0 - 1e-12), "{found} is no worst case: {context}");
        let added = found - mean(&costs, &expected);
        assert!(found - tried <= 1e-5 * added + 1e-12 * found, "{found} is too bad: {context}");
    }
}

/// Without divergence it is the expected cost; with enough, the largest one that is expected;
/// between them it rises.
#[test]
fn it_rises_from_the_expected_to_the_largest_cost() {
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let (costs, expected) = operations(&mut random);
        let (largest, divergence_of_largest) = extreme(&costs, &expected);
        let none = guard::worst_case(&costs, &expected, 0.0);
        assert!((none.cost - mean(&costs, &expected)).abs() <= 1e-12 * largest, "seed {seed}: {none:?}");
        let same = none.workload.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-15);
        assert!(same, "seed {seed}: {none:?} from {expected:?}");
        let all = guard::worst_case(&costs, &expected, f64::INFINITY);
        assert_eq!(all.cost, largest, "seed {seed}");
        let mut before = none.cost;
        for power in -40..=10 {
            let rho = 2_f64.powi(power);
            let found = guard::worst_case(&costs, &expected, rho);
            check(&costs, &expected, rho, &found);
            assert!(found.cost >= before - 1e-12 * largest, "seed {seed}: {found:?} after {before}");
            let is_more = found.cost > before || rho >= divergence_of_largest || largest - before < 1e-9 * largest;
            assert!(is_more || costs.iter().all(|cost| *cost == largest), "seed {seed}, {rho}: {found:?}, {before}");
            before = found.cost;
        }
    }
}

/// By hand: two operations that are equally likely, of which one costs 1 and the other nothing. A
/// share of 0.9 has the divergence ln 2 - H(0.9).
#[test]
fn by_hand() {
    let entropy = -(0.9 * 0.9_f64.ln() + 0.1 * 0.1_f64.ln());
    let found = guard::worst_case(&[0.0, 1.0], &[1.0, 1.0], std::f64::consts::LN_2 - entropy);
    assert!((found.cost - 0.9).abs() < 1e-12 && (found.workload[0] - 0.1).abs() < 1e-12, "{found:?}");
    // What is not expected stays away, at any price.
    let found = guard::worst_case(&[3.0, 1e30, 2.0], &[0.5, 0.0, 0.5], f64::INFINITY);
    assert_eq!(found, WorstCase { cost: 3.0, workload: vec![1.0, 0.0, 0.0] });
    // Costs that are all alike, and a single operation.
    assert_eq!(guard::worst_case(&[2.0, 2.0], &[0.25, 0.75], 1.0).cost, 2.0);
    assert_eq!(guard::worst_case(&[7.0], &[0.1], 0.3), WorstCase { cost: 7.0, workload: vec![1.0] });
    // Costs that hardly differ, or differ by as much as numbers can.
    let near = guard::worst_case(&[1.0, 1.0 + f64::EPSILON], &[0.5, 0.5], 0.1);
    assert!((1.0..=1.0 + f64::EPSILON).contains(&near.cost), "{near:?}");
    let far = guard::worst_case(&[1e-300, 1e300], &[0.5, 0.5], 1e-3);
    assert!((far.cost / 1e300 - guard::worst_case(&[0.0, 1.0], &[0.5, 0.5], 1e-3).cost).abs() < 1e-12, "{far:?}");
    assert_eq!(guard::divergence(&[0.5, 0.5], &[1.0, 0.0]), f64::INFINITY);
}

/// Divergences from 10⁻²⁰ up to just below that of the largest cost alone are met; costs are right
/// to the last digits there, too.
#[test]
fn divergences_near_the_extremes() {
    let (costs, expected) = ([5.0, 1.0, 3.0], [1e-6, 0.6, 0.399999]);
    let (expected_cost, variance) = (mean(&costs, &expected), {
        let mean = mean(&costs, &expected);
        costs.iter().zip(&expected).map(|(c, w)| w * (c - mean).powi(2)).sum::<f64>()
    });
    for power in -20..=-8 {
        // For small ones, the cost rises by √(2 ρ Var c).
        let rho = 10_f64.powi(power);
        let found = guard::worst_case(&costs, &expected, rho).cost;
        let rises = (2.0 * rho * variance).sqrt();
        assert!((found - expected_cost - rises).abs() < 1e-3 * rises + 1e-15, "rho {rho}: {found}, not {rises} more");
    }
    let (_, most) = extreme(&costs, &expected);
    for power in 1..=15 {
        let rho = most * (1.0 - 10_f64.powi(-power));
        let found = guard::worst_case(&costs, &expected, rho);
        check(&costs, &expected, rho, &found);
        assert!(found.cost <= 5.0, "{found:?}");
    }
}

/// The choice among designs is that of the least worst case; the first of equal ones.
#[test]
fn the_most_robust_design() {
    let mut differ = 0;
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let (_, expected) = operations(&mut random);
        let designs: Vec<Vec<f64>> =
            (0..6).map(|_| expected.iter().map(|_| 10_f64.powf(2.0 * random.fraction())).collect()).collect();
        let rho = random.fraction();
        let (chosen, worst) = guard::least_worst_case(&designs, &expected, rho).expect("designs");
        assert_eq!(worst, guard::worst_case(&designs[chosen], &expected, rho));
        for (index, design) in designs.iter().enumerate() {
            let other = guard::worst_case(design, &expected, rho).cost;
            assert!(other > worst.cost || index == chosen, "seed {seed}: {index} costs {other}, {chosen} {worst:?}");
        }
        let (nominal, _) = guard::least_worst_case(&designs, &expected, 0.0).expect("designs");
        differ += u32::from(nominal != chosen);
    }
    assert!(differ > 30, "the guard decides: {differ} of 300");
    let alike = [[1.0, 2.0], [1.0, 2.0]];
    assert_eq!(guard::least_worst_case(&alike, &[0.5, 0.5], 0.1).map(|(index, _)| index), Some(0));
    assert_eq!(guard::least_worst_case::<[f64; 2]>(&[], &[0.5, 0.5], 0.1), None);
}
