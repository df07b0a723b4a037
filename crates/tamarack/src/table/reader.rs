//! [`Table`]: an open SSTable, and point lookups in it.
//!
//! Opening reads the end of the file (usually in one read): the footer, checked against the
//! manifest's record, the top index and the filter. These stay in memory, the filter until it is
//! replaced ([`Table::set_filter`]). Everything else is read on demand, one block per read.

use std::cmp::Ordering;
use std::io;
use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, ByteBuffer, Env, ReadRequest};
use tamarack_filter::{DigestSet, Filter, FilterKind, UNIT_BYTES, kind_to_number};
use tamarack_model::device::RANDOM_READ_BYTES;
use tamarack_model::filter::{LINE_BITS, best_probes, fpr_of, units};
use tamarack_model::filter_plan::FilterTarget;

use super::digests::{self, TableDigests};
use super::filter::{self, FilterOutcome};
use super::filter_slots::PinnedFilters;
use super::index::{DataBlockPosition, Index, Lower};
use super::open_files::PooledFile;
use super::storage::TableStorage;
use super::written::WrittenTable;
use crate::cache::{CachedBlock, Holder, LowerBlock};
use crate::entry::{Entry, Query, Sequence};
use crate::error::{Error, Result};
use crate::format::SharedBlock;
use crate::format::block::{Block, Versions};
use crate::format::checksum::Place;
use crate::format::fences::{FIRST_PLACE, Fences};
use crate::format::meta::{TableId, TableMeta};
use crate::format::names::FileName;
use crate::format::stored::{BlockHandle, Flaw, StoredBytes, open_block, open_block_into};
use crate::format::table::{FOOTER_BYTES, Footer, Properties, Units, place};
use crate::measure;
use crate::memory::{Charge, MemoryPart};
use crate::mistake::{self, Mistake};
use crate::stats::{LookupTally, ReadCounters, Reader, TableSamples};

/// The size of the first read at the end of a file, besides the filter: enough for footer, top
/// index and properties of most tables.
const TAIL_BYTES: u64 = 8 << 10;

/// The approximate memory of an open file in the environment, with the path for errors, in bytes.
const FILE_BYTES: usize = 300;

/// An open table. Shared by all readers.
#[derive(Debug)]
pub struct Table {
    pub(super) file: BlockFile,
    pub(super) footer: Footer,
    pub(super) meta: TableMeta,
    pub(super) index: Index,
    pub(super) storage: Arc<TableStorage>,
    /// The slot of its filter.
    slot: usize,
    /// The handles of the units of its stored filter, if that is elastic.
    units: Option<Units>,
    /// The origin of the filter in use. Locked while the filter is replaced, which may read the
    /// file; nobody else takes it.
    origin: Mutex<filter::FilterOrigin>,
    pub(super) digests: TableDigests,
    samples: TableSamples,
    _charge: Charge,
}

/// The units of an elastic filter that are in memory, and in the file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct UnitsOfTable {
    /// Units in the file.
    pub stored: u32,
    /// The number of units in memory, counted from the first.
    pub in_memory: u32,
    /// The memory of each unit, in bits.
    pub unit_bits: u64,
}

impl UnitsOfTable {
    /// Predicts the units of a table before it is opened, with `filter_bits` of memory for its
    /// filter; `None` if its filter is not elastic.
    pub fn expected(meta: &TableMeta, filter_bits: u64) -> Option<Self> {
        if meta.filter_kind != kind_to_number(FilterKind::Elastic) {
            return None;
        }
        let stored = units(meta.filter_bits as f64 / meta.entries.max(1) as f64);
        let unit_bits = meta.filter_bits / u64::from(stored) + UNIT_BITS;
        Some(Self { stored, in_memory: (filter_bits / unit_bits).min(u64::from(stored)) as u32, unit_bits })
    }

    /// The false positive rate of one unit.
    pub fn unit_fpr(&self, meta: &TableMeta) -> f64 {
        let lines = meta.filter_bits / u64::from(self.stored) / LINE_BITS;
        let bits_per_entry = (lines * LINE_BITS) as f64 / meta.entries.max(1) as f64;
        fpr_of(FilterKind::Blocked, meta.entries, lines, best_probes(FilterKind::Blocked, bits_per_entry))
    }

    /// The false positive rate of the units in memory.
    pub fn fpr(&self, meta: &TableMeta) -> f64 {
        self.unit_fpr(meta).powi(self.in_memory as i32)
    }
}

