//! Manifests where nothing goes wrong, or only what the caller did.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};

use super::model::{KEYS, Model, TREE, meta, no_files, range};
use crate::entry::Sequence;
use crate::error::Error;
use crate::format::edit::{Change, KeyRange, RunId, SliceSpec};
use crate::format::meta::TableId;
use crate::format::names::FileName;
use crate::format::properties::Special;
use crate::journal::Tail;
use crate::step;
use crate::tree::manifest::{Manifest, Recovered};
use crate::tree::version::Version;

fn dir() -> &'static Path {
    Path::new("/db")
}

fn new_dir() -> Arc<dyn Env> {
    let env = MemoryEnv::new(1);
    env.create_dir(dir(), step::DATABASE_CREATE).expect("memory takes it");
    env
}

fn reopen(env: &Arc<dyn Env>) -> Manifest {
    let recovered = Manifest::recover(env, dir(), Tail::Strict, no_files()).expect("it is whole");
    let Recovered { manifest, dropped } = recovered.expect("it is there");
    assert_eq!(dropped, None);
    manifest
}

fn flush(manifest: &Manifest, from: usize, to: usize, sequence: u64) -> RunId {
    let (table, run) = (manifest.new_table_id(), manifest.new_run_id());
    let meta = meta(table, from, to, (sequence, sequence));
    let changes = vec![
        Change::TableAdded { tree: TREE, meta: Arc::new(meta) },
        Change::RunAdded { tree: TREE, run, level: 1, index: 0 },
        Change::SlicesAdded { tree: TREE, run, slices: vec![SliceSpec { table, range: KeyRange::ALL }] },
        Change::FlushedThrough { tree: TREE, sequence: Sequence(sequence) },
    ];
    manifest.commit(changes).expect("memory takes it");
    run
}

/// Shows that no database, a new one, and one that is reopened after every few commits are told
/// apart and keep every edit; and that the file is rolled as it grows, the old one going away.
#[test]
fn what_is_committed_is_there_after_reopening() {
    let env = MemoryEnv::new(1);
    assert!(Manifest::recover(&env, dir(), Tail::Strict, no_files()).expect("no directory is no error").is_none());
    env.create_dir(dir(), step::DATABASE_CREATE).expect("memory takes it");
    assert!(Manifest::recover(&env, dir(), Tail::Strict, no_files()).expect("nor is an empty one").is_none());

    let mut manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
    let database = manifest.version().database();
    let (mut model, random) = (Model::new(), Random::new(3));
    for round in 0..60 {
        manifest.roll_from(2000);
        for _ in 0..10 {
            let committed = manifest.commit(model.change(&random)).expect("memory takes it");
            model.assert_equals(&committed);
            assert!(Arc::ptr_eq(&committed, &manifest.version()));
        }
        let before = manifest.version().state_edit();
        manifest = reopen(&env);
        assert_eq!(manifest.version().state_edit(), before, "round {round}");
        assert_eq!(manifest.version().database(), database);
        let names = env.list(dir()).expect("it is there");
        assert_eq!(names.len(), 2, "CURRENT and one manifest, not {names:?}");
    }
    let number = env.list(dir()).expect("it is there").iter().find_map(|name| match FileName::parse(name.to_str()?)? {
        FileName::Manifest(number) => Some(number),
        _ => None,
    });
    assert!(number.is_some_and(|number| number > 5), "it should have been rolled often: {number:?}");
}

/// Shows that ids are given out once, also those that no edit used before the database was closed.
#[test]
fn ids_are_not_given_out_again() {
    let env = new_dir();
    let manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
    assert_eq!([manifest.new_table_id(), manifest.new_table_id()], [TableId(1), TableId(2)]);
    manifest.skip_table_id(TableId(7));
    manifest.skip_table_id(TableId(3));
    assert_eq!((manifest.new_table_id(), manifest.new_run_id()), (TableId(8), RunId(1)));
    assert_eq!([manifest.new_compaction_id(), manifest.new_compaction_id()].map(|id| id.0), [1, 2]);
    manifest.commit(vec![]).expect("memory takes it");
    let manifest = reopen(&env);
    assert_eq!((manifest.new_table_id(), manifest.new_run_id()), (TableId(9), RunId(2)));
}

