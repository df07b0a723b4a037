//! The parts of a table file: fences, digests, filter, properties, footer.
//!
//! ```text
//! │ data block │ … │ lower index block │ … │ digests │ filter │ properties │ top index │ footer │
//! 0                                                                                     file_bytes
//! ```
//!
//! Everything but the footer is a stored block ([`crate::stored`]), one directly after another.
//! Index blocks have the form of data blocks ([`crate::block`]); their entries are **fences**, each
//! of which stands for one block of the level below:
//!
//! * The place of a fence, (key, sequence) in entry order, is after the last entry of the block
//!   before and at or before the first entry of its own block. Where the two keys differ it is the
//!   shortest key that does that, with the sequence `MAX` (left out); within the versions of one
//!   key it is exactly the first entry's. The first fence is the empty key.
//! * Its kind is `Put`, its value the block's [`BlockHandle`].
//!
//! So for any place, the last fence at or before it names the only block that can hold an entry
//! with that place.
//!
//! The footer has a fixed length and stands at the end, so the file's length alone leads to it. Its
//! last 24 bytes keep their meaning in all versions of the format, so that a newer version can be
//! told from damage:
//!
//! ```text
//!   0  24  top index           offset u64, bytes u64, checksum u64
//!  24  24  properties          likewise
//!  48  24  filter              likewise; zero: none. Its payload is a filter as `tamarack_filter` encodes it, or, of an elastic one, where its units are
//!  72  24  digests             likewise; zero: none. Its payload is a set of digests as `tamarack_filter` encodes it
//!  96  24  range deletes       likewise; zero: none. Reserved
//! 120   8  database            random id
//! 128   8  table               number, as in the file's name
//! 136   8  created after       number of the last durable edit at creation
//! 144   8  flags               bit 0: the filter is elastic, and its payload says where its units
//! are
//! 152   4  version             of the format
//! 156   4  footer bytes        176
//! 160   8  magic               "tamarTBL"
//! 168   8  checksum            of the footer up to here: the root checksum, which the manifest
//! holds too
//! ```

use crate::checksum::{FileKind, Place};
use crate::coding::Reader;
use crate::entry::{Entry, EntryKind, Sequence};
use crate::meta::{EditNumber, TableId, TableMeta};
use crate::prefixes::common_prefix;
pub use crate::properties::Properties;
use crate::stored::{BlockHandle, Flaw};
use crate::version::VERSION;

/// The length of the footer.
pub const FOOTER_BYTES: usize = 176;
/// The length of its part that all versions share.
const TAIL_BYTES: usize = 24;
/// Tables of format version 1 have versions from 1 to 4 of their own, and footers of this length.
const FOOTER_BYTES_V1: usize = 168;
/// The flag of a table whose filter is elastic. Flags in the low half must be understood by a
/// reader,
/// those in the high half need not be.
const FLAG_UNITS: u64 = 1;
/// The flags that a reader must understand.
const FLAGS_REQUIRED: u64 = u32::MAX as u64;
pub(super) const MAGIC: [u8; 8] = *b"tamarTBL";
/// How far before the end of the footer it stands.
const MAGIC_END: usize = 16;

/// The end of a table file, from which all else is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    /// The index of the lower index blocks.
    pub top_index: BlockHandle,
    /// The encoded [`Properties`].
    pub properties: BlockHandle,
    /// The encoded filter, if there is one, or its [`Units`].
    pub filter: Option<BlockHandle>,
    /// Whether the filter is elastic, and so in units.
    pub has_units: bool,
    /// The encoded digests of its keys, if it keeps them.
    pub digests: Option<BlockHandle>,
    /// Which database the table belongs to.
    pub database: u64,
    /// Its number.
    pub table: TableId,
    /// The last durable edit when it was made.
    pub created_after: EditNumber,
}

