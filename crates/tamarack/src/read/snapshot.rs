//! [`Snapshot`]: a consistent view of the database as of one sequence number. [`Scan`]: the
//! iterator over it.
//!
//! A snapshot is a registered sequence and nothing else: each read through it pins the current
//! state. A scan registers a sequence too, and pins the state of its first step until it ends or
//! rests (see [`crate::read::scan`]).

use std::fmt;
use std::sync::Arc;

use crate::database::Registration;
use crate::entry::{Query, Sequence};
use crate::error::{Error, Result};
use crate::format::key_range::{Key, KeyRange, key_after};
use crate::memory::{Account, Charge, MemoryPart};
use crate::range_tombstones::RangeTombstones;
use crate::read::bounds::{KeyBounds, range_within};
use crate::read::scan::{self, Origin};
use crate::read::state_source::StateSource;
use crate::read::value::Value;
use crate::read::{get, multi_get};
use crate::tree::state::{ScanPin, Tree};

/// A consistent view of the database as of the moment when it was taken. Retains space while it
/// lives: no version that it can see is dropped.
#[derive(Clone)]
pub struct Snapshot {
    registered: RegisteredSequence,
}

impl Snapshot {
    /// Takes a snapshot of what is visible now.
    pub(crate) fn now(tree: &Arc<Tree>) -> Self {
        Self { registered: RegisteredSequence::now(tree) }
    }

    /// The sequence up to which it sees everything.
    pub(crate) fn sequence(&self) -> Sequence {
        self.registered.sequence()
    }

    /// Returns the value that `key` had.
    ///
    /// # Errors
    /// [`crate::Error::Io`] or [`crate::Error::Corruption`] if a table cannot be read;
    /// [`crate::Error::Merge`] if the key has operands that cannot be merged.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let query = Query::new(key.as_ref(), self.registered.sequence());
        let RegisteredSequence { tree, .. } = &self.registered;
        let found = get::get(&tree.pin(), &tree.merging, query, &tree.lookups);
        Ok(found.inspect_err(|error| tree.database.events.noticed(error))?.and_then(|found| found.value))
    }

    /// Returns true if `key` had a value.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let query = Query::new(key.as_ref(), self.registered.sequence());
        let RegisteredSequence { tree, .. } = &self.registered;
        let found = get::contains(&tree.pin(), &tree.merging, query, &tree.lookups);
        found.inspect_err(|error| tree.database.events.noticed(error))
    }

    /// Returns the values that `keys` had: see [`crate::Db::multi_get`].
    ///
    /// # Errors
    /// As [`Snapshot::get`]; the first error of any lookup.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let (tree, sequence) = (&self.registered.tree, self.registered.sequence());
        let queries: Vec<_> = keys.iter().map(|key| Query::new(key.as_ref(), sequence)).collect();
        let found = multi_get::multi_get(&tree.pin(), &tree.merging, &queries, &tree.lookups);
        found.inspect_err(|error| tree.database.events.noticed(error))
    }

    /// Returns a double-ended iterator over the keys in `range` and their values, in the order of
    /// keys. If a table cannot be read, an item is that error, and the last one.
    pub fn scan(&self, range: impl KeyBounds) -> Scan {
        self.clone().into_scan(range_within(&range))
    }

    /// As [`Snapshot::scan`], over the keys that begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.clone().into_scan(KeyRange::with_prefix(prefix.as_ref()))
    }

    /// Returns an iterator over all entries: [`Snapshot::scan`] of `..`.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let snapshot = db.snapshot();
    /// db.put("oak", "9.80")?;
    /// assert_eq!((snapshot.iter().count(), db.iter().count()), (1, 2));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn iter(&self) -> Scan {
        self.scan(..)
    }

    /// Returns the first key and its value, or `None` if the database was empty.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let snapshot = db.snapshot();
    /// db.put("elm", "7.20")?;
    /// assert_eq!(snapshot.first_key_value()?, Some((b"maple".to_vec(), b"12.50".to_vec())));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().limit(1).next().transpose()
    }

    /// Returns the last key and its value, or `None` if the database was empty.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let snapshot = db.snapshot();
    /// db.put("oak", "9.80")?;
    /// assert_eq!(snapshot.last_key_value()?, Some((b"maple".to_vec(), b"12.50".to_vec())));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter().limit(1).next_back().transpose()
    }

    /// Returns true if no key had a value. Costs a scan to the first entry.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// let snapshot = db.snapshot();
    /// db.put("maple", "12.50")?;
    /// assert!(snapshot.is_empty()? && !db.is_empty()?);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter().limit(1).next_lent()?.is_none())
    }

    /// Returns the number of keys that had a value, exactly. **Scans all entries**:
    /// [`Db::approximate_len`](crate::Db::approximate_len) reads nothing.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let snapshot = db.snapshot();
    /// db.put("oak", "9.80")?;
    /// assert_eq!((snapshot.len()?, db.len()?), (1, 2));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn len(&self) -> Result<u64> {
        let (mut scan, mut count) = (self.iter(), 0);
        while scan.next_lent()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Makes the snapshot that of a scan.
    pub(crate) fn into_scan(self, range: KeyRange) -> Scan {
        let Self { registered } = self;
        let (sequence, merging) = (registered.sequence(), registered.tree.merging.clone());
        Scan(scan::Scan::new(
            ScanOrigin { pinned: Pinned::default(), registered, has_begun: false },
            sequence,
            range,
            merging,
        ))
    }
}

