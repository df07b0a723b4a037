//! `tamarack checkpoint`: makes a database of its own that shares the tables' files.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::table::plural;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "checkpoint",
    summary: "Make a database of its own that shares the tables' files",
    help: "\
Makes in DIR, which must be empty or not there yet, a database as DB is now. What
DB has in its log is written to tables first. The tables' files get a second name
(a hard link) in DIR, so that this takes hardly any time and space; the space of a
file is free again when both databases have done with it. Where DIR is in another
file system, or in one without links, the files are copied, and the output says so.

Both databases are used like any other from then on. Files must not be carried
from one to the other. A DIR without a file named CURRENT is what an attempt left
that was cut short: remove it.

A program that has DB open makes a checkpoint with Db::checkpoint, while it goes on.",
    examples: "\
tamarack checkpoint prices.db prices-of-monday.db
tamarack checkpoint prices.db /mnt/backup/prices.db --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let dir = Arg::new("dir").value_name("DIR").help("The directory to make it in").required(true);
    vec![database::path_argument(), dir.value_parser(value_parser!(PathBuf))]
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let dir: &PathBuf = matches.get_one("dir").expect("it is required");
    let db = database::open_as_it_is(matches, output)?;
    let report = db.checkpoint(dir)?;
    db.close()?;
    let mut text = format!(
        "{} ({}) shared, {} ({}) copied",
        plural(report.tables_shared, "table"),
        show_bytes(report.bytes_shared),
        plural(report.tables_copied, "table"),
        show_bytes(report.bytes_copied)
    );
    if let Some(why) = &report.why_copied {
        text += &format!(", because links cannot be made there: {why}");
    }
    let members = json::object([
        ("sequence", report.sequence.into()),
        ("tables_shared", report.tables_shared.into()),
        ("bytes_shared", report.bytes_shared.into()),
        ("tables_copied", report.tables_copied.into()),
        ("bytes_copied", report.bytes_copied.into()),
        ("why_copied", report.why_copied.into()),
    ]);
    output.result(Some(&text), members)?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// It holds what the database holds, says what it cost, and does not follow what comes later.
    #[test]
    fn a_checkpoint_is_a_database() {
        let dir = TestDir::new("a_checkpoint_is_a_database");
        let (db, monday, tuesday) = (dir.join("db"), dir.join("monday"), dir.join("tuesday"));
        run_ok(&["put", &db, "oak", "brown"]);
        let said = run_ok(&["checkpoint", &db, &monday]);
        assert!(said.starts_with("1 table (") && said.contains("shared, 0 tables (0 B) copied"), "{said}");
        run_ok(&["put", &db, "oak", "red"]);
        let said = run_ok(&["checkpoint", &db, &tuesday, "--json"]);
        assert!(said.contains("\"tables_copied\":0") && said.contains("\"sequence\":2"), "{said}");
        for (db, color) in [(&db, "red\n"), (&monday, "brown\n"), (&tuesday, "red\n")] {
            assert_eq!(run_ok(&["get", db, "oak"]), color);
            run_ok(&["verify", db]);
        }
    }

    /// A directory that is in use is refused, with what to do.
    #[test]
    fn a_directory_in_use_is_refused() {
        let dir = TestDir::new("a_directory_in_use_is_refused");
        let db = dir.join("db");
        run_ok(&["put", &db, "oak", "brown"]);
        let ran = run(&["checkpoint", &db, &db]);
        assert_eq!(ran.status, 2, "{ran:?}");
        assert!(ran.err.contains("empty"), "{ran:?}");
        assert_eq!(run(&["checkpoint", &dir.join("none"), &dir.join("new")]).status, 2);
    }
}
