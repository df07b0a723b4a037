//! Entries, sequence numbers and their order.
//!
//! An **entry** is one version of one key: the key, the sequence number of the write that made it,
//! its kind, and the value if the kind has one. **Entry order** is by key ascending (bytes,
//! lexicographic), then by sequence *descending*: going forward through a source, the youngest
//! version of a key comes first. No two entries of a tree have the same key and sequence.

use std::cmp::Ordering;

/// The sequence number of a write: its position in the order of all commits; 1 is the first write.
/// At most [`Sequence::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The sequence number before every write.
    pub const ZERO: Self = Self(0);
    /// The largest sequence number: 2^56 - 1, so that it fits into 64 bits together with a kind. At
    /// a million writes per second it lasts 2,284 years.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The sequence number of an entry with this one in the file of a table with that
    /// [`sequence_base`](crate::properties::Properties::sequence_base).
    #[inline]
    #[must_use]
    pub fn with_base(self, base: Self) -> Self {
        Self(self.0 + base.0)
    }

    /// The sequence number in the file of a table with that base; 0, which no entry has, if it is
    /// before all entries of the table.
    #[inline]
    #[must_use]
    pub fn without_base(self, base: Self) -> Self {
        Self(self.0.saturating_sub(base.0))
    }

    /// The next sequence number.
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self < Self::MAX, "sequence numbers are used up: {self:?}");
        Self(self.0 + 1)
    }
}

/// The kind of an entry. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum EntryKind {
    /// A put: the key has this value.
    Put = 1,
    /// A point tombstone: the key has no value.
    Delete = 2,
    /// A merge operand, to be merged with older versions by the merge operator of the tree.
    Merge = 3,
    /// A range tombstone: all keys from this one up to the value, exclusive, are deleted; if the
    /// value is empty, all from this one on. Only in WAL and memtable: the manifest has those that
    /// tables need.
    RangeDelete = 4,
    /// A value pointer: the value is the location of the value. Stored, not served yet.
    ValuePointer = 5,
    /// A put that expires: the value begins with the time ([`expiry`]). Stored, not served yet.
    ExpiringPut = 6,
}

impl EntryKind {
    /// The kind with that number, if this version knows it.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            3 => Some(Self::Merge),
            4 => Some(Self::RangeDelete),
            5 => Some(Self::ValuePointer),
            6 => Some(Self::ExpiringPut),
            _ => None,
        }
    }

    /// The plural name of a kind that this version stores but does not serve yet.
    pub fn unserved(self) -> Option<&'static str> {
        match self {
            Self::Put | Self::Delete | Self::Merge | Self::RangeDelete => None,
            Self::ValuePointer => Some("values that stand elsewhere"),
            Self::ExpiringPut => Some("puts that expire"),
        }
    }

    /// Returns true if entries of this kind have a value (possibly empty) in WAL, memtable and
    /// table.
    pub fn has_value(self) -> bool {
        !matches!(self, Self::Delete)
    }
}

/// One version of one key, borrowed from its memtable, block or batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The user's key, 0 to 65,536 bytes.
    pub key: &'a [u8],
    /// The sequence number of its write.
    pub sequence: Sequence,
    /// Its kind.
    pub kind: EntryKind,
    /// The value; empty if the kind has none.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// The size of the entry in raw bytes, as capacities and memtable sizes count it: key, value,
    /// and 8 for sequence and kind.
    pub fn raw_bytes(&self) -> u64 {
        raw_bytes(self.key.len(), self.value.len())
    }
}

/// One version of one key that owns its bytes: an [`Entry`] that is kept, to be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedEntry {
    /// As [`Entry::key`].
    pub key: Vec<u8>,
    /// The sequence number of its write.
    pub sequence: Sequence,
    /// Its kind.
    pub kind: EntryKind,
    /// The value; empty if the kind has none.
    pub value: Vec<u8>,
}

impl OwnedEntry {
    /// A put.
    pub fn put(key: impl Into<Vec<u8>>, sequence: u64, value: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), sequence: Sequence(sequence), kind: EntryKind::Put, value: value.into() }
    }

    /// A merge operand.
    pub fn merge(key: impl Into<Vec<u8>>, sequence: u64, operand: impl Into<Vec<u8>>) -> Self {
        Self { kind: EntryKind::Merge, ..Self::put(key, sequence, operand) }
    }

    /// A point tombstone.
    pub fn delete(key: impl Into<Vec<u8>>, sequence: u64) -> Self {
        Self { key: key.into(), sequence: Sequence(sequence), kind: EntryKind::Delete, value: Vec::new() }
    }

    /// The same entry, borrowed.
    pub fn entry(&self) -> Entry<'_> {
        Entry { key: &self.key, sequence: self.sequence, kind: self.kind, value: &self.value }
    }

    /// Its place in entry order, for [`compare`].
    pub fn place(&self) -> (&[u8], Sequence) {
        (&self.key, self.sequence)
    }
}

impl From<Entry<'_>> for OwnedEntry {
    fn from(entry: Entry<'_>) -> Self {
        Self { key: entry.key.to_vec(), sequence: entry.sequence, kind: entry.kind, value: entry.value.to_vec() }
    }
}

/// [`Entry::raw_bytes`] of an entry with a key and a value of these lengths.
pub fn raw_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    key_bytes as u64 + value_bytes as u64 + 8
}

/// The expiry of an expiring put with this value: its first eight bytes, little-endian, in
/// milliseconds since 1970 (UTC).
pub fn expiry(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Compares two places in entry order: by key, then youngest first.
pub fn compare(a: (&[u8], Sequence), b: (&[u8], Sequence)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}
