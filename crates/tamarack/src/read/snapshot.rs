//! [`Snapshot`]: the database as it was at one moment, for as long as one likes. [`Scan`]: the iterator over it.
//!
//! A snapshot is a registered sequence and nothing else; each read through it pins the state of its
//! own moment. A scan holds a sequence too, and the state it began on.

use std::fmt;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

use crate::entry::{Query, Sequence};
use crate::error::{Error, Result};
use crate::read::range::KeyRange;
use crate::read::scan::{self, Origin};
use crate::read::state_source::StateSource;
use crate::read::value::Value;
use crate::read::{get, multi_get};
use crate::tree::state::{ScanPin, Tree};

/// The database as it was when the snapshot was taken. Holds space while it lives: nothing it can
/// see is dropped.
#[derive(Clone)]
pub struct Snapshot {
    held: Held,
    dir: Arc<Path>,
}

impl Snapshot {
    /// What is visible now.
    pub(crate) fn now(tree: &Arc<Tree>, dir: &Path) -> Self {
        Self { held: Held::now(tree), dir: dir.into() }
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// [`crate::Error::Io`] or [`crate::Error::Corruption`] if a table cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let query = Query::new(key.as_ref(), self.held.sequence);
        let Held { tree, .. } = &self.held;
        let found = get::get(&tree.pin(), &self.dir, query, &tree.lookups);
        Ok(found.inspect_err(|error| tree.database.events.noticed(error))?.and_then(|found| found.value))
    }

    /// True if `key` had a value.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let query = Query::new(key.as_ref(), self.held.sequence);
        let Held { tree, .. } = &self.held;
        let found = get::contains(&tree.pin(), &self.dir, query, &tree.lookups);
        found.inspect_err(|error| tree.database.events.noticed(error))
    }

    /// The values that `keys` had: see [`crate::Db::multi_get`].
    ///
    /// # Errors
    /// As [`Snapshot::get`]; an error of one lookup is that of all.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let Held { tree, sequence } = &self.held;
        let queries: Vec<_> = keys.iter().map(|key| Query::new(key.as_ref(), *sequence)).collect();
        let found = multi_get::multi_get(&tree.pin(), &self.dir, &queries, &tree.lookups);
        found.inspect_err(|error| tree.database.events.noticed(error))
    }

    /// The keys in `range` and their values, in the order of keys; from both ends. An item is an
    /// error where a table cannot be read, and the last one then.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.scan_range(KeyRange::new(range))
    }

    /// The keys that begin with `prefix`, and their values; otherwise as [`Snapshot::scan`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.scan_range(KeyRange::prefix(prefix.as_ref()))
    }

    fn scan_range(&self, range: KeyRange) -> Scan {
        let origin = PinnedState { state: self.held.tree.pin_scan(), held: self.held.clone() };
        Scan(scan::Scan::new(origin, self.held.sequence, range, self.dir.clone()))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.held.sequence.0).finish_non_exhaustive()
    }
}

/// Keys and values in a range, in the order of keys, as they were at one moment. Iterates from both
/// ends; after an error it is at its end.
///
/// As an iterator it gives away copies. [`Scan::next_lent`] and [`Scan::next_back_lent`] do the
/// same without copies, for who looks at each entry and goes on, or keeps few; a scan in memory is
/// about twice as fast so. All four may be mixed.
///
/// ```
/// # let db = tamarack::Options::new().expert(tamarack::AdvancedOptions::new().env(tamarack_env::MemoryEnv::new(1))).open("/lent")?;
/// # db.put("acorn", "3")?;
/// let mut longest = 0;
/// let mut scan = db.scan("a"..);
/// while let Some((_, value)) = scan.next_lent()? {
///     longest = longest.max(value.len());
/// }
/// # assert_eq!(longest, 1);
/// # Ok::<(), tamarack::Error>(())
/// ```
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan(scan::Scan<PinnedState>);

impl Scan {
    /// The next key and its value, lent until the next call; `None` at the end. Copies no value;
    /// allocates nothing after the first call, as long as what it reads is in the cache.
    ///
    /// # Errors
    /// [`crate::Error::Io`] or [`crate::Error::Corruption`] if a table cannot be read. The scan is
    /// at its end then.
    #[inline]
    pub fn next_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.next_lent()
    }

    /// As [`Scan::next_lent`], from the other end.
    ///
    /// # Errors
    /// As [`Scan::next_lent`].
    #[inline]
    pub fn next_back_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.next_back_lent()
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl std::iter::FusedIterator for Scan {}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

/// A registered sequence: flushes and merges keep what it can see until it is dropped.
struct Held {
    tree: Arc<Tree>,
    sequence: Sequence,
}

impl Held {
    fn now(tree: &Arc<Tree>) -> Self {
        Self { sequence: tree.database.sequences.acquire(), tree: tree.clone() }
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.tree.database.sequences.share(self.sequence);
        Self { tree: self.tree.clone(), sequence: self.sequence }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tree.database.sequences.release(self.sequence);
    }
}

/// What a scan reads from: a state that was pinned after its sequence was registered, so that it
/// has all that the sequence can see.
struct PinnedState {
    state: ScanPin,
    held: Held,
}

impl Origin for PinnedState {
    type Source = StateSource;

    fn open(&self, range: &KeyRange) -> Result<Self::Source> {
        Ok(StateSource::new(&self.state, range, &self.held.tree.lookups))
    }

    fn failed(&self, error: &Error) {
        self.held.tree.database.events.noticed(error);
    }
}
