//! [`Run`]: a sorted run, as an ordered list of slices of tables; and [`RunCursor`], which iterates
//! over its entries.
//!
//! ```text
//! keys      a        f        m        t        z
//! tables    ├── 7 ──┤├── 8 ─────┤  ├──── 9 ─────┤
//! slices    ├── 7 ──┤    ├─ 8 ──┤  ├─ 9 ─┤           the run's part: the rest has been handed over
//! ```
//!
//! A [`Slice`] is a table and the part [from, to) of it. Slices of a run do not overlap, so a key
//! is in at most one table, which a binary search finds. Bounds are user keys: all versions of a
//! key are on the same side of a cut.
//!
//! Normal form: a bound that cuts nothing off is absent, so `from` is above the table's smallest
//! key and `to` at most its largest. A slice may contain no entry (its range may fall between two
//! entries), but its range is never empty.
//!
//! A run is immutable once published; `apply` changes copies, which share all but one piece of the
//! list.
//!
//! Cost: finding the table of a key is one binary search; `tree/filters` then decides whether to
//! search it. A cursor opens a table when it gets there; the cursors of a scan wait at cuts until
//! they must continue.
//!
//! Tests: random slices and cuts against a sorted list, in `tree/tests/runs.rs`.

use std::io;
use std::sync::Arc;

use tamarack_env::ReadRequest;

use super::broken::Broken;
use super::chunks::Chunks;
use super::run_index::RunIndex;
pub use super::slice::RunVolume;
use super::slice::Slice;
use super::table_file::TableFile;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::SharedBlock;
use crate::format::edit::{KeyRange, RunId};
use crate::format::key_range::Key;
use crate::merge::{SeekTarget, Source};
use crate::table::{
    Approach, LeftValue, Pieces, PlaceInIndex, ReadPolicy, RunShare, ScanVolume, TableCursor, TableStorage,
};

/// A sorted run.
#[derive(Clone, Debug)]
pub struct Run {
    id: RunId,
    slices: Chunks<Slice>,
    index: RunIndex,
    /// Bounds on the sequences of all tables that it ever had slices of. Only narrows a search.
    sequences: Option<(Sequence, Sequence)>,
}

/// The effect of a cut on one slice: it is gone, shortened, or split.
pub(super) struct Cut {
    pub(super) table: Arc<TableFile>,
    /// The number of slices that remain of it: 0, 1 or 2.
    pub(super) left: usize,
}

impl Run {
    pub(super) fn new(id: RunId) -> Self {
        Self { id, slices: Chunks::default(), index: RunIndex::default(), sequences: None }
    }

    /// Returns the run's number.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns the slices in key order.
    pub fn slices(&self) -> &Chunks<Slice> {
        &self.slices
    }

    /// Returns true if the run has no slices.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Returns the table of the slice that may hold `key`.
    // Lookups with and without a filter over the whole tree call it: without this, neither inlines
    // it.
    #[inline(always)]
    pub fn table_of(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        self.index.find(key, &self.slices)
    }

    /// Returns the raw bytes of its entries; an estimate where slices are cut.
    pub fn raw_bytes(&self) -> u64 {
        self.slices.iter().map(Slice::raw_bytes).sum()
    }

    /// Returns the number of its entries; an estimate where slices are cut.
    pub fn entries(&self) -> u64 {
        self.slices.iter().map(Slice::entries).sum()
    }

    /// Returns the size of the run, computed once.
    pub fn volume(&self) -> RunVolume {
        self.index.volume(&self.slices)
    }

    /// Returns the part of the run within `range`, which references no other tables.
    #[must_use]
    pub fn within(&self, range: &KeyRange) -> Self {
        let mut part = self.clone();
        if let Some(from) = &range.from
            && !from.is_empty()
        {
            part.cut(&KeyRange { from: None, to: Some(from.clone()) });
        }
        if let Some(to) = &range.to {
            part.cut(&KeyRange { from: Some(to.clone()), to: None });
        }
        part
    }

    /// Returns an unpositioned cursor of a scan: see [`RunCursor::join`].
    pub fn scan_cursor(self: &Arc<Self>, volume: &Arc<ScanVolume>, all: &RunVolume) -> RunCursor {
        let mut cursor = self.cursor(ReadPolicy::Cached, volume);
        cursor.join(volume, all);
        cursor
    }

