//! The report of `lookups`, in Markdown.

use std::fmt::Write as _;

use common::numbers::mib;

use super::contenders::{ContenderFacts, TREE};
use super::plan::{FilterKind, Group, Workload, elastic_bits};
use super::plot::{Plot, of_group};
use super::summary::{Cell, Comparison, Figure, Rates, Verdict, better_from, cells, compare};
use super::tree::TreeFacts;
use super::{HALF_LIVES, Measured, Results, WARMING_SLICES};
use crate::plan::Reads;
use crate::stores::BLOCK_BYTES;
use crate::table::{count, table, times};

/// Lookups with a cache that holds everything first, then past the page cache.
const THROUGHPUTS: [(Reads, Workload); 6] = [
    (Reads::Cached, Workload::Uniform),
    (Reads::Cached, Workload::Zipfian),
    (Reads::Cached, Workload::Absent),
    (Reads::Direct, Workload::Uniform),
    (Reads::Direct, Workload::Zipfian),
    (Reads::Direct, Workload::Absent),
];

/// What is asked of two filters, in the order of rows.
const FALSE_POSITIVES: [Figure; 2] =
    [Figure::FalsePositives(Workload::Absent), Figure::FalsePositives(Workload::Uniform)];

/// All that was measured, with references to its plots.
pub fn markdown(results: &Results, plots: &[Plot]) -> String {
    let mut text =
        format!("# Lookups: a filter over the whole tree beside Bloom filters, {}\n\n", results.circumstances.date);
    text += &preface(results);
    text += &answers(results);
    for group in Group::ALL {
        text += &of_one_group(results, group, plots);
    }
    text += &contenders(results);
    text += &predictions(results);
    text += &all_figures(results);
    text += &settings(results);
    text
}

fn preface(results: &Results) -> String {
    let rounds = results.circumstances.rounds;
    let figures = if rounds == 1 {
        "one round: throughput has no spread, so no difference of it is clear".to_owned()
    } else {
        format!(
            "{rounds} rounds, in which filters take turns; throughput is the median over the rounds, and counts are over all of them"
        )
    };
    results.circumstances.preface("each tree")
        + &format!(
            "* Trees of up to {} entries of {} + {} bytes, {} MiB, one thread, no compression. Filters of a tree have equal memory. More under [settings](#settings-and-method).\n\
             * {}{}. All took {:.0} minutes.\n\
             * Command, in `bench/`: `{}`\n\n",
            count(results.entries as f64),
            results.key_bytes,
            results.value_bytes,
            count(mib(results.entries * (results.key_bytes + results.value_bytes) as u64)),
            figures[..1].to_uppercase(),
            &figures[1..],
            results.circumstances.minutes,
            results.circumstances.command
        )
}

fn name_of(figure: Figure) -> String {
    match figure {
        Figure::FalsePositives(Workload::Absent) => "fewest false positives, absent keys".to_owned(),
        Figure::FalsePositives(_) => "fewest false positives, present keys".to_owned(),
        Figure::Throughput(reads, workload) => format!("fastest, {}, {}", reads.name(), workload.title()),
    }
}

/// The bits of Chucky in headings: those that it was given.
fn bits_heading(results: &Results) -> Vec<String> {
    results.chucky_bits.iter().map(|bits| format!("{bits} bits")).collect()
}

