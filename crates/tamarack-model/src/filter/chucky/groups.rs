//! Groups: multisets of classes, one class for each slot of a bucket; and which of them are
//! frequent.
//!
//! With `q_i` the share of slots that belong to class i, a bucket of S slots is in the group with
//! counts `c_1 … c_C` with probability `S! · Π q_i^(c_i) / c_i!` (Eq. 12, summed over the
//! combinations of the group).
//!
//! **Frequent** are the most probable groups, until they cover [`FREQUENT_SHARE`] of all buckets
//! (§4.3 of the paper), in each of several states of the tree: a tree that grows goes through
//! states in which other buckets are frequent than in a full one.

use super::{CLASSES_MAX, load};

/// The upper bound on the slots of a bucket. With more, fingerprints of
/// [`FINGERPRINT_BITS_MIN`](super::lengths::FINGERPRINT_BITS_MIN) bits leave too few bits for
/// codewords.
pub const SLOTS_MAX: usize = 7;

/// The upper bound on the number of LIDs. With more, numbers of combinations could exceed 48 bits.
pub const LIDS_MAX: usize = 380;

/// The share of buckets in frequent groups (the paper's NOV).
pub const FREQUENT_SHARE: f64 = 0.9999;

/// The distribution of the filter's entries over the classes, in one state of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares(Vec<f64>);

impl Shares {
    /// From the entries of each class, in any unit; the class of the largest runs first.
    ///
    /// # Panics
    /// If a number is negative or not finite, or all are zero.
    pub fn new(mut entries: Vec<f64>) -> Self {
        let all: f64 = entries.iter().sum();
        assert!(all > 0.0 && entries.iter().all(|share| (0.0..f64::INFINITY).contains(share)), "{entries:?}");
        entries.iter_mut().for_each(|share| *share /= all);
        Self(entries)
    }

    /// The share of each class in all entries.
    pub fn of_entries(&self) -> &[f64] {
        &self.0
    }

    /// The share of each class in the slots of a full filter. Empty slots count for the first one.
    fn of_slots(&self, slots: usize) -> Vec<f64> {
        let load = load(slots);
        let mut shares: Vec<f64> = self.0.iter().map(|share| share * load).collect();
        shares[0] += 1.0 - load;
        shares
    }
}

/// The mean share of each class over all states.
///
/// # Panics
/// If there are no states.
pub fn mean(states: &[Shares]) -> Vec<f64> {
    let classes = states[0].of_entries().len();
    let sum = |class: usize| states.iter().map(|state| state.of_entries()[class]).sum::<f64>();
    (0..classes).map(|class| sum(class) / states.len() as f64).collect()
}

/// The counts of each class in a group, four bits for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counts(u64);

impl Counts {
    /// How many slots belong to a class.
    #[inline]
    pub fn of(self, class: usize) -> usize {
        (self.0 >> (4 * class) & 15) as usize
    }

    /// With so many more slots of a class.
    #[must_use]
    pub fn plus(self, class: usize, count: usize) -> Self {
        Self(self.0 + ((count as u64) << (4 * class)))
    }

    /// The classes that occur, with their counts, in ascending order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let class = (left.trailing_zeros() / 4) as usize;
            let count = self.of(class.min(CLASSES_MAX - 1));
            left &= !15_u64.wrapping_shl(4 * class as u32);
            (class < CLASSES_MAX).then_some((class, count))
        })
    }

    /// All counts in one number.
    #[inline]
    pub fn packed(self) -> u64 {
        self.0
    }
}

/// The groups whose probability is above `floor`, each with it.
fn probable(slots: usize, shares: &[f64], floor: f64, found: &mut Vec<(f64, Counts)>) {
    let mut weights = vec![[1.0; SLOTS_MAX + 1]; shares.len()];
    let (mut below, mut sum) = (Vec::with_capacity(shares.len()), 0.0);
    for (weights, share) in weights.iter_mut().zip(shares) {
        for count in 1..=slots {
            weights[count] = weights[count - 1] * share / count as f64;
        }
        below.push(sum);
        sum += share;
    }
    let permutations: f64 = (1..=slots).map(|slot| slot as f64).product();
    let mut search = GroupSearch { weights, below, floor: floor / permutations, found: Vec::new() };
    search.go(slots, shares.len() - 1, Counts::default(), 1.0);
    found.clear();
    found.extend(search.found.into_iter().map(|(product, counts)| (product * permutations, counts)));
}

/// A search through the groups, from the last class to the first.
struct GroupSearch {
    /// `q_i^c / c!` by class and count.
    weights: Vec<[f64; SLOTS_MAX + 1]>,
    /// The sum of the shares of all classes before each.
    below: Vec<f64>,
    floor: f64,
    found: Vec<(f64, Counts)>,
}

