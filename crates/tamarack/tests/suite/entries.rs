//! The entry cache: through all writes, deletes, flushes, compactions, ingests and reshapes, for
//! present and past readers, cached entries answer as the tables would.
//!
//! Random histories on a database with a cache for a few entries and blocks, compared with a map
//! for the present and one for each snapshot. Planted mistakes in the cache's rules show that the
//! histories can fail: each makes some history fail.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::{AdvancedOptions, Db, LookupCounts, Options, Result, Snapshot};
use tamarack_env::{Random, SimEnv};

#[cfg(debug_assertions)]
use crate::noticed::is_noticed;

const OPERATIONS: usize = 1500;

const KEYS: u64 = 150;

/// The upper bound on histories: a mistake that needs more is not noticed.
#[cfg(debug_assertions)]
const HISTORIES_MAX: u64 = 30;

/// Keys and values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

struct World {
    db: Db,
    now: Content,
    snapshots: Vec<(Snapshot, Content)>,
    random: Random,
}

#[test]
fn cached_entries_answer_as_tables_do() -> Result<()> {
    let mut all = LookupCounts::default();
    for seed in 0..20 {
        match history(seed)? {
            Ok(counts) => all += counts,
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    println!("{all:?}");
    assert!(all.cached_entries > all.lookups / 20, "the cache had few entries: {all:?}");
    assert!(all.data_blocks_read > all.lookups / 10, "the cache had nearly everything: {all:?}");
    Ok(())
}

/// One of the entries with equal digests answers for all. (The digests are not really equal here,
/// but the effect is the same.)
#[cfg(debug_assertions)]
#[test]
fn an_entry_of_another_key_is_noticed() {
    is_noticed(Mistake::CachedKeyMistaken, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn an_entry_that_is_younger_than_its_reader_is_noticed() {
    is_noticed(Mistake::CachedFromTheFuture, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn an_entry_that_is_not_the_youngest_is_noticed() {
    is_noticed(Mistake::CachedFromThePast, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn an_entry_that_a_flush_leaves_behind_is_noticed() {
    is_noticed(Mistake::CachedThroughFlush, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn an_entry_that_an_ingest_leaves_behind_is_noticed() {
    is_noticed(Mistake::CachedThroughIngest, HISTORIES_MAX, history);
}

/// The lookups in the history of that seed, or the first wrong one.
fn history(seed: u64) -> Result<std::result::Result<LookupCounts, String>> {
    let random = Random::new(seed);
    let cache_bytes = [2000, 4000, 8000][random.below(3) as usize];
    let advanced = AdvancedOptions::new()
        .env(std::sync::Arc::new(SimEnv::new(seed)))
        .policy("leveling:T=3")
        .memtable_bytes(1500)
        .block_bytes(400);
    let advanced = advanced.table_bytes(1200).cache_bytes(cache_bytes);
    let advanced = advanced.filter(["none", "blocked:bits=10", "blocked:bits=1"][random.below(3) as usize]);
    let db = Options::new().threads(1).advanced(advanced).open("/db")?;
    let mut world = World { db, now: Content::new(), snapshots: Vec::new(), random };
    for at in 0..OPERATIONS {
        if let Err(what) = world.step()? {
            return Ok(Err(format!("operation {at}: {what}")));
        }
        let stats = world.db.stats();
        assert!(stats.cache_entry_bytes <= stats.cache_bytes && stats.cache_bytes <= cache_bytes, "{stats:?}");
    }
    Ok(Ok(world.db.stats().lookups))
}

impl World {
    /// One operation; an error of the second kind describes a wrong answer.
    fn step(&mut self) -> Result<std::result::Result<(), String>> {
        match self.random.below(1000) {
            0..150 => {
                let (key, value) = (self.key(), self.value());
                self.db.put(&key, &value)?;
                self.now.insert(key, value);
            }
            150..200 => {
                let key = self.key();
                self.db.delete(&key)?;
                self.now.remove(&key);
            }
            200..240 => self.snapshots.push((self.db.snapshot(), self.now.clone())),
            240..275 => drop((!self.snapshots.is_empty()).then(|| {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(at)
            })),
            275..290 => self.db.flush()?,
            290..293 => self.db.compact()?,
            293..296 => {
                let policies = [
                    "leveling:T=3",
                    "garnering:T=2,c=0.5,first=2",
                    "tiering:T=4",
                    "moose:last=0.8,k=1",
                    "lazy-leveling:T=3",
                    "qlsm-bush:T=2,X=2",
                ];
                self.db.set_policy(policies[self.random.below(6) as usize])?;
            }
            296..300 => self.ingest()?,
            300..340 => {
                let keys: Vec<_> = (0..self.random.below(20)).map(|_| self.key()).collect();
                return self.look_up_together(&keys);
            }
            _ => {
                let key = self.key();
                return self.look_up(&key);
            }
        }
        Ok(Ok(()))
    }

    /// Stores a few keys in tables.
    fn ingest(&mut self) -> Result<()> {
        let keys: BTreeSet<_> = (0..self.random.below(10)).map(|_| self.key()).collect();
        let mut ingest = self.db.ingest()?;
        for key in keys {
            let value = self.value();
            ingest.put(&key, &value)?;
            self.now.insert(key, value);
        }
        ingest.finish().map(drop)
    }

    /// Some keys are hot.
    fn key(&self) -> Vec<u8> {
        let below = [KEYS, KEYS / 10, 8][self.random.below(3) as usize];
        format!("key {:05}", self.random.below(below) * 7919 % KEYS).into_bytes()
    }

    /// All values differ; most take a small part of a block, some more than one.
    fn value(&self) -> Vec<u8> {
        let bytes = [10, 40, 40, 40, 250, 500][self.random.below(6) as usize];
        let mut value = self.random.next().to_le_bytes().to_vec();
        value.resize(bytes.max(8), b'v');
        value
    }

    fn look_up(&self, key: &[u8]) -> Result<std::result::Result<(), String>> {
        let at = self.random.below(2 + self.snapshots.len() as u64).checked_sub(2);
        let (found, there, expected) = match at {
            None => (self.db.get(key)?, self.db.contains_key(key)?, self.now.get(key)),
            Some(at) => {
                let (snapshot, content) = &self.snapshots[at as usize];
                (snapshot.get(key)?, snapshot.contains_key(key)?, content.get(key))
            }
        };
        let is_right = found.as_deref() == expected.map(Vec::as_slice) && there == expected.is_some();
        Ok(if is_right { Ok(()) } else { Err(format!("{found:?} ({there}) instead of {expected:?} at {at:?}")) })
    }

    fn look_up_together(&self, keys: &[Vec<u8>]) -> Result<std::result::Result<(), String>> {
        let found = self.db.multi_get(keys)?;
        let wrong =
            keys.iter().zip(&found).find(|(key, found)| found.as_deref() != self.now.get(*key).map(Vec::as_slice));
        Ok(wrong.map_or(Ok(()), |(key, found)| Err(format!("{found:?} for {key:?} among many"))))
    }
}
