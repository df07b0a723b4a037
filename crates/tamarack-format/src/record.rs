//! The bytes of the write-ahead log: segment headers, records, and the entries in them.
//!
//! ```text
//! segment   header (64 bytes) │ record │ record │ … │ zeros (reserved space) or the end of the file
//! record    head (40 bytes) │ body │ 0 to 7 zeros, so that the next record begins at a multiple of 8
//! body      entry │ entry │ …          of one commit group; the i-th has the sequence first + i
//! entry     kind u8 │ tree varint │ key bytes │ value bytes, unless the kind has none
//! ```
//!
//! A record begins with a marker that only its own offset of its own segment has, so that records
//! can be found again behind damage by looking at every eighth byte. Its checksum is seeded with
//! segment and offset as well: what a device returns from elsewhere is not taken for a record.
//!
//! Tests: round trips; decoding of arbitrary bytes; stored bytes in `tests/golden/wal.hex`; the
//! fuzz target `wal`.

use crate::checksum::{FileKind, Place};
use crate::coding::{Reader, put_bytes, put_varint};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::meta::{EditNumber, TreeId};
use crate::version::VERSION;

/// A place in the log: bytes since it began, over all segments. A segment's header says where it
/// begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position(pub u64);

/// The bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: u64 = 64;

/// The bytes of a record's head.
pub const RECORD_HEAD_BYTES: usize = 40;

/// Records begin at multiples of this many bytes.
pub const RECORD_ALIGNMENT: u64 = 8;

/// The first bytes of every segment.
pub(super) const MAGIC: [u8; 8] = *b"tmrk-log";

/// What a segment says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// Its number, as in its name.
    pub number: u64,
    /// Where in the log it begins.
    pub base: Position,
    /// The sequence of its first entry.
    pub first_sequence: Sequence,
    /// The last durable manifest edit when it was made.
    pub created_after: EditNumber,
}

/// Why bytes are not a segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFlaw {
    /// They are damaged, were never written, or belong to another file or database.
    Damaged,
    /// They have another format version: which.
    OtherVersion(u32),
}

/// The place that a segment's checksums are bound to.
pub fn segment_place(database: u64, number: u64) -> Place {
    Place::new(database, FileKind::Wal, number)
}

impl SegmentHeader {
    /// The header as bytes.
    ///
    /// | offset | bytes | |
    /// |---|---|---|
    /// | 0 | 8 | magic |
    /// | 8 | 4 | format version |
    /// | 12 | 4 | zero |
    /// | 16 | 8 | database |
    /// | 24 | 8 | segment number |
    /// | 32 | 8 | base position |
    /// | 40 | 8 | first sequence |
    /// | 48 | 8 | last durable edit |
    /// | 56 | 8 | checksum of the bytes before |
    pub fn encode(&self, database: u64) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [database, self.number, self.base.0, self.first_sequence.0, self.created_after.0];
        for (field, out) in fields.iter().zip(bytes[16..56].chunks_exact_mut(8)) {
            out.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = segment_place(database, self.number).checksum(0, &bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at the front of `segment`, which is the segment with that number of that
    /// database.
    pub fn decode(segment: &[u8], database: u64, number: u64) -> Result<Self, HeaderFlaw> {
        Self::parse(segment, database, number).unwrap_or(Err(HeaderFlaw::Damaged))
    }

    fn parse(segment: &[u8], database: u64, number: u64) -> Option<Result<Self, HeaderFlaw>> {
        let bytes = segment.get(..SEGMENT_HEADER_BYTES as usize)?;
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let version = reader.u32()?;
        let zero = reader.u32()?;
        let stored_database = reader.u64()?;
        let header = Self {
            number: reader.u64()?,
            base: Position(reader.u64()?),
            first_sequence: Sequence(reader.u64()?),
            created_after: EditNumber(reader.u64()?),
        };
        // All versions of the format keep length and checksum of this header, so that a newer version is
        // told from damage.
        let whole = reader.u64()? == segment_place(database, number).checksum(0, &bytes[..56]);
        if whole && version != VERSION && version != 0 {
            return Some(Err(HeaderFlaw::OtherVersion(version)));
        }
        let fits = version == VERSION && zero == 0 && stored_database == database && header.number == number;
        // Nobody writes others; whoever computes with them need not fear to overflow.
        let sound = (1..=Sequence::MAX.0).contains(&header.first_sequence.0) && header.base.0 <= u64::MAX / 2;
        (whole && fits && sound).then_some(Ok(header))
    }
}

/// What a record says about its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// The bytes of the body.
    pub body_bytes: u32,
    /// The entries in the body.
    pub entries: u32,
    /// The sequence of the first of them.
    pub first: Sequence,
    /// Up to where the log was known to be durable when the record was written.
    pub durable: Position,
}

impl RecordHead {
    /// The bytes from the record's begin to the next record's.
    pub fn stride(&self) -> u64 {
        (RECORD_HEAD_BYTES as u64 + u64::from(self.body_bytes)).next_multiple_of(RECORD_ALIGNMENT)
    }

