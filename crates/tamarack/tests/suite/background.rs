//! What happens in the background when nobody looks: failed flushes begin anew by themselves, but
//! not at every write; what was to be synced within an interval is synced, whatever ends first;
//! what a close made durable is missed if it is gone.

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
fn a_failed_flush_pauses_and_then_begins_anew_although_nobody_writes() -> Result<()> {
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

/// Merges can have to wait for a flush. If that found no space, whoever waited for merges heard
/// nothing until somebody made some.
#[test]
fn waiting_for_merges_ends_with_an_error_if_flushes_fail() -> Result<()> {
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

/// Whoever pauses merges and then waits for them waits for itself.
#[test]
fn waiting_for_merges_that_are_paused_is_refused() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.put("key", "value")?;
    let pause = db.pause_compactions();
    assert!(matches!(db.compact(), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.wait_for_compactions(), Err(Error::InvalidArgument(_))));
    drop(pause);
    db.compact()
}

/// The edit of a new shape is written by whoever asks for it. When its sync failed, that call said
/// so, and writing went on.
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
fn an_interval_is_kept_although_the_database_is_dropped_before_it_is_over() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.write_with(Batch::new().put("a", "1"), Durability::Interval(Duration::from_secs(10)))?;
    drop(db);
    assert!(open(&sim.image(Crash::LoseAll))?.contains("a")?);
    Ok(())
}

#[test]
fn an_interval_without_end_is_no_mistake() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    sim.advance(Duration::from_secs(1));
    db.write_with(Batch::new().put("a", "1"), Durability::Interval(Duration::MAX))?;
    sim.run_background_until_idle();
    db.close()
}

/// The last record of a log has no younger one that could say it was durable; that it was closed
/// says it.
#[test]
fn the_end_of_a_closed_log_is_missed() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim)?;
    db.put("a", "1")?;
    db.close()?;
    let wal = PathBuf::from("/db").join(FileName::Wal(1).name());
    let bytes = sim.content(&wal).expect("the log is there").len() as u64;
    sim.flip_bit(&wal, bytes - 8, 0).expect("the log is there");
    match open(&sim) {
        Err(Error::Corruption { path, .. }) => assert_eq!(path, wal),
        other => panic!("{other:?}"),
    }
    Ok(())
}

/// Whoever waits for merges is told so, too, if what was flushed calls for none.
#[test]
fn waiting_for_merges_ends_although_there_are_none() -> Result<()> {
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
