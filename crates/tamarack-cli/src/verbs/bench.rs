//! `tamarack bench`: how fast a database is here, by workloads that people know.
//!
//! ```text
//! names ── plan: a load first ──► for each: a load makes a new database ── Measurement::run ──► rows ──► table, the tree, write amplification
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{ArgPredicate, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::{Map, Value};
use tamarack::{Db, Options, Stats};
use tamarack_env::os::OsEnv;
use tamarack_env::sync::atomic::AtomicU64;
use tamarack_env::{Env, TempDir};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::table::{grouped, plural};
use crate::show::{Output, json, tree, workloads as shown};
use crate::size::{parse_bytes, show_bytes};
use crate::verb::Verb;
use crate::workloads::data::{Data, ENTRIES_MAX, KEY_BYTES};
use crate::workloads::measure::{Limit, Measured, Measurement};
use crate::workloads::{WORKLOADS, Workload};

pub(super) const VERB: Verb = Verb {
    name: "bench",
    summary: "Measure how fast a database is here, by well-known workloads",
    help: "\
Makes a database in a directory of its own, runs workloads on it one after the
other, and removes it. A load (fillseq, fillrandom, ycsb-load) begins with an
empty database and stores every entry once; all others work on what the load
before them left, and if there is none, one is put before them. Keys have 16
bytes; values compress to about a half. The ycsb workloads draw entries by
Zipf's law with exponent 0.99, scattered over all keys, or the latest ones;
values are written whole, and --value-size 1000 is what YCSB has.

The table shows operations per second, of all clients together; megabytes of
keys and values per second; and within what time half of the operations ended,
99 of 100, and 999 of 1000. Of blocks it shows how many an operation needed,
wherever they were, how many the models predict by the filters' promises and the
tree's runs, and how many were read from storage; a scan reads ahead, so that it
may read more than it needs. After a workload that wrote, the time is shown in
which the tree settled: that is not part of the rate. Below are the tree as it
was in the end, and how many bytes were written into levels for each byte that
was flushed, since the last load.

--threads is how many threads flush and merge; --clients is how many threads do
operations. What is read may come from the page cache of the operating system,
unless --direct-io is given. If this is interrupted, its directory stays.",
    examples: "\
tamarack bench  # a handful of workloads, in less than a minute
tamarack bench fillrandom readrandom readmissing --direct-io --cache 0
tamarack bench ycsb-load ycsb-a ycsb-b ycsb-c --value-size 1000 --clients 2
tamarack bench fillrandom seekrandom --policy tiering:T=4 --entries 5000000",
    arguments,
    run,
};

/// What runs if nothing is named.
const DEFAULT: &[&str] = &[
    "fillseq",
    "fillrandom",
    "overwrite",
    "readrandom",
    "readmissing",
    "readwhilewriting",
    "seekrandom-next10",
    "ycsb-a",
    "ycsb-c",
];

/// Values beyond this say more about memory than about a database.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// A week.
const SECONDS_MAX: u64 = 7 * 24 * 3600;

/// More clients than this are a mistake in typing.
const CLIENTS_MAX: u64 = 1024;

fn arguments() -> Vec<Arg> {
    let number = |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("COUNT").help(help);
    let mut arguments = vec![
        Arg::new("workload")
            .value_name("WORKLOAD")
            .help(list_of_workloads())
            .num_args(1..)
            .action(ArgAction::Append)
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(WORKLOADS.iter().map(|workload| workload.name))),
        number("entries", "How many entries a load stores")
            .default_value("1000000")
            .value_parser(value_parser!(u64).range(1..=ENTRIES_MAX)),
        Arg::new("value-size")
            .long("value-size")
            .value_name("SIZE")
            .help("The size of values")
            .default_value("100")
            .value_parser(parse_bytes),
        number("clients", "How many threads do operations")
            .default_value("1")
            .value_parser(value_parser!(u64).range(1..=CLIENTS_MAX)),
        Arg::new("seconds")
            .long("seconds")
            .value_name("SECONDS")
            .help("How long each workload goes on that is no load")
            .default_value("3")
            .value_parser(value_parser!(u64).range(1..=SECONDS_MAX)),
        number("operations", "End after so many operations instead, of all clients together")
            .value_parser(value_parser!(u64).range(1..))
            .conflicts_with("seconds"),
        Arg::new("dir")
            .long("dir")
            .value_name("DIR")
            .help("Where to make the database's directory, on the device that is to\nbe measured [default: here]")
            .default_value(".")
            .hide_default_value(true)
            .value_parser(value_parser!(PathBuf)),
        number("seed", "Where random numbers begin").default_value("1").value_parser(value_parser!(u64)),
    ];
    arguments.extend(database::write_arguments().map(|argument| match argument.get_id().as_str() {
        "memory" => argument.help(
            "The memory for buffers and caches, such as 1GiB [default: what\nthe buffer and the cache make of it]",
        ),
        _ => argument,
    }));
    arguments.extend(database::merge_arguments());
    let small = |argument: Arg, size: &'static str| {
        argument.default_value(size).default_value_if("memory", ArgPredicate::IsPresent, None::<&str>)
    };
    arguments.extend(database::tuning_arguments().map(|argument| {
        match argument.get_id().as_str() {
            "buffer" => {
                small(argument, "8MiB").help("The size at which a buffer is flushed; with --memory an eighth\nof that")
            }
            "block-size" => argument.help("The size of a table's blocks before compression").default_value("4KiB"),
            "cache" => small(argument, "32MiB")
                .help("The most that the block cache takes; with --memory what other\nparts leave of that"),
            _ => argument,
        }
    }));
    arguments
}

