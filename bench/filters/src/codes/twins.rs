//! Buckets in the codes that the paper describes: the plain twins of [`Code`], for the comparison
//! of times.
//!
//! All have the fingerprint lengths of our code. So an absent key is compared with a bucket only
//! after its codeword has been decoded, which says where each fingerprint is:
//!
//! * [`Tables`]: aligned codewords (Chucky, Eq. 15), a decoding table of all combinations, and a
//!   recoding table, which is a hash table (§4.4).
//! * [`Walk`]: the same codewords, decoded bit by bit in a Huffman tree (§4.4).
//! * [`Permutations`]: Huffman's code of permutations (§4.2), with tables. Not aligned, so that the
//!   fingerprints are kept in a number of their own.
//! * [`Entropy`]: an arithmetic coder, as unaligned.

use std::collections::HashMap;

use tamarack_filter::chucky::{Bucket, BucketSlot, Code, Fingerprint, SLOTS_MAX};

use crate::arithmetic::{Bits, Coder};
use crate::huffman;
use crate::tree::{BUCKET_BITS, Distribution, Tree, is_frequent};

/// Combinations or permutations in a table, at most: 16 MiB of LIDs.
pub const TABLE_MAX: u128 = 1 << 21;

/// The decoded slots of a bucket.
pub type Slots = [BucketSlot; SLOTS_MAX];

/// LIDs in a number, nine bits each: there are 380 at most.
const LID_BITS: usize = 9;

fn packed(lids: impl DoubleEndedIterator<Item = u16>) -> u64 {
    lids.rev().fold(0, |all, lid| all << LID_BITS | u64::from(lid))
}

fn lid_of(packed: u64, slot: usize) -> u16 {
    (packed >> (LID_BITS * slot)) as u16 & ((1 << LID_BITS) - 1)
}

/// The fingerprint's length of each LID.
#[derive(Clone, Debug)]
struct Lengths {
    of_lids: Vec<u8>,
    slots: usize,
}

impl Lengths {
    fn new(tree: &Tree, code: &Code) -> Self {
        let of_lids = (0..tree.runs()).map(|lid| code.fingerprint_bits_of(lid as u16) as u8).collect();
        Self { of_lids, slots: code.slots() }
    }

    fn sum(&self, lids: u64) -> u32 {
        (0..self.slots).map(|slot| u32::from(self.of_lids[usize::from(lid_of(lids, slot))])).sum()
    }

    /// All fingerprints, the last slot's in the lowest bits.
    fn fingerprints(&self, slots: &[BucketSlot]) -> u64 {
        slots.iter().fold(0, |all, slot| all << self.of_lids[usize::from(slot.lid)] | u64::from(slot.fingerprint))
    }

    fn slots(&self, lids: u64, mut fingerprints: u64) -> Slots {
        let mut slots = Slots::default();
        for slot in (0..self.slots).rev() {
            let lid = lid_of(lids, slot);
            let length = self.of_lids[usize::from(lid)];
            slots[slot] = BucketSlot { lid, fingerprint: (fingerprints & ((1 << length) - 1)) as u16 };
            fingerprints >>= length;
        }
        slots
    }

    /// How many slots have the fingerprint of a key.
    fn matches(&self, lids: u64, mut fingerprints: u64, key: Fingerprint) -> u32 {
        let mut found = 0;
        for slot in (0..self.slots).rev() {
            let length = self.of_lids[usize::from(lid_of(lids, slot))];
            let own = (fingerprints & ((1 << length) - 1)) as u16;
            found += u32::from(own == key.prefix(length.into()));
            fingerprints >>= length;
        }
        found
    }
}

/// Codewords of one length in a canonical code.
#[derive(Clone, Copy, Debug)]
struct Equal {
    /// The first one, left-justified.
    first: u128,
    length: u32,
    /// Codewords of smaller lengths.
    before: usize,
}

/// A canonical code: shorter codewords first, equally long ones in the order of their symbols.
#[derive(Clone, Debug)]
struct Canonical {
    bits: u32,
    lengths: Vec<Equal>,
}

