//! [`TreeFilter`]: who changes the filter over the whole tree, and when.
//!
//! ```text
//! flush, handover ──► Unit: entries of the output ─► edit, state ─► entries of inputs removed
//! filter worker ────► begin: a code, LIDs, no partition ready
//!                     partitions from the digests of tables, a few at a time
//!                     runs that nobody has listed: their keys, table by table
//! ```
//!
//! # Units
//!
//! A [`Unit`] is a change of the filter together with the edit that it belongs to, from the first
//! entry inserted to the last one removed. One lock, the **gate**, is held meanwhile, and while the
//! filter worker makes partitions: then entries and state agree, and a partition can be made from
//! the digests of the runs of the state. A unit takes some milliseconds. Lookups never wait.
//!
//! A partition that has too few buckets for what a unit inserts is made anew before, larger by an
//! eighth, or in two halves. Its entries come from the digests of all listed tables. A table that a
//! compaction has cut has digests of keys that the run lacks; then the present partition tells
//! which keys still have an entry. (Sometimes it is wrong, as filters are: an entry too many, which
//! stays until the partition is made again.)
//!
//! # What is late
//!
//! Whatever is not known makes runs unlisted, never a lookup wrong: tables without digests or with
//! damaged ones, an ingest, a flush that began before the filter did. Runs that have digests are
//! listed by the filter worker; the keys of others with their next compaction.
//!
//! Tests: `tests/suite/chucky.rs`; lockstep histories; `crate::cuckoo` for the order of changes.

use std::sync::Arc;

use tamarack_env::sync::{Mutex, MutexGuard, Rank};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Code, Shares};
use tamarack_model::Shape;
use tamarack_model::filter::FilterChoice;
use tamarack_model::filter::chucky::{self, Classes};

use crate::compaction::key_lists::KeyLists;
use crate::compaction::task::Task;
use crate::cuckoo::{Directory, EntryChange, Interval, Partition, Place};
use crate::error::{Error, Result};
use crate::format::edit::{CompactionId, RunId, SliceSpec};
use crate::format::meta::{EditNumber, TableMeta};
use crate::memory::Account;
use crate::tree::level_ids::{FilterView, LevelIds, Lid};
use crate::tree::run::Run;
use crate::tree::slice::Slice;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFile;
use crate::tree::version::{TreeVersion, Version};

/// A partition with more buckets than this is replaced by two.
const BUCKETS_MAX: usize = 8192;

/// The least buckets of a partition.
const BUCKETS_MIN: usize = 16;

/// The first and the last of all digests.
const EVERYTHING: (Digest, Digest) = (Digest::from_stored(0), Digest::from_stored(u64::MAX));

/// All partitions are made anew if so many of their entries, as a share, are of keys that are in no
/// run any more.
const LEFTOVERS: f64 = 0.005;

/// Entries of the partitions that are made at a time.
const ENTRIES_AT_A_TIME: u64 = 128 << 10;

/// The filter over the whole tree of a scheduler. See the module's documentation.
pub(super) struct TreeFilter {
    tree: Arc<Tree>,
    account: Arc<Account>,
    gate: Mutex<Gate>,
}

/// What the gate protects, beside the filter.
#[derive(Default)]
struct Gate {
    /// The number of the last filter.
    epoch: u64,
    /// Slots of a bucket and a shape for which there is no code.
    impossible: Option<(usize, Shape)>,
    /// Partitions that are to be made anew, to get rid of so many leftovers.
    remaking: Vec<(Interval, u64)>,
    leftovers: u64,
}

/// A change of the filter, until its edit is installed or fails. Nothing else changes it meanwhile.
#[must_use = "a unit ends with `published` or `failed`"]
pub(super) struct Unit<'a> {
    filter: &'a TreeFilter,
    _gate: MutexGuard<'a, Gate>,
    /// The run that got a LID.
    listed: Option<RunId>,
    inserted: FilterEntries,
    removes: FilterEntries,
}