/// What may be named, from the one list.
fn list_of_workloads() -> String {
    let width = WORKLOADS.iter().map(|workload| workload.name.len()).max().unwrap_or(0);
    let lines = WORKLOADS.iter().map(|workload| {
        let mark = if DEFAULT.contains(&workload.name) { '*' } else { ' ' };
        format!("\n{mark} {:width$}  {}", workload.name, workload.words)
    });
    format!("What to do, in this order; those with * if none is named:{}", lines.collect::<String>())
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let mut bench = Bench::given(matches)?;
    let plan = plan(matches);
    let count = plan.len();
    let measured = plan.into_iter().enumerate().map(|(index, workload)| {
        let bar = Progress::thousandths(format!("{} ({} of {count})", workload.name, index + 1));
        bench.measure(workload, &mut |share| bar.set((share.clamp(0.0, 1.0) * 1000.0) as u64))
    });
    let measured = measured.collect::<Result<Vec<Measured>, Failure>>()?;
    let stats = bench.end()?;
    let (headline, table, end) = (bench.headline(), shown::workloads(&measured), tree_and_writes(&stats));
    let text = format!("{headline}\n\n{table}\n{}\n\n{end}", shown::LEGEND);
    output.result(Some(&text), bench.for_programs(&measured, &stats))?;
    Ok(Outcome::Done)
}

/// The workloads in their order, a load first.
fn plan(matches: &ArgMatches) -> Vec<&'static Workload> {
    let named = matches.get_many::<String>("workload");
    let names: Vec<&str> = named.map_or_else(|| DEFAULT.to_vec(), |names| names.map(String::as_str).collect());
    let find = |name| Workload::named(name).expect("the parser knows the list");
    let mut plan: Vec<_> = names.into_iter().map(find).collect();
    let first = plan.first().filter(|first| !first.is_load()).map(|first| first.name);
    if let Some(first) = first {
        plan.insert(0, find(if first.starts_with("ycsb") { "ycsb-load" } else { "fillrandom" }));
    }
    plan
}

