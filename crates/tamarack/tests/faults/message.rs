//! Whether an error tells its reader what was done, to which file, and what to do now.

use std::path::{Path, PathBuf};

use tamarack::Error;

/// The file or directory that an error is about.
pub(crate) fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Io { path, .. } | Error::Corruption { path, .. } | Error::Unsupported { path, .. } => Some(path),
        Error::Stopped { cause } => path_of(cause),
        _ => None,
    }
}

/// What is wrong with an error that a failing call led to; `struck` is the path of that call, if
/// there was only one.
pub(crate) fn complaint(error: &Error, struck: Option<&PathBuf>) -> Option<String> {
    let text = error.to_string();
    let Some(path) = path_of(error) else { return Some(format!("an error that names no file: {text}")) };
    if !text.contains(&path.display().to_string()) {
        return Some(format!("the text does not name {}: {text}", path.display()));
    }
    if let Some(struck) = struck.filter(|struck| *struck != path) {
        return Some(format!("the call that failed was on {}: {text}", struck.display()));
    }
    if !advises(error, &text) {
        return Some(format!("the text does not say what to do: {text}"));
    }
    None
}

fn advises(error: &Error, text: &str) -> bool {
    match error {
        Error::Stopped { cause } => match &**cause {
            Error::Io { operation, source, .. } => {
                text.contains(operation) && text.contains(mending(source)) && text.contains("then reopen the database")
            }
            _ => false,
        },
        Error::Io { operation, source, .. } => {
            text.contains(operation) && text.contains(mending(source)) && text.contains("then try again")
        }
        _ => text.contains("`Options::verify`"),
    }
}

fn mending(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::StorageFull => "free some space",
        _ => "check the device",
    }
}
