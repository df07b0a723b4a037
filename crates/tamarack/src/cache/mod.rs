//! The block cache and entry cache: recently read blocks and single entries, in one budget of
//! bytes.
//!
//! **Blocks** are found by table and offset: data blocks, and index blocks as their fences.
//! **Entries** are found by table and digest of their key: a block that is cached for one hot entry
//! wastes most of its memory, and where hot keys are scattered, as they usually are, nearly all
//! blocks would be like that.
//!
//! A cached lookup takes no exclusive lock and allocates nothing: it clones an `Arc` under a shared
//! lock of one shard. `quick_cache` evicts (S3-FIFO, weighed in bytes) and rejects blocks that are
//! too large for a shard. Two threads that miss the same block at once both read it: that costs a
//! read, and no thread waits for another's I/O. Blocks of deleted tables are never requested again,
//! so they are evicted in turn.
//!
//! # Why a cached entry is correct
//!
//! A cached entry is the **youngest version of its key in its table**. A table never changes and
//! its number is never reused, so that stays true through writes, compactions, handovers and cuts:
//! those change which tables a lookup visits, which is decided before the cache is consulted. A
//! lookup that searches a table first finds the youngest version there up to the lookup's own
//! sequence. The cached entry therefore answers if
//!
//! * its key is the one that is looked up (two keys may have one digest), and
//! * its sequence is not above the lookup's (a snapshot may be older).
//!
//! Otherwise the table is searched. That a table has **no** version of a key remains true as well,
//! for all readers. It is cached after a false positive of the filter, which hot keys would
//! otherwise pay for again and again. Only the youngest version may be inserted: by a lookup that
//! sees all of the table, for which it is the first version, or which finds none. Tombstones are
//! entries like others.
//!
//! # Admission: block or entry
//!
//! After a block was read for a lookup, the entry (or its absence) is cached, unless the block is
//! worth more ([`BlockCache::admit`]):
//!
//! * all tables in use fit into the cache: a block then saves the reads of its other entries and
//!   wastes nothing;
//! * the entry takes more than half of the block's memory;
//! * another entry of the block was looked up recently (`neighbours.rs`): its keys are hot
//!   together.
//!
//! Then blocks and entries compete for the same bytes, and the memory divides itself by use.
//! Lookups consult the entry first, so a block stays for its other entries only. An index block
//! serves every lookup below it, and stays. The rules were compared on traces (`bench/reads`,
//! `admission`; report in `bench/results`): scattered and adjacent hot keys, uniform, recent and
//! shifting ones, with scans among them, 4 and 35 entries a block. With a cache of 6 % of the data
//! these rules read at most 7 % more blocks than the best on fourteen of sixteen traces, and 19 %
//! more at worst; blocks alone, entries alone, always both, and two caches of fixed sizes read 46 %
//! to 108 % more somewhere.
//!
//! Tests: here; `tests/suite/entries.rs` compares a database with tiny caches with a model, and
//! shows that each rule above is needed.

mod entry;
mod ledger;
mod neighbours;
#[cfg(test)]
mod regions;

use std::hash::{BuildHasher, Hasher};

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_filter::Digest;

pub use self::entry::CachedEntry;
use self::ledger::{Item, Ledger};
use self::neighbours::Neighbours;
use crate::entry::{Entry, Query};
use crate::format::meta::TableId;
use crate::format::{SharedBlock, SharedFences};
use crate::memory::Elastic;
use crate::mistake::{self, Mistake};

/// The average memory of a block; only used to size the cache's tables.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// The average memory of an item, blocks and small entries mixed; only used to size the cache's
/// tables, which remember half as many evicted keys.
const USUAL_ITEM_BYTES: u64 = 1024;

/// The cache's own memory per item: its slot, and those of remembered evicted items.
const ITEM_BYTES: u64 = 96;

/// The memory of an item in the vector of its shard: its state and two links included.
const SLOT_BYTES: usize = size_of::<CacheKey>() + size_of::<CacheItem>() + 16;

/// The ratio of blocks that fit the cache to remembered neighbours. Fewer neighbours miss keys that
/// are hot together; more bring keys together by chance. An eighth was best on traces.
const BLOCKS_PER_NEIGHBOUR: u64 = 8;

/// The upper bound on remembered neighbours: 1 MiB, enough for a cache of 4 GiB.
const NEIGHBOURS_MAX: usize = 1 << 17;

