//! What programs do that write a report: they measure, or take figures that were kept, write the
//! report with its plots beside it, and end with a status.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use common::words::Words;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns the results that `--from` names, or measures; `measure` saves what it has so far with
/// the function that it gets. Writes the figures (`--json`) and the report (`--report`), and prints
/// it. `show` returns the report of results; it writes the plots into a directory, with names that
/// begin with a stem. `what` is part of the report's default name.
pub fn report<R: Serialize + DeserializeOwned>(
    words: &Words,
    what: &str,
    measure: impl FnOnce(&dyn Fn(&R) -> io::Result<()>) -> io::Result<R>,
    show: impl Fn(&R, &Path, &str) -> io::Result<String>,
) -> io::Result<R> {
    let path = words.report(what);
    let json = words.text("json").map_or_else(|| path.with_extension("json"), Into::into);
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let dir = path.parent().unwrap_or_else(|| Path::new(""));
    let write = |results: &R| {
        let text = show(results, dir, &stem)?;
        fs::write(&path, &text).map(|()| text)
    };
    let results: R = if let Some(from) = words.text("from") {
        serde_json::from_str(&fs::read_to_string(from)?)?
    } else {
        measure(&|results| {
            fs::write(&json, serde_json::to_string(results)?)?;
            write(results).map(drop)
        })?
    };
    print!("{}", write(&results)?);
    eprintln!("written to {}", path.display());
    Ok(results)
}

/// The status that a program ends with; true if all went well.
pub fn status(program: &str, outcome: io::Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
