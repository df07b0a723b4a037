//! [`Usage`]: the memory and the number of what the cache holds.
//!
//! Blocks also leave the cache without it: when their table is closed, in a destructor that runs
//! wherever the last reference is dropped. What the queues still have of such blocks are *orphans*.

#![expect(
    clippy::disallowed_types,
    reason = "numbers that order nothing, and change in destructors that run inside locks of others: the explorer of schedules would gain nothing and block there"
)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The sums. Their readers may see them while they change.
#[derive(Default)]
pub(super) struct Usage {
    blocks: AtomicU64,
    block_bytes: AtomicU64,
    entries: AtomicU64,
    entry_bytes: AtomicU64,
    orphans: AtomicU64,
    slot_bytes: AtomicU64,
}

/// A kind of item in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A data block or a lower index block.
    Block,
    /// An entry, or the absence of one.
    Entry,
}

impl Usage {
    fn of(&self, kind: Kind) -> (&AtomicU64, &AtomicU64) {
        match kind {
            Kind::Block => (&self.blocks, &self.block_bytes),
            Kind::Entry => (&self.entries, &self.entry_bytes),
        }
    }

    /// The number of items of that kind.
    #[inline]
    pub(super) fn items(&self, kind: Kind) -> u64 {
        self.of(kind).0.load(Ordering::Relaxed)
    }

    /// The memory of all items of that kind, in bytes.
    pub(super) fn bytes(&self, kind: Kind) -> u64 {
        self.of(kind).1.load(Ordering::Relaxed)
    }

    /// Adds an item of `bytes`.
    pub(super) fn add(&self, kind: Kind, bytes: u64) {
        let (items, sum) = self.of(kind);
        items.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts an item of `bytes` that the cache has removed.
    pub(super) fn subtract(&self, kind: Kind, bytes: u64) {
        let (items, sum) = self.of(kind);
        items.fetch_sub(1, Ordering::Relaxed);
        sum.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds slots for data blocks.
    pub(super) fn add_slots(&self, bytes: u64) {
        self.slot_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts slots.
    pub(super) fn subtract_slots(&self, bytes: u64) {
        self.slot_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The memory of slots for data blocks, in bytes.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes.load(Ordering::Relaxed)
    }

    /// Subtracts a block of `bytes` that is gone with its table; its place in a queue is left.
    pub(super) fn orphaned(&self, bytes: u64) {
        self.subtract(Kind::Block, bytes);
        self.orphans.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of places in queues whose block is gone. A place may have been found before its
    /// block is counted.
    pub(super) fn orphans(&self) -> u64 {
        (self.orphans.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Subtracts orphans that were found in the queues.
    pub(super) fn orphans_removed(&self, orphans: u64) {
        self.orphans.fetch_sub(orphans, Ordering::Relaxed);
    }
}
