//! Coverage: a lookup queries the filters of those runs whose tables cover its key, and no others.
//! How many that are is predicted by the model's simulation with keys, from the keys alone.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::{Env, MemoryEnv, Random};
use tamarack_model::simulate::coverage::WholeTree;
use tamarack_model::{Bytes, Level, Shape};

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// Entries of a memtable, and of a table.
const BATCH: u64 = 400;
const TABLE: u64 = 100;

const BATCHES: u64 = 60;

/// Lookups after each flush, of keys that are drawn from all over the key space.
const LOOKUPS: u64 = 400;

/// Capacities in entries of two levels above one that is never full.
const CAPACITIES: [u64; 3] = [4 * BATCH, 16 * BATCH, 1 << 30];

fn shape(unit: u64) -> Shape {
    let levels = CAPACITIES.map(|entries| Level { capacity: Bytes(entries * unit), runs: 1 });
    Shape::new(Bytes(BATCH * unit), levels.into()).expect("a shape")
}

fn open() -> Result<Db> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let policy = format!("custom:{}", shape(ENTRY_BYTES).to_string().trim_end().replace('\n', "; "));
    let advanced = AdvancedOptions::new()
        .env(env)
        .policy(policy)
        .filter("bloom:bits=12")
        .memtable_bytes(BATCH * ENTRY_BYTES)
        .table_bytes(TABLE * ENTRY_BYTES);
    Options::new().advanced(advanced).open("/db")
}

/// Keys of one memtable, in order: drawn from `share` of the key space, from `start` on.
fn batch(random: &Random, start: u64, share: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..BATCH).map(|_| start + random.below(share)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Writes batches to a database and to the simulation, and returns the mean numbers of runs for
/// each lookup: there are, predicted to cover its key, and filters queried.
fn compare(batches: impl Iterator<Item = Vec<u64>>) -> Result<[f64; 3]> {
    let db = open()?;
    let policy = WholeTree::fixed(&shape(1));
    let mut tree = WholeTree::empty(&policy, TABLE as usize, vec![0.0; CAPACITIES.len()]);
    let random = Random::new(11);
    let (mut runs, mut lookups) = (0, 0);
    for keys in batches {
        for key in &keys {
            db.put(key.to_be_bytes(), key.to_be_bytes())?;
        }
        db.flush()?;
        db.wait_for_compactions()?;
        tree.arrive(keys);
        runs += db.stats().levels.iter().map(|level| level.runs.len() as u64).sum::<u64>() * LOOKUPS;
        for _ in 0..LOOKUPS {
            assert!(!db.contains_key(random.next().to_be_bytes())?, "a random key is there");
        }
        lookups += LOOKUPS;
    }
    let probes = db.stats().lookups.filter_probes;
    Ok([runs as f64 / lookups as f64, tree.coverage().iter().sum(), probes as f64 / lookups as f64])
}

fn assert_as_predicted(name: &str, [runs, predicted, queried]: [f64; 3]) {
    println!("{name}: {runs:.3} runs, {predicted:.3} predicted to cover a key, {queried:.3} filters queried");
    assert!((queried / predicted - 1.0).abs() < 0.03, "{name}: {queried} of {predicted}, {runs} runs");
}

/// Keys from everywhere: every run covers every key, but for the ends.
#[test]
fn even_keys_meet_all_runs() -> Result<()> {
    let random = Random::new(1);
    let means = compare((0..BATCHES).map(|_| batch(&random, 0, u64::MAX)))?;
    assert_as_predicted("even", means);
    assert!(means[2] > 0.97 * means[0], "{means:?}");
    Ok(())
}

/// A sorted import: each memtable has the keys after those of the one before, and runs cover what
/// they got. So lookups meet less than half of the runs.
#[test]
fn sorted_imports_meet_few_runs() -> Result<()> {
    let random = Random::new(2);
    let share = u64::MAX / BATCHES;
    let means = compare((0..BATCHES).map(|number| batch(&random, number * share, share)))?;
    assert_as_predicted("sorted", means);
    assert!(means[2] < 0.5 * means[0], "{means:?}");
    Ok(())
}

/// Several sorted imports over parts of the key space that overlap.
#[test]
fn overlapping_imports_meet_some_runs() -> Result<()> {
    for parts in [4, 16, 64] {
        let random = Random::new(parts);
        let share = u64::MAX / parts;
        let means = compare((0..BATCHES).map(|_| batch(&random, random.below(u64::MAX - share), share)))?;
        assert_as_predicted(&format!("one of {parts} parts"), means);
        assert!(means[2] < 0.95 * means[0], "{means:?}");
    }
    Ok(())
}
