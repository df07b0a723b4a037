//! Running the program.

use std::path::Path;
use std::process::Command;

/// The program with these arguments, ready to be started.
pub(crate) fn tamarack(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarack"));
    command.args(words);
    command
}

/// What a run of the program did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit status; `None` if a signal ended it.
    pub(crate) status: Option<i32>,
    /// What went to standard output.
    pub(crate) out: String,
    /// What went to standard error.
    pub(crate) err: String,
}

/// Runs the program to its end.
pub(crate) fn run(words: &[&str]) -> Ran {
    let output = tamarack(words).output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes text");
    Ran { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program to a successful end and returns its output.
pub(crate) fn output_of(words: &[&str]) -> String {
    let ran = run(words);
    assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.err);
    ran.out
}

/// As [`output_of`], for what prints one JSON object.
pub(crate) fn json_of(words: &[&str]) -> serde_json::Value {
    let out = output_of(&[words, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}"))
}

/// `path` as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}
