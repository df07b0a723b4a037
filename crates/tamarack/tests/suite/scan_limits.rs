//! Scans with a limit: what they deliver, on random trees, and what they read past the page cache,
//! in the simulator.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Compression, Db, Options, ReaderStats, Result, Scan};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};

fn key(number: u64) -> Vec<u8> {
    format!("account:{number:016}").into_bytes()
}

/// Entries of 24 + 1000 bytes.
const VALUE_BYTES: usize = 1000;

/// A tree whose entries were put in random order, with its indexes in memory and no block cache.
fn tree(policy: &str, memtable_bytes: u64, entries: u64) -> Result<Db> {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let options = || {
        let advanced = AdvancedOptions::new().env(env.clone()).policy(policy).memtable_bytes(memtable_bytes);
        let advanced = advanced.direct_io(true).cache_bytes(0).index_bytes(64 << 20);
        Options::new().compression(Compression::None).threads(1).advanced(advanced)
    };
    let db = options().open("/db")?;
    let random = Random::new(1);
    let mut numbers: Vec<_> = (0..entries).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    numbers.into_iter().try_for_each(|number| db.put(key(number), [b'v'; VALUE_BYTES]))?;
    db.flush()?;
    db.wait_for_compactions()?;
    db.close()?;
    let db = options().open("/db")?;
    // Opens the tables, and reads the indexes.
    assert_eq!(db.scan(..).count() as u64, entries);
    Ok(db)
}

/// What so many scans of `limit` entries from random keys read. They are told the limit or not.
fn read_by(db: &Db, entries: u64, scans: u64, limit: u64, is_told: bool, is_backward: bool) -> Result<ReaderStats> {
    let random = Random::new(2);
    let before = db.stats().reads;
    for _ in 0..scans {
        let start = limit + random.below(entries - 2 * limit);
        let scan = if is_backward { db.scan(..key(start)) } else { db.scan(key(start)..) };
        let mut scan = if is_told { scan.limit(limit as usize) } else { scan };
        for step in 0..limit {
            let next = if is_backward { scan.next_back_lent()? } else { scan.next_lent()? };
            let number = if is_backward { start - 1 - step } else { start + step };
            assert_eq!(next.map(|(key, _)| key), Some(&key(number)[..]));
        }
        assert!(!is_told || scan.next_lent()?.is_none());
    }
    Ok(db.stats().reads.since(&before).scans)
}

/// A scan of 16 entries of a leveled tree takes about six blocks of 4 KiB in all, one of them for
/// the seek in the smaller run. With its limit it reads a fifth more, mostly in one read for each
/// run. Without, it reads three times as much or more.
#[test]
fn a_scan_with_a_limit_reads_the_blocks_of_its_entries() -> Result<()> {
    const ENTRIES: u64 = 6000;
    const SCANS: u64 = 100;
    let db = tree("leveling:T=10", 48_000, ENTRIES)?;
    let runs: u64 = db.stats().levels.iter().map(|level| level.runs.len() as u64).sum();
    assert_eq!(runs, 2, "a large run and a small one");
    for is_backward in [false, true] {
        let without = read_by(&db, ENTRIES, SCANS, 16, false, is_backward)?;
        let with = read_by(&db, ENTRIES, SCANS, 16, true, is_backward)?;
        let figures = format!("{runs} runs, backward: {is_backward}: {without:?} without limit, {with:?} with it");
        assert_eq!(without.blocks, with.blocks, "{figures}");
        assert!(with.bytes * 4 <= with.blocks * 4096 * 5, "{figures}");
        assert!(3 * with.bytes <= without.bytes, "{figures}");
        assert!(with.reads * 10 <= SCANS * runs * 12, "{figures}");
    }
    Ok(())
}

/// Whatever the limit and the tree, a scan that is told its limit reads fewer bytes than one that
/// is not, in about as many reads or fewer.
#[test]
fn a_limit_costs_no_reads() -> Result<()> {
    const ENTRIES: u64 = 6000;
    for (policy, memtable_bytes) in [("leveling:T=10", 120_000), ("tiering:T=100", 700_000)] {
        let db = tree(policy, memtable_bytes, ENTRIES)?;
        for limit in [1, 4, 10, 16, 100, 1000] {
            for is_backward in [false, true] {
                let without = read_by(&db, ENTRIES, 30, limit, false, is_backward)?;
                let with = read_by(&db, ENTRIES, 30, limit, true, is_backward)?;
                let figures = format!("{policy}, {limit} entries, backward: {is_backward}: {without:?}, {with:?}");
                assert!(with.bytes <= without.bytes && with.reads * 10 <= without.reads * 11, "{figures}");
            }
        }
    }
    Ok(())
}

