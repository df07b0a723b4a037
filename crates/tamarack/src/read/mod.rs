//! The way up: lookups, scans and snapshots over a pinned [`crate::tree::state::State`]. Never waits for writes or background work.

pub mod get;
pub mod scan;
pub mod snapshot;
pub mod value;

pub use snapshot::Snapshot;
pub use value::Value;
