//! [`BlockCursor`]: a cursor over the entries of a block, in both directions.
//!
//! Keys are encoded as differences from the previous key, so they can only be assembled forward. A
//! forward step updates the current key. A backward step into another interval decodes all of it,
//! up to its target, and keeps the keys:
//!
//! ```text
//! block      │ restart  user:07  10 │ restart  user:12  3  5 │ …    a step back from user:15
//! keys       user:15  user:07  user:10                            the key it left, then those
//!                                                                 of the interval
//! behind              user:07                                     the cursor is at the last
//! ```
//!
//! The following steps take one key after the other from the end, and decode and copy nothing. So a
//! backward scan decodes each entry once, as a forward one does.
//!
//! # Results of a step
//!
//! The number of bytes that the new key shares with the old one ([`BlockCursor::shared`]), also
//! across blocks: it is usually part of the encoding. And the value that a backward step has left
//! ([`BlockCursor::left`]): a backward scan learns only from the preceding entry whether an entry
//! was the youngest of its key.
//!
//! Tests: `tests/block.rs`, against a plain list; the fuzz target `block`.

use std::cmp::Ordering;

use super::waypoints::SearchStart;
use super::{Block, EntryLayout, Flaw, MALFORMED};
use crate::coding::close_gaps;
use crate::entry::{Entry, EntryKind, Sequence};
use crate::prefixes::common_prefix;

/// The initial capacity for keys, which suffices for most forward scans.
const KEYS_BYTES_MIN: usize = 64;

/// The memory that a cursor at rest keeps for keys, and as much for where they are.
const RESTING_KEYS_BYTES_MAX: usize = 256;

/// A position in a block, with the key assembled. It does not own the block: every call must get
/// the block of the last seek, or the same block once more, read again.
///
/// A new cursor has no position, nor does one that stepped past either end or met a flaw.
#[derive(Debug, Default)]
pub struct BlockCursor {
    slot: Option<EntryLayout>,
    /// The key of the current or last entry, from `key_start` on; before it those of `behind`, and
    /// possibly one that was left.
    keys: Vec<u8>,
    key_start: usize,
    /// Earlier entries of the same interval, in order, if a backward step has decoded them.
    behind: Vec<Behind>,
    shared: Option<usize>,
    /// The range of the value that a backward step has left.
    left: (usize, usize),
}

/// A decoded entry, and where its key begins in `keys`. The key ends where the next one begins.
#[derive(Debug)]
struct Behind {
    key_start: usize,
    slot: EntryLayout,
}

impl BlockCursor {
    /// The current entry.
    #[inline]
    pub fn entry<'a>(&'a self, block: &'a Block) -> Option<Entry<'a>> {
        let slot = self.slot.as_ref()?;
        Some(Entry {
            key: &self.keys[self.key_start..],
            sequence: slot.sequence,
            kind: slot.kind,
            value: block.value(slot),
        })
    }

    /// The place of the current entry, for which no block is needed.
    #[inline]
    pub fn place(&self) -> Option<(&[u8], Sequence)> {
        self.slot.as_ref().map(|slot| (&self.keys[self.key_start..], slot.sequence))
    }

    /// Returns true if the cursor is at an entry.
    #[inline]
    pub fn stands(&self) -> bool {
        self.slot.is_some()
    }

    /// The number of bytes that its key shares with the one that the last step left; `None` after a
    /// seek.
    #[inline]
    pub fn shared(&self) -> Option<usize> {
        self.shared
    }

