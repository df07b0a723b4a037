//! Bringing sorted sources together, and deciding what of them is kept. Pure: no I/O of its own,
//! knows no level and no run. Scans and jobs share it; buffers and tables implement [`Source`].

pub mod retain;
pub mod source;
pub mod sources;
pub mod split;

#[cfg(test)]
pub(crate) mod sorted;

pub use retain::Retain;
pub use source::{Place, Source};
pub use sources::MergedSource;
pub use split::{Piece, Span, split};
