//! Checkpoints: copies of a database as of one moment, in another directory, that share the files
//! of tables with it.
//!
//! ```text
//! claim the directory ─▶ flush ─▶ pin the version ─▶ link its tables ─▶ manifest, synced
//!                                                    ─▶ all names synced ─▶ CURRENT
//! ```
//!
//! * **As of one moment.** After the flush, everything acknowledged before is in tables, and the
//!   version names them. A flush ends between two commit groups, so no batch is divided. The
//!   checkpoint's manifest begins with that version: its tables, its shape, its compactions in
//!   progress, which resume there as after a crash. It has no WAL: the other database's WAL is past
//!   that moment.
//! * **Sharing.** A table's file never changes, so it may belong to two databases; each removes its
//!   own name of it, and the space is free when both have. The pinned version keeps the files'
//!   names here until they have theirs there.
//! * **Copies.** Where the file system cannot link a file into that directory (it is on another
//!   file system, or links are not supported), the table is copied.
//! * **Interruption.** `CURRENT` comes last, after everything that it leads to is durable under its
//!   name. Without it a directory is no database. A failed checkpoint removes its files in the
//!   opposite order: `CURRENT` without the files that it leads to would be a damaged database.
//!
//! Both databases have the same id, to which the checksums in the shared files are bound, and both
//! continue to number tables, edits and entries from the same values. So files must not be moved
//! from one to the other by hand: some would fit.

use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Access, Env, Lock, is_unlinkable};

use crate::directory::Listing;
use crate::engine::Engine;
use crate::engine::take_lock;
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::open::{prepare_directory, sync_parent};
use crate::step;
use crate::tree::manifest::Manifest;
use crate::tree::version::Version;

/// The content of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The youngest sequence number in it; never smaller in a later checkpoint of the same
    /// database.
    pub sequence: u64,
    /// Tables whose files belong to both databases.
    pub tables_shared: u64,
    /// Bytes of these files, which take space once.
    pub bytes_shared: u64,
    /// Tables that had to be copied.
    pub tables_copied: u64,
    /// Bytes of the copies.
    pub bytes_copied: u64,
    /// The first file that could not be shared, and the file system's error; `None` without copies.
    pub why_copied: Option<String>,
}

/// Copies are written in pieces of this many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// A locked, empty directory for a checkpoint.
pub(crate) struct Site<'a> {
    env: &'a dyn Env,
    dir: &'a Path,
    _lock: Box<dyn Lock>,
}

impl<'a> Site<'a> {
    /// Creates the directory if it does not exist, and locks it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not empty, or cannot be created;
    /// [`Error::Locked`] if another process or handle has it.
    pub(crate) fn claim(env: &'a dyn Env, dir: &'a Path) -> Result<Self> {
        prepare_directory(env, dir, true)?;
        refuse_unless_empty(env, dir)?;
        let lock = take_lock(env, dir)?;
        // Another process may have been faster.
        refuse_unless_empty(env, dir)?;
        sync_parent(env, dir)?;
        Ok(Self { env, dir, _lock: lock })
    }

    /// Creates a database here from the present version of `engine`, without its WAL and memtables.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails. Then there is no database here: its files are
    /// removed, as far as storage allows.
    pub(crate) fn fill(&self, engine: &Engine) -> Result<CheckpointReport> {
        let version = engine.tree.pin_scan().version.clone();
        let filled = self.fill_with(&engine.dir, &version);
        if filled.is_err()
            && let Err(error) = self.take_back()
        {
            tracing::warn!(%error, dir = %self.dir.display(), "removal of a failed checkpoint failed");
        }
        filled
    }

    fn fill_with(&self, from: &Path, version: &Arc<Version>) -> Result<CheckpointReport> {
        let flushed = version.trees().map(|(_, tree)| tree.flushed_through().0).max();
        let mut report = CheckpointReport { sequence: flushed.unwrap_or(0), ..CheckpointReport::default() };
        for table in version.tables() {
            let (name, bytes) = (FileName::Table(table.id().0), table.meta().file_bytes);
            let (here, there) = (name.path(from), name.path(self.dir));
            match self.env.hard_link(&here, &there, step::CHECKPOINT_LINK) {
                Ok(()) => {
                    report.tables_shared += 1;
                    report.bytes_shared += bytes;
                }
                Err(error) if is_unlinkable(&error) => {
                    self.copy(&here, &there)?;
                    report.tables_copied += 1;
                    report.bytes_copied += bytes;
                    report.why_copied.get_or_insert_with(|| format!("{}: {error}", here.display()));
                }
                Err(error) => return Err(Error::io(step::CHECKPOINT_LINK.0, &here, error)),
            }
        }
        Manifest::create_with(self.env, self.dir, &version.without_wal())?;
        Ok(report)
    }

    /// Copies a file; the copy is durable then, except for its name.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let read = |source| Error::io("checkpoint: read table", from, source);
        let source = self.env.open(from, Access::Read).map_err(read)?;
        let length = source.len().map_err(read)?;
        let target = self.env.create(to, step::CHECKPOINT_COPY_CREATE);
        let target = target.map_err(|error| Error::io(step::CHECKPOINT_COPY_CREATE.0, to, error))?;
        let mut piece = vec![0; length.min(PIECE_BYTES as u64) as usize];
        let mut at = 0;
        while at < length {
            let bytes = &mut piece[..(length - at).min(PIECE_BYTES as u64) as usize];
            source.read_exact_at(bytes, at).map_err(read)?;
            let written = target.write_all_at(bytes, at, step::CHECKPOINT_COPY_WRITE);
            written.map_err(|error| Error::io(step::CHECKPOINT_COPY_WRITE.0, to, error))?;
            target.start_writeback(at, bytes.len() as u64);
            at += bytes.len() as u64;
        }
        target.sync(step::CHECKPOINT_COPY_SYNC).map_err(|error| Error::io(step::CHECKPOINT_COPY_SYNC.0, to, error))
    }

    /// Removes all files here but the lock; the directory was empty, and is ours.
    fn take_back(&self) -> Result<()> {
        let listing = Listing::read(self.env, self.dir)?;
        let names: Vec<FileName> = listing.files().filter(|name| *name != FileName::Lock).collect();
        let remove = |name: FileName, step: tamarack_env::Step| {
            let path = name.path(self.dir);
            self.env.remove(&path, step).map_err(|error| Error::io(step.0, &path, error))
        };
        if names.contains(&FileName::Current) {
            remove(FileName::Current, step::CHECKPOINT_REMOVE_CURRENT)?;
            let synced = self.env.sync_dir(self.dir, step::CHECKPOINT_SYNC_REMOVED);
            synced.map_err(|error| Error::io(step::CHECKPOINT_SYNC_REMOVED.0, self.dir, error))?;
        }
        let rest = names.into_iter().filter(|name| *name != FileName::Current);
        rest.map(|name| remove(name, step::CHECKPOINT_REMOVE)).fold(Ok(()), Result::and)
    }
}

/// A lock may have been left by an attempt that failed.
fn refuse_unless_empty(env: &dyn Env, dir: &Path) -> Result<()> {
    match Listing::read(env, dir)?.names().iter().find(|name| **name != *FileName::Lock.name()) {
        None => Ok(()),
        Some(name) => Err(Error::InvalidArgument(format!(
            "{}: a checkpoint needs a directory that is empty or not there yet, and this one has {}; name another, or empty it first",
            dir.display(),
            name.display()
        ))),
    }
}
