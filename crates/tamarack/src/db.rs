//! [`Db`]: the handle of an open database. Each method calls one part of the engine.
//!
//! `map` has what maps of the standard library have, and estimates that read no data;
//! `transactions` has transactions and atomic operations on single keys.

mod map;
mod transactions;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tamarack_model::planner::CompactionPlan;
use tamarack_model::{Bytes, Occupancy, Shape};

use crate::checkpoint::{self, CheckpointReport};
use crate::compaction::ReshapeEstimate;
use crate::engine::Engine;
use crate::engine::RecoveryReport;
use crate::entry::{EntryKind, Query};
use crate::error::{Error, Result};
use crate::format::edit::{Change, Key, KeyRange};
use crate::ingest::Ingest;
use crate::mistake::{self, Mistake};
use crate::open;
use crate::options::{Options, parse_filter, parse_policy};
use crate::read::{KeyBounds, Scan, Snapshot, Value, get, multi_get, range_within};
use crate::redesign::begun;
use crate::repair::{self, Examination, VerifyReport};
use crate::stats::Stats;
use crate::write::{Batch, Durability, KEY_BYTES_MAX, Write, deletable};

/// Handle of an open database. Cloning is cheap; all clones are handles of the same database, which
/// closes when the last one is dropped.
///
/// ```
/// # let env = tamarack_env::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// let db = options.open("/prices")?;
/// db.put("maple", "12.50")?;
/// db.put("oak", "9.80")?;
/// assert_eq!(db.get("maple")?.as_deref(), Some(&b"12.50"[..]));
/// for entry in db.scan("a".."n").rev() {
///     let (key, value) = entry?;
///     assert_eq!((&key[..], &value[..]), (&b"maple"[..], &b"12.50"[..]));
/// }
/// db.close()?;
/// # Ok::<(), tamarack::Error>(())
/// ```
#[derive(Clone)]
pub struct Db {
    engine: Arc<Engine>,
}

/// Returns a bound that edits can store: one longer than any key is replaced by the successor of
/// its longest prefix that can be a key.
fn shortened(bound: Key) -> Key {
    if bound.len() > KEY_BYTES_MAX { [&bound[..KEY_BYTES_MAX], &[0]].concat().into() } else { bound }
}

/// Pause of all compactions until it is dropped; see [`Db::pause_compactions`].
#[must_use = "compactions go on when this is dropped"]
pub struct CompactionPause {
    engine: Arc<Engine>,
}

impl Drop for CompactionPause {
    fn drop(&mut self) {
        self.engine.scheduler.resume_compactions();
    }
}

impl fmt::Debug for CompactionPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionPause").field("dir", &self.engine.dir).finish_non_exhaustive()
    }
}

