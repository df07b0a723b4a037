//! [`Observed`]: the counters that the monitor is fed with.

use tamarack_model::navigator::controller::Operations;

use crate::stats::{Counters, LookupCounts, ScanCounts};
use crate::tree::state::Tree;

/// Counters since opening, as of one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed {
    lookups: LookupCounts,
    scans: ScanCounts,
    /// Entries written.
    written: u64,
    /// Entries in the runs of the tree, and their raw bytes.
    stored: u64,
    stored_bytes: u64,
}

impl Observed {
    pub(super) fn new(tree: &Tree, counters: &Counters) -> Self {
        let written = counters.entries_written.get();
        let runs = tree.pin().tree().occupancy();
        let stored = runs.runs().filter_map(|(_, run)| Some(run.entries?.0)).sum();
        let (lookups, scans) = (tree.lookups.sums(), tree.lookups.scans());
        Self { lookups, scans, written, stored, stored_bytes: runs.bytes().0 }
    }

    /// Raw bytes in the runs of the tree.
    pub(super) fn stored_bytes(&self) -> f64 {
        self.stored_bytes as f64
    }

    /// The operations since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Operations {
        let between = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let lookups = between(self.lookups.lookups, earlier.lookups.lookups);
        // A lookup is counted when it begins, and what it found when it ends.
        let zero_result = between(self.lookups.zero_result, earlier.lookups.zero_result).min(lookups);
        Operations {
            zero_result,
            existing: lookups - zero_result,
            scans: between(self.scans.scans, earlier.scans.scans),
            scanned: between(self.scans.entries, earlier.scans.entries),
            updates: between(self.written, earlier.written),
        }
    }

    /// The share of lookups of existing keys since an earlier moment that the entry cache served,
    /// from 0 to 1; lookups of absent keys that it served count as well.
    pub(super) fn entry_hits(&self, earlier: &Self) -> f64 {
        let existing = self.since(earlier).existing;
        let served = self.lookups.cached_entries.saturating_sub(earlier.lookups.cached_entries) as f64;
        if existing == 0.0 { 0.0 } else { (served / existing).min(1.0) }
    }

    /// The share of writes since an earlier moment that have put new keys, from 0 to 1: as many as
    /// there are more entries. That is too high as long as most of what was overwritten since then
    /// is still there.
    pub(super) fn inserts(&self, earlier: &Self) -> f64 {
        let written = self.written.saturating_sub(earlier.written) as f64;
        let more = self.stored.saturating_sub(earlier.stored) as f64;
        if written == 0.0 { 0.0 } else { (more / written).min(1.0) }
    }
}
