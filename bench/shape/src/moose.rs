//! MOOSE beside leveling, tiering, lazy leveling and QLSM-Bush on its workloads A to J: block
//! reads, bytes compacted and times, each beside its exact model and the paper's Tables 4 and 5
//! (*Structural Designs Meet Optimality: Exploring Optimized LSM-tree Structures in A Colossal
//! Configuration Space*).
//!
//! ```text
//! load ──► A, C, D, H, J, G, I, E, F, B: from the least to the most writing, one after the other
//!          on one tree; after each, compactions come to their end
//!
//! models, 500 times in each: the present runs, those in compaction in part ──► blocks
//!         runs before, the same flushes ──► the simulated planner ──► bytes compacted
//! ```
//!
//! # The paper's figures
//!
//! Its "#IO per query" counts reads and compactions: row C of Table 5, 98 % lookups, is below 1, so
//! these are zero-result lookups; row A, 98 % scans, is the number of runs; and row B, 98 %
//! updates, is its bytes in blocks of 4 KiB over 2,000,000 operations. With a scan and a lookup
//! from rows A and C ([`Paper::of`]), all other rows can be recomputed; where that fails, the
//! report says so.
//!
//! `cargo run --release -p shape --bin moose -- --help`

use std::time::Instant;

use common::words::Words;
use serde_json::{Value, json};
use shape::kept::{Kept, by_policy, digits, holds, number, off, publish, table};
use shape::store::{BLOCK_BYTES, RAW_BYTES, Setting, Store, absent_blocks, flush_all, reads, runs_met, scan_blocks};
use tamarack::Result;
use tamarack_model::Bytes;
use tamarack_model::cost::range;
use tamarack_model::design::{Design, price};
use tamarack_model::device::Device;
use tamarack_model::policy::{self, Policy};
use tamarack_model::simulate::{Keys, Tree};
use tamarack_model::workload::Workload;

