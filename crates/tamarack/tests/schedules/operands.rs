//! Operands of a merge operator, written, read and folded at once.

use std::cell::Cell;
use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::operators::Append;
use tamarack::{AdvancedOptions, Compression, Db, Options, Snapshot};
use tamarack_env::sync::thread;

use crate::explore;
#[cfg(debug_assertions)]
use crate::is_noticed;
use crate::watched::watched_env;

/// Two writers append to one value, each its own letter, while memtables are flushed and all is
/// compacted. Each operand counts once, whatever folds it; what a snapshot sees stays.
#[test]
fn operands_are_folded_once() {
    explore(250, append);
}

/// That the program above can fail.
#[cfg(debug_assertions)]
#[test]
fn a_lost_operand_is_noticed() {
    assert!(is_noticed(Mistake::OperandLost, 2000, append, || IS_WRONG.get()), "no order of steps showed it");
}

thread_local! {
    /// True once the program has seen a value that is wrong, on this thread.
    static IS_WRONG: Cell<bool> = const { Cell::new(false) };
}

fn append() {
    let db = open();
    db.put("key", "").unwrap();
    let writers = ["a", "b"].map(|letter| {
        spawn(&db, move |db| {
            for _ in 0..3 {
                db.merge("key", letter).unwrap();
            }
        })
    });
    let compacting = spawn(&db, |db| db.compact().unwrap());
    let mut before = String::new();
    for _ in 0..4 {
        let snapshot = db.snapshot();
        let value = seen(&snapshot);
        check(value.starts_with(&before), &before, &value);
        db.flush().unwrap();
        let again = seen(&snapshot);
        check(again == value, &value, &again);
        before = value;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    compacting.join().unwrap();
    for _ in 0..2 {
        let all = seen(&db.snapshot());
        let count = |letter| all.matches(letter).count();
        check(all.len() == 6 && count("a") == 3 && count("b") == 3, "three of each", &all);
        db.compact().unwrap();
    }
}

/// Fails unless what was seen is right.
fn check(is_right: bool, expected: &str, found: &str) {
    if !is_right {
        IS_WRONG.set(true);
        panic!("{found:?} after {expected:?}");
    }
}

/// The value, which a lookup and a scan see alike.
fn seen(snapshot: &Snapshot) -> String {
    let value = snapshot.get("key").unwrap().expect("it is never deleted");
    let scanned: Vec<_> = snapshot.scan(..).map(|entry| entry.unwrap().1).collect();
    let [found, scanned] = [&value[..], &scanned[0]].map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    check(found == scanned, &found, &scanned);
    found
}

/// Each memtable has an entry or two.
fn open() -> Db {
    let advanced = AdvancedOptions::new()
        .env(watched_env())
        .memtable_bytes(20)
        .immutable_memtables_max(1)
        .block_bytes(64)
        .cache_bytes(0)
        .policy("leveling:T=2");
    let options = Options::new().compression(Compression::None).merge_operator(Arc::new(Append));
    options.advanced(advanced).open("/db").unwrap()
}

/// A thread with a handle of its own, which it drops at its end.
fn spawn(db: &Db, run: impl FnOnce(&Db) + Send + 'static) -> thread::JoinHandle<()> {
    let db = db.clone();
    thread::spawn(move || run(&db))
}
