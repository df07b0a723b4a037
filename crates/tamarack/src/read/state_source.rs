//! [`StateSource`]: all entries of a pinned state, memtables and runs, as one source. Its seeks
//! read the first blocks of all runs concurrently.
//!
//! ```text
//! seek ──► run 1: its block is in the cache                          ┐
//!          run 2: lacks a block ──┐                  ┌─► decoded     │
//!          run 3: lacks a block ──┼─► read at once   ┼─► decoded     ├─► cursors seek in memory
//!          run 4: lacks a block ──┘                  └─► decoded     ┘
//! ```
//!
//! Before that, the ways to the blocks of all runs that are in memory go side by side
//! ([`Approach`]), so that a seek waits for memory about as long as for one run.
//!
//! So a seek takes about as long as one read, however many runs there are. A lower index block that
//! is not cached is read first, while the reads of other runs continue. If a read fails here, the
//! cursor repeats it by itself, and that failure is returned.
//!
//! Steps are those of [`MergedSource`]: each run reads its further blocks by itself. During a
//! compaction, runs end or begin at the keys that it has not handed over yet. What is behind such a
//! cut is read when the scan gets there, for all runs that wait at it at once. Large blocks are
//! read one at a time, and while memory is short only where they are next ([`crate::table`]); a
//! step keeps its turn for large reads until it ends ([`crate::admission`]).
//!
//! A scan that ends or rests leaves its cursors to the next one of its thread, without their
//! positions ([`KeptCursors`](crate::tree::kept_cursors::KeptCursors)).
//!
//! Tests: `tests/suite/reads.rs`, on a simulated device that takes a fixed time for each read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tamarack_env::{ReadQueue, ReadRequest};

use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::key_range::KeyRange;
use crate::memory::{Charge, MemoryPart};
use crate::merge::{MergedSource, SeekTarget, Source};
use crate::stats::{LatencyKind, LookupCounters, Reader};
use crate::table::{Approach, ScanVolume};
use crate::tree::kept_cursors::RunCursors;
use crate::tree::memtable_or_run::{MemtableOrRun, waiting};
use crate::tree::run::{RunApproach, RunCursor, RunVolume};
use crate::tree::state::{ScanPin, State};

/// Approximate memory of a cursor with its keys, in bytes.
const CURSOR_BYTES: usize = size_of::<RunCursor>() + size_of::<MemtableOrRun>() + 500;

/// The bounds of a scan whose cursors are kept: they keep its keys as well.
const KEPT_KEYS_BYTES_MAX: usize = 256;

/// All entries of a pinned state. See the module's documentation.
pub(super) struct StateSource {
    merged: MergedSource<MemtableOrRun>,
    /// Charge for the cursors. Read-ahead and pinned blocks have charges of their own.
    charge: Charge,
    /// Shared by the cursors.
    volume: Arc<ScanVolume>,
    state: ScanPin,
}

impl StateSource {
    /// Creates an unpositioned source over `state`, which may omit entries outside of `range`. With
    /// a `limit`, reads ahead what so many entries are likely to need.
    ///
    /// # Errors
    /// As [`MergedSource::change_sources`].
    pub(super) fn new(state: &ScanPin, range: &KeyRange, limit: Option<usize>) -> Result<Self> {
        // Entries that an empty memtable takes from now on are younger than what the scan sees.
        let memtables = || state.memtables().filter(|memtable| !memtable.is_empty());
        // Before all entries of a key.
        let [from, to] = [&range.from, &range.to].map(|key| key.as_deref().map(|key| (key, Sequence::MAX)));
        let account = state.active.account();
        let large_bytes = account.map(|account| account.piece_bytes());
        let runs = || state.tree().runs();
        let all: RunVolume = runs().map(|run| run.volume()).sum();
        let expected_bytes = limit.map(|limit| {
            // On average a scan of so many entries passes the same fraction of each run's bytes.
            let entries = all.entries + memtables().map(|memtable| memtable.entries()).sum::<u64>();
            (limit as f64 / entries.max(1) as f64 * all.data_bytes as f64) as u64
        });
        let volume = Arc::new(ScanVolume::between(from, to).releasing(large_bytes).expecting(expected_bytes));
        let RunCursors { mut merged, mut charge } = match state
            .tree()
            .kept_cursors()
            .take(lookups_of(state).thread_slot())
        {
            Some(mut kept) => {
                let runs = kept.merged.sources_mut().iter_mut().filter_map(MemtableOrRun::run);
                runs.for_each(|run| run.join(&volume, &all));
                kept
            }
            None => {
                let cursors = runs().map(|run| run.scan_cursor(&volume, &all).into()).collect();
                RunCursors { merged: MergedSource::new(cursors)?, charge: Charge::to(account, MemoryPart::Cursors, 0) }
            }
        };
        merged.change_sources(|parts| {
            parts.splice(..0, memtables().map(|memtable| memtable.cursor().into()));
            charge.set(parts.len() * CURSOR_BYTES);
        })?;
        Ok(Self { merged, charge, volume, state: state.clone() })
    }

