//! The block cache and entry cache: recently read blocks and single entries, in one budget of
//! bytes.
//!
//! ```text
//! top index ─► slot ─► lower index block ─► slot ─► data block        blocks: by pointers
//! digest ─► hash table ─► entry                                       entries: by name
//!
//! queues: new, main ─► what is evicted next                           both, in one budget
//! ```
//!
//! **Blocks** are found through the index, which has a slot for each of them ([`LowerBlock`]).
//! **Entries** are found by the digest of their key ([`entries`]): a block that is cached for one
//! hot entry wastes most of its memory, and where hot keys are scattered, as they usually are,
//! nearly all blocks would be like that.
//!
//! A cached lookup takes no lock and allocates nothing. Insertions and evictions take one lock for
//! the queues ([`queues`]: S3-FIFO), and free what they evict without it. Two threads that miss the
//! same block at once both read it: that costs a read, and no thread waits for another's I/O.
//! Blocks of a table leave the cache when that is closed. A worker gets huge pages for memory that
//! is full of cached blocks ([`collapse`]).
//!
//! # Why a cached entry is correct
//!
//! A cached entry is the **youngest version of its key in the tables of the tree**, or says that
//! there is none. A lookup asks for it when the memtables have nothing to say. It answers if its
//! key is the one that is looked up (two keys may have one digest), and its sequence was visible
//! before the lookup pinned its state (a snapshot may be older). Otherwise the tables are searched.
//!
//! Compactions without a filter change neither the youngest version of a key nor what a reader sees
//! of it, so hot entries stay in the cache while their tables are rewritten. Flushes and ingests
//! add younger versions:
//!
//! ```text
//! flush       flush_begins(last) ─► renew(entry) for each of its keys ─► new version of the tree
//! lookup      all up to s is visible ─► state pinned ─► tables searched ─► admitted if s >= last
//! ```
//!
//! * A flush **renews** what is cached of its keys before the tables have them. Whoever still has
//!   the memtable finds the entry there first; whoever must not see it is older than the entry.
//!   Entries that lookups have found in the memtable are cached then, too: they stay in memory.
//! * A lookup that began before could insert an older version after that. So nothing is admitted
//!   from a lookup that has not *seen* `last`, the greatest sequence of the memtable, once its
//!   flush has begun: that sequence was visible before the lookup pinned its state. One that has
//!   seen it has searched the memtable, or tables with its entries: what it finds below is the
//!   youngest. The same rule keeps out what snapshots find. (What is visible after the pin says
//!   nothing of the state: several memtables may have been rotated and flushed in between.)
//! * Range deletes hide entries of the tables, also of keys that the flush does not know. While the
//!   version has them, a lookup of a key that one of them covers neither asks for its cached entry
//!   nor caches what it finds. Before they end, what they hide is forgotten
//!   ([`BlockCache::forget`]).
//! * An ingest would have to renew each of its keys. It voids all entries instead: those found by
//!   lookups below its sequence do not answer any more ([`BlockCache::ingest_begins`]).
//! * A compaction filter drops the youngest version of a key, or changes it. The entries of such
//!   keys are forgotten before the output becomes visible, and from then on nothing is admitted
//!   from lookups that may have pinned a state before it: those that have not seen a sequence which
//!   was not visible yet when it was ([`BlockCache::filter_begins`]). So the next write lets
//!   lookups cache entries again; until then, they cache blocks.
//!
//! Tombstones are entries like others. An absence answers for lookups that are at least as young as
//! the one that found it: a compaction may since have dropped versions that older ones see.
//!
//! # Admission: block or entry
//!
//! After a block was read for a lookup, the entry is cached, unless the block is worth more
//! ([`BlockCache::admit`]):
//!
//! * all tables in use fit into the cache: a block then saves the reads of its other entries and
//!   wastes nothing;
//! * the entry takes more than half of the block's memory;
//! * another entry of the block was looked up recently (`neighbours.rs`): its keys are hot
//!   together.
//!
//! A block that was read for a false positive of a filter is cached by the same rules. If a lookup
//! has read blocks and found nothing, the absence is cached.
//!
//! A block is prepared for many searches when it is cached, not when it is read
//! ([`Block::index_in_place`](crate::format::block::Block::index_in_place)): where most blocks are
//! read for one search, that would cost more than it saves.
//!
//! Then blocks and entries compete for the same bytes, and the memory divides itself by use.
//! Lookups consult the entry first, so a block stays for its other entries only. An index block
//! serves every lookup below it, and stays. The rules were compared on traces, with another cache
//! that evicts by S3-FIFO (`bench/reads`, `admission`; report in `bench/results`): scattered and
//! adjacent hot keys, uniform, recent and shifting ones, with scans among them, 4 and 35 entries a
//! block. With a cache of 6 % of the data these rules read at most 7 % more blocks than the best on
//! fourteen of sixteen traces, and 19 % more at worst; blocks alone, entries alone, always both,
//! and two caches of fixed sizes read 46 % to 108 % more somewhere.
//!
//! Tests: here; `tests/suite/entries.rs` compares a database with tiny caches with a model, and
//! shows that each rule above is needed.

