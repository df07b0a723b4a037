//! Background work without foreground calls: a failed flush is retried by itself, but not at every
//! write; a write of an interval is synced in time, whatever ends first; the loss of anything that
//! a close made durable is detected.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Db, Durability, Error, Options, Result, step};
use tamarack_env::SimEnv;
use tamarack_env::sim::{Crash, Failure, Fault};
use tamarack_format::names::FileName;

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
    assert!(open(&sim.image(Crash::LoseAll))?.contains("a")?);
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
