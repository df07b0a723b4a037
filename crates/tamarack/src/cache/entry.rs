//! [`CachedEntry`]: a copy of one entry in one allocation, shared by the cache and its readers; or
//! the fact that no table has an entry of a key.
//!
//! ```text
//! │ kind │ bytes of the key │ sequence │ known at │ key │ value │
//! │  u8  │ u32              │ u64      │ u64      │     │       │        kind 0: no entry
//! ```
//!
//! Cost: 21 bytes and the counters of the `Arc` besides key and value. Tested with the cache.

use std::sync::Arc;

use crate::entry::{Entry, EntryKind, Sequence};

/// The bytes before the key.
const HEAD_BYTES: usize = 1 + 4 + 8 + 8;

/// The two counters of an `Arc`.
const COUNTERS_BYTES: usize = 2 * size_of::<usize>();

/// The kind byte of an absent entry.
const ABSENT: u8 = 0;

/// A cached entry, or the absence of one. See the module's documentation.
#[derive(Clone)]
pub struct CachedEntry(Arc<[u8]>);

impl CachedEntry {
    /// Copies `entry`, which somebody found who sees all up to `known_at`.
    pub fn new(entry: &Entry<'_>, known_at: Sequence) -> Self {
        let Entry { key, sequence, kind, value } = *entry;
        Self::of_parts(kind as u8, sequence, known_at, key, value)
    }

    /// Records that there is no entry of `key` for those who see all up to `known_at`.
    pub fn absent(key: &[u8], known_at: Sequence) -> Self {
        Self::of_parts(ABSENT, known_at, known_at, key, &[])
    }

    /// Takes the place of an entry that is too large. Answers no reader.
    pub fn unknown() -> Self {
        Self::absent(&[], Sequence::MAX)
    }

    fn of_parts(kind: u8, sequence: Sequence, known_at: Sequence, key: &[u8], value: &[u8]) -> Self {
        let bytes = HEAD_BYTES + key.len() + value.len();
        // An iterator that knows its length is collected into one allocation.
        let mut copy: Arc<[u8]> = std::iter::repeat_n(0, bytes).collect();
        let place = Arc::get_mut(&mut copy).expect("nobody else has it yet");
        let (head, rest) = place.split_at_mut(HEAD_BYTES);
        head[0] = kind;
        head[1..5].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[5..13].copy_from_slice(&sequence.0.to_le_bytes());
        head[13..].copy_from_slice(&known_at.0.to_le_bytes());
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..].copy_from_slice(value);
        Self(copy)
    }

    /// The memory of a copy of `entry`, in bytes.
    pub fn memory_bytes_of(entry: &Entry<'_>) -> usize {
        COUNTERS_BYTES + HEAD_BYTES + entry.key.len() + entry.value.len()
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        COUNTERS_BYTES + self.0.len()
    }

    /// The entry; `None` if it is absent.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let (head, _) = self.0.split_first_chunk::<HEAD_BYTES>().expect("it was made with a head");
        if head[0] == ABSENT {
            return None;
        }
        let kind = EntryKind::from_number(head[0]).expect("it was made from a kind");
        Some(Entry { key: self.key(), sequence: self.sequence(), kind, value: self.value() })
    }

    /// The sequence from which on readers see the entry, or its absence.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        Sequence(u64::from_le_bytes(*self.0[5..].first_chunk().expect("eight bytes")))
    }

    /// What the one who found it sees, at least.
    #[inline]
    pub fn known_at(&self) -> Sequence {
        Sequence(u64::from_le_bytes(*self.0[13..].first_chunk().expect("eight bytes")))
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.0[HEAD_BYTES..][..self.key_bytes()]
    }

    /// Its value; empty if it has none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.0[HEAD_BYTES + self.key_bytes()..]
    }

    fn key_bytes(&self) -> usize {
        u32::from_le_bytes(*self.0[1..].first_chunk().expect("four bytes")) as usize
    }
}

impl std::fmt::Debug for CachedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CachedEntry").field(&self.entry()).finish()
    }
}
