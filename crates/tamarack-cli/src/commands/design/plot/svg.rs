//! A trade-off as an SVG image: two axes, a mark for each design, the Pareto front as a line, and
//! labels that do not cover one another.

use std::collections::HashSet;

use super::image::{Image, MarkShape, TextAnchor};
use super::labels::{Area, UnplacedLabel, placed};
use super::scale::{AxisScale, label};
use super::signs::{SignedDesign, signed};
use crate::commands::design::trade_off::{PlacedDesign, Role, TradeOff};
use crate::show::table::significant;
use crate::size::show_bytes;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = WIDTH - 26.0;
const TOP: f64 = 104.0;
const BOTTOM: f64 = TOP + 440.0;

/// Rows of text.
const LINE: f64 = 18.0;

/// The most ticks of either axis.
const TICKS: (usize, usize) = (14, 9);

/// The mean width of a character, of a bold one, and its height. Fonts differ; these are those of
/// DejaVu Sans, which is wide.
const CHARACTER: (f64, f64, f64) = (7.4, 7.8, 14.0);

/// Where the notes below the plot begin, right of their signs.
const NOTE_LEFT: f64 = 34.0;

/// Half of the side of the area that a mark keeps free of labels.
const MARK_HALF: f64 = 5.0;

/// What the marks mean, in the order of the legend.
const LEGEND: [(Role, MarkShape, &str, f64); 4] = [
    (Role::Asked, MarkShape::Diamond, "asked for or found", 170.0),
    (Role::Store, MarkShape::Square, "defaults of stores, with their memtables", 300.0),
    (Role::Front, MarkShape::Disk, "Pareto front", 140.0),
    (Role::Other, MarkShape::Dot, "other designs", 0.0),
];

/// The file.
pub(super) fn file(trade_off: &TradeOff) -> String {
    let designs = signed(trade_off);
    let plot = Plot {
        trade_off,
        x: AxisScale::new(trade_off.designs.iter().map(|design| design.writes)),
        y: AxisScale::new(trade_off.designs.iter().map(|design| design.reads)),
    };
    let mut image = Image::new(WIDTH);
    let title = "Trade-off of reads and writes, predicted";
    image.text((16.0, 30.0), TextAnchor::Start, "title", title);
    let heading = format!("{} designs for {}", trade_off.designs.len(), trade_off.data);
    image.text((16.0, 30.0 + LINE), TextAnchor::Start, "note", &heading);
    plot.legend(&mut image);
    plot.axes(&mut image);
    plot.front(&mut image);
    plot.marks(&mut image);
    plot.labels(&mut image, &designs);
    let mut bottom = BOTTOM + 62.0;
    for design in designs.iter().filter(|design| design.design.role == Role::Asked) {
        image.text((16.0, bottom), TextAnchor::Start, "note", &design.sign.to_string());
        for line in lines(&plot.about(design.design), (WIDTH - NOTE_LEFT - 16.0) / CHARACTER.0) {
            image.text((NOTE_LEFT, bottom), TextAnchor::Start, "note", &line);
            bottom += LINE;
        }
    }
    image.finished(bottom, title)
}

/// A trade-off on its axes.
struct Plot<'a> {
    trade_off: &'a TradeOff,
    x: AxisScale,
    y: AxisScale,
}

