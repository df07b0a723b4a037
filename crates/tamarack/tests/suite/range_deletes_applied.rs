//! What becomes of range deletes, by examples: what is deleted costs no reads, and its tables go
//! without being read; what waits is few and is charged; cached entries, copies, repairs,
//! transactions, crashes and failures.
//!
//! Random histories: `range_deletes`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[cfg(debug_assertions)]
use tamarack::mistake::{self, Mistake};
use tamarack::{AdvancedOptions, Batch, Db, Durability, Error, Options, Result};
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::atomic::Ordering;
use tamarack_env::{Env, MemoryEnv, SimEnv, Step};

use crate::crash_images::crash_images;

/// Keys and values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(env: &Arc<dyn Env>) -> Options {
    Options::new().threads(1).advanced(advanced(env))
}

fn advanced(env: &Arc<dyn Env>) -> AdvancedOptions {
    let advanced = AdvancedOptions::new().env(env.clone()).policy("tiering:T=20").cache_bytes(0);
    advanced.memtable_bytes(1 << 20).table_bytes(64 << 10).block_bytes(4096)
}

fn number(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Puts these keys, in so many runs.
fn fill(db: &Db, keys: std::ops::Range<u64>, runs: u64) -> Result<()> {
    for run in 0..runs {
        for key in keys.clone().filter(|key| key % runs == run) {
            db.put(number(key), [b'v'; 20])?;
        }
        db.flush()?;
    }
    Ok(())
}

/// Bytes of tables.
fn table_bytes(db: &Db) -> u64 {
    db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.file_bytes).sum()
}

/// Blocks read by scans and lookups.
fn blocks_read(db: &Db) -> u64 {
    let reads = db.stats().reads;
    reads.scans.blocks + reads.gets.blocks
}

/// What a range delete covers goes without being read: its tables by one edit, and then neither
/// lookups nor scans meet anything of it.
#[test]
fn covered_tables_go_without_being_read() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    // Rebuilds of filters would read: once few tables are left, these get more memory for each key.
    let db = Options::new().threads(1).advanced(advanced(&env).filter("none")).open("/db")?;
    fill(&db, 0..100_000, 4)?;
    db.wait_for_compactions()?;
    let (bytes, read) = (table_bytes(&db), db.stats().reads.upkeep.bytes);
    db.delete_range(number(1000)..number(99_000))?;
    db.flush()?;
    db.wait_for_compactions()?;
    let stats = db.stats();
    assert_eq!(stats.range_deletes, 0, "nothing is left of it");
    // Those that have keys before and behind it stay, two for each of four runs.
    assert!(table_bytes(&db) < bytes / 4, "{} of {bytes} bytes", table_bytes(&db));
    let tables: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
    assert!(tables <= 8, "{tables} tables");
    assert_eq!(stats.compactions, 0);
    assert!(stats.reads.upkeep.bytes - read < 10_000, "{} bytes were read", stats.reads.upkeep.bytes - read);
    let before = blocks_read(&db);
    assert_eq!(db.scan(number(990)..number(99_010)).count(), 20);
    for key in (2000..99_000).step_by(1000) {
        assert_eq!(db.get(number(key))?, None);
    }
    let blocks = blocks_read(&db) - before;
    assert!(blocks <= 16, "{blocks} blocks, two for each of four runs at each side");
    assert_eq!(db.len()?, 2000);
    drop(db);
    assert_eq!(options(&env).open("/db")?.len()?, 2000);
    Ok(())
}

