//! [`Partitions`]: changes of the partitions of a filter over the whole tree, and how they are made
//! anew from the digests of tables.
//!
//! All partitions grow alike, since digests spread evenly. So each is made for another share of
//! further entries: else all would be full at once, and a unit would wait until all are made.
//!
//! Who changes what, and when, is in [`crate::compaction::tree_filter`]; tests too.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_env::random::mixed;
use tamarack_filter::Digest;
use tamarack_filter::chucky::Code;
use tamarack_model::filter::chucky;

use crate::compaction::key_lists::KeyLists;
use crate::cuckoo::{Directory, EntryChange, Interval, Partition, Place, unplaced_max};
use crate::error::Error;
use crate::format::meta::TableId;
use crate::memory::{Account, Charge, MemoryPart};
use crate::table::{DigestsWanted, Table, read_digests};
use crate::tree::level_ids::{LevelIds, Lid};
use crate::tree::run::Run;
use crate::tree::slice::Slice;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFile;
use crate::tree::version::TreeVersion;

/// A partition with more buckets than this is replaced by two.
pub(super) const BUCKETS_MAX: usize = 8192;

/// The least buckets of a partition.
pub(super) const BUCKETS_MIN: usize = 16;

/// The upper bound on the entries of partitions that are made at a time, unless one has more.
const ENTRIES_AT_A_TIME: u64 = 128 << 10;

/// Digests that are read before a unit begins: no more are begun with.
const AHEAD_MAX: u64 = 8 * ENTRIES_AT_A_TIME;

/// The partitions of a tree's filter.
pub(super) struct Partitions {
    tree: Arc<Tree>,
    account: Arc<Account>,
}

/// Entries of the filter: a key, and the LID of a run that has it.
type FilterEntries = Vec<(Digest, Lid)>;

/// Digests by table.
type DigestsOfTables = BTreeMap<TableId, Vec<Digest>>;

/// Digests of tables that were read together.
#[derive(Default)]
pub(super) struct DigestsRead {
    /// Those from a first to a last one.
    between: Vec<((Digest, Digest), DigestsOfTables)>,
    charge: Charge,
}

/// A table of a listed run, or of the one that is being listed.
pub(super) struct ListedTable {
    pub(super) lid: Lid,
    pub(super) table: Arc<TableFile>,
    pub(super) is_whole: bool,
}

impl Partitions {
    pub(super) fn new(tree: Arc<Tree>, account: Arc<Account>) -> Self {
        Self { tree, account }
    }

    /// Carries out changes, which are in the order of digests. Those of partitions that are not
    /// ready are left to whoever makes them.
    pub(super) fn change(&self, mut changes: &[(Digest, EntryChange)]) {
        if changes.is_empty() {
            return;
        }
        for (interval, partition) in self.directory().partitions() {
            let (own, others) = changes.split_at(changes.partition_point(|(key, _)| *key <= interval.last()));
            changes = others;
            if let Some(partition) = partition.filter(|_| !own.is_empty()) {
                partition.change(own.iter().map(|(key, change)| (interval.place(partition, *key), *change)));
            }
        }
    }

    /// The partitions.
    pub(super) fn directory(&self) -> Directory {
        self.tree.level_ids(|ids| of(ids).directory.clone())
    }

    /// Makes partitions anew that have too few buckets for these insertions. The gate is closed.
    pub(super) fn make_space(&self, inserts: &[(Digest, EntryChange)], ahead: &DigestsRead) {
        let mut crowded = self.crowded(|interval| count_in(inserts, |(key, _)| *key, interval));
        while !crowded.is_empty() {
            let count = self.some_of(&crowded);
            self.make(&crowded[..count], ahead);
            crowded.drain(..count);
        }
    }

    /// The partitions that have too few buckets for as many more entries as `more` gives for each,
    /// and for how many entries they are to be made then.
    pub(super) fn crowded(&self, more: impl Fn(Interval) -> usize) -> Vec<(Interval, u64)> {
        let Some((slots, directory)) =
            self.tree.level_ids(|ids| ids.as_ref().map(|ids| (ids.code.slots(), ids.directory.clone())))
        else {
            return Vec::new();
        };
        let partitions = directory.partitions().filter_map(|(interval, partition)| {
            let partition = partition?;
            let more = Some(more(interval) as u64).filter(|more| *more > 0)?;
            let (entries, most) = (partition.entries() + more, entries_max(slots, partition.buckets()));
            // An overfull one is made for more entries, up to a bound on its memory.
            let is_overfull = most < entries_for_max(entries) && partition.is_overfull();
            (entries > most || is_overfull).then_some((interval, entries.max(most)))
        });
        partitions.collect()
    }

    /// Reads what a unit with these lists needs to make partitions anew. The gate is open: what has
    /// changed when it is closed is read then.
    pub(super) fn read_for(&self, lists: &[KeyLists]) -> DigestsRead {
        let count = |interval| lists.iter().map(|lists| count_in(&lists.inserts, |key| *key, interval)).sum();
        self.read_ahead(&self.crowded(count))
    }

