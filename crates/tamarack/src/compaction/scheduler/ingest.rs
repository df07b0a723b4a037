//! How an ingested run becomes part of the tree: one edit, under the scheduler's lock, while nobody
//! writes and no entry is in a memtable.

use tamarack_model::tables::{TABLE_BYTES_MAX, TABLE_BYTES_MIN};
use tamarack_model::{Bytes, Shape, planner};

use super::Scheduler;
use crate::compaction::edits;
use crate::compaction::output::CompactionOutput;
use crate::compaction::schedule::Schedule;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::edit::Change;
use crate::table::FilterSettings;
use crate::tree::version::Version;

/// How many tables of a run that is ingested may wait for their sync: by then the device has
/// written them.
const SYNCED_BEHIND: usize = 2;

/// How large a run is shows only in the end, so its tables grow with it: each has this part of what
/// is there, within the usual bounds.
const TABLE_SHARE: u64 = 8;

/// Before the first entry of a run has come.
const ENTRY_BYTES_GUESSED: f64 = 128.0;

/// While it lives, flushes become runs of their own; see [`Scheduler::expect_run`].
pub struct RunExpected<'a>(&'a Scheduler);

impl Drop for RunExpected<'_> {
    fn drop(&mut self) {
        self.0.schedule.lock().agenda.expect_run_no_longer();
        // The tree may rest now.
        self.0.wake();
    }
}

impl Scheduler {
    /// Where the tables of a run go that is built outside, and that will have at least so much.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no thread to write them.
    pub fn ingest_output(&self, raw_bytes: u64, entries: u64) -> Result<CompactionOutput> {
        let (table_bytes, filter) = self.ingest_tables(raw_bytes, entries);
        self.output_context.output(table_bytes, filter).of_ingest().written_behind(SYNCED_BEHIND)
    }

    /// The size of such a run's next table, and its filter, now that it has so much. A run that is
    /// to be large gives its first tables, which are small, the filters of a smaller one.
    pub fn ingest_tables(&self, raw_bytes: u64, entries: u64) -> (u64, Option<FilterSettings>) {
        let derived = || (raw_bytes / TABLE_SHARE).clamp(TABLE_BYTES_MIN, TABLE_BYTES_MAX);
        let table_bytes = self.settings.table_bytes.unwrap_or_else(derived);
        let mut schedule = self.schedule.lock();
        let version = self.manifest.version();
        let shape = schedule.shape().clone();
        let bytes = Bytes(raw_bytes + table_bytes);
        let level = self.entrance(&mut schedule, &version, &shape, bytes);
        let shape = self.shape_after_arrival(&mut schedule, &version, level, bytes).unwrap_or(shape);
        let level = self.entrance(&mut schedule, &version, &shape, bytes);
        // Of what comes, each entry is about as large as those that came.
        let entry_bytes = if entries == 0 { ENTRY_BYTES_GUESSED } else { raw_bytes as f64 / entries as f64 };
        let entries = ((bytes.as_f64() / entry_bytes) as u64).max(1);
        (table_bytes, self.filters.for_youngest(&shape, self.tree.of(&version), level, bytes, entries))
    }

    /// The level of `shape` where a run of so many bytes arrives.
    fn entrance(&self, schedule: &mut Schedule, version: &Version, shape: &Shape, bytes: Bytes) -> usize {
        let (occupancy, in_progress) = schedule.counts(version.edit_number(), self.tree.of(version));
        planner::entrance(shape, occupancy, &in_progress, bytes)
    }

    /// Makes flushes write runs of their own until the returned value is dropped, so that they
    /// write no more than the memtable: an ingest waits for them, and in the end all writers do.
    pub fn expect_run(&self) -> RunExpected<'_> {
        self.schedule.lock().agenda.expect_run();
        RunExpected(self)
    }

    /// Makes the finished tables of `output`, all of whose entries have the sequence `through`, the
    /// youngest run of the tree. All older writes are in tables; later ones get later sequences.
    /// Returns the level where the run arrives.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing has changed; [`Error::Stopped`] if that is unknown.
    pub fn install_run(&self, output: &mut CompactionOutput, through: Sequence) -> Result<usize> {
        let mut schedule = self.schedule.lock();
        // Closing the database waits for this lock once it has ended writing.
        self.database.health.check_running()?;
        let version = self.manifest.version();
        let shape = schedule.shape().clone();
        let tables = output.finished();
        let raw_bytes: u64 = tables.iter().map(|table| table.raw_bytes).sum();
        for table in tables {
            let bounds = (table.smallest_sequence, table.largest_sequence);
            assert_eq!(bounds, (through, through), "a run with the sequence {through:?} has the table {table:?}");
        }
        let level = self.entrance(&mut schedule, &version, &shape, Bytes(raw_bytes));
        let run = self.manifest.new_run_id();
        let mut changes: Vec<Change> = edits::added(self.tree.id(), tables).collect();
        changes.push(Change::RunAdded { tree: self.tree.id(), run, level: level as u32, index: 0 });
        changes.push(Change::SlicesAdded { tree: self.tree.id(), run, slices: edits::whole(tables).collect() });
        changes.push(Change::FlushedThrough { tree: self.tree.id(), sequence: through });
        version.files().storage().cache().ingest_begins(through);
        self.install(changes)?;
        let tables = output.installed();
        self.counters.ingests.add(1);
        self.counters.ingest_bytes.add(tables.iter().map(|table| table.file_bytes).sum());
        self.counters.ingested_raw_bytes.add(raw_bytes);
        self.counters.level_bytes.add(level, raw_bytes);
        schedule.agenda.ingested(run);
        drop(schedule);
        self.wake();
        tracing::debug!(level, raw_bytes, "ingest finished");
        Ok(level)
    }

    /// Notes that a failed sync, or an edit whose fate is unknown, ends writing.
    pub fn report_stop(&self, error: &Error) {
        if let Error::Stopped { .. } = error {
            self.database.health.report_stop(error.clone());
        }
    }
}
