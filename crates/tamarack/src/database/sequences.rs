//! [`Sequences`]: the visible sequence number, and the snapshots of earlier ones.
//!
//! The visible sequence only grows, in commit order, once all entries up to it are in memtables and
//! as durable as requested.
//!
//! A snapshot registers itself in the list of its thread's slot, and each scan is one: a list for
//! all would be what short scans of many threads wait for. It reads the visible sequence under the
//! list's lock. Flushes and compactions read the visible sequence first, then each list under its
//! lock. So none of them misses a version that a snapshot needs:
//!
//! * a snapshot that is registered when its list is read is found there;
//! * one that comes later has at least the visible sequence that was read, which stays readable, as
//!   do all entries above it. So younger snapshots are left out, also where they are found: of the
//!   entries between two of them, only what these see would stay, but a third one may have come
//!   to a list that was read before.
//!
//! # Compaction filters
//!
//! What a compaction filter drops or changes must not be read by a snapshot, neither before nor
//! after. So while the output of such a compaction becomes visible, no snapshot begins
//! ([`Sequences::keep_snapshots_out`]): the gate is marked as closed, then each list is searched
//! under its lock. A snapshot looks at the mark under the lock of its list. If it comes there
//! before the search, it is found; if after, it sees the mark and waits.

use std::collections::BTreeMap;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, MutexGuard, Rank};

use crate::entry::Sequence;
use crate::mistake::{self, Mistake};
use crate::stats::THREAD_SLOTS;

/// The visible sequence and the registered snapshots.
#[derive(Debug)]
pub struct Sequences {
    sequence: AtomicU64,
    lists: [List; THREAD_SLOTS],
    /// True while no snapshot may begin; changes under the lock of `gate`.
    is_closed: AtomicBool,
    /// Held while no snapshot may begin.
    gate: Mutex<()>,
}

/// While this exists, no snapshot begins. See [`Sequences::keep_snapshots_out`].
#[derive(Debug)]
#[must_use = "snapshots begin when it is dropped"]
pub struct ClosedGate<'a> {
    sequences: &'a Sequences,
    _gate: MutexGuard<'a, ()>,
}

/// Opens the gate, before its lock is released.
impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.sequences.is_closed.store(false, Ordering::SeqCst);
    }
}

/// The number of snapshots of each sequence. On cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
struct List(Mutex<BTreeMap<Sequence, usize>>);

/// A registered snapshot, to be ended with [`Sequences::release`].
#[derive(Debug)]
pub struct Registration {
    /// What it sees.
    pub sequence: Sequence,
    /// The slot of its list.
    slot: usize,
}

impl Sequences {
    /// Creates the state in which everything up to `sequence` is visible.
    pub fn new(sequence: Sequence) -> Self {
        let list = |_| List(Mutex::new(Rank::Snapshots, BTreeMap::new()));
        Self {
            sequence: AtomicU64::new(sequence.0),
            lists: std::array::from_fn(list),
            is_closed: AtomicBool::new(false),
            gate: Mutex::new(Rank::SnapshotGate, ()),
        }
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

    /// Registers a snapshot of the visible sequence, in the list of the thread's slot
    /// ([`LookupCounters::thread_slot`](crate::stats::LookupCounters::thread_slot)).
    pub fn acquire(&self, slot: usize) -> Registration {
        loop {
            let mut list = self.lists[slot].0.lock();
            if !self.is_closed.load(Ordering::Relaxed) {
                let sequence = self.visible();
                *list.entry(sequence).or_insert(0) += 1;
                return Registration { sequence, slot };
            }
            drop(list);
            self.wait_at_gate();
        }
    }

    /// Blocks while no snapshot may begin.
    #[cold]
    fn wait_at_gate(&self) {
        drop(self.gate.lock());
    }

    /// Lets no snapshot begin until the result is dropped. `None` if there is a snapshot that can
    /// read an entry of this sequence: it has begun.
    pub fn keep_snapshots_out(&self, sequence: Sequence) -> Option<ClosedGate<'_>> {
        let gate = self.gate.lock();
        self.is_closed.store(true, Ordering::SeqCst);
        let closed = ClosedGate { sequences: self, _gate: gate };
        let is_read = self.youngest_snapshot().is_some_and(|youngest| youngest >= sequence);
        let are_overlooked = mistake::is_planted(Mistake::FilterBesideSnapshot);
        (!is_read || are_overlooked || mistake::is_planted(Mistake::FilterUnderSnapshot)).then_some(closed)
    }

