//! Orders of steps: small programs of two to four threads, run again and again, each time in
//! another order that the schedule explorer chooses.
//!
//! ```text
//!   cargo test -p tamarack --features shuttle --test schedules
//! ```
//!
//! Locks, atomics and threads are the explorer's (see `tamarack_env::sync`), so it decides at each
//! of them which thread goes on. It does not know weak memory. A thread that nobody wakes is a
//! deadlock, and one that waits for ever without sleeping runs out of steps: both fail, like an
//! assertion, and the order that led there is printed.
//!
//! | variable | what it does |
//! |---|---|
//! | `TAMARACK_SCHEDULES=100000` | so many orders of each program and kind |
//! | `TAMARACK_SEED=7` | other orders |
//! | `TAMARACK_REPLAY=91…` and the test's name | that order alone, as a failure printed it |
//!
//! What is explored:
//!
//! * `commits`: the commit queue with a WAL and no background work: groups, full groups, rotation,
//!   failures, the order of publishing.
//! * `wal`: sharing of syncs, with and without failures; rotation meanwhile; deadlines of interval
//!   syncs.
//! * `database`: the whole: readers and snapshots against rotation, flushes and compactions; two
//!   workers on one compaction; stalls; closing and dropping.
//! * `transactions`: two transactions and a writer, and an ingest.
//!
//! `watched` has the files: in memory, with a memory of what was synced and with failures to order.

mod commits;
mod database;
mod transactions;
mod wal;
mod watched;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Runs `test` in many orders. Half are random at every step; the other half switch rarely, at
/// moments of high chance for a bug that needs up to three switches in the right places.
fn explore(schedules: usize, test: fn()) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect(name));
    if let Ok(schedule) = std::env::var("TAMARACK_REPLAY") {
        return shuttle::replay(test, &schedule);
    }
    let schedules = number("TAMARACK_SCHEDULES").unwrap_or(schedules as u64) as usize;
    let seed = number("TAMARACK_SEED").unwrap_or(0x5eed);
    Runner::new(RandomScheduler::new_from_seed(seed, schedules), config()).run(test);
    Runner::new(PctScheduler::new_from_seed(seed, 3, schedules), config()).run(test);
}

fn config() -> Config {
    let mut config = Config::new();
    // Opening a database needs more than the explorer's usual stack.
    config.stack_size = 512 << 10;
    config.failure_persistence = FailurePersistence::Print;
    // Tens of times what any of the programs needs.
    config.max_steps = MaxSteps::FailAfter(200_000);
    // It warns once that it takes all atomics for sequentially consistent.
    config.silence_warnings = true;
    config
}
