//! [`Answer`]: the answer of one table's Bloom filter. Which tables a lookup probes, and when, is
//! decided in `crate::tree::filters`.
//!
//! Tests: `tests/suite/filters.rs`, `tests/suite/filter_rebuild.rs`.

use std::ops::ControlFlow;

use tamarack_env::prefetch;

use super::filter_slots::PinnedFilters;
use super::reader::Table;
use crate::cache::Holder;
use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::measure;
use crate::stats::LookupTally;

/// The answer of a table's filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Negative: the key is not in the table.
    No,
    /// Positive: the key may be in the table.
    Perhaps,
    /// The table has no filter.
    None,
}

impl Answer {
    /// Probes the table's filter in `pinned`; the current one if the table was opened after the
    /// pin.
    // As `Run::table_of`.
    #[inline(always)]
    pub fn of(table: &Table, pinned: &PinnedFilters, query: Query<'_>) -> Self {
        let pinned_now;
        let filter = match table.filter_in(pinned) {
            Some(filter) => filter,
            None => {
                pinned_now = table.pin_filters();
                table.filter_of(&pinned_now)
            }
        };
        let Some(filter) = filter else { return Self::None };
        let digest = measure::digest_for_filter(query.key(), query.digest());
        let probing = measure::begin(measure::LookupPart::Probe);
        let may_contain = filter.may_contain(digest);
        probing.end();
        if may_contain { Self::Perhaps } else { Self::No }
    }
}

impl Table {
    /// Asks for the memory that the probe of the table's filter in `pinned` begins with.
    #[inline]
    pub fn prefetch_filter(&self, pinned: &PinnedFilters, query: Query<'_>) {
        if let Some(Some(filter)) = self.filter_in(pinned) {
            prefetch(filter.first_read(query.digest()));
        }
    }

    /// Looks a key up in this table alone, by its filter: for tests and fuzz targets. See
    /// [`Table::search`].
    ///
    /// # Errors
    /// As [`Table::search`].
    pub fn get(
        &self,
        query: Query<'_>,
        tally: &LookupTally,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        match Answer::of(self, &self.pin_filters(), query) {
            Answer::No => {
                tally.filter_negative();
                Ok(ControlFlow::Continue(()))
            }
            answer => self.search(query, answer == Answer::Perhaps, tally, visit),
        }
    }
}
