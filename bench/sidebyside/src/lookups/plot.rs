//! Plots of false positives and throughput over levels or runs, all filters of equal memory in the
//! same panels. They are written beside the report, as SVG and as PNG.

use std::io;
use std::path::Path;

use figures::svg::{Anchor, LogAxis, Svg, label};

use super::plan::{FilterKind, Group, Workload};
use super::summary::{Cell, Figure, cells};
use super::tree::TreeFacts;
use super::{FilterFacts, Results};
use crate::plan::Reads;
use crate::table::count;
use crate::writes::plot::{Axis, legend, write_image};

/// A plot, as its report refers to it.
pub struct Plot {
    pub group: Group,
    pub chucky_bits: f64,
    /// Of the SVG file.
    pub file_name: String,
    svg: String,
}

impl Plot {
    /// Writes the SVG file to `dir`, and a PNG file of the same name if that is compiled in and can
    /// be made.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write_image(&dir.join(&self.file_name), &self.svg, "lookups")
    }
}

/// One plot for each group of trees and each size of Chucky. `stem` is the report's name without
/// its extension. A group of one tree has none: there is nothing to follow.
pub fn plots(results: &Results, stem: &str) -> Vec<Plot> {
    let mut plots = Vec::new();
    for group in Group::ALL {
        let trees = of_group(results, group);
        for chucky_bits in results.chucky_bits.iter().copied() {
            let Some(svg) = draw(results, group, &trees, chucky_bits) else { continue };
            let file_name = format!("{stem}-{}-{}.svg", group.name(), chucky_bits.to_string().replace('.', "-"));
            plots.push(Plot { group, chucky_bits, file_name, svg });
        }
    }
    plots
}

/// Trees of a group, small to large.
pub fn of_group(results: &Results, group: Group) -> Vec<&TreeFacts> {
    let mut trees: Vec<&TreeFacts> = results.trees.iter().filter(|tree| tree.group == group.name()).collect();
    trees.sort_by_key(|tree| tree.size);
    trees
}

/// One panel.
struct Panel {
    title: &'static str,
    unit: &'static str,
    figure: Figure,
}

impl Panel {
    /// False positives differ by powers of ten.
    fn is_logarithmic(&self) -> bool {
        matches!(self.figure, Figure::FalsePositives(_))
    }
}

const PANELS: [Panel; 6] = [
    Panel {
        title: "False positives, absent keys",
        unit: "runs searched for each lookup",
        figure: Figure::FalsePositives(Workload::Absent),
    },
    Panel {
        title: "Gets of absent keys, cached",
        unit: "gets/s",
        figure: Figure::Throughput(Reads::Cached, Workload::Absent),
    },
    Panel {
        title: "Gets of absent keys, direct I/O",
        unit: "gets/s",
        figure: Figure::Throughput(Reads::Direct, Workload::Absent),
    },
    Panel {
        title: "False positives, present keys",
        unit: "runs searched for each lookup",
        figure: Figure::FalsePositives(Workload::Uniform),
    },
    Panel {
        title: "Gets of present keys, uniform, cached",
        unit: "gets/s",
        figure: Figure::Throughput(Reads::Cached, Workload::Uniform),
    },
    Panel {
        title: "Gets of present keys, Zipfian, cached",
        unit: "gets/s",
        figure: Figure::Throughput(Reads::Cached, Workload::Zipfian),
    },
];

/// One width of all panels, and where they are.
const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 72.0;
const TOP: f64 = 112.0;
const ACROSS: f64 = WIDTH + 86.0;
const DOWN: f64 = HEIGHT + 78.0;
const COLUMNS: usize = 3;

/// A filter in a plot: its figures by tree.
struct Curve<'a> {
    filter: &'a str,
    /// Of its colour and mark, and of its dashes.
    series: usize,
    dashes: usize,
    /// The size of the tree, and the filter on it.
    cells: Vec<(u64, Cell<'a>)>,
}

