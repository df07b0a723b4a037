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
//! * `operands`: operands of a merge operator against flushes and compactions that fold them.
//! * `range_deletes`: range deletes against flushes and compactions that apply them.
//! * `locks`: pessimistic transactions of two or three threads.
//! * `transactions`: two transactions and a writer, and an ingest.
//!
//! `watched` has the files: in memory, with a memory of what was synced and with failures to order.

mod commits;
mod database;
mod locks;
mod operands;
mod range_deletes;
mod transactions;
mod wal;
mod watched;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
#[cfg(debug_assertions)]
use tamarack::mistake::{self, Mistake};

/// Runs `test` in many orders. Half switch rarely, at moments of high chance for a bug that needs
/// up to three switches in the right places; the other half are random at every step.
fn explore(schedules: usize, test: fn()) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect(name));
    if let Ok(schedule) = std::env::var("TAMARACK_REPLAY") {
        return shuttle::replay(test, &schedule);
    }
    let schedules = number("TAMARACK_SCHEDULES").unwrap_or(schedules as u64) as usize;
    let seed = number("TAMARACK_SEED").unwrap_or(0x5eed);
    Runner::new(PctScheduler::new_from_seed(seed, 3, schedules), config()).run(test);
    Runner::new(RandomScheduler::new_from_seed(seed, schedules), config()).run(test);
}

/// Returns true if `test` fails with a mistake planted, in one of so many orders of each kind, and
/// `is_right_failure` says afterwards, on the same thread, that this was its failure.
///
/// That thread is not used again: where a failure leaves one of the explorer's threads unwinding,
/// the standard library takes the whole thread for one that panics, and a later program that fails
/// because of that would be taken for one that notices its mistake.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "the explorer's threads are within one of the machine's")]
fn is_noticed(mistake: Mistake, schedules: usize, test: fn(), is_right_failure: fn() -> bool) -> bool {
    let explored = std::thread::spawn(move || {
        let explored = std::panic::catch_unwind(|| mistake::with(mistake, || explore(schedules, test)));
        explored.is_err() && is_right_failure()
    });
    explored.join().expect("it catches the failure")
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
