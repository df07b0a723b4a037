//! Pessimistic transactions: what they lock, what they see, deadlocks, time-outs under a clock that
//! the simulator moves, how they meet those who take no locks, and transfers by many threads.

use std::sync::Arc;
use std::time::Duration;

use tamarack::mistake::{self, Mistake};
use tamarack::{
    AdvancedOptions, Batch, Db, Durability, Error, ErrorKind, Event, Options, PessimisticTransaction, Result, operators,
};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, MemoryEnv};
use tamarack_testing::Random;

use crate::{in_memory, simulated};

/// A transaction that never waits.
fn impatient(db: &Db) -> PessimisticTransaction {
    let mut transaction = db.pessimistic_transaction();
    transaction.set_lock_timeout(Duration::ZERO);
    transaction
}

#[track_caller]
fn has_kind<T>(outcome: Result<T>, kind: ErrorKind) -> String {
    match outcome {
        Err(error) if error.kind() == kind => error.to_string(),
        Err(error) => panic!("{error} instead of {kind:?}"),
        Ok(_) => panic!("no error instead of {kind:?}"),
    }
}

#[track_caller]
fn is_locked<T>(outcome: Result<T>) -> String {
    has_kind(outcome, ErrorKind::LockTimeout)
}

/// Shared locks go together, exclusive ones with none, and all are released at the end, however it
/// comes.
#[test]
fn keys_are_locked_until_the_end() -> Result<()> {
    let db = in_memory();
    db.put("a", "1")?;
    let ends: [fn(PessimisticTransaction); 4] = [
        drop,
        PessimisticTransaction::rollback,
        |first| first.commit().unwrap(),
        |first| {
            first.commit_with(Durability::Sync).unwrap();
        },
    ];
    for end in ends {
        let (mut first, mut second) = (impatient(&db), impatient(&db));
        assert!(first.contains_key("a")? && second.get("a")?.is_some());
        is_locked(second.put("a", "2").map(drop));
        is_locked(first.get_for_update("a"));
        second.rollback();
        let mut second = impatient(&db);
        first.put("a", "2")?.put("b", "2")?.delete("c")?;
        assert!(!second.contains_key("d")?);
        is_locked(second.contains_key("a"));
        is_locked(second.get("b"));
        is_locked(second.put("c", "").map(drop));
        assert_eq!(second.get_for_update("d")?, None, "a time-out changes nothing");
        end(first);
        second.get_for_update("a")?;
        second.get_for_update("b")?;
        second.put("c", "")?;
    }
    assert_eq!(db.stats().memory.transactions_bytes, 0);
    Ok(())
}

/// A range is locked with all keys in it, whether they are there or not: no phantoms. Other keys
/// are not locked.
#[test]
fn ranges_are_locked_with_what_is_not_there() -> Result<()> {
    let db = in_memory();
    db.put("job 1", "")?;
    let phantom = || -> Result<()> {
        let (mut first, mut second) = (impatient(&db), impatient(&db));
        assert_eq!(first.prefix("job ")?.count(), 1);
        second.put("jo", "")?.put("jp", "")?;
        is_locked(second.put("job 2", "").map(drop));
        is_locked(second.delete("job 1").map(drop));
        is_locked(second.delete_range("j".."k").map(drop));
        assert!(second.contains_key("job 1")? && second.scan("job 0".."job 2")?.count() == 1);
        is_locked(second.scan_for_update("job 9"..).map(drop));
        drop(first);
        drop(second.scan_for_update("job 9"..)?);
        second.put("job 2", "")?;
        Ok(())
    };
    phantom()?;
    let unnoticed = mistake::with(Mistake::InsertsNotLocked, || {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(phantom)).is_ok()
    });
    assert!(!unnoticed, "a lock without the keys that are not there is noticed");

    // An exclusive range, and one that is deleted.
    let (mut first, mut second) = (impatient(&db), impatient(&db));
    assert_eq!(first.scan_for_update("a".."c")?.count(), 0);
    first.delete_range("x"..)?;
    for key in ["a", "b", "bzz", "x", "zzz"] {
        is_locked(second.get(key));
    }
    is_locked(second.scan(..).map(drop));
    assert!(second.scan("c".."x")?.count() == 1 && second.get("c")?.is_none());
    assert_eq!(first.scan("b".."a")?.count(), 0, "an empty range locks nothing");
    Ok(())
}

