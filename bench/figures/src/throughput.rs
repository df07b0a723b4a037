//! Throughput beside RocksDB, fjall and redb: a row for each workload, a mark for each engine.
//!
//! The axis is logarithmic: workloads differ by a factor of a hundred, and bars from zero would
//! show nothing.

use crate::report::Report;
use figures::svg::{Anchor, LogAxis, Svg, label};

/// Engines in the order of their marks: the name in the figure, and its beginning in the report.
const ENGINES: [(&str, &str); 4] =
    [("Tamarack", "tamarack"), ("RocksDB", "rocksdb"), ("fjall", "fjall"), ("redb", "redb")];

/// Panels: the heading in the report, and what it means.
const PANELS: [(&str, &str); 2] = [
    ("small entries, leveled, cached", "All data in the block cache"),
    ("small entries, leveled, direct", "Direct I/O, small cache (a sixteenth of the data)"),
];

/// Workloads in the report, and how the figure calls them.
const WORKLOADS: [(&str, &str); 12] = [
    ("readrandom", "get, uniform"),
    ("readrandom zipfian, YCSB C", "get, Zipfian (YCSB C)"),
    ("readmissing", "get of absent keys"),
    ("seek, next 10", "seek and next 10"),
    ("seek, next 100", "seek and next 100"),
    ("YCSB A", "YCSB A: 50 % updates"),
    ("YCSB B", "YCSB B: 5 % updates"),
    ("YCSB D", "YCSB D: 5 % inserts"),
    ("YCSB E", "YCSB E: scans"),
    ("YCSB F", "YCSB F: read-modify-write"),
    ("overwrite", "overwrite"),
    ("overwrite, settled", "overwrite, until compacted"),
];

const THREADS: f64 = 1.0;
const ROW: f64 = 24.0;
const LEFT: f64 = 220.0;
const PLOT: f64 = 350.0;
const GAP: f64 = 96.0;
const TOP: f64 = 112.0;

/// Operations per second of each engine, and how many times as fast as RocksDB Tamarack is.
struct Rates {
    per_second: [f64; 4],
    to_rocksdb: f64,
}

/// The figure of the report.
pub(crate) fn draw(report: &Report) -> String {
    let panels = PANELS.map(|(heading, _)| rates(report, heading));
    let bottom = TOP + ROW * WORKLOADS.len() as f64;
    let mut svg = Svg::new(LEFT + 2.0 * PLOT + GAP + 96.0, bottom + 74.0);
    let title = "Throughput of Tamarack, RocksDB, fjall and redb, one thread";
    svg.text(16.0, 30.0, Anchor::Start, "title", title);
    legend(&mut svg);
    for (row, (_, name)) in WORKLOADS.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5);
        if row % 2 == 0 {
            svg.rectangle(8.0, y - ROW / 2.0, LEFT + 2.0 * PLOT + GAP + 80.0, ROW, "band");
        }
        svg.text(LEFT - 14.0, y + 4.5, Anchor::End, "", name);
    }
    for (panel, ((_, meaning), rates)) in PANELS.iter().zip(&panels).enumerate() {
        let left = LEFT + panel as f64 * (PLOT + GAP);
        let axis = LogAxis::new(rates.iter().flat_map(|rates| rates.per_second), left, PLOT);
        svg.text(left, TOP - 30.0, Anchor::Start, "strong", meaning);
        svg.text(left + PLOT + 8.0, TOP - 8.0, Anchor::Start, "note", "vs RocksDB");
        for tick in axis.ticks() {
            svg.line((axis.place(tick), TOP), (axis.place(tick), bottom), "grid");
            svg.text(axis.place(tick), bottom + 18.0, Anchor::Middle, "note", &label(tick));
        }
        svg.text(left + PLOT / 2.0, bottom + 37.0, Anchor::Middle, "note", "operations per second (logarithmic)");
        for (row, rates) in rates.iter().enumerate() {
            let y = TOP + ROW * (row as f64 + 0.5);
            let [least, greatest] =
                [f64::min, f64::max].map(|pick| rates.per_second.into_iter().reduce(pick).expect("four"));
            svg.line((axis.place(least), y), (axis.place(greatest), y), "axis");
            // Tamarack last, so that its mark lies on top.
            for (engine, rate) in rates.per_second.iter().enumerate().rev() {
                svg.mark(engine, axis.place(*rate), y, 4.6);
            }
            svg.text(left + PLOT + 8.0, y + 4.5, Anchor::Start, "", &format!("{:.2} ×", rates.to_rocksdb));
        }
    }
    let source = format!("Machine: {} Medians. Data: bench/results/{}", machine(report), report.name);
    svg.text(16.0, bottom + 62.0, Anchor::Start, "note", &source);
    svg.finish(title)
}

fn legend(svg: &mut Svg) {
    for (engine, (name, _)) in ENGINES.iter().enumerate() {
        let x = 24.0 + 110.0 * engine as f64;
        svg.mark(engine, x, 51.0, 5.0);
        svg.text(x + 12.0, 55.5, Anchor::Start, "strong", name);
    }
}

/// The machine without its kernel and mounts.
fn machine(report: &Report) -> String {
    let text = report.line("* Machine: ");
    let words: Vec<&str> = text.split(", ").take(2).collect();
    format!("{}.", words.join(", ").replace("(R)", ""))
}

/// The rates of each workload. Of RocksDB, the report has the better of its two caches.
fn rates(report: &Report, heading: &str) -> Vec<Rates> {
    let table = report.table(heading);
    let number = |workload: &str, engine: &str, column: &str| {
        let mut rows = table.rows().filter(|row| {
            row.text("workload") == workload
                && row.text("engine").starts_with(engine)
                && row.number("threads") == Some(THREADS)
        });
        let row = rows.next().unwrap_or_else(|| panic!("{}: no {workload} of {engine}", report.name));
        row.number(column).unwrap_or_else(|| panic!("{}: no {column} of {workload} of {engine}", report.name))
    };
    let rates = |(workload, _): &(&str, &str)| Rates {
        per_second: ENGINES.map(|(_, engine)| number(workload, engine, "ops/s")),
        to_rocksdb: number(workload, "rocksdb", "times"),
    };
    WORKLOADS.iter().map(rates).collect()
}
