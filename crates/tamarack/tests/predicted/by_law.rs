//! Costs predicted from the design alone, beside databases whose keys are put again and deleted by
//! the law that is predicted. Compactions are awaited after each memtable.
//!
//! Nothing of the database goes into the prediction, unlike in the other tests here: neither the
//! sizes of its flushes nor the contents of its runs.

use std::collections::VecDeque;

use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::{MemoryEnv, Random};
use tamarack_model::Bytes;
use tamarack_model::design::Design;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy;
use tamarack_model::prediction::{Length, Lookups, Prediction, Question, Writes, predict};
use tamarack_model::simulate::Pace;

const ENTRIES: u64 = 12_000;
const VALUE: [u8; 16] = [b'v'; 16];
/// A key of 8 bytes, a value, and 8 bytes.
const ENTRY_BYTES: u64 = 32;
const TOMBSTONE_BYTES: u64 = 16;
const MEMTABLE_BYTES: u64 = 8_000;
const BLOCK_BYTES: u64 = 512;
/// Memtables that are written after the load.
const FLUSHES: u64 = 120;
/// Lookups after each.
const LOOKUPS: u64 = 30;

/// Shares of deletes among all writes, and the part of all keys that is deleted at most.
#[derive(Clone, Copy, Debug)]
struct Mix {
    deletes: f64,
    deleted: f64,
}

/// A database, and its keys.
struct Store {
    db: Db,
    random: Random,
    live: Vec<u64>,
    deleted: VecDeque<u64>,
}

/// Means over the moments after flushes.
#[derive(Debug, Default)]
struct Measured {
    runs: f64,
    space: f64,
    existing: f64,
    written: f64,
}

impl Store {
    fn loaded(words: &str) -> Result<Self> {
        let advanced = AdvancedOptions::new().env(MemoryEnv::new(3)).policy(words).filter("none").cache_bytes(0);
        let advanced = advanced.memtable_bytes(MEMTABLE_BYTES).block_bytes(BLOCK_BYTES as usize);
        let options = Options::new().compression(Compression::None).threads(1).advanced(advanced);
        let mut store =
            Self { db: options.open("/db")?, random: Random::new(0x1a3), live: Vec::new(), deleted: VecDeque::new() };
        let mut raw = 0;
        for number in 0..ENTRIES {
            store.live.push(number);
            raw = store.settle_before(raw, ENTRY_BYTES)?;
            store.db.put(key(number), VALUE)?;
        }
        store.settle()?;
        store.db.reshape()?;
        store.db.wait_for_compactions()?;
        Ok(store)
    }

    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        self.db.wait_for_compactions()
    }

    /// Flushes and settles if an entry of so many bytes exceeds the memtable. Returns the bytes in
    /// the memtable with it.
    fn settle_before(&self, raw: u64, bytes: u64) -> Result<u64> {
        if raw + bytes <= MEMTABLE_BYTES {
            return Ok(raw + bytes);
        }
        self.settle()?;
        Ok(bytes)
    }

    /// Chooses a write: a key, and true if it is put.
    fn write(&mut self, mix: Mix) -> (u64, bool) {
        let any = self.random.below(self.live.len() as u64) as usize;
        let kind = self.random.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        if kind >= mix.deletes {
            return (self.live[any], true);
        }
        let all = (self.live.len() + self.deleted.len()) as f64;
        if self.deleted.len() as f64 >= mix.deleted * all {
            let number = self.deleted.pop_front().expect("some are deleted");
            self.live.push(number);
            return (number, true);
        }
        let number = self.live.swap_remove(any);
        self.deleted.push_back(number);
        (number, false)
    }

    fn look(&self, measured: &mut Measured) -> Result<()> {
        let occupancy = self.db.planned().1;
        measured.runs += occupancy.runs().count() as f64 / FLUSHES as f64;
        let live = (self.live.len() as u64 * ENTRY_BYTES) as f64;
        measured.space += occupancy.bytes().as_f64() / live / FLUSHES as f64;
        let blocks = |db: &Db| db.stats().lookups.data_blocks_read;
        let before = blocks(&self.db);
        for _ in 0..LOOKUPS {
            let number = self.live[self.random.below(self.live.len() as u64) as usize];
            assert!(self.db.get(key(number))?.is_some(), "{number} is live");
        }
        measured.existing += (blocks(&self.db) - before) as f64 / (LOOKUPS * FLUSHES) as f64;
        Ok(())
    }
}

