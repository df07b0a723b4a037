//! [`Salvage`]: the readable entries of a damaged table, and all its damage.
//!
//! ```text
//! │ data │ data │ ×××× │ data │ data │ index ×××× │ footer │
//!   whole  whole  lost   whole  whole    the last two by the lengths at which checksums match
//! ```
//!
//! Blocks follow each other from the first byte on, each with its own checksum, bound to this table
//! and this offset. An intact index gives the limits of each block, also after damage; without one,
//! blocks are found by trying lengths ([`Search`]).
//!
//! A block is accepted as data only if a writer wrote it as data:
//!
//! * its checksum matches, and, where the index points to it, the index's as well;
//! * its entries ascend, and follow those of the blocks before it;
//! * without a top index, which says where the data ends: it is not of the form of an index block,
//!   all of whose values are locations of blocks before it. (Data all of whose values have that
//!   form, and point to damaged blocks, is lost with the top index.)
//!
//! Total: any bytes give some entries and some problems. Takes the whole file into memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Access, ByteBuffer, Env, File};

use crate::entry::{self, Entry, EntryKind, Sequence};
use crate::error::{Error, Result};
use crate::format::block::{Block, BlockCursor};
use crate::format::checksum::Place;
use crate::format::claims;
use crate::format::meta::{TableId, TableMeta};
use crate::format::stored::{BlockHandle, Flaw, Search, StoredBytes, open_block};
use crate::format::table::{FOOTER_BYTES, Footer, Properties, Units, place};
use crate::table::filter;

/// The readable part of a table. See the module's documentation.
#[derive(Debug)]
pub struct Salvage {
    path: PathBuf,
    place: Place,
    file: Arc<[u8]>,
    /// The table's sequence base, as far as it is known.
    base: Sequence,
    /// The whole data blocks, in order.
    blocks: Vec<BlockHandle>,
    /// The properties of their entries.
    counted: Properties,
    problems: Vec<Error>,
    lost: Vec<LostKeys>,
}

/// A range of keys of which entries are or may be lost, both bounds inclusive; `None` where a bound
/// is unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostKeys {
    /// The lower bound.
    pub from: Option<Vec<u8>>,
    /// The upper bound.
    pub to: Option<Vec<u8>>,
}

/// The place after the last accepted entry.
type Last = Option<(Vec<u8>, Sequence)>;

impl Salvage {
    /// Examines the whole file at `path`, table `id` of `database`; `meta` is the manifest's
    /// record, if there is one.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened; [`Error::Unsupported`] if a newer version wrote
    /// the table, or this build cannot decompress it. Damage is no error, and neither are
    /// unreadable parts of the file.
    pub fn read(env: &dyn Env, path: &Path, database: u64, id: TableId, meta: Option<&TableMeta>) -> Result<Self> {
        let failed = |error| Error::io("table: read", path, error);
        let opened = env.open(path, Access::Read).map_err(failed)?;
        let length = usize::try_from(opened.len().map_err(failed)?).map_err(io::Error::other).map_err(failed)?;
        let mut file = vec![0; length];
        let unreadable = read_pieces(&*opened, &mut file);
        let mut salvage = Self {
            path: path.to_owned(),
            place: place(database, id),
            file: file.into(),
            base: Sequence::ZERO,
            blocks: Vec::new(),
            counted: Properties::default(),
            problems: Vec::new(),
            lost: Vec::new(),
        };
        for (offset, error) in unreadable {
            salvage.problem(offset, format!("the bytes from here on cannot be read: {error}"));
        }
        let footer = salvage.footer(database, id, meta)?;
        let index = footer.map(|(footer, _)| salvage.index(&footer)).transpose()?.unwrap_or_default();
        let expected = match footer {
            Some((footer, end)) => salvage.parts(&footer, end, meta)?,
            None => meta.cloned(),
        };
        salvage.walk(&index)?;
        salvage.set_sequence_base(expected.as_ref().map_or(Sequence::ZERO, |meta| meta.sequence_base));
        salvage.compare(expected.as_ref());
        Ok(salvage)
    }

