//! Read-only databases: no call changes storage; many at once, but none beside a writer; reads
//! agree with a database opened for writing.
//!
//! `lockstep` checks this for random histories.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Batch, Compression, Db, Durability, Error, Options, Result, step};
use tamarack_env::sim::{Crash, Failure, Fault};
use tamarack_env::{Env, MemoryEnv, OsEnv, SimEnv, TempDir};
use tamarack_testing::read_dir;

use crate::model::{Model, all};

const DIR: &str = "/db";

fn options(env: &Arc<dyn Env>) -> Options {
    let advanced = AdvancedOptions::new().env(env.clone()).memtable_bytes(2048).block_bytes(256).table_bytes(1024);
    Options::new().threads(2).compression(Compression::None).advanced(advanced)
}

fn shared(env: &SimEnv) -> Arc<dyn Env> {
    Arc::new(env.clone())
}

fn put(db: &Db, keys: impl IntoIterator<Item = u64>, value: &str) -> Result<()> {
    keys.into_iter().try_for_each(|key| db.put(format!("key {key:04}"), format!("{value} {key}")))
}

/// Makes every call that reads, and every call that would write.
fn use_in_every_way(db: &Db) {
    let there = all(db);
    assert_eq!(db.scan(..).rev().count(), there.len());
    for (key, value) in &there {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let keys: Vec<_> = there.keys().collect();
    assert_eq!(db.multi_get(&keys).unwrap().into_iter().flatten().count(), there.len());
    assert_eq!(db.snapshot().scan(..).count(), there.len());
    assert!(db.verify(&mut |_, _| {}).unwrap().is_ok());
    let stats = db.stats();
    assert_eq!((stats.background_error, stats.flushes, stats.compactions), (None, 0, 0));

    let refusals = [
        db.put("key", "value"),
        db.delete("key"),
        db.write(&Batch::new()),
        db.write_with(Batch::new().put("key", "value"), Durability::Sync),
        db.write_with(&Batch::new(), Durability::Interval(std::time::Duration::ZERO)),
        db.flush(),
        db.sync(),
        db.compact(),
        db.compact_range("a".."z"),
        db.wait_for_compactions(),
        db.set_policy("tiering:T=3"),
        db.checkpoint("/checkpoint").map(drop),
        db.ingest().map(drop),
    ];
    for (number, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.expect_err(&format!("call {number}"));
        assert!(matches!(error, Error::ReadOnly { .. }), "call {number}: {error:?}");
        assert!(error.to_string().contains("read-only") && error.to_string().contains("open it for writing"));
    }
    drop(db.pause_compactions());
}

/// Creates the state after a loss of power: data in tables, in the WAL and in the WAL's torn end, a
/// compaction in progress, and an orphan.
fn left_by_a_crash(seed: u64) -> Result<SimEnv> {
    let env = SimEnv::new(seed);
    let db = options(&shared(&env)).advanced(
        AdvancedOptions::new()
            .env(shared(&env))
            .memtable_bytes(1024)
            .table_bytes(512)
            .policy("tiering:T=2")
            .compaction_bytes_per_second(50_000),
    );
    let db = db.open(DIR)?;
    // During a flush or a compaction: some tables are not in the manifest yet.
    let image = Arc::new(tamarack_env::sync::Mutex::new(tamarack_env::sync::Rank::Test, None));
    let taken = image.clone();
    env.set_hook(move |moment| {
        if moment.call.step == Some(step::MANIFEST_APPEND) {
            *taken.lock() = Some(moment.image(Crash::draw(seed, moment.unsynced_changes())));
        }
    });
    for round in 0..6 {
        put(&db, (0..150).map(|key| key * 7 % 200), &format!("round {round}"))?;
        env.run_until(env.now() + std::time::Duration::from_millis(3));
    }
    db.write_with(Batch::new().put("synced", "yes").delete("key 0000"), Durability::Sync)?;
    put(&db, 0..20, "not synced")?;
    env.clear_hook();
    if let Some(image) = image.lock().take().filter(|_| seed.is_multiple_of(2)) {
        return Ok(image);
    }
    Ok(env.image(Crash::draw(seed, env.unsynced_changes())))
}

/// No call changes storage, no byte differs afterwards, and opening it for writing finds the same.
#[test]
fn nothing_changes() -> Result<()> {
    let (mut torn, mut replayed, mut compacting, mut orphans) = (0, 0, 0, 0);
    for seed in 0..40 {
        let env = left_by_a_crash(seed)?;
        let before = (env.identity(), read_dir(&env, Path::new(DIR)));
        env.start_recording();
        let db = options(&shared(&env)).open_read_only(DIR)?;
        let another = options(&shared(&env)).open_read_only(DIR)?;
        use_in_every_way(&db);
        let found = all(&another);
        assert_eq!(all(&db), found);
        env.run_background_until_idle();
        let recovery = db.recovery().clone();
        compacting += usize::from(!db.stats().jobs.is_empty());
        let clone = db.clone();
        db.close()?;
        assert_eq!(all(&clone), found, "closing it keeps nobody from reading");
        drop((clone, another));
        let changing: Vec<_> = env.stop_recording().into_iter().filter(|call| call.kind.changes_storage()).collect();
        assert!(changing.is_empty(), "seed {seed}: {changing:?}");
        assert_eq!((env.identity(), read_dir(&env, Path::new(DIR))), before, "seed {seed}");
        assert_eq!(env.unsynced_changes(), 0);

        let db = options(&shared(&env)).open(DIR)?;
        assert_eq!(all(&db), found, "seed {seed}");
        assert_eq!(db.recovery().dropped, recovery.dropped, "seed {seed}");
        assert_eq!(db.recovery().entries_replayed, recovery.entries_replayed, "seed {seed}");
        assert_eq!(recovery.orphans_removed.len(), 0);
        torn += usize::from(!recovery.dropped.is_empty());
        replayed += usize::from(recovery.entries_replayed > 0);
        orphans += usize::from(!db.recovery().orphans_removed.is_empty());
    }
    println!(
        "{torn} with a torn end, {replayed} with entries in the WAL, {compacting} with a compaction in progress, {orphans} with orphans"
    );
    assert!(torn > 5 && replayed > 5 && compacting > 5 && orphans > 5);
    Ok(())
}

/// On real files, of an unclosed and of a closed database.
#[test]
fn files_do_not_change() -> Result<()> {
    let scratch = TempDir::new().unwrap();
    for closed in [false, true] {
        let (env, dir) = (OsEnv::new(), scratch.path().join(format!("db {closed}")));
        let db = options(&env).open(&dir)?;
        put(&db, 0..500, "value")?;
        db.wait_for_compactions()?;
        put(&db, 500..520, "value")?;
        if closed {
            db.close()?
        } else {
            drop(db)
        }
        let before = read_dir(&*env, &dir);
        let [db, another] = [(); 2].map(|()| options(&env).open_read_only(&dir).unwrap());
        use_in_every_way(&db);
        assert_eq!(all(&another).len(), 520);
        drop((db, another));
        assert_eq!(read_dir(&*env, &dir), before);
    }
    Ok(())
}

/// Readers share the database; writers and readers exclude each other, with an error.
#[test]
fn many_readers_or_one_writer() -> Result<()> {
    let env = MemoryEnv::new(1);
    let writer = options(&env).open(DIR)?;
    put(&writer, 0..10, "value")?;
    let locked = |outcome: Result<Db>| match outcome {
        Err(error @ Error::Locked { .. }) => assert!(error.to_string().contains("close it there first"), "{error}"),
        other => panic!("{other:?}"),
    };
    locked(options(&env).open_read_only(DIR));
    drop(writer);
    let readers: Vec<_> = (0..5).map(|_| options(&env).open_read_only(DIR)).collect::<Result<_>>()?;
    for reader in readers {
        locked(options(&env).open(DIR));
        assert_eq!(all(&reader).len(), 10);
        // An iterator keeps the database open as well.
        let scan = reader.scan(..);
        drop(reader);
        locked(options(&env).open(DIR));
        assert_eq!(scan.count(), 10);
    }
    options(&env).open(DIR).map(drop)
}

/// A copy without its lock file, as on a read-only medium, opens without making one.
#[test]
fn without_a_lock_file() -> Result<()> {
    let env = SimEnv::new(1);
    put(&options(&shared(&env)).open(DIR)?, 0..100, "value")?;
    env.remove(&Path::new(DIR).join("LOCK"), step::TABLE_REMOVE).unwrap();
    let (one, another) = (options(&shared(&env)).open_read_only(DIR)?, options(&shared(&env)).open_read_only(DIR)?);
    assert_eq!((all(&one).len(), all(&another).len()), (100, 100));
    assert!(!env.list(Path::new(DIR)).unwrap().iter().any(|name| name == "LOCK"));
    Ok(())
}

/// A missing database is not created, and the remains of an interrupted creation are kept.
#[test]
fn missing_databases_are_not_created() -> Result<()> {
    let refused = |env: &SimEnv, dir: &str| {
        let before = env.identity();
        let error = options(&shared(env)).open_read_only(dir).expect_err("there is none");
        assert!(matches!(error, Error::NotFound { .. }) && error.to_string().contains(dir), "{error}");
        assert_eq!(env.identity(), before);
    };
    let env = SimEnv::new(1);
    refused(&env, DIR);
    // Every moment of creating one, as a crash leaves it.
    let moments = Arc::new(tamarack_env::sync::Mutex::new(tamarack_env::sync::Rank::Test, Vec::new()));
    let taken = moments.clone();
    env.set_hook(move |moment| taken.lock().push(moment.image(Crash::KeepAll)));
    let db = options(&shared(&env)).open(DIR)?;
    env.clear_hook();
    put(&db, 0..3, "value")?;
    let moments = std::mem::take(&mut *moments.lock());
    let mut there = 0;
    for image in &moments {
        match options(&shared(image)).open_read_only(DIR) {
            Ok(db) => {
                there += 1;
                assert_eq!(all(&db), Model::new());
            }
            Err(_) => refused(image, DIR),
        }
    }
    assert!(moments.len() > 10 && there < moments.len() / 2, "{there} of {}", moments.len());
    env.create_dir(Path::new("/empty"), step::DATABASE_CREATE).unwrap();
    refused(&env, "/empty");
    Ok(())
}

/// Damage is an error as always, and so is a torn end if requested.
#[test]
fn damage_is_an_error() -> Result<()> {
    let env = SimEnv::new(3);
    let db = options(&shared(&env)).open(DIR)?;
    put(&db, 0..100, "value")?;
    db.close()?;
    let image = env.image(Crash::KeepAll);
    let wal =
        image.files().into_iter().map(|(path, _)| path).filter(|path| path.extension().is_some_and(|e| e == "wal"));
    image.flip_bit(wal.max().expect("there is a WAL"), 100, 3).unwrap();
    assert!(matches!(options(&shared(&image)).open_read_only(DIR), Err(Error::Corruption { .. })));

    let db = options(&shared(&env)).open(DIR)?;
    env.inject(Fault::new(Failure::PartialWrite).step(step::WAL_APPEND));
    env.inject(Fault::new(Failure::Io).step(step::WAL_CUT));
    assert!(db.put("torn", "x".repeat(100)).is_err());
    let image = env.process_image();
    drop(db);
    let strict = AdvancedOptions::new().env(shared(&image)).strict_recovery(true);
    assert!(matches!(options(&shared(&image)).advanced(strict).open_read_only(DIR), Err(Error::Corruption { .. })));
    let db = options(&shared(&image)).open_read_only(DIR)?;
    assert_eq!((db.recovery().dropped.len(), all(&db).len()), (1, 100));
    Ok(())
}
