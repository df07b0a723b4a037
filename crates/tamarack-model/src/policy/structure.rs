//! How a tree's levels above the last are divided, so that searching and rewriting them costs
//! least: MOOSE's dynamic program (section 3.4, Eq. 12), corrected.
//!
//! Given the buffer `F`, the last level `N_L`, and the total capacity `U` of all levels above it (a
//! whole number of buffers), the ratios `r_1 .. r_(L-2)` are whole numbers, at least 2, level L-1
//! takes the rest of `U`, and the sum of the levels' costs is least:
//!
//! ```text
//! F                                                                                       N_L
//! ▪──r_1──▶▭▭──r_2──▶▭▭▭▭▭──r_3──▶▭▭▭▭▭▭▭▭▭▭▭▭▭──the rest──▶▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭▭──r_L──▶ (given)
//!          └──────────────────────────── U in all ───────────────────────────────────┘
//! ```
//!
//! The paper's cost of a level is `√r`: for `n = √r` runs, that is both the runs that a scan meets
//! there and the times that an entry is rewritten ([`LevelCost::Root`]). Where the workload is
//! known, [`LevelCost::Mixed`] is nearer to what it pays.
//!
//! **As printed**, Eq. 12 leaves up to two thirds of a level uncharged (the rest is added to a
//! level whose cost stays the same), and so returns lopsided trees. Here the rest is a level of its
//! own, at least twice the one above; the last level is at least one and a half times that, or it
//! would be no level of a [shape](crate::shape).
//!
//! # How it is found
//!
//! The rest of a structure depends on two numbers: the product of the ratios so far, and the sum of
//! the levels so far. Products are taken in ascending order; for each one, the cheapest way to it
//! is kept for every sum that differs by more than 1/4096 of `U` (so up to U = 4096 the program is
//! exact, and above it is off by less than a thousandth, since a sum that is so little larger
//! changes the remaining ratios as little). A way whose cost so far, plus the least possible from
//! there, is not below the best known structure's is dropped.
//!
//! **The least from a product on.** Whatever a structure has there, it ends in one of two ways.
//! Either level L-1 comes next; or there is a level of some product Q, at or after this one, then
//! one of a whole ratio x, then level L-1:
//!
//! ```text
//! product ──── levels between ────▶ Q ──x──▶ xQ ──▶ level L-1 = U - S ──▶ N_L
//! ```
//!
//! where S, the sum of all levels before L-1, is between xQ + Q and xQ + 2Q, since the levels until
//! Q sum to at least Q and less than twice that. So the cost of such an end is known within a few
//! percent of Q, though level L-1 takes the rest; the best division between the last two ratios
//! follows from convexity. Between the product and Q, real ratios can cost no less than
//! equal ones, as many as are best. Both are functions of one number, tabled over cells of products
//! that differ by 1/64; the least over Q is a sum for each pair of cells. Where the last level is
//! much larger than all others, level L-1 may take nearly all of them, and a simpler bound is as
//! good: one number of levels with equal ratios until level L-1.
//!
//! **The search begins from a structure** of ratios that are nearly alike, and keeps it until it
//! finds a cheaper one. So there is an answer wherever one exists that is easily found, also
//! where the search, which takes ways of nearly the same sum for one, meets none as cheap.
//!
//! **Time.** With [`LevelCost::Root`] the search takes at most 14 ms of processor time up to N/F =
//! 3 · 10^10. With [`LevelCost::Mixed`] it would have no bound: it grows with N/F, and where many
//! ratios cost nearly the same, since few ways can be dropped then. So it ends after [`STEPS_MAX`]
//! steps, with the cheapest structure so far. Tables of bounds and the structures to begin from
//! take a time that grows with a power of ln N/F.
//!
//! What that loses, beside searches of 16 times as many steps (release build, N/F from 10^4 to
//! 10^7, shares of the last level from 0.5 to 0.8, `range` and `update` from common workloads to
//! one 100,000 times the other): nothing in 124 of 140 cases, at most 0.7 % for common workloads
//! and 2.1 % for extreme ones.
//!
//! Tests: `tests/suite/moose.rs`: brute force up to N/F = 2,000; random trees up to 3 · 10^10 are
//! sound, and cost no more than ratios that are alike. Speed: `cargo run --release -p
//! tamarack-model --example structure_speed`.

