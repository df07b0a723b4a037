//! What the random databases found, each as a small test that tells the story: damage beside a
//! crash that used to pass for what the crash itself had left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::internals::{JournalRecord, MANIFEST_PROFILE, RecordScan};
use tamarack::{AdvancedOptions, Batch, Db, Durability, Error, Options};
use tamarack_env::SimEnv;
use tamarack_env::sim::Crash;
use tamarack_format::record::FileHeader;

use super::scene::DIR;

fn options(env: &SimEnv) -> Options {
    Options::new().advanced(AdvancedOptions::new().env(Arc::new(env.clone())))
}

fn manifest() -> PathBuf {
    Path::new(DIR).join("0000000001.manifest")
}

/// The machine after a loss of power that nothing survived but what was synced: among the rest, the
/// mark that follows the manifest's last edit is gone.
fn powerless(write: impl FnOnce(&Db)) -> SimEnv {
    let env = SimEnv::new(1);
    let db = options(&env).open(DIR).expect("nothing fails");
    write(&db);
    env.image(Crash::LoseAll)
}

/// The last record of the manifest, which is an edit.
fn last_edit(env: &SimEnv) -> (JournalRecord, Vec<u8>) {
    let bytes = env.content(manifest()).expect("it is there");
    let header = FileHeader::decode(&bytes, MANIFEST_PROFILE.kind, 1).expect("it is whole");
    let scan = RecordScan::of(&bytes, header.place(), MANIFEST_PROFILE.growth);
    let last = *scan.records.last().expect("it has a base");
    assert!(!last.head.is_mark() && last.end() == bytes.len() as u64, "{last:?}");
    (last, bytes)
}

fn value(env: &SimEnv, key: &str) -> Option<Vec<u8>> {
    let db = options(env).open(DIR).expect("it was repaired");
    db.get(key).expect("it can be read").map(|value| value.to_vec())
}

/// Opening refuses the database, verification names a file, and a repair brings the key back.
fn is_noticed_and_repaired(env: &SimEnv, key: &str, what: &str) {
    let before = super::contents(env);
    let error = options(env).open(DIR).expect_err(what);
    assert!(matches!(error, Error::Corruption { .. }), "{what}: {error}");
    let report = options(env).verify(DIR, &mut |_, _| {}).expect("it can be read");
    assert!(!report.is_ok(), "{what}: {report:?}");
    let unchanged =
        |(path, bytes): (&PathBuf, &Vec<u8>)| *path == manifest() || env.content(path).is_ok_and(|now| now == *bytes);
    assert!(before.iter().all(unchanged), "{what}: nothing is changed but the end of the manifest");
    options(env).repair(DIR, &mut |_, _| {}).expect("it can be repaired");
    assert_eq!(value(env, key).as_deref(), Some(&b"new"[..]), "{what}");
}

fn put(db: &Db, key: &str, value: &str, durability: Durability) {
    let mut batch = Batch::new();
    batch.put(key, value);
    db.write_with(&batch, durability).expect("nothing fails");
}

fn ingest(db: &Db) {
    put(db, "key", "old", Durability::Sync);
    let mut ingest = db.ingest().expect("nothing fails");
    ingest.put("key", "new").expect("nothing fails");
    ingest.finish().expect("nothing fails");
}

/// Ingested tables are in no WAL. When the edit that installed them was damaged, and a crash had
/// taken the mark that follows it, it looked like one that the crash had cut short, and the tables
/// like those of an ingest that never ended: opening removed them. Now a WAL segment begins right
/// after the ingest, and names its edit.
#[test]
fn an_ingest_is_missed_whatever_becomes_of_its_edit() {
    let env = powerless(ingest);
    let (last, bytes) = last_edit(&env);
    let length = bytes.len() as u64;
    // Behind the payload there is only padding.
    let payload_end = last.offset + 40 + u64::from(last.head.payload_bytes);
    for at in (last.offset..payload_end).step_by(7) {
        let cut = env.process_image();
        cut.truncate(manifest(), at).expect("it is there");
        is_noticed_and_repaired(&cut, "key", &format!("cut to {at} of {length}"));
        let zeroed = env.process_image();
        zeroed.overwrite(manifest(), at, &vec![0; (length - at) as usize]).expect("it is there");
        is_noticed_and_repaired(&zeroed, "key", &format!("zeros from {at} of {length} on"));
        let flipped = env.process_image();
        flipped.flip_bit(manifest(), at, 3).expect("it is there");
        is_noticed_and_repaired(&flipped, "key", &format!("a bit of byte {at} of {length} flipped"));
    }
}

/// What cannot be told from a crash is said in general: the manifest's end is torn, and nothing
/// names the table. So it is when the power goes while the edit of a flush is written.
#[test]
fn an_edit_that_is_cut_short_looks_torn_and_leaves_a_table_without_a_name() {
    let env = powerless(|db| {
        put(db, "key", "new", Durability::Buffered);
        db.flush().expect("nothing fails");
    });
    let (last, _) = last_edit(&env);
    env.truncate(manifest(), last.end() - 9).expect("it is there");
    let report = options(&env).verify(DIR, &mut |_, _| {}).expect("it can be read");
    assert!(report.is_ok(), "{report:?}");
    let torn: Vec<_> = report.torn.iter().map(|torn| (torn.path.clone(), torn.offset)).collect();
    assert!(torn.contains(&(manifest(), last.offset)), "{torn:?}");
    assert_eq!(report.unnamed.len(), 1, "{report:?}");
    assert_eq!(value(&env, "key"), None, "it was not to survive a loss of power before its flush had ended");
}

/// A flush put unsynced records into a table, and a synced write followed in the next WAL segment.
/// When the edit of the flush was cut short, the segments did not follow each other any more, and
/// the synced write was dropped as a torn end. Now its record says that what came before is
/// durable, here or in tables.
#[test]
fn a_synced_write_is_not_dropped_because_a_flush_is_lost() {
    let env = powerless(|db| {
        put(db, "flushed", "new", Durability::Buffered);
        db.flush().expect("nothing fails");
        put(db, "key", "new", Durability::Sync);
    });
    let (last, _) = last_edit(&env);
    env.truncate(manifest(), last.end() - 9).expect("it is there");
    is_noticed_and_repaired(&env, "key", "the flush is lost");
    assert_eq!(value(&env, "flushed").as_deref(), Some(&b"new"[..]));
}

/// A WAL segment of zeros looks like one that was being made when the machine stopped. But the edit
/// of the flush that follows its beginning says that it was there.
#[test]
fn a_segment_of_zeros_is_missed() {
    let env = powerless(|db| {
        put(db, "key", "new", Durability::Sync);
        db.flush().expect("nothing fails");
        put(db, "later", "value", Durability::Sync);
    });
    let segments: Vec<_> = env.files().into_iter().filter(|(path, _)| super::is(path, "wal")).collect();
    assert_eq!(segments.len(), 2, "the removal of the first was not durable: {segments:?}");
    let (path, bytes) = &segments[1];
    env.overwrite(path, 0, &vec![0; *bytes as usize]).expect("it is there");
    is_noticed_and_repaired(&env, "key", "a segment is zeros");
}
