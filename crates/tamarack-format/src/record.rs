//! The framing of a journal's files, which are the WAL's segments and the manifests: file headers
//! and records. What a record's payload means is known elsewhere: [`group`](super::group) for the
//! WAL, [`edit`](super::edit) for manifests.
//!
//! ```text
//! file      header (64 bytes) │ record │ record │ … │ perhaps zeros: reserved space
//! record    head (40 bytes) │ payload │ 0 to 7 zeros: records begin at multiples of 8
//! ```
//!
//! A record's head holds a marker that only its own offset of its own file has, so records can be
//! found again behind damage by looking at every eighth byte. Its checksum is seeded with file and
//! offset as well: what a device returns from elsewhere is not taken for a record.
//!
//! The items of a journal (entries of the WAL, edits of a manifest) are numbered without a gap. A
//! record holds some of them, or none: then it is a **mark**, which says only what is durable.
//!
//! Pure: a file is a slice of bytes here. Tests: below; stored bytes in `tests/golden/`; the fuzz
//! target `journal`.

use tamarack_env::ByteBuffer;

use crate::checksum::{FileKind, Place};
use crate::coding::Reader;
use crate::entry::Sequence;
use crate::meta::EditNumber;
use crate::version::VERSION;

/// A place in a journal: bytes since it began, over all of its files. A file's header says where it
/// begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position(pub u64);

/// The bytes of a file's header. All versions from 2 on keep them, and their checksum, so that a
/// newer version is told from damage.
pub const FILE_HEADER_BYTES: u64 = 64;

/// The bytes of a record's head. A mark has no others.
pub const RECORD_HEAD_BYTES: usize = 40;

/// Records begin at multiples of this many bytes.
pub const RECORD_ALIGNMENT: u64 = 8;

/// The first bytes of every journal file.
pub(super) const MAGIC: [u8; 8] = *b"tmrk-jrn";

/// The first bytes of WAL segments and manifests of version 1.
const MAGICS_OF_VERSION_1: [[u8; 8]; 2] = [*b"tmrk-log", *b"TamaMani"];

/// What a journal file says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// A WAL segment or a manifest.
    pub kind: FileKind,
    /// The random id of the database.
    pub database: u64,
    /// Its number, as in its name.
    pub number: u64,
    /// Where in the journal it begins.
    pub base: Position,
    /// The number of its first item.
    pub first: u64,
    /// The last durable edit of the database when it was made.
    pub created_after: EditNumber,
}

/// Why bytes are not a journal file's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFlaw {
    /// They are damaged, were never written, or belong to another file.
    Damaged,
    /// Another version of the format wrote them.
    OtherVersion(u32),
}

