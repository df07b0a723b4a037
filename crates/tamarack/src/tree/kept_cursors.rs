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
//! as long as the version does; a version that takes its place begins with none.
//!
//! Kept cursors have no position, and refer to no table, block or memtable. Their memory is charged
//! as that of scans; [`Account::may_keep_cursors`](crate::memory::Account::may_keep_cursors) bounds
//! it.
//!
//! A thread looks in one slot only, and never waits: if another one is there, it makes its cursors
//! or drops them.
//!
//! Tests: here; all tests of scans, and of their memory (`tests/memory`).

use std::sync::OnceLock;

use tamarack_env::sync::{Mutex, Rank};

use super::memtable_or_run::MemtableOrRun;
use crate::memory::Charge;
use crate::merge::MergedSource;
use crate::stats::THREAD_SLOTS;

/// The cursors that a version of a tree keeps. A clone, which belongs to another version, has none.
#[derive(Debug, Default)]
pub struct KeptCursors(OnceLock<Box<[ThreadSlot; THREAD_SLOTS]>>);

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
    pub fn take(&self, slot: usize) -> Option<RunCursors> {
        self.0.get()?[slot].0.try_lock()?.take()
    }

    /// Keeps cursors over all runs of the version in the slot of a thread, or drops them if it has
    /// some.
    pub fn keep(&self, slot: usize, cursors: RunCursors) {
        let slots =
            self.0.get_or_init(|| Box::new(std::array::from_fn(|_| ThreadSlot(Mutex::new(Rank::KeptCursors, None)))));
        let Some(mut kept) = slots[slot].0.try_lock() else { return };
        // Dropped without the lock.
        let refused = if kept.is_none() { kept.replace(cursors) } else { Some(cursors) };
        drop(kept);
        drop(refused);
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
    }
}
