//! Garnering beside leveling, on Autumn's settings: levels, block reads of lookups and scans, bytes
//! written, and space, each measured beside its exact model; and which of the paper's claims hold
//! (*Autumn: A Scalable Read Optimized LSM-tree based Key-Value Stores with Fast Point and Range
//! Read Speed*).
//!
//! ```text
//! load ──► sixteen sizes from half to all: settle, count blocks; at every other one, reopen and
//!     │    take times: seeks of all runs at once and one by one
//!     └──► overwrite an eighth ──► bytes, space
//!
//! models: the present runs ──► blocks    the same flushes ──► simulated planner ──► runs, bytes
//! ```
//!
//! The paper's larger experiment (§4.3) has T = 5, c of 0.8 and 0.4, entries of 1 KB with keys of
//! 24 bytes, no cache, direct I/O, and 80 GB in memtables of 64 MB. Here, too, are 1,280 memtables,
//! only smaller, so that the trees are the paper's. No filters, as in its §4.2. Level 1 has one
//! run, as in its formulas, or four, as in its stores.
//!
//! `cargo run --release -p shape --bin garnering -- --help`

use std::time::Instant;

use common::numbers::mix;
use common::words::Words;
use serde_json::{Value, json};
use shape::kept::{Kept, by_policy, digits, holds, number, off, publish, table};
use shape::store::{
    RAW_BYTES, Setting, Store, Taken, absent_blocks, flush_all, runs_met, scan_blocks, simulated_scan_blocks,
};
use tamarack::Result;
use tamarack_model::cost::{autumn, space, update};
use tamarack_model::policy::Policy;
use tamarack_model::simulate::{Keys, Tree};
use tamarack_model::{Bytes, policy};

const HELP: &str = "\
usage: garnering [--dir DIR] [--mib N] [--only LIST] [--reads N] [--results FILE] [--from FILE] [--json] [--write] [--report FILE] [--notes FILE] [--conditions TEXT]

  --dir DIR          where databases are made and removed again          [the system's temporary directory]
  --mib N            raw size of the tree; buffers are 1/1280 of it                                  [4096]
  --only LIST        policies whose words contain one of these, such as leveling,first=4               [all]
  --reads N          lookups, seeks and scans for each figure, at each of sixteen sizes             [2000]
  --results FILE     figures are added to this file of JSON, one policy after the other
  --from FILE        measure nothing, and make the report of the figures in this file
  --json             a line of JSON for each policy instead of tables
  --write            write the report, too
  --report FILE      where to                                               [bench/results/DATE-garnering-...]
  --notes FILE       what is to stand at its end
  --conditions TEXT  how it was run, for the report";

const RATIO: f64 = 5.0;
/// Each with its `c` and the runs of its level 1: one; and four, since the paper's stores keep
/// several there (§3.2), and RocksDB's default is four.
const POLICIES: [(&str, f64, u32); 6] = [
    ("leveling:T=5", 1.0, 1),
    ("garnering:T=5,c=0.8", 0.8, 1),
    ("garnering:T=5,c=0.4", 0.4, 1),
    ("garnering:T=5,c=1,first=4", 1.0, 4),
    ("garnering:T=5,c=0.8,first=4", 0.8, 4),
    ("garnering:T=5,c=0.4,first=4", 0.4, 4),
];

const BUFFERS: u64 = 1280;

/// Sizes at which reads are counted.
const POINTS: u64 = 16;

/// One of so many buffers as the tree has is overwritten in the end.
const OVERWRITTEN: u64 = 8;

/// Entries of a scan: SeekRandomNext10.
const SCANNED: u64 = 11;

/// Entries between two keys that warm the index: fewer than below one index block.
const WARMING: u64 = 200;

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let mut kept = Kept::read(&words);
    let buffer_bytes = (words.positive("mib", 4096) << 20) / BUFFERS;
    let setting = json!({ "buffer_bytes": buffer_bytes, "reads": words.positive("reads", 2000) });
    if words.text("from").is_none() {
        for (name, ..) in POLICIES.iter().filter(|(name, ..)| words.list("only").wants_part_of(name)) {
            let figures = measure(&words, name, buffer_bytes)?;
            kept.add(name, &setting, figures);
        }
    }
    publish(&words, &kept, "garnering-", &report(&words, &kept));
    Ok(())
}

