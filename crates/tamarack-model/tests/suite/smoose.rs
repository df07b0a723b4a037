//! SMOOSE's search against brute force, and beside MOOSE on the published workloads; and the policy
//! of its name.

use tamarack_model::navigator::smoose::{self, OperationCosts, SmooseDesign, SmooseTask, WORKLOADS};
use tamarack_model::policy::structure::LevelCost;
use tamarack_model::policy::{self, Moose, Policy, ShapeFamily, Smoose};
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, Shape};
use tamarack_testing::{Random, seeds};

use super::moose::{grown, shape_is_the_formula};

/// Memtables of one byte, which makes sizes numbers of memtables.
fn task(buffers: u64, [ranges, updates, lookups]: [f64; 3], bits_per_entry: f64, entries_per_block: f64) -> SmooseTask {
    let workload = Workload::of_parts(lookups, 0.0, ranges, updates, 0.0).expect("a workload");
    SmooseTask { capacity: Bytes(buffers), buffer: Bytes(1), bits_per_entry, entries_per_block, workload }
}

/// A random workload, some of whose operations may be rare or missing, and a random tree.
fn random_task(buffers: u64, random: &mut Random) -> SmooseTask {
    let mut share = || if random.one_in(8) { 0.0 } else { 10_f64.powf(-3.0 * random.fraction()) };
    let mut parts = [share(), share(), share()];
    parts[random.below(3) as usize] += 0.01;
    let (bits, block) = (*random.pick(&[0.0, 0.5, 2.0, 5.0, 10.0]), *random.pick(&[0.5, 1.0, 4.0, 40.0]));
    task(buffers, parts, bits, block)
}

/// All structures of levels above the last: capacities in memtables.
fn structures(from: u64, above: u64, last: u64) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    if above >= 2 * from && 2 * last >= 3 * above {
        found.push(vec![above, last]);
    }
    for ratio in 2..=above / (3 * from) {
        let next = from * ratio;
        found.extend(structures(next, above - next, last).into_iter().map(|rest| [vec![next], rest].concat()));
    }
    found
}

fn ratios(levels: &[u64]) -> Vec<f64> {
    let batches = [1].into_iter().chain(levels.iter().copied());
    levels.iter().zip(batches).map(|(level, batch)| *level as f64 / batch as f64).collect()
}

/// What a level costs: `√r`, or the best of all numbers of runs.
fn level_cost(ratio: f64, mixed: Option<(f64, f64)>) -> f64 {
    mixed.map_or(ratio.sqrt(), |(range, update)| {
        let of = |runs: u64| range * runs as f64 + update * ratio / runs as f64;
        (1..=ratio as u64).map(of).fold(f64::INFINITY, f64::min)
    })
}

/// Eq. 17 for levels in so many runs. Rates in proportion to `N_i / n_i`, by bisection.
fn eq_17(levels: &[u64], runs: &[f64], task: &SmooseTask) -> f64 {
    let all: f64 = levels.iter().map(|level| *level as f64).sum();
    let rate = |factor: f64, at: usize| (factor * levels[at] as f64 / runs[at]).min(1.0);
    let memory = |factor: f64| -> f64 {
        (0..levels.len()).map(|at| levels[at] as f64 * -rate(factor, at).ln() / std::f64::consts::LN_2.powi(2)).sum()
    };
    let (mut low, mut high) = (-200.0, 50.0);
    for _ in 0..100 {
        let middle: f64 = (low + high) / 2.0;
        if memory(middle.exp()) > task.bits_per_entry * all { low = middle } else { high = middle }
    }
    let lookup: f64 = (0..levels.len()).map(|at| runs[at] * rate(high.exp(), at)).sum();
    let update: f64 = ratios(levels).iter().zip(runs).map(|(ratio, runs)| ratio / runs).sum::<f64>();
    let workload = task.workload;
    workload.ranges * runs.iter().sum::<f64>()
        + workload.updates * update / task.entries_per_block
        + workload.zero_result * lookup
}

