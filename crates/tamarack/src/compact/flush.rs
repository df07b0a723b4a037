//! The flush: the job whose input is a sealed buffer and whose output is the youngest run of level 1.
//!
//! # Steps
//!
//! 1. **Begin.** Take the oldest sealed buffer that is complete (its last sequence is visible), and note which sequences must stay readable.
//! 2. **Copy**, about [`STEP_BYTES`] per step: entries in order, dropping versions that nobody can see any more, into
//!    tables of bounded size, cut between keys.
//! 3. **Finish.** Each table is synced when it is full; at the end the directory is synced, so that the names are durable.
//! 4. **Install.** The edit (tables, run, "flushed up to") becomes durable; then the new state is published; then the log is released.
//!
//! This order is what makes a crash at any point harmless: before the edit is durable the tables are orphans and the log
//! still has everything; after it, the log is only garbage.
//!
//! # Failures
//!
//! A failed sync, of whatever, stops writing for good. Any other failure (disk full, a failed write) ends the job: its
//! files are removed, writers that wait for room are told, and the flush is begun anew after a pause.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Progress, Work};

use crate::buffer::BufferCursor;
use crate::error::{Error, Result};
use crate::format::block::Compression;
use crate::format::edit::{Change, KeyRange, SliceSpec};
use crate::format::meta::{TableMeta, TreeId};
use crate::format::names::FileName;
use crate::merge::{Retain, Source};
use crate::stats::Counters;
use crate::step;
use crate::table::{TableBuilder, TableSettings};
use crate::tree::manifest::Manifest;
use crate::tree::state::{Sealed, Tree};
use crate::wal::Log;

/// How much one step copies, in raw bytes: at the 200 to 500 MB/s of building a table, 2 to 5 ms.
pub const STEP_BYTES: u64 = 1 << 20;

/// The one tree there is.
const TREE: TreeId = TreeId(0);

/// How long a failed flush waits before it is begun anew.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What flushes need to know.
#[derive(Clone, Debug)]
pub struct FlushSettings {
    /// The database's directory.
    pub dir: PathBuf,
    /// The database's id.
    pub database: u64,
    /// The size of a block, in bytes.
    pub block_bytes: usize,
    /// The size at which a run goes on in another table, in bytes of the file.
    pub table_bytes: u64,
    /// How blocks are compressed.
    pub compression: Compression,
}

/// Flushes the sealed buffers of a tree, one after another, oldest first.
pub struct Flusher {
    settings: FlushSettings,
    env: Arc<dyn Env>,
    tree: Arc<Tree>,
    log: Arc<Log>,
    manifest: Arc<Manifest>,
    counters: Arc<Counters>,
    job: Mutex<Option<Job>>,
}

/// One flush in progress.
struct Job {
    sealed: Arc<Sealed>,
    entries: BufferCursor,
    retain: Retain,
    /// True if an older run might hold a key that a tombstone in this buffer deletes.
    older_may_exist: bool,
    /// The table being built.
    open: Option<TableBuilder>,
    /// The last key written: tables are cut between keys, never between versions of one.
    last_key: Vec<u8>,
    finished: Vec<TableMeta>,
    /// The files made so far, finished or not.
    made: Vec<PathBuf>,
}

impl Work for Flusher {
    fn step(&self) -> Progress {
        if self.tree.check_running().is_err() {
            return Progress::Done;
        }
        let mut job = self.job.lock();
        let outcome = match &mut *job {
            None => self.begin().map(|begun| {
                *job = begun;
                if job.is_some() { Progress::More } else { Progress::Idle }
            }),
            Some(running) => self.advance(running).map(|done| {
                if done {
                    *job = None;
                }
                Progress::More
            }),
        };
        outcome.unwrap_or_else(|error| self.give_up(job.take(), error))
    }
}

impl Flusher {
    /// Flushes what `tree` seals.
    pub fn new(
        settings: FlushSettings,
        env: Arc<dyn Env>,
        tree: Arc<Tree>,
        log: Arc<Log>,
        manifest: Arc<Manifest>,
        counters: Arc<Counters>,
    ) -> Self {
        Self { settings, env, tree, log, manifest, counters, job: Mutex::new(None) }
    }

    /// Takes the oldest sealed buffer, if it is complete.
    fn begin(&self) -> Result<Option<Job>> {
        let state = self.tree.pin();
        let Some(sealed) = state.sealed.last() else { return Ok(None) };
        if self.tree.visible.sequence() < sealed.last {
            return Ok(None);
        }
        let mut entries = sealed.buffer.cursor();
        entries.seek_first()?;
        Ok(Some(Job {
            sealed: sealed.clone(),
            entries,
            // Asked for only now that the buffer is complete: what is visible covers all of it.
            retain: Retain::new(self.tree.visible.readable()),
            older_may_exist: state.version.tree(TREE).is_some_and(|tree| tree.runs().next().is_some()),
            open: None,
            last_key: Vec::new(),
            finished: Vec::new(),
            made: Vec::new(),
        }))
    }

