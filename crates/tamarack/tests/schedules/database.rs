//! The whole database with its background threads: reads while memtables are rotated, flushed and
//! compacted, and closing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::{AdvancedOptions, Batch, Compression, Db, Durability, Error, Options, Snapshot, step};
use tamarack_env::sync::thread;

use crate::explore;
#[cfg(debug_assertions)]
use crate::is_noticed;
use crate::watched::{WatchedEnv, watched_env};

/// One key is written again and again. Two versions fit a memtable, so that a flush drops one of
/// them. A reader sees versions in order, none missing. It reads often, so that a switch between
/// any two of its steps, for as long as a flush takes, is likely.
#[test]
fn lookups_while_buffers_are_flushed() {
    explore(600, || {
        let env = watched_env();
        let db = open(&env, 30);
        db.put("key", "0").unwrap();
        let writer = spawn(&db, |db| {
            for value in ["1", "2", "3"] {
                db.put("key", value).unwrap();
            }
        });
        read_upward(&db, 20);
        writer.join().unwrap();
        assert_eq!(value(&db), 3);
    });
}

/// The same with a cache that has keys' entries, and a lookup that may be interrupted while several
/// memtables are flushed: it must not cache what it finds in its old state.
#[test]
fn cached_entries_while_buffers_are_flushed() {
    explore(600, read_cached_entries);
}

/// That the program above can fail.
#[cfg(debug_assertions)]
#[test]
fn old_entries_in_the_cache_are_noticed() {
    for mistake in [Mistake::CachedSeenAfterPin, Mistake::CachedFromThePast, Mistake::CachedThroughFlush] {
        assert!(is_noticed(mistake, 20_000, read_cached_entries, || true), "{mistake:?} is not noticed");
    }
}

/// Several keys are overwritten at once, and each is looked up once meanwhile: only the first
/// lookup of a key finds it in the tree and may cache it, and with many such lookups a switch
/// between two certain steps of one of them is likely.
fn read_cached_entries() {
    const KEYS: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let env = watched_env();
    let advanced = AdvancedOptions::new().env(env).memtable_bytes(20_000).block_bytes(64).cache_bytes(3000);
    let db = Options::new().compression(Compression::None).advanced(advanced).open("/db").unwrap();
    let mut batch = Batch::new();
    for key in KEYS {
        // They share a block, which is not cached for the small one. All blocks are more than the
        // cache takes, so that it has entries.
        batch.put(key, "0").put(key.to_owned() + " large", [0; 400]);
    }
    db.write(&batch).unwrap();
    db.flush().unwrap();
    let writer = spawn(&db, |db| {
        // What the lookups see before the memtable is a new one is not enough.
        db.put("other", "").unwrap();
        db.flush().unwrap();
        let mut batch = Batch::new();
        for key in KEYS {
            batch.put(key, "1");
        }
        db.write(&batch).unwrap();
        db.flush().unwrap();
    });
    let before = KEYS.map(|key| value_of(&db, key));
    assert!(before.is_sorted(), "{before:?}");
    writer.join().unwrap();
    assert_eq!(KEYS.map(|key| value_of(&db, key)), [1; KEYS.len()]);
}

/// Looks up the key so many times: its value never goes back.
fn read_upward(db: &Db, times: usize) {
    let mut before = 0;
    for _ in 0..times {
        let value = value(db);
        assert!(value >= before, "{value} after {before}");
        before = value;
    }
}

/// What a snapshot sees when it is taken, it sees until it is dropped: by lookups and scans, before
/// and after a flush and a compaction.
#[test]
fn snapshots_against_flushes_and_compactions() {
    explore(400, || {
        let env = watched_env();
        let db = open(&env, 100);
        write_pair(&db, 0);
        let writer = spawn(&db, |db| {
            write_pair(db, 1);
            write_pair(db, 2);
            db.flush().unwrap();
        });
        let merger = spawn(&db, |db| db.compact().unwrap());
        let snapshot = db.snapshot();
        // Many, so that other threads' steps are likely to fall between the steps of taking one.
        let later = [(); 8].map(|()| db.snapshot());
        let seen = pair(&snapshot);
        let later = later.map(|snapshot| pair(&snapshot));
        assert!(later.is_sorted() && later[0] >= seen, "{seen}, then {later:?}");
        writer.join().unwrap();
        assert_eq!(pair(&snapshot), seen, "a snapshot changed");
        merger.join().unwrap();
        assert_eq!(pair(&snapshot), seen, "a snapshot changed");
        drop(snapshot);
        assert_eq!(pair(&db.snapshot()), 2);
        db.close().unwrap();
        assert_eq!(pair(&open(&env, 100).snapshot()), 2);
    });
}

