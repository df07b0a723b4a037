//! Which filters of a tree become others while their tables stay.
//!
//! [`crate::assign`] gives a run its filters when it is built, with what is to come in mind, and for a tree that grows they are right for as long as the run lives. But budgets, kinds and shapes are
//! changed, and what was deleted takes its share of the budget with it. Then:
//!
//! * **What each run should have** is its part of the best allocation over all runs that there are and those that are missing until the tree is full, as in [`crate::assign`]; and those that there are keep
//!   to the budget by themselves.
//! * **A filter that can be made again** (its table keeps digests) becomes that large. **One that cannot** is had as it is stored or not at all: of these, those stay or come that save most searches for each
//!   bit, as far as what their runs should have goes.
//! * **Not for little** (hysteresis). Nothing is done unless the filters there are take more than the budget and [`SLACK`], or a filter is of another kind, or, while no merge is in progress, lookups search in vain
//!   [`WORTH`] times as much as they should. When something is done, filters within a sixteenth of their size stay as they are, unless the budget is passed by that.
//! * **Smaller before larger.** Steps come in such an order that the sum never rises above the larger of what it was and what it will be.
//!
//! Tests: `tests/retune.rs`.

use std::collections::BTreeMap;

use crate::allocate::weights::{Asked, Extent};
use crate::allocate::{Curve, Load, searches_in_vain, used};
use crate::assign::{self, Standing};
use crate::filter::{FilterKind, LINE_BITS, promise};
use crate::shape::Shape;
use crate::units::Bytes;

/// Searches in vain of so many times what they should be are worth a change.
pub const WORTH: f64 = 1.1;

/// Bits for each filter, by which the sum may be above the budget without that anything is done: filters consist of whole lines.
pub const SLACK: u64 = LINE_BITS;

/// Filters that are so much of their size from what they should be stay as they are.
const NEAR: f64 = 1.0 / 16.0;

/// A part of a run that has a filter of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The entries that its filter is over.
    pub entries: u64,
    /// How many of them still belong to the run: only for these there is a budget.
    pub live: u64,
    /// The bits of the filter in use; 0 if there is none.
    pub bits: f64,
    /// Its kind.
    pub kind: Option<FilterKind>,
    /// True if a filter of any kind and size can be made for it.
    pub can_be_made: bool,
    /// The stored filter, if there is one: its kind and bits.
    pub stored: Option<(FilterKind, f64)>,
}

/// A run, and the parts of it that have filters of their own. What its standing says of bits is not looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Its level, what it holds, and what was seen of it.
    pub standing: Standing,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// What the filters are to be.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// None at all.
    Nothing,
    /// The same number of bits for each entry.
    Alike(FilterKind, f64),
    /// So many for each entry of the tree, shared out among runs.
    Shared(&'a Curve, assign::Budget<'a>),
}

/// What a part's filter becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// None.
    Nothing,
    /// The stored one.
    Stored,
    /// One of so many bits for each entry, of the kind that is wanted.
    Made(f64),
}

/// A filter that is to become another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Which run.
    pub run: usize,
    /// Which part of it.
    pub part: usize,
    /// What it is to be.
    pub aim: Aim,
}

/// What is to be done, in this order; nothing if it is not worth it. `runs` are those of the tree, young to old, in levels that `shape` has. While merges are in progress the tree is not
/// `at_rest`: runs stand where they will not stay, and whether lookups could search less is not judged by them.
pub fn steps(wanted: Wanted<'_>, shape: &Shape, runs: &[Tuned], at_rest: bool) -> Vec<Step> {
    let goals: Vec<Vec<Goal>> = goals(wanted, shape, runs);
    let parts = || runs.iter().zip(&goals).enumerate().flat_map(|(run, (tuned, goals))| pairs(run, tuned, goals));
    if !is_worth_it(wanted, runs, &goals, at_rest) {
        return Vec::new();
    }
    let kind = wanted.kind();
    let budget = wanted.budget(runs);
    let differs = |part: &Part, goal: &Goal| match goal.aim {
        Aim::Nothing => part.bits > 0.0,
        Aim::Stored => part.bits != goal.bits,
        Aim::Made(_) => part.kind != kind || !is_near(part.bits, goal.bits),
    };
    let after: f64 = parts().map(|(.., part, goal)| if differs(part, goal) { goal.bits } else { part.bits }).sum();
    // What is left as it is must not be what passes the budget.
    let is_over = after > budget + slack(runs);
    let changes = |part: &Part, goal: &Goal| differs(part, goal) || is_over && part.bits > goal.bits;
    let mut steps: Vec<(bool, Step)> = parts()
        .filter(|(.., part, goal)| changes(part, goal))
        .map(|(run, at, part, goal)| (goal.bits >= part.bits, Step { run, part: at, aim: goal.aim }))
        .collect();
    steps.sort_by_key(|(grows, _)| *grows);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// What a part should have, and how many bits that are.
#[derive(Clone, Copy, Debug)]
struct Goal {
    aim: Aim,
    bits: f64,
}

impl Wanted<'_> {
    fn kind(&self) -> Option<FilterKind> {
        match self {
            Self::Nothing => None,
            Self::Alike(kind, _) => Some(*kind),
            Self::Shared(curve, _) => Some(curve.kind()),
        }
    }

    /// The bits that the runs which there are may have.
    fn budget(&self, runs: &[Tuned]) -> f64 {
        let bits_per_entry = match self {
            Self::Nothing => 0.0,
            Self::Alike(_, bits_per_entry) => *bits_per_entry,
            Self::Shared(_, budget) => budget.bits_per_entry,
        };
        bits_per_entry * runs.iter().map(|run| run.entries()).sum::<f64>()
    }
}