impl FileHeader {
    /// The header as bytes.
    ///
    /// | offset | bytes | |
    /// |---|---|---|
    /// | 0 | 8 | magic |
    /// | 8 | 4 | format version |
    /// | 12 | 4 | kind of file |
    /// | 16 | 8 | database |
    /// | 24 | 8 | number |
    /// | 32 | 8 | base position |
    /// | 40 | 8 | number of the first item |
    /// | 48 | 8 | last durable edit |
    /// | 56 | 8 | checksum of the bytes before |
    pub fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        let fields = [self.database, self.number, self.base.0, self.first, self.created_after.0];
        for (field, out) in fields.iter().zip(bytes[16..56].chunks_exact_mut(8)) {
            out.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = header_place(self.kind, self.number).checksum(0, &bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at the front of `file`, which is the file of that kind with that number. Whoever
    /// knows the database compares it.
    pub fn decode(file: &[u8], kind: FileKind, number: u64) -> Result<Self, HeaderFlaw> {
        Self::parse(file, kind, number).unwrap_or(Err(HeaderFlaw::Damaged))
    }

    fn parse(file: &[u8], kind: FileKind, number: u64) -> Option<Result<Self, HeaderFlaw>> {
        if file.first_chunk().is_some_and(|magic| MAGICS_OF_VERSION_1.contains(magic)) {
            return Some(Err(HeaderFlaw::OtherVersion(1)));
        }
        let bytes = file.get(..FILE_HEADER_BYTES as usize)?;
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return None;
        }
        let (version, stored_kind) = (reader.u32()?, reader.u32()?);
        let header = Self {
            kind,
            database: reader.u64()?,
            number: reader.u64()?,
            base: Position(reader.u64()?),
            first: reader.u64()?,
            created_after: EditNumber(reader.u64()?),
        };
        let whole = reader.u64()? == header_place(kind, number).checksum(0, &bytes[..56]);
        if whole && version != VERSION && version != 0 {
            return Some(Err(HeaderFlaw::OtherVersion(version)));
        }
        let fits = version == VERSION && stored_kind == kind as u32 && header.number == number;
        // Nobody writes others; whoever computes with them need not fear to overflow.
        let sound = (1..=NUMBER_MAX).contains(&header.first) && header.base.0 <= u64::MAX / 2;
        (whole && fits && sound).then_some(Ok(header))
    }

    /// The place that the checksums of the file's records are bound to.
    pub fn place(&self) -> Place {
        Place::new(self.database, self.kind, self.number)
    }
}

/// A header is read before the database's id is known.
fn header_place(kind: FileKind, number: u64) -> Place {
    Place::new(0, kind, number)
}

/// No item has a larger number.
const NUMBER_MAX: u64 = Sequence::MAX.0;

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordKind {
    /// Which kind of record it is.
    pub number: u16,
    /// How its payload is encoded.
    pub version: u16,
}

impl RecordKind {
    /// No item: a mark.
    pub const MARK: Self = Self { number: 0, version: 1 };
    /// Items: entries of a commit group, or an edit.
    pub const ITEMS: Self = Self { number: 1, version: 1 };
}

/// What a record says about its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// What it holds. A newer version may know more kinds; their records are told from damage all
    /// the same.
    pub kind: RecordKind,
    /// The bytes of the payload.
    pub payload_bytes: u32,
    /// The items in the payload; 0 in a mark.
    pub items: u32,
    /// The number of the first of them; in a mark that of the next.
    pub first: u64,
    /// Up to where the journal was known to be durable when the record was written.
    pub durable: Position,
}

impl RecordHead {
    /// The head of a mark: what is before `durable` is, and the next item is `next`.
    pub fn of_mark(next: u64, durable: Position) -> Self {
        Self { kind: RecordKind::MARK, payload_bytes: 0, items: 0, first: next, durable }
    }

    /// True if it holds nothing.
    pub fn is_mark(&self) -> bool {
        self.kind == RecordKind::MARK
    }

    /// True if this program knows what it holds.
    pub fn is_known(&self) -> bool {
        self.is_mark() || self.kind == RecordKind::ITEMS
    }

    /// The bytes from the record's begin to the next record's.
    pub fn stride(&self) -> u64 {
        (RECORD_HEAD_BYTES as u64 + u64::from(self.payload_bytes)).next_multiple_of(RECORD_ALIGNMENT)
    }

    /// The number of the item after its last one.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.items)
    }

    fn is_sound(&self) -> bool {
        let is_numbered = (1..=NUMBER_MAX).contains(&self.first) && self.next() <= NUMBER_MAX;
        let fits_its_kind = match self.kind {
            RecordKind::MARK => self.items == 0 && self.payload_bytes == 0,
            RecordKind::ITEMS => self.items > 0,
            _ => true,
        };
        is_numbered && fits_its_kind
    }
}

/// The checksum covers the record from here on.
const CHECKSUM_END: usize = 8;

