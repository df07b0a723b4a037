//! [`Ingest`]: sorted data straight into tables, past the log and the buffers; in the end it
//! arrives as the youngest run.
//!
//! ```text
//!   reserve S ──▶ put, put, … ──▶ tables, not part of the tree ──▶ finish: flush │ writers held: flush the rest │ one edit │ S visible │ writers go on at S+1
//!      writers go on below S, readers see nothing of it ────────────────────────▶│                              atomic: all of it or nothing
//! ```
//!
//! All entries have one sequence, **S**, which lies 2^32 beyond the last one when it is reserved,
//! so that writers who go on meanwhile stay below it. When the run is installed, what they wrote is
//! in older runs, and writing goes on after S. So the order of commits is: all that was
//! acknowledged before, the run, all that comes after, as if the run were one large batch; and its
//! edit in the manifest is what the batch's record in the log would be.
//!
//! **Crash.** Before the edit is durable, the tables are orphans, which the next open removes.
//! After it, everything up to S is in tables. The log has a gap there, and so the next record
//! begins a segment of its own, before which nothing is needed any more; a crash in between leaves
//! a log that ends before S, and opening begins that segment.
//!
//! **Several at a time** get sequences of their own. One that was reserved later but is installed
//! earlier moves the others' sequence into the past: these write their tables again under a new one
//! when they finish.
//!
//! **Cost.** The order of keys is compared once, a key is hashed once; nothing else stands between
//! an entry and the table's builder. Files are written and synced by a worker of their own
//! ([`WriteBehind`](crate::table::WriteBehind)), so that the device and one core write while
//! another core builds. Memory: one table's builder, the pieces on their way, and what is known of
//! each table.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::CompactionOutput;
use crate::engine::Engine;
use crate::entry::{Entry, EntryKind, Sequence};
use crate::error::{Error, Result};
use crate::merge::Source;
use crate::table::ReadPolicy;
use crate::write::{Overtaken, Write};

/// Before writers are held, buffers are flushed until no more than this part of one is filled, or
/// as often as `FLUSHES_MAX`: writers may be fast.
const FILLED_SHARE: u64 = 16;
const FLUSHES_MAX: usize = 4;

/// Sorted data on its way into the database: see [`crate::Db::ingest`]. Dropped before
/// [`Ingest::finish`], it leaves nothing behind.
#[must_use = "nothing is ingested before `finish`"]
pub struct Ingest {
    engine: Arc<Engine>,
    /// `None` once something has failed.
    output: Option<CompactionOutput>,
    /// What all entries get.
    sequence: Sequence,
    entries: u64,
    raw_bytes: u64,
}

/// What [`Ingest::finish`] did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IngestReport {
    /// Entries ingested.
    pub entries: u64,
    /// Raw bytes of these (key, value, and 8 each).
    pub raw_bytes: u64,
    /// Bytes of the tables' files.
    pub file_bytes: u64,
    /// Tables of the new run.
    pub tables: usize,
    /// The level where it arrived; 0 if there was nothing to ingest. Merges may carry it on from
    /// there.
    pub level: usize,
    /// How long writers were held while the run became part of the tree.
    pub writers_delayed: Duration,
    /// Whether the tables had to be written again, since another ingest that was begun later had
    /// finished before.
    pub written_again: bool,
}

impl Ingest {
    pub(crate) fn new(engine: &Arc<Engine>) -> Result<Self> {
        engine.database.health.check_running()?;
        let sequence = engine.commits.reserve()?;
        let output = Some(engine.scheduler.ingest_output(0, 0)?);
        Ok(Self { engine: engine.clone(), output, sequence, entries: 0, raw_bytes: 0 })
    }

    /// Adds an entry, whose key must be larger than the one before.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not, or if key or value are too large; the entry is left
    /// out then, and one may go on. After any other error the ingest cannot be finished: its files
    /// are gone, and nothing has changed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some(output) = &mut self.output else { return Err(failed_before()) };
        if self.entries > 0 && key <= output.last_key() {
            return Err(not_ascending(output.last_key(), key));
        }
        self.engine.commits.check(&Write::One { kind: EntryKind::Put, key, value })?;
        let entry = Entry { key, sequence: self.sequence, kind: EntryKind::Put, value };
        if output.is_full_before(key) {
            if let Err(error) = output.finish_table() {
                return Err(self.fail(error));
            }
            if let Err(error) = self.engine.scheduler.leave_reserve() {
                return Err(self.fail(error));
            }
            let (table_bytes, filter) = self.engine.scheduler.ingest_tables(self.raw_bytes, self.entries);
            output.set_tables(table_bytes, filter);
        }
        if let Err(error) = output.add(entry) {
            return Err(self.fail(error));
        }
        self.entries += 1;
        self.raw_bytes += entry.raw_bytes();
        Ok(())
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Raw bytes of the entries that were added: keys, values, and 8 each.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// The sequence that the entries will have, unless another ingest that was begun later finishes
    /// before.
    #[doc(hidden)]
    pub fn sequence(&self) -> u64 {
        self.sequence.0
    }

