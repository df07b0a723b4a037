//! How often lookups pass a run in vain, from what they look for.
//!
//! A lookup goes from the youngest run to the oldest. One of an absent key passes all runs in vain. One that finds its key passes
//! those that are younger than the run it finds it in, is not in vain there, and never comes to the older ones. So if a share `f` of lookups find
//! something, and one of those finds it in run j with probability `t_j`,
//!
//! ```text
//! w_j = (1 - f) + f · Σ_{i older than j} t_i
//! ```
//!
//! Monkey (§4.1, Eq. 13) puts all that is found into the largest level, and gives its runs one rate; with a weight for each of them, that is
//! [`weights`] of [`in_oldest`]. Where the smaller levels are not small, [`by_entries`] is closer: any live entry may be asked for.

/// For each run, young to old: the weight for a share `found` of lookups that find something, in a run with probability `targets`.
///
/// Monkey's `v`, the ratio of lookups that find something to those that do not, is `found / (1 - found)`.
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

/// Where a key is found that is one of all entries, each as likely: in each run by its part of them.
pub fn by_entries(entries: &[u64]) -> Vec<f64> {
    let all: f64 = entries.iter().map(|count| *count as f64).sum();
    entries.iter().map(|count| if all > 0.0 { *count as f64 / all } else { 0.0 }).collect()
}

/// Where a key is found that is in the largest level: in one of the oldest `of` runs of `runs`, each as likely. The paper's assumption.
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

    /// The weights of the paper's assumption: 1 above the largest level, and 1 - f·j/a for the j-th youngest of its a runs.
    #[test]
    fn largest_level() {
        let found = 2.0 / 3.0;
        let weights = weights(&in_oldest(3, 5), found);
        let expected = [1.0, 1.0, 1.0 - found / 3.0, 1.0 - found * 2.0 / 3.0, 1.0 - found];
        assert!(weights.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{weights:?}");
    }
}
