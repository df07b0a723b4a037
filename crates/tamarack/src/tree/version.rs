//! [`Version`]: what is on storage at one moment, as an immutable value.
//!
//! ```text
//! tree 0     flushed through 812, shape, merges in progress
//!   level 1  │ run 9 │ run 8 │          young to old
//!   level 2  │ run 6 ───────────│
//!   level 3  │ run 2 ──────────────────────────────│
//! ```
//!
//! Levels count from 1, small to large; there is no level 0 on storage. Read from level 1 on, and
//! young to old within a level, the runs of a tree stand in one order in which **for each key what
//! is younger stands before what is older**. Edits never change that order, only add to it and take
//! away from it.
//!
//! A version is made by [`Version::apply`] from the one before and an edit, and shares with it all
//! that did not change: an edit to a tree of 10,000 tables costs microseconds. Whoever holds a
//! version keeps its tables' files from being removed.
//!
//! Invariants (the cheap ones are checked by every edit, all of them by [`Version::check`]):
//!
//! * run, merge and table ids are below the next ones, and each stands for one thing;
//! * slices of a run are in order, disjoint, and each within its table's keys;
//! * where slices of two runs overlap, all sequences of the younger run's table are larger, unless
//!   a range of keys was merged by itself: then only each key's versions are in order, which tables
//!   must be read to see;
//! * a run is without slices only while a merge names it;
//! * a merge's inputs are neighbours, its output stands next to them, and none of them is in
//!   another merge; a range that was handed over is gone from all inputs;
//! * each table of a tree is named by a slice of that tree, and holds nothing past what is flushed.
//!
//! Tests: `tree/tests` compares random histories of edits with a slow obvious model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chunks::Chunks;
use super::run::Run;
use super::skips::{Skip, Skips};
use super::slice::Slice;
use super::table_file::{TableFile, TableFiles};
use crate::entry::Sequence;
use crate::format::edit::{Change, CompactionId, Edit, KeyRange, RunId, ShapeBlob};
use crate::format::meta::{EditNumber, TableId, TreeId};

/// What is on storage at one moment.
#[derive(Clone, Debug)]
pub struct Version {
    pub(super) database: u64,
    pub(super) edit: EditNumber,
    pub(super) next: NextIds,
    pub(super) trees: BTreeMap<TreeId, Arc<TreeVersion>>,
    pub(super) wal_end: Option<u64>,
    pub(super) wal_durable: u64,
    pub(super) files: Arc<TableFiles>,
}

/// The ids that have not been given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextIds {
    /// The next table's.
    pub table: u64,
    /// The next run's.
    pub run: u64,
    /// The next merge's.
    pub merge: u64,
}

/// One tree of a version.
#[derive(Clone, Debug)]
pub struct TreeVersion {
    /// The keyspace's name; empty for the default one.
    pub(super) name: Arc<str>,
    id: TreeId,
    /// Level 1 first; the last one is not empty.
    pub(super) levels: Vec<Arc<Level>>,
    pub(super) compactions: Vec<Arc<Compaction>>,
    pub(super) flushed_through: Sequence,
    pub(super) shape: Option<ShapeBlob>,
    pub(super) ages_mixed: bool,
    pub(super) skips: Skips,
    /// Ordered by id.
    pub(super) tables: Chunks<TableUse>,
}

/// A table of a tree, and how many slices name it.
#[derive(Clone, Debug)]
pub(super) struct TableUse {
    pub(super) file: Arc<TableFile>,
    pub(super) slices: usize,
}

/// The runs of a level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    pub(super) runs: Vec<Arc<Run>>,
}

/// A merge in progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// Its number.
    pub id: CompactionId,
    /// The runs it takes, young to old.
    pub inputs: Vec<RunId>,
    /// The run it fills.
    pub output: RunId,
    /// The ranges it has handed over: in order, disjoint, and not touching.
    pub done: Vec<KeyRange>,
}

/// A range of keys that is deleted up to a sequence. Reserved: no edit makes one. Whatever reads
/// runs asks for these first, and says what one means there by a match without arms: giving this
/// type a value fails to compile in each such place until it has been dealt with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangeDelete {}

