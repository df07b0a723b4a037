//! [`TableFile`]: a table that versions share; [`TableFiles`]: those that are garbage.
//!
//! A handle has the table's metadata from the manifest, and opens the table when it is first
//! needed. Every slice of every version references one, and so does every reader of the table. When
//! a durable edit removes the last slice of the current version, the handle is marked obsolete;
//! when its last reference (an older version, an iterator, a checkpoint) is dropped, the table goes
//! to the garbage list of [`TableFiles`], from which background work removes the file. Handles that
//! are not obsolete leave their files alone: closing a database deletes nothing.
//!
//! Tests: here, and through versions in `tree/tests`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tamarack_env::Worker;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_filter::Digest;
use tamarack_model::filter_plan::{StoredFilter, TableFilters};

use crate::error::{Error, Result};
use crate::format::meta::{TableId, TableMeta};
use crate::memory::{Charge, MemoryPart};
use crate::stats::{RunLookups, sampled_lately};
use crate::table::{
    FilterKind, FilterOutcome, FilterTarget, Loaded, Table, TableStorage, UnitsOfTable, WrittenTable, bits_of,
    kind_to_number,
};

/// The tables of a database: how they are opened, and which are garbage.
pub struct TableFiles {
    storage: Arc<TableStorage>,
    dir: PathBuf,
    /// Bits per entry of elastic filters in memory until the filter decider says otherwise: an
    /// `f64`, as bits.
    elastic_bits_per_entry: AtomicU64,
    garbage: Mutex<Vec<Arc<TableMeta>>>,
    /// What is in memory of tables that no edit has named yet.
    written: Mutex<BTreeMap<TableId, WrittenTable>>,
    /// Bytes of files that the current version does not reference and that still exist.
    pending_bytes: AtomicU64,
    /// Woken when there is garbage.
    collector: OnceLock<Arc<dyn Worker>>,
}

impl fmt::Debug for TableFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFiles").field("dir", &self.dir).field("garbage", &self.garbage).finish_non_exhaustive()
    }
}

impl TableFiles {
    /// Creates the set of tables in `dir`, which are read by `storage`.
    pub fn new(storage: Arc<TableStorage>, dir: &Path) -> Arc<Self> {
        Self::with_filters(storage, dir, 0.0)
    }

    /// As [`TableFiles::new`], with `elastic_bits_per_entry` of elastic filters in memory until the
    /// filter decider says otherwise.
    pub fn with_filters(storage: Arc<TableStorage>, dir: &Path, elastic_bits_per_entry: f64) -> Arc<Self> {
        let (garbage, collector, pending_bytes) =
            (Mutex::new(Rank::Garbage, Vec::new()), OnceLock::new(), AtomicU64::new(0));
        let elastic_bits_per_entry = AtomicU64::new(elastic_bits_per_entry.to_bits());
        let written = Mutex::new(Rank::WrittenTables, BTreeMap::new());
        Arc::new(Self {
            storage,
            dir: dir.to_owned(),
            elastic_bits_per_entry,
            garbage,
            written,
            pending_bytes,
            collector,
        })
    }

    /// Sets the bits per entry of elastic filters of tables that are opened from now on.
    pub fn set_elastic_bits_per_entry(&self, bits: f64) {
        self.elastic_bits_per_entry.store(bits.to_bits(), Ordering::Relaxed);
    }

    /// Registers the worker that removes files; called once.
    pub fn set_collector(&self, worker: Arc<dyn Worker>) {
        assert!(self.collector.set(worker).is_ok(), "there is one collector of tables");
    }

    /// Returns the storage by which tables are read.
    pub fn storage(&self) -> &Arc<TableStorage> {
        &self.storage
    }

    /// Keeps what is in memory of a table that was just written, until an edit names the table or
    /// the returned value is dropped.
    pub fn keep_written(self: &Arc<Self>, table: TableId, written: WrittenTable) -> KeptWritten {
        self.written.lock().insert(table, written);
        KeptWritten { files: self.clone(), table }
    }

