//! The path of a call: numbers, log, hook, steps that are omitted or delayed, and the end of a
//! process.

use super::*;
use crate::sync::{Mutex, Rank};

/// Collects, before every call, its step and what `look` finds.
fn watch<T: Send + 'static>(
    env: &SimEnv,
    look: impl Fn(&Moment<'_>) -> T + Send + 'static,
) -> Arc<Mutex<Vec<(Step, T)>>> {
    let seen = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let to = seen.clone();
    env.set_hook(move |moment| to.lock().push((moment.call.step.unwrap(), look(moment))));
    seen
}

#[test]
fn the_hook_sees_the_state_before_each_change_and_no_reads() {
    let env = SimEnv::new(1);
    let seen = watch(&env, |moment| content(&moment.image(Crash::KeepAll), "f"));
    let file = create(&env, "f", b"data");
    file.read_at(&mut [0; 4], 0).unwrap();
    file.set_len(1, CUT).unwrap();
    env.clear_hook();
    env.remove(Path::new("f"), REMOVE).unwrap();
    assert_eq!(*seen.lock(), [(CREATE, None), (WRITE, Some(b"".to_vec())), (CUT, Some(b"data".to_vec()))]);
}

#[test]
fn every_call_is_numbered_logged_and_counted_by_step() {
    let env = SimEnv::new(2);
    create(&env, "a", b"not logged");
    env.start_recording();
    let file = create(&env, "f", b"data");
    file.read_at(&mut [0; 3], 1).unwrap();
    file.sync(SYNC).unwrap();
    let log = env.stop_recording();
    let lines: Vec<_> =
        log.iter().map(|c| (c.number, c.kind, c.step, c.path.to_str().unwrap(), c.offset, c.bytes)).collect();
    assert_eq!(
        lines,
        [
            (2, CallKind::Create, Some(CREATE), "f", 0, 0),
            (3, CallKind::Write, Some(WRITE), "f", 0, 4),
            (4, CallKind::Read, None, "f", 1, 3),
            (5, CallKind::Sync, Some(SYNC), "f", 0, 0),
        ]
    );
    assert_eq!(env.step_counts(), BTreeMap::from([(CREATE, 2), (WRITE, 2), (SYNC, 1)]));
    assert_eq!(env.calls_made(), 6);
}

#[test]
fn omitted_steps_return_ok_and_do_nothing() {
    let env = SimEnv::new(3);
    [SYNC, SYNC_DIR, REMOVE, RENAME, CUT].into_iter().for_each(|step| env.omit(step));
    let file = create(&env, "f", b"data");
    file.sync(SYNC).unwrap();
    sync_root(&env);
    assert_eq!(env.unsynced_changes(), 2, "neither the name nor the bytes are durable");
    file.set_len(0, CUT).unwrap();
    env.rename(Path::new("f"), Path::new("g"), RENAME).unwrap();
    env.remove(Path::new("f"), REMOVE).unwrap();
    assert_eq!(text(&env, "f"), "data");
    file.sync(OTHER).unwrap();
    env.sync_dir(Path::new("/"), OTHER).unwrap();
    assert_eq!(env.unsynced_changes(), 0, "other steps are not affected");
}

#[test]
#[should_panic(expected = "cannot be omitted")]
fn a_create_cannot_be_omitted() {
    let env = SimEnv::new(4);
    env.omit(CREATE);
    create(&env, "f", b"");
}

/// The sync of one file is delayed until after a write to another. In between, which a hook can
/// see, the write is there and the sync is not.
#[test]
fn a_delayed_sync_lets_a_later_write_overtake_it() {
    let env = SimEnv::new(5);
    let (a, b) = (create_durable(&env, "a", b"-"), create_durable(&env, "b", b"-"));
    env.delay(SYNC, OTHER);
    let seen =
        watch(&env, |moment| (text(&moment.image(Crash::LoseAll), "a"), text(&moment.image(Crash::KeepAll), "b")));
    a.write_all_at(b"1", 0, WRITE).unwrap();
    a.sync(SYNC).unwrap();
    b.write_all_at(b"2", 0, OTHER).unwrap();
    b.set_len(1, CUT).unwrap();
    let state = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        *seen.lock(),
        [(WRITE, state("-", "-")), (OTHER, state("-", "-")), (SYNC, state("-", "2")), (CUT, state("1", "2")),]
    );
}

