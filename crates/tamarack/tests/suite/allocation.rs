//! Filter allocation in real trees: full ones have the optimum; the bits keep to their budget while
//! a tree grows. `tests/suite/rates.rs` shows that lookups have the predicted false positive rates.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options, Result, RunStats};
use tamarack_env::{Env, MemoryEnv, Random};
use tamarack_model::FilterKind;
use tamarack_model::allocate::{Curve, Load, false_positives, uniform};
use tamarack_model::filter;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// Entries of a buffer: enough that the smallest run's filter is not a matter of a few lines.
const BUFFER: u64 = 1000;

/// A tree, and which keys it has: even ones, everywhere in each run.
struct Grown {
    db: Db,
    random: Random,
    entries: u64,
}

impl Grown {
    fn new(policy: &str, filter: &str) -> Result<Self> {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let advanced = AdvancedOptions::new()
            .env(env)
            .filter(filter)
            .policy(policy)
            .memtable_bytes(BUFFER * ENTRY_BYTES)
            .cache_bytes(0);
        Ok(Self { db: Options::new().advanced(advanced).open("/db")?, random: Random::new(1), entries: 0 })
    }

    /// Writes so many buffers and lets the tree settle after each.
    fn grow(&mut self, buffers: u64) -> Result<()> {
        for _ in 0..buffers {
            for _ in 0..BUFFER {
                // Multiplied by an odd number, numbers in order are everywhere, and never twice.
                let key = (self.entries.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1;
                self.db.put(key.to_be_bytes(), self.entries.to_be_bytes())?;
                self.entries += 1;
            }
            self.db.flush()?;
            self.db.wait_for_compactions()?;
        }
        Ok(())
    }

    /// Young to old.
    fn runs(&self) -> Vec<RunStats> {
        self.db.stats().levels.iter().flat_map(|level| level.runs.clone()).collect()
    }

    /// Data blocks that a lookup of an absent key reads.
    fn measured(&self, lookups: u64) -> Result<f64> {
        let before = self.db.stats().lookups.data_blocks_read;
        for _ in 0..lookups {
            let key = self.random.next() | 1;
            assert!(!self.db.contains_key(key.to_be_bytes())?, "{key} was never put");
        }
        Ok((self.db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64)
    }
}

/// Predicted false positives of a zero-result lookup, over these runs.
fn predicted(runs: &[RunStats]) -> f64 {
    runs.iter().map(|run| run.filter_fpr).sum()
}

/// Predicted false positives with the best allocation of so many bits, and with an equal one.
fn best_and_equal(kind: FilterKind, runs: &[RunStats], bits_per_entry: f64) -> (f64, f64) {
    let curve = Curve::new(kind);
    let loads: Vec<Load> = runs.iter().map(|run| Load::new(run.entries)).collect();
    let bits = loads.iter().map(|load| load.entries.0 as f64).sum::<f64>() * bits_per_entry;
    let cost = |allocated: Vec<f64>| false_positives(&loads, allocated.into_iter().map(|bits| curve.rate(bits)));
    (cost(curve.allocate(&loads, bits)), cost(uniform(&loads, bits)))
}

/// With T = 2, after 2^k - 1 buffers every level is full: then the runs have what the best
/// allocation gives them, and zero-result lookups read as predicted: much less than with equal
/// bits. The bits never pass the budget, but for what rounds a filter up to whole cache
/// lines.
#[test]
fn full_trees_have_the_optimum() -> Result<()> {
    for (kind, bits) in [(FilterKind::Bloom, 5.0), (FilterKind::Blocked, 5.0), (FilterKind::Bloom, 2.0)] {
        let mut tree = Grown::new("leveling:T=2", &format!("{}:bits={bits},allocation=monkey", kind.name()))?;
        for buffers in 1..=31_u64 {
            tree.grow(1)?;
            let runs = tree.runs();
            let used: u64 = runs.iter().map(|run| run.filter_bits).sum();
            let lines: u64 = runs.iter().map(|run| run.tables * filter::LINE_BITS).sum();
            let budget = (tree.entries as f64 * bits) as u64;
            assert!(used <= budget + lines, "{buffers} buffers: {used} bits of {budget}: {runs:?}");
            if (buffers + 1).is_power_of_two() && buffers > 1 {
                assert!(used + lines >= budget, "{buffers} buffers: only {used} bits of {budget}: {runs:?}");
                // Filters of few lines are rounded up or down by much; what counts is how the bits
                // are shared that they take.
                let (best, equal) = best_and_equal(kind, &runs, used as f64 / tree.entries as f64);
                let predicted = predicted(&runs);
                assert!((predicted / best - 1.0).abs() < 0.015, "{buffers} buffers: {predicted} instead of {best}");
                let (of_budget, _) = best_and_equal(kind, &runs, bits);
                // Of the smallest tree, ten lines more or fewer are much.
                let is_as_predicted = (predicted / of_budget - 1.0).abs() < 0.03;
                assert!(is_as_predicted || buffers == 3, "{buffers} buffers: {predicted} instead of {of_budget}");
                let measured = tree.measured(20_000)?;
                println!(
                    "{}, {bits} bits, {buffers} buffers: {measured:.4} read, {best:.4} at best, {equal:.4} with equal bits",
                    kind.name()
                );
                assert!((measured / best - 1.0).abs() < 0.1, "{buffers} buffers: {measured} read, {best} at best");
            }
        }
    }
    Ok(())
}

/// For lookups of existing keys, more bits go to the runs that they search before the key's own:
/// they read less than with filters allocated for zero-result lookups.
#[test]
fn mixes_get_filters_of_their_own() -> Result<()> {
    let read = |filter: &str| -> Result<f64> {
        let mut tree = Grown::new("leveling:T=2", filter)?;
        tree.grow(31)?;
        let before = tree.db.stats().lookups.data_blocks_read;
        for lookup in 0..20_000_u64 {
            let entry = lookup * 7919 % tree.entries;
            let key = (entry.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1;
            assert!(tree.db.contains_key(key.to_be_bytes())?);
        }
        Ok((tree.db.stats().lookups.data_blocks_read - before) as f64 / 20_000.0)
    };
    let absent = read("bloom:bits=2,allocation=monkey")?;
    let found = read("bloom:bits=2,allocation=monkey-general,v=100")?;
    println!("{absent:.4} blocks for a lookup that finds something; with bits shared out for such {found:.4}");
    assert!(found - 1.0 < 0.8 * (absent - 1.0), "{found}, {absent}");
    Ok(())
}