    fn take_written(&self, table: TableId) -> Option<WrittenTable> {
        self.written.lock().remove(&table)
    }

    /// Takes the garbage: tables that neither a slice of the current version nor a reader
    /// references. The caller may remove their files, and then calls [`TableFiles::removed`].
    pub fn take_garbage(&self) -> Vec<Arc<TableMeta>> {
        std::mem::take(&mut *self.garbage.lock())
    }

    /// Records that the file of a garbage table was removed.
    pub fn removed(&self, table: &TableMeta) {
        self.pending_bytes.fetch_sub(table.file_bytes, Ordering::Relaxed);
    }

    /// Puts back a garbage table whose file could not be removed.
    pub fn not_removed(&self, table: Arc<TableMeta>) {
        self.garbage.lock().push(table);
    }

    /// Returns the bytes of files that the current version does not reference but that still exist:
    /// readers use them, or their removal is pending.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Returns the filter memory of all open tables, in bytes, including those that only an old
    /// version or an iterator references.
    pub fn filter_bytes(&self) -> u64 {
        self.storage.account().bytes(MemoryPart::Filters)
    }
}

/// What is in memory of a table, until an edit names it.
#[derive(Debug)]
pub struct KeptWritten {
    files: Arc<TableFiles>,
    table: TableId,
}

impl Drop for KeptWritten {
    fn drop(&mut self) {
        // Not while the lock is held: memory that becomes free is given to the cache.
        drop(self.files.take_written(self.table));
    }
}

/// Approximate memory per table in the runs of a version, in bytes.
const SLICE_BYTES: usize = 100;

/// A table that versions share.
pub struct TableFile {
    database: u64,
    meta: Arc<TableMeta>,
    files: Arc<TableFiles>,
    opened: OnceLock<Arc<Table>>,
    /// Locked while the table is opened, which reads its file, but for what its builder has left.
    opening: Mutex<Option<WrittenTable>>,
    /// The target filter. Locked only to read it, to set it, and to make the table an open one.
    target: Mutex<FilterTarget>,
    obsolete: AtomicBool,
    /// The number of sampled lookups of the database before this table existed.
    sampled_before: u64,
    _charge: Charge,
}

impl TableFile {
    pub(super) fn new(database: u64, meta: Arc<TableMeta>, files: Arc<TableFiles>) -> Arc<Self> {
        let charge =
            files.storage.account().charge(MemoryPart::Tables, size_of::<Self>() + meta.memory_bytes() + SLICE_BYTES);
        let per_entry = f64::from_bits(files.elastic_bits_per_entry.load(Ordering::Relaxed));
        let bits = (per_entry * meta.entries as f64) as u64;
        let written = files.take_written(meta.id);
        let (opened, opening) = (OnceLock::new(), Mutex::new(Rank::TableOpening, written));
        let (target, obsolete) = (Mutex::new(Rank::TableTarget, FilterTarget::Units(bits)), AtomicBool::new(false));
        let sampled_before = files.storage.lookups().sampled();
        Arc::new(Self { database, meta, files, opened, opening, target, obsolete, sampled_before, _charge: charge })
    }

    /// Returns the table's number.
    pub fn id(&self) -> TableId {
        self.meta.id
    }

    /// Returns the table's metadata from the manifest.
    pub fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// Returns the storage by which the table is read.
    pub fn storage(&self) -> &TableStorage {
        &self.files.storage
    }

    /// Returns the outcomes of lookups in this table; none if it has never been opened.
    pub fn lookups(&self) -> RunLookups {
        let since = self.files.storage.lookups().sampled().saturating_sub(self.sampled_before);
        self.opened.get().map_or_else(RunLookups::default, |table| table.samples().get(since))
    }

