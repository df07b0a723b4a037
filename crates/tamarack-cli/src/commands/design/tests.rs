//! The command `design` from outside.

use serde_json::Value;
use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::policy;

use super::arguments::NVME;
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
    let found =
        priced(&["--entries", "500", "--policy", &format!("custom:{file}"), "--filter", "none", "--buffer", "7MiB"]);
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
        "mean  least   most  full speed  full tree",
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

/// The means are those of the simulation, between the least and the most; a tree without updates
/// is at rest.
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

/// Beside a writer at full speed on a slow device lookups meet more runs, and no more is
/// written; with a faster device and more cores writers are faster. A tree at rest has none.
#[test]
fn full_speed() {
    let words = ["--entries", "3000000", "--buffer", "1MiB", "--policy", "leveling:T=5", "--filter", "none"];
    let of = |more: &[&str]| priced(&[&words[..], more].concat())["predicted"].clone();
    let found = of(&["--device", "hdd"]);
    let mean = |found: &Value, name: &str| found[name]["mean"].as_f64().expect("a number");
    let fast = &found["full_speed"];
    assert!(mean(fast, "range_seeks") > mean(&found, "range_seeks") + 1.0, "{found}");
    let writes = |found: &Value| found["update_writes"].as_f64().expect("a number");
    assert!(writes(fast) <= 1.02 * writes(&found), "{found}");
    let rate = |found: &Value| found["full_speed"]["put_bytes_per_s"].as_f64().expect("a number");
    let rates = [&["--device", "hdd"][..], &["--cores", "1"], &["--cores", "4"]].map(|more| rate(&of(more)));
    assert!(rates.is_sorted_by(|slower, faster| 1.2 * slower < *faster), "{rates:?}");
    assert_eq!(of(&["--workload", "existing=1"]).get("full_speed"), None);
    let said = run_ok(&[&["design"], &words[..]].concat());
    assert!(said.contains("a writer at full speed puts"), "{said}");
}

/// Where costs at full speed take too many flushes to be predicted, that is said, with what to do;
/// and that does it.
#[test]
fn full_speed_after_many_flushes() {
    let words = |buffer| ["--entries", "100000000", "--policy", "leveling:T=4", "--buffer", buffer];
    let [small, large] = ["256KiB", "4MiB"].map(words);
    let found = priced(&small)["predicted"].clone();
    assert!(found["flushes"].as_u64().is_some_and(|flushes| flushes > 20_000), "{found}");
    assert_eq!(found.get("full_speed"), Some(&Value::Null), "{found}");
    let said = run_ok(&[&["design"], &small[..]].concat());
    let told = "full speed          not predicted for more than 20,000 flushes: larger memtables (--buffer) have fewer";
    assert!(said.lines().any(|line| line == told), "{said}");
    assert!(priced(&large)["predicted"]["full_speed"].is_object());
    let help = run_ok(&["design", "--help"]);
    assert!(help.contains("more than 20,000 flushes"), "{help}");
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
    let again =
        priced(&["--entries", "200000", "--policy", &text("policy"), "--filter", &text("filter"), "--buffer", &buffer]);
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
        (&["--entries", "9", "--policy", "auto", "--memory", "1GiB", "--max", "speed=1"], "zero-result=0.1,update=6"),
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
        (&["--entries", "9", "--what-if"], "are for --policy auto"),
        (&["--entries", "9", "--compare"], "'--compare <DESIGN>...'"),
        (&["--entries", "9", "--compare", "mouse"], "moose:last=0.8,k=1"),
        (&["--entries", "9", "--compare", "auto"], "--compare auto: name a policy here"),
        (&["--entries", "9", "--compare", "moose", "blum:bits=3"], "--compare moose blum:bits=3: "),
        (&["--entries", "9", "--compare", "moose", "none", "bloom:bits=3"], "two filters; write a policy, a filter"),
        (&["--entries", "9", "--compare", "moose", "1MiB", "2MiB"], "two memtable sizes; write"),
        (&["--entries", "9", "--compare", "moose", "1mib"], "such as 64MiB"),
        (&["--entries", "9", "--compare", "moose", "0"], "at least 1 byte"),
        (&["--entries", "9", "--plot", "plot.png"], "name a file that ends in .svg"),
        (&["--entries", "9", "--plot", "--workload", "update=1"], "add some, as in existing=1,update=9"),
        (&["--entries", "9", "--plot", "--plot-cost", "money"], "write blocks or time"),
        (&["--entries", "9", "--plot", "none/plot.svg"], "its directory exists"),
        (&["--entries", "9", "--device", "floppy"], "neither one of hdd, ssd, nvme, memory nor a file"),
    ] {
        let words: Vec<&str> = ["design"].iter().chain(words).copied().collect();
        let ran = run(&words);
        assert!(ran.status >= 2 && ran.out.is_empty() && ran.err.contains(part), "{words:?}: {ran:?}");
    }
}

