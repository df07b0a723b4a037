//! Workloads of `db_bench`, YCSB and the MOOSE paper: the list ([`WORKLOADS`]), their data
//! ([`data`]) and their measurement ([`measure`]).
//!
//! ```text
//! WORKLOADS ─┐
//! Data ──────┼─► Measurement::run ── clients: draw a key, do the operation, time it ──► Measured
//! Db ────────┘
//! ```
//!
//! All workloads use the same entries, so that they can follow one another on one database; only
//! loads need an empty one.
//!
//! # Differences from the originals
//!
//! * `fillrandom` of `db_bench` draws keys at random, so that about a third of the keys is missing
//!   afterwards, and `readrandom` looks up missing keys as well. Here a load stores each key once,
//!   `readrandom` looks up existing keys, and `readmissing` looks up missing ones.
//! * YCSB draws Zipfian ranks from 10,000,000,000 and hashes each to an entry
//!   (`ScrambledZipfianGenerator`), which makes the most frequent entries less frequent. Here there
//!   are as many ranks as entries, and each entry has one.
//! * A record of YCSB has ten fields, of which an update writes one. Here a value is one field.
//! * The mixes A to J of MOOSE (Table 4) are fractions of range lookups, updates and point lookups;
//!   J is 33 % of each, here a third. The paper does not state the length of ranges, nor whether
//!   point lookups find their keys (Table 5 has less than one I/O per operation for C, so they do
//!   not). Its model counts one block per run of a range, so ranges have 10 entries here; keys
//!   exist. The paper uses keys of 24 bytes and values of 1000.
//!
//! This module never opens a database and prints nothing.

pub(crate) mod data;
pub(crate) mod measure;
pub(crate) mod sample;

pub(crate) mod predict;
mod zipfian;

/// A workload to measure.
pub(crate) struct Workload {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// What it does, for the help.
    pub(crate) summary: &'static str,
    /// What its clients do.
    pub(crate) does: Does,
}

/// What the clients of a workload do.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// Stores all entries, each once, in an empty database.
    Load(Order),
    /// Each client draws one operation after the other.
    Mix(Mix),
}

/// The order in which a load stores entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Key order.
    Ascending,
    /// Random order.
    Random,
}

/// A mix of operations, and the distribution of their keys.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    /// Operations with their weights.
    pub(crate) operations: &'static [(u64, Operation)],
    /// The distribution of keys.
    pub(crate) choice: Choice,
    /// One more client overwrites entries while the others run.
    pub(crate) beside_writer: bool,
}

/// An operation on one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Looks up an existing key.
    Get,
    /// Looks up a key that does not exist.
    GetMissing,
    /// Overwrites the value.
    Update,
    /// Looks up the key and overwrites its value.
    ReadModifyWrite,
    /// Inserts a new entry.
    Insert,
    /// Seeks to the key and reads one entry, and `nexts` more.
    Seek {
        /// Entries read after the first one.
        nexts: u64,
    },
    /// Seeks and reads a uniformly random number of entries.
    Scan {
        /// Largest number of entries.
        entries_max: u64,
    },
}

/// A distribution of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Every key with the same probability.
    Uniform,
    /// Zipfian, with ranks scattered over all keys.
    Zipfian,
    /// Zipfian, with the youngest entries first.
    Latest,
}

/// All workloads, in the order of the help.
pub(crate) const WORKLOADS: &[Workload] = &[
    load("fillseq", "store all entries in key order", Order::Ascending),
    load("fillrandom", "store all entries in random order", Order::Random),
    uniform("overwrite", "overwrite random entries", &[(100, Operation::Update)]),
    uniform("readrandom", "look up random entries", &[(100, Operation::Get)]),
    uniform("readmissing", "look up keys that do not exist", &[(100, Operation::GetMissing)]),
    Workload {
        name: "readwhilewriting",
        summary: "readrandom beside a client that overwrites",
        does: Does::Mix(Mix { operations: &[(100, Operation::Get)], choice: Choice::Uniform, beside_writer: true }),
    },
    uniform("seekrandom", "seek to a random key, read one entry", &[(100, Operation::Seek { nexts: 0 })]),
    uniform("seekrandom-next10", "the same, read 10 more", &[(100, Operation::Seek { nexts: 10 })]),
    uniform("seekrandom-next100", "the same, read 100 more", &[(100, Operation::Seek { nexts: 100 })]),
    load("ycsb-load", "same as fillrandom", Order::Random),
    skewed("ycsb-a", "50 % lookups, 50 % updates", &[(50, Operation::Get), (50, Operation::Update)], Choice::Zipfian),
    skewed("ycsb-b", "95 % lookups, 5 % updates", &[(95, Operation::Get), (5, Operation::Update)], Choice::Zipfian),
    skewed("ycsb-c", "lookups only", &[(100, Operation::Get)], Choice::Zipfian),
    skewed(
        "ycsb-d",
        "95 % lookups of the latest, 5 % inserts",
        &[(95, Operation::Get), (5, Operation::Insert)],
        Choice::Latest,
    ),
    skewed(
        "ycsb-e",
        "95 % scans of up to 100 entries, 5 % inserts",
        &[(95, Operation::Scan { entries_max: 100 }), (5, Operation::Insert)],
        Choice::Zipfian,
    ),
    skewed(
        "ycsb-f",
        "50 % lookups, 50 % read-modify-writes",
        &[(50, Operation::Get), (50, Operation::ReadModifyWrite)],
        Choice::Zipfian,
    ),
    uniform("moose-a", "98 % ranges, 1 % updates, 1 % lookups", &moose(98, 1, 1)),
    uniform("moose-b", "1 % ranges, 98 % updates, 1 % lookups", &moose(1, 98, 1)),
    uniform("moose-c", "1 % ranges, 1 % updates, 98 % lookups", &moose(1, 1, 98)),
    uniform("moose-d", "49 % ranges, 2 % updates, 49 % lookups", &moose(49, 2, 49)),
    uniform("moose-e", "2 % ranges, 49 % updates, 49 % lookups", &moose(2, 49, 49)),
    uniform("moose-f", "49 % ranges, 49 % updates, 2 % lookups", &moose(49, 49, 2)),
    uniform("moose-g", "40 % ranges, 40 % updates, 20 % lookups", &moose(40, 40, 20)),
    uniform("moose-h", "40 % ranges, 20 % updates, 40 % lookups", &moose(40, 20, 40)),
    uniform("moose-i", "20 % ranges, 40 % updates, 40 % lookups", &moose(20, 40, 40)),
    uniform("moose-j", "a third each", &moose(1, 1, 1)),
];

