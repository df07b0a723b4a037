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
//! Cost: nine bytes for each data block below a lower index block that has cached ones; a lookup
//! touches one cache line of slots, and one of the block that it needs anyway.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use tamarack_env::prefetch;
use tamarack_env::sync::schedule_point;

use super::usage::Usage;
use super::uses::Uses;
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
    slots: OnceLock<Slots<Block>>,
    usage: Arc<Usage>,
}

/// Slots for blocks, one after the other.
pub(super) struct Slots<B> {
    blocks: Box<[ArcSwapOption<Charged<B>>]>,
    uses: Box<[Uses]>,
}

/// The memory of a slot, in bytes.
const SLOT_BYTES: u64 = (size_of::<ArcSwapOption<Charged<Block>>>() + size_of::<Uses>()) as u64;

impl<B> Slots<B> {
    fn new(count: usize) -> Self {
        let blocks = (0..count).map(|_| ArcSwapOption::empty()).collect();
        Self { blocks, uses: (0..count).map(|_| Uses::default()).collect() }
    }

    /// The block in a slot. Its writer has the cache's lock.
    #[inline]
    pub(super) fn block(&self, at: usize) -> &ArcSwapOption<Charged<B>> {
        &self.blocks[at]
    }

    /// How often it was used.
    #[inline]
    pub(super) fn uses(&self, at: usize) -> &Uses {
        &self.uses[at]
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.blocks) + size_of_val(&*self.uses)
    }

    /// Empties all slots, with their lower index block or table.
    fn clear(&self, usage: &Usage) {
        for block in &self.blocks {
            if let Some(block) = block.swap(None) {
                usage.orphaned(block.memory_bytes() as u64);
            }
        }
    }
}

/// The cached lower index blocks of a table, by their fence in the top index. Those that are
/// resident for another reason are elsewhere.
pub struct LowerSlots {
    /// A hash of the table.
    name: u64,
    slots: Slots<LowerBlock>,
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
        let slots = self.slots.get()?;
        let block = slots.block(at).load();
        block.as_ref()?;
        slots.uses(at).note();
        Some(CachedBlock(block))
    }

    /// As [`LowerBlock::cached`], but does not count.
    #[inline]
    pub fn peek(&self, at: usize) -> Option<CachedBlock> {
        let block = self.slots.get()?.block(at).load();
        block.is_some().then_some(CachedBlock(block))
    }

    /// Asks for the memory of the slot of the fence `at`.
    #[inline]
    pub fn prefetch_slot(&self, at: usize) {
        if let Some(slots) = self.slots.get() {
            prefetch(slots.block(at));
            prefetch(slots.uses(at));
        }
    }

    /// Returns true if the data block of the fence `at` is cached.
    pub fn has_cached(&self, at: usize) -> bool {
        self.peek(at).is_some()
    }

    /// A hash that tells its data blocks from those of others.
    #[inline]
    pub(super) fn name_of(&self, at: usize) -> u64 {
        self.name.wrapping_add((at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The memory of slots that it lacks yet, in bytes.
    pub(super) fn more_slots_bytes(&self) -> u64 {
        if self.slots.get().is_some() { 0 } else { self.fences.len() as u64 * SLOT_BYTES }
    }

    /// The slots of its data blocks.
    pub(super) fn slots(&self) -> &Slots<Block> {
        self.slots.get_or_init(|| {
            let slots = Slots::new(self.fences.len());
            self.usage.add_slots(slots.memory_bytes() as u64);
            slots
        })
    }

    /// Its memory, in bytes; without data blocks and their slots.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Fences>() + self.fences.memory_bytes()
    }
}

impl Drop for LowerBlock {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.get() {
            slots.clear(&self.usage);
            self.usage.subtract_slots(slots.memory_bytes() as u64);
        }
    }
}

impl LowerSlots {
    /// Makes empty slots for `count` lower index blocks of the table called `name`.
    pub(super) fn new(count: usize, name: u64, usage: Arc<Usage>) -> Arc<Self> {
        Arc::new(Self { name, slots: Slots::new(count), usage })
    }

    /// The lower index block of the fence `top`, if it is cached. Counts as a use of it.
    #[inline]
    pub fn cached(&self, top: usize) -> Option<SharedLower> {
        schedule_point();
        let lower = self.slots.block(top).load_full()?;
        self.slots.uses(top).note();
        Some(lower)
    }

    /// See [`LowerBlock::name_of`].
    pub(super) fn name_of(&self, top: usize) -> u64 {
        self.name.wrapping_add((top as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// The slots.
    pub(super) fn slots(&self) -> &Slots<LowerBlock> {
        &self.slots
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.slots.memory_bytes()
    }
}

impl Drop for LowerSlots {
    fn drop(&mut self) {
        self.slots.clear(&self.usage);
    }
}

impl fmt::Debug for LowerBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerBlock").field("fences", &self.fences.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for LowerSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LowerSlots").field("slots", &self.slots.blocks.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CachedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