mod buckets;
mod collapse;
mod entries;
mod entry;
mod lower;
mod neighbours;
mod queues;
mod regions;
mod slot;
mod usage;
mod uses;

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, MutexGuard, Rank};
use tamarack_env::{Env, Worker};
use tamarack_filter::Digest;

use self::entries::{EntryTable, TableWriter};
pub use self::entry::CachedEntry;
use self::entry::ReadEntry;
pub use self::lower::{CachedBlock, LowerBlock, LowerSlots, SharedLower};
use self::neighbours::Neighbours;
use self::queues::{Home, Item, Queues};
use self::regions::Regions;
pub use self::slot::FoundEntry;
use self::slot::Removed;
use self::usage::{Kind, Usage};
use crate::entry::{Entry, EntryKind, Query, Sequence};
use crate::format::SharedBlock;
use crate::format::fences::Fences;
use crate::format::meta::TableId;
use crate::memory::Elastic;
use crate::mistake::{self, Mistake};
use crate::range_tombstones::{RangeTombstone, RangeTombstones};

/// The average memory of a block; only used to size what remembers blocks.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// The average memory of an item, blocks and small entries mixed; only used to size the memory of
/// evicted items.
const USUAL_ITEM_BYTES: u64 = 1024;

/// The most names of evicted items that are remembered: 4 MiB.
const GHOSTS_MAX: usize = 1 << 20;

/// The cache's own memory for a block: its place in a queue, of which up to half may be unused.
const BLOCK_ITEM_BYTES: u64 = 32;

/// The cache's own memory for an entry, on average: its place in a queue, of which up to half may
/// be unused, and its slot in the table, of which about half are empty.
const ENTRY_ITEM_BYTES: u64 = 64;

/// The slots of data blocks may take one part of the cache in this many: they cannot be evicted
/// while their lower index block is resident, which is bounded by itself, but not by this cache.
const SLOTS_PARTS: u64 = 4;

/// An item may take one part of the cache in this many.
const ITEM_PARTS: u64 = 4;

/// The ratio of blocks that fit the cache to remembered neighbours. Fewer neighbours miss keys that
/// are hot together; more bring keys together by chance. An eighth was best on traces.
const BLOCKS_PER_NEIGHBOUR: u64 = 8;

/// The upper bound on remembered neighbours: 1 MiB, enough for a cache of 4 GiB.
const NEIGHBOURS_MAX: usize = 1 << 17;

/// The number of cache lines that counters are spread over.
const STRIPES: usize = 16;

/// The block cache and entry cache of a database. See the module's documentation.
pub struct BlockCache {
    /// Its lock orders all insertions and evictions.
    order: Mutex<EvictionOrder>,
    /// Gets huge pages, once it is started.
    collapsing: OnceLock<Arc<dyn Worker>>,
    entries: EntryTable,
    usage: Arc<Usage>,
    capacity_bytes: AtomicU64,
    neighbours: Neighbours,
    /// Raw bytes of the tables in use.
    data_bytes: AtomicU64,
    /// The greatest sequence of all flushes and ingests that have begun: younger lookups see what
    /// those add. While a compaction filter takes effect, nobody has seen so much. Changes under
    /// the lock of the queues.
    begun: AtomicU64,
    /// The sequence of the last ingest that has begun.
    ingested: AtomicU64,
    counters: [Counters; STRIPES],
}

