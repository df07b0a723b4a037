//! The open WAL: what it says of itself, which steps it makes, and how it ends. Each test is a
//! small example on the simulator, whose recorded calls tell the steps.

use super::*;
use crate::format::record::FILE_HEADER_BYTES;

/// Steps of the calls that `run` makes.
fn steps_of(sim: &SimEnv, run: impl FnOnce()) -> Vec<tamarack_env::Step> {
    sim.start_recording();
    run();
    sim.stop_recording().into_iter().filter_map(|call| call.step).collect()
}

/// A WAL that is reopened goes on in its last segment; the bytes of the newest segment grow with
/// each record, and begin anew with each segment.
#[test]
fn the_newest_segment_is_measured() {
    let (_, env, mut writer) = simulated();
    assert_eq!(writer.wal.segment_bytes(), FILE_HEADER_BYTES);
    let begin = writer.wal.end().0 - FILE_HEADER_BYTES;
    let end = writer.append(&["a"]).unwrap();
    assert_eq!(writer.wal.segment_bytes(), end.0 - begin);
    drop(writer);
    let mut writer = Writer::reopen(&env);
    assert_eq!(writer.wal.segments().len(), 1, "no other segment is begun");
    writer.append(&["b"]).unwrap();
    writer.rotate();
    assert_eq!(writer.wal.segment_bytes(), FILE_HEADER_BYTES);
    assert_eq!(writer.wal.segments().iter().map(|segment| segment.first_sequence.0).collect::<Vec<_>>(), [1, 3]);
}

/// New segments reserve space in pieces of the size that was set last.
#[test]
fn segments_reserve_space_in_pieces() {
    let (sim, _, mut writer) = simulated();
    let reserved = |writer: &mut Writer| {
        sim.start_recording();
        writer.rotate();
        writer.append(&["a"]).unwrap();
        let calls = sim.stop_recording();
        calls.iter().filter(|call| call.step == Some(step::WAL_ALLOCATE)).map(|call| call.offset).max()
    };
    assert_eq!(reserved(&mut writer), Some(1024));
    writer.wal.set_allocate_bytes(4096);
    assert_eq!(reserved(&mut writer), Some(4096));
    assert_eq!([0, 1 << 20, 1 << 30].map(crate::wal::reserved_bytes), [64 << 10, 1 << 20, 4 << 20]);
}

/// Segments with little in them, as memtables have that are switched on a full disk, leave most of
/// what is free. They used to take all of it, and then the manifest could take no edit, so that the
/// database could not be opened.
#[test]
fn segments_reserve_little_where_little_is_free() {
    let (sim, env, mut writer) = simulated();
    let free_bytes = || env.space(Path::new(DIR)).unwrap().expect("there is a limit").free_bytes;
    sim.set_capacity(Some(4 << 20));
    writer.wal.set_allocate_bytes(1 << 20);
    let before = free_bytes();
    for _ in 0..8 {
        writer.rotate();
        writer.append(&["a"]).unwrap();
    }
    assert!(free_bytes() > before / 2, "{} bytes are left of {before}", free_bytes());
    drop(writer);
    let settings = WalSettings { allocate_bytes: 1 << 20, ..settings(&env) };
    let (_, found) = read_back(&recovery(&env)).unwrap();
    let wal = Wal::start(settings, &found, EDIT).unwrap();
    let mut group = Group::default();
    group.clear(usize::MAX);
    group.push_entry(TreeId::DEFAULT, EntryKind::Put, b"key", &[0; 100_000]);
    wal.append(&mut group, Sequence(9)).unwrap();
    assert!(free_bytes() > before / 2 - 400_000, "{} bytes are left of {before}", free_bytes());
}

/// A sync makes durable what is not, old to young, each segment once.
#[test]
fn segments_are_synced_once() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    writer.rotate();
    writer.append(&["b"]).unwrap();
    let sync = |writer: &Writer| steps_of(&sim, || writer.wal.sync_to(writer.wal.end()).unwrap());
    assert_eq!(sync(&writer), [step::WAL_SYNC_PREVIOUS, step::WAL_SYNC]);
    assert_eq!(sync(&writer), []);
    writer.append(&["c"]).unwrap();
    assert_eq!(sync(&writer), [step::WAL_SYNC]);
}

