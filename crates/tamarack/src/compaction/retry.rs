//! Retries of what failed: [`Retry`] of decisions that could not begin and of flushes,
//! [`Attempts`] of one compaction.
//!
//! An error that stops writing ([`Error::Stopped`]) is final. After any other failure the files
//! written are removed, waiting callers get the error, and the work begins anew after a pause,
//! however often it is woken meanwhile. A compaction that fails pauses alone: others go on, and get
//! at least half of the time, since it pauses for as long as its attempt took.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::{Mutex, Rank};

use crate::compaction::output::CompactionOutput;
use crate::database::{Activity, Database};
use crate::error::Error;
use crate::stats::Counters;

/// Pause between a failure and the next attempt.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Pauses between attempts of one activity.
#[derive(Debug)]
pub struct Retry {
    env: Arc<dyn Env>,
    database: Arc<Database>,
    counters: Arc<Counters>,
    activity: Activity,
    /// The end of the pause after the last attempt, which failed; `None` if it succeeded.
    failed: Mutex<Option<Duration>>,
}

/// Attempts to carry out a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    /// When the present attempt began, or begins.
    pub(super) from: Duration,
    /// True if the last one failed, and none of its parts has handed anything over since.
    pub(super) is_failing: bool,
}

impl Attempts {
    /// The first attempt begins now.
    pub(super) fn first(now: Duration) -> Self {
        Self { from: now, is_failing: false }
    }

    /// The attempt has failed; the next one begins after as much time, and [`PAUSE`] at least.
    /// Returns the pause.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        // Another part of the same attempt may have failed before.
        let pause = now.saturating_sub(self.from).max(PAUSE);
        *self = Self { from: self.from.max(now + pause), is_failing: true };
        pause
    }
}

impl Retry {
    /// Makes a state without a pause.
    pub fn new(env: Arc<dyn Env>, database: Arc<Database>, counters: Arc<Counters>, activity: Activity) -> Self {
        Self { env, database, counters, activity, failed: Mutex::new(Rank::Retry, None) }
    }

    /// Returns the end of the present pause; `None` if there is none.
    pub fn pause(&self) -> Option<Duration> {
        self.failed.lock().filter(|until| self.env.now() < *until)
    }

    /// Returns true if the last attempt failed.
    pub fn is_failing(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// Ends an attempt that failed with `error`. Another follows after [`Retry::pause`], unless the
    /// error stops writing.
    pub fn failed(&self, outputs: impl IntoIterator<Item = CompactionOutput>, error: Error) {
        self.report(outputs, error, PAUSE);
        *self.failed.lock() = Some(self.env.now() + PAUSE);
    }

    /// Ends an attempt that succeeded, or has nothing to do any more.
    pub fn succeeded(&self) {
        *self.failed.lock() = None;
    }

    /// Counts and reports a failed attempt, which is repeated after `pause` unless the error stops
    /// writing, and removes its files.
    pub(super) fn report(&self, outputs: impl IntoIterator<Item = CompactionOutput>, error: Error, pause: Duration) {
        let failures = match self.activity {
            Activity::Flush => &self.counters.flush_failures,
            Activity::Compaction => &self.counters.compaction_failures,
        };
        failures.add(1);
        tracing::error!(%error, activity = ?self.activity, "background job failed");
        if let Error::Stopped { .. } = error {
            // The tables stay: whether an edit names them is unknown until the manifest is read
            // again.
            self.database.health.report_stop(error);
            return;
        }
        outputs.into_iter().for_each(CompactionOutput::discard);
        self.database.health.report_retry(self.activity, error, pause);
    }
}
