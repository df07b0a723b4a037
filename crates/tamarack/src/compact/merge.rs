//! The merge: the job that makes one run of several neighbours, and hands its output over key range by key range.
//!
//! ```text
//!             handed over          not yet
//!          ├───────────────┼─────────────────────┤  keys
//!  inputs  │               │ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ │  cut back: their slices begin at the border
//!          │               │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │
//!  output  │ ███████ █████ │                     │  finished tables, each a slice
//! ```
//!
//! # Steps
//!
//! 1. **Begin.** An edit names the inputs and makes the empty output run beside them. From then on the merge is part of the version: after a
//!    crash, opening finds it and goes on from the last border.
//! 2. **Copy**, about a megabyte per step, entries in order, without the versions that nobody can see any more, and without tombstones
//!    that have nothing left to delete in any older run.
//! 3. **Hand over**, whenever a table is full and a key ends: the table becomes durable, then its name, then one edit adds it to the output and cuts
//!    *every* input back to the same key. A cut of only some inputs would let a deleted key come back. Then the cursors are opened anew, on
//!    the runs as they are now, so that tables that are used up can go.
//! 4. **End.** The last handover reaches to the end of all keys, and the inputs, which are empty now, go.
//!
//! A merge needs little extra space: what is handed over is removed as soon as no reader holds it.
//!
//! # Failures
//!
//! As for flushes: a failed sync stops writing for good; after any other failure the job begins anew at the last border, after a pause.

use std::sync::Arc;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Progress, Work, Worker};

use crate::compact::output::{Output, Workshop, whole};
use crate::compact::retry::Retry;
use crate::compact::{STEP_BYTES, TREE};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::edit::{Change, Key, KeyRange, MergeId, RunId};
use crate::merge::{MergedSource, Retain, Source};
use crate::stats::Counters;
use crate::table::ReadPolicy;
use crate::tree::manifest::Manifest;
use crate::tree::run::{Run, RunCursor};
use crate::tree::state::{Activity, Tree};
use crate::tree::table_file::TableFiles;
use crate::tree::version::{Merge, TreeVersion, Version};

/// Carries out the merges of a tree, one at a time, and removes the tables they leave behind.
pub struct Merger {
    env: Arc<dyn Env>,
    tree: Arc<Tree>,
    manifest: Arc<Manifest>,
    tables: Arc<TableFiles>,
    workshop: Arc<Workshop>,
    counters: Arc<Counters>,
    requests: Mutex<Requests>,
    job: Mutex<Option<Job>>,
    retry: Retry,
}

/// Who asked for everything to be merged.
#[derive(Clone, Copy, Default)]
struct Requests {
    /// How often it was asked for.
    made: u64,
    /// Up to which request it has been done.
    served: u64,
    /// The requests that the merge in progress will have served.
    in_progress: u64,
}

/// One merge in progress.
struct Job {
    id: MergeId,
    /// What has been handed over ends here; at the beginning, nowhere.
    border: Option<Key>,
    entries: MergedSource<RunCursor>,
    retain: Retain,
    /// The runs that are older than all inputs.
    older: Vec<Arc<Run>>,
    output: Output,
}

impl Work for Merger {
    fn step(&self) -> Progress {
        if let Some(progress) = self.retry.hold() {
            return progress;
        }
        self.remove_garbage();
        let mut job = self.job.lock();
        let outcome = match &mut *job {
            None => self.begin().map(|begun| {
                *job = begun;
                if job.is_some() { Progress::More } else { Progress::Idle }
            }),
            Some(running) => self.advance(running).map(|done| {
                if done {
                    // Its cursors held the last of what it merged; whoever asked for the merge finds the space given back.
                    *job = None;
                    self.remove_garbage();
                    let in_progress = self.requests.lock().in_progress;
                    self.serve(in_progress);
                }
                Progress::More
            }),
        };
        outcome.unwrap_or_else(|error| {
            self.counters.merge_failures.add(1);
            self.retry.failed(job.take().map(|job| job.output), error)
        })
    }
}

impl Merger {
    /// Merges the runs of `tree`.
    pub fn new(
        env: Arc<dyn Env>,
        tree: Arc<Tree>,
        manifest: Arc<Manifest>,
        tables: Arc<TableFiles>,
        workshop: Arc<Workshop>,
        counters: Arc<Counters>,
    ) -> Self {
        let requests = Mutex::new(Requests::default());
        let retry = Retry::new(env.clone(), tree.clone(), Activity::Merge);
        Self { env, tree, manifest, tables, workshop, counters, requests, job: Mutex::new(None), retry }
    }

    /// Has all runs that there are now merged into one, and waits for that. `worker` is the one that carries this out.
    ///
    /// # Errors
    /// [`Error::Io`] if a merge fails; it is tried again in the background. [`Error::Stopped`] if writing has ended.
    pub fn merge_all(&self, worker: &dyn Worker) -> Result<()> {
        let request = {
            let mut requests = self.requests.lock();
            requests.made += 1;
            requests.made
        };
        worker.wake();
        let is_served = || self.requests.lock().served >= request;
        let mut outcome = Ok(());
        self.env.wait(&self.tree.progress, None, &mut || {
            outcome = if is_served() { Ok(()) } else { self.tree.check_progress(Activity::Merge) };
            outcome.is_err() || is_served()
        });
        outcome
    }

