//! Examples: what is a conflict and what is none, savepoints, retries, bounds, errors.

use tamarack::mistake::{self, Mistake};
use tamarack::{AdvancedOptions, Batch, Db, Durability, Error, Options, Result, step};
use tamarack_env::MemoryEnv;
use tamarack_env::sim::{Failure, Fault};

use crate::{in_memory, simulated};

/// The message of a conflict.
#[track_caller]
fn conflict<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Err(error @ Error::Conflict { .. }) => error.to_string(),
        other => panic!("{other:?} instead of a conflict"),
    }
}

#[test]
fn a_key_that_was_read_and_written_is_a_conflict() -> Result<()> {
    let db = in_memory();
    db.put("a", "1")?;
    let mut transaction = db.transaction();
    assert_eq!(transaction.get("a")?.as_deref(), Some(&b"1"[..]));
    db.put("a", "2")?;
    assert_eq!(transaction.get("a")?.as_deref(), Some(&b"1"[..]), "it reads as of its beginning");
    transaction.put("b", "");
    let message = conflict(transaction.commit());
    assert!(message.contains("the key \"a\", which the transaction has read, was written"), "{message}");
    assert!(message.contains("run the transaction again"), "{message}");
    assert!(!db.contains_key("b")?);
    Ok(())
}

/// A key that was not there counts as read, as does one that is put with the same value.
#[test]
fn absent_and_unchanged_keys_are_read_as_well() -> Result<()> {
    let db = in_memory();
    for deletes in [false, true] {
        let mut transaction = db.transaction();
        assert!(!transaction.contains_key("a")?);
        if deletes {
            db.delete("a")?
        } else {
            db.put("a", "")?
        }
        transaction.put("b", "");
        conflict(transaction.commit());
        db.delete("a")?;
    }
    Ok(())
}

/// A key that appears in a range that was scanned is a phantom.
#[test]
fn phantoms_are_conflicts() -> Result<()> {
    let db = in_memory();
    db.write(Batch::new().put("b", "").put("d", ""))?;
    for (written, is_conflict) in [("a", false), ("b", true), ("c", true), ("d", true), ("e", false)] {
        let mut transaction = db.transaction();
        assert_eq!(transaction.scan("b"..="d").count(), 2);
        let mut batch = Batch::new();
        db.write(if written == "c" { batch.delete(written) } else { batch.put(written, "") })?;
        transaction.put("x", "");
        match is_conflict {
            true => assert!(conflict(transaction.commit()).contains("in the range \"b\"..\"d\\x00\"")),
            false => transaction.commit()?,
        }
    }
    let mut transaction = db.transaction();
    assert_eq!(transaction.prefix("q").count(), 0);
    db.put("queue", "")?;
    transaction.put("x", "");
    conflict(transaction.commit());
    Ok(())
}

/// Of a scan, what was iterated counts: up to the last key that was returned, from either end.
#[test]
fn what_a_scan_has_not_reached_is_not_read() -> Result<()> {
    let db = in_memory();
    for key in ["b", "d", "f", "h"] {
        db.put(key, "")?;
    }
    for (written, is_conflict) in [("a", true), ("b", true), ("c", false), ("d", false), ("g", false), ("h", true)] {
        let mut transaction = db.transaction();
        let mut scan = transaction.scan(..);
        assert_eq!(scan.next().transpose()?.map(|(key, _)| key), Some(b"b".to_vec()));
        assert_eq!(scan.next_back().transpose()?.map(|(key, _)| key), Some(b"h".to_vec()));
        drop(scan);
        let never_used = transaction.scan(..);
        drop(never_used);
        db.put(written, "")?;
        transaction.put("x", "");
        match is_conflict {
            true => drop(conflict(transaction.commit())),
            false => transaction.commit()?,
        }
        for added in ["a", "c", "g", "x"] {
            db.delete(added)?;
        }
    }
    Ok(())
}

/// The head of a queue is taken while others append.
#[test]
fn a_queue_is_read_at_one_end_and_written_at_the_other() -> Result<()> {
    let db = in_memory();
    db.write(Batch::new().put("job 1", "").put("job 2", ""))?;
    let mut transaction = db.transaction();
    let first = transaction.prefix("job ").limit(1).next().transpose()?.expect("there is one");
    transaction.delete(&first.0);
    db.put("job 3", "")?;
    transaction.commit()?;
    assert_eq!(db.prefix("job ").count(), 2);
    // A scan that is forgotten has read its whole range.
    let mut transaction = db.transaction();
    let mut scan = transaction.prefix("job ");
    assert!(scan.next().is_some());
    std::mem::forget(scan);
    transaction.put("x", "");
    db.put("job 4", "")?;
    conflict(transaction.commit());
    Ok(())
}

