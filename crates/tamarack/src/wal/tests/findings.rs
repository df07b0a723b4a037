//! What recovery and [`Findings`] say of a WAL that is read: how much of it is needed, what is
//! wrong with it, and where it ends.

use super::*;
use crate::wal::{Findings, last_edit_named};

fn findings(settings: RecoverySettings) -> Findings {
    Findings::of(settings, false).unwrap()
}

/// A whole WAL: all entries, all bytes, no problem; the first segment is not needed once its
/// entries are in tables.
#[test]
fn findings_of_a_whole_wal() {
    let (env, written, bytes) = two_segments();
    let found = findings(recovery(&env));
    assert!(found.is_sound && found.problems.is_empty() && found.torn.is_empty(), "{found:?}");
    assert_eq!((found.entries, found.bytes()), (written.len() as u64, (bytes[0].len() + bytes[1].len()) as u64));
    let sequences: Vec<_> = found.segments.iter().map(|segment| segment.sequences().expect("entries")).collect();
    assert_eq!(sequences, [(1, 4), (5, 6)].map(|(first, last)| (Sequence(first), Sequence(last))));
    let (_, recovered) = read_back(&recovery(&env)).unwrap();
    assert_eq!((found.next_number, recovered.next_number), (3, 3));
    let base = found.segments[1].header.expect("a whole header").base;
    assert_eq!(found.end.0, base.0 + bytes[1].len() as u64, "reserved space is a part of the file");
    assert!(recovered.end < found.end);

    let flushed = findings(RecoverySettings { flushed_through: Sequence(5), ..recovery(&env) });
    assert!(flushed.is_sound);
    assert_eq!((flushed.entries, flushed.segments.len(), flushed.bytes()), (1, 1, bytes[1].len() as u64));
}

/// Records that begin before what is in tables and end behind it are replayed in part.
#[test]
fn a_segment_that_is_partly_in_tables_is_replayed() {
    for flushed_through in 0..=6 {
        let (env, written, _) = two_segments();
        let settings = RecoverySettings { flushed_through: Sequence(flushed_through), ..recovery(&env) };
        assert_eq!(findings(settings.clone()).entries, 6 - flushed_through);
        let (items, _) = read_back(&settings).unwrap();
        assert_eq!(items, written[flushed_through as usize..]);
        let left = env.list(Path::new(DIR)).unwrap().len();
        assert_eq!(left, if flushed_through < 4 { 2 } else { 1 }, "{flushed_through} are in tables");
    }
}

/// Every damage is named with its place, once: in both segments, below what was durable.
#[test]
fn findings_name_all_damage() {
    let (env, written, mut bytes) = two_segments();
    for bytes in &mut bytes {
        bytes[84] ^= 1;
    }
    write_file(&*env, &segment(1), &bytes[0]);
    let found = findings(recovery(&env));
    let places = |found: &Findings| -> Vec<PathBuf> {
        let path = |error: &Error| match error {
            Error::Corruption { path, .. } => path.clone(),
            other => panic!("{other}"),
        };
        found.problems.iter().map(path).collect()
    };
    assert_eq!(places(&found), [segment(1)], "{found:?}");
    assert!(!found.is_sound && found.torn.is_empty());
    write_file(&*env, &segment(2), &bytes[1]);
    let found = findings(recovery(&env));
    assert_eq!(places(&found), [segment(1), segment(2)], "{found:?}");
    let whole: usize = found.segments.iter().map(|segment| segment.records.len()).sum();
    assert_eq!(whole, 3, "of five records the first of each segment is damaged; {written:?}");
}

/// A torn end is told apart from damage.
#[test]
fn findings_of_a_torn_end() {
    let (env, _, [_, mut second]) = two_segments();
    let end = second.iter().rposition(|&byte| byte != 0).unwrap();
    second[end] ^= 1;
    write_file(&*env, &segment(2), &second);
    let found = findings(recovery(&env));
    assert!(found.is_sound && found.problems.is_empty(), "{found:?}");
    assert_eq!((found.torn.len(), found.entries), (1, 5));
    let strict = findings(RecoverySettings { tail: Tail::Strict, ..recovery(&env) });
    assert!(!strict.is_sound && strict.problems.len() == 1, "{strict:?}");
}