const HELP: &str = "\
usage: moose [--dir DIR] [--mib N] [--only LIST] [--scans N] [--results FILE] [--from FILE] [--json] [--write] [--report FILE] [--notes FILE] [--conditions TEXT]

  --dir DIR          where databases are made and removed again          [the system's temporary directory]
  --mib N            raw size of the tree; buffers are 1/1792 of it                                  [3584]
  --only LIST        moose, leveling, tiering, lazy-leveling, qlsm-bush                               [all]
  --scans N          scans of a workload at most; five times as many lookups, 25 times as many updates [12000]
  --results FILE     figures are added to this file of JSON, one policy after the other
  --from FILE        measure nothing, and make the report of the figures in this file
  --json             a line of JSON for each policy instead of tables
  --write            write the report, too
  --report FILE      where to                                                   [bench/results/DATE-moose-...]
  --notes FILE       what is to stand at its end
  --conditions TEXT  how it was run, for the report";

/// In the order of the paper's tables.
const POLICIES: [&str; 5] =
    ["leveling:T=10", "tiering:T=10", "lazy-leveling:T=10", "qlsm-bush:T=2,X=2", "moose:last=0.8,k=1"];
const SHORT: [&str; 5] = ["leveling", "tiering", "lazy leveling", "QLSM-Bush", "MOOSE"];

/// A number of memtables that leaves every level of each of these trees partly full, as the paper's
/// scans show of its trees: tiering with T = 10 has 1 + 7 + 9 + 2 runs, QLSM-Bush 1 + 6 + 128 (its
/// content when it had three levels, then the outputs of level 1, 256 memtables each, and level 1).
const BUFFERS: u64 = 1792;

const FILTER: &str = "bloom:bits=5,allocation=monkey";

/// Entries of a scan; the paper does not say.
const SCANNED: u64 = 10;

/// How often a workload's models are asked.
const LOOKS: u64 = 500;

/// Operations of each of the paper's workloads.
const PAPER_OPERATIONS: f64 = 2e6;

/// A workload of Table 4: shares of scans, updates, lookups; and the tables' figures for it, by
/// policy.
struct Mix {
    name: &'static str,
    shares: [u64; 3],
    /// Table 5: I/Os per query, GB merged.
    figures: [(f64, f64); 5],
    /// Table 4: ranks among eight.
    ranks: [u32; 5],
}

const fn mix(name: &'static str, shares: [u64; 3], figures: [(f64, f64); 5], ranks: [u32; 5]) -> Mix {
    Mix { name, shares, figures, ranks }
}

static MIXES: [Mix; 10] = [
    mix("A", [98, 1, 1], [(4.23, 1.0), (17.9, 10.0), (14.0, 2.0), (139.0, 0.0), (5.98, 2.0)], [4, 7, 6, 8, 5]),
    mix("B", [1, 98, 1], [(4.25, 31.0), (0.96, 6.0), (2.20, 16.0), (1.63, 2.0), (1.68, 13.0)], [8, 4, 7, 2, 5]),
    mix("C", [1, 1, 98], [(0.21, 31.0), (0.97, 6.0), (0.40, 15.0), (2.34, 2.0), (0.28, 13.0)], [3, 7, 6, 8, 5]),
    mix("D", [49, 2, 49], [(2.24, 1.0), (10.1, 1.0), (7.91, 1.0), (72.9, 0.0), (3.22, 1.0)], [4, 7, 6, 8, 5]),
    mix("E", [2, 49, 49], [(2.32, 17.0), (1.10, 3.0), (0.80, 3.0), (3.13, 1.0), (1.02, 6.0)], [8, 5, 4, 7, 2]),
    mix("F", [49, 49, 2], [(4.56, 33.0), (11.5, 6.0), (10.9, 16.0), (67.9, 2.0), (4.48, 12.0)], [4, 6, 7, 8, 2]),
    mix("G", [40, 40, 20], [(3.67, 29.0), (9.18, 6.0), (7.48, 15.0), (59.8, 2.0), (3.66, 11.0)], [4, 7, 6, 8, 2]),
    mix("H", [40, 20, 40], [(2.69, 19.0), (8.68, 3.0), (6.89, 3.0), (57.6, 2.0), (3.24, 7.0)], [5, 7, 6, 8, 3]),
    mix("I", [20, 40, 40], [(2.73, 19.0), (4.98, 3.0), (3.99, 3.0), (30.1, 2.0), (2.24, 7.0)], [7, 6, 4, 8, 1]),
    mix("J", [1, 1, 1], [(2.94, 22.0), (7.57, 3.0), (6.08, 3.0), (49.5, 2.0), (3.06, 9.0)], [5, 7, 6, 8, 2]),
];

/// From the least to the most writing.
const ORDER: [&str; 10] = ["A", "C", "D", "H", "J", "G", "I", "E", "F", "B"];

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let mut kept = Kept::read(&words);
    let buffer_bytes = (words.positive("mib", 3584) << 20) / BUFFERS;
    let setting = json!({ "buffer_bytes": buffer_bytes, "scans": words.positive("scans", 12_000) });
    if words.text("from").is_none() {
        let name = |policy: &str| policy.split(':').next().unwrap_or_default().to_owned();
        for policy in POLICIES.iter().filter(|policy| words.list("only").wants(&name(policy))) {
            let figures = measure(&words, policy, buffer_bytes)?;
            kept.add(policy, &setting, figures);
        }
    }
    publish(&words, &kept, "moose-", &report(&words, &kept));
    Ok(())
}