/// The least of Eq. 17 over k, tried on both sides of all numbers where a level gets one run more.
fn least_over_k(levels: &[u64], task: &SmooseTask) -> f64 {
    let ratios = ratios(levels);
    let root = ratios.iter().copied().fold(0.0, f64::max).sqrt();
    let halves = ratios.iter().flat_map(|ratio| (0..*ratio as u64 + 1).map(move |m| (m as f64 + 0.5) / ratio.sqrt()));
    let near = halves.flat_map(|k| [k * (1.0 - 1e-9), k * (1.0 + 1e-9)]);
    let all = near.chain([1.0 / root, root]).filter(|k| (1.0 / root..=root).contains(k));
    let runs = |k: f64| -> Vec<f64> {
        ratios.iter().map(|ratio| (k * ratio.sqrt()).round().min(ratio.floor()).max(1.0)).collect()
    };
    all.map(|k| eq_17(levels, &runs(k), task)).fold(f64::INFINITY, f64::min)
}

/// The search's answer by brute force: for each last level and both costs of a level, all
/// structures, of which the cheapest by that cost is taken; then all k. The lower and the upper
/// end differ where several structures are the cheapest.
fn brute(buffers: u64, task: &SmooseTask) -> (f64, f64) {
    let LevelCost::Mixed { range, update } = task.level_cost() else { panic!("the cost is the workload's") };
    let (mut low, mut high) = (f64::INFINITY, f64::INFINITY);
    for last in buffers.div_ceil(2)..=buffers {
        let all = if last == buffers { vec![vec![last]] } else { structures(1, buffers - last, last) };
        for mixed in [None, Some((range, update))] {
            let cost = |levels: &[u64]| ratios(levels).iter().map(|ratio| level_cost(*ratio, mixed)).sum::<f64>();
            let least = all.iter().map(|levels| cost(levels)).fold(f64::INFINITY, f64::min);
            let cheapest = all.iter().filter(|levels| cost(levels) <= least * (1.0 + 1e-9));
            let of: Vec<f64> = cheapest.map(|levels| least_over_k(levels, task)).collect();
            if !of.is_empty() {
                low = low.min(of.iter().copied().fold(f64::INFINITY, f64::min));
                high = high.min(of.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
    (low, high)
}

/// For the published workloads and random ones, in trees of up to 200 memtables: as good as brute
/// force over all structures and all k.
#[test]
fn as_good_as_brute_force() {
    let (mut tried, mut decided) = (0, 0);
    let mut compare = |buffers: u64, task: &SmooseTask, name: &str| {
        let found = smoose::search(task);
        let (low, high) = brute(buffers, task);
        let context =
            format!("{buffers} memtables, {name}, {task:?}: {}, from {low} to {high}\n{}", found.cost, found.shape);
        assert!(low * (1.0 - 1e-9) <= found.cost && found.cost <= high * (1.0 + 1e-9), "{context}");
        tried += 1;
        decided += u32::from(high <= low * (1.0 + 1e-9));
    };
    for buffers in (2..=40).chain([100, 200]) {
        for (name, parts) in WORKLOADS {
            compare(buffers, &task(buffers, parts, 5.0, 4.0), &name.to_string());
        }
    }
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let buffers = 2 + random.below(99);
        compare(buffers, &random_task(buffers, &mut random), &format!("seed {seed}"));
    }
    assert!(decided * 10 > tried * 9, "the answer is one number in {decided} of {tried}");
}

/// Eq. 17's parts are those of the cost functions and of the sheet of formulas.
#[test]
fn costs_are_the_formulas() {
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let buffers = 20 + random.below(5_000);
        let task = random_task(buffers, &mut random);
        let found = smoose::search(&task);
        let levels: Vec<u64> = found.shape.levels().iter().map(|level| level.capacity.0).collect();
        let runs: Vec<f64> = found.shape.levels().iter().map(|level| f64::from(level.runs)).collect();
        assert_eq!(levels.iter().sum::<u64>(), buffers, "all that is asked for:\n{}", found.shape);
        let expected = eq_17(&levels, &runs, &task);
        assert!(
            (found.cost / expected - 1.0).abs() < 1e-6,
            "seed {seed}: {}, not {expected}\n{}",
            found.cost,
            found.shape
        );
        assert_eq!(found.costs, OperationCosts::of(&found.shape, task.entries_per_block, task.bits_per_entry));
        assert_eq!(found.cost, found.costs.mean(&task.workload));
    }
}

/// How much is lost because ratios are chosen by the cost of levels alone, and runs by k: against
/// all structures with all numbers of runs.
#[test]
fn near_the_best_of_all() {
    let (mut sum, mut worst, mut count) = (0.0, 0.0_f64, 0.0);
    for buffers in [10, 23, 40] {
        for (name, parts) in WORKLOADS {
            let task = task(buffers, parts, 5.0, 4.0);
            let mut least = f64::INFINITY;
            for last in buffers.div_ceil(2)..=buffers {
                let all = if last == buffers { vec![vec![last]] } else { structures(1, buffers - last, last) };
                for levels in all {
                    least = least.min(least_over_runs(&levels, &task));
                }
            }
            let lost = smoose::search(&task).cost / least - 1.0;
            println!("{buffers} memtables, {name}: {:+.2} %", 100.0 * lost);
            assert!(lost > -1e-9, "{buffers} memtables, {name}: better than all there is by {lost}");
            (sum, worst, count) = (sum + lost, worst.max(lost), count + 1.0);
        }
    }
    println!("mean {:.4}, worst {worst:.4}", sum / count);
    assert!(sum / count < 0.01 && worst < 0.06, "mean {}, worst {worst}", sum / count);
}

/// Over all numbers of runs of each level.
fn least_over_runs(levels: &[u64], task: &SmooseTask) -> f64 {
    let mut least = f64::INFINITY;
    let most: Vec<f64> = ratios(levels).iter().map(|ratio| ratio.floor()).collect();
    let mut runs = vec![1.0; levels.len()];
    loop {
        least = least.min(eq_17(levels, &runs, task));
        let Some(at) = (0..runs.len()).find(|at| runs[*at] < most[*at]) else { return least };
        runs[..at].fill(1.0);
        runs[at] += 1.0;
    }
}

/// Trees of the paper's size (its structures imply about 10,500 memtables) and of a billion entries
/// of 1 KB over 32 MiB.
const SIZES: [u64; 2] = [10_500, 30_518];

/// The published workloads: never worse than MOOSE's default or than any structure for `√r`.
#[test]
fn never_worse_than_moose() {
    let default = Moose::new(0.8, 1.0).expect("a policy");
    for (buffers, (name, parts)) in SIZES.into_iter().flat_map(|buffers| WORKLOADS.map(|workload| (buffers, workload)))
    {
        let task = task(buffers, parts, 5.0, 4.0);
        let found = smoose::search(&task);
        let moose = default.with_last((buffers * 4).div_ceil(5), Bytes(1));
        assert!(moose.capacity().0.abs_diff(buffers) <= 2, "as large: {}", moose.capacity());
        let of_moose = OperationCosts::of(&moose, 4.0, 5.0).mean(&task.workload);
        let shares = (500..=1000).step_by(10).map(|share| (buffers * share).div_ceil(1000));
        let of_root = smoose::search_among(&task, shares, &[LevelCost::Root]).expect("a structure").cost;
        let context =
            format!("{buffers} memtables, {name}: {}, MOOSE {of_moose}, √r {of_root}\n{}", found.cost, found.shape);
        assert!(found.cost <= of_moose && found.cost <= of_root * 1.001, "{context}");
    }
}

/// The steps of the last level are fine enough: all capacities find at most this much better ones.
#[test]
fn steps_are_fine_enough() {
    let (buffers, mut sum, mut worst, mut count) = (600, 0.0, 0.0_f64, 0.0);
    let published = WORKLOADS.map(|(_, parts)| task(buffers, parts, 5.0, 4.0)).into_iter();
    for task in published.chain(seeds(5).map(|seed| random_task(buffers, &mut Random::new(seed)))) {
        let costs = [LevelCost::Root, task.level_cost()];
        let all = smoose::search_among(&task, buffers / 2..=buffers, &costs).expect("a structure").cost;
        let lost = smoose::search(&task).cost / all - 1.0;
        assert!(lost > -1e-12, "{lost}, {task:?}");
        (sum, worst, count) = (sum + lost, worst.max(lost), count + 1.0);
    }
    println!("mean {:.5}, worst {worst:.5}", sum / count);
    assert!(sum / count < 0.002 && worst < 0.01, "mean {}, worst {worst}", sum / count);
}

/// The policy that a design names has its structure for the same last level, and is read back as it
/// is printed.
#[test]
fn designs_name_policies() {
    let mut named = 0;
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let buffers = 2 + random.below(10_000);
        let task = random_task(buffers, &mut random);
        let design = smoose::search(&task);
        let Some(found) = design.policy() else {
            let range = (0.5..=0.99).contains(&design.last()) && (0.01..=100.0).contains(&design.runs);
            assert!(!range, "seed {seed}: {design:?} has no policy");
            continue;
        };
        let last = design.shape.holds().0;
        let same = match &found {
            Policy::Moose(moose) => moose.with_last(last, Bytes(1)),
            Policy::Smoose(smoose) => smoose.with_last(last, Bytes(1)),
            other => panic!("{other}"),
        };
        assert_eq!(same, design.shape, "seed {seed}: {found}, {task:?}");
        assert_eq!(policy::parse(&found.to_string()), Ok(found));
        named += 1;
    }
    assert!(named > 50, "{named} of 100 have a policy");
}

/// Any task has an answer: of two memtables or a billion, of one kind of operations, without
/// filters.
#[test]
fn any_task_has_an_answer() {
    let all = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1e-9, 0.0], [1e-9, 1.0, 1e-9]];
    let small = [2, 3, 5, 300, 20_000].into_iter().flat_map(|buffers| all.map(|parts| (buffers, parts)));
    for (buffers, parts) in small.chain([(1_000_000_000, all[4])]) {
        let found = smoose::search(&task(buffers, parts, if buffers % 2 == 0 { 0.0 } else { 10.0 }, 4.0));
        assert_eq!(found.shape.capacity(), Bytes(buffers), "{parts:?}:\n{}", found.shape);
        assert!(found.cost > 0.0 && found.cost.is_finite(), "{found:?}");
    }
}

