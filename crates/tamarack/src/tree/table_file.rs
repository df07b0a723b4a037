//! [`TableFile`]: the handle by which versions share one table, and the list of those that nothing shares any more.
//!
//! A handle knows what the manifest says about the table, and opens it when it is first needed.
//! Every slice of every version holds one, and so does whoever reads the table. When a durable edit
//! has taken the last slice of the current version away, the handle is marked obsolete; when the
//! last holder (an older version, an iterator, a checkpoint) lets go of it, the table's id goes to
//! the garbage list of [`TableFiles`], from which background work removes the file. A handle
//! that is not obsolete leaves its file alone: closing a database deletes nothing.
//!
//! Tests: here, and through versions in `tree/tests`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tamarack_env::Worker;
use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_model::filter_plan::{StoredFilter, TableFilters};

use crate::error::{Error, Result};
use crate::format::meta::{TableId, TableMeta};
use crate::memory::{Charge, MemoryPart};
use crate::stats::{RunLookups, sampled_lately};
use crate::table::{
    FilterKind, FilterOutcome, FilterTarget, Table, TableStorage, UnitsOfTable, bits_of, kind_to_number,
};

/// Where the tables of a database are opened, and where the ids of dead ones collect.
pub struct TableFiles {
    storage: Arc<TableStorage>,
    dir: PathBuf,
    /// What elastic filters of tables take in memory, in bits, until something else is decided: an
    /// `f64`, as bits.
    elastic_bits_per_entry: AtomicU64,
    garbage: Mutex<Vec<Arc<TableMeta>>>,
    /// Bytes of the files that the current version does not name any more and that still exist.
    pending_bytes: AtomicU64,
    /// Whom to wake when there is garbage.
    collector: OnceLock<Arc<dyn Worker>>,
}

impl fmt::Debug for TableFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFiles").field("dir", &self.dir).field("garbage", &self.garbage).finish_non_exhaustive()
    }
}

impl TableFiles {
    /// The tables in `dir`, which are read by `storage`.
    pub fn new(storage: Arc<TableStorage>, dir: &Path) -> Arc<Self> {
        Self::with_filters(storage, dir, 0.0)
    }

    /// As [`TableFiles::new`]; of elastic filters, so many bits for each entry are in memory until
    /// something else is decided.
    pub fn with_filters(storage: Arc<TableStorage>, dir: &Path, elastic_bits_per_entry: f64) -> Arc<Self> {
        let (garbage, collector, pending_bytes) = (Mutex::default(), OnceLock::new(), AtomicU64::new(0));
        let elastic_bits_per_entry = AtomicU64::new(elastic_bits_per_entry.to_bits());
        Arc::new(Self { storage, dir: dir.to_owned(), elastic_bits_per_entry, garbage, pending_bytes, collector })
    }

    /// Of elastic filters of tables that are opened from now on, so many bits for each entry are in
    /// memory until something else is decided.
    pub fn set_elastic_bits_per_entry(&self, bits: f64) {
        self.elastic_bits_per_entry.store(bits.to_bits(), Ordering::Relaxed);
    }

    /// Registers the worker that removes files; may be called once.
    pub fn set_collector(&self, worker: Arc<dyn Worker>) {
        assert!(self.collector.set(worker).is_ok(), "there is one collector of tables");
    }

    /// What the tables are read by.
    pub fn storage(&self) -> &TableStorage {
        &self.storage
    }

    /// Opens a table that no version names yet.
    pub fn open_unnamed(&self, database: u64, meta: &TableMeta) -> Result<Arc<Table>> {
        Table::open_with(&self.storage, &self.dir, database, meta, FilterTarget::Units(0))
    }

    /// Takes the tables that no slice of the current version names and nobody reads any more. Their
    /// files may be removed; whoever does that calls [`TableFiles::removed`].
    pub fn take_garbage(&self) -> Vec<Arc<TableMeta>> {
        std::mem::take(&mut *self.garbage.lock())
    }

    /// The file of a table that was garbage is gone.
    pub fn removed(&self, table: &TableMeta) {
        self.pending_bytes.fetch_sub(table.file_bytes, Ordering::Relaxed);
    }

    /// Bytes of the files that the current version does not name any more but that still exist:
    /// somebody reads them, or nobody has got to removing them.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }

    /// Memory that the filters of all open tables take, in bytes; those that only an old version or
    /// an iterator still holds among them.
    pub fn filter_bytes(&self) -> u64 {
        self.storage.account().bytes(MemoryPart::Filters)
    }
}

/// What the runs of a version take for each table, in bytes; about.
const SLICE_BYTES: usize = 100;

/// A table that versions share.
pub struct TableFile {
    database: u64,
    meta: Arc<TableMeta>,
    files: Arc<TableFiles>,
    opened: OnceLock<Arc<Table>>,
    /// Which filter it is to have. Held while it is opened, so that nobody opens it with another.
    target: Mutex<FilterTarget>,
    obsolete: AtomicBool,
    /// How many lookups of the database were sampled before it was there.
    sampled_before: u64,
    _charge: Charge,
}