/// Rows of a comparison say what single designs say; the best of each column is marked, with all
/// that are equal to it.
#[test]
fn comparisons() {
    let data = ["--entries", "200000", "--buffer", "1MiB"];
    let designs = [
        (&["leveling:T=4"][..], &["--policy", "leveling:T=4"][..]),
        (&["tiering:T=4", "bloom:bits=5"], &["--policy", "tiering:T=4", "--filter", "bloom:bits=5"]),
        (
            &["tiering:T=4", "512KiB", "bloom:bits=5"],
            &["--policy", "tiering:T=4", "--filter", "bloom:bits=5", "--buffer", "512KiB"],
        ),
    ];
    let mut words = data.to_vec();
    for (compared, _) in designs {
        words.push("--compare");
        words.extend(compared);
    }
    let found = priced(&words);
    let rows = found["designs"].as_array().expect("a list");
    assert_eq!(rows.len(), 3);
    for ((_, alone), row) in designs.iter().zip(rows) {
        let replaced = if alone.contains(&"--buffer") { &data[..2] } else { &data[..] };
        let alone = priced(&[replaced, *alone].concat());
        assert_eq!(row["policy"], alone["policy"]);
        assert_eq!(row["buffer_bytes"], alone["memory"]["buffer_bytes"]);
        for name in
            ["zero_result_reads", "existing_reads", "range_seeks", "space_amplification", "filter_bits_per_entry"]
        {
            assert_eq!(row[name], alone["predicted"][name]["mean"], "{name}");
        }
        for name in ["update_writes", "seconds_per_op", "throughput_per_s"] {
            assert_eq!(row[name], alone["predicted"][name], "{name}");
        }
    }
    let number = |row: &Value, name: &str| row[name].as_f64().expect("a number");
    for name in ["zero_result_reads", "range_seeks", "update_writes", "seconds_per_op"] {
        let least = rows.iter().map(|row| number(row, name)).fold(f64::INFINITY, f64::min);
        for row in rows {
            let is_best = row["best"].as_array().expect("a list").contains(&name.into());
            assert_eq!(is_best, number(row, name) < least * 1.001, "{name}: {row}");
        }
    }
    let [seconds, throughput] = ["seconds_per_op", "throughput_per_s"];
    let has = |row: &Value, name: &str| row["best"].as_array().expect("a list").contains(&name.into());
    assert!(rows.iter().any(|row| has(row, seconds) && has(row, throughput)), "{found}");

    let twice = [&data[..], &["--compare", "moose", "--compare", "moose"]].concat();
    let found = priced(&twice);
    let best = |at: usize| found["designs"][at]["best"].as_array().expect("a list").len();
    assert_eq!([best(0), best(1)], [8, 8], "{found}");
    let said = run_ok(&[&["design"], &words[..]].concat());
    for part in ["3 designs for 200,000 entries of 100 B, 19.1 MiB\n", "tiering:T=4   bloom:bits=5 ", "* the best of"] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

/// The design of --policy is compared if it is given; stores have their defaults.
#[test]
fn compared_designs() {
    let policies = |words: &[&str]| {
        let found = priced(&[&["--entries", "9000"][..], words].concat());
        let rows = found["designs"].as_array().expect("a list").clone();
        let row = |row: &Value| {
            (row["policy"].as_str().expect("text").to_owned(), row["buffer_bytes"].as_u64().expect("bytes") >> 20)
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let row = |policy: &str, mib: u64| (policy.to_owned(), mib);
    assert_eq!(policies(&["--compare", "tiering:T=4"]), [row("tiering:T=4", 32)]);
    let both = [row("leveling:T=2", 8), row("tiering:T=4", 8)];
    assert_eq!(policies(&["--policy", "leveling:T=2", "--compare", "tiering:T=4", "--buffer", "8MiB"]), both);
    assert_eq!(policies(&["--compare", "RocksDB"]), [row("leveling:T=10", 64)]);
    assert_eq!(policies(&["--compare", "wiredtiger", "3MiB"]), [row("tiering:T=15", 3)]);
    let auto = ["--policy", "auto", "--memory", "16MiB", "--compare", "cassandra"];
    assert_eq!(policies(&auto)[1..], [row("tiering:T=4", 2048)]);
}

/// With a memory budget the cache takes what is left, which saves time; a design that exceeds it is
/// never the best.
#[test]
fn comparisons_within_memory() {
    let words =
        ["--entries", "200000", "--compare", "leveling:T=4", "1MiB", "--compare", "tiering:T=4", "none", "64MiB"];
    let [without, with] = [&[][..], &["--memory", "16MiB"]].map(|memory| priced(&[&words[..], memory].concat()));
    let seconds = |found: &Value| found["designs"][0]["seconds_per_op"].as_f64().expect("a number");
    assert!(seconds(&with) < seconds(&without), "{with} {without}");
    assert_eq!(with["designs"][0]["range_seeks"], without["designs"][0]["range_seeks"]);
    assert_eq!(without["designs"][0].get("cache_bytes"), None);
    let rows = &with["designs"];
    assert!(rows[0]["cache_bytes"].as_u64().is_some_and(|bytes| bytes > 8 << 20), "{rows}");
    assert_eq!((&rows[0]["fits"], &rows[1]["fits"], &rows[1]["cache_bytes"]), (&true.into(), &false.into(), &0.into()));
    assert_eq!(rows[1]["best"], Value::Array(Vec::new()));
    assert_eq!(rows[0]["best"].as_array().map(Vec::len), Some(8));
    let said = run_ok(&[&["design", "--memory", "16MiB"], &words[..]].concat());
    assert!(said.contains(", with 16.0 MiB of memory\n") && said.contains(" MiB too much"), "{said}");
}

/// The numbers of a trade-off by role.
fn placed<'a>(found: &'a Value, role: &str) -> Vec<(&'a Value, f64, f64)> {
    let designs = found["trade_off"]["designs"].as_array().expect("a list");
    let cost = found["trade_off"]["read_cost"].as_str().expect("text");
    let number = |design: &Value, name: &str| design[name].as_f64().expect("a number");
    let of_role = designs.iter().filter(|design| design["role"] == role);
    of_role.map(|design| (design, number(design, "update_writes"), number(design, cost))).collect()
}

/// A trade-off has the design that was asked for, six stores and all policies, each once; no design
/// beats one of the front, and each other one is beaten by one of the front.
#[test]
fn trade_offs() {
    let words = ["--entries", "200000", "--buffer", "1MiB", "--policy", "leveling:T=10", "--plot"];
    let found = priced(&words);
    assert_eq!(found["policy"], "leveling:T=10");
    let [asked, stores, front, others] = ["asked", "store", "front", "other"].map(|role| placed(&found, role));
    assert_eq!((asked.len(), stores.len()), (1, 6));
    let is_asked_on_front = asked[0].0["is_on_front"] == true;
    // The design that was asked for is one of the search's.
    assert_eq!(1 + front.len() + others.len(), tamarack_model::navigator::union::policies().count());
    let candidates = || asked.iter().chain(&front).chain(&others);
    let beats = |a: &(&Value, f64, f64), b: &(&Value, f64, f64)| a.1 <= b.1 && a.2 <= b.2 && (a.1, a.2) != (b.1, b.2);
    for one in candidates() {
        let is_on_front = one.0["is_on_front"] == true;
        let is_beaten = candidates().any(|other| beats(other, one));
        let has_equal = candidates().any(|other| !std::ptr::eq(other.0, one.0) && (other.1, other.2) == (one.1, one.2));
        assert!(is_on_front != is_beaten || has_equal, "{}", one.0);
    }
    assert!(front.is_sorted_by(|a, b| a.1 < b.1 && a.2 > b.2), "{front:?}");
    assert!(front.len() >= 3, "{front:?}");
    assert!(
        front.iter().all(|one| one.0["is_on_front"] == true) && others.iter().all(|one| one.0["is_on_front"] == false)
    );
    // The reads of the even workload, by hand.
    let mean = |name: &str| found["predicted"][name]["mean"].as_f64().expect("a number");
    let reads = (mean("zero_result_reads") + mean("existing_reads") + mean("range_reads")) / 3.0;
    assert!((asked[0].2 / reads - 1.0).abs() < 1e-9, "{is_asked_on_front}, {reads}: {asked:?}");
    assert_eq!(asked[0].0["update_writes"], found["predicted"]["update_writes"]);

    let in_time = priced(&[&words[..], &["--plot-cost", "time", "--workload", "existing=1,update=1"]].concat());
    let alone = priced(&[&words[..6], &["--workload", "existing=1"]].concat());
    let [asked] = placed(&in_time, "asked")[..] else { panic!("{in_time}") };
    assert_eq!(asked.0["microseconds"].as_f64(), Some(asked.2));
    let at_rest = alone["predicted"]["seconds_per_op"].as_f64().expect("a number") * 1e6;
    assert!((asked.2 / at_rest - 1.0).abs() < 0.1, "{at_rest} at rest: {asked:?}");
}

/// Within memory, what exceeds it is no candidate; after a search, the trade-off has what it
/// compared.
#[test]
fn trade_offs_within_memory() {
    let words = ["--entries", "200000", "--plot"];
    let small = priced(&[&words[..], &["--memory", "6MiB", "--buffer", "2MiB"]].concat());
    assert!(placed(&small, "store").iter().any(|store| store.0["fits"] == false), "{small}");
    for role in ["front", "other"] {
        assert!(placed(&small, role).iter().all(|design| design.0["fits"] == true), "{small}");
    }
    let large = priced(&[&words[..], &["--memory", "64MiB", "--buffer", "2MiB"]].concat());
    let least = |found: &Value| placed(found, "front").last().expect("a front").2;
    assert!(least(&large) < least(&small), "more memory saves reads");

    let found = priced(&[&words[..], &["--policy", "auto", "--memory", "8MiB"]].concat());
    let [asked] = placed(&found, "asked")[..] else { panic!("{found}") };
    assert_eq!(asked.0["policy"], found["search"]["best"]["policy"]);
    let compared = found["search"]["compared"].as_u64().expect("a count") as usize;
    let candidates = placed(&found, "front").len() + placed(&found, "other").len();
    assert!(candidates < compared && candidates > compared / 4, "{candidates} of {compared}");
}

/// The plot fits a terminal of 80 columns and has the marks that its list explains.
#[test]
fn plots_in_the_terminal() {
    let words =
        ["design", "--entries", "200000", "--buffer", "1MiB", "--compare", "moose", "--compare", "leveldb", "--plot"];
    let said = run_ok(&words);
    let (table, plot) = said.split_once("block reads per read").expect("the title of an axis");
    assert!(table.contains("2 designs for"), "{said}");
    let axes = plot.split_once("\n\n").expect("a legend follows").0;
    let cells = axes.lines().filter_map(|line| line.split_once(['│', '┤']));
    let grid = cells.map(|(_, cells)| cells).collect::<Vec<_>>().join("\n");
    let list = plot.rsplit("\n\n").next().expect("a list");
    for line in axes.lines().skip(1) {
        assert!(line.chars().count() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(axes.contains("write amplification") && grid.contains('·'), "{axes}");
    let signs: Vec<char> = list.lines().skip(1).filter_map(|line| line.chars().next()).collect();
    assert!(signs.starts_with(&['A', 'B', '1', '2']) && signs.contains(&'a') && signs.contains(&'b'), "{signs:?}");
    for sign in signs {
        assert_eq!(grid.matches(sign).count(), 1, "{sign} in\n{grid}");
    }
    for part in ["moose:last=0.8,k=1", "RocksDB (leveling:T=10)", "LevelDB (leveling:T=10)"] {
        assert!(list.contains(part), "`{part}` is not in\n{list}");
    }
}

/// The image is a file that has all designs, with names of those that are marked.
#[test]
fn plots_in_a_file() {
    let dir = TestDir::new("design_plots_in_a_file");
    let file = dir.join("plot.svg");
    let words = ["--entries", "200000", "--buffer", "1MiB", "--policy", "moose", "--plot", &file];
    let said = run_ok(&[&["design"], &words[..]].concat());
    assert!(said.ends_with(&format!("\nthe plot is in {file}\n")), "{said}");
    let found = priced(&words);
    let image = crate::files::read_text(std::path::Path::new(&file)).expect("it was written");
    assert!(image.starts_with("<svg xmlns=") && image.ends_with("</svg>\n"), "{image}");
    for part in [
        ">A</text>",
        ">A moose:last=0.8,k=1</text>",
        ">RocksDB</text>",
        ">asked for or found (1)</text>",
        "rotate(-90)",
    ] {
        assert!(image.contains(part), "`{part}` is not in\n{image}");
    }
    // And one in the legend; others that fall together are drawn once.
    assert_eq!(image.matches("class=\"disk\"").count(), placed(&found, "front").len() + 1);
    assert_eq!(image.matches("class=\"square\"").count(), 7);
    assert!(image.matches("class=\"dot\"").count() > placed(&found, "other").len() / 2);
    for element in ["svg", "text", "title", "style", "polygon", "circle"] {
        let [opened, closed] = [format!("<{element}"), format!("</{element}>")].map(|tag| image.matches(&tag).count());
        assert_eq!(opened, closed, "{element}");
    }
}

/// Long notes below the image are not cut off at its right: it is 900 pixels wide, and a character
/// takes 7.4 of them or less.
#[test]
fn notes_of_plots_are_whole() {
    let dir = TestDir::new("design_notes_of_plots_are_whole");
    let file = dir.join("plot.svg");
    let design = ["--compare", "moose:last=0.8,k=1", "blocked:bits=10,allocation=monkey"];
    let words = ["design", "--entries", "200000", "--buffer", "1MiB", "--memory", "1MiB", "--plot", &file];
    run_ok(&[&words[..], &design[..]].concat());
    let image = crate::files::read_text(std::path::Path::new(&file)).expect("it was written");
    let texts = image.lines().filter(|line| line.starts_with("<text"));
    let shown: Vec<&str> = texts.filter_map(|text| text.split(['<', '>']).nth(2)).collect();
    assert!(shown.iter().all(|text| text.chars().count() <= 117), "{shown:?}");
    let all = shown.join(" ");
    assert!(all.contains("A moose:last=0.8,k=1, blocked:bits=10,allocation=monkey, 1.0 MiB (too large): "), "{all}");
    assert!(all.ends_with("block reads per read, with the cache"), "{all}");
}

/// A request from a file means the same as on the command line, which wins.
#[test]
fn requests_from_a_file() {
    let dir = TestDir::new("design_requests_from_a_file");
    let text = "\
# a comment
entries = 200000
 buffer=1MiB   # another one

policy = tiering:T=4
workload = existing=3,update=1
what-if = false
";
    let file = dir.file("request", text);
    let words =
        ["--entries", "200000", "--buffer", "1MiB", "--policy", "tiering:T=4", "--workload", "existing=3,update=1"];
    assert_eq!(priced(&["--file", &file]), priced(&words));
    let other = [&words[..2], &["--buffer", "2MiB"], &words[4..]].concat();
    assert_eq!(priced(&["--buffer", "2MiB", "--file", &file]), priced(&other));
    let file = dir.file("compared", "compare = leveling:T=4 512KiB\ncompare = moose none\n");
    let words = ["--entries", "9000", "--compare", "leveling:T=4", "512KiB", "--compare", "moose", "none"];
    assert_eq!(priced(&["--entries", "9000", "--file", &file]), priced(&words));
    let one = ["--entries", "9000", "--compare", "tiering:T=4"];
    assert_eq!(priced(&[&one[..], &["--file", &file]].concat()), priced(&one));
    // An option that may have no value has none in a file either.
    let file = dir.file("plotted", "entries = 9000\nplot =\n");
    assert_eq!(run_ok(&["design", "--file", &file]), run_ok(&["design", "--entries", "9000", "--plot"]));
}

/// What is wrong with a file is said with its name and line, and with what to do.
#[test]
fn files_that_are_refused() {
    let dir = TestDir::new("design_files_that_are_refused");
    for (text, part) in [
        ("\nentries 9\n", ":2: `entries 9` has no `=`; write `name = value`"),
        ("entries = 9\n\nspeed = 3\n", ":3: there is no option `speed`; the names are entries, entry-size, buffer"),
        ("entries = 9\nfile = other\n", ":2: there is no option `file`"),
        ("entries = many\n", ":1: invalid value 'many' for '--entries <COUNT>'"),
        ("entries = many\n", "`tamarack design --help` describes --entries"),
        ("entries =\n", "'--entries <COUNT>'"),
        ("memory = 1 gib\n", "such as 64MiB"),
        ("entries = 9\nentries = 10\n", ":2: `entries` is given in line 1 already; remove one of the two lines"),
        ("what-if = maybe\n", ":1: write `what-if = true` or `what-if = false`"),
        ("workload = reads=1\n", "zero-result=1,existing=1"),
        ("compare =\n", ":1: a value is required for '--compare <DESIGN>...'"),
        ("compare = a b c d\n", ":1: "),
        ("compare = moose --plot\n", ":1: `--plot` is no value of `compare`; options have lines of their own"),
        ("buffer = 1MiB\n", "the number of entries is missing: give --entries, or write a line `entries = COUNT`"),
    ] {
        let file = dir.file("request", text);
        let ran = run(&["design", "--file", &file]);
        assert!(ran.status == 2 && ran.out.is_empty(), "{text}: {ran:?}");
        assert!(ran.err.contains(&file) && ran.err.contains(part), "{text}: `{part}` is not in {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    let ran = run(&["design", "--file", &dir.join("none")]);
    assert!(ran.status == 2 && ran.err.contains("name a file that exists"), "{ran:?}");
}
