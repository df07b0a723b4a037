//! The memtable: the sorted in-memory write buffer of a tree.
//!
//! Any number of threads insert entries, one at a time; queries and cursors read concurrently
//! without waiting. Entries are never removed or overwritten: a newer version of a key is one more
//! entry. A full memtable becomes immutable (its owner decides that; the memtable does not know),
//! is flushed as a run, and is dropped as a whole.
//!
//! ```text
//!   insert ──► filter ──► arena: a node with a copy of the entry ──► list: linked into entry order
//!                │                                                     │
//!   get ◄────────┴─────────────────────────────────────────────────────┤
//!   cursor ◄───────────────────────────────────────────────────────────┘
//! ```
//!
//! - `filter`: says of most keys that the memtable lacks that it does, for one cache line.
//! - `arena`: chunks of memory, allocated from with one atomic addition.
//! - `node`: the layout of an entry, and why its links can be read without locks.
//! - `list`: the skip list that orders the nodes.
//! - `ranges`: range tombstones, which are no nodes; empty in most memtables.
//! - `cursor`, `pinned`: a cursor and a value that keep the memtable alive.
//!
//! # Invariants
//!
//! - A read that begins after an insert has returned sees the entry, and entries never disappear.
//! - The memtable knows nothing of visibility: it answers for any sequence number, also of
//!   unfinished commits. Readers pass the sequence number of a finished one.
//! - [`Memtable::memory_bytes`] is exactly what the allocator was asked for.
//! - The `unsafe` code of the engine is here and nowhere else. It is sound because memory is not
//!   freed or moved before the memtable is dropped, all parts of a node but its links are written
//!   before it is published, and every public type that points into the arena has the memtable by
//!   an `Arc` or a borrow.
//!
//! # Cost
//!
//! An entry takes 56 bytes on average besides its key and value: two links of 16 bytes each,
//! prefix, stamp and lengths. Ascending inserts find their position at once, others in O(log n), as
//! does a backward step of a cursor. `bench/buffer` measures both.
//!
//! # Tests
//!
//! `tests` compares random histories with a `BTreeMap`, inserts from several threads under readers
//! that check the order, and explores schedules of a small case (feature `shuttle`);
//! `tests/allocations/memtable.rs` compares the memory with a counting allocator. The thread and
//! the address sanitizer and Miri run `tests` and find nothing.

#![expect(unsafe_code, reason = "an arena with lock-free readers; each block says why it is sound")]

mod arena;
mod cursor;
mod filter;
mod list;
mod node;
mod pinned;
mod ranges;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use tamarack_filter::Digest;

pub use cursor::MemtableCursor;
pub use pinned::PinnedValue;

use crate::entry::{Entry, EntryKind, Query, Sequence};
use crate::memory::{Account, Charge, MemoryPart};
use crate::mistake::{self, Mistake};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};
use filter::MemtableFilter;
use list::List;
use node::SearchPosition;
use ranges::MemtableRanges;

/// The sorted in-memory write buffer: an ordered set of entries that grows until it is dropped.
#[derive(Debug)]
pub struct Memtable {
    filter: MemtableFilter,
    ranges: MemtableRanges,
    list: List,
    counts: Counts,
    account: Option<Arc<Account>>,
}

/// The counts of a memtable, on a cache line of their own since every insert writes to them.
#[derive(Debug)]
#[repr(align(64))]
struct Counts {
    entries: AtomicU64,
    tombstones: AtomicU64,
    raw_bytes: AtomicU64,
}

impl Memtable {
    /// Makes an empty memtable without memory and without an account, for about 1 MiB of entries.
    pub fn new() -> Self {
        Self::charged(None, 1 << 20)
    }

    /// Makes an empty memtable for about so many raw bytes of entries. Its memory is charged to
    /// `account` as long as it is alive.
    pub fn on(account: &Arc<Account>, raw_bytes: u64) -> Self {
        Self::charged(Some(account.clone()), raw_bytes)
    }

    /// Makes an empty memtable for about so many raw bytes of entries, on the same account.
    #[must_use]
    pub fn another(&self, raw_bytes: u64) -> Self {
        Self::charged(self.account.clone(), raw_bytes)
    }

