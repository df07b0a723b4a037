//! The properties of a table: counts and bounds of its entries. The manifest has a copy, so that
//! opening a database and planning compactions read no table.
//!
//! Stored as numbered fields ([`crate::fields`]); [`number`] lists the numbers. They are counted
//! entry by entry, as a table is built. Tests: the engine's `table/tests/golden.rs` and
//! `edit_bytes.rs`.

use crate::coding::{Reader, put_varint};
use crate::entry::{Entry, EntryKind, Sequence, expiry};
use crate::fields::{FieldError, FieldReader, FieldWriter};
use crate::stored::{Compression, Flaw};

/// The properties of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// Entries of all versions and kinds.
    pub entries: u64,
    /// Point tombstones among them.
    pub tombstones: u64,
    /// The sum of [`Entry::raw_bytes`].
    pub raw_bytes: u64,
    /// The smallest key.
    pub smallest_key: Vec<u8>,
    /// The largest key.
    pub largest_key: Vec<u8>,
    /// The smallest sequence, `sequence_base` included.
    pub smallest_sequence: Sequence,
    /// The largest sequence, `sequence_base` included.
    pub largest_sequence: Sequence,
    /// The number that is added to the sequence of each entry in the file: 0 except for ingested
    /// tables, which are built before their place in the history is known. The manifest's copy is
    /// exact. So is that in the file of the last table of an ingest; the others have a lower bound.
    pub sequence_base: Sequence,
    /// The ingest that wrote the table, if one did.
    pub ingest: Option<IngestPart>,
    /// The kind of its Bloom filter; 0 is none.
    pub filter_kind: u8,
    /// The size of its filter in bits.
    pub filter_bits: u64,
    /// The compression of its data blocks, where that paid. Each block says whether it is
    /// compressed.
    pub compression: Compression,
    /// Range deletes up to this sequence hide none of the entries: they were left out when the
    /// table was written. 0 if nobody looked.
    pub range_deletes_applied: Sequence,
    /// Counts of other entries than puts and point tombstones, if any.
    pub special: Option<Box<Special>>,
}

/// The place of a table among those of one ingest, which all have the same sequence base. Without a
/// manifest, it tells which tables belong together, and which of them knows the base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngestPart {
    /// The number of the first table of the ingest.
    pub first_table: u64,
    /// True for the last table.
    pub is_last: bool,
}

/// Counts and bounds of entries that are neither puts nor point tombstones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Special {
    /// Operands of a merge operator.
    pub merge_operands: u64,
    /// Range tombstones.
    pub range_deletes: u64,
    /// Value pointers.
    pub value_pointers: u64,
    /// Puts that expire.
    pub expiring_puts: u64,
    /// The lower bound of all range tombstones, inclusive, and their upper bound, exclusive.
    pub deleted_from: Vec<u8>,
    /// See `deleted_from`.
    pub deleted_to: Vec<u8>,
    /// The earliest expiry of expiring puts, in milliseconds since 1970 (UTC).
    pub expiry_min: u64,
    /// The latest expiry.
    pub expiry_max: u64,
}

/// The numbers of the fields. They are part of the format and never reused.
pub mod number {
    #![expect(missing_docs, reason = "named as the fields of `Properties`, `Special` and `TableMeta`")]
    pub const TOMBSTONES: u64 = 1;
    pub const ENTRIES: u64 = 2;
    pub const FILTER_KIND: u64 = 3;
    pub const RAW_BYTES: u64 = 4;
    pub const FILTER_BITS: u64 = 5;
    pub const SMALLEST_KEY: u64 = 6;
    pub const COMPRESSION: u64 = 7;
    pub const LARGEST_KEY: u64 = 8;
    pub const EXPIRY_MIN: u64 = 9;
    pub const SMALLEST_SEQUENCE: u64 = 10;
    pub const EXPIRY_MAX: u64 = 11;
    pub const LARGEST_SEQUENCE: u64 = 12;
    pub const MERGE_OPERANDS: u64 = 14;
    pub const RANGE_DELETES: u64 = 16;
    pub const VALUE_POINTERS: u64 = 18;
    pub const EXPIRING_PUTS: u64 = 20;
    pub const DELETED_FROM: u64 = 22;
    pub const DELETED_TO: u64 = 24;
    pub const INGEST_FIRST_TABLE: u64 = 26;
    pub const INGEST_IS_LAST: u64 = 27;
    pub const RANGE_DELETES_APPLIED: u64 = 29;
    pub const SEQUENCE_BASE: u64 = 40;
    // Fields that only the manifest has.
    pub const DIGEST_BYTES: u64 = 33;
    pub const ID: u64 = 34;
    pub const FILE_BYTES: u64 = 36;
    pub const CREATED_AFTER: u64 = 37;
    pub const ROOT_CHECKSUM: u64 = 38;
}

