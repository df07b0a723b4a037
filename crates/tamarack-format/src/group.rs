//! The payload of the WAL's records: the entries of a commit group.
//!
//! ```text
//! payload   entry │ entry │ …          of one commit group; the i-th has the sequence first + i
//! entry     kind u8 │ tree varint │ key bytes │ value bytes, unless the kind has none
//! ```
//!
//! Tests: round trips; decoding of arbitrary bytes; stored bytes in `tests/golden/`; the fuzz
//! target `journal`.

use crate::coding::{Reader, put_bytes, put_varint};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::meta::TreeId;
use crate::record::RecordBuffer;

/// Appends an entry as a payload holds it.
pub fn put_entry(out: &mut Vec<u8>, tree: TreeId, kind: EntryKind, key: &[u8], value: &[u8]) {
    if let (0..0x80, 0..0x80) = (tree.0, key.len()) {
        // As below, where each number takes one byte.
        out.extend_from_slice(&[kind as u8, tree.0 as u8, key.len() as u8]);
        out.extend_from_slice(key);
    } else {
        out.push(kind as u8);
        put_varint(out, u64::from(tree.0));
        put_bytes(out, key);
    }
    if kind.has_value() {
        put_bytes(out, value);
    } else {
        assert!(value.is_empty(), "an entry of kind {kind:?} with a value of {} bytes", value.len());
    }
}

/// A commit group as it is put together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    record: RecordBuffer,
    entries: u32,
}

impl Group {
    /// A group of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all entries and keeps at most `kept_bytes` of memory.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.record.clear(kept_bytes);
        self.entries = 0;
    }

    /// Adds one entry.
    pub fn push_entry(&mut self, tree: TreeId, kind: EntryKind, key: &[u8], value: &[u8]) {
        put_entry(self.record.out(), tree, kind, key, value);
        self.entries += 1;
    }

    /// Adds `entries` entries that [`put_entry`] made.
    pub fn push_batch(&mut self, encoded: &[u8], entries: u32) {
        self.record.out().extend_from_slice(encoded);
        self.entries += entries;
    }

    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.record.memory_bytes()
    }

    /// How many entries it has.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The entries, encoded.
    pub fn body(&self) -> &[u8] {
        self.record.payload()
    }

    /// The record that the entries are the payload of, to be appended. After that the group can
    /// only be cleared.
    pub fn record(&mut self) -> &mut RecordBuffer {
        &mut self.record
    }
}

/// Why a payload is not a list of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// It ends in the middle of an entry, or has a length that cannot be.
    Cut,
    /// An entry has a kind that this version does not know.
    UnknownKind(u8),
}

/// The entries of a payload, one after another; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    next: Sequence,
}

impl<'a> Entries<'a> {
    /// The entries of `payload`, numbered from `first`.
    pub fn new(payload: &'a [u8], first: Sequence) -> Self {
        Self { reader: Reader::new(payload), next: first }
    }

    fn entry(&mut self) -> Result<(TreeId, Entry<'a>), Malformed> {
        let number = self.reader.u8().ok_or(Malformed::Cut)?;
        let kind = EntryKind::from_number(number).ok_or(Malformed::UnknownKind(number))?;
        let tree = self.reader.varint().and_then(|tree| u32::try_from(tree).ok()).ok_or(Malformed::Cut)?;
        let key = self.reader.bytes().ok_or(Malformed::Cut)?;
        let value = if kind.has_value() { self.reader.bytes().ok_or(Malformed::Cut)? } else { &[] };
        let sequence = self.next;
        self.next = Sequence(sequence.0 + 1);
        Ok((TreeId(tree), Entry { key, sequence, kind, value }))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(TreeId, Entry<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}
