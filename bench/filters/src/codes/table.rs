//! A full cuckoo table of a tree's entries, for one thread: the filter as lookups see it.
//!
//! Places of keys and fingerprints are those of the engine's filter. The table keeps plain slots,
//! with fingerprints of any length. With a code ([`Table::encode`]) it also keeps buckets of 64
//! bits: then lookups read only those, and the plain slots are their twin.

use std::collections::HashMap;

use tamarack_env::Random;
use tamarack_filter::Digest;
use tamarack_filter::chucky::{
    Bucket, BucketSlot, Code, Encoded, FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, Offsets, SLOTS_MAX, first_bucket,
    partition_of,
};
use tamarack_model::filter::chucky::load;

use crate::tree::Tree;

/// Moves of one insertion, at most, as in the engine.
const MOVES_MAX: usize = 500;

/// The digest of a random key.
pub fn digest(random: &Random) -> Digest {
    Digest::from_stored(random.next())
}

/// A number below `count`.
pub fn pick(random: &Random, count: usize) -> usize {
    random.below(count as u64) as usize
}

/// A key in a run.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub lid: u16,
    pub digest: Digest,
}

/// Lookups with the same first bucket and the same first bits of the fingerprint: one in
/// [`Table::cells`] of all lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookupCell {
    bucket: usize,
    /// Of the digest, before fingerprints of zeros are changed.
    first_bits: u16,
}

pub struct Table {
    slots: usize,
    /// The fingerprint's length of each LID.
    lengths: Vec<u32>,
    offsets: Offsets,
    plain: Vec<Bucket>,
    encoded: Option<EncodedBuckets>,
}

struct EncodedBuckets {
    code: Code,
    bits: Vec<u64>,
    /// The fingerprints of rare buckets.
    rare: HashMap<usize, [u16; SLOTS_MAX]>,
}

impl Table {
    /// A table of so many buckets that is full of a tree's entries, and these in random order. Each
    /// run has its share of them. `lengths` has the fingerprint's length of each class.
    pub fn filled(tree: &Tree, slots: usize, lengths: &[u32], buckets: usize, random: &Random) -> (Self, Vec<Entry>) {
        let mut table = Self {
            slots,
            lengths: (0..tree.runs()).map(|lid| lengths[tree.class_of(lid as u16)]).collect(),
            offsets: Offsets::new(buckets),
            plain: vec![Bucket::empty(slots); buckets],
            encoded: None,
        };
        let all = (buckets * slots) as f64 * load(slots);
        let (mut share, mut entries) = (0.0, Vec::<Entry>::with_capacity(all as usize + 1));
        for (lid, own) in (0..).zip(tree.shares_of_runs()) {
            share += own;
            let count = (share * all).round() as usize - entries.len();
            entries.extend((0..count).map(|_| Entry { lid, digest: digest(random) }));
        }
        for left in (1..entries.len()).rev() {
            entries.swap(left, pick(random, left + 1));
        }
        entries.iter().for_each(|entry| table.insert(*entry, random));
        (table, entries)
    }

    /// Keeps the buckets in 64 bits, too. The code has the fingerprint lengths of the table.
    pub fn encode(&mut self, code: &Code) {
        let encoded = EncodedBuckets { code: code.clone(), bits: vec![0; self.plain.len()], rare: HashMap::new() };
        self.encoded = Some(encoded);
        for at in 0..self.plain.len() {
            self.set(at, self.plain[at]);
        }
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.plain
    }

    /// Whether the fingerprints of a bucket are kept elsewhere.
    ///
    /// # Panics
    /// If the table has no code.
    pub fn is_rare(&self, at: usize) -> bool {
        let EncodedBuckets { code, bits, .. } = self.encoded.as_ref().expect("the table has a code");
        code.is_rare(bits[at])
    }

    /// The two buckets of a key.
    pub fn pair(&self, digest: Digest) -> [usize; 2] {
        let first = first_bucket(partition_of(digest, 1).1, self.plain.len());
        [first, self.offsets.other(first, self.fingerprint(digest) >> (FINGERPRINT_BITS_MAX - FINGERPRINT_BITS_MIN))]
    }

    /// The bucket that has an entry, and the other one of its two.
    pub fn own_and_other(&self, entry: Entry) -> [usize; 2] {
        let [first, second] = self.pair(entry.digest);
        let is_first = self.plain[first].slots().contains(&self.slot(entry.lid, entry.digest));
        if is_first { [first, second] } else { [second, first] }
    }

