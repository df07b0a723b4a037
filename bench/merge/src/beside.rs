//! One compaction beside RocksDB's of the same data: the same number of runs of the same entries,
//! merged into one.
//!
//! Both begin with a copy of the same database, whose files are in the page cache, and end when the
//! output run is durable. The engines take turns; the figures are medians over the rounds.
//!
//! `cargo run --release -p merge --bin merge-beside -- --help`

mod clock;
mod data;
mod engines;

use std::fs;
use std::path::{Path, PathBuf};

use clock::{Taken, timed};
use common::machine;
use common::numbers::median;
use common::words::{List, Words};
use data::Data;
use engines::{Engine, RocksDb, Tamarack};
use tamarack_env::TempDir;

const HELP: &str = "\
usage: merge-beside [OPTIONS]      prints a report in Markdown

  --dir DIR            where the databases are made and removed again  [the system's temporary directory]
  --shape LIST         small (16 B keys, 100 B values), large (24 B, 1 KiB)                         [all]
  --compression LIST   none, lz4                                                                    [all]
  --threads LIST       how many threads merge                                                       [1,2]
  --runs N             how many runs are merged                                                      [10]
  --mib N              keys and values of all runs together                                        [1000]
  --rounds N           how often each engine compacts the same data                                   [5]";

struct Settings {
    dir: PathBuf,
    shapes: List,
    compressions: List,
    threads: Vec<usize>,
    runs: u64,
    mib: u64,
    rounds: usize,
}

/// One compaction.
struct Sample {
    taken: Taken,
    written_bytes: u64,
}

fn main() {
    let settings = Settings::new(&Words::read(HELP));
    let engines: [&dyn Engine; 2] = [&Tamarack, &RocksDb];
    print!("{}", preface(&settings, &engines));
    println!("| data | threads | engine | M entries/s | MB/s | least | greatest | tamarack is | cpu s | written MB |");
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for (name, data) in Data::chosen(&settings.shapes, &settings.compressions, settings.runs, settings.mib) {
        measure(&settings, &name, &data, &engines);
    }
}

fn measure(settings: &Settings, name: &str, data: &Data, engines: &[&dyn Engine; 2]) {
    let scratch = TempDir::below(&settings.dir).expect("a scratch directory");
    let filled = engines.map(|engine| scratch.path().join(engine.name()));
    for (engine, dir) in engines.iter().zip(&filled) {
        engine.fill(dir, data);
    }
    let copy = scratch.path().join("merged");
    let mut samples: Vec<[Vec<Sample>; 2]> = settings.threads.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for round in 0..settings.rounds {
        for (threads, samples) in settings.threads.iter().zip(&mut samples) {
            // Each goes first in every other round.
            for turn in 0..2 {
                let e = (round + turn) % 2;
                samples[e].push(merge(engines[e], &filled[e], &copy, data, *threads));
            }
        }
    }
    for (threads, samples) in settings.threads.iter().zip(&samples) {
        let rate = |sample: &Sample| data.bytes() as f64 / sample.taken.wall_s / 1e6;
        let own = median(samples[0].iter().map(rate));
        for (engine, samples) in engines.iter().zip(samples) {
            let mb_per_s = median(samples.iter().map(rate));
            println!(
                "| {name} | {threads} | {} | {:.2} | {mb_per_s:.0} | {:.0} | {:.0} | {:.2} x | {:.2} | {:.0} |",
                engine.name(),
                data.entries as f64 * mb_per_s / data.bytes() as f64,
                samples.iter().map(rate).fold(f64::INFINITY, f64::min),
                samples.iter().map(rate).fold(0.0, f64::max),
                own / mb_per_s,
                median(samples.iter().map(|sample| sample.taken.cpu_s)),
                median(samples.iter().map(|sample| sample.written_bytes as f64)) / 1e6,
            );
        }
    }
}

/// Compacts a copy of the database in `filled`.
fn merge(engine: &dyn Engine, filled: &Path, copy: &Path, data: &Data, threads: usize) -> Sample {
    fs::create_dir(copy).expect("a directory for the copy");
    for file in fs::read_dir(filled).expect("the database is there") {
        let file = file.expect("its files are there");
        let copied = copy.join(file.file_name());
        fs::copy(file.path(), &copied).expect("a file is copied");
        // Writing back the copy must not disturb the compaction.
        fs::File::open(&copied).and_then(|file| file.sync_all()).expect("a file is synced");
    }
    let db = engine.open(copy, data, threads);
    let ((), taken) = timed(|| db.merge());
    let written_bytes = db.written_bytes();
    check(db.as_ref(), data);
    drop(db);
    fs::remove_dir_all(copy).expect("the copy is removed");
    Sample { taken, written_bytes }
}

/// What was put is there: an engine that loses entries must not win.
fn check(db: &dyn engines::Filled, data: &Data) {
    let mut seen = 0_u64;
    data.for_each_of_run(0, |entry| {
        if seen.is_multiple_of(10_000) {
            assert_eq!(db.get(entry.key).as_deref(), Some(entry.value), "an entry is lost");
        }
        seen += 1;
    });
}

fn preface(settings: &Settings, engines: &[&dyn Engine]) -> String {
    let mut lines = vec![
        format!("# One compaction beside RocksDB, {}\n", machine::date()),
        format!("* Machine: {}; databases on {}.", machine::description(), machine::file_system(&settings.dir)),
        format!(
            "* Data: {} runs of unique random keys, together {} MiB of keys and values. `small`: 16-byte keys, 100-byte values; `large`: 24-byte keys \
             of which 8 bytes are common to all, 1,024-byte values. With LZ4 half of each value is incompressible and half one byte repeated; \
             without, all of it is incompressible.",
            settings.runs, settings.mib
        ),
        "* Inputs in the page cache; the clock runs from the call to its return, when the merged run is durable. MB/s are of keys and values merged; \
         `cpu s` is of the process, kernel calls included. `tamarack is`: how many times faster."
            .to_owned(),
        format!("* {} interleaved rounds; medians, with the least and the greatest MB/s.", settings.rounds),
    ];
    for engine in engines {
        let version = machine::version(engine.package());
        lines.push(format!("* {} ({} {version}): {}.", engine.name(), engine.package(), engine.setup()));
    }
    lines.join("\n") + "\n\n"
}

impl Settings {
    fn new(words: &Words) -> Self {
        Self {
            dir: words.dir(),
            shapes: words.list("shape"),
            compressions: words.list("compression"),
            threads: words.numbers("threads", &[1, 2]).into_iter().map(|n| n as usize).collect(),
            runs: words.positive("runs", 10),
            mib: words.positive("mib", 1000),
            rounds: words.positive("rounds", 5) as usize,
        }
    }
}