/// Measurements under way.
struct Bench {
    env: Arc<dyn Env>,
    parent: PathBuf,
    options: Options,
    /// What was asked of the database: names and words.
    settings: Vec<(&'static str, String)>,
    data: Data,
    clients: u64,
    limit: Limit,
    seed: u64,
    block_bytes: u64,
    /// What the last load made.
    loaded: Option<Loaded>,
}

/// A database, and where it is. The directory goes after the database.
struct Loaded {
    db: Db,
    _dir: TempDir,
    /// How many entries were ever stored in it.
    stored: AtomicU64,
}

impl Bench {
    fn given(matches: &ArgMatches) -> Result<Self, Failure> {
        let number = |name| *matches.get_one::<u64>(name).expect("it has a default");
        let seconds = || Limit::Time(Duration::from_secs(number("seconds")));
        let value_bytes = usize::try_from(number("value-size")).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
        let too_large = || Failure::Usage(format!("value-size: at most {}", show_bytes(VALUE_BYTES_MAX as u64)));
        Ok(Self {
            env: OsEnv::new(),
            parent: matches.get_one::<PathBuf>("dir").expect("it has a default").clone(),
            options: database::tuned_options(matches)?,
            settings: settings(matches),
            data: Data::new(number("entries"), value_bytes.ok_or_else(too_large)?),
            clients: number("clients"),
            limit: matches.get_one("operations").map_or_else(seconds, |operations| Limit::Operations(*operations)),
            seed: number("seed"),
            block_bytes: number("block-size"),
            loaded: None,
        })
    }

