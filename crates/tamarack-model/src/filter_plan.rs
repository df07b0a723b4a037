//! The filter decider: the filter that each table of a tree should have, within one budget.
//!
//! ```text
//! choice, budget ─┐
//! shape ──────────┼─► each run's share ─► each table's goal ─► worth it? ─► changes, smaller first
//! runs, tables ───┘   bits per entry      made │ steps │ kept
//! ```
//!
//! Two callers, one allocation:
//!
//! * [`for_new`] gives a run its filter before it is built. Such a run is one table without a
//!   filter that can have any; older runs keep theirs.
//! * [`decide`] examines all existing tables and returns those that should get another filter.
//!
//! # 1. The share of a run
//!
//! [`crate::allocate`] finds the best allocation of bits to a set of runs. The set consists of the
//! runs to be decided, all older runs, and the runs that are **missing** until the levels down to
//! the last decided run are full. Small levels fill and empty many times in the lifetime of a large
//! run, and a full small level deserves more bits per entry than the large run; its share is
//! therefore reserved. Levels younger than the youngest decided run count as full.
//!
//! The budget is `m` bits for each entry of the set, less the bits of older runs that keep their
//! filters. The decided runs and those older ones also keep to the budget by themselves, before any
//! missing run exists.
//!
//! A full tree therefore has the optimum, run for run. A growing tree has 6 to 40 % more false
//! positives than the optimum of each moment; with equal bits for all runs it is 80 to 230 %.
//!
//! # 2. The goal of a table
//!
//! A table can have a filter in one of four ways, depending on its file and on the choice:
//!
//! | table | filters it can have | goal |
//! |---|---|---|
//! | keeps digests, or is new | any size | **made**: its run's share |
//! | stores a whole filter, no digests | that filter or none | **steps**, one of them |
//! | stores an elastic filter, chosen or without digests | 0 to u units | **steps**, u of them |
//! | stores another kind, but elastic is chosen | | **kept** until a compaction rewrites it |
//!
//! Steps have prices. If `h` lookups miss in the table and one step lets a share `p` of them
//! through, the next of `s` steps saves
//!
//! ```text
//! h · p^s · (1 - p)     false positives, for the bits of one step
//! ```
//!
//! which is less for each step than for the one before. Memory goes to the steps that save most per
//! bit. With steps of one size that is optimal; otherwise the loss is at most what the best step
//! that did not fit would save. `h` is the table's own [frequency](crate::access_frequency) if
//! known, else its part of its run's misses.
//!
//! # 3. Hysteresis
//!
//! * A step that is not loaded must save [`HOLD`] times as much as the loaded one that it replaces:
//!   frequencies come from samples, and loading is a read.
//! * Without elastic filters nothing changes at all, unless the filters exceed the budget and
//!   [`SLACK`], or are of a wrong kind, or, in a tree at rest, lookups have [`WORTH`] times as many
//!   false positives as they should. When filters change, those within a sixteenth of their goal
//!   stay, unless that exceeds the budget.
//! * Shrinking filters come first, so the total never exceeds the larger of the old and the new
//!   total.
//! * Changes that only save false positives say what they save and what they cost
//!   ([`RebuildDecision::gain`]); they wait until lookups have lost as much as they cost
//!   ([`RebuildWait`]). In a tree that grows by small runs each flush shifts all shares a little;
//!   without the wait, each would have most filters built anew.
//!
//! It sees no key, reads no file, and knows no time. Tests: `tests/suite/filter_allocation.rs` (new
//! runs of growing trees beside the optimum), `tests/suite/filter_rebuild.rs` (the budget at every
//! change, no change for little), `tests/suite/filter_steps.rs` (brute force; lookups whose hot
//! tables change).

mod wait;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use crate::allocate::weights::{Asked, Extent};
use crate::allocate::{Curve, Load, false_positives, used};
use crate::filter::{Allocation, FilterChoice, FilterKind, FilterSettings, LINE_BITS, predict};
use crate::shape::Shape;
use crate::units::{Bytes, Entries};