    /// Returns the share of sampled lookups that reached this table lately, the share that were
    /// false positives, and the number of lookups that both refer to: since the table has existed,
    /// of the last two periods.
    pub fn seen_lately(&self) -> (f64, f64, u64) {
        let sampled = self.files.storage.lookups().sampled();
        let lookups = sampled_lately(sampled, self.sampled_before);
        let counted = self.opened.get().map_or([0; 2], |table| table.samples().lately(sampled));
        let [came, false_positives] =
            counted.map(|count| if lookups == 0 { 0.0 } else { count.min(lookups) as f64 / lookups as f64 });
        (came, false_positives, lookups)
    }

    /// Returns the open table, and opens it if needed. A failure is not remembered.
    #[inline]
    pub fn open(&self) -> Result<&Arc<Table>> {
        match self.opened.get() {
            Some(table) => Ok(table),
            None => self.open_now(),
        }
    }

    /// Returns the open table, if it is open.
    #[inline]
    pub fn if_open(&self) -> Option<&Arc<Table>> {
        self.opened.get()
    }

    #[cold]
    fn open_now(&self) -> Result<&Arc<Table>> {
        let mut written = self.opening.lock();
        // Another thread may have been faster.
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let mut target = self.target();
        let table =
            Table::open_with(&self.files.storage, &self.files.dir, self.database, &self.meta, target, written.take())?;
        loop {
            // Whoever sets another target from here on finds the table open.
            let wanted = self.target.lock();
            if *wanted == target {
                // Nothing that the schedule explorer can interrupt happens inside of the cell: it
                // would block all threads.
                let _ = self.opened.set(table);
                return Ok(self.opened.get().expect("it was just set"));
            }
            target = *wanted;
            drop(wanted);
            table.set_filter(target)?;
        }
    }

