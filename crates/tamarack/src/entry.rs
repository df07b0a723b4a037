//! Entries and queries: what the engine moves, and what it is asked.
//!
//! An **entry** is one version of one key; it, sequence numbers and their order are those of
//! `tamarack-format`. A **query** is a lookup
//! of one key: the key, its digest, and the youngest sequence number that counts.
//!
//! Never hashes a key twice: the digest is computed when a query is made. Tested with everything
//! that looks a key up.

use tamarack_filter::Digest;
pub use tamarack_format::entry::{Entry, EntryKind, Sequence};
pub(crate) use tamarack_format::entry::{compare, raw_bytes};

use crate::measure;

/// A question about one key, as it stands at one moment: the key, its digest, and the youngest
/// sequence that counts.
///
/// The digest is computed here and nowhere else on the way of a lookup: made at the interface's
/// edge, once per operation, a query is handed down as it is. What
/// stands below takes queries instead of keys, and so has no reason to hash; `crates/tidy` checks
/// that nobody does.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    key: &'a [u8],
    digest: Digest,
    sequence: Sequence,
}

impl<'a> Query<'a> {
    /// Asks for `key`, of which only versions up to `sequence` count. Computes the digest.
    #[inline]
    pub fn new(key: &'a [u8], sequence: Sequence) -> Self {
        let hashing = measure::lookup_begins();
        let digest = Digest::of(key);
        hashing.end();
        Self { key, digest, sequence }
    }

    /// The key that is asked for.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Its digest, for filters.
    #[inline]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Only versions up to this one count.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }
}
