//! [`Manifest`]: the file that says what exists, and the only code that changes it.
//!
//! ```text
//! CURRENT ──names──▶ 0000000007.manifest    header │ base │ edit │ edit │ …
//! ```
//!
//! The manifest begins with a **base**, one edit that describes everything, and grows by one record per edit. An edit is committed when its
//! record is synced; until then the version before it is the current one, and after a crash it is one or the
//! other. What is committed was first applied to the version, so an edit that does not fit never reaches storage. After the sync
//! a **mark** is appended, a record without an edit, which is not waited for: it says that what stands before it was durable, and so makes damage of
//! the last edit an error rather than something that looks like an append which a crash cut short.
//!
//! **Rolling.** When the file has grown well past its base, the next commit first writes a new manifest whose base is the current version. The
//! switch is one rename:
//!
//! 1. write the new manifest's header and base, sync it, sync the directory;
//! 2. write `CURRENT.new`, sync it, rename it to `CURRENT`, sync the directory;
//! 3. remove the old manifest.
//!
//! A crash before the rename is durable leaves the old manifest in charge, one after it the new; both say the same. A new database
//! is made by steps 1 and 2, and nothing else is put into its directory before: so a directory without `CURRENT` and without tables and
//! log is where making a database was cut short.
//!
//! **Failures.** A failed append (the disk may be full) is cut off, and once the cut is durable the manifest is as if nothing had been tried: the
//! caller may commit again. A failed sync, also that of a cut, leaves it open what is on storage, so nothing may be built on
//! either answer: all later commits are refused, until opening the database again finds out. That a sync finds the disk full is made unlikely: space is
//! reserved before anything is appended.
//!
//! A roll that fails before the rename has done no harm: the old manifest goes on, what was made of the new one is removed, and
//! it is tried again a little later. That holds for a sync as well if space was all that it lacked, since nobody has built on the file. An error of
//! the rename may come although the name was changed; so `CURRENT` is read, and what it says now is what a sync of the directory makes durable.
//! If that sync fails, or nothing can be read, a crash may find either manifest in charge, and as they would differ from the next edit on, there is none.
//!
//! **Recovery** reads the manifest that `CURRENT` names. A record that is not whole ends it. Every record says up to where the file was
//! durable when it was written; if a whole record after the damage says that the damaged place was durable, or if the base is
//! damaged, something is lost: an error. Otherwise the damage is an append that was never acknowledged: it is cut off and reported.
//! What no mark says to be durable may have been read from a page cache that no sync ever carried to the device (even one whose sync
//! *failed*, and whose pages the system then took for clean). So it is written once more in place, the file is synced, and so is the
//! directory, before anything is built on what was read or anything stale is removed.
//!
//! Tests: `tree/tests`: every prefix, truncation and flipped bit of a small manifest; every step failing and every crash at a
//! step.

pub mod survey;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, File, Step};

use super::broken::Broken;
use super::table_file::TableFiles;
use super::version::{NextIds, Version};
use crate::error::{Error, Result};
use crate::format::checksum::Place;
use crate::format::edit::{Change, CompactionId, Edit, EditError, RunId};
use crate::format::manifest::{
    HEADER_BYTES, Header, HeaderError, Record, decode_current, decode_record, durable_mark_after, encode_current,
    encode_record,
};
use crate::format::meta::{EditNumber, TableId};
use crate::format::names::FileName;
use crate::step;
use crate::table::TableStorage;
use crate::wal::{Dropped, Tail};

/// A manifest is not rolled before it has this size, unless told otherwise: a megabyte is read in milliseconds, and holds thousands of edits.
pub const ROLL_BYTES_MIN: u64 = 1 << 20;

/// A manifest is rolled when it is this many times as large as its base: so the bytes written to bases are at most a third of those written
/// as edits, and recovery reads at most four times what describing the version takes.
const ROLL_GROWTH: u64 = 4;

/// The file that says what exists. All methods may be called from any thread; commits wait for each other.
#[derive(Debug)]
pub struct Manifest {
    env: Arc<dyn Env>,
    dir: PathBuf,
    next_table: AtomicU64,
    next_run: AtomicU64,
    next_compaction: AtomicU64,
    /// The file is not rolled before it has this size.
    roll_bytes_min: u64,
    /// Held while an edit is written and synced.
    wal: Mutex<EditLog>,
}

