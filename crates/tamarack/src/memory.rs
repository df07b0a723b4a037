//! Memory accounting of one database: the bytes that each part takes, and the share of the memory
//! budget that is left for the block cache.
//!
//! ```text
//! budget │ memtables │ compactions │ filters │ indexes │ iterators │ WAL, files │ pinned │ cache │
//!        └ at least their reservation ────┘                                   │        └ the rest
//!                                                        blocks evicted from the cache that
//!                                                        a value or an iterator still pins
//! ```
//!
//! A [`Charge`] accompanies all memory that outlives a call: making it adds to its part, dropping
//! it subtracts. Memory that a user pins therefore stays charged as long as it lives: a block
//! carries its charge, and a memtable's chunks are charged until the last cursor, value or flush
//! releases them.
//!
//! No allocation is refused or delayed. The cache yields: whenever a part has grown by a grain, the
//! capacity of the cache becomes what the other parts leave of the budget, down to a minimum. A
//! reservation for flushes and compactions keeps them from shrinking the cache in ordinary times.
//! Other mechanisms bound the other parts: memtables switch by size and writers wait for flushes;
//! output tables of compactions end early if building them takes much. Filters and indexes that
//! outgrow the budget are reported and keep working.
//!
//! # What is not charged
//!
//! Memory of a single call (a block before decompression, a table's footer while it is opened) and
//! the fixed parts of an open database. [`crate::Options::memory_bytes`] states their sum.
//!
//! # Cost
//!
//! One atomic addition for each block read, each 16 KiB to 2 MiB of a memtable, and each read-ahead
//! window; none for a lookup that the cache answers. Settling takes about a microsecond, once a
//! grain (a 256th of the budget).
//!
//! Tests: here; `tests/memory/main.rs` compares with a counting allocator.

#![expect(
    clippy::disallowed_types,
    reason = "numbers that order nothing, and change in destructors that run inside locks of others: the explorer of schedules would gain nothing and block there"
)]

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A part of an open database that takes memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPart {
    /// Memtables: active and immutable ones.
    Memtables,
    /// Memtables that only readers pin after their flush.
    PinnedMemtables,
    /// Bloom filters of open tables.
    Filters,
    /// Top indexes of open tables.
    Indexes,
    /// Blocks read for queries: those in the cache, index blocks that stay in memory, and those
    /// that only readers pin.
    Blocks,
    /// Scans, without their cursors: read-ahead windows, and scans that rest.
    Iterators,
    /// Cursors of scans, without the blocks that they pin, and those that are kept for the next
    /// scans.
    Cursors,
    /// Read-ahead of flushes and compactions, and the tables they build.
    Compactions,
    /// Records on their way into the WAL.
    Wal,
    /// Metadata of tables and runs, and range deletes that tables still need.
    Tables,
    /// Transactions: what they have read, written and locked, and the keys that others write
    /// meanwhile.
    Transactions,
}

const PARTS: usize = 11;

/// Multiple of a memtable's size in raw bytes at which it is switched early, if it also takes more
/// than a quarter of the budget. Entries of less than about 60 raw bytes reach it.
const MEMORY_PER_RAW_BYTE: u64 = 2;

/// Memory of a cursor with what it keeps, as a multiple of its own memory, about 1 KiB: a data
/// block and an index block of 4 KiB, their fences, and the piece that was read for them.
const REACH_PER_CURSOR_BYTE: u64 = 16;

/// The cursors that scans keep between calls even where the budget is small, in bytes: about 256.
const CURSORS_BYTES_MIN: u64 = 256 << 10;

/// Scans that do not rest, as long as their cursors take at most half of the budget and
/// [`AWAKE_BYTES`]. A scan that rests at each step reads a block of each run for each entry, which
/// is for the many that are idle most of the time, not for the few that programs work through.
/// Those that are idle with cursors count, too: only a scan that is called can rest.
const AWAKE_MAX: u64 = 8;

/// See [`AWAKE_MAX`]: half of what resident memory may exceed the budget by.
const AWAKE_BYTES: u64 = 32 << 20;