impl Properties {
    /// Counts an entry, which follows all before in entry order. The caller sets `largest_key` at
    /// the end, so that it is not copied for each entry.
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
        if !matches!(entry.kind, EntryKind::Put | EntryKind::Delete) {
            self.special.get_or_insert_default().count(entry);
        }
    }

    /// Sets the sequence base, and moves the bounds of sequences with it.
    pub fn set_sequence_base(&mut self, base: Sequence) {
        let old = std::mem::replace(&mut self.sequence_base, base);
        for bound in [&mut self.smallest_sequence, &mut self.largest_sequence] {
            *bound = bound.without_base(old).with_base(base);
        }
    }

    /// The payload of the properties block.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = FieldWriter::default();
        self.put(&mut fields);
        let mut out = Vec::new();
        fields.finish(&mut out);
        out
    }

    /// Decodes what [`Properties::encode`] encoded.
    pub fn decode(payload: &[u8]) -> Result<Self, Flaw> {
        let read = || {
            let mut fields = FieldReader::new(payload)?;
            let properties = Self::take(&mut fields)?;
            fields.finish()?;
            Ok(properties)
        };
        read().map_err(|error| match error {
            FieldError::Malformed => Flaw::Damaged("the properties of the table are malformed"),
            FieldError::Unknown(_) => Flaw::Unsupported("the table has a required property that a newer version knows"),
        })
    }

    /// Adds the fields.
    pub(crate) fn put(&self, fields: &mut FieldWriter) {
        fields.number(number::ENTRIES, self.entries);
        fields.number(number::TOMBSTONES, self.tombstones);
        fields.number(number::RAW_BYTES, self.raw_bytes);
        fields.bytes(number::SMALLEST_KEY, &self.smallest_key);
        fields.bytes(number::LARGEST_KEY, &self.largest_key);
        fields.number(number::SMALLEST_SEQUENCE, self.smallest_sequence.0);
        fields.number(number::LARGEST_SEQUENCE, self.largest_sequence.0);
        fields.number(number::SEQUENCE_BASE, self.sequence_base.0);
        if let Some(IngestPart { first_table, is_last }) = self.ingest {
            fields.number(number::INGEST_FIRST_TABLE, first_table);
            fields.number(number::INGEST_IS_LAST, is_last.into());
        }
        fields.number(number::FILTER_KIND, self.filter_kind.into());
        fields.number(number::FILTER_BITS, self.filter_bits);
        fields.bytes(number::COMPRESSION, &compression_bytes(self.compression));
        fields.number(number::RANGE_DELETES_APPLIED, self.range_deletes_applied.0);
        if let Some(special) = &self.special {
            fields.number(number::MERGE_OPERANDS, special.merge_operands);
            fields.number(number::RANGE_DELETES, special.range_deletes);
            fields.number(number::VALUE_POINTERS, special.value_pointers);
            fields.number(number::EXPIRING_PUTS, special.expiring_puts);
            fields.bytes(number::DELETED_FROM, &special.deleted_from);
            fields.bytes(number::DELETED_TO, &special.deleted_to);
            fields.number(number::EXPIRY_MIN, special.expiry_min);
            fields.number(number::EXPIRY_MAX, special.expiry_max);
        }
    }

    /// Takes the fields that [`Properties::put`] added.
    pub(crate) fn take(fields: &mut FieldReader<'_>) -> Result<Self, FieldError> {
        let special = Special {
            merge_operands: fields.number(number::MERGE_OPERANDS)?,
            range_deletes: fields.number(number::RANGE_DELETES)?,
            value_pointers: fields.number(number::VALUE_POINTERS)?,
            expiring_puts: fields.number(number::EXPIRING_PUTS)?,
            deleted_from: fields.bytes(number::DELETED_FROM).to_vec(),
            deleted_to: fields.bytes(number::DELETED_TO).to_vec(),
            expiry_min: fields.number(number::EXPIRY_MIN)?,
            expiry_max: fields.number(number::EXPIRY_MAX)?,
        };
        let first_table = fields.number(number::INGEST_FIRST_TABLE)?;
        let is_last = match fields.number(number::INGEST_IS_LAST)? {
            0 => false,
            1 if first_table != 0 => true,
            _ => return Err(FieldError::Malformed),
        };
        let compression = fields.bytes(number::COMPRESSION);
        let this = Self {
            entries: fields.number(number::ENTRIES)?,
            tombstones: fields.number(number::TOMBSTONES)?,
            raw_bytes: fields.number(number::RAW_BYTES)?,
            smallest_key: fields.bytes(number::SMALLEST_KEY).to_vec(),
            largest_key: fields.bytes(number::LARGEST_KEY).to_vec(),
            smallest_sequence: sequence(fields.number(number::SMALLEST_SEQUENCE)?)?,
            largest_sequence: sequence(fields.number(number::LARGEST_SEQUENCE)?)?,
            sequence_base: sequence(fields.number(number::SEQUENCE_BASE)?)?,
            ingest: (first_table != 0).then_some(IngestPart { first_table, is_last }),
            filter_kind: u8::try_from(fields.number(number::FILTER_KIND)?).map_err(|_| FieldError::Malformed)?,
            filter_bits: fields.number(number::FILTER_BITS)?,
            compression: compression_of(compression).ok_or(FieldError::Malformed)?,
            range_deletes_applied: sequence(fields.number(number::RANGE_DELETES_APPLIED)?)?,
            special: (special != Special::default()).then(|| Box::new(special)),
        };
        if this.sequence_base > this.smallest_sequence.min(this.largest_sequence) {
            return Err(FieldError::Malformed);
        }
        Ok(this)
    }

    /// The kind of some entry of the table that this version stores but does not serve yet.
    pub fn unserved(&self) -> Option<&'static str> {
        let special = self.special.as_deref()?;
        // Those that tables need are in the manifest: nobody would look for one in a table.
        let range_tombstones = (special.range_deletes > 0).then_some("range tombstones");
        let kinds =
            [(special.value_pointers, EntryKind::ValuePointer), (special.expiring_puts, EntryKind::ExpiringPut)];
        let others = || kinds.into_iter().filter(|(count, _)| *count > 0).find_map(|(_, kind)| kind.unserved());
        range_tombstones.or_else(others)
    }

    /// The number of merge operands among the entries.
    pub fn merge_operands(&self) -> u64 {
        self.special.as_deref().map_or(0, |special| special.merge_operands)
    }

    /// Its memory beside its own size, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let special = self.special.as_ref().map_or(0, |special| {
            size_of::<Special>() + special.deleted_from.capacity() + special.deleted_to.capacity()
        });
        self.smallest_key.capacity() + self.largest_key.capacity() + special
    }
}

