//! The report: a summary against the goals, and all figures.

use std::fmt::Write as _;

use super::rows::Row;
use super::slice::Sample;
use super::stores::Kind;
use super::{Measured, Settings};
use crate::machine;
use crate::report::median;

/// The samples of one row on one engine.
struct Cell<'a> {
    engine: &'static str,
    samples: &'a [Sample],
}

/// What was measured, in Markdown.
pub fn markdown(
    settings: &Settings,
    command: &str,
    kinds: &[Box<dyn Kind>],
    measured: &[Measured],
    loads: &[f64],
) -> String {
    let mut text = preface(settings, command, kinds, loads);
    text += &summary(measured);
    for measured in measured {
        text += &section(measured);
    }
    text
}

fn preface(settings: &Settings, command: &str, kinds: &[Box<dyn Kind>], loads: &[f64]) -> String {
    let mut text = format!("# Reads beside other stores, {}\n\n", machine::date());
    let mut line = |words: String| writeln!(text, "{words}").expect("a string takes everything");
    let busiest = loads.iter().fold(0f64, |most, load| most.max(*load));
    line(format!("* Machine: {}; databases on {}.", machine::description(), machine::file_system(&settings.dir)));
    line(format!("* Load average over one minute before each section, its own share included: up to {busiest:.1}."));
    line(
        "* Data: small entries have 16-byte keys and values of 100 bytes, large ones 24-byte keys, of which 8 bytes are common to all, and values of 1,000 bytes, all \
         incompressible; loaded in random order, nothing is compressed. Trees are settled, buffers empty, and files in the page cache unless it is bypassed."
            .to_owned(),
    );
    line(
        "* For all: Bloom filters of 10 bits per entry, blocks of 4 KiB, equal caches, equal buffers (1/128 of the data, which makes three levels at a size ratio of 10; or a tenth, for ten runs), \
         checksums verified when a block is read from its file and not when it is in the cache."
            .to_owned(),
    );
    line(format!(
        "* {} interleaved rounds of slices, each the same list of operations for every store, whose answers are compared. Medians; `tamarack is`: how many times as fast, median of the ratios within a \
         round. Latencies: of up to 20,000 operations of a slice, evenly spread. `cpu`: processor time of the reading threads, kernel included, which a busy machine disturbs less. `blocks`: blocks read from \
         files for an operation, as the store counts them (RocksDB leaves out what its read-ahead reads, which matters in scans); `KiB`: what the process read from the device.",
        settings.rounds
    ));
    for kind in kinds {
        let (name, package) = (kind.name(), kind.package());
        line(format!("* {name} ({package} {}): {}.", machine::version(package), kind.setup()));
    }
    line(format!("* Command: `{command}`\n"));
    text
}

/// The best RocksDB of each row, and fjall.
fn summary(measured: &[Measured]) -> String {
    let mut text = "## Tamarack against its goals\n\n| section | row | threads | tamarack, ops/s | best rocksdb | is faster by | by cpu | goal | | its blocks by rocksdb's | its KiB by rocksdb's | faster than fjall by |\n\
                    |---|---|---:|---:|---|---:|---:|---:|---|---:|---:|---:|\n"
        .to_owned();
    for measured in measured {
        for (row, cells) in rows(measured) {
            let Some(own) = cells.iter().find(|cell| cell.engine == "tamarack") else { continue };
            let best = cells.iter().filter(|cell| cell.engine.starts_with("rocksdb"));
            let best = best.max_by(|a, b| a.ops_per_s().total_cmp(&b.ops_per_s()));
            let fjall = cells.iter().find(|cell| cell.engine == "fjall");
            let goal = goal(row, own, best);
            let ratio = best.map(|best| own.times(best));
            let words = [
                measured.section.name.to_owned(),
                row.name.to_owned(),
                row.threads.to_string(),
                format!("{:.0}", own.ops_per_s()),
                best.map_or("", |best| best.engine).to_owned(),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2} x")),
                best.map_or_else(String::new, |best| format!("{:.2} x", own.times_by_cpu(best))),
                format!("{goal:.2} x"),
                ratio.map_or("", |ratio| if ratio >= goal { "reached" } else { "**behind**" }).to_owned(),
                best.and_then(|best| Some(own.blocks()? / best.blocks()?))
                    .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                best.filter(|_| measured.section.place.direct_io)
                    .map_or_else(String::new, |best| format!("{:.2}", own.device_bytes() / best.device_bytes())),
                fjall.map_or_else(String::new, |fjall| format!("{:.2} x", own.times(fjall))),
            ];
            writeln!(text, "| {} |", words.join(" | ")).expect("a string takes everything");
        }
    }
    text + &scaling(measured)
}

/// YCSB is to be faster, and by the ratio of the reads at least.
fn goal(row: &Row, own: &Cell<'_>, best: Option<&Cell<'_>>) -> f64 {
    let by_reads = best.and_then(|best| Some(best.blocks()? / own.blocks()?));
    if row.name.starts_with("ycsb") { by_reads.map_or(row.goal, |ratio| ratio.max(1.0)) } else { row.goal }
}

