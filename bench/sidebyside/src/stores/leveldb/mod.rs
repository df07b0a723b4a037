//! LevelDB, the library of the system, through its [C API](api).

mod api;
mod mapped;

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::machine;

use self::api::{Db, Settings};
use super::{BLOCK_BYTES, Compression, Durability, Gauges, Kind, Place, Seen, Shape, Store};

pub struct LevelDb;

struct Open {
    db: Db,
}

/// More than it takes (50,000): every table stays open.
const OPEN_FILES: i32 = 1 << 20;

/// A key above all keys that are stored.
const ABOVE_ALL: [u8; 32] = [0xff; 32];

/// Its rules of what is due, which cannot be set (`db/dbformat.h`, `db/version_set.cc`).
const L0_TABLES_DUE: usize = 4;
const LEVEL_1_BYTES: u64 = 10 << 20;
const RATIO: u64 = 10;

/// These rules do not predict flushes, and compactions because many gets have searched a table
/// without finding their keys: they are over when tables have not changed for this time.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_BETWEEN_SLICES: Duration = Duration::from_millis(150);

/// A compaction that is due begins at once, and takes a second or two.
const STUCK: Duration = Duration::from_secs(300);

impl Kind for LevelDb {
    fn name(&self) -> &'static str {
        "leveldb"
    }

    fn package(&self) -> &'static str {
        "libleveldb"
    }

    fn version(&self) -> String {
        api::version()
    }

    fn setup(&self) -> &'static str {
        "one active and at most one immutable memtable, which cannot be set; leveled with a ratio of 10 and level 1 of 10 MiB, which cannot be set; tables of half a memtable, its default; up to three tables stay in L0. Compactions cannot be turned off: it takes no part in the database `runs`, and a fill \
         remains without compactions as long as it makes fewer than four tables. Bloom filters of 10 bits for each 2 KiB of a table and index blocks, both read when a table is opened, in memory beside the cache; LRU cache, which serves only tables that are not mapped: \
         up to 1,000 tables are mapped, and their blocks come from the page cache. It has no direct I/O: where others read past the page cache, its files are unmapped and evicted before each slice. It counts neither blocks nor reads; gets do not verify checksums, its default \
         (of mapped tables, each get would do so again), compactions do; gets copy the value twice; one background thread"
    }

    fn default_setup(&self) -> &'static str {
        "one active and at most one immutable memtable of the same size as the others', which cannot be set; level 1 of 10 MiB and a ratio of 10, a compaction of L0 from four tables on, puts slowed down from eight and stopped from twelve on, none of which can be set; tables of half a memtable, its default; \
         Bloom filters of 10 bits and index blocks in memory beside the cache; the LRU cache serves only tables that are not mapped: up to 1,000 are, whose blocks come from the page cache, and whose pages count as memory of the process; it has no direct I/O; \
         gets do not verify checksums, its default, compactions do; Snappy where others have LZ4; one background thread. It tells bytes written to tables, in MiB for each level, and no debt"
    }

    fn has_direct_io(&self) -> bool {
        false
    }

    fn takes(&self, shape: Shape) -> bool {
        shape != (Shape::Runs { by_hand: true })
    }

    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store> {
        let settings = Settings {
            memtable_bytes: place.buffer_bytes as usize,
            // Its defaults are tables of 2 MiB and memtables of 4 MiB. Larger ones would make
            // level 1 a table or two.
            table_bytes: place.buffer_bytes as usize / 2,
            block_bytes: BLOCK_BYTES,
            cache_bytes: place.cache_bytes as usize,
            filter_bits: place.filter_bits as i32,
            open_files: OPEN_FILES,
            compresses: place.compression != Compression::None,
            syncs: place.durability == Durability::Sync,
        };
        Box::new(Open { db: Db::open(dir, &settings) })
    }
}

impl Store for Open {
    fn put(&self, key: &[u8], value: &[u8]) {
        self.db.put(key, value);
    }

    /// A compaction of keys that no table has flushes the memtable first, and nothing else.
    fn flush(&self) {
        self.db.compact(&ABOVE_ALL, &ABOVE_ALL);
    }

    fn settle(&self) -> Duration {
        self.wait(QUIET)
    }

    fn rest(&self) -> Duration {
        self.wait(QUIET_BETWEEN_SLICES)
    }

