//! [`Ledger`]: what the entries in the cache take, in bytes.
//!
//! The cache itself knows only the sum of all weights. The ledger is told of each entry that is put
//! in, and hears of all that goes: evicted, replaced or never taken in.

#![expect(
    clippy::disallowed_types,
    reason = "numbers that order nothing, and change inside the locks of the cache: the explorer of schedules would gain nothing and block there"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Lifecycle;
use quick_cache::sync::DefaultLifecycle;

use super::entry::CachedEntry;

/// The sums over all shards: each has a clone, and all clones are one.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Sums>);

#[derive(Default)]
struct Sums {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// An item that may be an entry.
pub(super) trait Item {
    /// The entry that it is.
    fn as_entry(&self) -> Option<&CachedEntry>;
}

impl Ledger {
    /// How many entries there are.
    pub(super) fn entries(&self) -> u64 {
        self.0.entries.load(Ordering::Relaxed)
    }

    /// The memory of all of them.
    pub(super) fn entry_bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// This is about to be put in.
    pub(super) fn add(&self, item: &impl Item) {
        if let Some(entry) = item.as_entry() {
            self.0.entries.fetch_add(1, Ordering::Relaxed);
            self.0.bytes.fetch_add(entry.memory_bytes() as u64, Ordering::Relaxed);
        }
    }

    /// This has gone.
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
        // Lets go of most things outside of the lock.
        DefaultLifecycle::default().on_evict(state, key, item);
    }
}
