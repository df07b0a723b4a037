//! [`Task`]: what a job does.

use std::sync::Arc;

use crate::format::edit::{CompactionId, RunId};
use crate::tree::state::ImmutableMemtable;
use crate::tree::version::TreeVersion;

/// Task of a job.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Flushes an immutable memtable, merged with the active run of level 1 if that has capacity.
    Flush {
        /// The memtable.
        immutable: Arc<ImmutableMemtable>,
        /// The active run.
        input: Option<RunId>,
    },
    /// Compacts whole runs into one; the version records which.
    Compaction {
        /// Its number.
        id: CompactionId,
    },
    /// Compacts a range of keys of several runs into the oldest of them. Each handover is complete
    /// by itself, so the version does not record it.
    Range {
        /// The runs, young to old; those that have become empty are removed from the tree.
        inputs: Arc<[RunId]>,
    },
}

impl Task {
    /// Returns the level of the output.
    ///
    /// # Panics
    /// If the tree does not have the compaction.
    pub(super) fn target(&self, tree: &TreeVersion) -> usize {
        let level = |run: RunId| tree.level_of(run).unwrap_or(1);
        match self {
            Self::Flush { .. } => 1,
            Self::Compaction { id } => level(tree.compaction(*id).output),
            // The oldest run that is left becomes the output.
            Self::Range { inputs } => inputs.iter().copied().rfind(|run| tree.run(*run).is_some()).map_or(1, level),
        }
    }
}
