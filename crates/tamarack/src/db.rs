//! [`Db`]: the database as users hold it. Wires the parts together; each method is a few lines.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use tamarack_model::filter::FilterChoice;
use tamarack_model::planner::CompactionPlan;
use tamarack_model::{Bytes, Occupancy, Shape};

use crate::checkpoint::{self, CheckpointReport};
use crate::compaction::ReshapeEstimate;
use crate::database::Activity;
use crate::engine::Engine;
use crate::engine::RecoveryReport;
use crate::entry::{EntryKind, Query};
use crate::error::{Error, Result};
use crate::format::edit::{Change, Key, KeyRange};
use crate::ingest::Ingest;
use crate::open;
use crate::options::{Options, parse_filter, parse_policy};
use crate::read::{Scan, Snapshot, Value, get};
use crate::structure::Stats;
use crate::verify::{self, Examination, VerifyReport};
use crate::write::{Batch, Durability, KEY_BYTES_MAX, Write};

/// An open database. Cheap to clone; all clones are the same database, which closes when the last
/// is dropped.
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

/// The keys between two bounds.
fn key_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    let past = |key: &[u8]| key.iter().copied().chain([0]).collect::<Key>();
    let exactly = |key: &[u8]| Key::from(key);
    // A bound may be longer than any key. It then stands right after its longest part that could be
    // one, and edits need not keep all of it.
    let bound = |key: &K, make: &dyn Fn(&[u8]) -> Key| match key.as_ref().get(..KEY_BYTES_MAX + 1) {
        Some(longer) => past(&longer[..KEY_BYTES_MAX]),
        None => make(key.as_ref()),
    };
    let from = match range.start_bound() {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(bound(key, &exactly)),
        Bound::Excluded(key) => Some(bound(key, &past)),
    };
    let to = match range.end_bound() {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(bound(key, &past)),
        Bound::Excluded(key) => Some(bound(key, &exactly)),
    };
    KeyRange { from, to }
}