fn measure(words: &Words, name: &str, buffer_bytes: u64) -> Result<Value> {
    let scratch = words.scratch();
    let setting =
        Setting { dir: scratch.path().to_owned(), policy: name.to_owned(), filter: FILTER.to_owned(), buffer_bytes };
    let parsed = policy::parse(name).expect("a policy");
    let all = buffer_bytes / RAW_BYTES * BUFFERS;
    let mut store = setting.open(0, false)?;
    let began = Instant::now();
    store.grow_to(all)?;
    let seconds = began.elapsed().as_secs_f64();
    let settling = store.settle(true)?.as_secs_f64();
    let stats = store.db.stats();
    let flushes = store.flushes();
    let mut tree = Tree::new(&parsed, Bytes(buffer_bytes));
    flush_all(&mut tree, &flushes);
    let runs: Vec<usize> = stats.levels.iter().map(|level| level.runs.len()).collect();
    let full = price(
        &Design {
            entries: all,
            entry_bytes: RAW_BYTES,
            buffer: Bytes(buffer_bytes),
            policy: &parsed,
            filter: FILTER.parse().expect("a filter"),
            block_bytes: BLOCK_BYTES,
        },
        &Workload::of_parts(1.0, 0.0, 0.0, 0.0, 0.0).expect("a workload"),
        &Device::default(),
    );
    let load = json!({
        "seconds": seconds,
        "settle_seconds": settling,
        "flushed": stats.flushed_raw_bytes,
        "written": stats.written_raw_bytes(),
        "written_model": tree.report().written_total().0,
        "runs": runs,
        "runs_counts": (1..=tree.shape().last()).map(|level| tree.occupancy().level(level).len()).collect::<Vec<_>>(),
        "slots": tree.shape().levels().iter().map(|level| level.runs).collect::<Vec<_>>(),
        "ratios": (1..=tree.shape().last()).map(|level| tree.shape().ratio(level)).collect::<Vec<_>>(),
        "full_scan": full.cost.range_seeks,
        "full_absent": full.cost.zero_result_reads,
        "file_bytes": stats.space.live_bytes,
    });
    eprintln!("{name}: {load}");
    assert_eq!(store.warm()?, all, "all entries are there");
    let mut mixes = serde_json::Map::new();
    for mix in ORDER.map(|name| MIXES.iter().find(|mix| mix.name == name).expect("it is in the list")) {
        let figures = run(&store, &parsed, mix, words.positive("scans", 12_000))?;
        eprintln!("{name} {}: {figures}", mix.name);
        mixes.insert(mix.name.to_owned(), figures);
    }
    let raw: u64 = store.db.stats().levels.iter().map(|level| level.total().raw_bytes).sum();
    Ok(json!({ "load": load, "mixes": mixes, "space": raw as f64 / (all * RAW_BYTES) as f64 }))
}

/// As many operations as keep each kind within its bound.
fn operations(mix: &Mix, scans: u64) -> u64 {
    let whole: u64 = mix.shares.iter().sum();
    let bounds = [scans, 25 * scans, 5 * scans];
    mix.shares.iter().zip(bounds).map(|(share, bound)| bound * whole / share).min().expect("three kinds")
}

