//! What SMOOSE's search finds for the ten workloads of the MOOSE paper, how long it takes, and how
//! much better it is than MOOSE's default and than structures for `√r`. With the argument `all`,
//! also what finer and coarser steps of the last level find, and times up to 10^12 memtables: that
//! takes many minutes.
//!
//! ```text
//! cargo run --release -p tamarack-model --example smoose_speed [-- all]
//! ```

#![expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]

use std::hint::black_box;
use std::time::Instant;

use tamarack_model::navigator::smoose::{self, OperationCosts, SmooseDesign, SmooseTask, WORKLOADS};
use tamarack_model::policy::Moose;
use tamarack_model::policy::structure::LevelCost;
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, Shape};

const BITS_PER_ENTRY: f64 = 5.0;
const ENTRIES_PER_BLOCK: f64 = 4.0;

fn main() {
    let trees = [
        ("11 GB over 1 MiB, the size that the paper's structures imply", 11_000_000_000, 1 << 20),
        ("a billion entries of 1 KB over 32 MiB", 1_000_000_000 * 1024, 32 << 20),
    ];
    let all = std::env::args().nth(1).is_some_and(|word| word == "all");
    for (name, capacity, buffer) in trees {
        println!("{name}: {} memtables\n", capacity / buffer);
        compare(Bytes(capacity), Bytes(buffer));
        if all {
            steps(Bytes(capacity), Bytes(buffer));
        }
    }
    if all {
        sizes();
        extremes();
    }
}

fn task(capacity: Bytes, buffer: Bytes, [ranges, updates, lookups]: [f64; 3]) -> SmooseTask {
    let workload = Workload::of_parts(lookups, 0.0, ranges, updates, 0.0).expect("a workload");
    SmooseTask { capacity, buffer, bits_per_entry: BITS_PER_ENTRY, entries_per_block: ENTRIES_PER_BLOCK, workload }
}

/// Last levels of half of all and more: neighbouring ones leave levels above them that differ by
/// this factor, or by a memtable.
fn lasts(task: &SmooseTask, factor: f64) -> Vec<u64> {
    let buffers = task.capacity.0.div_ceil(task.buffer.0);
    let above = std::iter::successors(Some(buffers as f64 / 2.0), |above| Some(above / factor));
    let mut above: Vec<u64> = above.map(|above| above as u64).take_while(|above| *above >= 2).collect();
    above.push(0);
    above.dedup();
    above.into_iter().map(|above| buffers - above).collect()
}

/// Each workload beside MOOSE's default and searches with one cost of a level.
fn compare(capacity: Bytes, buffer: Bytes) {
    println!(
        "| | cost | MOOSE | √r only | mixed only | mixed to √r | ms | last | k | level cost | ratios | runs |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---|---|---|"
    );
    for (name, parts) in WORKLOADS {
        let task = task(capacity, buffer, parts);
        let (found, milliseconds) = timed(|| smoose::search(black_box(&task)));
        let last = capacity.0.div_ceil(buffer.0) * 4 / 5;
        let moose = Moose::new(0.8, 1.0).expect("a policy").with_last(last, buffer);
        let of_moose = OperationCosts::of(&moose, ENTRIES_PER_BLOCK, BITS_PER_ENTRY).mean(&task.workload);
        let only = |cost| smoose::search_among(&task, lasts(&task, 1.01), &[cost]).expect("a structure").cost;
        let (root, mixed) = (only(LevelCost::Root), only(task.level_cost()));
        let SmooseDesign { shape, level_cost, runs, cost, .. } = &found;
        let level_cost = if *level_cost == LevelCost::Root { "√r" } else { "mixed" };
        println!(
            "| {name} | {cost:.4} | {:+.1} % | {:+.2} % | {:+.2} % | {:+.2} % | {milliseconds:.1} | {:.2} | {runs} | {level_cost} | {} | {} |",
            percent(of_moose, *cost),
            percent(root, *cost),
            percent(mixed, *cost),
            percent(mixed, root),
            found.last(),
            ratios(shape),
            slots(shape),
        );
    }
    println!();
}