/// From which number of levels or runs on Chucky is the better choice.
fn answers(results: &Results) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let trees = of_group(results, group);
        let figures =
            FALSE_POSITIVES.into_iter().chain(THROUGHPUTS.map(|(reads, workload)| Figure::Throughput(reads, workload)));
        let mut lines = Vec::new();
        for figure in figures {
            let answers: Vec<Option<String>> =
                results.chucky_bits.iter().map(|bits| answer(results, &trees, *bits, figure, group)).collect();
            if answers.iter().all(Option::is_some) {
                let mut line = vec![name_of(figure)];
                line.extend(answers.into_iter().flatten());
                lines.push(line);
            }
        }
        if !lines.is_empty() {
            let mut heading = vec!["Chucky has, or is".to_owned()];
            heading.extend(bits_heading(results));
            write!(text, "### {}\n\n{}\n", group.title(), table(&words(&heading), 1, &lines))
                .expect("a string takes everything");
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "## Where Chucky is the better choice\n\n\
         Chucky beside the best of all other filters that have as much memory, tree by tree. \"from 10 runs on\": with 10 runs, and in all larger trees that were measured. Only clear differences count: false positives that differ by more than two standard deviations of \
         their counts, and throughput that differs by more than 3 %, with spreads over the rounds that do not overlap.{} Whatever else ran on the machine is in these figures as well.\n\n{text}",
        chance(results.circumstances.rounds)
    )
}

/// How often filters of equal speed seem to differ: of all orders of `2n` values, those in which
/// one filter's `n` come before the other's are two in `(2n)! / (n!)²`.
fn chance(rounds: usize) -> String {
    let once_in = (1..=rounds).fold(0.5, |all, n| all * (rounds + n) as f64 / n as f64);
    match rounds {
        0 | 1 => " One round has no spread.".to_owned(),
        _ => format!(
            " Of filters that are equally fast, spreads over {rounds} rounds miss each other once in {once_in:.0} times."
        ),
    }
}

/// `None` if nothing was compared.
fn answer(results: &Results, trees: &[&TreeFacts], bits: f64, figure: Figure, group: Group) -> Option<String> {
    let compared = |tree: &&TreeFacts| Some((tree.size, compare(&cells(results, tree, bits), figure)?.verdict));
    let verdicts: Vec<(u64, Verdict)> = trees.iter().filter_map(compared).collect();
    let (first, last) = (verdicts.first()?.0, verdicts[verdicts.len() - 1].0);
    let sizes = |wanted: Verdict| {
        let sizes = verdicts.iter().filter(|(_, verdict)| *verdict == wanted).map(|(size, _)| size.to_string());
        sizes.collect::<Vec<_>>()
    };
    let (better, worse) = (sizes(Verdict::Better), sizes(Verdict::Worse));
    Some(match better_from(&verdicts) {
        Some(size) if size == first => "in all trees".to_owned(),
        Some(size) if size == last => format!("with {size} {} only", group.unit()),
        Some(size) => format!("from {size} {} on", group.unit()),
        None if !better.is_empty() => format!("with {} {} only", better.join(", "), group.unit()),
        None if worse.len() == verdicts.len() => "in no tree".to_owned(),
        None if worse.is_empty() => "no clear difference".to_owned(),
        None => "clearly in no tree".to_owned(),
    })
}

fn words(heading: &[String]) -> Vec<&str> {
    heading.iter().map(String::as_str).collect()
}

/// Trees, plots, and comparisons of one group.
fn of_one_group(results: &Results, group: Group, plots: &[Plot]) -> String {
    let trees = of_group(results, group);
    if trees.is_empty() {
        return String::new();
    }
    let mut text = format!("## {}\n\n", group.title());
    let tree = |tree: &&TreeFacts| {
        vec![
            tree.name.clone(),
            tree.policy.clone(),
            count(tree.entries as f64),
            count(tree.memtables as f64),
            format!("{:.1}", tree.memtable_bytes as f64 / 1024.0),
            tree.runs.len().to_string(),
            tree.all_runs().to_string(),
            tree.shown_runs(),
            format!("{:.1}", tree.load_s),
        ]
    };
    let heading =
        ["tree", "policy", "entries", "memtables", "KiB of each", "levels", "runs", "runs of levels", "load, s"];
    text +=
        "Trees as they were found after loading, each memtable flushed by hand and followed by its compactions:\n\n";
    text += &table(&heading, 2, &trees.iter().map(tree).collect::<Vec<_>>());
    text += "\n";
    text += &without_filter(results, &trees);
    for plot in plots.iter().filter(|plot| plot.group == group) {
        writeln!(
            text,
            "![{}, Chucky with {} bits]({})\n",
            group.title().replace('`', ""),
            plot.chucky_bits,
            plot.file_name
        )
        .expect("a string takes everything");
    }
    text += &comparisons(
        results,
        &trees,
        "Fewest false positives",
        "Chucky's false positives for each lookup, divided by those of the filter that has the fewest of all others.",
        &FALSE_POSITIVES,
    );
    text += &comparisons(
        results,
        &trees,
        "Fastest",
        "Chucky's throughput, divided by that of the fastest of all other filters.",
        &THROUGHPUTS.map(|(reads, workload)| Figure::Throughput(reads, workload)),
    );
    text
}

