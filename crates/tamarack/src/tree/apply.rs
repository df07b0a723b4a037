//! [`Version::apply`]: makes a new version from the previous one and an edit.
//!
//! The changes are applied one after another to a draft; conditions on the whole edit are checked
//! at the end. The same code runs before an edit is written, where a violation is our own mistake,
//! and when a manifest is read, where it is damage.
//!
//! The draft shares everything with the previous version, and `Arc::make_mut` copies what a change
//! touches: one tree, one level's list of runs, one run, and one piece of its list of slices.

use std::sync::Arc;

use super::broken::{Broken, broken};
use super::run::{Cut, Run};
use super::slice::Slice;
use super::table_file::{TableFile, TableFiles};
use super::version::{Compaction, Level, TableUse, TreeVersion, Version};
use crate::entry::Sequence;
use crate::format::edit::{Change, CompactionId, Edit, KeyRange, RunId, SliceSpec};
use crate::format::meta::{TableId, TableMeta, TreeId};
use crate::format::names::FILE_NUMBER_MAX;
use crate::mistake::{self, Mistake};

/// Maximum number of levels: with the smallest useful size ratio, 2, they hold 2^63 memtables.
const LEVELS_MAX: u32 = 64;

/// The result of an edit.
#[derive(Debug)]
pub struct Applied {
    /// The new version.
    pub version: Version,
    /// The tables whose last slice was removed.
    pub released: Vec<Arc<TableFile>>,
}

impl Version {
    /// Creates the version that a manifest's base describes.
    pub fn from_base(base: &Edit, files: Arc<TableFiles>) -> Result<Self, Broken> {
        let Some((Change::Database { id }, changes)) = base.changes.split_first() else {
            return broken("the base does not begin with the database's id");
        };
        let mut version = Self::nothing(files);
        version.database = *id;
        version.edit = base.number;
        Ok(Draft::new(version).carry_out(changes)?.version)
    }

    /// Returns the version after `edit`. This one does not change.
    pub fn apply(&self, edit: &Edit) -> Result<Applied, Broken> {
        if edit.number.0 != self.edit.0 + 1 {
            return broken(format!("edit {:?} cannot follow edit {:?}", edit.number, self.edit));
        }
        if self.wal_end.is_some() && !edit.changes.contains(&Change::WalReopened) {
            return broken(format!("edit {:?} of a closed database does not reopen the WAL", edit.number));
        }
        let mut version = self.clone();
        version.edit = edit.number;
        Draft::new(version).carry_out(&edit.changes)
    }
}

/// A version that is being changed.
struct Draft {
    version: Version,
    /// Slices that were added to runs.
    added: Vec<(TreeId, RunId, Slice)>,
    /// Runs that were cut or are new.
    touched: Vec<(TreeId, RunId)>,
    /// Tables that the edit adds.
    new_tables: Vec<(TreeId, TableId)>,
    /// Tables that no slice referenced at some moment.
    unnamed: Vec<(TreeId, TableId)>,
}

impl Draft {
    fn new(version: Version) -> Self {
        Self { version, added: Vec::new(), touched: Vec::new(), new_tables: Vec::new(), unnamed: Vec::new() }
    }

    fn carry_out(mut self, changes: &[Change]) -> Result<Applied, Broken> {
        for change in changes {
            self.change(change)?;
        }
        for tree in self.version.trees.values_mut() {
            if tree.levels.last().is_some_and(|level| level.runs.is_empty()) {
                let tree = Arc::make_mut(tree);
                let used = tree.levels.iter().rposition(|level| !level.runs.is_empty()).map_or(0, |last| last + 1);
                tree.levels.truncate(used);
            }
            let (last, flushed) = (tree.range_deletes.last(), tree.flushed_through);
            if last > flushed {
                return broken(format!("a range delete has {last:?}, past what is flushed, {flushed:?}"));
            }
            if tree.ages_mixed && tree.runs().count() <= 1 {
                Arc::make_mut(tree).ages_mixed = false;
            }
        }
        self.check_touched()?;
        self.check_new_tables()?;
        self.check_added()?;
        let released = self.release();
        Ok(Applied { version: self.version, released })
    }

