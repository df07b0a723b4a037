//! `tamarack compact`: merges all runs into one.

use clap::ArgMatches;

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::verb::Verb;

pub(super) const VERB: Verb = Verb {
    name: "compact",
    summary: "Merge everything, and give back what was overwritten or deleted",
    help: "\
Merges all runs into one. What was overwritten or deleted is gone then, and its
space is given back; lookups have one run to ask. Says how much the tables took
before and after. If it is interrupted nothing is lost, and the next command
goes on with it.",
    examples: "\
tamarack compact names.db
tamarack compact names.db --json",
    arguments: || vec![database::path_argument()],
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let db = database::open(matches, output)?;
    db.flush()?;
    let before = shape(&db);
    db.compact()?;
    let after = shape(&db);
    db.close()?;
    let text = format!(
        "{} in {} before, {} in {} after",
        show_bytes(before.1),
        runs(before.0),
        show_bytes(after.1),
        runs(after.0)
    );
    let members = json::object([
        ("runs_before", before.0.into()),
        ("file_bytes_before", before.1.into()),
        ("runs_after", after.0.into()),
        ("file_bytes_after", after.1.into()),
    ]);
    output.result(Some(&text), members)?;
    Ok(Outcome::Done)
}

/// The runs there are, and the bytes of their tables.
fn shape(db: &tamarack::Db) -> (u64, u64) {
    let stats = db.stats();
    let runs = stats.levels.iter().flat_map(|level| &level.runs);
    runs.fold((0, 0), |(count, bytes), run| (count + 1, bytes + run.file_bytes))
}

fn runs(count: u64) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run_ok};

    /// Importing the same keys twice and compacting leaves each once, in one run.
    #[test]
    fn overwritten_entries_go() {
        let dir = TestDir::new("overwritten_entries_go");
        let db = dir.join("db");
        let lines: String = (0..10_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        let file = dir.file("in.tsv", lines);
        run_ok(&["import", &db, &file, "--memory", "1MiB"]);
        run_ok(&["import", &db, &file, "--memory", "1MiB"]);
        let shown: serde_json::Value = serde_json::from_str(&run_ok(&["compact", &db, "--json"])).expect("it is JSON");
        assert_eq!(shown["runs_after"], 1, "{shown}");
        let bytes = |member: &str| shown[member].as_u64().expect("a number");
        assert!(bytes("file_bytes_after") <= bytes("file_bytes_before"), "{shown}");
        let stats: serde_json::Value = serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
        let runs = stats["levels"]
            .as_array()
            .expect("levels")
            .iter()
            .flat_map(|level| level["runs"].as_array().expect("runs"));
        assert_eq!(runs.map(|run| run["entries"].as_u64().expect("a number")).sum::<u64>(), 10_000, "{stats}");
    }
}
