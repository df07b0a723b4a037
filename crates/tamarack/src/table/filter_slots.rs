//! [`FilterSlots`]: the Bloom filters in memory, one slot for each open table. A filter may be
//! replaced while lookups probe it.
//!
//! ```text
//! lookup   pin ─► PinnedFilters ─► chunk ─► slot ─► Filter    one pin for all tables; then a few
//!                                                             loads for each table
//! change   a new chunk and a new list of chunks replace the old ones; the old filter is freed when
//!          the last lookup that pinned it ends
//! ```
//!
//! A lookup pins the slots **after** the state (`crate::tree::state`), so that the slots of its
//! tables exist. A slot also names its table: no filter is probed for another table, and a lookup
//! that finds another table in a slot, or no slot, pins again.
//!
//! No lookup waits or allocates, and none counts references per table: pinning is one operation on
//! an atomic pointer for all. A change copies a chunk and the list, and waits for other changes
//! only. Memory: a filter is charged until no lookup can probe it any more.
//!
//! Which tables a lookup probes, and when, is decided in `crate::tree::filters`. Tests: here;
//! `tests/suite/filter_rebuild.rs` and `tests/load/threads.rs` with concurrent lookups.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tamarack_env::sync::{Mutex, Rank, schedule_point};
use tamarack_filter::Filter;

use crate::format::meta::TableId;
use crate::memory::{Account, Charge, MemoryPart};

/// The slots in a chunk: copied together on a change, and sharing an entry of the list.
const CHUNK_SLOTS: usize = 64;

/// The filters of all open tables.
#[derive(Debug)]
pub(super) struct FilterSlots {
    chunks: ArcSwap<Chunks>,
    /// The free slots. The lock is held by changes.
    free: Mutex<Vec<usize>>,
}

type Chunks = Vec<Arc<[FilterSlot; CHUNK_SLOTS]>>;

/// The slot of a table.
#[derive(Clone, Debug, Default)]
struct FilterSlot {
    /// The table of the slot; `None` if it is free.
    table: Option<TableId>,
    filter: Option<Arc<ChargedFilter>>,
}

/// A filter with the charge for its memory.
#[derive(Debug)]
struct ChargedFilter {
    filter: Filter,
    _charge: Charge,
}

/// The filters at one moment, pinned for the duration of one or a few lookups.
pub struct PinnedFilters(Guard<Arc<Chunks>>);

impl std::fmt::Debug for PinnedFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedFilters").finish_non_exhaustive()
    }
}

impl PinnedFilters {
    /// The filter of a table, which may have none; `None` if the table had no slot when this was
    /// pinned.
    #[inline]
    pub(super) fn of(&self, slot: usize, table: TableId) -> Option<Option<&Filter>> {
        let slot = &self.0.get(slot / CHUNK_SLOTS)?[slot % CHUNK_SLOTS];
        (slot.table == Some(table)).then(|| slot.filter.as_ref().map(|charged| &charged.filter))
    }
}

impl Default for FilterSlots {
    /// No table is open.
    fn default() -> Self {
        Self { chunks: ArcSwap::default(), free: Mutex::new(Rank::FilterSlots, Vec::new()) }
    }
}

impl FilterSlots {
    /// Pins the current filters.
    #[inline]
    pub(super) fn pin(&self) -> PinnedFilters {
        schedule_point();
        PinnedFilters(self.chunks.load())
    }

    /// Adds a slot for a table, with its first filter.
    pub(super) fn add(&self, table: TableId, filter: Option<Filter>, account: &Arc<Account>) -> usize {
        let filter = charged(filter, account);
        let mut free = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        let slot = free.pop().unwrap_or_else(|| {
            let first = chunks.len() * CHUNK_SLOTS;
            chunks.push(Arc::new(std::array::from_fn(|_| FilterSlot::default())));
            free.extend((first + 1..first + CHUNK_SLOTS).rev());
            first
        });
        put(&mut chunks, slot, FilterSlot { table: Some(table), filter });
        self.publish(chunks);
        slot
    }

    /// Replaces the filter of a table.
    pub(super) fn replace(&self, slot: usize, table: TableId, filter: Option<Filter>, account: &Arc<Account>) {
        let filter = charged(filter, account);
        let _changing = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        put(&mut chunks, slot, FilterSlot { table: Some(table), filter });
        self.publish(chunks);
    }

    /// Frees the slot of a closed table.
    pub(super) fn remove(&self, slot: usize) {
        let mut free = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        put(&mut chunks, slot, FilterSlot::default());
        free.push(slot);
        self.publish(chunks);
    }

    /// Publishes new chunks. Called with the lock of `free` held.
    fn publish(&self, chunks: Chunks) {
        schedule_point();
        self.chunks.store(Arc::new(chunks));
    }
}

fn charged(filter: Option<Filter>, account: &Arc<Account>) -> Option<Arc<ChargedFilter>> {
    filter.map(|filter| {
        let charge = account.charge(MemoryPart::Filters, filter.memory_bytes());
        Arc::new(ChargedFilter { filter, _charge: charge })
    })
}

fn put(chunks: &mut Chunks, slot: usize, content: FilterSlot) {
    let mut chunk = <[FilterSlot; CHUNK_SLOTS]>::clone(&chunks[slot / CHUNK_SLOTS]);
    chunk[slot % CHUNK_SLOTS] = content;
    chunks[slot / CHUNK_SLOTS] = Arc::new(chunk);
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use tamarack_filter::{FilterKind, Size};

    use super::*;
    use crate::memory::Budget;

    fn filter(bits: u64) -> Option<Filter> {
        Filter::build(FilterKind::Blocked, Size::Total(bits), &[])
    }

    /// A pin sees the filters of its moment, and never another table's filter in a reused slot.
    /// Memory is charged until the pin is dropped.
    #[test]
    fn what_is_pinned_stays_and_nobody_gets_the_filter_of_another() {
        let (all, account) = (FilterSlots::default(), Account::new(Budget::unlimited()));
        let bits_of =
            |pinned: &PinnedFilters, slot, table| pinned.of(slot, TableId(table)).map(|f| f.map(Filter::bits));
        let nothing = all.pin();
        let slots: Vec<usize> = (0..200).map(|table| all.add(TableId(table), filter(512), &account)).collect();
        assert_eq!(bits_of(&nothing, slots[7], 7), None);
        let pinned = all.pin();
        assert!((0..200).all(|table| bits_of(&pinned, slots[table as usize], table) == Some(Some(512))));
        let one = account.bytes(MemoryPart::Filters) / 200;

        all.replace(slots[7], TableId(7), filter(1024), &account);
        all.replace(slots[8], TableId(8), None, &account);
        all.remove(slots[9]);
        assert_eq!(all.add(TableId(300), None, &account), slots[9], "slots are used again");
        assert_eq!(bits_of(&pinned, slots[7], 7), Some(Some(512)));
        assert_eq!((bits_of(&pinned, slots[9], 9), bits_of(&pinned, slots[9], 300)), (Some(Some(512)), None));
        assert_eq!(account.bytes(MemoryPart::Filters), 201 * one + 64, "the old ones are still pinned");

        let now = all.pin();
        assert_eq!((bits_of(&now, slots[7], 7), bits_of(&now, slots[8], 8)), (Some(Some(1024)), Some(None)));
        assert_eq!((bits_of(&now, slots[9], 9), bits_of(&now, slots[9], 300)), (None, Some(None)));
        drop(pinned);
        assert_eq!(account.bytes(MemoryPart::Filters), 198 * one + 64);
    }
}
