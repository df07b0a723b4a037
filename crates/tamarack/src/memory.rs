//! The account of one database's memory: what each part takes, and how much of the budget is left
//! for the cache.
//!
//! ```text
//! budget │ buffers │ merges │ filters │ indexes │ iterators │ log, files │ held │ cache ······ │
//!        └ at least their reservation ┘                                  │      └ what is left
//!                                                        blocks that the cache has let go of,
//!                                                        but a value or an iterator still needs
//! ```
//!
//! Whoever takes memory for long holds a [`Charge`] beside it: making it adds to its part, dropping
//! it subtracts. So the account cannot forget to give back, and what a user still holds stays
//! charged for as long as it lives: a block carries its charge wherever it goes, a buffer's chunks
//! are charged until the last cursor, value or flush lets go of them.
//!
//! Nobody is refused memory, and nobody waits for it. What gives way is the cache: whenever a part
//! has grown by a grain, the cache is given what the others leave of the budget, down to a minimum.
//! Flushes and merges have a reservation, so that in ordinary times they leave the cache alone.
//! What bounds the other parts stands with them: buffers are sealed by size, and writers wait for
//! flushes; the tables that merges build end early if building them takes much. Filters and indexes
//! that outgrow the budget are shown as such, and answer all the same.
//!
//! # What is not charged
//!
//! What lives for one call (a block before it is decompressed, a table's end while it is opened),
//! and the fixed parts of an open database: together the slack that
//! [`crate::Options::memory_bytes`] states.
//!
//! # Cost
//!
//! One addition to a shared number for each block read, each 16 KiB to 2 MiB of a buffer, each
//! read-ahead window: nothing for a lookup that the cache answers. Settling takes about a
//! microsecond, once a grain (a 256th of the budget).
//!
//! Tests: here; `tests/memory/main.rs` beside a counting allocator.

#![expect(
    clippy::disallowed_types,
    reason = "numbers that order nothing, and change in destructors that run inside locks of others: the explorer of schedules would gain nothing and block there"
)]

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The parts of an open database that take memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Buffers that take writes, wait for their flush, or are held by a reader after it.
    Buffers,
    /// Filters of open tables.
    Filters,
    /// Top indexes of open tables.
    Indexes,
    /// Blocks that were read for queries: those in the cache, those of indexes that stay in memory,
    /// and those that only a reader holds.
    Blocks,
    /// Scans: their cursors, and what they have read ahead.
    Iterators,
    /// What flushes and merges read ahead, and the tables they build.
    Merges,
    /// Writes on their way into the log.
    Wal,
    /// What is known of each table and each run.
    Tables,
}

const PARTS: usize = 8;

/// A buffer is sealed early if it takes so many times its size in raw bytes, and more than a
/// quarter of the budget: so do buffers of entries of less than about 60 raw bytes.
const MEMORY_PER_RAW_BYTE: u64 = 2;

/// How a budget is divided, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// All of it.
    pub total_bytes: u64,
    /// What the cache leaves to flushes and merges, whether they use it or not.
    pub compactions_bytes: u64,
    /// What the cache keeps however much the other parts take.
    pub cache_bytes_min: u64,
    /// What the cache takes however little the other parts do.
    pub cache_bytes_max: u64,
}

impl Budget {
    /// The usual division of `total_bytes`, with a cache that takes at most `cache_bytes_max`.
    pub fn new(total_bytes: u64, cache_bytes_max: u64) -> Self {
        let cache_bytes_min = (total_bytes / 32).min(cache_bytes_max);
        Self { total_bytes, compactions_bytes: total_bytes / 16, cache_bytes_min, cache_bytes_max }
    }

    /// What a buffer takes at most, if it is to hold `memtable_bytes` of raw bytes.
    pub fn memtable_memory_max(&self, memtable_bytes: u64) -> u64 {
        memtable_bytes.saturating_mul(MEMORY_PER_RAW_BYTE).max(self.total_bytes / 4)
    }

    /// So much that nothing is ever over it.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX / 2, u64::MAX / 2)
    }
}

/// What takes the rest of the budget, and gives it back when asked.
pub trait Elastic: Send + Sync {
    /// Memory of the blocks it keeps, as they were charged.
    fn block_bytes(&self) -> u64;
    /// All memory that it takes besides these.
    fn other_bytes(&self) -> u64;
    /// What it may take.
    fn capacity(&self) -> u64;
    /// Changes that, and lets go of what is too much, in this call.
    fn set_capacity(&self, bytes: u64);
}

