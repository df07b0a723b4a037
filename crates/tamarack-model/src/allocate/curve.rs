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
//! next runs, which may be small enough for the rest. Conversely, the last run to reach its first
//! corner is tried without a filter. In the best of these allocations, pairs of runs around the
//! border then divide what they have together anew, if that gains enough: below the first corner,
//! two runs with about a bit per entry each are occasionally better than one with more. The result
//! is mostly far closer than 1 % to the optimum. Of 50,000 random trees of two or three runs the
//! worst is 0.76 % above it; of some 250,000 two were found, of 72 and 217 entries in all, that are
//! 1.04 and 1.2 % above it.

use std::sync::OnceLock;

use super::{Load, check, false_positives, used};
use crate::filter::{BITS_MAX, FilterKind, fpr};

/// Distance between two points of a curve below each of these bits per entry: fine where a curve
/// bends, coarse where it is almost straight. The straight line between two points is never more
/// than 0.2 % above the curve.
const STEPS: [(f64, f64); 3] = [(4.0, 1.0 / 32.0), (16.0, 1.0 / 8.0), (BITS_MAX, 1.0 / 4.0)];

/// Steps in which a run that may have no filter is tried with more.
const QUARTERS: usize = 4;

/// The number of last runs that are skipped.
const SKIPS: usize = 2;

/// The last run to reach its first corner is tried without a filter if it has at most this many
/// times the bits of that corner.
const CHEAP: f64 = 3.0;

/// Bits are exchanged between this many runs on either side of the border: the first run, by price,
/// that stays below its first corner.
const NEAR: usize = 2;

/// The number of times that all pairs of these runs are considered.
const ROUNDS: usize = 2;

/// An exchange must lower the false positives by more than this part: a smaller gain is not worth
/// an allocation that follows no price, which runs that are built one after the other would not
/// share.
const GAIN_MIN: f64 = 1.0 / 256.0;

/// Divisions of the bits of a pair that are tried: multiples of so many bits per entry for either
/// run, and their number; around the best one, half of the step and so on down to the finest.
const DIVISION: f64 = 1.0 / 4.0;
const DIVISIONS: u32 = 16;
const DIVISION_MIN: f64 = 1.0 / 128.0;

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
}

impl Best {
    /// Keeps this allocation if it is better.
    fn offer(&mut self, curve: &Curve, runs: &[Load], allocated: Vec<f64>) {
        let cost = false_positives(runs, allocated.iter().map(|bits| curve.rate(*bits)));
        if cost < self.cost {
            *self = Self { cost, allocated };
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
        let by_price = takers.clone();
        let mut best = Best { cost: f64::INFINITY, allocated: Vec::new() };
        for _ in 0..=SKIPS {
            let (served, last) = self.consider(runs, &takers, bits, &mut best);
            if let Some((marginal, _)) = served.filter(|(_, bits)| *bits <= CHEAP * self.corner(1)) {
                let others: Vec<usize> = takers.iter().copied().filter(|at| *at != marginal).collect();
                self.consider(runs, &others, bits, &mut best);
            }
            let Some(last) = last else { break };
            takers.retain(|&at| at != last);
        }
        let mut exchanged = best.allocated.clone();
        self.exchange(runs, &by_price, &mut exchanged);
        let cost = false_positives(runs, exchanged.iter().map(|bits| self.rate(*bits)));
        if cost < best.cost * (1.0 - GAIN_MIN) { exchanged } else { best.allocated }
    }

    /// Divides the bits of pairs of runs around the border anew, where that is better.
    fn exchange(&self, runs: &[Load], by_price: &[usize], allocated: &mut [f64]) {
        let border = by_price.iter().position(|&at| allocated[at] < self.corner(1)).unwrap_or(by_price.len());
        let near = &by_price[border.saturating_sub(NEAR)..(border + NEAR).min(by_price.len())];
        for _ in 0..ROUNDS {
            for (index, &a) in near.iter().enumerate() {
                for &b in &near[index + 1..] {
                    [allocated[a], allocated[b]] = self.divide([runs[a], runs[b]], [allocated[a], allocated[b]]);
                }
            }
        }
    }

    /// The best division of two runs' bits that is found, in bits per entry; `present` if none is
    /// better.
    fn divide(&self, [a, b]: [Load; 2], present: [f64; 2]) -> [f64; 2] {
        let total = present[0] * a.entries() + present[1] * b.entries();
        let rest = |of_a: f64| (total - of_a * a.entries()) / b.entries();
        let cost = |[of_a, of_b]: [f64; 2]| a.weight * self.rate(of_a) + b.weight * self.rate(of_b);
        let mut best = (cost(present), present);
        let offer = |best: &mut (f64, [f64; 2]), of_a: f64| {
            let division = [of_a, rest(of_a)];
            if division.iter().all(|bits| (0.0..=BITS_MAX).contains(bits)) && cost(division) < best.0 * (1.0 - 1e-9) {
                *best = (cost(division), division);
            }
        };
        for step in 0..=DIVISIONS {
            let bits = f64::from(step) * DIVISION;
            offer(&mut best, bits);
            offer(&mut best, (total - bits * b.entries()) / a.entries());
        }
        let mut step = DIVISION / 2.0;
        while step >= DIVISION_MIN {
            for step in [step, step * b.entries() / a.entries()] {
                let of_a = best.1[0];
                offer(&mut best, of_a - step);
                offer(&mut best, of_a + step);
            }
            step /= 2.0;
        }
        best.1
    }

    /// Offers the best ways to serve these runs. Returns the last one that reaches its first
    /// corner, with its bits per entry, and the one that stops before it.
    fn consider(
        &self,
        runs: &[Load],
        takers: &[usize],
        bits: f64,
        best: &mut Best,
    ) -> (Option<(usize, f64)>, Option<usize>) {
        let served = self.serve(runs, takers, 0, bits);
        let last = served.between.map(|(run, _)| run).filter(|&run| served.corners[run] == 0);
        let others: Vec<usize> = takers.iter().copied().filter(|&at| served.corners[at] > 0).collect();
        let marginal = others.last().map(|&at| (at, self.corner(served.corners[at])));
        best.offer(self, runs, served.bits());
        let Some(last) = last else { return (marginal, None) };
        for quarters in 0..=QUARTERS {
            let part = quarters as f64 / QUARTERS as f64;
            if let Some(allocated) = self.edge(runs, &others, last, part, bits) {
                best.offer(self, runs, allocated);
            }
        }
        (marginal, Some(last))
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
