//! From a version to what the planner sees: per level the sizes of runs, and the merges in
//! progress.
//!
//! The output of a merge that has handed over half of its keys stands beside its inputs, which have
//! lost that half. For the planner they are one thing on its way: all of them, output included, are
//! listed as the inputs of that merge, so that their sizes add up to what the merge began with,
//! less what it dropped.
//!
//! Sizes are raw bytes, as tables know them. A slice that was cut counts as a fair part of its
//! table: a half if one side is missing, a third if both are. That is an estimate, and concerns
//! only merges in progress and what a merge of a range left over.
//!
//! Cost: one pass over all slices.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_model::agenda::{Contents, Garbage};
use tamarack_model::bound;
use tamarack_model::cost::space::Content;
use tamarack_model::planner::{self, Cause};
use tamarack_model::{Bytes, Entries, Occupancy, Run as RunCount, RunId as RunName};

use super::broken::{Broken, broken};
use super::run::Run;
use super::slice::Slice;
use super::version::{Compaction, TreeVersion};
use crate::database::Sequences;
use crate::entry::raw_bytes;
use crate::format::edit::{KeyRange, RunId};

impl TreeVersion {
    /// The runs of each level, as counts.
    pub fn occupancy(&self) -> Occupancy {
        let levels = self.levels().iter().map(|level| level.runs().iter().map(|run| count(run)).collect());
        Occupancy::new(levels.collect())
    }

    /// What is in each run, for the space that it takes. What tombstones take is an estimate by the
    /// lengths of the tables' first and last keys.
    pub fn contents(&self) -> BTreeMap<RunName, Content> {
        self.runs().map(|run| (name(run.id()), content(run))).collect()
    }

    /// The amplification that is possible once all merges in progress have ended; see
    /// [`bound::worst`].
    pub fn space_amplification_worst(&self) -> f64 {
        let contents = self.contents();
        bound::worst(&self.occupancy(), &self.compactions_in_progress(), &|run| contents[&run.id])
    }

    /// The merges in progress as the planner sees them, in the order in which they began.
    pub fn compactions_in_progress(&self) -> Vec<planner::CompactionPlan> {
        self.compactions().iter().map(|merge| self.in_progress(merge)).collect()
    }

    /// Checks what the planner relies on and single edits do not promise: a version that was read
    /// from storage may break it. `levels` is how many the shape has.
    pub fn check_standing(&self, levels: usize) -> Result<(), Broken> {
        if self.levels().len() > levels {
            return broken(format!("a run stands in level {}, but the shape has {levels} levels", self.levels().len()));
        }
        for merge in self.compactions() {
            let level = |run: &RunId| self.run(*run).map(|(_, level, _)| level);
            if merge.inputs.iter().any(|input| level(input) != level(&merge.output)) {
                return broken(format!("the runs of {merge:?} stand in several levels"));
            }
            let is_everything =
                |range: &KeyRange| range.from.as_ref().is_none_or(|from| from.is_empty()) && range.to.is_none();
            if merge.done.iter().any(is_everything) {
                return broken(format!("{merge:?} has handed over everything, but has not ended"));
            }
        }
        Ok(())
    }

    fn in_progress(&self, merge: &Compaction) -> planner::CompactionPlan {
        let (_, target, _) = self.run(merge.output).expect("a merge's output is a run of the tree");
        let members = self.runs().map(|run| run.id()).filter(|run| merge.names(*run));
        let target = target as usize;
        // Why it began is not part of a version; that the levels above its target are to be emptied is what
        // matters now.
        let through = target.saturating_sub(1).max(1);
        planner::CompactionPlan {
            cause: Cause::Full { level: through, through },
            inputs: members.map(name).collect(),
            buffer: Bytes::ZERO,
            target,
        }
    }
}

/// What is in the runs of a tree, as the [agenda](tamarack_model::agenda) asks for it.
pub struct RunContents<'a> {
    tree: &'a TreeVersion,
    sequences: &'a Sequences,
    contents: OnceCell<BTreeMap<RunName, Content>>,
}

impl<'a> RunContents<'a> {
    /// Of this version. `sequences` say what snapshots still need.
    pub fn new(tree: &'a TreeVersion, sequences: &'a Sequences) -> Self {
        Self { tree, sequences, contents: OnceCell::new() }
    }
}

impl Contents for RunContents<'_> {
    fn content(&self, run: &RunCount) -> Content {
        self.contents.get_or_init(|| self.tree.contents())[&run.id]
    }

    fn entries(&self) -> Entries {
        Entries(self.tree.tables().map(|table| table.meta().entries).sum())
    }

    /// Tombstones that no snapshot sees through, by table: a table is as old as its oldest entry.
    fn garbage(&self) -> Vec<Garbage> {
        let readable = self.sequences.readable();
        let (oldest, visible) = (readable[0], readable[readable.len() - 1]);
        let age = |slice: &Slice| {
            let meta = slice.table().meta();
            let is_garbage = meta.tombstones > 0 && meta.largest_sequence <= oldest;
            is_garbage.then(|| self.tree.writes_since(meta.smallest_sequence, visible))
        };
        let garbage = |run: &Arc<Run>| {
            let age = run.slices().iter().filter_map(age).max()?;
            Some(Garbage { run: name(run.id()), age })
        };
        self.tree.runs().filter_map(garbage).collect()
    }
}

/// The planner's name of a run.
pub fn name(run: RunId) -> RunName {
    RunName(run.0)
}

fn count(run: &Run) -> RunCount {
    let entries = run.slices().iter().map(|slice| slice.share_of(slice.table().meta().entries)).sum();
    RunCount { id: name(run.id()), bytes: Bytes(run.raw_bytes()), entries: Some(Entries(entries)) }
}

fn content(run: &Run) -> Content {
    run.slices().iter().fold(Content::default(), |sum, slice| {
        let meta = slice.table().meta();
        let tombstones = slice.share_of(meta.tombstones);
        let tombstone_bytes = raw_bytes((meta.smallest_key.len() + meta.largest_key.len()) / 2, 0);
        sum.plus(Content {
            bytes: Bytes(slice.raw_bytes()),
            entries: Entries(slice.share_of(meta.entries)),
            tombstones: Entries(tombstones),
            tombstone_bytes: Bytes(tombstones * tombstone_bytes),
        })
    })
}