pub use wait::{REBUILD_SECONDS, RebuildGain, RebuildWait};

/// The ratio of present to achievable false positives from which on filters change.
pub const WORTH: f64 = 1.1;

/// Bits per table by which the total may exceed the budget: filters consist of whole cache lines.
pub const SLACK: u64 = LINE_BITS;

/// The factor by which a step that is not loaded must save more than the loaded one that it
/// replaces. It is smaller than the factor of one unit of an elastic filter, so it costs no table
/// more than one unit.
pub const HOLD: f64 = 1.5;

/// Filters within this part of their goal stay.
const NEAR: f64 = 1.0 / 16.0;

/// The maximum number of groups for the missing runs of one level: a shape may have more runs than
/// fit memory.
const GROUPS_MAX: u64 = 64;

/// A run of the tree, with its tables.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFilters {
    /// Its level, from 1 on.
    pub level: usize,
    /// Its raw bytes.
    pub bytes: Bytes,
    /// Measured misses per lookup; `None` without measurements, or if the allocation does not use
    /// them.
    pub seen: Option<f64>,
    /// Its tables.
    pub tables: Vec<TableFilters>,
}

/// A table: its present filter, and the filters that it can have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableFilters {
    /// Entries that its filter covers.
    pub entries: u64,
    /// Entries that still belong to the run; only these add to the budget.
    pub live: u64,
    /// The filter in use: its kind, and its bits in memory.
    pub in_use: Option<(FilterKind, f64)>,
    /// True if a filter of one piece, of any kind and size, can be built for the table.
    pub can_be_made: bool,
    /// The filter in its file.
    pub stored: Option<StoredFilter>,
    /// Lookups that miss in it, in a unit that is the same for all tables. `None` stands for its
    /// part of the run's misses.
    pub passing: Option<f64>,
}

/// A filter in a table's file. It can be loaded in steps: the units of an elastic filter, or one
/// step for any other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredFilter {
    /// Its kind.
    pub kind: FilterKind,
    /// The number of steps.
    pub steps: u32,
    /// The memory that one step takes, in bits; more than 0.
    pub step_bits: u64,
    /// The false positive rate of one step, in [0, 1]. `None` stands for the rate predicted for
    /// that kind and size.
    pub step_fpr: Option<f64>,
    /// The steps in memory; 0 if another filter is in use.
    pub loaded: u32,
}

/// The filter that a table should have in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FilterTarget {
    /// The filter in its file, if any.
    #[default]
    Stored,
    /// No filter.
    Nothing,
    /// As many units of a stored elastic filter as fit this many bits; for other tables the same as
    /// [`FilterTarget::Stored`].
    Units(u64),
    /// A filter of this kind and size: the stored one if it matches, else one built from the
    /// table's digests. A table without digests gets the stored one, or none if that is larger.
    Of(FilterSettings),
}

/// A table that should get another filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterChange {
    /// The index of its run in the input.
    pub run: usize,
    /// The index of the table in its run.
    pub table: usize,
    /// The filter that it should have.
    pub target: FilterTarget,
}

/// Which tables should get other filters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RebuildDecision {
    /// The changes, in their order.
    pub changes: Vec<FilterChange>,
    /// What the changes save and cost, if they can wait; `None` if there are none, or they are due.
    pub gain: Option<RebuildGain>,
}

/// The filter for the tables of a run to be built, at index `new` of `runs`; `None` for no filter.
/// `runs` are the runs of the tree as it will be then, young to old, in levels of `shape`. The new
/// run has one table, of which only `live` counts; older runs keep their filters, and younger runs
/// count as if their levels were full.
///
/// # Panics
/// If there is no run at `new`, or it is in a level that the shape lacks.
pub fn for_new(
    choice: FilterChoice,
    asked: &Asked,
    shape: &Shape,
    runs: &[RunFilters],
    new: usize,
) -> Option<FilterSettings> {
    let FilterChoice::Each { kind, .. } = choice else { return None };
    let bits_per_entry = shares(choice, asked, shape, runs, new..new + 1)[0];
    (bits_per_entry > 0.0).then(|| FilterSettings::stored(kind, bits_per_entry))
}

