//! [`VisibleCursor`]: the keys and values that a reader at one sequence sees, in both directions.
//!
//! Input: a [`Source`] with all versions of all keys. Output: for each key in a range, the key and
//! value of its youngest version at or below the reader's sequence, unless that is a tombstone.
//!
//! ```text
//!   source, in entry order     a9 a4   b7✝ b2   c8   d3     a9 = key a, sequence 9; ✝ = tombstone
//!   a reader at 7 sees            a4                 d3
//!   going forward                 a4 → skip b7✝ → skip b2 → skip c8 → d3
//!   going backward                d3 → skip c8 → b2, no: b7✝ → a4, not a9 → end
//! ```
//!
//! Forward, the first visible version of a key decides. Backward, versions come oldest first, so
//! the deciding one is known only when the next version is invisible or belongs to another key. The
//! source has moved on by then, but still has the value that it left ([`Source::left`]). The value
//! is copied only if more steps are needed, over younger versions that the reader does not see.
//!
//! # Range deletes
//!
//! A key has a floor: what is below is hidden by a range delete, as if there were a tombstone.
//! Where a version is hidden, the source passes all that the range delete hides in it
//! ([`Source::pass`]), which reads nothing in between. The floor is known for a stretch of keys, so
//! that it is looked up again only behind that.
//!
//! # Operands
//!
//! If the deciding version is a merge operand, all operands down to a put or a tombstone are folded
//! into a buffer: forward by steps to older versions, backward as they come, old to new.
//!
//! # Invariants
//!
//! * After `next` or `prev` returned true, the cursor is positioned on a key: `key` and `value` are
//!   those of that key.
//! * Otherwise (new, past either end, after an error) it is unpositioned: `next` begins at the
//!   range's start, `prev` at its end.
//!
//! # Cost
//!
//! One step of the source per version, one copy of each key into a reused buffer, and no copies of
//! values except as above, and of operands. A change of direction costs one seek. Of a key with
//! very many versions only the first `STEPS_BEFORE_SEEK` are stepped over; a seek skips the others.
//!
//! # Tests
//!
//! Random histories against a map from key to value at each sequence; random walks; a failing
//! source.

use std::sync::Arc;

use tamarack_env::ByteBuffer;

use crate::entry::{EntryKind, Sequence};
use crate::error::Result;
use crate::format::key_range::{Key, KeyRange};
use crate::merge::Source;
use crate::operator::{Merged, Merging};
use crate::range_tombstones::{RangeTombstones, Stretch};
use crate::read::chain::{Arrival, Chain, reserved};

/// After this many versions of one key a seek is taken to cost less than further steps: a seek
/// costs a search in every merged source, a step costs one source little. A key that is overwritten
/// again and again within one memtable has thousands of versions.
const STEPS_BEFORE_SEEK: u32 = 16;

/// A cursor over the visible keys and values of a source within a range. See the module's
/// documentation.
#[derive(Debug)]
pub struct VisibleCursor<S> {
    source: S,
    sequence: Sequence,
    range: KeyRange,
    /// The merge operator.
    merging: Arc<Merging>,
    position: CursorPosition,
    /// The last key that was visited, visible or not.
    key: Vec<u8>,
    /// The range tombstones, if there are any.
    deleted: Option<Box<DeletedKeys>>,
    /// The floor of `key`: versions below are hidden by a range delete.
    floor: Sequence,
    /// The value, if operands were merged into it, or if the cursor reached its key backward and
    /// had to step past the deciding version.
    copied: ByteBuffer,
    is_copied: bool,
}

/// The positions of the cursor and of its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CursorPosition {
    /// Unpositioned; the source anywhere.
    Unpositioned,
    /// On `key`; the source on the version that the reader sees.
    Forward,
    /// On `key`, with operands; the source past some of its versions, perhaps past all.
    Merged,
    /// On `key`; the source before all its versions, or unpositioned if nothing is before.
    Backward,
}

