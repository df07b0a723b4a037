//! [`Transaction`]: reads and writes that take effect at one place of the commit order, or not at
//! all.
//!
//! Most transactions are **optimistic**: they take no locks. A transaction reads from a snapshot,
//! keeps its writes to itself (`overlay`), and remembers what it has read (`reads`). Its commit is
//! one batch that joins a commit group only if nothing that it has read was written since its
//! snapshot; else it is a conflict, and the caller runs it again (`retry`).
//!
//! ```text
//!   Db::transaction ─► ticket, snapshot ─► get, scan ─► reads     put, delete ─► overlay
//!                                                         │                        │ batch
//!                            commit ─► write/commit:  compared with the window,    ▼
//!                                                     joins a group ───────► WAL, memtable,
//!                                                     visible
//! ```
//!
//! Isolation: strictly serialisable; [`crate::write::commit`] has the argument, in `transactions`.
//! Two transactions that write a key which neither has read have no conflict; the later one wins.
//!
//! Merge operands wait in the overlay and join the batch as operands. Writing one reads nothing, so
//! two transactions with operands for the same key have no conflict; a read of the key reads what
//! others have written to it.
//!
//! A range delete hides what others have written, and is noted in the window as a range.
//!
//! A **pessimistic** transaction (`pessimistic`) is an optimistic one that locks what it reads and
//! writes, and moves its snapshot forward after each lock. So others who lock wait for it, and it
//! has no conflicts with them; with those who do not lock, it is compared as any other.
//!
//! There is one tree, so keys have no keyspace yet.
//!
//! Tests: random interleavings against a serial model, histories of many threads searched for
//! cycles, counters, crashes (`tests/transactions`); orders of steps (`tests/schedules`).

mod overlay;
mod pessimistic;
mod reads;
mod retry;
mod scan;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use tamarack_env::sync::thread;

pub use pessimistic::PessimisticTransaction;
pub(crate) use retry::{transact, transact_pessimistic};
pub use scan::TransactionScan;

use self::overlay::{Overlay, OwnWrite};
use self::reads::TransactionReads;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::key_range::KeyRange;
use crate::memory::MemoryPart;
use crate::mistake::{self, Mistake};
use crate::read::{KeyBounds, Snapshot, Value, range_within};
use crate::write::{Batch, BeginTicket, Durability, ReadSet, Write, deletable};

/// An optimistic, serialisable transaction. It sees the database as of its beginning, with its own
/// writes; others see these once it is committed, all at once. Dropping it rolls it back.
///
/// # Conflicts
///
/// The commit fails with [`Error::Conflict`], and writes nothing, if another write since the
/// beginning has changed what the transaction has read: a key that was looked up, whether it had a
/// value or not, or any key in a range that was scanned, also one that was not there. A range
/// delete counts as a write to all its keys. Begin another transaction then, and do the same again;
/// [`Db::transact`](crate::Db::transact) does that. A transaction without writes always commits, as
/// does one that has read nothing: writing a key without reading it is no conflict.
///
/// # Isolation
///
/// Transactions are serialisable, and strictly so: they take effect as if executed one after
/// another, in an order in which a transaction that begins after another one has returned comes
/// after it. Puts, batches and ingests count as transactions, too. The reads of any transaction,
/// also of one that is dropped or refused, are of one snapshot.
///
/// # Costs
///
/// A transaction pins what a [`Snapshot`](crate::Snapshot) pins. What it has read and written is in
/// memory, counted against the budget and not bounded by it: it grows with each read, write and
/// savepoint. Its writes together may be as large as a [`Batch`](crate::Batch); a commit of more is
/// refused. While any transaction is active, the keys of all writes are kept in memory, up to 1/32
/// of [`Options::memory_bytes`](crate::Options::memory_bytes) and 32 MiB; beyond that, the
/// transactions that began first can no longer commit if they have read and written. Nor can those
/// that are active when a run is ingested. So keep transactions short.
///
/// Transactions take no locks that others wait for, but they wait: one that begins while no other
/// is active, for writes in progress; a commit, as a write does, and until an ingested run is
/// installed; one that has a conflict, until the other write is visible.
///
/// ```
/// # let env = tamarack_env::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// # let db = options.open("/accounts")?;
/// db.put("alder", "10")?;
/// let mut transaction = db.transaction();
/// let balance = transaction.get("alder")?;
/// assert_eq!(balance.as_deref(), Some(&b"10"[..]));
/// transaction.put("alder", "5").put("birch", "5");
/// assert_eq!(transaction.scan("a"..).count(), 2);
/// assert_eq!(db.get("birch")?, None, "nobody else sees it yet");
/// transaction.commit()?;
/// assert_eq!(db.get("birch")?.as_deref(), Some(&b"5"[..]));
///
/// let mut late = db.transaction();
/// late.get("alder")?;
/// db.put("alder", "7")?;
/// late.put("alder", "6");
/// assert!(matches!(late.commit(), Err(tamarack::Error::Conflict { .. })));
/// # Ok::<(), tamarack::Error>(())
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction {
    engine: Arc<Engine>,
    begun: BeginTicket,
    snapshot: Snapshot,
    reads: RefCell<TransactionReads>,
    writes: Overlay,
}

