//! [`Admission`]: an upper bound on the bytes of large operations in progress, of one kind.
//!
//! **Writes.** A write takes its size twice: in its group for the WAL, and in the memtable. The
//! limit on the memory of memtables (see [`crate::write::commit`]) is checked before a write joins
//! a group, so all writers that check at the same time may pass. That is nothing for small writes;
//! with values of an eighth of the memory budget, 64 threads once took six times the budget.
//!
//! **Reads.** Eight threads that read blocks of an eighth of the budget together once took twice
//! the budget. A block's charge ends when its reader drops it, which may be late where more threads
//! than processors read; so one that is about to read waits for that before, for a while
//! (`table/storage.rs`).
//!
//! So large operations take turns: each waits here, before it takes any memory, while others have
//! as much as is allowed.
//!
//! ```text
//!   writers ──► admission ──► space in memtables ──► join, log, apply ──► done
//!   readers ──► admission ──► read, check, decode ──► charged block
//!               large ones: at most the largest size between here ────────┘
//! ```
//!
//! So one of the largest size is alone, and two of half of it are applied and logged at the same
//! time. A small operation takes no lock. Large ones begin in the order in which they come. A
//! reader that was admitted waits for its own reads only; a writer for flushes, for the leader,
//! and, while memory is over the budget, for the large reads that came before it
//! ([`Admission::wait_for_earlier`]). None of these waits for admission.
//!
//! A step of a scan may read several large blocks, and has the one that it leaves in memory beside
//! the one that it enters. It keeps its turn until it ends ([`StepTurn`]).
//!
//! For reads, the size on storage counts: what is compressed to little takes no turn. Nor do blocks
//! of less than 256 KiB that several lookups request together, of less than 512 KiB that are part
//! of a scan's read-ahead, and those of flushes and compactions, which are as few as their threads.
//!
//! Tests: here; `tests/memory` measures the memory of 64 threads.

use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Condvar, Mutex, Rank};

/// Parts of the largest size up to which an operation counts as small: those of 64 threads take no
/// more than one of the largest size.
const SMALL_SHARE: u64 = 64;

/// The bound on large operations in progress. See the module's documentation.
#[derive(Debug)]
pub struct Admission {
    /// The size of the largest operation, in bytes.
    largest_bytes: u64,
    turns: Mutex<Turns>,
    /// Signalled when a large operation has begun or ended.
    changed: Condvar,
}

/// The order of large operations: as they come, so that smaller ones do not pass by a large one for
/// ever.
#[derive(Debug, Default)]
struct Turns {
    /// Operations that have come.
    come: u64,
    /// Operations that have begun.
    begun: u64,
    /// Operations that have ended.
    ended: u64,
    /// Bytes of those in progress.
    in_progress: u64,
}

/// A large operation in progress, until it is dropped.
#[derive(Debug)]
#[must_use = "the operation ends when this is dropped"]
pub struct LargeOperation {
    admission: Arc<Admission>,
    bytes: u64,
}

impl Admission {
    /// Bounds large operations where the largest has `largest_bytes`, with a lock of that rank.
    pub fn new(rank: Rank, largest_bytes: u64) -> Self {
        Self { largest_bytes, turns: Mutex::new(rank, Turns::default()), changed: Condvar::new() }
    }

    /// Blocks while large operations in progress leave no space for one of `bytes`. Returns `None`
    /// for a small one.
    #[inline]
    pub fn admit(self: &Arc<Self>, bytes: u64) -> Option<LargeOperation> {
        self.is_large(bytes).then(|| self.admit_large(bytes))
    }

    /// Returns true if operations of `bytes` take turns.
    #[inline]
    pub fn is_large(&self, bytes: u64) -> bool {
        bytes > self.largest_bytes / SMALL_SHARE
    }

    /// Blocks until as many large operations have ended as have come so far, those that still wait
    /// for their turn included. Later ones are not waited for, so this ends however many come.
    #[cold]
    #[inline(never)]
    pub fn wait_for_earlier(&self) {
        let mut turns = self.turns.lock();
        let come = turns.come;
        while turns.ended < come {
            turns = self.changed.wait(turns);
        }
    }

