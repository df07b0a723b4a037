//! Block reads of lookups, summed over the runs of a tree: exact for every tree.
//!
//! All lists are in the order of the search, from the youngest run to the oldest. A positive filter
//! costs one block read; a run without a filter always does. In each run, one table is read.

use crate::allocate::weights::weights;

/// Block reads of a zero-result lookup: `R = Σ p_j`. Monkey, Eq. 3; MOOSE, Eq. 4.
pub fn zero_result(rates: &[f64]) -> f64 {
    rates.iter().sum()
}

/// Block reads of a lookup that finds its key, in run j with probability `targets[j]`: one, and the
/// false positives of younger runs. The mean over the largest level of Monkey's Eq. 9 (which is of
/// the oldest run).
pub fn existing(rates: &[f64], targets: &[f64]) -> f64 {
    1.0 + wasted_reads(rates, targets, 1.0)
}

/// Mean block reads of lookups of which a share `found` find something: Monkey's `Z`, Eq. 13.
pub fn mixed(rates: &[f64], targets: &[f64], found: f64) -> f64 {
    found + wasted_reads(rates, targets, found)
}

/// Block reads that find nothing: false positives, and runs without filters.
fn wasted_reads(rates: &[f64], targets: &[f64], found: f64) -> f64 {
    assert_eq!(rates.len(), targets.len(), "a rate and a part of what is found for each run");
    rates.iter().zip(weights(targets, found)).map(|(rate, weight)| rate * weight).sum()
}

/// Block reads of a scan of `entries`, `per_block` to a block, over `runs` runs: `Q = entries /
/// per_block + Σ v_i`. Monkey, Eq. 11.
pub fn range(entries: f64, per_block: f64, runs: f64) -> f64 {
    entries / per_block + runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs, by hand.
    #[test]
    fn by_hand() {
        let rates = [0.1, 0.2, 1.0];
        assert!((zero_result(&rates) - 1.3).abs() < 1e-12);
        assert!((existing(&rates, &[0.0, 0.0, 1.0]) - 1.3).abs() < 1e-12);
        assert!((existing(&rates, &[0.5, 0.25, 0.25]) - (1.0 + 0.1 * 0.5 + 0.2 * 0.25)).abs() < 1e-12);
        assert!((mixed(&rates, &[0.0, 0.0, 1.0], 0.5) - (0.5 * 1.3 + 0.5 * 1.3)).abs() < 1e-12);
        assert_eq!(mixed(&rates, &[0.2, 0.3, 0.5], 0.0), zero_result(&rates));
        assert_eq!(range(100.0, 25.0, 11.0), 15.0);
    }
}
