//! Entries in a block: their encoding, search, and iteration in both directions.
//!
//! ```text
//! payload   │ entry │ entry │ … │ restart 0 │ restart 1 │ … │ restarts │
//!           │       in entry order      │ u32 each: offset of an entry    │ u32: how many │
//!
//! entry     │ shared │ suffix bytes │ tag │ sequence │ value bytes │ suffix │ value │
//!           │ varint │ varint       │ u8  │ varint   │ varint      │        │       │
//! ```
//!
//! An entry's key is the first `shared` bytes of the previous key, then `suffix`. At a restart,
//! `shared` is 0, so a search can begin there. The tag is the entry's kind; bit 7 says that the
//! sequence is [`Sequence::MAX`] and left out (fences: see [`crate::table`]). Kinds without a value
//! have no `value bytes`. Every value has one encoding.
//!
//! Data blocks and index blocks both have this form. A search compares with log₂(restarts) entries,
//! then passes through one interval, and allocates nothing; it compares keys without assembling
//! them. In an indexed block its *waypoints* tell where to begin, and few entries are left. A
//! [`BlockCursor`] assembles the keys of the entries it visits.
//!
//! Decoding is total: any bytes give entries or a [`Flaw`]. The checksum of bytes from storage was
//! checked before, so a flaw here means a writer's mistake or malice.
//!
//! Tested against a plain sorted list, and by the fuzz target `block`.

use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use tamarack_env::{ByteBuffer, prefetch};

pub use self::cursor::BlockCursor;
pub(crate) use self::cursor::append_front;
use self::waypoints::{Choice, SearchStart, Waypoint, Waypoints};
use crate::coding::{Reader, put_varint, varint_len};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::prefixes::{common_prefix, first_eight};
pub use crate::stored::{Compression, Flaw};

mod cursor;
mod waypoints;

/// Bit 7 of a tag: the sequence is `Sequence::MAX` and not written.
const TAG_SEQUENCE_MAX: u8 = 0x80;

/// The tag of a fence that is before all versions of its key.
const FENCE_TAG: u8 = EntryKind::Put as u8 | TAG_SEQUENCE_MAX;

pub(crate) const MALFORMED: Flaw = Flaw::Damaged("an entry in a block is malformed");

/// The cache lines of usual entries that a search in an indexed block touches, or a step.
const SEARCHED_LINES: usize = 3;

/// The payload size from which the builder allocates exactly instead of doubling.
const LARGE_BYTES: usize = 64 << 10;

/// A block in memory: its payload, with checked restarts.
#[derive(Debug)]
pub struct Block {
    payload: ByteBuffer,
    /// The offset where the entries end and the restarts begin.
    entries_end: usize,
    restarts: u32,
    /// Where searches may begin; none unless the block is searched often.
    waypoints: OnceLock<Waypoints>,
}

/// The layout of an entry in a block; offsets are into the payload.
#[derive(Clone, Copy, Debug)]
struct EntryLayout {
    start: usize,
    shared: usize,
    suffix_start: usize,
    value_start: usize,
    end: usize,
    kind: EntryKind,
    sequence: Sequence,
}

/// The lengths and offsets of an entry that a search needs to pass it.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The first eight bytes of the suffix as a number with the same order. A shorter suffix is
    /// followed by other bytes.
    first: u64,
    shared: usize,
    suffix_start: usize,
    value_start: usize,
    end: usize,
}

/// An entry of an index block, as it is encoded there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedFence<'a> {
    /// The number of bytes that its key shares with the previous one.
    pub(crate) shared: usize,
    /// The length of what follows them.
    pub(crate) suffix_bytes: usize,
    /// The rest of its key, and what follows it in the block.
    pub(crate) suffix_on: &'a [u8],
    pub(crate) sequence: Sequence,
    /// The encoded handle.
    pub(crate) value: &'a [u8],
    /// Where the next entry begins.
    pub(crate) end: usize,
}

impl<'a> EncodedFence<'a> {
    /// The rest of its key.
    #[inline]
    pub(crate) fn suffix(&self) -> &'a [u8] {
        &self.suffix_on[..self.suffix_bytes]
    }
}

