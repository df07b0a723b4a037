//! `tamarack bench`: throughput, latency and amplification of well-known workloads.
//!
//! ```text
//! names ── plan: a load first ──► each workload: load a database ─ Measurement::run ──► tables
//!          or --database: its keys ──────────────────────────────────────────┘
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
use crate::subcommand::Subcommand;
use crate::workloads::data::{Data, ENTRIES_MAX, KEY_BYTES_MAX, KEY_BYTES_MIN};
use crate::workloads::measure::{Limit, Measured, Measurement};
use crate::workloads::sample::Sample;
use crate::workloads::{WORKLOADS, Workload};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "bench",
    summary: "Measure throughput, latency and block reads of a database by well-known workloads",
    help: "\
Creates a database in a temporary directory, runs the workloads one after the other,
and removes it. With --database it measures an existing database, which stays. A load
(fillseq, fillrandom, ycsb-load) starts with an empty database and stores every entry
once; the other workloads use the database of the load before them. If the first
workload is not a load, a load is run first. Values compress to about one half. The
ycsb workloads draw keys from a Zipfian distribution with exponent 0.99, scattered over
all keys, or the latest keys; updates write whole values. YCSB itself uses --value-size
1000. The moose workloads are those of Table 4 of the MOOSE paper, with ranges of 10
entries; the paper uses --key-size 24 --value-size 1000.

With --database, workloads use a uniform random sample of at most 100,000 keys of DB.
Workloads that write are refused unless --overwrite allows them to replace values and
to insert new keys. The database keeps its policy, memtable size and filters; with the
policy auto, which is that of a new database, they change with the workload, and the
changes are listed at the end: give --policy to measure one.

The first table shows throughput in operations per second (all clients together) and in
MB/s of keys and values, and latency percentiles; workloads with several kinds of
operations have a line for each kind. Blocks are counted per operation: those that an
operation needed, in the block cache or not; those that the models predict from the
filters and the runs; and those that were read from storage. A scan reads ahead, and so
may read more than it needs. The models assume no cache; beside writers that are
unevenly spread they predict nothing.

The second table is about workloads that wrote: write amplification and its prediction
(if no memtable was filled, that is one small flush, and means little), space
amplification, the time of write throttling and write stalls, and the time in which
compactions settled the tree afterwards, which is not part of the throughput. The last
table shows the tree at the end. --json prints one object per workload.

--threads is the number of threads for flushes and compactions, --clients the number of
threads that run operations. Reads may be served by the operating system's page cache
unless --direct-io is given. If the command is interrupted, its directory remains.",
    examples: "\
tamarack bench  # a handful of workloads, in less than a minute
tamarack bench fillrandom readrandom readmissing --direct-io --cache 0
tamarack bench ycsb-load ycsb-a ycsb-b ycsb-c --value-size 1000 --clients 2
tamarack bench moose-a moose-b moose-j --key-size 24 --value-size 1000
tamarack bench fillrandom seekrandom --policy tiering:T=4 --entries 5000000
tamarack bench readrandom readmissing seekrandom --database names.db",
    arguments,
    run,
};

/// The workloads that run by default.
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

/// Larger values would measure memory, not the database.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// A week.
const SECONDS_MAX: u64 = 7 * 24 * 3600;

