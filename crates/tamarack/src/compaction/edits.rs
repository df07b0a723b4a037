//! The edits by which jobs begin, advance and end.
//!
//! ```text
//! compaction  begin    inputs move to the target level │ an empty output after them │ begun
//!             advance  new tables │ a range: every input is cut back, the output gets its slices
//!             end      the last advance │ ended: the inputs, empty now, are removed
//! flush       install  new tables │ the new run replaces the active one │ flushed through
//! ```
//!
//! Pure functions from a version to changes.

use std::sync::Arc;

use tamarack_model::planner;
use tamarack_model::{Occupancy, Shape};

use crate::format::edit::{Change, CompactionId, KeyRange, RunId, ShapeBlob, SliceSpec};
use crate::format::meta::{TableMeta, TreeId};
use crate::mistake::{self, Mistake};
use crate::tree::version::TreeVersion;

/// Returns the change that assigns runs to the levels of `occupancy`; `None` if they are there.
pub(super) fn relabelled(tree: &TreeVersion, occupancy: &Occupancy) -> Option<Change> {
    let ids = |number: usize| occupancy.level(number).iter().map(|run| run.id).collect::<Vec<_>>();
    let levels: Vec<Vec<RunId>> = (1..=occupancy.deepest()).map(ids).collect();
    let now = tree.levels().iter().map(|level| level.runs().iter().map(|run| run.id()).collect::<Vec<_>>());
    (!now.eq(levels.iter().cloned())).then_some(Change::Relabelled { tree: tree.id(), levels })
}

/// Returns the changes to another shape, which `blob` encodes with its policy: runs get other
/// levels, and no data is moved.
pub fn reshaped(tree: &TreeVersion, blob: ShapeBlob, shape: &Shape) -> Vec<Change> {
    let (relabelled_runs, _) = planner::relabel(&tree.occupancy(), &[], shape);
    let set = Change::ShapeSet { tree: tree.id(), shape: blob };
    [set].into_iter().chain(relabelled(tree, &relabelled_runs)).collect()
}

/// Returns the changes that begin a compaction: its inputs move to the target level, with its
/// output, still empty, after them.
///
/// The inputs must move at the beginning. If they kept their level, a younger compaction into the
/// target level could end first, and its output would be below these older inputs.
pub(super) fn begun(
    tree: &TreeVersion,
    plan: &planner::CompactionPlan,
    id: CompactionId,
    output: RunId,
) -> Vec<Change> {
    let mut occupancy = tree.occupancy();
    if !mistake::is_planted(Mistake::InputsNotRelabelled) {
        planner::begin(&mut occupancy, plan);
    }
    let last = *plan.inputs.last().expect("a compaction has inputs");
    let place = occupancy.level(plan.target).iter().position(|run| run.id == last);
    let is_there = place.is_some() || mistake::is_planted(Mistake::InputsNotRelabelled);
    assert!(is_there, "the inputs are in the target level: {plan:?}, {occupancy:?}");
    let index = place.map_or(0, |place| place as u32 + 1);
    let inputs = plan.inputs.clone();
    relabelled(tree, &occupancy)
        .into_iter()
        .chain([
            Change::RunAdded { tree: tree.id(), run: output, level: plan.target as u32, index },
            Change::CompactionBegun { tree: tree.id(), compaction: id, inputs, output },
        ])
        .collect()
}

/// Returns the changes of a handover of `range`: the output gets `moved`, or all new `tables`.
pub(super) fn advanced(
    tree: TreeId,
    compaction: CompactionId,
    range: KeyRange,
    moved: Vec<SliceSpec>,
    tables: &[TableMeta],
) -> Vec<Change> {
    let outputs = moved.into_iter().chain(whole(tables)).collect();
    added(tree, tables).chain([Change::CompactionAdvanced { tree, compaction, range, outputs }]).collect()
}

/// Returns the change that ends a compaction after its last handover.
pub(super) fn ended(tree: TreeId, compaction: CompactionId) -> Change {
    Change::CompactionEnded { tree, compaction }
}