/// `None` if there are fewer than two trees with filters.
fn draw(results: &Results, group: Group, trees: &[&TreeFacts], chucky_bits: f64) -> Option<String> {
    let curves = curves(results, trees, chucky_bits);
    let sizes: Vec<u64> = trees.iter().map(|tree| tree.size).collect();
    if sizes.len() < 2 || curves.is_empty() {
        return None;
    }
    let mut svg = Svg::new(LEFT + ACROSS * (COLUMNS - 1) as f64 + WIDTH + 24.0, TOP + DOWN + HEIGHT + 78.0);
    let title = format!(
        "{}: {} entries of {} + {} bytes, {}",
        group.title().replace('`', ""),
        count(results.entries as f64),
        results.key_bytes,
        results.value_bytes,
        shown_bits(results, trees, chucky_bits)
    );
    svg.text(16.0, 30.0, Anchor::Start, "title", &title);
    let names = curves.iter().map(|curve| (curve.class(), curve.series, curve.filter));
    legend(&mut svg, names, 3.5, NOTE);
    for (number, panel) in PANELS.iter().enumerate() {
        let (left, top) = (LEFT + ACROSS * (number % COLUMNS) as f64, TOP + DOWN * (number / COLUMNS) as f64);
        panel.draw(&mut svg, (left, top), &Across::new(group, &sizes, left), &curves);
    }
    let rounds = match results.circumstances.rounds {
        1 => "One round".to_owned(),
        rounds => format!("Throughput: medians of {rounds} rounds; lines at a point: the slowest and the fastest one"),
    };
    let machine = results.circumstances.machine.split(", ").take(2).collect::<Vec<_>>().join(", ");
    svg.text(16.0, TOP + DOWN + HEIGHT + 62.0, Anchor::Start, "note", &format!("{rounds}. {machine}."));
    Some(svg.finish(&title))
}

/// The memory of filters, which differs a little from tree to tree.
fn shown_bits(results: &Results, trees: &[&TreeFacts], chucky_bits: f64) -> String {
    let is_shown = |facts: &&FilterFacts| {
        facts.chucky_bits == chucky_bits
            && facts.filter == FilterKind::Chucky.name()
            && trees.iter().any(|tree| tree.name == facts.tree)
    };
    let bits = results.filters.iter().filter(is_shown).map(|facts| facts.measure.bits);
    let (least, greatest) = bits.fold((f64::INFINITY, 0.0), |(a, b), bits| (f64::min(a, bits), f64::max(b, bits)));
    if greatest - least < 0.05 {
        format!("filters of {greatest:.1} bits")
    } else {
        format!("filters of {least:.1} to {greatest:.1} bits")
    }
}

fn curves<'a>(results: &'a Results, trees: &[&'a TreeFacts], chucky_bits: f64) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = FilterKind::ALL
        .into_iter()
        .map(|kind| {
            let (series, dashes) = style(kind);
            Curve { filter: kind.name(), series, dashes, cells: Vec::new() }
        })
        .collect();
    for tree in trees {
        for cell in cells(results, tree, chucky_bits) {
            if let Some(curve) = curves.iter_mut().find(|curve| curve.filter == cell.facts.filter) {
                curve.cells.push((tree.size, cell));
            }
        }
    }
    curves.retain(|curve| !curve.cells.is_empty());
    curves
}

/// Kinds have colours; a uniform allocation has dashes.
fn style(kind: FilterKind) -> (usize, usize) {
    match kind {
        FilterKind::Chucky => (0, 0),
        FilterKind::Bloom => (1, 1),
        FilterKind::BloomMonkey => (1, 0),
        FilterKind::Blocked => (2, 1),
        FilterKind::BlockedMonkey => (2, 0),
        FilterKind::Elastic => (3, 0),
    }
}

impl Curve<'_> {
    fn class(&self) -> String {
        format!("l{} d{}", self.series, self.dashes)
    }

    /// Size of the tree and figure, of the trees that have both; with the least and the greatest of
    /// the rounds.
    fn points(&self, figure: Figure) -> Vec<(u64, f64, (f64, f64))> {
        let point = |(size, cell): &(u64, Cell<'_>)| {
            let value = cell.figure(figure)?;
            let spread = match figure {
                Figure::FalsePositives(_) => (value, value),
                Figure::Throughput(reads, workload) => {
                    cell.rates(reads, workload).map(|rates| (rates.least, rates.greatest))?
                }
            };
            Some((*size, value, spread))
        };
        self.cells.iter().filter_map(point).collect()
    }
}