/// Rests of scans after which the allocator is made to give back what it keeps. Cursors and blocks
/// that come and go on many threads leave holes in the heap of each: at the fullest moment of eight
/// threads with 100,000 scans, these were as large as all that was in use. So many rests took such
/// threads 80 milliseconds, and giving back 5.
const RESTS_PER_TRIM: u64 = 4096;

/// The part of the budget that the keys may take that are noted while transactions are active: one
/// in so many. Of a budget of 256 MiB, 8 MiB, or 80,000 writes with keys of 40 bytes.
const COMMIT_WINDOW_SHARE: u64 = 32;

/// The upper bound on their memory under any budget, in bytes: some 400,000 writes with keys of 16
/// bytes. A commit that is compared with so many takes 40 turns, and 20,000 in the last.
const COMMIT_WINDOW_BYTES_MAX: u64 = 32 << 20;

/// The upper bound on a piece that a compaction reads or writes: on a disk with a seek of 8 ms
/// still 60 MB/s.
const PIECE_BYTES_MAX: u64 = 512 << 10;

/// The division of a memory budget, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The whole budget.
    pub total_bytes: u64,
    /// The reservation of flushes and compactions, kept free whether they use it or not.
    pub compactions_bytes: u64,
    /// The lower bound on the capacity of the cache.
    pub cache_bytes_min: u64,
    /// The upper bound on the capacity of the cache.
    pub cache_bytes_max: u64,
}

impl Budget {
    /// Divides `total_bytes` as usual, for a cache of at most `cache_bytes_max`.
    pub fn new(total_bytes: u64, cache_bytes_max: u64) -> Self {
        let cache_bytes_min = (total_bytes / 32).min(cache_bytes_max);
        Self { total_bytes, compactions_bytes: total_bytes / 16, cache_bytes_min, cache_bytes_max }
    }

    /// The upper bound on the memory of a memtable for `memtable_bytes` raw bytes.
    #[inline]
    pub fn memtable_memory_max(&self, memtable_bytes: u64) -> u64 {
        memtable_bytes.saturating_mul(MEMORY_PER_RAW_BYTE).max(self.total_bytes / 4)
    }

    /// The upper bound on the memory of the keys that are noted while transactions are active:
    /// above it, the oldest transactions can no longer commit. A large budget allows no more than a
    /// commit can be compared with in short turns.
    pub fn commit_window_bytes_max(&self) -> usize {
        (self.total_bytes / COMMIT_WINDOW_SHARE).min(COMMIT_WINDOW_BYTES_MAX) as usize
    }

    /// A budget that is never exceeded.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX / 2, u64::MAX / 2)
    }
}

/// A cache that takes the rest of the budget and shrinks on request.
pub trait Elastic: Send + Sync {
    /// The memory of its blocks, as charged.
    fn block_bytes(&self) -> u64;
    /// All its other memory.
    fn other_bytes(&self) -> u64;
    /// The upper bound on its memory.
    fn capacity(&self) -> u64;
    /// Changes the capacity, and evicts at once what exceeds it.
    fn set_capacity(&self, bytes: u64);
}

/// The memory of a database by part. See the module's documentation.
pub struct Account {
    budget: Budget,
    parts: [Sum; PARTS],
    /// The reservation of memtables, kept free whether they use it or not.
    memtables_reserved: AtomicU64,
    /// The bytes of index blocks that stay in memory while their table is open.
    kept_bytes: AtomicU64,
    cache: OnceLock<Weak<dyn Elastic>>,
    /// Scans that have cursors.
    scans_awake: AtomicU64,
    /// Rests of scans.
    rests: AtomicU64,
    /// True while a thread settles.
    settling: AtomicBool,
    /// True if the cache cannot yield any more, and readers pin much, as of the last settling.
    is_short: AtomicBool,
}

/// The bytes of one part, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Sum {
    bytes: AtomicU64,
    /// The bytes when this part last caused the cache to be settled.
    settled: AtomicU64,
}

/// Charged memory. Dropping the value subtracts it from the account.
#[derive(Default)]
pub struct Charge {
    /// The account and the part; `None` if the memory is not accounted for, as in tests.
    account: Option<(Arc<Account>, MemoryPart)>,
    bytes: u64,
}

