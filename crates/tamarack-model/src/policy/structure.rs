//! How a tree's levels above the last are divided, so that searching and rewriting them costs least: MOOSE's dynamic program (section 3.4, Eq. 12), corrected.
//!
//! Given the buffer `F`, the last level `N_L`, and what all levels above it hold together, `U` (a whole number of buffers), the ratios `r_1 .. r_(L-2)` are
//! whole numbers, at least 2, level L-1 takes all that is left, and the sum of what each level costs is least:
//!
//! ```text
//! F                                                                                                      N_L
//! ▪──r_1──▶▭▭──r_2──▶▭▭▭▭▭──r_3──▶▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭──what is left──▶▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭──r_L──▶ (given)
//!          └──────────────────────────── U in all ─────────────────────────────────────────────┘
//! ```
//!
//! The paper's cost of a level is `√r`: for `n = √r` runs, that is both the runs that a scan meets there and the times that an entry is rewritten
//! ([`LevelCost::Root`]). Where the workload is known, [`LevelCost::Mixed`] is nearer to what it pays.
//!
//! **As printed**, Eq. 12 lets up to two thirds of a level go uncharged (what is left is added to a level whose cost stays the same), and so returns lopsided
//! trees. Here what is left is a level of its own, and at least twice the one above; the last level is at least one and a half times that, or it would be no level of a
//! [shape](crate::shape).
//!
//! # How it is found
//!
//! What follows depends on two numbers: the product of the ratios so far, and what the levels so far hold. Products are taken in
//! ascending order; for each one, the cheapest way to it is kept for every sum that differs by more than 1/4096 of `U` (so up to U = 4096 the
//! program is exact, and above it is off by less than a thousandth, since a sum that is so little larger changes the
//! remaining ratios as little). What cannot lead to less than the best structure that is known is dropped: its cost so far, and the least that is possible with real
//! numbers from there. For MOOSE's √r and a last level of 80 %, that leaves some hundred ways of N/F = 2^20.
//!
//! Tests: `tests/moose.rs`: brute force up to N/F = 2,000. Speed: `cargo run --release -p tamarack-model --example structure_speed`.

use std::collections::BTreeMap;

/// What a level costs, by its size ratio alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelCost {
    /// `√r`: MOOSE, section 3.4.
    Root,
    /// What a workload pays for a level with as many runs as are best for it, a whole number from 1 to `r`: `min_n (range · n + update · r / n)`.
    Mixed {
        /// Cost of one more run, for an operation: the share of scans (MOOSE's s), above 0.
        range: f64,
        /// Cost of one more rewriting of each entry, for an operation: the share of updates over entries to a block (u/B), above 0.
        update: f64,
    },
}

impl LevelCost {
    /// The cost of a level of this ratio, at least 1.
    pub fn of(self, ratio: f64) -> f64 {
        match self {
            Self::Root => ratio.sqrt(),
            Self::Mixed { range, update } => {
                let at = |runs: f64| range * runs + update * ratio / runs;
                let (most, best) = (ratio.floor().max(1.0), (update * ratio / range).sqrt().floor());
                at(best.clamp(1.0, most)).min(at((best + 1.0).clamp(1.0, most)))
            }
        }
    }

    /// Not more than [`of`](Self::of), rising with the ratio, and convex in its logarithm: the same with any number of runs from 1 to r.
    fn at_least(self, ratio: f64) -> f64 {
        match self {
            Self::Root => ratio.sqrt(),
            Self::Mixed { range, update } => {
                let runs = (update * ratio / range).sqrt().clamp(1.0, ratio.max(1.0));
                range * runs + update * ratio / runs
            }
        }
    }
}

/// Capacities of levels 1 to L-1 in buffers, for a last level of `last` buffers, if they hold `above` together. Empty if there is no structure that keeps to the rules, as
/// for less than two: then the tree has one level.
///
/// # Panics
/// If `last` or a part of the cost is not a number above 0.
pub fn levels_above(above: u64, last: f64, cost: LevelCost) -> Vec<u64> {
    assert!(last > 0.0 && last.is_finite(), "a last level of {last} buffers");
    if let LevelCost::Mixed { range, update } = cost {
        assert!(range > 0.0 && update > 0.0, "{cost:?}");
    }
    Search { above, last, cost, bound: f64::INFINITY, done: Vec::new() }.run()
}

