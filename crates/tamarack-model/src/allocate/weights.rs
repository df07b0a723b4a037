//! How often lookups pass a run in vain, from what they look for.
//!
//! A lookup goes from the youngest run to the oldest. One of an absent key passes all runs in vain.
//! One that finds its key passes those that are younger than the run it finds it in, is not in vain
//! there, and never comes to the older ones. So if a share `f` of lookups find something, and one
//! of those finds it in run j with probability `t_j`,
//!
//! ```text
//! w_j = (1 - f) + f · Σ_{i older than j} t_i
//! ```
//!
//! Monkey (§4.1, Eq. 13) puts all that is found into the largest level, and gives its runs one
//! rate; with a weight for each of them, that is [`weights`] of [`in_oldest`]. Where the smaller
//! levels are not small, [`by_entries`] is closer: any live entry may be asked for.
//!
//! What lookups really look for can be seen instead ([`Seen`]). [`Asked`] is either.

use crate::units::{Bytes, Entries};

/// For which lookups filters are shared out.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// This share of them finds something, any entry as likely as any other; from 0 to 1.
    Found(f64),
    /// Such as were seen.
    Seen(Seen),
}

/// Runs of one size, one after the other; mostly one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// How many; at least 1.
    pub runs: u64,
    /// The raw bytes of all of them.
    pub bytes: Bytes,
    /// The entries of all of them.
    pub entries: Entries,
    /// How often lookups were seen to pass one of them in vain, if any is there to be seen.
    pub seen: Option<f64>,
}

/// What was seen of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeenRun {
    /// Its raw bytes.
    pub bytes: Bytes,
    /// So many lookups were looked at while it was there, wherever they went.
    pub lookups: f64,
    /// The share of them that came to the run: nothing younger had decided, and one of its tables
    /// might have the key.
    pub came: f64,
    /// The share of them that came in vain.
    pub in_vain: f64,
}

/// What was seen of lookups, by the runs that they came to.
///
/// A run that is there has the weight that was seen. One that is not there yet will hold what has
/// not been written yet. If lookups go on asking for the same entries, whatever comes on top of
/// them, all that buffers do not have passes it in vain; if they go on asking for entries of the
/// same age, as much as passes what now lies where it will lie. It is given the mean of both, which
/// is right for lookups of any entry while a tree doubles, and never wrong by more than half of
/// what it could weigh. All of that as far as a run there covers their keys, which runs at the same
/// depth tell: where runs have keys of their own, as when keys come in order, few lookups come to
/// each.
///
/// So that few lookups do not decide much, [`BELIEF`] of them that nobody made come to each run and
/// pass it in vain: what was not seen at all is Monkey's allocation for lookups that find nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The share of lookups that were not found in buffers.
    past_memtables: f64,
    /// Of runs, young to old: where each ends, the share of lookups which its tables cover, and its
    /// weight.
    runs: Vec<(Bytes, f64, f64)>,
}

/// So many lookups that nobody made come to each run, and pass it in vain.
pub const BELIEF: f64 = 16.0;

