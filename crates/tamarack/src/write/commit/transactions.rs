//! Transactions in the commit queue: where they begin in the commit order, and their validation at
//! the moment when they join a group.
//!
//! # Steps of a transaction
//!
//! 1. It **begins**: under the queue's lock it is registered in the commit window, with the ticket
//!    up to which everything is published. The first one activates the window, and waits until
//!    what had joined before is published, as does one that begins while groups are in progress
//!    whose notes were forgotten. Only then its snapshot is taken, so that everything up to the
//!    ticket is visible in it.
//! 2. It reads from its snapshot, and keeps its writes to itself.
//! 3. It **commits**: under the queue's lock it is compared with all notes that have a larger
//!    ticket, and joins the forming group in the same moment if it has read none of their keys. If
//!    it has, it does not join, and the group loses nothing else. One that has read nothing is a
//!    batch. The others are compared once before write throttling as well: one that cannot commit
//!    takes nothing of the rate of writes.
//! 4. It **ends**: what only it needed of the window is removed.
//!
//! A pessimistic transaction **advances** after each of its locks: it takes a newer snapshot, is
//! compared with all notes since its ticket, and goes on from the ticket that was published before
//! that snapshot.
//!
//! # Why this is serialisable
//!
//! The order of joining is the commit order. When a transaction joins, the writes before it in that
//! order are of three kinds: those up to its ticket, which its snapshot has; those after it that
//! are noted, none of which wrote what it has read, be it a key or a range with keys that were not
//! there; and those of groups that failed, which never were. So each of its reads returns what it
//! would return if the transaction as a whole were executed at that place of the order. A
//! transaction without writes is validated by nothing: its place is that of its snapshot, which is
//! a prefix of the order.
//!
//! A transaction that advances has read, in that snapshot, what it had read before: each group that
//! the snapshot has joined before the comparison, so its notes were compared, and a run that was
//! being installed is waited for. So it is as if it had read all of it from the newer one.
//!
//! It is strictly serialisable as well: a transaction that begins after another one, or any write,
//! has returned has it in its snapshot (a group is published before its members return) and joins
//! after it. (A. Adya's level PL-3, and what jepsen.io calls strict serializability. The order of a
//! crash is no other one: what survives is a prefix of it.)
//!
//! # Waiting
//!
//! A transaction that has a conflict waits until the write is published with which it has the
//! conflict: a retry that began earlier would have the same one again. What it waits for never
//! waits for it: groups in progress, led by their members.
//!
//! # Costs
//!
//! Beginning and ending take the queue's lock. A write pays one branch under that lock while no
//! transaction is active, else a note for each key. A commit takes the lock once more for each turn
//! of its validation. The window's bound (at most 32 MiB) bounds the notes of a turn: about 20,000,
//! for keys of 16 bytes.

use tamarack_env::sync::MutexGuard;
use tamarack_env::sync::atomic::Ordering;

use super::{CommitQueue, Durability, JoinQueue};
use crate::error::{Error, Result};
use crate::mistake::{self, Mistake};
use crate::write::batch::{Batch, Write};
use crate::write::window::{BeginTicket, CheckedNotes, ReadSet, Validation, WindowConflict};

/// Notes that are compared with a transaction in its first turn under the queue's lock. Each turn
/// compares as many more, so that they end however fast others write.
const NOTES_IN_FIRST_TURN: usize = 512;

impl CommitQueue {
    /// Begins a transaction, to be ended with [`CommitQueue::end_transaction`]. A snapshot that is
    /// taken afterwards has everything that the transaction is not validated against. Waits for
    /// writes in progress if it is the only transaction, or if what they noted was forgotten.
    pub fn begin_transaction(&self) -> BeginTicket {
        let mut queue = self.queue.lock();
        let joined = queue.forming.ticket - u64::from(queue.forming.members == 0);
        let begun = queue.window.begin(self.published.load(Ordering::Acquire), joined);
        drop(queue);
        if !mistake::is_planted(Mistake::BegunUnpublished) {
            self.wait_until_published(begun.ticket);
        }
        begun
    }

