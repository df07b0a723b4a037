//! Mistakes of newcomers: the program says what is wrong and what to do, on standard error only,
//! and changes nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "tests of a program make and remove directories of the real file system"
)]

use std::fs;
use std::io;
use std::path::Path;

use tamarack::Db;
use tamarack_env::OsEnv;
use tamarack_format::checksum::{FileKind, Place};
use tamarack_testing::read_dir;

use crate::testing::{Ran, TestDir, run, run_ok};

/// Runs the program, which must fail with that status, print all of these texts as errors, and no
/// results.
fn refused(words: &[&str], status: u8, said: &[&str]) {
    let Ran { status: found, out, err } = run(words);
    assert_eq!((found, out.as_str()), (status, ""), "{words:?}: {err}");
    for said in said {
        assert!(err.contains(said), "{words:?} says not `{said}` but: {err}");
    }
}

/// Arguments that are missing, misspelt, or invalid.
#[test]
fn wrong_words() {
    let dir = TestDir::new("wrong_words");
    let db = &dir.join("db");
    run_ok(&["put", db, "a", "1"]);
    for (words, said) in [
        (&["get"][..], &["<DB>", "<KEY>", "Usage: tamarack get", "--help"][..]),
        (&["get", db], &["<KEY>", "--help"]),
        (&["put", db, "a"], &["<VALUE>", "--help"]),
        (&["frobnicate"], &["frobnicate", "--help"]),
        (&["improt", db], &["similar", "'import'"]),
        (&["scan", db, "--limt", "3"], &["similar", "'--limit'"]),
        (&["scan", db, "--limit", "x"], &["--limit <COUNT>", "x"]),
        (&["import", db, "--batch", "0"], &["--batch <LINES>", "1.."]),
        (&["import", db, "--format", "xml"], &["tsv, csv, jsonl"]),
        (&["get", db, "-5"], &["-- -5"]),
        (&["get", db, "a\\q"], &["key: ", "\\q", "write \\\\ for a backslash"]),
        (&["scan", db, "--from", "\\x"], &["from: ", "write \\\\ for a backslash"]),
        (&["compact", db, "--policy", "levelling:T=10"], &["levelling", "policies are leveling:T=10, tiering"]),
        (&["compact", db, "--policy", "leveling"], &["parameters T"]),
        (&["compact", db, "--policy", "leveling:T"], &["`T=10`"]),
        (&["compact", db, "--policy", "leveling:T=1"], &["T=1 ", "from 2 to 65536"]),
        (&["compact", db, "--filter", "blum:bits=10"], &["blum", "`bloom:bits=10`"]),
        (&["compact", db, "--filter", "bloom"], &["as in `bloom:bits=10`"]),
        (&["compact", db, "--filter", "bloom:bits=100"], &["above 0 and at most 64"]),
        (&["compact", db, "--threads", "0"], &["1..=1024"]),
        (&["put", db, "a", "b", "--memory", "64mib"], &["--memory <SIZE>", "such as 64MiB"]),
        (&["put", db, "a", "b", "--memory", "10"], &["10 bytes", "at least 1048576"]),
        (&["put", db, "a", "b", "--durability", "never"], &["buffered, sync, or interval:MS"]),
        (&["import", db, "--buffer", "0", "/dev/null"], &["memtable_bytes", "at least 1 "]),
        (&["import", db, "--block-size", "3", "/dev/null"], &["block", "at least 64 "]),
        (&["import", db, "--compression", "snappy"], &["none, lz4"]),
        (&["bench", "fillrandm"], &["similar", "'fillrandom'"]),
    ] {
        refused(words, 2, said);
    }
    assert_eq!(run_ok(&["export", db]), "a\t1\n");
    assert!(run_ok(&["--version"]).starts_with("tamarack "));
}

