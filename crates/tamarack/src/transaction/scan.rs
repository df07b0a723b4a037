//! [`TransactionScan`]: the iterator over a transaction's snapshot with its own writes merged in.
//!
//! ```text
//!   snapshot    a   c   d       x          own write to c: another value
//!   own writes      c   d✝  f              own write to d: deleted
//!   delivered   a   c       f   x
//! ```
//!
//! An own operand is folded into the snapshot's value. Keys of the snapshot in own deleted ranges
//! are passed.
//!
//! Each end compares the next entry of the snapshot with the next own write; the one that comes
//! later waits. If one end has nothing left, it takes what waits at the other end.
//!
//! # What it reads
//!
//! The transaction depends on what was delivered: from the front, the range up to the last key;
//! from the back, the range from the last key on; all of it if the scan has reached the end or
//! failed. What waits was not delivered and does not count. So `scan(..).limit(1)`, which takes
//! the first entry of a queue, has no conflict with a write to its other end.
//!
//! Tests: random scans against a map, in `tests/transactions`.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::btree_map::Range;
use std::fmt;

use super::overlay::{Overlay, OwnBase, OwnWrite};
use super::reads::TransactionReads;
use crate::error::Result;
use crate::format::key_range::{Key, KeyRange, key_after};
use crate::operator::Merging;
use crate::read::Scan;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// Iterator over the keys and values in a range as a transaction sees them: its snapshot with its
/// own writes. Double-ended; ends after an error.
///
/// The transaction cannot write while it lives. When it is dropped, the part of its range that was
/// iterated counts as read; a scan that ended has read all of it.
#[must_use = "a scan reads nothing until it is iterated"]
pub struct TransactionScan<'a> {
    snapshot: Scan,
    own: Range<'a, Key, OwnWrite>,
    /// All own writes.
    overlay: &'a Overlay,
    merging: &'a Merging,
    /// What waits at the front and at the back.
    waiting: [Waiting<'a>; 2],
    /// The number of entries that the limit still allows.
    remaining: Option<usize>,
    progress: ScanProgress<'a>,
}

/// How far a scan has come: when it is dropped, that much has been read.
struct ScanProgress<'a> {
    reads: &'a RefCell<TransactionReads>,
    /// Its number in `reads`.
    number: u64,
    range: KeyRange,
    /// The last key that was delivered from the front and from the back.
    delivered: [Option<Vec<u8>>; 2],
    has_ended: bool,
}

/// What one end has taken and not delivered.
#[derive(Default)]
struct Waiting<'a> {
    snapshot: Option<Pair>,
    own: Option<(&'a Key, &'a OwnWrite)>,
}

/// An end of a scan, as an index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanEnd {
    Front = 0,
    Back = 1,
}

impl ScanEnd {
    fn other(self) -> Self {
        match self {
            Self::Front => Self::Back,
            Self::Back => Self::Front,
        }
    }
}

impl<'a> TransactionScan<'a> {
    /// Creates a scan of `range`: `snapshot` with the writes in `overlay`.
    pub(super) fn new(
        reads: &'a RefCell<TransactionReads>,
        range: KeyRange,
        snapshot: Scan,
        overlay: &'a Overlay,
        merging: &'a Merging,
    ) -> Self {
        let own = overlay.range(&range);
        let number = reads.borrow_mut().begin_scan(&range);
        let progress = ScanProgress { reads, number, range, delivered: [None, None], has_ended: false };
        Self { snapshot, own, overlay, merging, waiting: Default::default(), remaining: None, progress }
    }

    /// Ends the scan after `entries` further entries (default: no limit), those from the front and
    /// from the back together: see [`Scan::limit`]. Of two limits the smaller one counts.
    pub fn limit(mut self, entries: usize) -> Self {
        let entries = self.remaining.map_or(entries, |remaining| remaining.min(entries));
        self.remaining = Some(entries);
        if let Some(hidden) = hidden_max(self.own.clone()).filter(|_| !self.overlay.has_deleted_ranges()) {
            // One can wait at each end.
            let from_snapshot = entries.saturating_add(hidden).saturating_add(2);
            self.snapshot = self.snapshot.limit(from_snapshot);
        }
        self
    }

    fn advance(&mut self, end: ScanEnd) -> Option<Result<Pair>> {
        if self.progress.has_ended || self.remaining == Some(0) {
            return None;
        }
        let found = self.step(end).transpose();
        match &found {
            Some(Ok((key, _))) => {
                self.progress.delivered[end as usize].get_or_insert_default().clone_from(key);
                self.remaining = self.remaining.map(|remaining| remaining - 1);
            }
            Some(Err(_)) | None => self.progress.has_ended = true,
        }
        found
    }