impl Special {
    fn count(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            EntryKind::Put | EntryKind::Delete => {}
            EntryKind::Merge => self.merge_operands += 1,
            EntryKind::ValuePointer => self.value_pointers += 1,
            EntryKind::RangeDelete => {
                if self.range_deletes == 0 || entry.key < &self.deleted_from[..] {
                    self.deleted_from = entry.key.to_vec();
                }
                if entry.value > &self.deleted_to[..] {
                    self.deleted_to = entry.value.to_vec();
                }
                self.range_deletes += 1;
            }
            EntryKind::ExpiringPut => {
                let expiry = expiry(entry.value).unwrap_or(0);
                self.expiry_min = if self.expiring_puts == 0 { expiry } else { self.expiry_min.min(expiry) };
                self.expiry_max = self.expiry_max.max(expiry);
                self.expiring_puts += 1;
            }
        }
    }
}

fn sequence(number: u64) -> Result<Sequence, FieldError> {
    Some(Sequence(number)).filter(|&sequence| sequence <= Sequence::MAX).ok_or(FieldError::Malformed)
}

/// No compression: nothing. Else the number that blocks have, then for Zstandard its level plus
/// 2^31 as a varint.
fn compression_bytes(compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    if compression != Compression::None {
        out.push(compression.number());
    }
    if let Compression::Zstd { level } = compression {
        put_varint(&mut out, (i64::from(level) + (1 << 31)) as u64);
    }
    out
}

fn compression_of(bytes: &[u8]) -> Option<Compression> {
    let Some((&number, level)) = bytes.split_first() else { return Some(Compression::None) };
    let mut reader = Reader::new(level);
    let level = if reader.is_empty() { None } else { Some(reader.varint()?) };
    let level = level.map(|level| i32::try_from(level as i64 - (1 << 31))).transpose().ok()?;
    reader.is_empty().then(|| Compression::of_number(number, level)).flatten()
}
