//! Lock ranks: the order in which a thread takes locks, and the check of it in debug builds.
//!
//! A thread that holds a lock takes only locks of higher [`Rank`]. Two threads that both keep to
//! that cannot deadlock by waiting for each other's locks. Two locks of one rank are never held
//! together, because nothing would order them; a lock that every object of a kind has (a memory
//! file, a table) has one rank for all of them.
//!
//! ```text
//! holds:  [CommitLead, WalSegments]   takes Health   ── higher than both: fine
//!                                     takes Manifest ── lower than WalSegments: panic
//! ```
//!
//! In debug builds each thread has a list of the ranks it holds, and takes part in these checks:
//!
//! * [`Mutex::lock`](super::Mutex::lock) asserts that the new rank is above all in the list, before
//!   it blocks: an inversion is found on the first run of either path, not on the unlucky
//!   interleaving of both.
//! * A condition variable takes its lock again when the wait ends, so that lock must be the highest
//!   one that the waiting thread holds.
//! * [`Mutex::try_lock`](super::Mutex::try_lock) never blocks and so asserts nothing, but the lock
//!   counts as held.
//!
//! In release builds a place in the order has no size and no code.
//!
//! What it cannot see: waiting for another thread by other means than a lock (for a flush, for the
//! end of a worker) while holding one. [`apart`] runs, on this thread, what belongs to another
//! thread: the simulator has only one.
//!
//! Tested by `sync/tests.rs`, and by every suite that runs in a debug build.

/// A lock's place in the order, lowest (taken first) to highest (taken last). The same list is the
/// section "Order of locks" of ARCHITECTURE.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rank {
    /// The thread of a background worker, until it has ended; nobody stops a worker with a lock
    /// that the worker may want.
    WorkerThread,
    /// What the controller has counted.
    Controller,
    /// The design of the database: shape, memtable size and reserved memory change together.
    Design,
    /// The bytes of large writes in progress.
    LargeWrites,
    /// The bytes of large blocks that are being read for queries.
    LargeReads,
    /// The turn for large reads that a step of a scan has.
    StepTurn,
    /// The locks of pessimistic transactions on keys and ranges, and the requests that wait for
    /// them.
    TransactionLocks,
    /// The commit queue: the group that writers join, whether somebody leads, and the window of
    /// keys that transactions are compared with.
    CommitQueue,
    /// What only the leader of a commit group touches: the next sequence and the active memtable.
    CommitLead,
    /// Commit groups that are applied, and the order of their publication.
    CommitPublisher,
    /// The members of one commit group that sleep, or are about to.
    CommitGroup,
    /// A change of the filter over the whole tree together with the edit that it belongs to.
    FilterGate,
    /// The schedule: the agenda, and the flushes and compactions in progress.
    Schedule,
    /// The loop that gives existing tables other filters: decisions, and changes left to carry out.
    FilterRebuild,
    /// The filter that was chosen for new tables and existing ones.
    FilterChoice,
    /// The beginning of snapshots, while the output of a compaction becomes visible in which a
    /// compaction filter has dropped or changed entries.
    SnapshotGate,
    /// The decisions that are recorded with the design.
    DesignHistory,
    /// The last decisions since opening about the design.
    Decisions,
    /// The manifest file and its newest version, while an edit is written and synced.
    Manifest,
    /// Whether a table is open, while it is opened.
    TableOpening,
    /// The filter that a table is to have; never held while files are read.
    TableTarget,
    /// Where the filter in use of an open table came from; held while the table gets another one.
    TableFilter,
    /// The slots for filters of open tables, while one changes.
    FilterSlots,
    /// A partition of the filter over the whole tree, while its entries change.
    FilterPartition,
    /// Whether a thread syncs the WAL.
    WalSync,
    /// The WAL segments, while a record is appended or a segment begins or ends.
    WalSegments,
    /// The state of a tree (memtables and version), while another one takes its place.
    TreeState,
    /// The level IDs of a tree's runs, and the partitions of its filter.
    LevelIds,
    /// The registered snapshots.
    Snapshots,
    /// Cursors that the scans of a thread have kept for its next one.
    KeptCursors,
    /// The pause between attempts of a failed background activity.
    Retry,
    /// Background errors, and why writing has ended.
    Health,
    /// The counters of lookups of all threads.
    LookupCounters,
    /// A counter per level.
    LevelCounters,
    /// The range tombstones of a memtable, while one is added.
    RangeTombstones,
    /// The memory of a memtable, while it grows by a chunk.
    MemtableMemory,
    /// The pieces of a table that are built and wait to be written behind the builder.
    WriteBehind,
    /// Pieces of tables that wait to be read ahead.
    ReadAhead,
    /// A piece of a table that is read ahead: whether it is read.
    PieceAhead,
    /// The open files of tables, while one is opened or closed.
    OpenFiles,
    /// The ids of obsolete tables whose files wait to be deleted.
    Garbage,
    /// What is in memory of tables that were just written, until they are opened.
    WrittenTables,
    /// The events that wait for the listener.
    Events,
    /// The simulator's workers of one process.
    SimWorkers,
    /// The simulator's machine: disk, clock, faults, device.
    SimMachine,
    /// The names of files in a memory environment, and the file locks.
    MemoryNames,
    /// The bytes of one file in a memory environment.
    MemoryFile,
    /// The directories that stay open for their next sync.
    Directories,
    /// The alignments that devices were found to need for direct reads.
    DirectAlignments,
    /// The idle rings of `io_uring`.
    Rings,
    /// The reads that wait for a reading thread.
    ReadJobs,
    /// The finished reads of one queue that were not handed over.
    ReadsDone,
    /// The pieces of the huge page for direct reads.
    BouncePieces,
    /// The larger buffers for direct reads.
    BounceBuffers,
    /// The threads that wait for an event, or are about to.
    EventWaiters,
    /// The order of eviction of the block cache. Memory that is charged under any other lock may
    /// make the cache smaller.
    Cache,
    /// Locks of tests. They are taken around calls of the engine, and within it by hooks and
    /// listeners, so they have no place in the order and are not checked.
    Test,
}

