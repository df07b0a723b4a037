//! The parts of a table file: fences, digests, filter, properties, footer.
//!
//! ```text
//! │ data block │ … │ lower index block │ … │ digests │ filter │ properties │ top index │ footer │
//! 0                                                                                     file_bytes
//! ```
//!
//! Everything but the footer is a stored block ([`crate::stored`]), one directly after another. Index blocks have the form of data
//! blocks ([`crate::block`]); their entries are **fences**, each of which stands for one block of the level below:
//!
//! * The place of a fence, (key, sequence) in entry order, is after the last entry of the block before and at or before the
//!   first entry of its own block. Where the two keys differ it is the shortest key that does that, with the sequence
//!   `MAX` (left out); within the versions of one key it is exactly the first entry's. The first fence is the empty key.
//! * Its kind is `Put`, its value the block's [`BlockHandle`].
//!
//! So for any place, the last fence at or before it names the only block that can hold an entry with that place.
//!
//! The footer has a fixed length and stands at the end, so the file's length alone leads to it. Its last 24 bytes keep their meaning in
//! all versions of the format, so that a newer version can be told from damage:
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
//! 144   4  version             of the format: 1 without filter and digests, 2 with a filter only, 3 with digests, 4 with an elastic filter
//! 148   4  footer bytes        168
//! 152   8  magic               "tamarTBL"
//! 160   8  checksum            of the footer up to here: the root checksum, which the manifest holds too
//! ```

use crate::checksum::{FileKind, Place};
use crate::coding::{Reader, put_bytes, put_varint};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::meta::{EditNumber, TableId, TableMeta};
use crate::prefixes::common_prefix;
use crate::stored::{BlockHandle, Flaw};

/// The length of the footer.
pub const FOOTER_BYTES: usize = 168;
/// The length of its part that all versions share.
const TAIL_BYTES: usize = 24;
/// The version of tables that carry no filter: the first one, which all programs read.
const VERSION_WITHOUT_FILTER: u32 = 1;
/// The version of tables that carry a filter and no digests.
const VERSION_WITH_FILTER: u32 = 2;
/// The version of tables that carry digests, with a filter or without.
const VERSION_WITH_DIGESTS: u32 = 3;
/// The version of tables whose filter is elastic, with digests or without; the newest that is read.
const VERSION_WITH_UNITS: u32 = 4;
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
        // Handles that are zero stand for what is not there: filter and digests perhaps; range deletes always, as yet.
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
        out.extend_from_slice(&self.version().to_le_bytes());
        out.extend_from_slice(&(FOOTER_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&MAGIC);
        let checksum = self.place().checksum(offset, &out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.try_into().expect("the fields add up to the footer's length")
    }

    /// Reads the footer of table `table` of `database` from `tail`, the last bytes of a file of `file_bytes`; gives its checksum too.
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
        if version > VERSION_WITH_UNITS {
            return Err(Flaw::Unsupported("the table was written by a newer version of Tamarack"));
        }
        let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().map_err(|_| NOT_A_TABLE)?;
        let footer = Self::fields(bytes, offset)?;
        if (version, footer.database, footer.table) != (footer.version(), database, table) {
            return Err(Flaw::Damaged("the footer names another version, database or table than its checksum"));
        }
        Ok((footer, checksum))
    }

    /// The last whole footer of table `table` of `database` that stands anywhere in `file`, with its checksum and the length that the file had with it:
    /// for files that have grown.
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

    /// The handles of top index, properties, filter and digests, where they are possible at all; nothing else is looked at. For
    /// [`crate::reseal`].
    pub(super) fn unchecked_handles(footer: &[u8]) -> [Option<BlockHandle>; 4] {
        let mut reader = Reader::new(footer);
        let mut handle = || BlockHandle::new(reader.u64()?, reader.u64()?, reader.u64()?).ok();
        std::array::from_fn(|_| handle())
    }

    /// Whether the filter of the table with this footer is elastic.
    pub(super) fn has_units(footer: &[u8]) -> bool {
        footer[144..148] == VERSION_WITH_UNITS.to_le_bytes()
    }

    /// The version of the format: the oldest that has what the table has.
    fn version(&self) -> u32 {
        match (self.filter, self.digests) {
            _ if self.has_units => VERSION_WITH_UNITS,
            (_, Some(_)) => VERSION_WITH_DIGESTS,
            (Some(_), None) => VERSION_WITH_FILTER,
            (None, None) => VERSION_WITHOUT_FILTER,
        }
    }

    /// What the checksums of the file are seeded with.
    pub fn place(&self) -> Place {
        place(self.database, self.table)
    }

    /// Where database and table stand in the footer.
    pub(super) const NUMBERS: usize = 120;

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
            return Err(Flaw::Unsupported("the table has range deletes, which this version cannot read"));
        }
        Ok(footer)
    }
}