    fn get(&self, key: &[u8], seen: &mut Seen) {
        self.db.get(key, |value| seen.value(value));
    }

    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen) {
        let mut cursor = self.db.cursor();
        if reverse {
            cursor.seek_down(from);
        } else {
            cursor.seek(from);
        }
        for n in 1..=limit {
            let Some((key, value)) = cursor.entry() else { break };
            seen.entry(key, value);
            match (n < limit, reverse) {
                (false, _) => (),
                (true, true) => cursor.previous(),
                (true, false) => cursor.next(),
            }
        }
        cursor.check();
    }

    fn tree(&self) -> String {
        let levels = self.levels().into_iter().enumerate().filter(|(_, tables)| !tables.is_empty());
        let levels = levels.map(|(level, tables)| {
            let (number, mib) = (tables.len(), tables.iter().sum::<u64>() as f64 / f64::from(1 << 20));
            format!("level {level}: {number} tables, {mib:.0} MiB")
        });
        levels.collect::<Vec<_>>().join("; ")
    }

    fn gauges(&self) -> Gauges {
        let levels = self.levels();
        let [l0, rest @ ..] = levels.as_slice() else { return Gauges::default() };
        let runs = l0.len() + rest.iter().filter(|tables| !tables.is_empty()).count();
        Gauges { debt_bytes: None, runs: Some(runs as u64) }
    }

    /// Its files are mapped.
    fn file_reads(&self) -> Option<u64> {
        None
    }

    fn block_reads(&self) -> Option<u64> {
        None
    }

    /// The sum of the last column of `leveldb.stats`, in MiB. A level that nothing was written to
    /// has no line.
    fn table_bytes_written(&self) -> Option<u64> {
        let written = |line: &str| line.split_whitespace().nth(5)?.parse::<u64>().ok();
        let mib: u64 = self.db.property(c"leveldb.stats").lines().filter_map(written).sum();
        Some(mib << 20)
    }

    /// Half a MiB for each of seven levels, before and after.
    fn table_bytes_rounding(&self) -> u64 {
        7 << 20
    }

    fn evict(&self, dir: &Path) -> io::Result<()> {
        mapped::release(dir)?;
        machine::evict(dir)
    }
}

impl Open {
    /// Sizes of the tables of each level, from its lines `--- level 1 ---` and, for each table,
    /// `17:2096000['first' @ 5 : 1 .. 'last' @ 9 : 1]`.
    fn levels(&self) -> Vec<Vec<u64>> {
        let mut levels = Vec::new();
        for line in self.db.property(c"leveldb.sstables").lines() {
            if line.starts_with("--- level") {
                levels.push(Vec::new());
            } else if let (Some(level), Some(bytes)) = (levels.last_mut(), table_bytes(line)) {
                level.push(bytes);
            }
        }
        levels
    }

    /// Waits until no compaction is running or due, and returns for how long tables had not changed
    /// then. LevelDB cannot tell, but its rules can: a level that is due stays so until the
    /// compaction that is running has replaced its tables.
    fn wait(&self, quiet: Duration) -> Duration {
        let (mut levels, mut quiet_since) = (self.levels(), Instant::now());
        loop {
            let waited = quiet_since.elapsed();
            if is_due(&levels) {
                assert!(waited < STUCK, "leveldb compacts what is due: {}", self.tree());
            } else if waited >= quiet {
                return waited;
            }
            thread::sleep(Duration::from_millis(10));
            let now = self.levels();
            if now != levels {
                (levels, quiet_since) = (now, Instant::now());
            }
        }
    }
}

fn table_bytes(line: &str) -> Option<u64> {
    line.split_once(':')?.1.split_once('[')?.0.parse().ok()
}

/// Whether a level has as much as makes a compaction due; nothing is compacted out of the last.
fn is_due(levels: &[Vec<u64>]) -> bool {
    let [l0, rest @ .., _] = levels else { return false };
    let mut capacities = std::iter::successors(Some(LEVEL_1_BYTES), |bytes| Some(bytes * RATIO));
    l0.len() >= L0_TABLES_DUE || rest.iter().any(|tables| Some(tables.iter().sum::<u64>()) >= capacities.next())
}

#[test]
fn what_is_due_is_what_leveldb_compacts() {
    let levels = |l0: usize, sizes: [u64; 6]| {
        let l0 = vec![1; l0];
        std::iter::once(l0).chain(sizes.map(|bytes| vec![bytes])).collect::<Vec<_>>()
    };
    const MIB: u64 = 1 << 20;
    assert!(!is_due(&levels(3, [10 * MIB - 1, 100 * MIB - 1, 0, 0, 0, 1 << 60])));
    assert!(is_due(&levels(4, [0; 6])));
    assert!(is_due(&levels(0, [10 * MIB, 0, 0, 0, 0, 0])));
    assert!(is_due(&levels(0, [0, 100 * MIB, 0, 0, 0, 0])));
    assert_eq!(table_bytes(" 17:2096000['a:1[' @ 5 : 1 .. 'b' @ 9 : 1]"), Some(2_096_000));
}