/// The order of eviction, the right to change the table of entries, and the regions of memory that
/// have blocks.
struct EvictionOrder {
    queues: Queues,
    writer: TableWriter,
    regions: Regions,
    /// Blocks that `regions` still counts although they are gone with their table.
    gone: u64,
    /// True from when the worker that gets huge pages is woken until it finds too few regions.
    collapses: bool,
    /// What `begun` is once no compaction filter takes effect, and how many do.
    begun: u64,
    filters: usize,
}

/// While this exists, no lookup caches an entry. See [`BlockCache::filter_begins`].
#[must_use = "lookups cache entries when it has ended"]
pub struct FilterEffect<'a>(&'a BlockCache);

impl FilterEffect<'_> {
    /// What the filter has done is visible, or never will be; so is everything up to `visible`.
    /// Lookups that see more than that have pinned their states since.
    pub fn ends(self, visible: Sequence) {
        let mut order = self.0.order.lock();
        order.begun = order.begun.max(visible.0.saturating_add(1));
        order.filters -= 1;
        self.0.publish_begun(&order);
    }
}

impl EvictionOrder {
    /// Takes a group of full regions; none if there are too few.
    fn take_full(&mut self) -> Vec<Range<usize>> {
        while self.regions.waiting() >= collapse::GROUP {
            let full = self.regions.take_full(collapse::GROUP);
            // All of them may have become emptier.
            if !full.is_empty() {
                return full;
            }
        }
        self.collapses = false;
        Vec::new()
    }
}

/// The owner of an entry's memory, so that a value can be kept without a copy.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// The block of the entry.
    Block(&'a SharedBlock),
    /// The cache's copy of the entry.
    Entry(&'a FoundEntry<'a>),
}

