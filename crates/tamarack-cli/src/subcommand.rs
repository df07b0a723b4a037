//! Description of one command, and arguments with escapes that several commands take.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, value_parser};

use crate::outcome::{Failure, Outcome};
use crate::show::Output;
use crate::text;

/// One command of the program.
pub(crate) struct Subcommand {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) summary: &'static str,
    /// The long help: what a user wants to know before running it.
    pub(crate) help: &'static str,
    /// Command lines to copy.
    pub(crate) examples: &'static str,
    /// Its arguments besides `--json`.
    pub(crate) arguments: fn() -> Vec<Arg>,
    /// Runs the command.
    pub(crate) run: fn(&ArgMatches, &mut Output<'_>) -> Result<Outcome, Failure>,
}

/// An argument with escapes.
pub(crate) fn text_argument(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).help(help).value_parser(value_parser!(OsString))
}

/// The unescaped bytes of argument `name`, if it was given.
pub(crate) fn text_value(matches: &ArgMatches, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = matches.get_one::<OsString>(name) else { return Ok(None) };
    let mut bytes = Vec::new();
    text::unescape(given.as_encoded_bytes(), &mut bytes).map_err(|what| Failure::Usage(format!("{name}: {what}")))?;
    Ok(Some(bytes))
}

/// As [`text_value`], for an argument that the parser requires.
pub(crate) fn required_text(matches: &ArgMatches, name: &str) -> Result<Vec<u8>, Failure> {
    Ok(text_value(matches, name)?.expect("the parser requires it"))
}
