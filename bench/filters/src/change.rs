//! What changes between Bloom filters and one filter for the whole tree cost while clients write,
//! and how soon that filter is there after opening.
//!
//! ```sh
//! cargo run --release -p filters --bin change -- DIRECTORY [ENTRIES]
//! ```
//!
//! 17.3 million entries of 16 + 100 bytes, 2 GiB, unless it is told otherwise, in a tiered tree
//! below the directory, which has to take three times as much. Beside each change one client puts
//! new entries at 50,000 a second; the figure is the longest put. At the end the database is opened
//! again, one entry in 97 is looked up, and everything is verified. The files are removed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamarack::{AdvancedOptions, Compression, Db, Options};
use tamarack_env::TempDir;

const BLOOM: &str = "blocked:bits=14.2,allocation=monkey";
const CHUCKY: &str = "chucky:bits=14.2";
const VALUE: [u8; 100] = [b'v'; 100];
const PUTS_PER_SECOND: f64 = 50_000.0;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut words = std::env::args().skip(1);
    let directory = words.next().ok_or("change DIRECTORY [ENTRIES]")?;
    let entries = words.next().map_or(Ok(17_300_000), |word| word.parse())?;
    let scratch = TempDir::below(Path::new(&directory))?;
    let dir = scratch.path().join("db");
    let db = open(&dir, BLOOM)?;
    let began = Instant::now();
    (0..entries).try_for_each(|number| db.put(key(number), VALUE))?;
    settle(&db)?;
    println!("{entries} entries loaded in {:.1?}, {} runs", began.elapsed(), runs(&db));
    let mut next = entries;
    for filter in [CHUCKY, BLOOM, CHUCKY] {
        next += change(&db, filter, next)?;
    }
    settle(&db)?;
    db.close()?;

    let began = Instant::now();
    let db = open(&dir, CHUCKY)?;
    let is_there = |number: u64| db.get(key(number)).map(|value| value.is_some());
    assert!(is_there(5)?, "it was stored");
    let first = began.elapsed();
    db.rebuild_filters()?;
    println!("opened: first get after {first:.1?}, {CHUCKY} after {:.2?}; {} runs", began.elapsed(), runs(&db));
    for number in (0..next).step_by(97) {
        assert!(is_there(number)?, "entry {number} was stored");
    }
    let problems = db.verify(&mut |_, _| {})?.problems;
    println!("{next} entries verified: {} problems", problems.len());
    Ok(db.close()?)
}

fn open(dir: &Path, filter: &str) -> Outcome<Db> {
    let advanced = AdvancedOptions::new().filter(filter).policy("tiering:T=10").memtable_bytes(16 << 20);
    let options = Options::new().compression(Compression::None).memory_bytes(2 << 30);
    Ok(options.advanced(advanced.cache_bytes(256 << 20)).open(dir)?)
}

fn settle(db: &Db) -> Outcome {
    db.flush()?;
    db.wait_for_compactions()?;
    Ok(db.rebuild_filters()?)
}

fn runs(db: &Db) -> usize {
    db.stats().levels.iter().map(|level| level.runs.len()).sum()
}

/// Changes the filter while entries from number `from` on are put, and returns how many.
fn change(db: &Db, filter: &str, from: u64) -> Outcome<u64> {
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let (changed, put) = thread::scope(|scope| {
        let client = scope.spawn(|| put_until(db, from, &over));
        let changed = db.set_filter(filter).and_then(|()| db.rebuild_filters());
        over.store(true, Ordering::Relaxed);
        (changed.map(|()| began.elapsed()), client.join().expect("the client does not panic"))
    });
    let (elapsed, (longest, count)) = (changed?, put?);
    let mib = db.stats().memory.filters_bytes as f64 / f64::from(1 << 20);
    println!(
        "{filter} after {elapsed:.2?}; {count} puts beside that, the longest {longest:.2?}; filters of {mib:.0} MiB"
    );
    Ok(count)
}

/// The longest put, and how many there were.
fn put_until(db: &Db, from: u64, over: &AtomicBool) -> tamarack::Result<(Duration, u64)> {
    let (mut longest, mut count, began) = (Duration::ZERO, 0, Instant::now());
    while !over.load(Ordering::Relaxed) {
        if count as f64 > began.elapsed().as_secs_f64() * PUTS_PER_SECOND {
            thread::sleep(Duration::from_micros(50));
            continue;
        }
        let put = Instant::now();
        db.put(key(from + count), VALUE)?;
        longest = longest.max(put.elapsed());
        count += 1;
    }
    Ok((longest, count))
}

/// Another key for each number, all over the range of keys.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}
