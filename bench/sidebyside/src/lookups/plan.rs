//! What `lookups` measures: trees, filters, workloads, and how much of each.

use std::path::PathBuf;
use std::time::Duration;

use common::words::{List, Words};

use crate::data::Data;
use crate::plan::Reads;
use crate::rows::{Keys, Operation, Row};

/// How much, and of what.
#[derive(Debug)]
pub struct Plan {
    /// Where databases are made and removed again.
    pub dir: PathBuf,
    pub data: Data,
    pub trees: Vec<TreePlan>,
    /// Whether trees with a ratio of 10 are compared, with RocksDB's if that takes part.
    pub has_beside: bool,
    /// Whether RocksDB takes part.
    pub has_rocksdb: bool,
    /// Bits per entry that Chucky is given. The memory that it then has is that of the others.
    pub chucky_bits: Vec<f64>,
    pub filters: Vec<FilterKind>,
    pub rounds: usize,
    /// How long a slice takes at most.
    pub slice: Duration,
    pub command: String,
}

/// A tree of one policy that is loaded memtable by memtable, and settles after each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreePlan {
    pub group: Group,
    /// Levels, or runs, as the group has it: what the tree is named after.
    pub size: u64,
    pub policy: String,
    pub levels: u64,
    pub runs: u64,
    /// Memtables with which all run slots are taken that a tree at rest can have.
    pub memtables: u64,
}

/// Trees that differ in size only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `leveling:T=3`, by levels.
    Leveling,
    /// `tiering:T=3`, by levels.
    Tiering,
    /// Tiering in two levels, by runs.
    Runs,
}

/// A kind of filter, with its allocation of memory to runs. Elastic filters have none: what tables
/// get follows lookups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    Chucky,
    Bloom,
    BloomMonkey,
    Blocked,
    BlockedMonkey,
    Elastic,
}

/// Which keys are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    Uniform,
    Zipfian,
    Absent,
}

/// The size ratio of [`Group::Leveling`] and [`Group::Tiering`].
const RATIO: u64 = 3;

/// Memtables of the trees with a ratio of 10: about half of what three levels hold, so that tiering
/// has about five runs in each.
pub const BESIDE_MEMTABLES: u64 = 555;

/// Bits of Chucky for six, five and four slots a bucket.
const CHUCKY_BITS: [f64; 3] = [11.7, 14.2, 17.9];

impl Plan {
    pub fn new(words: &Words) -> Self {
        let quick = words.flag("quick");
        let entries = words.positive("entries", if quick { 200_000 } else { 2_000_000 });
        let data = Data { name: "lookups", prefix: "", value_bytes: 48, entries, sequential: false };
        let levels = words.numbers("levels", if quick { &[3, 5] } else { &[3, 4, 5, 6, 7, 8] });
        let runs = words.numbers("runs", if quick { &[5, 10, 35] } else { &[5, 10, 35, 60, 140, 274] });
        let only = words.list("only");
        let filters = words.list("filters");
        let mut trees = trees(&levels, &runs);
        trees.retain(|tree| only.wants_part_of(&tree.name()));
        let engines = words.list("engines");
        check_engines(&engines);
        Self {
            dir: words.dir(),
            data,
            trees,
            has_beside: only.wants_part_of("beside"),
            has_rocksdb: cfg!(feature = "rocksdb") && engines.wants("rocksdb"),
            chucky_bits: bits(words),
            filters: FilterKind::ALL
                .into_iter()
                .filter(|kind| *kind == FilterKind::Chucky || filters.wants(kind.name()))
                .collect(),
            rounds: words.positive("rounds", if quick { 2 } else { 3 }) as usize,
            slice: Duration::from_millis(words.positive("slice-ms", if quick { 30 } else { 300 })),
            command: words.command("lookups"),
        }
    }

    /// The cache of a database whose blocks are read like this.
    pub fn cache_bytes(&self, reads: Reads) -> u64 {
        match reads {
            Reads::Cached => 2 * self.data.raw_bytes(),
            Reads::Direct => self.data.raw_bytes() / 16,
        }
    }

    /// The filter with which trees are loaded. All others are made from digests, which tables store
    /// beside any filter; elastic ones are only there in tables that were written with them. Such a
    /// table stores twice the bits that were chosen, in units of about three bits, from which all
    /// smaller elastic filters are loaded too.
    pub fn loading_filter(&self) -> String {
        if self.filters.contains(&FilterKind::Elastic) {
            FilterKind::Elastic.specification(elastic_bits(&self.chucky_bits))
        } else {
            FilterKind::Blocked.specification(10.0)
        }
    }

    /// Memtable size of the trees with a ratio of 10.
    pub fn beside_memtable_bytes(&self) -> u64 {
        self.data.raw_bytes().div_ceil(BESIDE_MEMTABLES).max(4096)
    }
}

