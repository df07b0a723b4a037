//! `tamarack verify`: reads and checks all files of a database.

use std::path::PathBuf;

use clap::ArgMatches;
use serde_json::Value;
use tamarack::Options;

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::table::plural;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "verify",
    summary: "Check every checksum and every invariant of the files",
    help: "\
Reads all files of the database and checks every checksum, the keys and sequence numbers
of entries, the index and filter of each SSTable, the manifest against the files in the
directory, and the WAL. The command changes nothing and does not need a database that
can be opened. It lists all damage with file and offset; the exit status is then 1.",
    examples: "\
tamarack verify names.db
tamarack verify names.db --json",
    arguments: || vec![database::path_argument()],
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path = database::path(matches);
    let progress = Progress::bytes("verifying", Some(0));
    let report = Options::new().verify(path, &mut |done_bytes, all_bytes| {
        progress.set_total(all_bytes);
        progress.set(done_bytes);
    })?;
    drop(progress);
    for torn in &report.torn {
        output.note(&format!("{}; opening the database drops it", database::torn(torn)));
    }
    if !report.unnamed.is_empty() {
        let files = plural(report.unnamed.len() as u64, "file");
        output.note(&format!("{files} left by a crash and not in use; opening the database removes them"));
    }
    for path in &report.foreign {
        let why = "its number shows that this database did not make it";
        output.note(&format!("{}: ignored, because {why}; move it elsewhere", path.display()));
    }

    let problems: Vec<String> =
        report.problems.iter().map(|error| database::damage(error).unwrap_or_else(|| error.to_string())).collect();
    let checked = format!(
        "checked {} in {} ({}) and {} in the WAL ({}): {}",
        plural(report.entries, "entry"),
        plural(report.tables, "table"),
        show_bytes(report.bytes),
        plural(report.wal_entries, "entry"),
        show_bytes(report.wal_bytes),
        if problems.is_empty() { "no damage".to_owned() } else { plural(problems.len() as u64, "problem") }
    );
    let text: Vec<&str> = problems.iter().map(String::as_str).chain([checked.as_str()]).collect();
    let texts = |items: Vec<String>| Value::from(items.into_iter().map(Value::from).collect::<Vec<_>>());
    let paths = |paths: &[PathBuf]| texts(paths.iter().map(|path| path.display().to_string()).collect());
    let members = json::object([
        ("ok", report.is_ok().into()),
        ("tables", report.tables.into()),
        ("entries", report.entries.into()),
        ("bytes", report.bytes.into()),
        ("wal_entries", report.wal_entries.into()),
        ("wal_bytes", report.wal_bytes.into()),
        ("problems", texts(problems.clone())),
        ("torn", texts(report.torn.iter().map(database::torn).collect())),
        ("unnamed", paths(&report.unnamed)),
        ("foreign", paths(&report.foreign)),
    ]);
    output.result(Some(&text.join("\n")), members)?;
    if report.is_ok() {
        return Ok(Outcome::Done);
    }
    output
        .note(&format!("run `tamarack repair {}` to see what can be salvaged; it changes nothing yet", path.display()));
    Ok(Outcome::NotFound)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test damages a real file")]

    use std::path::PathBuf;

    use crate::testing::{TestDir, run, run_ok};

    /// A sound database passes; after one byte of a table and one of the manifest are changed, both
    /// files are named and the status is 1, although the database cannot be opened.
    #[test]
    fn finds_changed_bytes() {
        let dir = TestDir::new("finds_changed_bytes");
        let db = dir.join("db");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        // A compaction in progress has files that are not in use yet.
        run_ok(&["compact", &db, "--settle"]);
        assert!(run_ok(&["verify", &db]).contains("no damage"));
        assert!(run_ok(&["verify", &db, "--json"]).contains("\"ok\":true"));

        let files: Vec<_> = std::fs::read_dir(&db)
            .expect("the database is a directory")
            .map(|item| item.expect("it can be listed").path())
            .collect();
        let mut names = Vec::new();
        for kind in ["sst", "manifest"] {
            let is_of_kind = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == kind);
            let path = files.iter().rfind(is_of_kind).expect("there is one of each");
            let mut bytes = std::fs::read(path).expect("it can be read");
            bytes[100] ^= 1;
            std::fs::write(path, bytes).expect("it can be written");
            names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        }
        assert_eq!(run(&["get", &db, "key 1"]).status, 3);
        for arguments in [&["verify", &db][..], &["verify", &db, "--json"]] {
            let ran = run(arguments);
            assert_eq!(ran.status, 1, "{ran:?}");
            assert!(names.iter().all(|name| ran.out.contains(name)), "{names:?}: {ran:?}");
            assert!(ran.err.contains("tamarack repair"), "{ran:?}");
        }
    }
}
