//! [`TableBuilder`]: writes entries to a table file.
//!
//! ```text
//! add(entry) ─► data BlockBuilder ─► BlockEncoder ─► out (512 KiB) ─► file, write-back started
//!         └─► digest                  └─► fence ─► lower index BlockBuilder ─► payloads
//! ```
//!
//! Memory: the write buffer, one block, and the index blocks (about 0.6 % of the table), whose
//! checksums need offsets that are known only when all data is written; with a filter or digests
//! also 8 bytes per key, and at the end the filter and the digests. Index blocks and filter may be
//! left to whoever opens the table. Calls the environment only to create, write and sync the file.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{ByteBuffer, Env, File};
use tamarack_filter::{Filter, FilterKind};

use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::block::{BlockBuilder, EntryPlan};
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::format::names::FileName;
use crate::format::stored::{BlockEncoder, BlockHandle, Compression, TRAILER_BYTES};
use crate::format::table::{Footer, IngestPart, Properties, Units, fence, fence_entry, place};
use crate::memory::{Account, Charge, MemoryPart};
use crate::step;
use crate::table::FilterSettings;
use crate::table::behind::{UnsyncedTable, WriteBehind, write_piece};
use crate::table::filter::FilterBuilder;
use crate::table::storage::TableStorage;
use crate::table::written::{Leftovers, WrittenTable};

/// The size of the write buffer: a disk with a seek of 8 ms still writes at 60 MB/s.
const WRITE_BYTES: usize = 512 << 10;

/// The capacity that buffers keep after a block; what huge entries took beyond that is freed.
const KEPT_BYTES: usize = 256 << 10;

/// Entries between restarts in data blocks: a search passes 4 of them on average. A restart costs 4
/// bytes, and the part of its key that it could share.
const DATA_RESTART_INTERVAL: usize = 8;

/// Fences between restarts in index blocks, which are searched far more often than written.
const INDEX_RESTART_INTERVAL: usize = 4;

/// The identity of a new table, and how to build it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TableSettings {
    /// The random id of the database.
    pub database: u64,
    /// The table's number.
    pub id: TableId,
    /// The last durable edit when the file is created.
    pub created_after: EditNumber,
    /// The upper bound on a block's size in the file before compression, trailer included, unless a
    /// single entry is larger.
    pub block_bytes: usize,
    /// The compression of data blocks. Index blocks are not compressed: they consist of checksums,
    /// which do not shrink.
    pub compression: Compression,
    /// The Bloom filter of the table, if any.
    pub filter: Option<FilterSettings>,
    /// True if the table stores the digests of its keys, so that its filter can be rebuilt. Digests
    /// of too many keys for one block are not stored.
    pub digests: bool,
}

/// Writes one table. Dropped before [`TableBuilder::finish`], it leaves an unfinished file for the
/// caller to remove.
#[derive(Debug)]
pub struct TableBuilder {
    settings: TableSettings,
    block_encoder: BlockEncoder,
    output: TableOutput,
    data: BlockBuilder,
    index: BlockBuilder,
    /// The place of the fence of the current data block.
    fence: (Vec<u8>, Sequence),
    /// The sequence of the last entry.
    last_sequence: Sequence,
    /// Finished lower index blocks, each with the place of its first fence.
    lower: Vec<(Vec<u8>, Sequence, ByteBuffer)>,
    /// The memory of `lower`, in bytes.
    lower_bytes: usize,
    /// The place of the first fence in `index`.
    lower_fence: (Vec<u8>, Sequence),
    properties: Properties,
    filter: FilterBuilder,
    /// Scratch space for one block, and for one encoded handle.
    payload: ByteBuffer,
    handle: Vec<u8>,
    /// The memory of the builder, as of the last block.
    charge: Charge,
    /// What is left for whoever opens the table, if anything.
    leftovers: Option<Leftovers>,
    /// The parts of the body behind the data, once that is written.
    body: Option<TableBody>,
}