/// The record that begins at `offset` of `file`, if a whole one does.
pub fn record_at(file: &[u8], offset: u64, place: Place) -> Option<(RecordHead, &[u8])> {
    let bytes = file.get(usize::try_from(offset).ok()?..)?;
    let mut reader = Reader::new(bytes);
    let checksum = reader.u64()?;
    if reader.u32()? != place.marker(offset) {
        return None;
    }
    let kind = reader.u32()?;
    let head = RecordHead {
        kind: RecordKind { number: kind as u16, version: (kind >> 16) as u16 },
        payload_bytes: reader.u32()?,
        items: reader.u32()?,
        first: reader.u64()?,
        durable: Position(reader.u64()?),
    };
    let payload = reader.take(head.payload_bytes as usize)?;
    let covered = &bytes[CHECKSUM_END..RECORD_HEAD_BYTES + payload.len()];
    (place.checksum(offset, covered) == checksum && head.is_sound()).then_some((head, payload))
}

/// A record as it is put together: the payload first, the head last, in place, so that appending it
/// copies nothing.
#[derive(Clone, Debug)]
pub struct RecordBuffer {
    /// Space for the head, then the payload.
    bytes: ByteBuffer,
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordBuffer {
    /// A record without payload.
    pub fn new() -> Self {
        Self { bytes: ByteBuffer::zeroed(RECORD_HEAD_BYTES) }
    }

    /// A record with that payload.
    pub fn with_payload(payload: &[u8]) -> Self {
        let mut record = Self::new();
        record.bytes.extend_from_slice(payload);
        record
    }

    /// Removes the payload and keeps at most `kept_bytes` of memory.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.bytes.truncate(RECORD_HEAD_BYTES);
        self.bytes.shrink_to(kept_bytes);
    }

    /// Where to append the payload.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[RECORD_HEAD_BYTES..]
    }

    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The record of `items` items, numbered from `first`, or a mark if there are none, to be
    /// written at `offset` of the file with that place; `None` if the payload is longer than a
    /// record can be. Pads the payload in place: after this the record can only be cleared.
    pub fn finish(&mut self, place: Place, offset: u64, items: u32, first: u64, durable: Position) -> Option<&[u8]> {
        let kind = if items > 0 { RecordKind::ITEMS } else { RecordKind::MARK };
        let payload_bytes = u32::try_from(self.payload().len()).ok()?;
        let head = RecordHead { kind, payload_bytes, items, first, durable };
        assert!(head.is_sound(), "a record that nobody would read: {head:?}");
        self.bytes[8..12].copy_from_slice(&place.marker(offset).to_le_bytes());
        self.bytes[12..14].copy_from_slice(&kind.number.to_le_bytes());
        self.bytes[14..16].copy_from_slice(&kind.version.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&payload_bytes.to_le_bytes());
        self.bytes[20..24].copy_from_slice(&items.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&first.to_le_bytes());
        self.bytes[32..40].copy_from_slice(&durable.0.to_le_bytes());
        let checksum = place.checksum(offset, &self.bytes[CHECKSUM_END..]);
        self.bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        // Padding is written with the record, so that it never holds what stood there before.
        let stride = head.stride() as usize;
        let padding = stride - self.bytes.len();
        self.bytes.reserve_exact(padding);
        self.bytes.resize(stride, 0);
        Some(&self.bytes)
    }
}

