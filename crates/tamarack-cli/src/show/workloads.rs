//! Measured workloads as tables and as JSON.

use serde_json::{Map, Value};
use tamarack_env::histogram::Histogram;

use super::json;
use super::lookups::show_ns;
use super::table::{grouped, table};
use crate::size::show_seconds;
use crate::workloads::measure::{Measured, Rate};

/// Table with a row per workload, per kind of operation, and for a concurrent writer.
pub(crate) fn workloads(all: &[Measured]) -> String {
    let heading = ["workload", "ops/s", "MB/s", "p50", "p99", "p99.9", "max", "needed", "predicted", "read"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for measured in all {
        let blocks = [measured.blocks_needed, measured.blocks_predicted, measured.blocks_read];
        let blocks = blocks.map(|number| number.map(show_number).unwrap_or_default());
        rows.push(rate(measured.name, &measured.clients).into_iter().chain(blocks).collect());
        for (kind, latency) in &measured.clients.kinds {
            rows.push(row(&format!("  {kind}"), latency, measured.clients.seconds, None).to_vec());
        }
        rows.extend(measured.writer.as_ref().map(|writer| rate("  concurrent writer", writer).to_vec()));
    }
    table(&rows)
}

/// Table with a row per workload that wrote: amplification, measured and predicted.
pub(crate) fn writes(all: &[Measured]) -> Option<String> {
    let heading = ["workload", "write amp", "predicted", "space amp", "delays", "settled in", "levels", "runs"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for measured in all {
        let Some(settling) = measured.settling else { continue };
        let factor = |number: Option<f64>| number.map(|number| format!("{number:.2}")).unwrap_or_default();
        let (levels, runs) = levels_and_runs(measured);
        rows.push(vec![
            measured.name.to_owned(),
            factor(measured.write_amplification),
            factor(measured.write_amplification_predicted),
            factor(measured.space_amplification),
            show_seconds(measured.stall_seconds),
            show_seconds(settling.as_secs_f64()),
            levels.to_string(),
            runs.to_string(),
        ]);
    }
    (rows.len() > 1).then(|| table(&rows))
}

/// Explains the columns of [`workloads`] mean.
pub(crate) const LEGEND: &str = "\
p50 to max: latency
needed, predicted, read: blocks per operation that were searched, that the models predict for
  this tree, and that were read from storage because they were not cached";

/// Explains the columns of [`writes`] mean.
pub(crate) const LEGEND_OF_WRITES: &str = "\
write amp, predicted: write amplification (bytes written to levels / bytes flushed)
space amp: bytes of SSTables / bytes of live entries
delays: write throttling and write stalls, summed over writers";

fn rate(name: &str, rate: &Rate) -> [String; 7] {
    row(name, &rate.latency, rate.seconds, Some(rate.bytes_per_second() / 1e6))
}

fn row(name: &str, latency: &Histogram, seconds: f64, megabytes: Option<f64>) -> [String; 7] {
    let [half, most, nearly_all] = latency.percentiles_ns().map(show_ns);
    [
        name.to_owned(),
        grouped((latency.samples() as f64 / seconds.max(f64::MIN_POSITIVE)).round() as u64),
        match megabytes {
            // Nothing was found.
            None | Some(0.0) => String::new(),
            Some(m) if m < 99.95 => format!("{m:.1}"),
            Some(m) => grouped(m.round() as u64),
        },
        half,
        most,
        nearly_all,
        show_ns(latency.longest_ns()),
    ]
}

/// A number of blocks with three decimals, fewer for large ones.
fn show_number(blocks: f64) -> String {
    match blocks {
        b if b < 9.9995 => format!("{b:.3}"),
        b if b < 99.95 => format!("{b:.1}"),
        b => format!("{b:.0}"),
    }
}

/// Levels down to the last with a run, and runs.
fn levels_and_runs(measured: &Measured) -> (usize, usize) {
    let levels = &measured.stats.levels;
    let last = levels.iter().rposition(|level| !level.runs.is_empty()).map_or(0, |index| index + 1);
    (last, levels.iter().map(|level| level.runs.len()).sum())
}

/// A measured workload as JSON.
pub(crate) fn for_programs(measured: &Measured) -> Map<String, Value> {
    let (levels, runs) = levels_and_runs(measured);
    let stats = &measured.stats;
    let total = |number: fn(&tamarack::RunStats) -> u64| -> u64 {
        stats.levels.iter().flat_map(|level| &level.runs).map(number).sum()
    };
    let (entries, filter_bits) = (total(|run| run.entries), total(|run| run.filter_bits));
    let tree = json::object([
        ("policy", stats.policy.as_str().into()),
        ("entries", entries.into()),
        ("live_bytes", stats.space.live_bytes.into()),
        ("stale_bytes", stats.space.stale_bytes.into()),
        ("pending_delete_bytes", stats.space.pending_delete_bytes.into()),
        ("wal_bytes", stats.wal_bytes.into()),
    ]);
    let members = json::object([
        ("blocks_needed_per_op", measured.blocks_needed.into()),
        ("block_reads_per_op", measured.blocks_read.into()),
        ("predicted_block_reads_per_op", measured.blocks_predicted.into()),
        ("false_positives_per_op", measured.false_positives.into()),
        ("write_amplification", measured.write_amplification.into()),
        ("predicted_write_amplification", measured.write_amplification_predicted.into()),
        ("space_amplification", measured.space_amplification.into()),
        ("stall_seconds", measured.stall_seconds.into()),
        ("settling_seconds", measured.settling.map(|time| time.as_secs_f64()).into()),
        ("levels", levels.into()),
        ("runs", runs.into()),
        ("filter_bits_per_entry", (entries > 0).then(|| filter_bits as f64 / entries as f64).into()),
        ("tree", Value::Object(tree)),
        ("writer", measured.writer.as_ref().map(|writer| Value::Object(rate_for_programs(writer))).into()),
    ]);
    let name = json::object([("workload", measured.name.into())]);
    name.into_iter().chain(rate_for_programs(&measured.clients)).chain(members).collect()
}

fn rate_for_programs(rate: &Rate) -> Map<String, Value> {
    let kind = |(kind, latency): &(&str, Histogram)| {
        Value::Object(json::object([
            ("operation", (*kind).into()),
            ("ops", latency.samples().into()),
            ("latency_us", latency_for_programs(latency)),
        ]))
    };
    json::object([
        ("ops", rate.latency.samples().into()),
        ("seconds", rate.seconds.into()),
        ("ops_per_s", rate.operations_per_second().into()),
        ("latency_us", latency_for_programs(&rate.latency)),
        ("operations", Value::Array(rate.kinds.iter().map(kind).collect())),
        ("bytes", rate.bytes.into()),
        ("bytes_per_s", rate.bytes_per_second().into()),
        ("lookups", rate.lookups.into()),
        ("found", rate.found.into()),
    ])
}

fn latency_for_programs(latency: &Histogram) -> Value {
    let micros = |ns: u64| Value::from(ns as f64 / 1000.0);
    let [p50, p99, p999] = latency.percentiles_ns().map(micros);
    Value::Object(json::object([("p50", p50), ("p99", p99), ("p999", p999), ("max", micros(latency.longest_ns()))]))
}
