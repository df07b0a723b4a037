//! `tamarack design`: predicts the shape, memory and costs of a tree without a database.

mod search;

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde_json::Value;
use tamarack::{Error, Options};
use tamarack_model::design::{Cost, Design, Priced, price};
use tamarack_model::device::Device;
use tamarack_model::filter::FilterChoice;
use tamarack_model::navigator::union::{Bounds, Limits, Request};
use tamarack_model::policy::{self, DATA_MAX};
use tamarack_model::prediction::{Length, Prediction, Question, Writes, predict};
use tamarack_model::simulate::{Pace, Seen};
use tamarack_model::workload::Workload;
use tamarack_model::{BUFFER_MAX, Bytes};

use crate::outcome::{Failure, Outcome};
use crate::show::table::{grouped, significant, table};
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;
use crate::{database, files, size};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "design",
    summary: "Predict the shape, memory and costs of a tree, without a database",
    help: "\
Prints the shape that a policy gives a tree of so many entries, the filters of each
level's runs, their memory, and the cost of operations, as the engine's models predict
them.

The tree is simulated: it is loaded with all entries, each key once, then written to
until as much has been flushed as the last level but one takes twice. `mean`, `least`
and `most` are over the moments after flushes of that phase. Keys are put again, each
as likely, unless --inserts or --skew say otherwise; without updates in the workload,
the tree is at rest after its load. `full tree` is the same for a tree that is as full
as its shape allows. Read amplification is given for three operations, without a cache:
  zero-result lookup  block reads of a lookup whose key does not exist
  existing lookup     block reads of a lookup whose key exists, each key as likely
  range seek          block reads up to the first entry of a scan
  update              write amplification: bytes written by flushes and compactions
                      for each byte flushed
  space               space amplification: bytes of all runs for each byte of live
                      entries; in the full tree every entry of a younger level replaces
                      one in an older level

With --policy auto and --memory, policies, filters and memtable sizes are compared for
the workload, and the best is shown, beside the best of each other kind of policy and
the defaults of other stores (Monkey's Table 4); the cache takes the memory that is left, and serves the reads that its size and --skew
promise. --what-if adds the best design and its time for half and twice the memory,
ten times the data, workloads that mostly read or write, and the other devices.

The time per operation is the sum of the mean costs over the workload, for one thread that
also waits for the compactions that it causes. It serves to compare designs. The device
is a name, a file that `tamarack calibrate --output` wrote, or a database in which
`tamarack calibrate` stored figures. Figures of names are assumed, not measured:
              block read  reads at once  read bandwidth  write bandwidth
  hdd               8 ms            1.8        180 MB/s         160 MB/s
  ssd             120 µs            9.6        500 MB/s         450 MB/s
  nvme            100 µs             16          2 GB/s           1 GB/s
  memory            1 µs              2         10 GB/s           5 GB/s
and, for all four, of processor time 20 ns per digest, 50 ns per probe of a Bloom
filter, 100 ns per probe of Chucky, 150 ns and 500 ns to find a block and an entry in
it, 50 ns per entry of a scan, 500 ns per entry of a compaction, and 2 µs per put.",
    examples: "\
tamarack design --entries 100000000 --entry-size 128
tamarack design --entries 100000000 --policy moose:last=0.8,k=1 --buffer 2MiB
tamarack design --entries 100000000 --device prices.db
tamarack design --entries 1000000 --workload zero-result=1,update=3 --json
tamarack design --entries 100000000 --policy auto --memory 2GiB --max update=5
tamarack design --entries 100000000 --policy auto --memory 2GiB --what-if",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let option = |name: &'static str, value, default, help| {
        Arg::new(name).long(name).value_name(value).help(help).default_value(default)
    };
    let size = |name, default, help| option(name, "SIZE", default, help).value_parser(size::parse_bytes);
    vec![
        Arg::new("entries")
            .long("entries")
            .value_name("COUNT")
            .help("Number of entries in the tree")
            .required(true)
            .value_parser(value_parser!(u64).range(1..)),
        size("entry-size", "100", "Size of an entry: key, value, and 8 bytes"),
        size("buffer", "32MiB", "Size of the memtable (the papers' buffer)"),
        option(
            "policy",
            "POLICY",
            "leveling:T=5,first=4",
            "Compaction policy; compact --help lists them. auto finds the policy,\n\
             filter and memtable size with the least time per operation\n",
        ),
        Arg::new("memory")
            .long("memory")
            .value_name("SIZE")
            .help("With --policy auto: memory for memtables, filters, indexes and\ncache")
            .value_parser(size::parse_bytes),
        Arg::new("max")
            .long("max")
            .value_name("BOUNDS")
            .help(
                "With --policy auto: upper bounds on mean costs, as in\n\
                 zero-result=0.1,existing=1.2,range=8,update=6,space=1.3",
            )
            .value_parser(search::parse_bounds),
        Arg::new("what-if")
            .long("what-if")
            .help("With --policy auto: the best design also for other amounts of\nmemory and data, other workloads and other devices")
            .action(ArgAction::SetTrue),
        option("filter", "FILTER", "blocked:bits=10,allocation=monkey", "Filters; import --help lists them\n"),
        size("block-size", "4KiB", "Size of data blocks"),
        option(
            "workload",
            "WEIGHTS",
            EVEN,
            "Weights of the operations; an operation that is not named\nhas weight 0\n",
        )
        .value_parser(parse_weights),
        option(
            "device",
            "DEVICE",
            NVME,
            "hdd, ssd, nvme, memory, a file with figures, or a database\nthat has been calibrated\n",
        ),
        option("range-entries", "COUNT", "0", "Entries that a scan reads after its first one")
            .value_parser(value_parser!(u64)),
        option("inserts", "SHARE", "0", "Share of updates that put new keys, from 0 to 1").value_parser(parse_share),
        option("skew", "THETA", "0", "Exponent of Zipf's law by which keys are put again, from 0 to 2\n")
            .value_parser(parse_theta),
    ]
}

