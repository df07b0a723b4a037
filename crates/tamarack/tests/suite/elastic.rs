//! Elastic filters in real trees, asked for absent keys of which some are much more asked for than
//! others: fewer blocks are read than with other filters of the same memory, also when other keys
//! become hot; the memory is kept at every step of the background's work; nothing that is there is
//! ever denied.
//!
//! All is counted, and comes out the same each time. `-- --nocapture` shows the figures.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};
use tamarack_model::access_frequency::half_life;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// Entries of a buffer.
const BUFFER: u64 = 8000;

/// Keys next to each other, which are hot together.
const NEIGHBOURS: u64 = 1000;

/// What filters take beside the bits that they are given, for each table: the fields of a filter,
/// and what rounds it to whole cache lines.
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

/// Puts every key below `entries`, in an order in which each buffer has keys from everywhere.
fn fill(db: &Db, entries: u64) -> Result<()> {
    for number in 0..entries {
        let entry = number * 7919 % entries;
        db.put(key(entry), entry.to_be_bytes())?;
    }
    db.flush()?;
    db.wait_for_compactions()
}

/// Keys that are not there, any of their neighbours, which are asked for by a Zipfian law of
/// exponent 0.99.
struct Asked {
    random: Random,
    entries: u64,
    /// Where the hot ones are.
    place: u64,
}

impl Asked {
    fn new(entries: u64) -> Self {
        Self { random: Random::new(11), entries, place: 1 }
    }

    fn next(&self) -> [u8; 8] {
        let uniform = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        let all = (self.entries as f64).powf(0.01) - 1.0;
        let rank = ((1.0 + uniform * all).powf(100.0) - 1.0) as u64;
        let groups = self.entries / NEIGHBOURS;
        let group = (rank / NEIGHBOURS + 1).wrapping_mul(self.place * 48_271) % groups;
        // The hottest keys by themselves would be false positives or not by chance.
        (2 * (group * NEIGHBOURS + self.random.below(NEIGHBOURS)) + 1).to_be_bytes()
    }

    /// Data blocks read for each of so many lookups.
    fn ask(&self, db: &Db, lookups: u64) -> Result<f64> {
        let before = db.stats().lookups.data_blocks_read;
        for _ in 0..lookups {
            assert!(!db.contains(self.next())?, "it was never put");
        }
        Ok((db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64)
    }
}

fn tables(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.total().tables).sum()
}

/// Elastic filters read fewer blocks than standard and blocked ones of the same memory, whether
/// those are alike or shared out among runs; and again, within three half-lives, when other keys
/// are hot.
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
            let mut asked = Asked::new(entries);
            let period = half_life(tables(&db) as usize) * 64;
            let mut reads = Vec::new();
            for place in [1, 5, 11] {
                asked.place = place;
                let periods = if filter.starts_with("elastic") { 24 } else { 0 };
                for _ in 0..periods {
                    asked.ask(&db, period / 8)?;
                    env.run_background_until_idle();
                }
                reads.push(asked.ask(&db, period / 2)?);
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

/// The part of the budget of so many bits for each entry that filters take, which is not more than
/// all.
fn check_budget(db: &Db, bits: f64) -> f64 {
    let stats = db.stats();
    let entries: u64 = stats.levels.iter().map(|level| level.total().entries).sum();
    let budget = (entries as f64 * bits / 8.0) as u64;
    let slack = stats.levels.iter().map(|level| level.total().tables).sum::<u64>() * SLACK_BYTES;
    let taken = stats.memory.filters_bytes;
    assert!(taken <= budget + slack, "{taken} bytes of {budget} for {entries} entries, and {slack}");
    taken as f64 / budget.max(1) as f64
}

/// After fewer bits were chosen while the database is open, tables that are made from then on take
/// no more than these either, at every step.
#[test]
fn fewer_bits_are_kept_from_then_on() -> Result<()> {
    let env = SimEnv::new(5);
    let db = options(Arc::new(env.clone()), "elastic:bits=12").open("/db")?;
    fill(&db, 6 * BUFFER)?;
    let asked = Asked::new(6 * BUFFER);
    asked.ask(&db, 1000)?;
    env.run_background_until_idle();
    assert!(check_budget(&db, 12.0) > 0.9);
    db.set_filter("elastic:bits=3")?;
    asked.ask(&db, 1000)?;
    env.run_background_until_idle();
    check_budget(&db, 3.0);
    for entry in 6 * BUFFER..12 * BUFFER {
        db.put(key(entry * 7919 % (12 * BUFFER)), entry.to_be_bytes())?;
        while env.step_background() {
            check_budget(&db, 3.0);
        }
    }
    asked.ask(&db, 1000)?;
    env.run_background_until_idle();
    assert!(check_budget(&db, 3.0) > 0.9);
    Ok(())
}

/// At every step of the background's work, while keys are put, asked for, deleted and become hot or
/// cold, filters take no more than what was chosen for each entry.
#[test]
fn budget_is_kept() -> Result<()> {
    let bits = 8.0;
    let env = SimEnv::new(2);
    let db = options(Arc::new(env.clone()), &format!("elastic:bits={bits}")).open("/db")?;
    let mut asked = Asked::new(1);
    let mut most = 0.0_f64;
    let mut check = |db: &Db| most = most.max(check_budget(db, bits));
    for buffers in 1..=12 {
        let entries = buffers * BUFFER;
        for entry in entries - BUFFER..entries {
            // In the order of keys buffers would not overlap.
            db.put(key(entry * 7919 % (12 * BUFFER)), entry.to_be_bytes())?;
            if entry % 500 == 0 {
                check(&db);
            }
        }
        asked.entries = 12 * BUFFER;
        asked.place = buffers;
        for _ in 0..30 {
            asked.ask(&db, 1000)?;
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
    asked.ask(&db, 1000)?;
    check(&db);
    println!("at most {most:.3} of the budget");
    assert!(most > 0.9, "{most}");
    Ok(())
}

/// Every key that is there is found while units come and go, after the database was opened again
/// with other filters, and with these again; and the tables are whole.
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
        let mut asked = Asked::new(entries);
        for place in 1..4 {
            asked.place = place;
            asked.ask(&db, 20_000)?;
            for entry in (round as u64..entries).step_by(7) {
                assert_eq!(db.get(key(entry))?.as_deref(), Some(&entry.to_be_bytes()[..]), "{entry} with {filter}");
            }
        }
        let stats = db.stats();
        let bits = filter.split_once('=').map_or(0.0, |(_, bits)| bits.parse().expect("a number"));
        // The engine's count, which is an estimate where a merge has cut a table.
        let known: u64 = stats.levels.iter().map(|level| level.total().entries).sum();
        assert!(known.abs_diff(entries) < entries / 10, "{known}");
        let budget = (known as f64 * bits / 8.0) as u64 + tables(&db) * SLACK_BYTES;
        let taken = stats.memory.filters_bytes;
        // Without filters those that tables were written with stay, unless they are elastic.
        assert!(taken <= budget || bits == 0.0, "{taken} bytes of {budget} with {filter}");
        assert!(taken > budget / 2 || bits == 0.0, "{taken} bytes of {budget} with {filter}");
        db.verify(&mut |_, _| {})?;
        // A part of the tables is written anew, with other filters.
        db.compact_range(key(0)..key(entries / 3))?;
        db.close()?;
    }
    Ok(())
}
