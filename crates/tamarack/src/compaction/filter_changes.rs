//! [`UnitChanges`]: which entries of a filter over the whole tree change with an edit, from the
//! lists of keys that a job has made, and the tables that it moves.
//!
//! Tests: those of [`crate::compaction::tree_filter`].

use std::collections::BTreeSet;

use tamarack_filter::Digest;

use crate::compaction::key_lists::KeyLists;
use crate::cuckoo::EntryChange;
use crate::format::edit::RunId;
use crate::tree::level_ids::Lid;

/// The changes of a unit, each kind in the order of digests.
#[derive(Default)]
pub(super) struct UnitChanges {
    /// Before the edit is published.
    pub(super) inserts: FilterChanges,
    /// After it.
    pub(super) removes: FilterChanges,
    /// After these.
    pub(super) relabels: FilterChanges,
}

/// Changes of the filter: keys, and what happens to an entry of each.
pub(super) type FilterChanges = Vec<(Digest, EntryChange)>;

impl UnitChanges {
    /// The changes that lists of keys and whole tables that are moved amount to, if the output has
    /// this LID and each run that `lid_of` gives. Moved tables have the run whose entries become
    /// the output's, if these are not inserted.
    pub(super) fn of(
        lists: &[KeyLists],
        moved: &[(Option<RunId>, Vec<Digest>)],
        output: Option<Lid>,
        lid_of: impl Fn(RunId) -> Option<Lid>,
    ) -> Self {
        let mut changes = Self::default();
        let count = |keys: fn(&KeyLists) -> usize| lists.iter().map(keys).sum();
        changes.inserts.reserve_exact(count(|lists| lists.inserts.len()));
        changes.removes.reserve_exact(count(|lists| lists.removes.len()));
        changes.relabels.reserve_exact(count(|lists| lists.relabels.len()));
        for lists in lists {
            let lids: Vec<Option<Lid>> = lists.inputs.iter().map(|run| run.and_then(&lid_of)).collect();
            lists.inserts.iter().for_each(|key| changes.change(*key, None, output));
            lists.relabels.iter().for_each(|(key, input)| changes.change(*key, lids[usize::from(*input)], output));
            lists.removes.iter().for_each(|(key, input)| changes.change(*key, lids[usize::from(*input)], None));
        }
        for (run, keys) in moved {
            let from = run.and_then(&lid_of);
            keys.iter().for_each(|key| changes.change(*key, from, output));
        }
        // Fast, since they consist of ordered parts.
        for changes in [&mut changes.inserts, &mut changes.removes, &mut changes.relabels] {
            changes.sort_by_key(|(key, _)| *key);
        }
        changes
    }

    /// An entry of a key with one LID is to have another one.
    fn change(&mut self, key: Digest, from: Option<Lid>, to: Option<Lid>) {
        match (from, to) {
            (None, Some(to)) => self.inserts.push((key, EntryChange::Insert(to))),
            (Some(from), None) => self.removes.push((key, EntryChange::Remove(from))),
            (Some(from), Some(to)) if from != to => self.relabels.push((key, EntryChange::Relabel(from, to))),
            _ => (),
        }
    }

    /// The memory that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        [&self.inserts, &self.removes, &self.relabels].map(memory_bytes).into_iter().sum()
    }

    /// The LIDs that entries have before they get another one.
    pub(super) fn relabelled(&self) -> BTreeSet<Lid> {
        let from = |(_, change): &(Digest, EntryChange)| match change {
            EntryChange::Relabel(from, _) => Some(*from),
            _ => None,
        };
        self.relabels.iter().filter_map(from).collect()
    }
}

/// The memory that changes take.
pub(super) fn memory_bytes(changes: &FilterChanges) -> usize {
    changes.capacity() * size_of::<(Digest, EntryChange)>()
}

/// The changes that undo these insertions.
pub(super) fn taken_back(inserts: &[(Digest, EntryChange)]) -> FilterChanges {
    let undone = |(key, change): &(Digest, EntryChange)| match change {
        EntryChange::Insert(lid) => (*key, EntryChange::Remove(*lid)),
        other => panic!("{other:?} is no insertion"),
    };
    inserts.iter().map(undone).collect()
}
