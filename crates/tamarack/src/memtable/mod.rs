//! The buffer (memtable): the newest entries, in memory, in order.
//!
//! Entries go in, one at a time, from any number of threads; queries and cursors read them
//! meanwhile without waiting. Nothing is ever removed or overwritten: a newer version of a key is
//! one more entry, and when the buffer is large enough it is sealed (by whoever owns it; the buffer
//! does not know), flushed as a run, and dropped whole.
//!
//! ```text
//!   insert ──► counts ──► arena: a node with a copy of the entry ──► list: linked into entry order
//!   get, cursor ◄──────────────────────────────────────────────────────┘
//! ```
//!
//! - `arena`: chunks of memory, allocated from with one atomic addition.
//! - `node`: how an entry stands there, and why its links can be read without locks.
//! - `list`: the skip list that orders them.
//! - `cursor`, `pinned`: a walk, and a value, that keep the buffer alive.
//!
//! # What holds
//!
//! - An entry is seen by every read that begins after its insert returned, and once seen, stays.
//! - The buffer knows nothing of visibility: it answers for any sequence, also one whose commit is
//!   not finished. Readers choose a sequence that is.
//! - [`Memtable::memory_bytes`] is what was asked of the allocator, to the byte.
//! - The `unsafe` code of the engine is here and nowhere else. Its ground: memory is not freed or
//!   moved before the buffer is dropped, everything in a node but its links is written before the
//!   node is published, and every public type that points into the arena holds the buffer by an
//!   `Arc` or a borrow.
//!
//! # Cost
//!
//! An entry takes 56 bytes on average besides its key and value: two links of 16 bytes each,
//! prefix, stamp and lengths. Ascending inserts find their place at once; others in a search of
//! O(log n), as does a step back of a cursor. `bench/buffer` measures both.
//!
//! # How it is tested
//!
//! `tests` compares random histories with a `BTreeMap`, inserts from several threads under readers
//! that check the order, and explores schedules of a small case (feature `shuttle`);
//! `tests/allocations/buffer.rs` compares the memory with a counting allocator. Thread and
//! address sanitizer find nothing in them.

#![expect(unsafe_code, reason = "an arena with lock-free readers; each block says why it is sound")]

mod arena;
mod cursor;
mod list;
mod node;
mod pinned;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};

pub use cursor::MemtableCursor;
pub use pinned::PinnedValue;

use crate::entry::{Entry, EntryKind, Query};
use crate::memory::{Account, Charge, Part};
use list::List;
use node::Place;

/// An in-memory ordered set of entries that grows until it is dropped.
#[derive(Debug)]
pub struct Memtable {
    list: List,
    counts: Counts,
    account: Option<Arc<Account>>,
}

/// What is in a buffer. On a cache line of its own: every insert writes to it.
#[derive(Debug)]
#[repr(align(64))]
struct Counts {
    entries: AtomicU64,
    tombstones: AtomicU64,
    raw_bytes: AtomicU64,
}

impl Memtable {
    /// An empty buffer, which has no memory of its own yet, and on nobody's account.
    pub fn new() -> Self {
        Self::charged(None)
    }

    /// As [`Memtable::new`]. Its memory will be charged to `account` for as long as anybody has it.
    pub fn on(account: &Arc<Account>) -> Self {
        Self::charged(Some(account.clone()))
    }

    /// An empty buffer on the same account.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::charged(self.account.clone())
    }

    /// The account that it is on.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    fn charged(account: Option<Arc<Account>>) -> Self {
        let zero = || AtomicU64::new(0);
        let counts = Counts { entries: zero(), tombstones: zero(), raw_bytes: zero() };
        Self { list: List::new(Charge::to(account.as_ref(), Part::Buffers, 0)), counts, account }
    }

    /// Adds a copy of `entry`. Any thread may do so at any time, and may read meanwhile.
    ///
    /// # Panics
    /// If the buffer has an entry with the same key and sequence, the key is longer than 65,536
    /// bytes, the value is longer than 1 GiB, or the sequence is larger than
    /// [`Sequence::MAX`](crate::entry::Sequence::MAX).
    pub fn insert(&self, entry: Entry<'_>) {
        let number = self.counts.add(&entry);
        self.list.insert(entry, number);
    }

    /// Shows `visit` the versions of the query's key up to its sequence, youngest first, until it
    /// breaks.
    pub fn get<'b>(&'b self, query: Query<'_>, visit: &mut dyn FnMut(Entry<'b>) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut at = self.list.at_or_after(&Place::new(query.key(), query.sequence()));
        while let Some(node) = at.filter(|node| node.key() == query.key()) {
            visit(node.entry())?;
            at = self.list.after(node);
        }
        ControlFlow::Continue(())
    }

    /// A cursor over all entries, in both directions. It sees at least what was inserted before
    /// each of its steps.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// Makes a value that [`Memtable::get`] showed outlive the borrow of the buffer. Looks at every
    /// chunk of the arena to make sure that the value is there: about 80 in a buffer of 64 MiB.
    ///
    /// # Panics
    /// If `value` is not empty and does not lie in this buffer.
    pub fn pin(self: &Arc<Self>, value: &[u8]) -> PinnedValue {
        PinnedValue::new(self.clone(), value)
    }

    /// Entries inserted, those being inserted included.
    pub fn entries(&self) -> u64 {
        self.counts.entries.load(Ordering::Relaxed)
    }

    /// Those of [`Memtable::entries`] that are tombstones.
    pub fn tombstones(&self) -> u64 {
        self.counts.tombstones.load(Ordering::Relaxed)
    }

    /// Sum of [`Entry::raw_bytes`] of [`Memtable::entries`].
    pub fn raw_bytes(&self) -> u64 {
        self.counts.raw_bytes.load(Ordering::Relaxed)
    }

    /// Bytes allocated for entries: all chunks, with what is free in the last.
    pub fn memory_bytes(&self) -> u64 {
        self.list.arena().allocated_bytes()
    }

    /// Bytes that entries take, with their links: [`Memtable::memory_bytes`] without what is free
    /// in the last chunks.
    pub fn used_bytes(&self) -> u64 {
        self.list.arena().used_bytes()
    }

    /// True if nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// Counts `entry`; returns how many were counted before it. Relaxed: the numbers guard nothing.
    fn add(&self, entry: &Entry<'_>) -> u64 {
        self.raw_bytes.fetch_add(entry.raw_bytes(), Ordering::Relaxed);
        if entry.kind == EntryKind::Delete {
            self.tombstones.fetch_add(1, Ordering::Relaxed);
        }
        self.entries.fetch_add(1, Ordering::Relaxed)
    }
}
