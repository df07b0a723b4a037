//! [`Version`]: the tables on storage at one moment, as an immutable value.
//!
//! ```text
//! tree 0     flushed through 812, shape, compactions in progress
//!   level 1  │ run 9 │ run 8 │          young to old
//!   level 2  │ run 6 ───────────│
//!   level 3  │ run 2 ──────────────────────────────│
//! ```
//!
//! Levels are numbered from 1, small to large. Read from level 1 on, and young to old within a
//! level, the runs of a tree are in one order in which **for each key, younger versions come before
//! older ones**. Edits never change that order; they only add and remove.
//!
//! [`Version::apply`] makes a version from the previous one and an edit, and shares everything
//! unchanged: an edit to a tree of 10,000 tables costs microseconds. The files of a version's
//! tables are kept as long as the version is referenced.
//!
//! Invariants (the cheap ones are checked by every edit, all of them by [`Version::check`]):
//!
//! * run, compaction and table ids are below the next ones, and each is unique;
//! * slices of a run are in order, disjoint, and each within its table's keys;
//! * where slices of two runs overlap, all sequences of the younger run's table are larger, unless
//!   a range of keys was compacted by itself: then only each key's versions are in order, which
//!   requires reading tables to check;
//! * a run has no slices only while a compaction references it;
//! * a compaction's inputs are neighbours, its output is next to them, and none of them is in
//!   another compaction; a range that was handed over is gone from all inputs;
//! * each table of a tree is referenced by a slice of that tree, and has no entry past the flushed
//!   sequence; no range delete is past it either.
//!
//! Tests: `tree/tests` compares random histories of edits with a simple model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chunks::Chunks;
use super::kept_cursors::KeptCursors;
use super::range_deletes::RangeDeletes;
use super::run::Run;
use super::slice::Slice;
use super::table_file::{TableFile, TableFiles};
use crate::entry::Sequence;
use crate::format::edit::{Change, CompactionId, Edit, KeyRange, RunId, ShapeBlob};
use crate::format::meta::{EditNumber, TableId, TreeId};
use crate::format::names::FileName;

/// The tables on storage at one moment.
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

/// The most tables that a database can have made without an edit that says so: far more than a disk
/// has space for.
const TABLES_AHEAD_MAX: u64 = 1 << 32;

/// The next unused ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextIds {
    /// The next table's.
    pub table: u64,
    /// The next run's.
    pub run: u64,
    /// The next compaction's.
    pub compaction: u64,
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
    /// The name of the operator of its merge operands, if one was set.
    pub(super) merge_operator: Option<Arc<str>>,
    pub(super) range_deletes: Arc<RangeDeletes>,
    /// Ordered by id.
    pub(super) tables: Chunks<TableUse>,
    kept_cursors: KeptCursors,
}

/// A table of a tree, and the number of slices that reference it.
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

/// A compaction in progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// Its number.
    pub id: CompactionId,
    /// The input runs, young to old.
    pub inputs: Vec<RunId>,
    /// The output run.
    pub output: RunId,
    /// The ranges that it has handed over: ordered, disjoint, and not adjacent.
    pub done: Vec<KeyRange>,
}

impl Version {
    /// Creates the version of a new database, with the empty default tree. It stands for edit 1.
    pub fn new(database: u64, files: Arc<TableFiles>) -> Self {
        let mut version = Self::nothing(files);
        version.database = database;
        version.edit = EditNumber(1);
        version.trees.insert(TreeId::DEFAULT, Arc::new(TreeVersion::new(TreeId::DEFAULT)));
        version
    }

    /// Creates the version before any edit.
    pub(super) fn nothing(files: Arc<TableFiles>) -> Self {
        Self {
            database: 0,
            edit: EditNumber(0),
            next: NextIds { table: 1, run: 1, compaction: 1 },
            trees: BTreeMap::new(),
            wal_end: None,
            wal_durable: 0,
            files,
        }
    }

    /// Returns the set of tables.
    pub fn files(&self) -> &Arc<TableFiles> {
        &self.files
    }

    /// Returns the database's random id.
    pub fn database(&self) -> u64 {
        self.database
    }

