//! Retries of what failed: [`Retry`] of decisions that could not begin and of flushes,
//! [`Attempts`] of one compaction.
//!
//! An error that stops writing ([`Error::Stopped`]) is final. After any other failure the files
//! written are removed, waiting callers get the error, and the work begins anew after a pause,
//! however often it is woken meanwhile. A compaction that fails pauses alone, for as long as has
//! passed since it last handed a table over, between [`PAUSE`] and [`PAUSE_MAX`]: others go on, and
//! get about half of the time.

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

/// Upper bound on the pause of a compaction, whose attempt may have waited for others for hours.
const PAUSE_MAX: Duration = Duration::from_secs(30);

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
    /// When the present attempt began: with the job, or when a part last handed something over, or
    /// after the last pause.
    began: Duration,
    /// The end of the pause after the last failure; 0 if there was none.
    pub(super) paused_until: Duration,
    /// True if the last one failed, and none of its parts has handed anything over since.
    pub(super) is_failing: bool,
}

impl Attempts {
    /// The first attempt begins now.
    pub(super) fn first(now: Duration) -> Self {
        Self { began: now, paused_until: Duration::ZERO, is_failing: false }
    }

    /// A part has handed something over: the next attempt begins, or goes on to pause. Returns true
    /// if the last one had failed.
    pub(super) fn succeeded(&mut self, now: Duration) -> bool {
        self.began = now.max(self.paused_until);
        std::mem::take(&mut self.is_failing)
    }

    /// The attempt has failed; the next one begins after as much time, between [`PAUSE`] and
    /// [`PAUSE_MAX`]. Returns the pause.
    pub(super) fn failed(&mut self, now: Duration) -> Duration {
        // Another part of the same attempt may have failed before.
        let pause = now.saturating_sub(self.began).clamp(PAUSE, PAUSE_MAX);
        let paused_until = self.paused_until.max(now + pause);
        *self = Self { began: paused_until, paused_until, is_failing: true };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a compaction did well before it failed does not lengthen its pause.
    #[test]
    fn a_failed_attempt_pauses_as_long_as_it_took() {
        let seconds = Duration::from_secs;
        let mut attempts = Attempts::first(seconds(100));
        assert_eq!(attempts.failed(seconds(100)), PAUSE);
        assert!(attempts.is_failing);
        assert_eq!(attempts.paused_until, seconds(100) + PAUSE);
        assert_eq!(attempts.failed(seconds(107) + PAUSE), seconds(7));
        assert_eq!(attempts.paused_until, seconds(114) + PAUSE);

        // Another part hands something over meanwhile: the pause lasts.
        assert!(attempts.succeeded(seconds(110)));
        assert_eq!(attempts.paused_until, seconds(114) + PAUSE);
        assert_eq!(attempts.failed(seconds(111)), PAUSE);
        assert_eq!(attempts.paused_until, seconds(114) + PAUSE);

        // It works for an hour, and fails.
        assert!(attempts.succeeded(seconds(200)));
        assert!(!attempts.succeeded(seconds(3_800)));
        assert_eq!(attempts.failed(seconds(3_802)), seconds(2));
        assert_eq!(attempts.failed(seconds(9_999)), PAUSE_MAX);
        assert_eq!(attempts.paused_until, seconds(9_999) + PAUSE_MAX);
    }
}
