//! Databases of other format versions, and what this version stores but cannot serve: refused by
//! name, and untouched.
//!
//! `golden/v1/database` was written by the last program that knew version 1, which was never
//! released. It stays.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Error, Options};
use tamarack_env::{Env, MemoryEnv, OsEnv};
use tamarack_format::checksum::FileKind;
use tamarack_format::entry::EntryKind;
use tamarack_format::group::Group;
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::names::FileName;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, Position};
use tamarack_testing::{read_dir, read_file, write_dir, write_file};

fn options(env: &Arc<dyn Env>) -> Options {
    Options::default().advanced(AdvancedOptions::default().env(env.clone()))
}

/// Opening, opening for reading, verifying and repairing refuse a database of version 1 by name,
/// say what to do, and change nothing.
#[test]
fn a_database_of_version_1_is_refused_and_untouched() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/database");
    let (env, dir) = (MemoryEnv::new(0), Path::new("/db"));
    let before = read_dir(&*OsEnv::new(), &golden);
    write_dir(&*env, dir, &before);
    let refused = |error: Error| {
        assert!(matches!(error, Error::OldFormat { version: 1, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("version 1") && text.contains("export") && text.contains("import"), "{text}");
        assert!(read_dir(&*env, dir) == before, "the database was changed");
    };
    refused(options(&env).open(dir).map(drop).expect_err("version 1"));
    refused(options(&env).open_read_only(dir).map(drop).expect_err("version 1"));
    refused(options(&env).plan_repair(dir, &mut |_, _| ()).map(drop).expect_err("version 1"));
    refused(options(&env).repair(dir, &mut |_, _| ()).map(drop).expect_err("version 1"));
}

/// A WAL with an entry of a kind that is stored but not served yet is refused by the kind's name;
/// nothing of it is lost.
#[test]
fn kinds_that_are_not_served_are_refused_by_name() {
    for (kind, name) in
        [(EntryKind::ValuePointer, "values that stand elsewhere"), (EntryKind::ExpiringPut, "puts that expire")]
    {
        let (env, dir) = (MemoryEnv::new(0), Path::new("/db"));
        let db = options(&env).open(dir).expect("an empty environment");
        db.put("a", "1").expect("memory");
        drop(db);
        let path = FileName::Wal(1).path(dir);
        let segment = read_file(&*env, &path);
        let database = u64::from_le_bytes(segment[16..24].try_into().expect("eight bytes"));
        let (base, created_after) = (Position(0), EditNumber(1));
        let header = FileHeader { kind: FileKind::Wal, database, number: 1, base, first: 1, created_after };
        let mut bytes = header.encode().to_vec();
        let mut group = Group::new();
        group.push_entry(TreeId(0), kind, b"a", b"12345678value");
        let record = group.record().finish(header.place(), FILE_HEADER_BYTES, 1, 1, base);
        bytes.extend_from_slice(record.expect("a small group"));
        write_file(&*env, &path, &bytes);
        let error = options(&env).open(dir).map(drop).expect_err("a kind that is not served");
        assert!(matches!(&error, Error::Unsupported { what, .. } if what.contains(name)), "{error:?}");
        assert!(read_file(&*env, &path) == bytes, "the WAL was changed");
    }
}
