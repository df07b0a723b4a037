//! The bytes of a manifest, but for what its edits say, and of `CURRENT`.
//!
//! ```text
//! manifest   header │ record │ record │ …          the first record is the base: an edit that describes everything
//!
//! header     magic 8 │ version 4 │ zero 4 │ number 8 │ database 8 │ checksum 8
//! record     marker 4 │ checksum 8 │ length 4 │ durable 8 │ edit
//! ```
//!
//! A record whose edit is empty is a mark: it only says what was durable.
//!
//! A record's marker and checksum are bound to its file and offset, so a reader that meets damage
//! can search for whole records after it: each says up to which offset the file was durable when it
//! was written. Damage below the largest such mark is a loss; damage above all of them is what a
//! crash leaves of an append that was never acknowledged.
//!
//! Pure: the file is a slice of bytes here.

use crate::checksum::{FileKind, Place};
use crate::coding::Reader;
use crate::version::VERSION;

/// What a manifest begins with.
pub const MAGIC: [u8; 8] = *b"TamaMani";
/// The length of a manifest's header. It, and what the header's fields mean, are the same in all
/// versions.
pub const HEADER_BYTES: u64 = 40;
/// The length of a record's header.
pub const RECORD_HEADER_BYTES: usize = 24;

/// What a manifest's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The manifest's number, as in its name.
    pub number: u64,
    /// The random id of the database.
    pub database: u64,
}

/// Why a header is not one of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// It is damaged: the reason.
    Damaged(&'static str),
    /// It has another format version: which.
    OtherVersion(u32),
}

impl Header {
    /// The header as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.database.to_le_bytes());
        let checksum = header_place(self.number).checksum(0, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The header of the manifest with that number, which the file `bytes` begins with.
    pub fn decode(bytes: &[u8], number: u64) -> Result<Self, HeaderError> {
        let header = bytes.get(..HEADER_BYTES as usize).ok_or(HeaderError::Damaged("the header is cut off"))?;
        let parts = || {
            let mut reader = Reader::new(header);
            let magic = reader.take(8)?;
            let (version, zero) = (reader.u32()?, reader.u32()?);
            Some((magic, version, zero, reader.u64()?, reader.u64()?, reader.u64()?))
        };
        let (magic, version, zero, own_number, database, checksum) =
            parts().ok_or(HeaderError::Damaged("the header is cut off"))?;
        if magic != MAGIC {
            return Err(HeaderError::Damaged("the file does not begin like a manifest"));
        }
        if checksum != header_place(number).checksum(0, &header[..HEADER_BYTES as usize - 8]) {
            return Err(HeaderError::Damaged("the header's checksum is wrong"));
        }
        if version != VERSION && version != 0 {
            return Err(HeaderError::OtherVersion(version));
        }
        if version == 0 || zero != 0 || own_number != number {
            return Err(HeaderError::Damaged("the header contradicts itself"));
        }
        Ok(Self { number, database })
    }

    /// Where the records of this manifest belong.
    pub fn place(&self) -> Place {
        Place::new(self.database, FileKind::Manifest, self.number)
    }
}

/// A whole record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Up to where the file was known to be durable when the record was written.
    pub durable: u64,
    /// The edit's bytes.
    pub edit: &'a [u8],
    /// Where the record ends in the file.
    pub end: u64,
}

impl Record<'_> {
    /// True if it holds no edit.
    pub fn is_mark(&self) -> bool {
        self.edit.is_empty()
    }
}

/// The record of an edit (or, without bytes, a mark) that is to stand at `offset`, in a file that
/// is durable up to `durable`.
///
/// # Panics
/// If the edit has 4 GiB or more; no tree needs a hundredth of that.
pub fn encode_record(place: Place, offset: u64, durable: u64, edit: &[u8]) -> Vec<u8> {
    assert!(durable <= offset, "durable up to {durable}, past the record at {offset}");
    let length = u32::try_from(edit.len()).unwrap_or_else(|_| panic!("an edit of {} bytes", edit.len()));
    let mut covered = Vec::with_capacity(12 + edit.len());
    covered.extend_from_slice(&length.to_le_bytes());
    covered.extend_from_slice(&durable.to_le_bytes());
    covered.extend_from_slice(edit);
    let mut out = Vec::with_capacity(12 + covered.len());
    out.extend_from_slice(&place.marker(offset).to_le_bytes());
    out.extend_from_slice(&place.checksum(offset, &covered).to_le_bytes());
    out.extend_from_slice(&covered);
    out
}

