//! [`FilterInputs`]: the runs of a tree as the filter decider sees them
//! ([`tamarack_model::filter_plan`]): tables with their present and possible filters, and the runs'
//! sampled lookups.
//!
//! With `allocation=observed` the weight of a run is its recent share of zero-result lookups,
//! sampled: in the last one or two periods of `crate::stats`, about half a million lookups. The
//! output of a compaction takes over what the oldest of its inputs saw. A database that was just
//! opened has seen nothing, which is the same as `allocation=monkey`.
//!
//! Decides nothing and changes nothing. Tests: `tests/suite/allocation.rs`,
//! `tests/suite/observed.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_model::Bytes;
use tamarack_model::allocate::weights::{Asked, Seen, SeenRun};
use tamarack_model::filter::Allocation;
use tamarack_model::filter_plan::{RunFilters, TableFilters};

use crate::compaction::task::Task;
use crate::format::edit::RunId;
use crate::format::meta::TableId;
use crate::stats::LookupCounters;
use crate::tree::run::Run;
use crate::tree::table_file::TableFile;
use crate::tree::version::TreeVersion;

/// From so many sampled lookups on, filters change for what was observed. Fewer are noise; new
/// tables go by them all the same.
const KNOWN_SAMPLES: u64 = 1024;

/// The runs of a tree and their filters.
pub(super) struct FilterInputs {
    /// The runs, young to old.
    pub(super) runs: Vec<RunFilters>,
    /// Their numbers.
    ids: Vec<RunId>,
    /// Their tables, in the same order.
    pub(super) files: Vec<Vec<Arc<TableFile>>>,
    /// What lookups ask of the runs.
    pub(super) asked: Asked,
    /// Whether enough is known of that to change filters for it.
    pub(super) is_known: bool,
}

impl FilterInputs {
    /// Of the runs as they are. Entries that a compaction in progress has handed over still count
    /// with its inputs if `whole_inputs`: the tables stay until the last one is, and so do their
    /// filters.
    pub(super) fn of(tree: &TreeVersion, allocation: Allocation, lookups: &LookupCounters, whole_inputs: bool) -> Self {
        let levels = tree.levels().iter().zip(1..);
        let all: Vec<(usize, &Arc<Run>)> =
            levels.flat_map(|(level, number)| level.runs().iter().map(move |run| (number, run))).collect();
        let (mut runs, mut files, mut known) = (Vec::new(), Vec::new(), BTreeMap::new());
        for &(level, run) in &all {
            let is_whole = whole_inputs && tree.compaction_of(run.id()).is_some();
            let (of_run, tables) = tables_of(run, is_whole, &mut known);
            let bytes = run.slices().iter().map(|slice| slice.raw_bytes()).sum();
            runs.push(RunFilters { level, bytes: Bytes(bytes), seen: None, tables });
            files.push(of_run);
        }
        let ids = all.iter().map(|(_, run)| run.id()).collect();
        let (asked, is_known) = match allocation.found() {
            Some(found) => (Asked::Found(found), true),
            None => {
                let (sampled, past_memtables) = lookups.lately();
                let share = past_memtables as f64 / sampled.max(1) as f64;
                let seen_runs: Vec<SeenRun> = all.iter().map(|(_, run)| seen_of(run)).collect();
                let seen = Seen::new(sampled as f64, share.min(1.0), &seen_runs);
                for (run, weight) in runs.iter_mut().zip(seen.weights()) {
                    run.seen = Some(weight);
                }
                (Asked::Seen(seen), lookups.sampled() >= KNOWN_SAMPLES)
            }
        };
        Self { runs, ids, files, asked, is_known }
    }

    /// The runs as they will be when a job is done, and the place of its output among them. Its
    /// tables are one, of which nothing but the entries is known.
    pub(super) fn after(self, tree: &TreeVersion, task: &Task) -> (Vec<RunFilters>, Asked, usize) {
        let (members, buffer) = match task {
            Task::Flush { immutable, input } => (input.as_slice().to_vec(), Some(&immutable.memtable)),
            Task::Range { inputs } => (inputs.to_vec(), None),
            Task::Compaction { id } => {
                let compaction = tree.compaction(*id);
                (compaction.inputs.iter().copied().chain([compaction.output]).collect(), None)
            }
        };
        let (mut level, mut bytes) = (1, buffer.map_or(0, |buffer| buffer.raw_bytes()));
        let mut entries = buffer.map_or(0, |buffer| buffer.entries());
        // A flush comes before all others, everything else where the oldest of its runs is.
        let (mut runs, mut new, mut merged) = (Vec::new(), 0, Vec::new());
        for (place, (id, run)) in self.ids.iter().zip(self.runs).enumerate() {
            if !members.contains(id) {
                runs.push(run);
                continue;
            }
            let of_run: u64 = run.tables.iter().map(|table| table.live).sum();
            (level, bytes, entries) = (run.level, bytes + run.bytes.0, entries + of_run);
            // The output itself is among them, and empty when the job begins.
            if of_run > 0 {
                merged.push(place);
            }
            new = runs.len();
        }
        let seen = match &self.asked {
            Asked::Seen(seen) => seen.merged(&merged),
            Asked::Found(_) => None,
        };
        runs.insert(new, RunFilters { seen, ..new_run(level, Bytes(bytes), entries) });
        (runs, self.asked, new)
    }
}

/// A run that is about to be built.
pub(super) fn new_run(level: usize, bytes: Bytes, entries: u64) -> RunFilters {
    let table = TableFilters { entries, live: entries, ..TableFilters::default() };
    RunFilters { level, bytes, seen: None, tables: vec![table] }
}

/// The tables of a run, but for those that are `known` of another: while a compaction goes on, a
/// table may be in two runs. `known` has the run of each table, and its place there.
fn tables_of(
    run: &Run,
    is_whole: bool,
    known: &mut BTreeMap<TableId, (RunId, usize)>,
) -> (Vec<Arc<TableFile>>, Vec<TableFilters>) {
    let (mut files, mut tables): (Vec<Arc<TableFile>>, Vec<TableFilters>) = Default::default();
    for slice in run.slices().iter() {
        let table = slice.table();
        let entries = table.meta().entries;
        let live = if is_whole { entries } else { slice.share_of(entries) };
        let (of_run, at) = *known.entry(table.id()).or_insert((run.id(), tables.len()));
        match tables.get_mut(at).filter(|_| of_run == run.id()) {
            // A table that is cut in two has one filter.
            Some(filters) => filters.live = entries.min(filters.live + live),
            None if of_run == run.id() => {
                tables.push(table.filters(live.max(1)));
                files.push(table.clone());
            }
            None => {}
        }
    }
    (files, tables)
}

/// What lookups did lately in a run's tables. Tables that are younger than others saw fewer.
fn seen_of(run: &Run) -> SeenRun {
    let mut seen = SeenRun { bytes: Bytes(run.volume().raw_bytes), ..SeenRun::default() };
    let mut entries = 0.0;
    for slice in run.slices().iter() {
        let (came, zero_result, lookups) = slice.table().seen_lately();
        let of_slice = slice.share_of(slice.table().meta().entries) as f64;
        seen.came += came;
        seen.misses += zero_result;
        seen.lookups += lookups as f64 * of_slice;
        entries += of_slice;
    }
    let share = |sum: f64| sum.min(1.0);
    SeenRun {
        lookups: seen.lookups / f64::max(entries, 1.0),
        came: share(seen.came),
        misses: share(seen.misses),
        ..seen
    }
}
