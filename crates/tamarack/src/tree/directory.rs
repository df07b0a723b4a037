//! [`Directory`]: finds the table of a run that may hold a key, in a few cache lines.
//!
//! ```text
//! slices    ├── 7 ──┤    ├─ 8 ──┤├─── 9 ───┤
//! bounds    0       1    2      34         5        Prefixes of where each begins and ends
//! key              ▲                                one bound at or before it: an odd number, so inside of a slice
//! ```
//!
//! A search in the list of slices itself follows three pointers for each comparison. A directory is made by the first lookup in a run and
//! belongs to it: a run that changes is another run, without one. Cost: making one takes some 50 ns per slice; 16 bytes per slice, and
//! a reference to its table.
//!
//! Tests: `tree/tests/runs.rs`, and all that look something up.

use std::sync::{Arc, OnceLock};

use super::chunks::Chunks;
use super::slice::Slice;
use super::table_file::TableFile;
use crate::prefixes::Prefixes;

/// The tables of a run by key; made when it is first asked.
#[derive(Debug, Default)]
pub(super) struct Directory(OnceLock<Tables>);

#[derive(Debug)]
struct Tables {
    /// Of the beginning and the end of each slice.
    bounds: Prefixes,
    tables: Box<[Arc<TableFile>]>,
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
        let Some(tables) = self.0.get() else { return self.make(key, slices) };
        tables.find(key, slices)
    }

    #[cold]
    fn make(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        // Threads that come first together make one each.
        let made = Tables::new(slices);
        let _ = self.0.set(made);
        self.0.get()?.find(key, slices)
    }
}

impl Tables {
    fn new(slices: &Chunks<Slice>) -> Self {
        let bounds: Vec<&[u8]> = slices.iter().flat_map(|slice| [slice.first_key(), slice.end_bound()]).collect();
        let tables = slices.iter().map(|slice| slice.table().clone()).collect();
        Self { bounds: Prefixes::new(bounds.iter().copied()), tables }
    }

    #[inline]
    fn find(&self, key: &[u8], slices: &Chunks<Slice>) -> Option<&Arc<TableFile>> {
        let passed = self.bounds.partition_point(key, |bound| {
            let slice = slices.get(bound / 2).expect("there are two bounds for each slice");
            if bound % 2 == 0 { slice.first_key() <= key } else { slice.ends_before(key) }
        });
        (passed % 2 == 1).then(|| &self.tables[passed / 2])
    }
}