/// The body of a table, all of it before the properties; and the top index, which comes after them.
#[derive(Debug)]
struct TableBody {
    digests: Option<BlockHandle>,
    filter: Option<BlockHandle>,
    has_units: bool,
    top: ByteBuffer,
}

impl TableBuilder {
    /// Creates the file in `dir`. [`Error::InvalidArgument`] if this build lacks the compression.
    pub fn create(env: &dyn Env, dir: &Path, settings: TableSettings) -> Result<Self> {
        if !settings.compression.is_available() {
            return Err(Error::InvalidArgument(format!("this build lacks the compression {:?}", settings.compression)));
        }
        Ok(Self {
            settings,
            block_encoder: BlockEncoder::new(place(settings.database, settings.id)),
            output: TableOutput::create(env, FileName::Table(settings.id.0).path(dir))?,
            data: BlockBuilder::new(DATA_RESTART_INTERVAL),
            index: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            fence: (Vec::new(), Sequence::MAX),
            last_sequence: Sequence::MAX,
            lower: Vec::new(),
            lower_bytes: 0,
            lower_fence: (Vec::new(), Sequence::MAX),
            properties: Properties::default(),
            filter: FilterBuilder::new(settings.filter, settings.digests),
            payload: ByteBuffer::new(),
            handle: Vec::new(),
            charge: Charge::default(),
            leftovers: None,
            body: None,
        })
    }

    /// Charges the memory to `account`.
    #[must_use]
    pub fn on(mut self, account: &Arc<Account>) -> Self {
        self.charge = account.charge(MemoryPart::Compactions, 0);
        self
    }

    /// Writes so many bytes at a time.
    #[must_use]
    pub fn in_pieces_of(mut self, bytes: usize) -> Self {
        self.output.write_bytes = bytes;
        self
    }

    /// Writes the file through that worker. The file is complete only after
    /// [`WriteBehind::finish`], and must be synced by [`WriteBehind::sync`].
    #[must_use]
    pub fn behind(mut self, writer: &Arc<WriteBehind>) -> Self {
        self.output.writer = Some(writer.clone());
        self
    }

    /// Leaves in memory what opening the table by `storage` needs; see
    /// [`TableBuilder::finish_unsynced`].
    #[must_use]
    pub fn leaving(mut self, storage: &Arc<TableStorage>) -> Self {
        self.leftovers = Some(Leftovers::new(storage));
        self
    }

    /// Says that range deletes up to this sequence hide none of its entries.
    #[must_use]
    pub fn with_range_deletes_applied(mut self, through: Sequence) -> Self {
        self.properties.range_deletes_applied = through;
        self
    }

    /// Notes that an ingest writes the table; `first` is the first table of that. Its entries have
    /// the sequence base of [`TableBuilder::set_sequence_base`].
    #[must_use]
    pub fn ingested(mut self, first: TableId) -> Self {
        self.properties.ingest = Some(IngestPart { first_table: first.0, is_last: false });
        self
    }

    /// Sets the sequence base of an ingested table: in its own properties a lower bound, until
    /// [`TableBuilder::end_ingest`].
    pub fn set_sequence_base(&mut self, base: Sequence) {
        self.properties.set_sequence_base(base);
    }

    /// Sets the exact sequence base of the last table of an ingest.
    pub fn end_ingest(&mut self, base: Sequence) {
        let part = self.properties.ingest.as_mut().expect("an ingest ends with a table of its own");
        part.is_last = true;
        self.properties.set_sequence_base(base);
    }

