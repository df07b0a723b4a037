//! Trees, and the distribution of level IDs (LIDs) and of their combinations in a bucket.
//!
//! Runs of a level are equally large, so most LIDs share their probability with others: a *kind* is
//! a set of such LIDs, and combinations that have the same numbers of the same kinds, repeated in
//! the same way, are a *type*. There are a few thousand types where there are 10¹⁵ combinations, so
//! sums over all combinations are exact and quick.

use std::ops::Range;

use tamarack_filter::chucky::{Bucket, BucketSlot, Code, CodeError, Encoded, Shares};
use tamarack_model::filter::chucky::{Classes, load};
use tamarack_model::policy;
use tamarack_model::shape::Shape;
use tamarack_model::units::Bytes;

/// Policies, and the size of their trees in memtables.
pub const POLICIES: [(&str, u64); 9] = [
    ("leveling:T=10", 50_000),
    ("leveling:T=2", 1_000),
    ("leveling:T=5,first=4", 10_000),
    ("lazy-leveling:T=5", 10_000),
    ("tiering:T=4", 4_000),
    ("tiering:T=10", 5_000),
    ("garnering:T=5,c=0.8", 10_000),
    ("moose:last=0.8,k=1", 10_000),
    ("qlsm-bush:T=2,X=2", 20_000),
];

/// The slots of buckets that are compared.
pub const SLOTS: Range<usize> = 4..8;

/// The bits of a bucket.
pub const BUCKET_BITS: u32 = 64;

/// A full tree: a class for each level, the last level first.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The runs of each class.
    pub lids: Vec<u16>,
    /// The share of each class in all entries.
    pub entries: Vec<f64>,
    /// The tree of a policy, for the code that the engine makes.
    shape: Option<Shape>,
}

impl Tree {
    /// The full tree of one of [`POLICIES`].
    pub fn of_policy(words: &str, memtables: u64) -> Self {
        let buffer = Bytes(1 << 20);
        let shape = policy::parse(words).expect("a policy").shape(Bytes(buffer.0 * memtables), buffer);
        let levels = (1..=shape.last()).rev();
        let lids = levels.clone().map(|number| shape.visible_runs(number).max(1) as u16).collect();
        let entries = levels.map(|number| shape.share(number)).collect();
        Self { lids, entries, shape: Some(shape) }
    }

    /// The paper's tree of so many levels (Chucky, Eq. 7 and 8): `runs` runs in each level, and
    /// `last_runs` in the last one.
    pub fn of_paper(ratio: f64, runs: u16, last_runs: u16, levels: usize) -> Self {
        let sizes: Vec<f64> = (0..levels).map(|level| ratio.powi(-(level as i32))).collect();
        let all: f64 = sizes.iter().sum();
        let lids = (0..levels).map(|level| if level == 0 { last_runs } else { runs }).collect();
        Self { lids, entries: sizes.into_iter().map(|size| size / all).collect(), shape: None }
    }

    pub fn runs(&self) -> usize {
        self.lids.iter().map(|&lids| usize::from(lids)).sum()
    }

    /// The share of each run in all entries.
    pub fn shares_of_runs(&self) -> Vec<f64> {
        let classes = self.entries.iter().zip(&self.lids);
        classes.flat_map(|(share, &lids)| std::iter::repeat_n(share / f64::from(lids), lids.into())).collect()
    }

    pub fn class_of(&self, lid: u16) -> usize {
        let mut end = 0;
        let is_in = |&lids: &u16| {
            end += lids;
            lid < end
        };
        self.lids.iter().position(is_in).expect("a LID of the tree")
    }

    /// The code for this full tree alone.
    pub fn code(&self, slots: usize) -> Result<Code, CodeError> {
        Code::new(slots, &self.lids, &[self.shares()])
    }

    /// The code that the engine makes: for all states that the tree goes through while it grows,
    /// with spare classes and one for late runs.
    pub fn engine_code(&self, slots: usize) -> Option<Result<Code, CodeError>> {
        let shape = self.shape.as_ref()?;
        let classes = Classes::of(shape);
        let states: Vec<Shares> = classes.states(shape).into_iter().map(Shares::new).collect();
        Some(Code::new(slots, classes.lids(), &states))
    }

    /// The entries of each class of [`Tree::code`].
    pub fn shares(&self) -> Shares {
        Shares::new(self.entries.clone())
    }

    /// The entries of each class of [`Tree::engine_code`] in the full tree.
    pub fn engine_shares(&self, code: &Code) -> Shares {
        // Both count classes from the last level. The smallest levels of a deep tree share one.
        let mut entries = vec![0.0; code.fingerprint_bits().count()];
        let deepest = entries.len() - 2;
        for (class, share) in self.entries.iter().enumerate() {
            entries[class.min(deepest)] += share;
        }
        Shares::new(entries)
    }
}

/// LIDs that are equally frequent.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Of each LID.
    pub probability: f64,
    pub lids: u16,
    pub class: usize,
}

/// The LIDs of slots: independent of each other, each with its probability.
#[derive(Clone, Debug)]
pub struct Distribution {
    pub kinds: Vec<Kind>,
}

