//! [`TableCursor`]: a cursor over a table's entries, in both directions.
//!
//! It holds one lower index block and one data block, each with a position. Seeks descend through
//! the fences; steps past the end of a data block use the index to move to the neighbour. A cursor
//! that stays in one block reads nothing.
//!
//! # Large blocks
//!
//! While memory is short, a cursor releases a large block as soon as it has found its entry there,
//! and waits ([`Source::waits_at`]): it keeps the key. [`TableCursor::go_on`] reads the block once
//! more. Only the cursors of a [`ScanVolume`] that says so do this.
//!
//! # Seeks of many cursors at once
//!
//! A caller that seeks with many cursors first asks each for the read it needs
//! ([`TableCursor::prepare`]), carries out all reads together, passes each cursor its bytes
//! ([`TableCursor::arrived`]), and then seeks. A cursor without bytes reads by itself.

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use tamarack_env::{ByteBuffer, ReadRequest};

use super::approach::{Approach, PlaceInIndex};
use super::index::Lower;
use super::index_position::IndexPosition;
use super::lower::LOWER_BYTES;
use super::reader::Table;
use super::storage::TableStorage;
use super::window::{
    Direction, FIRST_BYTES_OF_MOST, ReadGrowth, RunShare, SEQUENTIAL_BYTES, ScanVolume, Window, piece_in,
};
use crate::cache::{CachedBlock, LowerBlock, SharedLower};
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::SharedBlock;
use crate::format::block::{Block, BlockCursor};
use crate::format::stored::{BlockHandle, Flaw};
use crate::memory::{Account, Charged, MemoryPart};
use crate::merge::{SeekTarget, Source};
use crate::stats::Reader;

/// How a cursor reads blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPolicy {
    /// Through the block cache, with read-ahead that grows as the scan continues: for queries.
    Cached,
    /// In large pieces past the cache: for compactions and full scans, which would only evict what
    /// queries need.
    Sequential,
}

/// A cursor over a table. See [`Source`] for its positions.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    /// The sequence base of the table.
    base: Sequence,
    pieces: Pieces,
    /// The position in the index; `None` if there is none.
    lower: Option<IndexPosition>,
    data: DataPosition,
    /// The data block that the last backward step left, if it differs from the current one.
    left: Option<SharedBlock>,
    /// The read that the next seek needs.
    wanted: Option<PendingRead>,
    /// True if the position in the index is the target of the next seek.
    is_prepared: bool,
}

/// The value that a step backward has left, in its block: a copy of a large one would be beside the
/// block, and its memory would stay with the allocator.
#[derive(Debug)]
pub struct LeftValue {
    block: SharedBlock,
    range: Range<usize>,
}

impl Deref for LeftValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.bytes()[self.range.clone()]
    }
}

/// A block that a seek will need, and the range of bytes to read for it, from `start` to `end`.
#[derive(Debug)]
struct PendingRead {
    /// Its fence in the top index, if it is a lower index block.
    top: Option<usize>,
    handle: BlockHandle,
    start: u64,
    end: u64,
}

/// The read policy of a cursor and its read-ahead window. A cursor over the next table takes it
/// over.
#[derive(Debug)]
pub struct Pieces {
    policy: ReadPolicy,
    window: Window,
    /// Lower index blocks, once some were read past the cache.
    lower: Option<Box<Window>>,
    growth: ReadGrowth,
    volume: Arc<ScanVolume>,
}

impl Pieces {
    /// Continues in a cursor of another scan or compaction, with its `volume`.
    #[must_use]
    pub fn of(self, volume: &Arc<ScanVolume>) -> Self {
        Self { volume: volume.clone(), ..self }
    }

    /// Makes an empty window of a cursor that is expected to yield this share of the data of a
    /// scan, whose cursors share `volume`.
    pub fn new(policy: ReadPolicy, volume: Arc<ScanVolume>, share: RunShare) -> Self {
        let reader = match policy {
            ReadPolicy::Cached => Reader::Scan,
            ReadPolicy::Sequential => Reader::Compaction,
        };
        Self { policy, window: Window::new(reader), lower: None, growth: ReadGrowth::new(share, &volume), volume }
    }

