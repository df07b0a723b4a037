//! What these tests found, each as a small test that tells the story.

use std::path::Path;
use std::time::Duration;

use tamarack::{Batch, Durability, Error, step};
use tamarack_env::SimEnv;
use tamarack_env::sim::{Crash, Failure, Fault};

use super::session::{DIR, options};

fn sync_put(db: &tamarack::Db, key: &str) -> tamarack::Result<()> {
    db.write_with(Batch::new().put(key, "value"), Durability::Sync)
}

/// The directory was made, and the sync of its parent failed. The next attempt found the directory
/// there and took its name for durable: a loss of power then took the whole database, with
/// everything that had been synced in it.
#[test]
fn a_directory_is_not_durable_because_it_is_there() -> tamarack::Result<()> {
    let env = SimEnv::new(1);
    env.inject(Fault::new(Failure::Io).step(step::DATABASE_SYNC_PARENT));
    options(&env, false).open(DIR).expect_err("the sync fails");
    let db = options(&env, false).open(DIR)?;
    sync_put(&db, "key")?;
    assert!(options(&env.image(Crash::LoseAll), false).open(DIR)?.contains_key("key")?);
    Ok(())
}

/// The disk was full when an edit, or the mark after it, was appended to the manifest. The manifest
/// took that for an unknown fate, and all writing was over until the database was opened again.
#[test]
fn a_full_disk_while_an_edit_is_written() -> tamarack::Result<()> {
    for (step, flush_fails) in [(step::MANIFEST_APPEND, true), (step::MANIFEST_MARK, false)] {
        let env = SimEnv::new(1);
        let db = options(&env, false).open(DIR)?;
        db.put("a", "1")?;
        env.inject(Fault::new(Failure::StorageFull).step(step));
        assert_eq!(db.flush().is_err(), flush_fails);
        db.put("b", "2")?;
        env.advance(Duration::from_secs(1));
        env.run_background_until_idle();
        db.flush()?;
        sync_put(&db, "c")?;
        drop(db);
        let db = options(&env.image(Crash::LoseAll), false).open(DIR)?;
        assert!(db.contains_key("a")? && db.contains_key("b")? && db.contains_key("c")?);
    }
    Ok(())
}

/// The sync of an edit failed, so the manifest may hold one edit more than the version in memory.
/// That is no damage, but `verify` said so.
#[test]
fn an_edit_of_unknown_fate_is_no_damage() -> tamarack::Result<()> {
    let env = SimEnv::new(1);
    let db = options(&env, false).open(DIR)?;
    db.put("a", "1")?;
    env.inject(Fault::new(Failure::SyncKeepsPages).step(step::MANIFEST_SYNC));
    assert!(matches!(db.flush(), Err(Error::Stopped { .. })));
    assert!(db.verify(&mut |_, _| {})?.is_ok());
    Ok(())
}

/// A new segment got its header, but was told otherwise, and could not be removed either. The next
/// new segment began at the same position of the WAL, and recovery found two segments for one
/// place: an error, although nothing was damaged. Now there is no next one before the database is
/// opened again.
#[test]
fn a_segment_that_failed_and_stayed() -> tamarack::Result<()> {
    let env = SimEnv::new(1);
    let db = options(&env, false).open(DIR)?;
    env.inject(Fault::new(Failure::ErrorAfterEffect).step(step::WAL_HEADER));
    env.inject(Fault::new(Failure::Io).step(step::WAL_REMOVE));
    let mut written = 0;
    while env.faults_shown() == 0 {
        written += usize::from(sync_put(&db, &format!("key {written:02}")).is_ok());
    }
    assert_eq!(env.faults_shown(), 2);
    written += ["one more", "and one more"].iter().filter(|key| sync_put(&db, key).is_ok()).count();
    for env in [env.image(Crash::LoseAll), env.process_image()] {
        assert_eq!(options(&env, false).open(DIR)?.scan(..).count(), written);
    }
    Ok(())
}

