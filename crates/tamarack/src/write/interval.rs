//! [`IntervalSync`]: the background half of `Durability::Interval`.
//!
//! A write asks for a sync within some time; the earliest such deadline is all the state there is.
//! Only the first write after a sync wakes the worker, the others find an earlier deadline set and
//! cost one atomic operation.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::{Env, Progress, Work, Worker};

use crate::database::Database;
use crate::error::Result;
use crate::wal::Wal;

/// No write waits for a sync.
const NONE: u64 = u64::MAX;

/// Syncs the log when the earliest deadline has come.
pub struct IntervalSync {
    env: Arc<dyn Env>,
    wal: Arc<Wal>,
    database: Arc<Database>,
    /// On the clock of the environment, in nanoseconds.
    deadline_ns: AtomicU64,
    worker: OnceLock<Arc<dyn Worker>>,
}

impl IntervalSync {
    /// No deadline yet.
    pub fn new(env: Arc<dyn Env>, wal: Arc<Wal>, database: Arc<Database>) -> Self {
        Self { env, wal, database, deadline_ns: AtomicU64::new(NONE), worker: OnceLock::new() }
    }

    /// Registers the worker that runs this; may be called once.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        assert!(self.worker.set(worker).is_ok(), "there is one worker for interval syncs");
    }

    /// Has everything appended so far synced at most `at_most` from now.
    pub fn sync_within(&self, at_most: Duration) {
        let deadline_ns = nanoseconds(self.env.now().saturating_add(at_most));
        if self.deadline_ns.fetch_min(deadline_ns, Ordering::AcqRel) > deadline_ns
            && let Some(worker) = self.worker.get()
        {
            worker.wake();
        }
    }

    /// Syncs now what would have been synced later, because the worker has ended.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`] if the log could not be synced, now or before.
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
        // Cleared before the log's end is read: a write that found the old deadline was appended
        // before that. A swap, since it also sees what the last one to find that deadline did
        // before; a store would not.
        self.deadline_ns.swap(NONE, Ordering::AcqRel);
        match self.database.events.timed(&*self.env, "log: sync", || self.wal.sync_to(self.wal.end())) {
            Ok(()) => Progress::More,
            Err(error) => {
                self.database.health.report_stop(error);
                Progress::Done
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    // 584 years; a clock or an interval beyond that means "never".
    u64::try_from(time.as_nanos()).unwrap_or(NONE - 1)
}