/// While a snapshot sees what is deleted, a scan jumps over it in each run, in both directions, and
/// a lookup reads nothing; the snapshot sees all. Once it is dropped, the tables go.
#[test]
fn a_scan_jumps_over_what_a_snapshot_keeps() -> Result<()> {
    const RUNS: u64 = 5;
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..200_000, RUNS)?;
    let snapshot = db.snapshot();
    let bytes = table_bytes(&db);
    db.delete_range(number(100)..number(199_900))?;
    // Later puts are seen.
    db.put(number(150_000), "later")?;
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 1, "a snapshot needs what it hides");
    for backward in [false, true] {
        let before = blocks_read(&db);
        let mut scan = db.scan(number(90)..number(199_910));
        let mut count = 0;
        while if backward { scan.next_back_lent()? } else { scan.next_lent()? }.is_some() {
            count += 1;
        }
        assert_eq!(count, 21);
        let blocks = blocks_read(&db) - before;
        // The first reads of a scan take two blocks or more of each run, at either side.
        assert!(blocks <= 6 * (RUNS + 1), "{blocks} blocks for {count} entries, backward {backward}");
    }
    let before = blocks_read(&db);
    for key in (1000..199_000).step_by(1000) {
        let expected = (key == 150_000).then_some(&b"later"[..]);
        assert_eq!(db.get(number(key))?.as_deref(), expected);
    }
    let blocks = blocks_read(&db) - before;
    assert!(blocks <= 2, "{blocks} blocks for lookups of deleted keys");
    assert_eq!(snapshot.len()?, 200_000);
    assert_eq!(snapshot.get(number(150_000))?.as_deref(), Some(&[b'v'; 20][..]));
    drop(snapshot);
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0);
    assert!(table_bytes(&db) < bytes / 4, "{} of {bytes} bytes", table_bytes(&db));
    assert_eq!(db.len()?, 201);
    Ok(())
}

/// A scan across a million deleted entries reads a block or two of each run more than the two scans
/// of what is found at both sides: while a snapshot keeps them, and once they are gone.
#[test]
fn a_scan_across_a_million_deleted_entries_reads_a_few_blocks() -> Result<()> {
    const RUNS: u64 = 4;
    const ENTRIES: u64 = 1_000_000;
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    for run in 0..RUNS {
        let mut ingest = db.ingest()?;
        for key in (run..ENTRIES + 200).step_by(RUNS as usize) {
            ingest.put(number(key), [b'v'; 8])?;
        }
        ingest.finish()?;
    }
    let snapshot = db.snapshot();
    db.delete_range(number(100)..number(100 + ENTRIES))?;
    db.flush()?;
    db.wait_for_compactions()?;
    let scan = |from: u64, to: u64, backward: bool| -> Result<(u64, u64)> {
        let before = blocks_read(&db);
        let mut scan = db.scan(number(from)..number(to));
        let mut count = 0;
        while if backward { scan.next_back_lent()? } else { scan.next_lent()? }.is_some() {
            count += 1;
        }
        drop(scan);
        Ok((count, blocks_read(&db) - before))
    };
    let report = |waiting| -> Result<()> {
        assert_eq!(db.stats().range_deletes, waiting);
        for backward in [false, true] {
            let (found_before, before) = scan(0, 100, backward)?;
            let (found_behind, behind) = scan(100 + ENTRIES, 200 + ENTRIES, backward)?;
            let (found, across) = scan(0, 200 + ENTRIES, backward)?;
            assert_eq!((found_before, found_behind, found), (100, 100, 200));
            let (none, within) = scan(1000, ENTRIES, backward)?;
            assert_eq!(none, 0);
            println!("{waiting} waiting, backward {backward}: {before} + {behind} blocks, {across}, {within} within");
            assert!(across <= before + behind + RUNS, "{across} blocks across, {before} before, {behind} behind");
            // A data block of each, and those of the index on the way there.
            assert!(within <= 2 * RUNS * waiting as u64, "{within} blocks within, of {RUNS} runs");
        }
        Ok(())
    };
    report(1)?;
    assert_eq!(snapshot.get(number(5000))?.as_deref(), Some(&[b'v'; 8][..]));
    drop(snapshot);
    db.wait_for_compactions()?;
    report(0)
}

