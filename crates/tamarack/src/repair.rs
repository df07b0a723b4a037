//! Repair: makes a database of everything readable in a damaged one.
//!
//! ```text
//! examine ─► plan ─► (applied) tables ─► WAL ─► manifest ─► CURRENT away ─► damaged files aside
//!                                                                           ─► CURRENT
//! ```
//!
//! # What is kept
//!
//! Everything in files that are whole, and every whole block and record of damaged ones. Nothing is
//! invented: every entry read afterwards was written, at that key. The report names what is lost:
//! files, ranges of keys, sequence numbers. After a loss the state is no prefix of the order of
//! commits any more: later writes are kept all the same, and in the lost ranges older versions of a
//! key may come to light, also of deleted keys.
//!
//! * **The structure is known** if the manifest can be read to its end and no file shows that it
//!   has lost edits. Then runs and slices stay as they are; a slice of a damaged table becomes one
//!   of a new table with the entries that could be read. Compactions in progress end where they
//!   are; the planner begins others.
//! * **Else it is made anew** out of all tables ([`arrange`]): their ages follow from sequence
//!   numbers; tables that share keys and sequence numbers are merged. The manifest's readable part
//!   still counts: what it says to be cut off or removed stays so. Without it, nobody can know
//!   which tables a compaction had already replaced: keys that it had removed for good may come
//!   back. The report says so. An ingest that was interrupted when its tables were finished may
//!   pass for one that ended. The sequence numbers of an ingest's entries follow from its last
//!   table. If its properties are lost too, the entries count as the earliest that they can be: as
//!   written right after what is known to be older ([`ingests`]). They hide nothing younger
//!   then, but may be hidden by what was written between that and the end of the ingest. The report
//!   lists the keys and the sequence numbers for which that can be so.
//! * **A WAL that opening would refuse** becomes tables: each record that is whole, in the order of
//!   sequence numbers. A record is a commit group, so that a batch is there whole or not at all.
//!   Entries that tables have already are not taken from the WAL.
//!
//! # Order of changes
//!
//! Nothing is overwritten or removed: files that are damaged or replaced get another name in the
//! same directory (`NAME.lost`), which the engine ignores, so that it can be undone. First
//! everything new is made, under numbers that were never used, and is durable; then `CURRENT` goes
//! aside. Until there is a new `CURRENT`, opening refuses, and another repair resumes where this
//! one was interrupted: the new manifest knows the latest edit.
//!
//! Tables made by a repair name no edit as the one after which they were made (number 0). Those
//! that an interrupted repair left are known by that, and ignored: their entries are still where
//! they came from.

mod ages;
mod apply;
mod arrange;
mod examine;
mod identity;
mod ingests;
mod names;
mod plan;
mod report;
mod salvage;
mod verify;
mod wal;

pub(crate) use examine::Examination;
pub use report::{Lost, RepairReport, Replaced};
#[cfg(feature = "internals")]
pub use salvage::Salvage;
pub use verify::VerifyReport;
pub(crate) use verify::verify;

use std::path::Path;
use std::sync::Arc;

use tamarack_env::Env;

use crate::error::{Error, Result};
use crate::options::{Options, Resolved};

impl Options {
    /// Returns what [`Options::repair`] would do to the closed database in `dir`, and what would be
    /// lost. Changes nothing.
    ///
    /// # Errors
    /// As [`Options::verify`]; [`Error::Corruption`] if no file identifies the database.
    pub fn plan_repair(&self, dir: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<RepairReport> {
        repair(&self.resolve()?, dir.as_ref(), false, progress)
    }

    /// Salvages everything readable in the damaged, closed database in `dir`: afterwards it can be
    /// opened, and everything in it is whole. Replaced files are kept under other names. Does
    /// nothing to an undamaged database. `progress` gets the bytes of tables read so far and their
    /// total.
    ///
    /// After a failure, also of the machine, it can be called again.
    ///
    /// # Errors
    /// As [`Options::plan_repair`]; [`Error::Io`] if storage refuses.
    pub fn repair(&self, dir: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<RepairReport> {
        repair(&self.resolve()?, dir.as_ref(), true, progress)
    }
}

fn repair(options: &Resolved, dir: &Path, apply: bool, progress: &mut dyn FnMut(u64, u64)) -> Result<RepairReport> {
    let env: &Arc<dyn Env> = &options.env;
    let examination = Examination::of(env, dir, apply, progress)?;
    if let Some(newer) = examination
        .report
        .problems
        .iter()
        .find(|error| matches!(error, Error::Unsupported { .. } | Error::OldFormat { .. }))
    {
        // A format that this version cannot read is not damage.
        return Err(newer.clone());
    }
    if examination.report.is_ok() && !examination.lost_edits {
        return Ok(RepairReport::default());
    }
    let plan = plan::plan(env, dir, &examination)?;
    if apply {
        apply::apply(options, dir, &examination, &plan).map_err(|error| match error {
            // There is no database yet that could have stopped.
            Error::Stopped { cause } => Error::clone(&cause),
            other => other,
        })?;
    }
    Ok(RepairReport { applied: apply, ..plan.report })
}
