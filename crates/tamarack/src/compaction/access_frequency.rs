//! [`AccessFrequencies`]: how often zero-result lookups reach each table with an elastic filter,
//! aged, while tables come and go.
//!
//! ```text
//! sampled lookups, per table ─► frequencies, aged ─► tamarack_model::filter_plan ─► units of each
//! table
//! tables of the tree ─────────┘
//! ```
//!
//! **Frequencies belong to keys.** A new table starts with the frequencies of the tables that it
//! overlaps: of one run, all of those within its keys, half of those across a border, and its share
//! of one that contains it; of several runs, the maximum, since a zero-result lookup passes all of
//! them.
//!
//! A database that was just opened knows nothing: small runs then have more units for each entry
//! than large ones ([`tamarack_model::access_frequency::PRIOR`]).
//!
//! Tests: here, and `tests/suite/elastic.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tamarack_model::access_frequency::{AccessFrequency, half_life};

use crate::compaction::filter_inputs::FilterInputs;
use crate::format::meta::{TableId, TableMeta};
use crate::tree::table_file::TableFile;

/// So many decisions are made in a half-life.
const DECISIONS_PER_HALF_LIFE: u64 = 8;

/// The frequencies of the tables of a tree.
#[derive(Debug, Default)]
pub(super) struct AccessFrequencies {
    /// Lookups that were sampled when it was last brought up to date.
    sampled: u64,
    tables: BTreeMap<TableId, TableFrequency>,
}

/// A table, and how often lookups reach it.
#[derive(Debug)]
struct TableFrequency {
    file: Weak<TableFile>,
    meta: Arc<TableMeta>,
    /// The run it is in, by its place.
    run: usize,
    frequency: AccessFrequency,
    /// Its samples of zero-result lookups that are counted already.
    zero_result: u64,
}

impl AccessFrequencies {
    /// Follows the tree, now that so many lookups were `sampled`: notes the frequency of each table
    /// with an elastic filter in `inputs`. Returns the number of samples at which to do that again,
    /// and the tables
    /// that the tree has no more but that somebody still reads.
    pub(super) fn follow(&mut self, inputs: &mut FilterInputs, sampled: u64) -> (u64, Vec<Arc<TableFile>>) {
        let is_elastic = |file: &TableFile| file.units().is_some();
        let tables = inputs.files.iter().flatten().filter(|file| is_elastic(file)).count();
        let half_life = half_life(tables);
        let gone = self.age(inputs, sampled, half_life);
        let runs = inputs.files.iter().filter(|files| files.iter().any(|file| is_elastic(file))).count();
        let tables_per_run = tables as f64 / runs.max(1) as f64;
        for (run, files) in inputs.runs.iter_mut().zip(&inputs.files) {
            let of_run: u64 = run.tables.iter().map(|table| table.live).sum();
            for (table, file) in run.tables.iter_mut().zip(files) {
                let part_of_run = table.live as f64 / of_run.max(1) as f64;
                let frequency = self.tables.get(&file.id()).map(|known| known.frequency);
                table.passing = frequency.map(|frequency| frequency.with_prior(part_of_run, tables_per_run));
            }
        }
        let next = if tables == 0 { u64::MAX } else { sampled + half_life / DECISIONS_PER_HALF_LIFE };
        (next, gone)
    }

    /// Brings the frequencies of all tables up to date; returns tables that are not in the tree any
    /// more.
    fn age(&mut self, inputs: &FilterInputs, sampled: u64, half_life: u64) -> Vec<Arc<TableFile>> {
        let all = sampled - self.sampled;
        self.sampled = sampled;
        for known in self.tables.values_mut() {
            let zero_result = known.file.upgrade().map_or(known.zero_result, |file| file.lookups().sampled_zero_result);
            known.frequency = known.frequency.after(all, zero_result - known.zero_result, half_life);
            known.zero_result = zero_result;
        }
        let files = inputs.files.iter().enumerate().flat_map(|(run, files)| files.iter().map(move |file| (run, file)));
        let known = |(run, file): (usize, &Arc<TableFile>)| {
            let known = self.tables.get(&file.id()).map(|known| (known.frequency, known.zero_result));
            let (frequency, zero_result) = known.unwrap_or_else(|| {
                let here = file.lookups().sampled_zero_result;
                (inherited(file.meta(), self.tables.values()).after(0, here, half_life), here)
            });
            (
                file.id(),
                TableFrequency { file: Arc::downgrade(file), meta: file.meta().clone(), run, frequency, zero_result },
            )
        };
        let now = files.filter(|(_, file)| file.units().is_some()).map(known).collect();
        let before = std::mem::replace(&mut self.tables, now);
        let gone = before.into_iter().filter(|(id, _)| !self.tables.contains_key(id));
        gone.filter_map(|(_, known)| known.file.upgrade()).collect()
    }
}

/// The frequency of a table that is new, from those that were there.
fn inherited<'a>(new: &TableMeta, others: impl Iterator<Item = &'a TableFrequency>) -> AccessFrequency {
    let mut of_runs: BTreeMap<usize, AccessFrequency> = BTreeMap::new();
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
        *of_run = of_run.plus(other.frequency.part(part));
    }
    of_runs
        .into_values()
        .fold(AccessFrequency::default(), |most, frequency| if frequency.is_more_than(most) { frequency } else { most })
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::entry::Sequence;
    use crate::format::meta::EditNumber;
    use crate::format::properties::Properties;

    fn meta(from: u8, to: u8, entries: u64) -> TableMeta {
        TableMeta {
            id: TableId(1),
            file_bytes: 1000,
            root_checksum: 0,
            digest_bytes: 0,
            created_after: EditNumber(0),
            properties: Properties {
                entries,
                raw_bytes: 1000,
                smallest_key: vec![from],
                largest_key: vec![to],
                smallest_sequence: Sequence(1),
                largest_sequence: Sequence(1),
                filter_kind: 3,
                filter_bits: 1024,
                ..Properties::default()
            },
        }
    }

    fn known(run: usize, from: u8, to: u8, entries: u64, frequency: u64) -> TableFrequency {
        let frequency = AccessFrequency::default().after(0, frequency, 1);
        TableFrequency { file: Weak::new(), meta: Arc::new(meta(from, to, entries)), run, frequency, zero_result: 0 }
    }

    /// Frequencies go with the keys: all of what stands inside of a new table, half of what stands
    /// across its border, a part of what it stands inside of, nothing of others; and of several
    /// runs what the hottest gives.
    #[test]
    fn new_tables_are_as_hot_as_what_they_overlap() {
        let frequency_of = |new: TableMeta, others: &[TableFrequency]| inherited(&new, others.iter());
        let of = |frequency: u64| AccessFrequency::default().after(0, frequency, 1);
        let run = [known(1, 10, 19, 100, 8), known(1, 20, 29, 100, 40), known(1, 30, 39, 100, 600)];
        assert_eq!(frequency_of(meta(5, 9, 50), &run), of(0));
        assert_eq!(frequency_of(meta(10, 29, 200), &run), of(48));
        assert_eq!(frequency_of(meta(15, 35, 200), &run), of(4 + 40 + 300));
        assert_eq!(frequency_of(meta(22, 25, 50), &run), of(20));
        assert_eq!(frequency_of(meta(22, 25, 500), &run), of(40));
        // Each zero-result lookup reaches both runs.
        let two = [known(1, 10, 19, 100, 8), known(2, 10, 13, 100, 3), known(2, 14, 19, 100, 4)];
        assert_eq!(frequency_of(meta(10, 19, 300), &two), of(8));
    }
}
