//! [`Directory`]: finds the table of a run that may hold a key, in a few cache lines.
//!
//! ```text
//! slices    ├── 7 ──┤    ├─ 8 ──┤├─── 9 ───┤
//! bounds    0       1    2      34         5        Prefixes of where each begins and ends
//! key              ▲                                one bound at or before it: an odd number, so inside of a slice
//! ```
//!
//! A search in the list of slices itself follows three pointers for each comparison. A directory is
//! made by the first lookup in a run and belongs to it: a run that changes is another run, without
//! one. Cost: making one looks at both bounds of each slice; it takes 16 bytes per slice, and a
//! reference to its table.
//!
//! Tests: `tree/tests/runs.rs`, and all that look something up.

use std::sync::{Arc, OnceLock};

use super::chunks::Chunks;
use super::slice::Slice;
use super::table_file::TableFile;
use crate::format::prefixes::Prefixes;

/// The tables of a run by key; made when it is first asked.
#[derive(Debug, Default)]
pub(super) struct Directory(OnceLock<Tables>);

#[derive(Debug)]
struct Tables {
    /// Of the beginning and the end of each slice.
    bounds: Prefixes,
    tables: Box<[Arc<TableFile>]>,
    /// Raw bytes of all slices; an estimate where slices are cut.
    raw_bytes: u64,
}

/// The copy of a run is made to be changed.
impl Clone for Directory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Directory {
    /// The table of the slice that may hold `key`. `slices` must be the same at each call.
    #[inline]
    pub(super) fn find(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        self.tables(slices).find(key, slices)
    }

    /// How many slices have only smaller keys.
    #[inline]
    pub(super) fn ending_before(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.tables(slices).bounds_passed(key, slices) / 2
    }

    /// How many slices start at or before `key`.
    #[inline]
    pub(super) fn starting_by(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.tables(slices).bounds_passed(key, slices).div_ceil(2)
    }

    /// Raw bytes of all slices; an estimate where slices are cut.
    pub(super) fn raw_bytes(&self, slices: &Chunks<Slice>) -> u64 {
        self.tables(slices).raw_bytes
    }

    #[inline]
    fn tables(&self, slices: &Chunks<Slice>) -> &Tables {
        match self.0.get() {
            Some(tables) => tables,
            None => self.make(slices),
        }
    }

    #[cold]
    fn make(&self, slices: &Chunks<Slice>) -> &Tables {
        // Threads that come first together make one each, and one of these stays.
        let _ = self.0.set(Tables::new(slices));
        self.0.get().expect("it was just set, by whomever")
    }
}

impl Tables {
    fn new(slices: &Chunks<Slice>) -> Self {
        let bounds: Vec<&[u8]> = slices.iter().flat_map(|slice| [slice.first_key(), slice.end_bound()]).collect();
        let tables = slices.iter().map(|slice| slice.table().clone()).collect();
        let raw_bytes = slices.iter().map(Slice::raw_bytes).sum();
        Self { bounds: Prefixes::new(bounds.iter().copied()), tables, raw_bytes }
    }

    #[inline]
    fn find(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        let passed = self.bounds_passed(key, slices);
        (passed % 2 == 1).then(|| &self.tables[passed / 2])
    }

    /// How many slices begin at or before `key`, and how many end before it, together.
    #[inline]
    fn bounds_passed(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.bounds.partition_point(key, |bound| {
            let slice = slices.get(bound / 2).expect("there are two bounds for each slice");
            if bound % 2 == 0 { slice.first_key() <= key } else { slice.ends_before(key) }
        })
    }
}
