//! The program as a process of its own: what only shows there.
//!
//! * Exit statuses and standard input arrive as they should.
//! * A reader that goes away early (`| head`) is no error.
//! * An import killed at a random moment has stored every line that its acks file names, and beyond them only more
//!   of the lines that follow: the database is a prefix of the input. `TAMARACK_ROUNDS=200` kills as often at each durability level; `TAMARACK_SEED` picks the
//!   moments. The seed does not make a run repeatable to the instruction, since the operating system decides when the signal arrives.

#![expect(clippy::disallowed_methods, reason = "these tests are about real files and real processes")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, with these words.
fn tamarack(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarack"));
    command.args(words);
    command
}

/// Runs the program to a successful end and returns its output.
fn output_of(words: &[&str]) -> Vec<u8> {
    let output = tamarack(words).output().expect("the program runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A new, empty directory for the test called `name`.
fn test_dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).expect("an earlier run's directory can be removed");
    }
    fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the target directory's path is UTF-8")
}

/// Records given on standard input come out again; statuses are those of the help.
#[test]
fn statuses_and_standard_input() {
    let dir = test_dir("statuses_and_standard_input");
    let db = dir.join("db");
    let mut import =
        tamarack(&["import", text(&db), "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    import.stdin.take().expect("it is piped").write_all(b"b\t2\na\t1").expect("it reads");
    assert!(import.wait().expect("it ends").success());
    assert_eq!(output_of(&["export", text(&db)]), b"a\t1\nb\t2\n");

    let status = |words: &[&str]| tamarack(words).output().expect("the program runs").status.code();
    assert_eq!(status(&["get", text(&db), "a"]), Some(0));
    assert_eq!(status(&["get", text(&db), "c"]), Some(1));
    assert_eq!(status(&["get", text(&db)]), Some(2));
    assert_eq!(status(&["import", text(&db), text(&dir.join("none"))]), Some(3));
}

/// An export whose reader leaves after the first bytes ends quietly with status 0.
#[test]
fn a_closed_pipe_is_no_error() {
    let dir = test_dir("a_closed_pipe_is_no_error");
    let (db, input) = (dir.join("db"), dir.join("in.tsv"));
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

/// See the top of this file.
#[test]
fn a_killed_import_keeps_what_it_acknowledged() {
    let mut random = Random::from_environment();
    let rounds: u64 =
        std::env::var("TAMARACK_ROUNDS").map_or(4, |rounds| rounds.parse().expect("TAMARACK_ROUNDS is a number"));
    let dir = test_dir("a_killed_import_keeps_what_it_acknowledged");
    let input = dir.join("in.tsv");
    for durability in ["buffered", "sync", "interval:1"] {
        let mut killed = 0;
        for round in 0..rounds {
            let batch = 1 + random.below(200) as usize;
            // Syncs are slow: fewer lines give the same number of moments.
            let lines = random_lines(&mut random, if durability == "sync" { 20 * batch } else { 300 * batch });
            fs::write(&input, lines.concat()).expect("the directory is writable");
            let name = format!("{durability}, round {round}, {} lines in batches of {batch}", lines.len());
            killed += u64::from(kill_one_import(&dir, &input, durability, batch, &lines, &mut random, &name));
        }
        println!("{durability}: {killed} of {rounds} imports were killed before their end");
        assert!(killed * 2 >= rounds, "too few imports were still running when they were killed");
    }
}

/// Imports `lines`, kills the import after a random number of acknowledgements, and checks what is there. True if it was still running.
fn kill_one_import(
    dir: &Path,
    input: &Path,
    durability: &str,
    batch: usize,
    lines: &[String],
    random: &mut Random,
    name: &str,
) -> bool {
    let (db, acks) = (dir.join("db"), dir.join("acks"));
    let batch_text = batch.to_string();
    let words =
        ["import", text(&db), text(input), "--acks", text(&acks), "--durability", durability, "--batch", &batch_text];
    let import = tamarack(&words).stdout(Stdio::null()).spawn().expect("it starts");
    // Each acknowledgement is a line of at least two bytes; most of the moments lie inside the import, some before its first batch.
    let acks_bytes = random.below((lines.len() / batch) as u64 * 3);
    let was_running = kill_after(import, &acks, acks_bytes);

    let acknowledged: usize =
        fs::read_to_string(&acks).unwrap_or_default().lines().last().map_or(0, |n| n.parse().expect("a line number"));
    // An import that was killed before its first batch may have left no database yet.
    let export = tamarack(&["export", text(&db)]).output().expect("the program runs");
    assert!(
        export.status.success() || acknowledged == 0 && export.status.code() == Some(2),
        "{name}: {}",
        String::from_utf8_lossy(&export.stderr)
    );
    let stored = String::from_utf8(export.stdout).expect("the program writes text");
    let count = stored.lines().count();
    assert!(count >= acknowledged, "{name}: {acknowledged} lines were acknowledged, {count} are there");
    let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
    expected.extend(lines[..count].iter().map(|line| line.split_once('\t').expect("a record")));
    let expected: String = expected.iter().map(|(key, value)| format!("{key}\t{value}")).collect();
    assert!(stored == expected, "{name}: the {count} records that are there are not the first {count} lines");
    assert!(
        count == lines.len() || count.is_multiple_of(batch),
        "{name}: {count} lines are there, which is part of a batch"
    );
    for path in [&db, &acks] {
        if path.is_dir() {
            fs::remove_dir_all(path).expect("nobody holds it");
        } else if path.exists() {
            fs::remove_file(path).expect("nobody holds it");
        }
    }
    was_running
}

/// Kills `import` once its acks file holds that many bytes. True if it had not ended by itself before.
fn kill_after(mut import: Child, acks: &Path, acks_bytes: u64) -> bool {
    loop {
        let ended = import.try_wait().expect("it can be asked").is_some();
        if ended || fs::metadata(acks).is_ok_and(|about| about.len() >= acks_bytes) {
            import.kill().expect("it can be killed, even if it has ended");
            let status = import.wait().expect("it ends");
            return !status.success();
        }
    }
}

/// Records with distinct keys in random order.
fn random_lines(random: &mut Random, count: usize) -> Vec<String> {
    // An odd multiplier permutes the numbers below 2^32.
    let offset = random.below(1 << 32) as u32;
    (0..count as u32)
        .map(|i| {
            format!(
                "{:08x}\t{}\n",
                i.wrapping_add(offset).wrapping_mul(0x9e37_79b1),
                "v".repeat(random.below(100) as usize)
            )
        })
        .collect()
}

/// A small generator (splitmix64).
struct Random(u64);

impl Random {
    fn from_environment() -> Self {
        let seed = std::env::var("TAMARACK_SEED").map_or(0x5eed, |text| {
            let digits = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
            digits.unwrap_or_else(|| text.parse()).expect("TAMARACK_SEED is a number")
        });
        println!("TAMARACK_SEED={seed:#x}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