/// More clients than this are a typing error.
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
        number("entries", "Number of entries that a load stores")
            .default_value("1000000")
            .value_parser(value_parser!(u64).range(1..=ENTRIES_MAX)),
        Arg::new("key-size")
            .long("key-size")
            .value_name("SIZE")
            .help("Size of keys, 16 to 128")
            .default_value("16")
            .value_parser(parse_bytes),
        Arg::new("value-size")
            .long("value-size")
            .value_name("SIZE")
            .help("Size of values")
            .default_value("100")
            .value_parser(parse_bytes),
        number("clients", "Threads that run operations")
            .default_value("1")
            .value_parser(value_parser!(u64).range(1..=CLIENTS_MAX)),
        Arg::new("seconds")
            .long("seconds")
            .value_name("SECONDS")
            .help("Duration of each workload that is not a load")
            .default_value("3")
            .value_parser(value_parser!(u64).range(1..=SECONDS_MAX)),
        number("operations", "End a workload after COUNT operations instead, of all clients together")
            .value_parser(value_parser!(u64).range(1..))
            .conflicts_with("seconds"),
        Arg::new("dir")
            .long("dir")
            .value_name("DIR")
            .help("Parent of the temporary directory, on the device to measure\n[default: the current directory]")
            .default_value(".")
            .hide_default_value(true)
            .value_parser(value_parser!(PathBuf)),
        Arg::new("db")
            .long("database")
            .value_name("DB")
            .help("Measure this database; workloads that write need --overwrite")
            .conflicts_with_all([
                "dir",
                "entries",
                "key-size",
                "memory",
                "policy",
                "filter",
                "no-digests",
                "space-max",
                "buffer",
                "compression",
            ])
            .value_parser(value_parser!(PathBuf)),
        Arg::new("overwrite")
            .long("overwrite")
            .help("Allow workloads to change the data in DB")
            .requires("db")
            .action(ArgAction::SetTrue),
        number("seed", "Seed of the random numbers").default_value("1").value_parser(value_parser!(u64)),
    ];
    arguments.extend(database::write_arguments().map(|argument| match argument.get_id().as_str() {
        "memory" => argument.help("Memory budget, such as 1GiB [default: what --buffer and --cache\nneed]"),
        _ => argument,
    }));
    arguments.extend(database::compaction_arguments());
    let small = |argument: Arg, size: &'static str| {
        argument.default_value(size).default_value_if("memory", ArgPredicate::IsPresent, None::<&str>)
    };
    arguments.extend(database::advanced_arguments().map(|argument| {
        match argument.get_id().as_str() {
            "buffer" => {
                small(argument, "8MiB").help("Size of the memtable (the papers' buffer); with --memory 1/8 of\nit")
            }
            "block-size" => argument.help("Size of data blocks before compression").default_value("4KiB"),
            "cache" => small(argument, "32MiB")
                .help("Capacity of the block cache; with --memory what other\ncomponents leave of it"),
            _ => argument,
        }
    }));
    arguments
}

/// The list of workloads, for the help.
fn list_of_workloads() -> String {
    let width = WORKLOADS.iter().map(|workload| workload.name.len()).max().unwrap_or(0);
    let lines = WORKLOADS.iter().map(|workload| {
        let mark = if DEFAULT.contains(&workload.name) { '*' } else { ' ' };
        format!("\n{mark} {:width$}  {}", workload.name, workload.summary)
    });
    format!("Workloads, in this order [default: those marked *]:{}", lines.collect::<String>())
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let plan = plan(matches)?;
    let mut bench = Bench::given(matches, output)?;
    let count = plan.len();
    let measured = plan.into_iter().enumerate().map(|(index, workload)| {
        let bar = Progress::thousandths(format!("{} ({} of {count})", workload.name, index + 1));
        bench.measure(workload, &mut |share| bar.set((share.clamp(0.0, 1.0) * 1000.0) as u64))
    });
    let measured = measured.collect::<Result<Vec<Measured>, Failure>>()?;
    let stats = bench.end()?;
    if output.is_json() {
        for measured in &measured {
            let mut object = shown::for_programs(measured);
            object.insert("settings".to_owned(), Value::Object(bench.settings_for_programs()));
            output.line(&Value::Object(object).to_string())?;
        }
        return Ok(Outcome::Done);
    }
    output.line(&format!("{}\n\n{}\n{}\n", bench.headline(), shown::workloads(&measured), shown::LEGEND))?;
    if let Some(writes) = shown::writes(&measured) {
        output.line(&format!("{writes}\n{}\n", shown::LEGEND_OF_WRITES))?;
    }
    output.line(&tree_at_the_end(&stats))?;
    for change in stats.decisions.iter().filter(|decision| decision.is_change) {
        output.line(&format!(
            "\ndesign changed: {}, {}, memtables of {}, blocks of {}\nto {}, {}, memtables of {}, blocks of {}\n{}",
            change.policy_before,
            change.filter_before,
            show_bytes(change.memtable_bytes_before),
            show_bytes(change.block_bytes_before),
            change.policy,
            change.filter,
            show_bytes(change.memtable_bytes),
            show_bytes(change.block_bytes),
            change.reason
        ))?;
    }
    Ok(Outcome::Done)
}