/// Returns the tables that should get other filters; none if a change is not worth it. `runs` are
/// the runs of the tree, young to old, in levels of `shape`. `at_rest` is false while compactions
/// are in progress: runs are then in transit, and false positives are not judged by them.
///
/// # Panics
/// If a table's `passing` is negative or NaN, or a stored filter's step has no bits or an
/// impossible rate.
pub fn decide(
    choice: FilterChoice,
    asked: &Asked,
    shape: &Shape,
    runs: &[RunFilters],
    at_rest: bool,
) -> RebuildDecision {
    if runs.is_empty() {
        return RebuildDecision::default();
    }
    let shares = shares(choice, asked, shape, runs, 0..runs.len());
    let weights = asked.weights(&runs.iter().map(RunFilters::extent).collect::<Vec<_>>());
    let mut plan = FilterPlan::new(choice, runs, &weights);
    plan.set_goals(&shares);
    if plan.is_due() {
        return RebuildDecision { changes: plan.changes(), gain: None };
    }
    let Some(saved_reads) = plan.saved_reads().filter(|_| at_rest) else { return RebuildDecision::default() };
    let changes = plan.changes();
    let is_built = |change: &&FilterChange| matches!(change.target, FilterTarget::Of(_));
    let entries = |change: &FilterChange| runs[change.run].tables[change.table].entries;
    let entries = changes.iter().filter(is_built).map(entries).sum();
    let gain = (!changes.is_empty()).then_some(RebuildGain { saved_reads, entries });
    RebuildDecision { changes, gain }
}

/// Bits per entry for each of the `decided` runs. Older runs keep their filters.
fn shares(choice: FilterChoice, asked: &Asked, shape: &Shape, runs: &[RunFilters], decided: Range<usize>) -> Vec<f64> {
    let FilterChoice::Each { kind, bits_per_entry, allocation } = choice else { return vec![0.0; decided.len()] };
    if allocation == Allocation::Uniform {
        return vec![bits_per_entry; decided.len()];
    }
    let curve = Curve::new(kind);
    let (extents, places) = with_missing(shape, runs, decided.clone());
    let load = |(extent, weight): (&Extent, f64)| Load { entries: extent.entries, weight };
    let loads: Vec<Load> = extents.iter().zip(asked.weights(&extents)).map(load).collect();
    let due = |loads: &[Load]| loads.iter().map(|load| load.entries.0 as f64).sum::<f64>() * bits_per_entry;
    let older = &runs[decided.end..];
    let taken: f64 = older.iter().map(RunFilters::live_bits).sum();
    let (free, kept) = loads.split_at(loads.len() - older.len());
    let best = curve.allocate(free, (due(&loads) - taken).max(0.0));
    let present: Vec<Load> = places.iter().map(|&at| loads[at]).collect();
    let best: Vec<f64> = places.iter().map(|&at| best[at]).collect();
    // The budget also holds before any missing run exists.
    let most = (due(&present) + due(kept) - taken).max(0.0);
    if used(&present, &best) > most { curve.allocate(&present, most) } else { best }
}