/// The reason why [`Block::versions`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Versions {
    /// The visitor broke.
    Stopped,
    /// A larger key follows: there are no more versions.
    Complete,
    /// The block ended: the next one may contain more.
    BlockEnded,
}

impl Block {
    /// Makes a block of this payload, if its restarts are well formed.
    pub fn decode(payload: impl Into<ByteBuffer>) -> Result<Self, Flaw> {
        let payload = payload.into();
        const UNSOUND: Flaw = Flaw::Damaged("the restarts of a block are malformed");
        let (rest, count) = payload.split_last_chunk::<4>().ok_or(UNSOUND)?;
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries_end = restarts.checked_mul(4).and_then(|bytes| rest.len().checked_sub(bytes)).ok_or(UNSOUND)?;
        let block = Self { entries_end, restarts: restarts as u32, payload, waypoints: OnceLock::new() };
        let ascending = (1..restarts).all(|i| block.restart(i - 1) < block.restart(i));
        if restarts == 0 || block.restart(0) != 0 || !ascending || block.restart(restarts - 1) >= entries_end {
            return Err(UNSOUND);
        }
        Ok(block)
    }

    /// The payload. Values borrowed from entries of this block are parts of it.
    pub fn bytes(&self) -> &[u8] {
        &self.payload
    }

    /// The payload, for reuse of its memory.
    pub fn into_bytes(self) -> ByteBuffer {
        self.payload
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.payload.capacity() + size_of::<Self>() + self.waypoints.get().map_or(0, Waypoints::memory_bytes)
    }

    /// Prepares the block for many searches. Parses all entries once; a block of many entries takes
    /// another byte for each of them.
    #[must_use]
    pub fn indexed(self) -> Self {
        self.index();
        self
    }

    /// As [`Block::indexed`], but only if that takes memory beside the block.
    #[must_use]
    pub fn indexed_if_large(self) -> Self {
        if self.has_many_waypoints() { self.indexed() } else { self }
    }

    /// Prepares a shared block for many searches, unless it was done or would take memory beside
    /// the block: see [`Block::indexed_if_large`].
    pub fn index_in_place(&self) {
        if !self.has_many_waypoints() && !self.is_indexed() {
            self.index();
        }
    }

    fn index(&self) {
        // A search of a block with a flaw will meet it. Another thread may have been faster.
        if let Some(found) = self.find_waypoints() {
            let _ = self.waypoints.set(found);
        }
    }

    /// Returns true if the block is prepared for many searches.
    pub fn is_indexed(&self) -> bool {
        self.waypoints.get().is_some()
    }

    /// Returns true if its waypoints do not fit into the `Block` itself.
    fn has_many_waypoints(&self) -> bool {
        waypoints::are_many(self.restarts as usize, self.entries_end)
    }

    /// The waypoints of a sound block; `None` if entries are malformed.
    fn find_waypoints(&self) -> Option<Waypoints> {
        let first = self.head(0).ok()?;
        let first_key = &self.payload[first.suffix_start..first.value_start];
        // What the last key has in common with the first one is common to all between.
        let (mut at, mut common_bytes) = (self.restart(self.restarts as usize - 1), 0);
        while at < self.entries_end {
            let head = self.head(at).ok()?;
            if head.shared <= common_bytes {
                let suffix = &self.payload[head.suffix_start..head.value_start];
                common_bytes = head.shared + common_prefix(suffix, &first_key[head.shared..]);
            }
            at = head.end;
        }
        let common = first.suffix_start..first.suffix_start + common_bytes;
        let mut choice = Choice::new(&self.payload, common, self.restarts as usize, self.entries_end)?;
        let (mut at, mut prefix) = (0, 0);
        while at < self.entries_end {
            let head = self.head(at).ok()?;
            let suffix = &self.payload[head.suffix_start..head.value_start];
            prefix = waypoints::next_prefix(prefix, head.shared, suffix, head.first, common_bytes)?;
            at = head.end;
            choice.pass(Waypoint { prefix, offset: at as u32 })?;
        }
        Some(choice.finish())
    }

