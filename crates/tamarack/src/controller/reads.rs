//! The runs of a tree as readers meet them, for the question whether it pays to make them one.

use std::collections::BTreeMap;

use tamarack_model::Shape;
use tamarack_model::navigator::read_compaction::ReadRun;

use crate::compaction::Scheduler;
use crate::compaction::progress::BackgroundSnapshot;

/// The shape of the tree, and its runs, young to old; `None` while flushes or compactions are in
/// progress.
pub(super) fn runs(scheduler: &Scheduler) -> Option<(Shape, Vec<ReadRun>)> {
    let BackgroundSnapshot { shape, state, tree_filter, jobs, .. } = scheduler.background();
    if !jobs.is_empty() {
        return None;
    }
    let tree = state.tree();
    let of_run = |id, fpr| tree_filter.get(&id).map_or(fpr, |(fpr, _)| *fpr);
    let levels = tree.levels().iter().flat_map(|level| level.runs());
    let rates: BTreeMap<u64, f64> = levels.map(|run| (run.id().0, of_run(run.id(), run.filter_fpr()))).collect();
    let occupancy = tree.occupancy();
    let runs = occupancy.runs().map(|(level, run)| {
        let fpr = *rates.get(&run.id.0).expect("runs are counted in the tree that has them");
        ReadRun { level, bytes: run.bytes, fpr }
    });
    Some((shape, runs.collect()))
}
