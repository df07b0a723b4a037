//! The report of `beside`, in Markdown.

mod steady;

use std::fmt::Write as _;

use common::numbers::median;

use crate::beside::{DatabaseFacts, LoadResult, Results, SliceResult};
use crate::plan::{Reads, STEADY};
use crate::slice::Sample;

/// The engines compared with Tamarack, and the variants in [`Results`] that stand for each: the
/// fastest of them, row by row.
const RIVALS: [(&str, &[&str]); 4] =
    [("RocksDB", &["rocksdb", "rocksdb hcc"]), ("LevelDB", &["leveldb"]), ("fjall", &["fjall"]), ("redb", &["redb"])];

const OWN: &str = "tamarack";

/// How blocks are found, in the order of the report.
const PLACES: [&str; 3] = [Reads::Cached.name(), Reads::Direct.name(), STEADY];

/// All that was measured.
pub fn markdown(results: &Results, notes: &str) -> String {
    let lines = lines(results);
    let mut text = format!("# Tamarack beside other stores, {}\n\n", results.circumstances.date);
    text += &preface(results);
    text += &at_a_glance(results, &lines);
    text += &steady::section(results, &lines);
    text += &behind(results, &lines, notes);
    text += &databases(results);
    text += &all_figures(results, &lines);
    text += &settings(results);
    text
}

/// A row of a database, cached or direct.
struct Line<'a> {
    database: &'a DatabaseFacts,
    reads: &'a str,
    row: &'a str,
    threads: usize,
    own: Option<Cell<'a>>,
    /// In the order of [`RIVALS`].
    rivals: Vec<Option<Cell<'a>>>,
}

/// What one engine gave, round by round.
struct Cell<'a> {
    engine: &'a str,
    samples: Vec<Sample>,
}

/// All rows in their order: an order of databases, of reads, and of the first round.
fn lines(results: &Results) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    for database in &results.databases {
        for reads in PLACES {
            let slices = |name: &str| {
                let name = name.to_owned();
                results.slices.iter().filter(move |slice| slice.database == name && slice.reads == reads)
            };
            let mut rows: Vec<(&str, usize)> = Vec::new();
            for slice in slices(&database.name) {
                let row = (slice.row.as_str(), slice.threads);
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
            for (row, threads) in rows {
                let cell = |engine: &str| {
                    let is_this =
                        |slice: &&SliceResult| slice.engine == engine && slice.row == row && slice.threads == threads;
                    let facts = results.engines.iter().find(|facts| facts.name == engine)?;
                    let of =
                        |database: &str| slices(database).filter(is_this).map(|slice| slice.sample).collect::<Vec<_>>();
                    let mut samples = of(&database.name);
                    if samples.is_empty() && facts.has_one_shape {
                        samples = of(&results.databases[0].name);
                    }
                    (!samples.is_empty()).then_some(Cell { engine: &facts.name, samples })
                };
                let best = |engines: &[&str]| {
                    engines
                        .iter()
                        .filter_map(|engine| cell(engine))
                        .max_by(|a, b| a.ops_per_s().total_cmp(&b.ops_per_s()))
                };
                let rivals = RIVALS.iter().map(|(_, engines)| best(engines)).collect();
                lines.push(Line { database, reads, row, threads, own: cell(OWN), rivals });
            }
        }
    }
    lines
}

impl Cell<'_> {
    fn ops_per_s(&self) -> f64 {
        self.of(|sample| sample.ops_per_s)
    }

    fn of(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value))
    }

    /// The least and the greatest.
    fn spread(&self) -> (f64, f64) {
        let rates = || self.samples.iter().map(|sample| sample.ops_per_s);
        (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max))
    }

    /// How many times as fast as `other` this is.
    fn times(&self, other: &Self) -> f64 {
        self.ops_per_s() / other.ops_per_s()
    }

    fn us(&self, value: impl Fn(&Sample) -> f64) -> String {
        let us = self.of(value) / 1e3;
        if us < 100.0 { format!("{us:.2}") } else { format!("{us:.0}") }
    }

    fn blocks(&self) -> String {
        let counted: Vec<f64> = self.samples.iter().filter_map(|sample| sample.blocks).collect();
        if counted.is_empty() {
            String::new()
        } else {
            format!("{:.3}", counted.iter().sum::<f64>() / counted.len() as f64)
        }
    }

    fn kib(&self) -> String {
        format!(
            "{:.2}",
            self.samples.iter().map(|sample| sample.device_bytes).sum::<f64>() / self.samples.len() as f64 / 1024.0
        )
    }
}

