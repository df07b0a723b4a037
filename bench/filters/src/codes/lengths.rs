//! Fingerprint lengths of each class: the paper's Algorithm 1, and a search for the fewest false
//! positives, each under any of three constraints.
//!
//! They work with combinations, as the paper does; the filter works with groups, and has to come to
//! the same lengths.

use std::collections::{BTreeMap, BTreeSet};

use tamarack_filter::chucky::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};

use crate::huffman;
use crate::tree::{Type, fingerprint_bits};

/// What fingerprint lengths have to fit.
pub struct Fit {
    frequent: Vec<Group>,
    constraint: Constraint,
    bucket_bits: u32,
}

/// Frequent combinations whose LIDs are of the same classes.
struct Group {
    classes: Vec<u8>,
    combinations: u128,
    /// The probability of all of them.
    weight: f64,
    /// The bits of the longest codeword, if the code is given.
    codeword_bits: u32,
}

enum Constraint {
    /// Codewords of given lengths (Chucky, Eq. 14).
    GivenCode,
    /// Codewords that fill what fingerprints leave (Chucky, Eq. 15), and so many of all bits.
    AlignedCode { rare: u128 },
}

impl Fit {
    /// Malleable fingerprints beside Huffman's code of combinations (Chucky, Eq. 14).
    pub fn given_code(types: &[Type], share: f64, bucket_bits: u32) -> Self {
        let longest = longest(&huffman::code(types).0);
        let frequent = grouped(types, &frequent(types, share), |place| longest[place]);
        Self { frequent, constraint: Constraint::GivenCode, bucket_bits }
    }

    /// Malleable fingerprints with aligned codes (Chucky, Eq. 15), of the most probable
    /// combinations.
    pub fn aligned_code(types: &[Type], share: f64, bucket_bits: u32) -> Self {
        Self::aligned(types, &frequent(types, share), bucket_bits)
    }

    /// The same, of the most probable groups, and that of buckets that are all of the first class.
    pub fn aligned_groups(types: &[Type], share: f64, bucket_bits: u32) -> Self {
        let mut groups = BTreeMap::<&[u8], f64>::new();
        for of in types {
            *groups.entry(&of.classes).or_insert(0.0) += of.weight();
        }
        let mut order: Vec<(&[u8], f64)> = groups.into_iter().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut missing = share;
        let probable = order.iter().take_while(|(_, weight)| {
            let is_needed = missing > 0.0;
            missing -= weight;
            is_needed
        });
        let mut chosen: BTreeSet<&[u8]> = probable.map(|(group, _)| *group).collect();
        chosen.extend(types.iter().map(|of| &of.classes[..]).filter(|classes| classes[1..].iter().all(|&c| c == 0)));
        let places: Vec<usize> = (0..types.len()).filter(|&place| chosen.contains(&types[place].classes[..])).collect();
        Self::aligned(types, &places, bucket_bits)
    }

    fn aligned(types: &[Type], frequent: &[usize], bucket_bits: u32) -> Self {
        let all: u128 = types.iter().map(|of| of.count).sum();
        let frequent = grouped(types, frequent, |_| 0);
        let rare = all - frequent.iter().map(|group| group.combinations).sum::<u128>();
        Self { frequent, constraint: Constraint::AlignedCode { rare }, bucket_bits }
    }

    /// The share of buckets that are not frequent, of all these types.
    pub fn rare_share(&self, types: &[Type]) -> f64 {
        let all: f64 = types.iter().map(Type::weight).sum();
        (all - self.frequent.iter().map(|group| group.weight).sum::<f64>()).max(0.0)
    }

    /// Whether these lengths fit.
    pub fn holds(&self, lengths: &[u32]) -> bool {
        let bits = |group: &Group| fingerprint_bits(&group.classes, lengths);
        match self.constraint {
            Constraint::GivenCode => {
                self.frequent.iter().all(|group| bits(group) + group.codeword_bits <= self.bucket_bits)
            }
            // In whole numbers, times 2 to the power of the bucket's bits: rare codewords would
            // vanish beside 1.
            Constraint::AlignedCode { rare } => {
                let limit = 1_u128 << self.bucket_bits;
                let mut sum = rare;
                self.frequent.iter().all(|group| {
                    let fits = bits(group) <= self.bucket_bits && group.combinations <= limit;
                    sum += if fits { group.combinations << bits(group) } else { 0 };
                    fits && sum <= limit
                })
            }
        }
    }

    /// Algorithm 1 of the paper, from the upper bound `top` on; `None` if not even the shortest
    /// fingerprints fit.
    pub fn algorithm_1(&self, classes: usize, mut top: u32) -> Option<Vec<u32>> {
        let mut lengths = vec![FINGERPRINT_BITS_MIN; classes];
        if !self.holds(&lengths) {
            return None;
        }
        for class in 0..classes {
            while lengths[class] < top {
                lengths[class] += 1;
                if !self.holds(&lengths) {
                    lengths[class] -= 1;
                    top = lengths[class];
                }
            }
        }
        Some(lengths)
    }

