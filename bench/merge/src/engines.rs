//! The two engines behind one narrow trait: make sorted runs, merge them into one.

use std::path::Path;

use crate::data::Data;
use rocksdb::statistics::Ticker;
use rocksdb::{BottommostLevelCompaction, CompactOptions, DB, DBCompressionType, Options, WriteOptions};
use tamarack::{AdvancedOptions, Compression, Db, Durability};

pub trait Engine {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The crate whose version the report gives.
    fn package(&self) -> &'static str;

    /// How it was set up, and what could not be made equal.
    fn setup(&self) -> &'static str;

    /// Makes a database with one sorted run for each of the data's, and closes it.
    fn fill(&self, dir: &Path, data: &Data);

    /// Opens it, for `threads` threads to merge.
    fn open(&self, dir: &Path, data: &Data, threads: usize) -> Box<dyn Filled>;
}

/// A database with several runs.
pub trait Filled {
    /// Compacts all runs into one; the result is durable when this returns.
    fn merge(&self);

    /// Bytes of the tables that the compaction wrote. The tree must have one run now.
    fn written_bytes(&self) -> u64;

    fn get(&self, key: &[u8]) -> Option<Vec<u8>>;
}

/// A failure of an engine ends the measurement.
const WORKS: &str = "the engine works";

pub struct Tamarack;

impl Tamarack {
    fn open(dir: &Path, data: &Data, threads: usize) -> Db {
        // Tiering with more slots than runs are written, so that no compaction begins by itself. A
        // run is a memtable less a little, so that the last put does not rotate it.
        let run_bytes = data.bytes() / data.runs + 8 * (data.entries / data.runs);
        let advanced = AdvancedOptions::new()
            .filter("none")
            .policy(&format!("tiering:T={}", 2 * data.runs))
            .memtable_bytes(run_bytes + run_bytes / 100)
            .block_bytes(4096);
        let options = tamarack::Options::new().memory_bytes(1 << 30).compression(data.compression).advanced(advanced);
        options.durability(Durability::Buffered).threads(threads).open(dir).expect(WORKS)
    }
}

impl Engine for Tamarack {
    fn name(&self) -> &'static str {
        "tamarack"
    }

    fn package(&self) -> &'static str {
        "tamarack"
    }

    fn setup(&self) -> &'static str {
        "runs of level 1 under tiering, no filters; `Db::compact`; tables of a thirty-second of the run; background threads as said"
    }

    fn fill(&self, dir: &Path, data: &Data) {
        let db = Self::open(dir, data, 1);
        for run in 0..data.runs {
            data.for_each_of_run(run, |entry| db.put(entry.key, entry.value).expect(WORKS));
            db.flush().expect(WORKS);
        }
        let runs: Vec<usize> =
            db.stats().levels.iter().map(|level| level.runs.len()).filter(|runs| *runs > 0).collect();
        assert_eq!(runs, [data.runs as usize], "each flush makes a run");
        db.close().expect(WORKS);
    }

    fn open(&self, dir: &Path, data: &Data, threads: usize) -> Box<dyn Filled> {
        Box::new(Self::open(dir, data, threads))
    }
}

impl Filled for Db {
    fn merge(&self) {
        self.compact().expect(WORKS);
    }

    fn written_bytes(&self) -> u64 {
        let stats = self.stats();
        assert_eq!(stats.levels.iter().map(|level| level.runs.len()).sum::<usize>(), 1, "all runs are merged");
        stats.compaction_bytes
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        Db::get(self, key).expect(WORKS).map(|value| value.to_vec())
    }
}

pub struct RocksDb;

struct OpenRocksDb {
    db: DB,
    options: Options,
    threads: usize,
}

impl RocksDb {
    fn open(dir: &Path, data: &Data, threads: usize) -> OpenRocksDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(match data.compression {
            Compression::None => DBCompressionType::None,
            _ => DBCompressionType::Lz4,
        });
        options.set_write_buffer_size(2 * (data.bytes() / data.runs) as usize);
        options.set_max_background_jobs(2.max(threads as i32));
        options.set_max_subcompactions(threads as u32);
        options.set_disable_auto_compactions(true);
        options.set_level_zero_file_num_compaction_trigger(1 << 30);
        options.set_level_zero_slowdown_writes_trigger(1 << 30);
        options.set_level_zero_stop_writes_trigger(1 << 30);
        options.enable_statistics();
        OpenRocksDb { db: DB::open(&options, dir).expect(WORKS), options, threads }
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn package(&self) -> &'static str {
        "librocksdb-sys"
    }

    fn setup(&self) -> &'static str {
        "files of L0; `CompactRange` of all keys, `max_subcompactions` as said; all else default: tables of 64 MiB, blocks of 4 KiB, XXH3, \
         read-ahead of 2 MiB, no filters, no direct I/O"
    }

    fn fill(&self, dir: &Path, data: &Data) {
        let open = Self::open(dir, data, 1);
        let mut write = WriteOptions::default();
        write.disable_wal(true);
        for run in 0..data.runs {
            data.for_each_of_run(run, |entry| open.db.put_opt(entry.key, entry.value, &write).expect(WORKS));
            open.db.flush().expect(WORKS);
        }
        assert_eq!(open.files_at_level_0(), data.runs, "each flush makes a run");
    }

    fn open(&self, dir: &Path, data: &Data, threads: usize) -> Box<dyn Filled> {
        Box::new(Self::open(dir, data, threads))
    }
}

impl OpenRocksDb {
    fn files_at_level_0(&self) -> u64 {
        let count = self.db.property_value("rocksdb.num-files-at-level0").expect(WORKS);
        count.and_then(|text| text.parse().ok()).expect("RocksDB counts its files")
    }
}

impl Filled for OpenRocksDb {
    fn merge(&self) {
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(true);
        // What the compaction itself wrote to the last level is not to be written again.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::IfHaveCompactionFilter);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
    }

    fn written_bytes(&self) -> u64 {
        assert_eq!(self.files_at_level_0(), 0, "all runs are merged, by {} threads", self.threads);
        self.options.get_ticker_count(Ticker::CompactWriteBytes)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect(WORKS)
    }
}