fn run(store: &Store, policy: &Policy, mix: &Mix, scans: u64) -> Result<Value> {
    let whole: u64 = mix.shares.iter().sum();
    let operations = operations(mix, scans);
    let (shape, occupancy, _) = store.db.planned();
    let (before, known) = (store.db.stats(), store.flushes().len());
    let began = Instant::now();
    let (mut done, mut seconds, mut looking) = ([0_u64; 3], [0.0; 3], 0.0);
    // Of a scan, a lookup, and of the runs that there are.
    let (mut models, mut looks) = ([0.0; 3], 0.0);
    for operation in 0..operations {
        if operation % (operations / LOOKS).max(1) == 0 {
            let began = Instant::now();
            let stats = store.db.stats();
            let now = [scan_blocks(&stats, store.entries, SCANNED), absent_blocks(&stats), runs_met(&stats)];
            models.iter_mut().zip(now).for_each(|(sum, now)| *sum += now);
            looks += 1.0;
            looking += began.elapsed().as_secs_f64();
        }
        let drawn = store.below(whole);
        let kind = if drawn < mix.shares[0] { 0 } else { 1 + usize::from(drawn >= mix.shares[0] + mix.shares[1]) };
        let began = Instant::now();
        match kind {
            0 => store.scan(SCANNED)?,
            1 => store.overwrite()?,
            _ => store.look_up_absent()?,
        }
        seconds[kind] += began.elapsed().as_secs_f64();
        done[kind] += 1;
    }
    let taken = began.elapsed().as_secs_f64() - looking;
    let read = reads(&store.db.stats());
    let settling = store.settle(false)?.as_secs_f64();
    let after = store.db.stats();
    let flushes = store.flushes().split_off(known);
    let mut tree = Tree::resume(policy, shape, occupancy).drawing(Keys::drawn(store.entries, RAW_BYTES, 0.0));
    flush_all(&mut tree, &flushes);
    let flushed: u64 = flushes.iter().sum();
    let [scan, absent, runs] = models.map(|sum| sum / looks);
    let (blocks_before, reads_before) = reads(&before);
    let stalled = |stats: &tamarack::Stats| stats.write_stall_seconds + stats.write_delay_seconds;
    let per_operation = |count: f64| count / operations as f64;
    let scans_index = (after.reads.scans.index_blocks - before.reads.scans.index_blocks) as f64;
    let micros = |kind: usize| if done[kind] > 0 { 1e6 * seconds[kind] / done[kind] as f64 } else { f64::NAN };
    let lookups = (after.lookups.data_blocks_read - before.lookups.data_blocks_read) as f64;
    let blocks = (read.0 - blocks_before) as f64;
    Ok(json!({
        "operations": operations,
        "scans": done[0], "updates": done[1], "lookups": done[2],
        "blocks": per_operation(blocks),
        "blocks_model": per_operation(done[0] as f64 * scan + done[2] as f64 * absent),
        "reads": per_operation((read.1 - reads_before) as f64),
        "index_blocks": per_operation(scans_index),
        "runs": runs,
        "scan": (blocks - lookups) / done[0].max(1) as f64, "scan_model": scan,
        "scan_reads": (after.reads.scans.reads - before.reads.scans.reads) as f64 / done[0].max(1) as f64,
        "absent": lookups / done[2].max(1) as f64, "absent_model": absent,
        "flushes": flushes.len(),
        "flushed": flushed,
        "merged": (after.written_raw_bytes() - before.written_raw_bytes()) as f64 - flushed as f64,
        "merged_model": tree.report().written_total().as_f64() - flushed as f64,
        "compactions": after.compactions - before.compactions,
        "written_levels": after.levels.iter().enumerate().map(|(at, level)| level.written_raw_bytes - before.levels.get(at).map_or(0, |level| level.written_raw_bytes)).collect::<Vec<_>>(),
        "written_levels_model": tree.report().written.iter().map(|bytes| bytes.0).collect::<Vec<_>>(),
        "seconds": taken, "settle_seconds": settling,
        "micros": [micros(0), micros(1), micros(2)],
        "delayed_seconds": stalled(&after) - stalled(&before),
    }))
}

/// What the paper's figures of a policy come to: its scan and its lookup, in I/Os.
struct Paper {
    scan: f64,
    lookup: f64,
}

impl Paper {
    /// From rows A and C, which are nearly all scans, and nearly all lookups. Row A's bytes are
    /// left out; for tiering, they do not fit its I/Os.
    fn of(policy: usize) -> Self {
        let [a, c] =
            ["A", "C"].map(|name| MIXES.iter().find(|mix| mix.name == name).expect("it is there").figures[policy]);
        let scan = a.0 / 0.98;
        Self { scan, lookup: ((c.0 - 0.01 * scan) / 0.98).max(0.0) }
    }

    /// I/Os of an operation by these and by the bytes merged.
    fn recomputed(&self, mix: &Mix, policy: usize) -> f64 {
        self.reads(mix) + mix.figures[policy].1 * 1e9 / BLOCK_BYTES as f64 / PAPER_OPERATIONS
    }

    fn reads(&self, mix: &Mix) -> f64 {
        let whole: u64 = mix.shares.iter().sum();
        (mix.shares[0] as f64 * self.scan + mix.shares[2] as f64 * self.lookup) / whole as f64
    }
}

