//! [`StateSource`]: all entries of a pinned state, buffers and runs, as one source; its seeks read the first blocks of all runs at once.
//!
//! ```text
//! seek ──► run 1: its block is in the cache                            ┐
//!          run 2: lacks a block ──┐                                    │
//!          run 3: lacks a block ──┼─► one batch ─► windows of 2 to 4   ├─► every cursor seeks, and finds what it needs
//!          run 4: lacks a block ──┘                                    ┘
//! ```
//!
//! So a seek takes about as long as one read, however many runs there are. If lower index blocks are not in the cache either, these make a batch
//! before, as far as they are lacking. What the batch could not bring, the cursor reads by itself; it is that read whose failure is told.
//!
//! Steps are those of [`MergedSource`]: each run is read further by itself, when it gets there.
//!
//! Tests: `tests/reads.rs`, on a simulated device that takes a fixed time for each read.

use std::sync::Arc;

use crate::buffer::BufferCursor;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::meta::TreeId;
use crate::memory::{self, Charge};
use crate::merge::{MergedSource, Place, Source};
use crate::stats::Reader;
use crate::table::{ReadPolicy, ScanVolume};
use crate::tree::run::RunCursor;
use crate::tree::state::State;

/// The one tree there is.
const TREE: TreeId = TreeId(0);

/// How often a seek finds that more is to be read: a lower index block, then a data block.
const ROUNDS: usize = 2;

/// What a cursor takes with the keys that it keeps, in bytes; about.
const CURSOR_BYTES: usize = size_of::<RunCursor>() + size_of::<Part>() + 500;

/// All entries of a state. See the module's documentation.
pub(super) struct StateSource {
    merged: MergedSource<Part>,
    /// Of the cursors. What they have read ahead, and the blocks that they hold, have charges of their own.
    _charge: Charge,
}

/// One of the sources that a state consists of.
enum Part {
    Buffer(BufferCursor),
    /// Boxed, since it is many times as large, and merging moves sources about.
    Run(Box<RunCursor>),
}

impl StateSource {
    /// Stands nowhere. Keeps alive of the state what it reads from.
    pub(super) fn new(state: &State) -> Self {
        let buffers = std::iter::once(&state.active).chain(state.sealed.iter().map(|sealed| &sealed.buffer));
        // What comes into an empty buffer from now on is younger than what the scan sees.
        let buffers = buffers.filter(|buffer| !buffer.is_empty()).map(|buffer| Part::Buffer(buffer.cursor()));
        let volume = Arc::<ScanVolume>::default();
        let runs = state.version.tree(TREE).into_iter().flat_map(|tree| tree.runs());
        let runs = runs.map(|run| Part::Run(Box::new(run.cursor(ReadPolicy::Cached).sharing(&volume))));
        let parts: Vec<_> = buffers.chain(runs).collect();
        let charge = Charge::to(state.active.account(), memory::Part::Iterators, parts.len() * CURSOR_BYTES);
        Self { merged: MergedSource::new(parts), _charge: charge }
    }

    fn leap(&mut self, place: Place<'_>) -> Result<()> {
        for _ in 0..ROUNDS {
            if !self.read_together(place) {
                break;
            }
        }
        self.merged.seek_to(place)
    }

    /// Reads what the runs lack that a seek to `place` needs next, unless at most one lacks something; says whether it did.
    fn read_together(&mut self, place: Place<'_>) -> bool {
        let runs = self.merged.sources_mut().iter_mut().filter_map(Part::run);
        // A run that cannot even be prepared will say so when it is sought in.
        let mut lacking: Vec<_> = runs.filter_map(|run| run.prepare(place).unwrap_or(false).then_some(run)).collect();
        if lacking.len() < 2 {
            return false;
        }
        let storage = lacking[0].storage().expect("what lacks a block has a table").clone();
        let requests = lacking.iter_mut().map(|run| run.request()).collect();
        let outcomes = storage.read_together(Reader::Scan, requests);
        for (run, outcome) in lacking.iter_mut().zip(outcomes) {
            run.arrived(outcome.is_ok());
        }
        true
    }
}

impl Source for StateSource {
    fn seek_first(&mut self) -> Result<()> {
        self.leap(Place::First)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.leap(Place::Last)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(Place::From(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(Place::Before(key, sequence))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.merged.next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.merged.prev()
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
            Self::Buffer(_) => None,
            Self::Run(run) => Some(run),
        }
    }
}

/// Hands a call on to whichever source it is.
macro_rules! either {
    ($self:ident, $source:ident => $call:expr) => {
        match $self {
            Self::Buffer($source) => $call,
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

    #[inline]
    fn left(&self) -> &[u8] {
        either!(self, source => source.left())
    }
}
