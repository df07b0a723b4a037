//! The database as a sorted map: iteration, first and last entries, lengths, seeks and pages, on
//! random histories against a `BTreeMap`; and estimates against the bounds on their errors.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Batch, Compression, Db, Options, ReaderStats, Result, Scan, Snapshot};
use tamarack_env::{Env, Random, SimEnv};

use crate::model::{Model, write_at_random};

const KEYS: u64 = 300;

type Entry = (Vec<u8>, Vec<u8>);

/// Memtables, blocks and tables of few entries. Values are stored as they are.
fn open(env: &SimEnv, policy: &str) -> Result<Db> {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let advanced = AdvancedOptions::new().env(env).policy(policy);
    let advanced = advanced.memtable_bytes(1500).block_bytes(128).table_bytes(400);
    Options::new().compression(Compression::None).advanced(advanced).open("/db")
}

const POLICIES: [&str; 3] = ["tiering:T=3", "leveling:T=4,first=4", "tiering:T=100"];

/// A key as [`write_at_random`] writes it, a prefix of some, or one that lies between two.
fn random_key(random: &Random) -> Vec<u8> {
    let key = format!("key {:03}", random.below(KEYS)).into_bytes();
    match random.below(4) {
        0 => key[..4 + random.below(3) as usize].to_vec(),
        1 => [&key[..], &[0]].concat(),
        _ => key,
    }
}

fn owned((key, value): (&Vec<u8>, &Vec<u8>)) -> Entry {
    (key.clone(), value.clone())
}

/// Everything that a map tells, of a database or a snapshot by reference.
macro_rules! assert_is_map {
    ($map:expr, $model:expr, $what:expr) => {{
        let (map, model, what) = ($map, $model, $what);
        let expected: Vec<Entry> = model.iter().map(owned).collect();
        assert_eq!(map.iter().collect::<Result<Vec<_>>>()?, expected, "{what}");
        assert_eq!(map.into_iter().rev().collect::<Result<Vec<_>>>()?.len(), expected.len(), "{what}");
        assert_eq!((map.len()?, map.is_empty()?), (model.len() as u64, model.is_empty()), "{what}");
        assert_eq!(map.first_key_value()?, model.first_key_value().map(owned), "{what}");
        assert_eq!(map.last_key_value()?, model.last_key_value().map(owned), "{what}");
        for number in (0..KEYS).step_by(7) {
            let key = format!("key {number:03}");
            assert_eq!(map.contains_key(&key)?, model.contains_key(key.as_bytes()), "{what}: {key}");
        }
    }};
}

/// Random histories: what maps tell is told of the present and of snapshots, before and after
/// flushes and compactions.
#[test]
fn agrees_with_a_map() -> Result<()> {
    for seed in 0..30 {
        let (env, random) = (SimEnv::new(seed), Random::new(seed));
        let db = open(&env, POLICIES[seed as usize % 3])?;
        let (mut model, mut snapshots) = (Model::new(), Vec::<(Snapshot, Model)>::new());
        assert_is_map!(&db, &model, "empty");
        for round in 0..8 {
            write_at_random(&db, &random, random.below(150), KEYS, 1 + random.below(4), &mut model);
            match random.below(5) {
                0 => db.flush()?,
                1 => db.compact()?,
                2 => env.run_background_until_idle(),
                _ => {}
            }
            let what = format!("seed {seed}, round {round}");
            assert_is_map!(&db, &model, &what);
            if random.below(3) == 0 {
                snapshots.push((db.snapshot(), model.clone()));
            }
            if let Some((snapshot, then)) = snapshots.last() {
                assert_is_map!(snapshot, then, &what);
                check_pages(snapshot, then, &random, &what)?;
            }
            for _ in 0..6 {
                check_seeks(&db, &mut model, &random, &what)?;
            }
        }
    }
    Ok(())
}

