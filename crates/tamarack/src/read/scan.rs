//! [`Scan`]: the double-ended iterator over keys and values.
//!
//! A scan has an [`Origin`] (which pins a state and makes sources from it) and up to two cursors,
//! one for each end, each made when its end is first used:
//!
//! ```text
//!   range      ├────────────────────────────────────────┤
//!   front          a → c → d →                                next()
//!   back                              ← m ← q ← x             next_back()
//!                         └ not yet ┘
//!                          delivered
//! ```
//!
//! # Resting
//!
//! A cursor takes some KiB for each run, and pins a block of each, and memtables that are flushed
//! meanwhile. If memory is short and there are many scans, a scan therefore rests between two
//! calls: it releases its cursors and its origin's state, and keeps the range of what it has not
//! delivered. The next call begins with a seek, in the state of that time, which still has all that
//! the scan's sequence sees. So many open scans become slow instead of taking more memory than
//! there is; a few do not ([`crate::memory::Account::scans_should_rest`]).
//!
//! A scan asks whether memory is short after the first step of a new cursor, then once in
//! [`STEPS_UNTIL_ASKED`] steps. If it lends an entry and rests, it lends a copy;
//! with a large entry it does not rest.
//!
//! # Seeking
//!
//! A seek narrows the range of what is left, from one end, and reads nothing: the next step of that
//! end begins at its new bound, with the cursor that it had. So skipping costs one seek, like the
//! first step. It never leads back: what was delivered or skipped is outside of the range.
//!
//! # Invariants
//!
//! * The two ends never deliver a key twice: when one end reaches the other's last key, the scan
//!   has ended.
//! * After the end or an error only `None` follows, and the origin and all cursors have been
//!   released.
//! * A scan with a limit delivers at most so many entries, counted from both ends together. With
//!   the last one it releases its cursors, except the one on an entry that it lends; the next call
//!   ends it without a step.
//! * All keys come from one sequence, whatever is written meanwhile.
//!
//! # Cost
//!
//! Per key, that of [`VisibleCursor`], and two allocations and copies where keys and values are
//! owned instead of lent. A scan in one direction makes one source, unless it rests.
//!
//! # Tests
//!
//! Random multi-version histories against a map, for all bounds, limits, seeks and random mixtures
//! of both ends; a count of the sources made; failing sources and origins.

use std::sync::Arc;

use super::visible::VisibleCursor;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::key_range::{Key, KeyRange, key_after};
use crate::merge::Source;
use crate::operator::Merging;
use crate::range_tombstones::RangeTombstones;

/// A factory of sources over all versions of all keys, called once for each end that is used.
pub trait Origin {
    /// The type of source.
    type Source: Source;
    /// Makes an unpositioned source, which may omit entries outside of `range`. The scan takes at
    /// most `limit` further entries, if there is a limit.
    ///
    /// # Errors
    /// Errors of reading; the scan returns them and ends.
    fn open(&mut self, range: &KeyRange, limit: Option<usize>) -> Result<Self::Source>;

    /// Returns the range tombstones of what the last source was made from, if there are any.
    fn range_tombstones(&self) -> Option<RangeTombstones> {
        None
    }

    /// Returns true if scans should hold no memory between two calls of their users.
    fn is_memory_short(&self) -> bool {
        false
    }

    /// Releases what sources are made from, which the next [`Origin::open`] takes again. Until then
    /// the scan has `_copied_bytes` of copies.
    fn release(&mut self, _copied_bytes: usize) {}

    /// Observes the end of the scan, which has returned so many entries.
    fn ended(&mut self, _entries: u64) {}

    /// Observes an error before the scan returns it.
    fn failed(&self, _: &Error) {}
}

/// Any function that makes a source is an origin.
impl<S: Source, F: Fn() -> Result<S>> Origin for F {
    type Source = S;
    fn open(&mut self, _: &KeyRange, _: Option<usize>) -> Result<S> {
        self()
    }
}

