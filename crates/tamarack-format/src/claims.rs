//! The identity that a file claims, unchecked: for a file without its database, and for files whose
//! checks fail.
//!
//! Checksums are seeded with database and number of a file, so nothing in it can be checked without
//! these. Both are also in the file itself, at offsets that all versions of the format share. A
//! claim is not trusted: it only says which seed to try.
//!
//! Total: any bytes give a claim or none. Tests: here, and `tamarack inspect`, which uses it.

use crate::checksum::FileKind;
use crate::coding::Reader;
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

/// What the journal file that begins with `head`, a WAL segment or a manifest, says it is; `None`
/// if that is too short.
pub fn of_journal(head: &[u8], kind: FileKind) -> Option<Claim> {
    let mut reader = Reader::new(head);
    let magic = reader.take(8)?;
    reader.take(4)?;
    let is_marked = reader.u32()? == kind as u32 && magic == record::MAGIC;
    Some(Claim { database: reader.u64()?, number: reader.u64()?, is_marked })
}

/// What the table that ends with `tail` says it is; `None` if that is too short.
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
    use tamarack_env::ByteBuffer;

    use super::*;
    use crate::meta::{EditNumber, TableId};
    use crate::record::{FileHeader, Position};
    use crate::stored::{BlockEncoder, BlockHandle, Compression};

    /// Each kind of file claims what its writer was given, and a shorter one claims nothing.
    #[test]
    fn files_say_what_they_are() {
        let expected = Some(Claim { database: 5, number: 7, is_marked: true });
        let (base, created_after) = (Position(0), EditNumber(1));
        let journal = |kind| FileHeader { kind, database: 5, number: 7, base, first: 1, created_after }.encode();
        let (wal, manifest) = (journal(FileKind::Wal), journal(FileKind::Manifest));
        let of_wal = |head| of_journal(head, FileKind::Wal);
        let of_manifest = |head| of_journal(head, FileKind::Manifest);
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
        let mut payload = ByteBuffer::from(vec![b'a'; 1000]);
        BlockEncoder::new(table::place(5, TableId(7))).finish_block(&mut payload, Compression::None, 0);
        assert_eq!([compression(&payload), compression(&payload[..8])], ["none", "unknown"]);
    }
}
