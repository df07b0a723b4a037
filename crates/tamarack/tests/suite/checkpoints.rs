//! Checkpoints in small examples: contents, shared files, allowed directories, and failures.
//!
//! Under load: `tests/load/threads.rs`. In histories: `tests/lockstep`. With crashes and faults at
//! every step: `tests/crash`, `tests/faults`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Db, Error, Options, Result, step};
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, MemoryEnv, OsEnv, SimEnv, TempDir};

use crate::model::{Model, all};

fn options(env: &Arc<dyn Env>) -> Options {
    Options::new().threads(2).advanced(advanced(env))
}

fn advanced(env: &Arc<dyn Env>) -> AdvancedOptions {
    AdvancedOptions::new().env(env.clone()).memtable_bytes(4096).block_bytes(256).table_bytes(2048)
}

fn simulated() -> (SimEnv, Arc<dyn Env>) {
    let env = SimEnv::new(1);
    (env.clone(), Arc::new(env))
}

fn put(db: &Db, keys: impl IntoIterator<Item = u64>, value: &str) -> Result<()> {
    keys.into_iter().try_for_each(|key| db.put(format!("key {key:04}"), format!("{value} {key}")))
}

fn names(env: &dyn Env, dir: &str) -> Vec<String> {
    env.list(Path::new(dir)).unwrap().into_iter().map(|name| name.into_string().unwrap()).collect()
}

/// A checkpoint has the entries as of its creation, and both databases are independent: each keeps
/// what the other overwrites, deletes and compacts away.
fn stays_as_it_was(env: &Arc<dyn Env>, dir: &Path, checkpoint: &Path) -> Result<()> {
    let db = options(env).open(dir)?;
    put(&db, 0..300, "old")?;
    db.flush()?;
    put(&db, 100..150, "newer")?;
    db.delete("key 0000")?;
    let before = all(&db);
    let report = db.checkpoint(checkpoint)?;
    assert_eq!((report.sequence, report.tables_copied, report.why_copied.as_ref()), (351, 0, None));
    assert!(report.tables_shared > 2 && report.bytes_shared > 5000, "{report:?}");
    put(&db, 0..300, "after")?;
    db.compact()?;
    let after = all(&db);

    let other = options(env).open(checkpoint)?;
    assert_eq!((other.recovery().dropped.len(), other.recovery().entries_replayed), (0, 0));
    assert_eq!(all(&other), before);
    put(&other, 200..400, "elsewhere")?;
    other.compact()?;
    assert_eq!(other.get("key 0250")?.as_deref(), Some(&b"elsewhere 250"[..]));
    assert_eq!(all(&db), after);
    for db in [db, other] {
        assert_eq!(db.verify(&mut |_, _| {})?.problems.len(), 0);
        db.close()?;
    }
    assert_eq!(all(&options(env).open(dir)?), after);
    let other = options(env).open(checkpoint)?;
    assert_eq!((all(&other).len(), other.get("key 0150")?.as_deref()), (399, Some(&b"old 150"[..])));
    Ok(())
}

#[test]
fn a_checkpoint_does_not_change_on_the_simulator() -> Result<()> {
    stays_as_it_was(&simulated().1, Path::new("/db"), Path::new("/checkpoint"))
}

/// On real files, beside the database and inside of its directory.
#[test]
fn a_checkpoint_does_not_change_on_files() -> Result<()> {
    let dir = TempDir::new().unwrap();
    stays_as_it_was(&OsEnv::new(), &dir.path().join("db"), &dir.path().join("checkpoint"))?;
    stays_as_it_was(&OsEnv::new(), &dir.path().join("db2"), &dir.path().join("db2/checkpoint"))
}

/// A checkpoint takes hardly any space, and shared tables exist until both databases have released
/// them.
#[test]
fn tables_take_space_once() -> Result<()> {
    let (sim, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..2000, "value")?;
    db.compact()?;
    let (used, tables) = (sim.used_bytes(), names(&*env, "/db"));
    let report = db.checkpoint("/checkpoint")?;
    assert!(report.bytes_shared > 30_000, "{report:?}, of {used} bytes");
    assert!(sim.used_bytes() - used < 3 * 4096, "a manifest and CURRENT: {} bytes more", sim.used_bytes() - used);
    let shared: Vec<_> = tables.into_iter().filter(|name| name.ends_with(".sst")).collect();
    assert_eq!(report.tables_shared, shared.len() as u64);
    put(&db, 0..2000, "other")?;
    db.compact()?;
    sim.run_background_until_idle();
    assert!(names(&*env, "/db").iter().all(|name| !shared.contains(name)), "they are compacted away here");
    assert!(shared.iter().all(|name| names(&*env, "/checkpoint").contains(name)), "and not there");
    Ok(())
}

