//! The identity that a file claims, unchecked: for a file without its database, and for files whose
//! checks fail.
//!
//! Checksums are seeded with database and number of a file, so nothing in it can be checked without
//! these. Both are also in the file itself, at offsets that all versions of the format share. A
//! claim is not trusted: it only says which seed to try.
//!
//! Total: any bytes give a claim or none. Tests: here, and `tamarack inspect`, which uses it.

use crate::coding::Reader;
use crate::manifest;
use crate::record;
use crate::stored::TRAILER_BYTES;
use crate::table::{self, FOOTER_BYTES, Footer};

/// The identity that a file claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The id of its database.
    pub database: u64,
    /// Its number, as in its name.
    pub number: u64,
    /// True if it has the magic number of its kind of file.
    pub is_marked: bool,
}

/// The claim of the WAL segment that begins with `head`; `None` if that is too short.
pub fn of_wal(head: &[u8]) -> Option<Claim> {
    let mut reader = Reader::new(head);
    let is_marked = reader.take(8)? == record::MAGIC;
    reader.take(8)?;
    Some(Claim { database: reader.u64()?, number: reader.u64()?, is_marked })
}

/// The claim of the manifest that begins with `head`; `None` if that is too short.
pub fn of_manifest(head: &[u8]) -> Option<Claim> {
    let mut reader = Reader::new(head);
    let is_marked = reader.take(8)? == manifest::MAGIC;
    reader.take(8)?;
    Some(Claim { number: reader.u64()?, database: reader.u64()?, is_marked })
}

/// The claim of the table that ends with `tail`; `None` if that is too short.
pub fn of_table(tail: &[u8]) -> Option<Claim> {
    let footer: &[u8; FOOTER_BYTES] = tail.last_chunk()?;
    let mut reader = Reader::new(&footer[Footer::NUMBERS..]);
    let (database, number) = (reader.u64()?, reader.u64()?);
    // Edit, flags, version, length.
    reader.take(24)?;
    Some(Claim { database, number, is_marked: reader.take(8)? == table::MAGIC })
}

/// The footer at the end of a table file of `file_bytes`, whether its checksum matches or not;
/// `None` if it points where no block can be. The blocks have checksums of their own.
pub fn unchecked_footer(tail: &[u8], file_bytes: u64) -> Option<Footer> {
    let footer: &[u8; FOOTER_BYTES] = tail.last_chunk()?;
    Footer::fields(footer, file_bytes.checked_sub(FOOTER_BYTES as u64)?).ok()
}

/// The compression that a stored block claims, as text.
pub fn compression(stored: &[u8]) -> &'static str {
    let tag = stored.len().checked_sub(TRAILER_BYTES).and_then(|at| stored.get(at));
    tag.map_or("unknown", |&tag| crate::stored::name_of_tag(tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Sequence;
    use crate::meta::{EditNumber, TableId};
    use crate::record::{Position, SegmentHeader};
    use crate::stored::{BlockEncoder, BlockHandle, Compression};

    /// Each kind of file claims what its writer was given, and a shorter one claims nothing.
    #[test]
    fn files_say_what_they_are() {
        let expected = Some(Claim { database: 5, number: 7, is_marked: true });
        let (base, first_sequence, created_after) = (Position(0), Sequence(1), EditNumber(1));
        let wal = SegmentHeader { number: 7, base, first_sequence, created_after }.encode(5);
        let manifest = manifest::Header { number: 7, database: 5 }.encode();
        let handle = BlockHandle { offset: 0, bytes: 20, checksum: 3 };
        let footer = Footer {
            top_index: handle,
            properties: handle,
            filter: Some(handle),
            has_units: false,
            digests: None,
            database: 5,
            table: TableId(7),
            created_after,
        };
        let table = footer.encode(20);
        assert_eq!([of_wal(&wal), of_manifest(&manifest), of_table(&table)], [expected; 3]);
        assert_eq!(
            [of_wal(&manifest), of_manifest(&wal)].map(|claim| claim.map(|claim| claim.is_marked)),
            [Some(false); 2]
        );
        assert_eq!([of_wal(&wal[..31]), of_manifest(&manifest[..31]), of_table(&table[1..])], [None; 3]);

        let mut damaged = table;
        damaged[170] ^= 1;
        assert_eq!(unchecked_footer(&damaged, 196), Some(footer));
        assert_eq!(unchecked_footer(&damaged, 195), None, "it points into itself");
        assert_eq!(unchecked_footer(&damaged, 100), None, "it begins before the file");
    }

    #[test]
    fn blocks_say_how_they_are_compressed() {
        let mut payload = vec![b'a'; 1000];
        BlockEncoder::new(table::place(5, TableId(7))).finish_block(&mut payload, Compression::None, 0);
        assert_eq!([compression(&payload), compression(&payload[..8])], ["none", "unknown"]);
    }
}