impl Table {
    /// Opens the table that `meta` describes, in `dir`. [`Error::Corruption`] if the file is not
    /// that table; [`Error::Unsupported`] if a newer version wrote it.
    pub fn open(storage: &Arc<TableStorage>, dir: &Path, database: u64, meta: &TableMeta) -> Result<Arc<Self>> {
        Self::open_with(storage, dir, database, meta, FilterTarget::Stored, None)
    }

    /// As [`Table::open`], with a filter that may differ from the stored one. If it cannot be
    /// built, the table has a stored one that is not larger, or none; [`Table::digest_damage`] may
    /// tell the reason. What there is of `written` is not read.
    pub fn open_with(
        storage: &Arc<TableStorage>,
        dir: &Path,
        database: u64,
        meta: &TableMeta,
        target: FilterTarget,
        written: Option<WrittenTable>,
    ) -> Result<Arc<Self>> {
        let path = FileName::Table(meta.id.0).path(dir);
        let opened = storage.open(&path);
        let file = BlockFile::new(opened, path, database, meta.id, storage.counters().clone())?;
        if file.bytes != meta.file_bytes {
            let what = format!("the file has {} bytes, but the manifest recorded {}", file.bytes, meta.file_bytes);
            return Err(file.corruption(file.bytes.min(meta.file_bytes), what));
        }
        let (tail, lower) = match written {
            Some(written) => written.into_parts(),
            None => (file.read_end(target, meta)?, Vec::new()),
        };
        let (footer, root_checksum) = file.footer(&tail)?;
        if root_checksum != meta.root_checksum {
            return Err(
                file.corruption(file.footer_offset(), "the footer is whole, but not the one the manifest recorded")
            );
        }
        let top = file.block_near_end(&footer.top_index, &tail)?;
        let fences = Block::decode(top).and_then(|block| Fences::decode(&block, FIRST_PLACE));
        let fences = fences.map_err(|flaw| file.flaw(flaw, footer.top_index.offset))?;
        let units = file.units(&footer, meta, &tail)?;
        let digests = TableDigests::default();
        let (filter, origin) = first_filter(&file, &footer, meta, &tail, target, (storage, &digests.damage))?;
        let cached = storage.cache().lower_slots(meta.id, fences.len());
        let (index, account) = (Index::new(fences, cached), storage.account());
        let of_digests = footer.digests.as_ref().map_or(0, |_| digests::list_bytes(meta.entries));
        let of_indexes = index.top_bytes() + size_of::<Self>() + FILE_BYTES + meta.memory_bytes() + of_digests;
        let charge = account.charge(MemoryPart::Indexes, of_indexes);
        let slot = storage.filter_slots.add(meta.id, filter, account);
        storage.cache().table_opened(meta.raw_bytes);
        let (meta, storage) = (meta.clone(), storage.clone());
        let (samples, origin) = (TableSamples::default(), Mutex::new(Rank::TableFilter, origin));
        let table = Self { file, footer, meta, index, storage, slot, units, origin, digests, samples, _charge: charge };
        table.keep_written(&lower);
        Ok(Arc::new(table))
    }

    /// The units of its stored filter in memory, if that is elastic.
    pub fn units(&self) -> Option<UnitsOfTable> {
        let units = self.units.as_ref()?;
        let filters = self.pin_filters();
        let in_use = self.filter_of(&filters).filter(|filter| filter.kind() == FilterKind::Elastic);
        let in_memory = in_use.map_or(0, Filter::units);
        let unit_bits = unit_bits(&self.meta, units);
        Some(UnitsOfTable { stored: units.0.len() as u32, in_memory: in_memory as u32, unit_bits })
    }

