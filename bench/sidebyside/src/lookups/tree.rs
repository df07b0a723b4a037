//! A tree whose filters are changed live: loading, opening, what it has, and filters of equal
//! memory.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::machine;
use serde::{Deserialize, Serialize};
use tamarack::{AdvancedOptions, Compression, Db, Durability, Options, RunStats};

use super::plan::{Plan, TreePlan};
use crate::data::{Data, Random};
use crate::plan::Reads;
use crate::stores::{BLOCK_BYTES, MEMTABLES, Seen, Store};

pub const WORKS: &str = "tamarack works";

/// Memory for the indexes of all tables: what is read from storage are data blocks.
const INDEX_BYTES: u64 = 64 << 20;

/// What a tree has.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct TreeFacts {
    pub name: String,
    pub group: String,
    /// Levels or runs: what it is named after.
    pub size: u64,
    pub policy: String,
    pub memtables: u64,
    pub memtable_bytes: u64,
    /// Runs of each level, small to large.
    pub runs: Vec<u64>,
    /// Entries of all runs.
    pub entries: u64,
    /// Seconds to load it, with a pause for compactions after each memtable.
    pub load_s: f64,
}

/// A filter as it is in memory.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Measure {
    pub specification: String,
    /// Bits in memory for each entry.
    pub bits: f64,
    /// Predicted false positives of a lookup of an absent key, and of a present one (uniform).
    pub predicted_absent: f64,
    pub predicted_present: f64,
}

/// Opens a database, or makes one with this policy, memtable size and filter.
pub fn open(dir: &Path, plan: &Plan, reads: Reads, policy: &str, memtable_bytes: u64, filter: Option<&str>) -> Db {
    let (cache_bytes, data_bytes) = (plan.cache_bytes(reads), plan.data.raw_bytes());
    let mut advanced = AdvancedOptions::new().policy(policy).memtable_bytes(memtable_bytes);
    if let Some(filter) = filter {
        advanced = advanced.filter(filter);
    }
    let advanced = advanced.block_bytes(BLOCK_BYTES).immutable_memtables_max(MEMTABLES as usize - 1);
    let advanced = advanced.cache_bytes(cache_bytes).index_bytes(INDEX_BYTES).direct_io(reads == Reads::Direct);
    let memory_bytes = cache_bytes + data_bytes + INDEX_BYTES + MEMTABLES * memtable_bytes + (256 << 20);
    let options = Options::new().memory_bytes(memory_bytes).durability(Durability::Buffered);
    options.compression(Compression::None).threads(2).advanced(advanced).open(dir).expect(WORKS)
}

/// Loads a tree into an empty directory: flushes each memtable by hand, and waits for compactions
/// after it, so that its runs are those of the model.
pub fn load(dir: &Path, plan: &Plan, tree: &TreePlan, noise: &[u8]) -> TreeFacts {
    let (data, memtable_bytes) = (&plan.data, tree.memtable_bytes(&plan.data));
    let db = open(dir, plan, Reads::Cached, &tree.policy, memtable_bytes, Some(&plan.loading_filter()));
    let (began, mut told, mut key) = (Instant::now(), Instant::now(), Vec::new());
    for memtable in 0..tree.memtables {
        for number in tree.share(data, memtable) {
            key.clear();
            data.push_key(number, &mut key);
            Db::put(&db, &key, data.value(noise, number)).expect(WORKS);
        }
        Db::flush(&db).expect(WORKS);
        db.wait_for_compactions().expect(WORKS);
        if told.elapsed() > Duration::from_secs(10) {
            eprintln!("{}: {} of {} memtables loaded", tree.name(), memtable + 1, tree.memtables);
            told = Instant::now();
        }
    }
    db.reshape().expect(WORKS);
    let load_s = began.elapsed().as_secs_f64();
    let levels = db.stats().levels;
    let facts = TreeFacts {
        name: tree.name(),
        group: tree.group.name().to_owned(),
        size: tree.size,
        policy: tree.policy.clone(),
        memtables: tree.memtables,
        memtable_bytes,
        runs: levels.iter().map(|level| level.runs.len() as u64).filter(|runs| *runs > 0).collect(),
        entries: levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum(),
        load_s,
    };
    db.close().expect(WORKS);
    machine::settle();
    facts
}

impl TreeFacts {
    pub fn all_runs(&self) -> u64 {
        self.runs.iter().sum()
    }

    /// What it has, for those who watch and for reports.
    pub fn shown_runs(&self) -> String {
        self.runs.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ")
    }

    /// What is not as planned.
    pub fn differs_from(&self, tree: &TreePlan, data: &Data) -> Option<String> {
        let as_planned = self.runs.len() as u64 == tree.levels && self.all_runs() == tree.runs;
        if as_planned && self.entries == data.entries {
            return None;
        }
        Some(format!(
            "{}: {} runs in {} levels were wanted, and the tree has {} ({} in all) with {} entries",
            self.name,
            tree.runs,
            tree.levels,
            self.shown_runs(),
            self.all_runs(),
            self.entries
        ))
    }
}