impl Plot<'_> {
    fn at(&self, design: &PlacedDesign) -> (f64, f64) {
        (across(self.x.place(design.writes)), down(self.y.place(design.reads)))
    }

    fn legend(&self, image: &mut Image) {
        let (mut x, y) = (24.0, 30.0 + 2.5 * LINE);
        for (role, shape, name, width) in LEGEND {
            image.mark(shape, (x, y), "");
            let count = self.trade_off.of_role(role).count();
            image.text((x + 12.0, y + 4.2), TextAnchor::Start, "", &format!("{name} ({count})"));
            x += width;
        }
    }

    fn axes(&self, image: &mut Image) {
        for tick in self.x.ticks(TICKS.0) {
            let x = across(self.x.place(tick));
            image.line((x, TOP), (x, BOTTOM), "grid");
            image.text((x, BOTTOM + LINE), TextAnchor::Middle, "note", &label(tick));
        }
        for tick in self.y.ticks(TICKS.1) {
            let y = down(self.y.place(tick));
            image.line((LEFT, y), (RIGHT, y), "grid");
            image.text((LEFT - 8.0, y + 4.0), TextAnchor::End, "note", &label(tick));
        }
        image.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
        image.line((LEFT, TOP), (LEFT, BOTTOM), "axis");
        let x_title = title(self.trade_off.x_title(), &self.x);
        image.text(((LEFT + RIGHT) / 2.0, BOTTOM + 38.0), TextAnchor::Middle, "note", &x_title);
        image.upward_text((22.0, (TOP + BOTTOM) / 2.0), &title(&self.trade_off.y_title(), &self.y));
    }

    /// The front as a staircase: between two of its designs there is none, so nothing is on a
    /// straight line between them.
    fn front(&self, image: &mut Image) {
        let mut front: Vec<(f64, f64)> =
            self.trade_off.designs.iter().filter(|design| design.is_on_front).map(|design| self.at(design)).collect();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut stairs: Vec<(f64, f64)> = Vec::new();
        for point in front {
            let corner = stairs.last().map(|(_, y)| (point.0, *y));
            stairs.extend(corner);
            stairs.push(point);
        }
        image.curve(&stairs, "front");
    }

    /// All marks, the most important ones on top; others that fall together are drawn once.
    fn marks(&self, image: &mut Image) {
        let mut drawn = HashSet::new();
        for (role, shape, _, _) in LEGEND.into_iter().rev() {
            for design in self.trade_off.of_role(role) {
                let (x, y) = self.at(design);
                if role != Role::Other || drawn.insert((x.round() as i64, y.round() as i64)) {
                    image.mark(shape, (x, y), &self.about(design));
                }
            }
        }
    }

    fn labels(&self, image: &mut Image, designs: &[SignedDesign<'_>]) {
        let named: Vec<(String, &PlacedDesign)> = designs
            .iter()
            .filter(|design| design.is_named)
            .map(|SignedDesign { design, sign, .. }| {
                let is_asked = design.role == Role::Asked;
                (if is_asked { format!("{sign} {}", design.name) } else { design.name.clone() }, *design)
            })
            .collect();
        let unplaced = |(name, design): &(String, &PlacedDesign)| {
            let (regular, bold, height) = CHARACTER;
            let character = if design.role == Role::Asked { bold } else { regular };
            UnplacedLabel { mark: self.at(design), width: name.chars().count() as f64 * character, height }
        };
        let labels: Vec<UnplacedLabel> = named.iter().map(unplaced).collect();
        let is_marked = |design: &&PlacedDesign| design.role != Role::Other;
        let marks: Vec<Area> =
            self.trade_off.designs.iter().filter(is_marked).map(|d| Area::around(self.at(d), MARK_HALF)).collect();
        let bounds = Area { left: LEFT + 2.0, top: TOP, right: RIGHT, bottom: BOTTOM - 2.0 };
        for ((name, design), area) in named.iter().zip(placed(&labels, &marks, &bounds)) {
            let Some(area) = area else { continue };
            if let Some([mark, end]) = area.leader(self.at(design)) {
                image.line(mark, end, "leader");
            }
            let class = if design.role == Role::Asked { "label strong" } else { "label" };
            let middle = (area.left + area.right) / 2.0;
            image.text((middle, area.bottom - 3.5), TextAnchor::Middle, class, name);
        }
    }

    /// A design with its costs.
    fn about(&self, design: &PlacedDesign) -> String {
        let store = if design.role == Role::Store { format!("{}: ", design.name) } else { String::new() };
        let fits = if design.fits { "" } else { " (too large)" };
        format!(
            "{store}{}, {}, {}{fits}: write amplification {}, {} {}",
            design.priced.policy,
            design.priced.filter_specification,
            show_bytes(design.priced.buffer.0),
            significant(design.writes),
            significant(design.reads),
            self.trade_off.y_title()
        )
    }
}

/// The text in lines of at most so many characters, unless a word is longer.
fn lines(text: &str, characters: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if (line.chars().count() + 1 + word.chars().count()) as f64 <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn title(text: &str, scale: &AxisScale) -> String {
    format!("{text}{}", if scale.is_logarithmic() { " (logarithmic)" } else { "" })
}

fn across(place: f64) -> f64 {
    LEFT + place * (RIGHT - LEFT)
}

fn down(place: f64) -> f64 {
    BOTTOM - place * (BOTTOM - TOP)
}

/// Lines are as long as they may be, and together the text.
#[test]
fn notes_in_lines() {
    let text = "moose, 32 MiB (too large): write amplification 2, 1 block read";
    assert_eq!(lines(text, 100.0), [text]);
    let found = lines(text, 20.0);
    assert_eq!(found, ["moose, 32 MiB (too", "large): write", "amplification 2, 1", "block read"]);
    assert_eq!(found.join(" "), text);
    assert_eq!(lines("amplification", 3.0), ["amplification"]);
}