/// An iterator over the keys and values in a range as of one moment, in order of keys, from both
/// ends.
#[must_use = "a scan reads nothing until it is iterated"]
pub struct Scan<O: Origin> {
    /// `None` once it has ended.
    open: Option<Open<O>>,
}

/// The cursor of an end that is in use. Boxed: a scan that has none, new or resting, is small.
type End<O> = Option<Box<VisibleCursor<<O as Origin>::Source>>>;

/// Steps of a scan's cursors after which it asks again whether memory is short. A step takes a few
/// hundred instructions, the question about twenty.
const STEPS_UNTIL_ASKED: u32 = 32;

/// The largest key and value that a scan copies in order to rest while it lends them. A copy of a
/// larger one would take more than the cursor, beside which it exists for a moment.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// A scan that has not ended. An end with a cursor has delivered at least one key and is positioned
/// on the last one.
struct Open<O: Origin> {
    origin: O,
    sequence: Sequence,
    /// The bounds of the scan; since a rest, of what was not delivered before it.
    range: KeyRange,
    merging: Arc<Merging>,
    front: End<O>,
    back: End<O>,
    /// The cursors of ends that have sought since: the next ones that ends need. With the two
    /// above, there are at most two.
    spare: [End<O>; 2],
    /// The key and value that a resting scan lends.
    copy: Option<Box<(Vec<u8>, Vec<u8>)>>,
    /// Steps of cursors until the scan asks once more whether memory is short, or its limit
    /// reached.
    steps_until_asked: u32,
    /// What that was when it was set.
    steps_planned: u32,
    /// Steps before that.
    steps_before: u64,
    /// The number of entries that the limit allows after these steps; `None` without a limit.
    limit_after: Option<usize>,
    /// The cursor on the last entry that the limit allows, while that is lent.
    last: End<O>,
}

impl<O: Origin> Scan<O> {
    /// Creates a scan of the keys and values in `range` that a reader at `sequence` sees in
    /// `origin`, with operands merged by `merging`.
    pub fn new(origin: O, sequence: Sequence, range: KeyRange, merging: Arc<Merging>) -> Self {
        Self {
            open: Some(Open {
                origin,
                sequence,
                range,
                merging,
                front: None,
                back: None,
                spare: [None, None],
                copy: None,
                steps_until_asked: 0,
                steps_planned: 0,
                steps_before: 0,
                limit_after: None,
                last: None,
            }),
        }
    }

    /// Ends the scan after `entries` further entries, or earlier if it has a smaller limit.
    pub fn limit(mut self, entries: usize) -> Self {
        if entries == 0 {
            self.open = None;
        }
        if let Some(open) = &mut self.open {
            open.limit(entries);
        }
        self
    }

    /// Skips the entries below `from`, seen from the front.
    pub fn seek(&mut self, from: Key) {
        if self.open.as_mut().is_some_and(|open| !open.skip_below(from)) {
            self.open = None;
        }
    }

    /// Skips the entries at or above `to`, seen from the back.
    pub fn seek_back(&mut self, to: Key) {
        if self.open.as_mut().is_some_and(|open| !open.skip_from(to)) {
            self.open = None;
        }
    }

    /// Returns the next key and value from the front, lent until the next call; `None` at the end.
    /// Copies no value, and allocates only space for the longest key.
    ///
    /// # Errors
    /// Errors of reading, which end the scan.
    #[inline]
    pub fn next_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(Open::advance_front)?.map(|open| open.lend(|open| &mut open.front)))
    }

    /// As [`Scan::next_lent`], from the back.
    ///
    /// # Errors
    /// Errors of reading, which end the scan.
    #[inline]
    pub fn next_back_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.advance(Open::advance_back)?.map(|open| open.lend(|open| &mut open.back)))
    }

    /// Advances one end. Returns `None`, and ends the scan, after its last key; an error ends it
    /// as well.
    #[inline]
    fn advance(&mut self, end: impl FnOnce(&mut Open<O>) -> Result<bool>) -> Result<Option<&mut Open<O>>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let found = end(open);
        if !matches!(found, Ok(true)) {
            if let (Err(error), Some(open)) = (&found, &self.open) {
                open.origin.failed(error);
            }
            self.open = None;
        }
        found.map(|_| self.open.as_mut())
    }
}

