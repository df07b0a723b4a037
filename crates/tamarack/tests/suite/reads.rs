//! Number and latency of reads of tables, on a simulated device that serves any number of reads at
//! a time and takes a millisecond for each, so that serial and concurrent reads differ.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Error, LatencyStats, Options, ReadStats, ReaderStats, Result};
use tamarack_env::sim::{Call, CallKind, Device, Failure, Fault};
use tamarack_env::{Env, Random, SimEnv};

const LATENCY: Duration = Duration::from_millis(1);

const RUNS: usize = 10;

/// The number of keys; four values fill a block.
const KEYS: usize = 3000;

const VALUE_BYTES: usize = 1000;

/// How keys are distributed among runs.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Deal {
    /// Neighbours are in different runs.
    Round,
    /// Neighbours are in one run.
    Apart,
}

impl Deal {
    fn run_of(self, number: usize) -> usize {
        match self {
            Self::Round => number % RUNS,
            Self::Apart => number * RUNS / KEYS,
        }
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn options(env: &SimEnv, direct: bool) -> Options {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100");
    let advanced = advanced.memtable_bytes(350_000).direct_io(direct);
    Options::new().compression(Compression::None).threads(1).advanced(advanced)
}

/// Creates a database of [`RUNS`] runs with open tables and cached index blocks, but no cached data
/// blocks except at both ends.
fn database(deal: Deal, direct: bool) -> Result<(SimEnv, Db)> {
    let env = SimEnv::new(1);
    let db = options(&env, direct).open("/db")?;
    for run in 0..RUNS {
        for number in (0..KEYS).filter(|&number| deal.run_of(number) == run) {
            db.put(key(number), [b'v'; VALUE_BYTES])?;
        }
        db.flush()?;
    }
    db.close()?;
    let db = options(&env, direct).open("/db")?;
    assert!(db.scan(..).next().is_some() && db.scan(..).next_back().is_some());
    let runs: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    assert_eq!(runs, RUNS, "each flush makes a run");
    let device = Device { read_bytes_per_second: 1 << 40, read_latency: LATENCY, ..Device::NVME_SSD };
    env.set_device(Some(device));
    Ok((env, db))
}

/// The cost of one operation.
#[derive(Debug)]
struct Cost {
    /// Reads of each table.
    reads: Vec<usize>,
    /// Duration in multiples of the device's latency; all else takes far less.
    latencies: u128,
    counted: ReadStats,
}

impl Cost {
    /// Measures `operation`. Checks that the engine's counters agree with the device's.
    fn of(env: &SimEnv, db: &Db, operation: impl FnOnce()) -> Self {
        let (before, began) = (db.stats().reads, env.now());
        env.start_recording();
        operation();
        let calls = env.stop_recording();
        let time = env.now() - began;
        let mut reads = std::collections::BTreeMap::<_, usize>::new();
        let (mut count, mut bytes) = (0, 0);
        for call in calls.iter().filter(|call| call.kind == CallKind::Read) {
            *reads.entry(call.path.clone()).or_default() += 1;
            (count, bytes) = (count + 1, bytes + call.bytes);
        }
        let after = db.stats().reads;
        let counted = after.since(&before);
        let total = counted.total();
        assert_eq!((total.reads, total.bytes), (count, bytes), "the engine counts its reads: {counted:?}");
        Self { reads: reads.into_values().collect(), latencies: time.as_nanos() / LATENCY.as_nanos(), counted }
    }
}

/// The places of the tests, in both modes.
fn in_both_modes(test: impl Fn(&SimEnv, &Db)) -> Result<()> {
    for direct in [false, true] {
        let (env, db) = database(Deal::Round, direct)?;
        test(&env, &db);
    }
    Ok(())
}

#[test]
fn a_seek_over_ten_runs_takes_as_long_as_one_read() -> Result<()> {
    in_both_modes(|env, db| {
        let forward = Cost::of(env, db, || drop(db.scan(key(1000)..).next().unwrap().unwrap()));
        let to = (Bound::Unbounded, Bound::Included(key(2000)));
        let backward = Cost::of(env, db, || drop(db.scan(to).next_back().unwrap().unwrap()));
        for cost in [forward, backward] {
            assert_eq!(cost.latencies, 1, "{cost:?}");
            assert_eq!(cost.reads, [1; RUNS], "each run is read once: {cost:?}");
            assert_eq!(cost.counted.scans.batches, 1);
        }
    })
}

#[test]
fn cached_blocks_are_not_read() -> Result<()> {
    in_both_modes(|env, db| {
        let scan = || db.scan(key(1000)..).take(20).for_each(|entry| drop(entry.unwrap()));
        assert!(!Cost::of(env, db, scan).reads.is_empty());
        assert_eq!(Cost::of(env, db, scan).reads, [0; 0]);
        let get = || drop(db.get(key(1000)).unwrap().unwrap());
        assert_eq!(Cost::of(env, db, get).reads, [0; 0], "lookups find what scans have read");
    })
}

/// For every distribution of entries among runs, in both directions.
#[test]
fn a_scan_of_a_hundred_entries_reads_each_run_at_most_twice() -> Result<()> {
    for deal in [Deal::Round, Deal::Apart] {
        let (env, db) = database(deal, true)?;
        for start in (200..2700).step_by(250) {
            let forward = Cost::of(&env, &db, || {
                let found = db.scan(key(start)..).take(100).map(|entry| entry.unwrap().0);
                assert!(found.eq((start..start + 100).map(key)));
            });
            let backward = Cost::of(&env, &db, || {
                let found = db.scan(..key(start)).rev().take(100).map(|entry| entry.unwrap().0);
                assert!(found.eq((start - 100..start).rev().map(key)));
            });
            for cost in [forward, backward] {
                assert!(cost.reads.iter().all(|&reads| reads <= 2), "{deal:?}, from {start}: {cost:?}");
            }
        }
    }
    Ok(())
}

/// A full scan reads little more than the data, in few reads.
#[test]
fn a_long_scan_reads_in_growing_pieces() -> Result<()> {
    let (env, db) = database(Deal::Apart, true)?;
    let cost = Cost::of(&env, &db, || assert_eq!(db.scan(..).count(), KEYS));
    let total = cost.counted.total();
    assert!(total.bytes < (KEYS * VALUE_BYTES) as u64 * 5 / 4, "{cost:?}");
    assert!(cost.reads.iter().all(|&reads| reads <= 6), "8, 16, 32, 64, 128 and 256 KiB are more than 300: {cost:?}");
    Ok(())
}

/// Where all data fits the cache, a long scan caches all that it reads; where not, it leaves the
/// cache to lookups and short scans.
#[test]
fn a_long_scan_is_cached_if_all_fits() -> Result<()> {
    let (env, db) = database(Deal::Round, true)?;
    let scan = |db: &Db| assert_eq!(db.scan(..).count(), KEYS);
    assert!(Cost::of(&env, &db, || scan(&db)).counted.total().bytes > (KEYS * VALUE_BYTES) as u64);
    assert_eq!(Cost::of(&env, &db, || scan(&db)).reads, [0; 0]);
    db.close()?;

    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).cache_bytes(1 << 20).direct_io(true);
    let db = Options::new().threads(1).advanced(advanced.memtable_bytes(350_000)).open("/db")?;
    let look_up = |db: &Db| (0..50).for_each(|number| drop(db.get(key(number * 59)).unwrap().unwrap()));
    (0..3).for_each(|_| look_up(&db));
    assert!(Cost::of(&env, &db, || scan(&db)).counted.total().bytes > (KEYS * VALUE_BYTES) as u64);
    assert_eq!(Cost::of(&env, &db, || look_up(&db)).reads, [0; 0]);
    Ok(())
}

/// A bounded scan reads neither runs without keys in range nor blocks behind the bound, in both
/// directions.
#[test]
fn blocks_past_the_end_of_a_range_are_not_read() -> Result<()> {
    for (deal, runs_in_range) in [(Deal::Apart, 1), (Deal::Round, RUNS)] {
        let (env, db) = database(deal, true)?;
        for (start, count) in [(310, 1), (1210, 3), (1210, 12), (2110, 100), (910, 180)] {
            for backward in [false, true] {
                // Different blocks for each direction, so that none is cached.
                let start = if backward { start + 300 } else { start };
                let cost = Cost::of(&env, &db, || {
                    let scan = db.scan(key(start)..key(start + count));
                    let found = if backward { scan.rev().count() } else { scan.count() };
                    assert_eq!(found, count);
                });
                assert!(cost.reads.len() <= runs_in_range, "{deal:?}, {count} from {start}: {cost:?}");
                // Three or four entries fill a block. At either end there may be one that the range
                // only touches.
                let blocks = runs_in_range * (count / runs_in_range / 3 + 3);
                let bytes = cost.counted.total().bytes;
                assert!(bytes <= blocks as u64 * 5000, "{deal:?}, {count} from {start}: {cost:?}");
            }
        }
    }
    Ok(())
}

/// Where a young run has deleted all keys of an old one, a scan skips both, and reads each block
/// once: with and without a cache, in both directions, and however often tombstones and old
/// versions alternate. During a compaction, or after one of a range, keys have moved from many runs
/// into one, and the others begin again behind them: a scan reads those blocks when it gets there,
/// in all runs at once.
#[test]
fn blocks_behind_a_cut_are_read_when_a_scan_gets_there() -> Result<()> {
    in_both_modes(|env, db| {
        db.compact_range(key(1000)..key(2000)).unwrap();
        // Index blocks of the new tables.
        db.scan(key(1800)..).next().unwrap().unwrap();
        db.scan(key(1200)..).next().unwrap().unwrap();
        let inside = Cost::of(env, db, || drop(db.scan(key(1500)..).next().unwrap().unwrap()));
        assert_eq!((&inside.reads[..], inside.latencies), (&[1][..], 1), "{inside:?}");
        let to = (Bound::Unbounded, Bound::Excluded(key(1400)));
        let inside = Cost::of(env, db, || drop(db.scan(to).next_back().unwrap().unwrap()));
        assert_eq!((&inside.reads[..], inside.latencies), (&[1][..], 1), "{inside:?}");

        let crossing = || assert!(db.scan(key(1998)..).take(4).map(|entry| entry.unwrap().0).eq((1998..2002).map(key)));
        let crossing = Cost::of(env, db, crossing);
        // The oldest run has its own table again behind the one with the moved keys.
        assert_eq!((crossing.reads.len(), crossing.latencies), (RUNS + 1, 2), "{crossing:?}");
        let to = (Bound::Unbounded, Bound::Excluded(key(1002)));
        let back = || assert!(db.scan(to).rev().take(4).map(|entry| entry.unwrap().0).eq((998..1002).rev().map(key)));
        let back = Cost::of(env, db, back);
        assert_eq!((back.reads.len(), back.latencies), (RUNS + 1, 2), "{back:?}");
    })
}

#[test]
fn a_range_of_tombstones_is_read_once() -> Result<()> {
    for (cache_bytes, versions) in [(0, 1), (64 << 20, 1), (0, 3)] {
        let env = SimEnv::new(1);
        let options = || {
            let advanced =
                AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100").memtable_bytes(700_000);
            let advanced = advanced.direct_io(true).cache_bytes(cache_bytes);
            Options::new().compression(Compression::None).threads(1).advanced(advanced)
        };
        let db = options().open("/db")?;
        for _ in 0..versions {
            for number in 0..KEYS {
                db.put(key(number), [b'v'; 200])?;
            }
            db.flush()?;
        }
        for number in 5..KEYS - 5 {
            db.delete(key(number))?;
        }
        db.flush()?;
        db.close()?;
        let db = options().open("/db")?;
        let levels = db.stats().levels;
        let table_bytes: u64 = levels.iter().flat_map(|level| &level.runs).map(|run| run.file_bytes).sum();
        let blocks = table_bytes / 4000 + 20;
        for backward in [false, true] {
            let cost = Cost::of(&env, &db, || {
                let mut scan = db.scan(key(4)..=key(KEYS - 5));
                for step in [4, KEYS - 5] {
                    let expected = key(if backward { KEYS - 1 - step } else { step });
                    let found = if backward { scan.next_back_lent() } else { scan.next_lent() };
                    assert_eq!(found.unwrap().unwrap().0, expected);
                }
                let end = if backward { scan.next_back_lent() } else { scan.next_lent() };
                assert!(end.unwrap().is_none());
            });
            let ReaderStats { bytes, blocks: decoded, .. } = cost.counted.total();
            assert!(decoded <= blocks, "{blocks} blocks at most, backward {backward}: {cost:?}");
            assert!(bytes <= table_bytes * 11 / 10, "{table_bytes} bytes, backward {backward}: {cost:?}");
            assert!(decoded > 100 || cache_bytes > 0 && backward, "{cost:?}");
        }
    }
    Ok(())
}

/// Without a block cache, each data block costs an index block as well, for lookups and for scans,
/// unless index blocks fit in their share of memory; then only data blocks are read once the index
/// is in memory.
#[test]
fn index_blocks_stay_if_they_fit() -> Result<()> {
    for (index_bytes, index_blocks) in [(0, KEYS as u64), (1 << 20, 0)] {
        let env = SimEnv::new(12);
        let advanced =
            AdvancedOptions::new().env(Arc::new(env.clone())).cache_bytes(0).index_bytes(index_bytes).direct_io(true);
        let options = Options::new().compression(Compression::None).threads(1).advanced(advanced.filter("none"));
        let db = options.open("/db")?;
        for number in 0..KEYS {
            db.put(key(number), [b'v'; VALUE_BYTES])?;
        }
        db.compact()?;
        let look_up = || (0..KEYS).for_each(|number| assert!(db.contains_key(key(number)).unwrap()));
        look_up();
        let gets = Cost::of(&env, &db, look_up).counted.gets;
        assert_eq!((gets.blocks, gets.index_blocks), (KEYS as u64 + index_blocks, index_blocks));
        let seek = || (0..KEYS).for_each(|number| assert!(db.scan(key(number)..).next_lent().unwrap().is_some()));
        let scans = Cost::of(&env, &db, seek).counted.scans;
        assert_eq!((scans.blocks, scans.index_blocks), (KEYS as u64 + index_blocks, index_blocks));
    }
    Ok(())
}

/// The index blocks of a table that was just opened are read together, as far as they may stay.
/// That one of them is damaged or cannot be read is an error for those only who need it.
#[test]
fn index_blocks_are_read_together() -> Result<()> {
    const ENTRIES: usize = 6_000;
    let env = SimEnv::new(13);
    let options = |index_bytes| {
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).cache_bytes(0).index_bytes(index_bytes);
        let advanced = advanced.filter("none").table_bytes(64 << 20);
        Options::new().compression(Compression::None).threads(1).advanced(advanced)
    };
    // On a device that is so slow that opening the database loads no index block.
    let open = |index_bytes| {
        env.set_device(Some(Device { read_latency: Duration::from_millis(100), ..Device::NVME_SSD }));
        let db = options(index_bytes).open("/db");
        env.set_device(None);
        db
    };
    let db = options(0).open("/db")?;
    (0..ENTRIES).try_for_each(|number| db.put(key(number), [b'v'; VALUE_BYTES]))?;
    db.compact()?;
    db.close()?;
    let look_up =
        |db: &Db| (0..ENTRIES).try_for_each(|number| db.get(key(number)).map(|found| assert!(found.is_some())));
    let count = |index_bytes| -> Result<(u64, u64)> {
        let db = open(index_bytes)?;
        let gets = Cost::of(&env, &db, || look_up(&db).unwrap()).counted.gets;
        Ok((gets.reads - (gets.blocks - gets.index_blocks), gets.index_blocks))
    };
    assert_eq!(count(0)?, (ENTRIES as u64, ENTRIES as u64), "none may stay, so each lookup reads one");
    let (reads, blocks) = count(1 << 20)?;
    assert!(blocks > 5 && reads == 1, "{reads} reads of {blocks} blocks");
    let (reads, blocks) = count(20 << 10)?;
    assert!((1 + blocks / 8..blocks).contains(&reads), "some may stay: {reads} reads of {blocks} blocks");