    /// Sets the sequence base of an ingested table whose properties do not say it.
    pub fn set_sequence_base(&mut self, base: Sequence) {
        self.base = base;
        self.counted.set_sequence_base(base);
    }

    /// All damage, each with file and offset.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// The ranges of keys of which entries may be lost, in order.
    pub fn lost(&self) -> &[LostKeys] {
        &self.lost
    }

    /// The properties of all readable entries.
    pub fn counted(&self) -> &Properties {
        &self.counted
    }

    /// The intact data blocks, in order.
    pub fn blocks(&self) -> &[BlockHandle] {
        &self.blocks
    }

    /// Visits all readable entries, in entry order.
    pub fn visit(&self, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        self.blocks.iter().try_for_each(|handle| self.visit_block(handle, visit))
    }

    /// Visits all entries of one of [`Salvage::blocks`].
    pub fn visit_block(&self, handle: &BlockHandle, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        let flaw = |flaw: Flaw| Error::flaw(&self.path, handle.offset, flaw);
        let block = self.block(handle).map_err(flaw)?;
        let mut cursor = BlockCursor::default();
        cursor.seek_first(&block).map_err(flaw)?;
        while let Some(entry) = cursor.entry(&block) {
            visit(Entry { sequence: entry.sequence.with_base(self.base), ..entry })?;
            cursor.next(&block).map_err(flaw)?;
        }
        Ok(())
    }

    fn problem(&mut self, offset: u64, what: impl Into<String>) {
        self.problems.push(Error::corruption(&self.path, offset, what));
    }

    /// Records damage; a flaw that this build cannot read is an error.
    fn note(&mut self, flaw: Flaw, offset: u64) -> Result<()> {
        match Error::flaw(&self.path, offset, flaw) {
            damaged @ Error::Corruption { .. } => self.problems.push(damaged),
            other => return Err(other),
        }
        Ok(())
    }

    /// The payload of a block, if intact.
    fn payload(&self, handle: &BlockHandle) -> Result<ByteBuffer, Flaw> {
        let stored = usize::try_from(handle.offset).ok().and_then(|start| self.file.get(start..)?.get(..handle.bytes));
        open_block(StoredBytes::Borrowed(stored.unwrap_or_default()), self.place, handle)
    }

    fn block(&self, handle: &BlockHandle) -> Result<Block, Flaw> {
        self.payload(handle).and_then(Block::decode)
    }

    /// Reads the footer, and where it ends. Of a damaged footer it takes the readable handles: the
    /// blocks that they point to have checksums of their own.
    fn footer(&mut self, database: u64, id: TableId, meta: Option<&TableMeta>) -> Result<Option<(Footer, u64)>> {
        let (file_bytes, footer_bytes) = (self.file.len() as u64, FOOTER_BYTES as u64);
        match Footer::decode(&self.file, file_bytes, database, id) {
            Ok((footer, _)) => return Ok(Some((footer, file_bytes))),
            Err(flaw) => self.note(flaw, file_bytes.saturating_sub(footer_bytes))?,
        }
        if let Some((footer, _, end)) = Footer::search(&self.file, database, id) {
            return Ok(Some((footer, end)));
        }
        let end = meta.map_or(file_bytes, |meta| meta.file_bytes.min(file_bytes));
        let claimed = claims::unchecked_footer(&self.file[..end as usize], end);
        Ok(claimed.map(|footer| (footer, end)))
    }

    /// Reads the intact part of the index.
    fn index(&mut self, footer: &Footer) -> Result<Index> {
        let mut index = Index::default();
        let lower = self.handles(&footer.top_index)?;
        index.begins = lower.first().map(|handle| handle.offset);
        for handle in lower {
            index.data.extend(self.handles(&handle)?);
        }
        index.data.sort_unstable_by_key(|handle| handle.offset);
        index.data.dedup();
        Ok(index)
    }

