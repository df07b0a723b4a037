//! An SVG image under construction: shapes and text with classes, whose colours follow the
//! reader's light or dark theme.

use std::fmt::Write as _;

/// An image under construction.
#[derive(Debug)]
pub(super) struct Image {
    width: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextAnchor {
    Start,
    Middle,
    End,
}

/// What a mark looks like. The kinds differ in shape and in brightness, also without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkShape {
    /// A small pale disk.
    Dot,
    /// A disk.
    Disk,
    /// A square.
    Square,
    /// A large dark diamond.
    Diamond,
}

/// From pale to dark on white: dots, squares, disks, diamonds; the reverse on black.
const STYLE: &str = "\
text { font: 12px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328; }
.title { font-size: 17px; font-weight: 600; } .note { fill: #57606a; } .strong { font-weight: 600; }
.label { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round; }
.paper { fill: #ffffff; } .grid { stroke: #e4e8ec; } .axis { stroke: #8c959f; } .leader { stroke: #6e7781; stroke-width: .7; }
.front { fill: none; stroke: #0969da; stroke-width: 1.2; stroke-opacity: .6; }
.dot { fill: #b9c1c9; } .disk { fill: #0969da; } .square { fill: #d98a1c; } .diamond { fill: #6b0d1f; stroke: #ffffff; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .note { fill: #9da7b1; } .label { stroke: #0d1117; }
.paper { fill: #0d1117; } .grid { stroke: #21262d; } .axis { stroke: #6e7681; } .leader { stroke: #8b949e; }
.front { stroke: #58a6ff; } .dot { fill: #444c56; } .disk { fill: #58a6ff; } .square { fill: #b5701a; } .diamond { fill: #ffd7dd; stroke: #0d1117; }
}";

impl Image {
    pub(super) fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// A text, with one of the classes of the style.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: TextAnchor, class: &str, text: &str) {
        let anchor = match anchor {
            TextAnchor::Start => "start",
            TextAnchor::Middle => "middle",
            TextAnchor::End => "end",
        };
        let text = escaped(text);
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"));
    }

    /// A text that reads upwards, centred at its point.
    pub(super) fn upward_text(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        self.add(&format!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" class=\"note\">{text}</text>"
        ));
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(&format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"));
    }

    /// A line through these points.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        self.add(&format!("<polyline points=\"{}\" class=\"{class}\"/>", listed(points)));
    }

    /// A mark; readers who point at it see what it is about.
    pub(super) fn mark(&mut self, shape: MarkShape, (x, y): (f64, f64), about: &str) {
        let title = if about.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(about)) };
        let disk = |radius: f64, class: &str| {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" class=\"{class}\">{title}</circle>")
        };
        let corners = |class: &str, corners: [(f64, f64); 4]| {
            let corners = corners.map(|(right, down)| (x + right, y + down));
            format!("<polygon points=\"{}\" class=\"{class}\">{title}</polygon>", listed(&corners))
        };
        let element = match shape {
            MarkShape::Dot => disk(2.4, "dot"),
            MarkShape::Disk => disk(4.2, "disk"),
            MarkShape::Square => corners("square", [(-4.2, -4.2), (4.2, -4.2), (4.2, 4.2), (-4.2, 4.2)]),
            MarkShape::Diamond => corners("diamond", [(0.0, -7.5), (7.5, 0.0), (0.0, 7.5), (-7.5, 0.0)]),
        };
        self.add(&element);
    }

    fn add(&mut self, element: &str) {
        writeln!(self.body, "{element}").expect("a string takes text");
    }

    /// The file, of this height, with a title for screen readers.
    pub(super) fn finished(self, height: f64, title: &str) -> String {
        let Self { width, body } = self;
        let title = escaped(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" class=\"paper\"/>\n{body}</svg>\n"
        )
    }
}

fn listed(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Text without the characters that XML has for itself.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Characters of XML are replaced, in text and in attributes.
#[test]
fn texts_are_escaped() {
    let mut image = Image::new(10.0);
    image.text((1.0, 2.0), TextAnchor::Start, "note", "a<b & \"c\"");
    image.mark(MarkShape::Square, (1.0, 2.0), "<>");
    let file = image.finished(20.0, "\"x\"");
    for part in [">a&lt;b &amp; &quot;c&quot;<", "<title>&lt;&gt;</title>", "aria-label=\"&quot;x&quot;\""] {
        assert!(file.contains(part), "{part} is not in\n{file}");
    }
}
