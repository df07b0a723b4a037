//! [`Engine`]: the parts of an open database.
//!
//! Opening makes an engine; [`crate::Db`] and its handles share it; statistics and verification
//! read it. Background work owns some of the parts, never the engine, so it ends when the last
//! handle is dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Env, Lock, Worker};

use crate::cache::BlockCache;
use crate::compaction::Scheduler;
use crate::controller::Controller;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::journal::Dropped;
use crate::locks::LockTable;
use crate::memory::Account;
use crate::redesign::Redesign;
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::Tree;
use crate::tree::table_file::TableFiles;
use crate::wal::Wal;
use crate::write::{CommitQueue, Durability, IntervalSync, Reserve};

/// The parts of an open database.
pub(crate) struct Engine {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: Arc<Path>,
    pub(crate) durability: Durability,
    pub(crate) database: Arc<Database>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) wal: Arc<Wal>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) tables: Arc<TableFiles>,
    pub(crate) commits: Arc<CommitQueue>,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) account: Arc<Account>,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) interval: Arc<IntervalSync>,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) redesign: Arc<Redesign>,
    /// Changes the design while the policy is automatic; `None` if the database is open for
    /// reading only.
    pub(crate) controller: Option<Arc<Controller>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) recovery: RecoveryReport,
    /// Workers; read-only, only the one that calls the listener.
    pub(crate) workers: Vec<Arc<dyn Worker>>,
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_workers();
        self.scheduler.remove_remaining_garbage();
        if let Err(error) = self.commits.finish() {
            tracing::error!(%error, "interval sync failed; the last writes may not be durable");
        }
    }
}

impl Engine {
    /// Flushes all memtables, and blocks until that is done.
    pub(crate) fn flush(&self) -> Result<()> {
        self.commits.rotate_memtable()?;
        self.commits.wait_for_flushes()
    }

    pub(crate) fn stop_workers(&self) {
        if let Some(controller) = &self.controller {
            controller.give_up();
        }
        for worker in &self.workers {
            worker.stop();
        }
        self.database.events.deliver_all();
    }
}

/// Locks the database in `dir`, or returns [`Error::Locked`].
pub(crate) fn take_lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn Lock>> {
    let path = FileName::Lock.path(dir);
    env.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Locked { path },
        _ => Error::io("database: lock", &path, error),
    })
}

/// Locks the database in `dir` against writers, sharing the lock with other readers. Without a lock
/// file nobody has the database open for writing, which would have created it.
pub(crate) fn share_lock(env: &dyn Env, dir: &Path) -> Result<Box<dyn Lock>> {
    let path = FileName::Lock.path(dir);
    match env.lock_shared(&path) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(NothingToLock)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Locked { path }),
        Err(error) => Err(Error::io("database: lock", &path, error)),
    }
}

/// The lock of a directory without a lock file.
#[derive(Debug)]
struct NothingToLock;

impl Lock for NothingToLock {}

/// Returns the error for a directory without a database.
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::NotFound { dir: dir.to_owned() }
}

/// Returns the error for a file in the place of the database directory.
pub(crate) fn not_a_directory(dir: &Path) -> Error {
    let what = "not a directory, so not a database; give the path of a database directory";
    Error::InvalidArgument(format!("{}: {what}", dir.display()))
}

/// Result of recovery at opening.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Incomplete ends of files (of the WAL, of the manifest) that a crash left, and that were
    /// dropped. Nothing in them was known to be durable. Opening for reading only ignores them and
    /// leaves the files as they are.
    pub dropped: Vec<Dropped>,
    /// Entries replayed from the WAL.
    pub entries_replayed: u64,
    /// Orphaned files that a crash left and that were removed; none if the database is open for
    /// reading only.
    pub orphans_removed: Vec<PathBuf>,
}
