//! [`WrittenTable`]: what its builder still has in memory of a table's file, for whoever opens it.
//!
//! ```text
//! file  │ data blocks │ lower index blocks │ digests │ filter │ properties │ top index │ footer │
//!                     └────── lower ───────┘         └─────────────────── end ──────────────────┘
//! ```
//!
//! Opening a table reads its end, and lookups read lower index blocks. The builder of a table had
//! both in memory, so they go to the open table from there: a new table is never cold. They are the
//! bytes of the file, and are checked as if they had been read.
//!
//! Lower blocks are left as long as the budget for resident ones lasts, except for the part of it
//! that is for lookups; from then on their memory is taken from that budget.
//!
//! Tests: `table/tests/written.rs`; `tests/suite/cold.rs` counts the reads of a database.

use std::sync::Arc;

use tamarack_env::ByteBuffer;

use super::storage::TableStorage;
use crate::memory::{Charge, MemoryPart};

/// Parts of a table's file in memory.
#[derive(Debug)]
pub struct WrittenTable {
    /// The lower index blocks as stored, in order; none if there was no memory left for them.
    lower: Vec<ByteBuffer>,
    /// The end of the file, from the filter on.
    end: ByteBuffer,
    /// Of `lower`, within the budget for resident blocks.
    _reservation: Option<LowerReservation>,
    _charge: Charge,
}

/// Collects the parts while a table is built.
#[derive(Debug)]
pub(super) struct Leftovers {
    storage: Arc<TableStorage>,
    lower: Vec<ByteBuffer>,
    reservation: Option<LowerReservation>,
}

/// A part of the budget for resident lower index blocks, given back when dropped.
#[derive(Debug)]
struct LowerReservation {
    storage: Arc<TableStorage>,
    bytes: u64,
    _charge: Charge,
}

impl WrittenTable {
    /// The end of the file and its lower index blocks. The reservation ends, so that they can be
    /// kept.
    pub(super) fn into_parts(self) -> (ByteBuffer, Vec<ByteBuffer>) {
        (self.end, self.lower)
    }

    /// With damage in the first lower index block.
    #[cfg(test)]
    pub(super) fn with_flipped_bit(mut self) -> Self {
        self.lower[0][9] ^= 1;
        self
    }
}

impl Leftovers {
    pub(super) fn new(storage: &Arc<TableStorage>) -> Self {
        Self { storage: storage.clone(), lower: Vec::new(), reservation: None }
    }

    /// Reserves memory for lower index blocks of so many bytes. False if there is none: they are
    /// not to be added.
    pub(super) fn reserve(&mut self, bytes: u64) -> bool {
        let is_taken = self.storage.index_budget().take_unasked(bytes);
        self.reservation = is_taken.then(|| LowerReservation {
            storage: self.storage.clone(),
            bytes,
            _charge: self.storage.account().charge(MemoryPart::Blocks, bytes as usize),
        });
        is_taken
    }

    /// Adds a lower index block, as stored.
    pub(super) fn add_lower(&mut self, stored: ByteBuffer) {
        self.lower.push(stored);
    }

    /// Ends with the end of the file.
    pub(super) fn finish(self, end: ByteBuffer) -> WrittenTable {
        let charge = self.storage.account().charge(MemoryPart::Indexes, end.capacity());
        WrittenTable { lower: self.lower, end, _reservation: self.reservation, _charge: charge }
    }
}

impl Drop for LowerReservation {
    fn drop(&mut self) {
        self.storage.index_budget().give_back(self.bytes);
    }
}