#[test]
fn directory_syncs_renames_and_removals_can_be_delayed() {
    let env = SimEnv::new(6);
    let (f, g, root) = (Path::new("f"), Path::new("g"), Path::new("/"));
    create(&env, "f", b"").sync(SYNC).unwrap();
    env.delay(SYNC_DIR, OTHER);
    env.delay(RENAME, OTHER);
    env.delay(REMOVE, RENAME);
    let names = |env: &SimEnv| env.list(root).unwrap();
    env.sync_dir(root, SYNC_DIR).unwrap();
    env.rename(f, g, RENAME).unwrap();
    env.remove(g, REMOVE).unwrap();
    assert_eq!(names(&env), ["f"], "nothing has happened");
    let seen = watch(&env, move |moment| {
        (
            names(&moment.image(Crash::LoseAll)).join(",".as_ref()),
            names(&moment.image(Crash::KeepAll)).join(",".as_ref()),
        )
    });
    env.create(Path::new("h"), OTHER).unwrap();
    let state = |durable: &str, volatile: &str| (durable.into(), volatile.into());
    assert_eq!(
        *seen.lock(),
        [
            (OTHER, state("", "f")),
            (SYNC_DIR, state("", "f,h")),
            (RENAME, state("f,h", "f,h")),
            (REMOVE, state("f,h", "g,h")),
        ]
    );
    assert_eq!(names(&env), ["h"]);
}

#[test]
fn a_delayed_call_whose_time_never_comes_never_happens() {
    let env = SimEnv::new(7);
    env.delay(SYNC, OTHER);
    create(&env, "f", b"data").sync(SYNC).unwrap();
    assert_eq!(env.unsynced_changes(), 2);
    let env = env.kill();
    env.create(Path::new("g"), OTHER).unwrap();
    assert_eq!(env.unsynced_changes(), 3, "and not in a later process either");
}

/// A delayed sync of a file that is gone for good when its time comes.
#[test]
fn a_delayed_call_may_outlive_its_file() {
    let env = SimEnv::new(8);
    env.delay(SYNC, OTHER);
    create(&env, "f", b"data").sync(SYNC).unwrap();
    env.remove(Path::new("f"), REMOVE).unwrap();
    sync_root(&env);
    env.create(Path::new("g"), OTHER).unwrap();
    assert_eq!(env.files().len(), 1);
}

#[test]
fn a_killed_process_can_do_nothing_more_and_holds_nothing() {
    let old = SimEnv::new(9);
    let path = Path::new("f");
    let file = create(&old, "f", b"data");
    let lock = old.lock(Path::new("LOCK")).unwrap();
    let new = old.kill();
    let before = (new.identity(), new.unsynced_changes());
    assert!(
        file.write_at(b"late", 0, WRITE).is_err() && file.sync(SYNC).is_err() && file.read_at(&mut [0], 0).is_err()
    );
    assert!(old.remove(path, REMOVE).is_err() && old.open(path, Access::Read).is_err());
    let held = new.lock(Path::new("LOCK")).expect("its lock is free");
    drop((file, lock));
    assert!(new.lock(Path::new("LOCK")).is_err(), "an old lock that is dropped does not free the new one");
    drop(held);
    assert_eq!((new.identity(), new.unsynced_changes()), before);
    assert!(new.open(path, Access::Read).is_ok());
}

#[test]
fn a_hook_can_cut_the_power() {
    let env = SimEnv::new(10);
    let handle = env.clone();
    env.set_hook(move |moment| {
        if moment.call.kind == CallKind::Sync {
            handle.kill();
        }
    });
    let file = create(&env, "f", b"data");
    assert!(file.sync(SYNC).is_err());
    assert_eq!(env.unsynced_changes(), 2, "the sync did not happen");
}

#[test]
fn a_file_that_was_removed_stays_readable_and_a_new_one_takes_its_name() {
    let env = SimEnv::new(11);
    let file = create_durable(&env, "f", b"old");
    env.remove(Path::new("f"), REMOVE).unwrap();
    sync_root(&env);
    create(&env, "f", b"new");
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, text(&env, "f")), (b"old", "new".to_owned()));
}

#[test]
fn files_and_bytes_can_be_listed() {
    let env = SimEnv::new(12);
    env.create_dir(Path::new("d"), CREATE).unwrap();
    create(&env, "d/f", b"data");
    create(&env, "a", b"1");
    assert_eq!(env.files(), [("/a".into(), 1), ("/d/f".into(), 4)]);
    assert_eq!(env.total_bytes(), 5);
    assert_eq!(env.durable_content("a").unwrap(), b"");
}

#[test]
fn a_handle_for_reading_cannot_write_and_a_wild_offset_is_an_error() {
    let env = SimEnv::new(13);
    let file = create(&env, "f", b"data");
    assert!(env.open(Path::new("f"), Access::Read).unwrap().write_at(b"x", 0, WRITE).is_err());
    assert_eq!(file.write_at(b"x", u64::MAX, WRITE).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(file.read_at(&mut [0; 9], u64::MAX).unwrap(), 0);
    assert_eq!(file.write_at(b"", 100, WRITE).unwrap(), 0);
    assert_eq!(file.len().unwrap(), 4, "an empty write does not grow a file");
}
