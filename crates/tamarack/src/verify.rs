//! Verification: everything on storage is read and checked.

use crate::engine::Engine;
use crate::error::{Error, Result};

/// What verification found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Tables checked.
    pub tables: u64,
    /// Entries checked.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What is wrong: one error per damaged file, or per broken invariant.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// True if nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks what the current version names. (What the log holds was checked when it was opened.)
pub(crate) fn verify(engine: &Engine, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
    let state = engine.tree.pin_owned();
    let mut report = VerifyReport::default();
    let all_bytes = state.version.tables().map(|table| table.meta().file_bytes).sum();
    let note = |outcome: Result<()>, problems: &mut Vec<Error>| match outcome {
        Err(error @ Error::Io { .. }) => Err(error),
        Err(error) => {
            problems.push(error);
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    note(engine.manifest.verify(), &mut report.problems)?;
    for table in state.version.tables() {
        let before = report.bytes;
        let outcome = table.open().and_then(|table| table.verify(&mut |bytes| progress(before + bytes, all_bytes)));
        note(outcome, &mut report.problems)?;
        report.tables += 1;
        report.entries += table.meta().entries;
        report.bytes += table.meta().file_bytes;
    }
    report.problems.iter().for_each(|problem| engine.tree.events.noticed(problem));
    Ok(report)
}
