//! Fills without compactions: the way of a put to the WAL, the memtable and the first table.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;

use common::machine;
use common::numbers::{median, noise};
use common::words::List;

use crate::data::{Data, Random};
use crate::load::fill;
use crate::stores::{self, Compression, Durability, FILTER_BITS, Kind, Place, Seen, Shape};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where databases are made and removed again.
    pub dir: PathBuf,
    pub rounds: usize,
    pub entries: u64,
    pub sync_entries: u64,
    pub buffer_bytes: u64,
    pub threads: Vec<u64>,
    pub workloads: List,
    pub durabilities: List,
    pub engines: List,
}

/// One workload.
struct Fill {
    name: String,
    data: Data,
    durability: Durability,
    threads: usize,
}

/// What one run gave.
struct Sample {
    ops_per_s: f64,
    p50_ns: u64,
    p99_ns: u64,
}

/// Runs everything and returns the report.
pub fn measure(settings: &Settings, command: &str) -> io::Result<String> {
    let mut engines = stores::plain();
    engines.retain(|engine| settings.engines.wants(engine.name()));
    let (fills, noise) = (fills(settings), noise());
    let mut samples: Vec<Vec<Vec<Sample>>> =
        fills.iter().map(|_| engines.iter().map(|_| Vec::new()).collect()).collect();
    for round in 1..=settings.rounds {
        for (fill, samples) in fills.iter().zip(&mut samples) {
            for (engine, samples) in engines.iter().zip(samples) {
                let sample = run(engine.as_ref(), fill, settings, &noise)?;
                eprintln!("round {round}: {}: {}: {:.0} ops/s", fill.name, engine.name(), sample.ops_per_s);
                samples.push(sample);
            }
        }
    }
    Ok(report(settings, command, &engines, &fills, &samples))
}

fn fills(settings: &Settings) -> Vec<Fill> {
    let mut fills = Vec::new();
    let levels =
        [("buffered", Durability::Buffered, settings.entries), ("sync", Durability::Sync, settings.sync_entries)];
    for (level, durability, entries) in levels {
        for (workload, sequential) in [("fillrandom", false), ("fillseq", true)] {
            if settings.durabilities.wants(level) && settings.workloads.wants(workload) {
                fills.extend(settings.threads.iter().map(|threads| Fill {
                    name: format!("{workload}, {level}, {threads} thread{}", if *threads == 1 { "" } else { "s" }),
                    data: Data { name: "small", prefix: "", value_bytes: 100, entries, sequential },
                    durability,
                    threads: *threads as usize,
                }));
            }
        }
    }
    fills
}

/// One run on a database that is made for it and removed afterwards.
fn run(engine: &dyn Kind, workload: &Fill, settings: &Settings, noise: &[u8]) -> io::Result<Sample> {
    let dir = settings.dir.join(format!("sidebyside-{}-{}", std::process::id(), engine.name()));
    fs::create_dir_all(&dir)?;
    machine::settle();
    let Fill { data, durability, threads, .. } = *workload;
    let place = Place {
        data,
        shape: Shape::Runs { by_hand: false },
        buffer_bytes: settings.buffer_bytes,
        cache_bytes: 64 << 20,
        filter_bits: FILTER_BITS,
        ratio: None,
        direct_io: false,
        compression: Compression::None,
        durability,
        loading: false,
    };
    let store = engine.open(&dir, &place);
    let (seconds, latencies) = fill(store.as_ref(), &data, noise, 0..data.entries, threads);
    // What was put is there: a store that loses writes must not win.
    let mut random = Random::new(data.entries);
    for _ in 0..100 {
        let (n, mut found, mut expected) = (random.below(data.entries), Seen::default(), Seen::default());
        store.get(&data.key(n), &mut found);
        expected.value(data.value(noise, n));
        assert_eq!(found, expected, "put {n} of {} is not there", workload.name);
    }
    drop(store);
    fs::remove_dir_all(&dir)?;
    let (p50_ns, p99_ns) = (latencies.percentile_ns(500), latencies.percentile_ns(990));
    Ok(Sample { ops_per_s: data.entries as f64 / seconds, p50_ns, p99_ns })
}

fn report(
    settings: &Settings,
    command: &str,
    engines: &[Box<dyn Kind>],
    fills: &[Fill],
    samples: &[Vec<Vec<Sample>>],
) -> String {
    let mut text = format!("# Fills without compactions, {}\n\n", machine::date());
    let mut line = |words: String| writeln!(text, "{words}").expect("a string takes everything");
    line(format!("* Machine: {}; databases on {}.", machine::description(), machine::file_system(&settings.dir)));
    line(format!(
        "* Data: 16-byte keys, 100-byte values, {} puts per run (`sync`: {}), one put per commit, buffers of {} MiB, filters of 10 bits per entry, no compression. \
         `buffered`: the log is written before a put returns; `sync`: and synced.",
        settings.entries,
        settings.sync_entries,
        settings.buffer_bytes >> 20
    ));
    line(format!(
        "* {} interleaved rounds; medians, with the least and the greatest; latencies are medians over the rounds. `tamarack is`: how many times as fast.",
        settings.rounds
    ));
    for engine in engines {
        let (name, package) = (engine.name(), engine.package());
        line(format!(
            "* {name} ({package} {}), of whose settings those of unmerged runs hold here: {}.",
            engine.version(),
            engine.setup()
        ));
    }
    line(format!("* Command: `{command}`\n"));
    line("| workload | engine | ops/s | least | greatest | tamarack is | p50 us | p99 us |\n|---|---|---:|---:|---:|---:|---:|---:|".to_owned());
    for (fill, samples) in fills.iter().zip(samples) {
        let rate = |samples: &[Sample]| median(samples.iter().map(|sample| sample.ops_per_s));
        let own = engines.iter().position(|engine| engine.name() == "tamarack").map(|e| rate(&samples[e]));
        for (engine, samples) in engines.iter().zip(samples) {
            let rates = || samples.iter().map(|sample| sample.ops_per_s);
            line(format!(
                "| {} | {} | {:.0} | {:.0} | {:.0} | {} | {:.1} | {:.1} |",
                fill.name,
                engine.name(),
                rate(samples),
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(0.0, f64::max),
                own.map_or_else(String::new, |own| format!("{:.2} x", own / rate(samples))),
                median(samples.iter().map(|sample| sample.p50_ns as f64)) / 1e3,
                median(samples.iter().map(|sample| sample.p99_ns as f64)) / 1e3,
            ));
        }
    }
    text
}
