//! What lookups call in a build that measures; all of it concerns only the thread that calls it.

use std::cell::Cell;
use std::hint::black_box;

use tamarack_filter::Digest;

/// Which hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// That of all digests, XXH3-64.
    Digest,
    /// MurmurHash64A.
    Murmur64A,
}

/// How often a lookup hashes its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hashed {
    /// Once, for all filters.
    Once,
    /// For each filter that it asks.
    ByEach,
    /// For each filter that it asks, and its digest is made besides: what that takes more than
    /// [`Hashed::Once`] is what a hash takes there.
    Besides,
}

/// A part of a lookup that has a clock of its own. What is in none of them is the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupPart {
    /// Making digests of the key.
    Hash,
    /// Asking filters with one.
    Probe,
    /// Which table of a run, which block of a table.
    Index,
    /// Getting a block (or an entry that the cache keeps by itself), from the cache or from
    /// storage, and searching it; copying or pinning the value.
    Block,
}

/// All parts, in the order of [`take_parts`].
pub const PARTS: [LookupPart; 4] = [LookupPart::Hash, LookupPart::Probe, LookupPart::Index, LookupPart::Block];

/// Of each part: the ticks of the clock, and how often it was entered (each time costs two looks at
/// the clock).
pub type Parts = [(u64, u64); PARTS.len()];

/// Tells the time in ticks of any length.
pub type Clock = fn() -> u64;

struct Measured {
    hash: Cell<(Hash, Hashed)>,
    /// The lookup has not asked a filter yet.
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

/// From now on lookups of this thread hash their keys so.
pub fn hash_with(hash: Hash, hashed: Hashed) {
    MEASURED.with(|measured| measured.hash.set((hash, hashed)));
}

/// From now on the parts of this thread's lookups are measured with that clock, or not at all.
pub fn set_clock(clock: Option<Clock>) {
    MEASURED.with(|measured| measured.clock.set(clock));
}

/// What the parts of this thread's lookups took since this was last asked.
pub fn take_parts() -> Parts {
    MEASURED.with(|measured| measured.parts.take())
}

/// A part of a lookup that goes on. It counts if its end is told.
#[derive(Debug)]
pub struct Begun(Option<(LookupPart, Clock, u64)>);

impl Begun {
    /// The part is over.
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

/// A lookup makes its digest.
#[inline]
pub fn lookup_begins() -> Begun {
    MEASURED.with(|measured| measured.is_first.set(true));
    begin(LookupPart::Hash)
}

/// A part of a lookup begins.
#[inline]
pub fn begin(part: LookupPart) -> Begun {
    Begun(MEASURED.with(|measured| measured.clock.get()).map(|clock| (part, clock, clock())))
}

/// What to ask the next filter with, of the lookup that began last: `digest`, once the key has been
/// hashed as often as it is to be.
#[inline]
pub fn digest_for_filter(key: &[u8], digest: Digest) -> Digest {
    let (hash, is_first) = MEASURED.with(|measured| (measured.hash.get(), measured.is_first.replace(false)));
    match hash {
        (Hash::Digest, hashed) if hashed == Hashed::Besides || (hashed == Hashed::ByEach && !is_first) => {
            timed(|| Digest::of(black_box(key)))
        }
        (Hash::Murmur64A, hashed) if is_first || hashed != Hashed::Once => timed(|| after_murmur(key, digest)),
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

/// The same digest, but not before the key has been hashed.
#[inline]
fn after_murmur(key: &[u8], digest: Digest) -> Digest {
    let hash = murmur_hash_64a(black_box(key), SEED);
    Digest::from_stored(digest.stored() ^ (black_box(hash) & black_box(0)))
}

/// Any seed.
const SEED: u64 = 0x7461_6D61_7261_636B;

/// MurmurHash64A (Appleby, the 64-bit variant of MurmurHash2), as on a little-endian machine.
pub fn murmur_hash_64a(key: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xC6A4_A793_5BD1_E995;
    const R: u32 = 47;
    let (words, rest) = key.as_chunks();
    let mut hash = seed ^ (key.len() as u64).wrapping_mul(M);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word = (word ^ (word >> R)).wrapping_mul(M);
        hash = (hash ^ word).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verification value that SMHasher publishes for MurmurHash64A: the first four bytes of
    /// the hash of the hashes of the keys {}, {0}, {0, 1} … of 0 to 255 bytes, with seeds 256
    /// down to 1.
    #[test]
    fn murmur_is_the_published_one() {
        let bytes: Vec<u8> = (0..=255).collect();
        let hashes: Vec<u8> =
            (0..256).flat_map(|n| murmur_hash_64a(&bytes[..n], 256 - n as u64).to_le_bytes()).collect();
        assert_eq!(murmur_hash_64a(&hashes, 0) as u32, 0x1F0D_3804);
    }

    /// The clock is read between the parts, and only those count whose end is told.
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
