//! A plot of measured against predicted figures: block reads, and all others.

use figures::svg::{Anchor, LogAxis, Svg, label};

use crate::costs::Figure;
use crate::predict::PREDICTIONS;
use crate::results::Results;

/// A panel: its title, its axes, and its series of points. Zipfian lookups have the mark of uniform
/// ones.
struct Panel {
    title: &'static str,
    axis: &'static str,
    series: [(&'static str, &'static [Figure]); 4],
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "Block reads",
        axis: "block reads per operation (logarithmic)",
        series: [
            ("zero-result lookups", &[Figure::ZeroResultReads]),
            ("lookups of existing keys", &[Figure::ExistingReads, Figure::ZipfianReads]),
            ("seeks", &[Figure::SeekReads]),
            ("scans of 10 entries", &[Figure::ScanReads]),
        ],
    },
    Panel {
        title: "Other figures",
        axis: "value (logarithmic)",
        series: [
            ("write amplification", &[Figure::WriteAmplification]),
            ("space amplification", &[Figure::SpaceAmplification]),
            ("sorted runs", &[Figure::Runs]),
            ("filter bits per entry", &[Figure::FilterBits]),
        ],
    },
];

const PLOT: f64 = 380.0;
const LEFT: f64 = 70.0;
const ACROSS: f64 = PLOT + 90.0;
const TOP: f64 = 128.0;
const BOTTOM: f64 = TOP + PLOT;
const NOTE: f64 = BOTTOM + 62.0;

/// The plot of a prediction.
pub fn draw(results: &Results<'_>, prediction: usize) -> String {
    let mut svg = Svg::new(LEFT + ACROSS + PLOT + 30.0, BOTTOM + 78.0);
    let title = format!("Costs of designs: measured, and predicted ({})", PREDICTIONS[prediction].0);
    svg.text(16.0, 30.0, Anchor::Start, "title", &title);
    for (number, panel) in PANELS.iter().enumerate() {
        panel.draw(&mut svg, LEFT + ACROSS * number as f64, &points(results, panel, prediction));
    }
    let note = format!("{} designs, {} cells of designs and workloads", results.designs.len(), results.cells.len());
    svg.text(16.0, NOTE, Anchor::Start, "note", &note);
    svg.finish(&title)
}

/// Series, predicted, measured. A logarithmic axis has no place for 0.
fn points(results: &Results<'_>, panel: &Panel, prediction: usize) -> Vec<(usize, f64, f64)> {
    let all = results.comparisons(prediction);
    let point = |comparison: &crate::accuracy::Comparison<(&crate::results::Cell<'_>, Figure)>| {
        let series = panel.series.iter().position(|(_, figures)| figures.contains(&comparison.place.1))?;
        let is_shown = comparison.measured > 0.0 && comparison.predicted > 0.0;
        is_shown.then_some((series, comparison.predicted, comparison.measured))
    };
    all.iter().filter_map(point).collect()
}

impl Panel {
    fn draw(&self, svg: &mut Svg, left: f64, points: &[(usize, f64, f64)]) {
        svg.text(left, TOP - 14.0, Anchor::Start, "strong", &format!("{}: measured against predicted", self.title));
        for (series, (name, _)) in self.series.iter().enumerate() {
            let (x, y) = (left + 190.0 * (series % 2) as f64, 58.0 + 22.0 * (series / 2) as f64);
            let count = points.iter().filter(|point| point.0 == series).count();
            svg.mark(series, x, y, 4.4);
            svg.text(x + 12.0, y + 4.5, Anchor::Start, "", &format!("{name} ({count})"));
        }
        if points.is_empty() {
            svg.text(left, TOP + 20.0, Anchor::Start, "note", "nothing to compare");
            return;
        }
        // Powers of ten alone would leave no length between them.
        let values = || points.iter().flat_map(|(_, x, y)| [*x, *y]).flat_map(|value| [0.99 * value, 1.01 * value]);
        let (x, y) = (LogAxis::new(values(), left, PLOT), LogAxis::new(values(), BOTTOM, -PLOT));
        for tick in x.ticks() {
            svg.line((x.place(tick), TOP), (x.place(tick), BOTTOM), "grid");
            svg.line((left, y.place(tick)), (left + PLOT, y.place(tick)), "grid");
            svg.text(x.place(tick), BOTTOM + 18.0, Anchor::Middle, "note", &label(tick));
            svg.text(left - 8.0, y.place(tick) + 4.0, Anchor::End, "note", &label(tick));
        }
        svg.line((left, BOTTOM), (left + PLOT, TOP), "axis");
        svg.text(left + PLOT / 2.0, BOTTOM + 38.0, Anchor::Middle, "note", &format!("predicted {}", self.axis));
        svg.upward_text(left - 48.0, TOP + PLOT / 2.0, &format!("measured {}", self.axis));
        for (series, predicted, measured) in points {
            svg.mark(*series, x.place(*predicted), y.place(*measured), 3.2);
        }
    }
}
