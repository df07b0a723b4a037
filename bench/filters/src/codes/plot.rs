//! Plots of the paper's figures: curves over one axis, written beside the report as SVG.

use figures::svg::{Anchor, Svg, label};

/// A figure: its curves, and what is on its axes.
pub struct Plot {
    /// Of the file: `fig5`.
    pub name: &'static str,
    pub title: &'static str,
    pub across: &'static str,
    pub up: &'static str,
    /// Whether the axis across shows powers of ten.
    pub logarithmic: bool,
    pub curves: Vec<Curve>,
}

pub struct Curve {
    pub name: &'static str,
    /// Of its colour and mark, and of its dashes.
    pub series: usize,
    pub dashes: usize,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 56.0;

impl Plot {
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let across = Axis::new(points().map(|point| self.place(point.0)), LEFT, WIDTH, self.logarithmic);
        let up = Axis::new(points().map(|point| point.1), TOP + HEIGHT, -HEIGHT, false);
        let mut svg = Svg::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 60.0);
        svg.text(16.0, 30.0, Anchor::Start, "title", self.title);
        for tick in up.ticks() {
            svg.line((LEFT, up.place(tick)), (LEFT + WIDTH, up.place(tick)), "grid");
            svg.text(LEFT - 8.0, up.place(tick) + 4.0, Anchor::End, "note", &label(tick));
        }
        let bottom = TOP + HEIGHT;
        for tick in across.ticks() {
            let x = across.place(tick);
            let text = if self.logarithmic { format!("1e{tick:.0}") } else { label(tick) };
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            svg.text(x, bottom + 18.0, Anchor::Middle, "note", &text);
        }
        svg.line((LEFT, bottom), (LEFT + WIDTH, bottom), "axis");
        svg.text(LEFT + WIDTH / 2.0, bottom + 40.0, Anchor::Middle, "note", self.across);
        svg.upward_text(LEFT - 48.0, TOP + HEIGHT / 2.0, self.up);
        // The first one lies on top.
        for (number, curve) in self.curves.iter().enumerate().rev() {
            let class = format!("l{} d{}", curve.series, curve.dashes);
            let placed: Vec<(f64, f64)> =
                curve.points.iter().map(|&(x, y)| (across.place(self.place(x)), up.place(y))).collect();
            svg.curve(&placed, &class);
            placed.iter().for_each(|&(x, y)| svg.mark(curve.series, x, y, 3.0));
            let (x, y) = (LEFT + WIDTH + 20.0, TOP + 12.0 + 24.0 * number as f64);
            svg.curve(&[(x, y), (x + 34.0, y)], &class);
            svg.mark(curve.series, x + 17.0, y, 3.0);
            svg.text(x + 42.0, y + 4.5, Anchor::Start, "note", curve.name);
        }
        svg.finish(self.title)
    }

    fn place(&self, x: f64) -> f64 {
        if self.logarithmic { x.log10() } else { x }
    }
}

/// A linear axis between round numbers. Its length may be negative.
struct Axis {
    from: f64,
    to: f64,
    step: f64,
    start: f64,
    length: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, start: f64, length: f64, whole: bool) -> Self {
        let (least, greatest) = values.fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
        let rough = ((greatest - least) / 7.0).max(if whole { 1.0 } else { 1e-9 });
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
        let (from, to) = ((least / step + 1e-9).floor() * step, (greatest / step - 1e-9).ceil() * step);
        Self { from, to: to.max(from + step), step, start, length }
    }

    fn place(&self, value: f64) -> f64 {
        self.start + (value - self.from) / (self.to - self.from) * self.length
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let (from, step, last) = (self.from, self.step, ((self.to - self.from) / self.step).round() as u32);
        (0..=last).map(move |tick| from + f64::from(tick) * step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Axes begin and end with a tick, and all values are between.
    #[test]
    fn axes_have_round_ticks() {
        let axis = Axis::new([1.2, 5.9].into_iter(), 0.0, 10.0, false);
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((axis.place(1.0), axis.place(6.0)), (0.0, 10.0));
        let whole = Axis::new([-6.5, -1.0].into_iter(), 0.0, 1.0, true);
        assert_eq!(whole.ticks().collect::<Vec<_>>(), [-7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]);
    }

    /// Each curve has a line, and one in the legend.
    #[test]
    fn plots_have_all_curves() {
        let curve = |name, series| Curve { name, series, dashes: 0, points: vec![(1e-3, 1.0), (1e-1, 2.0)] };
        let curves = vec![curve("a", 0), curve("b", 1)];
        let plot = Plot { name: "x", title: "t", across: "a", up: "u", logarithmic: true, curves };
        assert_eq!(plot.svg().matches("<polyline").count(), 4);
    }
}
