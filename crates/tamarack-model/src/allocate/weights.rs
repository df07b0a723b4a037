//! Weights of runs: how often lookups miss in each run, derived from what they look for.
//!
//! A lookup goes from the youngest run to the oldest. A zero-result lookup *misses* in all runs. A
//! lookup that finds its key misses in the younger runs and never reaches the older ones. If a
//! share `f` of lookups find something, and one of those finds it in run j with probability `t_j`,
//!
//! ```text
//! w_j = (1 - f) + f · Σ_{i older than j} t_i
//! ```
//!
//! Monkey (§4.1, Eq. 13) assumes that all keys are found in the largest level and gives its runs
//! one rate; with a weight for each of them, that is [`weights`] of [`in_oldest`]. Where the
//! smaller levels are not small, [`by_entries`] is closer: every live entry may be looked up.
//!
//! [`Seen`] holds weights measured from real lookups. [`Asked`] is either.

use crate::units::{Bytes, Entries};

/// The lookups for which filter bits are allocated.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// This share of lookups, from 0 to 1, finds something, each entry being equally likely.
    Found(f64),
    /// Lookups as measured.
    Seen(Seen),
}

/// A group of adjacent runs of one size; mostly a single run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The number of runs, at least 1.
    pub runs: u64,
    /// The raw bytes of all of them.
    pub bytes: Bytes,
    /// The entries of all of them.
    pub entries: Entries,
    /// Measured misses per lookup in one of them, if such a run exists.
    pub seen: Option<f64>,
}

/// Measurements of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeenRun {
    /// Its raw bytes.
    pub bytes: Bytes,
    /// Lookups that were sampled while the run existed, wherever they went.
    pub lookups: f64,
    /// The share of them that reached the run: no younger run had decided, and the key was in the
    /// range of one of its tables.
    pub came: f64,
    /// The share of them that missed in the run.
    pub misses: f64,
}

/// Measured lookups, by the runs that they reached.
///
/// An existing run has its measured weight. A run that does not exist yet will hold data that has
/// not been written yet. If lookups continue for the same entries, whatever is written on top,
/// every lookup not served by memtables misses in the new run; if they continue for entries of the
/// same age, as many miss as in the run at that depth now. The new run gets the mean of both, which
/// is right for lookups of any entry while a tree doubles, and is never off by more than half of
/// the possible weight. Both are scaled by how far runs at the same depth cover the keys: where
/// each run has its own keys, as with keys in ascending order, few lookups reach each run.
///
/// [`BELIEF`] additional lookups that reach and miss in each run damp small samples: without any
/// measurement, the result is Monkey's allocation for zero-result lookups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The share of lookups that were not found in memtables.
    past_memtables: f64,
    /// For each run, young to old: the depth at which it ends, the share of lookups that its tables
    /// cover, and its weight.
    runs: Vec<(Bytes, f64, f64)>,
}

/// The number of assumed lookups that reach each run and miss.
pub const BELIEF: f64 = 16.0;

impl Asked {
    /// Misses per lookup in each group of runs, young to old, where `runs` is the whole tree. A
    /// group has the sum of its runs' weights: `g` runs of weight `w` take the same bits per entry,
    /// and gain as much as one run of all their entries with weight `g · w`. (That is exact for
    /// zero-result lookups; otherwise weights fall slightly from run to run, and the group uses
    /// their mean.)
    pub fn weights(&self, runs: &[Extent]) -> Vec<f64> {
        match self {
            Self::Found(found) => {
                let entries: Vec<u64> = runs.iter().map(|run| run.entries.0).collect();
                let targets = by_entries(&entries);
                let oldest = weights(&targets, *found);
                let weight = |((run, target), oldest): ((&Extent, f64), f64)| {
                    // The oldest run of the group has this weight; the others also have the misses
                    // of lookups that end in older runs of the group.
                    run.runs as f64 * oldest + found * target * (run.runs - 1) as f64 / 2.0
                };
                runs.iter().zip(targets).zip(oldest).map(weight).collect()
            }
            Self::Seen(seen) => {
                let mut depth = 0.0;
                let weight = |run: &Extent| {
                    let middle = depth + run.bytes.as_f64() / 2.0;
                    depth += run.bytes.as_f64();
                    run.runs as f64 * run.seen.unwrap_or_else(|| seen.weight_to_come(middle))
                };
                runs.iter().map(weight).collect()
            }
        }
    }
}

impl Seen {
    /// Combines the measurements of `lookups`, of which a share was not found in memtables, and of
    /// all runs, young to old.
    pub fn new(lookups: f64, past_memtables: f64, runs: &[SeenRun]) -> Self {
        let believed = |share: f64, lookups: f64, belief: f64| (share * lookups + BELIEF * belief) / (lookups + BELIEF);
        let past_memtables = believed(past_memtables, lookups, 1.0);
        // The share of lookups that reach this depth, and the depth.
        let (mut coming, mut depth) = (past_memtables, Bytes::ZERO);
        let see = |run: &SeenRun| {
            let here = coming;
            let weight = believed(run.misses, run.lookups, here);
            let covered = if here > 0.0 { believed(run.came, run.lookups, here) / here } else { 1.0 };
            coming = (here - believed((run.came - run.misses).max(0.0), run.lookups, 0.0)).max(0.0);
            depth += run.bytes;
            (depth, covered.min(1.0), weight.clamp(0.0, 1.0))
        };
        let runs = runs.iter().map(see).collect();
        Self { past_memtables, runs }
    }