    /// The runs that a lookup of a key searches: a bit for each LID.
    pub fn candidates(&self, digest: Digest) -> u64 {
        let [first, second] = self.pair(digest);
        let in_first = self.candidates_in(first, digest);
        if first == second { in_first } else { in_first | self.candidates_in(second, digest) }
    }

    fn candidates_in(&self, at: usize, digest: Digest) -> u64 {
        let Some(EncodedBuckets { code, bits, rare }) = &self.encoded else {
            return self.candidates_among(&self.plain[at], digest);
        };
        match code.matches(bits[at], code.fingerprint(digest)) {
            Some(found) if found.is_empty() => 0,
            Some(found) => code.lids(bits[at], found).fold(0, |runs, lid| runs | 1 << lid),
            None => self.candidates_among(&code.decode_rare(bits[at], &rare[&at]), digest),
        }
    }

    fn candidates_among(&self, bucket: &Bucket, digest: Digest) -> u64 {
        let matching = bucket.slots().iter().filter(|slot| self.slot(slot.lid, digest) == **slot);
        matching.fold(0, |runs, slot| runs | 1 << slot.lid)
    }

    /// Calls `use_it` while the table has one more key, which takes the place of an entry or an
    /// empty slot with other first bits: all that may be taken for the key remains. `None` if there
    /// is no such slot.
    pub fn with_key<T>(&mut self, key: Entry, use_it: impl FnOnce(&Self) -> T) -> Option<T> {
        let slot = self.slot(key.lid, key.digest);
        let is_other =
            |&other: &BucketSlot| other == BucketSlot::EMPTY || self.first_bits(other) != self.first_bits(slot);
        let mut pair = self.pair(key.digest).into_iter();
        let (at, other) = pair.find_map(|at| Some((at, self.plain[at].slots().iter().copied().find(is_other)?)))?;
        let before = self.plain[at];
        let mut with_key = before;
        assert!(with_key.replace(other, slot), "{other:?} is in the bucket");
        self.set(at, with_key);
        let result = use_it(self);
        self.set(at, before);
        Some(result)
    }

    /// The number of cells that all lookups are in, equally often.
    pub fn cells(&self) -> usize {
        self.plain.len() << FINGERPRINT_BITS_MIN
    }

