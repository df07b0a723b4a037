//! Accuracy of a prediction over many cells: errors, and whether designs are ranked right.

use common::numbers::median;

/// A figure of a design under a workload, measured and predicted.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<P> {
    /// Where it belongs.
    pub place: P,
    pub measured: f64,
    pub predicted: f64,
}

/// Errors over some cells.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy<P> {
    pub cells: usize,
    pub median_error: f64,
    pub worst_error: f64,
    /// The place of the worst error.
    pub worst: P,
    /// The share of cells whose error is at most [`CLOSE`].
    pub within: f64,
}

/// Cells this close count as right, and measured values this close need not be ranked.
pub const CLOSE: f64 = 0.1;

impl<P> Comparison<P> {
    /// `None` if there is nothing to compare: both are 0.
    pub fn new(place: P, measured: f64, predicted: f64) -> Option<Self> {
        (measured != 0.0 || predicted != 0.0).then_some(Self { place, measured, predicted })
    }

    /// |measured / predicted - 1|.
    pub fn error(&self) -> f64 {
        (self.measured / self.predicted - 1.0).abs()
    }
}

/// `None` without cells.
pub fn accuracy<P: Copy>(cells: &[Comparison<P>]) -> Option<Accuracy<P>> {
    let worst = cells.iter().max_by(|a, b| a.error().total_cmp(&b.error()))?;
    let close = cells.iter().filter(|cell| cell.error() <= CLOSE).count();
    Some(Accuracy {
        cells: cells.len(),
        median_error: median(cells.iter().map(Comparison::error)),
        worst_error: worst.error(),
        worst: worst.place,
        within: close as f64 / cells.len() as f64,
    })
}

/// Of the pairs of cells whose measured values differ by more than [`CLOSE`], those that the
/// prediction ranks in the same order, and all.
pub fn ranked<P>(cells: &[Comparison<P>]) -> (usize, usize) {
    let (mut right, mut pairs) = (0, 0);
    for (number, one) in cells.iter().enumerate() {
        for other in &cells[number + 1..] {
            let (less, more) = if one.measured < other.measured { (one, other) } else { (other, one) };
            if more.measured > (1.0 + CLOSE) * less.measured {
                pairs += 1;
                right += usize::from(less.predicted < more.predicted);
            }
        }
    }
    (right, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[(f64, f64)]) -> Vec<Comparison<usize>> {
        let cell = |(place, (measured, predicted)): (usize, &(f64, f64))| Comparison::new(place, *measured, *predicted);
        values.iter().enumerate().filter_map(cell).collect()
    }

    /// By hand: an exact cell, two that are off in either direction, one without anything.
    #[test]
    fn errors() {
        let found = accuracy(&cells(&[(2.0, 2.0), (3.0, 2.0), (0.0, 0.0), (0.95, 1.0)])).expect("cells");
        assert_eq!((found.cells, found.worst, found.worst_error), (3, 1, 0.5));
        assert!((found.median_error - 0.05).abs() < 1e-12 && (found.within - 2.0 / 3.0).abs() < 1e-12);
        assert!(accuracy(&cells(&[(0.0, 0.0)])).is_none());
        assert_eq!(accuracy(&cells(&[(1.0, 0.0)])).expect("a cell").worst_error, f64::INFINITY);
    }

    /// Pairs that are close are left out; equal predictions rank nothing.
    #[test]
    fn ranks() {
        assert_eq!(ranked(&cells(&[(1.0, 5.0), (2.0, 6.0), (2.1, 1.0)])), (1, 2));
        assert_eq!(ranked(&cells(&[(1.0, 5.0), (2.0, 5.0)])), (0, 1));
        assert_eq!(ranked(&cells(&[(0.0, 0.1), (0.3, 0.2)])), (1, 1));
    }
}
