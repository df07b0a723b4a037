//! The calls of lookups in a build that measures; all state belongs to the calling thread.

use std::cell::Cell;
use std::hint::black_box;

use tamarack_filter::Digest;

/// The hash function to measure.
#[derive(Clone, Copy, Debug)]
pub enum Hash {
    /// XXH3-64, the hash of all digests.
    Digest,
    /// Another one.
    Other(fn(&[u8]) -> u64),
}

/// The number of hashes per lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hashed {
    /// Once, for all filters.
    Once,
    /// One for each filter that is probed.
    ByEach,
    /// One for each filter that is probed, and the digest besides: the difference to
    /// [`Hashed::Once`] is the cost of a hash there.
    Besides,
}

/// A part of a lookup that is timed by itself. The rest of the lookup is in none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupPart {
    /// Computing digests of the key.
    Hash,
    /// Probing filters.
    Probe,
    /// Finding the table of a run, and the block of a table.
    Index,
    /// Getting a block (or a cached entry), from the cache or from storage, and searching it;
    /// copying or pinning the value.
    Block,
}

/// All parts, in the order of [`take_parts`].
pub const PARTS: [LookupPart; 4] = [LookupPart::Hash, LookupPart::Probe, LookupPart::Index, LookupPart::Block];

/// For each part: the ticks of the clock, and the number of times it was entered (each reads the
/// clock twice).
pub type Parts = [(u64, u64); PARTS.len()];

/// A clock, in ticks of any length.
pub type Clock = fn() -> u64;

struct Measured {
    hash: Cell<(Hash, Hashed)>,
    /// True until the lookup probes a filter.
    is_first: Cell<bool>,
    clock: Cell<Option<Clock>>,
    parts: Cell<Parts>,
}

thread_local! {
    static MEASURED: Measured = const {
        Measured {
            hash: Cell::new((Hash::Digest, Hashed::Once)),
            is_first: Cell::new(true),
            clock: Cell::new(None),
            parts: Cell::new([(0, 0); PARTS.len()]),
        }
    };
}

/// Sets how later lookups of this thread hash their keys.
pub fn hash_with(hash: Hash, hashed: Hashed) {
    MEASURED.with(|measured| measured.hash.set((hash, hashed)));
}

/// Sets the clock that measures the parts of this thread's lookups; `None` turns it off.
pub fn set_clock(clock: Option<Clock>) {
    MEASURED.with(|measured| measured.clock.set(clock));
}

/// Returns and resets the measurements of this thread's lookups.
pub fn take_parts() -> Parts {
    MEASURED.with(|measured| measured.parts.take())
}

/// A part of a lookup in progress. It counts only if it is ended.
#[derive(Debug)]
pub struct Begun(Option<(LookupPart, Clock, u64)>);

impl Begun {
    /// Ends the part.
    #[inline]
    pub fn end(self) {
        let Some((part, clock, began)) = self.0 else { return };
        let ticks = clock().wrapping_sub(began);
        MEASURED.with(|measured| {
            let mut parts = measured.parts.get();
            let (sum, count) = &mut parts[part as usize];
            (*sum, *count) = (*sum + ticks, *count + 1);
            measured.parts.set(parts);
        });
    }
}

/// Records that a lookup computes its digest.
#[inline]
pub fn lookup_begins() -> Begun {
    MEASURED.with(|measured| measured.is_first.set(true));
    begin(LookupPart::Hash)
}

/// Begins a part of a lookup.
#[inline]
pub fn begin(part: LookupPart) -> Begun {
    Begun(MEASURED.with(|measured| measured.clock.get()).map(|clock| (part, clock, clock())))
}

/// Returns `digest`, to probe the next filter of the current lookup with, after hashing the key as
/// often as configured.
#[inline]
pub fn digest_for_filter(key: &[u8], digest: Digest) -> Digest {
    let (hash, is_first) = MEASURED.with(|measured| (measured.hash.get(), measured.is_first.replace(false)));
    match hash {
        (Hash::Digest, hashed) if hashed == Hashed::Besides || (hashed == Hashed::ByEach && !is_first) => {
            timed(|| Digest::of(black_box(key)))
        }
        (Hash::Other(hash), hashed) if is_first || hashed != Hashed::Once => timed(|| after(hash, key, digest)),
        _ => digest,
    }
}

#[inline]
fn timed(hash: impl FnOnce() -> Digest) -> Digest {
    let part = begin(LookupPart::Hash);
    let digest = hash();
    part.end();
    digest
}

/// Returns the same digest, but not before the key has been hashed.
#[inline]
fn after(hash: fn(&[u8]) -> u64, key: &[u8], digest: Digest) -> Digest {
    let hash = hash(black_box(key));
    Digest::from_stored(digest.stored() ^ (black_box(hash) & black_box(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock is read between the parts, and only those count that are ended.
    #[test]
    fn parts_are_summed() {
        fn clock() -> u64 {
            thread_local!(static TIME: Cell<u64> = const { Cell::new(0) });
            TIME.replace(TIME.get() + 1)
        }
        begin(LookupPart::Index).end();
        assert_eq!(take_parts(), [(0, 0); 4]);
        set_clock(Some(clock));
        begin(LookupPart::Index).end();
        lookup_begins().end();
        begin(LookupPart::Index).end();
        let _left = begin(LookupPart::Block);
        set_clock(None);
        assert_eq!(take_parts(), [(1, 1), (0, 0), (2, 2), (0, 0)]);
        assert_eq!(take_parts(), [(0, 0); 4]);
    }
}
