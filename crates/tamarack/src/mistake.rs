//! [`Mistake`]: a planted bug in compactions, lookups or commits, for tests that prove that tests
//! notice it.
//!
//! Each variant is checked at the one place where the mistake would be made. With the feature
//! `planted-mistakes`, as in tests, a thread can plant one for itself and for what runs on it, such
//! as the workers of the simulator. Without it, the check is a constant and costs nothing.

#[cfg(feature = "planted-mistakes")]
use std::cell::Cell;

/// A planted bug in a compaction, a flush, a lookup or a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// A handover does not cut the oldest input back.
    MissingCut,
    /// A table ends between versions of one key.
    CutBetweenVersions,
    /// A tombstone is dropped although an older run may contain its key.
    TombstoneDroppedEarly,
    /// The same, but only the other runs of the output's level are overlooked, which are static.
    StaticRunOverlooked,
    /// One of the moved slices is missing.
    SliceLeftBehind,
    /// A slice is moved to the output twice.
    SliceMovedTwice,
    /// The inputs of a compaction keep their levels until it ends.
    InputsNotRelabelled,
    /// A run is ingested although the memtables are older.
    RunBelowMemtables,
    /// Lookups take the sequence numbers in the file of an ingested table for real ones.
    SequenceBaseForgotten,
    /// A memtable is flushed although writers still add to it.
    IncompleteMemtable,
    /// Of keys with equal digests, of which there are many here, the cached entry of one answers
    /// for all.
    CachedKeyMistaken,
    /// A cached entry answers for a reader that must not see it.
    CachedFromTheFuture,
    /// What a lookup finds that does not see all of the tables, such as one of an old snapshot, is
    /// cached as if it were the youngest version.
    CachedFromThePast,
    /// A lookup counts what becomes visible after it has pinned its state as seen.
    CachedSeenAfterPin,
    /// A flush leaves older versions of its keys in the cache.
    CachedThroughFlush,
    /// An ingest leaves older versions of its keys in the cache.
    CachedThroughIngest,
    /// A search of the table of cached entries does not notice that the table has grown.
    CacheGrowthUnnoticed,
    /// A cached entry is taken from its old place before it is in its new one.
    CachedEntryTakenFirst,
    /// A lookup in the filter over the whole tree does not notice that an entry has moved.
    FilterMoveUnnoticed,
    /// An entry of that filter that moves is deleted before its copy is written.
    FilterEntryDeletedFirst,
    /// A lookup in that filter does not look into the stash.
    FilterStashOverlooked,
    /// The fingerprints of a rare bucket of that filter are found by its number alone.
    FilterRareBucketByNumber,
    /// An entry of that filter that goes after an equal one came does not count as moved.
    FilterEqualEntryUncounted,
    /// A decision of the navigator is stored with the next design instead of its own.
    DecisionRecordedLate,
    /// A decision stays recorded although its edit failed.
    DecisionKeptThoughUndone,
    /// Memtables take their new size before the edit that sets it, which may fail.
    MemtableResizedEarly,
    /// A transaction commits although a key that it has looked up was written since it began.
    KeysNotValidated,
    /// A transaction commits although a key in a range that it has scanned was written since it
    /// began.
    RangesNotValidated,
    /// A transaction takes its snapshot although writes up to its ticket are not visible yet.
    BegunUnpublished,
    /// A transaction joins a group while a run is installed that may replace what it has read.
    JoinedBesideRun,
    /// A transaction commits although notes were forgotten that it had not been compared with.
    ForgottenOverlooked,
    /// A scan of a pessimistic transaction locks the keys that are there, and not those that are
    /// not.
    InsertsNotLocked,
    /// A pessimistic transaction releases its locks before its commit.
    LocksReleasedEarly,
    /// A pessimistic transaction goes on from a snapshot that is newer than what it was compared
    /// with.
    SnapshotNotCompared,
    /// A pessimistic transaction whose snapshot has a group before that is published takes what the
    /// group has written for newer than the snapshot.
    PublishedUnnoticed,
    /// The search for deadlocks follows one of the transactions that a request waits for, and
    /// misses the others.
    WaitEdgeMissed,
    /// A partial merge of two operands loses the older one.
    OperandLost,
    /// Operands are merged although a snapshot sees only the older ones.
    OperandUnderSnapshot,
    /// A range delete ends although tables have entries that it hides.
    RangeDeleteEndedEarly,
    /// A lookup of a key that no filter knows does not look for range deletes.
    RangeDeleteUnderFilter,
    /// A range delete hides an entry that is younger.
    RangeDeleteHidesYounger,
    /// A cached entry that a range delete hides answers.
    CachedThroughRangeDelete,
    /// An entry that a compaction filter drops leaves no tombstone, though an older one may exist.
    FilterDropsTombstone,
    /// A compaction filter is shown what a snapshot reads, and its decisions take effect.
    FilterUnderSnapshot,
    /// What a compaction filter has decided takes effect although a snapshot has begun since.
    FilterBesideSnapshot,
    /// A cached entry outlives that a compaction filter has dropped or changed it.
    CachedThroughFilter,
    /// The controller chooses designs at random, and all the time. No answer may depend on it.
    DesignsAtRandom,
}

#[cfg(feature = "planted-mistakes")]
thread_local! {
    /// A bit for each mistake.
    static PLANTED: Cell<u64> = const { Cell::new(0) };
}

#[cfg(feature = "planted-mistakes")]
const fn bit(mistake: Mistake) -> u64 {
    1 << mistake as u64
}

/// Runs `run` with a mistake planted in this thread, beside those that are planted already.
#[cfg(feature = "planted-mistakes")]
pub fn with<T>(mistake: Mistake, run: impl FnOnce() -> T) -> T {
    /// What was planted before.
    struct Weeded(u64);
    impl Drop for Weeded {
        fn drop(&mut self) {
            PLANTED.set(self.0);
        }
    }
    let weeded = Weeded(PLANTED.get());
    PLANTED.set(weeded.0 | bit(mistake));
    run()
}

/// Returns true if the mistake is planted.
#[cfg(feature = "planted-mistakes")]
pub(crate) fn is_planted(mistake: Mistake) -> bool {
    PLANTED.get() & bit(mistake) != 0
}

/// Returns false: no mistake can be planted.
#[cfg(not(feature = "planted-mistakes"))]
pub(crate) const fn is_planted(_: Mistake) -> bool {
    false
}
