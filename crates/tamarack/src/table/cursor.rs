//! [`TableCursor`]: a walk over a table's entries, in both directions.
//!
//! It holds one lower index block and one data block, each with a place in it. Seeks go down
//! through the fences; steps past the end of a data block go to the neighbour by the index. A
//! cursor that stays in one block reads nothing.
//!
//! # Seeks of many cursors at once
//!
//! Who seeks with many cursors asks each beforehand what it would have to read
//! ([`TableCursor::prepare`]), reads that for all together, gives each what has
//! arrived ([`TableCursor::arrived`]), and only then lets them seek. A cursor that got nothing
//! reads by itself.

use std::io;
use std::sync::Arc;

use tamarack_env::ReadRequest;

use super::index::Lower;
use super::reader::Table;
use super::storage::TableStorage;
use super::window::{Direction, Growth, SEQUENTIAL_BYTES, ScanVolume, Window, piece_in};
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::block::{Block, BlockCursor};
use crate::format::stored::{BlockHandle, Flaw};
use crate::format::{SharedBlock, SharedFences};
use crate::memory::{Charged, Part};
use crate::merge::{Place, Source};
use crate::stats::Reader;

/// How a cursor reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPolicy {
    /// Through the block cache; what is not there in pieces that grow as the walk goes on: for
    /// queries.
    Cached,
    /// Large pieces that do not pass through the cache: for merges and for whole scans, which would
    /// only drive out what queries need.
    Sequential,
}

/// A walk over a table. See [`Source`] for where it stands when.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    pieces: Pieces,
    /// Where in the index it stands; `None` is nowhere.
    lower: Option<LowerPlace>,
    data: Standing,
    /// The data block that the last step backward left, if that was another one.
    left: Option<SharedBlock>,
    /// What is to be read before a seek.
    wanted: Option<Wanted>,
    /// In the index it stands where the next seek leads.
    is_prepared: bool,
}

/// A block that a seek will need, and the bytes to be read for it, from `start` to `end`.
#[derive(Debug)]
struct Wanted {
    /// Its fence in the top index, if it is a lower index block.
    top: Option<usize>,
    handle: BlockHandle,
    start: u64,
    end: u64,
}

/// How a cursor reads, and what it has read. One that goes on in the next table takes this along.
#[derive(Debug)]
pub struct Pieces {
    policy: ReadPolicy,
    window: Window,
    growth: Growth,
    volume: Arc<ScanVolume>,
}

impl Pieces {
    /// Nothing read yet. The cursors of one scan share `volume`; one of them may have most of what
    /// they are over.
    pub fn new(policy: ReadPolicy, volume: Arc<ScanVolume>, has_most: bool) -> Self {
        let reader = match policy {
            ReadPolicy::Cached => Reader::Scan,
            ReadPolicy::Sequential => Reader::Compaction,
        };
        Self { policy, window: Window::new(reader), growth: Growth::new(has_most), volume }
    }

    /// The lower index block of the fence `top`. These are few, so that each is a read of its own.
    fn lower(&self, table: &Table, top: usize) -> Result<SharedFences> {
        if self.window.holds(&table.index.top().handle(top)) {
            let block = self.window.block(table, &table.index.top().handle(top), Vec::new())?;
            let fences = table.decode_lower(top, &block, self.window.reader())?;
            table.keep_lower(top, &fences);
            return Ok(fences);
        }
        match self.policy {
            ReadPolicy::Cached => table.lower_or_read(top, Reader::Scan).map(Lower::into_shared),
            ReadPolicy::Sequential => match table.lower(top) {
                Some(lower) => Ok(lower.into_shared()),
                None => table.read_lower(top, Reader::Compaction),
            },
        }
    }

    /// A data block, into the space of the one that is left, if nobody holds on to a value in that.
    fn data_block(
        &mut self,
        table: &Table,
        lower: &LowerPlace,
        direction: Direction,
        left: Option<SharedBlock>,
    ) -> Result<SharedBlock> {
        if self.policy == ReadPolicy::Cached {
            return self.cached_data_block(table, lower, direction);
        }
        let handle = &lower.handle();
        let space = left.and_then(Arc::into_inner).map(|left| left.into_value().into_bytes()).unwrap_or_default();
        let account = table.storage.account();
        let ahead_bytes =
            if self.window.holds(handle) { 0 } else { self.growth.next_sequential().min(account.piece_bytes()) };
        let block = self.window.block_or_read(table, handle, direction, ahead_bytes, space)?;
        Ok(Charged::share(block, Block::memory_bytes, Some(account), Part::Merges))
    }