    /// Replaces the filter for later lookups; lookups in progress keep the old one, whose memory is
    /// freed when they end. Also returns the number of bytes read from the file.
    ///
    /// # Errors
    /// If storage fails, or the stored filter is damaged; the table keeps its filter. Damage of the
    /// digests is no error here: see [`Table::digest_damage`].
    pub fn set_filter(&self, target: FilterTarget) -> Result<(FilterOutcome, u64)> {
        let mut in_use = self.origin.lock();
        let mut bytes_read = 0;
        loop {
            let origin = filter::FilterOrigin::of(target, &self.meta, self.digest_damage().is_none());
            if *in_use == origin {
                return Ok((FilterOutcome::Unchanged, bytes_read));
            }
            if let filter::FilterOrigin::Units(bits) = origin {
                return self.set_units(bits, &mut in_use);
            }
            bytes_read += match origin {
                filter::FilterOrigin::Nowhere | filter::FilterOrigin::Units(_) => 0,
                filter::FilterOrigin::Stored => self.footer.filter.map_or(0, |handle| handle.bytes as u64),
                filter::FilterOrigin::Digests(_) => self.meta.digest_bytes,
            };
            let filter = match make(&self.file, &self.footer, &self.meta, &[], origin, &self.storage) {
                Err(damage @ Error::Corruption { .. }) if matches!(origin, filter::FilterOrigin::Digests(_)) => {
                    // The digests are not read again.
                    let _ = self.digests.damage.set(damage);
                    // The filter in use is as good as the alternative, unless it is too large.
                    let bits_in_use = self.filter_of(&self.pin_filters()).map_or(0, Filter::bits);
                    let FilterTarget::Of(wanted) = target else { unreachable!("only this takes digests") };
                    if bits_in_use <= filter::bits_of(wanted, self.meta.entries) {
                        return Ok((FilterOutcome::Unchanged, bytes_read));
                    }
                    continue;
                }
                made => made?,
            };
            self.storage.filter_slots.replace(self.slot, self.meta.id, filter, self.storage.account());
            *in_use = origin;
            let what = match origin {
                filter::FilterOrigin::Nowhere => FilterOutcome::Dropped,
                filter::FilterOrigin::Stored | filter::FilterOrigin::Units(_) => FilterOutcome::Loaded,
                filter::FilterOrigin::Digests(_) => FilterOutcome::Rebuilt,
            };
            return Ok((what, bytes_read));
        }
    }

    /// Loads as many units of the stored filter as fit `bits`: units in memory stay, each other one
    /// is a read.
    fn set_units(&self, bits: u64, origin: &mut filter::FilterOrigin) -> Result<(FilterOutcome, u64)> {
        let Some(units) = &self.units else { unreachable!("{:?} is elastic, but has no units", self.meta.id) };
        let wanted = units_within(bits, &self.meta, units);
        // A filter rebuilt from digests cannot be extended with stored units.
        let is_stored = matches!(origin, filter::FilterOrigin::Units(_) | filter::FilterOrigin::Stored);
        let in_use = self.filter_of(&self.pin_filters()).filter(|_| is_stored).cloned();
        let have = in_use.as_ref().map_or(0, Filter::units);
        let bytes_read = units.0[have.min(wanted)..wanted].iter().map(|unit| unit.bytes as u64).sum();
        let what = match wanted.cmp(&have) {
            Ordering::Less => FilterOutcome::Dropped,
            Ordering::Equal if is_stored => FilterOutcome::Unchanged,
            Ordering::Equal | Ordering::Greater => FilterOutcome::Loaded,
        };
        if what != FilterOutcome::Unchanged {
            let filter = match in_use {
                Some(filter) if wanted < have => filter.with_units(wanted),
                in_use => self.file.read_units(units, in_use.as_ref(), wanted, &self.meta, &[])?,
            };
            self.storage.filter_slots.replace(self.slot, self.meta.id, filter, self.storage.account());
        }
        *origin = filter::FilterOrigin::Units(bits);
        Ok((what, bytes_read))
    }

    /// The kind, as a number, and the bits of the filter in use; zeros if there is none.
    pub fn filter_in_use(&self) -> (u8, u64) {
        let of = |filter: &Filter| (kind_to_number(filter.kind()), filter.bits());
        self.filter_of(&self.pin_filters()).map_or((0, 0), of)
    }

    /// Pins the current filters of all open tables.
    pub(crate) fn pin_filters(&self) -> PinnedFilters {
        self.storage.pin_filters()
    }

