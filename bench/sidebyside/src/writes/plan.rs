//! What `writes` measures: databases and rows, and the settings that are equal for all engines.

use std::path::PathBuf;

use common::words::{List, Words};

use crate::data::Data;
use crate::stores::{self, Compression, Durability, FILTER_BITS, Kind, MEMTABLES, Place, Shape};

/// How much, and of what.
#[derive(Debug)]
pub struct Plan {
    /// Where databases are made and removed again.
    pub dir: PathBuf,
    pub databases: Vec<Data>,
    pub rows: Vec<Row>,
    pub rounds: usize,
    pub memtable_bytes: u64,
    pub cache_bytes: u64,
    pub filter_bits: u64,
    /// The size ratio of the peers; that of Tamarack is in its policy.
    pub ratio: Option<u64>,
    pub compression: Compression,
    pub direct_io: bool,
    /// One engine after the other does all rows of a database.
    pub apart: bool,
    pub command: String,
    policies: Vec<String>,
    engines: List,
    /// Parts of the names `DATABASE/ROW`.
    only: List,
}

/// A workload, and its name in tables.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub work: Work,
}

/// Workloads. All but loads work on what the last load and the rows since then have left.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Work {
    /// All entries in random order, into an empty database.
    Load { threads: usize },
    /// Puts of random entries that are stored already.
    Overwrite { size: Size, threads: usize },
    /// As many operations as there are entries: 98 % puts of stored entries, 2 % gets.
    Updates,
    /// The first gets after the database was closed, taken out of the page cache, and opened again.
    FirstGets,
    /// Gets of keys that are not stored.
    AbsentGets,
    /// Half of the entries is loaded and settled; then one thread puts the other half in random
    /// order, and another gets entries of the first.
    GetsBesideLoad { speed: Speed },
}

/// How fast the thread puts that another gets beside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    Full,
    /// Half the puts per second that the same engine had at full speed in the same round.
    Half,
}

/// Bytes of entries to put.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// So many times the memory of all memtables.
    Memtables(u64),
    /// So many times the data.
    Data(u64),
}

/// Gets of [`Work::FirstGets`] and of [`Work::AbsentGets`].
pub const FIRST_GETS: u64 = 100;
pub const ABSENT_GETS: u64 = 100_000;

/// Per cent of gets of [`Work::Updates`].
pub const READS: u64 = 2;

