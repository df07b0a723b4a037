//! [`Window`]: the read-ahead window of a cursor, a part of a table's file in memory; and
//! [`ReadGrowth`], the size of the next read.
//!
//! ```text
//! data blocks   │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │ 8 │ …
//! a seek to 2           ├───────┤                        8 KiB: a block, and the next one if the
//!                                                        place is at its end; 16 KiB in a run
//!                                                        that has more data than all others
//! continuing                    ├───────────────────┤    up to 128 KiB: a scan of 100 entries of
//!                                                        1 KiB needs no third read
//! and on                                            ├─ … twice as much each time, up to 512 KiB
//! ```
//!
//! # Read-ahead per run
//!
//! A scan over ten runs that takes most of its entries from one of them should not read as far
//! ahead in all as in that one. The second read of a cursor is therefore in proportion to its share
//! of what all cursors of the scan have used so far ([`ScanVolume`]). The only run in use gets the
//! whole.
//!
//! No cursor reads past the end of the scan's range, as far as the loaded index block shows it.
//!
//! # Limits
//!
//! Where a scan has a limit of entries, it is known what it is likely to need: so many entries of
//! average size, and of each run its share by size. A cursor then reads at first what is likely of
//! its run, up to whole blocks, and later no more than what is still likely. The likely bytes are
//!
//! ```text
//! rest    expected bytes of the limit - bytes of the blocks that all cursors have left; as many as
//!         they have left, once that is more than was expected
//! share   the run's share by size, or of the blocks left, whichever is larger
//! likely  rest × share + one block
//! ```
//!
//! The block more is for the entries before the place of the seek in its block, for the entry at
//! which the cursor is in the end, and for chance. Measured for scans of 16 entries of 24 + 1000
//! bytes in a tree of three runs: 4.2 reads and 32 KB with half a block, 3.0 reads and 37 KB with
//! one. One more read takes as long as the seek itself, so a whole block is faster.
//!
//! If entries are deleted or overwritten, a scan passes more than its limit says. The reads then
//! double, as without a limit.
//!
//! # Compactions
//!
//! A window of a compaction with direct I/O has the next piece read while its own is used, by a
//! worker ([`ReadAhead`](super::ahead::ReadAhead)). The two pieces take turns with their memory.
//! Cursors that are opened anew after a handover go on with the windows of those before.
//!
//! # Memory
//!
//! With direct I/O, a read begins and ends at multiples of the device's alignment, and the device
//! writes into the window directly. A window reuses its memory when it moves.
//!
//! Tests: here, for the arithmetic; all tests of cursors.

use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::{AlignedBuffer, ByteBuffer};

use super::ahead::{PieceAhead, PieceRead};
use super::reader::Table;
use crate::admission::StepTurn;
use crate::entry::Sequence;
use crate::error::Result;
use crate::format::block::Block;
use crate::format::meta::TableId;
use crate::format::stored::BlockHandle;
use crate::memory::{Charge, MemoryPart};
use crate::stats::Reader;

/// The size of a read after a while, or of a full scan: on a disk with a seek of 8 ms still 60
/// MB/s.
pub(super) const SEQUENTIAL_BYTES: usize = 512 << 10;

/// The first read of a sequential cursor; each further one is twice as large.
const SEQUENTIAL_BYTES_MIN: usize = 32 << 10;

/// The read of a query's seek: two usual blocks. A place between two blocks' entries needs the
/// second one, and a second read would cost far more than these bytes.
pub(super) const FIRST_BYTES: usize = 8 << 10;

/// The read of a seek in the run that has most of the data: of ten entries of 1 KiB most come from
/// this run, and usually need no second read.
pub(super) const FIRST_BYTES_OF_MOST: usize = 16 << 10;

/// The bounds on the read-ahead after that of the seek. Blocks from reads up to this size are
/// cached; a longer scan would only evict what others need.
const SECOND_BYTES_MIN: usize = 16 << 10;
const SECOND_BYTES_MAX: usize = 128 << 10;