impl Distribution {
    /// All slots in use, as the paper has it.
    pub fn of_entries(tree: &Tree) -> Self {
        Self::with_load(tree, 1.0)
    }

    /// A full filter, in which a few slots stay empty. Those have LID 0.
    pub fn of_slots(tree: &Tree, slots: usize) -> Self {
        Self::with_load(tree, load(slots))
    }

    fn with_load(tree: &Tree, load: f64) -> Self {
        let mut kinds = Vec::new();
        for (class, (&lids, share)) in tree.lids.iter().zip(&tree.entries).enumerate() {
            let probability = share * load / f64::from(lids);
            if class == 0 && load < 1.0 {
                kinds.push(Kind { probability: probability + 1.0 - load, lids: 1, class });
                if lids > 1 {
                    kinds.push(Kind { probability, lids: lids - 1, class });
                }
            } else {
                kinds.push(Kind { probability, lids, class });
            }
        }
        Self { kinds }
    }

    /// The probability of each LID.
    pub fn probabilities(&self) -> Vec<f64> {
        self.kinds.iter().flat_map(|kind| std::iter::repeat_n(kind.probability, kind.lids.into())).collect()
    }

    /// The probability of each class.
    pub fn classes(&self) -> Vec<f64> {
        let mut classes = vec![0.0; self.kinds.last().map_or(0, |kind| kind.class + 1)];
        for kind in &self.kinds {
            classes[kind.class] += kind.probability * f64::from(kind.lids);
        }
        classes
    }

    /// The types of combinations of `slots` LIDs (Chucky, Eq. 12).
    pub fn combinations(&self, slots: usize) -> Vec<Type> {
        let mut search = TypeSearch { distribution: self, ordered: false, found: Vec::new() };
        search.go(slots, 0, factorial(slots), Type::empty(self));
        search.found
    }

    /// The types of permutations of `slots` LIDs.
    pub fn permutations(&self, slots: usize) -> Vec<Type> {
        let mut search = TypeSearch { distribution: self, ordered: true, found: Vec::new() };
        search.go(slots, 0, factorial(slots), Type::empty(self));
        search.found
    }
}

/// Symbols of a code that have the same probability and LIDs of the same classes.
#[derive(Clone, Debug)]
pub struct Type {
    /// Of each symbol.
    pub probability: f64,
    /// Symbols.
    pub count: u128,
    /// Slots of each class.
    pub classes: Vec<u8>,
}

impl Type {
    fn empty(distribution: &Distribution) -> Self {
        Self { probability: 1.0, count: 1, classes: vec![0; distribution.classes().len()] }
    }

    /// The probability of all symbols.
    pub fn weight(&self) -> f64 {
        self.probability * self.count as f64
    }

    /// The bits of the fingerprints, of the given length in each class.
    pub fn fingerprint_bits(&self, lengths: &[u32]) -> u32 {
        fingerprint_bits(&self.classes, lengths)
    }
}

/// The bits of the fingerprints of a bucket with so many slots of each class.
pub fn fingerprint_bits(classes: &[u8], lengths: &[u32]) -> u32 {
    classes.iter().zip(lengths).map(|(&count, length)| u32::from(count) * length).sum()
}

struct TypeSearch<'a> {
    distribution: &'a Distribution,
    ordered: bool,
    found: Vec<Type>,
}

impl TypeSearch<'_> {
    /// `left` slots are left for kinds from `kind` on; `orders` is what is left of `S! / Π c!`.
    fn go(&mut self, left: usize, kind: usize, orders: u128, so_far: Type) {
        if left == 0 {
            let mut found = so_far;
            if self.ordered {
                found.count *= orders;
            } else {
                found.probability *= orders as f64;
            }
            self.found.push(found);
            return;
        }
        let Some(&Kind { probability, lids, class, .. }) = self.distribution.kinds.get(kind) else { return };
        for count in 0..=left {
            let mut next = so_far.clone();
            next.probability *= probability.powi(count as i32);
            next.classes[class] += count as u8;
            if self.ordered {
                next.count *= u128::from(lids).pow(count as u32);
                self.go(left - count, kind + 1, orders / factorial(count), next);
                continue;
            }
            // How often each LID of the kind occurs, in descending order.
            for repeats in partitions(count, count, usize::from(lids)) {
                let mut of_type = next.clone();
                of_type.count *= choices(&repeats, lids.into());
                let equal: u128 = repeats.iter().map(|&repeats| factorial(repeats)).product();
                self.go(left - count, kind + 1, orders / equal, of_type);
            }
        }
    }
}

/// Ways to write `sum` as at most `parts` numbers from 1 to `greatest`, in descending order.
fn partitions(sum: usize, greatest: usize, parts: usize) -> Vec<Vec<usize>> {
    if sum == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    if parts > 0 {
        for first in 1..=greatest.min(sum) {
            for mut rest in partitions(sum - first, first, parts - 1) {
                rest.insert(0, first);
                all.push(rest);
            }
        }
    }
    all
}