impl Plan {
    pub fn new(words: &Words) -> Self {
        let quick = words.flag("quick");
        let mib = |name: &str, default, in_quick| words.positive(name, if quick { in_quick } else { default }) << 20;
        let data = |name, prefix: &'static str, value_bytes: usize, bytes: u64| {
            let entries = bytes / (prefix.len() + 16 + value_bytes) as u64;
            Data { name, prefix, value_bytes, entries, sequential: false }
        };
        let databases = vec![
            data("large", "account:", 1000, mib("large-mib", 1024, 96)),
            data("small", "", 100, mib("small-mib", 512, 48)),
        ];
        let rows = rows(
            &words.numbers("threads", &[1, 2]),
            &words.numbers("overwrite-threads", &[1]),
            words.positive("flood", if quick { 1 } else { 3 }),
        );
        let policies = words.text("policy").map_or(Vec::new(), |text| text.split(';').map(str::to_owned).collect());
        let compression = match words.text("compression") {
            None | Some("none") => Compression::None,
            Some("lz4") => Compression::Lz4,
            Some(other) => {
                eprintln!("--compression {other}: none or lz4 is needed");
                std::process::exit(2);
            }
        };
        Self {
            dir: words.dir(),
            databases,
            rows,
            rounds: words.positive("rounds", if quick { 1 } else { 3 }) as usize,
            memtable_bytes: words.positive("memtable-kib", if quick { 1 << 10 } else { 8 << 10 }) << 10,
            cache_bytes: mib("cache-mib", 64, 6),
            filter_bits: words.positive("filter-bits", FILTER_BITS),
            ratio: words.text("ratio").map(|_| words.positive("ratio", 10)),
            compression,
            direct_io: !words.flag("buffered"),
            apart: words.flag("apart"),
            command: words.command("writes"),
            policies,
            engines: words.list("engines"),
            only: words.list("only"),
        }
    }

    /// The engines that are wanted. `tamarack` also stands for its variants.
    pub fn kinds(&self) -> Vec<Box<dyn Kind>> {
        let mut kinds = stores::writing(&self.policies);
        let is_variant = |name: &str| name.starts_with("tamarack ") && self.engines.wants("tamarack");
        kinds.retain(|kind| self.engines.wants(kind.name()) || is_variant(kind.name()));
        kinds
    }

    pub fn wants(&self, data: &Data, row: &Row) -> bool {
        self.only.wants_part_of(&format!("{}/{}", data.name, row.name))
    }

    pub fn place(&self, data: Data) -> Place {
        Place {
            data,
            shape: Shape::Default,
            buffer_bytes: self.memtable_bytes,
            cache_bytes: self.cache_bytes,
            filter_bits: self.filter_bits,
            ratio: self.ratio,
            direct_io: self.direct_io,
            compression: self.compression,
            durability: Durability::Buffered,
            loading: false,
        }
    }

    /// Operations of a row.
    pub fn operations(&self, data: &Data, work: Work) -> u64 {
        let entry_bytes = data.bytes() / data.entries;
        match work {
            Work::Load { .. } | Work::Updates => data.entries,
            Work::Overwrite { size: Size::Memtables(times), .. } => {
                times * MEMTABLES * self.memtable_bytes / entry_bytes
            }
            Work::Overwrite { size: Size::Data(times), .. } => times * data.entries,
            Work::FirstGets => FIRST_GETS,
            Work::AbsentGets => ABSENT_GETS,
            Work::GetsBesideLoad { .. } => data.entries - data.entries / 2,
        }
    }

    pub fn compression_name(&self) -> &'static str {
        match self.compression {
            Compression::None => "none",
            Compression::Lz4 => "LZ4",
        }
    }
}

impl Work {
    pub fn threads(self) -> usize {
        match self {
            Self::Load { threads } | Self::Overwrite { threads, .. } => threads,
            Self::Updates | Self::FirstGets | Self::AbsentGets | Self::GetsBesideLoad { .. } => 1,
        }
    }

    /// Whether it begins with an empty database.
    pub fn begins_empty(self) -> bool {
        matches!(self, Self::Load { .. } | Self::GetsBesideLoad { .. })
    }
}

/// In their order. What is read right after a load and right after opening comes before updates.
fn rows(load_threads: &[u64], overwrite_threads: &[u64], flood: u64) -> Vec<Row> {
    let by = |threads: u64| if threads == 1 { String::new() } else { format!(" by {threads}") };
    let row = |name: String, work| Row { name, work };
    let mut rows = Vec::new();
    let (first, others) = load_threads.split_first().expect("a list has an element");
    rows.push(row(format!("load{}", by(*first)), Work::Load { threads: *first as usize }));
    rows.push(row("get absent after load".to_owned(), Work::AbsentGets));
    rows.push(row("first gets after opening".to_owned(), Work::FirstGets));
    rows.push(row("get absent after opening".to_owned(), Work::AbsentGets));
    rows.push(row(format!("updates {} %", 100 - READS), Work::Updates));
    let sizes = [
        ("burst of all memtables".to_owned(), Size::Memtables(1)),
        ("overwrite 10 x memtables".to_owned(), Size::Memtables(10)),
        (format!("overwrite {flood} x data"), Size::Data(flood)),
    ];
    for (name, size) in sizes {
        for threads in overwrite_threads {
            let work = Work::Overwrite { size, threads: *threads as usize };
            rows.push(row(format!("{name}{}", by(*threads)), work));
        }
    }
    rows.extend(others.iter().map(|n| row(format!("load{}", by(*n)), Work::Load { threads: *n as usize })));
    let beside_load = |speed| Work::GetsBesideLoad { speed };
    rows.push(row("gets beside a load, full speed".to_owned(), beside_load(Speed::Full)));
    rows.push(row("gets beside a load, half speed".to_owned(), beside_load(Speed::Half)));
    rows
}
