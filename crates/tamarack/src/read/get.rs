//! Point lookups: one key, from the youngest source down to the first entry that decides.
//!
//! A lookup ends at the youngest version of its key. A put or a delete decides it; if that is a
//! merge operand, [`merged`] looks up what it is to be merged with. It also yields the sequence of
//! the deciding entry.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::{BlockCache, Holder};
use crate::entry::{Entry, EntryKind, Query, Sequence};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::mistake::{self, Mistake};
use crate::operator::Merging;
use crate::read::value::Value;
use crate::read::{chain, merged};
use crate::stats::{LatencyKind, LookupCounters, LookupTally};
use crate::tree::filters::{Candidate, Filters};
use crate::tree::run::Run;
use crate::tree::state::State;

/// The entry that decided a lookup.
#[derive(Debug)]
pub struct DecidingEntry {
    /// The deciding write.
    #[expect(dead_code, reason = "for callers that compare versions; transactions do not need it")]
    pub sequence: Sequence,
    /// The value, or `None` if the key was deleted.
    pub value: Option<Value>,
}

/// Looks up `query` in `state`. Returns `None` if the state has no version of the key, not even a
/// tombstone. Adds to `counters`.
pub fn get(
    state: &State,
    merging: &Merging,
    query: Query<'_>,
    counters: &LookupCounters,
) -> Result<Option<DecidingEntry>> {
    let mut found = None;
    counted_fold(state, query, counters, &mut |entry, pin| {
        found = Some(deciding_entry(entry, pin));
        ControlFlow::Break(())
    })?;
    match found {
        Some(Err(kind)) => undecided(state, merging, query, counters, kind).map(Some),
        Some(Ok(decided)) => Ok(Some(decided)),
        None => Ok(None),
    }
}

/// Looks up a key whose youngest version, of that kind, decides nothing by itself.
#[cold]
#[inline(never)]
fn undecided(
    state: &State,
    merging: &Merging,
    query: Query<'_>,
    counters: &LookupCounters,
    kind: EntryKind,
) -> Result<DecidingEntry> {
    if kind != EntryKind::Merge {
        return Err(chain::reserved(merging, kind));
    }
    let value = merged::get(state, merging, query, &counters.mine().tally)?;
    Ok(DecidingEntry { sequence: query.sequence(), value })
}

/// Interprets the youngest entry of a key; its kind if that is no put or delete.
pub(super) fn deciding_entry(entry: Entry<'_>, pin: &dyn Fn(&[u8]) -> Value) -> Result<DecidingEntry, EntryKind> {
    match entry.kind {
        EntryKind::Put => Ok(DecidingEntry { sequence: entry.sequence, value: Some(pin(entry.value)) }),
        EntryKind::Delete => Ok(DecidingEntry { sequence: entry.sequence, value: None }),
        kind => Err(kind),
    }
}

/// Returns true if the key has a value. Copies and pins nothing. Adds to `counters`.
pub fn contains(state: &State, merging: &Merging, query: Query<'_>, counters: &LookupCounters) -> Result<bool> {
    let mut found = Ok(false);
    counted_fold(state, query, counters, &mut |entry, _| {
        found = match entry.kind {
            EntryKind::Put => Ok(true),
            EntryKind::Delete => Ok(false),
            kind => Err(kind),
        };
        ControlFlow::Break(())
    })?;
    match found {
        Ok(found) => Ok(found),
        Err(kind) => Ok(undecided(state, merging, query, counters, kind)?.value.is_some()),
    }
}

/// A visitor of entries; its second argument pins the entry's value beyond the call.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Entry<'_>, &dyn Fn(&[u8]) -> Value) -> ControlFlow<()>;

/// Visits the versions of the query's key, youngest first, until `visit` breaks, and counts the
/// work.
#[inline]
fn counted_fold(state: &State, query: Query<'_>, counters: &LookupCounters, visit: Visit<'_>) -> Result<()> {
    if state.filter().is_some() {
        return fold_filtered(state, query, counters, visit);
    }
    fold_unfiltered(state, query, counters, visit)
}

/// [`counted_fold`] if each table has its own filter.
#[inline(never)]
fn fold_unfiltered(state: &State, query: Query<'_>, counters: &LookupCounters, visit: Visit<'_>) -> Result<()> {
    counted(state, query, counters, visit, |tally, visit| {
        let filters = Filters::pin(state);
        let mut candidates = filters.all_runs(state, query);
        fold_runs(|| candidates.next(tally), query, tally, visit)
    })
}

