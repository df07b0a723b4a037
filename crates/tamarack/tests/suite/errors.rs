//! Kinds of errors: each is provoked, and its message says what happened, where, and what to do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Db, Durability, Error, ErrorKind, Options, step};
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::thread;
use tamarack_env::{Access, Env, MemoryEnv, OsEnv, SimEnv, Step};
use tamarack_format::names::FileName;
use tamarack_testing::{read_dir, write_dir};

const DIR: &str = "/trees";

fn options(env: Arc<dyn Env>) -> Options {
    Options::new().advanced(AdvancedOptions::new().env(env))
}

fn simulated() -> (SimEnv, Options) {
    let env = SimEnv::new(1);
    (env.clone(), options(Arc::new(env)))
}

/// Every error that somebody can meet, with the kind that it must have and the message.
fn provoked() -> Vec<(ErrorKind, Error, &'static str)> {
    vec![
        (
            ErrorKind::NotFound,
            simulated().1.create_if_missing(false).open(DIR).expect_err("there is none"),
            "/trees: there is no database here; check the path, or allow opening to create one",
        ),
        (
            ErrorKind::Locked,
            locked(),
            "/trees/LOCK: another process, or another handle in this one, has the database open; close it there first",
        ),
        (
            ErrorKind::Corruption,
            damaged(),
            "/trees/0000000001.sst: damaged at byte 0: a block does not have its checksum; `Options::verify` lists all damage",
        ),
        (ErrorKind::InvalidArgument, too_long(), "the key has 65537 bytes; the maximum is 65536"),
        (
            ErrorKind::Conflict,
            conflict(),
            "conflict: the key \"oak\", which the transaction has read, was written since the transaction began; run \
             the transaction again, as `Db::transact` does",
        ),
        (
            ErrorKind::Deadlock,
            deadlock(),
            "deadlock: transaction 2 waits for a shared lock on the key \"ash\", which transaction 1 has locked; \
             transaction 1 waits for an exclusive lock on the key \"oak\", which transaction 2 has locked; transaction 2, \
             the youngest, was rolled back; run it again, as `Db::transact_pessimistic` does",
        ),
        (
            ErrorKind::LockTimeout,
            lock_timeout(),
            "lock time-out: transaction 2 waits for an exclusive lock on the range \"a\"..\"p\", in which the key \"oak\" \
             transaction 1 has locked; it has waited for 1s; try again once the others have ended, or wait for longer \
             (`PessimisticTransaction::set_lock_timeout`)",
        ),
        (
            ErrorKind::Merge,
            no_number(),
            "merge operator tamarack.add64, key \"oak\": a value or operand has 3 bytes instead of 8",
        ),
        (
            ErrorKind::Unsupported,
            newer(),
            "/trees/CALIBRATION: line 1: version 2 of this form; this program reads version 1; open it with a newer \
             version of Tamarack, or with a build that has that feature",
        ),
        (
            ErrorKind::OldFormat,
            older(),
            "/trees/0000000001.manifest: format version 1; this build reads version 2 only. Nothing was changed: export the \
             database with the program that wrote it, and import the records into a new one",
        ),
        (ErrorKind::ReadOnly, read_only(), "/trees: the database is open read-only; open it for writing to change it"),
        (
            ErrorKind::StorageFull,
            failed(step::WAL_APPEND, Failure::StorageFull),
            "/trees/0000000001.wal: wal: append failed: no storage space; free some space, then try again",
        ),
        (
            ErrorKind::Io,
            failed(step::WAL_APPEND, Failure::Io),
            "/trees/0000000001.wal: wal: append failed: simulated input/output error; check the device and the \
             system's log, then try again",
        ),
        (ErrorKind::Closed, closed(), "the database is closed; open it again"),
        (
            ErrorKind::Stopped,
            failed(step::WAL_SYNC, Failure::Io),
            "/trees/0000000001.wal: wal: sync failed: simulated input/output error; writes have stopped, because \
             it is unknown how much of the last one is durable; reads still work; check the device and the system's log, then reopen the database",
        ),
    ]
}

fn locked() -> Error {
    let (_, options) = simulated();
    let _first = options.open(DIR).expect("it is new");
    options.open(DIR).expect_err("it is open")
}

