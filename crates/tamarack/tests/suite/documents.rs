//! `docs/OPTIONS.md` and `docs/STATS.md` are generated from the tables of options and statistics.
//!
//! The tests compare; with `TAMARACK_REWRITE=1` in the environment they write the files instead.
//! `docs/COMING_FROM.md` is written by hand, and its names are looked up.

use std::fmt::Write as _;
use std::path::Path;

use tamarack::internals::{Row, openmetrics_name};
use tamarack::{
    AdvancedOptions, DecisionStats, DiskStats, JobStats, LatencyStats, LevelStats, LookupCounts, MemoryStats,
    MemtableStats, Options, Percentiles, ReadStats, ReaderStats, RunLookups, RunStats, ScanCounts, SpaceStats,
    Statistic, Stats,
};
use tamarack_testing::assert_stored;

/// The documents match the tables.
#[test]
fn the_documents_are_up_to_date() {
    for (name, made) in [("OPTIONS.md", options()), ("STATS.md", statistics())] {
        assert_stored(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name), made);
    }
}

/// What `docs/COMING_FROM.md` names in the columns of Tamarack exists.
#[test]
fn names_beside_those_of_other_stores_exist() {
    let sources = [
        include_str!("../../src/db.rs"),
        include_str!("../../src/db/map.rs"),
        include_str!("../../src/db/transactions.rs"),
        include_str!("../../src/read/snapshot.rs"),
        include_str!("../../src/write/batch.rs"),
        include_str!("../../src/ingest.rs"),
        include_str!("../../src/repair.rs"),
        include_str!("../../src/error.rs"),
        include_str!("../../src/options.rs"),
        include_str!("../../src/transaction/mod.rs"),
    ];
    let text = include_str!("../../../../docs/COMING_FROM.md");
    let columns = text.lines().filter(|line| line.starts_with("| ")).filter_map(|row| row.split(" | ").nth(1));
    let spans = columns.flat_map(|column| column.split('`').skip(1).step_by(2));
    let ours = [
        "Db",
        "Snapshot",
        "Scan",
        "Batch",
        "Ingest",
        "Error",
        "ErrorKind",
        "Options",
        "AdvancedOptions",
        "Transaction",
    ];
    let names = spans.filter_map(|span| span.split_once("::")).filter(|(group, _)| ours.contains(group));
    let mut found = 0;
    for (group, name) in names {
        // Methods, rows of tables of options, and kinds of errors.
        let ways =
            [format!("fn {name}("), format!("fn {name}<"), format!("\n        {name}("), format!("\n    {name},")];
        let exists = sources.iter().any(|source| ways.iter().any(|way| source.contains(way)));
        assert!(exists, "docs/COMING_FROM.md names {group}::{name}, which does not exist");
        found += 1;
    }
    assert!(found > 60, "only {found} names were found");
}

fn options() -> String {
    let mut text = String::from(OPTIONS);
    for (group, _, rows) in OPTION_GROUPS {
        let _ = write!(text, "\n| `{group}` | default | range |\n|---|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| [`{0}`](#{0}) | {1} | {2} |", row.name, prose(row.default), prose(row.range));
        }
    }
    for (group, about, rows) in OPTION_GROUPS {
        let _ = write!(text, "\n## {group}\n\n{about}\n");
        for row in rows {
            let effect: String = row.effect.lines().map(|line| line.trim().to_owned() + "\n").collect();
            let (default, range) = (prose(row.default), prose(row.range));
            let _ = write!(
                text,
                "\n### `{}`\n\n{}\nTakes `{}`. Default: {default}. Range: {range}.\n",
                row.name,
                prose(&effect),
                row.takes
            );
        }
    }
    text
}

/// Removes the links that only rustdoc can follow.
fn prose(rustdoc: &str) -> String {
    rustdoc.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}

const OPTION_GROUPS: [(&str, &str, &[Row]); 2] = [
    (
        "Options",
        "What most programs need: `Options::new().memory_bytes(512 << 20).open(\"data/prices\")`.",
        Options::TABLE,
    ),
    (
        "AdvancedOptions",
        "Overrides of settings that are otherwise derived: `Options::new().advanced(AdvancedOptions::new().policy(\"tiering:T=4\"))`.",
        AdvancedOptions::TABLE,
    ),
];

const OPTIONS: &str = "\
# Options

Generated from the tables in `crates/tamarack/src/options.rs`, as is the documentation of the setters; `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite documents`
writes it anew, and the test fails if it is out of date.

