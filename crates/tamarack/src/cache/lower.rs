//! [`LowerBlock`]: a lower index block in memory, with a slot for each of its data blocks.
//!
//! ```text
//! fences      │ a │ f │ m │ t │       a lookup finds the fence, and with it the slot
//! slots       │ ● │ · │ ● │ · │       the data block, if it is cached: a pointer
//! ```
//!
//! So a cached data block is found without a hash table: the lookup has just found its fence. A
//! slot is read without a lock and without counting a reference ([`ArcSwapOption`]): what it held
//! stays alive while somebody looks at it. Only the cache writes slots, under its lock.
//!
//! Data blocks belong to the lower index block whose slots they are in: they are freed with it. A
//! table's blocks therefore leave the cache at the moment at which the table is closed.
//!
//! Cost: eight bytes for each data block below a lower index block that has cached ones; a lookup
//! touches one cache line of slots, and one of the block that it needs anyway.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use tamarack_env::sync::schedule_point;

use super::usage::Usage;
use crate::format::SharedBlock;
use crate::format::block::Block;
use crate::format::fences::Fences;
use crate::memory::Charged;

/// A lower index block that is kept in memory.
pub type SharedLower = Arc<Charged<LowerBlock>>;

/// The fences of a lower index block, and slots for their data blocks. Dereferences to its fences.
pub struct LowerBlock {
    fences: Fences,
    /// A hash of the table and of the place of the block there.
    name: u64,
    /// Made with the first block that is cached.
    slots: OnceLock<Box<[DataSlot]>>,
    usage: Arc<Usage>,
}

/// The slot of a data block.
type DataSlot = ArcSwapOption<Charged<Block>>;

/// The cached lower index blocks of a table, by their fence in the top index. Those that are
/// resident for another reason are elsewhere.
pub struct LowerSlots {
    /// A hash of the table.
    name: u64,
    slots: Box<[ArcSwapOption<Charged<LowerBlock>>]>,
    usage: Arc<Usage>,
}

/// A data block in the cache, while a lookup uses it. No reference is counted.
pub struct CachedBlock(Guard<Option<SharedBlock>>);

impl Deref for CachedBlock {
    type Target = SharedBlock;

    #[inline]
    fn deref(&self) -> &SharedBlock {
        self.0.as_ref().expect("made only of a full slot")
    }
}

impl Deref for LowerBlock {
    type Target = Fences;

    #[inline]
    fn deref(&self) -> &Fences {
        &self.fences
    }
}

impl LowerBlock {
    /// Makes the lower index block called `name`, without data blocks.
    pub(super) fn new(fences: Fences, name: u64, usage: Arc<Usage>) -> Self {
        Self { fences, name, slots: OnceLock::new(), usage }
    }

    /// The data block of the fence `at`, if it is cached. Counts as a use of it.
    #[inline]
    pub fn cached(&self, at: usize) -> Option<CachedBlock> {
        schedule_point();
        let block = self.slots.get()?[at].load();
        block.as_ref()?.note_use();
        Some(CachedBlock(block))
    }

    /// Returns true if the data block of the fence `at` is cached.
    pub fn has_cached(&self, at: usize) -> bool {
        self.slots.get().is_some_and(|slots| slots[at].load().is_some())
    }

    /// A hash that tells its data blocks from those of others.
    #[inline]
    pub(super) fn name_of(&self, at: usize) -> u64 {
        self.name.wrapping_add((at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The slot of the fence `at`. Its writer has the cache's lock.
    pub(super) fn slot(&self, at: usize) -> &DataSlot {
        let slots = self.slots.get_or_init(|| {
            let slots: Box<[_]> = (0..self.fences.len()).map(|_| ArcSwapOption::empty()).collect();
            self.usage.add_slots(size_of_val(&*slots) as u64);
            slots
        });
        &slots[at]
    }

    /// Its memory, in bytes; without data blocks and their slots.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Fences>() + self.fences.memory_bytes()
    }
}

impl Drop for LowerBlock {
    fn drop(&mut self) {
        let Some(slots) = self.slots.take() else { return };
        for slot in &slots {
            if let Some(block) = slot.swap(None) {
                self.usage.orphaned(block.memory_bytes() as u64);
            }
        }
        self.usage.subtract_slots(size_of_val(&*slots) as u64);
    }
}

impl LowerSlots {
    /// Makes empty slots for `count` lower index blocks of the table called `name`.
    pub(super) fn new(count: usize, name: u64, usage: Arc<Usage>) -> Arc<Self> {
        let slots = (0..count).map(|_| ArcSwapOption::empty()).collect();
        Arc::new(Self { name, slots, usage })
    }

    /// The lower index block of the fence `top`, if it is cached. Counts as a use of it.
    #[inline]
    pub fn cached(&self, top: usize) -> Option<SharedLower> {
        schedule_point();
        let lower = self.slots[top].load_full()?;
        lower.note_use();
        Some(lower)
    }

    /// See [`LowerBlock::name_of`].
    pub(super) fn name_of(&self, top: usize) -> u64 {
        self.name.wrapping_add((top as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// The slot of the fence `top`. Its writer has the cache's lock.
    pub(super) fn slot(&self, top: usize) -> &ArcSwapOption<Charged<LowerBlock>> {
        &self.slots[top]
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.slots)
    }
}

impl Drop for LowerSlots {
    fn drop(&mut self) {
        for slot in &self.slots {
            if let Some(lower) = slot.swap(None) {
                self.usage.orphaned(lower.memory_bytes() as u64);
            }
        }
    }
}

impl fmt::Debug for LowerBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerBlock").field("fences", &self.fences.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for LowerSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerSlots").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
