//! Ingests of sorted data: when readers see the run, its order among earlier and later writes,
//! crashes at every step, and the level where it arrives.
//!
//! Ingests also take part in the suites of random histories in lockstep with a model, of images of
//! crashes at every step, and of failures of every call.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tamarack::internals::Table;
use tamarack::{AdvancedOptions, Db, Error, Options, Result, Snapshot, Stats, step};
use tamarack_env::sim::{Crash, Failure, Fault};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv, Step};
use tamarack_format::table::FOOTER_BYTES;
use tamarack_model::planner;

use crate::model::{Model, all, all_of, put};

fn open(env: &SimEnv) -> Db {
    open_with(env, AdvancedOptions::new())
}

fn open_with(env: &SimEnv, advanced: AdvancedOptions) -> Db {
    options(env, advanced).open("/db").expect("it opens")
}

fn options(env: &SimEnv, advanced: AdvancedOptions) -> Options {
    let advanced = advanced.env(Arc::new(env.clone())).memtable_bytes(2000).block_bytes(128).table_bytes(600);
    Options::new().threads(2).advanced(advanced)
}

fn key(number: u32) -> String {
    format!("key {number:05}")
}

/// Puts so many keys from the first on, every `step`-th, with values that name their maker.
fn ingest(db: &Db, from: u32, count: u32, by: u32, name: &str, model: &mut Model) -> Result<tamarack::IngestReport> {
    let mut ingest = db.ingest()?;
    for number in 0..count {
        let (key, value) = (key(from + number * by), format!("{name} {number}"));
        ingest.put(&key, &value)?;
        model.insert(key.into_bytes(), value.into_bytes());
    }
    ingest.finish()
}

fn check(db: &Db, model: &Model) {
    assert_eq!(all(db), *model);
    let report = db.verify(&mut |_, _| {}).expect("it can be read");
    assert!(report.is_ok(), "{:?}", report.problems);
    for (key, value) in model {
        assert_eq!(db.get(key).expect("readable").as_deref(), Some(&**value), "{}", key.escape_ascii());
    }
}

fn runs(stats: &Stats) -> Vec<usize> {
    stats.levels.iter().map(|level| level.runs.len()).collect()
}

/// An ingested run wins over earlier writes, deletes included, and loses to later ones; a snapshot
/// taken before does not see it; and it is there when the database is opened again, by the next
/// process or after a crash.
#[test]
fn it_is_younger_than_what_came_before_and_older_than_what_comes_after() -> Result<()> {
    for compact in [false, true] {
        let env = SimEnv::new(1);
        let db = open(&env);
        let mut model = Model::new();
        for number in 0..40 {
            put(&db, key(number), "before", &mut model)?;
        }
        db.delete(key(10))?;
        db.flush()?;
        db.delete(key(11))?;
        for gone in [10, 11] {
            model.remove(key(gone).as_bytes());
        }
        let (snapshot, seen) = (db.snapshot(), model.clone());
        let report = ingest(&db, 8, 200, 2, "ingested", &mut model)?;
        assert_eq!(report.entries, 200);
        assert!(report.tables > 1 && report.level >= 1, "{report:?}");
        check(&db, &model);
        db.put(key(8), "after")?;
        db.delete(key(12))?;
        model.insert(key(8).into(), b"after".into());
        model.remove(key(12).as_bytes());
        if compact {
            db.compact()?;
        }
        check(&db, &model);
        let found = all_of(snapshot.scan(..));
        assert_eq!(found, seen, "a snapshot stays what it is");
        drop((snapshot, db));
        let killed = env.kill();
        let db = open(&killed);
        check(&db, &model);
        db.close()?;
        check(&open(&killed), &model);
    }
    Ok(())
}

/// Before `finish` nobody sees anything; who gives up leaves no file.
#[test]
fn unfinished_it_leaves_nothing() -> Result<()> {
    for gives_up in [true, false] {
        let env = SimEnv::new(2);
        let db = open(&env);
        db.put("key", "value")?;
        let files = env.files().len();
        let mut ingest = db.ingest()?;
        for number in 0..1000 {
            ingest.put(key(number), [b'v'; 20])?;
        }
        assert!(env.files().len() > files + 10);
        assert_eq!(all(&db).len(), 1);
        if gives_up {
            drop(ingest);
            assert_eq!(env.files().len(), files);
            assert_eq!(db.ingest()?.finish()?.tables, 0, "nothing is nothing");
        } else {
            let env = env.kill();
            let db = open(&env);
            assert!(db.recovery().orphans_removed.len() > 10);
            assert_eq!(all(&db).len(), 1);
        }
    }
    Ok(())
}