    let db = open(1 << 20)?;
    env.start_recording();
    assert!(db.contains_key(key(0))?);
    let calls = env.stop_recording();
    db.close()?;
    let piece = calls.iter().filter(|call| call.kind == CallKind::Read).max_by_key(|call| call.bytes).expect("a read");
    assert!(piece.bytes > 20_000, "{piece:?}");
    let (path, byte) = (piece.path.clone(), piece.offset + piece.bytes / 2);
    let table = path.clone();
    let covers = move |call: &Call| call.path == table && (call.offset..call.offset + call.bytes).contains(&byte);
    let fails = || Fault::new(Failure::Io).kind(CallKind::Read).matching(covers.clone()).forever();
    for is_damaged in [false, true] {
        let db = open(1 << 20)?;
        if is_damaged {
            env.flip_bit(&path, byte, 0).unwrap();
        } else {
            env.inject(fails());
        }
        let keys = [key(0), key(1)];
        assert!(db.contains_key(key(0))?, "damaged: {is_damaged}");
        assert!(db.multi_get(&keys)?.iter().all(Option::is_some), "damaged: {is_damaged}");
        assert_eq!(db.scan(..).take(2).filter(|entry| entry.is_ok()).count(), 2, "damaged: {is_damaged}");
        let error = look_up(&db).expect_err("a block is lost");
        assert_eq!(matches!(error, Error::Corruption { .. }), is_damaged, "{error}");
        env.clear_faults();
    }
    Ok(())
}