/// Checkpoints of an empty database and of a checkpoint.
#[test]
fn of_an_empty_database_and_of_a_checkpoint() -> Result<()> {
    let (_, env) = simulated();
    let db = options(&env).open("/db")?;
    assert_eq!(db.checkpoint("/empty")?.tables_shared, 0);
    put(&db, 0..50, "value")?;
    db.checkpoint("/first")?;
    let first = options(&env).open("/first")?;
    put(&first, 50..60, "value")?;
    first.checkpoint("/second")?;
    assert_eq!(all(&options(&env).open("/second")?).len(), 60);
    assert_eq!(all(&options(&env).create_if_missing(false).open("/empty")?), Model::new());
    Ok(())
}

/// The sequences of ingested runs are far ahead of the WAL: installed ones are in the checkpoint,
/// others are not, and both databases continue.
#[test]
fn beside_ingested_runs() -> Result<()> {
    let (_, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..50, "value")?;
    let (mut one, mut another) = (db.ingest()?, db.ingest()?);
    (50..150).try_for_each(|key| one.put(format!("key {key:04}"), "ingested"))?;
    (150..250).try_for_each(|key| another.put(format!("key {key:04}"), "ingested"))?;
    one.finish()?;
    put(&db, 0..20, "after it")?;
    let before = all(&db);
    db.checkpoint("/checkpoint")?;
    another.finish()?;
    drop(db);
    for (dir, count) in [("/checkpoint", 150), ("/db", 250)] {
        let db = options(&env).open(dir)?;
        assert_eq!(all(&db).len(), count, "{dir}");
        assert!(dir == "/db" || all(&db) == before);
        put(&db, 500..520, "later")?;
        db.close()?;
        assert_eq!(all(&options(&env).open(dir)?).len(), count + 20, "{dir}");
    }
    Ok(())
}

/// Compactions in progress continue in both databases.
#[test]
fn during_a_compaction() -> Result<()> {
    let (sim, env) = simulated();
    // Slow, so that compactions last from one checkpoint to the next.
    let db = options(&env)
        .advanced(advanced(&env).policy("tiering:T=2").compaction_bytes_per_second(100_000))
        .open("/db")?;
    let mut in_midst = 0;
    for round in 0..40 {
        put(&db, (0..400).map(|key| key * 7 % 1000), &format!("round {round}"))?;
        sim.run_until(sim.now() + Duration::from_millis(5));
        let before = all(&db);
        let dir = format!("/checkpoint{round}");
        db.checkpoint(&dir)?;
        let other = options(&env).open(&dir)?;
        in_midst += usize::from(other.stats().jobs.iter().any(|job| !job.is_flush));
        assert_eq!(all(&other), before, "round {round}");
        other.wait_for_compactions()?;
        assert_eq!(all(&other), before, "round {round}, after its compactions");
        assert_eq!(other.verify(&mut |_, _| {})?.problems.len(), 0);
    }
    assert!(in_midst > 3, "only {in_midst} checkpoints had a compaction in progress");
    Ok(())
}

/// Where hard links are impossible, tables are copied, and the report says why.
#[test]
fn copies_where_links_are_impossible() -> Result<()> {
    let (sim, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..500, "value")?;
    sim.inject(Fault::new(Failure::CrossesDevices).forever());
    let report = db.checkpoint("/checkpoint")?;
    assert_eq!((report.tables_shared, report.bytes_shared), (0, 0));
    assert!(report.tables_copied > 2, "{report:?}");
    let why = report.why_copied.as_ref().expect("tables were copied");
    assert!(why.contains(".sst") && why.contains("device"), "{why}");
    drop(db);
    assert_eq!(all(&options(&env).open("/checkpoint")?).len(), 500);
    Ok(())
}