impl GroupSearch {
    /// `left` slots are left for classes up to `class`; `product` is that of the classes after it.
    fn go(&mut self, left: usize, class: usize, counts: Counts, product: f64) {
        if class == 0 {
            let product = product * self.weights[0][left];
            if product > self.floor {
                self.found.push((product, counts.plus(0, left)));
            }
            return;
        }
        for count in 0..=left {
            let product = product * self.weights[class][count];
            let rest = left - count;
            // All groups of the rest together have `(sum of shares)^rest / rest!`.
            let most = (1..=rest).fold(product, |most, slot| most * self.below[class] / slot as f64);
            if most > self.floor {
                self.go(rest, class - 1, counts.plus(class, count), product);
            }
        }
    }
}

/// The groups that are frequent in at least one of the states, and that of empty buckets, which new
/// partitions consist of. In ascending order.
pub fn frequent(slots: usize, classes: usize, states: &[Shares]) -> Vec<Counts> {
    // Groups below the floor together have at most half of what may be rare.
    let all: f64 = (1..=slots).fold(1.0, |all, slot| all * (classes + slot - 1) as f64 / slot as f64);
    let floor = (1.0 - FREQUENT_SHARE) / 2.0 / all;
    let (mut frequent, mut found) = (vec![Counts::default().plus(0, slots)], Vec::new());
    for state in states {
        probable(slots, &state.of_slots(slots), floor, &mut found);
        found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut missing = FREQUENT_SHARE;
        frequent.extend(found.iter().map_while(|&(probability, group)| {
            let is_needed = missing > 0.0;
            missing -= probability;
            is_needed.then_some(group)
        }));
        assert!(missing <= 0.0, "{missing} of the buckets are in groups that were left out");
    }
    frequent.sort_unstable();
    frequent.dedup();
    frequent
}

/// The probability that a bucket is in one of these groups.
pub fn probability(slots: usize, state: &Shares, groups: impl Iterator<Item = Counts>) -> f64 {
    let shares = state.of_slots(slots);
    let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
    let of = |(class, count): (usize, usize)| shares[class].powi(count as i32) / factorial(count);
    groups.map(|group| factorial(slots) * group.iter().map(of).product::<f64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All groups of a bucket, and their probabilities, one by one.
    fn all(slots: usize, shares: &[f64]) -> Vec<(f64, Counts)> {
        let classes = shares.len();
        let mut groups: Vec<(f64, Counts)> = Vec::new();
        for number in 0..(slots + 1).pow(classes as u32) {
            let counts: Vec<usize> = (0..classes).map(|i| number / (slots + 1).pow(i as u32) % (slots + 1)).collect();
            if counts.iter().sum::<usize>() == slots {
                let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
                let of = |(share, &count): (&f64, &usize)| share.powi(count as i32) / factorial(count);
                let probability = factorial(slots) * shares.iter().zip(&counts).map(of).product::<f64>();
                let place = |group: Counts, (class, &count): (usize, &usize)| group.plus(class, count);
                groups.push((probability, counts.iter().enumerate().fold(Counts::default(), place)));
            }
        }
        groups
    }

    /// The search finds all groups above the floor, with their probabilities.
    #[test]
    fn groups_of_a_bucket() {
        let shares = [0.5, 0.2, 0.1, 0.1, 0.06, 0.04];
        let all = all(4, &shares);
        // A multiset of 4 out of 6: C(9, 4).
        assert_eq!(all.len(), 126);
        assert!((all.iter().map(|(probability, _)| probability).sum::<f64>() - 1.0).abs() < 1e-12);
        let mut found = Vec::new();
        for floor in [0.0, 1e-4, 1e-2] {
            probable(4, &shares, floor, &mut found);
            found.sort_unstable_by_key(|&(_, group)| group);
            let mut expected: Vec<_> = all.iter().copied().filter(|(probability, _)| *probability > floor).collect();
            expected.sort_unstable_by_key(|&(_, group)| group);
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.1 == expected.1 && (found.0 / expected.0 - 1.0).abs() < 1e-12);
            }
        }
        assert!(
            (probability(4, &Shares::new(shares.to_vec()), all.iter().map(|(_, group)| *group)) - 1.0).abs() < 1e-12
        );
    }

    /// The fewest groups that cover the share are frequent.
    #[test]
    fn frequent_groups_are_the_fewest() {
        let shares = Shares::new(vec![90.0, 9.0, 1.0]);
        let mut all: Vec<f64> = all(5, &shares.of_slots(5)).into_iter().map(|(probability, _)| probability).collect();
        all.sort_unstable_by(|a, b| b.total_cmp(a));
        let fewest = (1..=all.len()).find(|&n| all[..n].iter().sum::<f64>() >= FREQUENT_SHARE);
        assert_eq!(Some(frequent(5, 3, std::slice::from_ref(&shares)).len()), fewest);
        let other = Shares::new(vec![90.0, 1.0, 9.0]);
        assert!(Some(frequent(5, 3, &[shares, other]).len()) > fewest, "more states, more frequent groups");
    }
}