    /// The lower index block of the fence `top`.
    fn lower(&mut self, table: &Table, top: usize) -> Result<SharedLower> {
        if self.policy == ReadPolicy::Cached {
            return table.lower_or_read(top, Reader::Scan).map(Lower::into_shared);
        }
        if let Some(lower) = table.lower(top) {
            return Ok(lower.into_shared());
        }
        let handle = &table.index.top().handle(top);
        let ahead_bytes = (LOWER_BYTES as usize).min(table.storage.account().piece_bytes());
        let window = self.lower.get_or_insert_with(|| Box::new(Window::new(Reader::Compaction)));
        window.move_to(table);
        let block = window.block_or_read(table, handle, Direction::Forward, ahead_bytes, ByteBuffer::new())?;
        table.decode_lower(top, &block, Reader::Compaction)
    }

    /// A data block, read into the memory of the previous one if no value pins that.
    fn data_block(
        &mut self,
        table: &Table,
        lower: &IndexPosition,
        direction: Direction,
        left: Option<SharedBlock>,
    ) -> Result<SharedBlock> {
        if self.policy == ReadPolicy::Cached {
            // It may be large, and the next one may wait for its turn.
            drop(left);
            return self.cached_data_block(table, lower, direction);
        }
        let handle = &lower.handle();
        let space = left.and_then(Arc::into_inner).map(|left| left.into_value().into_bytes()).unwrap_or_default();
        if !self.window.holds(handle) && handle.bytes < SEQUENTIAL_BYTES {
            let piece_bytes = self.volume.piece_bytes().unwrap_or_else(|| table.storage.account().piece_bytes());
            let wanted_bytes = lower.wanted_bytes(table, direction, &self.volume);
            if !self.window.take_next(table, handle) {
                let is_between = self.window.reads_ahead_from_within(handle);
                let ahead_bytes = if is_between { 0 } else { self.growth.next_sequential() };
                let ahead_bytes = ahead_bytes.min(piece_bytes).min(wanted_bytes);
                // A block that is cut would be read twice.
                let whole_bytes = lower.last_end_by(handle.offset + ahead_bytes as u64) - handle.offset;
                let is_forward = direction == Direction::Forward;
                let ahead_bytes = if is_forward { whole_bytes as usize } else { ahead_bytes };
                self.window.read(table, handle, direction, ahead_bytes)?;
            }
            let beyond = lower.block_beyond(self.window.end());
            let end = handle.offset.saturating_add(wanted_bytes as u64).min(table.data_end());
            if direction == Direction::Forward
                && let Some((start, least_end)) = beyond.filter(|(start, _)| *start < end)
            {
                if self.window.may_read_ahead(table) {
                    let ahead_bytes = self.growth.next_sequential().min(piece_bytes) as u64;
                    let piece_end = least_end.max(lower.last_end_by(start + ahead_bytes));
                    self.window.read_ahead(table, start, end.min(piece_end));
                } else {
                    let ahead_bytes = self.growth.following().min(piece_bytes) as u64;
                    table.file.will_read(start, end.min(start + ahead_bytes));
                }
            }
        }
        let block = self.window.block_or_read(table, handle, direction, 0, space)?;
        Ok(self.share(table, block))
    }

    /// A block that was read, to be shared, and charged to whom it was read for.
    fn share(&self, table: &Table, block: Block) -> SharedBlock {
        match self.policy {
            ReadPolicy::Cached => table.storage.share(block),
            ReadPolicy::Sequential => {
                Charged::share(block, Block::memory_bytes, Some(table.storage.account()), MemoryPart::Compactions)
            }
        }
    }

