//! The program as a process of its own: what only shows there.
//!
//! * [`documented`]: the commands of the README and the guide print what stands there.
//! * [`killed`]: an import that is killed has stored what it acknowledged, and nothing but the
//!   beginning of its input.
//! * [`odd_files`]: FIFOs, directories and absurd numbers under names of the database's.
//! * [`round_trip`]: many lines go in, and each comes out again, alone, in ranges, and all of them
//!   in order.
//! * Here: exit statuses, standard input, a reader that goes away early, two processes that want
//!   one database, a disk that is full, a tree whose shape changes while imports are killed.
//!
//! [`program`] runs the program and makes directories; `TAMARACK_SEED` picks other keys and other
//! moments.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about real files, real processes and real time"
)]

#[cfg(unix)]
mod documented;
mod full;
mod killed;
#[cfg(unix)]
mod odd_files;
mod program;
mod round_trip;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use tamarack_testing::TestDir;

use crate::program::{json_of, output_of, run, tamarack, text};

/// Records given on standard input come out again; statuses are those of the help.
#[test]
fn statuses_and_standard_input() {
    let dir = TestDir::new("statuses_and_standard_input");
    let db = dir.path().join("db");
    let mut import =
        tamarack(&["import", text(&db), "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    import.stdin.take().expect("it is piped").write_all(b"b\t2\na\t1").expect("it reads");
    assert!(import.wait().expect("it ends").success());
    assert_eq!(output_of(&["export", text(&db)]), "a\t1\nb\t2\n");

    let status = |words: &[&str]| run(words).status;
    assert_eq!(status(&["get", text(&db), "a"]), Some(0));
    assert_eq!(status(&["get", text(&db), "c"]), Some(1));
    assert_eq!(status(&["get", text(&db)]), Some(2));
    assert_eq!(status(&["import", text(&db), text(&dir.path().join("none"))]), Some(3));
}

/// An export whose reader leaves after the first bytes ends quietly with status 0.
#[test]
fn a_closed_pipe_is_no_error() {
    let dir = TestDir::new("a_closed_pipe_is_no_error");
    let (db, input) = (dir.path().join("db"), dir.path().join("in.tsv"));
    let lines: String = (0..100_000).map(|i| format!("{i:06}\tvalue of {i}\n")).collect();
    fs::write(&input, lines).expect("the directory is writable");
    output_of(&["import", text(&db), text(&input)]);

    let mut export =
        tamarack(&["export", text(&db)]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut first = [0; 6];
    export.stdout.take().expect("it is piped").read_exact(&mut first).expect("there is output");
    assert_eq!(&first, b"000000");
    let ended = export.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

/// While an import waits for more input, nobody else gets the database; when it was killed, the
/// next one does.
#[test]
fn one_process_at_a_time() {
    let dir = TestDir::new("one_process_at_a_time");
    let (db, acks) = (dir.path().join("db"), dir.path().join("acks"));
    let (mut import, input) = waiting_import(&db, &acks);

    let ran = run(&["get", text(&db), "a"]);
    assert_eq!(ran.status, Some(3), "{ran:?}");
    assert!(ran.err.contains("another process") && ran.err.contains(text(&db)), "{}", ran.err);

    import.kill().expect("it can be killed");
    import.wait().expect("it ends");
    drop(input);
    assert_eq!(output_of(&["get", text(&db), "a"]), "1\n");
}

/// An import that has stored one line, which was acknowledged, and waits for the next.
fn waiting_import(db: &Path, acks: &Path) -> (Child, impl Write) {
    let mut import = tamarack(&["import", text(db), "-", "--batch", "1", "--acks", text(acks)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = import.stdin.take().expect("it is piped");
    input.write_all(b"a\t1\n").expect("it reads");
    while !fs::read_to_string(acks).is_ok_and(|acks| acks == "1\n") {
        assert!(import.try_wait().expect("it can be asked").is_none(), "it ended before its input did");
        std::thread::yield_now();
    }
    (import, input)
}

/// A tree that is given one policy after another, in the middle of imports that are killed: `stats`
/// shows what is left to do, `compact --settle` does it, and nothing that was stored is missing.
#[test]
fn a_tree_changes_its_shape_between_kills() {
    let dir = TestDir::new("a_tree_changes_its_shape_between_kills");
    let (db, acks) = (dir.path().join("db"), dir.path().join("acks"));
    let mut stored = 0;
    for (round, policy) in
        ["tiering:T=3", "leveling:T=3", "dostoevsky:T=4,K=2,Z=1", "lazy-leveling:T=3"].iter().enumerate()
    {
        let words = [
            "import",
            text(&db),
            "-",
            "--buffer",
            "20KiB",
            "--policy",
            policy,
            "--acks",
            text(&acks),
            "--threads",
            "2",
        ];
        let mut import = tamarack(&words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let mut input = import.stdin.take().expect("it is piped");
        let first = 3000 * round as u64;
        let lines: String = (first..first + 3000)
            .map(|i| format!("{:016x}\t{i:0100}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        input.write_all(lines.as_bytes()).expect("it reads");
        stored += 3000;
        let acknowledged = "3000\n";
        while !fs::read_to_string(&acks)
            .is_ok_and(|acks| acks.ends_with(acknowledged) && acks.lines().count() == 3 * (round + 1))
        {
            assert!(import.try_wait().expect("it can be asked").is_none(), "it ended before its input did");
            std::thread::yield_now();
        }
        import.kill().expect("it can be killed");
        import.wait().expect("it ends");

        let stats = json_of(&["stats", text(&db)]);
        assert_eq!(stats["policy"], **policy);
        assert_eq!(stats["visible_sequence"], stored);
        assert!(output_of(&["stats", text(&db), "--runs"]).contains("\nlevel 1  "));
        if round == 3 {
            output_of(&["compact", text(&db), "--settle"]);
        }
    }
    let stats = json_of(&["stats", text(&db)]);
    assert_eq!((stats["jobs"].as_array().map(Vec::len), &stats["debt_bytes"]), (Some(0), &0.into()), "{stats}");
    assert_eq!(output_of(&["export", text(&db)]).lines().count() as u64, stored);
    assert_eq!(json_of(&["verify", text(&db)])["ok"], true);
}

/// A device on which every write finds no space ends a run with status 3 and advice, where the
/// output goes there.
#[cfg(target_os = "linux")]
#[test]
fn full_output_is_an_error() {
    let dir = TestDir::new("full_output_is_an_error");
    let db = dir.path().join("db");
    output_of(&["put", text(&db), "a", "1"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut export = tamarack(&["export", text(&db)]).stdout(full).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut complaint = String::new();
    BufReader::new(export.stderr.take().expect("it is piped")).read_line(&mut complaint).expect("it is text");
    assert_eq!(export.wait().expect("it ends").code(), Some(3));
    assert!(complaint.contains("standard output") && complaint.contains("space"), "{complaint}");
}
