//! [`Handles`]: the block handles of an index block in little memory.
//!
//! ```text
//! │ start │ checksum │ start │ checksum │ … │ end │      blocks that follow each other in the file
//! ```
//!
//! Data blocks follow each other, and so do lower index blocks. The end of one is the start of the
//! next, so one number tells both; it is relative to the first block and takes four bytes. All that
//! a lookup needs of a block stands together, mostly in one cache line. Memory: 12 bytes per block,
//! and 12 for the end of the last one.
//!
//! The format permits gaps between blocks, and blocks over 4 GiB and more. Their handles are listed
//! as they are, with 24 bytes each.

use crate::stored::BlockHandle;

/// A list of block handles.
#[derive(Debug)]
pub(super) enum Handles {
    /// Blocks that follow each other, within less than 4 GiB.
    Adjacent {
        /// Where the first block starts in the file.
        base: u64,
        /// One for each block, and one that starts where the last block ends.
        blocks: Box<[AdjacentBlock]>,
    },
    /// Any others.
    Any(Box<[BlockHandle]>),
}

/// Where a block starts, from the first one on, and its checksum (little-endian: an integer would
/// be aligned to eight bytes).
#[derive(Debug)]
pub(super) struct AdjacentBlock {
    start: u32,
    checksum: [u8; 8],
}

impl Handles {
    /// Packs `handles`.
    pub(super) fn new(handles: &[BlockHandle]) -> Self {
        Self::adjacent(handles).unwrap_or_else(|| Self::Any(handles.into()))
    }

    fn adjacent(handles: &[BlockHandle]) -> Option<Self> {
        let (first, last) = (handles.first()?, handles.last()?);
        if !handles.windows(2).all(|pair| pair[0].end() == pair[1].offset) {
            return None;
        }
        let block = |offset, checksum: u64| {
            let start = u32::try_from(offset - first.offset).ok()?;
            Some(AdjacentBlock { start, checksum: checksum.to_le_bytes() })
        };
        let mut blocks = Vec::with_capacity(handles.len() + 1);
        for handle in handles {
            blocks.push(block(handle.offset, handle.checksum)?);
        }
        blocks.push(block(last.end(), 0)?);
        Some(Self::Adjacent { base: first.offset, blocks: blocks.into() })
    }

    /// The handle at `index`, which must exist.
    #[inline]
    pub(super) fn get(&self, index: usize) -> BlockHandle {
        match self {
            Self::Adjacent { base, blocks } => {
                let (next, block) = (&blocks[index + 1], &blocks[index]);
                BlockHandle {
                    offset: base + u64::from(block.start),
                    bytes: (next.start - block.start) as usize,
                    checksum: u64::from_le_bytes(block.checksum),
                }
            }
            Self::Any(handles) => handles[index],
        }
    }

    /// Its memory beside its own size, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Adjacent { blocks, .. } => size_of_val(&**blocks),
            Self::Any(handles) => size_of_val(&**handles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four blocks that end just before and just at 4 GiB from the beginning of the first.
    #[test]
    fn blocks_over_4_gib_are_listed() {
        for (bytes, is_adjacent) in [(u32::MAX as usize, true), (1 << 32, false)] {
            let last = BlockHandle { offset: (1 << 50) + (3 << 30), bytes: bytes - (3 << 30), checksum: u64::MAX };
            let mut listed: Vec<_> =
                (0..3).map(|at| BlockHandle { offset: (1 << 50) + (at << 30), bytes: 1 << 30, checksum: at }).collect();
            listed.push(last);
            let handles = Handles::new(&listed);
            assert_eq!(matches!(handles, Handles::Adjacent { .. }), is_adjacent);
            assert_eq!((0..4).map(|index| handles.get(index)).collect::<Vec<_>>(), listed);
        }
    }

    /// One byte between two blocks, or shared by them, makes the difference.
    #[test]
    fn blocks_that_do_not_follow_each_other_are_listed() {
        for (offset, is_adjacent) in [(99, false), (100, true), (101, false)] {
            let listed = [(0, 1), (offset, 2)].map(|(offset, checksum)| BlockHandle { offset, bytes: 100, checksum });
            let handles = Handles::new(&listed);
            assert_eq!(matches!(handles, Handles::Adjacent { .. }), is_adjacent);
            assert_eq!([0, 1].map(|index| handles.get(index)), listed);
        }
    }
}
