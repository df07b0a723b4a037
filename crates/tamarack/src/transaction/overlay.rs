//! [`Overlay`]: the writes of a transaction that are not committed yet, and its savepoints.
//!
//! A range delete removes what was written to its keys, and hides what others have written to them.
//! So in the batch all range deletes come first.
//!
//! Of several puts and deletes of a key the last one counts; merge operands pile up on it, or on
//! what others have written if there is none. While there are savepoints, each write remembers what
//! the overlay had for its key before; a rollback takes these back, newest first.
//!
//! ```text
//!   writes   a → 1   b → 2   (savepoint)   a → 3   b deleted
//!   undo                                   a → 1   b → 2      ◄── rollback, from the end
//! ```
//!
//! Tests: random writes and rollbacks against copies of a map, here.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

use crate::entry::raw_bytes;
use crate::error::Result;
use crate::format::key_range::{Key, KeyRange};
use crate::memory::Charge;
use crate::operator::Merging;
use crate::write::Batch;

/// What a transaction has written to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct OwnWrite {
    /// What its last put or delete left.
    pub(super) base: OwnBase,
    /// The operands that it has merged since, old to new.
    pub(super) operands: Vec<Key>,
}

/// What a transaction has put in the place of what others have written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OwnBase {
    /// A value.
    Value(Key),
    /// No value: the key was deleted.
    Nothing,
    /// What others have written: there are operands only.
    Others,
}

impl OwnWrite {
    /// A put, or a delete.
    fn of(value: Option<&[u8]>) -> Self {
        let base = value.map_or(OwnBase::Nothing, |value| OwnBase::Value(Key::from(value)));
        Self { base, operands: Vec::new() }
    }

    /// Returns true if the value depends on what others have written.
    pub(super) fn needs_others(&self) -> bool {
        self.base == OwnBase::Others
    }

    /// The value, where others have written `others`, or nothing.
    ///
    /// # Errors
    /// [`Error::Merge`](crate::Error::Merge) if operands cannot be merged.
    pub(super) fn value(&self, merging: &Merging, key: &[u8], others: Option<&[u8]>) -> Result<Option<Arc<[u8]>>> {
        let base = match &self.base {
            OwnBase::Value(value) if self.operands.is_empty() => return Ok(Some(value.clone())),
            OwnBase::Value(value) => Some(&value[..]),
            OwnBase::Nothing => None,
            OwnBase::Others => others,
        };
        if self.operands.is_empty() {
            return Ok(None);
        }
        let operands: Vec<&[u8]> = self.operands.iter().map(|operand| &operand[..]).collect();
        Ok(merging.value(key, base, &operands)?.map(Arc::from))
    }

    /// The entries that it becomes in a batch.
    fn entries(&self) -> usize {
        usize::from(!self.needs_others()) + self.operands.len()
    }

    /// The bytes of value and operands.
    fn value_bytes(&self) -> usize {
        let base_bytes = match &self.base {
            OwnBase::Value(value) => value.len(),
            OwnBase::Nothing | OwnBase::Others => 0,
        };
        base_bytes + self.operands.iter().map(|operand| operand.len()).sum::<usize>()
    }

    /// The memory that it is charged for, with its key.
    fn charged_bytes(&self, key: &[u8]) -> usize {
        WRITE_BYTES + key.len() + self.value_bytes() + self.operands.len() * OPERAND_BYTES
    }
}

/// How a write is taken back.
#[derive(Debug)]
enum Undo {
    /// The key gets what it had.
    Restore(Option<OwnWrite>),
    /// The key loses its last operand.
    PopOperand,
    /// The deleted range that begins with the key is in pieces again, which are still charged:
    /// those that a range delete has joined.
    Split(Vec<DeletedRange>),
}

/// A range of keys that a transaction has deleted: its first key, and its end.
type DeletedRange = (Key, Option<Key>);

/// The writes of a transaction. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    writes: BTreeMap<Key, OwnWrite>,
    /// What others have written to keys in these is hidden. They are disjoint, by their first keys,
    /// with their ends.
    deleted: BTreeMap<Key, Option<Key>>,
    /// How each write since the first savepoint is taken back.
    undo: Vec<(Key, Undo)>,
    /// The numbers of the savepoints, ascending, with the length of `undo` at each.
    savepoints: Vec<(u64, usize)>,
    /// Savepoints that were ever made.
    made: u64,
    charge: Charge,
}