/// What a database takes, by part. See the module's documentation.
pub struct Account {
    budget: Budget,
    parts: [Sum; PARTS],
    /// What the cache leaves to buffers, whether they use it or not.
    memtables_reserved: AtomicU64,
    /// Of the blocks, those of indexes that stay in memory as long as their table is open.
    kept_bytes: AtomicU64,
    cache: OnceLock<Weak<dyn Elastic>>,
    /// Somebody settles.
    settling: AtomicBool,
}

/// The bytes of one part, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Sum {
    bytes: AtomicU64,
    /// What they were when the cache was last settled because of this part.
    settled: AtomicU64,
}

/// A part of the account that belongs to something, and ends with it.
#[derive(Default)]
pub struct Charge {
    /// Where it is counted; nowhere for things that stand alone, as in tests.
    account: Option<(Arc<Account>, Part)>,
    bytes: u64,
}

impl Account {
    /// An account on which nothing is charged yet.
    pub fn new(budget: Budget) -> Arc<Self> {
        Arc::new(Self {
            budget,
            parts: Default::default(),
            memtables_reserved: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            cache: OnceLock::new(),
            settling: AtomicBool::new(false),
        })
    }

    /// The budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Charges `bytes` to `part` until the returned value is dropped.
    pub fn charge(self: &Arc<Self>, part: Part, bytes: usize) -> Charge {
        let mut charge = Charge { account: Some((self.clone(), part)), bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// What is charged to `part`.
    pub fn bytes(&self, part: Part) -> u64 {
        self.parts[part as usize].bytes.load(Ordering::Relaxed)
    }

    /// Names what takes the rest; may be called once. It is given its share now.
    pub fn set_cache(&self, cache: &Arc<impl Elastic + 'static>) {
        let cache: Weak<dyn Elastic> = Arc::downgrade(&(cache.clone() as Arc<dyn Elastic>));
        assert!(self.cache.set(cache).is_ok(), "an account has one cache");
        self.settle();
    }

    /// Has the cache leave so much to buffers from now on, whether they use it or not.
    pub fn reserve_for_memtables(&self, bytes: u64) {
        self.memtables_reserved.store(bytes.min(self.budget.total_bytes / 2), Ordering::Relaxed);
        self.settle();
    }

    /// Counts so many bytes of the blocks among those that stay in memory, unless there were more
    /// than `max_bytes` of these then.
    pub fn keep(&self, bytes: u64, max_bytes: u64) -> bool {
        let fits = |kept: u64| Some(kept + bytes).filter(|&kept| kept <= max_bytes);
        self.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// So many bytes do not stay in memory any more.
    pub fn let_go(&self, bytes: u64) {
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Memory of blocks that stay in memory, beside the cache.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// Memory of blocks that the cache does not have any more, or never had, and that somebody
    /// still holds.
    pub fn pinned_bytes(&self) -> u64 {
        let cached = self.cache().map_or(0, |cache| cache.block_bytes());
        self.bytes(Part::Blocks).saturating_sub(cached + self.kept_bytes())
    }

    /// Memory that the cache takes.
    pub fn cache_bytes(&self) -> u64 {
        self.cache().map_or(0, |cache| cache.block_bytes() + cache.other_bytes())
    }

    /// What the cache may take now.
    pub fn cache_capacity(&self) -> u64 {
        self.cache().map_or(0, |cache| cache.capacity())
    }

    /// All memory that is charged.
    pub fn total_bytes(&self) -> u64 {
        let charged: u64 = self.parts.iter().map(|part| part.bytes.load(Ordering::Relaxed)).sum();
        charged + self.cache().map_or(0, |cache| cache.other_bytes())
    }

    /// How much the whole is over the budget, now that the cache has given way.
    pub fn over_bytes(&self) -> u64 {
        self.total_bytes().saturating_sub(self.budget.total_bytes)
    }

    /// What the cache may take as long as all blocks are in it.
    pub fn cache_share(&self) -> u64 {
        self.room(0)
    }

    /// How much one cursor of a merge reads at once at most, and a table that is built writes:
    /// little beside the budget, since there are many.
    pub fn piece_bytes(&self) -> usize {
        (self.budget.total_bytes / 512).clamp(32 << 10, 512 << 10) as usize
    }

    /// Scans have taken so much that they should make do with a block at a time.
    pub fn scans_are_many(&self) -> bool {
        self.bytes(Part::Iterators) > self.budget.total_bytes / 8
    }

    /// Flushes and merges have taken so much that no further merge should join them.
    pub fn compactions_are_large(&self) -> bool {
        self.bytes(Part::Merges) > self.budget.total_bytes / 4
    }

    /// What building one table takes at most for its entries (their digests and fences): from then
    /// on it ends at the next key.
    pub fn building_bytes_max(&self) -> u64 {
        (self.budget.total_bytes / 32).max(256 << 10)
    }

    /// What the cache may take, if so many bytes of blocks are not in it.
    fn room(&self, not_cached_bytes: u64) -> u64 {
        use Part::{Buffers, Filters, Indexes, Iterators, Merges, Tables, Wal};
        let reserved = |part: Part| match part {
            Buffers => self.memtables_reserved.load(Ordering::Relaxed),
            Merges => self.budget.compactions_bytes,
            _ => 0,
        };
        let others = [Buffers, Filters, Indexes, Iterators, Merges, Wal, Tables];
        let others: u64 = others.map(|part| self.bytes(part).max(reserved(part))).iter().sum();
        let Budget { total_bytes, cache_bytes_min, cache_bytes_max, .. } = self.budget;
        total_bytes.saturating_sub(others + not_cached_bytes).clamp(cache_bytes_min, cache_bytes_max)
    }

    fn cache(&self) -> Option<Arc<dyn Elastic>> {
        self.cache.get().and_then(Weak::upgrade)
    }

    /// Gives the cache what the others leave. It shrinks at once, but grows only for the sake of a
    /// sixteenth: each change costs it something of what it remembers about blocks that it no
    /// longer has.
    fn settle(&self) {
        let Some(cache) = self.cache() else { return };
        // Whoever settles now sees nearly what we see; the next grain comes soon.
        if self.settling.swap(true, Ordering::Acquire) {
            return;
        }
        let not_cached = self.bytes(Part::Blocks).saturating_sub(cache.block_bytes());
        let (room, capacity) = (self.room(not_cached), cache.capacity());
        let is_worth_growing =
            room > capacity && (room - capacity >= capacity / 16 || room == self.budget.cache_bytes_max);
        if room < capacity || is_worth_growing {
            cache.set_capacity(room);
        }
        self.settling.store(false, Ordering::Release);
    }

    /// So much a part may grow before the cache is settled again.
    fn grain_bytes(&self) -> u64 {
        self.budget.total_bytes / 256
    }

    fn add(&self, part: Part, bytes: u64) {
        let sum = &self.parts[part as usize];
        let now = sum.bytes.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        // Compared with where the part was last settled, so that one that goes up and down by less settles
        // nothing.
        if now.abs_diff(sum.settled.load(Ordering::Relaxed)) > self.grain_bytes() {
            sum.settled.store(now, Ordering::Relaxed);
            self.settle();
        }
    }

    /// Settles nothing: this happens in destructors, some of them inside of the cache.
    fn subtract(&self, part: Part, bytes: u64) {
        let before = self.parts[part as usize].bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes are taken off the {before} of {part:?}");
    }
}

impl Charge {
    /// Changes what it stands for.
    pub fn set(&mut self, bytes: usize) {
        let (before, bytes) = (self.bytes, bytes as u64);
        self.bytes = bytes;
        let Some((account, part)) = &self.account else { return };
        match bytes.checked_sub(before) {
            Some(0) => {}
            Some(more) => account.add(*part, more),
            None => account.subtract(*part, before - bytes),
        }
    }

    /// Adds to what it stands for.
    pub fn grow(&mut self, bytes: usize) {
        self.set(self.bytes as usize + bytes);
    }

    /// What it stands for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// As [`Account::charge`]; what is on no account is charged to none.
    pub fn to(account: Option<&Arc<Account>>, part: Part, bytes: usize) -> Self {
        account.map_or(Self { account: None, bytes: bytes as u64 }, |account| account.charge(part, bytes))
    }
}

/// A value with the charge of its memory beside it, for as long as anybody has the value.
#[derive(Debug)]
pub struct Charged<T> {
    value: T,
    charge: Charge,
}

impl<T> Charged<T> {
    /// `value`, to be shared. What it takes (`bytes` says that, its own size included) is charged
    /// to `part` of the account, if there is one.
    pub fn share(value: T, bytes: impl Fn(&T) -> usize, account: Option<&Arc<Account>>, part: Part) -> Arc<Self> {
        // With the two counters of the `Arc`.
        let beside = size_of::<Self>() - size_of::<T>() + 2 * size_of::<usize>();
        let charge = Charge::to(account, part, bytes(&value) + beside);
        Arc::new(Self { value, charge })
    }

    /// The memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.charge.bytes() as usize
    }

    /// The value by itself.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> Deref for Charged<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((account, part)) = &self.account
            && self.bytes > 0
        {
            account.subtract(*part, self.bytes);
        }
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Charge").field(&self.bytes).finish()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("total_bytes", &self.total_bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Charges add up and go; the cache is given what is left, and takes it back in grains.

    use super::*;

    /// Keeps nothing but a record of what it was told.
    #[derive(Default)]
    struct Told {
        capacity: AtomicU64,
        changes: AtomicU64,
        block_bytes: AtomicU64,
    }

    impl Elastic for Told {
        fn block_bytes(&self) -> u64 {
            self.block_bytes.load(Ordering::Relaxed)
        }

        fn other_bytes(&self) -> u64 {
            7
        }

        fn capacity(&self) -> u64 {
            self.capacity.load(Ordering::Relaxed)
        }

        fn set_capacity(&self, bytes: u64) {
            self.capacity.store(bytes, Ordering::Relaxed);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn with_cache(total_bytes: u64, cache_bytes_max: u64) -> (Arc<Account>, Arc<Told>) {
        let account = Account::new(Budget::new(total_bytes, cache_bytes_max));
        let cache = Arc::new(Told::default());
        account.set_cache(&cache);
        (account, cache)
    }

    #[test]
    fn charges_add_up_and_go_with_what_they_stand_for() {
        let account = Account::new(Budget::unlimited());
        let mut filter = account.charge(Part::Filters, 100);
        let other = account.charge(Part::Filters, 11);
        let buffer = account.charge(Part::Buffers, 5);
        assert_eq!((account.bytes(Part::Filters), account.bytes(Part::Buffers), account.total_bytes()), (111, 5, 116));
        filter.set(30);
        filter.grow(2);
        assert_eq!((account.bytes(Part::Filters), filter.bytes()), (43, 32));
        drop((filter, other, buffer));
        assert_eq!(account.total_bytes(), 0);
        assert_eq!(Arc::strong_count(&account), 1);
        let mut alone = Charge::default();
        alone.set(5);
        assert_eq!(alone.bytes(), 5);
    }

    #[test]
    fn the_cache_gets_what_the_others_leave() {
        let (account, cache) = with_cache(1 << 20, u64::MAX);
        let reserved = (1 << 20) / 16;
        assert_eq!(cache.capacity(), (1 << 20) - reserved);
        account.reserve_for_memtables(200_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 200_000);
        // Within the reservations nothing changes.
        let mut buffer = account.charge(Part::Buffers, 150_000);
        let merge = account.charge(Part::Merges, 60_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 200_000);
        buffer.set(300_000);
        let filter = account.charge(Part::Filters, 100_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 400_000);
        // Blocks that it keeps are its own; those that others hold are not.
        cache.block_bytes.store(50_000, Ordering::Relaxed);
        let block = account.charge(Part::Blocks, 80_000);
        assert_eq!(account.pinned_bytes(), 30_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 430_000);
        assert_eq!((account.cache_bytes(), account.total_bytes()), (50_007, 540_007));
        // It never goes below its minimum; what is too much is told.
        let iterator = account.charge(Part::Iterators, 2 << 20);
        assert_eq!(cache.capacity(), (1 << 20) / 32);
        assert_eq!(account.over_bytes(), 540_007 + (1 << 20));
        drop((merge, filter, block, iterator));
        assert_eq!(cache.capacity(), (1 << 20) / 32, "destructors settle nothing");
        buffer.set(310_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 310_000 + 50_000 - 50_000);
        assert_eq!(account.over_bytes(), 0);
    }

    #[test]
    fn the_cache_is_settled_by_the_grain() {
        let (account, cache) = with_cache(1 << 20, u64::MAX);
        let before = cache.changes.load(Ordering::Relaxed);
        let charges: Vec<_> = (0..1000).map(|_| account.charge(Part::Filters, 100)).collect();
        let changes = cache.changes.load(Ordering::Relaxed) - before;
        assert!((20..=25).contains(&changes), "{changes} changes for 100,000 bytes in grains of 4,096");
        assert!(cache.capacity() < (1 << 20) - (1 << 16) - 95_000);
        // Up and down within a grain.
        for _ in 0..1000 {
            drop(account.charge(Part::Filters, 4000));
        }
        assert!(cache.changes.load(Ordering::Relaxed) - before <= changes + 1);
        // What is given back reaches the cache with the next grain, if it is worth it.
        drop(charges);
        let _filter = account.charge(Part::Filters, 60_000);
        assert_eq!(cache.changes.load(Ordering::Relaxed) - before, changes + 1, "less than a sixteenth is not");
    }

    #[test]
    fn the_cache_stays_between_its_bounds() {
        let (_, cache) = with_cache(1 << 20, 100_000);
        assert_eq!(cache.capacity(), 100_000);
        let (_, cache) = with_cache(1 << 20, 0);
        assert_eq!(cache.capacity(), 0);
    }
}