/// A moment in a transaction, to be returned to by [`Transaction::rollback_to`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    /// The address of the engine of its database: databases number their transactions alike, and no
    /// two that are open have the same.
    database: usize,
    /// The number of its transaction.
    transaction: u64,
    number: u64,
}

impl Transaction {
    pub(crate) fn begin(engine: &Arc<Engine>) -> Self {
        // The snapshot comes after the ticket: it has at least what the ticket says.
        let begun = engine.commits.begin_transaction();
        let charge = || engine.account.charge(MemoryPart::Transactions, 0);
        Self {
            begun,
            snapshot: Snapshot::now(&engine.tree),
            reads: RefCell::new(TransactionReads::new(charge())),
            writes: Overlay::new(charge()),
            engine: engine.clone(),
        }
    }

    /// Goes on with a snapshot of what is visible now, if nothing that it has read was written
    /// since. So all that it has read is as in that snapshot.
    ///
    /// # Errors
    /// [`Error::Conflict`] as for a commit.
    fn catch_up(&mut self) -> Result<()> {
        let Engine { commits, tree, .. } = &*self.engine;
        let published = commits.published();
        // A group can be visible in the snapshot and have been published since: it is no conflict
        // with what is read next.
        let is_published = published == self.begun.ticket || mistake::is_planted(Mistake::PublishedUnnoticed);
        if tree.database.sequences.visible() == self.snapshot.sequence() && is_published {
            return Ok(());
        }
        let reads = self.reads.get_mut();
        if reads.is_empty() {
            commits.restart_transaction(&mut self.begun);
            self.snapshot = Snapshot::now(tree);
            return Ok(());
        }
        // Between the two others: the snapshot has at least what the ticket says, and at most what
        // is compared.
        let snapshot = Snapshot::now(tree);
        commits.advance_transaction(&mut self.begun, published, reads)?;
        self.snapshot = snapshot;
        if mistake::is_planted(Mistake::SnapshotNotCompared) {
            // Others get their chance to write.
            thread::yield_now();
            self.snapshot = Snapshot::now(tree);
        }
        Ok(())
    }

