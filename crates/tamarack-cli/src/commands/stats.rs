//! `tamarack stats`: levels, runs, memory, space and work in progress.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::{Map, Value};
use tamarack::{Db, JobStats, LevelStats, MemoryStats, RecoveryReport, RunStats, Stats};

use crate::files::Lines;
use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, plural};
use crate::show::{Output, json, lookups, tree};
use crate::size::{show_bytes, show_seconds};
use crate::subcommand::Subcommand;
use crate::workloads::predict;
use crate::{database, text};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "stats",
    summary: "Show levels, runs, memory, space, amplification, and work in progress",
    help: "\
Shows the policy, the memtables and the levels: size, capacity, and the number of
runs with the number that the policy allows. The length of a bar is the logarithm of
the capacity; it is filled with the runs of the level to scale, old to young. Then
come flushes and compactions in progress, and the space on storage: live bytes belong
to the tree, stale bytes are parts of SSTables that compactions have replaced,
pending bytes are SSTables that are to be deleted. Space amplification is the worst
case that the numbers of entries and tombstones allow: as if every entry of a younger
run replaced one of an older run. Memory is the part of the memory budget that is in
use, by component. The last line says what to do if something needs attention.

Sizes, capacities and debt are raw bytes: keys and values plus 8 bytes per entry.
Entries include old versions and tombstones (the marks of deleted keys). --runs lists
every run with its filter's bits per key and false positive rate; --json prints
everything. The command changes nothing.

--openmetrics prints all statistics in the OpenMetrics text format, which Prometheus
and others read; docs/STATS.md has the names of the metrics. The command opens the
database, so no other process may have it open, and counters begin at 0. To watch a
database in use, the program that has it open serves the text of
`Stats::to_openmetrics`.

Lookups are counted while a database is open, and this command has just opened it.
--lookups FILE therefore looks up the keys in FILE first, one per line (see `tamarack
export --help` for escapes), and shows what the lookups cost: block reads beside the
number that the models predict from the filters' bits, the false positive rate of each
run beside the predicted one, and latency percentiles of one in 64 lookups. The column
\"zero-result\" estimates how many lookups reached a run that does not contain their
key; the run's filter saves a block read for each of them.",
    examples: "\
tamarack stats names.db
tamarack stats names.db --runs
tamarack stats names.db --lookups keys.txt
tamarack stats names.db --json
tamarack stats names.db --openmetrics",
    arguments: || {
        vec![
            database::path_argument(),
            Arg::new("runs").long("runs").help("List every run with its filter").action(ArgAction::SetTrue),
            Arg::new("lookups")
                .long("lookups")
                .value_name("FILE")
                .help("Look up the keys in FILE first, one per line, and show what\nthe lookups cost; - is standard input")
                .value_parser(value_parser!(PathBuf)),
            Arg::new("openmetrics")
                .long("openmetrics")
                .help("Print all statistics in the OpenMetrics text format")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["json", "runs"]),
            database::direct_argument(),
        ]
    },
    run,
};

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path: &PathBuf = matches.get_one("db").expect("it is required");
    let name = path.display().to_string();
    let db = database::open_to_read(matches, output)?;
    let keys: Option<&PathBuf> = matches.get_one("lookups");
    if let Some(keys) = keys {
        look_up(&db, keys)?;
    }
    let (stats, recovery) = (db.stats(), db.recovery().clone());
    db.close()?;
    if matches.get_flag("openmetrics") {
        output.bytes(stats.to_openmetrics().as_bytes())?;
        return Ok(Outcome::Done);
    }
    let text = for_people(&stats, &recovery, &name, matches.get_flag("runs") || keys.is_some());
    output.result(Some(&text), for_programs(&stats, &recovery, &name))?;
    Ok(Outcome::Done)
}

/// The most bytes of a key to look up: the largest write of a database with 1 GiB of memory.
const KEY_BYTES_MAX: u64 = 128 << 20;

/// Looks up the keys in a file.
fn look_up(db: &Db, keys: &Path) -> Result<(), Failure> {
    let (mut lines, mut key) = (Lines::open(keys, KEY_BYTES_MAX)?, Vec::new());
    while let Some(line) = lines.next_line()? {
        key.clear();
        let read = text::unescape(line, &mut key);
        read.map_err(|what| lines.wrong(&what))?;
        db.get(&key)?;
    }
    Ok(())
}