impl Version {
    /// A new database: the default tree, empty. It stands for edit 1.
    pub fn new(database: u64, files: Arc<TableFiles>) -> Self {
        let mut version = Self::nothing(files);
        version.database = database;
        version.edit = EditNumber(1);
        version.trees.insert(TreeId::DEFAULT, Arc::new(TreeVersion::new(TreeId::DEFAULT)));
        version
    }

    /// Before any edit.
    pub(super) fn nothing(files: Arc<TableFiles>) -> Self {
        Self {
            database: 0,
            edit: EditNumber(0),
            next: NextIds { table: 1, run: 1, merge: 1 },
            trees: BTreeMap::new(),
            wal_end: None,
            wal_durable: 0,
            files,
        }
    }

    /// Where its tables are opened.
    pub fn files(&self) -> &Arc<TableFiles> {
        &self.files
    }

    /// The database's random id.
    pub fn database(&self) -> u64 {
        self.database
    }

    /// The edit that made this version.
    pub fn edit_number(&self) -> EditNumber {
        self.edit
    }

    /// The ids that had not been given out when the edit was made.
    pub fn next_ids(&self) -> NextIds {
        self.next
    }

    /// The trees by their numbers.
    pub fn trees(&self) -> impl Iterator<Item = (TreeId, &Arc<TreeVersion>)> {
        self.trees.iter().map(|(id, tree)| (*id, tree))
    }

    /// A tree.
    pub fn tree(&self, tree: TreeId) -> Option<&Arc<TreeVersion>> {
        self.trees.get(&tree)
    }

    /// A tree that is known to exist.
    ///
    /// # Panics
    /// If it does not.
    pub fn expect_tree(&self, tree: TreeId) -> &Arc<TreeVersion> {
        self.trees.get(&tree).unwrap_or_else(|| panic!("{tree:?} is not in the version of {:?}", self.edit))
    }

    /// Where the log ended when the database was closed cleanly; `None` while it is open or after a
    /// crash.
    pub fn wal_end(&self) -> Option<u64> {
        self.wal_end
    }

    /// The log is durable at least up to here.
    pub fn wal_durable(&self) -> u64 {
        self.wal_durable
    }

    /// The same without a log, of which nothing is known then: what a database begins with that has
    /// these tables and a log of its own.
    pub fn without_wal(&self) -> Self {
        Self { wal_end: None, wal_durable: 0, ..self.clone() }
    }

    /// All tables of all trees.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.trees.values().flat_map(|tree| tree.tables())
    }

    /// One edit that makes this version out of nothing: the base of a new manifest.
    pub fn state_edit(&self) -> Edit {
        let NextIds { table, run, merge } = self.next;
        let mut changes = vec![
            Change::Database { id: self.database },
            Change::IdsUsed { tables: table, runs: run, compactions: merge },
        ];
        if self.wal_durable > 0 {
            changes.push(Change::WalDurable { position: self.wal_durable });
        }
        if let Some(position) = self.wal_end {
            changes.push(Change::WalEnd { position });
        }
        for (id, tree) in &self.trees {
            tree.describe(*id, &mut changes);
        }
        Edit { number: self.edit, changes }
    }
}

impl TreeVersion {
    /// An empty tree.
    pub(super) fn new(id: TreeId) -> Self {
        Self {
            id,
            name: Arc::default(),
            levels: Vec::new(),
            compactions: Vec::new(),
            flushed_through: Sequence::ZERO,
            shape: None,
            ages_mixed: false,
            skips: Skips::default(),
            tables: Chunks::default(),
        }
    }

