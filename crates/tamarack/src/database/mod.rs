//! [`Database`]: the state that all trees of an open database share.
//!
//! ```text
//! Database ── sequences    which sequence is visible, and the snapshots           (sequences)
//!          ├─ health       background errors, and whether writing has ended       (health)
//!          ├─ progress     wakes threads that wait for a flush or a compaction
//!          ├─ events       events for listeners
//!          ├─ durable edit the number that new files carry
//!          ├─ flusher      the worker that writes immutable memtables
//!          └─ file lock    keeps other processes away
//! ```
//!
//! A tree ([`crate::tree::state::Tree`]) holds a reference to the database that it belongs to, and
//! everything that reads holds a tree. So the file lock is released when the last handle, snapshot,
//! or iterator is dropped.
//!
//! Knows no key, no run, and no file other than the lock. Locks: the list of snapshots and the
//! background errors; gets and puts take neither while nothing has failed.
//!
//! Tests: `sequences` and `health` have their own; `tests/faults` and `tests/schedules` exercise
//! both through the engine.

use std::sync::{Arc, OnceLock};

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::{Env, Event, Lock, Worker};

use crate::entry::Sequence;
use crate::error::Result;
use crate::events::Events;
use crate::format::meta::EditNumber;

mod health;
mod sequences;

pub use health::{Activity, Health};
pub use sequences::{ClosedGate, Registration, Sequences};

/// The parts of an open database that do not belong to one tree.
pub struct Database {
    /// Which sequences are visible, and the snapshots.
    pub sequences: Sequences,
    /// Notified when a flush or a compaction was installed or failed, and when writing ends.
    pub progress: Arc<Event>,
    /// Events for listeners.
    pub events: Arc<Events>,
    /// Background errors, and whether writing is enabled.
    pub health: Health,
    /// The last durable manifest edit: new files carry its number.
    durable_edit: AtomicU64,
    /// Woken when a memtable became immutable.
    flusher: OnceLock<Arc<dyn Worker>>,
    _lock: Box<dyn Lock>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("sequences", &self.sequences).finish_non_exhaustive()
    }
}

impl Database {
    /// Creates a database in which everything up to `visible` is visible and whose last durable
    /// edit is `edit`. Keeps `lock` until it is dropped.
    pub fn new(visible: Sequence, edit: EditNumber, events: Arc<Events>, lock: Box<dyn Lock>) -> Self {
        let progress = Arc::new(Event::new());
        Self {
            sequences: Sequences::new(visible),
            health: Health::new(events.clone(), progress.clone()),
            progress,
            events,
            durable_edit: AtomicU64::new(edit.0),
            flusher: OnceLock::new(),
            _lock: lock,
        }
    }

    /// Returns the last durable manifest edit.
    pub fn durable_edit(&self) -> EditNumber {
        EditNumber(self.durable_edit.load(Ordering::Acquire))
    }

    /// Records that an edit is durable. Older ones than the last have no effect.
    pub fn advance_durable_edit(&self, edit: EditNumber) {
        self.durable_edit.fetch_max(edit.0, Ordering::Release);
    }

    /// Blocks until `is_done` returns true or an error. It is called at once, and again whenever a
    /// flush or a compaction was installed or failed, and when writing ends. The caller holds no
    /// lock.
    ///
    /// # Errors
    /// That of `is_done`.
    pub fn wait(&self, env: &dyn Env, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut outcome = Ok(());
        env.wait(&self.progress, None, &mut || match is_done() {
            Ok(is_done) => is_done,
            Err(error) => {
                outcome = Err(error);
                true
            }
        });
        outcome
    }

    /// Registers the worker that flushes; called once.
    pub fn set_flusher(&self, worker: Arc<dyn Worker>) {
        assert!(self.flusher.set(worker).is_ok(), "a database has one flusher");
    }

    /// Wakes the flusher: an immutable memtable may be complete.
    pub fn wake_flusher(&self) {
        if let Some(worker) = self.flusher.get() {
            worker.wake();
        }
    }
}
