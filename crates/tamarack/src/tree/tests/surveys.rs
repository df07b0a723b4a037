//! What verification, repair and read-only opening learn of a manifest: which one counts, how much
//! of it is known, and what is wrong.

use std::sync::Arc;

use tamarack_env::sim::{Failure, Fault};
use tamarack_env::{Env, SimEnv};

use super::damage::{dir, small};
use super::model::no_files;
use crate::error::Error;
use crate::format::edit::Change;
use crate::format::names::FileName;
use crate::journal::Tail;
use crate::step;
use crate::tree::manifest::Manifest;
use crate::tree::manifest::survey::ManifestSurvey;
use crate::tree::version::Version;

fn survey(env: &SimEnv) -> Option<ManifestSurvey> {
    ManifestSurvey::of(env, dir(), &no_files()).expect("storage works")
}

/// Names of the files that problems are about.
fn blamed(survey: &ManifestSurvey) -> Vec<FileName> {
    let name = |error: &Error| match error {
        Error::Corruption { path, offset, .. } => Some((FileName::parse(path.file_name()?.to_str()?)?, *offset)),
        other => panic!("{other}"),
    };
    let places: Vec<_> = survey.problems.iter().map(|error| name(error).expect("a file of ours")).collect();
    assert!(places.iter().all(|(name, offset)| *name != FileName::Current || *offset == 0), "{places:?}");
    places.into_iter().map(|(name, _)| name).collect()
}

fn remove(env: &SimEnv, name: FileName) {
    env.remove(&name.path(dir()), step::MANIFEST_REMOVE).expect("it is there");
}

fn write_other(env: &SimEnv, number: u64, version: &Version) {
    Manifest::write_base(env, dir(), number, version).expect("no faults");
}

/// The version after all edits of [`small`].
fn last_version(env: &SimEnv) -> Version {
    survey(env).expect("a database").version.expect("it can be read")
}

/// Without a database there is nothing to survey, and also where one was only begun; a database
/// that lost `CURRENT` is none of these.
#[test]
fn no_database() {
    let env = SimEnv::new(1);
    assert!(survey(&env).is_none(), "no directory");
    env.create_dir(dir(), step::DATABASE_CREATE).expect("no faults");
    assert!(survey(&env).is_none(), "an empty one");
    write_other(&env, 1, &Version::new(7, no_files()));
    assert!(survey(&env).is_none(), "begun");
    let shared: Arc<dyn Env> = Arc::new(env.clone());
    assert!(Manifest::read(&shared, dir(), Tail::Strict, no_files()).expect("begun").is_none());
    write_other(&env, 2, &Version::new(7, no_files()));
    assert_eq!(blamed(&survey(&env).expect("a database")), [FileName::Current]);
    let read = Manifest::read(&shared, dir(), Tail::Strict, no_files());
    assert!(matches!(read, Err(Error::Corruption { path, .. }) if path == FileName::Current.path(dir())));
}

/// A whole manifest: everything is known, also which tables were ever named.
#[test]
fn a_whole_manifest() {
    let small = small();
    let found = survey(&small.env).expect("a database");
    assert!(found.is_complete && found.problems.is_empty() && found.torn.is_none(), "{found:?}");
    assert_eq!(found.path, Some(FileName::Manifest(1).path(dir())));
    assert_eq!(found.version.map(|version| version.state_edit()).as_ref(), small.states.last());
    let added = |change: &Change| match change {
        Change::TableAdded { meta, .. } => Some(meta.id),
        _ => None,
    };
    let named = small.states.iter().flat_map(|state| &state.changes).filter_map(added).collect();
    assert!(!found.named.is_empty());
    assert_eq!(found.named, named, "also tables that have gone");
}

