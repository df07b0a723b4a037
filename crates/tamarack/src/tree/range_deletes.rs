//! [`RangeDeletes`]: the range deletes of a tree that its tables still need, and how they end.
//!
//! The flush of a memtable with range tombstones adds them to the version, by the edit that adds
//! its tables. Lookups, scans and compactions of any run consult them there. So one record hides
//! keys in all runs, wherever compactions move these.
//!
//! # How they end
//!
//! A range delete that every reader sees is **applied**. Nearly all tables need no reading for
//! that: a slice is a table and a range of keys, so an edit that cuts the range out of the slices
//! takes the keys away, and a table without slices goes as a file.
//!
//! ```text
//!   range delete at 50        ├───────────────────────────────┤
//!   run, sequences up to 40   ├─ 7 ─┤├── 8 ──┤├── 9 ──┤├─ 10 ──────┤
//!   after the edit            ├7┤                              ├ 10 ┤      8 and 9 are garbage
//!   run, sequences 45 to 60   ├──────── 12 ────────┤                      waits for a compaction
//! ```
//!
//! A slice that overlaps the range
//! * has nothing hidden if its table's sequences are all larger, or if the table was written by
//!   someone who knew of the range delete and left out what it hides
//!   ([`Properties::range_deletes_applied`](crate::format::properties::Properties));
//! * is cut if its table's sequences are all smaller, unless its table would have many slices, and
//!   unless a flush or a compaction reads it, which would bring the keys back;
//! * else waits for a compaction, as garbage.
//!
//! Once no slice waits, the range delete ends by the same edit.
//!
//! Tests: `tests/suite/range_deletes.rs`, `tests/suite/range_deletes_applied.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::run::Run;
use super::slice::Slice;
use super::version::TreeVersion;
use crate::entry::Sequence;
use crate::format::edit::{Change, KeyRange, RunId};
use crate::format::key_range::{Key, key_after};
use crate::format::meta::TableId;
use crate::memory::{Account, Charge, MemoryPart};
use crate::mistake::{self, Mistake};
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

/// What an edit does about range deletes.
#[derive(Debug)]
pub struct AppliedRangeDeletes {
    /// Its changes; empty if nothing can be done now.
    pub changes: Vec<Change>,
    /// The range deletes that end.
    pub ended: Vec<RangeTombstone>,
}

/// A table that has so many slices is not split by a cut: a compaction rewrites it.
const SLICES_MAX: usize = 8;

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

impl TreeVersion {
    /// Returns what can be done now about the range deletes up to `oldest`, which every reader
    /// sees. Runs that are read by flushes and compactions in progress are busy.
    pub fn apply_range_deletes(&self, oldest: Sequence, is_busy: impl Fn(RunId) -> bool) -> AppliedRangeDeletes {
        let mut cuts: BTreeMap<RunId, CutRun> = BTreeMap::new();
        let (mut ended, mut more_slices) = (Vec::new(), BTreeMap::new());
        for delete in self.range_deletes().list().iter().take_while(|delete| delete.sequence <= oldest) {
            let mut is_done = true;
            for run in self.runs() {
                let present = cuts.get(&run.id()).map_or(&**run, |cut| &cut.left);
                let found = self.cuts_of(present, delete, is_busy(run.id()), &mut more_slices);
                is_done &= found.is_done;
                if !found.ranges.is_empty() {
                    let cut = cuts.entry(run.id()).or_insert_with(|| CutRun::of(run));
                    found.ranges.into_iter().for_each(|range| cut.cut(range));
                }
            }
            if is_done || mistake::is_planted(Mistake::RangeDeleteEndedEarly) {
                ended.push(delete.clone());
            }
        }
        let tree = self.id();
        let mut changes: Vec<Change> = Vec::new();
        for (run, CutRun { left, ranges }) in cuts {
            match left.is_empty() {
                true => changes.push(Change::RunRemoved { tree, run }),
                false => changes.extend(ranges.into_iter().map(|range| Change::RunCut { tree, run, range })),
            }
        }
        if !ended.is_empty() {
            let sequences = ended.iter().map(|delete| delete.sequence).collect();
            changes.push(Change::RangeDeletesEnded { tree, sequences });
        }
        AppliedRangeDeletes { changes, ended }
    }

    /// The ranges that a range delete cuts out of a run.
    fn cuts_of(
        &self,
        run: &Run,
        delete: &RangeTombstone,
        is_busy: bool,
        more_slices: &mut BTreeMap<TableId, usize>,
    ) -> FoundCuts {
        let mut found = FoundCuts { ranges: Vec::new(), is_done: true };
        let mut is_whole = true;
        for slice in run.within_range(&delete.range) {
            let meta = slice.table().meta();
            let has_none = meta.range_deletes_applied >= delete.sequence || meta.smallest_sequence > delete.sequence;
            if has_none {
                is_whole = false;
                continue;
            }
            let begins_inside = delete.range.from.as_deref().is_some_and(|from| slice.first_key() < from);
            let ends_inside = delete.range.to.as_deref().is_some_and(|to| *to < *end_of(slice));
            let is_split = begins_inside && ends_inside;
            let more = more_slices.get(&slice.table().id()).copied().unwrap_or(0);
            let slices = self.slices_of(slice.table().id()) + more;
            if is_busy || meta.largest_sequence > delete.sequence || is_split && slices >= SLICES_MAX {
                (found.is_done, is_whole) = (false, false);
                continue;
            }
            if is_split {
                more_slices.insert(slice.table().id(), more + 1);
            }
            let span = KeyRange { from: Some(Key::from(slice.first_key())), to: Some(end_of(slice)) };
            found.ranges.push(span.and(&delete.range));
        }
        if is_whole && found.ranges.len() > 1 {
            found.ranges = vec![delete.range.clone()];
        }
        found
    }
}

/// A run without what is cut out of it.
struct CutRun {
    left: Run,
    ranges: Vec<KeyRange>,
}

impl CutRun {
    fn of(run: &Arc<Run>) -> Self {
        Self { left: Run::clone(run), ranges: Vec::new() }
    }

    fn cut(&mut self, range: KeyRange) {
        self.left.cut(&range);
        self.ranges.push(range);
    }
}

/// What a range delete cuts out of a run, and whether the run has no other entry that it hides.
struct FoundCuts {
    ranges: Vec<KeyRange>,
    is_done: bool,
}

/// An exclusive upper bound on the keys of a slice.
fn end_of(slice: &Slice) -> Key {
    slice.to().cloned().unwrap_or_else(|| key_after(&slice.table().meta().largest_key))
}
