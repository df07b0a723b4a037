//! Monkey's default tree, past the page cache, as it grows: equal filters beside optimal ones.

use std::path::Path;

use tamarack::Result;
use tamarack_model::FilterKind;
use tamarack_model::allocate::Curve;

use crate::section::{Cell, Section};
use crate::tree::{Layout, Of, Place, Sharing, Taken, Tree, filter, model, predicted};

const BITS: f64 = 5.0;

/// Keys of 16 bytes, 8 for each entry, and so 1 KiB in all; 1 MiB to a buffer.
const LAYOUT: Layout = Layout { value_bytes: 1000, buffer: 1024 };

/// Both trees are asked by turns, in so many rounds, so that what else the machine does meets both.
const ROUNDS: u64 = 4;

/// What was measured of one kind at one size.
struct Point {
    power: u32,
    reads: [f64; 2],
    off: f64,
}

pub fn measure(dir: &Path, powers: u32, lookups: u64) -> Result<Section> {
    let words = format!(
        "Leveling with T = 2, entries of 1 KiB with keys of 16 bytes, buffers of 1 MiB, {BITS} bits per entry, blocks of 4 KiB, direct I/O, no cache; at 2^k - 1 buffers. Blocks read by each of \
         {lookups} lookups of absent keys, beside the exact model of the runs that there are: the best allocation of these bits, and for optimal filters also those that were built, in whole cache lines; microseconds that each takes."
    );
    let columns = [
        "filters",
        "k",
        "buffers",
        "equal",
        "model",
        "off",
        "optimal",
        "best by the model",
        "off",
        "as built",
        "off",
        "fewer reads",
        "µs equal",
        "µs optimal",
        "less time",
        "µs saved per read saved",
    ];
    let mut section = Section::new("growth", words, &columns);
    for kind in [FilterKind::Bloom, FilterKind::Blocked] {
        let points = grow(&mut section, dir, kind, powers, lookups)?;
        judge(&mut section, kind, &points);
    }
    Ok(section)
}

fn grow(section: &mut Section, dir: &Path, kind: FilterKind, powers: u32, lookups: u64) -> Result<Vec<Point>> {
    let curve = Curve::new(kind);
    let sharings = [("uniform", Sharing::Uniform), ("monkey", Sharing::Found(0.0))];
    let mut trees = Vec::new();
    for (name, _) in sharings {
        let place = dir.join(format!("{}-{name}", kind.name()));
        trees.push(Tree::new(&Place::Direct(&place), LAYOUT, "leveling:T=2", &filter(kind, BITS, name))?);
    }
    let mut points = Vec::new();
    for power in 2..=powers {
        let buffers = (1 << power) - 1;
        for tree in &mut trees {
            tree.grow(buffers - tree.entries / LAYOUT.buffer)?;
        }
        let mut taken = [Taken::default(); 2];
        for _ in 0..ROUNDS {
            for (tree, taken) in trees.iter().zip(&mut taken) {
                let now = tree.look_up(lookups / ROUNDS, Of::Any(0.0))?;
                taken.blocks += now.blocks / ROUNDS as f64;
                taken.seconds += now.seconds / ROUNDS as f64;
            }
        }
        let models: Vec<f64> = trees
            .iter()
            .zip(sharings)
            .map(|(tree, (_, sharing))| model(&curve, &tree.runs(), BITS, sharing, Of::Any(0.0)))
            .collect();
        let off = [0, 1].map(|at| taken[at].blocks / models[at] - 1.0);
        let [equal, optimal] = taken;
        let built = predicted(&trees[1].runs(), Of::Any(0.0));
        let micros = |seconds: f64| Cell::Number(1e6 * seconds, 1);
        section.row(vec![
            Cell::Word(kind.name().to_owned()),
            Cell::Count(power.into()),
            Cell::Count(buffers),
            Cell::Number(equal.blocks, 4),
            Cell::Number(models[0], 4),
            Cell::Percent(off[0]),
            Cell::Number(optimal.blocks, 4),
            Cell::Number(models[1], 4),
            Cell::Percent(off[1]),
            Cell::Number(built, 4),
            Cell::Percent(optimal.blocks / built - 1.0),
            Cell::Percent(optimal.blocks / equal.blocks - 1.0),
            micros(equal.seconds),
            micros(optimal.seconds),
            Cell::Percent(optimal.seconds / equal.seconds - 1.0),
            micros((equal.seconds - optimal.seconds) / (equal.blocks - optimal.blocks)),
        ]);
        points.push(Point { power, reads: taken.map(|taken| taken.blocks), off: off[0].abs().max(off[1].abs()) });
    }
    Ok(points)
}

fn judge(section: &mut Section, kind: FilterKind, points: &[Point]) {
    let name = kind.name();
    let worst = points.iter().map(|point| point.off).fold(0.0, f64::max);
    section.verdict(
        format!("{name}: each point is within 10 % of the exact model; the worst is {:.1} % off", 100.0 * worst),
        worst <= 0.1,
    );
    let at = |power| points.iter().find(|point| point.power == power);
    let (Some(last), Some(sixth)) = (at(10), at(6)) else { return };
    let fewer = 1.0 - last.reads[1] / last.reads[0];
    section.verdict(
        format!("{name}: with 1,023 buffers at least 55 % fewer block reads; {:.1} %", 100.0 * fewer),
        fewer >= 0.55,
    );
    let growth = [0, 1].map(|at| last.reads[at] / sixth.reads[at] - 1.0);
    section.verdict(
        format!(
            "{name}: from 63 buffers to 1,023 reads grow by at most 12 %, where those of equal filters grow by two thirds; {:.1} %, {:.1} %",
            100.0 * growth[1],
            100.0 * growth[0]
        ),
        growth[1] <= 0.12,
    );
}