    /// Its filter in `pinned`, if it has one; `None` if it was opened after the pin.
    #[inline]
    pub(super) fn filter_in<'f>(&self, pinned: &'f PinnedFilters) -> Option<Option<&'f Filter>> {
        pinned.of(self.slot, self.meta.id)
    }

    /// Its filter in `pinned`, which was pinned after it was opened.
    #[cold]
    #[inline(never)]
    pub(crate) fn filter_of<'f>(&self, pinned: &'f PinnedFilters) -> Option<&'f Filter> {
        let filter = self.filter_in(pinned);
        filter.unwrap_or_else(|| panic!("{:?} is open, but slot {} is not its own", self.meta.id, self.slot))
    }

    /// Reads a table's own metadata, for a database that has lost its manifest. `path` must have
    /// the name of a table.
    pub fn read_meta(env: &dyn Env, path: &Path, database: u64) -> Result<TableMeta> {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        let Some(FileName::Table(id)) = name else {
            return Err(Error::InvalidArgument(format!("{}: not the name of a table", path.display())));
        };
        let opened = env.open(path, Access::Read).map(PooledFile::alone);
        let file = BlockFile::new(opened, path.to_owned(), database, TableId(id), Arc::default())?;
        let tail = file.read_tail(0)?;
        let (footer, root_checksum) = file.footer(&tail)?;
        let properties = file.properties(&footer, &tail)?;
        Ok(properties.into_meta(&footer, root_checksum, file.bytes))
    }

    /// Its number.
    pub fn id(&self) -> TableId {
        self.meta.id
    }

    /// Its record in the manifest.
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The number of its file's whole pages of [`RANDOM_READ_BYTES`].
    pub fn pages(&self) -> u64 {
        self.meta.file_bytes / RANDOM_READ_BYTES as u64
    }

    /// The read of as many bytes as a page has, from the middle of this one on, counted from 0, or
    /// of all of the last one; whatever is there: to time the device. Blocks are not aligned
    /// either.
    ///
    /// # Errors
    /// If the table's file was closed and cannot be opened again.
    pub fn page_request(&self, page: u64) -> Result<ReadRequest> {
        let bytes = RANDOM_READ_BYTES as u64;
        let begin = if page + 1 < self.pages() { bytes / 2 } else { 0 };
        self.file.request(page * bytes + begin, RANDOM_READ_BYTES)
    }

    /// Reads the pages from `first` on that `buffer`, of whole pages, has room for.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_pages(&self, first: u64, buffer: &mut [u8]) -> Result<()> {
        self.file.read_into(buffer, first * RANDOM_READ_BYTES as u64, Reader::Upkeep)
    }

    /// The memory of the open table, in bytes: mostly its filter and its top index. Lower index
    /// blocks and data blocks are accounted for elsewhere.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.index.top_bytes() + self.filter_bytes()
    }

    /// The memory of its filter, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.filter_of(&self.pin_filters()).map_or(0, Filter::memory_bytes)
    }

    /// Calls `visit` with the versions of the key up to the query's sequence, youngest first, until
    /// it breaks. The visitor also gets the owner of the entry's memory, so that a value can be
    /// kept without a copy. Costs are counted in `tally`. `is_filtered` says that the table's
    /// filter was probed, and was positive.
    ///
    /// Returns the visitor's last result; `Continue` if there were no versions.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Corruption`] of the blocks that are read.
    #[inline(never)]
    pub fn search(
        &self,
        query: Query<'_>,
        is_filtered: bool,
        tally: &LookupTally,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let flow = self.search_with(query, is_filtered, &mut ReadThrough { tally }, visit)?;
        Ok(flow.expect("what the cache lacks is read"))
    }

    /// Records a sampled lookup of this table, the last of `sampled`: whether it found its key, and
    /// for its filter, if any, whether that was negative, and the cache lines that the probe took.
    pub fn note_sample(&self, query: Query<'_>, sampled: u64, found: bool, filter: Option<(bool, u32)>) {
        let (is_negative, lines) = filter.unwrap_or((false, 0));
        let is_false_positive = filter.is_some() && !is_negative && !found && self.sees_all(query);
        self.samples.note(sampled, found, is_negative, is_false_positive, lines);
    }

    /// The samples of lookups in this table.
    pub fn samples(&self) -> &TableSamples {
        &self.samples
    }

    /// As [`Table::search`], with blocks from `fetch`; `None` if a block is missing.
    pub(super) fn search_with<'t>(
        &'t self,
        query: Query<'_>,
        is_filtered: bool,
        fetch: &mut impl Fetch<'t>,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ControlFlow<()>>> {
        if !is_filtered {
            return self.search_blocks(query, fetch, visit);
        }
        let mut found = false;
        let flow = self.search_blocks(query, fetch, &mut |entry, holder| {
            found = true;
            visit(entry, holder)
        })?;
        if flow.is_some() {
            fetch.tally().filter_positive();
            if !found && self.sees_all(query) {
                fetch.tally().filter_false_positive();
                self.samples.note_false_positive();
            }
        }
        Ok(flow)
    }

    /// Returns false for a query that is older than some entry of the table: the filter may then be
    /// positive because of versions that the query must not see.
    fn sees_all(&self, query: Query<'_>) -> bool {
        query.sequence() >= self.meta.largest_sequence
    }

    fn base_for_lookups(&self) -> Sequence {
        let is_forgotten = mistake::is_planted(Mistake::SequenceBaseForgotten);
        if is_forgotten { Sequence::ZERO } else { self.meta.sequence_base }
    }

    /// The sequence of a query as the entries of the file have it.
    pub(super) fn sequence_in_file(&self, query: Query<'_>) -> Sequence {
        query.sequence().without_base(self.base_for_lookups())
    }

    /// As [`Table::search_with`], but does not count the filter.
    fn search_blocks<'t>(
        &'t self,
        query: Query<'_>,
        fetch: &mut impl Fetch<'t>,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<Option<ControlFlow<()>>> {
        let base = self.base_for_lookups();
        let mut sequence = query.sequence().without_base(base);
        let mut visited = false;
        loop {
            let finding = measure::begin(measure::LookupPart::Index);
            let (lower, DataBlockPosition { at, next }) = match fetch.approached(self) {
                Some(there) => there,
                None => {
                    let top = self.index.top().floor(query.key(), sequence);
                    let Some(lower) = fetch.lower(self, top)? else { return Ok(None) };
                    let position = self.index.find(top, &lower, query.key(), sequence);
                    (lower, position)
                }
            };
            finding.end();
            let searching = measure::begin(measure::LookupPart::Block);
            let Some(block) = fetch.data_block(self, &lower, at)? else { return Ok(None) };
            let mut first = None;
            let ended = block
                .versions(query.key(), sequence, &mut |mut entry| {
                    entry.sequence = entry.sequence.with_base(base);
                    if !std::mem::replace(&mut visited, true) {
                        first = Some(entry);
                    }
                    visit(entry, Holder::Block(&block))
                })
                .map_err(|flaw| self.file.flaw(flaw, lower.handle(at).offset))?;
            searching.end();
            // The next block begins with another version of the key: its fence is exactly that
            // version's place.
            let next = next.filter(|&next| ended == Versions::BlockEnded && next < sequence);
            if let FoundBlock::Read(block) = &block {
                self.storage.cache().admit((&lower, at), block, &query, first);
            }
            match (ended, next) {
                (Versions::Stopped, _) => return Ok(Some(ControlFlow::Break(()))),
                (_, Some(next)) => sequence = next,
                _ => return Ok(Some(ControlFlow::Continue(()))),
            }
        }
    }

    /// The offset where the data blocks end and the index blocks begin.
    pub(super) fn data_end(&self) -> u64 {
        self.index.top().handle(0).offset
    }

    /// Reads a data block for a lookup, which may have large blocks already (`has_large`). Large
    /// ones take turns, so that those in progress are bounded, and wait a while where memory is
    /// short.
    pub(super) fn read_for_lookup(&self, handle: &BlockHandle, reader: Reader, has_large: bool) -> Result<SharedBlock> {
        let _charge = self.storage.charge_large_read(MemoryPart::Blocks, handle.bytes, has_large);
        let _turn = self.storage.large_reads().admit(handle.bytes as u64);
        Ok(self.storage.share(self.file.read_block(handle, reader)?))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.storage.filter_slots.remove(self.slot);
        self.index.give_back(self.storage.index_budget());
        self.storage.cache().table_closed(self.meta.raw_bytes);
    }
}