/// Entries of the filter: a key, and the LID of a run that has it.
type FilterEntries = Vec<(Digest, Lid)>;

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
        Self { tree, account, gate: Mutex::new(Rank::FilterGate, Gate::default()) }
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
        Some(self.begin(gate, tree, lists.into_iter().collect(), moved, output))
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
        let gate = self.gate.lock();
        let version = present();
        let tree = self.tree.of(&version);
        let Some(epoch) = self.epoch() else { return self.unit(gate) };
        let owners = || lists.iter().map(|lists| lists.as_ref().and_then(KeyLists::owner));
        let owner = owners().next().flatten();
        let is_late = lists.iter().any(|lists| lists.as_ref().is_none_or(|lists| lists.epoch != epoch));
        if is_late || owners().any(|other| other != owner) {
            // The entries of the input are left over.
            self.tree.level_ids(|ids| of(ids).leftovers += u64::from(input.is_some()));
            return self.unit(gate);
        }
        let level = input.map_or(1, |input| level_of(tree, input));
        let lists = lists.into_iter().flatten().collect();
        self.begin(gate, tree, lists, moved, Some(Output { run, level, owner, has_digests: has_digests(tables) }))
    }

    /// A unit that changes nothing.
    fn unit<'a>(&'a self, gate: MutexGuard<'a, Gate>) -> Unit<'a> {
        Unit { filter: self, _gate: gate, listed: None, inserted: Vec::new(), removes: Vec::new() }
    }

    /// Begins a unit: gives the output a LID, and inserts its entries.
    fn begin<'a>(
        &'a self,
        gate: MutexGuard<'a, Gate>,
        tree: &TreeVersion,
        lists: Vec<KeyLists>,
        moved: &[SliceSpec],
        output: Option<Output>,
    ) -> Unit<'a> {
        let mut unit = self.unit(gate);
        let lid = output.and_then(|output| {
            let (lid, is_new) = self.tree.level_ids(|ids| lid_for(of(ids), output, tree));
            unit.listed = is_new.then_some(output.run);
            lid
        });
        let lid_of = |run: RunId| self.tree.level_ids(|ids| of(ids).lid(run));
        // Keys that are to have an entry with the LID, and those that a run has no longer.
        let (mut keys, mut gone): (Vec<Digest>, Vec<(Digest, RunId)>) = (Vec::new(), Vec::new());
        for lists in lists {
            let removes =
                lists.removes.iter().filter_map(|(key, input)| Some((*key, lists.inputs[usize::from(*input)]?)));
            gone.extend(removes);
            keys.extend(lists.inserts);
        }
        let owner = output.and_then(|output| output.owner).filter(|_| lid.is_some());
        for (run, slice) in moved.iter().filter_map(|spec| slice_of(tree, spec)).filter(|(run, _)| Some(*run) != owner)
        {
            let of_table = slice.table().digests_between(EVERYTHING.0, EVERYTHING.1);
            let Ok(Some(of_table)) = of_table.inspect_err(|error| unread(slice.table(), error)) else {
                self.tree.level_ids(|ids| {
                    of(ids).leftovers += 1;
                    output.iter().for_each(|output| of(ids).unlist(output.run, true));
                });
                continue;
            };
            if slice.is_whole() {
                gone.extend(of_table.iter().map(|key| (*key, run)));
            } else {
                // Keys that were handed over before have no entries any more.
                self.tree.level_ids(|ids| of(ids).leftovers += 1);
            }
            keys.extend(of_table);
        }
        keys.sort_unstable();
        if lid.is_some() {
            self.make_space(&keys);
        }
        // Digests that cannot be read may have cost runs their LIDs just now, the output too.
        if let Some(lid) = lid.filter(|lid| output.and_then(|output| lid_of(output.run)) == Some(*lid)) {
            unit.inserted = keys.into_iter().map(|key| (key, lid)).collect();
        }
        unit.removes = gone.into_iter().filter_map(|(key, run)| Some((key, lid_of(run)?))).collect();
        unit.removes.sort_unstable();
        self.change(&unit.inserted, EntryChange::Insert);
        unit
    }

    /// Changes entries, in the order of digests. Those of partitions that are not ready are left to
    /// whoever makes them.
    fn change(&self, entries: &[(Digest, Lid)], change: impl Fn(Lid) -> EntryChange) {
        let directory = self.directory();
        for (digest, lid) in entries {
            if let Some((partition, place)) = directory.find(*digest) {
                partition.change(place, change(*lid));
            }
        }
    }

    fn directory(&self) -> Directory {
        self.tree.level_ids(|ids| of(ids).directory.clone())
    }

    /// Makes partitions anew that have too few buckets for entries of these keys. The gate is
    /// closed.
    fn make_space(&self, keys: &[Digest]) {
        let slots = self.tree.level_ids(|ids| of(ids).code.slots());
        let mut crowded = Vec::new();
        for (interval, partition) in self.directory().partitions() {
            let from = keys.partition_point(|key| *key < interval.first());
            let more = keys[from..].partition_point(|key| *key <= interval.last());
            if let Some(partition) = partition
                && partition.entries() + more as u64 > entries_max(slots, partition.buckets())
            {
                crowded.push((interval, partition.entries() + more as u64));
            }
        }
        while !crowded.is_empty() {
            self.make(&some_of(&mut crowded));
        }
    }

    /// Makes the partitions of these intervals, in order, each for so many entries or those that it
    /// has, from the digests of all listed tables. The gate is closed.
    fn make(&self, wanted: &[(Interval, u64)]) {
        let state = self.tree.pin_scan();
        let (code, directory, tables) = self.tree.level_ids(|ids| {
            let ids = of(ids);
            (ids.code.clone(), ids.directory.clone(), listed_tables(ids, state.tree()))
        });
        let (first, last) = (wanted[0].0.first(), wanted[wanted.len() - 1].0.last());
        let has_cut = tables.iter().any(|table| !table.is_whole);
        let mut made: Vec<FilterEntries> = wanted.iter().map(|_| Vec::new()).collect();
        let mut lost = Vec::new();
        for ListedTable { lid, table, is_whole } in tables {
            let keys = table.digests_between(first, last);
            let Ok(Some(keys)) = keys.inspect_err(|error| unread(&table, error)) else {
                lost.push(lid);
                continue;
            };
            for key in keys {
                let at = wanted.partition_point(|(interval, _)| interval.last() < key);
                // If a compaction has taken keys, the present partition tells which are left.
                let is_left = || match directory.find(key) {
                    Some((present, place)) if !is_whole => present.candidates(place).iter().any(|other| other == lid),
                    _ => true,
                };
                if wanted.get(at).is_some_and(|(interval, _)| interval.contains(key)) && is_left() {
                    made[at].push((key, lid));
                }
            }
        }
        let is_listed = |lid: Lid| !lost.contains(&lid);
        let mut after = directory;
        for ((interval, entries), made) in wanted.iter().zip(&mut made) {
            made.retain(|(_, lid)| is_listed(*lid));
            let entries = (*entries).max(made.len() as u64);
            for (interval, partition) in self.filled(&code, *interval, entries, made) {
                after = after.with(interval, Some(partition));
            }
        }
        let refused = self.tree.change_filter(|ids, _| {
            let ids = of(ids);
            ids.directory = after;
            ids.leftovers += u64::from(has_cut);
            // Runs that share their LID are unlisted with them, and those that are in no state yet.
            ids.runs_with(|lid| !is_listed(lid)).into_iter().for_each(|run| ids.unlist(run, true));
            let arriving = ids.arriving.take_if(|(_, lid, _)| !is_listed(*lid));
            arriving.iter().for_each(|(run, ..)| ids.refuse(*run));
            arriving
        });
        // It may be the last to refer to tables, which close under locks of theirs.
        drop(refused);
    }

    /// A partition for so many entries that has these, or two of half the interval.
    fn filled(
        &self,
        code: &Arc<Code>,
        interval: Interval,
        entries: u64,
        made: &[(Digest, Lid)],
    ) -> Vec<(Interval, Arc<Partition>)> {
        let buckets = buckets_for(code.slots(), entries);
        if buckets > BUCKETS_MAX
            && let Some(halves) = interval.halves()
        {
            let of_half = |half: Interval| {
                let made: FilterEntries = made.iter().copied().filter(|(digest, _)| half.contains(*digest)).collect();
                // Twice as many as half of them, less a few, are no more than half.
                let entries = (entries / 2).max(made.len() as u64);
                self.filled(code, half, entries, &made)
            };
            return halves.into_iter().flat_map(of_half).collect();
        }
        let entries = |partition: &Partition, insert: &mut dyn FnMut(Place, Lid)| {
            made.iter().for_each(|(digest, lid)| insert(interval.place(partition, *digest), *lid));
        };
        let partition = Partition::filled(code.clone(), buckets, entries).charged(&self.account);
        vec![(interval, Arc::new(partition))]
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
        let mut gate = self.gate.lock();
        let state = self.tree.pin_scan();
        let fits = |ids: &LevelIds| ids.code.slots() == slots && ids.fits(shape, state.tree());
        if gate.is_impossible(slots, shape) {
            return false;
        }
        if !self.tree.level_ids(|ids| ids.as_ref().is_some_and(fits)) {
            return self.begin_filter(&mut gate, slots, shape);
        }
        self.tree.level_ids(|ids| {
            of(ids).set_levels(shape.last());
            of(ids).forget_all_but(state.tree());
        });
        let entries = self.entries_of_tree();
        let directory = self.directory();
        let missing = directory.partitions().filter(|(_, partition)| partition.is_none()).map(|(at, _)| at);
        let mut wanted: Vec<_> = missing.map(|interval| (interval, entries >> interval.depth())).collect();
        if !wanted.is_empty() {
            self.make(&some_of(&mut wanted));
            return true;
        }
        if !gate.remaking.is_empty() {
            self.make(&some_of(&mut gate.remaking));
            if gate.remaking.is_empty() {
                // None are left, unless some came meanwhile.
                self.tree.level_ids(|ids| of(ids).leftovers -= gate.leftovers);
            }
            return true;
        }
        if self.has_many_leftovers() {
            gate.leftovers = self.tree.level_ids(|ids| of(ids).leftovers);
            gate.remaking.extend(directory.partitions().map(|(interval, _)| (interval, entries >> interval.depth())));
            return true;
        }
        self.list_some()
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
        if self.gate.lock().is_impossible(slots, shape) {
            return true;
        }
        self.tree.level_ids(|ids| {
            ids.as_ref().is_some_and(|ids| {
                let is_ready = || ids.directory.partitions().all(|(_, partition)| partition.is_some());
                let all_listed = || ids.arriving.is_none() && next_to_list(ids, state.tree()).is_none();
                ids.code.slots() == slots && ids.fits(shape, state.tree()) && all_listed() && is_ready()
            })
        })
    }

    fn entries_of_tree(&self) -> u64 {
        self.tree.pin().tree().tables().map(|table| table.meta().entries).sum()
    }

    /// Begins another filter: LIDs for all runs whose tables have digests, and no partition ready.
    /// False if there is no code for such a tree; it has no filter then.
    fn begin_filter(&self, gate: &mut Gate, slots: usize, shape: &Shape) -> bool {
        let classes = Classes::of(shape);
        let states: Vec<Shares> = classes.states(shape).into_iter().map(Shares::new).collect();
        let code = match Code::new(slots, classes.lids(), &states) {
            Ok(code) => Arc::new(code),
            Err(error) => {
                tracing::warn!(%error, "no filter over the whole tree for this shape; lookups search all runs");
                drop(self.tree.change_filter(|ids, _| ids.take()));
                gate.impossible = Some((slots, shape.clone()));
                return false;
            }
        };
        gate.epoch += 1;
        gate.remaking.clear();
        let partitions = self.entries_of_tree() / entries_max(slots, BUCKETS_MAX / 2);
        let before = self.tree.change_filter(|present, tree| {
            let mut ids = LevelIds::new(gate.epoch, code, classes, shape.clone(), Directory::new(partitions));
            for run in tree.runs().filter(|run| !run.is_empty()) {
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
        true
    }

    /// Inserts the keys of a table of a run that nobody has listed, or lists the run when all its
    /// tables are done. False if there is no such run. The gate is closed.
    fn list_some(&self) -> bool {
        let state = self.tree.pin_scan();
        let tree = state.tree();
        let arriving = self.tree.level_ids(|ids| of(ids).arriving.clone());
        let Some((run, lid, done)) = arriving else {
            let begun = self.tree.level_ids(|ids| {
                let ids = of(ids);
                let run = next_to_list(ids, tree)?;
                ids.arriving = Some((run, ids.free_lid(level_of(tree, run)), Vec::new()));
                Some(run)
            });
            return begun.is_some();
        };
        let slices: Option<Vec<&Slice>> = tree.run(run).map(|(run, ..)| run.slices().iter().collect());
        let still = slices.filter(|slices| {
            let has = |table: &Arc<TableFile>| slices.iter().any(|slice| slice.table().id() == table.id());
            slices.iter().all(|slice| slice.is_whole()) && done.iter().all(has)
        });
        let next = still.as_ref().map(|slices| {
            let is_done = |slice: &&&Slice| done.iter().any(|table| table.id() == slice.table().id());
            slices.iter().find(|slice| !is_done(slice)).map(|slice| slice.table().clone())
        });
        match next {
            Some(None) => self.tree.change_filter(|ids, _| {
                of(ids).list(run, lid);
                of(ids).arriving = None;
            }),
            Some(Some(table)) => match self.entries_of(&table, lid) {
                Some(entries) => {
                    self.make_space(&entries.iter().map(|(key, _)| *key).collect::<Vec<_>>());
                    // Digests that cannot be read may have ended it.
                    let goes_on = self.tree.level_ids(|ids| {
                        let arriving = of(ids).arriving.as_mut();
                        arriving.map(|(_, _, tables)| tables.push(table.clone())).is_some()
                    });
                    if goes_on {
                        self.change(&entries, EntryChange::Insert);
                    }
                }
                None => self.give_up(run, lid, &done),
            },
            None => self.give_up(run, lid, &done),
        }
        true
    }

    /// Takes back what was inserted for a run that cannot be listed.
    fn give_up(&self, run: RunId, lid: Lid, done: &[Arc<TableFile>]) {
        for table in done {
            match self.entries_of(table, lid) {
                Some(entries) => self.change(&entries, EntryChange::Remove),
                None => self.tree.level_ids(|ids| of(ids).leftovers += 1),
            }
        }
        self.tree.level_ids(|ids| {
            let ids = of(ids);
            ids.arriving = None;
            ids.refuse(run);
        });
    }

    /// The entries of a table's keys; `None` if it has no digests that can be read.
    fn entries_of(&self, table: &TableFile, lid: Lid) -> Option<FilterEntries> {
        let keys = table.digests_between(EVERYTHING.0, EVERYTHING.1);
        let keys = keys.inspect_err(|error| unread(table, error)).ok().flatten()?;
        Some(keys.into_iter().map(|key| (key, lid)).collect())
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

impl Gate {
    /// True if there is no code for a tree of this shape.
    fn is_impossible(&self, slots: usize, shape: &Shape) -> bool {
        self.impossible.as_ref().is_some_and(|(of_slots, of_shape)| *of_slots == slots && of_shape == shape)
    }
}

impl Unit<'_> {
    /// The edit is installed: removes the entries that no state from that edit on needs.
    pub(super) fn published(self, edit: EditNumber) {
        if !self.removes.is_empty() {
            self.filter.tree.level_ids(|ids| of(ids).raise_generation(edit));
            self.filter.change(&self.removes, EntryChange::Remove);
            let directory = self.filter.directory();
            let partitions = directory.partitions().filter_map(|(_, partition)| partition);
            partitions.filter(|partition| partition.stashed() > 0).for_each(|partition| partition.empty_stash());
        }
        let tree = self.filter.tree.pin();
        self.filter.tree.level_ids(|ids| ids.iter_mut().for_each(|ids| ids.forget_all_but(tree.tree())));
    }

    /// The edit has failed: takes back what was inserted, unless it is unknown whether the edit
    /// will be there when the database is opened again.
    pub(super) fn failed(self, error: &Error) {
        if matches!(error, Error::Stopped { .. }) || self.inserted.is_empty() && self.listed.is_none() {
            return;
        }
        self.filter.change(&self.inserted, EntryChange::Remove);
        if let Some(run) = self.listed {
            self.filter.tree.level_ids(|ids| of(ids).unlist(run, false));
        }
    }
}

/// A table of a listed run, or of the one that is being listed.
struct ListedTable {
    lid: Lid,
    table: Arc<TableFile>,
    is_whole: bool,
}

fn listed_tables(ids: &LevelIds, tree: &TreeVersion) -> Vec<ListedTable> {
    let of_run = |run: &Arc<Run>| {
        let lid = ids.lid(run.id())?;
        let table = |slice: &Slice| ListedTable { lid, table: slice.table().clone(), is_whole: slice.is_whole() };
        Some(run.slices().iter().map(table).collect::<Vec<_>>())
    };
    let arriving = ids.arriving.iter().flat_map(|(_, lid, tables)| {
        tables.iter().map(|table| ListedTable { lid: *lid, table: table.clone(), is_whole: true })
    });
    tree.runs().filter_map(of_run).flatten().chain(arriving).collect()
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

fn of(ids: &mut Option<LevelIds>) -> &mut LevelIds {
    ids.as_mut().expect("the filter is there while the gate is closed")
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

/// Takes the first of these intervals: as many as are made at a time, and one after the other,
/// since all digests from the first to the last are read.
fn some_of(wanted: &mut Vec<(Interval, u64)>) -> Vec<(Interval, u64)> {
    let (mut entries, mut count) = (0, 0);
    for (interval, more) in wanted.iter() {
        let follows = count == 0 || wanted[count - 1].0.is_before(*interval);
        if count > 0 && (entries + more > ENTRIES_AT_A_TIME || !follows) {
            break;
        }
        (entries, count) = (entries + more, count + 1);
    }
    wanted.drain(..count).collect()
}

/// The most entries of a partition with so many buckets.
fn entries_max(slots: usize, buckets: usize) -> u64 {
    (buckets as f64 * slots as f64 * chucky::load(slots)) as u64
}

/// The buckets of a new partition for so many entries.
fn buckets_for(slots: usize, entries: u64) -> usize {
    let buckets = entries as f64 * (1.0 + chucky::GROWTH) / (slots as f64 * chucky::load(slots));
    (buckets as usize + 1).max(BUCKETS_MIN)
}

#[cold]
fn unread(table: &TableFile, error: &Error) {
    tracing::warn!(%error, table = table.id().0, "digests could not be read; lookups search the run without a filter");
}