    /// Algorithm 1 as it is printed: up to a bit less than a slot has.
    pub fn as_printed(&self, classes: usize, slots: usize) -> Option<Vec<u32>> {
        self.algorithm_1(classes, (self.bucket_bits / slots as u32 - 1).min(FINGERPRINT_BITS_MAX))
    }

    /// The search for the fewest false positives: Algorithm 1 from each upper bound, then single
    /// classes are lengthened, the one with the most false positives first.
    pub fn best(&self, shares: &[f64]) -> Option<Vec<u32>> {
        let all = (FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).filter_map(|top| {
            let mut lengths = self.algorithm_1(shares.len(), top)?;
            self.lengthen_singly(&mut lengths, shares);
            Some(lengths)
        });
        all.min_by(|a, b| rate(shares, a).total_cmp(&rate(shares, b)))
    }

    /// The fewest false positives of all lengths that fit, in the unit of [`rate`]: every choice is
    /// tried that can be better than those before. For at most [`EXHAUSTIVE_CLASSES_MAX`] classes;
    /// more take too long.
    pub fn fewest(&self, shares: &[f64]) -> Option<f64> {
        let mut lengths = vec![FINGERPRINT_BITS_MIN; shares.len()];
        let mut fewest = None;
        if self.holds(&lengths) {
            self.try_all(shares, 0, &mut lengths, &mut fewest);
        }
        fewest
    }

    /// Lengths of classes from `class` on; those of the others are chosen.
    fn try_all(&self, shares: &[f64], class: usize, lengths: &mut Vec<u32>, fewest: &mut Option<f64>) {
        if class == lengths.len() {
            let rate = rate(shares, lengths);
            *fewest = Some(fewest.map_or(rate, |fewest| fewest.min(rate)));
            return;
        }
        let top = if class == 0 { FINGERPRINT_BITS_MAX } else { lengths[0] };
        for length in FINGERPRINT_BITS_MIN..=top {
            lengths[class] = length;
            // The others are as short as can be, so longer ones do not fit, either.
            if !self.holds(lengths) {
                break;
            }
            // If classes that are not chosen yet were as long as the first.
            let longest = vec![lengths[0]; shares.len() - class - 1];
            let least = rate(&shares[..=class], lengths) + rate(&shares[class + 1..], &longest);
            if fewest.is_none_or(|fewest| least < fewest) {
                self.try_all(shares, class + 1, lengths, fewest);
            }
        }
        lengths[class] = FINGERPRINT_BITS_MIN;
    }

    fn lengthen_singly(&self, lengths: &mut [u32], shares: &[f64]) {
        let mut order: Vec<usize> = (0..shares.len()).collect();
        loop {
            let errors = |class: usize| shares[class] * 0.5_f64.powi(lengths[class] as i32);
            order.sort_by(|&a, &b| errors(b).total_cmp(&errors(a)));
            let longer = order.iter().any(|&class| {
                let top = if class == 0 { FINGERPRINT_BITS_MAX } else { lengths[0] };
                if lengths[class] >= top {
                    return false;
                }
                lengths[class] += 1;
                let fits = self.holds(lengths);
                lengths[class] -= u32::from(!fits);
                fits
            });
            if !longer {
                return;
            }
        }
    }
}

/// Classes with which all lengths can be tried in about a second.
pub const EXHAUSTIVE_CLASSES_MAX: usize = 10;

/// `Σ f 2^-FP`: the probability that an entry of a tree agrees with another key by chance.
pub fn rate(shares: &[f64], lengths: &[u32]) -> f64 {
    shares.iter().zip(lengths).map(|(share, &length)| share * 0.5_f64.powi(length as i32)).sum()
}

/// The most probable combinations, until they have this share (the paper's C_freq).
pub fn frequent(types: &[Type], share: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..types.len()).collect();
    order.sort_by(|&a, &b| types[b].probability.total_cmp(&types[a].probability));
    let mut missing = share;
    order.retain(|&place| {
        let is_needed = missing > 0.0;
        missing -= types[place].weight();
        is_needed
    });
    order
}

/// Types by their classes. `codeword_bits` has the longest codeword of each type.
fn grouped(types: &[Type], places: &[usize], codeword_bits: impl Fn(usize) -> u32) -> Vec<Group> {
    let mut groups = BTreeMap::<&[u8], Group>::new();
    for &place in places {
        let of = &types[place];
        let new = Group { classes: of.classes.clone(), combinations: 0, weight: 0.0, codeword_bits: 0 };
        let group = groups.entry(&of.classes).or_insert(new);
        group.combinations += of.count;
        group.weight += of.weight();
        group.codeword_bits = group.codeword_bits.max(codeword_bits(place));
    }
    groups.into_values().collect()
}