fn parse_share(text: &str) -> Result<f64, String> {
    parse_within(text, 1.0)
}

fn parse_theta(text: &str) -> Result<f64, String> {
    parse_within(text, 2.0)
}

fn parse_within(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("give a number from 0 to {most}"))
}

/// The policy that stands for a search.
const AUTO: &str = "auto";

/// The device that is assumed if none is named.
const NVME: &str = "nvme";

/// The device that argument `device` means. A name comes before a file or a directory that is
/// called so, for which one can write `./nvme`.
fn device(name: &str) -> Result<Device, Failure> {
    if let Some(device) = Device::named(name) {
        return Ok(device);
    }
    let path = Path::new(name);
    if !path.exists() {
        let names = Device::NAMES.join(", ");
        return Err(Failure::Usage(format!("--device {name}: neither one of {names} nor a file or a database")));
    }
    if path.is_dir() {
        return stored_device(path);
    }
    files::read_text(path)?.parse().map_err(|error| Failure::Usage(format!("{name}: {error}")))
}

/// The device whose figures are stored with a database.
fn stored_device(dir: &Path) -> Result<Device, Failure> {
    let calibrate = format!("`tamarack calibrate {}`", dir.display());
    let stored = Options::new().calibration(dir).map_err(|error| match error {
        Error::Corruption { path, .. } => Failure::Storage(format!(
            "{}: damaged: its checksum does not fit the figures; run {calibrate} again",
            path.display()
        )),
        error => error.into(),
    })?;
    stored.ok_or_else(|| Failure::Usage(format!("{}: no figures are stored here; run {calibrate}", dir.display())))
}

/// Equal weights.
const EVEN: &str = "zero-result=1,existing=1,range=1,update=1";

/// The weights of `zero-result`, `existing`, `range` and `update`.
type Weights = [f64; 4];

