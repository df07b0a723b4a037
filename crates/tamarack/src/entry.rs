//! Lookups of one key.
//!
//! An entry is one version of one key; its type, sequence numbers and their order come from
//! `tamarack-format`. A [`Query`] is a lookup: the key, its digest, and the youngest visible
//! sequence number. The digest is computed when the query is made, so that no operation hashes its
//! key twice. Tested by everything that looks up keys.

use tamarack_filter::Digest;
pub use tamarack_format::entry::{Entry, EntryKind, Sequence};
pub(crate) use tamarack_format::entry::{compare, raw_bytes};

use crate::measure;

/// A lookup of one key at one sequence number, with the digest of the key.
///
/// Made once per operation, at the edge of the interface, and passed down unchanged. Modules below
/// take queries instead of keys and never hash; `crates/tidy` checks that.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    key: &'a [u8],
    digest: Digest,
    sequence: Sequence,
    seen: Sequence,
}

impl<'a> Query<'a> {
    /// Makes a query for the versions of `key` at or below `sequence`, which was visible before the
    /// state was pinned that is searched ([`Query::seeing`] says otherwise). Computes the digest.
    #[inline]
    pub fn new(key: &'a [u8], sequence: Sequence) -> Self {
        let hashing = measure::lookup_begins();
        let digest = Digest::of(key);
        hashing.end();
        Self { key, digest, sequence, seen: sequence }
    }

    /// Says that only `seen` was visible before the state was pinned.
    #[inline]
    #[must_use]
    pub fn seeing(self, seen: Sequence) -> Self {
        Self { seen, ..self }
    }

    /// The key to look up.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The digest of the key, for Bloom filters.
    #[inline]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The upper bound on the sequence numbers of visible versions.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The sequence number up to which the pinned state has all entries for certain. Younger ones,
    /// up to [`Query::sequence`], may be in a memtable or a run that it lacks.
    #[inline]
    pub fn seen(&self) -> Sequence {
        self.seen
    }
}