    fn change(&mut self, change: &Change) -> Result<(), Broken> {
        match change {
            Change::Database { id } => broken(format!("the database's id {id:016x} is not at the start of a base")),
            Change::IdsUsed { tables, runs, compactions } => self.use_ids(*tables, *runs, *compactions),
            Change::TreeCreated { tree } => match self.version.trees.insert(*tree, Arc::new(TreeVersion::new(*tree))) {
                None => Ok(()),
                Some(_) => broken(format!("{tree:?} exists already")),
            },
            Change::TreeNamed { tree, name } => self.name_tree(*tree, name),
            Change::TreeDropped { tree } => {
                if !self.tree_mut(*tree)?.is_empty() {
                    return broken(format!("{tree:?} is dropped, but is not empty"));
                }
                self.version.trees.remove(tree);
                Ok(())
            }
            Change::TableAdded { tree, meta } => self.add_table(*tree, meta),
            Change::RunAdded { tree, run, level, index } => self.add_run(*tree, *run, *level, *index),
            Change::SlicesAdded { tree, run, slices } => {
                self.refuse_compactions(*tree, *run)?;
                self.add_slices(*tree, *run, slices, &KeyRange::ALL)
            }
            Change::RunCut { tree, run, range } => {
                self.refuse_compactions(*tree, *run)?;
                self.cut(*tree, *run, range)
            }
            Change::RunRemoved { tree, run } => {
                self.refuse_compactions(*tree, *run)?;
                self.cut(*tree, *run, &KeyRange::ALL)?;
                self.remove_run(*tree, *run)
            }
            Change::CompactionBegun { tree, compaction, inputs, output } => {
                self.begin_compaction(*tree, *compaction, inputs, *output)
            }
            Change::CompactionAdvanced { tree, compaction, range, outputs } => {
                self.advance_compaction(*tree, *compaction, range, outputs)
            }
            Change::CompactionEnded { tree, compaction } => self.end_compaction(*tree, *compaction),
            Change::Relabelled { tree, levels } => relabel(self.tree_mut(*tree)?, levels),
            Change::ShapeSet { tree, shape } => {
                self.tree_mut(*tree)?.shape = Some(shape.clone());
                Ok(())
            }
            Change::FlushedThrough { tree, sequence } => {
                let flushed = &mut self.tree_mut(*tree)?.flushed_through;
                if sequence < flushed {
                    return broken(format!("{tree:?} was flushed through {flushed:?}, not only {sequence:?}"));
                }
                *flushed = *sequence;
                Ok(())
            }
            Change::WalEnd { position } => {
                self.version.wal_end = Some(*position);
                // A close makes everything durable first: what is damaged before its end is no torn
                // end.
                self.version.wal_durable = self.version.wal_durable.max(*position);
                Ok(())
            }
            Change::WalReopened => {
                self.version.wal_end = None;
                Ok(())
            }
            Change::AgesMixed { tree } => {
                self.tree_mut(*tree)?.ages_mixed = true;
                Ok(())
            }
            Change::WalDurable { position } => {
                self.version.wal_durable = self.version.wal_durable.max(*position);
                Ok(())
            }
            Change::RangesDeleted { tree, ranges } => {
                let account = self.version.files.storage().account().clone();
                let deletes = Arc::make_mut(&mut self.tree_mut(*tree)?.range_deletes);
                let added = deletes.add(ranges);
                deletes.charge_to(&account);
                added.or_else(|sequence| {
                    broken(format!("the range delete of {sequence:?} is empty, or not the only one of that sequence"))
                })
            }
            Change::RangeDeletesEnded { tree, sequences } => {
                let account = self.version.files.storage().account().clone();
                let deletes = Arc::make_mut(&mut self.tree_mut(*tree)?.range_deletes);
                let ended = deletes.end(sequences);
                deletes.charge_to(&account);
                ended.or_else(|sequence| broken(format!("the range delete of {sequence:?} ends, but is not there")))
            }
            Change::MergeOperatorSet { tree, name } => {
                self.tree_mut(*tree)?.merge_operator = Some(name.clone());
                Ok(())
            }
        }
    }

