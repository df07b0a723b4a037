//! The commands of the program: one file each, and one list.
//!
//! To add a command, write its file with a constant [`Subcommand`] and add one line to
//! [`SUBCOMMANDS`]. Help, parsing and the rules for all commands (`--json`, examples in the help)
//! follow from that, and so does the manual: `TAMARACK_REWRITE=1 cargo test -p tamarack-cli manual`
//! rewrites it.

mod bench;
mod calibrate;
mod checkpoint;
mod compact;
mod delete;
mod design;
mod explain;
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

/// All commands, in the order of the help.
const SUBCOMMANDS: &[Subcommand] = &[
    import::SUBCOMMAND,
    export::SUBCOMMAND,
    put::SUBCOMMAND,
    get::SUBCOMMAND,
    delete::SUBCOMMAND,
    scan::SUBCOMMAND,
    stats::SUBCOMMAND,
    explain::SUBCOMMAND,
    compact::SUBCOMMAND,
    reshape::SUBCOMMAND,
    checkpoint::SUBCOMMAND,
    verify::SUBCOMMAND,
    repair::SUBCOMMAND,
    inspect::SUBCOMMAND,
    bench::SUBCOMMAND,
    calibrate::SUBCOMMAND,
    design::SUBCOMMAND,
];

const ABOUT: &str = "Command-line program of Tamarack, an embedded LSM-tree key-value store";

const POINTERS: &str = "\
`tamarack COMMAND --help` describes a command, its options and examples;
docs/MANUAL.md has all of them on one page.

get, scan, export, stats, explain, verify and reshape --dry-run open a database
read-only, in several processes at the same time if need be; inspect opens none, and calibrate and
design need none; all other commands need exclusive access.";

const STATUSES: &str = "\
Exit status: 0 success; 1 key not found, or damage found; 2 wrong arguments or input;
3 storage error. Results go to standard output; errors and notes, with advice, go to
standard error.";

/// The parser of the command line.
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

/// True if the results are to be printed as JSON.
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
        // Not clap's long help, which would spread the options over two screens.
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

    /// The parser accepts the list, and every command has help with examples that parse.
    #[test]
    fn every_command_explains_itself() {
        command_line().debug_assert();
        for command in SUBCOMMANDS {
            let ran = run(&[command.name, "--help"]);
            assert_eq!(ran.status, 0, "{}", command.name);
            assert!(ran.out.contains("--json"), "{}", command.name);
            let example = format!("tamarack {} ", command.name);
            assert!(command.examples.lines().count() >= 2, "the help of {} has too few examples", command.name);
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