/// Shows when a table's file may go: when its last slice has gone *and* the last reader of an older
/// version; never on closing.
#[test]
fn tables_become_garbage_when_nobody_needs_them() {
    let env = new_dir();
    let files = no_files();
    let manifest = Manifest::create(&env, dir(), files.clone()).expect("memory takes it");
    let run = flush(&manifest, 0, 20, 1);
    flush(&manifest, 0, 20, 2);
    let reader = manifest.version();
    manifest.commit(vec![Change::RunCut { tree: TREE, run, range: range(0, 10) }]).expect("memory takes it");
    assert_eq!(files.take_garbage(), [], "a slice is left");
    let gone = vec![Change::RunRemoved { tree: TREE, run }];
    manifest.commit(gone).expect("memory takes it");
    assert_eq!(files.take_garbage(), [], "a reader is left");
    drop(reader);
    let garbage = files.take_garbage();
    assert_eq!(garbage.iter().map(|table| table.id).collect::<Vec<_>>(), [TableId(1)]);
    assert_eq!(files.pending_bytes(), garbage[0].file_bytes, "its file is still there");
    files.removed(&garbage[0]);
    assert_eq!(files.pending_bytes(), 0);
    drop(manifest);
    assert_eq!(files.take_garbage(), [], "closing removes nothing");
}

/// Shows that the version is known while a commit writes and syncs: until the sync, the one before
/// the edit. The hook asks for it on the thread of the commit, within each of its calls.
#[test]
fn nobody_waits_for_a_commit_to_learn_the_version() {
    let sim = SimEnv::new(1);
    let env: Arc<dyn Env> = Arc::new(sim.clone());
    env.create_dir(dir(), step::DATABASE_CREATE).expect("the disk is empty");
    let manifest = Arc::new(Manifest::create(&env, dir(), no_files()).expect("no faults"));
    let seen = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let (asked, answers) = (Arc::downgrade(&manifest), seen.clone());
    sim.set_hook(move |moment| {
        if let Some(manifest) = asked.upgrade() {
            answers.lock().push((moment.call.step, manifest.version().edit_number().0));
        }
    });
    let before = manifest.version().edit_number().0;
    flush(&manifest, 0, 20, 1);
    sim.clear_hook();
    let seen = std::mem::take(&mut *seen.lock());
    let at_sync = seen.iter().find(|(step, _)| *step == Some(step::MANIFEST_SYNC)).map(|(_, edit)| *edit);
    assert_eq!(at_sync, Some(before), "{seen:?}");
    assert_eq!(manifest.version().edit_number().0, before + 1);
}

/// Shows that an edit that does not fit is our own mistake, and that nothing of it reaches the
/// file.
#[test]
fn an_edit_that_does_not_fit_is_not_written() {
    let env = new_dir();
    let manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
    let wrong = vec![Change::RunRemoved { tree: TREE, run: RunId(1) }];
    assert!(catch_unwind(AssertUnwindSafe(|| manifest.commit(wrong))).is_err());
    let before = Version::new(reopen(&env).version().database(), no_files()).state_edit();
    assert_eq!(reopen(&env).version().state_edit(), before);
}

/// Shows what a clean close records, and that the next writer has to say that it goes on.
#[test]
fn a_clean_close_is_remembered_until_the_next_edit() {
    let env = new_dir();
    let manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
    manifest.commit(vec![Change::WalEnd { position: 99 }]).expect("memory takes it");
    let manifest = reopen(&env);
    assert_eq!(manifest.version().wal_end(), Some(99));
    manifest.commit(vec![Change::WalReopened]).expect("memory takes it");
    assert_eq!(reopen(&env).version().wal_end(), None);
}