/// Neither keys that were only written, nor what was read in a transaction without writes, nor own
/// writes that were read, are conflicts.
#[test]
fn what_is_no_conflict() -> Result<()> {
    let db = in_memory();
    let (mut first, mut second) = (db.transaction(), db.transaction());
    first.put("a", "first");
    second.put("a", "second");
    assert_eq!(second.get("a")?.as_deref(), Some(&b"second"[..]));
    second.commit()?;
    first.commit()?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"first"[..]));

    let reader = db.transaction();
    assert_eq!(reader.scan(..).count(), 1);
    db.put("b", "")?;
    assert_eq!(reader.scan(..).count(), 1);
    reader.commit()?;

    // What was written before it began.
    let mut transaction = db.transaction();
    assert!(transaction.contains_key("b")?);
    transaction.put("c", "");
    transaction.commit_with(Durability::Sync)?;
    Ok(())
}

/// Without writes of its own, a synced commit makes those of others durable, as an empty batch
/// does. The default durability asks for nothing: there is nothing to make durable.
#[test]
fn a_synced_commit_without_writes_syncs_those_before() -> Result<()> {
    let (env, db) = simulated();
    let syncs = || env.step_counts().get(&step::WAL_SYNC).copied().unwrap_or(0);
    db.put("a", "")?;
    let before = syncs();
    db.transaction().commit()?;
    db.transaction().commit_with(Durability::Buffered)?;
    assert_eq!(syncs(), before);
    let reader = db.transaction();
    assert!(reader.contains_key("a")?);
    reader.commit_with(Durability::Sync)?;
    assert_eq!(syncs(), before + 1);
    Ok(())
}

/// One of two transactions that each read what the other writes commits: no write skew.
#[test]
fn no_write_skew() -> Result<()> {
    let db = in_memory();
    db.write(Batch::new().put("on call: ada", "").put("on call: bob", ""))?;
    let mut transactions = [db.transaction(), db.transaction()];
    for (transaction, name) in transactions.iter_mut().zip(["ada", "bob"]) {
        assert_eq!(transaction.prefix("on call: ").count(), 2);
        transaction.delete(format!("on call: {name}"));
    }
    let [first, second] = transactions;
    first.commit()?;
    conflict(second.commit());
    assert_eq!(db.prefix("on call: ").count(), 1);
    Ok(())
}

#[test]
fn own_writes_are_merged_into_scans() -> Result<()> {
    let db = in_memory();
    for key in ["b", "d", "f"] {
        db.put(key, "old")?;
    }
    let mut transaction = db.transaction();
    transaction.put("a", "own").put("d", "own").delete("f").put("g", "own").delete("z");
    let forward: Vec<_> = transaction.scan(..).map(|entry| entry.unwrap().0[0]).collect();
    let backward: Vec<_> = transaction.scan(..).rev().map(|entry| entry.unwrap().0[0]).collect();
    assert_eq!((&forward[..], &backward[..]), (&b"abdg"[..], &b"gdba"[..]));
    let limited: Vec<_> = transaction.scan("b"..).limit(2).map(|entry| entry.unwrap().1).collect();
    assert_eq!(limited, [b"old", b"own"]);
    assert_eq!(transaction.scan("f".."g").count(), 0);
    assert_eq!(transaction.scan("g".."a").count(), 0);
    assert_eq!(transaction.get("f")?, None);
    assert!(transaction.contains_key("g")? && !transaction.contains_key("z")?);
    transaction.rollback();
    assert_eq!(db.scan(..).count(), 3);
    Ok(())
}

#[test]
fn savepoints() -> Result<()> {
    let db = in_memory();
    let mut transaction = db.transaction();
    transaction.put("a", "1");
    let first = transaction.savepoint();
    transaction.put("a", "2").put("b", "2");
    let second = transaction.savepoint();
    transaction.delete("a");
    transaction.rollback_to(second)?;
    assert_eq!(transaction.get("a")?.as_deref(), Some(&b"2"[..]));
    transaction.rollback_to(first)?;
    assert_eq!(transaction.get("a")?.as_deref(), Some(&b"1"[..]));
    assert_eq!(transaction.get("b")?, None);
    assert!(matches!(transaction.rollback_to(second), Err(Error::InvalidArgument(_))));
    // Another transaction has savepoints of its own, with writes that stay.
    let mut other = db.transaction();
    let of_other = other.savepoint();
    other.put("other", "");
    let refused = transaction.rollback_to(of_other);
    assert!(
        matches!(&refused, Err(Error::InvalidArgument(what)) if what.contains("another transaction")),
        "{refused:?}"
    );
    assert!(other.rollback_to(first).is_err() && other.contains_key("other")?);
    drop(other);
    // What was read after the savepoint counts still.
    transaction.rollback_to(first)?;
    db.put("b", "other")?;
    conflict(transaction.commit());
    Ok(())
}

