//! The clock that the operating system and the memory environment share, and the only place where a
//! thread sleeps.
//!
//! Two clocks hide behind one name:
//!
//! * the real one: time since the environment was made, from the machine's monotonic clock;
//! * the explorer's (feature `shuttle`): a number that stands still until a thread sleeps up to a
//!   deadline, and then is that deadline. The schedule explorer knows no time, so "the deadline
//!   passes" becomes one more thing that may happen between any two steps of the other threads: a
//!   thread that sleeps with a deadline gives way once, and then its time is over. So a wait with a
//!   deadline never hangs there, and never takes real time.
//!
//! Both never go back. Tested by the contract suite and by `tests/shuttle.rs`.

use std::time::Duration;

use crate::env::Event;

/// A clock that starts at zero.
#[derive(Debug)]
pub(crate) struct Clock(source::Source);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(source::Source::new())
    }

    /// Time since the clock was made.
    pub(crate) fn now(&self) -> Duration {
        self.0.now()
    }

    /// Time since 1970-01-01 00:00 UTC.
    pub(crate) fn unix_time(&self) -> Duration {
        self.0.unix_time()
    }

    /// Sleeps until `event` has happened since its count was `seen`, or until `deadline` has come;
    /// without a deadline, as long as it takes.
    pub(crate) fn sleep(&self, event: &Event, seen: u64, deadline: Option<Duration>) {
        while event.count() == seen {
            let remaining = deadline.map(|deadline| deadline.saturating_sub(self.now()));
            if remaining == Some(Duration::ZERO) {
                return;
            }
            if event.wait_past(seen, remaining).is_break() {
                self.0.timed_out(deadline);
            }
        }
    }
}

#[cfg(not(feature = "shuttle"))]
mod source {
    #![expect(clippy::disallowed_methods, reason = "this is the clock that the others use instead")]

    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    /// The machine's clock.
    #[derive(Debug)]
    pub(super) struct Source {
        origin: Instant,
    }

    impl Source {
        pub(super) fn new() -> Self {
            Self { origin: Instant::now() }
        }

        pub(super) fn now(&self) -> Duration {
            self.origin.elapsed()
        }

        /// A machine whose clock is set before 1970 gets 1970.
        pub(super) fn unix_time(&self) -> Duration {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
        }

        /// Time passes by itself.
        pub(super) fn timed_out(&self, _deadline: Option<Duration>) {}
    }
}

#[cfg(feature = "shuttle")]
mod source {
    use std::time::Duration;

    use crate::sync::atomic::{AtomicU64, Ordering};

    /// The explorer's clock: the latest deadline that a thread has slept up to, in nanoseconds.
    #[derive(Debug)]
    pub(super) struct Source {
        now_ns: AtomicU64,
    }

    impl Source {
        pub(super) fn new() -> Self {
            Self { now_ns: AtomicU64::new(0) }
        }

        pub(super) fn now(&self) -> Duration {
            Duration::from_nanos(self.now_ns.load(Ordering::SeqCst))
        }

        /// The explorer's world begins in 1970.
        pub(super) fn unix_time(&self) -> Duration {
            self.now()
        }

        pub(super) fn timed_out(&self, deadline: Option<Duration>) {
            let deadline_ns = deadline.map_or(0, |deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
            self.now_ns.fetch_max(deadline_ns, Ordering::SeqCst);
        }
    }
}
