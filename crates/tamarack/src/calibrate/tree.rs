//! Whole operations on a database in memory: what they take besides the steps that
//! [`processor`](super::processor) measures alone, and besides the device.
//!
//! ```text
//! two runs ─ compact ─► one run, all of it cached        scan step
//!                         │ one of 32 is put again, into the memtable
//!                         ├─► absent keys, existing keys, scans of one entry
//!                         │ opened again, with memory for a quarter
//!                         ├─► existing keys: blocks are read, and evicted
//!                         └─► existing keys and scans, with reads of the device
//!
//! small runs ─► absent keys between other work, beside few runs and beside many
//! ```
//!
//! Between the work of a lookup a read takes longer than alone, since both use the processor's
//! caches. What it takes longer on the device than the device says counts as the processor's, up to
//! [`READ_EXCESS_MAX`] times what a block takes in memory: on a slow device it is noise.
//!
//! Keys are drawn alike, so that a read waits for the processor's caches as it does in a database
//! that is larger than these.

use std::hint::black_box;
use std::sync::Arc;

use tamarack_env::random::{STEP, mixed};
use tamarack_env::{Env, MemoryEnv};
use tamarack_model::device::RANDOM_READ_BYTES;

use super::device_reads::DeviceReads;
use super::entries::{KEY_BYTES, VALUE, key};
use super::plan::Plan;
use super::storage::StorageTimes;
use crate::db::Db;
use crate::error::Result;
use crate::format::block::Compression;
use crate::options::{AdvancedOptions, MEMORY_BYTES_MIN, Options};
use crate::random_reads::{median, timed};
use crate::write::Durability;

/// The share of the time of each database, in thousandths.
const TREE_SHARE: u64 = 40;

/// The share of each of two kinds of reads of the device in that.
const DEVICE_SHARE: u64 = 10;

/// Reads of the device in a round.
const DEVICE_READS: u64 = 64;

/// The most of these rounds: a clock may stand still.
const DEVICE_ROUNDS_MAX: u64 = 1000;

/// The most that a block read takes on a device besides the read, as a multiple of what it takes in
/// memory.
const READ_EXCESS_MAX: f64 = 4.0;

/// Databases that are made, loaded, compacted and read.
const TREES: u64 = 3;

/// Puts in a round, reads in a round, and rounds of reads of each database.
const PUTS: u64 = 1024;
const READS: u64 = 1024;
const ROUNDS: u64 = 7;

/// Rounds of reads that fill the cache of the database with little memory.
const WARMING: u64 = 8;

/// One of so many entries is in the memtable, and memory is for one of so many.
const IN_MEMTABLE: u64 = 32;
const IN_MEMORY: u64 = 4;

/// Runs beside which lookups are measured once more, of which each has one of so many entries.
const FEW_RUNS: usize = 2;
const MANY_RUNS: usize = 34;
const RUNS_OF_ALL: u64 = 64;

/// The memory that other work between these lookups touches, in cache lines of so many bytes: a
/// part of a processor's second cache. Four times as much, which leaves nothing there, makes a run
/// cost ten times as much, and lookups beside puts and reads are not as slow as that.
const WORK_BYTES: usize = 1 << 20;
const LINE_BYTES: usize = 64;
const WORK_ROUNDS: u64 = 1024;

/// Raw bytes of an entry.
const ENTRY_BYTES: u64 = (KEY_BYTES + VALUE.len() + 8) as u64;

/// The median seconds of each operation.
pub(super) struct OperationSeconds {
    /// A put, without the operating system.
    pub(super) put: f64,
    /// A compaction, for each entry of its inputs.
    pub(super) compaction: f64,
    /// An entry of a scan over one run whose blocks are cached.
    pub(super) scan_step: f64,
    /// A lookup of an absent key, with one Bloom filter.
    pub(super) lookup: f64,
    /// A scan of one entry, whose block is cached.
    pub(super) scan_begin: f64,
    /// What a lookup takes longer for a block that is not cached, without the device.
    pub(super) block_read: f64,
    /// What a scan takes longer than a lookup for its first block if that is not cached.
    pub(super) scan_block: f64,
    /// What a lookup takes longer for each run whose filter says no.
    pub(super) skipped_run: f64,
}

/// Measures databases of so many entries, a power of two.
pub(super) fn measure(
    env: &Arc<dyn Env>,
    storage: &StorageTimes,
    entries: u64,
    plan: &mut Plan<'_>,
) -> Result<OperationSeconds> {
    let mut trees = Vec::new();
    for seed in 0..TREES {
        let memory = DeviceReads::new(env.clone(), MemoryEnv::new(seed), storage.file.clone(), storage.data_bytes);
        trees.push(of_tree(&MeasuredTree { env: &**env, storage, memory, entries, seed }, plan)?);
        plan.advance(TREE_SHARE);
    }
    let middle = |of: fn(&OperationSeconds) -> f64| median(trees.iter().map(of).collect());
    Ok(OperationSeconds {
        put: middle(|tree| tree.put),
        compaction: middle(|tree| tree.compaction),
        scan_step: middle(|tree| tree.scan_step),
        lookup: middle(|tree| tree.lookup),
        scan_begin: middle(|tree| tree.scan_begin),
        block_read: middle(|tree| tree.block_read),
        scan_block: middle(|tree| tree.scan_block),
        skipped_run: middle(|tree| tree.skipped_run),
    })
}

