//! [`Approach`]: the way of a lookup to its data block, in steps, so that many lookups wait for
//! memory together.
//!
//! ```text
//! step   0               1               2               3               4
//! asks   lower block     its fences      slot of the     the block       its entries
//! for                                    data block
//!
//! a      ├─ waits ─┤     ├─ waits ─┤     …               the next step of each lookup begins when
//! b        ├─ waits ─┤     ├─ waits ─┤                   those of the others have begun
//! c          ├─ waits ─┤     ├─ waits ─┤
//! ```
//!
//! Where the processor's caches hold little of the data, a lookup mostly waits for one place in
//! memory after another. Each step looks only at what the step before has asked for
//! ([`prefetch`]), and asks for what comes next. The search itself follows the last step; it takes
//! over the position in the index.
//!
//! An approach reads nothing and changes no result: where blocks are not in memory it ends, and the
//! search reads them as without it.
//!
//! Tests: `tests/suite/reads.rs` and lockstep histories compare `multi_get` with single lookups;
//! `examples/multi_get.rs` measures.

use tamarack_env::prefetch_shared;

use super::index::{DataBlockPosition, Lower};
use super::reader::Table;
use crate::cache::SharedLower;
use crate::entry::{Query, Sequence};

/// A lookup that approaches its data block in a table.
#[derive(Debug)]
pub struct Approach<'t> {
    table: &'t Table,
    /// The sequence of the query as the file has it.
    sequence: Sequence,
    at: At<'t>,
}

/// How far it has got.
#[derive(Debug)]
enum At<'t> {
    /// At a lower index block that was asked for.
    Lower(usize, &'t SharedLower),
    /// At its fences.
    Fences(usize, &'t SharedLower),
    /// At the slot of a data block, then at the block.
    Slot(&'t SharedLower, DataBlockPosition),
    Block(&'t SharedLower, DataBlockPosition),
    /// At the data block.
    There(&'t SharedLower, DataBlockPosition),
    /// A block is not in memory, or not for certain.
    Nowhere,
}

impl<'t> Approach<'t> {
    /// The steps that there are.
    pub const STEPS: usize = 4;

    /// Step 0.
    #[inline]
    pub(super) fn begin(table: &'t Table, query: Query<'_>) -> Self {
        let sequence = table.sequence_in_file(query);
        let top = table.index.top().floor(query.key(), sequence);
        let at = match table.index.resident(top) {
            Some(lower) => {
                prefetch_shared(lower);
                At::Lower(top, lower)
            }
            // It could leave the cache.
            None => At::Nowhere,
        };
        Self { table, sequence, at }
    }

    /// The next step. No effect after the last one.
    #[inline]
    pub fn step(&mut self, query: Query<'_>) {
        self.at = match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Lower(top, lower) => {
                lower.prefetch();
                At::Fences(top, lower)
            }
            At::Fences(top, lower) => {
                let position = self.table.index.find(top, lower, query.key(), self.sequence);
                lower.prefetch_slot(position.at);
                At::Slot(lower, position)
            }
            At::Slot(lower, position) => match lower.peek(position.at) {
                Some(block) => {
                    prefetch_shared(&block);
                    At::Block(lower, position)
                }
                None => At::There(lower, position),
            },
            At::Block(lower, position) => {
                if let Some(block) = lower.peek(position.at) {
                    block.prefetch(query.key());
                }
                At::There(lower, position)
            }
            at @ (At::There(..) | At::Nowhere) => at,
        };
    }

    /// The position in the index of `table` where it has got to, if it has.
    #[inline]
    pub(super) fn take(&mut self, table: &Table) -> Option<(Lower<'t>, DataBlockPosition)> {
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::There(lower, position) if std::ptr::eq(self.table, table) => Some((Lower::Resident(lower), position)),
            _ => None,
        }
    }
}
