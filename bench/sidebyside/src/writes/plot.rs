//! Plots of the samples of a row: puts per second, space, sorted runs and compaction debt over
//! time, all engines in the same panels. They are written beside the report, as SVG and as PNG.

use std::fs;
use std::io;
use std::path::Path;

use common::numbers::mib;
use figures::svg::{Anchor, Svg, label};

use super::sample::Sample;
use super::series::Point;
use super::{DatabaseFacts, Results};
use crate::stores::MEMTABLES;
use crate::table::count;

/// A plot, as its report refers to it.
pub struct Plot {
    pub database: String,
    pub row: String,
    /// Of the SVG file.
    pub file_name: String,
    svg: String,
}

/// The plots of all rows that have one. `stem` is the report's name without its extension.
pub fn plots(results: &Results, stem: &str) -> Vec<Plot> {
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for measured in &results.measured {
        let row = (measured.database.as_str(), measured.row.as_str());
        if is_plotted(row.1) && !rows.contains(&row) {
            rows.push(row);
        }
    }
    let plot = |(database, row): (&str, &str)| {
        let words: Vec<&str> = row.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let svg = draw(results, database, row)?;
        let file_name = format!("{stem}-{database}-{}.svg", words.join("-"));
        Some(Plot { database: database.to_owned(), row: row.to_owned(), file_name, svg })
    };
    rows.into_iter().filter_map(plot).collect()
}

/// The load by one thread, the burst, and the longest overwrite.
fn is_plotted(row: &str) -> bool {
    row == "load" || row.starts_with("burst") || row.ends_with("x data")
}

impl Plot {
    /// Writes the SVG file to `dir`, and a PNG file of the same name if that is compiled in and can
    /// be made.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write_image(&dir.join(&self.file_name), &self.svg, "writes")
    }
}

/// Writes an SVG file, and a PNG file beside it if that is compiled in and can be made. `program`
/// says if it cannot.
pub(crate) fn write_image(path: &Path, svg: &str, program: &str) -> io::Result<()> {
    fs::write(path, svg)?;
    #[cfg(feature = "png")]
    match super::png::of(svg) {
        Ok(png) => fs::write(path.with_extension("png"), png)?,
        Err(error) => eprintln!("{program}: {} has no PNG: {error}", path.display()),
    }
    #[cfg(not(feature = "png"))]
    let _ = program;
    Ok(())
}

/// One panel: what it shows of a point, `None` if the engine does not tell it.
struct Panel {
    title: &'static str,
    unit: &'static str,
    value: fn(&Point, &DatabaseFacts) -> Option<f64>,
    /// Parts of the time, and what stands for the points within the same one.
    parts: f64,
    sum_up: fn(&[f64]) -> f64,
    /// The least step between two ticks.
    least_step: f64,
    /// Ends with the last put.
    only_puts: bool,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Puts per second",
        unit: "puts/s",
        value: |point, _| Some(point.puts_per_s),
        parts: 40.0,
        sum_up: mean,
        least_step: 0.0,
        only_puts: true,
    },
    Panel {
        title: "Space of files, WAL included",
        unit: "sizes of the data",
        value: |point, database| Some(point.space_bytes as f64 / database.bytes as f64),
        parts: 100.0,
        sum_up: greatest,
        least_step: 0.0,
        only_puts: false,
    },
    Panel {
        title: "Sorted runs",
        unit: "runs",
        value: |point, _| Some(point.runs? as f64),
        parts: 100.0,
        sum_up: greatest,
        least_step: 1.0,
        only_puts: false,
    },
    Panel {
        title: "Compaction debt",
        unit: "MiB",
        value: |point, _| Some(mib(point.debt_bytes?)),
        parts: 100.0,
        sum_up: greatest,
        least_step: 0.0,
        only_puts: false,
    },
];

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// An engine in a plot.
struct Curve<'a> {
    engine: &'a str,
    /// Of its colour and mark, and of its dashes.
    series: usize,
    dashes: usize,
    sample: &'a Sample,
}

/// One width of all panels, and where they are.
const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 72.0;
const TOP: f64 = 112.0;
const ACROSS: f64 = WIDTH + 86.0;
const DOWN: f64 = HEIGHT + 74.0;

