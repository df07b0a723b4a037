//! Measurement of lookups, for benchmarks only: hashing a key again for each filter, as a tree
//! without a shared digest does, and reading a clock between the parts of a lookup.
//!
//! Everything here is behind the feature `measure`, which no default includes. Without it, the
//! calls of a lookup are empty or return their argument, and leave no instruction. With it, all is
//! off until the thread of the lookup turns it on for itself (`hash_with`, `set_clock`), and no
//! result ever changes.
//!
//! **Hashes.** The engine computes one digest for each lookup, at the interface's edge, and probes
//! all filters with it (`Hashed::Once`). A tree whose filters hash for themselves computes one for
//! each probe (`Hashed::ByEach`): here the first filter is probed with the digest of the edge, and
//! for each further one the key is hashed again. The two differ by exactly the hashes that sharing
//! saves.
//!
//! **Another hash** (`Hash::Other`) is computed for the first filter and, if hashed by each,
//! for all others. Filters are built from digests of the format, not from these; so a filter is
//! still probed with its own digest, but only when the hash is computed: the hash is combined into
//! the digest with all bits masked, by a mask that the compiler does not know. The one digest of
//! the edge comes on top, in both cases.

#[cfg(feature = "measure")]
mod on;

#[cfg(feature = "measure")]
pub use on::{
    Clock, Hash, Hashed, LookupPart, PARTS, Parts, begin, digest_for_filter, hash_with, lookup_begins, set_clock,
    take_parts,
};

#[cfg(not(feature = "measure"))]
mod off;

#[cfg(not(feature = "measure"))]
pub(crate) use off::{LookupPart, begin, digest_for_filter, lookup_begins};
