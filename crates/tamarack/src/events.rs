//! [`Event`]: what a database reports about its background work and its storage; [`Events`]: the
//! queue that delivers events to a [`Listener`].
//!
//! ```text
//! flush, compaction, writer, reader ── post ──► queue ── its own worker ──► Listener::on
//! ```
//!
//! Posting takes a short lock and never calls the listener, so it may happen under any lock of the
//! engine; without a listener it costs one comparison. The worker holds no lock of the engine when
//! it calls the listener. Events left at closing are delivered by the thread that closes.
//!
//! Tests: `tests/suite/events.rs`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Progress, Work, Worker};

use crate::error::Error;
use crate::stats::DecisionStats;

/// An event of background work or storage. Raw bytes are those of entries: key, value, and 8 for
/// each entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flush began: an immutable memtable becomes a run of level 1.
    FlushBegun {
        /// Entries of the memtable.
        entries: u64,
        /// Raw bytes of these entries.
        raw_bytes: u64,
    },
    /// A flush finished: the memtable is on storage, and the WAL no longer needs its entries.
    FlushEnded {
        /// Entries of the memtable.
        entries: u64,
        /// Raw bytes of these entries.
        raw_bytes: u64,
        /// Bytes of the tables written, with those of a run of level 1 that was merged into them.
        file_bytes: u64,
        /// Duration, without failed attempts.
        elapsed: Duration,
    },
    /// A compaction began.
    CompactionBegun {
        /// Number of the compaction, the same in [`Event::CompactionEnded`].
        number: u64,
        /// Cause, in words.
        cause: String,
        /// Number of input runs.
        inputs: usize,
        /// Level of the output.
        target: usize,
        /// Raw bytes to copy, estimated.
        raw_bytes: u64,
    },
    /// A compaction finished.
    CompactionEnded {
        /// Number of the compaction.
        number: u64,
        /// Level of the output.
        target: usize,
        /// Raw bytes copied, estimated.
        raw_bytes: u64,
        /// Bytes of the tables written.
        file_bytes: u64,
        /// Duration, with time spent waiting for more urgent jobs.
        elapsed: Duration,
    },
    /// Write throttling began: writers are delayed, so that compactions keep up. Posted once, until
    /// [`Event::WriteThrottlingEnded`].
    WriteThrottlingBegan {
        /// Rate at which writers may go on, in raw bytes per second; finite and positive.
        bytes_per_second: f64,
    },
    /// Write throttling ended.
    WriteThrottlingEnded,
    /// A write stall began: all memtables are full, or leave a large value no memory, and writers
    /// wait for a flush. Posted once, until [`Event::WriteStallEnded`].
    WriteStallBegan,
    /// The write stall ended.
    WriteStallEnded,
    /// Free disk space fell below the reserve: puts are refused; see
    /// [`crate::AdvancedOptions::reserve_bytes`].
    DiskSpaceLow {
        /// Free bytes.
        free_bytes: u64,
        /// Reserve, in bytes.
        reserve_bytes: u64,
    },
    /// Free disk space is sufficient again: puts are accepted.
    DiskSpaceRecovered {
        /// Free bytes.
        free_bytes: u64,
    },
    /// A sync, or a step of background work, that should take milliseconds took a second or more.
    DiskSlow {
        /// The operation.
        operation: &'static str,
        /// Its duration.
        elapsed: Duration,
    },
    /// A read, a compaction or a verification found damage: an [`Error::Corruption`].
    CorruptionFound {
        /// The error, which names the file and the offset.
        error: Error,
    },
    /// Pessimistic transactions waited for each other's locks, and the youngest was rolled back: an
    /// [`Error::Deadlock`].
    DeadlockFound {
        /// The error, which names the transactions and the keys.
        error: Error,
    },
    /// A flush or a compaction failed. It will be retried.
    BackgroundFailed {
        /// "flush" or "compaction".
        operation: &'static str,
        /// The error.
        error: Error,
        /// Time until the next attempt.
        again_in: Duration,
    },
    /// A compaction filter has failed for entries of a compaction's output, which are kept. Posted
    /// once for each output table; see [`crate::CompactionFilter::filter`].
    CompactionFilterFailed {
        /// Number of these entries.
        failures: u64,
        /// The first failure, with the name of the filter and the key.
        what: String,
    },
    /// A flush or a compaction succeeded after failures.
    BackgroundRecovered {
        /// "flush" or "compaction".
        operation: &'static str,
    },
    /// Writing stopped: the database refuses writes until it is opened again, an
    /// [`Error::Stopped`]. Closing it posts no such event.
    WritingStopped {
        /// The cause.
        error: Error,
    },
    /// The navigator has searched for a better design, because the policy is `auto`; it has changed
    /// the present one, or kept it.
    DesignDecided {
        /// The decision, with its reason and the figures that it rests on.
        decision: DecisionStats,
    },
    /// Events were dropped here, because the listener did not keep up.
    Missed {
        /// Number of dropped events.
        events: u64,
    },
}

