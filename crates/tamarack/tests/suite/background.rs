//! Background work without foreground calls: a failed flush is retried by itself, but not at every
//! write; a write of an interval is synced in time, whatever ends first; the loss of anything that
//! a close made durable is detected.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Db, Durability, Error, Event, Options, Result, step};
use tamarack_env::sim::{CallKind, Crash, Failure, Fault};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, SimEnv};
use tamarack_format::names::FileName;
use tamarack_testing::read_dir;

fn open(sim: &SimEnv) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(1000).block_bytes(256);
    Options::new().advanced(advanced).open("/db")
}

#[test]
fn a_failed_flush_is_retried_after_a_pause_without_writes() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    sim.inject(Fault::new(Failure::StorageFull).step(step::TABLE_WRITE).forever());
    db.put("large", [b'v'; 1000])?;
    for number in 0..20 {
        db.put(format!("{number}"), "small")?;
        sim.run_background_until_idle();
    }
    assert_eq!((db.stats().flushes, db.stats().flush_failures), (0, 1));
    sim.clear_faults();
    sim.advance(Duration::from_millis(500));
    sim.run_background_until_idle();
    assert_eq!((db.stats().flushes, db.stats().flush_failures), (1, 1));
    Ok(())
}

/// Compactions can depend on a flush. If that found no disk space, waiting for compactions blocked
/// until space was freed.
#[test]
fn waiting_for_compactions_returns_the_error_of_flushes() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    sim.inject(Fault::new(Failure::StorageFull).step(step::TABLE_WRITE).forever());
    db.put("large", [b'v'; 1000])?;
    db.put("key", "value")?;
    sim.run_background_until_idle();
    assert!(matches!(db.wait_for_compactions(), Err(Error::Io { .. })));
    sim.clear_faults();
    sim.advance(Duration::from_millis(500));
    sim.run_background_until_idle();
    db.wait_for_compactions()
}

/// A memtable that waits for its flush is pending work: waiting returned before its flush began.
#[test]
fn waiting_for_compactions_waits_for_flushes() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    for number in 0..4 {
        db.put(format!("{number}"), [b'v'; 900])?;
        db.wait_for_compactions()?;
        assert_eq!(db.stats().flushes, number, "all memtables but the active one");
    }
    Ok(())
}

/// A table that cannot be read stops its own compaction only: it stopped all of them, and their
/// successes were reported as the end of its failure.
#[test]
fn a_failing_compaction_stops_no_other() -> Result<()> {
    let sim = SimEnv::new(1);
    let told = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let notes = told.clone();
    let listener = move |event: &Event| match event {
        Event::BackgroundFailed { operation, .. } => notes.lock().push(format!("{operation} failed")),
        Event::BackgroundRecovered { operation } => notes.lock().push(format!("{operation} recovered")),
        _ => {}
    };
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(1000).block_bytes(256);
    let advanced = advanced.policy("leveling:T=3").cache_bytes(0);
    let db = Options::new().advanced(advanced).listener(Arc::new(listener)).open("/db")?;
    let mut puts = 0u64;
    let mut write = |memtables: u64| -> Result<()> {
        for _ in 0..memtables * 10 {
            puts += 1;
            db.put(format!("{:05}", puts * 7919 % 100_000), [b'v'; 100])?;
            sim.run_background_until_idle();
        }
        Ok(())
    };
    write(50)?;
    let largest = tables(&sim)?.into_iter().max_by_key(|table| table.1).expect("there are tables").0;
    let path = largest.clone();
    sim.inject(
        Fault::new(Failure::Io).matching(move |call| call.kind == CallKind::Read && *call.path == *path).forever(),
    );
    let failures = || db.stats().compaction_failures;
    while failures() == 0 {
        write(1)?;
    }
    let before = db.stats().compactions;
    write(20)?;
    assert_eq!(failures(), 1, "it pauses: no time has passed");
    assert!(db.stats().compactions > before + 3, "others go on");
    assert_eq!(*told.lock(), ["compaction failed"]);
    assert!(db.stats().background_error.is_some(), "others' success does not end its failure");

    // Each attempt is followed by a pause.
    sim.advance(Duration::from_millis(500));
    sim.run_background_until_idle();
    assert_eq!(failures(), 2);
    sim.clear_faults();
    sim.advance(Duration::from_secs(1));
    sim.run_background_until_idle();
    assert_eq!(*told.lock(), ["compaction failed", "compaction failed", "compaction recovered"]);
    assert!(db.stats().background_error.is_none());
    assert!(!tables(&sim)?.iter().any(|table| table.0 == largest), "it was compacted in the end");
    Ok(())
}

