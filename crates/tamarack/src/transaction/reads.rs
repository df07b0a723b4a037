//! [`TransactionReads`]: the keys and ranges that a transaction has read, against which its commit
//! is validated.
//!
//! A lookup reads its key, whether it has a value or not. A scan reads the range up to the last key
//! that it has returned, from either end: a key that another writer adds there, or takes away,
//! would have been returned, or not. While a scan is open its whole range counts as read, so that
//! also one that is never dropped is accounted for.
//!
//! # Invariants
//!
//! Finished ranges neither overlap nor touch, so few of them stay however many scans there were.
//! Nothing is removed until the transaction ends, also not by a rollback to a savepoint: what
//! follows may depend on what was read.
//!
//! # Tests
//!
//! Random ranges against a list of them, here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::error::shown_key;
use crate::format::key_range::{Key, KeyRange};
use crate::memory::Charge;
use crate::mistake::{self, Mistake};
use crate::write::ReadSet;

/// What a transaction has read. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct TransactionReads {
    keys: BTreeSet<Box<[u8]>>,
    /// Ranges by their lower bound, with their upper bound; `None` if they have none.
    ranges: BTreeMap<Key, Option<Key>>,
    /// The ranges of open scans.
    open: BTreeMap<u64, KeyRange>,
    scans: u64,
    charge: Charge,
}

/// The memory of a key or range besides its bytes: its share of a node, and two allocations.
const READ_BYTES: usize = 96;

impl TransactionReads {
    /// Creates an empty set whose memory is charged to `charge`.
    pub(super) fn new(charge: Charge) -> Self {
        Self { charge, ..Self::default() }
    }

    /// Adds a key that is looked up.
    pub(super) fn add_key(&mut self, key: &[u8]) {
        if !self.keys.contains(key) {
            self.keys.insert(key.into());
            self.charge.grow(READ_BYTES + key.len());
        }
    }

    /// Adds the range of a scan that begins; returns its number, for
    /// [`TransactionReads::end_scan`].
    pub(super) fn begin_scan(&mut self, range: &KeyRange) -> u64 {
        self.scans += 1;
        self.open.insert(self.scans, range.clone());
        self.scans
    }

    /// Replaces the range of a scan by the parts of it that were read.
    pub(super) fn end_scan(&mut self, scan: u64, parts: impl IntoIterator<Item = KeyRange>) {
        self.open.remove(&scan);
        parts.into_iter().for_each(|part| self.add_range(part));
    }

    /// Adds a range, and joins it with those that it overlaps or touches.
    fn add_range(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut from = range.from.unwrap_or_else(|| Key::from([]));
        let mut to = range.to;
        if let Some((before, end)) = self.at_or_before(&from)
            && end.as_ref().is_none_or(|end| *end >= from)
        {
            (from, to) = (before.clone(), later(to, end.clone()));
        }
        while let Some((next, end)) = self.within(&from, to.as_ref()) {
            to = later(to, end);
            self.ranges.remove(&next);
            self.charge.set(self.charge.bytes() as usize - range_bytes(&next));
        }
        self.charge.grow(range_bytes(&from));
        self.ranges.insert(from, to);
    }

    /// The last range that begins at or before `key`.
    fn at_or_before(&self, key: &[u8]) -> Option<(&Key, &Option<Key>)> {
        self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    /// The first range that begins from `from` to `to`, both included.
    fn within(&self, from: &[u8], to: Option<&Key>) -> Option<(Key, Option<Key>)> {
        let to = to.map_or(Bound::Unbounded, |to| Bound::Included(&**to));
        let next = self.ranges.range::<[u8], _>((Bound::Included(from), to)).next();
        next.map(|(next, end)| (next.clone(), end.clone()))
    }

    /// The range with `key` that was scanned.
    fn range_with(&self, key: &[u8]) -> Option<KeyRange> {
        let finished = self.at_or_before(key).filter(|(_, to)| to.as_deref().is_none_or(|to| key < to));
        let finished = finished.map(|(from, to)| KeyRange { from: Some(from.clone()), to: to.clone() });
        finished.or_else(|| self.open.values().find(|range| range.contains(key)).cloned())
    }
}

impl ReadSet for TransactionReads {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty() && self.open.is_empty()
    }

