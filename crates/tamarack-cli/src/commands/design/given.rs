//! [`Given`]: the arguments of `tamarack design`, from the command line and from the file that
//! `--file` names. Those of the command line win.
//!
//! The file has lines `name = value`, with the names of the options; `#` begins a comment. Each
//! line goes through the parser of the command line, so a value means the same in both places.

use std::any::Any;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use super::arguments::{COMPARE, FILE, arguments};
use crate::files;
use crate::outcome::Failure;

/// Arguments from both places.
pub(super) struct Given<'a> {
    line: &'a ArgMatches,
    file: Option<ArgMatches>,
}

impl<'a> Given<'a> {
    /// The arguments of this command line, and of its file if it names one.
    pub(super) fn of(line: &'a ArgMatches) -> Result<Self, Failure> {
        let file = line.get_one::<String>(FILE).map(|name| read(name)).transpose()?;
        Ok(Self { line, file })
    }

    /// The value of an argument, or its default.
    pub(super) fn get<T: Any + Clone + Send + Sync>(&self, name: &str) -> Option<&T> {
        self.place(name).get_one(name)
    }

    /// The value of an argument with a default.
    pub(super) fn value<T: Any + Copy + Send + Sync>(&self, name: &str) -> T {
        *self.get(name).expect("it has a default")
    }

    /// The text of an argument with a default.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get::<String>(name).expect("it has a default")
    }

    /// True if a switch was given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.place(name).get_flag(name)
    }

    /// True if an argument was given in either place.
    pub(super) fn is_given(&self, name: &str) -> bool {
        is_given(self.place(name), name)
    }

    /// The values of an argument that may be repeated, those of each time together.
    pub(super) fn each(&self, name: &str) -> Vec<Vec<&str>> {
        let times = self.place(name).get_occurrences::<String>(name);
        times.into_iter().flatten().map(|values| values.map(String::as_str).collect()).collect()
    }

    /// Where an argument was given; the command line if nowhere, which has the defaults.
    fn place(&self, name: &str) -> &ArgMatches {
        let file = self.file.as_ref().filter(|file| !is_given(self.line, name) && is_given(file, name));
        file.unwrap_or(self.line)
    }
}

fn is_given(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(name) == Some(ValueSource::CommandLine)
}

/// The arguments in a file.
fn read(file: &str) -> Result<ArgMatches, Failure> {
    let text = files::read_text(Path::new(file))?;
    let mut lines: Vec<(usize, &str)> = Vec::new();
    // With it, nothing is required: the command line may have the rest.
    let mut words = vec![format!("--{FILE}={file}")];
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: String| Failure::Usage(format!("{file}:{number}: {what}"));
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| wrong(format!("`{line}` has no `=`; write `name = value`, as in `entries = 1000000`")))?;
        let (name, value) = (name.trim_end(), value.trim_start());
        let before = lines.iter().find(|(_, other)| *other == name && name != COMPARE);
        if let Some((before, _)) = before {
            return Err(wrong(format!("`{name}` is given in line {before} already; remove one of the two lines")));
        }
        lines.push((number, name));
        let of_line = words_of(name, value).map_err(wrong)?;
        let checked = [&words[..1], &of_line].concat();
        parser().try_get_matches_from(checked).map_err(|error| wrong(explained(name, &error)))?;
        words.extend(of_line);
    }
    // Each line was accepted alone; lines may exclude each other.
    parser().try_get_matches_from(words).map_err(|error| Failure::Usage(format!("{file}: {}", in_one_line(&error))))
}

/// The arguments that mean the same as a line of the file.
fn words_of(name: &str, value: &str) -> Result<Vec<String>, String> {
    let arguments = arguments();
    let known = || arguments.iter().filter(|argument| argument.get_id() != FILE);
    let Some(argument) = known().find(|argument| argument.get_id() == name) else {
        let names: Vec<&str> = known().map(|argument| argument.get_id().as_str()).collect();
        return Err(format!("there is no option `{name}`; the names are {}", names.join(", ")));
    };
    let option = format!("--{name}");
    match argument.get_action() {
        ArgAction::SetTrue => match value {
            "true" => Ok(vec![option]),
            "false" => Ok(Vec::new()),
            _ => Err(format!("write `{name} = true` or `{name} = false`")),
        },
        ArgAction::Append => {
            if let Some(word) = value.split_whitespace().find(|word| word.starts_with('-')) {
                return Err(format!("`{word}` is no value of `{name}`; options have lines of their own"));
            }
            let values = value.split_whitespace().map(str::to_owned);
            Ok(std::iter::once(option).chain(values).collect())
        }
        // With an optional value, none means the same as on the command line.
        _ if value.is_empty() && argument.get_num_args().is_some_and(|values| values.min_values() == 0) => {
            Ok(vec![option])
        }
        _ => Ok(vec![format!("{option}={value}")]),
    }
}

/// The parser of arguments alone.
fn parser() -> Command {
    Command::new("design").no_binary_name(true).disable_help_flag(true).args(arguments())
}

/// What is wrong with a line, from the parser's message.
fn explained(name: &str, error: &clap::Error) -> String {
    format!("{}; `tamarack design --help` describes --{name}", in_one_line(error))
}

/// The parser's message without its advice.
fn in_one_line(error: &clap::Error) -> String {
    let message = error.to_string();
    let first = message.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let words: Vec<&str> = first.split_whitespace().collect();
    words.join(" ")
}
