//! Exit statuses of a run, and the messages that go with them.

use std::io;

/// A run without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Status 0.
    Done,
    /// Status 1: the key does not exist, or a check found damage.
    NotFound,
}

/// A run that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Status 2: wrong arguments or input. The message says what to change.
    Usage(String),
    /// Status 3: a storage error. The message says what to do.
    Storage(String),
    /// Status 0: the reader of standard output has closed it.
    OutputClosed,
}

impl Failure {
    /// A failed write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Storage(format!("standard output: {error}; the output is incomplete")),
        }
    }
}

impl From<tamarack::Error> for Failure {
    fn from(error: tamarack::Error) -> Self {
        match error {
            tamarack::Error::InvalidArgument(_) | tamarack::Error::NotFound { .. } => Self::Usage(error.to_string()),
            _ => Self::Storage(text(&error)),
        }
    }
}

/// The text of a storage error, with advice in terms of this program's commands instead of the
/// library's functions.
fn text(error: &tamarack::Error) -> String {
    match error {
        tamarack::Error::Corruption { path, offset, what } => {
            let path = path.display();
            format!("{path}: damaged at byte {offset}: {what}; `tamarack verify` lists all damage")
        }
        tamarack::Error::OldFormat { path, version } => {
            format!(
                "{}: format version {version}, older than this program reads; nothing was changed. Use `tamarack export` of \
                 the program that wrote the database, then `tamarack import` of this one into a new database",
                path.display()
            )
        }
        _ => error.to_string(),
    }
}
