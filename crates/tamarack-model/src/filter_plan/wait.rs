//! [`RebuildWait`]: when better filters repay building them.
//!
//! Filters that are not as they should be cost false positives, each of them a block read, from now
//! on and for as long as the tree stays as it is. Nobody knows how long that is: the next flush may
//! change everything. So the rebuild waits until lookups have lost as much time as it takes. Then
//! all that is lost and spent is at most twice what it would have been with foresight (the
//! *ski rental* rule). Many lookups between two flushes have filters rebuilt after few of them; a
//! load without lookups has none rebuilt.
//!
//! ```text
//! lookups × saved reads × seconds of a read   ≥   entries × REBUILD_SECONDS
//! ```

/// Processor seconds to build a table's filter anew, for each entry: its digest is read and set.
pub const REBUILD_SECONDS: f64 = 40e-9;

/// What changing filters saves and costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebuildGain {
    /// Block reads that a lookup needs less, in the mean; more than 0.
    pub saved_reads: f64,
    /// Entries of the filters that are built for it.
    pub entries: u64,
}

/// What lookups have lost since filters were rebuilt last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RebuildWait {
    /// Block reads lost so far.
    lost_reads: f64,
    /// Block reads that each lookup loses now.
    losing: f64,
}

impl RebuildWait {
    /// Returns the number of lookups until the rebuild with this gain is due, if nothing changes.
    /// `None` if it is due now; then what was lost is forgotten. Since the last call there were so
    /// many lookups; a block read takes `read_seconds`, more than 0.
    ///
    /// Without a gain there is nothing to wait for, and what was lost stays lost.
    pub fn lookups_left(&mut self, gain: Option<RebuildGain>, lookups: f64, read_seconds: f64) -> Option<f64> {
        self.lost_reads += lookups * self.losing;
        self.losing = gain.map_or(0.0, |gain| gain.saved_reads);
        let gain = gain?;
        let cost_reads = gain.entries as f64 * REBUILD_SECONDS / read_seconds;
        if self.lost_reads >= cost_reads {
            *self = Self::default();
            return None;
        }
        Some((cost_reads - self.lost_reads) / gain.saved_reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 entries cost as much as 20 reads of 2 µs; lookups that lose a tenth of a read each
    /// have lost as much after 200.
    #[test]
    fn losses_by_hand() {
        let gain = RebuildGain { saved_reads: 0.1, entries: 1_000 };
        let mut wait = RebuildWait::default();
        let near = |found: Option<f64>, expected: f64| {
            assert!(found.is_some_and(|found| (found - expected).abs() < 1e-6), "{found:?}, {expected}");
        };
        // Lookups before something could be gained lost nothing.
        near(wait.lookups_left(Some(gain), 500.0, 2e-6), 200.0);
        near(wait.lookups_left(Some(gain), 150.0, 2e-6), 50.0);
        // What was lost stays lost while nothing can be gained.
        assert_eq!(wait.lookups_left(None, 20.0, 2e-6), None);
        near(wait.lookups_left(Some(gain), 1_000.0, 2e-6), 30.0);
        assert_eq!(wait.lookups_left(Some(gain), 31.0, 2e-6), None);
        near(wait.lookups_left(Some(gain), 0.0, 2e-6), 200.0);
        // What costs nothing is done at once.
        assert_eq!(wait.lookups_left(Some(RebuildGain { entries: 0, ..gain }), 0.0, 2e-6), None);
    }
}
