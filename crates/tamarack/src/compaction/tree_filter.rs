//! [`TreeFilter`]: who changes the filter over the whole tree, and when.
//!
//! ```text
//! flush, handover ──► Unit: new entries ─► edit, state ─► entries of inputs become the output's
//! filter worker ────► begin: a code, LIDs, no partition ready
//!                     partitions from the digests of tables, a few at a time
//!                     runs that nobody has listed: their keys, table by table
//! ```
//!
//! # Units
//!
//! A [`Unit`] is a change of the filter together with the edit that it belongs to, from the first
//! entry inserted to the last one changed. One lock, the **gate**, is held meanwhile, and while the
//! filter worker makes partitions: then entries and state agree, and a partition can be made from
//! the digests of the runs of the state. A unit takes less than a microsecond for each of its keys,
//! so tens of milliseconds, and more for the flush of a large memtable. Lookups never wait.
//!
//! A partition that has too few buckets for what a unit inserts, or is overfull, is made anew
//! before, larger by about an eighth, or in two halves. All partitions grow alike, so those eighths
//! are of different sizes: else all would be full at once. Its entries come from the digests of all
//! listed tables. Those are read before the gate is closed, as far as it is known then which are
//! needed. A table that a compaction has cut has digests of keys that the run lacks; then the
//! present partition tells which keys still have an entry. (Sometimes it is wrong, as filters are:
//! an entry too many, which stays until the partition is made again.) When no compaction is in
//! progress, partitions of which less than half is in use are made anew, smaller.
//!
//! A compaction hands over what it has merged when its output is a whole table, or its lists are
//! full, so that neither they nor the time that the gate is closed grow without bound.
//!
//! # What is late
//!
//! Whatever is not known makes runs unlisted, never a lookup wrong: tables without digests or with
//! damaged ones, an ingest, a flush that began before the filter did. Runs that have digests are
//! listed by the filter worker; the keys of others with their next compaction.
//!
//! Tests: `tests/suite/chucky.rs`; lockstep histories; `crate::cuckoo` for the order of changes.

use std::cmp::Reverse;
use std::sync::Arc;

use tamarack_env::sync::{Mutex, MutexGuard, Rank};
use tamarack_filter::Digest;
use tamarack_model::Shape;
use tamarack_model::filter::FilterChoice;
use tamarack_model::filter::chucky;

use crate::compaction::filter_changes::{FilterChanges, UnitChanges, memory_bytes, taken_back};
use crate::compaction::key_lists::KeyLists;
use crate::compaction::partitions::{
    BUCKETS_MAX, BUCKETS_MIN, DigestsRead, ListedTable, Partitions, count_in, entries_max, listed_tables, of, unread,
};
use crate::compaction::task::Task;
use crate::cuckoo::{Directory, EntryChange, Interval};
use crate::error::{Error, Result};
use crate::format::edit::{CompactionId, RunId, SliceSpec};
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::memory::{Account, Charge, MemoryPart};
use crate::tree::level_ids::{FilterView, LevelIds, Lid};
use crate::tree::run::Run;
use crate::tree::slice::Slice;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFile;
use crate::tree::version::{TreeVersion, Version};

/// The first and the last of all digests.
const EVERYTHING: (Digest, Digest) = (Digest::from_stored(0), Digest::from_stored(u64::MAX));

/// All partitions are made anew if so many of their entries, as a share, are of keys that are in no
/// run any more.
const LEFTOVERS: f64 = 0.005;

/// The filter over the whole tree of a scheduler. See the module's documentation.
pub(super) struct TreeFilter {
    tree: Arc<Tree>,
    account: Arc<Account>,
    partitions: Partitions,
    gate: Mutex<Gate>,
}

/// What the gate protects, beside the filter.
#[derive(Default)]
struct Gate {
    /// The number of the last filter.
    epoch: u64,
    /// Partitions that are to be made anew, to get rid of so many leftovers, or to become smaller.
    remaking: Vec<(Interval, u64)>,
    leftovers: u64,
}