/// A read that fails in a batch is repeated alone; only if that fails too, there is an error.
#[test]
fn a_failure_within_a_batch_is_an_error_only_if_it_stays() -> Result<()> {
    in_both_modes(|env, db| {
        let read = || Fault::new(Failure::Io).matching(|call| call.kind == CallKind::Read);
        env.inject(read());
        let found: Vec<_> = db.scan(key(1000)..).take(3).map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, [key(1000), key(1001), key(1002)]);
        assert_eq!(env.faults_shown(), 1);
        env.inject(read().forever());
        assert!(db.scan(key(2000)..).next().unwrap().is_err());
        env.clear_faults();
        assert_eq!(db.scan(key(2000)..).next().unwrap().unwrap().0, key(2000));
    })
}

/// One read of a queue fails, is short, or returns a damaged block: each time a different one, of
/// blocks that were not read before.
#[test]
fn reads_of_a_queue_fail_independently() -> Result<()> {
    let trial = |trial: usize| trial % 10 + 40 * (trial / 10);
    in_both_modes(|env, db| {
        for number in 0..30 {
            let numbers: Vec<_> = (0..9).map(|block| trial(number) + 300 * (block + 1)).collect();
            let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
            let victim = strike(
                env,
                number,
                || db.multi_get(&keys).map(|_| ()),
                || {
                    let found = db.multi_get(&keys)?;
                    assert!(found.iter().all(|value| value.as_deref() == Some(&[b'v'; VALUE_BYTES])), "trial {number}");
                    Ok(())
                },
            );
            // Damage of one block does not affect the others.
            let alone = keys.iter().filter(|key| db.get(key).is_err()).count();
            assert_eq!(alone, usize::from(victim.is_damaged), "trial {number}");
            victim.repair(env);
            assert!(db.multi_get(&keys).unwrap().iter().all(Option::is_some), "trial {number}");
        }
        // Between the blocks read above, two seeks' bytes from each run.
        for number in 30..46 {
            let from = 440 + 300 * ((number - 30) / 2) + 80 * (number % 2);
            let scan = || {
                for (entry, number) in db.scan(key(from)..).take(3).zip(from..) {
                    assert_eq!(entry?.0, key(number), "trial {number}");
                }
                Ok(())
            };
            let victim = strike(env, number, scan, scan);
            victim.repair(env);
            scan().unwrap();
        }
    })
}

