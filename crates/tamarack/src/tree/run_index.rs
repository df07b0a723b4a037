//! [`RunIndex`]: finds the table of a run that may hold a key, touching few cache lines.
//!
//! ```text
//! slices    ├── 7 ──┤    ├─ 8 ──┤├─── 9 ───┤
//! bounds    0       1    2      34         5        prefixes of each slice's bounds
//! key              ▲                                one bound at or before it: odd, so in a slice
//! ```
//!
//! A search in the list of slices follows three pointers per comparison. An index is made by the
//! first lookup in a run and belongs to it; a changed copy of the run has none. Cost: making one
//! reads both bounds of each slice; it takes 16 bytes per slice and a reference to its table.
//!
//! Tests: `tree/tests/runs.rs`, and every test that looks up a key.

use std::sync::{Arc, OnceLock};

use super::chunks::Chunks;
use super::slice::{RunVolume, Slice};
use super::table_file::TableFile;
use crate::format::prefixes::Prefixes;

/// The tables of a run by key; made at the first use.
#[derive(Debug, Default)]
pub(super) struct RunIndex(OnceLock<Tables>);

#[derive(Debug)]
struct Tables {
    /// Both bounds of each slice.
    bounds: Prefixes,
    tables: Box<[Arc<TableFile>]>,
    volume: RunVolume,
}

/// A run is copied only to be changed.
impl Clone for RunIndex {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl RunIndex {
    /// Returns the table of the slice that may hold `key`. `slices` must be the same at each call.
    // As `Run::table_of`.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        self.tables(slices).find(key, slices)
    }

    /// Returns the number of slices with only smaller keys.
    #[inline]
    pub(super) fn ending_before(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.tables(slices).bounds_passed(key, slices) / 2
    }

    /// Returns the number of slices that start at or before `key`.
    #[inline]
    pub(super) fn starting_by(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.tables(slices).bounds_passed(key, slices).div_ceil(2)
    }

    /// Returns the size of all slices.
    pub(super) fn volume(&self, slices: &Chunks<Slice>) -> RunVolume {
        self.tables(slices).volume
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
        // Concurrent first users make one each; one of them stays.
        let _ = self.0.set(Tables::new(slices));
        self.0.get().expect("it was just set")
    }
}

impl Tables {
    fn new(slices: &Chunks<Slice>) -> Self {
        let bounds: Vec<&[u8]> = slices.iter().flat_map(|slice| [slice.first_key(), slice.end_bound()]).collect();
        let tables = slices.iter().map(|slice| slice.table().clone()).collect();
        let volume = slices.iter().map(Slice::volume).sum();
        Self { bounds: Prefixes::new(bounds.iter().copied()), tables, volume }
    }

    #[inline(always)]
    fn find(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        let passed = self.bounds_passed(key, slices);
        (passed % 2 == 1).then(|| &self.tables[passed / 2])
    }

    /// Returns the number of slices that begin at or before `key`, plus the number that end before
    /// it.
    #[inline]
    fn bounds_passed(&self, key: &[u8], slices: &Chunks<Slice>) -> usize {
        self.bounds.partition_point(key, |bound| {
            let slice = slices.get(bound / 2).expect("there are two bounds for each slice");
            if bound % 2 == 0 { slice.first_key() <= key } else { slice.ends_before(key) }
        })
    }
}
