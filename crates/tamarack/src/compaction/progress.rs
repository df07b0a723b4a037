//! [`BackgroundSnapshot`]: the background work in progress at one moment, as plain values, for
//! statistics.
//!
//! It is taken under the scheduler's lock, so jobs, runs and memtables are consistent. Decides
//! nothing and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_model::bound::SpaceBound;
use tamarack_model::planner::Cause;
use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Shape};

use super::job::Job;
use super::task::Task;
use crate::format::edit::RunId;
use crate::tree::state::ScanPin;
use crate::tree::version::TreeVersion;

/// The tree's policy and shape, its state, and the work in progress, at one moment.
#[derive(Debug)]
pub struct BackgroundSnapshot {
    /// The compaction policy.
    pub policy: Arc<Policy>,
    /// The shape of the tree.
    pub shape: Shape,
    /// Memtables and runs.
    pub state: ScanPin,
    /// The predicted false positives and the bits of each run in a filter over the whole tree.
    pub tree_filter: BTreeMap<RunId, (f64, u64)>,
    /// Flushes and compactions in progress, in the order in which they began.
    pub jobs: Vec<JobProgress>,
    /// True while compactions are paused.
    pub paused: bool,
    /// Speed of flushes and compactions while busy, in raw bytes per second; `None` if not
    /// measured.
    pub speed: Option<f64>,
    /// Raw bytes by which a compaction is late.
    pub late: Bytes,
    /// Upper bound on space amplification.
    pub space_bound: Option<SpaceBound>,
}

/// A flush or a compaction in progress.
#[derive(Clone, Debug)]
pub struct JobProgress {
    /// True for a flush.
    pub is_flush: bool,
    /// Cause; `None` if an earlier process began the job, since the manifest does not record
    /// causes.
    pub cause: Option<Cause>,
    /// Input runs, young to old.
    pub inputs: Vec<RunId>,
    /// Level of the output.
    pub target: usize,
    /// Raw bytes to copy when it began, or when the database was opened.
    pub total: u64,
    /// Raw bytes left to copy.
    pub left: u64,
    /// Parts that a worker is carrying out.
    pub parts_taken: usize,
    /// Parts that wait for a worker.
    pub parts_waiting: usize,
}

impl JobProgress {
    pub(super) fn of(job: &Job, tree: &TreeVersion) -> Self {
        let inputs = match &job.task {
            Task::Flush { input, .. } => input.as_slice().to_vec(),
            Task::Compaction { id } => tree.compaction(*id).inputs.clone(),
            Task::Range { inputs } => inputs.iter().copied().filter(|run| tree.run(*run).is_some()).collect(),
        };
        Self {
            is_flush: job.is_flush(),
            cause: (!job.resumed).then_some(job.cause),
            inputs,
            target: job.task.target(tree),
            total: job.total,
            left: job.left,
            parts_taken: job.taken,
            parts_waiting: job.parts.len(),
        }
    }
}