/// The memory of a write besides its bytes: its share of a node, and two allocations.
const WRITE_BYTES: usize = 96;

/// The memory of an operand besides its bytes.
const OPERAND_BYTES: usize = 32;

impl Overlay {
    /// Creates an empty overlay whose memory is charged to `charge`.
    pub(super) fn new(charge: Charge) -> Self {
        Self { charge, ..Self::default() }
    }

    /// Returns true if there is no write.
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deleted.is_empty()
    }

    /// Returns the number of entries that the batch of all writes will have.
    pub(super) fn len(&self) -> usize {
        self.deleted.len() + self.writes.values().map(OwnWrite::entries).sum::<usize>()
    }

    /// Returns the raw bytes that the batch of all writes will have.
    pub(super) fn raw_bytes(&self) -> u64 {
        let bytes = |(key, write): (&Key, &OwnWrite)| {
            raw_bytes(key.len(), 0) * write.entries() as u64 + write.value_bytes() as u64
        };
        let of_range = |(from, to): (&Key, &Option<Key>)| raw_bytes(from.len(), to.as_ref().map_or(0, |to| to.len()));
        self.writes.iter().map(bytes).sum::<u64>() + self.deleted.iter().map(of_range).sum::<u64>()
    }

    /// Returns the deleted range that has `key`, if there is one.
    pub(super) fn deleted_range(&self, key: &[u8]) -> Option<(&Key, &Option<Key>)> {
        let before = self.deleted.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.filter(|(_, to)| to.as_deref().is_none_or(|to| key < to))
    }

    /// Returns true if a range was deleted.
    pub(super) fn has_deleted_ranges(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Deletes a range that is not empty: from a key to an end, if it has one.
    pub(super) fn delete_range(&mut self, from: Key, to: Option<Key>) {
        let range = KeyRange { from: Some(from.clone()), to: to.clone() };
        let hidden: Vec<Key> = self.range(&range).map(|(key, _)| key.clone()).collect();
        let has_savepoints = !self.savepoints.is_empty();
        for key in hidden {
            let before = self.writes.remove(&key).expect("it was there just now");
            if has_savepoints {
                self.undo.push((key, Undo::Restore(Some(before))));
            } else {
                self.discharge(&key, &before);
            }
        }
        let (from, joined) = self.join_deleted(from, to);
        if has_savepoints {
            self.undo.push((from, Undo::Split(joined)));
        } else {
            joined.iter().for_each(|range| self.discharge_range(range));
        }
    }

    /// Adds a deleted range, joined with those that it overlaps or touches. Returns its first key,
    /// and the others, which are still charged.
    fn join_deleted(&mut self, mut from: Key, mut to: Option<Key>) -> (Key, Vec<DeletedRange>) {
        let later = |one: Option<Key>, other: Option<Key>| one.zip(other).map(|(one, other)| one.max(other));
        let before = self.deleted.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*from))).next_back();
        if let Some((begin, end)) = before
            && end.as_ref().is_none_or(|end| *end >= from)
        {
            from = begin.clone();
        }
        let mut joined = Vec::new();
        loop {
            let end = to.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let next = self.deleted.range::<[u8], _>((Bound::Included(&*from), end)).next();
            let Some((begin, end)) = next.map(|(begin, end)| (begin.clone(), end.clone())) else { break };
            to = later(to, end.clone());
            self.deleted.remove(&begin);
            joined.push((begin, end));
        }
        self.charge.grow(range_bytes(&from, to.as_ref()));
        self.deleted.insert(from.clone(), to);
        (from, joined)
    }

    /// Returns what was written to `key`, if anything was.
    pub(super) fn get(&self, key: &[u8]) -> Option<&OwnWrite> {
        self.writes.get(key)
    }

    /// Returns the writes to keys in `range`.
    pub(super) fn range(&self, range: &KeyRange) -> Range<'_, Key, OwnWrite> {
        if range.is_empty() { Range::default() } else { self.writes.range::<[u8], _>(range.bounds()) }
    }

    /// Sets a key to a value, or deletes it.
    pub(super) fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let (key, write) = (Key::from(key), OwnWrite::of(value));
        self.charge.grow(write.charged_bytes(&key));
        let before = self.writes.insert(key.clone(), write);
        if !self.savepoints.is_empty() {
            self.undo.push((key, Undo::Restore(before)));
        } else if let Some(before) = before {
            self.discharge(&key, &before);
        }
    }

    /// Adds an operand to what a key has.
    pub(super) fn merge(&mut self, key: &[u8], operand: &[u8]) {
        let operand = Key::from(operand);
        let undo = match self.writes.get_mut(key) {
            Some(write) => {
                self.charge.grow(OPERAND_BYTES + operand.len());
                write.operands.push(operand);
                Undo::PopOperand
            }
            None => {
                let is_deleted = self.deleted_range(key).is_some();
                let base = if is_deleted { OwnBase::Nothing } else { OwnBase::Others };
                let write = OwnWrite { base, operands: vec![operand] };
                self.charge.grow(write.charged_bytes(key));
                self.writes.insert(Key::from(key), write);
                Undo::Restore(None)
            }
        };
        if !self.savepoints.is_empty() {
            self.undo.push((Key::from(key), undo));
        }
    }

    /// Makes a savepoint, and returns its number.
    pub(super) fn savepoint(&mut self) -> u64 {
        self.made += 1;
        self.savepoints.push((self.made, self.undo.len()));
        self.made
    }

    /// Takes all writes since a savepoint back. It stays, later ones go. Returns false if there is
    /// no such savepoint.
    pub(super) fn rollback_to(&mut self, savepoint: u64) -> bool {
        let Ok(at) = self.savepoints.binary_search_by_key(&savepoint, |(number, _)| *number) else { return false };
        self.savepoints.truncate(at + 1);
        for (key, undo) in self.undo.split_off(self.savepoints[at].1).into_iter().rev() {
            let undone = match undo {
                Undo::Split(pieces) => {
                    let range = self.deleted.remove_entry(&key).expect("it was deleted");
                    self.discharge_range(&range);
                    self.deleted.extend(pieces);
                    continue;
                }
                Undo::Restore(Some(before)) => self.writes.insert(key.clone(), before),
                Undo::Restore(None) => self.writes.remove(&key),
                Undo::PopOperand => {
                    let operand = self.writes.get_mut(&key).and_then(|write| write.operands.pop());
                    let bytes = OPERAND_BYTES + operand.expect("it was merged").len();
                    self.charge.set(self.charge.bytes() as usize - bytes);
                    continue;
                }
            };
            // A range delete may have taken it away.
            undone.iter().for_each(|undone| self.discharge(&key, undone));
        }
        true
    }

    /// Returns all writes as a batch.
    pub(super) fn to_batch(&self) -> Batch {
        let mut batch = Batch::new();
        for (from, to) in &self.deleted {
            batch.delete_keys(&KeyRange { from: Some(from.clone()), to: to.clone() });
        }
        for (key, write) in &self.writes {
            match &write.base {
                OwnBase::Value(value) => {
                    batch.put(key, value);
                }
                OwnBase::Nothing => {
                    batch.delete(key);
                }
                OwnBase::Others => {}
            }
            for operand in &write.operands {
                batch.merge(key, operand);
            }
        }
        batch
    }

    fn discharge(&mut self, key: &Key, write: &OwnWrite) {
        self.charge.set(self.charge.bytes() as usize - write.charged_bytes(key));
    }

    fn discharge_range(&mut self, (from, to): &DeletedRange) {
        self.charge.set(self.charge.bytes() as usize - range_bytes(from, to.as_ref()));
    }
}

