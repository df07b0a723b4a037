//! [`Approach`]: the way of a lookup or a seek to its data block, in steps, so that many lookups,
//! or the seeks of a scan in all runs, wait for memory together.
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
//! over the position in the index. "A lookup" here is a seek, too.
//!
//! An approach reads nothing and changes no result: where blocks are not in memory it ends, and the
//! search reads them as without it.
//!
//! Tests: `tests/suite/reads.rs` and lockstep histories compare `multi_get` with single lookups;
//! `examples/multi_get.rs` measures. Cursors compare the position with what they would find.

use tamarack_env::prefetch_shared;

use super::index::{DataBlockPosition, Lower};
use super::reader::Table;
use crate::cache::SharedLower;
use crate::entry::Sequence;

/// A lookup that approaches its data block in a table.
#[derive(Debug)]
pub struct Approach<'t> {
    table: &'t Table,
    key: &'t [u8],
    /// The sought sequence as the file has it.
    sequence: Sequence,
    at: At<'t>,
}

/// A lower index block, with its fence in the top index, and a data block below it.
#[derive(Debug)]
struct Way<'t> {
    top: usize,
    lower: &'t SharedLower,
    position: DataBlockPosition,
}

/// How far it has got.
#[derive(Debug)]
enum At<'t> {
    /// At a lower index block that was asked for.
    Lower(usize, &'t SharedLower),
    /// At its fences.
    Fences(usize, &'t SharedLower),
    /// At the slot of a data block.
    Slot(Way<'t>),
    /// At the data block.
    Block(Way<'t>),
    /// At its entries, or at the empty slot.
    There(Way<'t>),
    /// A lower index block is not in memory, or not for certain.
    Nowhere,
}

impl<'t> Approach<'t> {
    /// The steps that there are.
    pub const STEPS: usize = 4;

    /// Step 0.
    #[inline]
    pub(super) fn begin(table: &'t Table, key: &'t [u8], sequence: Sequence) -> Self {
        let top = table.index.top().floor(key, sequence);
        let at = match table.index.resident(top) {
            Some(lower) => {
                prefetch_shared(lower);
                At::Lower(top, lower)
            }
            // It could leave the cache.
            None => At::Nowhere,
        };
        Self { table, key, sequence, at }
    }

    /// The next step. No effect after the last one.
    #[inline]
    pub fn step(&mut self) {
        self.at = match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Lower(top, lower) => {
                lower.prefetch();
                At::Fences(top, lower)
            }
            At::Fences(top, lower) => {
                let position = self.table.index.find(top, lower, self.key, self.sequence);
                lower.prefetch_slot(position.at);
                At::Slot(Way { top, lower, position })
            }
            At::Slot(way) => match way.lower.peek(way.position.at) {
                Some(block) => {
                    prefetch_shared(&block);
                    At::Block(way)
                }
                None => At::There(way),
            },
            At::Block(way) => {
                if let Some(block) = way.lower.peek(way.position.at) {
                    block.prefetch(self.key);
                }
                At::There(way)
            }
            at @ (At::There(..) | At::Nowhere) => at,
        };
    }

    /// The position in the index of `table` where it has got to, if it has. Only once: a lookup
    /// that goes on from there looks for another place.
    ///
    /// # Panics
    /// If it is to another table.
    #[inline]
    pub(super) fn take(&mut self, table: &Table) -> Option<(Lower<'t>, DataBlockPosition)> {
        assert!(std::ptr::eq(self.table, table), "an approach to {:?} for {:?}", self.table.id(), table.id());
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::There(Way { lower, position, .. }) => Some((Lower::Resident(lower), position)),
            _ => None,
        }
    }

    /// The fences in the top index and in the lower index block where it has got to, if it has.
    #[inline]
    pub fn fences(&self) -> Option<PlaceInIndex> {
        match &self.at {
            At::There(Way { top, position, .. }) => Some(PlaceInIndex { top: *top, at: position.at }),
            _ => None,
        }
    }
}

/// A fence in the top index, and one in its lower index block.
#[derive(Clone, Copy, Debug)]
pub struct PlaceInIndex {
    pub(super) top: usize,
    pub(super) at: usize,
}