fn parse_weights(text: &str) -> Result<Weights, String> {
    const NAMES: [&str; 4] = ["zero-result", "existing", "range", "update"];
    let explain =
        || format!("write weights as in `{EVEN}`: non-negative numbers, at least one above 0, each name once");
    let mut parts = [None; 4];
    for part in text.split(',') {
        let (name, number) = part.split_once('=').ok_or_else(explain)?;
        let at = NAMES.iter().position(|known| *known == name).ok_or_else(explain)?;
        let number = number.parse::<f64>().map_err(|_| explain())?;
        if parts[at].replace(number).is_some() {
            return Err(explain());
        }
    }
    let parts = parts.map(|part| part.unwrap_or(0.0));
    workload(parts, 0).map(|_| parts).ok_or_else(explain)
}

fn workload([zero_result, existing, ranges, updates]: Weights, range_entries: u64) -> Option<Workload> {
    Workload::of_parts(zero_result, existing, ranges, updates, range_entries as f64)
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let number = |name| *matches.get_one::<u64>(name).expect("it is required, or has a default");
    let specification = database::policy_specification(matches)?.expect("it has a default");
    let mut filter_specification: String = matches.get_one::<String>("filter").expect("it has a default").clone();
    let (entries, entry_bytes, block_bytes) = (number("entries"), number("entry-size"), number("block-size"));
    let mut buffer = Bytes(number("buffer"));
    if entry_bytes == 0 || block_bytes == 0 || buffer == Bytes::ZERO || buffer > BUFFER_MAX {
        return Err(Failure::Usage(format!(
            "--entry-size, --block-size and --buffer must be at least 1, and --buffer at most {BUFFER_MAX}"
        )));
    }
    let data = Bytes(entries) * entry_bytes;
    if data > DATA_MAX {
        return Err(Failure::Usage(format!(
            "{entries} entries of {entry_bytes} bytes exceed the largest tree that the models cover, {DATA_MAX}; give fewer or smaller entries"
        )));
    }
    let device_name: &String = matches.get_one("device").expect("it has a default");
    let device = device(device_name)?;
    let parts: Weights = *matches.get_one("workload").expect("it has a default");
    let workload = workload(parts, number("range-entries")).expect("the parser checks it");
    let share = |name| *matches.get_one::<f64>(name).expect("it has a default");
    let (inserts, theta) = (share("inserts"), share("skew"));
    let bounds = matches.get_one::<Bounds>("max").copied();
    let memory = matches.get_one::<u64>("memory").copied().map(Bytes);
    let wants_what_if = matches.get_flag("what-if");
    let (mut what_if, mut stores) = (Vec::new(), Vec::new());
    let answer = match (specification == AUTO, memory) {
        (true, Some(memory)) => {
            let bounds = bounds.unwrap_or_default();
            let request = Request {
                entries,
                entry_bytes,
                block_bytes,
                memory,
                workload,
                inserts,
                theta,
                device,
                bounds,
                limits: Limits::default(),
            };
            let answer = search::search(&request)?;
            stores = search::stores(&request);
            if wants_what_if {
                what_if = search::what_if(&request, device_name);
            }
            Some(answer)
        }
        (true, None) => return Err(Failure::Usage("--policy auto needs --memory, such as --memory 1GiB".to_owned())),
        (false, _) if memory.is_some() || bounds.is_some() || wants_what_if => {
            return Err(Failure::Usage("--memory, --max and --what-if are for --policy auto".to_owned()));
        }
        (false, _) => None,
    };
    let policy = match &answer {
        Some(answer) => {
            (filter_specification, buffer) = (answer.best.filter_specification.clone(), answer.best.buffer);
            answer.best.policy.clone()
        }
        None => policy::parse(&specification).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    let filter: FilterChoice = filter_specification.parse().map_err(|error| Failure::Usage(format!("{error}")))?;
    let design = Design { entries, entry_bytes, buffer, policy: &policy, filter, block_bytes };
    let priced = price(&design, &workload, &device);
    let writes = if workload.updates > 0.0 { Writes::Puts { inserts, theta } } else { Writes::Nothing };
    let scans = [1, number("range-entries").saturating_add(1)];
    let predicted = predict(
        &design,
        &Question { writes, scans: &scans, digits: 256.0, length: Length::Turnovers(2.0), pace: Pace::Settled },
    );
    // Of a design that was found, with its cache.
    let seconds_per_op = match &answer {
        Some(answer) => answer.best.seconds_per_op,
        None => predicted.work(&design, workload.range_entries).seconds(&device).mean(&workload),
    };
    // The device that is always assumed is not named.
    let on = if device_name == NVME { String::new() } else { format!(", on {device_name}") };
    let heading = format!(
        "{policy}, {filter_specification}: {} entries of {}, {}{on}",
        grouped(entries),
        show_bytes(entry_bytes),
        show_bytes(data.0)
    );
    let costs = costs(&priced, &predicted, seconds_per_op);
    let mut text = format!("{heading}\n\n{}\n\n{costs}", levels(&priced, entry_bytes));
    let mut object = object(&policy.to_string(), device_name, &priced);
    object.insert("predicted".to_owned(), prediction(&predicted, seconds_per_op));
    if let Some(answer) = answer {
        let other = search::what_if_text(&answer, &what_if);
        text = format!("{}{other}\n\n{text}", search::text(&answer, &stores));
        if wants_what_if {
            object.insert("what_if".to_owned(), search::what_if_object(&what_if));
        }
        object["memory"]["cache_bytes"] = (answer.best.split.cache as u64).into();
        object.insert("search".to_owned(), search::object(&answer, &stores));
    }
    output.result(Some(&text), object)?;
    Ok(Outcome::Done)
}

/// The shape, a line for each level.
fn levels(priced: &Priced, entry_bytes: u64) -> String {
    let buffer = priced.shape.buffer();
    let heading = ["", "capacity", "entries", "ratio", "runs", "bits per entry", "FPR"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.push(vec!["memtable".to_owned(), show_bytes(buffer.0), grouped(buffer.0 / entry_bytes)]);
    for (number, level) in (1..).zip(&priced.levels) {
        rows.push(vec![
            format!("level {number}"),
            show_bytes(level.capacity_bytes.0),
            grouped(level.capacity_entries),
            format!("{:.2}", level.size_ratio),
            grouped(level.runs.into()),
            format!("{:.2}", level.bits_per_entry),
            significant(level.fpr),
        ]);
    }
    table(&rows)
}

/// The memory, a line for each cost, and what the workload takes.
fn costs(priced: &Priced, predicted: &Prediction, seconds_per_op: f64) -> String {
    let Cost { zero_result_reads, existing_reads, range_seeks, update_writes, space_amplification, .. } = priced.cost;
    let filters = (priced.filter_bits / 8.0).ceil() as u64;
    let over = |name: &str, seen: Seen, full: f64, unit: &str| {
        let numbers = [seen.mean(), seen.least, seen.most, full].map(significant);
        [name.to_owned()].into_iter().chain(numbers).chain([unit.to_owned()]).collect()
    };
    let blank = String::new();
    let [written, full] = [predicted.write_amplification, update_writes].map(significant);
    let rows = [
        ["", "mean", "least", "most", "full tree", ""].map(str::to_owned).to_vec(),
        over("zero-result lookup", predicted.zero_result_reads, zero_result_reads, "block reads"),
        over("existing lookup", predicted.existing_reads, existing_reads, "block reads"),
        over("range seek", predicted.scan_reads[0], range_seeks, "block reads"),
        vec!["update".to_owned(), written, blank.clone(), blank, full, "write amplification".to_owned()],
        over("space", predicted.space_amplification, space_amplification, "space amplification"),
    ];
    let flushes = match predicted.flushes {
        0 => "a tree at rest after its load".to_owned(),
        flushes => format!("means over {} flushes after the load", grouped(flushes)),
    };
    let memory = format!("{} of filters, {} of memtable", show_bytes(filters), show_bytes(priced.shape.buffer().0));
    let time = format!(
        "latency {} µs, throughput {} operations/s",
        significant(seconds_per_op * 1e6),
        grouped((1.0 / seconds_per_op) as u64)
    );
    let lines = [("memory", memory), ("predicted", flushes), ("workload", time)];
    format!("{}\n\n{}", table(&rows), lines.map(|(name, value)| format!("{name:<20}{value}")).join("\n"))
}

fn prediction(predicted: &Prediction, seconds_per_op: f64) -> Value {
    let over = |seen: Seen| {
        let members = [("mean", seen.mean().into()), ("least", seen.least.into()), ("most", seen.most.into())];
        Value::Object(json::object(members))
    };
    Value::Object(json::object([
        ("flushes", predicted.flushes.into()),
        ("zero_result_reads", over(predicted.zero_result_reads)),
        ("existing_reads", over(predicted.existing_reads)),
        ("range_seeks", over(predicted.scan_reads[0])),
        ("range_reads", over(predicted.scan_reads[1])),
        ("update_writes", predicted.write_amplification.into()),
        ("space_amplification", over(predicted.space_amplification)),
        ("runs", over(predicted.runs)),
        ("filter_bits_per_entry", over(predicted.filter_bits_per_entry)),
        ("seconds_per_op", seconds_per_op.into()),
        ("throughput_per_s", (1.0 / seconds_per_op).into()),
    ]))
}

fn object(policy: &str, device: &str, priced: &Priced) -> serde_json::Map<String, Value> {
    let level = |level: &tamarack_model::design::PricedLevel| {
        Value::Object(json::object([
            ("capacity_entries", level.capacity_entries.into()),
            ("capacity_bytes", level.capacity_bytes.0.into()),
            ("runs", level.runs.into()),
            ("size_ratio", level.size_ratio.into()),
            ("fpr", level.fpr.into()),
            ("bits_per_entry", level.bits_per_entry.into()),
        ]))
    };
    let levels: Vec<Value> = priced.levels.iter().map(level).collect();
    let cost = priced.cost;
    json::object([
        ("policy", policy.into()),
        ("device", device.into()),
        ("shape", Value::Object(json::object([("levels", levels.into())]))),
        (
            "memory",
            Value::Object(json::object([
                ("buffer_bytes", priced.shape.buffer().0.into()),
                ("filter_bits", (priced.filter_bits.round() as u64).into()),
                ("cache_bytes", 0.into()),
            ])),
        ),
        (
            "cost",
            Value::Object(json::object([
                ("zero_result_reads", cost.zero_result_reads.into()),
                ("existing_reads", cost.existing_reads.into()),
                ("range_seeks", cost.range_seeks.into()),
                ("update_writes", cost.update_writes.into()),
                ("space_amplification", cost.space_amplification.into()),
                ("seconds_per_op", cost.seconds_per_op.into()),
                ("throughput_per_s", cost.throughput_per_s().into()),
            ])),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestDir, run, run_ok};

    fn priced(words: &[&str]) -> Value {
        let words: Vec<&str> = ["design", "--json"].iter().chain(words).copied().collect();
        serde_json::from_str(&run_ok(&words)).expect("an object")
    }

    /// The object has the members that programs rely on, and says what the model says.
    #[test]
    fn members() {
        let found = priced(&["--entries", "1000000", "--buffer", "1MiB", "--policy", "moose:last=0.8,k=1"]);
        let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), ["cost", "device", "memory", "policy", "predicted", "shape"]);
        assert_eq!(names(&found["memory"]), ["buffer_bytes", "cache_bytes", "filter_bits"]);
        let costs = [
            "existing_reads",
            "range_seeks",
            "seconds_per_op",
            "space_amplification",
            "throughput_per_s",
            "update_writes",
            "zero_result_reads",
        ];
        assert_eq!(names(&found["cost"]), costs);
        assert_eq!(found["policy"], "moose:last=0.8,k=1");
        let policy = policy::parse("moose:last=0.8,k=1").expect("a policy");
        let shape = policy.shape(Bytes(100_000_000), Bytes(1 << 20));
        let levels = found["shape"]["levels"].as_array().expect("a list");
        assert_eq!(levels.len(), shape.last());
        for (level, right) in levels.iter().zip(shape.levels()) {
            let members = ["bits_per_entry", "capacity_bytes", "capacity_entries", "fpr", "runs", "size_ratio"];
            assert_eq!(names(level), members);
            assert_eq!((&level["capacity_bytes"], &level["runs"]), (&right.capacity.0.into(), &right.runs.into()));
        }
        assert_eq!(found["cost"]["range_seeks"], shape.visible_runs_total() as f64);
        assert!(found["memory"]["filter_bits"].as_u64().is_some_and(|bits| (9_900_000..=10_000_000).contains(&bits)));
    }

    /// A shape of one's own, from a file; its buffer is that of the tree.
    #[test]
    fn a_custom_shape() {
        let dir = TestDir::new("design_a_custom_shape");
        let file = dir.file("shape", "buffer 1000\nlevel 4000 in 4 runs\nlevel 64000 in 2 runs\n");
        let found = priced(&[
            "--entries",
            "500",
            "--policy",
            &format!("custom:{file}"),
            "--filter",
            "none",
            "--buffer",
            "7MiB",
        ]);
        assert_eq!((&found["memory"]["buffer_bytes"], &found["memory"]["filter_bits"]), (&1000.into(), &0.into()));
        assert_eq!(found["cost"]["zero_result_reads"], 5.0);
        assert_eq!(found["cost"]["space_amplification"], 2.125);
    }

    /// The text output has a table of levels and a line per cost.
    #[test]
    fn for_people() {
        let said = run_ok(&["design", "--entries", "100000000", "--policy", "leveling:T=10", "--filter", "none"]);
        for part in [
            "leveling:T=10, none: 100,000,000 entries of 100 B, 9.3 GiB",
            "level 3    31.2 GiB  335,544,320  10.00",
            "mean  least   most  full tree",
            "3.000  block reads",
            "13.60  write amplification",
            "1.110  space amplification",
        ] {
            assert!(said.contains(part), "`{part}` is not in\n{said}");
        }
    }

    /// The workload changes the time per operation, and nothing else.
    #[test]
    fn workloads() {
        let of = |parts| priced(&["--entries", "1000000", "--workload", parts]);
        let [reads, writes] = ["zero-result=2", "update=0.5"].map(of);
        assert_eq!(reads["shape"], writes["shape"]);
        let seconds = |found: &Value| found["cost"]["seconds_per_op"].as_f64().expect("a number");
        let mixed = of("zero-result=3,update=1");
        assert!((seconds(&mixed) - 0.75 * seconds(&reads) - 0.25 * seconds(&writes)).abs() < 1e-12);
    }

    /// The means are those of the simulation, between the least and the most; a tree without
    /// updates is at rest.
    /// A slower device takes longer for the same costs; figures may come from a file.
    #[test]
    fn devices() {
        let of = |device: &str| priced(&["--entries", "100000000", "--filter", "none", "--device", device]);
        let seconds = |found: &Value| found["cost"]["seconds_per_op"].as_f64().expect("a number");
        let found = Device::NAMES.map(of);
        assert!(found.windows(2).all(|pair| seconds(&pair[0]) > seconds(&pair[1])), "{found:?}");
        assert!(found.iter().all(|one| one["shape"] == found[0]["shape"]));
        assert_eq!(of(NVME), priced(&["--entries", "100000000", "--filter", "none"]));
        let dir = TestDir::new("design_devices");
        let file = dir.file("hdd", Device::hdd().to_string());
        let from_file = of(&file);
        assert_eq!((&from_file["cost"], &from_file["device"]), (&found[0]["cost"], &file.as_str().into()));
        let said = run_ok(&["design", "--entries", "9", "--device", "hdd"]);
        assert!(said.contains("9 entries of 100 B, 900 B, on hdd\n"), "{said}");
        for (text, part) in [
            ("", "nothing is there"),
            ("tamarack device 1\nread 5 ms\n", "line 2: read: `ms` is not its unit"),
            ("tamarack device 1\nread 5 us\n", "`reads_depth_1` is missing"),
        ] {
            let file = dir.file("device", text);
            let ran = run(&["design", "--entries", "9", "--device", &file]);
            assert!(ran.status == 2 && ran.err.contains(&format!("{file}: ")) && ran.err.contains(part), "{ran:?}");
        }
    }

    /// Numbers have four significant digits.
    #[test]
    fn means() {
        let words = ["--entries", "1000000", "--buffer", "1MiB", "--policy", "tiering:T=4", "--filter", "none"];
        let found = priced(&words);
        let seeks = &found["predicted"]["range_seeks"];
        let [least, mean, most] = ["least", "mean", "most"].map(|name| seeks[name].as_f64().expect("a number"));
        let full = found["cost"]["range_seeks"].as_f64().expect("a number");
        assert!(1.0 <= least && least < mean && mean < most && mean < full, "{found}");
        let at_rest = priced(&[&words[..], &["--workload", "existing=1"]].concat());
        assert_eq!(at_rest["predicted"]["flushes"], 0);
        let inserts = priced(&[&words[..], &["--inserts", "1"]].concat());
        let space = |found: &Value| found["predicted"]["space_amplification"]["most"].as_f64().expect("a number");
        assert!(space(&found) > 1.1 && (space(&inserts) - 1.0).abs() < 1e-6, "{inserts}");
    }

    /// A search names a design that the same command prices, and keeps its bounds.
    #[test]
    fn a_search() {
        let words = ["--entries", "200000", "--policy", "auto", "--memory", "8MiB", "--max", "update=4"];
        let found = priced(&words);
        let best = &found["search"]["best"];
        assert!(found["predicted"]["update_writes"].as_f64().is_some_and(|writes| writes <= 4.0), "{found}");
        assert_eq!((&found["policy"], &found["memory"]["buffer_bytes"]), (&best["policy"], &best["buffer_bytes"]));
        assert!(found["memory"]["cache_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 17), "{found}");
        let text = |name: &str| best[name].as_str().expect("text").to_owned();
        let buffer = best["buffer_bytes"].to_string();
        let again = priced(&[
            "--entries",
            "200000",
            "--policy",
            &text("policy"),
            "--filter",
            &text("filter"),
            "--buffer",
            &buffer,
        ]);
        assert_eq!(again["predicted"]["zero_result_reads"], found["predicted"]["zero_result_reads"]);
        let said = run_ok(&[&["design"], &words[..]].concat());
        assert!(said.contains("best of each other kind of policy") && said.contains("options: --policy "), "{said}");
    }

    /// Wrong arguments are refused with advice.
    #[test]
    fn refusals() {
        for (words, part) in [
            (&["--entries", "9", "--policy", "auto"][..], "--memory 1GiB"),
            (&["--entries", "9", "--memory", "1GiB"], "--policy auto"),
            (&["--entries", "900000", "--policy", "auto", "--memory", "100KiB"], "the smallest takes"),
            (
                &["--entries", "9", "--policy", "auto", "--memory", "1GiB", "--max", "speed=1"],
                "zero-result=0.1,update=6",
            ),
            (
                &["--entries", "200000", "--policy", "auto", "--memory", "32MiB", "--max", "update=0.1,space=1.5"],
                "update=0.1 (the least found is ",
            ),
            (&["--entries", "9", "--inserts", "2"], "from 0 to 1"),
            (&[], "--entries <COUNT>"),
            (&["--entries", "0"], "1.."),
            (&["--entries", "9", "--entry-size", "0"], "must be at least 1"),
            (&["--entries", "9", "--buffer", "200TiB"], "at most 128TiB"),
            (&["--entries", "9000000000000"], "exceed the largest tree that the models cover, 128TiB"),
            (&["--entries", "9", "--policy", "mouse"], "moose:last=0.8,k=1"),
            (&["--entries", "9", "--filter", "blum"], "`bloom:bits=10`"),
            (&["--entries", "9", "--workload", "reads=1"], "zero-result=1,existing=1"),
            (&["--entries", "9", "--workload", "update=0"], "at least one above 0"),
            (&["--entries", "9", "--workload", "update=1,update=2"], "each name once"),
            (&["--entries", "9", "--policy", "custom:no.shape"], "no.shape"),
            (&["--entries", "9", "--device", "floppy"], "neither one of hdd, ssd, nvme, memory nor a file"),
        ] {
            let words: Vec<&str> = ["design"].iter().chain(words).copied().collect();
            let ran = run(&words);
            assert!(ran.status >= 2 && ran.out.is_empty() && ran.err.contains(part), "{words:?}: {ran:?}");
        }
    }
}