    /// Returns an unpositioned cursor over the run's entries, which shares `volume` with the other
    /// inputs of a compaction, if it is for one. That may let cursors release large blocks: see
    /// [`ScanVolume::releasing`].
    pub fn cursor(self: &Arc<Self>, read: ReadPolicy, volume: &Arc<ScanVolume>) -> RunCursor {
        RunCursor {
            run: self.clone(),
            read,
            volume: volume.clone(),
            share: RunShare::default(),
            may_wait: false,
            place: None,
            waiting: None,
            left: None,
            pieces: None,
            known: None,
            is_inside: false,
        }
    }

    /// Returns the slices that may share a key with `slice`.
    pub fn overlapping<'a>(&'a self, slice: &'a Slice) -> impl Iterator<Item = &'a Slice> {
        let start = self.slices.partition_point(|other| other.is_before(slice));
        self.slices.iter_from(start).take_while(|other| !slice.is_before(other))
    }

    /// Returns the slices that may have a key in `range`.
    pub(super) fn within_range<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Slice> {
        let start =
            range.from.as_deref().map_or(0, |from| self.slices.partition_point(|slice| slice.ends_before(from)));
        let is_before = move |slice: &&Slice| range.to.as_deref().is_none_or(|to| slice.first_key() < to);
        self.slices.iter_from(start).take_while(is_before)
    }

    /// Returns bounds on the sequences of its entries; `None` if it never had any.
    pub fn sequences(&self) -> Option<(Sequence, Sequence)> {
        self.sequences
    }

    /// Inserts slices, in key order; slices with no existing one between them together.
    pub(super) fn add(&mut self, slices: Vec<Slice>) -> std::result::Result<(), Broken> {
        let mut rest = slices.into_iter().peekable();
        while let Some(first) = rest.next() {
            let at = self.slices.partition_point(|other| other.first_key() < first.first_key());
            let older = self.slices.get(at).cloned();
            let mut batch = vec![first];
            while let Some(slice) = rest.next_if(|slice| older.as_ref().is_none_or(|o| slice.is_before(o))) {
                batch.push(slice);
            }
            self.index = RunIndex::default();
            for slice in &batch {
                self.widen(slice);
            }
            let count = batch.len();
            self.slices.splice(at..at, batch);
            self.check_order(at.saturating_sub(1), count + 2)?;
        }
        Ok(())
    }

    /// Removes all keys of `range`; returns the effect on each slice that had some.
    pub(super) fn cut(&mut self, range: &KeyRange) -> Vec<Cut> {
        let start =
            range.from.as_deref().map_or(0, |from| self.slices.partition_point(|slice| slice.ends_before(from)));
        let end = match &range.to {
            Some(to) => self.slices.partition_point(|slice| slice.first_key() < &**to),
            None => self.slices.len(),
        };
        let (mut cuts, mut left) = (Vec::new(), Vec::new());
        for slice in self.slices.iter_from(start).take(end.saturating_sub(start)) {
            let before = left.len();
            left.extend(slice.without(range).into_iter().flatten());
            cuts.push(Cut { table: slice.table().clone(), left: left.len() - before });
        }
        if !cuts.is_empty() {
            self.index = RunIndex::default();
            self.slices.splice(start..end, left);
        }
        cuts
    }

    /// Checks that `count` neighbours from index `start` on are in order and disjoint.
    pub(super) fn check_order(&self, start: usize, count: usize) -> std::result::Result<(), Broken> {
        let slices = || self.slices.iter_from(start).take(count);
        match slices().zip(slices().skip(1)).find(|(a, b)| !a.is_before(b)) {
            None => Ok(()),
            Some((a, b)) => Err(Broken(format!(
                "slices {:?} and {:?} of {:?} overlap or are out of order",
                a.spec(),
                b.spec(),
                self.id
            ))),
        }
    }

    fn widen(&mut self, slice: &Slice) {
        let meta = slice.table().meta();
        let (smallest, largest) = self.sequences.unwrap_or((Sequence::MAX, Sequence::ZERO));
        self.sequences = Some((smallest.min(meta.smallest_sequence), largest.max(meta.largest_sequence)));
    }
}

/// A cursor over the entries of a run, in both directions.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    read: ReadPolicy,
    /// Shared with the other cursors of a scan.
    volume: Arc<ScanVolume>,
    /// The run's share of the data of its scan.
    share: RunShare,
    /// The cursor waits at cuts; see [`RunCursor::join`].
    may_wait: bool,
    /// The position; `None` if unpositioned.
    place: Option<CursorPlace>,
    /// The cut at which it waits. It is unpositioned then, until it continues.
    waiting: Option<Waiting>,
    /// The value that the last step backward left, if that left the slice as well.
    left: Option<LeftValue>,
    /// The read-ahead of an earlier cursor; see [`RunCursor::continuing`].
    pieces: Option<Box<Pieces>>,
    /// Where the seek that is being prepared leads.
    known: Option<KnownPlace>,
    /// The seek that was prepared is to a place within the keys of its slice.
    is_inside: bool,
}