    fn use_ids(&mut self, tables: u64, runs: u64, compactions: u64) -> Result<(), Broken> {
        let next = &mut self.version.next;
        if tables < next.table || runs < next.run || compactions < next.compaction {
            return broken(format!("ids {tables}, {runs}, {compactions} are taken back: {next:?}"));
        }
        // So that the numbers that are given out from here on cannot wrap.
        if tables > FILE_NUMBER_MAX || runs.max(compactions) > u64::MAX / 2 {
            return broken(format!("ids {tables}, {runs}, {compactions} are larger than any database needs"));
        }
        (next.table, next.run, next.compaction) = (tables, runs, compactions);
        Ok(())
    }

    fn name_tree(&mut self, tree: TreeId, name: &Arc<str>) -> Result<(), Broken> {
        if let Some((other, _)) = self.version.trees.iter().find(|(id, other)| **id != tree && other.name == *name) {
            return broken(format!("{other:?} has the name {name:?} that {tree:?} is given"));
        }
        self.tree_mut(tree)?.name = name.clone();
        Ok(())
    }

    fn add_table(&mut self, tree: TreeId, meta: &Arc<TableMeta>) -> Result<(), Broken> {
        let (id, next, edit) = (meta.id, self.version.next.table, self.version.edit);
        if id.0 >= next || self.version.trees.values().any(|tree| tree.table(id).1.is_some()) {
            return broken(format!("{id:?} is not a new table: the next is {next}"));
        }
        if meta.smallest_key > meta.largest_key || meta.smallest_sequence > meta.largest_sequence {
            return broken(format!("the bounds of a table are the wrong way round: {meta:?}"));
        }
        let is_of_ingest = meta.ingest.is_some() && meta.sequence_base < meta.smallest_sequence;
        if meta.sequence_base > Sequence::ZERO && !is_of_ingest {
            return broken(format!("a table cannot have this sequence base: {meta:?}"));
        }
        if meta.created_after > edit {
            return broken(format!("a table is from the future of edit {edit:?}: {meta:?}"));
        }
        let file = TableFile::new(self.version.database, meta.clone(), self.version.files.clone());
        let tables = self.tree_mut(tree)?;
        let at = tables.table(id).0;
        tables.tables.splice(at..at, [TableUse { file, slices: 0 }]);
        self.new_tables.push((tree, id));
        Ok(())
    }

    fn add_run(&mut self, tree: TreeId, run: RunId, level: u32, index: u32) -> Result<(), Broken> {
        let next = self.version.next.run;
        let levels = self.tree_mut(tree)?;
        if run.0 >= next || levels.position(run).is_some() {
            return broken(format!("{run:?} is not a new run: the next is {next}"));
        }
        if !(1..=LEVELS_MAX).contains(&level) {
            return broken(format!("{run:?} cannot be in level {level}"));
        }
        let count = levels.levels.len().max(level as usize);
        levels.levels.resize_with(count, Arc::default);
        let runs = &mut Arc::make_mut(&mut levels.levels[level as usize - 1]).runs;
        if index as usize > runs.len() {
            return broken(format!("{run:?} cannot be number {index} of {} runs in level {level}", runs.len()));
        }
        runs.insert(index as usize, Arc::new(Run::new(run)));
        self.touched.push((tree, run));
        Ok(())
    }

