//! fjall.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{BLOCK_BYTES, Compression, Durability, Kind, Place, Seen, Shape, Store};
use ::fjall::compaction::Leveled;
use ::fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
};
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

pub struct Fjall;

struct Open {
    db: Database,
    keyspace: Keyspace,
    durability: Durability,
}

const WORKS: &str = "fjall works";

/// The end of its compactions cannot be awaited: they are over when none has been seen for so long.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_BETWEEN_SLICES: Duration = Duration::from_millis(150);

impl Kind for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn package(&self) -> &'static str {
        "fjall"
    }

    fn setup(&self) -> &'static str {
        "Bloom filters of 10 bits and index blocks pinned in memory in all levels, beside the cache; leveled with a ratio of 10 and level 1 of ten buffers (tables of a \
         quarter of that), up to three tables stay in L0; or an L0 limit of 255 tables (the greatest it takes; from 20 on it slows writers down), which is not reached, and a memtable set to twice the size; two worker threads; all else default. \
         It has no direct I/O: where others read past the page cache, its files are evicted before each slice. It does not count blocks; what is shown are calls of its process that read"
    }

    fn default_setup(&self) -> &'static str {
        "leveled compaction with its defaults in proportion to the memtable: level 1 of four memtables, tables of one, a ratio of 10, a compaction of L0 from four tables on; at most four immutable memtables, which cannot be set; \
         two worker threads; Bloom filters of 10 bits and index blocks pinned in memory in all levels, beside the cache; it has no direct I/O, so what it reads may come from the page cache; it tells neither debt nor runs nor bytes written"
    }

    fn has_direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let builder = Database::builder(dir).worker_threads(2).journal_compression(CompressionType::None);
        let db = builder.cache_size(place.cache_bytes).open().expect(WORKS);
        let compression = match place.compression {
            Compression::None => CompressionType::None,
            Compression::Lz4 => CompressionType::Lz4,
        };
        let strategy = match place.shape {
            // Its defaults are tables of 64 MiB, as large as a memtable.
            Shape::Default => {
                let leveled = Leveled::default().with_table_target_size(place.buffer_bytes);
                match place.ratio {
                    Some(ratio) => leveled.with_level_ratio_policy(vec![ratio as f32]),
                    None => leveled,
                }
            }
            // Level 1 may hold as many tables of this size as L0 may hold tables (four).
            Shape::Leveled => Leveled::default().with_table_target_size(place.buffer_bytes * 10 / 4),
            Shape::Runs { .. } => Leveled::default().with_l0_threshold(255),
        };
        let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(place.filter_bits as f32));
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(place.generous_buffer_bytes())
                .compaction_strategy(Arc::new(strategy.clone()))
                .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES as u32))
                .data_block_compression_policy(CompressionPolicy::all(compression))
                .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .filter_policy(FilterPolicy::all(filter))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_pinning_policy(PinningPolicy::all(true))
        };
        let keyspace = db.keyspace("measured", options).expect(WORKS);
        Box::new(Open { db, keyspace, durability: place.durability })
    }
}

/// With its defaults.
pub struct ByDefault;

impl Kind for ByDefault {
    fn name(&self) -> &'static str {
        "fjall by default"
    }

    fn package(&self) -> &'static str {
        "fjall"
    }

    fn setup(&self) -> &'static str {
        "all defaults, among them memtables of 64 MiB, two of which are taken from the memory; the rest of it is its block cache"
    }

    fn open(&self, _dir: &Path, _place: &Place) -> Box<dyn Store> {
        unreachable!("{} is only measured with its defaults", self.name())
    }

    fn open_with_defaults(&self, dir: &Path, memory_bytes: u64) -> Box<dyn Store> {
        let cache_bytes = memory_bytes.saturating_sub(2 * DEFAULT_MEMTABLE_BYTES).max(memory_bytes / 2);
        let db = Database::builder(dir).cache_size(cache_bytes).open().expect(WORKS);
        let keyspace = db.keyspace("measured", KeyspaceCreateOptions::default).expect(WORKS);
        Box::new(Open { db, keyspace, durability: Durability::Buffered })
    }
}

/// The size of its memtables.
const DEFAULT_MEMTABLE_BYTES: u64 = 64 << 20;

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.keyspace.insert(key, value).expect(WORKS);
        if self.durability == Durability::Sync {
            self.db.persist(PersistMode::SyncData).expect(WORKS);
        }
    }

    fn flush(&self) {
        self.keyspace.rotate_memtable_and_wait().expect(WORKS);
    }

    fn settle(&self) -> Duration {
        self.wait(QUIET)
    }

    fn rest(&self) -> Duration {
        self.wait(QUIET_BETWEEN_SLICES)
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        if let Some(value) = self.keyspace.get(key).expect(WORKS) {
            seen.value(&value);
        }
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        if reverse {
            let range = (Bound::Unbounded, Bound::Included(from));
            for guard in self.keyspace.range::<&[u8], _>(range).rev().take(limit) {
                let (key, value) = guard.into_inner().expect(WORKS);
                seen.entry(&key, &value);
            }
        } else {
            for guard in self.keyspace.range(from..).take(limit) {
                let (key, value) = guard.into_inner().expect(WORKS);
                seen.entry(&key, &value);
            }
        }
    }

    fn tree(&self) -> String {
        format!("{} tables, {} of them in L0", self.keyspace.table_count(), self.keyspace.l0_table_count())
    }
}

impl Open {
    fn wait(&self, quiet: Duration) -> Duration {
        let (mut quiet_since, mut completed) = (Instant::now(), self.db.compactions_completed());
        while quiet_since.elapsed() < quiet {
            thread::sleep(Duration::from_millis(10));
            if self.db.active_compactions() > 0 || self.db.compactions_completed() != completed {
                completed = self.db.compactions_completed();
                quiet_since = Instant::now();
            }
        }
        quiet_since.elapsed()
    }
}
