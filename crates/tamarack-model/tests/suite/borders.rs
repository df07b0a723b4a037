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
/// full with its output: to the byte. What stays in the deepest level, in other compactions,
/// counts.
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

/// A change of shape leaves a run in its level up to half a nominal batch above the capacity, to
/// the byte.
#[test]
fn a_level_keeps_half_a_batch_more_than_its_capacity() {
    let shape: Shape = "buffer 4\nlevel 16 in 4 runs\nlevel 64 in 2 runs".parse().expect("a shape");
    for (bytes, level) in [(18, 1), (19, 2)] {
        let (after, _) = planner::relabel(&tree(&format!("level 1: r1 {bytes}")), &[], &shape);
        assert_eq!(after.deepest(), level, "{bytes} bytes in a level of 16, with batches of 4");
    }
}

/// A reshape rewrites nothing in a level that has exactly its slots; with one run more, the
/// youngest takes along what an arriving batch of its size would.
#[test]
fn a_reshape_rewrites_no_more_than_an_arrival() {
    let shape = shape("level 16 in 2 runs");
    let reshape = |runs: &str| {
        planner::next_compaction(&shape, &tree(runs), &[], Occasion::Reshape { level: 2 }).map(|plan| plan.inputs)
    };
    assert_eq!(reshape("level 2: r4 1, r3 4"), None, "two runs in two slots");
    assert_eq!(reshape("level 2: r5 1, r4 1, r3 4"), Some(vec![RunId(5), RunId(4)]), "r3 is too large to go along");
}

/// A compaction of a key range keeps its inputs busy and each in its slot; runs that came later are
/// free.
#[test]
fn inputs_of_a_range_compaction_keep_their_slots() {
    let shape = shape("level 16 in 2 runs");
    let range = [plan(Cause::CompactRange, &[4, 3, 2], 2)];
    assert!(!planner::fits(&shape, &tree("level 2: r4 1, r3 1, r2 1"), &range, 2), "three runs in two slots");
    let tree = tree("level 1: r9 1, r8 1, r7 1, r6 1; level 2: r4 1, r3 1, r2 1");
    let next = planner::next_compaction(&shape, &tree, &range, Occasion::Arrived { level: 1 });
    assert_eq!(next, Some(plan(Cause::Full { level: 1, through: 1 }, &[9, 8, 7, 6], 2)));
}

/// A flush in progress counts at level 1, where its run will be, and nowhere else: level 2, which
/// it would fill, takes the batch from above.
#[test]
fn a_flush_in_progress_counts_at_level_1_only() {
    let shape = shape("level 16 in 2 runs");
    let full = (1..).find(|&bytes| is_level_full(&shape, 2, bytes)).expect("some size");
    let flush = CompactionPlan { cause: Cause::Flush, inputs: Vec::new(), buffer: Bytes(2), target: 1 };
    let target = |bytes: u64| {
        let tree = tree(&format!("level 1: r6 1, r5 1, r4 1, r3 1; level 2: r2 {bytes}"));
        let in_progress = std::slice::from_ref(&flush);
        planner::next_compaction(&shape, &tree, in_progress, Occasion::Arrived { level: 1 })
            .expect("a full level")
            .target
    };
    assert_eq!((target(full - 5), target(full - 4)), (2, 3));
}

/// Two compactions that share a run are a mistake of the caller, wherever the run stands in them.
#[test]
#[should_panic = "a run is in two compactions"]
#[cfg(debug_assertions)]
fn compactions_that_share_a_run_are_refused() {
    let in_progress = [plan(Cause::Compact, &[5, 4], 2), plan(Cause::Compact, &[5], 2)];
    planner::outgrown(&shape("level 16 in 2 runs"), &tree("level 2: r5 1, r4 1"), &in_progress, 1);
}
