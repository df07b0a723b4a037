//! What `multi_get` saves where everything is in memory: gets one after another, and the same
//! number of keys in batches, in turns.
//!
//! ```sh
//! cargo run --release -p tamarack --example multi_get -- DIRECTORY 3000000 leveling:T=10
//! ```
//!
//! Prints the median rate of each, and their ratio. Without arguments it makes a small tree in
//! memory. The directory must not exist, and stays.

#![expect(clippy::disallowed_methods, reason = "a program that measures what the machine does")]

use std::hint::black_box;
use std::time::Instant;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::{MemoryEnv, Random};

/// Keys of a batch.
const BATCH: usize = 100;
/// Keys of one measurement.
const KEYS: usize = 20_000;
/// Measurements of each way.
const ROUNDS: usize = 31;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next();
    let entries: u64 = arguments.next().map_or(30_000, |text| text.parse().expect("how many entries"));
    let policy = arguments.next().unwrap_or("leveling:T=10".to_owned());
    let filter = arguments.next().unwrap_or("blocked:bits=10,allocation=monkey".to_owned());
    let mut advanced =
        AdvancedOptions::new().memtable_bytes(8 << 20).policy(policy.clone()).filter(&filter).cache_bytes(4 << 30);
    if dir.is_none() {
        advanced = advanced.env(MemoryEnv::new(1));
    }
    let db = Options::new().advanced(advanced).open(dir.as_deref().unwrap_or("/multi_get"))?;
    for number in shuffled(entries) {
        db.put(number.to_be_bytes(), [b'v'; 100])?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    // Fills the cache.
    for entry in db.scan(..) {
        black_box(entry?);
    }
    for number in shuffled(entries) {
        db.get(number.to_be_bytes())?;
    }
    let runs: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    println!("{entries} entries of 8 + 100 bytes, {policy}, {filter}: {runs} runs in memory, batches of {BATCH}");
    for (what, is_absent) in [("present", false), ("absent", true)] {
        let mut rates = [Vec::new(), Vec::new()];
        let random = Random::new(2);
        for round in 0..2 * ROUNDS {
            let keys: Vec<Vec<u8>> = (0..KEYS).map(|_| key(random.below(entries), is_absent)).collect();
            let began = Instant::now();
            let found = if round % 2 == 0 { single(&db, &keys)? } else { many(&db, &keys)? };
            rates[round % 2].push(KEYS as f64 / began.elapsed().as_secs_f64() / 1e3);
            assert_eq!(found, if is_absent { 0 } else { KEYS });
        }
        let [single, many] = rates.map(median);
        println!("{what:8} {single:8.0} k gets/s {many:8.0} k keys/s by multi_get, {:.2} times", many / single);
    }
    Ok(())
}

#[inline(never)]
fn single(db: &Db, keys: &[Vec<u8>]) -> Result<usize> {
    let mut found = 0;
    for key in keys {
        found += usize::from(black_box(db.get(key)?).is_some());
    }
    Ok(found)
}

#[inline(never)]
fn many(db: &Db, keys: &[Vec<u8>]) -> Result<usize> {
    let mut found = 0;
    for keys in keys.chunks(BATCH) {
        found += black_box(db.multi_get(keys)?).iter().flatten().count();
    }
    Ok(found)
}

/// A key of the tree, or one between two of them.
fn key(number: u64, is_absent: bool) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    if is_absent {
        key.push(1);
    }
    key
}

/// The numbers below `count` in an order that jumps about.
fn shuffled(count: u64) -> Vec<u64> {
    let (mut numbers, random) = (Vec::from_iter(0..count), Random::new(1));
    for i in 1..numbers.len() {
        numbers.swap(i, random.below(i as u64 + 1) as usize);
    }
    numbers
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
