//! Throughput of ingesting sorted data beside the device's: as many bytes written to one file in
//! the same directory and synced, through the page cache and past it. Each round does all three;
//! the figures are medians over the rounds, with minimum and maximum.
//!
//! With `--writer` a thread puts random keys into the same database meanwhile; its longest put is
//! shown beside the stall that the ingest reports.
//!
//! `cargo run --release -p shape --bin ingest -- --help`

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::words::Words;
use tamarack::{AdvancedOptions, Compression, Db, IngestReport, Options, Result};
use tamarack_env::Random;

const HELP: &str = "\
usage: ingest [--dir DIR] [--entries N] [--value-bytes N] [--rounds N] [--lz4 1] [--writer 1] [--before N]

  --dir DIR          where the database and the file are made and removed again      [the system's temporary directory]
  --entries N        entries with keys of 16 bytes                                                           [10000000]
  --value-bytes N    bytes of each value; half of them can be compressed                                          [100]
  --rounds N         how often each is done                                                                         [3]
  --lz4 1            compress blocks                                                                                [0]
  --writer 1         put random keys meanwhile                                                                      [0]
  --before N         entries that are in the database before, ingested and merged                                   [0]";

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let settings = Settings {
        entries: words.number("entries", 10_000_000),
        value_bytes: words.number("value-bytes", 100) as usize,
        lz4: words.number("lz4", 0) > 0,
        writer: words.number("writer", 0) > 0,
        before: words.number("before", 0),
    };
    measure(&settings, words.number("rounds", 3), words.scratch().path())
}

struct Settings {
    entries: u64,
    value_bytes: usize,
    lz4: bool,
    writer: bool,
    before: u64,
}

fn measure(settings: &Settings, rounds: u64, dir: &Path) -> Result<()> {
    let pool = pool();
    let made = time(|| {
        drop(make(settings, &pool, 0, |key, value| {
            std::hint::black_box((key, value));
            Ok(())
        }))
    });
    println!(
        "{} entries of 16 + {} bytes; to make them takes {:.2} s",
        settings.entries,
        settings.value_bytes,
        made.as_secs_f64()
    );
    let mut rates: [Vec<f64>; 3] = Default::default();
    for round in 1..=rounds {
        let (report, took, slowest) = ingest(settings, &pool, &dir.join("database"))?;
        let through_cache = plain(&dir.join("plain"), report.file_bytes, 0);
        let direct = plain(&dir.join("plain"), report.file_bytes, O_DIRECT);
        let rate = |took: Duration| report.file_bytes as f64 / took.as_secs_f64() / 1e6;
        let now = [rate(took), rate(through_cache), rate(direct)];
        println!(
            "round {round}: {} MB in {} tables at level {}: ingest {:.2} s ({:.0} MB/s), file {:.2} s ({:.0} MB/s), direct {:.2} s ({:.0} MB/s); writers held for {:.1} ms{}",
            report.file_bytes / 1_000_000,
            report.tables,
            report.level,
            took.as_secs_f64(),
            now[0],
            through_cache.as_secs_f64(),
            now[1],
            direct.as_secs_f64(),
            now[2],
            report.writers_delayed.as_secs_f64() * 1e3,
            slowest.map_or(String::new(), |(puts, put)| format!(
                ", the longest of {puts} puts took {:.1} ms",
                put.as_secs_f64() * 1e3
            ))
        );
        now.into_iter().zip(&mut rates).for_each(|(rate, rates)| rates.push(rate));
    }
    let mut medians = [0.0; 3];
    for ((name, rates), median) in ["ingest", "file", "direct"].into_iter().zip(&mut rates).zip(&mut medians) {
        rates.sort_by(f64::total_cmp);
        *median = rates[rates.len() / 2];
        println!("{name:<8} median {median:>6.0} MB/s   ({:.0} to {:.0})", rates[0], rates[rates.len() - 1]);
    }
    println!("ingest : file {:.2}, ingest : direct {:.2}", medians[0] / medians[1], medians[0] / medians[2]);
    Ok(())
}

