//! [`PinnedValue`]: a value that is returned without a copy.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Memtable;

/// A value in a memtable. It keeps the whole memtable in memory, flushed or not, so it should be
/// short-lived.
#[derive(Clone)]
pub struct PinnedValue {
    /// Bytes in the arena of `_memtable`.
    value: NonNull<[u8]>,
    _memtable: Arc<Memtable>,
}

// SAFETY: the bytes are never written again, and the `Arc` keeps them alive and in place wherever
// the value goes; `Memtable` is `Send` and `Sync`.
unsafe impl Send for PinnedValue {}
// SAFETY: as above.
unsafe impl Sync for PinnedValue {}

impl PinnedValue {
    /// # Panics
    /// If `value` does not lie in `memtable`.
    pub(super) fn new(memtable: Arc<Memtable>, value: &[u8]) -> Self {
        // An empty value may lie at the very end of a chunk, or be a constant for "none"; any
        // address will do for it.
        let value = if value.is_empty() { &[] } else { value };
        let inside = value.is_empty() || memtable.list.arena().contains(value);
        assert!(inside, "a value of {} bytes that does not lie in the memtable cannot be pinned by it", value.len());
        Self { value: NonNull::from(value), _memtable: memtable }
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slice was valid when it was given to `new`, and lies in the arena, or is
        // empty. Safe code can only have got a slice of the arena as key or value of an entry;
        // those are initialised, and not written or freed while the memtable lives.
        unsafe { self.value.as_ref() }
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PinnedValue").field(&&**self).finish()
    }
}
