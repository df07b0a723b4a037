//! [`Neighbours`]: for recently read blocks, the entry that each was read for.
//!
//! Each slot, chosen by a hash of the block, stores part of the hash of the last block read there
//! and of the entry that it was read for. A block is remembered until another one takes its slot,
//! so the number of slots is how long "recently" is, counted in block reads. Two blocks or two
//! entries are confused once in 2³² times; that costs some memory or a read, not a wrong answer.
//!
//! Cost: 8 bytes per slot; one atomic exchange for each block that is read for a lookup.

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_filter::Digest;

/// The recently read blocks. See the module's documentation.
pub(super) struct Neighbours(Box<[AtomicU64]>);

impl Neighbours {
    /// Remembers `blocks` blocks, or a few more.
    pub(super) fn new(blocks: usize) -> Self {
        Self((0..blocks.next_power_of_two()).map(|_| AtomicU64::new(0)).collect())
    }

    /// The memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }

    /// Records that the block with this hash was read for `entry`. Returns true if it was recently
    /// read for another of its entries.
    pub(super) fn other_was_wanted(&self, block: u64, entry: Digest) -> bool {
        let slot = &self.0[block as usize & (self.0.len() - 1)];
        let wanted = block >> 32 << 32 | entry.stored() & 0xFFFF_FFFF;
        let before = slot.swap(wanted, Ordering::Relaxed);
        before >> 32 == wanted >> 32 && before != wanted
    }
}
