//! [`Curve`]: the false positive rate that filters of one kind reach for their bits, and the best
//! allocation of bits to runs with such filters.
//!
//! # Prices
//!
//! Where the curve `p(b)` is convex, the best allocation has one **price** λ: each run takes bits
//! as long as the next bit lowers `w · p` by more than λ, and λ is such that the budget is used up.
//! A real curve is not convex everywhere: it bends slightly the wrong way where one more probe
//! begins to pay, and a filter with less than a bit per entry, which must make one probe, is worse
//! than a mix of no filter and a full bit. Prices are therefore compared on the curve's *lower
//! convex hull*, on which no run stops between two corners, except the last one served.
//!
//! If the last run stops before its first corner, its bits may serve better elsewhere, or other
//! runs' bits better there. So it is tried with nothing, quarters of the way to its first corner,
//! and all of it, while the runs with filters share the rest; and it is skipped in favour of the
//! next runs, which may be small enough for the rest. Conversely, each of the last runs to reach
//! their first corner is tried without a filter. The result is within 1.5 % of the optimum, mostly
//! far closer: only one run is ever left below its first corner, where two would occasionally be
//! better.

use std::sync::OnceLock;

use super::{Load, check, false_positives, used};
use crate::filter::{BITS_MAX, FilterKind, fpr};

/// Distance between two points of a curve below each of these bits per entry: fine where a curve
/// bends, coarse where it is almost straight. The straight line between two points is never more
/// than 0.2 % above the curve.
const STEPS: [(f64, f64); 3] = [(4.0, 1.0 / 32.0), (16.0, 1.0 / 8.0), (BITS_MAX, 1.0 / 4.0)];

/// Steps in which a run that may have no filter is tried with more.
const QUARTERS: usize = 4;

/// The finest step around the best of these, reached by halving.
const FINEST: f64 = 1.0 / 100.0;

/// The number of last runs that are skipped.
const SKIPS: usize = 2;

/// The number of last runs at their first corner that are tried without a filter.
const EXCHANGES: usize = 2;

/// The rate of one kind of filter as a function of its bits. The first curve of a kind takes some
/// milliseconds to compute; it is kept, being a constant.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    kind: FilterKind,
    points: &'static Points,
}

/// The points of a curve.
#[derive(Debug)]
struct Points {
    /// Points of the curve itself, by rising bits: bits per entry and rate. Single precision is
    /// accurate enough, and half the memory.
    all: Box<[(f32, f32)]>,
    /// The corners of the hull, from 0 bits on: bits per entry.
    bits: Box<[f32]>,
    /// How much a bit per entry lowers the rate between a corner and the next; decreasing.
    slopes: Box<[f32]>,
}

static POINTS: [OnceLock<Points>; FilterKind::OF_ONE_PIECE.len()] =
    [const { OnceLock::new() }; FilterKind::OF_ONE_PIECE.len()];

/// An allocation in progress: the corner that each run has reached, and bits beyond it.
struct Served<'a> {
    curve: &'a Curve,
    runs: &'a [Load],
    corners: Vec<usize>,
    /// The run that stopped between two corners, and its bits per entry past the first of them.
    between: Option<(usize, f64)>,
}

/// The best allocation so far.
struct Best {
    cost: f64,
    allocated: Vec<f64>,
    /// Where a run got a part of the way to its first corner: the other runs, that run, and the
    /// part.
    edge: Option<(Vec<usize>, usize, f64)>,
}

impl Best {
    /// Keeps this allocation if it is better.
    fn offer(&mut self, curve: &Curve, runs: &[Load], allocated: Vec<f64>, edge: Option<(&[usize], usize, f64)>) {
        let cost = false_positives(runs, allocated.iter().map(|bits| curve.rate(*bits)));
        if cost < self.cost {
            let edge = edge.map(|(others, last, part)| (others.to_vec(), last, part));
            *self = Self { cost, allocated, edge };
        }
    }
}

impl Points {
    fn of(kind: FilterKind) -> Self {
        let mut probes = 1;
        let mut points = vec![(0.0, 1.0)];
        let mut bits = 0.0;
        for (until, step) in STEPS {
            while bits < until {
                bits += step;
                let rate = |probes| fpr(kind, bits, probes);
                // More bits never need fewer probes.
                while probes < kind.probes_max() && rate(probes + 1) < rate(probes) {
                    probes += 1;
                }
                points.push((bits, rate(probes)));
            }
        }
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for point in &points {
            while let [.., before, last] = hull[..]
                && slope(before, last) <= slope(last, *point)
            {
                hull.pop();
            }
            hull.push(*point);
        }
        // Where only rounding is left of a rate, more bits buy nothing.
        let useful = 1 + hull.windows(2).take_while(|pair| slope(pair[0], pair[1]) > 0.0).count();
        hull.truncate(useful);
        let slopes = hull.windows(2).map(|pair| slope(pair[0], pair[1]) as f32).collect();
        let bits = hull.iter().map(|(bits, _)| *bits as f32).collect();
        Self { all: points.iter().map(|(bits, rate)| (*bits as f32, *rate as f32)).collect(), bits, slopes }
    }
}

