//! The read path: which version of a key a reader at a sequence sees; lookups, scans and snapshots
//! over a pinned state. Never waits for writes or background work.

mod bounds;
mod chain;
pub mod get;
mod merged;
pub mod multi_get;
pub mod scan;
pub mod snapshot;
mod state_source;
pub mod value;
pub mod visible;

pub use bounds::KeyBounds;
pub(crate) use bounds::range_within;
pub use snapshot::{Scan, Snapshot};
pub use value::Value;