    /// The range of `part`, which must be borrowed from this block, in [`Block::bytes`]: to keep a
    /// value together with the `Arc` of its block instead of copying it.
    ///
    /// # Panics
    /// If `part` is not from this block.
    pub fn range_of(&self, part: &[u8]) -> Range<usize> {
        let start = (part.as_ptr() as usize).wrapping_sub(self.payload.as_ptr() as usize);
        let inside = start <= self.payload.len() && part.len() <= self.payload.len() - start;
        assert!(inside, "{} bytes at {start} are not inside a block of {}", part.len(), self.payload.len());
        start..start + part.len()
    }

    /// Checks that the restarts lead to entries of the block, and that those have whole keys.
    pub fn check_restarts(&self) -> Result<(), Flaw> {
        let (mut at, mut restart) = (0, 0);
        while let Some(slot) = self.slot(at)? {
            if restart < self.restarts as usize && at == self.restart(restart) {
                restart += 1;
                if slot.shared != 0 {
                    return Err(MALFORMED);
                }
            }
            at = slot.end;
        }
        if restart == self.restarts as usize { Ok(()) } else { Err(MALFORMED) }
    }

    /// Calls `visit` with the versions of `key` up to `sequence` in this block, youngest first,
    /// until it breaks.
    pub fn versions<'a>(
        &'a self,
        key: &'a [u8],
        sequence: Sequence,
        visit: &mut dyn FnMut(Entry<'a>) -> ControlFlow<()>,
    ) -> Result<Versions, Flaw> {
        let SearchStart { mut at, mut matched } = self.search_start(key, sequence)?;
        while at < self.entries_end {
            let head = self.head(at)?;
            match self.compare(&head, key, &mut matched) {
                Ordering::Less => {}
                Ordering::Greater => return Ok(Versions::Complete),
                Ordering::Equal => {
                    let (sequence_here, kind) = self.version(at)?;
                    let entry =
                        Entry { key, sequence: sequence_here, kind, value: &self.payload[head.value_start..head.end] };
                    if sequence_here <= sequence && visit(entry).is_break() {
                        return Ok(Versions::Stopped);
                    }
                }
            }
            at = head.end;
        }
        Ok(Versions::BlockEnded)
    }