    /// Runs one workload; a load on a new database.
    fn measure(&mut self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<Measured, Failure> {
        if workload.is_load() {
            // Two databases at once would share the device, and its space.
            drop(self.loaded.take());
            self.loaded = Some(Loaded::new(&self.parent, &self.options, self.data.entries)?);
        }
        let loaded = self.loaded.as_ref().expect("a load comes first");
        let measurement = Measurement {
            db: &loaded.db,
            env: &*self.env,
            data: &self.data,
            clients: self.clients,
            limit: self.limit,
            seed: self.seed,
            block_bytes: self.block_bytes,
            stored: &loaded.stored,
        };
        Ok(measurement.run(workload, progress)?)
    }
    /// Closes and removes what the last load made; returns what it looked like.
    fn end(&mut self) -> Result<Stats, Failure> {
        let loaded = self.loaded.take().expect("a load comes first");
        let stats = loaded.db.stats();
        loaded.db.close()?;
        Ok(stats)
    }

    /// What was measured, in a line or two.
    fn headline(&self) -> String {
        let Data { entries, value_bytes, .. } = self.data;
        let limit = match self.limit {
            Limit::Time(time) => format!("{} s each", time.as_secs()),
            Limit::Operations(operations) => format!("{} each", plural(operations, "operation")),
        };
        let of = |(name, words): &(&str, String)| {
            if words == "true" { (*name).to_owned() } else { format!("{name} {words}") }
        };
        let settings: Vec<String> = self.settings.iter().map(of).collect();
        format!(
            "{} of {KEY_BYTES} + {} bytes, {} in all; {}, {limit}\n{}",
            plural(entries, "entry"),
            grouped(value_bytes as u64),
            show_bytes(entries.saturating_mul(self.data.entry_bytes())),
            plural(self.clients, "client"),
            settings.join(", ")
        )
    }

    fn for_programs(&self, measured: &[Measured], stats: &Stats) -> Map<String, Value> {
        let settings = self.settings.iter().map(|(name, words)| (name.replace('-', "_"), words.as_str().into()));
        let rows = measured.iter().map(|measured| Value::Object(shown::for_programs(measured)));
        let runs = stats.levels.iter().flat_map(|level| &level.runs);
        let tree = json::object([
            ("policy", stats.policy.as_str().into()),
            ("levels", stats.levels.len().into()),
            ("runs", runs.clone().count().into()),
            ("entries", runs.map(|run| run.entries).sum::<u64>().into()),
            ("live_bytes", stats.space.live_bytes.into()),
            ("stale_bytes", stats.space.stale_bytes.into()),
            ("pending_delete_bytes", stats.space.pending_delete_bytes.into()),
            ("log_bytes", stats.log_bytes.into()),
        ]);
        let (seconds, operations) = match self.limit {
            Limit::Time(time) => (Some(time.as_secs()), None),
            Limit::Operations(operations) => (None, Some(operations)),
        };
        json::object([
            ("entries", self.data.entries.into()),
            ("key_bytes", KEY_BYTES.into()),
            ("value_bytes", self.data.value_bytes.into()),
            ("clients", self.clients.into()),
            ("seconds_each", seconds.into()),
            ("operations_each", operations.into()),
            ("settings", Value::Object(settings.collect())),
            ("workloads", Value::Array(rows.collect())),
            ("tree", Value::Object(tree)),
            ("write_amplification", stats.write_amplification().into()),
        ])
    }
}

impl Loaded {
    /// A new database in a directory of its own, to which so many entries will be loaded.
    fn new(parent: &Path, options: &Options, entries: u64) -> Result<Self, Failure> {
        let dir = TempDir::below(parent).map_err(|error| {
            Failure::Storage(format!("{}: {error}; name a directory that can be written with --dir", parent.display()))
        })?;
        Ok(Self { db: options.open(dir.path())?, _dir: dir, stored: AtomicU64::new(entries) })
    }
}

/// The options that were given, or have defaults, as they were written.
fn settings(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let words = |name| {
        let mut raw = matches.get_raw(name)?;
        raw.next().map(|word| (name, word.to_string_lossy().into_owned()))
    };
    let is_meant = |(name, word): &(&str, String)| *name != "direct-io" || word == "true";
    let names =
        ["buffer", "cache", "memory", "filter", "compression", "block-size", "durability", "threads", "direct-io"];
    names.into_iter().filter_map(words).filter(is_meant).collect()
}

/// How the tree is, and what writing it took.
fn tree_and_writes(stats: &Stats) -> String {
    let (space, entries) = (&stats.space, stats.levels.iter().map(|level| level.total().entries).sum());
    let used_up = space.stale_bytes + space.pending_delete_bytes;
    let tree = format!(
        "tree    {}, {} in {}; beside it {} of tables that are used up, {} of log",
        tree::shape(stats),
        plural(entries, "entry"),
        show_bytes(space.live_bytes),
        show_bytes(used_up),
        show_bytes(stats.log_bytes)
    );
    let writes = stats.write_amplification().map(|amplification| {
        format!("\nwrites  {amplification:.2} bytes written into levels for each byte flushed (write amplification)")
    });
    tree + &writes.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{TestDir, run, run_ok};

    /// All workloads, small, on two clients: each does what it should as often as it should, and nothing stays behind.
    #[test]
    fn all_workloads() {
        let dir = TestDir::new("all_workloads");
        let parent = dir.join(".");
        let small =
            ["--entries", "3000", "--operations", "601", "--clients", "2", "--buffer", "20KiB", "--dir", &parent];
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let text = run_ok(&[&["bench", "--json"], &names[..], &small, &["--policy", "tiering:T=3"]].concat());
        let shown: Value = serde_json::from_str(&text).expect("it is JSON");
        let rows = shown["workloads"].as_array().expect("rows");
        assert_eq!(rows.iter().map(|row| &row["workload"]).collect::<Vec<_>>(), names);
        for row in rows {
            let name = row["workload"].as_str().expect("a name");
            let number = |member: &str| row[member].as_f64().unwrap_or_else(|| panic!("{name} has {member}: {row}"));
            let workload = Workload::named(name).expect("it is in the list");
            assert_eq!(number("operations"), if workload.is_load() { 3000.0 } else { 601.0 }, "{name}");
            assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("p999_ns"), "{row}");
            assert!(number("operations_per_second") > 0.0 && number("bytes_per_second") >= 0.0, "{row}");
            assert_eq!(row["settling_seconds"].is_number(), workload.writes(), "{row}");
            assert_eq!(row["writer"].is_object(), name == "readwhilewriting", "{row}");
            let (lookups, found) = (number("lookups"), number("found"));
            match name {
                "readmissing" => assert_eq!((lookups, found, number("bytes")), (601.0, 0.0, 0.0)),
                // A client may look for what the other has not quite stored.
                "ycsb-d" => assert!(lookups > 500.0 && found > 0.9 * lookups, "{row}"),
                "ycsb-a" => assert!((200.0..400.0).contains(&lookups) && found == lookups, "{row}"),
                _ => assert_eq!(found, lookups, "{row}"),
            }
            let entries = match name {
                "seekrandom-next10" => 11.0,
                "readrandom" | "overwrite" | "seekrandom" => 1.0,
                _ => continue,
            };
            // The last places have fewer entries after them.
            let bytes = entries * 601.0 * 116.0;
            assert!(number("bytes") <= bytes && number("bytes") > 0.98 * bytes, "{row}");
        }
        // Whatever a write did to the tree, each entry of the last load is in it.
        assert!(shown["tree"]["entries"].as_f64() >= Some(3000.0), "{}", shown["tree"]);
        assert!(shown["write_amplification"].as_f64() >= Some(1.0), "{text}");
        assert_eq!(shown["settings"]["buffer"], "20KiB");
        assert_eq!(OsEnv::new().list(Path::new(&parent)).expect("it is there"), [""; 0]);
    }