impl Line<'_> {
    fn ratio(&self, rival: usize) -> Option<f64> {
        Some(self.own.as_ref()?.times(self.rivals[rival].as_ref()?))
    }

    /// The same by processor time, which a busy machine disturbs less.
    fn ratio_by_cpu(&self, rival: usize) -> Option<f64> {
        Some(self.rivals[rival].as_ref()?.of(|sample| sample.cpu_ns) / self.own.as_ref()?.of(|sample| sample.cpu_ns))
    }

    fn place(&self) -> String {
        format!("{}, {}", self.database.name, self.reads)
    }
}

fn preface(results: &Results) -> String {
    results.circumstances.preface("groups of slices")
        + &format!(
            "* {} rounds in which engines take turns; a slice takes {} ms at most (of `overwrite` {} ms). Figures are medians over the rounds. All took {:.0} minutes.\n\
         * Command, in `bench/`: `{}`\n\n",
            results.circumstances.rounds,
            results.slice_ms,
            3 * results.slice_ms,
            results.circumstances.minutes,
            results.circumstances.command
        )
}

fn at_a_glance(results: &Results, lines: &[Line<'_>]) -> String {
    let mut text = "## Summary\n\nThroughput of Tamarack relative to the others; below 1, in **bold**, it is behind. `by cpu`: the median by processor time of the threads that work. RocksDB is the faster of its two \
                    caches in each row. `leveled`, `runs` and `large` are [databases](#databases); `cached`: everything in the engine's cache; `direct`: a small cache, past the page cache.\n\n"
        .to_owned();
    let mut summary = Vec::new();
    for (rival, (name, _)) in RIVALS.iter().enumerate() {
        let ratios: Vec<f64> =
            lines.iter().filter_map(|line| line.ratio(rival)).chain(load_ratios(results, rival)).collect();
        if ratios.is_empty() {
            continue;
        }
        let by_cpu: Vec<f64> = lines.iter().filter_map(|line| line.ratio_by_cpu(rival)).collect();
        let ahead = ratios.iter().filter(|ratio| **ratio >= 1.0).count();
        let great = ratios.iter().filter(|ratio| **ratio >= 1.5).count();
        summary.push(vec![
            (*name).to_owned(),
            ratios.len().to_string(),
            great.to_string(),
            (ahead - great).to_string(),
            (ratios.len() - ahead).to_string(),
            format!("{:.2} x", ratios.iter().copied().fold(f64::INFINITY, f64::min)),
            format!("{:.2} x", median(ratios.iter().copied())),
            format!("{:.2} x", ratios.iter().copied().fold(0.0, f64::max)),
            if by_cpu.is_empty() { String::new() } else { format!("{:.2} x", median(by_cpu.into_iter())) },
        ]);
    }
    text += &table(
        &["beside", "rows", "1.5 x and more", "ahead by less", "behind", "least", "median", "greatest", "by cpu"],
        1,
        &summary,
    );
    for (rival, (name, _)) in RIVALS.iter().enumerate() {
        text += &matrix(results, lines, rival, name);
    }
    text
}

/// One rival: workloads downward, databases across.
fn matrix(results: &Results, lines: &[Line<'_>], rival: usize, name: &str) -> String {
    let is_measured = |(database, reads): &(&DatabaseFacts, &str)| {
        lines.iter().any(|line| line.database.name == database.name && line.reads == *reads)
    };
    let places = results.databases.iter().flat_map(|database| PLACES.map(|reads| (database, reads)));
    let places: Vec<_> = places.filter(|place| place.1 != STEADY || is_measured(place)).collect();
    let mut heading = vec!["workload".to_owned(), "threads".to_owned()];
    heading.extend(places.iter().map(|(database, reads)| format!("{} {reads}", database.name)));
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for line in lines.iter().filter(|line| line.ratio(rival).is_some()) {
        if !rows.contains(&(line.row, line.threads)) {
            rows.push((line.row, line.threads));
        }
    }
    let shown = |ratio: f64| if ratio < 1.0 { format!("**{}**", times(ratio)) } else { times(ratio) };
    let mut words: Vec<Vec<String>> = Vec::new();
    let mut threads: Vec<usize> = results.loads.iter().map(|load| load.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    for threads in threads {
        let of = |(database, reads): &(&DatabaseFacts, &str)| {
            let ratio = load_ratio(results, database, rival, threads).filter(|_| *reads == Reads::Cached.name());
            ratio.map_or_else(String::new, shown)
        };
        words.push(["load".to_owned(), threads.to_string()].into_iter().chain(places.iter().map(of)).collect());
    }
    for (row, threads) in rows {
        let of = |(database, reads): &(&DatabaseFacts, &str)| {
            let is_this = |line: &&Line<'_>| {
                line.row == row
                    && line.threads == threads
                    && line.reads == *reads
                    && line.database.name == database.name
            };
            lines.iter().find(is_this).and_then(|line| line.ratio(rival)).map_or_else(String::new, shown)
        };
        words.push([row.to_owned(), threads.to_string()].into_iter().chain(places.iter().map(of)).collect());
    }
    if words.iter().flat_map(|words| &words[2..]).all(String::is_empty) {
        return String::new();
    }
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    format!("\n### Beside {name}\n\n{}", table(&heading, 1, &words))
}

fn load<'a>(results: &'a Results, database: &DatabaseFacts, engine: &str, threads: usize) -> Option<&'a LoadResult> {
    let of = |name: &str| {
        results.loads.iter().find(|load| load.database == name && load.engine == engine && load.threads == threads)
    };
    let facts = results.engines.iter().find(|facts| facts.name == engine)?;
    of(&database.name).or_else(|| of(&results.databases[0].name).filter(|_| facts.has_one_shape))
}