/// Two workers carry out parts of the same compactions and relabel runs, while a writer overwrites
/// and deletes, memtables are flushed into the active run, and a reader looks: what it saw never
/// goes back, and in the end the tree holds what was written last.
#[test]
fn two_workers_on_one_merge() {
    explore(250, || {
        let env = watched_env();
        let db = open_tree(&env);
        for key in ["a", "b", "c", "d"] {
            db.put(key, "0").unwrap();
        }
        let writer = spawn(&db, |db| {
            for value in ["1", "2"] {
                for key in ["d", "b"] {
                    db.put(key, value).unwrap();
                }
                db.delete("a").unwrap();
            }
        });
        let mut before = 0;
        for _ in 0..6 {
            let value = number(db.get("b").unwrap().as_deref()).expect("it is never deleted");
            assert!(value >= before, "{value} after {before}");
            before = value;
            assert_eq!(number(db.get("c").unwrap().as_deref()), Some(0));
        }
        writer.join().unwrap();
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        let check = |db: &Db| {
            assert_eq!(keys(db), ["b", "c", "d"]);
            assert_eq!(["b", "c", "d"].map(|key| number(db.get(key).unwrap().as_deref())), [Some(2), Some(0), Some(2)]);
            assert!(db.verify(&mut |_, _| {}).unwrap().is_ok());
        };
        check(&db);
        db.compact().unwrap();
        check(&db);
        drop(db);
        check(&open_tree(&env));
    });
}

/// That the programs above can fail: if a flush did not wait for the writers that still add to its
/// memtable, what they add would be lost.
#[cfg(debug_assertions)]
#[test]
fn a_flush_of_an_incomplete_buffer_is_noticed() {
    let program = || {
        let env = watched_env();
        let db = open(&env, SMALL);
        let writers = [["a1", "a2"], ["b1", "b2"]]
            .map(|keys| spawn(&db, move |db| keys.into_iter().for_each(|key| db.put(key, key).unwrap())));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(keys(&db), ["a1", "a2", "b1", "b2"]);
    };
    assert!(is_noticed(Mistake::IncompleteMemtable, 2000, program, || true), "no order of steps showed it");
}

