//! Measured workloads as a table, and as JSON.

use serde_json::{Map, Value};

use super::json;
use super::lookups::show_ns;
use super::table::{grouped, table};
use crate::size::show_seconds;
use crate::workloads::measure::{Measured, Rate};

/// A row for each, and one for a writer beside it.
pub(crate) fn workloads(all: &[Measured]) -> String {
    let heading = ["", "ops/s", "MB/s", "p50", "p99", "p99.9", "needed", "predicted", "read", "settled in"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for measured in all {
        let blocks = [measured.blocks_needed, measured.blocks_predicted, measured.blocks_read];
        let settling = measured.settling.map(|time| show_seconds(time.as_secs_f64()));
        let blocks = blocks.map(|number| number.map(show_number));
        let rest = blocks.into_iter().chain([settling]).map(Option::unwrap_or_default);
        rows.push(rate(measured.name, &measured.clients).into_iter().chain(rest).collect());
        rows.extend(measured.writer.as_ref().map(|writer| rate("  its writer", writer).to_vec()));
    }
    table(&rows)
}

/// Says what the columns mean.
pub(crate) const LEGEND: &str = "\
needed, predicted, read: blocks for each operation: those that lookups looked into, as many as
  models say of this tree, and those that came from storage because the cache lacked them";

fn rate(name: &str, rate: &Rate) -> [String; 6] {
    let [half, most, nearly_all] = rate.within_ns.map(show_ns);
    let megabytes = rate.bytes_per_second() / 1e6;
    [
        name.to_owned(),
        grouped(rate.operations_per_second().round() as u64),
        match megabytes {
            // Nothing was found.
            0.0 => String::new(),
            m if m < 99.95 => format!("{m:.1}"),
            m => grouped(m.round() as u64),
        },
        half,
        most,
        nearly_all,
    ]
}

/// A number of blocks: three digits behind the point, fewer for large ones.
fn show_number(blocks: f64) -> String {
    match blocks {
        b if b < 9.9995 => format!("{b:.3}"),
        b if b < 99.95 => format!("{b:.1}"),
        b => format!("{b:.0}"),
    }
}

/// The same for programs.
pub(crate) fn for_programs(measured: &Measured) -> Map<String, Value> {
    let members = json::object([
        ("workload", measured.name.into()),
        ("blocks_needed_per_operation", measured.blocks_needed.into()),
        ("blocks_predicted_per_operation", measured.blocks_predicted.into()),
        ("blocks_read_per_operation", measured.blocks_read.into()),
        ("settling_seconds", measured.settling.map(|time| time.as_secs_f64()).into()),
        ("write_amplification", measured.write_amplification.into()),
        ("writer", measured.writer.as_ref().map(|writer| Value::Object(rate_for_programs(writer))).into()),
    ]);
    rate_for_programs(&measured.clients).into_iter().chain(members).collect()
}

fn rate_for_programs(rate: &Rate) -> Map<String, Value> {
    let [p50, p99, p999] = rate.within_ns;
    json::object([
        ("operations", rate.operations.into()),
        ("seconds", rate.seconds.into()),
        ("operations_per_second", rate.operations_per_second().into()),
        ("bytes", rate.bytes.into()),
        ("bytes_per_second", rate.bytes_per_second().into()),
        ("lookups", rate.lookups.into()),
        ("found", rate.found.into()),
        ("p50_ns", p50.into()),
        ("p99_ns", p99.into()),
        ("p999_ns", p999.into()),
    ])
}
