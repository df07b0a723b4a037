//! The report: designs and trees, a table of designs and workloads for each figure, and a verdict
//! on each prediction.

use common::numbers::median;
use common::words::Words;
use serde_json::Value;
use shape::kept::{Kept, digits, number, off, table};

use crate::accuracy::{CLOSE, Comparison, accuracy, ranked};
use crate::costs::{Figure, SCANNED};
use crate::measure::{GROUPS, MEMTABLES_MIN, READ_EVERY};
use crate::predict::{Machine, PREDICTIONS, file_part};
use crate::results::{Cell, Results};
use crate::store::{BLOCK_BYTES, KEY_BYTES, RAW_BYTES, VALUE_BYTES};
use crate::workloads::WORKLOADS;

/// The report in Markdown. `stem` is its file's name without its extension.
pub fn markdown(words: &Words, kept: &Kept, results: &Results<'_>, stem: &str) -> String {
    let mut text = introduction(words, kept, results);
    text += &designs(results);
    for figure in Figure::ALL {
        text += &figure_tables(results, figure);
    }
    text += &ended_early(results);
    text += &verdicts(results, stem);
    text
}

fn introduction(words: &Words, kept: &Kept, results: &Results<'_>) -> String {
    let of = |name: &str| number(results.setting, &[name]);
    let settled = results.setting["settled"].as_bool().unwrap_or(false);
    let options = format!(
        "--entries {} --reads {} --turnovers {}{}",
        of("entries"),
        of("reads"),
        of("turnovers"),
        if settled { " --settled" } else { "" }
    );
    let command = "cargo run --release -p designs --";
    let commands = format!("`{command} --dir DIR --results FILE {options}`, then `{command} --from FILE --write`");
    let beside =
        results.designs.first().filter(|_| !settled).map_or_else(String::new, |design| beside(&design.kept["machine"]));
    let mixes: String = WORKLOADS.iter().map(|mix| format!("* `{}`: {}.\n", mix.name, mix.description)).collect();
    format!(
        "# Costs of designs, measured and predicted, {}\n\n{}\n\
         {} entries of {KEY_BYTES} + {VALUE_BYTES} bytes ({RAW_BYTES} raw bytes each, {:.2} GiB in all) are loaded in random order, and the tree comes to rest: its levels fit its shape, and level 1 is one run if the next level is. Each workload then begins on a copy of this tree:\n\n{mixes}\n\
         It writes {} times the capacity of the last level but one (the level above the deepest one with entries, at most all data), at least {MEMTABLES_MIN} memtables, by one thread at full speed under write throttling, with two threads for flushes and compactions. \
         In each of {GROUPS} equal parts of a workload, at a random place, reads are counted: {} of each kind in all, with filters five times as many zero-result lookups. {} \
         Block reads are data blocks by the engine's counters, without block cache and entry cache, with indexes in memory; blocks have {BLOCK_BYTES} bytes, no compression. \
         Runs, space and filter bits are means over the groups. Write amplification is raw bytes that flushes and compactions wrote per raw byte flushed, from rest to rest. \
         Space amplification is raw bytes in runs per raw byte of live entries, without files that wait for their removal. A scan returns {SCANNED} entries.\n",
        kept.date(),
        kept.circumstances(words, &commands),
        of("entries"),
        of("entries") * RAW_BYTES as f64 / 2_f64.powi(30),
        of("turnovers"),
        of("reads"),
        if settled {
            "Compactions are awaited after each memtable's bytes, also of the load, and before each group of reads."
        } else {
            &beside
        },
    )
}

/// How reads are counted beside compactions, and what was measured of the machine.
fn beside(machine: &Value) -> String {
    let Machine { device, cores } = Machine::of(machine);
    let speed = Machine { device, cores }.full_speed();
    format!(
        "Compactions go on while writes do, and are paused while reads are counted, in one of {READ_EVERY} parts. \
         A calibration before the first design: {:.2} µs to put an entry, {:.2} µs to compact one, reads of {:.0} MB/s and writes of {:.0} MB/s; {cores} cores. \
         So two threads copy {:.0} MB/s without writers, writers offer {:.2} bytes for each of these, and take {:.2} bytes of copying for each that they put.",
        1e6 * device.put_seconds,
        1e6 * device.compaction_seconds,
        device.read_bytes_per_second / 1e6,
        device.write_bytes_per_second / 1e6,
        speed.bytes_per_second / 1e6,
        speed.offered,
        speed.burden,
    )
}