type Policies<'a> = [(usize, &'a Value)];

fn report(words: &Words, kept: &Kept) -> String {
    let policies: Vec<(usize, &Value)> = POLICIES
        .iter()
        .enumerate()
        .filter_map(|(at, name)| kept.policies.get(*name).map(|figures| (at, figures)))
        .collect();
    let setting = policies.first().map_or(&Value::Null, |policy| &policy.1["setting"]);
    let buffer_bytes = number(setting, &["buffer_bytes"]);
    let mut text = format!(
        "# MOOSE beside other policies on its workloads, {}\n\n{}\n\
         MOOSE's Tables 4 and 5 in small: keys of 24 bytes, values of 1000, {BUFFERS} buffers of {:.2} MiB, {:.2} GiB in all (the paper: about 5,500 of 2 MB, 11 GB), filters of 5 bits per entry shared out as Monkey does, \
         blocks of 4 KiB, direct I/O, no cache of blocks, indexes in memory, no compression, one client, two workers. One tree for each policy, loaded with unique random keys; then the ten workloads, from the least to the most writing. \
         A scan returns {SCANNED} entries (the paper does not say how many), a lookup is of a key that is not there (as row C of Table 5 shows), an update gives any entry another value. \
         At most {} scans, {} updates and {} lookups in a workload.\n\n\
         * *Blocks* are data blocks that scans and lookups read. Their model is the exact sum over the present runs, at {LOOKS} moments of the workload, those in compaction taken in part: predicted false positives for lookups, \
         one block in each run for scans, what lies between two blocks, and the entries that follow.\n\
         * *Merged* are raw bytes that flushes and compactions wrote beyond each memtable's own, in blocks of 4 KiB for each operation, as in the paper. Their model is the simulated planner, from the runs before the workload, with the same flushes.\n\
         * *Sum* is the paper's \"#IO per query\". Nothing is fitted.\n",
        kept.date(),
        kept.circumstances(words, &by_policy("moose")),
        buffer_bytes / 1_048_576.0,
        buffer_bytes * BUFFERS as f64 / 2_f64.powi(30),
        number(setting, &["scans"]),
        25.0 * number(setting, &["scans"]),
        5.0 * number(setting, &["scans"]),
    );
    text += &trees(&policies);
    text += &all(&policies);
    text += &kinds(&policies);
    text += &merged(&policies);
    text += &times(&policies);
    text += &ranks(&policies);
    text += &paper(&policies);
    text += &verdicts(&policies);
    text
}

fn list(value: &Value) -> String {
    value.as_array().map_or(String::new(), |list| {
        let word = |value: &Value| {
            value.as_f64().map_or(String::new(), |number| {
                if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.1}") }
            })
        };
        list.iter().map(word).collect::<Vec<_>>().join(", ")
    })
}

fn trees(policies: &Policies<'_>) -> String {
    let rows = policies.iter().map(|(at, figures)| {
        let load = &figures["load"];
        vec![
            POLICIES[*at].to_owned(),
            list(&load["ratios"]),
            list(&load["slots"]),
            list(&load["runs"]),
            list(&load["runs_counts"]),
            digits(number(load, &["written"]) / 1e9, 2),
            digits(number(load, &["written_model"]) / 1e9, 2),
            off(number(load, &["written"]), number(load, &["written_model"])),
            digits(number(load, &["seconds"]) + number(load, &["settle_seconds"]), 0),
            digits(number(figures, &["space"]), 3),
        ]
    });
    let columns = [
        "policy ",
        "size ratios ",
        "run slots ",
        "runs ",
        "by flushes ",
        "load wrote, GB",
        "model",
        "off",
        "s until at rest",
        "space in the end",
    ];
    format!(
        "\n## Trees\n\nLevels from small to large, after the load. Space: raw bytes of all runs per byte of live entries, after all workloads.\n\n{}",
        table(&columns, &rows.collect::<Vec<_>>())
    )
}

