//! [`Manifest`]: the file that says what exists, and the only code that changes it.
//!
//! ```text
//! CURRENT ──names──▶ 0000000007.manifest    header │ base │ edit │ edit │ …
//! ```
//!
//! A manifest is a [journal](crate::journal) of one file, whose items are edits. It begins with a
//! **base**, one edit that describes everything, and grows by one record per edit. An edit is
//! committed when its record is synced; until then the version before it is the current one, and
//! after a crash it is one or the other. What is committed was first applied to the version, so an
//! edit that does not fit never reaches storage. After the sync a **mark** is appended, a record
//! without an edit, which is not waited for: it says that what stands before it was durable, and so
//! makes damage of the last edit an error rather than something that looks like an append which a
//! crash cut short.
//!
//! **Rolling.** When the file has grown well past its base, the next commit first writes a new
//! manifest whose base is the current version. The switch is one rename:
//!
//! 1. write the new manifest's header and base, sync it, sync the directory;
//! 2. write `CURRENT.new`, sync it, rename it to `CURRENT`, sync the directory;
//! 3. remove the old manifest.
//!
//! A crash before the rename is durable leaves the old manifest in charge, one after it the new;
//! both say the same. A new database is made by steps 1 and 2, and nothing else is put into its
//! directory before: so a directory without `CURRENT`, tables and WAL is one in which a crash
//! interrupted that.
//!
//! **Failures.** An edit that could not be appended is as if it had never been tried: the caller
//! may commit again. After a failed sync nothing may be built on either answer: all later commits
//! are refused, until opening the database again finds out. That a sync finds the disk full is made
//! unlikely: space is reserved before anything is appended.
//!
//! A roll that fails before the rename has done no harm: the old manifest goes on, what was made of
//! the new one is removed, and it is tried again a little later. That holds for a sync as well if
//! space was all that it lacked, since nobody has built on the file. An error of the rename may
//! come although the name was changed; so `CURRENT` is read, and what it says now is what a sync of
//! the directory makes durable. If that sync fails, or nothing can be read, a crash may find either
//! manifest in charge, and as they would differ from the next edit on, there is none.
//!
//! **Recovery** reads the manifest that `CURRENT` names. Where it ends, and whether what follows is
//! lost or torn, the journal says; a damaged base is always a loss, since `CURRENT` named the file
//! after that was durable. What was read is durable before anything is built on it or anything
//! stale is removed.
//!
//! Tests: `tree/tests`: every prefix, truncation and flipped bit of a small manifest; every step
//! failing and every crash at a step.

mod content;
mod file;
pub mod survey;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank, schedule_point};
use tamarack_env::{Access, Env, File, Step};

use self::content::Content;
use self::file::{OpenManifest, sync_dir};
use super::broken::Broken;
use super::table_file::TableFiles;
use super::version::{NextIds, Version};
use crate::directory::Listing;
use crate::error::{Error, Result};
use crate::format::current::{decode_current, encode_current};
use crate::format::edit::{Change, CompactionId, Edit, RunId};
use crate::format::meta::{EditNumber, TableId};
use crate::format::names::FileName;
use crate::format::record::{FILE_HEADER_BYTES, RECORD_ALIGNMENT, RECORD_HEAD_BYTES};
use crate::journal::{Dropped, Ending, Tail};
use crate::step;
use crate::table::TableStorage;

pub use self::file::PROFILE;

/// A manifest is not rolled before it has this size, unless told otherwise: a megabyte is read in
/// milliseconds, and holds thousands of edits.
pub const ROLL_BYTES_MIN: u64 = 1 << 20;

/// A manifest is rolled when it is this many times as large as its base: so the bytes written to
/// bases are at most a third of those written as edits, and recovery reads at most four times what
/// describing the version takes.
const ROLL_GROWTH: u64 = 4;