fn list(value: &Value, decimals: usize) -> String {
    let numbers =
        value.as_array().into_iter().flatten().map(|value| digits(value.as_f64().unwrap_or(f64::NAN), decimals));
    numbers.collect::<Vec<_>>().join(", ")
}

fn designs(results: &Results<'_>) -> String {
    let seconds = |cell: &Cell<'_>| number(cell.kept, &["seconds"]) + number(cell.kept, &["settle_seconds"]);
    let mut all_seconds = 0.0;
    let rows: Vec<Vec<String>> = results
        .designs
        .iter()
        .map(|measured| {
            let load = &measured.kept["load"];
            let loading = number(load, &["seconds"]) + number(load, &["settle_seconds"]);
            let cells = results.cells.iter().filter(|cell| cell.design.number == measured.design.number);
            let running: f64 = cells.map(seconds).sum();
            all_seconds += loading + running;
            vec![
                measured.design.name(),
                list(&load["capacities"], 0),
                list(&load["slots"], 0),
                list(&load["sizes"], 1),
                list(&load["runs"], 0),
                digits(number(load, &["write_amplification"]), 2),
                digits(number(measured.kept, &["target_bytes"]) / number(load, &["buffer_bytes"]), 0),
                digits(loading, 0),
                digits(running, 0),
            ]
        })
        .collect();
    let columns = [
        "design ",
        "capacities ",
        "run slots ",
        "sizes ",
        "runs ",
        "load, write amplification",
        "memtables written",
        "load, s",
        "workloads, s",
    ];
    format!(
        "\n## Designs\n\nEach design: policy, filter with its bits per entry, memtable as a part of the data. Level 1 first, after the load, at rest; capacities and sizes in memtables. Then the memtables that each workload writes. All took {:.0} minutes.\n\n{}",
        all_seconds / 60.0,
        table(&columns, &rows)
    )
}

fn figure_tables(results: &Results<'_>, figure: Figure) -> String {
    let has = |cell: &&Cell<'_>| cell.measured.get(figure).is_some();
    let mixes: Vec<_> =
        WORKLOADS.iter().filter(|mix| results.cells.iter().filter(has).any(|cell| cell.mix.name == mix.name)).collect();
    let mut text = format!("\n## {}\n", figure.title());
    if mixes.is_empty() {
        return text + "\nNothing was measured.\n";
    }
    let names: Vec<String> = mixes.iter().map(|mix| format!("{} ", mix.name)).collect();
    let columns: Vec<&str> = std::iter::once("design ").chain(names.iter().map(String::as_str)).collect();
    for (number, (name, _)) in PREDICTIONS.iter().enumerate().filter(|(number, _)| results.has(*number)) {
        let rows: Vec<Vec<String>> = results
            .designs
            .iter()
            .map(|measured| {
                let words = |mix| {
                    results.cell(&measured.design, mix).map_or_else(String::new, |cell| shown(cell, figure, number))
                };
                std::iter::once(measured.design.name()).chain(mixes.iter().map(|mix| words(mix))).collect()
            })
            .collect();
        text += &format!("\nMeasured / predicted ({name}) / off by.\n\n{}", table(&columns, &rows));
    }
    text
}

/// Measured, predicted, off by; what there is of it.
fn shown(cell: &Cell<'_>, figure: Figure, prediction: usize) -> String {
    let Some(measured) = cell.measured.get(figure) else { return String::new() };
    let number = |value| digits(value, figure.digits());
    match cell.predicted[prediction].and_then(|figures| figures.get(figure)) {
        Some(predicted) => format!("{} / {} / {}", number(measured), number(predicted), off(measured, predicted)),
        None => number(measured),
    }
}

/// Workloads that were not done within their time.
fn ended_early(results: &Results<'_>) -> String {
    let early: Vec<Vec<String>> = results
        .cells
        .iter()
        .filter(|cell| cell.done() < 1.0)
        .map(|cell| {
            let row = [cell.design.name(), cell.mix.name.to_owned(), digits(100.0 * cell.done(), 0)];
            row.into_iter().chain([digits(number(cell.kept, &["groups"]), 0)]).collect()
        })
        .collect();
    if early.is_empty() {
        return String::new();
    }
    format!(
        "\n## Workloads that were ended early\n\nAfter `--seconds-each`. Their figures are those of the part that was done.\n\n{}",
        table(&["design ", "workload ", "done, %", "groups of reads"], &early)
    )
}