    fn add_slices(&mut self, tree: TreeId, run: RunId, specs: &[SliceSpec], within: &KeyRange) -> Result<(), Broken> {
        let version = self.tree_mut(tree)?;
        let mut slices = Vec::with_capacity(specs.len());
        for spec in specs {
            let (at, Some(_)) = version.table(spec.table) else {
                return broken(format!("{:?} gets a slice of a table that is not there: {spec:?}", run));
            };
            let table = version.tables.get_mut(at).expect("it was found there");
            table.slices += 1;
            slices.push(Slice::new(table.file.clone(), spec)?);
        }
        if let Some(outside) = slices.iter().find(|slice| !slice.is_within(within)) {
            return broken(format!("the slice {:?} is not within {within:?}", outside.spec()));
        }
        run_mut(version, run)?.add(slices.clone())?;
        self.added.extend(slices.into_iter().map(|slice| (tree, run, slice)));
        Ok(())
    }

    fn cut(&mut self, tree: TreeId, run: RunId, range: &KeyRange) -> Result<(), Broken> {
        if range.is_empty() {
            return broken(format!("{run:?} is cut by the empty range {range:?}"));
        }
        let version = self.tree_mut(tree)?;
        let cuts = run_mut(version, run)?.cut(range);
        let mut unnamed = Vec::new();
        for Cut { table, left } in cuts {
            let (at, _) = version.table(table.id());
            let table =
                version.tables.get_mut(at).unwrap_or_else(|| panic!("a slice names {table:?}, which is not there"));
            table.slices = table.slices + left - 1;
            if table.slices == 0 {
                unnamed.push((tree, table.file.id()));
            }
        }
        self.unnamed.extend(unnamed);
        self.touched.push((tree, run));
        Ok(())
    }

    fn remove_run(&mut self, tree: TreeId, run: RunId) -> Result<(), Broken> {
        let version = self.tree_mut(tree)?;
        let Some((level, index)) = version.position(run) else { return missing_run(run) };
        Arc::make_mut(&mut version.levels[level]).runs.remove(index);
        Ok(())
    }

    fn begin_compaction(
        &mut self,
        tree: TreeId,
        id: CompactionId,
        inputs: &[RunId],
        output: RunId,
    ) -> Result<(), Broken> {
        let next = self.version.next.compaction;
        let version = self.tree_mut(tree)?;
        if id.0 >= next || version.compactions.iter().any(|compaction| compaction.id == id) {
            return broken(format!("{id:?} is not a new compaction: the next is {next}"));
        }
        if let Some(compaction) = inputs.iter().chain([&output]).find_map(|run| version.compaction_of(*run)) {
            return broken(format!("{id:?} shares a run with {compaction:?}"));
        }
        let compaction = Compaction { id, inputs: inputs.to_vec(), output, done: Vec::new() };
        check_neighbours(version, &compaction)?;
        version.compactions.push(Arc::new(compaction));
        Ok(())
    }

    fn advance_compaction(
        &mut self,
        tree: TreeId,
        id: CompactionId,
        range: &KeyRange,
        outputs: &[SliceSpec],
    ) -> Result<(), Broken> {
        let version = self.tree_mut(tree)?;
        let Some(compaction) = version.compactions.iter_mut().find(|compaction| compaction.id == id) else {
            return missing_compaction(id);
        };
        let compaction = Arc::make_mut(compaction);
        add_range(&mut compaction.done, range).map_err(|Broken(why)| Broken(format!("{id:?}: {why}")))?;
        let (mut inputs, output) = (compaction.inputs.clone(), compaction.output);
        if mistake::is_planted(Mistake::MissingCut) {
            inputs.pop();
        }
        for input in inputs {
            self.cut(tree, input, range)?;
        }
        self.add_slices(tree, output, outputs, range)
    }

