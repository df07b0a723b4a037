//! Builds the test programs of the mutated copy, and drops the mutants that do not compile.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A program of tests.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    /// Where cargo would run it.
    pub(crate) directory: PathBuf,
    /// Arguments that choose tests.
    pub(crate) filters: Vec<String>,
}

/// What came of a build.
#[derive(Debug)]
pub(crate) enum Built {
    Programs(Vec<Program>),
    Errors(Vec<CompileError>),
}

/// An error of the compiler.
#[derive(Debug)]
pub(crate) struct CompileError {
    /// As the compiler shows it.
    pub(crate) text: String,
    /// File, and bytes of it: first where the error is, then what it refers to.
    pub(crate) places: Vec<(String, Range<usize>)>,
}

/// Builds the tests that these arguments of `cargo test` name, in `tree`.
pub(crate) fn build(tree: &Path, target: &Path, tests: &[String]) -> Result<Built, String> {
    let mut programs = BTreeSet::new();
    for line in tests {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (cargo, filters) = match words.iter().position(|word| *word == "--") {
            Some(at) => (&words[..at], &words[at + 1..]),
            None => (&words[..], &[][..]),
        };
        let mut command = Command::new("cargo");
        command.args(["test", "--no-run", "--message-format=json"]).args(cargo).current_dir(tree);
        command.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        // The rewritten code need not be pretty, and a lint must not reject a mutant.
        command.env("RUSTFLAGS", "--cap-lints=allow");
        let output = command.stderr(Stdio::piped()).output().map_err(|error| format!("cargo: {error}"))?;
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !output.status.success() {
            let errors: Vec<CompileError> = messages.iter().filter_map(error).collect();
            if errors.is_empty() {
                return Err(format!("cargo test {line}\n{}", String::from_utf8_lossy(&output.stderr)));
            }
            return Ok(Built::Errors(errors));
        }
        let filters: Vec<String> = filters.iter().map(|&word| word.to_owned()).collect();
        programs.extend(messages.iter().filter_map(|message| program(message, &filters)));
    }
    Ok(Built::Programs(programs.into_iter().collect()))
}

fn program(message: &Value, filters: &[String]) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let executable = message["executable"].as_str()?.into();
    Some(Program { executable, directory: manifest.parent()?.to_owned(), filters: filters.to_vec() })
}

fn error(message: &Value) -> Option<CompileError> {
    let message = &message["message"];
    if message["level"] != "error" {
        return None;
    }
    let spans = |primary: bool| {
        let spans = message["spans"].as_array().into_iter().flatten();
        spans.filter(move |span| span["is_primary"] == primary).filter_map(place)
    };
    let places: Vec<_> = spans(true).chain(spans(false)).collect();
    // "aborting due to 3 previous errors" has no place.
    (!places.is_empty()).then(|| CompileError { text: message["rendered"].as_str().unwrap_or("").to_owned(), places })
}

/// The place of a span; of one in a macro, where the macro is called.
fn place(span: &Value) -> Option<(String, Range<usize>)> {
    if let Some(call) = span["expansion"]["span"].as_object() {
        return place(&Value::Object(call.clone()));
    }
    let byte = |name: &str| Some(span[name].as_u64()? as usize);
    Some((span["file_name"].as_str()?.to_owned(), byte("byte_start")?..byte("byte_end")?))
}

#[test]
fn errors_name_their_places_and_artifacts_their_programs() {
    let span = |file: &str, start: u64, primary: bool| serde_json::json!({ "file_name": file, "byte_start": start, "byte_end": start + 2, "is_primary": primary });
    let mut inside = span("core.rs", 900, true);
    inside["expansion"] = serde_json::json!({ "span": span("a.rs", 7, false) });
    let spans = [span("b.rs", 1, false), span("a.rs", 5, true), inside];
    let message = serde_json::json!({ "message": { "level": "error", "rendered": "error: no", "spans": spans } });
    let found = error(&message).expect("an error");
    assert_eq!(found.text, "error: no");
    assert_eq!(found.places, [("a.rs".into(), 5..7), ("a.rs".into(), 7..9), ("b.rs".to_owned(), 1..3)]);
    assert!(error(&serde_json::json!({ "message": { "level": "warning", "spans": spans } })).is_none());
    assert!(error(&serde_json::json!({ "message": { "level": "error", "spans": [] } })).is_none());

    let mut artifact = serde_json::json!({ "reason": "compiler-artifact", "profile": { "test": true },
        "manifest_path": "/t/crates/a/Cargo.toml", "executable": "/x/a-1" });
    let found = program(&artifact, &["only".into()]).expect("a program");
    assert_eq!((found.executable, found.directory), (PathBuf::from("/x/a-1"), PathBuf::from("/t/crates/a")));
    artifact["profile"]["test"] = false.into();
    assert!(program(&artifact, &[]).is_none(), "the library as such");
}