fn key(number: u64) -> [u8; 8] {
    super::unique(number).to_be_bytes()
}

fn measured(words: &str, mix: Mix) -> Result<Measured> {
    let mut store = Store::loaded(words)?;
    let mut measured = Measured::default();
    let before = store.db.stats();
    for _ in 0..FLUSHES {
        let mut raw = 0;
        while raw + ENTRY_BYTES <= MEMTABLE_BYTES {
            let (number, is_put) = store.write(mix);
            if is_put {
                store.db.put(key(number), VALUE)?;
                raw += ENTRY_BYTES;
            } else {
                store.db.delete(key(number))?;
                raw += TOMBSTONE_BYTES;
            }
        }
        store.settle()?;
        store.look(&mut measured)?;
    }
    let after = store.db.stats();
    let flushed = after.flushed_raw_bytes - before.flushed_raw_bytes;
    measured.written = (after.written_raw_bytes() - before.written_raw_bytes()) as f64 / flushed as f64;
    for number in store.deleted.iter().take(100) {
        assert_eq!(store.db.get(key(*number))?, None, "{number} is deleted");
    }
    Ok(measured)
}

fn predicted(words: &str, mix: Mix) -> Prediction {
    let policy = policy::parse(words).expect("a policy");
    let design = Design {
        entries: ENTRIES,
        entry_bytes: ENTRY_BYTES,
        buffer: Bytes(MEMTABLE_BYTES),
        policy: &policy,
        filter: FilterChoice::None,
        block_bytes: BLOCK_BYTES,
    };
    let Mix { deletes, deleted } = mix;
    let writes = Writes::Deletes { inserts: 0.0, deletes, deleted, tombstone_bytes: TOMBSTONE_BYTES };
    let length = Length::Flushed(Bytes(FLUSHES * MEMTABLE_BYTES));
    predict(
        &design,
        &Question { writes, scans: &[1], digits: 256.0, length, pace: Pace::Settled, lookups: Lookups::Countless },
    )
}

/// Runs, block reads of lookups, space and bytes written are within 5 % of the prediction, with the
/// deletes of `bench/designs`, with many, and where the data becomes less.
#[test]
fn deletes_by_their_law() -> Result<()> {
    for (words, deletes, deleted) in [
        ("leveling:T=4", 0.1, 0.005),
        ("leveling:T=2", 0.3, 0.1),
        ("tiering:T=4", 0.1, 0.005),
        ("lazy-leveling:T=3", 0.4, 0.2),
        ("leveling:T=4", 0.5, 0.5),
    ] {
        let mix = Mix { deletes, deleted };
        let (found, measured) = (predicted(words, mix), measured(words, mix)?);
        for (name, predicted, measured) in [
            ("runs", found.runs.mean(), measured.runs),
            ("space", found.space_amplification.mean(), measured.space),
            ("existing", found.existing_reads.mean(), measured.existing),
            ("written", found.write_amplification, measured.written),
        ] {
            println!(
                "{words} {mix:?} {name}: {predicted:.3} {measured:.3} ({:+.1} %)",
                100.0 * (measured / predicted - 1.0)
            );
            assert!(
                (measured / predicted - 1.0).abs() < 0.05,
                "{words} {mix:?} {name}: {measured}, predicted {predicted}"
            );
        }
    }
    Ok(())
}