/// If the manifest is incomplete, segments that are younger than its last edit, or begin later than
/// it says, are no damage.
#[test]
fn an_incomplete_manifest_misses_nothing() {
    let (env, _, _) = two_segments();
    let older = RecoverySettings { last_edit: EditNumber(8), ..recovery(&env) };
    let found = findings(older.clone());
    assert_eq!((found.problems.len(), found.is_sound), (2, false), "both segments name a later edit");
    let found = Findings::of(older, true).unwrap();
    assert!(found.is_sound && found.entries == 6, "{found:?}");
    env.remove(&segment(1), STEP).unwrap();
    assert!(!findings(recovery(&env)).is_sound);
    let found = Findings::of(recovery(&env), true).unwrap();
    assert!(found.is_sound && found.entries == 2, "{found:?}");

    let env = empty_dir();
    let mut writer = Writer::new(&env);
    for value in ["a", "b", "c"] {
        writer.append(&[value]).unwrap();
        writer.rotate();
    }
    env.remove(&segment(1), STEP).unwrap();
    let found = Findings::of(recovery(&env), true).unwrap();
    assert!(found.is_sound && found.entries == 2, "from the first that is there: {found:?}");
}

/// A segment that was being made when the machine stopped is no damage of a whole WAL; in a damaged
/// one it is, if anything stands in it.
#[test]
fn segments_without_headers() {
    let (env, _, [mut first, _]) = two_segments();
    env.create(&segment(3), STEP).unwrap();
    env.create(&segment(4), STEP).unwrap();
    write_file(&*env, &segment(4), b"x");
    let found = findings(recovery(&env));
    assert!(found.is_sound && found.problems.is_empty(), "{found:?}");
    assert_eq!(found.torn.iter().map(|dropped| &dropped.path).collect::<Vec<_>>(), [&segment(4)]);
    first[84] ^= 1;
    write_file(&*env, &segment(1), &first);
    let found = findings(recovery(&env));
    assert!(!found.is_sound && found.torn.is_empty());
    let blames = |number: u64| {
        let is_its = |error: &&Error| matches!(error, Error::Corruption { path, .. } if *path == segment(number));
        found.problems.iter().filter(is_its).count()
    };
    assert_eq!([1, 2, 3, 4].map(blames), [1, 0, 0, 1], "{found:?}");
}

/// A recovery whose removals cannot be made durable fails.
#[test]
fn a_recovery_syncs_the_directory() {
    let (sim, env, mut writer) = simulated();
    writer.append(&["a"]).unwrap();
    sim.inject(Fault::new(Failure::Io).step(step::WAL_RECOVERY_SYNC_DIRECTORY));
    assert!(matches!(read_back(&recovery(&env)), Err(Error::Io { .. })));
}

/// Segments name the last edit that was durable when they were made; without one there is none.
#[test]
fn segments_name_the_last_edit() {
    let (env, _, _) = two_segments();
    assert_eq!(last_edit_named(&*env, Path::new(DIR), DATABASE).unwrap(), EDIT);
    env.remove(&segment(2), STEP).unwrap();
    write_file(&*env, &segment(1), b"no header");
    assert_eq!(last_edit_named(&*env, Path::new(DIR), DATABASE).unwrap(), EditNumber::default());
}

/// A WAL without segments, of which something was durable, is damage of the first segment; one of
/// which nothing was is an empty WAL.
#[test]
fn no_segments() {
    let env = empty_dir();
    let found = findings(recovery(&env));
    assert!(found.is_sound && found.segments.is_empty(), "{found:?}");
    assert_eq!((found.next_number, found.bytes(), found.entries), (1, 0, 0));
    let missing = RecoverySettings { durable: Position(100), ..recovery(&env) };
    let found = findings(missing.clone());
    assert!(!found.is_sound && found.end == Position(100), "{found:?}");
    let error = read_back(&missing).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if *path == segment(1)), "{error}");
}
