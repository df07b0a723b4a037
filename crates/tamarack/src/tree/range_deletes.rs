//! [`RangeDeletes`]: the range deletes of a tree that its tables still need. How they end:
//! [`super::range_delete_cuts`].
//!
//! The flush of a memtable with range tombstones adds them to the version, by the edit that adds
//! its tables. Lookups, scans and compactions of any run consult them there. So one record hides
//! keys in all runs, wherever compactions move these.
//!
//! Tests: `tests/suite/range_deletes.rs`, `tests/suite/range_deletes_applied.rs`.

use std::sync::Arc;

use super::slice::Slice;
use crate::entry::Sequence;
use crate::format::edit::KeyRange;
use crate::format::key_range::{Key, key_after};
use crate::memory::{Account, Charge, MemoryPart};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// The range deletes of a tree. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct RangeDeletes {
    /// In the order of sequences.
    list: Vec<RangeTombstone>,
    tombstones: RangeTombstones,
    /// Of the memory of both. Versions that have the same range deletes share it.
    charge: Option<Arc<Charge>>,
}

impl RangeDeletes {
    /// Returns true if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns them in the order of sequences.
    pub fn list(&self) -> &[RangeTombstone] {
        &self.list
    }

    /// Returns them by keys.
    pub fn tombstones(&self) -> &RangeTombstones {
        &self.tombstones
    }

    /// Adds some; returns a sequence that is there already, or an empty range, if there is one.
    pub(super) fn add(&mut self, ranges: &[(KeyRange, Sequence)]) -> Result<(), Sequence> {
        for (range, sequence) in ranges {
            let at = self.list.partition_point(|other| other.sequence < *sequence);
            if range.is_empty() || self.list.get(at).is_some_and(|other| other.sequence == *sequence) {
                return Err(*sequence);
            }
            let tombstone = RangeTombstone { range: range.clone(), sequence: *sequence };
            self.tombstones = self.tombstones.with(&tombstone);
            self.list.insert(at, tombstone);
        }
        Ok(())
    }

    /// Removes those with these sequences; returns one that is not there, if any.
    pub(super) fn end(&mut self, sequences: &[Sequence]) -> Result<(), Sequence> {
        for sequence in sequences {
            let at = self.list.binary_search_by_key(sequence, |other| other.sequence).map_err(|_| *sequence)?;
            self.list.remove(at);
        }
        self.list.shrink_to_fit();
        self.tombstones = RangeTombstones::of(&self.list);
        Ok(())
    }

    /// Charges their memory to an account, in place of what was charged before.
    pub(super) fn charge_to(&mut self, account: &Arc<Account>) {
        let bytes = self.memory_bytes();
        self.charge = (bytes > 0).then(|| Arc::new(account.charge(MemoryPart::Tables, bytes)));
    }

    /// Returns their memory, in bytes, approximately.
    fn memory_bytes(&self) -> usize {
        let key_bytes = |key: &Option<Key>| key.as_ref().map_or(0, |key| key.len());
        let bytes = |one: &RangeTombstone| key_bytes(&one.range.from) + key_bytes(&one.range.to);
        let keys: usize = self.list.iter().map(bytes).sum();
        self.list.capacity() * size_of::<RangeTombstone>() + keys + self.tombstones.memory_bytes()
    }

    /// Returns the largest sequence.
    pub(super) fn last(&self) -> Sequence {
        self.list.last().map_or(Sequence::ZERO, |last| last.sequence)
    }

    /// Returns a range delete up to `oldest`, which every reader sees, that may hide entries of the
    /// slice; and whether it hides all of them.
    pub fn hiding(&self, slice: &Slice, oldest: Sequence) -> Option<(Sequence, bool)> {
        if self.is_empty() {
            return None;
        }
        let meta = slice.table().meta();
        let known = meta.smallest_sequence.max(meta.range_deletes_applied);
        let after = end_of(slice);
        let found = self.tombstones.find(slice.first_key(), &after, |sequence| known < sequence && sequence <= oldest);
        found.map(|(sequence, covers)| (sequence, covers && meta.largest_sequence < sequence))
    }
}

/// Returns true if one of these range tombstones is known to hide all entries of the slice from
/// readers that see all of them.
pub fn covers(tombstones: &RangeTombstones, slice: &Slice) -> bool {
    let found = tombstones.find(slice.first_key(), &end_of(slice), |sequence| slice.is_below(sequence));
    found.is_some_and(|(_, covers)| covers)
}

/// An exclusive upper bound on the keys of a slice.
pub(super) fn end_of(slice: &Slice) -> Key {
    slice.to().cloned().unwrap_or_else(|| key_after(&slice.table().meta().largest_key))
}