/// The samples of the first round. `None` if there are none.
fn draw(results: &Results, database: &str, row: &str) -> Option<String> {
    let facts = results.databases.iter().find(|facts| facts.name == database)?;
    let curves = curves(results, database, row);
    let seconds = curves.iter().map(|curve| curve.sample.settled_s).fold(0.0, f64::max);
    if seconds <= 0.0 {
        return None;
    }
    let mut svg = Svg::new(LEFT + ACROSS + WIDTH + 24.0, TOP + DOWN + HEIGHT + 78.0);
    let (entries, values) = (count(facts.entries as f64), count(facts.value_bytes as f64));
    let (keys, size) = (facts.key_bytes, count(mib(facts.bytes)));
    let title = format!("{database}, {row}: {entries} entries of {keys} + {values} bytes, {size} MiB");
    svg.text(16.0, 30.0, Anchor::Start, "title", &title);
    let names = curves.iter().map(|curve| (curve.class(), curve.series, curve.engine));
    legend(&mut svg, names, 4.0, NOTE);
    for (number, panel) in PANELS.iter().enumerate() {
        let (left, top) = (LEFT + ACROSS * (number % 2) as f64, TOP + DOWN * (number / 2) as f64);
        panel.draw(&mut svg, (left, top), seconds, &curves, facts);
    }
    let (memtable, cache) = (count(results.memtable_bytes as f64 / 1024.0), count(mib(results.cache_bytes)));
    let note = format!(
        "{MEMTABLES} memtables of {memtable} KiB where they can be set, block cache of {cache} MiB, compression {}. Round 1 of {}; {}.",
        results.compression,
        results.circumstances.rounds,
        results.circumstances.machine.split(", ").take(2).collect::<Vec<_>>().join(", ")
    );
    svg.text(16.0, TOP + DOWN + HEIGHT + 62.0, Anchor::Start, "note", &note);
    Some(svg.finish(&title))
}

/// Each engine's first sample of the row. Variants of an engine share its colour.
fn curves<'a>(results: &'a Results, database: &str, row: &str) -> Vec<Curve<'a>> {
    const COLOURS: [&str; 4] = ["tamarack", "rocksdb", "fjall", "leveldb"];
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for facts in &results.engines {
        let engine = facts.name.as_str();
        let is_this = |measured: &&super::Measured| {
            measured.database == database && measured.row == row && measured.engine == engine
        };
        let Some(measured) = results.measured.iter().find(is_this) else { continue };
        let series = COLOURS.iter().position(|name| engine.starts_with(name)).unwrap_or(0);
        let dashes = curves.iter().filter(|curve| curve.series == series).count();
        curves.push(Curve { engine, series, dashes, sample: &measured.sample });
    }
    curves
}

impl Curve<'_> {
    fn class(&self) -> String {
        format!("l{} d{}", self.series, self.dashes.min(3))
    }

    /// Time and value, of the last of the points in each part of `seconds`.
    fn points(&self, panel: &Panel, seconds: f64, facts: &DatabaseFacts) -> Vec<(f64, f64)> {
        let ends = if panel.only_puts { self.sample.client_s } else { self.sample.settled_s };
        // Some engines have settled before it is sure that they have.
        let points = self.sample.series.iter().filter(|point| point.at_s <= ends);
        // The first point is the begin, before any put.
        let points = points.skip(usize::from(panel.only_puts));
        let points: Vec<_> = points.filter_map(|point| Some((point.at_s, (panel.value)(point, facts)?))).collect();
        let part = |point: &(f64, f64)| (point.0 / seconds * panel.parts) as u32;
        let sum_up = |group: &[(f64, f64)]| {
            let values: Vec<f64> = group.iter().map(|point| point.1).collect();
            (group[group.len() - 1].0, (panel.sum_up)(&values))
        };
        points.chunk_by(|a, b| part(a) == part(b)).map(sum_up).collect()
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), seconds: f64, curves: &[Curve<'_>], facts: &DatabaseFacts) {
        let all: Vec<_> = curves.iter().map(|curve| (curve, curve.points(self, seconds, facts))).collect();
        let untold: Vec<&str> =
            all.iter().filter(|(_, points)| points.is_empty()).map(|(curve, _)| curve.engine).collect();
        let most = all.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(0.0, f64::max);
        let (across, up) =
            (Axis::new(seconds, 0.0, left, WIDTH), Axis::new(most, self.least_step, top + HEIGHT, -HEIGHT));
        svg.text(left, top - 12.0, Anchor::Start, "strong", self.title);
        if !untold.is_empty() {
            svg.text(left + WIDTH, top - 12.0, Anchor::End, "note", &format!("not told by {}", untold.join(", ")));
        }
        for tick in up.ticks() {
            svg.line((left, up.place(tick)), (left + WIDTH, up.place(tick)), "grid");
            svg.text(left - 8.0, up.place(tick) + 4.0, Anchor::End, "note", &label(tick));
        }
        for tick in across.ticks() {
            svg.line((across.place(tick), top + HEIGHT), (across.place(tick), top + HEIGHT + 4.0), "axis");
            svg.text(across.place(tick), top + HEIGHT + 18.0, Anchor::Middle, "note", &label(tick));
        }
        svg.line((left, top + HEIGHT), (left + WIDTH, top + HEIGHT), "axis");
        svg.text(left + WIDTH / 2.0, top + HEIGHT + 36.0, Anchor::Middle, "note", "seconds since the row began");
        svg.upward_text(left - 54.0, top + HEIGHT / 2.0, self.unit);
        // Tamarack, the first, lies on top.
        for (curve, points) in all.iter().rev().filter(|(_, points)| !points.is_empty()) {
            let placed: Vec<_> = points.iter().map(|(at_s, value)| (across.place(*at_s), up.place(*value))).collect();
            svg.curve(&placed, &curve.class());
            let ended = points.iter().rposition(|(at_s, _)| *at_s <= curve.sample.client_s);
            if let Some((x, y)) = ended.and_then(|last| placed.get(last)) {
                svg.mark(curve.series, *x, *y, 4.0);
            }
        }
    }
}