/// A change of the filter, until its edit is installed or fails. Nothing else changes it meanwhile.
#[must_use = "a unit ends with `published`, `failed` or `withdrawn`"]
pub(super) struct Unit<'a> {
    filter: &'a TreeFilter,
    _gate: MutexGuard<'a, Gate>,
    /// The run that got a LID.
    listed: Option<RunId>,
    changes: UnitChanges,
    charge: Charge,
}

/// The insertions of a table whose run is being listed, which were read before the gate was closed.
struct ReadArrival {
    table: TableId,
    lid: Lid,
    inserts: FilterChanges,
    _charge: Charge,
}

/// The run that the keys of a unit go to.
#[derive(Clone, Copy)]
struct Output {
    run: RunId,
    level: usize,
    /// The input whose LID it shares.
    owner: Option<RunId>,
    /// True if its new tables have digests.
    has_digests: bool,
}

impl TreeFilter {
    pub(super) fn new(tree: Arc<Tree>, account: Arc<Account>) -> Self {
        let partitions = Partitions::new(tree.clone(), account.clone());
        Self { tree, account, partitions, gate: Mutex::new(Rank::FilterGate, Gate::default()) }
    }

    /// The number of the filter; `None` without one.
    pub(super) fn epoch(&self) -> Option<u64> {
        self.tree.pin().filter().map(FilterView::epoch)
    }

    /// Lists for a part of a job whose inputs are these runs, or a memtable (`None`); `None` if
    /// there is no filter.
    pub(super) fn lists(&self, task: &Task, tree: &TreeVersion, inputs: Vec<Option<RunId>>) -> Option<KeyLists> {
        self.tree.level_ids(|ids| {
            let ids = ids.as_mut()?;
            let owner = match task {
                Task::Flush { input, .. } => input.filter(|input| ids.lid(*input).is_some()),
                Task::Compaction { id } => owner_of(ids, *id, tree).owner,
                // Which of the runs is the oldest that is left shows at each handover.
                Task::Range { .. } => None,
            };
            Some(KeyLists::new(ids.epoch, inputs, owner, &self.account))
        })
    }

