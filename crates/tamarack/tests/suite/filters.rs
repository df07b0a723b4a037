//! Bloom filters in a real tree: the measured false positive rate is the predicted one, no key is
//! hidden, a lookup computes one digest, and all probes are counted.

use tamarack::{AdvancedOptions, Batch, Db, Options, Result};
use tamarack_env::{Env, MemoryEnv, Random};
use tamarack_model::FilterKind;
use tamarack_model::filter;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

const RUNS: u64 = 5;

fn advanced(env: &std::sync::Arc<dyn Env>, filter: &str) -> AdvancedOptions {
    AdvancedOptions::new().env(env.clone()).filter(filter).policy("tiering:T=10")
}

/// A tree of [`RUNS`] runs over the same range of keys: `entries` of them, all even.
fn tree(env: &std::sync::Arc<dyn Env>, entries: u64, filter: &str) -> Result<Db> {
    let per_run = entries / RUNS;
    let advanced = advanced(env, filter).memtable_bytes(per_run * ENTRY_BYTES).table_bytes(per_run * ENTRY_BYTES / 4);
    let db = Options::new().advanced(advanced).open("/db")?;
    for run in 0..RUNS {
        for number in 0..per_run {
            let key = 2 * (number * RUNS + run);
            db.put(key.to_be_bytes(), number.to_be_bytes())?;
        }
        db.flush()?;
    }
    db.wait_for_compactions()?;
    let runs: Vec<u64> = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).collect();
    assert_eq!(runs, vec![per_run; RUNS as usize]);
    Ok(db)
}

/// The rate of false positives of zero-result lookups is the one predicted for kind and bits per
/// entry, within a tenth.
#[test]
fn false_positives_are_as_predicted() -> Result<()> {
    for kind in FilterKind::OF_ONE_PIECE {
        for bits in [5, 10] {
            let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
            let entries = 50_000;
            let db = tree(&env, entries, &format!("{}:bits={bits}", kind.name()))?;
            let lookups = 60_000;
            for i in 0..lookups {
                let key = 2 * (i * 7919 % entries) + 1;
                assert!(!db.contains_key(key.to_be_bytes())?, "{key} was never put");
            }
            let counts = db.stats().lookups;
            // The largest keys are past the last table of some runs.
            assert!(counts.filter_probes > lookups * RUNS * 99 / 100 && counts.lookups == lookups, "{counts:?}");
            assert_eq!(counts.filter_probes, counts.filter_negatives + counts.filter_false_positives);
            let measured = counts.filter_false_positives as f64 / counts.filter_probes as f64;
            let predicted = filter::predict(kind, f64::from(bits)).fpr;
            println!("{}, {bits} bits per entry: {measured:.5} measured, {predicted:.5} predicted", kind.name());
            assert!((measured / predicted - 1.0).abs() < 0.1, "{} {bits}: {measured} of {predicted}", kind.name());
        }
    }
    Ok(())
}

/// Filters take the memory of their bits, and free it with their tables.
#[test]
fn memory_is_that_of_open_tables() -> Result<()> {
    let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
    let db = tree(&env, 10_000, "blocked:bits=10")?;
    let bits: u64 = db.stats().levels.iter().map(|level| level.total().filter_bits).sum();
    assert!((99_000..101_000).contains(&bits), "{bits} for 10,000 entries at 10 bits");
    let check = || -> Result<u64> {
        for number in 0..10_000_u64 {
            assert_eq!(db.get((2 * number).to_be_bytes())?.as_deref(), Some(&(number / RUNS).to_be_bytes()[..]));
        }
        let stats = db.stats();
        let tables: u64 = stats.levels.iter().map(|level| level.total().tables).sum();
        // Beside the bits each filter takes a few bytes for its kind and size.
        let expected = bits / 8 + tables * 8..bits / 8 + tables * 64;
        assert!(expected.contains(&stats.filter_bytes), "{} of {tables} tables", stats.filter_bytes);
        Ok(tables)
    };
    let tables = check()?;
    db.compact()?;
    // The decider may look at the tree as it was before, which keeps its tables.
    db.rebuild_filters()?;
    assert_ne!(check()?, tables, "other tables");
    Ok(())
}