/// A lookup in a table whose first block has another byte than was written.
fn damaged() -> Error {
    let (env, options) = simulated();
    let db = options.open(DIR).expect("it is new");
    db.put("oak", "9.80").and_then(|()| db.flush()).expect("nothing fails");
    db.close().expect("nothing fails");
    let table = env.open(&FileName::Table(1).path(Path::new(DIR)), Access::ReadWrite).expect("it was flushed");
    table.write_all_at(b"\xFF", 0, Step("test: damage")).expect("nothing fails");
    let db = options.open(DIR).expect("tables are not read");
    db.get("oak").expect_err("it is damaged")
}

fn new_database() -> Db {
    simulated().1.open(DIR).expect("it is new")
}

fn too_long() -> Error {
    new_database().put(vec![b'k'; 65537], "").expect_err("the key is too long")
}

/// A transaction whose read is overtaken.
fn conflict() -> Error {
    let db = new_database();
    let mut transaction = db.transaction();
    assert!(!transaction.contains_key("oak").expect("nothing fails"));
    db.put("oak", "9.80").expect("nothing fails");
    transaction.put("oak", "11.20");
    transaction.commit().expect_err("what it has read was changed")
}

/// Two transactions that each want the key that the other one has.
fn deadlock() -> Error {
    let db = options(MemoryEnv::new(1)).open(DIR).expect("it is new");
    let (mut older, mut younger) = (db.pessimistic_transaction(), db.pessimistic_transaction());
    older.put("ash", "7.10").expect("nobody has it");
    younger.put("oak", "9.80").expect("nobody has it");
    thread::scope(|scope| {
        let waits = scope.spawn(move || older.set_lock_timeout(Duration::MAX).put("oak", "9.90").map(drop));
        while db.stats().lock_waits == 0 {
            thread::yield_now();
        }
        let error = younger.get("ash").expect_err("a deadlock");
        waits.join().expect("it does not panic").expect("the other one was rolled back");
        error
    })
}

/// A range with a key that another transaction has locked.
fn lock_timeout() -> Error {
    let db = new_database();
    let (mut one, mut other) = (db.pessimistic_transaction(), db.pessimistic_transaction());
    one.put("oak", "9.80").expect("nobody has it");
    other.delete_range("a".."p").map(drop).expect_err("it is locked")
}

/// A value that cannot be added to.
fn no_number() -> Error {
    let db = simulated().1.merge_operator(Arc::new(tamarack::operators::Add)).open(DIR).expect("memory");
    db.put("oak", "one").expect("memory");
    db.merge("oak", 1u64.to_le_bytes()).expect("memory");
    db.get("oak").expect_err("not eight bytes")
}

/// Figures of a device that another version has stored.
fn newer() -> Error {
    let (env, options) = simulated();
    drop(options.open(DIR).expect("it is new"));
    let path = FileName::Calibration.path(Path::new(DIR));
    let file = env.create(&path, Step("test: make")).expect("it is new");
    let content = tamarack_format::calibration::encode_calibration("tamarack device 2\n");
    file.write_all_at(content.as_bytes(), 0, Step("test: make")).expect("nothing fails");
    options.calibration(DIR).expect_err("it is newer")
}

/// A database that a program of format version 1 has left.
fn older() -> Error {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/database");
    let env = MemoryEnv::new(0);
    write_dir(&*env, Path::new(DIR), &read_dir(&*OsEnv::new(), &golden));
    options(env).open(DIR).expect_err("it is older")
}

fn read_only() -> Error {
    let (_, options) = simulated();
    options.open(DIR).and_then(|db| db.put("oak", "9.80")).expect("it is new");
    let db = options.open_read_only(DIR).expect("it is there");
    db.put("oak", "11.20").expect_err("it is open for reading only")
}

/// A durable put, a call of which fails.
fn failed(step: Step, failure: Failure) -> Error {
    let (env, options) = simulated();
    let db = options.durability(Durability::Sync).open(DIR).expect("it is new");
    env.inject(Fault::new(failure).step(step));
    db.put("oak", "9.80").expect_err("it fails")
}

fn closed() -> Error {
    let db = new_database();
    let other = db.clone();
    db.close().expect("nothing fails");
    other.put("oak", "9.80").expect_err("it is closed")
}

/// Errors have the kinds and the messages that they should have.
#[test]
fn kinds_have_messages() {
    let provoked = provoked();
    let found: Vec<_> = provoked.iter().map(|(_, error, _)| (error.kind(), error.to_string())).collect();
    let expected: Vec<_> = provoked.iter().map(|(kind, _, message)| (*kind, message.to_string())).collect();
    assert_eq!(found, expected, "{found:#?}");
}