/// Holds merges while it lives; see [`Db::pause_compactions`].
#[must_use = "merges go on when this is dropped"]
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
    /// Opens the database in `dir`, recovering what an earlier process left.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open elsewhere, also for reading only; [`Error::Corruption`] if
    /// files are damaged (nothing is changed then); [`Error::Unsupported`] if it was written by
    /// a newer version; [`Error::InvalidArgument`] for options that cannot be, or if there is
    /// no database and [`Options::create_if_missing`] is off; [`Error::Io`] if storage fails.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Db> {
        let opened = open::open(dir.as_ref(), &self.resolve()?).map_err(|error| match error {
            // There is no database yet that could have stopped.
            Error::Stopped { cause } => Error::clone(&cause),
            other => other,
        });
        Ok(Db { engine: Arc::new(opened?) })
    }

    /// Opens the database in `dir` for reading only: nothing on storage is changed, not even a
    /// byte, so it may be on a file system that cannot be written to. Any number of processes
    /// can have a database open like this at the same time, but none while it is open for writing,
    /// and the other way round.
    ///
    /// What is in the log is read into memory, and stays there as long as the database is open: if
    /// the log holds more than [`Options::memory_bytes`], more than that is taken. A torn
    /// end that a crash left is left out, told by [`Db::recovery`], and stays where it is; damage
    /// is an error as usual. No flushes, merges or other background work take place. All that
    /// reads works as usual; all that would change something, as [`Db::put`], [`Db::flush`],
    /// [`Db::compact`] or [`Db::checkpoint`], is answered with [`Error::ReadOnly`].
    ///
    /// The options for writing have no effect, nor has [`Options::create_if_missing`]: no database
    /// is made. The lock file is shared if it is there. One that is missing (in a copy of
    /// a database, say) is not made, and then nobody is kept away: do not open such a directory for
    /// writing meanwhile.
    ///
    /// What is read after a crash need not have reached storage yet, until the database is opened
    /// for writing, which sees to that: should the machine stop before, some of what was written
    /// last may be gone then after all, as far as its [`Durability`] allows.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
    /// # options.open("/prices")?.put("oak", "9.80")?;
    /// let (one, another) = (options.open_read_only("/prices")?, options.open_read_only("/prices")?);
    /// assert_eq!(one.get("oak")?.as_deref(), Some(&b"9.80"[..]));
    /// assert!(matches!(another.put("oak", "11.20"), Err(tamarack::Error::ReadOnly { .. })));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open for writing; [`Error::InvalidArgument`] if there is no
    /// database; else as [`Options::open`].
    pub fn open_read_only(&self, dir: impl AsRef<Path>) -> Result<Db> {
        Ok(Db { engine: Arc::new(open::open_read_only(dir.as_ref(), &self.resolve()?)?) })
    }

    /// Reads all files of the database in `dir`, which nobody has open, and checks them: every
    /// checksum and every invariant, and also what opening would refuse. Changes
    /// nothing. `progress` is told the bytes of tables read so far and the bytes there are.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open; [`Error::InvalidArgument`] if there is none;
    /// [`Error::Unsupported`] if a newer version wrote it; [`Error::Io`] if the manifest or the
    /// log cannot be read. Damage is not an error but part of the report, and so is a table that
    /// cannot be read.
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
    /// Opens the database in `dir` with the default [`Options`], making it if it is not there.
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

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.commit(Write::One { kind: EntryKind::Delete, key: key.as_ref(), value: &[] })
    }

    /// Writes all of `batch` at once, with the durability the database was opened with. When it
    /// returns, later reads see it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key over 64 KiB, or a value or batch over an eighth of the
    /// memory budget or 1 GiB; [`Error::Io`] if storage refused, or has less space left than is
    /// kept for flushes and merges and the batch does not only delete (nothing was written; trying
    /// again can help, say after freeing space); [`Error::Stopped`] if a sync failed, now or
    /// before: then it is unknown whether this write is there after reopening.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.commit(Write::Many(batch))
    }

    /// As [`Db::write`], with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.engine.commits.commit(Write::Many(batch), durability)
    }

    fn commit(&self, write: Write<'_>) -> Result<()> {
        self.engine.commits.commit(write, self.engine.durability)
    }

    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Corruption`] if a table cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let Engine { database, tree, .. } = &*self.engine;
        let state = tree.pin();
        let query = Query::new(key.as_ref(), database.sequences.visible());
        let found = get::get(&state, &self.engine.dir, query, &tree.lookups);
        Ok(found.inspect_err(|error| database.events.noticed(error))?.and_then(|found| found.value))
    }

    /// The values of `keys`, in their order, as of one moment; `None` for those that have none.
    /// What has to be read for them is read together: where the device serves many reads at a
    /// time, this is faster than as many calls of [`Db::get`]. Keys may repeat.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let db = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env)).open("/prices")?;
    /// db.put("maple", "12.50")?;
    /// let found = db.multi_get(&["oak", "maple"])?;
    /// assert!(found[0].is_none() && found[1].as_deref() == Some(b"12.50"));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`]; an error of one lookup is that of all.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.snapshot().multi_get(keys)
    }

    /// True if `key` has a value.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let Engine { database, tree, .. } = &*self.engine;
        let state = tree.pin();
        let query = Query::new(key.as_ref(), database.sequences.visible());
        let found = get::contains(&state, &self.engine.dir, query, &tree.lookups);
        found.inspect_err(|error| database.events.noticed(error))
    }

    /// The entries whose keys lie in `range`, in the order of keys, as they are now. Iterates from
    /// both ends.
    ///
    /// # Errors
    /// The iterator's items are errors where a table cannot be read; after one it ends.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.snapshot().scan(range)
    }

    /// The entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Db::scan`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.snapshot().prefix(prefix)
    }

    /// The database as it is now, for as long as the snapshot lives. It holds space: what is
    /// overwritten or deleted later is kept while it can see it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.engine.tree, &self.engine.dir)
    }

    /// Begins to take sorted data straight into tables, past the log: the fastest way to load much
    /// of it. Entries are added in ascending order of keys, and become part of the database all
    /// at once in the end, durably; until then nobody sees them, and writers and readers go on.
    /// They are younger than what was written before [`Ingest::finish`], and so replace the
    /// values that their keys had. In an empty database they are written once and for all; above
    /// older data merges carry them down as usual.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let db = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env)).open("/trees")?;
    /// let mut ingest = db.ingest()?;
    /// for height in 100..200u32 {
    ///     ingest.put(height.to_be_bytes(), format!("a tree of {height} feet"))?;
    /// }
    /// let report = ingest.finish()?;
    /// assert_eq!(report.entries, 100);
    /// assert_eq!(db.get(160u32.to_be_bytes())?.as_deref(), Some(&b"a tree of 160 feet"[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stopped`] if writing has ended. [`Error::InvalidArgument`] after eight million
    /// ingests: each takes 2^32 of the 2^56 sequence numbers, and half of these are kept for
    /// other writes.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.engine)
    }

    /// Writes everything that is in memory to tables, and waits for that.
    ///
    /// # Errors
    /// [`Error::Io`] if storage refused; nothing is lost, and the flush is tried again in the
    /// background. [`Error::Stopped`] if writing has ended.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Merges everything into one run: what was overwritten or deleted, and is seen by no snapshot,
    /// is gone then and gives its space back. Waits for that; writers and readers go on
    /// meanwhile. A tree is kept in its shape without this; it is for times when space is
    /// short, or before long reading.
    ///
    /// # Errors
    /// As [`Db::flush`]; [`Error::InvalidArgument`] while merges are paused.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.engine.scheduler.merge(KeyRange::ALL)
    }

    /// As [`Db::compact`], for the keys in `range`: of these there is one version then, in one run.
    /// Its cost is what the range holds.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let range = key_range(&range);
        if range.is_empty() {
            return Ok(());
        }
        self.flush()?;
        self.engine.scheduler.merge(range)
    }

    /// Waits until nothing is being flushed or merged, and nothing is called for: what has arrived
    /// is where the tree's shape wants it to be. Beside writers that do not pause, that may
    /// never be. What a change of shape has left is called for by arrivals or by [`Db::reshape`],
    /// and not waited for otherwise.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn wait_for_compactions(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            // Merges that were in progress would never end.
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.wait_for_compactions(),
        }
    }

    /// Gives the tree the shape of another policy, by the words that
    /// [`AdvancedOptions::policy`](crate::AdvancedOptions::policy) takes, also from then on.
    /// Readers and writers go on.
    ///
    /// This alone writes one record: runs get other levels, and no byte of theirs is moved. The
    /// tree can come to its new form in two ways:
    ///
    /// * **as data arrives**: the next batch that comes to a level takes along what is too much
    ///   there. A level that nothing arrives at keeps its runs, for as long as that is so: with no
    ///   writes, [`Db::wait_for_compactions`] has nothing to wait for, and lookups find the runs
    ///   that there were. That is the cheaper way for a tree that is written to.
    /// * **at once**: by [`Db::reshape`], for a tree that is to be read in its new form soon.
    ///
    /// [`Db::estimate_reshape`] says before what either will cost.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let expert = tamarack::AdvancedOptions::new().env(env).buffer_bytes(4000).policy("tiering:T=10");
    /// # let db = tamarack::Options::new().advanced(expert).open("/trees")?;
    /// for height in 0..500u32 {
    ///     db.put(height.to_be_bytes(), format!("a tree of {height} feet"))?;
    /// }
    /// db.flush()?;
    /// let cost = db.estimate_reshape("leveling:T=10", 1 << 20)?;
    /// assert!(cost.extra_at_once_bytes() > 0, "fewer runs are dearer to write to: {cost:?}");
    /// db.set_policy("leveling:T=10")?;
    /// db.reshape()?;
    /// assert!(db.stats().levels.iter().all(|level| level.runs.len() <= 1));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for words that name no policy; [`Error::Io`] if storage refused,
    /// and nothing has changed; [`Error::Stopped`] if writing has ended.
    pub fn set_policy(&self, words: &str) -> Result<()> {
        let policy = parse_policy(words)?;
        let _changing = self.engine.design.lock();
        let shape = self.engine.scheduler.set_policy(policy)?;
        self.engine.commits.set_memtable_bytes(shape.buffer().0);
        self.engine.account.reserve_for_memtables(open::reserved_for_memtables(shape.buffer().0));
        Ok(())
    }

    /// Has the tree, as it is at the call, take the form of its shape now, and waits for that: no
    /// level but the last is full, and none has more runs than its shape allows. After
    /// [`Db::set_policy`], or after opening with another
    /// [`AdvancedOptions::policy`](crate::AdvancedOptions::policy), that is the change made at
    /// once; for a tree that has its form it does nothing. Each byte is written at most once for
    /// it, and levels whose runs suit the new shape are left alone, so it costs less than
    /// [`Db::compact`], which leaves one run.
    ///
    /// Writers and readers go on meanwhile. What is flushed or merged beside it may leave a level
    /// with a run too many, as it always may, until something arrives there, or until this is
    /// called again; after [`Db::flush`] and [`Db::wait_for_compactions`], with no writers,
    /// nothing is. If the process ends before, merges that have begun are gone on with at the next
    /// open, and the rest is left to arrivals, or to calling this again.
    ///
    /// # Errors
    /// As [`Db::compact`]; after an [`Error::Io`] it goes on in the background.
    pub fn reshape(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.reshape(),
        }
    }

    /// Says what a change to that policy would cost while `arriving_bytes` (raw bytes, what is in
    /// buffers now among them) are written: with the policy that the tree has, with the other one,
    /// and with the other one at once. Nothing is changed for it; also for a database opened
    /// for reading only.
    ///
    /// It is a simulation by the planner that will decide the merges, from the runs that there are.
    /// It takes what arrives to be entries whose keys are not there yet, and merges to end before
    /// the next buffer is full: overwriting costs less.
    ///
    /// Cost: some microseconds for each buffer of `arriving_bytes`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for words that name no policy, and for more bytes than fill a
    /// million buffers.
    pub fn estimate_reshape(&self, words: &str, arriving_bytes: u64) -> Result<ReshapeEstimate> {
        self.engine.scheduler.estimate_reshape(&*parse_policy(words)?, Bytes(arriving_bytes))
    }

    /// Chooses other filters, by the words that
    /// [`AdvancedOptions::filter`](crate::AdvancedOptions::filter) takes, until the database is
    /// closed. The tables that there are get theirs in the background, without reading or
    /// merging data, if they keep digests
    /// ([`AdvancedOptions::filter_digests`](crate::AdvancedOptions::filter_digests)); of the others
    /// those keep their filters that are worth most, as far as the memory goes. Readers and writers
    /// go on meanwhile. [`Db::wait_for_filter_rebuild`] waits for that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for words that name no filter; [`Error::Stopped`] if writing has
    /// ended.
    pub fn set_filter(&self, words: &str) -> Result<()> {
        let choice = parse_filter(words)?;
        self.engine.scheduler.set_filter(choice, self.engine.filter_digests && choice != FilterChoice::None)
    }

    /// Waits until all tables have the filters that they are to have. Beside writers that do not
    /// pause, that may never be.
    ///
    /// # Errors
    /// [`Error::Io`] if a filter cannot be read; it is tried again in the background.
    /// [`Error::InvalidArgument`] while merges are paused. [`Error::Stopped`] if writing has ended.
    pub fn wait_for_filter_rebuild(&self) -> Result<()> {
        match self.engine.database.health.check_running() {
            Err(error @ Error::ReadOnly { .. }) => Err(error),
            _ => self.engine.scheduler.wait_for_filter_rebuild(),
        }
    }

    /// Holds all merges where they are, until the returned value is dropped. Writers go on, and so
    /// do flushes: the tree gets more runs than its shape wants, and reads get slower.
    pub fn pause_compactions(&self) -> CompactionPause {
        self.engine.scheduler.pause_compactions();
        CompactionPause { engine: self.engine.clone() }
    }

    /// Makes every write acknowledged so far survive a crash of the machine.
    ///
    /// # Errors
    /// [`Error::Stopped`] if that failed, now or before.
    pub fn sync(&self) -> Result<()> {
        self.engine.commits.sync()
    }

    /// Makes a database of its own in `dir`, a directory that is empty or not there yet, as this
    /// one is at one moment after the call: all commits up to some one, in their order, those
    /// acknowledged before the call among them, and no part of a batch. When this returns it is
    /// complete and durable; it is opened like any other, and the two have nothing to do with
    /// each other from then on.
    ///
    /// Writes what is in memory to tables first, as [`Db::flush`], and waits for that. Then it
    /// takes no copy: the tables' files get a second name (a hard link) in `dir`, so
    /// a checkpoint costs hardly any time and space at first, and more as this database replaces
    /// tables that the checkpoint still has. Where files cannot have one, since `dir` is in
    /// another file system or that knows no links, they are copied, and the report says why.
    /// Readers, writers and merges go on meanwhile; [`Db::close`] may, too: then it is made of
    /// what was flushed before, or not at all.
    ///
    /// The moment `dir` has a file named `CURRENT`, the checkpoint is complete; a crash before
    /// leaves a directory without, which is to be removed.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
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
    /// [`Error::InvalidArgument`] if something stands in `dir`, or it cannot be made because the
    /// directory above it is missing; [`Error::Locked`] if another checkpoint is being made
    /// there; [`Error::Io`] if storage refused; [`Error::Stopped`] if writing has ended, since what
    /// is in memory cannot be written then, and [`Error::ReadOnly`] for the same reason. This
    /// database is none the worse for it, and in `dir` is no database: what was made is
    /// removed, up to the directory and its lock file, and it can be tried again.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.engine.database.health.check_running()?;
        let site = checkpoint::Site::claim(self.engine.env.as_ref(), dir.as_ref())?;
        self.flush()?;
        site.fill(&self.engine)
    }

    /// What the database looks like and what it did since it was opened.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine)
    }

    /// The shape that the tree has now, its runs as the planner counts them, and the merges in
    /// progress: what a simulation goes on from.
    #[doc(hidden)]
    pub fn planned(&self) -> (Shape, Occupancy, Vec<CompactionPlan>) {
        self.engine.scheduler.standing()
    }

    /// Reads all tables, the manifest, and the log as far as it is durable, and checks them: every
    /// checksum and every invariant. [`Options::verify`] does that for a database that cannot
    /// be opened. `progress` is told the bytes read so far and the bytes there are.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; damage is not an error but part of the report.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        verify::verify(&self.engine, progress)
    }

    /// What opening found: whether the log ended cleanly, and what was dropped if not.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.engine.recovery
    }

    /// Makes everything durable, notes in the manifest where the log ends, and ends writing for all
    /// clones of this handle. Clones, snapshots and iterators can still read; another process
    /// can open the database when the last of them is dropped.
    ///
    /// Dropping the last handle without this closes the database as the end of the process would:
    /// nothing is lost that its durability promised, but what fails meanwhile is not told, and
    /// recovery has less to check the log against. One that was opened for reading only is left as
    /// it is.
    ///
    /// # Errors
    /// [`Error::Stopped`] or [`Error::Io`] if the log or the manifest cannot be made durable.
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
        engine.scheduler.install(vec![Change::WalEnd { position: end.0 }], Activity::Flush).map(drop)
    }
}