/// Tables without filters, tables with one kind and tables with the other form one tree; `verify`
/// finds no damage.
#[test]
fn filters_of_all_kinds_side_by_side() -> Result<()> {
    let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
    let kinds = ["none", "blocked:bits=3", "bloom:bits=12", "none", "blocked:bits=0.01"];
    for (at, filter) in (0_u64..).zip(kinds) {
        let db = Options::new().advanced(advanced(&env, filter)).open("/db")?;
        for number in 0..500_u64 {
            db.put((number * 5 + at).to_be_bytes(), filter)?;
        }
        db.flush()?;
        db.close()?;
    }
    let db = Options::new().advanced(advanced(&env, "none")).open("/db")?;
    for number in 0..2500_u64 {
        let value = db.get(number.to_be_bytes())?;
        assert_eq!(value.as_deref(), Some(kinds[(number % 5) as usize].as_bytes()), "{number}");
    }
    let report = db.verify(&mut |_, _| {})?;
    assert!(report.is_ok(), "{:?}", report.problems);
    // Without filters there is no probe, and no lookup of an existing key is a false positive.
    db.compact()?;
    // The decider may look at the tree as it was before, which keeps its tables.
    db.rebuild_filters()?;
    let before = db.stats().lookups;
    assert!(db.get(1_u64.to_be_bytes())?.is_some() && db.get([0; 9])?.is_none());
    let after = db.stats();
    assert_eq!((after.lookups.filter_probes, after.filter_bytes), (before.filter_probes, 0));
    assert_eq!(after.lookups.lookups, before.lookups + 2);
    Ok(())
}

/// A snapshot that must not see the version in a table does not turn a correct positive answer of
/// the filter into a false positive.
#[test]
fn versions_too_young_for_a_snapshot_are_no_false_positives() -> Result<()> {
    let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
    let db = Options::new().advanced(advanced(&env, "bloom:bits=20")).open("/db")?;
    let snapshot = db.snapshot();
    for key in 0..100_u64 {
        db.put(key.to_be_bytes(), "young")?;
    }
    db.flush()?;
    for key in 0..100_u64 {
        assert!(snapshot.get(key.to_be_bytes())?.is_none());
    }
    let counts = db.stats().lookups;
    assert_eq!((counts.filter_probes, counts.filter_negatives, counts.filter_false_positives), (100, 0, 0));
    Ok(())
}

/// A lookup computes one digest, however many filters it probes, and a write one for each entry;
/// scans compute none.
/// Other threads build the tables.
#[test]
#[cfg(debug_assertions)]
fn one_digest_for_each_lookup() -> Result<()> {
    use tamarack_filter::digests_computed;

    let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
    let db = tree(&env, 10_000, "blocked:bits=10")?;
    let count = |what: &dyn Fn() -> Result<()>| {
        let before = digests_computed();
        what().map(|()| digests_computed() - before)
    };
    let random = Random::new(1);
    let key = || random.below(21_000).to_be_bytes();
    let snapshot = db.snapshot();
    for _ in 0..1000 {
        assert_eq!(count(&|| db.get(key()).map(|_| ()))?, 1, "get");
        assert_eq!(count(&|| db.contains_key(key()).map(|_| ()))?, 1, "contains");
        assert_eq!(count(&|| snapshot.get(key()).map(|_| ()))?, 1, "get of a snapshot");
        assert_eq!(count(&|| snapshot.contains_key(key()).map(|_| ()))?, 1, "contains of a snapshot");
    }
    for keys in 0..100 {
        let keys: Vec<_> = (0..keys).map(|_| key()).collect();
        assert_eq!(count(&|| db.multi_get(&keys).map(|_| ()))?, keys.len() as u64, "multi_get");
        assert_eq!(count(&|| snapshot.multi_get(&keys).map(|_| ()))?, keys.len() as u64, "multi_get of a snapshot");
    }
    let mut batch = Batch::new();
    for _ in 0..100 {
        batch.put(key(), "value");
    }
    assert_eq!(count(&|| db.write(&batch))?, 100, "write");
    assert_eq!(count(&|| db.scan(key()..).take(100).try_for_each(|entry| entry.map(|_| ())))?, 0, "scan");
    assert_eq!(count(&|| db.scan(..key()).rev().take(100).try_for_each(|entry| entry.map(|_| ())))?, 0, "scan");
    assert_eq!(count(&|| db.put(key(), "value"))?, 1, "put");
    assert_eq!(count(&|| db.delete(key()))?, 1, "delete");
    let probes = db.stats().lookups.filter_probes;
    assert!(probes > 10_000, "{probes} filter probes in 4,000 lookups of five runs");
    Ok(())
}

/// A specification that names no filter is refused when the database is opened, with the reason.
#[test]
fn specifications_that_name_no_filter_are_refused() {
    let env: std::sync::Arc<dyn Env> = MemoryEnv::new(1);
    let error = Options::new().advanced(advanced(&env, "blocked:bits=ten")).open("/db").expect_err("no number");
    assert!(matches!(&error, tamarack::Error::InvalidArgument(what) if what.contains("`bits=ten`")), "{error:?}");
}