/// Where an approach has got to: a slice, and a place in its index.
#[derive(Clone, Copy, Debug)]
pub struct KnownPlace {
    slice: usize,
    in_index: PlaceInIndex,
    is_inside: bool,
}

/// The way of a seek in a run to its data block: see [`Approach`].
#[derive(Debug)]
pub struct RunApproach<'a> {
    slice: usize,
    is_inside: bool,
    approach: Approach<'a>,
}

impl RunApproach<'_> {
    /// As [`Approach::step`].
    pub fn step(&mut self) {
        self.approach.step();
    }

    /// Returns where it has got to, if the index is in memory: for [`RunCursor::know`].
    pub fn known(&self) -> Option<KnownPlace> {
        let Self { slice, is_inside, .. } = *self;
        Some(KnownPlace { slice, in_index: self.approach.fences()?, is_inside })
    }
}

/// A cursor on one of the entries of a slice.
#[derive(Debug)]
struct CursorPlace {
    /// The index of the slice in the run.
    index: usize,
    /// The bounds of the slice, where it is cut.
    from: Option<Key>,
    to: Option<Key>,
    cursor: TableCursor,
}

/// A wait at the cut of a slice, on the way to its first entry or, backward, to its last.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: usize,
    is_forward: bool,
}

impl CursorPlace {
    /// Returns true if the cursor, which moved in this direction, is on an entry of the slice, or
    /// waits at one.
    #[inline]
    fn is_before_end(&self) -> bool {
        match &self.to {
            None => self.cursor.stands(),
            Some(to) => self.cursor.key().is_some_and(|key| key < &**to),
        }
    }

    /// Returns true if the cursor, which moved in this direction, is on an entry of the slice, or
    /// waits at one.
    #[inline]
    fn is_after_begin(&self) -> bool {
        match &self.from {
            None => self.cursor.stands(),
            Some(from) => self.cursor.key().is_some_and(|key| &**from <= key),
        }
    }
}

impl RunCursor {
    /// Returns the block of the current entry, so that the value can be pinned without copying.
    pub fn block(&self) -> Option<&SharedBlock> {
        self.place.as_ref()?.cursor.block()
    }

    /// Joins a scan over runs of the size `all` together, whose cursors share `volume`: reads ahead
    /// in proportion to the use of all of them, and omits what the scan's range excludes. The
    /// cursor must be new, or at rest ([`RunCursor::rest`]).
    ///
    /// The cursor waits at cuts ([`Source::waits_at`]), and reads behind one only in
    /// [`RunCursor::go_on`]: where a compaction has handed over the keys with which a scan begins,
    /// the remaining keys are mostly not reached, and all inputs begin at the same cut.
    pub fn join(&mut self, volume: &Arc<ScanVolume>, all: &RunVolume) {
        self.volume = volume.clone();
        self.may_wait = true;
        let own = self.run.volume();
        self.share.has_most = own.raw_bytes > all.raw_bytes / 2;
        self.share.of_bytes =
            if volume.is_limited() { own.data_bytes as f64 / all.data_bytes.max(1) as f64 } else { 0.0 };
        if let Some(place) = &mut self.place {
            place.cursor.join(volume, self.share);
        }
    }

    /// Resets the cursor, and releases blocks, read-ahead and the memory of long keys.
    pub fn rest(&mut self) {
        (self.waiting, self.known, self.left, self.pieces) = (None, None, None, None);
        if let Some(place) = &mut self.place {
            place.cursor.rest();
        }
    }

    /// Begins the way of a seek to its data block, if the table is open.
    pub fn begin_approach<'a>(&'a self, place: SeekTarget<'a>) -> Option<RunApproach<'a>> {
        let (index, slice) = self.slice_at(place)?;
        if self.may_wait && slice.begins_behind_cut(place) {
            return None;
        }
        let is_inside = slice.has_inside(place);
        let in_table = if is_inside { place } else { slice.place_in_table(place) };
        let (SeekTarget::From(key, sequence) | SeekTarget::Before(key, sequence)) = in_table else { return None };
        let approach = slice.table().if_open()?.approach_place((key, sequence));
        Some(RunApproach { slice: index, is_inside, approach })
    }