/// Returns the tables' files, with their sizes in bytes.
fn tables(sim: &SimEnv) -> Result<Vec<(PathBuf, u64)>> {
    let dir = Path::new("/db");
    let names = sim.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let paths = names.iter().map(|name| dir.join(name)).filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let file_bytes = |path: &Path| sim.open(path, Access::Read)?.len();
    paths.map(|path| Ok((path.clone(), file_bytes(&path).map_err(|error| Error::io("open", &path, error))?))).collect()
}

/// A table whose file could not be removed was left there until the next opening.
#[test]
fn removals_are_retried() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    for round in 0..3 {
        sim.inject(Fault::new(Failure::Io).step(step::TABLE_REMOVE));
        for number in 0..30 {
            db.put(format!("{number}"), [b'v'; 100])?;
        }
        db.compact()?;
        sim.run_background_until_idle();
        sim.advance(Duration::from_millis(500));
        sim.run_background_until_idle();
        let in_use: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
        assert_eq!(tables(&sim)?.len() as u64, in_use, "round {round}: nothing is left over");
    }
    Ok(())
}

/// Waiting for compactions while they are paused would block for ever.
#[test]
fn waiting_for_paused_compactions_is_refused() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.put("key", "value")?;
    let pause = db.pause_compactions();
    assert!(matches!(db.compact(), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.wait_for_compactions(), Err(Error::InvalidArgument(_))));
    drop(pause);
    db.compact()
}

/// The caller writes the edit of a new shape. When its sync failed, the call returned the error,
/// but writing continued.
#[test]
fn a_policy_whose_sync_fails_ends_writing() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    sim.inject(Fault::new(Failure::SyncDropsPages).step(step::MANIFEST_SYNC));
    assert!(matches!(db.set_policy("tiering:T=4"), Err(Error::Stopped { .. })));
    assert!(matches!(db.put("key", "value"), Err(Error::Stopped { .. })));
    Ok(())
}

#[test]
fn an_interval_is_kept_although_the_database_is_dropped() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.write_with(Batch::new().put("a", "1"), Durability::Interval(Duration::from_secs(10)))?;
    drop(db);
    assert!(open(&sim.image(Crash::LoseAll))?.contains_key("a")?);
    Ok(())
}

#[test]
fn an_infinite_interval_is_allowed() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    sim.advance(Duration::from_secs(1));
    db.write_with(Batch::new().put("a", "1"), Durability::Interval(Duration::MAX))?;
    sim.run_background_until_idle();
    db.close()
}

/// The last record of a WAL has no younger record to say that it was durable; the clean close says
/// so.
#[test]
fn a_lost_end_of_a_closed_wal_is_detected() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.put("a", "1")?;
    db.close()?;
    let wal = PathBuf::from("/db").join(FileName::Wal(1).name());
    let bytes = sim.content(&wal).expect("the WAL exists").len() as u64;
    sim.flip_bit(&wal, bytes - 8, 0).expect("the WAL exists");
    match open(&sim) {
        Err(Error::Corruption { path, .. }) => assert_eq!(path, wal),
        other => panic!("{other:?}"),
    }
    Ok(())
}

/// Waiting for compactions also ends if the flushed data needs none.
#[test]
fn waiting_for_compactions_ends_if_none_is_due() -> Result<()> {
    for seed in 0..50 {
        let sim = SimEnv::new(seed);
        let db = open(&sim)?;
        db.put("a", "1")?;
        db.flush()?;
        db.wait_for_compactions()?;
        assert_eq!((db.stats().flushes, db.stats().compactions), (1, 0));
    }
    Ok(())
}

/// A reader may let go of an old version when no worker looks any more. Its tables stayed until the
/// next opening, and `tamarack verify` spoke of files left by a crash.
#[test]
fn closing_removes_tables_that_nobody_needs() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    let tables = || -> Vec<String> {
        read_dir(&sim, Path::new("/db")).into_keys().filter(|name| name.ends_with(".sst")).collect()
    };
    let fill = |value: &str| -> Result<()> {
        (0..20).try_for_each(|number| db.put(format!("{number}"), value))?;
        db.flush()?;
        db.compact()
    };
    fill("old")?;
    let mut scan = db.scan(..);
    assert!(scan.next().is_some());
    fill("new")?;
    sim.run_background_until_idle();
    let with_reader = tables();
    drop(scan);
    drop(db);
    let closed = tables();
    drop(open(&sim)?);
    assert!(with_reader.len() > closed.len() && closed == tables(), "{with_reader:?}, {closed:?}, {:?}", tables());
    Ok(())
}
