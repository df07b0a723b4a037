//! The split of main memory between memtable and filters, for one merge policy and size ratio.
//!
//! With x bits for filters, the paper writes the cost of an operation as (Eq. 25, 41)
//!
//! ```text
//! cost(x) = α e^(-β x) + γ ln(δ / (M̂ - x)) + C
//!           lookups: fewer     scans and updates: more levels with a
//!           false positives    smaller memtable
//! ```
//!
//! which is convex, and finds the zero of its derivative by Newton's method: [`algorithm_5`]. Two
//! things are missing in it:
//!
//! 1. It has the `L_u = 0` branch of `Z` only, as if false positive rates could exceed 1. The cost
//!    is never too high, so a split of at least `M_th^L` bits for filters is the best one. A split
//!    below that need not be.
//! 2. `L` is not limited to 1 from below: data that fits into the memtable has a negative cost.
//!
//! [`best_split`] has neither fault. `Z` consists of pieces of constant `L_u`
//! ([`LookupPiece`]), each of the form above with an α, a β and a constant of its own. In each of
//! them the cost is convex, also where `L` is 1 up to some x, so the best x is the zero of the
//! derivative, moved to where `L` begins to rise, and then into the piece:
//!
//! ```text
//! cost  │╲                         pieces, from right to left: no level without filters,
//!       │ ╲      ╭─╮               the largest one, the two largest, …
//!       ○  ╲    ╱   ╲        ╱
//!       │   ╲__╱     ╲__•___╱      ○ no filters at all: where few levels are left, filters of a
//!       └──────┴──────┴─────── x     few bits cost more than they save
//! ```
//!
//! The zero has a closed form: with `y = β (M̂ - x)`, `y + ln y = βM̂ + ln(γ/α)` (Lambert's W),
//! which Newton's method solves in a few steps.

use std::iter;

use super::setting::{BOUND_TOLERANCE, CostBounds, MonkeyDesign, MonkeySetting};
use crate::cost::monkey::{LookupPiece, MonkeyTree};

/// The split of memory as the paper prints it: Algorithm 5 (`optimalMemoryForFilters`), with the α
/// of Eq. 26 and 42 (Appendix C repeats Eq. 38's misprint). It stops when a step of Newton's method
/// is no larger than a block.
///
/// Where it gives filters less than `M_th^L` bits, the cost can be far above the least one; see
/// [`best_split`]. If only existing keys are looked up in a leveled tree, α is 0 and it gives
/// filters nothing.
///
/// # Panics
/// If a size of the setting is 0.
pub fn algorithm_5(setting: &MonkeySetting, tree: MonkeyTree) -> MonkeyDesign {
    setting.check();
    let parts = CostParts::of_workload(setting, tree);
    let (memory, page) = (parts.memory_bits, parts.page_bits);
    let (alpha, beta) = parts.exponential(&tree.lookup_piece(0, parts.found));
    let gamma = parts.gamma();
    let h = |x: f64| x - (alpha * beta / gamma * (memory - x)).ln() / beta;
    let slope = |x: f64| 1.0 + 1.0 / (beta * (memory - x));
    let mut x = memory - page;
    if alpha == 0.0 || memory <= gamma / (alpha * beta) || x <= 0.0 {
        return parts.design(0.0);
    }
    // Without scans and updates γ is 0, h is -∞, and all but one block goes to filters.
    if h(x) > 0.0 {
        let mut error = memory;
        while error > page {
            let next = x - h(x) / slope(x);
            error = (next - x).abs();
            x = next;
        }
    }
    parts.design(x)
}

/// The split of memory with the least cost of an operation, by [`MonkeySetting::price`]; among
/// equals, the one with the cheapest lookups. Filters get everything but one block at most.
///
/// # Panics
/// If a size of the setting is 0.
pub fn best_split(setting: &MonkeySetting, tree: MonkeyTree) -> MonkeyDesign {
    let split = best_split_within(setting, tree, &CostBounds::default());
    split.expect("without bounds, a tree without filters is a design")
}

/// [`best_split`] among the splits with which lookups and updates cost no more than `bounds`;
/// `None` if there are none.
///
/// A bound on `W` limits the bits for filters from above, a bound on `Z` from below, except for
/// trees that meet it without filters.
///
/// # Panics
/// If a size of the setting is 0.
pub fn best_split_within(setting: &MonkeySetting, tree: MonkeyTree, bounds: &CostBounds) -> Option<MonkeyDesign> {
    setting.check();
    CostParts::of_workload(setting, tree).best_within(bounds)
}

/// The split within `bounds` with the cheapest lookups, whatever scans and updates cost.
pub(super) fn cheapest_lookups(setting: &MonkeySetting, tree: MonkeyTree, bounds: &CostBounds) -> Option<MonkeyDesign> {
    CostParts { lookups: 1.0, per_level: 0.0, ..CostParts::of_workload(setting, tree) }.best_within(bounds)
}

/// The split within `bounds` with the cheapest updates, which also has the cheapest scans.
pub(super) fn cheapest_updates(setting: &MonkeySetting, tree: MonkeyTree, bounds: &CostBounds) -> Option<MonkeyDesign> {
    CostParts { lookups: 0.0, per_level: 1.0, ..CostParts::of_workload(setting, tree) }.best_within(bounds)
}

/// The parts of the cost that depend on the split: `lookups · Z + per_level · L`.
struct CostParts<'a> {
    setting: &'a MonkeySetting,
    tree: MonkeyTree,
    /// `M̂`.
    memory_bits: f64,
    /// The least memtable: a block.
    page_bits: f64,
    /// `δ`: a memtable of this many bits would make `L`, before its limit, 0.
    delta: f64,
    /// `v / (v + 1)`.
    found: f64,
    /// `z`.
    lookups: f64,
    /// Block reads of scans and updates for each level, by their shares.
    per_level: f64,
}