    /// Loads a part of what lookups need beside data blocks: opens the table, as long as no other
    /// file has to be closed for it, or if `lower`, reads some of its lower index blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn load_some(&self, lower: bool) -> Result<Loaded> {
        match self.opened.get() {
            Some(table) if lower => table.load_lower(),
            None if self.files.storage.can_open_another_file() => self.open_now().map(|_| Loaded::Some),
            _ => Ok(Loaded::Nothing),
        }
    }

    /// Returns the target filter.
    pub fn target(&self) -> FilterTarget {
        *self.target.lock()
    }

    /// Sets the target filter: an open table gets it now, another one when it is opened. Also
    /// returns the number of bytes read.
    ///
    /// # Errors
    /// As [`Table::set_filter`]; the target stays set, and the call can be repeated.
    pub fn set_filter(&self, target: FilterTarget) -> Result<(FilterOutcome, u64)> {
        // From here on the table is opened with this target.
        *self.target.lock() = target;
        self.follow_target()
    }

    /// Returns true if `target` frees memory and reads nothing.
    pub fn shrinks_without_reading(&self, target: FilterTarget) -> bool {
        match target {
            FilterTarget::Nothing => true,
            FilterTarget::Units(bits) => {
                self.units().is_some_and(|units| bits < units.unit_bits * u64::from(units.in_memory))
            }
            FilterTarget::Stored | FilterTarget::Of(_) => false,
        }
    }

    /// Returns how much of the stored filter is in memory, or will be when the table is opened;
    /// `None` unless it is elastic.
    pub fn units(&self) -> Option<UnitsOfTable> {
        if let Some(table) = self.opened.get() {
            return table.units();
        }
        let bits = match self.target() {
            FilterTarget::Units(bits) => bits,
            FilterTarget::Stored => u64::MAX,
            FilterTarget::Nothing | FilterTarget::Of(_) => 0,
        };
        UnitsOfTable::expected(&self.meta, bits)
    }

    /// Returns the table's filter and those that it could have, for the filter decider. `live` of
    /// its entries are live.
    pub fn filters(&self, live: u64) -> TableFilters {
        let (entries, (number, bits)) = (self.meta.entries, self.filter());
        let mut in_use = kind_of(number).map(|kind| (kind, bits as f64));
        let stored = match (kind_of(self.meta.filter_kind), self.units()) {
            (Some(kind), Some(units)) => {
                let (loaded, step_bits) = (units.in_memory, units.unit_bits);
                if loaded > 0 {
                    in_use = Some((kind, (step_bits * u64::from(loaded)) as f64));
                }
                let step_fpr = Some(units.unit_fpr(&self.meta));
                Some(StoredFilter { kind, steps: units.stored, step_bits, step_fpr, loaded })
            }
            (Some(kind), None) if self.meta.filter_bits > 0 => {
                let loaded = u32::from((number, bits) == (self.meta.filter_kind, self.meta.filter_bits));
                let step_bits = self.meta.filter_bits;
                Some(StoredFilter { kind, steps: 1, step_bits, step_fpr: None, loaded })
            }
            _ => None,
        };
        TableFilters { entries, live, in_use, can_be_made: self.has_digests(), stored, passing: None }
    }

    /// Gives an open table its target filter.
    fn follow_target(&self) -> Result<(FilterOutcome, u64)> {
        let Some(table) = self.opened.get() else { return Ok((FilterOutcome::Unchanged, 0)) };
        loop {
            let target = self.target();
            let done = table.set_filter(target)?;
            // Another thread may have set another target meanwhile.
            if self.target() == target {
                return Ok(done);
            }
        }
    }

    /// Returns the kind, as a number, and the bits of the filter that the table has, or will have
    /// when it is opened; zeros for none.
    pub fn filter(&self) -> (u8, u64) {
        if let Some(table) = self.opened.get() {
            return table.filter_in_use();
        }
        match self.target() {
            FilterTarget::Units(bits) => UnitsOfTable::expected(&self.meta, bits).map_or(
                (self.meta.filter_kind, self.meta.filter_bits),
                |units| {
                    let bits = self.meta.filter_bits / u64::from(units.stored) * u64::from(units.in_memory);
                    (if bits == 0 { 0 } else { self.meta.filter_kind }, bits)
                },
            ),
            FilterTarget::Stored => (self.meta.filter_kind, self.meta.filter_bits),
            FilterTarget::Nothing => (0, 0),
            FilterTarget::Of(design) if self.has_digests() => {
                (kind_to_number(design.kind), bits_of(design, self.meta.entries))
            }
            FilterTarget::Of(design) if self.meta.filter_bits <= bits_of(design, self.meta.entries) => {
                (self.meta.filter_kind, self.meta.filter_bits)
            }
            FilterTarget::Of(_) => (0, 0),
        }
    }

    /// Returns true if a filter of any size can be built: the table has digests, and they are not
    /// known to be damaged.
    pub fn has_digests(&self) -> bool {
        self.meta.digest_bytes > 0 && self.opened.get().is_none_or(|table| table.digest_damage().is_none())
    }

    /// As [`Table::digests_between`], of the table, which is opened for that.
    ///
    /// # Errors
    /// As that, and errors of opening the table.
    pub fn digests_between(&self, first: Digest, last: Digest) -> Result<Option<Vec<Digest>>> {
        self.open()?.digests_between(first, last)
    }

    /// Returns the damage of its digests, if any was found.
    pub fn digest_damage(&self) -> Option<Error> {
        self.opened.get().and_then(|table| table.digest_damage()).cloned()
    }

    /// Marks the table obsolete: the current version does not reference it any more, and that edit
    /// is durable.
    pub(super) fn mark_obsolete(&self) {
        if !self.obsolete.swap(true, Ordering::AcqRel) {
            self.files.pending_bytes.fetch_add(self.meta.file_bytes, Ordering::Relaxed);
        }
    }
}

fn kind_of(number: u8) -> Option<FilterKind> {
    FilterKind::ALL.into_iter().find(|kind| kind_to_number(*kind) == number)
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.files.garbage.lock().push(self.meta.clone());
            if let Some(collector) = self.files.collector.get() {
                collector.wake();
            }
        }
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFile").field("meta", &self.meta).field("obsolete", &self.obsolete).finish_non_exhaustive()
    }
}
