//! [`FilterPass`]: which entries of a compaction its filter is shown, and what becomes of them.
//!
//! In: what [`Retain`](super::Retain) keeps and [`Fold`](super::Fold) has folded, in entry order.
//! Out: what is written.
//!
//! ```text
//!   versions that are kept    p9   p4   p2      p put, m operand, d delete
//!   snapshots 5, 3            shown: p9, which none of them reads; p4 and p2 stay
//!   snapshot 9                shown: nothing
//!   no snapshot               p9 alone is kept, and shown
//! ```
//!
//! * **Shown** is the first version of a key, if it is a put that is visible and that no snapshot
//!   reads. A snapshot that comes later would read it as well: so the decisions are void if there
//!   is one when the output becomes visible
//!   ([`Sequences::keep_snapshots_out`](crate::database::Sequences::keep_snapshots_out)).
//! * **Dropped**, it becomes a tombstone of the same sequence: older versions that snapshots read,
//!   or that older runs have, stay hidden. If there is none, nothing is written. That is the rule
//!   for tombstones of [`Retain`](super::Retain).
//! * **Changed**, it is a put of the same sequence.
//!
//! # Cost
//!
//! Per entry the comparison of its key with the previous one, and the filter. 8 bytes for each
//! entry that is dropped or changed, until the next handover.
//!
//! # Tests
//!
//! Here; `tests/suite/compaction_filters.rs`.

use tamarack_filter::Digest;

use crate::compaction_filter::{FilterDecision, FilterEntry, RegisteredFilter};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::memory::Charge;
use crate::mistake::{self, Mistake};

/// Shows a compaction's entries to its filter. See the module's documentation.
#[derive(Debug)]
pub struct FilterPass {
    filter: RegisteredFilter,
    bounds: FilterBounds,
    /// The last key of which a version is kept; meaningless before the first.
    key: Vec<u8>,
    has_key: bool,
    /// The changed value.
    value: Vec<u8>,
    outcome: FilterOutcome,
}

/// What a [`FilterPass`] depends on besides the entries.
#[derive(Debug)]
pub struct FilterBounds {
    /// The level of the output.
    pub level: usize,
    /// The oldest readable sequence.
    pub oldest_readable: Sequence,
    /// The visible sequence: what is younger is not shown.
    pub visible: Sequence,
    /// The sequence of the youngest snapshot, if there is one: what it can read is not shown.
    pub youngest_snapshot: Option<Sequence>,
    /// How many entries may be dropped or changed until the next handover.
    pub entries_max: usize,
}

/// What a filter has done since the last handover.
#[derive(Debug, Default)]
pub struct FilterOutcome {
    /// The oldest sequence that was dropped or changed; `None` if nothing was.
    pub oldest: Option<Sequence>,
    /// The keys of these entries.
    pub keys: Vec<Digest>,
    /// Entries that were dropped.
    pub dropped: u64,
    /// Entries that were changed.
    pub changed: u64,
    /// Entries for which the filter has failed.
    pub failures: u64,
    /// The first failure.
    pub failure: Option<String>,
    charge: Charge,
}

impl FilterPass {
    /// Makes a pass that has seen no entry. The memory of keys goes to `charge`.
    pub fn new(filter: RegisteredFilter, bounds: FilterBounds, charge: Charge) -> Self {
        let outcome = FilterOutcome { charge, ..FilterOutcome::default() };
        Self { filter, bounds, key: Vec::new(), has_key: false, value: Vec::new(), outcome }
    }

    /// Returns true if so many entries were dropped or changed that what was merged is to be handed
    /// over, and `key` is another than that of the last entry.
    pub fn is_full_before(&self, key: &[u8]) -> bool {
        self.outcome.keys.len() >= self.bounds.entries_max && self.key != key
    }

    /// Returns what is to be written in the place of an entry that is kept, if anything. Takes all
    /// of them, in entry order. `older_may_exist` is as for [`Retain::keep`](super::Retain::keep).
    pub fn apply<'a>(&'a mut self, entry: Entry<'a>, older_may_exist: impl FnOnce() -> bool) -> Option<Entry<'a>> {
        if self.has_key && self.key == entry.key {
            return Some(entry);
        }
        self.has_key = true;
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        if entry.kind != EntryKind::Put || !self.is_shown(entry.sequence) {
            return Some(entry);
        }
        let is_oldest = entry.sequence <= self.bounds.oldest_readable && !older_may_exist();
        let shown = FilterEntry { key: entry.key, value: entry.value, level: self.bounds.level, is_oldest };
        match self.filter.decide(&shown, &mut self.value) {
            Ok(FilterDecision::Keep) => Some(entry),
            Ok(FilterDecision::Drop) => {
                self.note(&entry);
                self.outcome.dropped += 1;
                let writes_nothing = is_oldest || mistake::is_planted(Mistake::FilterDropsTombstone);
                (!writes_nothing).then_some(Entry { kind: EntryKind::Delete, value: &[], ..entry })
            }
            Ok(FilterDecision::Change) => {
                self.note(&entry);
                self.outcome.changed += 1;
                Some(Entry { value: &self.value, ..entry })
            }
            Err(failure) => {
                self.outcome.failures += 1;
                self.outcome.failure.get_or_insert(failure);
                Some(entry)
            }
        }
    }

    /// Takes what the filter has done since the last handover.
    pub fn take_outcome(&mut self) -> FilterOutcome {
        std::mem::take(&mut self.outcome)
    }