/// Hits and misses of some of the blocks, on a cache line of their own. Threads that contend for a
/// stripe mostly share the block as well.
#[derive(Default)]
#[repr(align(64))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What was evicted, to be freed without the lock.
enum Evicted<'a> {
    Data(SharedBlock),
    Lower(#[expect(dead_code, reason = "to be dropped")] SharedLower),
    Entry(#[expect(dead_code, reason = "to be dropped")] Removed<'a>),
}

impl BlockCache {
    /// Makes a cache of `capacity_bytes`; 0 caches nothing.
    pub fn new(capacity_bytes: u64) -> Self {
        let count = |bytes: u64| usize::try_from(capacity_bytes / bytes).unwrap_or(usize::MAX).max(1);
        let queues = Queues::new((count(USUAL_ITEM_BYTES) / 2).clamp(1, GHOSTS_MAX));
        Self {
            order: Mutex::new(
                Rank::Cache,
                EvictionOrder {
                    queues,
                    writer: TableWriter::default(),
                    regions: Regions::default(),
                    gone: 0,
                    collapses: false,
                    begun: 0,
                    filters: 0,
                },
            ),
            collapsing: OnceLock::new(),
            entries: EntryTable::new(),
            usage: Arc::default(),
            capacity_bytes: AtomicU64::new(capacity_bytes),
            neighbours: Neighbours::new(count(USUAL_BLOCK_BYTES * BLOCKS_PER_NEIGHBOUR).min(NEIGHBOURS_MAX)),
            data_bytes: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ingested: AtomicU64::new(0),
            counters: Default::default(),
        }
    }

    /// Makes a lower index block of its fences: that at `offset` of `table`.
    pub fn lower_block(&self, table: TableId, offset: u64, fences: Fences) -> LowerBlock {
        LowerBlock::new(fences, mix(table.0, offset), self.usage.clone())
    }

    /// Makes slots for the `count` lower index blocks of `table`.
    pub fn lower_slots(&self, table: TableId, count: usize) -> Arc<LowerSlots> {
        LowerSlots::new(count, mix(table.0, u64::MAX), self.usage.clone())
    }

    /// Returns true if entries are cached. Where all blocks fit, there are none.
    #[inline]
    pub fn has_entries(&self) -> bool {
        self.usage.items(Kind::Entry) > 0
    }

    /// Asks for the memory in which [`BlockCache::entry`] begins to search.
    #[inline]
    pub fn prefetch_entry(&self, query: &Query<'_>) {
        self.entries.prefetch(entry_name(query.digest()));
    }

    /// The youngest version of the query's key in all tables, or the fact that there is none, if
    /// that is cached and answers the query.
    #[inline]
    pub fn entry(&self, query: &Query<'_>) -> Option<FoundEntry<'_>> {
        let found = self.entries.get(entry_name(query.digest()))?;
        let cached = found.read();
        let is_its_key = cached.key() == query.key() || mistake::is_planted(Mistake::CachedKeyMistaken);
        let is_visible = cached.sequence() <= query.seen() || mistake::is_planted(Mistake::CachedFromTheFuture);
        let is_void = cached.known_at().0 < self.ingested.load(Ordering::Acquire)
            && !mistake::is_planted(Mistake::CachedThroughIngest);
        (is_its_key && is_visible && !is_void).then_some(found)
    }

    /// Notes that the flush of a memtable begins whose greatest sequence is `last`.
    pub fn flush_begins(&self, last: Sequence) {
        let mut order = self.order.lock();
        order.begun = order.begun.max(last.0);
        self.publish_begun(&order);
    }

    fn publish_begun(&self, order: &EvictionOrder) {
        let begun = if order.filters > 0 { u64::MAX } else { order.begun };
        self.begun.store(begun, Ordering::Relaxed);
    }

    /// Notes that a compaction filter is about to take effect on the keys with these digests:
    /// forgets their entries. No lookup caches an entry until [`FilterEffect::ends`] is called.
    pub fn filter_begins(&self, keys: &[Digest]) -> FilterEffect<'_> {
        let mut order = self.order.lock();
        order.filters += 1;
        self.publish_begun(&order);
        drop(order);
        let is_forgotten = self.has_entries() && !mistake::is_planted(Mistake::CachedThroughFilter);
        for name in keys.iter().filter(|_| is_forgotten).map(|key| entry_name(*key)) {
            self.forget_name(name);
        }
        FilterEffect(self)
    }

    /// Forgets the entry of this name, if it is there.
    fn forget_name(&self, name: u64) {
        if self.entries.has(name) {
            let order = self.order.lock();
            // It may have been evicted. One that has taken its place is younger, and is lost.
            if self.entries.has(name) {
                self.put_entry(order, CachedEntry::unknown(name));
            }
        }
    }

    /// Notes that an ingest of entries with the sequence `through` is about to become part of the
    /// tree: cached entries do not answer any more.
    pub fn ingest_begins(&self, through: Sequence) {
        self.flush_begins(through);
        self.ingested.fetch_max(through.0, Ordering::Release);
    }

    /// Replaces what is cached of the entry's key, if anything, by the entry, which a flush is
    /// about to add to the tree: the youngest of its key. If it `is_hot`, lookups have found it in
    /// the memtable, and it is cached in any case. Nothing later than `last` is in that memtable.
    #[inline]
    pub fn renew(&self, entry: &Entry<'_>, is_hot: bool, last: Sequence) {
        if is_hot || self.has_entries() {
            self.renew_cached(entry, is_hot, last);
        }
    }

    fn renew_cached(&self, entry: &Entry<'_>, is_hot: bool, last: Sequence) {
        let name = entry_name(Digest::of(entry.key));
        let bytes = CachedEntry::memory_bytes_of(entry) as u64;
        let is_cached = self.entries.has(name);
        // An operand needs what is below it, so it answers nobody.
        let answers = entry.kind != EntryKind::Merge;
        let is_wanted = is_hot && answers && 2 * bytes <= USUAL_BLOCK_BYTES && !self.holds_all();
        if !(is_cached || is_wanted) || mistake::is_planted(Mistake::CachedThroughFlush) {
            return;
        }
        let copy = CachedEntry::new(name, entry, last);
        let order = self.order.lock();
        // The capacity may just have changed, and the older entry may have been evicted.
        if answers && self.may_hold(bytes) && (is_wanted || self.entries.has(name)) {
            self.put_entry(order, copy);
        } else if self.entries.has(name) {
            // What is too large, or answers nobody, must not leave the older one behind.
            self.put_entry(order, CachedEntry::unknown(name));
        }
    }

    /// Forgets the entries that these range deletes hide. They are about to end, after which nobody
    /// would know.
    pub fn forget(&self, deletes: &[RangeTombstone]) {
        if deletes.is_empty() || !self.has_entries() {
            return;
        }
        let tombstones = RangeTombstones::of(deletes);
        let is_hidden = |entry: ReadEntry<'_>| tombstones.floor(entry.key(), Sequence::MAX) > entry.sequence();
        self.entries.names_of(is_hidden).into_iter().for_each(|name| self.forget_name(name));
    }

    /// Counts a search of a scan for a data block, and whether it was cached. Scans with different
    /// numbers do not wait for each other's cache lines. Lookups count in their tallies.
    #[inline]
    pub fn count(&self, scan: usize, found: bool) {
        let counters = &self.counters[scan % STRIPES];
        let counter = if found { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Caches a data block that was just read: that of the fence `at` of `lower`.
    pub fn insert(&self, lower: &SharedLower, at: usize, block: SharedBlock) {
        let bytes = block.memory_bytes() as u64;
        if !self.may_hold(bytes) {
            return;
        }
        // What is read for one search and not kept would not be worth it.
        block.index_in_place();
        let mut evicted = Vec::new();
        let mut order = self.order.lock();
        // Another thread may have been faster.
        let has_slots = || self.usage.slot_bytes() + lower.more_slots_bytes() <= self.capacity() / SLOTS_PARTS;
        if lower.has_cached(at) || !has_slots() {
            return;
        }
        self.usage.add(Kind::Block, bytes);
        if self.collapsing.get().is_some() {
            order.regions.added(block.bytes());
        }
        lower.slots().uses(at).set(0);
        lower.slots().block(at).store(Some(block));
        order.queues.insert(Item { home: Home::Data(Arc::downgrade(lower), at as u32), bytes });
        self.evict(&mut order, &mut evicted);
        let wakes = order.regions.waiting() >= collapse::GROUP && !std::mem::replace(&mut order.collapses, true);
        drop(order);
        drop(evicted);
        if wakes && let Some(worker) = self.collapsing.get() {
            worker.wake();
        }
    }

    /// Caches the lower index block of the fence `top`, which was just read. Returns the one that
    /// lookups find from now on: another thread may have been faster.
    pub fn insert_lower(&self, slots: &Arc<LowerSlots>, top: usize, lower: SharedLower) -> SharedLower {
        let bytes = lower.memory_bytes() as u64;
        if !self.may_hold(bytes) {
            return lower;
        }
        let mut evicted = Vec::new();
        let mut order = self.order.lock();
        if let Some(cached) = slots.slots().block(top).load_full() {
            return cached;
        }
        self.usage.add(Kind::Block, bytes);
        slots.slots().uses(top).set(0);
        slots.slots().block(top).store(Some(lower.clone()));
        order.queues.insert(Item { home: Home::Lower(Arc::downgrade(slots), top as u32), bytes });
        self.evict(&mut order, &mut evicted);
        drop(order);
        drop(evicted);
        lower
    }

    /// Caches the block that was just read for `query`, that of the fence `at` of `lower`, or the
    /// entry that the query `found` in it, by the rules of the module's documentation. The lookup
    /// has searched all younger tables.
    pub fn admit(
        &self,
        (lower, at): (&SharedLower, usize),
        block: &SharedBlock,
        query: &Query<'_>,
        found: Option<Entry<'_>>,
    ) {
        let is_wanted = self.neighbours.other_was_wanted(lower.name_of(at), query.digest()) || self.holds_all();
        let is_small = found.is_none_or(|entry| {
            entry.kind != EntryKind::Merge && 2 * CachedEntry::memory_bytes_of(&entry) <= block.memory_bytes()
        });
        if is_wanted || !is_small || !self.admits(query.seen()) {
            self.insert(lower, at, block.clone());
        } else if let Some(entry) = found {
            let copy = CachedEntry::new(entry_name(query.digest()), &entry, query.seen());
            self.insert_entry(copy, query.seen());
        }
    }

    /// Caches the fact that no table has an entry of the query's key. Blocks were read to find that
    /// out.
    #[cold]
    pub fn admit_absent(&self, query: &Query<'_>) {
        if self.admits(query.seen()) && !self.holds_all() {
            let absent = CachedEntry::absent(entry_name(query.digest()), query.key(), query.seen());
            self.insert_entry(absent, query.seen());
        }
    }

    /// Returns true if a lookup that has `seen` so much sees all that is in the tables, and all
    /// that flushes and ingests in progress add to them. One that has seen nothing looks for the
    /// versions below a merge operand, which are not the youngest.
    fn admits(&self, seen: Sequence) -> bool {
        seen != Sequence::ZERO && seen.0 >= self.begun.load(Ordering::Relaxed)
            || mistake::is_planted(Mistake::CachedFromThePast)
    }

    /// Inserts an entry or replaces the one of its name. A lookup found it that has `seen` so much.
    fn insert_entry(&self, entry: CachedEntry, seen: Sequence) {
        let order = self.order.lock();
        // A flush may have begun since the lookup did.
        if self.admits(seen) && self.may_hold(entry.memory_bytes() as u64) {
            self.put_entry(order, entry);
        }
    }

    fn put_entry(&self, mut order: MutexGuard<'_, EvictionOrder>, entry: CachedEntry) {
        let mut evicted = Vec::new();
        let (name, bytes) = (entry.read().name(), entry.memory_bytes() as u64);
        self.usage.add(Kind::Entry, bytes);
        match self.entries.insert(&mut order.writer, entry) {
            Some(replaced) => {
                self.usage.subtract(Kind::Entry, replaced.memory_bytes() as u64);
                evicted.push(Evicted::Entry(replaced));
            }
            None => order.queues.insert(Item { home: Home::Entry(name), bytes }),
        }
        self.evict(&mut order, &mut evicted);
        drop(order);
        drop(evicted);
    }

    /// Returns false if an item takes too large a part of the cache.
    fn may_hold(&self, bytes: u64) -> bool {
        bytes <= self.capacity() / ITEM_PARTS
    }

    /// Evicts what exceeds the capacity. The caller has the lock, and drops `evicted` without it.
    fn evict<'a>(&'a self, order: &mut EvictionOrder, evicted: &mut Vec<Evicted<'a>>) {
        let EvictionOrder { queues, writer, regions, gone, .. } = order;
        let capacity = self.capacity();
        let mut orphans = 0;
        while self.used_bytes() > capacity {
            let item = queues.evict(capacity, &self.entries, &mut orphans);
            let Some(item) = item else { break };
            let taken = self.take(&item, writer);
            // Its table may have been closed just now.
            orphans += u64::from(taken.is_none());
            if let Some(Evicted::Data(block)) = &taken {
                regions.removed(block.bytes());
            }
            evicted.extend(taken);
        }
        // Without evictions, as where everything fits, orphans are met by nobody.
        if self.usage.orphans() > 64 + queues.len() as u64 / 4 {
            orphans += queues.remove_orphans();
        }
        self.usage.orphans_removed(orphans);
        // Which memory they had is not known any more, so all that is there is counted anew.
        *gone += orphans;
        if *gone > 64 + queues.len() as u64 / 4 {
            *gone = 0;
            *regions = Regions::default();
            if self.collapsing.get().is_some() {
                for block in queues.data_blocks() {
                    regions.added(block.bytes());
                }
            }
        }
    }

    /// Starts the worker that gets huge pages for blocks that are cached from now on, if the
    /// environment has some. Its owner must stop it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_collapsing(self: &Arc<Self>, env: &Arc<dyn Env>) -> io::Result<Option<Arc<dyn Worker>>> {
        let cache = self.clone();
        let take_full = move || cache.order.lock().take_full();
        let worker = collapse::start(env, Box::new(take_full))?;
        Ok(worker.map(|worker| self.collapsing.get_or_init(|| worker).clone()))
    }

    /// Takes an item out of its place.
    fn take(&self, item: &Item, writer: &mut TableWriter) -> Option<Evicted<'_>> {
        match &item.home {
            Home::Data(lower, at) => {
                let block = lower.upgrade()?.slots().block(*at as usize).swap(None)?;
                self.usage.subtract(Kind::Block, item.bytes);
                Some(Evicted::Data(block))
            }
            Home::Lower(slots, top) => {
                let lower = slots.upgrade()?.slots().block(*top as usize).swap(None)?;
                self.usage.subtract(Kind::Block, item.bytes);
                Some(Evicted::Lower(lower))
            }
            Home::Entry(name) => {
                let entry = self.entries.remove(writer, *name)?;
                self.usage.subtract(Kind::Entry, entry.memory_bytes() as u64);
                Some(Evicted::Entry(entry))
            }
        }
    }

    /// Adds a table of `raw_bytes` to the tables in use.
    pub fn table_opened(&self, raw_bytes: u64) {
        self.data_bytes.fetch_add(raw_bytes, Ordering::Relaxed);
    }

    /// Subtracts a table of `raw_bytes` from the tables in use.
    pub fn table_closed(&self, raw_bytes: u64) {
        self.data_bytes.fetch_sub(raw_bytes, Ordering::Relaxed);
    }

    /// Returns true if all blocks of the tables in use would fit.
    pub fn holds_all(&self) -> bool {
        self.data_bytes.load(Ordering::Relaxed) <= self.capacity()
    }

    /// The number of searches of scans that found their block.
    pub fn hits(&self) -> u64 {
        self.counters.iter().map(|counters| counters.hits.load(Ordering::Relaxed)).sum()
    }

    /// The number of those that did not.
    pub fn misses(&self) -> u64 {
        self.counters.iter().map(|counters| counters.misses.load(Ordering::Relaxed)).sum()
    }

    /// The memory of blocks and entries in the cache, in bytes, with what the cache takes for them.
    pub fn used_bytes(&self) -> u64 {
        let blocks_bytes = self.usage.bytes(Kind::Block) + BLOCK_ITEM_BYTES * self.usage.items(Kind::Block);
        blocks_bytes + self.usage.slot_bytes() + self.entry_bytes()
    }

    /// The memory of entries in the cache, in bytes, with what the cache takes for them.
    pub fn entry_bytes(&self) -> u64 {
        self.usage.bytes(Kind::Entry) + ENTRY_ITEM_BYTES * self.usage.items(Kind::Entry)
    }
}

