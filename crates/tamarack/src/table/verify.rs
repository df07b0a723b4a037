//! [`Table::verify`]: reads a whole table and checks all its invariants.
//!
//! 1. Every byte before the footer belongs to exactly one block: data, lower index, digests,
//!    filter, properties, top index, in this order.
//! 2. Every block matches its checksum, in its trailer and in its index entry.
//! 3. Every fence is after the last entry before its block, and at or before its block's first
//!    entry.
//! 4. Entries ascend strictly, and the restarts of a block lead to all of them.
//! 5. The filter, read anew, is positive for every key of the table; the digests are those of its
//!    keys, and no others.
//! 6. The properties match the entries, and the manifest.

use tamarack_env::ByteBuffer;
use tamarack_filter::{Builder, Digest, DigestSet, Filter};

use super::reader::Table;
use super::window::{Direction, SEQUENTIAL_BYTES, Window};
use crate::entry::{self, Sequence};
use crate::error::Result;
use crate::format::block::{Block, BlockCursor};
use crate::format::stored::{BlockHandle, Flaw};
use crate::format::table::Properties;
use crate::stats::Reader;

impl Table {
    /// Reads the whole table, past the cache, and checks every checksum, the order of entries, the
    /// index, and the properties. Calls `progress` after each piece with the number of bytes
    /// checked since the last call; they add up to the file's length.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let filter = self.file.filter(&self.footer, &self.meta, &[])?;
        let mut counted = Properties::default();
        if filter.is_some() {
            (counted.filter_kind, counted.filter_bits) = (self.meta.filter_kind, self.meta.filter_bits);
        }
        let window = Window::new(Reader::Upkeep);
        let seen = self.footer.digests.is_some().then(Builder::new);
        let mut walk = Walk { table: self, progress, window, last: None, filter, seen, counted };
        let mut data_end = 0;
        let mut index_end = self.data_end();
        for top in 0..self.index.top().len() {
            let handle = self.index.top().handle(top);
            walk.expect_at(&handle, index_end)?;
            index_end = handle.end();
            let lower = self.file.read_block(&handle, Reader::Upkeep)?;
            let (key, sequence) = self.index.top().place(top);
            data_end = walk.lower_block(&lower, &handle, (&key, sequence), data_end)?;
        }
        if data_end != self.data_end() {
            return Err(self
                .file
                .corruption(data_end, "there are bytes between data and index that nothing points to"));
        }
        let units = self.file.units(&self.footer, &self.meta, &[])?.unwrap_or_default();
        let (digests, filter) = (self.footer.digests.iter(), self.footer.filter.iter());
        for block in digests.chain(units.0.iter().rev()).chain(filter) {
            walk.expect_at(block, index_end)?;
            index_end = block.end();
        }
        walk.expect_at(&self.footer.properties, index_end)?;
        walk.expect_at(&self.footer.top_index, self.footer.properties.end())?;
        if self.footer.top_index.end() != self.file.footer_offset() {
            return Err(self
                .file
                .corruption(self.footer.top_index.end(), "there are bytes before the footer that nothing points to"));
        }
        walk.finish()
    }
}

/// The check of all blocks in order, with what has been seen so far.
struct Walk<'a> {
    table: &'a Table,
    progress: &'a mut dyn FnMut(u64),
    window: Window,
    /// The place of the last entry.
    last: Option<(Vec<u8>, Sequence)>,
    filter: Option<Filter>,
    /// The digests of the keys so far, if the table stores them.
    seen: Option<Builder>,
    counted: Properties,
}

