//! Parts of the engine, for this repository's tests, benchmarks and `tamarack inspect`.
//!
//! Behind the feature `internals`, which no default includes. Unstable: anything here may change
//! with every version. A part whose tests are unit tests of its module is not here.

pub use crate::admission::Admission;
pub use crate::database::{Database, Sequences};
pub use crate::entry::Query;
pub use crate::journal::{Profile, Record as JournalRecord, RecordScan};
pub use crate::memory::Budget;
pub use crate::memtable::Memtable;
pub use crate::merge::{MergedSource, Retain, Source};
pub use crate::operator::Merging;
pub use crate::options::Row;
pub use crate::repair::Salvage;
#[cfg(feature = "metrics")]
pub use crate::stats::openmetrics_name;
pub use crate::table::{ReadPolicy, Table, TableBuilder, TableCursor, TableSettings, TableStorage};
pub use crate::tree::manifest::survey::ManifestSurvey;
pub use crate::tree::manifest::{Manifest, PROFILE as MANIFEST_PROFILE};
pub use crate::tree::state::Tree;
pub use crate::tree::table_file::TableFiles;
pub use crate::tree::version::{TreeVersion, Version};
pub use crate::wal::{Findings, PROFILE as WAL_PROFILE, Recovered, RecoverySettings, Tail, Wal, WalSettings, recover};
pub use crate::write::{CommitQueue, CommitSettings, IntervalSync, Write};