/// A lookup of a key that a range delete covers finds it, as it would find a tombstone, alone or
/// among others: that is no zero result, as long as there is the range delete.
#[test]
fn lookups_that_find_a_range_delete_are_no_zero_results() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..1000, 2)?;
    let snapshot = db.snapshot();
    db.delete_range(number(100)..number(200))?;
    let zero_results = || -> Result<(u64, u64)> {
        let before = db.stats().lookups.zero_result;
        for key in 90..210 {
            assert_eq!(db.get(number(key))?.is_some(), !(100..200).contains(&key));
        }
        let between = db.stats().lookups.zero_result;
        let keys: Vec<_> = (90..210).map(number).collect();
        let found = db.multi_get(&keys)?;
        assert_eq!(found.iter().flatten().count(), 20);
        Ok((between - before, db.stats().lookups.zero_result - between))
    };
    assert_eq!(zero_results()?, (0, 0), "it is in the memtable");
    db.flush()?;
    assert_eq!(db.stats().range_deletes, 1);
    assert_eq!(zero_results()?, (0, 0), "it is in the version");
    drop(snapshot);
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0);
    assert_eq!(zero_results()?, (100, 100), "it has ended");
    Ok(())
}

/// What waits in the version for a snapshot is charged to the account of memory, with its keys.
#[test]
fn waiting_range_deletes_are_charged() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..20_000, 1)?;
    let snapshot = db.snapshot();
    let tables_bytes = || db.stats().memory.tables_bytes;
    let before = tables_bytes();
    for key in (0..10_000).step_by(10) {
        db.delete_range(number(key)..number(key + 5))?;
    }
    db.flush()?;
    assert_eq!(db.stats().range_deletes, 1000);
    let bytes = tables_bytes() - before;
    // Two keys of eight bytes, twice, with their fragments.
    assert!((100_000..500_000).contains(&bytes), "{bytes} bytes for 1,000 range deletes");
    drop(snapshot);
    db.compact()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0);
    assert!(tables_bytes() < before + bytes / 10, "{} bytes, {before} before", tables_bytes());
    Ok(())
}

/// Cached entries that a range delete hides are forgotten before it ends: afterwards nobody would
/// know. Lookups, single and together, of keys that are there and that are not.
#[test]
fn cached_entries_are_forgotten() -> Result<()> {
    assert_eq!(stale_answers()?, 0);
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn cached_entries_that_are_not_forgotten_are_noticed() -> Result<()> {
    let stale = mistake::with(Mistake::CachedThroughRangeDelete, stale_answers)?;
    assert!(stale > 50, "{stale} stale answers");
    Ok(())
}

/// The number of keys that lookups find although a range delete has ended that hides them.
fn stale_answers() -> Result<u64> {
    const KEYS: u64 = 20_000;
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    // A tenth of the data, so that entries are cached rather than blocks.
    let advanced = AdvancedOptions::new().env(env).policy("tiering:T=20").cache_bytes(64 << 10);
    let advanced = advanced.memtable_bytes(1 << 20).table_bytes(64 << 10).block_bytes(4096);
    let db = Options::new().threads(1).advanced(advanced).open("/db")?;
    fill(&db, 0..KEYS, 2)?;
    db.wait_for_compactions()?;
    let hot: Vec<[u8; 8]> = (0..KEYS).step_by(200).map(number).collect();
    for key in &hot {
        assert!(db.get(key)?.is_some());
    }
    let cached = || db.stats().lookups.cached_entries;
    let before = cached();
    for key in &hot {
        assert!(db.get(key)?.is_some());
    }
    assert!(cached() - before > 80, "{} of {} entries are cached", cached() - before, hot.len());
    db.delete_range(number(0)..number(KEYS - 1000))?;
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0, "it has ended");
    let kept = hot.len() - 5;
    let mut stale = 0;
    for key in &hot[..kept] {
        stale += u64::from(db.get(key)?.is_some());
    }
    stale += db.multi_get(&hot[..kept])?.iter().flatten().count() as u64;
    // The others are answered as before.
    let before = cached();
    for key in &hot[kept..] {
        assert!(db.get(key)?.is_some());
    }
    assert!(cached() - before > 2, "{} cached entries were left", cached() - before);
    Ok(stale)
}

