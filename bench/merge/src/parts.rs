//! A compaction's time by its parts: the same runs read, merged, and merged into new tables.
//!
//! ```text
//! read     each run by itself, one cursor after the other
//! merge    all runs through one `MergedSource`
//! retain   and each entry judged by `Retain`
//! write    and retained entries written to tables of 64 MiB, which are synced: all but the edits
//! ```
//!
//! Each part contains the ones before it, so differences show what each adds. One thread; all
//! tables are in the page cache.
//!
//! `cargo run --release -p merge --no-default-features --bin merge-parts -- --help`

mod clock;
mod data;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clock::{Taken, timed};
use common::numbers::median;
use common::words::{List, Words};
use data::Data;
use tamarack::internals::{MergedSource, Retain, Source};
use tamarack::internals::{ReadPolicy, Table, TableBuilder, TableCursor, TableSettings, TableStorage};
use tamarack_env::{Env, OsEnv, TempDir};
use tamarack_format::entry::{Entry, Sequence};
use tamarack_format::meta::{EditNumber, TableId, TableMeta};
use tamarack_model::FilterKind;
use tamarack_model::filter::FilterSettings;

const HELP: &str = "\
usage: merge-parts [OPTIONS]

  --dir DIR            where the tables are made and removed again     [the system's temporary directory]
  --shape LIST         small (16 B keys, 100 B values), large (24 B, 1 KiB)                         [all]
  --compression LIST   none, lz4                                                                    [all]
  --part LIST          read, merge, retain, write                                                   [all]
  --runs N             how many runs are merged                                                      [10]
  --mib N              keys and values of all runs together                                        [1000]
  --rounds N           how often each part is run; the figures are medians                            [3]";

const DATABASE: u64 = 1;
const BLOCK_BYTES: usize = 4096;
const TABLE_BYTES: u64 = 64 << 20;
const PARTS: [&str; 4] = ["read", "merge", "retain", "write"];

struct Settings {
    dir: PathBuf,
    shapes: List,
    compressions: List,
    parts: List,
    runs: u64,
    mib: u64,
    rounds: usize,
}

fn main() {
    let settings = Settings::new(&Words::read(HELP));
    println!("| data | part | M entries/s | MB/s | wall ns/entry | cpu ns/entry |");
    println!("|---|---|---:|---:|---:|---:|");
    for (name, data) in Data::chosen(&settings.shapes, &settings.compressions, settings.runs, settings.mib) {
        measure(&settings, &name, data);
    }
}

fn measure(settings: &Settings, name: &str, data: Data) {
    let runs = Runs::make(&settings.dir, data);
    let parts: Vec<&str> = PARTS.into_iter().filter(|part| settings.parts.wants(part)).collect();
    let rounds: Vec<Vec<Taken>> =
        (0..settings.rounds).map(|_| parts.iter().map(|part| runs.run(part)).collect()).collect();
    for (p, part) in parts.iter().enumerate() {
        let wall_s = median(rounds.iter().map(|round| round[p].wall_s));
        let cpu_s = median(rounds.iter().map(|round| round[p].cpu_s));
        let entries = data.entries as f64;
        println!(
            "| {name} | {part} | {:.2} | {:.0} | {:.0} | {:.0} |",
            entries / wall_s / 1e6,
            data.bytes() as f64 / wall_s / 1e6,
            wall_s / entries * 1e9,
            cpu_s / entries * 1e9
        );
    }
}

/// The runs to be merged, one table each.
struct Runs {
    data: Data,
    env: Arc<dyn Env>,
    scratch: TempDir,
    tables: Vec<Arc<Table>>,
}

impl Runs {
    fn make(dir: &Path, data: Data) -> Self {
        let env = OsEnv::new();
        let scratch = TempDir::below(dir).expect("a scratch directory");
        let storage = TableStorage::buffered(env.clone(), 0);
        let mut runs = Self { data, env, scratch, tables: Vec::new() };
        for run in 0..data.runs {
            let mut builder = runs.builder(run + 1);
            data.for_each_of_run(run, |entry| builder.add(entry).expect("tables are written"));
            let meta = builder.finish().expect("tables are finished");
            let table = Table::open(&storage, runs.scratch.path(), DATABASE, &meta);
            runs.tables.push(table.expect("tables are opened"));
        }
        runs
    }

    fn builder(&self, id: u64) -> TableBuilder {
        let settings = TableSettings {
            database: DATABASE,
            id: TableId(id),
            created_after: EditNumber(0),
            block_bytes: BLOCK_BYTES,
            compression: self.data.compression,
            filter: Some(FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 10.0 }),
            digests: true,
        };
        TableBuilder::create(&*self.env, self.scratch.path(), settings).expect("tables are created")
    }

    fn run(&self, part: &str) -> Taken {
        let mut written = Written { runs: self, builder: None, tables: Vec::new() };
        let (entries, taken) = timed(|| match part {
            "read" => self.tables.iter().map(|table| walk(&mut cursor(table), |_| {})).sum(),
            "merge" => walk(&mut self.merged(), |_| {}),
            "retain" => self.retained(|_| {}),
            _ => {
                let entries = self.retained(|entry| written.add(entry));
                written.finish();
                entries
            }
        });
        assert_eq!(entries, self.data.entries, "{part}");
        written.remove();
        taken
    }

    fn merged(&self) -> MergedSource<TableCursor> {
        MergedSource::new(self.tables.iter().map(cursor).collect()).expect("a few runs")
    }

    fn retained(&self, mut keep: impl FnMut(Entry<'_>)) -> u64 {
        let mut retain = Retain::new(vec![Sequence(self.data.entries)]);
        walk(&mut self.merged(), |entry| {
            if retain.keep(&entry, || true) {
                keep(entry);
            }
        })
    }
}

fn cursor(table: &Arc<Table>) -> TableCursor {
    table.cursor(ReadPolicy::Sequential)
}

/// Visits all entries and counts them.
fn walk(source: &mut impl Source, mut visit: impl FnMut(Entry<'_>)) -> u64 {
    let mut entries = 0;
    source.seek_first().expect("tables are read");
    while let Some(entry) = source.entry() {
        visit(entry);
        entries += 1;
        source.next().expect("tables are read");
    }
    entries
}

/// The output of a compaction.
struct Written<'a> {
    runs: &'a Runs,
    builder: Option<TableBuilder>,
    tables: Vec<TableMeta>,
}

impl Written<'_> {
    fn add(&mut self, entry: Entry<'_>) {
        if self.builder.as_ref().is_some_and(|builder| builder.file_bytes() >= TABLE_BYTES) {
            self.finish();
        }
        let id = 1000 + self.tables.len() as u64;
        let builder = self.builder.get_or_insert_with(|| self.runs.builder(id));
        builder.add(entry).expect("tables are written");
    }

    fn finish(&mut self) {
        self.tables.extend(self.builder.take().map(|builder| builder.finish().expect("tables are finished")));
    }

    fn remove(self) {
        for meta in self.tables {
            let path = tamarack_format::names::FileName::Table(meta.id.0).path(self.runs.scratch.path());
            self.runs.env.remove(&path, tamarack::step::TABLE_REMOVE).expect("tables are removed");
        }
    }
}

impl Settings {
    fn new(words: &Words) -> Self {
        Self {
            dir: words.dir(),
            shapes: words.list("shape"),
            compressions: words.list("compression"),
            parts: words.list("part"),
            runs: words.positive("runs", 10),
            mib: words.positive("mib", 1000),
            rounds: words.positive("rounds", 3) as usize,
        }
    }
}