/// The least ratio of the last level: what a shape asks of any.
const LAST_RATIO_MIN: f64 = 1.5;

/// Ways to the same product whose sums differ by no more than this part of all are taken for one.
const SUMS: u128 = 4096;

/// The largest ratio that structures of neighbouring ratios are tried with, to begin from.
const GUESSED_MAX: u64 = 256;

struct Search {
    above: u64,
    last: f64,
    cost: LevelCost,
    /// What a structure that is known costs.
    bound: f64,
    /// All ways that were looked at: the capacity of their last level, and the way that it continues.
    done: Vec<(u64, usize)>,
}

/// Levels from the buffer on.
#[derive(Clone, Copy)]
struct Way {
    cost: f64,
    /// Buffers in all of them.
    sum: u64,
    /// The index, among those that are done, of the way without the last one.
    from: usize,
}

/// Products from the first to the last of a range, and the least that is to pay from any of them on.
struct Block {
    first: u64,
    last: u64,
    rest: f64,
}

impl Search {
    fn run(mut self) -> Vec<u64> {
        self.guess();
        let blocks = self.blocks();
        let mut open: BTreeMap<u64, Vec<Way>> = BTreeMap::new();
        open.insert(1, vec![Way { cost: 0.0, sum: 0, from: 0 }]);
        let mut best: Option<(f64, usize, u64)> = None;
        while let Some((product, ways)) = open.pop_first() {
            for way in ways {
                let index = self.done.len();
                self.done.push((product, way.from));
                let whole = way.cost + self.finish(product, way.sum);
                if whole.is_finite() && whole <= self.bound && best.is_none_or(|(least, ..)| whole < least) {
                    self.bound = whole;
                    best = Some((whole, index, self.above - way.sum));
                }
                self.extend(product, way, index, &blocks, &mut open);
            }
        }
        let Some((_, mut index, left)) = best else { return Vec::new() };
        let mut levels = vec![left];
        while self.done[index].0 > 1 {
            levels.push(self.done[index].0);
            index = self.done[index].1;
        }
        levels.reverse();
        levels
    }

    /// What it costs to end here: the level that takes all that is left, and the last.
    fn finish(&self, product: u64, sum: u64) -> f64 {
        let left = self.above - sum;
        if left / 2 < product || self.last < LAST_RATIO_MIN * left as f64 {
            return f64::INFINITY;
        }
        self.cost.of(left as f64 / product as f64) + self.cost.of(self.last / left as f64)
    }

    /// A good structure, to compare with: of ratios that are all alike, or some one larger.
    fn guess(&mut self) {
        self.bound = self.finish(1, 0);
        for ratio in 2..=(self.above / 3).min(GUESSED_MAX) {
            let mut small = Some((1, 0, 0.0));
            while let Some(way) = small {
                let mut large = Some(way);
                while let Some((product, sum, cost)) = large {
                    self.bound = self.bound.min(cost + self.finish(product, sum));
                    large = self.next((product, sum, cost), ratio + 1);
                }
                small = self.next(way, ratio);
            }
        }
        // Rounding must not drop the structure itself.
        self.bound *= 1.0 + 1e-9;
    }

    fn next(&self, (product, sum, cost): (u64, u64, f64), ratio: u64) -> Option<(u64, u64, f64)> {
        let product = product.checked_mul(ratio).filter(|product| *product <= (self.above - sum) / 3)?;
        Some((product, sum + product, cost + self.cost.of(ratio as f64)))
    }

