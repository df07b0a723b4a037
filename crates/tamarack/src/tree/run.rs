//! [`Run`]: one sorted sequence of entries, as an ordered list of slices of tables; and [`RunCursor`], which walks over it.
//!
//! ```text
//! keys      a        f        m        t        z
//! tables    ├── 7 ──┤├── 8 ─────┤  ├──── 9 ─────┤
//! slices    ├── 7 ──┤    ├─ 8 ──┤  ├─ 9 ─┤           what belongs to the run: the rest has been handed over
//! ```
//!
//! A [`Slice`] is a table and the part [from, to) of it. Slices of a run do not overlap, so a key
//! is in at most one table, and a search is a binary search among slices. Bounds are user keys: all
//! versions of a key are on the same side of a cut.
//!
//! Normal form: a bound that cuts nothing off is absent, so `from` is past the table's smallest key
//! and `to` at most its largest. A slice may contain no entry (its keys may all fall between two
//! entries), but never no possible key.
//!
//! A run is immutable once published; the edits of `apply` change fresh copies, which share all but
//! a piece of the list.
//!
//! Cost: finding the table of a key is one binary search; `tree/filters` then says whether to
//! search it. A cursor opens a table when it gets there; a scan's waits at cuts until it must.
//!
//! Tests: random slices and cuts against a sorted list, in `tree/tests/runs.rs`.

use std::io;
use std::sync::Arc;

use tamarack_env::ReadRequest;

use super::broken::Broken;
use super::chunks::Chunks;
use super::directory::Directory;
use super::slice::Slice;
use super::table_file::TableFile;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::SharedBlock;
use crate::format::edit::{KeyRange, RunId};
use crate::merge::{SeekTarget, Source};
use crate::table::{Pieces, ReadPolicy, ScanVolume, TableCursor, TableStorage};

/// A sorted sequence of entries.
#[derive(Clone, Debug)]
pub struct Run {
    id: RunId,
    slices: Chunks<Slice>,
    directory: Directory,
    /// All sequences of all tables it ever had slices of lie between these. Only narrows a search.
    sequences: Option<(Sequence, Sequence)>,
}

/// What a change of a run did to one slice of a table: it is gone, or there are now more slices of
/// the same table.
pub(super) struct Cut {
    pub(super) table: Arc<TableFile>,
    /// The slices that are left of the one there was: 0, 1 or 2.
    pub(super) left: usize,
}

impl Run {
    pub(super) fn new(id: RunId) -> Self {
        Self { id, slices: Chunks::default(), directory: Directory::default(), sequences: None }
    }

    /// The run's number.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The slices in key order.
    pub fn slices(&self) -> &Chunks<Slice> {
        &self.slices
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The table of the slice that may hold `key`.
    #[inline]
    pub fn table_of(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        self.directory.find(key, &self.slices)
    }

    /// Raw bytes of its entries; an estimate where slices are cut.
    pub fn raw_bytes(&self) -> u64 {
        self.slices.iter().map(Slice::raw_bytes).sum()
    }

    /// As [`Run::raw_bytes`], remembered from the first time on.
    pub fn known_raw_bytes(&self) -> u64 {
        self.directory.raw_bytes(&self.slices)
    }

    /// The part of the run that lies in `range`, which keeps no other tables alive.
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

    /// A cursor over the run's entries.
    pub fn cursor(self: &Arc<Self>, read: ReadPolicy) -> RunCursor {
        RunCursor {
            run: self.clone(),
            read,
            volume: Arc::default(),
            has_most: false,
            may_wait: false,
            place: None,
            waiting: None,
            left: None,
        }
    }

    /// The slices that may share a key with `slice`.
    pub fn overlapping<'a>(&'a self, slice: &'a Slice) -> impl Iterator<Item = &'a Slice> {
        let start = self.slices.partition_point(|other| other.is_before(slice));
        self.slices.iter_from(start).take_while(|other| !slice.is_before(other))
    }

    /// Bounds on the sequences of its entries; `None` if it never had any.
    pub fn sequences(&self) -> Option<(Sequence, Sequence)> {
        self.sequences
    }

    /// Adds slices, in key order, where their keys belong. Those between which nothing stands go in
    /// together.
    pub(super) fn add(&mut self, slices: Vec<Slice>) -> std::result::Result<(), Broken> {
        let mut rest = slices.into_iter().peekable();
        while let Some(first) = rest.next() {
            let at = self.slices.partition_point(|other| other.first_key() < first.first_key());
            let older = self.slices.get(at).cloned();
            let mut batch = vec![first];
            while let Some(slice) = rest.next_if(|slice| older.as_ref().is_none_or(|o| slice.is_before(o))) {
                batch.push(slice);
            }
            self.directory = Directory::default();
            for slice in &batch {
                self.widen(slice);
            }
            let count = batch.len();
            self.slices.splice(at..at, batch);
            self.check_order(at.saturating_sub(1), count + 2)?;
        }
        Ok(())
    }

    /// Removes all keys of `range`, and says what became of each slice that had some.
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
            self.directory = Directory::default();
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

/// Walks over the entries of a run in both directions.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    read: ReadPolicy,
    /// Shared with the other cursors of a scan.
    volume: Arc<ScanVolume>,
    /// The run has most of what the scan is over.
    has_most: bool,
    /// It waits at cuts; see [`RunCursor::sharing`].
    may_wait: bool,
    /// Where it stands; `None` is nowhere.
    place: Option<CursorPlace>,
    /// The cut at which it waits, if it does. It stands nowhere then, until what is behind has been
    /// read.
    waiting: Option<Waiting>,
    /// The value that the last step backward left, if it has left that slice, too.
    left: Option<Box<[u8]>>,
}

/// A slice of the run, and a cursor that stands on one of its entries.
#[derive(Debug)]
struct CursorPlace {
    index: usize,
    slice: Slice,
    cursor: TableCursor,
}

/// At the cut before a slice, on the way to its first entry or, backward, to its last.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: usize,
    is_forward: bool,
}