/// [`counted_fold`] if there is a filter over the whole tree: a function of its own, so that the
/// other one stays small.
#[inline(never)]
fn fold_filtered(state: &State, query: Query<'_>, counters: &LookupCounters, visit: Visit<'_>) -> Result<()> {
    counted(state, query, counters, visit, |tally, visit| {
        // Most absent keys need no more.
        let is_absent = Filters::exclude_all(state, query);
        if is_absent { Ok(Decided::Nothing) } else { fold_candidates(state, query, tally, visit) }
    })
}

#[inline(never)]
fn fold_candidates<'a>(
    state: &'a State,
    query: Query<'_>,
    tally: &LookupTally,
    visit: Visit<'_>,
) -> Result<Decided<'a>> {
    let filters = Filters::pin(state);
    let mut candidates = filters.candidates(state, query);
    fold_runs(|| candidates.next(tally), query, tally, visit)
}

/// Counts a lookup in the memtables, and by `fold` in the runs.
#[inline(always)]
fn counted<'a>(
    state: &'a State,
    query: Query<'_>,
    counters: &LookupCounters,
    visit: Visit<'_>,
    fold: impl FnOnce(&LookupTally, Visit<'_>) -> Result<Decided<'a>>,
) -> Result<()> {
    let mine = counters.mine();
    mine.tally.begin(1);
    let blocks_read = mine.tally.data_blocks_read();
    let sample = mine.sampler.picks().then(|| SampledLookup::begin(counters, &mine.tally));
    let floor = state.floor_in_tables(query);
    let decided = if floor > Sequence::ZERO {
        fold_above_floor(state, query, floor, &mine.tally, visit)?
    } else if let Some(decided) = fold_memory(state, query, &mine.tally, visit) {
        decided
    } else {
        let decided = fold(&mine.tally, visit)?;
        if matches!(decided, Decided::Nothing) && mine.tally.data_blocks_read() > blocks_read {
            cache_of(state).admit_absent(&query);
        }
        decided
    };
    if matches!(decided, Decided::Nothing | Decided::Absent) {
        mine.zero_result(1);
        if matches!(decided, Decided::Absent) {
            mine.cached_absence(1);
        }
    }
    if let Some(sample) = sample {
        sample.end(state, query, counters, &mine.tally, decided);
    }
    Ok(())
}

/// The source that decided a lookup.
#[derive(Clone, Copy)]
pub(super) enum Decided<'a> {
    /// A memtable or a cached entry.
    Memory,
    /// A cached entry that says that no run has the key.
    Absent,
    Run(&'a Run),
    Nothing,
}

/// The cache of the tables of a state.
#[inline]
pub(super) fn cache_of(state: &State) -> &BlockCache {
    state.version.files().storage().cache()
}

/// Visits the versions of a key that a range delete covers in the tables: those above the floor,
/// and then the range delete as a tombstone without a key. Cached entries are not asked, and
/// nothing is cached: what is found may be hidden.
#[cold]
#[inline(never)]
pub(super) fn fold_above_floor<'a>(
    state: &'a State,
    query: Query<'_>,
    floor: Sequence,
    tally: &LookupTally,
    visit: Visit<'_>,
) -> Result<Decided<'a>> {
    if fold_memtables(state, query, visit).is_break() {
        return Ok(Decided::Memory);
    }
    let query = query.seeing(Sequence::ZERO);
    let filters = Filters::pin(state);
    let mut candidates = filters.candidates(state, query);
    let mut is_hidden = mistake::is_planted(Mistake::RangeDeleteHidesYounger);
    while !is_hidden && let Some(candidate) = candidates.next(tally)? {
        if candidate.largest_sequence() < floor {
            continue;
        }
        let flow = candidate.search(query, tally, &mut |entry, holder| {
            is_hidden = entry.sequence < floor;
            if is_hidden { ControlFlow::Break(()) } else { visit(entry, &|value| Value::pinned(holder, value)) }
        })?;
        if flow.is_break() && !is_hidden {
            return Ok(Decided::Run(candidate.run));
        }
    }
    let tombstone = Entry { key: &[], sequence: floor, kind: EntryKind::Delete, value: &[] };
    let _ = visit(tombstone, &|_| unreachable!("a tombstone has no value"));
    Ok(Decided::Memory)
}