    /// The tree's number.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// The levels, 1 first. The last one is not empty.
    pub fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }

    /// All runs, young to old: level by level, and within each.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        self.levels.iter().flat_map(|level| level.runs.iter())
    }

    /// A run, with the number of its level (from 1) and its place in it (from 0, young to old).
    pub fn run(&self, run: RunId) -> Option<(&Arc<Run>, u32, usize)> {
        let (level, index) = self.position(run)?;
        Some((&self.levels[level].runs[index], level as u32 + 1, index))
    }

    /// The merges in progress.
    pub fn compactions(&self) -> &[Arc<Compaction>] {
        &self.compactions
    }

    /// The merge that takes or fills that run, if one does.
    pub fn compaction_of(&self, run: RunId) -> Option<&Arc<Compaction>> {
        self.compactions.iter().find(|merge| merge.names(run))
    }

    /// All writes up to this one are in tables.
    pub fn flushed_through(&self) -> Sequence {
        self.flushed_through
    }

    /// The tree's shape, if one was set.
    pub fn shape(&self) -> Option<&ShapeBlob> {
        self.shape.as_ref()
    }

    /// Whether the sequences of whole tables say nothing about their age, since a range of keys was
    /// merged by itself.
    pub fn are_ages_mixed(&self) -> bool {
        self.ages_mixed
    }

    /// How many writes came after the one with sequence `from`, if the last one has sequence `now`;
    /// never more than there were.
    pub fn writes_since(&self, from: Sequence, now: Sequence) -> u64 {
        self.skips.writes_since(from, now)
    }

    /// The deleted ranges, which lookups, scans, and compactions ask for before any run and its
    /// filters: a range can delete a key that filters rightly say is in no run above the entry it
    /// hides.
    #[inline(always)]
    pub fn range_deletes(&self) -> &[RangeDelete] {
        &[]
    }

    /// The tables, by their ids.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.tables.iter().map(|table| &table.file)
    }

    /// The keyspace's name; empty for the default one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it has no run, table or compaction.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.compactions.is_empty() && self.tables.is_empty()
    }

    /// Where the table with that id stands in `tables`, or would stand; and the table if it is
    /// there.
    pub(super) fn table(&self, id: TableId) -> (usize, Option<&TableUse>) {
        let index = self.tables.partition_point(|table| table.file.id() < id);
        (index, self.tables.get(index).filter(|table| table.file.id() == id))
    }

    /// The indexes of a run's level and of the run in it.
    pub(super) fn position(&self, run: RunId) -> Option<(usize, usize)> {
        self.levels.iter().enumerate().find_map(|(level, runs)| {
            let index = runs.runs.iter().position(|other| other.id() == run)?;
            Some((level, index))
        })
    }

    /// The changes that make this tree out of nothing.
    fn describe(&self, tree: TreeId, changes: &mut Vec<Change>) {
        changes.push(Change::TreeCreated { tree });
        if !self.name.is_empty() {
            changes.push(Change::TreeNamed { tree, name: self.name.clone() });
        }
        if let Some(shape) = &self.shape {
            changes.push(Change::ShapeSet { tree, shape: shape.clone() });
        }
        if self.ages_mixed {
            changes.push(Change::AgesMixed { tree });
        }
        changes.extend(self.skips.iter().map(|&Skip { through, count }| Change::SequencesSkipped {
            tree,
            through,
            count,
        }));
        changes.extend(self.tables().map(|file| Change::TableAdded { tree, meta: file.meta().clone() }));
        for (level, runs) in self.levels.iter().enumerate() {
            for (index, run) in runs.runs.iter().enumerate() {
                changes.push(Change::RunAdded { tree, run: run.id(), level: level as u32 + 1, index: index as u32 });
                if !run.is_empty() {
                    let slices = run.slices().iter().map(Slice::spec).collect();
                    changes.push(Change::SlicesAdded { tree, run: run.id(), slices });
                }
            }
        }
        for merge in &self.compactions {
            let Compaction { id, inputs, output, done } = &**merge;
            changes.push(Change::CompactionBegun { tree, merge: *id, inputs: inputs.clone(), output: *output });
            // To say again that a range is done changes nothing else: the inputs have nothing there
            // any more.
            changes.extend(done.iter().map(|range| Change::CompactionAdvanced {
                tree,
                merge: *id,
                range: range.clone(),
                outputs: Vec::new(),
            }));
        }
        if self.flushed_through > Sequence::ZERO {
            changes.push(Change::FlushedThrough { tree, sequence: self.flushed_through });
        }
    }
}

impl Level {
    /// The runs, young to old.
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }
}

impl Compaction {
    /// True if the run is one of its inputs or its output.
    pub fn names(&self, run: RunId) -> bool {
        self.output == run || self.inputs.contains(&run)
    }
}
