//! [`RunRates`]: the filters of a simulated tree's runs and their false positive rates.
//!
//! A new run gets the filter that [`filter_plan::for_new`] gives it, and whenever the tree is
//! looked at, [`filter_plan::decide`] changes those of all runs, as in a database that stores
//! digests, at once or when that repays ([`Lookups`]). Each run counts as one table. A filter over
//! the whole tree has no bits of its own here: its rates follow from the runs' shares of all
//! entries, and from the lengths of fingerprints in the code that the engine makes for the tree
//! ([`CodeLengths`]).
//!
//! With [`Effort::Quick`] runs have the ideal allocation of the moment instead, and fingerprints
//! the best lengths, fractions of bits included.

use std::collections::BTreeMap;

use crate::allocate::weights::{Asked, Extent};
use crate::allocate::{Curve, Load, ideal};
use crate::filter::chucky::CodeLengths;
use crate::filter::{
    Allocation, BITS_MAX, FilterChoice, FilterKind, FilterSettings, LINE_BITS, chucky, predict, units,
};
use crate::filter_plan::{self, FilterTarget, RebuildWait, RunFilters, StoredFilter, TableFilters};
use crate::occupancy::{Run, RunId};
use crate::planner::{self, CompactionPlan};
use crate::shape::Shape;
use crate::simulate::Tree;
use crate::units::{Bytes, Entries};

/// How thoroughly costs are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// At many moments, with filters as the engine decides them.
    Full,
    /// At few moments, with filters of the ideal allocation: for searches over many designs.
    Quick,
}

/// The lookups beside the writes, for which filters are rebuilt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lookups {
    /// So many between two writes that filters are always as they should be; or each rebuild is
    /// awaited.
    Countless,
    /// Filters are rebuilt when that repays ([`RebuildWait`]).
    Some {
        /// Lookups for each write, at least 0.
        per_write: f64,
        /// Seconds of a block read, more than 0.
        read_seconds: f64,
    },
}

/// The filters of a tree's runs.
pub(super) struct RunRates {
    choice: FilterChoice,
    entry_bytes: u64,
    effort: Effort,
    lookups: Lookups,
    wait: RebuildWait,
    /// Bytes flushed when filters were decided last.
    flushed: Option<Bytes>,
    /// Entries of filters that were built anew since the first decision.
    rebuilt: u64,
    /// The lookups for which bits are allocated.
    asked: Asked,
    filters: BTreeMap<RunId, RunFilter>,
    /// The code of a filter over the whole tree, once one was needed.
    code: Option<CodeLengths>,
}

/// The filter of a run; by default none.
#[derive(Clone, Copy, Debug, Default)]
struct RunFilter {
    in_use: Option<(FilterKind, f64)>,
    stored: Option<StoredFilter>,
    /// Its false positive rate.
    fpr: f64,
}

impl RunRates {
    pub(super) fn new(choice: FilterChoice, entry_bytes: u64, effort: Effort, lookups: Lookups) -> Self {
        let found = match choice {
            // Nothing has been observed yet.
            FilterChoice::Each { allocation, .. } => allocation.found().unwrap_or(0.0),
            FilterChoice::None | FilterChoice::Tree { .. } => 0.0,
        };
        Self {
            choice,
            entry_bytes,
            effort,
            lookups,
            wait: RebuildWait::default(),
            flushed: None,
            rebuilt: 0,
            asked: Asked::Found(found),
            filters: BTreeMap::new(),
            code: None,
        }
    }

    /// The false positive rate of each run, young to old.
    pub(super) fn of_runs(&mut self, tree: &Tree<'_>) -> Vec<f64> {
        match self.choice {
            FilterChoice::Tree { bits_per_entry } => {
                let all = tree.occupancy().bytes();
                let shares = tree.occupancy().runs().map(|(level, run)| (level, run.bytes.ratio(all)));
                let slots = chucky::slots(bits_per_entry);
                match self.effort {
                    Effort::Full => {
                        self.code(slots, tree.shape()).rates(tree.shape().last(), &shares.collect::<Vec<_>>())
                    }
                    Effort::Quick => chucky::rates(slots, &shares.map(|(_, share)| share).collect::<Vec<_>>()),
                }
            }
            FilterChoice::None => vec![1.0; tree.occupancy().runs().count()],
            FilterChoice::Each { kind, bits_per_entry, .. } => {
                match self.effort {
                    Effort::Full => self.decide(tree),
                    Effort::Quick => self.allocate(tree, kind, bits_per_entry),
                }
                tree.occupancy().runs().map(|(_, run)| self.filters[&run.id].fpr).collect()
            }
        }
    }

    /// The code of the filter over the whole tree. As in the engine, it is made again when a shape
    /// needs more LIDs.
    fn code(&mut self, slots: usize, shape: &Shape) -> &CodeLengths {
        let present = self.code.take().filter(|code| code.has_lids_for(shape));
        self.code.insert(present.unwrap_or_else(|| CodeLengths::of(slots, shape)))
    }

