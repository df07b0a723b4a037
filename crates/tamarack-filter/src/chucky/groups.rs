//! Groups: multisets of classes, one class for each slot of a bucket; and which of them are
//! frequent.
//!
//! With `q_i` the share of slots that belong to class i, a bucket of S slots is in the group with
//! counts `c_1 … c_C` with probability `S! · Π q_i^(c_i) / c_i!` (Eq. 12, summed over the
//! combinations of the group).
//!
//! **Frequent** are the most probable groups, until they cover [`FREQUENT_SHARE`] of all buckets
//! (§4.4 of the paper), in each of several states of the tree: a tree that grows goes through
//! states in which other buckets are frequent than in a full one.

/// The upper bound on the slots of a bucket. With more, fingerprints of
/// [`FINGERPRINT_BITS_MIN`](super::FINGERPRINT_BITS_MIN) bits leave too few bits for codewords.
pub const SLOTS_MAX: usize = 7;

/// The upper bound on the number of classes.
pub const CLASSES_MAX: usize = 16;

/// The upper bound on the number of LIDs. With more, numbers of combinations could exceed 48 bits.
pub(super) const LIDS_MAX: usize = 400;

/// The share of buckets in frequent groups (the paper's NOV).
pub(super) const FREQUENT_SHARE: f64 = 0.9999;

/// The share of slots that are used, the others being empty.
const LOAD: f64 = 0.95;

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

    /// The share of each class in all slots: empty ones count for the first class.
    fn of_slots(&self) -> Vec<f64> {
        let mut shares: Vec<f64> = self.0.iter().map(|share| share * LOAD).collect();
        shares[0] += 1.0 - LOAD;
        shares
    }
}

/// The counts of each class in a group, four bits for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counts(u64);

impl Counts {
    pub(super) fn of(self, class: usize) -> usize {
        (self.0 >> (4 * class) & 15) as usize
    }

    pub(super) fn plus(self, class: usize, count: usize) -> Self {
        Self(self.0 + ((count as u64) << (4 * class)))
    }

    /// The classes that occur, with their counts, in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        (0..CLASSES_MAX).map(move |class| (class, self.of(class))).filter(|(_, count)| *count > 0)
    }
}

/// All groups of `slots` slots and `classes` classes, in the order in which [`probabilities`] has
/// them.
fn all(slots: usize, classes: usize) -> Vec<Counts> {
    let mut groups = Vec::new();
    each(slots, classes, &mut |counts, _| groups.push(counts), &|_, _| 1.0);
    groups
}

/// The probability of each group.
fn probabilities(slots: usize, shares: &[f64], into: &mut Vec<f64>) {
    let mut weights = vec![[1.0; SLOTS_MAX + 1]; shares.len()];
    for (weights, share) in weights.iter_mut().zip(shares) {
        for count in 1..=slots {
            weights[count] = weights[count - 1] * share / count as f64;
        }
    }
    let permutations: f64 = (1..=slots).map(|slot| slot as f64).product();
    into.clear();
    each(slots, shares.len(), &mut |_, product| into.push(product * permutations), &|class, count| {
        weights[class][count]
    });
}

/// The probability that a bucket is in one of these groups.
pub(super) fn probability(slots: usize, state: &Shares, groups: impl Iterator<Item = Counts>) -> f64 {
    let shares = state.of_slots();
    let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
    let of = |(class, count): (usize, usize)| shares[class].powi(count as i32) / factorial(count);
    groups.map(|group| factorial(slots) * group.iter().map(of).product::<f64>()).sum()
}

/// Calls `found` for each group, with the product of the weights of its counts.
fn each(slots: usize, classes: usize, found: &mut impl FnMut(Counts, f64), weight: &impl Fn(usize, usize) -> f64) {
    fn go(
        left: usize,
        class: usize,
        (counts, product): (Counts, f64),
        found: &mut impl FnMut(Counts, f64),
        weight: &impl Fn(usize, usize) -> f64,
    ) {
        if class == 0 {
            return found(counts.plus(0, left), product * weight(0, left));
        }
        for count in 0..=left {
            go(left - count, class - 1, (counts.plus(class, count), product * weight(class, count)), found, weight);
        }
    }
    go(slots, classes - 1, (Counts::default(), 1.0), found, weight);
}

/// The groups that are frequent in at least one of the states, and that of empty buckets, which
/// new partitions consist of.
pub(super) fn frequent(slots: usize, classes: usize, states: &[Shares]) -> Vec<Counts> {
    let groups = all(slots, classes);
    let (mut is_frequent, mut found, mut order) = (vec![false; groups.len()], Vec::new(), Vec::new());
    for state in states {
        probabilities(slots, &state.of_slots(), &mut found);
        order.clear();
        order.extend(0..groups.len() as u32);
        let mut missing = FREQUENT_SHARE;
        // Most groups are so improbable that they need not be sorted.
        order.retain(|&group| found[group as usize] > (1.0 - FREQUENT_SHARE) / 2.0 / groups.len() as f64);
        order.sort_unstable_by(|&a, &b| found[b as usize].total_cmp(&found[a as usize]));
        for &group in &order {
            if missing <= 0.0 {
                break;
            }
            missing -= found[group as usize];
            is_frequent[group as usize] = true;
        }
        assert!(missing <= 0.0, "what was left out is at most half of the rare share: {missing}");
    }
    let empty = Counts::default().plus(0, slots);
    groups
        .into_iter()
        .zip(is_frequent)
        .filter_map(|(group, frequent)| (frequent || group == empty).then_some(group))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of a bucket, their number, and the sum of their probabilities.
    #[test]
    fn groups_of_a_bucket() {
        // A multiset of 4 out of 6: C(9, 4).
        let groups = all(4, 6);
        assert_eq!(groups.len(), 126);
        assert!(groups.iter().all(|group| group.iter().map(|(_, count)| count).sum::<usize>() == 4));
        let mut found = Vec::new();
        probabilities(4, &[0.5, 0.2, 0.1, 0.1, 0.06, 0.04], &mut found);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // 0.5^2 · 0.2^2 · 4! / 2! / 2!
        let group = Counts::default().plus(0, 2).plus(1, 2);
        let place = groups.iter().position(|&other| other == group).expect("it is one of all");
        assert!((found[place] - 0.06).abs() < 1e-12);
    }

    /// The fewest groups that cover the share are frequent.
    #[test]
    fn frequent_groups_are_the_fewest() {
        let shares = Shares::new(vec![90.0, 9.0, 1.0]);
        let mut found = Vec::new();
        probabilities(5, &shares.of_slots(), &mut found);
        found.sort_unstable_by(|a, b| b.total_cmp(a));
        let fewest = (1..=found.len()).find(|&n| found[..n].iter().sum::<f64>() >= FREQUENT_SHARE);
        assert_eq!(Some(frequent(5, 3, std::slice::from_ref(&shares)).len()), fewest);
        let other = Shares::new(vec![90.0, 1.0, 9.0]);
        assert!(Some(frequent(5, 3, &[shares, other]).len()) > fewest, "more states, more frequent groups");
    }
}