/// Without the locks of what is not there, two transactions that each take one of two marks would
/// both commit if nobody validated them.
#[test]
fn phantoms_are_found_without_validation() {
    let marked = |planted: &[Mistake]| -> u64 {
        let db = in_memory();
        let run = || {
            let mut transactions = [impatient(&db), impatient(&db)];
            let mut written = 0;
            for (number, transaction) in transactions.iter_mut().enumerate() {
                // Each one marks if nobody has.
                let is_free = transaction.prefix("mark ").is_ok_and(|mut marks| marks.next().is_none());
                if is_free && transaction.put(format!("mark {number}"), "").is_ok() {
                    written += 1;
                }
            }
            for transaction in transactions {
                let _ = transaction.commit();
            }
            written
        };
        mistake::with(Mistake::KeysNotValidated, || {
            mistake::with(Mistake::RangesNotValidated, || match planted {
                [] => run(),
                [mistake, ..] => mistake::with(*mistake, run),
            })
        })
    };
    assert!(marked(&[]) <= 1);
    assert_eq!(marked(&[Mistake::InsertsNotLocked]), 2);
}

/// Reads return the newest values when the lock is granted, and own writes.
#[test]
fn reads_are_of_the_newest_values() -> Result<()> {
    let db = in_memory();
    let mut transaction = impatient(&db);
    assert_eq!(transaction.get("a")?, None);
    db.put("b", "1")?;
    assert_eq!(transaction.get("b")?.as_deref(), Some(&b"1"[..]));
    db.put("c", "2")?;
    db.put("d", "3")?;
    transaction.put("c", "own")?;
    let found: Vec<_> = transaction.scan("b"..)?.map(|entry| entry.unwrap()).collect();
    let expected = [("b", "1"), ("c", "own"), ("d", "3")].map(|(key, value)| (key.into(), value.into()));
    assert_eq!(found, expected);
    let mut back = transaction.scan("b"..)?.rev();
    assert_eq!(back.next().unwrap()?.0, b"d");
    drop(back);
    assert_eq!(transaction.get("c")?.as_deref(), Some(&b"own"[..]));
    transaction.commit()?;
    assert_eq!(db.get("c")?.as_deref(), Some(&b"own"[..]));
    assert_eq!(db.stats().transaction_conflicts, 0);
    Ok(())
}

