//! The journal under the WAL and the manifest: files of records that are appended, made durable,
//! and read back after a crash. Knows nothing of entries and edits.
//!
//! ```text
//! position  0            b2                    b3          durable        end
//!           ├── file 1 ──┼────── file 2 ───────┼────── file 3 ──┼───────────┤ (reserved)
//!           header, records                     a file begins where the one before ends
//! ```
//!
//! | | |
//! |---|---|
//! | [`Segment`] | a file, open for appending: reserve, append, cut, sync |
//! | [`RecordScan`] | the records in the bytes of a file, also behind damage |
//! | [`Survey`] | a file as it was found, with its scan; making what was found durable |
//! | [`Chain`] | the files and records that follow each other; a torn end, or damage |
//! | [`Profile`] | what tells one journal from another: names of files and steps, how files grow |
//!
//! The users say what a payload means, when a new file begins, and what is durable: the WAL
//! (`wal`), whose files are its segments, and the manifest (`tree/manifest`), where each manifest
//! is a journal of one file.
//!
//! # What holds
//!
//! * Positions and the numbers of items leave no gap, within a file and from one file to the next.
//! * A header is durable before anything is appended to its file.
//! * Every record carries a **durable mark**: the position up to which the journal was known to be
//!   durable when the record was written. **D** is the highest mark that can be found, in records
//!   behind damage too. What is damaged below D had been promised: an error. At or above D it had
//!   not: a torn end, which is dropped and reported.
//! * A failed append is cut off, and the cut is durable, before anything else is appended. A failed
//!   sync is not tried again: it ends writing ([`Error::Stopped`]), and what was appended after the
//!   last good one has an unknown fate.
//! * What recovery read is written again where no mark says that it is durable, and synced, before
//!   anything is built on it.
//!
//! # Cost
//!
//! An append is one checksum and one write; no allocation. Space is reserved ahead in pieces.
//!
//! Tests: `wal/tests.rs` and `tree/tests` (every prefix, truncation and flipped bit, every
//! failing call, every crash), the suites `crash` and `faults`, and the fuzz target `journal`.

mod chain;
mod scan;
mod segment;
mod survey;

use std::path::PathBuf;
use std::sync::Arc;

use tamarack_env::Step;

use crate::error::{Error, Result};
use crate::format::checksum::FileKind;
use crate::format::names::FileName;

pub use crate::format::record::Position;
pub use chain::Chain;
pub use scan::{Record, RecordScan};
pub use segment::Segment;
pub use survey::Survey;

/// What tells one journal from another.
#[derive(Debug)]
pub struct Profile {
    /// The kind of its files.
    pub kind: FileKind,
    /// What errors call it.
    pub noun: &'static str,
    /// The name of its file with a number.
    pub name: fn(u64) -> FileName,
    /// How its files grow.
    pub growth: Growth,
    /// What errors say when a file cannot be read.
    pub reading: &'static str,
    /// What its changes to storage are called.
    pub steps: Steps,
}

/// How reserved space shows in a file's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// The file is extended with zeros ahead of what is written, so that a sync seldom has to write
    /// its length too. Zeros at its end are no damage.
    Extends,
    /// The length stays that of what is written: whatever follows the last record is not whole.
    Keeps,
}

/// The names of a journal's changes to storage, but for those of appends and of their syncs.
#[derive(Debug)]
pub struct Steps {
    /// A file is made.
    pub create: Step,
    /// Its header is written, perhaps with a first record.
    pub begin: Step,
    /// That becomes durable.
    pub sync_begin: Step,
    /// Space is reserved.
    pub reserve: Step,
    /// A failed append is cut off.
    pub cut: Step,
    /// The cut becomes durable.
    pub sync_cut: Step,
    /// Recovery cuts off a torn end.
    pub recovery_cut: Step,
    /// Recovery writes again what no mark says to be durable.
    pub recovery_write: Step,
    /// What recovery read becomes durable.
    pub recovery_sync: Step,
}

/// What to do about a journal that does not end cleanly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tail {
    /// A torn end is an error.
    Strict,
    /// A torn end past everything known durable is dropped and reported.
    #[default]
    MayBeTorn,
}

/// The torn end of the WAL or of the manifest that was dropped, because nothing in it had been
/// promised.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Dropped {
    /// The file.
    pub path: PathBuf,
    /// Where in the file what was kept ends.
    pub offset: u64,
    /// Bytes dropped, later segments of the WAL included.
    pub bytes: u64,
    /// Whole commit groups (of a manifest, edits) among them.
    pub commit_groups: u64,
    /// What ended it.
    pub why: String,
}

/// Whether a journal can still be written, and if not, why.
#[derive(Debug, Default)]
pub struct Ending(Option<Arc<Error>>);

impl Ending {
    /// Nothing is written any more, because of `cause`.
    pub fn because(cause: Error) -> Self {
        Self(Some(Arc::new(cause)))
    }

    /// [`Error::Stopped`] if nothing is written any more.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(cause) => Err(Error::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// True if nothing is written any more.
    pub fn is_over(&self) -> bool {
        self.0.is_some()
    }

    /// Ends writing if `error` is [`Error::Stopped`], unless it has ended before. Gives what to
    /// tell the caller.
    pub fn note(&mut self, error: Error) -> Error {
        match error {
            Error::Stopped { cause } => Error::Stopped { cause: self.0.get_or_insert(cause).clone() },
            other => other,
        }
    }
}