/// Trees for which Chucky has no code with some of its sizes.
fn without_filter(results: &Results, trees: &[&TreeFacts]) -> String {
    let mut lines = String::new();
    for tree in trees {
        let is_there =
            |bits: &&f64| results.filters.iter().any(|facts| facts.tree == tree.name && facts.chucky_bits == **bits);
        let missing: Vec<String> =
            results.chucky_bits.iter().filter(|bits| !is_there(bits)).map(|bits| format!("{bits} bits")).collect();
        if !missing.is_empty() {
            writeln!(
                lines,
                "* {}: the engine makes no Chucky filter with {}, so nothing is compared there.",
                tree.name,
                missing.join(", ")
            )
            .expect("a string takes everything");
        }
    }
    if lines.is_empty() { lines } else { lines + "\n" }
}

/// A table of ratios, with the filter that Chucky is compared with.
fn comparisons(results: &Results, trees: &[&TreeFacts], title: &str, what: &str, figures: &[Figure]) -> String {
    let mut lines = Vec::new();
    for figure in figures {
        for tree in trees {
            let compared: Vec<Option<Comparison<'_>>> =
                results.chucky_bits.iter().map(|bits| compare(&cells(results, tree, *bits), *figure)).collect();
            if compared.iter().any(Option::is_some) {
                let (what, size) = (name_of(*figure), tree.size.to_string());
                let what = what.split_once(", ").map_or(what.clone(), |(_, what)| what.to_owned());
                let mut line = vec![what, size];
                line.extend(compared.iter().map(shown));
                lines.push(line);
            }
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let group = trees[0].group.as_str();
    let unit = Group::ALL.into_iter().find(|other| other.name() == group).map_or("size", Group::unit);
    let mut heading = vec!["lookups".to_owned(), unit.to_owned()];
    heading.extend(bits_heading(results));
    format!(
        "### {title}, {}\n\n{what} In **bold**: Chucky is clearly better; with a question mark: there is no clear difference.\n\n{}\n",
        if group == Group::Runs.name() { "by runs".to_owned() } else { format!("{group} by levels") },
        table(&words(&heading), 1, &lines)
    )
}

fn shown(comparison: &Option<Comparison<'_>>) -> String {
    let Some(Comparison { best, ratio, verdict }) = comparison else { return String::new() };
    match verdict {
        Verdict::Better => format!("**{}** of {best}", times(*ratio)),
        Verdict::Unsure => format!("{}? of {best}", times(*ratio)),
        Verdict::Worse => format!("{} of {best}", times(*ratio)),
    }
}

/// The least number of false positives whose rate is compared with the predicted one: the deviation
/// of a count of 1,000 is 3 %.
const COUNTED_MIN: u64 = 1000;

/// Counted false positives beside predicted ones, over all trees.
fn predictions(results: &Results) -> String {
    let mut lines = Vec::new();
    for kind in FilterKind::ALL {
        for (keys, workload) in [("absent", Workload::Absent), ("present, uniform", Workload::Uniform)] {
            let ratio = |cell: Cell<'_>| {
                let (counted, measure) = (cell.false_positives(workload), &cell.facts.measure);
                let predicted =
                    if workload == Workload::Absent { measure.predicted_absent } else { measure.predicted_present };
                Some(counted.each().filter(|_| counted.events >= COUNTED_MIN)? / predicted)
            };
            let of_tree = |tree| results.chucky_bits.iter().flat_map(move |bits| cells(results, tree, *bits));
            let of_kind = results.trees.iter().flat_map(of_tree).filter(|cell| cell.facts.filter == kind.name());
            let ratios: Vec<f64> = of_kind.filter_map(ratio).collect();
            let Some(spread) = Rates::of(ratios.into_iter()) else { continue };
            let shown = |ratio: f64| format!("{ratio:.3}");
            lines.push(vec![
                kind.name().to_owned(),
                keys.to_owned(),
                spread.rounds.to_string(),
                shown(spread.least),
                shown(spread.median),
                shown(spread.greatest),
            ]);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "## Model accuracy: predicted and counted false positives\n\n\
         Counted false positives divided by predicted ones, of all trees and sizes with at least {} of them: how many these are, and the least, the median and the greatest ratio.\n\n{}\n",
        count(COUNTED_MIN as f64),
        table(&["filter", "keys", "filters", "least", "median", "greatest"], 2, &lines)
    )
}

/// Everything that was counted and measured, filter by filter.
fn all_figures(results: &Results) -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let mut lines = Vec::new();
        for tree in of_group(results, group) {
            for bits in &results.chucky_bits {
                lines.extend(cells(results, tree, *bits).iter().map(|cell| line_of(cell, *bits)));
            }
        }
        if !lines.is_empty() {
            let heading = [
                "tree",
                "chucky of",
                "filter",
                "asked",
                "bits",
                "fp absent",
                "predicted",
                "searched",
                "fp present",
                "predicted",
                "blocks absent",
                "blocks present",
                "c uniform",
                "c zipfian",
                "c absent",
                "d uniform",
                "d zipfian",
                "d absent",
            ];
            write!(text, "### {}\n\n{}\n", group.title(), table(&heading, 3, &lines))
                .expect("a string takes everything");
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "## All figures\n\n\
         `asked`, `bits`: bits per entry that the filter was given, and those that it has in memory. `fp absent`, `fp present`: runs for each lookup that the filter does not exclude and that do not have the key, of absent keys and of present ones (uniform); beside them \
         what the statistics of the tree predict, the sum over all runs, or over those younger than the one with the key. `searched`: data blocks that a lookup of an absent key searches, in the cache or not; more than `fp absent` if runs are searched that no filter was asked about. \
         `blocks`: read from storage for each lookup with the small cache; a present key takes one unless it is cached. `c`, `d`: thousands of gets per second, cached and past the page cache.\n\n{text}"
    )
}

fn line_of(cell: &Cell<'_>, chucky_bits: f64) -> Vec<String> {
    let measure = &cell.facts.measure;
    let each = |counted: super::summary::Counted| counted.each().map_or_else(String::new, small);
    let blocks = |workload| cell.blocks(workload).map_or_else(String::new, |blocks| format!("{blocks:.4}"));
    let asked = measure.specification.split_once("bits=").map_or("", |(_, asked)| asked);
    let mut line = vec![
        cell.tree.name.clone(),
        chucky_bits.to_string(),
        cell.facts.filter.clone(),
        asked.split(',').next().unwrap_or_default().to_owned(),
        format!("{:.2}", measure.bits),
        each(cell.false_positives(Workload::Absent)),
        small(measure.predicted_absent),
        each(cell.searches(Workload::Absent)),
        each(cell.false_positives(Workload::Uniform)),
        small(measure.predicted_present),
        blocks(Workload::Absent),
        blocks(Workload::Uniform),
    ];
    line.extend(THROUGHPUTS.map(|(reads, workload)| {
        cell.rates(reads, workload).map_or_else(String::new, |rates| thousands(rates.median))
    }));
    line
}

/// A rate of false positives, with three digits.
fn small(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.001 => format!("{rate:.6}"),
        rate if rate < 0.1 => format!("{rate:.5}"),
        rate => format!("{rate:.3}"),
    }
}

