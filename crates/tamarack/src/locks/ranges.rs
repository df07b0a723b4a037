//! [`LockedRanges`]: which transactions have locked which keys, as an ordered map of disjoint
//! ranges.
//!
//! A key is a range of one: from it to the next possible key. Where locks of several transactions
//! overlap, their ranges are cut into segments, so that each segment has one set of holders:
//!
//! ```text
//!   1 shared   [a ─────────────── m)
//!   2 shared          [d ─────────────── x)
//!   segments   [a──1──d───1, 2────m──2───x)
//! ```
//!
//! # Invariants
//!
//! Segments are disjoint, none is empty, and each has a holder. Holders of one segment are in the
//! order of their numbers; if one of them is exclusive, it is the only one. Neighbours that touch
//! have other holders: a long lock that shorter ones have cut is whole again once they are gone.
//!
//! # Costs
//!
//! A search of the map for each lock; a range takes a step for each segment in it.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::format::key_range::{Key, KeyRange};

/// How a key or range is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// For reading: others may have it as well.
    Shared,
    /// For writing: nobody else has it.
    Exclusive,
}

impl LockMode {
    /// Returns true if two transactions cannot have these locks on the same key.
    pub(super) fn conflicts_with(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// The number of a transaction that locks. A smaller one is older.
pub(super) type Owner = u64;

/// A range with the same holders everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
struct LockSegment {
    /// The end of the range, exclusive; without it, the largest key is included.
    to: Option<Key>,
    holders: Vec<(Owner, LockMode)>,
}

/// The locked ranges. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct LockedRanges {
    /// Segments by their first key.
    segments: BTreeMap<Key, LockSegment>,
    bytes: usize,
}

/// The memory of a segment besides keys and holders: its share of a node, and three allocations.
const SEGMENT_BYTES: usize = 144;

impl LockedRanges {
    /// The memory that the segments take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the other transactions whose locks keep `owner` from locking `range`, ascending.
    pub(super) fn conflicting(&self, owner: Owner, range: &KeyRange, mode: LockMode) -> Vec<Owner> {
        let holders = self.overlapping(range).flat_map(|(_, segment)| &segment.holders);
        let conflicting = holders.filter(|(other, others)| *other != owner && mode.conflicts_with(*others));
        let mut owners: Vec<Owner> = conflicting.map(|(other, _)| *other).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Returns the first key in `range` that another transaction has locked, so that `owner` cannot
    /// lock it.
    pub(super) fn first_conflict(&self, owner: Owner, range: &KeyRange, mode: LockMode) -> Option<Key> {
        let is_conflict = |holders: &[(Owner, LockMode)]| {
            holders.iter().any(|(other, others)| *other != owner && mode.conflicts_with(*others))
        };
        let (from, _) = self.overlapping(range).find(|(_, segment)| is_conflict(&segment.holders))?;
        Some(first_key(range).max(from.clone()))
    }

    /// Returns true if `owner` has locked all of `range`, in that mode or a stronger one.
    pub(super) fn covers(&self, owner: Owner, range: &KeyRange, mode: LockMode) -> bool {
        let mut covered_to = Some(first_key(range));
        for (from, segment) in self.overlapping(range) {
            let is_covered = segment.mode_of(owner).is_some_and(|own| own >= mode);
            if covered_to.as_ref().is_some_and(|to| to < from) || !is_covered {
                return false;
            }
            covered_to.clone_from(&segment.to);
        }
        match (covered_to, &range.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(covered_to), Some(to)) => covered_to >= *to,
        }
    }

    /// Locks `range`, which is not empty, for `owner`. A weaker lock of its own becomes stronger.
    ///
    /// # Panics
    /// If another transaction has a lock that conflicts.
    pub(super) fn lock(&mut self, owner: Owner, range: &KeyRange, mode: LockMode) {
        let conflicting = self.conflicting(owner, range, mode);
        assert!(conflicting.is_empty(), "{owner} locks {range:?} {mode:?} beside {conflicting:?}");
        let from = first_key(range);
        self.split_at(&from);
        range.to.iter().for_each(|to| self.split_at(to));
        let covered: Vec<(Key, Option<Key>)> =
            self.overlapping(range).map(|(from, segment)| (from.clone(), segment.to.clone())).collect();
        let mut at = Some(from);
        for (from, to) in covered {
            if let Some(gap) = at.take().filter(|at| *at < from) {
                self.insert(gap, LockSegment { to: Some(from.clone()), holders: vec![(owner, mode)] });
            }
            let (from, mut segment) = self.remove(&from).expect("it was there just now");
            segment.add(owner, mode);
            self.insert(from, segment);
            at = to;
        }
        if let Some(gap) = at.filter(|at| range.to.as_ref().is_none_or(|to| at < to)) {
            self.insert(gap, LockSegment { to: range.to.clone(), holders: vec![(owner, mode)] });
        }
        self.join_within(range);
    }

