//! Costs of many designs under several workloads, each measured beside what the models predict from
//! the design alone.
//!
//! ```text
//! list: designs ──┐                ┌── store: a database of a design
//! workloads ──────┴──► measure ◄───┘
//!                         │
//!                         ▼                            ┌──► report: tables, verdict
//!                 Kept: figures in JSON ──► results ───┤
//!                                              ▲       └──► plot
//!              the design alone ──► predict ───┘
//! ```
//!
//! Figures are means over a workload that turns the last level but one over twice: block reads of
//! zero-result lookups, lookups of existing keys, seeks and scans; write amplification, space
//! amplification, runs, and filter bits ([`costs`]). They do not depend on how fast the device is.
//! [`accuracy`] says how far predictions are off, and whether they rank designs right.
//!
//! To add a prediction, write it in [`predict`] and list it there.
//!
//! `cargo run --release -p designs -- --help`

mod accuracy;
mod costs;
mod list;
mod measure;
mod plot;
mod predict;
mod report;
mod results;
mod store;
mod workloads;

use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use common::words::Words;
use serde_json::{Value, json};
use shape::kept::{Kept, publish};
use tamarack::{Options, Result};
use tamarack_model::device::Device;

use crate::measure::Plan;
use crate::predict::{PREDICTIONS, file_part};
use crate::results::Results;

const HELP: &str = "\
usage: designs [--dir DIR] [--only LIST] [--workloads LIST] [--quick] [--settled] [OPTIONS]

  --dir DIR          where databases are made and removed again          [the system's temporary directory]
  --only LIST        designs whose names have one of these parts, such as D03,tiering                 [all]
  --workloads LIST   overwrites, zipfian, inserts, mixed, rest, deletes                               [all]
  --list             print the names of the designs, and measure nothing
  --quick            64 MiB, 4000 reads of each kind, 10 seconds each
  --entries N        entries loaded; memtables are 1/777 or 1/274 of them                         [8659209]
  --reads N          reads of each kind in a workload                                               [20000]
  --turnovers N      of the last level but one, in a workload                                           [2]
  --seconds-each N   a workload is ended after so many seconds, and the report says so                 [35]
  --settled          await compactions after each memtable, also of the load, and before reads
  --device FILE      figures of the machine, for predictions of writers at full speed: what
                     `tamarack calibrate --output` wrote                    [measured before the first design]
  --results FILE     figures are added to this file of JSON, one design after the other
  --from FILE        measure nothing, and make the report of the figures in this file
  --json             a line of JSON for each design and workload instead of tables
  --write            write the report and its plots, too
  --report FILE      where to                                                [bench/results/DATE-designs-...]
  --notes FILE       what is to stand at its end
  --conditions TEXT  how it was run, for the report";

/// 1 GiB.
const ENTRIES: u64 = 8_659_209;
/// 64 MiB.
const QUICK_ENTRIES: u64 = 541_201;

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let designs = list::wanted(&words.list("only"));
    if words.flag("list") {
        designs.iter().for_each(|design| println!("{}", design.name()));
        return Ok(());
    }
    let mut kept = Kept::read(&words);
    if words.text("from").is_none() {
        let (plan, began) = (plan(&words), Instant::now());
        let setting = json!({ "entries": plan.entries, "reads": plan.reads, "turnovers": plan.turnovers, "settled": plan.settled });
        let machine = if plan.settled { Value::Null } else { machine(&words)? };
        for (number, design) in designs.iter().enumerate() {
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            eprintln!("design {} of {} after {minutes:.1} minutes: {}", number + 1, designs.len(), design.name());
            let scratch = words.scratch();
            let mut figures = measure::measure(scratch.path(), design, &plan)?;
            figures["machine"] = machine.clone();
            let earlier = kept.policies.get(&design.name()).filter(|earlier| earlier["setting"] == setting).cloned();
            kept.add(&design.name(), &setting, with_workloads_of(earlier, figures));
        }
    }
    let results = Results::of(&kept);
    if words.flag("json") {
        results.cells.iter().for_each(|cell| println!("{}", cell.json()));
        return Ok(());
    }
    let path = words.report("designs-");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if words.flag("write") {
        for (number, (name, _)) in PREDICTIONS.iter().enumerate().filter(|(number, _)| results.has(*number)) {
            let plot = path.with_file_name(format!("{stem}-{}.svg", file_part(name)));
            fs::write(&plot, plot::draw(&results, number))
                .unwrap_or_else(|error| panic!("{}: {error}", plot.display()));
        }
    }
    publish(&words, &kept, "designs-", &report::markdown(&words, &kept, &results, &stem));
    Ok(())
}

/// The figures of the machine, given or measured, and its cores.
fn machine(words: &Words) -> Result<Value> {
    let device: Device = match words.text("device") {
        Some(file) => {
            let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
            text.parse().unwrap_or_else(|error| panic!("{file}: {error}"))
        }
        None => {
            let scratch = words.scratch();
            Options::new().calibrate(scratch.path(), CALIBRATION_BYTES, CALIBRATION_TIME, &mut |_, _| {})?.device
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    Ok(json!({ "device": device.to_string(), "cores": cores }))
}

/// What a calibration writes and takes.
const CALIBRATION_BYTES: u64 = 256 << 20;
const CALIBRATION_TIME: Duration = Duration::from_secs(10);

fn plan(words: &Words) -> Plan {
    let (entries, reads, seconds_each) =
        if words.flag("quick") { (QUICK_ENTRIES, 4000, 10) } else { (ENTRIES, 20_000, 35) };
    Plan {
        entries: words.positive("entries", entries),
        reads: words.positive("reads", reads),
        turnovers: words.positive("turnovers", 2),
        settled: words.flag("settled"),
        seconds_each: words.positive("seconds-each", seconds_each),
        workloads: words.list("workloads"),
    }
}

/// The figures, with those of workloads that were measured earlier and not now.
fn with_workloads_of(earlier: Option<Value>, mut figures: Value) -> Value {
    let earlier = earlier.as_ref().and_then(|earlier| earlier["workloads"].as_object());
    for (name, value) in earlier.into_iter().flatten() {
        if figures["workloads"].get(name).is_none() {
            figures["workloads"][name] = value.clone();
        }
    }
    figures
}
