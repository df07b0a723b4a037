//! [`Retry`]: what becomes of a job that failed.
//!
//! After an error that ends writing ([`Error::Stopped`]) there is no next time. After any other
//! failure the job's files are removed, whoever waits for the activity is told, and the job is
//! begun anew after a pause, by itself, however often it is woken meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::Mutex;

use crate::compaction::output::Output;
use crate::database::{Activity, Database};
use crate::error::Error;

/// How long a failed job waits before it is begun anew.
pub const PAUSE: Duration = Duration::from_millis(500);

/// The pauses between attempts of one activity.
#[derive(Debug)]
pub struct Retry {
    env: Arc<dyn Env>,
    database: Arc<Database>,
    activity: Activity,
    /// No job is begun before that time.
    pause_until: Mutex<Duration>,
}

impl Retry {
    /// No pause yet.
    pub fn new(env: Arc<dyn Env>, database: Arc<Database>, activity: Activity) -> Self {
        Self { env, database, activity, pause_until: Mutex::default() }
    }

    /// Until when nothing is to be begun or gone on with; `None` if that is not to be waited for.
    pub fn pause(&self) -> Option<Duration> {
        let pause_until = *self.pause_until.lock();
        (self.env.now() < pause_until).then_some(pause_until)
    }

    /// Ends an attempt that failed with `error`; without a [`Retry::pause`] afterwards there will
    /// be no other.
    pub fn failed(&self, outputs: impl IntoIterator<Item = Output>, error: Error) {
        tracing::error!(%error, activity = ?self.activity, "a background job failed");
        if let Error::Stopped { .. } = error {
            // Whether the tables are part of the tree is decided when the manifest is read again: they stay.
            self.database.health.report_stop(error);
            return;
        }
        outputs.into_iter().for_each(Output::discard);
        self.database.health.report_retry(self.activity, error, PAUSE);
        *self.pause_until.lock() = self.env.now() + PAUSE;
    }
}