/// The direction of a cursor, and thus the side of a block on which more is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// A part of a file in memory.
#[derive(Debug)]
pub(super) struct Window {
    reader: Reader,
    /// The table of the bytes.
    table: Option<TableId>,
    offset: u64,
    /// The number of bytes in the window; 0 before the first read.
    bytes: usize,
    memory: Memory,
    charge: Charge,
    /// What follows these bytes, while it is read ahead.
    next: Option<NextPiece>,
    /// Memory of an earlier piece, for the next one.
    spare: Option<(AlignedBuffer, Charge)>,
}

/// The piece of the same table that is read ahead, and the charge for its memory.
#[derive(Debug)]
struct NextPiece {
    offset: u64,
    bytes: usize,
    ahead: Arc<PieceAhead>,
    charge: Charge,
}

/// The memory of a window's bytes.
#[derive(Debug)]
enum Memory {
    /// Read by the window.
    Read(AlignedBuffer),
    /// Read by others for the window.
    Given(ByteBuffer),
}

impl Window {
    /// Makes an empty window for `reader`.
    pub(super) fn new(reader: Reader) -> Self {
        let (memory, charge) = (Memory::Given(ByteBuffer::new()), Charge::default());
        Self { reader, table: None, offset: 0, bytes: 0, memory, charge, next: None, spare: None }
    }

    /// Empties the window unless its bytes are those of `table`, to which the cursor moves.
    pub(super) fn move_to(&mut self, table: &Table) {
        if self.table != Some(table.meta.id) {
            (self.table, self.bytes, self.next) = (Some(table.meta.id), 0, None);
        }
    }

    /// Empties the window and frees its memory.
    pub(super) fn release(&mut self) {
        *self = Self { table: self.table, ..Self::new(self.reader) };
    }