/// Two databases number their transactions and savepoints alike; a savepoint of one is none of the
/// other.
#[test]
fn savepoints_of_another_database() -> Result<()> {
    let databases = [in_memory(), in_memory()];
    let [mut one, mut other] = databases.each_ref().map(Db::transaction);
    let [of_one, of_other] = [one.savepoint(), other.savepoint()];
    assert_ne!(of_one, of_other);
    one.put("a", "1");
    let refused = one.rollback_to(of_other);
    assert!(
        matches!(&refused, Err(Error::InvalidArgument(what)) if what.contains("another transaction")),
        "{refused:?}"
    );
    assert!(other.rollback_to(of_one).is_err() && one.contains_key("a")?);
    one.rollback_to(of_one)?;
    assert!(!one.contains_key("a")?);
    Ok(())
}

#[test]
fn atomic_operations_on_one_key() -> Result<()> {
    let db = in_memory();
    assert!(db.put_if_absent("a", "1")? && !db.put_if_absent("a", "2")?);
    assert!(!db.compare_and_swap("a", Some(b"2"), Some(b"3"))?);
    assert!(db.compare_and_swap("a", Some(b"1"), Some(b"3"))?);
    assert!(!db.compare_and_swap("b", Some(b""), None)?);
    assert!(db.compare_and_swap("b", None, None)?);
    assert_eq!(db.take("a")?.as_deref(), Some(&b"3"[..]));
    assert_eq!(db.take("a")?, None);
    let double = |old: Option<&[u8]>| old.map(|old| [old, old].concat());
    assert_eq!(db.fetch_update("c", double)?, None);
    assert!(!db.contains_key("c")?);
    db.put("c", "xy")?;
    assert_eq!(db.fetch_update("c", double)?.as_deref(), Some(&b"xy"[..]));
    assert_eq!(db.get("c")?.as_deref(), Some(&b"xyxy"[..]));
    let written = db.stats().entries_written;
    db.fetch_update("c", |old| old.map(<[u8]>::to_vec))?;
    assert_eq!(db.stats().entries_written, written, "the value stays the same");
    Ok(())
}

/// A transaction is run again after a conflict, so often and no more; other errors come at once.
#[test]
fn retries_are_bounded() -> Result<()> {
    let (_, db) = simulated();
    let mut attempts = 0;
    let value = db.transact(|transaction| {
        attempts += 1;
        transaction.get("a")?;
        if attempts < 5 {
            db.put("a", "")?;
        }
        transaction.put("b", "");
        Ok(attempts)
    })?;
    assert_eq!((value, attempts), (5, 5));
    attempts = 0;
    let never: Result<()> = db.transact(|transaction| {
        attempts += 1;
        transaction.get("a")?;
        db.put("a", "")?;
        transaction.put("c", "");
        Ok(())
    });
    conflict(never);
    assert_eq!(attempts, 100);
    attempts = 0;
    let refused: Result<()> = db.transact(|transaction| {
        attempts += 1;
        transaction.put("c", "");
        Err(Error::InvalidArgument("no".to_owned()))
    });
    assert!(matches!(refused, Err(Error::InvalidArgument(_))) && attempts == 1);
    assert!(!db.contains_key("c")?);
    assert_eq!((db.stats().transactions_committed, db.stats().transaction_conflicts), (1, 104));
    // The conflict of another transaction is an error like any other.
    attempts = 0;
    conflict(db.transact(|_| {
        attempts += 1;
        let mut nested = db.transaction();
        nested.get("a")?;
        db.put("a", "")?;
        nested.put("d", "").get("a")?;
        nested.commit()
    }));
    assert_eq!(attempts, 1);
    Ok(())
}

/// The keys that are kept to find conflicts take a share of the budget: a transaction that others
/// write too much beside is too old, unless it has written nothing.
#[test]
fn long_transactions_become_too_old() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().memory_bytes(1 << 20).advanced(advanced).open("/db")?;
    let (mut old, reader) = (db.transaction(), db.transaction());
    assert!(!old.contains_key("a")?);
    for number in 0..1000 {
        db.put(format!("key {number}"), "")?;
    }
    let of_window = db.stats().memory.transactions_bytes;
    assert!((20_000..=(1 << 15) + 1000).contains(&of_window), "{of_window} bytes");
    let mut young = db.transaction();
    assert!(!young.contains_key("a")?);
    old.put("b", "");
    let message = conflict(old.commit());
    assert!(message.contains("too old") && message.contains("32768 bytes"), "{message}");
    young.put("b", "");
    young.commit()?;
    reader.commit()?;
    assert_eq!(db.stats().memory.transactions_bytes, 0);
    Ok(())
}

