//! Tamarack.

use std::path::Path;

use super::{BLOCK_BYTES, FILTER_BITS, Kind, Place, Seen, Shape, Store};
use ::tamarack::{Compression, Db, Durability, Expert, Options};

pub struct Tamarack;

const WORKS: &str = "tamarack works";

impl Kind for Tamarack {
    fn name(&self) -> &'static str {
        "tamarack"
    }

    fn package(&self) -> &'static str {
        "tamarack"
    }

    fn setup(&self) -> &'static str {
        "`blocked:bits=10`: Bloom filters within a cache line; filters in memory beside the cache, indexes as well, up to a quarter of the cache, and beyond that in it; `leveling:T=10`, or tiering with more \
         runs than there are; `get` with borrowed values; scans with `next_lent` and `next_back_lent`; two background threads"
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let policy = match place.shape {
            Shape::Leveled => "leveling:T=10".to_owned(),
            Shape::Runs(runs) => format!("tiering:T={}", 2 * runs),
        };
        let expert = Expert::new().filter(&format!("blocked:bits={FILTER_BITS}")).policy(&policy);
        let expert = expert.buffer_bytes(place.buffer_bytes).block_bytes(BLOCK_BYTES).sealed_max(3);
        let expert = expert.cache_bytes(place.cache_bytes).direct_io(place.direct_io);
        let memory_bytes = place.cache_bytes + place.filter_bytes() + (256 << 20);
        let options = Options::new().memory_bytes(memory_bytes).durability(Durability::Buffered);
        Box::new(options.compression(Compression::None).threads(2).expert(expert).open(dir).expect(WORKS))
    }
}

impl Store for Db {
    fn put(&self, key: &[u8], value: &[u8]) {
        Self::put(self, key, value).expect(WORKS);
    }

    fn flush(&self) {
        Self::flush(self).expect(WORKS);
    }

    fn settle(&self) {
        self.wait_for_merges().expect(WORKS);
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        if let Some(value) = Self::get(self, key).expect(WORKS) {
            seen.value(&value);
        }
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        if reverse {
            let mut entries = Self::scan(self, ..=from);
            for _ in 0..limit {
                let Some((key, value)) = entries.next_back_lent().expect(WORKS) else { break };
                seen.entry(key, value);
            }
        } else {
            let mut entries = Self::scan(self, from..);
            for _ in 0..limit {
                let Some((key, value)) = entries.next_lent().expect(WORKS) else { break };
                seen.entry(key, value);
            }
        }
    }

    fn tree(&self) -> String {
        let levels = self.stats().levels;
        let of_runs = |level: &::tamarack::LevelStats| {
            let mib: Vec<_> = level.runs.iter().map(|run| (run.file_bytes >> 20).to_string()).collect();
            if mib.is_empty() { "-".to_owned() } else { mib.join(", ") }
        };
        let levels: Vec<_> = levels.iter().map(of_runs).collect();
        format!("MiB of runs by level: {}", levels.join(" / "))
    }

    fn memory_bytes(&self) -> Option<u64> {
        let memory = self.stats().memory;
        Some(memory.total_bytes - memory.buffers_bytes)
    }

    /// Of all threads; the others do not read.
    fn block_reads(&self) -> Option<u64> {
        let reads = self.stats().reads;
        Some(reads.gets.blocks + reads.scans.blocks)
    }
}