/// The whole record at `offset` of the file, if there is one.
pub fn decode_record(place: Place, file: &[u8], offset: u64) -> Option<Record<'_>> {
    let bytes = file.get(usize::try_from(offset).ok()?..)?;
    let mut reader = Reader::new(bytes);
    if reader.u32()? != place.marker(offset) {
        return None;
    }
    let checksum = reader.u64()?;
    let length = reader.u32()? as usize;
    let durable = reader.u64()?;
    let edit = reader.take(length)?;
    let covered = &bytes[12..RECORD_HEADER_BYTES + length];
    let whole = checksum == place.checksum(offset, covered) && durable <= offset;
    whole.then_some(Record { durable, edit, end: offset + (RECORD_HEADER_BYTES + length) as u64 })
}

/// The largest durable mark of all whole records that begin past `offset`; 0 if there is none.
pub fn durable_mark_after(place: Place, file: &[u8], offset: u64) -> u64 {
    let records = (offset + 1..file.len() as u64).filter_map(|offset| decode_record(place, file, offset));
    records.map(|record| record.durable).max().unwrap_or(0)
}

const CURRENT_WORDS: &str = "tamarack manifest ";

/// The content of `CURRENT` that names a manifest: one line of text.
pub fn encode_current(manifest: u64) -> String {
    let statement = format!("{CURRENT_WORDS}{manifest:010}");
    let checksum = current_place().checksum(0, statement.as_bytes());
    format!("{statement} checksum {checksum:016x}\n")
}

/// The manifest that the content of `CURRENT` names; `None` if it is damaged.
pub fn decode_current(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok()?;
    let number = text.strip_prefix(CURRENT_WORDS)?.split_once(' ')?.0.parse().ok()?;
    // One content per number: comparing all of it covers the checksum as well.
    (encode_current(number) == text).then_some(number)
}

/// A header is read before the database's id is known.
fn header_place(number: u64) -> Place {
    Place::new(0, FileKind::Manifest, number)
}

fn current_place() -> Place {
    Place::new(0, FileKind::Current, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_noticed() {
        let header = Header { number: 7, database: 0x0123_4567_89ab_cdef };
        let bytes = header.encode();
        assert_eq!(bytes.len() as u64, HEADER_BYTES);
        assert_eq!(Header::decode(&bytes, 7), Ok(header));
        assert!(Header::decode(&bytes, 8).is_err(), "the header of another manifest");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Header::decode(&flipped, 7), Err(HeaderError::Damaged(_))), "bit {bit}");
        }
    }

    #[test]
    fn another_version_is_named_and_not_taken_for_damage() {
        let mut bytes = Header { number: 7, database: 1 }.encode();
        for version in [1, 9] {
            bytes[8] = version;
            let checksum = header_place(7).checksum(0, &bytes[..32]);
            bytes[32..].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Header::decode(&bytes, 7), Err(HeaderError::OtherVersion(version.into())));
        }
    }

    #[test]
    fn records_belong_to_their_offset() {
        let place = Header { number: 7, database: 1 }.place();
        let mut file = vec![0; 50];
        file.extend(encode_record(place, 50, 40, b"edit"));
        let record = decode_record(place, &file, 50).expect("it is whole");
        assert_eq!((record.durable, record.edit, record.end), (40, &b"edit"[..], file.len() as u64));
        assert_eq!(durable_mark_after(place, &file, 10), 40);
        assert_eq!(durable_mark_after(place, &file, 50), 0);
        file.insert(0, 0);
        assert_eq!(decode_record(place, &file, 51), None, "a record that moved");
    }

    #[test]
    fn current_is_one_readable_line_and_every_flipped_bit_is_noticed() {
        let line = encode_current(7);
        assert!(line.starts_with("tamarack manifest 0000000007 checksum ") && line.ends_with('\n'), "{line}");
        for number in [0, 7, u64::MAX] {
            assert_eq!(decode_current(encode_current(number).as_bytes()), Some(number));
        }
        for bit in 0..line.len() * 8 {
            let mut flipped = line.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_current(&flipped), None, "bit {bit}");
        }
        for cut in 0..line.len() {
            assert_eq!(decode_current(&line.as_bytes()[..cut]), None);
        }
    }
}