    /// Returns the edit that made this version.
    pub fn edit_number(&self) -> EditNumber {
        self.edit
    }

    /// Returns the next unused ids.
    pub fn next_ids(&self) -> NextIds {
        self.next
    }

    /// Returns false for the number of a table that this database cannot have made since this
    /// version: it is too far ahead, whatever edits are lost.
    pub fn may_have_made(&self, number: u64) -> bool {
        number < self.next.table.saturating_add(TABLES_AHEAD_MAX)
    }

    /// Returns the numbers of those tables among `files` that this database may have made: named by
    /// this version, orphans, or named by edits that are lost.
    pub fn own_tables(&self, files: impl Iterator<Item = FileName>) -> impl Iterator<Item = u64> {
        files.filter_map(|file| file.table()).filter(|number| self.may_have_made(*number))
    }

    /// Returns the trees by their numbers.
    pub fn trees(&self) -> impl Iterator<Item = (TreeId, &Arc<TreeVersion>)> {
        self.trees.iter().map(|(id, tree)| (*id, tree))
    }

    /// Returns a tree, if it exists.
    pub fn tree(&self, tree: TreeId) -> Option<&Arc<TreeVersion>> {
        self.trees.get(&tree)
    }

    /// Returns a tree that must exist.
    ///
    /// # Panics
    /// If it does not.
    pub fn expect_tree(&self, tree: TreeId) -> &Arc<TreeVersion> {
        self.trees.get(&tree).unwrap_or_else(|| panic!("{tree:?} is not in the version of {:?}", self.edit))
    }

    /// Returns the end of the WAL if the database was closed cleanly; `None` while it is open or
    /// after a crash.
    pub fn wal_end(&self) -> Option<u64> {
        self.wal_end
    }

    /// Returns the position up to which the WAL is known to be durable.
    pub fn wal_durable(&self) -> u64 {
        self.wal_durable
    }

    /// Returns the version without the WAL's positions, for a new database with these tables and a
    /// WAL of its own.
    pub fn without_wal(&self) -> Self {
        Self { wal_end: None, wal_durable: 0, ..self.clone() }
    }