impl IntoIterator for &Snapshot {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Scan;

    fn into_iter(self) -> Scan {
        self.iter()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.registered.sequence().0).finish_non_exhaustive()
    }
}

/// Iterator over keys and values in a range, in the order of keys, as of one moment. Double-ended;
/// ends after an error.
///
/// The iterator returns copies. [`Scan::next_lent`] and [`Scan::next_back_lent`] lend keys and
/// values instead, which makes a scan in memory about twice as fast; use them if you keep few
/// entries. All four may be mixed.
///
/// ```
/// # let env = tamarack_env::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// # let db = options.open("/lent")?;
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
pub struct Scan(scan::Scan<ScanOrigin>);

impl Scan {
    /// Ends the scan after `entries` further entries (default: no limit), those from the front and
    /// from the back together. Of two limits the smaller one counts.
    ///
    /// The limit also bounds read-ahead, which [`Iterator::take`] cannot: of each sorted run, the
    /// first read has the blocks that its share of so many entries is likely to need, up to 128 KiB
    /// of all runs together, and most scans need no second one. Without a limit, a scan reads 8 or
    /// 16 KiB of each run at first, and then more and more ahead; of 16 entries of 1 KiB, that is
    /// two to four times as many bytes. Tombstones and old versions are not counted: where there
    /// are many, the reads grow until the limit is reached.
    ///
    /// Set the limit before the first entry is taken: a later one ends the scan as well, but does
    /// not change its read-ahead.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack_env::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/limited")?;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "")?;
    /// }
    /// let keys = db.scan("b"..).limit(2).map(|entry| Ok(entry?.0));
    /// assert_eq!(keys.collect::<tamarack::Result<Vec<_>>>()?, [b"b", b"c"]);
    /// let last = db.scan(..).limit(1).next_back().transpose()?;
    /// assert_eq!(last.map(|(key, _)| key), Some(b"d".to_vec()));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn limit(self, entries: usize) -> Self {
        Self(self.0.limit(entries))
    }

    /// Moves the front to `key`: of the entries that are left, the next one from the front is the
    /// first at or after `key`. Entries before it are skipped, also for the back. Never leads back:
    /// a `key` at or before the last entry from the front has no effect, nor has one after the end.
    ///
    /// Reads nothing; the next step costs a seek, as the first one did. Uses: a join of two
    /// scans, or the first key of each group of keys.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/seeking")?;
    /// for key in ["elm:1", "elm:2", "oak:1", "oak:2", "oak:3"] {
    ///     db.put(key, "")?;
    /// }
    /// // The first key of each group.
    /// let (mut scan, mut firsts) = (db.iter(), Vec::new());
    /// while let Some((key, _)) = scan.next().transpose()? {
    ///     scan.seek([&key[..4], &[255]].concat());
    ///     firsts.push(key);
    /// }
    /// assert_eq!(firsts, [b"elm:1", b"oak:1"]);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek(Key::from(key.as_ref()));
    }

    /// Moves the back to `key`: of the entries that are left, the next one from the back is the
    /// last at or before `key`. Otherwise as [`Scan::seek`].
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/seeking")?;
    /// for key in ["ash", "elm", "oak"] {
    ///     db.put(key, "")?;
    /// }
    /// let mut scan = db.iter();
    /// scan.seek_back("fir");
    /// assert_eq!(scan.next_back().transpose()?.map(|(key, _)| key), Some(b"elm".to_vec()));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        self.0.seek_back(key_after(key.as_ref()));
    }

    /// Skips the entries up to and including `key`: `key` is the last one of a page, and the scan
    /// goes on with the next page.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/paging")?;
    /// for key in ["elm:1", "elm:2", "elm:3", "oak:1"] {
    ///     db.put(key, "")?;
    /// }
    /// let page = db.prefix("elm:").limit(2).collect::<tamarack::Result<Vec<_>>>()?;
    /// let (last, _) = page.last().expect("a full page");
    /// let next = db.prefix("elm:").after(last).limit(2).collect::<tamarack::Result<Vec<_>>>()?;
    /// assert_eq!((page.len(), next.len(), &next[0].0[..]), (2, 1, &b"elm:3"[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn after(mut self, key: impl AsRef<[u8]>) -> Self {
        self.0.seek(key_after(key.as_ref()));
        self
    }

    /// Skips the entries from `key` on, itself included: as [`Scan::after`], for pages from the
    /// back.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/paging")?;
    /// for key in ["elm:1", "elm:2", "elm:3"] {
    ///     db.put(key, "")?;
    /// }
    /// let page = db.prefix("elm:").before("elm:3").limit(5).rev();
    /// let keys = page.map(|entry| Ok(entry?.0)).collect::<tamarack::Result<Vec<_>>>()?;
    /// assert_eq!(keys, [b"elm:2", b"elm:1"]);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn before(mut self, key: impl AsRef<[u8]>) -> Self {
        self.0.seek_back(Key::from(key.as_ref()));
        self
    }

    /// Returns the next key and its value, lent until the next call; `None` at the end. Copies no
    /// value; allocates nothing after the first call while blocks are in the block cache, and
    /// memory is not short (see [`crate::Options::memory_bytes`]).
    ///
    /// # Errors
    /// [`crate::Error::Io`] or [`crate::Error::Corruption`] if a table cannot be read. The scan has
    /// ended then.
    #[inline]
    pub fn next_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.0.next_lent()
    }

    /// As [`Scan::next_lent`], from the back.
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

