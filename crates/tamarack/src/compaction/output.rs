//! [`CompactionOutput`]: the tables that a job writes, one after another, cut between keys.
//!
//! Entries are added in order; a table that has reached its size is finished before the next key,
//! never between versions of one key. Until an edit names them the tables are orphans: a failed job
//! removes them, and after a crash the next opening does.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::cache::BlockCache;
use crate::compaction_filter::RegisteredFilter;
use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::block::Compression;
use crate::format::meta::{TableId, TableMeta};
use crate::format::names::FileName;
use crate::memory::Account;
use crate::mistake::{self, Mistake};
use crate::operator::Merging;
use crate::step;
use crate::table::{FilterSettings, TableBuilder, TableSettings, UnsyncedTable, WriteBehind};
use crate::tree::manifest::Manifest;
use crate::tree::table_file::{KeptWritten, TableFiles};
use crate::write::Reserve;

/// Settings of the tables that jobs write.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// Directory of the database.
    pub dir: PathBuf,
    /// Id of the database.
    pub database: u64,
    /// Size of a block, in bytes, until another is chosen.
    pub block_bytes: usize,
    /// Compression of blocks; while disk space is low, that of the inputs if it is stronger.
    pub compression: Compression,
    /// Whether tables store the digests of their keys, until another filter is chosen.
    pub digests: bool,
    /// The merge operator of the tree.
    pub merging: Arc<Merging>,
    /// The compaction filter, if there is one.
    pub compaction_filter: Option<RegisteredFilter>,
}

/// Context that all outputs share: settings, environment, table numbers, memory account.
#[derive(Debug)]
pub struct OutputContext {
    settings: OutputSettings,
    env: Arc<dyn Env>,
    manifest: Arc<Manifest>,
    tables: Arc<TableFiles>,
    reserve: Arc<Reserve>,
    /// Whether new tables store the digests of their keys.
    digests: AtomicBool,
    /// Size of a block of new tables, in bytes.
    block_bytes: AtomicUsize,
}

/// Output tables of one job.
#[derive(Debug)]
pub struct CompactionOutput {
    output_context: Arc<OutputContext>,
    table_bytes: u64,
    /// Filter of the tables.
    filter: Option<FilterSettings>,
    compression: Compression,
    /// The most bytes of a write.
    piece_bytes: usize,
    /// Range deletes up to there hide none of its entries.
    range_deletes_applied: Sequence,
    /// The table being built.
    open: Option<TableBuilder>,
    /// Finished tables that no edit names yet.
    finished: Vec<TableMeta>,
    /// What is in memory of these.
    written: Vec<KeptWritten>,
    /// The last of these, which are not durable yet.
    unsynced: VecDeque<UnsyncedTable>,
    /// Maximum number of them.
    unsynced_max: usize,
    /// True if the tables are those of an ingest.
    is_ingest: bool,
    /// Writes and syncs the files, if the thread that builds them does not.
    writer: Option<Arc<WriteBehind>>,
    /// Tables that no edit names yet, finished or not.
    made: Vec<TableId>,
}

impl OutputContext {
    /// Makes a context. Tables get their numbers from `manifest`; what building them leaves in
    /// memory goes to `tables`, whose account is charged.
    pub fn new(
        settings: OutputSettings,
        env: Arc<dyn Env>,
        manifest: Arc<Manifest>,
        tables: Arc<TableFiles>,
        reserve: Arc<Reserve>,
    ) -> Self {
        let (digests, block_bytes) = (AtomicBool::new(settings.digests), AtomicUsize::new(settings.block_bytes));
        Self { settings, env, manifest, tables, reserve, digests, block_bytes }
    }

    /// The memory account that outputs are charged to.
    pub fn account(&self) -> &Arc<Account> {
        self.tables.storage().account()
    }

    /// The cache of blocks and entries.
    pub fn cache(&self) -> &BlockCache {
        self.tables.storage().cache()
    }

    /// Sets whether tables that begin from now on store the digests of their keys.
    pub fn keep_digests(&self, keep: bool) {
        self.digests.store(keep, Ordering::Relaxed);
    }