/// What writing came to, over several times that the database was opened.
#[derive(Default)]
struct Writing {
    flushes: Vec<u64>,
    /// Raw bytes, level 1 first.
    written: Vec<u64>,
    stalls: [f64; 4],
}

impl Writing {
    /// Adds what there was since it was opened.
    fn add(&mut self, store: &Store) {
        let stats = store.db.stats();
        self.flushes.extend(store.flushes());
        self.written.resize(self.written.len().max(stats.levels.len()), 0);
        self.written.iter_mut().zip(&stats.levels).for_each(|(sum, level)| *sum += level.written_raw_bytes);
        let stalls = [
            stats.write_stalls as f64,
            stats.write_stall_seconds,
            stats.write_delays as f64,
            stats.write_delay_seconds,
        ];
        self.stalls.iter_mut().zip(stalls).for_each(|(sum, more)| *sum += more);
    }
}

fn measure(words: &Words, name: &str, buffer_bytes: u64) -> Result<Value> {
    let scratch = words.scratch();
    let setting =
        Setting { dir: scratch.path().to_owned(), policy: name.to_owned(), filter: "none".to_owned(), buffer_bytes };
    let parsed = policy::parse(name).expect("a policy");
    let reads = words.positive("reads", 2000);
    let all = buffer_bytes / RAW_BYTES * BUFFERS;
    let mut store = setting.open(0, false)?;
    let (mut writing, mut tree) = (Writing::default(), Tree::new(&parsed, Bytes(buffer_bytes)));
    let (mut load_seconds, mut settle_seconds, mut points) = (0.0, 0.0, Vec::new());
    // Runs after each flush from half the size on, summed up, and how many flushes these were.
    let (mut fed, mut always) = (0, (0.0, 0.0));
    for point in 1..=POINTS {
        // Anywhere in its part, since trees count in powers of their ratio: at multiples of 5,
        // leveling has nothing in level 1.
        let part = BUFFERS / 2 / POINTS;
        let buffers = BUFFERS / 2 + (point - 1) * part + 1 + mix(point) % part;
        let entries = buffer_bytes / RAW_BYTES * if point < POINTS { buffers } else { BUFFERS };
        let began = Instant::now();
        store.grow_to(entries)?;
        load_seconds += began.elapsed().as_secs_f64();
        settle_seconds += store.settle(true)?.as_secs_f64();
        let flushes = [&writing.flushes[..], &store.flushes()].concat();
        for (number, bytes) in (0..).zip(&flushes).skip(fed) {
            flush_all(&mut tree, &[*bytes]);
            if number >= BUFFERS / 2 {
                always = (always.0 + tree.occupancy().runs().count() as f64, always.1 + 1.0);
            }
        }
        fed = flushes.len();
        let mut figures = read(&store, &tree, reads)?;
        figures["buffers"] = fed.into();
        if point % 2 == 0 {
            writing.add(&store);
            for (way, one_by_one) in [("one_by_one", true), ("at_once", false)] {
                store = store.reopened(one_by_one)?;
                figures[way] = time(&store, reads)?;
            }
        }
        eprintln!("{name}: {figures}");
        points.push(figures);
    }
    let stats = store.db.stats();
    let file_bytes = stats.space.live_bytes as f64;
    let (shape, report) = (tree.shape(), tree.report());
    let load = json!({
        "flushes": writing.flushes.len(),
        "flushed": writing.flushes.iter().sum::<u64>(),
        "written": writing.written,
        "written_model": report.written.iter().map(|bytes| bytes.0).collect::<Vec<_>>(),
        "writes_per_entry": (1..=shape.last()).map(|level| update::writes_per_entry(shape, level)).collect::<Vec<_>>(),
        "ratios": (1..=shape.last()).map(|level| shape.ratio(level)).collect::<Vec<_>>(),
        "levels_model": shape.last(),
        "runs_most": shape.visible_runs_total(),
        "runs_always": always.0 / always.1,
        "seconds": load_seconds,
        "settle_seconds": settle_seconds,
        "stalls": writing.stalls,
        "file_bytes_per_raw": file_bytes / (all * RAW_BYTES) as f64,
    });
    let overwriting = overwrite(&store, &parsed, all)?;
    eprintln!("{name}: {load} {overwriting}");
    Ok(json!({ "points": points, "load": load, "overwriting": overwriting }))
}