/// Bytes of which every other piece of 32 can be compressed.
fn pool() -> Vec<u8> {
    let random = Random::new(1);
    (0..1 << 20).map(|at| if at / 32 % 2 == 0 { random.next() as u8 } else { b'v' }).collect()
}

/// Hands all entries over, in the order of keys.
fn make(settings: &Settings, pool: &[u8], first: u64, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let mut key = *b"00000000key-----";
    for number in 0..settings.entries {
        key[..8].copy_from_slice(&(first + number * 2).to_be_bytes());
        let from = (number * 61) as usize % (pool.len() - settings.value_bytes);
        take(&key, &pool[from..from + settings.value_bytes])?;
    }
    Ok(())
}

fn load(db: &Db, settings: &Settings, pool: &[u8], first: u64) -> Result<IngestReport> {
    let mut ingest = db.ingest()?;
    make(settings, pool, first, |key, value| ingest.put(key, value))?;
    ingest.finish()
}

/// Ingests into a new database. Returns the time it took and, with a writer, the number of puts and
/// the longest.
fn ingest(settings: &Settings, pool: &[u8], dir: &PathBuf) -> Result<(IngestReport, Duration, Option<Puts>)> {
    let compression = if settings.lz4 { Compression::Lz4 } else { Compression::None };
    let db = Options::new().compression(compression).advanced(AdvancedOptions::new()).open(dir)?;
    if settings.before > 0 {
        load(&db, &Settings { entries: settings.before, lz4: settings.lz4, ..*settings }, pool, 1)?;
        db.wait_for_compactions()?;
    }
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let (report, took, slowest) = std::thread::scope(|scope| {
        let writer = settings.writer.then(|| scope.spawn(|| write(&db, pool, &done)));
        let report = load(&db, settings, pool, 0);
        let took = began.elapsed();
        std::thread::sleep(Duration::from_millis(if settings.writer { 500 } else { 0 }));
        done.store(true, Ordering::Relaxed);
        (report, took, writer.map(|writer| writer.join().expect("no panic")))
    });
    db.close()?;
    fs::remove_dir_all(dir).expect("the database is removed");
    Ok((report?, took, slowest))
}

/// How many there were, and the longest.
type Puts = (u64, Duration);

fn write(db: &Db, pool: &[u8], done: &AtomicBool) -> Puts {
    let (random, mut puts, mut slowest) = (Random::new(2), 0, Duration::ZERO);
    while !done.load(Ordering::Relaxed) {
        let began = Instant::now();
        db.put(random.next().to_be_bytes(), &pool[..100]).expect("it is written");
        slowest = slowest.max(began.elapsed());
        puts += 1;
        // About 20,000 puts a second: a writer that is always late would measure the throttle.
        std::thread::sleep(Duration::from_micros(1));
    }
    (puts, slowest)
}

fn time(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

const O_DIRECT: i32 = 0o40000;
const ALIGNMENT: usize = 4096;

/// So many bytes in pieces of a MiB to a new file, which is synced, and its directory.
fn plain(path: &Path, bytes: u64, flags: i32) -> Duration {
    let random = Random::new(3);
    let mut memory: Vec<u8> = (0..(1 << 20) + ALIGNMENT).map(|_| random.next() as u8).collect();
    let offset = memory.as_ptr().align_offset(ALIGNMENT);
    let piece = &mut memory[offset..offset + (1 << 20)];
    let outcome = (|| -> io::Result<Duration> {
        let began = Instant::now();
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
        for number in 0..bytes.div_ceil(1 << 20) {
            piece[..8].copy_from_slice(&number.to_le_bytes());
            file.write_all(piece)?;
        }
        file.sync_all()?;
        File::open(path.parent().expect("a directory"))?.sync_all()?;
        Ok(began.elapsed())
    })();
    fs::remove_file(path).expect("the file is removed");
    outcome.expect("it is written")
}
