//! [`FilterSlots`]: the filters in memory, one slot for each open table. A filter may be replaced while lookups ask it.
//!
//! ```text
//! lookup   pin ─► PinnedFilters ─► chunk ─► slot ─► Filter    one pin for all tables of a lookup; each table then takes a few loads
//! change   a new chunk and a new list of chunks replace the old ones; the old filter goes when the last lookup that pinned it ends
//! ```
//!
//! A lookup pins the slots **after** the state (`crate::tree::state`), so that it finds the slots
//! of its tables. A slot also names its table: no filter is asked for another table, and a lookup
//! that finds another name in a slot, or no slot, pins again.
//!
//! No lookup waits or allocates, and none counts references for a table: pinning is one operation
//! on an atomic pointer for all. A change copies a chunk and the list, and waits for other changes
//! only. Memory: a filter is charged until nobody can ask it any more.
//!
//! Which tables a lookup asks, and when, is decided in `crate::tree::filters`. Tests: here;
//! `tests/suite/retune.rs` and `tests/load/threads.rs` with lookups that go on.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tamarack_env::sync::{Mutex, schedule_point};
use tamarack_filter::Filter;

use crate::format::meta::TableId;
use crate::memory::{Account, Charge, Part};

/// So many slots are copied when one changes, and so many share an entry of the list.
const CHUNK_SLOTS: usize = 64;

/// The filters in use.
#[derive(Debug, Default)]
pub(super) struct FilterSlots {
    chunks: ArcSwap<Chunks>,
    /// Slots that nobody has. Held while something changes.
    free: Mutex<Vec<usize>>,
}

type Chunks = Vec<Arc<[Slot; CHUNK_SLOTS]>>;

/// The slot of a table.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Whose it is; nobody's at first.
    table: Option<TableId>,
    filter: Option<Arc<Charged>>,
}

/// A filter, as long as somebody can ask it.
#[derive(Debug)]
struct Charged {
    filter: Filter,
    _charge: Charge,
}

/// The filters in use at one moment, for the duration of a lookup, or of a few.
pub struct PinnedFilters(Guard<Arc<Chunks>>);

impl std::fmt::Debug for PinnedFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PinnedFilters").finish_non_exhaustive()
    }
}

impl PinnedFilters {
    /// The filter of a table, which may have none; nothing if the table had no slot yet when this
    /// was pinned.
    #[inline]
    pub(super) fn of(&self, slot: usize, table: TableId) -> Option<Option<&Filter>> {
        let slot = &self.0.get(slot / CHUNK_SLOTS)?[slot % CHUNK_SLOTS];
        (slot.table == Some(table)).then(|| slot.filter.as_ref().map(|charged| &charged.filter))
    }
}

impl FilterSlots {
    /// What is in use now.
    #[inline]
    pub(super) fn pin(&self) -> PinnedFilters {
        schedule_point();
        PinnedFilters(self.chunks.load())
    }

    /// A slot for a table, with its first filter.
    pub(super) fn add(&self, table: TableId, filter: Option<Filter>, account: &Arc<Account>) -> usize {
        let filter = charged(filter, account);
        let mut free = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        let slot = free.pop().unwrap_or_else(|| {
            let first = chunks.len() * CHUNK_SLOTS;
            chunks.push(Arc::new(std::array::from_fn(|_| Slot::default())));
            free.extend((first + 1..first + CHUNK_SLOTS).rev());
            first
        });
        put(&mut chunks, slot, Slot { table: Some(table), filter });
        self.publish(chunks);
        slot
    }

    /// Another filter for a table that has a slot.
    pub(super) fn replace(&self, slot: usize, table: TableId, filter: Option<Filter>, account: &Arc<Account>) {
        let filter = charged(filter, account);
        let _changing = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        put(&mut chunks, slot, Slot { table: Some(table), filter });
        self.publish(chunks);
    }

    /// The table is closed.
    pub(super) fn remove(&self, slot: usize) {
        let mut free = self.free.lock();
        let mut chunks = Chunks::clone(&self.chunks.load());
        put(&mut chunks, slot, Slot::default());
        free.push(slot);
        self.publish(chunks);
    }

    /// The caller holds the lock of those who change something.
    fn publish(&self, chunks: Chunks) {
        schedule_point();
        self.chunks.store(Arc::new(chunks));
    }
}

fn charged(filter: Option<Filter>, account: &Arc<Account>) -> Option<Arc<Charged>> {
    filter.map(|filter| {
        let charge = account.charge(Part::Filters, filter.memory_bytes());
        Arc::new(Charged { filter, _charge: charge })
    })
}

fn put(chunks: &mut Chunks, slot: usize, content: Slot) {
    let mut chunk = <[Slot; CHUNK_SLOTS]>::clone(&chunks[slot / CHUNK_SLOTS]);
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

    /// Slots are whose they say: a lookup that pinned before finds what was there then, and no
    /// other table's filter in a slot that was given on. Memory is charged until it lets go.
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
        let one = account.bytes(Part::Filters) / 200;

        all.replace(slots[7], TableId(7), filter(1024), &account);
        all.replace(slots[8], TableId(8), None, &account);
        all.remove(slots[9]);
        assert_eq!(all.add(TableId(300), None, &account), slots[9], "slots are used again");
        assert_eq!(bits_of(&pinned, slots[7], 7), Some(Some(512)));
        assert_eq!((bits_of(&pinned, slots[9], 9), bits_of(&pinned, slots[9], 300)), (Some(Some(512)), None));
        assert_eq!(account.bytes(Part::Filters), 201 * one + 64, "the old ones are still pinned");

        let now = all.pin();
        assert_eq!((bits_of(&now, slots[7], 7), bits_of(&now, slots[8], 8)), (Some(Some(1024)), Some(None)));
        assert_eq!((bits_of(&now, slots[9], 9), bits_of(&now, slots[9], 300)), (None, Some(None)));
        drop(pinned);
        assert_eq!(account.bytes(Part::Filters), 198 * one + 64);
    }
}
