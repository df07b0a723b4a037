//! Transactions of a [`Db`], and atomic operations on single keys, which are transactions, too.

use super::Db;
use crate::error::Result;
use crate::read::Value;
use crate::transaction::{self, PessimisticTransaction, Transaction};

impl Db {
    /// Begins a transaction: an optimistic one, serialisable with all other writes. See
    /// [`Transaction`]. To have it run again after conflicts, use [`Db::transact`].
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(&self.engine)
    }

    /// Runs `run` in a transaction and commits it, and runs it again if that is a conflict. Returns
    /// what `run` returned in the transaction that was committed.
    ///
    /// `run` may be called several times, so apart from the transaction it should change nothing
    /// that outlasts it. If it returns an error, the transaction is rolled back. The first retry
    /// comes at once; then there are pauses of random length, up to 10 ms. After 100 attempts,
    /// about half a second if pauses take most of it, the conflict is returned.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/accounts")?;
    /// db.put("alder", "10")?;
    /// let is_paid = db.transact(|transaction| {
    ///     let balance = transaction.get("alder")?.map_or(0, |balance| balance.len());
    ///     if balance > 0 {
    ///         transaction.delete("alder").put("birch", "10");
    ///     }
    ///     Ok(balance > 0)
    /// })?;
    /// assert!(is_paid && db.contains_key("birch")? && !db.contains_key("alder")?);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `run`, at once, also [`Error::Conflict`](crate::Error::Conflict) of another
    /// transaction in it; that of this one after the last attempt; else as [`Transaction::commit`].
    pub fn transact<T>(&self, run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        transaction::transact(&self.engine, run)
    }

    /// Begins a pessimistic transaction: one that locks what it reads and writes, for keys that
    /// many transactions want at the same time. See [`PessimisticTransaction`]. To have it run
    /// again after deadlocks, use [`Db::transact_pessimistic`].
    pub fn pessimistic_transaction(&self) -> PessimisticTransaction {
        PessimisticTransaction::begin(&self.engine, None)
    }

    /// Runs `run` in a pessimistic transaction and commits it, and runs it again if it loses a
    /// deadlock, or has a conflict with writes that take no locks. Returns what `run` returned in
    /// the transaction that was committed.
    ///
    /// `run` may be called several times, as in [`Db::transact`], with the same pauses and as many
    /// attempts. Each attempt is as old as the first one, so it soon is the oldest, which loses no
    /// deadlock. A time-out is returned at once, unless `run` goes on after it.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/tickets")?;
    /// let ticket = db.transact_pessimistic(|transaction| {
    ///     let last = transaction.get_for_update("last")?.map_or(0, |last| last[0]);
    ///     transaction.put("last", [last + 1])?;
    ///     Ok(last + 1)
    /// })?;
    /// assert_eq!(ticket, 1);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `run`, at once, also those of another transaction in it; deadlock or conflict of
    /// this one after the last attempt; else as [`PessimisticTransaction::commit`].
    pub fn transact_pessimistic<T>(&self, run: impl FnMut(&mut PessimisticTransaction) -> Result<T>) -> Result<T> {
        transaction::transact_pessimistic(&self.engine, run)
    }

    /// Replaces the value of `key` by what `update` makes of it, atomically, and returns the value
    /// before. `update` gets `None` if there is no value, and returns `None` to delete the key. It
    /// may be called several times. If the value stays the same, nothing is written.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/counters")?;
    /// let increment = |old: Option<&[u8]>| {
    ///     let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
    ///     Some((old + 1).to_be_bytes())
    /// };
    /// db.fetch_update("visits", increment)?;
    /// let before = db.fetch_update("visits", increment)?;
    /// assert_eq!(before.as_deref(), Some(&1u64.to_be_bytes()[..]));
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.transact(|transaction| {
            let old = transaction.get(key)?;
            let new = update(old.as_deref());
            let new = new.as_ref().map(AsRef::as_ref);
            if new != old.as_deref() {
                transaction.set(key, new);
            }
            Ok(old)
        })
    }

    /// Sets `key` to `new`, or deletes it if that is `None`, if its value is `expected`; `None`
    /// stands for no value. Atomic. Returns true if it was.
    ///
    /// ```
    /// # let env = tamarack_env::MemoryEnv::new(1);
    /// # let advanced = tamarack::AdvancedOptions::new().env(env);
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// # let db = options.open("/locks")?;
    /// assert!(db.compare_and_swap("owner", None, Some(b"me"))?);
    /// assert!(!db.compare_and_swap("owner", None, Some(b"you"))?);
    /// assert!(db.compare_and_swap("owner", Some(b"me"), None)?);
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.transact(|transaction| {
            let is_expected = transaction.get(key)?.as_deref() == expected;
            if is_expected && new != expected {
                transaction.set(key, new);
            }
            Ok(is_expected)
        })
    }

    /// Sets `key` to `value` if it has none. Atomic. Returns true if it had none.
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.compare_and_swap(key, None, Some(value.as_ref()))
    }

    /// Deletes `key`, and returns the value that it had. Atomic: of several callers, one gets it.
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.fetch_update(key, |_| None::<&[u8]>)
    }
}