/// Where a table has younger entries beside hidden ones, the range delete waits for a compaction,
/// which comes in time by itself, as that of tombstones.
#[test]
fn hidden_entries_beside_younger_ones_are_garbage() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let advanced = AdvancedOptions::new().env(env).policy("leveling:T=4").memtable_bytes(4000);
    let db = Options::new().threads(1).advanced(advanced).open("/db")?;
    for key in 0..100 {
        db.put(format!("a {key:03}"), [b'v'; 20])?;
    }
    let snapshot = db.snapshot();
    db.delete_range("a 010".."a 090")?;
    for key in (0..100).step_by(2) {
        db.put(format!("a {key:03}"), "younger")?;
    }
    // The hidden entries become part of one table with the younger ones.
    db.compact()?;
    drop(snapshot);
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 1, "they cannot be cut out");
    assert_eq!(db.len()?, 60);
    for at in 0..3000 {
        db.put(format!("b {:03}", at % 200), [b'v'; 20])?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0);
    assert_eq!(db.scan("a".."b").count(), 60);
    Ok(())
}

/// Ranges one behind the other, as of a queue, and ranges that grow become few in the manifest;
/// many small ones that lie apart are all kept while a snapshot needs them, and all go.
#[test]
fn many_range_deletes() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..20_000, 1)?;
    let snapshot = db.snapshot();
    for key in (0..10_000).step_by(10) {
        db.delete_range(number(key)..number(key + 10))?;
        db.delete_range(..number(key / 2))?;
    }
    db.flush()?;
    assert_eq!(db.stats().range_deletes, 1);
    for key in (10_000..20_000).step_by(10) {
        db.delete_range(number(key)..number(key + 5))?;
    }
    assert_eq!((db.len()?, snapshot.len()?), (5000, 20_000));
    db.flush()?;
    assert_eq!(db.stats().range_deletes, 1001);
    assert_eq!((db.len()?, snapshot.len()?), (5000, 20_000));
    assert_eq!(db.scan(..).rev().count(), 5000);
    drop(snapshot);
    // They are not cut out one by one, so that a table has few slices; a compaction leaves them
    // out.
    db.compact()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 0);
    assert_eq!(db.len()?, 5000);
    let entries: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    assert_eq!(entries, 5000);
    Ok(())
}

/// A scan over ranges that were deleted one behind the other takes time for each of them once,
/// whether the memtable has the keys or tables have them: if it looked for the end of all of them
/// at each key, that would be 200 million steps.
#[test]
fn a_scan_over_many_adjacent_ranges() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    let many = 20_000;
    let keys = || (0..many).map(number);
    for is_flushed in [false, true] {
        for key in keys() {
            db.put(key, "v")?;
        }
        if is_flushed {
            db.flush()?;
        }
        let snapshot = db.snapshot();
        let ascending: Vec<u64> = (0..many).collect();
        let descending = ascending.iter().rev().copied().collect();
        for order in [ascending, descending] {
            for key in order {
                db.delete_range(number(key)..number(key + 1))?;
            }
            assert!(db.is_empty()?);
            assert_eq!(db.scan(..).rev().count(), 0);
            assert_eq!(snapshot.len()?, many);
        }
        drop(snapshot);
        db.clear()?;
        db.flush()?;
    }
    Ok(())
}

