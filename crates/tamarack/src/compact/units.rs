//! [`Units`]: how many units of its elastic filter each table has in memory, as lookups come to other tables and the tree changes.
//!
//! ```text
//! sampled lookups, per table ─► heat, aged ─┐
//!                                           ├─► tamarack_model::elastic::decide ─► fewer units: dropped at once
//! tables, their entries and units ──────────┘                                   └─► more units: read, some in each step
//! ```
//!
//! Decided anew when the tree has changed, and after every eighth of a half-life of sampled lookups, by whichever worker comes by. What is dropped is dropped before anything is read, and nothing
//! is read beyond what was decided, so filters take no more than their budget at any moment: as many bits as were chosen for each entry of the tree, less what filters of other kinds take.
//! Tables that are being written have no units yet; a new one begins with its fair share of the budget if a lookup opens it before the next decision, and what it replaces is
//! smaller by then.
//!
//! **Heat goes with the keys.** A table that is new to the tree is taken to be as hot as those were that it overlaps: of one run all that stand inside its keys, half of those that stand across
//! a border, and its part of one that it stands inside of; and of several runs that which gives most, since a lookup in vain comes by all of them.
//!
//! When the database is opened nothing is known, and small runs have more units for each entry than large ones.
//!
//! Tests: here, and `tests/elastic.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tamarack_env::sync::Mutex;
use tamarack_model::elastic::{self, HOLD, Heat, decide, half_life};

use crate::format::edit::RunId;
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::stats::LookupCounters;
use crate::table::UnitsOfTable;
use crate::tree::table_file::TableFile;
use crate::tree::version::{TreeVersion, Version};

/// So many decisions are made in a half-life.
const DECISIONS_PER_HALF_LIFE: u64 = 8;

/// So many tables are read from in one step.
const TABLES_PER_STEP: usize = 8;

/// Which units are in memory, and why.
#[derive(Debug)]
pub(super) struct Units {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What all filters of the tree may take.
    bits_per_entry: f64,
    /// Of the version that was looked at last.
    edit: Option<EditNumber>,
    /// Lookups that were sampled by then.
    sampled: u64,
    /// After so many there is a decision.
    next: u64,
    /// The tables of that version whose filters are elastic.
    tables: BTreeMap<TableId, Known>,
    /// Who is to have more units than it has, and how many.
    to_load: Vec<(Arc<TableFile>, u32)>,
}

/// What is known of a table.
#[derive(Debug)]
struct Known {
    file: Weak<TableFile>,
    meta: Arc<TableMeta>,
    run: RunId,
    heat: Heat,
    /// Its samples in vain that are part of the heat already.
    in_vain: u64,
}

/// A table of a version, as far as it counts there.
struct Standing<'a> {
    file: &'a Arc<TableFile>,
    units: UnitsOfTable,
    run: RunId,
    entries: u64,
    part_of_run: f64,
}

impl Units {
    /// For a tree whose filters may take so many bits for each entry.
    pub(super) fn new(bits_per_entry: f64) -> Self {
        Self { state: Mutex::new(State { bits_per_entry, ..State::default() }) }
    }

    /// Other filters were chosen, which may take so many bits for each entry.
    pub(super) fn set_bits_per_entry(&self, bits_per_entry: f64) {
        let mut state = self.state.lock();
        (state.bits_per_entry, state.edit) = (bits_per_entry, None);
    }

    /// Decides, if it is time to, drops what is to go, and reads some of what is to come. True if there is more to be read.
    pub(super) fn follow(&self, version: &Version, tree: &TreeVersion, lookups: &LookupCounters) -> bool {
        // Who comes while another is at it leaves it to that.
        let Some(mut state) = self.state.try_lock() else { return false };
        if state.edit != Some(version.edit_number()) || lookups.sampled() >= state.next {
            self.decide(&mut state, version, tree, lookups);
        }
        for _ in 0..TABLES_PER_STEP {
            let Some((file, units)) = state.to_load.pop() else { break };
            set_units(&file, units);
        }
        !state.to_load.is_empty()
    }

    fn decide(&self, state: &mut State, version: &Version, tree: &TreeVersion, lookups: &LookupCounters) {
        let (mut entries, mut taken) = (0, 0);
        let mut standings: BTreeMap<TableId, Standing<'_>> = BTreeMap::new();
        let mut runs = 0;
        for run in tree.runs() {
            let of_run: u64 = run.slices().iter().map(|slice| slice.share_of(slice.table().meta().entries)).sum();
            let mut has_units = false;
            for slice in run.slices().iter() {
                let file = slice.table();
                let share = slice.share_of(file.meta().entries);
                entries += share;
                // Asked once: it may be told to have another filter meanwhile.
                let Some(units) = file.units() else {
                    taken += slice.share_of(file.filter().1);
                    continue;
                };
                has_units = true;
                let begin = Standing { file, units, run: run.id(), entries: 0, part_of_run: 0.0 };
                let standing = standings.entry(file.id()).or_insert(begin);
                standing.entries += share;
                standing.part_of_run += share as f64 / of_run.max(1) as f64;
            }
            runs += usize::from(has_units);
        }
        let sampled = lookups.sampled();
        let half_life = half_life(standings.len());
        state.heat(&standings, sampled, half_life);
        state.edit = Some(version.edit_number());
        state.next = if standings.is_empty() { u64::MAX } else { sampled + half_life / DECISIONS_PER_HALF_LIFE };
        lookups.wake_at(state.next);
        let tables_per_run = standings.len() as f64 / runs.max(1) as f64;
        let of_model = |(id, standing): (&TableId, &Standing<'_>)| {
            let units = standing.units;
            let heat = state.tables[id].heat.with_prior(standing.part_of_run, tables_per_run);
            let UnitsOfTable { stored, in_memory, unit_bits } = units;
            let unit_fpr = units.unit_fpr(standing.file.meta());
            elastic::Table { unit_bits, unit_fpr, stored, in_memory, heat }
        };
        let tables: Vec<elastic::Table> = standings.iter().map(of_model).collect();
        let budget = (state.bits_per_entry * entries as f64) as u64;
        let decided = decide(&tables, budget.saturating_sub(taken), HOLD);
        state.to_load.clear();
        for ((standing, table), units) in standings.values().zip(&tables).zip(decided) {
            if units > table.in_memory {
                state.to_load.push((standing.file.clone(), units));
            } else if units < table.in_memory {
                set_units(standing.file, units);
            }
        }
    }
}

