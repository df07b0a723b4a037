//! Transactions of two threads and a writer: where they begin, are validated, and end, in many
//! orders.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::{AdvancedOptions, Batch, Compression, Db, Options};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv};

use crate::explore;
#[cfg(debug_assertions)]
use crate::is_noticed;

/// Two transactions increment a counter; a writer sets it without looking. The counter ends at what
/// the writer has set, with so many increments as came after it: those that have read as much.
/// Whether the writer's put is noted depends on which transactions are active when it joins.
#[test]
fn increments_beside_a_blind_write() {
    explore(800, increments_and_a_blind_write);
}

fn increments_and_a_blind_write() {
    let db = open();
    db.put("n", [0]).unwrap();
    let adders = [(); 2].map(|()| spawn(&db, increment));
    let writer = spawn(&db, |db| db.put("n", [100]).unwrap());
    let before = adders.map(|adder| adder.join().unwrap());
    writer.join().unwrap();
    assert_increments(&db, &before);
}

/// Each increment of the counter has found another number, and is in it if it came after it was set
/// to 100.
pub(crate) fn assert_increments(db: &Db, before: &[u8]) {
    let after = before.iter().filter(|before| **before >= 100).count() as u8;
    let n = number(db, "n");
    let is_right = n == 100 + after && before.iter().collect::<BTreeSet<_>>().len() == before.len();
    assert_right(is_right, format_args!("the increments have found {before:?} and left {n}"));
}

thread_local! {
    /// Whether a program has found something wrong. What fails after it can hide its message.
    static IS_WRONG: Cell<bool> = const { Cell::new(false) };
}

fn assert_right(is_right: bool, what: fmt::Arguments<'_>) {
    IS_WRONG.set(!is_right);
    assert!(is_right, "{what}");
}

/// Two increments, and a batch with other keys in the same groups.
#[test]
fn increments_are_not_lost() {
    explore(800, || {
        let db = open();
        let adders = [(); 2].map(|()| spawn(&db, increment));
        let writer = spawn(&db, |db| {
            db.put("other", [1]).unwrap();
            db.put("other", [2]).unwrap();
        });
        let mut before = adders.map(|adder| adder.join().unwrap());
        before.sort_unstable();
        writer.join().unwrap();
        assert_eq!((before, number(&db, "n"), number(&db, "other")), ([0, 1], 2, 2));
    });
}

/// Each of two transactions takes one of two marks away if both are there, and a writer puts a
/// third one: one mark of the two stays.
#[test]
fn no_write_skew() {
    explore(800, two_marks);
}

fn two_marks() {
    let db = open();
    let marks = ["mark 1", "mark 2"];
    marks.iter().for_each(|mark| db.put(mark, "").unwrap());
    let takers = marks.map(|mark| {
        spawn(&db, move |db| {
            let taken = db.transact(|transaction| {
                let both = transaction.prefix("mark ").count() == 2;
                if both {
                    transaction.delete(mark);
                }
                Ok(both)
            });
            taken.unwrap()
        })
    });
    let writer = spawn(&db, |db| db.put("other", "").unwrap());
    let taken = takers.map(|taker| taker.join().unwrap());
    writer.join().unwrap();
    let marks = db.prefix("mark ").count();
    assert_right(marks == 1, format_args!("{marks} marks are left: {taken:?}"));
}

/// A run is ingested beside a transaction that reads what it replaces, and a writer: as with a
/// blind write.
#[test]
fn an_increment_beside_an_ingest() {
    explore(400, an_increment_and_an_ingest);
}

fn an_increment_and_an_ingest() {
    let db = open();
    db.put("n", [0]).unwrap();
    let adder = spawn(&db, increment);
    let writer = spawn(&db, |db| db.put("other", [1]).unwrap());
    let mut ingest = db.ingest().unwrap();
    ingest.put("n", [100]).unwrap();
    ingest.finish().unwrap();
    let before = adder.join().unwrap();
    writer.join().unwrap();
    assert_increments(&db, &[before]);
}

/// A batch has more keys than are kept. Of transactions one after another, only the one can be too
/// old beside which it joins a group; none is that begins while the batch is in progress.
#[test]
fn no_transaction_is_born_too_old() {
    explore(400, || {
        let db = options().memory_bytes(1 << 20).open("/db").unwrap();
        let reading = || {
            let mut transaction = db.transaction();
            assert_eq!(transaction.get("n").unwrap(), None);
            transaction.put("other", "");
            transaction
        };
        // It keeps the keys noted.
        let long = reading();
        let mut batch = Batch::new();
        for key in 0..500_u16 {
            batch.put(key.to_be_bytes(), "");
        }
        let writer = spawn(&db, move |db| db.write(&batch).unwrap());
        let refused = (0..3).filter(|_| reading().commit().is_err()).count();
        assert!(refused <= 1, "{refused} transactions were too old");
        writer.join().unwrap();
        assert!(reading().commit().is_ok() && long.commit().is_err());
    });
}

/// That the programs above can fail.
#[cfg(debug_assertions)]
#[test]
fn what_is_not_validated_is_noticed() {
    let programs: [(Mistake, fn()); 4] = [
        (Mistake::KeysNotValidated, increments_and_a_blind_write),
        (Mistake::RangesNotValidated, two_marks),
        (Mistake::BegunUnpublished, increments_and_a_blind_write),
        (Mistake::JoinedBesideRun, an_increment_and_an_ingest),
    ];
    for (mistake, program) in programs {
        assert!(is_noticed(mistake, 5000, program, || IS_WRONG.get()), "{mistake:?} is not noticed");
    }
}

pub(crate) fn open() -> Db {
    options().open("/db").unwrap()
}

fn options() -> Options {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let advanced = AdvancedOptions::new().env(env).memtable_bytes(10_000).block_bytes(64).cache_bytes(0);
    Options::new().compression(Compression::None).threads(1).advanced(advanced)
}

/// Increments the counter, and returns what it was.
fn increment(db: &Db) -> u8 {
    let before = db.fetch_update("n", |n| Some([n.map_or(0, |n| n[0]) + 1])).unwrap();
    before.map_or(0, |before| before[0])
}

pub(crate) fn number(db: &Db, key: &str) -> u8 {
    db.get(key).unwrap().expect("it is there")[0]
}

/// A thread with a handle of its own, which it drops at its end.
pub(crate) fn spawn<T: Send + 'static>(db: &Db, run: impl FnOnce(&Db) -> T + Send + 'static) -> thread::JoinHandle<T> {
    let db = db.clone();
    thread::spawn(move || run(&db))
}
