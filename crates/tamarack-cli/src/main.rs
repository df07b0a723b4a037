//! The program `tamarack`: parses the command line, runs a command, and returns an exit status.
//!
//! ```text
//! arguments ── commands::command_line ──► matches ── Subcommand::run ──► results on stdout
//!                                                            Outcome or Failure ──► status
//! ```
//!
//! Each command has a file in [`commands`]. [`text`] and [`records`] convert bytes to text,
//! [`show`] formats results, and [`database`] is the only place that opens databases.

mod commands;
mod database;
mod files;
mod outcome;
mod records;
mod show;
mod size;
mod subcommand;
#[cfg(test)]
mod testing;
mod text;
mod workloads;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use crate::outcome::{Failure, Outcome};
use crate::show::Output;

/// A large export makes few system calls with this.
const OUTPUT_BUFFER_BYTES: usize = 64 << 10;

fn main() -> ExitCode {
    let mut out = BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, io::stdout().lock());
    ExitCode::from(run(std::env::args_os(), &mut out, &mut io::stderr()))
}

/// Runs the program with the arguments `words`, the first being its own name, and returns its exit
/// status.
fn run(words: impl IntoIterator<Item = impl Into<OsString> + Clone>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let result = match commands::command_line().try_get_matches_from(words) {
        Ok(matches) => commands::run(&matches, &mut Output::new(out, err, commands::wants_json(&matches))),
        Err(refusal) if refusal.use_stderr() => {
            // There is no way to report a failure of standard error.
            drop(write!(err, "{}", refusal.render()));
            return 2;
        }
        Err(help) => write!(out, "{}", help.render()).map(|()| Outcome::Done).map_err(Failure::output),
    };
    let flushed = out.flush().map_err(Failure::output);
    match result.and_then(|outcome| flushed.map(|()| outcome)) {
        Ok(Outcome::Done) | Err(Failure::OutputClosed) => 0,
        Ok(Outcome::NotFound) => 1,
        Err(Failure::Usage(message)) => complain(err, &message, 2),
        Err(Failure::Storage(message)) => complain(err, &message, 3),
    }
}

fn complain(err: &mut dyn Write, message: &str, status: u8) -> u8 {
    drop(writeln!(err, "tamarack: {message}"));
    status
}
