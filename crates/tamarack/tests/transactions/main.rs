//! Transactions: what they promise, from outside.
//!
//! * `locked`: random pessimistic transactions, interleaved on the simulator, against a model of
//!   locks.
//! * `pessimistic`: examples of pessimistic transactions; deadlocks, time-outs, transfers by many
//!   threads.
//! * `stories`: examples of conflicts, savepoints, retries, bounds and errors.
//! * `serial`: random transactions, interleaved on the simulator, against a serial model.
//! * `histories`: many threads; what they have read and written is searched for cycles of
//!   dependencies. Planted mistakes are found that way.
//! * `counters`: many threads increment counters; none of the increments is lost.
//! * `crashes`: after a crash at any call, a transaction is there as a whole or not at all.

#![cfg(not(feature = "shuttle"))]

mod counters;
mod crashes;
mod histories;
mod locked;
mod pessimistic;
mod serial;
mod stories;

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options};
use tamarack_env::{Env, MemoryEnv, SimEnv};

/// Opens a database with small memtables.
fn open(env: Arc<dyn Env>) -> Db {
    let advanced = AdvancedOptions::new().env(env).memtable_bytes(1000).block_bytes(200);
    Options::new().threads(1).advanced(advanced).open("/db").expect("it opens")
}

/// A database in memory.
fn in_memory() -> Db {
    open(MemoryEnv::new(1))
}

/// A database on the simulator, with its virtual clock.
fn simulated() -> (SimEnv, Db) {
    let env = SimEnv::new(1);
    (env.clone(), open(Arc::new(env)))
}
