//! [`Event`]: what a database tells whoever listens about its background work and its storage; [`Events`]: how that gets from where it happens to
//! the [`Listener`].
//!
//! ```text
//! flush, merge, writer, reader ── post ──► queue ── one worker of its own ──► Listener::on
//! ```
//!
//! Posting takes a short lock and never calls the listener, so it may happen under any lock of the
//! engine; without a listener it is one comparison. The worker holds no lock of the engine when it
//! calls. What is not delivered when the database closes is delivered by whoever closes it.
//!
//! Tests: `tests/suite/events.rs`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::Mutex;
use tamarack_env::{Env, Progress, Work, Worker};

use crate::error::Error;

/// Something that happened. Bytes of entries are raw: keys, values, and 8 for each entry.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A buffer begins to become a run of level 1.
    FlushBegun {
        /// Its entries.
        entries: u64,
        /// Their raw bytes.
        raw_bytes: u64,
    },
    /// It is on storage, and the log no longer needs it.
    FlushEnded {
        /// Its entries.
        entries: u64,
        /// Their raw bytes.
        raw_bytes: u64,
        /// Bytes of the tables that were written, what was merged on the way included.
        file_bytes: u64,
        /// How long it took, failed attempts since its beginning left out.
        took: Duration,
    },
    /// Runs begin to become one.
    CompactionBegun {
        /// Its number, to be found in [`Event::CompactionEnded`].
        number: u64,
        /// Why, in words.
        cause: String,
        /// How many runs it takes.
        inputs: usize,
        /// The level it leads to.
        target: usize,
        /// Raw bytes that there are to be copied, about.
        raw_bytes: u64,
    },
    /// They are one.
    CompactionEnded {
        /// Its number.
        number: u64,
        /// The level it led to.
        target: usize,
        /// Raw bytes that there were to be copied, about.
        raw_bytes: u64,
        /// Bytes of the tables that were written.
        file_bytes: u64,
        /// How long it took, waiting for more urgent work included.
        took: Duration,
    },
    /// A writer is delayed (write throttling), so that compactions keep up. Posted when the delay
    /// begins, once until [`Event::WriteThrottlingEnded`].
    WriteThrottlingBegan {
        /// How fast writers may go, in raw bytes per second; finite, more than 0.
        bytes_per_second: f64,
    },
    /// Writers are not held back any more.
    WriteThrottlingEnded,
    /// A writer waits for a flush, because the buffers are full. Told once, until
    /// [`Event::WriteStallEnded`].
    WriteStallBegan,
    /// No writer waits for a flush any more.
    WriteStallEnded,
    /// Less space is free than the reserve: puts are refused; see
    /// [`crate::AdvancedOptions::reserve_bytes`].
    DiskSpaceLow {
        /// What is free, in bytes.
        free_bytes: u64,
        /// What is to be kept, in bytes.
        reserve_bytes: u64,
    },
    /// There is space again, and puts are taken.
    DiskSpaceRecovered {
        /// What is free, in bytes.
        free_bytes: u64,
    },
    /// A sync, or a step of background work that takes milliseconds, took a second or more.
    DiskSlow {
        /// What was being done.
        doing: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// Damage was found by a read, a merge or a verification: an [`Error::Corruption`].
    CorruptionFound {
        /// Names file and offset.
        error: Error,
    },
    /// A flush or a merge failed. It is tried again by itself.
    BackgroundFailed {
        /// "flush" or "merge".
        doing: &'static str,
        /// Why.
        error: Error,
        /// How long until the next attempt.
        again_in: Duration,
    },
    /// What had failed works again.
    BackgroundRecovered {
        /// "flush" or "merge".
        doing: &'static str,
    },
    /// The database takes no more writes until it is opened again: an [`Error::Stopped`]. Closing
    /// it is no such event.
    WritingStopped {
        /// Why.
        error: Error,
    },
    /// More events came than the listener took; so many are missing here.
    Missed {
        /// How many.
        events: u64,
    },
}

/// Whom a database tells what happens: [`crate::Options::listener`]. Any function that takes an
/// `&Event` is one.
///
/// * It is called from a thread of its own, one event after another in their order; the last of
///   them, while the database closes, from the thread that closes it. No lock of the database is
///   held. Events come a little after what they tell.
/// * While it runs, it delays other events and nothing else. Events beyond [`EVENTS_MAX`] that wait
///   are dropped, which [`Event::Missed`] says.
/// * It may read from the database and ask for its statistics. It must not write, flush, merge or
///   close, since these can wait for background work, of which this is a part; nor drop the last
///   handle.
/// * If it panics, that is logged, and it is called for the next event as if nothing had been. (A
///   process that is built to abort on panics ends.)
pub trait Listener: Send + Sync {
    /// Something happened.
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

/// So many events may wait for the listener.
pub const EVENTS_MAX: usize = 4096;

/// What takes so long is slow, if it should take milliseconds.
const SLOW: Duration = Duration::from_secs(1);

/// The way of events to the listener.
#[derive(Default)]
pub struct Events {
    listener: Option<Arc<dyn Listener>>,
    queue: Mutex<Queue>,
    worker: OnceLock<Arc<dyn Worker>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Event>,
    missed: u64,
}

impl Events {
    /// Events for `listener`; without one they are forgotten.
    pub fn new(listener: Option<Arc<dyn Listener>>) -> Self {
        Self { listener, queue: Mutex::default(), worker: OnceLock::new() }
    }

    /// Whether anybody listens: only then is a worker needed.
    pub fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// Registers the worker that delivers; may be called once.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        assert!(self.worker.set(worker).is_ok(), "there is one worker for events");
    }

    /// Tells that something happened.
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

    /// Tells of damage, if `error` is that.
    #[cold]
    pub fn noticed(&self, error: &Error) {
        if let Error::Corruption { .. } = error {
            tracing::error!(%error, "damage");
            self.post(|| Event::CorruptionFound { error: error.clone() });
        }
    }

    /// Does something that should take milliseconds, and tells if it took long.
    pub fn timed<R>(&self, env: &dyn Env, doing: &'static str, work: impl FnOnce() -> R) -> R {
        let began = env.now();
        let result = work();
        let took = env.now().saturating_sub(began);
        if took >= SLOW {
            tracing::warn!(doing, ?took, "storage is slow");
            self.post(|| Event::DiskSlow { doing, took });
        }
        result
    }

    /// Delivers all that waits, here and now.
    pub fn deliver_all(&self) {
        while self.deliver_next() {}
    }

    fn deliver_next(&self) -> bool {
        let Some(listener) = &self.listener else { return false };
        let event = {
            let mut queue = self.queue.lock();
            match queue.waiting.pop_front() {
                Some(event) => event,
                // What is missing came after all that waited.
                None if queue.missed > 0 => Event::Missed { events: std::mem::take(&mut queue.missed) },
                None => return false,
            }
        };
        if catch_unwind(AssertUnwindSafe(|| listener.on(&event))).is_err() {
            tracing::error!(?event, "the listener panicked");
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
