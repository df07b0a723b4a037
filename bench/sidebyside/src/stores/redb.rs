//! redb, a copy-on-write B-tree.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use super::{Durability, Kind, Place, Seen, Store};
use ::redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata, TableDefinition};

pub struct Redb;

struct Open {
    db: Database,
    durability: Durability,
    /// What is to be committed at once, while only loading.
    batch: Option<Mutex<Vec<Pair>>>,
    commits: AtomicU64,
    /// The table as of the last commit, once it was read.
    latest: RwLock<Option<Table>>,
}

/// A key and a value.
type Pair = (Vec<u8>, Vec<u8>);

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("measured");

const WORKS: &str = "redb works";

/// Puts of a commit while only loading.
const BATCH: usize = 250_000;

/// Commits that are not synced keep the pages that they replace, so a synced one must come from
/// time to time.
const SYNC_EVERY: u64 = 100_000;

impl Kind for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn package(&self) -> &'static str {
        "redb"
    }

    fn setup(&self) -> &'static str {
        "a B-tree of pages of 4 KiB in one file, without filters, levels or runs: its one tree stands for both shapes. Its cache has the size of the others' caches and filters together. A put is a write transaction of its own with \
         `Durability::None`, which leaves it in the memory of the process until a later commit is synced (the last after a slice that writes, and every 100,000th): less than the others promise, whose puts survive the end of the process. Loaded by transactions of 250,000 puts, sorted, the last of which is synced; \
         writers exclude each other. A read transaction is kept until the next commit. It has no direct I/O: where others read past the page cache, its file is \
         evicted before each slice. It does not count blocks; what is shown are calls of its process that read"
    }

    fn has_direct_io(&self) -> bool {
        false
    }

    fn has_one_shape(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let cache_bytes = place.cache_bytes + place.filter_bytes();
        let db = Builder::new().set_cache_size(cache_bytes as usize).create(dir.join("redb")).expect(WORKS);
        let batch = place.loading.then(Mutex::default);
        let open =
            Open { db, durability: place.durability, batch, commits: AtomicU64::new(0), latest: RwLock::default() };
        open.commit(&[], Durability::Sync);
        Box::new(open)
    }
}

/// With its defaults.
pub struct ByDefault;

impl Kind for ByDefault {
    fn name(&self) -> &'static str {
        "redb by default"
    }

    fn package(&self) -> &'static str {
        "redb"
    }

    fn setup(&self) -> &'static str {
        "all defaults; its cache has all of the memory. A put is a write transaction of its own with `Durability::None`, and every 100,000th is synced: with its default, a sync for each, it would be compared with what others do not do"
    }

    fn has_one_shape(&self) -> bool {
        true
    }

    fn open(&self, _dir: &Path, _place: &Place) -> Box<dyn Store> {
        unreachable!("{} is only measured with its defaults", self.name())
    }

    fn open_with_defaults(&self, dir: &Path, memory_bytes: u64) -> Box<dyn Store> {
        let db = Builder::new().set_cache_size(memory_bytes as usize).create(dir.join("redb")).expect(WORKS);
        let (commits, latest) = (AtomicU64::new(0), RwLock::default());
        let open = Open { db, durability: Durability::Buffered, batch: None, commits, latest };
        open.commit(&[], Durability::Sync);
        Box::new(open)
    }
}

impl Open {
    fn commit(&self, entries: &[(&[u8], &[u8])], durability: Durability) {
        let mut transaction = self.db.begin_write().expect(WORKS);
        let synced = durability == Durability::Sync;
        let durability = if synced { ::redb::Durability::Immediate } else { ::redb::Durability::None };
        transaction.set_durability(durability).expect(WORKS);
        {
            let mut table = transaction.open_table(TABLE).expect(WORKS);
            for (key, value) in entries {
                table.insert(key, value).expect(WORKS);
            }
        }
        transaction.commit().expect(WORKS);
        *self.latest.write().expect(WORKS) = None;
    }

    fn commit_batch(&self, batch: &mut Vec<Pair>) {
        batch.sort_unstable();
        let entries: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        self.commit(&entries, Durability::Buffered);
        batch.clear();
    }

    fn with_latest<T>(&self, read: impl FnOnce(&Table) -> T) -> T {
        if let Some(table) = &*self.latest.read().expect(WORKS) {
            return read(table);
        }
        let mut latest = self.latest.write().expect(WORKS);
        let open = || self.db.begin_read().expect(WORKS).open_table(TABLE).expect(WORKS);
        read(latest.get_or_insert_with(open))
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        if let Some(batch) = &self.batch {
            let mut batch = batch.lock().expect(WORKS);
            batch.push((key.to_vec(), value.to_vec()));
            if batch.len() == BATCH {
                self.commit_batch(&mut batch);
            }
            return;
        }
        let commits = 1 + self.commits.fetch_add(1, Ordering::Relaxed);
        let durability = if commits.is_multiple_of(SYNC_EVERY) { Durability::Sync } else { self.durability };
        self.commit(&[(key, value)], durability);
    }

    fn flush(&self) {
        if let Some(batch) = &self.batch {
            self.commit_batch(&mut batch.lock().expect(WORKS));
        }
    }

    /// Nothing is merged; but what was not synced is kept in memory until then.
    fn settle(&self) -> Duration {
        self.commit(&[], Durability::Sync);
        Duration::ZERO
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        self.with_latest(|table| {
            if let Some(value) = table.get(key).expect(WORKS) {
                seen.value(value.value());
            }
        });
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        self.with_latest(|table| {
            if reverse {
                let range = (Bound::Unbounded, Bound::Included(from));
                for entry in table.range::<&[u8]>(range).expect(WORKS).rev().take(limit) {
                    let (key, value) = entry.expect(WORKS);
                    seen.entry(key.value(), value.value());
                }
            } else {
                for entry in table.range(from..).expect(WORKS).take(limit) {
                    let (key, value) = entry.expect(WORKS);
                    seen.entry(key.value(), value.value());
                }
            }
        });
    }

    fn tree(&self) -> String {
        let stats = self.with_latest(|table| table.stats().expect(WORKS));
        format!("B-tree of height {}, {} leaves", stats.tree_height(), stats.leaf_pages())
    }
}