/// Makes the filter that a table is opened with; sets `digest_damage` if the digests are damaged.
fn first_filter(
    file: &BlockFile,
    footer: &Footer,
    meta: &TableMeta,
    tail: &[u8],
    target: FilterTarget,
    (storage, digest_damage): (&TableStorage, &OnceLock<Error>),
) -> Result<(Option<Filter>, filter::FilterOrigin)> {
    let origin = filter::FilterOrigin::of(target, meta, true);
    match make(file, footer, meta, tail, origin, storage) {
        Ok(filter) => Ok((filter, origin)),
        Err(damage @ Error::Corruption { .. }) if matches!(origin, filter::FilterOrigin::Digests(_)) => {
            tracing::warn!(error = %damage, "table digests damaged, filter differs from the wanted one");
            let origin = filter::FilterOrigin::of(target, meta, false);
            let filter = make(file, footer, meta, tail, origin, storage)?;
            let _ = digest_damage.set(damage);
            Ok((filter, origin))
        }
        Err(error) => Err(error),
    }
}

/// Makes the filter of a table from its origin; `tail` may contain what is stored.
fn make(
    file: &BlockFile,
    footer: &Footer,
    meta: &TableMeta,
    tail: &[u8],
    origin: filter::FilterOrigin,
    storage: &TableStorage,
) -> Result<Option<Filter>> {
    match origin {
        filter::FilterOrigin::Nowhere => Ok(None),
        filter::FilterOrigin::Stored => file.filter(footer, meta, tail),
        filter::FilterOrigin::Units(bits) => {
            let units = file.units(footer, meta, tail)?.unwrap_or_default();
            file.read_units(&units, None, units_within(bits, meta, &units), meta, tail)
        }
        filter::FilterOrigin::Digests(wanted) => {
            // The block, and eight bytes for each digest.
            let bytes = meta.digest_bytes.saturating_add(meta.entries.saturating_mul(8));
            let _charge = storage.account().charge(MemoryPart::Compactions, bytes as usize);
            let digests = file.digests(footer)?;
            let digests = digests.ok_or_else(|| {
                file.corruption(file.footer_offset(), "the table has no digests, but was recorded with them")
            })?;
            Ok(filter::rebuild(wanted, meta.entries, &digests))
        }
    }
}