impl Canonical {
    /// The code, and the symbols in the order of their codewords, with these, left-justified in
    /// `bits` bits, at most 127. `None` if a codeword is longer.
    fn new(of_symbols: &[u32], bits: u32) -> Option<(Self, Vec<(u32, u128)>)> {
        let mut order: Vec<u32> = (0..of_symbols.len() as u32).collect();
        let length = |symbol: u32| of_symbols[symbol as usize];
        order.sort_by_key(|&symbol| length(symbol));
        let (mut lengths, mut codewords, mut next) = (Vec::<Equal>::new(), Vec::with_capacity(order.len()), 0_u128);
        for (before, symbol) in order.into_iter().enumerate() {
            if length(symbol) > bits {
                return None;
            }
            if lengths.last().is_none_or(|equal| equal.length < length(symbol)) {
                lengths.push(Equal { first: next, length: length(symbol), before });
            }
            codewords.push((symbol, next));
            next += 1 << (bits - length(symbol));
        }
        assert!(next <= 1 << bits, "the lengths are those of a prefix code");
        Some((Self { bits, lengths }, codewords))
    }

    /// The number of the codeword at the begin of these bits.
    fn number(&self, word: u128) -> usize {
        let place = self.lengths.partition_point(|equal| equal.first <= word) - 1;
        let Equal { first, length, before } = self.lengths[place];
        before + ((word - first) >> (self.bits - length)) as usize
    }
}

/// Aligned codewords with tables of all combinations, which have the order of their codewords.
#[derive(Clone, Debug)]
pub struct Tables {
    lengths: Lengths,
    canonical: Canonical,
    /// The LIDs of each combination: the decoding table.
    lids: Vec<u64>,
    codewords: Vec<u64>,
    /// Combinations before this one are frequent: fingerprints are in the bucket.
    rare_from: usize,
    /// Combinations by their LIDs, with linear probing: the recoding table.
    recoding: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Tables {
    pub fn new(tree: &Tree, code: &Code) -> Self {
        let lengths = Lengths::new(tree, code);
        let mut all = Vec::new();
        combinations(code.slots(), 0, tree.runs() as u16, &mut Vec::new(), &mut all);
        let mut known = HashMap::new();
        let class_of: Vec<usize> = (0..tree.runs()).map(|lid| tree.class_of(lid as u16)).collect();
        let is_frequent = |packed: &u64| {
            let mut classes = vec![0; tree.lids.len()];
            (0..code.slots()).for_each(|slot| classes[class_of[usize::from(lid_of(*packed, slot))]] += 1);
            *known.entry(classes).or_insert_with_key(|classes| is_frequent(code, classes))
        };
        let frequent: Vec<bool> = all.iter().map(is_frequent).collect();
        // Fingerprints have bits, so only codewords of rare combinations are as long as a bucket.
        let length = |(lids, frequent): (&u64, &bool)| BUCKET_BITS - if *frequent { lengths.sum(*lids) } else { 0 };
        let of_combinations: Vec<u32> = all.iter().zip(&frequent).map(length).collect();
        let (canonical, order) =
            Canonical::new(&of_combinations, BUCKET_BITS).expect("no codeword is longer than a bucket");
        let lids: Vec<u64> = order.iter().map(|&(combination, _)| all[combination as usize]).collect();
        let codewords = order.iter().map(|&(_, codeword)| codeword as u64).collect();
        let rare_from = frequent.iter().filter(|frequent| **frequent).count();
        let mut recoding = vec![NONE; (2 * lids.len()).next_power_of_two()];
        for (combination, lids) in lids.iter().enumerate() {
            let free = probes(*lids, recoding.len()).find(|&place| recoding[place] == NONE);
            recoding[free.expect("half of the places stay empty")] = combination as u32;
        }
        Self { lengths, canonical, lids, codewords, rare_from, recoding }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lids) + size_of_val(&*self.codewords) + size_of_val(&*self.recoding)
    }

    pub fn encode(&self, bucket: &Bucket) -> u64 {
        let slots = bucket.slots();
        let lids = packed(slots.iter().map(|slot| slot.lid));
        let found = probes(lids, self.recoding.len()).map(|place| self.recoding[place] as usize);
        let combination = found.into_iter().find(|&found| self.lids[found] == lids).expect("a combination of the tree");
        let codeword = self.codewords[combination];
        if combination < self.rare_from { codeword | self.lengths.fingerprints(slots) } else { codeword }
    }

    fn combination(&self, bits: u64) -> usize {
        self.canonical.number(bits.into())
    }

    pub fn decode(&self, bits: u64) -> Slots {
        self.lengths.slots(self.lids[self.combination(bits)], bits)
    }

    pub fn matches(&self, bits: u64, key: Fingerprint) -> u32 {
        self.lengths.matches(self.lids[self.combination(bits)], bits, key)
    }
}

