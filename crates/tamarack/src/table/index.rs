//! [`Index`]: the two levels of fence pointers to a table's data blocks, and the residence of the
//! lower level.
//!
//! ```text
//! top index      ├──────┬──────┬──────┤    in memory while the table is open
//! lower blocks   ├┬┬┬┬┬┤├┬┬┬┬┬┤├┬┬┬┬┬┤    resident within the budget, else in the cache or
//! data blocks    ▪▪▪▪▪▪ ▪▪▪▪▪▪ ▪▪▪▪▪▪      read when needed
//! ```
//!
//! A resident lower block stays until the table is closed, and lookups borrow it: no hash table is
//! searched, no references are counted. [`IndexBudget`] bounds the resident blocks of all tables
//! together; others are in the block cache, and a lookup may have to read them again. Either kind
//! has slots for its cached data blocks ([`LowerBlock`](crate::cache::LowerBlock)).
//!
//! Cost: two searches among integers (`docs/READ_PATH.md` has figures). Memory: 21 bytes
//! per data block, 0.5 to 0.7 % of the data at blocks of 4 KiB; more if keys are long and alike
//! ([`Fences`]).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::cache::{LowerSlots, SharedLower};
use crate::entry::Sequence;
use crate::format::fences::Fences;
use crate::memory::Account;

/// The budget for resident lower index blocks of all open tables. Their memory is on the account.
#[derive(Debug)]
pub struct IndexBudget {
    capacity_bytes: u64,
    account: Arc<Account>,
}

impl IndexBudget {
    /// Makes a budget of `capacity_bytes`.
    pub fn new(capacity_bytes: u64, account: Arc<Account>) -> Self {
        Self { capacity_bytes, account }
    }

    /// The memory of resident lower index blocks, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.account.kept_bytes()
    }

    /// The most that may be resident, in bytes.
    #[cfg(test)]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Takes `bytes` from the budget, if they are left.
    fn take(&self, bytes: u64) -> bool {
        self.account.keep(bytes, self.capacity_bytes)
    }

    /// Takes `bytes` for blocks that nobody has asked for yet, if they are left: the last eighth of
    /// the budget is for those that lookups ask for.
    pub(super) fn take_unasked(&self, bytes: u64) -> bool {
        self.account.keep(bytes, self.capacity_bytes - self.capacity_bytes / 8)
    }

    /// What is left for blocks that nobody has asked for yet, in bytes.
    pub(super) fn left_unasked_bytes(&self) -> u64 {
        (self.capacity_bytes - self.capacity_bytes / 8).saturating_sub(self.used_bytes())
    }

    /// What is left, in bytes.
    pub(super) fn left_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.account.let_go(bytes);
    }
}

/// The index of an open table.
#[derive(Debug)]
pub(super) struct Index {
    top: Fences,
    /// For each fence of `top`, its block if that is resident.
    resident: Box<[OnceLock<SharedLower>]>,
    /// For each fence of `top`, its block if that is cached instead.
    cached: Arc<LowerSlots>,
}

/// A lower index block in memory.
#[derive(Debug)]
pub(super) enum Lower<'a> {
    /// Resident while the table is open.
    Resident(&'a SharedLower),
    /// Shared with the cache or read for this lookup.
    Shared(SharedLower),
}

impl Deref for Lower<'_> {
    type Target = SharedLower;

    #[inline]
    fn deref(&self) -> &SharedLower {
        match self {
            Self::Resident(lower) => lower,
            Self::Shared(lower) => lower,
        }
    }
}

impl Lower<'_> {
    /// A reference that a cursor can keep.
    pub(super) fn into_shared(self) -> SharedLower {
        match self {
            Self::Resident(lower) => lower.clone(),
            Self::Shared(lower) => lower,
        }
    }
}

impl Index {
    pub(super) fn new(top: Fences, cached: Arc<LowerSlots>) -> Self {
        let resident = (0..top.len()).map(|_| OnceLock::new()).collect();
        Self { top, resident, cached }
    }

    /// The top index.
    #[inline]
    pub(super) fn top(&self) -> &Fences {
        &self.top
    }

    /// The lower block of the fence `top`, if resident.
    #[inline]
    pub(super) fn resident(&self, top: usize) -> Option<&SharedLower> {
        self.resident[top].get()
    }

    /// The slots of cached lower blocks.
    #[inline]
    pub(super) fn cached(&self) -> &Arc<LowerSlots> {
        &self.cached
    }

    /// Makes the lower block of the fence `top` resident, and returns the one that is; `None` if
    /// the budget is used up.
    pub(super) fn keep(&self, top: usize, lower: &SharedLower, budget: &IndexBudget) -> Option<&SharedLower> {
        self.keep_if(top, lower, budget, IndexBudget::take)
    }

    /// As [`Index::keep`], for a block that nobody has asked for yet.
    pub(super) fn keep_unasked(&self, top: usize, lower: &SharedLower, budget: &IndexBudget) -> Option<&SharedLower> {
        self.keep_if(top, lower, budget, IndexBudget::take_unasked)
    }

    fn keep_if(
        &self,
        top: usize,
        lower: &SharedLower,
        budget: &IndexBudget,
        take: impl FnOnce(&IndexBudget, u64) -> bool,
    ) -> Option<&SharedLower> {
        let resident = &self.resident[top];
        if resident.get().is_none() {
            if !take(budget, lower.memory_bytes() as u64) {
                return None;
            }
            // Another thread may have been faster.
            if resident.set(lower.clone()).is_err() {
                budget.give_back(lower.memory_bytes() as u64);
            }
        }
        resident.get()
    }

    /// The first lower block that is not resident.
    pub(super) fn first_lacking(&self) -> Option<usize> {
        self.resident.iter().position(|block| block.get().is_none())
    }

    /// Returns the resident lower blocks to the budget, when the table is closed.
    pub(super) fn give_back(&self, budget: &IndexBudget) {
        budget
            .give_back(self.resident.iter().filter_map(OnceLock::get).map(|fences| fences.memory_bytes() as u64).sum());
    }

    /// The memory of the index without resident lower blocks, in bytes.
    pub(super) fn top_bytes(&self) -> usize {
        self.top.memory_bytes() + size_of_val(&*self.resident) + self.cached.memory_bytes()
    }
}

/// The position of a place in a table's data.
#[derive(Debug)]
pub(super) struct DataBlockPosition {
    /// The fence of the only data block that can contain it.
    pub(super) at: usize,
    /// The sequence of the next block's fence, if that falls between versions of the same key.
    pub(super) next: Option<Sequence>,
}

impl Index {
    /// Finds the data block of a place through `lower`, the lower block of the fence `top`.
    #[inline]
    pub(super) fn find(&self, top: usize, lower: &Fences, key: &[u8], sequence: Sequence) -> DataBlockPosition {
        let at = lower.floor(key, sequence);
        let next = match at + 1 < lower.len() {
            true => lower.sequence_of(at + 1, key),
            false => self.top.sequence_of(top + 1, key),
        };
        DataBlockPosition { at, next }
    }
}
