//! Concurrent reads, by the best method that the machine supports.
//!
//! ```text
//! queue ──┬── Rings:    io_uring, many reads in one system call   ┐
//!         ├── Threads:  a thread pool, for direct I/O             ├──► each answer as it arrives
//!         └── OneByOne: otherwise                                 ┘
//! ```
//!
//! The first queue finds out whether io_uring works here; containers often forbid it. A read that a
//! ring did not carry out, that failed, or that stopped early is repeated as a single read, whose
//! result counts: so every error, interruption and oddity of a method ends in the one
//! well-understood way, and an error is reported only if the plain read fails too.

use std::sync::{Arc, OnceLock};

use super::bounce::Bounces;
#[cfg(target_os = "linux")]
use super::ring::Rings;
use super::threads::ReadThreads;
use crate::env::{ReadQueue, read_one_by_one};
use crate::workers::Workers;

/// A way to carry out many reads ([`crate::Env::read_queue`]) on the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batching {
    /// One after the other.
    OneByOne,
    /// By a thread pool, for files that bypass the page cache; else one after the other.
    Threads,
    /// Through io_uring; one after the other where that is not available.
    Rings,
}

impl Batching {
    /// The best that works here: `Rings`, or else `Threads`. Asks the kernel each time.
    pub fn best() -> Self {
        #[cfg(target_os = "linux")]
        if Rings::probe().is_ok() {
            return Self::Rings;
        }
        Self::Threads
    }
}

/// Carries out the read queues of one environment.
#[derive(Debug)]
pub(super) struct Batches {
    /// `None` for the best.
    wanted: Option<Batching>,
    /// Created for the first queue.
    method: OnceLock<Method>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only rings need memory of their own"))]
    bounces: Arc<Bounces>,
}

#[derive(Debug)]
enum Method {
    OneByOne,
    Threads(ReadThreads),
    #[cfg(target_os = "linux")]
    Rings(Rings),
}

impl Batches {
    /// Uses the given method, or the best one.
    pub(super) fn new(wanted: Option<Batching>, bounces: Arc<Bounces>) -> Self {
        Self { wanted, method: OnceLock::new(), bounces }
    }

    /// [`crate::Env::read_queue`].
    pub(super) fn read_queue(&self, workers: &Workers, queue: &mut dyn ReadQueue) {
        match self.method.get_or_init(|| Method::choose(self.wanted, workers)) {
            Method::OneByOne => read_one_by_one(queue),
            Method::Threads(threads) => threads.read_queue(workers, queue),
            #[cfg(target_os = "linux")]
            Method::Rings(rings) => {
                if rings.read_queue(&self.bounces, queue).is_err() {
                    read_one_by_one(queue);
                }
            }
        }
    }
}

impl Method {
    fn choose(wanted: Option<Batching>, workers: &Workers) -> Self {
        let threads = || ReadThreads::start(workers).map_or(Self::OneByOne, Self::Threads);
        match wanted {
            Some(Batching::OneByOne) => Self::OneByOne,
            Some(Batching::Threads) => threads(),
            Some(Batching::Rings) => Self::rings().unwrap_or(Self::OneByOne),
            None => Self::rings().unwrap_or_else(threads),
        }
    }

    #[cfg(target_os = "linux")]
    fn rings() -> Option<Self> {
        Rings::probe().ok().map(Self::Rings)
    }

    #[cfg(not(target_os = "linux"))]
    fn rings() -> Option<Self> {
        None
    }
}