    fn contains(&self, key: &[u8]) -> bool {
        (self.keys.contains(key) && !mistake::is_planted(Mistake::KeysNotValidated))
            || (self.range_with(key).is_some() && !mistake::is_planted(Mistake::RangesNotValidated))
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        let has_key = || self.keys.range::<[u8], _>(range.bounds()).next().is_some();
        let from = range.from.as_deref().unwrap_or_default();
        let is_within = |other: &KeyRange| !range.is_before(other) && !other.is_before(range);
        let has_range = || {
            let begins_within = self.ranges.range::<[u8], _>(range.bounds()).next().is_some();
            begins_within || self.range_with(from).is_some() || self.open.values().any(is_within)
        };
        (has_key() && !mistake::is_planted(Mistake::KeysNotValidated))
            || (has_range() && !mistake::is_planted(Mistake::RangesNotValidated))
    }

    fn describe(&self, key: &[u8]) -> String {
        match self.range_with(key) {
            Some(range) if !self.keys.contains(key) => {
                let from = range.from.as_deref().map(shown_key).unwrap_or_default();
                let to = range.to.as_deref().map(shown_key).unwrap_or_default();
                format!("the key {} in the range {from}..{to}, which the transaction has scanned,", shown_key(key))
            }
            _ => format!("the key {}, which the transaction has read,", shown_key(key)),
        }
    }
}

/// The memory of a range, whose bounds are about as long.
fn range_bytes(from: &Key) -> usize {
    READ_BYTES + 2 * from.len()
}

/// The later one of two upper bounds.
fn later(one: Option<Key>, other: Option<Key>) -> Option<Key> {
    one.zip(other).map(|(one, other)| one.max(other))
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    /// Ranges that are joined contain what a list of them contains, and neither overlap nor touch.
    #[test]
    fn random_ranges_agree_with_a_list_of_them() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let mut reads = TransactionReads::default();
            let mut list: Vec<KeyRange> = Vec::new();
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let key = |random: &mut Random| {
                (0..random.below(3)).map(|_| *random.pick(&[0, b'a', b'b', b'c', 255])).collect::<Vec<u8>>()
            };
            for _ in 0..random.below(12) {
                let (from, to) = (key(&mut random), key(&mut random));
                let bound = |key: Vec<u8>, random: &mut Random| (!random.one_in(8)).then_some(key);
                let range =
                    KeyRange::new(bound(from, &mut random).as_deref(), bound(to.clone(), &mut random).as_deref());
                let scan = reads.begin_scan(&range);
                list.push(range.clone());
                match random.below(8) {
                    // It stays open.
                    0 => {}
                    _ => reads.end_scan(scan, [range]),
                }
                if random.one_in(3) {
                    reads.add_key(&to);
                    keys.push(to);
                }
            }
            let is_empty = keys.is_empty() && list.iter().all(KeyRange::is_empty);
            assert!(reads.is_empty() == is_empty || !reads.open.is_empty(), "seed {seed}: {list:?}");
            for _ in 0..40 {
                let key = key(&mut random);
                let expected = keys.contains(&key) || list.iter().any(|range| range.contains(&key));
                assert_eq!(reads.contains(&key), expected, "seed {seed}: {key:?} in {list:?}");
            }
            let ranges: Vec<_> = reads.ranges.iter().collect();
            for pair in ranges.windows(2) {
                assert!(pair[0].1.as_ref().is_some_and(|end| end < pair[1].0), "seed {seed}: {ranges:?}");
            }
            let bytes: usize = ranges.iter().map(|(from, _)| range_bytes(from)).sum();
            let of_keys: usize = reads.keys.iter().map(|key| READ_BYTES + key.len()).sum();
            assert_eq!(reads.charge.bytes() as usize, bytes + of_keys, "seed {seed}");
        }
    }

    /// Errors name the key and how it was read.
    #[test]
    fn reads_are_described() {
        let mut reads = TransactionReads::default();
        reads.add_key(b"apple");
        let scan = reads.begin_scan(&KeyRange::new(Some(b"b"), Some(b"d")));
        reads.end_scan(scan, [KeyRange::new(Some(b"b"), Some(b"d"))]);
        assert_eq!(reads.describe(b"apple"), "the key \"apple\", which the transaction has read,");
        assert_eq!(
            reads.describe(b"cherry"),
            "the key \"cherry\" in the range \"b\"..\"d\", which the transaction has scanned,"
        );
        assert!(reads.describe(&[b'c'; 100]).contains("ccc\"…"));
    }
}