    /// Returns all tables of all trees.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.trees.values().flat_map(|tree| tree.tables())
    }

    /// Returns the edit that makes this version out of nothing: the base of a new manifest.
    pub fn state_edit(&self) -> Edit {
        let NextIds { table, run, compaction } = self.next;
        let mut changes = vec![
            Change::Database { id: self.database },
            Change::IdsUsed { tables: table, runs: run, compactions: compaction },
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
    /// Creates an empty tree.
    pub(super) fn new(id: TreeId) -> Self {
        Self {
            id,
            name: Arc::default(),
            levels: Vec::new(),
            compactions: Vec::new(),
            flushed_through: Sequence::ZERO,
            shape: None,
            ages_mixed: false,
            merge_operator: None,
            range_deletes: Arc::default(),
            tables: Chunks::default(),
            kept_cursors: KeptCursors::default(),
        }
    }

    /// Returns the cursors that scans of this version have kept for others.
    pub fn kept_cursors(&self) -> &KeptCursors {
        &self.kept_cursors
    }

    /// Returns the tree's number.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// Returns the levels from 1 on. The last one is not empty.
    pub fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }

    /// Returns all runs, young to old: level by level, and within each.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        self.levels.iter().flat_map(|level| level.runs.iter())
    }

    /// Returns a run with the number of its level (from 1) and its index in it (from 0, young to
    /// old).
    pub fn run(&self, run: RunId) -> Option<(&Arc<Run>, u32, usize)> {
        let (level, index) = self.position(run)?;
        Some((&self.levels[level].runs[index], level as u32 + 1, index))
    }

    /// Returns the compactions in progress.
    pub fn compactions(&self) -> &[Arc<Compaction>] {
        &self.compactions
    }

    /// Returns the number of a run's level, from 1.
    pub fn level_of(&self, run: RunId) -> Option<usize> {
        Some(self.position(run)?.0 + 1)
    }

    /// Returns the compaction with this number, which is in progress.
    ///
    /// # Panics
    /// If it is not.
    pub fn compaction(&self, id: CompactionId) -> &Arc<Compaction> {
        let found = self.compactions.iter().find(|compaction| compaction.id == id);
        found.unwrap_or_else(|| panic!("{id:?} is carried out, but not in progress in the version"))
    }

    /// Returns the compaction that has this run as an input or output, if any.
    pub fn compaction_of(&self, run: RunId) -> Option<&Arc<Compaction>> {
        self.compactions.iter().find(|compaction| compaction.names(run))
    }

    /// Returns the sequence up to which all writes are in tables.
    pub fn flushed_through(&self) -> Sequence {
        self.flushed_through
    }

    /// Returns the tree's shape, if one was set.
    pub fn shape(&self) -> Option<&ShapeBlob> {
        self.shape.as_ref()
    }

    /// Returns true if the sequences of whole tables say nothing about their age, since a range of
    /// keys was compacted by itself, or a repair has left a part of a compaction.
    pub fn are_ages_mixed(&self) -> bool {
        self.ages_mixed
    }

    /// Returns the name of the merge operator that its merge operands are for, if one was set.
    pub fn merge_operator(&self) -> Option<&Arc<str>> {
        self.merge_operator.as_ref()
    }

    /// Returns true if its tables have merge operands.
    pub fn has_merge_operands(&self) -> bool {
        self.tables().any(|table| table.meta().merge_operands() > 0)
    }

    /// Returns the range deletes that are not applied to all runs yet, which lookups, scans and
    /// compactions consult before any run and its filters: a range delete can hide an entry
    /// although filters rightly exclude its key from all younger runs.
    #[inline(always)]
    pub fn range_deletes(&self) -> &RangeDeletes {
        &self.range_deletes
    }

    /// As [`TreeVersion::range_deletes`], shared.
    pub fn shared_range_deletes(&self) -> &Arc<RangeDeletes> {
        &self.range_deletes
    }

    /// Returns how many slices of runs reference a table.
    pub(super) fn slices_of(&self, table: TableId) -> usize {
        self.table(table).1.map_or(0, |table| table.slices)
    }

    /// Returns the tables, ordered by id.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.tables.iter().map(|table| &table.file)
    }

    /// Returns the keyspace's name; empty for the default one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if it has no run, table or compaction.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty() && self.compactions.is_empty() && self.tables.is_empty() && self.range_deletes.is_empty()
    }

    /// Returns the index of the table with that id in `tables`, or where it would be inserted; and
    /// the table if it exists.
    pub(super) fn table(&self, id: TableId) -> (usize, Option<&TableUse>) {
        let index = self.tables.partition_point(|table| table.file.id() < id);
        (index, self.tables.get(index).filter(|table| table.file.id() == id))
    }

    /// Returns the indexes of a run's level and of the run in it.
    pub(super) fn position(&self, run: RunId) -> Option<(usize, usize)> {
        self.levels.iter().enumerate().find_map(|(level, runs)| {
            let index = runs.runs.iter().position(|other| other.id() == run)?;
            Some((level, index))
        })
    }

    /// Appends the changes that make this tree out of nothing.
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
        if let Some(name) = &self.merge_operator {
            changes.push(Change::MergeOperatorSet { tree, name: name.clone() });
        }
        if !self.range_deletes.is_empty() {
            let ranges = self.range_deletes.list().iter().map(|delete| (delete.range.clone(), delete.sequence));
            changes.push(Change::RangesDeleted { tree, ranges: ranges.collect() });
        }
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
        for compaction in &self.compactions {
            let Compaction { id, inputs, output, done } = &**compaction;
            changes.push(Change::CompactionBegun { tree, compaction: *id, inputs: inputs.clone(), output: *output });
            // Repeating that a range is done has no other effect: the inputs have nothing there any
            // more.
            changes.extend(done.iter().map(|range| Change::CompactionAdvanced {
                tree,
                compaction: *id,
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
    /// Returns the runs, young to old.
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }
}

impl Compaction {
    /// Returns true if the run is one of the inputs or the output.
    pub fn names(&self, run: RunId) -> bool {
        self.output == run || self.inputs.contains(&run)
    }
}
