//! [`Coverage`]: what histories met, and how often each kind of operation met each named option
//! set.

use std::fmt;

use crate::kind::OperationKind;
use crate::operation::Environment;
use crate::options::OPTION_SETS;

/// Counts of what histories covered: a harness that never sees a lost write does not test
/// durability.
#[derive(Clone, Default)]
pub(crate) struct Coverage {
    pub(crate) operations: u64,
    pub(crate) recoveries: u64,
    /// Ends after which unsynced writes were gone.
    pub(crate) recovered_less: u64,
    /// Ends after which an unacknowledged write was there.
    pub(crate) recovered_more: u64,
    pub(crate) interrupted: u64,
    pub(crate) errors: u64,
    pub(crate) stops: u64,
    pub(crate) items_scanned: u64,
    /// Operands of a merge operator that were written.
    pub(crate) operands: u64,
    /// Entries to which a compaction filter gave the value that they had.
    pub(crate) filtered: u64,
    pub(crate) range_deletes: u64,
    pub(crate) ingests: u64,
    /// Ingests that were finished while another was open.
    pub(crate) ingests_beside: u64,
    pub(crate) flushes: u64,
    pub(crate) compactions: u64,
    /// Runs that were moved without rewriting.
    pub(crate) moves: u64,
    /// Changes of shape while a database was open.
    pub(crate) reshapes: u64,
    /// Checkpoints that were made and compared, and read-only openings before one for writing.
    pub(crate) checkpoints: u64,
    pub(crate) looks: u64,
    /// Maximum numbers of levels and of runs of a tree.
    pub(crate) levels_max: u64,
    pub(crate) runs_max: u64,
    pub(crate) pairs: Pairs,
}

/// Counts of operations, by kind and by the named option set that the database was opened with.
///
/// Only operations that were carried out count: a read of a snapshot that does not exist is none.
/// An error that a fault excuses counts, and so does an answer that compactions are paused.
#[derive(Clone)]
pub(crate) struct Pairs([[u64; OPTION_SETS.len()]; OperationKind::ALL.len()]);

impl Default for Pairs {
    fn default() -> Self {
        Self([[0; OPTION_SETS.len()]; OperationKind::ALL.len()])
    }
}

impl Pairs {
    pub(crate) fn count(&mut self, kind: OperationKind, options: usize) {
        self.0[kind as usize][options] += 1;
    }

    /// Returns the pairs that are possible in an environment, the least covered ones first.
    pub(crate) fn least(&self, environment: Environment) -> Vec<(u64, OperationKind, &'static str)> {
        let possible = OperationKind::ALL.iter().filter(|kind| kind.is_possible(environment));
        let mut pairs: Vec<_> = possible
            .flat_map(|&kind| {
                (0..OPTION_SETS.len()).map(move |set| (self.0[kind as usize][set], kind, OPTION_SETS[set].0))
            })
            .collect();
        pairs.sort_by_key(|(times, ..)| *times);
        pairs
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, recoveries, recovered_less, recovered_more, interrupted, errors, stops, .. } = self;
        write!(f, "operations {operations}, recoveries {recoveries} ({recovered_less} of less, {recovered_more} of ")?;
        write!(f, "more), interrupted {interrupted}, errors {errors}, stops {stops}")?;
        let Self { items_scanned, operands, filtered, range_deletes, ingests, ingests_beside, .. } = self;
        write!(f, ", items scanned {items_scanned}, operands {operands}, range deletes {range_deletes}")?;
        write!(f, ", entries filtered {filtered}")?;
        write!(f, ", ingests {ingests} ({ingests_beside} beside another)")?;
        let Self { flushes, compactions, moves, reshapes, .. } = self;
        write!(f, ", flushes {flushes}, compactions {compactions}, moves {moves}, reshapes {reshapes}")?;
        let Self { checkpoints, looks, levels_max, runs_max, .. } = self;
        write!(f, ", checkpoints {checkpoints}, looks {looks}, levels at most {levels_max}, runs {runs_max}")
    }
}
