//! Elastic filters beside standard and blocked ones of the same size, under zero-result lookups in
//! hot and cold key ranges; then other ranges become hot.
//!
//! ```sh
//! cargo run --release -p filters --bin elastic -- [--entries N] [--neighbours N]
//! ```
//!
//! The tree holds a million entries of 8 + 100 bytes in memory: `leveling:T=10`, memtables of 4
//! MiB, no cache. Lookups choose a group of neighbouring keys by a Zipfian law of exponent 0.99,
//! and any absent key of the group with equal probability. The figure is data blocks read per
//! lookup, all because of false positives. It does not depend on the machine's speed.

use tamarack::{AdvancedOptions, Compression, Db, Options};
use tamarack_env::{MemoryEnv, Random};
use tamarack_model::access_frequency::half_life;

const VALUE: [u8; 100] = [b'v'; 100];

/// Lookups that are counted for a figure.
const COUNTED: u64 = 500_000;

/// What is looked up.
struct Asked {
    random: Random,
    entries: u64,
    neighbours: u64,
    /// Where the hot groups are.
    place: u64,
}

impl Asked {
    fn next(&self) -> [u8; 8] {
        let uniform = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let all = (self.entries as f64).powf(0.01) - 1.0;
        let rank = ((1.0 + uniform * all).powf(100.0) - 1.0) as u64;
        let groups = self.entries / self.neighbours;
        let group = (rank / self.neighbours + 1).wrapping_mul(self.place * 48_271) % groups;
        (2 * (group * self.neighbours + self.random.below(self.neighbours)) + 1).to_be_bytes()
    }

    /// Data blocks read for each of so many lookups.
    fn ask(&self, db: &Db, lookups: u64) -> f64 {
        let before = db.stats().lookups.data_blocks_read;
        for _ in 0..lookups {
            assert!(!db.contains_key(self.next()).expect("memory"), "it was never put");
        }
        (db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64
    }
}

fn load(filter: &str, entries: u64) -> Db {
    let advanced =
        AdvancedOptions::new().env(MemoryEnv::new(1)).filter(filter).policy("leveling:T=10").memtable_bytes(4 << 20);
    let options = Options::new().compression(Compression::None).advanced(advanced.cache_bytes(0));
    let db = options.open("/elastic").expect("memory");
    for number in 0..entries {
        // A prime that does not divide the number of entries, so that every memtable has keys from
        // everywhere.
        db.put((2 * (number * 611_953 % entries)).to_be_bytes(), VALUE).expect("memory");
    }
    db.flush().and_then(|()| db.wait_for_compactions()).expect("memory");
    db
}

fn main() {
    let (mut entries, mut neighbours) = (1_000_000, 20_000);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|word| word.parse().ok());
        match (&word[..], number) {
            ("--entries", Some(number)) => entries = number,
            ("--neighbours", Some(number)) => neighbours = number,
            _ => panic!("elastic [--entries N] [--neighbours N]"),
        }
    }
    println!("{entries} entries, {neighbours} neighbours; data blocks read for each lookup of an absent key");
    println!(
        "| filter | tables | runs | bits in memory | hot at A | hot at B, at once | after half a half-life | after one | after two | after four |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for bits in [5, 8, 10] {
        for filter in ["bloom:bits=B", "blocked:bits=B", "blocked:bits=B,allocation=monkey", "elastic:bits=B"] {
            let filter = filter.replace('B', &bits.to_string());
            report(&filter, entries, neighbours);
        }
    }
}

fn report(filter: &str, entries: u64, neighbours: u64) {
    let db = load(filter, entries);
    let total = |of: fn(&tamarack::RunStats) -> u64| -> u64 {
        db.stats().levels.iter().flat_map(|level| &level.runs).map(of).sum()
    };
    let (tables, runs) = (total(|run| run.tables), total(|_| 1));
    let period = half_life(tables as usize) * tamarack::LOOKUPS_PER_SAMPLE;
    let mut asked = Asked { random: Random::new(11), entries, neighbours, place: 1 };
    asked.ask(&db, 4 * period);
    let at_first = asked.ask(&db, COUNTED);
    let bits = db.stats().memory.filters_bytes as f64 * 8.0 / entries as f64;
    asked.place = 7;
    let quarter = period / 4;
    let mut moved = vec![asked.ask(&db, quarter)];
    asked.ask(&db, quarter);
    for until in [period, 2 * period, 4 * period] {
        moved.push(asked.ask(&db, quarter));
        asked.ask(&db, until / 2 - quarter);
    }
    moved.push(asked.ask(&db, COUNTED));
    let moved: String = moved.iter().map(|reads| format!(" {reads:.4} |")).collect();
    println!("| {filter} | {tables} | {runs} | {bits:.2} | {at_first:.4} |{moved}");
}