    /// Its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let next = self.next.as_ref().map(|next| &next.charge);
        let spare = self.spare.as_ref().map(|(_, charge)| charge);
        [Some(&self.charge), next, spare].into_iter().flatten().map(Charge::bytes).sum::<u64>() as usize
    }

    /// The offset at which its bytes end.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Returns true if the block's bytes are in the window.
    pub(super) fn holds(&self, handle: &BlockHandle) -> bool {
        handle.offset >= self.offset && handle.end() <= self.offset + self.bytes as u64
    }

    /// Returns true if the block is not in the window and too large to be.
    pub(super) fn reads_alone(&self, handle: &BlockHandle) -> bool {
        handle.bytes >= SEQUENTIAL_BYTES && !self.holds(handle)
    }

    /// A block of the window, checked and decoded into `space`.
    pub(super) fn block(&self, table: &Table, handle: &BlockHandle, space: ByteBuffer) -> Result<Block> {
        let start = (handle.offset - self.offset) as usize;
        let bytes: &[u8] = match &self.memory {
            Memory::Read(memory) => memory,
            Memory::Given(bytes) => bytes,
        };
        table.file.decode_block(&bytes[start..][..handle.bytes], handle, space, self.reader)
    }

    /// A block. If it is not in the window, the window moves to the block and what follows,
    /// `ahead_bytes` together. A large one is read by itself ([`Window::reads_alone`]); a query has
    /// taken a turn for that.
    pub(super) fn block_or_read(
        &mut self,
        table: &Table,
        handle: &BlockHandle,
        direction: Direction,
        ahead_bytes: usize,
        space: ByteBuffer,
    ) -> Result<Block> {
        if self.reads_alone(handle) {
            // For a query, whoever took its turn has charged it.
            let is_charged = self.reader == Reader::Scan;
            let charge = || table.storage.charge_large_read(MemoryPart::Compactions, handle.bytes, false);
            let _charge = (!is_charged).then(charge);
            return table.file.read_block(handle, self.reader);
        }
        if !self.holds(handle) {
            self.read(table, handle, direction, ahead_bytes)?;
        }
        self.block(table, handle, space)
    }

    /// Returns true if the piece that is read ahead begins within the block: then only the block
    /// is missing between the window and the piece.
    pub(super) fn reads_ahead_from_within(&self, handle: &BlockHandle) -> bool {
        let start = self.next.as_ref().map(|next| next.offset);
        start.is_some_and(|start| handle.offset < start && start < handle.end())
    }

    /// Moves the window to the piece that was read ahead, and returns true, if the block is in it.
    /// A piece is given up if it is of no use for the block nor for what follows.
    pub(super) fn take_next(&mut self, table: &Table, handle: &BlockHandle) -> bool {
        if self.reads_ahead_from_within(handle) {
            return false;
        }
        let (Some(next), Some(read_ahead)) = (self.next.take(), table.storage.read_ahead()) else { return false };
        if handle.offset < next.offset || next.offset + (next.bytes as u64) < handle.end() {
            return false;
        }
        let Some((memory, outcome)) = read_ahead.take(next.ahead) else { return false };
        if outcome.is_err() {
            self.spare = Some((memory, next.charge));
            return false;
        }
        (self.offset, self.bytes) = (next.offset, next.bytes);
        let charge = std::mem::replace(&mut self.charge, next.charge);
        if let Memory::Read(memory) = std::mem::replace(&mut self.memory, Memory::Read(memory)) {
            self.spare = Some((memory, charge));
        }
        true
    }

    /// Returns true if the next piece of the table is to be read ahead: with direct I/O, unless one
    /// is, the worker has too much to do, or flushes and compactions take much memory. Then the
    /// window gives up what it has for that.
    pub(super) fn may_read_ahead(&mut self, table: &Table) -> bool {
        let Some(read_ahead) = table.storage.read_ahead().filter(|_| table.file.is_direct()) else { return false };
        if self.next.is_some() {
            return false;
        }
        let account = table.storage.account();
        if account.blocks_of_compactions_are_many(0) {
            self.spare = None;
            return false;
        }
        !read_ahead.is_busy()
    }

    /// Has the bytes from `start` to `end` read. An error is left to whoever needs them.
    pub(super) fn read_ahead(&mut self, table: &Table, start: u64, end: u64) {
        let (start, end) = table.file.aligned(start, end);
        let length = (end - start) as usize;
        let (Some(read_ahead), Ok(request)) = (table.storage.read_ahead(), table.file.request(start, length)) else {
            return;
        };
        let (memory, charge) = self.spare.take().filter(|(memory, _)| memory.len() >= length).unwrap_or_else(|| {
            let bytes = length + AlignedBuffer::ALIGNMENT;
            (AlignedBuffer::zeroed(length), table.storage.account().charge(MemoryPart::Compactions, bytes))
        });
        let counters = table.file.counters().clone();
        let ahead = read_ahead.submit(PieceRead { request, memory, counters, reader: self.reader });
        self.next = Some(NextPiece { offset: start, bytes: length, ahead, charge });
    }

    /// Moves the window to the block and what follows, `ahead_bytes` together.
    pub(super) fn read(
        &mut self,
        table: &Table,
        handle: &BlockHandle,
        direction: Direction,
        ahead_bytes: usize,
    ) -> Result<()> {
        let (start, end) = piece_in(table, handle, direction, ahead_bytes)?;
        let (start, end) = table.file.aligned(start, end);
        let length = (end - start) as usize;
        (self.offset, self.bytes) = (start, 0);
        let memory = match &mut self.memory {
            Memory::Read(memory) if memory.len() >= length => memory,
            other => {
                *other = Memory::Given(ByteBuffer::new());
                let part = if self.reader == Reader::Scan { MemoryPart::Iterators } else { MemoryPart::Compactions };
                self.charge = table.storage.account().charge(part, length + AlignedBuffer::ALIGNMENT);
                *other = Memory::Read(AlignedBuffer::zeroed(length));
                let Memory::Read(memory) = other else { unreachable!("it was just put there") };
                memory
            }
        };
        table.file.read_into(&mut memory[..length], start, self.reader)?;
        self.bytes = length;
        Ok(())
    }

    /// Moves the window to bytes that were read for it elsewhere.
    pub(super) fn give(&mut self, table: &Table, offset: u64, bytes: &[u8]) {
        (self.offset, self.bytes) = (offset, bytes.len());
        match &mut self.memory {
            Memory::Given(given) if given.capacity() >= bytes.len() => {
                given.clear();
                given.extend_from_slice(bytes);
            }
            other => {
                *other = Memory::Given(ByteBuffer::new());
                self.charge = table.storage.account().charge(MemoryPart::Iterators, bytes.len());
                *other = Memory::Given(bytes.into());
            }
        }
    }
}