/// The estimate of the number of keys takes no range delete for a put, and counts nothing in tables
/// that one covers, also while a snapshot keeps them.
#[test]
fn an_estimate_does_not_count_what_is_covered() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..20_000, 2)?;
    assert_eq!(db.approximate_len(), 20_000);
    let snapshot = db.snapshot();
    db.delete_range(number(10_000)..)?;
    let cut_tables = 2 * 4000;
    assert!((10_000..10_000 + cut_tables).contains(&db.approximate_len()), "{}", db.approximate_len());
    db.clear()?;
    assert!(db.approximate_len() <= cut_tables, "{}", db.approximate_len());
    db.put("maple", "12.50")?;
    // The flush makes both range deletes one.
    db.flush()?;
    assert_eq!((db.stats().range_deletes, db.approximate_len()), (1, 1));
    drop(snapshot);
    db.wait_for_compactions()?;
    assert_eq!((db.stats().range_deletes, db.approximate_len()), (0, 1));
    Ok(())
}

/// An empty or reversed range deletes nothing, and writes nothing. A bound may be longer than a key
/// may be.
#[test]
fn ranges_without_keys_and_long_bounds() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    let longest = vec![b'k'; 64 << 10];
    db.put("", "empty")?;
    db.put(&longest, "longest")?;
    db.put("l", "after")?;
    let written = db.stats().entries_written;
    db.delete_range("l".."l")?;
    db.delete_range("l".."a")?;
    db.delete_range(..b"")?;
    db.delete_range((Bound::Excluded(&longest[..]), Bound::Excluded(&b"l"[..])))?;
    db.write(Batch::new().delete_range("z".."a"))?;
    assert_eq!(db.len()?, 3);
    db.delete_range((Bound::Excluded(&longest[..]), Bound::Unbounded))?;
    assert_eq!(db.get("l")?, None);
    assert_eq!(db.get(&longest)?.as_deref(), Some(&b"longest"[..]));
    db.delete_range((Bound::Excluded(&b""[..]), Bound::Included(&longest[..])))?;
    assert_eq!(db.len()?, 1);
    assert!(db.stats().entries_written <= written + 3, "empty ranges are not written");
    db.clear()?;
    assert!(db.is_empty()?);
    db.compact()?;
    assert!(db.is_empty()? && table_bytes(&db) == 0);
    Ok(())
}

/// A prefix of bytes 255 has no end but that of all keys; the empty prefix has all keys. Scans
/// whose bounds lie within what was deleted, and snapshots before it, agree in both directions,
/// before the flush, after it, and once nothing waits.
#[test]
fn prefixes_without_an_end_and_bounds_within() -> Result<()> {
    let keys: [&[u8]; 8] = [b"", b"a", b"a\xFF", b"a\xFF\xFF", b"b", b"\xFE\xFF", b"\xFF", b"\xFF\xFFz"];
    let all: Content = keys.iter().map(|key| (key.to_vec(), b"v".to_vec())).collect();
    for prefix in [&b"\xFF"[..], b"\xFF\xFF", b"a\xFF", b"a", b"", b"c"] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let db = options(&env).open("/db")?;
        keys.iter().try_for_each(|key| db.put(key, "v"))?;
        db.flush()?;
        let mut snapshot = Some(db.snapshot());
        db.delete_prefix(prefix)?;
        let left: Content = all.clone().into_iter().filter(|(key, _)| !key.starts_with(prefix)).collect();
        for round in 0..3 {
            for from in keys {
                for to in keys {
                    let within = |content: &Content| -> Vec<_> {
                        let is_in = |key: &[u8]| from <= key && key < to;
                        content.clone().into_iter().filter(|(key, _)| is_in(key)).collect()
                    };
                    let expected = within(&left);
                    let found: Vec<_> = db.scan(from..to).collect::<Result<_>>()?;
                    assert_eq!(found, expected, "{prefix:?}, round {round}: {from:?}..{to:?}");
                    let mut backward: Vec<_> = db.scan(from..to).rev().collect::<Result<_>>()?;
                    backward.reverse();
                    assert_eq!(backward, expected, "{prefix:?}, round {round}: {from:?}..{to:?} backward");
                    if let Some(snapshot) = &snapshot {
                        let found: Vec<_> = snapshot.scan(from..to).collect::<Result<_>>()?;
                        assert_eq!(found, within(&all), "{prefix:?}, round {round}: {from:?}..{to:?} before");
                    }
                }
            }
            match round {
                0 => db.flush()?,
                _ => drop(snapshot.take()),
            }
            db.wait_for_compactions()?;
        }
        assert_eq!(db.stats().range_deletes, 0, "{prefix:?}");
    }
    Ok(())
}