    /// Takes the locks of `owner` in `range` away, and all of any segment that overlaps it.
    pub(super) fn unlock(&mut self, owner: Owner, range: &KeyRange) {
        let touched: Vec<Key> = self
            .overlapping(range)
            .filter(|(_, segment)| segment.mode_of(owner).is_some())
            .map(|(from, _)| from.clone())
            .collect();
        for from in touched {
            let (from, mut segment) = self.remove(&from).expect("it was there just now");
            segment.holders.retain(|(other, _)| *other != owner);
            if !segment.holders.is_empty() {
                self.insert(from, segment);
            }
        }
        self.join_within(range);
    }

    /// The segments that overlap `range`, ascending.
    fn overlapping<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = (&'a Key, &'a LockSegment)> {
        let from = range.from.as_deref().unwrap_or_default();
        let before = self.segments.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(from))).next_back();
        let before = before.filter(|(_, segment)| segment.to.as_deref().is_none_or(|to| to > from));
        let to = range.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        before.into_iter().chain(self.segments.range::<[u8], _>((Bound::Included(from), to)))
    }

    /// Cuts the segment that has `key` within it, so that one begins there.
    fn split_at(&mut self, key: &Key) {
        let before = self.segments.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&**key))).next_back();
        let Some((from, segment)) = before else { return };
        if segment.to.as_ref().is_some_and(|to| to <= key) {
            return;
        }
        let from = from.clone();
        let (from, mut left) = self.remove(&from).expect("it was there just now");
        let right = left.clone();
        left.to = Some(key.clone());
        self.insert(from, left);
        self.insert(key.clone(), right);
    }

    /// Joins neighbours with the same holders, from the segment before `range` to the one after it.
    fn join_within(&mut self, range: &KeyRange) {
        let from = range.from.as_deref().unwrap_or_default();
        let before = self.segments.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(from))).next_back();
        let begin = before.map_or_else(|| Key::from([]), |(from, _)| from.clone());
        let to = range.to.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let keys: Vec<Key> =
            self.segments.range::<[u8], _>((Bound::Included(&*begin), to)).map(|(from, _)| from.clone()).collect();
        let mut keys = keys.into_iter();
        let Some(mut left) = keys.next() else { return };
        for right in keys {
            let (one, other) = (&self.segments[&left], &self.segments[&right]);
            if one.to.as_ref() == Some(&right) && one.holders == other.holders {
                let (from, mut joined) = self.remove(&left).expect("it is there");
                let (_, other) = self.remove(&right).expect("it is there");
                joined.to = other.to;
                self.insert(from, joined);
            } else {
                left = right;
            }
        }
    }

    fn insert(&mut self, from: Key, segment: LockSegment) {
        self.bytes += segment.bytes(&from);
        let before = self.segments.insert(from, segment);
        assert!(before.is_none(), "segments are disjoint: {before:?}");
    }

    fn remove(&mut self, from: &Key) -> Option<(Key, LockSegment)> {
        let (from, segment) = self.segments.remove_entry(from)?;
        self.bytes -= segment.bytes(&from);
        Some((from, segment))
    }
}

#[cfg(test)]
impl LockedRanges {
    /// The holders of `key`.
    pub(super) fn holders(&self, key: &[u8]) -> Vec<(Owner, LockMode)> {
        let range = KeyRange::within(key..=key);
        self.overlapping(&range).next().map(|(_, segment)| segment.holders.clone()).unwrap_or_default()
    }

    /// Checks the invariants of the module's documentation.
    pub(super) fn check(&self) {
        let bytes: usize = self.segments.iter().map(|(from, segment)| segment.bytes(from)).sum();
        assert_eq!(self.bytes, bytes);
        for (from, segment) in &self.segments {
            assert!(segment.to.as_ref().is_none_or(|to| from < to), "{self:?}");
            assert!(!segment.holders.is_empty() && segment.holders.is_sorted_by(|a, b| a.0 < b.0), "{self:?}");
            let is_exclusive = segment.holders.iter().any(|(_, mode)| *mode == LockMode::Exclusive);
            assert!(!is_exclusive || segment.holders.len() == 1, "{self:?}");
        }
        let segments: Vec<_> = self.segments.iter().collect();
        for pair in segments.windows(2) {
            let (end, next) = (pair[0].1.to.as_ref().expect("another one comes after it"), pair[1].0);
            assert!(end <= next && (end < next || pair[0].1.holders != pair[1].1.holders), "{self:?}");
        }
    }
}

impl LockSegment {
    fn mode_of(&self, owner: Owner) -> Option<LockMode> {
        self.holders.iter().find(|(other, _)| *other == owner).map(|(_, mode)| *mode)
    }

    fn add(&mut self, owner: Owner, mode: LockMode) {
        match self.holders.binary_search_by_key(&owner, |(other, _)| *other) {
            Ok(at) => self.holders[at].1 = self.holders[at].1.max(mode),
            Err(at) => self.holders.insert(at, (owner, mode)),
        }
    }

    /// The memory that it is charged for, with its first key.
    fn bytes(&self, from: &Key) -> usize {
        let keys = from.len() + self.to.as_ref().map_or(0, |to| to.len());
        SEGMENT_BYTES + keys + self.holders.len() * size_of::<(Owner, LockMode)>()
    }
}

/// The first key of a range.
fn first_key(range: &KeyRange) -> Key {
    range.from.clone().unwrap_or_else(|| Key::from([]))
}