    /// Says where an approach has got to, for [`RunCursor::prepare`], which must be called next.
    pub fn know(&mut self, known: Option<KnownPlace>) {
        self.known = known;
    }

    /// Prepares a seek to `place`, without reading blocks: see [`TableCursor::prepare`]. Opens the
    /// table. The next seek must be to the same place.
    ///
    /// # Errors
    /// Errors that the seek would return as well.
    pub fn prepare(&mut self, place: SeekTarget<'_>) -> Result<bool> {
        let known = self.known.take();
        self.is_inside = known.is_some_and(|known| known.is_inside);
        let index = match known {
            Some(known) => {
                self.waiting = None;
                known.slice
            }
            None => match self.approach(place) {
                Some(index) => index,
                None => return Ok(false),
            },
        };
        let is_inside = self.is_inside;
        self.enter(index, |slice, cursor| {
            let place = if is_inside { place } else { slice.place_in_table(place) };
            cursor.prepare(place, known.map(|known| known.in_index))
        })
    }

    /// As [`RunCursor::prepare`], for [`RunCursor::go_on`], which must be called next.
    ///
    /// # Errors
    /// Errors that it would return as well.
    pub fn prepare_to_go_on(&mut self) -> Result<bool> {
        let Some(Waiting { index, is_forward }) = self.waiting else { return Ok(false) };
        self.enter(index, |slice, cursor| cursor.prepare(slice.end_place(is_forward), None))
    }

    /// Continues from the cut at which it waits to the first entry behind it, or to the next cut;
    /// or reads the large block of the entry at which it waits. No effect if it does not wait.
    ///
    /// # Errors
    /// Errors of reading, which leave it unpositioned.
    pub fn go_on(&mut self) -> Result<()> {
        let Some(Waiting { index, is_forward }) = self.waiting.take() else {
            return if self.place.is_some() { self.step(|place| place.cursor.go_on()) } else { Ok(()) };
        };
        self.enter(index, |slice, cursor| cursor.seek_to(slice.end_place(is_forward)))?;
        if is_forward { self.settle_forward() } else { self.settle_backward() }
    }

    /// Continues the read-ahead of an earlier cursor over the same run.
    #[must_use]
    pub fn continuing(mut self, pieces: Option<Pieces>) -> Self {
        self.pieces = pieces.map(|pieces| Box::new(pieces.of(&self.volume)));
        self
    }

    /// Returns the run's id and the read-ahead, for a later cursor over what is left of the run.
    /// `None` if it has left the run.
    pub fn into_pieces(self) -> Option<(RunId, Pieces)> {
        let place = self.place?;
        Some((self.run.id(), place.cursor.into_pieces()))
    }

    /// Releases the value that the last step backward left, as another cursor has moved since.
    pub fn forget_left(&mut self) {
        self.left = None;
        if let Some(place) = &mut self.place {
            place.cursor.forget_left();
        }
    }

    /// Resets the cursor: unpositioned, nothing prepared.
    pub fn leave(&mut self) {
        (self.place, self.waiting, self.known) = (None, None, None);
    }

    /// Returns the read that [`RunCursor::prepare`] found necessary. Its outcome goes to
    /// [`RunCursor::arrived`].
    ///
    /// # Panics
    /// If it found none.
    ///
    /// # Errors
    /// If the table's file was closed and cannot be opened again.
    pub fn request(&self) -> Result<ReadRequest> {
        self.place.as_ref().expect("a cursor that was prepared has a place").cursor.request()
    }

    /// Takes the outcome of the read. Returns true if there may be more to read, which
    /// [`RunCursor::prepare`] tells.
    pub fn arrived(&mut self, bytes: io::Result<&[u8]>) -> bool {
        self.place.as_mut().is_some_and(|place| place.cursor.arrived(bytes))
    }

    /// Returns the storage of its tables, if it has opened one.
    pub fn storage(&self) -> Option<&Arc<TableStorage>> {
        self.place.as_ref().map(|place| place.cursor.storage())
    }

    /// Returns the slice that a place leads to, and its index.
    fn slice_at(&self, place: SeekTarget<'_>) -> Option<(usize, &Slice)> {
        let slices = &self.run.slices;
        let index = match place {
            SeekTarget::First => 0,
            SeekTarget::Last => slices.len().checked_sub(1)?,
            SeekTarget::From(key, _) => self.run.index.ending_before(key, slices),
            SeekTarget::Before(key, _) => self.run.index.starting_by(key, slices).checked_sub(1)?,
        };
        let slice = slices.get(index).filter(|slice| self.may_need(slice))?;
        Some((index, slice))
    }