/// Shows which directories without `CURRENT` are taken for new ones: only those that an attempt to
/// make a database can have left behind.
#[test]
fn a_lost_current_is_not_taken_for_a_new_database() {
    let lost = |prepare: &dyn Fn(&dyn Env)| {
        let env = new_dir();
        let manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
        drop(manifest);
        prepare(&*env);
        env.remove(&FileName::Current.path(dir()), step::CURRENT_REMOVE).expect("it is there");
        match Manifest::recover(&env, dir(), Tail::MayBeTorn, no_files()) {
            Ok(found) => {
                assert!(found.is_none());
                let again = Manifest::create(&env, dir(), no_files());
                again.expect("what is left over was removed");
                false
            }
            Err(Error::Corruption { path, .. }) => {
                assert_eq!(path, FileName::Current.path(dir()));
                true
            }
            Err(other) => panic!("{other}"),
        }
    };
    let write = |env: &dyn Env, name: FileName, bytes: &[u8]| {
        let file = env.create(&name.path(dir()), step::TABLE_CREATE).expect("memory takes it");
        file.write_all_at(bytes, 0, step::TABLE_WRITE).expect("memory takes it");
    };
    assert!(!lost(&|_| {}));
    assert!(!lost(&|env| write(env, FileName::CurrentNew, b"half a li")));
    assert!(!lost(&|env| write(env, FileName::Table(3), b"")));
    assert!(lost(&|env| write(env, FileName::Table(3), b"x")));
    assert!(lost(&|env| write(env, FileName::Wal(1), b"x")));
    assert!(lost(&|env| write(env, FileName::Manifest(2), b"")));
}

/// Shows that a manifest with edits is never taken for what an attempt to make a database left
/// behind.
#[test]
fn a_manifest_with_edits_without_current_is_an_error() {
    let env = new_dir();
    let manifest = Manifest::create(&env, dir(), no_files()).expect("memory takes it");
    flush(&manifest, 0, KEYS, 1);
    env.remove(&FileName::Current.path(dir()), step::CURRENT_REMOVE).expect("it is there");
    let found = Manifest::recover(&env, dir(), Tail::MayBeTorn, no_files());
    assert!(matches!(found, Err(Error::Corruption { path, .. }) if path == FileName::Current.path(dir())));
}

/// Shows that a manifest of a newer format, or with a change of a kind that is not known, is
/// refused as such.
#[test]
fn what_a_newer_version_wrote_is_not_called_damage() {
    use crate::format::checksum::FileKind;
    use crate::format::meta::EditNumber;
    use crate::format::record::{FILE_HEADER_BYTES, FileHeader, Position, RecordBuffer};
    let created_after = EditNumber(1);
    let (kind, base) = (FileKind::Manifest, Position(0));
    let header = FileHeader { kind, database: 7, number: 1, base, first: 1, created_after };
    let recover = |edit: &[u8]| {
        let env = new_dir();
        drop(Manifest::create(&env, dir(), no_files()).expect("memory takes it"));
        let path = FileName::Manifest(1).path(dir());
        let file = env.open(&path, tamarack_env::Access::ReadWrite).expect("it is there");
        file.set_len(0, step::MANIFEST_CUT).expect("memory takes it");
        file.write_all_at(&header.encode(), 0, step::MANIFEST_WRITE_BASE).expect("memory takes it");
        let mut record = RecordBuffer::with_payload(edit);
        let record = record.finish(header.place(), FILE_HEADER_BYTES, 1, 1, base).expect("it is short");
        file.write_all_at(record, FILE_HEADER_BYTES, step::MANIFEST_WRITE_BASE).expect("memory takes it");
        Manifest::recover(&env, dir(), Tail::MayBeTorn, no_files())
    };
    let base = Version::new(7, no_files()).state_edit().encode();
    assert!(recover(&base).is_ok_and(|found| found.is_some()));
    let unknown: Vec<u8> = base.iter().copied().chain([100, 1, 2]).collect();
    assert!(matches!(recover(&unknown), Err(Error::Unsupported { .. })));
    let optional: Vec<u8> = base.iter().copied().chain([200, 1, 2]).collect();
    assert!(recover(&optional).is_ok_and(|found| found.is_some()));
    // A table with a kind of entry that this version does not serve is refused by that name.
    let mut meta = meta(TableId(1), 0, 1, (1, 1));
    meta.properties.special = Some(Box::new(Special { value_pointers: 1, ..Special::default() }));
    let mut edit = Version::new(7, no_files()).state_edit();
    edit.changes.push(Change::TableAdded { tree: TREE, meta: Arc::new(meta) });
    let refused = recover(&edit.encode()).map(drop);
    assert!(
        matches!(&refused, Err(Error::Unsupported { what, .. }) if what.contains("values that stand elsewhere")),
        "{refused:?}"
    );
}