impl TableFile {
    pub(super) fn new(database: u64, meta: Arc<TableMeta>, files: Arc<TableFiles>) -> Arc<Self> {
        let charge =
            files.storage.account().charge(MemoryPart::Tables, size_of::<Self>() + meta.memory_bytes() + SLICE_BYTES);
        let per_entry = f64::from_bits(files.elastic_bits_per_entry.load(Ordering::Relaxed));
        let bits = (per_entry * meta.entries as f64) as u64;
        let (opened, target, obsolete) =
            (OnceLock::new(), Mutex::new(FilterTarget::Units(bits)), AtomicBool::new(false));
        let sampled_before = files.storage.lookups().sampled();
        Arc::new(Self { database, meta, files, opened, target, obsolete, sampled_before, _charge: charge })
    }

    /// The table's number.
    pub fn id(&self) -> TableId {
        self.meta.id
    }

    /// What the manifest knows of the table.
    pub fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// What it is read by.
    pub fn storage(&self) -> &TableStorage {
        &self.files.storage
    }

    /// What became of lookups here. A table that nobody has opened yet has seen none.
    pub fn lookups(&self) -> RunLookups {
        let since = self.files.storage.lookups().sampled().saturating_sub(self.sampled_before);
        self.opened.get().map_or_else(RunLookups::default, |table| table.samples().get(since))
    }

    /// The share of lookups that came here lately, the share that came in vain, and of how many
    /// lookups that is: since the table has been there, of the last two periods.
    pub fn seen_lately(&self) -> (f64, f64, u64) {
        let sampled = self.files.storage.lookups().sampled();
        let lookups = sampled_lately(sampled, self.sampled_before);
        let counted = self.opened.get().map_or([0; 2], |table| table.samples().lately(sampled));
        let [came, in_vain] =
            counted.map(|count| if lookups == 0 { 0.0 } else { count.min(lookups) as f64 / lookups as f64 });
        (came, in_vain, lookups)
    }

    /// The open table; opens the table if nobody has yet. A failure is not remembered.
    #[inline]
    pub fn open(&self) -> Result<&Arc<Table>> {
        match self.opened.get() {
            Some(table) => Ok(table),
            None => self.open_now(),
        }
    }

    #[cold]
    fn open_now(&self) -> Result<&Arc<Table>> {
        let (files, target) = (&self.files, self.target.lock());
        // Another thread may have been faster.
        if let Some(table) = self.opened.get() {
            return Ok(table);
        }
        let opened = Table::open_with(&files.storage, &files.dir, self.database, &self.meta, *target)?;
        // Nothing that the explorer of schedules can interrupt happens inside of the cell: it would block
        // all.
        let _ = self.opened.set(opened);
        Ok(self.opened.get().expect("it was just set"))
    }

    /// Which filter it is to have.
    pub fn target(&self) -> FilterTarget {
        *self.target.lock()
    }

    /// Says which filter it is to have, and sees to it: if it is open it gets that now, else when
    /// it is opened. Also tells how many bytes were read.
    ///
    /// # Errors
    /// As [`Table::set_filter`]; the target is noted all the same, and the call can be repeated.
    pub fn set_filter(&self, target: FilterTarget) -> Result<(FilterOutcome, u64)> {
        // From here on it is opened with that, if it is opened.
        *self.target.lock() = target;
        self.follow_target()
    }

    /// True if giving it this filter takes memory away and reads nothing.
    pub fn shrinks_without_reading(&self, target: FilterTarget) -> bool {
        match target {
            FilterTarget::Nothing => true,
            FilterTarget::Units(bits) => {
                self.units().is_some_and(|units| bits < units.unit_bits * u64::from(units.in_memory))
            }
            FilterTarget::Stored | FilterTarget::Of(_) => false,
        }
    }

    /// How much of its stored filter is in memory, or will be when it is opened, if that is
    /// elastic.
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

    /// The filter that it has and those that it could have, for the decider. So many of its entries
    /// are `live`.
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

    /// Gives the table, if it is open, the filter that it is to have.
    fn follow_target(&self) -> Result<(FilterOutcome, u64)> {
        let Some(table) = self.opened.get() else { return Ok((FilterOutcome::Unchanged, 0)) };
        loop {
            let target = self.target();
            let done = table.set_filter(target)?;
            // Somebody else may have told it to have another meanwhile.
            if self.target() == target {
                return Ok(done);
            }
        }
    }

    /// The kind, as a number, and the bits of the filter that it has, or will have once it is
    /// opened; zeros for none.
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
            FilterTarget::Of(wanted) if self.has_digests() => {
                (kind_to_number(wanted.kind), bits_of(wanted, self.meta.entries))
            }
            FilterTarget::Of(wanted) if self.meta.filter_bits <= bits_of(wanted, self.meta.entries) => {
                (self.meta.filter_kind, self.meta.filter_bits)
            }
            FilterTarget::Of(_) => (0, 0),
        }
    }

    /// Whether a filter of any size can be made for it: it keeps digests, and they are not known to
    /// be damaged.
    pub fn has_digests(&self) -> bool {
        self.meta.digest_bytes > 0 && self.opened.get().is_none_or(|table| table.digest_damage().is_none())
    }

    /// Why its digests cannot be used, if that was found out.
    pub fn digest_damage(&self) -> Option<Error> {
        self.opened.get().and_then(|table| table.digest_damage())
    }

    /// The current version names the table no more, and the edit that says so is durable.
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
