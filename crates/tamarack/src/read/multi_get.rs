//! Lookups of many keys at one sequence in one state, with concurrent block reads.
//!
//! Each key is looked up from the youngest source to the oldest, as in a single lookup, until it
//! needs a block that is not in the block cache. That block is requested, and the next key begins.
//! When the block has arrived, the keys that wait for it continue, perhaps to another block:
//!
//! ```text
//! keys        a ✓   b → X   c → Y   d → X                           f → Z
//! device            ├────────── X ──────┤                           ├─── Z ───┤
//!                           ├───────── Y ───────┤
//! arrivals                              b ✓ d → W (requested next)  …
//! ```
//!
//! So the device is busy from the first keys to the last, and the computation for one key overlaps
//! the reads of others. A key reads from one run at a time. Reading from all runs at once would
//! read what a younger run makes needless: with filters, which exclude nearly all runs without the
//! key, the first block decides nearly all keys, and little latency is left to save; without
//! filters, every key would be read in every run. A block that several keys need is read once.
//!
//! Keys with merge operands are looked up one by one at the end ([`merged`]), as are keys that
//! range deletes cover.
//!
//! Keys begin in groups, whose ways to their data blocks ([`Approach`]) go side by side: they wait
//! for memory together.
//!
//! Tests: `tests/suite/reads.rs` counts reads and time; lockstep histories compare with single
//! lookups.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::{ControlFlow, Range};

use tamarack_env::{ReadQueue, ReadRequest};

use super::get::{self, DecidingEntry, Visit};
use super::value::Value;
use super::{chain, merged};
use crate::cache::Holder;
use crate::entry::{Entry, EntryKind, Query, Sequence};
use crate::error::Result;
use crate::operator::Merging;
use crate::stats::{LatencyKind, LookupCounters, LookupCounts, Reader};
use crate::table::{Approach, BlockName, Blocks, Lacking, SearchProgress};
use crate::tree::filters::{Candidate, Candidates, Filters};
use crate::tree::run::Run;
use crate::tree::state::State;

/// Returns what `get` returns for each of `queries`, in their order. Adds to `counters`.
///
/// # Errors
/// The first error of any lookup.
pub fn multi_get(
    state: &State,
    merging: &Merging,
    queries: &[Query<'_>],
    counters: &LookupCounters,
) -> Result<Vec<Option<Value>>> {
    let filters = Filters::pin(state);
    let mut lookups = Lookups {
        state,
        filters: &filters,
        queries,
        counters,
        values: vec![None; queries.len()],
        undecided: Vec::new(),
        covered: Vec::new(),
        begun: 0,
        blocks: Blocks::default(),
        to_read: VecDeque::new(),
        reading: Vec::new(),
        waiting: BTreeMap::new(),
        sampled: Vec::new(),
        zero_result: 0,
        cached_absences: 0,
        outcome: Ok(()),
    };
    let began = lookups.draw_samples().then(|| counters.now());
    lookups.blocks.tally.begin(queries.len() as u64);
    lookups.carry_out();
    if let Some(began) = began {
        counters.note_latency(LatencyKind::MultiGet, began);
    }
    let Lookups { zero_result, cached_absences, .. } = lookups;
    counters.add(&LookupCounts { zero_result, cached_absences, ..lookups.blocks.tally.counts() });
    lookups.outcome?;
    let (mut values, tally, mut undecided) = (lookups.values, &counters.mine().tally, lookups.undecided);
    for (at, floor) in lookups.covered {
        let mut found = None;
        get::fold_above_floor(state, queries[at], floor, tally, &mut |entry, pin| {
            found = Some(get::deciding_entry(entry, pin));
            ControlFlow::Break(())
        })?;
        match found.expect("a tombstone is visited in any case") {
            Ok(decided) => values[at] = decided.value,
            Err(kind) => undecided.push((at, kind)),
        }
    }
    for (at, kind) in undecided {
        values[at] = match kind {
            EntryKind::Merge => merged::get(state, merging, queries[at], tally)?,
            kind => return Err(chain::reserved(merging, kind)),
        };
    }
    Ok(values)
}

/// The lookups and their progress.
struct Lookups<'a> {
    state: &'a State,
    filters: &'a Filters,
    queries: &'a [Query<'a>],
    counters: &'a LookupCounters,
    values: Vec<Option<Value>>,
    /// Queries whose youngest entry decides nothing by itself, and its kind.
    undecided: Vec<(usize, EntryKind)>,
    /// Queries of keys that range deletes cover in the tables, and their floors.
    covered: Vec<(usize, Sequence)>,
    /// The number of queries that have begun.
    begun: usize,
    blocks: Blocks,
    /// Blocks to be requested.
    to_read: VecDeque<Lacking>,
    /// Requested blocks, by the numbers of their reads; `None` once they have arrived.
    reading: Vec<Option<Lacking>>,
    /// For each block to be requested or on the way, the queries that wait for it.
    waiting: BTreeMap<BlockName, Vec<KeySearch<'a>>>,
    /// The sampled queries, in their order.
    sampled: Vec<usize>,
    /// Queries of keys that are not there.
    zero_result: u64,
    /// Those of which the entry cache says so.
    cached_absences: u64,
    /// The first error, which ends all lookups.
    outcome: Result<()>,
}