/// The pages of a prefix, from either end, join to all that it has.
fn check_pages(snapshot: &Snapshot, model: &Model, random: &Random, what: &str) -> Result<()> {
    let (prefix, size) = (format!("key {}", random.below(KEYS / 100)), 1 + random.below(9) as usize);
    let expected: Vec<Vec<u8>> = model.keys().filter(|key| key.starts_with(prefix.as_bytes())).cloned().collect();
    for is_backward in [false, true] {
        let (mut found, mut last) = (Vec::new(), None::<Vec<u8>>);
        loop {
            let scan = snapshot.prefix(&prefix);
            let scan = match &last {
                Some(key) if is_backward => scan.before(key),
                Some(key) => scan.after(key),
                None => scan,
            };
            let keys = scan.limit(size).map(|entry| entry.map(|(key, _)| key));
            let page: Result<Vec<_>> = if is_backward { keys.rev().collect() } else { keys.collect() };
            let page = page?;
            assert!(page.len() <= size, "{what}");
            let Some(key) = page.last() else { break };
            last = Some(key.clone());
            found.extend(page);
        }
        if is_backward {
            found.reverse();
        }
        assert_eq!(found, expected, "{what}: pages of {size}, backward: {is_backward}");
    }
    Ok(())
}

/// One scan that seeks, from either end, in any order, while others write.
fn check_seeks(db: &Db, model: &mut Model, random: &Random, what: &str) -> Result<()> {
    let bounds = match random.below(3) {
        0 => (Bound::Unbounded, Bound::Unbounded),
        1 => (Bound::Included(random_key(random)), Bound::Unbounded),
        _ => (Bound::Excluded(random_key(random)), Bound::Included(random_key(random))),
    };
    let is_within = |key: &Vec<u8>| std::ops::RangeBounds::<Vec<u8>>::contains(&bounds, key);
    let mut left: VecDeque<Entry> = model.iter().filter(|(key, _)| is_within(key)).map(owned).collect();
    let mut scan: Scan = db.scan(&bounds);
    let copied = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    loop {
        let key = random_key(random);
        match random.below(12) {
            0 => {
                scan.seek(&key);
                skip_front(&mut left, |front| *front < key);
            }
            1 => {
                scan.seek_back(&key);
                skip_back(&mut left, |back| *back > key);
            }
            2 => {
                scan = scan.after(&key);
                skip_front(&mut left, |front| *front <= key);
            }
            3 => {
                scan = scan.before(&key);
                skip_back(&mut left, |back| *back >= key);
            }
            4 => write_at_random(db, random, 1 + random.below(20), KEYS, 3, model),
            5 if random.below(4) == 0 => db.flush()?,
            turn => {
                let is_backward = turn % 2 == 0;
                let wanted = if is_backward { left.pop_back() } else { left.pop_front() };
                let found = match (is_backward, random.below(2)) {
                    (false, 0) => scan.next().transpose()?,
                    (false, _) => scan.next_lent()?.map(copied),
                    (true, 0) => scan.next_back().transpose()?,
                    (true, _) => scan.next_back_lent()?.map(copied),
                };
                assert_eq!(found, wanted, "{what}, {bounds:?}");
                if wanted.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

fn skip_front(left: &mut VecDeque<Entry>, is_skipped: impl Fn(&Vec<u8>) -> bool) {
    while left.front().is_some_and(|(key, _)| is_skipped(key)) {
        left.pop_front();
    }
}

fn skip_back(left: &mut VecDeque<Entry>, is_skipped: impl Fn(&Vec<u8>) -> bool) {
    while left.back().is_some_and(|(key, _)| is_skipped(key)) {
        left.pop_back();
    }
}

/// Batches are made of pairs, and extended by pairs; the order of writes to one key counts.
#[test]
fn batches_are_made_of_pairs() -> Result<()> {
    let db = open(&SimEnv::new(1), POLICIES[0])?;
    let mut batch: Batch = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
    batch.delete("b").extend([(vec![b'c'], [b'4'])]);
    assert_eq!(batch.len(), 5);
    db.write(&batch)?;
    let expected = [("a", "3"), ("c", "4")].map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(db.iter().collect::<Result<Vec<_>>>()?, expected);
    Ok(())
}

/// The approximate length differs from the exact one by at most the writes that overwrote and
/// deleted since everything was compacted, and not at all without such.
#[test]
fn approximate_lengths_keep_to_their_bound() -> Result<()> {
    let mut differences = 0;
    for seed in 0..30 {
        let (env, random) = (SimEnv::new(seed), Random::new(seed));
        let db = open(&env, POLICIES[seed as usize % 3])?;
        let (mut model, mut superfluous) = (Model::new(), 0);
        for round in 0..300_u64 {
            let key = format!("key {:03}", if seed % 2 == 0 { random.below(KEYS) } else { round });
            if seed % 2 == 0 && random.below(4) == 0 {
                db.delete(&key)?;
                superfluous += 1 + u64::from(model.remove(key.as_bytes()).is_some());
            } else {
                db.put(&key, "a value of some length")?;
                superfluous += u64::from(model.insert(key.into_bytes(), Vec::new()).is_some());
            }
            if random.below(20) == 0 {
                db.flush()?;
                db.wait_for_compactions()?;
                let difference = db.approximate_len().abs_diff(model.len() as u64);
                assert!(difference <= superfluous, "seed {seed}, round {round}: {difference} of {superfluous}");
                differences += difference;
            }
            if random.below(50) == 0 {
                db.compact()?;
                superfluous = 0;
                assert_eq!(db.approximate_len(), model.len() as u64, "seed {seed}, round {round}");
            }
        }
    }
    assert!(differences > 0, "no history overwrites anything");
    Ok(())
}

const BLOCK_BYTES: u64 = 4096;

const VALUE_BYTES: u64 = 400;

/// More than a run of 500 entries, which no memtable flushes by itself; less than two, which a
/// flush would make one.
const RUN_BYTES: u64 = 300_000;

/// Six runs of tables of 20 blocks, over 3,000 keys in a random order, each put once; without
/// memory for index blocks.
fn runs() -> Result<(Db, u64)> {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let advanced = AdvancedOptions::new().env(env).policy("tiering:T=100").memtable_bytes(RUN_BYTES);
    let advanced =
        advanced.block_bytes(BLOCK_BYTES as usize).table_bytes(20 * BLOCK_BYTES).cache_bytes(0).index_bytes(0);
    let db = Options::new().compression(Compression::None).threads(1).advanced(advanced).open("/db")?;
    for number in 0..3000_u64 {
        // 7 and 3000 have no common divisor.
        db.put((number * 7 % 3000).to_be_bytes(), [b'v'; VALUE_BYTES as usize])?;
        if number % 500 == 499 {
            db.flush()?;
        }
    }
    let runs = db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>();
    assert_eq!(runs, 6);
    assert_eq!(db.len()?, 3000, "and all tables are open");
    Ok((db, runs as u64))
}

/// The blocks that are read, of the data and of indexes, of all readers.
fn blocks_read(db: &Db) -> (u64, u64) {
    let reads = db.stats().reads;
    let all: [ReaderStats; 5] = [reads.gets, reads.multi_gets, reads.scans, reads.compactions, reads.upkeep];
    let index = all.iter().map(|reader| reader.index_blocks).sum::<u64>();
    (all.iter().map(|reader| reader.blocks).sum::<u64>() - index, index)
}

/// The bytes of a range are at least those of its entries, and at most those of the blocks that
/// they fill and of two more for each run, and a hundredth and 1 KiB for each table. No data is
/// read.
#[test]
fn approximate_bytes_keep_to_their_bound() -> Result<()> {
    let (db, runs) = runs()?;
    let tables = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum::<u64>();
    let random = Random::new(1);
    let before = blocks_read(&db);
    for _ in 0..300 {
        let (a, b) = (random.below(3000), random.below(3000));
        let (from, to) = (a.min(b), a.max(b));
        let found = db.approximate_bytes(from.to_be_bytes()..to.to_be_bytes())?;
        let entries = to - from;
        // A block has nine entries or more, and with them at most 4096 bytes; a table has more than
        // a hundred.
        let blocks = entries.div_ceil(9) + 2 * runs;
        let most = blocks * BLOCK_BYTES * 101 / 100 + 1024 * tables.min(entries / 100);
        assert!((entries * VALUE_BYTES..=most).contains(&found), "{found} bytes of {from}..{to}, at most {most}");
    }
    let after = blocks_read(&db);
    assert_eq!(after.0, before.0, "data was read");
    assert!(after.1 > before.1, "no index block was read, so the test is not about reads");
    Ok(())
}

/// Two ranges that touch have about as many bytes as both together.
#[test]
fn approximate_bytes_add_up() -> Result<()> {
    let (db, runs) = runs()?;
    let all = db.approximate_bytes(..)?;
    // The file of a table that is cut has an index, which its parts have not.
    let slack = runs * (BLOCK_BYTES + 2048);
    for at in (0..3000_u64).step_by(37) {
        let [below, above] = [db.approximate_bytes(..at.to_be_bytes())?, db.approximate_bytes(at.to_be_bytes()..)?];
        assert!((below + above).abs_diff(all) <= slack, "{below} + {above} are not {all}");
    }
    Ok(())
}

/// Ranges without entries, and databases without tables, have few bytes or none.
#[test]
fn approximate_bytes_of_nothing() -> Result<()> {
    let (db, _) = runs()?;
    let key = |number: u64| number.to_be_bytes();
    assert_eq!(db.approximate_bytes(key(2000)..key(1000))?, 0, "an inverted range");
    assert_eq!(db.approximate_bytes(key(7)..key(7))?, 0, "an empty range");
    assert_eq!(db.approximate_bytes(key(3000)..)?, 0, "behind all keys");
    assert_eq!(db.approximate_bytes(..[0; 7])?, 0, "before all keys");
    let empty = open(&SimEnv::new(1), POLICIES[0])?;
    assert_eq!((empty.approximate_bytes(..)?, empty.approximate_len()), (0, 0));
    empty.put("oak", "9.80")?;
    assert_eq!((empty.approximate_bytes(..)?, empty.approximate_len()), (0, 1), "a memtable takes no file");
    empty.flush()?;
    assert!(empty.approximate_bytes("oak"..="oak")? > 0 && empty.approximate_bytes(.."oa")? == 0);
    Ok(())
}

/// Whatever is flushed and compacted, also while compactions have handed over a part, the bytes of
/// a range are at least those of the values that it has.
#[test]
fn approximate_bytes_leave_nothing_out() -> Result<()> {
    let mut in_progress = 0;
    for seed in 0..30 {
        let (env, random) = (SimEnv::new(seed), Random::new(seed));
        let db = open(&env, POLICIES[seed as usize % 3])?;
        let mut model = Model::new();
        for round in 0..10 {
            write_at_random(&db, &random, 100, KEYS, 4, &mut model);
            db.flush()?;
            in_progress += db.stats().jobs.len();
            for _ in 0..10 {
                let (a, b) = (random_key(&random), random_key(&random));
                let values = model.range(a.clone()..b.clone().max(a.clone())).map(|(_, value)| value.len() as u64);
                let (least, found) = (values.sum::<u64>(), db.approximate_bytes(&a..&b)?);
                assert!(found >= least, "seed {seed}, round {round}: {found} of {least} bytes");
            }
        }
    }
    assert!(in_progress > 0, "no compaction was in progress");
    Ok(())
}