/// A manifest that was there.
#[derive(Debug)]
pub struct Recovered {
    /// The manifest; its version is the one that the database opens with.
    pub manifest: Manifest,
    /// What was cut off its end.
    pub dropped: Option<Dropped>,
}

/// The current file and what it says.
#[derive(Debug)]
struct EditLog {
    version: Arc<Version>,
    file: OpenManifest,
    /// The number of the next manifest: unfinished ones have used some.
    next_number: u64,
    /// After a roll that failed: not before that time, on the clock of the environment.
    roll_after: Duration,
    /// Files that could not be removed yet.
    leftovers: Vec<(PathBuf, Step)>,
    /// Why nothing more is written.
    failure: Option<Arc<Error>>,
}

/// A manifest file, open for appending.
#[derive(Debug)]
struct OpenManifest {
    path: PathBuf,
    file: Arc<dyn File>,
    number: u64,
    place: Place,
    /// Where the base ends.
    base_end: u64,
    /// Up to where the file is durable: all but the mark at its end.
    durable: u64,
    /// Where the next record goes.
    end: u64,
    /// Up to where space is reserved.
    reserved: u64,
    /// What an append left that found no space has still to be cut off.
    uncut: bool,
}

/// Space for edits is reserved in pieces of so many bytes.
const RESERVE_BYTES: u64 = 64 << 10;

/// Space for the mark after an edit is reserved together with that of the edit.
const MARK_BYTES_MAX: u64 = 128;

/// How long a roll that failed waits before it is tried again: it writes all of the base.
const ROLL_PAUSE: Duration = Duration::from_millis(500);

impl EditLog {
    fn new(version: Arc<Version>, file: OpenManifest) -> Self {
        let next_number = file.number + 1;
        Self { version, file, next_number, roll_after: Duration::ZERO, leftovers: Vec::new(), failure: None }
    }

    /// Removes a file, now or later: it does no harm, and opening the database removes what is stale.
    fn discard(&mut self, env: &dyn Env, path: PathBuf, step: Step) {
        match env.remove(&path, step) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a file could not be removed yet");
                self.leftovers.push((path, step));
            }
            _ => {}
        }
    }
}

impl Manifest {
    /// Makes a new database in `dir`, which exists and in which [`Manifest::recover`] found none. It has one empty tree.
    pub fn create(env: &Arc<dyn Env>, dir: &Path, files: Arc<TableFiles>) -> Result<Self> {
        // 0 stands for "not known yet" where checksums are seeded.
        let database = env.random().max(1);
        let version = Version::new(database, files);
        let file = OpenManifest::create_first(&**env, dir, &version)?;
        Ok(Self::new(env, dir, EditLog::new(Arc::new(version), file)))
    }

    /// Makes a database of what `version` says in `dir`, in which nothing stands but all of its tables: each is durable, but for its name. A crash meanwhile leaves
    /// the whole database, or none.
    pub fn create_with(env: &dyn Env, dir: &Path, version: &Version) -> Result<()> {
        match OpenManifest::create_first(env, dir, version) {
            // That is the end of this attempt, and of nothing else.
            Err(Error::Stopped { cause }) => Err(Error::clone(&cause)),
            created => created.map(drop),
        }
    }

    /// Opens the manifest of the database in `dir`; `None` if there is no database, in which case whatever an attempt to make one left behind
    /// has been removed. Files other than manifests and `CURRENT.new` are left alone. Nothing is changed if it answers with an error about
    /// the content of files.
    pub fn recover(env: &Arc<dyn Env>, dir: &Path, tail: Tail, files: Arc<TableFiles>) -> Result<Option<Recovered>> {
        let Some(names) = list(&**env, dir)? else { return Ok(None) };
        if !names.contains(&FileName::Current) {
            remove_unfinished(&**env, dir, &names, &Version::new(1, files))?;
            return Ok(None);
        }
        let number = read_current(&**env, dir)?;
        let content = Content::read(&**env, dir, number, files)?;
        let dropped = content.torn_tail(tail)?;
        let (version, file) = content.make_durable(&**env, dir)?;
        remove_stale(&**env, dir, &names, number)?;
        let manifest = Self::new(env, dir, EditLog::new(Arc::new(version), file));
        Ok(Some(Recovered { manifest, dropped }))
    }

