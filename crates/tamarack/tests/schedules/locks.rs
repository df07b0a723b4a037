//! Pessimistic transactions of two or three threads: their locks, waits and deadlocks, in many
//! orders. None has a time-out, so a wait that nobody ends is a deadlock for the explorer.

use std::time::Duration;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::{Batch, Db, PessimisticTransaction, Result};

use crate::explore;
#[cfg(debug_assertions)]
use crate::is_noticed;
use crate::transactions::{assert_increments, number, open, spawn};

/// Runs a transaction that waits for as long as it takes.
fn locked<T>(db: &Db, mut run: impl FnMut(&mut PessimisticTransaction) -> Result<T>) -> T {
    let locked = db.transact_pessimistic(|transaction| run(transaction.set_lock_timeout(Duration::MAX)));
    locked.expect("it is run again until it commits")
}

/// Increments a number, and returns what it was.
fn increment(transaction: &mut PessimisticTransaction, key: &str) -> Result<u8> {
    let before = transaction.get_for_update(key)?.map_or(0, |number| number[0]);
    transaction.put(key, [before + 1])?;
    Ok(before)
}

/// Increments wait for each other, and none has a conflict.
#[test]
fn increments_wait_for_each_other() {
    explore(400, increments);
}

fn increments() {
    let db = open();
    let adders = [(); 2].map(|()| spawn(&db, |db| locked(db, |transaction| increment(transaction, "n"))));
    let mut before = adders.map(|adder| adder.join().unwrap());
    before.sort_unstable();
    assert_eq!((before, number(&db, "n"), db.stats().transaction_conflicts), ([0, 1], 2, 0));
}

/// Two transactions lock two keys, each in its own order: one may lose a deadlock, and both end.
#[test]
fn opposite_orders() {
    explore(400, || {
        let db = open();
        let adders = [["a", "b"], ["b", "a"]].map(|keys| {
            spawn(&db, move |db| {
                locked(db, |transaction| keys.iter().try_for_each(|key| increment(transaction, key).map(drop)))
            })
        });
        adders.map(|adder| adder.join().unwrap());
        assert_eq!((number(&db, "a"), number(&db, "b"), db.stats().transaction_conflicts), (2, 2, 0));
        assert!(db.stats().deadlocks <= 2);
    });
}

/// Both have a shared lock before either wants it for itself.
#[test]
fn shared_locks_that_become_exclusive() {
    explore(400, || {
        let db = open();
        let adders = [(); 2].map(|()| {
            spawn(&db, |db| {
                locked(db, |transaction| {
                    let before = transaction.get("n")?.map_or(0, |number| number[0]);
                    transaction.put("n", [before + 1]).map(drop)
                })
            })
        });
        adders.map(|adder| adder.join().unwrap());
        assert_eq!((number(&db, "n"), db.stats().transaction_conflicts), (2, 0));
    });
}

/// A writer that takes no locks sets the number meanwhile.
#[test]
fn a_locked_increment_beside_a_blind_write() {
    explore(400, || {
        let db = open();
        db.put("n", [0]).unwrap();
        let adders = [(); 2].map(|()| spawn(&db, |db| locked(db, |transaction| increment(transaction, "n"))));
        let writer = spawn(&db, |db| db.put("n", [100]).unwrap());
        let before = adders.map(|adder| adder.join().unwrap());
        writer.join().unwrap();
        assert_increments(&db, &before);
    });
}

/// Of two transactions that each mark a range as taken if it is free, one finds it free.
#[test]
fn a_range_is_taken_once() {
    explore(400, || {
        let db = open();
        let takers = ["mark 1", "mark 2"].map(|mark| {
            spawn(&db, move |db| {
                locked(db, |transaction| {
                    let is_free = transaction.prefix("mark ")?.next().is_none();
                    if is_free {
                        transaction.put(mark, "")?;
                    }
                    Ok(is_free)
                })
            })
        });
        let taken = takers.map(|taker| taker.join().unwrap());
        assert_eq!((taken.iter().filter(|taken| **taken).count(), db.prefix("mark ").count()), (1, 1));
        assert_eq!(db.stats().transaction_conflicts, 0);
    });
}

/// A batch sets two keys. A transaction that reads both sees all of it or nothing, or has a
/// conflict.
fn reads_beside_a_batch() {
    let db = open();
    let writer = spawn(&db, |db| {
        // So that the second read has a reason to take a newer snapshot.
        db.put("other", [1]).unwrap();
        db.write(Batch::new().put("a", [1]).put("b", [1])).unwrap();
    });
    let mut transaction = db.pessimistic_transaction();
    let first = transaction.get("a").unwrap().is_some();
    if let Ok(second) = transaction.get("b") {
        assert_eq!(first, second.is_some());
    }
    writer.join().unwrap();
}

#[test]
fn all_reads_are_of_one_snapshot() {
    explore(400, reads_beside_a_batch);
}

/// One of three transactions waits for two others, of which the second one waits for it.
fn two_readers_and_a_writer() {
    let db = open();
    let short = spawn(&db, |db| locked(db, |transaction| transaction.contains_key("k").map(drop)));
    let long = spawn(&db, |db| {
        locked(db, |transaction| {
            transaction.contains_key("k")?;
            transaction.put("m", [1]).map(drop)
        });
    });
    locked(&db, |transaction| transaction.put("m", [2])?.put("k", [2]).map(drop));
    short.join().unwrap();
    long.join().unwrap();
    assert_eq!(number(&db, "k"), 2);
}

#[test]
fn a_cycle_through_one_of_two_readers() {
    explore(400, two_readers_and_a_writer);
}

/// That the programs above can fail.
#[cfg(debug_assertions)]
#[test]
fn broken_locks_are_noticed() {
    let programs: [(Mistake, fn()); 4] = [
        (Mistake::LocksReleasedEarly, increments),
        (Mistake::PublishedUnnoticed, increments),
        (Mistake::SnapshotNotCompared, reads_beside_a_batch),
        (Mistake::WaitEdgeMissed, two_readers_and_a_writer),
    ];
    for (mistake, program) in programs {
        assert!(is_noticed(mistake, 5000, program, || true), "{mistake:?} is not noticed");
    }
}