/// Keys must ascend, and may not be too large. What is refused is left out, and the rest goes on.
#[test]
fn entries_out_of_order_are_refused() -> Result<()> {
    let db = open(&SimEnv::new(3));
    let mut ingest = db.ingest()?;
    ingest.put("", "the empty key is one")?;
    ingest.put("b", "1")?;
    for wrong in ["b", "a", ""] {
        let error = ingest.put(wrong, "2").expect_err("it does not ascend");
        assert!(matches!(&error, Error::InvalidArgument(what) if what.contains("does not come after")), "{error}");
    }
    assert!(matches!(ingest.put(vec![b'c'; 70_000], ""), Err(Error::InvalidArgument(_))));
    ingest.put("c", "3")?;
    assert_eq!(ingest.finish()?.entries, 3);
    assert_eq!(all(&db).into_values().collect::<Vec<_>>(), [&b"the empty key is one"[..], b"1", b"3"]);
    Ok(())
}

/// Several ingests may be open. They count in the order in which they finish, whatever the order in
/// which they began.
#[test]
fn several_at_a_time_count_as_they_finish() -> Result<()> {
    let env = SimEnv::new(4);
    let db = open(&env);
    let mut model = Model::new();
    let mut ingests: Vec<_> = (0..3).map(|_| db.ingest()).collect::<Result<_>>()?;
    for (who, ingest) in ingests.iter_mut().enumerate() {
        for number in 0..100 {
            ingest.put(key(number * (1 + who as u32)), format!("{who} {number}"))?;
        }
    }
    let mut ingests: Vec<_> = ingests.into_iter().map(Some).collect();
    for who in [1, 0, 2] {
        let at_once = db.snapshot();
        ingests[who].take().expect("finished once").finish()?;
        assert_eq!(at_once.scan(..).count(), model.len(), "a snapshot stays what it is");
        for number in 0..100 {
            model.insert(key(number * (1 + who as u32)).into_bytes(), format!("{who} {number}").into_bytes());
        }
        check(&db, &model);
        put(&db, key(0), format!("after {who}"), &mut model)?;
    }
    let killed = env.kill();
    let db = open(&killed);
    check(&db, &model);
    db.compact()?;
    check(&db, &model);
    Ok(())
}

/// A run takes as many sequence numbers as it has entries, as a batch does; the next write gets the
/// number after those.
#[test]
fn it_takes_sequence_numbers_as_a_batch_does() -> Result<()> {
    let env = SimEnv::new(11);
    let db = open(&env);
    let mut model = Model::new();
    put(&db, "first", "one", &mut model)?;
    for (entries, expected) in [(100, 101), (1, 102), (7, 109)] {
        ingest(&db, entries, entries, 1, "ingested", &mut model)?;
        assert_eq!(db.stats().visible_sequence, expected);
    }
    put(&db, "last", "one", &mut model)?;
    assert_eq!(db.stats().visible_sequence, 110);
    drop(db);
    let env = env.kill();
    let db = open(&env);
    assert_eq!(db.stats().visible_sequence, 110);
    check(&db, &model);
    Ok(())
}

