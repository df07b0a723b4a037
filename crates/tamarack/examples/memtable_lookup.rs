//! What a full memtable costs lookups of keys that are elsewhere, all of it in memory.
//!
//! ```sh
//! cargo run --release -p tamarack --example memtable_lookup -- 3000000 300000
//! ```
//!
//! Writes so many entries of 108 bytes into tables, and after that so many into the memtable.
//! Prints the median rates of lookups by one thread before and after, of keys in tables, of absent
//! ones, and of those in the memtable.

#![expect(clippy::disallowed_methods, reason = "a program that measures what the machine does")]

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::{MemoryEnv, Random};

/// Lookups of one measurement.
const LOOKUPS: usize = 20_000;
/// Measurements of each kind.
const ROUNDS: usize = 31;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number of entries"));
    let in_tables: u64 = numbers.next().unwrap_or(30_000);
    let in_memtable: u64 = numbers.next().unwrap_or(3_000);
    let advanced = AdvancedOptions::new()
        // All of them fit it with their overhead, so none of them is flushed.
        .memtable_bytes(2 * 116 * in_memtable)
        .policy("leveling:T=10")
        .cache_bytes(4 << 30)
        .env(MemoryEnv::new(1));
    let db = Options::new().memory_bytes(8 << 30).advanced(advanced).open("/memtable_lookup")?;
    fill(&db, 0..in_tables)?;
    db.flush()?;
    db.wait_for_compactions()?;
    // Fills the cache.
    for entry in db.scan(..) {
        black_box(entry?);
    }
    for number in 0..in_tables {
        black_box(db.get(key(number))?);
    }
    println!("k gets/s          in tables    absent   in the memtable");
    let all = in_tables + in_memtable;
    let [tables, absent] = [0..in_tables, all..2 * all].map(|keys| rate(&db, keys));
    println!("empty memtable {:12.0} {:9.0}", tables?, absent?);
    fill(&db, in_tables..all)?;
    assert_eq!(db.stats().memtables[0].entries, in_memtable, "none is flushed");
    let [tables, absent, recent] = [0..in_tables, all..2 * all, in_tables..all].map(|keys| rate(&db, keys));
    println!("full memtable  {:12.0} {:9.0} {:17.0}", tables?, absent?, recent?);
    Ok(())
}

/// Keys in random order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn fill(db: &Db, mut keys: Range<u64>) -> Result<()> {
    keys.try_for_each(|number| db.put(key(number), [b'v'; 100]))
}

/// The median rate of lookups, in thousands per second.
fn rate(db: &Db, keys: Range<u64>) -> Result<f64> {
    let random = Random::new(2);
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let keys: Vec<[u8; 8]> = (0..LOOKUPS).map(|_| key(keys.start + random.below(keys.end - keys.start))).collect();
        let began = Instant::now();
        for key in &keys {
            black_box(db.get(key)?);
        }
        rates.push(LOOKUPS as f64 / began.elapsed().as_secs_f64() / 1e3);
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[ROUNDS / 2])
}