    /// Reads the digests that partitions of these intervals are made from.
    pub(super) fn read_ahead(&self, mut wanted: &[(Interval, u64)]) -> DigestsRead {
        if wanted.is_empty() {
            return DigestsRead::default();
        }
        let state = self.tree.pin_scan();
        let tables = self.tree.level_ids(|ids| ids.as_ref().map(|ids| listed_tables(ids, state.tree())));
        let Some(tables) = tables else { return DigestsRead::default() };
        let (mut entries, mut groups) = (0, Vec::new());
        let entries_max = AHEAD_MAX.min(self.account.building_bytes_max() / size_of::<Digest>() as u64);
        while !wanted.is_empty() && entries < entries_max {
            let (group, others) = wanted.split_at(self.some_of(wanted));
            entries += group.iter().map(|(_, entries)| entries).sum::<u64>();
            groups.push(bounds(group));
            wanted = others;
        }
        // What cannot be read is read, and reported, when the gate is closed.
        let mut ahead = read_digests_of(&tables.iter().collect::<Vec<_>>(), &groups, &|_, _| ());
        ahead.charge = self.account.charge(MemoryPart::Compactions, ahead.memory_bytes());
        ahead
    }

    /// How many of these intervals, from the first on, are made together: as many as are made at a
    /// time, and one after the other, since all digests from the first to the last are read.
    pub(super) fn some_of(&self, wanted: &[(Interval, u64)]) -> usize {
        let most = ENTRIES_AT_A_TIME.min(self.account.building_bytes_max() / size_of::<(Digest, Lid)>() as u64);
        let (mut entries, mut count) = (0, 0);
        for (interval, more) in wanted {
            let follows = count == 0 || wanted[count - 1].0.is_before(*interval);
            if count > 0 && (entries + more > most || !follows) {
                break;
            }
            (entries, count) = (entries + more, count + 1);
        }
        count
    }

    /// Makes the partitions of these intervals, in order, each for so many entries or those that it
    /// has, from the digests of all listed tables. The gate is closed.
    pub(super) fn make(&self, wanted: &[(Interval, u64)], ahead: &DigestsRead) {
        let state = self.tree.pin_scan();
        let (code, directory, tables) = self.tree.level_ids(|ids| {
            let ids = of(ids);
            (ids.code.clone(), ids.directory.clone(), listed_tables(ids, state.tree()))
        });
        let (first, last) = bounds(wanted);
        let has_cut = tables.iter().any(|table| !table.is_whole);
        let mut made: Vec<FilterEntries> =
            wanted.iter().map(|(_, entries)| Vec::with_capacity(*entries as usize)).collect();
        let mut charge = self.account.charge(MemoryPart::Compactions, 0);
        let mut lost = Vec::new();
        let is_lacking =
            |table: &&ListedTable| wanted.iter().any(|(interval, _)| ahead.of(table.table.id(), *interval).is_none());
        let lacking: Vec<&ListedTable> = tables.iter().filter(is_lacking).collect();
        let late = read_digests_of(&lacking, &[(first, last)], &unread);
        let late_bytes = late.memory_bytes();
        for ListedTable { lid, table, is_whole } in &tables {
            let (lid, is_whole) = (*lid, *is_whole);
            let read = |interval| late.of(table.id(), interval).or_else(|| ahead.of(table.id(), interval));
            let read: Option<Vec<&[Digest]>> = wanted.iter().map(|(interval, _)| read(*interval)).collect();
            let Some(read) = read else {
                lost.push(lid);
                continue;
            };
            // If a compaction has taken keys, the present partition tells which are left.
            let is_left = |key: Digest| match directory.find(key) {
                Some((present, place)) if !is_whole => present.has(place, lid),
                _ => true,
            };
            for (keys, made) in read.into_iter().zip(&mut made) {
                made.extend(keys.iter().filter(|key| is_left(**key)).map(|key| (*key, lid)));
            }
            let made_bytes: usize = made.iter().map(|made| made.capacity() * size_of::<(Digest, Lid)>()).sum();
            charge.set(late_bytes + made_bytes);
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
            ids.leftovers += u64::from(arriving.is_some());
            arriving.iter().for_each(|(run, ..)| ids.refuse(*run));
            arriving
        });
        // It may be the last to refer to tables, which close under locks of theirs.
        drop(refused);
    }

    /// A partition for so many entries that has these, or two of half the interval. If it would be
    /// overfull it is made for more.
    fn filled(
        &self,
        code: &Arc<Code>,
        interval: Interval,
        entries_for: u64,
        made: &[(Digest, Lid)],
    ) -> Vec<(Interval, Arc<Partition>)> {
        let buckets = buckets_for(code.slots(), entries_for, interval);
        if buckets > BUCKETS_MAX
            && let Some(halves) = interval.halves()
        {
            let of_half = |half: Interval| {
                let made: FilterEntries = made.iter().copied().filter(|(digest, _)| half.contains(*digest)).collect();
                // Twice as many as half of them, less a few, are no more than half.
                let entries_for = (entries_for / 2).max(made.len() as u64);
                self.filled(code, half, entries_for, &made)
            };
            return halves.into_iter().flat_map(of_half).collect();
        }
        let entries = |partition: &Partition, insert: &mut dyn FnMut(Place, Lid)| {
            made.iter().for_each(|(digest, lid)| insert(interval.place(partition, *digest), *lid));
        };
        let count = made.len() as u64;
        let is_last = entries_for >= entries_for_max(count);
        let unplaced_max = if is_last { u64::MAX } else { unplaced_max(count) };
        match Partition::filled(code.clone(), buckets, unplaced_max, entries) {
            Some(partition) => vec![(interval, Arc::new(partition.charged(&self.account)))],
            None => {
                let more = (entries_for + entries_for / 4 + 1).min(entries_for_max(count));
                self.filled(code, interval, more, made)
            }
        }
    }
}

