//! [`Neighbours`]: for blocks that were read lately, which of their entries was wanted.
//!
//! A slot for each of a few blocks, chosen by a hash, holds part of the hash of the block that was
//! last read there and of the entry that it was read for. A block is remembered until another one
//! needs its slot, so the number of slots is how long "lately" is, counted in blocks that are read.
//! Two blocks may be taken for the same once in 2³² times, or two entries; that costs a little
//! memory or a read, not an answer.
//!
//! Cost: 8 bytes per slot; one atomic exchange for each block that is read for a lookup.

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_filter::Digest;

/// See the module's documentation.
pub(super) struct Neighbours(Box<[AtomicU64]>);

impl Neighbours {
    /// Remembers so many blocks, or a few more.
    pub(super) fn new(blocks: usize) -> Self {
        Self((0..blocks.next_power_of_two()).map(|_| AtomicU64::new(0)).collect())
    }

    /// The memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }

    /// A block, given by a hash, was read for an entry: says whether it was read for another of its
    /// entries lately.
    pub(super) fn other_was_wanted(&self, block: u64, entry: Digest) -> bool {
        let slot = &self.0[block as usize & (self.0.len() - 1)];
        let wanted = block >> 32 << 32 | entry.stored() & 0xFFFF_FFFF;
        let before = slot.swap(wanted, Ordering::Relaxed);
        before >> 32 == wanted >> 32 && before != wanted
    }
}