    fn cached_data_block(&mut self, table: &Table, lower: &LowerPlace, direction: Direction) -> Result<SharedBlock> {
        let cache = table.storage.cache();
        let handle = &lower.handle();
        let ahead_bytes = if self.window.holds(handle) {
            self.growth.arrived();
            0
        } else if let Some(block) = cache.get(table.meta.id, handle.offset) {
            return Ok(block);
        } else if table.storage.account().scans_are_many() {
            // Just the block, whatever the seek has read.
            self.growth.restart();
            0
        } else {
            self.growth.next(&self.volume).min(lower.wanted_bytes(table, direction, &self.volume))
        };
        let block = self.window.block_or_read(table, handle, direction, ahead_bytes, Vec::new())?;
        let block = table.storage.share(block);
        let keeps_much = self.window.memory_bytes() > 2 * SEQUENTIAL_BYTES;
        if keeps_much || self.window.memory_bytes() > 0 && table.storage.account().scans_are_many() {
            self.window.release();
        }
        if self.growth.is_short() {
            cache.insert(table.meta.id, handle.offset, block.clone());
        }
        Ok(block)
    }
}

/// A place in the index: a lower index block, and one of its fences.
#[derive(Debug)]
struct LowerPlace {
    /// The block's fence in the top index.
    top: usize,
    fences: SharedFences,
    at: usize,
}

impl LowerPlace {
    /// The data block of the fence at which it stands.
    fn handle(&self) -> BlockHandle {
        self.fences.handle(self.at)
    }

    /// True if its fence is at or before a place: nothing that stands at the place or after is in
    /// blocks before.
    fn is_at_or_before(&self, table: &Table, (key, sequence): (&[u8], Sequence)) -> bool {
        match self.at {
            // Fences do not look at the first among them, which is that of the level above.
            0 => self.top <= table.index.top().floor(key, sequence),
            at => at <= self.fences.floor(key, sequence),
        }
    }

    /// How many bytes, from its block on in that direction, may be asked for at most by a scan.
    fn wanted_bytes(&self, table: &Table, direction: Direction, scan: &ScanVolume) -> usize {
        let end = match direction {
            Direction::Forward => scan.to(),
            Direction::Backward => scan.from(),
        };
        // Of what is below other index blocks, nothing is known here.
        let Some((key, sequence)) = end.filter(|end| table.index.top().floor(end.0, end.1) == self.top) else {
            return usize::MAX;
        };
        let last = self.fences.floor(key, sequence);
        let (low, high) = match direction {
            Direction::Forward => (self.at, last.max(self.at)),
            Direction::Backward => (last.min(self.at), self.at),
        };
        (self.fences.handle(high).end() - self.fences.handle(low).offset) as usize
    }
}

/// A loaded block and a place in it.
#[derive(Debug, Default)]
struct Standing {
    block: Option<(u64, SharedBlock)>,
    cursor: BlockCursor,
}

impl Standing {
    /// Holds a block, and stands nowhere in it yet.
    fn stand_before(&mut self, handle: &BlockHandle, block: SharedBlock) {
        self.cursor.leave();
        self.block = Some((handle.offset, block));
    }

    /// True if this block is loaded.
    fn holds(&self, handle: &BlockHandle) -> bool {
        self.block.as_ref().is_some_and(|&(offset, _)| offset == handle.offset)
    }

    /// Runs one motion of the cursor in the loaded block; an error names the block's offset.
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
    /// A cursor over all its entries.
    pub fn cursor(self: &Arc<Self>, read: ReadPolicy) -> TableCursor {
        self.cursor_with(Pieces::new(read, Arc::default(), false))
    }

