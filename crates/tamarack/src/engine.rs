//! [`Engine`]: the parts of an open database, side by side.
//!
//! Opening makes one, [`crate::Db`] and its handles share it, statistics and verification look at it. Background work holds some of
//! the parts, never this; so the background work ends when the last handle is dropped.

use std::path::PathBuf;
use std::sync::Arc;

use tamarack_env::{Env, Worker};

use crate::cache::BlockCache;
use crate::compact::Scheduler;
use crate::error::Result;
use crate::memory::Account;
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::{Activity, Tree};
use crate::tree::table_file::TableFiles;
use crate::wal::{Dropped, Log};
use crate::write::{CommitQueue, Durability, IntervalSync};

/// The parts of an open database.
pub(crate) struct Engine {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) dir: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) tree: Arc<Tree>,
    pub(crate) log: Arc<Log>,
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
        self.commits.seal()?;
        let Some(youngest) = self.tree.pin().sealed.first().cloned() else { return Ok(()) };
        let flushed = || self.tree.pin().sealed.iter().all(|sealed| sealed.last > youngest.last);
        let mut outcome = Ok(());
        self.env.wait(&self.tree.progress, None, &mut || {
            outcome = if flushed() { Ok(()) } else { self.tree.check_progress(Activity::Flush) };
            outcome.is_err() || flushed()
        });
        outcome
    }

    pub(crate) fn stop_workers(&self) {
        for worker in &self.workers {
            worker.stop();
        }
        self.tree.events.deliver_all();
    }
}

/// What opening found.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The ends of files (of the log, of the manifest) that a crash left torn and that were dropped. Nothing in them had been promised. A database that is open for reading only leaves
    /// them out, and where they are.
    pub dropped: Vec<Dropped>,
    /// Entries read back from the log.
    pub entries_replayed: u64,
    /// Files that nothing named, left by a crash, and removed; none if the database is open for reading only.
    pub orphans_removed: Vec<PathBuf>,
}