/// The file that says what exists. All methods may be called from any thread; commits wait for each
/// other.
#[derive(Debug)]
pub struct Manifest {
    env: Arc<dyn Env>,
    dir: PathBuf,
    next_table: AtomicU64,
    next_run: AtomicU64,
    next_compaction: AtomicU64,
    /// The file is not rolled before it has this size.
    roll_bytes_min: u64,
    /// The version after the last durable edit. Replaced under the lock of `journal`, read without
    /// it: nobody waits for another thread's sync to learn it.
    version: ArcSwap<Version>,
    /// Held while an edit is written and synced.
    journal: Mutex<EditJournal>,
}

/// A manifest that was there.
#[derive(Debug)]
pub struct Recovered {
    /// The manifest; its version is the one that the database opens with.
    pub manifest: Manifest,
    /// What was cut off its end.
    pub dropped: Option<Dropped>,
}

/// The current file.
#[derive(Debug)]
struct EditJournal {
    file: OpenManifest,
    /// The number of the next manifest: unfinished ones have used some.
    next_number: u64,
    /// After a roll that failed: not before that time, on the clock of the environment.
    roll_after: Duration,
    /// Files that could not be removed yet.
    leftovers: Vec<(PathBuf, Step)>,
    /// Whether more can be written.
    ending: Ending,
}

/// How long a roll that failed waits before it is tried again: it writes all of the base.
const ROLL_PAUSE: Duration = Duration::from_millis(500);

impl EditJournal {
    fn new(file: OpenManifest) -> Self {
        let next_number = file.number() + 1;
        let (roll_after, leftovers, ending) = (Duration::ZERO, Vec::new(), Ending::default());
        Self { file, next_number, roll_after, leftovers, ending }
    }

    /// Removes a file, now or later: it does no harm, and opening the database removes what is
    /// stale.
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
    /// Makes a new database in `dir`, which exists and in which [`Manifest::recover`] found none.
    /// It has one empty tree.
    pub fn create(env: &Arc<dyn Env>, dir: &Path, files: Arc<TableFiles>) -> Result<Self> {
        // 0 stands for "not known yet" where checksums are seeded.
        let database = env.random().max(1);
        let version = Version::new(database, files);
        let file = create_first(&**env, dir, &version)?;
        Ok(Self::new(env, dir, version, EditJournal::new(file)))
    }

    /// Makes a database of what `version` says in `dir`, in which nothing stands but all of its
    /// tables: each is durable, but for its name. A crash meanwhile leaves the whole database, or
    /// none.
    pub fn create_with(env: &dyn Env, dir: &Path, version: &Version) -> Result<()> {
        match create_first(env, dir, version) {
            // That is the end of this attempt, and of nothing else.
            Err(Error::Stopped { cause }) => Err(Error::clone(&cause)),
            created => created.map(drop),
        }
    }

    /// Opens the manifest of the database in `dir`; `None` if there is no database, in which case
    /// whatever an attempt to make one left behind has been removed. Files other than manifests,
    /// `CURRENT.new` and `CALIBRATION.new` are left alone. Nothing is changed if it answers with an
    /// error about the content of files.
    pub fn recover(env: &Arc<dyn Env>, dir: &Path, tail: Tail, files: Arc<TableFiles>) -> Result<Option<Recovered>> {
        let Some(listing) = Listing::find(&**env, dir)? else { return Ok(None) };
        let names: Vec<FileName> = listing.files().collect();
        if !names.contains(&FileName::Current) {
            remove_unfinished(&**env, dir, &names, &Version::new(1, files))?;
            return Ok(None);
        }
        let number = read_current(&**env, dir)?;
        let content = Content::read(&**env, dir, number, files, Access::ReadWrite)?;
        let dropped = content.torn_end(tail)?;
        content.make_durable()?;
        sync_dir(&**env, dir, step::MANIFEST_RECOVERY_SYNC_DIRECTORY)?;
        let (version, file) = content.open()?;
        remove_stale(&**env, dir, &names, number)?;
        let manifest = Self::new(env, dir, version, EditJournal::new(file));
        Ok(Some(Recovered { manifest, dropped }))
    }