    /// The blocks that an index block points to; none if it is damaged.
    fn handles(&mut self, handle: &BlockHandle) -> Result<Vec<BlockHandle>> {
        let read = |block: &Block| -> Result<Vec<BlockHandle>, Flaw> {
            let (mut handles, mut cursor) = (Vec::new(), BlockCursor::default());
            cursor.seek_first(block)?;
            while let Some(fence) = cursor.entry(block) {
                handles.push(BlockHandle::decode(fence.value)?);
                cursor.next(block)?;
            }
            Ok(handles)
        };
        match self.block(handle).and_then(|block| read(&block)) {
            Ok(handles) => Ok(handles),
            Err(flaw) => self.note(flaw, handle.offset).map(|()| Vec::new()),
        }
    }

    /// Checks properties, filter and digests; returns the expected metadata, by the manifest or by
    /// the table itself.
    fn parts(&mut self, footer: &Footer, end: u64, meta: Option<&TableMeta>) -> Result<Option<TableMeta>> {
        let properties = self.payload(&footer.properties).and_then(|payload| Properties::decode(&payload));
        let own = match properties {
            Ok(properties) => Some(properties.into_meta(footer, 0, end)),
            Err(flaw) => self.note(flaw, footer.properties.offset).map(|()| None)?,
        };
        let expected = meta.cloned().or(own);
        if let Some(handle) = &footer.filter {
            match self.payload(handle) {
                Ok(payload) if footer.has_units => self.units(&payload, handle.offset, expected.as_ref())?,
                Ok(payload) => {
                    let decoded = expected.as_ref().map(|meta| filter::decode(&payload, meta).map(drop));
                    if let Some(Err(what)) = decoded {
                        self.problem(handle.offset, what);
                    }
                }
                Err(flaw) => self.note(flaw, handle.offset)?,
            }
        }
        if let Some(handle) = &footer.digests {
            match self.payload(handle).map(|payload| filter::decode_digests(&payload, self.place)) {
                Ok(Ok(_)) => {}
                Ok(Err(what)) => self.problem(handle.offset, what),
                Err(flaw) => self.note(flaw, handle.offset)?,
            }
        }
        Ok(expected)
    }

