//! [`RepairReport`]: a repair's findings, changes and losses.

use std::path::PathBuf;

use crate::error::Error;

/// The changes of a repair, done or planned.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// True if the repair was carried out; false if it was only planned, or not needed.
    pub applied: bool,
    /// Faults, as [`crate::VerifyReport::problems`]. If empty, the database is not damaged, and
    /// stays as it is.
    pub problems: Vec<Error>,
    /// True if the structure of the tree is lost, and is made anew from its tables.
    pub rebuilt: bool,
    /// True if keys that were deleted or overwritten may come back with an older value anywhere,
    /// and not only in the lost ranges: nobody knows what compactions had already replaced. For the
    /// same reason a merge operand may count twice, or not at all, in the values of other keys.
    pub may_return: bool,
    /// Tables that stay as they are.
    pub tables_kept: u64,
    /// Entries in them.
    pub entries_kept: u64,
    /// Files that are damaged, missing, or replaced, each with the number of its saved entries.
    pub replaced: Vec<Replaced>,
    /// Losses. Empty if only parts that can be rebuilt were damaged: an index, a filter, the
    /// manifest.
    pub lost: Vec<Lost>,
}

/// A file that is not part of the database after a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// The file.
    pub path: PathBuf,
    /// Its present or planned name; `None` if it is missing.
    pub aside: Option<PathBuf>,
    /// Its entries that are saved in new tables.
    pub entries: u64,
}

/// Entries that are, or may be, lost.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// The file that had them.
    pub path: PathBuf,
    /// Lower bound of the affected keys (inclusive); `None`: unbounded.
    pub from: Option<Vec<u8>>,
    /// Upper bound of the affected keys (inclusive); `None`: unbounded.
    pub to: Option<Vec<u8>>,
    /// The smallest and the largest affected sequence number; `None` if that is not known.
    pub sequences: Option<(u64, u64)>,
    /// Their number, if known.
    pub entries: Option<u64>,
}