    /// As [`Manifest::recover`], but changes nothing, and what it opens takes no edits:
    /// [`Error::ReadOnly`] is the cause. What stands past the last whole edit is told, and left
    /// where it is; what was read need not be durable.
    pub fn read(env: &Arc<dyn Env>, dir: &Path, tail: Tail, files: Arc<TableFiles>) -> Result<Option<Recovered>> {
        let Some(listing) = Listing::find(&**env, dir)? else { return Ok(None) };
        let names: Vec<FileName> = listing.files().collect();
        if !names.contains(&FileName::Current) {
            refuse_finished(&**env, dir, &names, &Version::new(1, files))?;
            return Ok(None);
        }
        let content = Content::read(&**env, dir, read_current(&**env, dir)?, files, Access::Read)?;
        let dropped = content.torn_end(tail)?;
        let (version, file) = content.open()?;
        let ending = Ending::because(Error::ReadOnly { dir: dir.to_owned() });
        let journal = EditJournal { ending, ..EditJournal::new(file) };
        let manifest = Self::new(env, dir, version, journal);
        Ok(Some(Recovered { manifest, dropped }))
    }

    /// Writes a manifest that says nothing but `version`, under a number that no manifest has had;
    /// for who repairs. It and its name are durable when this returns; what is current does not
    /// change.
    pub fn write_base(env: &dyn Env, dir: &Path, number: u64, version: &Version) -> Result<()> {
        OpenManifest::create(env, dir, number, version).map(drop)
    }

    /// Makes `CURRENT` name a manifest, atomically and durably; for who repairs.
    pub fn make_current(env: &dyn Env, dir: &Path, number: u64) -> Result<()> {
        switch_current(env, dir, number)
    }

    fn new(env: &Arc<dyn Env>, dir: &Path, version: Version, journal: EditJournal) -> Self {
        let NextIds { table, run, compaction } = version.next_ids();
        Self {
            env: env.clone(),
            dir: dir.to_owned(),
            next_table: AtomicU64::new(table),
            next_run: AtomicU64::new(run),
            next_compaction: AtomicU64::new(compaction),
            roll_bytes_min: ROLL_BYTES_MIN,
            version: ArcSwap::from_pointee(version),
            journal: Mutex::new(Rank::Manifest, journal),
        }
    }

    /// The version after the last durable edit. Takes no lock, and does not wait for a commit that
    /// is going on; what readers pin is published elsewhere.
    pub fn version(&self) -> Arc<Version> {
        schedule_point();
        self.version.load_full()
    }