/// A hash of a place in a table.
fn mix(table: u64, place: u64) -> u64 {
    let product = u128::from(table ^ 0x2545_F491_4F6C_DD1D) * u128::from(place ^ 0x9E37_79B9_7F4A_7C15);
    (product >> 64) as u64 ^ product as u64
}

/// The name of an entry.
#[inline]
fn entry_name(digest: Digest) -> u64 {
    if mistake::is_planted(Mistake::CachedKeyMistaken) { digest.stored() % 8 } else { digest.stored() }
}

/// Blocks are charged as long as they live, entries while they are cached: a pinned entry takes
/// little more than a copy of its value would.
impl Elastic for BlockCache {
    fn block_bytes(&self) -> u64 {
        self.usage.bytes(Kind::Block)
    }

    fn other_bytes(&self) -> u64 {
        let beside_items = {
            let EvictionOrder { queues, writer, regions, .. } = &*self.order.lock();
            queues.memory_bytes() + writer.memory_bytes() + regions.memory_bytes() as u64
        };
        beside_items
            + self.neighbours.memory_bytes()
            + self.usage.slot_bytes()
            + self.usage.bytes(Kind::Entry)
            + self.entries.memory_bytes()
    }

    fn capacity(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    fn set_capacity(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
        let mut evicted = Vec::new();
        self.evict(&mut self.order.lock(), &mut evicted);
        drop(evicted);
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache")
            .field("used_bytes", &self.used_bytes())
            .field("entry_bytes", &self.entry_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