    /// The account that its memory is charged to.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    fn charged(account: Option<Arc<Account>>, raw_bytes: u64) -> Self {
        // Memtables may be allowed more than there is memory for.
        let raw_bytes = account.as_ref().map_or(raw_bytes, |account| raw_bytes.min(account.budget().total_bytes));
        let zero = || AtomicU64::new(0);
        let counts = Counts { entries: zero(), tombstones: zero(), raw_bytes: zero() };
        let list = List::new(Charge::to(account.as_ref(), MemoryPart::Memtables, 0));
        Self { filter: MemtableFilter::new(raw_bytes), ranges: MemtableRanges::new(), list, counts, account }
    }

    /// Inserts a copy of `entry`. Any thread may call this at any time, concurrently with reads. A
    /// range delete becomes one of the range tombstones.
    ///
    /// # Panics
    /// If the memtable has an entry with the same key and sequence, the key is longer than 65,536
    /// bytes, the value is longer than 1 GiB, or the sequence is larger than
    /// [`Sequence::MAX`](crate::entry::Sequence::MAX).
    pub fn insert(&self, entry: Entry<'_>) {
        if entry.kind == EntryKind::RangeDelete {
            return self.delete_range(&entry);
        }
        let word = self.filter.word_of(entry.key, |bytes| self.list.arena().charge_beside(bytes));
        let number = self.counts.add(&entry);
        self.list.insert(entry, number, || word.add());
    }

    /// Adds a range delete.
    #[cold]
    fn delete_range(&self, entry: &Entry<'_>) {
        self.counts.add(entry);
        let tombstone = RangeTombstone::of(entry);
        // Nobody writes an empty one, but a WAL may have it.
        if !tombstone.range.is_empty() {
            let bytes = self.ranges.add(&tombstone);
            self.list.arena().charge_beside(bytes);
        }
    }

    /// Returns false if it has no range tombstone.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        self.ranges.has_some()
    }

    /// Returns its range tombstones, perhaps some that are not visible yet.
    pub fn range_tombstones(&self) -> RangeTombstones {
        self.ranges.get()
    }

    /// Calls `visit` with the versions of the query's key up to its sequence, youngest first, until
    /// it breaks. The entry at which it does is noted as looked up. A range tombstone that covers
    /// the key is a version, too: a tombstone, without a key.
    pub fn get<'b>(&'b self, query: Query<'_>, visit: &mut dyn FnMut(Entry<'b>) -> ControlFlow<()>) -> ControlFlow<()> {
        if self.may_have(query.digest()) { self.search(query, visit) } else { ControlFlow::Continue(()) }
    }

    /// Returns false if there is no version of such a key.
    #[inline]
    pub fn may_have(&self, digest: Digest) -> bool {
        self.ranges.has_some() || self.filter.may_have(digest)
    }

    /// [`Memtable::get`] in a memtable that may have the key.
    pub fn search<'b>(
        &'b self,
        query: Query<'_>,
        visit: &mut dyn FnMut(Entry<'b>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (key, sequence) = (query.key(), query.sequence());
        if self.ranges.has_some() {
            return self.search_above_floor(key, query.digest(), sequence, visit);
        }
        let mut at = self.list.at_or_after(&SearchPosition::new(key, sequence));
        while let Some(node) = at.filter(|node| node.key() == key) {
            if visit(node.entry()).is_break() {
                node.note_lookup();
                return ControlFlow::Break(());
            }
            at = self.list.after(node);
        }
        ControlFlow::Continue(())
    }

    /// [`Memtable::search`] in a memtable with range tombstones.
    #[cold]
    #[inline(never)]
    fn search_above_floor<'b>(
        &'b self,
        key: &[u8],
        digest: Digest,
        sequence: Sequence,
        visit: &mut dyn FnMut(Entry<'b>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if mistake::is_planted(Mistake::RangeDeleteUnderFilter) && !self.filter.may_have(digest) {
            return ControlFlow::Continue(());
        }
        let floor = self.ranges.look(|tombstones| tombstones.floor(key, sequence));
        if self.filter.may_have(digest) {
            let mut at = self.list.at_or_after(&SearchPosition::new(key, sequence));
            while let Some(node) = at.filter(|node| node.key() == key) {
                let entry = node.entry();
                if entry.sequence < floor
                    || floor > Sequence::ZERO && mistake::is_planted(Mistake::RangeDeleteHidesYounger)
                {
                    break;
                }
                if visit(entry).is_break() {
                    node.note_lookup();
                    return ControlFlow::Break(());
                }
                at = self.list.after(node);
            }
        }
        if floor == Sequence::ZERO {
            return ControlFlow::Continue(());
        }
        visit(Entry { key: &[], sequence: floor, kind: EntryKind::Delete, value: &[] })
    }

    /// Returns a cursor over all entries but range tombstones, in both directions. Each step sees
    /// at least the entries inserted before it.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// Returns a value shown by [`Memtable::get`] that outlives the borrow of the memtable.
    /// Searches all chunks of the arena for it: about 80 in a memtable of 64 MiB.
    ///
    /// # Panics
    /// If `value` is not empty and does not lie in this memtable.
    pub fn pin(self: &Arc<Self>, value: &[u8]) -> PinnedValue {
        PinnedValue::new(self.clone(), value)
    }

    /// The number of entries, unfinished inserts and range tombstones included.
    pub fn entries(&self) -> u64 {
        self.counts.entries.load(Ordering::Relaxed)
    }

    /// The number of tombstones among [`Memtable::entries`].
    pub fn tombstones(&self) -> u64 {
        self.counts.tombstones.load(Ordering::Relaxed)
    }

    /// The sum of [`Entry::raw_bytes`] of [`Memtable::entries`].
    pub fn raw_bytes(&self) -> u64 {
        self.counts.raw_bytes.load(Ordering::Relaxed)
    }

    /// The bytes allocated for filter and entries: all chunks, including what is free in the last.
    pub fn memory_bytes(&self) -> u64 {
        self.list.arena().allocated_bytes() + self.filter.memory_bytes() + self.ranges.memory_bytes()
    }

    /// The bytes in use by filter, entries and links: [`Memtable::memory_bytes`] without what is
    /// free in the last chunks.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.list.arena().used_bytes() + self.filter.memory_bytes() + self.ranges.memory_bytes()
    }

    /// Records that its entries are in tables: from now on only readers keep its memory.
    pub fn note_flushed(&self) {
        self.list.arena().charge_to(MemoryPart::PinnedMemtables);
    }

    /// Returns true if nothing was inserted.
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
    /// Counts `entry`; returns how many were counted before. Relaxed: no other memory depends on
    /// it.
    fn add(&self, entry: &Entry<'_>) -> u64 {
        self.raw_bytes.fetch_add(entry.raw_bytes(), Ordering::Relaxed);
        if entry.kind == EntryKind::Delete {
            self.tombstones.fetch_add(1, Ordering::Relaxed);
        }
        self.entries.fetch_add(1, Ordering::Relaxed)
    }
}
