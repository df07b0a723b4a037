//! [`PessimisticTransaction`]: a transaction that locks what it reads and writes.
//!
//! ```text
//!   get ─► shared lock, waits ─► catch up: a newer snapshot,      ─► read
//!                                if what was read is the same in it
//!   put ─► exclusive lock, waits ────────────────────────────────► overlay
//!   commit ─► compared with the window, joins a group, visible ──► locks released
//! ```
//!
//! # Why this is serialisable
//!
//! Its commit is that of an optimistic transaction: what it has read is compared with all writes
//! since its snapshot, whoever has written. So it is as serialisable as these, whatever others do,
//! and locks are no part of the argument. They are why it rarely fails. What it has read is locked,
//! ranges included, until its writes are visible; another pessimistic transaction writes it before
//! that lock, and is visible when the lock is granted, or after. Each read comes after its lock and
//! from a snapshot that is taken after it, so no write of another pessimistic transaction comes
//! between. What remains are conflicts with those who do not lock: plain writes, optimistic
//! transactions, ingests.
//!
//! # Catching up
//!
//! After each lock for reading, all notes of the window since the last time are compared with what
//! was read before, and a newer snapshot takes the place of the old one. So all reads of the
//! transaction, also of one that fails later, are of one snapshot, the newest one. It keeps up with
//! the window: it becomes too old only if others write as much as the window has between two of its
//! reads, or between the last one and the commit. And it learns of a conflict at its next read
//! instead of at its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::thread;

use super::{Savepoint, Transaction, TransactionScan};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::key_range::{KeyRange, key_after};
use crate::locks::{LockMode, LockOwner};
use crate::mistake::{self, Mistake};
use crate::read::{KeyBounds, Value, range_within};
use crate::write::Durability;

/// How long a transaction waits for a lock, unless it says otherwise. Long enough for the commits
/// of many others on a slow device; short enough for a user who waits.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A pessimistic, serialisable transaction. It locks what it reads and writes, so that other
/// pessimistic transactions wait for it rather than have conflicts with it. Dropping it rolls it
/// back.
///
/// For keys that many transactions want at the same time, and for transactions that take long. For
/// others, an optimistic [`Transaction`] costs less. Reads need `&mut self`, because they lock, and
/// see newer values than the reads before.
///
/// # Locks
///
/// A lookup or a scan takes a shared lock on its key, or on all keys in its range, also those that
/// are not there; a write, or a read "for update", an exclusive one. A transaction that wants a
/// lock waits while others have one that conflicts, and behind those who came before, for one
/// second unless [`PessimisticTransaction::set_lock_timeout`] says otherwise. A shared lock that it
/// has becomes exclusive when it writes; if two transactions that have read a key both want to
/// write it, that is a deadlock, so read it with [`PessimisticTransaction::get_for_update`]. All
/// locks stay until the transaction is committed, rolled back or dropped, also those taken after a
/// savepoint that it returns to.
///
/// A thread that has two transactions which want the same lock waits for itself, until the
/// time-out. Beside locks, a read waits for what a commit waits for: until an ingested run is
/// installed.
///
/// # Errors
///
/// Any call that locks can fail with [`Error::Deadlock`] if transactions wait for each other: at
/// once, for the youngest of them. It can fail with [`Error::Conflict`] because of writes that take
/// no locks. After both, the transaction is rolled back and its locks are released, and each
/// further call returns that error again;
/// [`Db::transact_pessimistic`](crate::Db::transact_pessimistic) runs it again. After
/// [`Error::LockTimeout`] it has what it had before, and can go on.
///
/// # Isolation
///
/// Reads return the newest values that were committed when the lock was granted, with the
/// transaction's own writes. The isolation is that of optimistic transactions, strict
/// serialisability, and covers all writes. Plain writes, optimistic transactions and ingests take
/// no locks and never wait for them. If one of them writes what a pessimistic transaction has read,
/// and that one writes, too, it has a conflict. Who never wants to meet one lets all writers of a
/// key use pessimistic transactions. A transaction that has only written a key has no conflict.
///
/// # Costs
///
/// A lock takes a lock of the whole table for a moment, and some 320 bytes for a key of 16 bytes,
/// counted against the budget and not bounded by it. While the transaction is active, others pay
/// what they pay beside an optimistic one: the keys of writes are noted. It keeps up with these
/// notes as it reads, so it may take long; but it is too old, which is a conflict, if others write
/// more keys than are kept ([`Transaction`]) while it does not read.
///
/// ```
/// # let env = tamarack_env::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// # let db = options.open("/accounts")?;
/// db.put("alder", "10")?;
/// let mut first = db.pessimistic_transaction();
/// assert_eq!(first.get_for_update("alder")?.as_deref(), Some(&b"10"[..]));
///
/// let mut second = db.pessimistic_transaction();
/// second.set_lock_timeout(std::time::Duration::ZERO);
/// let locked = second.get("alder");
/// assert!(matches!(locked, Err(tamarack::Error::LockTimeout { .. })));
///
/// first.put("alder", "5")?.put("birch", "5")?;
/// first.commit()?;
/// assert_eq!(second.get("alder")?.as_deref(), Some(&b"5"[..]), "the newest value");
/// second.commit()?;
/// # Ok::<(), tamarack::Error>(())
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct PessimisticTransaction {
    transaction: Transaction,
    /// After the transaction: locks are released when it has ended.
    locks: LockOwner,
    lock_timeout: Duration,
    /// Why it was rolled back.
    ended: Option<Error>,
}

