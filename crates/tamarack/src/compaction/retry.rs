//! [`Retry`]: retries of failed jobs.
//!
//! An error that stops writing ([`Error::Stopped`]) is final. After any other failure the job's
//! files are removed, waiting callers get the error, and the job begins anew after a pause, however
//! often it is woken meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::{Mutex, Rank};

use crate::compaction::output::CompactionOutput;
use crate::database::{Activity, Database};
use crate::error::Error;

/// Pause between a failure and the next attempt.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Pauses between attempts of one activity.
#[derive(Debug)]
pub struct Retry {
    env: Arc<dyn Env>,
    database: Arc<Database>,
    activity: Activity,
    /// Time before which no job begins.
    pause_until: Mutex<Duration>,
}

impl Retry {
    /// Makes a state without a pause.
    pub fn new(env: Arc<dyn Env>, database: Arc<Database>, activity: Activity) -> Self {
        Self { env, database, activity, pause_until: Mutex::new(Rank::Retry, Duration::ZERO) }
    }

    /// Returns the end of the present pause; `None` if there is none.
    pub fn pause(&self) -> Option<Duration> {
        let pause_until = *self.pause_until.lock();
        (self.env.now() < pause_until).then_some(pause_until)
    }

    /// Ends an attempt that failed with `error`. Another follows after [`Retry::pause`], unless the
    /// error stops writing.
    pub fn failed(&self, outputs: impl IntoIterator<Item = CompactionOutput>, error: Error) {
        tracing::error!(%error, activity = ?self.activity, "background job failed");
        if let Error::Stopped { .. } = error {
            // The tables stay: whether an edit names them is unknown until the manifest is read
            // again.
            self.database.health.report_stop(error);
            return;
        }
        outputs.into_iter().for_each(CompactionOutput::discard);
        self.database.health.report_retry(self.activity, error, PAUSE);
        *self.pause_until.lock() = self.env.now() + PAUSE;
    }
}
