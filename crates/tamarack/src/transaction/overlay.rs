//! [`Overlay`]: the writes of a transaction that are not committed yet, and its savepoints.
//!
//! Of several writes to a key the last one counts. While there are savepoints, each write remembers
//! what the overlay had for its key before; a rollback takes these back, newest first.
//!
//! ```text
//!   writes   a → 1   b → 2   (savepoint)   a → 3   b deleted
//!   undo                                   a → 1   b → 2      ◄── rollback, from the end
//! ```
//!
//! Tests: random writes and rollbacks against copies of a map, here.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

use crate::entry::raw_bytes;
use crate::format::key_range::{Key, KeyRange};
use crate::memory::Charge;
use crate::write::Batch;

/// What a transaction has written to a key: a value, or `None` if it has deleted it.
pub(super) type OwnWrite = Option<Key>;

/// The writes of a transaction. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    writes: BTreeMap<Key, OwnWrite>,
    /// What `writes` had for a key before each write since the first savepoint.
    undo: Vec<(Key, Option<OwnWrite>)>,
    /// The numbers of the savepoints, ascending, with the length of `undo` at each.
    savepoints: Vec<(u64, usize)>,
    /// Savepoints that were ever made.
    made: u64,
    charge: Charge,
}

/// The memory of a write besides its bytes: its share of a node, and two allocations.
const WRITE_BYTES: usize = 96;

impl Overlay {
    /// Creates an empty overlay whose memory is charged to `charge`.
    pub(super) fn new(charge: Charge) -> Self {
        Self { charge, ..Self::default() }
    }

    /// Returns true if there is no write.
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the number of keys that were written.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns the raw bytes that the batch of all writes will have.
    pub(super) fn raw_bytes(&self) -> u64 {
        let value_bytes = |write: &OwnWrite| write.as_ref().map_or(0, |value| value.len());
        self.writes.iter().map(|(key, write)| raw_bytes(key.len(), value_bytes(write))).sum()
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
        let key = Key::from(key);
        self.charge.grow(WRITE_BYTES + key.len() + value.map_or(0, <[u8]>::len));
        let before = self.writes.insert(key.clone(), value.map(Key::from));
        if !self.savepoints.is_empty() {
            self.undo.push((key, before));
        } else if let Some(before) = before {
            self.discharge(&key, &before);
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
        for (key, before) in self.undo.split_off(self.savepoints[at].1).into_iter().rev() {
            let undone = match before {
                Some(before) => self.writes.insert(key.clone(), before),
                None => self.writes.remove(&key),
            };
            self.discharge(&key, &undone.expect("it was written"));
        }
        true
    }

    /// Returns all writes as a batch.
    pub(super) fn to_batch(&self) -> Batch {
        let mut batch = Batch::new();
        for (key, value) in &self.writes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        batch
    }

    fn discharge(&mut self, key: &Key, write: &OwnWrite) {
        let bytes = WRITE_BYTES + key.len() + write.as_ref().map_or(0, |value| value.len());
        self.charge.set(self.charge.bytes() as usize - bytes);
    }
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    type Written = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

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
                    }
                    2 => {
                        let unknown = 1 + random.below(20);
                        if copies.iter().all(|(number, _)| *number != unknown) {
                            assert!(!overlay.rollback_to(unknown), "seed {seed}");
                        }
                    }
                    _ => {
                        let key = random.bytes(1).iter().map(|byte| byte % 6).collect::<Vec<_>>();
                        let length = random.below(5);
                        let value = (!random.one_in(3)).then(|| random.bytes(length));
                        overlay.write(&key, value.as_deref());
                        map.insert(key, value);
                    }
                }
                let found: Written = overlay
                    .writes
                    .iter()
                    .map(|(key, value)| (key.to_vec(), value.as_ref().map(|v| v.to_vec())))
                    .collect();
                assert_eq!(found, map, "seed {seed}");
            }
            if copies.is_empty() {
                let bytes = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
                    WRITE_BYTES + key.len() + value.as_ref().map_or(0, Vec::len)
                };
                assert_eq!(overlay.charge.bytes() as usize, map.iter().map(bytes).sum::<usize>(), "seed {seed}");
            }
            let batch = overlay.to_batch();
            assert_eq!((batch.len(), batch.raw_bytes()), (overlay.len(), overlay.raw_bytes()), "seed {seed}");
            assert_eq!(batch.len(), map.len());
        }
        assert!(rollbacks > 1000, "{rollbacks}");
    }
}