/// The same with two real file systems, where the machine has them.
#[test]
fn copies_into_another_file_system() -> Result<()> {
    let (env, here) = (OsEnv::new(), TempDir::below(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap());
    let Ok(there) = TempDir::below(Path::new("/dev/shm")) else { return Ok(()) };
    let db = options(&env).open(here.path().join("db"))?;
    put(&db, 0..500, "value")?;
    let report = db.checkpoint(there.path().join("checkpoint"))?;
    println!("{report:?}");
    assert_eq!(all(&options(&env).open(there.path().join("checkpoint"))?), all(&db));
    Ok(())
}

/// A directory that is not empty is left alone, whatever is in it, and one that cannot be created
/// is an error.
#[test]
fn directories_that_cannot_be_used() -> Result<()> {
    let (sim, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..10, "value")?;
    db.checkpoint("/checkpoint")?;
    env.create_dir(Path::new("/other"), step::DATABASE_CREATE).unwrap();
    env.create(Path::new("/other/notes.txt"), step::TABLE_CREATE).unwrap();
    let before = sim.identity();
    for (dir, what) in [
        ("/db", "empty"),
        ("/checkpoint", "has 0000000001.manifest"),
        ("/other", "has notes.txt"),
        ("/other/notes.txt", "not a directory"),
        ("/missing/checkpoint", "make that first"),
    ] {
        let error = db.checkpoint(dir).expect_err(dir);
        assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        assert!(error.to_string().contains(what) && error.to_string().contains(dir), "{error}");
    }
    assert_eq!(sim.identity(), before, "nothing was changed");

    let lock = env.lock(Path::new("/taken/LOCK"));
    assert!(lock.is_err(), "there is no such directory yet");
    env.create_dir(Path::new("/taken"), step::DATABASE_CREATE).unwrap();
    let lock = env.lock(Path::new("/taken/LOCK")).unwrap();
    assert!(matches!(db.checkpoint("/taken"), Err(Error::Locked { .. })), "somebody else is at it");
    drop(lock);
    db.checkpoint("/taken")?;
    Ok(())
}

/// A failed checkpoint leaves nothing behind, and a retry in the same place succeeds.
#[test]
fn failed_checkpoints_are_removed() -> Result<()> {
    let steps = [
        step::CHECKPOINT_LINK,
        step::MANIFEST_CREATE,
        step::MANIFEST_WRITE_BASE,
        step::MANIFEST_SYNC_BASE,
        step::MANIFEST_SYNC_DIRECTORY,
        step::CURRENT_CREATE,
        step::CURRENT_SYNC,
        step::CURRENT_RENAME,
        step::CURRENT_SYNC_DIRECTORY,
    ];
    let (sim, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..200, "value")?;
    db.flush()?;
    for failing in steps {
        sim.inject(Fault::new(Failure::Io).step(failing));
        let error = db.checkpoint("/checkpoint").expect_err(failing.0);
        assert!(matches!(&error, Error::Io { operation, .. } if *operation == failing.0), "{error}");
        assert_eq!(names(&*env, "/checkpoint"), ["LOCK"], "after {failing:?}");
    }
    // If the last step fails so that its undoing cannot be trusted either, the whole checkpoint
    // remains.
    sim.inject(Fault::new(Failure::Io).step(step::CURRENT_SYNC_DIRECTORY));
    sim.inject(Fault::new(Failure::Io).step(step::CHECKPOINT_SYNC_REMOVED));
    db.checkpoint("/unsure").expect_err("it failed");
    assert!(names(&*env, "/unsure").iter().any(|name| name.ends_with(".sst")));
    sim.clear_faults();
    db.checkpoint("/checkpoint")?;
    put(&db, 0..20, "this one goes on")?;
    assert_eq!(all(&options(&env).open("/checkpoint")?).len(), 200);
    Ok(())
}

/// When writing has ended, memtables cannot be flushed, so no checkpoint is made, and nothing is
/// created.
#[test]
fn none_after_writing_has_ended() -> Result<()> {
    let (_, env) = simulated();
    let db = options(&env).open("/db")?;
    put(&db, 0..200, "value")?;
    let clone = db.clone();
    clone.close()?;
    let error = db.checkpoint("/checkpoint").expect_err("it is closed");
    assert!(error.to_string().contains("closed"), "{error}");
    assert!(env.list(Path::new("/checkpoint")).is_err());
    Ok(())
}

/// While tables are copied, each call fails in turn: the directory is empty or, if it was the last
/// call, has the whole checkpoint; and the database continues.
#[test]
fn each_call_failing_while_copying() -> Result<()> {
    let prepared = || -> Result<(SimEnv, Arc<dyn Env>, Db)> {
        let (sim, env) = simulated();
        let db = options(&env).open("/db")?;
        put(&db, 0..150, "value")?;
        db.flush()?;
        sim.run_background_until_idle();
        sim.inject(Fault::new(Failure::CrossesDevices).forever());
        Ok((sim, env, db))
    };
    let (sim, _, db) = prepared()?;
    let first = sim.calls_made();
    assert!(db.checkpoint("/checkpoint")?.tables_copied > 0);
    let calls = sim.calls_made() - first;
    assert!(calls > 20, "{calls} calls");
    for failure in [Failure::Io, Failure::StorageFull, Failure::PartialWrite, Failure::SyncDropsPages] {
        let mut struck = 0;
        for call in first..first + calls {
            let (sim, env, db) = prepared()?;
            sim.inject(Fault::new(failure.clone()).at_call(call));
            let made = db.checkpoint("/checkpoint");
            let rest = env.list(Path::new("/checkpoint")).unwrap_or_default();
            match made {
                Ok(_) => assert_eq!(all(&options(&env).open("/checkpoint")?).len(), 150, "{failure:?} at call {call}"),
                Err(error) => {
                    struck += 1;
                    assert!(matches!(error, Error::Io { .. }), "{failure:?} at call {call}: {error}");
                    assert!(rest.iter().all(|name| name == "LOCK"), "{failure:?} at call {call}: {rest:?}");
                }
            }
            sim.clear_faults();
            put(&db, 100..200, "later")?;
            db.flush()?;
            assert_eq!(all(&db).len(), 200);
        }
        assert!(struck > 0, "{failure:?} struck no call");
        println!("{failure:?}: {struck} of {calls} calls");
    }
    Ok(())
}

/// Closing by another thread during a checkpoint: it has everything acknowledged before the call,
/// or returns that the database is closed.
#[test]
fn closed_meanwhile() -> Result<()> {
    let (mut made, mut refused) = (0, 0);
    for round in 0..60 {
        let env = MemoryEnv::new(round);
        let db = options(&env).open("/db")?;
        put(&db, 0..300, "value")?;
        let before = all(&db);
        let closing = db.clone();
        let outcome = thread::scope(|scope| {
            let checkpoint = scope.spawn(|| db.checkpoint("/checkpoint"));
            env.sleep_until(env.now() + Duration::from_micros(round * 20));
            closing.close().expect("it closes");
            checkpoint.join().expect("it does not panic")
        });
        assert_eq!(all(&db), before);
        drop(db);
        assert_eq!(all(&options(&env).open("/db")?), before);
        match outcome {
            Ok(_) => {
                made += 1;
                assert_eq!(all(&options(&env).create_if_missing(false).open("/checkpoint")?), before);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("closed"), "{error}");
                let rest = env.list(Path::new("/checkpoint")).unwrap_or_default();
                assert!(rest.iter().all(|name| name == "LOCK"), "{rest:?}");
            }
        }
    }
    println!("{made} made, {refused} refused");
    Ok(())
}

/// Closing after the flush, before each of the remaining calls: the checkpoint is made all the
/// same, and the close is clean.
#[test]
fn closed_while_tables_are_linked() -> Result<()> {
    for step in [step::CHECKPOINT_LINK, step::MANIFEST_CREATE, step::CURRENT_RENAME, step::CURRENT_SYNC_DIRECTORY] {
        let (sim, env) = simulated();
        let db = options(&env).open("/db")?;
        put(&db, 0..300, "value")?;
        db.flush()?;
        let closing = Mutex::new(Rank::Test, Some(db.clone()));
        sim.set_hook(move |moment| {
            if moment.call.step == Some(step) {
                closing.lock().take().into_iter().for_each(|db| db.close().expect("it closes"));
            }
        });
        db.checkpoint("/checkpoint")?;
        sim.clear_hook();
        assert!(db.put("key", "value").is_err(), "{step:?}: it was closed");
        drop(db);
        for dir in ["/db", "/checkpoint"] {
            let db = options(&env).open(dir)?;
            assert_eq!((all(&db).len(), db.recovery().entries_replayed), (300, 0), "{step:?}, {dir}");
        }
    }
    Ok(())
}
