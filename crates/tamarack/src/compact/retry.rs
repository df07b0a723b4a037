//! [`Retry`]: what becomes of a job that failed.
//!
//! After a failed sync there is no next time: nothing is written any more. After any other failure the job's files are removed, whoever waits
//! for the activity is told, and the job is begun anew after a pause, by itself, however often it is woken meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Progress};

use crate::compact::output::Output;
use crate::error::Error;
use crate::tree::state::{Activity, Tree};

/// How long a failed job waits before it is begun anew.
pub const PAUSE: Duration = Duration::from_millis(500);

/// The pauses between attempts of one activity.
#[derive(Debug)]
pub struct Retry {
    env: Arc<dyn Env>,
    tree: Arc<Tree>,
    activity: Activity,
    /// No job is begun before that time.
    pause_until: Mutex<Duration>,
}

impl Retry {
    /// No pause yet.
    pub fn new(env: Arc<dyn Env>, tree: Arc<Tree>, activity: Activity) -> Self {
        Self { env, tree, activity, pause_until: Mutex::default() }
    }

    /// What to answer instead of beginning or going on: that there is no more to do, or not yet.
    pub fn hold(&self) -> Option<Progress> {
        if self.tree.check_running().is_err() {
            return Some(Progress::Done);
        }
        let pause_until = *self.pause_until.lock();
        (self.env.now() < pause_until).then_some(Progress::IdleUntil(pause_until))
    }

    /// Ends a job that failed with `error`, and decides whether there will be another.
    pub fn failed(&self, output: Option<Output>, error: Error) -> Progress {
        tracing::error!(%error, activity = ?self.activity, "a background job failed");
        if let Error::Stopped { .. } = error {
            // Whether the tables are part of the tree is decided when the manifest is read again: they stay.
            self.tree.report_stop(error);
            return Progress::Done;
        }
        if let Some(output) = output {
            output.discard();
        }
        self.tree.report_retry(self.activity, error);
        let pause_until = self.env.now() + PAUSE;
        *self.pause_until.lock() = pause_until;
        Progress::IdleUntil(pause_until)
    }
}