/// The edit that applies a range delete is tried again after a pause if it fails, also where
/// nothing else happens: a full disk gets its space back.
#[test]
fn an_edit_that_fails_is_tried_again() -> Result<()> {
    let env = SimEnv::new(1);
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=20");
    let db = Options::new().threads(1).advanced(advanced.table_bytes(4000)).open("/db")?;
    fill(&db, 0..2000, 2)?;
    let snapshot = db.snapshot();
    db.delete_range(number(0)..number(1990))?;
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!(db.stats().range_deletes, 1, "a snapshot needs what it hides");
    let bytes = table_bytes(&db);
    env.inject(Fault::new(Failure::StorageFull).step(tamarack::step::MANIFEST_APPEND));
    drop(snapshot);
    env.run_background_until_idle();
    assert_eq!((db.stats().range_deletes, db.len()?), (1, 10), "the edit has failed");
    db.wait_for_compactions()?;
    env.advance(Duration::from_secs(1));
    env.run_background_until_idle();
    assert_eq!((db.stats().range_deletes, db.len()?), (0, 10));
    assert!(table_bytes(&db) < bytes / 4, "{} of {bytes} bytes", table_bytes(&db));
    Ok(())
}

/// A transaction that has read a key or a range in what another one deletes has a conflict; one
/// that only writes there has none.
#[test]
fn a_range_delete_is_a_write_to_all_its_keys() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    db.put("elm", "1")?;
    let (mut key, mut absent, mut range, mut writer, mut beside) =
        (db.transaction(), db.transaction(), db.transaction(), db.transaction(), db.transaction());
    assert!(key.get("elm")?.is_some() && absent.get("fir")?.is_none() && beside.get("oak")?.is_none());
    assert_eq!(range.scan("g".."i").count(), 0);
    for transaction in [&mut key, &mut absent, &mut range, &mut writer, &mut beside] {
        transaction.put("ash", "2");
    }
    let mut deleting = db.transaction();
    deleting.delete_range("e".."h");
    deleting.commit()?;
    for refused in [key, absent, range] {
        let error = refused.commit().expect_err("a conflict");
        assert!(matches!(&error, Error::Conflict { what } if what.contains("deleted")), "{error}");
    }
    writer.commit()?;
    beside.commit()?;
    // A plain range delete counts as well.
    let mut reader = db.transaction();
    assert!(reader.get("ash")?.is_some());
    reader.put("oak", "3");
    db.clear()?;
    assert!(matches!(reader.commit(), Err(Error::Conflict { .. })));
    Ok(())
}

/// A checkpoint has the range deletes that its tables need, and so has a database that is opened
/// for reading only.
#[test]
fn copies_have_range_deletes() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).open("/db")?;
    fill(&db, 0..1000, 2)?;
    let snapshot = db.snapshot();
    db.delete_range(number(10)..number(990))?;
    db.checkpoint("/copy")?;
    assert_eq!(db.stats().range_deletes, 1);
    let copy = options(&env).open_read_only("/copy")?;
    assert_eq!((copy.len()?, copy.stats().range_deletes), (20, 1));
    drop(copy);
    let copy = options(&env).open("/copy")?;
    copy.wait_for_compactions()?;
    assert_eq!((copy.len()?, copy.stats().range_deletes), (20, 0), "the copy has no snapshot");
    // One that is in the WAL only.
    db.delete_range(..number(5))?;
    drop((snapshot, db));
    assert_eq!(options(&env).open_read_only("/db")?.len()?, 15);
    assert_eq!(options(&env).open("/db")?.len()?, 15);
    Ok(())
}

