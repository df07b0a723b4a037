//! [`IndexPosition`]: where a cursor is in the index of its table, and what follows from that for
//! its reads: which blocks come next, and which of them its scan can need.
//!
//! Tests: those of cursors.

use super::reader::Table;
use super::window::{Direction, SEQUENTIAL_BYTES, ScanVolume};
use crate::cache::SharedLower;
use crate::entry::Sequence;
use crate::format::stored::BlockHandle;

/// A position in the index: a lower index block, and one of its fences.
#[derive(Debug)]
pub(super) struct IndexPosition {
    /// The block's fence in the top index.
    pub(super) top: usize,
    pub(super) fences: SharedLower,
    pub(super) at: usize,
}

impl IndexPosition {
    /// The data block of the current fence.
    pub(super) fn handle(&self) -> BlockHandle {
        self.fences.handle(self.at)
    }

    /// Where the first data block, from the current one on, that does not end by `end` begins and
    /// ends; about where, if it is below the next index block. `None` if it is large, and so will
    /// be read alone.
    pub(super) fn block_beyond(&self, end: u64) -> Option<(u64, u64)> {
        let next = self.first_from(self.at, |block| block.end() > end);
        if let Some(next) = next {
            return Some((next.offset, next.end())).filter(|_| next.bytes < SEQUENTIAL_BYTES);
        }
        // Blocks are of about the same size. One that begins before the piece is read by itself.
        let last = self.fences.handle(self.fences.len() - 1);
        let bytes = last.bytes as u64;
        Some((last.end().max(end.saturating_sub(2 * bytes)), end.max(last.end()) + bytes))
    }

    /// The last end of a data block, from the current one on, that is no further than `end`; `end`
    /// if that is below another index block.
    pub(super) fn last_end_by(&self, end: u64) -> u64 {
        self.first_from(self.at, |block| block.end() > end).map_or(end, |beyond| beyond.offset)
    }

    /// Returns true if the fence is at or before a place, so that no earlier block has entries at
    /// or after the place.
    pub(super) fn is_at_or_before(&self, table: &Table, (key, sequence): (&[u8], Sequence)) -> bool {
        match self.at {
            // `Fences` do not compare the first one, which is that of the level above.
            0 => self.top <= table.index.top().floor(key, sequence),
            at => at <= self.fences.floor(key, sequence),
        }
    }

    /// The size of the blocks, from the current one on, that have some of the next `bytes`; `bytes`
    /// if that leads below another index block.
    pub(super) fn blocks_within(&self, direction: Direction, bytes: usize) -> usize {
        let here = self.handle();
        let within = match direction {
            Direction::Forward => {
                let end = here.offset.saturating_add(bytes as u64);
                self.first_from(self.at, |block| block.end() >= end).map(|last| last.end().saturating_sub(here.offset))
            }
            Direction::Backward => {
                let start = here.end().saturating_sub(bytes as u64);
                let reaches_back = self.fences.handle(0).offset <= start;
                let first = self.first_from(0, |block| block.end() > start).filter(|_| reaches_back);
                first.map(|first| here.end().saturating_sub(first.offset))
            }
        };
        within.map_or(bytes, |within| within as usize)
    }

    /// The first block of the index block, from fence `from` on, for which `is_there` holds, as it
    /// does for all that follow.
    fn first_from(&self, from: usize, is_there: impl Fn(&BlockHandle) -> bool) -> Option<BlockHandle> {
        let (mut low, mut high) = (from, self.fences.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_there(&self.fences.handle(middle)) { high = middle } else { low = middle + 1 }
        }
        (low < self.fences.len()).then(|| self.fences.handle(low))
    }

    /// The upper bound on the bytes that the scan can need, from the current block on.
    pub(super) fn wanted_bytes(&self, table: &Table, direction: Direction, scan: &ScanVolume) -> usize {
        let end = match direction {
            Direction::Forward => scan.to(),
            Direction::Backward => scan.from(),
        };
        // Of what is below other index blocks, nothing is known here.
        let end = end.map(|place| table.place_in_file(place));
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