    /// Returns the ticket up to which everything is published.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Moves the place where a transaction began up to a ticket that was published before the
    /// snapshot was taken that it goes on with, if nothing that it has read was written since. So
    /// all that it has read is as in that snapshot. The notes before it are not needed any more.
    ///
    /// One that has read nothing may have to wait, as one that begins does: it is begun anew
    /// instead ([`CommitQueue::restart_transaction`]).
    ///
    /// # Errors
    /// [`Error::Conflict`] as for a commit.
    pub fn advance_transaction(&self, begun: &mut BeginTicket, published: u64, reads: &dyn ReadSet) -> Result<()> {
        let from = *begun;
        let mut validation = Validation { begun: &from, reads, checked: CheckedNotes::default(), turns: 0 };
        // Each group that the snapshot has joined before it was taken, so its notes are compared.
        let mut queue = loop {
            let (queue, is_valid) = self.validate(self.queue.lock(), &mut validation)?;
            if is_valid {
                break queue;
            }
        };
        queue.window.advance(begun, published);
        Ok(())
    }

    /// Begins a transaction anew, which has read nothing yet. Its snapshot is to be taken again.
    pub fn restart_transaction(&self, begun: &mut BeginTicket) {
        let mut anew = self.begin_transaction();
        self.end_transaction(begun);
        anew.number = begun.number;
        *begun = anew;
    }

    /// Ends a transaction, committed or not.
    pub fn end_transaction(&self, begun: &BeginTicket) {
        let forgotten = self.queue.lock().window.end(begun);
        drop(forgotten);
    }

    /// Commits the writes of a transaction as [`CommitQueue::commit`] does, if nothing that it has
    /// read was written since it began.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something was, or if that cannot be told any more; nothing was
    /// written. Else as [`CommitQueue::commit`].
    pub fn commit_transaction(
        &self,
        writes: &Batch,
        durability: Durability,
        begun: &BeginTicket,
        reads: &dyn ReadSet,
    ) -> Result<()> {
        let mut validation = Validation { begun, reads, checked: CheckedNotes::default(), turns: 0 };
        // Without reads it takes effect wherever it joins, as a batch does.
        let validation = (!reads.is_empty()).then_some(&mut validation);
        self.commit_if(Write::Many(writes), durability, validation)?;
        self.counters.transactions_committed.add(1);
        Ok(())
    }

    /// Takes a turn of validating a transaction that wants to join. Returns true if it may, in the
    /// same moment; false after the lock was released.
    #[cold]
    #[inline(never)]
    pub(super) fn validate<'a>(
        &'a self,
        queue: MutexGuard<'a, JoinQueue>,
        validation: &mut Validation<'_>,
    ) -> Result<(MutexGuard<'a, JoinQueue>, bool)> {
        if queue.runs_beginning > 0 && !mistake::is_planted(Mistake::JoinedBesideRun) {
            return Ok((self.run_ended.wait(queue), false));
        }
        validation.turns += 1;
        let Validation { begun, reads, checked, turns } = validation;
        let checked = queue.window.check(begun, *reads, checked, *turns * NOTES_IN_FIRST_TURN);
        if let Ok(true) = checked {
            return Ok((queue, true));
        }
        drop(queue);
        match checked {
            Ok(_) => Ok((self.queue.lock(), false)),
            Err(conflict) => {
                self.counters.transaction_conflicts.add(1);
                if let WindowConflict::Written { ticket, .. } | WindowConflict::Deleted { ticket, .. } = conflict {
                    self.wait_until_published(ticket);
                }
                Err(Error::Conflict { what: described(&conflict, *reads) })
            }
        }
    }

    /// Blocks until all groups up to that ticket are visible, or have failed. The caller is not a
    /// member of one of them.
    fn wait_until_published(&self, ticket: u64) {
        if self.published.load(Ordering::Acquire) >= ticket {
            return;
        }
        let mut publisher = self.publisher.lock();
        publisher.waiting += 1;
        while self.published.load(Ordering::Acquire) < ticket {
            publisher = self.published_changed.wait(publisher);
        }
        publisher.waiting -= 1;
    }
}

/// What the conflict is, in words.
fn described(conflict: &WindowConflict, reads: &dyn ReadSet) -> String {
    match conflict {
        WindowConflict::Written { key, .. } => {
            format!("{} was written since the transaction began", reads.describe(key))
        }
        WindowConflict::Deleted { range, .. } => {
            format!("the range of keys {range:?}, in which the transaction has read, was deleted since it began")
        }
        WindowConflict::Forgotten { bytes_max } => format!(
            "the transaction is too old: since it began, others wrote more keys than are kept to find conflicts \
             ({bytes_max} bytes, 1/32 of `Options::memory_bytes`, at most 32 MiB); keep transactions short, or raise \
             the budget"
        ),
        WindowConflict::Ingested => "data was ingested since the transaction began".to_owned(),
    }
}
