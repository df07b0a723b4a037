//! Locks, atomics and threads in one place, so that the schedule explorer can replace them (feature
//! `shuttle`).
//!
//! Without the feature these are those of the standard library. With it, every operation on them
//! becomes a point where the explorer may let another thread go on, and a test runs again and
//! again, each time in another order:
//!
//! ```text
//! shuttle::check_random(|| { … MemoryEnv, threads, the code under test … }, 1000 /* orders */);
//! ```
//!
//! That only works if the code under test uses nothing else to share and to wait; and nothing of
//! this module works outside of such a test then. The explorer knows neither time nor weak memory:
//! a wait with a timeout gives way once and is over, and all atomics are as if `SeqCst`.
//!
//! The locks do not poison: a panic while one is held is our own broken invariant, and whoever
//! comes next panics too rather than continue on state that may be torn.
//!
//! Every lock has a [`Rank`], its place in the order in which a thread takes locks. Debug builds
//! check that order.

#![cfg_attr(
    not(feature = "shuttle"),
    expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is what the others use instead")
)]

mod rank;
#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub use rank::{Rank, apart};

#[cfg(feature = "shuttle")]
use shuttle as imp;
#[cfg(not(feature = "shuttle"))]
use std as imp;

/// Atomic integers and pointers: names of our own for the types of the standard library or of the
/// schedule explorer, so that the lint which forbids the former everywhere else can tell them
/// apart.
pub mod atomic {
    use crate::sync::imp::sync::atomic;

    pub use atomic::{Ordering, fence};

    /// See [`std::sync::atomic::AtomicBool`].
    pub type AtomicBool = atomic::AtomicBool;
    /// See [`std::sync::atomic::AtomicU8`].
    pub type AtomicU8 = atomic::AtomicU8;
    /// See [`std::sync::atomic::AtomicU32`].
    pub type AtomicU32 = atomic::AtomicU32;
    /// See [`std::sync::atomic::AtomicU64`].
    pub type AtomicU64 = atomic::AtomicU64;
    /// See [`std::sync::atomic::AtomicUsize`].
    pub type AtomicUsize = atomic::AtomicUsize;
    /// See [`std::sync::atomic::AtomicPtr`].
    pub type AtomicPtr<T> = atomic::AtomicPtr<T>;
}

/// Threads, for environments and tests; an engine starts its own with [`crate::Env::start`].
pub mod thread {
    use crate::sync::imp::thread;

    pub use thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, current, scope, yield_now};

    /// See [`std::thread::spawn`].
    pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        thread::spawn(run)
    }
}

/// Lets the schedule explorer switch threads here; nothing without it. For the few places that
/// share through something which the explorer cannot replace.
#[inline(always)]
pub fn schedule_point() {
    #[cfg(feature = "shuttle")]
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

/// Mutual exclusion.
#[derive(Debug)]
pub struct Mutex<T> {
    lock: imp::sync::Mutex<T>,
    place: rank::LockRank,
}

/// Access to what a [`Mutex`] protects.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    guard: imp::sync::MutexGuard<'a, T>,
    /// Given back after the lock.
    held: rank::HeldRank,
    /// Where the guard came from, for [`Condvar::wait_timeout`].
    #[cfg(feature = "shuttle")]
    lock: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock around `value`, with its place in the order of locks.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self { lock: imp::sync::Mutex::new(value), place: rank::LockRank::of(rank) }
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock. In debug builds also if this thread holds a
    /// lock of the same rank or a higher one.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.place.take();
        self.guard(self.lock.lock().expect(PANICKED), held)
    }

    /// Takes the lock if nobody has it; of any rank, since that never waits.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.lock.try_lock() {
            Ok(guard) => Some(self.guard(guard, self.place.take_without_waiting())),
            Err(imp::sync::TryLockError::WouldBlock) => None,
            Err(imp::sync::TryLockError::Poisoned(_)) => panic!("{PANICKED}"),
        }
    }

    fn guard<'a>(&'a self, guard: imp::sync::MutexGuard<'a, T>, held: rank::HeldRank) -> MutexGuard<'a, T> {
        MutexGuard {
            guard,
            held,
            #[cfg(feature = "shuttle")]
            lock: self,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Lets threads wait for a condition on what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar(imp::sync::Condvar);

impl Condvar {
    /// A condition variable nobody waits for.
    pub const fn new() -> Self {
        Self(imp::sync::Condvar::new())
    }

    /// Releases the lock, waits for a notification (or wakes for no reason), and takes the lock
    /// again.
    ///
    /// # Panics
    /// As [`Mutex::lock`]; in debug builds also if this thread holds a lock of a higher rank.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        guard.held.check_last();
        guard.guard = self.0.wait(guard.guard).expect(PANICKED);
        guard
    }

    /// As [`Condvar::wait`], for at most `timeout`; true if the time was over.
    #[cfg(not(feature = "shuttle"))]
    pub fn wait_timeout<'a, T>(&self, mut guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        guard.held.check_last();
        let result;
        (guard.guard, result) = self.0.wait_timeout(guard.guard, timeout).expect(PANICKED);
        (guard, result.timed_out())
    }

    /// Releases the lock, lets other threads go on, and takes the lock again: the explorer's own
    /// wait never times out, and would call a thread that only waits for its timeout a
    /// deadlock.
    #[cfg(feature = "shuttle")]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, _timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        let lock = guard.lock;
        drop(guard);
        thread::yield_now();
        (lock.lock(), true)
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

const PANICKED: &str = "a thread panicked while it held this lock";
