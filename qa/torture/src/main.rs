//! `torture`: black-box torture of the engine through its public interface, and of the program.
//!
//! ```text
//! torture COMMAND [--seconds N] [--seed S] [--count N] [--size N]
//!                 [--dir DIR] [--cli PATH] [--json]
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `kill`, `linear`, `full`, `damage`, `cli`, `copy`, `power`, `soak` | the commands |
//! | `child`, `told` | the process that is killed, and what it told |
//! | `writers`, `stream`, `prefix` | what is written, by a seed; prefixes of it |
//! | `design`, `disturb`, `faults` | random options; calls that change no content, or fail |
//! | `mount` | file systems of our own |
//! | `run`, `args`, `clock` | rounds, counts and verdict; the command line; time |

mod args;
mod child;
mod cli;
mod clock;
mod copy;
mod damage;
mod design;
mod disturb;
mod faults;
mod full;
mod kill;
mod linear;
mod mount;
mod power;
mod prefix;
mod run;
mod soak;
mod stream;
mod told;
mod writers;

use std::process::ExitCode;

use args::Args;
use run::Run;

const USAGE: &str = "\
Usage: torture COMMAND [OPTIONS]

Commands:
  kill       processes killed at random moments lose nothing that they acknowledged
  cli        odd command lines end in time, with a message
  copy       checkpoints are right; copies of an open database invent nothing
  damage     damaged files give errors or right answers
  full       a full disk refuses puts, takes deletes, and recovers by itself
  linear     what eight threads get is what one could have got
  power      what was synced outlives a file system that loses its power (as root)
  soak       one database for long, on a disk four fifths full; nothing grows
  fdatasync  the same without an engine, counted (as root)

Options:
  --seconds N  no new round begins after so many seconds [default: 60]
  --seed S     seed of the first round [default: 1]
  --count N    exactly so many rounds instead
  --size N     see README.md; depends on the command
  --dir DIR    where to work [default: the temporary directory]
  --cli PATH   the program to torture, for cli
  --json       print counts and verdict as one JSON object

Status: 0 passed; 1 failed (the directory is kept); 2 wrong arguments; 77 this machine
cannot do it.";

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match args.command.as_str() {
        "child" => return child::run(&args),
        "control" => return power::control::child(&args),
        _ => {}
    }
    type Command = fn(Run) -> ExitCode;
    let commands: &[(&str, Command)] = &[
        ("cli", cli::run),
        ("copy", copy::run),
        ("damage", damage::run),
        ("full", full::run),
        ("kill", kill::run),
        ("linear", linear::run),
        ("power", power::run),
        ("soak", soak::run),
        ("fdatasync", power::control::run),
    ];
    let Some((_, command)) = commands.iter().find(|(name, _)| *name == args.command) else {
        eprintln!("{USAGE}");
        return ExitCode::from(if args.command == "help" || args.command == "--help" { 0 } else { 2 });
    };
    match Run::begin(args) {
        Ok(run) => command(run),
        Err(error) => {
            eprintln!("no directory to work in: {error}");
            ExitCode::from(2)
        }
    }
}