/// There is no limit to the number of ingests: each of ten thousand is seen by readers after it,
/// and by no snapshot before it; some pass each other, and writes come between.
#[test]
fn ten_thousand_small_ones() -> Result<()> {
    let env = SimEnv::new(12);
    let db = open_with(&env, AdvancedOptions::new().policy("tiering:T=10"));
    let random = Random::new(12);
    let mut model = Model::new();
    let mut snapshot: Option<(Snapshot, Model)> = None;
    for number in 0..10_000 {
        let ingest_of = |from: u64, count: u64| -> Result<_> {
            let mut ingest = db.ingest()?;
            let entries: Model =
                (from..from + count).map(|at| (key(at as u32).into(), format!("{number}").into())).collect();
            entries.iter().try_for_each(|(key, value)| ingest.put(key, value))?;
            Ok((ingest, entries))
        };
        let (first, entries) = ingest_of(random.below(40), 1 + random.below(3))?;
        if random.below(20) == 0 {
            // Begun later, finished earlier, with the same keys.
            let (second, between) = ingest_of(random.below(40), 2)?;
            second.finish()?;
            model.extend(between);
        }
        if random.below(10) == 0 {
            let key = key(random.below(40) as u32);
            put(&db, key, "put", &mut model)?;
        }
        if number % 100 == 0 {
            snapshot = Some((db.snapshot(), model.clone()));
        }
        first.finish()?;
        model.extend(entries);
        if number % 100 == 1
            && let Some((snapshot, seen)) = &snapshot
        {
            let found = all_of(snapshot.scan(..));
            assert_eq!(found, *seen, "after {number}");
            assert_eq!(all(&db), model, "after {number}");
        }
    }
    drop(snapshot);
    check(&db, &model);
    db.compact()?;
    check(&db, &model);
    Ok(())
}

/// Without the manifest, a repair still knows the order: the last table of each ingest records the
/// sequence base of all of its tables. Without that table, the report says that it is unknown.
#[test]
fn a_repair_without_the_manifest_knows_the_order() -> Result<()> {
    for loses_last in [false, true] {
        let env = SimEnv::new(13);
        let db = open(&env);
        let pause = db.pause_compactions();
        let mut model = Model::new();
        // All entries that any of the states had.
        let mut written = BTreeSet::new();
        for round in 0..4 {
            for number in 0..30 {
                put(&db, key(number * 3 + round), format!("put {round}"), &mut model)?;
            }
            written.extend(model.clone());
            let report = ingest(&db, round * 5, 200, 1, &format!("ingest {round}"), &mut model)?;
            assert!(report.tables > 2, "{report:?}");
            written.extend(model.clone());
            put(&db, key(round * 5 + 7), format!("after {round}"), &mut model)?;
        }
        written.extend(model.clone());
        check(&db, &model);
        let env = env.process_image();
        drop((pause, db));
        let lost = loses_last.then(|| last_table_of_an_ingest(&env));
        let manifests =
            env.files().into_iter().map(|(path, _)| path).filter(|path| path.to_string_lossy().ends_with(".manifest"));
        for path in manifests.chain(lost.clone()) {
            env.remove(&path, Step("test: lose a file")).expect("it is there");
        }
        let options = options(&env, AdvancedOptions::new());
        let report = options.repair("/db", &mut |_, _| {})?;
        assert!(report.rebuilt, "{report:?}");
        let is_undated = |error: &&Error| error.to_string().contains("one of an ingest, and nothing says when");
        let undated = report.problems.iter().filter(is_undated).count();
        let db = options.open("/db")?;
        if loses_last {
            assert!(undated > 1, "{report:?}");
            assert!(!report.lost.is_empty(), "writes after it may hide its entries: {report:?}");
            let found = db.verify(&mut |_, _| {})?;
            assert!(found.is_ok(), "{:?}", found.problems);
            // Each key of the lost table is also in others: of the keys that the undated ingest
            // has, an older or younger value may be found, of all others what is right.
            let found = all(&db);
            assert!(found.keys().eq(model.keys()), "no key is missing or new");
            let undated: BTreeSet<_> = (5..205).map(|number| key(number).into_bytes()).collect();
            for (key, value) in &found {
                let is_right = model[key] == *value;
                let is_old = undated.contains(key) && written.contains(&(key.clone(), value.clone()));
                assert!(is_right || is_old, "{}: {}", key.escape_ascii(), value.escape_ascii());
            }
        } else {
            assert_eq!((undated, report.lost.len()), (0, 0), "{report:?}");
            check(&db, &model);
        }
    }
    Ok(())
}