fn thousands(rate: f64) -> String {
    if rate < 100_000.0 { format!("{:.1}", rate / 1e3) } else { count(rate / 1e3) }
}

/// Trees with a ratio of 10, beside RocksDB's.
fn contenders(results: &Results) -> String {
    if results.contenders.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "## Trees with a ratio of 10, loaded at full speed\n\n\
         Each database is loaded by one thread in random order of keys with the filter that it has afterwards, and settles. The first one's Chucky was given {} bits; the others' filters have as much memory, RocksDB's are given that, in whole bits rounded up (its memory is not told). \
         Written: bytes for each byte of keys and values, to tables by the engine's own count, and by the process, WAL included.\n\n",
        results.contender_bits
    );
    let facts = |facts: &ContenderFacts| {
        vec![
            facts.name.clone(),
            format!("`{}`", facts.filter),
            format!("{:.2}", facts.bits),
            thousands(facts.load_per_s),
            thousands(facts.settled_per_s),
            facts.table_bytes.map_or_else(String::new, |bytes| format!("{bytes:.2}")),
            format!("{:.2}", facts.process_bytes),
        ]
    };
    let heading = ["database", "filter", "bits", "load, k/s", "settled, k/s", "tables x", "process x"];
    text += &table(&heading, 2, &results.contenders.iter().map(facts).collect::<Vec<_>>());
    text += "\nTrees:\n\n";
    for facts in &results.contenders {
        writeln!(text, "* {} ({}): {}.", facts.name, facts.version, facts.tree).expect("a string takes everything");
    }
    text += "\n";
    text += &contender_rates(results);
    text += &acceptance(results);
    text
}