/// A registered sequence: flushes and compactions keep what it can see until it is dropped.
struct RegisteredSequence {
    tree: Arc<Tree>,
    registration: Registration,
}

impl RegisteredSequence {
    fn now(tree: &Arc<Tree>) -> Self {
        Self { registration: tree.database.sequences.acquire(tree.lookups.thread_slot()), tree: tree.clone() }
    }

    fn sequence(&self) -> Sequence {
        self.registration.sequence
    }
}

impl Clone for RegisteredSequence {
    fn clone(&self) -> Self {
        Self { registration: self.tree.database.sequences.share(&self.registration), tree: self.tree.clone() }
    }
}

impl Drop for RegisteredSequence {
    fn drop(&mut self) {
        self.tree.database.sequences.release(&self.registration);
        if self.tree.may_have_range_deletes() {
            self.tree.wake_for_range_deletes(self.registration.sequence);
        }
    }
}

/// The origin of a scan, which reads at a registered sequence.
struct ScanOrigin {
    pinned: Pinned,
    registered: RegisteredSequence,
    has_begun: bool,
}

/// What a scan pins.
enum Pinned {
    /// The state that the scan's cursors read. It was pinned after the scan's sequence was
    /// registered, so it has everything visible at that sequence.
    State(ScanPin),
    /// No state: the scan has not begun, or rests. A scan that rests is charged for its own memory.
    Nothing(#[expect(dead_code, reason = "kept for its destructor")] Charge),
}

/// Memory of a scan that rests, with a short key at which it goes on, in bytes.
const RESTING_BYTES: usize = size_of::<Scan>() + 64;

impl Default for Pinned {
    fn default() -> Self {
        Self::Nothing(Charge::default())
    }
}

impl Pinned {
    fn account(&self) -> Option<&Arc<Account>> {
        match self {
            Self::State(state) => state.active.account(),
            Self::Nothing(_) => None,
        }
    }
}

/// A scan that pins a state is counted as one with cursors.
impl Drop for Pinned {
    fn drop(&mut self) {
        self.account().inspect(|account| account.scan_has_no_cursors());
    }
}

impl Origin for ScanOrigin {
    type Source = StateSource;