    /// As [`Window::block_or_read`]. A query reads a large block in the turn of its step.
    fn block_or_read(
        &mut self,
        table: &Table,
        handle: &BlockHandle,
        direction: Direction,
        ahead_bytes: usize,
    ) -> Result<Block> {
        let is_alone = self.policy == ReadPolicy::Cached && self.window.reads_alone(handle);
        let _charge = is_alone.then(|| self.volume.take_turn(table, handle));
        self.window.block_or_read(table, handle, direction, ahead_bytes, ByteBuffer::new())
    }

    /// The data block once more after its release.
    fn released_data_block(&mut self, table: &Table, lower: &IndexPosition) -> Result<SharedBlock> {
        if self.policy == ReadPolicy::Cached
            && let Some(block) = table.cached(&lower.fences, lower.at, &self.volume)
        {
            return Ok(block.clone());
        }
        let block = self.block_or_read(table, &lower.handle(), Direction::Forward, 0)?;
        Ok(self.share(table, block))
    }

    /// Returns true if memory is so short beside a large block, of `bytes`, that the block should
    /// be released.
    fn is_memory_short(&self, account: &Account, bytes: usize) -> bool {
        match self.policy {
            ReadPolicy::Cached => account.pinned_blocks_are_many(bytes as u64),
            ReadPolicy::Sequential => account.blocks_of_compactions_are_many(bytes as u64),
        }
    }

    /// The size of a read of `bytes` without what the scan cannot need. With a limit it has whole
    /// blocks.
    fn bounded(&self, table: &Table, lower: &IndexPosition, direction: Direction, bytes: usize) -> usize {
        let bytes = if self.volume.is_limited() { lower.blocks_within(direction, bytes) } else { bytes };
        bytes.min(lower.wanted_bytes(table, direction, &self.volume))
    }

    fn cached_data_block(&mut self, table: &Table, lower: &IndexPosition, direction: Direction) -> Result<SharedBlock> {
        let cache = table.storage.cache();
        let handle = &lower.handle();
        let ahead_bytes = if self.window.holds(handle) {
            self.growth.arrived(&self.volume, handle.bytes);
            0
        } else if let Some(block) = table.cached(&lower.fences, lower.at, &self.volume) {
            return Ok(block.clone());
        } else if table.storage.account().scans_are_many() {
            // Just the block, whatever the seek has read.
            self.growth.restart();
            0
        } else {
            let bytes = self.growth.next(&self.volume, handle.bytes);
            self.bounded(table, lower, direction, bytes)
        };
        let block = self.block_or_read(table, handle, direction, ahead_bytes)?;
        let is_long = ahead_bytes > 0 && !self.growth.is_short() && !self.volume.is_limited();
        if is_long && direction == Direction::Forward {
            let wanted = lower.wanted_bytes(table, direction, &self.volume) as u64;
            let (start, end) = (self.window.end(), handle.offset.saturating_add(wanted).min(table.data_end()));
            table.file.will_read(start, end.min(start + self.growth.following() as u64));
        }
        let block = table.storage.share(block);
        let keeps_much = self.window.memory_bytes() > 2 * SEQUENTIAL_BYTES;
        if keeps_much || self.window.memory_bytes() > 0 && table.storage.account().scans_are_many() {
            self.window.release();
        }
        // Of a long scan only if it evicts nothing.
        if self.growth.is_short() || cache.holds_all() {
            cache.insert(&lower.fences, lower.at, block.clone());
        }
        Ok(block)
    }
}

/// A loaded data block and a position in it.
///
/// The cursor may stand without a block, which is then to be read once more.
#[derive(Debug, Default)]
struct DataPosition {
    block: Option<(u64, SharedBlock)>,
    cursor: BlockCursor,
}

impl DataPosition {
    /// Loads a block, without a position yet.
    fn stand_before(&mut self, handle: &BlockHandle, block: SharedBlock) {
        self.cursor.leave();
        self.block = Some((handle.offset, block));
    }

    /// Returns true if this block is loaded.
    fn holds(&self, handle: &BlockHandle) -> bool {
        self.block.as_ref().is_some_and(|&(offset, _)| offset == handle.offset)
    }