/// Without Tamarack there is nothing to compare.
fn check_engines(engines: &List) {
    if !engines.wants("tamarack") {
        eprintln!("--engines: tamarack is needed; rocksdb can be left out");
        std::process::exit(2);
    }
}

/// `--bits`: numbers from 10 to 64 with commas between them.
fn bits(words: &Words) -> Vec<f64> {
    let Some(text) = words.text("bits") else { return CHUCKY_BITS.to_vec() };
    let number = |text: &str| text.parse::<f64>().ok().filter(|bits| (10.0..=64.0).contains(bits));
    text.split(',')
        .map(|text| {
            number(text).unwrap_or_else(|| {
                eprintln!("--bits {text}: a number from 10 to 64 is needed");
                std::process::exit(2)
            })
        })
        .collect()
}

/// Bits for which trees are loaded with elastic filters: the most that are compared.
pub fn elastic_bits(chucky_bits: &[f64]) -> f64 {
    chucky_bits.iter().copied().fold(0.0, f64::max)
}

/// The trees of all groups; those that no tree can have are left out.
fn trees(levels: &[u64], runs: &[u64]) -> Vec<TreePlan> {
    let of_levels =
        |group| levels.iter().filter(|levels| **levels > 0).map(move |levels| TreePlan::full(group, *levels));
    let of_runs = runs.iter().filter(|runs| **runs > 1).map(|runs| TreePlan::of_runs(*runs));
    of_levels(Group::Leveling).chain(of_levels(Group::Tiering)).chain(of_runs).collect()
}

impl TreePlan {
    /// A tree in which each of `levels` has all that it can have at rest: T - 1 batches. With
    /// leveling they are one run. `T^levels - 1` memtables fill it: the digits of a number to the
    /// base T, each the greatest one.
    fn full(group: Group, levels: u64) -> Self {
        let (policy, runs) = match group {
            Group::Leveling => ("leveling", levels),
            Group::Tiering | Group::Runs => ("tiering", (RATIO - 1) * levels),
        };
        let memtables = RATIO.pow(u32::try_from(levels).expect("few levels")) - 1;
        Self { group, size: levels, policy: format!("{policy}:T={RATIO}"), levels, runs, memtables }
    }

    /// A tiered tree of two levels with so many runs, at least two: half of them in each level, or
    /// one more in the last. With T one above the runs of the last level, level 2 is full, and
    /// `(T - 1) T` memtables are in it.
    fn of_runs(runs: u64) -> Self {
        let last = runs.div_ceil(2);
        let memtables = last * (last + 1) + (runs - last);
        Self { group: Group::Runs, size: runs, policy: format!("tiering:T={}", last + 1), levels: 2, runs, memtables }
    }

    /// Such as `runs/35`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.group.name(), self.size)
    }

    /// As much of `data` as makes all memtables equal: a level counts as full if it is half a batch
    /// short, which is little with many run slots.
    pub fn data(&self, data: &Data) -> Data {
        Data { entries: (data.entries / self.memtables).max(1) * self.memtables, ..*data }
    }

    /// A memtable size that no memtable fills before it is flushed by hand: a byte more than its
    /// share of the entries.
    pub fn memtable_bytes(&self, data: &Data) -> u64 {
        let data = self.data(data);
        data.raw_bytes() / self.memtables + 1
    }

    /// The entries of a memtable, by their numbers.
    pub fn share(&self, data: &Data, memtable: u64) -> std::ops::Range<u64> {
        let entries = self.data(data).entries / self.memtables;
        entries * memtable..entries * (memtable + 1)
    }
}

impl Group {
    pub const ALL: [Self; 3] = [Self::Leveling, Self::Tiering, Self::Runs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Leveling => "leveling",
            Self::Tiering => "tiering",
            Self::Runs => "runs",
        }
    }

    pub fn title(self) -> String {
        match self {
            Self::Leveling => format!("`leveling:T={RATIO}`, by levels"),
            Self::Tiering => format!("`tiering:T={RATIO}`, by levels"),
            Self::Runs => "Tiering in two levels, by runs".to_owned(),
        }
    }

    /// What its trees are counted by.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Leveling | Self::Tiering => "levels",
            Self::Runs => "runs",
        }
    }
}

impl FilterKind {
    /// Chucky first: its memory is that of the others.
    pub const ALL: [Self; 6] =
        [Self::Chucky, Self::Bloom, Self::BloomMonkey, Self::Blocked, Self::BlockedMonkey, Self::Elastic];

