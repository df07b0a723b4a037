//! [`arrange`]: runs made of tables whose structure is lost.
//!
//! ```text
//! keys        a ──────────────────────── z
//! tables      ├ 1..90 ──┤├── 2..88 ────┤         run 0, the oldest
//!                ├ 91..120 ──┤                   run 1: shares keys with older ones
//!                  ├ 110..130 ┤                  shares keys *and* sequences: merged with run 1's
//! ```
//!
//! Within a tree, younger runs are above older ones: where two runs share keys, all sequence
//! numbers of one are larger. Two tables that share keys and whose sequence numbers interleave
//! cannot be put in such an order, so they become one **unit**, to be merged. The units have an
//! order: each goes into the oldest run in which it is above everything older that it shares keys
//! with.
//!
//! Pure. Cost: each pair of units that share keys is compared, once for each round of joining.

use crate::entry::Sequence;

/// Entries that belong in one run together: of one table, or of several that must be merged.
#[derive(Clone, Debug)]
pub(super) struct Unit<P> {
    /// Where the entries come from.
    pub(super) parts: Vec<P>,
    /// No key is smaller.
    pub(super) first: Vec<u8>,
    /// No key is larger.
    pub(super) end: Vec<u8>,
    /// False if all keys are smaller than `end`.
    pub(super) end_included: bool,
    /// No sequence is smaller.
    pub(super) smallest: Sequence,
    /// No sequence is larger.
    pub(super) largest: Sequence,
}

impl<P> Unit<P> {
    fn ends_before(&self, key: &[u8]) -> bool {
        if self.end_included { *self.end < *key } else { *self.end <= *key }
    }

    pub(super) fn shares_keys(&self, other: &Self) -> bool {
        !self.ends_before(&other.first) && !other.ends_before(&self.first)
    }

    fn shares_sequences(&self, other: &Self) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }

    /// Takes in another unit.
    fn join(&mut self, other: Self) {
        if other.first < self.first {
            self.first = other.first;
        }
        if (&other.end, other.end_included) > (&self.end, self.end_included) {
            (self.end, self.end_included) = (other.end, other.end_included);
        }
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
        self.parts.extend(other.parts);
    }
}

/// The runs, old to young, each a list of units in the order of their keys.
pub(super) fn arrange<P>(units: Vec<Unit<P>>) -> Vec<Vec<Unit<P>>> {
    let mut units = units;
    loop {
        let before = units.len();
        units = join_once(units);
        if units.len() == before {
            break;
        }
    }
    units.sort_by_key(|unit| unit.smallest);
    let mut runs: Vec<Vec<Unit<P>>> = Vec::new();
    for unit in units {
        let above = runs.iter().rposition(|run| run.iter().any(|older| older.shares_keys(&unit)));
        let run = above.map_or(0, |above| above + 1);
        if run == runs.len() {
            runs.push(Vec::new());
        }
        runs[run].push(unit);
    }
    for run in &mut runs {
        run.sort_by(|a, b| a.first.cmp(&b.first));
    }
    runs
}

/// Joins units that share keys and sequence numbers. The result may share more.
fn join_once<P>(mut units: Vec<Unit<P>>) -> Vec<Unit<P>> {
    units.sort_by(|a, b| a.first.cmp(&b.first));
    let mut groups: Vec<usize> = (0..units.len()).collect();
    for (at, unit) in units.iter().enumerate() {
        let beside = units[at + 1..].iter().take_while(|other| !unit.ends_before(&other.first));
        for (other, _) in beside.enumerate().filter(|(_, other)| unit.shares_sequences(other)) {
            let (a, b) = (root(&groups, at), root(&groups, at + 1 + other));
            groups[a.max(b)] = a.min(b);
        }
    }
    let mut joined: Vec<Option<Unit<P>>> = (0..units.len()).map(|_| None).collect();
    for (at, unit) in units.into_iter().enumerate() {
        match &mut joined[root(&groups, at)] {
            Some(group) => group.join(unit),
            empty => *empty = Some(unit),
        }
    }
    joined.into_iter().flatten().collect()
}

fn root(groups: &[usize], mut at: usize) -> usize {
    while groups[at] != at {
        at = groups[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use tamarack_env::Random;

    use super::*;

    /// Random units: nothing is lost, units of a run share no keys, and of units that share keys
    /// the one in the younger run is younger altogether.
    #[test]
    fn runs_are_in_order() {
        let random = Random::new(5);
        for round in 0..400 {
            let count = random.below(30);
            let units = (0..count).map(|part| {
                let (first, length) = (random.below(60) as u8, random.below(12) as u8);
                let (smallest, spread) = (random.below(80), random.below(9));
                Unit {
                    parts: vec![part],
                    first: vec![first],
                    end: vec![first + length + 1],
                    end_included: random.below(2) == 0,
                    smallest: Sequence(smallest),
                    largest: Sequence(smallest + spread),
                }
            });
            let runs = arrange(units.collect());
            let mut parts: Vec<u64> = runs.iter().flatten().flat_map(|unit| unit.parts.clone()).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..count).collect::<Vec<_>>(), "round {round}");
            for (age, run) in runs.iter().enumerate() {
                assert!(!run.is_empty(), "round {round}");
                assert!(run.is_sorted_by(|a, b| a.ends_before(&b.first)), "round {round}: {run:?}");
                for older in &runs[..age] {
                    let wrong = |unit: &&Unit<u64>| {
                        older.iter().any(|old| old.shares_keys(unit) && old.largest >= unit.smallest)
                    };
                    assert!(run.iter().find(wrong).is_none(), "round {round}: {run:?} above {older:?}");
                }
            }
        }
    }
}