/// A database that is measured.
struct MeasuredTree<'a> {
    /// The clock.
    env: &'a dyn Env,
    /// What a read takes on the device alone.
    storage: &'a StorageTimes,
    memory: Arc<DeviceReads>,
    entries: u64,
    seed: u64,
}

fn of_tree(tree: &MeasuredTree<'_>, plan: &Plan<'_>) -> Result<OperationSeconds> {
    let &MeasuredTree { env, entries, .. } = tree;
    let db = tree.open(1 << 30)?;
    let mut puts = Vec::new();
    for run in 0..2 {
        // Both are powers of two.
        let in_round = PUTS.min(entries / 2);
        for first in (0..entries / 2).step_by(in_round as usize) {
            let mut numbers = first..first + in_round;
            let (put, seconds) = timed(env, || numbers.try_for_each(|at| tree.put(&db, run, at)));
            put?;
            puts.push(seconds / in_round as f64);
        }
        db.flush()?;
    }
    let (compacted, compaction) = timed(env, || db.compact());
    compacted?;
    // The first scan brings all blocks into the cache.
    count(&db)?;
    let mut steps = Vec::new();
    for _ in 0..ROUNDS {
        let (counted, seconds) = timed(env, || count(&db));
        assert_eq!(counted?, entries, "every key is stored");
        steps.push(seconds / entries as f64);
    }
    (0..entries / IN_MEMTABLE).try_for_each(|at| tree.put(&db, 0, at))?;
    let lookup = tree.median_read(0, |number| absent(&db, number))?;
    let scan_begin = tree.median_read(1, |number| scan(&db, number))?;
    let cached = tree.median_read(2, |number| existing(&db, number))?;
    db.close()?;
    let skipped_run = tree.skipped_run()?;

    let db = tree.open((entries * ENTRY_BYTES / IN_MEMORY).max(MEMORY_BYTES_MIN))?;
    tree.reads(3, WARMING * READS, |number| existing(&db, number))?;
    let read_before = db.stats().lookups.data_blocks_read;
    let uncached = tree.median_read(4, |number| existing(&db, number))?;
    let read = db.stats().lookups.data_blocks_read - read_before;
    if read <= READS {
        db.close()?;
        return Ok(OperationSeconds {
            put: median(puts),
            compaction: compaction / entries as f64,
            scan_step: median(steps),
            lookup,
            scan_begin,
            block_read: 0.0,
            scan_block: 0.0,
            skipped_run,
        });
    }
    let reads_each = read as f64 / (ROUNDS * READS) as f64;
    let in_memory = (uncached - cached).max(0.0) / reads_each;
    tree.memory.read_device(true);
    let lookup_on_device = tree.median_on_device(5, plan, |number| existing(&db, number))?;
    let scan_on_device = tree.median_on_device(6, plan, |number| scan(&db, number))?;
    tree.memory.read_device(false);
    db.close()?;
    let StorageTimes { read_seconds, read_bytes_per_second, .. } = *tree.storage;
    // What a model adds for a block of this size.
    let device = read_seconds + RANDOM_READ_BYTES as f64 / read_bytes_per_second;
    let excess = |on_device: f64, cached: f64| (on_device - cached) / reads_each - device;
    let block_read = excess(lookup_on_device, cached).clamp(in_memory, READ_EXCESS_MAX * in_memory);
    let scan_block = excess(scan_on_device, scan_begin) - block_read;
    Ok(OperationSeconds {
        put: median(puts),
        compaction: compaction / entries as f64,
        scan_step: median(steps),
        lookup,
        scan_begin,
        block_read,
        scan_block: scan_block.clamp(0.0, READ_EXCESS_MAX * in_memory),
        skipped_run,
    })
}