fn percent(other: f64, one: f64) -> f64 {
    100.0 * (other / one - 1.0)
}

fn ratios(shape: &Shape) -> String {
    (1..=shape.last()).map(|level| format!("{:.1}", shape.ratio(level))).collect::<Vec<_>>().join(" ")
}

fn slots(shape: &Shape) -> String {
    shape.levels().iter().map(|level| level.runs.to_string()).collect::<Vec<_>>().join(" ")
}

/// What steps of the last level lose, beside steps of a hundredth.
fn steps(capacity: Bytes, buffer: Bytes) {
    let all: Vec<(char, SmooseTask)> = WORKLOADS.map(|(name, parts)| (name, task(capacity, buffer, parts))).into();
    let with = |task: &SmooseTask, factor: f64| {
        let costs = [LevelCost::Root, task.level_cost()];
        smoose::search_among(task, lasts(task, factor), &costs).expect("a structure").cost
    };
    let finest: Vec<f64> = all.iter().map(|(_, task)| with(task, 1.01)).collect();
    println!("| levels above the last, by | ms, all ten | lost, mean | most | in |\n|---|---:|---:|---:|---|");
    let show = |name: &str, cost: &dyn Fn(&SmooseTask) -> f64| {
        let (costs, milliseconds) = timed(|| all.iter().map(|(_, task)| cost(task)).collect::<Vec<_>>());
        let lost: Vec<f64> = costs.iter().zip(&finest).map(|(cost, finest)| percent(*cost, *finest)).collect();
        let most = (0..lost.len()).max_by(|a, b| lost[*a].total_cmp(&lost[*b])).expect("workloads");
        let mean = lost.iter().sum::<f64>() / lost.len() as f64;
        println!("| {name} | {milliseconds:.0} | {mean:.3} % | {:.3} % | {} |", lost[most], all[most].0);
    };
    for factor in [1.02, 1.05, 1.1, 1.2, 1.5, 2.0] {
        show(&factor.to_string(), &|task| with(task, factor));
    }
    show("`search`: 1.5, 1.15, 1.05", &|task| smoose::search(task).cost);
    println!();
}

/// Time by size, over the workloads.
fn sizes() {
    println!("| memtables | ms, median | most |\n|---:|---:|---:|");
    for power in [2, 3, 4, 5, 6, 7, 8, 9] {
        let buffers = 10_u64.pow(power);
        let times = WORKLOADS.map(|(_, parts)| timed(|| smoose::search(&task(Bytes(buffers), Bytes(1), parts))).1);
        let [median, most] = spread(times.into());
        println!("| 10^{power} | {median:.1} | {most:.1} |");
    }
    println!();
}

/// Time of workloads that want very few or very many runs.
fn extremes() {
    println!("| memtables | scans, updates, lookups | ms | cost | ratios | runs |\n|---:|---|---:|---:|---|---|");
    for power in [4, 6, 9, 12] {
        for parts in [[1.0, 1e-6, 0.0], [1e-6, 1.0, 0.0], [1e-4, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]] {
            let (found, milliseconds) = timed(|| smoose::search(&task(Bytes(10_u64.pow(power)), Bytes(1), parts)));
            let shape = &found.shape;
            println!(
                "| 10^{power} | {parts:?} | {milliseconds:.1} | {:.5} | {} | {} |",
                found.cost,
                ratios(shape),
                slots(shape)
            );
        }
    }
}

/// The result, and the shortest of five times in milliseconds.
fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let once = || {
        let began = Instant::now();
        let result = work();
        (result, began.elapsed().as_secs_f64() * 1e3)
    };
    let (result, first) = once();
    (result, (0..4).map(|_| once().1).fold(first, f64::min))
}

/// The median and the largest.
fn spread(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[times.len() - 1]]
}