    /// The size of a block of tables that begin from now on, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes.load(Ordering::Relaxed)
    }

    /// The same as the options have it.
    pub fn block_bytes_of_options(&self) -> usize {
        self.settings.block_bytes
    }

    /// Sets the size of a block of tables that begin from now on. Existing tables keep theirs.
    pub fn set_block_bytes(&self, block_bytes: usize) {
        self.block_bytes.store(block_bytes, Ordering::Relaxed);
    }

    /// Queries the free disk space, and returns true if it is low, or would be with `bytes` less.
    pub fn is_space_low(&self, bytes: u64) -> bool {
        !self.reserve.spares(bytes) || self.reserve.is_low()
    }

    /// The compaction filter, if there is one.
    pub fn compaction_filter(&self) -> Option<&RegisteredFilter> {
        self.settings.compaction_filter.as_ref()
    }

    /// The merge operator of the tree.
    pub fn merging(&self) -> &Arc<Merging> {
        &self.settings.merging
    }

    /// Returns the directory of the database.
    pub fn dir(&self) -> &Path {
        &self.settings.dir
    }

    /// Makes an output without tables. Each table gets `table_bytes` (bytes of the file) and
    /// `filter`.
    pub fn output(self: &Arc<Self>, table_bytes: u64, filter: Option<FilterSettings>) -> CompactionOutput {
        let (finished, made, compression) = (Vec::new(), Vec::new(), self.settings.compression);
        let (output_context, unsynced, piece_bytes) = (self.clone(), VecDeque::new(), self.account().piece_bytes());
        let (open, writer, unsynced_max, is_ingest) = (None, None, 0, false);
        CompactionOutput {
            output_context,
            table_bytes,
            filter,
            compression,
            piece_bytes,
            range_deletes_applied: Sequence::ZERO,
            open,
            finished,
            written: Vec::new(),
            unsynced,
            unsynced_max,
            is_ingest,
            writer,
            made,
        }
    }

    /// Removes the file of a table that no version names.
    pub fn remove(&self, table: TableId) -> Result<()> {
        let path = FileName::Table(table.0).path(&self.settings.dir);
        self.env.remove(&path, step::TABLE_REMOVE).map_err(|error| Error::io(step::TABLE_REMOVE.0, &path, error))
    }

    fn create_table(
        &self,
        filter: Option<FilterSettings>,
        compression: Compression,
    ) -> Result<(TableId, TableBuilder)> {
        let id = self.manifest.new_table_id();
        let settings = TableSettings {
            database: self.settings.database,
            id,
            created_after: self.manifest.version().edit_number(),
            block_bytes: self.block_bytes(),
            compression,
            filter,
            digests: self.digests.load(Ordering::Relaxed),
        };
        let table = TableBuilder::create(self.env.as_ref(), &self.settings.dir, settings)?;
        Ok((id, table.on(self.account()).leaving(self.tables.storage())))
    }
}

impl CompactionOutput {
    /// The bytes of the table being built, if there is one.
    pub fn open_bytes(&self) -> Option<u64> {
        self.open.as_ref().map(TableBuilder::file_bytes)
    }

    /// Returns true if the table being built has reached its size and can end before `key`.
    pub fn is_full_before(&self, key: &[u8]) -> bool {
        let building_max = self.output_context.account().building_bytes_max();
        let full = |t: &TableBuilder| t.file_bytes() >= self.table_bytes || t.kept_bytes() >= building_max;
        let full = self.open.as_ref().is_some_and(full);
        full && (key != self.last_key() || mistake::is_planted(Mistake::CutBetweenVersions))
    }

    /// Writes so many bytes at a time, at most.
    #[must_use]
    pub fn in_pieces_of(self, bytes: usize) -> Self {
        Self { piece_bytes: bytes, ..self }
    }