    /// Checks the units of an elastic filter, whose handles are in `payload`.
    fn units(&mut self, payload: &[u8], offset: u64, expected: Option<&TableMeta>) -> Result<()> {
        let units = match Units::decode(payload, offset) {
            Ok(units) => units,
            Err(flaw) => return self.note(flaw, offset),
        };
        let mut filter = None;
        for handle in &units.0 {
            let payload = match self.payload(handle) {
                Ok(payload) => payload,
                Err(flaw) => return self.note(flaw, handle.offset),
            };
            let Some(meta) = expected else { continue };
            match filter::decode_next_unit(filter.as_ref(), &payload, units.0.len(), meta) {
                Ok(next) => filter = Some(next),
                Err(what) => {
                    self.problem(handle.offset, what);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Accepts all intact blocks, from the first byte on.
    fn walk(&mut self, index: &Index) -> Result<()> {
        let end = index.begins.unwrap_or(self.file.len() as u64).min(self.file.len() as u64);
        let file = self.file.clone();
        let mut search = Search::new(&file, self.place);
        let (mut at, mut last): (u64, Last) = (0, None);
        let mut gap: Option<u64> = None;
        while at < end {
            let next_known = index.data.partition_point(|handle| handle.offset < at);
            let next_known = index.data.get(next_known).filter(|handle| handle.offset < end).copied();
            let known = next_known.filter(|handle| handle.offset == at);
            let limit = next_known.map_or(end, |handle| handle.offset);
            let found = known.or_else(|| search.block_at(at, limit));
            let outcome = found.map(|handle| self.take(&handle, known.is_none() && index.begins.is_none(), &mut last));
            match (found, outcome) {
                (Some(handle), Some(Ok(Taken::Data { first }))) => {
                    search.found(&handle);
                    if gap.take().is_some() {
                        self.close_gap(Some(first));
                    }
                    at = handle.end();
                }
                // Nothing is searched for behind the data.
                (_, Some(Ok(Taken::Index))) => break,
                (Some(handle), Some(Err(flaw))) => {
                    self.note(flaw, handle.offset)?;
                    self.open_gap(&mut gap, at, &last);
                    at = handle.end();
                }
                _ => {
                    if gap.is_none() {
                        self.problem(at, "no whole block begins here");
                    }
                    self.open_gap(&mut gap, at, &last);
                    at = search.block_after(at, limit).map_or(limit, |handle| handle.offset);
                }
            }
        }
        if search.is_exhausted() {
            self.problem(at.min(end), "the bytes after the damage were not searched to the end");
        }
        if let Some((key, _)) = last {
            self.counted.largest_key = key;
        }
        Ok(())
    }

    fn open_gap(&mut self, gap: &mut Option<u64>, at: u64, last: &Last) {
        if gap.is_none() {
            *gap = Some(at);
            let from = last.as_ref().map(|(key, _)| key.clone());
            self.lost.push(LostKeys { from, to: None });
        }
    }

    fn close_gap(&mut self, first: Option<Vec<u8>>) {
        if let Some(lost) = self.lost.last_mut() {
            lost.to = first;
        }
    }

    /// Accepts a block, if it contains entries that follow the last one.
    fn take(&mut self, handle: &BlockHandle, is_unknown: bool, last: &mut Last) -> Result<Taken, Flaw> {
        let payload = self.payload(handle)?;
        let block = match Block::decode(payload) {
            Ok(block) => block,
            // A writer wrote it, but not as a list of entries: digests, a filter, or the
            // properties.
            Err(_) if is_unknown => return Ok(Taken::Index),
            Err(flaw) => return Err(flaw),
        };
        if is_unknown {
            match self.looks(&block, handle)? {
                Looks::Data => {}
                Looks::Index => {
                    return Err(Flaw::Damaged("a block without an index looks like a part of the index"));
                }
                Looks::BeginOfIndex => return Ok(Taken::Index),
            }
        }
        block.check_restarts()?;
        let mut counted = Properties::default();
        let mut place: Last = last.clone();
        let mut cursor = BlockCursor::default();
        cursor.seek_first(&block)?;
        while let Some(entry) = cursor.entry(&block) {
            let follows = place
                .as_ref()
                .is_none_or(|(key, sequence)| entry::compare((key, *sequence), (entry.key, entry.sequence)).is_lt());
            if !follows || entry.sequence >= Sequence::MAX {
                return Err(Flaw::Damaged("entries are out of order"));
            }
            counted.count(&entry);
            let (mut key, _) = place.take().unwrap_or_default();
            key.clear();
            key.extend_from_slice(entry.key);
            place = Some((key, entry.sequence));
            cursor.next(&block)?;
        }
        let first = counted.smallest_key.clone();
        self.add(counted);
        self.blocks.push(*handle);
        *last = place;
        Ok(Taken::Data { first })
    }

    fn add(&mut self, more: Properties) {
        if self.counted.entries == 0 {
            self.counted = more;
            return;
        }
        let all = &mut self.counted;
        all.entries += more.entries;
        all.tombstones += more.tombstones;
        all.raw_bytes += more.raw_bytes;
        all.smallest_sequence = all.smallest_sequence.min(more.smallest_sequence);
        all.largest_sequence = all.largest_sequence.max(more.largest_sequence);
    }

    /// Compares the readable entries with the expected metadata.
    fn compare(&mut self, expected: Option<&TableMeta>) {
        let Some(expected) = expected else {
            // The upper bound of the keys is unknown.
            if !self.problems.is_empty() && self.lost.last().is_none_or(|lost| lost.to.is_some()) {
                let from = (self.counted.entries > 0).then(|| self.counted.largest_key.clone());
                self.lost.push(LostKeys { from, to: None });
            }
            return;
        };
        if self.counted.entries == expected.entries {
            self.lost.clear();
            return;
        }
        let ends_early = self.counted.entries == 0 || self.counted.largest_key < expected.largest_key;
        if self.lost.is_empty() || ends_early && self.lost.last().is_some_and(|lost| lost.to.is_some()) {
            let from = (self.counted.entries > 0).then(|| self.counted.largest_key.clone());
            self.lost.push(LostKeys { from, to: None });
        }
        for lost in &mut self.lost {
            lost.from.get_or_insert_with(|| expected.smallest_key.clone());
            lost.to.get_or_insert_with(|| expected.largest_key.clone());
        }
    }
}

/// Reads all readable parts of a file; returns the offsets and errors of the others, whose bytes
/// stay unchanged.
fn read_pieces(file: &dyn File, bytes: &mut [u8]) -> Vec<(u64, io::Error)> {
    let mut unreadable = Vec::new();
    for (large, piece) in bytes.chunks_mut(LARGE_BYTES).enumerate() {
        let start = (large * LARGE_BYTES) as u64;
        if file.read_exact_at(piece, start).is_ok() {
            continue;
        }
        for (small, piece) in piece.chunks_mut(SMALL_BYTES).enumerate() {
            let start = start + (small * SMALL_BYTES) as u64;
            if let Err(error) = file.read_exact_at(piece, start) {
                unreadable.push((start, error));
                piece.fill(0);
            }
        }
    }
    unreadable
}

/// The size of one read.
const LARGE_BYTES: usize = 1 << 20;

/// The size of one read where a larger one failed: a sector of the device, so that no more is lost
/// than the device has lost.
const SMALL_BYTES: usize = 4 << 10;

/// The intact part of an index.
#[derive(Debug, Default)]
struct Index {
    /// The data blocks, by offset.
    data: Vec<BlockHandle>,
    /// The offset of the first lower index block, where the data ends.
    begins: Option<u64>,
}

/// The kind of an accepted block.
enum Taken {
    /// Data, with its first key.
    Data { first: Vec<u8> },
    /// Part of the index.
    Index,
}

/// The probable kind of a block that no index points to.
enum Looks {
    Data,
    Index,
    /// It begins with the smallest fence, which no other block has.
    BeginOfIndex,
}

impl Salvage {
    /// Fences, unlike entries, have the largest sequence; but a fence between versions of one key
    /// has one of theirs. Then the values tell an index from data: each of an index's points to an
    /// accepted block, or to where none was accepted.
    fn looks(&self, block: &Block, handle: &BlockHandle) -> Result<Looks, Flaw> {
        let mut cursor = BlockCursor::default();
        cursor.seek_first(block)?;
        if cursor.entry(block).is_some_and(|first| first.key.is_empty() && first.sequence == Sequence::MAX) {
            return Ok(Looks::BeginOfIndex);
        }
        let mut may_be_index = true;
        while let Some(entry) = cursor.entry(block) {
            if entry.sequence == Sequence::MAX {
                return Ok(Looks::Index);
            }
            let target = BlockHandle::decode(entry.value).ok().filter(|target| target.end() <= handle.offset);
            may_be_index &= entry.kind == EntryKind::Put && target.is_some_and(|target| self.may_point_to(&target));
            cursor.next(block)?;
        }
        Ok(if may_be_index { Looks::Index } else { Looks::Data })
    }

    /// Returns true for an accepted block, and for a place where none was accepted.
    fn may_point_to(&self, target: &BlockHandle) -> bool {
        let next = self.blocks.partition_point(|block| block.end() <= target.offset);
        self.blocks.get(next).is_none_or(|block| block == target || block.offset >= target.end())
    }
}
