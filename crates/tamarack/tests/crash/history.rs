//! The expected contents: the commits in their order, and the entries after each.
//!
//! A recovered database says how many entries were ever written, or which sequence a run had that
//! was ingested since ([`tamarack::Stats::visible_sequence`]); a [`Timeline`] knows after which
//! commit that was, and a digest of everything that must be there then. A number in the midst of a
//! batch is a batch that was torn. The digest is a sum over all entries, so each commit changes it
//! by little, and a scan is compared with one addition per entry; only if it differs is the state
//! computed anew, to say how.
//!
//! Contents tell commits apart: each value is drawn from its commit's own number, and a commit that
//! is written again after a crash has the same keys and lengths, so that its record falls exactly
//! onto that of the lost one, but other values.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tamarack::{Batch, Db, Durability, Result};
use tamarack_env::Random;

/// Keys and values.
pub(crate) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// One write: a key, and its value or, for a delete, none.
#[derive(Clone, Debug)]
pub(crate) struct KeyChange {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    /// The end of a range delete, which begins at the key.
    pub(crate) to: Option<Vec<u8>>,
}

/// Writes that are committed together.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) changes: Vec<KeyChange>,
}

/// The commits up to some moment.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    commits: Vec<Arc<Commit>>,
    /// The contents after each number of commits: one more than there are commits.
    points: Vec<Point>,
}

/// The contents after a commit.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// Entries ever written, deletes included.
    written: u64,
    digest: u64,
}

impl Commit {
    /// What to do with keys, and the length of the value where one is put; `salt` decides the
    /// values.
    pub(crate) fn new(shape: impl IntoIterator<Item = (Vec<u8>, Option<usize>)>, salt: u64) -> Self {
        let random = Random::new(salt);
        let value = |bytes| (0..bytes).map(|_| random.next() as u8).collect();
        let changes = shape
            .into_iter()
            .map(|(key, value_bytes)| KeyChange { key, value: value_bytes.map(value), to: None })
            .collect();
        Self { changes }
    }

    /// The same after a range delete.
    pub(crate) fn after_range_delete(mut self, range: Range<Vec<u8>>) -> Self {
        self.changes.insert(0, KeyChange { key: range.start, value: None, to: Some(range.end) });
        self
    }

    /// The same keys and lengths with other values.
    pub(crate) fn again(&self, salt: u64) -> Self {
        let shape = self.changes.iter().map(|change| (change.key.clone(), change.value.as_ref().map(Vec::len)));
        let mut again = Self::new(shape, salt);
        again.changes.iter_mut().zip(&self.changes).for_each(|(again, change)| again.to.clone_from(&change.to));
        again
    }

    /// Writes it, in the plainest way that says what is wanted.
    pub(crate) fn write(&self, db: &Db, durability: Durability, default: Durability) -> Result<()> {
        match &self.changes[..] {
            [KeyChange { key, value: Some(value), .. }] if durability == default => db.put(key, value),
            [KeyChange { key, to: Some(to), .. }] if durability == default => db.delete_range(&key[..]..&to[..]),
            [KeyChange { key, .. }] if durability == default => db.delete(key),
            changes => {
                let mut batch = Batch::new();
                for change in changes {
                    match (&change.value, &change.to) {
                        (Some(value), _) => batch.put(&change.key, value),
                        (None, Some(to)) => batch.delete_range(&change.key[..]..&to[..]),
                        (None, None) => batch.delete(&change.key),
                    };
                }
                if durability == default { db.write(&batch) } else { db.write_with(&batch, durability) }
            }
        }
    }

    /// Does to `state` what it does to a database, and returns by how much the digest changes.
    pub(crate) fn apply(&self, state: &mut Entries) -> u64 {
        let mut change = 0u64;
        for KeyChange { key, value, to } in &self.changes {
            if let Some(to) = to {
                for (key, value) in state.range(key.clone()..to.clone()) {
                    change = change.wrapping_sub(digest(key, value));
                }
                state.retain(|other, _| other < key || to <= other);
                continue;
            }
            let before = match value {
                Some(value) => {
                    change = change.wrapping_add(digest(key, value));
                    state.insert(key.clone(), value.clone())
                }
                None => state.remove(key),
            };
            change = change.wrapping_sub(before.map_or(0, |before| digest(key, &before)));
        }
        change
    }
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self { commits: Vec::new(), points: vec![Point { written: 0, digest: 0 }] }
    }

    /// Returns the number of commits.
    pub(crate) fn len(&self) -> usize {
        self.commits.len()
    }

    pub(crate) fn commit(&self, index: usize) -> Option<&Arc<Commit>> {
        self.commits.get(index)
    }

    /// Appends a commit that changes the digest by so much.
    pub(crate) fn push(&mut self, commit: Arc<Commit>, change: u64) {
        let Point { written, digest } = self.points[self.commits.len()];
        self.points.push(Point { written: written + commit.changes.len() as u64, digest: digest.wrapping_add(change) });
        self.commits.push(commit);
    }

    /// Forgets all but the first `len` commits.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.commits.truncate(len);
        self.points.truncate(len + 1);
    }

    /// After how many commits so many entries had been written; `None` if that was in the midst of
    /// one, or never.
    pub(crate) fn position(&self, written: u64) -> Option<usize> {
        self.points.binary_search_by_key(&written, |point| point.written).ok()
    }

    /// Returns the digest of the contents after that many commits.
    pub(crate) fn digest(&self, position: usize) -> u64 {
        self.points[position].digest
    }

    /// Returns the contents after that many commits.
    pub(crate) fn state(&self, position: usize) -> Entries {
        let mut state = Entries::new();
        for commit in &self.commits[..position] {
            commit.apply(&mut state);
        }
        state
    }
}

/// The digest of a whole state.
pub(crate) fn digest_all(state: &Entries) -> u64 {
    state.iter().fold(0, |sum, (key, value)| sum.wrapping_add(digest(key, value)))
}

/// Describes the difference between actual and expected contents.
pub(crate) fn difference(expected: &Entries, found: &Entries) -> String {
    let show = |key: &[u8], value: Option<&Vec<u8>>| match value {
        None => format!("{} absent", key.escape_ascii()),
        Some(value) => {
            format!("{} = {} bytes, {:02x?}", key.escape_ascii(), value.len(), &value[..value.len().min(6)])
        }
    };
    let keys = expected.keys().chain(found.keys().filter(|key| !expected.contains_key(*key)));
    let differing = keys.filter(|key| expected.get(*key) != found.get(*key));
    let lines: Vec<String> = differing
        .take(5)
        .map(|key| format!("expected {}, found {}", show(key, expected.get(key)), show(key, found.get(key))))
        .collect();
    lines.join("; ")
}

/// Any two entries that matter here differ in theirs: FNV-1a over lengths and bytes, mixed at the
/// end so that sums do not cancel.
fn digest(key: &[u8], value: &[u8]) -> u64 {
    let fnv = |hash: u64, bytes: &[u8]| {
        bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let hash = fnv(fnv(0xcbf2_9ce4_8422_2325 ^ key.len() as u64, key), value);
    (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (hash << 7)
}