fn verdicts(results: &Results<'_>, stem: &str) -> String {
    let mut text = "\n## Model accuracy: predicted and measured\n\n".to_owned();
    text += &counting_error(results);
    for (number, (name, _)) in PREDICTIONS.iter().enumerate().filter(|(number, _)| results.has(*number)) {
        text += &format!(
            "\n### {name}\n\n![Predicted and measured, {name}]({stem}-{}.svg)\n\n{}{}",
            file_part(name),
            errors(results, number),
            ranks(results, number)
        );
    }
    text
}

/// What chance alone makes of the smallest counts, and what the filters' predicted rates in the
/// runs of each moment do.
fn counting_error(results: &Results<'_>) -> String {
    let blocks = |cell: &Cell<'_>| number(cell.kept, &["zero_result_blocks"]);
    let chances: Vec<f64> =
        results.cells.iter().map(blocks).filter(|blocks| *blocks > 0.0).map(|blocks| 1.0 / blocks.sqrt()).collect();
    let by_runs = results.cells.iter().filter_map(|cell| {
        let measured = cell.measured.get(Figure::ZeroResultReads)?;
        Comparison::new((cell, Figure::ZeroResultReads), measured, number(cell.kept, &["zero_result_by_runs"]))
    });
    let Some(by_runs) = accuracy(&by_runs.collect::<Vec<_>>()).filter(|_| !chances.is_empty()) else {
        return String::new();
    };
    format!(
        "An error is |measured / predicted - 1|; cells without a prediction, or with 0 in both, are left out. Zero-result lookups have a standard error by chance (1/√blocks) of {} (median), at most {}. \
         Beside the predicted false positive rates of the runs of each moment, which no prediction knows, their error is {} (median), at most {} ({}, {}).\n",
        percent(median(chances.iter().copied())),
        percent(chances.iter().copied().fold(0.0, f64::max)),
        percent(by_runs.median_error),
        percent(by_runs.worst_error),
        by_runs.worst.0.design.name(),
        by_runs.worst.0.mix.name,
    )
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "∞".to_owned() }
}

fn errors(results: &Results<'_>, prediction: usize) -> String {
    let all = results.comparisons(prediction);
    let rows = Figure::ALL.into_iter().filter_map(|figure| {
        let cells: Vec<_> = all.iter().filter(|cell| cell.place.1 == figure).copied().collect();
        let found = accuracy(&cells)?;
        let worst = found.worst.0;
        Some(vec![
            figure.title().to_owned(),
            found.cells.to_string(),
            percent(found.median_error),
            percent(found.worst_error),
            format!("{}, {}", worst.design.name(), worst.mix.name),
            percent(found.within),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let within = format!("within {:.0} %", 100.0 * CLOSE);
    table(&["figure ", "cells", "median error", "worst error", "of ", &within], &rows)
}

fn ranks(results: &Results<'_>, prediction: usize) -> String {
    let all = results.comparisons(prediction);
    let rows: Vec<Vec<String>> = Figure::ALL
        .into_iter()
        .map(|figure| {
            let mut sum = (0, 0);
            let mut row = vec![figure.title().to_owned()];
            for mix in &WORKLOADS {
                let cells: Vec<_> = all
                    .iter()
                    .filter(|cell| cell.place.1 == figure && cell.place.0.mix.name == mix.name)
                    .copied()
                    .collect();
                let (right, pairs) = ranked(&cells);
                sum = (sum.0 + right, sum.1 + pairs);
                row.push(rank_words(right, pairs));
            }
            row.push(rank_words(sum.0, sum.1));
            row
        })
        .filter(|row| row.last().is_some_and(|all| !all.is_empty()))
        .collect();
    let mut columns = vec!["figure "];
    columns.extend(WORKLOADS.iter().map(|mix| mix.name));
    columns.push("all");
    format!(
        "\nPairs of designs whose measured values differ by more than {:.0} % under the same workload: how many the prediction ranks in the same order, of how many.\n\n{}",
        100.0 * CLOSE,
        table(&columns, &rows)
    )
}

fn rank_words(right: usize, pairs: usize) -> String {
    if pairs == 0 {
        String::new()
    } else {
        format!("{right} of {pairs} ({:.0} %)", 100.0 * right as f64 / pairs as f64)
    }
}
