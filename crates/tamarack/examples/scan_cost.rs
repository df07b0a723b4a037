//! What a cached scan takes, to be counted in instructions: steps over all of a tree of so many
//! runs, or seeks and a few steps from there; forwards and backwards; all of it in memory.
//!
//! ```sh
//! cargo build --release --example scan_cost
//! for direction in forwards backwards; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*::measured*' \
//!         target/release/examples/scan_cost 10 small $direction 10 2000 lent
//! done
//! ```
//!
//! The arguments are the number of runs, the size of entries (`small`: keys of 16 bytes and values
//! of 100; `large`: 24 and 1024), the direction, how many entries each scan delivers (0: all there
//! are), how many scans there are, and whether entries are `lent` or `copied`. Divide what was
//! collected by the number that is printed. How often a scan allocates is the difference of what
//! `valgrind --tool=memcheck` says of two runs with different numbers of scans. The direction
//! `both`, without valgrind, prints the times of either and their ratio.

use std::hint::black_box;

use tamarack::{AdvancedOptions, Db, Options, Result, Scan};
use tamarack_env::{MemoryEnv, OsEnv};

/// Raw bytes of a run's entries.
const BYTES_PER_RUN: u64 = 600_000;

/// How often directions take turns.
const ROUNDS: usize = 21;

/// The sizes of entries.
#[derive(Clone, Copy)]
struct Size {
    key_bytes: usize,
    value_bytes: usize,
}

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &'static str| arguments.get(index).map_or(default, String::as_str);
    let number = |index, default| argument(index, default).parse::<u64>().expect("a number");
    let runs = number(0, "2");
    let size = match argument(1, "small") {
        "large" => Size { key_bytes: 24, value_bytes: 1024 },
        _ => Size { key_bytes: 16, value_bytes: 100 },
    };
    let direction = argument(2, "forwards");
    let backwards = direction == "backwards";
    let (entries, scans) = (number(3, "0"), number(4, "2"));
    let copied = argument(5, "lent") == "copied";
    let db = tree(runs, size)?;
    // Fills the cache.
    let count = db.scan(..).count() as u64;
    assert_eq!(db.scan(..).rev().count() as u64, count);

    let keys: Vec<_> = scattered(count - entries, scans)
        .map(|at| key(if backwards { count - 1 - at } else { at }, size.key_bytes))
        .collect();
    let mut scan = db.scan(..);
    scan.next_lent()?;
    println!("an open scan takes {} bytes", db.stats().memory.iterators_bytes);
    drop(scan);
    if direction == "both" {
        return compare(&db, &keys, entries, copied);
    }
    let delivered = measured(&db, &keys, entries, Way { backwards, copied })?;
    println!("{scans} scans delivered {delivered} entries of {count}");
    Ok(())
}

/// A tree of so many runs in level 1, each with keys from everywhere.
fn tree(runs: u64, size: Size) -> Result<Db> {
    let entries = BYTES_PER_RUN / (size.key_bytes + size.value_bytes + 8) as u64;
    let advanced = AdvancedOptions::new()
        .env(MemoryEnv::new(1))
        .memtable_bytes(BYTES_PER_RUN + 10_000)
        .policy(format!("tiering:T={}", runs + 1))
        .cache_bytes(1 << 30);
    let db = Options::new().advanced(advanced).open("/scan_cost")?;
    let mut run_of: Vec<_> = (0..runs * entries).map(|at| at % runs).collect();
    shuffle(&mut run_of);
    for run in 0..runs {
        for at in (0..runs * entries).filter(|&at| run_of[at as usize] == run) {
            db.put(key(at, size.key_bytes), vec![b'v'; size.value_bytes])?;
        }
        db.flush()?;
    }
    db.wait_for_compactions()?;
    let found: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    assert_eq!(found as u64, runs, "the tree is to have so many runs");
    Ok(db)
}

/// A key that orders like its number, with most of the difference at its end.
fn key(number: u64, bytes: usize) -> Vec<u8> {
    format!("key:{number:0digits$}", digits = bytes - 4).into_bytes()
}

/// Numbers below `count` that jump about.
fn scattered(count: u64, numbers: u64) -> impl Iterator<Item = u64> {
    (0..numbers).map(move |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % count)
}

fn shuffle(items: &mut [u64]) {
    let mut state = 1u64;
    for at in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (state >> 33) as usize % (at + 1));
    }
}

/// How scans go, and what they give.
#[derive(Clone, Copy)]
struct Way {
    backwards: bool,
    /// Keys and values are given away.
    copied: bool,
}

impl Way {
    /// Counts what a scan delivers, up to `limit`.
    fn count(self, mut scan: Scan, limit: u64) -> Result<u64> {
        let mut delivered = 0;
        while delivered < limit {
            let more = match self {
                Self { backwards: false, copied: false } => black_box(scan.next_lent()?).is_some(),
                Self { backwards: true, copied: false } => black_box(scan.next_back_lent()?).is_some(),
                Self { backwards: false, copied: true } => black_box(scan.next().transpose()?).is_some(),
                Self { backwards: true, copied: true } => black_box(scan.next_back().transpose()?).is_some(),
            };
            if !more {
                break;
            }
            delivered += 1;
        }
        Ok(delivered)
    }
}

#[inline(never)]
fn measured(db: &Db, keys: &[Vec<u8>], entries: u64, way: Way) -> Result<u64> {
    let mut delivered = 0;
    for key in keys {
        delivered += match (entries, way.backwards) {
            (0, _) => way.count(db.scan(..), u64::MAX)?,
            (_, false) => way.count(db.scan(&key[..]..), entries)?,
            (_, true) => way.count(db.scan(..=&key[..]), entries)?,
        };
    }
    Ok(delivered)
}

/// Measures scans in both directions in turns, and prints the medians of their times per entry.
fn compare(db: &Db, keys: &[Vec<u8>], entries: u64, copied: bool) -> Result<()> {
    let mut times = [const { Vec::new() }; 2];
    let mut ratios = Vec::new();
    let clock = OsEnv::new();
    for _ in 0..ROUNDS {
        let time = |backwards: bool| -> Result<f64> {
            let began = clock.now();
            let delivered = measured(db, keys, entries, Way { backwards, copied })?;
            Ok((clock.now() - began).as_nanos() as f64 / delivered as f64)
        };
        let (forwards, backwards) = (time(false)?, time(true)?);
        times[0].push(forwards);
        times[1].push(backwards);
        ratios.push(backwards / forwards);
    }
    let [forwards, backwards] = times.map(median);
    println!(
        "{forwards:.1} ns per entry forwards, {backwards:.1} backwards; the ratio is {:.3} ({ROUNDS} rounds)",
        median(ratios)
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