/// The key and value that an end is positioned on.
///
/// # Panics
/// If the end has no cursor.
#[inline]
fn found<S: Source>(end: &Option<Box<VisibleCursor<S>>>) -> (&[u8], &[u8]) {
    let cursor = end.as_ref().expect("it has just stepped");
    (cursor.key(), cursor.value())
}

/// A key and its value, copied.
#[inline(always)]
fn copied((key, value): (&[u8], &[u8])) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

impl<O: Origin> Iterator for Scan<O> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let open = self.advance(Open::advance_front).transpose()?;
        Some(open.map(|open| open.give(|open| &mut open.front)))
    }
}

impl<O: Origin> DoubleEndedIterator for Scan<O> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let open = self.advance(Open::advance_back).transpose()?;
        Some(open.map(|open| open.give(|open| &mut open.back)))
    }
}

impl<O: Origin> std::iter::FusedIterator for Scan<O> {}

impl<O: Origin> Open<O> {
    #[inline]
    fn advance_front(&mut self) -> Result<bool> {
        let front = match &mut self.front {
            Some(front) => front,
            None => {
                let Some(cursor) = self.new_cursor()? else { return Ok(false) };
                self.front.insert(cursor)
            }
        };
        Ok(front.next()? && self.back.as_ref().is_none_or(|back| front.key() < back.key()))
    }

    #[inline]
    fn advance_back(&mut self) -> Result<bool> {
        let back = match &mut self.back {
            Some(back) => back,
            None => {
                let Some(cursor) = self.new_cursor()? else { return Ok(false) };
                self.back.insert(cursor)
            }
        };
        Ok(back.prev()? && self.front.as_ref().is_none_or(|front| back.key() > front.key()))
    }

    /// Makes the cursor of an end that has none. The first step with it asks whether memory is
    /// short. `None` if the limit is reached.
    #[cold]
    #[inline(never)]
    fn new_cursor(&mut self) -> Result<Option<Box<VisibleCursor<O::Source>>>> {
        if self.is_limit_reached() {
            return Ok(None);
        }
        let limit = self.remaining();
        self.copy = None;
        self.ask_after(1);
        if let Some(mut spare) = self.spare.iter_mut().find_map(Option::take) {
            spare.restart(&self.range);
            return Ok(Some(spare));
        }
        let source = self.origin.open(&self.range, limit)?;
        let mut cursor = Box::new(VisibleCursor::new(source, self.sequence, self.range.clone(), self.merging.clone()));
        if let Some(tombstones) = self.origin.range_tombstones() {
            cursor.hide(tombstones);
        }
        Ok(Some(cursor))
    }

    /// Skips the entries below `from` that are left. Returns false if none is left then.
    fn skip_below(&mut self, from: Key) -> bool {
        let is_below_all = match &self.front {
            Some(front) => *from <= *front.key(),
            None => self.range.from.as_ref().is_some_and(|old| from <= *old),
        };
        if is_below_all {
            return true;
        }
        if self.back.as_ref().is_some_and(|back| *from >= *back.key()) {
            return false;
        }
        self.range.from = Some(from);
        let front = self.front.take();
        self.keep_spare(front);
        if let Some(back) = &mut self.back {
            back.narrow(&self.range);
        }
        true
    }

    /// Skips the entries from `to` on that are left. Returns false if none is left then.
    fn skip_from(&mut self, to: Key) -> bool {
        let is_above_all = match &self.back {
            Some(back) => *to >= *back.key(),
            None => self.range.to.as_ref().is_some_and(|old| to >= *old),
        };
        if is_above_all {
            return true;
        }
        if self.front.as_ref().is_some_and(|front| *to <= *front.key()) {
            return false;
        }
        self.range.to = Some(to);
        let back = self.back.take();
        self.keep_spare(back);
        if let Some(front) = &mut self.front {
            front.narrow(&self.range);
        }
        true
    }