    /// The cells whose lookups may have false positives in one of these runs: an entry of one is in
    /// the two buckets and has the same first bits.
    pub fn cells_near(&self, is_of_these: impl Fn(u16) -> bool) -> Vec<LookupCell> {
        let mut cells = Vec::new();
        let of_digest: Vec<u16> = (0..1 << FINGERPRINT_BITS_MIN).map(|bits| self.first_bits_of_key(bits)).collect();
        for (at, bucket) in self.plain.iter().enumerate() {
            for slot in bucket.slots().iter().filter(|slot| **slot != BucketSlot::EMPTY && is_of_these(slot.lid)) {
                let own = self.first_bits(*slot);
                for bucket in [at, self.offsets.other(at, own)] {
                    let alike = (0..).zip(&of_digest).filter(|(_, bits)| **bits == own);
                    cells.extend(alike.map(|(first_bits, _)| LookupCell { bucket, first_bits }));
                }
            }
        }
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// A random lookup of a cell.
    pub fn digest_in(&self, cell: LookupCell, random: &Random) -> Digest {
        let buckets = self.plain.len() as u64;
        let start = |bucket: usize| ((bucket as u64) << 32).div_ceil(buckets);
        let (from, to) = (start(cell.bucket), start(cell.bucket + 1));
        loop {
            let high = from + random.below(to - from);
            let low = u64::from(cell.first_bits) << 27 | random.next() >> 37;
            let digest = Digest::from_stored(high << 32 | low);
            // The last ones of the interval may belong to the next bucket.
            if self.pair(digest)[0] == cell.bucket {
                return digest;
            }
        }
    }

    fn insert(&mut self, entry: Entry, random: &Random) {
        let mut slot = self.slot(entry.lid, entry.digest);
        let [first, second] = self.pair(entry.digest);
        let [in_first, in_second] = [first, second].map(|at| self.plain[at].empty_slots());
        let mut at = if in_first == in_second { [first, second][pick(random, 2)] } else { first };
        if in_second > in_first {
            at = second;
        }
        for _ in 0..MOVES_MAX {
            if self.plain[at].insert(slot) {
                return;
            }
            let evicted = self.plain[at].slots()[pick(random, self.slots)];
            assert!(self.plain[at].replace(evicted, slot), "{evicted:?} is in the bucket");
            (slot, at) = (evicted, self.offsets.other(at, self.first_bits(evicted)));
        }
        panic!("the table of {} buckets is full", self.plain.len());
    }

    fn set(&mut self, at: usize, bucket: Bucket) {
        self.plain[at] = bucket;
        let Some(EncodedBuckets { code, bits, rare }) = &mut self.encoded else { return };
        if code.is_rare(bits[at]) {
            rare.remove(&at);
        }
        bits[at] = match code.encode(&bucket) {
            Encoded::Frequent(bits) => bits,
            Encoded::Rare(bits, fingerprints) => {
                rare.insert(at, fingerprints);
                bits
            }
        };
    }

    fn slot(&self, lid: u16, digest: Digest) -> BucketSlot {
        let length = self.lengths[usize::from(lid)];
        BucketSlot { lid, fingerprint: self.fingerprint(digest) >> (FINGERPRINT_BITS_MAX - length) }
    }

    /// As in the engine, none is zeros for the largest run: empty slots have these.
    fn fingerprint(&self, digest: Digest) -> u16 {
        let bits = (digest.stored() >> 16) as u16;
        let last = 1 << (FINGERPRINT_BITS_MAX - self.lengths[0]);
        if bits < last { bits | last } else { bits }
    }

    fn first_bits(&self, slot: BucketSlot) -> u16 {
        slot.fingerprint >> (self.lengths[usize::from(slot.lid)] - FINGERPRINT_BITS_MIN)
    }

    /// The first bits of the fingerprint of a digest with these.
    fn first_bits_of_key(&self, of_digest: u64) -> u16 {
        self.fingerprint(Digest::from_stored(of_digest << 27)) >> (FINGERPRINT_BITS_MAX - FINGERPRINT_BITS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encoded buckets have what the plain slots have, and lookups of both give the same answers;
    /// no entry is missed. A key that is added is found, and leaves no trace.
    #[test]
    fn encoded_tables_answer_as_plain_ones() {
        let tree = Tree::of_paper(5.0, 4, 1, 6);
        for slots in 4..=7 {
            let code = tree.code(slots).expect("it fits");
            let lengths: Vec<u32> = code.fingerprint_bits().collect();
            let random = Random::new(slots as u64);
            let (mut table, entries) = Table::filled(&tree, slots, &lengths, 1021, &random);
            let digests: Vec<Digest> = (0..5_000).map(|_| digest(&random)).collect();
            let plain: Vec<u64> = digests.iter().map(|&digest| table.candidates(digest)).collect();
            table.encode(&code);
            let encoded: Vec<u64> = digests.iter().map(|&digest| table.candidates(digest)).collect();
            assert_eq!(plain, encoded);
            for Entry { lid, digest } in entries {
                assert!(table.candidates(digest) & 1 << lid != 0, "{slots} slots: a key is missed");
                assert_eq!(table.slot(lid, digest), code.slot(lid, code.fingerprint(digest)));
            }
            let before = table.encoded.as_ref().expect("there is a code").bits.clone();
            for (&digest, candidates) in digests.iter().zip(encoded) {
                let key = Entry { lid: pick(&random, tree.runs()) as u16, digest };
                let found = table.with_key(key, |table| table.candidates(digest));
                assert_eq!(found, Some(candidates | 1 << key.lid));
            }
            assert_eq!(table.encoded.expect("there is a code").bits, before);
        }
    }

    /// Only lookups of the cells near a run's entries have false positives there, and lookups that
    /// are drawn from a cell are in it. With fingerprints of five bits, those of zeros are changed.
    #[test]
    fn only_lookups_near_a_run_err() {
        let tree = Tree::of_paper(5.0, 4, 1, 3);
        for lengths in [[8, 7, 6], [5, 5, 5]] {
            let random = Random::new(1);
            let (table, _) = Table::filled(&tree, 4, &lengths, 509, &random);
            let cells = table.cells_near(|lid| lid > 4);
            let cell_of = |digest: Digest| LookupCell {
                bucket: table.pair(digest)[0],
                first_bits: (digest.stored() >> 27 & 31) as u16,
            };
            let mut erring = 0;
            for digest in (0..100_000).map(|_| digest(&random)) {
                if table.candidates(digest) >> 5 != 0 {
                    assert!(cells.binary_search(&cell_of(digest)).is_ok());
                    erring += 1;
                }
            }
            assert!(erring > 100);
            for &cell in &cells {
                assert_eq!(cell_of(table.digest_in(cell, &random)), cell);
            }
        }
    }
}