impl Account {
    /// Makes an account without charges.
    pub fn new(budget: Budget) -> Arc<Self> {
        Arc::new(Self {
            budget,
            parts: Default::default(),
            memtables_reserved: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            cache: OnceLock::new(),
            scans_awake: AtomicU64::new(0),
            rests: AtomicU64::new(0),
            settling: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
        })
    }

    /// The budget.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Charges `bytes` to `part` until the returned value is dropped.
    pub fn charge(self: &Arc<Self>, part: MemoryPart, bytes: usize) -> Charge {
        let mut charge = Charge { account: Some((self.clone(), part)), bytes: 0 };
        charge.set(bytes);
        charge
    }

    /// The bytes charged to `part`.
    pub fn bytes(&self, part: MemoryPart) -> u64 {
        self.parts[part as usize].bytes.load(Ordering::Relaxed)
    }

    /// Registers the cache, which gets its share at once. May be called once.
    pub fn set_cache(&self, cache: &Arc<impl Elastic + 'static>) {
        let cache: Weak<dyn Elastic> = Arc::downgrade(&(cache.clone() as Arc<dyn Elastic>));
        assert!(self.cache.set(cache).is_ok(), "an account has one cache");
        self.settle();
    }

    /// Reserves memory for memtables of so many raw bytes, whether they use it or not: for the
    /// active one and one being flushed, with the overhead of ordinary entries, and at most half of
    /// the budget.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        let reserved = bytes.saturating_mul(3).min(self.budget.total_bytes / 2);
        self.memtables_reserved.store(reserved, Ordering::Relaxed);
        self.settle();
    }

    /// Counts `bytes` of blocks as staying in memory, and returns true, unless more than
    /// `max_bytes` do already.
    pub fn keep(&self, bytes: u64, max_bytes: u64) -> bool {
        let fits = |kept: u64| Some(kept + bytes).filter(|&kept| kept <= max_bytes);
        self.kept_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Subtracts `bytes` from the blocks that stay in memory.
    pub fn let_go(&self, bytes: u64) {
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes of blocks that stay in memory, outside of the cache.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// The bytes of blocks that are not in the cache, and that readers pin.
    pub fn pinned_bytes(&self) -> u64 {
        let cached = self.cache().map_or(0, |cache| cache.block_bytes());
        self.bytes(MemoryPart::Blocks).saturating_sub(cached + self.kept_bytes())
    }

    /// The memory of the cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache().map_or(0, |cache| cache.block_bytes() + cache.other_bytes())
    }

    /// The current capacity of the cache.
    pub fn cache_capacity(&self) -> u64 {
        self.cache().map_or(0, |cache| cache.capacity())
    }

    /// The sum of all charges.
    pub fn total_bytes(&self) -> u64 {
        let charged: u64 = self.parts.iter().map(|part| part.bytes.load(Ordering::Relaxed)).sum();
        charged + self.cache().map_or(0, |cache| cache.other_bytes())
    }

    /// The bytes by which all parts together exceed the budget, after the cache has shrunk.
    pub fn over_bytes(&self) -> u64 {
        self.total_bytes().saturating_sub(self.budget.total_bytes)
    }

    /// The capacity of the cache while no block outside of it is pinned.
    pub fn cache_share(&self) -> u64 {
        self.capacity_beside(0)
    }

    /// The upper bound on one read of a compaction's cursor and on one write of a table in
    /// progress, where there are many of them: small beside the budget. Blocks of this size and
    /// more count as large for cursors.
    pub fn piece_bytes(&self) -> usize {
        (self.budget.total_bytes / 512).clamp(32 << 10, PIECE_BYTES_MAX) as usize
    }

    /// The same of a compaction of so many runs: half of what is reserved for compactions is shared
    /// among the two pieces of each cursor and that of the output. Each piece takes a wake-up of
    /// the reader and a system call, and a small one has a few hundred entries. None has more than
    /// 1/256 of the budget, for the environment may keep memory of its length once more.
    pub fn piece_bytes_of(&self, runs: usize) -> usize {
        let shared = self.budget.compactions_bytes / 2 / (2 * runs as u64 + 1);
        let most = PIECE_BYTES_MAX.min(self.budget.total_bytes / 256);
        (shared.min(most) as usize).max(self.piece_bytes())
    }

    /// The bytes of scans and their cursors, without pinned blocks and memtables.
    pub fn scans_bytes(&self) -> u64 {
        self.bytes(MemoryPart::Iterators) + self.bytes(MemoryPart::Cursors)
    }

    /// Returns true if scans take so much that they should read one block at a time.
    pub fn scans_are_many(&self) -> bool {
        self.scans_bytes() > self.budget.total_bytes / 8
    }

    /// Returns true if what scans have may be kept for others: cursors, those of open scans
    /// included, take at most 1/256 of the budget.
    pub fn may_keep_cursors(&self) -> bool {
        self.bytes(MemoryPart::Cursors) <= self.budget.total_bytes / 256
    }

    /// Returns true if scans should hold no memory between two calls: more than [`AWAKE_MAX`] do
    /// (more than one, if they take very much), and their cursors, with the blocks that these may
    /// pin, take more than an eighth of the budget; or all that readers pin does, and the cache
    /// cannot shrink any more.
    pub fn scans_should_rest(&self) -> bool {
        let cursors_bytes = self.bytes(MemoryPart::Cursors);
        let is_much = || {
            cursors_bytes > self.cursors_bytes_max() || self.is_short.load(Ordering::Relaxed) && self.is_still_short()
        };
        let reach_bytes = cursors_bytes.saturating_mul(REACH_PER_CURSOR_BYTE);
        let awake_max = if reach_bytes <= self.budget.total_bytes / 2 + AWAKE_BYTES { AWAKE_MAX } else { 1 };
        self.scans_awake.load(Ordering::Relaxed) > awake_max && is_much()
    }

    /// Counts a scan as one with cursors, until [`Account::scan_has_no_cursors`].
    pub fn scan_awakes(&self) {
        self.scans_awake.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a scan with cursors no longer.
    pub fn scan_has_no_cursors(&self) {
        self.scans_awake.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a scan that has released its cursors because memory is short. Once in a while, makes
    /// the allocator give back what it keeps.
    pub fn scan_rests(&self) {
        if self.rests.fetch_add(1, Ordering::Relaxed) % RESTS_PER_TRIM == RESTS_PER_TRIM - 1 {
            tamarack_env::trim_allocator();
        }
    }

    /// The upper bound on the bytes of cursors that scans keep between calls.
    fn cursors_bytes_max(&self) -> u64 {
        (self.budget.total_bytes / (8 * REACH_PER_CURSOR_BYTE)).max(CURSORS_BYTES_MIN)
    }

    /// Settles, since destructors do not, and returns true if memory is short all the same.
    #[cold]
    fn is_still_short(&self) -> bool {
        self.settle();
        self.is_short.load(Ordering::Relaxed)
    }

    /// Returns true if blocks that readers pin take so much, without one of `own_bytes`, that scans
    /// should release large blocks whose entries are not next.
    pub fn pinned_blocks_are_many(&self, own_bytes: u64) -> bool {
        self.pinned_bytes() > self.budget.total_bytes / 8 + own_bytes
    }

    /// Returns true if the budget has space for another block of `bytes`, for which the cache can
    /// shrink; or if other blocks of that `part` take too little to be the reason why not.
    pub fn has_space_for_block(&self, part: MemoryPart, bytes: u64) -> bool {
        let cached = self.cache().map_or(0, |cache| cache.block_bytes());
        let evictable = cached.saturating_sub(self.budget.cache_bytes_min);
        let fits = self.total_bytes().saturating_sub(evictable) + bytes <= self.budget.total_bytes;
        let of_part = if part == MemoryPart::Blocks { self.pinned_bytes() } else { self.bytes(part) };
        fits || of_part <= self.budget.total_bytes / 8
    }

    /// As [`Account::pinned_blocks_are_many`], of flushes and compactions.
    pub fn blocks_of_compactions_are_many(&self, own_bytes: u64) -> bool {
        self.bytes(MemoryPart::Compactions) > self.budget.total_bytes / 8 + own_bytes
    }

    /// Returns true if flushes and compactions take so much that no further compaction should
    /// start.
    pub fn compactions_are_large(&self) -> bool {
        self.bytes(MemoryPart::Compactions) > self.budget.total_bytes / 4
    }

    /// The upper bound on the digests and fences of one table in progress. A table that reaches it
    /// ends at the next key. Lists of keys and digests for a filter over the whole tree keep to it,
    /// too, or to a part of it.
    pub fn building_bytes_max(&self) -> u64 {
        (self.budget.total_bytes / 32).max(256 << 10)
    }

    /// The capacity of the cache if `not_cached_bytes` of blocks are outside of it.
    fn capacity_beside(&self, not_cached_bytes: u64) -> u64 {
        self.left_beside(not_cached_bytes).clamp(self.budget.cache_bytes_min, self.budget.cache_bytes_max)
    }

    /// What other parts and their reservations, and `not_cached_bytes` of blocks, leave of the
    /// budget.
    fn left_beside(&self, not_cached_bytes: u64) -> u64 {
        use MemoryPart::{
            Compactions, Cursors, Filters, Indexes, Iterators, Memtables, PinnedMemtables, Tables, Transactions, Wal,
        };
        let reserved = |part: MemoryPart| match part {
            Memtables => self.memtables_reserved.load(Ordering::Relaxed),
            Compactions => self.budget.compactions_bytes,
            _ => 0,
        };
        let others =
            [Memtables, PinnedMemtables, Filters, Indexes, Iterators, Cursors, Compactions, Wal, Tables, Transactions];
        let others: u64 = others.map(|part| self.bytes(part).max(reserved(part))).iter().sum();
        self.budget.total_bytes.saturating_sub(others + not_cached_bytes)
    }

    fn cache(&self) -> Option<Arc<dyn Elastic>> {
        self.cache.get().and_then(Weak::upgrade)
    }

    /// Gives the cache what the other parts leave. It shrinks at once but grows only by a sixteenth
    /// or more, since each change costs it some of its history of evicted blocks.
    fn settle(&self) {
        let Some(cache) = self.cache() else { return };
        // The thread that settles sees nearly the same sums; the next grain comes soon.
        if self.settling.swap(true, Ordering::Acquire) {
            return;
        }
        let not_cached = self.bytes(MemoryPart::Blocks).saturating_sub(cache.block_bytes());
        let (share, capacity) = (self.capacity_beside(not_cached), cache.capacity());
        let is_worth_growing =
            share > capacity && (share - capacity >= capacity / 16 || share == self.budget.cache_bytes_max);
        if share < capacity || is_worth_growing {
            cache.set_capacity(share);
        }
        let of_readers =
            self.scans_bytes() + self.bytes(MemoryPart::PinnedMemtables) + not_cached.saturating_sub(self.kept_bytes());
        let is_used_up = self.left_beside(not_cached) <= self.budget.cache_bytes_min;
        self.is_short.store(is_used_up && of_readers > self.budget.total_bytes / 8, Ordering::Relaxed);
        self.settling.store(false, Ordering::Release);
    }

    /// The growth of a part that settles the cache again.
    fn grain_bytes(&self) -> u64 {
        self.budget.total_bytes / 256
    }

    fn add(&self, part: MemoryPart, bytes: u64) {
        let sum = &self.parts[part as usize];
        let now = sum.bytes.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
        // The comparison is with the value at the last settling, so that smaller oscillations
        // settle nothing.
        if now.abs_diff(sum.settled.load(Ordering::Relaxed)) > self.grain_bytes() {
            sum.settled.store(now, Ordering::Relaxed);
            self.settle();
        }
    }

    /// Subtracts without settling: this runs in destructors, some of them inside of the cache.
    fn subtract(&self, part: MemoryPart, bytes: u64) {
        let before = self.parts[part as usize].bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes are subtracted from the {before} of {part:?}");
    }
}

impl Charge {
    /// Changes the charge to `bytes`.
    #[inline]
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

    /// Adds `bytes` to the charge.
    pub fn grow(&mut self, bytes: usize) {
        self.set(self.bytes as usize + bytes);
    }

    /// Moves the charge to another part of the same account.
    pub fn move_to(&mut self, part: MemoryPart) {
        if let Some((account, own)) = &mut self.account {
            account.subtract(*own, self.bytes);
            account.add(part, self.bytes);
            *own = part;
        }
    }

    /// The bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The account, if there is one.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref().map(|(account, _)| account)
    }

    /// As [`Account::charge`]; without an account, an empty charge.
    pub fn to(account: Option<&Arc<Account>>, part: MemoryPart, bytes: usize) -> Self {
        account.map_or(Self { account: None, bytes: bytes as u64 }, |account| account.charge(part, bytes))
    }
}

/// A shared value together with the charge for its memory.
#[derive(Debug)]
pub struct Charged<T> {
    value: T,
    charge: Charge,
}

impl<T> Charged<T> {
    /// Shares `value` and charges its memory to `part`. `bytes` returns its size, including
    /// `size_of::<T>()`.
    pub fn share(value: T, bytes: impl Fn(&T) -> usize, account: Option<&Arc<Account>>, part: MemoryPart) -> Arc<Self> {
        // The two counters of the `Arc` included.
        let beside = size_of::<Self>() - size_of::<T>() + 2 * size_of::<usize>();
        let charge = Charge::to(account, part, bytes(&value) + beside);
        Arc::new(Self { value, charge })
    }

    /// The memory of the value, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.charge.bytes() as usize
    }

    /// The value without its charge.
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
    //! Tests: charges add up and end; the cache gets the rest, and yields in grains.

    use super::*;

    /// A cache that only records its capacity.
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
        let mut filter = account.charge(MemoryPart::Filters, 100);
        let other = account.charge(MemoryPart::Filters, 11);
        let buffer = account.charge(MemoryPart::Memtables, 5);
        assert_eq!(
            (account.bytes(MemoryPart::Filters), account.bytes(MemoryPart::Memtables), account.total_bytes()),
            (111, 5, 116)
        );
        let mut moved = account.charge(MemoryPart::Memtables, 7);
        moved.move_to(MemoryPart::PinnedMemtables);
        moved.grow(1);
        let parts = [MemoryPart::Memtables, MemoryPart::PinnedMemtables].map(|part| account.bytes(part));
        assert_eq!((parts, account.total_bytes()), ([5, 8], 124));
        drop(moved);
        filter.set(30);
        filter.grow(2);
        assert_eq!((account.bytes(MemoryPart::Filters), filter.bytes()), (43, 32));
        drop((filter, other, buffer));
        assert_eq!(account.total_bytes(), 0);
        assert_eq!(Arc::strong_count(&account), 1);
        let mut alone = Charge::default();
        alone.set(5);
        assert_eq!(alone.bytes(), 5);
    }

    /// Compactions of few runs read and write larger pieces where the budget is small; together
    /// these keep to half of what is reserved for compactions, unless they are many.
    #[test]
    fn pieces_of_compactions_fit_the_reservation() {
        let pieces = |mib: u64, runs: usize| Account::new(Budget::new(mib << 20, 0)).piece_bytes_of(runs) >> 10;
        assert_eq!([0, 1, 2, 7, 8, 100].map(|runs| pieces(16, runs)), [64, 64, 64, 34, 32, 32]);
        assert_eq!([0, 1, 2, 10, 100].map(|runs| pieces(64, runs)), [256, 256, 256, 128, 128]);
        assert_eq!([0, 10, 100].map(|runs| pieces(1024, runs)), [512, 512, 512]);
        assert_eq!(pieces(1, 2), 32);
    }

    #[test]
    fn the_cache_gets_what_the_others_leave() {
        let (account, cache) = with_cache(1 << 20, u64::MAX);
        let reserved = (1 << 20) / 16;
        assert_eq!(cache.capacity(), (1 << 20) - reserved);
        account.set_memtable_bytes(1 << 20);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - (1 << 19), "half of the budget");
        account.set_memtable_bytes(60_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 180_000);
        // Within the reservations nothing changes.
        let mut buffer = account.charge(MemoryPart::Memtables, 150_000);
        let merge = account.charge(MemoryPart::Compactions, 60_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 180_000);
        buffer.set(300_000);
        let filter = account.charge(MemoryPart::Filters, 100_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 400_000);
        // Blocks in the cache are its own; pinned ones are not.
        cache.block_bytes.store(50_000, Ordering::Relaxed);
        let block = account.charge(MemoryPart::Blocks, 80_000);
        assert_eq!(account.pinned_bytes(), 30_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 430_000);
        assert_eq!((account.cache_bytes(), account.total_bytes()), (50_007, 540_007));
        // The capacity never goes below the minimum; the excess is reported.
        let iterator = account.charge(MemoryPart::Iterators, 2 << 20);
        assert_eq!(cache.capacity(), (1 << 20) / 32);
        assert_eq!(account.over_bytes(), 540_007 + (1 << 20));
        drop((merge, filter, block, iterator));
        assert_eq!(cache.capacity(), (1 << 20) / 32, "destructors settle nothing");
        buffer.set(310_000);
        assert_eq!(cache.capacity(), (1 << 20) - reserved - 310_000 + 50_000 - 50_000);
        assert_eq!(account.over_bytes(), 0);
    }

    /// Scans rest when there are many, and their cursors and the blocks of these may take more than
    /// an eighth of the budget, or do so with what readers pin while the cache has nothing left to
    /// give.
    #[test]
    fn scans_rest_when_they_take_too_much() {
        let budget_bytes = 64 << 20;
        let (account, _cache) = with_cache(budget_bytes, u64::MAX);
        let cursors_max = budget_bytes / 8 / REACH_PER_CURSOR_BYTE;
        account.scan_awakes();
        let much = account.charge(MemoryPart::Cursors, (2 * cursors_max) as usize);
        let very_much = account.charge(MemoryPart::Cursors, budget_bytes as usize);
        assert!(!account.scans_should_rest(), "not one, whatever it takes");
        (1..AWAKE_MAX).for_each(|_| account.scan_awakes());
        assert!(account.scans_should_rest());
        drop(very_much);
        assert!(!account.scans_should_rest(), "not a few");
        account.scan_awakes();
        assert!(account.scans_should_rest());
        drop(much);
        assert!(!account.scans_should_rest());
        assert_eq!(with_cache(1 << 20, 0).0.cursors_bytes_max(), CURSORS_BYTES_MIN);
        let [most, one] = [cursors_max, 1].map(|bytes| account.charge(MemoryPart::Cursors, bytes as usize));
        assert!(account.scans_should_rest());
        drop(one);
        assert!(!account.scans_should_rest());
        drop(most);

        let mut scans = account.charge(MemoryPart::Iterators, 0);
        let mut should_rest_with = |bytes: u64| {
            scans.set(bytes as usize);
            // Small changes settle nothing.
            account.settle();
            account.scans_should_rest()
        };
        let pinned = account.charge(MemoryPart::PinnedMemtables, (budget_bytes / 8) as usize);
        assert!(!should_rest_with(budget_bytes / 8), "the cache can shrink");
        let filters = account.charge(MemoryPart::Filters, budget_bytes as usize);
        assert!(!should_rest_with(0) && should_rest_with(1), "an eighth is pinned already");
        drop(pinned);
        assert!(!should_rest_with(budget_bytes / 8) && should_rest_with(budget_bytes / 8 + 1));
        drop(filters);
        assert!(!account.scans_should_rest(), "a destructor settles nothing, the question does");
        (0..AWAKE_MAX).for_each(|_| account.scan_has_no_cursors());
        let _much = account.charge(MemoryPart::Cursors, budget_bytes as usize);
        assert!(!account.scans_should_rest(), "the others have no cursors any more");
    }

    #[test]
    fn the_cache_is_settled_by_the_grain() {
        let (account, cache) = with_cache(1 << 20, u64::MAX);
        let before = cache.changes.load(Ordering::Relaxed);
        let charges: Vec<_> = (0..1000).map(|_| account.charge(MemoryPart::Filters, 100)).collect();
        let changes = cache.changes.load(Ordering::Relaxed) - before;
        assert!((20..=25).contains(&changes), "{changes} changes for 100,000 bytes in grains of 4,096");
        assert!(cache.capacity() < (1 << 20) - (1 << 16) - 95_000);
        // Up and down within a grain.
        for _ in 0..1000 {
            drop(account.charge(MemoryPart::Filters, 4000));
        }
        assert!(cache.changes.load(Ordering::Relaxed) - before <= changes + 1);
        // Released memory reaches the cache with the next grain, if it is a sixteenth or more.
        drop(charges);
        let _filter = account.charge(MemoryPart::Filters, 60_000);
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
