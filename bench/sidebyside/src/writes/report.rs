//! The report of `writes`, in Markdown.

use std::fmt::Write as _;

use common::numbers::{median, mib};

use super::plan::{ABSENT_GETS, FIRST_GETS, READS};
use super::plot::Plot;
use super::sample::{Latencies, Sample};
use super::{DatabaseFacts, Results};
use crate::stores::{BLOCK_BYTES, MEMTABLES};
use crate::table::{count, table, times};

/// Tamarack is an engine whose name begins so; further ones have another policy.
const OWN: &str = "tamarack";

/// The peer beside which settled rates and bytes written are shown.
const LEVELED: &str = "rocksdb";

/// All that was measured, with references to its plots.
pub fn markdown(results: &Results, plots: &[Plot]) -> String {
    let mut text = format!("# Writing: Tamarack beside other LSM trees, {}\n\n", results.circumstances.date);
    text += &preface(results);
    for database in &results.databases {
        let rows = rows(results, &database.name);
        if rows.is_empty() {
            continue;
        }
        let (entries, values) = (count(database.entries as f64), count(database.value_bytes as f64));
        let (keys, size) = (database.key_bytes, count(mib(database.bytes)));
        text += &format!("## {}: {entries} entries of {keys} + {values} bytes, {size} MiB\n\n", database.name);
        text += &summary(results, &rows);
        text += &rates(&rows);
        text += &costs(database, &rows);
        text += &over_time(plots.iter().filter(|plot| plot.database == database.name));
        text += &beside_load(&rows);
        text += &absent(&rows);
        text += &first_gets(&rows);
        text += &trees(&rows);
    }
    text += &settings(results);
    text
}

/// A row, with what each engine gave.
struct Row<'a> {
    name: &'a str,
    cells: Vec<Cell<'a>>,
}

/// What one engine gave in a row, round by round.
struct Cell<'a> {
    engine: &'a str,
    samples: Vec<&'a Sample>,
}

/// Rows in the order of the first round, engines in the order of [`Results::engines`].
fn rows<'a>(results: &'a Results, database: &str) -> Vec<Row<'a>> {
    let measured: Vec<_> = results.measured.iter().filter(|measured| measured.database == database).collect();
    let mut names: Vec<&str> = Vec::new();
    for measured in &measured {
        if !names.contains(&measured.row.as_str()) {
            names.push(&measured.row);
        }
    }
    let cells = |name: &str| {
        let cell = |engine: &'a str| {
            let of_this = measured.iter().filter(|measured| measured.row == name && measured.engine == engine);
            let samples: Vec<_> = of_this.map(|measured| &measured.sample).collect();
            (!samples.is_empty()).then_some(Cell { engine, samples })
        };
        results.engines.iter().filter_map(|engine| cell(&engine.name)).collect()
    };
    names.into_iter().map(|name| Row { name, cells: cells(name) }).collect()
}

/// Rows that are shown in the same tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    Writes,
    AbsentGets,
    FirstGets,
    GetsBesideLoad,
}

impl<'a> Row<'a> {
    fn group(&self) -> Group {
        let any = |is: &dyn Fn(&Sample) -> bool| self.cells.iter().any(|cell| cell.samples.iter().any(|one| is(one)));
        if any(&|sample| sample.gets_beside_per_s.is_some()) {
            Group::GetsBesideLoad
        } else if any(&|sample| sample.put_bytes > 0) {
            Group::Writes
        } else if any(&|sample| sample.reads.as_ref().is_some_and(|reads| !reads.each_ns.is_empty())) {
            Group::FirstGets
        } else {
            Group::AbsentGets
        }
    }

    fn cell(&self, engine: &str) -> Option<&Cell<'a>> {
        self.cells.iter().find(|cell| cell.engine == engine)
    }

    fn best_peer(&self) -> Option<&Cell<'a>> {
        let peers = self.cells.iter().filter(|cell| !cell.engine.starts_with(OWN));
        peers.max_by(|a, b| a.client_rate().total_cmp(&b.client_rate()))
    }
}