/// Writers in a write stall wait for flushes, and are woken.
#[test]
fn stalled_writers_go_on() {
    explore(500, || {
        let env = watched_env();
        let db = open(&env, SMALL);
        let writers = [["a1", "a2"], ["b1", "b2"]].map(|keys| {
            spawn(&db, move |db| {
                for key in keys {
                    db.put(key, key).unwrap();
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(keys(&db), ["a1", "a2", "b1", "b2"]);
    });
}

/// A flush fails once. Writers go on, or are told why not and lose nothing; the flush is done
/// again.
#[test]
fn a_failed_flush_is_done_again() {
    explore(500, || {
        let env = watched_env();
        let db = open(&env, SMALL);
        env.hook().fail(step::TABLE_CREATE, 1);
        let writers = [["a1", "a2"], ["b1", "b2"]].map(|keys| {
            spawn(&db, move |db| {
                for key in keys {
                    while let Err(error) = db.put(key, key) {
                        assert!(matches!(error, Error::Io { .. }), "{error}");
                        thread::yield_now();
                    }
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(keys(&db), ["a1", "a2", "b1", "b2"]);
        drop(db);
        assert_eq!(keys(&open(&env, SMALL)), ["a1", "a2", "b1", "b2"]);
    });
}

/// When a flush returns, what was acknowledged before it is in tables that are durable, whoever
/// else writes and flushes.
#[test]
fn flushes_beside_writers() {
    explore(500, || {
        let env = watched_env();
        let db = open(&env, 1 << 10);
        let threads = ["first", "second"].map(|key| {
            let env = env.clone();
            spawn(&db, move |db| {
                db.put(key, "").unwrap();
                db.flush().unwrap();
                assert!(env.hook().is_durable("sst", key), "{key} is not in a table");
            })
        });
        db.put("third", "").unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(keys(&db), ["first", "second", "third"]);
    });
}

/// A database is closed while others write, flush, and close it as well. Whoever is told that it is
/// closed finds the WAL durable; what was acknowledged is there afterwards, and nothing is there
/// that was refused before the WAL was touched.
#[test]
fn closing_beside_writers() {
    explore(600, || {
        let env = watched_env();
        let db = open(&env, SMALL);
        let writer = spawn(&db, |db| {
            let put = |key| match db.put(key, "") {
                Ok(()) => Some(key),
                Err(error) => {
                    assert!(matches!(error, Error::Stopped { .. }), "{error}");
                    None
                }
            };
            ["a", "b"].into_iter().filter_map(put).collect::<Vec<_>>()
        });
        let flusher = spawn(&db, |db| {
            if let Err(error) = db.flush() {
                assert!(matches!(error, Error::Stopped { .. }), "{error}");
            }
        });
        let closer = spawn(&db, |db| close(db.clone()));
        let closed = close(db);
        if closed {
            assert_eq!(env.hook().unsynced("wal"), Vec::<PathBuf>::new());
        }
        let (acknowledged, other_closed) = (writer.join().unwrap(), closer.join().unwrap());
        assert!(closed || other_closed, "nobody closed it");
        flusher.join().unwrap();
        let db = open(&env, SMALL);
        assert_eq!(db.recovery().dropped, []);
        let found = keys(&db);
        assert!(acknowledged.iter().all(|key| found.iter().any(|found| found == key)), "{acknowledged:?} {found:?}");
    });
}

/// An edit is written, but its sync fails, so that its fate is unknown until the database is opened
/// again: that of the flush before an ingest, or that of the ingest. Then all of the run is there
/// or nothing, and everything that was acknowledged, however the writer fell in with it.
#[test]
fn an_ingest_of_unknown_fate_beside_a_writer() {
    explore(400, || an_ingest_fails_beside_a_writer(1));
    explore(400, || an_ingest_fails_beside_a_writer(2));
}

/// The sync of edit number `failing` fails.
fn an_ingest_fails_beside_a_writer(failing: u32) {
    let env = watched_env();
    let db = open(&env, 1 << 10);
    env.hook().fail(step::MANIFEST_SYNC, failing);
    let puts = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let writer = spawn(&db, move |db| puts.into_iter().filter(|key| db.put(key, "").is_ok()).collect::<Vec<_>>());
    let mut ingest = db.ingest().unwrap();
    let ingested = ["i1", "i2", "i3", "i4"];
    ingested.into_iter().for_each(|key| ingest.put(key, "").unwrap());
    let finished = ingest.finish();
    let acknowledged = writer.join().unwrap();
    drop(db);
    let mut found = keys(&open(&env, 1 << 10));
    let run = found.iter().position(|key| key == "i1").map_or(Vec::new(), |at| found.split_off(at));
    assert!(
        run == ingested || run.is_empty() && matches!(finished, Err(Error::Stopped { .. })),
        "{finished:?}: {run:?}"
    );
    assert!(acknowledged.iter().all(|key| found.iter().any(|found| found == key)), "{acknowledged:?} {found:?}");
}

/// Handles, snapshots and scans are dropped in any order; when the last is gone, so are the threads
/// and the lock, and nothing is lost.
#[test]
fn dropping_the_last_handle() {
    explore(500, || {
        let env = watched_env();
        let db = open(&env, SMALL);
        let writer = spawn(&db, |db| {
            db.put("a", "").unwrap();
            db.put("b", "").unwrap();
        });
        let reader = spawn(&db, |db| {
            let scan = db.scan(..);
            assert!(scan.count() <= 3);
        });
        db.write_with(Batch::new().put("c", ""), Durability::Interval(Duration::from_millis(1))).unwrap();
        drop(db);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(keys(&open(&env, SMALL)), ["a", "b", "c"]);
    });
}

/// A memtable for each group.
const SMALL: u64 = 1;

/// Of two changes of policy at a time, the last one decides all that a policy does: memtables
/// become immutable at the size that the shape says.
#[test]
fn changes_of_policy() {
    explore(300, || {
        let env = watched_env();
        let db = open(&env, 100);
        let small = spawn(&db, |db| db.set_policy("custom:buffer 20; level 40 in 2 runs; level 400 in 1 run").unwrap());
        db.set_policy("custom:buffer 60; level 120 in 2 runs; level 600 in 1 run").unwrap();
        small.join().unwrap();
        // Entries of 10 raw bytes each.
        for key in ["a", "b", "c"] {
            db.put(key, "1").unwrap();
        }
        let stats = db.stats();
        let in_active = if stats.memtable_capacity_bytes == 20 { 10 } else { 30 };
        assert_eq!(stats.memtables[0].raw_bytes, in_active, "memtables of {}", stats.memtable_capacity_bytes);
    });
}

fn open(env: &Arc<WatchedEnv>, memtable_bytes: u64) -> Db {
    let advanced = AdvancedOptions::new()
        .env(env.clone())
        .memtable_bytes(memtable_bytes)
        .immutable_memtables_max(1)
        .block_bytes(64)
        .cache_bytes(0);
    Options::new().compression(Compression::None).advanced(advanced).open("/db").unwrap()
}

/// A tree of several small levels with a table for each entry or two, merged by two workers.
fn open_tree(env: &Arc<WatchedEnv>) -> Db {
    let advanced = AdvancedOptions::new()
        .env(env.clone())
        .immutable_memtables_max(1)
        .block_bytes(64)
        .table_bytes(1)
        .cache_bytes(0);
    let advanced = advanced
        .memtable_bytes(20)
        .policy("custom:buffer 20; level 40 in 2 runs; level 80 in 1 run; level 400 in 1 run");
    Options::new().compression(Compression::None).threads(2).advanced(advanced).open("/db").unwrap()
}

fn number(value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| std::str::from_utf8(value).unwrap().parse().unwrap())
}

/// A thread with a handle of its own, which it drops at its end.
fn spawn<T: Send + 'static>(db: &Db, run: impl FnOnce(&Db) -> T + Send + 'static) -> thread::JoinHandle<T> {
    let db = db.clone();
    thread::spawn(move || run(&db))
}

/// True if this call closed it, false if another had.
fn close(db: Db) -> bool {
    match db.close() {
        Ok(()) => true,
        Err(Error::Stopped { cause }) if matches!(*cause, Error::Closed) => false,
        Err(error) => panic!("{error}"),
    }
}

fn value(db: &Db) -> u64 {
    value_of(db, "key")
}

fn value_of(db: &Db, key: &str) -> u64 {
    let value = db.get(key).unwrap().expect("it is never deleted");
    std::str::from_utf8(&value).unwrap().parse().unwrap()
}

/// Two keys get the same number, at once; a third is written or deleted.
fn write_pair(db: &Db, number: u64) {
    let number = number.to_string();
    let mut batch = Batch::new();
    batch.put("left", &number).put("right", &number);
    match number.as_str() {
        "1" => batch.put("odd", &number),
        _ => batch.delete("odd"),
    };
    db.write(&batch).unwrap();
}

/// The number of the pair, found in every way.
fn pair(snapshot: &Snapshot) -> u64 {
    let number = |value: &[u8]| std::str::from_utf8(value).unwrap().parse::<u64>().unwrap();
    let left = number(&snapshot.get("left").unwrap().expect("it is never deleted"));
    let scanned: Vec<_> = snapshot.scan(..).rev().map(|entry| entry.unwrap()).collect();
    assert!(scanned.iter().all(|(_, value)| number(value) == left), "{left}: {scanned:?}");
    assert_eq!(scanned.len(), if left == 1 { 3 } else { 2 }, "{left}: {scanned:?}");
    assert_eq!(snapshot.contains_key("odd").unwrap(), left == 1);
    left
}

fn keys(db: &Db) -> Vec<String> {
    db.scan(..).map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}
