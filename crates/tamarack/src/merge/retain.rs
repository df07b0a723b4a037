//! [`Retain`]: which versions of a key a flush or a compaction keeps.
//!
//! In: the entries of a compaction's inputs in entry order, and the sequences that must stay
//! readable. Out: for each entry, whether it is written to the output. Streaming: no lookahead, no
//! I/O.
//!
//! # Readable sequences
//!
//! The sequences of all registered snapshots, and the visible sequence at the moment when the list
//! was taken (later readers read there or above). For each of them the youngest version at or below
//! it must stay, and all versions above the largest, which are not visible yet. All other versions
//! are hidden for ever:
//!
//! ```text
//!   versions of one key     12    9    7    4    3            readable: 5, 10
//!   kept?                   yes   yes  no   yes  no
//!                           │     │    │    │    └ hidden by 4
//!                           │     │    │    └ what 5 reads
//!                           │     │    └ hidden by 9, and too young for 5
//!                           │     └ what 10 reads
//!                           └ above all: not yet visible
//! ```
//!
//! # Tombstones
//!
//! A tombstone that is not hidden is dropped only if it is at or below *every* readable sequence,
//! so that it hides all older versions of its key among the inputs and none of these is kept, and
//! if nothing older than the inputs can contain the key, anywhere in the tree. Otherwise dropping
//! it would bring an older version back.
//!
//! # Other kinds
//!
//! Only a put or a delete hides older versions. A merge operand needs them ([`super::Fold`] merges
//! what is kept); whether a value pointer and an expiring put do is not settled, so they hide
//! nothing. Entries of these three kinds are dropped when hidden themselves. A range delete
//! concerns other keys than its own and is always kept.
//!
//! # Cost
//!
//! Per entry one comparison of its key with the previous one, and a binary search in the list for
//! versions that have a younger sibling. No allocation but a buffer for the longest key.
//!
//! # Tests
//!
//! Random histories: every readable sequence reads the same before and after, and the kept set is
//! exactly the one of a naive definition.

use crate::entry::{Entry, EntryKind, Sequence};

/// The filter of a compaction's entries. See the module's documentation.
#[derive(Debug)]
pub struct Retain {
    /// The readable sequences, ascending, each once.
    readable: Vec<Sequence>,
    /// The last entry's key; meaningless before the first.
    key: Vec<u8>,
    /// The last entry's sequence; `None` before the first.
    last: Option<Sequence>,
    /// True if the last entry is the first one of `key`.
    is_first: bool,
    /// The oldest put or delete of `key` so far.
    hider: Option<Sequence>,
}

impl Retain {
    /// Keeps what the sequences in `readable` (in any order) must be able to read. The list must
    /// contain the visible sequence; an empty list keeps everything.
    pub fn new(mut readable: Vec<Sequence>) -> Self {
        readable.sort_unstable();
        readable.dedup();
        Self { readable, key: Vec::new(), last: None, is_first: false, hider: None }
    }

    /// Returns true if `entry` must be kept. Takes all entries of the inputs in entry order.
    /// `older_may_exist` returns whether anything older than the inputs may contain `entry.key`,
    /// and may return false only if that is certain; few tombstones lead to a call.
    pub fn keep(&mut self, entry: &Entry<'_>, older_may_exist: impl FnOnce() -> bool) -> bool {
        self.follow(entry);
        let hidden = self.is_hidden(entry.sequence);
        if matches!(entry.kind, EntryKind::Put | EntryKind::Delete) {
            self.hider = Some(entry.sequence);
        }
        match entry.kind {
            EntryKind::RangeDelete => true,
            _ if hidden => false,
            EntryKind::Delete => !self.all_can_see(entry.sequence) || older_may_exist(),
            EntryKind::Put | EntryKind::Merge | EntryKind::ValuePointer | EntryKind::ExpiringPut => true,
        }
    }

    /// Returns true if the last entry is the first of its key, the youngest version.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Tracks where a new key begins.
    fn follow(&mut self, entry: &Entry<'_>) {
        match self.last {
            Some(last) if self.key == entry.key => {
                assert!(
                    entry.sequence < last,
                    "versions of key {:02x?} out of order: {:?} after {last:?}",
                    entry.key,
                    entry.sequence
                );
                self.is_first = false;
            }
            _ => {
                self.is_first = true;
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.hider = None;
            }
        }
        self.last = Some(entry.sequence);
    }

    /// Returns true if all readers of versions up to `sequence` find a younger version first.
    fn is_hidden(&self, sequence: Sequence) -> bool {
        let Some(hider) = self.hider else { return false };
        let seen_by = self.readable.partition_point(|&readable| readable < sequence);
        self.readable.get(seen_by).is_some_and(|&readable| hider <= readable)
    }

    fn all_can_see(&self, sequence: Sequence) -> bool {
        self.readable.first().is_some_and(|&readable| sequence <= readable)
    }
}

#[cfg(test)]
mod tests {
    //! Tests: all readers read the same from what is kept, and no more is kept than defined.

