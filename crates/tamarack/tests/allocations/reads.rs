//! Cached reads allocate nothing: lookups of existing and of absent keys, in memtables, in blocks
//! and in single entries, through few runs and many; and the steps of a scan that lends its
//! entries.

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

use crate::allocator::allocations_of_thread;

const ENTRIES: u64 = 3000;

/// The allocations of `work` in this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = allocations_of_thread();
    work();
    allocations_of_thread() - before
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:            ";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key
}

/// A tree of that many runs over the same range of keys, the odd numbers below [`ENTRIES`], with
/// some even ones in the memtable.
fn database(runs: u64, advanced: AdvancedOptions) -> Result<Db> {
    let advanced = advanced.env(MemoryEnv::new(1)).policy("tiering:T=100").memtable_bytes(1 << 20);
    let db = Options::new().advanced(advanced).open("/database")?;
    for run in 0..runs {
        for number in (0..ENTRIES).filter(|number| number % 2 == 1 && number / 2 % runs == run) {
            db.put(key(number), [b'v'; 100])?;
        }
        db.flush()?;
    }
    db.wait_for_compactions()?;
    for number in (0..ENTRIES).step_by(20) {
        db.put(key(number), b"in the buffer")?;
    }
    Ok(db)
}

#[test]
fn what_is_allocated_is_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
}

#[test]
fn a_cached_lookup_allocates_nothing() -> Result<()> {
    let usual = |runs| database(runs, AdvancedOptions::new().cache_bytes(64 << 20));
    // The cache is too small for all blocks, so it contains single entries.
    let crowded = |runs| database(runs, AdvancedOptions::new().cache_bytes(96 << 10));
    for (name, db) in [("1 run", usual(1)?), ("7 runs", usual(7)?), ("7 runs, small cache", crowded(7)?)] {
        let lookups = |number: u64| {
            let _ = db.get(key(number)).expect("sound");
            let _ = db.contains_key(key(number)).expect("sound");
        };
        // Twice, for caches that admit on the second read; the first one is not counted.
        (0..3 * ENTRIES).for_each(|number| lookups(number % ENTRIES));
        let (mut quiet, mut read) = (0, 0);
        for number in 0..ENTRIES {
            let reads_before = db.stats().reads.total().blocks;
            let allocated = allocations(|| lookups(number));
            if db.stats().reads.total().blocks == reads_before {
                assert_eq!(allocated, 0, "{name}: lookups of key {number}, which read nothing");
                quiet += 1;
            } else {
                read += 1;
            }
        }
        assert!(quiet > ENTRIES / 2, "{name}: {quiet} lookups read nothing, {read} something");
        assert_eq!(read > 0, name.contains("small"), "{name}: {read} lookups read something");
    }
    Ok(())
}

#[test]
fn a_step_of_a_lending_scan_allocates_nothing() -> Result<()> {
    for runs in [1, 7] {
        let db = database(runs, AdvancedOptions::new().cache_bytes(64 << 20))?;
        for backward in [false, true] {
            // The first scan reads, the second reserves memory for keys; later ones need nothing
            // new.
            for round in 0..2 {
                let mut scan = db.scan(..);
                let mut step = || {
                    let found = if backward { scan.next_back_lent() } else { scan.next_lent() };
                    found.expect("sound").map_or(0, |(key, value)| key.len() + value.len())
                };
                (0..100).for_each(|_| assert!(step() > 0));
                let mut bytes = 0;
                let allocated = allocations(|| (0..1000).for_each(|_| bytes += step()));
                assert!(bytes > 1000 * 16, "the scan goes on");
                if round == 1 {
                    assert_eq!(allocated, 0, "{runs} runs, backward: {backward}");
                }
            }
        }
    }
    Ok(())
}

/// The cursors over runs are those of the scan before.
#[test]
fn a_short_scan_allocates_as_much_over_many_runs_as_over_two() -> Result<()> {
    let allocated_over = |runs| -> Result<u64> {
        let db = database(runs, AdvancedOptions::new().cache_bytes(64 << 20))?;
        let short_scan = |number| {
            let mut scan = db.scan(key(number)..);
            for _ in 0..10 {
                assert!(scan.next_lent().expect("sound").is_some());
            }
        };
        let first = allocations(|| short_scan(0));
        (1..ENTRIES / 2).for_each(short_scan);
        let after = allocations(|| short_scan(ENTRIES / 3));
        assert!(first > after, "{first} allocations in the first scan, {after} later");
        db.put(key(1), b"again")?;
        db.flush()?;
        let changed = allocations(|| short_scan(0));
        assert!(changed > after, "{after} allocations, and {changed} in the first scan of another version");
        Ok(after)
    };
    assert_eq!(allocated_over(2)?, allocated_over(20)?);
    Ok(())
}
