//! [`TableCursor`]: a walk over a table's entries, in both directions.
//!
//! It holds one lower index block and one data block, each with a place in it. Seeks go down through the fences; steps past the
//! end of a data block go to the neighbour by the index. A cursor that stays in one block reads nothing.

use std::sync::Arc;

use super::reader::Table;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::block::{Block, BlockCursor};
use crate::format::stored::{BlockHandle, Flaw};
use crate::merge::Source;

/// How a cursor reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPolicy {
    /// Each block by itself, through the block cache: for queries.
    Cached,
    /// Large pieces that do not pass through the cache: for merges and for whole scans, which would only drive out what queries need.
    Sequential,
}

/// What a sequential cursor reads at first. Each further read is twice as large, up to [`READ_BYTES_MAX`]: merges open their cursors anew at
/// each handover, and what a cursor has read ahead then is read once more.
const READ_BYTES_MIN: usize = 32 << 10;

/// What a sequential cursor reads at once when it has been on its way for a while: large enough that a disk with a seek of 8 ms still reads at
/// 60 MB/s.
const READ_BYTES_MAX: usize = 512 << 10;

/// A walk over a table. See [`Source`] for where it stands when.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    /// The bytes around the data block, for a sequential cursor.
    window: Option<Window>,
    /// The fence of `lower`, if that is loaded.
    top: usize,
    lower: Standing,
    data: Standing,
}

/// A loaded block and a place in it.
#[derive(Debug, Default)]
struct Standing {
    block: Option<(u64, Arc<Block>)>,
    cursor: BlockCursor,
}

impl Standing {
    /// Runs one motion of the cursor in the loaded block; an error names the block's offset.
    #[inline]
    fn go(&mut self, table: &Table, motion: impl FnOnce(&mut BlockCursor, &Block) -> Result<(), Flaw>) -> Result<()> {
        let (offset, block) = self.block.as_ref().expect("a block is loaded before a cursor moves in it");
        let result = motion(&mut self.cursor, block);
        if result.is_err() {
            self.cursor.leave();
        }
        result.map_err(|flaw| table.file.flaw(flaw, *offset))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (_, block) = self.block.as_ref()?;
        self.cursor.entry(block)
    }

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
        let window = (read == ReadPolicy::Sequential).then(Window::default);
        let table = Arc::clone(self);
        TableCursor { table, window, top: 0, lower: Standing::default(), data: Standing::default() }
    }
}

impl TableCursor {
    /// The block of the entry it stands on, so that the value can be kept without copying.
    pub fn block(&self) -> Option<&Arc<Block>> {
        self.entry().and(self.data.block.as_ref().map(|(_, block)| block))
    }

    /// Loads the lower index block of the fence `top`.
    fn load_lower(&mut self, top: usize) -> Result<()> {
        let handle = *self.table.fences.handle(top);
        self.top = top;
        if self.lower.block.as_ref().is_none_or(|&(offset, _)| offset != handle.offset) {
            self.lower.leave();
            self.lower.block = None;
            let block = match self.window {
                None => self.table.cached_block(&handle)?,
                Some(_) => Arc::new(self.table.file.read_block(&handle)?),
            };
            self.lower.block = Some((handle.offset, block));
        }
        Ok(())
    }

    /// Loads the data block whose fence the lower cursor stands on.
    fn load_data(&mut self, direction: Direction) -> Result<()> {
        self.data.leave();
        let lower_offset = self.table.fences.handle(self.top).offset;
        let handle = match self.lower.entry() {
            Some(fence) => BlockHandle::decode(fence.value),
            None => Err(Flaw::Damaged("an index block begins after its fence")),
        };
        let handle = handle.map_err(|flaw| self.table.file.flaw(flaw, lower_offset))?;
        if self.data.block.as_ref().is_none_or(|&(offset, _)| offset != handle.offset) {
            let left = self.data.block.take();
            let block = match &mut self.window {
                None => self.table.cached_block(&handle)?,
                Some(window) => {
                    // The block it leaves gives its space to the next one, unless somebody holds on to a value in it.
                    let space = left.and_then(|(_, block)| Arc::into_inner(block)).map(Block::into_bytes);
                    Arc::new(window.block(&self.table, &handle, direction, space.unwrap_or_default())?)
                }
            };
            self.data.block = Some((handle.offset, block));
        }
        Ok(())
    }

    /// Goes to the only data block that can hold the place.
    fn descend(&mut self, key: &[u8], sequence: Sequence, direction: Direction) -> Result<()> {
        self.data.leave();
        self.load_lower(self.table.fences.floor(key, sequence))?;
        self.lower.go(&self.table, |cursor, block| cursor.seek_floor(block, key, sequence))?;
        self.load_data(direction)
    }

