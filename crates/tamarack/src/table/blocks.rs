//! [`Blocks`]: the blocks of many concurrent lookups. A lookup that lacks a block returns it as a
//! read request, and is repeated when the block has arrived.
//!
//! ```text
//! lookups a b c d ──► a: found   b: lacks X   c: lacks Y   d: lacks X, already requested
//!                     X arrives ──► b and d again      Y arrives ──► c again
//! ```
//!
//! Tests: `tests/suite/reads.rs`, by `Db::multi_get`.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack_env::{ByteBuffer, ReadRequest};

use super::approach::Approach;
use super::index::{DataBlockPosition, Lower};
use super::reader::{Fetch, FoundBlock, Table};
use super::storage::TableStorage;
use crate::cache::{Holder, LowerBlock, SharedLower};
use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::format::SharedBlock;
use crate::format::meta::TableId;
use crate::format::stored::BlockHandle;
use crate::stats::{LookupTally, Reader};

/// The size from which a block is read by itself, at once: it takes as long as many others, and
/// should not be in memory twice.
const BLOCK_BYTES_MAX: usize = 256 << 10;

/// The blocks of many lookups: those read for them, cached or not, and those requested.
#[derive(Debug, Default)]
pub struct Blocks {
    known: BTreeMap<BlockName, LackingBlock>,
    /// The block that the last lookup lacked.
    noted: Option<(BlockHandle, Option<usize>)>,
    /// True if a block was read by itself.
    has_large: bool,
    /// The counts of the lookups.
    pub tally: LookupTally,
}

/// A block's table and offset.
pub type BlockName = (TableId, u64);

/// A block that some lookup lacked: awaited, or read.
#[derive(Debug)]
enum LackingBlock {
    Awaited,
    Data(SharedBlock),
    Lower(SharedLower),
}

/// A block to be read.
#[derive(Debug)]
pub struct Lacking {
    table: Arc<Table>,
    handle: BlockHandle,
    /// Its fence in the top index, if it is a lower index block.
    top: Option<usize>,
}

/// The state of a lookup in one table.
#[derive(Debug)]
pub enum SearchProgress {
    /// The lookup has ended with the visitor's last result.
    Ended(ControlFlow<()>),
    /// The lookup lacks a block that is not requested yet.
    Lacks(Lacking),
    /// The lookup lacks a block that is requested already.
    Awaits(BlockName),
}

impl Blocks {
    fn lower<'t>(&mut self, table: &'t Table, top: usize) -> Result<Option<Lower<'t>>> {
        if let Some(lower) = table.lower(top) {
            return Ok(Some(lower));
        }
        let handle = table.index.top().handle(top);
        if let Some(LackingBlock::Lower(lower)) = self.known.get(&(table.id(), handle.offset)) {
            return Ok(Some(Lower::Shared(lower.clone())));
        }
        table.file.check_inside(&handle)?;
        self.noted = Some((handle, Some(top)));
        Ok(None)
    }

    #[inline]
    fn data_block(&mut self, table: &Table, lower: &LowerBlock, at: usize) -> Result<Option<FoundBlock>> {
        if self.known.is_empty()
            && let Some(block) = lower.cached(at)
        {
            self.tally.data_block_cached();
            return Ok(Some(FoundBlock::Cached(block)));
        }
        self.known_or_cached(table, lower, at)
    }

    fn known_or_cached(&mut self, table: &Table, lower: &LowerBlock, at: usize) -> Result<Option<FoundBlock>> {
        let handle = &lower.handle(at);
        let name = (table.id(), handle.offset);
        let is_awaited = match self.known.get(&name) {
            Some(LackingBlock::Data(block)) => return Ok(Some(FoundBlock::Read(block.clone()))),
            known => known.is_some(),
        };
        if !is_awaited {
            if let Some(block) = lower.cached(at) {
                self.tally.data_block_cached();
                return Ok(Some(FoundBlock::Cached(block)));
            }
            table.file.check_inside(handle)?;
            self.tally.data_block_read();
            if handle.bytes > BLOCK_BYTES_MAX {
                let block = table.read_for_lookup(handle, Reader::MultiGet, self.has_large)?;
                self.has_large = true;
                self.known.insert(name, LackingBlock::Data(block.clone()));
                return Ok(Some(FoundBlock::Read(block)));
            }
        }
        self.noted = Some((*handle, None));
        Ok(None)
    }
}