/// As [`piece`], of a table. An error if the block is not inside it.
pub(super) fn piece_in(
    table: &Table,
    handle: &BlockHandle,
    direction: Direction,
    ahead_bytes: usize,
) -> Result<(u64, u64)> {
    table.file.check_inside(handle)?;
    let (data_end, lower_end) = (table.data_end(), table.lower_end());
    // Nothing is gained by reading on from data into the index, or from the index into the filter.
    let end = if handle.offset < data_end { data_end } else { lower_end };
    Ok(piece(handle, direction, ahead_bytes as u64, end))
}

/// The range of bytes to read for a block and what follows, in a part of a file that ends at
/// `part_end`.
fn piece(handle: &BlockHandle, direction: Direction, bytes: u64, part_end: u64) -> (u64, u64) {
    let (start, end) = match direction {
        Direction::Forward => (handle.offset, handle.offset.saturating_add(bytes).min(part_end)),
        Direction::Backward => (handle.end().saturating_sub(bytes).min(handle.offset), handle.end()),
    };
    (start, end.max(handle.end()))
}

/// The state that the cursors of one scan or compaction share: its range, and the bytes of
/// read-ahead that they have used.
#[derive(Debug, Default)]
pub struct ScanVolume {
    used_bytes: AtomicU64,
    /// Bytes that the limit of the scan is expected to need, of all runs together; `None` without a
    /// limit.
    expected_bytes: Option<u64>,
    /// Bytes of the blocks that cursors have left by steps; not counted without a limit.
    left_bytes: AtomicU64,
    from: Option<(Vec<u8>, Sequence)>,
    to: Option<(Vec<u8>, Sequence)>,
    /// The size from which a block is large; see [`ScanVolume::releasing`]. `None` if none is.
    large_bytes: Option<usize>,
    /// The most bytes of a read of a compaction's cursor, if given.
    piece_bytes: Option<usize>,
    /// True once a query has read a large block: it may have one from then on.
    has_large: AtomicBool,
    /// The turn for large reads of the step in progress. Compactions take none.
    turn: StepTurn,
}

impl ScanVolume {
    /// Makes the state of a scan that never needs entries before `from`, nor those at or after
    /// `to`. Cursors may skip these; they read nothing for them.
    pub fn between(from: Option<(&[u8], Sequence)>, to: Option<(&[u8], Sequence)>) -> Self {
        let owned = |place: (&[u8], Sequence)| (place.0.to_vec(), place.1);
        Self { from: from.map(owned), to: to.map(owned), ..Self::default() }
    }

    /// Lets cursors release blocks of `large_bytes` and more, if given, while memory is short, and
    /// wait ([`crate::merge::Source::waits_at`]) until the entry is next. They read the block once
    /// more then: of many runs with values of some MiB, one has its block in memory and not all.
    #[must_use]
    pub fn releasing(self, large_bytes: Option<usize>) -> Self {
        Self { large_bytes, ..self }
    }