/// Receiver of [`Event`]s: [`crate::Options::listener`]. Every `Fn(&Event)` that is [`Send`] and
/// [`Sync`] is one.
///
/// * It is called from a thread of its own, with one event at a time, in order; while the database
///   closes, from the closing thread. No lock of the database is held. Events arrive a little after
///   what they report.
/// * While it runs, it delays other events and nothing else. If more than [`EVENTS_MAX`] events
///   wait, further ones are dropped and counted by [`Event::Missed`].
/// * It may read from the database and call [`crate::Db::stats`]. It must not write, flush, compact
///   or close, which can wait for background work and so for the listener itself, nor drop the last
///   handle.
/// * A panic of the listener is logged, and the next event is delivered as usual. (A process built
///   to abort on panics ends.)
pub trait Listener: Send + Sync {
    /// Receives an event.
    fn on(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Listener for F {
    fn on(&self, event: &Event) {
        self(event);
    }
}

impl std::fmt::Debug for dyn Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listener")
    }
}

/// Maximum number of events that wait for the listener.
pub const EVENTS_MAX: usize = 4096;

/// Duration from which an operation that should take milliseconds is slow.
const SLOW: Duration = Duration::from_secs(1);

/// Queue of events for the listener.
pub struct Events {
    listener: Option<Arc<dyn Listener>>,
    queue: Mutex<EventQueue>,
    worker: OnceLock<Arc<dyn Worker>>,
}

#[derive(Default)]
struct EventQueue {
    waiting: VecDeque<Event>,
    missed: u64,
}

impl Default for Events {
    /// Without a listener.
    fn default() -> Self {
        Self::new(None)
    }
}

impl Events {
    /// Makes a queue for `listener`; without one, events are dropped.
    pub fn new(listener: Option<Arc<dyn Listener>>) -> Self {
        Self { listener, queue: Mutex::new(Rank::Events, EventQueue::default()), worker: OnceLock::new() }
    }

    /// True if there is a listener; only then is a worker needed.
    pub fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// Sets the worker that delivers events.
    ///
    /// # Panics
    /// If it is set already.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        assert!(self.worker.set(worker).is_ok(), "the worker for events is set already");
    }

    /// Posts an event.
    pub fn post(&self, make: impl FnOnce() -> Event) {
        if self.listener.is_none() {
            return;
        }
        {
            let mut queue = self.queue.lock();
            if queue.waiting.len() < EVENTS_MAX {
                queue.waiting.push_back(make());
            } else {
                queue.missed += 1;
            }
        }
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// Posts [`Event::CorruptionFound`] if `error` is corruption.
    #[cold]
    pub fn noticed(&self, error: &Error) {
        if let Error::Corruption { .. } = error {
            tracing::error!(%error, "corruption found");
            self.post(|| Event::CorruptionFound { error: error.clone() });
        }
    }

    /// Runs an operation that should take milliseconds, and posts [`Event::DiskSlow`] if it was
    /// slow.
    pub fn timed<R>(&self, env: &dyn Env, operation: &'static str, work: impl FnOnce() -> R) -> R {
        let began = env.now();
        let result = work();
        let elapsed = env.now().saturating_sub(began);
        if elapsed >= SLOW {
            tracing::warn!(operation, ?elapsed, "storage operation was slow");
            self.post(|| Event::DiskSlow { operation, elapsed });
        }
        result
    }

    /// Delivers all waiting events on this thread.
    pub fn deliver_all(&self) {
        while self.deliver_next() {}
    }

    fn deliver_next(&self) -> bool {
        let Some(listener) = &self.listener else { return false };
        let event = {
            let mut queue = self.queue.lock();
            match queue.waiting.pop_front() {
                Some(event) => event,
                // Events are dropped only when the queue is full: they follow all that waited.
                None if queue.missed > 0 => Event::Missed { events: std::mem::take(&mut queue.missed) },
                None => return false,
            }
        };
        if catch_unwind(AssertUnwindSafe(|| listener.on(&event))).is_err() {
            tracing::error!(?event, "listener panicked");
        }
        true
    }
}

impl Work for Events {
    fn step(&self) -> Progress {
        if self.deliver_next() { Progress::More } else { Progress::Idle }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("is_heard", &self.is_heard()).finish_non_exhaustive()
    }
}
