//! What lookups take by the level of the run in which they find their key: predicted and measured.
//!
//! Lookups are measured on full tables of random entries, with fixed seeds, in the paper's default
//! tree.

use std::ops::Range;

use super::range;
use crate::plot::Curve;
use crate::tree::Tree;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The buckets of each table: a prime number, since tables of any size have to work.
    pub buckets: usize,
    /// Lookups for each level in figure 11, and four times as many of absent keys.
    pub lookups: usize,
    /// Rare buckets in all tables of figure 13.
    pub rare_buckets: f64,
}

impl Effort {
    /// Standard errors of at most four percent, in a minute or two.
    pub const REPORT: Self = Self { buckets: 65_521, lookups: 1 << 19, rare_buckets: 3_000.0 };
}

/// The paper's default: lazy leveling with T = 5 and six levels.
pub const RATIO: f64 = 5.0;
pub const RUNS: u16 = 4;
pub const LEVELS: usize = 6;

pub fn papers_tree() -> Tree {
    Tree::of_paper(RATIO, RUNS, 1, LEVELS)
}

/// Where a lookup ends: in a level, the smallest first, or nowhere.
pub const TARGETS: [&str; LEVELS + 1] = ["1", "2", "3", "4", "5", "6", "none"];

/// The slots of a bucket in the paper.
pub const PAPER_SLOTS: usize = 4;

/// A point is judged if its standard error is at most this: about 600 counts.
const ERROR_MAX: f64 = 0.04;

/// Predictions are good if they are off by at most this.
const TOLERANCE: f64 = 0.1;

/// What lookups that end in each of [`TARGETS`] take.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: &'static str,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub predicted: f64,
    pub measured: f64,
    /// False positives, or different buckets.
    pub counted: u64,
    /// The standard error of what is measured, as a share of it.
    pub error: f64,
}

impl Series {
    pub fn measured(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.measured).collect()
    }

    pub fn predicted(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.predicted).collect()
    }

    /// A line through the predictions with marks where it was measured, from the place `first` on.
    pub fn curve(&self, series: usize, dashes: usize, first: usize) -> Curve {
        let marks = Some(on_axis(first, &self.measured()));
        Curve { marks, ..line(self.name, series, dashes, first, &self.predicted()) }
    }
}

/// A line without marks, from the place `first` on.
pub fn line(name: &'static str, series: usize, dashes: usize, first: usize, up: &[f64]) -> Curve {
    Curve { name, series, dashes, points: on_axis(first, up), marks: Some(Vec::new()) }
}

fn on_axis(first: usize, up: &[f64]) -> Vec<(f64, f64)> {
    // A logarithmic axis has no place for 0.
    (first..).zip(up).map(|(place, &up)| (place as f64, up)).filter(|(_, up)| *up > 0.0).collect()
}

/// The LIDs of a level's runs, from the oldest one on. The first class is the last level.
pub fn runs_of_level(tree: &Tree, level: usize) -> Range<u16> {
    let class = tree.lids.len() - level;
    let first = tree.lids[..class].iter().sum();
    first..first + tree.lids[class]
}

/// Whether what is measured is what is predicted, at all points with enough counts.
pub fn agreement(all: &[Series]) -> (bool, String) {
    let points = || all.iter().flat_map(|series| &series.points);
    let judged: Vec<&Point> = points().filter(|point| point.error <= ERROR_MAX).collect();
    if judged.is_empty() {
        return (false, "no point has enough counts".to_owned());
    }
    let ratios = || judged.iter().map(|point| point.measured / point.predicted);
    let good = ratios().filter(|ratio| (ratio - 1.0).abs() <= TOLERANCE).count();
    let (least, greatest) = range(ratios());
    let mut because = format!(
        "{good} of {} points agree; {least:.3} to {greatest:.3} times the prediction was measured, with standard errors \
         of up to {:.1} %",
        judged.len(),
        100.0 * range(judged.iter().map(|point| point.error)).1
    );
    let others = points().count() - judged.len();
    if others > 0 {
        because += &format!("; {others} points have too few counts to be judged");
    }
    (good == judged.len(), because)
}

/// A table of all points. `extra` has further columns, with a cell of each series for all its
/// points.
pub fn table_of(
    all: &[Series],
    first: &str,
    counted: &str,
    extra: &[(&str, Vec<String>)],
) -> (Vec<String>, Vec<Vec<String>>) {
    let fixed = [first, "level", "predicted", "measured", "measured / predicted", counted, "standard error"];
    let header = fixed.into_iter().chain(extra.iter().map(|(name, _)| *name)).map(str::to_owned);
    let row = |number: usize, target: usize| {
        let Point { predicted, measured, counted, error } = all[number].points[target];
        let fixed = [
            all[number].name.to_owned(),
            TARGETS[target].to_owned(),
            format!("{predicted:.2e}"),
            format!("{measured:.2e}"),
            format!("{:.3}", measured / predicted),
            counted.to_string(),
            format!("{:.1} %", 100.0 * error),
        ];
        fixed.into_iter().chain(extra.iter().map(|(_, cells)| cells[number].clone())).collect()
    };
    let row = &row;
    let rows = (0..all.len()).flat_map(|number| (0..TARGETS.len()).map(move |target| row(number, target)));
    (header.collect(), rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One point that is off refutes the agreement, one with too few counts is named, and without
    /// counts nothing agrees.
    #[test]
    fn agreement_is_of_all_points() {
        let good = Point { predicted: 2.0, measured: 2.1, counted: 2_000, error: 0.02 };
        let series = |point: Point| [Series { name: "a", points: vec![good, point] }];
        assert_eq!(
            agreement(&series(good)),
            (true, "2 of 2 points agree; 1.050 to 1.050 times the prediction was measured, with standard errors of up to 2.0 %".to_owned())
        );
        let (agrees, because) = agreement(&series(Point { measured: 1.7, ..good }));
        assert!(!agrees && because.starts_with("1 of 2 points agree; 0.850 to 1.050 times"), "{because}");
        let few = Point { measured: 1.0, error: 0.3, ..good };
        let (agrees, because) = agreement(&series(few));
        assert!(agrees && because.ends_with("1 points have too few counts to be judged"), "{because}");
        assert!(!agreement(&[Series { name: "a", points: vec![few] }]).0);
    }

    /// Levels are counted from the youngest on, LIDs from the oldest.
    #[test]
    fn levels_have_their_runs() {
        let tree = papers_tree();
        assert_eq!((runs_of_level(&tree, 6), runs_of_level(&tree, 5), runs_of_level(&tree, 1)), (0..1, 1..5, 17..21));
    }
}