    /// Returns true if an entry of this sequence is visible, and no snapshot can read it.
    fn is_shown(&self, sequence: Sequence) -> bool {
        let FilterBounds { visible, youngest_snapshot, .. } = self.bounds;
        let is_read = youngest_snapshot.is_some_and(|youngest| sequence <= youngest);
        sequence <= visible && (!is_read || mistake::is_planted(Mistake::FilterUnderSnapshot))
    }

    fn note(&mut self, entry: &Entry<'_>) {
        let outcome = &mut self.outcome;
        outcome.oldest = Some(outcome.oldest.map_or(entry.sequence, |oldest| oldest.min(entry.sequence)));
        outcome.keys.push(Digest::of(entry.key));
        outcome.charge.set(outcome.keys.capacity() * size_of::<Digest>());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compaction_filter::{CompactionFilter, FilterFailure};
    use crate::format::entry::OwnedEntry;
    use crate::merge::Retain;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};

    /// Drops, changes and keeps by the value's first byte.
    struct ByValue;

    /// What the filter makes of a value.
    fn filtered(value: &[u8]) -> Option<Vec<u8>> {
        match value.first().copied().unwrap_or(0) % 3 {
            0 => None,
            1 => Some([value, b"!"].concat()),
            _ => Some(value.to_vec()),
        }
    }

    impl CompactionFilter for ByValue {
        fn name(&self) -> &str {
            "test.by-value"
        }

        fn filter(&self, entry: &FilterEntry<'_>, value: &mut Vec<u8>) -> Result<FilterDecision, FilterFailure> {
            let Some(changed) = filtered(entry.value) else { return Ok(FilterDecision::Drop) };
            value.extend_from_slice(&changed);
            Ok(if changed == entry.value { FilterDecision::Keep } else { FilterDecision::Change })
        }
    }

    /// The versions of a history that are left when it was compacted with a filter.
    fn compacted(
        versions: &[OwnedEntry],
        (snapshots, visible): (&[Sequence], Sequence),
        older: bool,
    ) -> Vec<OwnedEntry> {
        let readable: Vec<Sequence> = snapshots.iter().copied().chain([visible]).collect();
        let bounds = FilterBounds {
            level: 2,
            oldest_readable: *readable.iter().min().expect("the visible one"),
            visible,
            youngest_snapshot: snapshots.iter().copied().max(),
            entries_max: 1000,
        };
        let filter = RegisteredFilter::new(Arc::new(ByValue), 1000);
        let mut pass = FilterPass::new(filter, bounds, Charge::default());
        let mut retain = Retain::new(readable);
        let mut written = Vec::new();
        for version in versions {
            if retain.keep(&version.entry(), || older) {
                written.extend(pass.apply(version.entry(), || older).map(OwnedEntry::from));
            }
        }
        written
    }

    /// The value that a reader finds: `None` for none, or if only older runs may have one.
    fn read(versions: &[OwnedEntry], key: &[u8], reader: Sequence, older: Option<&[u8]>) -> Option<Vec<u8>> {
        let found = versions.iter().find(|version| version.key == key && version.sequence <= reader);
        match found {
            Some(version) => (version.kind == EntryKind::Put).then(|| version.value.clone()),
            None => older.map(<[u8]>::to_vec),
        }
    }

    /// Each snapshot reads the same as before; who comes later reads what the filter makes of the
    /// newest version, or that one if a snapshot reads it as well. Nothing older comes back.
    #[test]
    fn snapshots_read_the_same_and_others_what_the_filter_makes() {
        let (mut dropped, mut changed, mut read_by_snapshots) = (0, 0, 0);
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let versions = SortedSource::new(random.versions(40));
            let visible = Sequence(60);
            let snapshots: Vec<Sequence> = (0..random.below(3)).map(|_| Sequence(random.below(45))).collect();
            let older = (random.below(2) == 0).then_some(&b"older"[..]);
            let written = compacted(versions.versions(), (&snapshots, visible), older.is_some());
            for version in versions.versions() {
                let key = &version.key;
                for &snapshot in &snapshots {
                    let [before, after] = [versions.versions(), &written].map(|all| read(all, key, snapshot, older));
                    assert_eq!(after, before, "seed {seed}, key {key:?}, snapshot {snapshot:?}");
                }
                let newest = versions.versions().iter().find(|other| other.key == *key).expect("it is one");
                let is_read = snapshots.iter().any(|snapshot| newest.sequence <= *snapshot);
                let expected = match newest.kind {
                    EntryKind::Put if is_read => Some(newest.value.clone()),
                    EntryKind::Put => filtered(&newest.value),
                    _ => None,
                };
                assert_eq!(read(&written, key, visible, older), expected, "seed {seed}, key {key:?}");
                dropped += u64::from(expected.is_none() && newest.kind == EntryKind::Put);
                changed += u64::from(expected.as_ref().is_some_and(|value| *value != newest.value));
                read_by_snapshots += u64::from(is_read);
            }
        }
        assert!(
            dropped > 1000 && changed > 1000 && read_by_snapshots > 1000,
            "{dropped} {changed} {read_by_snapshots}"
        );
    }

    #[test]
    fn the_picture_in_the_documentation() {
        let versions: Vec<_> = [9, 4, 2].into_iter().map(|sequence| OwnedEntry::put("k", sequence, "\u{1}")).collect();
        let values = |snapshots: &[Sequence]| {
            let written = compacted(&versions, (snapshots, Sequence(10)), false);
            written.iter().map(|entry| (entry.sequence.0, entry.value.len())).collect::<Vec<_>>()
        };
        assert_eq!(values(&[Sequence(5), Sequence(3)]), [(9, 2), (4, 1), (2, 1)]);
        assert_eq!(values(&[Sequence(9)]), [(9, 1)]);
        assert_eq!(values(&[]), [(9, 2)]);
    }
}
