//! [`GoingOn`]: what background work is going on, as plain values, for statistics and for whoever wants to see how far it is.
//!
//! Taken at one moment, under the scheduler's lock: jobs, runs and buffers fit together. Decides
//! nothing and changes nothing.

use std::sync::Arc;

use tamarack_model::Shape;
use tamarack_model::bound::SpaceBound;
use tamarack_model::planner::Cause;
use tamarack_model::policy::Policy;

use super::job::{Job, Task};
use crate::format::edit::RunId;
use crate::tree::state::ScanPin;
use crate::tree::version::TreeVersion;

/// What the tree is to look like, what it looks like, and what is going on.
#[derive(Debug)]
pub struct GoingOn {
    /// Where shapes come from.
    pub policy: Arc<dyn Policy>,
    /// The shape that the tree has.
    pub shape: Shape,
    /// What there is.
    pub state: ScanPin,
    /// Flushes and merges in progress, in the order in which they began.
    pub jobs: Vec<JobProgress>,
    /// Merges are held where they are.
    pub paused: bool,
    /// Raw bytes per second that flushes and merges copy while they are busy and may; `None` if
    /// that was never measured.
    pub speed: Option<f64>,
    /// How much space the tree may take for each byte that is live.
    pub space_bound: Option<SpaceBound>,
}

/// A flush or a merge in progress.
#[derive(Clone, Debug)]
pub struct JobProgress {
    /// A buffer becomes a run; else runs become one.
    pub is_flush: bool,
    /// Why it takes place; `None` if an earlier process began it, since a version does not say why.
    pub cause: Option<Cause>,
    /// The runs it takes, young to old.
    pub inputs: Vec<RunId>,
    /// The level it leads to.
    pub target: usize,
    /// Raw bytes that there were to be copied when it began, or when the database was opened.
    pub total: u64,
    /// Raw bytes that are left to be copied.
    pub left: u64,
    /// Parts that a worker has taken.
    pub parts_taken: usize,
    /// Parts that wait for a worker.
    pub parts_waiting: usize,
}

impl JobProgress {
    pub(super) fn of(job: &Job, tree: &TreeVersion) -> Self {
        let level = |run: RunId| tree.run(run).map_or(1, |(_, level, _)| level as usize);
        let (inputs, target) = match &job.task {
            Task::Flush { input, .. } => (input.as_slice().to_vec(), 1),
            Task::Compaction { id } => {
                let merge = tree.compactions().iter().find(|merge| merge.id == *id);
                let merge = merge.unwrap_or_else(|| panic!("{id:?} is being carried out, but is not in progress"));
                (merge.inputs.clone(), level(merge.output))
            }
            Task::Range { inputs } => {
                let left: Vec<RunId> = inputs.iter().copied().filter(|run| tree.run(*run).is_some()).collect();
                let oldest = left.last().copied();
                (left, oldest.map_or(1, level))
            }
        };
        Self {
            is_flush: job.is_flush(),
            cause: (!job.resumed).then_some(job.cause),
            inputs,
            target,
            total: job.total,
            left: job.left,
            parts_taken: job.taken,
            parts_waiting: job.parts.len(),
        }
    }
}
