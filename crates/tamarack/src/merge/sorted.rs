//! A sorted vector as the reference implementation of every source, and random ones from a seed.

use std::cell::Cell;
use std::io;
use std::path::Path;

pub(crate) use tamarack_testing::Random;

use super::Source;
use crate::entry::{Entry, Sequence, compare};
use crate::error::{Error, Result};
use crate::format::entry::OwnedEntry;
use crate::format::prefixes::common_prefix;

/// A sorted vector as a [`Source`]. Can inject failures, and counts the calls of `entry` and seeks.
pub(crate) struct SortedSource {
    versions: Vec<OwnedEntry>,
    at: Option<usize>,
    calls_until_failure: Option<u64>,
    entry_calls: Cell<u64>,
    seeks: u64,
    /// The entry that the last step left: one backward, one forward.
    left: Option<usize>,
    passed: Option<usize>,
    /// Some sources know the common bytes of neighbours, some do not.
    knows_shared: bool,
}

impl SortedSource {
    pub(crate) fn new(mut versions: Vec<OwnedEntry>) -> Self {
        versions.sort_by(|a, b| compare(a.place(), b.place()));
        let knows_shared = !versions.len().is_multiple_of(3);
        let (left, passed) = (None, None);
        let (calls_until_failure, entry_calls, seeks) = (None, Cell::new(0), 0);
        Self { versions, at: None, calls_until_failure, entry_calls, seeks, left, passed, knows_shared }
    }

    /// Makes one call fail, after `calls` that succeed.
    pub(crate) fn fail_after(&mut self, calls: u64) {
        self.calls_until_failure = Some(calls);
    }

    pub(crate) fn versions(&self) -> &[OwnedEntry] {
        &self.versions
    }

    pub(crate) fn entry_calls(&self) -> u64 {
        self.entry_calls.get()
    }

    /// Calls of the four seeks.
    pub(crate) fn seeks(&self) -> u64 {
        self.seeks
    }

    fn seek_to(&mut self, at: Option<usize>) -> Result<()> {
        self.seeks += 1;
        self.go(at)
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.versions.len());
        (self.left, self.passed) = (None, None);
        match &mut self.calls_until_failure {
            Some(0) => {
                self.at = None;
                self.calls_until_failure = None;
                Err(Error::io("test", Path::new("sorted"), io::Error::other("as told")))
            }
            Some(calls) => {
                *calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn first_at_or_after(&self, key: &[u8], sequence: Sequence) -> usize {
        self.versions.partition_point(|version| compare(version.place(), (key, sequence)).is_lt())
    }

    fn position(&self) -> usize {
        self.at.expect("a source must stand on an entry to be moved")
    }
}

impl Source for SortedSource {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_to(Some(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_to(self.versions.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_to(Some(self.first_at_or_after(key, sequence)))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_to(self.first_at_or_after(key, sequence).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        let left = self.position();
        self.go(Some(left + 1))?;
        self.passed = Some(left);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let left = self.position();
        self.go(left.checked_sub(1))?;
        self.left = Some(left);
        Ok(())
    }

    /// Some sources ask for far bounds.
    fn passes(&self, floor: Sequence) -> bool {
        self.versions.len().is_multiple_of(2) && self.versions[self.position()].sequence < floor
    }

    /// Passes as much as it may.
    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        let left = self.position();
        let after = self.versions[left + 1..].iter();
        let is_passed = |version: &&OwnedEntry| version.sequence < floor && to.is_none_or(|to| version.key[..] < *to);
        let passed = after.take_while(is_passed).count();
        self.go(Some(left + 1 + passed))?;
        self.passed = Some(left);
        Ok(())
    }

    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        let left = self.position();
        let before = self.versions[..left].iter().rev();
        let is_passed = |version: &&OwnedEntry| version.sequence < floor && version.key[..] >= *from;
        let passed = before.take_while(is_passed).count();
        self.go((left - passed).checked_sub(1))
    }

    fn left(&self) -> &[u8] {
        &self.versions[self.left.expect("the last call was a step backward")].value
    }

    fn shared(&self) -> Option<usize> {
        let left = self.left.or(self.passed)?;
        let here = self.at.filter(|_| self.knows_shared)?;
        Some(common_prefix(&self.versions[left].key, &self.versions[here].key))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.entry_calls.set(self.entry_calls.get() + 1);
        self.at.map(|at| self.versions[at].entry())
    }
}

/// Random keys and versions.
pub(crate) trait RandomVersions {
    /// One of few keys: empty, short, around eight bytes long with a common prefix, and with bytes
    /// 0 and 255.
    fn key(&mut self) -> Vec<u8>;

    /// Up to `count` versions of random keys, with different sequences, in commit order.
    fn versions(&mut self, count: u64) -> Vec<OwnedEntry>;
}

impl RandomVersions for Random {
    fn key(&mut self) -> Vec<u8> {
        let start = *self.pick(&[&b""[..], b"a", b"b", b"1234567", b"12345678", &[0; 7], &[255; 8]]);
        let end = *self.pick(&[&b""[..], b"a", b"b", b"bb", &[0], &[255]]);
        [start, end].concat()
    }

    fn versions(&mut self, count: u64) -> Vec<OwnedEntry> {
        let count = self.below(count + 1);
        (1..=count)
            .map(|sequence| match self.below(4) {
                0 => OwnedEntry::delete(self.key(), sequence),
                _ => OwnedEntry::put(self.key(), sequence, sequence.to_string()),
            })
            .collect()
    }
}
