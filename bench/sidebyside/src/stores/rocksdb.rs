//! RocksDB, through the crate `rocksdb`, in several variants: which is fastest depends on the
//! workload.

use std::path::Path;
use std::time::Duration;

use super::{BLOCK_BYTES, Compression, Durability, Gauges, Kind, MEMTABLES, Place, Seen, Shape, Store};
use ::rocksdb::perf::PerfStatsLevel;
use ::rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompactionStyle, DBCompressionType, Options, PerfContext, PerfMetric, ReadOptions,
    WaitForCompactOptions, WriteOptions, perf,
};

struct RocksDb {
    name: &'static str,
    setup: &'static str,
    /// The hyper-clock cache instead of the LRU cache.
    hyper_clock: bool,
    /// Universal compaction for [`Shape::Default`].
    universal: bool,
}

struct Open {
    db: DB,
    read: ReadOptions,
    write: WriteOptions,
    shape: Shape,
    universal: bool,
    counts: bool,
}

const WORKS: &str = "rocksdb works";

/// Its default number of levels.
const LEVELS: u32 = 7;

pub(super) fn variants() -> Vec<Box<dyn Kind>> {
    let lru = RocksDb {
        name: "rocksdb",
        setup: "its default LRU cache; full Bloom filters of 10 bits (cache-line-blocked, its own format); filters and indexes in memory beside \
                the cache, its default; leveled with a ratio of 10, level 1 of ten buffers, fixed level sizes (with its default, dynamic ones, this much data makes one level less than elsewhere), tables of a \
                buffer's size, and after loading an empty L0; or automatic compaction off and L0 unlimited, and a memtable set to twice the size, as it counts more for an entry; four write buffers (one that takes writes, three to be flushed); format \
                version, checksums, restart intervals and read-ahead at their defaults; `get_pinned`; a new iterator for each scan; two background jobs; the WAL is written but not synced",
        hyper_clock: false,
        universal: false,
    };
    let hyper_clock = RocksDb {
        name: "rocksdb hcc",
        setup: "as `rocksdb`, but with a HyperClockCache that is told the size of blocks",
        hyper_clock: true,
        universal: false,
    };
    vec![Box::new(lru), Box::new(hyper_clock)]
}

/// Both ways in which it compacts by itself.
pub(super) fn styles() -> Vec<Box<dyn Kind>> {
    let style = |name, setup, universal| RocksDb { name, setup, hyper_clock: false, universal };
    let leveled = style(
        "rocksdb",
        "leveled compaction with its defaults in proportion to the memtable: level 1 of four memtables, tables of one, dynamic level sizes with a ratio of 10, a compaction of L0 from four tables on; four write buffers; two background jobs; \
         LRU cache; full Bloom filters of 10 bits, filters and indexes in memory beside the cache; all tables opened when the database is; direct reads, also of compactions, which read 2 MiB ahead (its default); what is written goes through the page cache; the WAL is written but not synced",
        false,
    );
    let universal = style(
        "rocksdb universal",
        "as `rocksdb`, but with universal compaction and all its defaults (size ratio 1 %, space amplification at most 200 %, a compaction from four runs on)",
        true,
    );
    vec![Box::new(leveled), Box::new(universal)]
}