/// The decided runs, older ones, and those missing until the levels down to the last decided run
/// are full, young to old; and the indices of the decided runs among them.
fn with_missing(shape: &Shape, runs: &[RunFilters], decided: Range<usize>) -> (Vec<Extent>, Vec<usize>) {
    let (first, last) = (runs[decided.start].level, runs[decided.end - 1].level);
    let bytes: Bytes = runs[decided.clone()].iter().map(|run| run.bytes).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
    let entries: f64 = runs[decided.clone()].iter().map(|run| run.live() as f64).sum();
    let bytes_per_entry = bytes.as_f64() / entries.max(1.0);
    let missing = |level: usize| {
        // A run that makes the tree grow may be in a larger level than older runs, which will move.
        let is_here = |run: &&RunFilters| first <= level && run.level == level;
        let here = runs[decided.start..].iter().filter(is_here).count() as u64;
        full_runs(shape, bytes_per_entry, level, shape.visible_runs(level).saturating_sub(here))
    };
    let (mut extents, mut places, mut level) = (Vec::new(), Vec::new(), 0);
    for (at, run) in runs.iter().enumerate().skip(decided.start) {
        while level < run.level.min(last) {
            level += 1;
            extents.extend(missing(level));
        }
        if decided.contains(&at) {
            places.push(extents.len());
        }
        extents.push(run.extent());
    }
    (extents, places)
}

/// This many runs of a level, with their size at rest.
fn full_runs(shape: &Shape, bytes_per_entry: f64, level: usize, runs: u64) -> impl Iterator<Item = Extent> {
    // The batch that makes a level full is not written there: at rest, all other batches are.
    let batches = (shape.batches(level) - 1) as f64 / shape.visible_runs(level).max(1) as f64;
    let bytes = batches * shape.nominal_batch(level).as_f64();
    let (bytes, entries) = (bytes as u64, (bytes / bytes_per_entry.max(1.0)) as u64);
    let groups = runs.min(GROUPS_MAX);
    (0..groups).map(move |group| {
        let runs = runs / groups + u64::from(group < runs % groups);
        let [bytes, entries] = [bytes, entries].map(|of_each| of_each.saturating_mul(runs));
        Extent { runs, bytes: Bytes(bytes), entries: Entries(entries), seen: None }
    })
}

impl RunFilters {
    fn live(&self) -> u64 {
        self.tables.iter().map(|table| table.live).sum()
    }

    /// The bits of its filters that belong to live entries.
    fn live_bits(&self) -> f64 {
        let of = |table: &TableFilters| table.bits() * table.live as f64 / table.entries.max(1) as f64;
        self.tables.iter().map(of).sum()
    }

    fn extent(&self) -> Extent {
        Extent { runs: 1, bytes: self.bytes, entries: Entries(self.live()), seen: self.seen }
    }
}

impl TableFilters {
    fn bits(&self) -> f64 {
        self.in_use.map_or(0.0, |(_, bits)| bits)
    }
}

/// A decision in progress.
struct FilterPlan<'a> {
    /// The kind that was chosen.
    kind: Option<FilterKind>,
    /// Bits for all tables.
    budget: f64,
    /// Bits by which whole cache lines may exceed the budget.
    slack: f64,
    /// All tables, run by run.
    tables: Vec<Planned<'a>>,
    rates: Rates,
}

/// A table and its goal.
struct Planned<'a> {
    run: usize,
    /// Its index in the run.
    at: usize,
    table: &'a TableFilters,
    /// Lookups that miss in it.
    passing: f64,
    /// The filter that it should have; `None` stands for its present one.
    target: Option<FilterTarget>,
    /// Bits and false positive rate of that filter.
    bits: f64,
    fpr: f64,
}

impl<'a> FilterPlan<'a> {
    /// Creates a plan without goals. `weights` are the misses per lookup in each run.
    fn new(choice: FilterChoice, runs: &'a [RunFilters], weights: &[f64]) -> Self {
        let kind = match choice {
            FilterChoice::None | FilterChoice::Tree { .. } => None,
            FilterChoice::Each { kind, .. } => Some(kind),
        };
        let live: f64 = runs.iter().map(|run| run.live() as f64).sum();
        let (mut tables, mut rates) = (Vec::new(), Rates::default());
        for (run, (filters, weight)) in runs.iter().zip(weights).enumerate() {
            let of_run = filters.live().max(1) as f64;
            for (at, table) in filters.tables.iter().enumerate() {
                let passing = table.passing.unwrap_or(weight * table.live as f64 / of_run);
                assert!(passing >= 0.0 && passing.is_finite(), "lookups that pass {table:?}: {passing}");
                let (target, bits, fpr) = (None, table.bits(), rates.in_use(table));
                tables.push(Planned { run, at, table, passing, target, bits, fpr });
            }
        }
        let slack = tables.len() as f64 * SLACK as f64;
        Self { kind, budget: choice.bits_per_entry() * live, slack, tables, rates }
    }