    /// As [`Manifest::recover`], but changes nothing, and what it opens takes no edits: [`Error::ReadOnly`] is the cause. What stands past the last whole edit is
    /// told, and left where it is; what was read need not be durable.
    pub fn read(env: &Arc<dyn Env>, dir: &Path, tail: Tail, files: Arc<TableFiles>) -> Result<Option<Recovered>> {
        let Some(names) = list(&**env, dir)? else { return Ok(None) };
        if !names.contains(&FileName::Current) {
            refuse_finished(&**env, dir, &names, &Version::new(1, files))?;
            return Ok(None);
        }
        let content = Content::read(&**env, dir, read_current(&**env, dir)?, files)?;
        let dropped = content.torn_tail(tail)?;
        let (version, file) = content.left_alone(&**env)?;
        let failure = Some(Arc::new(Error::ReadOnly { dir: dir.to_owned() }));
        let wal = EditLog { failure, ..EditLog::new(Arc::new(version), file) };
        let manifest = Self::new(env, dir, wal);
        Ok(Some(Recovered { manifest, dropped }))
    }

    /// Writes a manifest that says nothing but `version`, under a number that no manifest has had; for who repairs. It and its name are durable when this
    /// returns; what is current does not change.
    pub fn write_base(env: &dyn Env, dir: &Path, number: u64, version: &Version) -> Result<()> {
        OpenManifest::create(env, dir, number, version).map(drop)
    }

    /// Makes `CURRENT` name a manifest, atomically and durably; for who repairs.
    pub fn make_current(env: &dyn Env, dir: &Path, number: u64) -> Result<()> {
        switch_current(env, dir, number)
    }

    fn new(env: &Arc<dyn Env>, dir: &Path, wal: EditLog) -> Self {
        let NextIds { table, run, merge } = wal.version.next_ids();
        Self {
            env: env.clone(),
            dir: dir.to_owned(),
            next_table: AtomicU64::new(table),
            next_run: AtomicU64::new(run),
            next_compaction: AtomicU64::new(merge),
            roll_bytes_min: ROLL_BYTES_MIN,
            wal: Mutex::new(Rank::Manifest, wal),
        }
    }

    /// The version after the last edit. Waits for a commit that is going on; what readers pin is published elsewhere.
    pub fn version(&self) -> Arc<Version> {
        self.wal.lock().version.clone()
    }

    /// Reads the current file again and compares what it says with the version in memory, whose invariants are checked too.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it says something else, or an invariant is broken; [`Error::Io`] if it cannot be read.
    pub fn verify(&self) -> Result<()> {
        let wal = self.wal.lock();
        let broken = |what: String| Error::corruption(&wal.file.path, 0, what);
        wal.version.check().map_err(|Broken(why)| broken(why))?;
        let number = read_current(&*self.env, &self.dir)?;
        // A switch of unknown fate leaves either manifest in charge; no edit came after it, so both say the same.
        let is_switched = wal.failure.is_some() && number + 1 == wal.next_number;
        if number != wal.file.number && !is_switched {
            let what = format!("it names manifest {number}, but the current one is {}", wal.file.number);
            return Err(Error::corruption(&FileName::Current.path(&self.dir), 0, what));
        }
        // Tables are not opened: the handles made here are only compared.
        let files = TableFiles::new(TableStorage::buffered(self.env.clone(), 0), &self.dir);
        let content = Content::read(&*self.env, &self.dir, number, files)?;
        // After a failure there may be one edit more in the file, or not.
        let same = wal.failure.is_some() || content.version.state_edit() == wal.version.state_edit();
        if (content.end < wal.file.durable && number == wal.file.number) || !same {
            return Err(broken(format!(
                "the file says something else than what was written to it; it is whole up to byte {}",
                content.end
            )));
        }
        Ok(())
    }

