//! The report of `defaults`.

use common::numbers::{median, mib};

use super::Results;
use crate::stores::EngineFacts;
use crate::table::{count, table, times};

/// The engine that is compared with the others.
const OWN: &str = "tamarack by default";

/// The engine whose variants are taken together in a column of their own.
const ROCKSDB: &str = "rocksdb";

/// Markdown.
pub fn markdown(results: &Results) -> String {
    let Results {
        circumstances,
        entries,
        key_bytes,
        value_bytes,
        memory_bytes,
        confined_bytes,
        warm_s,
        measured_s,
        ..
    } = results;
    let data = entries * (*key_bytes + *value_bytes) as u64;
    let setups =
        results.engines.iter().map(|engine| format!("* {} ({}): {}.\n", engine.name, engine.version, engine.setup));
    format!(
        "# Engines with their defaults, {}\n\n{}* Command: `{}`, {:.0} minutes, rounds: {}.\n{}\n\
         {} entries of {key_bytes} + {value_bytes} bytes ({:.0} MiB) are put in random order, one at a time, by one thread; then each workload runs for {warm_s} s \
         and {measured_s} measured ones, on the same database, one after the other. Each engine is given {:.0} MiB, and its process may take {:.0} MiB with the page cache \
         of its files. `load, until settled`: until memtables are flushed and no compaction is running or due by the engine's own rules. Each round has one engine after the other, alone. Thousands of operations per second, medians of the rounds; the last columns are Tamarack's in multiples of RocksDB's, the \
         better of its variants, and of the best of the others.\n\n{}\n## 99th percentiles, in µs\n\n{}\n## At the end\n\n{}",
        circumstances.date,
        circumstances.preface("each engine"),
        circumstances.command,
        circumstances.minutes,
        circumstances.rounds,
        setups.collect::<String>(),
        count(*entries as f64),
        mib(data),
        mib(*memory_bytes),
        mib(*confined_bytes),
        rates(results),
        tails(results),
        ends(results),
    )
}

/// The median of a figure of a phase on an engine.
fn figure(results: &Results, engine: &str, phase: &str, of: impl Fn(&super::Phase) -> f64) -> Option<f64> {
    let runs = results.measured.iter().filter(|measured| measured.engine == engine);
    let phases: Vec<f64> = runs.flat_map(|run| run.phases.iter().filter(|one| one.name == phase).map(&of)).collect();
    (!phases.is_empty()).then(|| median(phases.into_iter()))
}

fn phases(results: &Results) -> Vec<&str> {
    results.measured.first().map_or_else(Vec::new, |run| run.phases.iter().map(|phase| phase.name.as_str()).collect())
}

fn rates(results: &Results) -> String {
    let names: Vec<&str> = results.engines.iter().map(|engine| engine.name.as_str()).collect();
    let heading: Vec<&str> =
        ["workload"].into_iter().chain(names.clone()).chain(["times RocksDB", "times the best"]).collect();
    let rows: Vec<Vec<String>> = phases(results)
        .into_iter()
        .map(|phase| {
            let rate = |engine: &str| figure(results, engine, phase, |one| one.ops_per_s);
            let best = |wanted: &dyn Fn(&str) -> bool| {
                names.iter().filter(|name| wanted(name)).filter_map(|name| rate(name)).max_by(f64::total_cmp)
            };
            let ratio = |other: Option<f64>| {
                rate(OWN).zip(other).map_or_else(String::new, |(own, other)| match own / other {
                    ratio if ratio < 1.0 => format!("**{}**", times(ratio)),
                    ratio => times(ratio),
                })
            };
            let cells =
                names.iter().map(|name| rate(name).map_or_else(String::new, |rate| format!("{:.1}", rate / 1e3)));
            let ratios = [ratio(best(&|name| name.starts_with(ROCKSDB))), ratio(best(&|name| name != OWN))];
            [phase.to_owned()].into_iter().chain(cells).chain(ratios).collect()
        })
        .collect();
    table(&heading, 1, &rows)
}

fn tails(results: &Results) -> String {
    let names: Vec<&str> = results.engines.iter().map(|engine| engine.name.as_str()).collect();
    let heading: Vec<&str> = ["workload"].into_iter().chain(names.clone()).collect();
    let row = |phase: &str| {
        let tail = |name: &&str| {
            let ns = figure(results, name, phase, |one| one.p99_ns as f64);
            ns.map_or_else(String::new, |ns| format!("{:.1}", ns / 1e3))
        };
        [phase.to_owned()].into_iter().chain(names.iter().map(tail)).collect()
    };
    table(&heading, 1, &phases(results).into_iter().map(row).collect::<Vec<_>>())
}

/// Space, memory, and the trees of the last round.
fn ends(results: &Results) -> String {
    let row = |engine: &EngineFacts| {
        let last = results.measured.iter().rfind(|measured| measured.engine == engine.name)?;
        let of = |bytes: u64| format!("{:.0}", mib(bytes));
        Some(vec![engine.name.clone(), last.tree.clone(), of(last.allocated_bytes), of(last.peak_memory_bytes)])
    };
    let rows: Vec<_> = results.engines.iter().filter_map(row).collect();
    table(&["engine", "tree", "MiB on the device", "MiB of the process at most"], 2, &rows)
}
