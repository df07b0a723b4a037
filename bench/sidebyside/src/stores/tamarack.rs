//! Tamarack.

use std::path::Path;
use std::time::Duration;

use super::{BLOCK_BYTES, Durability, Gauges, Kind, MEMTABLES, Place, Seen, Shape, Store};
use ::tamarack::{AdvancedOptions, Compression, Db, Options};

pub struct Tamarack {
    name: &'static str,
    /// Of [`Shape::Default`], instead of the store's default.
    policy: Option<String>,
    /// How late compactions may be, instead of the store's default.
    late_memtables_max: Option<usize>,
}

impl Tamarack {
    pub fn new() -> Self {
        Self { name: "tamarack", policy: None, late_memtables_max: None }
    }

    /// With its defaults.
    pub fn by_default() -> Self {
        Self { name: DEFAULT, ..Self::new() }
    }

    /// A variant that is named after its policy, or `POLICY late=MEMTABLES`. Names live as long as
    /// the program: there are few.
    pub fn with_policy(words: &str) -> Self {
        let (policy, late) = words.split_once(" late=").map_or((words, None), |(policy, late)| (policy, Some(late)));
        let late_memtables_max = late.map(|late| late.parse().expect("a number of memtables after late="));
        Self { name: format!("tamarack {words}").leak(), policy: Some(policy.to_owned()), late_memtables_max }
    }
}

const WORKS: &str = "tamarack works";

/// The name of the one with its defaults.
const DEFAULT: &str = "tamarack by default";

impl Kind for Tamarack {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&self) -> &'static str {
        "tamarack"
    }

    fn setup(&self) -> &'static str {
        if self.name == DEFAULT {
            return "`Options::new().memory_bytes(MEMORY)`: policy `auto`; memtables, filters, indexes and cache within that memory";
        }
        "`leveling:T=10`, or `tiering:T=100`; filters `blocked:bits=10,allocation=monkey` (Bloom filters within a cache line, 10 bits for each entry of the tree, shared out among its runs) in memory beside the cache, indexes as well, up to a quarter of the cache, and beyond that in it; \
         up to three immutable memtables; `get` with borrowed values; scans with `limit`, `next_lent` and `next_back_lent`; two background threads; durability `Buffered`"
    }

    fn default_setup(&self) -> &'static str {
        "the default policy, or the one in its name, and its allowance for late compactions (`late=MEMTABLES`, default 16); the default filters (`blocked:bits=10,allocation=monkey`), in memory beside the cache, indexes as well, up to a quarter of the cache; two background threads; settled only when the tree has its shape (`Db::reshape`), which late compactions leave to a tree at rest; \
         durability `Buffered`; compactions read past the page cache, and write through it"
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let policy = match place.shape {
            Shape::Default => self.policy.as_deref(),
            Shape::Leveled => Some("leveling:T=10"),
            Shape::Runs { .. } => Some("tiering:T=100"),
        };
        let compression = match place.compression {
            super::Compression::None => Compression::None,
            super::Compression::Lz4 => Compression::Lz4,
        };
        let durability = match place.durability {
            Durability::Buffered => ::tamarack::Durability::Buffered,
            Durability::Sync => ::tamarack::Durability::Sync,
        };
        let mut advanced = AdvancedOptions::new()
            .filter(&format!("blocked:bits={},allocation=monkey", place.filter_bits))
            .block_bytes(BLOCK_BYTES);
        if let Some(policy) = policy {
            advanced = advanced.policy(policy);
        }
        if let Some(late) = self.late_memtables_max {
            advanced = advanced.late_memtables_max(late);
        }
        let advanced = advanced.memtable_bytes(place.buffer_bytes).immutable_memtables_max(MEMTABLES as usize - 1);
        let advanced = advanced.cache_bytes(place.cache_bytes).direct_io(place.direct_io);
        let memory_bytes = place.cache_bytes + place.filter_bytes() + MEMTABLES * place.buffer_bytes + (256 << 20);
        let options = Options::new().memory_bytes(memory_bytes).durability(durability);
        Box::new(options.compression(compression).threads(2).advanced(advanced).open(dir).expect(WORKS))
    }

    fn open_with_defaults(&self, dir: &Path, memory_bytes: u64) -> Box<dyn Store> {
        Box::new(Options::new().memory_bytes(memory_bytes).open(dir).expect(WORKS))
    }
}

