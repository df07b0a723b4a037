//! What `beside` measures: databases, each with a large and a small cache, and rows.

use std::time::Duration;

use common::words::Words;

use crate::data::Data;
use crate::rows::{Keys, Operation, Row};
use crate::stores::{Compression, Durability, FILTER_BITS, Place, Shape};

/// How much, and of what.
#[derive(Clone, Debug)]
pub struct Plan {
    pub databases: Vec<Database>,
    pub rows: Vec<Row>,
    pub rounds: usize,
    /// How long a slice takes at most.
    pub slice: Duration,
}

/// Entries in a tree.
#[derive(Clone, Debug)]
pub struct Database {
    pub name: &'static str,
    pub title: &'static str,
    pub data: Data,
    pub shape: Shape,
    pub buffer_bytes: u64,
    /// Memtables flushed by hand during the load, one for each run wanted; one means automatic
    /// flushes.
    pub runs: u64,
}

/// How reads find their blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// In a cache that holds everything.
    Cached,
    /// Past the page cache, with a small cache.
    Direct,
}

/// The runs of the tree that is not merged.
const RUNS: u64 = 10;

/// Raw bytes for each byte of the small cache.
const SMALL_CACHE: u64 = 16;

/// Puts per second of `readwhilewriting`.
const BESIDE_PUTS_PER_S: u64 = 10_000;

impl Plan {
    pub fn new(words: &Words) -> Self {
        let quick = words.flag("quick");
        let part = if quick { 10 } else { 1 };
        let small = Data {
            name: "small",
            prefix: "",
            value_bytes: 100,
            entries: words.positive("small", 5_000_000 / part),
            sequential: false,
        };
        let large = Data {
            name: "large",
            prefix: "account:",
            value_bytes: 1000,
            entries: words.positive("large", 1_000_000 / part),
            sequential: false,
        };
        let buffer_bytes = words.positive("buffer-kib", (8 << 10) / part) << 10;
        let databases = vec![
            Database {
                name: "leveled",
                title: "small entries, leveled",
                data: small,
                shape: Shape::Leveled,
                buffer_bytes,
                runs: 1,
            },
            Database {
                name: "runs",
                title: "small entries, ten runs",
                data: small,
                shape: Shape::Runs { by_hand: true },
                // A little that keeps the last put of a run from filling the buffer.
                buffer_bytes: small.raw_bytes() / RUNS * 101 / 100,
                runs: RUNS,
            },
            Database {
                name: "large",
                title: "large entries, leveled",
                data: large,
                shape: Shape::Leveled,
                buffer_bytes,
                runs: 1,
            },
        ];
        let slice_ms = words.positive("slice-ms", if quick { 50 } else { 200 });
        Self {
            databases,
            rows: rows(&words.numbers("threads", &[1, 2])),
            rounds: words.positive("rounds", if quick { 2 } else { 3 }) as usize,
            slice: Duration::from_millis(slice_ms),
        }
    }
}

impl Database {
    pub fn place(&self, reads: Reads, loading: bool) -> Place {
        let cache_bytes = match reads {
            Reads::Cached => 2 * self.data.raw_bytes(),
            Reads::Direct => self.data.raw_bytes() / SMALL_CACHE,
        };
        let (data, shape, buffer_bytes) = (self.data, self.shape, self.buffer_bytes);
        Place {
            data,
            shape,
            buffer_bytes,
            cache_bytes,
            filter_bits: FILTER_BITS,
            ratio: None,
            direct_io: reads == Reads::Direct,
            compression: Compression::None,
            durability: Durability::Buffered,
            loading,
        }
    }
}

impl Reads {
    pub const ALL: [Self; 2] = [Self::Cached, Self::Direct];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Direct => "direct",
        }
    }

    /// Upper bound on the operations of a slice: their list is made beforehand, and takes memory.
    pub fn most_operations(self, slice: Duration) -> usize {
        let per_s = match self {
            Self::Cached => 1_500_000,
            Self::Direct => 300_000,
        };
        per_s * slice.as_millis() as usize / 1000
    }
}

/// Rows that only read come first, so that they find the trees as loaded.
fn rows(threads: &[u64]) -> Vec<Row> {
    use Operation::{Get, Insert, Put, ReadModifyWrite, Scan, ScanUpTo};
    const fn scan(limit: u16, reverse: bool) -> [(u64, Operation); 1] {
        [(100, Scan { limit, reverse })]
    }
    const SCANS: [[(u64, Operation); 1]; 3] = [scan(10, false), scan(100, false), scan(100, true)];
    let rows = [
        Row::new("readrandom", Keys::Uniform, &[(100, Get)]),
        Row::new("readrandom zipfian, YCSB C", Keys::Zipfian, &[(100, Get)]),
        Row::new("readmissing", Keys::Absent, &[(100, Get)]),
        Row::new("seek, next 10", Keys::Uniform, &SCANS[0]),
        Row::new("seek, next 100", Keys::Uniform, &SCANS[1]),
        Row::new("seek, 100 downward", Keys::Uniform, &SCANS[2]),
        Row { beside_puts_per_s: BESIDE_PUTS_PER_S, ..Row::new("readwhilewriting", Keys::Uniform, &[(100, Get)]) },
        Row::new("YCSB B", Keys::Zipfian, &[(95, Get), (5, Put)]),
        Row::new("YCSB D", Keys::Latest, &[(95, Get), (5, Insert)]),
        Row::new("YCSB E", Keys::Zipfian, &[(95, ScanUpTo(100)), (5, Insert)]),
        Row::new("YCSB A", Keys::Zipfian, &[(50, Get), (50, Put)]),
        Row::new("YCSB F", Keys::Zipfian, &[(50, Get), (50, ReadModifyWrite)]),
        Row {
            longer: 3,
            settled_name: Some("overwrite, settled"),
            ..Row::new("overwrite", Keys::Uniform, &[(100, Put)])
        },
    ];
    let with = |row: &Row| threads.iter().map(|threads| Row { threads: *threads as usize, ..*row }).collect::<Vec<_>>();
    rows.iter().flat_map(with).collect()
}