fn for_people(stats: &Stats, recovery: &RecoveryReport, db: &str, with_runs: bool) -> String {
    let mut blocks = vec![headline(stats), format!("{}\n{}", tree::levels(stats), tree::LEGEND)];
    if with_runs {
        blocks.push(format!("{}\n{}", tree::runs(stats), tree::RUNS_LEGEND));
    }
    blocks.extend(lookups::lookups(stats));
    blocks.extend(tree::jobs(stats));
    blocks.push(memory(&stats.memory));
    blocks.push(remarks(stats, recovery).join("\n"));
    blocks.extend(tree::advice(stats, db).map(|advice| format!("to do    {advice}")));
    blocks.join("\n\n")
}

/// One line about the tree: policy, levels, runs, space.
fn headline(stats: &Stats) -> String {
    let space = &stats.space;
    let bytes = space.live_bytes + space.stale_bytes + space.pending_delete_bytes + stats.wal_bytes;
    format!("{}, {} on storage", tree::shape(stats), show_bytes(bytes))
}

/// Numbers of the whole database, one line each.
fn remarks(stats: &Stats, recovery: &RecoveryReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(format!("{name:<8} {value}"));
    if stats.debt_bytes > 0 {
        let time =
            stats.debt_seconds.map_or_else(String::new, |s| format!(", about {} without new writes", show_seconds(s)));
        line(
            "debt",
            format!("{} left to write by flushes and compactions in progress{time}", show_bytes(stats.debt_bytes)),
        );
    }
    line("tables", space(stats));
    line("space", space_amplification(stats));
    line("filters", filters(stats));
    line("WAL", format!("{} in {}", show_bytes(stats.wal_bytes), plural(stats.wal_segments as u64, "segment")));
    line("writes", format!("sequence number {}", grouped(stats.visible_sequence)));
    if let Some(amplification) = stats.write_amplification() {
        line(
            "",
            format!("write amplification {amplification:.2} since opening (bytes written to levels / bytes flushed)"),
        );
    }
    if stats.write_delays + stats.write_stalls > 0 {
        line("delays", delays(stats));
    }
    line("opening", opening(recovery));
    lines
}