/// Without `CURRENT`, the manifest with the latest edit counts, and is complete; the damage of
/// others is none of its problems. If none can be read, all are problems.
#[test]
fn the_latest_manifest_counts() {
    let small = small();
    let latest = last_version(&small.env);
    write_other(&small.env, 2, &Version::new(latest.database(), no_files()));
    write_other(&small.env, 3, &latest);
    for number in [2, 3] {
        let env = small.env.process_image();
        remove(&env, FileName::Current);
        remove(&env, FileName::Manifest(1));
        if number == 2 {
            remove(&env, FileName::Manifest(3));
        } else {
            env.flip_bit(FileName::Manifest(2).path(dir()), 70, 1).expect("it is there");
        }
        let found = survey(&env).expect("a database");
        assert_eq!(found.path, Some(FileName::Manifest(number).path(dir())));
        assert_eq!((blamed(&found), found.is_complete), (vec![FileName::Current], true));
        let expected =
            if number == 3 { latest.state_edit() } else { Version::new(latest.database(), no_files()).state_edit() };
        assert_eq!(found.version.expect("it can be read").state_edit(), expected);
        assert_eq!(found.named.is_empty(), number == 2);
    }
    remove(&small.env, FileName::Current);
    for number in 1..=3 {
        small.env.flip_bit(FileName::Manifest(number).path(dir()), 70, 1).expect("it is there");
    }
    let found = survey(&small.env).expect("a database");
    assert!(!found.is_complete && found.version.is_none(), "{found:?}");
    let all = blamed(&found);
    assert_eq!(all.len(), 4, "{all:?}");
    for name in [FileName::Current, FileName::Manifest(1), FileName::Manifest(2), FileName::Manifest(3)] {
        assert!(all.contains(&name), "{name:?} is none of {all:?}");
    }
}

/// If the base of the manifest that `CURRENT` names is damaged, another one says what was: that is
/// not complete. One that is damaged as well is of no use, and no problem either.
#[test]
fn another_manifest_is_not_complete() {
    let small = small();
    let latest = last_version(&small.env);
    write_other(&small.env, 2, &latest);
    write_other(&small.env, 3, &latest);
    for (number, at) in [(1, 70), (3, 70)] {
        small.env.flip_bit(FileName::Manifest(number).path(dir()), at, 1).expect("it is there");
    }
    let found = survey(&small.env).expect("a database");
    assert_eq!(found.path, Some(FileName::Manifest(2).path(dir())));
    assert_eq!((blamed(&found), found.is_complete), (vec![FileName::Manifest(1)], false));
    assert_eq!(found.version.expect("it can be read").state_edit(), latest.state_edit());
    remove(&small.env, FileName::Manifest(3));
    write_other(&small.env, 3, &Version::new(latest.database(), no_files()));
    let found = survey(&small.env).expect("a database");
    assert_eq!(found.path, Some(FileName::Manifest(2).path(dir())), "of the latest edit, not of the highest number");
    for number in [2, 3] {
        small.env.flip_bit(FileName::Manifest(number).path(dir()), 70, 1).expect("it is there");
    }
    let found = survey(&small.env).expect("a database");
    assert_eq!((blamed(&found), found.version.is_none()), (vec![FileName::Manifest(1)], true));
}

/// Damage of a header and a file that is missing are errors at its beginning.
#[test]
fn errors_name_the_beginning() {
    let small = small();
    let file = FileName::Manifest(1).path(dir());
    let place = |env: &SimEnv| {
        let env: Arc<dyn Env> = Arc::new(env.clone());
        match Manifest::read(&env, dir(), Tail::Strict, no_files()) {
            Err(Error::Corruption { path, offset, .. }) => (path, offset),
            other => panic!("{other:?}"),
        }
    };
    let env = small.env.process_image();
    env.flip_bit(&file, 9, 1).expect("it is there");
    assert_eq!(place(&env), (file.clone(), 0));
    remove(&env, FileName::Manifest(1));
    assert_eq!(place(&env), (file, 0));
    env.truncate(FileName::Current.path(dir()), 3).expect("it is there");
    assert_eq!(place(&env), (FileName::Current.path(dir()), 0));
}

/// A damaged edit ends what is known, and each damaged record is a problem; a torn end is none.
#[test]
fn damaged_and_torn_edits() {
    let small = small();
    let edits: Vec<_> = small.records.iter().filter(|record| !record.head.is_mark()).collect();
    let manifest = FileName::Manifest(1).path(dir());
    let env = small.env.process_image();
    for edit in [edits[2], edits[4]] {
        env.flip_bit(&manifest, edit.offset + 40, 1).expect("it is there");
    }
    let found = survey(&env).expect("a database");
    let offsets: Vec<u64> = found
        .problems
        .iter()
        .map(|error| if let Error::Corruption { offset, .. } = error { *offset } else { panic!("{error}") })
        .collect();
    assert_eq!(offsets.len(), 2, "{:?}", found.problems);
    assert!(offsets[0] <= edits[2].offset && offsets[1] > edits[2].offset, "{offsets:?}");
    assert!(!found.is_complete);
    assert_eq!(found.version.expect("its beginning").state_edit(), small.states[1]);

    let env = small.env.process_image();
    env.truncate(&manifest, edits[7].offset + 20).expect("it is there");
    let found = survey(&env).expect("a database");
    assert!(found.is_complete && found.problems.is_empty() && found.torn.is_some(), "{found:?}");
    assert_eq!(found.version.expect("all but the last").state_edit(), small.states[6]);
}