    /// Reads the current file again and compares what it says with the version in memory, whose
    /// invariants are checked too.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it says something else, or an invariant is broken; [`Error::Io`] if
    /// it cannot be read.
    pub fn verify(&self) -> Result<()> {
        let journal = self.journal.lock();
        let version = self.version();
        let broken = |what: String| Error::corruption(journal.file.segment.path(), 0, what);
        version.check().map_err(|Broken(why)| broken(why))?;
        let number = read_current(&*self.env, &self.dir)?;
        // A switch of unknown fate leaves either manifest in charge; no edit came after it, so both
        // say the same.
        let is_switched = journal.ending.is_over() && number + 1 == journal.next_number;
        if number != journal.file.number() && !is_switched {
            let what = format!("it names manifest {number}, but the current one is {}", journal.file.number());
            return Err(Error::corruption(&FileName::Current.path(&self.dir), 0, what));
        }
        // Tables are not opened: the handles made here are only compared.
        let files = TableFiles::new(TableStorage::buffered(self.env.clone(), 0), &self.dir);
        let content = Content::read(&*self.env, &self.dir, number, files, Access::Read)?;
        // After a failure there may be one edit more in the file, or not.
        let same = journal.ending.is_over() || content.version.state_edit() == version.state_edit();
        if (content.end() < journal.file.segment.synced() && number == journal.file.number()) || !same {
            return Err(broken(format!(
                "the file says something else than what was written to it; it is whole up to byte {}",
                content.end()
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

    /// An id for a new compaction.
    pub fn new_compaction_id(&self) -> CompactionId {
        CompactionId(self.next_compaction.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes sure that no new table gets `id` or a smaller one; for files that are in the directory
    /// although no edit names them.
    pub fn skip_table_id(&self, id: TableId) {
        self.next_table.fetch_max(id.0.saturating_add(1), Ordering::Relaxed);
    }

    /// Makes all of `changes` true at once and for ever, and returns the version in which they are.
    /// The ids that were given out need no change of their own. After [`Change::WalEnd`] the next
    /// commit must contain [`Change::WalReopened`].
    ///
    /// # Errors
    /// [`Error::Io`] if nothing was changed; a later commit may succeed. [`Error::Stopped`] if it
    /// is unknown until the database is opened again whether the changes are durable; then every
    /// later commit answers the same.
    ///
    /// # Panics
    /// If the changes do not fit the version; then nothing was written.
    pub fn commit(&self, changes: Vec<Change>) -> Result<Arc<Version>> {
        let mut journal = self.journal.lock();
        journal.ending.check()?;
        // Nobody else replaces it while this thread has the lock.
        let before = self.version();
        let edit = Edit { number: EditNumber(before.edit_number().0 + 1), changes: self.with_ids(&before, changes) };
        let applied = before.apply(&edit).unwrap_or_else(|Broken(why)| panic!("{why}; in {edit:#?}"));
        debug_assert_eq!(applied.version.check(), Ok(()), "after {edit:#?}");
        if let Err(error) = self.write(&mut journal, &before, &edit) {
            return Err(journal.ending.note(error));
        }
        let version = Arc::new(applied.version);
        schedule_point();
        self.version.store(version.clone());
        for table in applied.released {
            table.mark_obsolete();
        }
        if let Err(error) = journal.file.append_mark(edit.number.0 + 1) {
            // The edit is durable; but if half a mark may stand where the next one belongs, that is
            // the end.
            let error = journal.ending.note(error);
            tracing::warn!(%error, "the manifest does without a mark");
        }
        Ok(version)
    }

    /// Lets the file be rolled from this size on, instead of [`ROLL_BYTES_MIN`].
    pub fn roll_from(&mut self, bytes: u64) {
        self.roll_bytes_min = bytes;
    }

    /// Puts what ids have been given out since the last edit, here or by the changes themselves,
    /// before the changes.
    fn with_ids(&self, version: &Version, mut changes: Vec<Change>) -> Vec<Change> {
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
            compaction: self.next_compaction.load(Ordering::Relaxed),
        };
        if next != version.next_ids() {
            changes.insert(0, Change::IdsUsed { tables: next.table, runs: next.run, compactions: next.compaction });
        }
        changes
    }

    fn write(&self, journal: &mut EditJournal, before: &Version, edit: &Edit) -> Result<()> {
        let is_large = journal.file.segment.end() > self.roll_bytes_min.max(ROLL_GROWTH * journal.file.base_end);
        if is_large && self.env.now() >= journal.roll_after {
            match self.roll(journal, before) {
                Ok(()) => {}
                Err(error @ Error::Stopped { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a new manifest could not be made; the old one goes on");
                    journal.roll_after = self.env.now() + ROLL_PAUSE;
                }
            }
        }
        journal.file.append(edit)
    }

    /// Goes on in a new manifest whose base is `version`, the current one. [`Error::Stopped`] if it
    /// is unknown which manifest is in charge; after any other error it is the old one.
    fn roll(&self, journal: &mut EditJournal, version: &Version) -> Result<()> {
        let env = &*self.env;
        for (path, step) in std::mem::take(&mut journal.leftovers) {
            journal.discard(env, path, step);
        }
        let number = journal.next_number;
        journal.next_number += 1;
        let made = OpenManifest::create(env, &self.dir, number, version)
            .and_then(|next| switch_current(env, &self.dir, number).map(|()| next));
        match made {
            Ok(next) => {
                let old = std::mem::replace(&mut journal.file, next);
                journal.discard(env, old.segment.path().to_owned(), step::MANIFEST_REMOVE);
                Ok(())
            }
            Err(error @ Error::Stopped { .. }) => Err(error),
            Err(error) => {
                journal.discard(env, FileName::CurrentNew.path(&self.dir), step::CURRENT_REMOVE);
                journal.discard(env, FileName::Manifest(number).path(&self.dir), step::MANIFEST_REMOVE);
                Err(error)
            }
        }
    }
}

/// Makes the first manifest of a database, and that the current one. Before that it makes all
/// names durable that stand beside it.
fn create_first(env: &dyn Env, dir: &Path, version: &Version) -> Result<OpenManifest> {
    let file = OpenManifest::create(env, dir, FIRST_NUMBER, version)?;
    switch_current(env, dir, FIRST_NUMBER)?;
    Ok(file)
}

/// The number of a new database's manifest.
const FIRST_NUMBER: u64 = 1;

/// Makes `CURRENT` name a manifest, atomically and durably. [`Error::Io`] if it names what it named
/// before; [`Error::Stopped`] if that is unknown.
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

/// Removes what is left of a database whose making was cut short.
fn remove_unfinished(env: &dyn Env, dir: &Path, names: &[FileName], new: &Version) -> Result<()> {
    refuse_finished(env, dir, names, new)?;
    for name in names {
        let step = match name {
            FileName::Lock | FileName::Current | FileName::Calibration => continue,
            FileName::CurrentNew => step::CURRENT_REMOVE,
            FileName::CalibrationNew => step::CALIBRATION_REMOVE,
            FileName::Manifest(_) => step::MANIFEST_REMOVE,
            FileName::Wal(_) => step::WAL_RECOVERY_REMOVE,
            FileName::Table(_) => step::TABLE_REMOVE,
        };
        remove(env, &name.path(dir), step)?;
    }
    Ok(())
}

/// An error about anything that a database whose making was cut short cannot have left: it means
/// that `CURRENT` was there once.
fn refuse_finished(env: &dyn Env, dir: &Path, names: &[FileName], new: &Version) -> Result<()> {
    // The base of a new database has the same length whatever its id.
    let record_bytes = (RECORD_HEAD_BYTES + new.state_edit().encode().len()) as u64;
    let unfinished_bytes_max = FILE_HEADER_BYTES + record_bytes.next_multiple_of(RECORD_ALIGNMENT);
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
            FileName::Calibration | FileName::CalibrationNew => continue,
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

fn remove(env: &dyn Env, path: &Path, step: Step) -> Result<()> {
    env.remove(path, step).map_err(|source| Error::io(step.0, path, source))
}

/// The number of the manifest that `CURRENT` names.
fn read_current(env: &dyn Env, dir: &Path) -> Result<u64> {
    let path = FileName::Current.path(dir);
    let content = open(env, &path, Access::Read)?.read_all();
    let content = content.map_err(|source| Error::io("manifest: read", &path, source))?;
    decode_current(&content)
        .ok_or_else(|| Error::corruption(&path, 0, "it does not name a manifest, or its checksum is wrong"))
}

/// Removes the manifests that `CURRENT` does not name, `CURRENT.new`, and `CALIBRATION.new`.
fn remove_stale(env: &dyn Env, dir: &Path, names: &[FileName], current: u64) -> Result<()> {
    for name in names {
        match name {
            FileName::Manifest(number) if *number != current => remove(env, &name.path(dir), step::MANIFEST_REMOVE)?,
            FileName::CurrentNew => remove(env, &name.path(dir), step::CURRENT_REMOVE)?,
            FileName::CalibrationNew => remove(env, &name.path(dir), step::CALIBRATION_REMOVE)?,
            _ => {}
        }
    }
    Ok(())
}
