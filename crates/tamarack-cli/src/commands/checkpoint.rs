//! `tamarack checkpoint`: creates a database that shares the SSTables of another one.

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
    summary: "Create a copy of the database that shares its SSTables",
    help: "\
Creates a database in DIR with the present content of DB. DIR must be empty or not
exist. Memtables are flushed first. SSTables get a second name in DIR (a hard link),
so that a checkpoint takes little time and space; the space of a file is released when
both databases have deleted it. If DIR is on another file system, or hard links are not
supported, the files are copied, and the output says so.

Both databases are independent afterwards. Do not copy files from one into the other.
A DIR without a file named CURRENT is an unfinished checkpoint: remove it.

A program that has DB open creates a checkpoint with Db::checkpoint, beside readers
and writers.",
    examples: "\
tamarack checkpoint prices.db prices-of-monday.db
tamarack checkpoint prices.db /mnt/backup/prices.db --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let dir = Arg::new("dir").value_name("DIR").help("Directory of the new database").required(true);
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
        text += &format!(", because hard links are not possible there: {why}");
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
