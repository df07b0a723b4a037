//! Ingested runs in the commit order: a run takes its sequence numbers between two groups, and
//! makes the transactions too old that could not see it.
//!
//! A transaction that has joined a group may have read what the run is about to replace. So a run
//! begins in steps: transactions stop joining; all groups that have members by then are written;
//! the run is installed by a thread that has the lead. If it was installed, all transactions are
//! too old then that began before it, and those that waited to join find that out.

use std::time::Duration;

use super::CommitQueue;
use super::shared::PUBLISHED;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::mistake::{self, Mistake};
use crate::write::batch::{Batch, Write};

/// A run that is being installed. No transaction joins until it is dropped.
struct RunInProgress<'a> {
    commits: &'a CommitQueue,
    /// The ticket of the last group before the run, if it was installed or that is unknown.
    installed_after: Option<u64>,
}

impl Drop for RunInProgress<'_> {
    fn drop(&mut self) {
        let mut queue = self.commits.queue.lock();
        queue.runs_beginning -= 1;
        if let Some(ticket) = self.installed_after {
            queue.window.note_run(ticket);
        }
        drop(queue);
        self.commits.run_ended.notify_all();
    }
}

impl CommitQueue {
    /// Keeps transactions from joining, and waits for those that have joined.
    fn begin_run(&self) -> RunInProgress<'_> {
        let mut queue = self.queue.lock();
        queue.runs_beginning += 1;
        let is_active = queue.window.is_active();
        drop(queue);
        let run = RunInProgress { commits: self, installed_after: None };
        if is_active && let Err(error) = self.take_through(None, |_| (), &Write::Many(&Batch::new()), false) {
            // Of a group that failed, nothing is there. If writing has ended, the run meets it,
            // too.
            tracing::debug!(%error, "the group before an ingested run has failed");
        }
        run
    }

    /// Installs `run`, which has so many entries, as the youngest of the tree, between two groups.
    /// As a batch would, it takes as many sequence numbers as it has entries; all of its entries
    /// get the last of these. So everything acknowledged before is older, and later writes are
    /// younger.
    ///
    /// Writers are stopped meanwhile: the memtable is rotated, and its flush is waited for. So
    /// memtables should have been flushed right before. While the flush runs, `end` gives the run
    /// its sequence number; then `install` commits the edit. The run is durable then, and this
    /// makes it visible. If that is unknown, writing ends before another group is written. Returns
    /// what `install` does, and how long writers were stopped.
    ///
    /// # Errors
    /// As [`CommitQueue::rotate_memtable`], `end` and `install`; nothing has changed, unless the
    /// error is [`Error::Stopped`].
    pub fn install_run<R, T>(
        &self,
        run: &mut R,
        entries: u64,
        end: impl FnOnce(&mut R, Sequence) -> Result<()>,
        install: impl FnOnce(&mut R, Sequence) -> Result<T>,
    ) -> Result<(T, Duration)> {
        let mut in_progress = self.begin_run();
        let mut lead = self.lead.lock();
        let began = self.env.now();
        self.database.health.check_running()?;
        let last = Sequence(lead.next.0 - 1);
        let sequence = Sequence(last.0 + entries);
        assert!(sequence < Sequence::MAX, "sequence numbers are used up: {entries} entries after {last:?}");
        let flushes = !mistake::is_planted(Mistake::RunBelowMemtables);
        if flushes && lead.filled_bytes > 0 {
            self.rotate_under_lead(&mut lead)?;
        }
        // Reported under the lead: what is there after all must not share sequence numbers with
        // records of later groups.
        end(run, sequence).inspect_err(|error| self.report_if_stopped(error))?;
        if flushes {
            self.wait_for_flushes()?;
        }
        in_progress.installed_after = Some(lead.ticket);
        let installed = install(run, sequence).inspect_err(|error| {
            self.report_if_stopped(error);
            if !matches!(error, Error::Stopped { .. }) {
                in_progress.installed_after = None;
            }
        })?;
        self.wal.skip_to(sequence);
        lead.next = sequence.next();
        self.attest(sequence);
        let number = lead.number;
        lead.number += 1;
        let ticket = lead.ticket;
        drop(lead);
        let stopped_for = self.env.now() - began;
        if let Some(unpublished) = self.publish(number, ticket, Some(sequence), None) {
            unpublished.wait(|phase| phase == PUBLISHED);
        }
        Ok((installed, stopped_for))
    }

    /// Begins the WAL's next segment right after a run with entries up to `last` was installed. No
    /// record of the WAL shows that there is this run, and the last edit of the manifest, if it is
    /// damaged, looks like one that a crash cut short. But the segment's header names that edit as
    /// durable, so that recovery notices if it is gone.
    ///
    /// The run is durable already, so that a failure is not one of the ingest: the next write
    /// begins the segment, or meets the error.
    fn attest(&self, last: Sequence) {
        if let Err(error) = self.begin_segment(last.next()).and_then(|()| self.wal.release(last)) {
            tracing::warn!(%error, "the WAL segment after an ingested run waits for the next write");
        }
    }
}