    /// Returns the sequence of the youngest snapshot, if there is one.
    pub fn youngest_snapshot(&self) -> Option<Sequence> {
        self.lists.iter().filter_map(|list| list.0.lock().keys().next_back().copied()).max()
    }

    /// Registers another snapshot of a registered sequence.
    pub fn share(&self, registration: &Registration) -> Registration {
        let &Registration { sequence, slot } = registration;
        let mut list = self.lists[slot].0.lock();
        *list.get_mut(&sequence).unwrap_or_else(|| panic!("no snapshot at {sequence:?} to share")) += 1;
        Registration { sequence, slot }
    }

    /// Ends a snapshot.
    pub fn release(&self, registration: &Registration) {
        let Registration { sequence, slot } = registration;
        let mut list = self.lists[*slot].0.lock();
        let count = list.get_mut(sequence).unwrap_or_else(|| panic!("no snapshot at {sequence:?} to release"));
        *count -= 1;
        if *count == 0 {
            list.remove(sequence);
        }
    }

    /// Returns the sequences that must stay readable, ascending: those of snapshots, and last the
    /// visible one (for gets, which register nothing, and for readers that have not pinned a state
    /// yet, or register later). All entries above that must stay.
    pub fn readable(&self) -> Vec<Sequence> {
        let visible = self.visible();
        let mut readable = vec![visible];
        for list in &self.lists {
            readable.extend(list.0.lock().keys().take_while(|sequence| **sequence < visible));
        }
        readable.sort_unstable();
        readable.dedup();
        readable
    }

    /// Returns the number of snapshots, those of iterators included.
    pub fn snapshots(&self) -> usize {
        self.lists.iter().map(|list| list.0.lock().values().sum::<usize>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No snapshot begins while the gate is closed, and the gate does not close beside one that can
    /// read the entry. Another thread, whose snapshot comes to a closed gate, waits.
    #[test]
    fn no_snapshot_begins_while_the_gate_is_closed() {
        let sequences = Sequences::new(Sequence(5));
        let old = sequences.acquire(3);
        sequences.advance(Sequence(9));
        assert!(sequences.keep_snapshots_out(Sequence(5)).is_none(), "the snapshot reads it");
        assert_eq!(sequences.youngest_snapshot(), Some(Sequence(5)));
        let closed = sequences.keep_snapshots_out(Sequence(6)).expect("the snapshot is older");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| sequences.acquire(7));
            for _ in 0..1000 {
                assert_eq!(sequences.youngest_snapshot(), Some(Sequence(5)), "it has begun");
                std::thread::yield_now();
            }
            drop(closed);
            let other = other.join().expect("it begins when the gate is open");
            assert_eq!(sequences.youngest_snapshot(), Some(Sequence(9)));
            sequences.release(&other);
        });
        sequences.release(&old);
        assert!(sequences.keep_snapshots_out(Sequence(1)).is_some(), "nobody is left");
        assert_eq!(sequences.acquire(0).sequence, Sequence(9), "the gate is open again");
    }

    #[test]
    fn snapshots_and_the_visible_sequence_stay_readable() {
        let visible = Sequences::new(Sequence(5));
        let first = visible.acquire(3);
        assert_eq!(first.sequence, Sequence(5));
        let second = visible.share(&first);
        visible.advance(Sequence(9));
        let third = visible.acquire(4);
        visible.advance(Sequence(12));
        assert_eq!(visible.readable(), [Sequence(5), Sequence(9), Sequence(12)]);
        assert_eq!(visible.snapshots(), 3);
        visible.release(&first);
        visible.release(&third);
        assert_eq!(visible.readable(), [Sequence(5), Sequence(12)], "one of two snapshots remains");
        visible.release(&second);
        assert_eq!(visible.readable(), [Sequence(12)]);
        assert_eq!(visible.snapshots(), 0);
    }
}