/// Verification reads the file again: it names `CURRENT` if that names another manifest, and the
/// manifest if that says something else.
#[test]
fn verification_reads_the_manifest_again() {
    let small = small();
    let env: Arc<dyn Env> = Arc::new(small.env.clone());
    let opened = Manifest::recover(&env, dir(), Tail::Strict, no_files()).expect("whole").expect("a database");
    let manifest = opened.manifest;
    manifest.commit(vec![Change::WalReopened]).expect("no faults");
    manifest.verify().expect("whole");
    let blamed = || match manifest.verify() {
        Err(Error::Corruption { path, offset: 0, .. }) => path,
        other => panic!("{other:?}"),
    };
    let file = FileName::Manifest(1).path(dir());
    small.env.flip_bit(&file, small.records[2].offset + 40, 1).expect("it is there");
    assert_eq!(blamed(), file);
    small.env.flip_bit(&file, small.records[2].offset + 40, 1).expect("it is there");
    manifest.verify().expect("whole again");
    write_other(&small.env, 2, &manifest.version());
    Manifest::make_current(&small.env, dir(), 2).expect("no faults");
    assert_eq!(blamed(), FileName::Current.path(dir()), "the same content, but another file");
}

/// Opening removes manifests that `CURRENT` does not name, and `CURRENT.new`; and nothing else.
#[test]
fn opening_removes_stale_manifests() {
    let small = small();
    write_other(&small.env, 5, &last_version(&small.env));
    for name in [FileName::CurrentNew, FileName::Table(3)] {
        small.env.create(&name.path(dir()), step::TABLE_CREATE).expect("no faults");
    }
    let env: Arc<dyn Env> = Arc::new(small.env.clone());
    Manifest::recover(&env, dir(), Tail::Strict, no_files()).expect("whole").expect("a database");
    let mut names: Vec<String> =
        env.list(dir()).expect("it is there").iter().map(|name| name.to_string_lossy().into()).collect();
    names.sort();
    let mut expected = [FileName::Current, FileName::Manifest(1), FileName::Table(3)].map(|name| name.name());
    expected.sort();
    assert_eq!(names, expected);
}

/// A roll that fails changes nothing, and is tried again only after a pause; what it could not
/// remove goes with the next one.
#[test]
fn a_failed_roll_is_tried_again_after_a_pause() {
    let small = small();
    let env: Arc<dyn Env> = Arc::new(small.env.clone());
    let opened = Manifest::recover(&env, dir(), Tail::Strict, no_files()).expect("whole").expect("a database");
    let mut manifest = opened.manifest;
    manifest.commit(vec![Change::WalReopened]).expect("no faults");
    manifest.roll_from(0);
    let is_there = |name: FileName| env.list(dir()).expect("it is there").contains(&name.name().into());
    // Each grows the file, which is larger than its base four times over in the end.
    let commit = || {
        manifest.new_table_id();
        manifest.commit(vec![]).expect("the old file goes on");
    };
    small.env.inject(Fault::new(Failure::StorageFull).step(step::CURRENT_CREATE).forever());
    small.env.inject(Fault::new(Failure::Io).step(step::MANIFEST_REMOVE).forever());
    for _ in 0..200 {
        commit();
    }
    assert!(is_there(FileName::Manifest(2)) && !is_there(FileName::Manifest(3)), "tried once within the pause");
    small.env.clear_faults();
    commit();
    assert!(!is_there(FileName::Manifest(3)), "it is still paused");
    small.env.advance(std::time::Duration::from_secs(1));
    commit();
    assert!(is_there(FileName::Manifest(3)), "rolled");
    assert!(!is_there(FileName::Manifest(1)) && !is_there(FileName::Manifest(2)), "what was left over is gone");
}
