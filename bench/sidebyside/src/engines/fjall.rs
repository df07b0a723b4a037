//! fjall.

use std::path::Path;
use std::sync::Arc;

use super::{Engine, Store};
use crate::workload::{Durability, Workload};
use ::fjall::compaction::Leveled;
use ::fjall::config::CompressionPolicy;
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

pub struct Fjall;

struct Open {
    db: Database,
    keyspace: Keyspace,
    durability: Durability,
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn package(&self) -> &'static str {
        "fjall"
    }

    fn setup(&self) -> &'static str {
        "no switch turns merges off: level 0 may hold 255 tables before the first merge, but writers are slowed from 20 on; \
         for `sync`, each put is followed by `persist(SyncData)`; two worker threads; all else default. In loadrandom the trigger is its default, but the clock does not wait for its merges, which nobody can wait for"
    }

    fn open(&self, dir: &Path, workload: &Workload, buffer_bytes: u64) -> Box<dyn Store> {
        let builder = Database::builder(dir.join("db")).worker_threads(2).journal_compression(CompressionType::None);
        let db = builder.open().expect("fjall opens");
        let strategy = if workload.settled { Leveled::default() } else { Leveled::default().with_l0_threshold(255) };
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(buffer_bytes)
                .compaction_strategy(Arc::new(strategy.clone()))
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        };
        let keyspace = db.keyspace("measured", options).expect("fjall makes a keyspace");
        Box::new(Open { db, keyspace, durability: workload.durability })
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.keyspace.insert(key, value).expect("fjall puts");
        if self.durability == Durability::Sync {
            self.db.persist(PersistMode::SyncData).expect("fjall syncs");
        }
    }

    /// Its merges cannot be waited for: the clock stops when the buffer is written out.
    fn settle(&self) {
        self.keyspace.rotate_memtable_and_wait().expect("fjall flushes");
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.keyspace.get(key).expect("fjall gets").map(|value| value.to_vec())
    }
}