/// Where the units of an elastic filter are: the payload of its filter block, the handles one after the other as in the footer. The units stand before it, the
/// last one first, so that the first ones are near the end of the file.
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

/// The fence of a block that begins with (`key`, `sequence`), after a block that ended with `previous` (`None`: it is the first).
/// Gives the fence's place; its key is a part of `key`.
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

/// What a table says about itself: the properties of [`TableMeta`] that are not in the footer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// The sum of [`Entry::raw_bytes`].
    pub raw_bytes: u64,
    /// The smallest sequence.
    pub smallest_sequence: Sequence,
    /// The largest sequence.
    pub largest_sequence: Sequence,
    /// Which filter it carries; 0 is none.
    pub filter_kind: u8,
    /// The size of its filter in bits.
    pub filter_bits: u64,
    /// The smallest key.
    pub smallest_key: Vec<u8>,
    /// The largest key.
    pub largest_key: Vec<u8>,
}

impl Properties {
    /// Counts one more entry, which follows all before in entry order.
    pub fn count(&mut self, entry: &Entry<'_>) {
        if self.entries == 0 {
            self.smallest_key = entry.key.to_vec();
            self.smallest_sequence = entry.sequence;
            self.largest_sequence = entry.sequence;
        }
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == EntryKind::Delete);
        self.raw_bytes += entry.raw_bytes();
        self.smallest_sequence = self.smallest_sequence.min(entry.sequence);
        self.largest_sequence = self.largest_sequence.max(entry.sequence);
        // `largest_key` is filled in at the end, not copied for each entry.
    }

    /// The payload of the properties block: varints, then the keys as byte strings.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [
            self.entries,
            self.tombstones,
            self.raw_bytes,
            self.smallest_sequence.0,
            self.largest_sequence.0,
            u64::from(self.filter_kind),
            self.filter_bits,
        ] {
            put_varint(&mut out, number);
        }
        put_bytes(&mut out, &self.smallest_key);
        put_bytes(&mut out, &self.largest_key);
        out
    }

    /// Reads what [`Properties::encode`] wrote.
    pub fn decode(payload: &[u8]) -> Result<Self, Flaw> {
        let mut reader = Reader::new(payload);
        Self::read(&mut reader)
            .filter(|_| reader.is_empty())
            .ok_or(Flaw::Damaged("the properties of the table are malformed"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let sequence = |number| Some(Sequence(number)).filter(|&sequence| sequence <= Sequence::MAX);
        Some(Self {
            entries: reader.varint()?,
            tombstones: reader.varint()?,
            raw_bytes: reader.varint()?,
            smallest_sequence: sequence(reader.varint()?)?,
            largest_sequence: sequence(reader.varint()?)?,
            filter_kind: u8::try_from(reader.varint()?).ok()?,
            filter_bits: reader.varint()?,
            smallest_key: reader.bytes()?.to_vec(),
            largest_key: reader.bytes()?.to_vec(),
        })
    }

    /// The table's record in the manifest.
    pub fn into_meta(self, footer: &Footer, root_checksum: u64, file_bytes: u64) -> TableMeta {
        TableMeta {
            id: footer.table,
            file_bytes,
            root_checksum,
            entries: self.entries,
            tombstones: self.tombstones,
            raw_bytes: self.raw_bytes,
            smallest_key: self.smallest_key,
            largest_key: self.largest_key,
            smallest_sequence: self.smallest_sequence,
            largest_sequence: self.largest_sequence,
            filter_kind: self.filter_kind,
            filter_bits: self.filter_bits,
            digest_bytes: footer.digests.map_or(0, |handle| handle.bytes as u64),
            created_after: footer.created_after,
        }
    }
}