/// Counts of blocks, beside the models of the tree as it is and as it is simulated.
fn read(store: &Store, tree: &Tree<'_>, reads: u64) -> Result<Value> {
    let stats = store.db.stats();
    let runs = tree.occupancy().runs().count();
    let absent = (absent_blocks(&stats), runs as f64);
    let scan =
        |entries| (scan_blocks(&stats, store.entries, entries), simulated_scan_blocks(tree, store.entries, entries));
    let (seek, scan) = (scan(1), scan(SCANNED));
    let figure = |taken: Taken, (model, counts): (f64, f64)| json!({ "blocks": taken.blocks_each(), "reads": taken.reads_each(), "model": model, "counts": counts });
    Ok(json!({
        "shape_levels": stats.levels.len(),
        "levels": stats.levels.iter().rposition(|level| !level.runs.is_empty()).map_or(0, |at| at + 1),
        "runs": runs_met(&stats),
        "runs_counts": runs,
        "absent": figure(store.take(reads, Store::look_up_absent)?, absent),
        "seek": figure(store.take(reads, |store| store.scan(1))?, seek),
        "scan": figure(store.take(reads, |store| store.scan(SCANNED))?, scan),
    }))
}

/// Microseconds, with all indexes in memory.
fn time(store: &Store, reads: u64) -> Result<Value> {
    store.warm_evenly(store.entries / WARMING)?;
    let (mut absent, mut seek, mut scan) = (Taken::default(), Taken::default(), Taken::default());
    // In turns, so that what else the machine does meets all.
    for _ in 0..4 {
        absent = absent.and(store.take(reads / 4, Store::look_up_absent)?);
        seek = seek.and(store.take(reads / 4, |store| store.scan(1))?);
        scan = scan.and(store.take(reads / 4, |store| store.scan(SCANNED))?);
    }
    let [absent, seek, scan] = [absent, seek, scan].map(|taken| taken.micros_each());
    Ok(json!({ "absent": absent, "seek": seek, "scan": scan }))
}

/// Gives entries other values, beside the simulation of the tree from there on.
fn overwrite(store: &Store, policy: &Policy, all: u64) -> Result<Value> {
    let (shape, occupancy, _) = store.db.planned();
    let mut tree = Tree::resume(policy, shape, occupancy).drawing(Keys::drawn(all, RAW_BYTES, 0.0));
    let mut writing = Writing::default();
    let before = (store.flushes().len(), store.db.stats().written_raw_bytes());
    for _ in 0..all / OVERWRITTEN {
        store.overwrite()?;
    }
    store.settle(true)?;
    writing.add(store);
    flush_all(&mut tree, &writing.flushes[before.0..]);
    let stats = store.db.stats();
    let raw: u64 = stats.levels.iter().map(|level| level.total().raw_bytes).sum();
    let live = (all * RAW_BYTES) as f64;
    Ok(json!({
        "flushed": writing.flushes[before.0..].iter().sum::<u64>(),
        "written": stats.written_raw_bytes() - before.1,
        "written_model": tree.report().written_total().0,
        "space": raw as f64 / live,
        "space_model": tree.occupancy().bytes().as_f64() / live,
        "worst": worst(stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.raw_bytes)),
        "worst_model": space::worst_now(tree.occupancy()),
    }))
}

/// All bytes over those of the largest run: space amplification if all other runs were updates of
/// that one.
fn worst(runs: impl Iterator<Item = u64> + Clone) -> f64 {
    runs.clone().sum::<u64>() as f64 / runs.max().unwrap_or(1) as f64
}