impl Panel {
    fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), across: &Across, curves: &[Curve<'_>]) {
        let all: Vec<_> = curves.iter().map(|curve| (curve, self.points(curve))).collect();
        let values = || all.iter().flat_map(|(_, points)| points).flat_map(|point| [point.1, point.2.0, point.2.1]);
        svg.text(left, top - 12.0, Anchor::Start, "strong", self.title);
        svg.upward_text(left - 54.0, top + HEIGHT / 2.0, self.unit);
        let up = match self.is_logarithmic() {
            true if values().next().is_none() => return,
            true => Up::Logarithmic(LogAxis::new(values(), top + HEIGHT, -HEIGHT)),
            false => Up::Linear(Axis::new(values().fold(0.0, f64::max), 0.0, top + HEIGHT, -HEIGHT)),
        };
        for tick in up.ticks() {
            svg.line((left, up.place(tick)), (left + WIDTH, up.place(tick)), "grid");
            svg.text(left - 8.0, up.place(tick) + 4.0, Anchor::End, "note", &label_of(tick));
        }
        for size in &across.sizes {
            let x = across.place(*size);
            svg.line((x, top + HEIGHT), (x, top + HEIGHT + 4.0), "axis");
            svg.text(x, top + HEIGHT + 18.0, Anchor::Middle, "note", &size.to_string());
        }
        svg.line((left, top + HEIGHT), (left + WIDTH, top + HEIGHT), "axis");
        svg.text(left + WIDTH / 2.0, top + HEIGHT + 36.0, Anchor::Middle, "note", across.group.unit());
        // Chucky, the first, lies on top.
        for (curve, points) in all.iter().rev().filter(|(_, points)| !points.is_empty()) {
            let placed: Vec<_> =
                points.iter().map(|(size, value, _)| (across.place(*size), up.place(*value))).collect();
            svg.curve(&placed, &curve.class());
            for ((x, y), (_, _, (least, greatest))) in placed.iter().zip(points) {
                svg.mark(curve.series, *x, *y, 3.5);
                if greatest > least {
                    svg.curve(&[(*x, up.place(*least)), (*x, up.place(*greatest))], &format!("l{}", curve.series));
                }
            }
        }
    }

    /// The points of a curve that can be shown: zero has no place on a logarithmic axis.
    fn points(&self, curve: &Curve<'_>) -> Vec<(u64, f64, (f64, f64))> {
        let mut points = curve.points(self.figure);
        points.retain(|point| !self.is_logarithmic() || point.1 > 0.0);
        points
    }
}

/// Small powers of ten as such, and other numbers as they are.
fn label_of(tick: f64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let power = (-tick.log10()).round() as usize;
    if tick > 0.0 && (3..10).contains(&power) { format!("10⁻{}", DIGITS[power]) } else { label(tick) }
}

/// An axis upwards.
enum Up {
    Linear(Axis),
    Logarithmic(LogAxis),
}

impl Up {
    fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear(axis) => axis.place(value),
            Self::Logarithmic(axis) => axis.place(value),
        }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear(axis) => axis.ticks().collect(),
            Self::Logarithmic(axis) => axis.ticks().collect(),
        }
    }
}

/// The axis of trees: levels linear, runs logarithmic, with a tick for each tree.
struct Across {
    group: Group,
    sizes: Vec<u64>,
    left: f64,
}

/// Free space on both sides of an axis of trees.
const INSET: f64 = 16.0;

impl Across {
    fn new(group: Group, sizes: &[u64], left: f64) -> Self {
        Self { group, sizes: sizes.to_vec(), left }
    }

    fn place(&self, size: u64) -> f64 {
        let scaled = |size: u64| match self.group {
            Group::Leveling | Group::Tiering => size as f64,
            Group::Runs => (size as f64).ln(),
        };
        let (first, last) = (scaled(self.sizes[0]), scaled(self.sizes[self.sizes.len() - 1]));
        self.left + INSET + (scaled(size) - first) / (last - first).max(1e-9) * (WIDTH - 2.0 * INSET)
    }
}

const NOTE: &str =
    "Filters of a tree have equal memory. monkey: the allocation that has the fewest false positives of absent keys.";

#[cfg(test)]
mod tests {
    use super::super::summary::tests as summary_tests;
    use super::*;

    /// A group of several trees has a plot for each size of Chucky, with a curve for each filter in
    /// each panel and in the legend.
    #[test]
    fn groups_have_plots() {
        let results = summary_tests::results(2);
        let plots = plots(&results, "report");
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].file_name, "report-runs-14-2.svg");
        let (legend, curves, spreads) = (2, 6 * 2, 4 * 2 * 3);
        assert_eq!(plots[0].svg.matches("<polyline").count(), legend + curves + spreads);
    }

    /// Ticks from a thousandth on are powers of ten.
    #[test]
    fn small_ticks_are_powers() {
        assert_eq!([1.0, 0.01, 0.001, 1e-5, 0.0, 2e6].map(label_of), ["1", "0.01", "10⁻³", "10⁻⁵", "0", "2 M"]);
    }

    /// Runs are on a logarithmic axis, levels on a linear one.
    #[test]
    fn trees_are_placed() {
        let runs = Across::new(Group::Runs, &[1, 10, 100], 0.0);
        assert!((runs.place(10) - WIDTH / 2.0).abs() < 1e-9);
        let levels = Across::new(Group::Leveling, &[3, 4, 7], 0.0);
        assert!((levels.place(5) - WIDTH / 2.0).abs() < 1e-9);
    }
}
