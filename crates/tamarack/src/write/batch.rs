//! [`Batch`]: writes that become durable and visible together, already in the form in which the log stores them.

use crate::entry::{Entry, EntryKind, Sequence, raw_bytes};
use crate::error::{Error, Result};
use crate::format::meta::TreeId;
use crate::format::record::{self, Entries};
use crate::memtable::Memtable;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value whatever the memory budget, in bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A list of puts and deletes that is written as one: after a crash, and for concurrent readers,
/// all of them are there or none. Of several writes to one key the last counts.
///
/// ```
/// let mut batch = tamarack::Batch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    body: Vec<u8>,
    entries: u32,
    raw_bytes: u64,
    longest_key_bytes: usize,
    longest_value_bytes: usize,
    has_puts: bool,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(EntryKind::Put, key.as_ref(), value.as_ref())
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(EntryKind::Delete, key.as_ref(), &[])
    }

    /// The number of writes in it.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// True if it holds no write.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// What it counts against the memory budget, in bytes.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.body.clear();
        *self = Self { body: std::mem::take(&mut self.body), ..Self::default() };
    }

    fn push(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> &mut Self {
        record::put_entry(&mut self.body, TreeId::DEFAULT, kind, key, value);
        self.entries = self.entries.checked_add(1).expect("a batch holds fewer than 2^32 writes");
        self.raw_bytes += raw_bytes(key.len(), value.len());
        self.has_puts |= kind != EntryKind::Delete;
        self.longest_key_bytes = self.longest_key_bytes.max(key.len());
        self.longest_value_bytes = self.longest_value_bytes.max(value.len());
        self
    }
}

/// What a caller wants committed: one entry, borrowed, so that a plain put allocates nothing; or a
/// batch.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// One put or delete.
    One {
        /// Put or delete.
        kind: EntryKind,
        /// The key.
        key: &'a [u8],
        /// The value; empty for a delete.
        value: &'a [u8],
    },
    /// All writes of a batch.
    Many(&'a Batch),
}

impl Write<'_> {
    /// The number of entries.
    pub fn entries(&self) -> u32 {
        match self {
            Self::One { .. } => 1,
            Self::Many(batch) => batch.entries,
        }
    }

    /// The sum of the entries' raw bytes.
    pub fn raw_bytes(&self) -> u64 {
        match self {
            Self::One { key, value, .. } => raw_bytes(key.len(), value.len()),
            Self::Many(batch) => batch.raw_bytes,
        }
    }

    /// Refuses keys, values and batches that are too large. `limit_bytes` is the most that one
    /// value or one batch may have: an eighth of the memory budget.
    pub fn check(&self, limit_bytes: u64) -> Result<()> {
        let (key_bytes, value_bytes) = match self {
            Self::One { key, value, .. } => (key.len(), value.len()),
            Self::Many(batch) => (batch.longest_key_bytes, batch.longest_value_bytes),
        };
        if key_bytes > KEY_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "a key of {key_bytes} bytes: at most {KEY_BYTES_MAX} are allowed"
            )));
        }
        let value_limit = limit_bytes.min(VALUE_BYTES_MAX);
        if value_bytes as u64 > value_limit {
            return Err(Error::InvalidArgument(format!(
                "a value of {value_bytes} bytes: at most {value_limit} are allowed (an eighth of the memory budget, and 1 GiB)"
            )));
        }
        // A single entry that passed the limits above is allowed whatever its key adds.
        if self.entries() > 1 && self.raw_bytes() > value_limit {
            return Err(Error::InvalidArgument(format!(
                "a batch of {} bytes: at most {value_limit} are allowed (an eighth of the memory budget, and 1 GiB); split it",
                self.raw_bytes()
            )));
        }
        Ok(())
    }

    /// True if it only deletes.
    pub fn only_deletes(&self) -> bool {
        match self {
            Self::One { kind, .. } => *kind == EntryKind::Delete,
            Self::Many(batch) => !batch.has_puts,
        }
    }

    /// Appends the entries as the log stores them.
    pub fn encode(&self, group: &mut record::Group) {
        match self {
            Self::One { kind, key, value } => group.push_entry(TreeId::DEFAULT, *kind, key, value),
            Self::Many(batch) => group.push_batch(&batch.body, batch.entries),
        }
    }

    /// Inserts the entries into `buffer`, numbered from `first`.
    pub fn apply(&self, first: Sequence, buffer: &Memtable) {
        match *self {
            Self::One { kind, key, value } => buffer.insert(Entry { key, sequence: first, kind, value }),
            Self::Many(batch) => {
                for entry in Entries::new(&batch.body, first) {
                    let (tree, entry) = entry.expect("a batch holds what its own methods encoded");
                    debug_assert_eq!(tree, TreeId::DEFAULT, "there is one tree");
                    buffer.insert(entry);
                }
            }
        }
    }
}
