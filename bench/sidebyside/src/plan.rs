//! What `beside` measures: databases, each with a large and a small cache, and rows.

use std::time::Duration;

use common::words::Words;

use crate::data::Data;
use crate::rows::{Keys, Operation, Row};
use crate::slice::Times;
use crate::stores::{Compression, Durability, FILTER_BITS, Place, Shape};

/// How much, and of what.
#[derive(Clone, Debug)]
pub struct Plan {
    pub databases: Vec<Database>,
    pub rows: Vec<Row>,
    pub rounds: usize,
    /// How long a slice takes at most.
    pub slice: Duration,
    pub steady: Steady,
}

/// Rows of the steady state: long slices after a warm-up, past the page cache.
#[derive(Clone, Debug)]
pub struct Steady {
    /// Before the first row of a sequence.
    pub warm: Duration,
    pub measured: Duration,
    /// Each begins with the database as it was loaded, and its rows follow one right after the
    /// other.
    pub sequences: Vec<Vec<Row>>,
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
    /// The cache in the steady state, if that is measured.
    pub steady_cache_bytes: Option<u64>,
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

/// In the names of rows of the steady state, instead of the name of [`Reads`].
pub const STEADY: &str = "steady";

/// The cache in the steady state, beside 1 GB of large entries.
const STEADY_CACHE_BYTES: u64 = 64 << 20;

/// Puts per second of `readwhilewriting`.
const BESIDE_PUTS_PER_S: u64 = 10_000;

impl Plan {
    pub fn new(words: &Words) -> Self {
        let quick = words.flag("quick");
        let part = if quick { 10 } else { 1 };
        let small = Data {
            name: "small",
            prefix: "",
            value_bytes: words.positive("small-value", 100) as usize,
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
                steady_cache_bytes: None,
            },
            Database {
                name: "runs",
                title: "small entries, ten runs",
                data: small,
                shape: Shape::Runs { by_hand: true },
                // A little that keeps the last put of a run from filling the buffer.
                buffer_bytes: small.raw_bytes() / RUNS * 101 / 100,
                runs: RUNS,
                steady_cache_bytes: None,
            },
            Database {
                name: "large",
                title: "large entries, leveled",
                data: large,
                shape: Shape::Leveled,
                buffer_bytes,
                runs: 1,
                steady_cache_bytes: Some(STEADY_CACHE_BYTES / part),
            },
        ];
        let slice_ms = words.positive("slice-ms", if quick { 50 } else { 200 });
        let threads = words.numbers("threads", &[1, 2]);
        Self {
            databases,
            rows: rows(&threads),
            rounds: words.positive("rounds", if quick { 2 } else { 3 }) as usize,
            slice: Duration::from_millis(slice_ms),
            steady: Steady {
                warm: Duration::from_secs(words.number("steady-warm-s", if quick { 1 } else { 10 })),
                measured: Duration::from_secs(words.positive("steady-s", if quick { 2 } else { 30 })),
                sequences: sequences(&threads),
            },
        }
    }
}

impl Steady {
    /// How long each row of a sequence takes.
    pub fn times<'a>(&self, sequence: &'a [Row]) -> impl Iterator<Item = (&'a Row, Times)> {
        let (warm, measured) = (self.warm, self.measured);
        sequence.iter().enumerate().map(move |(place, row)| {
            let warm = if place == 0 { warm } else { Duration::ZERO };
            (row, Times { warm, measured: measured * row.longer })
        })
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

    /// Past the page cache, with the cache of the steady state.
    pub fn steady_place(&self) -> Option<Place> {
        Some(Place { cache_bytes: self.steady_cache_bytes?, ..self.place(Reads::Direct, false) })
    }
}

impl Reads {
    pub const ALL: [Self; 2] = [Self::Cached, Self::Direct];

    pub const fn name(self) -> &'static str {
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
    const SCANS: [[(u64, Operation); 1]; 4] = [scan(10, false), scan(16, false), scan(100, false), scan(100, true)];
    let rows = [
        Row::new("readrandom", Keys::Uniform, &[(100, Get)]),
        Row::new("readrandom zipfian, YCSB C", Keys::Zipfian, &[(100, Get)]),
        Row::new("readmissing", Keys::Absent, &[(100, Get)]),
        Row::new("seek, next 10", Keys::Uniform, &SCANS[0]),
        Row::new("seek, next 16", Keys::Uniform, &SCANS[1]),
        Row::new("seek, next 100", Keys::Uniform, &SCANS[2]),
        Row::new("seek, 100 downward", Keys::Uniform, &SCANS[3]),
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

/// YCSB's A is twice as long as the others, a minute, and leaves a tree that C then reads.
fn sequences(threads: &[u64]) -> Vec<Vec<Row>> {
    use Operation::{Get, Insert, Put};
    let c = Row::new("YCSB C", Keys::Zipfian, &[(100, Get)]);
    let sequences = [
        vec![c],
        vec![Row::new("YCSB B", Keys::Zipfian, &[(95, Get), (5, Put)])],
        vec![Row::new("YCSB D", Keys::Latest, &[(95, Get), (5, Insert)])],
        vec![
            Row { longer: 2, ..Row::new("YCSB A", Keys::Zipfian, &[(50, Get), (50, Put)]) },
            Row { name: "YCSB C after A", ..c },
        ],
    ];
    let with = |sequence: &Vec<Row>| {
        let by = |threads: &u64| sequence.iter().map(|row| Row { threads: *threads as usize, ..*row }).collect();
        threads.iter().map(by).collect::<Vec<Vec<Row>>>()
    };
    sequences.iter().flat_map(with).collect()
}

/// The steady state has a cache of its own, a warm-up before each sequence, and none within.
#[test]
fn steady_rows() {
    let help = "  --quick  less\n  --steady-s N  how long";
    let plan = Plan::new(&Words::of(help, ["--quick", "--steady-s", "7"].map(str::to_owned).into_iter()));
    let cached: Vec<_> = plan.databases.iter().filter(|database| database.steady_cache_bytes.is_some()).collect();
    assert_eq!(cached.iter().map(|database| database.name).collect::<Vec<_>>(), ["large"]);
    let place = cached[0].steady_place().expect("it has a cache");
    assert!(place.direct_io && place.cache_bytes == STEADY_CACHE_BYTES / 10);
    let last: Vec<_> = plan.steady.times(plan.steady.sequences.last().expect("A, and C after it")).collect();
    let seconds = last.iter().map(|(row, times)| (row.name, times.warm.as_secs(), times.measured.as_secs()));
    assert_eq!(seconds.collect::<Vec<_>>(), [("YCSB A", 1, 14), ("YCSB C after A", 0, 7)]);
}