/// Returns the changes that replace a range of keys of several runs by new tables in the oldest of
/// them. Runs without other keys are removed.
pub(super) fn ranged(tree: &TreeVersion, inputs: &[RunId], range: &KeyRange, tables: &[TableMeta]) -> Vec<Change> {
    let mut changes: Vec<Change> = added(tree.id(), tables).collect();
    changes.extend((!tree.are_ages_mixed()).then_some(Change::AgesMixed { tree: tree.id() }));
    let left: Vec<_> = tree.runs().filter(|run| inputs.contains(&run.id())).collect();
    let into = left.last().filter(|_| !tables.is_empty()).map(|run| run.id());
    assert!(
        into.is_some() || tables.is_empty(),
        "runs {inputs:?} are gone, but something was left of them: {tables:?}"
    );
    changes.extend(left.iter().map(|run| {
        let is_emptied = run.slices().iter().all(|slice| slice.is_within(range));
        if is_emptied && into != Some(run.id()) {
            Change::RunRemoved { tree: tree.id(), run: run.id() }
        } else {
            Change::RunCut { tree: tree.id(), run: run.id(), range: range.clone() }
        }
    }));
    changes.extend(into.map(|run| Change::SlicesAdded { tree: tree.id(), run, slices: whole(tables).collect() }));
    changes
}

/// Returns the changes that install a run in the place of `input`, or as the youngest of all.
pub(super) fn installed(tree: &TreeVersion, input: Option<RunId>, run: RunId, slices: Vec<SliceSpec>) -> Vec<Change> {
    let place = input.map(|input| {
        tree.run(input).unwrap_or_else(|| panic!("{input:?} is an input of a flush, but not in the tree"))
    });
    let (level, index) = place.map_or((1, 0), |(_, level, index)| (level, index as u32));
    let mut changes = Vec::new();
    changes.extend(input.map(|run| Change::RunRemoved { tree: tree.id(), run }));
    if !slices.is_empty() {
        changes.push(Change::RunAdded { tree: tree.id(), run, level, index });
        changes.push(Change::SlicesAdded { tree: tree.id(), run, slices });
    }
    changes
}

/// Returns the changes that add tables to the tree.
pub(super) fn added(tree: TreeId, tables: &[TableMeta]) -> impl Iterator<Item = Change> {
    tables.iter().map(move |meta| Change::TableAdded { tree, meta: Arc::new(meta.clone()) })
}

/// Returns each table as a slice.
pub(super) fn whole(tables: &[TableMeta]) -> impl Iterator<Item = SliceSpec> {
    tables.iter().map(|meta| SliceSpec { table: meta.id, range: KeyRange::default() })
}

/// Returns the ranges of keys outside of `done`, which is in order.
pub(super) fn gaps(done: &[KeyRange]) -> Vec<KeyRange> {
    let (mut gaps, mut from) = (Vec::new(), Some(None));
    for range in done {
        let begin = from.take().expect("only the last range reaches to the largest key");
        gaps.push(KeyRange { from: begin, to: range.from.clone() });
        from = range.to.clone().map(Some);
    }
    gaps.extend(from.map(|from| KeyRange { from, to: None }));
    // Before a range that begins at the smallest key there is nothing.
    let begins_at_the_start = done.first().is_some_and(|range| range.from.is_none());
    gaps.drain(..usize::from(begins_at_the_start));
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps and done ranges cover all keys once.
    #[test]
    fn gaps_complement_the_done_ranges() {
        let range =
            |from: Option<&str>, to: Option<&str>| KeyRange::new(from.map(str::as_bytes), to.map(str::as_bytes));
        assert_eq!(gaps(&[]), [KeyRange::ALL]);
        assert_eq!(gaps(&[KeyRange::ALL]), []);
        assert_eq!(gaps(&[range(None, Some("c"))]), [range(Some("c"), None)]);
        assert_eq!(gaps(&[range(Some("c"), None)]), [range(None, Some("c"))]);
        assert_eq!(
            gaps(&[range(None, Some("b")), range(Some("d"), Some("f")), range(Some("h"), None)]),
            [range(Some("b"), Some("d")), range(Some("f"), Some("h"))]
        );
    }
}
