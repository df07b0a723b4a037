//! Collector of the digests of a table while the table is written.
//!
//! The size of a filter and its number of probes depend on the number of entries, which is known at
//! the end; digests take 8 bytes each until then. A table also stores them, so that its filter can
//! be rebuilt larger, smaller or as another kind.

use tamarack_model::FilterKind;

use crate::digest::Digest;
use crate::filter::{Filter, Size};

/// The digests of the keys of one table, in the order of the keys.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    digests: Vec<Digest>,
}

impl Builder {
    /// A builder without digests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. Two keys may have one digest: each counts.
    pub fn add(&mut self, digest: Digest) {
        self.digests.push(digest);
    }

    /// The number of digests.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The digests, for storage.
    pub fn into_digests(self) -> Vec<Digest> {
        self.digests
    }

    /// Memory of the builder in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.digests.capacity() * size_of::<Digest>()
    }

    /// Builds the filter; `None` if its size is 0 bits. May be called repeatedly, for several
    /// filters over one set.
    ///
    /// # Panics
    /// If the size is invalid; see [`Size`].
    pub fn finish(&self, kind: FilterKind, size: Size) -> Option<Filter> {
        Filter::build(kind, size, &self.digests)
    }
}