    /// An id for a new table.
    pub fn new_table_id(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new run.
    pub fn new_run_id(&self) -> RunId {
        RunId(self.next_run.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new merge.
    pub fn new_compaction_id(&self) -> CompactionId {
        CompactionId(self.next_compaction.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes sure that no new table gets `id` or a smaller one; for files that are in the directory although no edit names them.
    pub fn skip_table_id(&self, id: TableId) {
        self.next_table.fetch_max(id.0.saturating_add(1), Ordering::Relaxed);
    }

    /// Makes all of `changes` true at once and for ever, and returns the version in which they are. The ids that were given out need no change
    /// of their own. After [`Change::WalEnd`] the next commit must contain [`Change::WalReopened`].
    ///
    /// # Errors
    /// [`Error::Io`] if nothing was changed; a later commit may succeed. [`Error::Stopped`] if it is unknown until the database is opened again
    /// whether the changes are durable; then every later commit answers the same.
    ///
    /// # Panics
    /// If the changes do not fit the version; then nothing was written.
    pub fn commit(&self, changes: Vec<Change>) -> Result<Arc<Version>> {
        let mut wal = self.wal.lock();
        if let Some(cause) = &wal.failure {
            return Err(Error::Stopped { cause: cause.clone() });
        }
        let edit = Edit { number: EditNumber(wal.version.edit_number().0 + 1), changes: self.with_ids(&wal, changes) };
        let applied = wal.version.apply(&edit).unwrap_or_else(|Broken(why)| panic!("{why}; in {edit:#?}"));
        debug_assert_eq!(applied.version.check(), Ok(()), "after {edit:#?}");
        if let Err(error) = self.write(&mut wal, &edit) {
            if let Error::Stopped { cause } = &error {
                wal.failure = Some(cause.clone());
            }
            return Err(error);
        }
        wal.version = Arc::new(applied.version);
        for table in applied.released {
            table.mark_obsolete();
        }
        match wal.file.append_mark() {
            // The edit is durable; but there may now be half a mark where the next one belongs.
            Err(Error::Stopped { cause }) => wal.failure = Some(cause),
            Err(error) => tracing::warn!(%error, "the manifest does without a mark"),
            Ok(()) => {}
        }
        Ok(wal.version.clone())
    }

    /// Lets the file be rolled from this size on, instead of [`ROLL_BYTES_MIN`].
    pub fn roll_from(&mut self, bytes: u64) {
        self.roll_bytes_min = bytes;
    }

    /// Puts what ids have been given out since the last edit, here or by the changes themselves, before the changes.
    fn with_ids(&self, wal: &EditLog, mut changes: Vec<Change>) -> Vec<Change> {
        changes.retain(|change| {
            let Change::IdsUsed { tables, runs, compactions } = change else { return true };
            self.next_table.fetch_max(*tables, Ordering::Relaxed);
            self.next_run.fetch_max(*runs, Ordering::Relaxed);
            self.next_compaction.fetch_max(*compactions, Ordering::Relaxed);
            false
        });
        let next = NextIds {
            table: self.next_table.load(Ordering::Relaxed),
            run: self.next_run.load(Ordering::Relaxed),
            merge: self.next_compaction.load(Ordering::Relaxed),
        };
        if next != wal.version.next_ids() {
            changes.insert(0, Change::IdsUsed { tables: next.table, runs: next.run, compactions: next.merge });
        }
        changes
    }

    fn write(&self, wal: &mut EditLog, edit: &Edit) -> Result<()> {
        let is_large = wal.file.end > self.roll_bytes_min.max(ROLL_GROWTH * wal.file.base_end);
        if is_large && self.env.now() >= wal.roll_after {
            match self.roll(wal) {
                Ok(()) => {}
                Err(error @ Error::Stopped { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a new manifest could not be made; the old one goes on");
                    wal.roll_after = self.env.now() + ROLL_PAUSE;
                }
            }
        }
        wal.file.append(edit)
    }

    /// Goes on in a new manifest whose base is the current version. [`Error::Stopped`] if it is unknown which manifest is in charge; after any other
    /// error it is the old one.
    fn roll(&self, wal: &mut EditLog) -> Result<()> {
        let env = &*self.env;
        for (path, step) in std::mem::take(&mut wal.leftovers) {
            wal.discard(env, path, step);
        }
        let number = wal.next_number;
        wal.next_number += 1;
        let made = OpenManifest::create(env, &self.dir, number, &wal.version)
            .and_then(|next| switch_current(env, &self.dir, number).map(|()| next));
        match made {
            Ok(next) => {
                let old = std::mem::replace(&mut wal.file, next);
                wal.discard(env, old.path, step::MANIFEST_REMOVE);
                Ok(())
            }
            Err(error @ Error::Stopped { .. }) => Err(error),
            Err(error) => {
                wal.discard(env, FileName::CurrentNew.path(&self.dir), step::CURRENT_REMOVE);
                wal.discard(env, FileName::Manifest(number).path(&self.dir), step::MANIFEST_REMOVE);
                Err(error)
            }
        }
    }
}

impl OpenManifest {
    /// Makes the first manifest of a database, and that the current one. Before that it makes all names durable that stand beside it.
    fn create_first(env: &dyn Env, dir: &Path, version: &Version) -> Result<Self> {
        let file = Self::create(env, dir, FIRST_NUMBER, version)?;
        switch_current(env, dir, FIRST_NUMBER)?;
        Ok(file)
    }

    /// Makes a manifest whose base is `version`; when it returns, the file and its name are durable. [`Error::Io`] if what was made can be thrown away.
    fn create(env: &dyn Env, dir: &Path, number: u64, version: &Version) -> Result<Self> {
        let path = FileName::Manifest(number).path(dir);
        let (bytes, place) = base_bytes(number, version);
        let failed = |step: Step| move |source| Error::io(step.0, &FileName::Manifest(number).path(dir), source);
        let file = env.create(&path, step::MANIFEST_CREATE).map_err(failed(step::MANIFEST_CREATE))?;
        file.write_all_at(&bytes, 0, step::MANIFEST_WRITE_BASE).map_err(failed(step::MANIFEST_WRITE_BASE))?;
        let synced = file.sync(step::MANIFEST_SYNC_BASE).map_err(failed(step::MANIFEST_SYNC_BASE));
        synced.map_err(Error::of_sync_of_new_file)?;
        sync_dir(env, dir, step::MANIFEST_SYNC_DIRECTORY).map_err(Error::ends_writing)?;
        let end = bytes.len() as u64;
        Ok(Self { path, file, number, place, base_end: end, durable: end, end, reserved: end, uncut: false })
    }

    /// Appends an edit and makes it durable. [`Error::Io`] if nothing was appended, [`Error::Stopped`] if that is unknown.
    fn append(&mut self, edit: &Edit) -> Result<()> {
        self.write(&edit.encode(), step::MANIFEST_APPEND)?;
        let synced = self.file.sync(step::MANIFEST_SYNC);
        synced.map_err(|source| Error::io(step::MANIFEST_SYNC.0, &self.path, source).ends_writing())?;
        self.durable = self.end;
        Ok(())
    }

    /// Appends the mark that says that everything before it is durable.
    fn append_mark(&mut self) -> Result<()> {
        self.write(&[], step::MANIFEST_MARK)
    }

    fn write(&mut self, edit: &[u8], step: Step) -> Result<()> {
        let record = encode_record(self.place, self.end, self.durable, edit);
        if self.uncut {
            self.cut()?;
        }
        let mark = if edit.is_empty() { 0 } else { MARK_BYTES_MAX };
        self.reserve(self.end + record.len() as u64 + mark)?;
        if let Err(source) = self.file.write_all_at(&record, self.end, step) {
            let error = Error::io(step.0, &self.path, source);
            self.uncut = true;
            return match self.cut() {
                Ok(()) => Err(error),
                // What found no space is not whole: should a crash bring it back, recovery drops it. So the cut can wait for the next record.
                Err(cut @ Error::Io { .. }) if error.is_storage_full() => {
                    tracing::warn!(%cut, "an edit found no space, and could not be cut off yet");
                    Err(error)
                }
                Err(cut) => {
                    tracing::error!(%error, "an edit could not be written, and cutting it off failed as well");
                    Err(cut.ends_writing())
                }
            };
        }
        self.end += record.len() as u64;
        Ok(())
    }

    /// Reserves space up to `end` and some more, or at least up to `end` if there is no space for more.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.reserved {
            return Ok(());
        }
        let ample = end.next_multiple_of(RESERVE_BYTES);
        let reserved = match self.file.reserve(ample, step::MANIFEST_RESERVE) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                self.file.reserve(end, step::MANIFEST_RESERVE).map(|()| end)
            }
            other => other.map(|()| ample),
        };
        self.reserved = reserved.map_err(|source| Error::io(step::MANIFEST_RESERVE.0, &self.path, source))?;
        Ok(())
    }

    /// Takes back what a failed append may have left, for good: no crash may bring back what the caller is told was not written. [`Error::Stopped`] if the
    /// sync failed.
    fn cut(&mut self) -> Result<()> {
        let failed = |step: Step| {
            let path = self.path.clone();
            move |source| Error::io(step.0, &path, source)
        };
        self.reserved = self.end;
        self.file.set_len(self.end, step::MANIFEST_CUT_APPEND).map_err(failed(step::MANIFEST_CUT_APPEND))?;
        let synced = self.file.sync(step::MANIFEST_SYNC_CUT).map_err(failed(step::MANIFEST_SYNC_CUT));
        self.uncut = false;
        synced.map_err(Error::ends_writing)
    }
}

/// The number of a new database's manifest.
const FIRST_NUMBER: u64 = 1;

/// The header and the base of a manifest, and where its records belong.
fn base_bytes(number: u64, version: &Version) -> (Vec<u8>, Place) {
    let header = Header { number, database: version.database() };
    let mut bytes = header.encode();
    let place = header.place();
    bytes.extend(encode_record(place, HEADER_BYTES, 0, &version.state_edit().encode()));
    (bytes, place)
}

/// Makes `CURRENT` name a manifest, atomically and durably. [`Error::Io`] if it names what it named before; [`Error::Stopped`] if that is unknown.
fn switch_current(env: &dyn Env, dir: &Path, number: u64) -> Result<()> {
    let (new, current) = (FileName::CurrentNew.path(dir), FileName::Current.path(dir));
    let failed = |step: Step| move |source| Error::io(step.0, &FileName::CurrentNew.path(dir), source);
    let file = env.create(&new, step::CURRENT_CREATE).map_err(failed(step::CURRENT_CREATE))?;
    let content = encode_current(number);
    file.write_all_at(content.as_bytes(), 0, step::CURRENT_WRITE).map_err(failed(step::CURRENT_WRITE))?;
    let synced = file.sync(step::CURRENT_SYNC).map_err(failed(step::CURRENT_SYNC));
    synced.map_err(Error::of_sync_of_new_file)?;
    if let Err(source) = env.rename(&new, &current, step::CURRENT_RENAME) {
        let error = failed(step::CURRENT_RENAME)(source);
        match read_current(env, dir) {
            Ok(named) if named == number => tracing::warn!(%error, "but it was done"),
            Ok(_) => return Err(error),
            Err(_) => return Err(error.ends_writing()),
        }
    }
    sync_dir(env, dir, step::CURRENT_SYNC_DIRECTORY).map_err(Error::ends_writing)
}

fn sync_dir(env: &dyn Env, dir: &Path, step: Step) -> Result<()> {
    env.sync_dir(dir, step).map_err(|source| Error::io(step.0, dir, source))
}

/// Our files in the directory; `None` if there is no such directory.
fn list(env: &dyn Env, dir: &Path) -> Result<Option<Vec<FileName>>> {
    match env.list(dir) {
        Ok(names) => Ok(Some(names.iter().filter_map(|name| FileName::parse(name.to_str()?)).collect())),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("database: list directory", dir, source)),
    }
}

/// Removes what is left of a database whose making was cut short.
fn remove_unfinished(env: &dyn Env, dir: &Path, names: &[FileName], new: &Version) -> Result<()> {
    refuse_finished(env, dir, names, new)?;
    for name in names {
        let step = match name {
            FileName::Lock | FileName::Current => continue,
            FileName::CurrentNew => step::CURRENT_REMOVE,
            FileName::Manifest(_) => step::MANIFEST_REMOVE,
            FileName::Wal(_) => step::LOG_RECOVERY_REMOVE,
            FileName::Table(_) => step::TABLE_REMOVE,
        };
        remove(env, &name.path(dir), step)?;
    }
    Ok(())
}

/// An error about anything that a database whose making was cut short cannot have left: it means that `CURRENT` was there once.
fn refuse_finished(env: &dyn Env, dir: &Path, names: &[FileName], new: &Version) -> Result<()> {
    // The base of a new database has the same length whatever its id.
    let unfinished_bytes_max = base_bytes(FIRST_NUMBER, new).0.len() as u64;
    let lost = |name: FileName| {
        let what = format!(
            "the file is missing, though {} is there; if this was to be a checkpoint, it was cut short: remove it, and make another",
            name.name()
        );
        Error::corruption(&FileName::Current.path(dir), 0, what)
    };
    for name in names {
        let bytes_max = match name {
            FileName::Lock | FileName::Current | FileName::CurrentNew => continue,
            FileName::Manifest(FIRST_NUMBER) => unfinished_bytes_max,
            FileName::Manifest(_) => return Err(lost(*name)),
            FileName::Wal(_) | FileName::Table(_) => 0,
        };
        if length(env, &name.path(dir))? > bytes_max {
            return Err(lost(*name));
        }
    }
    Ok(())
}

fn length(env: &dyn Env, path: &Path) -> Result<u64> {
    let file = open(env, path, Access::Read)?;
    file.len().map_err(|source| Error::io("database: read length", path, source))
}

fn open(env: &dyn Env, path: &Path, access: Access) -> Result<Arc<dyn File>> {
    env.open(path, access).map_err(|source| Error::io("manifest: open", path, source))
}

fn read_all(file: &dyn File, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let length = usize::try_from(file.len()?).map_err(std::io::Error::other)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    read().map_err(|source| Error::io("manifest: read", path, source))
}

fn remove(env: &dyn Env, path: &Path, step: Step) -> Result<()> {
    env.remove(path, step).map_err(|source| Error::io(step.0, path, source))
}

/// The number of the manifest that `CURRENT` names.
fn read_current(env: &dyn Env, dir: &Path) -> Result<u64> {
    let path = FileName::Current.path(dir);
    let content = read_all(&*open(env, &path, Access::Read)?, &path)?;
    decode_current(&content)
        .ok_or_else(|| Error::corruption(&path, 0, "it does not name a manifest, or its checksum is wrong"))
}

/// Removes the manifests that `CURRENT` does not name, and `CURRENT.new`.
fn remove_stale(env: &dyn Env, dir: &Path, names: &[FileName], current: u64) -> Result<()> {
    for name in names {
        match name {
            FileName::Manifest(number) if *number != current => remove(env, &name.path(dir), step::MANIFEST_REMOVE)?,
            FileName::CurrentNew => remove(env, &name.path(dir), step::CURRENT_REMOVE)?,
            _ => {}
        }
    }
    Ok(())
}

/// What is in a manifest file.
struct Content {
    path: PathBuf,
    number: u64,
    bytes: Vec<u8>,
    place: Place,
    version: Version,
    /// Every table that the manifest ever named.
    named: BTreeSet<TableId>,
    base_end: u64,
    /// Up to where it is known to be durable.
    durable: u64,
    /// Where the last whole record ends.
    end: u64,
}

impl Content {
    /// Reads the manifest that `CURRENT` names, up to the first record that is not whole.
    fn read(env: &dyn Env, dir: &Path, number: u64, files: Arc<TableFiles>) -> Result<Self> {
        let mut content = Self::read_base(env, dir, number, files)?;
        content.read_edits()?;
        Ok(content)
    }