/// Queries that begin together, and wait for memory together. A core waits for about a dozen lines
/// at a time, and each query for one to five; with 32 or 64 it is slower.
const GROUP: usize = 16;

/// A query that was not decided in memory, and the runs that it searches: the current candidate
/// with the way to its data block, and the older ones.
struct KeySearch<'a> {
    /// The number of the query.
    at: usize,
    here: Option<(Candidate<'a>, Approach<'a>)>,
    older: Candidates<'a, 'a>,
    /// True if it has waited for a block.
    has_waited: bool,
}

impl<'a> Lookups<'a> {
    fn carry_out(&mut self) {
        // There may be nothing to read.
        if self.find_read() {
            let storage = self.to_read[0].storage();
            storage.read_queue(Reader::MultiGet, self);
        }
    }

    /// Draws the sampled lookups; returns true if the first one is, and with it the latency of all.
    fn draw_samples(&mut self) -> bool {
        let queries = 0..self.queries.len();
        let mine = self.counters.mine();
        self.sampled.extend(queries.filter(|_| mine.sampler.picks()));
        self.sampled.iter().for_each(|_| self.counters.note_sampled());
        self.sampled.first() == Some(&0)
    }

    /// Begins lookups until there is a block to read; returns false if there is none.
    fn find_read(&mut self) -> bool {
        while self.to_read.is_empty() && self.begun < self.queries.len() && self.outcome.is_ok() {
            let group = self.begun..self.queries.len().min(self.begun + GROUP);
            self.begun = group.end;
            let outcome = self.begin(group);
            self.note(outcome);
        }
        self.outcome.is_ok() && !self.to_read.is_empty()
    }

    /// Keeps the first error.
    fn note(&mut self, outcome: Result<()>) {
        if self.outcome.is_ok() {
            self.outcome = outcome;
        }
    }

    /// Looks up a group of keys in memtables and cached entries, then in the runs.
    fn begin(&mut self, group: Range<usize>) -> Result<()> {
        let mut numbers = [0; GROUP];
        let mut count = 0;
        for at in group {
            if !self.begin_in_memory(at)? {
                self.filters.prefetch(self.state, self.queries[at]);
                numbers[count] = at;
                count += 1;
            }
        }
        let mut searches = [const { None }; GROUP];
        for (search, &at) in searches.iter_mut().zip(&numbers[..count]) {
            let older = self.filters.candidates(self.state, self.queries[at]);
            *search = Some(KeySearch { at, here: None, older, has_waited: false });
        }
        // Each round searches one run for each key that is not found yet.
        while searches.iter().any(Option::is_some) {
            for search in &mut searches {
                self.next_candidate(search)?;
            }
            for _ in 0..Approach::STEPS {
                for (_, approach) in searches.iter_mut().flatten().filter_map(|search| search.here.as_mut()) {
                    approach.step();
                }
            }
            for search in &mut searches {
                self.search_here(search)?;
            }
        }
        Ok(())
    }