/// Who takes no locks does not wait, and can be a conflict: found at the next read, or at the
/// commit. The transaction is over then, and its locks are released.
#[test]
fn a_plain_write_to_what_was_read_is_a_conflict() -> Result<()> {
    let db = in_memory();
    let mut transaction = impatient(&db);
    transaction.put("x", "")?.get("a")?;
    db.put("a", "1")?;
    let message = has_kind(transaction.get("b"), ErrorKind::Conflict);
    assert!(message.contains("the key \"a\", which the transaction has read"), "{message}");
    let mut other = impatient(&db);
    other.put("x", "")?.put("a", "")?;
    has_kind(transaction.get("x"), ErrorKind::Conflict);
    has_kind(transaction.put("y", "").map(drop), ErrorKind::Conflict);
    has_kind(transaction.commit(), ErrorKind::Conflict);
    drop(other);

    // A range, at the commit, by a batch with a key that was not there.
    let mut transaction = impatient(&db);
    assert_eq!(transaction.scan("k".."m")?.count(), 0);
    transaction.put("x", "")?;
    db.write(Batch::new().put("l", ""))?;
    has_kind(transaction.commit(), ErrorKind::Conflict);
    assert!(!db.contains_key("x")?);

    // An optimistic transaction, and an ingest.
    let mut transaction = impatient(&db);
    transaction.put("x", "")?.get("a")?;
    assert!(db.compare_and_swap("a", Some(b"1"), Some(b"2"))?);
    has_kind(transaction.commit(), ErrorKind::Conflict);
    let mut transaction = impatient(&db);
    transaction.get("a")?;
    let mut ingest = db.ingest()?;
    ingest.put("z", "")?;
    ingest.finish()?;
    let message = has_kind(transaction.get("b"), ErrorKind::Conflict);
    assert!(message.contains("data was ingested"), "{message}");
    let mut transaction = impatient(&db);
    assert!(transaction.contains_key("z")?);
    transaction.put("x", "")?;
    transaction.commit()?;

    // What was only written is no conflict, nor is a read without writes.
    let (mut blind, mut reader) = (impatient(&db), impatient(&db));
    blind.put("a", "blind")?;
    assert!(reader.contains_key("z")?);
    db.put("a", "plain")?;
    db.delete("z")?;
    blind.commit()?;
    reader.commit()?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"blind"[..]));
    Ok(())
}

/// An optimistic transaction that has read what a pessimistic one writes has a conflict.
#[test]
fn optimistic_transactions_have_conflicts_with_pessimistic_ones() -> Result<()> {
    let db = in_memory();
    let (mut optimistic, mut pessimistic) = (db.transaction(), impatient(&db));
    assert!(!optimistic.contains_key("a")?);
    pessimistic.put("a", "")?;
    pessimistic.commit()?;
    optimistic.put("b", "");
    has_kind(optimistic.commit(), ErrorKind::Conflict);
    Ok(())
}

/// A transaction that reads now and then keeps up with writes that are far more than the window
/// has; one that does not is too old.
#[test]
fn long_transactions_keep_up() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().memory_bytes(1 << 20).advanced(advanced).open("/db")?;
    let (mut reads, mut sleeps) = (impatient(&db), impatient(&db));
    assert!(!reads.contains_key("a")? && !sleeps.contains_key("b")?);
    for number in 0..2000 {
        db.put(format!("key {number:04}"), "")?;
        if number % 50 == 0 {
            assert!(reads.contains_key(format!("key {number:04}"))?);
        }
    }
    reads.put("a", "")?;
    reads.commit()?;
    let message = has_kind(sleeps.contains_key("c"), ErrorKind::Conflict);
    assert!(message.contains("too old"), "{message}");
    drop(sleeps);
    // One that has only written has nothing to lose.
    let mut writes = impatient(&db);
    writes.put("b", "")?;
    for number in 0..1000 {
        db.put(format!("key {number:04}"), "")?;
    }
    assert!(writes.contains_key("a")?);
    writes.commit()?;
    assert_eq!(db.stats().memory.transactions_bytes, 0);
    Ok(())
}

/// Savepoints take back writes, and no locks.
#[test]
fn savepoints_keep_locks() -> Result<()> {
    let db = in_memory();
    let (mut first, mut second) = (impatient(&db), impatient(&db));
    first.put("a", "1")?;
    let savepoint = first.savepoint();
    first.put("a", "2")?.put("b", "2")?;
    first.rollback_to(savepoint)?;
    is_locked(second.get("b"));
    assert!(first.get("b")?.is_none() && second.rollback_to(savepoint).is_err());
    first.commit()?;
    assert_eq!(second.get("a")?.as_deref(), Some(&b"1"[..]));
    Ok(())
}

