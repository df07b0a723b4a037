//! `tamarack verify`: reads and checks everything that is stored.

use clap::ArgMatches;
use serde_json::Value;

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::table::plural;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::verb::Verb;

pub(super) const VERB: Verb = Verb {
    name: "verify",
    summary: "Check every checksum and every invariant",
    help: "\
Reads all that is stored and checks it: the tables, the manifest that names them,
and, in opening the database, the log. What is damaged is listed with file and
offset, and the exit status is then 1. Damage that keeps the database from being
opened at all is reported as an error with status 3.",
    examples: "\
tamarack verify names.db
tamarack verify names.db --json",
    arguments: || vec![database::path_argument()],
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let db = database::open_to_read(matches, output)?;
    let progress = Progress::bytes("checking", Some(0));
    let report = db.verify(&mut |done_bytes, all_bytes| {
        progress.set_total(all_bytes);
        progress.set(done_bytes);
    })?;
    drop(progress);
    // The log was read and checked when the database was opened; it would not be open otherwise.
    let (replayed, log_bytes) = (db.recovery().entries_replayed, db.stats().log_bytes);
    db.close()?;

    let problems: Vec<String> =
        report.problems.iter().map(|error| database::damage(error).unwrap_or_else(|| error.to_string())).collect();
    let checked = format!(
        "checked {} in {} ({}) and {} in the log ({}): {}",
        plural(report.entries, "entry"),
        plural(report.tables, "table"),
        show_bytes(report.bytes),
        plural(replayed, "entry"),
        show_bytes(log_bytes),
        if problems.is_empty() { "no damage".to_owned() } else { plural(problems.len() as u64, "problem") }
    );
    let text: Vec<&str> = problems.iter().map(String::as_str).chain([checked.as_str()]).collect();
    let members = json::object([
        ("ok", report.is_ok().into()),
        ("tables", report.tables.into()),
        ("entries", report.entries.into()),
        ("bytes", report.bytes.into()),
        ("log_entries", replayed.into()),
        ("log_bytes", log_bytes.into()),
        ("problems", problems.iter().map(|problem| Value::from(problem.as_str())).collect::<Vec<_>>().into()),
    ]);
    output.result(Some(&text.join("\n")), members)?;
    Ok(if report.is_ok() { Outcome::Done } else { Outcome::NotFound })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test damages a real file")]

    use crate::testing::{TestDir, run, run_ok};

    /// A sound database passes; after one byte of a table is changed, the file is named and the status is 1 or 3.
    #[test]
    fn finds_a_changed_byte() {
        let dir = TestDir::new("finds_a_changed_byte");
        let db = dir.join("db");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        assert!(run_ok(&["verify", &db]).contains("no damage"));
        assert!(run_ok(&["verify", &db, "--json"]).contains("\"ok\":true"));

        let files = std::fs::read_dir(&db)
            .expect("the database is a directory")
            .map(|item| item.expect("it can be listed").path());
        let table = files.max_by_key(|path| {
            let is_table = path.extension().is_some_and(|ending| ending == "table");
            (is_table, path.clone())
        });
        let table = table.expect("some of it was flushed");
        let mut bytes = std::fs::read(&table).expect("it can be read");
        bytes[100] ^= 1;
        std::fs::write(&table, bytes).expect("it can be written");
        let ran = run(&["verify", &db]);
        assert!(matches!(ran.status, 1 | 3), "{ran:?}");
        let name = table.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(format!("{}{}", ran.out, ran.err).contains(&name), "{name}: {ran:?}");
    }
}