    /// Asks for the memory of the entries with which a search for `key` begins.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        if let Some(start) = self.waypoints.get().and_then(|waypoints| waypoints.before(&self.payload, key)) {
            self.prefetch_from(start.at);
        }
    }

    /// Asks for the memory of the entries from `offset` on.
    #[inline]
    fn prefetch_from(&self, offset: usize) {
        let first = self.payload.as_ptr().wrapping_add(offset);
        (0..SEARCHED_LINES).for_each(|line| prefetch(first.wrapping_add(64 * line)));
    }

    /// Compares an entry's key with `key`. `matched` is the number of bytes that the previous entry
    /// has in common with `key`; that entry's key was not larger. Updated for this entry.
    ///
    /// An entry that shares more with the previous one than that one with `key` differs from `key`
    /// at the same byte in the same way. Otherwise only the suffix has to be compared.
    #[inline]
    fn compare(&self, head: &Head, key: &[u8], matched: &mut usize) -> Ordering {
        if head.shared > *matched {
            return Ordering::Less;
        }
        let (suffix_bytes, rest_bytes) = (head.value_start - head.suffix_start, key.len() - head.shared);
        // Usually decided by the first eight bytes.
        let sought = first_eight(key, head.shared);
        let same = ((head.first ^ sought).leading_zeros() / 8) as usize;
        if same < suffix_bytes.min(rest_bytes).min(8) {
            *matched = head.shared + same;
            return head.first.cmp(&sought);
        }
        let (suffix, rest) = (&self.payload[head.suffix_start..head.value_start], &key[head.shared..]);
        let common = common_prefix(suffix, rest);
        *matched = head.shared + common;
        match (suffix.get(common), rest.get(common)) {
            (Some(ours), Some(sought)) => ours.cmp(sought),
            (ours, sought) => ours.is_some().cmp(&sought.is_some()),
        }
    }

    /// Finds where a search begins: all entries before that are before the place.
    #[inline]
    fn search_start(&self, key: &[u8], sequence: Sequence) -> Result<SearchStart, Flaw> {
        if let Some(start) = self.waypoints.get().and_then(|waypoints| waypoints.before(&self.payload, key)) {
            return Ok(start);
        }
        self.search_start_in_payload(key, sequence)
    }

    /// As [`Block::search_start`]: the last restart whose entry is before the place.
    #[inline(never)]
    fn search_start_in_payload(&self, key: &[u8], sequence: Sequence) -> Result<SearchStart, Flaw> {
        let (mut low, mut high) = (0, self.restarts as usize);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.is_before(self.restart(middle), key, sequence)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(SearchStart { at: self.restart(low), matched: 0 })
    }

    /// Returns true if the entry at a restart is before the place.
    fn is_before(&self, start: usize, key: &[u8], sequence: Sequence) -> Result<bool, Flaw> {
        let head = self.head(start)?;
        if head.shared != 0 {
            return Err(MALFORMED);
        }
        Ok(match self.payload[head.suffix_start..head.value_start].cmp(key) {
            Ordering::Equal => sequence < self.version(start)?.0,
            order => order.is_lt(),
        })
    }

    /// The last restart whose entry begins before `offset`, which is not 0.
    fn restart_before(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.restarts as usize);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.restart(middle) < offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.restart(low)
    }

    #[inline]
    fn restart(&self, index: usize) -> usize {
        let at = self.entries_end + 4 * index;
        let bytes: [u8; 4] = self.payload[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes) as usize
    }

    /// The entry at `start`; `None` at the end.
    #[inline]
    fn slot(&self, start: usize) -> Result<Option<EntryLayout>, Flaw> {
        if start == self.entries_end {
            return Ok(None);
        }
        self.parse(start).map(Some).ok_or(MALFORMED)
    }

    /// Parses the lengths and offsets of the entry at `start`.
    #[inline]
    fn head(&self, start: usize) -> Result<Head, Flaw> {
        match self.short_head(start) {
            Some(head) if head.end <= self.entries_end => Ok(head),
            _ => self.long_head(start),
        }
    }

    /// As [`Block::head`], for most entries: a put or a tombstone whose lengths have one byte, or
    /// two for the value's. `None` for others.
    #[inline]
    fn short_head(&self, start: usize) -> Option<Head> {
        let bytes: &[u8; 32] = self.payload.get(start..)?.first_chunk()?;
        let [shared, suffix_bytes, tag] = [bytes[0], bytes[1], bytes[2]];
        // The first byte of the sequence without a high bit is its last one.
        let word = u64::from_le_bytes(*bytes[3..].first_chunk()?);
        let sequence_ends = !word & 0x8080_8080_8080_8080;
        let is_usual = tag == EntryKind::Put as u8 || tag == EntryKind::Delete as u8;
        if (shared | suffix_bytes) >= 0x80 || !is_usual || sequence_ends == 0 {
            return None;
        }
        let mut at = 4 + (sequence_ends.trailing_zeros() / 8) as usize;
        let mut value_bytes = 0;
        if tag == EntryKind::Put as u8 {
            let (low, high) = (bytes[at], bytes[at + 1]);
            if low < 0x80 {
                (value_bytes, at) = (usize::from(low), at + 1);
            } else if high < 0x80 {
                (value_bytes, at) = (usize::from(low & 0x7F) | usize::from(high) << 7, at + 2);
            } else {
                return None;
            }
        }
        // At most 13 as yet; the mask tells the compiler.
        let first = u64::from_be_bytes(*bytes[at & 15..].first_chunk()?);
        let (shared, suffix_start) = (usize::from(shared), start + at);
        let value_start = suffix_start + usize::from(suffix_bytes);
        Some(Head { first, shared, suffix_start, value_start, end: value_start + value_bytes })
    }

    /// The sequence and the kind of the entry at `start`, whose other parts were parsed already.
    #[inline]
    fn version(&self, start: usize) -> Result<(Sequence, EntryKind), Flaw> {
        if let Some(&[shared, suffix_bytes, tag, ..]) = self.payload.get(start..self.entries_end)
            && (shared | suffix_bytes) < 0x80
            && let Some(kind) = EntryKind::from_number(tag)
            && let Some(sequence) = Reader::new(&self.payload[start + 3..self.entries_end]).varint()
            && sequence < Sequence::MAX.0
        {
            return Ok((Sequence(sequence), kind));
        }
        let slot = self.parse(start).ok_or(MALFORMED)?;
        Ok((slot.sequence, slot.kind))
    }

    fn head_of(&self, slot: &EntryLayout) -> Head {
        let &EntryLayout { shared, suffix_start, value_start, end, .. } = slot;
        Head { first: first_eight(self.suffix(slot), 0), shared, suffix_start, value_start, end }
    }

    #[cold]
    fn long_head(&self, start: usize) -> Result<Head, Flaw> {
        Ok(self.head_of(&self.parse(start).ok_or(MALFORMED)?))
    }

    #[inline]
    fn parse(&self, start: usize) -> Option<EntryLayout> {
        let mut reader = Reader::new(self.payload.get(start..self.entries_end)?);
        let shared = usize::try_from(reader.varint()?).ok()?;
        let suffix_bytes = usize::try_from(reader.varint()?).ok()?;
        let tag = reader.u8()?;
        let kind = EntryKind::from_number(tag & !TAG_SEQUENCE_MAX)?;
        let sequence = if tag & TAG_SEQUENCE_MAX != 0 {
            Sequence::MAX
        } else {
            // One value has one encoding: the largest is never written out.
            Some(Sequence(reader.varint()?)).filter(|&sequence| sequence < Sequence::MAX)?
        };
        let value_bytes = if kind.has_value() { usize::try_from(reader.varint()?).ok()? } else { 0 };
        let suffix_start = self.entries_end - reader.rest().len();
        let value_start = suffix_start.checked_add(suffix_bytes)?;
        let end = value_start.checked_add(value_bytes).filter(|&end| end <= self.entries_end)?;
        Some(EntryLayout { start, shared, suffix_start, value_start, end, kind, sequence })
    }

    /// The entry at `start`, of an index block; `None` at the end.
    #[inline]
    pub(crate) fn fence(&self, start: usize) -> Result<Option<EncodedFence<'_>>, Flaw> {
        if let Some(&[shared, suffix_bytes, FENCE_TAG, value_bytes]) = self.payload.get(start..start + 4)
            && (shared | suffix_bytes | value_bytes) < 0x80
        {
            let (suffix_start, suffix_bytes) = (start + 4, usize::from(suffix_bytes));
            let value_start = suffix_start + suffix_bytes;
            let end = value_start + usize::from(value_bytes);
            if end <= self.entries_end {
                let (suffix_on, value) = (&self.payload[suffix_start..], &self.payload[value_start..end]);
                let (shared, sequence) = (usize::from(shared), Sequence::MAX);
                return Ok(Some(EncodedFence { shared, suffix_bytes, suffix_on, sequence, value, end }));
            }
        }
        self.long_fence(start)
    }

    /// As [`Block::fence`], for fences between versions of one key, those with long keys, and the
    /// end.
    #[cold]
    #[inline(never)]
    fn long_fence(&self, start: usize) -> Result<Option<EncodedFence<'_>>, Flaw> {
        Ok(self.slot(start)?.map(|slot| EncodedFence {
            shared: slot.shared,
            suffix_bytes: slot.value_start - slot.suffix_start,
            suffix_on: &self.payload[slot.suffix_start..],
            sequence: slot.sequence,
            value: self.value(&slot),
            end: slot.end,
        }))
    }

    fn suffix(&self, slot: &EntryLayout) -> &[u8] {
        &self.payload[slot.suffix_start..slot.value_start]
    }

    fn value(&self, slot: &EntryLayout) -> &[u8] {
        &self.payload[slot.value_start..slot.end]
    }
}