/// A read with an injected fault.
struct Victim {
    path: Arc<std::path::Path>,
    /// A byte that it reads.
    offset: u64,
    is_damaged: bool,
}

impl Victim {
    fn repair(&self, env: &SimEnv) {
        if self.is_damaged {
            env.flip_bit(&self.path, self.offset, 0).unwrap();
        }
    }
}

/// Injects a fault into one of the reads of `read`, which `learn` determines, and checks the
/// outcome.
fn strike(env: &SimEnv, number: usize, learn: impl Fn() -> Result<()>, read: impl Fn() -> Result<()>) -> Victim {
    env.inject(Fault::new(Failure::Io).kind(CallKind::Read).forever());
    env.start_recording();
    assert!(learn().is_err(), "trial {number}: nothing is read");
    let mut calls: Vec<_> = env.stop_recording().into_iter().filter(|call| call.kind == CallKind::Read).collect();
    env.clear_faults();
    calls.sort_by_key(|call| (call.path.clone(), call.offset));
    let struck = &calls[number * 7 % calls.len()];
    let (path, at) = (struck.path.clone(), struck.offset);
    // Direct reads begin before their target.
    let victim = Victim { path: path.clone(), offset: at + 700, is_damaged: number % 3 == 2 };
    // Any read of that byte: by a queue, or later by the cursor itself.
    let fault = |failure| {
        let (path, byte) = (path.clone(), victim.offset);
        Fault::new(failure)
            .kind(CallKind::Read)
            .matching(move |call| call.path == path && (call.offset..call.offset + call.bytes).contains(&byte))
    };
    let shown = env.faults_shown();
    match number % 3 {
        0 => {
            env.inject(fault(Failure::Io).forever());
            let error = read().expect_err("a read fails");
            assert!(matches!(&error, Error::Io { path, .. } if **path == *struck.path), "trial {number}: {error}");
            env.clear_faults();
            read().unwrap_or_else(|error| panic!("trial {number}: {error}, though nothing fails any more"));
        }
        1 => {
            env.inject(fault(Failure::ShortRead));
            read().unwrap_or_else(|error| panic!("trial {number}: {error}, after a short read"));
            assert_eq!(env.faults_shown(), shown + 1, "trial {number}");
        }
        _ => {
            victim.repair(env);
            let error = read().expect_err("a block is damaged");
            assert!(
                matches!(&error, Error::Corruption { path, .. } if **path == *struck.path),
                "trial {number}: {error}"
            );
        }
    }
    victim
}

