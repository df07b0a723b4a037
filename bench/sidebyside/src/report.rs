//! Medians and spreads, as an aligned table and as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::engines::Engine;
use crate::machine;
use crate::run::Sample;
use crate::settings::Settings;
use crate::workload::{KEY_BYTES, VALUE_BYTES, Workload};

const HEADING: [&str; 8] = ["workload", "engine", "ops/s", "least", "greatest", "tamarack is", "p50 us", "p99 us"];

/// All that was measured, as rows of cells.
pub struct Report {
    rows: Vec<[String; 8]>,
    preface: String,
}

impl Report {
    /// Sums up `samples`, which are filed by workload and engine.
    pub fn new(
        settings: &Settings,
        workloads: &[Workload],
        engines: &[Box<dyn Engine>],
        samples: &BTreeMap<(usize, usize), Vec<Sample>>,
    ) -> Self {
        let mut rows = Vec::new();
        for (w, workload) in workloads.iter().enumerate() {
            // The ratio is against Tamarack's median in the same rounds, if it was measured.
            let own = engines.iter().position(|engine| engine.name() == "tamarack");
            let reference = own.map(|e| median(samples[&(w, e)].iter().map(|s| s.ops_per_s)));
            for (e, engine) in engines.iter().enumerate() {
                rows.push(row(workload, engine.name(), &samples[&(w, e)], reference));
            }
        }
        Self { rows, preface: preface(settings, engines) }
    }

    /// For the terminal.
    pub fn table(&self) -> String {
        let lines: Vec<[String; 8]> =
            std::iter::once(HEADING.map(str::to_owned)).chain(self.rows.iter().cloned()).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut text = String::new();
        for line in &lines {
            for (column, cell) in line.iter().enumerate() {
                let width = widths[column];
                // Words to the left, numbers to the right.
                let padded = if column < 2 { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
                text.push_str(&padded);
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }

    /// To be kept.
    pub fn markdown(&self) -> String {
        let mut text = self.preface.clone();
        let _ = writeln!(text, "| {} |", HEADING.join(" | "));
        let _ = writeln!(text, "|---|---|{}", "---:|".repeat(HEADING.len() - 2));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

fn row(workload: &Workload, engine: &str, samples: &[Sample], reference: Option<f64>) -> [String; 8] {
    let rates: Vec<f64> = samples.iter().map(|s| s.ops_per_s).collect();
    let middle = median(rates.iter().copied());
    [
        workload.to_string(),
        engine.to_owned(),
        format!("{middle:.0}"),
        format!("{:.0}", rates.iter().copied().fold(f64::INFINITY, f64::min)),
        format!("{:.0}", rates.iter().copied().fold(0.0, f64::max)),
        reference.map_or_else(String::new, |reference| format!("{:.2} x", reference / middle)),
        format!("{:.1}", median(samples.iter().map(|s| s.p50_ns as f64)) / 1000.0),
        format!("{:.1}", median(samples.iter().map(|s| s.p99_ns as f64)) / 1000.0),
    ]
}

fn preface(settings: &Settings, engines: &[Box<dyn Engine>]) -> String {
    let mut text = format!("# Fill without merges, {}\n\n", machine::date());
    let _ =
        writeln!(text, "* Machine: {}; databases on {}.", machine::description(), machine::file_system(&settings.dir));
    let _ = writeln!(
        text,
        "* Data: {KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values, {} puts per run (`sync`: {}), one put per commit, buffers of {} MiB, no compression.",
        settings.entries,
        settings.sync_entries,
        settings.buffer_bytes >> 20
    );
    let _ = writeln!(
        text,
        "* {} interleaved rounds; medians, with the least and the greatest; latencies are medians over the rounds.",
        settings.rounds
    );
    for engine in engines {
        let _ = writeln!(
            text,
            "* {} ({} {}): {}.",
            engine.name(),
            engine.package(),
            machine::version(engine.package()),
            engine.setup()
        );
    }
    let mut words = settings.words.clone();
    if let Some(dir) = words.iter().position(|word| word == "--dir").and_then(|at| words.get_mut(at + 1)) {
        "DIR".clone_into(dir);
    }
    let _ = writeln!(text, "* Command: `cargo run --release --bin sidebyside -- {}`\n", words.join(" "));
    text
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The middle of odd and even numbers of values.
#[test]
fn medians() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
}
