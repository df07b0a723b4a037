//! [`Admission`]: an upper bound on the bytes of large operations in progress, of one kind.
//!
//! **Writes.** A write takes its size twice: in its group for the WAL, and in the memtable. The
//! limit on the memory of memtables (see [`crate::write::commit`]) is checked before a write joins
//! a group, so all writers that check at the same time may pass. That is nothing for small writes;
//! with values of an eighth of the memory budget, 64 threads once took six times the budget.
//!
//! **Reads.** A block is not charged to the account before it has arrived. Eight threads that read
//! blocks of an eighth of the budget together once took twice the budget.
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
//! reader that was admitted waits for its own read only; a writer for flushes, for the leader, and,
//! while memory is over the budget, for the large reads that came before it
//! ([`Admission::wait_for_earlier`]). None of these waits for admission.
//!
//! For reads, the size on storage counts: what is compressed to little takes no turn. Nor do blocks
//! of less than 256 KiB that several lookups request together, of less than 512 KiB that are part
//! of a scan's read-ahead, and those of flushes and compactions, which are as few as their threads.
//!
//! Tests: here; `tests/memory` measures the memory of 64 threads.

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
pub struct LargeOperation<'a> {
    admission: &'a Admission,
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
    pub fn admit(&self, bytes: u64) -> Option<LargeOperation<'_>> {
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

    #[cold]
    #[inline(never)]
    fn admit_large(&self, bytes: u64) -> LargeOperation<'_> {
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
        LargeOperation { admission: self, bytes }
    }
}

impl Drop for LargeOperation<'_> {
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

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use tamarack_env::sync::atomic::{AtomicU64, Ordering};
    use tamarack_env::sync::thread;

    use super::*;

    /// Threads with operations of all sizes all get their turn, and large ones in progress never
    /// exceed the bound. Every one that is larger than the bound is alone.
    #[test]
    fn large_operations_take_turns() {
        let (admission, large, ended) = (Admission::new(Rank::LargeWrites, 6400), AtomicU64::new(0), AtomicU64::new(0));
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
        let (admission, ended) = (&Admission::new(Rank::LargeReads, 6400), &AtomicU64::new(0));
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
}