/// `multi_get` reads each block once, in at most one batch per run, and agrees with single lookups.
#[test]
fn many_lookups_read_together() -> Result<()> {
    in_both_modes(|env, db| {
        let keys: Vec<_> = (0..60).map(|n| key(500 + n * 37)).collect();
        let mut found = Vec::new();
        let cost = Cost::of(env, db, || found = db.multi_get(&keys).unwrap());
        assert!(found.iter().all(|value| value.as_deref() == Some(&[b'v'; VALUE_BYTES])));
        let ReaderStats { reads, batches, .. } = cost.counted.multi_gets;
        assert!((1..=RUNS as u64).contains(&batches), "{cost:?}");
        assert!(cost.latencies <= RUNS as u128, "{cost:?}");
        assert_eq!(reads, cost.counted.total().reads);
        let again = Cost::of(env, db, || drop(db.multi_get(&keys).unwrap()));
        assert_eq!(again.reads, [0; 0], "what is cached is not read");
    })
}

/// Neighbours in one block, repeated keys, and missing keys, with and without a cache.
#[test]
fn many_lookups_agree_with_single_ones() -> Result<()> {
    for (seed, cache_bytes) in [(1, 0), (2, 0), (3, 1 << 20)] {
        let random = Random::new(seed);
        let env = SimEnv::new(seed);
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100").memtable_bytes(4000);
        let advanced = advanced.block_bytes(256).cache_bytes(cache_bytes).direct_io(true);
        let db = Options::new().compression(Compression::None).threads(1).advanced(advanced).open("/db")?;
        for written in 0..400 {
            let number = random.below(60) as usize;
            match random.below(4) {
                0 => db.delete(key(number))?,
                _ => db.put(key(number), format!("{number} {written:0100}"))?,
            }
        }
        for _ in 0..50 {
            let keys: Vec<_> = (0..random.below(30)).map(|_| key(random.below(70) as usize)).collect();
            let cost = Cost::of(&env, &db, || {
                let together = db.multi_get(&keys).unwrap();
                let alone: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
                assert_eq!(together, alone, "seed {seed}");
            });
            let (together, alone) = (cost.counted.multi_gets, cost.counted.gets);
            assert!(cache_bytes > 0 || together.blocks <= alone.blocks, "no block is read twice: {cost:?}");
        }
        assert!(db.stats().reads.multi_gets.batches > 0 || cache_bytes > 0, "seed {seed}: nothing was read together");
        env.inject(Fault::new(Failure::Io).matching(|call| call.kind == CallKind::Read).forever());
        let all: Vec<_> = (0..60).map(key).collect();
        assert!(cache_bytes > 0 || db.multi_get(&all).is_err());
    }
    Ok(())
}