impl State {
    /// The heat of all tables, now that so many lookups were sampled.
    fn heat(&mut self, standings: &BTreeMap<TableId, Standing<'_>>, sampled: u64, half_life: u64) {
        let all = sampled - self.sampled;
        self.sampled = sampled;
        for known in self.tables.values_mut() {
            let in_vain = known.file.upgrade().map_or(known.in_vain, |file| file.lookups().sampled_in_vain);
            known.heat = known.heat.after(all, in_vain - known.in_vain, half_life);
            known.in_vain = in_vain;
        }
        let known = |(id, standing): (&TableId, &Standing<'_>)| {
            let (meta, run) = (standing.file.meta().clone(), standing.run);
            let known = self.tables.get(id).map(|known| (known.heat, known.in_vain));
            let (heat, in_vain) = known.unwrap_or_else(|| {
                let here = standing.file.lookups().sampled_in_vain;
                (inherited(&meta, self.tables.values()).after(0, here, half_life), here)
            });
            (*id, Known { file: Arc::downgrade(standing.file), meta, run, heat, in_vain })
        };
        let now: BTreeMap<TableId, Known> = standings.iter().map(known).collect();
        for (id, gone) in std::mem::replace(&mut self.tables, now) {
            // Somebody may be reading what the tree has no more: without a filter from now on.
            if !self.tables.contains_key(&id)
                && let Some(file) = gone.file.upgrade()
            {
                set_units(&file, 0);
            }
        }
    }
}

/// Gives a table so many units, if they can be read.
fn set_units(file: &TableFile, units: u32) {
    if let Err(error) = file.set_units(units) {
        tracing::warn!(%error, "units of a filter could not be read; lookups go on with those that are there");
    }
}

/// The heat of a table that is new, from those that were there.
fn inherited<'a>(new: &TableMeta, others: impl Iterator<Item = &'a Known>) -> Heat {
    let mut of_runs: BTreeMap<RunId, Heat> = BTreeMap::new();
    for other in others {
        let meta = &other.meta;
        if meta.largest_key < new.smallest_key || new.largest_key < meta.smallest_key {
            continue;
        }
        let begins_inside = new.smallest_key <= meta.smallest_key;
        let ends_inside = meta.largest_key <= new.largest_key;
        let part = match (begins_inside, ends_inside) {
            (true, true) => 1.0,
            (false, false) => (new.entries as f64 / meta.entries.max(1) as f64).min(1.0),
            _ => 0.5,
        };
        let of_run = of_runs.entry(other.run).or_default();
        *of_run = of_run.plus(other.heat.part(part));
    }
    of_runs.into_values().fold(Heat::default(), |most, heat| if heat.is_more_than(most) { heat } else { most })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::entry::Sequence;

    fn meta(from: u8, to: u8, entries: u64) -> TableMeta {
        TableMeta {
            id: TableId(1),
            file_bytes: 1000,
            root_checksum: 0,
            entries,
            tombstones: 0,
            raw_bytes: 1000,
            smallest_key: vec![from],
            largest_key: vec![to],
            smallest_sequence: Sequence(1),
            largest_sequence: Sequence(1),
            filter_kind: 3,
            filter_bits: 1024,
            digest_bytes: 0,
            created_after: EditNumber(0),
        }
    }

    fn known(run: u64, from: u8, to: u8, entries: u64, heat: u64) -> Known {
        let heat = Heat::default().after(0, heat, 1);
        Known { file: Weak::new(), meta: Arc::new(meta(from, to, entries)), run: RunId(run), heat, in_vain: 0 }
    }

    /// Heat goes with the keys: all of what stands inside of a new table, half of what stands across its border, a part of what it stands inside of, nothing of others; and of several
    /// runs what the hottest gives.
    #[test]
    fn new_tables_are_as_hot_as_what_they_overlap() {
        let heat_of = |new: TableMeta, others: &[Known]| inherited(&new, others.iter());
        let of = |heat: u64| Heat::default().after(0, heat, 1);
        let run = [known(1, 10, 19, 100, 8), known(1, 20, 29, 100, 40), known(1, 30, 39, 100, 600)];
        assert_eq!(heat_of(meta(5, 9, 50), &run), of(0));
        assert_eq!(heat_of(meta(10, 29, 200), &run), of(48));
        assert_eq!(heat_of(meta(15, 35, 200), &run), of(4 + 40 + 300));
        assert_eq!(heat_of(meta(22, 25, 50), &run), of(20));
        assert_eq!(heat_of(meta(22, 25, 500), &run), of(40));
        // Each lookup in vain comes by both runs.
        let two = [known(1, 10, 19, 100, 8), known(2, 10, 13, 100, 3), known(2, 14, 19, 100, 4)];
        assert_eq!(heat_of(meta(10, 19, 300), &two), of(8));
    }
}