    /// Begins the unit of a handover of what a part has copied (then `lists` are of that), or
    /// moves. Returns `None` if the part has to begin anew: it began before the filter, or with
    /// another owner. `present` gives the version, once nothing else changes what runs have.
    pub(super) fn begin_handover(
        &self,
        task: &Task,
        present: impl FnOnce() -> Arc<Version>,
        lists: Option<KeyLists>,
        (moved, tables): (&[SliceSpec], &[TableMeta]),
    ) -> Option<Unit<'_>> {
        let ahead = self.partitions.read_for(lists.as_slice());
        let gate = self.gate.lock();
        let version = present();
        let tree = self.tree.of(&version);
        let Some(epoch) = self.epoch() else { return Some(self.unit(gate)) };
        if lists.as_ref().map_or(moved.is_empty(), |lists| lists.epoch != epoch) {
            return None;
        }
        let has_digests = has_digests(tables);
        let output = match task {
            Task::Compaction { id } => {
                let output = self.tree.level_ids(|ids| owner_of(of(ids), *id, tree));
                Some(Output { has_digests, ..output })
            }
            Task::Range { inputs } => {
                let left = tree.runs().rfind(|run| inputs.contains(&run.id())).filter(|_| !tables.is_empty());
                left.map(|run| Output { run: run.id(), level: level_of(tree, run.id()), owner: None, has_digests })
            }
            Task::Flush { .. } => panic!("a flush hands over nothing before it is installed"),
        };
        let owner = output.and_then(|output| output.owner);
        if lists.as_ref().is_some_and(|lists| lists.owner() != owner) {
            return None;
        }
        Some(self.begin(gate, tree, (lists.as_slice(), moved), output, &ahead))
    }

    /// Begins the unit of a flush into the run with this number, which takes the place of `input`,
    /// if there is one. If a part began before the filter, the run will be unlisted. `present` is
    /// as for [`TreeFilter::begin_handover`].
    pub(super) fn begin_flush(
        &self,
        present: impl FnOnce() -> Arc<Version>,
        (input, run): (Option<RunId>, RunId),
        lists: Vec<Option<KeyLists>>,
        (moved, tables): (&[SliceSpec], &[TableMeta]),
    ) -> Unit<'_> {
        let parts = lists.len();
        let lists: Vec<KeyLists> = lists.into_iter().flatten().collect();
        let ahead = self.partitions.read_for(&lists);
        let gate = self.gate.lock();
        let version = present();
        let tree = self.tree.of(&version);
        let Some(epoch) = self.epoch() else { return self.unit(gate) };
        let owners = || lists.iter().map(KeyLists::owner);
        let owner = owners().next().flatten();
        let is_late = lists.len() < parts || lists.iter().any(|lists| lists.epoch != epoch);
        if is_late || owners().any(|other| other != owner) {
            // The entries of the input are left over.
            self.tree.level_ids(|ids| of(ids).leftovers += u64::from(input.is_some()));
            return self.unit(gate);
        }
        let level = input.map_or(1, |input| level_of(tree, input));
        let output = Output { run, level, owner, has_digests: has_digests(tables) };
        self.begin(gate, tree, (&lists, moved), Some(output), &ahead)
    }

    /// Begins the unit of an edit that cuts keys out of runs, or of none.
    pub(super) fn begin_cuts(&self) -> Unit<'_> {
        self.unit(self.gate.lock())
    }

    /// Notes that keys are cut out of runs. Their entries are left over: the filter names runs that
    /// have none of these keys any more.
    pub(super) fn note_leftovers(&self) {
        self.tree.level_ids(|ids| ids.iter_mut().for_each(|ids| ids.leftovers += 1));
    }

    /// A unit that changes nothing.
    fn unit<'a>(&'a self, gate: MutexGuard<'a, Gate>) -> Unit<'a> {
        let (changes, charge) = (UnitChanges::default(), self.account.charge(MemoryPart::Compactions, 0));
        Unit { filter: self, _gate: gate, listed: None, changes, charge }
    }

    /// Begins a unit: gives the output a LID, and inserts the entries that it needs.
    fn begin<'a>(
        &'a self,
        gate: MutexGuard<'a, Gate>,
        tree: &TreeVersion,
        (lists, moved): (&[KeyLists], &[SliceSpec]),
        output: Option<Output>,
        ahead: &DigestsRead,
    ) -> Unit<'a> {
        let mut unit = self.unit(gate);
        let lid = output.and_then(|output| {
            let (lid, is_new) = self.tree.level_ids(|ids| lid_for(of(ids), output, tree));
            unit.listed = is_new.then_some(output.run);
            lid
        });
        let owner = output.and_then(|output| output.owner).filter(|_| lid.is_some());
        let moved = moved.iter().filter_map(|spec| slice_of(tree, spec)).filter(|(run, _)| Some(*run) != owner);
        let moved: Vec<(Option<RunId>, Vec<Digest>)> =
            moved.filter_map(|(run, slice)| self.moved(run, slice, output)).collect();
        let inputs = lists.iter().flat_map(|lists| &lists.inputs).chain(moved.iter().map(|(run, _)| run));
        let named: Vec<RunId> = inputs.copied().flatten().chain(output.map(|output| output.run)).collect();
        let lids = || self.tree.level_ids(|ids| named.iter().map(|run| of(ids).lid(*run)).collect::<Vec<_>>());
        let resolve = |lid| {
            let lid_of = |run: RunId| self.tree.level_ids(|ids| of(ids).lid(run));
            UnitChanges::of(lists, &moved, lid, lid_of)
        };
        let before = lids();
        // Digests that could not be read have cost runs their LIDs, the output too.
        let lid = lid.filter(|_| output.and_then(|output| self.tree.level_ids(|ids| of(ids).lid(output.run))) == lid);
        unit.changes = resolve(lid);
        unit.charge.set(unit.changes.memory_bytes());
        self.partitions.make_space(&unit.changes.inserts, ahead);
        if let Some(output) = output
            && lids() != before
        {
            // Entries that were to become its own may be gone.
            self.tree.level_ids(|ids| of(ids).unlist(output.run, true));
            unit.changes = resolve(None);
            unit.charge.set(unit.changes.memory_bytes());
        }
        self.partitions.change(&unit.changes.inserts);
        if let Some(output) = output {
            self.tree.level_ids(|ids| of(ids).begin_aliases(unit.changes.relabelled(), output.run));
        }
        unit
    }

    /// The keys of a slice that is moved, and its run if their entries become those of the output;
    /// of a part of a table, they have to be inserted. Returns `None` if its digests cannot be
    /// read: the output is unlisted then.
    fn moved(&self, run: RunId, slice: &Slice, output: Option<Output>) -> Option<(Option<RunId>, Vec<Digest>)> {
        let keys = slice.table().digests_between(EVERYTHING.0, EVERYTHING.1);
        let keys = keys.inspect_err(|error| unread(slice.table(), error)).ok().flatten();
        if keys.is_none() || !slice.is_whole() {
            // Of a part of a table, keys that were handed over before have no entries any more.
            self.tree.level_ids(|ids| of(ids).leftovers += 1);
        }
        if keys.is_none() {
            self.tree.level_ids(|ids| output.iter().for_each(|output| of(ids).unlist(output.run, true)));
        }
        Some((slice.is_whole().then_some(run), keys?))
    }

    /// One step of the filter worker, for the filter that was chosen and the present shape. True if
    /// there is more to do.
    pub(super) fn step(&self, choice: FilterChoice, shape: &Shape) -> bool {
        let FilterChoice::Tree { bits_per_entry } = choice else {
            if self.epoch().is_some() {
                let _gate = self.gate.lock();
                // What goes may be the last to refer to tables, which close under locks of theirs.
                drop(self.tree.change_filter(|ids, _| ids.take()));
            }
            return false;
        };
        let slots = chucky::slots(bits_per_entry);
        // Read before the gate is closed.
        let mut next = self.next_to_make(&self.gate.lock());
        let arrival = if next.is_empty() { self.read_arrival() } else { None };
        if let Some(ReadArrival { inserts, .. }) = &arrival {
            next = self.partitions.crowded(|interval| count_in(inserts, |(key, _)| *key, interval));
        }
        let ahead = self.partitions.read_ahead(&next);
        let mut gate = self.gate.lock();
        let state = self.tree.pin_scan();
        let fits = |ids: &LevelIds| ids.code.slots() == slots && ids.fits(shape, state.tree());
        if !self.tree.level_ids(|ids| ids.as_ref().is_some_and(fits)) {
            self.begin_filter(&mut gate, slots, shape);
            return true;
        }
        self.tree.level_ids(|ids| {
            of(ids).set_levels(shape.last());
            of(ids).forget_all_but(state.tree());
        });
        let next = self.next_to_make(&gate);
        if !next.is_empty() {
            let is_remade = |(interval, _): &(Interval, u64)| next.iter().any(|(made, _)| made == interval);
            self.partitions.make(&next, &ahead);
            if !gate.remaking.is_empty() {
                gate.remaking.retain(|wanted| !is_remade(wanted));
                if gate.remaking.is_empty() {
                    // None are left, unless some came meanwhile.
                    self.tree.level_ids(|ids| of(ids).leftovers -= gate.leftovers);
                }
            }
            return true;
        }
        if self.has_many_leftovers() {
            let entries = self.entries_of_tree();
            gate.leftovers = self.tree.level_ids(|ids| of(ids).leftovers);
            let all = self.partitions.directory();
            gate.remaking.extend(all.partitions().map(|(interval, _)| (interval, entries >> interval.depth())));
            return true;
        }
        let sparse = self.sparse();
        if !sparse.is_empty() {
            gate.leftovers = 0;
            gate.remaking.extend(sparse);
            return true;
        }
        self.list_some(arrival, &ahead)
    }

    /// The partitions that the filter worker makes next: those that are missing, then those that
    /// are made anew.
    fn next_to_make(&self, gate: &Gate) -> Vec<(Interval, u64)> {
        let Some(directory) = self.tree.level_ids(|ids| ids.as_ref().map(|ids| ids.directory.clone())) else {
            return Vec::new();
        };
        let entries = self.entries_of_tree();
        let missing = directory.partitions().filter(|(_, partition)| partition.is_none());
        let mut wanted: Vec<_> = missing.map(|(interval, _)| (interval, entries >> interval.depth())).collect();
        if wanted.is_empty() {
            wanted.extend(&gate.remaking);
        }
        wanted.truncate(self.partitions.some_of(&wanted));
        wanted
    }

    /// The partitions that have more than twice as many buckets as they need, with their entries.
    /// They are made anew, but not beside compactions: what these take away often comes again.
    fn sparse(&self) -> Vec<(Interval, u64)> {
        let state = self.tree.pin_scan();
        let quiet = self.tree.level_ids(|ids| {
            let ids = ids.as_ref().filter(|ids| ids.arriving.is_none() && state.tree().compactions().is_empty())?;
            Some((ids.code.slots(), ids.directory.clone()))
        });
        let Some((slots, directory)) = quiet else { return Vec::new() };
        let partitions = directory.partitions().filter_map(|(interval, partition)| Some((interval, partition?)));
        let is_sparse = |buckets: usize, entries| buckets > BUCKETS_MIN && 2 * entries < entries_max(slots, buckets);
        let counted = partitions.map(|(interval, partition)| (interval, partition.buckets(), partition.entries()));
        let sparse = counted.filter(|(_, buckets, entries)| is_sparse(*buckets, *entries));
        let sparse: Vec<(Interval, u64)> = sparse.map(|(interval, _, entries)| (interval, entries)).collect();
        // The compaction of a range is none of the tree's, but cuts tables.
        let tables = || self.tree.level_ids(|ids| listed_tables(of(ids), state.tree()));
        if sparse.is_empty() || tables().iter().any(|table| !table.is_whole) { Vec::new() } else { sparse }
    }

    /// True if entries of keys that are in no run any more are worth making all partitions anew.
    fn has_many_leftovers(&self) -> bool {
        let state = self.tree.pin_scan();
        let quiet = self.tree.level_ids(|ids| {
            let ids = of(ids);
            let is_quiet = ids.leftovers > 0 && state.tree().compactions().is_empty() && ids.arriving.is_none();
            is_quiet.then(|| (listed_tables(ids, state.tree()), ids.directory.clone()))
        });
        let Some((tables, directory)) = quiet else { return false };
        let most: u64 = tables.iter().map(|table| table.table.meta().entries).sum();
        let present: u64 = directory.partitions().filter_map(|(_, partition)| Some(partition?.entries())).sum();
        tables.iter().all(|table| table.is_whole) && present as f64 > most as f64 * (1.0 + LEFTOVERS)
    }

    /// True if nothing is left to do for the filter that was chosen, and the present shape.
    pub(super) fn is_settled(&self, choice: FilterChoice, shape: &Shape) -> bool {
        let FilterChoice::Tree { bits_per_entry } = choice else { return self.epoch().is_none() };
        let (slots, state) = (chucky::slots(bits_per_entry), self.tree.pin_scan());
        let has_all = self.tree.level_ids(|ids| {
            ids.as_ref().is_some_and(|ids| {
                let is_ready = || ids.directory.partitions().all(|(_, partition)| partition.is_some());
                let all_listed = || ids.arriving.is_none() && next_to_list(ids, state.tree()).is_none();
                ids.code.slots() == slots && ids.fits(shape, state.tree()) && all_listed() && is_ready()
            })
        });
        has_all && self.sparse().is_empty()
    }

    fn entries_of_tree(&self) -> u64 {
        self.tree.pin().tree().tables().map(|table| table.meta().entries).sum()
    }

    /// Begins another filter: LIDs for all runs whose tables have digests, and no partition ready.
    fn begin_filter(&self, gate: &mut Gate, slots: usize, shape: &Shape) {
        gate.epoch += 1;
        gate.remaking.clear();
        let partitions = self.entries_of_tree() / entries_max(slots, BUCKETS_MAX / 2);
        // Its code takes milliseconds, so it is made before.
        let state = self.tree.pin_scan();
        let made_for = (shape.clone(), &**state.tree());
        let mut ids = LevelIds::new(gate.epoch, slots, made_for, Directory::new(partitions), &self.account);
        drop(state);
        let before = self.tree.change_filter(|present, tree| {
            // The largest runs of each class are to have LIDs of their own.
            let mut runs: Vec<&Arc<Run>> = tree.runs().filter(|run| !run.is_empty()).collect();
            runs.sort_by_key(|run| Reverse(run.entries()));
            for run in runs {
                if run.slices().iter().all(|slice| slice.table().has_digests()) {
                    let lid = ids.free_lid(level_of(tree, run.id()));
                    ids.list(run.id(), lid);
                    ids.leftovers += u64::from(!run.slices().iter().all(Slice::is_whole));
                } else {
                    ids.unlist(run.id(), true);
                }
            }
            present.replace(ids)
        });
        drop(before);
    }

    /// Inserts the keys of a table of a run that nobody has listed, or lists the run when all its
    /// tables are done. False if there is no such run. The gate is closed.
    fn list_some(&self, read: Option<ReadArrival>, ahead: &DigestsRead) -> bool {
        let state = self.tree.pin_scan();
        let Some(Arrival { run, lid, done, left }) = self.arrival(state.tree()) else {
            let begun = self.tree.level_ids(|ids| {
                let ids = of(ids);
                let run = next_to_list(ids, state.tree())?;
                ids.arriving = Some((run, ids.free_lid(level_of(state.tree(), run)), Vec::new()));
                Some(run)
            });
            return begun.is_some();
        };
        match left.as_deref() {
            Some([]) => self.tree.change_filter(|ids, _| {
                of(ids).list(run, lid);
                of(ids).arriving = None;
            }),
            Some([table, ..]) => {
                let read = read.filter(|read| read.table == table.id() && read.lid == lid);
                match read.map_or_else(|| self.entries_of(table, lid), |read| Some(read.inserts)) {
                    Some(entries) => {
                        self.partitions.make_space(&entries, ahead);
                        // Digests that cannot be read may have ended it.
                        let goes_on = self.tree.level_ids(|ids| {
                            let arriving = of(ids).arriving.as_mut();
                            arriving.map(|(_, _, tables)| tables.push(table.clone())).is_some()
                        });
                        if goes_on {
                            self.partitions.change(&entries);
                        }
                    }
                    None => self.give_up(run, lid, &done),
                }
            }
            None => self.give_up(run, lid, &done),
        }
        true
    }

    /// The run that is being listed, if there is one.
    fn arrival(&self, tree: &TreeVersion) -> Option<Arrival> {
        let (run, lid, done) = self.tree.level_ids(|ids| ids.as_ref()?.arriving.clone())?;
        let is_in = |tables: &[Arc<TableFile>], table: &TableFile| tables.iter().any(|other| other.id() == table.id());
        let left = tree.run(run).and_then(|(run, ..)| {
            let tables: Vec<_> = run.slices().iter().map(|slice| slice.table().clone()).collect();
            let is_whole = run.slices().iter().all(Slice::is_whole) && done.iter().all(|table| is_in(&tables, table));
            is_whole.then(|| tables.into_iter().filter(|table| !is_in(&done, table)).collect())
        });
        Some(Arrival { run, lid, done, left })
    }

    /// The insertions of the table whose keys are inserted next, if a run is being listed.
    fn read_arrival(&self) -> Option<ReadArrival> {
        let state = self.tree.pin_scan();
        let Arrival { lid, left, .. } = self.arrival(state.tree())?;
        let table = left?.into_iter().next()?;
        let inserts = self.entries_of(&table, lid)?;
        let _charge = self.account.charge(MemoryPart::Compactions, memory_bytes(&inserts));
        Some(ReadArrival { table: table.id(), lid, inserts, _charge })
    }

    /// Takes back what was inserted for a run that cannot be listed.
    fn give_up(&self, run: RunId, lid: Lid, done: &[Arc<TableFile>]) {
        for table in done {
            match self.entries_of(table, lid) {
                Some(entries) => self.partitions.change(&taken_back(&entries)),
                None => self.tree.level_ids(|ids| of(ids).leftovers += 1),
            }
        }
        self.tree.level_ids(|ids| {
            let ids = of(ids);
            ids.arriving = None;
            ids.refuse(run);
        });
    }

    /// The insertions of a table's keys; `None` if it has no digests that can be read.
    fn entries_of(&self, table: &TableFile, lid: Lid) -> Option<FilterChanges> {
        let keys = table.digests_between(EVERYTHING.0, EVERYTHING.1);
        let keys = keys.inspect_err(|error| unread(table, error)).ok().flatten()?;
        Some(keys.into_iter().map(|key| (key, EntryChange::Insert(lid))).collect())
    }

    /// Compares the filter with the runs of the present state: entries that are missing, and those
    /// that are too many: `None` if there may be some, since the filter has leftovers.
    ///
    /// # Errors
    /// If digests cannot be read.
    pub(super) fn compare(&self) -> Result<(u64, Option<i64>)> {
        let _gate = self.gate.lock();
        let state = self.tree.pin_scan();
        let Some((directory, tables, has_leftovers)) = self.tree.level_ids(|ids| {
            let ids = ids.as_ref()?;
            Some((ids.directory.clone(), listed_tables(ids, state.tree()), ids.leftovers > 0))
        }) else {
            return Ok((0, Some(0)));
        };
        let (mut missing, mut expected) = (0, 0_i64);
        for ListedTable { lid, table, .. } in tables.iter().filter(|table| table.is_whole) {
            for key in table.digests_between(EVERYTHING.0, EVERYTHING.1)?.unwrap_or_default() {
                if let Some((partition, place)) = directory.find(key) {
                    expected += 1;
                    missing += u64::from(!partition.candidates(place).iter().any(|other| other == *lid));
                }
            }
        }
        let present: u64 = directory.partitions().filter_map(|(_, partition)| Some(partition?.entries())).sum();
        let excess = present as i64 - expected;
        let may_have_more = has_leftovers || tables.iter().any(|table| !table.is_whole);
        Ok((missing, (!may_have_more || excess < 0).then_some(excess)))
    }
}