/// Merged bytes, in blocks for each operation.
fn merged_blocks(figures: &Value, mix: &str, which: &str) -> f64 {
    let of = &figures["mixes"][mix];
    number(of, &[which]) / BLOCK_BYTES as f64 / number(of, &["operations"])
}

/// The paper's measure.
fn sum(figures: &Value, mix: &str, is_model: bool) -> f64 {
    let (blocks, merged) = if is_model { ("blocks_model", "merged_model") } else { ("blocks", "merged") };
    number(figures, &["mixes", mix, blocks]) + merged_blocks(figures, mix, merged)
}

fn all(policies: &Policies<'_>) -> String {
    let mut rows = Vec::new();
    for mix in &MIXES {
        for (at, figures) in policies {
            let of = |name: &str| number(figures, &["mixes", mix.name, name]);
            let (merged, model) =
                (merged_blocks(figures, mix.name, "merged"), merged_blocks(figures, mix.name, "merged_model"));
            let paper = mix.figures[*at];
            rows.push(vec![
                mix.name.to_owned(),
                SHORT[*at].to_owned(),
                digits(of("operations"), 0),
                digits(of("blocks"), 3),
                digits(of("blocks_model"), 3),
                off(of("blocks"), of("blocks_model")),
                digits(of("flushes"), 0),
                digits(merged.max(0.0), 3),
                digits(model.max(0.0), 3),
                if of("merged_model") < 0.01 * of("flushed") { String::new() } else { off(merged, model) },
                digits(sum(figures, mix.name, false), 2),
                digits(sum(figures, mix.name, true), 2),
                paper.0.to_string(),
                digits(paper.1 * 1e9 / BLOCK_BYTES as f64 / PAPER_OPERATIONS, 2),
            ]);
        }
    }
    let columns = [
        "",
        "policy ",
        "operations",
        "blocks",
        "model",
        "off",
        "flushes",
        "merged",
        "model",
        "off",
        "sum",
        "model",
        "paper's sum",
        "of it merged",
    ];
    format!(
        "\n## Table 5, per operation\n\nThe paper's last column is its bytes, in whole GB, in blocks for each of its operations.\n\n{}",
        table(&columns, &rows)
    )
}

/// Means over all workloads, weighted by operations.
fn weighted(figures: &Value, value: &str, weight: &str) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for mix in &MIXES {
        let of = &figures["mixes"][mix.name];
        sum += number(of, &[value]) * number(of, &[weight]);
        weights += number(of, &[weight]);
    }
    sum / weights
}

fn kinds(policies: &Policies<'_>) -> String {
    let per_block = range::entries_per_block(BLOCK_BYTES as f64, RAW_BYTES as f64);
    let rows = policies.iter().map(|(at, figures)| {
        let of = |value, weight| weighted(figures, value, weight);
        let paper = Paper::of(*at);
        vec![
            SHORT[*at].to_owned(),
            digits(of("runs", "operations"), 1),
            digits(of("scan", "scans"), 2),
            digits(of("scan_model", "scans"), 2),
            off(of("scan", "scans"), of("scan_model", "scans")),
            digits(of("scan_reads", "scans"), 2),
            digits(number(figures, &["load", "full_scan"]) + (SCANNED - 1) as f64 / per_block, 1),
            digits(paper.scan, 1),
            digits(of("absent", "lookups"), 4),
            digits(of("absent_model", "lookups"), 4),
            off(of("absent", "lookups"), of("absent_model", "lookups")),
            digits(number(figures, &["load", "full_absent"]), 3),
            digits(paper.lookup, 2),
        ]
    });
    let columns = [
        "policy ",
        "runs",
        "blocks of a scan",
        "model",
        "off",
        "its reads",
        "full tree",
        "paper",
        "blocks of a lookup",
        "model",
        "off",
        "full tree",
        "paper",
    ];
    format!(
        "\n## Scans and lookups\n\nMeans over all workloads. *Its reads*: calls that read files, each of which may bring several blocks, index blocks that were not in memory yet included. *Full tree*: what `tamarack design` says of a tree as full as its shape \
         allows. The paper's are recomputed from rows A and C.\n\n{}",
        table(&columns, &rows.collect::<Vec<_>>())
    )
}

