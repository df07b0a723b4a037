//! A change of shape on a live tree: what it writes beside what the planner on counts said before, and whether anything is lost.
//!
//! Builds a leveled tree, and keeps writing to it. Then, while writers go on, it takes other policies in turn. For each change: just before it, the
//! simulation is given the shape and the runs that the tree really has, and then the flushes; its bytes are compared with those that flushes and merges
//! of the engine wrote from the change until the tree had come to rest. What is left of merges in progress at the change is not part of the prediction, but
//! printed beside it. After all changes every entry is read.
//!
//! `cargo run --release -p shape --bin reshape -- --help`

mod entries;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::words::Words;
use entries::{Entries, RAW_BYTES};
use tamarack::{Compression, Db, Expert, Options, Result};
use tamarack_model::simulate::Tree;
use tamarack_model::{Bytes, policy};

const HELP: &str = "\
usage: reshape [--dir DIR] [--mib N] [--load N] [--buffer-mib N] [--threads N]

  --dir DIR        where the database is made and removed again     [the system's temporary directory]
  --mib N          the size of the tree before the first change                                  [2048]
  --load N         MiB that are written from one change to the next                                [512]
  --buffer-mib N   the size of the buffer                                                            [8]
  --threads N      workers                                                                           [2]";

/// What the tree begins with, and what it is changed to.
const FIRST: &str = "leveling:T=10";
const THEN: [&str; 4] = ["tiering:T=10", "lazy-leveling:T=5", "leveling:T=10", "leveling:T=4"];

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let dir = words.dir().join(format!("tamarack-reshape-{}", std::process::id()));
    let outcome = measure(&words, &dir);
    fs::remove_dir_all(&dir).expect("the database is removed");
    outcome
}

fn measure(words: &Words, dir: &Path) -> Result<()> {
    let buffer_bytes = words.number("buffer-mib", 8) << 20;
    let expert = Expert::new().buffer_bytes(buffer_bytes).policy(FIRST);
    let options = Options::new().compression(Compression::None).threads(words.number("threads", 2) as usize);
    let db = options.expert(expert).open(dir)?;
    let (entries, count) = (Entries::new(), AtomicU64::new(0));
    let began = Instant::now();
    write(&db, &entries, &count, words.number("mib", 2048) << 20)?;
    db.wait_for_merges()?;
    println!(
        "{FIRST} of {:.0} MiB in {:.0} s\n{}",
        mib(db.planned().1.bytes()),
        began.elapsed().as_secs_f64(),
        levels(&db)
    );
    for words_then in THEN {
        change(&db, &entries, &count, words_then, words.number("load", 512) << 20)?;
    }
    println!("nothing lost: {}", entries.are_all_there(&db, count.load(Ordering::Relaxed))?);
    Ok(())
}

/// Changes the policy in the middle of a load: an eighth of it is written before.
fn change(db: &Db, entries: &Entries, count: &AtomicU64, words: &str, load: u64) -> Result<()> {
    let before = count.load(Ordering::Relaxed);
    let began = Instant::now();
    let (standing, then, policy_before) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(db, entries, count, load));
        while (count.load(Ordering::Relaxed) - before) * RAW_BYTES < load / 8 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let (standing, then) = (db.planned(), db.stats());
        db.set_policy(words)?;
        writer.join().expect("the writer ends")?;
        Ok::<_, tamarack::Error>((standing, then.clone(), then.policy))
    })?;
    let loaded = began.elapsed();
    db.flush()?;
    db.wait_for_merges()?;
    let now = db.stats();
    let (flushes, flushed) = (now.flushes - then.flushes, now.flushed_raw_bytes - then.flushed_raw_bytes);
    let written = Bytes(now.written_raw_bytes() - then.written_raw_bytes());

    let parsed = |words: &str| policy::parse(words).expect("the engine takes it");
    let (old, new) = (parsed(&policy_before), parsed(words));
    let (shape, occupancy, _) = standing;
    let mut tree = Tree::resume(&*old, shape, occupancy);
    tree.change_policy(&*new);
    for _ in 0..flushes {
        tree.seal(Bytes(flushed / flushes));
        tree.settle();
    }
    let predicted = tree.report().written_total();
    println!(
        "{policy_before} -> {words}: {} jobs in progress at the change, {flushes} flushes after it",
        then.jobs.len()
    );
    println!(
        "  wrote {:.0} MiB, predicted {:.0} MiB: {:.3}; {} merges, predicted {}; load {:.0} s, at rest after {:.0} s",
        mib(written),
        mib(predicted),
        written.ratio(predicted),
        now.merges - then.merges,
        tree.report().merges,
        loaded.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    print!("{}", levels(db));
    Ok(())
}

/// Writes about that many raw bytes, from entry `count` on.
fn write(db: &Db, entries: &Entries, count: &AtomicU64, bytes: u64) -> Result<()> {
    for _ in 0..bytes / RAW_BYTES {
        entries.put(db, count.load(Ordering::Relaxed))?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn levels(db: &Db) -> String {
    let (shape, occupancy, _) = db.planned();
    (1..=shape.last())
        .map(|level| {
            let (bytes, runs) = (mib(occupancy.level_bytes(level)), occupancy.level(level).len());
            format!("  level {level}: {bytes:6.0} of {:6.0} MiB in {runs} runs\n", mib(shape.level(level).capacity))
        })
        .collect()
}

fn mib(bytes: Bytes) -> f64 {
    bytes.as_f64() / f64::from(1 << 20)
}
