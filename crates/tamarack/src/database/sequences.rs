//! Which sequences readers see: the visible sequence, and the snapshots that hold older ones.
//!
//! The visible sequence only grows, in commit order, and only once all entries up to it are in the
//! buffers and have the durability their writers asked for. A snapshot reads it and registers in
//! one step, under the lock of the list that flushes and merges read: so none of them can miss a
//! snapshot and drop a version it needs.

use std::collections::BTreeMap;

use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use crate::entry::Sequence;

/// The visible sequence and the registered snapshots.
#[derive(Debug, Default)]
pub struct Sequences {
    sequence: AtomicU64,
    /// How many snapshots hold each sequence.
    snapshots: Mutex<BTreeMap<Sequence, usize>>,
}

impl Sequences {
    /// Everything up to `sequence` is visible.
    pub fn new(sequence: Sequence) -> Self {
        Self { sequence: AtomicU64::new(sequence.0), snapshots: Mutex::default() }
    }

    /// The youngest sequence that readers see. A reader pins the state first and asks this second:
    /// the other way round a merge could in between drop a version that was hidden only by one the
    /// reader may not see.
    pub fn visible(&self) -> Sequence {
        Sequence(self.sequence.load(Ordering::Acquire))
    }

    /// Shows everything up to `sequence`. Called in commit order, by one thread at a time.
    pub fn advance(&self, sequence: Sequence) {
        let before = self.sequence.swap(sequence.0, Ordering::Release);
        assert!(before <= sequence.0, "the visible sequence went back from {before} to {}", sequence.0);
    }

    /// Registers a snapshot of what is visible now. Must be given back with [`Sequences::release`].
    pub fn acquire(&self) -> Sequence {
        let mut snapshots = self.snapshots.lock();
        let sequence = self.visible();
        *snapshots.entry(sequence).or_insert(0) += 1;
        sequence
    }

    /// Registers one more snapshot at a sequence that is registered.
    pub fn share(&self, sequence: Sequence) {
        let mut snapshots = self.snapshots.lock();
        *snapshots.get_mut(&sequence).unwrap_or_else(|| panic!("no snapshot at {sequence:?} to share")) += 1;
    }

    /// Ends a snapshot.
    pub fn release(&self, sequence: Sequence) {
        let mut snapshots = self.snapshots.lock();
        let count = snapshots.get_mut(&sequence).unwrap_or_else(|| panic!("no snapshot at {sequence:?} to release"));
        *count -= 1;
        if *count == 0 {
            snapshots.remove(&sequence);
        }
    }

    /// The sequences that must stay readable, ascending: every snapshot, and what is visible now
    /// (for readers that have pinned no state yet, and gets, which register nothing).
    pub fn readable(&self) -> Vec<Sequence> {
        let snapshots = self.snapshots.lock();
        let visible = self.visible();
        let mut readable: Vec<_> = snapshots.keys().copied().collect();
        if readable.last() != Some(&visible) {
            readable.push(visible);
        }
        readable
    }

    /// How many snapshots are held, iterators included.
    pub fn snapshots(&self) -> usize {
        self.snapshots.lock().values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_stay_readable_is_every_snapshot_and_the_present() {
        let visible = Sequences::new(Sequence(5));
        assert_eq!(visible.acquire(), Sequence(5));
        visible.share(Sequence(5));
        visible.advance(Sequence(9));
        assert_eq!(visible.readable(), [Sequence(5), Sequence(9)]);
        visible.release(Sequence(5));
        assert_eq!(visible.readable(), [Sequence(5), Sequence(9)], "one of two is still held");
        visible.release(Sequence(5));
        assert_eq!(visible.readable(), [Sequence(9)]);
        assert_eq!(visible.snapshots(), 0);
    }
}
