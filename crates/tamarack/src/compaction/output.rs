//! [`Output`]: the tables that a job writes, one after another, cut between keys.
//!
//! Entries go in, in entry order; a table that has reached its size is finished before the next
//! key, never between versions of one. Until an edit names them the tables are orphans: a job that
//! fails removes them, a crash leaves them to the next open.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::format::block::Compression;
use crate::format::meta::{TableId, TableMeta};
use crate::format::names::FileName;
use crate::memory::Account;
use crate::mistake::{self, Mistake};
use crate::step;
use crate::table::{FilterSettings, TableBuilder, TableSettings, UnsyncedTable, WriteBehind};
use crate::tree::manifest::Manifest;

/// How jobs write tables.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The database's directory.
    pub dir: PathBuf,
    /// The database's id.
    pub database: u64,
    /// The size of a block, in bytes.
    pub block_bytes: usize,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Whether tables keep the digests of their keys, until another filter is chosen.
    pub digests: bool,
}

/// Where jobs write tables: what all of them share.
#[derive(Debug)]
pub struct Workshop {
    settings: OutputSettings,
    env: Arc<dyn Env>,
    manifest: Arc<Manifest>,
    account: Arc<Account>,
    /// Whether tables keep the digests of their keys: filters may be wanted that are made of them.
    digests: AtomicBool,
}

/// The tables of one job.
#[derive(Debug)]
pub struct Output {
    workshop: Arc<Workshop>,
    table_bytes: u64,
    /// Which filter these tables carry.
    filter: Option<FilterSettings>,
    /// The table being built.
    open: Option<TableBuilder>,
    /// The last key added.
    last_key: Vec<u8>,
    /// Finished, but in no edit yet.
    finished: Vec<TableMeta>,
    /// Of these, the last ones, which are not durable yet.
    unsynced: VecDeque<UnsyncedTable>,
    /// How many of them there may be.
    unsynced_max: usize,
    /// Who writes and syncs the files, if not the thread that builds them.
    writer: Option<Arc<WriteBehind>>,
    /// The tables made that are in no edit yet, finished or not.
    made: Vec<TableId>,
}

impl Workshop {
    /// A workshop whose tables get their numbers from `manifest`. What building them takes is
    /// charged to `account`.
    pub fn new(settings: OutputSettings, env: Arc<dyn Env>, manifest: Arc<Manifest>, account: Arc<Account>) -> Self {
        let digests = AtomicBool::new(settings.digests);
        Self { settings, env, manifest, account, digests }
    }

    /// Whether tables that are begun from now on keep the digests of their keys.
    pub fn keep_digests(&self, keep: bool) {
        self.digests.store(keep, Ordering::Relaxed);
    }

    /// The database's directory.
    pub fn dir(&self) -> &Path {
        &self.settings.dir
    }

    /// An output without tables, which goes on in another when one has `table_bytes`, in bytes of
    /// the file. Its tables carry `filter`.
    pub fn output(self: &Arc<Self>, table_bytes: u64, filter: Option<FilterSettings>) -> Output {
        let (last_key, finished, made) = (Vec::new(), Vec::new(), Vec::new());
        let (workshop, unsynced) = (self.clone(), VecDeque::new());
        let (open, writer, unsynced_max) = (None, None, 0);
        Output { workshop, table_bytes, filter, open, last_key, finished, unsynced, unsynced_max, writer, made }
    }

    /// Removes the file of a table that nothing names.
    pub fn remove(&self, table: TableId) -> Result<()> {
        let path = FileName::Table(table.0).path(&self.settings.dir);
        self.env.remove(&path, step::TABLE_REMOVE).map_err(|error| Error::io(step::TABLE_REMOVE.0, &path, error))
    }

    fn create_table(&self, filter: Option<FilterSettings>) -> Result<(TableId, TableBuilder)> {
        let id = self.manifest.new_table_id();
        let settings = TableSettings {
            database: self.settings.database,
            id,
            created_after: self.manifest.version().edit_number(),
            block_bytes: self.settings.block_bytes,
            compression: self.settings.compression,
            filter,
            digests: self.digests.load(Ordering::Relaxed),
        };
        let table = TableBuilder::create(self.env.as_ref(), &self.settings.dir, settings)?;
        Ok((id, table.on(&self.account)))
    }
}