    /// Seeks, and records the latency if the seek is sampled.
    fn seek_sampled(&mut self, place: SeekTarget<'_>) -> Result<()> {
        let lookups = lookups_of(&self.state);
        let began = lookups.mine().sampler.picks().then(|| lookups.now());
        self.seek_together(place)?;
        if let Some(began) = began {
            lookups_of(&self.state).note_latency(LatencyKind::Seek, began);
        }
        Ok(())
    }

    fn seek_together(&mut self, place: SeekTarget<'_>) -> Result<()> {
        let parts = self.merged.sources_mut();
        let mut runs = Vec::with_capacity(parts.len());
        runs.extend(parts.iter_mut().filter_map(MemtableOrRun::run));
        read_for(runs, Some(place));
        let went = self.merged.seek_to(place);
        if went.is_err() {
            forget(self.merged.sources_mut());
        }
        self.settled(went)
    }

    /// Completes a step: continues runs that wait, if any, and ends the turn for large reads.
    #[inline]
    fn settled(&mut self, went: Result<()>) -> Result<()> {
        let settled = if self.merged.some_wait() { went.and_then(|()| self.settle()) } else { went };
        self.volume.end_step();
        settled
    }

    /// Continues runs that wait at a cut, if that cut is next: all runs at the same cut together;
    /// or the run whose large block is next.
    #[cold]
    fn settle(&mut self) -> Result<()> {
        if self.merged.is_settled() {
            return Ok(());
        }
        // What other cursors left may be in large blocks.
        self.merged.unmoved_mut().filter_map(MemtableOrRun::run).for_each(RunCursor::forget_left);
        self.merged.settle(|parts, place| {
            read_for(waiting(parts, place).collect(), None);
            let went = waiting(parts, place).try_for_each(RunCursor::go_on);
            if went.is_err() {
                forget(parts);
            }
            went
        })
    }
}

/// Resets the runs after an error, so that none takes what was prepared for this seek to be for
/// another.
fn forget(parts: &mut [MemtableOrRun]) {
    parts.iter_mut().filter_map(MemtableOrRun::run).for_each(RunCursor::leave);
}

/// Reads concurrently the blocks that these runs need to seek to `place`, or to continue from their
/// cuts.
fn read_for(mut runs: Vec<&mut RunCursor>, place: Option<SeekTarget<'_>>) {
    // A single run reads by itself.
    if runs.len() < 2 {
        return;
    }
    if let Some(place) = place {
        approach_all(&mut runs, place);
    }
    let mut seek = Seek { place, runs, prepared: 0, to_read: VecDeque::new(), reading: Vec::new() };
    if seek.find_read()
        && let Some(storage) = seek.runs[seek.to_read[0]].storage().cloned()
    {
        storage.read_queue(Reader::Scan, &mut seek);
    }
}

/// Runs whose ways go side by side.
const GROUP: usize = 16;