    /// Goes to the next data block that has entries, if there is one, and to its first.
    fn first_of_next_block(&mut self) -> Result<()> {
        while !self.data.stands() {
            self.lower.go(&self.table, BlockCursor::next)?;
            if !self.lower.stands() {
                if self.top + 1 == self.table.fences.len() {
                    return Ok(());
                }
                self.load_lower(self.top + 1)?;
                self.lower.go(&self.table, BlockCursor::seek_first)?;
            }
            self.load_data(Direction::Forward)?;
            self.data.go(&self.table, BlockCursor::seek_first)?;
        }
        Ok(())
    }

    /// Goes to the data block before, if there is one, and to its last entry.
    fn last_of_previous_block(&mut self) -> Result<()> {
        while !self.data.stands() {
            self.lower.go(&self.table, BlockCursor::prev)?;
            if !self.lower.stands() {
                if self.top == 0 {
                    return Ok(());
                }
                self.load_lower(self.top - 1)?;
                self.lower.go(&self.table, BlockCursor::seek_last)?;
            }
            self.load_data(Direction::Backward)?;
            self.data.go(&self.table, BlockCursor::seek_last)?;
        }
        Ok(())
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
        self.load_lower(0)?;
        self.lower.go(&self.table, BlockCursor::seek_first)?;
        self.load_data(Direction::Forward)?;
        self.data.go(&self.table, BlockCursor::seek_first)
    }

    fn try_seek_last(&mut self) -> Result<()> {
        self.data.leave();
        self.load_lower(self.table.fences.len() - 1)?;
        self.lower.go(&self.table, BlockCursor::seek_last)?;
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

    #[inline]
    fn try_next(&mut self) -> Result<()> {
        self.data.go(&self.table, BlockCursor::next)?;
        if self.data.stands() { Ok(()) } else { self.first_of_next_block() }
    }

    #[inline]
    fn try_prev(&mut self) -> Result<()> {
        self.data.go(&self.table, BlockCursor::prev)?;
        if self.data.stands() { Ok(()) } else { self.last_of_previous_block() }
    }
}

impl Source for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        let result = self.try_seek_first();
        self.settle(result)
    }

    fn seek_last(&mut self) -> Result<()> {
        let result = self.try_seek_last();
        self.settle(result)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let result = self.try_seek(key, sequence);
        self.settle(result)
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        let result = self.try_seek_before(key, sequence);
        self.settle(result)
    }

    fn next(&mut self) -> Result<()> {
        let result = self.try_next();
        self.settle(result)
    }

    fn prev(&mut self) -> Result<()> {
        let result = self.try_prev();
        self.settle(result)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.data.entry()
    }
}

/// Which way a cursor goes, and so on which side of a block more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// A piece of the file in memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    offset: u64,
    bytes: Vec<u8>,
    /// How much was read last.
    read_bytes: usize,
}

impl Window {
    /// A block, from the window; if it is not there, the window moves so that it holds the block and what comes next. The block is put into
    /// `space`, whatever that holds.
    pub(super) fn block(
        &mut self,
        table: &Table,
        handle: &BlockHandle,
        direction: Direction,
        space: Vec<u8>,
    ) -> Result<Block> {
        table.file.check_inside(handle)?;
        if handle.bytes >= READ_BYTES_MAX {
            return table.file.read_block(handle);
        }
        if !self.holds(handle) {
            self.fill(table, handle, direction)?;
        }
        let start = (handle.offset - self.offset) as usize;
        table.file.decode_block(&self.bytes[start..][..handle.bytes], handle, space)
    }

    fn holds(&self, handle: &BlockHandle) -> bool {
        handle.offset >= self.offset && handle.end() <= self.offset + self.bytes.len() as u64
    }

    fn fill(&mut self, table: &Table, handle: &BlockHandle, direction: Direction) -> Result<()> {
        self.read_bytes = (2 * self.read_bytes).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        let bytes = self.read_bytes as u64;
        let (start, end) = match direction {
            // Nothing is gained by reading on into the index.
            Direction::Forward => (handle.offset, (handle.offset + bytes).min(table.data_end())),
            Direction::Backward => (handle.end().saturating_sub(bytes), handle.end()),
        };
        let end = end.max(handle.end());
        self.bytes.resize((end - start) as usize, 0);
        self.offset = start;
        let result = table.file.read_into(&mut self.bytes, start);
        if result.is_err() {
            self.bytes.clear();
        }
        result
    }
}