    /// Looks up one key in memtables and cached entries; returns true if they decide.
    fn begin_in_memory(&mut self, at: usize) -> Result<bool> {
        let floor = self.state.floor_in_tables(self.queries[at]);
        if floor > Sequence::ZERO {
            self.covered.push((at, floor));
            return Ok(true);
        }
        let mut found = None;
        let visit: Visit<'_> = &mut |entry, pin| {
            found = Some(get::deciding_entry(entry, pin));
            ControlFlow::Break(())
        };
        if get::fold_memory(self.state, self.queries[at], &self.blocks.tally, visit).is_none() {
            if self.is_sampled(at) {
                self.counters.note_past_memtables();
            }
            return Ok(false);
        }
        match found {
            Some(found) => self.found(at, found),
            None => {
                self.zero_result += 1;
                self.cached_absences += 1;
            }
        }
        Ok(true)
    }

    /// Takes what the youngest entry of a key says.
    fn found(&mut self, at: usize, found: Result<DecidingEntry, EntryKind>) {
        match found {
            Ok(decided) => self.values[at] = decided.value,
            Err(kind) => self.undecided.push((at, kind)),
        }
    }

    fn is_sampled(&self, at: usize) -> bool {
        self.sampled.binary_search(&at).is_ok()
    }

    /// Goes to the next run that may have the key, if the query is still searched for. `None` if
    /// there is no such run: the query has ended.
    fn next_candidate(&mut self, search: &mut Option<KeySearch<'a>>) -> Result<()> {
        let Some(KeySearch { at, here, older, has_waited }) = search else { return Ok(()) };
        let query = self.queries[*at];
        if let Some(next) = older.next(&self.blocks.tally)? {
            *here = Some((next, next.approach(query)));
            return Ok(());
        }
        if *has_waited {
            get::cache_of(self.state).admit_absent(&query);
        }
        self.zero_result += 1;
        self.end(*at, None);
        *search = None;
        Ok(())
    }

    /// Searches the current run, if the query is still searched for. `None` afterwards if that
    /// decides the query, or if a block is missing: then the query waits for it.
    fn search_here(&mut self, search: &mut Option<KeySearch<'a>>) -> Result<()> {
        let Some(KeySearch { at, here: Some((here, approach)), .. }) = search else { return Ok(()) };
        let mut found = None;
        let mut visit = |entry: Entry<'_>, holder: Holder<'_>| {
            found = Some(get::deciding_entry(entry, &|value| Value::pinned(holder, value)));
            ControlFlow::Break(())
        };
        let name = match here.search_from(&mut self.blocks, self.queries[*at], approach, &mut visit)? {
            SearchProgress::Ended(ControlFlow::Continue(())) => return Ok(()),
            SearchProgress::Ended(ControlFlow::Break(())) => {
                let at = *at;
                if let Some(found) = found {
                    self.found(at, found);
                }
                self.end(at, Some(here.run));
                *search = None;
                return Ok(());
            }
            SearchProgress::Lacks(lacking) => {
                let name = lacking.name();
                self.to_read.push_back(lacking);
                name
            }
            SearchProgress::Awaits(name) => name,
        };
        let waiting = search.take().map(|search| KeySearch { has_waited: true, ..search });
        self.waiting.entry(name).or_default().extend(waiting);
        Ok(())
    }

    /// Ends a query that was not decided in memory; `decided` is the deciding run.
    fn end(&self, at: usize, decided: Option<&Run>) {
        if self.is_sampled(at) {
            self.filters.note_samples(self.state, self.queries[at], decided);
        }
    }

    /// Continues the lookups that wait for this block.
    fn continue_waiting(&mut self, lacking: &Lacking, bytes: io::Result<&[u8]>) -> Result<()> {
        self.blocks.arrived(lacking, bytes)?;
        for waiting in self.waiting.remove(&lacking.name()).unwrap_or_default() {
            let search = &mut Some(waiting);
            self.search_here(search)?;
            while search.is_some() {
                self.next_candidate(search)?;
                self.search_here(search)?;
            }
        }
        Ok(())
    }
}

impl ReadQueue for Lookups<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        while self.find_read() {
            let lacking = self.to_read.pop_front()?;
            match lacking.request() {
                Ok(request) => {
                    self.reading.push(Some(lacking));
                    return Some(request);
                }
                Err(error) => self.note(Err(error)),
            }
        }
        None
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        let lacking = self.reading[number].take().expect("each read arrives once");
        if self.outcome.is_ok() {
            let outcome = self.continue_waiting(&lacking, bytes);
            self.note(outcome);
        }
    }
}