    fn end_compaction(&mut self, tree: TreeId, id: CompactionId) -> Result<(), Broken> {
        let version = self.tree_mut(tree)?;
        let Some(index) = version.compactions.iter().position(|compaction| compaction.id == id) else {
            return missing_compaction(id);
        };
        let compaction = version.compactions.remove(index);
        for input in &compaction.inputs {
            let Some((run, ..)) = version.run(*input) else { return missing_run(*input) };
            if !run.is_empty() {
                return broken(format!("{id:?} ends, but its input {input:?} still has slices"));
            }
        }
        let Some((output, ..)) = version.run(compaction.output) else { return missing_run(compaction.output) };
        let output_is_empty = output.is_empty();
        for input in &compaction.inputs {
            self.remove_run(tree, *input)?;
        }
        if output_is_empty { self.remove_run(tree, compaction.output) } else { Ok(()) }
    }

    /// Refuses changes of runs in a compaction, except by its handovers: a cut of one input alone
    /// would let deleted keys come back.
    fn refuse_compactions(&mut self, tree: TreeId, run: RunId) -> Result<(), Broken> {
        match self.tree_mut(tree)?.compaction_of(run) {
            None => Ok(()),
            Some(compaction) => broken(format!("{run:?} is changed outside of {compaction:?}")),
        }
    }

    fn tree_mut(&mut self, tree: TreeId) -> Result<&mut TreeVersion, Broken> {
        match self.version.trees.get_mut(&tree) {
            Some(version) => Ok(Arc::make_mut(version)),
            None => broken(format!("{tree:?} does not exist")),
        }
    }

    /// Checks that runs without slices are in a compaction.
    fn check_touched(&self) -> Result<(), Broken> {
        for (tree, run) in &self.touched {
            let tree = &self.version.trees[tree];
            if tree.run(*run).is_some_and(|(run, ..)| run.is_empty()) && tree.compaction_of(*run).is_none() {
                return broken(format!("{run:?} has no slices and is in no compaction"));
            }
        }
        Ok(())
    }

    /// Checks that added slices are younger than older runs' entries of the same keys, and older
    /// than younger runs' entries.
    fn check_added(&self) -> Result<(), Broken> {
        for (tree, run, slice) in &self.added {
            self.version.trees[tree].check_age(*run, slice)?;
        }
        Ok(())
    }

    /// Checks that each new table has a slice and no entry past the flushed sequence, which the WAL
    /// would bring back once more.
    fn check_new_tables(&self) -> Result<(), Broken> {
        for (tree, id) in &self.new_tables {
            let tree = &self.version.trees[tree];
            let Some(table) = tree.table(*id).1.filter(|table| table.slices > 0) else {
                return broken(format!("no slice names the new table {id:?}"));
            };
            let (last, flushed) = (table.file.meta().largest_sequence, tree.flushed_through);
            if last > flushed {
                return broken(format!("the new table {id:?} holds {last:?}, past what is flushed, {flushed:?}"));
            }
        }
        Ok(())
    }

    /// Removes the tables that no slice references.
    fn release(&mut self) -> Vec<Arc<TableFile>> {
        let mut released = Vec::new();
        for (tree, id) in std::mem::take(&mut self.unnamed) {
            let version = self.version.trees.get_mut(&tree).expect("trees do not go away");
            let (at, Some(table)) = version.table(id) else { continue };
            if table.slices == 0 {
                released.push(table.file.clone());
                Arc::make_mut(version).tables.splice(at..at + 1, []);
            }
        }
        released
    }
}