/// Files and directories that do not exist, or are something else.
#[test]
fn wrong_places() {
    let dir = TestDir::new("wrong_places");
    let (none, db) = (&dir.join("none"), &dir.join("db"));
    let (file, empty) = (&dir.file("file", "text\n"), &dir.join("empty"));
    fs::create_dir(empty).expect("the temporary directory is writable");
    for words in [
        &["get", none, "k"][..],
        &["scan", none],
        &["export", none],
        &["stats", none],
        &["verify", none],
        &["repair", none],
        &["compact", none],
        &["delete", none, "k"],
    ] {
        refused(words, 2, &["none: there is no database here", "check the path"]);
    }
    refused(&["get", empty, "k"], 2, &["empty: there is no database here"]);
    refused(&["stats", file], 2, &["file: not a directory", "give the path of a database directory"]);
    refused(&["put", file, "a", "b"], 2, &["file: not a directory", "give the path of a database directory"]);
    refused(&["put", &dir.join("none/db"), "a", "b"], 2, &["does not exist; make that first"]);
    refused(&["import", db, none], 3, &["none: ", "name a file that exists"]);
    refused(&["import", db, empty], 3, &["empty: ", "directory", "name a file"]);
    refused(&["import", db, file, "--policy", "custom:no.shape"], 2, &["no.shape: ", "name a file"]);
    refused(&["import", db, file, "--acks", &dir.join("none/acks")], 3, &["acks: ", "its directory exists"]);
    refused(&["inspect", none], 2, &["none: "]);
    refused(&["inspect", file], 2, &["file: "]);
    refused(&["bench", "--dir", none], 3, &["none: ", "--dir"]);
    for path in [none, db] {
        assert!(!Path::new(path).exists(), "{path} was made");
    }
    assert_eq!(fs::read_dir(empty).expect("it is there").count(), 0);
}

/// A database that another process has open is left alone.
#[test]
fn a_locked_database() {
    let dir = TestDir::new("a_locked_database");
    let db = &dir.join("db");
    let open = Db::open(db).expect("it can be made");
    for words in [&["get", db, "a"][..], &["put", db, "a", "1"], &["stats", db], &["verify", db]] {
        refused(words, 3, &["another process", "has the database open", "close it there first"]);
    }
    open.close().expect("it closes");
    run_ok(&["put", db, "a", "1"]);
}

/// Readers do not exclude one another and change nothing; a writer is refused.
#[test]
fn a_database_that_others_look_at() {
    let dir = TestDir::new("a_database_that_others_look_at");
    let db = &dir.join("db");
    run_ok(&["put", db, "a", "1"]);
    drop(Db::open(db).and_then(|open| open.put("b", "2").map(|()| open)).expect("it can be written to"));
    let files = || read_dir(&*OsEnv::new(), Path::new(db));
    let before = files();
    let reader = tamarack::Options::new().open_read_only(db).expect("it is there");
    for words in [&["get", db, "b"][..], &["scan", db], &["export", db], &["stats", db], &["verify", db]] {
        run_ok(words);
    }
    for words in [&["put", db, "a", "1"][..], &["compact", db], &["checkpoint", db, &dir.join("new")]] {
        refused(words, 3, &["another process", "has the database open", "close it there first"]);
    }
    assert!(files() == before, "nothing is changed");
    drop(reader);
    run_ok(&["put", db, "a", "1"]);
}

/// A newer format version is named as such, not as damage.
#[test]
fn a_newer_format() {
    let dir = TestDir::new("a_newer_format");
    let db = &dir.join("db");
    run_ok(&["put", db, "a", "1"]);
    let manifest = dir.join("db/0000000001.manifest");
    let mut bytes = fs::read(&manifest).expect("a new database has it");
    bytes[8] = 9;
    let checksum = Place::new(0, FileKind::Manifest, 1).checksum(0, &bytes[..56]);
    bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&manifest, bytes).expect("it can be written");
    for words in [&["get", db, "a"][..], &["put", db, "a", "1"], &["stats", db], &["verify", db]] {
        refused(words, 3, &["0000000001.manifest: ", "format version 9", "newer version of Tamarack"]);
    }
}

/// A damaged database: the error names file, offset, reason and remedy.
#[test]
fn a_damaged_database() {
    let dir = TestDir::new("a_damaged_database");
    let db = &dir.join("db");
    run_ok(&["put", db, "a", "1"]);
    dir.file("db/CURRENT", "rubbish\n");
    refused(&["get", db, "a"], 3, &["CURRENT: damaged at byte 0", "restore it from a backup"]);
    fs::remove_file(dir.join("db/CURRENT")).expect("it was there");
    refused(&["put", db, "a", "1"], 3, &["CURRENT: ", "missing", "restore it from a backup"]);
}

/// A full standard output ends a run with status 3.
#[test]
fn output_that_is_full() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let dir = TestDir::new("output_that_is_full");
    let db = &dir.join("db");
    run_ok(&["put", db, "a", "1"]);
    for words in [&["get", db, "a"][..], &["export", db], &["stats", db, "--json"], &["--help"]] {
        let mut err = Vec::new();
        let status = crate::run(["tamarack"].iter().chain(words), &mut Full, &mut err);
        let said = String::from_utf8(err).expect("it is text");
        assert!(status == 3 && said.contains("standard output: ") && said.contains("output is incomplete"), "{said}");
    }
}
