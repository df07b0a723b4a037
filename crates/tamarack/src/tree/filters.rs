//! [`Filters`] and [`Candidates`]: the runs that a lookup searches, young to old. The one place that decides it.
//!
//! ```text
//! get, multi_get ─► Filters::pin (after the state) ─► candidates(state, query) ─► next ─► Candidate: run, open table ─► search
//!                                                                              └─► next ─► …     until one decides
//! sampling ───────► Filters::pin ─► note_samples(state, query, run that decided)
//! ```
//!
//! A lookup gets its candidates **lazily**: a filter is asked when the lookup comes to it, so a
//! lookup that ends early asks no further filters. A run is a candidate if one of its slices covers
//! the key and that table's filter does not exclude it. Nothing here waits or allocates, and the
//! answers hold for the pinned state, whatever is replaced meanwhile.
//!
//! # Invariant
//!
//! If a run of the state has a version of the key that the query may see, the run is a candidate.
//! The reverse is a false positive, which costs a search.
//!
//! # A second implementation
//!
//! One filter for the whole tree maps a key to the runs that may hold it. It becomes a second
//! variant of [`Filters`] and of [`Candidates`], as an enum, and changes nothing for callers:
//!
//! * It answers for all runs at once. [`Filters::candidates`] keeps the answer in place (a small
//!   fixed array of places of runs), and [`Candidates::next`] walks over it by age.
//! * Which runs a name in the filter stands for, aliases while a compaction goes on, and slices
//!   that the filter does not know yet are parts of the state; unlisted slices are merged into the
//!   walk.
//! * A part of the filter that is not ready makes all runs candidates, with
//!   [`Candidate::is_filtered`] false, as tables without filters are today.
//! * A state that is too old for the filter makes the lookup start over with a newer one, memtables
//!   and sequence included: `candidates` then returns an error of its own kind to `read/get`.
//!
//! Tests: `tests/suite/filters.rs`, `tests/suite/samples.rs`; `tests/suite/retune.rs` and
//! `tests/load/threads.rs` with filters that change beside lookups; lockstep histories.

use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use tamarack_filter::Filter;

use super::run::Run;
use super::state::State;
use super::version::Level;
use crate::cache::Holder;
use crate::entry::{Entry, Query};
use crate::error::Result;
use crate::measure;
use crate::stats::LookupTally;
use crate::table::{Answer, Blocks, PinnedFilters, SearchProgress, Table};

/// The filters of a tree at one moment, for a lookup or a few.
#[derive(Debug)]
pub struct Filters(PinnedFilters);

/// The runs that a lookup searches, young to old.
pub struct Candidates<'s, 'q> {
    filters: &'q PinnedFilters,
    query: Query<'q>,
    runs: Runs<'s>,
}

/// A run that may hold the key.
#[derive(Clone, Copy)]
pub struct Candidate<'s> {
    /// The run.
    pub run: &'s Run,
    table: &'s Arc<Table>,
    /// True if a filter was asked; it said that the key may be there.
    is_filtered: bool,
}

/// The runs of a tree, young to old.
struct Runs<'s> {
    here: slice::Iter<'s, Arc<Run>>,
    levels: slice::Iter<'s, Arc<Level>>,
}

impl Filters {
    /// The filters in use now. To be pinned after `state`: then each table of it that is open has
    /// its filter here.
    #[inline]
    pub fn pin(state: &State) -> Self {
        Self(state.version.files().storage().pin_filters())
    }

    /// The runs of `state` that may hold the query's key.
    #[inline]
    pub fn candidates<'s, 'q>(&'q self, state: &'s State, query: Query<'q>) -> Candidates<'s, 'q> {
        Candidates { filters: &self.0, query, runs: Runs::of(state) }
    }

    /// Notes what became of a sampled lookup, which is over and got past the memtables, in each run
    /// that it came to: all down to the run that `decided`, or all if none did. Asks the filters
    /// again.
    #[cold]
    pub fn note_samples(&self, state: &State, query: Query<'_>, decided: Option<&Run>) {
        let sampled = state.version.files().storage().lookups().sampled();
        let ask = |filter: &Filter| (!filter.may_contain(query.digest()), filter.lines_touched(query.digest()));
        for run in Runs::of(state) {
            let found = decided.is_some_and(|by| by.id() == run.id());
            // A table that cannot be opened has told so to the lookup.
            if let Some(Ok(table)) = run.table_of(query.key()).map(|table| table.open()) {
                let filter = table.filter_of(&table.pin_filters()).map(ask);
                table.note_sample(query, sampled, found, filter);
            }
            if found {
                break;
            }
        }
    }
}

impl<'s> Candidates<'s, '_> {
    /// The next run that may hold the key. What filters say is counted in `tally`.
    ///
    /// # Errors
    /// Those of opening a table.
    #[inline]
    pub fn next(&mut self, tally: &LookupTally) -> Result<Option<Candidate<'s>>> {
        for run in self.runs.by_ref() {
            let finding = measure::begin(measure::LookupPart::Index);
            let table = run.table_of(self.query.key());
            finding.end();
            let Some(table) = table else { continue };
            let table = table.open()?;
            match Answer::of(table, self.filters, self.query) {
                Answer::No => tally.filter_negative(),
                answer => return Ok(Some(Candidate { run, table, is_filtered: answer == Answer::Perhaps })),
            }
        }
        Ok(None)
    }
}

impl Candidate<'_> {
    /// Visits the versions of the key that the query may see, youngest first, until the visitor
    /// breaks: see [`Table::search`].
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn search(
        &self,
        query: Query<'_>,
        tally: &LookupTally,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.table.search(query, self.is_filtered, tally, visit)
    }

    /// The same, with blocks that many lookups get together: see [`Table::search_from`].
    ///
    /// # Errors
    /// As that.
    pub fn search_from(
        &self,
        blocks: &mut Blocks,
        query: Query<'_>,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<SearchProgress> {
        self.table.search_from(blocks, query, self.is_filtered, visit)
    }
}

impl<'s> Runs<'s> {
    #[inline]
    fn of(state: &'s State) -> Self {
        Self { here: [].iter(), levels: state.tree().levels().iter() }
    }
}

impl<'s> Iterator for Runs<'s> {
    type Item = &'s Arc<Run>;

    #[inline]
    fn next(&mut self) -> Option<&'s Arc<Run>> {
        loop {
            if let Some(run) = self.here.next() {
                return Some(run);
            }
            self.here = self.levels.next()?.runs().iter();
        }
    }
}