/// Each kind of reader has its own counters, and each block is counted once; [`Cost::of`] checks
/// that they agree with the environment's reads.
#[test]
fn each_reader_has_its_own_counters() -> Result<()> {
    in_both_modes(|env, db| {
        type Pick = fn(&ReadStats) -> ReaderStats;
        let check = |what: &str, pick: Pick, work: &dyn Fn()| {
            let before = db.stats().lookups;
            let Cost { counted, .. } = Cost::of(env, db, work);
            let (mine, all) = (pick(&counted), counted.total());
            assert!(mine.reads > 0 && mine.blocks > 0, "{what}: {counted:?}");
            // Opening a table reads its end, which is no block of its reader.
            assert_eq!(
                (mine.reads + counted.upkeep.reads, mine.bytes + counted.upkeep.bytes),
                (all.reads, all.bytes),
                "{what}"
            );
            let after = db.stats().lookups;
            (mine, after.data_blocks_read - before.data_blocks_read)
        };
        let gets = |from: usize, step: usize| {
            move || (from..2900).step_by(step).for_each(|n| drop(db.get(key(n)).unwrap().unwrap()))
        };
        let (read, data_blocks) = check("get", |reads| reads.gets, &gets(100, 97));
        assert_eq!((read.blocks, read.batches), (data_blocks, 0), "index blocks are in the cache");
        assert_eq!(read.reads, read.blocks, "a lookup reads a block at a time");
        let contains = || assert!((120..2900).step_by(89).all(|n| db.contains_key(key(n)).unwrap()));
        let (read, data_blocks) = check("contains", |reads| reads.gets, &contains);
        assert_eq!(read.blocks, data_blocks);
        let keys: Vec<_> = (130..2900).step_by(83).map(key).collect();
        let (read, data_blocks) = check("multi_get", |reads| reads.multi_gets, &|| drop(db.multi_get(&keys).unwrap()));
        assert_eq!((read.blocks, read.reads), (data_blocks, data_blocks));
        let scans = || {
            assert_eq!(db.scan(key(1500)..key(1800)).count(), 300);
            assert_eq!(db.scan(key(2000)..key(2300)).rev().count(), 300);
        };
        let (read, data_blocks) = check("scan", |reads| reads.scans, &scans);
        assert!(read.batches > 0 && data_blocks == 0, "{read:?}");
        let (read, _) = check("merge", |reads| reads.compactions, &|| db.compact().unwrap());
        // Four entries of a thousand bytes to a block.
        assert!(read.blocks >= (KEYS / 4) as u64 && read.bytes >= (KEYS * VALUE_BYTES) as u64, "{read:?}");
    })
}