/// Where a scan passes many more entries than its limit says, because they are deleted, its reads
/// grow as without a limit.
#[test]
fn a_limit_behind_tombstones_is_reached_in_few_reads() -> Result<()> {
    const ENTRIES: u64 = 3000;
    let db = tree("tiering:T=100", 4_000_000, ENTRIES)?;
    for number in 100..ENTRIES - 100 {
        db.delete(key(number))?;
    }
    db.flush()?;
    for is_backward in [false, true] {
        let before = db.stats().reads;
        let mut scan = db.scan(key(99)..=key(ENTRIES - 100)).limit(2);
        for number in if is_backward { [ENTRIES - 100, 99] } else { [99, ENTRIES - 100] } {
            let next = if is_backward { scan.next_back_lent()? } else { scan.next_lent()? };
            assert_eq!(next.map(|(key, _)| key), Some(&key(number)[..]));
        }
        let read = db.stats().reads.since(&before).scans;
        assert!(read.reads <= 40, "{read:?}");
    }
    Ok(())
}

type Item = (Vec<u8>, Vec<u8>);

/// Calls both ends of a scan in random order, and compares what it delivers.
fn compare(random: &Random, mut scan: Scan, expected: BTreeMap<Vec<u8>, Vec<u8>>, about: &str) -> Result<()> {
    let copied = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    let mut remaining = usize::MAX;
    let mut expected = expected.into_iter();
    let backward_per_cent = [0, 50, 100][random.below(3) as usize];
    for step in 0.. {
        if step == 0 || random.below(20) == 0 {
            let limit = random.below([2, 20, 400][random.below(3) as usize]) as usize;
            scan = scan.limit(limit);
            remaining = remaining.min(limit);
        }
        let is_backward = random.below(100) < backward_per_cent;
        let wanted: Option<Item> = match (remaining, is_backward) {
            (0, _) => None,
            (_, false) => expected.next(),
            (_, true) => expected.next_back(),
        };
        remaining = remaining.saturating_sub(1);
        let found = match (is_backward, random.below(2)) {
            (false, 0) => scan.next_lent()?.map(copied),
            (true, 0) => scan.next_back_lent()?.map(copied),
            (false, _) => scan.next().transpose()?,
            (true, _) => scan.next_back().transpose()?,
        };
        assert_eq!(found, wanted, "{about}, step {step}");
        if found.is_none() {
            break;
        }
    }
    Ok(())
}

/// Scans over memtables and runs, now and of snapshots, on trees with old versions and tombstones,
/// in memory for many iterators and in memory for few.
#[test]
fn scans_with_limits_agree_with_a_map() -> Result<()> {
    for seed in 0..12 {
        let random = Random::new(tamarack_testing::seed(seed));
        let policy = ["leveling:T=3", "tiering:T=30"][random.below(2) as usize];
        let advanced = AdvancedOptions::new().env(MemoryEnv::new(seed)).policy(policy).memtable_bytes(20_000);
        let advanced = advanced.block_bytes(1 << 10).cache_bytes([0, 1 << 20][random.below(2) as usize]);
        let db = Options::new().threads(1).advanced(advanced).open("/db")?;
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for round in 0..40 {
            for _ in 0..random.below(100) {
                let key = key(random.below(600));
                if random.below(4) == 0 {
                    db.delete(&key)?;
                    model.remove(&key);
                } else {
                    let value = vec![b'v'; random.below(300) as usize];
                    db.put(&key, &value)?;
                    model.insert(key, value);
                }
            }
            if random.below(3) == 0 {
                snapshots.push((db.snapshot(), model.clone()));
            }
            for _ in 0..5 {
                let bound = || match random.below(3) {
                    0 => Bound::Unbounded,
                    1 => Bound::Included(key(random.below(600))),
                    _ => Bound::Excluded(key(random.below(600))),
                };
                let range = (bound(), bound());
                let old = (!snapshots.is_empty()).then(|| &snapshots[random.below(snapshots.len() as u64) as usize]);
                let (scan, state) = match old.filter(|_| random.below(2) == 0) {
                    Some((snapshot, state)) => (snapshot.scan(range.clone()), state),
                    None => (db.scan(range.clone()), &model),
                };
                let within = state.iter().filter(|(key, _)| std::ops::RangeBounds::contains(&range, *key));
                let within = within.map(|(key, value)| (key.clone(), value.clone())).collect();
                compare(&random, scan, within, &format!("seed {seed}, round {round}, {range:?}"))?;
            }
        }
    }
    Ok(())
}