    /// Sets the goal of each table. `shares` are bits per entry for each run.
    fn set_goals(&mut self, shares: &[f64]) {
        let Some(kind) = self.kind else {
            self.tables.iter_mut().for_each(|planned| planned.set(FilterTarget::Nothing, 0.0, 1.0));
            return;
        };
        let is_elastic = kind == FilterKind::Elastic;
        // The share of all tables whose filters come in steps, and the bits of all others.
        let (mut share_of_steps, mut others) = (0.0, 0.0);
        let mut in_steps = Vec::new();
        for (index, planned) in self.tables.iter_mut().enumerate() {
            let table = planned.table;
            let bits = shares[planned.run] * table.live as f64;
            if is_elastic && table.stored.is_none_or(|stored| stored.kind != kind) {
                others += planned.bits;
            } else if !is_elastic && table.can_be_made {
                let bits_per_entry = bits / table.entries.max(1) as f64;
                let target = FilterTarget::Of(FilterSettings { kind, bits_per_entry });
                let target = if bits > 0.0 { target } else { FilterTarget::Nothing };
                planned.set(target, bits, self.rates.of(Some(kind), bits, table.entries));
                others += bits;
            } else {
                share_of_steps += bits;
                in_steps.push(index);
            }
        }
        let mut left = self.budget - others;
        if !is_elastic {
            // These tables do not get the bits reserved for missing runs; but exceeding their share
            // slightly is no reason to have no filter.
            left = left.min(share_of_steps * (1.0 + NEAR)) + self.slack;
        }
        self.take_steps(&in_steps, left);
    }

    /// Gives these tables the steps that save most per bit, within `left` bits.
    fn take_steps(&mut self, tables: &[usize], mut left: f64) {
        let mut steps: Vec<Steps> = tables.iter().map(|&at| Steps::of(&self.tables[at], &mut self.rates)).collect();
        let offer = |steps: &[Steps], at: usize| steps[at].offer().map(|saved_per_bit| Offer { saved_per_bit, at });
        let mut offers: BinaryHeap<Offer> = (0..steps.len()).filter_map(|at| offer(&steps, at)).collect();
        while let Some(Offer { at, .. }) = offers.pop() {
            // If one step does not fit, others of the same table do not either; smaller ones of
            // others may.
            if steps[at].bits <= left {
                left -= steps[at].bits;
                steps[at].taken += 1;
                offers.extend(offer(&steps, at));
            }
        }
        for (&at, steps) in tables.iter().zip(steps) {
            let (taken, bits) = (steps.taken, steps.bits * f64::from(steps.taken));
            let target = match self.tables[at].table.stored {
                Some(StoredFilter { kind: FilterKind::Elastic, .. }) => FilterTarget::Units(bits as u64),
                _ if taken > 0 => FilterTarget::Stored,
                _ => FilterTarget::Nothing,
            };
            self.tables[at].set(target, bits, steps.fpr.powi(taken as i32));
        }
    }