/// The memory of a unit beside its own bits.
const UNIT_BITS: u64 = 8 * UNIT_BYTES as u64;

/// The memory of a unit of the table's filter, in bits.
fn unit_bits(meta: &TableMeta, units: &Units) -> u64 {
    meta.filter_bits / units.0.len() as u64 + UNIT_BITS
}

/// The number of units that fit `bits` of memory.
fn units_within(bits: u64, meta: &TableMeta, units: &Units) -> usize {
    if units.0.is_empty() { 0 } else { (bits / unit_bits(meta, units)).min(units.0.len() as u64) as usize }
}

/// A data block for a lookup.
#[derive(Debug)]
pub(super) enum FoundBlock {
    /// It is in the cache.
    Cached(CachedBlock),
    /// It was read, and not offered to the cache yet.
    Read(SharedBlock),
}

impl Deref for FoundBlock {
    type Target = SharedBlock;

    #[inline]
    fn deref(&self) -> &SharedBlock {
        match self {
            Self::Cached(block) => block,
            Self::Read(block) => block,
        }
    }
}

/// Provides blocks to a lookup. `None` means that the block is not in memory, so that the lookup
/// cannot continue.
pub(super) trait Fetch<'t> {
    /// The lower index block of `table` for its fence `top`.
    fn lower(&mut self, table: &'t Table, top: usize) -> Result<Option<Lower<'t>>>;

    /// Where the lookup begins in the index of `table`, if an [`Approach`](super::Approach) has got
    /// there. `None` from the second call on.
    #[inline(always)]
    fn approached(&mut self, _table: &'t Table) -> Option<(Lower<'t>, DataBlockPosition)> {
        None
    }

    /// The data block of the fence `at` of `lower`, which is of `table`.
    fn data_block(&mut self, table: &Table, lower: &LowerBlock, at: usize) -> Result<Option<FoundBlock>>;

    /// The counts of the lookup.
    fn tally(&self) -> &LookupTally;
}

/// Reads missing blocks at once.
struct ReadThrough<'a> {
    tally: &'a LookupTally,
}

impl<'t> Fetch<'t> for ReadThrough<'_> {
    #[inline]
    fn lower(&mut self, table: &'t Table, top: usize) -> Result<Option<Lower<'t>>> {
        table.lower_or_read(top, Reader::Get).map(Some)
    }

    #[inline]
    fn data_block(&mut self, table: &Table, lower: &LowerBlock, at: usize) -> Result<Option<FoundBlock>> {
        if let Some(block) = lower.cached(at) {
            self.tally.data_block_cached();
            return Ok(Some(FoundBlock::Cached(block)));
        }
        self.tally.data_block_read();
        Ok(Some(FoundBlock::Read(table.read_for_lookup(&lower.handle(at), Reader::Get, false)?)))
    }

    #[inline]
    fn tally(&self) -> &LookupTally {
        self.tally
    }
}

/// The file of a table: checked reads, and errors with file and offset.
#[derive(Debug)]
pub(super) struct BlockFile {
    file: PooledFile,
    /// With which offsets and lengths direct reads need no copy, in bytes.
    alignment: u64,
    path: PathBuf,
    database: u64,
    id: TableId,
    place: Place,
    counters: Arc<ReadCounters>,
    /// Its length.
    pub(super) bytes: u64,
}