/// The last table of the second ingest.
fn last_table_of_an_ingest(env: &SimEnv) -> PathBuf {
    let is_last = |path: &PathBuf| {
        let content = env.content(path).expect("it is there");
        let numbers = &content[content.len() - FOOTER_BYTES + 120..];
        let database = u64::from_le_bytes(*numbers.first_chunk().expect("a footer names its database"));
        let meta = Table::read_meta(env, path, database).expect("a whole table");
        meta.ingest.is_some_and(|part| part.is_last)
    };
    let mut tables: Vec<_> =
        env.files().into_iter().map(|(path, _)| path).filter(|path| path.to_string_lossy().ends_with(".sst")).collect();
    tables.sort();
    tables.into_iter().filter(is_last).nth(1).expect("there are several ingests")
}

/// In an empty tree a run is written once: it arrives at the smallest level that can take it, and
/// if none can, the tree grows. Above older data rule 1 holds.
#[test]
fn it_arrives_at_the_smallest_level_that_can_take_it() -> Result<()> {
    for policy in ["leveling:T=4", "tiering:T=4", "lazy-leveling:T=3", "dostoevsky:T=5,K=3,Z=2"] {
        for count in [3, 50, 400, 3000] {
            let env = SimEnv::new(5);
            let db = open_with(&env, AdvancedOptions::new().policy(policy));
            let mut model = Model::new();
            ingest(&db, 0, count, 3, "first", &mut model)?;
            db.wait_for_compactions()?;
            let stats = db.stats();
            assert_eq!(runs(&stats).iter().sum::<usize>(), 1, "{policy}, {count}");
            assert_eq!((stats.compactions, stats.flushes), (0, 0), "{policy}, {count}: written once");
            assert_eq!(stats.write_amplification(), Some(1.0));
            let (shape, occupancy, _) = db.planned();
            assert!(
                !planner::outgrown(&shape, &occupancy, &[], occupancy.deepest()),
                "{policy}, {count}:\n{shape}{occupancy}"
            );
            for (number, size) in [(1, 40), (2, 400), (3, 5), (4, 1000), (5, 60)] {
                ingest(&db, number, size, 7, "again", &mut model)?;
                put(&db, key(number), "put", &mut model)?;
                db.wait_for_compactions()?;
                let (shape, occupancy, in_progress) = db.planned();
                assert_eq!(in_progress, []);
                for level in 1..=shape.last() {
                    let slots = shape.level(level).runs as usize;
                    assert!(occupancy.level(level).len() <= slots, "{policy}, {count}, {number}:\n{shape}{occupancy}");
                }
            }
            check(&db, &model);
        }
    }
    Ok(())
}

/// A run counts as many writes as it has entries, as a batch would: tombstones are not due because
/// of a few ingested entries, neither at once nor after opening again.
#[test]
fn tombstones_are_not_due_because_of_it() -> Result<()> {
    let env = SimEnv::new(6);
    let db = open_with(&env, AdvancedOptions::new().policy("leveling:T=10"));
    let mut model = Model::new();
    ingest(&db, 0, 2000, 1, "old", &mut model)?;
    for number in 0..20 {
        db.delete(key(number * 50))?;
        model.remove(key(number * 50).as_bytes());
    }
    db.flush()?;
    db.wait_for_compactions()?;
    let tombstones =
        |db: &Db| -> u64 { db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tombstones).sum() };
    assert_eq!(tombstones(&db), 20);
    ingest(&db, 1, 20, 70, "new", &mut model)?;
    db.wait_for_compactions()?;
    assert_eq!(tombstones(&db), 20, "{}", db.planned().1);
    drop(db);
    let env = env.kill();
    let db = open(&env);
    put(&db, "another", "write", &mut model)?;
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(tombstones(&db), 20, "{}", db.planned().1);
    // After as many writes as there are entries, they are.
    for number in 0..2200 {
        db.put(key(10_000 + number % 10), "write")?;
    }
    for number in 0..10 {
        model.insert(key(10_000 + number).into_bytes(), b"write".into());
    }
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(tombstones(&db), 0, "{}", db.planned().1);
    check(&db, &model);
    Ok(())
}

