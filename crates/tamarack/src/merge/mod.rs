//! The k-way merging iterator, and the rules of which versions a compaction keeps, which operands
//! it merges, and what its filter is shown. Pure: no I/O of its own, and no knowledge of levels or
//! runs. Scans and compactions share the iterator; memtables and tables implement [`Source`].

pub mod filter_pass;
pub mod fold;
pub mod retain;
pub mod source;
pub mod sources;
pub mod split;

#[cfg(test)]
pub(crate) mod sorted;

pub use filter_pass::{FilterBounds, FilterOutcome, FilterPass};
pub use fold::{Fold, FoldBounds};
pub use retain::Retain;
pub use source::{SeekTarget, Source};
pub use sources::MergedSource;
pub use split::{Piece, Span, split};
