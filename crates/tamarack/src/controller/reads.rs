//! The runs of a tree as readers meet them, for the question whether it pays to make them one.

use std::collections::BTreeMap;

use tamarack_model::Shape;
use tamarack_model::occupancy::Occupancy;

use crate::compaction::Scheduler;
use crate::compaction::progress::BackgroundSnapshot;

/// A tree, and the false positive rates of its runs' filters, young to old.
pub(super) struct RunsRead {
    pub(super) shape: Shape,
    pub(super) occupancy: Occupancy,
    pub(super) fprs: Vec<f64>,
}

/// The tree as it is; `None` while flushes or compactions are in progress.
pub(super) fn runs(scheduler: &Scheduler) -> Option<RunsRead> {
    let BackgroundSnapshot { shape, state, tree_filter, jobs, .. } = scheduler.background();
    if !jobs.is_empty() {
        return None;
    }
    let tree = state.tree();
    let of_run = |id, fpr| tree_filter.get(&id).map_or(fpr, |(fpr, _)| *fpr);
    let levels = tree.levels().iter().flat_map(|level| level.runs());
    let rates: BTreeMap<u64, f64> = levels.map(|run| (run.id().0, of_run(run.id(), run.filter_fpr()))).collect();
    let occupancy = tree.occupancy();
    let fpr = |id: u64| *rates.get(&id).expect("runs are counted in the tree that has them");
    let fprs = occupancy.runs().map(|(_, run)| fpr(run.id.0)).collect();
    Some(RunsRead { shape, occupancy, fprs })
}