    /// The false positive rate of the output of a compaction in progress: of the filter that its
    /// run gets when it is built. In a filter over the tree its entries take the place of its
    /// inputs'.
    pub(super) fn of_output(&mut self, tree: &Tree<'_>, plan: &CompactionPlan) -> f64 {
        match self.choice {
            FilterChoice::None => 1.0,
            FilterChoice::Tree { .. } => {
                let rates = self.of_runs(tree);
                let is_input = |run: &Run| plan.inputs.contains(&run.id);
                tree.occupancy().runs().zip(rates).filter(|((_, run), _)| is_input(run)).map(|(_, rate)| rate).sum()
            }
            FilterChoice::Each { kind, bits_per_entry, .. } => {
                let mut runs = self.runs(tree);
                let inputs: Vec<usize> = tree
                    .occupancy()
                    .runs()
                    .enumerate()
                    .filter(|(_, (_, run))| plan.inputs.contains(&run.id))
                    .map(|(at, _)| at)
                    .collect();
                let (&oldest, younger) = inputs.split_last().expect("a compaction has inputs");
                let mut merged = RunFilters { tables: vec![TableFilters::default()], ..runs[oldest].clone() };
                for &at in &inputs {
                    merged.tables[0].entries += runs[at].tables[0].entries;
                    merged.tables[0].live += runs[at].tables[0].entries;
                    merged.bytes += if at == oldest { Bytes::ZERO } else { runs[at].bytes };
                }
                runs[oldest] = merged;
                younger.iter().rev().for_each(|&at| drop(runs.remove(at)));
                let at = oldest - younger.len();
                let entries = runs[at].tables[0].entries;
                let settings = self.settings(tree, &mut runs, at);
                settings.map_or(1.0, |settings| match kind {
                    FilterKind::Elastic => predict(kind, bits_per_entry).fpr,
                    FilterKind::Bloom | FilterKind::Blocked => RunFilter::of(settings, entries).fpr,
                })
            }
        }
    }

    /// Returns true if there is one filter for all runs, which each lookup probes once.
    pub(super) fn is_of_tree(&self) -> bool {
        matches!(self.choice, FilterChoice::Tree { .. })
    }

    /// Gives each run its share of all bits on the ideal curve.
    fn allocate(&mut self, tree: &Tree<'_>, kind: FilterKind, bits_per_entry: f64) {
        let runs = self.runs(tree);
        let extent = |run: &RunFilters| Extent {
            runs: 1,
            bytes: run.bytes,
            entries: Entries(run.tables[0].entries),
            seen: None,
        };
        let extents: Vec<Extent> = runs.iter().map(extent).collect();
        let load = |(extent, weight): (&Extent, f64)| Load { entries: extent.entries, weight };
        let loads: Vec<Load> = extents.iter().zip(self.asked.weights(&extents)).map(load).collect();
        let all: f64 = loads.iter().map(|load| load.entries.0 as f64).sum();
        let is_uniform = matches!(self.choice, FilterChoice::Each { allocation: Allocation::Uniform, .. });
        let bits = if is_uniform { vec![bits_per_entry; loads.len()] } else { ideal(&loads, bits_per_entry * all) };
        self.filters = tree
            .occupancy()
            .runs()
            .zip(bits)
            .map(|((_, run), bits)| {
                let bits = bits.min(BITS_MAX);
                let fpr = match kind {
                    FilterKind::Elastic => predict(kind, bits.max(f64::MIN_POSITIVE)).fpr,
                    FilterKind::Bloom | FilterKind::Blocked => Curve::new(kind).rate(bits),
                };
                let entries = run.bytes.as_f64() / self.entry_bytes as f64;
                (run.id, RunFilter { in_use: Some((kind, bits * entries)), stored: None, fpr })
            })
            .collect();
    }

    /// The filter of a new run, which is at this place among the runs of the tree; `None` for no
    /// filter.
    fn settings(&self, tree: &Tree<'_>, runs: &mut [RunFilters], new: usize) -> Option<FilterSettings> {
        let FilterChoice::Each { kind, bits_per_entry, allocation } = self.choice else { return None };
        if allocation == Allocation::Uniform {
            return Some(FilterSettings::stored(kind, bits_per_entry));
        }
        // A flush that makes the tree grow goes on to where it does not fill its level.
        let built = &mut runs[new];
        while built.level < tree.shape().last() && planner::is_level_full(tree.shape(), built.level, built.bytes.0) {
            built.level += 1;
        }
        filter_plan::for_new(self.choice, &self.asked, tree.shape(), runs, new)
    }

    /// Gives runs that were built since the last call their filters.
    fn build(&mut self, tree: &Tree<'_>) {
        let ids: Vec<RunId> = tree.occupancy().runs().map(|(_, run)| run.id).collect();
        self.filters.retain(|id, _| ids.contains(id));
        // Older runs first: younger ones count their bits.
        for (at, id) in
            ids.iter().enumerate().rev().filter(|(_, id)| !self.filters.contains_key(id)).collect::<Vec<_>>()
        {
            let mut runs = self.runs(tree);
            let settings = self.settings(tree, &mut runs, at);
            let entries = runs[at].tables[0].entries;
            let filter = settings.map_or(RunFilter::none(), |settings| RunFilter::built(settings, entries));
            self.filters.insert(*id, filter);
        }
    }

