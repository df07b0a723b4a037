//! Lower index blocks of a table: which of them one read loads, and where they are kept.
//!
//! ```text
//! lower blocks   │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ …    one after the other in the file
//!                    ├───────────────┤          what a lookup reads that lacks 1: as many as may
//!                                               become resident, up to `LOWER_BYTES`
//! ```
//!
//! They are in memory before they are needed as long as seven eighths of the budget last: the
//! builder of a table leaves them ([`WrittenTable`](super::WrittenTable)), and background work
//! loads those of other tables in large pieces ([`Table::load_lower`]). Beyond that, a lookup reads
//! what it lacks, together with those that follow: each is used by many more. Where the budget for
//! resident blocks is used up, only the block itself is read, and goes to the cache.
//!
//! Compactions read them in pieces of the same size, and keep none.

use tamarack_env::ByteBuffer;

use super::index::Lower;
use super::reader::Table;
use crate::cache::{LowerBlock, SharedLower};
use crate::error::Result;
use crate::format::block::Block;
use crate::format::fences::Fences;
use crate::memory::{Charged, MemoryPart};
use crate::stats::Reader;

/// Upper bound on the lower index blocks that are read together, in bytes: those of about eight
/// MiB of data.
pub(super) const LOWER_BYTES: u64 = 64 << 10;

/// Upper bound on the lower index blocks that background work reads together, in bytes: a few
/// milliseconds of a disk, and much less of an SSD.
const LOADED_BYTES: u64 = 512 << 10;

/// What an attempt to load something that nobody has asked for yet has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// It has loaded something; there may be more.
    Some,
    /// There was nothing to load.
    Nothing,
    /// The budget for resident lower index blocks is used up, but for the part that lookups take.
    BudgetUsedUp,
}