impl TreeVersion {
    /// Checks the age of one slice against the slices of all other runs that overlap it, as far as
    /// whole tables tell.
    pub(super) fn check_age(&self, run: RunId, slice: &Slice) -> Result<(), Broken> {
        if self.ages_mixed {
            return Ok(());
        }
        let meta = slice.table().meta();
        let mut is_older = false;
        for other in self.runs() {
            if other.id() == run {
                is_older = true;
                continue;
            }
            let Some((smallest, largest)) = other.sequences() else { continue };
            let in_order = |smallest, largest| {
                if is_older { largest < meta.smallest_sequence } else { smallest > meta.largest_sequence }
            };
            if in_order(smallest, largest) {
                continue;
            }
            let wrong = other.overlapping(slice).find(|other| {
                let other = other.table().meta();
                !in_order(other.smallest_sequence, other.largest_sequence)
            });
            if let Some(wrong) = wrong {
                return broken(format!(
                    "slice {:?} of {run:?} and slice {:?} of {:?} share keys, and the younger one is not younger",
                    slice.spec(),
                    wrong.spec(),
                    other.id()
                ));
            }
        }
        Ok(())
    }
}

/// Checks that a compaction's inputs are neighbours and its output is among them.
pub(super) fn check_neighbours(tree: &TreeVersion, compaction: &Compaction) -> Result<(), Broken> {
    let order: Vec<RunId> = tree.runs().map(|run| run.id()).collect();
    let block = compaction.inputs.len() + 1;
    let mut expected = compaction.inputs.iter();
    let start = order.iter().position(|run| compaction.names(*run)).unwrap_or(order.len());
    let found = order[start..].iter().take(block);
    let neighbours = found.clone().count() == block
        && found.clone().any(|run| *run == compaction.output)
        && found.filter(|run| **run != compaction.output).all(|run| expected.next() == Some(run));
    if neighbours && !compaction.inputs.is_empty() {
        return Ok(());
    }
    broken(format!("the runs of {compaction:?} are not neighbours in {order:?}"))
}

/// Moves runs between levels, without changing their order.
fn relabel(tree: &mut TreeVersion, levels: &[Vec<RunId>]) -> Result<(), Broken> {
    if !levels.iter().flatten().eq(tree.runs().map(|run| run.id()).collect::<Vec<_>>().iter()) {
        return broken(format!("relabelling as {levels:?} changes the runs or their order"));
    }
    if levels.len() > LEVELS_MAX as usize {
        return broken(format!("relabelling makes {} levels", levels.len()));
    }
    let runs: Vec<Arc<Run>> = tree.runs().cloned().collect();
    let mut runs = runs.into_iter();
    tree.levels =
        levels.iter().map(|level| Arc::new(Level { runs: runs.by_ref().take(level.len()).collect() })).collect();
    Ok(())
}

fn run_mut(tree: &mut TreeVersion, run: RunId) -> Result<&mut Run, Broken> {
    let Some((level, index)) = tree.position(run) else { return missing_run(run) };
    let level = Arc::make_mut(&mut tree.levels[level]);
    Ok(Arc::make_mut(&mut level.runs[index]))
}

/// Adds a range to the ordered, disjoint, non-adjacent `ranges`, with which it must not overlap.
fn add_range(ranges: &mut Vec<KeyRange>, range: &KeyRange) -> Result<(), Broken> {
    if range.is_empty() {
        return broken(format!("the range {range:?} is empty"));
    }
    let at = ranges.partition_point(|other| other.is_before(range));
    if ranges.get(at).is_some_and(|next| !range.is_before(next)) {
        return broken(format!("the range {range:?} has been handed over before, or part of it: {ranges:?}"));
    }
    let mut joined = range.clone();
    let (mut start, mut end) = (at, at);
    if let Some(previous) = at.checked_sub(1).map(|previous| &ranges[previous])
        && previous.to == range.from
    {
        joined.from = previous.from.clone();
        start -= 1;
    }
    if let Some(next) = ranges.get(at)
        && next.from == range.to
    {
        joined.to = next.to.clone();
        end += 1;
    }
    ranges.splice(start..end, [joined]);
    Ok(())
}

fn missing_run<T>(run: RunId) -> Result<T, Broken> {
    broken(format!("{run:?} does not exist"))
}

fn missing_compaction<T>(compaction: CompactionId) -> Result<T, Broken> {
    broken(format!("{compaction:?} is not in progress"))
}