impl Curve {
    /// The curve of a kind whose filters are of one piece.
    ///
    /// # Panics
    /// For an elastic filter, whose units are whole: [`crate::filter_plan`] allocates them.
    pub fn new(kind: FilterKind) -> Self {
        let place = FilterKind::OF_ONE_PIECE.iter().position(|known| *known == kind);
        let place = place.unwrap_or_else(|| panic!("{} filters have no curve", kind.name()));
        Self { kind, points: POINTS[place].get_or_init(|| Points::of(kind)) }
    }
    /// The kind of filter.
    pub fn kind(&self) -> FilterKind {
        self.kind
    }

    /// The rate with this many bits per entry, from 0 on: that of [`crate::filter::predict`],
    /// looked up.
    pub fn rate(&self, bits_per_entry: f64) -> f64 {
        let past = self.points.all.partition_point(|(bits, _)| f64::from(*bits) <= bits_per_entry);
        let point = |at: usize| (f64::from(self.points.all[at].0), f64::from(self.points.all[at].1));
        if past == 0 || past == self.points.all.len() {
            return point(past.saturating_sub(1)).1;
        }
        let (before, after) = (point(past - 1), point(past));
        before.1 - slope(before, after) * (bits_per_entry - before.0)
    }

    /// Allocates at most `bits` with the fewest false positives, and returns bits per entry for
    /// each run; 0 where a run is better off without a filter. Fewer bits are used only if all runs
    /// have the most that are useful.
    ///
    /// # Panics
    /// If `bits` or a weight is negative or no number.
    pub fn allocate(&self, runs: &[Load], bits: f64) -> Vec<f64> {
        check(runs, bits);
        let mut takers: Vec<usize> = (0..runs.len()).filter(|&at| runs[at].counts()).collect();
        let per_bit = |at: &usize| runs[*at].weight / runs[*at].entries();
        takers.sort_by(|a, b| per_bit(b).total_cmp(&per_bit(a)));
        let mut best = Best { cost: f64::INFINITY, allocated: Vec::new(), edge: None };
        for _ in 0..=SKIPS {
            let (served, last) = self.consider(runs, &takers, bits, &mut best);
            for without in served.saturating_sub(EXCHANGES)..served {
                let others: Vec<usize> = takers.iter().copied().filter(|at| *at != takers[without]).collect();
                self.consider(runs, &others, bits, &mut best);
            }
            let Some(last) = last else { break };
            takers.retain(|&at| at != last);
        }
        // Between the quarters, halving the step.
        let mut step = 0.5 / QUARTERS as f64;
        while let Some((others, last, part)) = best.edge.clone().filter(|_| step > FINEST) {
            for part in [part - step, part + step].into_iter().filter(|part| (0.0..=1.0).contains(part)) {
                if let Some(allocated) = self.edge(runs, &others, last, part, bits) {
                    best.offer(self, runs, allocated, Some((&others, last, part)));
                }
            }
            step /= 2.0;
        }
        best.allocated
    }

    /// Offers the best ways to serve these runs. Returns how many of them reach their first corner,
    /// and which one stops before it.
    fn consider(&self, runs: &[Load], takers: &[usize], bits: f64, best: &mut Best) -> (usize, Option<usize>) {
        let served = self.serve(runs, takers, 0, bits);
        let last = served.between.map(|(run, _)| run).filter(|&run| served.corners[run] == 0);
        let others: Vec<usize> = takers.iter().copied().filter(|&at| served.corners[at] > 0).collect();
        let count = others.len();
        best.offer(self, runs, served.bits(), None);
        let Some(last) = last else { return (count, None) };
        for quarters in 0..=QUARTERS {
            let part = quarters as f64 / QUARTERS as f64;
            if let Some(allocated) = self.edge(runs, &others, last, part, bits) {
                best.offer(self, runs, allocated, Some((&others, last, part)));
            }
        }
        (count, Some(last))
    }

    /// The allocation in which `last` gets this part of the way to its first corner, at most all of
    /// it, and `others` share the rest; `None` if they cannot.
    fn edge(&self, runs: &[Load], others: &[usize], last: usize, part: f64, bits: f64) -> Option<Vec<f64>> {
        let allocated = if part < 1.0 {
            let left = bits - part * runs[last].entries() * self.corner(1);
            let mut allocated = self.serve(runs, others, 1, left).bits();
            allocated[last] = part * self.corner(1);
            allocated
        } else {
            let all: Vec<usize> = others.iter().copied().chain([last]).collect();
            self.serve(runs, &all, 1, bits).bits()
        };
        (used(runs, &allocated) <= bits * (1.0 + 1e-12)).then_some(allocated)
    }

