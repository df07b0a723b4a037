//! Something that is not a regular file, under a name of the database's: every command ends soon,
//! and says which path is in the way.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tamarack_env::OsEnv;
use tamarack_testing::{TestDir, read_dir, write_dir};

use crate::program::{output_of, run, tamarack, text};

/// How long a command may take that would otherwise wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A FIFO that nobody writes to would make its reader wait for ever; a directory cannot be read.
#[test]
fn what_is_not_a_file_is_named() {
    let dir = TestDir::new("what_is_not_a_file_is_named");
    let whole = dir.path().join("whole");
    database(&whole);
    let table = first(&whole, "sst");
    let wal = first(&whole, "wal");
    for name in ["CURRENT", "LOCK", &table, &wal, "0000009999.sst"] {
        for kind in ["fifo", "directory"] {
            let db = dir.path().join(format!("{kind}-{name}"));
            write_dir(&*OsEnv::new(), &db, &read_dir(&*OsEnv::new(), &whole));
            let path = db.join(name);
            if path.exists() {
                fs::remove_file(&path).expect("removed");
            }
            match kind {
                "fifo" => assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success()),
                _ => fs::create_dir(&path).expect("created"),
            }
            for command in ["export", "verify", "repair"] {
                let (status, err) = ended(&[command, text(&db)]);
                // A damaged or missing table is a finding of `verify`, and work for `repair`.
                assert_ne!(status, None, "{command} {kind} {name}: {err}");
                assert!(status != Some(0) || command == "repair", "{command} {kind} {name}: {err}");
                assert!(err.contains(name), "{command} {kind} {name} does not say what is in the way: {err}");
            }
            let (status, err) = ended(&["inspect", text(&path)]);
            assert!(status.is_some_and(|status| status != 0), "inspect {kind} {name}: {err}");
        }
    }
}

/// A database with a table and records in its WAL.
fn database(dir: &Path) {
    let input = dir.with_extension("tsv");
    let lines: String = (0..5_000).map(|i| format!("{i:06}\tvalue of {i}\n")).collect();
    fs::write(&input, lines).expect("written");
    output_of(&["import", text(dir), text(&input), "--buffer", "50KiB"]);
    output_of(&["put", text(dir), "key", "value"]);
}

/// The first name with this ending.
fn first(dir: &Path, ending: &str) -> String {
    let names = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("listed").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("text")).collect();
    names.sort();
    names.into_iter().find(|name| name.ends_with(ending)).unwrap_or_else(|| panic!("no {ending}"))
}

/// Status and messages of a command that must end; status `None` if it did not.
fn ended(words: &[&str]) -> (Option<i32>, String) {
    let mut child = tamarack(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while child.try_wait().expect("it can be asked").is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().expect("it can be ended");
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("it ended");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// A file of the largest numbers that a name can hold does not use numbers up.
#[test]
fn absurd_numbers_change_nothing() {
    let dir = TestDir::new("absurd_numbers_change_nothing");
    let db = dir.path().join("db");
    database(&db);
    let before = output_of(&["export", text(&db)]);
    for name in ["18446744073709551614.sst", "18446744073709551615.manifest", "0999999999999999.sst"] {
        fs::write(db.join(name), b"not ours").expect("written");
    }
    output_of(&["put", text(&db), "key", "value"]);
    output_of(&["compact", text(&db)]);
    assert_eq!(output_of(&["export", text(&db)]), before);
    let verified = run(&["verify", text(&db)]);
    assert_eq!(verified.status, Some(0), "{verified:?}");
    assert_eq!(verified.err.matches("ignored, because its number").count(), 3, "{verified:?}");
    assert!(fs::exists(db.join("18446744073709551614.sst")).expect("it can be asked"), "not ours to remove");
}