    /// Lets cursors of a compaction read so many bytes at a time instead of
    /// [`Account::piece_bytes`](crate::memory::Account::piece_bytes).
    #[must_use]
    pub fn in_pieces_of(self, bytes: usize) -> Self {
        Self { piece_bytes: Some(bytes), ..self }
    }

    /// Bounds the read-ahead of a scan whose limit is expected to need so many bytes of all tables
    /// together, if it has one.
    #[must_use]
    pub fn expecting(self, expected_bytes: Option<u64>) -> Self {
        Self { expected_bytes, ..self }
    }

    /// The most bytes of a read of a compaction's cursor, if they were given.
    pub(super) fn piece_bytes(&self) -> Option<usize> {
        self.piece_bytes
    }

    /// The memory of its bounds' keys, in bytes.
    pub fn keys_bytes(&self) -> usize {
        [&self.from, &self.to].into_iter().flatten().map(|(key, _)| key.capacity()).sum()
    }

    /// Returns true if the scan has a limit, whose likely needs bound its reads.
    pub fn is_limited(&self) -> bool {
        self.expected_bytes.is_some()
    }

    /// The bytes that the scan is likely to need still, and those of the blocks that its cursors
    /// have left; `None` without a limit.
    fn likely_bytes(&self) -> Option<(u64, u64)> {
        let expected = self.expected_bytes?;
        let left = self.left_bytes.load(Ordering::Relaxed);
        Some((expected.checked_sub(left).filter(|rest| *rest > 0).unwrap_or(left), left))
    }

    /// Returns true if a block of so many bytes is to be released while memory is short.
    pub(super) fn is_large(&self, bytes: usize) -> bool {
        self.large_bytes.is_some_and(|large| bytes >= large)
    }

    /// Ends a step of the scan: others may read large blocks. To be called after each one, whether
    /// it succeeds or fails.
    #[inline]
    pub fn end_step(&self) {
        self.turn.end();
    }

    /// Takes a turn to read a large block, for the rest of the step. Returns the charge for the
    /// time of the read; see [`TableStorage::charge_large_read`](super::TableStorage).
    pub(super) fn take_turn(&self, table: &Table, handle: &BlockHandle) -> Option<Charge> {
        let has_large = self.has_large.swap(true, Ordering::Relaxed);
        let charge = table.storage.charge_large_read(MemoryPart::Blocks, handle.bytes, has_large);
        self.turn.take(table.storage.large_reads(), handle.bytes as u64);
        charge
    }

    /// The lower bound of the scan, if any.
    pub fn from(&self) -> Option<(&[u8], Sequence)> {
        self.from.as_ref().map(|(key, sequence)| (&key[..], *sequence))
    }

    /// The upper bound of the scan, if any.
    pub fn to(&self) -> Option<(&[u8], Sequence)> {
        self.to.as_ref().map(|(key, sequence)| (&key[..], *sequence))
    }
}

/// A run's share of the data of a scan.
#[derive(Clone, Copy, Default, Debug)]
pub struct RunShare {
    /// It has more raw bytes than all other runs together.
    pub has_most: bool,
    /// Its part of the file bytes of all runs, from 0 to 1.
    pub of_bytes: f64,
}

/// The sizes of one cursor's reads. See the module's documentation.
#[derive(Debug)]
pub(super) struct ReadGrowth {
    share: RunShare,
    /// Bytes of the blocks that the cursor has left by steps; not counted without a limit.
    left_bytes: u64,
    /// The size of the first piece after a seek.
    first: usize,
    /// The size of the current read; 0 if there was none since the seek.
    present: usize,
    /// The bytes used.
    used: u64,
}

