//! [`LockTable`]: the locks of pessimistic transactions on keys and ranges, and waiting for them.
//!
//! ```text
//!   PessimisticTransaction ─► LockOwner::lock ─► LockQueue (decides) ─► granted
//!                                                  │ waits
//!                                                  ▼
//!                                                Env::wait ─► granted, deadlock, or time-out
//!   commit, rollback, drop ─► LockOwner::release ─► LockQueue ─► others are granted
//! ```
//!
//! * `ranges`: what is locked, as disjoint ranges with their holders.
//! * `queue`: which request is granted, in which order; deadlocks.
//!
//! One lock protects both, for as long as a search of an ordered map takes, and nothing is waited
//! for under it. Waiting and time come from the environment, so that a simulator can drive them.
//!
//! Knows no transaction but its number, no reads, no writes: what is locked is up to the caller,
//! who keeps all locks until the transaction has ended (strict two-phase locking).
//!
//! The memory of locks is charged to the account, as part of that of transactions, and not bounded
//! by it: some 320 bytes for a key of 16 bytes, about three times what a transaction remembers of a
//! key that it has read.
//!
//! Tests: random requests against a naive model, here; transactions in `tests/transactions`;
//! orders of steps in `tests/schedules`.

mod queue;
mod ranges;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Event};

use self::queue::{LockOutcome, LockQueue};
pub use self::ranges::LockMode;
use crate::error::{Error, Result};
use crate::events::{self, Events};
use crate::format::key_range::KeyRange;
use crate::memory::Charge;
use crate::stats::Counters;

/// The locks of the pessimistic transactions of a database. See the module's documentation.
pub struct LockTable {
    env: Arc<dyn Env>,
    counters: Arc<Counters>,
    events: Arc<Events>,
    state: Mutex<LockState>,
}

struct LockState {
    queue: LockQueue,
    /// Transactions that have begun.
    begun: u64,
    charge: Charge,
}

/// A transaction as the lock table knows it. Dropping it releases its locks.
pub struct LockOwner {
    table: Arc<LockTable>,
    number: u64,
    answered: Arc<Event>,
}

impl LockTable {
    /// Creates a table without locks, whose memory is charged to `charge`.
    pub fn new(env: Arc<dyn Env>, counters: Arc<Counters>, events: Arc<Events>, charge: Charge) -> Self {
        let state = LockState { queue: LockQueue::default(), begun: 0, charge };
        Self { env, counters, events, state: Mutex::new(Rank::TransactionLocks, state) }
    }

    /// Begins a transaction. If it is run again, `number` is that of the attempt before, which has
    /// ended: it is as old as that one, so that it does not lose deadlocks for ever.
    pub fn begin(self: &Arc<Self>, number: Option<u64>) -> LockOwner {
        let number = number.unwrap_or_else(|| {
            let mut state = self.state.lock();
            state.begun += 1;
            state.begun
        });
        LockOwner { table: self.clone(), number, answered: Arc::new(Event::new()) }
    }
}

impl LockState {
    fn settle(&mut self) {
        let bytes = self.queue.bytes();
        self.charge.set(bytes);
    }
}

impl LockOwner {
    /// The number of the transaction: a younger one has a larger number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Locks all keys in `range`, which stay locked until [`LockOwner::release`]. Waits while
    /// others have locks that conflict, or have waited for longer, but at most for `timeout`
    /// ([`Duration::MAX`]: without an end). Must not be called with a lock of the engine taken.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if this transaction has lost a deadlock; it has no locks any more.
    /// [`Error::LockTimeout`] if the time is over; its other locks stay.
    pub fn lock(&self, range: &KeyRange, mode: LockMode, timeout: Duration) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let LockTable { env, counters, events, state } = &*self.table;
        let mut locked = state.lock();
        let is_granted = locked.queue.request(self.number, range, mode, &self.answered);
        locked.settle();
        drop(locked);
        if is_granted {
            return Ok(());
        }
        counters.lock_waits.add(1);
        let deadline = (timeout < Duration::MAX).then(|| env.now().saturating_add(timeout));
        env.wait(&self.answered, deadline, &mut || state.lock().queue.has_outcome(self.number));
        let mut locked = state.lock();
        let outcome = locked.queue.take_outcome(self.number);
        // Without an outcome the time is over.
        let waited_for = outcome.is_none().then(|| locked.queue.give_up(self.number));
        locked.settle();
        drop(locked);
        match (outcome, waited_for) {
            (Some(LockOutcome::Granted), _) => Ok(()),
            (Some(LockOutcome::Deadlock(what)), _) => {
                counters.deadlocks.add(1);
                let error = Error::Deadlock { what };
                events.post(|| events::Event::DeadlockFound { error: error.clone() });
                Err(error)
            }
            (None, what) => {
                counters.lock_timeouts.add(1);
                let what = what.unwrap_or_default();
                Err(Error::LockTimeout { what: format!("{what}; it has waited for {timeout:?}") })
            }
        }
    }

    /// Releases all locks.
    pub fn release(&self) {
        let mut state = self.table.state.lock();
        state.queue.release(self.number);
        state.settle();
    }
}

impl Drop for LockOwner {
    fn drop(&mut self) {
        self.release();
    }
}