impl Store for Db {
    fn put(&self, key: &[u8], value: &[u8]) {
        Self::put(self, key, value).expect(WORKS);
    }

    fn flush(&self) {
        Self::flush(self).expect(WORKS);
    }

    fn settle_as_due(&self) -> Duration {
        self.wait_for_compactions().expect(WORKS);
        Duration::ZERO
    }

    fn settle(&self) -> Duration {
        self.settle_as_due();
        // Late compactions leave runs beyond the shape, which a tree at rest compacts some seconds
        // after the last put: not settled before that.
        self.reshape().expect(WORKS);
        Duration::ZERO
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        if let Some(value) = Self::get(self, key).expect(WORKS) {
            seen.value(&value);
        }
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        if reverse {
            let mut entries = Self::scan(self, ..=from).limit(limit);
            while let Some((key, value)) = entries.next_back_lent().expect(WORKS) {
                seen.entry(key, value);
            }
        } else {
            let mut entries = Self::scan(self, from..).limit(limit);
            while let Some((key, value)) = entries.next_lent().expect(WORKS) {
                seen.entry(key, value);
            }
        }
    }

    /// With what was written to each level since it was opened.
    fn tree(&self) -> String {
        let mib = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let levels = self.stats().levels.into_iter().zip(1..).filter(|(level, _)| !level.runs.is_empty());
        let levels = levels.map(|(level, number)| {
            let bytes = level.runs.iter().map(|run| run.raw_bytes).sum();
            let (runs, capacity) = (level.runs.len(), mib(level.capacity_bytes));
            let plural = if runs == 1 { "" } else { "s" };
            let written = match level.written_raw_bytes {
                0 => String::new(),
                written => format!(", {} MiB written", mib(written)),
            };
            format!("level {number}: {runs} run{plural}, {} of {capacity} MiB{written}", mib(bytes))
        });
        levels.collect::<Vec<_>>().join("; ")
    }

    fn gauges(&self) -> Gauges {
        let stats = self.stats();
        let runs = stats.levels.iter().map(|level| level.runs.len() as u64).sum();
        Gauges { debt_bytes: Some(stats.debt_bytes), runs: Some(runs) }
    }

    fn block_counts(&self) -> Option<u64> {
        self.block_reads()
    }

    fn table_bytes_written(&self) -> Option<u64> {
        let stats = self.stats();
        Some(stats.flush_bytes + stats.compaction_bytes)
    }

    /// Reads through io_uring are among them, which the process's count of calls lacks.
    fn file_reads(&self) -> Option<u64> {
        let reads = self.stats().reads;
        Some(reads.gets.reads + reads.upkeep.reads)
    }

    fn assert_tree(&self, place: &Place, least_runs: u64) {
        let levels: Vec<_> = self.stats().levels.into_iter().filter(|level| !level.runs.is_empty()).collect();
        let runs: usize = levels.iter().map(|level| level.runs.len()).sum();
        let last_bytes: u64 = levels.last().map_or(0, |level| level.runs.iter().map(|run| run.raw_bytes).sum());
        let as_wanted = match place.shape {
            Shape::Default => true,
            Shape::Leveled => levels.len() >= 2 && 2 * last_bytes > place.data.raw_bytes(),
            Shape::Runs { .. } => runs as u64 >= least_runs,
        };
        assert!(as_wanted, "the tree is not as wanted: {}", self.tree());
    }

    /// Of all threads; the others do not read.
    fn block_reads(&self) -> Option<u64> {
        let reads = self.stats().reads;
        Some(reads.gets.blocks + reads.scans.blocks)
    }
}
