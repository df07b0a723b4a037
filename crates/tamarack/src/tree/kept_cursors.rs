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

/// Slots of a version. More threads than that share some.
const SLOTS: usize = 16;

/// The cursors that a version of a tree keeps. A clone, which belongs to another version, has none.
#[derive(Debug, Default)]
pub struct KeptCursors(OnceLock<Box<[Slot; SLOTS]>>);

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
struct Slot(Mutex<Option<RunCursors>>);

impl Clone for KeptCursors {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KeptCursors {
    /// Takes the cursors that this `thread` has kept, if there are any.
    pub fn take(&self, thread: usize) -> Option<RunCursors> {
        self.slot(thread)?.try_lock()?.take()
    }

    /// Keeps cursors over all runs of the version, as for [`KeptCursors::take`], or drops them if
    /// it has some.
    pub fn keep(&self, thread: usize, cursors: RunCursors) {
        self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Slot(Mutex::new(Rank::KeptCursors, None)))));
        let Some(mut slot) = self.slot(thread).and_then(Mutex::try_lock) else { return };
        // Dropped without the lock.
        let refused = if slot.is_none() { slot.replace(cursors) } else { Some(cursors) };
        drop(slot);
        drop(refused);
    }

    /// The slot of a thread, by any number that differs from those of other threads.
    fn slot(&self, thread: usize) -> Option<&Mutex<Option<RunCursors>>> {
        // The upper bits of the product depend on all bits: numbers may be addresses.
        let mixed = (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(&self.0.get()?[(mixed >> (64 - SLOTS.ilog2())) as usize].0)
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

    /// Addresses of what threads have differ by multiples of large powers of two.
    #[test]
    fn threads_rarely_share_a_slot() {
        for step in [1, 64, 4096, 1 << 20, 1 << 26] {
            let kept = KeptCursors::default();
            let threads = (0..8).map(|thread| 0x7000_0000_0b20 + thread * step);
            threads.clone().for_each(|thread| kept.keep(thread, RunCursors::default()));
            let slots = threads.filter(|thread| kept.take(*thread).is_some()).count();
            assert!(slots >= 5, "{slots} slots for 8 threads in steps of {step}");
        }
    }
}
