//! The planner's view of a version: sizes of runs per level, and compactions in progress.
//!
//! The output of a compaction that has handed over half of its keys is next to its inputs, which
//! have lost that half. The planner sees them as one: all of them, the output included, are listed
//! as inputs of that compaction, so that their sizes add up to its original size, less what it
//! dropped.
//!
//! Sizes are raw bytes from the tables' metadata. A cut slice counts as a fair share of its table:
//! a half if one side is missing, a third if both are. This is an estimate; it concerns only
//! compactions in progress and the remains of compactions of a range.
//!
//! Cost: one pass over all slices.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_model::agenda::{Contents, Garbage};
use tamarack_model::bound;
use tamarack_model::cost::space::RunContent;
use tamarack_model::planner::{self, Cause};
use tamarack_model::{Bytes, Entries, Occupancy, Run as RunCount};

use super::broken::{Broken, broken};
use super::run::Run;
use super::slice::Slice;
use super::version::{Compaction, TreeVersion};
use crate::database::Sequences;
use crate::entry::raw_bytes;
use crate::format::edit::{KeyRange, RunId};

impl TreeVersion {
    /// Returns the runs of each level, as counts.
    pub fn occupancy(&self) -> Occupancy {
        let levels = self.levels().iter().map(|level| level.runs().iter().map(|run| count(run)).collect());
        Occupancy::new(levels.collect())
    }

    /// Returns the space that a compaction of these runs takes beyond what they have, by one thread
    /// that makes tables of `table_bytes`: the file of an input table is removed only when all of
    /// it has been handed over.
    pub fn temporary_bytes(&self, runs: impl IntoIterator<Item = RunId>, table_bytes: u64) -> u64 {
        let largest = |run: RunId| {
            let slices = self.run(run).into_iter().flat_map(|(run, ..)| run.slices().iter());
            slices.map(|slice| slice.table().meta().file_bytes).max().unwrap_or(0)
        };
        runs.into_iter().map(largest).fold(table_bytes, u64::saturating_add)
    }

    /// Returns the contents of each run, for space amplification. The size of tombstones is
    /// estimated by the lengths of the tables' first and last keys.
    pub fn contents(&self) -> BTreeMap<RunId, RunContent> {
        self.runs().map(|run| (run.id(), content(run))).collect()
    }

    /// Returns the upper bound on space amplification once all compactions in progress have ended;
    /// see [`bound::worst`].
    pub fn space_amplification_worst(&self) -> f64 {
        let contents = self.contents();
        bound::worst(&self.occupancy(), &self.compactions_in_progress(), &|run| contents[&run.id])
    }

    /// Returns the compactions in progress as plans, in the order in which they began.
    pub fn compactions_in_progress(&self) -> Vec<planner::CompactionPlan> {
        self.compactions().iter().map(|compaction| self.in_progress(compaction)).collect()
    }

    /// Checks preconditions of the planner that single edits do not guarantee, since a version read
    /// from storage may violate them: no run below the last of `levels` levels, and compactions
    /// within one level.
    pub fn check_levels(&self, levels: usize) -> Result<(), Broken> {
        if self.levels().len() > levels {
            return broken(format!("a run is in level {}, but the shape has {levels} levels", self.levels().len()));
        }
        for compaction in self.compactions() {
            let level = |run: &RunId| self.run(*run).map(|(_, level, _)| level);
            if compaction.inputs.iter().any(|input| level(input) != level(&compaction.output)) {
                return broken(format!("the runs of {compaction:?} are in several levels"));
            }
            let is_everything =
                |range: &KeyRange| range.from.as_ref().is_none_or(|from| from.is_empty()) && range.to.is_none();
            if compaction.done.iter().any(is_everything) {
                return broken(format!("{compaction:?} has handed over everything, but has not ended"));
            }
        }
        Ok(())
    }

    fn in_progress(&self, compaction: &Compaction) -> planner::CompactionPlan {
        let (_, target, _) = self.run(compaction.output).expect("a compaction's output is a run of the tree");
        let members = self.runs().map(|run| run.id()).filter(|run| compaction.names(*run));
        let target = target as usize;
        // The cause is not part of a version; what matters now is that the levels above the target
        // are to be emptied.
        let through = target.saturating_sub(1).max(1);
        planner::CompactionPlan {
            cause: Cause::Full { level: through, through },
            inputs: members.collect(),
            buffer: Bytes::ZERO,
            target,
        }
    }
}

/// The contents of a tree's runs, for the [agenda](tamarack_model::agenda).
pub struct RunContents<'a> {
    tree: &'a TreeVersion,
    sequences: &'a Sequences,
    /// True if garbage is due at any age, because the disk has little space left.
    is_space_low: bool,
    /// True if merge operands that no snapshot needs are garbage: compactions can merge them.
    can_fold: bool,
    contents: OnceCell<BTreeMap<RunId, RunContent>>,
}

impl<'a> RunContents<'a> {
    /// Creates the contents of this version. `sequences` has the snapshots. If `is_space_low`,
    /// garbage is due at any age; if compactions `can_fold` them, merge operands are garbage.
    pub fn new(tree: &'a TreeVersion, sequences: &'a Sequences, is_space_low: bool, can_fold: bool) -> Self {
        Self { tree, sequences, is_space_low, can_fold, contents: OnceCell::new() }
    }
}

impl Contents for RunContents<'_> {
    fn content(&self, run: &RunCount) -> RunContent {
        self.contents.get_or_init(|| self.tree.contents())[&run.id]
    }

    fn entries(&self) -> Entries {
        Entries(self.tree.tables().map(|table| table.meta().entries).sum())
    }

    /// Returns the tombstones, the merge operands that can be merged, and what range deletes hide,
    /// that no snapshot needs, by table: a table is as old as its oldest entry, or as the range
    /// delete.
    fn garbage(&self) -> Vec<Garbage> {
        let readable = self.sequences.readable();
        let (oldest, visible) = (readable[0], readable[readable.len() - 1]);
        let age = |slice: &Slice| {
            let meta = slice.table().meta();
            let folds = self.can_fold && meta.merge_operands() > 0;
            let is_garbage = (meta.tombstones > 0 || folds) && meta.largest_sequence <= oldest;
            let hidden_since = self.tree.range_deletes().hiding(slice, oldest).map(|(sequence, _)| sequence);
            let since = if is_garbage { Some(meta.smallest_sequence) } else { hidden_since };
            since.map(|since| if self.is_space_low { u64::MAX } else { visible.0.saturating_sub(since.0) })
        };
        let garbage = |run: &Arc<Run>| {
            let age = run.slices().iter().filter_map(age).max()?;
            Some(Garbage { run: run.id(), age })
        };
        self.tree.runs().filter_map(garbage).collect()
    }
}

fn count(run: &Run) -> RunCount {
    let entries = run.slices().iter().map(|slice| slice.share_of(slice.table().meta().entries)).sum();
    RunCount { id: run.id(), bytes: Bytes(run.raw_bytes()), entries: Some(Entries(entries)) }
}

fn content(run: &Run) -> RunContent {
    run.slices().iter().fold(RunContent::default(), |sum, slice| {
        let meta = slice.table().meta();
        let tombstones = slice.share_of(meta.tombstones);
        let tombstone_bytes = raw_bytes((meta.smallest_key.len() + meta.largest_key.len()) / 2, 0);
        sum.plus(RunContent {
            bytes: Bytes(slice.raw_bytes()),
            entries: Entries(slice.share_of(meta.entries)),
            tombstones: Entries(tombstones),
            tombstone_bytes: Bytes(tombstones * tombstone_bytes),
        })
    })
}