fn slices<'a>(
    results: &'a Results,
    name: &str,
    reads: Reads,
    workload: Workload,
) -> impl Iterator<Item = &'a Measured> {
    let name = name.to_owned();
    results.measured.iter().filter(move |measured| {
        measured.tree == TREE
            && measured.filter == name
            && measured.reads == reads.name()
            && measured.workload == workload.name()
    })
}

fn rates(results: &Results, name: &str, reads: Reads, workload: Workload) -> Option<Rates> {
    Rates::of(slices(results, name, reads, workload).map(|measured| measured.sample.ops_per_s))
}

/// Blocks read for each lookup past the page cache.
fn blocks(results: &Results, name: &str, workload: Workload) -> Option<f64> {
    let (mut blocks, mut lookups) = (0.0, 0.0);
    for Measured { sample, .. } in slices(results, name, Reads::Direct, workload) {
        blocks += sample.blocks? * sample.operations as f64;
        lookups += sample.operations as f64;
    }
    (lookups > 0.0).then(|| blocks / lookups)
}

fn contender_rates(results: &Results) -> String {
    let mut lines = Vec::new();
    for facts in &results.contenders {
        let mut line = vec![facts.name.clone()];
        line.extend(THROUGHPUTS.map(|(reads, workload)| {
            rates(results, &facts.name, reads, workload).map_or_else(String::new, |rates| thousands(rates.median))
        }));
        line.extend(Workload::ALL.map(|workload| {
            blocks(results, &facts.name, workload).map_or_else(String::new, |blocks| format!("{blocks:.3}"))
        }));
        lines.push(line);
    }
    let heading = [
        "database",
        "c uniform",
        "c zipfian",
        "c absent",
        "d uniform",
        "d zipfian",
        "d absent",
        "blocks uniform",
        "zipfian",
        "absent",
    ];
    format!(
        "Thousands of gets per second, cached (`c`) and past the page cache with the small cache (`d`), and blocks read for each get past the page cache, by the engine's own count:\n\n{}\n",
        table(&heading, 1, &lines)
    )
}

/// How far reads of a tiered tree may be behind those of a leveled one, as a share.
const WITHIN: f64 = 0.1;