fn report(words: &Words, kept: &Kept) -> String {
    let policies: Vec<Measured<'_>> = POLICIES
        .iter()
        .filter_map(|(name, scaling, first)| {
            kept.policies.get(*name).map(|figures| Measured { name, scaling: *scaling, first: *first, figures })
        })
        .collect();
    let setting = policies.first().map_or(&Value::Null, |policy| &policy.figures["setting"]);
    let buffer_bytes = number(setting, &["buffer_bytes"]);
    let mut text = format!(
        "# Garnering beside leveling, {}\n\n{}\n\
         Autumn's larger experiment (section 4.3) in small: T = {RATIO}, c = 1 (leveling), 0.8 and 0.4, each with one run in level 1, and with four: the paper's stores keep several there (section 3.2), RocksDB four unless told otherwise; entries of {RAW_BYTES} raw bytes with keys of 24, unique and random, in {BUFFERS} buffers of {:.2} MiB as there (80 GB in buffers of 64 MB), \
         {:.2} GiB in all; blocks of 4 KiB, direct I/O, no cache of blocks, indexes in memory, no filters, no compression, one writer, two workers. Reads are counted at {POINTS} sizes from half of that to all, when the tree has come to rest, \
         {} of each kind at each size: sizes at which one tree happens to have an empty level say little by themselves. Models know counts only: *model* is the exact sum over the runs that there are, *by flushes* over those that the planner \
         makes of the same flushes in a simulation. Nothing is fitted.\n",
        kept.date(),
        kept.circumstances(words, &by_policy("garnering")),
        buffer_bytes / 1_048_576.0,
        buffer_bytes * BUFFERS as f64 / 2_f64.powi(30),
        number(setting, &["reads"]),
    );
    text += &levels(&policies, buffer_bytes);
    text += &blocks(&policies);
    text += &times(&policies);
    text += &written(&policies);
    text += &spaces(&policies);
    text += &sizes(&policies);
    text += &verdicts(&policies);
    text += &claims(&policies);
    text
}

/// A policy, and what was measured of it.
struct Measured<'a> {
    name: &'a str,
    scaling: f64,
    first: u32,
    figures: &'a Value,
}

fn points(figures: &Value) -> &[Value] {
    figures["points"].as_array().map_or(&[], Vec::as_slice)
}

/// The mean over all sizes that have it.
fn mean(figures: &Value, path: &[&str]) -> f64 {
    let found: Vec<f64> =
        points(figures).iter().map(|point| number(point, path)).filter(|found| !found.is_nan()).collect();
    found.iter().sum::<f64>() / found.len() as f64
}

fn sum(figures: &Value, path: &[&str]) -> f64 {
    let all = path.iter().fold(figures, |value, name| &value[*name]).as_array();
    all.map_or(f64::NAN, |all| all.iter().filter_map(Value::as_f64).sum())
}

