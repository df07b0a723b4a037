//! What the manifest knows about a table without reading it.

use crate::entry::Sequence;

/// The number of a table; also in its file's name. Never used twice in a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u64);

/// The number of a manifest edit: 1, 2, 3 … in the order they were made durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EditNumber(pub u64);

/// The number of a tree (keyspace); the first is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TreeId(pub u32);

impl TreeId {
    /// The default tree, which every database has.
    pub const DEFAULT: Self = Self(0);
}

/// A table's identity, properties, and the root of its checksums. Recorded in the manifest, so that opening a database
/// and planning merges read no table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableMeta {
    /// Its number.
    pub id: TableId,
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// The checksum of its footer, which holds the checksums of all else.
    pub root_checksum: u64,
    /// Entries, all versions and tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// The sum of [`crate::entry::Entry::raw_bytes`].
    pub raw_bytes: u64,
    /// The smallest key.
    pub smallest_key: Vec<u8>,
    /// The largest key.
    pub largest_key: Vec<u8>,
    /// The smallest sequence.
    pub smallest_sequence: Sequence,
    /// The largest sequence.
    pub largest_sequence: Sequence,
    /// Which filter it carries; 0 is none.
    pub filter_kind: u8,
    /// The size of its filter in bits.
    pub filter_bits: u64,
    /// The length of its block of digests in the file, trailer included; 0 is none. From these its filter can be made again.
    pub digest_bytes: u64,
    /// The last durable edit when the file was made: an orphan that names a later edit than the manifest holds shows
    /// that the manifest has lost edits.
    pub created_after: EditNumber,
}

impl TableMeta {
    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.smallest_key.capacity() + self.largest_key.capacity()
    }
}