impl CursorPlace {
    /// True if the cursor, which came from inside the slice or from below, stands on an entry of
    /// it.
    #[inline]
    fn is_before_end(&self) -> bool {
        match self.slice.to() {
            None => self.cursor.stands(),
            Some(to) => self.cursor.entry().is_some_and(|entry| entry.key < &**to),
        }
    }

    /// True if the cursor, which came from inside the slice or from above, stands on an entry of
    /// it.
    #[inline]
    fn is_after_begin(&self) -> bool {
        match self.slice.from() {
            None => self.cursor.stands(),
            Some(from) => self.cursor.entry().is_some_and(|entry| &**from <= entry.key),
        }
    }
}

impl RunCursor {
    /// The block of the entry it stands on, so that the value can be kept without copying.
    pub fn block(&self) -> Option<&SharedBlock> {
        self.place.as_ref()?.cursor.block()
    }

    /// Reads ahead in proportion to what all cursors use that share `volume`, which are over so
    /// many raw bytes; and leaves out what their scan does not ask for.
    ///
    /// Waits at cuts ([`Source::waits_at`]), and reads what is behind one only when it is told to
    /// go on ([`RunCursor::go_on`]): where a merge has handed over the keys that a scan begins
    /// with, what it has not handed over yet is mostly not reached, and all its inputs begin at the
    /// same cut.
    #[must_use]
    pub fn sharing(mut self, volume: &Arc<ScanVolume>, raw_bytes: u64) -> Self {
        self.volume = volume.clone();
        self.may_wait = true;
        self.has_most = self.run.known_raw_bytes() > raw_bytes / 2;
        self
    }

    /// Does what a seek to `place` does, but for reading blocks: see [`TableCursor::prepare`].
    /// Opens the table. The next seek must be to the same place.
    ///
    /// # Errors
    /// What the seek would meet as well.
    pub fn prepare(&mut self, place: SeekTarget<'_>) -> Result<bool> {
        let Some(index) = self.approach(place) else { return Ok(false) };
        self.enter(index, |here| here.cursor.prepare(here.slice.place_in_table(place)))
    }

    /// As [`RunCursor::prepare`] for [`RunCursor::go_on`], which must be called next.
    ///
    /// # Errors
    /// What that would meet as well.
    pub fn prepare_to_go_on(&mut self) -> Result<bool> {
        let Some(Waiting { index, is_forward }) = self.waiting else { return Ok(false) };
        self.enter(index, |here| here.cursor.prepare(here.slice.end_place(is_forward)))
    }

    /// Goes on from the cut at which it waits to the first entry behind it, or to the next cut.
    /// Does nothing if it does not wait.
    ///
    /// # Errors
    /// Those of reading; it stands nowhere then.
    pub fn go_on(&mut self) -> Result<()> {
        let Some(Waiting { index, is_forward }) = self.waiting.take() else { return Ok(()) };
        self.enter(index, |here| here.cursor.seek_to(here.slice.end_place(is_forward)))?;
        if is_forward { self.settle_forward() } else { self.settle_backward() }
    }

    /// Stands nowhere, and forgets what was prepared.
    pub fn leave(&mut self) {
        (self.place, self.waiting) = (None, None);
    }

    /// The read that [`RunCursor::prepare`] found necessary. [`RunCursor::arrived`] is told what
    /// came of it.
    ///
    /// # Panics
    /// If it found none.
    pub fn request(&self) -> ReadRequest {
        self.place.as_ref().expect("a cursor that was prepared has a place").cursor.request()
    }

    /// Takes in what the read brought. True if there may be more to read: [`RunCursor::prepare`]
    /// says.
    pub fn arrived(&mut self, bytes: io::Result<&[u8]>) -> bool {
        self.place.as_mut().is_some_and(|place| place.cursor.arrived(bytes))
    }

    /// What its tables are read by, if it has opened one.
    pub fn storage(&self) -> Option<&Arc<TableStorage>> {
        self.place.as_ref().map(|place| place.cursor.storage())
    }