fn levels(policies: &[Measured<'_>], buffer_bytes: f64) -> String {
    let rows = policies.iter().map(|Measured { name, scaling, figures, .. }| {
        let last = points(figures).last().unwrap_or(&Value::Null);
        let flushed = number(figures, &["load", "flushed"]) / buffer_bytes;
        let ratios = figures["load"]["ratios"].as_array().map_or(String::new(), |ratios| {
            ratios
                .iter()
                .map(|ratio| format!("{:.1}", ratio.as_f64().unwrap_or(f64::NAN)))
                .collect::<Vec<_>>()
                .join(", ")
        });
        vec![
            (*name).to_owned(),
            digits(number(last, &["shape_levels"]), 0),
            autumn::AutumnTree::levels_for(RATIO, *scaling, flushed).to_string(),
            ratios,
            digits(number(figures, &["load", "runs_most"]), 0),
            digits(mean(figures, &["runs"]), 2),
            digits(mean(figures, &["runs_counts"]), 2),
            digits(number(figures, &["load", "runs_always"]), 2),
        ]
    });
    format!(
        "\n## Levels\n\n{}",
        table(
            &[
                "policy ",
                "levels",
                "by Eq. 5",
                "size ratios ",
                "runs at most",
                "runs, mean",
                "by flushes",
                "after each flush"
            ],
            &rows.collect::<Vec<_>>()
        )
    )
}

const READS: [(&str, &str); 3] =
    [("absent", "lookup of an absent key"), ("seek", "seek"), ("scan", "seek and 10 more entries")];

fn blocks(policies: &[Measured<'_>]) -> String {
    let mut rows = Vec::new();
    for (kind, what) in READS {
        for Measured { name, figures, .. } in policies {
            let of = |column| mean(figures, &[kind, column]);
            rows.push(vec![
                what.to_owned(),
                (*name).to_owned(),
                digits(of("blocks"), 3),
                digits(of("model"), 3),
                off(of("blocks"), of("model")),
                digits(100.0 * worst_off(figures, kind, "model"), 1) + " %",
                digits(of("counts"), 3),
                off(of("blocks"), of("counts")),
            ]);
        }
    }
    let columns = ["operation ", "policy ", "blocks", "model", "off", "worst size", "by flushes", "off"];
    format!("\n## Read amplification: data blocks per operation\n\nMeans over all sizes.\n\n{}", table(&columns, &rows))
}

/// How far the figure of one size is from its model at most.
fn worst_off(figures: &Value, kind: &str, model: &str) -> f64 {
    let off = |point: &Value| (number(point, &[kind, "blocks"]) / number(point, &[kind, model]) - 1.0).abs();
    points(figures).iter().map(off).fold(0.0, f64::max)
}

fn times(policies: &[Measured<'_>]) -> String {
    let rows = policies.iter().map(|Measured { name, figures, .. }| {
        let of = |way, kind| mean(figures, &[way, kind]);
        vec![
            (*name).to_owned(),
            digits(timed_runs(figures), 2),
            digits(of("at_once", "absent"), 1),
            digits(of("at_once", "seek"), 1),
            digits(of("one_by_one", "seek"), 1),
            digits(of("at_once", "scan"), 1),
            digits(of("one_by_one", "scan"), 1),
        ]
    });
    let columns = [
        "policy ",
        "runs",
        "lookup of an absent key",
        "seek, at once",
        "one by one",
        "with 10 more, at once",
        "one by one",
    ];
    format!(
        "\n## Times\n\nMicroseconds, means over every other size. *At once*: what a seek needs of all runs is read together; *one by one*: each read waits for the one before, as in the paper's stores.\n\n{}",
        table(&columns, &rows.collect::<Vec<_>>())
    )
}

/// The mean of runs at the sizes at which times were taken.
fn timed_runs(figures: &Value) -> f64 {
    let timed: Vec<f64> = points(figures)
        .iter()
        .filter(|point| point["at_once"].is_object())
        .map(|point| number(point, &["runs"]))
        .collect();
    timed.iter().sum::<f64>() / timed.len() as f64
}

fn written(policies: &[Measured<'_>]) -> String {
    let (mut rows, mut by_level) = (Vec::new(), Vec::new());
    for Measured { name, figures, .. } in policies {
        let (load, over) = (&figures["load"], &figures["overwriting"]);
        let flushed = number(load, &["flushed"]);
        let mut row = |what: &str, policy: &str, flushed: f64, written: f64, model: f64| {
            let gb = |bytes: f64| digits(bytes / 1e9, 2);
            rows.push(vec![
                what.to_owned(),
                policy.to_owned(),
                gb(flushed),
                gb(written),
                gb(model),
                off(written, model),
                digits(model / flushed, 2),
            ]);
        };
        row("load", name, flushed, sum(load, &["written"]), sum(load, &["written_model"]));
        row(
            "overwriting",
            name,
            number(over, &["flushed"]),
            number(over, &["written"]),
            number(over, &["written_model"]),
        );
        let list = |name: &str| load[name].as_array().cloned().unwrap_or_default();
        let (real, model, full) = (list("written"), list("written_model"), list("writes_per_entry"));
        for (at, of_full) in full.iter().enumerate() {
            let share = |list: &[Value]| list.get(at).and_then(Value::as_f64).unwrap_or(0.0) / flushed;
            by_level.push(vec![
                if at == 0 { (*name).to_owned() } else { String::new() },
                (at + 1).to_string(),
                digits(share(&real), 2),
                digits(share(&model), 2),
                off(share(&real), share(&model)),
                digits(of_full.as_f64().unwrap_or(f64::NAN), 2),
            ]);
        }
    }
    let columns = ["what ", "policy ", "flushed, GB", "written, GB", "model, GB", "off", "model, amplification"];
    format!(
        "\n## Write amplification: bytes written\n\nRaw bytes that flushes and compactions wrote, without the WAL; the model is the simulated planner, given the same flushes. Overwriting gives an eighth of the entries, drawn at random, other values.\n\n{}\n\
         Of the load, by level, for each byte that was flushed; last, what a byte costs that passes through the full level, (r - 1)/2 and 1/r more for level 1.\n\n{}",
        table(&columns, &rows),
        table(&["policy ", "level", "written", "model", "off", "full level"], &by_level)
    )
}

fn spaces(policies: &[Measured<'_>]) -> String {
    let rows = policies.iter().map(|Measured { name, scaling, figures, .. }| {
        let (over, load) = (&figures["overwriting"], &figures["load"]);
        let levels = number(load, &["levels_model"]) as u32;
        vec![
            (*name).to_owned(),
            digits(number(over, &["space"]), 3),
            digits(number(over, &["space_model"]), 3),
            off(number(over, &["space"]), number(over, &["space_model"])),
            digits(number(over, &["worst"]), 3),
            digits(number(over, &["worst_model"]), 3),
            off(number(over, &["worst"]), number(over, &["worst_model"])),
            digits(autumn::AutumnTree { ratio: RATIO, scaling: *scaling, levels }.over_last(), 3),
            digits(number(load, &["file_bytes_per_raw"]), 3),
        ]
    });
    let columns =
        ["policy ", "space", "model", "off", "worst now", "model", "off", "worst of a full tree", "files per raw byte"];
    format!(
        "\n## Space amplification\n\nBytes per live byte after overwriting an eighth of the entries; all bytes over those of the largest run, which is what it could come to, beside the closed form of a full tree, N/N_L; and what files take for each raw byte of entries \
         (without compression; with checksums, indexes and sequences).\n\n{}",
        table(&columns, &rows.collect::<Vec<_>>())
    )
}

fn sizes(policies: &[Measured<'_>]) -> String {
    let mut rows = Vec::new();
    for Measured { name, figures, .. } in policies {
        for point in points(figures) {
            let mut row =
                vec![(*name).to_owned(), digits(number(point, &["buffers"]), 0), digits(number(point, &["levels"]), 0)];
            row.extend([digits(number(point, &["runs"]), 0), digits(number(point, &["runs_counts"]), 0)]);
            for (kind, _) in READS {
                row.extend(["blocks", "model"].map(|column| digits(number(point, &[kind, column]), 2)));
            }
            row.extend([["at_once", "seek"], ["one_by_one", "seek"]].map(|path| digits(number(point, &path), 0)));
            rows.push(row);
        }
    }
    let columns = [
        "policy ",
        "buffers",
        "deepest level",
        "runs",
        "by flushes",
        "lookup",
        "model",
        "seek",
        "model",
        "with 10 more",
        "model",
        "µs of a seek",
        "one by one",
    ];
    format!("\n## At each size\n\n{}", table(&columns, &rows))
}

/// What models are held to.
fn verdicts(policies: &[Measured<'_>]) -> String {
    let mut text = "\n## Model accuracy: predicted and measured\n\n".to_owned();
    let mut within = |what: &str, worst: f64| {
        text +=
            &holds(worst <= 0.1, &format!("{what} within 10 % of the model; the worst is {:.1} % off", 100.0 * worst));
    };
    for (kind, what) in READS {
        let worst = |model| policies.iter().map(|policy| worst_off(policy.figures, kind, model)).fold(0.0, f64::max);
        within(&format!("block reads of a {what}, at each size,"), worst("model"));
        let off = |figures: &Value| (mean(figures, &[kind, "blocks"]) / mean(figures, &[kind, "counts"]) - 1.0).abs();
        let means = policies.iter().map(|policy| off(policy.figures));
        within(&format!("their mean over sizes, by flushes alone, {what},"), means.fold(0.0, f64::max));
    }
    let worst = |real: &dyn Fn(&Value) -> f64, model: &dyn Fn(&Value) -> f64| {
        policies.iter().map(|policy| (real(policy.figures) / model(policy.figures) - 1.0).abs()).fold(0.0, f64::max)
    };
    let of = |path: &'static [&'static str]| move |figures: &Value| number(figures, path);
    within(
        "bytes written by the load",
        worst(&|figures| sum(figures, &["load", "written"]), &|figures| sum(figures, &["load", "written_model"])),
    );
    within(
        "bytes written by overwriting",
        worst(&of(&["overwriting", "written"]), &of(&["overwriting", "written_model"])),
    );
    within("space after overwriting", worst(&of(&["overwriting", "space"]), &of(&["overwriting", "space_model"])));
    text
}

/// What the paper says of Garnering, and whether it is so here.
fn claims(policies: &[Measured<'_>]) -> String {
    let mut text =
        "\n## The paper's claims\n\nEach of a `c` below 1 beside leveling (c = 1) with as many runs in level 1.\n\n"
            .to_owned();
    let is_base = |of: &Measured<'_>, base: &Measured<'_>| base.scaling == 1.0 && base.first == of.first;
    for policy in policies.iter().filter(|policy| policy.scaling < 1.0) {
        let Some(Measured { figures: base, .. }) = policies.iter().find(|base| is_base(policy, base)) else { continue };
        let Measured { name, figures, first, .. } = policy;
        let compare = |value: &dyn Fn(&Value) -> f64| (value(figures), value(base));
        let mut claim = |words: &str, (here, there): (f64, f64), places: usize, is_so: bool, term: String| {
            let change = if there > 0.0 { format!(" ({:+.0} %)", 100.0 * (here / there - 1.0)) } else { String::new() };
            text += &holds(is_so, &format!("{name}: {words}: {here:.places$} to {there:.places$}{change}. {term}"));
        };
        let levels = compare(&|figures| number(figures, &["load", "levels_model"]));
        claim("fewer levels", levels, 0, levels.0 < levels.1, "Eq. 5.".to_owned());
        let term = |kind: &str| {
            let (model, other) = (mean(figures, &[kind, "model"]), mean(base, &[kind, "model"]));
            format!("The model says {:+.0} %.", 100.0 * (model / other - 1.0))
        };
        for (kind, what) in [
            ("absent", "faster point reads without filters"),
            ("seek", "faster seeks"),
            ("scan", "faster scans of 11 entries"),
        ] {
            let blocks = compare(&|figures| mean(figures, &[kind, "blocks"]));
            claim(&format!("{what}, blocks"), blocks, 2, blocks.0 < blocks.1, term(kind));
            for (way, words) in [("at_once", "all runs at once"), ("one_by_one", "one by one")] {
                if kind == "absent" && way == "one_by_one" {
                    continue;
                }
                let micros = compare(&|figures| mean(figures, &[way, kind]));
                let runs = compare(&timed_runs);
                let words = if kind == "absent" { format!("{what}, µs") } else { format!("{what}, {words}, µs") };
                claim(
                    &words,
                    micros,
                    0,
                    micros.0 < micros.1,
                    format!("Runs at these sizes: {:.2} to {:.2}.", runs.0, runs.1),
                );
            }
        }
        let seconds =
            compare(&|figures| number(figures, &["load", "seconds"]) + number(figures, &["load", "settle_seconds"]));
        let amplification =
            compare(&|figures| sum(figures, &["load", "written_model"]) / number(figures, &["load", "flushed"]));
        let runs = if *first == 1 { "one run".to_owned() } else { format!("{first} runs") };
        let level_1 = compare(&|figures| first_level(figures));
        let why = format!(
            "The model: {:.1} to {:.1} bytes written for each; level 1 alone {:.1} to {:.1}, since its ratio is {:.0} to {:.0}, in {runs}.",
            amplification.0,
            amplification.1,
            level_1.0,
            level_1.1,
            compare(&|figures| number(&figures["load"]["ratios"][0], &[])).0,
            compare(&|figures| number(&figures["load"]["ratios"][0], &[])).1,
        );
        claim("load no slower, s until the tree is at rest", seconds, 1, seconds.0 <= 1.03 * seconds.1, why.clone());
        let stalls = compare(&|figures| number(&figures["load"]["stalls"][0], &[]));
        claim("fewer write stalls (waits for a flush)", stalls, 0, stalls.0 < stalls.1, String::new());
        let delayed =
            compare(&|figures| number(&figures["load"]["stalls"][1], &[]) + number(&figures["load"]["stalls"][3], &[]));
        claim("less time of write throttling and stalls, s", delayed, 1, delayed.0 < delayed.1, why);
        let space = compare(&|figures| number(figures, &["overwriting", "space"]));
        claim("hardly more space", space, 3, space.0 <= 1.05 * space.1, String::new());
    }
    text
}

/// What the model writes into level 1 for each byte flushed.
fn first_level(figures: &Value) -> f64 {
    number(&figures["load"]["written_model"][0], &[]) / number(figures, &["load", "flushed"])
}
