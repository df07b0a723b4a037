//! A database of entries of 1 KB with direct I/O and no block cache: loaded, looked up in, scanned
//! and overwritten, beside the models' costs of its runs.
//!
//! Models get counts only: the tree's runs, their filters' predicted false positive rates, what
//! compactions have handed over, and the sizes of flushes. Indexes are in memory, as in the papers'
//! stores.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::numbers::{mix, noise};
use tamarack::{AdvancedOptions, Compression, Db, Event, JobStats, Options, Result, RunStats, Stats};
use tamarack_env::os::{Batching, OsEnv};
use tamarack_env::{Env, Random};
use tamarack_model::Bytes;
use tamarack_model::cost::range::{self, Met};
use tamarack_model::simulate::Tree;

pub const KEY_BYTES: usize = 24;
pub const VALUE_BYTES: usize = 1000;

/// Raw bytes of an entry.
pub const RAW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES + 8) as u64;

pub const BLOCK_BYTES: u64 = 4096;

/// Keys are random bytes.
const KEY_BASE: f64 = 256.0;

/// Room for the indexes of all tables of some GB.
const INDEX_BYTES: u64 = 256 << 20;

/// How a database is made.
#[derive(Clone)]
pub struct Setting {
    pub dir: PathBuf,
    pub policy: String,
    pub filter: String,
    pub buffer_bytes: u64,
}

pub struct Store {
    pub db: Db,
    setting: Setting,
    /// Raw bytes of each flush since it was opened.
    flushes: Arc<Mutex<Vec<u64>>>,
    noise: Vec<u8>,
    random: Random,
    /// Keys of the numbers below are there.
    pub entries: u64,
}

/// What reads took, all together.
#[derive(Clone, Copy, Default)]
pub struct Taken {
    pub operations: u64,
    /// Data blocks.
    pub blocks: u64,
    /// Reads of files.
    pub reads: u64,
    pub seconds: f64,
}

impl Setting {
    /// Opens it, empty or with these entries. Seeks read what they need of all runs at once, or
    /// `one_by_one`.
    pub fn open(&self, entries: u64, one_by_one: bool) -> Result<Store> {
        let flushes: Arc<Mutex<Vec<u64>>> = Arc::default();
        let heard = flushes.clone();
        let listener = move |event: &Event| {
            if let Event::FlushEnded { raw_bytes, .. } = event {
                heard.lock().expect("nobody panics").push(*raw_bytes);
            }
        };
        let env: Arc<dyn Env> = if one_by_one { OsEnv::with_batching(Batching::OneByOne) } else { OsEnv::new() };
        let advanced =
            AdvancedOptions::new().env(env).policy(&self.policy).filter(&self.filter).memtable_bytes(self.buffer_bytes);
        let advanced =
            advanced.direct_io(true).cache_bytes(0).index_bytes(INDEX_BYTES).block_bytes(BLOCK_BYTES as usize);
        let options = Options::new().compression(Compression::None).memory_bytes(1 << 30).threads(2);
        let db = options.listener(Arc::new(listener)).advanced(advanced).open(&self.dir)?;
        Ok(Store { db, setting: self.clone(), flushes, noise: noise(), random: Random::new(1), entries })
    }
}

impl Store {
    /// Closes it and opens it again.
    pub fn reopened(self, one_by_one: bool) -> Result<Self> {
        self.db.close()?;
        self.setting.open(self.entries, one_by_one)
    }