    /// The slice that a place leads to, and its index, if any.
    fn slice_at(&self, place: SeekTarget<'_>) -> Option<(usize, &Slice)> {
        let slices = &self.run.slices;
        let index = match place {
            SeekTarget::First => 0,
            SeekTarget::Last => slices.len().checked_sub(1)?,
            SeekTarget::From(key, _) => self.run.directory.ending_before(key, slices),
            SeekTarget::Before(key, _) => self.run.directory.starting_by(key, slices).checked_sub(1)?,
        };
        let slice = slices.get(index).filter(|slice| self.may_want(slice))?;
        Some((index, slice))
    }

    /// False if the scan that the cursor belongs to asks for nothing of the slice.
    fn may_want(&self, slice: &Slice) -> bool {
        let ends_before = self.volume.from().is_some_and(|(from, _)| slice.ends_before(from));
        let starts_after = self.volume.to().is_some_and(|(to, _)| to < slice.first_key());
        !ends_before && !starts_after
    }

    /// The index of the slice that is to be entered for a place; `None` if there is none, and it
    /// stands nowhere or waits then.
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

    /// Goes to the end of the slice with that index at which it begins in that direction, or waits
    /// there.
    fn go_to_slice(&mut self, index: usize, is_forward: bool) -> Result<()> {
        let end = if is_forward { SeekTarget::First } else { SeekTarget::Last };
        if self.may_wait && self.run.slices.get(index).is_some_and(|slice| slice.begins_behind_cut(end)) {
            self.wait(index, is_forward);
            return Ok(());
        }
        self.enter(index, |here| here.cursor.seek_to(here.slice.end_place(is_forward)))
    }

    /// Moves in the slice with that index, whose table it opens if it is not there already. After
    /// an error it stands nowhere.
    fn enter<T>(&mut self, index: usize, go: impl FnOnce(&mut CursorPlace) -> Result<T>) -> Result<T> {
        if self.place.as_ref().is_none_or(|place| place.index != index) {
            let pieces = self.place.take().map(|place| place.cursor.into_pieces());
            let pieces = pieces.unwrap_or_else(|| Pieces::new(self.read, self.volume.clone(), self.has_most));
            let slice = self.run.slices.get(index).expect("there is a slice with that index").clone();
            let cursor = slice.table().open()?.cursor_with(pieces);
            self.place = Some(CursorPlace { index, slice, cursor });
        }
        self.step(go)
    }

    /// Goes to the slice that the place leads to, and in it to where it leads.
    fn leap(&mut self, place: SeekTarget<'_>) -> Result<()> {
        let prepared = self.place.as_ref().filter(|place| place.cursor.is_prepared()).map(|place| place.index);
        let Some(index) = prepared.or_else(|| self.approach(place)) else { return Ok(()) };
        self.enter(index, |here| {
            here.cursor.restart();
            here.cursor.seek_to(here.slice.place_in_table(place))
        })
    }

    /// If the cursor has left its slice at the end, goes on to the first entry after it.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(place) = &self.place
            && !place.is_before_end()
        {
            let next = place.index + 1;
            if !self.run.slices.get(next).is_some_and(|slice| self.may_want(slice)) {
                self.place = None;
            } else {
                self.go_to_slice(next, true)?;
            }
        }
        Ok(())
    }

    /// After a step out of its slice backward: keeps the value that was left there.
    #[cold]
    fn leave_slice_backward(&mut self) -> Result<()> {
        self.left = self.place.as_ref().map(|place| place.cursor.left().into());
        self.settle_backward()
    }

    /// After a step out of its slice forward.
    #[cold]
    fn leave_slice_forward(&mut self) -> Result<()> {
        self.settle_forward()
    }

    /// If the cursor has left its slice at the start, goes back to the last entry before it.
    fn settle_backward(&mut self) -> Result<()> {
        while let Some(place) = &self.place
            && !place.is_after_begin()
        {
            let before = place.index.checked_sub(1);
            match before.filter(|&before| self.run.slices.get(before).is_some_and(|slice| self.may_want(slice))) {
                Some(index) => self.go_to_slice(index, false)?,
                None => self.place = None,
            }
        }
        Ok(())
    }

    /// Moves the table's cursor; after an error it stands nowhere.
    #[inline]
    fn step<T>(&mut self, step: impl FnOnce(&mut CursorPlace) -> Result<T>) -> Result<T> {
        let Some(place) = &mut self.place else {
            panic!("a cursor over {:?} was moved that stands nowhere", self.run.id)
        };
        let stepped = step(place);
        if stepped.is_err() {
            self.place = None;
        }
        stepped
    }
}

impl Source for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.leap(SeekTarget::First)?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.leap(SeekTarget::Last)?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(SeekTarget::From(key, sequence))?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.leap(SeekTarget::Before(key, sequence))?;
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

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.place.as_ref()?.cursor.entry()
    }

    fn waits_at(&self) -> Option<&[u8]> {
        let Waiting { index, is_forward } = self.waiting?;
        let slice = self.run.slices.get(index).expect("there is a slice with that index");
        let cut = if is_forward { slice.from() } else { slice.to() };
        Some(cut.expect("it waits at cuts only"))
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
