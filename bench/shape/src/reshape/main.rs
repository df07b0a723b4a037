//! Changes of policy on a live tree: bytes written beside the estimate, whether anything is lost,
//! and delays of writers.
//!
//! Two parts, each on a leveled tree of its own:
//!
//! * **changes**: one after the other, each in the middle of a load at full speed. The estimate of
//!   [`Db::estimate_reshape`] just before it is compared with the bytes that flushes and
//!   compactions wrote from the change until the tree had come to rest. In the end every entry is
//!   read.
//! * **live**: there and back under writers at a fixed rate and readers who check every answer,
//!   lazily, at once, and not at all; see [`live`].
//!
//! `cargo run --release -p shape --bin reshape -- --help`

#[path = "../entries.rs"]
mod entries;
mod live;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::mib;
use common::words::Words;
use entries::{Entries, RAW_BYTES};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result};

const HELP: &str = "\
usage: reshape [OPTIONS]

  --dir DIR        where databases are made and removed again        [the system's temporary directory]
  --part NAME      only this part: changes, live
  --mib N          the size of the tree before the first change                                  [2048]
  --load N         MiB that are written from one change to the next                                [512]
  --buffer-mib N   the size of the buffer                                                            [8]
  --threads N      workers                                                                           [2]
  --reads N        live: reads per second, of one thread that gets and one that scans             [2000]
  --percent N      live: puts come at so much of the rate that the tree sustains                    [90]
  --report FILE    write the Markdown report there            [results/DATE-reshape-MACHINE.md]";

/// What the tree begins with, and what it is changed to.
const FIRST: &str = "leveling:T=10";
const THEN: [&str; 7] = [
    "tiering:T=10",
    "lazy-leveling:T=5",
    "leveling:T=10",
    "moose:last=0.8,k=1",
    "garnering:T=2,c=0.8",
    "leveling:T=4",
    "qlsm-bush:T=2,X=2",
];

/// How databases are set up.
struct Setup {
    /// Where they are made.
    dir: PathBuf,
    buffer_bytes: u64,
    threads: usize,
    /// Of a tree before the first change.
    bytes: u64,
    /// That is written from one change to the next.
    load: u64,
}

impl Setup {
    /// For a database that is there.
    fn options(&self) -> Options {
        let options = Options::new().compression(Compression::None).threads(self.threads);
        options.advanced(AdvancedOptions::new().memtable_bytes(self.buffer_bytes))
    }

    /// A new one.
    fn create(&self, dir: &Path) -> Result<Db> {
        self.options().advanced(AdvancedOptions::new().memtable_bytes(self.buffer_bytes).policy(FIRST)).open(dir)
    }
}

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let scratch = words.scratch();
    let setup = Setup {
        buffer_bytes: words.number("buffer-mib", 8) << 20,
        threads: words.number("threads", 2) as usize,
        bytes: words.number("mib", 2048) << 20,
        load: words.number("load", 512) << 20,
        dir: scratch.path().to_owned(),
    };
    let text = report(&words, &setup)?;
    let path = words.report("reshape-");
    fs::write(&path, &text).expect("the report is written");
    print!("{text}");
    eprintln!("written to {}", path.display());
    Ok(())
}

fn report(words: &Words, setup: &Setup) -> Result<String> {
    let mut text = String::new();
    let mut line = |words: &str| writeln!(text, "{words}").expect("a string takes everything");
    line(&format!("# Changes of policy on a live tree, {}\n", machine::date()));
    line(&format!("* Machine: {}; databases on {}.", machine::description(), machine::file_system(&setup.dir)));
    line(&format!("* Commit: {}", machine::commit()));
    line(&format!("* Command: `{}`", words.command("reshape")));
    line(&format!(
        "* Trees of {} MiB, entries of {RAW_BYTES} raw bytes with distinct keys in random order, buffers of {} MiB, {} workers, no compression, no sync. Estimates are those of \
         `Db::estimate_reshape`, asked just before each change. Bytes are raw bytes that flushes and compactions wrote until the tree had come to rest.",
        setup.bytes >> 20,
        setup.buffer_bytes >> 20,
        setup.threads
    ));
    let wants = |part| words.text("part").is_none_or(|wanted| wanted == part);
    if wants("live") {
        line(&live::measure(words, setup)?);
    }
    if wants("changes") {
        line(&changes(setup)?);
    }
    line(&format!("\nRunnable threads in the end, averaged over a minute: {:.1}.", machine::load()));
    Ok(text)
}

