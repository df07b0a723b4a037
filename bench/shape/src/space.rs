//! Additional storage of a compaction into a large last level while it runs: at most a table for
//! each input and the output, in each of the key ranges compacted at once, since every finished
//! table is handed over and frees what it replaces. Where two ranges meet, both may need one more
//! table of each input. Tables of all inputs are rarely used up at the same time, unless all have
//! the same keys and table size; so tables of a fixed size come closer to the bound than those
//! whose size is derived from their run.
//!
//! ```text
//!   before   │ last level ████████████████████ │ level 1 ▓▓ ▓▓ ▓▓ │
//!   peak     │ last level ████████████████████ │ level 1 ▓▓ ▓▓ ▓▓ │ output ▒ of each range, not
//!            │ handed over │ input tables in use until their last key is
//! ```
//!
//! Builds the last level, adds runs above it while compactions are paused, resumes them, and
//! samples the table files until the compaction has ended: those in the directory, and those
//! removed but still open. The figure is the blocks that the file system has given them.
//!
//! `cargo run --release -p shape --bin merge-space -- --help`

mod entries;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::numbers::mib;
use common::words::Words;
use entries::{Entries, RAW_BYTES};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result};

const HELP: &str = "\
usage: merge-space [--dir DIR] [--mib N] [--above N] [--runs N] [--threads N] [--table-kib N]

  --dir DIR       where the database is made and removed again      [the system's temporary directory]
  --mib N         the size of the last level                                                      [3072]
  --above N       MiB that are merged into it                                                      [320]
  --runs N        in how many runs these are, at most                                               [10]
  --threads N     workers, and so ranges that are merged at once                                     [2]
  --table-kib N   size of tables; 0 derives it from the run                                          [0]";

const BUFFER_BYTES: u64 = 32 << 20;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_millis(5);

fn main() -> Result<()> {
    let words = Words::read(HELP);
    measure(&words, words.scratch().path())
}

fn measure(words: &Words, dir: &Path) -> Result<()> {
    let (last, above) = (words.number("mib", 3072) << 20, words.number("above", 320) << 20);
    let (slots, threads) = (words.number("runs", 10), words.number("threads", 2));
    let entries = Entries::new();
    // Many slots, so that the last level can be written once and merged once.
    let many_slots = format!("custom:buffer {BUFFER_BYTES}; level {} in 1000 runs", 1000 * BUFFER_BYTES);
    let advanced = AdvancedOptions::new().memtable_bytes(BUFFER_BYTES).policy(&many_slots);
    let advanced = match words.number("table-kib", 0) {
        0 => advanced,
        kib => advanced.table_bytes(kib << 10),
    };
    let db = Options::new().compression(Compression::None).threads(threads as usize).advanced(advanced).open(dir)?;
    let mut count = fill(&db, &entries, 0, last)?;
    db.compact()?;
    // What is above the last level fills level 1 when its last buffer is flushed.
    db.set_policy(format!(
        "custom:buffer {BUFFER_BYTES}; level {above} in {slots} run{}; level {} in 1 run",
        if slots == 1 { "" } else { "s" },
        2 * last
    ))?;
    count = fill(&db, &entries, count, above - BUFFER_BYTES)?;
    db.wait_for_compactions()?;
    let pause = db.pause_compactions();
    count = fill(&db, &entries, count, BUFFER_BYTES)?;

    let inputs: Vec<_> = db.stats().levels.into_iter().flat_map(|level| level.runs).collect();
    let before = table_bytes(dir);
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let peak = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let (mut peak, mut samples) = (0, 0u64);
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(table_bytes(dir));
                samples += 1;
                std::thread::sleep(EVERY);
            }
            (peak, samples)
        });
        drop(pause);
        let outcome = db.wait_for_compactions();
        done.store(true, Ordering::Relaxed);
        let peak = sampler.join().expect("the sampler ends");
        outcome.map(|()| peak)
    });
    let (peak, samples) = peak?;
    let took = began.elapsed();
    // The last tables are removed after the compaction has ended.
    std::thread::sleep(Duration::from_secs(1));
    let table = largest_table(dir);
    let stats = db.stats();
    let runs: Vec<usize> = stats.levels.iter().map(|level| level.runs.len()).collect();
    let bound = (inputs.len() as u64 + 1) * table * threads;
    let with_borders = bound + (threads - 1) * inputs.len() as u64 * table;
    let extra = peak.saturating_sub(before);
    println!(
        "{} inputs, {:.0} MiB in the oldest; runs afterwards {runs:?}",
        inputs.len(),
        mib(inputs.last().map_or(0, |run| run.file_bytes))
    );
    println!(
        "tables of up to {:.1} MiB, {threads} ranges at once; {samples} samples in {:.1} s",
        mib(table),
        took.as_secs_f64()
    );
    println!("before {:.1} MiB, peak {:.1} MiB, after {:.1} MiB", mib(before), mib(peak), mib(table_bytes(dir)));
    println!(
        "extra {:.1} MiB: {:.2} of (inputs + 1) x table x ranges = {:.1} MiB, {:.2} of {:.1} MiB with borders",
        mib(extra),
        extra as f64 / bound as f64,
        mib(bound),
        extra as f64 / with_borders as f64,
        mib(with_borders)
    );
    println!("nothing lost: {}", entries.are_all_there(&db, count)?);
    Ok(())
}

/// Writes about that many raw bytes, whole memtables, from entry `count` on. Returns the number of
/// entries then.
fn fill(db: &Db, entries: &Entries, mut count: u64, bytes: u64) -> Result<u64> {
    for _ in 0..bytes / BUFFER_BYTES {
        for _ in 0..BUFFER_BYTES / RAW_BYTES {
            entries.put(db, count)?;
            count += 1;
        }
        db.flush()?;
    }
    Ok(count)
}

/// What all tables take on storage, those too that have no name any more but are still open.
fn table_bytes(dir: &Path) -> u64 {
    let named = files(dir).filter(|path| is_table(path));
    let unnamed = files(Path::new("/proc/self/fd"))
        .filter(|link| fs::read_link(link).is_ok_and(|target| target.to_string_lossy().ends_with(".sst (deleted)")));
    // A file that has been removed since it was listed counts as it is now: not at all, or among
    // the open ones.
    named.chain(unnamed).filter_map(|path| Some(fs::metadata(path).ok()?.blocks() * 512)).sum()
}

fn largest_table(dir: &Path) -> u64 {
    files(dir).filter(|path| is_table(path)).filter_map(|path| Some(fs::metadata(path).ok()?.len())).max().unwrap_or(0)
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}