    /// All products that can lie above level L-1, in blocks of a few percent.
    fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut first) = (Vec::new(), 1);
        while first <= self.above / 3 {
            let last = first + first / 16;
            // All levels until this one hold less than twice as much as it.
            let left = (self.above.saturating_sub(2 * last) as f64, (self.above - first) as f64);
            let rest = if self.last < 3.0 * self.above as f64 {
                self.rest_by_ratio(last as f64, left)
            } else {
                self.rest(last as f64, (left.0 / 2.0, left.1), 0.0)
            };
            blocks.push(Block { first, last, rest: rest * (1.0 - 1e-9) });
            first = last + 1;
        }
        blocks
    }

    /// The least cost of one level or several from `from` buffers to some number within `reached`, in real numbers, and of the last of the tree, of which level L-1 is
    /// `below` times what is reached (the same if that is 0). For each number of levels, equal ratios are best, since costs are convex; in the number of levels,
    /// the sum is convex, too.
    fn rest(&self, from: f64, (least, most): (f64, f64), below: f64) -> f64 {
        let most = most.min(self.last / LAST_RATIO_MIN);
        let least = least.min(most);
        let divided = below.max(1.0);
        let mut found = f64::INFINITY;
        for levels in 1..=64 {
            let levels = f64::from(levels);
            let alike = ((self.last.ln() * levels + (divided * from).ln()) / (levels + 1.0)).exp();
            let reached = alike.clamp(least, most).max(from);
            let each = (reached / divided / from).max(1.0).powf(1.0 / levels);
            let cost = levels * self.cost.at_least(each) + self.cost.at_least((self.last / reached).max(1.0));
            if cost >= found {
                break;
            }
            found = cost;
        }
        found
    }

    /// The same, nearer to the truth where the last level is not much larger than all others, so that level L-1 cannot take nearly all of them: how much it takes depends on
    /// its ratio x, as level L-2 has 1/x of that, and all levels above less than twice as much as level L-2.
    fn rest_by_ratio(&self, from: f64, left: (f64, f64)) -> f64 {
        let mut found = self.rest_of_one(from, left);
        let mut ratio = 2.0;
        while ratio * from <= left.1 && self.cost.at_least(ratio) < found {
            let next = ratio * 1.08;
            let reached = (left.0 / (1.0 + 2.0 / ratio), left.1 / (1.0 + 1.0 / next));
            found = found.min(self.cost.at_least(ratio) + self.rest(from, reached, next));
            ratio = next;
        }
        found
    }

    /// If what is left becomes one level.
    fn rest_of_one(&self, from: f64, (least, most): (f64, f64)) -> f64 {
        let most = most.min(self.last / LAST_RATIO_MIN);
        if most < least {
            return f64::INFINITY;
        }
        let reached = (self.last * from).sqrt().clamp(least, most).max(from);
        self.cost.at_least(reached / from) + self.cost.at_least((self.last / reached).max(1.0))
    }

    /// Ways with one more level, as far as they may lead to less than what is known.
    fn extend(&self, product: u64, way: Way, index: usize, blocks: &[Block], open: &mut BTreeMap<u64, Vec<Way>>) {
        // One more level, and at least twice as much for the next.
        let most = (self.above - way.sum) / (3 * product);
        let begin = blocks.partition_point(|block| block.last < 2 * product);
        for block in &blocks[begin..] {
            let (first, last) = (block.first.div_ceil(product).max(2), (block.last / product).min(most));
            if first > most {
                break;
            }
            if first > last || way.cost + self.cost.at_least(first as f64) + block.rest > self.bound {
                continue;
            }
            for ratio in first..=last {
                let cost = way.cost + self.cost.of(ratio as f64);
                if cost + block.rest <= self.bound {
                    let sum = way.sum + product * ratio;
                    self.keep(open.entry(product * ratio).or_default(), Way { cost, sum, from: index });
                }
            }
        }
    }

    /// Adds a way to those of the same product, unless there is a cheaper one of about the same sum.
    fn keep(&self, ways: &mut Vec<Way>, way: Way) {
        let class = |way: &Way| u128::from(way.sum) * SUMS / u128::from(self.above);
        match ways.iter_mut().find(|other| class(other) == class(&way)) {
            Some(other) if other.cost <= way.cost => {}
            Some(other) => *other = way,
            None => ways.push(way),
        }
    }
}