    /// The value of the entry that the last step, a backward one, left. `block` is that entry's
    /// block.
    #[inline]
    pub fn left<'a>(&self, block: &'a Block) -> &'a [u8] {
        &block.payload[self.left.0..self.left.1]
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self, block: &Block) -> Result<(), Flaw> {
        self.restart_at(block, 0)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self, block: &Block) -> Result<(), Flaw> {
        self.forget();
        self.last_before(block, block.entries_end)?;
        self.shared = None;
        Ok(())
    }

    /// Steps forward to the first entry of `block`, from the end of the previous block.
    pub fn step_into_first(&mut self, block: &Block) -> Result<(), Flaw> {
        self.leave_behind();
        self.read(block, 0)?;
        self.slot.is_none_or(|slot| slot.shared == 0).then_some(()).ok_or(MALFORMED)
    }

    /// Steps backward to the last entry of `block`, from the beginning of the next block.
    pub fn step_into_last(&mut self, block: &Block) -> Result<(), Flaw> {
        self.slot = None;
        self.last_before(block, block.entries_end)
    }

    /// Moves to the first entry at or after a place; no position if there is none.
    pub fn seek(&mut self, block: &Block, key: &[u8], sequence: Sequence) -> Result<(), Flaw> {
        self.forget();
        let (at, shared) = first_not_before(block, key, sequence)?;
        // It shares no more with the previous entry than that one does with the place: otherwise it
        // would be before the place as well.
        self.keys.extend_from_slice(&key[..shared]);
        self.read(block, at)?;
        self.shared = None;
        Ok(())
    }

    /// Moves to the last entry before a place; no position if there is none.
    pub fn seek_before(&mut self, block: &Block, key: &[u8], sequence: Sequence) -> Result<(), Flaw> {
        self.forget();
        let (at, _) = first_not_before(block, key, sequence)?;
        if at > 0 {
            self.last_before(block, at)?;
        }
        self.shared = None;
        Ok(())
    }

    /// Moves to the next entry, or past the end. The cursor must be at an entry.
    #[inline]
    pub fn next(&mut self, block: &Block) -> Result<(), Flaw> {
        let end = self.slot.as_ref().expect("next() on a cursor that stands on an entry").end;
        if self.key_start > 0 || !self.behind.is_empty() {
            self.leave_behind();
        }
        self.read(block, end)
    }

    /// Moves to the previous entry, or past the beginning. The cursor must be at an entry.
    #[inline]
    pub fn prev(&mut self, block: &Block) -> Result<(), Flaw> {
        let slot = self.slot.take().expect("prev() on a cursor that stands on an entry");
        self.left = (slot.value_start, slot.end);
        let key_start = self.key_start;
        if self.take_behind() {
            let (key, left) = self.keys.split_at(key_start);
            // The interval was decoded so that the key left begins with `shared` bytes of this one.
            self.shared =
                Some(slot.shared + more_in_common(&key[self.key_start + slot.shared..], &left[slot.shared..]));
            self.keys.truncate(key_start);
            return Ok(());
        }
        if slot.start == 0 { Ok(()) } else { self.last_before(block, slot.start) }
    }

    /// Forgets the last step, so that [`BlockCursor::shared`] is `None`.
    pub fn leapt(&mut self) {
        self.shared = None;
    }

    /// Removes the position. What the last step left stays.
    pub fn leave(&mut self) {
        self.slot = None;
        self.behind.clear();
    }

    /// Removes the position, and releases the memory of long keys.
    pub fn rest(&mut self) {
        self.leave();
        if self.keys.capacity() > RESTING_KEYS_BYTES_MAX {
            self.keys = Vec::new();
        }
        if size_of_val(self.behind.spare_capacity_mut()) > RESTING_KEYS_BYTES_MAX {
            self.behind = Vec::new();
        }
    }

    /// Removes the position and all keys.
    fn forget(&mut self) {
        self.leave();
        self.keys.clear();
        self.keys.reserve(KEYS_BYTES_MIN);
        self.key_start = 0;
    }

    /// Drops all keys but that of the current or last entry.
    fn leave_behind(&mut self) {
        self.keys.drain(..self.key_start);
        self.key_start = 0;
        self.behind.clear();
    }

    /// Moves to the restart at `offset`.
    fn restart_at(&mut self, block: &Block, offset: usize) -> Result<(), Flaw> {
        self.forget();
        self.read(block, offset)?;
        self.shared = None;
        Ok(())
    }

    /// Reads the entry at `offset`; `keys` contains only the previous key (empty at a restart).
    #[inline]
    fn read(&mut self, block: &Block, offset: usize) -> Result<(), Flaw> {
        match short_slot(block, offset) {
            Some(slot) => self.take(block, slot),
            None => self.read_long(block, offset),
        }
    }

    /// As [`BlockCursor::read`], for entries that [`short_slot`] does not parse, and for the end.
    #[cold]
    fn read_long(&mut self, block: &Block, offset: usize) -> Result<(), Flaw> {
        self.slot = None;
        block.slot(offset)?.map_or(Ok(()), |slot| self.take(block, slot))
    }

    /// Moves to an entry; `keys` contains only the previous key.
    #[inline]
    fn take(&mut self, block: &Block, slot: EntryLayout) -> Result<(), Flaw> {
        self.slot = None;
        if slot.shared > self.keys.len() {
            return Err(MALFORMED);
        }
        let suffix = &block.payload[slot.suffix_start..];
        let suffix_bytes = slot.value_start - slot.suffix_start;
        self.shared = Some(slot.shared + more_in_common(&self.keys[slot.shared..], &suffix[..suffix_bytes]));
        self.keys.truncate(slot.shared);
        append_front(&mut self.keys, suffix, suffix_bytes);
        // For the next step: a scan over many blocks comes back to this one later.
        block.prefetch_from(slot.end);
        self.slot = Some(slot);
        Ok(())
    }

    /// Moves to the entry that ends at `offset`, keeping the earlier ones of its interval for
    /// further steps.
    fn last_before(&mut self, block: &Block, offset: usize) -> Result<(), Flaw> {
        self.leave_behind();
        let left_bytes = self.keys.len();
        let end = self.decode(block, block.restart_before(offset), offset)?;
        if end != offset || !self.take_behind() {
            self.leave();
            return Err(MALFORMED);
        }
        self.shared = Some(common_prefix(&self.keys[..left_bytes], &self.keys[self.key_start..]));
        Ok(())
    }

    /// Decodes entries from the restart at `start` on, as long as they begin before `end`. Returns
    /// where the last of them ends.
    fn decode(&mut self, block: &Block, start: usize, end: usize) -> Result<usize, Flaw> {
        let (mut at, mut before) = (start, self.keys.len()..self.keys.len());
        while at < end
            && let Some(slot) = slot(block, at)?
        {
            if slot.shared > before.len() {
                return Err(MALFORMED);
            }
            let key_start = self.keys.len();
            self.keys.extend_from_within(before.start..before.start + slot.shared);
            append_front(&mut self.keys, &block.payload[slot.suffix_start..], slot.value_start - slot.suffix_start);
            self.behind.push(Behind { key_start, slot });
            (at, before) = (slot.end, key_start..self.keys.len());
        }
        Ok(at)
    }

    /// Moves to the last of the decoded entries, whose key is not yet cut from what follows; false
    /// if there is none.
    #[inline]
    fn take_behind(&mut self) -> bool {
        let Some(Behind { key_start, slot }) = self.behind.pop() else { return false };
        self.key_start = key_start;
        self.slot = Some(slot);
        true
    }
}