impl Cell<'_> {
    fn client_rate(&self) -> f64 {
        self.of(Sample::client_ops_per_s)
    }

    fn settled_rate(&self) -> f64 {
        self.of(Sample::settled_ops_per_s)
    }

    fn of(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(|sample| value(sample)))
    }

    /// The median of what not every engine tells.
    fn of_told(&self, value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.samples.iter().filter_map(|sample| value(sample)).collect();
        (!values.is_empty()).then(|| median(values.into_iter()))
    }

    fn greatest(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        self.samples.iter().map(|sample| value(sample)).fold(0.0, f64::max)
    }

    fn put(&self, value: impl Fn(&Latencies) -> u64) -> f64 {
        self.of_told(|sample| Some(value(&sample.puts?) as f64)).unwrap_or(f64::NAN)
    }

    fn get(&self, value: impl Fn(&Latencies) -> u64) -> f64 {
        self.of_told(|sample| Some(value(&sample.gets?) as f64)).unwrap_or(f64::NAN)
    }

    fn longest_put_ms(&self) -> f64 {
        self.greatest(|sample| sample.puts.map_or(0.0, |puts| puts.longest_ns as f64 / 1e6))
    }

    /// Bytes written to tables for each byte put.
    fn tables(&self) -> Option<f64> {
        self.of_told(|sample| Some(sample.table_bytes? as f64 / sample.put_bytes as f64))
    }

    /// Bytes that the process wrote for each byte put.
    fn process(&self) -> f64 {
        self.of(|sample| sample.written_bytes as f64 / sample.put_bytes as f64)
    }

    fn reads_each(&self) -> Option<f64> {
        self.of_told(|sample| Some(sample.reads.as_ref()?.reads? as f64 / sample.operations as f64))
    }

    fn blocks_each(&self) -> Option<f64> {
        self.of_told(|sample| Some(sample.reads.as_ref()?.blocks? as f64 / sample.operations as f64))
    }

    fn device_kib_each(&self) -> f64 {
        self.of(|sample| sample.device_bytes as f64 / 1024.0 / sample.operations as f64)
    }
}

fn preface(results: &Results) -> String {
    let reads = if results.direct_io { "direct I/O for reads where an engine has it" } else { "buffered I/O" };
    results.circumstances.preface("the rounds")
        + &format!(
            "* Equal settings: {MEMTABLES} memtables of {} KiB, a block cache of {} MiB, compression {}, {reads}, no sync of the WAL. More under [settings](#settings-and-method).\n\
         * Rounds: {}, in which engines take turns. Figures are medians over the rounds, but of \"longest\" and \"most\" the greatest. All took {:.0} minutes.\n\
         * Command, in `bench/`: `{}`\n\n",
            count(results.memtable_bytes as f64 / 1024.0),
            count(mib(results.cache_bytes)),
            results.compression,
            results.circumstances.rounds,
            results.circumstances.minutes,
            results.circumstances.command
        )
}

/// For each variant of Tamarack: beside the best peer by the client's clock, and beside RocksDB
/// until settled.
fn summary(results: &Results, rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    for engine in results.engines.iter().filter(|engine| engine.name.starts_with(OWN)) {
        let mut lines = Vec::new();
        for row in rows.iter().filter(|row| row.group() == Group::Writes) {
            let Some(own) = row.cell(&engine.name) else { continue };
            let (best, leveled) = (row.best_peer(), row.cell(LEVELED));
            let shown = |ratio: f64| if ratio < 1.0 { format!("**{}**", times(ratio)) } else { times(ratio) };
            let beside = |peer: Option<&Cell<'_>>, rate: &dyn Fn(&Cell<'_>) -> f64| {
                let cells = peer.map(|peer| (count(rate(peer)), shown(rate(own) / rate(peer))));
                cells.unwrap_or_default()
            };
            let (best_rate, best_ratio) = beside(best, &|cell| cell.client_rate());
            let (leveled_rate, leveled_ratio) = beside(leveled, &|cell| cell.settled_rate());
            lines.push(vec![
                row.name.to_owned(),
                best.map_or("", |best| best.engine).to_owned(),
                count(own.client_rate()),
                best_rate,
                best_ratio,
                count(own.settled_rate()),
                leveled_rate,
                leveled_ratio,
                format!("{:.2}", own.process()),
                leveled.map_or_else(String::new, |leveled| format!("{:.2}", leveled.process())),
            ]);
        }
        if !lines.is_empty() {
            let heading = [
                "row",
                "best peer",
                "ops/s",
                "peer's",
                "times",
                "settled",
                "RocksDB's",
                "times",
                "process x",
                "RocksDB's",
            ];
            write!(
                text,
                "### Summary of {}\n\nOperations per second by the client's clock, beside the fastest peer; until settled, and bytes that the process wrote for each byte put (WAL included), beside RocksDB (leveled). Below 1, in **bold**: behind.\n\n{}\n",
                engine.name,
                table(&heading, 2, &lines)
            )
            .expect("a string takes everything");
        }
    }
    text
}

