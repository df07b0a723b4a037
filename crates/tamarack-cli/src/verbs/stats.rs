//! `tamarack stats`: what the database is made of.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Map, Value};
use tamarack::{JobStats, LevelStats, MemoryStats, RecoveryReport, RunStats, Stats};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, plural};
use crate::show::{Output, json, tree};
use crate::size::{show_bytes, show_seconds};
use crate::verb::Verb;

pub(super) const VERB: Verb = Verb {
    name: "stats",
    summary: "Show the tree's shape, what it holds, and what is going on",
    help: "\
Shows the policy, the buffer and the levels: how much each may hold (its
capacity), how much it holds, in how many runs of how many that the policy gives
it. A bar is as long as the logarithm of the capacity, and is filled with the
level's runs to scale, old to young; what arrives is added at the right end.
Then come flushes and merges in progress, and what is on storage: live bytes
belong to the tree, stale ones are parts of tables that merges have used up,
pending ones are tables that nobody has got to removing. Memory is what the
database takes of its budget while it is open here, by part. If something is
amiss, the last line says what to do.

Held, capacities and debt are in raw bytes: those of keys and values, with 8 for
each entry. Entries include old versions and tombstones (the marks of deleted
keys). --runs lists every run; --json has everything. To look changes nothing,
except that unfinished merges go on while the database is open.",
    examples: "\
tamarack stats names.db
tamarack stats names.db --runs
tamarack stats names.db --json",
    arguments: || {
        vec![database::path_argument(), Arg::new("runs").long("runs").help("List every run").action(ArgAction::SetTrue)]
    },
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path: &PathBuf = matches.get_one("db").expect("it is required");
    let name = path.display().to_string();
    let db = database::open(matches, output)?;
    let (stats, recovery) = (db.stats(), db.recovery().clone());
    db.close()?;
    let text = for_people(&stats, &recovery, &name, matches.get_flag("runs"));
    output.result(Some(&text), for_programs(&stats, &recovery, &name))?;
    Ok(Outcome::Done)
}

fn for_people(stats: &Stats, recovery: &RecoveryReport, db: &str, with_runs: bool) -> String {
    let mut blocks = vec![headline(stats), format!("{}\n{}", tree::levels(stats), tree::LEGEND)];
    if with_runs {
        blocks.push(tree::runs(stats));
    }
    blocks.extend(tree::jobs(stats));
    blocks.push(memory(&stats.memory));
    blocks.push(remarks(stats, recovery).join("\n"));
    blocks.extend(tree::advice(stats, db).map(|advice| format!("to do    {advice}")));
    blocks.join("\n\n")
}

/// The tree in one line.
fn headline(stats: &Stats) -> String {
    let runs: usize = stats.levels.iter().map(|level| level.runs.len()).sum();
    // The words of a custom shape are that shape, which is drawn below.
    let policy = if stats.policy.starts_with("custom:") { "custom" } else { &stats.policy };
    format!(
        "{policy}: {}, {}, {} on storage",
        plural(stats.levels.len() as u64, "level"),
        plural(runs as u64, "run"),
        show_bytes(
            stats.space.live_bytes + stats.space.stale_bytes + stats.space.pending_delete_bytes + stats.log_bytes
        )
    )
}

/// What is not about single levels, one line each.
fn remarks(stats: &Stats, recovery: &RecoveryReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(format!("{name:<8} {value}"));
    if stats.debt_bytes > 0 {
        let time =
            stats.debt_seconds.map_or_else(String::new, |s| format!(", about {} if nothing is added", show_seconds(s)));
        line("debt", format!("{} to be written by what is in progress{time}", show_bytes(stats.debt_bytes)));
    }
    line("tables", space(stats));
    line("filters", filters(stats));
    line("log", format!("{} in {}", show_bytes(stats.log_bytes), plural(stats.log_segments as u64, "segment")));
    line("writes", format!("{} so far", grouped(stats.visible_sequence)));
    if let Some(amplification) = stats.write_amplification() {
        line("", format!("{amplification:.2} bytes written into levels for each byte flushed, since opening"));
    }
    if stats.write_delays + stats.write_stalls > 0 {
        let seconds = show_seconds(stats.write_delay_seconds + stats.write_stall_seconds);
        line("delays", format!("{seconds} of writers, so that merges and flushes could follow, since opening"));
    }
    line("opening", opening(recovery));
    lines
}

fn space(stats: &Stats) -> String {
    let space = &stats.space;
    let mut kinds = vec![format!("{} live", show_bytes(space.live_bytes))];
    if space.stale_bytes > 0 {
        kinds.push(format!("{} stale", show_bytes(space.stale_bytes)));
    }
    if space.pending_delete_bytes > 0 {
        kinds.push(format!("{} pending delete", show_bytes(space.pending_delete_bytes)));
    }
    kinds.join(", ")
}

