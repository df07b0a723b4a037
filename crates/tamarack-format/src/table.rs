//! The parts of a table file: fences, digests, filter, properties, footer.
//!
//! ```text
//! │ data block │ … │ lower index block │ … │ digests │ filter │ properties │ top index │ footer │
//! 0                                                                                     file_bytes
//! ```
//!
//! Everything but the footer is a stored block ([`crate::stored`]), one directly after another.
//! Index blocks have the form of data blocks ([`crate::block`]); their entries are **fences**, each
//! for one block of the level below:
//!
//! * The place of a fence, (key, sequence) in entry order, is after the last entry of the previous
//!   block and at or before the first entry of its own block. Where the two keys differ it is the
//!   shortest such key, with the sequence `MAX` (left out); within the versions of one key it is
//!   exactly the first entry's. The first fence is the empty key.
//! * Its kind is `Put`, its value the block's [`BlockHandle`].
//!
//! So for any place, the last fence at or before it names the only block that can contain an entry
//! with that place.
//!
//! The footer has a fixed length and is at the end, so that the file's length is enough to find it.
//! Its last 24 bytes keep their meaning in all versions of the format, so that a newer version can
//! be distinguished from damage:
//!
//! ```text
//!   0  24  top index       offset u64, bytes u64, checksum u64
//!  24  24  properties      likewise
//!  48  24  filter          likewise; zero: none. Its payload is a filter as `tamarack_filter`
//!                          encodes it, or the handles of an elastic one's units
//!  72  24  digests         likewise; zero: none. Its payload is a set of digests as
//!                          `tamarack_filter` encodes it
//!  96  24  range deletes   likewise; zero: none. Reserved
//! 120   8  database        random id
//! 128   8  table           number, as in the file's name
//! 136   8  created after   number of the last durable edit at creation
//! 144   8  flags           bit 0: the filter is elastic, and its payload lists its units
//! 152   4  version         of the format
//! 156   4  footer bytes    176
//! 160   8  magic           "tamarTBL"
//! 168   8  checksum        of the footer up to here: the root checksum, also in the manifest
//! ```

use crate::checksum::{FileKind, Place};
use crate::coding::Reader;
use crate::entry::{Entry, EntryKind, Sequence};
use crate::meta::{EditNumber, TableId, TableMeta};
use crate::prefixes::common_prefix;
pub use crate::properties::{IngestPart, Properties};
use crate::stored::{BlockHandle, Flaw};
use crate::version::VERSION;

/// The length of the footer.
pub const FOOTER_BYTES: usize = 176;
/// The length of the part that all versions share.
const TAIL_BYTES: usize = 24;
/// The length of footers in format version 1, whose tables had versions from 1 to 4 of their own.
const FOOTER_BYTES_V1: usize = 168;
/// The flag of a table with an elastic filter. Flags in the low half are required of a reader,
/// those in the high half are optional.
const FLAG_UNITS: u64 = 1;
/// The required flags.
const FLAGS_REQUIRED: u64 = u32::MAX as u64;
pub(super) const MAGIC: [u8; 8] = *b"tamarTBL";
/// The distance of the magic's beginning from the end of the footer.
const MAGIC_END: usize = 16;

/// The footer of a table file, from which all else is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    /// The index of the lower index blocks.
    pub top_index: BlockHandle,
    /// The encoded [`Properties`].
    pub properties: BlockHandle,
    /// The encoded filter, if any, or its [`Units`].
    pub filter: Option<BlockHandle>,
    /// True if the filter is elastic, and therefore in units.
    pub has_units: bool,
    /// The encoded digests of its keys, if it stores them.
    pub digests: Option<BlockHandle>,
    /// The id of its database.
    pub database: u64,
    /// Its number.
    pub table: TableId,
    /// The last durable edit when it was created.
    pub created_after: EditNumber,
}