impl Walk<'_> {
    fn expect_at(&mut self, handle: &BlockHandle, offset: u64) -> Result<()> {
        if handle.offset != offset {
            let what =
                format!("the index says that a block begins at {}, but the one before ends at {offset}", handle.offset);
            return Err(self.table.file.corruption(handle.offset, what));
        }
        (self.progress)(handle.bytes as u64);
        Ok(())
    }

    /// Checks a lower index block and the data blocks it points to, which begin at `data_end`;
    /// returns where they end.
    fn lower_block(
        &mut self,
        block: &Block,
        handle: &BlockHandle,
        first_fence: (&[u8], Sequence),
        mut data_end: u64,
    ) -> Result<u64> {
        let flaw = |flaw: Flaw| self.table.file.flaw(flaw, handle.offset);
        block.check_restarts().map_err(flaw)?;
        let mut cursor = BlockCursor::default();
        cursor.seek_first(block).map_err(flaw)?;
        let same = cursor.entry(block).is_some_and(|fence| (fence.key, fence.sequence) == first_fence);
        if !same {
            return Err(self.table.file.corruption(handle.offset, "an index block does not begin with its fence"));
        }
        while let Some(fence) = cursor.entry(block) {
            let data = BlockHandle::decode(fence.value).map_err(|flaw| self.table.file.flaw(flaw, handle.offset))?;
            self.expect_at(&data, data_end)?;
            data_end = data.end();
            self.data_block(&data, (fence.key, fence.sequence))?;
            cursor.next(block).map_err(|flaw| self.table.file.flaw(flaw, handle.offset))?;
        }
        Ok(data_end)
    }

    /// Checks a data block and its entries, and counts them.
    fn data_block(&mut self, handle: &BlockHandle, fence: (&[u8], Sequence)) -> Result<()> {
        let block =
            self.window.block_or_read(self.table, handle, Direction::Forward, SEQUENTIAL_BYTES, ByteBuffer::new())?;
        let damaged = |what: &'static str| self.table.file.corruption(handle.offset, what);
        let flaw = |flaw: Flaw| self.table.file.flaw(flaw, handle.offset);
        block.check_restarts().map_err(flaw)?;
        let mut cursor = BlockCursor::default();
        cursor.seek_first(&block).map_err(flaw)?;
        let first = cursor.entry(&block).ok_or_else(|| damaged("a block has no entries"))?;
        let fence_follows = self.last.as_ref().is_none_or(|last| entry::compare((&last.0, last.1), fence).is_lt());
        if !fence_follows || entry::compare(fence, (first.key, first.sequence)).is_gt() {
            return Err(damaged("the fence of a block does not part its entries from those before"));
        }
        let (mut last_key, mut last_sequence) = self.last.take().unwrap_or_default();
        while let Some(entry) = cursor.entry(&block) {
            let follows = entry::compare((&last_key, last_sequence), (entry.key, entry.sequence)).is_lt();
            if !follows && self.counted.entries > 0 {
                return Err(damaged("entries are out of order"));
            }
            let is_new_key = self.counted.entries == 0 || last_key != entry.key;
            self.counted.count(&entry);
            if is_new_key {
                self.check_key(entry.key)?;
            }
            last_key.clear();
            last_key.extend_from_slice(entry.key);
            last_sequence = entry.sequence;
            cursor.next(&block).map_err(flaw)?;
        }
        self.last = Some((last_key, last_sequence));
        Ok(())
    }

    /// A filter that is negative for an existing key would hide it from every lookup.
    fn check_key(&mut self, key: &[u8]) -> Result<()> {
        if self.filter.is_none() && self.seen.is_none() {
            return Ok(());
        }
        let digest = Digest::of(key);
        self.seen.iter_mut().for_each(|seen| seen.add(digest));
        match (&self.filter, &self.table.footer.filter) {
            (Some(filter), Some(handle)) if !filter.may_contain(digest) => {
                let what = format!("the filter is negative for the key \"{}\", which exists", key.escape_ascii());
                Err(self.table.file.corruption(handle.offset, what))
            }
            _ => Ok(()),
        }
    }

    /// A filter rebuilt from incomplete digests would hide a key, too.
    fn check_digests(&mut self) -> Result<()> {
        let Table { file, footer, .. } = self.table;
        let seen = self.seen.take().map(|seen| DigestSet::new(seen.into_digests()));
        match (&footer.digests, file.digests(footer)?) {
            (Some(handle), stored) if stored != seen => {
                Err(file.corruption(handle.offset, "the digests are not those of the keys"))
            }
            _ => Ok(()),
        }
    }

    /// Compares the counts with the file and the manifest.
    fn finish(mut self) -> Result<()> {
        self.check_digests()?;
        let Table { file, footer, meta, .. } = self.table;
        self.counted.largest_key = self.last.take().unwrap_or_default().0;
        let tail = file.read_tail(0)?;
        let recorded = file.properties(footer, &tail)?;
        (self.counted.compression, self.counted.ingest) = (recorded.compression, recorded.ingest);
        // Which range deletes were applied, entries do not tell.
        self.counted.range_deletes_applied = recorded.range_deletes_applied;
        self.counted.set_sequence_base(recorded.sequence_base);
        if self.counted != recorded {
            return Err(file.corruption(footer.properties.offset, "the properties are not those of the entries"));
        }
        let mut from_file = recorded.into_meta(footer, meta.root_checksum, file.bytes);
        if from_file.ingest.is_some_and(|part| !part.is_last) && from_file.sequence_base <= meta.sequence_base {
            // The file has a lower bound: it was finished before the ingest.
            from_file.properties.set_sequence_base(meta.sequence_base);
        }
        if from_file != *meta {
            return Err(file.corruption(footer.properties.offset, "the properties are not those in the manifest"));
        }
        (self.progress)(file.bytes - file.footer_offset());
        Ok(())
    }
}