/// A checkpoint has the runs ingested before it, and nothing of an unfinished ingest; both
/// databases can be written to afterwards.
#[test]
fn checkpoints_have_what_was_finished() -> Result<()> {
    let env = SimEnv::new(10);
    let db = open(&env);
    let mut model = Model::new();
    ingest(&db, 0, 100, 2, "first", &mut model)?;
    let mut unfinished = db.ingest()?;
    unfinished.put(key(3), "unfinished")?;
    db.checkpoint("/copy")?;
    let copy = options(&env, AdvancedOptions::new()).open("/copy")?;
    let mut copied = model.clone();
    check(&copy, &copied);
    unfinished.finish()?;
    model.insert(key(3).into_bytes(), b"unfinished".into());
    for (db, model) in [(&db, &mut model), (&copy, &mut copied)] {
        put(db, key(5), "after", model)?;
        ingest(db, 1, 50, 3, "then", model)?;
        check(db, model);
    }
    Ok(())
}

/// Paused compactions stay paused; the run arrives all the same.
#[test]
fn it_works_while_compactions_are_paused() -> Result<()> {
    let db = open(&SimEnv::new(7));
    let mut model = Model::new();
    let pause = db.pause_compactions();
    for number in 0..6 {
        ingest(&db, number, 200, 5, &format!("ingest {number}"), &mut model)?;
        put(&db, key(number), "put", &mut model)?;
    }
    assert_eq!(db.stats().compactions, 0);
    check(&db, &model);
    drop(pause);
    db.wait_for_compactions()?;
    check(&db, &model);
    Ok(())
}

/// A crash at any call between the first and the last: the next process finds all of the run or
/// nothing, and all earlier synced writes; it writes and ingests again, and the process after that
/// finds that, too.
#[test]
fn a_crash_leaves_all_or_nothing() -> Result<()> {
    let (mut with, mut without) = (0, 0);
    for durable_wal in [false, true] {
        let mut calls = 0;
        loop {
            let env = SimEnv::new(8);
            let db = open(&env);
            let mut before = Model::new();
            ingest(&db, 0, 30, 1, "old", &mut before)?;
            for number in 0..30 {
                put(&db, key(number * 2), "put", &mut before)?;
            }
            if durable_wal {
                db.sync()?;
            }
            let (left, images) =
                (Arc::new(Mutex::new(Rank::Test, calls)), Arc::new(Mutex::new(Rank::Test, Vec::new())));
            let (counted, taken) = (left.clone(), images.clone());
            env.set_hook(move |moment| {
                let mut left = counted.lock();
                if *left == 0 {
                    let mut images = taken.lock();
                    images.push((false, moment.process_image()));
                    for seed in 0..4 {
                        images.push((true, moment.image(Crash::draw(seed, moment.unsynced_changes()))));
                    }
                }
                *left -= 1;
            });
            let mut after = before.clone();
            ingest(&db, 1, 60, 3, "new", &mut after)?;
            db.put("last", "one")?;
            env.clear_hook();
            let images = std::mem::take(&mut *images.lock());
            if images.is_empty() {
                break;
            }
            for (crashed, image) in images {
                let seen = all(&options(&image, AdvancedOptions::new()).open_read_only("/db")?);
                let db = open(&image);
                let mut found = all(&db);
                assert_eq!(found, seen, "call {calls}: who only reads sees what is recovered");
                let is_whole = found.get(&b"key 00001"[..]).is_some_and(|value| value.starts_with(b"new"));
                found.remove(&b"last"[..]);
                if is_whole {
                    assert_eq!(found, after, "call {calls}");
                } else if durable_wal || !crashed {
                    assert_eq!(found, before, "call {calls}");
                }
                (with, without) = (with + u64::from(is_whole), without + u64::from(!is_whole));
                let mut model = all(&db);
                put(&db, key(7), "written", &mut model)?;
                ingest(&db, 2, 20, 9, "then", &mut model)?;
                put(&db, key(8), "written", &mut model)?;
                check(&db, &model);
                let killed = image.kill();
                drop(db);
                check(&open(&killed), &model);
            }
            calls += 1;
        }
    }
    assert!(with > 20 && without > 100, "{with} images with it, {without} without");
    Ok(())
}