    /// Moves the cursor within the loaded block; an error names the block's offset.
    #[inline]
    fn go(&mut self, table: &Table, motion: impl FnOnce(&mut BlockCursor, &Block) -> Result<(), Flaw>) -> Result<()> {
        let (offset, block) = self.block.as_ref().expect("a block is loaded before a cursor moves in it");
        match motion(&mut self.cursor, block) {
            Ok(()) => Ok(()),
            Err(flaw) => {
                self.cursor.leave();
                Err(table.file.flaw(flaw, *offset))
            }
        }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let (_, block) = self.block.as_ref()?;
        self.cursor.entry(block)
    }

    #[inline]
    fn stands(&self) -> bool {
        self.cursor.stands()
    }

    fn leave(&mut self) {
        self.cursor.leave();
    }
}

impl Table {
    /// The place in the file, whose sequences are without the base, for a place in the table.
    pub(super) fn place_in_file<'a>(&self, (key, sequence): (&'a [u8], Sequence)) -> (&'a [u8], Sequence) {
        (key, sequence.without_base(self.meta.sequence_base))
    }

    /// The data block of the fence `at` of `lower`, if cached, for a scan that shares `volume`.
    /// Counts the search.
    #[inline]
    fn cached(&self, lower: &LowerBlock, at: usize, volume: &Arc<ScanVolume>) -> Option<CachedBlock> {
        let found = lower.cached(at);
        // Scans of two threads have memory of different arenas.
        self.storage.cache().count(Arc::as_ptr(volume).addr() / size_of::<ScanVolume>(), found.is_some());
        found
    }

    /// Begins the way of a seek to its data block.
    pub fn approach_place<'t>(&'t self, place: (&'t [u8], Sequence)) -> Approach<'t> {
        let (key, sequence) = self.place_in_file(place);
        Approach::begin(self, key, sequence)
    }

    /// Returns a cursor over all entries.
    pub fn cursor(self: &Arc<Self>, read: ReadPolicy) -> TableCursor {
        self.cursor_with(Pieces::new(read, Arc::default(), RunShare::default()))
    }

    /// Returns all entries, from the first to the last or the other way round.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn entries(
        self: &Arc<Self>,
        read: ReadPolicy,
        forward: bool,
    ) -> Result<Vec<crate::format::entry::OwnedEntry>> {
        let mut cursor = self.cursor(read);
        let mut entries = Vec::new();
        if forward { cursor.seek_first() } else { cursor.seek_last() }?;
        while let Some(entry) = cursor.entry() {
            entries.push(entry.into());
            if forward { cursor.next() } else { cursor.prev() }?;
        }
        Ok(entries)
    }

    /// Returns a cursor over all entries that continues the read-ahead of another one.
    pub fn cursor_with(self: &Arc<Self>, mut pieces: Pieces) -> TableCursor {
        pieces.window.move_to(self);
        let table = Arc::clone(self);
        TableCursor {
            base: table.meta.sequence_base,
            table,
            pieces,
            lower: None,
            data: DataPosition::default(),
            left: None,
            wanted: None,
            is_prepared: false,
        }
    }
}

impl TableCursor {
    /// Returns true if the cursor is at an entry.
    #[inline]
    pub fn stands(&self) -> bool {
        self.data.stands()
    }