/// Visits the versions in memtables, then the cached entry of the query's key, if there is one.
/// `None` if neither decides, so that the runs are to be searched.
#[inline]
pub(super) fn fold_memory<'a>(
    state: &State,
    query: Query<'_>,
    tally: &LookupTally,
    visit: Visit<'_>,
) -> Option<Decided<'a>> {
    let cache = cache_of(state);
    let has_entries = cache.has_entries();
    if has_entries {
        // It arrives while the memtables are searched.
        cache.prefetch_entry(&query);
    }
    if fold_memtables(state, query, visit).is_break() {
        return Some(Decided::Memory);
    }
    if has_entries { fold_cached(state, query, tally, visit) } else { None }
}

/// Visits the cached entry of the query's key, which decides all that runs have to say; `None` if
/// there is none.
#[inline(never)]
fn fold_cached<'a>(state: &State, query: Query<'_>, tally: &LookupTally, visit: Visit<'_>) -> Option<Decided<'a>> {
    let cached = cache_of(state).entry(&query)?;
    let Some(entry) = cached.read().entry() else {
        tally.cached_entry();
        return Some(Decided::Absent);
    };
    let pin = |value: &[u8]| Value::pinned(Holder::Entry(&cached), value);
    // A visitor that wanted older versions would find this one in the runs once more.
    let flow = visit(Entry { key: query.key(), ..entry }, &pin);
    assert!(flow.is_break(), "the youngest entry decides, but {:?} did not", entry.kind);
    tally.cached_entry();
    Some(Decided::Memory)
}

#[inline(always)]
fn fold_runs<'a>(
    mut next: impl FnMut() -> Result<Option<Candidate<'a>>>,
    query: Query<'_>,
    tally: &LookupTally,
    visit: Visit<'_>,
) -> Result<Decided<'a>> {
    while let Some(candidate) = next()? {
        let flow =
            candidate.search(query, tally, &mut |entry, holder| visit(entry, &|value| Value::pinned(holder, value)))?;
        if flow.is_break() {
            return Ok(Decided::Run(candidate.run));
        }
    }
    Ok(Decided::Nothing)
}

/// A sampled lookup: its latency and its outcome in each run are recorded.
struct SampledLookup {
    began: Duration,
    data_blocks_read: u64,
}

impl SampledLookup {
    #[cold]
    #[inline(never)]
    fn begin(counters: &LookupCounters, tally: &LookupTally) -> Self {
        Self { data_blocks_read: tally.counts().data_blocks_read, began: counters.now() }
    }

    #[cold]
    #[inline(never)]
    fn end(
        self,
        state: &State,
        query: Query<'_>,
        counters: &LookupCounters,
        tally: &LookupTally,
        decided: Decided<'_>,
    ) {
        let has_read = tally.counts().data_blocks_read > self.data_blocks_read;
        let kind = match decided {
            Decided::Nothing | Decided::Absent => LatencyKind::NotFound,
            Decided::Run(_) if has_read => LatencyKind::FoundByReads,
            Decided::Run(_) | Decided::Memory => LatencyKind::FoundInMemory,
        };
        counters.note_latency(kind, self.began);
        counters.note_sampled();
        let decided = match decided {
            Decided::Memory | Decided::Absent => return,
            Decided::Run(run) => Some(run),
            Decided::Nothing => None,
        };
        counters.note_past_memtables();
        Filters::pin(state).note_samples(state, query, decided);
    }
}

/// Visits the versions in memtables.
#[inline]
fn fold_memtables(state: &State, query: Query<'_>, visit: Visit<'_>) -> ControlFlow<()> {
    // Usually the active one is the only one.
    if state.active.may_have(query.digest()) {
        fold_memtable(&state.active, query, visit)?;
    }
    for immutable in &*state.immutable {
        if immutable.memtable.may_have(query.digest()) {
            fold_memtable(&immutable.memtable, query, visit)?;
        }
    }
    ControlFlow::Continue(())
}

#[inline(never)]
fn fold_memtable(memtable: &Arc<Memtable>, query: Query<'_>, visit: Visit<'_>) -> ControlFlow<()> {
    memtable.search(query, &mut |entry| visit(entry, &|value| Value::in_memtable(memtable.pin(value))))
}
