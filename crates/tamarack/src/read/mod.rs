//! Reads: which version of a key a reader at some sequence sees, and scans over ranges of keys. Never waits for writes or
//! merges; what it reads from is pinned before it comes here.

pub mod range;
pub mod scan;
pub mod visible;

pub use range::KeyRange;
pub use scan::{Origin, Scan};
pub use visible::VisibleCursor;