impl Table {
    /// The lower index block of the fence `top`, if it is resident or in the cache.
    #[inline]
    pub(super) fn lower(&self, top: usize) -> Option<Lower<'_>> {
        match self.index.resident(top) {
            Some(lower) => Some(Lower::Resident(lower)),
            None => self.index.cached().cached(top).map(Lower::Shared),
        }
    }

    /// The lower index block of the fence `top`; read and kept if it was not in memory.
    #[inline]
    pub(super) fn lower_or_read(&self, top: usize, reader: Reader) -> Result<Lower<'_>> {
        match self.lower(top) {
            Some(lower) => Ok(lower),
            None => self.read_lower(top, reader).map(Lower::Shared),
        }
    }

    #[cold]
    fn read_lower(&self, top: usize, reader: Reader) -> Result<SharedLower> {
        let (start, end) = self.lower_piece(top)?;
        let alone = self.index.top().handle(top).bytes;
        let bytes = match self.file.read(start, (end - start) as usize, reader) {
            // It may be a neighbour that cannot be read.
            Err(_) if (end - start) as usize > alone => self.file.read(start, alone, reader)?,
            read => read?,
        };
        self.take_lower(top, &bytes, reader)
    }

    /// The range of bytes to read for the lower index block of the fence `top`: from its beginning
    /// on, with those that follow and may become resident.
    ///
    /// # Errors
    /// If the block is not inside the file.
    pub(super) fn lower_piece(&self, top: usize) -> Result<(u64, u64)> {
        self.piece_of_lower(top, LOWER_BYTES.min(self.storage.index_budget().left_bytes()))
    }

    /// As [`Table::lower_piece`], of at most `bytes_max`, but always with the first block.
    fn piece_of_lower(&self, top: usize, bytes_max: u64) -> Result<(u64, u64)> {
        let fences = self.index.top();
        let first = fences.handle(top);
        self.file.check_inside(&first)?;
        let mut end = first.end();
        for at in top + 1..fences.len() {
            let next = fences.handle(at);
            let follows = next.offset == end && self.file.check_inside(&next).is_ok();
            if !follows || next.end() - first.offset > bytes_max || self.index.resident(at).is_some() {
                break;
            }
            end = next.end();
        }
        Ok((first.offset, end))
    }

    /// Returns the lower index block of the fence `top`, and keeps it and those that follow it in
    /// `bytes`, which were read from its beginning on. If another thread has kept one before,
    /// returns that: lookups find data blocks by it.
    ///
    /// # Errors
    /// If it is damaged. Damage of the others is reported to whoever needs them.
    pub(super) fn take_lower(&self, top: usize, bytes: &[u8], reader: Reader) -> Result<SharedLower> {
        let mut blocks = self.lower_in(top, bytes, reader);
        let (_, first) = blocks.next().expect("what was read has at least one block");
        let first = first?;
        let first = self.keep_lower(top, first);
        for (at, lower) in blocks {
            let Ok(lower) = lower else { break };
            if self.index.keep(at, &lower, self.storage.index_budget()).is_none() {
                break;
            }
        }
        Ok(first)
    }

    /// The lower index blocks in `bytes`, which were read for `reader` from the beginning of that
    /// of the fence `first` on. Each is decoded when it is asked for.
    fn lower_in<'t>(
        &'t self,
        first: usize,
        bytes: &'t [u8],
        reader: Reader,
    ) -> impl Iterator<Item = (usize, Result<SharedLower>)> + 't {
        let start = self.index.top().handle(first).offset;
        (first..self.index.top().len()).map_while(move |top| {
            let handle = self.index.top().handle(top);
            let from = usize::try_from(handle.offset.checked_sub(start)?).ok()?;
            let stored = bytes.get(from..from.checked_add(handle.bytes)?)?;
            let block = self.file.decode_block(stored, &handle, ByteBuffer::new(), reader);
            Some((top, block.and_then(|block| self.decode_lower(top, &block, reader))))
        })
    }

    /// Loads lower index blocks that nobody has asked for yet, in one read of bounded size.
    ///
    /// # Errors
    /// If they cannot be read, or one is damaged.
    pub fn load_lower(&self) -> Result<Loaded> {
        let Some(first) = self.index.first_lacking() else { return Ok(Loaded::Nothing) };
        let budget = self.storage.index_budget();
        let bytes_max = LOADED_BYTES.min(budget.left_unasked_bytes());
        let (start, end) = self.piece_of_lower(first, bytes_max)?;
        if end - start > bytes_max {
            return Ok(if bytes_max < LOADED_BYTES { Loaded::BudgetUsedUp } else { Loaded::Nothing });
        }
        let bytes = self.file.read(start, (end - start) as usize, Reader::Upkeep)?;
        for (top, lower) in self.lower_in(first, &bytes, Reader::Upkeep) {
            if self.index.keep_unasked(top, &lower?, budget).is_none() {
                return Ok(Loaded::BudgetUsedUp);
            }
        }
        Ok(Loaded::Some)
    }

    /// Makes lower index blocks resident that the table's builder left, as they are stored.
    pub(super) fn keep_written(&self, lower: &[ByteBuffer]) {
        for (top, stored) in lower.iter().enumerate() {
            let handle = self.index.top().handle(top);
            let block = self.file.open_in_memory(stored, &handle);
            let lower = match block.and_then(|block| self.lower_of(top, &block)) {
                Ok(lower) => lower,
                Err(error) => {
                    // The file may be sound: whoever needs the block reads it.
                    tracing::error!(%error, "an index block was damaged in memory after it was written");
                    return;
                }
            };
            if self.index.keep_unasked(top, &lower, self.storage.index_budget()).is_none() {
                return;
            }
        }
    }

    /// Decodes the lower index block of the fence `top`, which was read for `reader`.
    pub(super) fn decode_lower(&self, top: usize, block: &Block, reader: Reader) -> Result<SharedLower> {
        self.file.counters().of(reader).index_blocks.add(1);
        self.lower_of(top, block)
    }

    fn lower_of(&self, top: usize, block: &Block) -> Result<SharedLower> {
        let (key, sequence) = self.index.top().place(top);
        let fences = Fences::decode(block, (&key, sequence));
        let offset = self.index.top().handle(top).offset;
        let fences = fences.map_err(|flaw| self.file.flaw(flaw, offset))?;
        let lower = self.storage.cache().lower_block(self.id(), offset, fences);
        Ok(Charged::share(lower, LowerBlock::memory_bytes, Some(self.storage.account()), MemoryPart::Blocks))
    }

    /// Makes a lower index block resident, or else caches it. Returns the one that lookups find.
    fn keep_lower(&self, top: usize, lower: SharedLower) -> SharedLower {
        match self.index.keep(top, &lower, self.storage.index_budget()) {
            Some(resident) => resident.clone(),
            None => self.storage.cache().insert_lower(self.index.cached(), top, lower),
        }
    }

    /// The offset where the lower index blocks end.
    pub(super) fn lower_end(&self) -> u64 {
        self.index.top().handle(self.index.top().len() - 1).end()
    }
}