/// The longest codeword of each type.
pub fn longest(lengths: &huffman::Lengths) -> Vec<u32> {
    lengths.iter().map(|of| of.last().expect("each type has symbols").0).collect()
}

/// The longest codeword of the most probable combinations, and of all.
pub fn longest_of(types: &[Type], share: f64) -> (u32, u32) {
    let longest = longest(&huffman::code(types).0);
    let of_frequent = frequent(types, share).into_iter().map(|place| longest[place]).max();
    (of_frequent.unwrap_or(0), longest.into_iter().max().unwrap_or(0))
}

/// The share of buckets that overflow: Huffman's codeword and the fingerprints are longer than a
/// bucket.
pub fn overflowing(types: &[Type], fingerprints: &[u32], bucket_bits: u32) -> f64 {
    let lengths = huffman::code(types).0;
    let of_type = |(of, lengths): (&Type, &Vec<(u32, u128)>)| {
        let own = of.fingerprint_bits(fingerprints);
        let over = lengths.iter().filter(|(length, _)| length + own > bucket_bits);
        over.map(|(_, count)| of.probability * *count as f64).sum::<f64>()
    };
    types.iter().zip(&lengths).map(of_type).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{BUCKET_BITS, Distribution, Tree};

    fn trees() -> [Tree; 4] {
        [
            Tree::of_paper(10.0, 1, 1, 5),
            Tree::of_paper(2.0, 1, 1, 7),
            Tree::of_paper(5.0, 4, 1, 6),
            Tree::of_paper(10.0, 9, 9, 3),
        ]
    }

    /// The search under the constraint of groups comes to the lengths of the filter's code, which
    /// finds them with other means.
    #[test]
    fn lengths_are_those_of_the_filter() {
        for tree in trees() {
            for slots in 4..=6 {
                let code = tree.code(slots).expect("it fits");
                let types = Distribution::of_slots(&tree, slots).combinations(slots);
                let own = Fit::aligned_groups(&types, 0.9999, BUCKET_BITS).best(&tree.entries);
                assert_eq!(own, Some(code.fingerprint_bits().collect()), "{tree:?}, {slots} slots");
            }
        }
    }

    /// The search never errs more often than Algorithm 1 as printed, under either constraint, and
    /// aligned codes never more often than Huffman's, whose lengths satisfy Eq. 15.
    #[test]
    fn the_search_is_no_worse() {
        for tree in trees() {
            for slots in 4..=6 {
                let types = Distribution::of_slots(&tree, slots).combinations(slots);
                for fit in
                    [Fit::given_code(&types, 0.9999, BUCKET_BITS), Fit::aligned_code(&types, 0.9999, BUCKET_BITS)]
                {
                    let best = fit.best(&tree.entries).expect("it fits");
                    let printed = fit.as_printed(tree.entries.len(), slots).expect("it fits");
                    assert!(fit.holds(&best) && fit.holds(&printed));
                    assert!(rate(&tree.entries, &best) <= rate(&tree.entries, &printed));
                    assert!(printed.is_sorted_by(|a, b| a >= b), "never longer for smaller levels: {printed:?}");
                }
                let given = Fit::given_code(&types, 0.9999, BUCKET_BITS).best(&tree.entries).expect("it fits");
                assert!(overflowing(&types, &given, BUCKET_BITS) <= 1.1e-4);
            }
        }
    }

    /// The search is within two percent of the fewest false positives of all lengths.
    #[test]
    fn the_search_is_near_the_best() {
        for tree in [Tree::of_paper(10.0, 1, 1, 4), Tree::of_paper(5.0, 4, 1, 3), Tree::of_paper(10.0, 9, 9, 3)] {
            for slots in 5..=7 {
                let types = Distribution::of_slots(&tree, slots).combinations(slots);
                let fit = Fit::aligned_groups(&types, 0.9999, BUCKET_BITS);
                let found = fit.best(&tree.entries).map(|lengths| rate(&tree.entries, &lengths));
                let (found, fewest) = (found.expect("it fits"), fit.fewest(&tree.entries).expect("it fits"));
                assert!(fewest <= found && found < 1.02 * fewest, "{tree:?}, {slots} slots: {found}, {fewest}");
            }
        }
    }

    /// The paper's default tree, buckets of four slots: 7 bits a slot are too few, 8 are enough.
    #[test]
    fn the_fewest_bits_of_the_papers_tree() {
        let types = Distribution::of_entries(&Tree::of_paper(5.0, 4, 1, 6)).combinations(4);
        let fits = |bits: u32| Fit::aligned_code(&types, 0.9999, 4 * bits).as_printed(6, 4).is_some();
        assert_eq!((fits(7), fits(8)), (false, true));
    }
}
