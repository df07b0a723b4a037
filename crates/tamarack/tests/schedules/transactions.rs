//! Transactions of two threads and a writer: where they begin, are validated, and end, in many
//! orders.

use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::{self, Mistake};
use tamarack::{AdvancedOptions, Compression, Db, Options};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv};

use crate::explore;

/// Two transactions increment a counter; a writer sets it without looking. The counter ends at what
/// the writer has set, with so many increments as came after it. Whether the writer's put is noted
/// depends on which transactions are active when it joins.
#[test]
fn increments_beside_a_blind_write() {
    explore(800, increments_and_a_blind_write);
}

fn increments_and_a_blind_write() {
    let db = open();
    db.put("n", [0]).unwrap();
    let adders = [(); 2].map(|()| spawn(&db, increment));
    let writer = spawn(&db, |db| db.put("n", [100]).unwrap());
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    writer.join().unwrap();
    let n = number(&db, "n");
    assert!((100..=102).contains(&n), "{n}");
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
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        writer.join().unwrap();
        assert_eq!((number(&db, "n"), number(&db, "other")), (2, 2));
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
    assert_eq!(db.prefix("mark ").count(), 1, "{taken:?}");
}

/// A run is ingested beside a transaction that reads what it replaces, and a writer: as with a
/// blind write.
#[test]
fn an_increment_beside_an_ingest() {
    explore(400, || {
        let db = open();
        db.put("n", [0]).unwrap();
        let adder = spawn(&db, increment);
        let writer = spawn(&db, |db| db.put("other", [1]).unwrap());
        let mut ingest = db.ingest().unwrap();
        ingest.put("n", [100]).unwrap();
        ingest.finish().unwrap();
        adder.join().unwrap();
        writer.join().unwrap();
        let n = number(&db, "n");
        assert!((100..=101).contains(&n), "{n}");
    });
}

/// That the programs above can fail.
#[cfg(debug_assertions)]
#[test]
fn what_is_not_validated_is_noticed() {
    let programs: [(Mistake, fn()); 2] =
        [(Mistake::KeysNotValidated, increments_and_a_blind_write), (Mistake::RangesNotValidated, two_marks)];
    for (mistake, program) in programs {
        let explored = std::panic::catch_unwind(|| mistake::with(mistake, || explore(5000, program)));
        assert!(explored.is_err(), "{mistake:?} is not noticed");
    }
}

fn open() -> Db {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let advanced = AdvancedOptions::new().env(env).memtable_bytes(10_000).block_bytes(64).cache_bytes(0);
    Options::new().compression(Compression::None).threads(1).advanced(advanced).open("/db").unwrap()
}

fn increment(db: &Db) {
    db.fetch_update("n", |n| Some([n.map_or(0, |n| n[0]) + 1])).unwrap();
}

fn number(db: &Db, key: &str) -> u8 {
    db.get(key).unwrap().expect("it is there")[0]
}

/// A thread with a handle of its own, which it drops at its end.
fn spawn<T: Send + 'static>(db: &Db, run: impl FnOnce(&Db) -> T + Send + 'static) -> thread::JoinHandle<T> {
    let db = db.clone();
    thread::spawn(move || run(&db))
}