    /// Returns the value of `key`, or `None`.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        match self.writes.get(key) {
            Some(own) => Ok(self.own_value(key, own)?.map(Value::own)),
            None if self.writes.deleted_range(key).is_some() => Ok(None),
            None => self.others(key),
        }
    }

    /// Returns true if `key` has a value.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if let Some(own) = self.writes.get(key) {
            return Ok(self.own_value(key, own)?.is_some());
        }
        if self.writes.deleted_range(key).is_some() {
            return Ok(false);
        }
        self.reads.borrow_mut().add_key(key);
        self.snapshot.contains_key(key)
    }

    /// What others have written to a key, which counts as read.
    fn others(&self, key: &[u8]) -> Result<Option<Value>> {
        self.reads.borrow_mut().add_key(key);
        self.snapshot.get(key)
    }

    /// The value of a key that this transaction has written.
    fn own_value(&self, key: &[u8], own: &OwnWrite) -> Result<Option<Arc<[u8]>>> {
        let others = if own.needs_others() { self.others(key)? } else { None };
        own.value(&self.engine.tree.merging, key, others.as_deref())
    }

    /// Returns an iterator over the entries whose keys lie in `range`, in key order, double-ended.
    ///
    /// # Errors
    /// An item is an error if a table cannot be read; the iterator ends after it.
    pub fn scan(&self, range: impl KeyBounds) -> TransactionScan<'_> {
        self.scan_range(range_within(&range))
    }

    /// Returns an iterator over the entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        self.scan_range(KeyRange::with_prefix(prefix.as_ref()))
    }

    fn scan_range(&self, range: KeyRange) -> TransactionScan<'_> {
        let snapshot = self.snapshot.clone().into_scan(range.clone());
        TransactionScan::new(&self.reads, range, snapshot, &self.writes, &self.engine.tree.merging)
    }

    /// Sets `key` to `value`, for this transaction, and for others once it is committed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.set(key.as_ref(), Some(value.as_ref()));
        self
    }

    /// Folds `operand` into the value of `key`, for this transaction, and for others once it is
    /// committed: see [`Db::merge`](crate::Db::merge). Reads nothing, so it is no conflict with
    /// other writes to the key; a later read of the key in this transaction is.
    ///
    /// Without a merge operator, [`Transaction::commit`] fails.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.writes.merge(key.as_ref(), operand.as_ref());
        self
    }

    /// Deletes `key`, for this transaction, and for others once it is committed.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.set(key.as_ref(), None);
        self
    }

    /// Deletes all keys in `range`, for this transaction, and for others once it is committed: see
    /// [`Db::delete_range`](crate::Db::delete_range). Reads nothing, so it is no conflict with
    /// other writes to the keys. Transactions that have read a key or a range in it, and commit
    /// later, have a conflict.
    pub fn delete_range(&mut self, range: impl KeyBounds) -> &mut Self {
        if let Some((from, to)) = deletable(&range_within(&range)) {
            self.writes.delete_range(from, (!to.is_empty()).then_some(to));
        }
        self
    }

    /// Sets `key` to a value, or deletes it.
    pub(crate) fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.writes.write(key, value);
    }

    /// Makes a savepoint: [`Transaction::rollback_to`] takes back what is written after it.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let db = tamarack::Options::new().advanced(advanced).open("/savepoints")?;
    /// let mut transaction = db.transaction();
    /// transaction.put("oak", "1");
    /// let savepoint = transaction.savepoint();
    /// transaction.put("oak", "2").put("elm", "2");
    /// transaction.rollback_to(savepoint)?;
    /// transaction.commit()?;
    /// assert_eq!(db.get("oak")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!(db.get("elm")?, None);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        let number = self.writes.savepoint();
        Savepoint { database: self.database(), transaction: self.begun.number, number }
    }

    /// What tells the database from others that are open.
    fn database(&self) -> usize {
        Arc::as_ptr(&self.engine).addr()
    }

    /// Takes back all writes since `savepoint`, which stays; later savepoints go. What was read
    /// since counts as read.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if an earlier savepoint was returned to since it was made, or if
    /// another transaction has made it, of this database or of another open one. Nothing is taken
    /// back then.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let is_own = savepoint.database == self.database() && savepoint.transaction == self.begun.number;
        let what = if !is_own {
            "the savepoint is one of another transaction: return to it in the transaction that has made it"
        } else if self.writes.rollback_to(savepoint.number) {
            return Ok(());
        } else {
            "this transaction has no such savepoint any more: it was rolled back to an earlier one"
        };
        Err(Error::InvalidArgument(what.to_owned()))
    }

    /// Commits the transaction, with the database's durability. When this returns, its writes are
    /// visible to all.
    ///
    /// # Errors
    /// [`Error::Conflict`] if what it has read was changed since it began, or if it is too old for
    /// that to be known; else as [`Db::write`](crate::Db::write). Nothing was written then, unless
    /// it is [`Error::Stopped`].
    pub fn commit(self) -> Result<()> {
        self.commit_now()
    }

    fn commit_now(&self) -> Result<()> {
        if self.writes.is_empty() {
            // All that it has read is of one snapshot, which is its place in the order.
            return Ok(());
        }
        let durability = self.engine.durability;
        self.commit_writes(durability)
    }

    /// Commits the transaction as [`Transaction::commit`] does, with the given durability. If it
    /// has no writes, what others have committed becomes as durable, as by an empty batch.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; without writes, as [`Db::write_with`](crate::Db::write_with) of
    /// an empty batch, unless `durability` is [`Durability::Buffered`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        self.commit_now_with(durability)
    }

    fn commit_now_with(&self, durability: Durability) -> Result<()> {
        match (self.writes.is_empty(), durability) {
            (false, _) => self.commit_writes(durability),
            (true, Durability::Buffered) => Ok(()),
            (true, _) => self.engine.commits.commit(Write::Many(&Batch::new()), durability),
        }
    }

    fn commit_writes(&self, durability: Durability) -> Result<()> {
        let commits = &self.engine.commits;
        let (bytes, bytes_max) = (self.writes.raw_bytes(), commits.batch_bytes_max());
        // Said before they are copied. Without the others, one may be as large as it can be alone.
        if self.writes.len() > 1 && bytes > bytes_max {
            return Err(Error::InvalidArgument(format!(
                "the writes of the transaction have {bytes} bytes; the maximum is {bytes_max} (an eighth of the \
                 memory budget, at most 1 GiB); split it"
            )));
        }
        let reads = self.reads.borrow();
        commits.commit_transaction(&self.writes.to_batch(), durability, &self.begun, &*reads)
    }

    /// Ends the transaction without writing anything, as dropping it does.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.engine.commits.end_transaction(&self.begun);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}
