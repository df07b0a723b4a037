//! Sections of the report: rows that are measured on the same open stores.

use super::data::Data;
use super::rows::{Keys, Operation, Row};
use super::stores::{Place, Shape};

/// Rows, and the stores they are measured on.
pub struct Section {
    pub name: &'static str,
    pub title: &'static str,
    pub place: Place,
    /// What is done to the caches before the first slice.
    pub warm: Warm,
    /// Kinds of stores that are left out.
    pub without: &'static [&'static str],
    pub rows: Vec<Row>,
}

/// What is done before the first slice, by one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warm {
    /// Every entry is asked for once, so that all is in the cache.
    Everything,
    /// Operations of all rows, in percent of the entries.
    Operations(u64),
}

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of 16 B keys and 100 B values.
    pub small_entries: u64,
    /// Of 24 B keys and 1,000 B values.
    pub large_entries: u64,
    /// Of the sections of YCSB.
    pub cache_bytes: u64,
    /// Of every slice, in percent of the usual.
    pub operations_percent: usize,
}

const RUNS: u64 = 10;

/// Buffers that the data is as large as: so that with a size ratio of 10 there are three levels.
const BUFFERS: u64 = 128;

/// Puts per second of `readwhilewriting`.
const BESIDE_PUTS_PER_S: u64 = 10_000;

const GET: Operation = Operation::Get;

const fn scan(limit: usize) -> Operation {
    Operation::Scan { limit, reverse: false }
}

/// All sections.
pub fn all(sizes: &Sizes) -> Vec<Section> {
    let small = Data { name: "small", prefix: "", value_bytes: 100, entries: sizes.small_entries };
    let large = Data { name: "large", prefix: "account:", value_bytes: 1000, entries: sizes.large_entries };
    let place = |data: Data, shape, cache_bytes, direct_io| {
        let buffer_bytes = match shape {
            Shape::Leveled => data.raw_bytes() / BUFFERS,
            // A little that keeps the last put of a run from sealing the buffer.
            Shape::Runs(runs) => data.raw_bytes() / runs * 101 / 100,
        };
        Place { data, shape, buffer_bytes, cache_bytes, direct_io }
    };
    let all_bytes = 2 * small.raw_bytes();
    let mut sections = vec![
        Section {
            name: "cached",
            title: "Everything in the block cache, three levels, small entries",
            place: place(small, Shape::Leveled, all_bytes, false),
            warm: Warm::Everything,
            without: &[],
            rows: cached().iter().flat_map(|row| [*row, row.threads(2)]).collect(),
        },
        Section {
            name: "writing",
            title: "As before, while another thread overwrites 10,000 entries per second",
            place: place(small, Shape::Leveled, all_bytes, false),
            warm: Warm::Everything,
            without: &["rocksdb hcc+hash"],
            rows: vec![Row::new("readwhilewriting", GET, Keys::Uniform, 200_000).beside(BESIDE_PUTS_PER_S)],
        },
        Section {
            name: "cached-runs",
            title: "Everything in the block cache, ten runs, small entries",
            place: place(small, Shape::Runs(RUNS), all_bytes, false),
            warm: Warm::Everything,
            without: &["rocksdb hcc+hash"],
            rows: cached().to_vec(),
        },
        Section {
            name: "direct",
            title: "Past the page cache, a cache of 1/64 of the data, three levels, large entries",
            place: place(large, Shape::Leveled, large.raw_bytes() / 64, true),
            warm: Warm::Operations(2),
            without: &["rocksdb hcc+hash"],
            rows: direct(),
        },
        Section {
            name: "direct-runs",
            title: "Past the page cache, a cache of 1/64 of the data, ten runs, small entries",
            place: place(small, Shape::Runs(RUNS), small.raw_bytes() / 64, true),
            warm: Warm::Operations(2),
            without: &["rocksdb hcc+hash"],
            rows: direct(),
        },
    ];
    let mixed = |puts_percent, new| Operation::Mixed { puts_percent, new };
    let ycsb = [
        ("ycsb-c", "YCSB C: Zipfian gets", Row::new("ycsb c", GET, Keys::Zipfian, 20_000)),
        ("ycsb-b", "YCSB B: as C, with 5 % updates", Row::new("ycsb b", mixed(5, false), Keys::Zipfian, 20_000)),
        (
            "ycsb-d",
            "YCSB D: the latest, with 5 % new entries",
            Row::new("ycsb d", mixed(5, true), Keys::Latest, 20_000),
        ),
    ];
    sections.extend(ycsb.map(|(name, title, row)| Section {
        name,
        title,
        place: place(large, Shape::Leveled, sizes.cache_bytes, true),
        warm: Warm::Operations(40),
        without: &["rocksdb hcc+hash"],
        rows: vec![row],
    }));
    for row in sections.iter_mut().flat_map(|section| &mut section.rows) {
        row.operations = row.operations * sizes.operations_percent / 100;
    }
    sections
}

fn cached() -> [Row; 6] {
    [
        Row::new("get", GET, Keys::Uniform, 200_000).goal(2.0),
        Row::new("get zipfian", GET, Keys::Zipfian, 200_000).goal(2.0),
        Row::new("get absent", GET, Keys::Absent, 400_000).goal(2.0),
        Row::new("scan 10", scan(10), Keys::Uniform, 60_000),
        Row::new("scan 100", scan(100), Keys::Uniform, 20_000),
        Row::new("scan 100 down", Operation::Scan { limit: 100, reverse: true }, Keys::Uniform, 20_000),
    ]
}

fn direct() -> Vec<Row> {
    vec![
        Row::new("get", GET, Keys::Uniform, 4_000),
        Row::new("get absent", GET, Keys::Absent, 100_000),
        Row::new("scan 10", scan(10), Keys::Uniform, 1_500),
        Row::new("scan 100", scan(100), Keys::Uniform, 500),
    ]
}
