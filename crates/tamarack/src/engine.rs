//! [`Engine`]: the parts of an open database, side by side.
//!
//! Opening makes one, [`crate::Db`] and its handles share it, statistics and verification look at
//! it. Background work holds some of the parts, never this; so the background work ends when the
//! last handle is dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Lock, Worker};

use crate::cache::BlockCache;
use crate::compaction::Scheduler;
use crate::database::{Activity, Database};
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::memory::Account;
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFiles;
use crate::wal::{Dropped, Wal};
use crate::write::{CommitQueue, Durability, IntervalSync};

/// The parts of an open database.
pub(crate) struct Engine {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    /// New tables keep digests, if there are to be filters.
    pub(crate) filter_digests: bool,
    /// Held while the policy is changed: the shape, the size at which memtables are full, and the
    /// memory reserved for them change together.
    pub(crate) design: Mutex<()>,
    pub(crate) database: Arc<Database>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) tables: Arc<TableFiles>,
    pub(crate) commits: CommitQueue,
    pub(crate) account: Arc<Account>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) interval: Arc<IntervalSync>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) recovery: RecoveryReport,
    /// None if the database is open for reading only, but for that which calls a listener.
    pub(crate) workers: Vec<Arc<dyn Worker>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_workers();
        if let Err(error) = self.commits.finish() {
            tracing::error!(%error, "what was to be synced within an interval is not durable");
        }
    }
}

impl Engine {
    /// Writes everything that is in buffers to tables, and waits for that.
    pub(crate) fn flush(&self) -> Result<()> {
        self.commits.rotate_memtable()?;
        let Some(youngest) = self.tree.pin().immutable.first().cloned() else { return Ok(()) };
        let flushed = || self.tree.pin().immutable.iter().all(|immutable| immutable.last > youngest.last);
        let mut outcome = Ok(());
        self.env.wait(&self.database.progress, None, &mut || {
            outcome = if flushed() { Ok(()) } else { self.database.health.check_progress(Activity::Flush) };
            outcome.is_err() || flushed()
        });
        outcome
    }

    pub(crate) fn stop_workers(&self) {
        for worker in &self.workers {
            worker.stop();
        }
        self.database.events.deliver_all();
    }
}

/// Takes the lock of the database in `dir`; [`Error::Locked`] if somebody has it.
pub(crate) fn take_lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn Lock>> {
    let path = FileName::Lock.path(dir);
    env.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Locked { path },
        _ => Error::io("database: lock", &path, error),
    })
}

/// Keeps away those who would write. Where there is no file to lock, nobody has the database open
/// for writing: that would have made it.
pub(crate) fn share_lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn Lock>> {
    let path = FileName::Lock.path(dir);
    match env.lock_shared(&path) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(NothingToLock)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Locked { path }),
        Err(error) => Err(Error::io("database: lock", &path, error)),
    }
}

/// Stands for the lock of a directory without a file for it.
#[derive(Debug)]
struct NothingToLock;

impl Lock for NothingToLock {}

/// The error of who looks for a database where there is none.
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::InvalidArgument(format!(
        "{}: there is no database here; check the path, or let opening, `tamarack put` or `tamarack import` make one",
        dir.display()
    ))
}

/// The error of who takes a file for a database.
pub(crate) fn not_a_directory(dir: &Path) -> Error {
    let what = "not a directory, and so no database; a database is a directory, name that";
    Error::InvalidArgument(format!("{}: {what}", dir.display()))
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The ends of files (of the log, of the manifest) that a crash left torn and that were
    /// dropped. Nothing in them had been promised. A database that is open for reading only leaves
    /// them out, and where they are.
    pub dropped: Vec<Dropped>,
    /// Entries read back from the log.
    pub entries_replayed: u64,
    /// Files that nothing named, left by a crash, and removed; none if the database is open for
    /// reading only.
    pub orphans_removed: Vec<PathBuf>,
}