fn rates(rows: &[Row<'_>]) -> String {
    let mut lines = Vec::new();
    for (row, cell) in cells(rows, Group::Writes) {
        let rates = || cell.samples.iter().map(|sample| sample.client_ops_per_s());
        let us = |ns: f64| format!("{:.1}", ns / 1e3);
        lines.push(vec![
            row.name.to_owned(),
            cell.engine.to_owned(),
            count(cell.client_rate()),
            count(rates().fold(f64::INFINITY, f64::min)),
            count(rates().fold(0.0, f64::max)),
            count(cell.settled_rate()),
            told(cell.of_told(|sample| Some(100.0 * slowest_second(sample)?)), 0),
            us(cell.put(|puts| puts.p50_ns)),
            us(cell.put(|puts| puts.p99_ns)),
            us(cell.put(|puts| puts.p99_9_ns)),
            format!("{:.1}", cell.longest_put_ms()),
        ]);
    }
    let heading = [
        "row",
        "engine",
        "ops/s",
        "least",
        "greatest",
        "settled",
        "slowest s %",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "longest ms",
    ];
    section(
        "Throughput and latencies of puts",
        "`ops/s`: until the last operation returned; `settled`: until memtables were flushed and no compaction was running or due. `slowest s`: the rate in the slowest second, in per cent of the whole row's.",
        &table(&heading, 2, &lines),
        lines.is_empty(),
    )
}

/// The rate of the slowest second, divided by that of the row by the client's clock.
fn slowest_second(sample: &Sample) -> Option<f64> {
    let points: Vec<_> = sample.series.iter().filter(|point| point.at_s <= sample.client_s).collect();
    let put_bytes_per_s = sample.put_bytes as f64 / sample.client_s;
    let windows = points.iter().filter_map(|first| {
        let last = points.iter().find(|last| last.at_s >= first.at_s + 1.0)?;
        Some((last.put_bytes - first.put_bytes) as f64 / (last.at_s - first.at_s) / put_bytes_per_s)
    });
    windows.min_by(f64::total_cmp)
}

fn costs(database: &DatabaseFacts, rows: &[Row<'_>]) -> String {
    let of_data = |bytes: f64| format!("{:.2}", bytes / database.bytes as f64);
    let mut lines = Vec::new();
    for (row, cell) in cells(rows, Group::Writes) {
        let most = |of: &dyn Fn(&Sample) -> Option<u64>| {
            cell.samples.iter().filter_map(|sample| of(sample)).max().map(|most| most as f64)
        };
        let us_each = |seconds: &dyn Fn(&Sample) -> f64| {
            format!("{:.1}", cell.of(|sample| seconds(sample) * 1e6 / sample.operations as f64))
        };
        lines.push(vec![
            row.name.to_owned(),
            cell.engine.to_owned(),
            told(cell.tables(), 2),
            format!("{:.2}", cell.process()),
            us_each(&|sample| sample.client_cpu_s),
            us_each(&|sample| sample.background_cpu_s),
            told(most(&|sample| sample.most(|point| point.debt_bytes)).map(|bytes| bytes / f64::from(1 << 20)), 0),
            told(most(&|sample| sample.most(|point| point.runs)), 0),
            most(&|sample| sample.most(|point| Some(point.space_bytes))).map_or_else(String::new, of_data),
            of_data(cell.of(|sample| sample.space_bytes as f64)),
            format!("{:.0}", cell.greatest(|sample| mib(sample.peak_memory_bytes))),
        ]);
    }
    let heading = [
        "row",
        "engine",
        "tables x",
        "process x",
        "client us",
        "others us",
        "most debt",
        "most runs",
        "most space",
        "space",
        "MiB",
    ];
    section(
        "Costs",
        "All until settled. `tables x`, `process x`: bytes written for each byte put, to tables by the engine's own count (where that is fine enough), and by the process, WAL included (`write_bytes` of `/proc/PID/io`). `client us`, `others us`: processor time for an operation, of the threads that put, and of all others. \
         `most debt` (MiB that compactions owe, by the engine's own estimate), `most runs`, `most space` (of files, in sizes of the data): the greatest of samples every 0.25 s (in the first 4 s, 0.05 s). `space`: when all is settled. `MiB`: the most memory that the process has had so far.",
        &table(&heading, 2, &lines),
        lines.is_empty(),
    )
}

fn absent(rows: &[Row<'_>]) -> String {
    let mut lines = Vec::new();
    for (row, cell) in cells(rows, Group::AbsentGets) {
        lines.push(vec![
            row.name.to_owned(),
            cell.engine.to_owned(),
            count(cell.client_rate()),
            told(cell.blocks_each(), 3),
            told(cell.reads_each(), 3),
            format!("{:.2}", cell.device_kib_each()),
            format!("{:.1}", cell.get(|gets| gets.p50_ns) / 1e3),
            format!("{:.1}", cell.get(|gets| gets.p99_ns) / 1e3),
        ]);
    }
    let heading = ["row", "engine", "gets/s", "blocks", "reads", "KiB", "p50 us", "p99 us"];
    section(
        "Gets of absent keys",
        "For each get: `blocks` (data and index blocks, by the engine's own count), `reads` (of files, by Tamarack's own count, or calls of the process that read), and `KiB` that the process read from the device.",
        &table(&heading, 2, &lines),
        lines.is_empty(),
    )
}

fn first_gets(rows: &[Row<'_>]) -> String {
    let mut lines = Vec::new();
    for (_, cell) in cells(rows, Group::FirstGets) {
        let of =
            |value: &dyn Fn(&super::sample::Reads) -> Option<f64>| cell.of_told(|sample| value(sample.reads.as_ref()?));
        let first_reads = |gets: usize| {
            of(&|reads| {
                let first = reads.each_reads.get(..gets)?;
                Some(first.iter().sum::<u64>() as f64 / gets as f64)
            })
        };
        let all = FIRST_GETS as usize;
        lines.push(vec![
            cell.engine.to_owned(),
            told(of(&|reads| Some(reads.open_ms)), 1),
            told(first_reads(1), 0),
            told(first_reads(10), 1),
            told(first_reads(all), 2),
            told(cell.blocks_each(), 2),
            format!("{:.1}", cell.device_kib_each()),
            told(of(&|reads| Some(*reads.each_ns.first()? as f64 / 1e3)), 0),
            told(of(&|reads| Some(median(reads.each_ns.iter().map(|ns| *ns as f64)) / 1e3)), 0),
            format!("{:.1}", cell.greatest(|sample| sample.gets.map_or(0.0, |gets| gets.longest_ns as f64 / 1e6))),
        ]);
    }
    let heading = [
        "engine",
        "open ms",
        "1st: reads",
        "10: reads",
        "100: reads",
        "blocks",
        "KiB",
        "1st us",
        "median us",
        "longest ms",
    ];
    section(
        &format!("The first {FIRST_GETS} gets after opening"),
        "Of stored keys, with nothing in the page cache. `1st`, `10`, `100`: reads of files for each of the first gets, those that open tables included. `blocks`, `KiB`: for each of all.",
        &table(&heading, 1, &lines),
        lines.is_empty(),
    )
}

/// The gets are what these rows are for; what the puts beside them cost is in the loads' rows.
fn beside_load(rows: &[Row<'_>]) -> String {
    let mut lines = Vec::new();
    for (row, cell) in cells(rows, Group::GetsBesideLoad) {
        let us = |ns: f64| format!("{:.1}", ns / 1e3);
        lines.push(vec![
            row.name.to_owned(),
            cell.engine.to_owned(),
            count(cell.client_rate()),
            us(cell.put(|puts| puts.p99_9_ns)),
            told(cell.of_told(|sample| sample.gets_beside_per_s), 0),
            us(cell.get(|gets| gets.p50_ns)),
            us(cell.get(|gets| gets.p99_ns)),
            us(cell.get(|gets| gets.p99_9_ns)),
            format!("{:.1}", cell.greatest(|sample| sample.gets.map_or(0.0, |gets| gets.longest_ns as f64 / 1e6))),
        ]);
    }
    let heading =
        ["row", "engine", "puts/s", "p99.9 us", "gets/s", "get p50 us", "get p99 us", "get p99.9 us", "longest ms"];
    section(
        "Gets beside a load",
        "One thread gets stored entries, one right after the other, while another loads the second half of the entries, at full speed and at half the rate that the same engine had at full speed. `puts/s`, `p99.9 us`: of the load; `gets/s` and the rest: of the reader. Engines with direct I/O read from the device, others from the page cache once a page is there; with `--buffered`, all do.",
        &table(&heading, 2, &lines),
        lines.is_empty(),
    )
}

/// Plots of the samples, one for each row that has them.
fn over_time<'a>(plots: impl Iterator<Item = &'a Plot>) -> String {
    let of = |plot: &Plot| format!("![{}, {} over time]({})\n\n", plot.database, plot.row, plot.file_name);
    let plots: String = plots.map(of).collect();
    if plots.is_empty() { plots } else { format!("### Over time\n\n{plots}") }
}

/// Rows of a group, with what each engine gave.
fn cells<'a, 'b>(rows: &'b [Row<'a>], group: Group) -> impl Iterator<Item = (&'b Row<'a>, &'b Cell<'a>)> {
    let rows = rows.iter().filter(move |row| row.group() == group);
    rows.flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
}

fn trees(rows: &[Row<'_>]) -> String {
    let Some(first) = rows.iter().find(|row| row.group() == Group::Writes) else { return String::new() };
    let of = |cell: &Cell<'_>| format!("* {}: {}.\n", cell.engine, cell.samples[0].tree);
    let trees: String = first.cells.iter().map(of).collect();
    format!("### Trees after \"{}\", settled\n\n{trees}\n", first.name)
}

fn settings(results: &Results) -> String {
    let ratio =
        results.ratio.map_or(String::new(), |ratio| format!("a size ratio of {ratio} (peers, where it can be set), "));
    let mut text = format!(
        "## Settings and method\n\n\
         * For all: memtables and block cache of the same size, as far as they can be set; blocks of {BLOCK_BYTES} bytes, filters of {} bits per entry, {}values that no compressor shrinks (with compression: to half), one put per commit, which is written to the operating system but not synced, two background threads.\n\
         * Each engine runs in a process of its own and works alone; before each row it has settled, and dirty pages are written back; files of an engine without direct I/O are taken out of the page cache, but what it writes and reads in a row stays there until the next. Rows continue with the database that the rows before have left. \"settled\": its memtables are flushed, and it has no compaction running or due by its own rules.\n\
         * Load: all entries, in random order of keys. Updates: {} % puts and {READS} % gets of stored entries, uniformly drawn, as many as there are entries. Burst, overwrite: puts of stored entries, uniformly drawn, as many bytes as all memtables have memory, or so many times that or the data. They get their present values, and all that was put is compared at the end, as a sample.\n\
         * Gets beside a load: into a database with half of the entries, settled, one thread puts the other half, in random order of keys; meanwhile another gets entries of the first half, uniformly drawn. Half speed: half the puts per second of the same engine in the same round; puts that are due within a millisecond come together.\n\
         * Every put is timed; the clock is read once per put. Percentiles come from a histogram and are at most 3 % off. Absent keys: {} gets of keys between the stored ones.\n",
        results.filter_bits,
        ratio,
        100 - READS,
        count(ABSENT_GETS as f64)
    );
    for engine in &results.engines {
        writeln!(text, "* **{}** ({}): {}.", engine.name, engine.version, engine.setup)
            .expect("a string takes everything");
    }
    text
}

fn section(heading: &str, explanation: &str, table: &str, empty: bool) -> String {
    if empty { String::new() } else { format!("### {heading}\n\n{explanation}\n\n{table}\n") }
}

/// A figure that not every engine tells.
fn told(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(String::new, |figure| format!("{figure:.digits$}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::circumstances::Circumstances;
    use crate::stores::EngineFacts;
    use crate::writes::Measured;
    use crate::writes::series::Point;

    /// A row in whose seconds so many entries of 100 bytes were put.
    pub(in crate::writes) fn sample(puts: &[u64]) -> Sample {
        let points = (0..=puts.len()).map(|second| Point {
            at_s: second as f64,
            put_bytes: puts[..second].iter().sum::<u64>() * 100,
            puts_per_s: 0.0,
            debt_bytes: None,
            runs: Some(second as u64),
            space_bytes: 0,
        });
        let (operations, client_s) = (puts.iter().sum::<u64>(), puts.len() as f64);
        let latencies = Latencies { p50_ns: 1000, p99_ns: 2000, p99_9_ns: 3000, longest_ns: 4_000_000 };
        Sample {
            operations,
            put_bytes: operations * 100,
            client_s,
            settled_s: 2.0 * client_s,
            puts: Some(latencies),
            gets: None,
            gets_beside_per_s: None,
            client_cpu_s: 1.0,
            background_cpu_s: 2.0,
            table_bytes: None,
            written_bytes: operations * 250,
            device_bytes: 0,
            reads: None,
            space_bytes: 0,
            peak_memory_bytes: 1 << 20,
            tree: "a tree".to_owned(),
            series: points.collect(),
        }
    }

    #[test]
    fn the_slowest_second_is_found() {
        assert_eq!(slowest_second(&sample(&[30, 20, 5, 25])), Some(0.25));
        assert_eq!(slowest_second(&Sample { series: Vec::new(), ..sample(&[1]) }), None);
    }

    pub(in crate::writes) fn measured(engine: &str, row: &str, round: usize, sample: Sample) -> Measured {
        Measured { database: "large".to_owned(), row: row.to_owned(), engine: engine.to_owned(), round, sample }
    }

    pub(in crate::writes) fn results(engines: &[&str], measured: Vec<Measured>) -> Results {
        let engine = |name: &&str| EngineFacts {
            name: (*name).into(),
            version: String::new(),
            setup: String::new(),
            has_one_shape: false,
        };
        Results {
            circumstances: Circumstances::now(std::path::Path::new("/"), "", 3),
            memtable_bytes: 1 << 20,
            cache_bytes: 1 << 20,
            filter_bits: 10,
            ratio: None,
            compression: "none".to_owned(),
            direct_io: true,
            databases: vec![DatabaseFacts {
                name: "large".to_owned(),
                entries: 10,
                key_bytes: 10,
                value_bytes: 90,
                bytes: 1000,
            }],
            engines: engines.iter().map(engine).collect(),
            measured,
        }
    }

    /// The best peer is the fastest by the client's clock; figures are medians over the rounds.
    #[test]
    fn a_row_behind_is_bold() {
        let load = |engine: &str, round, puts| measured(engine, "load", round, sample(&[puts]));
        let loads = vec![
            load("tamarack", 0, 10),
            load("tamarack", 1, 50),
            load("tamarack", 2, 1000),
            load("rocksdb", 0, 40),
            load("fjall", 0, 100),
        ];
        let text = markdown(&results(&["tamarack", "rocksdb", "fjall"], loads), &[]);
        let line = text.lines().find(|line| line.starts_with("| load")).expect("there is a summary");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[1..11], ["load", "fjall", "50", "100", "**0.50**", "25", "20", "1.25", "2.50", "2.50"]);
    }

    /// Gets beside a load have a table of their own, and their puts are in no other.
    #[test]
    fn gets_beside_a_load_are_a_table() {
        let gets = Some(Latencies { p50_ns: 5000, p99_ns: 6000, p99_9_ns: 7000, longest_ns: 8_000_000 });
        let beside = Sample { gets, gets_beside_per_s: Some(300.0), ..sample(&[50]) };
        let text = markdown(&results(&["fjall"], vec![measured("fjall", "gets beside", 0, beside)]), &[]);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| gets beside")).collect();
        let cells: Vec<&str> = lines[0].split('|').map(str::trim).collect();
        assert_eq!(cells[1..10], ["gets beside", "fjall", "50", "3.0", "300", "5.0", "6.0", "7.0", "8.0"]);
        assert_eq!(lines.len(), 1);
    }
}