/// A repair keeps range deletes: those of the manifest, and those of a WAL that becomes tables.
#[test]
fn a_repair_keeps_range_deletes() -> Result<()> {
    for loses_manifest in [false, true] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let dir = Path::new("/db");
        let db = options(&env).open(dir)?;
        fill(&db, 0..1000, 2)?;
        let snapshot = db.snapshot();
        db.delete_range(number(10)..number(500))?;
        db.flush()?;
        db.delete_range(number(500)..number(990))?;
        db.put(number(600), "later")?;
        let in_manifest = db.stats().range_deletes;
        drop((snapshot, db));
        assert_eq!(in_manifest, 1);
        if loses_manifest {
            for name in env.list(dir).expect("it is there") {
                let name = name.to_str().expect("text").to_owned();
                if name == "CURRENT" || name.ends_with(".manifest") {
                    env.remove(&dir.join(name), Step("test: lose the manifest")).expect("it is there");
                }
            }
        }
        let report = options(&env).repair(dir, &mut |_, _| ())?;
        assert_eq!((report.rebuilt, report.may_return), (loses_manifest, loses_manifest), "{report:?}");
        let db = options(&env).open(dir)?;
        // Without the manifest, what it had comes back, and the report says that it may.
        let expected = if loses_manifest { 511 } else { 21 };
        assert_eq!(db.len()?, expected);
        assert_eq!(db.get(number(600))?.as_deref(), Some(&b"later"[..]));
        db.compact()?;
        db.wait_for_compactions()?;
        assert_eq!((db.len()?, db.stats().range_deletes), (expected, 0));
    }
    Ok(())
}

/// After a repair without a manifest, new range deletes have larger sequences than those that the
/// tables say were applied to them, also if nothing else is left of these.
#[test]
fn a_range_delete_after_a_repair_is_applied() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let dir = Path::new("/db");
    let db = options(&env).open(dir)?;
    for key in 0..1000 {
        db.put(number(key), "v")?;
    }
    for key in 2000..2100 {
        db.delete_range(number(key)..number(key + 1))?;
    }
    db.flush()?;
    db.close()?;
    for name in env.list(dir).expect("it is there") {
        if !name.to_str().expect("text").ends_with(".sst") {
            env.remove(&dir.join(name), Step("test: lose all but tables")).expect("it is there");
        }
    }
    let report = options(&env).repair(dir, &mut |_, _| ())?;
    assert!(report.rebuilt, "{report:?}");
    let db = options(&env).open(dir)?;
    assert_eq!(db.len()?, 1000);
    db.delete_range(number(100)..number(900))?;
    assert_eq!(db.len()?, 200);
    db.flush()?;
    db.wait_for_compactions()?;
    assert_eq!((db.stats().range_deletes, db.len()?), (0, 200));
    Ok(())
}

/// Batches of the tests of crashes and failures. Some are flushed, and compacted.
const BATCHES: u64 = 25;

/// Policies and filters of the tests of crashes and failures.
const DESIGNS: [(&str, &str); 2] = [("leveling:T=2", "blocked:bits=10"), ("tiering:T=3", "chucky:bits=14")];

fn open_small(env: &SimEnv, (policy, filter): (&str, &str)) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(300).policy(policy).filter(filter);
    Options::new().durability(Durability::Sync).threads(1).advanced(advanced).open("/db")
}

/// Deletes what earlier batches have put but the last few keys of each, and puts others.
fn write_batch(db: &Db, number: u64) -> Result<()> {
    let mut batch = Batch::new();
    if number.is_multiple_of(3) {
        batch.delete_range("a"..);
    }
    for at in 0..4 {
        batch.put(format!("key {number:03} {at}"), format!("{number}"));
    }
    batch.delete_range(format!("key {number:03} 2")..format!("key {number:03} 3"));
    db.write(batch.put("last", format!("{number}")))?;
    if number.is_multiple_of(7) { db.flush() } else { Ok(()) }
}