/// The workloads in their order: a load first, or none on an existing database.
fn plan(matches: &ArgMatches) -> Result<Vec<&'static Workload>, Failure> {
    let find = |name: &str| Workload::named(name).expect("the parser knows the list");
    let named = matches.get_many::<String>("workload");
    let named = named.map(|names| names.map(|name| find(name)).collect::<Vec<_>>());
    let default = || DEFAULT.iter().map(|name| find(name));
    if matches.contains_id("db") {
        let overwrite = matches.get_flag("overwrite");
        let may = |workload: &&Workload| !workload.is_load() && (overwrite || !workload.writes());
        let plan = named.unwrap_or_else(|| default().filter(may).collect());
        return match plan.iter().find(|workload| !may(workload)) {
            None => Ok(plan),
            Some(load) if load.is_load() => Err(Failure::Usage(format!(
                "{} needs an empty database, which bench creates itself: leave it out, or leave out --database",
                load.name
            ))),
            Some(writes) => Err(Failure::Usage(format!(
                "{} changes the data of the database: measure a copy with --overwrite, or leave it out",
                writes.name
            ))),
        };
    }
    let mut plan = named.unwrap_or_else(|| default().collect());
    let first = plan.first().filter(|first| !first.is_load()).map(|first| first.name);
    if let Some(first) = first {
        plan.insert(0, find(if first.starts_with("ycsb") { "ycsb-load" } else { "fillrandom" }));
    }
    Ok(plan)
}

