//! [`Store`]: a database of a design, without block cache and entry cache; its keys, writes and
//! reads.
//!
//! Key n is a permutation of n, so numbers in their order are keys in random order, spread evenly.
//! Files are read through the page cache: reads are counted by the engine, and the device's speed
//! does not matter. Indexes are in memory, as models assume.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::numbers::{noise, scattered_key as key, unit};
use common::zipfian::{Zipfian, scatter};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::Random;
use tamarack_model::policy::Policy;
use tamarack_model::simulate::Tree;

use crate::list::NamedDesign;
use crate::workloads::{DELETED_PART, WriteMix};

pub const KEY_BYTES: usize = 16;
pub const VALUE_BYTES: usize = 100;

/// Raw bytes of a tombstone: the key, and what each entry has beside key and value.
pub const TOMBSTONE_BYTES: u64 = KEY_BYTES as u64 + 8;

/// Raw bytes of an entry.
pub const RAW_BYTES: u64 = TOMBSTONE_BYTES + VALUE_BYTES as u64;

pub const BLOCK_BYTES: u64 = 4096;

/// Threads for flushes and compactions.
pub const THREADS: usize = 2;

const MEMORY_BYTES: u64 = 1 << 30;

/// Enough for the indexes of all tables.
const INDEX_BYTES: u64 = 256 << 20;

/// How often a tree is looked at that is about to come to rest.
const POLL: Duration = Duration::from_millis(50);

/// Keys of numbers from here on are never put.
const ABSENT: u64 = 1 << 40;

pub struct Store {
    pub db: Db,
    noise: Vec<u8>,
    random: Random,
    /// Keys of the numbers below were put.
    numbers: u64,
    zipfian: Zipfian,
    /// Numbers of deleted keys, first deleted first; and the same as a set.
    deleted: VecDeque<u64>,
    is_deleted: HashSet<u64>,
}

impl Store {
    /// Opens a database of this design, empty or with `stored` entries. The design is one for
    /// `entries`.
    pub fn open(dir: &Path, design: &NamedDesign, entries: u64, stored: u64, seed: u64) -> Result<Self> {
        let advanced = AdvancedOptions::new().policy(design.policy).filter(design.filter);
        let advanced = advanced.memtable_bytes(design.buffer_bytes(entries)).block_bytes(BLOCK_BYTES as usize);
        let advanced = advanced.cache_bytes(0).index_bytes(INDEX_BYTES);
        let options = Options::new().compression(Compression::None).memory_bytes(MEMORY_BYTES).threads(THREADS);
        let db = options.advanced(advanced).open(dir)?;
        db.rebuild_filters()?;
        Ok(Self {
            db,
            noise: noise(),
            random: Random::new(seed),
            numbers: stored,
            zipfian: Zipfian::new(entries),
            deleted: VecDeque::new(),
            is_deleted: HashSet::new(),
        })
    }

    /// The number of live entries.
    pub fn live(&self) -> u64 {
        self.numbers - self.deleted.len() as u64
    }

    /// The number of keys that were ever put.
    pub fn numbers(&self) -> u64 {
        self.numbers
    }

    /// Waits until no flush and no compaction is running or pending.
    pub fn settle(&self) -> Result<()> {
        self.db.wait_for_compactions()?;
        self.db.rebuild_filters()
    }

    /// Flushes the memtable and waits until the tree is at rest: its levels fit its shape, and
    /// level 1 is one run if the next level is. The engine does the latter by itself, a second or
    /// more after the last flush.
    pub fn come_to_rest(&self, policy: &Policy) -> Result<()> {
        self.db.flush()?;
        self.settle()?;
        self.db.reshape()?;
        loop {
            self.settle()?;
            let (shape, occupancy, in_progress) = self.db.planned();
            if in_progress.is_empty() && !Tree::resume(policy, shape, occupancy).rest() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
    }

    /// Puts the key of the next number.
    pub fn insert(&mut self) -> Result<u64> {
        self.numbers += 1;
        self.put(self.numbers - 1)
    }

    /// Carries out one write of this mix, and returns its raw bytes.
    pub fn write(&mut self, mix: &WriteMix) -> Result<u64> {
        let drawn = self.random.below(100);
        if drawn < mix.overwrites {
            let number = if mix.is_zipfian() { self.frequent() } else { self.existing() };
            self.put(number)
        } else if drawn < mix.overwrites + mix.inserts {
            self.insert()
        } else {
            self.delete_or_restore()
        }
    }

    /// Deletes a key, or puts the one deleted longest ago if enough are deleted.
    fn delete_or_restore(&mut self) -> Result<u64> {
        if self.deleted.len() as u64 > self.numbers / DELETED_PART {
            let number = self.deleted.pop_front().expect("it was counted");
            self.is_deleted.remove(&number);
            return self.put(number);
        }
        let number = self.existing();
        self.deleted.push_back(number);
        self.is_deleted.insert(number);
        self.db.delete(key(number))?;
        Ok(TOMBSTONE_BYTES)
    }

    fn put(&self, number: u64) -> Result<u64> {
        let begin = self.random.below((self.noise.len() - VALUE_BYTES) as u64) as usize;
        self.db.put(key(number), &self.noise[begin..begin + VALUE_BYTES])?;
        Ok(RAW_BYTES)
    }

    /// The number of a live key, each equally likely.
    fn existing(&self) -> u64 {
        loop {
            let number = self.random.below(self.numbers);
            if !self.is_deleted.contains(&number) {
                return number;
            }
        }
    }

    /// The number of a key by the Zipfian law. Nothing is deleted, and nothing inserted, where this
    /// is used.
    fn frequent(&self) -> u64 {
        scatter(self.zipfian.rank(|| unit(self.random.next())), self.numbers)
    }

    /// Looks up a key that was never put.
    pub fn look_up_absent(&self) -> Result<()> {
        let number = ABSENT + self.random.below(ABSENT);
        assert!(self.db.get(key(number))?.is_none(), "key {number} was never put");
        Ok(())
    }

    /// Looks up a live key.
    pub fn look_up_existing(&self) -> Result<()> {
        self.look_up(self.existing())
    }

    /// Looks up a key by the Zipfian law.
    pub fn look_up_frequent(&self) -> Result<()> {
        self.look_up(self.frequent())
    }

    fn look_up(&self, number: u64) -> Result<()> {
        assert!(self.db.get(key(number))?.is_some(), "key {number} is live");
        Ok(())
    }

    /// Returns so many entries, from any live key on.
    pub fn scan(&self, entries: u64) -> Result<()> {
        let from = key(self.existing());
        let mut scan = self.db.scan(&from[..]..).limit(entries as usize);
        let mut is_first = true;
        while let Some((found, _)) = scan.next_lent()? {
            assert!(!is_first || found == from, "the first key is live");
            is_first = false;
        }
        Ok(())
    }
}
