//! Range deletes while memtables are flushed and runs are compacted: whoever reads sees one
//! generation of keys, whichever of the WAL, the memtables and the version has the range delete.

use std::cell::Cell;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::{AdvancedOptions, Batch, Compression, Db, Options, Snapshot};
use tamarack_env::sync::thread;

use crate::explore;
#[cfg(debug_assertions)]
use crate::is_noticed;
use crate::watched::watched_env;

/// Each generation deletes all keys by a range delete and puts two others, in one batch.
const GENERATIONS: u64 = 3;

#[test]
fn generations_replace_each_other() {
    explore(250, replace);
}

/// That the program above can fail.
#[cfg(debug_assertions)]
#[test]
fn a_range_delete_that_ends_early_is_noticed() {
    let mistake = Mistake::RangeDeleteEndedEarly;
    assert!(is_noticed(mistake, 2000, replace, || IS_WRONG.get()), "no order of steps showed it");
}

thread_local! {
    /// True once the program has seen keys that are wrong, on this thread.
    static IS_WRONG: Cell<bool> = const { Cell::new(false) };
}

fn replace() {
    let db = open();
    let writing = spawn(&db, |db| (1..=GENERATIONS).for_each(|generation| write(db, generation)));
    let compacting = spawn(&db, |db| db.compact().unwrap());
    let mut before = 0;
    for _ in 0..3 {
        let snapshot = db.snapshot();
        let generation = seen(&snapshot);
        check(generation >= before, before, generation);
        db.flush().unwrap();
        check(seen(&snapshot) == generation, generation, seen(&snapshot));
        before = generation;
    }
    writing.join().unwrap();
    compacting.join().unwrap();
    for _ in 0..2 {
        let last = seen(&db.snapshot());
        check(last == GENERATIONS, GENERATIONS, last);
        db.compact().unwrap();
    }
}

fn write(db: &Db, generation: u64) {
    let mut batch = Batch::new();
    batch.delete_range("a".."c");
    for key in keys_of(generation) {
        batch.put(key, [generation as u8]);
    }
    db.write(&batch).unwrap();
}

fn keys_of(generation: u64) -> [String; 2] {
    ["a", "b"].map(|letter| format!("{letter}{generation}"))
}

/// The generation, which scans in both directions and lookups see alike; 0 if there is none yet.
fn seen(snapshot: &Snapshot) -> u64 {
    let found: Vec<_> = snapshot.scan(..).map(|entry| entry.unwrap()).collect();
    let generation = found.first().map_or(0, |(_, value)| u64::from(value[0]));
    let expected = if generation == 0 { Vec::new() } else { keys_of(generation).map(String::into_bytes).to_vec() };
    let is_right = found.iter().map(|(key, _)| key).eq(&expected);
    check(is_right, generation, found.len() as u64);
    let backwards = snapshot.scan(..).rev().map(|entry| entry.unwrap().0);
    check(backwards.eq(expected.into_iter().rev()), generation, found.len() as u64);
    for other in 1..=GENERATIONS {
        let is_there = keys_of(other).map(|key| snapshot.get(key).unwrap().is_some());
        check(is_there == [other == generation; 2], generation, other);
    }
    generation
}

/// Fails unless what was seen is right.
fn check(is_right: bool, expected: u64, found: u64) {
    if !is_right {
        IS_WRONG.set(true);
        panic!("{found} beside {expected}");
    }
}

/// Each memtable has a generation or less.
fn open() -> Db {
    let advanced = AdvancedOptions::new()
        .env(watched_env())
        .memtable_bytes(20)
        .immutable_memtables_max(1)
        .block_bytes(64)
        .cache_bytes(0)
        .policy("leveling:T=2");
    Options::new().compression(Compression::None).advanced(advanced).open("/db").unwrap()
}

/// A thread with a handle of its own, which it drops at its end.
fn spawn(db: &Db, run: impl FnOnce(&Db) + Send + 'static) -> thread::JoinHandle<()> {
    let db = db.clone();
    thread::spawn(move || run(&db))
}
