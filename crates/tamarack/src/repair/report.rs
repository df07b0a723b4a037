//! [`RepairReport`]: what a repair found, did, and could not save.

use std::path::PathBuf;

use crate::error::Error;

/// What a repair did, or would do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// True if it was done; false if it was only planned, or if there was nothing to be done.
    pub applied: bool,
    /// What is wrong, as [`crate::VerifyReport::problems`]. Nothing: the database is not damaged,
    /// and stays as it is.
    pub problems: Vec<Error>,
    /// True if the structure of the tree is not known any more, and is made anew from its tables.
    pub rebuilt: bool,
    /// True if keys that were deleted or overwritten may come back with an older value anywhere,
    /// and not only in the lost ranges: nobody knows what compactions had already replaced.
    pub may_return: bool,
    /// Tables that stay as they are.
    pub tables_kept: u64,
    /// Entries in them.
    pub entries_kept: u64,
    /// Files that are damaged, missing, or replaced by others, each with what is saved of it.
    pub replaced: Vec<Replaced>,
    /// What is lost. Nothing, if only what can be made again was damaged: an index, a filter, the
    /// manifest.
    pub lost: Vec<Lost>,
}

/// A file that is not part of the database after a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Replaced {
    /// The file.
    pub path: PathBuf,
    /// The name that it has, or would get; `None` if it is missing.
    pub aside: Option<PathBuf>,
    /// Entries of it that are saved, in new tables.
    pub entries: u64,
}

/// Entries that are lost, or may be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// The file that had them.
    pub path: PathBuf,
    /// The smallest key that may be concerned; `None`: no key is too small.
    pub from: Option<Vec<u8>>,
    /// The largest key that may be concerned; `None`: no key is too large.
    pub to: Option<Vec<u8>>,
    /// The smallest and the largest sequence that may be concerned; `None` if that is not known.
    pub sequences: Option<(u64, u64)>,
    /// How many, if that is known.
    pub entries: Option<u64>,
}
