//! [`Ledger`]: the number and the memory of the entries in the cache.
//!
//! The cache library knows only the sum of all weights. The ledger adds each inserted entry, and
//! subtracts each one that is evicted, replaced or rejected.

#![expect(
    clippy::disallowed_types,
    reason = "numbers that order nothing, and change inside the locks of the cache: the explorer of schedules would gain nothing and block there"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Lifecycle;
use quick_cache::sync::DefaultLifecycle;

use super::entry::CachedEntry;

/// The sums over all shards: each shard has a clone of the same ledger.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Sums>);

#[derive(Default)]
struct Sums {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// An item of the cache, which may be an entry.
pub(super) trait Item {
    /// The entry, if the item is one.
    fn as_entry(&self) -> Option<&CachedEntry>;
}

impl Ledger {
    /// The number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.0.entries.load(Ordering::Relaxed)
    }

    /// The memory of all entries, in bytes.
    pub(super) fn entry_bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Adds an item that is about to be inserted.
    pub(super) fn add(&self, item: &impl Item) {
        if let Some(entry) = item.as_entry() {
            self.0.entries.fetch_add(1, Ordering::Relaxed);
            self.0.bytes.fetch_add(entry.memory_bytes() as u64, Ordering::Relaxed);
        }
    }

    /// Subtracts an item that has left the cache.
    pub(super) fn subtract(&self, item: &impl Item) {
        if let Some(entry) = item.as_entry() {
            self.0.entries.fetch_sub(1, Ordering::Relaxed);
            self.0.bytes.fetch_sub(entry.memory_bytes() as u64, Ordering::Relaxed);
        }
    }
}

impl<K, I: Item> Lifecycle<K, I> for Ledger {
    type RequestState = <DefaultLifecycle<K, I> as Lifecycle<K, I>>::RequestState;

    fn on_evict(&self, state: &mut Self::RequestState, key: K, item: I) {
        self.subtract(&item);
        // Drops most items outside of the shard's lock.
        DefaultLifecycle::default().on_evict(state, key, item);
    }
}