/// An append got half of its record through to a full disk, and the half could not be cut off
/// either. The next segment of the WAL began behind it: recovery would have taken nothing that
/// follows such a half.
#[test]
fn half_a_record_is_cut_off_before_the_next_segment_begins() -> tamarack::Result<()> {
    let env = SimEnv::new(1);
    let db = options(&env, false).open(DIR)?;
    db.put("a", "1")?;
    env.inject(Fault::new(Failure::ShortWrite).step(step::WAL_APPEND));
    env.inject(Fault::new(Failure::StorageFull).step(step::WAL_APPEND));
    env.inject(Fault::new(Failure::StorageFull).step(step::WAL_CUT));
    assert!(db.put("b", "1").expect_err("the disk is full").is_storage_full());
    assert_eq!(env.faults_shown(), 3);
    // The flush fails, so that both segments are needed.
    env.inject(Fault::new(Failure::Io).step(step::TABLE_CREATE).forever());
    db.flush().expect_err("there is no table");
    sync_put(&db, "c")?;
    for env in [env.image(Crash::LoseAll), env.process_image()] {
        let db = options(&env, false).open(DIR)?;
        assert!(db.contains_key("a")? && !db.contains_key("b")? && db.contains_key("c")?);
    }
    Ok(())
}

/// A new manifest that found no space ended all writing. Now the old one goes on, nothing is left
/// lying about, and the next attempt is a little later.
#[test]
fn a_manifest_that_cannot_be_rolled_goes_on_and_is_rolled_later() -> tamarack::Result<()> {
    let manifests = |env: &SimEnv| {
        let names = env.files().into_iter().map(|(path, _)| path.file_name().expect("a file").to_os_string());
        let names = names.filter_map(|name| name.into_string().ok());
        names.filter(|name| name.ends_with("manifest") || name.ends_with(".new")).collect::<Vec<_>>()
    };
    for step in [
        step::MANIFEST_CREATE,
        step::MANIFEST_WRITE_BASE,
        step::MANIFEST_SYNC_BASE,
        step::CURRENT_CREATE,
        step::CURRENT_WRITE,
        step::CURRENT_SYNC,
        step::CURRENT_RENAME,
    ] {
        let env = SimEnv::new(1);
        let db = options(&env, false).open(DIR)?;
        env.inject(Fault::new(Failure::StorageFull).step(step));
        let mut number = 0;
        while env.faults_shown() == 0 {
            db.put(format!("{number}"), "value")?;
            db.flush()?;
            number += 1;
        }
        assert_eq!(manifests(&env), ["0000000001.manifest"], "after {:?}", step.0);
        db.put("soon after", "value")?;
        db.flush()?;
        assert_eq!(manifests(&env), ["0000000001.manifest"], "the pause after {:?}", step.0);
        env.advance(Duration::from_millis(500));
        db.put("later", "value")?;
        db.flush()?;
        assert_eq!(manifests(&env), ["0000000003.manifest"], "the pause after {:?} is over", step.0);
        let db = options(&env.image(Crash::LoseAll), false).open(DIR)?;
        assert!(db.contains_key("later")? && db.scan(..).count() == number + 2);
    }
    Ok(())
}

/// A message that a user may see, in full: where, what, and what to do.
#[test]
fn a_message_says_where_and_what_and_what_to_do() -> tamarack::Result<()> {
    let env = SimEnv::new(1);
    let db = options(&env, false).open(Path::new(DIR))?;
    env.inject(Fault::new(Failure::StorageFull).step(step::WAL_APPEND));
    let error = db.put("a", "1").expect_err("the disk is full");
    assert_eq!(
        error.to_string(),
        "/db/0000000001.wal: wal: append failed: no storage space; free some space, then try again"
    );
    env.inject(Fault::new(Failure::SyncKeepsPages).step(step::WAL_SYNC));
    let error = sync_put(&db, "a").expect_err("the sync fails");
    assert_eq!(
        error.to_string(),
        "/db/0000000001.wal: wal: sync failed: simulated input/output error; writes have stopped, because it \
         is unknown how much of the last one is durable; reads still work; check the device and the system's log, then reopen \
         the database"
    );
    assert_eq!(sync_put(&db, "b").expect_err("writing is over").to_string(), error.to_string());
    Ok(())
}