impl Options {
    /// Opens the database in `dir`, and recovers it after a crash.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open elsewhere, also for reading only; [`Error::Corruption`] if
    /// files are damaged (nothing is changed then); [`Error::Unsupported`] if a newer version wrote
    /// it; [`Error::NotFound`] if there is no database and [`Options::create_if_missing`] is off;
    /// [`Error::InvalidArgument`] for invalid options; [`Error::Io`] if storage fails.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Db> {
        let opened = open::open(dir.as_ref(), &self.resolve()?).map_err(|error| match error {
            // No database is open that could have stopped.
            Error::Stopped { cause } => Error::clone(&cause),
            other => other,
        });
        Ok(Db { engine: Arc::new(opened?) })
    }

    /// Opens the database in `dir` for reading only. Nothing on storage is changed, so the file
    /// system may be read-only. Any number of processes can have a database open for reading at the
    /// same time, but none while it is open for writing, and vice versa.
    ///
    /// The entries of the WAL are read into memory and stay there while the database is open,
    /// beyond [`Options::memory_bytes`] if necessary. An incomplete end of the WAL that a crash
    /// left is ignored, reported by [`Db::recovery`], and stays on storage; damage is an error as
    /// usual. No flushes, compactions or other background work run. Methods that change something,
    /// such as [`Db::put`], [`Db::flush`], [`Db::compact`] and [`Db::checkpoint`], return
    /// [`Error::ReadOnly`].
    ///
    /// Options for writing have no effect, nor has [`Options::create_if_missing`]. The lock file is
    /// locked if it exists. If it is missing (in a copy of a database, say) it is not created, and
    /// nothing keeps a writer away: do not open such a directory for writing meanwhile.
    ///
    /// Data read after a crash of the process may not be durable yet: only opening for writing
    /// makes it so. If the machine crashes before, the last writes can still be lost, within what
    /// their [`Durability`] allows.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # options.open("/prices")?.put("oak", "9.80")?;
    /// let one = options.open_read_only("/prices")?;
    /// let another = options.open_read_only("/prices")?;
    /// assert_eq!(one.get("oak")?.as_deref(), Some(&b"9.80"[..]));
    /// let refused = another.put("oak", "11.20");
    /// assert!(matches!(refused, Err(tamarack::Error::ReadOnly { .. })));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open for writing; [`Error::NotFound`] if there is no database;
    /// else as [`Options::open`].
    pub fn open_read_only(&self, dir: impl AsRef<Path>) -> Result<Db> {
        Ok(Db { engine: Arc::new(open::open_read_only(dir.as_ref(), &self.resolve()?)?) })
    }

    /// Verifies all files of the database in `dir`, which must not be open: every checksum, every
    /// invariant, and every condition of opening. Changes nothing. `progress` receives the bytes of
    /// tables read so far and their total.
    ///
    /// Damage at the end of the WAL or the manifest that no other file contradicts looks like a
    /// write that a crash interrupted, and is reported as that ([`VerifyReport::torn`]).
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open; [`Error::NotFound`] if there is none;
    /// [`Error::Unsupported`] if a newer version wrote it; [`Error::Io`] if the manifest or the WAL
    /// cannot be read. Damage is not an error but part of the report, as is a table that cannot be
    /// read.
    pub fn verify(&self, dir: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        Ok(Examination::of(&self.resolve()?.env, dir.as_ref(), false, progress)?.report)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.engine.dir).finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in `dir` with the default [`Options`], and creates it if it is missing.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(dir)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.commit(Write::One { kind: EntryKind::Put, key: key.as_ref(), value: value.as_ref() })
    }

    /// Deletes `key`, if it exists.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.commit(Write::One { kind: EntryKind::Delete, key: key.as_ref(), value: &[] })
    }

    /// Deletes all keys in `range`, by one small record, whatever it covers. An empty or reversed
    /// range deletes nothing.
    ///
    /// The keys are gone for all readers that begin after it returns; snapshots keep them. Later
    /// puts to keys in the range are seen, and later merge operands begin from no value. It is a
    /// write as others are: durable as they are, atomic, in the order of commits.
    ///
    /// # Costs
    ///
    /// Until the memtable is flushed, the range delete is looked up in memory by whoever reads a
    /// key. Soon after the flush, the range is cut out of all tables by one record of the manifest:
    /// tables that it covers as a whole are deleted without being read, and reads pay nothing any
    /// more. As long as a snapshot sees the keys, or a compaction in progress reads them, each read
    /// of a key compares it with the ranges that wait, and scans jump over them. Where a table has
    /// younger entries beside those that are hidden, the next compaction leaves these out.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/events")?;
    /// for day in ["2026-01-30", "2026-01-31", "2026-02-01"] {
    ///     db.put(day, "…")?;
    /// }
    /// db.delete_range(.."2026-02")?;
    /// assert_eq!(db.get("2026-01-31")?, None);
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]. Like a delete, it is accepted while little disk space is left.
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_keys(&range_within(&range))
    }

    /// Deletes all keys that begin with `prefix`: [`Db::delete_range`] of these.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/tenants")?;
    /// db.put("alder/1", "")?;
    /// db.put("birch/1", "")?;
    /// db.delete_prefix("alder/")?;
    /// assert_eq!(db.first_key_value()?, Some((b"birch/1".to_vec(), Vec::new())));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_keys(&KeyRange::with_prefix(prefix.as_ref()))
    }

    /// Deletes all keys: [`Db::delete_range`] of `..`.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let db = tamarack::Options::new().advanced(advanced).open("/prices")?;
    /// db.put("oak", "9.80")?;
    /// db.clear()?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn clear(&self) -> Result<()> {
        self.delete_keys(&KeyRange::ALL)
    }

    fn delete_keys(&self, range: &KeyRange) -> Result<()> {
        match deletable(range) {
            Some((key, value)) => self.commit(Write::One { kind: EntryKind::RangeDelete, key: &key, value: &value }),
            // As a batch without writes: an error where no write is accepted any more.
            None => self.write(&Batch::new()),
        }
    }

    /// Folds `operand` into the value of `key`, by the merge operator of
    /// [`Options::merge_operator`]. Reads nothing: the operand is written as a put is, and folded
    /// into the value when the key is read, flushed or compacted. Use it for what would else be a
    /// read and a write: counters, sets, lists that grow.
    ///
    /// Puts, deletes and operands of a key take effect in their order: an operand after a put is
    /// folded into that value, one after a delete into none.
    ///
    /// # Cost of reads
    ///
    /// A read of a key with operands goes on to older runs until it finds a value, a tombstone or
    /// the end, and folds all operands on the way. So it costs more the more operands a key has. A
    /// flush leaves one operand of those in a memtable (one for each snapshot between them), or a
    /// value, if it knows what is below; a compaction does the same with the runs that it takes. So
    /// a read meets at most what memtables hold, which their size bounds, and one operand per run
    /// and snapshot. If the operator has no partial form (see
    /// [`MergeOperator`](crate::MergeOperator)), it meets all operands down to the last value.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// use std::sync::Arc;
    /// use tamarack::operators::Append;
    ///
    /// let db = options.merge_operator(Arc::new(Append)).open("/notes")?;
    /// db.put("oak", "acorn")?;
    /// db.merge("oak", ", leaf")?;
    /// assert_eq!(db.get("oak")?.as_deref(), Some(&b"acorn, leaf"[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; [`Error::InvalidArgument`] if the database has no merge operator, or if
    /// the operator refuses the operand ([`MergeOperator::check_operand`](crate::MergeOperator)).
    /// An operand that passes and cannot be merged makes reads of its key fail ([`Error::Merge`])
    /// until the key is put or deleted.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.commit(Write::One { kind: EntryKind::Merge, key: key.as_ref(), value: operand.as_ref() })
    }

    /// Writes `batch` atomically, with the database's durability. Reads that begin after it returns
    /// see the batch.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key over 64 KiB, or a value or batch over an eighth of the
    /// memory budget or 1 GiB; [`Error::Io`] if storage fails, or if free disk space is below
    /// [`AdvancedOptions::reserve_bytes`](crate::AdvancedOptions::reserve_bytes) and the batch does
    /// not only delete (nothing was written; retry, perhaps after freeing space);
    /// [`Error::Stopped`] if a sync failed, now or before: whether this write survives is unknown
    /// until the database is opened again.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.commit(Write::Many(batch))
    }

    /// Writes `batch` as [`Db::write`] does, with the given durability.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.engine.commits.commit(Write::Many(batch), durability)
    }

    fn commit(&self, write: Write<'_>) -> Result<()> {
        self.engine.commits.commit(write, self.engine.durability)
    }

    /// Returns the value of `key`, or `None`.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] if a table cannot be read; [`Error::Merge`] if the
    /// key has operands that cannot be merged.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let Engine { database, tree, .. } = &*self.engine;
        let (seen, state) = (database.sequences.visible(), tree.pin());
        let sequence = database.sequences.visible();
        let seen = if mistake::is_planted(Mistake::CachedSeenAfterPin) { sequence } else { seen };
        let query = Query::new(key.as_ref(), sequence).seeing(seen);
        let found = get::get(&state, &tree.merging, query, &tree.lookups);
        Ok(found.inspect_err(|error| database.events.noticed(error))?.and_then(|found| found.value))
    }

    /// Returns the values of `keys` in their order, as of one moment; `None` for keys without a
    /// value. Blocks are read in batches: on a device that serves many reads at a time this is
    /// faster than calling [`Db::get`] for each key. Keys may repeat.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let found = db.multi_get(&["oak", "maple"])?;
    /// assert!(found[0].is_none() && found[1].as_deref() == Some(b"12.50"));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`]; one lookup's error is returned for all.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        let Engine { database, tree, .. } = &*self.engine;
        let (seen, state) = (database.sequences.visible(), tree.pin());
        let sequence = database.sequences.visible();
        let queries: Vec<_> = keys.iter().map(|key| Query::new(key.as_ref(), sequence).seeing(seen)).collect();
        let found = multi_get::multi_get(&state, &tree.merging, &queries, &tree.lookups);
        found.inspect_err(|error| database.events.noticed(error))
    }

    /// Returns true if `key` has a value.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let Engine { database, tree, .. } = &*self.engine;
        let (seen, state) = (database.sequences.visible(), tree.pin());
        let query = Query::new(key.as_ref(), database.sequences.visible()).seeing(seen);
        let found = get::contains(&state, &tree.merging, query, &tree.lookups);
        found.inspect_err(|error| database.events.noticed(error))
    }

    /// Returns an iterator over the entries whose keys lie in `range`, in key order, as of now. It
    /// is double-ended. If you need only some entries, say how many ([`Scan::limit`]), so that the
    /// scan reads no more than it needs.
    ///
    /// # Errors
    /// An item is an error if a table cannot be read; the iterator ends after it.
    pub fn scan(&self, range: impl KeyBounds) -> Scan {
        self.snapshot().into_scan(range_within(&range))
    }

    /// Returns an iterator over the entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Db::scan`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.snapshot().into_scan(KeyRange::with_prefix(prefix.as_ref()))
    }

    /// Returns a snapshot: the database as of now, until it is dropped. It pins space: entries that
    /// are overwritten or deleted later are kept as long as a snapshot sees them. In a database
    /// with a compaction filter it may wait for a few milliseconds; see
    /// [`crate::CompactionFilter`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.engine.tree)
    }

    /// Begins an ingest, which writes sorted data directly into tables, without the WAL: the
    /// fastest way to load much data. Entries are added in ascending order of keys.
    /// [`Ingest::finish`] makes all of them visible and durable at once; until then readers do not
    /// see them, and reads and writes go on. They are younger than everything written before
    /// [`Ingest::finish`] and so replace earlier values of their keys. In an empty database they
    /// are written once; above older data, compactions carry them down as usual.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/trees")?;
    /// let mut ingest = db.ingest()?;
    /// for height in 100..200u32 {
    ///     ingest.put(height.to_be_bytes(), format!("a tree of {height} feet"))?;
    /// }
    /// let report = ingest.finish()?;
    /// assert_eq!(report.entries, 100);
    /// let tree = db.get(160u32.to_be_bytes())?;
    /// assert_eq!(tree.as_deref(), Some(&b"a tree of 160 feet"[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stopped`] if writing has stopped; [`Error::Io`] if no thread can be started.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.engine)
    }

    /// Flushes all memtables to tables, and blocks until that is done.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; nothing is lost, and the flush is retried in the background.
    /// [`Error::Stopped`] if writing has stopped.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Compacts the whole tree into one run, and blocks until that is done. Entries that were
    /// overwritten or deleted, and that no snapshot sees, are dropped, and their space is freed.
    /// Reads and writes go on meanwhile. The tree keeps its shape without this; call it when space
    /// is short, or before a long phase of reads.
    ///
    /// # Errors
    /// As [`Db::flush`]; [`Error::InvalidArgument`] while compactions are paused.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.engine.scheduler.compact(KeyRange::ALL)
    }

    /// Compacts the keys in `range` into one run, as [`Db::compact`] does for all keys. The cost is
    /// proportional to the data in the range.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        let KeyRange { from, to } = range_within(&range);
        let range = KeyRange { from: from.map(shortened), to: to.map(shortened) };
        if range.is_empty() {
            return Ok(());
        }
        self.flush()?;
        self.engine.scheduler.compact(range)
    }

    /// Blocks until no flush or compaction is running or pending. With writers that do not pause it
    /// may block forever. Runs that a change of policy or late compactions have left beyond the
    /// shape are not pending: they are compacted when data arrives at their level, some seconds
    /// after the last flush, or by [`Db::reshape`]. Nor is the compaction of level 1 at that time
    /// ([`crate::AdvancedOptions::policy`]).
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn wait_for_compactions(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            // Compactions in progress would never end.
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.wait_for_compactions(),
        }
    }

    /// Changes the compaction policy, and with it the tree's shape, from now on. `policy` is a
    /// specification or a [`Policy`](crate::Policy), as for
    /// [`AdvancedOptions::policy`](crate::AdvancedOptions::policy). Reads and writes go on.
    ///
    /// The change itself writes one record: runs are assigned to the levels of the new shape, and
    /// no data is moved. The tree then takes its new form in one of two ways:
    ///
    /// * **as data arrives**: the next compaction into a level includes its surplus runs. This is
    ///   the cheaper way for a tree that is written to. A level that no data arrives at keeps them
    ///   until the tree is at rest: once writes pause, compactions bring level after level into
    ///   its shape. [`Db::wait_for_compactions`] does not wait for these.
    /// * **at once**: by [`Db::reshape`], for a tree that will be read in its new form soon.
    ///
    /// [`Db::estimate_reshape`] predicts the cost of either.
    ///
    /// With `auto`, the navigator goes on from the present policy: it changes policy, memtables,
    /// filters and the size of blocks as the workload changes, until another policy is given. That
    /// one keeps the memtables and filters that were chosen; new tables get blocks of
    /// [`AdvancedOptions::block_bytes`](crate::AdvancedOptions::block_bytes) again.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env).memtable_bytes(4000);
    /// # let options = tamarack::Options::new().advanced(advanced.policy("tiering:T=10"));
    /// # let db = options.open("/trees")?;
    /// for height in 0..500u32 {
    ///     db.put(height.to_be_bytes(), format!("a tree of {height} feet"))?;
    /// }
    /// db.flush()?;
    /// let cost = db.estimate_reshape("leveling:T=10", 1 << 20)?;
    /// assert!(cost.extra_at_once_bytes() > 0, "writing costs more with fewer runs: {cost:?}");
    /// db.set_policy("leveling:T=10")?;
    /// db.reshape()?;
    /// assert!(db.stats().levels.iter().all(|level| level.runs.len() <= 1));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid specification; [`Error::Io`] if storage fails, and
    /// nothing has changed; [`Error::Stopped`] if writing has stopped.
    pub fn set_policy(&self, policy: impl Into<String>) -> Result<()> {
        self.engine.redesign.set_policy(&*parse_policy(&policy.into())?)?;
        if let Some(controller) = &self.engine.controller {
            controller.wake();
        }
        Ok(())
    }

    /// Reshapes the tree: brings it, as it is at the call, into the form of its shape, and blocks
    /// until that is done. Afterwards no level but the last is full, and none has more runs than
    /// its shape allows. After [`Db::set_policy`], or after opening with another
    /// [`AdvancedOptions::policy`](crate::AdvancedOptions::policy), this carries out the change at
    /// once; a tree that has its form already is left alone. Each byte is written at most once, and
    /// levels whose runs suit the new shape are not touched, so it costs less than [`Db::compact`].
    ///
    /// Reads and writes go on meanwhile. Concurrent flushes and compactions may leave a level with
    /// a run too many, as they always may, until data arrives there, writes pause, or this is
    /// called again; after [`Db::flush`] and [`Db::wait_for_compactions`], without writers, none is
    /// left. If the process ends before it is done, compactions that have begun are resumed at the
    /// next opening; the rest waits for arriving data, a pause, or another call.
    ///
    /// # Errors
    /// As [`Db::compact`]; after an [`Error::Io`] it goes on in the background.
    pub fn reshape(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.reshape(),
        }
    }

    /// Predicts the cost of a change to another policy while `arriving_bytes` are written (raw
    /// bytes, those in memtables included): with the present policy, with the other one as data
    /// arrives, and with the other one at once. Nothing is changed; the database may be open for
    /// reading only.
    ///
    /// The prediction simulates the planner that decides the compactions, from the present runs. It
    /// assumes that arriving entries have new keys, and that compactions end before the next
    /// memtable is full: overwriting costs less.
    ///
    /// Cost: some microseconds per memtable of `arriving_bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid specification, and for more bytes than a million
    /// memtables.
    pub fn estimate_reshape(&self, policy: impl Into<String>, arriving_bytes: u64) -> Result<ReshapeEstimate> {
        let policy = begun(&*parse_policy(&policy.into())?, Some(&self.engine.scheduler.shape().0));
        self.engine.scheduler.estimate_reshape(&policy, Bytes(arriving_bytes))
    }

    /// Changes the filters of tables. The choice is stored with the database and outlives closing.
    /// `specification` is as for [`AdvancedOptions::filter`](crate::AdvancedOptions::filter).
    /// Existing tables get their new filters in the background, without reading or compacting data,
    /// if they store digests
    /// ([`AdvancedOptions::filter_digests`](crate::AdvancedOptions::filter_digests)); of the
    /// others, those whose filters save most keep them, as far as the memory allows. Reads and
    /// writes go on. [`Db::wait_for_filter_rebuild`] waits for the rebuild.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid specification; [`Error::Stopped`] if writing has
    /// stopped.
    pub fn set_filter(&self, specification: &str) -> Result<()> {
        self.engine.redesign.set_filter(parse_filter(specification)?)
    }

    /// Returns the specification of the filters that are chosen.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn chosen_filter(&self) -> String {
        self.engine.scheduler.filters().chosen().to_string()
    }

    /// Returns the last changes of the design that the navigator has made, each in a line: the
    /// design before and after it, the operations that it followed from, the predicted times, and
    /// what the change was expected to take. They are stored with the design. Empty unless the
    /// policy is or was `auto`; [`crate::Stats::decisions`] has the figures of those since opening,
    /// and of decisions to change nothing.
    pub fn design_history(&self) -> Vec<String> {
        self.engine.scheduler.decisions()
    }

    /// Blocks until no filter rebuild is running or due. Filters that are the wrong kind or too
    /// large are due at once, and so are all after [`Db::set_filter`]. Filters with more false
    /// positives than others of the same total size would have are due when lookups have lost as
    /// much time by that as the rebuild takes; [`Db::rebuild_filters`] does not wait for such
    /// lookups. With writers that do not pause this may block forever.
    ///
    /// # Errors
    /// [`Error::Io`] if a filter cannot be read, or a compaction that the rebuild waits for fails,
    /// for instance for lack of disk space; both are retried in the background.
    /// [`Error::InvalidArgument`] while compactions are paused. [`Error::Stopped`] if writing has
    /// stopped.
    pub fn wait_for_filter_rebuild(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.wait_for_filter_rebuild(false),
        }
    }

    /// Rebuilds all filters that are not as they should be, now, and blocks until that is done:
    /// after a load, say, before many lookups. Without it that happens by and by, see
    /// [`Db::wait_for_filter_rebuild`]. With writers that do not pause it may block forever.
    ///
    /// # Errors
    /// As [`Db::wait_for_filter_rebuild`].
    pub fn rebuild_filters(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.wait_for_filter_rebuild(true),
        }
    }

    /// Pauses all compactions until the returned value is dropped. Writes and flushes go on, so the
    /// tree gets more runs than its shape allows, and reads become slower.
    pub fn pause_compactions(&self) -> CompactionPause {
        self.engine.scheduler.pause_compactions();
        CompactionPause { engine: self.engine.clone() }
    }

    /// Makes all acknowledged writes durable: they survive a crash of the machine.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a sync failed, now or before.
    pub fn sync(&self) -> Result<()> {
        self.engine.commits.sync()
    }

    /// Creates a checkpoint: an independent database in `dir`, which must be empty or missing. It
    /// contains this database as of one moment after the call: a prefix of the order of commits,
    /// with all writes acknowledged before the call, and every batch whole or not at all. When this
    /// returns, the checkpoint is complete and durable.
    ///
    /// Memtables are flushed first, as by [`Db::flush`]. Tables are shared by hard links, so a
    /// checkpoint takes little time and space at first, and more as this database replaces tables
    /// that the checkpoint still has. Where links are impossible (another file system, or one
    /// without links), the files are copied, and the report says why. Reads, writes and compactions
    /// go on meanwhile. So may [`Db::close`]: the checkpoint then contains what was flushed before,
    /// or fails.
    ///
    /// The checkpoint is complete as soon as `dir` has a file named `CURRENT`; a crash before
    /// leaves a directory without it, to be removed.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// let db = options.open("/prices")?;
    /// db.put("oak", "9.80")?;
    /// db.checkpoint("/prices-of-today")?;
    /// db.put("oak", "11.20")?;
    ///
    /// let of_today = options.open("/prices-of-today")?;
    /// assert_eq!(of_today.get("oak")?.as_deref(), Some(&b"9.80"[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` is not empty, or its parent directory is missing;
    /// [`Error::Locked`] if another checkpoint is being created there; [`Error::Io`] if storage
    /// fails; [`Error::Stopped`] if writing has stopped, and [`Error::ReadOnly`], since memtables
    /// cannot be flushed then. This database is not affected, and `dir` is no database: its files
    /// are removed, up to the directory and its lock file, and the checkpoint can be retried.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.engine.database.health.check_running()?;
        let site = checkpoint::Site::claim(self.engine.env.as_ref(), dir.as_ref())?;
        self.flush()?;
        site.fill(&self.engine)
    }

    /// Returns the database's state, and counters since it was opened.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }

    /// Returns the shape of the tree, its runs as the planner counts them, and the compactions in
    /// progress: the initial state of a simulation.
    #[doc(hidden)]
    pub fn planned(&self) -> (Shape, Occupancy, Vec<CompactionPlan>) {
        self.engine.scheduler.planner_state()
    }

    /// Verifies all tables, the manifest, and the durable part of the WAL: every checksum and every
    /// invariant. [`Options::verify`] does so for a database that cannot be opened. `progress`
    /// receives the bytes read so far and their total.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; damage is not an error but part of the report.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        repair::verify(&self.engine, progress)
    }

    /// Returns the result of recovery at opening: whether the WAL ended cleanly, and what was
    /// dropped if not.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.engine.recovery
    }

    /// Closes the database: makes everything durable, records the end of the WAL in the manifest,
    /// and stops writing for all clones of this handle. Clones, snapshots and iterators can still
    /// read; another process can open the database when the last of them is dropped.
    ///
    /// Dropping the last handle without this is like the end of the process: nothing is lost that
    /// its durability covers, but errors are not reported, and the next recovery cannot check the
    /// WAL's end against the manifest. A database open for reading only is left as it is.
    ///
    /// # Errors
    /// [`Error::Stopped`] or [`Error::Io`] if the WAL or the manifest cannot be made durable.
    pub fn close(self) -> Result<()> {
        let engine = &self.engine;
        if engine.database.health.is_read_only() {
            return Ok(());
        }
        engine.database.health.check_running()?;
        engine.database.health.report_stop(Error::Closed);
        engine.stop_workers();
        engine.scheduler.finish();
        let end = engine.wal.close()?;
        engine.scheduler.install(vec![Change::WalEnd { position: end.0 }]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::MemoryEnv;

    use super::*;
    use crate::options::{AdvancedOptions, Options};

    /// A lookup pins its state, is interrupted while `write` stores a younger value of its key, and
    /// takes its sequence afterwards. Returns what it finds, and what the next lookup finds.
    fn interrupted(write: impl FnOnce(&Db) -> Result<()>) -> Result<[Option<Vec<u8>>; 2]> {
        let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).policy("tiering:T=9").cache_bytes(10_000);
        let db = Options::new().threads(1).advanced(advanced.block_bytes(1000)).open("/db")?;
        // More than the cache takes, so that it has entries.
        (0..200).try_for_each(|number: u32| db.put(number.to_be_bytes(), [0; 100]))?;
        db.put("oak", "old")?;
        db.flush()?;

        let engine = &db.engine;
        let visible = || engine.database.sequences.visible();
        let (seen, state) = (visible(), engine.tree.pin_scan());
        write(&db)?;
        let query = Query::new(b"oak", visible()).seeing(seen);
        let found = get::get(&state, &engine.tree.merging, query, &engine.tree.lookups)?.and_then(|found| found.value);
        let next = db.get("oak")?;
        Ok([found, next].map(|value| value.map(Vec::from)))
    }

    fn two_flushes(db: &Db) -> Result<()> {
        db.put("elm", "")?;
        db.flush()?;
        db.put("oak", "young")?;
        db.flush()
    }

    fn ingest(db: &Db) -> Result<()> {
        let mut ingest = db.ingest()?;
        ingest.put("oak", "young")?;
        ingest.finish().map(drop)
    }

    /// What a lookup finds in a state that lacks a younger entry is not cached: others would find
    /// it for ever.
    #[test]
    fn an_interrupted_lookup_caches_nothing_old() -> Result<()> {
        let [old, young] = ["old", "young"].map(|value| Some(value.as_bytes().to_vec()));
        assert_eq!(interrupted(two_flushes)?, [old.clone(), young.clone()]);
        assert_eq!(interrupted(ingest)?, [old.clone(), young]);
        // The same without the rule.
        let wrong = mistake::with(Mistake::CachedFromThePast, || interrupted(two_flushes))?;
        assert_eq!(wrong, [old.clone(), old.clone()]);
        let wrong = mistake::with(Mistake::CachedFromThePast, || interrupted(ingest))?;
        assert_ne!(wrong[1], None);
        Ok(())
    }
}