impl Unit<'_> {
    /// The edit is installed: changes the entries that no state before it needs.
    pub(super) fn published(self, edit: EditNumber) {
        let Self { filter, changes: UnitChanges { removes, relabels, .. }, .. } = &self;
        if !(removes.is_empty() && relabels.is_empty()) {
            filter.tree.level_ids(|ids| of(ids).raise_generation(edit));
            filter.partitions.change(removes);
            filter.partitions.change(relabels);
            let directory = filter.partitions.directory();
            let partitions = directory.partitions().filter_map(|(interval, partition)| Some((interval, partition?)));
            for (interval, partition) in partitions.filter(|(_, partition)| partition.stashed() > 0) {
                partition.empty_stash(|digest| interval.place(partition, digest));
            }
        }
        let tree = filter.tree.pin();
        let is_ambiguous = filter.tree.level_ids(|ids| {
            ids.as_mut().is_some_and(|ids| {
                ids.forget_all_but(tree.tree());
                ids.end_aliases(tree.tree())
            })
        });
        if is_ambiguous {
            filter.tree.change_filter(|_, _| ());
        }
    }

    /// The edit has failed: takes back what was inserted, unless it is unknown whether the edit
    /// will be there when the database is opened again.
    pub(super) fn failed(self, error: &Error) {
        if matches!(error, Error::Stopped { .. }) {
            // What was inserted stays, and no run of the present state accounts for it.
            let is_left = !self.changes.inserts.is_empty();
            self.filter.tree.level_ids(|ids| ids.iter_mut().for_each(|ids| ids.leftovers += u64::from(is_left)));
            return;
        }
        self.withdrawn();
    }

    /// There will be no edit: takes back what was inserted.
    pub(super) fn withdrawn(self) {
        self.filter.partitions.change(&taken_back(&self.changes.inserts));
        let tree = self.filter.tree.pin();
        self.filter.tree.level_ids(|ids| {
            ids.iter_mut().for_each(|ids| {
                ids.end_aliases(tree.tree());
                self.listed.iter().for_each(|run| ids.unlist(*run, false));
            });
        });
    }
}