impl Footer {
    /// Encodes the footer for `offset` of the file.
    pub fn encode(&self, offset: u64) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        // A zero handle means that the part is missing: possibly filter and digests; always range
        // deletes, so far.
        let nothing = BlockHandle::default();
        let (filter, digests) = (self.filter.unwrap_or(nothing), self.digests.unwrap_or(nothing));
        for handle in [self.top_index, self.properties, filter, digests, nothing] {
            for number in [handle.offset, handle.bytes as u64, handle.checksum] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for number in [self.database, self.table.0, self.created_after.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let flags = if self.has_units { FLAG_UNITS } else { 0 };
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(FOOTER_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&MAGIC);
        let checksum = self.place().checksum(offset, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.try_into().expect("the fields add up to the footer's length")
    }

    /// Decodes the footer of table `table` of `database` from `tail`, the last bytes of a file of
    /// `file_bytes`; returns its checksum too.
    pub fn decode(tail: &[u8], file_bytes: u64, database: u64, table: TableId) -> Result<(Self, u64), Flaw> {
        const NOT_A_TABLE: Flaw = Flaw::Damaged("the file does not end like a table");
        let last: &[u8; TAIL_BYTES] = tail.last_chunk().ok_or(NOT_A_TABLE)?;
        let mut reader = Reader::new(last);
        let parts = (reader.u32(), reader.u32(), reader.take(8), reader.u64());
        let (Some(version), Some(footer_bytes), Some(magic), Some(checksum)) = parts else { return Err(NOT_A_TABLE) };
        let footer_bytes = footer_bytes as usize;
        if magic != MAGIC || footer_bytes < TAIL_BYTES || footer_bytes > tail.len() {
            return Err(NOT_A_TABLE);
        }
        let (bytes, offset) = (&tail[tail.len() - footer_bytes..], file_bytes - footer_bytes as u64);
        if checksum != place(database, table).checksum(offset, &bytes[..footer_bytes - 8]) {
            return Err(Flaw::Damaged(
                "the footer does not have its checksum: damaged, or of another table or database",
            ));
        }
        match version {
            1..=4 if footer_bytes == FOOTER_BYTES_V1 => return Err(Flaw::OtherVersion(1)),
            VERSION => {}
            other => return Err(Flaw::OtherVersion(other)),
        }
        let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().map_err(|_| NOT_A_TABLE)?;
        let footer = Self::fields(bytes, offset)?;
        if (footer.database, footer.table) != (database, table) {
            return Err(Flaw::Damaged("the footer names another database or table than its checksum"));
        }
        Ok((footer, checksum))
    }

    /// Searches all of `file` for the last whole footer of table `table` of `database`; returns its
    /// checksum and the length of the file with it, too: for files that have grown.
    pub fn search(file: &[u8], database: u64, table: TableId) -> Option<(Self, u64, u64)> {
        let ends = (FOOTER_BYTES..=file.len()).rev();
        let mut marked = ends.filter(|&end| file[end - MAGIC_END..].starts_with(&MAGIC));
        marked.find_map(|end| {
            let (footer, checksum) = Self::decode(&file[..end], end as u64, database, table).ok()?;
            Some((footer, checksum, end as u64))
        })
    }

    /// The end of the top index's handle in the footer, checksum included.
    pub(super) const TOP_INDEX_END: usize = 24;
    /// The end of the properties' handle.
    pub(super) const PROPERTIES_END: usize = 48;
    /// The end of the filter's handle.
    pub(super) const FILTER_END: usize = 72;

    /// The end of the digests' handle.
    pub(super) const DIGESTS_END: usize = 96;

    /// The handles of top index, properties, filter and digests, where they are possible at all;
    /// nothing else is checked. For [`crate::checksum_repair`].
    pub(super) fn unchecked_handles(footer: &[u8]) -> [Option<BlockHandle>; 4] {
        let mut reader = Reader::new(footer);
        let mut handle = || BlockHandle::new(reader.u64()?, reader.u64()?, reader.u64()?).ok();
        std::array::from_fn(|_| handle())
    }

    /// Returns true if the filter of the table with this footer is elastic.
    pub(super) fn has_units(footer: &[u8]) -> bool {
        footer[Self::FLAGS] & FLAG_UNITS as u8 != 0
    }

    /// The seed of the file's checksums.
    pub fn place(&self) -> Place {
        place(self.database, self.table)
    }

    /// The offset of database and table in the footer.
    pub(super) const NUMBERS: usize = 120;
    /// The offset of the flags.
    const FLAGS: usize = 144;

    /// Decodes a footer at `offset` of the file without its checksum.
    pub(super) fn fields(bytes: &[u8; FOOTER_BYTES], offset: u64) -> Result<Self, Flaw> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let handle = |at: usize| BlockHandle::new(number(at), number(at + 8), number(at + 16));
        let handle_if_any = |at: usize| if bytes[at..at + 24] == [0; 24] { Ok(None) } else { handle(at).map(Some) };
        let footer = Self {
            top_index: handle(0)?,
            properties: handle(24)?,
            filter: handle_if_any(48)?,
            has_units: Self::has_units(bytes),
            digests: handle_if_any(72)?,
            database: number(120),
            table: TableId(number(128)),
            created_after: EditNumber(number(136)),
        };
        let parts = [Some(footer.top_index), Some(footer.properties), footer.filter, footer.digests];
        if parts.iter().flatten().any(|part| part.end() > offset) {
            return Err(Flaw::Damaged("the footer points past the blocks"));
        }
        if footer.has_units && footer.filter.is_none() {
            return Err(Flaw::Damaged("the footer is of a table with units of a filter, but leads to none"));
        }
        if bytes[96..120] != [0; 24] {
            return Err(Flaw::Unsupported("the table has range tombstones, which this version cannot read"));
        }
        if number(Self::FLAGS) & FLAGS_REQUIRED & !FLAG_UNITS != 0 {
            return Err(Flaw::Unsupported("the table requires a feature that only a newer version knows"));
        }
        Ok(footer)
    }
}

/// The units of an elastic filter: the payload of its filter block, a list of handles as in the
/// footer. The units precede it, the last one first, so that the first ones are near the end of the
/// file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Units(pub Vec<BlockHandle>);

impl Units {
    /// The length of each handle.
    pub(super) const HANDLE_BYTES: usize = 24;

    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|unit| [unit.offset, unit.bytes as u64, unit.checksum]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes what [`Units::encode`] encoded, of a filter block at `offset`.
    pub fn decode(payload: &[u8], offset: u64) -> Result<Self, Flaw> {
        let (numbers, rest) = payload.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (handles, more) = numbers.as_chunks::<3>();
        let (true, [_, ..]) = (rest.is_empty() && more.is_empty(), handles) else {
            return Err(Flaw::Damaged("the handles of a filter's units are malformed"));
        };
        let handles = handles.iter().map(|&[offset, bytes, checksum]| BlockHandle::new(offset, bytes, checksum));
        let units = Self(handles.collect::<Result<_, _>>()?);
        if units.0.iter().any(|unit| unit.end() > offset) {
            return Err(Flaw::Damaged("a unit of the filter is behind the list of units"));
        }
        Ok(units)
    }
}

/// The seed of a table's checksums.
pub fn place(database: u64, table: TableId) -> Place {
    Place::new(database, FileKind::Table, table.0)
}

/// The seed of the checksums inside a table's digest block.
pub fn digests_seed(place: Place) -> u64 {
    place.checksum(0, b"digests")
}

/// The fence of a block that begins with (`key`, `sequence`), after a block that ended with
/// `previous` (`None`: it is the first). Its key is a part of `key`.
pub fn fence<'a>(previous: Option<&[u8]>, key: &'a [u8], sequence: Sequence) -> (&'a [u8], Sequence) {
    match previous {
        None => (&[], Sequence::MAX),
        Some(previous) if previous == key => (key, sequence),
        // `previous` is smaller, so `key` continues after the common prefix, and one more byte
        // distinguishes them.
        Some(previous) => (&key[..common_prefix(previous, key) + 1], Sequence::MAX),
    }
}

/// The index entry for a fence at that place, with an encoded handle as its value.
pub fn fence_entry<'a>(key: &'a [u8], sequence: Sequence, handle: &'a [u8]) -> Entry<'a> {
    Entry { key, sequence, kind: EntryKind::Put, value: handle }
}

impl Properties {
    /// The manifest's record of the table with these properties.
    pub fn into_meta(self, footer: &Footer, root_checksum: u64, file_bytes: u64) -> TableMeta {
        TableMeta {
            id: footer.table,
            file_bytes,
            root_checksum,
            digest_bytes: footer.digests.map_or(0, |handle| handle.bytes as u64),
            created_after: footer.created_after,
            properties: self,
        }
    }
}