/// A lookup of many, with the way that it has come.
struct Approached<'a, 't> {
    blocks: &'a mut Blocks,
    approach: &'a mut Approach<'t>,
}

impl<'t> Fetch<'t> for Approached<'_, 't> {
    fn lower(&mut self, table: &'t Table, top: usize) -> Result<Option<Lower<'t>>> {
        self.blocks.lower(table, top)
    }

    #[inline]
    fn approached(&mut self, table: &'t Table) -> Option<(Lower<'t>, DataBlockPosition)> {
        self.approach.take(table)
    }

    #[inline]
    fn data_block(&mut self, table: &Table, lower: &LowerBlock, at: usize) -> Result<Option<FoundBlock>> {
        self.blocks.data_block(table, lower, at)
    }

    fn tally(&self) -> &LookupTally {
        &self.blocks.tally
    }
}

impl Table {
    /// Begins the way of a lookup to its data block.
    #[inline]
    pub fn approach<'t>(&'t self, query: Query<'t>) -> Approach<'t> {
        Approach::begin(self, query.key(), self.sequence_in_file(query))
    }

    /// As [`Table::search`], but never blocks on a read; takes over from the `approach`, which is
    /// to this table. When the block that it lacks has arrived ([`Blocks::arrived`]), a repeated
    /// call continues; it visits the earlier versions again.
    pub fn search_from<'t>(
        self: &'t Arc<Self>,
        blocks: &mut Blocks,
        query: Query<'_>,
        is_filtered: bool,
        approach: &mut Approach<'t>,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<SearchProgress> {
        let fetch = &mut Approached { blocks, approach };
        if let Some(flow) = self.search_with(query, is_filtered, fetch, visit)? {
            return Ok(SearchProgress::Ended(flow));
        }
        let (handle, top) = blocks.noted.take().expect("a lookup that does not end lacks a block");
        let name = (self.id(), handle.offset);
        if blocks.known.contains_key(&name) {
            return Ok(SearchProgress::Awaits(name));
        }
        blocks.known.insert(name, LackingBlock::Awaited);
        Ok(SearchProgress::Lacks(Lacking { table: self.clone(), handle, top }))
    }
}

impl Lacking {
    /// The block's table and offset.
    pub fn name(&self) -> BlockName {
        (self.table.id(), self.handle.offset)
    }

    /// The read request for the block.
    ///
    /// # Errors
    /// If the table's file was closed and cannot be opened again.
    pub fn request(&self) -> Result<ReadRequest> {
        let (start, end) = match self.top {
            Some(top) => self.table.lower_piece(top)?,
            None => (self.handle.offset, self.handle.end()),
        };
        self.table.file.request(start, (end - start) as usize)
    }

    /// The storage to read it with.
    pub fn storage(&self) -> Arc<TableStorage> {
        self.table.storage.clone()
    }
}

impl Blocks {
    /// Adds a block that was read.
    ///
    /// # Errors
    /// If the read failed, or the block is damaged.
    pub fn arrived(&mut self, lacking: &Lacking, bytes: io::Result<&[u8]>) -> Result<()> {
        let Lacking { table, handle, top } = lacking;
        let bytes = bytes.map_err(|error| table.file.read_error(error, handle.offset))?;
        let block = match *top {
            // Each lookup that finds something in it offers that to the cache.
            None => {
                let block = table.file.decode_block(bytes, handle, ByteBuffer::new(), Reader::MultiGet)?;
                LackingBlock::Data(table.storage.share(block))
            }
            Some(top) => LackingBlock::Lower(table.take_lower(top, bytes, Reader::MultiGet)?),
        };
        self.known.insert(lacking.name(), block);
        Ok(())
    }
}
