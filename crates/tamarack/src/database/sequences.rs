//! [`Sequences`]: the visible sequence number, and the snapshots of earlier ones.
//!
//! The visible sequence only grows, in commit order, once all entries up to it are in memtables and
//! as durable as requested. A snapshot reads it and registers itself in one step, under the lock of
//! the list that flushes and compactions read; so none of them misses a snapshot and drops a
//! version that it needs.

use std::collections::BTreeMap;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};

use crate::entry::Sequence;

/// The visible sequence and the registered snapshots.
#[derive(Debug)]
pub struct Sequences {
    sequence: AtomicU64,
    /// The number of snapshots of each sequence.
    snapshots: Mutex<BTreeMap<Sequence, usize>>,
}

impl Sequences {
    /// Creates the state in which everything up to `sequence` is visible.
    pub fn new(sequence: Sequence) -> Self {
        Self { sequence: AtomicU64::new(sequence.0), snapshots: Mutex::new(Rank::Snapshots, BTreeMap::new()) }
    }

    /// Returns the youngest sequence that readers see. A reader pins the state before it calls
    /// this: in the other order a compaction could drop, in between, a version hidden only by one
    /// that the reader may not see.
    pub fn visible(&self) -> Sequence {
        Sequence(self.sequence.load(Ordering::Acquire))
    }

    /// Makes everything up to `sequence` visible. Called in commit order, by one thread at a time.
    pub fn advance(&self, sequence: Sequence) {
        let before = self.sequence.swap(sequence.0, Ordering::Release);
        assert!(before <= sequence.0, "the visible sequence went back from {before} to {}", sequence.0);
    }

    /// Registers a snapshot of the visible sequence. Must be ended with [`Sequences::release`].
    pub fn acquire(&self) -> Sequence {
        let mut snapshots = self.snapshots.lock();
        let sequence = self.visible();
        *snapshots.entry(sequence).or_insert(0) += 1;
        sequence
    }

    /// Registers another snapshot of a registered sequence.
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

    /// Returns the sequences that must stay readable, ascending: those of snapshots, and the
    /// visible one (for gets, which register nothing, and for readers that have not pinned a state
    /// yet).
    pub fn readable(&self) -> Vec<Sequence> {
        let snapshots = self.snapshots.lock();
        let visible = self.visible();
        let mut readable: Vec<_> = snapshots.keys().copied().collect();
        if readable.last() != Some(&visible) {
            readable.push(visible);
        }
        readable
    }

    /// Returns the number of snapshots, those of iterators included.
    pub fn snapshots(&self) -> usize {
        self.snapshots.lock().values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_and_the_visible_sequence_stay_readable() {
        let visible = Sequences::new(Sequence(5));
        assert_eq!(visible.acquire(), Sequence(5));
        visible.share(Sequence(5));
        visible.advance(Sequence(9));
        assert_eq!(visible.readable(), [Sequence(5), Sequence(9)]);
        visible.release(Sequence(5));
        assert_eq!(visible.readable(), [Sequence(5), Sequence(9)], "one of two snapshots remains");
        visible.release(Sequence(5));
        assert_eq!(visible.readable(), [Sequence(9)]);
        assert_eq!(visible.snapshots(), 0);
    }
}