impl ReadGrowth {
    /// Makes the growth of a cursor that yields this share of the scan.
    pub(super) fn new(share: RunShare, volume: &ScanVolume) -> Self {
        let usual = if share.has_most { FIRST_BYTES_OF_MOST } else { FIRST_BYTES };
        // With a limit it is what is likely to be needed, of all runs together about as much as a
        // second read at most.
        let more = if volume.is_limited() { share.of_bytes * (SECOND_BYTES_MAX - usual) as f64 } else { 0.0 };
        let first = usual + more as usize;
        Self { share, left_bytes: 0, first, present: 0, used: 0 }
    }

    /// Counts a block that the cursor has left by a step.
    pub(super) fn left(&mut self, volume: &ScanVolume, block_bytes: usize) {
        self.left_bytes += block_bytes as u64;
        volume.left_bytes.fetch_add(block_bytes as u64, Ordering::Relaxed);
    }

    /// The bytes that the scan is likely to need of the run, from a block of `block_bytes` on: no
    /// bound without a limit.
    fn likely_bytes(&self, volume: &ScanVolume, block_bytes: usize) -> usize {
        let Some((rest, left)) = volume.likely_bytes() else { return usize::MAX };
        let share_left = self.left_bytes as f64 / left.max(1) as f64;
        let likely = rest as f64 * self.share.of_bytes.max(share_left);
        (likely as usize).saturating_add(block_bytes)
    }

    /// The size of the first read after a seek, to a block of `block_bytes`.
    pub(super) fn first(&self, volume: &ScanVolume, block_bytes: usize) -> usize {
        self.first.min(self.likely_bytes(volume, block_bytes))
    }

    /// Resets the size for a seek to another place.
    pub(super) fn restart(&mut self) {
        self.present = 0;
    }

    /// Records that the current bytes were read for a seek to here, a block of `block_bytes`.
    pub(super) fn arrived(&mut self, volume: &ScanVolume, block_bytes: usize) {
        if self.present == 0 {
            self.present = self.first(volume, block_bytes);
        }
    }

    /// The size of the next read after the current one is used up, from a block of `block_bytes`
    /// on, in bytes.
    pub(super) fn next(&mut self, volume: &ScanVolume, block_bytes: usize) -> usize {
        let used = self.present as u64;
        self.used += used;
        let all = volume.used_bytes.fetch_add(used, Ordering::Relaxed) + used;
        self.present = match self.present {
            0 => self.first,
            // As much as is likely.
            present if volume.is_limited() => (2 * present).clamp(SECOND_BYTES_MAX, SEQUENTIAL_BYTES),
            present if present == self.first => {
                let share = (SECOND_BYTES_MAX as u64).saturating_mul(self.used) / all.max(1);
                (share as usize).clamp(SECOND_BYTES_MIN, SECOND_BYTES_MAX)
            }
            present => (2 * present).min(SEQUENTIAL_BYTES),
        }
        .min(self.likely_bytes(volume, block_bytes));
        self.present
    }

    /// As [`ReadGrowth::next`], for a cursor that is known to continue.
    pub(super) fn next_sequential(&mut self) -> usize {
        self.present = (2 * self.present).clamp(SEQUENTIAL_BYTES_MIN, SEQUENTIAL_BYTES);
        self.present
    }

    /// The size of the read after the current one, of a cursor that continues.
    pub(super) fn following(&self) -> usize {
        (2 * self.present).min(SEQUENTIAL_BYTES)
    }