    /// Stores entries that are new until there are so many.
    pub fn grow_to(&mut self, entries: u64) -> Result<()> {
        while self.entries < entries {
            self.put(self.entries)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// Gives any of its entries another value.
    pub fn overwrite(&self) -> Result<()> {
        self.put(self.random.below(self.entries))
    }

    fn put(&self, number: u64) -> Result<()> {
        let begin = self.random.below((self.noise.len() - VALUE_BYTES) as u64) as usize;
        self.db.put(key(number), &self.noise[begin..begin + VALUE_BYTES])
    }

    /// Waits until compactions have ended, after flushing the memtable if `flush`.
    pub fn settle(&self, flush: bool) -> Result<Duration> {
        let began = Instant::now();
        if flush {
            self.db.flush()?;
        }
        self.db.wait_for_compactions()?;
        Ok(began.elapsed())
    }

    /// The raw bytes of each flush since it was opened. All must have ended.
    pub fn flushes(&self) -> Vec<u64> {
        let all = self.db.stats().flushed_raw_bytes;
        loop {
            // What happened is told a little later.
            let heard = self.flushes.lock().expect("nobody panics").clone();
            if heard.iter().sum::<u64>() == all {
                return heard;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads everything once, which brings all indexes into memory.
    pub fn warm(&self) -> Result<u64> {
        let (mut scan, mut entries) = (self.db.scan(..), 0);
        while scan.next_lent()?.is_some() {
            entries += 1;
        }
        Ok(entries)
    }

    /// Looks up so many absent keys, evenly spread, in batches: without filters that reads the
    /// indexes of all runs into memory.
    pub fn warm_evenly(&self, keys: u64) -> Result<()> {
        let keys: Vec<_> = (0..keys).map(|number| (u64::MAX / keys * number).to_be_bytes()).collect();
        for some in keys.chunks(500) {
            self.db.multi_get(some)?;
        }
        Ok(())
    }

    /// Looks up a key that is not there.
    pub fn look_up_absent(&self) -> Result<()> {
        // Keys of numbers that never come are of nothing.
        assert!(!self.db.contains_key(key(1 << 40 | self.random.below(1 << 40)))?, "it was never put");
        Ok(())
    }

    /// Returns so many entries, from any of them on.
    pub fn scan(&self, entries: u64) -> Result<()> {
        let from = key(self.random.below(self.entries));
        let mut scan = self.db.scan(&from[..]..);
        for number in 0..entries {
            let Some((found, _)) = scan.next_lent()? else { break };
            assert!(number > 0 || found == from, "it is there");
        }
        Ok(())
    }

    pub fn below(&self, numbers: u64) -> u64 {
        self.random.below(numbers)
    }

    /// What so many operations take that read.
    pub fn take(&self, operations: u64, operation: impl Fn(&Self) -> Result<()>) -> Result<Taken> {
        let before = reads(&self.db.stats());
        let began = Instant::now();
        for _ in 0..operations {
            operation(self)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let after = reads(&self.db.stats());
        Ok(Taken { operations, blocks: after.0 - before.0, reads: after.1 - before.1, seconds })
    }
}

impl Taken {
    pub fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            blocks: self.blocks + other.blocks,
            reads: self.reads + other.reads,
            seconds: self.seconds + other.seconds,
        }
    }

    pub fn blocks_each(&self) -> f64 {
        self.blocks as f64 / self.operations.max(1) as f64
    }

    pub fn reads_each(&self) -> f64 {
        self.reads as f64 / self.operations.max(1) as f64
    }

    pub fn micros_each(&self) -> f64 {
        1e6 * self.seconds / self.operations.max(1) as f64
    }
}

/// Data blocks that lookups and scans have read, and the file reads for them, those of index blocks
/// included.
pub fn reads(stats: &Stats) -> (u64, u64) {
    let (gets, scans) = (stats.reads.gets, stats.reads.scans);
    (stats.lookups.data_blocks_read + scans.blocks - scans.index_blocks, gets.reads + scans.reads)
}

/// The runs that reads meet, each with the share of all keys that it covers: a compaction's output
/// covers what has been handed over, its inputs the rest. A flush hands over at its end.
fn runs(stats: &Stats) -> impl Iterator<Item = (&RunStats, f64)> {
    let compactions = || stats.jobs.iter().filter(|job| !job.is_flush);
    stats.levels.iter().zip(1..).flat_map(move |(level, number)| {
        level.runs.iter().filter(|run| run.entries > 0).map(move |run| {
            let input_of = compactions().find(|job| job.inputs.contains(&run.id)).map(|job| left(stats, job));
            let output_of = || compactions().find(|job| run.in_compaction && job.target_level == number);
            (run, input_of.or_else(|| output_of().map(|job| 1.0 - left(stats, job))).unwrap_or(1.0))
        })
    })
}

/// The share of a compaction's inputs that has not been handed over.
fn left(stats: &Stats, job: &JobStats) -> f64 {
    let inputs = stats.levels.iter().flat_map(|level| &level.runs).filter(|run| job.inputs.contains(&run.id));
    let bytes: u64 = inputs.map(|run| run.raw_bytes).sum();
    (bytes as f64 / (job.done_bytes + job.left_bytes).max(1) as f64).min(1.0)
}

/// How many runs a key can be in.
pub fn runs_met(stats: &Stats) -> f64 {
    runs(stats).map(|(_, covers)| covers).sum()
}

/// By the exact model of the runs that there are: data blocks of a lookup of an absent key.
pub fn absent_blocks(stats: &Stats) -> f64 {
    runs(stats).map(|(run, covers)| covers * run.filter_fpr).sum()
}

/// The same of a scan of so many entries, where so many keys are there.
pub fn scan_blocks(stats: &Stats, live: u64, entries: u64) -> f64 {
    let met: Vec<Met> = runs(stats).map(|(run, covers)| Met { entries: run.entries as f64, covers }).collect();
    blocks_over(&met, live, entries)
}

/// The same of the runs of a simulation.
pub fn simulated_scan_blocks(tree: &Tree<'_>, live: u64, entries: u64) -> f64 {
    let met =
        tree.occupancy().runs().map(|(_, run)| Met { entries: run.bytes.as_f64() / RAW_BYTES as f64, covers: 1.0 });
    blocks_over(&met.collect::<Vec<_>>(), live, entries)
}

fn blocks_over(met: &[Met], live: u64, entries: u64) -> f64 {
    let per_block = range::entries_per_block(BLOCK_BYTES as f64, RAW_BYTES as f64);
    range::blocks(met, live as f64, entries as f64, per_block, KEY_BASE)
}

/// Gives the simulation these flushes; the compactions of each end before the next.
pub fn flush_all(tree: &mut Tree<'_>, flushes: &[u64]) {
    for bytes in flushes {
        tree.rotate_memtable(Bytes(*bytes));
        tree.settle();
    }
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..16].copy_from_slice(&mix(!number).to_be_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}