use std::collections::BTreeMap;

use crate::shape::{Level, Shape, ShapeError};
use crate::units::Bytes;

/// What a level costs, by its size ratio alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelCost {
    /// `√r`: MOOSE, section 3.4.
    Root,
    /// What a workload pays for a level with as many runs as are best for it, a whole number from 1
    /// to `r`: `min_n (range · n + update · r / n)`.
    Mixed {
        /// Cost of one more run, for an operation: the share of scans (MOOSE's s), above 0.
        range: f64,
        /// Cost of one more rewriting of each entry, for an operation: the share of updates over
        /// entries to a block (u/B), above 0.
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

    /// Not more than [`of`](Self::of), rising with the ratio, and convex in its logarithm: the same
    /// with any number of runs from 1 to r.
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

/// Capacities of levels 1 to L-1 in buffers, for a last level of `last` buffers, if they hold
/// `above` together. Empty if there is no structure that keeps to the rules, as for less than two:
/// then the tree has one level.
///
/// With [`LevelCost::Mixed`] the search ends after [`STEPS_MAX`] steps, with the cheapest structure
/// that it has met by then; the [page of the module](self) says what that costs.
///
/// # Panics
/// If `last` or a part of the cost is not a number above 0.
pub fn levels_above(above: u64, last: f64, cost: LevelCost) -> Vec<u64> {
    assert!(last > 0.0 && last.is_finite(), "a last level of {last} buffers");
    let steps_max = match cost {
        LevelCost::Root => u64::MAX,
        LevelCost::Mixed { range, update } => {
            assert!(range > 0.0 && update > 0.0, "{cost:?}");
            STEPS_MAX
        }
    };
    let mut search = Search::new(above, last, cost, steps_max);
    search.run();
    search.levels()
}

/// Steps of a search with [`LevelCost::Mixed`], at most. A step is one ratio that is tried for a
/// level, or one comparison of two ways.
pub const STEPS_MAX: u64 = 1 << 18;

/// Run slots of a level of this size ratio: `k √r`, rounded, at least 1 and at most one for each
/// batch. MOOSE, section 3.3, with whole numbers.
pub fn run_slots(regulator: f64, ratio: f64) -> u32 {
    (regulator * ratio.sqrt()).round().min(ratio.floor()).max(1.0) as u32
}

/// The shape with levels of these capacities in buffers, level 1 first, each in
/// [`run_slots`]`(k, r)` runs.
///
/// # Errors
/// If a level holds less than one and a half of the one above, or there is no level.
pub fn shape_of(capacities: &[u64], regulator: f64, buffer: Bytes) -> Result<Shape, ShapeError> {
    let mut batch = 1;
    let levels = capacities.iter().map(|capacity| {
        let ratio = *capacity as f64 / batch as f64;
        batch = *capacity;
        Level { capacity: buffer * *capacity, runs: run_slots(regulator, ratio) }
    });
    Shape::new(buffer, levels.collect())
}

/// The least ratio of the last level: what a shape asks of any.
const LAST_RATIO_MIN: f64 = 1.5;

/// Ways to the same product whose sums differ by no more than this part of all are taken for one.
const SUMS: u128 = 4096;

/// The largest ratio that structures of neighbouring ratios are tried with, to begin from. With
/// [`LevelCost::Mixed`] larger ones are tried, too, this part of them apart: where scans cost next
/// to nothing, ratios of thousands are best.
const GUESSED_MAX: u64 = 256;
const GUESSED_APART: u64 = 16;
const GUESSED_ODD_MAX: u64 = 12;

/// With [`LevelCost::Mixed`], the level before L-1 is also guessed to be one of a third to a part
/// of this size of what is left for both.
const GUESSED_PARTS_MAX: u64 = 8;

struct Search {
    above: u64,
    last: f64,
    cost: LevelCost,
    /// Cells of products to a factor e.
    cells_per_e: f64,
    /// The cheapest structure that is known, the answer in the end. What costs more is not
    /// followed.
    best: Structure,
    /// All ways that were looked at: the capacity of their last level, and the way that it
    /// continues. The first has no level yet.
    done: Vec<(u64, usize)>,
    /// Ratios and comparisons that the search may still try.
    steps_left: u64,
}

/// A structure that is known.
#[derive(Clone, Copy)]
struct Structure {
    /// Infinite as long as there is none.
    cost: f64,
    /// The index, among ways that are done, of that through levels 1 to L-2.
    way: usize,
    /// What level L-1 takes.
    left: u64,
}

/// Below this many times all levels above it, the last level is near to them: level L-1 cannot take
/// nearly all of them then, or the last were too close to it.
const NEAR: f64 = 3.0;

/// So many cells of products are one factor e, where the last level is near to the others and where
/// it is not. With twice as many, bounds are closer to the truth and take as much longer.
const CELLS_NEAR: f64 = 64.0;
const CELLS_FAR: f64 = 16.0;

/// Ratios that differ by less than this part of them are one group in tables for
/// [`LevelCost::Mixed`], as products in a cell.
const GROUPED_PART: u64 = 64;

/// Levels from the buffer on.
#[derive(Clone, Copy)]
struct Way {
    cost: f64,
    /// Buffers in all of them.
    sum: u64,
    /// The index, among those that are done, of the way without the last one.
    from: usize,
}

/// The capacity of a guessed way's last level, the way, and its index among those that are done.
type Guess = (u64, Way, usize);

/// Products from the first to the last of a cell, and the least that is to pay from any of them on.
struct Block {
    first: u64,
    last: u64,
    rest: f64,
    /// The least from any of these or larger ones on.
    rest_of_larger: f64,
}

impl Search {
    fn new(above: u64, last: f64, cost: LevelCost, steps_max: u64) -> Self {
        let cells_per_e = if last < NEAR * above as f64 { CELLS_NEAR } else { CELLS_FAR };
        let nothing = Structure { cost: f64::INFINITY, way: 0, left: 0 };
        Self { above, last, cost, cells_per_e, best: nothing, done: vec![(1, 0)], steps_left: steps_max }
    }

    fn run(&mut self) {
        self.guess();
        let blocks = self.blocks();
        let mut open: BTreeMap<u64, Vec<Way>> = BTreeMap::new();
        open.insert(1, vec![Way { cost: 0.0, sum: 0, from: 0 }]);
        while let Some((product, ways)) = open.pop_first() {
            for way in ways {
                if self.steps_left == 0 {
                    return;
                }
                let index = self.done(product, way.from);
                self.end_here(product, way, index);
                self.extend(product, way, index, &blocks, &mut open);
            }
        }
    }

    /// Capacities of the best structure's levels 1 to L-1; none if there is no structure.
    fn levels(&self) -> Vec<u64> {
        if self.best.cost.is_infinite() {
            return Vec::new();
        }
        let (mut levels, mut way) = (vec![self.best.left], self.best.way);
        while self.done[way].0 > 1 {
            levels.push(self.done[way].0);
            way = self.done[way].1;
        }
        levels.reverse();
        levels
    }

    /// Notes a way whose last level has this capacity, and says where.
    fn done(&mut self, product: u64, from: usize) -> usize {
        self.done.push((product, from));
        self.done.len() - 1
    }

    /// Takes the structure that this way makes if the next level is L-1, if none is known that
    /// costs as little.
    fn end_here(&mut self, product: u64, way: Way, index: usize) {
        let cost = way.cost + self.finish(product, way.sum);
        if cost < self.best.cost {
            self.best = Structure { cost, way: index, left: self.above - way.sum };
        }
    }

    /// What it costs to end here: the level that takes all that is left, and the last.
    fn finish(&self, product: u64, sum: u64) -> f64 {
        let left = self.above - sum;
        if left / 2 < product || self.last < LAST_RATIO_MIN * left as f64 {
            return f64::INFINITY;
        }
        self.cost.of(left as f64 / product as f64) + self.cost.of(self.last / left as f64)
    }

    /// A good structure, to begin from: of ratios that are all alike, or some one larger, and
    /// perhaps another one. It is the answer where the search finds none that is cheaper.
    fn guess(&mut self) {
        let begin = (1, Way { cost: 0.0, sum: 0, from: 0 }, 0);
        self.end_here(begin.0, begin.1, begin.2);
        let mut next = 2;
        while next <= self.above / 3 && (next <= GUESSED_MAX || self.cost != LevelCost::Root) {
            let ratio = next;
            next += if ratio < GUESSED_MAX { 1 } else { ratio / GUESSED_APART };
            let mut small = Some(begin);
            while let Some(way) = small {
                let mut large = Some(way);
                while let Some(way) = large {
                    for odd in 2..=GUESSED_ODD_MAX {
                        if self.guess_next(way, odd).is_none() {
                            break;
                        }
                    }
                    if self.cost != LevelCost::Root {
                        self.guess_largest(way);
                    }
                    large = self.guess_next(way, ratio + 1);
                }
                small = self.guess_next(way, ratio);
            }
        }
    }

    /// Extends a guessed way by a level of a third, a fourth and so on of what is left: where the
    /// last level is near to the others, level L-1 cannot take nearly all of them, however large
    /// the best ratios are.
    fn guess_largest(&mut self, way: Guess) {
        let (product, Way { sum, .. }, _) = way;
        for part in 3..=GUESSED_PARTS_MAX {
            let ratio = (self.above - sum) / (part * product);
            if ratio < 2 {
                break;
            }
            self.guess_next(way, ratio);
        }
    }

    /// Extends a guessed way by a level of this ratio, if enough is left for that, and takes the
    /// structure that ends there if it is the cheapest.
    fn guess_next(&mut self, (product, way, index): Guess, ratio: u64) -> Option<Guess> {
        let product = product.checked_mul(ratio).filter(|product| *product <= (self.above - way.sum) / 3)?;
        let next = Way { cost: way.cost + self.cost.of(ratio as f64), sum: way.sum + product, from: index };
        if self.cost != LevelCost::Root && next.cost >= self.best.cost {
            return None;
        }
        let index = self.done(product, index);
        self.end_here(product, next, index);
        Some((product, next, index))
    }

    /// All products that can lie above level L-1, in blocks.
    fn blocks(&self) -> Vec<Block> {
        let rest = if self.last < NEAR * self.above as f64 { Some(self.rests()) } else { None };
        let edge = |cell: usize| self.products(cell).0.ceil() as u64;
        let mut blocks: Vec<Block> = Vec::new();
        for cell in 0..self.cells() {
            let (first, last) = (edge(cell), (edge(cell + 1) - 1).min(self.above / 3));
            if first <= last {
                let rest = rest.as_ref().map_or_else(|| self.rest(first, last), |rest| rest[cell]) * (1.0 - 1e-9);
                blocks.push(Block { first, last, rest, rest_of_larger: rest });
            }
        }
        let mut least = f64::INFINITY;
        for block in blocks.iter_mut().rev() {
            least = least.min(block.rest);
            block.rest_of_larger = least;
        }
        blocks
    }

    /// The least and the most that a product of this cell can be.
    fn products(&self, cell: usize) -> (f64, f64) {
        ((cell as f64 / self.cells_per_e).exp(), ((cell as f64 + 1.0) / self.cells_per_e).exp())
    }

    /// How many cells there are up to the largest product.
    fn cells(&self) -> usize {
        ((self.above / 3).max(1) as f64).ln().mul_add(self.cells_per_e, 1.0) as usize
    }

    /// The least cost of one level or several from a product of these to level L-1, in real
    /// numbers, and of the last, where level L-1 may take nearly all. For each number of
    /// levels, equal ratios are best, since costs are convex; in the number of levels, the sum is
    /// convex, too.
    fn rest(&self, first: u64, last: u64) -> f64 {
        let from = last as f64;
        // All levels until this one hold less than twice as much as it.
        let most = ((self.above - first) as f64).min(self.last / LAST_RATIO_MIN);
        let least = (self.above.saturating_sub(2 * last) as f64 / 2.0).min(most);
        let mut found = f64::INFINITY;
        for levels in 1..=64 {
            let levels = f64::from(levels);
            let alike = ((self.last.ln() * levels + from.ln()) / (levels + 1.0)).exp();
            let reached = alike.clamp(least, most).max(from);
            let each = (reached / from).powf(1.0 / levels);
            let cost = levels * self.cost.at_least(each) + self.cost.at_least((self.last / reached).max(1.0));
            if cost >= found {
                break;
            }
            found = cost;
        }
        found
    }

    /// For each cell of products, the same where the last level is not much larger than all others,
    /// so that how much level L-1 takes decides; see the page.
    fn rests(&self) -> Vec<f64> {
        let cells = self.cells();
        let between = self.between(cells);
        let ends: Vec<f64> = (0..cells).map(|cell| self.end_after_one(cell)).collect();
        let rest = |from: usize| {
            let steps = between.iter().zip(&ends[from..]).map(|(levels, end)| levels + end);
            steps.fold(self.end_at(from), f64::min)
        };
        (0..cells).map(rest).collect()
    }

    /// For each number of cells, the least cost of the levels between products that are so far
    /// apart: none within one cell, else ratios of at least 2 whose number is best.
    fn between(&self, cells: usize) -> Vec<f64> {
        let mut count = 1.0;
        let cost = |ratio: f64, count: f64| count * self.cost.at_least(ratio.powf(1.0 / count));
        let apart = |distance: usize| match distance {
            0 => 0.0,
            _ if self.products(distance).1 < 2.0 => f64::INFINITY,
            _ => {
                let ratio = self.products(distance - 1).0.max(2.0);
                // With f the cost by the logarithm y of a ratio, the derivative of (n+1) f(y/(n+1))
                // - n f(y/n) is f'(y/(n+1)) - f'(y/n), not above 0: once a further level pays, so
                // does each one after it.
                while cost(ratio, count + 1.0) < cost(ratio, count) {
                    count += 1.0;
                }
                cost(ratio, count)
            }
        };
        (0..cells).map(apart).collect()
    }

    /// The least cost of the end if a product of this cell is the last above level L-1.
    fn end_at(&self, cell: usize) -> f64 {
        let (least, most) = self.products(cell);
        // Without a level yet, nothing is held.
        let size = if most <= 2.0 { (0.0, 0.0) } else { (least, 2.0 * most) };
        self.end((least, most), size)
    }

    /// The same if there is one level more between them.
    fn end_after_one(&self, cell: usize) -> f64 {
        let (least, most) = self.products(cell);
        // What costs more than a structure that is known need not be told apart.
        let mut found = self.best.cost;
        let mut next = 2_u64;
        loop {
            let first = next;
            let last = match self.cost {
                LevelCost::Root => first,
                // Large ratios in groups: a workload may want thousands.
                LevelCost::Mixed { .. } => first + first / GROUPED_PART,
            };
            next = last + 1;
            let (first, last) = (first as f64, last as f64);
            let cost = self.cost.at_least(first);
            if 3.0 * first * least > self.above as f64 || cost >= found {
                break;
            }
            let size = if most <= 2.0 { (first, last * most) } else { ((first + 1.0) * least, (last + 2.0) * most) };
            found = found.min(cost + self.end((first * least, last * most), size));
        }
        found
    }

    /// The least cost of level L-1 and the last, after a level of so many buffers, if all until
    /// that one hold so many. Of both ratios, equal ones are best, since costs are convex.
    fn end(&self, (least, most): (f64, f64), (least_size, most_size): (f64, f64)) -> f64 {
        let above = self.above as f64;
        let left_least = (above - most_size).max(2.0 * least);
        let left_most = (above - least_size).min(self.last / LAST_RATIO_MIN);
        if left_least > left_most {
            return f64::INFINITY;
        }
        let left = (self.last * most).sqrt().clamp(left_least, left_most);
        self.cost.at_least((left / most).max(1.0)) + self.cost.at_least(self.last / left)
    }

    /// Ways with one more level, as far as they may lead to less than what is known.
    fn extend(&mut self, product: u64, way: Way, index: usize, blocks: &[Block], open: &mut BTreeMap<u64, Vec<Way>>) {
        // One more level, and at least twice as much for the next.
        let most = (self.above - way.sum) / (3 * product);
        let begin = blocks.partition_point(|block| block.last < 2 * product);
        for block in &blocks[begin..] {
            self.steps_left = self.steps_left.saturating_sub(1);
            if self.steps_left == 0 {
                return;
            }
            let (first, last) = (block.first.div_ceil(product).max(2), (block.last / product).min(most));
            if first > most {
                break;
            }
            if way.cost + self.cost.at_least(first as f64) + block.rest_of_larger > self.best.cost {
                break;
            }
            if first > last || way.cost + self.cost.at_least(first as f64) + block.rest > self.best.cost {
                continue;
            }
            for ratio in first..=last {
                let cost = way.cost + self.cost.of(ratio as f64);
                let mut steps = 1;
                if cost + block.rest <= self.best.cost {
                    let ways = open.entry(product * ratio).or_default();
                    steps += ways.len() as u64;
                    self.keep(ways, Way { cost, sum: way.sum + product * ratio, from: index });
                }
                self.steps_left = self.steps_left.saturating_sub(steps);
                if self.steps_left == 0 {
                    return;
                }
            }
        }
    }

    /// Adds a way to those of the same product, unless there is a cheaper one of about the same
    /// sum.
    fn keep(&self, ways: &mut Vec<Way>, way: Way) {
        let class = |way: &Way| u128::from(way.sum) * SUMS / u128::from(self.above);
        match ways.iter_mut().find(|other| class(other) == class(&way)) {
            Some(other) if other.cost <= way.cost => {}
            Some(other) => *other = way,
            None => ways.push(way),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However extreme the workload and however large the tree, a search looks at no more ways than
    /// it may take steps, and ends with a structure that is no dearer than the one it begins from.
    #[test]
    fn steps_are_bounded() {
        let mut ended_early = 0;
        for above in [1_000, 100_000, 10_000_000, 1_000_000_000] {
            for share in [0.5, 0.8, 0.95] {
                for (range, update) in [(1e-6, 1.0), (0.01, 0.98), (0.33, 0.33), (0.98, 0.01), (1.0, 1e-6)] {
                    let last = above as f64 * share / (1.0 - share);
                    let cost = LevelCost::Mixed { range, update };
                    let mut guess = Search::new(above, last, cost, 0);
                    guess.guess();
                    let steps_max = 20_000;
                    let mut search = Search::new(above, last, cost, steps_max);
                    search.run();
                    let looked_at = (search.done.len() - guess.done.len()) as u64;
                    let context = format!("{above}, {share}, {cost:?}: {looked_at} ways, {:?}", search.levels());
                    assert!(looked_at <= steps_max + 1, "{context}");
                    assert!(search.best.cost <= guess.best.cost && search.best.cost.is_finite(), "{context}");
                    ended_early += u32::from(search.steps_left == 0);
                }
            }
        }
        assert!(ended_early > 10, "{ended_early} of 60 searches ended early");
    }
}