/// More scans make fewer runs and levels, more updates more; lookups make the last level larger.
#[test]
fn workloads_decide() {
    let of = |parts| smoose::search(&task(10_500, parts, 5.0, 4.0));
    let runs = |design: &SmooseDesign| design.shape.levels().iter().map(|level| u64::from(level.runs)).sum::<u64>();
    let (scans, even, updates) = (of([98.0, 1.0, 1.0]), of([33.0, 33.0, 33.0]), of([1.0, 98.0, 1.0]));
    assert!(runs(&scans) < runs(&even) && runs(&even) < runs(&updates));
    assert!(scans.shape.last() < even.shape.last());
    assert!(scans.costs.update > even.costs.update && even.costs.update > updates.costs.update);
}

/// The shapes of the policy, as it grows: the last level's share, whole ratios, and runs rounded
/// and bounded; and for what it is made for, no dearer than MOOSE's with the same k.
#[test]
fn shapes_of_the_policy() {
    let mut cheaper = 0;
    for (share, [range, update], regulator) in [
        (0.8, [0.33, 0.0825], 0.5),
        (0.85, [0.98, 0.0025], 0.0505),
        (0.6, [0.01, 0.245], 4.95),
        (0.5, [0.4, 0.05], 1.0),
        (0.99, [1.0, 1.0], 1.0),
    ] {
        let policy = Smoose::new(share, regulator, range, update).expect("a policy");
        let mut shape = policy.shape(Bytes::ZERO, Bytes(1000));
        while shape.holds() < Bytes(20_000_000) {
            let context = format!("{policy}:\n{shape}");
            shape_is_the_formula(&shape, share, regulator, &context);
            let of_levels = |shape: &Shape| -> f64 {
                (1..=shape.last()).map(|level| level_cost(shape.ratio(level), Some((range, update)))).sum()
            };
            let moose = Moose::new(share, regulator).expect("a policy").with_last(shape.holds().0 / 1000, Bytes(1000));
            assert!(of_levels(&shape) <= of_levels(&moose) * (1.0 + 1e-9), "{context}MOOSE:\n{moose}");
            cheaper += u32::from(of_levels(&shape) < of_levels(&moose) * 0.99);
            shape = grown(&policy, &shape, &context);
        }
    }
    assert!(cheaper > 50, "by a hundredth or more in {cheaper} shapes");
}
