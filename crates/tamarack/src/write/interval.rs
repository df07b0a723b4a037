//! [`IntervalSync`]: the background half of `Durability::Interval`.
//!
//! The only state is the earliest deadline. The first write after a sync wakes the worker; later
//! writes find an earlier deadline and cost one atomic operation.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::{Env, Progress, Work, Worker};

use crate::database::Database;
use crate::error::Result;
use crate::wal::Wal;

/// No write waits for a sync.
const NONE: u64 = u64::MAX;

/// Syncs the WAL when the earliest deadline is reached.
pub struct IntervalSync {
    env: Arc<dyn Env>,
    wal: Arc<Wal>,
    database: Arc<Database>,
    /// Earliest deadline on the environment's clock, in nanoseconds.
    deadline_ns: AtomicU64,
    worker: OnceLock<Arc<dyn Worker>>,
}

impl IntervalSync {
    /// Creates the worker's state, without a deadline.
    pub fn new(env: Arc<dyn Env>, wal: Arc<Wal>, database: Arc<Database>) -> Self {
        Self { env, wal, database, deadline_ns: AtomicU64::new(NONE), worker: OnceLock::new() }
    }

    /// Registers the worker that runs this; called once.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        assert!(self.worker.set(worker).is_ok(), "there is one worker for interval syncs");
    }

    /// Ensures that everything appended so far is synced at most `at_most` from now.
    pub fn sync_within(&self, at_most: Duration) {
        let deadline_ns = nanoseconds(self.env.now().saturating_add(at_most));
        if self.deadline_ns.fetch_min(deadline_ns, Ordering::AcqRel) > deadline_ns
            && let Some(worker) = self.worker.get()
        {
            worker.wake();
        }
    }

    /// Syncs pending writes at once, after the worker has ended.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`] if the WAL could not be synced, now or before.
    pub fn finish(&self) -> Result<()> {
        match self.deadline_ns.swap(NONE, Ordering::AcqRel) {
            NONE => Ok(()),
            _ => self.wal.sync_to(self.wal.end()),
        }
    }
}

impl Work for IntervalSync {
    fn step(&self) -> Progress {
        let deadline_ns = self.deadline_ns.load(Ordering::Acquire);
        if deadline_ns == NONE {
            return Progress::Idle;
        }
        if nanoseconds(self.env.now()) < deadline_ns {
            return Progress::IdleUntil(Duration::from_nanos(deadline_ns));
        }
        // Cleared before reading the WAL's end: a write that saw the old deadline was appended
        // before. A swap also acquires what the last writer to see that deadline did; a store would
        // not.
        self.deadline_ns.swap(NONE, Ordering::AcqRel);
        match self.database.events.timed(&*self.env, "wal: sync", || self.wal.sync_to(self.wal.end())) {
            Ok(()) => Progress::More,
            Err(error) => {
                self.database.health.report_stop(error);
                Progress::Done
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    // 584 years; anything beyond means "never".
    u64::try_from(time.as_nanos()).unwrap_or(NONE - 1)
}