    /// Returns true if filters should change at once, given the goals, whatever that saves.
    fn is_due(&self) -> bool {
        let is_of_wrong_kind = |planned: &Planned<'_>| {
            planned.table.can_be_made
                && planned.bits > 0.0
                && planned.table.in_use.is_some_and(|(kind, bits)| bits > 0.0 && Some(kind) != self.kind)
        };
        let is_over = || self.tables.iter().map(|planned| planned.table.bits()).sum::<f64>() > self.budget + self.slack;
        match self.kind {
            // Dropping costs nothing; units are small and have their own hysteresis.
            None | Some(FilterKind::Elastic) => true,
            Some(_) => self.tables.iter().any(is_of_wrong_kind) || is_over(),
        }
    }

    /// False positives per lookup that the goals save; `None` if they are too few.
    fn saved_reads(&self) -> Option<f64> {
        let passing = |planned: &Planned<'_>| Load { weight: planned.passing, ..Load::new(planned.table.live) };
        let loads: Vec<Load> = self.tables.iter().map(passing).collect();
        let mut rates = self.rates.clone();
        let now = false_positives(&loads, self.tables.iter().map(|planned| rates.in_use(planned.table)));
        let then = false_positives(&loads, self.tables.iter().map(|planned| planned.fpr));
        (now > then * WORTH).then_some(now - then)
    }

    /// Returns the tables whose goals differ from their present filters, shrinking filters first.
    fn changes(&self) -> Vec<FilterChange> {
        let after =
            |planned: &Planned<'_>| if planned.differs(self.kind) { planned.bits } else { planned.table.bits() };
        // A filter that is kept must not be what exceeds the budget.
        let is_over = self.tables.iter().map(after).sum::<f64>() > self.budget + self.slack;
        let changes = |planned: &&Planned<'_>| planned.differs(self.kind) || is_over && planned.shrinks();
        let change = |planned: &Planned<'_>| {
            let change = FilterChange { run: planned.run, table: planned.at, target: planned.target? };
            Some((planned.bits >= planned.table.bits(), change))
        };
        let mut changes: Vec<(bool, FilterChange)> = self.tables.iter().filter(changes).filter_map(change).collect();
        changes.sort_by_key(|(grows, _)| *grows);
        changes.into_iter().map(|(_, change)| change).collect()
    }
}

impl Planned<'_> {
    fn set(&mut self, target: FilterTarget, bits: f64, fpr: f64) {
        (self.target, self.bits, self.fpr) = (Some(target), bits, fpr);
    }

    /// Returns true if a filter of the goal's size, rounded to whole cache lines, is smaller than
    /// the one in use. One that is a fraction of a line above its goal was made for it.
    fn shrinks(&self) -> bool {
        let lines = LINE_BITS as f64;
        self.table.bits() > (self.bits + lines / 2.0).max(lines)
    }

    /// Returns true if the goal is another filter than the one in use; a filter to be built must
    /// differ by more than a little.
    fn differs(&self, kind: Option<FilterKind>) -> bool {
        let (bits, goal) = (self.table.bits(), self.bits);
        let is_near = || (bits - goal).abs() <= f64::max(SLACK as f64, goal * NEAR) && (bits > 0.0) == (goal > 0.0);
        match self.target {
            None => false,
            Some(FilterTarget::Of(_)) => self.table.in_use.map(|(kind, _)| kind) != kind || !is_near(),
            Some(_) => bits != goal,
        }
    }
}

/// A table whose filter comes in steps, and the number of steps it gets.
struct Steps {
    passing: f64,
    stored: u32,
    loaded: u32,
    bits: f64,
    fpr: f64,
    taken: u32,
}

impl Steps {
    fn of(planned: &Planned<'_>, rates: &mut Rates) -> Self {
        let (passing, taken) = (planned.passing, 0);
        let Some(StoredFilter { kind, steps, step_bits, step_fpr, loaded }) = planned.table.stored else {
            return Self { passing, stored: 0, loaded: 0, bits: 0.0, fpr: 1.0, taken };
        };
        let bits = step_bits as f64;
        let fpr = step_fpr.unwrap_or_else(|| rates.of(Some(kind), bits, planned.table.entries));
        assert!(step_bits > 0 && (0.0..=1.0).contains(&fpr), "{:?} lets {fpr} pass", planned.table);
        Self { passing, stored: steps, loaded, bits, fpr, taken }
    }

    /// What the next step saves per bit, if there is one that saves anything.
    fn offer(&self) -> Option<f64> {
        let hold = if self.taken < self.loaded { HOLD } else { 1.0 };
        let saved = self.passing * self.fpr.powi(self.taken as i32) * (1.0 - self.fpr);
        let saved_per_bit = hold * saved / self.bits;
        (self.taken < self.stored && saved_per_bit > 0.0).then_some(saved_per_bit)
    }
}