    /// Makes another worker write and sync the files while the next ones are built. Up to `tables`
    /// finished tables wait for their sync: by then the device has written most of them.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub fn written_behind(mut self, tables: usize) -> Result<Self> {
        self.unsynced_max = tables;
        self.writer = Some(WriteBehind::start(&self.output_context.env, self.output_context.account())?);
        Ok(self)
    }

    /// Compresses the tables at least so, if this build can.
    #[must_use]
    pub fn compressed(mut self, compression: Compression) -> Self {
        if compression.is_available() {
            self.compression = self.compression.stronger_of(compression);
        }
        self
    }

    /// Says that range deletes up to this sequence hide none of the entries.
    pub fn set_range_deletes_applied(&mut self, through: Sequence) {
        self.range_deletes_applied = through;
    }

    /// Makes the tables those of an ingest, whose sequence base is set in the end.
    #[must_use]
    pub fn of_ingest(mut self) -> Self {
        self.is_ingest = true;
        self
    }

    /// Sets a lower bound on the sequence base of an ingest, for the properties of the table being
    /// built.
    pub fn set_sequence_base(&mut self, base: Sequence) {
        self.open.iter_mut().for_each(|table| table.set_sequence_base(base));
    }

    /// Makes all that was added durable, names included, but for the end of the table being built.
    ///
    /// # Errors
    /// As [`CompactionOutput::finish_table`] and [`CompactionOutput::ready`].
    pub fn write_body(&mut self) -> Result<()> {
        if let Some(table) = &mut self.open {
            self.unsynced.push_back(table.write_body()?);
        }
        self.sync_all()?;
        self.sync_names()
    }

    /// Ends an ingest after [`CompactionOutput::write_body`]: all of its tables get the sequence
    /// base, the last one also in the file, and are durable then.
    ///
    /// # Errors
    /// As [`CompactionOutput::finish_table`].
    pub fn end_ingest(&mut self, base: Sequence) -> Result<()> {
        self.finished.iter_mut().for_each(|table| table.properties.set_sequence_base(base));
        self.open.as_mut().expect("the last table of an ingest is open until the end").end_ingest(base);
        self.finish_all()
    }

    /// Sets the size and the filter of tables that begin from now on.
    pub fn set_tables(&mut self, table_bytes: u64, filter: Option<FilterSettings>) {
        (self.table_bytes, self.filter) = (table_bytes, filter);
    }

    /// Returns the last key of the table being built; empty if there is none.
    pub fn last_key(&self) -> &[u8] {
        self.open.as_ref().map_or(&[], TableBuilder::last_key)
    }

    /// Adds an entry to the table being built, or begins one. After an error the output must be
    /// discarded.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.open.is_none() {
            let (id, table) = self.output_context.create_table(self.filter, self.compression)?;
            let table = table.in_pieces_of(self.piece_bytes);
            self.made.push(id);
            let table = if self.is_ingest { table.ingested(self.made[0]) } else { table };
            let table = table.with_range_deletes_applied(self.range_deletes_applied);
            self.open = Some(match &self.writer {
                Some(writer) => table.behind(writer),
                None => table,
            });
        }
        self.open.as_mut().expect("opened above").add(entry)
    }

    /// Finishes the table being built, if there is one. Its content is durable then (unless it
    /// waits for its sync), its name is not.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written, or a sync found no space: the output must be
    /// discarded and written anew. [`Error::Stopped`] if a sync failed in another way.
    pub fn finish_table(&mut self) -> Result<()> {
        if let Some(table) = self.open.take() {
            let (meta, file, written) = table.finish_unsynced()?;
            self.written.extend(written.map(|written| self.output_context.tables.keep_written(meta.id, written)));
            self.finished.push(meta);
            self.unsynced.push_back(file);
        }
        self.sync_to(self.unsynced_max)
    }

    /// Finishes the table being built, and syncs all tables that wait for it.
    ///
    /// # Errors
    /// As [`CompactionOutput::finish_table`].
    pub fn finish_all(&mut self) -> Result<()> {
        self.finish_table()?;
        self.sync_all()
    }

    /// Syncs all tables that wait for it.
    fn sync_all(&mut self) -> Result<()> {
        self.sync_to(0)?;
        self.writer.as_ref().map_or(Ok(()), |writer| writer.finish())
    }

    /// Syncs finished tables until `left` are unsynced.
    fn sync_to(&mut self, left: usize) -> Result<()> {
        while self.unsynced.len() > left {
            let table = self.unsynced.pop_front().expect("there are more than `left`");
            match &self.writer {
                Some(writer) => writer.sync(table),
                // No edit names the table yet. Another with another number takes its place, and
                // nothing is built on this one.
                None => table.sync().map_err(Error::of_sync_of_new_file)?,
            }
        }
        Ok(())
    }

    /// Returns the finished tables after making their names durable, so that an edit can name them.
    /// After that edit, call [`CompactionOutput::installed`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the names could not be made durable.
    pub fn ready(&self) -> Result<&[TableMeta]> {
        assert!(self.unsynced.is_empty(), "no edit names a table that is not durable: {:?}", self.unsynced);
        if !self.finished.is_empty() {
            self.sync_names()?;
        }
        Ok(&self.finished)
    }

    /// Makes the names of all tables durable.
    fn sync_names(&self) -> Result<()> {
        let dir = &self.output_context.settings.dir;
        let synced = self.output_context.env.sync_dir(dir, step::TABLE_SYNC_DIRECTORY);
        // The directory cannot be thrown away, and which of its names are durable now is unknown;
        // also of tables that others are making.
        synced.map_err(|error| Error::io(step::TABLE_SYNC_DIRECTORY.0, dir, error).ends_writing())
    }

    /// Returns the finished tables.
    pub fn finished(&self) -> &[TableMeta] {
        &self.finished
    }

    /// Notes that an edit names the finished tables, and returns them.
    pub fn installed(&mut self) -> Vec<TableMeta> {
        assert!(self.open.is_none(), "tables are installed when they are finished");
        self.made.clear();
        self.written.clear();
        std::mem::take(&mut self.finished)
    }

    /// Removes the tables that no edit names.
    pub fn discard(mut self) {
        // Writing to these files must end before they are removed.
        (self.open, self.writer) = (None, None);
        for table in self.made {
            if let Err(error) = self.output_context.remove(table) {
                tracing::warn!(%error, "orphaned table removal failed; the next opening will retry it");
            }
        }
    }
}