/// Write throttling and write stalls.
fn delays(stats: &Stats) -> String {
    let seconds = show_seconds(stats.write_delay_seconds + stats.write_stall_seconds);
    let longest_ns = stats.write_delay_times.longest_ns().max(stats.write_stall_times.longest_ns());
    format!(
        "{seconds} of write throttling and write stalls since opening, summed over writers; the longest {}",
        lookups::show_ns(longest_ns)
    )
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

/// The upper bound on space amplification that the counts of entries allow.
fn space_amplification(stats: &Stats) -> String {
    let bound = stats.space_amplification_max.map_or_else(String::new, |most| format!(", bound {most}"));
    match stats.space_amplification_worst {
        worst if worst.is_finite() => format!("amplification at most {worst:.2}{bound}"),
        _ => format!("amplification unknown: tombstones may cover every entry{bound}"),
    }
}

/// Size of the filters of all tables.
fn filters(stats: &Stats) -> String {
    let sum = |number: fn(&RunStats) -> u64| stats.levels.iter().map(|level| number(&level.total())).sum::<u64>();
    let (bits, entries) = (sum(|run| run.filter_bits), sum(|run| run.entries));
    match bits {
        0 => "none".to_owned(),
        _ => format!("{:.1} bits per entry, {} in total", bits as f64 / entries as f64, show_bytes(bits / 8)),
    }
}

/// Memory in use, by component.
fn memory(memory: &MemoryStats) -> String {
    let over = match memory.over_bytes {
        0 => String::new(),
        over => format!("; {} over the budget although the block cache is empty", show_bytes(over)),
    };
    let total = format!("{} of a budget of {}{over}", show_bytes(memory.total_bytes), show_bytes(memory.budget_bytes));
    let capacity = format!(" of at most {}", show_bytes(memory.cache_capacity_bytes));
    let part = |(name, bytes): (&str, u64)| {
        let capacity = if name == "cache" { &capacity } else { "" };
        format!("  {:<11} {:>9}{capacity}", component(name), show_bytes(bytes))
    };
    std::iter::once(format!("memory   {total}"))
        // The program itself begins none.
        .chain(memory.parts().into_iter().filter(|(name, bytes)| *name != "transactions" || *bytes > 0).map(part))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The term for a component of the engine's memory account.
fn component(name: &str) -> &str {
    match name {
        "cache" => "block cache",
        "wal" => "WAL",
        name => name,
    }
}

fn opening(recovery: &RecoveryReport) -> String {
    let mut found = vec![format!("{} replayed from the WAL", plural(recovery.entries_replayed, "entry"))];
    if !recovery.orphans_removed.is_empty() {
        let files = plural(recovery.orphans_removed.len() as u64, "orphaned table");
        found.push(format!("{files} removed"));
    }
    if !recovery.dropped.is_empty() {
        let bytes = recovery.dropped.iter().map(|dropped| dropped.bytes).sum();
        found.push(format!("{} of a torn tail dropped", show_bytes(bytes)));
    }
    found.join("; ")
}

/// All statistics, by name, with a few that are computed from them.
fn for_programs(stats: &Stats, recovery: &RecoveryReport, db: &str) -> Map<String, Value> {
    let figures = stats.figures().into_iter();
    let (since_opening, state) = figures.partition(|(row, _)| Stats::COUNTERS.contains(&row.name));
    let mut shown = json::figures(state);
    shown.insert("since_opening".to_owned(), json::figures(since_opening).into());
    shown.retain(|name, _| !["space", "lookups_sampled"].contains(&name.as_str()));
    shown.extend(json::figures(stats.space.figures()));
    shown.insert("levels".to_owned(), list(stats.levels.iter().map(level_for_programs)));
    shown.insert("jobs".to_owned(), list(stats.jobs.iter().map(job_for_programs)));
    shown.insert("lookups".to_owned(), lookups_for_programs(stats).into());
    shown.extend(json::object([
        ("write_amplification", stats.write_amplification().into()),
        ("recovery", recovery_for_programs(recovery).into()),
        ("advice", tree::advice(stats, db).into()),
    ]));
    shown
}

fn lookups_for_programs(stats: &Stats) -> Map<String, Value> {
    let (absent, present) = predict::lookup_blocks(stats);
    let mut shown = json::figures(stats.lookups.figures());
    shown.extend(json::object([
        ("sampled", stats.lookups_sampled.into()),
        ("predicted_block_reads_absent", absent.into()),
        ("predicted_block_reads_present", present.into()),
    ]));
    shown
}

fn level_for_programs(level: &LevelStats) -> Map<String, Value> {
    let mut shown = json::figures(level.total().figures());
    shown.retain(|name, _| !["id", "in_compaction", "filter_fpr", "lookups"].contains(&name.as_str()));
    shown.extend(json::figures(level.figures()));
    shown.extend(json::object([
        ("occupancy", level.occupancy().into()),
        ("runs_in_compactions", level.runs_in_compactions().into()),
        ("runs_above_slots", level.runs_above_slots().into()),
        ("runs", list(level.runs.iter().map(run_for_programs))),
    ]));
    shown
}

fn run_for_programs(run: &RunStats) -> Map<String, Value> {
    let mut shown = json::figures(run.figures());
    shown.extend(json::object([
        ("filter_false_positives", run.lookups.filter_false_positives.into()),
        ("filter_fpr_measured", run.lookups.false_positive_rate().into()),
        ("lookups_estimated", run.lookups.estimated().into()),
        ("lookups_zero_result_estimated", run.lookups.estimated_zero_result().into()),
        ("zero_results_per_lookup", run.lookups.zero_results_per_lookup.into()),
    ]));
    shown
}

fn job_for_programs(job: &JobStats) -> Map<String, Value> {
    let mut shown = json::figures(job.figures());
    shown.insert("kind".to_owned(), if job.is_flush { "flush" } else { "compaction" }.into());
    shown
}

fn list(objects: impl Iterator<Item = Map<String, Value>>) -> Value {
    objects.map(Value::Object).collect::<Vec<_>>().into()
}

fn recovery_for_programs(recovery: &RecoveryReport) -> Map<String, Value> {
    let path = |path: &Path| Value::from(path.display().to_string());
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
    use tamarack_testing::parse_openmetrics;

    use crate::testing::{TestDir, run, run_ok};

    /// Stored entries are counted, in memtables and levels.
    #[test]
    fn counts_what_is_there() {
        let dir = TestDir::new("counts_what_is_there");
        let db = dir.join("db");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        // Runs of a compaction in progress count for what they may still have.
        run_ok(&["compact", &db, "--settle"]);
        let shown: serde_json::Value = serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
        let entries = |items: &serde_json::Value| -> u64 {
            items.as_array().expect("a list").iter().map(|item| item["entries"].as_u64().expect("a number")).sum()
        };
        let in_levels: u64 =
            shown["levels"].as_array().expect("a list").iter().map(|level| entries(&level["runs"])).sum();
        assert_eq!(entries(&shown["memtables"]) + in_levels, 20_000, "{shown}");
        assert!(in_levels > 0, "with so little memory some of it was flushed: {shown}");
        let text = run_ok(&["stats", &db]);
        assert!(text.contains("\nlevel 1  ") && text.contains("sequence number 20,000"), "{text}");
    }

    /// Lookups from a file are counted and shown; a line that is not a key is an error with its
    /// number.
    #[test]
    fn tells_what_lookups_took() {
        let dir = TestDir::new("tells_what_lookups_took");
        let db = dir.join("db");
        // In an order that gives each run keys from everywhere, as the model assumes.
        let numbers = (0..20_000).map(|i| i * 7919 % 20_000);
        let lines: String = numbers.map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        // With a given policy: where lookups take long, the navigator would change the design.
        let (file, policy) = (dir.file("in.tsv", lines), "leveling:T=5,first=4");
        run_ok(&["import", &db, &file, "--policy", policy, "--memory", "1MiB", "--filter", "bloom:bits=5"]);
        // A compaction that was interrupted would leave runs that cover few keys.
        run_ok(&["compact", &db, "--settle"]);
        let keys = dir.file("keys", (0..20_000).map(|i| format!("key {i}{}\n", ["", "x"][i % 2])).collect::<String>());
        let shown: serde_json::Value =
            serde_json::from_str(&run_ok(&["stats", &db, "--lookups", &keys, "--json"])).expect("it is JSON");
        assert_eq!(shown["lookups"]["lookups"], 20_000);
        assert!(shown["lookups"]["filter_false_positives"].as_u64() > Some(0), "{shown}");
        assert!(shown["latencies"]["not_found"]["samples"].as_u64() > Some(50), "{shown}");
        // Half of the keys exist: the searches agree with the prediction, which knows no cache.
        let of = |name: &str| shown["lookups"][name].as_f64().expect("a number");
        let predicted = (of("predicted_block_reads_absent") + of("predicted_block_reads_present")) / 2.0;
        let searched = (of("filter_probes") - of("filter_negatives")) / 20_000.0;
        assert!((searched / predicted - 1.0).abs() < 0.1, "{searched} searches instead of {predicted}: {shown}");
        let text = run_ok(&["stats", &db, "--lookups", &keys]);
        assert!(text.contains("\nmodel    predicts "), "{text}");
        assert!(text.contains("lookups  20,000 since opening") && text.contains("\nnot found"), "{text}");
        // The advice at the end may name the database, whose path has the word in it.
        let without = run_ok(&["stats", &db]).replace(&db, "DB");
        assert!(!without.contains("lookups"), "{without}");
        let wrong = run(&["import", &db, &keys, "--filter", "bloom"]);
        assert!(wrong.err.contains("`bloom:bits=10`"), "{}", wrong.err);
        let wrong = run(&["stats", &db, "--lookups", &dir.file("wrong", "key 1\n\\q\n")]);
        assert!(wrong.err.contains("wrong:2: "), "{}", wrong.err);
    }

    /// `--openmetrics` prints all statistics in that format, those of lookups of this command
    /// included.
    #[test]
    fn prints_openmetrics() {
        let dir = TestDir::new("prints_openmetrics");
        let db = dir.join("db");
        let lines: String = (0..5000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--memory", "1MiB"]);
        // Runs of a compaction in progress count for what they may still have.
        run_ok(&["compact", &db, "--settle"]);
        let keys = dir.file("keys", (0..500).map(|i| format!("key {i}\n")).collect::<String>());
        let text = run_ok(&["stats", &db, "--openmetrics", "--lookups", &keys]);
        let families = parse_openmetrics(&text).unwrap_or_else(|rule| panic!("{rule}\n{text}"));
        let value = |name: &str| {
            let family = families.iter().find(|family| family.name == name).expect("it is there");
            family.samples.iter().map(|sample| sample.value).sum::<f64>()
        };
        assert_eq!(value("tamarack_lookups"), 500.0);
        assert_eq!(value("tamarack_level_entries") + value("tamarack_memtable_entries"), 5000.0);
        for other in ["--json", "--runs"] {
            let refused = run(&["stats", &db, "--openmetrics", other]);
            assert_eq!((refused.status, refused.out.as_str()), (2, ""), "{}", refused.err);
        }
    }

    /// The member names that programs rely on. Do not remove names; add new ones here.
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
            "advice background_error block_bytes cache_bytes cache_entry_bytes cache_hits cache_misses compaction_bytes_per_second \
             compactions_paused debt_bytes debt_seconds decisions disk filter_bytes jobs last_background_error late_bytes latencies levels \
             live_bytes lookups memory memtable_capacity_bytes memtables pending_delete_bytes policy range_deletes reads recovery \
             scans searching_design since_opening snapshots space_amplification_max space_amplification_worst stale_bytes visible_sequence \
             wal_bytes wal_segments write_amplification write_delay_times write_stall_times writing_stopped"
        );
        assert_eq!(names(&shown["disk"]), "free_bytes is_low reserve_bytes total_bytes");
        assert_eq!(names(&shown["memtables"][0]), "entries memory_bytes raw_bytes");
        assert_eq!(
            names(&shown["memory"]),
            "budget_bytes cache_bytes cache_capacity_bytes compactions_bytes filters_bytes indexes_bytes iterators_bytes \
             memtables_bytes over_bytes pinned_bytes tables_bytes total_bytes transactions_bytes \
             wal_bytes"
        );
        assert_eq!(
            names(&shown["levels"][0]),
            "capacity_bytes entries file_bytes filter_bits merge_operands occupancy raw_bytes run_slots runs runs_above_slots \
             runs_in_compactions tables tombstones written_raw_bytes"
        );
        assert_eq!(
            names(&shown["levels"][0]["runs"][0]),
            "entries file_bytes filter_bits filter_false_positives filter_fpr filter_fpr_measured id in_compaction \
             lookups lookups_estimated lookups_zero_result_estimated merge_operands raw_bytes tables tombstones \
             zero_results_per_lookup"
        );
        assert_eq!(
            names(&shown["since_opening"]),
            "commit_groups compaction_bytes compaction_failures compaction_filter_changed \
             compaction_filter_dropped compaction_filter_failures compactions deadlocks entries_written \
             filter_rebuild_bytes_read filters_dropped filters_loaded filters_rebuilt flush_bytes \
             flush_failures flushed_raw_bytes flushes ingest_bytes ingested_raw_bytes ingests lock_timeouts \
             lock_waits moves raw_bytes_written reshapes transaction_conflicts transactions_committed \
             write_delay_seconds write_delays write_stall_seconds write_stalls"
        );
        assert_eq!(
            names(&shown["lookups"]),
            "cached_absences cached_entries data_blocks_cached data_blocks_read filter_false_positives filter_negatives \
             filter_probes lookups predicted_block_reads_absent predicted_block_reads_present sampled zero_result"
        );
        assert_eq!(names(&shown["latencies"]), "found_by_reads found_in_memory multi_gets not_found seeks writes");
        assert_eq!(names(&shown["latencies"]["seeks"]), "longest_ns p50_ns p999_ns p99_ns samples");
        assert_eq!(names(&shown["reads"]), "compactions gets multi_gets scans upkeep");
        assert_eq!(names(&shown["reads"]["gets"]), "ahead batches blocks bytes index_blocks reads");
        assert_eq!(names(&shown["recovery"]), "dropped entries_replayed orphans_removed");
    }
}
