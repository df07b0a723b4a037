//! `tamarack repair`: salvages the readable data of a damaged database; without `--apply` it only
//! prints its plan.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Map, Value};
use tamarack::{Error, Lost, Options, RepairReport, Replaced};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::table::{grouped, plural, table};
use crate::show::{Output, json};
use crate::subcommand::Subcommand;
use crate::text;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "repair",
    summary: "Salvage the readable data of a damaged database",
    help: "\
Reads everything, as `tamarack verify` does, and prints a plan: the data that can be
salvaged, the data that is lost, and the files that will be replaced. Nothing changes
without --apply; with it, the database can be opened again and is free of damage.
Damaged and replaced files are not deleted but renamed, with the ending .lost. Keep
them, or better a copy of the directory, until you are sure.

A repair never invents data: every value was written at its key. Where data is lost,
older values of a key may reappear, also of keys that were deleted.

Exit status 0: no damage, or the damage is repaired; 1: damage, and no --apply.",
    examples: "\
tamarack repair names.db
tamarack repair names.db --json
tamarack repair names.db --apply",
    arguments: || vec![database::path_argument(), apply_argument()],
    run,
};

fn apply_argument() -> Arg {
    Arg::new("apply").long("apply").help("Carry out the plan instead of printing it").action(ArgAction::SetTrue)
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let (path, apply) = (database::path(matches), matches.get_flag("apply"));
    let progress = Progress::bytes("verifying", Some(0));
    let advance = &mut |done_bytes, all_bytes| {
        progress.set_total(all_bytes);
        progress.set(done_bytes);
    };
    let options = Options::new();
    let outcome = if apply { options.repair(path, advance) } else { options.plan_repair(path, advance) };
    drop(progress);
    let report = outcome.map_err(|error| match database::damage(&error) {
        Some(damage) => Failure::Storage(damage),
        None => Failure::from(error),
    })?;
    if !output.is_json() {
        for line in lines(path, &report) {
            output.line(&line)?;
        }
    }
    output.result(None, object(&report))?;
    if report.problems.is_empty() || report.applied {
        return Ok(Outcome::Done);
    }
    output
        .note(&format!("nothing was changed; run `tamarack repair {} --apply` to carry out the plan", path.display()));
    Ok(Outcome::NotFound)
}

/// The report as text.
fn lines(dir: &Path, report: &RepairReport) -> Vec<String> {
    if report.problems.is_empty() {
        return vec![format!("{}: no damage, nothing to repair", dir.display())];
    }
    let did = |done: &str, planned: &str| if report.applied { done.to_owned() } else { planned.to_owned() };
    let mut lines: Vec<String> = report.problems.iter().map(problem).collect();
    lines.push(String::new());
    lines.push(format!(
        "{} with {} {} unchanged",
        plural(report.tables_kept, "table"),
        plural(report.entries_kept, "entry"),
        did("remained", "remain")
    ));
    if report.rebuilt {
        lines.push(
            "the manifest is not usable: the order of SSTables is rebuilt from their sequence numbers".to_owned(),
        );
    }
    let rows = report.replaced.iter().map(|file| {
        let aside = file.aside.as_ref().map_or("is missing".to_owned(), |aside| format!("to {}", name(aside)));
        vec![name(&file.path), aside, grouped(file.entries)]
    });
    let heading = ["file", &did("renamed", "to be renamed"), "entries salvaged"].map(str::to_owned).to_vec();
    lines.extend([String::new(), table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>())]);
    lines.extend([String::new()]);
    if report.lost.is_empty() && !report.rebuilt {
        lines.push("no data is lost".to_owned());
        return lines;
    }
    let rows = report.lost.iter().map(|lost| {
        let bound = |key: &Option<Vec<u8>>| key.as_ref().map_or("?".to_owned(), |key| text::escaped(key));
        let sequences = lost.sequences.map_or("?".to_owned(), |(first, last)| format!("{first} to {last}"));
        let entries = lost.entries.map_or("?".to_owned(), grouped);
        vec![name(&lost.path), bound(&lost.from), bound(&lost.to), sequences, entries]
    });
    let heading = ["lost from", "first key", "last key", "sequence numbers", "entries"].map(str::to_owned).to_vec();
    if !report.lost.is_empty() {
        lines.push(table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>()));
    }
    lines.push("older values of lost keys may reappear, also of keys that were deleted".to_owned());
    if report.may_return {
        lines.push(
            "the manifest is lost: older values of other keys may reappear as well, merge operands may count twice or \
             not at all, and missing files go unnoticed"
                .to_owned(),
        );
    }
    lines
}

