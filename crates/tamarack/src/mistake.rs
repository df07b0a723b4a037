//! [`Mistake`]: what a merge or a lookup could do wrong, to be planted by tests that prove that somebody would notice.
//!
//! Each variant is asked for at the one place where the mistake would be made. Built with the
//! feature `planted-mistakes`, as tests are, a thread can plant one for itself and for what runs on
//! it, such as the workers of the simulator. Built without, the answer is a constant and the
//! question costs nothing.

#[cfg(feature = "planted-mistakes")]
use std::cell::Cell;

/// A mistake in a merge, a flush or a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// A handover does not cut the oldest input back.
    MissingCut,
    /// A table ends between versions of one key.
    CutBetweenVersions,
    /// A tombstone is dropped although an older run may hold its key.
    TombstoneDroppedEarly,
    /// The same, but only the other runs of the output's level are overlooked, which are static.
    StaticRunOverlooked,
    /// Of the slices that are moved, one does not arrive.
    SliceLeftBehind,
    /// A slice is moved to the output twice.
    SliceMovedTwice,
    /// The inputs of a merge keep their levels until it ends.
    InputsNotRelabelled,
    /// A run is ingested although what is in buffers is older.
    RunBelowMemtables,
    /// A run is ingested although writers, or another run, have passed its sequence.
    RunOvertaken,
    /// A buffer is flushed although writers still add to it.
    IncompleteBuffer,
    /// Of keys whose digests agree, which here are many, the cached entry of one answers for all.
    CachedKeyMistaken,
    /// A cached entry answers for a reader that must not see it.
    CachedFromTheFuture,
    /// What a reader in the past finds is cached as if it were the youngest version.
    CachedFromThePast,
    /// A cached entry answers for all tables.
    CachedInAnyTable,
}

#[cfg(feature = "planted-mistakes")]
thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Runs `run` with a mistake in what this thread does.
#[cfg(feature = "planted-mistakes")]
pub fn with<T>(mistake: Mistake, run: impl FnOnce() -> T) -> T {
    struct Weeded;
    impl Drop for Weeded {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
    let _weeded = Weeded;
    PLANTED.set(Some(mistake));
    run()
}

/// Whether to make this mistake.
#[cfg(feature = "planted-mistakes")]
pub(crate) fn is_planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Never: no mistake can be planted.
#[cfg(not(feature = "planted-mistakes"))]
pub(crate) const fn is_planted(_: Mistake) -> bool {
    false
}
