//! [`Fold`]: merges the operands of a key with each other and with the value below them, as a flush
//! or a compaction meets them.
//!
//! In: the entries that [`Retain`](super::Retain) has been asked about, in entry order. Out: the
//! same entries, with each **group** replaced by what it amounts to. A group is a list of
//! neighbouring operands of one key that no reader can tell apart, because no readable sequence
//! lies between them:
//!
//! ```text
//!   versions of one key      m9    m8    m6    m4    p2          readable: 7
//!   groups                  └── m9 ──┘  └───── p6 ─────┘         m operand, p put
//!                            partial        full merge
//!                            merge          with the put
//! ```
//!
//! * A put or a delete below a group, with no readable sequence between, ends it by a full merge.
//! * So does the end of the key, if nothing older than the inputs can have it.
//! * Any other end merges what it can by partial merges; the operands that remain stay operands.
//!
//! What a merge makes takes the sequence of the group's youngest operand: readers that see it see
//! all of the group.
//!
//! If the operator fails, or is missing, all entries stay as they are.
//!
//! # Cost
//!
//! A branch per entry that is no operand. A group is copied; it is bounded in bytes
//! ([`Fold::new`]), so a longer one is merged part by part. Partial merges join neighbours pair by
//! pair, so that n operands are copied log₂(n) times.
//!
//! # Tests
//!
//! Random histories: every reader sees the same values before and after, and no group has more than
//! one operand left where the operator has partial merges.

use std::fmt;
use std::sync::Arc;

use crate::entry::{Entry, EntryKind, Sequence};
use crate::error::{Error, Result};
use crate::mistake::{self, Mistake};
use crate::operator::{Merged, Merging};

/// The memory of an operand besides its bytes.
const OPERAND_BYTES: usize = size_of::<Operand>() + 16;

/// Merges the operands of a compaction's entries. See the module's documentation.
#[derive(Debug)]
pub struct Fold {
    merging: Arc<Merging>,
    /// The readable sequences, ascending.
    readable: Vec<Sequence>,
    bounds: FoldBounds,
    /// The key of the group; meaningless if it is empty.
    key: Vec<u8>,
    /// The operands of the group, young to old.
    operands: Vec<Operand>,
    /// Their memory, in bytes.
    bytes: usize,
    /// The memory from which on they are joined before the group ends.
    join_at: usize,
    /// The input that has the youngest of them.
    input: usize,
    /// The result of a merge.
    merged: Vec<u8>,
}

/// Bounds of the memory that a [`Fold`] takes.
#[derive(Clone, Copy, Debug)]
pub struct FoldBounds {
    /// The largest group, in bytes of memory. Operands of a larger one are merged part by part.
    pub group_bytes: usize,
    /// The longest value, or operand, that a merge may make, in bytes: as long as one that may be
    /// written. What would be longer stays in operands, which reads merge.
    pub value_bytes: usize,
}

/// An operand of a group.
#[derive(Debug)]
struct Operand {
    sequence: Sequence,
    bytes: Vec<u8>,
}

/// What stands below a group.
#[derive(Clone, Copy)]
enum Base<'a> {
    /// A put or a delete that no reader can tell from the group, and whether it would be kept.
    Entry(Entry<'a>, bool),
    /// Nothing: no older entry of the key is anywhere.
    Nothing,
    /// It is not known.
    Unknown,
}

impl Fold {
    /// Merges by the operator of `merging` what no sequence in `readable` (in any order) tells
    /// apart.
    pub fn new(merging: &Arc<Merging>, mut readable: Vec<Sequence>, bounds: FoldBounds) -> Self {
        readable.sort_unstable();
        Self {
            merging: merging.clone(),
            readable,
            bounds,
            key: Vec::new(),
            operands: Vec::new(),
            bytes: 0,
            join_at: bounds.group_bytes,
            input: 0,
            merged: Vec::new(),
        }
    }

    /// Returns true if there is no group: all entries so far have been emitted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Returns true if `entry` may be emitted as it is: it is no operand, and there is no group
    /// that it could end. Else [`Fold::take`] takes it.
    #[inline]
    pub fn passes(&self, entry: &Entry<'_>) -> bool {
        entry.kind != EntryKind::Merge && self.operands.is_empty()
    }

    /// The key of the group, and the input that has its youngest operand; `None` if there is none.
    pub fn group(&self) -> Option<(&[u8], usize)> {
        (!self.operands.is_empty()).then_some((&self.key[..], self.input))
    }