    /// One step of a job; true when it is done.
    fn advance(&self, job: &mut Job) -> Result<bool> {
        let mut copied_bytes = 0;
        while let Some(entry) = job.entries.entry() {
            if copied_bytes >= STEP_BYTES {
                return Ok(false);
            }
            copied_bytes += entry.raw_bytes();
            if job.retain.keep(&entry, || job.older_may_exist) {
                let full = job.open.as_ref().is_some_and(|table| table.file_bytes() >= self.settings.table_bytes);
                if full && entry.key != job.last_key {
                    finish_table(&mut job.open, &mut job.finished)?;
                }
                if job.open.is_none() {
                    job.open = Some(self.create_table(&mut job.made)?);
                }
                job.open.as_mut().expect("opened above").add(entry)?;
                job.last_key.clear();
                job.last_key.extend_from_slice(entry.key);
            }
            job.entries.next()?;
        }
        finish_table(&mut job.open, &mut job.finished)?;
        self.install(job)?;
        Ok(true)
    }

    fn create_table(&self, made: &mut Vec<PathBuf>) -> Result<TableBuilder> {
        let id = self.manifest.new_table_id();
        let settings = TableSettings {
            database: self.settings.database,
            id,
            created_after: self.tree.durable_edit(),
            block_bytes: self.settings.block_bytes,
            compression: self.settings.compression,
        };
        let table = TableBuilder::create(self.env.as_ref(), &self.settings.dir, settings)?;
        made.push(FileName::Table(id.0).path(&self.settings.dir));
        Ok(table)
    }

    /// Makes the tables part of the tree: names durable, edit durable, state published, log released, in this order.
    fn install(&self, job: &Job) -> Result<()> {
        let dir = &self.settings.dir;
        if !job.finished.is_empty() {
            self.env
                .sync_dir(dir, step::TABLE_SYNC_DIRECTORY)
                .map_err(|error| failed_sync(Error::io(step::TABLE_SYNC_DIRECTORY.0, dir, error)))?;
        }
        let version = self.manifest.commit(self.changes(job))?;
        self.tree.publish_flush(&job.sealed, version);
        self.counters.flushes.add(1);
        self.counters.flush_bytes.add(job.finished.iter().map(|meta| meta.file_bytes).sum());
        tracing::debug!(through = job.sealed.last.0, tables = job.finished.len(), "flushed a buffer");
        if let Err(error) = self.log.release(job.sealed.last) {
            // Nothing depends on it: the segments stay listed and the next flush, or the next open, removes them.
            tracing::warn!(%error, "a segment of the log could not be removed");
        }
        Ok(())
    }

    fn changes(&self, job: &Job) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.manifest.version().log_end().is_some() {
            changes.push(Change::LogReopened);
        }
        if !job.finished.is_empty() {
            let run = self.manifest.new_run_id();
            let tables =
                job.finished.iter().map(|meta| Change::TableAdded { tree: TREE, meta: Arc::new(meta.clone()) });
            changes.extend(tables);
            changes.push(Change::RunAdded { tree: TREE, run, level: 1, index: 0 });
            let whole = |meta: &TableMeta| SliceSpec { table: meta.id, range: KeyRange::default() };
            changes.push(Change::SlicesAdded { tree: TREE, run, slices: job.finished.iter().map(whole).collect() });
        }
        changes.push(Change::FlushedThrough { tree: TREE, sequence: job.sealed.last });
        changes.push(Change::LogDurable { position: self.log.durable().0 });
        changes
    }

    /// Ends a failed job and decides whether there will be another.
    fn give_up(&self, job: Option<Job>, error: Error) -> Progress {
        self.counters.flush_failures.add(1);
        tracing::error!(%error, "a flush failed");
        if let Error::Stopped { .. } = error {
            // Whether the tables are part of the tree is decided when the manifest is read again: they stay.
            self.tree.report_stop(error);
            return Progress::Done;
        }
        for path in job.into_iter().flat_map(|job| job.made) {
            if let Err(error) = self.env.remove(&path, step::TABLE_REMOVE) {
                tracing::warn!(%error, path = %path.display(), "an unfinished table could not be removed; the next open will try again");
            }
        }
        self.tree.report_retry(error);
        Progress::IdleUntil(self.env.now() + RETRY_AFTER)
    }
}

/// Finishes the table that is being built, if there is one.
fn finish_table(open: &mut Option<TableBuilder>, finished: &mut Vec<TableMeta>) -> Result<()> {
    if let Some(table) = open.take() {
        finished.push(table.finish().map_err(|error| match error {
            Error::Io { doing, .. } if doing == step::TABLE_SYNC.0 => failed_sync(error),
            other => other,
        })?);
    }
    Ok(())
}

/// A sync that failed is never tried again as if it could succeed.
fn failed_sync(error: Error) -> Error {
    match error {
        stopped @ Error::Stopped { .. } => stopped,
        other => Error::Stopped { cause: Arc::new(other) },
    }
}
