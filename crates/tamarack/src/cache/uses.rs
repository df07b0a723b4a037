//! [`Uses`]: how often an item was used since the queues last looked at it.
//!
//! Those of neighbours stand side by side, away from the items: a hit does not touch a cache line
//! of its block for them.

use tamarack_env::sync::atomic::{AtomicU8, Ordering};

/// The most uses that count.
const USES_MAX: u8 = 3;

/// The uses of an item, from 0 to 3.
#[derive(Debug, Default)]
pub(super) struct Uses(AtomicU8);

impl Uses {
    /// Counts a use. Uses of several threads at once may count as one.
    #[inline]
    pub(super) fn note(&self) {
        let uses = self.get();
        // Most are used often: then their cache line is only read.
        if uses < USES_MAX {
            self.set(uses + 1);
        }
    }

    /// The number of uses.
    #[inline]
    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number of uses.
    #[inline]
    pub(super) fn set(&self, uses: u8) {
        self.0.store(uses, Ordering::Relaxed);
    }
}