fn load_ratio(results: &Results, database: &DatabaseFacts, rival: usize, threads: usize) -> Option<f64> {
    let of = |engine| Some(load(results, database, engine, threads)?.loaded.ops_per_s);
    Some(of(OWN)? / of(RIVALS[rival].1[0])?)
}

fn load_ratios(results: &Results, rival: usize) -> impl Iterator<Item = f64> {
    let own = results.loads.iter().filter(|load| load.engine == OWN);
    own.filter_map(move |load| {
        let database = results.databases.iter().find(|database| database.name == load.database)?;
        load_ratio(results, database, rival, load.threads)
    })
}

/// Rows where another engine is faster, with what tells whose time it is.
fn behind(results: &Results, lines: &[Line<'_>], notes: &str) -> String {
    let mut rows = loads_behind(results);
    for line in lines {
        let Some(own) = &line.own else { continue };
        for other in line.rivals.iter().flatten().filter(|other| own.times(other) < 1.0) {
            let both = |of: &dyn Fn(&Cell<'_>) -> String| format!("{} / {}", of(own), of(other));
            let overlap = match own.samples.len() {
                1 => "",
                _ if own.spread().1 >= other.spread().0 => "yes",
                _ => "no",
            };
            rows.push(vec![
                line.place(),
                line.row.to_owned(),
                other.engine.to_owned(),
                line.threads.to_string(),
                times(own.times(other)),
                overlap.to_owned(),
                both(&|cell| count(cell.ops_per_s())),
                both(&|cell| cell.us(|sample| sample.p99_ns as f64)),
                both(&|cell| cell.us(|sample| sample.cpu_ns)),
                both(&|cell| cell.blocks()),
                both(&|cell| cell.kib()),
            ]);
        }
    }
    let mut text = "\n## Rows where Tamarack is behind\n\n".to_owned();
    if rows.is_empty() {
        text += "None of those that were measured; loads are above.\n";
    } else {
        text += "Figures are Tamarack's / the other's; where the spreads of the rounds overlap, the order is not sure. Costs are those of one operation; engines count blocks each in its own way (see \
                 [settings](#settings-and-method)). A load was measured once for each number of threads.\n\n";
        let heading = [
            "database",
            "workload",
            "beside",
            "threads",
            "times",
            "overlap",
            "ops/s",
            "p99 us",
            "cpu us",
            "blocks",
            "KiB from device",
        ];
        text += &table(&heading, 3, &rows);
    }
    if notes.is_empty() { text } else { text + "\n" + notes.trim_end() + "\n" }
}

fn loads_behind(results: &Results) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for own in results.loads.iter().filter(|load| load.engine == OWN) {
        let Some(database) = results.databases.iter().find(|database| database.name == own.database) else { continue };
        for engine in RIVALS.map(|(_, engines)| engines[0]) {
            let Some(other) = load(results, database, engine, own.threads) else { continue };
            let (own_rate, rate) = (own.loaded.ops_per_s, other.loaded.ops_per_s);
            if own_rate < rate {
                let us = |load: &LoadResult| format!("{:.1}", load.loaded.p99_ns as f64 / 1e3);
                let mut row =
                    vec![database.name.clone(), "load".to_owned(), engine.to_owned(), own.threads.to_string()];
                row.extend([times(own_rate / rate), String::new()]);
                row.push(format!("{} / {}", count(own_rate), count(rate)));
                row.push(format!("{} / {}", us(own), us(other)));
                row.resize(11, String::new());
                rows.push(row);
            }
        }
    }
    rows
}

fn databases(results: &Results) -> String {
    let mut text = "\n## Databases\n\nLoaded once by one thread and once by two, in random order of keys, each engine in turn; the time ends when buffers are written out and nothing is left to be merged. \
                    Writes: what the process wrote by Linux's count (`write_bytes` of `/proc/self/io`: pages of files, log included) while it loaded, by one thread, for each byte of keys and values. Space: what the files take for each byte of \
                    keys and values of live entries, after loading by one thread, and after all rows. Memory: the most the process had at once (`VmHWM`), lists of operations included, which are the same for all.\n"
        .to_owned();
    for database in &results.databases {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let fraction = |bytes: u64| format!("{:.2}", bytes as f64 / database.bytes as f64);
        write!(
            text,
            "\n### {}: {}\n\n{} entries of {} + {} bytes, {} MiB; buffers of {} MiB; caches of {} MiB (cached) and {} MiB (direct).\n\n",
            database.name,
            database.title,
            count(database.entries as f64),
            database.key_bytes,
            database.value_bytes,
            mib(database.bytes),
            mib(database.buffer_bytes),
            mib(database.cache_bytes[0]),
            mib(database.cache_bytes[1])
        )
        .expect("a string takes everything");
        let (mut rows, mut trees) = (Vec::new(), Vec::new());
        for engine in &results.engines {
            let loads = [1, 2].map(|threads| load(results, database, &engine.name, threads));
            let opened = Reads::ALL.map(|reads| {
                let is_this = |name: &str| {
                    results
                        .opened
                        .iter()
                        .find(|open| open.database == name && open.reads == reads.name() && open.engine == engine.name)
                };
                is_this(&database.name).or_else(|| is_this(&results.databases[0].name).filter(|_| engine.has_one_shape))
            });
            if loads.iter().all(Option::is_none) && opened.iter().all(Option::is_none) {
                continue;
            }
            let loaded = |n: usize, of: &dyn Fn(&LoadResult) -> String| loads[n].map_or_else(String::new, of);
            let closed = |n: usize, of: &dyn Fn(&crate::worker::Closed) -> String| {
                opened[n].and_then(|open| open.closed.as_ref()).map_or_else(String::new, of)
            };
            let own = |n: usize| load(results, database, OWN, [1, 2][n]).map(|own| own.loaded.ops_per_s);
            let times = |n: usize| {
                own(n)
                    .map_or_else(String::new, |own| loaded(n, &|load| format!("{:.2} x", own / load.loaded.ops_per_s)))
            };
            rows.push(vec![
                engine.name.clone(),
                loaded(0, &|load| count(load.loaded.ops_per_s)),
                times(0),
                loaded(1, &|load| count(load.loaded.ops_per_s)),
                times(1),
                loaded(0, &|load| format!("{:.1}", load.loaded.p99_ns as f64 / 1e3)),
                loaded(0, &|load| fraction(load.loaded.written_bytes)),
                loaded(0, &|load| fraction(load.loaded.allocated_bytes)),
                closed(0, &|closed| fraction(closed.allocated_bytes)),
                loaded(0, &|load| mib(load.loaded.peak_memory_bytes)),
                closed(0, &|closed| mib(closed.peak_memory_bytes)),
                closed(1, &|closed| mib(closed.peak_memory_bytes)),
            ]);
            let as_loaded = loads[0].map(|load| &load.loaded.tree);
            if let Some(tree) = as_loaded.or(opened.iter().flatten().map(|open| &open.tree).next()) {
                trees.push(format!("* {}: {tree}.\n", engine.name));
            }
        }
        let heading = [
            "engine",
            "load, entries/s",
            "tamarack is",
            "by 2 threads",
            "tamarack is",
            "put p99 us",
            "writes",
            "space",
            "space later",
            "MiB loading",
            "MiB cached",
            "MiB direct",
        ];
        text += &table(&heading, 1, &rows);
        text += "\nTrees as loaded:\n\n";
        text += &trees.concat();
    }
    text
}

fn all_figures(results: &Results, lines: &[Line<'_>]) -> String {
    let mut text = "\n## All figures\n\n`times`: throughput of Tamarack relative to this engine. `blocks`, `KiB`: read for an operation, by the engine's own count, and by the process from the device. `cpu us`: \
                    processor time of the threads that work, kernel included, for an operation.\n"
        .to_owned();
    for database in &results.databases {
        for reads in PLACES {
            let mut rows = Vec::new();
            for line in lines.iter().filter(|line| line.database.name == database.name && line.reads == reads) {
                for cell in line.own.iter().chain(line.rivals.iter().flatten()) {
                    let (least, greatest) = cell.spread();
                    rows.push(vec![
                        line.row.to_owned(),
                        cell.engine.to_owned(),
                        line.threads.to_string(),
                        count(cell.ops_per_s()),
                        count(least),
                        count(greatest),
                        line.own.as_ref().map_or_else(String::new, |own| times(own.times(cell))),
                        cell.us(|sample| sample.p50_ns as f64),
                        cell.us(|sample| sample.p99_ns as f64),
                        cell.us(|sample| sample.cpu_ns),
                        cell.blocks(),
                        cell.kib(),
                    ]);
                }
            }
            if !rows.is_empty() {
                let heading = [
                    "workload", "engine", "threads", "ops/s", "least", "greatest", "times", "p50 us", "p99 us",
                    "cpu us", "blocks", "KiB",
                ];
                write!(text, "\n### {}, {reads}\n\n{}", database.title, table(&heading, 2, &rows))
                    .expect("a string takes everything");
            }
        }
    }
    text
}

fn settings(results: &Results) -> String {
    let mut text = "\n## Settings and method\n\n\
        * For all: filters of 10 bits per entry and blocks of 4 KiB where there are such; caches and buffers of the same size; no compression; values that no compressor shrinks; one put per commit, written to the operating system but not \
        synced (`redb` apart); checksums verified when a block is read from its file.\n\
        * Each engine runs in a process of its own, all on the same machine at the same time, but only one is asked at a time; after a slice that writes, the next waits until the engine has no compaction in progress.\n\
        * A slice works through a list of operations, the same for every engine, until it or the time is over. Sums over what was found are compared after every 256 operations, as far as the slower engine came (but for YCSB E by two threads, \
        whose scans meet what the other thread has just put). When a database is loaded, 1,200 answers are compared with what was stored, byte for byte.\n\
        * Rows that only read come before those that write, so that they find the trees as loaded. Overwritten entries get their present values. `overwrite` is timed while compactions run, and does not wait for them; `overwrite, settled` is the same slice, timed until no compaction is running; so is `load`. \
        In the database `runs` there is no compaction. `readwhilewriting`: another thread overwrites 10,000 entries per second.\n\
        * Two threads draw uniform keys from halves of the entries. Zipfian ranks (0.99) are scattered over all keys; YCSB D reads the latest. Scans have new iterators. Latencies: of every operation that scans or reads from the device, and of every eighth other one.\n\
        * Cached: a cache of twice the data, and keys looked up before so close to each other that every block has been read. Direct: a cache of a sixteenth of the data, and Zipfian reads for a second before; engines without direct I/O have their files evicted from the page cache \
        (`posix_fadvise`) before every slice, but what they read in a slice stays there until its end, with what the kernel reads ahead. Compactions use the page cache.\n\
        * `blocks`: Tamarack counts every block that a read took from a file; RocksDB too, but not what its read-ahead reads, and only past the page cache.\n"
        .to_owned();
    for engine in &results.engines {
        writeln!(text, "* **{}** ({}): {}.", engine.name, engine.version, engine.setup)
            .expect("a string takes everything");
    }
    text
}

/// A Markdown table whose columns are aligned in the source too: the first `left` to the left, the
/// rest to the right.
pub(crate) fn table(heading: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].len()).chain([heading[column].len(), 4]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let cell = |(column, cell): (usize, &&str)| {
            let width = widths[column];
            if column < left { format!("| {cell:<width$} ") } else { format!("| {cell:>width$} ") }
        };
        cells.iter().enumerate().map(cell).collect::<String>() + "|\n"
    };
    let rule = |(column, width): (usize, &usize)| {
        if column < left { format!("|{}", "-".repeat(width + 2)) } else { format!("|{}:", "-".repeat(width + 1)) }
    };
    let rule = widths.iter().enumerate().map(rule).collect::<String>() + "|\n";
    let rows = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    line(heading) + &rule + &rows.collect::<String>()
}

/// What is less than 1 does not look like 1.
pub(crate) fn times(ratio: f64) -> String {
    format!("{:.2}", if ratio < 1.0 { (ratio * 100.0).floor() / 100.0 } else { ratio })
}

/// A whole number, with commas.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Commas stand where they belong, and columns are as wide as they need to be.
#[test]
fn numbers_and_tables() {
    assert_eq!([0.4, 999.0, 1000.0, 1_234_567.0].map(count), ["0", "999", "1,000", "1,234,567"]);
    let rows = [vec!["a".to_owned(), "12".to_owned()]];
    assert_eq!(table(&["x", "numbers"], 1, &rows), "| x    | numbers |\n|------|--------:|\n| a    |      12 |\n");
}
