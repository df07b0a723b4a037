//! [`Scan`]: the double-ended iterator over keys and values.
//!
//! A scan has an [`Origin`] (the pinned state, from which it makes sources) and up to two cursors,
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
//! # Invariants
//!
//! * The two ends never deliver a key twice: when one end reaches the other's last key, the scan
//!   has ended.
//! * After the end or an error only `None` follows, and the origin and all cursors have been
//!   released.
//! * All keys come from one sequence, whatever is written meanwhile.
//!
//! # Cost
//!
//! Per key, that of [`VisibleCursor`], and two allocations and copies where keys and values are
//! owned instead of lent. A scan in one direction makes one source.
//!
//! # Tests
//!
//! Random multi-version histories against a map, for all bounds and random mixtures of both ends; a
//! count of the sources made; failing sources and origins.

use std::path::Path;
use std::sync::Arc;

use super::visible::VisibleCursor;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::key_range::KeyRange;
use crate::merge::Source;

/// A factory of sources over all versions of all keys, called once for each end that is used.
pub trait Origin {
    /// The type of source.
    type Source: Source;
    /// Makes an unpositioned source, which may omit entries outside of `range`.
    ///
    /// # Errors
    /// Errors of reading; the scan returns them and ends.
    fn open(&self, range: &KeyRange) -> Result<Self::Source>;

    /// Observes an error before the scan returns it.
    fn failed(&self, _: &Error) {}
}

/// Any function that makes a source is an origin.
impl<S: Source, F: Fn() -> Result<S>> Origin for F {
    type Source = S;
    fn open(&self, _: &KeyRange) -> Result<S> {
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

/// A scan that has not ended. An end with a cursor has delivered at least one key and is positioned
/// on the last one.
struct Open<O: Origin> {
    origin: O,
    sequence: Sequence,
    range: KeyRange,
    dir: Arc<Path>,
    front: Option<VisibleCursor<O::Source>>,
    back: Option<VisibleCursor<O::Source>>,
}

impl<O: Origin> Scan<O> {
    /// Creates a scan of the keys and values in `range` that a reader at `sequence` sees in
    /// `origin`. Errors name `dir`, the database's directory.
    pub fn new(origin: O, sequence: Sequence, range: KeyRange, dir: Arc<Path>) -> Self {
        Self { open: Some(Open { origin, sequence, range, dir, front: None, back: None }) }
    }

    /// Returns the next key and value from the front, lent until the next call; `None` at the end.
    /// Copies no value, and allocates only space for the longest key.
    ///
    /// # Errors
    /// Errors of reading, which end the scan.
    #[inline]
    pub fn next_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.advance(Open::advance_front)?;
        let cursor = self.open.as_ref().and_then(|open| open.front.as_ref());
        Ok(cursor.filter(|_| found).map(|cursor| (cursor.key(), cursor.value())))
    }

    /// As [`Scan::next_lent`], from the back.
    ///
    /// # Errors
    /// Errors of reading, which end the scan.
    #[inline]
    pub fn next_back_lent(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.advance(Open::advance_back)?;
        let cursor = self.open.as_ref().and_then(|open| open.back.as_ref());
        Ok(cursor.filter(|_| found).map(|cursor| (cursor.key(), cursor.value())))
    }

    /// Advances one end; ends the scan after its last key or an error.
    #[inline]
    fn advance(&mut self, end: impl FnOnce(&mut Open<O>) -> Result<bool>) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let found = end(open);
        if !matches!(found, Ok(true)) {
            if let (Err(error), Some(open)) = (&found, &self.open) {
                open.origin.failed(error);
            }
            self.open = None;
        }
        found
    }
}

/// A key and its value, copied.
fn copied((key, value): (&[u8], &[u8])) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

impl<O: Origin> Iterator for Scan<O> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_lent().map(|lent| lent.map(copied)).transpose()
    }
}

impl<O: Origin> DoubleEndedIterator for Scan<O> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_back_lent().map(|lent| lent.map(copied)).transpose()
    }
}

impl<O: Origin> std::iter::FusedIterator for Scan<O> {}

impl<O: Origin> Open<O> {
    #[inline]
    fn advance_front(&mut self) -> Result<bool> {
        let front = match &mut self.front {
            Some(front) => front,
            None => self.front.insert(Self::cursor(&self.origin, self.sequence, &self.range, &self.dir)?),
        };
        Ok(front.next()? && self.back.as_ref().is_none_or(|back| front.key() < back.key()))
    }

    #[inline]
    fn advance_back(&mut self) -> Result<bool> {
        let back = match &mut self.back {
            Some(back) => back,
            None => self.back.insert(Self::cursor(&self.origin, self.sequence, &self.range, &self.dir)?),
        };
        Ok(back.prev()? && self.front.as_ref().is_none_or(|front| back.key() > front.key()))
    }

    #[cold]
    fn cursor(origin: &O, sequence: Sequence, range: &KeyRange, dir: &Arc<Path>) -> Result<VisibleCursor<O::Source>> {
        Ok(VisibleCursor::new(origin.open(range)?, sequence, range.clone(), dir.clone()))
    }
}

#[cfg(test)]
mod tests {
    //! In any interleaving of the two ends, together they must deliver exactly what a map holds.

    use std::cell::Cell;
    use std::io;

    use super::*;
    use crate::format::entry::OwnedEntry;
    use crate::merge::MergedSource;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};
    use crate::read::visible::tests::{dir, random_range, visible};

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
            let mut scan = Scan::new(|| Ok(three_sources(&versions, &made)), sequence, range.clone(), dir());
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
            let mut scan = Scan::new(failing, Sequence::MAX, KeyRange::ALL, dir());
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
        let mut scan = Scan::new(failing, Sequence::MAX, KeyRange::ALL, dir());
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
        let mut scan = Scan::new(origin, Sequence::MAX, KeyRange::ALL, dir());
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
