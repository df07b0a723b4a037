//! [`Observed`]: the counters that the monitor is fed with.

use tamarack_model::navigator::controller::Operations;

use crate::stats::{Counters, LatencyKind, LookupCounts, ScanCounts};
use crate::tree::state::Tree;

/// Samples of lookups that found their keys, before their share says anything.
const SAMPLES_MIN: f64 = 50.0;

/// Counters since opening, as of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observed {
    lookups: LookupCounts,
    /// Sampled lookups that found their keys in memory, and that read blocks for that.
    found: [u64; 2],
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
        let samples = |kind| tree.lookups.latencies().of(kind).samples();
        let found = [LatencyKind::FoundInMemory, LatencyKind::FoundByReads].map(samples);
        Self { lookups, found, scans, written, stored, stored_bytes: runs.bytes().0 }
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

    /// The share of lookups of existing keys since an earlier moment that read nothing, from 0 to
    /// 1; `None` if there were none.
    ///
    /// By samples, if there are enough, which know what memtables and the block cache served, and
    /// at least what the entry cache has counted. As the model has it, all of this is the entry
    /// cache's: it takes updates for uniform, so that what they leave in memtables is not what is
    /// looked up.
    pub(super) fn hits(&self, earlier: &Self) -> Option<f64> {
        let [in_memory, by_reads] = [0, 1].map(|at| self.found[at].saturating_sub(earlier.found[at]) as f64);
        let sampled = in_memory + by_reads;
        let by_samples = if sampled >= SAMPLES_MIN { in_memory / sampled } else { 0.0 };
        let cached = |lookups: &LookupCounts| lookups.cached_entries.saturating_sub(lookups.cached_absences);
        let cached = cached(&self.lookups).saturating_sub(cached(&earlier.lookups)) as f64;
        let existing = self.since(earlier).existing;
        (existing > 0.0).then(|| (cached / existing).min(1.0).max(by_samples))
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Of 1,000 lookups 400 found their keys, 100 of these in the entry cache: a quarter, unless
    /// enough samples know of more.
    #[test]
    fn hits_by_hand() {
        let counts = |lookups, zero_result, cached_entries, cached_absences| LookupCounts {
            lookups,
            zero_result,
            cached_entries,
            cached_absences,
            ..LookupCounts::default()
        };
        let earlier = Observed { lookups: counts(5_000, 5, 4_000, 5), found: [1_000, 10], ..Observed::default() };
        let now = |found| Observed { lookups: counts(6_000, 605, 4_300, 205), found, ..Observed::default() };
        assert_eq!(now([1_001, 10]).hits(&earlier), Some(0.25), "one sample says nothing");
        assert_eq!(now([1_030, 30]).hits(&earlier), Some(0.6));
        assert_eq!(now([1_001, 109]).hits(&earlier), Some(0.25), "samples have errors, counters have none");
        assert_eq!(now([1_001, 10]).hits(&now([1_001, 10])), None);
    }
}