    /// The key of the current entry, or of the one at which it waits.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.data.cursor.place().map(|(key, _)| key)
    }

    /// Reads the block of the entry at which it waits, and is at that entry then. No effect if it
    /// does not wait.
    ///
    /// # Errors
    /// Errors of reading, which leave it without a position.
    pub fn go_on(&mut self) -> Result<()> {
        if self.waits_at().is_none() {
            return Ok(());
        }
        let lower = self.lower.as_ref().expect("a cursor that stands has a lower index block");
        let read = self.pieces.released_data_block(&self.table, lower);
        let read = read.map(|block| self.data.block = Some((lower.handle().offset, block)));
        self.settle(read)
    }

    /// Releases the value that the last step backward left, as another cursor has moved since.
    pub fn forget_left(&mut self) {
        self.left = None;
    }

    /// The value that the last step backward left, for longer than the cursor stays.
    pub fn take_left(&mut self) -> LeftValue {
        let here = || self.data.block.as_ref().map(|(_, block)| block.clone());
        let block = self.left.take().or_else(here).expect("a step backward has left an entry");
        let range = block.range_of(self.data.cursor.left(&block));
        LeftValue { block, range }
    }

    /// The block of the current entry, so that the value can be kept without a copy.
    pub fn block(&self) -> Option<&SharedBlock> {
        self.entry().and(self.data.block.as_ref().map(|(_, block)| block))
    }

    /// Its read-ahead, for a cursor over the next table.
    pub fn into_pieces(self) -> Pieces {
        self.pieces
    }

    /// Moves to another table, without a position. What was read ahead is of no use there; the
    /// memory for it stays.
    pub fn move_to(&mut self, table: &Arc<Table>) {
        self.release_blocks();
        self.pieces.window.move_to(table);
        self.table = Arc::clone(table);
        self.base = table.meta.sequence_base;
    }

    /// Joins another scan, whose cursors share `volume`, and of which it is expected to yield this
    /// share. To be called at rest ([`TableCursor::rest`]).
    pub fn join(&mut self, volume: &Arc<ScanVolume>, share: RunShare) {
        self.pieces.growth = ReadGrowth::new(share, volume);
        self.pieces.volume = volume.clone();
    }

    /// Removes the position, and releases blocks, read-ahead and the memory of long keys.
    pub fn rest(&mut self) {
        self.release_blocks();
        self.data.cursor.rest();
        if self.pieces.window.memory_bytes() > 0 {
            self.pieces.window.release();
        }
        self.pieces.lower = None;
    }

    /// Removes the position, and releases what the cursor has of its table's blocks.
    fn release_blocks(&mut self) {
        self.data.leave();
        (self.lower, self.data.block, self.left, self.wanted) = (None, None, None, None);
        self.is_prepared = false;
    }

    /// Resets the read-ahead of a query: the next seek is far away, so little is read at first.
    pub fn restart(&mut self) {
        if self.pieces.policy == ReadPolicy::Cached {
            self.pieces.growth.restart();
        }
    }

    /// Does the work of a seek to `place` without reading. Returns true if a block is missing that
    /// [`TableCursor::request`] would read; another one may be missing after that. The cursor has
    /// no position until the seek, which must be to the same place. `known` is where the index has
    /// it, if the caller knows.
    pub fn prepare(&mut self, place: SeekTarget<'_>, known: Option<PlaceInIndex>) -> Result<bool> {
        self.data.leave();
        self.is_prepared = false;
        let place = match place {
            SeekTarget::From(key, sequence) => SeekTarget::From(key, sequence.without_base(self.base)),
            SeekTarget::Before(key, sequence) => SeekTarget::Before(key, sequence.without_base(self.base)),
            end => end,
        };
        let fences = self.table.index.top();
        let top = match (known, place) {
            (Some(known), _) => known.top,
            (None, SeekTarget::First) => 0,
            (None, SeekTarget::Last) => fences.len() - 1,
            (None, SeekTarget::From(key, sequence) | SeekTarget::Before(key, sequence)) => fences.floor(key, sequence),
        };
        let direction = match place {
            SeekTarget::First | SeekTarget::From(..) => Direction::Forward,
            SeekTarget::Last | SeekTarget::Before(..) => Direction::Backward,
        };
        let at_hand = known.is_some() || self.stands_below(top) || self.table.lower(top).is_some();
        if !at_hand {
            let handle = fences.handle(top);
            let (start, end) = self.table.lower_piece(top)?;
            self.wanted = Some(PendingRead { top: Some(top), handle, start, end });
            return Ok(true);
        }
        let lower = self.load_lower(top)?;
        lower.at = match (known, place) {
            (Some(known), _) => known.at,
            (None, SeekTarget::First) => 0,
            (None, SeekTarget::Last) => lower.fences.len() - 1,
            (None, SeekTarget::From(key, sequence) | SeekTarget::Before(key, sequence)) => {
                lower.fences.floor(key, sequence)
            }
        };
        self.is_prepared = true;
        let lower = self.lower.as_ref().expect("it was loaded now or before");
        let handle = lower.handle();
        if self.data.holds(&handle) || self.pieces.window.holds(&handle) {
            return Ok(false);
        }
        if let Some(block) = self.table.cached(&lower.fences, lower.at, &self.pieces.volume) {
            self.data.stand_before(&handle, block.clone());
            return Ok(false);
        }
        if self.pieces.volume.is_large(handle.bytes) && self.table.storage.large_reads().is_large(handle.bytes as u64) {
            // The seek reads it by itself: such reads take turns.
            return Ok(false);
        }
        let many = self.table.storage.account().scans_are_many();
        let most_bytes = if many { FIRST_BYTES_OF_MOST } else { usize::MAX };
        let first_bytes = self.pieces.growth.first(&self.pieces.volume, handle.bytes).min(most_bytes);
        let ahead_bytes = self.pieces.bounded(&self.table, lower, direction, first_bytes);
        let (start, end) = piece_in(&self.table, &handle, direction, ahead_bytes)?;
        self.wanted = Some(PendingRead { top: None, handle, start, end });
        Ok(true)
    }

    /// Returns true if the position in the index is the target of the next seek.
    pub fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// The read that [`TableCursor::prepare`] found necessary, whose outcome goes to
    /// [`TableCursor::arrived`].
    ///
    /// # Panics
    /// If no read is necessary.
    ///
    /// # Errors
    /// If the table's file was closed and cannot be opened again.
    pub fn request(&self) -> Result<ReadRequest> {
        let wanted = self.wanted.as_ref().expect("only what lacks something asks for it");
        self.table.file.request(wanted.start, (wanted.end - wanted.start) as usize)
    }

    /// Takes over the bytes of the read. Returns true if they were an index block, so that
    /// [`TableCursor::prepare`] can continue. The seek repeats a failed or damaged read, and
    /// returns its error.
    pub fn arrived(&mut self, bytes: io::Result<&[u8]>) -> bool {
        let (Some(wanted), Ok(bytes)) = (self.wanted.take(), bytes) else { return false };
        let PendingRead { top, handle, start, .. } = wanted;
        let reader = Reader::Scan;
        if let Some(top) = top {
            let Ok(fences) = self.table.take_lower(top, bytes, reader) else { return false };
            self.lower = Some(IndexPosition { top, fences, at: 0 });
            return true;
        }
        let at = (handle.offset - start) as usize;
        let Ok(block) = self.table.file.decode_block(&bytes[at..][..handle.bytes], &handle, ByteBuffer::new(), reader)
        else {
            return false;
        };
        let block = self.table.storage.share(block);
        let lower = self.lower.as_ref().expect("a data block is requested below a lower index block");
        self.table.storage.cache().insert(&lower.fences, lower.at, block.clone());
        self.data.stand_before(&handle, block);
        self.pieces.growth.arrived(&self.pieces.volume, handle.bytes);
        // The block itself is not needed any more.
        let (before, after) = (&bytes[..at], &bytes[at + handle.bytes..]);
        if after.is_empty() {
            self.pieces.window.give(&self.table, start, before);
        } else {
            self.pieces.window.give(&self.table, handle.end(), after);
        }
        false
    }

    /// The storage of its table.
    pub fn storage(&self) -> &Arc<TableStorage> {
        &self.table.storage
    }

    /// Returns true if the lower index block of the fence `top` is loaded.
    fn stands_below(&self, top: usize) -> bool {
        self.lower.as_ref().is_some_and(|lower| lower.top == top)
    }

    /// Loads the lower index block of the fence `top`, unless it is loaded.
    fn load_lower(&mut self, top: usize) -> Result<&mut IndexPosition> {
        if !self.stands_below(top) {
            self.lower = None;
            let fences = self.pieces.lower(&self.table, top)?;
            self.lower = Some(IndexPosition { top, fences, at: 0 });
        }
        Ok(self.lower.as_mut().expect("it was loaded now or before"))
    }

    /// Loads the data block of the current fence.
    fn load_data(&mut self, direction: Direction) -> Result<()> {
        self.data.leave();
        let lower = self.lower.as_ref().expect("a lower index block is loaded before the data below it");
        let handle = lower.handle();
        if !self.data.holds(&handle) {
            let left = self.data.block.take().map(|(_, block)| block);
            let block = self.pieces.data_block(&self.table, lower, direction, left)?;
            self.data.block = Some((handle.offset, block));
        }
        Ok(())
    }

    /// Moves to the only data block that can contain the place.
    fn descend(&mut self, key: &[u8], sequence: Sequence, direction: Direction) -> Result<()> {
        self.data.leave();
        if std::mem::take(&mut self.is_prepared) {
            let lower = self.lower.as_ref().expect("what was prepared has a lower index block");
            debug_assert_eq!(lower.at, lower.fences.floor(key, sequence), "{key:?} {sequence:?} was not prepared");
        } else {
            let lower = self.load_lower(self.table.index.top().floor(key, sequence))?;
            lower.at = lower.fences.floor(key, sequence);
        }
        self.load_data(direction)
    }

    /// Moves to the next fence; false if there is none, or it is past the range of the scan.
    fn next_fence(&mut self) -> Result<bool> {
        let to = self.pieces.volume.to().map(|place| self.table.place_in_file(place));
        let lower = self.lower.as_mut().expect("a cursor that leaves a data block stands in the index");
        let next_top = lower.top + 1;
        if lower.at + 1 < lower.fences.len() {
            lower.at += 1;
            return Ok(to.is_none_or(|(key, sequence)| lower.at <= lower.fences.floor(key, sequence)));
        }
        let top = self.table.index.top();
        let wanted = next_top < top.len() && to.is_none_or(|(key, sequence)| next_top <= top.floor(key, sequence));
        if wanted {
            self.load_lower(next_top)?;
        }
        Ok(wanted)
    }

    /// Moves to the previous fence; false if there is none, or it is before the range of the scan.
    fn previous_fence(&mut self) -> Result<bool> {
        let lower = self.lower.as_mut().expect("a cursor that leaves a data block stands in the index");
        if let Some(from) = self.pieces.volume.from()
            && lower.is_at_or_before(&self.table, self.table.place_in_file(from))
        {
            return Ok(false);
        }
        if lower.at > 0 {
            lower.at -= 1;
        } else if let Some(previous_top) = lower.top.checked_sub(1) {
            let lower = self.load_lower(previous_top)?;
            lower.at = lower.fences.len() - 1;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Moves to the first entry of the next data block, if there is one.
    fn first_of_next_block(&mut self) -> Result<()> {
        while !self.data.stands() && self.next_fence()? {
            self.load_data(Direction::Forward)?;
            self.data.go(&self.table, BlockCursor::step_into_first)?;
        }
        Ok(())
    }

    /// Moves to the last entry of the previous data block, if there is one.
    fn last_of_previous_block(&mut self) -> Result<()> {
        while !self.data.stands() && self.previous_fence()? {
            self.load_data(Direction::Backward)?;
            self.data.go(&self.table, BlockCursor::step_into_last)?;
        }
        Ok(())
    }

    /// Ends a seek: the cursor has left no entry by a step.
    fn land(&mut self, result: Result<()>) -> Result<()> {
        self.data.cursor.leapt();
        self.enter(result)
    }

    /// Ends a seek or a step into another block, which is released if it is large.
    #[inline]
    fn enter(&mut self, result: Result<()>) -> Result<()> {
        self.settle(result)?;
        self.release_large_block();
        Ok(())
    }

    /// Removes the position after an error.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.data.leave();
        }
        result
    }

    /// Releases the block that was just entered, if it is large and memory is short: the cursor
    /// waits if it is at an entry of it.
    fn release_large_block(&mut self) {
        let bytes = self.data.block.as_ref().map_or(0, |(_, block)| block.memory_bytes());
        if self.pieces.volume.is_large(bytes) && self.pieces.is_memory_short(self.table.storage.account(), bytes) {
            self.data.block = None;
            self.pieces.window.release();
        }
    }

    fn try_seek_first(&mut self) -> Result<()> {
        self.data.leave();
        self.is_prepared = false;
        self.load_lower(0)?.at = 0;
        self.load_data(Direction::Forward)?;
        self.data.go(&self.table, BlockCursor::seek_first)
    }

    fn try_seek_last(&mut self) -> Result<()> {
        self.data.leave();
        self.is_prepared = false;
        let lower = self.load_lower(self.table.index.top().len() - 1)?;
        lower.at = lower.fences.len() - 1;
        self.load_data(Direction::Backward)?;
        self.data.go(&self.table, BlockCursor::seek_last)
    }

    fn try_seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let sequence = sequence.without_base(self.base);
        self.descend(key, sequence, Direction::Forward)?;
        self.data.go(&self.table, |cursor, block| cursor.seek(block, key, sequence))?;
        self.first_of_next_block()
    }

    fn try_seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let sequence = sequence.without_base(self.base);
        self.descend(key, sequence, Direction::Backward)?;
        self.data.go(&self.table, |cursor, block| cursor.seek_before(block, key, sequence))?;
        self.last_of_previous_block()
    }

    /// Counts the block that a step leaves, for a scan with a limit.
    fn count_left(&mut self) {
        if self.pieces.volume.is_limited() {
            let lower = self.lower.as_ref().expect("a cursor that leaves a data block stands in the index");
            self.pieces.growth.left(&self.pieces.volume, lower.handle().bytes);
        }
    }

    /// Moves to the previous block, and keeps the one that it leaves.
    #[cold]
    fn leave_block_backward(&mut self) -> Result<()> {
        self.count_left();
        self.left = self.data.block.as_ref().map(|(_, block)| block.clone());
        let result = self.last_of_previous_block();
        self.enter(result)
    }

    /// Moves to the next block.
    #[cold]
    fn leave_block_forward(&mut self) -> Result<()> {
        self.count_left();
        let result = self.first_of_next_block();
        self.enter(result)
    }
}