/// Whether tiering with Chucky reads as leveling with Bloom filters, and writes as tiering.
fn acceptance(results: &Results) -> String {
    let kind_name = |policy: &str, kind: FilterKind| format!("{policy} {}", kind.name());
    let own = kind_name("tiering:T=10", FilterKind::Chucky);
    let leveled = [FilterKind::BloomMonkey, FilterKind::BlockedMonkey].map(|kind| kind_name("leveling:T=10", kind));
    let mut lines = Vec::new();
    for (reads, workload) in THROUGHPUTS {
        let rate = |name: &str| rates(results, name, reads, workload).map(|rates| rates.median);
        let best = leveled.iter().filter_map(|name| Some((name, rate(name)?))).max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(own_rate), Some((best, best_rate))) = (rate(&own), best) else { continue };
        let beside_peer = |name: &str| rate(name).map_or_else(String::new, |peer| times(own_rate / peer));
        let ratio = own_rate / best_rate;
        lines.push(vec![
            format!("{}, {}", reads.name(), workload.title()),
            thousands(own_rate),
            format!("{} ({})", thousands(best_rate), best.replace("leveling:T=10 ", "")),
            times(ratio),
            if ratio >= 1.0 - WITHIN { "yes" } else { "no" }.to_owned(),
            beside_peer("rocksdb"),
            beside_peer("rocksdb universal"),
        ]);
    }
    if lines.is_empty() {
        return String::new();
    }
    let heading =
        ["lookups", "tiering, chucky", "leveling, best Bloom", "times", "within 10 %", "of rocksdb", "of universal"];
    let written = |name: &str| {
        let facts = results.contenders.iter().find(|facts| facts.name == name);
        facts.and_then(|facts| facts.table_bytes).map(|bytes| format!("{bytes:.2}"))
    };
    let of_tables = match (
        written(&own),
        written(&leveled[0]),
        written(&kind_name("tiering:T=10", FilterKind::BlockedMonkey)),
    ) {
        (Some(own), Some(leveled), Some(tiered)) => format!(
            "Bytes written to tables for each byte of the load: {own} with tiering and Chucky, {tiered} with tiering and Bloom filters, {leveled} with leveling.\n\n"
        ),
        _ => String::new(),
    };
    format!(
        "### Tiering with Chucky beside leveling with Bloom filters\n\n{of_tables}Thousands of gets per second; medians over the rounds:\n\n{}\n",
        table(&heading, 1, &lines)
    )
}

/// How elastic filters came into the tables, and what they were given time for.
fn of_elastic(results: &Results) -> String {
    format!(
        "* Elastic filters are units of about three bits per entry that tables store when they are written, beside the digests of which all other filters are made. Trees were loaded with `{}`, whose tables store twice these bits: that is the most a table can have. A unit's memory includes 80 bytes that it takes beside its bits. \
         Units come and go with the lookups that reach a table, and begin anew whenever the filter changes. So elastic filters, and no others, get untimed lookups: cached, before each slice, of its workload; direct, before all slices, of each workload in turn, the uniform one last, so that the small cache is as other filters find it. \
         These are {HALF_LIVES} half-lives of what the engine remembers (2,048 lookups for each table, 32,768 at least), or as many as {WARMING_SLICES} slices make, which direct reads do not reach in trees of many tables. Units also change during slices. Elastic bits and predictions in the tables are those after lookups of absent keys, and for present keys after uniform ones.\n\
         ",
        FilterKind::Elastic.specification(elastic_bits(&results.chucky_bits))
    )
}

