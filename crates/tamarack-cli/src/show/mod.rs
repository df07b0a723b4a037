//! Output of results: aligned tables, JSON, and progress bars.
//!
//! Results go to standard output and nothing else does; notes, errors and progress go to standard
//! error.

pub(crate) mod json;
pub(crate) mod lookups;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod workloads;

use std::io::Write;

use serde_json::{Map, Value};

use crate::outcome::Failure;

/// Destination of results and notes, and their form.
pub(crate) struct Output<'a> {
    results: &'a mut dyn Write,
    notes: &'a mut dyn Write,
    json: bool,
}

impl<'a> Output<'a> {
    /// An output with results on one stream, as JSON if `json`, and notes on another. The caller
    /// flushes both.
    pub(crate) fn new(results: &'a mut dyn Write, notes: &'a mut dyn Write, json: bool) -> Self {
        Self { results, notes, json }
    }

    /// True if results are to be JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Writes `bytes` as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.results.write_all(bytes).map_err(Failure::output)
    }

    /// Writes one line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.results, "{text}").map_err(Failure::output)
    }

    /// Prints a note that is not a result. A failure to print it does not end the run.
    pub(crate) fn note(&mut self, text: &str) {
        drop(writeln!(self.notes, "tamarack: {text}"));
    }

    /// Writes a result in the chosen form: `text`, if any, or the JSON `object`.
    pub(crate) fn result(&mut self, text: Option<&str>, object: Map<String, Value>) -> Result<(), Failure> {
        if self.json {
            return self.line(&Value::Object(object).to_string());
        }
        text.map_or(Ok(()), |text| self.line(text))
    }
}
