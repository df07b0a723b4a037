//! SVG: shapes and text with classes, whose colours follow the reader's light or dark theme.

use std::fmt::Write as _;

/// An image under construction.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
    /// Whether it has curves, for which further styles are needed.
    has_curves: bool,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Colours have a contrast of at least 3 to 1 on their background and differ for colour-blind
/// readers; engines also differ in shape.
const STYLE: &str = "\
text { font: 13px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328; }
.title { font-size: 17px; font-weight: 600; } .note { font-size: 12px; fill: #57606a; } .strong { font-weight: 600; }
.paper { fill: #ffffff; } .grid { stroke: #d8dee4; } .axis { stroke: #8c959f; } .band { fill: #f6f8fa; }
.s0 { fill: #c4460a; } .s1 { fill: #0969da; } .s2 { fill: #0a7d4f; } .s3 { fill: #8250df; } .point { fill-opacity: .75; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .note { fill: #9da7b1; } .paper { fill: #0d1117; } .grid { stroke: #30363d; } .axis { stroke: #6e7681; } .band { fill: #161b22; }
.s0 { fill: #ff8b4a; } .s1 { fill: #58a6ff; } .s2 { fill: #3fb98b; } .s3 { fill: #bc8cff; }
}";

/// Curves: `l0` to `l3` have the colours of the series `s0` to `s3`, and `d1` to `d3` have dashes.
const CURVE_STYLE: &str = "\
.l0, .l1, .l2, .l3 { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.d1 { stroke-dasharray: 7 3; } .d2 { stroke-dasharray: 2 3; } .d3 { stroke-dasharray: 8 3 2 3; }
.l0 { stroke: #c4460a; } .l1 { stroke: #0969da; } .l2 { stroke: #0a7d4f; } .l3 { stroke: #8250df; }
@media (prefers-color-scheme: dark) {
.l0 { stroke: #ff8b4a; } .l1 { stroke: #58a6ff; } .l2 { stroke: #3fb98b; } .l3 { stroke: #bc8cff; }
}
";

impl Svg {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new(), has_curves: false }
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"));
    }

    /// A text that reads upwards.
    pub fn upward_text(&mut self, x: f64, y: f64, text: &str) {
        self.add(&format!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" class=\"note\">{text}</text>"
        ));
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(&format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"));
    }

    /// A curve through these points, with the classes `l0` to `l3` and `d1` to `d3`.
    pub fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        self.has_curves = true;
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(&format!("<polyline points=\"{}\" class=\"{class}\"/>", points.join(" ")));
    }

    pub fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"/>"
        ));
    }

    /// A mark of series `series`: a circle, a square, a triangle, or a diamond.
    pub fn mark(&mut self, series: usize, x: f64, y: f64, size: f64) {
        let class = format!("s{series} point");
        match series {
            0 => self.add(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" class=\"{class}\"/>", size * 1.1)),
            1 => self.rectangle(x - size, y - size, 2.0 * size, 2.0 * size, &class),
            2 => self.polygon(&[(x, y - 1.3 * size), (x + 1.2 * size, y + size), (x - 1.2 * size, y + size)], &class),
            _ => {
                let d = 1.4 * size;
                self.polygon(&[(x, y - d), (x + d, y), (x, y + d), (x - d, y)], &class);
            }
        }
    }

    fn polygon(&mut self, corners: &[(f64, f64)], class: &str) {
        let points: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(&format!("<polygon points=\"{}\" class=\"{class}\"/>", points.join(" ")));
    }

    fn add(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a string takes text");
    }

    /// The file, with a title for screen readers.
    pub fn finish(self, title: &str) -> String {
        let Self { width, height, body, has_curves } = self;
        let curves = if has_curves { CURVE_STYLE } else { "" };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{STYLE}\n{curves}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" class=\"paper\"/>\n{body}</svg>\n"
        )
    }
}

/// A logarithmic axis from the power of ten below `least` to the one above `greatest`.
#[derive(Clone, Copy, Debug)]
pub struct LogAxis {
    from: f64,
    to: f64,
    start: f64,
    length: f64,
}

impl LogAxis {
    /// An axis for these values that begins at `start` and is `length` long, which may be negative.
    pub fn new(values: impl Iterator<Item = f64>, start: f64, length: f64) -> Self {
        let (least, greatest) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        Self { from: least.log10().floor(), to: greatest.log10().ceil(), start, length }
    }

    pub fn place(&self, value: f64) -> f64 {
        self.start + (value.log10() - self.from) / (self.to - self.from) * self.length
    }

    /// The powers of ten on the axis.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.from as i32..=self.to as i32).map(|power| 10f64.powi(power))
    }
}

/// A number as a label: `0.1`, `10`, `10 k`, `1 M`.
pub fn label(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{} M", digits(n / 1e6)),
        n if n >= 1e3 => format!("{} k", digits(n / 1e3)),
        n => digits(n),
    }
}

/// Up to three significant digits, without zeros at the end.
fn digits(number: f64) -> String {
    let decimals = (2.0 - number.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Labels have three digits at most.
#[test]
fn labels_are_short() {
    let labels = [0.01, 1.0, 12.3456, 280_878.0, 2_900_003.0, 1e6].map(label);
    assert_eq!(labels, ["0.01", "1", "12.3", "281 k", "2.9 M", "1 M"]);
}
