//! Space amplification: bytes on storage per live byte, in the worst case.
//!
//! The worst workload updates the same keys repeatedly, so that all runs hold versions of the keys
//! of the largest one. Where it deletes, or writes smaller values, less than that run is live:
//! [`worst_of`].

use crate::occupancy::{Occupancy, Run};
use crate::shape::Shape;
use crate::units::{Bytes, Entries};

/// Worst space amplification of a full tree, `SA = (N / N_L) · v_L`, if runs do not shrink towards
/// the last level: one of the visible runs of the last level is live. MOOSE, Eq. 15, counts slots
/// instead; where each slot takes one batch, the last slot is never filled (tiering with T slots
/// shows T - 1 runs).
///
/// A tree that has just grown has almost nothing in its last level, so [`worst_now`] can be larger
/// for a while.
pub fn worst_amplification(shape: &Shape) -> f64 {
    let runs = shape.visible_runs(shape.last()).max(1) as f64;
    shape.capacity().as_f64() / shape.holds().as_f64() * runs
}

/// Upper bound on [`worst_amplification`] for a last level with this share of all capacity and `k
/// √r` runs, rounded, at least 1, where the level above is at least twice the next one up (or is
/// the first): `max(1, k √(2 w / (1 - w)) + ½) / w`. MOOSE, Eq. 16, corrected: level L-1 has at
/// least half of everything above the last, so `r_L ≤ 2 w / (1 - w)`; the paper assumes that it has
/// everything, which gives a lower bound.
pub fn worst_amplification_at_most(share: f64, runs_for_root: f64) -> f64 {
    (runs_for_root * (2.0 * share / (1.0 - share)).sqrt() + 0.5).max(1.0) / share
}

/// Worst space amplification of a tree in its present state: all bytes over those of the largest
/// run; 1 for an empty tree.
pub fn worst_now(occupancy: &Occupancy) -> f64 {
    let largest = occupancy.runs().map(|(_, run)| run.bytes).max();
    largest.map_or(1.0, |largest| occupancy.bytes().ratio(largest))
}

/// The contents of a run, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunContent {
    /// Raw bytes.
    pub bytes: Bytes,
    /// Entries, including tombstones; 0 if not known, and then younger entries are assumed to be of
    /// the same size.
    pub entries: Entries,
    /// Tombstones among them.
    pub tombstones: Entries,
    /// Bytes of the tombstones.
    pub tombstone_bytes: Bytes,
}

impl RunContent {
    /// The contents of a run of which only the size is known.
    pub fn of_size(run: &Run) -> Self {
        Self { bytes: run.bytes, ..Self::default() }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            entries: Entries(self.entries.0 + other.entries.0),
            tombstones: Entries(self.tombstones.0 + other.tombstones.0),
            tombstone_bytes: self.tombstone_bytes + other.tombstone_bytes,
        }
    }

    /// Mean size of an entry that is no tombstone.
    fn value_bytes(&self) -> f64 {
        let values = self.entries.0.saturating_sub(self.tombstones.0).max(1);
        self.bytes.0.saturating_sub(self.tombstone_bytes.0) as f64 / values as f64
    }

    /// Bytes of this run that a younger run makes obsolete in the worst case.
    fn lost_to(&self, younger: &Self) -> f64 {
        if self.entries.0 == 0 || younger.entries.0 == 0 {
            return 0.0;
        }
        let (mine, other) = (self.value_bytes(), younger.value_bytes());
        let values = younger.entries.0.saturating_sub(younger.tombstones.0) as f64;
        let shrunk = if mine - other > mine / ALIKE { mine - other } else { 0.0 };
        younger.tombstones.0 as f64 * mine + values * shrunk
    }
}

/// Entries of two runs count as equally large if their mean sizes differ by at most one part of
/// this many: sizes of one kind of entries differ by chance.
const ALIKE: f64 = 8.0;

/// Worst space amplification of these runs, young to old; 1 if there are none, and infinite if all
/// entries may be deleted.
///
/// At least as much is live as in any one run, less what younger runs may have made of its keys:
/// each tombstone removes one entry of average size from it, and each other entry, if the mean of
/// those is smaller by more than an eighth, the difference. The result is exact for the worst
/// workload with entries of one size, and otherwise an estimate. A run's own tombstones are not
/// live either, except those of the oldest run, which would have been removed if nothing needed
/// them.
pub fn worst_of(runs: &[RunContent]) -> f64 {
    let all: f64 = runs.iter().map(|run| run.bytes.as_f64()).sum();
    if all == 0.0 {
        return 1.0;
    }
    let mut live: f64 = 0.0;
    for (at, run) in runs.iter().enumerate().rev() {
        let is_oldest = at + 1 == runs.len();
        let own = run.bytes.as_f64() - if is_oldest { 0.0 } else { run.tombstone_bytes.as_f64() };
        if own > live {
            let lost: f64 = runs[..at].iter().map(|younger| run.lost_to(younger)).sum();
            live = live.max(own - lost);
        }
    }
    if live > 0.0 { all / live } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::occupancy::{Run, RunId};
    use crate::units::Bytes;

    /// A full tree, built run by run, matches the formula.
    #[test]
    fn full_tree_agrees() {
        let shape: Shape =
            "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 2 runs\nlevel 64 in 2 runs".parse().expect("a shape");
        let level = |number: usize| {
            let bytes = Bytes(shape.run_size(number) as u64);
            let ids = (0..shape.level(number).runs).map(|at| RunId(number as u64 * 10 + u64::from(at)));
            ids.map(|id| Run { id, bytes, entries: None }).collect()
        };
        let full = Occupancy::new((1..=shape.last()).map(level).collect());
        assert_eq!(worst_now(&full), worst_amplification(&shape));
        assert_eq!(worst_amplification(&shape), 84.0 / 64.0 * 2.0);
        assert_eq!(worst_now(&Occupancy::default()), 1.0);
    }

    /// A hundred entries of 10 bytes; then deletes and smaller values of them.
    #[test]
    fn deletes_and_small_values_count() {
        let run = |entries, tombstones, value| RunContent {
            bytes: Bytes((entries - tombstones) * value + tombstones * 2),
            entries: Entries(entries),
            tombstones: Entries(tombstones),
            tombstone_bytes: Bytes(tombstones * 2),
        };
        let base = run(100, 0, 10);
        assert_eq!(worst_of(&[]), 1.0);
        assert_eq!(worst_of(&[base]), 1.0);
        assert_eq!(worst_of(&[run(50, 0, 10), base]), 1.5, "the same keys again");
        assert_eq!(worst_of(&[run(20, 20, 10), base]), 1040.0 / 800.0, "a fifth is deleted");
        assert_eq!(worst_of(&[run(100, 100, 10), base]), f64::INFINITY, "all is deleted");
        assert_eq!(worst_of(&[run(30, 10, 10), base]), (1000.0 + 200.0 + 20.0) / 900.0, "deletes and the same again");
        assert_eq!(worst_of(&[run(50, 0, 4), base]), 1200.0 / 700.0, "half is smaller");
        assert_eq!(worst_of(&[run(100, 0, 10), run(100, 100, 10)]), 1200.0 / 1000.0, "written after it was deleted");
        assert_eq!(worst_of(&[run(100, 90, 10)]), 1.0, "what is left of one run is needed");
    }
}
