//! [`StateSource`]: all entries of a pinned state, buffers and runs, as one source; its seeks read the first blocks of all runs at once.
//!
//! ```text
//! seek ──► run 1: its block is in the cache                                ┐
//!          run 2: lacks a block ──┐                  ┌─► decoded           │
//!          run 3: lacks a block ──┼─► all on the way ┼─► decoded           ├─► every cursor seeks, and finds what it needs
//!          run 4: lacks a block ──┘   at once        └─► decoded           ┘
//! ```
//!
//! So a seek takes about as long as one read, however many runs there are. If a lower index block
//! is not in the cache either, it is read before, while the other runs' reads go on. What could not
//! be brought, the cursor reads by itself; it is that read whose failure is told.
//!
//! Steps are those of [`MergedSource`]: each run is read further by itself, when it gets there.
//! Beside a merge, runs end at the keys that it has not handed over yet, or begin there: what is
//! behind such a cut is read when the scan gets there, by all runs that wait at it at once.
//!
//! Tests: `tests/suite/reads.rs`, on a simulated device that takes a fixed time for each read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tamarack_env::{ReadQueue, ReadRequest};

use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::memory::{self, Charge};
use crate::memtable::MemtableCursor;
use crate::merge::{MergedSource, SeekTarget, Source};
use crate::read::range::KeyRange;
use crate::stats::{LookupCounters, LookupKind, Reader};
use crate::table::{ReadPolicy, ScanVolume};
use crate::tree::run::RunCursor;
use crate::tree::state::State;

/// What a cursor takes with the keys that it keeps, in bytes; about.
const CURSOR_BYTES: usize = size_of::<RunCursor>() + size_of::<Part>() + 500;

/// All entries of a state. See the module's documentation.
pub(super) struct StateSource {
    merged: MergedSource<Part>,
    /// Times some of the seeks.
    lookups: LookupCounters,
    /// Of the cursors. What they have read ahead, and the blocks that they hold, have charges of
    /// their own.
    _charge: Charge,
}

/// One of the sources that a state consists of.
enum Part {
    Memtable(MemtableCursor),
    /// Boxed, since it is many times as large, and merging moves sources about.
    Run(Box<RunCursor>),
}

impl StateSource {
    /// Stands nowhere. Keeps alive of the state what it reads from. Of what is not in `range`, it
    /// may leave out what it likes.
    pub(super) fn new(state: &State, range: &KeyRange, lookups: &LookupCounters) -> Self {
        let buffers = std::iter::once(&state.active).chain(state.immutable.iter().map(|immutable| &immutable.buffer));
        // What comes into an empty buffer from now on is younger than what the scan sees.
        let buffers = buffers.filter(|buffer| !buffer.is_empty()).map(|buffer| Part::Memtable(buffer.cursor()));
        let volume = Arc::new(ScanVolume::between(range.first_place(), range.end_place()));
        if let Some(range_delete) = state.tree().range_deletes().first() {
            match *range_delete {}
        }
        let runs = || state.tree().runs();
        let raw_bytes = runs().map(|run| run.known_raw_bytes()).sum();
        let runs = runs().map(|run| Part::Run(Box::new(run.cursor(ReadPolicy::Cached).sharing(&volume, raw_bytes))));
        let parts: Vec<_> = buffers.chain(runs).collect();
        let charge = Charge::to(state.active.account(), memory::MemoryPart::Iterators, parts.len() * CURSOR_BYTES);
        Self { merged: MergedSource::new(parts), lookups: lookups.clone(), _charge: charge }
    }

    /// Goes to the place, and notes how long that took if it is sampled.
    fn leap(&mut self, place: SeekTarget<'_>) -> Result<()> {
        let began = self.lookups.mine().sampler.picks().then(|| self.lookups.now());
        self.go(place)?;
        if let Some(began) = began {
            self.lookups.note_latency(LookupKind::Seek, began);
        }
        Ok(())
    }

    fn go(&mut self, place: SeekTarget<'_>) -> Result<()> {
        read_for(self.merged.sources_mut().iter_mut().filter_map(Part::run).collect(), Some(place));
        let went = self.merged.seek_to(place);
        if went.is_err() {
            forget(self.merged.sources_mut());
        }
        self.settled(went)
    }

