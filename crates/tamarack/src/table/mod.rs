//! SSTables: immutable sorted files.
//!
//! A [`TableBuilder`] takes entries in entry order and writes a file; a [`Table`] serves lookups
//! and cursors. A table knows no level and no run: slices, above, say which part of it belongs to
//! which run.
//!
//! ```text
//!  get: Query ─► Filter (resident) ─► top index (resident) ─► lower index block ─► data block
//!                ├─► negative: not here                       └─ resident, or by the BlockCache
//!                └─► positive: an entry that the BlockCache has by itself is the answer
//! ```
//!
//! Costs: in memory its filter, if any, which may be replaced while the table is open
//! ([`Table::set_filter`]), and its top index (about one fence for 600 KiB of data); per query at
//! most two uncached blocks, one of which is shared by some 150 data blocks. A table never reads
//! the same block twice for one query, never returns bytes whose checksum differs from the block's
//! trailer or its index entry, and never writes to a finished file.
//!
//! `docs/FORMAT.md`, section "Tables", describes every byte.

mod ahead;
mod approach;
mod behind;
mod blocks;
mod builder;
mod cursor;
mod digest_reads;
mod digests;
mod extent;
pub mod filter;
mod filter_answer;
mod filter_slots;
mod index;
mod index_position;
mod lower;
mod open_files;
mod reader;
mod storage;
mod verify;
mod window;
mod written;

pub use approach::{Approach, PlaceInIndex};
pub use behind::{UnsyncedTable, WriteBehind};
pub use blocks::{BlockName, Blocks, Lacking, SearchProgress};
pub use builder::{TableBuilder, TableSettings};
pub use cursor::{LeftValue, Pieces, ReadPolicy, TableCursor};
pub use digest_reads::{DigestsWanted, read_digests};
pub use filter::FilterOutcome;
pub(crate) use filter::bits_of;
pub use filter_answer::Answer;
pub use filter_slots::PinnedFilters;
pub use lower::Loaded;
pub use reader::{Table, UnitsOfTable};
pub use storage::{TableAccess, TableStorage, open_files_max};
pub use tamarack_filter::{FilterKind, kind_to_number};
pub use tamarack_model::filter::FilterSettings;
pub use tamarack_model::filter_plan::FilterTarget;
pub use window::{RunShare, ScanVolume};
pub use written::WrittenTable;

#[cfg(test)]
mod tests;
