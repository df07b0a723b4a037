//! Running a transaction again after a conflict or a deadlock, a bounded number of times.
//!
//! Of transactions that are in conflict with each other, one commits: the others have the conflict
//! because of it. So all together make progress, but one of them alone may lose again and again.
//! Growing pauses of random length let each of them through: after the first conflicts, others are
//! likely to pause for as long as a transaction takes.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;

use super::{PessimisticTransaction, Transaction};
use crate::engine::Engine;
use crate::error::{Error, Result};

/// How often a transaction is run at most. All pauses together then are about half a second.
const ATTEMPTS_MAX: u32 = 100;

/// The upper bound on the pause after the second conflict; it doubles with each further one. About
/// the time that a thread takes to wake up: the first retry comes at once.
const PAUSE_MIN: Duration = Duration::from_micros(50);

/// The upper bound on every pause. A sync of a slow device takes about as long, and a transaction
/// with it.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Runs `run` in a transaction and commits it, again and again while that is a conflict.
///
/// # Errors
/// The conflict of the last attempt; any other error, and any of `run`, at once.
pub(crate) fn transact<T>(engine: &Arc<Engine>, mut run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
    let mut conflicts = 0;
    loop {
        let mut transaction = Transaction::begin(engine);
        // What `run` fails with is not this commit's: another transaction in it may have had a
        // conflict, and its attempts.
        let value = run(&mut transaction)?;
        match transaction.commit() {
            Err(conflict @ Error::Conflict { .. }) => {
                conflicts += 1;
                if conflicts == ATTEMPTS_MAX {
                    return Err(conflict);
                }
                pause(&*engine.env, conflicts);
            }
            outcome => return outcome.map(|()| value),
        }
    }
}

/// Runs `run` in a pessimistic transaction and commits it, again and again while it loses deadlocks
/// or has conflicts with those who take no locks. Each attempt is as old as the first one.
///
/// # Errors
/// The deadlock or conflict of the last attempt; any other error, and any of `run`, at once.
pub(crate) fn transact_pessimistic<T>(
    engine: &Arc<Engine>,
    mut run: impl FnMut(&mut PessimisticTransaction) -> Result<T>,
) -> Result<T> {
    let (mut number, mut failures) = (None, 0);
    loop {
        let mut transaction = PessimisticTransaction::begin(engine, number);
        number = Some(transaction.number());
        let value = run(&mut transaction);
        let error = match value {
            // An error that `run` has not returned counts as well: nothing can be committed.
            Ok(value) => match transaction.commit() {
                Ok(()) => return Ok(value),
                Err(error @ (Error::Conflict { .. } | Error::Deadlock { .. })) => error,
                Err(other) => return Err(other),
            },
            // Not an error of another transaction in it.
            Err(error) if transaction.has_ended() => error,
            Err(error) => return Err(error),
        };
        failures += 1;
        if failures == ATTEMPTS_MAX {
            return Err(error);
        }
        pause(&*engine.env, failures);
    }
}

/// Pauses for a random time, after so many failures.
fn pause(env: &dyn Env, conflicts: u32) {
    if conflicts < 2 {
        return;
    }
    let most = PAUSE_MIN.saturating_mul(1 << (conflicts - 2).min(16)).min(PAUSE_MAX);
    let nanoseconds = env.random() % most.as_nanos() as u64;
    env.sleep_until(env.now() + Duration::from_nanos(nanoseconds));
}