Sizes are in bytes. Opening a database with a value out of its range fails with an error that says what is allowed. `tamarack COMMAND --help` lists the options of a
command.
";

fn statistics() -> String {
    let mut text = String::from(STATISTICS);
    for (group, about, rows) in STATISTIC_GROUPS {
        let _ = write!(text, "\n## {group}\n\n{about}\n\n| name | unit | meaning | metric |\n|---|---|---|---|\n");
        for row in rows {
            let metric = openmetrics_name(group, row).map_or_else(String::new, |name| format!("`{name}`"));
            let unit = match group_of(row) {
                Some(group) => format!("[{group}](#{})", group.to_lowercase()),
                None => row.unit.to_owned(),
            };
            let meaning = row.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "| `{}` | {unit} | {} | {metric} |", row.name, prose(&meaning));
        }
    }
    text
}

/// The group that a statistic consists of, if it is one.
///
/// # Panics
/// If it is a group that the document lacks.
fn group_of(row: &Statistic) -> Option<&'static str> {
    let inner = row.takes.split(['<', '>']).find(|part| !["Vec", "Option"].contains(part)).expect("it has a type");
    // What is shown of a histogram.
    let inner = if inner == "Histogram" { "Percentiles" } else { inner };
    let found = STATISTIC_GROUPS.into_iter().map(|(group, ..)| group).find(|group| *group == inner);
    let is_value = ["bool", "u32", "u64", "usize", "f64", "String"].contains(&inner);
    assert!(is_value || found.is_some(), "add a group for `{}: {}`", row.name, row.takes);
    found
}

const STATISTIC_GROUPS: [(&str, &str, &[Statistic]); 16] = [
    ("Stats", "The database as a whole: `Db::stats()`.", Stats::TABLE),
    ("DecisionStats", "One decision of the navigator.", DecisionStats::TABLE),
    ("MemtableStats", "One memtable.", MemtableStats::TABLE),
    ("LevelStats", "One level of the tree.", LevelStats::TABLE),
    ("RunStats", "One run.", RunStats::TABLE),
    ("RunLookups", "Sampled lookups that reached a run.", RunLookups::TABLE),
    ("JobStats", "One flush or compaction in progress.", JobStats::TABLE),
    ("SpaceStats", "Space of tables on storage.", SpaceStats::TABLE),
    ("DiskStats", "Space of the disk.", DiskStats::TABLE),
    ("MemoryStats", "Memory by part.", MemoryStats::TABLE),
    ("LookupCounts", "Lookups, counted exactly.", LookupCounts::TABLE),
    ("ScanCounts", "Scans, counted exactly.", ScanCounts::TABLE),
    ("LatencyStats", "Latencies of sampled operations, by kind.", LatencyStats::TABLE),
    ("Percentiles", "What is shown of a histogram of latencies.", Percentiles::TABLE),
    ("ReadStats", "Reads from tables, by reader.", ReadStats::TABLE),
    ("ReaderStats", "Reads from tables by one kind of reader.", ReaderStats::TABLE),
];

const STATISTICS: &str = "\
# Statistics

Generated from the tables in `crates/tamarack/src/stats`, as are the fields of `Stats` and their documentation; `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite documents`
writes it anew, and the test fails if it is out of date.

`Db::stats()` returns the values; `Stats::figures()` returns them with names and units, for programs that export all of them. `tamarack stats --json` prints
them by these names; counters of the engine are in `since_opening` there. The fields of `space` stand at the top level there, and `lookups_sampled` is `lookups.sampled`.

Raw bytes are those of entries: key, value, and 8 for each entry. File bytes are those of SSTables on storage, after compression.

Latencies are histograms (`Histogram`): percentiles are within 3.1 %; number, sum and longest are exact; and they can be added (`a + b`), over threads, databases or machines.

The last column is the metric of `Stats::to_openmetrics` (feature `metrics`) and `tamarack stats --openmetrics`, in base units: counters end in `_total`; those of levels have the label
`level`, those of memtables `state` (`active`, `immutable`), those of jobs `kind` (`flush`, `compaction`) and `level`, those of `reads` `reader`; those of runs are sums over the runs of a
level; those of decisions are of the last one. Latencies are histograms in seconds, of which a monitoring system computes percentiles. A flag is 1 or 0, as is an error: 1 if
there is one. A row without a metric is a group, a label, or a text of ever new values.
";