/// The memory that a deleted range is charged for.
fn range_bytes(from: &Key, to: Option<&Key>) -> usize {
    WRITE_BYTES + from.len() + to.map_or(0, |to| to.len())
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    /// What is written to each key: the base (`None`: others'; `Some(None)`: deleted), and
    /// operands.
    type Written = BTreeMap<Vec<u8>, (Option<Option<Vec<u8>>>, Vec<Vec<u8>>)>;

    fn written(write: &OwnWrite) -> (Option<Option<Vec<u8>>>, Vec<Vec<u8>>) {
        let base = match &write.base {
            OwnBase::Value(value) => Some(Some(value.to_vec())),
            OwnBase::Nothing => Some(None),
            OwnBase::Others => None,
        };
        (base, write.operands.iter().map(|operand| operand.to_vec()).collect())
    }

    /// What is to be charged while nothing is kept for savepoints.
    fn needed_bytes(overlay: &Overlay) -> usize {
        let writes = overlay.writes.iter().map(|(key, write)| write.charged_bytes(key)).sum::<usize>();
        let ranges = overlay.deleted.iter().map(|(from, to)| range_bytes(from, to.as_ref())).sum::<usize>();
        writes + ranges
    }

    /// After any writes and rollbacks the overlay has what a map has of which each savepoint keeps
    /// a copy.
    #[test]
    fn random_rollbacks_agree_with_copies() {
        let mut rollbacks = 0;
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let mut overlay = Overlay::default();
            let mut map = Written::new();
            let mut copies: Vec<(u64, Written)> = Vec::new();
            for _ in 0..random.below(60) {
                match random.below(10) {
                    0 => copies.push((overlay.savepoint(), map.clone())),
                    1 if !copies.is_empty() => {
                        let at = random.below(copies.len() as u64) as usize;
                        for (gone, _) in copies.drain(at + 1..) {
                            assert!(gone > 0);
                        }
                        assert!(overlay.rollback_to(copies[at].0), "seed {seed}");
                        map = copies[at].1.clone();
                        rollbacks += 1;
                        if at == 0 {
                            assert_eq!(overlay.charge.bytes() as usize, needed_bytes(&overlay), "seed {seed}");
                        }
                    }
                    2 => {
                        let unknown = 1 + random.below(20);
                        if copies.iter().all(|(number, _)| *number != unknown) {
                            assert!(!overlay.rollback_to(unknown), "seed {seed}");
                        }
                    }
                    _ => {
                        let key = random.bytes(1).iter().map(|byte| byte % 6).collect::<Vec<_>>();
                        if random.one_in(8) {
                            let to = (!random.one_in(4)).then(|| Key::from(&[key[0] + 1 + random.below(3) as u8][..]));
                            let range = KeyRange { from: Some(Key::from(&key[..])), to };
                            overlay.delete_range(Key::from(&key[..]), range.to.clone());
                            (0..6).filter(|key| range.contains(&[*key])).for_each(|key| {
                                map.insert(vec![key], (Some(None), Vec::new()));
                            });
                            continue;
                        }
                        let length = random.below(5);
                        if random.one_in(3) {
                            let operand = random.bytes(length);
                            overlay.merge(&key, &operand);
                            map.entry(key).or_default().1.push(operand);
                            continue;
                        }
                        let value = (!random.one_in(3)).then(|| random.bytes(length));
                        overlay.write(&key, value.as_deref());
                        map.insert(key, (Some(value), Vec::new()));
                    }
                }
                let mut found: Written =
                    overlay.writes.iter().map(|(key, write)| (key.to_vec(), written(write))).collect();
                for key in (0..6).filter(|key| overlay.deleted_range(&[*key]).is_some()) {
                    found.entry(vec![key]).or_insert((Some(None), Vec::new()));
                }
                assert_eq!(found, map, "seed {seed}");
            }
            if copies.is_empty() {
                assert_eq!(overlay.charge.bytes() as usize, needed_bytes(&overlay), "seed {seed}");
            }
            let batch = overlay.to_batch();
            assert_eq!((batch.len(), batch.raw_bytes()), (overlay.len(), overlay.raw_bytes()), "seed {seed}");
            let entries = |(base, operands): &(Option<_>, Vec<_>)| usize::from(base.is_some()) + operands.len();
            if !overlay.has_deleted_ranges() {
                assert_eq!(batch.len(), map.values().map(entries).sum::<usize>());
            }
        }
        assert!(rollbacks > 1000, "{rollbacks}");
    }
}