impl Asked {
    /// For runs that are all there are, young to old: how often a lookup passes each in vain. Runs
    /// that are alike have the sum of their weights: `g` of them with the weight `w` each take the
    /// same bits per entry, and what they gain is what one run of all their entries with the
    /// weight `g · w` gains. (That is exact where no lookup finds anything; else weights fall a
    /// little from run to run, and they have the mean.)
    pub fn weights(&self, runs: &[Extent]) -> Vec<f64> {
        match self {
            Self::Found(found) => {
                let entries: Vec<u64> = runs.iter().map(|run| run.entries.0).collect();
                let targets = by_entries(&entries);
                let oldest = weights(&targets, *found);
                let weight = |((run, target), oldest): ((&Extent, f64), f64)| {
                    // The oldest of those that are alike has that weight; of each other, what is found in its elder
                    // sisters passes it too.
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
    /// Of `lookups`, a share of which was not found in buffers, and of the runs that are there,
    /// young to old.
    pub fn new(lookups: f64, past_memtables: f64, runs: &[SeenRun]) -> Self {
        let believed = |share: f64, lookups: f64, belief: f64| (share * lookups + BELIEF * belief) / (lookups + BELIEF);
        let past_memtables = believed(past_memtables, lookups, 1.0);
        // What comes so far, and how deep.
        let (mut coming, mut depth) = (past_memtables, Bytes::ZERO);
        let see = |run: &SeenRun| {
            let here = coming;
            let weight = believed(run.in_vain, run.lookups, here);
            let covered = if here > 0.0 { believed(run.came, run.lookups, here) / here } else { 1.0 };
            coming = (here - believed((run.came - run.in_vain).max(0.0), run.lookups, 0.0)).max(0.0);
            depth += run.bytes;
            (depth, covered.min(1.0), weight.clamp(0.0, 1.0))
        };
        let runs = runs.iter().map(see).collect();
        Self { past_memtables, runs }
    }

    /// The weight of a run that is to be merged of these, which are named by their place, young to
    /// old; `None` of none.
    ///
    /// What passes the oldest of them in vain has passed all of them; and where the others cover
    /// other keys, as much comes to the one run for these.
    pub fn merged(&self, members: &[usize]) -> Option<f64> {
        let (_, covered, weight) = self.runs[*members.last()?];
        let all: f64 = members.iter().map(|&at| self.runs[at].1).sum();
        Some((weight * all.min(1.0) / covered.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0))
    }

    /// The weight of each run, in their order.
    pub fn weights(&self) -> impl Iterator<Item = f64> {
        self.runs.iter().map(|(.., weight)| *weight)
    }

    /// That of a run to come around such a depth.
    fn weight_to_come(&self, depth: f64) -> f64 {
        let here = self.runs.iter().find(|(end, ..)| end.as_f64() > depth).or(self.runs.last());
        here.map_or(self.past_memtables, |(_, covered, weight)| (self.past_memtables * covered + weight) / 2.0)
    }
}

/// For each run, young to old: the weight for a share `found` of lookups that find something, in a
/// run with probability `targets`.
///
/// Monkey's `v`, the ratio of lookups that find something to those that do not, is `found / (1 -
/// found)`.
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
            // Sums of parts of 1 are off by roundings.
            weight.clamp(0.0, 1.0)
        })
        .collect();
    weights.reverse();
    weights
}

/// Where a key is found that is one of all entries, each as likely: in each run by its part of
/// them.
pub fn by_entries(entries: &[u64]) -> Vec<f64> {
    let all: f64 = entries.iter().map(|count| *count as f64).sum();
    entries.iter().map(|count| if all > 0.0 { *count as f64 / all } else { 0.0 }).collect()
}

/// Where a key is found that is in the largest level: in one of the oldest `of` runs of `runs`,
/// each as likely. The paper's assumption.
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

    /// If nothing is found every run is passed; if all is found the oldest never is.
    #[test]
    fn extremes() {
        assert_eq!(weights(&[0.2, 0.3, 0.5], 0.0), [1.0, 1.0, 1.0]);
        let all_found = weights(&[0.25, 0.25, 0.5], 1.0);
        assert_eq!(all_found, [0.75, 0.5, 0.0]);
    }

    /// Lookups of which half find their key in the second of three runs, and half nothing; all runs
    /// cover all keys.
    #[test]
    fn what_was_seen() {
        let run = |bytes, came, in_vain| SeenRun { bytes: Bytes(bytes), lookups: 1e6, came, in_vain };
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
        // Nothing is found, a fifth already in buffers, and each run has its own keys.
        let apart = Seen::new(1e6, 0.8, &[run(10, 0.08, 0.08), run(90, 0.72, 0.72)]);
        near(apart.weights().collect(), &[0.08, 0.72]);
        near(vec![apart.merged(&[0, 1]).unwrap_or_default()], &[0.8]);
        near(Asked::Seen(apart).weights(&extents), &[0.16, 0.72, 0.5]);
        // Nobody has looked.
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