impl MeasuredTree<'_> {
    /// With a memtable that is large enough for all entries, if there is memory, and runs that
    /// stay.
    fn open(&self, memory_bytes: u64) -> Result<Db> {
        let memtable_bytes = (memory_bytes / 4).min((1 << 20) + 2 * self.entries * ENTRY_BYTES);
        self.open_at("/calibration", "tiering:T=10", memory_bytes, memtable_bytes)
    }

    fn open_at(&self, dir: &str, policy: &str, memory_bytes: u64, memtable_bytes: u64) -> Result<Db> {
        let advanced = AdvancedOptions::new().env(self.memory.clone()).policy(policy);
        Options::new()
            .memory_bytes(memory_bytes)
            .durability(Durability::Buffered)
            .compression(Compression::None)
            .threads(1)
            .advanced(advanced.memtable_bytes(memtable_bytes))
            .open(dir)
    }

    /// Puts entry `at` of a run: every second key belongs to it, and they come in no order.
    fn put(&self, db: &Db, run: u64, at: u64) -> Result<()> {
        let scattered = at.wrapping_mul(STEP) % (self.entries / 2);
        db.put(key(2 * scattered + run), VALUE)
    }

    /// What a lookup of an absent key takes longer for each run, in a database of small runs:
    /// beside few and beside many. 0 if there are not so many.
    fn skipped_run(&self) -> Result<f64> {
        let memtable_bytes = (self.entries * ENTRY_BYTES / RUNS_OF_ALL).max(1);
        let db = self.open_at("/runs", "tiering:T=1000", 1 << 30, memtable_bytes)?;
        let mut put = 0;
        let mut with_runs = |kind: u64, runs_wanted: usize| -> Result<(usize, f64)> {
            let runs = || db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>();
            while runs() < runs_wanted && put < self.entries {
                let some = (self.entries / RUNS_OF_ALL / 8).max(1);
                (put..put + some).try_for_each(|at| self.put(&db, at % 2, at))?;
                put += some;
                db.wait_for_compactions()?;
            }
            Ok((runs(), self.lookup_between_work(kind, &db)?))
        };
        let (few, many) = (with_runs(7, FEW_RUNS)?, with_runs(8, MANY_RUNS)?);
        db.close()?;
        let more = many.0.saturating_sub(few.0);
        Ok(if more > 0 { (many.1 - few.1).max(0.0) / more as f64 } else { 0.0 })
    }

    /// The median seconds of a lookup of an absent key after other work, which leaves little of the
    /// database in the processor's inner caches.
    fn lookup_between_work(&self, kind: u64, db: &Db) -> Result<f64> {
        let work = vec![1_u8; WORK_BYTES];
        let mut seconds = Vec::new();
        for round in 0..WORK_ROUNDS {
            black_box(work.iter().step_by(LINE_BYTES).map(|byte| u64::from(*byte)).sum::<u64>());
            let (done, took) = timed(self.env, || self.reads((kind << 10) + round, 1, |number| absent(db, number)));
            done?;
            seconds.push(took);
        }
        Ok(median(seconds))
    }

    /// The median seconds of reads; each kind draws other keys.
    fn median_read(&self, kind: u64, read: impl Fn(u64) -> Result<()>) -> Result<f64> {
        let mut seconds = Vec::new();
        for round in 0..ROUNDS {
            let (done, all) = timed(self.env, || self.reads(kind * ROUNDS + round, READS, &read));
            done?;
            seconds.push(all / READS as f64);
        }
        Ok(median(seconds))
    }

    /// The median of rounds of reads of the device, at least one.
    fn median_on_device(&self, kind: u64, plan: &Plan<'_>, read: impl Fn(u64) -> Result<()>) -> Result<f64> {
        let (until, mut seconds) = (plan.end_of(DEVICE_SHARE as f64), Vec::new());
        for round in 0.. {
            let (done, all) = timed(self.env, || self.reads((kind << 10) + round, DEVICE_READS, &read));
            done?;
            seconds.push(all / DEVICE_READS as f64);
            if self.env.now() >= until || round >= DEVICE_ROUNDS_MAX {
                break;
            }
        }
        Ok(median(seconds))
    }

    /// So many reads of numbers of keys, drawn alike.
    fn reads(&self, round: u64, reads: u64, read: impl Fn(u64) -> Result<()>) -> Result<()> {
        let first = (self.seed << 40) + (round << 20);
        (first..first + reads).try_for_each(|at| read(mixed(at.wrapping_mul(STEP)) % self.entries))
    }
}

/// Looks up a key that is there.
fn existing(db: &Db, number: u64) -> Result<()> {
    db.get(key(number)).map(|found| assert!(found.is_some(), "key {number} was put"))
}

/// Looks up a key between two that are there.
fn absent(db: &Db, number: u64) -> Result<()> {
    let mut key = key(number);
    key[KEY_BYTES - 1] = b'!';
    db.get(key).map(|found| assert!(found.is_none(), "the key after {number} was never put"))
}

/// Scans one entry.
fn scan(db: &Db, number: u64) -> Result<()> {
    let from = key(number);
    let mut scan = db.scan(&from[..]..).limit(1);
    black_box(scan.next_lent()?.expect("it is there").1.first());
    Ok(())
}

fn count(db: &Db) -> Result<u64> {
    let (mut scan, mut count) = (db.scan(..), 0);
    while let Some((_, value)) = scan.next_lent()? {
        black_box(value.first());
        count += 1;
    }
    Ok(count)
}
