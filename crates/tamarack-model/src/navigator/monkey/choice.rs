//! Algorithm 1: the design with the least cost, over both merge policies and the candidates for the
//! size ratio, each with the best split of memory; and the same within bounds on single costs.
//!
//! The paper meets a bound by leaving out the designs above it, each with the split that costs
//! least without bounds. That leaves out designs that another split would bring within the bound.
//! Here the split itself is restricted ([`best_split_within`]).
//!
//! A search over data of 10⁹ entries of 1 KiB takes 0.2 ms (`examples/monkey_design.rs` measures
//! it).

use std::fmt;

use super::setting::{CostBounds, MonkeyChoice, MonkeyCost, MonkeyDesign, MonkeySetting};
use super::split::{best_split, best_split_within, cheapest_lookups, cheapest_updates};
use crate::cost::monkey::{Merging, MonkeyTree};

/// The candidates for the size ratio: `(N/B)^(1/L)` for each number of levels L from 1 to
/// `log2(N/B)`, rounded up, but at least 2.
///
/// `N/B`, the data over the smallest memtable, a block, is the largest ratio that any split of
/// memory has a use for (`T_lim`, section 2). The paper's text has that range; Algorithm 1 prints
/// `N^(1/L)`.
///
/// The list has large gaps where levels are few, which [`finer_ratios`] fills.
pub fn ratios(setting: &MonkeySetting) -> Vec<f64> {
    finer_ratios(setting, 1)
}

/// [`ratios`] with so many steps, at least 1, from each number of levels to the next: `L` of 1, 1½,
/// 2, … for two steps.
///
/// # Panics
/// If there are no steps.
pub fn finer_ratios(setting: &MonkeySetting, steps: u32) -> Vec<f64> {
    assert!(steps > 0, "at least one step from each number of levels to the next");
    let largest = (setting.data_bytes() / setting.block_bytes as f64).max(2.0);
    // A whole logarithm must not be rounded up for its last digit.
    let levels = (largest.log2() - 1e-9).ceil().max(1.0) as u32;
    let ratio = |at: u32| largest.powf(f64::from(steps) / f64::from(at)).max(2.0);
    (steps..=steps * levels).map(ratio).collect()
}

/// The design with the least cost of an operation: Algorithm 1 with [`ratios`] and [`best_split`].
///
/// # Panics
/// If a size of the setting is 0.
pub fn holistic(setting: &MonkeySetting) -> MonkeyChoice {
    best_of(setting, &ratios(setting))
}

/// [`holistic`] among these size ratios, each at least 2: whole ones, for example.
///
/// # Panics
/// If a size of the setting is 0, or there is no ratio.
pub fn best_of(setting: &MonkeySetting, ratios: &[f64]) -> MonkeyChoice {
    let choices = trees(ratios).map(|tree| chosen(setting, best_split(setting, tree)));
    least(choices, |cost| cost.operation).expect("there is a ratio to choose")
}

/// [`holistic`] among the designs with which lookups and updates cost no more than `bounds`.
///
/// # Errors
/// If no candidate is within the bounds, with the least value that each bounded cost can have.
///
/// # Panics
/// If a size of the setting is 0.
pub fn holistic_within(setting: &MonkeySetting, bounds: &CostBounds) -> Result<MonkeyChoice, Box<BoundsUnmet>> {
    let ratios = ratios(setting);
    let choices = trees(&ratios).filter_map(|tree| best_split_within(setting, tree, bounds));
    least(choices.map(|design| chosen(setting, design)), |cost| cost.operation)
        .ok_or_else(|| Box::new(BoundsUnmet::new(setting, &ratios, bounds)))
}

/// The splits of each candidate, the cheapest by some measure.
type BoundedSplit = fn(&MonkeySetting, MonkeyTree, &CostBounds) -> Option<MonkeyDesign>;

/// One of the costs of a design.
type OneCost = fn(&MonkeyCost) -> f64;

fn trees(ratios: &[f64]) -> impl Iterator<Item = MonkeyTree> {
    ratios.iter().flat_map(|&ratio| [Merging::Leveling, Merging::Tiering].map(|merging| MonkeyTree { ratio, merging }))
}

fn chosen(setting: &MonkeySetting, design: MonkeyDesign) -> MonkeyChoice {
    MonkeyChoice { design, cost: setting.price(&design) }
}

fn least(choices: impl Iterator<Item = MonkeyChoice>, of: OneCost) -> Option<MonkeyChoice> {
    choices.min_by(|a, b| of(&a.cost).total_cmp(&of(&b.cost)))
}

/// No candidate meets all bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundsUnmet {
    /// The bound on lookups, if there is one.
    pub lookup: Option<UnmetBound>,
    /// The bound on updates, if there is one.
    pub update: Option<UnmetBound>,
}

/// A bound, and how near the candidates come to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnmetBound {
    /// The bound, in block reads.
    pub bound: f64,
    /// The design with the least such cost, whatever else it costs. If this cost is within the
    /// bound, the two bounds only exclude each other.
    pub nearest: MonkeyChoice,
    /// The design with the least such cost among those that meet the other bound; `None` if none
    /// does, or there is no other bound.
    pub nearest_within_other: Option<MonkeyChoice>,
}

impl BoundsUnmet {
    fn new(setting: &MonkeySetting, ratios: &[f64], bounds: &CostBounds) -> Self {
        let nearest = |split: BoundedSplit, of: OneCost, within: &CostBounds| {
            let designs = trees(ratios).filter_map(|tree| split(setting, tree, within));
            least(designs.map(|design| chosen(setting, design)), of)
        };
        let unmet = |bound: Option<f64>, split: BoundedSplit, of: OneCost, other: CostBounds| {
            let none = CostBounds::default();
            bound.map(|bound| UnmetBound {
                bound,
                nearest: nearest(split, of, &none).expect("without bounds, each candidate is a design"),
                nearest_within_other: if other == none { None } else { nearest(split, of, &other) },
            })
        };
        let (for_lookup, for_update) = (CostBounds { lookup: None, ..*bounds }, CostBounds { update: None, ..*bounds });
        Self {
            lookup: unmet(bounds.lookup, cheapest_lookups, |cost| cost.lookup, for_lookup),
            update: unmet(bounds.update, cheapest_updates, |cost| cost.update, for_update),
        }
    }
}

impl fmt::Display for BoundsUnmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no design meets the bounds")?;
        let costs: [(_, _, OneCost); 2] =
            [("a lookup", self.lookup, |cost| cost.lookup), ("an update", self.update, |cost| cost.update)];
        for (name, unmet, of) in costs {
            let Some(UnmetBound { bound, nearest, nearest_within_other }) = unmet else { continue };
            let least = of(&nearest.cost);
            write!(f, "; {name} may cost {bound} block reads, and costs {least:.4} at least")?;
            if let Some(nearest) = nearest_within_other {
                write!(f, ", {:.4} within the other bound", of(&nearest.cost))?;
            }
        }
        f.write_str("; raise a bound or the memory")
    }
}

impl std::error::Error for BoundsUnmet {}