/// The number of shards, so that threads seldom contend. There are fewer when the cache is for few
/// items.
const SHARDS: usize = 16;

/// The number of cache lines that counters are spread over.
const STRIPES: usize = 16;

/// The block cache and entry cache of a database. See the module's documentation.
pub struct BlockCache {
    items: Cache<CacheKey, CacheItem, Bytes, Mix, Ledger>,
    neighbours: Neighbours,
    ledger: Ledger,
    /// Raw bytes of the tables in use.
    data_bytes: AtomicU64,
    counters: [Counters; STRIPES],
}

/// The key of an item in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey {
    /// The table's number, twice; and 1 for an entry.
    table_and_kind: u64,
    /// A block's offset, an entry's digest.
    place: u64,
}

impl CacheKey {
    #[inline]
    fn block(table: TableId, offset: u64) -> Self {
        Self { table_and_kind: table.0 << 1, place: offset }
    }

    #[inline]
    fn entry(table: TableId, digest: Digest) -> Self {
        let place = if mistake::is_planted(Mistake::CachedKeyMistaken) { digest.stored() % 8 } else { digest.stored() };
        let table = if mistake::is_planted(Mistake::CachedInAnyTable) { 0 } else { table.0 };
        Self { table_and_kind: table << 1 | 1, place }
    }
}

/// An item of the cache.
#[derive(Clone)]
enum CacheItem {
    /// A data block.
    Data(SharedBlock),
    /// A lower index block.
    Index(SharedFences),
    /// An entry by itself.
    Entry(CachedEntry),
}

impl Item for CacheItem {
    fn as_entry(&self) -> Option<&CachedEntry> {
        if let Self::Entry(entry) = self { Some(entry) } else { None }
    }
}