/// Operands wait for locks, and are folded into what is newest.
#[test]
fn operands_are_locked() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().merge_operator(Arc::new(operators::Add)).advanced(advanced).open("/db")?;
    let (mut first, mut second) = (impatient(&db), impatient(&db));
    first.merge("n", 5_u64.to_le_bytes())?;
    is_locked(second.merge("n", 7_u64.to_le_bytes()).map(drop));
    db.merge("n", 100_u64.to_le_bytes())?;
    assert_eq!(first.get("n")?.as_deref(), Some(&105_u64.to_le_bytes()[..]));
    first.commit()?;
    second.merge("n", 7_u64.to_le_bytes())?;
    second.commit()?;
    assert_eq!(db.get("n")?.as_deref(), Some(&112_u64.to_le_bytes()[..]));
    Ok(())
}

/// The time-out is one of the environment's clock, to the nanosecond; its message says who waits
/// for whom.
#[test]
fn time_outs_come_by_the_clock() -> Result<()> {
    let (env, db) = simulated();
    let (mut first, mut second) = (db.pessimistic_transaction(), db.pessimistic_transaction());
    drop(first.put("a", "")?.scan("k".."m")?);
    second.get("b")?;
    for (timeout, waits) in [(None, 1000), (Some(0), 0), (Some(250), 250), (Some(3_600_000), 3_600_000)] {
        if let Some(timeout) = timeout {
            second.set_lock_timeout(Duration::from_millis(timeout));
        }
        let began = env.now();
        let message = is_locked(second.get("a"));
        assert_eq!(env.now() - began, Duration::from_millis(waits));
        let waited = Duration::from_millis(waits);
        assert_eq!(
            message,
            format!(
                "lock time-out: transaction 2 waits for a shared lock on the key \"a\", which transaction 1 has \
                 locked; it has waited for {waited:?}; try again once the others have ended, or wait for longer \
                 (`PessimisticTransaction::set_lock_timeout`)"
            )
        );
    }
    second.set_lock_timeout(Duration::ZERO);
    let message = is_locked(second.scan_for_update("c"..).map(drop));
    assert!(
        message.contains("an exclusive lock on the range \"c\".., in which the key \"k\" transaction 1 has locked"),
        "{message}"
    );
    assert_eq!((db.stats().lock_waits, db.stats().lock_timeouts, db.stats().deadlocks), (5, 5, 0));
    first.commit()?;
    second.get_for_update("a")?;
    second.commit()
}

/// Waits until so many locks are waited for.
fn wait_for_waits(db: &Db, waits: u64) {
    while db.stats().lock_waits < waits {
        thread::yield_now();
    }
}

/// Each of n transactions wants what the next one has locked: the youngest loses at once, and the
/// others commit. Its locks are released although it still is there.
#[test]
fn deadlocks_of_threads() -> Result<()> {
    for transactions in [2_u64, 3, 6] {
        let db = in_memory();
        let mut all: Vec<_> = (0..transactions).map(|_| db.pessimistic_transaction()).collect();
        for (number, transaction) in (0..).zip(&mut all) {
            transaction.set_lock_timeout(Duration::MAX).put([number], [number])?;
        }
        let mut youngest = all.pop().expect("there are some");
        thread::scope(|scope| {
            for (number, mut transaction) in (0..).zip(all) {
                let db = &db;
                scope.spawn(move || {
                    wait_for_waits(db, u64::from(number));
                    transaction.put([number + 1], [number]).unwrap();
                    transaction.commit().unwrap();
                });
            }
            wait_for_waits(&db, transactions - 1);
            let message = has_kind(youngest.get([0]), ErrorKind::Deadlock);
            assert!(
                message.contains(&format!("transaction {transactions}, the youngest, was rolled back")),
                "{message}"
            );
            for number in 1..transactions {
                let other = number + 1;
                let wait = format!(
                    "transaction {number} waits for an exclusive lock on the key \"\\x{number:02x}\", which \
                     transaction {other} has locked"
                );
                assert!(message.contains(&wait), "{message}");
            }
        });
        has_kind(youngest.put("x", "").map(drop), ErrorKind::Deadlock);
        has_kind(youngest.commit(), ErrorKind::Deadlock);
        assert_eq!((db.stats().deadlocks, db.stats().transactions_committed), (1, transactions - 1));
        let last = u8::try_from(transactions - 1).expect("few");
        assert_eq!(db.get([last])?.as_deref(), Some(&[last - 1][..]));
        assert_eq!(db.stats().memory.transactions_bytes, 0);
    }
    Ok(())
}