    /// Reads the manifest up to the end of its base.
    fn read_base(env: &dyn Env, dir: &Path, number: u64, files: Arc<TableFiles>) -> Result<Self> {
        let path = FileName::Manifest(number).path(dir);
        let file = match env.open(&path, Access::Read) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corruption(&path, 0, "the file is missing, though CURRENT names it"));
            }
            file => file.map_err(|source| Error::io("manifest: open", &path, source))?,
        };
        let bytes = read_all(&*file, &path)?;
        let header = Header::decode(&bytes, number).map_err(|error| match error {
            HeaderError::Damaged(what) => Error::corruption(&path, 0, what),
            HeaderError::OtherVersion(version) => Error::other_version(&path, version),
        })?;
        let place = header.place();
        let Some(base) = decode_record(place, &bytes, HEADER_BYTES) else {
            return Err(Error::corruption(&path, HEADER_BYTES, "the base is damaged"));
        };
        let edit = decode_edit(&path, HEADER_BYTES, &base)?;
        let version =
            Version::from_base(&edit, files).map_err(|Broken(why)| Error::corruption(&path, HEADER_BYTES, why))?;
        if version.database() != header.database {
            return Err(Error::corruption(&path, HEADER_BYTES, "header and base name different databases"));
        }
        let (base_end, named) = (base.end, tables_named(&edit).collect());
        Ok(Self { path, number, bytes, place, version, named, base_end, durable: base_end, end: base_end })
    }

    fn read_edits(&mut self) -> Result<()> {
        while let Some(record) = decode_record(self.place, &self.bytes, self.end) {
            if !record.is_mark() {
                let edit = decode_edit(&self.path, self.end, &record)?;
                let applied = self.version.apply(&edit);
                self.version = applied.map_err(|Broken(why)| Error::corruption(&self.path, self.end, why))?.version;
                self.named.extend(tables_named(&edit));
            }
            // `CURRENT` named the file after its base was durable.
            self.durable = record.durable.max(self.base_end);
            self.end = record.end;
        }
        Ok(())
    }

    /// What stands after the last whole record, if that is what a crash leaves behind.
    fn torn_tail(&self, tail: Tail) -> Result<Option<Dropped>> {
        let (offset, length) = (self.end, self.bytes.len() as u64);
        if offset == length {
            return Ok(None);
        }
        let durable = durable_mark_after(self.place, &self.bytes, offset);
        if durable > offset {
            let what = format!("an edit is damaged that was durable: the file was up to byte {durable}");
            return Err(Error::corruption(&self.path, offset, what));
        }
        if tail == Tail::Strict {
            return Err(Error::corruption(&self.path, offset, "the last edit is torn"));
        }
        let why = "what stands here is not a whole edit".to_owned();
        Ok(Some(Dropped { path: self.path.clone(), offset, bytes: length - offset, commit_groups: 0, why }))
    }

    /// What was read, of a file that is left as it is.
    fn left_alone(self, env: &dyn Env) -> Result<(Version, OpenManifest)> {
        let Self { path, number, place, version, base_end, durable, end, .. } = self;
        let file = open(env, &path, Access::Read)?;
        Ok((version, OpenManifest { path, file, number, place, base_end, durable, end, reserved: end, uncut: false }))
    }

    /// Makes what was read durable, without the torn tail, and the name `CURRENT` as well.
    fn make_durable(self, env: &dyn Env, dir: &Path) -> Result<(Version, OpenManifest)> {
        let Self { path, number, bytes, place, version, base_end, durable, end, named: _ } = self;
        let file = open(env, &path, Access::ReadWrite)?;
        let failed = |step: Step| {
            let path = &path;
            move |source| Error::io(step.0, path, source)
        };
        if end < bytes.len() as u64 {
            file.set_len(end, step::MANIFEST_CUT).map_err(failed(step::MANIFEST_CUT))?;
        }
        if durable < end {
            let unsure = &bytes[durable as usize..end as usize];
            file.write_all_at(unsure, durable, step::MANIFEST_RECOVERY_WRITE)
                .map_err(failed(step::MANIFEST_RECOVERY_WRITE))?;
        }
        file.sync(step::MANIFEST_RECOVERY_SYNC).map_err(failed(step::MANIFEST_RECOVERY_SYNC))?;
        sync_dir(env, dir, step::MANIFEST_RECOVERY_SYNC_DIRECTORY)?;
        let file = OpenManifest { path, file, number, place, base_end, durable: end, end, reserved: end, uncut: false };
        Ok((version, file))
    }
}

/// The tables that an edit adds.
fn tables_named(edit: &Edit) -> impl Iterator<Item = TableId> {
    edit.changes.iter().filter_map(|change| match change {
        Change::TableAdded { meta, .. } => Some(meta.id),
        _ => None,
    })
}

fn decode_edit(path: &Path, offset: u64, record: &Record<'_>) -> Result<Edit> {
    let unsupported = |what| Error::Unsupported { path: path.to_owned(), what };
    let edit = Edit::decode(record.edit).map_err(|error| match error {
        EditError::Malformed(_) => Error::corruption(path, offset, error.to_string()),
        EditError::UnknownChange(_) | EditError::UnknownField(_) => unsupported(error.to_string()),
    })?;
    match edit.unserved() {
        Some((table, what)) => {
            Err(unsupported(format!("table {} has {what}, which this version cannot read", table.0)))
        }
        None => Ok(edit),
    }
}