    /// Its name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chucky => "chucky",
            Self::Bloom => "bloom",
            Self::BloomMonkey => "bloom monkey",
            Self::Blocked => "blocked",
            Self::BlockedMonkey => "blocked monkey",
            Self::Elastic => "elastic",
        }
    }

    /// The filter's specification, with bits rounded to a thousandth.
    pub fn specification(self, bits: f64) -> String {
        let bits = (bits * 1000.0).round() / 1000.0;
        match self {
            Self::Chucky | Self::Bloom | Self::Blocked | Self::Elastic => format!("{}:bits={bits}", self.name()),
            Self::BloomMonkey => format!("bloom:bits={bits},allocation=monkey"),
            Self::BlockedMonkey => format!("blocked:bits={bits},allocation=monkey"),
        }
    }
}

impl Workload {
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Zipfian, Self::Absent];

    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Absent => "absent",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Uniform => "gets of present keys, uniform",
            Self::Zipfian => "gets of present keys, Zipfian",
            Self::Absent => "gets of absent keys",
        }
    }

    /// Upper bound on the lookups of a slice: their list is made beforehand, and takes memory. Many
    /// absent keys cost no block.
    pub fn most_operations(self, reads: Reads, slice: Duration) -> usize {
        match (self, reads) {
            (Self::Absent, Reads::Cached) => 6 * 1_000_000 * slice.as_millis() as usize / 1000,
            (Self::Absent, Reads::Direct) => 2 * 1_000_000 * slice.as_millis() as usize / 1000,
            (Self::Uniform | Self::Zipfian, reads) => reads.most_operations(slice),
        }
    }

    /// The row of operations that it is.
    pub fn row(self) -> Row {
        let keys = match self {
            Self::Uniform => Keys::Uniform,
            Self::Zipfian => Keys::Zipfian,
            Self::Absent => Keys::Absent,
        };
        Row::new(self.name(), keys, &[(100, Operation::Get)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of a tree after so many memtables: as in a number to the base T, a level whose
    /// digit would become T is emptied into the next.
    fn runs_of(ratio: u64, memtables: u64) -> Vec<u64> {
        let mut digits = Vec::new();
        let mut rest = memtables;
        while rest > 0 {
            digits.push(rest % ratio);
            rest /= ratio;
        }
        digits
    }

    /// Memtables fill the levels and runs that a tree is named after.
    #[test]
    fn memtables_make_the_wanted_trees() {
        for tree in trees(&[3, 4, 5, 6, 7, 8], &[2, 5, 10, 35, 60, 140, 274]) {
            let ratio = tree.policy.split_once("T=").and_then(|(_, ratio)| ratio.parse().ok()).expect("a ratio");
            let batches = runs_of(ratio, tree.memtables);
            assert_eq!(batches.len() as u64, tree.levels, "{tree:?}");
            let runs: u64 = if tree.group == Group::Leveling { tree.levels } else { batches.iter().sum() };
            assert_eq!(runs, tree.runs, "{tree:?}");
            assert!(batches.iter().all(|batches| *batches > 0), "{tree:?}: no level is empty");
            // The level with most runs at the end must not be the first: it would become one run.
            assert!(batches.is_sorted() || tree.group != Group::Runs, "{tree:?}");
        }
        assert_eq!(TreePlan::of_runs(35).policy, "tiering:T=19");
        assert_eq!(TreePlan::of_runs(274).memtables, 19_043);
    }

    /// No memtable is full before it is flushed, all together have nearly all entries, levels count
    /// as full with T batches, and the tree holds its entries without another level.
    #[test]
    fn memtables_are_flushed_by_hand() {
        let all = Data { name: "test", prefix: "", value_bytes: 48, entries: 2_000_000, sequential: false };
        for tree in trees(&[3, 8], &[5, 140, 274]) {
            let (data, memtable_bytes) = (tree.data(&all), tree.memtable_bytes(&all));
            assert!(data.entries <= all.entries && data.entries * 100 >= all.entries * 99, "{tree:?}");
            let batch = data.raw_bytes() / tree.memtables;
            let mut next = 0;
            for memtable in 0..tree.memtables {
                let share = tree.share(&all, memtable);
                assert_eq!((share.start, (share.end - share.start) * 72), (next, batch));
                next = share.end;
            }
            assert_eq!(next, data.entries);
            let ratio: u64 = tree.policy.split_once("T=").and_then(|(_, ratio)| ratio.parse().ok()).expect("a ratio");
            assert!(batch < memtable_bytes && 2 * ratio * batch > (2 * ratio - 1) * memtable_bytes, "{tree:?}");
            assert!(data.raw_bytes() < memtable_bytes * ratio.pow(tree.levels as u32));
        }
    }

    /// Specifications are those that the engine reads.
    #[test]
    fn specifications_are_the_engines() {
        assert_eq!(FilterKind::Chucky.specification(14.2), "chucky:bits=14.2");
        assert_eq!(FilterKind::BlockedMonkey.specification(14.123_456), "blocked:bits=14.123,allocation=monkey");
        assert_eq!(FilterKind::Elastic.specification(elastic_bits(&[11.7, 17.9, 14.2])), "elastic:bits=17.9");
    }
}