/// Makes the header and the records of an altered file fit their checksums again, for fuzzing:
/// behind a checksum no fuzzer would ever find its way. A record whose marker does not fit stays as
/// it is.
pub fn repair_checksums(file: &mut [u8], kind: FileKind, database: u64, number: u64) {
    let place = Place::new(database, kind, number);
    if let Some(header) = file.get_mut(..FILE_HEADER_BYTES as usize) {
        header[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
        header[16..24].copy_from_slice(&database.to_le_bytes());
        header[24..32].copy_from_slice(&number.to_le_bytes());
        let checksum = header_place(kind, number).checksum(0, &header[..56]);
        header[56..].copy_from_slice(&checksum.to_le_bytes());
    }
    let mut offset = FILE_HEADER_BYTES;
    while let Some(record) = file.get_mut(offset as usize..).filter(|rest| rest.len() >= RECORD_HEAD_BYTES) {
        let payload_bytes = u32::from_le_bytes(record[16..20].try_into().expect("four bytes"));
        let end = RECORD_HEAD_BYTES + payload_bytes as usize;
        if record.len() < end || record[8..12] != place.marker(offset).to_le_bytes() {
            offset += RECORD_ALIGNMENT;
            continue;
        }
        let checksum = place.checksum(offset, &record[CHECKSUM_END..end]);
        record[..8].copy_from_slice(&checksum.to_le_bytes());
        offset += (end as u64).next_multiple_of(RECORD_ALIGNMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: FileKind) -> FileHeader {
        let (database, base) = (0x0123_4567_89ab_cdef, Position(4096));
        FileHeader { kind, database, number: 7, base, first: 12, created_after: EditNumber(3) }
    }

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed() {
        for (kind, other) in [(FileKind::Wal, FileKind::Manifest), (FileKind::Manifest, FileKind::Wal)] {
            let bytes = header(kind).encode();
            assert_eq!(FileHeader::decode(&bytes, kind, 7), Ok(header(kind)));
            assert!(FileHeader::decode(&bytes, kind, 8).is_err(), "the header of another file");
            assert!(FileHeader::decode(&bytes, other, 7).is_err(), "the header of a file of another kind");
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(FileHeader::decode(&flipped, kind, 7), Err(HeaderFlaw::Damaged), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert_eq!(FileHeader::decode(&bytes[..cut], kind, 7), Err(HeaderFlaw::Damaged), "cut at {cut}");
            }
        }
    }

    #[test]
    fn another_version_is_named_and_not_taken_for_damage() {
        let mut bytes = header(FileKind::Wal).encode();
        bytes[8] = 9;
        let checksum = header_place(FileKind::Wal, 7).checksum(0, &bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(FileHeader::decode(&bytes, FileKind::Wal, 7), Err(HeaderFlaw::OtherVersion(9)));
        for (kind, magic) in [(FileKind::Wal, b"tmrk-log"), (FileKind::Manifest, b"TamaMani")] {
            assert_eq!(FileHeader::decode(magic, kind, 7), Err(HeaderFlaw::OtherVersion(1)));
        }
    }

    #[test]
    fn records_belong_to_their_offset_and_every_flipped_bit_is_noticed() {
        let place = header(FileKind::Manifest).place();
        let mut file = vec![0; 56];
        let mut record = RecordBuffer::with_payload(b"payload");
        file.extend(record.finish(place, 56, 2, 12, Position(40)).expect("it is short"));
        let (head, payload) = record_at(&file, 56, place).expect("it is whole");
        assert_eq!((head.durable, head.first, head.next(), payload), (Position(40), 12, 14, &b"payload"[..]));
        assert_eq!((56 + head.stride(), head.is_known()), (file.len() as u64, true));
        for bit in 56 * 8..(56 + RECORD_HEAD_BYTES + payload.len()) * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(record_at(&flipped, 56, place), None, "bit {bit}");
        }
        file.splice(0..0, [0; 8]);
        assert_eq!(record_at(&file, 64, place), None, "a record that moved");
    }

    #[test]
    fn a_mark_holds_nothing_and_a_kind_from_the_future_is_whole() {
        let place = header(FileKind::Wal).place();
        let mut mark = RecordBuffer::new();
        let mut bytes = mark.finish(place, 0, 0, 12, Position(64)).expect("it is short").to_vec();
        assert_eq!(record_at(&bytes, 0, place), Some((RecordHead::of_mark(12, Position(64)), &[][..])));
        (bytes[12], bytes[20]) = (9, 1);
        let checksum = place.checksum(0, &bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        let (head, _) = record_at(&bytes, 0, place).expect("it is whole");
        assert!(!head.is_known() && !head.is_mark(), "{head:?}");
    }
}
