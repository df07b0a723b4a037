//! The false positive rate that is predicted for a run, from the filters of its tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tamarack_filter::kind_to_number;
use tamarack_model::FilterKind;
use tamarack_model::filter::predict;

use super::run::Run;
use super::table_file::TableFile;

/// Bits per entry are rounded to this part of a bit; within it, rates differ by less than 1 %.
const PARTS: u64 = 64;

impl Run {
    /// Returns the tables, each once.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        // Other tables may stand between two slices of one.
        let mut known = BTreeSet::new();
        self.slices().iter().map(|slice| slice.table()).filter(move |table| known.insert(table.id()))
    }

    /// Returns the predicted false positive rate of the filters of its tables, averaged over
    /// entries; 1 without filters. A filter over the whole tree is not counted.
    pub fn filter_fpr(&self) -> f64 {
        let (mut all, mut passed) = (0, 0.0);
        // Tables with about the same bits per entry are taken together.
        let mut alike: BTreeMap<(usize, u64), (u64, u64)> = BTreeMap::new();
        for table in self.tables() {
            let (meta, (filter_kind, filter_bits)) = (table.meta(), table.filter());
            all += meta.entries;
            if let Some(units) = table.units().filter(|units| units.in_memory > 0) {
                passed += meta.entries as f64 * units.fpr(meta);
                continue;
            }
            match FilterKind::ALL.into_iter().position(|kind| kind_to_number(kind) == filter_kind) {
                Some(kind) => {
                    let sums = alike.entry((kind, filter_bits * PARTS / meta.entries.max(1))).or_default();
                    *sums = (sums.0 + filter_bits, sums.1 + meta.entries);
                }
                None => passed += meta.entries as f64,
            }
        }
        for ((kind, _), (bits, entries)) in alike {
            let entries = entries.max(1) as f64;
            passed += entries * predict(FilterKind::ALL[kind], bits as f64 / entries).fpr;
        }
        if all == 0 { 1.0 } else { passed / all as f64 }
    }
}
