//! The verbs: one file each, and the one list of all.
//!
//! To add a verb, write its file with a constant [`Verb`] and add one line to [`VERBS`]. Help, parsing and the rules that all verbs keep (a `--json`,
//! examples in the help) follow from that.

mod bench;
mod compact;
mod delete;
mod export;
mod get;
mod import;
mod inspect;
mod put;
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
    verify::VERB,
    inspect::VERB,
    bench::VERB,
];

const ABOUT: &str = "An embedded, durable, ordered key-value store, from the command line";

const AFTER: &str = "\
Each verb explains itself: tamarack VERB --help

Exit status: 0 done; 1 the key is not there, or a check found damage; 2 the
arguments or the input are wrong; 3 storage refused. Results go to standard
output; errors, with what to do about them, to standard error.";

/// The whole command line, to be parsed.
pub(crate) fn command() -> Command {
    Command::new("tamarack")
        .about(ABOUT)
        .after_help(AFTER)
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
    use crate::testing::{TestDir, run};

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

    /// Wrong words end with status 2 and say so on standard error; help and version end with 0.
    #[test]
    fn wrong_usage_is_status_2() {
        for words in [
            &["frobnicate"][..],
            &["get"],
            &["get", "db"],
            &["import", "db", "--batch", "0"],
            &["scan", "db", "--limit", "x"],
        ] {
            let ran = run(words);
            assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}");
            assert!(!ran.err.is_empty(), "{words:?}");
        }
        assert_eq!(run(&["--version"]).status, 0);
    }

    /// A database that is not there is never made by a verb that reads.
    #[test]
    fn reading_makes_no_database() {
        let dir = TestDir::new("reading_makes_no_database");
        let db = dir.join("none");
        for words in [
            &["get", &db, "k"][..],
            &["scan", &db],
            &["export", &db],
            &["stats", &db],
            &["verify", &db],
            &["inspect", &db],
            &["delete", &db, "k"],
        ] {
            let ran = run(words);
            assert_eq!(ran.status, 2, "{words:?}: {}", ran.err);
            assert!(ran.err.contains("none"), "{words:?}: {}", ran.err);
            assert!(!std::path::Path::new(&db).exists(), "{words:?}");
        }
    }
}
