//! Gathers the digests of a table while it is written.
//!
//! Size and number of probes depend on the number of entries, which is known at the end; so digests
//! are kept until then, 8 bytes each. They are also what a table stores to have its filter rebuilt
//! later, larger, smaller or of another kind.

use tamarack_model::FilterKind;

use crate::digest::Digest;
use crate::filter::{Filter, Size};

/// The digests of the keys of one table, in the order of the keys.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    digests: Vec<Digest>,
}

impl Builder {
    /// Without digests yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more entry. Versions of one key follow each other and count once.
    pub fn add(&mut self, digest: Digest) {
        if self.digests.last() != Some(&digest) {
            self.digests.push(digest);
        }
    }

    /// The digests so far.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The digests, to be kept.
    pub fn into_digests(self) -> Vec<Digest> {
        self.digests
    }

    /// The bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.digests.capacity() * size_of::<Digest>()
    }

    /// The filter, or none if its size comes to 0 bits; may be called several times, for several
    /// filters over one set.
    ///
    /// # Panics
    /// If the size is not one; see [`Size`].
    pub fn finish(&self, kind: FilterKind, size: Size) -> Option<Filter> {
        Filter::build(kind, size, &self.digests)
    }
}