fn combinations(left: usize, least: u16, runs: u16, so_far: &mut Vec<u16>, all: &mut Vec<u64>) {
    if left == 0 {
        all.push(packed(so_far.iter().copied()));
        return;
    }
    for lid in least..runs {
        so_far.push(lid);
        combinations(left - 1, lid, runs, so_far, all);
        so_far.pop();
    }
}

fn probes(lids: u64, places: usize) -> impl Iterator<Item = usize> {
    let first = (lids.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - places.trailing_zeros())) as usize;
    (0..places).map(move |step| (first + step) & (places - 1))
}

/// The codewords of [`Tables`] in a Huffman tree. Rare buckets are not in it.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    tables: &'a Tables,
    /// The children of each node, by the next bit. A leaf has the highest bit set.
    nodes: Vec<[u32; 2]>,
}

const LEAF: u32 = 1 << 31;

impl<'a> Walk<'a> {
    pub fn new(tables: &'a Tables) -> Self {
        let mut nodes = vec![[NONE; 2]];
        for combination in 0..tables.rare_from {
            let codeword = tables.codewords[combination];
            let length = BUCKET_BITS - tables.lengths.sum(tables.lids[combination]);
            let mut node = 0;
            for place in 1..=length {
                let bit = (codeword >> (BUCKET_BITS - place) & 1) as usize;
                if place == length {
                    nodes[node][bit] = LEAF | combination as u32;
                } else if nodes[node][bit] == NONE {
                    nodes[node][bit] = nodes.len() as u32;
                    node = nodes.len();
                    nodes.push([NONE; 2]);
                } else {
                    node = nodes[node][bit] as usize;
                }
            }
        }
        Self { tables, nodes }
    }

    /// With those of the tables, which encoding needs.
    pub fn memory_bytes(&self) -> usize {
        self.tables.memory_bytes() + size_of_val(&*self.nodes)
    }

    fn combination(&self, bits: u64) -> usize {
        let (mut node, mut left) = (0, bits);
        loop {
            let next = self.nodes[node][(left >> 63) as usize];
            if next == NONE {
                return self.tables.combination(bits);
            }
            if next & LEAF != 0 {
                return (next & !LEAF) as usize;
            }
            (node, left) = (next as usize, left << 1);
        }
    }

    pub fn decode(&self, bits: u64) -> Slots {
        self.tables.lengths.slots(self.tables.lids[self.combination(bits)], bits)
    }

    pub fn matches(&self, bits: u64, key: Fingerprint) -> u32 {
        self.tables.lengths.matches(self.tables.lids[self.combination(bits)], bits, key)
    }
}

/// Bits of a left-justified codeword of a permutation.
const PERMUTATION_BITS: u32 = 127;

/// Huffman's code of permutations.
#[derive(Clone, Debug)]
pub struct Permutations {
    lengths: Lengths,
    runs: usize,
    canonical: Canonical,
    /// The codeword of each permutation, left-justified, and permutations in their order.
    codewords: Vec<u128>,
    order: Vec<u32>,
}

impl Permutations {
    /// `None` if a codeword has more than 127 bits. The slots of a bucket may be in any order.
    pub fn new(tree: &Tree, code: &Code, distribution: &Distribution) -> Option<Self> {
        let own = distribution.probabilities();
        let mut probabilities = vec![1.0];
        for _ in 0..code.slots() {
            probabilities = probabilities.iter().flat_map(|so_far| own.iter().map(move |own| so_far * own)).collect();
        }
        let (canonical, all) = Canonical::new(&huffman::symbol_lengths(&probabilities), PERMUTATION_BITS)?;
        let mut codewords = vec![0; all.len()];
        all.iter().for_each(|&(symbol, codeword)| codewords[symbol as usize] = codeword);
        let order = all.into_iter().map(|(symbol, _)| symbol).collect();
        Some(Self { lengths: Lengths::new(tree, code), runs: own.len(), canonical, codewords, order })
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.codewords) + size_of_val(&*self.order)
    }

    /// The codeword, and the fingerprints.
    pub fn encode(&self, slots: &[BucketSlot]) -> (u128, u64) {
        let symbol = slots.iter().fold(0, |symbol, slot| symbol * self.runs + usize::from(slot.lid));
        (self.codewords[symbol], self.lengths.fingerprints(slots))
    }

    fn lids(&self, codeword: u128) -> u64 {
        let mut symbol = self.order[self.canonical.number(codeword)] as usize;
        let mut lids = 0;
        for _ in 0..self.lengths.slots {
            lids = lids << LID_BITS | (symbol % self.runs) as u64;
            symbol /= self.runs;
        }
        lids
    }

    pub fn decode(&self, (codeword, fingerprints): (u128, u64)) -> Slots {
        self.lengths.slots(self.lids(codeword), fingerprints)
    }

    pub fn matches(&self, (codeword, fingerprints): (u128, u64), key: Fingerprint) -> u32 {
        self.lengths.matches(self.lids(codeword), fingerprints, key)
    }
}