fn problem(error: &Error) -> String {
    database::damage(error).unwrap_or_else(|| error.to_string())
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn object(report: &RepairReport) -> Map<String, Value> {
    let problems = report.problems.iter().map(|error| Value::from(problem(error))).collect::<Vec<_>>();
    json::object([
        ("ok", report.problems.is_empty().into()),
        ("applied", report.applied.into()),
        ("rebuilt", report.rebuilt.into()),
        ("may_return", report.may_return.into()),
        ("tables_kept", report.tables_kept.into()),
        ("entries_kept", report.entries_kept.into()),
        ("problems", problems.into()),
        ("replaced", report.replaced.iter().map(replaced).collect::<Vec<_>>().into()),
        ("lost", report.lost.iter().map(lost).collect::<Vec<_>>().into()),
    ])
}

fn replaced(file: &Replaced) -> Value {
    let aside = file.aside.as_ref().map(|aside| aside.display().to_string());
    let members =
        [("file", file.path.display().to_string().into()), ("aside", aside.into()), ("entries", file.entries.into())];
    Value::Object(json::object(members))
}

fn lost(lost: &Lost) -> Value {
    let (first, last) = lost.sequences.unzip();
    let mut object = json::object([
        ("file", lost.path.display().to_string().into()),
        ("first_sequence", first.into()),
        ("last_sequence", last.into()),
        ("entries", lost.entries.into()),
    ]);
    object.extend(lost.from.as_ref().map(|key| json::bytes_member("from", key)));
    object.extend(lost.to.as_ref().map(|key| json::bytes_member("to", key)));
    Value::Object(object)
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeMap;
    use std::path::Path;

    use tamarack_env::OsEnv;
    use tamarack_testing::{read_dir, write_file};

    use crate::testing::{TestDir, run, run_ok};

    fn database(dir: &TestDir) -> String {
        let db = dir.join("db");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        // A compaction in progress has files that are not in use yet.
        run_ok(&["compact", &db, "--settle"]);
        db
    }

    fn files(db: &str) -> BTreeMap<String, Vec<u8>> {
        read_dir(&*OsEnv::new(), Path::new(db))
    }

    /// Changes a byte of the last file of that kind, and gives its name.
    fn damage(db: &str, kind: &str, at: usize) -> String {
        let files = files(db);
        let (name, bytes) = files.iter().rfind(|(name, _)| name.ends_with(kind)).expect("there is one");
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        write_file(&*OsEnv::new(), &Path::new(db).join(name), &bytes);
        name.clone()
    }

    /// What is whole stays as it is, and the status says so.
    #[test]
    fn leaves_what_is_whole() {
        let dir = TestDir::new("leaves_what_is_whole");
        let db = database(&dir);
        let before = files(&db);
        for arguments in [&["repair", &db][..], &["repair", &db, "--apply"]] {
            assert!(run_ok(arguments).contains("nothing to repair"));
        }
        assert!(run_ok(&["repair", &db, "--json"]).contains("\"ok\":true"));
        assert_eq!(files(&db), before);
    }

    /// Without --apply nothing changes; with it the database opens again with all undamaged data,
    /// and the damaged file is renamed.
    #[test]
    fn repairs_a_table_when_told_to() {
        let dir = TestDir::new("repairs_a_table_when_told_to");
        let db = database(&dir);
        let name = damage(&db, "sst", 100);
        let before = files(&db);
        let planned = run(&["repair", &db]);
        assert_eq!((planned.status, files(&db)), (1, before), "{planned:?}");
        assert!(planned.out.contains(&name) && planned.out.contains("lost from"), "{planned:?}");
        assert!(planned.err.contains("--apply"), "{planned:?}");
        let planned = run(&["repair", &db, "--json"]);
        let object: serde_json::Value = serde_json::from_str(&planned.out).expect("it is JSON");
        assert_eq!((planned.status, &object["applied"], &object["ok"]), (1, &false.into(), &false.into()));
        assert!(object["lost"][0]["entries"].as_u64().is_some_and(|lost| (1..200).contains(&lost)), "{object}");

        let applied = run_ok(&["repair", &db, "--apply"]);
        assert!(applied.contains(&format!("{name}.lost")), "{applied}");
        assert!(files(&db).keys().any(|path| path.ends_with(&format!("{name}.lost"))));
        assert!(run_ok(&["verify", &db]).contains("no damage"));
        let left = run_ok(&["export", &db]).lines().count();
        assert!((19_800..20_000).contains(&left), "{left} entries are left");
    }

    /// A manifest that is lost is made anew from the tables.
    #[test]
    fn repairs_without_a_manifest() {
        let dir = TestDir::new("repairs_without_a_manifest");
        let db = database(&dir);
        damage(&db, "manifest", 45);
        assert_eq!(run(&["get", &db, "key 7"]).status, 3);
        let applied = run_ok(&["repair", &db, "--apply"]);
        assert!(applied.contains("the manifest is lost"), "{applied}");
        assert_eq!(run_ok(&["export", &db]).lines().count(), 20_000);
        assert!(run_ok(&["repair", &db]).contains("nothing to repair"));
    }
}
