//! Elastic filters in real trees, under skewed lookups of absent keys: fewer block reads than with
//! other filters of the same memory, also after the hot keys change; the memory stays within its
//! bound at every step of background work; no existing key is ever denied.
//!
//! All results are counts, and the same each time. `-- --nocapture` shows them.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};
use tamarack_model::access_frequency::half_life;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// The entries of a memtable.
const BUFFER: u64 = 8000;

/// The number of adjacent keys that are hot together.
const NEIGHBOURS: u64 = 1000;

/// The memory of a table's filter beside its bits: the fields of a filter, and the rounding to
/// whole cache lines.
const SLACK_BYTES: u64 = 96;

fn options(env: Arc<dyn Env>, filter: &str) -> Options {
    let advanced =
        AdvancedOptions::new().env(env).filter(filter).policy("leveling:T=4").memtable_bytes(BUFFER * ENTRY_BYTES);
    let advanced = advanced.cache_bytes(0).table_bytes(64 << 10).block_bytes(1 << 10);
    Options::new().compression(Compression::None).advanced(advanced)
}

/// The key of an entry: even numbers.
fn key(entry: u64) -> [u8; 8] {
    (2 * entry).to_be_bytes()
}

/// Puts every key below `entries`, in an order in which each memtable covers all keys.
fn fill(db: &Db, entries: u64) -> Result<()> {
    for number in 0..entries {
        let entry = number * 7919 % entries;
        db.put(key(entry), entry.to_be_bytes())?;
    }
    db.flush()?;
    db.wait_for_compactions()
}

/// Absent keys, in groups of neighbours that are looked up by a Zipfian distribution of exponent
/// 0.99.
struct AbsentLookups {
    random: Random,
    entries: u64,
    /// The location of the hot keys.
    place: u64,
}

impl AbsentLookups {
    fn new(entries: u64) -> Self {
        Self { random: Random::new(11), entries, place: 1 }
    }

    fn next(&self) -> [u8; 8] {
        let uniform = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let all = (self.entries as f64).powf(0.01) - 1.0;
        let rank = ((1.0 + uniform * all).powf(100.0) - 1.0) as u64;
        let groups = self.entries / NEIGHBOURS;
        let group = (rank / NEIGHBOURS + 1).wrapping_mul(self.place * 48_271) % groups;
        // The hottest single keys would be false positives or not by chance.
        (2 * (group * NEIGHBOURS + self.random.below(NEIGHBOURS)) + 1).to_be_bytes()
    }

    /// Data blocks read per lookup.
    fn look_up(&self, db: &Db, lookups: u64) -> Result<f64> {
        let before = db.stats().lookups.data_blocks_read;
        for _ in 0..lookups {
            assert!(!db.contains_key(self.next())?, "it was never put");
        }
        Ok((db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64)
    }
}

fn tables(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.total().tables).sum()
}

/// Elastic filters read fewer blocks than standard and blocked ones of the same memory, uniform or
/// allocated; and again, within three half-lives, after other keys have become hot.
#[test]
fn fewer_blocks_are_read() -> Result<()> {
    let entries = 120_000;
    for (bits, most) in [(5, 0.7), (8, 0.8), (10, 0.9)] {
        let mut figures: Vec<(f64, Vec<f64>)> = Vec::new();
        for filter in ["bloom:bits=B", "blocked:bits=B", "elastic:bits=B"] {
            let filter = filter.replace('B', &bits.to_string());
            let env = SimEnv::new(1);
            let db = options(Arc::new(env.clone()), &filter).open("/db")?;
            fill(&db, entries)?;
            let mut lookups = AbsentLookups::new(entries);
            let period = half_life(tables(&db) as usize) * 64;
            let mut reads = Vec::new();
            for place in [1, 5, 11] {
                lookups.place = place;
                let periods = if filter.starts_with("elastic") { 24 } else { 0 };
                for _ in 0..periods {
                    lookups.look_up(&db, period / 8)?;
                    env.run_background_until_idle();
                }
                reads.push(lookups.look_up(&db, period / 2)?);
            }
            let of_entry = db.stats().memory.filters_bytes as f64 * 8.0 / entries as f64;
            println!("{filter}: {} tables, {of_entry:.2} bits in memory, reads {reads:.4?}", tables(&db));
            figures.push((of_entry, reads));
        }
        let (of_entry, elastic) = figures.pop().expect("the last");
        assert!(of_entry <= figures[0].0, "{bits} bits: {of_entry} in memory");
        let sum = |reads: &[f64]| reads.iter().sum::<f64>();
        for (_, others) in &figures {
            assert!(sum(&elastic) < most * sum(others), "{bits} bits: {elastic:?} instead of {others:?}");
        }
    }
    Ok(())
}