/// A step that may be taken next.
struct Offer {
    saved_per_bit: f64,
    at: usize,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    /// Of equal offers, the earlier table's is the greater.
    fn cmp(&self, other: &Self) -> Ordering {
        self.saved_per_bit.total_cmp(&other.saved_per_bit).then(other.at.cmp(&self.at))
    }
}

/// False positive rates, rounded to a 32nd of a bit per entry: there are many tables and few
/// different rates.
#[derive(Clone, Default)]
struct Rates(BTreeMap<(&'static str, u64), f64>);

impl Rates {
    fn of(&mut self, kind: Option<FilterKind>, bits: f64, entries: u64) -> f64 {
        let Some(kind) = kind.filter(|_| bits > 0.0) else { return 1.0 };
        let steps = (32.0 * bits / entries.max(1) as f64).round().max(1.0) as u64;
        *self.0.entry((kind.name(), steps)).or_insert_with(|| predict(kind, steps as f64 / 32.0).fpr)
    }

    /// The rate of the filter that a table has.
    fn in_use(&mut self, table: &TableFilters) -> f64 {
        match table.stored {
            Some(StoredFilter { step_fpr: Some(fpr), loaded: loaded @ 1.., .. }) => fpr.powi(loaded as i32),
            _ => self.of(table.in_use.map(|(kind, _)| kind), table.bits(), table.entries),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Level;

    /// Grouping changes nothing for zero-result lookups, and little for others.
    #[test]
    fn groups_stand_for_their_runs() {
        let curve = Curve::new(FilterKind::Bloom);
        let alike = |runs, entries| Extent { runs, bytes: Bytes(100 * entries), entries: Entries(entries), seen: None };
        let single = |count: u64, entries: u64| (0..count).map(move |_| alike(1, entries));
        for (found, slack) in [(0.0, 1e-9), (0.5, 0.03), (1.0, 0.06)] {
            for bits in [0.5, 1.0, 3.0, 10.0] {
                let singles: Vec<Extent> =
                    single(100, 1_000).chain(single(7, 100_000)).chain(single(1, 3_000_000)).collect();
                let groups: Vec<Extent> =
                    (0..4).map(|_| alike(25, 25_000)).chain(single(7, 100_000)).chain(single(1, 3_000_000)).collect();
                let total = bits * 3_800_000.0;
                let of = |groups: &[Extent]| {
                    let weights = Asked::Found(found).weights(groups);
                    let load = |(group, weight): (&Extent, f64)| Load { entries: group.entries, weight };
                    let loads: Vec<Load> = groups.iter().zip(weights).map(load).collect();
                    *curve.allocate(&loads, total).last().expect("not empty")
                };
                let (of_singles, of_groups) = (of(&singles), of(&groups));
                assert!(
                    (of_singles - of_groups).abs() <= slack * of_singles,
                    "{found} found, {bits} bits: {of_singles} for single runs, {of_groups} for groups"
                );
            }
        }
    }

    /// A shape with more runs than fit memory is handled: the missing runs get their share.
    #[test]
    fn billions_of_runs() {
        let shape =
            Shape::new(Bytes(1), vec![Level { capacity: Bytes(4_000_000_000), runs: 4_000_000_000 }]).expect("a shape");
        let table = TableFilters { entries: 10, live: 10, ..TableFilters::default() };
        let run = RunFilters { level: 1, bytes: Bytes(1_000), seen: None, tables: vec![table] };
        let choice = "blocked:bits=10,allocation=monkey-general,v=1".parse().expect("a choice");
        let filter = for_new(choice, &Asked::Found(0.5), &shape, &[run], 0);
        let bits = filter.map_or(0.0, |filter| filter.bits_per_entry);
        assert!((0.0..=10.0).contains(&bits), "{bits}");
    }
}
