//! [`Batch`]: writes that become durable and visible together, encoded as the WAL stores them.

use crate::entry::{Entry, EntryKind, Sequence, raw_bytes};
use crate::error::{Error, Result};
use crate::format::group::{Entries, Group, put_entry};
use crate::format::key_range::{Key, KeyRange};
use crate::format::meta::TreeId;
use crate::memtable::Memtable;
use crate::operator::Merging;
use crate::read::{KeyBounds, range_within};

/// Maximum length of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a value under any memory budget, in bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;

/// An atomic list of puts, deletes, range deletes and merge operands: after a crash, and for
/// concurrent readers, either all of them took effect or none. Of several writes to one key the
/// last one counts; an operand is folded into what the writes before it have made, and a range
/// delete hides what is before it.
///
/// ```
/// let mut batch = tamarack::Batch::new();
/// batch.put("from", "90").put("to", "110").delete("pending");
/// assert_eq!(batch.len(), 3);
///
/// let prices: tamarack::Batch = [("maple", "12.50"), ("oak", "9.80")].into_iter().collect();
/// batch.extend(vec![("elm", "7.20")]);
/// assert_eq!((prices.len(), batch.len()), (2, 4));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    body: Vec<u8>,
    entries: u32,
    raw_bytes: u64,
    longest_key_bytes: usize,
    longest_value_bytes: usize,
    has_puts: bool,
    has_operands: bool,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(EntryKind::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(EntryKind::Delete, key.as_ref(), &[])
    }

    /// Deletes all keys in `range`, those that are put earlier in this batch included: see
    /// [`Db::delete_range`](crate::Db::delete_range).
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let mut batch = tamarack::Batch::new();
    /// batch.put("elm", "7.20").delete_range("a"..).put("oak", "9.80");
    /// db.write(&batch)?;
    /// assert_eq!(db.first_key_value()?.map(|(key, _)| key), Some(b"oak".to_vec()));
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn delete_range(&mut self, range: impl KeyBounds) -> &mut Self {
        self.delete_keys(&range_within(&range))
    }

    /// Deletes all keys in a range.
    pub(crate) fn delete_keys(&mut self, range: &KeyRange) -> &mut Self {
        if let Some((from, to)) = deletable(range) {
            self.push(EntryKind::RangeDelete, &from, &to);
        }
        self
    }

    /// Folds `operand` into the value of `key`: see [`Db::merge`](crate::Db::merge).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.has_operands = true;
        self.push(EntryKind::Merge, key.as_ref(), operand.as_ref())
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// Returns true if the batch contains no write.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the bytes that count against the memory budget.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Removes all writes; keeps the allocation.
    pub fn clear(&mut self) {
        self.body.clear();
        *self = Self { body: std::mem::take(&mut self.body), ..Self::default() };
    }

    /// The entries, with sequence numbers from `first`.
    fn decoded(&self, first: Sequence) -> impl Iterator<Item = Entry<'_>> {
        Entries::new(&self.body, first).map(|entry| {
            let (tree, entry) = entry.expect("a batch holds what its own methods encoded");
            debug_assert_eq!(tree, TreeId::DEFAULT, "there is one tree");
            entry
        })
    }

    fn push(&mut self, kind: EntryKind, key: &[u8], value: &[u8]) -> &mut Self {
        put_entry(&mut self.body, TreeId::DEFAULT, kind, key, value);
        self.entries = self.entries.checked_add(1).expect("a batch holds fewer than 2^32 writes");
        self.raw_bytes += raw_bytes(key.len(), value.len());
        self.has_puts |= !matches!(kind, EntryKind::Delete | EntryKind::RangeDelete);
        self.longest_key_bytes = self.longest_key_bytes.max(key.len());
        self.longest_value_bytes = self.longest_value_bytes.max(value.len());
        self
    }
}

/// Puts each key with its value, in this order.
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for Batch {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.put(key, value);
        }
    }
}

/// Creates a batch that puts each key with its value, in this order.
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for Batch {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut batch = Self::new();
        batch.extend(entries);
        batch
    }
}

/// The first key and the end, empty for none, of a range delete; `None` if it deletes nothing.
pub fn deletable(range: &KeyRange) -> Option<(Key, Key)> {
    if range.is_empty() {
        return None;
    }
    let from = match &range.from {
        Some(from) => fitting(from)?,
        None => Key::from([]),
    };
    let to = range.to.as_ref().and_then(fitting);
    let fitted = KeyRange { from: Some(from.clone()), to: to.clone() };
    (!fitted.is_empty()).then(|| (from, to.unwrap_or_else(|| Key::from([]))))
}

/// The least bound that is no longer than a key may be and has the same keys below it; `None` if
/// all keys are below.
fn fitting(bound: &Key) -> Option<Key> {
    match bound.get(..KEY_BYTES_MAX).filter(|_| bound.len() > KEY_BYTES_MAX) {
        Some(longest) => KeyRange::with_prefix(longest).to,
        None => Some(bound.clone()),
    }
}

