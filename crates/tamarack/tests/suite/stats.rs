//! `Stats` agree with the operations: every level, run, job and byte is counted once and as the
//! right thing.

use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, LevelStats, Options, Result, Stats};
use tamarack_env::{Env, SimEnv};

fn advanced(sim: &SimEnv) -> AdvancedOptions {
    AdvancedOptions::new().env(Arc::new(sim.clone())).block_bytes(256).table_bytes(1000)
}

fn open(sim: &SimEnv, policy: &str) -> Result<Db> {
    Options::new().threads(1).advanced(advanced(sim).memtable_bytes(3000).policy(policy)).open("/db")
}

/// Puts keys that are spread over all others.
fn put(db: &Db, first: u64, count: u64) -> Result<()> {
    (first..first + count).try_for_each(|number| {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        db.put(key.to_be_bytes(), [b'v'; 84])
    })
}

fn table_bytes(sim: &SimEnv) -> u64 {
    let files = sim.files().into_iter();
    files.filter(|(path, _)| path.extension().is_some_and(|ending| ending == "sst")).map(|(_, bytes)| bytes).sum()
}

fn entries(stats: &Stats) -> u64 {
    let in_levels: u64 = stats.levels.iter().map(|level| level.total().entries).sum();
    in_levels + stats.memtables.iter().map(|memtable| memtable.entries).sum::<u64>()
}

/// An idle tree: the shape with its capacities, the size and bytes written of each level, and no
/// job in progress.
#[test]
fn a_tree_at_rest() -> Result<()> {
    let sim = SimEnv::new(1);
    let db = open(&sim, "tiering:T=4")?;
    // Each entry has 100 raw bytes, so a memtable holds 30 of them, and the 31st rotates it.
    // Compactions complete between flushes.
    for buffer in 0..30 {
        put(&db, 30 * buffer, 30)?;
        db.flush()?;
        db.wait_for_compactions()?;
    }
    let stats = db.stats();
    assert_eq!((stats.policy.as_str(), stats.memtable_capacity_bytes), ("tiering:T=4", 3000));
    let shape: Vec<(u64, u32)> = stats.levels.iter().map(|level| (level.capacity_bytes, level.run_slots)).collect();
    assert_eq!(shape, [(12_000, 4), (48_000, 4), (192_000, 4)]);
    // 30 memtables are 2 + 3·4 + 1·16 in a tree of ratio 4.
    let levels: Vec<(usize, f64)> = stats.levels.iter().map(|level| (level.runs.len(), level.occupancy())).collect();
    assert_eq!(levels, [(2, 0.5), (3, 0.75), (1, 0.25)]);
    assert_eq!(entries(&stats), 900);
    assert_eq!((stats.jobs.len(), stats.debt_bytes, stats.compactions_paused), (0, 0, false));
    assert!(stats.levels.iter().all(|level| level.runs_in_compactions() == 0 && level.runs_above_slots() == 0));
    assert!(stats.levels.iter().flat_map(|level| &level.runs).all(|run| run.id > 0 && !run.in_compaction));
    // Tiering writes each entry once in each level in which it comes to rest. Level 2 got 7 batches
    // of 4 memtables, the fourth of which went straight through it to level 3, with the three
    // before.
    let written: Vec<u64> = stats.levels.iter().map(|level| level.written_raw_bytes / 3000).collect();
    assert_eq!(written, [30, 24, 16]);
    assert_eq!(stats.flushed_raw_bytes, 90_000);
    assert_eq!(stats.write_amplification(), Some(70.0 / 30.0));
    assert!(stats.compaction_bytes_per_second.is_none_or(|speed| speed > 0.0));
    // Everything on storage is live.
    sim.run_background_until_idle();
    let space = db.stats().space;
    assert_eq!((space.live_bytes, space.stale_bytes, space.pending_delete_bytes), (table_bytes(&sim), 0, 0));
    assert_eq!(stats.levels.iter().map(|level| level.total().file_bytes).sum::<u64>(), space.live_bytes);
    Ok(())
}