    /// Returns false if the scan's range excludes the slice.
    fn may_need(&self, slice: &Slice) -> bool {
        let ends_before = self.volume.from().is_some_and(|(from, _)| slice.ends_before(from));
        let starts_after = self.volume.to().is_some_and(|(to, _)| to < slice.first_key());
        !ends_before && !starts_after
    }

    /// Returns the index of the slice to enter for a place; `None` leaves the cursor unpositioned
    /// or waiting.
    fn approach(&mut self, place: SeekTarget<'_>) -> Option<usize> {
        self.waiting = None;
        match self.slice_at(place) {
            Some((index, slice)) if self.may_wait && slice.begins_behind_cut(place) => {
                self.wait(index, matches!(place, SeekTarget::First | SeekTarget::From(..)));
                None
            }
            Some((index, _)) => Some(index),
            None => {
                self.leave();
                None
            }
        }
    }

    fn wait(&mut self, index: usize, is_forward: bool) {
        self.place = None;
        self.waiting = Some(Waiting { index, is_forward });
    }

    /// Enters the slice with that index at the end that comes first in that direction, or waits at
    /// its cut.
    fn go_to_slice(&mut self, index: usize, is_forward: bool) -> Result<()> {
        let end = if is_forward { SeekTarget::First } else { SeekTarget::Last };
        if self.may_wait && self.run.slices.get(index).is_some_and(|slice| slice.begins_behind_cut(end)) {
            self.wait(index, is_forward);
            return Ok(());
        }
        self.enter(index, |slice, cursor| cursor.seek_to(slice.end_place(is_forward)))
    }

    /// Moves within the slice with that index, and opens its table if needed. An error leaves the
    /// cursor unpositioned.
    fn enter<T>(&mut self, index: usize, go: impl FnOnce(&Slice, &mut TableCursor) -> Result<T>) -> Result<T> {
        let slice = self.run.slices.get(index).expect("there is a slice with that index");
        if self.place.as_ref().is_none_or(|place| place.index != index) {
            let table = slice.table().open().inspect_err(|_| self.place = None)?;
            let (from, to) = (slice.from().cloned(), slice.to().cloned());
            if let Some(place) = &mut self.place {
                place.cursor.move_to(table);
                (place.index, place.from, place.to) = (index, from, to);
            } else {
                let pieces = self.pieces.take().map(|pieces| *pieces);
                let pieces = pieces.unwrap_or_else(|| Pieces::new(self.read, self.volume.clone(), self.share));
                self.place = Some(CursorPlace { index, from, to, cursor: table.cursor_with(pieces) });
            }
        }
        let place = self.place.as_mut().expect("it was entered now or before");
        let went = go(slice, &mut place.cursor);
        if went.is_err() {
            self.place = None;
        }
        went
    }

    /// Seeks to a place: to its slice, and within that.
    fn seek_place(&mut self, place: SeekTarget<'_>) -> Result<()> {
        let prepared = self.place.as_ref().filter(|place| place.cursor.is_prepared()).map(|place| place.index);
        let is_inside = prepared.is_some() && self.is_inside;
        let Some(index) = prepared.or_else(|| self.approach(place)) else { return Ok(()) };
        self.enter(index, |slice, cursor| {
            cursor.restart();
            cursor.seek_to(if is_inside { place } else { slice.place_in_table(place) })
        })
    }

    /// If the cursor has left its slice at the end, moves to the first entry after it.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(place) = &self.place
            && !place.is_before_end()
        {
            let next = place.index + 1;
            if !self.run.slices.get(next).is_some_and(|slice| self.may_need(slice)) {
                self.place = None;
            } else {
                self.go_to_slice(next, true)?;
            }
        }
        Ok(())
    }

    /// Completes a step backward out of its slice: keeps the value that was left there.
    #[cold]
    fn leave_slice_backward(&mut self) -> Result<()> {
        self.left = self.place.as_mut().map(|place| place.cursor.take_left());
        self.settle_backward()
    }

    /// Completes a step forward out of its slice.
    #[cold]
    fn leave_slice_forward(&mut self) -> Result<()> {
        self.settle_forward()
    }

    /// If the cursor has left its slice at the start, moves to the last entry before it.
    fn settle_backward(&mut self) -> Result<()> {
        while let Some(place) = &self.place
            && !place.is_after_begin()
        {
            let before = place.index.checked_sub(1);
            match before.filter(|&before| self.run.slices.get(before).is_some_and(|slice| self.may_need(slice))) {
                Some(index) => self.go_to_slice(index, false)?,
                None => self.place = None,
            }
        }
        Ok(())
    }

    /// Moves the table's cursor. An error leaves this cursor unpositioned.
    #[inline]
    fn step<T>(&mut self, step: impl FnOnce(&mut CursorPlace) -> Result<T>) -> Result<T> {
        let Some(place) = &mut self.place else { panic!("an unpositioned cursor over {:?} was moved", self.run.id) };
        let stepped = step(place);
        if stepped.is_err() {
            self.place = None;
        }
        stepped
    }
}

