//! [`MemtableOrRun`]: a cursor over one sorted part of a tree, a memtable or a run. Scans and
//! compactions merge such parts.
//!
//! An enum, so that the merging iterator calls both without a table of functions. Tests: those of
//! scans (`tests/suite/reads.rs`) and compactions, and of both cursors.

use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::edit::RunId;
use crate::memtable::MemtableCursor;
use crate::merge::{MergedSource, Source};
use crate::table::Pieces;
use crate::tree::run::RunCursor;

/// A cursor over a memtable or a run.
#[derive(Debug)]
pub enum MemtableOrRun {
    /// Over a memtable.
    Memtable(MemtableCursor),
    /// Over a run. Boxed: it is many times as large, and merging moves sources.
    Run(Box<RunCursor>),
}

impl MemtableOrRun {
    /// Returns the cursor of a run.
    pub fn run(&mut self) -> Option<&mut RunCursor> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(run) => Some(run),
        }
    }

    /// Returns true if the current entry is in a memtable, and a lookup has found it there.
    pub fn was_looked_up(&self) -> bool {
        matches!(self, Self::Memtable(cursor) if cursor.was_looked_up())
    }

    /// Returns the id and the read-ahead of a run; see [`RunCursor::into_pieces`].
    pub fn into_pieces(self) -> Option<(RunId, Pieces)> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(run) => run.into_pieces(),
        }
    }
}

/// Lets the runs that wait continue, each by itself, until the source that comes first is at an
/// entry.
///
/// # Errors
/// Errors of reading.
#[cold]
pub fn settle(merged: &mut MergedSource<MemtableOrRun>) -> Result<()> {
    merged.settle(|parts, place| waiting(parts, place).try_for_each(RunCursor::go_on))
}

/// Returns the runs that wait at a place.
pub fn waiting<'a>(
    parts: &'a mut [MemtableOrRun],
    place: (&'a [u8], Sequence),
) -> impl Iterator<Item = &'a mut RunCursor> {
    parts.iter_mut().filter_map(MemtableOrRun::run).filter(move |run| run.waits_at() == Some(place))
}

impl From<MemtableCursor> for MemtableOrRun {
    fn from(cursor: MemtableCursor) -> Self {
        Self::Memtable(cursor)
    }
}

impl From<RunCursor> for MemtableOrRun {
    fn from(cursor: RunCursor) -> Self {
        Self::Run(Box::new(cursor))
    }
}

/// Forwards a call to the memtable's or the run's cursor.
macro_rules! either {
    ($self:ident, $source:ident => $call:expr) => {
        match $self {
            Self::Memtable($source) => $call,
            Self::Run($source) => $call,
        }
    };
}

impl Source for MemtableOrRun {
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

    fn passes(&self, floor: Sequence) -> bool {
        either!(self, source => source.passes(floor))
    }

    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        either!(self, source => source.pass(to, floor))
    }

    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        either!(self, source => source.pass_back(from, floor))
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        either!(self, source => source.entry())
    }

    #[inline]
    fn shared(&self) -> Option<usize> {
        either!(self, source => source.shared())
    }

    fn waits_at(&self) -> Option<(&[u8], Sequence)> {
        either!(self, source => source.waits_at())
    }

    #[inline]
    fn left(&self) -> &[u8] {
        either!(self, source => source.left())
    }
}