    /// Keeps the cursor of an end that has sought, if it had one.
    fn keep_spare(&mut self, cursor: End<O>) {
        if cursor.is_some() {
            *self.spare.iter_mut().find(|spare| spare.is_none()).expect("there are at most two cursors") = cursor;
        }
    }

    /// Allows `entries` further entries, more than none, if the limit allows as many.
    fn limit(&mut self, entries: usize) {
        let steps = self.steps_until_asked;
        let entries = self.remaining().map_or(entries, |remaining| remaining.min(entries));
        self.count_steps();
        (self.steps_until_asked, self.limit_after) = (0, Some(entries));
        self.steps_planned = 0;
        self.ask_after(steps);
    }

    /// The number of entries that the limit still allows; `None` without a limit.
    fn remaining(&self) -> Option<usize> {
        self.limit_after.map(|after| after + self.steps_until_asked as usize)
    }

    fn is_limit_reached(&self) -> bool {
        self.remaining() == Some(0)
    }

    /// Asks after `steps` steps, or with the last entry that the limit allows.
    fn ask_after(&mut self, steps: u32) {
        self.count_steps();
        let remaining = self.remaining();
        self.steps_until_asked = remaining.map_or(steps, |remaining| remaining.min(steps as usize) as u32);
        self.steps_planned = self.steps_until_asked;
        self.limit_after = remaining.map(|remaining| remaining - self.steps_until_asked as usize);
    }

    /// Adds the steps since it was asked last to those before: steps themselves only count down.
    fn count_steps(&mut self) {
        self.steps_before += u64::from(self.steps_planned - self.steps_until_asked);
        self.steps_planned = self.steps_until_asked;
    }

    /// Lends what an end has found in the step before.
    #[inline]
    fn lend(&mut self, end: impl Fn(&mut Self) -> &mut End<O>) -> (&[u8], &[u8]) {
        if self.is_to_pause() {
            return self.pause_and_lend(end);
        }
        found(end(self))
    }

    /// Copies what an end has found in the step before.
    #[inline]
    fn give(&mut self, end: impl Fn(&mut Self) -> &mut End<O>) -> (Vec<u8>, Vec<u8>) {
        let entry = copied(found(end(self)));
        if self.is_to_pause() {
            self.pause();
        }
        entry
    }

    /// Counts a step. Returns true if it is time to ask, and the limit is reached or memory is
    /// short.
    #[inline]
    fn is_to_pause(&mut self) -> bool {
        self.steps_until_asked -= 1;
        self.steps_until_asked == 0 && self.needs_pause()
    }

    #[cold]
    #[inline(never)]
    fn needs_pause(&mut self) -> bool {
        self.ask_after(STEPS_UNTIL_ASKED);
        self.is_limit_reached() || self.origin.is_memory_short()
    }

    /// Releases the cursors if the limit is reached, else rests.
    #[cold]
    #[inline(never)]
    fn pause(&mut self) {
        if self.is_limit_reached() {
            (self.front, self.back, self.spare) = (None, None, [None, None]);
        } else {
            self.rest(0);
        }
    }

    /// As [`Open::pause`], and lends what `end` has found: the entry itself if the limit is
    /// reached, else a copy. Does not rest if the entry is large.
    #[cold]
    #[inline(never)]
    fn pause_and_lend(&mut self, end: impl Fn(&mut Self) -> &mut End<O>) -> (&[u8], &[u8]) {
        if self.is_limit_reached() {
            self.last = end(self).take();
            self.pause();
            return found(&self.last);
        }
        let (key, value) = found(end(self));
        if key.len() + value.len() > COPIED_BYTES_MAX {
            return found(end(self));
        }
        let (key, value) = copied(found(end(self)));
        self.rest(key.len() + value.len());
        let (key, value) = &**self.copy.insert(Box::new((key, value)));
        (key, value)
    }

    /// Releases the cursors and what they were made from. What was not delivered remains in the
    /// range.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, copied_bytes: usize) {
        if let Some(front) = self.front.take() {
            self.range.from = Some(key_after(front.key()));
        }
        if let Some(back) = self.back.take() {
            self.range.to = Some(Key::from(back.key()));
        }
        self.spare = [None, None];
        self.origin.release(copied_bytes);
    }
}

