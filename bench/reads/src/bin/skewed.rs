//! Block reads of skewed lookups, and how the cache divides itself between blocks and single
//! entries.
//!
//! `cargo run --release -p reads --bin skewed [-- DIRECTORY [MIB [CACHE_MIB [OPERATIONS]]]]` loads
//! 1024 MiB of entries of 1 KiB below the directory (`.`), as a leveled tree and as one of ten
//! runs, and prints a table for each: 64 MiB for cache and pinned indexes together, direct I/O, one
//! thread. Each workload begins with an empty cache, runs a million and a half operations as a
//! warm-up, and counts a million more; uniform lookups a fifth of that. It takes a quarter of an
//! hour and twice the space, and removes its files.
//!
//! Keys are 16 scattered bytes, so hot keys lie all over, as in YCSB; only in "adjacent" the
//! hottest key is the smallest, and so on. Ranks follow Zipf's law with exponent 0.99. B, C and D
//! are YCSB's: 95 % lookups and 5 % updates, Zipf; lookups only; 95 % lookups and 5 % new keys, the
//! latest of which are the most popular. Flushes and compactions run meanwhile. The figure is
//! blocks of data and index read per lookup.

use std::path::Path;

use reads::{Zipf, scattered};
use tamarack::{AdvancedOptions, Compression, Db, Options, Stats};
use tamarack_env::{Random, TempDir};

const VALUE_BYTES: usize = 1000;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Which key is next, and what is done with it.
#[derive(Clone, Copy, PartialEq)]
enum Workload {
    Scattered,
    Adjacent,
    Uniform,
    B,
    D,
}

impl Workload {
    const ALL: [Self; 5] = [Self::Scattered, Self::Adjacent, Self::Uniform, Self::B, Self::D];

    fn name(self) -> &'static str {
        match self {
            Self::Scattered => "Zipf (C)",
            Self::Adjacent => "Zipf, adjacent",
            Self::Uniform => "uniform",
            Self::B => "B",
            Self::D => "D",
        }
    }

    fn share(self) -> u64 {
        if self == Self::Uniform { 5 } else { 1 }
    }
}

struct Scene {
    db: Db,
    /// The loaded keys in order.
    sorted: Vec<u64>,
    /// How many keys there are: number `i` has the key `scattered(i)`.
    count: u64,
    zipf: Zipf,
    random: Random,
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let directory = arguments.first().map_or(".", String::as_str);
    let (mib, cache_mib, operations) = (number(1, 1024)?, number(2, 64)?, number(3, 1_000_000)?);
    for (policy, buffer_bytes) in [("leveling:T=10", 16 << 20), ("tiering:T=100", (mib << 20) / 10)] {
        let scratch = TempDir::below(Path::new(directory))?;
        let dir = scratch.path().join("db");
        let advanced =
            AdvancedOptions::new().policy(policy).memtable_bytes(buffer_bytes).block_bytes(4096).direct_io(true);
        let options = |cache_bytes: u64| {
            let advanced = advanced.clone().cache_bytes(cache_bytes);
            Options::new().memory_bytes(1 << 30).compression(Compression::None).advanced(advanced)
        };
        let count = mib << 10;
        load(&options(cache_mib << 20).open(&dir)?, count)?;
        let indexes = indexes_bytes(options(cache_mib << 20).open(&dir)?, count)?;
        let options = options((cache_mib << 20).saturating_sub(indexes));
        println!("{policy}, {mib} MiB, {cache_mib} MiB for cache and indexes, {operations} operations\n");
        println!(
            "| workload | runs | blocks read per lookup | index blocks among them | entries from the cache per lookup | in memory, MiB: blocks | entries | indexes |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for workload in Workload::ALL {
            let db = options.open(&dir)?;
            let mut sorted: Vec<u64> = (0..count).map(scattered).collect();
            sorted.sort_unstable();
            let mut scene = Scene { db, sorted, count, zipf: Zipf::new(count), random: Random::new(3) };
            scene.measure(workload, operations / workload.share())?;
            scene.db.close()?;
        }
        println!();
    }
    Ok(())
}

/// What the indexes of all tables take, if there is room.
fn indexes_bytes(db: Db, count: u64) -> Outcome<u64> {
    let random = Random::new(2);
    for _ in 0..count / 64 {
        db.get(key(scattered(random.below(count))))?;
    }
    let bytes = db.stats().memory.indexes_bytes;
    db.close()?;
    Ok(bytes)
}

/// Every key once, in the order of their numbers, which scatters neighbours over all runs.
fn load(db: &Db, count: u64) -> Outcome {
    let random = Random::new(1);
    (0..count).try_for_each(|number| put(db, number, &random))?;
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()?;
    db.clone().close()?;
    Ok(())
}

fn put(db: &Db, number: u64, random: &Random) -> Outcome {
    let mut value = [0; VALUE_BYTES];
    value.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    Ok(db.put(key(scattered(number)), value)?)
}

fn key(place: u64) -> [u8; 16] {
    let mut key = *b"user    key     ";
    key[8..].copy_from_slice(&place.to_be_bytes());
    key
}

impl Scene {
    fn measure(&mut self, workload: Workload, operations: u64) -> Outcome {
        for _ in 0..operations + operations / 2 {
            self.step(workload)?;
        }
        let before = self.db.stats();
        for _ in 0..operations {
            self.step(workload)?;
        }
        print(workload, &before, &self.db.stats());
        Ok(())
    }

    fn step(&mut self, workload: Workload) -> Outcome {
        let draw = self.random.below(100);
        let place = match workload {
            Workload::Uniform => scattered(self.random.below(self.count)),
            Workload::Adjacent => self.sorted[self.zipf.rank(&self.random) as usize],
            Workload::D if draw < 5 => {
                self.count += 1;
                return put(&self.db, self.count - 1, &self.random);
            }
            Workload::D => scattered(self.count - 1 - self.zipf.rank(&self.random)),
            // Ranks are not ages.
            Workload::Scattered | Workload::B => {
                let number = scattered(self.zipf.rank(&self.random)) % self.count;
                if workload == Workload::B && draw < 5 {
                    return put(&self.db, number, &self.random);
                }
                scattered(number)
            }
        };
        match self.db.get(key(place))? {
            Some(value) if value.len() == VALUE_BYTES => Ok(()),
            _ => Err("a key that was stored is not found".into()),
        }
    }
}

fn print(workload: Workload, before: &Stats, after: &Stats) {
    let gets = (after.lookups.lookups - before.lookups.lookups) as f64;
    let runs: usize = after.levels.iter().map(|level| level.runs.len()).sum();
    let blocks = after.reads.since(&before.reads).gets.blocks;
    let data = after.lookups.data_blocks_read - before.lookups.data_blocks_read;
    let cached = after.lookups.cached_entries - before.lookups.cached_entries;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "| {} | {runs} | {:.4} | {:.4} | {:.3} | {:.1} | {:.1} | {:.1} |",
        workload.name(),
        blocks as f64 / gets,
        (blocks - data) as f64 / gets,
        cached as f64 / gets,
        mib(after.cache_bytes - after.cache_entry_bytes),
        mib(after.cache_entry_bytes),
        mib(after.memory.indexes_bytes),
    );
}