    /// The numbers of large operations that have begun, and that have ended.
    #[cfg(test)]
    pub fn begun_and_ended(&self) -> (u64, u64) {
        let turns = self.turns.lock();
        (turns.begun, turns.ended)
    }

    #[cold]
    #[inline(never)]
    fn admit_large(self: &Arc<Self>, bytes: u64) -> LargeOperation {
        let mut turns = self.turns.lock();
        let turn = turns.come;
        turns.come += 1;
        let most = self.largest_bytes;
        // A key may make one a little larger than the largest value; alone it always fits.
        while turns.begun < turn || turns.in_progress > 0 && turns.in_progress + bytes > most {
            turns = self.changed.wait(turns);
        }
        turns.begun += 1;
        turns.in_progress += bytes;
        // The next one may fit as well.
        if turns.begun < turns.come {
            self.changed.notify_all();
        }
        drop(turns);
        LargeOperation { admission: self.clone(), bytes }
    }
}

impl Drop for LargeOperation {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let mut turns = self.admission.turns.lock();
        turns.in_progress -= self.bytes;
        turns.ended += 1;
        drop(turns);
        self.admission.changed.notify_all();
    }
}

/// The turn of a step, which may consist of several large operations, one after the other. Whoever
/// takes steps ends each one ([`StepTurn::end`]), whether it succeeds or fails: threads may wait
/// for that.
#[derive(Debug)]
pub struct StepTurn {
    /// True if `turn` has one, so that most steps end without the lock.
    is_taken: AtomicBool,
    turn: Mutex<Option<LargeOperation>>,
}

impl Default for StepTurn {
    fn default() -> Self {
        Self { is_taken: AtomicBool::new(false), turn: Mutex::new(Rank::StepTurn, None) }
    }
}

