//! [`Filters`] and [`Candidates`]: which runs a lookup searches, young to old. Decided only here.
//!
//! ```text
//! get, multi_get ─► Filters::pin (after the state) ─► candidates(state, query) ─► next
//!                      next ─► Candidate: run, open table ─► search ─► next … until one decides
//! sampling ───────► Filters::pin ─► note_samples(state, query, run that decided)
//! ```
//!
//! Candidates are **lazy**: a filter is queried when the lookup reaches it, so a lookup that ends
//! early queries no further filters. A run is a candidate if one of its slices covers the key and
//! that table's filter does not exclude it. Nothing here waits or allocates, and the candidates
//! hold for the pinned state, whatever is replaced meanwhile.
//!
//! # Invariant
//!
//! If a run of the state has a version of the key that the query may see, the run is a candidate.
//! The reverse is a false positive, which costs a search.
//!
//! # A filter over the whole tree
//!
//! If the state has one ([`FilterView`]), it names the runs that may have the key, all at once when
//! the lookup begins. Then only these are gone through. Tables' own filters, if they have any, are
//! queried as well. Where it does not know ([`FilterView::find`]), all runs are.
//!
//! Tests: `tests/suite/filters.rs`, `tests/suite/samples.rs`; `tests/suite/filter_rebuild.rs` and
//! `tests/load/threads.rs` with filters that change beside lookups; lockstep histories.

use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use tamarack_filter::Filter;

use super::level_ids::{FewRuns, FilterView};
use super::run::Run;
use super::state::State;
use super::version::Level;
use crate::cache::Holder;
use crate::entry::{Entry, Query, Sequence};
use crate::error::Result;
use crate::measure;
use crate::stats::LookupTally;
use crate::table::{Answer, Approach, Blocks, PinnedFilters, SearchProgress, Table};

/// The filters of a tree, pinned for a few lookups.
#[derive(Debug)]
pub struct Filters(PinnedFilters);

/// Iterator over the runs that a lookup searches, young to old.
pub enum Candidates<'s, 'q> {
    /// Of all runs.
    All(AllRuns<'s, 'q>),
    /// Of those that a filter over the whole tree names.
    Named(NamedRuns<'s, 'q>),
}

/// Runs whose filters a lookup asks for together with those of other lookups.
const PREFETCHED_RUNS: usize = 4;

/// Candidates among all runs, by the filters of their tables.
pub struct AllRuns<'s, 'q> {
    filters: &'q PinnedFilters,
    query: Query<'q>,
    runs: Runs<'s>,
}

/// Candidates among the runs that a filter over the whole tree names.
pub struct NamedRuns<'s, 'q> {
    filters: &'q PinnedFilters,
    query: Query<'q>,
    view: &'s FilterView,
    few: FewRuns,
}

/// A run that may hold the key.
#[derive(Clone, Copy)]
pub struct Candidate<'s> {
    /// The run.
    pub run: &'s Run,
    table: &'s Arc<Table>,
    /// True if a filter was queried; it was positive.
    is_filtered: bool,
}

/// The runs of a tree, young to old.
struct Runs<'s> {
    here: slice::Iter<'s, Arc<Run>>,
    levels: slice::Iter<'s, Arc<Level>>,
}

impl Filters {
    /// Pins the filters in use. Call it after pinning `state`: then each open table of the state
    /// has its filter here.
    #[inline]
    pub fn pin(state: &State) -> Self {
        Self(state.version.files().storage().pin_filters())
    }

    /// True if a filter over the whole tree says that no run of `state` has the query's key. Needs
    /// no pinned filters.
    #[inline]
    pub fn exclude_all(state: &State, query: Query<'_>) -> bool {
        state.filter().is_some_and(|view| view.excludes(query.digest(), state.version.edit_number()))
    }

    /// Asks for the memory that [`Filters::candidates`] of the query begins with: the buckets of a
    /// filter over the whole tree, else the filters of the first runs.
    pub fn prefetch(&self, state: &State, query: Query<'_>) {
        if let Some(view) = state.filter() {
            return view.prefetch(query.digest());
        }
        for run in Runs::of(state).take(PREFETCHED_RUNS) {
            if let Some(table) = run.table_of(query.key()).and_then(|table| table.if_open()) {
                table.prefetch_filter(&self.0, query);
            }
        }
    }