impl PessimisticTransaction {
    /// Begins a transaction, which is as old as an earlier attempt of the same one.
    pub(crate) fn begin(engine: &Arc<Engine>, number: Option<u64>) -> Self {
        Self {
            transaction: Transaction::begin(engine),
            locks: engine.locks.begin(number),
            lock_timeout: LOCK_TIMEOUT,
            ended: None,
        }
    }

    /// The number of the transaction, by which errors of other transactions name it. A younger
    /// transaction has a larger one, but one that [`crate::Db::transact_pessimistic`] runs again
    /// keeps it.
    pub fn number(&self) -> u64 {
        self.locks.number()
    }

    /// Sets how long each further call waits for a lock at most (default: one second). With
    /// [`Duration::ZERO`] a call that would have to wait fails; with [`Duration::MAX`] it waits for
    /// as long as it takes.
    pub fn set_lock_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.lock_timeout = timeout;
        self
    }

    /// Returns the value of `key`, or `None`, under a shared lock.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`] or [`Error::Conflict`]; else as
    /// [`Db::get`](crate::Db::get).
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.lock_for_reading(&one_key(key.as_ref()), LockMode::Shared)?;
        self.transaction.get(key)
    }

    /// Returns the value of `key`, or `None`, under an exclusive lock: for a key that is going to
    /// be written.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::get`].
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.lock_for_reading(&one_key(key.as_ref()), LockMode::Exclusive)?;
        self.transaction.get(key)
    }

    /// Returns true if `key` has a value, under a shared lock.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::get`].
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.lock_for_reading(&one_key(key.as_ref()), LockMode::Shared)?;
        self.transaction.contains_key(key)
    }

    /// Returns an iterator over the entries whose keys lie in `range`, in key order, double-ended.
    /// All of the range is locked for reading, however far it is iterated: others wait who want to
    /// write to it, also to keys that are not there.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::get`]. An item is an error if a table cannot be read; the
    /// iterator ends after it.
    pub fn scan(&mut self, range: impl KeyBounds) -> Result<TransactionScan<'_>> {
        self.scan_locked(range_within(&range), LockMode::Shared)
    }

    /// Returns an iterator as [`PessimisticTransaction::scan`] does, under an exclusive lock on all
    /// of the range: for a range that is going to be written.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::scan`].
    pub fn scan_for_update(&mut self, range: impl KeyBounds) -> Result<TransactionScan<'_>> {
        self.scan_locked(range_within(&range), LockMode::Exclusive)
    }

    /// Returns an iterator over the entries whose keys begin with `prefix`, under a shared lock on
    /// all keys that do.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::scan`].
    pub fn prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<TransactionScan<'_>> {
        self.scan_locked(KeyRange::with_prefix(prefix.as_ref()), LockMode::Shared)
    }

    fn scan_locked(&mut self, range: KeyRange, mode: LockMode) -> Result<TransactionScan<'_>> {
        if mistake::is_planted(Mistake::InsertsNotLocked) {
            let keys: Result<Vec<_>> = self.transaction.snapshot.scan(..).collect();
            for (key, _) in keys?.into_iter().filter(|(key, _)| range.contains(key)) {
                self.lock_for_reading(&one_key(&key), mode)?;
            }
        } else {
            self.lock_for_reading(&range, mode)?;
        }
        Ok(self.transaction.scan_range(range))
    }

    /// Sets `key` to `value`, under an exclusive lock.
    ///
    /// # Errors
    /// [`Error::Deadlock`] or [`Error::LockTimeout`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.lock(&one_key(key.as_ref()), LockMode::Exclusive)?;
        self.transaction.put(key, value);
        Ok(self)
    }

    /// Folds `operand` into the value of `key`, under an exclusive lock: see
    /// [`Transaction::merge`].
    ///
    /// # Errors
    /// As [`PessimisticTransaction::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.lock(&one_key(key.as_ref()), LockMode::Exclusive)?;
        self.transaction.merge(key, operand);
        Ok(self)
    }

    /// Deletes `key`, under an exclusive lock.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<&mut Self> {
        self.lock(&one_key(key.as_ref()), LockMode::Exclusive)?;
        self.transaction.delete(key);
        Ok(self)
    }

    /// Deletes all keys in `range`, under an exclusive lock on all of it: see
    /// [`Transaction::delete_range`].
    ///
    /// # Errors
    /// As [`PessimisticTransaction::put`].
    pub fn delete_range(&mut self, range: impl KeyBounds) -> Result<&mut Self> {
        self.lock(&range_within(&range), LockMode::Exclusive)?;
        self.transaction.delete_range(range);
        Ok(self)
    }

    /// Makes a savepoint: [`PessimisticTransaction::rollback_to`] takes back what is written after
    /// it.
    pub fn savepoint(&mut self) -> Savepoint {
        self.transaction.savepoint()
    }

    /// Takes back all writes since `savepoint`, which stays; later savepoints go. What was read
    /// since counts as read, and what was locked since stays locked.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`]; why the transaction was rolled back, if it was.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.check_running()?;
        self.transaction.rollback_to(savepoint)
    }

    /// Commits the transaction, with the database's durability, and then releases its locks.
    ///
    /// # Errors
    /// [`Error::Conflict`] if what it has read was changed by somebody who takes no locks; why the
    /// transaction was rolled back, if it was; else as [`Transaction::commit`]. Nothing was written
    /// then, unless it is [`Error::Stopped`].
    pub fn commit(self) -> Result<()> {
        self.commit_now(|transaction| transaction.commit_now())
    }

    /// Commits the transaction as [`PessimisticTransaction::commit`] does, with the given
    /// durability.
    ///
    /// # Errors
    /// As [`PessimisticTransaction::commit`] and [`Transaction::commit_with`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_now(|transaction| transaction.commit_now_with(durability))
    }

    fn commit_now(&self, commit: impl FnOnce(&Transaction) -> Result<()>) -> Result<()> {
        self.check_running()?;
        if mistake::is_planted(Mistake::LocksReleasedEarly) {
            self.locks.release();
            // Commits in memory are short: others get their chance to take the locks.
            thread::yield_now();
        }
        // The locks are released when `self` is dropped: the writes are visible then.
        commit(&self.transaction)
    }

    /// Ends the transaction without writing anything, as dropping it does.
    pub fn rollback(self) {
        drop(self);
    }

    /// True if it was rolled back because of a deadlock or a conflict.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    fn check_running(&self) -> Result<()> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Locks a range, and lets the transaction see what is committed by then.
    fn lock_for_reading(&mut self, range: &KeyRange, mode: LockMode) -> Result<()> {
        self.lock(range, mode)?;
        let caught_up = self.transaction.catch_up();
        self.ends_at_failure(caught_up)
    }

    fn lock(&mut self, range: &KeyRange, mode: LockMode) -> Result<()> {
        self.check_running()?;
        let locked = self.locks.lock(range, mode, self.lock_timeout);
        self.ends_at_failure(locked)
    }

    /// Rolls the transaction back if it can no longer commit.
    fn ends_at_failure(&mut self, outcome: Result<()>) -> Result<()> {
        if let Err(error @ (Error::Deadlock { .. } | Error::Conflict { .. })) = &outcome {
            self.ended = Some(error.clone());
            self.locks.release();
        }
        outcome
    }
}

/// The range of one key.
fn one_key(key: &[u8]) -> KeyRange {
    KeyRange { from: Some(key.into()), to: Some(key_after(key)) }
}

impl fmt::Debug for PessimisticTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { transaction, lock_timeout, ended, .. } = self;
        f.debug_struct("PessimisticTransaction")
            .field("number", &self.number())
            .field("transaction", transaction)
            .field("lock_timeout", lock_timeout)
            .field("ended", ended)
            .finish_non_exhaustive()
    }
}