/// What a lock knows of its rank: nothing in release builds.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockRank {
    #[cfg(debug_assertions)]
    rank: Rank,
}

/// A rank in the list of the ranks that this thread holds, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldRank {
    #[cfg(debug_assertions)]
    place: LockRank,
}

#[cfg(not(debug_assertions))]
impl LockRank {
    #[inline(always)]
    pub(super) const fn of(_rank: Rank) -> Self {
        Self {}
    }

    #[inline(always)]
    pub(super) fn take(self) -> HeldRank {
        HeldRank {}
    }

    #[inline(always)]
    pub(super) fn take_without_waiting(self) -> HeldRank {
        HeldRank {}
    }
}

#[cfg(not(debug_assertions))]
impl HeldRank {
    #[inline(always)]
    pub(super) fn check_last(&self) {}
}

/// Runs `run` as if another thread did, which holds no locks: what a background worker or a hook
/// does that has no thread of its own.
#[inline]
pub fn apart<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(debug_assertions)]
    let _others = check::Others::set_aside();
    run()
}

#[cfg(debug_assertions)]
mod check {
    use std::cell::RefCell;

    use crate::sync::rank::{HeldRank, LockRank, Rank};

    /// The ranks that a thread holds, in no order. A fixed size, so that taking a lock never
    /// allocates, also where tests count allocations; no path takes more than a handful.
    type Held = [Option<Rank>; 16];

    #[cfg(not(feature = "shuttle"))]
    std::thread_local! {
        static HELD: RefCell<Held> = const { RefCell::new([None; 16]) };
    }
    #[cfg(feature = "shuttle")]
    shuttle::thread_local! {
        static HELD: RefCell<Held> = RefCell::new([None; 16]);
    }

    /// Does something with the ranks that this thread holds; nothing for a thread that ends, whose
    /// list may be gone.
    fn with_held<T>(act: impl FnOnce(&mut Held) -> T) -> Option<T> {
        HELD.try_with(|held| act(&mut held.borrow_mut())).ok()
    }

    /// The highest rank that this thread holds.
    fn highest() -> Option<Rank> {
        with_held(|held| held.iter().flatten().max().copied()).flatten()
    }

    impl LockRank {
        pub(crate) const fn of(rank: Rank) -> Self {
            Self { rank }
        }

        /// The lock is about to be waited for and taken.
        pub(crate) fn take(self) -> HeldRank {
            if self.rank != Rank::Test {
                self.check(highest());
            }
            self.take_without_waiting()
        }

        /// The lock was free and has been taken.
        pub(crate) fn take_without_waiting(self) -> HeldRank {
            if self.rank != Rank::Test {
                with_held(|held| {
                    let free = held.iter_mut().find(|place| place.is_none());
                    *free.expect("no thread holds that many locks") = Some(self.rank);
                });
            }
            HeldRank { place: self }
        }

        /// Panics unless the lock may be taken by a thread whose highest rank is `highest`.
        fn check(self, highest: Option<Rank>) {
            let Some(highest) = highest else { return };
            let taken = self.rank;
            assert!(
                highest < taken,
                "order of locks: a thread that holds {highest:?} takes {taken:?}, and {taken:?} comes {}; release \
                 {highest:?} first, or, if every path can take them in this order, move the rank in \
                 tamarack_env::sync::Rank and in ARCHITECTURE.md",
                if highest == taken { "only once" } else { "before it" }
            );
        }
    }

    impl HeldRank {
        /// The lock is about to be released, waited for, and taken again.
        pub(crate) fn check_last(&self) {
            let rank = self.place.rank;
            let highest = highest();
            if rank != Rank::Test && highest != Some(rank) {
                self.place.check(highest);
            }
        }
    }

    impl Drop for HeldRank {
        fn drop(&mut self) {
            let rank = self.place.rank;
            with_held(|held| held.iter_mut().find(|place| **place == Some(rank)).map(Option::take));
        }
    }

    /// The ranks that this thread held when it began to do another's work.
    pub(super) struct Others(Held);

    impl Others {
        pub(super) fn set_aside() -> Self {
            Self(with_held(std::mem::take).unwrap_or_default())
        }
    }

    impl Drop for Others {
        fn drop(&mut self) {
            with_held(|held| *held = self.0);
        }
    }
}
