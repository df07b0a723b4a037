//! How a run ends: the exit statuses and what is said with them.

use std::io;

/// A run that did what it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Status 0.
    Done,
    /// Status 1: the key is not there, or a check found damage.
    NotFound,
}

/// A run that could not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Status 2: the arguments or the input are wrong. What to change is in the message.
    Usage(String),
    /// Status 3: storage refused. What to do is in the message.
    Storage(String),
    /// Status 0: whoever read the output has seen enough.
    OutputClosed,
}

impl Failure {
    /// Writing to standard output failed.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Storage(format!("standard output: {error}; what was printed is not all there is")),
        }
    }
}

impl From<tamarack::Error> for Failure {
    fn from(error: tamarack::Error) -> Self {
        match error {
            tamarack::Error::InvalidArgument(_) => Self::Usage(error.to_string()),
            _ => Self::Storage(error.to_string()),
        }
    }
}