    /// The sequence of the last entry.
    pub fn last(&self) -> Sequence {
        Sequence(self.first.0 + u64::from(self.entries) - 1)
    }
}

/// The record that begins at `offset` of `segment`, if a whole one does.
pub fn record_at(segment: &[u8], offset: u64, place: Place) -> Option<(RecordHead, &[u8])> {
    let start = usize::try_from(offset).ok()?;
    let bytes = segment.get(start..)?;
    let mut reader = Reader::new(bytes);
    if reader.u32()? != place.marker(offset) || reader.u32()? != 0 {
        return None;
    }
    let checksum = reader.u64()?;
    let head = RecordHead {
        body_bytes: reader.u32()?,
        entries: reader.u32()?,
        first: Sequence(reader.u64()?),
        durable: Position(reader.u64()?),
    };
    let body = reader.take(head.body_bytes as usize)?;
    let covered = &bytes[CHECKSUM_END..RECORD_HEAD_BYTES + body.len()];
    let past_last = head.first.0.checked_add(u64::from(head.entries));
    let sound = head.entries > 0 && head.first.0 > 0 && past_last.is_some_and(|past| past <= Sequence::MAX.0);
    (place.checksum(offset, covered) == checksum && sound).then_some((head, body))
}

/// The checksum covers the record from here on.
const CHECKSUM_END: usize = 16;

/// Makes the header and the records of an altered segment fit their checksums again, for fuzzing:
/// behind a checksum no fuzzer would ever find its way. A record whose marker does not fit stays as
/// it is.
pub fn reseal(segment: &mut [u8], database: u64, number: u64) {
    let place = segment_place(database, number);
    if let Some(header) = segment.get_mut(..SEGMENT_HEADER_BYTES as usize) {
        header[16..24].copy_from_slice(&database.to_le_bytes());
        header[24..32].copy_from_slice(&number.to_le_bytes());
        let checksum = place.checksum(0, &header[..56]);
        header[56..].copy_from_slice(&checksum.to_le_bytes());
    }
    let mut offset = SEGMENT_HEADER_BYTES;
    while let Some(record) = segment.get_mut(offset as usize..).filter(|rest| rest.len() >= RECORD_HEAD_BYTES) {
        let body_bytes = u32::from_le_bytes(record[16..20].try_into().expect("four bytes"));
        let end = RECORD_HEAD_BYTES + body_bytes as usize;
        if record.len() < end || record[..4] != place.marker(offset).to_le_bytes() {
            offset += RECORD_ALIGNMENT;
            continue;
        }
        let checksum = place.checksum(offset, &record[CHECKSUM_END..end]);
        record[8..16].copy_from_slice(&checksum.to_le_bytes());
        offset += (end as u64).next_multiple_of(RECORD_ALIGNMENT);
    }
}

/// Appends an entry as a body holds it.
pub fn put_entry(out: &mut Vec<u8>, tree: TreeId, kind: EntryKind, key: &[u8], value: &[u8]) {
    out.push(kind as u8);
    put_varint(out, u64::from(tree.0));
    put_bytes(out, key);
    if kind.has_value() {
        put_bytes(out, value);
    } else {
        assert!(value.is_empty(), "an entry of kind {kind:?} with a value of {} bytes", value.len());
    }
}

/// A commit group as it is put together: a record whose head is filled in last, in place, so that
/// appending it copies nothing.
#[derive(Clone, Debug)]
pub struct Group {
    /// Room for the head, then the body.
    bytes: Vec<u8>,
    entries: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

impl Group {
    /// A group of nothing.
    pub fn new() -> Self {
        Self { bytes: vec![0; RECORD_HEAD_BYTES], entries: 0 }
    }

    /// Removes all entries and keeps at most `kept_bytes` of memory.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.bytes.truncate(RECORD_HEAD_BYTES);
        self.bytes.shrink_to(kept_bytes);
        self.entries = 0;
    }

    /// Adds one entry.
    pub fn push_entry(&mut self, tree: TreeId, kind: EntryKind, key: &[u8], value: &[u8]) {
        put_entry(&mut self.bytes, tree, kind, key, value);
        self.entries += 1;
    }

    /// Adds `entries` entries that [`put_entry`] made.
    pub fn push_batch(&mut self, body: &[u8], entries: u32) {
        self.bytes.extend_from_slice(body);
        self.entries += entries;
    }

    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many entries it has.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The entries, encoded.
    pub fn body(&self) -> &[u8] {
        &self.bytes[RECORD_HEAD_BYTES..]
    }

    /// The record to be written at `offset` of the segment with that place; `None` if the body is
    /// longer than a record can be. Pads the body in place: after this the group can only be
    /// cleared.
    pub fn seal(&mut self, place: Place, offset: u64, first: Sequence, durable: Position) -> Option<&[u8]> {
        assert!(self.entries > 0, "a group without entries is not logged");
        let body_bytes = u32::try_from(self.body().len()).ok()?;
        let head = RecordHead { body_bytes, entries: self.entries, first, durable };
        self.bytes[16..20].copy_from_slice(&head.body_bytes.to_le_bytes());
        self.bytes[20..24].copy_from_slice(&head.entries.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&head.first.0.to_le_bytes());
        self.bytes[32..40].copy_from_slice(&head.durable.0.to_le_bytes());
        let checksum = place.checksum(offset, &self.bytes[CHECKSUM_END..]);
        self.bytes[..4].copy_from_slice(&place.marker(offset).to_le_bytes());
        self.bytes[8..16].copy_from_slice(&checksum.to_le_bytes());
        // Padding is written with the record, so that it never holds what stood there before.
        let stride = head.stride() as usize;
        self.bytes.reserve_exact(stride - self.bytes.len());
        self.bytes.resize(stride, 0);
        Some(&self.bytes)
    }
}

/// Why a body is not a list of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// It ends in the middle of an entry, or has a length that cannot be.
    Cut,
    /// An entry has a kind that this version does not know.
    UnknownKind(u8),
}

/// The entries of a body, one after another; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    next: Sequence,
}

impl<'a> Entries<'a> {
    /// The entries of `body`, numbered from `first`.
    pub fn new(body: &'a [u8], first: Sequence) -> Self {
        Self { reader: Reader::new(body), next: first }
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