/// A tree after a change of policy: its runs are in the new levels, and too many until something
/// arrives.
#[test]
fn a_tree_after_a_change_of_policy() -> Result<()> {
    let sim = SimEnv::new(2);
    let db = open(&sim, "tiering:T=100")?;
    put(&db, 0, 300)?;
    db.flush()?;
    assert_eq!(db.stats().levels[0].runs.len(), 10);
    db.set_policy("leveling:T=4")?;
    let stats = db.stats();
    assert_eq!((stats.policy.as_str(), stats.reshapes), ("leveling:T=4", 1));
    let levels: Vec<_> = stats.levels.iter().map(|level| (level.runs.len(), level.runs_above_slots())).collect();
    assert_eq!(levels, [(0, 0), (10, 9)]);
    let pause = db.pause_compactions();
    assert!(db.stats().compactions_paused);
    drop(pause);
    assert!(!db.stats().compactions_paused);
    Ok(())
}

/// Compactions in progress, checked after each step of their worker: written and remaining bytes
/// add up, their runs are in their level, cut tables are part live and part stale, and no byte of a
/// finished table is missing or counted twice.
#[test]
fn compactions_in_progress() -> Result<()> {
    let sim = SimEnv::new(3);
    let db = open(&sim, "leveling:T=4")?;
    let (mut looks, mut cut) = (0, 0);
    for buffer in 0..20 {
        put(&db, 30 * buffer, 30)?;
        db.flush()?;
        let mut begun = None;
        while sim.step_background() {
            let stats = db.stats();
            assert_eq!(stats.debt_bytes, stats.jobs.iter().map(|job| job.left_bytes).sum::<u64>());
            let Some(job) = stats.jobs.first() else {
                begun = None;
                continue;
            };
            looks += 1;
            assert!(!job.is_flush && job.cause.contains("is full"), "{job:?}");
            let level = &stats.levels[job.target_level - 1];
            let in_compaction: Vec<u64> = level.runs.iter().filter(|run| run.in_compaction).map(|run| run.id).collect();
            assert_eq!(in_compaction[..job.inputs.len()], job.inputs, "{job:?}");
            assert_eq!(level.runs_in_compactions(), job.inputs.len() + 1, "inputs and output");
            let now = (job.inputs.clone(), job.done_bytes + job.left_bytes);
            assert_eq!(begun.get_or_insert_with(|| now.clone()), &now, "done and left add up");
            assert_eq!(stats.compaction_bytes_per_second.is_none(), stats.debt_seconds.is_none());
            cut += u64::from(stats.space.stale_bytes > 0);
            // Shares are rounded down, once per slice.
            let in_runs: u64 = stats.levels.iter().map(|level| level.total().file_bytes).sum();
            assert!(in_runs.abs_diff(stats.space.live_bytes) < 100, "{in_runs} bytes in runs: {:?}", stats.space);
            let space = stats.space;
            let counted = space.live_bytes + space.stale_bytes + space.pending_delete_bytes;
            // Output in progress is in no table yet: at most a table, plus the entry and the footer
            // that exceed its size.
            let unfinished = table_bytes(&sim) - counted;
            assert!(unfinished <= 1000 + 1000, "{unfinished} bytes are of unfinished tables");
        }
        assert_eq!(db.stats().debt_bytes, 0);
    }
    assert!(looks > 20 && cut > 20, "{looks} samples of compactions, {cut} of cut tables");
    Ok(())
}

/// The predicted time to clear the debt, in the middle of each larger compaction on a device that
/// takes a tenth of a millisecond per byte, is within a factor of three of the measured time: the
/// speed is an average that includes flushes, which read no file.
#[test]
fn the_time_to_clear_is_predicted() -> Result<()> {
    let sim = SimEnv::new(4);
    let db = open(&sim, "leveling:T=4")?;
    sim.set_cost(Duration::ZERO, Duration::from_micros(100));
    let mut predicted = 0;
    for buffer in 0..30 {
        put(&db, 30 * buffer, 30)?;
        db.flush()?;
        let mut estimate = None;
        while sim.step_background() {
            let stats = db.stats();
            match (stats.debt_seconds, estimate) {
                (Some(seconds), None) if stats.jobs.iter().any(|job| job.left_bytes > 15_000) => {
                    estimate = Some((seconds, sim.now()));
                }
                (_, Some((seconds, then))) if stats.jobs.is_empty() => {
                    let took = (sim.now() - then).as_secs_f64();
                    assert!(took < 3.0 * seconds && seconds < 3.0 * took, "{seconds} s predicted, {took} s measured");
                    predicted += 1;
                    estimate = None;
                }
                _ => {}
            }
        }
    }
    assert!(predicted >= 3, "{predicted} compactions were large enough");
    Ok(())
}

