//! [`Ingest`]: sorted data straight into tables, past the WAL and the memtables; in the end it
//! arrives as the youngest run.
//!
//! ```text
//! put, put, … ──▶ tables ──▶ finish: flush │ flush the rest │ one edit │ visible
//!    writers go on ───────────────────────▶│ writers wait             │ writers go on ──▶
//!    readers see nothing of it ───────────────────────────▶│ all of it or nothing
//! ```
//!
//! While the tables are built, nobody knows the sequence number that their entries will have. So
//! all of them have the sequence number 1 in the files, and the tables get a **sequence base** that
//! readers add, between two commit groups: the run takes as many sequence numbers as it has
//! entries, as if it were one large batch, and all its entries have the last of these. Its edit in
//! the manifest is what the batch's record in the WAL would be. Everything acknowledged before is
//! in older runs by then, and later writes are younger. Several ingests at a time take part in the
//! order of commits in the order in which they finish.
//!
//! **Where the base is recorded.** In the manifest, with each table; and for a repair without a
//! manifest also in the last table's own properties, whose end is written when the base is known.
//! ([Decision 0010](../../../docs/decisions/0010-a-sequence-base-per-table.md).)
//!
//! **Crash.** Before the edit is durable, the tables are orphans, which the next open removes.
//! After it, everything up to the run is in tables. The sequence numbers of the WAL have a gap
//! there, and so a segment begins, before which nothing is needed any more; a crash in between
//! leaves a WAL that ends before the run, and opening begins that segment.
//!
//! **Damage.** The tables are in no WAL, so nothing would miss them if their edit were damaged
//! while it is the manifest's last: it would look like one that a crash cut short. The header of
//! the WAL segment names the edit. It is durable before [`Ingest::finish`] returns; if the segment
//! cannot be made then, which fails no ingest, the next write makes it.
//!
//! **Cost.** The order of keys is compared twice, here for the caller's error and in the table's
//! builder as its assertion; a key is hashed once; nothing else stands between an entry and the
//! builder. Files are written and synced by a worker of their own
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
use crate::write::Write;

/// Before writers are stopped, memtables are flushed until no more than this part of one is filled,
/// or as often as `FLUSHES_MAX`: writers may be fast.
const FILLED_SHARE: u64 = 16;
const FLUSHES_MAX: usize = 4;

/// The sequence number of all entries in the files of ingested tables, to which the base is added.
const SEQUENCE_IN_FILE: Sequence = Sequence(1);

/// Sorted data on its way into the database: see [`crate::Db::ingest`]. Dropped before
/// [`Ingest::finish`], it leaves nothing behind.
#[must_use = "nothing is ingested before `finish`"]
pub struct Ingest {
    engine: Arc<Engine>,
    /// `None` once something has failed.
    output: Option<CompactionOutput>,
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
    /// The level where it arrived; 0 if there was nothing to ingest. Compactions may move it
    /// further from there.
    pub level: usize,
    /// How long writers were stopped while the run became part of the tree.
    pub writers_delayed: Duration,
}

impl Ingest {
    pub(crate) fn new(engine: &Arc<Engine>) -> Result<Self> {
        engine.database.health.check_running()?;
        let output = Some(engine.scheduler.ingest_output(0, 0)?);
        Ok(Self { engine: engine.clone(), output, entries: 0, raw_bytes: 0 })
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
        let entry = Entry { key, sequence: SEQUENCE_IN_FILE, kind: EntryKind::Put, value };
        if output.is_full_before(key) {
            output.set_sequence_base(self.engine.database.sequences.visible());
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

    /// Makes all entries part of the database at once: durable, and visible to all reads that begin
    /// afterwards. They are younger than everything written before this is called, and older than
    /// what is written after it returns. Writers wait for as long as it takes to flush what they
    /// wrote during the flush before: milliseconds where syncs are fast.
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
        let Self { engine, output, entries, raw_bytes } = self;
        let output = output.as_mut().expect("it has not failed");
        output.write_body()?;
        let _expected = engine.scheduler.expect_run();
        flush(engine)?;
        let end =
            |output: &mut CompactionOutput, last: Sequence| output.end_ingest(last.without_base(SEQUENCE_IN_FILE));
        let install = |output: &mut CompactionOutput, last| {
            let of_files = output.finished().iter().map(|table| table.file_bytes).sum::<u64>();
            let tables = output.finished().len();
            Ok((engine.scheduler.install_run(output, last)?, of_files, tables))
        };
        let ((level, file_bytes, tables), writers_delayed) =
            engine.commits.install_run(output, *entries, end, install)?;
        Ok(IngestReport { entries: *entries, raw_bytes: *raw_bytes, file_bytes, tables, level, writers_delayed })
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

/// Flushes until there is little in memtables.
fn flush(engine: &Engine) -> Result<()> {
    let Engine { commits, scheduler, tree, .. } = engine;
    let little = scheduler.shape().1.buffer().0 / FILLED_SHARE;
    for _ in 0..FLUSHES_MAX {
        if commits.filled_bytes() <= little && tree.pin().immutable.is_empty() {
            break;
        }
        engine.flush()?;
    }
    Ok(())
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
