//! [`CodeLengths`]: how long the fingerprints of a tree's runs are in the code that a filter over
//! the tree has, and the false positives that follow.
//!
//! The engine makes the code of its filter of the same [`CodeParts`], so that rates that are
//! predicted from a design are those of fingerprints as they are: of whole bits, in a code that is
//! good for all states of a growing tree, with level IDs to spare.

use super::groups::{self, Counts, LIDS_MAX, Shares};
use super::lengths::{self, BUCKET_BITS, Fit};
use super::{Classes, GROWTH, load, rate};
use crate::shape::Shape;

/// The most LIDs that a class may have: a code has the first of these with which one can be made.
/// With one LID, it always can.
pub const CLASS_LIDS_MAX: [u16; 9] = [u16::MAX, 128, 64, 32, 16, 8, 4, 2, 1];

/// The lengths of the fingerprints in a filter over the whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeLengths {
    slots: usize,
    classes: Classes,
    lids_max: u16,
    bits: Vec<u32>,
}

impl CodeLengths {
    /// Those of the code that is made for a tree of this shape, with so many slots in each bucket.
    ///
    /// # Panics
    /// If there are no slots, or more than [`SLOTS_MAX`](groups::SLOTS_MAX).
    pub fn of(slots: usize, shape: &Shape) -> Self {
        assert!((1..=groups::SLOTS_MAX).contains(&slots), "{slots} slots");
        let all = Classes::of(shape);
        let states: Vec<Shares> = all.states(shape).into_iter().map(Shares::new).collect();
        let with = |lids_max| {
            let classes = all.shared(lids_max);
            let fit = classes.lids().iter().map(|&lids| usize::from(lids)).sum::<usize>() <= LIDS_MAX;
            let parts = fit.then(|| CodeParts::best(slots, classes.lids(), &states)).flatten()?;
            let bits = parts.bits;
            Some(Self { slots, classes, lids_max, bits })
        };
        let found = CLASS_LIDS_MAX.into_iter().find_map(with);
        found.unwrap_or_else(|| panic!("there is no code for {slots} slots with one LID for each of {all:?}"))
    }

    /// The length of each class's fingerprints, in bits.
    pub fn bits(&self) -> &[u32] {
        &self.bits
    }

    /// True if each level of a tree of this shape has enough LIDs, so that no other code is needed
    /// for want of them.
    pub fn has_lids_for(&self, shape: &Shape) -> bool {
        self.classes.have_lids_for(shape, self.lids_max)
    }

    /// The false positive rate of each run, young to old, in a tree whose last level is `last`.
    /// `runs` has the level of each, and its share of all entries.
    ///
    /// Each run has a LID of its own as far as there are some: in its level's class, then, in level
    /// 1, in that of late runs. Of those that share one, all are searched for each false positive.
    /// The load is the mean over the filter's growth.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn rates(&self, last: usize, runs: &[(usize, f64)]) -> Vec<f64> {
        let mut shares: Vec<Vec<f64>> = self.classes.lids().iter().map(|&lids| vec![0.0; lids.into()]).collect();
        let mut taken = vec![0; shares.len()];
        let late = self.classes.late();
        // The oldest first: it has its LID already when the next one comes.
        let mut lids: Vec<(usize, usize)> = Vec::with_capacity(runs.len());
        for &(level, share) in runs.iter().rev() {
            let own = self.classes.of_level(level, last.max(level));
            let is_late = level == 1 && taken[own] >= shares[own].len();
            let class = if is_late { late } else { own };
            let lid = taken[class] % shares[class].len();
            taken[class] += 1;
            shares[class][lid] += share;
            lids.push((class, lid));
        }
        let mean_load = load(self.slots) / (1.0 + GROWTH / 2.0);
        let of_lid = |(class, lid): (usize, usize)| {
            rate(self.slots, mean_load, shares[class][lid], f64::from(self.bits[class])).min(1.0)
        };
        lids.into_iter().rev().map(of_lid).collect()
    }
}