impl Tuned {
    fn entries(&self) -> f64 {
        self.parts.iter().map(|part| part.live as f64).sum()
    }

    fn extent(&self) -> Extent {
        let mut extent = self.standing.extent();
        extent.entries.0 = self.parts.iter().map(|part| part.live).sum();
        extent
    }
}

fn slack(runs: &[Tuned]) -> f64 {
    runs.iter().map(|run| run.parts.len() as f64 * SLACK as f64).sum()
}

fn pairs<'a>(
    run: usize,
    tuned: &'a Tuned,
    goals: &'a [Goal],
) -> impl Iterator<Item = (usize, usize, &'a Part, &'a Goal)> {
    tuned.parts.iter().zip(goals).enumerate().map(move |(at, (part, goal))| (run, at, part, goal))
}

fn is_near(bits: f64, goal: f64) -> bool {
    (bits - goal).abs() <= f64::max(SLACK as f64, goal * NEAR) && (bits > 0.0) == (goal > 0.0)
}

/// Bits per entry that each run should have.
fn shares(wanted: Wanted<'_>, shape: &Shape, runs: &[Tuned]) -> Vec<f64> {
    let (curve, budget) = match wanted {
        Wanted::Nothing => return vec![0.0; runs.len()],
        Wanted::Alike(_, bits) => return vec![bits; runs.len()],
        Wanted::Shared(curve, budget) => (curve, budget),
    };
    let (extents, standing) = with_missing(shape, runs);
    let weights = budget.asked.weights(&extents);
    let load = |(extent, weight): (&Extent, f64)| Load { entries: extent.entries, weight };
    let loads: Vec<Load> = extents.iter().zip(weights).map(load).collect();
    let due = |loads: &[Load]| loads.iter().map(|load| load.entries.0 as f64).sum::<f64>() * budget.bits_per_entry;
    let best = curve.allocate(&loads, due(&loads));
    let of_standing = |all: &[f64]| -> Vec<f64> { standing.iter().map(|&at| all[at]).collect() };
    let present: Vec<Load> = standing.iter().map(|&at| loads[at]).collect();
    let best = of_standing(&best);
    // Before anything else is there, too, the budget is to hold.
    if used(&present, &best) > due(&present) { curve.allocate(&present, due(&present)) } else { best }
}

/// The runs that there are and those that are missing until all levels down to the last one that is used are full; young to old. And where those that there are stand among them.
fn with_missing(shape: &Shape, runs: &[Tuned]) -> (Vec<Extent>, Vec<usize>) {
    let (mut extents, mut standing) = (Vec::new(), Vec::new());
    let entries: f64 = runs.iter().map(Tuned::entries).sum();
    let bytes: Bytes = runs.iter().map(|run| run.standing.bytes).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    let bytes_per_entry = bytes.as_f64() / entries.max(1.0);
    let last = runs.iter().map(|run| run.standing.level).max().unwrap_or(0);
    for level in 1..=last {
        let here = || runs.iter().filter(move |run| run.standing.level == level);
        let missing = shape.visible_runs(level).saturating_sub(here().count() as u64);
        extents.extend(assign::full_runs(shape, bytes_per_entry, level, missing));
        for run in here() {
            standing.push(extents.len());
            extents.push(run.extent());
        }
    }
    (extents, standing)
}

