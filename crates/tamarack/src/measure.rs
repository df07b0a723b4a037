//! For benchmarks only: hashing a key again for each filter, as a tree does that does not share one
//! digest, and reading a clock between the parts of a lookup.
//!
//! Everything here is behind the feature `measure`, which no default includes. Without it, what the
//! lookup calls is empty or gives back what it was given, and leaves no instruction. With it, all
//! is off until the thread that looks up turns it on for itself (`hash_with`, `set_clock`), and no
//! answer ever changes.
//!
//! **What is hashed.** A tree of today makes one digest for each lookup, at the interface's edge,
//! and asks all filters with it (`Hashed::Once`). One whose filters hash for themselves makes as
//! many as it asks filters (`Hashed::ByEach`): here the first filter is asked with the digest of
//! the edge, and for each further one the key is hashed again. So the two differ by exactly the
//! hashes that sharing saves.
//!
//! **MurmurHash64A**, the hash of Zhu, Mun, Raman and Athanassoulis (*Reducing Bloom Filter CPU
//! Overhead in LSM-Trees on Modern Storage Devices*, DaMoN 2021, section 4.1), is computed for the
//! first filter and, if hashed by each, for all others. Filters are built from digests of the
//! format, not from these; so a filter is asked with its own digest still, but only when the hash
//! is there: its outcome goes into the digest with all bits masked away, by a mask that the
//! compiler does not know. The one digest of the edge comes on top, in both cases.

#[cfg(feature = "measure")]
mod on;

#[cfg(feature = "measure")]
pub use on::{
    Clock, Hash, Hashed, LookupPart, PARTS, Parts, begin, digest_for_filter, hash_with, lookup_begins, murmur_hash_64a,
    set_clock, take_parts,
};

#[cfg(not(feature = "measure"))]
mod off;

#[cfg(not(feature = "measure"))]
pub(crate) use off::{LookupPart, begin, digest_for_filter, lookup_begins};