impl DigestsRead {
    /// The digests of a table in an interval, if they were read.
    fn of(&self, table: TableId, interval: Interval) -> Option<&[Digest]> {
        let (first, last) = (interval.first(), interval.last());
        let (_, read) = self.between.iter().find(|((from, to), _)| *from <= first && last <= *to)?;
        let digests = read.get(&table)?;
        let from = digests.partition_point(|digest| *digest < first);
        Some(&digests[from..from + digests[from..].partition_point(|digest| *digest <= last)])
    }

    fn memory_bytes(&self) -> usize {
        let digests = self.between.iter().flat_map(|(_, digests)| digests.values());
        digests.map(|digests| digests.capacity() * size_of::<Digest>()).sum()
    }
}

/// Reads the digests of tables from each first to each last one, all concurrently. Those that
/// cannot be read are left out, and `failed` hears of them.
fn read_digests_of(
    tables: &[&ListedTable],
    between: &[(Digest, Digest)],
    failed: &dyn Fn(&TableFile, &Error),
) -> DigestsRead {
    let open = |table: &ListedTable| table.table.open().cloned().inspect_err(|error| failed(&table.table, error)).ok();
    let open: Vec<(&ListedTable, Arc<Table>)> =
        tables.iter().filter_map(|table| Some((*table, open(table)?))).collect();
    let of_table = |table: &Arc<Table>, (first, last)| DigestsWanted { table: table.clone(), first, last };
    let wanted: Vec<DigestsWanted> =
        between.iter().flat_map(|between| open.iter().map(|(_, table)| of_table(table, *between))).collect();
    let mut read = read_digests(&wanted).into_iter();
    let between = between.iter().map(|between| {
        let of_tables = open.iter().zip(read.by_ref());
        let digests = of_tables.filter_map(|((table, _), read)| {
            let keys = read.inspect_err(|error| failed(&table.table, error)).ok().flatten()?;
            Some((table.table.id(), keys))
        });
        (*between, digests.collect())
    });
    DigestsRead { between: between.collect(), charge: Charge::default() }
}

/// The tables of all listed runs, and those of the run that is being listed that are done.
pub(super) fn listed_tables(ids: &LevelIds, tree: &TreeVersion) -> Vec<ListedTable> {
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

/// The first and the last digest of intervals that follow each other.
fn bounds(wanted: &[(Interval, u64)]) -> (Digest, Digest) {
    (wanted[0].0.first(), wanted[wanted.len() - 1].0.last())
}

/// How many of these, which are in the order of their keys, have a key in the interval.
pub(super) fn count_in<T>(ordered: &[T], key: impl Fn(&T) -> Digest, interval: Interval) -> usize {
    let from = ordered.partition_point(|element| key(element) < interval.first());
    ordered[from..].partition_point(|element| key(element) <= interval.last())
}

/// The most entries of a partition with so many buckets.
pub(super) fn entries_max(slots: usize, buckets: usize) -> u64 {
    (buckets as f64 * slots as f64 * chucky::load(slots)) as u64
}

/// The most entries that a partition of so many is made for because it would be overfull. Such
/// partitions have less than twice as many buckets as they need, or they would be made smaller
/// again.
fn entries_for_max(entries: u64) -> u64 {
    entries + entries / 2
}

/// The buckets of a new partition for so many entries: with space for an eighth more on average, a
/// sixteenth to three, by chance.
fn buckets_for(slots: usize, entries: u64, interval: Interval) -> usize {
    let random = mixed(interval.first().stored() ^ u64::from(interval.depth()) ^ entries.rotate_left(32));
    let growth = chucky::GROWTH * (0.5 + random as f64 / u64::MAX as f64);
    let buckets = entries as f64 * (1.0 + growth) / (slots as f64 * chucky::load(slots));
    (buckets as usize + 1).max(BUCKETS_MIN)
}

/// The filter, which is there while the gate is closed.
pub(super) fn of(ids: &mut Option<LevelIds>) -> &mut LevelIds {
    ids.as_mut().expect("the filter is there while the gate is closed")
}

/// Reports that lookups search a run without a filter.
#[cold]
pub(super) fn unread(table: &TableFile, error: &Error) {
    tracing::warn!(%error, table = table.id().0, "digests could not be read; lookups search the run without a filter");
}