/// What a second thread adds.
fn scaling(measured: &[Measured]) -> String {
    let mut text = String::new();
    for measured in measured {
        let rows: Vec<_> = rows(measured).collect();
        for (row, two) in rows.iter().filter(|(row, _)| row.threads == 2) {
            let Some((_, one)) = rows.iter().find(|(other, _)| other.name == row.name && other.threads == 1) else {
                continue;
            };
            let of = |(two, one): (&Cell<'_>, &Cell<'_>)| format!("{:.2}", two.times(one));
            let words: Vec<_> = two.iter().zip(one).map(of).collect();
            writeln!(text, "| {} | {} | {} |", measured.section.name, row.name, words.join(" | "))
                .expect("a string takes everything");
        }
    }
    let Some(first) = measured.iter().find(|measured| measured.section.rows.iter().any(|row| row.threads == 2)) else {
        return text;
    };
    let heading = format!(
        "\n## Two threads on keys of their own, beside one\n\n| section | row | {} |\n|---|---|{}\n",
        first.engines.join(" | "),
        "---:|".repeat(first.engines.len())
    );
    heading + &text
}

const HEADING: [&str; 11] =
    ["row", "threads", "engine", "ops/s", "least", "greatest", "tamarack is", "p50 us", "p99 us", "cpu us", "blocks"];

fn section(measured: &Measured) -> String {
    let section = &measured.section;
    let (place, data) = (&section.place, &section.place.data);
    let mut text = format!(
        "\n## {}\n\n`{}`: {} entries of {} and {} bytes, {} MiB, buffers of {:.1} MiB, cache of {} MiB",
        section.title,
        section.name,
        data.entries,
        data.key_bytes(),
        data.value_bytes,
        data.bytes() >> 20,
        place.buffer_bytes as f64 / f64::from(1 << 20),
        place.cache_bytes >> 20
    );
    text += if place.direct_io { ", direct I/O.\n\n" } else { ".\n\n" };
    for (engine, tree) in measured.engines.iter().zip(&measured.trees) {
        writeln!(text, "* {engine}: {tree}.").expect("a string takes everything");
    }
    writeln!(text, "\n| {} | KiB |\n|---|---:|---|{}", HEADING.join(" | "), "---:|".repeat(HEADING.len() - 2))
        .expect("a string takes everything");
    for (row, cells) in rows(measured) {
        let own = cells.iter().find(|cell| cell.engine == "tamarack");
        for cell in &cells {
            writeln!(text, "| {} |", cell.words(row, own).join(" | ")).expect("a string takes everything");
        }
    }
    text
}

fn rows(measured: &Measured) -> impl Iterator<Item = (&Row, Vec<Cell<'_>>)> {
    measured.section.rows.iter().zip(&measured.samples).map(|(row, samples)| {
        let cells = measured.engines.iter().zip(samples).map(|(engine, samples)| Cell { engine, samples });
        (row, cells.collect())
    })
}

impl Cell<'_> {
    fn ops_per_s(&self) -> f64 {
        self.of(|sample| sample.ops_per_s)
    }

    fn blocks(&self) -> Option<f64> {
        let blocks: Option<Vec<f64>> = self.samples.iter().map(|sample| sample.blocks).collect();
        // Of all rounds: a count is no time, which one slow round would spoil.
        blocks.map(|blocks| blocks.iter().sum::<f64>() / blocks.len() as f64)
    }

    fn device_bytes(&self) -> f64 {
        self.samples.iter().map(|sample| sample.device_bytes).sum::<f64>() / self.samples.len() as f64
    }

    fn of(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value))
    }

    /// How many times as fast as `other` this is: the median of the ratios within a round.
    fn times(&self, other: &Cell<'_>) -> f64 {
        median(self.samples.iter().zip(other.samples).map(|(own, other)| own.ops_per_s / other.ops_per_s))
    }

    /// The same by processor time.
    fn times_by_cpu(&self, other: &Cell<'_>) -> f64 {
        median(self.samples.iter().zip(other.samples).map(|(own, other)| other.cpu_ns / own.cpu_ns))
    }

    fn words(&self, row: &Row, own: Option<&Cell<'_>>) -> Vec<String> {
        let rates = || self.samples.iter().map(|sample| sample.ops_per_s);
        vec![
            row.name.to_owned(),
            row.threads.to_string(),
            self.engine.to_owned(),
            format!("{:.0}", self.ops_per_s()),
            format!("{:.0}", rates().fold(f64::INFINITY, f64::min)),
            format!("{:.0}", rates().fold(0.0, f64::max)),
            own.map_or_else(String::new, |own| format!("{:.2} x", own.times(self))),
            format!("{:.2}", self.of(|sample| sample.p50_ns as f64) / 1e3),
            format!("{:.2}", self.of(|sample| sample.p99_ns as f64) / 1e3),
            format!("{:.2}", self.of(|sample| sample.cpu_ns) / 1e3),
            self.blocks().map_or_else(String::new, |blocks| format!("{blocks:.3}")),
            format!("{:.2}", self.device_bytes() / 1024.0),
        ]
    }
}
