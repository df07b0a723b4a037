//! How long the planner takes to decide, and the pace to be found, for trees of many runs.
//!
//! ```text
//! cargo run --release -p tamarack-model --example planner_speed
//! ```

use std::hint::black_box;

use tamarack_model::bound::SpaceBound;
use tamarack_model::cost::space::RunContent;
use tamarack_model::pace::{Load, PacedJob, Pacer};
use tamarack_model::planner::{self, CompactionPlan, Occasion};
use tamarack_model::{Bytes, Level, Occupancy, Run, RunId, Shape};

/// Decisions per measurement.
const ROUNDS: u32 = 20_000;

fn main() {
    println!("{:>6}  {:<44}{:>12}", "runs", "decision", "µs");
    for runs in [50, 500, 5000] {
        // Four levels, each with a quarter of the runs; all but the last are one run short of being
        // full.
        let quarter = runs / 4;
        let levels = (1..=4_u32).map(|number| Level { capacity: Bytes(u64::from(quarter).pow(number)), runs: quarter });
        let shape = Shape::new(Bytes(1), levels.collect()).expect("a shape");
        let tree = tree(&shape, quarter);
        let arrived = Occasion::Arrived { level: 1 };
        report(runs, "flush", || drop(black_box(planner::flush(&shape, black_box(&tree), &[], Bytes(1)))));
        report(runs, "arrival at a level that is not full", || {
            drop(black_box(planner::next_compaction(&shape, &tree, &[], arrived)))
        });
        let mut full = tree.clone();
        let flush = planner::flush(&shape, &tree, &[], Bytes(1));
        planner::apply(&mut full, &flush, Some(Run { id: RunId(1 << 32), bytes: Bytes(1), entries: None }));
        let plan = planner::next_compaction(&shape, &full, &[], arrived).expect("level 1 is full");
        let name = format!("{} runs straight down into level {}", plan.inputs.len(), plan.target);
        report(runs, &name, || drop(black_box(planner::next_compaction(&shape, black_box(&full), &[], arrived))));
        let busy = busy(&tree);
        report(runs, "flush while half of all runs are in compactions", || {
            drop(black_box(planner::flush(&shape, black_box(&tree), &busy, Bytes(1))));
        });
        let bound = SpaceBound::new(1e9).expect("a bound");
        report(runs, "bound on space, kept", || {
            drop(black_box(bound.next_compaction(&shape, black_box(&tree), &busy, &RunContent::of_size)));
        });
        let tight = SpaceBound::new(1.01).expect("a bound");
        report(runs, "bound on space, to be brought about", || {
            drop(black_box(tight.next_compaction(&shape, black_box(&tree), &[], &RunContent::of_size)));
        });
        report(runs, "form of every level", || {
            let fits = |level| planner::fits(&shape, black_box(&tree), &busy, level);
            assert!((1..=shape.last()).all(fits), "no level has a run too many");
        });
        let pacer = Pacer::new(&shape);
        let jobs: Vec<PacedJob> = busy.iter().take(30).map(|plan| PacedJob::of(plan, Bytes(7))).collect();
        let load = Load { occupancy: &tree, buffered: Bytes(1), buffered_max: Bytes(2), late_max: Bytes(0) };
        report(runs, &format!("pace with {} compactions in progress", jobs.len()), || {
            drop(black_box(pacer.plan(black_box(&load), &jobs)));
        });
    }
}

fn tree(shape: &Shape, quarter: u32) -> Occupancy {
    let level = |number: usize| {
        let run = |at: u32| Run {
            id: RunId(number as u64 * 100_000 + u64::from(quarter - at)),
            bytes: shape.nominal_batch(number),
            entries: None,
        };
        (0..quarter - 1).map(run).collect()
    };
    Occupancy::new((1..=shape.last()).map(level).collect())
}

/// Every second level's runs, in compactions of ten.
fn busy(tree: &Occupancy) -> Vec<CompactionPlan> {
    let level = |target: usize| {
        let runs = tree.level(target).chunks(10).map(move |runs| CompactionPlan {
            cause: planner::Cause::Full { level: target - 1, through: target - 1 },
            inputs: runs.iter().map(|run| run.id).collect(),
            buffer: Bytes::ZERO,
            target,
        });
        runs.collect::<Vec<_>>()
    };
    [level(2), level(4)].concat()
}

#[expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]
fn report(runs: u32, name: &str, decide: impl Fn()) {
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        decide();
    }
    println!("{runs:>6}  {name:<44}{:>12.2}", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
}