    use super::*;
    use crate::format::entry::OwnedEntry;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};

    #[test]
    fn the_picture_in_the_documentation() {
        let versions: Vec<_> =
            [12, 9, 7, 4, 3].into_iter().map(|sequence| OwnedEntry::put("k", sequence, "")).collect();
        assert_eq!(kept_sequences(&versions, &[5, 10], true), [12, 9, 4]);
    }

    #[test]
    fn a_tombstone_goes_only_when_nothing_older_is_left() {
        let versions = [OwnedEntry::delete("k", 8), OwnedEntry::put("k", 3, "")];
        assert_eq!(kept_sequences(&versions, &[10], false), [0; 0], "no reader needs either");
        assert_eq!(kept_sequences(&versions, &[10], true), [8], "an older run may hold the key");
        assert_eq!(kept_sequences(&versions, &[5, 10], false), [8, 3], "10 would see 3 again");
        assert_eq!(kept_sequences(&versions, &[7], false), [8, 3], "not visible yet");
        assert_eq!(kept_sequences(&versions, &[], false), [8, 3], "nothing is known");
    }

    #[test]
    fn random_histories_of_puts_and_deletes_keep_exactly_what_the_definition_says() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let older_may_exist = random.below(2) == 0;
            let versions = SortedSource::new(random.versions(40));
            let readable = random_readable(&mut random, 45);
            let kept = retain(versions.versions(), &readable, older_may_exist);
            let expected: Vec<_> = versions
                .versions()
                .iter()
                .filter(|version| is_needed(version, versions.versions(), &readable, older_may_exist))
                .cloned()
                .collect();
            assert_eq!(kept, expected, "seed {seed}, readable {readable:?}");
        }
    }

    #[test]
    fn random_histories_of_all_kinds_read_the_same() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let older_may_exist = random.below(2) == 0;
            let versions = SortedSource::new(versions_of_all_kinds(&mut random));
            let readable = random_readable(&mut random, 45);
            let kept = retain(versions.versions(), &readable, older_may_exist);
            let largest = *readable.iter().max().unwrap();
            let readers = readable.iter().copied().chain((largest.0..50).map(Sequence));
            for reader in readers {
                for version in versions.versions() {
                    assert_eq!(
                        fold(&kept, &version.key, reader, older_may_exist),
                        fold(versions.versions(), &version.key, reader, older_may_exist),
                        "seed {seed}, key {:?}, reader {reader:?} of {readable:?}",
                        version.key
                    );
                }
            }
            let is_range_delete = |version: &&OwnedEntry| version.kind == EntryKind::RangeDelete;
            assert_eq!(
                kept.iter().filter(is_range_delete).count(),
                versions.versions().iter().filter(is_range_delete).count(),
                "seed {seed}"
            );
        }
    }

    /// The naive definition.
    fn is_needed(version: &OwnedEntry, all: &[OwnedEntry], readable: &[Sequence], older_may_exist: bool) -> bool {
        let read_by = |reader: Sequence| {
            all.iter().filter(|v| v.key == version.key && v.sequence <= reader).max_by_key(|v| v.sequence)
                == Some(version)
        };
        let not_yet_visible = readable.iter().all(|&reader| version.sequence > reader);
        let is_last_tombstone =
            version.kind == EntryKind::Delete && readable.iter().all(|&reader| version.sequence <= reader);
        (not_yet_visible || readable.iter().any(|&reader| read_by(reader))) && (older_may_exist || !is_last_tombstone)
    }

    /// What a reader sees of a key: all versions from the youngest visible one down to the first
    /// put or delete, or to older runs. An absent key is an empty list, for whatever reason it is
    /// absent.
    fn fold(versions: &[OwnedEntry], key: &[u8], reader: Sequence, older_may_exist: bool) -> Vec<Vec<u8>> {
        let mut met = Vec::new();
        for version in versions.iter().filter(|v| v.key == key && v.sequence <= reader) {
            match version.kind {
                EntryKind::RangeDelete => {}
                EntryKind::Delete => return met,
                EntryKind::Put => {
                    met.push(version.value.clone());
                    return met;
                }
                _ => met.push(version.value.clone()),
            }
        }
        if older_may_exist {
            met.push(b"something older".to_vec());
        }
        met
    }

    fn retain(versions: &[OwnedEntry], readable: &[Sequence], older_may_exist: bool) -> Vec<OwnedEntry> {
        let mut retain = Retain::new(readable.to_vec());
        versions.iter().filter(|version| retain.keep(&version.entry(), || older_may_exist)).cloned().collect()
    }

    fn kept_sequences(versions: &[OwnedEntry], readable: &[u64], older_may_exist: bool) -> Vec<u64> {
        let readable: Vec<_> = readable.iter().copied().map(Sequence).collect();
        retain(versions, &readable, older_may_exist).iter().map(|version| version.sequence.0).collect()
    }

    fn random_readable(random: &mut Random, bound: u64) -> Vec<Sequence> {
        (0..=random.below(5)).map(|_| Sequence(random.below(bound))).collect()
    }

    /// Few keys, so that each has many versions.
    fn versions_of_all_kinds(random: &mut Random) -> Vec<OwnedEntry> {
        let kinds = [
            EntryKind::Put,
            EntryKind::Delete,
            EntryKind::Delete,
            EntryKind::Merge,
            EntryKind::RangeDelete,
            EntryKind::ValuePointer,
            EntryKind::ExpiringPut,
        ];
        (1..40)
            .map(|sequence| {
                let kind = *random.pick(&kinds);
                let value = if kind.has_value() { sequence.to_string().into_bytes() } else { Vec::new() };
                OwnedEntry { key: vec![random.below(4) as u8], sequence: Sequence(sequence), kind, value }
            })
            .collect()
    }
}