/// A run that is being listed.
struct Arrival {
    run: RunId,
    lid: Lid,
    /// Its tables of which all keys have entries.
    done: Vec<Arc<TableFile>>,
    /// The others; `None` if a compaction has begun to take it apart.
    left: Option<Vec<Arc<TableFile>>>,
}

/// A run that is to be listed: nobody has, and no compaction has it.
fn next_to_list(ids: &LevelIds, tree: &TreeVersion) -> Option<RunId> {
    let is_new = |run: &&Arc<Run>| {
        let is_alone = tree.compaction_of(run.id()).is_none();
        !run.is_empty() && ids.lid(run.id()).is_none() && ids.is_listable(run.id()) && is_alone
    };
    tree.runs().find(is_new).map(|run| run.id())
}

/// The LID of a unit's output, and whether the output has got it now; `None` if it is unlisted.
fn lid_for(ids: &mut LevelIds, output: Output, tree: &TreeVersion) -> (Option<Lid>, bool) {
    let Output { run, level, owner, has_digests } = output;
    if !has_digests {
        ids.unlist(run, true);
    }
    if let Some(lid) = ids.lid(run) {
        return (Some(lid), false);
    }
    // What it has already, the filter does not know.
    let is_new = tree.run(run).is_none_or(|(run, ..)| run.is_empty()) && ids.is_listable(run);
    let lid = match owner {
        _ if !is_new => None,
        Some(owner) => ids.lid(owner),
        None => Some(ids.free_lid(level)),
    };
    match lid {
        Some(lid) => ids.list(run, lid),
        None => ids.unlist(run, true),
    }
    (lid, lid.is_some())
}

/// The output of a compaction.
fn owner_of(ids: &mut LevelIds, id: CompactionId, tree: &TreeVersion) -> Output {
    let compaction = tree.compaction(id);
    let run = compaction.output;
    let owner = ids.owner_of(run, &compaction.inputs, tree);
    Output { run, level: level_of(tree, run), owner, has_digests: true }
}

fn has_digests(tables: &[TableMeta]) -> bool {
    tables.iter().all(|table| table.digest_bytes > 0)
}

fn level_of(tree: &TreeVersion, run: RunId) -> usize {
    tree.level_of(run).unwrap_or(1)
}

/// The slice that a specification means, and its run.
fn slice_of<'t>(tree: &'t TreeVersion, spec: &SliceSpec) -> Option<(RunId, &'t Slice)> {
    tree.runs().find_map(|run| Some((run.id(), run.slices().iter().find(|slice| slice.spec() == *spec)?)))
}