/// The arithmetic coder.
pub struct Entropy {
    lengths: Lengths,
    coder: Coder,
}

impl Entropy {
    pub fn new(tree: &Tree, code: &Code, distribution: &Distribution) -> Self {
        Self { lengths: Lengths::new(tree, code), coder: Coder::new(distribution) }
    }

    pub fn memory_bytes(&self) -> usize {
        self.coder.memory_bytes()
    }

    /// The code, and the fingerprints.
    pub fn encode(&self, slots: &[BucketSlot]) -> (Bits, u64) {
        let mut lids = [0; SLOTS_MAX];
        lids.iter_mut().zip(slots).for_each(|(lid, slot)| *lid = slot.lid);
        (self.coder.encode(&lids[..slots.len()]), self.lengths.fingerprints(slots))
    }

    fn lids(&self, bits: &Bits) -> u64 {
        let mut lids = [0; SLOTS_MAX];
        self.coder.decode(bits, &mut lids[..self.lengths.slots]);
        packed(lids.into_iter())
    }

    pub fn decode(&self, (bits, fingerprints): &(Bits, u64)) -> Slots {
        self.lengths.slots(self.lids(bits), *fingerprints)
    }

    pub fn matches(&self, (bits, fingerprints): &(Bits, u64), key: Fingerprint) -> u32 {
        self.lengths.matches(self.lids(bits), *fingerprints, key)
    }
}

#[cfg(test)]
mod tests {
    use tamarack_filter::Digest;
    use tamarack_filter::chucky::Encoded;

    use super::*;
    use crate::tree::random_bucket;

    /// All codes give the slots back, and match the same keys as ours. Codewords of the tables are
    /// as long as ours.
    #[test]
    fn buckets_come_back() {
        let mut seed = 0;
        let mut random = || {
            seed += 1;
            common::numbers::mix(seed)
        };
        for (tree, slots) in [
            (Tree::of_paper(5.0, 4, 1, 3), 4),
            (Tree::of_paper(2.0, 1, 1, 6), 6),
            (Tree::of_paper(10.0, 9, 9, 2), 4),
            (Tree::of_paper(10.0, 1, 1, 4), 7),
        ] {
            let (code, distribution) = (tree.code(slots).expect("it fits"), Distribution::of_slots(&tree, slots));
            let tables = Tables::new(&tree, &code);
            let walk = Walk::new(&tables);
            let permutations = Permutations::new(&tree, &code, &distribution).expect("codewords are short");
            let entropy = Entropy::new(&tree, &code, &distribution);
            let mut frequent = 0;
            for _ in 0..500 {
                let bucket = random_bucket(&tree, &code, &mut random);
                let own = bucket.slots();
                let Encoded::Frequent(bits) = code.encode(&bucket) else {
                    assert_eq!(tables.combination(tables.encode(&bucket)), walk.combination(tables.encode(&bucket)));
                    continue;
                };
                frequent += 1;
                let twin = tables.encode(&bucket);
                assert_eq!(tables.decode(twin)[..slots], *own);
                assert_eq!(walk.decode(twin)[..slots], *own);
                let lids = tables.lids[tables.combination(twin)];
                assert_eq!(packed(own.iter().map(|slot| slot.lid)), lids);
                let mut turned = own.to_vec();
                turned.rotate_left(1);
                let permuted = permutations.encode(&turned);
                assert_eq!(permutations.decode(permuted)[..slots], turned);
                let coded = entropy.encode(own);
                assert_eq!(entropy.decode(&coded)[..slots], *own);
                for _ in 0..4 {
                    let key = code.fingerprint(Digest::from_stored(random()));
                    let expected = code.matches(bits, key).expect("not rare").count() as u32;
                    assert_eq!(tables.matches(twin, key), expected);
                    assert_eq!(walk.matches(twin, key), expected);
                    assert_eq!(permutations.matches(permuted, key), expected);
                    assert_eq!(entropy.matches(&coded, key), expected);
                }
            }
            assert!(frequent > 490, "{frequent} of 500 buckets are frequent");
        }
    }
}
