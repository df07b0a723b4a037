//! Entries, sequence numbers and their order.
//!
//! An **entry** is one version of one key: the key, the sequence number of the write that made it,
//! its kind, and the value if the kind has one. **Entry order** is by key ascending (bytes,
//! lexicographic), then by sequence *descending*: going forward through a source, the youngest
//! version of a key comes first. No two entries of a tree have the same key and sequence.

use std::cmp::Ordering;

/// The position of a write in the order of all commits; 1 is the first write. At most
/// [`Sequence::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before every write.
    pub const ZERO: Self = Self(0);
    /// The largest: 2^56 - 1, so that a sequence and a kind fit into 64 bits. At a million writes
    /// per second it lasts 2,284 years.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The sequence after this one.
    #[must_use]
    pub fn next(self) -> Self {
        assert!(self < Self::MAX, "sequence numbers are used up: {self:?}");
        Self(self.0 + 1)
    }
}

/// What an entry says about its key. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value.
    Put = 1,
    /// The key has no value (a tombstone).
    Delete = 2,
    /// An operand of a merge operator, to be merged with older versions. Stored, not served yet.
    Merge = 3,
    /// A range tombstone: all keys from this one up to the value, exclusive, are deleted. Stored,
    /// not served yet.
    RangeDelete = 4,
    /// The value says where the value stands. Stored, not served yet.
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

    /// Its name in the plural, if this version stores entries of this kind but cannot serve them
    /// yet.
    pub fn unserved(self) -> Option<&'static str> {
        match self {
            Self::Put | Self::Delete => None,
            Self::Merge => Some("merge operands"),
            Self::RangeDelete => Some("range tombstones"),
            Self::ValuePointer => Some("values that stand elsewhere"),
            Self::ExpiringPut => Some("puts that expire"),
        }
    }

    /// True if entries of this kind carry a value (possibly empty) in log, buffer and table.
    pub fn has_value(self) -> bool {
        !matches!(self, Self::Delete)
    }
}

/// One version of one key, borrowed from wherever it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The user's key, 0 to 65,536 bytes.
    pub key: &'a [u8],
    /// The write that made it.
    pub sequence: Sequence,
    /// What it says about the key.
    pub kind: EntryKind,
    /// The value; empty if the kind has none.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// What the entry counts in capacities and buffer sizes, in raw bytes: key, value, and 8 for
    /// sequence and kind.
    pub fn raw_bytes(&self) -> u64 {
        raw_bytes(self.key.len(), self.value.len())
    }
}

/// [`Entry::raw_bytes`] of an entry with a key and a value of these lengths.
pub fn raw_bytes(key_bytes: usize, value_bytes: usize) -> u64 {
    key_bytes as u64 + value_bytes as u64 + 8
}

/// When an expiring put with this value expires: its first eight bytes, little-endian, in
/// milliseconds since 1970 (UTC).
pub fn expiry(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Compares two places in entry order: by key, then youngest first.
pub fn compare(a: (&[u8], Sequence), b: (&[u8], Sequence)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}
