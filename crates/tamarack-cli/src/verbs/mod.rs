//! The verbs: one file each, and the one list of all.
//!
//! To add a verb, write its file with a constant [`Verb`] and add one line to [`VERBS`]. Help, parsing and the rules that all verbs keep (a `--json`,
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
use crate::verb::Verb;

/// All verbs, in the order in which the help lists them.
const VERBS: &[Verb] = &[
    import::VERB,
    export::VERB,
    put::VERB,
    get::VERB,
    delete::VERB,
    scan::VERB,
    stats::VERB,
    compact::VERB,
    reshape::VERB,
    checkpoint::VERB,
    verify::VERB,
    repair::VERB,
    inspect::VERB,
    bench::VERB,
    design::VERB,
];

const ABOUT: &str = "An embedded, durable, ordered key-value store, from the command line";

const POINTERS: &str = "\
Each verb explains itself: tamarack VERB --help

get, scan, export, stats and verify change nothing, and may look at a database
at the same time; verbs that write must have it for themselves.
All of it on one page: docs/MANUAL.md";

const STATUSES: &str = "\
Exit status: 0 done; 1 the key is not there, or a check found damage; 2 the
arguments or the input are wrong; 3 storage refused. Results go to standard
output; errors, with what to do about them, to standard error.";

/// The whole command line, to be parsed.
pub(crate) fn command() -> Command {
    Command::new("tamarack")
        .about(ABOUT)
        .after_help(format!("{POINTERS}\n\n{STATUSES}"))
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("VERB")
        .subcommand_help_heading("Verbs")
        .disable_help_subcommand(true)
        .subcommands(VERBS.iter().map(subcommand))
}

/// True if the verb's results are wanted as JSON.
pub(crate) fn wants_json(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(_, matches)| matches.get_flag("json"))
}

/// Runs the verb that was parsed.
pub(crate) fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let (name, matches) = matches.subcommand().expect("the parser requires a verb");
    let verb = VERBS.iter().find(|verb| verb.name == name).expect("the parser knows only verbs of the list");
    (verb.run)(matches, output)
}

fn subcommand(verb: &Verb) -> Command {
    Command::new(verb.name)
        .about(verb.summary)
        // Not clap's "long about", which would spread the options over two screens.
        .after_help(format!("{}\n\nExamples:\n{}", verb.help, indented(verb.examples)))
        .args((verb.arguments)())
        .arg(Arg::new("json").long("json").help("Print results as JSON").action(ArgAction::SetTrue))
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    /// The parser accepts the list, and every verb explains itself with an example that parses.
    #[test]
    fn every_verb_explains_itself() {
        command().debug_assert();
        for verb in VERBS {
            let ran = run(&[verb.name, "--help"]);
            assert_eq!(ran.status, 0, "{}", verb.name);
            assert!(ran.out.contains("--json"), "{}", verb.name);
            let example = format!("tamarack {} ", verb.name);
            assert!(verb.examples.lines().count() >= 2, "the help of {} shows too few examples", verb.name);
            for line in verb.examples.lines() {
                assert!(line.starts_with(&example), "{line}");
                let words =
                    line.split(['|', '#', '<', '>']).next().expect("a split has a first part").split_whitespace();
                command()
                    .try_get_matches_from(words.map(|word| word.trim_matches('\'')))
                    .unwrap_or_else(|e| panic!("{line}: {e}"));
            }
        }
    }
}
