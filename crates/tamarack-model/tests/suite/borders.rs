//! Borders of the planner's answers, one tree each: the exact number of bytes at which a target
//! level changes, and the run whose level counts. Found missing by mutation testing.

use tamarack_model::planner::{self, Cause, CompactionPlan, Occasion, is_level_full};
use tamarack_model::{Bytes, Occupancy, RunId, Shape};

fn shape(level_2: &str) -> Shape {
    let text = format!("buffer 1\nlevel 4 in 4 runs\n{level_2}\nlevel 64 in 2 runs\nlevel 256 in 2 runs");
    text.parse().expect("a shape")
}

fn tree(text: &str) -> Occupancy {
    text.replace("; ", "\n").parse().expect("a tree")
}

fn plan(cause: Cause, inputs: &[u64], target: usize) -> CompactionPlan {
    CompactionPlan { cause, inputs: inputs.iter().copied().map(RunId).collect(), buffer: Bytes::ZERO, target }
}

/// A compaction for the bound on space writes into the deepest level, or the next one that is not
/// full with its output: to the byte. What stays in the deepest level, in other compactions, counts.
#[test]
fn a_compaction_for_space_goes_where_its_output_fits() {
    let shape = shape("level 16 in 4 runs");
    let target = |runs: &str, in_progress: &[CompactionPlan]| {
        let plan = planner::next_compaction(&shape, &tree(runs), in_progress, Occasion::SpaceBound);
        plan.expect("two idle runs").target
    };
    for level in 2..=3 {
        let full = (1..).find(|&bytes| is_level_full(&shape, level, bytes)).expect("some size");
        assert_eq!(target(&format!("level 2: r3 1, r2 {}", full - 2), &[]), level, "one byte less than full");
        assert_eq!(target(&format!("level 2: r3 1, r2 {}", full - 1), &[]), level + 1, "full");
    }
    let busy = plan(Cause::TombstonesDue { run: RunId(4) }, &[4], 2);
    assert_eq!(target("level 2: r4 8, r3 4, r2 4", &[busy]), 3, "8 bytes do not fit beside the busy run's 8");
}

/// An ingested run joins the runs of its own level, whatever lies above it; none if the level is
/// full with it, which then moves down.
#[test]
fn an_ingested_run_joins_its_own_level() {
    let shape = shape("level 16 in 1 run");
    let joined = |runs: &str| planner::next_compaction(&shape, &tree(runs), &[], Occasion::Ingested { run: RunId(4) });
    let expected = plan(Cause::Ingested { run: RunId(4) }, &[4, 3], 2);
    assert_eq!(joined("level 1: r5 1; level 2: r4 1, r3 4"), Some(expected));
    assert_eq!(joined("level 1: r5 1; level 2: r4 8, r3 8"), None, "full");
    assert_eq!(joined("level 1: r5 1; level 2: r4 1"), None, "alone");
}

/// A part of a compaction without its oldest input writes into the level of the part's own oldest
/// input, since older runs of the tree must stay below; one with it, into the plan's target.
#[test]
fn a_part_of_a_compaction_stays_above_what_it_leaves() {
    let tree = tree("level 1: r5 1, r4 1; level 2: r3 4; level 3: r2 50");
    let whole = plan(Cause::Compact, &[5, 4, 3, 2], 4);
    let part = |space: u64| {
        let part = whole.part_within(&tree, &[1, 1, 4, 50], space)?;
        Some((part.inputs.iter().map(|run| run.0).collect::<Vec<_>>(), part.target))
    };
    assert_eq!(part(1), None);
    assert_eq!(part(2), Some((vec![5, 4], 1)));
    assert_eq!(part(5), Some((vec![4, 3], 2)), "of two pairs the older one");
    assert_eq!(part(6), Some((vec![5, 4, 3], 2)));
    assert_eq!(part(55), Some((vec![4, 3, 2], 4)));
}
