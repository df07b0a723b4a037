//! What the README and the guide say that the program prints, it prints.
//!
//! A block marked `sh run` is a command, and the `text` block after it, if one follows at once, its
//! standard output. A line `…` there stands for any lines. Times differ from run to run, so seconds
//! are not compared; nor is anything of a block marked `text varies`, which depends on when
//! compactions end.

use std::fs;
use std::path::Path;
use std::process::Command;

use tamarack_testing::TestDir;

use crate::program::text;

/// The documents, in the order in which a reader runs their commands.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/GUIDE.md"];

/// What makes the README's first command one for somebody who has just cloned the project.
const BUILD: &str = "cargo build --release --quiet && PATH=\"$PWD/target/release:$PATH\" &&\n";

/// A command, and what is said to be its output.
#[derive(Debug, Eq, PartialEq)]
struct Run {
    command: String,
    output: Option<String>,
}

#[test]
fn documented_commands_print_what_is_documented() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it was built there");
    let dir = TestDir::new("documented");
    fs::create_dir(dir.path().join("target")).expect("the directory is writable");
    std::os::unix::fs::symlink(repository.join("examples"), dir.path().join("examples")).expect("it is writable");
    let program = Path::new(env!("CARGO_BIN_EXE_tamarack")).parent().expect("it is in a directory");
    let path = std::env::var("PATH").expect("there is a path");
    let mut wrong = Vec::new();
    for document in DOCUMENTS {
        let content = fs::read_to_string(repository.join(document)).expect("the document is there");
        let runs = runs(&content);
        assert!(!runs.is_empty(), "{document} has no command");
        for Run { command, output } in runs {
            let ran = Command::new("bash")
                .args(["-euo", "pipefail", "-c", &command.replace(BUILD, "")])
                .current_dir(dir.path())
                .env("PATH", format!("{}:{path}", text(program)))
                .output()
                .expect("there is a shell");
            assert!(ran.status.success(), "{document}: {command}{}", String::from_utf8_lossy(&ran.stderr));
            let printed = String::from_utf8(ran.stdout).expect("it prints text");
            if output.is_some_and(|expected| !agrees(&lines(&expected), &lines(&printed))) {
                wrong.push(format!("{document} has another output of\n\n{command}\nwhich prints\n\n{printed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The commands of a document.
fn runs(document: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    for (at, _) in document.match_indices("```sh run\n") {
        let block = &document[at + "```sh run\n".len()..];
        let (command, after) = block.split_once("```\n").expect("the block ends");
        let output = after.strip_prefix("\n```text\n").and_then(|text| text.split_once("```"));
        runs.push(Run { command: command.to_owned(), output: output.map(|(output, _)| output.to_owned()) });
    }
    runs
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// Whether these lines were printed, where `…` may be any.
fn agrees(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"…", after)) => (0..=printed.len()).any(|skipped| agrees(after, &printed[skipped..])),
        Some((line, after)) => printed
            .split_first()
            .is_some_and(|(first, rest)| without_seconds(line) == without_seconds(first) && agrees(after, rest)),
    }
}

/// A line's words without the numbers before the unit.
fn without_seconds(line: &str) -> Vec<&str> {
    let words: Vec<_> = line.split(' ').collect();
    let is_time = |at: usize| words.get(at + 1) == Some(&"s");
    (0..words.len()).filter(|at| !is_time(*at)).map(|at| words[at]).collect()
}

#[test]
fn commands_are_found_and_compared() {
    let document =
        "a\n\n```sh run\nx &&\ny\n```\n\n```text\n1\n…\n2\n```\n\n```sh run\nz\n```\nno output\n\n```text\n3\n```\n";
    let x = Run { command: "x &&\ny\n".to_owned(), output: Some("1\n…\n2\n".to_owned()) };
    assert_eq!(runs(document), [x, Run { command: "z\n".to_owned(), output: None }]);

    for printed in [&["1", "2"][..], &["1", "", "3", "2"], &["1", "2", "9", "2"]] {
        assert!(agrees(&["1", "…", "2"], printed), "{printed:?}");
    }
    for printed in [&["2"][..], &["1"], &["0", "1", "2"], &["1", "22"], &["1", "2", "3"]] {
        assert!(!agrees(&["1", "…", "2"], printed), "{printed:?}");
    }
    assert!(agrees(&["7 in 0.03 s"], &["7 in 12.5 s"]) && !agrees(&["7 in 0.03 s"], &["8 in 0.03 s"]));
}