impl<S: Source> VisibleCursor<S> {
    /// Creates an unpositioned cursor over what a reader at `sequence` sees of `source` within
    /// `range`, with operands merged by `merging`.
    pub fn new(source: S, sequence: Sequence, range: KeyRange, merging: Arc<Merging>) -> Self {
        Self {
            source,
            sequence,
            range,
            merging,
            position: CursorPosition::Unpositioned,
            key: Vec::new(),
            deleted: None,
            floor: Sequence::ZERO,
            copied: ByteBuffer::new(),
            is_copied: false,
        }
    }

    /// Hides what these range tombstones hide from the reader.
    #[cold]
    #[inline(never)]
    pub fn hide(&mut self, tombstones: RangeTombstones) {
        self.deleted = Some(Box::new(DeletedKeys::new(tombstones, self.sequence)));
    }

    /// Moves to the next visible key, or to the first one if unpositioned; returns false if there
    /// is none.
    ///
    /// # Errors
    /// Errors of the source.
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        // An error leaves the cursor unpositioned.
        let position = std::mem::replace(&mut self.position, CursorPosition::Unpositioned);
        match position {
            CursorPosition::Forward => self.source.next()?,
            CursorPosition::Merged => {}
            CursorPosition::Unpositioned => self.seek_start()?,
            CursorPosition::Backward => self.source.seek(&self.key, Sequence::ZERO)?,
        }
        let passes = matches!(position, CursorPosition::Forward | CursorPosition::Merged);
        let found = self.find_forward(passes)?;
        self.position = found;
        Ok(found != CursorPosition::Unpositioned)
    }

    /// Moves to the previous visible key, or to the last one if unpositioned; returns false if
    /// there is none.
    ///
    /// # Errors
    /// Errors of the source.
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        let found = match std::mem::replace(&mut self.position, CursorPosition::Unpositioned) {
            CursorPosition::Unpositioned => self.seek_end(),
            CursorPosition::Forward | CursorPosition::Merged => self.source.seek_before(&self.key, Sequence::MAX),
            CursorPosition::Backward => Ok(()),
        }
        .and_then(|()| self.find_backward())?;
        if found {
            self.position = CursorPosition::Backward;
        }
        Ok(found)
    }

    /// Narrows the range from now on; the position stays. `range` must be within the present one.
    pub fn narrow(&mut self, range: &KeyRange) {
        self.range.clone_from(range);
    }

    /// Narrows the range, and makes the cursor unpositioned: the next step begins at an end of
    /// `range`, which must be within the present one.
    pub fn restart(&mut self, range: &KeyRange) {
        self.narrow(range);
        self.position = CursorPosition::Unpositioned;
    }

    /// Returns the key at the cursor.
    ///
    /// # Panics
    /// If the cursor is unpositioned.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.position != CursorPosition::Unpositioned, "the cursor must be positioned on a key");
        &self.key
    }

    /// Returns the value at the cursor.
    ///
    /// # Panics
    /// If the cursor is unpositioned.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.position {
            CursorPosition::Unpositioned => panic!("the cursor must be positioned on a key"),
            CursorPosition::Forward => {
                self.source.entry().expect("the source is positioned on the visible version").value
            }
            CursorPosition::Merged => &self.copied,
            CursorPosition::Backward if self.is_copied => &self.copied,
            CursorPosition::Backward => self.source.left(),
        }
    }

    fn seek_start(&mut self) -> Result<()> {
        match &self.range.from {
            Some(key) => self.source.seek(key, Sequence::MAX),
            None => self.source.seek_first(),
        }
    }

    fn seek_end(&mut self) -> Result<()> {
        match &self.range.to {
            Some(key) => self.source.seek_before(key, Sequence::MAX),
            None => self.source.seek_last(),
        }
    }

    /// Finds the first visible version at or after the source's position that is no tombstone;
    /// returns where the cursor is then. If it `passes` a key, which is `self.key`, the first
    /// versions of that key are skipped; one was skipped before.
    #[inline]
    fn find_forward(&mut self, passes: bool) -> Result<CursorPosition> {
        let (mut known, mut settled, mut steps) = (passes, passes, u32::from(passes));
        while let Some(entry) = self.source.entry() {
            if known && same_key(entry.key, &self.key) {
                steps += 1;
            } else if self.range.ends_before(entry.key) {
                return Ok(CursorPosition::Unpositioned);
            } else {
                replace(&mut self.key, entry.key);
                (known, settled, steps) = (true, false, 0);
            }
            if !settled && entry.sequence <= self.sequence {
                settled = true;
                let (kind, sequence) = (entry.kind, entry.sequence);
                if self.deleted.is_some() && self.find_floor() > sequence {
                    self.pass_forward()?;
                    continue;
                }
                match kind {
                    EntryKind::Put => return Ok(CursorPosition::Forward),
                    EntryKind::Delete => {}
                    kind => match self.merge_forward(kind)? {
                        true => return Ok(CursorPosition::Merged),
                        // The source has moved.
                        false => continue,
                    },
                }
            }
            match steps < STEPS_BEFORE_SEEK {
                true => self.source.next()?,
                false if settled => self.source.seek(&self.key, Sequence::ZERO)?,
                false => self.source.seek(&self.key, self.sequence)?,
            }
        }
        Ok(CursorPosition::Unpositioned)
    }

    /// Looks the floor of `self.key` up.
    #[inline(never)]
    fn find_floor(&mut self) -> Sequence {
        self.floor = self.deleted.as_mut().map_or(Sequence::ZERO, |deleted| deleted.floor_of(&self.key));
        self.floor
    }

    /// Passes what the range delete hides that hides the version that the source is on.
    #[cold]
    #[inline(never)]
    fn pass_forward(&mut self) -> Result<()> {
        let deleted = self.deleted.as_mut().expect("a key has a floor only if there are range tombstones");
        let end = match self.source.passes(self.floor) {
            true => deleted.end_of(&self.key, self.floor),
            false => deleted.here.range.to.as_deref(),
        };
        // What begins behind the range of the scan is not looked for.
        self.source.pass(end.filter(|end| !self.range.ends_before(end)), self.floor)
    }

    /// As [`VisibleCursor::pass_forward`], backward.
    #[cold]
    #[inline(never)]
    fn pass_backward(&mut self) -> Result<()> {
        let deleted = self.deleted.as_mut().expect("a key has a floor only if there are range tombstones");
        let begin = match self.source.passes(self.floor) {
            true => deleted.begin_of(&self.key, self.floor),
            false => deleted.here.range.from.as_deref().unwrap_or_default(),
        };
        let is_before_range = self.range.from.as_deref().is_some_and(|from| begin <= from);
        self.source.pass_back(if is_before_range { &[] } else { begin }, self.floor)
    }

    /// Folds the operands of `self.key` into `self.copied`: the source is on the youngest version
    /// that the reader sees, of this kind. Leaves the source past all that were merged. Returns
    /// false if the operands delete the key.
    #[cold]
    #[inline(never)]
    fn merge_forward(&mut self, kind: EntryKind) -> Result<bool> {
        if kind != EntryKind::Merge {
            return Err(reserved(&self.merging, kind));
        }
        let mut chain = Chain::new(&self.merging, &self.key, Arrival::YoungFirst);
        while let Some(entry) = self.source.entry()
            && same_key(entry.key, &self.key)
            && entry.sequence >= self.floor
            && chain.add(&entry).is_continue()
        {
            self.source.next()?;
        }
        self.copied.clear();
        Ok(chain.merge(&mut self.copied)? == Merged::Value)
    }

    /// As [`VisibleCursor::merge_forward`], where the source has come backward over versions older
    /// than the one that it is on, which is an operand that the reader sees. Leaves the source
    /// before all versions of the key. `existing` is the value below, if there is one.
    #[cold]
    #[inline(never)]
    fn merge_backward(&mut self, existing: Option<Vec<u8>>) -> Result<bool> {
        let mut chain = Chain::new(&self.merging, &self.key, Arrival::OldFirst).above(existing);
        while let Some(entry) = self.source.entry()
            && same_key(entry.key, &self.key)
        {
            if entry.sequence > self.sequence {
                self.source.seek_before(&self.key, Sequence::MAX)?;
                break;
            }
            if chain.add(&entry).is_break() {
                break;
            }
            self.source.prev()?;
        }
        self.copied.clear();
        Ok(chain.merge(&mut self.copied)? == Merged::Value)
    }

    /// Moves back over all versions of a key, and again until a key's youngest visible version is
    /// no tombstone.
    #[inline]
    fn find_backward(&mut self) -> Result<bool> {
        loop {
            match self.source.entry() {
                Some(entry) if !self.range.starts_after(entry.key) => replace(&mut self.key, entry.key),
                _ => return Ok(false),
            }
            if self.deleted.is_some() && !self.pass_hidden_backward()? {
                continue;
            }
            if self.skip_key_backward()? {
                return Ok(true);
            }
        }
    }

    /// Moves back over the versions of `self.key` that range deletes hide: all that are below its
    /// floor, so they come first. Returns false if the key has no other one.
    #[inline(never)]
    fn pass_hidden_backward(&mut self) -> Result<bool> {
        let floor = self.find_floor();
        while let Some(entry) = self.source.entry()
            && same_key(entry.key, &self.key)
        {
            if entry.sequence >= floor {
                return Ok(true);
            }
            self.pass_backward()?;
        }
        Ok(false)
    }

    /// Moves back over all versions of `self.key`, on the oldest of which the source is positioned.
    /// Returns true if the reader sees a value, which is then the one that the source left last, or
    /// in `self.copied`.
    #[inline]
    fn skip_key_backward(&mut self) -> Result<bool> {
        let (mut found, mut steps) = (false, 0);
        self.is_copied = false;
        while let Some(entry) = self.source.entry()
            && (steps == 0 || same_key(entry.key, &self.key))
        {
            steps += 1;
            let visible = entry.sequence <= self.sequence;
            if visible {
                found = match entry.kind {
                    EntryKind::Put => true,
                    EntryKind::Delete => false,
                    EntryKind::Merge => return self.merge_key_backward(found, steps),
                    kind => return Err(reserved(&self.merging, kind)),
                };
            }
            if steps < STEPS_BEFORE_SEEK {
                if found && !visible && !self.is_copied {
                    replace(&mut self.copied, self.source.left());
                    self.is_copied = true;
                }
                self.source.prev()?;
            } else if steps == STEPS_BEFORE_SEEK && visible {
                // There is a visible version, so this seek finds the youngest one.
                self.source.seek(&self.key, self.sequence)?;
            } else {
                if found && !self.is_copied {
                    replace(&mut self.copied, if visible { entry.value } else { self.source.left() });
                    self.is_copied = true;
                }
                self.source.seek_before(&self.key, Sequence::MAX)?;
            }
        }
        Ok(found)
    }

    /// Completes [`VisibleCursor::skip_key_backward`] at an operand that the reader sees, after so
    /// many steps; `found` says that a visible put was before it.
    #[cold]
    #[inline(never)]
    fn merge_key_backward(&mut self, found: bool, steps: u32) -> Result<bool> {
        let merged = if steps > STEPS_BEFORE_SEEK {
            // A seek has passed over versions between, and is at the youngest visible one.
            let merged = self.merge_forward(EntryKind::Merge)?;
            self.source.seek_before(&self.key, Sequence::MAX)?;
            merged
        } else {
            let existing =
                found.then(|| if self.is_copied { self.copied.to_vec() } else { self.source.left().to_vec() });
            self.merge_backward(existing)?
        };
        self.is_copied = true;
        Ok(merged)
    }
}