    /// Goes on with the merge that the version has, or begins the one that was asked for.
    fn begin(&self) -> Result<Option<Job>> {
        let version = self.manifest.version();
        let Some(tree) = version.tree(TREE) else { return Ok(None) };
        if let Some(merge) = tree.merges().first() {
            return self.job(tree, merge).map(Some);
        }
        let made = {
            let requests = self.requests.lock();
            if requests.served == requests.made {
                return Ok(None);
            }
            requests.made
        };
        let inputs: Vec<RunId> = tree.runs().map(|run| run.id()).collect();
        if inputs.len() < 2 {
            self.serve(made);
            return Ok(None);
        }
        let version = self.commit_begin(tree, inputs)?;
        self.requests.lock().in_progress = made;
        let tree = version.tree(TREE).expect("it was there");
        self.job(tree, tree.merges().first().expect("it was just begun")).map(Some)
    }

    fn commit_begin(&self, tree: &TreeVersion, inputs: Vec<RunId>) -> Result<Arc<Version>> {
        let (_, level, index) = tree.run(*inputs.last().expect("two inputs at least")).expect("the tree has its runs");
        let (merge, output) = (self.manifest.new_merge_id(), self.manifest.new_run_id());
        self.commit(vec![
            Change::RunAdded { tree: TREE, run: output, level, index: index as u32 + 1 },
            Change::MergeBegun { tree: TREE, merge, inputs, output },
        ])
    }

    /// The job that carries on `merge` from where it stands in `tree`.
    fn job(&self, tree: &TreeVersion, merge: &Merge) -> Result<Job> {
        let border = match &merge.done[..] {
            [] => None,
            // This version hands over from the smallest key on, so what is done is one range.
            [KeyRange { from: None, to: Some(to) }] => Some(to.clone()),
            done => {
                let what =
                    format!("merge {} has handed over {done:?}; a newer version began it, and can go on", merge.id.0);
                return Err(Error::Unsupported { path: self.workshop.dir().to_owned(), what });
            }
        };
        let is_member = |run: &&Arc<Run>| merge.names(run.id());
        let cursors =
            tree.runs().filter(|run| merge.inputs.contains(&run.id())).map(|run| run.cursor(ReadPolicy::Sequential));
        let mut entries = MergedSource::new(cursors.collect());
        match &border {
            None => entries.seek_first()?,
            Some(key) => entries.seek(key, Sequence::MAX)?,
        }
        Ok(Job {
            id: merge.id,
            border,
            entries,
            retain: Retain::new(self.tree.visible.readable()),
            older: tree.runs().rev().take_while(|run| !is_member(run)).cloned().collect(),
            output: self.workshop.output(),
        })
    }

    /// One step of a job; true when it is done.
    fn advance(&self, job: &mut Job) -> Result<bool> {
        let mut copied_bytes = 0;
        while let Some(entry) = job.entries.entry() {
            if job.output.is_full_before(entry.key) {
                let border = Key::from(entry.key);
                self.hand_over(job, Some(border))?;
                return Ok(false);
            }
            if copied_bytes >= STEP_BYTES {
                return Ok(false);
            }
            copied_bytes += entry.raw_bytes();
            let older_may_exist = || job.older.iter().any(|run| run.slice_of(entry.key).is_some());
            if job.retain.keep(&entry, older_may_exist) {
                job.output.add(entry)?;
            }
            job.entries.next()?;
        }
        self.hand_over(job, None)?;
        Ok(true)
    }

    /// Gives the output what was copied since the last border, and cuts all inputs back to `border`; without one the merge ends.
    fn hand_over(&self, job: &mut Job, border: Option<Key>) -> Result<()> {
        job.output.finish_table()?;
        let tables = job.output.ready()?;
        let added = tables.iter().map(|meta| Change::TableAdded { tree: TREE, meta: Arc::new(meta.clone()) });
        let range = KeyRange { from: job.border.clone(), to: border.clone() };
        let advanced = Change::MergeAdvanced { tree: TREE, merge: job.id, range, outputs: whole(tables) };
        let ended = border.is_none().then_some(Change::MergeEnded { tree: TREE, merge: job.id });
        let version = self.commit(added.chain([advanced]).chain(ended).collect())?;
        self.counters.merge_bytes.add(job.output.installed());
        if border.is_some() {
            let tree = version.tree(TREE).expect("it was there");
            let merge = tree.merges().iter().find(|merge| merge.id == job.id).expect("it goes on");
            *job = self.job(tree, merge)?;
        } else {
            self.counters.merges.add(1);
            tracing::debug!(merge = job.id.0, "ended a merge");
        }
        Ok(())
    }

    fn commit(&self, mut changes: Vec<Change>) -> Result<Arc<Version>> {
        if self.manifest.version().log_end().is_some() {
            changes.insert(0, Change::LogReopened);
        }
        let version = self.manifest.commit(changes)?;
        self.tree.publish(version.clone(), Activity::Merge);
        Ok(version)
    }

    /// Tells those who asked up to that request that it has been done.
    fn serve(&self, request: u64) {
        {
            let mut requests = self.requests.lock();
            requests.served = requests.served.max(request);
        }
        self.tree.progress.notify();
    }

    /// Removes the tables that no version and no reader names any more.
    fn remove_garbage(&self) {
        for table in self.tables.take_garbage() {
            if let Err(error) = self.workshop.remove(table) {
                tracing::warn!(%error, "a table that nothing names could not be removed; the next open will try again");
            }
        }
    }
}