    /// After a step: nothing more, unless a run waits.
    #[inline]
    fn settled(&mut self, went: Result<()>) -> Result<()> {
        if self.merged.some_wait() { went.and_then(|()| self.settle()) } else { went }
    }

    /// Lets runs go on that wait at a cut, if that comes first: all that wait at the same one
    /// together.
    #[cold]
    fn settle(&mut self) -> Result<()> {
        self.merged.settle(|parts, cut| {
            read_for(waiting(parts, cut), None);
            let went = waiting(parts, cut).into_iter().try_for_each(RunCursor::go_on);
            if went.is_err() {
                forget(parts);
            }
            went
        })
    }
}

/// After an error, so that no run takes what was prepared for this seek to be for another one.
fn forget(parts: &mut [Part]) {
    parts.iter_mut().filter_map(Part::run).for_each(RunCursor::leave);
}

/// The runs that wait at the cut at this key.
fn waiting<'a>(parts: &'a mut [Part], cut: &[u8]) -> Vec<&'a mut RunCursor> {
    parts.iter_mut().filter_map(Part::run).filter(|run| run.waits_at() == Some(cut)).collect()
}

/// Reads what these runs need to go to a place, or to go on from where they wait, at once.
fn read_for(runs: Vec<&mut RunCursor>, place: Option<SeekTarget<'_>>) {
    // One alone reads by itself.
    if runs.len() < 2 {
        return;
    }
    let mut seek = Seek { place, runs, prepared: 0, to_read: VecDeque::new(), reading: Vec::new() };
    if seek.find_read()
        && let Some(storage) = seek.runs[seek.to_read[0]].storage().cloned()
    {
        storage.read_queue(Reader::Scan, &mut seek);
    }
}

/// The reads that a seek needs beforehand.
struct Seek<'a> {
    /// Where to; if that is not said, to what is behind the cut at which each waits.
    place: Option<SeekTarget<'a>>,
    runs: Vec<&'a mut RunCursor>,
    /// How many of the runs have been asked what they lack.
    prepared: usize,
    /// Those that lack something.
    to_read: VecDeque<usize>,
    /// The run of each read.
    reading: Vec<usize>,
}

impl Seek<'_> {
    /// Asks runs until one lacks something; false if none does.
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
        // A run that cannot even be prepared will say so when it is sought in.
        if lacks_some.unwrap_or(false) {
            self.to_read.push_back(run);
        }
    }
}

impl ReadQueue for Seek<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        self.find_read();
        let run = self.to_read.pop_front()?;
        self.reading.push(run);
        Some(self.runs[run].request())
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        let run = self.reading[number];
        if self.runs[run].arrived(bytes) {
            self.prepare(run);
        }
    }
}

impl Source for StateSource {
    fn seek_first(&mut self) -> Result<()> {
        self.leap(SeekTarget::First)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.leap(SeekTarget::Last)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(SeekTarget::From(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(SeekTarget::Before(key, sequence))
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

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.merged.entry()
    }

    #[inline]
    fn left(&self) -> &[u8] {
        self.merged.left()
    }
}

impl Part {
    fn run(&mut self) -> Option<&mut RunCursor> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(run) => Some(run),
        }
    }
}

/// Hands a call on to whichever source it is.
macro_rules! either {
    ($self:ident, $source:ident => $call:expr) => {
        match $self {
            Self::Memtable($source) => $call,
            Self::Run($source) => $call,
        }
    };
}

impl Source for Part {
    fn seek_first(&mut self) -> Result<()> {
        either!(self, source => source.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        either!(self, source => source.seek_last())
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        either!(self, source => source.seek(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        either!(self, source => source.seek_before(key, sequence))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        either!(self, source => source.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        either!(self, source => source.prev())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        either!(self, source => source.entry())
    }

    #[inline]
    fn shared(&self) -> Option<usize> {
        either!(self, source => source.shared())
    }

    fn waits_at(&self) -> Option<&[u8]> {
        either!(self, source => source.waits_at())
    }

    #[inline]
    fn left(&self) -> &[u8] {
        either!(self, source => source.left())
    }
}
