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

use std::sync::Arc;

use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{Ordering, fence};
use tamarack_env::{Env, Progress, Work};

use crate::buffer::BufferCursor;
use crate::compact::output::{Output, Workshop, whole};
use crate::compact::retry::Retry;
use crate::compact::{STEP_BYTES, TREE};
use crate::error::Result;
use crate::format::edit::Change;
use crate::merge::{Retain, Source};
use crate::stats::Counters;
use crate::tree::manifest::Manifest;
use crate::tree::state::{Activity, Sealed, Tree};
use crate::wal::Log;

/// Flushes the sealed buffers of a tree, one after another, oldest first.
pub struct Flusher {
    tree: Arc<Tree>,
    log: Arc<Log>,
    manifest: Arc<Manifest>,
    workshop: Arc<Workshop>,
    counters: Arc<Counters>,
    job: Mutex<Option<Job>>,
    retry: Retry,
}

/// One flush in progress.
struct Job {
    sealed: Arc<Sealed>,
    entries: BufferCursor,
    retain: Retain,
    /// True if an older run might hold a key that a tombstone in this buffer deletes.
    older_may_exist: bool,
    output: Output,
}

impl Work for Flusher {
    fn step(&self) -> Progress {
        if let Some(progress) = self.retry.hold() {
            return progress;
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
        outcome.unwrap_or_else(|error| {
            self.counters.flush_failures.add(1);
            self.retry.failed(job.take().map(|job| job.output), error)
        })
    }
}

impl Flusher {
    /// Flushes what `tree` seals.
    pub fn new(
        env: Arc<dyn Env>,
        tree: Arc<Tree>,
        log: Arc<Log>,
        manifest: Arc<Manifest>,
        workshop: Arc<Workshop>,
        counters: Arc<Counters>,
    ) -> Self {
        let retry = Retry::new(env, tree.clone(), Activity::Flush);
        Self { tree, log, manifest, workshop, counters, job: Mutex::new(None), retry }
    }

    /// Takes the oldest sealed buffer, if it is complete.
    fn begin(&self) -> Result<Option<Job>> {
        let state = self.tree.pin();
        let Some(sealed) = state.sealed.last() else { return Ok(None) };
        // The other half of the fence in the commit queue's `publish`.
        fence(Ordering::SeqCst);
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
            output: self.workshop.output(),
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
                if job.output.is_full_before(entry.key) {
                    job.output.finish_table()?;
                }
                job.output.add(entry)?;
            }
            job.entries.next()?;
        }
        job.output.finish_table()?;
        self.install(job)?;
        Ok(true)
    }

    /// Makes the tables part of the tree: names durable, edit durable, state published, log released, in this order.
    fn install(&self, job: &mut Job) -> Result<()> {
        let changes = self.changes(job)?;
        let version = self.manifest.commit(changes)?;
        self.tree.publish_flush(&job.sealed, version);
        self.counters.flushes.add(1);
        self.counters.flush_bytes.add(job.output.installed());
        tracing::debug!(through = job.sealed.last.0, "flushed a buffer");
        if let Err(error) = self.log.release(job.sealed.last) {
            // Nothing depends on it: the segments stay listed and the next flush, or the next open, removes them.
            tracing::warn!(%error, "a segment of the log could not be removed");
        }
        Ok(())
    }

    fn changes(&self, job: &Job) -> Result<Vec<Change>> {
        let mut changes = Vec::new();
        if self.manifest.version().log_end().is_some() {
            changes.push(Change::LogReopened);
        }
        let tables = job.output.ready()?;
        if !tables.is_empty() {
            let run = self.manifest.new_run_id();
            changes.extend(tables.iter().map(|meta| Change::TableAdded { tree: TREE, meta: Arc::new(meta.clone()) }));
            changes.push(Change::RunAdded { tree: TREE, run, level: 1, index: 0 });
            changes.push(Change::SlicesAdded { tree: TREE, run, slices: whole(tables) });
        }
        changes.push(Change::FlushedThrough { tree: TREE, sequence: job.sealed.last });
        changes.push(Change::LogDurable { position: self.log.durable().0 });
        Ok(changes)
    }
}
