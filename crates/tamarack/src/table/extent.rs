//! How many bytes of a table's data lie in a range of keys, by its fence pointers.
//!
//! ```text
//! fences          a       d       g       k       p
//! data blocks     ├───────┼───────┼───────┼───────┼───────┤
//! range                 c├─────────────────┤m
//! counted         ├───────────────────────────────┤
//! ```
//!
//! A fence is at or before the first entry of its block, and after all of the blocks before it. So
//! every block with an entry of the range is counted; the first and the last one may have none.

use super::reader::Table;
use crate::entry::Sequence;
use crate::error::Result;
use crate::format::key_range::KeyRange;
use crate::format::stored::BlockHandle;
use crate::stats::Reader;

impl Table {
    /// Returns the bytes of the data blocks between those that can have the first and the last
    /// entry of `range`, both included. Reads no data block.
    ///
    /// # Errors
    /// If a lower index block is not in memory, and cannot be read.
    pub fn data_bytes_within(&self, range: &KeyRange) -> Result<u64> {
        let first = self.data_block_of(range.from.as_deref().unwrap_or_default())?;
        let end = match &range.to {
            Some(to) => self.data_block_of(to)?.end(),
            None => self.data_end(),
        };
        Ok(end.saturating_sub(first.offset))
    }

    /// Returns the block that has the first entry at or after `key`, unless the next block begins
    /// with that. All entries before `key` are in it or before it.
    fn data_block_of(&self, key: &[u8]) -> Result<BlockHandle> {
        let top = self.index.top().floor(key, Sequence::MAX);
        let lower = self.lower_or_read(top, Reader::Upkeep)?;
        Ok(lower.handle(lower.floor(key, Sequence::MAX)))
    }
}