    /// Adds an entry. After an error the table cannot be finished.
    ///
    /// # Panics
    /// If the entry does not follow the last one in entry order.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        debug_assert!(
            self.body.is_none(),
            "the body of {:?} is complete, and gets the entry {entry:?}",
            self.settings.id
        );
        let mut plan = self.data.plan(&entry);
        let is_new_key = self.assert_in_order(&plan, &entry);
        if !self.data.is_empty() && !fits(&plan, self.settings.block_bytes) {
            self.end_data_block()?;
            plan = self.data.plan(&entry);
        }
        if self.data.is_empty() {
            self.begin_data_block(&entry);
        }
        let is_large = plan.payload_bytes > self.settings.block_bytes.max(KEPT_BYTES);
        if is_large {
            // Charged while it is filled and written: those who wait for memory are to know of it.
            self.charge.grow(plan.payload_bytes);
        }
        self.data.add_as(&plan, &entry);
        if is_new_key {
            self.filter.add(entry.key);
        }
        self.properties.count(&entry);
        self.last_sequence = entry.sequence;
        // Nothing else fits into a large block. Its memory is free while the next entry is read.
        if is_large { self.end_data_block() } else { Ok(()) }
    }

    /// The raw bytes of the entries so far.
    pub fn raw_bytes(&self) -> u64 {
        self.properties.raw_bytes
    }

    /// The length of the file's finished blocks so far, without the current block, the index, the
    /// digests, and the filter.
    pub fn file_bytes(&self) -> u64 {
        self.output.end()
    }

    /// The memory that it needs until the end for each entry and each block, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        (self.lower_bytes + self.filter.memory_bytes()) as u64
    }

    fn count_memory(&mut self) {
        let blocks = self.data.memory_bytes() + self.index.memory_bytes() + self.payload.capacity();
        let compressed = self.block_encoder.memory_bytes();
        self.charge
            .set(blocks + compressed + self.lower_bytes + self.filter.memory_bytes() + self.output.pending.capacity());
    }

    /// Returns true before the first entry.
    pub fn is_empty(&self) -> bool {
        self.properties.entries == 0
    }

    /// Writes the rest and syncs the file. Its name is durable once the caller has synced the
    /// directory.
    ///
    /// # Panics
    /// If no entry was added: there are no empty tables.
    pub fn finish(self) -> Result<TableMeta> {
        let (meta, file, _) = self.finish_unsynced()?;
        file.sync()?;
        Ok(meta)
    }

    /// As [`TableBuilder::finish`], but leaves the sync of the file to the caller, for when the
    /// device has had time to write it. With [`TableBuilder::leaving`], there is also what is left
    /// in memory.
    ///
    /// # Panics
    /// If no entry was added.
    pub fn finish_unsynced(mut self) -> Result<(TableMeta, UnsyncedTable, Option<WrittenTable>)> {
        let TableBody { digests, filter, has_units, top } = match self.body.take() {
            Some(body) => body,
            None => self.end_body()?,
        };
        let properties = self.properties.encode();
        let footer = Footer {
            digests,
            has_units,
            filter,
            properties: self.write_block(properties)?,
            top_index: self.write_block(top)?,
            database: self.settings.database,
            table: self.settings.id,
            created_after: self.settings.created_after,
        };
        let bytes = footer.encode(self.output.end());
        self.output.append(&bytes)?;
        let root_checksum = u64::from_le_bytes(*bytes.last_chunk().expect("a footer is longer than its checksum"));
        self.output.write_pending()?;
        let TableOutput { file, path, written_bytes, copy, .. } = self.output;
        let written = self.leftovers.zip(copy).map(|(leftovers, end)| leftovers.finish(end));
        Ok((self.properties.into_meta(&footer, root_checksum, written_bytes), UnsyncedTable::new(file, path), written))
    }

    /// Writes all but the last few blocks, of which the properties are one, after the last entry.
    /// Returns the file, to be synced early: finishing the table then leaves little to sync.
    ///
    /// # Panics
    /// If no entry was added.
    pub fn write_body(&mut self) -> Result<UnsyncedTable> {
        if self.body.is_none() {
            self.body = Some(self.end_body()?);
        }
        self.output.write_pending()?;
        Ok(UnsyncedTable::new(self.output.file.clone(), self.output.path.clone()))
    }

    /// Returns the last key added; empty before the first.
    pub fn last_key(&self) -> &[u8] {
        self.data.last_key()
    }

    fn end_body(&mut self) -> Result<TableBody> {
        assert!(!self.is_empty(), "table {:?} has no entries", self.settings.id);
        if !self.data.is_empty() {
            self.end_data_block()?;
        }
        self.end_lower_block();
        let top = self.write_lower_blocks()?;
        self.properties.largest_key = self.data.last_key().to_vec();
        let place = place(self.settings.database, self.settings.id);
        let (filter, digests) = (self.filter.finish(&mut self.properties), self.filter.take_digests(place));
        let filter_bytes = filter.as_ref().map_or(0, |filter| filter.memory_bytes() + filter.encoded_bytes());
        self.lower_bytes = digests.as_ref().map_or(0, Vec::capacity) + filter_bytes;
        self.count_memory();
        self.properties.compression = self.settings.compression;
        let digests = digests.map(|digests| self.write_block(digests)).transpose()?;
        self.output.copy = self.leftovers.is_some().then(ByteBuffer::new);
        Ok(TableBody {
            digests,
            has_units: filter.as_ref().is_some_and(|filter| filter.kind() == FilterKind::Elastic),
            filter: filter.map(|filter| self.write_filter(&filter)).transpose()?,
            top,
        })
    }

    /// Panics on an entry out of order. Returns false for another version of the previous key.
    fn assert_in_order(&self, plan: &EntryPlan, entry: &Entry<'_>) -> bool {
        let order = self.data.order(plan, entry.key);
        let ascends = match order {
            Ordering::Greater => true,
            Ordering::Equal => entry.sequence < self.last_sequence,
            Ordering::Less => false,
        };
        let last = (self.data.last_key(), self.last_sequence);
        assert!(ascends || self.is_empty(), "{:?} {:?} was added after {last:?}", entry.key, entry.sequence);
        order.is_gt() || self.is_empty()
    }

    /// Records the fence of the block that begins with `entry`.
    fn begin_data_block(&mut self, entry: &Entry<'_>) {
        let previous = (!self.is_empty()).then(|| self.data.last_key());
        let (key, sequence) = fence(previous, entry.key, entry.sequence);
        self.fence.0.clear();
        self.fence.0.extend_from_slice(key);
        self.fence.1 = sequence;
    }

    /// Writes the data block and adds its fence.
    fn end_data_block(&mut self) -> Result<()> {
        self.data.finish_into(&mut self.payload);
        let handle = self.block_encoder.finish_block(&mut self.payload, self.settings.compression, self.output.end());
        self.output.append(&self.payload)?;
        self.handle.clear();
        handle.encode(&mut self.handle);
        let entry = fence_entry(&self.fence.0, self.fence.1, &self.handle);
        if !self.index.is_empty() && !fits(&self.index.plan(&entry), self.settings.block_bytes) {
            self.end_lower_block();
        }
        if self.index.is_empty() {
            self.lower_fence.clone_from(&self.fence);
        }
        self.index.add(&fence_entry(&self.fence.0, self.fence.1, &self.handle));
        self.count_memory();
        if self.payload.capacity() > KEPT_BYTES {
            self.payload = ByteBuffer::new();
            self.data.shrink(KEPT_BYTES);
            self.block_encoder.shrink(KEPT_BYTES);
            self.count_memory();
        }
        Ok(())
    }

    fn end_lower_block(&mut self) {
        let mut payload = ByteBuffer::new();
        self.index.finish_into(&mut payload);
        let (key, sequence) = std::mem::replace(&mut self.lower_fence, (Vec::new(), Sequence::MAX));
        self.lower_bytes += size_of::<(Vec<u8>, Sequence, ByteBuffer)>() + key.capacity() + payload.capacity();
        self.lower.push((key, sequence, payload));
    }

    /// Writes the lower index blocks and returns the payload of the top index.
    fn write_lower_blocks(&mut self) -> Result<ByteBuffer> {
        let mut top = BlockBuilder::new(INDEX_RESTART_INTERVAL);
        let lower = std::mem::take(&mut self.lower);
        let bytes = lower.iter().map(|(_, _, payload)| payload.capacity() as u64).sum();
        let are_left = self.leftovers.as_mut().is_some_and(|leftovers| leftovers.reserve(bytes));
        for (key, sequence, payload) in lower {
            let (handle, stored) = self.write_payload(payload)?;
            self.handle.clear();
            handle.encode(&mut self.handle);
            top.add(&fence_entry(&key, sequence, &self.handle));
            if let Some(leftovers) = self.leftovers.as_mut().filter(|_| are_left) {
                leftovers.add_lower(stored);
            }
        }
        let mut payload = ByteBuffer::new();
        top.finish_into(&mut payload);
        Ok(payload)
    }

    /// Writes a filter; an elastic one in units, the last one first, followed by their handles.
    fn write_filter(&mut self, filter: &Filter) -> Result<BlockHandle> {
        if filter.kind() != FilterKind::Elastic {
            return self.write_block(filter.encode());
        }
        let mut units = Units::default();
        for unit in (0..filter.units()).rev() {
            units.0.insert(0, self.write_block(filter.encode_unit(unit))?);
        }
        self.write_block(units.encode())
    }

    /// Writes an uncompressed block.
    fn write_block(&mut self, payload: impl Into<ByteBuffer>) -> Result<BlockHandle> {
        Ok(self.write_payload(payload.into())?.0)
    }

    /// As [`TableBuilder::write_block`]; returns the stored block as well.
    fn write_payload(&mut self, mut payload: ByteBuffer) -> Result<(BlockHandle, ByteBuffer)> {
        let handle = self.block_encoder.finish_block(&mut payload, Compression::None, self.output.end());
        self.output.append(&payload)?;
        Ok((handle, payload))
    }
}