    /// Without a cache, what is read is what is needed, and both are what the tree predicts.
    #[test]
    fn blocks_are_as_predicted() {
        let dir = TestDir::new("blocks_are_as_predicted");
        let parent = dir.join(".");
        let words =
            ["--entries", "40000", "--operations", "20000", "--buffer", "400KiB", "--cache", "0", "--dir", &parent];
        let names = ["fillrandom", "readrandom", "readmissing", "seekrandom"];
        let text = run_ok(&[&["bench", "--json"], &names[..], &words, &["--policy", "tiering:T=4"]].concat());
        let shown: Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(shown["tree"]["runs"].as_u64() > Some(2), "{}", shown["tree"]);
        for row in &shown["workloads"].as_array().expect("rows")[1..] {
            let of = |member: &str| row[member].as_f64().unwrap_or_else(|| panic!("{member}: {row}"));
            let (predicted, read) = (of("blocks_predicted_per_operation"), of("blocks_read_per_operation"));
            match row["workload"].as_str() {
                // A scan reads ahead in one run.
                Some("seekrandom") => assert!(read > 0.9 * predicted && read < predicted + 6.0, "{row}"),
                _ => {
                    assert_eq!(of("blocks_needed_per_operation"), read, "{row}");
                    assert!((read - predicted).abs() < 0.15 * predicted + 0.003, "{row}");
                }
            }
        }
    }

    /// A load is put before what needs one, once, and the table has a line for each workload.
    #[test]
    fn a_load_comes_first() {
        let dir = TestDir::new("a_load_comes_first");
        let parent = dir.join(".");
        let small = ["--entries", "1000", "--operations", "100", "--dir", &parent];
        for (names, expected) in [
            (&["readrandom", "readmissing"][..], &["fillrandom", "readrandom", "readmissing"][..]),
            (&["ycsb-b"][..], &["ycsb-load", "ycsb-b"][..]),
            (&["fillseq", "ycsb-b"][..], &["fillseq", "ycsb-b"][..]),
            (&["readwhilewriting"][..], &["fillrandom", "readwhilewriting", "its"][..]),
        ] {
            let text = run_ok(&[&["bench"], names, &small].concat());
            assert!(
                text.starts_with("1,000 entries of 16 + 100 bytes, 113.3 KiB in all; 1 client, 100 operations each\n"),
                "{text}"
            );
            let table = text.split("\n\n").nth(1).expect("there is a table");
            let firsts: Vec<_> = table.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
            assert_eq!(firsts[1..=expected.len()], *expected, "{text}");
            assert!(text.contains("\ntree    leveling:T=10: ") && text.contains("(write amplification)"), "{text}");
        }
    }

    /// Wrong words are refused before anything is made, and the help lists every workload.
    #[test]
    fn wrong_words_and_help() {
        let dir = TestDir::new("wrong_words_and_help");
        let none = dir.join("none");
        for (words, status, explanation) in [
            (&["bench", "fillslow"][..], 2, "fillseq"),
            (&["bench", "--entries", "0"][..], 2, "--entries"),
            (&["bench", "--value-size", "1TiB"][..], 2, "at most 64.0 MiB"),
            (&["bench", "--seconds", "1", "--operations", "1"][..], 2, "--seconds"),
            (&["bench", "--dir", &none][..], 3, "--dir"),
        ] {
            let ran = run(words);
            assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{words:?}: {}", ran.err);
            assert!(ran.err.contains(explanation), "{words:?}: {}", ran.err);
        }
        let help = run_ok(&["bench", "--help"]);
        for workload in WORKLOADS {
            assert!(help.contains(&format!("{} ", workload.name)) && help.contains(workload.words), "{help}");
        }
    }
}
