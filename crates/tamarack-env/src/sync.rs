//! Locks, atomics and threads in one place, so that the schedule explorer can replace them (feature `shuttle`).
//!
//! The locks do not poison: a panic while one is held is our own broken invariant, and whoever comes next panics too
//! rather than continue on state that may be torn.

#![expect(clippy::disallowed_types, reason = "this module is what the others use instead")]

#[cfg(feature = "shuttle")]
use shuttle::sync as imp;
use std::ops::{Deref, DerefMut};
#[cfg(not(feature = "shuttle"))]
use std::sync as imp;
use std::time::Duration;

/// Atomic integers and pointers.
pub mod atomic {
    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::atomic::*;
    #[cfg(not(feature = "shuttle"))]
    pub use std::sync::atomic::*;
}

/// Mutual exclusion.
#[derive(Debug, Default)]
pub struct Mutex<T>(imp::Mutex<T>);

/// Access to what a [`Mutex`] protects.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(imp::MutexGuard<'a, T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().expect("a thread panicked while it held this lock"))
    }

    /// Takes the lock if nobody has it.
    ///
    /// # Panics
    /// If a thread panicked while it held the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(guard)),
            Err(imp::TryLockError::WouldBlock) => None,
            Err(imp::TryLockError::Poisoned(_)) => panic!("a thread panicked while it held this lock"),
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Lets threads wait for a condition on what a [`Mutex`] protects.
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition variable nobody waits for.
    pub const fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Releases the lock, waits for a notification (or wakes for no reason), and takes the lock again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard(self.0.wait(guard.0).expect("a thread panicked while it held this lock"))
    }

    /// As [`Condvar::wait`], for at most `timeout`; true if the time was over.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) = self.0.wait_timeout(guard.0, timeout).expect("a thread panicked while it held this lock");
        (MutexGuard(guard), result.timed_out())
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