impl<'a> CostParts<'a> {
    fn of_workload(setting: &'a MonkeySetting, tree: MonkeyTree) -> Self {
        let update = tree.update(1.0, setting.per_block(), setting.write_cost);
        Self {
            setting,
            tree,
            memory_bits: setting.memory.as_f64() * 8.0,
            page_bits: setting.block_bytes as f64 * 8.0,
            delta: setting.data_bytes() * 8.0 * (tree.ratio - 1.0) / tree.ratio,
            found: setting.found(),
            lookups: setting.lookups(),
            per_level: setting.workload.ranges * tree.runs() + setting.workload.updates * update,
        }
    }

    /// `γ` of Eq. 43.
    fn gamma(&self) -> f64 {
        self.per_level / self.tree.ratio.ln()
    }

    /// `α` and `β` of a piece of `Z`: those of Eq. 42 and 44 for the one without unfiltered levels.
    fn exponential(&self, piece: &LookupPiece) -> (f64, f64) {
        (self.lookups * piece.factor, piece.decay / self.setting.entries as f64)
    }

    fn design(&self, filter_bits: f64) -> MonkeyDesign {
        MonkeyDesign::dividing(self.setting.memory, self.tree, filter_bits)
    }

    fn best_within(&self, bounds: &CostBounds) -> Option<MonkeyDesign> {
        let (least, most) = self.limits(bounds);
        let levels_most = self.setting.levels(&self.design(most.max(0.0)));
        // With more levels unfiltered than there are, filters cost more than none.
        let pieces = (0..).take_while(|&unfiltered| f64::from(unfiltered) <= levels_most.max(1.0));
        let pieces = pieces.map(|unfiltered| self.tree.lookup_piece(unfiltered, self.found));
        let splits = iter::once(0.0).chain(pieces.filter_map(|piece| self.best_in(&piece, least, most)));
        let priced = splits.map(|filter_bits| {
            let design = self.design(filter_bits);
            (design, self.setting.price(&design))
        });
        let allowed = priced.filter(|(_, cost)| bounds.are_met_by(cost)).map(|(design, cost)| {
            let all = self.lookups * cost.lookup + self.per_level * self.setting.levels(&design);
            (design, [all, cost.lookup, design.filter_bits])
        });
        let order = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne());
        let least = allowed.min_by(|(_, a), (_, b)| order(a, b).unwrap_or(std::cmp::Ordering::Equal));
        least.map(|(design, _)| design)
    }

    /// Least and most bits for filters, if there are any filters. The least may be above the most.
    fn limits(&self, bounds: &CostBounds) -> (f64, f64) {
        let loosened = |bound: Option<f64>| bound.map_or(f64::INFINITY, |bound| bound * (1.0 + BOUND_TOLERANCE / 2.0));
        let least = self.tree.bits_for_mixed(loosened(bounds.lookup), self.found) * self.setting.entries as f64;
        let update = self.tree.update(1.0, self.setting.per_block(), self.setting.write_cost);
        let levels = loosened(bounds.update) / update;
        let buffer = (self.delta * self.tree.ratio.powf(-levels)).max(self.page_bits);
        (least, self.memory_bits - buffer)
    }

    /// The best x of a piece between these limits; `None` if the piece has none there.
    fn best_in(&self, piece: &LookupPiece, least: f64, most: f64) -> Option<f64> {
        let entries = self.setting.entries as f64;
        let (least, most) = (least.max(piece.from * entries), most.min(piece.to * entries));
        // Up to here there is one level, and more bits for filters cost scans and updates nothing.
        let one_level = self.memory_bits - self.delta / self.tree.ratio;
        (least <= most).then(|| self.stationary(piece).max(one_level).clamp(least, most))
    }

    /// The x at which the cost of a piece, extended beyond its ends, is least (Eq. 47); -∞ or ∞ if
    /// there is none.
    fn stationary(&self, piece: &LookupPiece) -> f64 {
        let ((alpha, beta), gamma) = (self.exponential(piece), self.gamma());
        if alpha == 0.0 {
            return f64::NEG_INFINITY;
        }
        if gamma == 0.0 {
            return f64::INFINITY;
        }
        let ln_y = ln_of_sum_with_its_logarithm((gamma / alpha).ln() + beta * self.memory_bits);
        self.memory_bits - ln_y.exp() / beta
    }
}

/// The `ln y` for which `y + ln y` is `sum`: Lambert's W of `e^sum`, without computing that.
fn ln_of_sum_with_its_logarithm(sum: f64) -> f64 {
    // e^t + t is convex and rises; from above its zero, steps only fall.
    let mut t = if sum > 1.0 { sum.ln() } else { sum };
    loop {
        let next = t - (t.exp() + t - sum) / (t.exp() + 1.0);
        // Rounding ends the fall, at the latest.
        if next >= t || t - next < 1e-12 * t.abs() {
            return next;
        }
        t = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The equation holds from tiny to huge sums.
    #[test]
    fn logarithms_solve_their_equation() {
        for sum in [-700.0, -5.0, 0.0, 0.5, 1.0, 1.5, 10.0, 1e6, 1e15] {
            let t = ln_of_sum_with_its_logarithm(sum);
            assert!((t.exp() + t - sum).abs() <= 1e-11 * f64::max(1.0, f64::abs(sum)), "{sum}: {t}");
        }
    }
}
