//! Verification: reads and checks everything on storage.
//!
//! * Of a database that is open: the current version's tables, and the WAL up to where it is
//!   durable ([`verify`]).
//! * Of a closed database: all files ([`super::examine`]), also where opening would stop at the
//!   first damage. Repair begins with the same examination.
//!
//! What is checked, and where:
//!
//! * Checksums, order of entries, index, filter, digests, properties of a table:
//!   [`crate::table::Table::verify`]; all places of a damaged one: [`Salvage`].
//! * Slices, runs, compactions, ages by whole tables, ids, nothing past what is flushed:
//!   [`crate::tree::version::Version::check`].
//! * Ages where ranges of keys were merged by themselves: [`ages`].
//! * `CURRENT`, the manifest, and that no edit is missing: [`crate::tree::manifest::survey`].
//! * The WAL, its headers, records, positions, sequences: [`crate::wal::Findings`].
//! * Files that are named and missing, or that show that edits are: [`super::examine`].
//! * Files whose numbers this database cannot have given, which are ignored:
//!   [`VerifyReport::foreign`].
//!
//! What is not noticed: damage at the end of the WAL or the manifest, if nothing that is left says
//! that what stood there was durable. It is taken for what a crash left ([`VerifyReport::torn`]),
//! and tables that the last edit named for orphans ([`VerifyReport::unnamed`]).

use std::path::PathBuf;
use std::sync::Arc;

use super::ages;
use super::salvage::Salvage;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::names::FileName;
use crate::journal::Dropped;
use crate::tree::table_file::TableFile;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables checked.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of these tables.
    pub bytes: u64,
    /// Entries of the WAL that are in no table yet. Those of an open database are in memtables too,
    /// and are not counted.
    pub wal_entries: u64,
    /// Bytes of the WAL segments that were checked.
    pub wal_bytes: u64,
    /// Faults: one error for each damaged place or broken invariant.
    pub problems: Vec<Error>,
    /// Ends of files that are not whole, as a crash leaves them: nothing that is left says that
    /// they were durable. Opening the database cuts them off. Always empty for an open database.
    pub torn: Vec<Dropped>,
    /// Files that nothing names, as a crash leaves them; opening the database removes them. If the
    /// manifest's end is torn, they may be tables that it named. Always empty for an open database.
    pub unnamed: Vec<PathBuf>,
    /// Files with the names of a database's files that this database cannot have made, because of
    /// their numbers. They are ignored, and stay. Always empty for one that is open.
    pub foreign: Vec<PathBuf>,
}

impl VerifyReport {
    /// True if no fault was found.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks the tables of an open database's current version, and its WAL up to where that is
/// durable.
pub(crate) fn verify(engine: &Engine, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    let state = engine.tree.pin_scan();
    let mut report = VerifyReport::default();
    let all_bytes = state.version.tables().map(|table| table.meta().file_bytes).sum();
    note(engine.manifest.verify(), &mut report.problems)?;
    for table in state.version.tables() {
        let before = report.bytes;
        let problems = check_table(engine, table, &mut |bytes| progress(before + bytes, all_bytes))?;
        report.problems.extend(problems);
        report.tables += 1;
        report.entries += table.meta().entries;
        report.bytes += table.meta().file_bytes;
    }
    if report.is_ok() {
        note(engine.scheduler.verify_tree_filter(), &mut report.problems)?;
        note(ages::check(&state.version, &engine.dir), &mut report.problems)?;
    }
    let wal = engine.wal.verify()?;
    report.wal_bytes = wal.bytes;
    report.problems.extend(wal.problems);
    report.problems.iter().for_each(|problem| engine.database.events.noticed(problem));
    Ok(report)
}

/// All faults of a table.
fn check_table(engine: &Engine, table: &Arc<TableFile>, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
    let mut problems = Vec::new();
    note(table.open().and_then(|table| table.verify(progress)), &mut problems)?;
    if let [Error::Corruption { .. }] = &problems[..] {
        let (id, path) = (table.id(), FileName::Table(table.id().0).path(&engine.dir));
        match Salvage::read(&*engine.env, &path, engine.manifest.version().database(), id, Some(table.meta())) {
            Ok(salvage) => add_new(&mut problems, salvage.problems()),
            // What is missing was said.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => note(Err(error), &mut problems)?,
        }
    }
    Ok(problems)
}

/// Records a fault; failing storage is an error.
fn note(outcome: Result<()>, problems: &mut Vec<Error>) -> Result<()> {
    match outcome {
        Err(error @ Error::Io { .. }) => Err(error),
        Err(error) => {
            problems.push(error);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Adds the problems of places without a known one.
pub(super) fn add_new(problems: &mut Vec<Error>, more: &[Error]) {
    let known: Vec<_> = problems.iter().filter_map(offset).collect();
    problems.extend(more.iter().filter(|error| offset(error).is_none_or(|offset| !known.contains(&offset))).cloned());
}

fn offset(error: &Error) -> Option<u64> {
    match error {
        Error::Corruption { offset, .. } => Some(*offset),
        _ => None,
    }
}