const NOTE: &str = "A mark: the last put returned. What follows is the time until memtables are flushed and no compaction is running or due.";

/// The names of curves, each with its class and series, beside their lines and marks; and a note.
pub(crate) fn legend<'a>(
    svg: &mut Svg,
    curves: impl Iterator<Item = (String, usize, &'a str)>,
    mark_size: f64,
    note: &str,
) {
    let mut x = 16.0;
    for (class, series, name) in curves {
        svg.curve(&[(x, 54.0), (x + 34.0, 54.0)], &class);
        svg.mark(series, x + 17.0, 54.0, mark_size);
        svg.text(x + 42.0, 58.5, Anchor::Start, "strong", name);
        x += 70.0 + 8.0 * name.len() as f64;
    }
    svg.text(16.0, 78.0, Anchor::Start, "note", note);
}

/// A linear axis from zero. Its length may be negative.
pub(crate) struct Axis {
    to: f64,
    step: f64,
    start: f64,
    length: f64,
}

impl Axis {
    /// Up to `greatest`, or to the tick above it if the length is negative: upward.
    pub(crate) fn new(greatest: f64, least_step: f64, start: f64, length: f64) -> Self {
        let rough = (greatest / 5.0).max(1e-9);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power).max(least_step);
        let to = if length < 0.0 { ((greatest / step).ceil() * step).max(step) } else { greatest };
        Self { to, step, start, length }
    }

    pub(crate) fn place(&self, value: f64) -> f64 {
        self.start + value / self.to * self.length
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (step, ticks) = (self.step, (self.to / self.step + 1e-6).floor() as u32);
        (0..=ticks).map(move |tick| f64::from(tick) * step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests as report_tests;
    use super::*;

    /// Ticks are round, at most six of them, and the axis ends at the last if it reads upward.
    #[test]
    fn axes_have_round_ticks() {
        let ticks = |greatest, least| Axis::new(greatest, least, 0.0, -1.0).ticks().collect::<Vec<_>>();
        assert_eq!(ticks(9.0, 0.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(300_000.0, 0.0), [0.0, 100_000.0, 200_000.0, 300_000.0]);
        assert_eq!(ticks(3.0, 1.0), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(0.0, 1.0), [0.0, 1.0]);
        assert_eq!(Axis::new(9.0, 0.0, 100.0, 90.0).place(4.5), 145.0);
    }

    /// Samples of one a second: the greatest number of runs in each tenth of 40 seconds, until
    /// settled, and puts per second only until the last put.
    #[test]
    fn points_are_summed_up_by_parts_of_the_time() {
        let sample = report_tests::sample(&[5; 20]);
        assert_eq!((sample.client_s, sample.settled_s), (20.0, 40.0));
        let curve = Curve { engine: "tamarack", series: 0, dashes: 0, sample: &sample };
        let results = report_tests::results(&["tamarack"], Vec::new());
        let [puts, _, runs, debt] = PANELS.map(|panel| Panel { parts: 10.0, ..panel });
        let points = |panel: &Panel| curve.points(panel, 40.0, &results.databases[0]);
        assert_eq!(points(&runs)[..2], [(3.0, 3.0), (7.0, 7.0)]);
        assert_eq!(points(&puts).last(), Some(&(20.0, 0.0)));
        assert_eq!(points(&debt), [], "not told");
    }

    /// Only some rows have a plot. It names the engines, and those that do not tell a figure.
    #[test]
    fn rows_have_plots() {
        let measured = |engine, row: &str| report_tests::measured(engine, row, 0, report_tests::sample(&[5; 4]));
        let measured = vec![measured("tamarack", "load"), measured("fjall", "load"), measured("fjall", "updates 98 %")];
        let plots = plots(&report_tests::results(&["tamarack", "fjall"], measured), "report");
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].file_name, "report-large-load.svg");
        assert!(plots[0].svg.contains("not told by tamarack, fjall"), "{}", plots[0].svg);
        assert_eq!(plots[0].svg.matches("<polyline").count(), 2 + 3 * 2, "the legend and three panels");
    }
}