    /// Takes an entry of `input` of the same key as the group, if there is one, and calls `emit`
    /// with what is to be written. `is_kept` says whether [`Retain`](super::Retain) keeps the
    /// entry; `older_may_exist` is as there.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn take(
        &mut self,
        entry: Entry<'_>,
        is_kept: bool,
        input: usize,
        older_may_exist: impl Fn() -> bool,
        emit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let is_same = self.operands.last().is_some_and(|last| self.are_one(last.sequence, entry.sequence));
        match entry.kind {
            EntryKind::Put | EntryKind::Delete if is_same => {
                return self.end(Base::Entry(entry, is_kept), older_may_exist, emit);
            }
            // Hidden by a younger put or delete, as its whole group would be.
            EntryKind::Merge if !is_kept => return Ok(()),
            EntryKind::Merge if is_same => return self.push(entry, emit),
            _ => self.end(Base::Unknown, older_may_exist, emit)?,
        }
        if entry.kind == EntryKind::Merge && self.merging.is_served() && self.are_one(entry.sequence, entry.sequence) {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.input = input;
            return self.push(entry, emit);
        }
        if is_kept { emit(entry) } else { Ok(()) }
    }

    /// Ends the group, after the last entry of its key, and calls `emit` with what is to be
    /// written.
    ///
    /// # Errors
    /// Those of `emit`.
    pub fn end_key(
        &mut self,
        older_may_exist: impl Fn() -> bool,
        emit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.operands.is_empty() {
            return Ok(());
        }
        let base = if older_may_exist() { Base::Unknown } else { Base::Nothing };
        self.end(base, older_may_exist, emit)
    }

    /// Returns true if every reader sees both or none of two sequences, the first the younger.
    fn are_one(&self, younger: Sequence, older: Sequence) -> bool {
        if mistake::is_planted(Mistake::OperandUnderSnapshot) {
            return true;
        }
        let seen_by = self.readable.partition_point(|&readable| readable < older);
        self.readable.get(seen_by).is_some_and(|&readable| younger <= readable)
    }

    fn push(&mut self, entry: Entry<'_>, emit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        self.bytes += OPERAND_BYTES + entry.value.len();
        self.operands.push(Operand { sequence: entry.sequence, bytes: entry.value.to_vec() });
        if self.bytes > self.join_at {
            self.join();
            if self.bytes > self.bounds.group_bytes && self.operands.len() > 1 {
                // They cannot be joined, and are too large to wait for the value below them.
                let (key, bytes) = (self.key.escape_ascii(), self.bytes);
                self.report(&format!("{bytes} bytes of operands of key \"{key}\" cannot be joined by partial merges"));
                return self.emit_operands(emit);
            }
            // One operand may be as large as it likes, and is not copied for each small one.
            self.join_at = self.bounds.group_bytes.max(2 * self.bytes);
        }
        Ok(())
    }

    /// Ends the group, if there is one, and calls `emit` with what it amounts to.
    fn end(
        &mut self,
        base: Base<'_>,
        older_may_exist: impl Fn() -> bool,
        emit: &mut dyn FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(youngest) = self.operands.first().map(|operand| operand.sequence) else { return Ok(()) };
        let existing = match base {
            Base::Entry(Entry { kind: EntryKind::Put, value, .. }, _) => Some(Some(value)),
            Base::Entry(..) | Base::Nothing => Some(None),
            Base::Unknown => None,
        };
        if let Some(existing) = existing {
            let merged = self.merge(existing);
            if let Some(merged) = self.noted(merged) {
                self.clear();
                let (key, sequence) = (&self.key[..], youngest);
                return match merged {
                    Merged::Value => emit(Entry { key, sequence, kind: EntryKind::Put, value: &self.merged }),
                    Merged::Deleted if self.all_can_see(sequence) && !older_may_exist() => Ok(()),
                    Merged::Deleted => emit(Entry { key, sequence, kind: EntryKind::Delete, value: &[] }),
                };
            }
        } else {
            self.join();
        }
        self.emit_operands(emit)?;
        match base {
            Base::Entry(entry, true) => emit(entry),
            _ => Ok(()),
        }
    }

    /// Full merge of the group into `self.merged`.
    fn merge(&mut self, existing: Option<&[u8]>) -> Result<Merged> {
        let operands: Vec<&[u8]> = self.operands.iter().rev().map(|operand| &operand.bytes[..]).collect();
        self.merged.clear();
        let merged = self.merging.merge(&self.key, existing, &operands, &mut self.merged)?;
        self.check_length()?;
        Ok(merged)
    }

    /// Partial merges of neighbours in the group, pair by pair, until a pass removes less than a
    /// quarter of them: so all passes together look at four times as many operands as there are,
    /// at most.
    fn join(&mut self) {
        let mut before = usize::MAX;
        while self.operands.len() > 1 && self.operands.len() < before && self.operands.len() <= before - before / 4 {
            before = self.operands.len();
            let joined = self.join_pairs();
            if self.noted(joined).is_none() {
                break;
            }
        }
        self.bytes = self.operands.iter().map(|operand| OPERAND_BYTES + operand.bytes.len()).sum();
    }

    /// Joins pairs of neighbours. After an error the others stay as they are.
    fn join_pairs(&mut self) -> Result<()> {
        let mut joined: Result<()> = Ok(());
        let mut left: Vec<Operand> = Vec::with_capacity(self.operands.len().div_ceil(2));
        // The operand at the end of `left` that has not been joined with an older one.
        let mut is_open = false;
        for older in std::mem::take(&mut self.operands) {
            if let Some(newer) = left.last_mut().filter(|_| is_open && joined.is_ok()) {
                self.merged.clear();
                let merged = self.merging.merge_partial(&self.key, &older.bytes, &newer.bytes, &mut self.merged);
                match merged.and_then(|is_joined| self.check_length().map(|()| is_joined)) {
                    Ok(true) => {
                        newer.bytes.clone_from(&self.merged);
                        is_open = false;
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => joined = Err(error),
                }
            }
            left.push(older);
            is_open = true;
        }
        self.operands = left;
        joined
    }

    fn check_length(&self) -> Result<()> {
        let (bytes, most) = (self.merged.len(), self.bounds.value_bytes);
        if bytes > most {
            let key = self.key.escape_ascii();
            return Err(Error::InvalidArgument(format!(
                "the operands of key \"{key}\" make {bytes} bytes; the maximum is {most}, an eighth of the memory budget"
            )));
        }
        Ok(())
    }

    /// Reports a failure. Nothing is lost: what was to be merged stays as it is.
    fn noted<T>(&self, merged: Result<T>) -> Option<T> {
        merged.inspect_err(|error| self.report(error)).ok()
    }

    /// Reports the database's first failure.
    fn report(&self, why: &dyn fmt::Display) {
        if self.merging.note_failure() {
            tracing::warn!(%why, "operands cannot be merged in a flush or compaction, and are kept");
        }
    }

    fn emit_operands(&mut self, emit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        for Operand { sequence, bytes } in &self.operands {
            emit(Entry { key: &self.key, sequence: *sequence, kind: EntryKind::Merge, value: bytes })?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.operands.clear();
        (self.bytes, self.join_at) = (0, self.bounds.group_bytes);
    }

    fn all_can_see(&self, sequence: Sequence) -> bool {
        self.readable.first().is_some_and(|&readable| sequence <= readable)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tamarack_env::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::format::entry::OwnedEntry;
    use crate::merge::Retain;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};
    use crate::operator::ready::Append;
    use crate::operator::{MergeFailure, MergeOperator};

    /// Appends, and knows no partial merges.
    struct OnlyFull;

    impl MergeOperator for OnlyFull {
        fn name(&self) -> &str {
            "full"
        }

        fn merge(
            &self,
            key: &[u8],
            existing: Option<&[u8]>,
            operands: &[&[u8]],
            value: &mut Vec<u8>,
        ) -> Result<Merged, MergeFailure> {
            Append.merge(key, existing, operands, value)
        }
    }

    fn merging(operator: Option<Arc<dyn MergeOperator>>) -> Arc<Merging> {
        Merging::new(Path::new("/db").into(), operator, None)
    }

    /// What a flush or a compaction makes of the versions.
    fn folded(
        versions: &[OwnedEntry],
        readable: &[Sequence],
        older_may_exist: bool,
        (merging, group_bytes): (&Arc<Merging>, usize),
    ) -> Vec<OwnedEntry> {
        let bounds = FoldBounds { group_bytes, value_bytes: 1 << 20 };
        let (mut retain, mut out) = (Retain::new(readable.to_vec()), Vec::new());
        let mut fold = Fold::new(merging, readable.to_vec(), bounds);
        let mut emit = |entry: Entry<'_>| {
            out.push(OwnedEntry::from(entry));
            Ok(())
        };
        for version in versions {
            let entry = version.entry();
            if fold.group().is_some_and(|(key, _)| key != entry.key) {
                fold.end_key(|| older_may_exist, &mut emit).expect("nothing fails");
            }
            let is_kept = retain.keep(&entry, || older_may_exist);
            if !fold.passes(&entry) {
                fold.take(entry, is_kept, 0, || older_may_exist, &mut emit).expect("nothing fails");
            } else if is_kept {
                emit(entry).expect("nothing fails");
            }
        }
        fold.end_key(|| older_may_exist, &mut emit).expect("nothing fails");
        out
    }

    /// What a reader sees of a key.
    fn read(versions: &[OwnedEntry], key: &[u8], reader: Sequence, older_may_exist: bool) -> Option<Vec<u8>> {
        let mut value = older_may_exist.then(|| b"older".to_vec());
        for version in versions.iter().rev().filter(|v| v.key == key && v.sequence <= reader) {
            match version.kind {
                EntryKind::Put => value = Some(version.value.clone()),
                EntryKind::Delete => value = None,
                _ => value.get_or_insert_default().extend_from_slice(&version.value),
            }
        }
        value
    }

    fn random_versions(random: &mut Random) -> Vec<OwnedEntry> {
        let versions = random.versions(60).into_iter().map(|version| {
            let key = vec![random.below(3) as u8];
            match random.below(4) {
                0 => OwnedEntry { key, ..version },
                _ => OwnedEntry::merge(key, version.sequence.0, format!("{} ", version.sequence.0)),
            }
        });
        let versions = versions.collect();
        SortedSource::new(versions).versions().to_vec()
    }

    /// Every reader sees the same before and after. Of the operands that no reader tells apart, one
    /// is left; none, where what is below is known.
    #[test]
    fn random_histories_read_the_same() {
        let (mut joined, mut merged) = (0, 0);
        for seed in 0..4000 {
            let mut random = Random::new(seed);
            let older_may_exist = random.one_in(2);
            let versions = random_versions(&mut random);
            let readable: Vec<_> = (0..=random.below(4)).map(|_| Sequence(random.below(65))).collect();
            let operator: Arc<dyn MergeOperator> = if random.one_in(3) { Arc::new(OnlyFull) } else { Arc::new(Append) };
            let is_partial = operator.name() != "full";
            let group_bytes = *random.pick(&[0, 100, 1 << 20]);
            let merging = merging(Some(operator));
            let folded = folded(&versions, &readable, older_may_exist, (&merging, group_bytes));
            let largest = *readable.iter().max().expect("there is one");
            for reader in readable.iter().copied().chain((largest.0..66).map(Sequence)) {
                for key in 0..3 {
                    assert_eq!(
                        read(&folded, &[key], reader, older_may_exist),
                        read(&versions, &[key], reader, older_may_exist),
                        "seed {seed}, key {key}, reader {reader:?} of {readable:?}"
                    );
                }
            }
            assert!(folded.is_sorted_by(|a, b| crate::entry::compare(a.place(), b.place()).is_lt()), "seed {seed}");
            let fold = Fold::new(&merging, readable.clone(), FoldBounds { group_bytes: 0, value_bytes: 0 });
            for pair in folded.windows(2).filter(|pair| pair[0].key == pair[1].key) {
                let [younger, older] = [&pair[0], &pair[1]];
                let is_one = fold.are_one(younger.sequence, older.sequence) && younger.kind == EntryKind::Merge;
                assert!(!is_one || !is_partial, "seed {seed}: {younger:?} stays above {older:?}");
            }
            let operands = |versions: &[OwnedEntry]| versions.iter().filter(|v| v.kind == EntryKind::Merge).count();
            joined += operands(&versions) - operands(&folded);
            merged += folded.iter().filter(|v| v.kind == EntryKind::Put && v.value.len() > 3).count();
        }
        assert!(joined > 10_000 && merged > 1000, "{joined} operands went, {merged} became values");
    }

    /// Without an operator, or with one that fails, all entries stay as they are: the operands, and
    /// the put or delete below them.
    #[test]
    fn what_cannot_be_merged_stays() {
        let mut above = [0, 0];
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let mut versions = random_versions(&mut random);
            let mut keys: Vec<_> = versions.iter().map(|version| version.key.clone()).collect();
            keys.dedup();
            versions.retain(|version| version.kind == EntryKind::Merge && version.sequence > Sequence(1));
            for key in keys {
                let is_put = random.one_in(2);
                let below = match is_put {
                    true => OwnedEntry::put(key, 1, "below"),
                    false => OwnedEntry { kind: EntryKind::Delete, ..OwnedEntry::put(key, 1, "") },
                };
                above[usize::from(is_put)] += versions.iter().filter(|version| version.key == below.key).count();
                versions.push(below);
            }
            versions = SortedSource::new(versions).versions().to_vec();
            // The one reader sees all: a put and its operands are one group.
            let readable = [Sequence(70)];
            let failing: Arc<dyn MergeOperator> = Arc::new(crate::operator::ready::Add);
            for operator in [None, Some(failing)] {
                let merging = merging(operator);
                for group_bytes in [0, 100, 1 << 20] {
                    assert_eq!(folded(&versions, &readable, true, (&merging, group_bytes)), versions, "seed {seed}");
                }
            }
        }
        assert!(above.iter().all(|operands| *operands > 1000), "{above:?} operands above deletes and puts");
    }

    /// A value that would be longer than one that may be written stays in operands.
    #[test]
    fn what_would_be_too_long_stays_in_operands() {
        let versions =
            [OwnedEntry::merge("k", 9, "12345"), OwnedEntry::merge("k", 8, "6789"), OwnedEntry::put("k", 2, "0")];
        for (value_bytes, expected) in [(10, &[OwnedEntry::put("k", 9, "0678912345")][..]), (9, &versions[..])] {
            let merging = merging(Some(Arc::new(Append)));
            let mut fold = Fold::new(&merging, vec![Sequence(10)], FoldBounds { group_bytes: 1 << 20, value_bytes });
            let mut out = Vec::new();
            let mut emit = |entry: Entry<'_>| {
                out.push(OwnedEntry::from(entry));
                Ok(())
            };
            for version in &versions {
                fold.take(version.entry(), true, 0, || true, &mut emit).expect("nothing fails");
            }
            fold.end_key(|| true, &mut emit).expect("nothing fails");
            assert_eq!(out, expected);
            assert_eq!(merging.can_fold(), value_bytes == 10, "a failure is noted");
        }
    }

    /// Joins only with an operand `r`, which absorbs older ones.
    struct Absorbing {
        calls: AtomicU64,
    }

    impl MergeOperator for Absorbing {
        fn name(&self) -> &str {
            "absorbing"
        }

        fn merge(
            &self,
            key: &[u8],
            existing: Option<&[u8]>,
            operands: &[&[u8]],
            value: &mut Vec<u8>,
        ) -> Result<Merged, MergeFailure> {
            Append.merge(key, existing, operands, value)
        }

        fn merge_partial(&self, _: &[u8], _: &[u8], newer: &[u8], out: &mut Vec<u8>) -> Result<bool, MergeFailure> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            out.extend_from_slice(newer);
            Ok(newer == b"r")
        }
    }

    /// An operator that can join one pair in each pass is called in proportion to the operands.
    #[test]
    fn joins_that_remove_little_are_given_up() {
        let operator = Arc::new(Absorbing { calls: AtomicU64::new(0) });
        let merging = merging(Some(operator.clone()));
        let count = 10_000;
        let operand = |at: u64| OwnedEntry::merge("k", count - at, if at == 0 { "r" } else { "x" });
        let versions: Vec<OwnedEntry> = (0..count).map(operand).collect();
        let left = folded(&versions, &[Sequence(count)], true, (&merging, 1 << 30));
        assert_eq!(left.len() as u64, count - 1);
        assert!(operator.calls.load(Ordering::Relaxed) < 2 * count, "{:?} calls", operator.calls);
    }

    /// The picture in the module's documentation.
    #[test]
    fn the_picture_in_the_documentation() {
        let versions = [
            OwnedEntry::merge("k", 9, "9"),
            OwnedEntry::merge("k", 8, "8"),
            OwnedEntry::merge("k", 6, "6"),
            OwnedEntry::merge("k", 4, "4"),
            OwnedEntry::put("k", 2, "2"),
        ];
        let merging = merging(Some(Arc::new(Append)));
        let folded = folded(&versions, &[Sequence(7), Sequence(10)], true, (&merging, 1 << 20));
        assert_eq!(folded, [OwnedEntry::merge("k", 9, "89"), OwnedEntry::put("k", 6, "246")]);
    }
}