    /// Returns the runs of `state` that may hold the query's key.
    pub fn candidates<'s, 'q>(&'q self, state: &'s State, query: Query<'q>) -> Candidates<'s, 'q> {
        let few = |view: &'s FilterView| view.find(query.digest(), state.version.edit_number());
        match state.filter().and_then(|view| Some((view, few(view)?))) {
            Some((view, few)) => Candidates::Named(NamedRuns { filters: &self.0, query, view, few }),
            None => Candidates::All(self.all_runs(state, query)),
        }
    }

    /// As [`Filters::candidates`], for a state without a filter over the whole tree: this is what
    /// most lookups run through, so it stays small.
    #[inline]
    pub fn all_runs<'s, 'q>(&'q self, state: &'s State, query: Query<'q>) -> AllRuns<'s, 'q> {
        AllRuns { filters: &self.0, query, runs: Runs::of(state) }
    }

    /// Records the outcome of a sampled lookup, which has ended and was not decided by memtables,
    /// in each run that it reached: all down to the run that `decided`, or all if none did. Queries
    /// the filters again.
    #[inline(never)]
    pub fn note_samples(&self, state: &State, query: Query<'_>, decided: Option<&Run>) {
        if state.filter().is_some() {
            // Samples are for the filters of tables, and would cost each lookup something for every
            // run.
            return;
        }
        let sampled = state.version.files().storage().lookups().sampled();
        let query_filter =
            |filter: &Filter| (!filter.may_contain(query.digest()), filter.lines_touched(query.digest()));
        for run in Runs::of(state) {
            let found = decided.is_some_and(|by| by.id() == run.id());
            // If a table cannot be opened, the lookup has returned that error.
            if let Some(Ok(table)) = run.table_of(query.key()).map(|table| table.open()) {
                let filter = table.filter_of(&table.pin_filters()).map(query_filter);
                table.note_sample(query, sampled, found, filter);
            }
            if found {
                break;
            }
        }
    }
}

impl<'s> Candidates<'s, '_> {
    /// Returns the next run that may hold the key. Counts filter negatives in `tally`.
    ///
    /// # Errors
    /// Errors of opening a table.
    pub fn next(&mut self, tally: &LookupTally) -> Result<Option<Candidate<'s>>> {
        match self {
            Self::All(all) => all.next(tally),
            Self::Named(named) => named.next(tally),
        }
    }
}

impl<'s> AllRuns<'s, '_> {
    /// As [`Candidates::next`].
    ///
    /// # Errors
    /// As that.
    #[inline(always)]
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

impl<'s> NamedRuns<'s, '_> {
    fn next(&mut self, tally: &LookupTally) -> Result<Option<Candidate<'s>>> {
        for position in self.few.by_ref() {
            let run = self.view.run(position);
            let Some(table) = run.table_of(self.query.key()) else { continue };
            let table = table.open()?;
            let answer = Answer::of(table, self.filters, self.query);
            if answer == Answer::No {
                tally.filter_negative();
                continue;
            }
            let is_filtered = answer == Answer::Perhaps || !self.view.is_unlisted(position);
            return Ok(Some(Candidate { run, table, is_filtered }));
        }
        Ok(None)
    }
}

impl<'s> Candidate<'s> {
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

    /// The largest sequence of the table's entries.
    pub fn largest_sequence(&self) -> Sequence {
        self.table.meta().largest_sequence
    }

    /// Begins the way to the data block.
    #[inline]
    pub fn approach(&self, query: Query<'s>) -> Approach<'s> {
        self.table.approach(query)
    }

    /// As [`Candidate::search`], with blocks that many lookups read together: see
    /// [`Table::search_from`].
    ///
    /// # Errors
    /// As that.
    pub fn search_from(
        &self,
        blocks: &mut Blocks,
        query: Query<'_>,
        approach: &mut Approach<'s>,
        visit: &mut dyn FnMut(Entry<'_>, Holder<'_>) -> ControlFlow<()>,
    ) -> Result<SearchProgress> {
        self.table.search_from(blocks, query, self.is_filtered, approach, visit)
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