/// The share of the memory for `bits` per entry that filters take, which is at most all.
fn check_budget(db: &Db, bits: f64) -> f64 {
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.total().entries).sum();
    let budget = (entries as f64 * bits / 8.0) as u64;
    let slack = stats.levels.iter().map(|level| level.total().tables).sum::<u64>() * SLACK_BYTES;
    let taken = stats.memory.filters_bytes;
    assert!(taken <= budget + slack, "{taken} bytes of {budget} for {entries} entries, and {slack}");
    taken as f64 / budget.max(1) as f64
}

/// After fewer bits were chosen while the database is open, new tables too stay within these at
/// every step.
#[test]
fn fewer_bits_are_kept_from_then_on() -> Result<()> {
    let env = SimEnv::new(5);
    let db = options(Arc::new(env.clone()), "elastic:bits=12").open("/db")?;
    fill(&db, 6 * BUFFER)?;
    let lookups = AbsentLookups::new(6 * BUFFER);
    lookups.look_up(&db, 1000)?;
    env.run_background_until_idle();
    assert!(check_budget(&db, 12.0) > 0.9);
    db.set_filter("elastic:bits=3")?;
    lookups.look_up(&db, 1000)?;
    env.run_background_until_idle();
    check_budget(&db, 3.0);
    for entry in 6 * BUFFER..12 * BUFFER {
        db.put(key(entry * 7919 % (12 * BUFFER)), entry.to_be_bytes())?;
        while env.step_background() {
            check_budget(&db, 3.0);
        }
    }
    lookups.look_up(&db, 1000)?;
    env.run_background_until_idle();
    assert!(check_budget(&db, 3.0) > 0.9);
    Ok(())
}

/// At every step of background work, while keys are put, looked up, deleted and become hot or cold,
/// filters stay within the memory chosen for each entry.
#[test]
fn budget_is_kept() -> Result<()> {
    let bits = 8.0;
    let env = SimEnv::new(2);
    let db = options(Arc::new(env.clone()), &format!("elastic:bits={bits}")).open("/db")?;
    let mut lookups = AbsentLookups::new(1);
    let mut most = 0.0_f64;
    let mut check = |db: &Db| most = most.max(check_budget(db, bits));
    for buffers in 1..=12 {
        let entries = buffers * BUFFER;
        for entry in entries - BUFFER..entries {
            // In key order, memtables would not overlap.
            db.put(key(entry * 7919 % (12 * BUFFER)), entry.to_be_bytes())?;
            if entry % 500 == 0 {
                check(&db);
            }
        }
        lookups.entries = 12 * BUFFER;
        lookups.place = buffers;
        for _ in 0..30 {
            lookups.look_up(&db, 1000)?;
            while env.step_background() {
                check(&db);
            }
        }
    }
    for entry in 0..6 * BUFFER {
        db.delete(key(entry * 7919 % (12 * BUFFER)))?;
    }
    db.compact()?;
    check(&db);
    while env.step_background() {
        check(&db);
    }
    lookups.look_up(&db, 1000)?;
    check(&db);
    println!("at most {most:.3} of the budget");
    assert!(most > 0.9, "{most}");
    Ok(())
}

/// Every existing key is found while units are loaded and dropped, after the database was reopened
/// with other filters, and with the first ones again; and the tables are whole.
#[test]
fn nothing_is_denied() -> Result<()> {
    let entries = 20_000;
    let env: Arc<dyn Env> = MemoryEnv::new(3);
    for (round, filter) in
        ["elastic:bits=6", "blocked:bits=6", "none", "elastic:bits=12", "elastic:bits=2"].into_iter().enumerate()
    {
        let db = options(env.clone(), filter).open("/db")?;
        if round == 0 {
            fill(&db, entries)?;
        }
        let mut lookups = AbsentLookups::new(entries);
        for place in 1..4 {
            lookups.place = place;
            lookups.look_up(&db, 20_000)?;
            for entry in (round as u64..entries).step_by(7) {
                assert_eq!(db.get(key(entry))?.as_deref(), Some(&entry.to_be_bytes()[..]), "{entry} with {filter}");
            }
        }
        let stats = db.stats();
        let bits = filter.split_once('=').map_or(0.0, |(_, bits)| bits.parse().expect("a number"));
        // The engine's count, which is an estimate where a compaction has cut a table.
        let known: u64 = stats.levels.iter().map(|level| level.total().entries).sum();
        assert!(known.abs_diff(entries) < entries / 10, "{known}");
        let budget = (known as f64 * bits / 8.0) as u64 + tables(&db) * SLACK_BYTES;
        let taken = stats.memory.filters_bytes;
        // Without filters, tables keep those that they were written with, unless these are elastic.
        assert!(taken <= budget || bits == 0.0, "{taken} bytes of {budget} with {filter}");
        assert!(taken > budget / 2 || bits == 0.0, "{taken} bytes of {budget} with {filter}");
        db.verify(&mut |_, _| {})?;
        // Rewrites a part of the tables, with other filters.
        db.compact_range(key(0)..key(entries / 3))?;
        db.close()?;
    }
    Ok(())
}