/// A benchmark in progress.
struct Bench {
    env: Arc<dyn Env>,
    parent: PathBuf,
    options: Options,
    /// The options of the database, by name.
    settings: Vec<(&'static str, String)>,
    data: Data,
    clients: u64,
    limit: Limit,
    seed: u64,
    block_bytes: u64,
    /// The existing database to measure.
    given: Option<PathBuf>,
    /// The database of the last load, or the existing one.
    loaded: Option<Loaded>,
}

/// A database, with its directory if that is temporary; the directory is removed after the database
/// is closed.
struct Loaded {
    db: Db,
    _dir: Option<TempDir>,
    /// Number of entries ever stored in it.
    stored: AtomicU64,
}

impl Bench {
    fn given(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Self, Failure> {
        let number = |name| *matches.get_one::<u64>(name).expect("it has a default");
        let seconds = || Limit::Time(Duration::from_secs(number("seconds")));
        let value_bytes = usize::try_from(number("value-size")).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
        let too_large = || Failure::Usage(format!("value-size: at most {}", show_bytes(VALUE_BYTES_MAX as u64)));
        let value_bytes = value_bytes.ok_or_else(too_large)?;
        let given = matches.get_one::<PathBuf>("db").cloned();
        let (data, loaded) = match &given {
            Some(path) => {
                let db = database::open_to_measure(matches, output)?;
                let data = Data::found(sample(&db, path, number("seed"))?, value_bytes);
                let stored = AtomicU64::new(data.entries);
                (data, Some(Loaded { db, _dir: None, stored }))
            }
            None => (Data::new(number("entries"), key_bytes(number("key-size"))?, value_bytes), None),
        };
        Ok(Self {
            env: OsEnv::new(),
            parent: matches.get_one::<PathBuf>("dir").expect("it has a default").clone(),
            options: database::tuned_options(matches)?,
            settings: settings(matches),
            data,
            clients: number("clients"),
            limit: matches.get_one("operations").map_or_else(seconds, |operations| Limit::Operations(*operations)),
            seed: number("seed"),
            block_bytes: number("block-size"),
            given,
            loaded,
        })
    }

    /// Runs one workload; a load on a new database.
    fn measure(&mut self, workload: &Workload, progress: &mut dyn FnMut(f64)) -> Result<Measured, Failure> {
        if workload.is_load() {
            // Two databases at the same time would share the device and its space.
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

    /// Closes the database and removes a temporary one; returns its last statistics.
    fn end(&mut self) -> Result<Stats, Failure> {
        let loaded = self.loaded.take().expect("a load comes first");
        let stats = loaded.db.stats();
        loaded.db.close()?;
        Ok(stats)
    }

    /// One or two lines about the settings.
    fn headline(&self) -> String {
        let data = &self.data;
        let entries = data.all_entries();
        let limit = match self.limit {
            Limit::Time(time) => format!("{} s each", time.as_secs()),
            Limit::Operations(operations) => format!("{} each", plural(operations, "operation")),
        };
        let of = |(name, value): &(&str, String)| {
            if value == "true" { (*name).to_owned() } else { format!("{name} {value}") }
        };
        let settings: Vec<String> = self.settings.iter().map(of).collect();
        let what = match &self.given {
            Some(path) => format!("{}: {} of about", path.display(), plural(entries, "entry")),
            None => {
                let key_bytes = data.entry_bytes() - data.value_bytes as u64;
                format!("{} of {key_bytes} +", plural(entries, "entry"))
            }
        };
        let value_bytes = if self.given.is_some() { data.entry_bytes() } else { data.value_bytes as u64 };
        format!(
            "{what} {} bytes, {} in total; {}, {limit}\n{}",
            grouped(value_bytes),
            show_bytes(entries.saturating_mul(data.entry_bytes())),
            plural(self.clients, "client"),
            settings.join(", ")
        )
    }

    fn settings_for_programs(&self) -> Map<String, Value> {
        let values = self.settings.iter().map(|(name, value)| (name.replace('-', "_"), value.as_str().into()));
        let (seconds, operations) = match self.limit {
            Limit::Time(time) => (Some(time.as_secs()), None),
            Limit::Operations(operations) => (None, Some(operations)),
        };
        let members = json::object([
            ("database", self.given.as_ref().map(|path| path.display().to_string()).into()),
            ("entries", self.data.all_entries().into()),
            ("entry_bytes", self.data.entry_bytes().into()),
            ("value_bytes", self.data.value_bytes.into()),
            ("clients", self.clients.into()),
            ("seconds_each", seconds.into()),
            ("operations_each", operations.into()),
        ]);
        members.into_iter().chain(values).collect()
    }
}

/// Some of the keys of a database.
fn sample(db: &Db, path: &Path, seed: u64) -> Result<Sample, Failure> {
    let progress = Progress::records("reading the keys");
    let sample = Sample::of(db, seed, &mut |entries| progress.set(entries))?;
    if sample.entries == 0 {
        return Err(Failure::Usage(format!("{}: the database is empty; import something first", path.display())));
    }
    Ok(sample)
}

fn key_bytes(size: u64) -> Result<usize, Failure> {
    let bytes = usize::try_from(size).ok().filter(|bytes| (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| Failure::Usage(format!("key-size: from {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")))
}

impl Loaded {
    /// A new database in a temporary directory, for a load of `entries` entries.
    fn new(parent: &Path, options: &Options, entries: u64) -> Result<Self, Failure> {
        let dir = TempDir::below(parent).map_err(|error| {
            Failure::Storage(format!("{}: {error}; name a directory that can be written with --dir", parent.display()))
        })?;
        Ok(Self { db: options.open(dir.path())?, _dir: Some(dir), stored: AtomicU64::new(entries) })
    }
}

/// The options of the command line, with defaults, as written; for an existing database those that
/// are not its own.
fn settings(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let words = |name| {
        let mut raw = matches.get_raw(name)?;
        raw.next().map(|word| (name, word.to_string_lossy().into_owned()))
    };
    let is_meant = |(name, word): &(&str, String)| !["direct-io", "no-digests"].contains(name) || word == "true";
    let of_new = ["policy", "buffer", "memory", "filter", "no-digests", "space-max", "compression", "block-size"];
    let of_all = ["cache", "durability", "threads", "direct-io"];
    let of_new = of_new.into_iter().filter(|_| !matches.contains_id("db"));
    of_new.chain(of_all).filter_map(words).filter(is_meant).collect()
}

/// Size of the tree and of obsolete files.
fn tree_at_the_end(stats: &Stats) -> String {
    let (space, entries) = (&stats.space, stats.levels.iter().map(|level| level.total().entries).sum());
    let stale = space.stale_bytes + space.pending_delete_bytes;
    format!(
        "tree  {}, {} in {};\n      {} of stale SSTables, {} of WAL",
        tree::shape(stats),
        plural(entries, "entry"),
        show_bytes(space.live_bytes),
        show_bytes(stale),
        show_bytes(stats.wal_bytes)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{TestDir, run, run_ok};

    /// The objects that a run printed.
    fn objects(text: &str) -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    /// All workloads, small, with two clients: each runs the right operations, and no files remain.
    #[test]
    fn all_workloads() {
        let dir = TestDir::new("all_workloads");
        let parent = dir.join(".");
        let small =
            ["--entries", "3000", "--operations", "601", "--clients", "2", "--buffer", "20KiB", "--dir", &parent];
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let text = run_ok(
            &[&["bench", "--json"], &names[..], &small, &["--policy", "tiering:T=3", "--key-size", "20"]].concat(),
        );
        let rows = objects(&text);
        assert_eq!(rows.iter().map(|row| &row["workload"]).collect::<Vec<_>>(), names);
        for row in &rows {
            let name = row["workload"].as_str().expect("a name");
            let number = |member: &str| row[member].as_f64().unwrap_or_else(|| panic!("{name} has {member}: {row}"));
            let workload = Workload::named(name).expect("it is in the list");
            assert_eq!(number("ops"), if workload.is_load() { 3000.0 } else { 601.0 }, "{name}");
            assert!(number("ops_per_s") > 0.0 && number("bytes_per_s") >= 0.0 && number("seconds") > 0.0, "{row}");
            let ordered = |latency: &Value| {
                let times = ["p50", "p99", "p999", "max"].map(|name| latency[name].as_f64().expect("a number"));
                assert!(times.is_sorted() && times[3] > 0.0, "{row}");
            };
            ordered(&row["latency_us"]);
            // Each kind of operation of a mix has times of its own, and together they are all.
            let kinds = row["operations"].as_array().expect("an array");
            kinds.iter().for_each(|kind| ordered(&kind["latency_us"]));
            let sum: u64 = kinds.iter().map(|kind| kind["ops"].as_u64().expect("a number")).sum();
            assert_eq!(if kinds.is_empty() { 601 } else { sum }, 601, "{row}");
            let is_mix =
                name.starts_with("moose") || (name.starts_with("ycsb-") && !["ycsb-load", "ycsb-c"].contains(&name));
            assert_eq!(kinds.len(), if name.starts_with("moose") { 3 } else { 2 * usize::from(is_mix) }, "{row}");
            for member in ["settling_seconds", "write_amplification", "predicted_write_amplification"] {
                assert_eq!(row[member].is_number(), workload.writes(), "{member}: {row}");
            }
            assert_eq!(row["writer"].is_object(), name == "readwhilewriting", "{row}");
            assert!((0.99..10.0).contains(&number("space_amplification")), "{row}");
            assert!(number("stall_seconds") >= 0.0 && number("levels") >= 1.0 && number("runs") >= 1.0, "{row}");
            assert!((8.0..13.0).contains(&number("filter_bits_per_entry")), "{row}");
            assert_eq!(row["settings"]["buffer"], "20KiB");
            assert_eq!(row["settings"]["policy"], "tiering:T=3");
            // Whatever a write did to the tree, each entry of the last load is in it.
            assert!(row["tree"]["entries"].as_u64() >= Some(3000), "{row}");
            let (lookups, found) = (number("lookups"), number("found"));
            assert_eq!(row["false_positives_per_op"].is_number(), lookups > 0.0, "{row}");
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
            let bytes = entries * 601.0 * 120.0;
            assert!(number("bytes") <= bytes && number("bytes") > 0.98 * bytes, "{row}");
        }
        assert_eq!(OsEnv::new().list(Path::new(&parent)).expect("it is there"), [""; 0]);
    }

    /// Without a cache, blocks read are blocks needed, and both agree with the prediction. A load
    /// writes the bytes that the simulation predicts.
    #[test]
    fn what_is_measured_is_what_is_predicted() {
        let dir = TestDir::new("what_is_measured_is_what_is_predicted");
        let parent = dir.join(".");
        let words =
            ["--entries", "40000", "--operations", "20000", "--buffer", "400KiB", "--cache", "0", "--dir", &parent];
        let names = ["fillrandom", "readrandom", "readmissing", "seekrandom"];
        let rows = objects(&run_ok(&[&["bench", "--json"], &names[..], &words, &["--policy", "tiering:T=4"]].concat()));
        assert!(rows[0]["runs"].as_u64() > Some(2), "{}", rows[0]);
        let load = |member: &str| rows[0][member].as_f64().expect("a number");
        let (written, predicted) = (load("write_amplification"), load("predicted_write_amplification"));
        // Late compactions write less.
        assert!(predicted > 1.3 && (0.6..1.1).contains(&(written / predicted)), "{}", rows[0]);
        for row in &rows[1..] {
            let of = |member: &str| row[member].as_f64().unwrap_or_else(|| panic!("{member}: {row}"));
            let (predicted, read) = (of("predicted_block_reads_per_op"), of("block_reads_per_op"));
            match row["workload"].as_str() {
                // A scan reads ahead in one run.
                Some("seekrandom") => assert!(read > 0.9 * predicted && read < predicted + 6.0, "{row}"),
                _ => {
                    assert_eq!(of("blocks_needed_per_op"), read, "{row}");
                    assert!((read - predicted).abs() < 0.15 * predicted + 0.003, "{row}");
                }
            }
        }
    }

    /// An existing database is measured by its own keys, and changed only with --overwrite.
    #[test]
    fn a_database_that_is_there() {
        let dir = TestDir::new("a_database_that_is_there");
        let db = dir.join("db");
        let lines: String = (0..5000).map(|i| format!("key {i}\tvalue of {i}\n")).collect();
        run_ok(&["import", &db, &dir.file("in.tsv", lines), "--buffer", "50KiB", "--policy", "tiering:T=3"]);
        let before = run_ok(&["export", &db]);
        let few = ["--operations", "500", "--database", &db];
        let names = ["readrandom", "readmissing", "seekrandom-next10", "ycsb-c"];
        for row in objects(&run_ok(&[&["bench", "--json"], &names[..], &few].concat())) {
            let found = if row["workload"] == "readmissing" { 0 } else { row["lookups"].as_u64().expect("a number") };
            assert_eq!((row["found"].as_u64(), &row["settings"]["entries"]), (Some(found), &5000.into()), "{row}");
            assert_eq!(row["tree"]["policy"], "tiering:T=3");
        }
        let text = run_ok(&[&["bench"], &few[..]].concat());
        assert!(text.contains("db: 5,000 entries of about 20 bytes") && !text.contains("settled in"), "{text}");
        for (words, said) in
            [(&["ycsb-a"][..], "--overwrite"), (&["fillseq"], "empty"), (&["fillseq", "--overwrite"], "empty")]
        {
            let ran = run(&[&["bench"], words, &few].concat());
            assert!(ran.status == 2 && ran.err.contains(said), "{ran:?}");
        }
        for word in ["--policy", "--buffer", "--entries", "--dir", "--space-max"] {
            assert_eq!(run(&["bench", "--database", &db, word, "10"]).status, 2, "{word}");
        }
        assert_eq!(run(&["bench", "--overwrite"]).status, 2);
        assert_eq!(run_ok(&["export", &db]), before, "nothing has changed");

        let rows = objects(&run_ok(&[&["bench", "--json", "overwrite", "ycsb-d", "--overwrite"], &few[..]].concat()));
        assert!(rows.iter().all(|row| row["write_amplification"].is_number()), "{rows:?}");
        let after = run_ok(&["export", &db]);
        assert!(after != before && after.lines().count() > 5000, "{} lines", after.lines().count());
        assert_eq!(run(&["bench", "readrandom", "--database", &dir.join("none")]).status, 2);
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
            (&["readwhilewriting"][..], &["fillrandom", "readwhilewriting", "concurrent"][..]),
        ] {
            let text = run_ok(&[&["bench"], names, &small].concat());
            assert!(
                text.starts_with(
                    "1,000 entries of 16 + 100 bytes, 113.3 KiB in total; 1 client, 100 operations each\n"
                ),
                "{text}"
            );
            let table = text.split("\n\n").nth(1).expect("there is a table");
            let firsts: Vec<_> = table.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
            assert_eq!(firsts[1..=expected.len()], *expected, "{text}");
            assert!(text.contains("\ntree  auto:leveling:T=5,first=4: "), "{text}");
            let writes = text.split("\n\n").nth(2).expect("another table");
            assert!(writes.contains("  predicted  ") && writes.contains("settled in"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }

    /// Wrong arguments are refused before a database is created, and the help lists every workload.
    #[test]
    fn wrong_words_and_help() {
        let dir = TestDir::new("wrong_words_and_help");
        let none = dir.join("none");
        for (words, status, explanation) in [
            (&["bench", "fillslow"][..], 2, "fillseq"),
            (&["bench", "--entries", "0"][..], 2, "--entries"),
            (&["bench", "--value-size", "1TiB"][..], 2, "at most 64.0 MiB"),
            (&["bench", "--key-size", "15"][..], 2, "from 16 to 128"),
            (&["bench", "--seconds", "1", "--operations", "1"][..], 2, "--seconds"),
            (&["bench", "--dir", &none][..], 3, "--dir"),
        ] {
            let ran = run(words);
            assert_eq!((ran.status, ran.out.as_str()), (status, ""), "{words:?}: {}", ran.err);
            assert!(ran.err.contains(explanation), "{words:?}: {}", ran.err);
        }
        let help = run_ok(&["bench", "--help"]);
        for workload in WORKLOADS {
            assert!(help.contains(&format!("{} ", workload.name)) && help.contains(workload.summary), "{help}");
        }
    }
}