/// The recorded latency of lookups is the device's, on the environment's clock.
#[test]
fn lookups_are_timed_by_the_clock() -> Result<()> {
    in_both_modes(|env, db| {
        for number in (100..2900).chain(100..2900) {
            assert!(
                db.get(key(number)).unwrap().is_some() && db.get([key(number), vec![b'x']].concat()).unwrap().is_none()
            );
        }
        for number in (0..2900).step_by(3) {
            assert!(db.scan(key(number)..).next().unwrap().is_ok());
        }
        assert!(env.now() > LATENCY);
        let LatencyStats { found_in_memory, found_by_reads, not_found, seeks, .. } = db.stats().latencies;
        for latencies in [&found_in_memory, &found_by_reads, &not_found, &seeks] {
            assert!(latencies.samples() > 0, "{:?}", db.stats().latencies);
        }
        // Percentiles are within 6 %.
        let latency = LATENCY.as_nanos() as u64;
        assert!(found_by_reads.percentile_ns(500).abs_diff(latency) * 16 <= latency, "{found_by_reads:?}");
        assert!(found_in_memory.percentile_ns(999) < latency / 10, "{found_in_memory:?}");
    })
}

/// A scan that is alone keeps its cursors, whatever the budget and however many the runs: it reads
/// each block about once. So do a few that take no more than half of the budget and 32 MiB.
#[test]
fn a_few_scans_of_many_runs_read_each_block_once() -> Result<()> {
    const ENTRIES: usize = 4;
    for (runs, scans) in [(1000, 1), (100, 8)] {
        let env = SimEnv::new(1);
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=2000").cache_bytes(0);
        let advanced = advanced.memtable_bytes((ENTRIES * (VALUE_BYTES + 20)) as u64);
        let db = Options::new().memory_bytes(1 << 20).threads(1).advanced(advanced).open("/db")?;
        for run in 0..runs {
            for number in 0..ENTRIES {
                db.put(key(number * runs + run), [b'v'; VALUE_BYTES])?;
            }
            db.flush()?;
        }
        assert_eq!(db.stats().levels[0].runs.len(), runs);
        let scans_read = || db.stats().reads.scans.reads;
        // Four values fill a block.
        let most = 3 * runs as u64;
        let before = scans_read();
        assert_eq!(db.scan(..).rev().count(), runs * ENTRIES);
        let read = scans_read() - before;
        assert!(read <= most, "one scan of {runs} runs read {read} blocks backward");
        let before = scans_read();
        let mut open: Vec<_> = (0..scans).map(|_| db.scan(..)).collect();
        for number in 0..runs * ENTRIES {
            for scan in &mut open {
                assert_eq!(scan.next().transpose()?.map(|(found, _)| found), Some(key(number)));
            }
        }
        let read = scans_read() - before;
        assert!(read <= most * scans, "{scans} scans of {runs} runs read {read} blocks");
    }
    Ok(())
}