/// Ways to give these numbers to different LIDs of `lids`.
fn choices(repeats: &[usize], lids: u128) -> u128 {
    let ordered: u128 = (0..repeats.len() as u128).map(|given| lids - given).product();
    let equal: u128 = repeats.chunk_by(|a, b| a == b).map(|equal| factorial(equal.len())).product();
    ordered / equal
}

fn factorial(n: usize) -> u128 {
    (1..=n as u128).product()
}

/// A random full bucket with the distribution of the tree; `random` gives 64 bits each time.
pub fn random_bucket(tree: &Tree, code: &Code, mut random: impl FnMut() -> u64) -> Bucket {
    let mut bucket = Bucket::empty(code.slots());
    for _ in 0..code.slots() {
        if fraction(random()) > load(code.slots()) {
            continue;
        }
        let mut at = fraction(random());
        let class = tree.entries.iter().position(|share| {
            at -= share;
            at < 0.0
        });
        let lids = code.lids_of_class(class.unwrap_or(0));
        let lid = lids.start + (fraction(random()) * lids.len() as f64) as u16;
        let digest = tamarack_filter::Digest::from_stored(random());
        assert!(bucket.insert(code.slot(lid, code.fingerprint(digest))), "a slot is free");
    }
    bucket
}

fn fraction(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// The average codeword length of a group code in bits for each bucket, and the share of rare ones.
pub fn average_length(code: &Code, types: &[Type]) -> (f64, f64) {
    let lengths: Vec<u32> = code.fingerprint_bits().collect();
    let (mut bits, mut rare) = (0.0, 0.0);
    for group in types {
        let length = if is_frequent(code, &group.classes) {
            BUCKET_BITS - group.fingerprint_bits(&lengths)
        } else {
            rare += group.weight();
            BUCKET_BITS
        };
        bits += group.weight() * f64::from(length);
    }
    (bits, rare)
}

/// Whether buckets with so many slots of each class are frequent.
pub fn is_frequent(code: &Code, classes: &[u8]) -> bool {
    let mut bucket = Bucket::empty(code.slots());
    for (class, &count) in classes.iter().enumerate() {
        let lid = code.lids_of_class(class).start;
        // LID 0 with a fingerprint of zeros is an empty slot already.
        (0..count).filter(|_| lid > 0).for_each(|_| {
            assert!(bucket.insert(BucketSlot { lid, fingerprint: 1 }), "a slot is free");
        });
    }
    matches!(code.encode(&bucket), Encoded::Frequent(_))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tamarack_model::filter::chucky::{combination_entropy, combinations};

    use super::*;
    use crate::huffman::entropy;

    /// Types are all combinations and all permutations, and their probabilities are those of a sum
    /// over each.
    #[test]
    fn types_are_all_combinations() {
        let tree = Tree::of_paper(5.0, 4, 2, 3);
        for distribution in [Distribution::of_entries(&tree), Distribution::of_slots(&tree, 4)] {
            let lids = distribution.probabilities();
            assert!((lids.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mut all = BTreeMap::new();
            for number in 0..10_usize.pow(4) {
                let mut places = [0, 1, 2, 3].map(|place| number / 10_usize.pow(place) % 10);
                let probability: f64 = places.iter().map(|&lid| lids[lid]).product();
                places.sort_unstable();
                *all.entry(places).or_insert(0.0) += probability;
            }
            let types = distribution.combinations(4);
            assert_eq!(types.iter().map(|found| found.count).sum::<u128>(), all.len() as u128);
            assert_eq!(all.len() as f64, combinations(10, 4));
            let expected: f64 = all.values().map(|p: &f64| -p * p.log2()).sum();
            assert!((entropy(&types) - expected).abs() < 1e-9);
            assert!((4.0 * combination_entropy(&lids, 4) - expected).abs() < 1e-9);
            let ordered = distribution.permutations(4);
            assert_eq!(ordered.iter().map(|found| found.count).sum::<u128>(), 10_000);
            let of_one: f64 = lids.iter().map(|p| -p * p.log2()).sum();
            assert!((entropy(&ordered) - 4.0 * of_one).abs() < 1e-9);
        }
    }

    /// Eq. 7 and 8 of the paper for its example of three levels: LID 6, of the middle level, has
    /// 5/124 of the entries.
    #[test]
    fn the_papers_example() {
        let tree = Tree::of_paper(5.0, 4, 1, 3);
        let shares = tree.shares_of_runs();
        assert_eq!((tree.runs(), tree.class_of(0), tree.class_of(4), tree.class_of(5)), (9, 0, 1, 2));
        assert!((shares[1] - 5.0 / 124.0).abs() < 1e-12 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    /// The share of rare buckets, counted by types, is what the code says of itself.
    #[test]
    fn rare_shares_agree() {
        let tree = Tree::of_policy("lazy-leveling:T=5", 10_000);
        let code = tree.code(5).expect("it fits");
        let (_, rare) = average_length(&code, &Distribution::of_slots(&tree, 5).combinations(5));
        assert!((rare - code.rare_share(&tree.shares())).abs() < 1e-9);
    }
}