/// The offset of the first entry at or after a place, and the number of bytes that its encoding
/// shares with the previous key; the end of the entries and 0 if there is none.
#[inline]
fn first_not_before(block: &Block, key: &[u8], sequence: Sequence) -> Result<(usize, usize), Flaw> {
    let SearchStart { mut at, mut matched } = block.search_start(key, sequence)?;
    while at < block.entries_end {
        let head = block.head(at)?;
        let is_before = match block.compare(&head, key, &mut matched) {
            Ordering::Less => true,
            Ordering::Equal => block.version(at)?.0 > sequence,
            Ordering::Greater => false,
        };
        if !is_before {
            return Ok((at, head.shared));
        }
        at = head.end;
    }
    Ok((at, 0))
}

/// The entry at `start`; `None` at the end.
#[inline]
fn slot(block: &Block, start: usize) -> Result<Option<EntryLayout>, Flaw> {
    match short_slot(block, start) {
        Some(slot) => Ok(Some(slot)),
        None => long_slot(block, start),
    }
}

#[cold]
fn long_slot(block: &Block, start: usize) -> Result<Option<EntryLayout>, Flaw> {
    block.slot(start)
}

/// As [`slot`], for most entries: a put or a tombstone whose lengths have one byte, or two for the
/// value's, and whose sequence has at most seven. `None` for others.
#[inline]
fn short_slot(block: &Block, start: usize) -> Option<EntryLayout> {
    // Restarts follow the entries, so that near the end there usually are enough bytes as well.
    let bytes: &[u8; 16] = block.payload.get(start..)?.first_chunk()?;
    let [shared, suffix_bytes, tag] = [bytes[0], bytes[1], bytes[2]];
    let word = u64::from_le_bytes(*bytes[3..].first_chunk()?);
    // The first byte of the sequence without a high bit is its last one.
    let last = (!word & 0x0080_8080_8080_8080).trailing_zeros() / 8;
    let is_short = (shared | suffix_bytes) < 0x80 && (tag == EntryKind::Put as u8 || tag == EntryKind::Delete as u8);
    if start >= block.entries_end || !is_short || last > 6 {
        return None;
    }
    let word = word & (u64::MAX >> (56 - 8 * last));
    if last > 0 && word >> (8 * last) == 0 {
        return None; // longer than needed
    }
    let sequence = Sequence(close_gaps(word));
    let mut at = 4 + last as usize;
    let mut value_bytes = 0;
    let mut kind = EntryKind::Delete;
    if tag == EntryKind::Put as u8 {
        kind = EntryKind::Put;
        let (low, high) = (bytes[at], bytes[at + 1]);
        if low < 0x80 {
            (value_bytes, at) = (usize::from(low), at + 1);
        } else if (1..0x80).contains(&high) {
            (value_bytes, at) = (usize::from(low & 0x7F) | usize::from(high) << 7, at + 2);
        } else {
            return None;
        }
    }
    let suffix_start = start + at;
    let value_start = suffix_start + usize::from(suffix_bytes);
    let end = value_start + value_bytes;
    if end > block.entries_end {
        return None;
    }
    Some(EntryLayout { start, shared: usize::from(shared), suffix_start, value_start, end, kind, sequence })
}

/// The number of common bytes of two keys beyond those counted already: usually none.
#[inline]
fn more_in_common(a: &[u8], b: &[u8]) -> usize {
    if a.first() == b.first() { common_prefix(a, b) } else { 0 }
}

/// Appends the first `length` of `bytes`, of which there are more as a rule.
#[inline]
pub(crate) fn append_front(keys: &mut Vec<u8>, bytes: &[u8], length: usize) {
    // Most suffixes are short: sixteen bytes, whatever the last of them are, are copied without a
    // length to branch on.
    match bytes.first_chunk::<16>() {
        Some(chunk) if length <= chunk.len() => {
            let end = keys.len() + length;
            keys.extend_from_slice(chunk);
            keys.truncate(end);
        }
        _ => keys.extend_from_slice(&bytes[..length]),
    }
}
