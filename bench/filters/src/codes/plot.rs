//! Plots of the paper's figures: curves over one axis, written beside the report as SVG.

use figures::svg::{Anchor, Svg, label};

/// A figure: its curves, and what is on its axes.
pub struct Plot {
    /// Of the file: `fig5`.
    pub name: &'static str,
    pub title: &'static str,
    pub across: &'static str,
    pub across_scale: Scale,
    pub up: &'static str,
    pub up_scale: Scale,
    pub curves: Vec<Curve>,
}

/// What the ticks of an axis show.
#[derive(Clone, Copy, Debug)]
pub enum Scale {
    Linear,
    /// Powers of ten.
    Logarithmic,
    /// Names of the places 1, 2, and so on.
    Names(&'static [&'static str]),
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        if matches!(self, Self::Logarithmic) { value.log10() } else { value }
    }

    fn label(self, tick: f64) -> String {
        match self {
            Self::Linear => label(tick),
            Self::Logarithmic => format!("1e{tick:.0}"),
            Self::Names(names) => names.get(tick as usize - 1).copied().unwrap_or_default().to_owned(),
        }
    }

    /// The least distance of ticks on an axis of this length.
    fn step(self, length: f64) -> f64 {
        match self {
            Self::Linear => (length / 7.0).max(1e-9),
            Self::Logarithmic => (length / 7.0).max(1.0),
            Self::Names(_) => 1.0,
        }
    }
}

pub struct Curve {
    pub name: &'static str,
    /// Of its colour and mark, and of its dashes.
    pub series: usize,
    pub dashes: usize,
    pub points: Vec<(f64, f64)>,
    /// Where its marks are: at its points, if there are none here.
    pub marks: Option<Vec<(f64, f64)>>,
}

impl Curve {
    fn marks(&self) -> &[(f64, f64)] {
        self.marks.as_ref().unwrap_or(&self.points)
    }
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 56.0;

impl Plot {
    pub fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().chain(curve.marks()));
        let place = |&(x, y): &(f64, f64)| (self.across_scale.place(x), self.up_scale.place(y));
        let across = Axis::new(points().map(|point| place(point).0), LEFT, WIDTH, self.across_scale);
        let up = Axis::new(points().map(|point| place(point).1), TOP + HEIGHT, -HEIGHT, self.up_scale);
        let mut svg = Svg::new(LEFT + WIDTH + RIGHT, TOP + HEIGHT + 60.0);
        svg.text(16.0, 30.0, Anchor::Start, "title", self.title);
        for tick in up.ticks() {
            svg.line((LEFT, up.place(tick)), (LEFT + WIDTH, up.place(tick)), "grid");
            svg.text(LEFT - 8.0, up.place(tick) + 4.0, Anchor::End, "note", &self.up_scale.label(tick));
        }
        let bottom = TOP + HEIGHT;
        for tick in across.ticks() {
            let x = across.place(tick);
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            svg.text(x, bottom + 18.0, Anchor::Middle, "note", &self.across_scale.label(tick));
        }
        svg.line((LEFT, bottom), (LEFT + WIDTH, bottom), "axis");
        svg.text(LEFT + WIDTH / 2.0, bottom + 40.0, Anchor::Middle, "note", self.across);
        svg.upward_text(LEFT - 48.0, TOP + HEIGHT / 2.0, self.up);
        // The first one lies on top.
        for (number, curve) in self.curves.iter().enumerate().rev() {
            let class = format!("l{} d{}", curve.series, curve.dashes);
            let placed = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
                points.iter().map(place).map(|(x, y)| (across.place(x), up.place(y))).collect()
            };
            svg.curve(&placed(&curve.points), &class);
            placed(curve.marks()).iter().for_each(|&(x, y)| svg.mark(curve.series, x, y, 3.0));
            let (x, y) = (LEFT + WIDTH + 20.0, TOP + 12.0 + 24.0 * number as f64);
            svg.curve(&[(x, y), (x + 34.0, y)], &class);
            if !curve.marks().is_empty() {
                svg.mark(curve.series, x + 17.0, y, 3.0);
            }
            svg.text(x + 42.0, y + 4.5, Anchor::Start, "note", curve.name);
        }
        svg.finish(self.title)
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
    fn new(values: impl Iterator<Item = f64>, start: f64, length: f64, scale: Scale) -> Self {
        let (least, greatest) = values.fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)));
        let rough = scale.step(greatest - least);
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
        // A thousandth of a step beyond the axis is not seen.
        let (from, to) = ((least / step + 1e-3).floor() * step, (greatest / step - 1e-3).ceil() * step);
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
        let axis = Axis::new([1.2, 5.9].into_iter(), 0.0, 10.0, Scale::Linear);
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((axis.place(1.0), axis.place(6.0)), (0.0, 10.0));
        let whole = Axis::new([-6.5, -1.0].into_iter(), 0.0, 1.0, Scale::Logarithmic);
        assert_eq!(whole.ticks().collect::<Vec<_>>(), [-7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]);
        let names = Axis::new([1.0, 13.0].into_iter(), 0.0, 1.0, Scale::Names(&[]));
        assert_eq!(names.ticks().count(), 13);
    }

    /// Each curve has a line, and one in the legend; its marks are at its points or elsewhere.
    #[test]
    fn plots_have_all_curves() {
        let curve =
            |name, series| Curve { name, series, dashes: 0, points: vec![(1e-3, 1.0), (1e-1, 2.0)], marks: None };
        let mut curves = vec![curve("a", 0), curve("b", 0), curve("c", 0)];
        curves[1].marks = Some(vec![(1e-2, 1.5)]);
        curves[2].marks = Some(Vec::new());
        let (across_scale, up_scale) = (Scale::Logarithmic, Scale::Linear);
        let plot = Plot { name: "x", title: "t", across: "a", across_scale, up: "u", up_scale, curves };
        let svg = plot.svg();
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (6, 3 + 2));
    }

    /// Ticks of names are these, and those of powers of ten are powers.
    #[test]
    fn ticks_have_names() {
        let names = Scale::Names(&["one", "none"]);
        let curves =
            vec![Curve { name: "a", series: 0, dashes: 0, points: vec![(1.0, 1e-5), (2.0, 1e-3)], marks: None }];
        let up_scale = Scale::Logarithmic;
        let svg = Plot { name: "x", title: "t", across: "a", across_scale: names, up: "u", up_scale, curves }.svg();
        assert!([">one<", ">none<", ">1e-5<", ">1e-4<", ">1e-3<"].iter().all(|tick| svg.contains(tick)), "{svg}");
    }
}