impl StepTurn {
    /// Takes a turn for an operation of `bytes`, as [`Admission::admit`]. No effect if the step has
    /// one for as many bytes already. One for fewer bytes ends first: a step that has a turn never
    /// waits for another one, so no two steps wait for each other.
    #[inline]
    pub fn take(&self, admission: &Arc<Admission>, bytes: u64) {
        if admission.is_large(bytes) {
            self.take_large(admission, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_large(&self, admission: &Arc<Admission>, bytes: u64) {
        if self.turn.lock().as_ref().is_some_and(|turn| turn.bytes >= bytes) {
            return;
        }
        self.end();
        let turn = admission.admit_large(bytes);
        *self.turn.lock() = Some(turn);
        self.is_taken.store(true, Ordering::Relaxed);
    }

    /// Ends the step: others may take their turns.
    #[inline]
    pub fn end(&self) {
        if self.is_taken.load(Ordering::Relaxed) {
            self.end_taken();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_taken(&self) {
        self.is_taken.store(false, Ordering::Relaxed);
        let turn = self.turn.lock().take();
        // Its end takes a lock of its own.
        drop(turn);
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use tamarack_env::sync::atomic::AtomicU64;
    use tamarack_env::sync::thread;

    use super::*;

    /// Threads with operations of all sizes all get their turn, and large ones in progress never
    /// exceed the bound. Every one that is larger than the bound is alone.
    #[test]
    fn large_operations_take_turns() {
        let (admission, large, ended) =
            (Arc::new(Admission::new(Rank::LargeWrites, 6400)), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..8_u64 {
                let (admission, large, ended) = (&admission, &large, &ended);
                scope.spawn(move || {
                    for turn in 0..500_u64 {
                        let bytes = [1, 100, 101, 3000, 6400, 7000, 20_000][((number + turn) % 7) as usize];
                        let counted = if bytes > 100 { bytes } else { 0 };
                        let admitted = admission.admit(bytes);
                        let now = large.fetch_add(counted, Ordering::SeqCst) + counted;
                        assert!(now <= 6400 || now == 7000 || now == 20_000, "{now} bytes in progress");
                        thread::yield_now();
                        large.fetch_sub(counted, Ordering::SeqCst);
                        drop(admitted);
                        ended.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(ended.into_inner(), 8 * 500);
        let large_ones =
            (0..8).flat_map(|n| (0..500).map(move |t| (n + t) % 7)).filter(|size| *size >= 2).count() as u64;
        let turns = admission.turns.lock();
        assert_eq!((turns.come, turns.begun, turns.ended), (large_ones, large_ones, large_ones));
        assert_eq!(turns.in_progress, 0);
    }

    /// Who waits for earlier operations waits for those that have begun and for those that wait for
    /// their turn, but not for the ones that come afterwards.
    #[test]
    fn earlier_operations_are_waited_for_and_later_ones_are_not() {
        let (admission, ended) = (&Arc::new(Admission::new(Rank::LargeReads, 6400)), &AtomicU64::new(0));
        admission.wait_for_earlier();
        let have_come = |count: u64| {
            while admission.turns.lock().come < count {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            let first = admission.admit(6400);
            scope.spawn(move || {
                let second = admission.admit(6400);
                ended.fetch_add(1, Ordering::SeqCst);
                drop(second);
            });
            have_come(2);
            let waiting = scope.spawn(move || {
                admission.wait_for_earlier();
                ended.load(Ordering::SeqCst)
            });
            ended.fetch_add(1, Ordering::SeqCst);
            drop(first);
            assert_eq!(waiting.join().expect("it does not panic"), 2, "both have ended");
            let _later = admission.admit(6400);
            assert_eq!(ended.load(Ordering::SeqCst), 2);
        });
    }

    /// A step keeps its turn from its first large operation to its end, with one for as many bytes
    /// as its largest operation had so far; without large operations it takes none.
    #[test]
    fn a_step_keeps_its_turn_until_it_ends() {
        let (admission, step) = (Arc::new(Admission::new(Rank::LargeReads, 6400)), StepTurn::default());
        let counts = || {
            let turns = admission.turns.lock();
            (turns.come, turns.ended, turns.in_progress)
        };
        step.take(&admission, 100);
        assert_eq!(counts(), (0, 0, 0), "a small operation takes no turn");
        step.take(&admission, 3000);
        step.take(&admission, 2000);
        step.take(&admission, 100);
        assert_eq!(counts(), (1, 0, 3000), "the turn is for the others as well");
        step.take(&admission, 6400);
        assert_eq!(counts(), (2, 1, 6400), "the smaller one has ended, or this would wait for ever");
        step.end();
        assert_eq!(counts(), (2, 2, 0));
        step.end();
        step.take(&admission, 7000);
        drop(step);
        assert_eq!(counts(), (3, 3, 0), "a step that is given up has no turn");
    }

    /// Steps of many operations all end, whatever the order of their sizes: none waits for a turn
    /// while it has one.
    #[test]
    fn steps_do_not_wait_for_each_other() {
        let (admission, large) = (Arc::new(Admission::new(Rank::LargeReads, 6400)), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..8_usize {
                let (admission, large) = (&admission, &large);
                scope.spawn(move || {
                    let step = StepTurn::default();
                    for first in 0..500 {
                        for operation in 0..4 {
                            let bytes = [1, 2000, 3000, 6400, 7000][(number + first + operation * (1 + first % 3)) % 5];
                            step.take(admission, bytes);
                            let counted = if bytes > 100 { bytes } else { 0 };
                            let now = large.fetch_add(counted, Ordering::SeqCst) + counted;
                            assert!(now <= 6400 || now == 7000, "{now} bytes in progress");
                            thread::yield_now();
                            large.fetch_sub(counted, Ordering::SeqCst);
                        }
                        step.end();
                    }
                });
            }
        });
        let turns = admission.turns.lock();
        assert_eq!((turns.begun, turns.ended, turns.in_progress), (turns.come, turns.come, 0));
    }
}