    /// A cursor over all its entries that goes on reading as another one did.
    pub fn cursor_with(self: &Arc<Self>, mut pieces: Pieces) -> TableCursor {
        pieces.window.clear();
        let table = Arc::clone(self);
        TableCursor {
            table,
            pieces,
            lower: None,
            data: Standing::default(),
            left: None,
            wanted: None,
            is_prepared: false,
        }
    }
}

impl TableCursor {
    /// True if it stands on an entry.
    #[inline]
    pub fn stands(&self) -> bool {
        self.data.stands()
    }

    /// The block of the entry it stands on, so that the value can be kept without copying.
    pub fn block(&self) -> Option<&SharedBlock> {
        self.entry().and(self.data.block.as_ref().map(|(_, block)| block))
    }

    /// How it reads, for a cursor over the table that follows.
    pub fn into_pieces(self) -> Pieces {
        self.pieces
    }

    /// The next seek is a leap: where it leads, little is read at first.
    pub fn restart(&mut self) {
        self.pieces.growth.restart();
    }

    /// Does what a seek to `place` does, but for reading. True if it lacks something, and
    /// [`TableCursor::request`] would bring it; there may be more that it lacks then. The
    /// cursor stands nowhere until the seek, which must be to the same place.
    pub fn prepare(&mut self, place: Place<'_>) -> Result<bool> {
        self.data.leave();
        self.is_prepared = false;
        let (top, direction) = match place {
            Place::First => (0, Direction::Forward),
            Place::Last => (self.table.index.top().len() - 1, Direction::Backward),
            Place::From(key, sequence) => (self.table.index.top().floor(key, sequence), Direction::Forward),
            Place::Before(key, sequence) => (self.table.index.top().floor(key, sequence), Direction::Backward),
        };
        let handle = self.table.index.top().handle(top);
        let at_hand = self.stands_below(top) || self.pieces.window.holds(&handle) || self.table.lower(top).is_some();
        if !at_hand {
            return self.want(Some(top), handle, Direction::Forward, 0);
        }
        let lower = self.load_lower(top)?;
        lower.at = match place {
            Place::First => 0,
            Place::Last => lower.fences.len() - 1,
            Place::From(key, sequence) | Place::Before(key, sequence) => lower.fences.floor(key, sequence),
        };
        let handle = lower.handle();
        self.is_prepared = true;
        if self.data.holds(&handle) || self.pieces.window.holds(&handle) {
            return Ok(false);
        }
        if let Some(block) = self.table.cached(&handle) {
            self.data.stand_before(&handle, block);
            return Ok(false);
        }
        let lower = self.lower.as_ref().expect("it was loaded now or before");
        let ahead_bytes =
            self.pieces.growth.first().min(lower.wanted_bytes(&self.table, direction, &self.pieces.volume));
        self.want(None, handle, direction, ahead_bytes)
    }

    /// Notes what is to be read.
    fn want(&mut self, top: Option<usize>, handle: BlockHandle, direction: Direction, ahead: usize) -> Result<bool> {
        let (start, end) = piece_in(&self.table, &handle, direction, ahead)?;
        self.wanted = Some(Wanted { top, handle, start, end });
        Ok(true)
    }

    /// True if it stands in the index where the next seek leads.
    pub fn is_prepared(&self) -> bool {
        self.is_prepared
    }

    /// The read that [`TableCursor::prepare`] found necessary. [`TableCursor::arrived`] is told
    /// what came of it.
    ///
    /// # Panics
    /// If it found none.
    pub fn request(&self) -> ReadRequest {
        let wanted = self.wanted.as_ref().expect("only what lacks something asks for it");
        self.table.file.request(wanted.start, (wanted.end - wanted.start) as usize)
    }

