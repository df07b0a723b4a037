//! Eight threads increment counters: what users lose without transactions.

use tamarack::{Db, Result};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::thread;

const THREADS: u64 = 8;
const INCREMENTS: u64 = 2000;

/// The counter that a value is.
fn count(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().expect("a counter has eight bytes")))
}

/// Runs `increment` by all threads, each for two counters in turn.
fn incremented(increment: impl Fn(&Db, &str) -> Result<()> + Sync) {
    let db = crate::in_memory();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, increment) = (&db, &increment);
            scope.spawn(move || {
                for number in 0..INCREMENTS {
                    let counter = if (thread + number) % 4 == 0 { "rare" } else { "often" };
                    increment(db, counter).expect("it is tried again until it commits");
                }
            });
        }
    });
    let counters = ["rare", "often"].map(|counter| count(db.get(counter).unwrap().as_deref()));
    assert_eq!(counters, [THREADS * INCREMENTS / 4, THREADS * INCREMENTS * 3 / 4]);
    assert_eq!(db.stats().transactions_committed, THREADS * INCREMENTS);
    println!("{} conflicts", db.stats().transaction_conflicts);
}

#[test]
fn no_increment_by_transact_is_lost() {
    incremented(|db, counter| {
        db.transact(|transaction| {
            let before = count(transaction.get(counter)?.as_deref());
            transaction.put(counter, (before + 1).to_be_bytes());
            Ok(())
        })
    });
}

#[test]
fn no_increment_by_fetch_update_is_lost() {
    incremented(|db, counter| {
        db.fetch_update(counter, |before| Some((count(before) + 1).to_be_bytes()))?;
        Ok(())
    });
}

#[test]
fn no_increment_by_transact_pessimistic_is_lost() {
    incremented(|db, counter| {
        db.transact_pessimistic(|transaction| {
            let before = count(transaction.get_for_update(counter)?.as_deref());
            transaction.put(counter, (before + 1).to_be_bytes())?;
            Ok(())
        })
    });
}

/// Every other increment takes locks, and the others do not.
#[test]
fn no_increment_by_both_kinds_is_lost() {
    let number = AtomicU64::new(0);
    incremented(|db, counter| match number.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => db.transact_pessimistic(|transaction| {
            let before = count(transaction.get_for_update(counter)?.as_deref());
            transaction.put(counter, (before + 1).to_be_bytes())?;
            Ok(())
        }),
        _ => db.fetch_update(counter, |before| Some((count(before) + 1).to_be_bytes())).map(drop),
    });
}