/// The range tombstones that a cursor's reader sees, and the floors of the keys where it is.
///
/// Keys of one floor are found by one search. The end of all stretches that have at least a floor
/// takes one for each of them, so that only a source that jumps there asks for it.
#[derive(Debug)]
struct DeletedKeys {
    tombstones: RangeTombstones,
    reader: Sequence,
    /// The last stretch.
    here: Stretch,
    /// The bounds of the keys that have at least the floor of the last stretch, once they were
    /// asked for.
    begin: Option<Key>,
    end: Option<Option<Key>>,
}

impl DeletedKeys {
    fn new(tombstones: RangeTombstones, reader: Sequence) -> Self {
        let here = tombstones.stretch(&[], reader);
        Self { tombstones, reader, here, begin: None, end: None }
    }

    /// The floor of a key.
    #[inline]
    fn floor_of(&mut self, key: &[u8]) -> Sequence {
        if !self.here.contains(key) {
            self.here = self.tombstones.stretch(key, self.reader);
            (self.begin, self.end) = (None, None);
        }
        self.here.floor
    }

    /// The end of the keys from `key` on, which is in the last stretch, that have at least its
    /// floor; `None` if they do not end.
    fn end_of(&mut self, key: &[u8], floor: Sequence) -> Option<&[u8]> {
        self.end.get_or_insert_with(|| self.tombstones.covered_to(key, floor, self.reader)).as_deref()
    }