    /// Bits per entry at a corner.
    fn corner(&self, corner: usize) -> f64 {
        f64::from(self.points.bits[corner])
    }

    /// What a bit per entry buys from a corner on.
    fn price(&self, corner: usize) -> f64 {
        f64::from(self.points.slopes[corner])
    }

    /// Serves `takers`, which have reached corner `from`, by falling prices, until `bits` are used
    /// up.
    fn serve<'a>(&'a self, runs: &'a [Load], takers: &[usize], from: usize, bits: f64) -> Served<'a> {
        let mut served = Served { curve: self, runs, corners: vec![0; runs.len()], between: None };
        if takers.is_empty() {
            return served;
        }
        // The corner that a run goes to at this price.
        let corner = |at: usize, price: f64| {
            let worth = price * runs[at].entries() / runs[at].weight;
            self.points.slopes.partition_point(|slope| f64::from(*slope) > worth).max(from)
        };
        let used_at =
            |price: f64| -> f64 { takers.iter().map(|&at| runs[at].entries() * self.corner(corner(at, price))).sum() };
        let per_bit = |at: usize| runs[at].weight / runs[at].entries();
        let (least, most) =
            takers.iter().map(|&at| per_bit(at)).fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        // No run buys at the high price, every run buys everything at the low one; a factor ensures
        // both despite rounding.
        let mut high = most * self.price(0) * 2.0;
        let mut low = least * self.price(self.points.slopes.len() - 1) / 2.0;
        let mut steps_between = usize::MAX;
        while steps_between > takers.len() && high / low > 1.0 + 1e-12 {
            let price = (high * low).sqrt();
            if used_at(price) <= bits {
                high = price
            } else {
                low = price
            }
            steps_between = takers.iter().map(|&at| corner(at, low) - corner(at, high)).sum();
        }
        // Purchases between the two prices, dearest first.
        let mut purchases: Vec<(f64, usize, usize)> = Vec::with_capacity(steps_between);
        for &at in takers {
            served.corners[at] = corner(at, high);
            purchases
                .extend((corner(at, high)..corner(at, low)).map(|step| (per_bit(at) * self.price(step), at, step)));
        }
        purchases.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut left = bits - used_at(high);
        for (_, at, step) in purchases {
            let width = self.corner(step + 1) - self.corner(step);
            let needed = width * runs[at].entries();
            if needed > left {
                served.between = (left > 0.0).then(|| (at, left / runs[at].entries()));
                break;
            }
            left -= needed;
            served.corners[at] = step + 1;
        }
        served
    }
}

impl Served<'_> {
    /// Bits per entry of each run.
    fn bits(&self) -> Vec<f64> {
        let mut bits: Vec<f64> = self.corners.iter().map(|&corner| self.curve.corner(corner)).collect();
        debug_assert_eq!(bits.len(), self.runs.len());
        if let Some((at, more)) = self.between {
            bits[at] += more;
        }
        bits
    }
}

/// How much a bit lowers the rate from one point to another.
fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (from.1 - to.1) / (to.0 - from.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::predict;

    /// The hull begins without bits, its prices fall, and it is nowhere above the curve by more
    /// than the distance of points makes, nor far below from its first corner on.
    #[test]
    fn hull_is_below_the_curve() {
        for kind in FilterKind::OF_ONE_PIECE {
            let curve = Curve::new(kind);
            assert_eq!(curve.points.bits[0], 0.0);
            assert!(curve.points.slopes.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", kind);
            let mut at_corner = 1.0;
            for corner in 0..curve.points.slopes.len() {
                let (from, to, slope) = (curve.corner(corner), curve.corner(corner + 1), curve.price(corner));
                for part in 0..=8 {
                    let bits = from + (to - from) * f64::from(part) / 8.0;
                    let (hull, rate) = (at_corner - slope * (bits - from), predict(kind, bits).fpr);
                    assert!((curve.rate(bits) / rate - 1.0).abs() < 3e-3, "{kind:?} at {bits} bits: {rate}");
                    assert!(hull <= rate * 1.002 + 1e-7, "{kind:?} at {bits} bits: {hull} above {rate}");
                    let gap = if corner == 0 { 1.13 } else { 1.02 };
                    // A sum of many single-precision steps down.
                    assert!(rate <= hull * gap + 1e-7, "{kind:?} at {bits} bits: {rate} far above {hull}");
                }
                at_corner -= slope * (to - from);
            }
        }
    }
}
