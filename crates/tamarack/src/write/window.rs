//! [`CommitWindow`]: the keys of recent writes, against which transactions are validated.
//!
//! While transactions are active, each write that joins a commit group is noted here: its keys, or
//! the ranges that it deletes, with the group's **ticket**. Tickets count the groups in the order
//! in which they form, which is the commit order. A transaction begins at a ticket up to which
//! everything is visible in its snapshot. When it commits, a note with a larger ticket on a key
//! that it has read is a conflict. A pessimistic transaction is compared as it goes on, too, and
//! then moves to a later ticket ([`CommitWindow::advance`]).
//!
//! ```text
//!   groups, by ticket    4        5          6         7 (forming)
//!   notes                         b  k       a         f
//!                        └ visible ┘└───── to be compared with what ────┘
//!                          T began at 5    T has read, when T joins 7
//! ```
//!
//! # Invariants
//!
//! * Notes are in the order of tickets. While a transaction is active, every write with a larger
//!   ticket than the one where it began is noted, or the transaction is **too old**. None is too
//!   old when it begins.
//! * Without an active transaction the window is empty, and nothing is noted.
//! * What a group had noted that failed later stays noted: at worst a conflict too many.
//!
//! # Bounds
//!
//! Notes take at most [`Budget::commit_window_bytes_max`](crate::memory::Budget). Above that the
//! oldest are forgotten, and the transactions that needed them are too old. A write whose own notes
//! take more is not noted, as if all notes up to its group had been forgotten. An ingested run is
//! noted nowhere: all transactions that are active when it is installed are too old. Active
//! transactions are counted by the tickets where they began, which are no more than they are.
//!
//! # Costs
//!
//! A note is an allocation of the key, under the lock of the commit queue, which protects the
//! window. Where many notes are removed at once, they are returned, to be dropped after it. A check
//! compares each note since the transaction's beginning with what it has read. It can be done in
//! several turns, so that the lock is not taken for long.
//!
//! # Tests
//!
//! Random histories against a list of all writes, here; whole transactions in `tests/transactions`.

use std::collections::VecDeque;

use crate::format::key_range::KeyRange;
use crate::memory::Charge;
use crate::mistake::{self, Mistake};
use crate::write::batch::Write;

/// What a transaction has read.
pub trait ReadSet {
    /// Returns true if the transaction has read nothing, so that no write can be a conflict.
    fn is_empty(&self) -> bool;

    /// Returns true if the transaction has looked `key` up, or scanned a range that contains it.
    fn contains(&self, key: &[u8]) -> bool;

    /// Returns true if the transaction has looked up a key in `range`, or scanned a range that
    /// overlaps it.
    fn overlaps(&self, range: &KeyRange) -> bool;

    /// Describes how the transaction has read `key`, for an error.
    fn describe(&self, key: &[u8]) -> String;
}

/// Where a transaction began in the commit order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BeginTicket {
    /// Everything up to this ticket is visible in the transaction's snapshot, or has failed.
    pub ticket: u64,
    /// The runs that had been ingested.
    runs: u64,
    /// The number of the transaction, which no other one of the database has.
    pub number: u64,
}

/// Why a transaction cannot commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowConflict {
    /// A key that it has read was written, by the group with that ticket.
    Written {
        /// The key.
        key: Box<[u8]>,
        /// The ticket.
        ticket: u64,
    },
    /// A range with keys that it has read was deleted, by the group with that ticket.
    Deleted {
        /// The range.
        range: KeyRange,
        /// The ticket.
        ticket: u64,
    },
    /// Notes since it began were forgotten.
    Forgotten {
        /// The upper bound on the memory of notes, in bytes.
        bytes_max: usize,
    },
    /// A run was ingested since it began.
    Ingested,
}

/// How far a transaction has been compared with the notes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckedNotes(Option<u64>);

/// A transaction that is about to join a group.
pub struct Validation<'a> {
    /// Where it began.
    pub begun: &'a BeginTicket,
    /// What it has read.
    pub reads: &'a dyn ReadSet,
    /// The notes that it has been compared with.
    pub checked: CheckedNotes,
    /// Turns that this took.
    pub turns: usize,
}

/// A key that was written, or a range that was deleted.
#[derive(Debug)]
struct Note {
    ticket: u64,
    /// The key; of a range the first key and the end.
    key: Box<[u8]>,
    /// The length of the first key of a range.
    range: Option<u32>,
}

impl Note {
    fn of(ticket: u64, key: &[u8], end: Option<&[u8]>) -> Self {
        let bytes = [key, end.unwrap_or_default()].concat();
        Self { ticket, key: bytes.into(), range: end.map(|_| key.len() as u32) }
    }