/// An older transaction that closes a cycle does not lose: the one that waits already does.
#[test]
fn the_youngest_loses_although_it_waits() -> Result<()> {
    let db = in_memory();
    let (mut older, mut younger) = (db.pessimistic_transaction(), db.pessimistic_transaction());
    older.put("a", "older")?;
    younger.put("b", "younger")?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            younger.set_lock_timeout(Duration::MAX);
            has_kind(younger.get("a"), ErrorKind::Deadlock)
        });
        wait_for_waits(&db, 1);
        older.set_lock_timeout(Duration::MAX).put("b", "older").unwrap();
        waiting.join().expect("it does not panic");
    });
    older.commit()?;
    drop(younger);
    assert_eq!(db.get("b")?.as_deref(), Some(&b"older"[..]));
    Ok(())
}

/// A listener hears of a deadlock, with its error.
#[test]
fn deadlocks_are_events() -> Result<()> {
    let found = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let notes = found.clone();
    let listener = move |event: &Event| {
        if let Event::DeadlockFound { error } = event {
            notes.lock().push(error.to_string());
        }
    };
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().listener(Arc::new(listener)).advanced(advanced).open("/db")?;
    let (mut older, mut younger) = (db.pessimistic_transaction(), db.pessimistic_transaction());
    older.set_lock_timeout(Duration::MAX).get("a")?;
    younger.get("a")?;
    let lost = thread::scope(|scope| {
        let waiting = scope.spawn(move || older.put("a", "").map(drop));
        wait_for_waits(&db, 1);
        let lost = younger.put("a", "").map(drop).expect_err("both want it for themselves");
        waiting.join().expect("it does not panic").expect("the other one has lost");
        lost
    });
    drop(younger);
    db.close()?;
    assert_eq!(*found.lock(), [lost.to_string()]);
    Ok(())
}

/// A transaction is run again after deadlocks and conflicts of its own, as old as it was, so often
/// and no more; other errors come at once.
#[test]
fn retries() -> Result<()> {
    let (_, db) = simulated();
    let mut numbers = Vec::new();
    db.transact_pessimistic(|transaction| {
        numbers.push(transaction.number());
        transaction.get("a")?;
        if numbers.len() < 5 {
            db.put("a", "")?;
        }
        transaction.put("b", "").map(drop)
    })?;
    assert_eq!(numbers, [1; 5]);
    let mut attempts = 0;
    let never = db.transact_pessimistic(|transaction| {
        attempts += 1;
        transaction.get("a")?;
        db.put("a", "")?;
        transaction.get("b").map(drop)
    });
    has_kind(never, ErrorKind::Conflict);
    assert_eq!(attempts, 100);
    // The time-out, and the conflict of another transaction, are errors like any other.
    let mut holder = db.pessimistic_transaction();
    holder.put("a", "")?;
    attempts = 0;
    is_locked(db.transact_pessimistic(|transaction| {
        attempts += 1;
        transaction.get("a").map(drop)
    }));
    has_kind(
        db.transact_pessimistic(|_| {
            attempts += 1;
            let mut nested = db.transaction();
            nested.get("c")?;
            db.put("c", "")?;
            nested.put("d", "");
            nested.commit()
        }),
        ErrorKind::Conflict,
    );
    assert_eq!(attempts, 2);
    // One that goes on after its error cannot commit.
    let mut is_first = true;
    db.transact_pessimistic(|transaction| {
        if std::mem::take(&mut is_first) {
            transaction.get("c")?;
            db.put("c", "")?;
            assert!(transaction.get("d").is_err());
        }
        Ok(())
    })?;
    Ok(())
}

