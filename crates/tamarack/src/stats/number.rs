//! [`Number`]: a counter that one thread writes and all may read.
//!
//! An addition is a load and a store, without a locked instruction. They order nothing: a reader
//! gets the value of about now.

#![expect(
    clippy::disallowed_types,
    reason = "the schedule explorer, whose threads are one thread of the machine, must not interrupt an addition"
)]

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Number(AtomicU64);

impl Number {
    /// Makes a counter with an initial value.
    pub(super) fn new(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }

    /// Sets the value. Together with [`Number::get`] it is not atomic: only one thread writes.
    #[inline]
    pub(super) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Adds `amount`.
    #[inline]
    pub(super) fn add(&self, amount: u64) {
        self.set(self.get() + amount);
    }

    /// Returns the value.
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