/// A mix of Table 4.
const fn moose(ranges: u64, updates: u64, lookups: u64) -> [(u64, Operation); 3] {
    [(lookups, Operation::Get), (updates, Operation::Update), (ranges, Operation::Seek { nexts: 9 })]
}

const fn load(name: &'static str, summary: &'static str, order: Order) -> Workload {
    Workload { name, summary, does: Does::Load(order) }
}

const fn uniform(name: &'static str, summary: &'static str, operations: &'static [(u64, Operation)]) -> Workload {
    skewed(name, summary, operations, Choice::Uniform)
}

const fn skewed(
    name: &'static str,
    summary: &'static str,
    operations: &'static [(u64, Operation)],
    choice: Choice,
) -> Workload {
    Workload { name, summary, does: Does::Mix(Mix { operations, choice, beside_writer: false }) }
}

impl Workload {
    /// The one with that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// True if it wants an empty database.
    pub(crate) fn is_load(&self) -> bool {
        matches!(self.does, Does::Load(_))
    }

    /// True if the tree is another one afterwards.
    pub(crate) fn writes(&self) -> bool {
        self.beside_writer() || self.is_load() || self.does_any(Operation::writes)
    }

    /// True if it looks something up, or scans.
    fn reads(&self) -> bool {
        self.does_any(Operation::reads)
    }

    /// True if it scans.
    fn scans(&self) -> bool {
        self.does_any(|operation| matches!(operation, Operation::Seek { .. } | Operation::Scan { .. }))
    }

    /// True if one more client writes.
    fn beside_writer(&self) -> bool {
        matches!(self.does, Does::Mix(Mix { beside_writer: true, .. }))
    }

    /// What its operations are called.
    fn kinds(&self) -> Vec<&'static str> {
        match self.does {
            Does::Load(_) => vec!["insert"],
            Does::Mix(mix) => mix.operations.iter().map(|(_, operation)| operation.name()).collect(),
        }
    }

    fn does_any(&self, is: fn(Operation) -> bool) -> bool {
        matches!(self.does, Does::Mix(mix) if mix.operations.iter().any(|(_, operation)| is(*operation)))
    }
}

impl Mix {
    /// All shares together.
    pub(crate) fn whole(&self) -> u64 {
        self.operations.iter().map(|(share, _)| share).sum()
    }
}

impl Operation {
    /// What it is called, in a table of what each kind took.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "lookup",
            Self::GetMissing => "missing",
            Self::Update => "update",
            Self::ReadModifyWrite => "lookup+update",
            Self::Insert => "insert",
            Self::Seek { nexts: 0 } => "seek",
            Self::Seek { .. } | Self::Scan { .. } => "scan",
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Update | Self::ReadModifyWrite | Self::Insert)
    }

    fn reads(self) -> bool {
        !matches!(self, Self::Update | Self::Insert)
    }
}

/// Names differ, and weights agree with the summaries.
#[test]
fn the_list_is_sound() {
    let names: std::collections::BTreeSet<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
    assert_eq!(names.len(), WORKLOADS.len());
    for workload in WORKLOADS {
        if let Does::Mix(mix) = workload.does {
            for (share, operation) in mix.operations {
                let is_stated = workload.summary.contains(&format!("{share} % "));
                assert!(is_stated || mix.whole() != 100 || *share == 100, "{}: {}", workload.name, operation.name());
            }
            assert!(mix.whole() == 100 || workload.name == "moose-j", "{}", workload.name);
        }
    }
}
