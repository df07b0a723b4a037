//! `tamarack stats`: what the database is made of.

use clap::ArgMatches;
use serde_json::{Map, Value};
use tamarack::Stats;

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::verb::Verb;

pub(super) const VERB: Verb = Verb {
    name: "stats",
    summary: "Show what the database is made of",
    help: "\
Shows the levels with their runs, young to old, and what is still in memory and
in the log. Entries include old versions and tombstones (the marks of deleted
keys). Raw bytes are those of keys and values, with 8 for each entry; file
bytes are what the tables take on storage.",
    examples: "\
tamarack stats names.db
tamarack stats names.db --json",
    arguments: || vec![database::path_argument()],
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let db = database::open(matches, output)?;
    let stats = db.stats();
    db.close()?;
    output.result(Some(&for_people(&stats)), for_programs(&stats))?;
    Ok(Outcome::Done)
}

fn for_people(stats: &Stats) -> String {
    let heading = ["", "runs", "tables", "entries", "tombstones", "raw bytes", "file bytes"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for buffer in &stats.buffers {
        let cells = ["buffer", "", "", &grouped(buffer.entries), "", &show_bytes(buffer.raw_bytes), ""];
        rows.push(cells.map(str::to_owned).to_vec());
    }
    for (i, level) in stats.levels.iter().enumerate() {
        let sum = |of: fn(&tamarack::RunStats) -> u64| level.runs.iter().map(of).sum::<u64>();
        rows.push(vec![
            format!("level {}", i + 1),
            level.runs.len().to_string(),
            grouped(sum(|run| run.tables)),
            grouped(sum(|run| run.entries)),
            grouped(sum(|run| run.tombstones)),
            show_bytes(sum(|run| run.raw_bytes)),
            show_bytes(sum(|run| run.file_bytes)),
        ]);
    }
    let rest = [
        ["log segments:".to_owned(), stats.log_segments.to_string()],
        ["log bytes:".to_owned(), show_bytes(stats.log_bytes)],
        ["writes so far:".to_owned(), grouped(stats.visible_sequence)],
    ];
    let rest: Vec<String> = rest.iter().map(|[name, value]| format!("{name:<14} {value}")).collect();
    format!("{}\n\n{}", table(&rows), rest.join("\n"))
}

fn for_programs(stats: &Stats) -> Map<String, Value> {
    let buffers: Vec<Value> = stats
        .buffers
        .iter()
        .map(|buffer| {
            Value::Object(json::object([
                ("entries", buffer.entries.into()),
                ("raw_bytes", buffer.raw_bytes.into()),
                ("memory_bytes", buffer.memory_bytes.into()),
            ]))
        })
        .collect();
    let levels: Vec<Value> = stats
        .levels
        .iter()
        .map(|level| {
            let runs: Vec<Value> = level
                .runs
                .iter()
                .map(|run| {
                    Value::Object(json::object([
                        ("tables", run.tables.into()),
                        ("entries", run.entries.into()),
                        ("tombstones", run.tombstones.into()),
                        ("raw_bytes", run.raw_bytes.into()),
                        ("file_bytes", run.file_bytes.into()),
                    ]))
                })
                .collect();
            Value::Object(json::object([("runs", runs.into())]))
        })
        .collect();
    json::object([
        ("buffers", buffers.into()),
        ("levels", levels.into()),
        ("log_segments", stats.log_segments.into()),
        ("log_bytes", stats.log_bytes.into()),
        ("visible_sequence", stats.visible_sequence.into()),
    ])
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run_ok};

    /// What was stored is counted, wherever it is.
    #[test]
    fn counts_what_is_there() {
        let dir = TestDir::new("counts_what_is_there");
        let db = dir.join("db");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        let shown: serde_json::Value = serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
        let entries = |items: &serde_json::Value| -> u64 {
            items.as_array().expect("a list").iter().map(|item| item["entries"].as_u64().expect("a number")).sum()
        };
        let in_levels: u64 =
            shown["levels"].as_array().expect("a list").iter().map(|level| entries(&level["runs"])).sum();
        assert_eq!(entries(&shown["buffers"]) + in_levels, 20_000, "{shown}");
        assert!(in_levels > 0, "with so little memory some of it was flushed: {shown}");
        let text = run_ok(&["stats", &db]);
        assert!(text.contains("level 1") && text.contains("writes so far: 20,000"), "{text}");
    }
}