/// What each part should have.
fn goals(wanted: Wanted<'_>, shape: &Shape, runs: &[Tuned]) -> Vec<Vec<Goal>> {
    let shares = shares(wanted, shape, runs);
    let weights = weights(wanted, runs);
    let mut rates = Rates::default();
    let made = |share: f64, part: &Part| share * part.live as f64;
    let mut left = 0.0;
    let mut goals: Vec<Vec<Goal>> = Vec::with_capacity(runs.len());
    // Stored filters that may be had: what they save for each bit, and where they are.
    let mut offers = Vec::new();
    for (at, (run, share)) in runs.iter().zip(&shares).enumerate() {
        let goal = |(number, part): (usize, &Part)| {
            let bits = made(*share, part);
            if part.can_be_made {
                let aim = if bits > 0.0 { Aim::Made(bits / part.entries as f64) } else { Aim::Nothing };
                return Goal { aim, bits };
            }
            left += bits;
            if let Some((kind, bits)) = part.stored.filter(|(_, bits)| *bits > 0.0) {
                let saved = weights[at] * part.live as f64 / run.entries().max(1.0);
                let saved = saved * (1.0 - rates.of(Some(kind), bits, part.entries));
                offers.push((saved / bits, bits, at, number));
            }
            Goal { aim: Aim::Nothing, bits: 0.0 }
        };
        goals.push(run.parts.iter().enumerate().map(goal).collect());
    }
    let made: f64 = goals.iter().flatten().map(|goal| goal.bits).sum();
    // A little more than their share is no reason to be without, if the budget has it.
    left = f64::min(left * (1.0 + NEAR), wanted.budget(runs) - made) + slack(runs);
    offers.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.2, a.3).cmp(&(b.2, b.3))));
    for (_, bits, run, part) in offers {
        if bits <= left && !matches!(wanted, Wanted::Nothing) {
            left -= bits;
            goals[run][part] = Goal { aim: Aim::Stored, bits };
        }
    }
    goals
}

/// How often each run is passed in vain.
fn weights(wanted: Wanted<'_>, runs: &[Tuned]) -> Vec<f64> {
    let extents: Vec<Extent> = runs.iter().map(Tuned::extent).collect();
    match wanted {
        Wanted::Shared(_, budget) => budget.asked.weights(&extents),
        Wanted::Nothing | Wanted::Alike(..) => Asked::Found(0.0).weights(&extents),
    }
}

/// False positive rates, looked up to a 32nd of a bit per entry: there are many parts, and few different ones.
#[derive(Default)]
struct Rates(BTreeMap<(&'static str, u64), f64>);

impl Rates {
    fn of(&mut self, kind: Option<FilterKind>, bits: f64, entries: u64) -> f64 {
        let Some(kind) = kind.filter(|_| bits > 0.0) else { return 1.0 };
        let steps = (32.0 * bits / entries.max(1) as f64).round().max(1.0) as u64;
        *self.0.entry((kind.name(), steps)).or_insert_with(|| promise(kind, steps as f64 / 32.0).fpr)
    }
}

fn is_worth_it(wanted: Wanted<'_>, runs: &[Tuned], goals: &[Vec<Goal>], at_rest: bool) -> bool {
    let parts = || runs.iter().zip(goals).enumerate().flat_map(|(run, (tuned, goals))| pairs(run, tuned, goals));
    if let Wanted::Nothing = wanted {
        return parts().any(|(.., part, _)| part.bits > 0.0);
    }
    let kind = wanted.kind();
    let is_other_kind =
        parts().any(|(.., part, goal)| part.can_be_made && part.bits > 0.0 && goal.bits > 0.0 && part.kind != kind);
    let in_use: f64 = parts().map(|(.., part, _)| part.bits).sum();
    if is_other_kind || in_use > wanted.budget(runs) + slack(runs) {
        return true;
    }
    if !at_rest {
        return false;
    }
    let mut rates = Rates::default();
    let weights = weights(wanted, runs);
    let loads: Vec<Load> = runs
        .iter()
        .zip(&weights)
        .flat_map(|(run, weight)| {
            let share = weight / run.entries().max(1.0);
            run.parts.iter().map(move |part| Load { weight: share * part.live as f64, ..Load::new(part.live) })
        })
        .collect();
    let now = searches_in_vain(&loads, parts().map(|(.., part, _)| rates.of(part.kind, part.bits, part.entries)));
    let then = searches_in_vain(
        &loads,
        parts().map(|(.., part, goal)| match goal.aim {
            Aim::Nothing => 1.0,
            Aim::Stored => rates.of(part.stored.map(|(kind, _)| kind), goal.bits, part.entries),
            Aim::Made(_) => rates.of(kind, goal.bits, part.entries),
        }),
    );
    now > then * WORTH
}
