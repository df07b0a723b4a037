//! What a cached lookup takes, to be counted in instructions: gets of keys that are there and of
//! keys that are not, on a tree of so many runs, all of it in memory; and of keys whose blocks do
//! not fit the cache, but which are cached as single entries (`entries`); and of keys that the
//! memtable has (`recent`).
//!
//! ```sh
//! cargo build --release --example lookup_cost
//! for kind in existing missing entries recent; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         --toggle-collect='*existing_lookups*' --toggle-collect='*missing_lookups*' \
//!         target/release/examples/lookup_cost 10 $kind 20000 blocked:bits=10
//! done
//! ```
//!
//! Divide what it collected by the number of lookups. Without arguments it makes a small tree and a
//! few lookups, and prints what the counters of the database say of them.

use std::hint::black_box;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

/// Entries of a run, unless the arguments say otherwise; a put takes 124 raw bytes.
const ENTRIES_PER_RUN: u64 = 5000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let runs = arguments.next().map_or(2, |text| text.parse().expect("how many runs"));
    let kind = arguments.next().unwrap_or("missing".to_owned());
    let lookups = arguments.next().map_or(1000, |text| text.parse().expect("how many lookups"));
    let filter = arguments.next().unwrap_or("blocked:bits=10".to_owned());
    let entries_per_run = arguments.next().map_or(ENTRIES_PER_RUN, |text| text.parse().expect("how many entries"));
    let entries = runs * entries_per_run;
    // One key in this many is asked for: all, or one in each block.
    let apart = if kind == "entries" { 64 * runs } else { 1 };
    let cache_bytes = if kind == "entries" { entries * 124 / 8 } else { 1 << 30 };
    let db = tree(runs, entries_per_run, &filter, cache_bytes)?;
    // Fills the cache, if every block has an entry that is asked for. What is asked for once more
    // is cached for longer.
    for _ in 0..2 {
        for number in (0..entries).step_by(apart as usize) {
            db.get(key(number, 0))?;
        }
    }
    if kind == "recent" {
        for number in 0..entries_per_run / 2 {
            db.put(key(number, 0), [b'v'; 100])?;
        }
    }
    match kind.as_str() {
        "recent" => existing_lookups(&db, entries_per_run / 2, 1, lookups)?,
        "missing" => missing_lookups(&db, entries, lookups)?,
        _ => existing_lookups(&db, entries / apart, apart, lookups)?,
    }
    println!("{runs} runs of {entries_per_run} entries, {filter}: {lookups} lookups of {kind} keys");
    let stats = db.stats();
    println!("filters of {} bytes; filling the cache included: {:?}", stats.filter_bytes, stats.lookups);
    Ok(())
}

/// A tree of so many runs in level 1, each with keys from everywhere.
fn tree(runs: u64, entries_per_run: u64, filter: &str, cache_bytes: u64) -> Result<Db> {
    let advanced = AdvancedOptions::new()
        .env(MemoryEnv::new(1))
        .memtable_bytes(entries_per_run * 124)
        .policy(format!("tiering:T={}", runs + 1))
        .filter(filter)
        .cache_bytes(cache_bytes);
    let db = Options::new().advanced(advanced).open("/lookup_cost")?;
    for run in 0..runs {
        for number in 0..entries_per_run {
            db.put(key(number * runs + run, 0), [b'v'; 100])?;
        }
        db.flush()?;
    }
    db.wait_for_compactions()?;
    let found: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    assert_eq!(found as u64, runs, "the tree is to have so many runs");
    Ok(db)
}

/// 16 bytes, in the order of (number, last).
fn key(number: u64, last: u8) -> [u8; 16] {
    let mut key = *b"key:            ";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key[15] = last;
    key
}

/// Numbers below `count` that jump about.
fn scattered(count: u64, lookups: u64) -> impl Iterator<Item = u64> {
    (0..lookups).map(move |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % count)
}

#[inline(never)]
fn existing_lookups(db: &Db, keys: u64, apart: u64, lookups: u64) -> Result<()> {
    for number in scattered(keys, lookups) {
        assert!(black_box(db.get(key(apart * number, 0))?).is_some());
    }
    Ok(())
}

#[inline(never)]
fn missing_lookups(db: &Db, entries: u64, lookups: u64) -> Result<()> {
    for number in scattered(entries, lookups) {
        assert!(black_box(db.get(key(number, 1))?).is_none());
    }
    Ok(())
}
