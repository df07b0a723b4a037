//! The commands: one file each, and the one list of all.
//!
//! To add a command, write its file with a constant [`Subcommand`] and add one line to [`SUBCOMMANDS`]. Help, parsing and the rules that all commands keep (a `--json`,
//! examples in the help) follow from that, and so does the manual: `TAMARACK_REWRITE=1 cargo test -p tamarack-cli manual` makes it again.

mod bench;
mod checkpoint;
mod compact;
mod delete;
mod design;
mod export;
mod get;
mod import;
mod inspect;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod messages;
mod put;
mod repair;
mod reshape;
mod scan;
mod stats;
mod verify;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::outcome::{Failure, Outcome};
use crate::show::Output;
use crate::subcommand::Subcommand;

/// All commands, in the order in which the help lists them.
const SUBCOMMANDS: &[Subcommand] = &[
    import::SUBCOMMAND,
    export::SUBCOMMAND,
    put::SUBCOMMAND,
    get::SUBCOMMAND,
    delete::SUBCOMMAND,
    scan::SUBCOMMAND,
    stats::SUBCOMMAND,
    compact::SUBCOMMAND,
    reshape::SUBCOMMAND,
    checkpoint::SUBCOMMAND,
    verify::SUBCOMMAND,
    repair::SUBCOMMAND,
    inspect::SUBCOMMAND,
    bench::SUBCOMMAND,
    design::SUBCOMMAND,
];

const ABOUT: &str = "An embedded, durable, ordered key-value store, from the command line";

const POINTERS: &str = "\
Each command explains itself: tamarack COMMAND --help

get, scan, export, stats and verify change nothing, and may look at a database
at the same time; commands that write must have it for themselves.
All of it on one page: docs/MANUAL.md";

const STATUSES: &str = "\
Exit status: 0 done; 1 the key is not there, or a check found damage; 2 the
arguments or the input are wrong; 3 storage refused. Results go to standard
output; errors, with what to do about them, to standard error.";

/// The whole command line, to be parsed.
pub(crate) fn command_line() -> Command {
    Command::new("tamarack")
        .about(ABOUT)
        .after_help(format!("{POINTERS}\n\n{STATUSES}"))
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("COMMAND")
        .subcommand_help_heading("Commands")
        .disable_help_subcommand(true)
        .subcommands(SUBCOMMANDS.iter().map(subcommand))
}

/// True if the command's results are wanted as JSON.
pub(crate) fn wants_json(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(_, matches)| matches.get_flag("json"))
}

/// Runs the command that was parsed.
pub(crate) fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let (name, matches) = matches.subcommand().expect("the parser requires a command");
    let command =
        SUBCOMMANDS.iter().find(|command| command.name == name).expect("the parser knows only commands of the list");
    (command.run)(matches, output)
}

fn subcommand(command: &Subcommand) -> Command {
    Command::new(command.name)
        .about(command.summary)
        // Not clap's "long about", which would spread the options over two screens.
        .after_help(format!("{}\n\nExamples:\n{}", command.help, indented(command.examples)))
        .args((command.arguments)())
        .arg(Arg::new("json").long("json").help("Print results as JSON").action(ArgAction::SetTrue))
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    /// The parser accepts the list, and every command explains itself with an example that parses.
    #[test]
    fn every_command_explains_itself() {
        command_line().debug_assert();
        for command in SUBCOMMANDS {
            let ran = run(&[command.name, "--help"]);
            assert_eq!(ran.status, 0, "{}", command.name);
            assert!(ran.out.contains("--json"), "{}", command.name);
            let example = format!("tamarack {} ", command.name);
            assert!(command.examples.lines().count() >= 2, "the help of {} shows too few examples", command.name);
            for line in command.examples.lines() {
                assert!(line.starts_with(&example), "{line}");
                let words =
                    line.split(['|', '#', '<', '>']).next().expect("a split has a first part").split_whitespace();
                command_line()
                    .try_get_matches_from(words.map(|word| word.trim_matches('\'')))
                    .unwrap_or_else(|e| panic!("{line}: {e}"));
            }
        }
    }
}
