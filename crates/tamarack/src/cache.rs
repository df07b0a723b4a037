//! The block cache: decoded blocks that were read lately, by table and offset: data blocks, and index blocks as their fences.
//!
//! A cached lookup takes no exclusive lock and allocates nothing: it clones an `Arc` under a shared lock of one shard. Which blocks stay
//! is decided by `quick_cache` (S3-FIFO, weighed in bytes); a block too large for a shard is not kept. Two threads that
//! miss the same block at once both read it: that costs a read, not an answer, and nobody waits for another's I/O.
//!
//! Table numbers are never used twice, so a stale block cannot be found under a new table.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use crate::format::block::Block;
use crate::format::fences::Fences;
use crate::format::meta::TableId;
use crate::memory::Elastic;

/// What a block and its bookkeeping take on average; only used to size the cache's tables.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// What the cache itself needs per block: its entry and the slots that remember evicted ones.
const ENTRY_BYTES: u64 = 96;

/// Independent parts of the cache, so that threads seldom meet. There are fewer when the cache holds few blocks.
const SHARDS: usize = 16;

/// Counters are spread over so many cache lines.
const STRIPES: usize = 16;

/// Recently read blocks of all tables of a database.
pub struct BlockCache {
    blocks: Cache<Key, Kept, Bytes, Mix, DefaultLifecycle<Key, Kept>>,
    counters: [Counters; STRIPES],
}

/// The table's number and the block's offset.
type Key = (u64, u64);

/// What is kept of a block.
#[derive(Clone)]
enum Kept {
    /// A data block.
    Data(Arc<Block>),
    /// A lower index block.
    Index(Arc<Fences>),
}

/// Hits and misses of some of the blocks, on a cache line of their own. Threads that count in the same
/// stripe at the same time mostly share the block as well, and with it the line of its reference count.
#[derive(Default)]
#[repr(align(64))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl BlockCache {
    /// A cache for blocks of `capacity_bytes` together; 0 keeps nothing.
    pub fn new(capacity_bytes: u64) -> Self {
        let blocks = usize::try_from(capacity_bytes / USUAL_BLOCK_BYTES).unwrap_or(usize::MAX).max(1);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(blocks)
            .weight_capacity(capacity_bytes)
            .build()
            .expect("both capacities are set");
        Self {
            blocks: Cache::with_options(options, Bytes, Mix, DefaultLifecycle::default()),
            counters: Default::default(),
        }
    }

    /// The data block at `offset` of `table`, if it is here.
    #[inline]
    pub fn get(&self, table: TableId, offset: u64) -> Option<Arc<Block>> {
        self.kept(table, offset, |kept| match kept {
            Kept::Data(block) => Some(block),
            Kept::Index(_) => None,
        })
    }

    /// The fences of the lower index block at `offset` of `table`, if it is here.
    #[inline]
    pub fn get_index(&self, table: TableId, offset: u64) -> Option<Arc<Fences>> {
        self.kept(table, offset, |kept| match kept {
            Kept::Data(_) => None,
            Kept::Index(fences) => Some(fences),
        })
    }

    fn kept<T>(&self, table: TableId, offset: u64, take: impl FnOnce(Kept) -> Option<T>) -> Option<T> {
        let found = self.blocks.get(&(table.0, offset)).and_then(take);
        let counters = &self.counters[(offset / USUAL_BLOCK_BYTES) as usize % STRIPES];
        let counter = if found.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a data block that was just read.
    pub fn insert(&self, table: TableId, offset: u64, block: Arc<Block>) {
        self.blocks.insert((table.0, offset), Kept::Data(block));
    }

    /// Keeps the fences of a lower index block that was just read.
    pub fn insert_index(&self, table: TableId, offset: u64, fences: Arc<Fences>) {
        self.blocks.insert((table.0, offset), Kept::Index(fences));
    }

    /// Drops the blocks of a table that is gone. Looks at every block in the cache.
    pub fn forget(&self, table: TableId) {
        self.blocks.retain(|&(of, _), _| of != table.0);
    }

    /// How many lookups found their block.
    pub fn hits(&self) -> u64 {
        self.counters.iter().map(|counters| counters.hits.load(Ordering::Relaxed)).sum()
    }

    /// How many lookups did not.
    pub fn misses(&self) -> u64 {
        self.counters.iter().map(|counters| counters.misses.load(Ordering::Relaxed)).sum()
    }

    /// The memory that blocks in the cache take, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }
}

/// Its weight counts [`ENTRY_BYTES`] for each block, its tables take what they take: what of them is more than that is nobody's share.
impl Elastic for BlockCache {
    fn block_bytes(&self) -> u64 {
        self.blocks.weight().saturating_sub(ENTRY_BYTES * self.blocks.len() as u64)
    }

    fn other_bytes(&self) -> u64 {
        self.blocks.memory_used().total() as u64
    }

    fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    fn set_capacity(&self, bytes: u64) {
        self.blocks.set_capacity(bytes);
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").field("used_bytes", &self.used_bytes()).finish_non_exhaustive()
    }
}

/// Weighs blocks by the memory they take.
#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Kept> for Bytes {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        let bytes = match kept {
            Kept::Data(block) => block.memory_bytes(),
            Kept::Index(fences) => fences.memory_bytes(),
        };
        bytes as u64 + ENTRY_BYTES
    }
}

/// Hashes a table number and an offset. The same in every process, so that a simulated run can be repeated.
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
    //! The cache finds what was put in, keeps to its capacity, forgets a table, and counts.

    use super::*;
    use crate::entry::{Entry, EntryKind, Sequence};
    use crate::format::block::BlockBuilder;

    fn block(value_bytes: usize) -> Arc<Block> {
        let mut builder = BlockBuilder::new(1);
        let value = vec![0; value_bytes];
        builder.add(&Entry { key: b"k", sequence: Sequence(1), kind: EntryKind::Put, value: &value });
        let mut payload = Vec::new();
        builder.finish_into(&mut payload);
        Arc::new(Block::decode(payload).expect("what the builder made"))
    }

    #[test]
    fn blocks_are_found_by_table_and_offset_until_the_table_is_forgotten() {
        let cache = BlockCache::new(1 << 20);
        for table in [1, 2] {
            cache.insert(TableId(table), 0, block(100));
            cache.insert(TableId(table), 4096, block(100));
        }
        assert!(cache.get(TableId(1), 4096).is_some());
        assert!(cache.get(TableId(1), 8192).is_none());
        cache.forget(TableId(1));
        assert!(cache.get(TableId(1), 4096).is_none());
        assert!(cache.get(TableId(2), 4096).is_some());
        assert_eq!((cache.hits(), cache.misses()), (2, 2));
    }

    #[test]
    fn the_cache_keeps_to_its_capacity() {
        for capacity_bytes in [0, 10_000, 1 << 20] {
            let cache = BlockCache::new(capacity_bytes);
            for offset in 0..2000 {
                cache.insert(TableId(1), offset * 4096, block(4000));
            }
            cache.insert(TableId(1), 1, block(3 << 20));
            assert!(cache.used_bytes() <= capacity_bytes, "{} of {capacity_bytes}", cache.used_bytes());
            assert!(capacity_bytes < 1 << 20 || cache.used_bytes() > capacity_bytes / 2, "{}", cache.used_bytes());
        }
    }
}
