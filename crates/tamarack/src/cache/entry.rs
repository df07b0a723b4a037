//! [`CachedEntry`]: a copy of one entry in one allocation, shared by the cache and its readers; or
//! the fact that no table has an entry of a key.
//!
//! ```text
//! │ references │ head: name, sequence, known at, bytes of the key, kind │ length │ key │ value │
//! │ 8          │ 32                                                     │ 8      │     │       │
//! ```
//!
//! A pointer to it is one word ([`ThinArc`]), so that a slot of the table is, too. Tested with the
//! cache.

#![expect(unsafe_code, reason = "a slot owns a reference by a pointer alone")]

use triomphe::{Arc, HeaderWithLength, ThinArc};

use crate::entry::{Entry, EntryKind, Sequence};

/// What is known of a cached entry besides its key and value.
struct EntryHead {
    name: u64,
    sequence: Sequence,
    known_at: Sequence,
    key_bytes: u32,
    /// `None` if there is no entry.
    kind: Option<EntryKind>,
}

/// The bytes before key and value.
const FIXED_BYTES: usize = size_of::<usize>() + size_of::<EntryHead>() + size_of::<usize>();

/// A cached entry, or the absence of one. See the module's documentation.
#[derive(Clone)]
pub struct CachedEntry(ThinArc<EntryHead, u8>);

/// What a cached entry says.
#[derive(Clone, Copy)]
pub struct ReadEntry<'a> {
    head: &'a EntryHead,
    bytes: &'a [u8],
}

impl CachedEntry {
    /// Copies `entry`, called `name`, which somebody found who sees all up to `known_at`.
    pub fn new(name: u64, entry: &Entry<'_>, known_at: Sequence) -> Self {
        let Entry { key, sequence, kind, value } = *entry;
        Self::of_parts(
            EntryHead { name, sequence, known_at, key_bytes: key.len() as u32, kind: Some(kind) },
            key,
            value,
        )
    }

    /// Records that there is no entry of `key`, called `name`, for those who see all up to
    /// `known_at`.
    pub fn absent(name: u64, key: &[u8], known_at: Sequence) -> Self {
        let head = EntryHead { name, sequence: known_at, known_at, key_bytes: key.len() as u32, kind: None };
        Self::of_parts(head, key, &[])
    }

    /// Takes the place of an entry that is too large. Answers no reader.
    pub fn unknown(name: u64) -> Self {
        Self::absent(name, &[], Sequence::MAX)
    }

    fn of_parts(head: EntryHead, key: &[u8], value: &[u8]) -> Self {
        let bytes = key.len() + value.len();
        let mut copy = Arc::from_header_and_iter(HeaderWithLength::new(head, bytes), std::iter::repeat_n(0, bytes));
        let place = Arc::get_mut(&mut copy).expect("nobody else has it yet");
        let (key_place, value_place) = place.slice.split_at_mut(key.len());
        key_place.copy_from_slice(key);
        value_place.copy_from_slice(value);
        Self(Arc::into_thin(copy))
    }

    /// A pointer that owns the reference.
    pub(super) fn into_raw(self) -> *mut () {
        ThinArc::into_raw(self.0).cast_mut().cast()
    }

    /// The owner of that reference again.
    ///
    /// # Safety
    /// The pointer is from [`CachedEntry::into_raw`], and each reference has one owner.
    pub(super) unsafe fn from_raw(pointer: *mut ()) -> Self {
        // SAFETY: The same is asked of the caller.
        Self(unsafe { ThinArc::from_raw(pointer.cast()) })
    }

    /// The number of its owners.
    #[cfg(test)]
    pub(super) fn references(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// The memory of a copy of `entry`, in bytes.
    pub fn memory_bytes_of(entry: &Entry<'_>) -> usize {
        memory_bytes(entry.key.len() + entry.value.len())
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        memory_bytes(self.0.slice.len())
    }

    /// What it says.
    #[inline]
    pub fn read(&self) -> ReadEntry<'_> {
        ReadEntry { head: &self.0.header.header, bytes: &self.0.slice }
    }
}

/// The memory of a cached entry whose key and value have so many bytes together.
fn memory_bytes(bytes: usize) -> usize {
    (FIXED_BYTES + bytes).next_multiple_of(align_of::<EntryHead>())
}

impl<'a> ReadEntry<'a> {
    /// The entry; `None` if it is absent.
    #[inline]
    pub fn entry(self) -> Option<Entry<'a>> {
        let kind = self.head.kind?;
        Some(Entry { key: self.key(), sequence: self.sequence(), kind, value: self.value() })
    }

    /// The name by which the cache finds it.
    #[inline]
    pub(super) fn name(self) -> u64 {
        self.head.name
    }

    /// The sequence from which on readers see the entry, or its absence.
    #[inline]
    pub fn sequence(self) -> Sequence {
        self.head.sequence
    }

    /// What the one who found it sees, at least.
    #[inline]
    pub fn known_at(self) -> Sequence {
        self.head.known_at
    }

    /// Its key.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        &self.bytes[..self.head.key_bytes as usize]
    }

    /// Its value; empty if it has none.
    #[inline]
    pub fn value(self) -> &'a [u8] {
        &self.bytes[self.head.key_bytes as usize..]
    }
}

impl std::fmt::Debug for CachedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CachedEntry").field(&self.read().entry()).finish()
    }
}
