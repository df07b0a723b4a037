//! RocksDB, through the crate `rocksdb`.

use std::path::Path;

use super::{Engine, Store};
use crate::workload::{Durability, Workload};
use ::rocksdb::{DB, DBCompressionType, Options, WaitForCompactOptions, WriteOptions};

pub struct RocksDb;

struct Open {
    db: DB,
    write: WriteOptions,
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn package(&self) -> &'static str {
        "librocksdb-sys"
    }

    fn setup(&self) -> &'static str {
        "automatic compaction off and level 0 unlimited, but for loadrandom, where it is leveled with a size ratio of 10 and all limits at their defaults; four write buffers (one that takes writes, three to be flushed); two background jobs; all else default"
    }

    fn open(&self, dir: &Path, workload: &Workload, buffer_bytes: u64) -> Box<dyn Store> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(buffer_bytes as usize);
        options.set_max_write_buffer_number(4);
        options.set_max_background_jobs(2);
        if !workload.settled {
            options.set_disable_auto_compactions(true);
            options.set_level_zero_file_num_compaction_trigger(1 << 30);
            options.set_level_zero_slowdown_writes_trigger(1 << 30);
            options.set_level_zero_stop_writes_trigger(1 << 30);
            // Without merges all data is "pending compaction"; these limits would slow writers down for it.
            options.set_soft_pending_compaction_bytes_limit(0);
            options.set_hard_pending_compaction_bytes_limit(0);
        }
        let mut write = WriteOptions::default();
        write.set_sync(workload.durability == Durability::Sync);
        Box::new(Open { db: DB::open(&options, dir.join("db")).expect("rocksdb opens"), write })
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put_opt(key, value, &self.write).expect("rocksdb puts");
    }

    fn settle(&self) {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options).expect("rocksdb settles");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.db.get(key).expect("rocksdb gets")
    }
}