impl Source for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        let result = self.try_seek_first();
        self.land(result)
    }

    fn seek_last(&mut self) -> Result<()> {
        let result = self.try_seek_last();
        self.land(result)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let result = self.try_seek(key, sequence);
        self.land(result)
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let result = self.try_seek_before(key, sequence);
        self.land(result)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.data.go(&self.table, BlockCursor::next)?;
        if self.data.stands() { Ok(()) } else { self.leave_block_forward() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.left.is_some() {
            self.left = None;
        }
        self.data.go(&self.table, BlockCursor::prev)?;
        if self.data.stands() { Ok(()) } else { self.leave_block_backward() }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.data.entry()?;
        Some(Entry { sequence: entry.sequence.with_base(self.base), ..entry })
    }

    fn waits_at(&self) -> Option<(&[u8], Sequence)> {
        let (key, sequence) = self.data.cursor.place().filter(|_| self.data.block.is_none())?;
        Some((key, sequence.with_base(self.base)))
    }

    #[inline]
    fn shared(&self) -> Option<usize> {
        self.data.cursor.shared()
    }

    #[inline]
    fn left(&self) -> &[u8] {
        let here = || self.data.block.as_ref().map(|(_, block)| block);
        let block = self.left.as_ref().or_else(here).expect("a step backward has left an entry");
        self.data.cursor.left(block)
    }
}