    /// The conflict with a transaction that has read this, if it is one.
    fn conflict(&self, reads: &dyn ReadSet) -> Option<WindowConflict> {
        let ticket = self.ticket;
        let Some(length) = self.range else {
            return reads.contains(&self.key).then(|| WindowConflict::Written { key: self.key.clone(), ticket });
        };
        let (from, to) = self.key.split_at(length as usize);
        let range = KeyRange::new(Some(from), (!to.is_empty()).then_some(to));
        reads.overlaps(&range).then_some(WindowConflict::Deleted { range, ticket })
    }
}

/// Notes that nobody needs, to be dropped once the lock of the queue is released.
#[derive(Debug, Default)]
#[must_use = "dropping many notes takes time: release the lock before"]
pub struct Forgotten(#[cfg_attr(not(test), expect(dead_code, reason = "kept to be dropped"))] VecDeque<Note>);

/// The keys of recent writes, and the active transactions. See the module's documentation.
#[derive(Debug)]
pub struct CommitWindow {
    /// The tickets at which active transactions began, ascending, and how many began at each.
    begun: VecDeque<(u64, u32)>,
    notes: VecDeque<Note>,
    /// The number of notes that were removed before the first one.
    removed: u64,
    /// Transactions that have begun.
    transactions: u64,
    /// Writes up to this ticket were not noted, because no transaction was active.
    unnoted: u64,
    /// The largest ticket of a note that was forgotten although a transaction needed it.
    forgotten: u64,
    /// Runs that were ingested.
    runs: u64,
    /// The last group before the last of them.
    before_run: u64,
    /// Bytes of the keys in `notes`.
    key_bytes: usize,
    bytes_max: usize,
    charge: Charge,
}

/// The memory of a note besides its key: its place in the queue, which can be half empty, and what
/// the allocator takes for the key.
const NOTE_BYTES: usize = 2 * size_of::<Note>() + 16;

/// Notes that no transaction needs are removed so many at a time, each time that one is made or a
/// transaction ends: fewer would let them become more and more, and all of them at once take the
/// lock for long.
const REMOVED_AT_A_TIME: usize = 64;

impl CommitWindow {
    /// Creates a window without transactions, whose notes take at most `bytes_max` and are charged
    /// to `charge`.
    pub fn new(bytes_max: usize, charge: Charge) -> Self {
        Self {
            begun: VecDeque::new(),
            notes: VecDeque::new(),
            removed: 0,
            transactions: 0,
            unnoted: 0,
            forgotten: 0,
            runs: 0,
            before_run: 0,
            key_bytes: 0,
            bytes_max,
            charge,
        }
    }

    /// Returns true if a transaction is active, so that writes have to be noted.
    #[inline]
    pub fn is_active(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Registers a transaction until [`CommitWindow::end`]. Everything up to `published` is
    /// visible, and writes up to `joined` have joined groups. The caller waits until everything up
    /// to the ticket is published before it takes the transaction's snapshot.
    pub fn begin(&mut self, published: u64, joined: u64) -> BeginTicket {
        if !self.is_active() {
            self.unnoted = joined;
        }
        // What was forgotten may not be published yet.
        let ticket = published.max(self.unnoted).max(self.forgotten);
        match self.begun.back_mut() {
            Some((last, transactions)) if *last == ticket => *transactions += 1,
            last => {
                assert!(last.is_none_or(|last| last.0 < ticket), "tickets of transactions ascend");
                self.begun.push_back((ticket, 1));
            }
        }
        self.transactions += 1;
        BeginTicket { ticket, runs: self.runs, number: self.transactions }
    }

    /// Moves the place where a transaction began to a later ticket, which is published. It was
    /// compared with all notes up to that one, and with all runs: it has seen those before.
    pub fn advance(&mut self, begun: &mut BeginTicket, ticket: u64) {
        assert!(begun.ticket <= ticket, "{begun:?} is moved back to {ticket}");
        self.remove_begun(begun);
        match self.begun.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
            Ok(at) => self.begun[at].1 += 1,
            Err(at) => self.begun.insert(at, (ticket, 1)),
        }
        begun.ticket = ticket;
        self.remove_unneeded();
        self.settle();
    }

    fn remove_begun(&mut self, begun: &BeginTicket) {
        let at = self.begun.binary_search_by_key(&begun.ticket, |(ticket, _)| *ticket);
        let at = at.expect("a transaction ends once");
        self.begun[at].1 -= 1;
        if self.begun[at].1 == 0 {
            self.begun.remove(at);
        }
    }

    /// Ends a transaction.
    pub fn end(&mut self, begun: &BeginTicket) -> Forgotten {
        self.remove_begun(begun);
        let unneeded = if self.is_active() {
            self.remove_unneeded();
            Forgotten::default()
        } else {
            self.take_all()
        };
        self.settle();
        unneeded
    }

    /// Notes the keys of a write that joins the group with that ticket. Returns what was forgotten
    /// for it.
    pub fn note(&mut self, ticket: u64, write: &Write<'_>) -> Forgotten {
        self.remove_unneeded();
        let mut bytes = 0;
        write.for_each_key(|key, end| bytes += NOTE_BYTES + key.len() + end.map_or(0, <[u8]>::len));
        let forgotten = if bytes > self.bytes_max {
            self.forgotten = ticket;
            self.take_all()
        } else {
            let forgotten = self.drop_until_they_fit(bytes);
            write.for_each_key(|key, end| {
                let note = Note::of(ticket, key, end);
                self.key_bytes += note.key.len();
                self.notes.push_back(note);
            });
            forgotten
        };
        if self.notes.capacity() > 4 * self.notes.len() + REMOVED_AT_A_TIME {
            self.notes.shrink_to(2 * self.notes.len());
        }
        self.settle();
        forgotten
    }

    /// Makes all active transactions too old: a run was ingested. Those that begin at a later group
    /// than `after` see it, also if they are active already: it is the last group before the run.
    pub fn note_run(&mut self, after: u64) {
        self.runs += 1;
        self.before_run = after;
    }

    /// Compares a transaction with up to `notes_max` further notes. Returns true once it has been
    /// compared with all, and there is no conflict.
    ///
    /// # Errors
    /// The first conflict.
    pub fn check(
        &self,
        begun: &BeginTicket,
        reads: &dyn ReadSet,
        checked: &mut CheckedNotes,
        notes_max: usize,
    ) -> Result<bool, WindowConflict> {
        if begun.runs < self.runs && begun.ticket <= self.before_run {
            return Err(WindowConflict::Ingested);
        }
        if begun.ticket < self.forgotten && !mistake::is_planted(Mistake::ForgottenOverlooked) {
            return Err(WindowConflict::Forgotten { bytes_max: self.bytes_max });
        }
        let from = match checked.0 {
            Some(notes) => notes.saturating_sub(self.removed) as usize,
            None => self.notes.partition_point(|note| note.ticket <= begun.ticket),
        };
        let to = self.notes.len().min(from.saturating_add(notes_max));
        if let Some(conflict) = self.notes.range(from..to).find_map(|note| note.conflict(reads)) {
            return Err(conflict);
        }
        checked.0 = Some(self.removed + to as u64);
        Ok(to == self.notes.len())
    }

    /// The memory of the notes, in bytes.
    fn bytes(&self) -> usize {
        self.notes.len() * NOTE_BYTES + self.key_bytes
    }

    fn settle(&mut self) {
        let bytes = self.bytes();
        self.charge.set(bytes);
    }

    /// Removes some of the notes that no active transaction needs.
    fn remove_unneeded(&mut self) {
        let Some(&(oldest, _)) = self.begun.front() else { return };
        for _ in 0..REMOVED_AT_A_TIME {
            if self.notes.front().is_none_or(|note| note.ticket > oldest) {
                break;
            }
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some(note) = self.notes.pop_front() {
            self.removed += 1;
            self.key_bytes -= note.key.len();
        }
    }

    /// Forgets the oldest notes until there is room for `bytes` more, which the bound allows.
    fn drop_until_they_fit(&mut self, bytes: usize) -> Forgotten {
        let (mut oldest, mut freed) = (0, 0);
        while self.bytes() + bytes - freed > self.bytes_max {
            let Note { ticket, key, .. } = &self.notes[oldest];
            (self.forgotten, freed) = (*ticket, freed + NOTE_BYTES + key.len());
            oldest += 1;
        }
        if oldest <= REMOVED_AT_A_TIME {
            (0..oldest).for_each(|_| self.remove_first());
            return Forgotten::default();
        }
        self.removed += oldest as u64;
        self.key_bytes -= freed - oldest * NOTE_BYTES;
        Forgotten(self.notes.drain(..oldest).collect())
    }

    /// Removes all notes.
    fn take_all(&mut self) -> Forgotten {
        self.removed += self.notes.len() as u64;
        self.key_bytes = 0;
        Forgotten(std::mem::take(&mut self.notes))
    }
}

#[cfg(test)]
mod tests;