impl Source for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_place(SeekTarget::First)?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_place(SeekTarget::Last)?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_place(SeekTarget::From(key, sequence))?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_place(SeekTarget::Before(key, sequence))?;
        self.settle_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let inside = self.step(|place| place.cursor.next().map(|()| place.is_before_end()))?;
        if inside { Ok(()) } else { self.leave_slice_forward() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.left.is_some() {
            self.left = None;
        }
        let inside = self.step(|place| place.cursor.prev().map(|()| place.is_after_begin()))?;
        if inside { Ok(()) } else { self.leave_slice_backward() }
    }

    fn passes(&self, floor: Sequence) -> bool {
        let slice = self.place.as_ref().and_then(|place| self.run.slices.get(place.index));
        slice.is_some_and(|slice| slice.is_below(floor))
    }

    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        let Some(place) = &self.place else { panic!("an unpositioned cursor over {:?} was moved", self.run.id) };
        let run = self.run.clone();
        let is_passed = |slice: &Slice| slice.is_below(floor) && to.is_none_or(|to| slice.ends_before(to));
        let here = place.index;
        let Some(first) = run.slices.get(here).filter(|slice| slice.is_below(floor)) else { return self.next() };
        if !is_passed(first) {
            let to = to.expect("without an end, the slice is passed");
            return self.seek(to, Sequence::MAX);
        }
        let next = run.slices.iter_from(here + 1).position(|slice| !is_passed(slice));
        match next.map(|after| here + 1 + after) {
            // It may begin with entries that are hidden as well.
            Some(index) => {
                let slice = run.slices.get(index).expect("it was found there");
                let first = slice.first_key();
                let key = to.filter(|to| slice.is_below(floor) && *to > first).unwrap_or(first);
                self.seek(key, Sequence::MAX)
            }
            None => {
                self.leave();
                Ok(())
            }
        }
    }

    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        self.left = None;
        let Some(place) = &self.place else { panic!("an unpositioned cursor over {:?} was moved", self.run.id) };
        let run = self.run.clone();
        let is_passed = |slice: &Slice| slice.is_below(floor) && slice.first_key() >= from;
        let here = place.index;
        let Some(last) = run.slices.get(here).filter(|slice| slice.is_below(floor)) else { return self.prev() };
        if !is_passed(last) {
            return self.seek_before(from, Sequence::MAX);
        }
        let before = (0..here).rev().find(|index| run.slices.get(*index).is_some_and(|slice| !is_passed(slice)));
        match before {
            Some(index) => {
                let slice = run.slices.get(index).expect("it was found there");
                let next = run.slices.get(index + 1).expect("one after it was passed").first_key();
                let key = if slice.is_below(floor) && !slice.ends_before(from) { from } else { next };
                self.seek_before(key, Sequence::MAX)
            }
            None => {
                self.leave();
                Ok(())
            }
        }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.place.as_ref()?.cursor.entry()
    }

    fn waits_at(&self) -> Option<(&[u8], Sequence)> {
        let Some(Waiting { index, is_forward }) = self.waiting else { return self.place.as_ref()?.cursor.waits_at() };
        let slice = self.run.slices.get(index).expect("there is a slice with that index");
        let cut = if is_forward { slice.from() } else { slice.to() };
        Some((cut.expect("it waits at cuts only"), Sequence::MAX))
    }

    #[inline]
    fn shared(&self) -> Option<usize> {
        self.place.as_ref()?.cursor.shared()
    }

    #[inline]
    fn left(&self) -> &[u8] {
        match (&self.left, &self.place) {
            (Some(left), _) => left,
            (None, place) => place.as_ref().expect("a step backward has left an entry").cursor.left(),
        }
    }
}