    /// Changes the filters of the present runs as a tree at rest does, if that repays. The first
    /// time it always does: whoever loads a tree waits until it is at rest.
    fn decide(&mut self, tree: &Tree<'_>) {
        self.build(tree);
        let runs = self.runs(tree);
        let ids: Vec<RunId> = tree.occupancy().runs().map(|(_, run)| run.id).collect();
        let decision =
            filter_plan::decide(self.choice, &self.asked, tree.shape(), &runs, tree.in_progress().is_empty());
        let flushed = tree.report().flushed;
        let before = self.flushed.replace(flushed);
        if let (Lookups::Some { per_write, read_seconds }, Some(before)) = (self.lookups, before) {
            let lookups = per_write * (flushed.0 - before.0) as f64 / self.entry_bytes as f64;
            if self.wait.lookups_left(decision.gain, lookups, read_seconds).is_some() {
                return;
            }
        }
        for change in decision.changes {
            let entries = runs[change.run].tables[0].entries;
            let is_built = matches!(change.target, FilterTarget::Of(_)) && before.is_some();
            self.rebuilt += if is_built { entries } else { 0 };
            let filter = self.filters.get_mut(&ids[change.run]).expect("every run was given one");
            filter.become_target(change.target, entries);
        }
    }

    /// Entries of filters that were built anew, besides those that were built with their runs.
    pub(super) fn rebuilt(&self) -> u64 {
        self.rebuilt
    }

    /// Bits of all filters in memory.
    pub(super) fn bits(&self, tree: &Tree<'_>) -> f64 {
        match self.choice {
            FilterChoice::Tree { bits_per_entry } => {
                let entries = tree.occupancy().bytes().as_f64() / self.entry_bytes as f64;
                entries * chucky::bits_per_entry(chucky::slots(bits_per_entry))
            }
            FilterChoice::None => 0.0,
            FilterChoice::Each { .. } => {
                self.filters.values().filter_map(|filter| filter.in_use).map(|(_, bits)| bits).sum()
            }
        }
    }

    /// The runs as the decider sees them; one without a filter is new.
    fn runs(&self, tree: &Tree<'_>) -> Vec<RunFilters> {
        let can_be_made = !matches!(self.choice, FilterChoice::Each { kind: FilterKind::Elastic, .. });
        let run = |(level, run): (usize, &Run)| {
            let entries = (run.bytes.0 / self.entry_bytes).max(1);
            let RunFilter { in_use, stored, .. } = self.filters.get(&run.id).copied().unwrap_or_default();
            let table = TableFilters { entries, live: entries, in_use, can_be_made, stored, passing: None };
            RunFilters { level, bytes: run.bytes, seen: None, tables: vec![table] }
        };
        tree.occupancy().runs().map(run).collect()
    }
}

impl RunFilter {
    fn none() -> Self {
        Self { fpr: 1.0, ..Self::default() }
    }

    /// A filter that was built with a table.
    fn built(settings: FilterSettings, entries: u64) -> Self {
        let FilterSettings { kind, bits_per_entry } = settings;
        if kind != FilterKind::Elastic {
            return Self::of(settings, entries);
        }
        // Its units are loaded when that is decided.
        let steps = units(bits_per_entry);
        let step_bits = lines(bits_per_entry / f64::from(steps), entries) as u64;
        let stored = Some(StoredFilter { kind, steps, step_bits, step_fpr: None, loaded: 0 });
        Self { stored, ..Self::none() }
    }

    /// A filter of one piece.
    fn of(settings: FilterSettings, entries: u64) -> Self {
        let bits = lines(settings.bits_per_entry, entries);
        let fpr = predict(settings.kind, bits / entries as f64).fpr;
        Self { in_use: Some((settings.kind, bits)), stored: None, fpr }
    }

    fn become_target(&mut self, target: FilterTarget, entries: u64) {
        match (target, &mut self.stored) {
            (FilterTarget::Of(settings), _) => *self = Self::of(settings, entries),
            (FilterTarget::Units(bits), Some(stored)) => {
                stored.loaded = ((bits / stored.step_bits) as u32).min(stored.steps);
                let unit = predict(FilterKind::Blocked, stored.step_bits as f64 / entries as f64).fpr;
                self.fpr = unit.powi(stored.loaded as i32);
                let bits = stored.step_bits as f64 * f64::from(stored.loaded);
                self.in_use = (bits > 0.0).then_some((stored.kind, bits));
            }
            (FilterTarget::Nothing, _) => *self = Self { stored: self.stored, ..Self::none() },
            (FilterTarget::Stored | FilterTarget::Units(_), _) => {}
        }
    }
}

/// Bits of a filter of whole cache lines.
fn lines(bits_per_entry: f64, entries: u64) -> f64 {
    let line = LINE_BITS as f64;
    (bits_per_entry * entries as f64 / line).ceil().max(1.0) * line
}
