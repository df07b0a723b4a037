//! A nearly full disk: puts are refused while the reserve of space is left, which serves flushes
//! and compactions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Db, Error, Event, Options, Result};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, SimEnv};

const PAGE_BYTES: u64 = 4096;

fn open(sim: &SimEnv, reserve: Option<u64>) -> Result<(Db, Arc<Mutex<Vec<String>>>)> {
    let mut advanced =
        AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(16 << 10).block_bytes(512).table_bytes(8192);
    if let Some(bytes) = reserve {
        advanced = advanced.reserve_bytes(bytes);
    }
    let told = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let notes = told.clone();
    let listener = move |event: &Event| match event {
        Event::DiskSpaceLow { .. } => notes.lock().push("low".to_owned()),
        Event::DiskSpaceRecovered { .. } => notes.lock().push("freed".to_owned()),
        _ => {}
    };
    let options =
        Options::new().compression(tamarack::Compression::None).advanced(advanced).listener(Arc::new(listener));
    Ok((options.open("/db")?, told))
}

fn free_bytes(sim: &SimEnv) -> u64 {
    sim.space(Path::new("/db")).expect("it can be asked").expect("there is a limit").free_bytes
}

fn put(db: &Db, number: u64) -> Result<()> {
    db.put(format!("{:04}", number * 7919 % 10_000), [b'v'; 200])
}

/// Advances the clock by half a second, after which a database queries low disk space again.
fn wait(sim: &SimEnv) {
    sim.advance(Duration::from_millis(500));
    sim.run_background_until_idle();
}

/// Puts are refused while the reserve is left, which flushes and compactions then use; deletes are
/// accepted; and with a quarter more than the reserve puts are accepted again, without further
/// calls.
#[test]
fn puts_leave_the_reserve_to_flushes_and_compactions() -> Result<()> {
    for seed in 0..10 {
        let sim = SimEnv::new(seed);
        let (db, told) = open(&sim, Some(50 * PAGE_BYTES))?;
        sim.set_capacity(Some(200 * PAGE_BYTES));
        let mut stored = 0;
        let error = loop {
            match put(&db, stored) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
            sim.run_background_until_idle();
        };
        assert!(error.is_storage_full(), "{error}");
        assert!(error.to_string().ends_with("deletes are accepted; free some space, then try again"), "{error}");
        assert!(free_bytes(&sim) > 20 * PAGE_BYTES, "{} bytes are free: too few for what is to come", free_bytes(&sim));
        assert_eq!(told.lock()[0], "low");

        // Other files take the space, except for a part of the reserve.
        sim.set_capacity(Some(sim.used_bytes() + 30 * PAGE_BYTES));
        let disk = db.stats().disk.expect("there is a limit");
        assert!(disk.is_low && disk.reserve_bytes == 50 * PAGE_BYTES && disk.free_bytes <= 30 * PAGE_BYTES, "{disk:?}");
        assert!(put(&db, stored).is_err_and(|error| error.is_storage_full()));
        db.flush()?;
        db.wait_for_compactions()?;
        for number in 0..stored * 3 / 4 {
            db.delete(format!("{:04}", number * 7919 % 10_000))?;
        }
        db.compact()?;
        assert_eq!(db.scan::<&str>(..).count() as u64, stored - stored * 3 / 4);
        wait(&sim);
        put(&db, 1).expect("deletes and a compaction have freed space");
        assert!(told.lock().chunks(2).all(|pair| pair == ["low", "freed"]), "{:?}", told.lock());

        // Free space equal to the reserve is not enough for puts.
        let set_free = |pages: u64| sim.set_capacity(Some(sim.used_bytes() + pages * PAGE_BYTES));
        set_free(49);
        assert!(db.stats().disk.is_some_and(|disk| disk.is_low));
        set_free(60);
        wait(&sim);
        assert!(put(&db, 2).is_err_and(|error| error.is_storage_full()));
        set_free(64);
        wait(&sim);
        put(&db, 2)?;
        assert!(db.verify(&mut |_, _| {})?.is_ok());
    }
    Ok(())
}

/// The default reserve is four memtables, or a twentieth of a small disk; without a limit of the
/// disk there is none.
#[test]
fn the_default_suits_small_disks() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, None)?;
    assert_eq!(db.stats().disk, None);
    for (capacity, reserve) in [(1 << 30, 64 << 10), (100 * PAGE_BYTES, 5 * PAGE_BYTES)] {
        sim.set_capacity(Some(capacity));
        let disk = db.stats().disk.expect("there is a limit");
        assert_eq!((disk.total_bytes, disk.reserve_bytes, disk.is_low), (capacity, reserve, false));
    }
    Ok(())
}

/// If the active run of level 1 cannot be rewritten, a flush makes a run of its own. A compaction
/// without the temporary space that it needs does not begin, and returns that error. Both continue
/// by themselves when there is space.
#[test]
fn background_work_waits_for_its_space() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, Some(0))?;
    for number in 0..400 {
        put(&db, number)?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    let runs = || db.stats().levels[0].runs.len();
    let before = runs();
    assert!(before > 0);
    for number in 400..450 {
        put(&db, number)?;
    }
    // The WAL is preallocated; the next segment and the table of 10 KiB need space.
    sim.set_capacity(Some(sim.used_bytes() + 20 * PAGE_BYTES));
    db.flush()?;
    assert_eq!(runs(), before + 1, "a run of its own");
    sim.set_capacity(Some(sim.used_bytes() + PAGE_BYTES));
    let Err(error @ Error::Io { .. }) = db.compact() else { panic!("there is no space for it") };
    assert!(error.is_storage_full() && error.to_string().contains("compaction: find space"), "{error}");
    sim.set_capacity(None);
    wait(&sim);
    db.wait_for_compactions()?;
    assert_eq!(db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>(), 1, "what was asked for is done");
    assert_eq!(db.scan::<&str>(..).count(), 450);
    Ok(())
}

/// Ingests leave the reserve alone, too: the ingest fails, without any of its entries, and its
/// space is freed.
#[test]
fn an_ingest_leaves_the_reserve_alone() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, Some(20 * PAGE_BYTES))?;
    put(&db, 1)?;
    sim.set_capacity(Some(sim.used_bytes() + 60 * PAGE_BYTES));
    let mut ingest = db.ingest()?;
    let mut number = 0;
    let error = loop {
        match ingest.put(format!("{number:06}"), [b'v'; 200]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_storage_full() && free_bytes(&sim) > 10 * PAGE_BYTES, "{error}");
    drop(ingest);
    wait(&sim);
    assert_eq!(db.scan::<&str>(..).count(), 1);
    put(&db, 2)
}