/// After an ingest the WAL continues in a new segment, which opening begins if the process ended
/// before. The process that begins it may be killed while it does, and the machine may crash while
/// the next one opens the database: older segments may be removed only when that one is durable.
#[test]
fn crashes_while_the_wal_begins_a_segment_lose_nothing() -> Result<()> {
    let images = |env: &SimEnv, take: fn(&tamarack_env::sim::Moment<'_>) -> Vec<SimEnv>| {
        let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
        let taken = images.clone();
        env.set_hook(move |moment| taken.lock().extend(take(moment)));
        drop(open(env));
        env.clear_hook();
        std::mem::take(&mut *images.lock())
    };
    let env = SimEnv::new(11);
    let db = open(&env);
    let mut model = Model::new();
    put(&db, "older", "value", &mut model)?;
    // Before the last segment is made, which is the one after the run.
    let killed = Arc::new(Mutex::new(Rank::Test, None));
    let last = killed.clone();
    env.set_hook(move |moment| {
        if moment.call.step == Some(step::WAL_CREATE) {
            *last.lock() = Some(moment.process_image());
        }
    });
    ingest(&db, 0, 5, 1, "run", &mut model)?;
    env.clear_hook();
    drop(db);
    let killed = killed.lock().take().expect("a segment begins after the run");
    let mut opened = 0;
    for ended in images(&killed, |moment| vec![moment.process_image()]) {
        let crashes = images(&ended, |moment| {
            (0..moment.unsynced_changes()).map(|lost| moment.image(Crash::AllBut(lost))).collect()
        });
        for crashed in crashes {
            assert_eq!(all(&open(&crashed)), model);
            opened += 1;
        }
    }
    assert!(opened > 100, "{opened}");
    Ok(())
}

/// A call that fails: nothing has changed, no file is left, and the next attempt succeeds; or, if a
/// sync failed, writing ends.
#[test]
fn a_failure_changes_nothing() -> Result<()> {
    let failing = [
        step::TABLE_CREATE,
        step::TABLE_WRITE,
        step::TABLE_SYNC,
        step::TABLE_SYNC_DIRECTORY,
        step::WAL_CREATE,
        step::MANIFEST_APPEND,
        step::MANIFEST_SYNC,
    ];
    for step in failing {
        for after in 0..3 {
            let env = SimEnv::new(9);
            let db = open(&env);
            let mut model = Model::new();
            ingest(&db, 0, 30, 1, "old", &mut model)?;
            put(&db, key(1), "put", &mut model)?;
            let files = env.files().len();
            let passed = Mutex::new(Rank::Test, 0);
            env.inject(Fault::new(Failure::Io).step(step).matching(move |_| {
                *passed.lock() += 1;
                *passed.lock() > after
            }));
            let failed = ingest(&db, 0, 40, 2, "new", &mut model.clone());
            env.clear_faults();
            match failed {
                Ok(_) => assert!(after > 0, "{step:?} did not fail"),
                Err(Error::Stopped { .. }) => {
                    assert!(db.put("key", "value").is_err(), "{step:?}");
                    let killed = env.kill();
                    drop(db);
                    assert!(matches!(all(&open(&killed)).len(), 30 | 55), "{step:?}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::Io { .. }), "{step:?}: {error}");
                    check(&db, &model);
                    // A flush that failed waits half a second before it is begun anew.
                    env.advance(std::time::Duration::from_secs(1));
                    env.run_background_until_idle();
                    assert!(env.files().len() <= files + 1, "{step:?}: no files but that of the flush");
                    ingest(&db, 0, 40, 2, "new", &mut model)?;
                    put(&db, key(2), "put", &mut model)?;
                    check(&db, &model);
                }
            }
        }
    }
    Ok(())
}

/// A run that moves as soon as it has arrived is also examined where it moves to: waiting for
/// compactions ends.
#[test]
fn a_run_that_is_moved_at_once_arrives_once_more() -> Result<()> {
    let env = SimEnv::new(1347);
    let advanced =
        AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(189).block_bytes(200).table_bytes(34);
    let db = Options::new().threads(1).advanced(advanced).open("/db")?;
    let mut ingest = db.ingest()?;
    ingest.put("key", "v".repeat(1287))?;
    ingest.finish()?;
    db.set_policy("tiering:T=2")?;
    db.wait_for_compactions()?;
    assert_eq!(all(&db).len(), 1);
    Ok(())
}