/// A leveled tree, at rest, and how many entries it has.
fn grown(setup: &Setup, dir: &Path, entries: &Entries) -> Result<(Db, AtomicU64)> {
    let (db, count, began) = (setup.create(dir)?, AtomicU64::new(0), Instant::now());
    write(&db, entries, &count, setup.bytes)?;
    db.flush()?;
    db.wait_for_compactions()?;
    eprintln!("{FIRST} of {:.0} MiB in {:.0} s", mib(db.planned().1.bytes().0), began.elapsed().as_secs_f64());
    Ok((db, count))
}

/// One change after the other, at full speed.
fn changes(setup: &Setup) -> Result<String> {
    let entries = Entries::new();
    let (db, count) = grown(setup, &setup.dir.join("changes"), &entries)?;
    let mut text = format!(
        "\n## One change after the other, at full speed\n\n{} MiB are written at full speed for each change, which comes after an eighth of that; to rest includes it.\n\n\
         | from | to | compactions in progress | written MiB | estimated | ratio | extra estimated | s to rest |\n|---|---|{}\n",
        setup.load >> 20,
        "---:|".repeat(6)
    );
    let mut worst: f64 = 0.0;
    for words in THEN {
        let (row, ratio) = change(setup, &db, &entries, &count, words)?;
        eprintln!("{row}");
        writeln!(text, "{row}").expect("a string");
        worst = worst.max(ratio);
    }
    let lost = !entries.are_all_there(&db, count.load(Ordering::Relaxed))?;
    write!(
        text,
        "\n* {}: at most 1.15 times the bytes that were estimated; {worst:.3}\n* {}: every entry is there in the end, and no other",
        holds(worst <= 1.15),
        holds(!lost)
    )
    .expect("a string");
    Ok(text)
}

/// Changes the policy in the middle of a load. Returns a row, and bytes written per estimated byte.
fn change(setup: &Setup, db: &Db, entries: &Entries, count: &AtomicU64, words: &str) -> Result<(String, f64)> {
    let before = count.load(Ordering::Relaxed);
    let began = Instant::now();
    let (estimate, then) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(db, entries, count, setup.load));
        while (count.load(Ordering::Relaxed) - before) * RAW_BYTES < setup.load / 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let then = db.stats();
        let left = setup.load - (count.load(Ordering::Relaxed) - before) * RAW_BYTES;
        let estimate = db.estimate_reshape(words, left + buffered(&then))?;
        db.set_policy(words)?;
        writer.join().expect("the writer ends")?;
        Ok::<_, tamarack::Error>((estimate, then))
    })?;
    db.flush()?;
    db.wait_for_compactions()?;
    let written = db.stats().written_raw_bytes() - then.written_raw_bytes();
    let ratio = written as f64 / estimate.lazily_bytes as f64;
    let row = format!(
        "| {} | {words} | {} | {:.0} | {:.0} | {ratio:.3} | {:+.0} | {:.0} |",
        then.policy,
        then.jobs.iter().filter(|job| !job.is_flush).count(),
        mib(written),
        mib(estimate.lazily_bytes),
        estimate.extra_lazily_bytes() as f64 / f64::from(1 << 20),
        began.elapsed().as_secs_f64()
    );
    Ok((row, ratio))
}

/// Raw bytes in buffers.
fn buffered(stats: &tamarack::Stats) -> u64 {
    stats.memtables.iter().map(|memtable| memtable.raw_bytes).sum()
}

/// Writes about that many raw bytes, from entry `count` on.
fn write(db: &Db, entries: &Entries, count: &AtomicU64, bytes: u64) -> Result<()> {
    for _ in 0..bytes / RAW_BYTES {
        entries.put(db, count.load(Ordering::Relaxed))?;
        count.fetch_add(1, Ordering::Release);
    }
    Ok(())
}

fn levels(db: &Db) -> String {
    let (shape, occupancy, _) = db.planned();
    let level = |level| {
        let (bytes, runs) = (mib(occupancy.level_bytes(level).0), occupancy.level(level).len());
        format!("{bytes:.0} of {:.0} MiB in {runs}/{}", mib(shape.level(level).capacity.0), shape.level(level).runs)
    };
    (1..=shape.last()).map(level).collect::<Vec<_>>().join("; ")
}

fn holds(it_does: bool) -> &'static str {
    if it_does { "holds" } else { "FAILS" }
}