impl Output {
    /// True if the table being built has its size, so that it should end before `key`.
    pub fn is_full_before(&self, key: &[u8]) -> bool {
        let building_max = self.workshop.account.building_bytes_max();
        let full = |t: &TableBuilder| t.file_bytes() >= self.table_bytes || t.kept_bytes() >= building_max;
        let full = self.open.as_ref().is_some_and(full);
        full && (key != self.last_key || mistake::is_planted(Mistake::CutBetweenVersions))
    }

    /// Has files written and synced by a worker of their own, while the next ones are built. So
    /// many finished tables wait for their sync: by then the device has written most of them.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no thread for it.
    pub fn written_behind(mut self, tables: usize) -> Result<Self> {
        self.unsynced_max = tables;
        self.writer = Some(WriteBehind::start(&self.workshop.env, &self.workshop.account)?);
        Ok(self)
    }

    /// Tables that are begun from now on get this size and carry this filter.
    pub fn set_tables(&mut self, table_bytes: u64, filter: Option<FilterSettings>) {
        (self.table_bytes, self.filter) = (table_bytes, filter);
    }

    /// The last key added; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Adds an entry to the table being built, or begins one with it. After an error the output is
    /// to be discarded.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.open.is_none() {
            let (id, table) = self.workshop.create_table(self.filter)?;
            self.made.push(id);
            self.open = Some(match &self.writer {
                Some(writer) => table.behind(writer),
                None => table,
            });
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.open.as_mut().expect("opened above").add(entry)
    }

    /// Finishes the table being built, if there is one: it is durable then (unless it may wait for
    /// that), but not its name.
    ///
    /// # Errors
    /// [`Error::Io`] if it could not be written, or a sync found no space: all that was made is to
    /// be discarded and made anew. [`Error::Stopped`] if a sync failed in another way.
    pub fn finish_table(&mut self) -> Result<()> {
        if let Some(table) = self.open.take() {
            let (meta, file) = table.finish_unsynced()?;
            self.finished.push(meta);
            self.unsynced.push_back(file);
        }
        self.sync_to(self.unsynced_max)
    }

    /// Finishes the table being built, and makes all durable that wait for that.
    ///
    /// # Errors
    /// As [`Output::finish_table`].
    pub fn finish_all(&mut self) -> Result<()> {
        self.finish_table()?;
        self.sync_to(0)?;
        self.writer.as_ref().map_or(Ok(()), |writer| writer.finish())
    }

    /// Makes finished tables durable until so many are left.
    fn sync_to(&mut self, left: usize) -> Result<()> {
        while self.unsynced.len() > left {
            let table = self.unsynced.pop_front().expect("there are more than that");
            match &self.writer {
                Some(writer) => writer.sync(table),
                // No edit names the table yet. Another with another number takes its place, and nothing is built on
                // this one.
                None => table.sync().map_err(Error::of_sync_of_new_file)?,
            }
        }
        Ok(())
    }

    /// The finished tables, whose names are made durable: ready to be named by an edit. After that
    /// edit, call [`Output::installed`].
    ///
    /// # Errors
    /// [`Error::Stopped`] if the names could not be made durable.
    pub fn ready(&self) -> Result<&[TableMeta]> {
        assert!(self.unsynced.is_empty(), "no edit names a table that is not durable: {:?}", self.unsynced);
        let dir = &self.workshop.settings.dir;
        if !self.finished.is_empty() {
            let synced = self.workshop.env.sync_dir(dir, step::TABLE_SYNC_DIRECTORY);
            // The directory cannot be thrown away, and which of its names are durable now is unknown; also of
            // tables that others are making.
            synced.map_err(|error| Error::io(step::TABLE_SYNC_DIRECTORY.0, dir, error).ends_writing())?;
        }
        Ok(&self.finished)
    }

    /// The finished tables.
    pub fn finished(&self) -> &[TableMeta] {
        &self.finished
    }

    /// An edit names the finished tables now. Returns what they are.
    pub fn installed(&mut self) -> Vec<TableMeta> {
        assert!(self.open.is_none(), "tables are installed when they are finished");
        self.made.clear();
        std::mem::take(&mut self.finished)
    }

    /// Removes what no edit names.
    pub fn discard(mut self) {
        // Nothing is written any more to what is removed.
        (self.open, self.writer) = (None, None);
        for table in self.made {
            if let Err(error) = self.workshop.remove(table) {
                tracing::warn!(%error, "an unfinished table could not be removed; the next open will try again");
            }
        }
    }
}