/// How large the filters of all tables are together.
fn filters(stats: &Stats) -> String {
    let sum = |number: fn(&RunStats) -> u64| stats.levels.iter().map(|level| number(&level.total())).sum::<u64>();
    let (bits, entries) = (sum(|run| run.filter_bits), sum(|run| run.entries));
    match bits {
        0 => "none".to_owned(),
        _ => format!("{:.1} bits for each entry, {} in all", bits as f64 / entries as f64, show_bytes(bits / 8)),
    }
}

/// What takes memory, and how much.
fn memory(memory: &MemoryStats) -> String {
    let over = match memory.over_bytes {
        0 => String::new(),
        over => format!("; {} over it, although the cache has given way", show_bytes(over)),
    };
    let total = format!("{} of a budget of {}{over}", show_bytes(memory.total_bytes), show_bytes(memory.budget_bytes));
    let room = format!(" of {} that it may take", show_bytes(memory.cache_capacity_bytes));
    let part = |(name, bytes): (&str, u64)| {
        let room = if name == "cache" { &room } else { "" };
        format!("  {name:<9} {:>9}{room}", show_bytes(bytes))
    };
    std::iter::once(format!("memory   {total}"))
        .chain(memory.parts().into_iter().map(part))
        .collect::<Vec<_>>()
        .join("\n")
}

fn memory_for_programs(memory: &MemoryStats) -> Map<String, Value> {
    let sums = [
        ("budget_bytes", memory.budget_bytes),
        ("total_bytes", memory.total_bytes),
        ("over_bytes", memory.over_bytes),
        ("cache_capacity_bytes", memory.cache_capacity_bytes),
    ];
    let parts = memory.parts().map(|(name, bytes)| (format!("{name}_bytes"), bytes.into()));
    sums.map(|(name, bytes)| (name.to_owned(), bytes.into())).into_iter().chain(parts).collect()
}

fn opening(recovery: &RecoveryReport) -> String {
    let mut found = vec![format!("{} read back from the log", plural(recovery.entries_replayed, "entry"))];
    if !recovery.orphans_removed.is_empty() {
        let files = plural(recovery.orphans_removed.len() as u64, "unfinished table");
        found.push(format!("{files} of an earlier process removed"));
    }
    if !recovery.dropped.is_empty() {
        let bytes = recovery.dropped.iter().map(|dropped| dropped.bytes).sum();
        found.push(format!("{} of a torn end dropped", show_bytes(bytes)));
    }
    found.join("; ")
}

fn for_programs(stats: &Stats, recovery: &RecoveryReport, db: &str) -> Map<String, Value> {
    let buffers = stats.buffers.iter().map(|buffer| {
        json::object([
            ("entries", buffer.entries.into()),
            ("raw_bytes", buffer.raw_bytes.into()),
            ("memory_bytes", buffer.memory_bytes.into()),
        ])
    });
    let space = &stats.space;
    json::object([
        ("policy", stats.policy.as_str().into()),
        ("buffer_capacity_bytes", stats.buffer_capacity_bytes.into()),
        ("buffers", list(buffers)),
        ("levels", list(stats.levels.iter().map(level_for_programs))),
        ("jobs", list(stats.jobs.iter().map(job_for_programs))),
        ("debt_bytes", stats.debt_bytes.into()),
        ("debt_seconds", stats.debt_seconds.into()),
        ("merge_bytes_per_second", stats.merge_bytes_per_second.into()),
        ("merges_paused", stats.merges_paused.into()),
        ("trouble", stats.trouble.clone().into()),
        ("memory", Value::Object(memory_for_programs(&stats.memory))),
        ("live_bytes", space.live_bytes.into()),
        ("stale_bytes", space.stale_bytes.into()),
        ("pending_delete_bytes", space.pending_delete_bytes.into()),
        ("log_segments", stats.log_segments.into()),
        ("log_bytes", stats.log_bytes.into()),
        ("visible_sequence", stats.visible_sequence.into()),
        ("write_amplification", stats.write_amplification().into()),
        ("since_opening", Value::Object(since_opening_for_programs(stats))),
        ("recovery", Value::Object(recovery_for_programs(recovery))),
        ("advice", tree::advice(stats, db).into()),
    ])
}

