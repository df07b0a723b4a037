//! The write path: batches, and the commit queue that writes them to the WAL and the memtable.
//!
//! Knows neither reads, but for the bounds of ranges, nor flushes; they meet in
//! [`crate::tree::state`].

pub mod batch;
pub mod commit;
pub mod interval;
pub mod reserve;
pub mod throttle;
pub mod window;

pub use batch::{Batch, KEY_BYTES_MAX, Write, deletable};
pub use commit::{CommitQueue, CommitSettings, Durability};
pub use interval::IntervalSync;
pub use reserve::Reserve;
pub use window::{BeginTicket, ReadSet};