    /// The weight of a run that will be compacted from these members, given by index, young to old;
    /// `None` without members.
    ///
    /// Lookups that miss in the oldest member have missed in all of them. Where the other members
    /// cover other keys, the new run is also reached by lookups for those.
    pub fn merged(&self, members: &[usize]) -> Option<f64> {
        let (_, covered, weight) = self.runs[*members.last()?];
        let all: f64 = members.iter().map(|&at| self.runs[at].1).sum();
        Some((weight * all.min(1.0) / covered.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
    }

    /// The weight of each run, in order.
    pub fn weights(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().map(|(.., weight)| *weight)
    }

    /// The weight of a future run around this depth.
    fn weight_to_come(&self, depth: f64) -> f64 {
        let here = self.runs.iter().find(|(end, ..)| end.as_f64() > depth).or(self.runs.last());
        here.map_or(self.past_memtables, |(_, covered, weight)| (self.past_memtables * covered + weight) / 2.0)
    }
}

/// The weight of each run, young to old, if a share `found` of lookups find something, in a run
/// with probability `targets`.
///
/// Monkey's `v`, the ratio of successful to zero-result lookups, is `found / (1 - found)`.
///
/// # Panics
/// If `found` is not in `[0, 1]`.
pub fn weights(targets: &[f64], found: f64) -> Vec<f64> {
    assert!((0.0..=1.0).contains(&found), "a share of lookups: {found}");
    let mut older = 0.0;
    let mut weights: Vec<f64> = targets
        .iter()
        .rev()
        .map(|target| {
            let weight = (1.0 - found) + found * older;
            older += target;
            // Sums of parts of 1 have rounding errors.
            weight.clamp(0.0, 1.0)
        })
        .collect();
    weights.reverse();
    weights
}

/// The probability of each run to hold a looked-up key, if every entry is equally likely.
pub fn by_entries(entries: &[u64]) -> Vec<f64> {
    let all: f64 = entries.iter().map(|count| *count as f64).sum();
    entries.iter().map(|count| if all > 0.0 { *count as f64 / all } else { 0.0 }).collect()
}

/// The probability of each run to hold a looked-up key, if it is in the largest level: one of the
/// oldest `of` of `runs` runs, each equally likely. The paper's assumption.
///
/// # Panics
/// If `of` is 0 or more than `runs`.
pub fn in_oldest(of: usize, runs: usize) -> Vec<f64> {
    assert!(0 < of && of <= runs, "the oldest {of} of {runs} runs");
    (0..runs).map(|at| if at < runs - of { 0.0 } else { 1.0 / of as f64 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If no lookup finds anything, every run is missed; if all do, the oldest never is.
    #[test]
    fn extremes() {
        assert_eq!(weights(&[0.2, 0.3, 0.5], 0.0), [1.0, 1.0, 1.0]);
        let all_found = weights(&[0.25, 0.25, 0.5], 1.0);
        assert_eq!(all_found, [0.75, 0.5, 0.0]);
    }

    /// Half of the lookups find their key in the second of three runs, the others find nothing; all
    /// runs cover all keys.
    #[test]
    fn what_was_seen() {
        let run = |bytes, came, misses| SeenRun { bytes: Bytes(bytes), lookups: 1e6, came, misses };
        let near = |weights: Vec<f64>, expected: &[f64]| {
            assert!(weights.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{weights:?}, not {expected:?}");
            assert_eq!(weights.len(), expected.len());
        };
        let covering = Seen::new(1e6, 1.0, &[run(10, 1.0, 1.0), run(90, 1.0, 0.5), run(900, 0.5, 0.5)]);
        near(covering.weights().collect(), &[1.0, 0.5, 0.5]);
        let extent = |runs, bytes, seen| Extent { runs, bytes: Bytes(bytes), entries: Entries(1), seen };
        let extents = [extent(2, 10, None), extent(1, 90, None), extent(1, 1000, Some(0.5))];
        assert_eq!(covering.merged(&[]), None);
        near([[0, 1], [1, 2]].map(|members| covering.merged(&members).unwrap_or_default()).to_vec(), &[0.5, 0.5]);
        near(Asked::Seen(covering).weights(&extents), &[2.0, 0.75, 0.5]);
        // Nothing is found, a fifth already in memtables, and each run has its own keys.
        let apart = Seen::new(1e6, 0.8, &[run(10, 0.08, 0.08), run(90, 0.72, 0.72)]);
        near(apart.weights().collect(), &[0.08, 0.72]);
        near(vec![apart.merged(&[0, 1]).unwrap_or_default()], &[0.8]);
        near(Asked::Seen(apart).weights(&extents), &[0.16, 0.72, 0.5]);
        // No lookups were sampled.
        let nothing = Seen::new(0.0, 0.0, &[SeenRun::default()]);
        near(nothing.weights().collect(), &[1.0]);
        near(Asked::Seen(nothing).weights(&extents), &[2.0, 1.0, 0.5]);
        near(Asked::Seen(Seen::default()).weights(&[]), &[]);
    }

    /// The weights of the paper's assumption: 1 above the largest level, and 1 - f·j/a for the j-th
    /// youngest of its a runs.
    #[test]
    fn largest_level() {
        let found = 2.0 / 3.0;
        let weights = weights(&in_oldest(3, 5), found);
        let expected = [1.0, 1.0, 1.0 - found / 3.0, 1.0 - found * 2.0 / 3.0, 1.0 - found];
        assert!(weights.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{weights:?}");
    }
}
