//! [`MemtableRanges`]: the range tombstones of a memtable, beside its skip list.
//!
//! Most memtables have none: then a lookup pays one load and a branch, and there is no memory.
//!
//! Whoever adds one makes a new [`RangeTombstones`], which shares its parts with the one before,
//! and publishes it; readers take what is published. So they never wait.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank, schedule_point};

use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// The range tombstones of a memtable. See the module's documentation.
#[derive(Debug)]
pub(super) struct MemtableRanges {
    /// True once there is one.
    some: AtomicBool,
    /// Set with the first one: making and dropping a memtable costs nothing more without.
    published: OnceLock<ArcSwap<RangeTombstones>>,
    memory_bytes: AtomicU64,
    /// Protects the replacement of what is published.
    adding: Mutex<()>,
}

impl MemtableRanges {
    pub(super) fn new() -> Self {
        Self {
            some: AtomicBool::new(false),
            published: OnceLock::new(),
            memory_bytes: AtomicU64::new(0),
            adding: Mutex::new(Rank::RangeTombstones, ()),
        }
    }

    /// Returns false if there is none.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        // Acquire: whoever sees that there is one sees what was published before.
        self.some.load(Ordering::Acquire)
    }

    /// Adds one; returns how many more bytes of memory are in use.
    #[cold]
    pub(super) fn add(&self, tombstone: &RangeTombstone) -> usize {
        let adding = self.adding.lock();
        let before = self.get();
        let after = Arc::new(before.with(tombstone));
        let bytes = after.memory_bytes() as u64;
        schedule_point();
        let replaced = match self.published.get() {
            Some(published) => Some(published.swap(after)),
            None => self.published.set(ArcSwap::new(after)).err().map(ArcSwap::into_inner),
        };
        self.some.store(true, Ordering::Release);
        let bytes_before = self.memory_bytes.load(Ordering::Relaxed);
        // What merging groups has freed stays counted.
        let more = bytes.saturating_sub(bytes_before);
        self.memory_bytes.store(bytes_before + more, Ordering::Relaxed);
        drop(adding);
        drop(replaced);
        more as usize
    }

    /// Returns those that there are.
    pub(super) fn get(&self) -> RangeTombstones {
        schedule_point();
        self.published.get().map_or_else(RangeTombstones::default, |published| (**published.load()).clone())
    }

    /// Looks at those that there are.
    #[inline(never)]
    pub(super) fn look<T>(&self, look: impl FnOnce(&RangeTombstones) -> T) -> T {
        schedule_point();
        match self.published.get() {
            Some(published) => look(&published.load()),
            None => look(&RangeTombstones::default()),
        }
    }

    /// The bytes in use.
    #[inline]
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}