impl Kind for RocksDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn files(&self) -> &'static str {
        "rocksdb"
    }

    fn package(&self) -> &'static str {
        "librocksdb-sys"
    }

    fn setup(&self) -> &'static str {
        self.setup
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(match place.compression {
            Compression::None => DBCompressionType::None,
            Compression::Lz4 => DBCompressionType::Lz4,
        });
        options.set_use_direct_reads(place.direct_io);
        options.set_max_background_jobs(2);
        options.set_write_buffer_size(place.generous_buffer_bytes() as usize);
        options.set_max_write_buffer_number(MEMTABLES as i32);
        let cache = match self.hyper_clock {
            true => Cache::new_hyper_clock_cache(place.cache_bytes as usize, BLOCK_BYTES),
            false => Cache::new_lru_cache(place.cache_bytes as usize),
        };
        options.set_block_based_table_factory(&Self::tables(&cache, place.filter_bits));
        match place.shape {
            // Its defaults are four memtables of 64 MiB, and tables of one.
            Shape::Default => {
                options.set_max_bytes_for_level_base(4 * place.buffer_bytes);
                options.set_target_file_size_base(place.buffer_bytes);
                if let Some(ratio) = place.ratio {
                    options.set_max_bytes_for_level_multiplier(ratio as f64);
                }
                if self.universal {
                    options.set_compaction_style(DBCompactionStyle::Universal);
                }
            }
            Shape::Leveled => {
                options.set_max_bytes_for_level_base(10 * place.buffer_bytes);
                options.set_max_bytes_for_level_multiplier(10.0);
                // Its default, dynamic sizes, makes two levels of this much data.
                options.set_level_compaction_dynamic_level_bytes(false);
                // With the default of 64 MiB, upper levels would have a table or two, and
                // compactions would take them whole.
                options.set_target_file_size_base(place.buffer_bytes);
            }
            Shape::Runs { .. } => {
                options.set_disable_auto_compactions(true);
                options.set_level_zero_file_num_compaction_trigger(1 << 30);
                options.set_level_zero_slowdown_writes_trigger(1 << 30);
                options.set_level_zero_stop_writes_trigger(1 << 30);
                // Without compactions all data is "pending compaction"; these limits would slow
                // writers down for it.
                options.set_soft_pending_compaction_bytes_limit(0);
                options.set_hard_pending_compaction_bytes_limit(0);
            }
        }
        let db = DB::open(&options, dir).expect(WORKS);
        let (read, mut write, shape, counts) =
            (ReadOptions::default(), WriteOptions::default(), place.shape, place.direct_io);
        write.set_sync(place.durability == Durability::Sync);
        Box::new(Open { db, read, write, shape, universal: self.universal, counts })
    }
}

impl RocksDb {
    fn tables(cache: &Cache, filter_bits: u64) -> BlockBasedOptions {
        let mut tables = BlockBasedOptions::default();
        tables.set_block_size(BLOCK_BYTES);
        tables.set_bloom_filter(filter_bits as f64, false);
        tables.set_block_cache(cache);
        tables
    }
}

/// With its defaults.
struct ByDefault {
    name: &'static str,
    setup: &'static str,
    /// A block cache that has what the memtables leave of the memory; its own default otherwise.
    has_cache: bool,
}

/// The size of its memtables.
const DEFAULT_MEMTABLE_BYTES: u64 = 64 << 20;

pub(super) fn by_default() -> Vec<Box<dyn Kind>> {
    let with_cache = ByDefault {
        name: "rocksdb by default",
        setup: "all defaults, among them memtables of 64 MiB, two of which are taken from the memory, and no filters; the rest of the memory is its block cache (LRU)",
        has_cache: true,
    };
    let untouched = ByDefault {
        name: "rocksdb untouched",
        setup: "all defaults, also its block cache of 32 MiB; the page cache has the rest of the memory",
        has_cache: false,
    };
    vec![Box::new(with_cache), Box::new(untouched)]
}