/// Gives a tree another filter, and waits until it is in memory. All others are dropped before:
/// else a table would keep a filter that is as good as the one that is asked for, such as one with
/// the best allocation where equal bits are wanted.
pub fn set_filter(db: &Db, specification: &str, entries: u64) -> Measure {
    db.set_filter("none").expect(WORKS);
    db.rebuild_filters().expect(WORKS);
    db.set_filter(specification).expect(WORKS);
    db.rebuild_filters().expect(WORKS);
    measure(db, specification, entries)
}

/// The filter that a tree has.
pub fn measure(db: &Db, specification: &str, entries: u64) -> Measure {
    let bytes = filter_bytes(db);
    let runs: Vec<RunStats> = db.stats().levels.into_iter().flat_map(|level| level.runs).collect();
    let rates: Vec<(u64, f64)> = runs.iter().map(|run| (run.entries, run.filter_fpr)).collect();
    Measure {
        specification: specification.to_owned(),
        bits: bytes as f64 * 8.0 / entries as f64,
        predicted_absent: rates.iter().map(|(_, rate)| rate).sum(),
        predicted_present: predicted_present(&rates),
    }
}

/// Tables of all runs.
pub fn tables(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.total().tables).sum()
}

/// Memory of filters. That of a filter which was replaced is released a little later.
fn filter_bytes(db: &Db) -> u64 {
    let mut bytes = db.stats().memory.filters_bytes;
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(5));
        let later = db.stats().memory.filters_bytes;
        if later == bytes {
            break;
        }
        bytes = later;
    }
    bytes
}

/// False positives of a lookup that finds its key: those of all runs younger than the one that has
/// it. Runs are young to old, with their entries and false positive rates.
fn predicted_present(runs: &[(u64, f64)]) -> f64 {
    let all: u64 = runs.iter().map(|(entries, _)| entries).sum();
    let (mut before, mut sum) = (0.0, 0.0);
    for (entries, rate) in runs {
        sum += *entries as f64 * before;
        before += rate;
    }
    sum / all.max(1) as f64
}

/// How far the memory of a filter may be from the one that is wanted, as a share.
const NEAR: f64 = 0.003;

/// How often a filter is made anew to come nearer.
pub(super) const TRIES: usize = 4;

/// Finds bits per entry with which a filter has `wanted` bits in memory. A filter may have less
/// than its specification says: the allocation leaves memory for runs that are not there. Returns
/// the nearest that was tried.
pub fn equal_memory(db: &Db, specification: impl Fn(f64) -> String, wanted: f64, entries: u64) -> Measure {
    let (mut asked, mut nearest) = (wanted, None::<Measure>);
    let distance = |measure: &Measure| (measure.bits / wanted - 1.0).abs();
    for _ in 0..TRIES {
        let measure = set_filter(db, &specification(asked), entries);
        asked = (asked * wanted / measure.bits.max(0.1)).clamp(0.1, 64.0);
        if nearest.as_ref().is_none_or(|nearest| distance(&measure) < distance(nearest)) {
            nearest = Some(measure);
        }
        if nearest.as_ref().is_some_and(|nearest| distance(nearest) <= NEAR) {
            break;
        }
    }
    nearest.expect("it was tried")
}

/// Reads every block into the cache: a lookup of each entry.
pub fn touch_everything(store: &dyn Store, data: &Data) {
    let (mut key, mut seen) = (Vec::new(), Seen::default());
    for number in 0..data.entries {
        key.clear();
        data.push_key(number, &mut key);
        store.get(&key, &mut seen);
    }
    assert_eq!(seen.entries, data.entries, "every entry that is looked up is stored");
}

/// Entries, and as many absent keys, that are looked up and compared whenever a filter changes.
const SAMPLES: u64 = 500;

/// Compares a sample of answers with what was stored.
///
/// # Errors
/// If one is wrong.
pub fn check(store: &dyn Store, data: &Data, noise: &[u8], seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    for _ in 0..SAMPLES {
        let number = random.below(data.entries);
        let (mut seen, mut expected) = (Seen::default(), Seen::default());
        store.get(&data.key(number), &mut seen);
        expected.value(data.value(noise, number));
        if seen != expected {
            return Err(io::Error::other(format!("entry {number} is not found, or has another value")));
        }
        store.get(&data.key(data.entries + number), &mut seen);
        if seen != expected {
            return Err(io::Error::other(format!("entry {}, which is not stored, is found", data.entries + number)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of entries in the third run, two runs are younger; of those in the first, none.
    #[test]
    fn present_keys_meet_younger_runs() {
        let runs = [(10, 0.1), (30, 0.2), (60, 0.5)];
        assert!((predicted_present(&runs) - (0.3 * 0.1 + 0.6 * 0.3)).abs() < 1e-12);
        assert_eq!(predicted_present(&[]), 0.0);
    }
}