/// That the bound is noticed: without it, an increment would be lost.
#[test]
fn forgotten_notes_that_are_overlooked_are_noticed() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().memory_bytes(1 << 20).advanced(advanced).open("/db")?;
    let old = || -> Result<()> {
        let mut old = db.transaction();
        old.get("a")?;
        db.put("a", "")?;
        for number in 0..1000 {
            db.put(format!("key {number}"), "")?;
        }
        old.put("a", "");
        old.commit()
    };
    conflict(old());
    mistake::with(Mistake::ForgottenOverlooked, old)
}

/// What a transaction has read and written is charged as long as it lives.
#[test]
fn memory_of_transactions_is_charged() -> Result<()> {
    let db = in_memory();
    let bytes = || db.stats().memory.transactions_bytes;
    let mut transaction = db.transaction();
    transaction.put("a", vec![0; 10_000]);
    assert!(bytes() > 10_000);
    transaction.get([b'k'; 1000])?;
    assert!(bytes() > 11_000);
    drop(transaction);
    assert_eq!(bytes(), 0);
    Ok(())
}

/// An ingested run is written past the commit queue: who has read something before cannot commit.
/// Who has only written can.
#[test]
fn an_ingest_makes_transactions_too_old() -> Result<()> {
    let db = in_memory();
    let (mut before, mut blind) = (db.transaction(), db.transaction());
    before.put("a", "").get("c")?;
    blind.put("a", "");
    let mut ingest = db.ingest()?;
    ingest.put("b", "")?;
    let mut meanwhile = db.transaction();
    meanwhile.put("a", "");
    meanwhile.commit()?;
    ingest.finish()?;
    let message = conflict(before.commit());
    assert!(message.contains("data was ingested"), "{message}");
    blind.commit()?;
    let mut after = db.transaction();
    assert!(after.contains_key("b")?);
    after.put("a", "");
    after.commit()
}

/// A group that fails leaves no conflict behind: transactions that begin later go on, although
/// another one keeps what the group had noted.
#[test]
fn a_failed_group_is_no_conflict_for_later_transactions() -> Result<()> {
    let (env, db) = simulated();
    db.put("a", "0")?;
    let long = db.transaction();
    for _ in 0..3 {
        env.inject(Fault::new(Failure::Io).step(step::WAL_APPEND).from_call(env.calls_made()));
        let failed = db.fetch_update("a", |_| Some("1"));
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        env.clear_faults();
        let conflicts = db.stats().transaction_conflicts;
        let before = db.fetch_update("a", |_| Some("0 again"))?;
        assert!(before.is_some());
        assert_eq!(db.stats().transaction_conflicts, conflicts);
    }
    assert_eq!(long.get("a")?.as_deref(), Some(&b"0"[..]));
    Ok(())
}

#[test]
fn transactions_of_closed_and_read_only_databases() -> Result<()> {
    let env = MemoryEnv::new(1);
    let db = crate::open(env.clone());
    db.put("a", "1")?;
    let mut late = db.transaction();
    late.put("b", "");
    db.clone().close()?;
    assert!(matches!(late.commit(), Err(Error::Stopped { .. })));
    drop(db);
    let options = Options::new().advanced(AdvancedOptions::new().env(env));
    let db = options.open_read_only("/db")?;
    let reader = db.transaction();
    assert!(reader.contains_key("a")? && !reader.contains_key("b")?);
    reader.commit()?;
    let mut writer = db.transaction();
    writer.put("b", "");
    assert!(matches!(writer.commit(), Err(Error::ReadOnly { .. })));
    Ok(())
}

/// Limits are those of a batch.
#[test]
fn transactions_that_are_too_large() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1));
    let db = Options::new().memory_bytes(1 << 20).advanced(advanced).open("/db")?;
    let mut large = db.transaction();
    for key in ["a", "b"] {
        large.put(key, vec![0; 70 << 10]);
    }
    let refused = large.commit();
    assert!(
        matches!(&refused, Err(Error::InvalidArgument(what)) if what.contains("of the transaction")),
        "{refused:?}"
    );
    // One write may be as large as it may be alone.
    let mut one = db.transaction();
    one.put("a", vec![0; 128 << 10]);
    one.commit()?;
    db.delete("a")?;
    assert_eq!(db.scan(..).count(), 0);
    Ok(())
}

/// A value that a transaction has not committed outlives it.
#[test]
fn values_outlive_transactions() -> Result<()> {
    let db = in_memory();
    let mut transaction = db.transaction();
    let own = transaction.put("a", "own").get("a")?;
    drop(transaction);
    assert_eq!(own.as_deref(), Some(&b"own"[..]));
    assert!(!db.contains_key("a")?);
    Ok(())
}
