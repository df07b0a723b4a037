//! What a command is, and the arguments in text form that several commands take.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, value_parser};

use crate::outcome::{Failure, Outcome};
use crate::show::Output;
use crate::text;

/// One thing that the program can do.
pub(crate) struct Subcommand {
    /// The word that asks for it.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) summary: &'static str,
    /// How it does it: what a user wants to know before using it.
    pub(crate) help: &'static str,
    /// Commands to copy, each with a word of explanation.
    pub(crate) examples: &'static str,
    /// What it takes besides `--json`.
    pub(crate) arguments: fn() -> Vec<Arg>,
    /// Does it.
    pub(crate) run: fn(&ArgMatches, &mut Output<'_>) -> Result<Outcome, Failure>,
}

/// An argument that is given in text form.
pub(crate) fn text_argument(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).help(help).value_parser(value_parser!(OsString))
}

/// The bytes that the text in argument `name` stands for, if it was given.
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