fn since_opening_for_programs(stats: &Stats) -> Map<String, Value> {
    json::object([
        ("entries_written", stats.entries_written.into()),
        ("raw_bytes_written", stats.raw_bytes_written.into()),
        ("flushes", stats.flushes.into()),
        ("flushed_raw_bytes", stats.flushed_raw_bytes.into()),
        ("flush_bytes", stats.flush_bytes.into()),
        ("flush_failures", stats.flush_failures.into()),
        ("merges", stats.merges.into()),
        ("merge_bytes", stats.merge_bytes.into()),
        ("merge_failures", stats.merge_failures.into()),
        ("moves", stats.moves.into()),
        ("reshapes", stats.reshapes.into()),
        ("write_delays", stats.write_delays.into()),
        ("write_delay_seconds", stats.write_delay_seconds.into()),
        ("write_stalls", stats.write_stalls.into()),
        ("write_stall_seconds", stats.write_stall_seconds.into()),
    ])
}

fn level_for_programs(level: &LevelStats) -> Map<String, Value> {
    let total = level.total();
    json::object([
        ("capacity_bytes", level.capacity_bytes.into()),
        ("occupancy", level.occupancy().into()),
        ("run_slots", level.run_slots.into()),
        ("runs_in_merges", level.runs_in_merges().into()),
        ("runs_above_slots", level.runs_above_slots().into()),
        ("tables", total.tables.into()),
        ("entries", total.entries.into()),
        ("tombstones", total.tombstones.into()),
        ("raw_bytes", total.raw_bytes.into()),
        ("file_bytes", total.file_bytes.into()),
        ("filter_bits", total.filter_bits.into()),
        ("written_raw_bytes", level.written_raw_bytes.into()),
        ("runs", list(level.runs.iter().map(run_for_programs))),
    ])
}

fn run_for_programs(run: &RunStats) -> Map<String, Value> {
    json::object([
        ("id", run.id.into()),
        ("in_merge", run.in_merge.into()),
        ("tables", run.tables.into()),
        ("entries", run.entries.into()),
        ("tombstones", run.tombstones.into()),
        ("raw_bytes", run.raw_bytes.into()),
        ("file_bytes", run.file_bytes.into()),
        ("filter_bits", run.filter_bits.into()),
    ])
}

fn job_for_programs(job: &JobStats) -> Map<String, Value> {
    json::object([
        ("kind", if job.is_flush { "flush" } else { "merge" }.into()),
        ("cause", job.cause.as_str().into()),
        ("inputs", job.inputs.clone().into()),
        ("target_level", job.target_level.into()),
        ("done_bytes", job.done_bytes.into()),
        ("left_bytes", job.left_bytes.into()),
        ("parts_working", job.parts_working.into()),
        ("parts_waiting", job.parts_waiting.into()),
    ])
}

fn list(objects: impl Iterator<Item = Map<String, Value>>) -> Value {
    objects.map(Value::Object).collect::<Vec<_>>().into()
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
        assert!(text.contains("\nlevel 1  ") && text.contains("20,000 so far"), "{text}");
    }

    /// The names that programs rely on. One that is missing here was taken away; add those that are new.
    #[test]
    fn names_are_stable() {
        let dir = TestDir::new("names_are_stable");
        let db = dir.join("db");
        run_ok(&["import", &db, &dir.file("in.tsv", format!("key\t{}\n", "v".repeat(2000))), "--buffer", "1KiB"]);
        run_ok(&["compact", &db]);
        let shown: serde_json::Value = serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
        let names = |object: &serde_json::Value| {
            object.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            names(&shown),
            "advice buffer_capacity_bytes buffers debt_bytes debt_seconds jobs levels live_bytes log_bytes log_segments \
             memory merge_bytes_per_second merges_paused pending_delete_bytes policy recovery since_opening stale_bytes trouble visible_sequence \
             write_amplification"
        );
        assert_eq!(names(&shown["buffers"][0]), "entries memory_bytes raw_bytes");
        assert_eq!(
            names(&shown["memory"]),
            "budget_bytes buffers_bytes cache_bytes cache_capacity_bytes filters_bytes held_bytes indexes_bytes iterators_bytes \
             log_bytes merges_bytes over_bytes tables_bytes total_bytes"
        );
        assert_eq!(
            names(&shown["levels"][0]),
            "capacity_bytes entries file_bytes filter_bits occupancy raw_bytes run_slots runs runs_above_slots runs_in_merges \
             tables tombstones written_raw_bytes"
        );
        assert_eq!(
            names(&shown["levels"][0]["runs"][0]),
            "entries file_bytes filter_bits id in_merge raw_bytes tables tombstones"
        );
        assert_eq!(
            names(&shown["since_opening"]),
            "entries_written flush_bytes flush_failures flushed_raw_bytes flushes merge_bytes merge_failures merges moves \
             raw_bytes_written reshapes write_delay_seconds write_delays write_stall_seconds write_stalls"
        );
        assert_eq!(names(&shown["recovery"]), "dropped entries_replayed orphans_removed");
    }
}