/// Space that a reader pins is counted until it is released. A scan pins from its first step on.
#[test]
fn what_readers_hold() -> Result<()> {
    let sim = SimEnv::new(3);
    let db = open(&sim, "tiering:T=100")?;
    put(&db, 0, 300)?;
    db.flush()?;
    let before = db.stats().space;
    let mut reader = db.scan(..);
    assert!(reader.next().transpose()?.is_some());
    db.compact()?;
    let after = db.stats().space;
    assert_eq!(after.pending_delete_bytes, before.live_bytes);
    assert_eq!(after.live_bytes + after.pending_delete_bytes, table_bytes(&sim));
    drop(reader);
    sim.run_background_until_idle();
    let mut deleted = after;
    deleted.pending_delete_bytes = 0;
    assert_eq!(db.stats().space, deleted);
    assert_eq!(after.live_bytes, table_bytes(&sim));
    Ok(())
}

/// Work that an earlier process began is continued and reported as resumed.
#[test]
fn a_resumed_compaction_is_reported() -> Result<()> {
    let sim = SimEnv::new(4);
    let db = open(&sim, "leveling:T=3")?;
    put(&db, 0, 200)?;
    while db.stats().jobs.iter().all(|job| job.is_flush) {
        put(&db, 0, 1)?;
        sim.step_background();
    }
    db.close()?;
    let db = open(&sim, "leveling:T=3")?;
    let stats = db.stats();
    assert_eq!(stats.jobs.len(), 1);
    assert_eq!(stats.jobs[0].cause, "resumed from before the database was opened");
    db.wait_for_compactions()?;
    assert_eq!(db.stats().jobs.len(), 0);
    Ok(())
}

/// Waiting for compactions returns at once if none is due.
#[test]
fn waiting_for_nothing_ends() -> Result<()> {
    let db = open(&SimEnv::new(5), "leveling:T=10")?;
    db.wait_for_compactions()?;
    db.wait_for_compactions()
}

/// Opening a database with default options changes nothing; a memory budget determines the size of
/// memtables.
#[test]
fn memtables_keep_their_size() -> Result<()> {
    let sim = SimEnv::new(6);
    let db = open(&sim, "tiering:T=4")?;
    put(&db, 0, 500)?;
    db.wait_for_compactions()?;
    let before = db.stats();
    db.close()?;
    let db = Options::new().advanced(advanced(&sim)).open("/db")?;
    let after = db.stats();
    assert_eq!((after.policy, after.memtable_capacity_bytes), (before.policy, 3000));
    let capacities = |levels: &[LevelStats]| levels.iter().map(|level| level.capacity_bytes).collect::<Vec<_>>();
    assert_eq!(capacities(&after.levels), capacities(&before.levels));
    db.close()?;
    let db = Options::new().memory_bytes(8 << 20).advanced(advanced(&sim)).open("/db")?;
    assert_eq!(db.stats().memtable_capacity_bytes, 1 << 20);
    Ok(())
}

/// The index of a table that is wholly in memory takes at most 0.7 % of the table's size with
/// entries of 1 KiB, of which three fill a block of 4 KiB, and 0.6 % with small entries.
#[test]
fn indexes_are_small() -> Result<()> {
    for (key_bytes, value_bytes, percent_max) in [(24, 1024, 0.7), (16, 100, 0.6)] {
        let sim = SimEnv::new(1);
        let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).index_bytes(1 << 20);
        let advanced = advanced.memtable_bytes(64 << 20).table_bytes(64 << 20);
        let db = Options::new().threads(1).compression(Compression::None).advanced(advanced).open("/db")?;
        let count = (16 << 20) / (key_bytes + value_bytes);
        let key = |number: usize| format!("key {:0width$}", 7 * number, width = key_bytes - 4);
        for number in 0..count {
            db.put(key(number), vec![b'v'; value_bytes])?;
        }
        db.flush()?;
        // Each block is read, and so each index block.
        for number in (0..count).step_by(3) {
            assert!(db.get(key(number))?.is_some());
        }
        let (indexes, tables) = (db.stats().memory.indexes_bytes, table_bytes(&sim));
        let percent = 100.0 * indexes as f64 / tables as f64;
        println!("{indexes} bytes of indexes for {tables} of tables: {percent:.3} %");
        assert!((0.3..=percent_max).contains(&percent), "{percent} %");
    }
    Ok(())
}