impl Footer {
    /// The footer's bytes, for `offset` of the file.
    pub fn encode(&self, offset: u64) -> [u8; FOOTER_BYTES] {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        // Handles that are zero stand for what is not there: filter and digests perhaps; range deletes
        // always, as yet.
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

    /// Reads the footer of table `table` of `database` from `tail`, the last bytes of a file of
    /// `file_bytes`; gives its checksum too.
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

    /// The last whole footer of table `table` of `database` that stands anywhere in `file`, with
    /// its checksum and the length that the file had with it: for files that have grown.
    pub fn search(file: &[u8], database: u64, table: TableId) -> Option<(Self, u64, u64)> {
        let ends = (FOOTER_BYTES..=file.len()).rev();
        let mut marked = ends.filter(|&end| file[end - MAGIC_END..].starts_with(&MAGIC));
        marked.find_map(|end| {
            let (footer, checksum) = Self::decode(&file[..end], end as u64, database, table).ok()?;
            Some((footer, checksum, end as u64))
        })
    }

    /// Where the top index's handle ends in the footer, and its checksum with it.
    pub(super) const TOP_INDEX_END: usize = 24;
    /// Where the handle of the properties ends.
    pub(super) const PROPERTIES_END: usize = 48;
    /// Where the handle of the filter ends.
    pub(super) const FILTER_END: usize = 72;

    /// Where the handle of the digests ends.
    pub(super) const DIGESTS_END: usize = 96;

    /// The handles of top index, properties, filter and digests, where they are possible at all;
    /// nothing else is looked at. For [`crate::checksum_repair`].
    pub(super) fn unchecked_handles(footer: &[u8]) -> [Option<BlockHandle>; 4] {
        let mut reader = Reader::new(footer);
        let mut handle = || BlockHandle::new(reader.u64()?, reader.u64()?, reader.u64()?).ok();
        std::array::from_fn(|_| handle())
    }

    /// Whether the filter of the table with this footer is elastic.
    pub(super) fn has_units(footer: &[u8]) -> bool {
        footer[Self::FLAGS] & FLAG_UNITS as u8 != 0
    }

    /// What the checksums of the file are seeded with.
    pub fn place(&self) -> Place {
        place(self.database, self.table)
    }

    /// Where database and table stand in the footer.
    pub(super) const NUMBERS: usize = 120;
    /// Where the flags stand.
    const FLAGS: usize = 144;

    /// The footer that `bytes` are, at `offset` of the file; its checksum is not looked at.
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
            return Err(Flaw::Unsupported("the table needs something of its reader that a newer version knows"));
        }
        Ok(footer)
    }
}

/// Where the units of an elastic filter are: the payload of its filter block, the handles one after
/// the other as in the footer. The units stand before it, the last one first, so that the first
/// ones are near the end of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Units(pub Vec<BlockHandle>);

impl Units {
    /// The length of each of them.
    pub(super) const HANDLE_BYTES: usize = 24;

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|unit| [unit.offset, unit.bytes as u64, unit.checksum]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// Reads what [`Units::encode`] wrote, of a filter block at `offset`.
    pub fn decode(payload: &[u8], offset: u64) -> Result<Self, Flaw> {
        let (numbers, rest) = payload.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let (handles, more) = numbers.as_chunks::<3>();
        let (true, [_, ..]) = (rest.is_empty() && more.is_empty(), handles) else {
            return Err(Flaw::Damaged("the places of a filter's units are malformed"));
        };
        let handles = handles.iter().map(|&[offset, bytes, checksum]| BlockHandle::new(offset, bytes, checksum));
        let units = Self(handles.collect::<Result<_, _>>()?);
        if units.0.iter().any(|unit| unit.end() > offset) {
            return Err(Flaw::Damaged("a unit of the filter stands behind the list of units"));
        }
        Ok(units)
    }
}

/// What the checksums of a table are seeded with.
pub fn place(database: u64, table: TableId) -> Place {
    Place::new(database, FileKind::Table, table.0)
}

/// What the checksums inside a table's block of digests are seeded with.
pub fn digests_seed(place: Place) -> u64 {
    place.checksum(0, b"digests")
}

/// The fence of a block that begins with (`key`, `sequence`), after a block that ended with
/// `previous` (`None`: it is the first). Gives the fence's place; its key is a part of `key`.
pub fn fence<'a>(previous: Option<&[u8]>, key: &'a [u8], sequence: Sequence) -> (&'a [u8], Sequence) {
    match previous {
        None => (&[], Sequence::MAX),
        Some(previous) if previous == key => (key, sequence),
        // `previous` is smaller, so `key` goes on after what they have in common, and one more byte tells them apart.
        Some(previous) => (&key[..common_prefix(previous, key) + 1], Sequence::MAX),
    }
}

/// The index entry for a fence at that place, with an encoded handle as its value.
pub fn fence_entry<'a>(key: &'a [u8], sequence: Sequence, handle: &'a [u8]) -> Entry<'a> {
    Entry { key, sequence, kind: EntryKind::Put, value: handle }
}

impl Properties {
    /// What the manifest says of the table with these properties, whose sequences are its own.
    pub fn into_meta(self, footer: &Footer, root_checksum: u64, file_bytes: u64) -> TableMeta {
        TableMeta {
            id: footer.table,
            file_bytes,
            root_checksum,
            digest_bytes: footer.digests.map_or(0, |handle| handle.bytes as u64),
            created_after: footer.created_after,
            sequence_base: Sequence::ZERO,
            properties: self,
        }
    }
}