    /// As [`DeletedKeys::end_of`], the first key.
    fn begin_of(&mut self, key: &[u8], floor: Sequence) -> &[u8] {
        self.begin.get_or_insert_with(|| self.tombstones.covered_from(key, floor, self.reader))
    }
}

/// Compares two keys. Most unequal keys differ near their end.
#[inline]
fn same_key(a: &[u8], b: &[u8]) -> bool {
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(of_a), Some(of_b)) => a.len() == b.len() && of_a == of_b && a == b,
        _ => a == b,
    }
}

/// Replaces the contents of `buffer` by `bytes`.
#[inline]
fn replace(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    match (bytes.first_chunk::<16>(), bytes.last_chunk::<16>()) {
        // The length of most keys. Two copies of fixed length, which may overlap, are cheaper than
        // one of variable length.
        (Some(first), Some(last)) if bytes.len() <= 32 => {
            buffer.extend_from_slice(&[0; 32]);
            buffer[..16].copy_from_slice(first);
            buffer[bytes.len() - 16..bytes.len()].copy_from_slice(last);
            buffer.truncate(bytes.len());
        }
        _ => buffer.extend_from_slice(bytes),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! A cursor must agree with a map after all commits up to its sequence.

    use std::collections::BTreeMap;
    use std::ops::Bound;
    use std::path::Path;

    use super::*;
    use crate::error::Error;
    use crate::format::entry::OwnedEntry;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};
    use crate::operator::ready::Append;
    use crate::range_tombstones::RangeTombstone;

    /// Without an operator, in a directory that errors can name.
    pub(crate) fn merging() -> Arc<Merging> {
        Merging::new(Path::new("/database").into(), None, None)
    }

    #[test]
    fn the_picture_in_the_documentation() {
        let versions = || {
            vec![
                OwnedEntry::put("a", 9, "a9"),
                OwnedEntry::put("a", 4, "a4"),
                OwnedEntry::delete("b", 7),
                OwnedEntry::put("b", 2, "b2"),
                OwnedEntry::put("c", 8, "c8"),
                OwnedEntry::put("d", 3, "d3"),
            ]
        };
        let mut cursor = VisibleCursor::new(SortedSource::new(versions()), Sequence(7), KeyRange::ALL, merging());
        assert!(cursor.next().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"a4"[..]));
        assert!(cursor.next().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (&b"d"[..], &b"d3"[..]));
        assert!(!cursor.next().unwrap());
        assert!(cursor.prev().unwrap(), "unpositioned, `prev` begins at the end");
        assert_eq!((cursor.key(), cursor.value()), (&b"d"[..], &b"d3"[..]));
        assert!(cursor.prev().unwrap());
        assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"a4"[..]));
        assert!(!cursor.prev().unwrap());
    }

    /// Random steps in both directions; some calls of the source fail, after which the cursor is
    /// unpositioned.
    #[test]
    fn random_walks_agree_with_a_map() {
        let mut failures = 0;
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let versions = if random.below(2) == 0 { random.versions(80) } else { crowded(random.versions(300)) };
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let range = random_range(&mut random);
            let visible: Vec<_> = visible(&versions, sequence, &range).into_iter().collect();
            let mut source = SortedSource::new(versions);
            if random.below(2) == 0 {
                source.fail_after(random.below(100));
            }
            let mut cursor = VisibleCursor::new(source, sequence, range, merging());
            let mut at: Option<usize> = None;
            for _ in 0..40 {
                let forward = random.below(2) == 0;
                let Ok(found) = (if forward { cursor.next() } else { cursor.prev() }) else {
                    failures += 1;
                    at = None;
                    continue;
                };
                at = match (forward, at) {
                    (true, None) => Some(0),
                    (true, Some(at)) => Some(at + 1),
                    (false, None) => visible.len().checked_sub(1),
                    (false, Some(at)) => at.checked_sub(1),
                }
                .filter(|&at| at < visible.len());
                let expected = at.map(|at| visible[at].clone());
                assert_eq!(found.then(|| (cursor.key().to_vec(), cursor.value().to_vec())), expected, "seed {seed}");
            }
        }
        assert!(failures > 200, "only {failures} failures were met");
    }

    /// Random steps in both directions over puts, tombstones and operands of a few keys, some with
    /// more versions than are stepped over.
    #[test]
    fn random_walks_over_operands_agree_with_a_map() {
        let merging = Merging::new(Path::new("/database").into(), Some(Arc::new(Append)), None);
        let mut longest = 0;
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let count = *random.pick(&[20, 80, 300]);
            let versions = random.versions(count).into_iter().map(|version| match random.below(4) {
                0 => version,
                _ => OwnedEntry::merge(version.key, version.sequence.0, format!("{} ", version.sequence.0)),
            });
            let versions: Vec<_> = versions.collect();
            let versions = if random.below(2) == 0 { versions } else { crowded(versions) };
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let mut expected = BTreeMap::new();
            for version in versions.iter().filter(|version| version.sequence <= sequence) {
                let (key, value) = (version.key.clone(), &version.value);
                match version.kind {
                    EntryKind::Put => drop(expected.insert(key, value.clone())),
                    EntryKind::Delete => drop(expected.remove(&key)),
                    _ => expected.entry(key).or_default().extend_from_slice(value),
                }
            }
            let expected: Vec<_> = expected.into_iter().collect();
            longest = expected.iter().map(|(_, value): &(_, Vec<u8>)| value.len()).fold(longest, usize::max);
            let source = SortedSource::new(versions);
            let mut cursor = VisibleCursor::new(source, sequence, KeyRange::ALL, merging.clone());
            let mut at: Option<usize> = None;
            for _ in 0..60 {
                let forward = random.below(2) == 0;
                let found = if forward { cursor.next() } else { cursor.prev() };
                let next = match (forward, at) {
                    (true, None) => Some(0),
                    (true, Some(at)) => Some(at + 1),
                    (false, None) => expected.len().checked_sub(1),
                    (false, Some(at)) => at.checked_sub(1),
                };
                at = next.filter(|&at| at < expected.len());
                let found = found.expect("no failure").then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
                assert_eq!(found, at.map(|at| expected[at].clone()), "seed {seed}");
            }
        }
        assert!(longest > 3 * STEPS_BEFORE_SEEK as usize, "the longest value has {longest} bytes");
    }

    /// Random steps in both directions over puts, tombstones and operands, of which range
    /// tombstones hide some.
    #[test]
    fn random_walks_over_deleted_ranges_agree_with_a_map() {
        let merging = Merging::new(Path::new("/database").into(), Some(Arc::new(Append)), None);
        let mut hidden = 0;
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let count = *random.pick(&[20, 80, 300]);
            let versions = random.versions(count).into_iter().map(|version| match random.below(4) {
                0 => OwnedEntry::merge(version.key, version.sequence.0, format!("{} ", version.sequence.0)),
                _ => version,
            });
            let versions: Vec<_> = versions.collect();
            let mut versions = if random.below(2) == 0 { versions } else { crowded(versions) };
            // Each sequence is that of one write.
            let mut deletes = Vec::new();
            versions.retain(|version| {
                let range = random_range(&mut random);
                let is_delete = random.below(12) == 0 && !range.is_empty();
                if is_delete {
                    deletes.push(RangeTombstone { range, sequence: version.sequence });
                }
                !is_delete
            });
            let sequence = Sequence(random.below(count + 2));
            let mut expected = BTreeMap::new();
            let mut writes: Vec<_> = versions.iter().map(|version| (version.sequence, Some(version), None)).collect();
            writes.extend(deletes.iter().map(|delete| (delete.sequence, None, Some(delete))));
            writes.sort_by_key(|(sequence, ..)| *sequence);
            for (_, version, delete) in writes.into_iter().filter(|(written, ..)| *written <= sequence) {
                if let Some(version) = version {
                    let (key, value) = (version.key.clone(), &version.value);
                    match version.kind {
                        EntryKind::Put => drop(expected.insert(key, value.clone())),
                        EntryKind::Delete => drop(expected.remove(&key)),
                        _ => expected.entry(key).or_insert_with(Vec::new).extend_from_slice(value),
                    }
                }
                if let Some(delete) = delete {
                    let before = expected.len();
                    expected.retain(|key, _| !delete.range.contains(key));
                    hidden += before - expected.len();
                }
            }
            let expected: Vec<_> = expected.into_iter().collect();
            let tombstones = RangeTombstones::of(&deletes);
            let source = SortedSource::new(versions);
            let mut cursor = VisibleCursor::new(source, sequence, KeyRange::ALL, merging.clone());
            if !tombstones.is_empty() {
                cursor.hide(tombstones);
            }
            let mut at: Option<usize> = None;
            for _ in 0..60 {
                let forward = random.below(2) == 0;
                let found = if forward { cursor.next() } else { cursor.prev() };
                let next = match (forward, at) {
                    (true, None) => Some(0),
                    (true, Some(at)) => Some(at + 1),
                    (false, None) => expected.len().checked_sub(1),
                    (false, Some(at)) => at.checked_sub(1),
                };
                at = next.filter(|&at| at < expected.len());
                let found = found.expect("no failure").then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
                assert_eq!(found, at.map(|at| expected[at].clone()), "seed {seed}");
            }
        }
        assert!(hidden > 5000, "only {hidden} keys were deleted");
    }

    /// A key with thousands of versions must not cost thousands of steps, whether a reader sees
    /// none, some or all.
    #[test]
    fn seeks_skip_many_versions_of_one_key() {
        for kind in [EntryKind::Put, EntryKind::Delete] {
            for reader in [4, 5, 10, 2500, 4995, 5004, 5005, 9000] {
                let mut versions = vec![OwnedEntry::put("a", 1, "a"), OwnedEntry::put("c", 2, "c")];
                versions.extend((5..5005).map(|n| OwnedEntry { kind, ..OwnedEntry::put("b", n, n.to_string()) }));
                let expected: Vec<_> = visible(&versions, Sequence(reader), &KeyRange::ALL).into_iter().collect();
                let mut cursor =
                    VisibleCursor::new(SortedSource::new(versions), Sequence(reader), KeyRange::ALL, merging());
                for (key, value) in &expected {
                    assert!(cursor.next().unwrap());
                    assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_slice()), "{reader} {kind:?}");
                }
                assert!(!cursor.next().unwrap());
                for (key, value) in expected.iter().rev() {
                    assert!(cursor.prev().unwrap());
                    assert_eq!((cursor.key(), cursor.value()), (key.as_slice(), value.as_slice()), "{reader} {kind:?}");
                }
                assert!(!cursor.prev().unwrap());
                assert!(cursor.source.entry_calls() < 150, "{} calls", cursor.source.entry_calls());
            }
        }
    }

    /// A seek costs more than a step. A key of fewer versions than [`STEPS_BEFORE_SEEK`] is stepped
    /// over, whatever the reader sees of it; one of more costs one seek forward, and two backward:
    /// to the version that the reader sees, and away from it.
    #[test]
    fn few_versions_are_stepped_over() {
        let limit = u64::from(STEPS_BEFORE_SEEK);
        for (count, seeks) in [(1, (1, 1)), (2, (1, 1)), (limit - 1, (1, 1)), (limit, (4, 7)), (50 * limit, (4, 7))] {
            let version = |number: u64| OwnedEntry::put([(number / count) as u8], number + 1, "v");
            let versions: Vec<OwnedEntry> = (0..3 * count).map(version).collect();
            let readers = [1, 2 * count, 3 * count].into_iter();
            for reader in readers.filter(|reader| count < limit || *reader == 3 * count) {
                let source = SortedSource::new(versions.clone());
                let mut cursor = VisibleCursor::new(source, Sequence(reader), KeyRange::ALL, merging());
                while cursor.next().expect("no failure") {}
                let forward = (cursor.source.seeks(), cursor.source.entry_calls());
                while cursor.prev().expect("no failure") {}
                let backward = (cursor.source.seeks() - forward.0, cursor.source.entry_calls() - forward.1);
                assert_eq!((forward.0, backward.0), seeks, "{count} versions, reader {reader}");
                let calls_max = 3 * count.min(limit + 1) + 10;
                assert!(forward.1.max(backward.1) <= calls_max, "{count}, {reader}: {forward:?} {backward:?}");
            }
        }
    }

    /// Keys are compared and copied whole, whatever their lengths; the first and the last bytes are
    /// looked at first.
    #[test]
    fn keys_are_compared_and_copied_whole() {
        let mut buffer = b"what was there before, longer than a key of thirty-two bytes".to_vec();
        for length in 0..50 {
            let key: Vec<u8> = (1..=length).collect();
            replace(&mut buffer, &key);
            assert_eq!(buffer, key);
            assert!(same_key(&key, &buffer));
            for at in 0..key.len() {
                buffer[at] = 0xFF;
                assert!(!same_key(&key, &buffer), "byte {at} of {length} differs");
                buffer[at] = key[at];
            }
            assert!(!same_key(&key, &[&[0], &key[..]].concat()), "{length}: the same end");
            assert!(!same_key(&key, &[&key[..], &[0]].concat()), "{length}: the same beginning");
        }
    }

    #[test]
    fn unknown_kinds_of_entries_are_refused_in_both_directions() {
        let merge = OwnedEntry { kind: EntryKind::ValuePointer, ..OwnedEntry::put("a", 1, "") };
        let mut cursor = VisibleCursor::new(SortedSource::new(vec![merge]), Sequence(7), KeyRange::ALL, merging());
        for found in [cursor.next(), cursor.prev()] {
            assert!(matches!(&found, Err(Error::Unsupported { path, .. }) if *path == *merging().dir()), "{found:?}");
        }
    }

    /// Returns the map after all commits up to `sequence`.
    pub(crate) fn visible(versions: &[OwnedEntry], sequence: Sequence, range: &KeyRange) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut map = BTreeMap::new();
        for version in versions.iter().filter(|version| version.sequence <= sequence) {
            match version.kind {
                EntryKind::Put => map.insert(version.key.clone(), version.value.clone()),
                _ => map.remove(&version.key),
            };
        }
        map.retain(|key, _| !range.starts_after(key) && !range.ends_before(key));
        map
    }

    /// Returns the same versions, of half a dozen keys.
    fn crowded(mut versions: Vec<OwnedEntry>) -> Vec<OwnedEntry> {
        versions.iter_mut().for_each(|version| version.key.truncate(1));
        versions
    }

    /// Draws bounds of all kinds; empty and reversed ranges included.
    pub(crate) fn random_range(random: &mut Random) -> KeyRange {
        let mut bound = || match random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(random.key()),
            _ => Bound::Excluded(random.key()),
        };
        KeyRange::within::<Vec<u8>>((bound(), bound()))
    }
}