/// A new segment's name is durable before anything is appended to it.
#[test]
fn a_new_segment_survives_a_crash() {
    let (sim, _, writer) = simulated();
    writer.wal.rotate(Sequence(1), EDIT).unwrap();
    let names = |env: &SimEnv| env.list(Path::new(DIR)).unwrap();
    assert_eq!(
        names(&sim.image(Crash::LoseAll)),
        [1, 2].map(|number| std::ffi::OsString::from(FileName::Wal(number).name()))
    );
}

/// After sequences were skipped, the next entry needs a segment of its own; nothing is skipped if
/// the WAL is there already.
#[test]
fn skipped_sequences_need_a_segment() {
    let (_, env, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    writer.wal.skip_to(Sequence(1));
    assert!(!writer.wal.needs_segment());
    writer.wal.skip_to(Sequence(5));
    assert!(writer.wal.needs_segment());
    writer.wal.rotate(Sequence(6), EDIT).unwrap();
    assert!(!writer.wal.needs_segment());
    writer.group.clear(usize::MAX);
    writer.group.push_entry(TreeId::DEFAULT, EntryKind::Put, b"six", b"f");
    writer.wal.append(&mut writer.group, Sequence(6)).unwrap();
    let flushed = RecoverySettings { flushed_through: Sequence(5), ..recovery(&env) };
    assert_eq!(read_back(&flushed).unwrap().0.iter().map(|item| item.0).collect::<Vec<_>>(), [6]);
}

/// Verification reads what is durable, and nothing behind it; it names the place of damage.
#[test]
fn verification_reads_what_is_durable() {
    let (sim, _, mut writer) = simulated();
    assert_eq!(writer.wal.verify().unwrap().bytes, FILE_HEADER_BYTES, "a header alone is durable");
    writer.append(&["a"]).unwrap();
    writer.rotate();
    writer.append(&["b"]).unwrap();
    writer.wal.sync_to(writer.wal.end()).unwrap();
    let durable: u64 = writer.wal.segments().iter().map(|segment| segment.bytes).sum();
    let check = writer.wal.verify().unwrap();
    assert_eq!((check.bytes, check.problems.len()), (durable, 0), "{check:?}");
    writer.append(&["not synced"]).unwrap();
    writer.rotate();
    let check = writer.wal.verify().unwrap();
    assert_eq!((check.bytes, check.problems.len()), (durable, 0), "{check:?}");
    for number in [1, 2] {
        sim.flip_bit(segment(number), FILE_HEADER_BYTES + 20, 3).unwrap();
        let problems = writer.wal.verify().unwrap().problems;
        assert!(
            matches!(&problems[..], [Error::Corruption { path, .. }] if *path == segment(number)),
            "{number}: {problems:?}"
        );
        sim.flip_bit(segment(number), FILE_HEADER_BYTES + 20, 3).unwrap();
    }
}

/// A segment that cannot be removed stays listed, and goes with the next call; one that is gone is
/// no error.
#[test]
fn a_segment_that_cannot_be_removed_stays_listed() {
    let (sim, env, mut writer) = simulated();
    for value in ["a", "b"] {
        writer.append(&[value]).unwrap();
        writer.rotate();
    }
    sim.inject(Fault::new(Failure::Io).step(step::WAL_REMOVE));
    assert!(matches!(writer.wal.release(Sequence(1)), Err(Error::Io { path, .. }) if path == segment(1)));
    assert_eq!(writer.wal.segments().len(), 3);
    writer.wal.release(Sequence(1)).unwrap();
    assert_eq!(writer.wal.segments().len(), 2);
    env.remove(&segment(2), STEP).unwrap();
    writer.wal.release(Sequence(2)).unwrap();
    assert_eq!(writer.wal.segments().len(), 1);
}

/// A WAL that was closed, or whose sync has failed, takes nothing more, in no segment.
#[test]
fn an_ended_wal_takes_nothing() {
    let (sim, _, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    sim.inject(Fault::new(Failure::Io).step(step::WAL_TRIM));
    assert!(matches!(writer.wal.close(), Err(Error::Stopped { .. })));
    let (_, _, mut closed) = simulated();
    closed.append(&["a"]).unwrap();
    closed.wal.close().unwrap();
    for mut ended in [writer, closed] {
        assert!(matches!(ended.append(&["b"]), Err(Error::Stopped { .. })));
        assert!(matches!(ended.wal.rotate(Sequence(2), EDIT), Err(Error::Stopped { .. })));
        assert!(matches!(ended.wal.close(), Err(Error::Stopped { .. })));
    }
}