fn merged(policies: &Policies<'_>) -> String {
    let rows = policies.iter().map(|(at, figures)| {
        let total = |name: &str| MIXES.iter().map(|mix| number(figures, &["mixes", mix.name, name])).sum::<f64>();
        let updated = total("updates") * RAW_BYTES as f64;
        let rows = MIXES.iter().filter(|mix| ["B", "E"].contains(&mix.name));
        let papers: Vec<String> = rows
            .map(|mix| {
                let whole: u64 = mix.shares.iter().sum();
                let bytes = mix.shares[1] as f64 / whole as f64 * PAPER_OPERATIONS * 1024.0;
                digits(mix.figures[*at].1 * 1e9 / bytes, 1)
            })
            .collect();
        vec![
            SHORT[*at].to_owned(),
            digits(updated / 1e6, 0),
            digits(total("merged") / 1e6, 0),
            digits(total("merged_model") / 1e6, 0),
            off(total("merged"), total("merged_model")),
            digits(total("merged") / updated, 2),
            papers.join(", "),
        ]
    });
    let columns = ["policy ", "updates, MB", "merged, MB", "model, MB", "off", "merged for each", "paper, of B and E"];
    format!("\n## Bytes that compactions write, all workloads\n\n{}", table(&columns, &rows.collect::<Vec<_>>()))
}

/// Microseconds of an operation, settling included.
fn micros(figures: &Value, mix: &str) -> f64 {
    let of = &figures["mixes"][mix];
    1e6 * (number(of, &["seconds"]) + number(of, &["settle_seconds"])) / number(of, &["operations"])
}

fn times(policies: &Policies<'_>) -> String {
    let rows = MIXES.iter().map(|mix| {
        let mut row = vec![mix.name.to_owned()];
        for (_, figures) in policies {
            row.push(digits(micros(figures, mix.name), 1));
        }
        for (_, figures) in policies {
            let of = &figures["mixes"][mix.name]["micros"];
            row.push(
                (0..3)
                    .map(|kind| of[kind].as_f64().map_or("-".to_owned(), |micros| format!("{micros:.0}")))
                    .collect::<Vec<_>>()
                    .join(" / "),
            );
        }
        row
    });
    let mut columns = vec![""];
    columns.extend(policies.iter().map(|(at, _)| SHORT[*at]));
    columns.extend(policies.iter().map(|(at, _)| SHORT[*at]));
    format!(
        "\n## Times\n\nMicroseconds of an operation, until compactions have ended; then of a scan / an update / a lookup.\n\n{}",
        table(&columns, &rows.collect::<Vec<_>>())
    )
}

/// The place of each, 1 for the least.
fn places(values: &[f64]) -> Vec<usize> {
    values.iter().map(|value| 1 + values.iter().filter(|other| *other < value).count()).collect()
}

