//! One design as text: its shape, its costs, and the time that the workload takes.

use tamarack_model::design::{Cost, Priced};
use tamarack_model::prediction::Prediction;
use tamarack_model::simulate::Seen;

use super::full_speed::{FULL_SPEED_FLUSHES_MAX, FullSpeedCosts};
use crate::show::table::{grouped, significant, table};
use crate::size::show_bytes;

/// The shape, a line for each level.
pub(super) fn levels(priced: &Priced, entry_bytes: u64) -> String {
    let buffer = priced.shape.buffer();
    let heading = ["", "capacity", "entries", "ratio", "runs", "bits per entry", "FPR"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.push(vec!["memtable".to_owned(), show_bytes(buffer.0), grouped(buffer.0 / entry_bytes)]);
    for (number, level) in (1..).zip(&priced.levels) {
        rows.push(vec![
            format!("level {number}"),
            show_bytes(level.capacity_bytes.0),
            grouped(level.capacity_entries),
            format!("{:.2}", level.size_ratio),
            grouped(level.runs.into()),
            format!("{:.2}", level.bits_per_entry),
            significant(level.fpr),
        ]);
    }
    table(&rows)
}

/// The memory, a line for each cost, and what the workload takes.
pub(super) fn costs(
    priced: &Priced,
    (predicted, full_speed): (&Prediction, &FullSpeedCosts),
    seconds_per_op: f64,
) -> String {
    let Cost { zero_result_reads, existing_reads, range_seeks, update_writes, space_amplification, .. } = priced.cost;
    let filters = (priced.filter_bits / 8.0).ceil() as u64;
    let at_full_speed = |of: &dyn Fn(&Prediction) -> f64| match full_speed {
        FullSpeedCosts::Predicted(found) => significant(of(found)),
        FullSpeedCosts::WithoutWriters | FullSpeedCosts::TooManyFlushes => String::new(),
    };
    let over = |name: &str, of: &dyn Fn(&Prediction) -> Seen, full: f64, unit: &str| {
        let seen = of(predicted);
        let [mean, least, most, full] = [seen.mean(), seen.least, seen.most, full].map(significant);
        vec![name.to_owned(), mean, least, most, at_full_speed(&|found| of(found).mean()), full, unit.to_owned()]
    };
    let blank = String::new();
    let [written, full] = [predicted.write_amplification, update_writes].map(significant);
    let fast = at_full_speed(&|found| found.write_amplification);
    let rows = [
        ["", "mean", "least", "most", "full speed", "full tree", ""].map(str::to_owned).to_vec(),
        over("zero-result lookup", &|found| found.zero_result_reads, zero_result_reads, "block reads"),
        over("existing lookup", &|found| found.existing_reads, existing_reads, "block reads"),
        over("range seek", &|found| found.scan_reads[0], range_seeks, "block reads"),
        vec!["update".to_owned(), written, blank.clone(), blank, fast, full, "write amplification".to_owned()],
        over("space", &|found| found.space_amplification, space_amplification, "space amplification"),
    ];
    let flushes = match predicted.flushes {
        0 => "a tree at rest after its load".to_owned(),
        flushes => format!("means over {} flushes after the load", grouped(flushes)),
    };
    let memory = format!("{} of filters, {} of memtable", show_bytes(filters), show_bytes(priced.shape.buffer().0));
    let time = format!(
        "latency {} µs, throughput {} operations/s",
        significant(seconds_per_op * 1e6),
        grouped((1.0 / seconds_per_op) as u64)
    );
    let mut lines = vec![("memory", memory), ("predicted", flushes), ("workload", time)];
    let at_full_speed = match full_speed {
        FullSpeedCosts::Predicted(found) => {
            let rate = show_bytes(found.put_bytes_per_second as u64);
            Some(format!("a writer at full speed puts {rate} of entries a second"))
        }
        FullSpeedCosts::TooManyFlushes => Some(format!(
            "not predicted for more than {} flushes: larger memtables (--buffer) have fewer",
            grouped(FULL_SPEED_FLUSHES_MAX)
        )),
        FullSpeedCosts::WithoutWriters => None,
    };
    lines.extend(at_full_speed.map(|text| ("full speed", text)));
    let lines: Vec<String> = lines.into_iter().map(|(name, value)| format!("{name:<20}{value}")).collect();
    format!("{}\n\n{}", table(&rows), lines.join("\n"))
}