#[test]
fn closed_and_read_only_databases() -> Result<()> {
    let env = MemoryEnv::new(1);
    let db = crate::open(env.clone());
    db.put("a", "1")?;
    let mut late = db.pessimistic_transaction();
    late.put("b", "")?;
    db.clone().close()?;
    assert!(matches!(late.commit(), Err(Error::Stopped { .. })));
    drop(db);
    let options = Options::new().advanced(AdvancedOptions::new().env(env));
    let db = options.open_read_only("/db")?;
    let mut reader = db.pessimistic_transaction();
    assert!(reader.contains_key("a")? && !reader.contains_key("b")?);
    reader.put("b", "")?;
    has_kind(reader.commit(), ErrorKind::ReadOnly);
    Ok(())
}

const ACCOUNTS: u64 = 10;
const BALANCE: u64 = 1000;

fn balance(value: Option<&[u8]>) -> u64 {
    value.map_or(BALANCE, |value| u64::from_be_bytes(value.try_into().expect("eight bytes")))
}

/// Eight threads move amounts between accounts, some by locks for updates, some by shared locks
/// that become exclusive, some optimistically. Others add all accounts up, by scans under shared
/// locks and by snapshots. The sum stays, and every transfer is made.
#[test]
fn transfers_keep_the_sum() -> Result<()> {
    let db = in_memory();
    let total = ACCOUNTS * BALANCE;
    for account in 0..ACCOUNTS {
        db.put(account.to_be_bytes(), BALANCE.to_be_bytes())?;
    }
    let sum = |values: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>| -> u64 {
        values.map(|entry| balance(Some(&entry.unwrap().1))).sum()
    };
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let transfers: Vec<_> = (0..8_u64)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    for _ in 0..400 {
                        let from = random.below(ACCOUNTS);
                        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                        let amount = random.below(20);
                        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
                        match thread % 4 {
                            0 => db.transact(|transaction| {
                                let balances =
                                    [from, to].map(|key| transaction.get(key).map(|found| balance(found.as_deref())));
                                let [before, other] = balances;
                                let (before, other) = (before?, other?);
                                let moved = amount.min(before);
                                transaction.put(from, (before - moved).to_be_bytes());
                                transaction.put(to, (other + moved).to_be_bytes());
                                Ok(())
                            }),
                            kind => db.transact_pessimistic(|transaction| {
                                let mut get = |key| match kind {
                                    1 => transaction.get(key),
                                    _ => transaction.get_for_update(key),
                                };
                                let (before, other) = (balance(get(from)?.as_deref()), balance(get(to)?.as_deref()));
                                let moved = amount.min(before);
                                transaction.put(from, (before - moved).to_be_bytes())?;
                                transaction.put(to, (other + moved).to_be_bytes())?;
                                Ok(())
                            }),
                        }
                        .expect("it is tried again until it commits");
                    }
                })
            })
            .collect();
        let (db, sum, has_ended) = (&db, &sum, &has_ended);
        scope.spawn(move || {
            while !has_ended.load(Ordering::SeqCst) {
                let found = db.transact_pessimistic(|transaction| Ok(sum(&mut transaction.scan(..)?)));
                assert_eq!(found.expect("it is tried again"), total);
                assert_eq!(sum(&mut db.scan(..)), total);
            }
        });
        transfers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        has_ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(sum(&mut db.scan(..)), total);
    let stats = db.stats();
    assert_eq!((stats.transactions_committed, stats.memory.transactions_bytes), (8 * 400, 0));
    println!("{} waits, {} deadlocks, {} conflicts", stats.lock_waits, stats.deadlocks, stats.transaction_conflicts);
    Ok(())
}