/// The number of the last batch that is there; what is there must be what the batches up to it have
/// left.
fn last_batch(db: &Db) -> u64 {
    let last = db.get("last").expect("readable");
    let last = last.map_or(0, |last| String::from_utf8(last.to_vec()).expect("text").parse().expect("a number"));
    let mut expected = Content::new();
    for number in 1..=last {
        if number % 3 == 0 {
            expected.clear();
        }
        let keys = [0, 1, 3].map(|at| format!("key {number:03} {at}").into_bytes());
        expected.extend(keys.map(|key| (key, format!("{number}").into_bytes())));
        expected.insert(b"last".to_vec(), format!("{number}").into_bytes());
    }
    let found: Content = db.scan(..).map(|entry| entry.expect("readable")).collect();
    assert_eq!(found, expected, "after batch {last}");
    for number in 1..=last {
        let keys = [0, 1, 2, 3].map(|at| format!("key {number:03} {at}").into_bytes());
        for (key, value) in keys.iter().zip(db.multi_get(&keys).expect("readable")) {
            assert_eq!(value.as_deref(), expected.get(key).map(Vec::as_slice), "after batch {last}");
        }
    }
    last
}

/// After a loss of power at any call, what is there is a prefix of the batches, with all that were
/// acknowledged.
#[test]
fn a_crash_loses_no_range_delete_and_brings_nothing_back() -> Result<()> {
    DESIGNS.into_iter().try_for_each(crashes)
}

fn crashes(design: (&str, &str)) -> Result<()> {
    let env = SimEnv::new(5);
    let db = open_small(&env, design)?;
    let images = crash_images(&env, |acknowledged| {
        let mut snapshot = None;
        for number in 1..=BATCHES {
            // A snapshot keeps range deletes in the manifest for a while.
            if number % 8 == 1 {
                snapshot = Some(db.snapshot());
            }
            write_batch(&db, number)?;
            acknowledged.store(number, Ordering::SeqCst);
        }
        drop(snapshot);
        db.wait_for_compactions()?;
        Ok(())
    })?;
    assert!(images.len() > 500, "only {} images", images.len());
    for (acknowledged, crash, image) in images {
        let db = open_small(&image, design)?;
        let number = last_batch(&db);
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, {crash:?}");
        db.compact()?;
        assert_eq!(last_batch(&db), number, "{crash:?}");
    }
    Ok(())
}

/// Whichever call of the storage fails, the next process finds all batches that were acknowledged.
#[test]
fn a_call_that_fails_loses_no_range_delete_and_brings_nothing_back() -> Result<()> {
    DESIGNS.into_iter().try_for_each(failures)
}

fn failures(design: (&str, &str)) -> Result<()> {
    let calls = {
        let env = SimEnv::new(5);
        let db = open_small(&env, design)?;
        (1..=BATCHES).try_for_each(|number| write_batch(&db, number))?;
        env.calls_made()
    };
    let mut failed = 0;
    for call in 1..=calls {
        let env = SimEnv::new(5);
        env.inject(Fault::new(Failure::Io).from_call(call));
        let mut acknowledged = 0;
        if let Ok(db) = open_small(&env, design) {
            for number in 1..=BATCHES {
                // A flush that fails is repeated; a write that fails may be there or not.
                if write_batch(&db, number).is_err() && last_batch(&db) < number {
                    failed += 1;
                    break;
                }
                acknowledged = number;
            }
        }
        env.clear_faults();
        let db = open_small(&env, design)?;
        let number = last_batch(&db);
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, call {call}");
        db.compact()?;
        assert_eq!(last_batch(&db), number, "call {call}");
    }
    assert!(failed > 20, "only {failed} writes failed in {calls} calls");
    Ok(())
}