impl BlockFile {
    fn new(
        opened: io::Result<PooledFile>,
        path: PathBuf,
        database: u64,
        id: TableId,
        counters: Arc<ReadCounters>,
    ) -> Result<Self> {
        let doing = "table: open";
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::corruption(&path, 0, "the table is missing"));
            }
            Err(error) => return Err(Error::io(doing, &path, error)),
        };
        let facts = file.with(&path, |file| Ok((file.len()?, file.direct_alignment().unwrap_or(1) as u64)));
        let (bytes, alignment) = facts.and_then(|facts| facts).map_err(|error| Error::io(doing, &path, error))?;
        Ok(Self { file, alignment, path, database, id, place: place(database, id), counters, bytes })
    }

    /// Reads a block and checks it.
    pub(super) fn read_block(&self, handle: &BlockHandle, reader: Reader) -> Result<Block> {
        self.check_inside(handle)?;
        let stored = self.read(handle.offset, handle.bytes, reader)?;
        self.counters.of(reader).blocks.add(1);
        let block = open_block(StoredBytes::Owned(stored), self.place, handle).and_then(Block::decode);
        block.map_err(|flaw| self.flaw(flaw, handle.offset))
    }

    /// Checks and decodes the bytes of a block into `space`.
    pub(super) fn decode_block(
        &self,
        stored: &[u8],
        handle: &BlockHandle,
        space: ByteBuffer,
        reader: Reader,
    ) -> Result<Block> {
        self.counters.of(reader).blocks.add(1);
        self.decode_into(stored, handle, space)
    }

    /// As [`BlockFile::decode_block`], of bytes that were not read.
    pub(super) fn open_in_memory(&self, stored: &[u8], handle: &BlockHandle) -> Result<Block> {
        self.decode_into(stored, handle, ByteBuffer::new())
    }

    fn decode_into(&self, stored: &[u8], handle: &BlockHandle, mut space: ByteBuffer) -> Result<Block> {
        let opened = open_block_into(stored, self.place, handle, &mut space);
        opened.and_then(|()| Block::decode(space)).map_err(|flaw| self.flaw(flaw, handle.offset))
    }

    /// Makes a read request, to be carried out together with others.
    pub(super) fn request(&self, offset: u64, bytes: usize) -> Result<ReadRequest> {
        let file = self.file.with(&self.path, Arc::clone).map_err(|error| self.read_error(error, offset))?;
        Ok(ReadRequest { file, offset, bytes })
    }

    /// Says that the bytes from `start` to `end`, if any, are read soon, if a page cache can make
    /// use of that.
    pub(super) fn will_read(&self, start: u64, end: u64) {
        if !self.is_direct() {
            // Whoever reads them reports a failure to open the file again.
            let _ = self.file.with(&self.path, |file| file.will_read(start, end.saturating_sub(start)));
        }
    }

    /// Extends `start..end` to the alignment of direct I/O, if the file is read past the page
    /// cache.
    pub(super) fn aligned(&self, start: u64, end: u64) -> (u64, u64) {
        // At the end of the file the environment does the rest.
        (start - start % self.alignment, end.next_multiple_of(self.alignment).min(self.bytes))
    }

    /// Returns true if the file is read past the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.alignment > 1
    }

    /// The counters of reads.
    pub(super) fn counters(&self) -> &Arc<ReadCounters> {
        &self.counters
    }

    /// Reads bytes, which must lie inside the file.
    pub(super) fn read(&self, offset: u64, bytes: usize, reader: Reader) -> Result<ByteBuffer> {
        let mut buffer = ByteBuffer::zeroed(bytes);
        self.read_into(&mut buffer, offset, reader)?;
        Ok(buffer)
    }

    /// Fills the buffer with the bytes at `offset`.
    pub(super) fn read_into(&self, buffer: &mut [u8], offset: u64, reader: Reader) -> Result<()> {
        self.counters.of(reader).count_read(buffer.len());
        let read = self.file.with(&self.path, |file| file.read_exact_at(buffer, offset));
        read.and_then(|read| read).map_err(|error| self.read_error(error, offset))
    }

    /// Converts the error of a read at `offset`.
    pub(super) fn read_error(&self, error: io::Error, offset: u64) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corruption(offset, "the file ends too early"),
            _ => Error::io("table: read", &self.path, error),
        }
    }

    /// Returns an error unless the block lies before the footer. Called before memory is allocated.
    pub(super) fn check_inside(&self, handle: &BlockHandle) -> Result<()> {
        if handle.end() > self.footer_offset() {
            return Err(self.corruption(handle.offset, "an index entry points past the blocks"));
        }
        Ok(())
    }

    /// The offset where the blocks end.
    pub(super) fn footer_offset(&self) -> u64 {
        self.bytes.saturating_sub(FOOTER_BYTES as u64)
    }

    pub(super) fn properties(&self, footer: &Footer, tail: &[u8]) -> Result<Properties> {
        let payload = self.block_near_end(&footer.properties, tail)?;
        Properties::decode(&payload).map_err(|flaw| self.flaw(flaw, footer.properties.offset))
    }

    /// Reads the filter that the footer points to, if `meta` says that there is one; `tail` may
    /// contain it.
    pub(super) fn filter(&self, footer: &Footer, meta: &TableMeta, tail: &[u8]) -> Result<Option<Filter>> {
        let handle = match &footer.filter {
            None if meta.filter_kind == 0 => return Ok(None),
            None => {
                return Err(self.corruption(self.footer_offset(), "the table has no filter, but was recorded with one"));
            }
            Some(handle) => handle,
        };
        if let Some(units) = self.units(footer, meta, tail)? {
            return self.read_units(&units, None, units.0.len(), meta, tail);
        }
        let payload = self.block_near_end(handle, tail)?;
        let filter = filter::decode(&payload, meta).map_err(|what| self.corruption(handle.offset, what))?;
        Ok(Some(filter))
    }

    /// Reads the handles of an elastic filter's units, if the filter is elastic; `tail` may contain
    /// the list.
    pub(super) fn units(&self, footer: &Footer, meta: &TableMeta, tail: &[u8]) -> Result<Option<Units>> {
        let is_elastic = meta.filter_kind == kind_to_number(FilterKind::Elastic);
        if is_elastic != footer.has_units {
            let what = "the table has units of a filter, but was recorded without, or the other way round";
            return Err(self.corruption(self.footer_offset(), what));
        }
        let Some(handle) = footer.filter.as_ref().filter(|_| footer.has_units) else { return Ok(None) };
        let payload = self.block_near_end(handle, tail)?;
        let units = Units::decode(&payload, handle.offset).map_err(|flaw| self.flaw(flaw, handle.offset))?;
        Ok(Some(units))
    }

    /// Reads the first `wanted` units of a filter, of which `have` has some already; `tail` may
    /// contain others.
    fn read_units(
        &self,
        units: &Units,
        have: Option<&Filter>,
        wanted: usize,
        meta: &TableMeta,
        tail: &[u8],
    ) -> Result<Option<Filter>> {
        let mut filter = have.cloned();
        for handle in &units.0[filter.as_ref().map_or(0, Filter::units)..wanted] {
            let payload = self.block_near_end(handle, tail)?;
            let next = filter::decode_next_unit(filter.as_ref(), &payload, units.0.len(), meta);
            filter = Some(next.map_err(|what| self.corruption(handle.offset, what))?);
        }
        Ok(filter)
    }

    /// Reads the digests that the footer points to, if any.
    pub(super) fn digests(&self, footer: &Footer) -> Result<Option<DigestSet>> {
        let Some(handle) = &footer.digests else { return Ok(None) };
        let payload = self.block_near_end(handle, &[])?;
        filter::decode_digests(&payload, footer.place()).map(Some).map_err(|what| self.corruption(handle.offset, what))
    }

    /// Reads the end of the file, which includes what a filter with that target needs.
    fn read_end(&self, target: FilterTarget, meta: &TableMeta) -> Result<ByteBuffer> {
        self.read_tail(match filter::FilterOrigin::of(target, meta, true) {
            filter::FilterOrigin::Stored => meta.filter_bits / 8,
            filter::FilterOrigin::Units(bits) => meta.filter_bits.min(bits) / 8,
            filter::FilterOrigin::Nowhere | filter::FilterOrigin::Digests(_) => 0,
        })
    }

    /// Reads the end of the file, which includes a filter of `filter_bytes`.
    pub(super) fn read_tail(&self, filter_bytes: u64) -> Result<ByteBuffer> {
        let bytes = self.bytes.min(TAIL_BYTES.saturating_add(filter_bytes));
        self.read(self.bytes - bytes, bytes as usize, Reader::Upkeep)
    }

    fn footer(&self, tail: &[u8]) -> Result<(Footer, u64)> {
        Footer::decode(tail, self.bytes, self.database, self.id).map_err(|flaw| self.flaw(flaw, self.footer_offset()))
    }

    /// Reads the payload of a block that may be part of `tail`.
    fn block_near_end(&self, handle: &BlockHandle, tail: &[u8]) -> Result<ByteBuffer> {
        self.check_inside(handle)?;
        let tail_offset = self.bytes - tail.len() as u64;
        let stored = match handle.offset.checked_sub(tail_offset) {
            Some(start) => StoredBytes::Borrowed(&tail[start as usize..][..handle.bytes]),
            None => StoredBytes::Owned(self.read(handle.offset, handle.bytes, Reader::Upkeep)?),
        };
        open_block(stored, self.place, handle).map_err(|flaw| self.flaw(flaw, handle.offset))
    }

    pub(super) fn flaw(&self, flaw: Flaw, offset: u64) -> Error {
        Error::flaw(&self.path, offset, flaw)
    }

    pub(super) fn corruption(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(&self.path, offset, what)
    }
}
