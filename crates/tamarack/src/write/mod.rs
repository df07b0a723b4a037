//! The way down: batches, and the commit queue that brings them into the log and the buffer.
//!
//! Knows neither reads nor flushes; it meets them in [`crate::tree::state`].

pub mod batch;
pub mod commit;
pub mod interval;
pub mod reserve;
pub mod throttle;

pub use batch::{Batch, KEY_BYTES_MAX, Write};
pub use commit::{CommitQueue, CommitSettings, Durability, Overtaken};
pub use interval::IntervalSync;
pub use reserve::{DiskStats, Reserve, ReserveBytes};