/// Compactions read each block of their inputs about once, through the page cache and past it,
/// where a worker reads ahead: also where a piece ends below the next index block, where a value is
/// larger than a piece, where all are larger than half a piece or than a piece, where sizes are
/// mixed, and where the inputs are handed over again and again. What a piece has of a value that
/// is larger than all pieces is read twice.
#[test]
fn compactions_read_their_inputs_once() -> Result<()> {
    const INPUTS: usize = 4;
    // Direct I/O, threads, MiB of memory, entries of a run; one in so many has so many bytes.
    let cases = [
        (false, 1, 256, 6_000, usize::MAX, 0),
        (true, 1, 256, 6_000, usize::MAX, 0),
        (true, 2, 256, 6_000, usize::MAX, 0),
        (true, 1, 256, 6_000, 1_000, 700_000),
        (true, 1, 64, 50, 1, 140_000),
        (true, 1, 256, 3_000, 40, 60_000),
        (true, 1, 64, 30, 1, 250_000),
    ];
    for (seed, (direct, threads, memory_mib, count, every, large_bytes)) in cases.into_iter().enumerate() {
        let env = SimEnv::new(seed as u64);
        let advanced = AdvancedOptions::new().env(Arc::new(env)).policy("tiering:T=100").direct_io(direct);
        let advanced = advanced.memtable_bytes(1 << 30).table_bytes(2 << 20);
        let options = Options::new().compression(Compression::None).memory_bytes(memory_mib << 20);
        let db = options.threads(threads).advanced(advanced).open("/db")?;
        for run in 0..INPUTS {
            for number in 0..count {
                let bytes = if number % every == every / 2 { large_bytes } else { VALUE_BYTES };
                db.put(key(number * INPUTS + run), vec![b'v'; bytes])?;
            }
            db.flush()?;
        }
        let stats = db.stats();
        let input_bytes: u64 = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.file_bytes).sum();
        let before = stats.reads.compactions;
        db.compact()?;
        let after = db.stats().reads.compactions;
        let read_bytes = after.bytes - before.bytes;
        let (reads, ahead) = (after.reads - before.reads, after.ahead - before.ahead);
        let context = format!("case {seed}: {read_bytes} of {input_bytes} bytes, {ahead} of {reads} reads ahead");
        assert_eq!(ahead > 0, direct, "{context}");
        let most = if large_bytes > 512 << 10 { 1.2 } else { 1.05 };
        assert!(read_bytes as f64 <= most * input_bytes as f64, "{context}");
        assert!(read_bytes as f64 >= 0.9 * input_bytes as f64, "{context}");
    }
    Ok(())
}

/// Whichever read of a compaction fails, of a piece ahead or of one that is needed now: the
/// compaction reads it again, or fails and goes on later; all entries are there.
#[test]
fn compactions_go_on_after_reads_that_fail() -> Result<()> {
    const RUNS: usize = 3;
    const ENTRIES: usize = 3_000;
    let (mut repeated, mut failed, mut ahead) = (0, 0, 0);
    for seed in 0..20 {
        let env = SimEnv::new(seed);
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100").direct_io(true);
        let advanced = advanced.memtable_bytes(1 << 30).table_bytes(1 << 20).cache_bytes(0);
        let options = Options::new().compression(Compression::None).memory_bytes(256 << 20);
        let db = options.threads(1 + seed as usize % 2).advanced(advanced).open("/db")?;
        for run in 0..RUNS {
            for number in 0..ENTRIES {
                db.put(key(number * RUNS + run), vec![b'v'; VALUE_BYTES])?;
            }
            db.flush()?;
        }
        let from = env.calls_made() + 1 + 3 * seed;
        env.inject(Fault::new(Failure::Io).kind(CallKind::Read).from_call(from));
        match db.compact() {
            Ok(()) => repeated += 1,
            Err(Error::Io { .. }) => {
                failed += 1;
                env.advance(Duration::from_secs(1));
                db.compact()?;
            }
            Err(error) => return Err(error),
        }
        let mut found = 0;
        for entry in db.scan(..) {
            let (key_found, value) = entry?;
            assert!(key_found[..] == key(found)[..] && value.len() == VALUE_BYTES, "seed {seed}: entry {found}");
            found += 1;
        }
        assert_eq!(found, RUNS * ENTRIES, "seed {seed}");
        assert!(db.verify(&mut |_, _| {})?.is_ok(), "seed {seed}");
        ahead += db.stats().reads.compactions.ahead;
    }
    let counts = format!("{repeated} compactions repeated a read, {failed} failed; {ahead} reads ahead");
    assert!(repeated > 0 && failed > 0 && ahead > 100, "{counts}");
    Ok(())
}
