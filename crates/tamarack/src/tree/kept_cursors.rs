//! [`KeptCursors`]: the cursors of scans that have ended, for scans that begin.
//!
//! ```text
//! scan 1   ├─ makes cursors ─ seeks ─ steps ─┤ keeps them
//! scan 2                                          ├─ takes them ─ seeks ─ steps ─┤ keeps them
//! ```
//!
//! A short scan spends much of its time on what it throws away: it makes a cursor for each run, and
//! counts a reference to it, on a cache line that all threads share. So each version of a tree
//! keeps the cursors of a few scans. They are over its own runs, so that what they refer to lives
//! as long as the version does; a version that takes its place begins with none, and then this one
//! keeps none any more ([`KeptCursors::retire`]).
//!
//! Kept cursors have no position, and refer to tables, but to no block or memtable. Their memory is
//! charged as that of cursors, whose sum is bounded where they are kept
//! ([`Account::may_keep_cursors`](crate::memory::Account::may_keep_cursors)).
//!
//! A thread looks in one slot only, and does not wait for another one that is there: it makes its
//! cursors, or drops them.
//!
//! Tests: here; all tests of scans, and of their memory (`tests/memory`).

use std::sync::OnceLock;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank};

use super::memtable_or_run::MemtableOrRun;
use crate::memory::Charge;
use crate::merge::MergedSource;
use crate::stats::THREAD_SLOTS;

/// The cursors that a version of a tree keeps. A clone, which belongs to another version, has none.
#[derive(Debug, Default)]
pub struct KeptCursors {
    /// Made when the first scan has ended.
    slots: OnceLock<Box<[ThreadSlot; THREAD_SLOTS]>>,
    /// True once the version was replaced.
    is_retired: AtomicBool,
}

/// Cursors over all runs of a version, young to old, and the charge for their memory.
#[derive(Debug, Default)]
pub struct RunCursors {
    /// The cursors.
    pub merged: MergedSource<MemtableOrRun>,
    /// The charge.
    pub charge: Charge,
}

/// On cache lines of its own, so that threads do not share any.
#[derive(Debug)]
#[repr(align(64))]
struct ThreadSlot(Mutex<Option<RunCursors>>);

impl Clone for KeptCursors {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KeptCursors {
    /// Takes the cursors that a thread with this slot ([`LookupCounters::thread_slot`]) has kept,
    /// if there are any.
    ///
    /// [`LookupCounters::thread_slot`]: crate::stats::LookupCounters::thread_slot
    #[inline]
    pub fn take(&self, slot: usize) -> Option<RunCursors> {
        self.slots.get()?[slot].0.try_lock()?.take()
    }

    /// Keeps cursors over all runs of the version in the slot of a thread. Drops them if it has
    /// some, or the version was replaced.
    pub fn keep(&self, slot: usize, cursors: RunCursors) {
        let new = || Box::new(std::array::from_fn(|_| ThreadSlot(Mutex::new(Rank::KeptCursors, None))));
        let Some(mut kept) = self.slots.get_or_init(new)[slot].0.try_lock() else { return };
        // Under the lock: what is kept before the version is retired is found there.
        let is_wanted = kept.is_none() && !self.is_retired.load(Ordering::SeqCst);
        // Dropped without the lock.
        let refused = if is_wanted { kept.replace(cursors) } else { Some(cursors) };
        drop(kept);
        drop(refused);
    }

    /// Drops all cursors, and keeps none from now on, as another version has taken the place of
    /// this one. Scans that have begun on it may go on for long.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
        for slot in self.slots.get().into_iter().flat_map(|slots| slots.iter()) {
            let kept = slot.0.lock().take();
            drop(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_what_it_has_kept_once() {
        let kept = KeptCursors::default();
        assert!(kept.take(7).is_none());
        kept.keep(7, RunCursors::default());
        kept.keep(7, RunCursors::default());
        assert!(kept.clone().take(7).is_none(), "another version has other runs");
        assert!(kept.take(7).is_some() && kept.take(7).is_none());
        kept.keep(7, RunCursors::default());
        kept.retire();
        assert!(kept.take(7).is_none(), "another version has taken its place");
        kept.keep(7, RunCursors::default());
        assert!(kept.take(7).is_none(), "a scan that has gone on for long leaves nothing");
    }
}
