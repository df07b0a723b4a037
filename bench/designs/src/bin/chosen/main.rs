//! Is the design that the search chooses the best? For each mix of operations a design is chosen by
//! the search alone, with the figures of this machine; then it is measured beside a sweep of fixed
//! designs.
//!
//! ```text
//! calibrate ─► figures of the machine ─► search: a design for each mix ─┐
//! sweep: 16 designs ────────────────────────────────────────────────────┴─► contenders
//!                                                                                │ loaded once
//! mixes: MOOSE A to J, Monkey's Fig. 13 E and F, existing keys ─────────► cells, on copies
//!                                                                                │
//!                                               report: chosen beside the best ◄─┘
//! ```
//!
//! With `--papers` nothing is measured: the search is compared with the tuners of three papers, by
//! the model ([`papers`]).
//!
//! `cargo run --release -p designs --bin chosen -- --help`

mod cells;
mod client;
mod contenders;
mod measure;
mod mixes;
mod papers;
mod plan;
mod report;

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use common::words::Words;
use shape::kept::publish;
use tamarack::{Options, Result};
use tamarack_model::device::Device;

use crate::cells::{Cells, competitors};
use crate::client::Client;
use crate::contenders::Contenders;
use crate::mixes::Mix;
use crate::plan::Plan;

const HELP: &str = "\
usage: chosen [--dir DIR] [--results FILE] [--quick] [OPTIONS]
       chosen --from FILE --write
       chosen --papers [--quick]

  --dir DIR          where databases are made and removed again          [the system's temporary directory]
  --results FILE     figures are added to this file of JSON after each cell; what it has is not measured again
  --from FILE        measure nothing, and make the report of the figures in this file
  --quick            100000 entries, 4 MiB, 8 phases, 40 ms, one round: some minutes
  --mixes LIST       moose-A to moose-J, 13E-10, 13E-50, 13E-90, likewise 13F and existing            [all]
  --only LIST        contenders whose names have one of these parts, and the chosen ones              [all]
  --entries N        entries loaded, of 16 + 100 bytes                                             [500000]
  --memory-mib N     memory budget of each database                                                    [16]
  --rounds N         measurements of the chosen designs and those near the best                         [3]
  --phases N         places in the two turnovers at which operations are timed                         [20]
  --cell-ms N        time of the operations of a cell, in milliseconds                                [400]
  --device FILE      figures as `tamarack calibrate --output` writes them, instead of a calibration
  --list             print the chosen designs and what is predicted, and measure nothing
  --papers           compare the search with the tuners of papers, by the model, and measure nothing
  --json             a line of JSON for each design instead of tables
  --write            write the report, too
  --report FILE      where to                                                [bench/results/DATE-chosen-...]
  --notes FILE       what is to stand at its end
  --conditions TEXT  how it was run, for the report";

fn main() -> Result<()> {
    let words = Words::read(HELP);
    if words.flag("papers") {
        papers::print(&words);
        return Ok(());
    }
    let mut cells = Cells::read(&words);
    let mut plan = Plan::read(&words);
    let device = match cells.machine() {
        Some((device, setting)) => {
            plan = plan.with_setting(setting);
            device
        }
        None => {
            let (device, source) = device(&words, &plan)?;
            cells.set_machine(&device, &source, &plan.setting());
            device
        }
    };
    let mixes: Vec<Mix> =
        mixes::all(plan.entries).into_iter().filter(|mix| words.list("mixes").wants(&mix.name)).collect();
    let mut contenders = Contenders::of(&plan, &mixes, device);
    let only = words.list("only");
    contenders.all.retain(|contender| only.wants_part_of(&contender.name()) || contenders.chosen.contains(contender));
    let competitors = competitors(&plan, &contenders, &mixes, device);
    if words.flag("list") {
        println!("{}", report::chosen(&plan, &contenders, &mixes, device));
        return Ok(());
    }
    if words.text("from").is_none() {
        measure_all(&words, &mut cells, &plan, &contenders, &competitors, &mixes, device)?;
    }
    let text = report::markdown(&words, &cells, &plan, &contenders, &mixes, device);
    publish(&words, &cells.kept, "chosen-", &text);
    Ok(())
}

/// The figures of the machine, and where they come from.
fn device(words: &Words, plan: &Plan) -> Result<(Device, String)> {
    if let Some(file) = words.text("device") {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let device: Device = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        return Ok((device, "a file that was given".to_owned()));
    }
    let scratch = words.scratch();
    let (bytes, seconds) = plan.calibration;
    let time = Duration::from_secs(seconds);
    let found = Options::new().calibrate(scratch.path(), bytes, time, &mut |_, _| {})?;
    let reads = if found.direct_alignment.is_some() { "direct reads" } else { "reads from the page cache" };
    let source = format!("a calibration of {seconds} s with a file of {} MiB, {reads}", found.data_bytes >> 20);
    Ok((found.device, source))
}

/// Measures cells until none is due, and keeps each.
fn measure_all(
    words: &Words,
    cells: &mut Cells,
    plan: &Plan,
    contenders: &Contenders,
    competitors: &[Vec<usize>],
    mixes: &[Mix],
    device: Device,
) -> Result<()> {
    let scratch = words.scratch();
    let (setting, began) = (plan.setting(), Instant::now());
    let mut loaded = BTreeSet::new();
    for pass in 1.. {
        let mut is_any_due = false;
        // Every other pass goes backwards, so that what drifts favours nobody.
        let forwards = 0..contenders.all.len();
        let order: Vec<usize> = if pass % 2 == 1 { forwards.collect() } else { forwards.rev().collect() };
        for at in order {
            let contender = &contenders.all[at];
            let due = cells.due(contenders, competitors, mixes, at, plan.rounds);
            if due.is_empty() {
                continue;
            }
            is_any_due = true;
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            eprintln!(
                "pass {pass}, {minutes:.1} minutes: {} of {}, {}, {} mixes",
                at + 1,
                contenders.all.len(),
                contender.name(),
                due.len()
            );
            let dir = scratch.path().join(format!("base-{at}"));
            let mut base = Client::open(&dir, contender, plan, 1, at as u64)?;
            if loaded.insert(at) {
                base.load(contender)?;
            }
            for number in due {
                let mix = &mixes[number];
                let flushes = contender.price(plan, mix, device).prediction.flushes;
                let updates = measure::updates(plan, contender, flushes);
                let seed = seed(number, pass);
                let copy = scratch.path().join("copy");
                let figures = measure::measure(&base.db, &copy, contender, mix, plan, updates, seed)?;
                eprintln!("  {}: {:.3} µs", mix.name, 1e6 * shape::kept::number(&figures, &["seconds_per_op"]));
                cells.add(contender, mix, &setting, figures);
            }
            base.db.close()?;
        }
        if !is_any_due {
            break;
        }
    }
    Ok(())
}

/// A seed that contenders have in common.
fn seed(mix: usize, pass: u64) -> u64 {
    1000 * pass + mix as u64
}