/// The owner of an entry's memory, so that a value can be kept without a copy.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// The block of the entry.
    Block(&'a SharedBlock),
    /// The cache's copy of the entry.
    Entry(&'a CachedEntry),
}

/// The result of a lookup in a block that was read for it.
#[derive(Clone, Copy, Debug)]
pub enum Finding<'a> {
    /// The youngest version of the key in the table.
    Youngest(Entry<'a>),
    /// No version of the key is in the table: a false positive of its filter.
    Absent,
    /// Neither is certain: an older version, or nothing, but no filter was consulted or some
    /// versions were out of sight.
    Other,
}

/// Hits and misses of some of the blocks, on a cache line of their own. Threads that contend for a
/// stripe mostly share the block as well, and with it the line of its reference count.
#[derive(Default)]
#[repr(align(64))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl BlockCache {
    /// Makes a cache of `capacity_bytes`; 0 caches nothing.
    pub fn new(capacity_bytes: u64) -> Self {
        let count = |bytes: u64| usize::try_from(capacity_bytes / bytes).unwrap_or(usize::MAX).max(1);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(count(USUAL_ITEM_BYTES))
            .weight_capacity(capacity_bytes)
            .build()
            .expect("both capacities are set");
        let ledger = Ledger::default();
        Self {
            items: Cache::with_options(options, Bytes, Mix, ledger.clone()),
            neighbours: Neighbours::new(count(USUAL_BLOCK_BYTES * BLOCKS_PER_NEIGHBOUR).min(NEIGHBOURS_MAX)),
            ledger,
            data_bytes: AtomicU64::new(0),
            counters: Default::default(),
        }
    }

    /// The data block at `offset` of `table`, if cached.
    #[inline]
    pub fn get(&self, table: TableId, offset: u64) -> Option<SharedBlock> {
        self.block(table, offset, |kept| if let CacheItem::Data(block) = kept { Some(block) } else { None })
    }

    /// The fences of the lower index block at `offset` of `table`, if cached.
    #[inline]
    pub fn get_index(&self, table: TableId, offset: u64) -> Option<SharedFences> {
        self.block(table, offset, |kept| if let CacheItem::Index(fences) = kept { Some(fences) } else { None })
    }

    fn block<T>(&self, table: TableId, offset: u64, take: impl FnOnce(CacheItem) -> Option<T>) -> Option<T> {
        let found = self.items.get(&CacheKey::block(table, offset)).and_then(take);
        let counters = &self.counters[(offset / USUAL_BLOCK_BYTES) as usize % STRIPES];
        let counter = if found.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The first version of the query's key that a search of `table` would find, or the fact that
    /// it would find none, if cached.
    #[inline]
    pub fn entry(&self, table: TableId, query: &Query<'_>) -> Option<CachedEntry> {
        // Where all blocks fit, there are no entries.
        if self.ledger.entries() == 0 {
            return None;
        }
        let Some(CacheItem::Entry(cached)) = self.items.get(&CacheKey::entry(table, query.digest())) else {
            return None;
        };
        let is_its_key = cached.key() == query.key() || mistake::is_planted(Mistake::CachedKeyMistaken);
        let is_visible = cached.entry().is_none_or(|entry| entry.sequence <= query.sequence())
            || mistake::is_planted(Mistake::CachedFromTheFuture);
        (is_its_key && is_visible).then_some(cached)
    }

    /// Caches a data block that was just read.
    pub fn insert(&self, table: TableId, offset: u64, block: SharedBlock) {
        self.keep(CacheKey::block(table, offset), CacheItem::Data(block));
    }

    /// Caches the fences of a lower index block that was just read.
    pub fn insert_index(&self, table: TableId, offset: u64, fences: SharedFences) {
        self.keep(CacheKey::block(table, offset), CacheItem::Index(fences));
    }

    /// Caches the block that was just read for `query`, or what the query found in it, by the rules
    /// of the module's documentation.
    pub fn admit(&self, table: TableId, offset: u64, block: &SharedBlock, query: &Query<'_>, finding: Finding<'_>) {
        let (name, digest) = (CacheKey::block(table, offset), query.digest());
        let is_wanted = self.neighbours.other_was_wanted(Mix.hash_one(name), digest) || self.holds_all();
        match finding {
            Finding::Youngest(entry)
                if !is_wanted && 2 * CachedEntry::memory_bytes_of(&entry) <= block.memory_bytes() =>
            {
                self.keep(CacheKey::entry(table, digest), CacheItem::Entry(CachedEntry::new(&entry)));
            }
            Finding::Absent if !is_wanted => {
                self.keep(CacheKey::entry(table, digest), CacheItem::Entry(CachedEntry::absent(query.key())));
            }
            _ => self.keep(name, CacheItem::Data(block.clone())),
        }
    }

    fn keep(&self, name: CacheKey, kept: CacheItem) {
        self.ledger.add(&kept);
        self.items.insert(name, kept);
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
    fn holds_all(&self) -> bool {
        self.data_bytes.load(Ordering::Relaxed) <= self.items.capacity()
    }

    /// The number of lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.counters.iter().map(|counters| counters.hits.load(Ordering::Relaxed)).sum()
    }

    /// The number of lookups that did not.
    pub fn misses(&self) -> u64 {
        self.counters.iter().map(|counters| counters.misses.load(Ordering::Relaxed)).sum()
    }

    /// The memory of blocks and entries in the cache, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.items.weight()
    }

    /// The memory of entries in the cache, in bytes.
    pub fn entry_bytes(&self) -> u64 {
        self.ledger.entry_bytes() + ITEM_BYTES * self.ledger.entries()
    }
}

/// The weight of an item includes [`ITEM_BYTES`] for the cache's tables; what these take beyond
/// that is charged to no part. Blocks are charged as long as they live, entries while they are
/// cached: a pinned entry takes little more than a copy of its value would.
impl Elastic for BlockCache {
    fn block_bytes(&self) -> u64 {
        self.items.weight().saturating_sub(ITEM_BYTES * self.items.len() as u64 + self.ledger.entry_bytes())
    }

    fn other_bytes(&self) -> u64 {
        let used = self.items.memory_used();
        // It counts what is in the vector of each shard; their capacities are powers of two.
        let shards = self.items.num_shards();
        let in_shard = (used.entries / SLOT_BYTES).div_ceil(shards);
        let slots = if in_shard == 0 { 0 } else { shards * in_shard.next_power_of_two().max(4) };
        (SLOT_BYTES * slots + used.map) as u64 + self.neighbours.memory_bytes() + self.ledger.entry_bytes()
    }

    fn capacity(&self) -> u64 {
        self.items.capacity()
    }