    /// Returns true if blocks of the current read are worth caching.
    pub(super) fn is_short(&self) -> bool {
        self.present <= SECOND_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_contains_its_block_and_stays_among_the_data() {
        let data_end = 100_000;
        for (offset, bytes) in [(0, 4096), (50_000, 4000), (96_000, 4000), (50_000, 40_000)] {
            let handle = BlockHandle { offset, bytes, checksum: 0 };
            for direction in [Direction::Forward, Direction::Backward] {
                for ahead in [0, 8192, 300_000] {
                    let (start, end) = piece(&handle, direction, ahead, data_end);
                    assert!(start <= offset && handle.end() <= end && end <= data_end, "{handle:?} {direction:?}");
                    assert!(end - start <= ahead.max(bytes as u64), "{start}..{end} for {handle:?} and {ahead}");
                }
            }
        }
        let index = BlockHandle { offset: 100_000, bytes: 4096, checksum: 0 };
        assert_eq!(piece(&index, Direction::Forward, 0, data_end), (100_000, 104_096), "no more than an index block");
    }

    /// With a limit the first read has what is likely of the run, and a block; later reads have
    /// what is likely still, and double once more was passed than expected.
    #[test]
    fn pieces_of_a_scan_with_a_limit_are_what_it_is_likely_to_need() {
        const BLOCK: usize = 4096;
        let volume = || ScanVolume::default().expecting(Some(20_000));
        let of = |has_most, of_bytes| ReadGrowth::new(RunShare { has_most, of_bytes }, &volume());
        let all = volume();
        let (mut most, mut few) = (of(true, 0.9), of(false, 0.1));
        assert_eq!(most.next(&all, BLOCK), 18_000 + BLOCK);
        assert_eq!(few.next(&all, BLOCK), 2_000 + BLOCK);
        most.left(&all, BLOCK);
        few.left(&all, 2 * BLOCK);
        let rest = 20_000 - 3 * BLOCK;
        assert_eq!(most.next(&all, BLOCK), (rest as f64 * 0.9) as usize + BLOCK);
        assert_eq!(few.next(&all, BLOCK), rest * 2 / 3 + BLOCK, "it has had more than its share");
        most.left(&all, 3 * BLOCK);
        assert_eq!(most.next(&all, BLOCK), (6.0 * BLOCK as f64 * 0.9) as usize + BLOCK, "as much as before");
        // A large limit: as without one, but for a larger first read.
        let all = ScanVolume::default().expecting(Some(u64::MAX));
        let mut most = ReadGrowth::new(RunShare { has_most: true, of_bytes: 0.9 }, &all);
        let sizes: Vec<_> = (0..4).map(|_| most.next(&all, BLOCK) >> 10).collect();
        assert_eq!(sizes, [116, 233, 467, 512]);
        let mut few = ReadGrowth::new(RunShare { has_most: false, of_bytes: 0.0 }, &all);
        assert_eq!(few.next(&all, BLOCK), BLOCK, "nothing but the block of the seek");
    }

    /// The first reads are small; a run that is alone in use gets all of the second one, one among
    /// ten a tenth, but at least the minimum.
    #[test]
    fn pieces_grow_with_use() {
        let growth = |has_most| ReadGrowth::new(RunShare { has_most, ..RunShare::default() }, &ScanVolume::default());
        let volume = ScanVolume::default();
        let mut alone = growth(false);
        let sizes: Vec<_> = (0..6).map(|_| alone.next(&volume, 4096) >> 10).collect();
        assert_eq!(sizes, [8, 128, 256, 512, 512, 512]);
        let mut with_most = growth(true);
        let sizes: Vec<_> = (0..4).map(|_| with_most.next(&ScanVolume::default(), 4096) >> 10).collect();
        assert_eq!(sizes, [16, 128, 256, 512]);
        let volume = ScanVolume::default();
        let mut many: Vec<_> = (0..10).map(|_| growth(false)).collect();
        assert!(many.iter_mut().all(|growth| growth.next(&volume, 4096) == FIRST_BYTES));
        let second: Vec<_> = many.iter_mut().map(|growth| growth.next(&volume, 4096) >> 10).collect();
        assert_eq!(second, [128, 64, 42, 32, 25, 21, 18, 16, 16, 16]);
        many[0].restart();
        assert_eq!(many[0].next(&volume, 4096), FIRST_BYTES, "a seek starts anew");
        many[1].restart();
        many[1].arrived(&volume, 4096);
        assert!(many[1].next(&volume, 4096) > FIRST_BYTES, "what was read for the seek was the first piece");
    }
}