/// A write to be committed: one borrowed entry, so that a plain put allocates nothing, or a batch.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// One put, delete, range delete or merge operand.
    One {
        /// Its kind.
        kind: EntryKind,
        /// The key.
        key: &'a [u8],
        /// The value or operand; empty for a delete; the end of a range delete, empty for none.
        value: &'a [u8],
    },
    /// All writes of a batch.
    Many(&'a Batch),
}

impl Write<'_> {
    /// Returns the number of entries.
    pub fn entries(&self) -> u32 {
        match self {
            Self::One { .. } => 1,
            Self::Many(batch) => batch.entries,
        }
    }

    /// Returns the sum of the entries' raw bytes.
    pub fn raw_bytes(&self) -> u64 {
        match self {
            Self::One { key, value, .. } => raw_bytes(key.len(), value.len()),
            Self::Many(batch) => batch.raw_bytes,
        }
    }

    /// Returns an error if a key, a value or the batch is too large. `limit_bytes` is an eighth of
    /// the memory budget: the upper bound for one value and for one batch.
    #[inline]
    pub fn check(&self, limit_bytes: u64) -> Result<()> {
        let (key_bytes, value_bytes) = self.longest();
        let value_limit = limit_bytes.min(VALUE_BYTES_MAX);
        if key_bytes <= KEY_BYTES_MAX
            && value_bytes as u64 <= value_limit
            // A single entry within these limits is allowed, whatever its key adds.
            && (self.entries() <= 1 || self.raw_bytes() <= value_limit)
        {
            return Ok(());
        }
        Err(self.too_large(value_limit))
    }

    /// Returns the lengths of the longest key and of the longest value, in bytes.
    fn longest(&self) -> (usize, usize) {
        match self {
            Self::One { key, value, .. } => (key.len(), value.len()),
            Self::Many(batch) => (batch.longest_key_bytes, batch.longest_value_bytes),
        }
    }

    /// Returns what [`Write::check`] says of a write that is too large.
    #[cold]
    #[inline(never)]
    fn too_large(&self, value_limit: u64) -> Error {
        let (key_bytes, value_bytes) = self.longest();
        Error::InvalidArgument(if key_bytes > KEY_BYTES_MAX {
            format!("the key has {key_bytes} bytes; the maximum is {KEY_BYTES_MAX}")
        } else if value_bytes as u64 > value_limit {
            format!(
                "the value has {value_bytes} bytes; the maximum is {value_limit} (an eighth of the memory budget, at most 1 GiB)"
            )
        } else {
            format!(
                "the batch has {} bytes; the maximum is {value_limit} (an eighth of the memory budget, at most 1 GiB); split it",
                self.raw_bytes()
            )
        })
    }

    /// Returns true if there is no put.
    pub fn only_deletes(&self) -> bool {
        match self {
            Self::One { kind, .. } => matches!(kind, EntryKind::Delete | EntryKind::RangeDelete),
            Self::Many(batch) => !batch.has_puts,
        }
    }

    /// Returns true if there is a merge operand.
    #[inline]
    pub fn has_operands(&self) -> bool {
        match self {
            Self::One { kind, .. } => *kind == EntryKind::Merge,
            Self::Many(batch) => batch.has_operands,
        }
    }

    /// Returns an error if there is a merge operand that `merging` refuses.
    #[cold]
    #[inline(never)]
    pub fn check_operands(&self, merging: &Merging) -> Result<()> {
        match self {
            Self::One { key, value, .. } => merging.check_operand(key, value),
            Self::Many(batch) => {
                let mut operands = batch.decoded(Sequence::ZERO).filter(|entry| entry.kind == EntryKind::Merge);
                operands.try_for_each(|entry| merging.check_operand(entry.key, entry.value))
            }
        }
    }

    /// Calls `visit` with the key of each entry, in their order; for a range delete with the first
    /// key and the end, which is empty if there is none.
    pub fn for_each_key(&self, mut visit: impl FnMut(&[u8], Option<&[u8]>)) {
        let mut visit = |kind: EntryKind, key: &[u8], value: &[u8]| {
            visit(key, (kind == EntryKind::RangeDelete).then_some(value));
        };
        match self {
            Self::One { kind, key, value } => visit(*kind, key, value),
            Self::Many(batch) => {
                batch.decoded(Sequence::ZERO).for_each(|entry| visit(entry.kind, entry.key, entry.value));
            }
        }
    }

    /// Appends the entries in the WAL's encoding.
    pub fn encode(&self, group: &mut Group) {
        match self {
            Self::One { kind, key, value } => group.push_entry(TreeId::DEFAULT, *kind, key, value),
            Self::Many(batch) => group.push_batch(&batch.body, batch.entries),
        }
    }

    /// Inserts the entries into `memtable`, with sequence numbers from `first`.
    pub fn apply(&self, first: Sequence, memtable: &Memtable) {
        match *self {
            Self::One { kind, key, value } => memtable.insert(Entry { key, sequence: first, kind, value }),
            Self::Many(batch) => batch.decoded(first).for_each(|entry| memtable.insert(entry)),
        }
    }
}
