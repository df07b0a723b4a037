//! Figures of the documentation, drawn from the checked-in reports. No number is typed in here.
//!
//! ```text
//! results/*.md ── report: tables ──► throughput, predicted: points ──► svg ──► docs/figures/*.svg
//! ```
//!
//! `cargo run -p figures` in `bench/` writes the figures; its test fails if the checked-in ones
//! differ from what the reports give. To use a newer report, name it in the list below.

mod predicted;
mod report;
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::Report;

/// The report on Tamarack beside other stores.
const BESIDE: &str = "2026-11-22-beside-intel-xeon.md";
/// The report on Garnering and leveling at sixteen sizes.
const GARNERING: &str = "2026-11-22-garnering-intel-xeon.md";
/// The report on MOOSE and other policies on ten workloads.
const MOOSE: &str = "2026-11-22-moose-intel-xeon.md";

fn main() {
    for (path, text) in figures() {
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{}", path.display());
    }
}

fn figures() -> [(PathBuf, String); 2] {
    let read = |name: &str| {
        let path = root().join("bench/results").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Report::new(name, text)
    };
    let figure = |name: &str| root().join("docs/figures").join(name);
    [
        (figure("throughput.svg"), throughput::draw(&read(BESIDE))),
        (figure("predicted.svg"), predicted::draw(&read(GARNERING), &read(MOOSE))),
    ]
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("bench/figures stands two levels below the root")
}

/// The checked-in figures are those of the checked-in reports.
#[test]
fn figures_are_up_to_date() {
    for (path, text) in figures() {
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "{}: run `cargo run -p figures` in bench/", path.display());
    }
}
