//! Tables: immutable sorted files.
//!
//! A [`TableBuilder`] takes entries in entry order and makes a file; a [`Table`] answers queries
//! about it and gives cursors over it. A table knows no level and no run: which part of it belongs
//! to which run is the business of slices, above.
//!
//! ```text
//!  get: Query ─► Filter (resident) ─► top index (resident) ─► lower index block ─► data block ─► versions of the key
//!                ├─► no: not here                             └─ resident if there is room; else through the BlockCache
//!                └─► perhaps: if the BlockCache has the entry by itself, that is the answer
//! ```
//!
//! What a table costs: in memory its filter, if it has one, which may become another while the
//! table is open ([`Table::set_filter`]), and its top index (about one fence for 600 KiB of data);
//! per query at most two blocks that are not cached, of which one is shared by some 150 data
//! blocks. What it never does: look at the same block twice for one query, return bytes whose
//! checksum it has not compared with both the block's trailer and its index entry, or write to a
//! file that is finished.
//!
//! Every byte is described in `docs/FORMAT.md`, section "Tables".

mod behind;
mod blocks;
mod builder;
mod cursor;
mod filter;
mod filter_answer;
mod filter_slots;
mod index;
mod reader;
mod salvage;
mod storage;
mod verify;
mod window;

pub use behind::{UnsyncedTable, WriteBehind};
pub use blocks::{BlockName, Blocks, Lacking, Progress};
pub use builder::{TableBuilder, TableSettings};
pub use cursor::{Pieces, ReadPolicy, TableCursor};
pub use filter::FilterOutcome;
pub(crate) use filter::bits_of;
pub use filter_answer::Answer;
pub use filter_slots::PinnedFilters;
pub use reader::{Table, UnitsOfTable};
pub use salvage::{LostKeys, Salvage};
pub use storage::TableStorage;
pub use tamarack_filter::{FilterKind, kind_to_number};
pub use tamarack_model::filter::FilterSettings;
pub use tamarack_model::filter_plan::FilterTarget;
pub use window::ScanVolume;
