//! `tamarack stats`: what the database is made of.

use clap::ArgMatches;
use serde_json::{Map, Value};
use tamarack::{RecoveryReport, RunStats, Stats};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, plural, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::verb::Verb;

pub(super) const VERB: Verb = Verb {
    name: "stats",
    summary: "Show what the database is made of",
    help: "\
Shows what is in memory, the levels with their runs, young to old, the log, and
what opening the database found. Entries include old versions and tombstones
(the marks of deleted keys). Raw bytes are those of keys and values, with 8 for
each entry; file bytes are what the tables take on storage. The oldest of many
runs are summed up; --json has them all.",
    examples: "\
tamarack stats names.db
tamarack stats names.db --json",
    arguments: || vec![database::path_argument()],
    run,
};

/// So many runs of a level are shown to people.
const RUNS_SHOWN_MAX: usize = 12;

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let db = database::open(matches, output)?;
    let (stats, recovery) = (db.stats(), db.recovery().clone());
    db.close()?;
    output.result(Some(&for_people(&stats, &recovery)), for_programs(&stats, &recovery))?;
    Ok(Outcome::Done)
}

fn for_people(stats: &Stats, recovery: &RecoveryReport) -> String {
    format!("{}\n\n{}", contents(stats), remarks(stats, recovery).join("\n"))
}

/// The table of buffers, levels and runs.
fn contents(stats: &Stats) -> String {
    let heading = ["", "tables", "entries", "tombstones", "raw bytes", "file bytes"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for buffer in &stats.buffers {
        let cells = ["buffer", "", &grouped(buffer.entries), "", &show_bytes(buffer.raw_bytes), ""];
        rows.push(cells.map(str::to_owned).to_vec());
    }
    for (i, level) in stats.levels.iter().enumerate() {
        let name = format!("level {}, {}", i + 1, plural(level.runs.len() as u64, "run"));
        rows.push(row(name, &level.total()));
        let shown = level.runs.len().min(RUNS_SHOWN_MAX);
        rows.extend(level.runs[..shown].iter().enumerate().map(|(j, run)| row(format!("  run {}", j + 1), run)));
        if shown < level.runs.len() {
            rows.push(row("  older runs".to_owned(), &RunStats::total(&level.runs[shown..])));
        }
    }
    table(&rows)
}

fn row(name: String, run: &RunStats) -> Vec<String> {
    let (raw, file) = (show_bytes(run.raw_bytes), show_bytes(run.file_bytes));
    vec![name, grouped(run.tables), grouped(run.entries), grouped(run.tombstones), raw, file]
}

/// What is not about entries, one line each.
fn remarks(stats: &Stats, recovery: &RecoveryReport) -> Vec<String> {
    let log = format!("{} in {}", show_bytes(stats.log_bytes), plural(stats.log_segments as u64, "segment"));
    let mut opening = vec![format!("{} read back from the log", plural(recovery.entries_replayed, "entry"))];
    if !recovery.orphans_removed.is_empty() {
        let files = plural(recovery.orphans_removed.len() as u64, "unfinished table");
        opening.push(format!("{files} of an earlier process removed"));
    }
    if !recovery.dropped.is_empty() {
        let bytes = recovery.dropped.iter().map(|dropped| dropped.bytes).sum();
        opening.push(format!("{} of a torn end dropped", show_bytes(bytes)));
    }
    let rest = [("log", log), ("opening", opening.join("; ")), ("writes so far", grouped(stats.visible_sequence))];
    rest.iter().map(|(name, value)| format!("{name:<14} {value}")).collect()
}

fn for_programs(stats: &Stats, recovery: &RecoveryReport) -> Map<String, Value> {
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
        ("recovery", Value::Object(recovery_for_programs(recovery))),
    ])
}

fn recovery_for_programs(recovery: &RecoveryReport) -> Map<String, Value> {
    let path = |path: &std::path::Path| Value::from(path.display().to_string());
    let dropped = recovery.dropped.iter().map(|dropped| {
        Value::Object(json::object([
            ("file", path(&dropped.path)),
            ("offset", dropped.offset.into()),
            ("bytes", dropped.bytes.into()),
            ("commit_groups", dropped.commit_groups.into()),
            ("why", dropped.why.as_str().into()),
        ]))
    });
    let orphans = recovery.orphans_removed.iter().map(|orphan| path(orphan));
    json::object([
        ("entries_replayed", recovery.entries_replayed.into()),
        ("orphans_removed", orphans.collect::<Vec<_>>().into()),
        ("dropped", dropped.collect::<Vec<_>>().into()),
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
        assert!(text.contains("level 1, ") && text.contains("writes so far  20,000"), "{text}");
    }
}
