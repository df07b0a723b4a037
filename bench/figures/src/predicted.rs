//! Predicted and measured cost: every figure of the reports as a point, and how far it is off.

use crate::report::Report;
use figures::svg::{Anchor, LogAxis, Svg, label};

/// One cost of one operation under one policy, workload and size.
struct Point {
    series: usize,
    predicted: f64,
    measured: f64,
    error_percent: f64,
    name: String,
}

/// What the series are, in the order of their marks.
const SERIES: [&str; 4] = [
    "point lookups: block reads",
    "seeks and scans: block reads",
    "mixed workloads: block reads",
    "compaction: blocks written",
];

const PLOT: f64 = 360.0;
const LEFT: f64 = 70.0;
const SECOND: f64 = LEFT + PLOT + 84.0;
const TOP: f64 = 128.0;
const BOTTOM: f64 = TOP + PLOT;
/// The error axis goes from minus to plus this.
const PERCENT: f64 = 30.0;
/// Half of the longest name of an error.
const LABEL_HALF: f64 = 130.0;
/// Errors from here on are named.
const NAMED_PERCENT: f64 = 4.0;

/// The figure of both reports.
pub(crate) fn draw(garnering: &Report, moose: &Report) -> String {
    let points: Vec<Point> = sizes(garnering).into_iter().chain(workloads(moose)).collect();
    let title = "Predicted and measured cost per operation";
    let mut svg = Svg::new(SECOND + PLOT + 30.0, BOTTOM + 82.0);
    svg.text(16.0, 30.0, Anchor::Start, "title", title);
    legend(&mut svg, &points);
    let values = || points.iter().flat_map(|point| [point.predicted, point.measured]);
    let (x, y) = (LogAxis::new(values(), LEFT, PLOT), LogAxis::new(values(), BOTTOM, -PLOT));
    svg.text(LEFT, TOP - 14.0, Anchor::Start, "strong", "Measured against predicted");
    for tick in x.ticks() {
        svg.line((x.place(tick), TOP), (x.place(tick), BOTTOM), "grid");
        svg.line((LEFT, y.place(tick)), (LEFT + PLOT, y.place(tick)), "grid");
        svg.text(x.place(tick), BOTTOM + 18.0, Anchor::Middle, "note", &label(tick));
        svg.text(LEFT - 8.0, y.place(tick) + 4.0, Anchor::End, "note", &label(tick));
    }
    svg.line((LEFT, BOTTOM), (LEFT + PLOT, TOP), "axis");
    svg.text(LEFT + PLOT / 2.0, BOTTOM + 38.0, Anchor::Middle, "note", "predicted blocks per operation (logarithmic)");
    svg.upward_text(20.0, TOP + PLOT / 2.0, "measured blocks per operation (logarithmic)");
    for point in &points {
        svg.mark(point.series, x.place(point.predicted), y.place(point.measured), 3.4);
    }
    errors(&mut svg, &points);
    let source = format!("Data: bench/results/{}, {}", garnering.name, moose.name);
    svg.text(16.0, BOTTOM + 66.0, Anchor::Start, "note", &source);
    svg.finish(title)
}

fn errors(svg: &mut Svg, points: &[Point]) {
    let x = LogAxis::new(points.iter().flat_map(|point| [point.predicted, point.measured]), SECOND, PLOT);
    let y = |percent: f64| TOP + PLOT / 2.0 - percent / PERCENT * PLOT / 2.0;
    svg.text(SECOND, TOP - 14.0, Anchor::Start, "strong", "Error: measured / predicted − 1");
    for tick in x.ticks() {
        svg.line((x.place(tick), TOP), (x.place(tick), BOTTOM), "grid");
        svg.text(x.place(tick), BOTTOM + 18.0, Anchor::Middle, "note", &label(tick));
    }
    for percent in [-30.0, -20.0, -10.0, 0.0, 10.0, 20.0, 30.0] {
        let class = if percent == 0.0 { "axis" } else { "grid" };
        svg.line((SECOND, y(percent)), (SECOND + PLOT, y(percent)), class);
        svg.text(SECOND - 8.0, y(percent) + 4.0, Anchor::End, "note", &signed(percent, 0));
    }
    svg.text(
        SECOND + PLOT / 2.0,
        BOTTOM + 38.0,
        Anchor::Middle,
        "note",
        "predicted blocks per operation (logarithmic)",
    );
    for point in points {
        let (at, off) = (x.place(point.predicted), point.error_percent);
        assert!(off.abs() <= PERCENT, "{} is off by {off} %: make the axis longer", point.name);
        svg.mark(point.series, at, y(off), 3.4);
        if off.abs() >= NAMED_PERCENT {
            let label = format!("{}: {}", point.name, signed(off, 1));
            let at = at.clamp(SECOND + LABEL_HALF, SECOND + PLOT - LABEL_HALF);
            svg.text(at, y(off) + if off > 0.0 { -9.0 } else { 18.0 }, Anchor::Middle, "note", &label);
        }
    }
}

/// A percentage with its sign.
fn signed(percent: f64, decimals: usize) -> String {
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 0.0 => format!("−{:.decimals$} %", -p),
        p => format!("+{p:.decimals$} %"),
    }
}

fn legend(svg: &mut Svg, points: &[Point]) {
    for (series, name) in SERIES.iter().enumerate() {
        let (x, y) = (24.0 + 300.0 * (series % 2) as f64, 54.0 + 22.0 * (series / 2) as f64);
        let count = points.iter().filter(|point| point.series == series).count();
        svg.mark(series, x, y, 4.4);
        svg.text(x + 12.0, y + 4.5, Anchor::Start, "", &format!("{name} ({count} points)"));
    }
}

/// Garnering and leveling at each size: zero-result lookups, seeks, and seeks with ten more
/// entries.
fn sizes(report: &Report) -> Vec<Point> {
    let table = report.table("At each size");
    let operations = [("lookup", 0, 0), ("seek", 1, 1), ("with 10 more", 1, 2)];
    let of = |row: crate::report::Row<'_>| {
        operations.map(|(column, series, model)| {
            let predicted = row.nth_number("model", model).expect("a model");
            let measured = row.number(column).expect("blocks");
            let error_percent = (measured / predicted - 1.0) * 100.0;
            Point { series, predicted, measured, error_percent, name: format!("{column}, {}", row.text("policy")) }
        })
    };
    table.rows().flat_map(of).collect()
}

/// MOOSE and others on the paper's workloads: blocks read, and blocks that compactions write, if
/// any.
fn workloads(report: &Report) -> Vec<Point> {
    let table = report.table("Table 5, per operation");
    let of = |row: crate::report::Row<'_>| {
        let costs = [("blocks", 2, 0), ("merged", 3, 1)].map(|(column, series, nth)| {
            let (measured, predicted) = (row.number(column)?, row.nth_number("model", nth)?);
            // The report's own: the figures beside it are rounded.
            let error_percent = row.nth("off", nth).trim_end_matches(" %").parse().ok()?;
            let what = if series == 3 { "compaction" } else { "reads" };
            let name = format!("{what}, {}, workload {}", row.text("policy"), row.text(""));
            (measured > 0.0 && predicted > 0.0).then_some(Point { series, predicted, measured, error_percent, name })
        });
        costs.into_iter().flatten()
    };
    table.rows().flat_map(of).collect()
}
