//! One filter for the whole tree, instead of one for each table: a lookup asks once, however many
//! runs the tree has.
//!
//! ```sh
//! cargo run --release --example whole_tree_filter
//! ```
//!
//! ```text
//! Bloom filters        key ─► run 1? ─► run 2? ─► run 3? ─► … each run's filter is asked
//! chucky               key ─► one filter ─► run 3           it says which runs have the key
//! ```
//!
//! Trees of many runs are cheap to write. With one filter their lookups cost what those of a tree
//! of few runs do. The filter changes while the database is open and in use.

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

const ENTRIES: u64 = 60_000;

fn main() -> Result<()> {
    let advanced = AdvancedOptions::new().policy("tiering:T=8").memtable_bytes(64 << 10).env(MemoryEnv::new(1));
    let advanced = advanced.filter("blocked:bits=14.2,allocation=monkey").late_memtables_max(0);
    let db = Options::new().advanced(advanced).open("/runs.db")?;
    for entry in 0..ENTRIES {
        db.put(key(entry), entry.to_be_bytes())?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    let bloom = show("one for each table", &db)?;

    // Lookups go on meanwhile: until the filter is ready, they search all runs.
    db.set_filter("chucky:bits=14.2")?;
    db.rebuild_filters()?;
    let chucky = show("one for the tree", &db)?;
    assert!(bloom.asked > 4.0 && chucky.asked < 1.0, "one filter is asked instead of many: {bloom:?}, {chucky:?}");
    assert!(chucky.searched < 0.05, "few runs are searched for nothing: {chucky:?}");
    for entry in 0..ENTRIES {
        assert_eq!(db.get(key(entry))?.as_deref(), Some(&entry.to_be_bytes()[..]), "no key is hidden");
    }
    db.close()
}

/// What lookups of absent keys cost.
#[derive(Debug)]
struct Costs {
    /// Runs that each asks a filter about, or that the filter of the tree names.
    asked: f64,
    /// Runs searched by each, all for nothing.
    searched: f64,
}

/// Prints the filters of a tree, and what lookups of absent keys cost.
fn show(filters: &str, db: &Db) -> Result<Costs> {
    let before = db.stats();
    for missing in ENTRIES..ENTRIES + 20_000 {
        assert!(db.get(key(missing))?.is_none());
    }
    let lookups = db.stats().lookups - before.lookups;
    let each = |count: u64| count as f64 / lookups.lookups as f64;
    let costs = Costs { asked: each(lookups.filter_probes), searched: each(lookups.filter_false_positives) };
    let runs = || before.levels.iter().flat_map(|level| &level.runs);
    let bits = before.memory.filters_bytes as f64 * 8.0 / ENTRIES as f64;
    let predicted: f64 = runs().map(|run| run.filter_fpr).sum();
    println!(
        "{filters:<20} {} runs, {bits:.1} bits for each entry; absent keys: {:.2} runs considered, {:.4} searched, \
         {predicted:.4} predicted",
        runs().count(),
        costs.asked,
        costs.searched,
    );
    Ok(costs)
}

/// Another key for each number, all over the range of keys.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
