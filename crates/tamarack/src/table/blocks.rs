//! [`Blocks`]: where many lookups get their blocks together. They say what they lack, and are asked again when it is there.
//!
//! ```text
//! lookups a b c d ──► a: found   b: lacks X   c: lacks Y   d: lacks X ──► one batch: X, Y ──► b, c and d again
//! ```
//!
//! Tests: `tests/reads.rs`, by `Db::multi_get`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack_env::ReadRequest;

use super::index::Lower;
use super::reader::{Fetch, Table};
use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::format::block::Block;
use crate::format::fences::Fences;
use crate::format::meta::TableId;
use crate::format::stored::BlockHandle;
use crate::stats::{LookupCounts, Reader};

/// The blocks of many lookups: those that were read for them, whether the cache keeps them or not, and those that they lack.
#[derive(Debug, Default)]
pub struct Blocks {
    here: BTreeMap<Name, Arc<Block>>,
    lower_here: BTreeMap<Name, Arc<Fences>>,
    lacking: BTreeMap<Name, (Arc<Table>, Lacking)>,
    /// What the last lookup lacked.
    noted: Option<Lacking>,
    /// What the lookups did.
    pub counts: LookupCounts,
}

/// A block's table and offset.
type Name = (TableId, u64);

/// A block that a lookup lacks.
#[derive(Clone, Copy, Debug)]
struct Lacking {
    handle: BlockHandle,
    /// Its fence in the top index, if it is a lower index block.
    top: Option<usize>,
}

impl Fetch for Blocks {
    fn lower<'t>(&mut self, table: &'t Table, top: usize) -> Result<Option<Lower<'t>>> {
        let handle = table.index.top().handle(top);
        let here = self.lower_here.get(&(table.id(), handle.offset)).cloned().map(Lower::Shared);
        let lower = here.or_else(|| table.lower(top));
        if lower.is_none() {
            self.note(table, Lacking { handle, top: Some(top) })?;
        }
        Ok(lower)
    }

    fn data_block(&mut self, table: &Table, handle: &BlockHandle) -> Result<Option<Arc<Block>>> {
        let here = self.here.get(&(table.id(), handle.offset)).cloned();
        let block = here.or_else(|| table.cached(handle));
        if block.is_none() {
            self.note(table, Lacking { handle: *handle, top: None })?;
            let is_new = !self.lacking.contains_key(&(table.id(), handle.offset));
            self.counts.data_blocks_read += u64::from(is_new);
        }
        Ok(block)
    }

    fn counts(&mut self) -> &mut LookupCounts {
        &mut self.counts
    }
}

impl Table {
    /// As [`Table::get`], but reads nothing: `None` if it lacks a block, which is noted in `blocks`. After [`Blocks::read_lacking`] it gets further; what was visited
    /// is visited again then.
    pub fn get_from(
        self: &Arc<Self>,
        blocks: &mut Blocks,
        query: Query<'_>,
        visit: &mut dyn FnMut(Entry<'_>, &Arc<Block>) -> ControlFlow<()>,
    ) -> Result<Option<ControlFlow<()>>> {
        let flow = self.ask(query, blocks, visit)?;
        if let Some(lacking) = blocks.noted.take() {
            blocks.lacking.insert((self.id(), lacking.handle.offset), (self.clone(), lacking));
        }
        Ok(flow)
    }
}

impl Blocks {
    fn note(&mut self, table: &Table, lacking: Lacking) -> Result<()> {
        table.file.check_inside(&lacking.handle)?;
        self.noted = Some(lacking);
        Ok(())
    }

    /// Reads all that lookups lack, in one batch; says whether there was anything.
    ///
    /// # Errors
    /// That of the first block, by table and offset, that cannot be read or is damaged.
    pub fn read_lacking(&mut self) -> Result<bool> {
        let lacking = std::mem::take(&mut self.lacking);
        let Some((first, _)) = lacking.values().next() else { return Ok(false) };
        let mut memory: Vec<_> = lacking.values().map(|(_, lacking)| vec![0; lacking.handle.bytes]).collect();
        let requests = lacking.values().zip(&mut memory);
        let requests = requests
            .map(|((table, lacking), memory)| ReadRequest::new(table.file.file(), lacking.handle.offset, memory));
        let outcomes = first.storage.read_together(Reader::MultiGet, requests.collect());
        for (((name, (table, Lacking { handle, top })), outcome), bytes) in lacking.iter().zip(outcomes).zip(memory) {
            outcome.map_err(|error| table.file.read_error(error, handle.offset))?;
            let block = table.file.decode_block(&bytes, handle, Vec::new(), Reader::MultiGet)?;
            if let Some(top) = *top {
                let fences = table.decode_lower(top, &block)?;
                table.keep_lower(top, &fences);
                self.lower_here.insert(*name, fences);
            } else {
                let block = table.storage.share(block);
                table.storage.cache().insert(table.id(), handle.offset, block.clone());
                self.here.insert(*name, block);
            }
        }
        Ok(true)
    }
}
