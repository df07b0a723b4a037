//! The workloads that people know from `db_bench`, YCSB and the MOOSE paper: what each does ([`WORKLOADS`], the one list), on which data ([`data`]), and how it is measured
//! ([`measure`]).
//!
//! ```text
//! WORKLOADS ─┐
//! Data ──────┼─► Measurement::run ── clients: draw a key, do the operation, look at the clock ──► Measured
//! Db ────────┘
//! ```
//!
//! All workloads work on the same entries, so that they can follow each other on one database; only loads want an empty one.
//!
//! # Where they differ from their models
//!
//! * `fillrandom` and `overwrite` of `db_bench` draw keys at random, so after a fill of n about a third of the keys are missing and `readrandom` looks for
//!   them in vain. Here a load stores each key once, and what is read is there; `readmissing` reads what is not.
//! * YCSB scrambles Zipfian ranks by drawing from 10,000,000,000 of them and hashing each to an entry (`ScrambledZipfianGenerator`), which
//!   makes the most frequent entries less frequent. Here ranks are drawn from as many as there are entries, and each entry has one.
//! * YCSB's records have ten fields, of which an update writes one. Here a value is one field, and an update writes it all.
//! * The mixes A to J of MOOSE (Table 4) are shares of range lookups, updates and point lookups. Their J is 33 % of each, here a third. The paper does not say how long its
//!   ranges are, nor whether the keys it looks up are there (its Table 5 has less than one I/O for an operation of workload C, so they are not). Its model counts one block for each run that a range meets, so ranges are short here: 10 entries; keys are there.
//!   It has keys of 24 bytes and values of 1000.
//!
//! Never opens a database, and prints nothing.

pub(crate) mod data;
pub(crate) mod measure;
pub(crate) mod sample;

pub(crate) mod predict;
pub(crate) mod times;
mod zipfian;

/// Something that is measured.
pub(crate) struct Workload {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it does, in few words.
    pub(crate) words: &'static str,
    /// What its clients do.
    pub(crate) does: Does,
}

/// What the clients of a workload do.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// They store all entries, each once, in an empty database.
    Load(Order),
    /// Each draws one operation after the other.
    Mix(Mix),
}

/// In which order entries are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of their keys.
    Ascending,
    /// None that is visible.
    Random,
}

/// Operations, and on which entries.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    /// Each with its share; all shares together are the whole.
    pub(crate) operations: &'static [(u64, Operation)],
    /// Which entries.
    pub(crate) choice: Choice,
    /// One more client overwrites entries as long as the others go on.
    pub(crate) beside_writer: bool,
}

/// What is done with one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Looks it up.
    Get,
    /// Looks up a key that is not there.
    GetMissing,
    /// Gives it another value.
    Update,
    /// Looks it up and gives it another value.
    ReadModifyWrite,
    /// Stores a new one.
    Insert,
    /// Begins a scan there, reads the first entry, and so many after it.
    Seek {
        /// After the first.
        nexts: u64,
    },
    /// The same, with a number of entries drawn evenly up to this.
    Scan {
        /// The most.
        entries_max: u64,
    },
}

/// Which entries are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All alike.
    Uniform,
    /// Some far more often than others, by Zipf's law, wherever and however old they are.
    Zipfian,
    /// The younger, the more often, by Zipf's law.
    Latest,
}

/// All there are, in the order in which the help lists them.
pub(crate) const WORKLOADS: &[Workload] = &[
    load("fillseq", "store all entries, keys ascending", Order::Ascending),
    load("fillrandom", "store all entries, keys in random order", Order::Random),
    uniform("overwrite", "give random entries another value", &[(100, Operation::Update)]),
    uniform("readrandom", "look up random entries", &[(100, Operation::Get)]),
    uniform("readmissing", "look up keys that are not there", &[(100, Operation::GetMissing)]),
    Workload {
        name: "readwhilewriting",
        words: "readrandom; one more client overwrites",
        does: Does::Mix(Mix { operations: &[(100, Operation::Get)], choice: Choice::Uniform, beside_writer: true }),
    },
    uniform("seekrandom", "find a random place, read one entry", &[(100, Operation::Seek { nexts: 0 })]),
    uniform("seekrandom-next10", "the same, and the next 10", &[(100, Operation::Seek { nexts: 10 })]),
    uniform("seekrandom-next100", "the same, and the next 100", &[(100, Operation::Seek { nexts: 100 })]),
    load("ycsb-load", "as fillrandom", Order::Random),
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
        "95 % scans of up to 100, 5 % inserts",
        &[(95, Operation::Scan { entries_max: 100 }), (5, Operation::Insert)],
        Choice::Zipfian,
    ),
    skewed(
        "ycsb-f",
        "50 % lookups, 50 % lookups with update",
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

const fn load(name: &'static str, words: &'static str, order: Order) -> Workload {
    Workload { name, words, does: Does::Load(order) }
}

const fn uniform(name: &'static str, words: &'static str, operations: &'static [(u64, Operation)]) -> Workload {
    skewed(name, words, operations, Choice::Uniform)
}

const fn skewed(
    name: &'static str,
    words: &'static str,
    operations: &'static [(u64, Operation)],
    choice: Choice,
) -> Workload {
    Workload { name, words, does: Does::Mix(Mix { operations, choice, beside_writer: false }) }
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

/// Names differ, and the shares of each are what its words say.
#[test]
fn the_list_is_sound() {
    let names: std::collections::BTreeSet<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
    assert_eq!(names.len(), WORKLOADS.len());
    for workload in WORKLOADS {
        if let Does::Mix(mix) = workload.does {
            for (share, operation) in mix.operations {
                let is_said = workload.words.contains(&format!("{share} % "));
                assert!(is_said || mix.whole() != 100 || *share == 100, "{}: {}", workload.name, operation.name());
            }
            assert!(mix.whole() == 100 || workload.name == "moose-j", "{}", workload.name);
        }
    }
}
