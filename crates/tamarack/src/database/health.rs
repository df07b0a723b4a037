//! Background errors: why flushes or compactions fail, and why writing has ended.
//!
//! ```text
//!              report_retry                    report_stop
//!   running ─────────────────▶ failing, retried ───────────▶ stopped    (for good)
//!      ◀──────────────────────────
//!              report_recovery
//! ```
//!
//! Every write calls [`Health::check_running`], one atomic load while writing is enabled; the lock
//! protects the errors themselves. Threads that wait for an activity call
//! [`Health::check_progress`] and get its error instead of waiting forever. Each change notifies
//! the database's progress event.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank};

use crate::error::{Error, Result};
use crate::events::{Event, Events};

/// A kind of background work that callers may wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Writes immutable memtables as runs.
    Flush,
    /// Compacts runs into one.
    Compaction,
}

impl Activity {
    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
        }
    }
}

/// Background errors, and whether writing is enabled.
pub struct Health {
    events: Arc<Events>,
    /// Notified at each change.
    progress: Arc<tamarack_env::Event>,
    /// True once `errors.stopped` is set; never reset. Lets writers pass without the lock.
    is_stopped: AtomicBool,
    errors: Mutex<ActivityErrors>,
}

/// The errors of background work.
#[derive(Debug, Default)]
struct ActivityErrors {
    /// Why writing has ended for good.
    stopped: Option<Arc<Error>>,
    /// The last error of flushes, while they are retried.
    flush: Option<Error>,
    /// The same for compactions.
    compaction: Option<Error>,
    /// Activities that have failed and not succeeded since.
    failing: [bool; 2],
    /// The last error, whether a retry succeeded or not.
    last: Option<Error>,
}

impl ActivityErrors {
    fn of(&mut self, activity: Activity) -> &mut Option<Error> {
        match activity {
            Activity::Flush => &mut self.flush,
            Activity::Compaction => &mut self.compaction,
        }
    }
}

impl Health {
    /// Creates the state in which nothing has failed.
    pub(super) fn new(events: Arc<Events>, progress: Arc<tamarack_env::Event>) -> Self {
        Self {
            events,
            progress,
            is_stopped: AtomicBool::new(false),
            errors: Mutex::new(Rank::Health, ActivityErrors::default()),
        }
    }

    /// Records that an activity failed and is retried after `again_in`.
    pub fn report_retry(&self, activity: Activity, error: Error, again_in: Duration) {
        self.events.noticed(&error);
        let shown = error.clone();
        self.events.post(|| Event::BackgroundFailed { operation: activity.name(), error: shown, again_in });
        {
            let mut errors = self.errors.lock();
            errors.failing[activity as usize] = true;
            errors.last = Some(error.clone());
            *errors.of(activity) = Some(error);
        }
        self.progress.notify();
    }

    /// Records that an activity succeeded, or that its failed work is not needed any more.
    pub fn report_recovery(&self, activity: Activity) {
        let mut errors = self.errors.lock();
        *errors.of(activity) = None;
        if std::mem::take(&mut errors.failing[activity as usize]) {
            self.events.post(|| Event::BackgroundRecovered { operation: activity.name() });
        }
    }

    /// Clears an activity's error, so that callers that wait from now on see only later ones.
    pub fn clear_error(&self, activity: Activity) {
        *self.errors.lock().of(activity) = None;
    }

    /// Returns the last background error, whether a retry succeeded or not.
    pub fn last_error(&self) -> Option<Error> {
        self.errors.lock().last.clone()
    }

    /// Ends writing; the first reason is kept. (A failed sync is never retried.)
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

    /// Returns an error if writing has ended. One atomic load otherwise.
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

    /// Returns an error if writing has ended or the activity fails at present.
    pub fn check_progress(&self, activity: Activity) -> Result<()> {
        self.check_running()?;
        match self.errors.lock().of(activity) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Returns true if the database was opened read-only.
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

    /// The first reason to end writing is kept, whatever fails later, and every later write returns
    /// it.
    #[test]
    fn the_first_reason_to_stop_is_kept() {
        let health = Health::new(Arc::default(), Arc::new(tamarack_env::Event::new()));
        assert!(health.check_running().is_ok());
        health.report_stop(storage_fault("wal: sync"));
        health.report_stop(Error::Closed);
        let shown = health.check_running().expect_err("writing has ended").to_string();
        assert!(shown.contains("wal: sync"), "{shown}");
        assert!(!health.is_read_only());
        assert_eq!(health.last_error().map(|error| error.to_string()), Some(shown));
    }

    /// An activity's error is returned to callers that wait for it, until it succeeds.
    #[test]
    fn an_activity_fails_until_it_succeeds() {
        let health = Health::new(Arc::default(), Arc::new(tamarack_env::Event::new()));
        health.report_retry(Activity::Flush, storage_fault("table: sync"), Duration::ZERO);
        assert!(health.check_progress(Activity::Flush).is_err());
        assert!(health.check_progress(Activity::Compaction).is_ok() && health.check_running().is_ok());
        health.report_recovery(Activity::Flush);
        assert!(health.check_progress(Activity::Flush).is_ok());
        assert!(health.last_error().is_some(), "statistics keep the last error");
    }
}
