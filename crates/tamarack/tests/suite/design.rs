//! A tree's design (policy, filter, memtable size, bound on space) outlives closing: it stands in
//! the
//! manifest, a database that is opened without these options keeps it, and options that are given
//! take its place.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options};
use tamarack_env::{Env, MemoryEnv};
use tamarack_format::checksum::FileKind;
use tamarack_format::current::decode_current;
use tamarack_format::edit::{Change, Edit};
use tamarack_format::names::FileName;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, record_at};
use tamarack_format::shape::TreeDesign;
use tamarack_testing::read_file;

const DIR: &str = "/db";

/// The design that the manifest holds: policy, filter, bound on space, memtable size.
fn recorded(env: &dyn Env) -> (String, String, Option<f64>, u64) {
    let dir = Path::new(DIR);
    let number = decode_current(&read_file(env, &FileName::Current.path(dir))).expect("CURRENT");
    let bytes = read_file(env, &FileName::Manifest(number).path(dir));
    let place = FileHeader::decode(&bytes, FileKind::Manifest, number).expect("a header").place();
    let (mut at, mut found) = (FILE_HEADER_BYTES, None);
    while let Some((head, payload)) = record_at(&bytes, at, place) {
        let changes = Edit::decode(payload).map(|edit| edit.changes).unwrap_or_default();
        found = changes.into_iter().fold(found, |found, change| match change {
            Change::ShapeSet { shape, .. } => Some(shape),
            _ => found,
        });
        at += head.stride();
    }
    let TreeDesign { policy, filter, space_bound, shape, .. } =
        TreeDesign::decode(&found.expect("a design")).expect("a sound design");
    (policy.to_string(), filter.to_string(), space_bound.map(|bound| bound.most()), shape.buffer().0)
}

fn shown(db: &Db) -> (String, Option<f64>, u64) {
    let stats = db.stats();
    (stats.policy.clone(), stats.space_amplification_max, stats.memtable_capacity_bytes)
}

#[test]
fn a_design_outlives_closing_and_options_replace_its_parts() {
    let env: Arc<dyn Env> = MemoryEnv::new(0);
    let advanced = || AdvancedOptions::new().env(env.clone());
    let plain = || Options::new().advanced(advanced());
    let design = |policy: &str, filter: &str, space, buffer| (policy.to_owned(), filter.to_owned(), space, buffer);

    let chosen = advanced().policy("tiering:T=4").filter("bloom:bits=7.5").memtable_bytes(50_000);
    let db = Options::new().space_amplification_max(1.5).advanced(chosen).open(DIR).expect("memory");
    for number in 0..3000 {
        db.put(format!("key {number:05}"), "value").expect("memory");
    }
    let first = shown(&db);
    assert_eq!(first, ("tiering:T=4".to_owned(), Some(1.5), 50_000));
    db.close().expect("memory");
    let stored = design("tiering:T=4", "bloom:bits=7.5", Some(1.5), 50_000);
    assert_eq!(recorded(&*env), stored);

    // Nothing is said: all of it stays, for readers too.
    let db = plain().open_read_only(DIR).expect("memory");
    assert_eq!(shown(&db), first);
    drop(db);
    let db = plain().open(DIR).expect("memory");
    assert_eq!((shown(&db), recorded(&*env)), (first, stored));

    // What is chosen while the database is open is recorded as well.
    db.set_filter("elastic:bits=5").expect("running");
    db.set_policy("leveling:T=3").expect("running");
    drop(db);
    let stored = design("leveling:T=3", "elastic:bits=5", Some(1.5), 50_000);
    assert_eq!(recorded(&*env), stored);

    // One part at a time.
    let expected = design("leveling:T=3", "none", Some(1.5), 50_000);
    drop(Options::new().advanced(advanced().filter("none")).open(DIR).expect("memory"));
    assert_eq!(recorded(&*env), expected);
    drop(plain().space_amplification_max(3.0).open(DIR).expect("memory"));
    assert_eq!(recorded(&*env), design("leveling:T=3", "none", Some(3.0), 50_000));
    drop(plain().space_amplification_max(f64::INFINITY).open(DIR).expect("memory"));
    assert_eq!(recorded(&*env), design("leveling:T=3", "none", None, 50_000));
    drop(Options::new().advanced(advanced().memtable_bytes(20_000)).open(DIR).expect("memory"));
    assert_eq!(recorded(&*env), design("leveling:T=3", "none", None, 20_000));
    let db = plain().open(DIR).expect("memory");
    assert_eq!(shown(&db), ("leveling:T=3".to_owned(), None, 20_000));
    assert_eq!(db.scan(..).count(), 3000);
}