impl<O: Origin> Drop for Open<O> {
    fn drop(&mut self) {
        self.count_steps();
        self.origin.ended(self.steps_before);
    }
}

#[cfg(test)]
mod tests {
    //! In any interleaving of the two ends, together they must deliver exactly what a map holds.

    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::format::entry::OwnedEntry;
    use crate::merge::MergedSource;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};
    use crate::read::visible::tests::{merging, random_range, visible};

    #[test]
    fn random_mixtures_of_both_ends_agree_with_a_map() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let versions = random.versions(80);
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let range = random_range(&mut random);
            let mut expected = visible(&versions, sequence, &range).into_iter();
            let backward_per_mille = *random.pick(&[0, 100, 500, 900, 1000]);
            let made = Cell::new(0);
            let mut scan = Scan::new(|| Ok(three_sources(&versions, &made)), sequence, range.clone(), merging());
            assert_eq!(made.get(), 0, "sources are made lazily");

            let (mut used_front, mut used_back) = (false, false);
            loop {
                let backward = random.below(1000) < backward_per_mille;
                let lent = random.below(2) == 0;
                let (found, wanted) = match (backward, lent) {
                    (true, true) => {
                        (scan.next_back_lent().map(|lent| lent.map(copied)).transpose(), expected.next_back())
                    }
                    (true, false) => (scan.next_back(), expected.next_back()),
                    (false, true) => (scan.next_lent().map(|lent| lent.map(copied)).transpose(), expected.next()),
                    (false, false) => (scan.next(), expected.next()),
                };
                used_front |= !backward;
                used_back |= backward;
                assert_eq!(found.transpose().unwrap(), wanted, "seed {seed}, {range:?}");
                if wanted.is_none() {
                    break;
                }
            }
            assert!(scan.next().is_none() && scan.next_back().is_none(), "seed {seed}: the scan has ended");
            assert_eq!(made.get(), u32::from(used_front) + u32::from(used_back), "seed {seed}");
        }
    }

    /// An origin whose memory is short at random moments.
    struct ShortAtTimes<'a> {
        versions: &'a [OwnedEntry],
        random: std::cell::RefCell<Random>,
        per_mille: u64,
        opened: &'a Cell<u32>,
        released: &'a Cell<u32>,
    }

    impl Origin for ShortAtTimes<'_> {
        type Source = SortedSource;
        fn open(&mut self, _: &KeyRange, _: Option<usize>) -> Result<SortedSource> {
            self.opened.set(self.opened.get() + 1);
            Ok(SortedSource::new(self.versions.to_vec()))
        }
        fn is_memory_short(&self) -> bool {
            self.random.borrow_mut().below(1000) < self.per_mille
        }
        fn release(&mut self, _: usize) {
            self.released.set(self.released.get() + 1);
        }
    }

    /// The next entry from either end, lent or given.
    fn step<O: Origin>(scan: &mut Scan<O>, is_backward: bool, is_lent: bool) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match (is_backward, is_lent) {
            (false, true) => scan.next_lent().map(|lent| lent.map(copied)),
            (true, true) => scan.next_back_lent().map(|lent| lent.map(copied)),
            (false, false) => scan.next().transpose(),
            (true, false) => scan.next_back().transpose(),
        }
    }

    /// A scan that rests at random moments delivers the same, from both ends, lent and copied. If
    /// memory is always short, it holds nothing after any call.
    #[test]
    fn scans_that_rest_agree_with_a_map() {
        let mut rested = 0;
        for seed in 0..5000 {
            let mut random = Random::new(seed);
            let versions = random.versions(60);
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let range = random_range(&mut random);
            let mut expected = visible(&versions, sequence, &range).into_iter();
            let per_mille = *random.pick(&[100, 500, 1000]);
            let (opened, released) = (Cell::new(0), Cell::new(0));
            let at_times = std::cell::RefCell::new(Random::new(!seed));
            let origin =
                ShortAtTimes { versions: &versions, random: at_times, per_mille, opened: &opened, released: &released };
            let mut scan = Scan::new(origin, sequence, range.clone(), merging());
            loop {
                let (is_backward, is_lent) = (random.below(2) == 1, random.below(2) == 1);
                let wanted = if is_backward { expected.next_back() } else { expected.next() };
                let found = step(&mut scan, is_backward, is_lent);
                assert_eq!(found.unwrap(), wanted, "seed {seed}, {range:?}");
                if let Some(open) = scan.open.as_ref().filter(|_| per_mille == 1000) {
                    assert!(open.front.is_none() && open.back.is_none(), "seed {seed}: the scan holds a cursor");
                }
                if wanted.is_none() {
                    break;
                }
            }
            assert!(released.get() > 0 || opened.get() <= 2, "seed {seed}");
            rested += released.get();
        }
        assert!(rested > 5000, "only {rested} rests");
    }

    /// A scan with limits, set before it begins or between two steps, delivers what it would
    /// without them, up to the smallest, whether it rests or not. It releases its cursors with the
    /// last entry, and makes none for a limit of zero.
    #[test]
    fn scans_with_limits_agree_with_a_map() {
        let mut reached = 0;
        for seed in 0..5000 {
            let mut random = Random::new(seed);
            let versions = random.versions(150);
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let range = random_range(&mut random);
            let mut expected = visible(&versions, sequence, &range).into_iter();
            let per_mille = *random.pick(&[0, 100, 1000]);
            let (opened, released) = (Cell::new(0), Cell::new(0));
            let at_times = std::cell::RefCell::new(Random::new(!seed));
            let origin =
                ShortAtTimes { versions: &versions, random: at_times, per_mille, opened: &opened, released: &released };
            let mut remaining = usize::MAX;
            let mut scan = Scan::new(origin, sequence, range.clone(), merging());
            loop {
                if random.below(if remaining == usize::MAX { 3 } else { 30 }) == 0 {
                    let most = *random.pick(&[1, 5, 100]);
                    let limit = random.below(most + 1) as usize;
                    scan = scan.limit(limit);
                    remaining = remaining.min(limit);
                }
                let is_reached = remaining == 0;
                remaining = remaining.saturating_sub(1);
                let is_backward = random.below(2) == 1;
                let wanted = match (is_reached, is_backward) {
                    (true, _) => None,
                    (false, false) => expected.next(),
                    (false, true) => expected.next_back(),
                };
                let before = opened.get();
                let found = step(&mut scan, is_backward, random.below(2) == 0);
                assert_eq!(found.unwrap(), wanted, "seed {seed}, {range:?}");
                if wanted.is_none() {
                    assert!(scan.open.is_none(), "seed {seed}: an ended scan holds its origin");
                    assert!(!is_reached || opened.get() == before, "seed {seed}: a cursor for no entry");
                    reached += u32::from(is_reached);
                    break;
                }
                if remaining == 0 {
                    let open = scan.open.as_ref().expect("it ends with the next call");
                    assert!(open.front.is_none() && open.back.is_none(), "seed {seed}: a cursor stays");
                }
            }
            assert!(scan.next().is_none() && scan.next_back().is_none(), "seed {seed}: the scan has ended");
        }
        assert!(reached > 1000, "only {reached} limits were reached");
    }

    /// A scan that seeks, from either end and anywhere, also before it begins, behind its other end
    /// and back to where it was, delivers what is left of a map, whether it rests or has a limit.
    /// A seek opens nothing, and its next step uses the cursor that there is.
    #[test]
    fn scans_that_seek_agree_with_a_map() {
        let (mut skipped, mut ended) = (0, 0);
        for seed in 0..5000 {
            let mut random = Random::new(seed);
            let versions = random.versions(150);
            let sequence = Sequence(random.below(versions.len() as u64 + 2));
            let range = random_range(&mut random);
            let mut expected: VecDeque<_> = visible(&versions, sequence, &range).into_iter().collect();
            let per_mille = *random.pick(&[0, 0, 100, 1000]);
            let (opened, released) = (Cell::new(0), Cell::new(0));
            let at_times = std::cell::RefCell::new(Random::new(!seed));
            let origin =
                ShortAtTimes { versions: &versions, random: at_times, per_mille, opened: &opened, released: &released };
            let mut scan = Scan::new(origin, sequence, range.clone(), merging());
            if random.one_in(4) {
                let limit = random.below(20) as usize;
                scan = scan.limit(limit);
                // What the limit leaves depends on the ends that are used.
                expected = limited(scan, &mut random, expected, limit, seed);
                assert!(expected.len() <= limit, "seed {seed}");
                continue;
            }
            loop {
                if random.one_in(3) {
                    let before = (opened.get(), expected.len());
                    seek(&mut scan, &mut random, &mut expected);
                    assert_eq!(opened.get(), before.0, "seed {seed}: a seek opens nothing");
                    skipped += before.1 - expected.len();
                }
                let is_backward = random.below(2) == 1;
                let wanted = if is_backward { expected.pop_back() } else { expected.pop_front() };
                let found = step(&mut scan, is_backward, random.below(2) == 0);
                assert_eq!(found.unwrap(), wanted, "seed {seed}, {range:?}");
                if wanted.is_none() {
                    ended += 1;
                    break;
                }
            }
            assert!(scan.next().is_none() && scan.next_back().is_none(), "seed {seed}: the scan has ended");
            seek(&mut scan, &mut random, &mut expected);
            assert!(scan.next().is_none(), "seed {seed}: no seek leads back");
            assert!(released.get() > 0 || opened.get() <= 2, "seed {seed}: {} cursors for two ends", opened.get());
        }
        assert!(skipped > 5000 && ended > 1000, "{skipped} skipped, {ended} ended");
    }

    /// Seeks with a random key, from a random end, in the scan and in what is expected of it.
    fn seek<O: Origin>(scan: &mut Scan<O>, random: &mut Random, expected: &mut VecDeque<(Vec<u8>, Vec<u8>)>) {
        let key = random.key();
        if random.one_in(2) {
            scan.seek(Key::from(&*key));
            while expected.front().is_some_and(|(front, _)| *front < key) {
                expected.pop_front();
            }
        } else {
            scan.seek_back(Key::from(&*key));
            while expected.back().is_some_and(|(back, _)| *back >= key) {
                expected.pop_back();
            }
        }
    }

    /// Steps and seeks in a scan with a limit, until it ends; returns the entries that it
    /// delivered.
    fn limited<O: Origin>(
        mut scan: Scan<O>,
        random: &mut Random,
        mut expected: VecDeque<(Vec<u8>, Vec<u8>)>,
        limit: usize,
        seed: u64,
    ) -> VecDeque<(Vec<u8>, Vec<u8>)> {
        let mut delivered = VecDeque::new();
        loop {
            if random.one_in(3) {
                seek(&mut scan, random, &mut expected);
            }
            let is_backward = random.below(2) == 1;
            let wanted = match (delivered.len() == limit, is_backward) {
                (true, _) => None,
                (false, true) => expected.pop_back(),
                (false, false) => expected.pop_front(),
            };
            let found = step(&mut scan, is_backward, random.below(2) == 0);
            assert_eq!(found.unwrap(), wanted, "seed {seed}, limit {limit}");
            match wanted {
                Some(entry) => delivered.push_back(entry),
                None => return delivered,
            }
        }
    }

    /// A scan with cursors, whichever end they are of, rests soon after memory has become short,
    /// and keeps its cursors once there is enough again.
    #[test]
    fn scans_rest_soon_after_memory_becomes_short() {
        struct ShortIfSet<'a>(&'a [OwnedEntry], &'a Cell<bool>);
        impl Origin for ShortIfSet<'_> {
            type Source = SortedSource;
            fn open(&mut self, _: &KeyRange, _: Option<usize>) -> Result<SortedSource> {
                Ok(SortedSource::new(self.0.to_vec()))
            }
            fn is_memory_short(&self) -> bool {
                self.1.get()
            }
        }
        let versions: Vec<_> = (0..1000).map(|n| OwnedEntry::put(format!("{n:03}"), n + 1, "value")).collect();
        for backwards in [false, true] {
            let is_short = Cell::new(false);
            let mut scan = Scan::new(ShortIfSet(&versions, &is_short), Sequence(2000), KeyRange::ALL, merging());
            let step = |scan: &mut Scan<ShortIfSet<'_>>| {
                let next = if backwards { scan.next_back() } else { scan.next() };
                assert!(next.is_some_and(|next| next.is_ok()));
                scan.open.as_ref().is_some_and(|open| open.front.is_none() && open.back.is_none())
            };
            let mut steps = 0;
            for before in 0..2 * STEPS_UNTIL_ASKED as usize {
                is_short.set(false);
                let kept = (0..=before).filter(|_| !step(&mut scan)).count();
                assert_eq!(kept, before + 1, "a scan rests without need");
                is_short.set(true);
                let rested = (0..=STEPS_UNTIL_ASKED).find(|_| step(&mut scan));
                assert!(rested.is_some(), "{before} steps before, no rest");
                steps += before + rested.unwrap_or(0) as usize;
                if steps > 800 {
                    break;
                }
            }
        }
    }

    #[test]
    fn an_error_comes_out_once_and_ends_the_scan() {
        let mut failures = 0;
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let versions = random.versions(40);
            let calls = random.below(60);
            let failing = || {
                let mut source = SortedSource::new(versions.clone());
                source.fail_after(calls);
                Ok(source)
            };
            let mut expected = visible(&versions, Sequence::MAX, &KeyRange::ALL).into_iter();
            let mut scan = Scan::new(failing, Sequence::MAX, KeyRange::ALL, merging());
            loop {
                let (found, wanted) = match random.below(2) {
                    0 => (scan.next(), expected.next()),
                    _ => (scan.next_back(), expected.next_back()),
                };
                match found {
                    Some(Ok(pair)) => assert_eq!(Some(pair), wanted, "seed {seed}"),
                    Some(Err(_)) => {
                        failures += 1;
                        break;
                    }
                    None => {
                        assert_eq!(wanted, None, "seed {seed}");
                        break;
                    }
                }
            }
            assert!(scan.next().is_none() && scan.next_back().is_none(), "seed {seed}: the scan has ended");
        }
        assert!(failures > 100, "only {failures} failures were met");
    }

    #[test]
    fn an_origin_that_fails_ends_the_scan_too() {
        let failing = || Err::<SortedSource, _>(Error::io("test", Path::new("origin"), io::Error::other("injected")));
        let mut scan = Scan::new(failing, Sequence::MAX, KeyRange::ALL, merging());
        assert!(matches!(scan.next_back(), Some(Err(Error::Io { .. }))));
        assert!(scan.next_back().is_none() && scan.next().is_none());
    }

    /// The pinned state is released when the scan ends, even if the user keeps the iterator.
    #[test]
    fn an_ended_scan_releases_its_origin() {
        let pinned = Arc::new(());
        let origin = {
            let pinned = pinned.clone();
            move || {
                let _ = &pinned;
                Ok(SortedSource::new(Vec::new()))
            }
        };
        let mut scan = Scan::new(origin, Sequence::MAX, KeyRange::ALL, merging());
        assert_eq!(Arc::strong_count(&pinned), 2);
        assert!(scan.next().is_none());
        assert_eq!(Arc::strong_count(&pinned), 1);
        drop(scan);
    }

    /// Distributes the versions among three sources, the same way each time; `made` counts the
    /// calls.
    fn three_sources(versions: &[OwnedEntry], made: &Cell<u32>) -> MergedSource<SortedSource> {
        made.set(made.get() + 1);
        let hand = |n: u64| versions.iter().filter(|v| v.sequence.0 * 7 / 5 % 3 == n).cloned().collect();
        MergedSource::new((0..3).map(|n| SortedSource::new(hand(n))).collect()).unwrap()
    }
}
