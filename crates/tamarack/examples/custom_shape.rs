//! Shapes of a tree: what the same writes cost, and what the same lookups find, when levels and
//! runs are others. The last shape is nobody's but ours.
//!
//! ```sh
//! cargo run --release --example custom_shape
//! ```
//!
//! ```text
//! leveling     level 1  █              one run on each level: few runs to read, much compaction
//!              level 2  ██████████
//! tiering      level 1  █ █ █ █        many runs: little written, many read
//!              level 2  ████ ████ ████
//! ours         level 1  █ █ █ █        many runs where they are small, and most writes go;
//!              level 2  █████ █████    one where almost all data is, and most lookups end
//!              level 3  ████████████████████████
//! ```
//!
//! It makes no directory: its databases live in memory, which is one more thing that an option can
//! change.

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

const ENTRIES: u64 = 60_000;

/// The buffer, then each level, small to large: how much it may hold, at least one and a half times
/// the level before, and in how many runs. Data that the last level cannot hold makes that larger.
const OURS: &str = "custom:buffer 128KiB; level 512KiB in 4 runs; level 2560KiB in 3 runs; level 12MiB in 1 run";

fn main() -> Result<()> {
    let mut costs = Vec::new();
    for policy in ["leveling:T=4", "tiering:T=4", OURS] {
        let advanced = AdvancedOptions::new().policy(policy).memtable_bytes(128 << 10).env(MemoryEnv::new(1));
        // No compaction is late: the costs are those of the shape, however fast this machine is.
        let db = Options::new().advanced(advanced.late_memtables_max(0)).open("/shape.db")?;
        for entry in 0..ENTRIES {
            db.put(key(entry), [b'v'; 100])?;
        }
        // Compactions run in the background; waiting for them shows a tree at rest.
        db.flush()?;
        db.wait_for_compactions()?;
        costs.push(show(policy, &db)?);
        db.close()?;
    }
    let [leveling, tiering, ours] = costs[..] else { unreachable!("three shapes were tried") };
    assert!(
        tiering.written < ours.written && ours.written < leveling.written,
        "ours writes less than leveling: {costs:?}"
    );
    assert!(leveling.asked < ours.asked && ours.asked < tiering.asked, "ours asks fewer than tiering: {costs:?}");
    Ok(())
}

/// What a shape costs.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Bytes written into levels for each byte that was flushed.
    written: f64,
    /// Filters asked by a lookup of a key that is not there: one for each run.
    asked: f64,
}

/// Prints what the tree looks like, and what it costs.
fn show(policy: &str, db: &Db) -> Result<Costs> {
    println!("{policy}");
    let stats = db.stats();
    for (number, level) in (1..).zip(&stats.levels) {
        let full = level.total().raw_bytes as f64 / level.capacity_bytes as f64;
        let runs = level.runs.len();
        println!("  level {number}: {runs} of {} runs, {:.0} % full", level.run_slots, 100.0 * full);
        assert!(runs <= level.run_slots as usize, "a tree at rest keeps to its shape");
    }
    let written = stats.write_amplification().expect("buffers were flushed");

    // Keys that are not there show what runs cost: each is asked by its filter, and one in about a
    // hundred filters errs.
    for missing in ENTRIES..ENTRIES + 10_000 {
        assert!(db.get(key(missing))?.is_none());
    }
    let after = db.stats().lookups - stats.lookups;
    let asked = after.filter_probes as f64 / after.lookups as f64;
    println!(
        "  {written:.2} bytes written for each byte flushed, {asked:.2} filters asked for a key that is not there\n"
    );
    Ok(Costs { written, asked })
}

/// Another key for each number, all over the range of keys: in no order that would help a tree.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