fn ranks(policies: &Policies<'_>) -> String {
    let mut sums = vec![[0.0; 4]; policies.len()];
    let mut rows: Vec<Vec<String>> = MIXES
        .iter()
        .map(|mix| {
            let by = |value: &dyn Fn(usize, &Value) -> f64| {
                places(&policies.iter().map(|(at, figures)| value(*at, figures)).collect::<Vec<_>>())
            };
            let ways = [
                by(&|_, figures| sum(figures, mix.name, false)),
                by(&|_, figures| micros(figures, mix.name)),
                by(&|at, _| mix.figures[at].0),
                by(&|at, _| f64::from(mix.ranks[at])),
            ];
            let mut row = vec![mix.name.to_owned()];
            for (way, places) in ways.iter().enumerate() {
                sums.iter_mut().zip(places).for_each(|(sum, place)| sum[way] += *place as f64);
                row.push(places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            }
            row
        })
        .collect();
    let mean = |way: usize| {
        sums.iter().map(|sum| format!("{:.1}", sum[way] / MIXES.len() as f64)).collect::<Vec<_>>().join(" ")
    };
    rows.push(std::iter::once("mean".to_owned()).chain((0..4).map(mean)).collect());
    let names = policies.iter().map(|(at, _)| SHORT[*at]).collect::<Vec<_>>().join(", ");
    format!(
        "\n## Ranks\n\nOf {names}, in this order. The paper's are those of its Table 5 by I/Os, and of Table 4, by time, among these.\n\n{}",
        table(&["", "by blocks, read and merged ", "by time ", "paper, by I/Os ", "paper, Table 4 "], &rows)
    )
}

/// Inconsistent figures of the paper.
fn paper(policies: &Policies<'_>) -> String {
    let mut text = "\n## Consistency of the paper's Table 5\n\nRows A and C give a scan and a lookup of each policy, and bytes the I/Os of compactions. From these, every other row can be recomputed. It cannot, by more than 15 %, here; such figures may have been misread, or scans of that \
         row met other trees:\n\n"
        .to_owned();
    let (mut fits, mut not) = (0, Vec::new());
    for (at, _) in policies {
        let own = Paper::of(*at);
        for mix in MIXES.iter() {
            let recomputed = own.recomputed(mix, *at);
            let printed = mix.figures[*at].0;
            if (recomputed / printed - 1.0).abs() <= 0.15 {
                fits += 1;
            } else {
                not.push(vec![
                    mix.name.to_owned(),
                    SHORT[*at].to_owned(),
                    printed.to_string(),
                    digits(recomputed, 2),
                    mix.figures[*at].1.to_string(),
                    digits((printed - own.reads(mix)) * BLOCK_BYTES as f64 * PAPER_OPERATIONS / 1e9, 1),
                ]);
            }
        }
    }
    text += &table(&["", "policy ", "#IO", "recomputed", "GB", "GB that would fit"], &not);
    text + &format!("\n{fits} others go together.\n")
}

fn verdicts(policies: &Policies<'_>) -> String {
    let mut text = "\n## Model accuracy: predicted and measured\n\n".to_owned();
    let worst = |value: &dyn Fn(&Value, &str) -> f64| {
        let each = policies.iter().flat_map(|(at, figures)| MIXES.iter().map(move |mix| (*at, *figures, mix.name)));
        each.map(|(at, figures, mix)| (value(figures, mix).abs(), format!("{} {mix}", SHORT[at])))
            .fold((0.0, String::new()), |worst, one| if one.0 > worst.0 { one } else { worst })
    };
    let mut within = |what: &str, (off, which): (f64, String)| {
        let furthest = match which.is_empty() {
            true => "none is off".to_owned(),
            false => format!("the furthest off is {which}, {:.1} %", 100.0 * off),
        };
        text += &holds(off <= 0.1, &format!("{what} within 10 % of the model; {furthest}"));
    };
    let of = |figures: &Value, mix: &str, name: &str| number(figures, &["mixes", mix, name]);
    within(
        "block reads per operation, each workload,",
        worst(&|figures, mix| of(figures, mix, "blocks") / of(figures, mix, "blocks_model") - 1.0),
    );
    within(
        "the sum of reads and compactions per operation, each workload,",
        worst(&|figures, mix| sum(figures, mix, false) / sum(figures, mix, true) - 1.0),
    );
    let written = |figures: &Value, mix: &str, merged: &str| of(figures, mix, merged) + of(figures, mix, "flushed");
    within(
        "bytes that flushes and compactions wrote, of workloads with at least one flush,",
        worst(&|figures, mix| match of(figures, mix, "flushes") > 0.0 {
            true => written(figures, mix, "merged") / written(figures, mix, "merged_model") - 1.0,
            false => 0.0,
        }),
    );
    let load = |figures: &Value, _: &str| {
        number(figures, &["load", "written"]) / number(figures, &["load", "written_model"]) - 1.0
    };
    within("bytes written by the load", worst(&load));
    text
}