fn settings(results: &Results) -> String {
    let is_there = |kind: &FilterKind| results.filters.iter().any(|facts| facts.filter == kind.name());
    let kinds: Vec<String> = FilterKind::ALL
        .into_iter()
        .filter(is_there)
        .map(|kind| format!("{} (`{}`)", kind.name(), kind.specification(10.0)))
        .collect();
    let elastic = if is_there(&FilterKind::Elastic) { of_elastic(results) } else { String::new() };
    format!(
        "## Settings and method\n\n\
         * A tree is loaded once, in random order of keys, memtable by memtable: each is flushed by hand, and its compactions end before the next begins. So a level has all runs that it can have at rest, or with leveling all of its entries in one. \
         `runs` are trees of two levels, with T one above the runs of the last. 274 runs are those of `qlsm-bush:T=2,X=2` in four levels; that tree itself is not measured, since its first level becomes one run when nothing was flushed for some seconds.\n\
         * Filters, given 10 bits: {}. They are changed in the open database (`Db::set_filter`), by way of `none`, since a table otherwise keeps a filter that is as good; `Db::rebuild_filters` has returned before anything is measured.\n\
         {elastic}\
         * Equal memory: Chucky is given its bits first; what it then takes (`memory.filters_bytes`), divided by the entries, is what the others get. It has just been made then, with buckets for an eighth more entries than there are; while a tree grows it has fewer on the mean, so that its specification says less than was measured. Their bits are raised or lowered until their memory is within 0.3 % of that, or as near as {} tries come: an allocation leaves memory \
         for runs that are not there.\n\
         * Cached: a cache of twice the data, and every entry was looked up before. Direct: direct I/O, a cache of {} KiB, a sixteenth of the data, and Zipfian lookups before. Indexes are in memory in both. Blocks of {BLOCK_BYTES} bytes, two background threads, which have nothing to do meanwhile.\n\
         * A slice looks up keys of one workload for {} ms at most, or until a list of keys ends, which is made before the clock runs; no slice has the keys of another. Zipfian: exponent 0.99, ranks scattered over all keys. Absent keys lie between stored ones. In each round another filter begins.\n\
         * After each change of the filter, 500 present and 500 absent keys are looked up, and answers compared with what was stored.\n\
         * False positives are the engine's count (`lookups.filter_false_positives`), over cached and direct slices together.\n",
        kinds.join(", "),
        super::tree::TRIES,
        count(results.small_cache_bytes as f64 / 1024.0),
        results.slice_ms
    )
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::results;
    use super::*;

    /// The answers name the number of runs, tables have all trees, and what was not measured has no
    /// section.
    #[test]
    fn reports_answer() {
        let text = markdown(&results(2), &[]);
        let cells = |begin: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin} in {text}"));
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
        };
        assert_eq!(cells("| fewest false positives, absent")[1], "in all trees");
        assert_eq!(cells("| fastest, cached, gets of absent")[1], "from 10 runs on");
        assert_eq!(cells("| absent keys")[..2], ["absent keys", "5"]);
        assert!(text.contains("**0.50** of blocked"), "{text}");
        assert!(!text.contains("ratio of 10") && !text.contains("leveling by levels"), "{text}");
    }

    /// Settings tell how elastic filters were measured if they were, and name no other kinds than
    /// those of the report.
    #[test]
    fn settings_name_what_was_measured() {
        let mut results = results(2);
        let text = settings(&results);
        assert!(text.contains("blocked (`blocked:bits=10`)") && !text.contains("lastic"), "{text}");
        results.filters[1].filter = FilterKind::Elastic.name().to_owned();
        let text = settings(&results);
        assert!(
            text.contains("\n* Elastic filters are units") && text.contains("loaded with `elastic:bits=14.2`"),
            "{text}"
        );
        assert!(text.contains("32,768 at least") && text.contains("\n* Equal memory"), "{text}");
    }

    /// By hand: two rounds of each filter have six orders, three have 20.
    #[test]
    fn chances_are_those_of_orders() {
        assert!(chance(2).ends_with("once in 3 times.") && chance(3).ends_with("once in 10 times."));
        assert!(chance(5).ends_with("once in 126 times."));
    }

    /// Rates have digits where they are.
    #[test]
    fn small_rates_have_digits() {
        assert_eq!([0.0, 0.000_123_4, 0.012_345, 0.5].map(small), ["0", "0.000123", "0.01235", "0.500"]);
        assert_eq!([99_999.0, 1_234_567.0].map(thousands), ["100.0", "1,235"]);
    }
}