/// Builds the payload of one block after another.
#[derive(Debug)]
pub struct BlockBuilder {
    /// The number of entries from one restart to the next.
    restart_interval: usize,
    payload: ByteBuffer,
    restarts: Vec<u32>,
    since_restart: usize,
    /// The last key added, to the previous block included.
    last_key: Vec<u8>,
}

/// The layout of an entry in the block that a [`BlockBuilder`] builds, to decide whether it fits,
/// and to add it.
#[derive(Clone, Copy, Debug)]
pub struct EntryPlan {
    /// The number of bytes that the key has in common with the last one.
    common: usize,
    /// The number of them that are not written.
    shared: usize,
    restart: bool,
    /// The length that the payload would have.
    pub payload_bytes: usize,
}

impl BlockBuilder {
    /// Makes a builder with a restart every `restart_interval` entries.
    pub fn new(restart_interval: usize) -> Self {
        assert!(restart_interval > 0, "a block needs restarts");
        Self {
            restart_interval,
            payload: ByteBuffer::new(),
            restarts: Vec::new(),
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Returns true if nothing was added since the last block was finished.
    pub fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// The last key added, to a finished block included; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Plans how to add `entry`.
    #[inline]
    pub fn plan(&self, entry: &Entry<'_>) -> EntryPlan {
        self.plan_with(entry, common_prefix(&self.last_key, entry.key))
    }

    fn plan_with(&self, entry: &Entry<'_>, common: usize) -> EntryPlan {
        let restart = self.restarts.is_empty() || self.since_restart == self.restart_interval;
        let shared = if restart { 0 } else { common };
        let suffix_bytes = entry.key.len() - shared;
        let sequence_bytes = if entry.sequence == Sequence::MAX { 0 } else { varint_len(entry.sequence.0) };
        let value_bytes =
            if entry.kind.has_value() { varint_len(entry.value.len() as u64) + entry.value.len() } else { 0 };
        let header = varint_len(shared as u64) + varint_len(suffix_bytes as u64) + 1 + sequence_bytes;
        let restarts = self.restarts.len() + usize::from(restart);
        let payload_bytes = self.payload.len() + header + suffix_bytes + value_bytes + 4 * restarts + 4;
        EntryPlan { common, shared, restart, payload_bytes }
    }

    /// Compares the planned key with the last one.
    #[inline]
    pub fn order(&self, plan: &EntryPlan, key: &[u8]) -> Ordering {
        // Where one of the two ends, there is no byte, which comes before any.
        key.get(plan.common).cmp(&self.last_key.get(plan.common))
    }

    /// Appends an entry, which must follow the last one in entry order (the caller checks).
    pub fn add(&mut self, entry: &Entry<'_>) {
        self.add_as(&self.plan(entry), entry);
    }

    /// Appends an entry, which must follow the last one in entry order (the caller checks), by its
    /// plan. A block may have been finished since.
    pub fn add_as(&mut self, plan: &EntryPlan, entry: &Entry<'_>) {
        let EntryPlan { common, shared, restart, .. } = match self.is_empty() {
            true => self.plan_with(entry, plan.common),
            false => *plan,
        };
        if restart {
            self.restarts.push(u32::try_from(self.payload.len()).expect("blocks are shorter than 4 GiB"));
            self.since_restart = 0;
        }
        self.since_restart += 1;
        if entry.value.len() >= LARGE_BYTES {
            // Doubling would take as much again. The trailer will be added, too.
            let bytes = self.payload.len() + entry.key.len() + entry.value.len() + 4 * self.restarts.len() + 64;
            let more_bytes = bytes - self.payload.len();
            self.payload.reserve_exact(more_bytes);
        }
        let suffix = &entry.key[shared..];
        put_varint(&mut self.payload, shared as u64);
        put_varint(&mut self.payload, suffix.len() as u64);
        if entry.sequence == Sequence::MAX {
            self.payload.push(entry.kind as u8 | TAG_SEQUENCE_MAX);
        } else {
            self.payload.push(entry.kind as u8);
            put_varint(&mut self.payload, entry.sequence.0);
        }
        if entry.kind.has_value() {
            put_varint(&mut self.payload, entry.value.len() as u64);
        }
        self.payload.extend_from_slice(suffix);
        if entry.kind.has_value() {
            self.payload.extend_from_slice(entry.value);
        }
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&entry.key[common..]);
    }

    /// Completes the payload into `payload`, whose memory the next block takes over.
    pub fn finish_into(&mut self, payload: &mut ByteBuffer) {
        for restart in &self.restarts {
            self.payload.extend_from_slice(&restart.to_le_bytes());
        }
        self.payload.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        std::mem::swap(&mut self.payload, payload);
        self.payload.clear();
        self.restarts.clear();
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.payload.capacity() + self.last_key.capacity() + size_of::<u32>() * self.restarts.capacity()
    }

    /// Frees what an empty block takes beyond `kept_bytes`.
    pub fn shrink(&mut self, kept_bytes: usize) {
        self.payload.shrink_to(kept_bytes);
    }
}