/// Returns true if the block that ends with the planned entry takes at most `block_bytes` in the
/// file.
fn fits(plan: &EntryPlan, block_bytes: usize) -> bool {
    plan.payload_bytes + TRAILER_BYTES <= block_bytes
}

/// The file, written in large pieces.
#[derive(Debug)]
struct TableOutput {
    file: Arc<dyn File>,
    path: Arc<PathBuf>,
    /// The bytes written or queued so far.
    written_bytes: u64,
    /// The bytes that follow.
    pending: ByteBuffer,
    /// The size at which `pending` is written.
    write_bytes: usize,
    /// A copy of all that is appended from some point on, if wanted.
    copy: Option<ByteBuffer>,
    /// The worker that writes, if not this thread.
    writer: Option<Arc<WriteBehind>>,
}

impl TableOutput {
    fn create(env: &dyn Env, path: PathBuf) -> Result<Self> {
        let file =
            env.create(&path, step::TABLE_CREATE).map_err(|source| Error::io(step::TABLE_CREATE.0, &path, source))?;
        let path = Arc::new(path);
        let (pending, copy, writer) = (ByteBuffer::new(), None, None);
        Ok(Self { file, path, written_bytes: 0, pending, write_bytes: WRITE_BYTES, copy, writer })
    }

    /// The offset of the next byte.
    fn end(&self) -> u64 {
        self.written_bytes + self.pending.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.copy.iter_mut().for_each(|copy| copy.extend_from_slice(bytes));
        if self.pending.len() + bytes.len() > self.write_bytes {
            self.write_pending()?;
        }
        if bytes.len() >= self.write_bytes {
            // A huge block is not copied once more.
            return self.write(bytes);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        if let Some(writer) = &self.writer
            && !self.pending.is_empty()
        {
            let (offset, bytes) = (self.written_bytes, self.pending.len());
            writer.write(&self.file, &self.path, &mut self.pending, offset)?;
            self.written_bytes += bytes as u64;
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let result = self.write(&pending);
        pending.clear();
        self.pending = pending;
        result
    }

    /// Writes on this thread, not through the worker, whose pieces go elsewhere in the file and are
    /// synced later.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        write_piece(&*self.file, &self.path, bytes, self.written_bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }
}
