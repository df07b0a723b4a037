//! [`Client`]: a database of a contender, its load, and the operations of mixes by one thread.
//!
//! Compactions are awaited after each memtable, so that a design pays for all that it causes, and
//! so that a tree is the same each time. Reads are direct where the file system has that; the cache
//! has what the other parts leave of the memory.

use std::path::Path;
use std::thread;
use std::time::Duration;

use common::numbers::{noise, scattered_key as key};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::Random;
use tamarack_model::simulate::Tree;

use crate::contenders::Contender;
use crate::mixes::Kind;
use crate::plan::{BLOCK_BYTES, Plan, RAW_BYTES, VALUE_BYTES};

/// Keys of numbers from here on are never put.
const ABSENT: u64 = 1 << 40;

/// How often a tree is looked at that is about to come to rest.
const POLL: Duration = Duration::from_millis(50);

/// Keys that are looked up together to fill the cache.
const TOGETHER: u64 = 32;

pub struct Client {
    pub db: Db,
    noise: Vec<u8>,
    random: Random,
    entries: u64,
    scanned: usize,
    buffer_bytes: u64,
    /// Raw bytes in the memtable.
    unsettled: u64,
}

impl Client {
    /// Opens a database of this design.
    pub fn open(dir: &Path, contender: &Contender, plan: &Plan, scanned: u64, seed: u64) -> Result<Self> {
        let advanced = AdvancedOptions::new().policy(&contender.policy).filter(&contender.filter);
        let advanced = advanced.memtable_bytes(contender.buffer_bytes).block_bytes(BLOCK_BYTES as usize);
        let options = Options::new().memory_bytes(plan.memory_bytes).compression(Compression::None).threads(1);
        let db = options.advanced(advanced.direct_io(true)).open(dir)?;
        db.rebuild_filters()?;
        let (entries, buffer_bytes) = (plan.entries, contender.buffer_bytes);
        let (noise, random) = (noise(), Random::new(seed));
        Ok(Self { db, noise, random, entries, scanned: scanned as usize, buffer_bytes, unsettled: 0 })
    }

    /// Loads an empty database with all entries in random order, and brings the tree to rest.
    pub fn load(&mut self, contender: &Contender) -> Result<()> {
        for number in 0..self.entries {
            self.put(number)?;
            if self.is_memtable_full() {
                self.settle()?;
            }
        }
        self.settle()?;
        self.db.reshape()?;
        let policy = contender.parsed();
        loop {
            self.settle()?;
            let (shape, occupancy, in_progress) = self.db.planned();
            if in_progress.is_empty() && !Tree::resume(&policy, shape, occupancy).rest() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
    }

    /// Carries out one operation.
    pub fn operate(&mut self, kind: Kind) -> Result<()> {
        let number = self.random.below(self.entries);
        match kind {
            Kind::ZeroResult => {
                assert!(self.db.get(key(ABSENT + number))?.is_none(), "key {number} was never put");
            }
            Kind::Existing => assert!(self.db.get(key(number))?.is_some(), "key {number} was put"),
            Kind::Scan => {
                let from = key(number);
                let mut scan = self.db.scan(&from[..]..).limit(self.scanned);
                let mut is_first = true;
                while let Some((found, _)) = scan.next_lent()? {
                    assert!(!is_first || found == from, "key {number} was put");
                    is_first = false;
                }
            }
            Kind::Update => self.put(number)?,
        }
        Ok(())
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let begin = self.random.below((self.noise.len() - VALUE_BYTES) as u64) as usize;
        self.db.put(key(number), &self.noise[begin..begin + VALUE_BYTES])?;
        self.unsettled += RAW_BYTES;
        Ok(())
    }

    /// True if another entry would not fit the memtable.
    pub fn is_memtable_full(&self) -> bool {
        self.unsettled + RAW_BYTES > self.buffer_bytes
    }

    /// Flushes the memtable, and waits until no compaction is running or pending, and no filter is
    /// due to be rebuilt.
    pub fn settle(&mut self) -> Result<()> {
        self.unsettled = 0;
        self.db.flush()?;
        self.db.wait_for_compactions()?;
        self.db.wait_for_filter_rebuild()
    }

    /// Looks up so many keys that are there, to fill the cache.
    pub fn warm(&self, keys: u64) -> Result<()> {
        let mut left = keys;
        while left > 0 {
            let some: Vec<_> = (0..left.min(TOGETHER)).map(|_| key(self.random.below(self.entries))).collect();
            left -= some.len() as u64;
            self.db.multi_get(&some)?;
        }
        Ok(())
    }
}
