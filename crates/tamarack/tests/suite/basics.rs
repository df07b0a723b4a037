//! Introductory examples of the database, in memory and on real files.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Batch, Db, Durability, ErrorKind, Options, Result};
use tamarack_env::{Env, MemoryEnv};

fn options(env: &Arc<dyn Env>) -> Options {
    Options::new().advanced(AdvancedOptions::new().env(env.clone()).memtable_bytes(4096).block_bytes(256))
}

fn keys(scan: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Vec<String> {
    scan.map(|entry| String::from_utf8(entry.unwrap().0).unwrap()).collect()
}

#[test]
fn written_values_are_read() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    db.put("b", "2")?;
    db.put("a", "1")?;
    db.put("b", "two")?;
    db.put("empty", "")?;
    db.delete("a")?;
    assert_eq!(db.get("a")?, None);
    assert_eq!(db.get("b")?.as_deref(), Some(&b"two"[..]));
    assert_eq!(db.get("empty")?.as_deref(), Some(&b""[..]));
    assert!(db.contains_key("b")? && !db.contains_key("a")? && !db.contains_key("c")?);
    db.close()
}

#[test]
fn a_snapshot_does_not_see_later_writes() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    db.write(Batch::new().put("a", "1").put("b", "1"))?;
    let before = db.snapshot();
    db.write(Batch::new().put("a", "2").delete("b").put("c", "2"))?;
    db.flush()?;
    assert_eq!(keys(before.scan(..)), ["a", "b"]);
    assert_eq!(before.get("a")?.as_deref(), Some(&b"1"[..]));
    assert_eq!(keys(db.scan(..).rev()), ["c", "a"]);
    Ok(())
}

/// Ten memtables of keys, flushed in the background, are readable before and after reopening.
fn many_keys(env: &Arc<dyn Env>, dir: &std::path::Path) -> Result<()> {
    let db = options(env).open(dir)?;
    for number in 0..1000 {
        db.put(format!("key {number:04}"), format!("value {number}"))?;
    }
    let check = |db: &Db| -> Result<()> {
        for number in 0..1000 {
            let value = db.get(format!("key {number:04}"))?;
            assert_eq!(value.as_deref(), Some(format!("value {number}").as_bytes()), "key {number}");
        }
        assert_eq!(db.prefix("key ").count(), 1000);
        assert_eq!(keys(db.scan("key 0990".."key 0993")), ["key 0990", "key 0991", "key 0992"]);
        assert_eq!(keys(db.prefix("key 099").rev().take(2)), ["key 0999", "key 0998"]);
        Ok(())
    };
    check(&db)?;
    db.flush()?;
    check(&db)?;
    assert_eq!(db.stats().flushes, 7, "{:?}", db.stats());
    assert!(db.verify(&mut |_, _| {})?.is_ok());
    db.put("last", "in the WAL only")?;
    db.close()?;

    let db = options(env).open(dir)?;
    check(&db)?;
    assert_eq!(db.get("last")?.as_deref(), Some(&b"in the WAL only"[..]));
    assert_eq!(db.recovery().dropped, []);
    db.close()
}

#[test]
fn many_keys_in_memory() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    many_keys(&env, "/db".as_ref())
}

#[test]
fn many_keys_on_real_files() -> Result<()> {
    let env: Arc<dyn Env> = tamarack_env::OsEnv::new();
    let dir = tamarack_env::TempDir::new().unwrap();
    many_keys(&env, &dir.path().join("db"))
}

#[test]
fn a_database_is_open_once() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    assert!(matches!(options(&env).open("/db"), Err(tamarack::Error::Locked { .. })));
    let snapshot = db.snapshot();
    drop(db);
    assert!(options(&env).open("/db").is_err(), "a snapshot can still read the files");
    drop(snapshot);
    options(&env).open("/db").map(drop)
}

#[test]
fn a_closed_database_takes_no_writes() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    db.put("a", "1")?;
    let other = db.clone();
    db.close()?;
    assert!(matches!(other.put("b", "2"), Err(tamarack::Error::Stopped { .. })));
    assert!(other.contains_key("a")?);
    Ok(())
}

#[test]
fn each_durability_level_is_taken() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    for durability in
        [Durability::Buffered, Durability::Sync, Durability::Interval(std::time::Duration::from_millis(1))]
    {
        let db = options(&env).durability(durability).open("/db")?;
        db.put(format!("{durability:?}"), "")?;
        db.write_with(Batch::new().put("with", "sync"), Durability::Sync)?;
        db.close()?;
    }
    let db = options(&env).open("/db")?;
    assert_eq!(db.scan(..).count(), 4);
    Ok(())
}

#[test]
fn oversized_writes_are_refused_with_the_limit() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).memory_bytes(1 << 20).open("/db")?;
    let refused = |outcome: Result<()>| match outcome {
        Err(tamarack::Error::InvalidArgument(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(db.put(vec![0; (64 << 10) + 1], "")).contains("65536"));
    assert!(refused(db.put("key", vec![0; (128 << 10) + 1])).contains("131072"));
    db.put(vec![0; 64 << 10], vec![0; 128 << 10])?;
    assert_eq!(db.scan(..).count(), 1);
    Ok(())
}

/// A clean close records the WAL's end: a byte that changed since is damage, not the torn end of a
/// crash.
#[test]
fn a_closed_wal_has_no_torn_end() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    for number in 0..20 {
        db.put(format!("key {number}"), "value")?;
    }
    db.close()?;
    let path = std::path::Path::new("/db/0000000001.wal");
    let wal = env.open(path, tamarack_env::Access::ReadWrite).unwrap();
    for offset in 0..wal.len().unwrap() {
        let mut byte = [0];
        wal.read_exact_at(&mut byte, offset).unwrap();
        wal.write_all_at(&[byte[0] ^ 1], offset, tamarack_env::Step("test: damage")).unwrap();
        match options(&env).open("/db") {
            // Bytes 8 to 11 are the version: another one is refused by name.
            Err(tamarack::Error::Corruption { .. } | tamarack::Error::Unsupported { .. }) => {}
            // Bytes between records have no meaning.
            Ok(db) => assert_eq!(db.scan(..).count(), 20, "byte {offset}"),
            Err(other) => panic!("byte {offset}: {other}"),
        }
        wal.write_all_at(&byte, offset, tamarack_env::Step("test: mend")).unwrap();
    }
    assert_eq!(options(&env).open("/db")?.scan(..).count(), 20);
    Ok(())
}

/// Opening a database that may not or cannot be created tells a missing one from the caller's
/// mistakes, and leaves nothing behind.
#[test]
fn databases_that_cannot_be_created() -> Result<()> {
    let env: Arc<dyn Env> = tamarack_env::OsEnv::new();
    let dir = tamarack_env::TempDir::new().unwrap();
    let step = tamarack_env::Step("test: make");
    env.create(&dir.path().join("file"), step).unwrap();
    env.create_dir(&dir.path().join("empty"), step).unwrap();
    let refused = |name: &str, create: bool, kind: ErrorKind| {
        let path = dir.path().join(name);
        let error = options(&env).create_if_missing(create).open(&path).expect_err("there is none");
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    };
    refused("file", true, ErrorKind::InvalidArgument);
    refused("file", false, ErrorKind::InvalidArgument);
    refused("none", false, ErrorKind::NotFound);
    refused("none/below", true, ErrorKind::InvalidArgument);
    refused("empty", false, ErrorKind::NotFound);
    assert_eq!(env.list(dir.path()).unwrap(), ["empty", "file"]);
    assert!(env.list(&dir.path().join("empty")).unwrap().is_empty());
    Ok(())
}