    fn set_capacity(&self, bytes: u64) {
        self.items.set_capacity(bytes);
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

/// Weighs items by the memory they take.
#[derive(Clone)]
struct Bytes;

impl Weighter<CacheKey, CacheItem> for Bytes {
    fn weight(&self, _: &CacheKey, kept: &CacheItem) -> u64 {
        let bytes = match kept {
            CacheItem::Data(block) => block.memory_bytes(),
            CacheItem::Index(fences) => fences.memory_bytes(),
            CacheItem::Entry(entry) => entry.memory_bytes(),
        };
        bytes as u64 + ITEM_BYTES
    }
}

/// Hashes keys, equally in every process, so that a simulated run can be repeated.
#[derive(Clone)]
struct Mix;

impl BuildHasher for Mix {
    type Hasher = MixHasher;
    fn build_hasher(&self) -> MixHasher {
        MixHasher(0)
    }
}

/// Folds 64-bit words by multiplication, taking the high half of the product back into the low one.
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x2545_F491_4F6C_DD1D) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests: the cache finds what was inserted, keeps to its capacity, and counts; a cached entry
    //! answers for its own key in its own table and for readers who may see it; admission follows
    //! the rules.

    use tamarack_env::ByteBuffer;

    use super::*;
    use crate::entry::{EntryKind, Sequence};
    use crate::format::block::{Block, BlockBuilder};
    use crate::memory::{Charged, MemoryPart};

    fn entry<'a>(key: &'a str, sequence: u64, value: &'a [u8]) -> Entry<'a> {
        Entry { key: key.as_bytes(), sequence: Sequence(sequence), kind: EntryKind::Put, value }
    }

