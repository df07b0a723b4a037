//! [`TableFile`]: the handle by which versions share one table, and the list of those that nothing shares any more.
//!
//! A handle knows what the manifest says about the table, and opens its reader when it is first needed. Every slice of every version
//! holds one, and so does whoever reads the table. When a durable edit has taken the last slice of the current version away,
//! the handle is marked obsolete; when the last holder (an older version, an iterator, a checkpoint) lets go of
//! it, the table's id goes to the garbage list of [`TableFiles`], from which background work removes the file. A handle
//! that is not obsolete leaves its file alone: closing a database deletes nothing.
//!
//! Tests: here, and through versions in `tree/tests.rs`.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::format::meta::{TableId, TableMeta};
use crate::merge::Source;

/// Opens tables. The engine opens files; tests have tables in memory.
pub trait OpenTable: Send + Sync + fmt::Debug {
    /// The reader of a table of the database with that id.
    fn open(&self, database: u64, meta: &TableMeta) -> Result<Arc<dyn ReadTable>>;
}

/// What a run needs of a table.
pub trait ReadTable: Send + Sync + fmt::Debug {
    /// Shows `visit` the versions of the key that the query sees, youngest first, until it breaks; says whether it did.
    fn get(&self, query: &Query<'_>, visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>>;

    /// A cursor over all entries, which may be read `bypassing` the block cache in large pieces.
    fn cursor(self: Arc<Self>, bypassing: bool) -> Box<dyn Source + Send>;
}

/// Where table handles come from, and where the ids of dead ones collect.
#[derive(Debug)]
pub struct TableFiles {
    opener: Box<dyn OpenTable>,
    garbage: Mutex<Vec<TableId>>,
}

impl TableFiles {
    /// Handles whose tables `opener` opens.
    pub fn new(opener: Box<dyn OpenTable>) -> Arc<Self> {
        Arc::new(Self { opener, garbage: Mutex::new(Vec::new()) })
    }

    /// Takes the tables that no slice of the current version names and nobody reads any more. Their files may be removed.
    pub fn take_garbage(&self) -> Vec<TableId> {
        std::mem::take(&mut *self.garbage.lock())
    }
}

/// A table that versions share.
pub struct TableFile {
    database: u64,
    meta: Arc<TableMeta>,
    files: Arc<TableFiles>,
    reader: OnceLock<Arc<dyn ReadTable>>,
    obsolete: AtomicBool,
}

impl TableFile {
    pub(super) fn new(database: u64, meta: Arc<TableMeta>, files: Arc<TableFiles>) -> Arc<Self> {
        Arc::new(Self { database, meta, files, reader: OnceLock::new(), obsolete: AtomicBool::new(false) })
    }

    /// The table's number.
    pub fn id(&self) -> TableId {
        self.meta.id
    }

    /// What the manifest knows of the table.
    pub fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// The reader; opens the table if nobody has yet. A failure is not remembered.
    pub fn reader(&self) -> Result<&Arc<dyn ReadTable>> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        // Two threads may open the table at once; the first to finish wins and the other reader is dropped.
        let opened = self.files.opener.open(self.database, &self.meta)?;
        Ok(self.reader.get_or_init(|| opened))
    }

    /// The current version names the table no more, and the edit that says so is durable.
    pub(super) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.files.garbage.lock().push(self.meta.id);
        }
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFile").field("meta", &self.meta).field("obsolete", &self.obsolete).finish_non_exhaustive()
    }
}