    /// Takes in what the read brought. True if that was an index block, so that
    /// [`TableCursor::prepare`] gets further now. What failed, or is damaged, the seek will
    /// read again, and tell.
    pub fn arrived(&mut self, bytes: io::Result<&[u8]>) -> bool {
        let (Some(wanted), Ok(bytes)) = (self.wanted.take(), bytes) else { return false };
        let Wanted { top, handle, start, .. } = wanted;
        let at = (handle.offset - start) as usize;
        let reader = Reader::Scan;
        let Ok(block) = self.table.file.decode_block(&bytes[at..][..handle.bytes], &handle, Vec::new(), reader) else {
            return false;
        };
        if let Some(top) = top {
            let Ok(fences) = self.table.decode_lower(top, &block, reader) else { return false };
            self.table.keep_lower(top, &fences);
            self.lower = Some(LowerPlace { top, fences, at: 0 });
            return true;
        }
        let block = self.table.storage.share(block);
        self.table.storage.cache().insert(self.table.id(), handle.offset, block.clone());
        self.data.stand_before(&handle, block);
        self.pieces.growth.arrived();
        // The block itself is not needed any more.
        let (before, after) = (&bytes[..at], &bytes[at + handle.bytes..]);
        if after.is_empty() {
            self.pieces.window.give(&self.table, start, before);
        } else {
            self.pieces.window.give(&self.table, handle.end(), after);
        }
        false
    }

    /// What its table is read by.
    pub fn storage(&self) -> &Arc<TableStorage> {
        &self.table.storage
    }

    /// True if the lower index block of the fence `top` is loaded.
    fn stands_below(&self, top: usize) -> bool {
        self.lower.as_ref().is_some_and(|lower| lower.top == top)
    }

    /// Loads the lower index block of the fence `top`, if another one is loaded.
    fn load_lower(&mut self, top: usize) -> Result<&mut LowerPlace> {
        if !self.stands_below(top) {
            self.lower = None;
            let fences = self.pieces.lower(&self.table, top)?;
            self.lower = Some(LowerPlace { top, fences, at: 0 });
        }
        Ok(self.lower.as_mut().expect("it was loaded now or before"))
    }

    /// Loads the data block of the fence at which the cursor stands in the index.
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

    /// Goes to the only data block that can hold the place.
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

    /// Goes to the next fence; false if there is none, or nothing below it is asked for.
    fn next_fence(&mut self) -> Result<bool> {
        let to = self.pieces.volume.to();
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

    /// Goes to the fence before; false if there is none, or nothing below it is asked for.
    fn previous_fence(&mut self) -> Result<bool> {
        let lower = self.lower.as_mut().expect("a cursor that leaves a data block stands in the index");
        if let Some(from) = self.pieces.volume.from()
            && lower.is_at_or_before(&self.table, from)
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

    /// Goes to the next data block that has entries, if there is one, and to its first.
    fn first_of_next_block(&mut self) -> Result<()> {
        while !self.data.stands() && self.next_fence()? {
            self.load_data(Direction::Forward)?;
            self.data.go(&self.table, BlockCursor::step_into_first)?;
        }
        Ok(())
    }

    /// Goes to the data block before, if there is one, and to its last entry.
    fn last_of_previous_block(&mut self) -> Result<()> {
        while !self.data.stands() && self.previous_fence()? {
            self.load_data(Direction::Backward)?;
            self.data.go(&self.table, BlockCursor::step_into_last)?;
        }
        Ok(())
    }

    /// Ends a seek: nothing is known of what was left.
    fn land(&mut self, result: Result<()>) -> Result<()> {
        self.data.cursor.leapt();
        self.settle(result)
    }

    /// After an error the cursor stands nowhere.
    fn settle(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.data.leave();
        }
        result
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
        self.descend(key, sequence, Direction::Forward)?;
        self.data.go(&self.table, |cursor, block| cursor.seek(block, key, sequence))?;
        self.first_of_next_block()
    }

    fn try_seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.descend(key, sequence, Direction::Backward)?;
        self.data.go(&self.table, |cursor, block| cursor.seek_before(block, key, sequence))?;
        self.last_of_previous_block()
    }

    /// Goes on to the block before, and keeps the one that it leaves.
    #[cold]
    fn leave_block_backward(&mut self) -> Result<()> {
        self.left = self.data.block.as_ref().map(|(_, block)| block.clone());
        let result = self.last_of_previous_block();
        self.settle(result)
    }

    /// Goes on to the block after.
    #[cold]
    fn leave_block_forward(&mut self) -> Result<()> {
        let result = self.first_of_next_block();
        self.settle(result)
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
        self.data.entry()
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