    /// Makes all entries part of the database at once: durable, and visible to all reads that begin
    /// afterwards. They are younger than everything written before this is called, and older than
    /// what is written after it returns. Writers are held for as long as it takes to flush what
    /// they wrote during the flush before: milliseconds where syncs are fast.
    ///
    /// # Errors
    /// [`Error::Io`] if storage refused: nothing has changed, and the files are gone.
    /// [`Error::Stopped`] if writing has ended, now or before: if it was because of this, it is
    /// unknown until the database is opened again whether the entries are there, all or none.
    pub fn finish(mut self) -> Result<IngestReport> {
        if self.output.is_none() {
            return Err(failed_before());
        }
        self.engine.database.health.check_running()?;
        if self.entries == 0 {
            return Ok(IngestReport::default());
        }
        self.install().map_err(|error| self.fail(error))
    }

    fn install(&mut self) -> Result<IngestReport> {
        let engine = self.engine.clone();
        self.make_durable()?;
        let mut written_again = false;
        let _expected = engine.scheduler.expect_run();
        let (level, writers_delayed, file_bytes, tables) = loop {
            self.flush()?;
            let output = self.output.as_mut().expect("it has not failed");
            let (file_bytes, tables) =
                (output.finished().iter().map(|table| table.file_bytes).sum(), output.finished().len());
            let (through, mut level) = (self.sequence, 0);
            let installed = engine.commits.install_run(through, |last| {
                level = engine.scheduler.install_run(output, last, through)?;
                Ok(())
            })?;
            match installed {
                Ok(held) => break (level, held, file_bytes, tables),
                Err(Overtaken) => self.write_again()?,
            }
            written_again = true;
        };
        let Self { entries, raw_bytes, .. } = *self;
        Ok(IngestReport { entries, raw_bytes, file_bytes, tables, level, writers_delayed, written_again })
    }

    /// The tables and their names.
    fn make_durable(&mut self) -> Result<()> {
        let output = self.output.as_mut().expect("it has not failed");
        output.finish_all()?;
        output.ready().map(drop)
    }

    /// Flushes until there is little in buffers.
    fn flush(&self) -> Result<()> {
        let Engine { commits, scheduler, tree, .. } = &*self.engine;
        let little = scheduler.shape().1.buffer().0 / FILLED_SHARE;
        for _ in 0..FLUSHES_MAX {
            if commits.filled_bytes() <= little && tree.pin().immutable.is_empty() {
                break;
            }
            self.engine.flush()?;
        }
        Ok(())
    }

    /// The same entries under a later sequence.
    fn write_again(&mut self) -> Result<()> {
        let engine = &self.engine;
        let sequence = engine.commits.reserve()?;
        let mut again = engine.scheduler.ingest_output(self.raw_bytes, self.entries)?;
        let tables = self.output.as_ref().expect("it has not failed").finished();
        let database = engine.manifest.version().database();
        let copied = tables.iter().try_for_each(|meta| {
            let mut entries = engine.tables.open_unnamed(database, meta)?.cursor(ReadPolicy::Sequential);
            entries.seek_first()?;
            while let Some(entry) = entries.entry() {
                if again.is_full_before(entry.key) {
                    again.finish_table()?;
                }
                again.add(Entry { sequence, ..entry })?;
                entries.next()?;
            }
            Ok(())
        });
        let before = self.output.replace(again);
        self.sequence = sequence;
        before.into_iter().for_each(CompactionOutput::discard);
        copied.and_then(|()| self.make_durable())
    }

    /// Nothing more comes of it.
    fn fail(&mut self, error: Error) -> Error {
        let output = self.output.take();
        if let Error::Stopped { .. } = &error {
            // Whether the tables are part of the tree is decided when the manifest is read again:
            // they stay.
            self.engine.scheduler.report_stop(&error);
        } else {
            output.into_iter().for_each(CompactionOutput::discard);
        }
        error
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if let Some(output) = self.output.take() {
            output.discard();
        }
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, entries, raw_bytes, .. } = self;
        let mut shown = f.debug_struct("Ingest");
        shown.field("dir", &engine.dir).field("entries", entries).field("raw_bytes", raw_bytes).finish_non_exhaustive()
    }
}

fn not_ascending(last: &[u8], key: &[u8]) -> Error {
    let shown = |key: &[u8]| {
        let cut = &key[..key.len().min(SHOWN_BYTES)];
        format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < key.len() { "…" } else { "" })
    };
    Error::InvalidArgument(format!(
        "sorted data is ingested, but the key {} does not come after the one before, {}; sort the data (by bytes) and name each key once, or write it with put",
        shown(key),
        shown(last)
    ))
}

/// So much of a key is shown in an error.
const SHOWN_BYTES: usize = 80;

fn failed_before() -> Error {
    Error::InvalidArgument("this ingest has failed before; begin another".to_owned())
}
