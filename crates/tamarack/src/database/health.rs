//! Background errors: why flushes or compactions fail, and why writing has ended.
//!
//! ```text
//!              report_retry                    report_stop
//!   running ─────────────────▶ failing, retried ───────────▶ stopped    (for good)
//!      ◀──────────────────────────
//!              report_recovery
//! ```
//!
//! Every write asks [`Health::check_running`], which is one atomic load while writing has not
//! ended; the lock behind it protects the errors themselves. Whoever waits for an activity asks
//! [`Health::check_progress`] and is told the error rather than left waiting. Each change notifies
//! the database's progress.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Event as Progress;
use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::events::{Event, Events};

/// A kind of background work that others may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Immutable memtables become runs.
    Flush,
    /// Runs become one.
    Compaction,
}

impl Activity {
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "merge",
        }
    }
}

/// Whether writing goes on, and what has failed.
pub struct Health {
    events: Arc<Events>,
    /// Notified at each change.
    progress: Arc<Progress>,
    /// True once `errors.stopped` is set; never false again. What lets writers pass without the
    /// lock.
    is_stopped: AtomicBool,
    errors: Mutex<Errors>,
}

/// What keeps background work from going on.
#[derive(Debug, Default)]
struct Errors {
    /// Why there will be no more of it.
    stopped: Option<Arc<Error>>,
    /// Why flushes failed last, if they did; they are tried again.
    flush: Option<Error>,
    /// The same for compactions.
    merge: Option<Error>,
    /// Which activities have failed and not succeeded since.
    failing: [bool; 2],
    /// What failed last, whether a later attempt succeeded or not.
    last: Option<Error>,
}

impl Errors {
    fn of(&mut self, activity: Activity) -> &mut Option<Error> {
        match activity {
            Activity::Flush => &mut self.flush,
            Activity::Compaction => &mut self.merge,
        }
    }
}

impl Health {
    /// Nothing has failed.
    pub(super) fn new(events: Arc<Events>, progress: Arc<Progress>) -> Self {
        Self { events, progress, is_stopped: AtomicBool::new(false), errors: Mutex::default() }
    }

    /// Notes that an activity failed and will be tried again after some time.
    pub fn report_retry(&self, activity: Activity, error: Error, again_in: Duration) {
        self.events.noticed(&error);
        let told = error.clone();
        self.events.post(|| Event::BackgroundFailed { doing: activity.name(), error: told, again_in });
        {
            let mut errors = self.errors.lock();
            errors.failing[activity as usize] = true;
            errors.last = Some(error.clone());
            *errors.of(activity) = Some(error);
        }
        self.progress.notify();
    }

    /// Notes that an activity succeeded, or that what failed of it is not needed any more.
    pub fn report_recovery(&self, activity: Activity) {
        let mut errors = self.errors.lock();
        *errors.of(activity) = None;
        if std::mem::take(&mut errors.failing[activity as usize]) {
            self.events.post(|| Event::BackgroundRecovered { doing: activity.name() });
        }
    }

    /// Forgets an activity's last error, so that whoever waits from now on is told only of later
    /// ones.
    pub fn forget_trouble(&self, activity: Activity) {
        *self.errors.lock().of(activity) = None;
    }

    /// What failed last in the background, whether a later attempt succeeded or not.
    pub fn last_trouble(&self) -> Option<Error> {
        self.errors.lock().last.clone()
    }

    /// Ends writing (rule: a failed sync is never retried as if it could succeed). The first reason
    /// is the one that is kept.
    pub fn report_stop(&self, error: Error) {
        let cause = match error {
            Error::Stopped { cause } => cause,
            other => Arc::new(other),
        };
        {
            let mut errors = self.errors.lock();
            if errors.stopped.is_none() {
                if !matches!(*cause, Error::Closed | Error::ReadOnly { .. }) {
                    let error = Error::Stopped { cause: cause.clone() };
                    errors.last = Some(error.clone());
                    self.events.post(|| Event::WritingStopped { error });
                }
                errors.stopped = Some(cause);
                self.is_stopped.store(true, Ordering::Release);
            }
        }
        self.progress.notify();
    }

    /// An error if the database takes no more writes. One atomic load while it does.
    #[inline]
    pub fn check_running(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Acquire) { Err(self.why_stopped()) } else { Ok(()) }
    }

    #[cold]
    fn why_stopped(&self) -> Error {
        match self.errors.lock().stopped.clone().expect("the reason is set before the flag") {
            cause if matches!(*cause, Error::ReadOnly { .. }) => Error::clone(&cause),
            cause => Error::Stopped { cause },
        }
    }

    /// An error if an activity makes no progress now.
    pub fn check_progress(&self, activity: Activity) -> Result<()> {
        self.check_running()?;
        match self.errors.lock().of(activity) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// True if the database was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        matches!(self.check_running(), Err(Error::ReadOnly { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage_fault(step: &'static str) -> Error {
        Error::io(step, std::path::Path::new("/trees"), std::io::Error::other("it failed"))
    }

    /// The first reason to stop is kept, whatever fails later, and is what every later write is
    /// told.
    #[test]
    fn the_first_reason_to_stop_is_kept() {
        let health = Health::new(Arc::default(), Arc::new(Progress::new()));
        assert!(health.check_running().is_ok());
        health.report_stop(storage_fault("log: sync"));
        health.report_stop(Error::Closed);
        let told = health.check_running().expect_err("writing has ended").to_string();
        assert!(told.contains("log: sync"), "{told}");
        assert!(!health.is_read_only());
        assert_eq!(health.last_trouble().map(|error| error.to_string()), Some(told));
    }

    /// An error of one activity is told to whoever waits for that one, until it succeeds.
    #[test]
    fn an_activity_fails_until_it_succeeds() {
        let health = Health::new(Arc::default(), Arc::new(Progress::new()));
        health.report_retry(Activity::Flush, storage_fault("table: sync"), Duration::ZERO);
        assert!(health.check_progress(Activity::Flush).is_err());
        assert!(health.check_progress(Activity::Compaction).is_ok() && health.check_running().is_ok());
        health.report_recovery(Activity::Flush);
        assert!(health.check_progress(Activity::Flush).is_ok());
        assert!(health.last_trouble().is_some(), "statistics keep what was");
    }
}