/// Finds the data block of a seek in each run whose index is in memory, and brings what the seek
/// looks at into the processor's caches, for all runs at once.
fn approach_all(runs: &mut [&mut RunCursor], place: SeekTarget<'_>) {
    for group in runs.chunks_mut(GROUP) {
        let mut ways = [const { None }; GROUP];
        let mut known = [const { None }; GROUP];
        let ways = &mut ways[..group.len()];
        for (way, run) in ways.iter_mut().zip(&*group) {
            *way = run.begin_approach(place);
        }
        for _ in 0..Approach::STEPS {
            ways.iter_mut().flatten().for_each(RunApproach::step);
        }
        for (known, way) in known.iter_mut().zip(ways) {
            *known = way.as_ref().and_then(RunApproach::known);
        }
        for (run, known) in group.iter_mut().zip(known) {
            run.know(known);
        }
    }
}

/// The reads ahead of a seek.
struct Seek<'a> {
    /// The target; `None` means behind the cut at which each run waits.
    place: Option<SeekTarget<'a>>,
    runs: Vec<&'a mut RunCursor>,
    /// The number of runs that have been prepared.
    prepared: usize,
    /// Runs that lack a block.
    to_read: VecDeque<usize>,
    /// The run of each read.
    reading: Vec<usize>,
}

impl Seek<'_> {
    /// Prepares runs until one lacks a block; returns false if none does.
    fn find_read(&mut self) -> bool {
        while self.to_read.is_empty() && self.prepared < self.runs.len() {
            self.prepare(self.prepared);
            self.prepared += 1;
        }
        !self.to_read.is_empty()
    }

    fn prepare(&mut self, run: usize) {
        let cursor = &mut self.runs[run];
        let lacks_some = match self.place {
            Some(place) => cursor.prepare(place),
            None => cursor.prepare_to_go_on(),
        };
        // A failed preparation fails again in the seek, which returns the error.
        if lacks_some.unwrap_or(false) {
            self.to_read.push_back(run);
        }
    }
}

impl ReadQueue for Seek<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        while self.find_read() {
            let run = self.to_read.pop_front()?;
            // As above: the seek asks again, and returns the error.
            if let Ok(request) = self.runs[run].request() {
                self.reading.push(run);
                return Some(request);
            }
        }
        None
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        let run = self.reading[number];
        if self.runs[run].arrived(bytes) {
            self.prepare(run);
        }
    }
}

/// The counters of lookups in a state.
fn lookups_of(state: &State) -> &LookupCounters {
    state.version.files().storage().lookups()
}

/// Leaves the cursors over runs to the next scan of the thread, if they take little.
impl Drop for StateSource {
    fn drop(&mut self) {
        // In case a step has panicked.
        self.volume.end_step();
        let may_keep = self.charge.account().is_none_or(|account| account.may_keep_cursors());
        if !may_keep || self.volume.keys_bytes() > KEPT_KEYS_BYTES_MAX {
            return;
        }
        let (mut merged, mut charge) = (std::mem::take(&mut self.merged), std::mem::take(&mut self.charge));
        let fewer = merged.change_sources(|parts| {
            parts.retain_mut(|part| part.run().is_some());
            parts.iter_mut().filter_map(MemtableOrRun::run).for_each(RunCursor::rest);
            charge.set(parts.len() * CURSOR_BYTES);
        });
        // Only more than before could be too many.
        if fewer.is_ok() {
            let slot = lookups_of(&self.state).thread_slot();
            self.state.tree().kept_cursors().keep(slot, RunCursors { merged, charge });
        }
    }
}

impl Source for StateSource {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_sampled(SeekTarget::First)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_sampled(SeekTarget::Last)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_sampled(SeekTarget::From(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_sampled(SeekTarget::Before(key, sequence))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let went = self.merged.next();
        self.settled(went)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let went = self.merged.prev();
        self.settled(went)
    }

    fn passes(&self, floor: Sequence) -> bool {
        self.merged.passes(floor)
    }

    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        let went = self.merged.pass(to, floor);
        self.settled(went)
    }

    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        let went = self.merged.pass_back(from, floor);
        self.settled(went)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.merged.entry()
    }

    #[inline]
    fn left(&self) -> &[u8] {
        self.merged.left()
    }
}