impl Kind for ByDefault {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&self) -> &'static str {
        "librocksdb-sys"
    }

    fn setup(&self) -> &'static str {
        self.setup
    }

    fn open(&self, _dir: &Path, _place: &Place) -> Box<dyn Store> {
        unreachable!("{} is only measured with its defaults", self.name)
    }

    fn open_with_defaults(&self, dir: &Path, memory_bytes: u64) -> Box<dyn Store> {
        let mut options = Options::default();
        options.create_if_missing(true);
        if self.has_cache {
            let cache_bytes = memory_bytes.saturating_sub(2 * DEFAULT_MEMTABLE_BYTES).max(memory_bytes / 2);
            let mut tables = BlockBasedOptions::default();
            tables.set_block_cache(&Cache::new_lru_cache(cache_bytes as usize));
            options.set_block_based_table_factory(&tables);
        }
        let db = DB::open(&options, dir).expect(WORKS);
        let (read, write, shape) = (ReadOptions::default(), WriteOptions::default(), Shape::Default);
        Box::new(Open { db, read, write, shape, universal: false, counts: false })
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put_opt(key, value, &self.write).expect(WORKS);
    }

    fn flush(&self) {
        self.db.flush().expect(WORKS);
    }

    /// Empties L0 of [`Shape::Leveled`]: each file there is one more run to look into.
    fn settle(&self) -> Duration {
        match self.shape {
            Shape::Default => {
                self.rest();
            }
            Shape::Leveled => {
                self.db.set_options(&[("level0_file_num_compaction_trigger", "1")]).expect(WORKS);
                self.rest();
                self.db.set_options(&[("level0_file_num_compaction_trigger", "4")]).expect(WORKS);
            }
            Shape::Runs { .. } => (),
        }
        Duration::ZERO
    }

    fn rest(&self) -> Duration {
        self.db.wait_for_compact(&WaitForCompactOptions::default()).expect(WORKS);
        Duration::ZERO
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        if let Some(value) = self.db.get_pinned_opt(key, &self.read).expect(WORKS) {
            seen.value(&value);
        }
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        let mut iterator = self.db.raw_iterator();
        if reverse {
            iterator.seek_for_prev(from);
        } else {
            iterator.seek(from);
        }
        for n in 1..=limit {
            let Some((key, value)) = iterator.item() else { break };
            seen.entry(key, value);
            match (n < limit, reverse) {
                (false, _) => (),
                (true, true) => iterator.prev(),
                (true, false) => iterator.next(),
            }
        }
        iterator.status().expect(WORKS);
    }

    fn tree(&self) -> String {
        // A line for each level: its number, its tables, its MiB.
        let levels = self.db.property_value("rocksdb.levelstats").expect(WORKS).unwrap_or_default();
        let levels = levels.lines().skip(2).filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [level, tables, mib] if tables != "0" => Some(format!("level {level}: {tables} tables, {mib} MiB")),
            _ => None,
        });
        let levels: Vec<_> = levels.collect();
        levels.join("; ")
    }

    fn gauges(&self) -> Gauges {
        let number = |property: &str| self.db.property_int_value(property).expect(WORKS);
        let tables = |level: u32| number(&format!("rocksdb.num-files-at-level{level}")).unwrap_or(0);
        let runs = tables(0) + (1..LEVELS).map(|level| tables(level).min(1)).sum::<u64>();
        // Its estimate is 0 for universal compaction.
        let debt_bytes = number("rocksdb.estimate-pending-compaction-bytes").filter(|_| !self.universal);
        Gauges { debt_bytes, runs: Some(runs) }
    }

    fn table_bytes_rounding(&self) -> u64 {
        11 << 20
    }

    fn block_counts(&self) -> Option<u64> {
        self.block_reads()
    }

    /// From a line `Cumulative compaction: 1.23 GB write, …`, which includes flushes: to 10 MiB.
    fn table_bytes_written(&self) -> Option<u64> {
        let text = self.db.property_value("rocksdb.cfstats-no-file-histogram").expect(WORKS)?;
        let line = text.lines().find_map(|line| line.strip_prefix("Cumulative compaction: "))?;
        let gib: f64 = line.split(' ').next()?.parse().ok()?;
        Some((gib * f64::from(1 << 30)) as u64)
    }

    /// Its own count, which costs it a little; so only where blocks are read.
    fn block_reads(&self) -> Option<u64> {
        self.counts.then(|| {
            perf::set_perf_stats(PerfStatsLevel::EnableCount);
            PerfContext::default().metric(PerfMetric::BlockReadCount)
        })
    }

    fn counts_by_thread(&self) -> bool {
        true
    }
}