    fn query(key: &str, sequence: u64) -> Query<'_> {
        Query::new(key.as_bytes(), Sequence(sequence))
    }

    fn block(value_bytes: usize) -> SharedBlock {
        let mut builder = BlockBuilder::new(1);
        builder.add(&entry("k", 1, &vec![0; value_bytes]));
        let mut payload = ByteBuffer::new();
        builder.finish_into(&mut payload);
        let block = Block::decode(payload).expect("what the builder made");
        Charged::share(block, Block::memory_bytes, None, MemoryPart::Blocks)
    }

    /// A cache that is smaller than the data.
    fn small_cache() -> BlockCache {
        let cache = BlockCache::new(1 << 20);
        cache.table_opened(2 << 20);
        cache
    }

    /// The block at `offset` of table 1 was read for the entry.
    fn admit(cache: &BlockCache, offset: u64, block: &SharedBlock, entry: Entry<'_>) {
        cache.admit(TableId(1), offset, block, &Query::new(entry.key, Sequence::MAX), Finding::Youngest(entry));
    }

    #[test]
    fn blocks_are_found_by_table_and_offset() {
        let cache = BlockCache::new(1 << 20);
        for table in [1, 2] {
            cache.insert(TableId(table), 0, block(100));
            cache.insert(TableId(table), 4096, block(100));
        }
        assert!(cache.get(TableId(1), 4096).is_some());
        assert!(cache.get(TableId(1), 8192).is_none());
        assert!(cache.get(TableId(3), 4096).is_none());
        assert!(cache.get(TableId(2), 4096).is_some());
        assert_eq!((cache.hits(), cache.misses()), (2, 2));
    }

    #[test]
    fn a_cached_entry_is_what_was_copied() {
        let key = "k".repeat(65_536);
        for (key, kind, value) in
            [("", EntryKind::Put, &b""[..]), ("k", EntryKind::Delete, b""), (&key, EntryKind::Put, b"value")]
        {
            let entry = Entry { key: key.as_bytes(), sequence: Sequence::MAX, kind, value };
            let cached = CachedEntry::new(&entry);
            assert_eq!((cached.entry(), cached.value(), cached.key()), (Some(entry), value, key.as_bytes()));
            assert_eq!(cached.memory_bytes(), CachedEntry::memory_bytes_of(&entry));
        }
    }

    #[test]
    fn an_entry_answers_for_its_key_in_its_table_to_those_who_may_see_it() {
        let cache = small_cache();
        admit(&cache, 0, &block(4000), entry("k", 5, b"value"));
        let found = |table, query: &Query<'_>| cache.entry(TableId(table), query).map(|cached| cached.value().to_vec());
        assert_eq!(found(1, &query("k", 5)), Some(b"value".to_vec()));
        assert_eq!(found(1, &query("k", 6)), Some(b"value".to_vec()));
        assert_eq!(found(1, &query("k", 4)), None, "it is younger than the reader");
        assert_eq!(found(2, &query("k", 5)), None, "another table's version is another one");
        assert!(cache.get(TableId(1), 0).is_none(), "the block was not kept");
        // Another key with the same digest: a hash collision.
        cache.admit(TableId(1), 0, &block(4000), &query("k", 5), Finding::Youngest(entry("other", 5, b"value")));
        assert_eq!(found(1, &query("k", 5)), None, "it has the same digest");
    }

    #[test]
    fn what_is_kept_is_what_is_worth_more() {
        let keeps_block = |cache: &BlockCache, what: &str, expected: bool| {
            assert_eq!(cache.get(TableId(1), 0).is_some(), expected, "{what}");
        };
        let large = block(4000);
        let (one, other) = (entry("one", 1, b"value"), entry("other", 1, b"value"));

        let cache = small_cache();
        (0..3).for_each(|_| admit(&cache, 0, &large, one));
        keeps_block(&cache, "always the same entry", false);
        admit(&cache, 0, &large, other);
        keeps_block(&cache, "another entry of it", true);

        let cache = small_cache();
        admit(&cache, 0, &large, entry("one", 1, &vec![0; large.memory_bytes() / 2 - 100]));
        keeps_block(&cache, "a large entry, but less than half of it", false);
        let cache = small_cache();
        admit(&cache, 0, &large, entry("one", 1, &vec![0; large.memory_bytes() / 2]));
        keeps_block(&cache, "an entry that is more than half of it", true);

        let cache = small_cache();
        cache.table_closed(1 << 20);
        admit(&cache, 0, &large, one);
        keeps_block(&cache, "everything fits", true);

        let cache = small_cache();
        cache.admit(TableId(1), 0, &large, &query("one", 5), Finding::Absent);
        keeps_block(&cache, "nothing was there", false);
        let found = cache.entry(TableId(1), &query("one", 5)).expect("it is known");
        assert_eq!(found.entry(), None, "there is none");
        cache.admit(TableId(1), 0, &large, &query("other", 5), Finding::Absent);
        keeps_block(&cache, "another absent key of it", true);
        let cache = small_cache();
        cache.admit(TableId(1), 0, &large, &query("one", 5), Finding::Other);
        keeps_block(&cache, "an older version", true);
    }

    #[test]
    fn the_cache_keeps_to_its_capacity() {
        for capacity_bytes in [0, 10_000, 1 << 20] {
            let cache = BlockCache::new(capacity_bytes);
            cache.table_opened(2 << 20);
            for offset in 0..2000 {
                cache.insert(TableId(1), offset * 4096, block(4000));
            }
            cache.insert(TableId(1), 1, block(3 << 20));
            assert!(cache.used_bytes() <= capacity_bytes, "{} of {capacity_bytes}", cache.used_bytes());
            assert!(capacity_bytes < 1 << 20 || cache.used_bytes() > capacity_bytes / 2, "{}", cache.used_bytes());
            // Entries that are looked up again drive out blocks that are not.
            for round in 0..3 {
                for number in 0..200 {
                    let key = number.to_string();
                    if cache.entry(TableId(1), &query(&key, round)).is_none() {
                        admit(&cache, 4096 * number, &block(4000), entry(&key, 0, &[0; 1000]));
                    }
                }
            }
            let (used, entries) = (cache.used_bytes(), cache.entry_bytes());
            assert!(entries <= used && used <= capacity_bytes, "{entries} of {used} of {capacity_bytes}");
            assert!(capacity_bytes < 1 << 20 || entries > 200_000, "{entries} of {used}");
        }
    }

    /// The memory of items and the cache's tables is about their weight: entries of 1 KiB and
    /// smaller ones. With tiny ones it can be more, when the vectors of the shards have just
    /// doubled.
    #[test]
    fn weights_are_what_items_take() {
        for value_bytes in [1000, 100, 8] {
            let cache = BlockCache::new(16 << 20);
            cache.table_opened(1 << 30);
            for number in 0..400_000 / (1 + value_bytes / 100) as u64 {
                admit(&cache, 4096 * number, &block(4000), entry(&number.to_string(), 0, &vec![0; value_bytes]));
            }
            let taken = cache.block_bytes() + cache.other_bytes();
            let used = cache.used_bytes();
            assert!(used > 15 << 20, "{used}");
            assert!((used / 100 * 75..used / 100 * 145).contains(&taken), "{taken} of {used} for {value_bytes}");
        }
    }
}