/// What the code of a filter's buckets is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeParts {
    /// The frequent groups, each with its number of combinations.
    pub frequent: Vec<(Counts, u64)>,
    /// The length of each class's fingerprints, in bits.
    pub bits: Vec<u32>,
}

impl CodeParts {
    /// Those with the fewest false positives on average over all states; `None` if not even the
    /// shortest fingerprints fit into buckets of so many slots. `lids` has the number of LIDs of
    /// each class, the class of the largest runs first; `states` are those that the tree goes
    /// through.
    ///
    /// # Panics
    /// If there are more than [`LIDS_MAX`] LIDs, or no states.
    pub fn best(slots: usize, lids: &[u16], states: &[Shares]) -> Option<Self> {
        let all_lids = lids.iter().map(|&lids| u64::from(lids)).sum();
        assert!(all_lids <= LIDS_MAX as u64, "{lids:?}");
        let with_combinations = |group: Counts| {
            let combinations = group.iter().map(|(class, count)| combinations(lids[class].into(), count)).product();
            (group, combinations)
        };
        let frequent: Vec<(Counts, u64)> =
            groups::frequent(slots, lids.len(), states).into_iter().map(with_combinations).collect();
        let fit = Fit { frequent: &frequent, combinations: combinations(all_lids, slots), bucket_bits: BUCKET_BITS };
        let bits = lengths::best(fit, &groups::mean(states))?;
        Some(Self { frequent, bits })
    }
}

/// The combinations of `k` level IDs out of `v`, in any order: `C(v + k - 1, k)`. Below 2^48 for up
/// to [`LIDS_MAX`] of them and [`SLOTS_MAX`](groups::SLOTS_MAX) slots.
fn combinations(v: u64, k: usize) -> u64 {
    (0..k as u64).fold(1, |all, slot| all * (v + slot) / (slot + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;
    use crate::units::Bytes;

    /// A run's rate follows from its share of the entries and its class; runs that share a LID are
    /// searched for each other's false positives.
    #[test]
    fn rates_by_class() {
        let shape = policy::parse("leveling:T=10,first=4").expect("a policy").shape(Bytes(500 << 20), Bytes(1 << 20));
        let code = CodeLengths::of(5, &shape);
        let bits = |class: usize| f64::from(code.bits()[class]);
        let expected = |share: f64, class: usize| 10.0 * 0.96 / (1.0 + 1.0 / 16.0) * share * (-bits(class)).exp2();
        let late = code.bits().len() - 1;
        // Young to old: six runs in level 1, which has four LIDs; one in each other level.
        let mut runs = vec![(1, 0.01); 6];
        runs.extend([(2, 0.14), (3, 0.8)]);
        let mut wanted = vec![expected(0.01, late); 2];
        wanted.extend([expected(0.01, 2); 4]);
        wanted.extend([expected(0.14, 1), expected(0.8, 0)]);
        let close = |found: &[f64], wanted: &[f64]| {
            let is_close = |(found, wanted): (&f64, &f64)| (found / wanted - 1.0).abs() < 1e-12;
            found.len() == wanted.len() && found.iter().zip(wanted).all(is_close)
        };
        let found = code.rates(3, &runs);
        assert!(close(&found, &wanted), "{found:?}, {wanted:?}");
        // Two runs in a level with one LID.
        let found = code.rates(3, &[(2, 0.1), (2, 0.2), (3, 0.7)]);
        assert!(close(&found, &[expected(0.3, 1), expected(0.3, 1), expected(0.7, 0)]), "{found:?}");
    }

    /// A code is good for the trees that grow out of its own, until they need a level more than it
    /// has spare classes.
    #[test]
    fn codes_last_while_trees_grow() {
        let shape = |memtables: u64| {
            policy::parse("leveling:T=10").expect("a policy").shape(Bytes(memtables << 20), Bytes(1 << 20))
        };
        let code = CodeLengths::of(5, &shape(500));
        assert_eq!(
            [5, 500, 5_000, 50_000, 500_000].map(|memtables| code.has_lids_for(&shape(memtables))),
            [true, true, true, true, false]
        );
    }
}
