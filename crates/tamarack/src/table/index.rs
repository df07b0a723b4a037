//! [`Index`]: the two levels of fences that lead to a table's data blocks, and where the lower level is kept.
//!
//! ```text
//! top index      ├──────┬──────┬──────┤          in memory while the table is open
//! lower blocks   ├┬┬┬┬┬┤├┬┬┬┬┬┤├┬┬┬┬┬┤          read when first needed, then resident while there is room; else in the cache
//! data blocks    ▪▪▪▪▪▪ ▪▪▪▪▪▪ ▪▪▪▪▪▪
//! ```
//!
//! A lower block that found room stays until the table is closed, and a lookup borrows it: no hash
//! table is asked, nothing is counted up and down. The room of all tables together is bounded
//! ([`IndexRoom`]); what does not fit is kept by the block cache like any other block, and a lookup
//! may have to read it again.
//!
//! Cost: two searches among integers (`docs/READ_PATH.md` has figures). Memory: about 1 % of the
//! data at blocks of 4 KiB.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::entry::Sequence;
use crate::format::SharedFences;
use crate::format::fences::Fences;
use crate::format::stored::BlockHandle;
use crate::memory::Account;

/// How much memory the lower index blocks of all open tables may take. How much they do is on the
/// account.
#[derive(Debug)]
pub struct IndexRoom {
    capacity_bytes: u64,
    account: Arc<Account>,
}

impl IndexRoom {
    /// Room for `capacity_bytes` of lower index blocks.
    pub fn new(capacity_bytes: u64, account: Arc<Account>) -> Self {
        Self { capacity_bytes, account }
    }

    /// The memory that resident lower index blocks take, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.account.kept_bytes()
    }

    /// Takes so much room, if there is that much.
    fn take(&self, bytes: u64) -> bool {
        self.account.keep(bytes, self.capacity_bytes)
    }

    fn give_back(&self, bytes: u64) {
        self.account.let_go(bytes);
    }
}

/// The index of an open table.
#[derive(Debug)]
pub(super) struct Index {
    top: Fences,
    /// For each fence of `top`, its block if that is resident.
    resident: Box<[OnceLock<SharedFences>]>,
}

/// A lower index block that is at hand.
#[derive(Debug)]
pub(super) enum Lower<'a> {
    /// It stays as long as the table is open.
    Resident(&'a SharedFences),
    /// It came from elsewhere.
    Shared(SharedFences),
}

impl Deref for Lower<'_> {
    type Target = Fences;

    #[inline]
    fn deref(&self) -> &Fences {
        match self {
            Self::Resident(fences) => fences,
            Self::Shared(fences) => fences,
        }
    }
}

impl Lower<'_> {
    /// To be kept by a cursor.
    pub(super) fn into_shared(self) -> SharedFences {
        match self {
            Self::Resident(fences) => fences.clone(),
            Self::Shared(fences) => fences,
        }
    }
}

impl Index {
    pub(super) fn new(top: Fences) -> Self {
        let resident = (0..top.len()).map(|_| OnceLock::new()).collect();
        Self { top, resident }
    }

    /// The top index.
    #[inline]
    pub(super) fn top(&self) -> &Fences {
        &self.top
    }

    /// The lower block of the fence `top`, if that is resident.
    #[inline]
    pub(super) fn resident(&self, top: usize) -> Option<&SharedFences> {
        self.resident[top].get()
    }

    /// Makes the lower block of the fence `top` resident; false if there is no room.
    pub(super) fn keep(&self, top: usize, fences: &SharedFences, room: &IndexRoom) -> bool {
        if self.resident[top].get().is_some() {
            return true;
        }
        if !room.take(fences.memory_bytes() as u64) {
            return false;
        }
        // Another thread may have been faster.
        if self.resident[top].set(fences.clone()).is_err() {
            room.give_back(fences.memory_bytes() as u64);
        }
        true
    }

    /// Gives back what resident lower blocks take, when the table is closed.
    pub(super) fn give_back(&self, room: &IndexRoom) {
        room.give_back(self.resident.iter().filter_map(OnceLock::get).map(|fences| fences.memory_bytes() as u64).sum());
    }

    /// The memory that it takes whether lower blocks are resident or not, in bytes.
    pub(super) fn top_bytes(&self) -> usize {
        self.top.memory_bytes() + size_of_val(&*self.resident)
    }
}

/// Where in a table's data a place is.
pub(super) struct Found {
    /// The only data block that can hold it.
    pub(super) handle: BlockHandle,
    /// The sequence of the next block's fence, if that falls between versions of the same key.
    pub(super) next: Option<Sequence>,
}

impl Index {
    /// Where `lower`, the lower block of the fence `top`, leads.
    #[inline]
    pub(super) fn find(&self, top: usize, lower: &Fences, key: &[u8], sequence: Sequence) -> Found {
        let at = lower.floor(key, sequence);
        let next = match at + 1 < lower.len() {
            true => lower.sequence_of(at + 1, key),
            false => self.top.sequence_of(top + 1, key),
        };
        Found { handle: lower.handle(at), next }
    }
}