    fn open(&mut self, range: &KeyRange, limit: Option<usize>) -> Result<Self::Source> {
        self.has_begun = true;
        let tree = &self.registered.tree;
        if let Pinned::Nothing(_) = self.pinned {
            let state = tree.pin_scan();
            state.active.account().inspect(|account| account.scan_awakes());
            self.pinned = Pinned::State(state);
        }
        let Pinned::State(state) = &self.pinned else { unreachable!("it was pinned just now") };
        StateSource::new(state, range, limit)
    }

    fn range_tombstones(&self) -> Option<RangeTombstones> {
        match &self.pinned {
            Pinned::State(state) => state.range_tombstones(),
            Pinned::Nothing(_) => None,
        }
    }

    fn is_memory_short(&self) -> bool {
        self.pinned.account().is_some_and(|account| account.scans_should_rest())
    }

    fn release(&mut self, copied_bytes: usize) {
        let bytes = RESTING_BYTES + copied_bytes;
        let account = self.pinned.account().cloned();
        let charge = Charge::to(account.as_ref(), MemoryPart::Iterators, bytes);
        self.pinned = Pinned::Nothing(charge);
        if let Some(account) = account {
            account.scan_rests();
        }
    }

    fn ended(&mut self, entries: u64) {
        if self.has_begun {
            self.registered.tree.lookups.scan_ended(entries);
        }
    }

    fn failed(&self, error: &Error) {
        self.registered.tree.database.events.noticed(error);
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::sim::{CallKind, Failure, Fault, SimEnv};

    use super::*;
    use crate::format::block::Compression;
    use crate::options::{AdvancedOptions, Options};
    use crate::stats::Reader;

    /// A step of a scan takes one turn for all large blocks that it reads, of three runs here, and
    /// has none when it has ended: also if it fails, and in both directions.
    #[test]
    fn a_scan_has_a_turn_for_large_reads_during_its_steps_only() -> Result<()> {
        const RUNS: usize = 3;
        const ENTRIES: usize = 4;
        let env = SimEnv::new(1);
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100").cache_bytes(0);
        let options = Options::new().memory_bytes(16 << 20).threads(1).compression(Compression::None);
        let db = options.advanced(advanced.memtable_bytes((ENTRIES * ((1 << 20) + 20)) as u64)).open("/db")?;
        for run in 0..RUNS {
            for number in 0..ENTRIES {
                db.put([b'a' + (RUNS * number + run) as u8], vec![b'v'; 1 << 20])?;
            }
            db.flush()?;
        }
        let snapshot = db.snapshot();
        let state = snapshot.registered.tree.pin();
        assert_eq!(state.tree().runs().count(), RUNS);
        let run = state.tree().runs().next().expect("it has some");
        let storage = run.slices().iter().next().expect("it has a table").table().storage();
        // Turns that have begun, and that have ended.
        let turns = || storage.large_reads().begun_and_ended();
        for backwards in [false, true] {
            let (before, reads_before) = (turns().0, storage.counters().of(Reader::Scan).reads.get());
            let mut scan = db.scan(..);
            for number in 0..RUNS * ENTRIES {
                assert!(if backwards { scan.next_back() } else { scan.next() }.is_some_and(|next| next.is_ok()));
                let (begun, ended) = turns();
                assert_eq!(begun, ended, "a turn outlasts step {number}");
                if number == 0 {
                    let reads = storage.counters().of(Reader::Scan).reads.get() - reads_before;
                    assert!(reads >= RUNS as u64, "the seek reads a block of each run, but {reads} in all");
                    assert!(begun - before <= 2, "{} turns in the first step", begun - before);
                }
            }
            assert!(turns().0 >= before + (RUNS * (ENTRIES - 1)) as u64, "steps into other blocks take turns");
        }
        for failing in 0..RUNS as u64 {
            let mut scan = db.scan(..);
            env.inject(
                Fault::new(Failure::Io).kind(CallKind::Read).from_call(env.calls_made() + 1 + failing).forever(),
            );
            assert!(scan.by_ref().any(|next| next.is_err()), "reads fail from read {failing} on");
            let (begun, ended) = turns();
            assert_eq!(begun, ended, "a turn outlasts a step that failed");
            env.clear_faults();
        }
        Ok(())
    }
}