    fn step(&mut self, end: ScanEnd) -> Result<Option<Pair>> {
        loop {
            let snapshot = self.next_of_snapshot(end)?;
            let own = self.next_own(end);
            let order = match (&snapshot, &own) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((own, _))) if end == ScanEnd::Front => key[..].cmp(own),
                (Some((key, _)), Some((own, _))) => (**own)[..].cmp(key),
            };
            let waiting = &mut self.waiting[end as usize];
            if order == Ordering::Less {
                waiting.own = own;
                return Ok(snapshot);
            }
            // An own write to the same key takes the place of the snapshot's entry.
            let mut others = None;
            if order == Ordering::Greater {
                waiting.snapshot = snapshot;
            } else {
                others = snapshot.map(|(_, value)| value);
            }
            if let Some((key, write)) = own
                && let Some(value) = write.value(self.merging, key, others.as_deref())?
            {
                return Ok(Some((key.to_vec(), value.to_vec())));
            }
        }
    }

    fn next_of_snapshot(&mut self, end: ScanEnd) -> Result<Option<Pair>> {
        if let Some(waiting) = self.waiting[end as usize].snapshot.take() {
            return Ok(Some(waiting));
        }
        loop {
            let next = match end {
                ScanEnd::Front => self.snapshot.next(),
                ScanEnd::Back => self.snapshot.next_back(),
            };
            let Some((key, value)) = next.transpose()? else {
                return Ok(self.waiting[end.other() as usize].snapshot.take());
            };
            match (self.overlay.deleted_range(&key), end) {
                // An own write to the key hides it as well.
                (None, _) => return Ok(Some((key, value))),
                (Some((_, Some(to))), ScanEnd::Front) => self.snapshot.seek(to),
                (Some((_, None)), ScanEnd::Front) => self.snapshot.seek_back(&key),
                (Some((from, _)), ScanEnd::Back) => self.snapshot.seek_back(from),
            }
        }
    }

    fn next_own(&mut self, end: ScanEnd) -> Option<(&'a Key, &'a OwnWrite)> {
        if let Some(waiting) = self.waiting[end as usize].own.take() {
            return Some(waiting);
        }
        let next = match end {
            ScanEnd::Front => self.own.next(),
            ScanEnd::Back => self.own.next_back(),
        };
        next.or_else(|| self.waiting[end.other() as usize].own.take())
    }
}

/// So many own writes are looked at to find a limit for the snapshot. Without one it reads ahead as
/// any scan does.
const OWN_LOOKED_AT: usize = 1024;

/// The number of entries of the snapshot that own writes can hide without being delivered instead:
/// deletes, and operands, which can delete. `None` if there are too many writes to tell.
fn hidden_max(mut own: Range<'_, Key, OwnWrite>) -> Option<usize> {
    let may_delete = |write: &OwnWrite| write.base == OwnBase::Nothing || !write.operands.is_empty();
    let deletes = own.by_ref().take(OWN_LOOKED_AT).filter(|(_, write)| may_delete(write)).count();
    own.next().is_none().then_some(deletes)
}

impl ScanProgress<'_> {
    /// The parts of the range that were read.
    fn parts_read(&self) -> [Option<KeyRange>; 2] {
        let range = &self.range;
        if self.has_ended {
            return [Some(range.clone()), None];
        }
        let [front, back] = &self.delivered;
        [
            front.as_ref().map(|last| KeyRange { from: range.from.clone(), to: Some(key_after(last)) }),
            back.as_ref().map(|last| KeyRange { from: Some(Key::from(&last[..])), to: range.to.clone() }),
        ]
    }
}

impl Drop for ScanProgress<'_> {
    fn drop(&mut self) {
        self.reads.borrow_mut().end_scan(self.number, self.parts_read().into_iter().flatten());
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(ScanEnd::Front)
    }
}

impl DoubleEndedIterator for TransactionScan<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(ScanEnd::Back)
    }
}

impl std::iter::FusedIterator for TransactionScan<'_> {}

impl fmt::Debug for TransactionScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionScan").field("range", &self.progress.range).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Only deletes count, and only so many writes are looked at.
    #[test]
    fn few_own_writes_raise_the_limit_of_the_snapshot() {
        let mut own = BTreeMap::new();
        for number in 0..OWN_LOOKED_AT as u32 {
            let base = if number % 4 > 0 { OwnBase::Value(Key::from([])) } else { OwnBase::Nothing };
            own.insert(Key::from(&number.to_be_bytes()[..]), OwnWrite { base, operands: Vec::new() });
        }
        assert_eq!(hidden_max(own.range::<[u8], _>(..)), Some(OWN_LOOKED_AT / 4));
        own.insert(Key::from(&[255; 4][..]), OwnWrite { base: OwnBase::Nothing, operands: Vec::new() });
        assert_eq!(hidden_max(own.range::<[u8], _>(..)), None);
        assert_eq!(hidden_max(Range::default()), Some(0));
    }
}
