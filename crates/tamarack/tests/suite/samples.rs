//! Sampled statistics of runs' lookups are close to the exact ones: for uniform and skewed keys,
//! keys in a fixed order with the same period as samples, and lookups of many keys; those of writes
//! are, too. And the same history is sampled in the same way.
//!
//! Bounds are six standard deviations; nothing here depends on time.

use std::sync::Arc;
use std::time::Duration;

use tamarack::{
    AdvancedOptions, Batch, Compression, Db, Durability, LOOKUPS_PER_SAMPLE, Options, Result, RunLookups, RunStats,
    Stats, WRITES_PER_SAMPLE,
};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};

/// The entries of each run, and the gap between two of its keys.
const ENTRIES: u64 = 2000;

/// The keys of run `run`, the youngest 0, are the numbers below `ENTRIES` before this byte.
fn key(run: u8, number: u64) -> [u8; 9] {
    let mut key = [run; 9];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A tree of three runs of different keys over the same range, with filters of many false
/// positives.
fn tree(env: Arc<dyn Env>) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(env).filter("blocked:bits=5").policy("tiering:T=10").table_bytes(16_000);
    // A put takes 22 raw bytes.
    let advanced = advanced.memtable_bytes(ENTRIES * 22);
    let db = Options::new().compression(Compression::None).threads(1).advanced(advanced).open("/db")?;
    for run in [2, 1, 0] {
        (0..ENTRIES).try_for_each(|number| db.put(key(run, number), "value"))?;
        db.flush()?;
    }
    db.wait_for_compactions()?;
    assert_eq!(runs(&db.stats()).len(), 3);
    Ok(db)
}

/// Young to old.
fn runs(stats: &Stats) -> Vec<RunStats> {
    stats.levels.iter().flat_map(|level| level.runs.clone()).collect()
}

/// Fails unless `estimated`, which comes from samples, is about `exact`.
fn assert_near(what: &str, estimated: u64, exact: u64) {
    let deviation = ((exact * LOOKUPS_PER_SAMPLE) as f64).sqrt();
    let difference = estimated as f64 - exact as f64;
    assert!(difference.abs() <= 6.0 * deviation + 1.0, "{what}: {estimated} instead of {exact}, ± {deviation:.0}");
}

/// Looks up keys of run 0, 1, 2 and of none (3), as the function says, and compares the runs'
/// statistics.
fn check(what: &str, db: &Db, lookups: u64, mut next: impl FnMut(u64) -> (u8, u64)) -> Result<()> {
    let before = db.stats();
    let mut of_run = [0_u64; 4];
    for nth in 0..lookups {
        let (run, number) = next(nth);
        of_run[usize::from(run)] += 1;
        assert_eq!(db.get(key(run, number))?.is_some(), run < 3);
    }
    let after = db.stats();
    assert_near(what, (after.lookups_sampled - before.lookups_sampled) * LOOKUPS_PER_SAMPLE, lookups);
    let mut came = lookups;
    for (run, (before, after)) in runs(&before).into_iter().zip(runs(&after)).enumerate() {
        let zero_result = came - of_run[run];
        let RunLookups { sampled, sampled_zero_result, filter_false_positives, .. } = before.lookups;
        let seen = (after.lookups.sampled - sampled) * LOOKUPS_PER_SAMPLE;
        // Keys after the last of the run reach no table: one in `ENTRIES`.
        assert_near(what, seen, came);
        assert_near(what, (after.lookups.sampled_zero_result - sampled_zero_result) * LOOKUPS_PER_SAMPLE, zero_result);
        let measured = (after.lookups.filter_false_positives - filter_false_positives) as f64 / zero_result as f64;
        println!("{what}, run {run}: {measured:.4} false positives, predicted {:.4}", after.filter_fpr);
        came = zero_result;
    }
    let exact: u64 = runs(&after).iter().map(|run| run.lookups.filter_false_positives).sum();
    assert_eq!(exact, after.lookups.filter_false_positives, "the runs' false positives add up");
    Ok(())
}

/// Holds for any order of the keys.
#[test]
fn runs_see_what_comes_to_them() -> Result<()> {
    let db = tree(MemoryEnv::new(1))?;
    let random = Random::new(7);
    check("uniform", &db, 100_000, |_| (random.below(4) as u8, random.below(ENTRIES - 1)))?;
    check("mostly the youngest", &db, 100_000, |_| {
        (if random.below(100) < 90 { 0 } else { random.below(4) as u8 }, random.below(ENTRIES - 1))
    })?;
    // One lookup in 64, always at the same place, is of a key that no run has.
    let period = LOOKUPS_PER_SAMPLE;
    check("in a fixed order", &db, 400_000, |nth| (if nth % period == 0 { 3 } else { 0 }, random.below(ENTRIES - 1)))?;
    Ok(())
}

/// The measured rates, to be compared with the model's predictions.
#[test]
fn rates_are_those_of_the_filters() -> Result<()> {
    let db = tree(MemoryEnv::new(1))?;
    let random = Random::new(3);
    let lookups = 400_000;
    for _ in 0..lookups {
        assert!(!db.contains_key(key(3, random.below(ENTRIES - 1)))?);
    }
    let stats = db.stats();
    for run in runs(&stats) {
        let measured = run.lookups.false_positive_rate().expect("there were some");
        // Filters of so few entries differ among each other; the samples add 1.3 %.
        assert!((measured / run.filter_fpr - 1.0).abs() < 0.15, "{measured} instead of {}", run.filter_fpr);
        assert!((4.8..5.2).contains(&run.filter_bits_per_entry()), "{}", run.filter_bits_per_entry());
        // Every lookup has passed every run.
        assert!((run.lookups.zero_results_per_lookup - 1.0).abs() < 0.01, "{:?}", run.lookups);
        assert_eq!(run.lookups.sampled_filter_lines, run.lookups.sampled, "a blocked filter takes one cache line");
    }
    let latencies = stats.latencies;
    assert_eq!(latencies.not_found.samples(), stats.lookups_sampled);
    assert!(latencies.not_found.percentile_ns(500) <= latencies.not_found.percentile_ns(999));
    assert_eq!(latencies.found_in_memory.samples() + latencies.found_by_reads.samples(), 0);
    Ok(())
}

/// A new table is compared with the lookups since then.
#[test]
fn young_tables_are_not_taken_for_unread() -> Result<()> {
    let db = tree(MemoryEnv::new(1))?;
    let random = Random::new(5);
    let look = |count| (0..count).try_for_each(|_| db.contains_key(key(3, random.below(ENTRIES - 1))).map(|_| ()));
    look(50_000)?;
    (0..ENTRIES).try_for_each(|number| db.put(key(4, number), "value"))?;
    db.flush()?;
    look(50_000)?;
    let runs = runs(&db.stats());
    assert_eq!(runs.len(), 4);
    for run in &runs {
        assert!((run.lookups.zero_results_per_lookup - 1.0).abs() < 0.01, "{:?}", run.lookups);
    }
    assert_near("the young run", runs[0].lookups.estimated_zero_result(), 50_000);
    assert_near("the others", runs[1].lookups.estimated_zero_result(), 100_000);
    Ok(())
}

/// Each key of a call is sampled by itself.
#[test]
fn lookups_of_many_keys_are_sampled() -> Result<()> {
    let db = tree(MemoryEnv::new(1))?;
    let random = Random::new(9);
    let (calls, keys) = (4000, 50);
    let mut in_oldest = 0;
    for _ in 0..calls {
        let keys: Vec<_> = (0..keys).map(|_| key(random.below(4) as u8, random.below(ENTRIES - 1))).collect();
        in_oldest += keys.iter().filter(|key| key[8] >= 2).count() as u64;
        assert_eq!(db.multi_get(&keys)?.iter().flatten().count(), keys.iter().filter(|key| key[8] < 3).count());
    }
    let stats = db.stats();
    assert_eq!(stats.lookups.lookups, calls * keys);
    assert_near("keys", stats.lookups_sampled * LOOKUPS_PER_SAMPLE, calls * keys);
    assert_near("the oldest run", runs(&stats)[2].lookups.estimated(), in_oldest);
    assert_near("calls", stats.latencies.multi_gets.samples() * LOOKUPS_PER_SAMPLE, calls);
    Ok(())
}

/// About one write in [`WRITES_PER_SAMPLE`] is sampled, and its latency is what the clock shows: by
/// one writer on the simulator, whose every call takes a hundred microseconds, the two of a synced
/// put. Each of a pattern of long and short writes counts in proportion.
#[test]
fn writes_are_sampled() -> Result<()> {
    const CALL: Duration = Duration::from_micros(100);
    const WRITES: u64 = 60_000;
    let sim = SimEnv::new(1);
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(1 << 24);
    let db = Options::new().threads(1).advanced(advanced).open("/db")?;
    sim.set_cost(CALL, Duration::ZERO);
    let put = |number: u64, durability| db.write_with(Batch::new().put(number.to_be_bytes(), "value"), durability);
    for number in 0..WRITES {
        // One in four waits for a sync.
        put(number, if number % 4 == 0 { Durability::Sync } else { Durability::Buffered })?;
    }
    let stats = db.stats();
    let writes = &stats.latencies.writes;
    let deviation = ((WRITES * WRITES_PER_SAMPLE) as f64).sqrt();
    let difference = (writes.samples() * WRITES_PER_SAMPLE) as f64 - WRITES as f64;
    assert!(difference.abs() < 6.0 * deviation, "{} samples of {WRITES} writes", writes.samples());
    // Buffered: the append alone.
    let latencies = [1, 500, 700, 800, 1000].map(|per_mille| writes.percentile_ns(per_mille));
    let near = |ns: u64, calls: u32| ns.abs_diff((calls * CALL).as_nanos() as u64) * 32 <= ns;
    assert!(near(latencies[0], 1) && near(latencies[1], 1) && near(latencies[4], 2), "{latencies:?}");
    // A quarter takes twice as long: 60,000 / 256 samples have a standard deviation of 2.8 % in
    // that share.
    let synced = writes.sum_ns() / CALL.as_nanos() as u64 - writes.samples();
    let share = synced as f64 / writes.samples() as f64;
    assert!((share - 0.25).abs() < 6.0 * 0.0283, "{share} of the samples were synced");
    assert_eq!(stats.latencies.not_found.samples(), 0);
    Ok(())
}

/// Writes of several threads are sampled together, and those that fail are not counted.
#[test]
fn writes_of_threads_are_sampled() -> Result<()> {
    const EACH: u64 = 20_000;
    let db = tree(MemoryEnv::new(1))?;
    let before = db.stats().latencies.writes.samples();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let db = &db;
            scope.spawn(move || {
                (0..EACH)
                    .try_for_each(|number| db.put((thread * EACH + number).to_be_bytes(), "value"))
                    .expect("memory")
            });
        }
    });
    let sampled = db.stats().latencies.writes.samples() - before;
    // A write that begins while another one is about to be told that it is sampled may miss its
    // turn, so that there are a few less.
    let deviation = ((4 * EACH * WRITES_PER_SAMPLE) as f64).sqrt();
    let difference = (sampled * WRITES_PER_SAMPLE) as f64 - (4 * EACH) as f64;
    assert!(difference.abs() < 6.0 * deviation, "{sampled} samples of {} writes", 4 * EACH);
    let before = db.stats().latencies.writes.samples();
    for _ in 0..2000 {
        assert!(db.put(vec![b'k'; 1 << 17], "too long a key").is_err());
    }
    assert_eq!(db.stats().latencies.writes.samples(), before, "failed writes are not counted");
    Ok(())
}

/// On the simulator, a repeated history samples the same lookups, which take the device's time.
#[test]
fn samples_of_a_history_repeat() -> Result<()> {
    let once = || -> Result<_> {
        let sim = SimEnv::new(1);
        let db = tree(Arc::new(sim))?;
        let random = Random::new(2);
        for _ in 0..20_000 {
            db.get(key(random.below(4) as u8, random.below(ENTRIES - 1)))?;
        }
        let stats = db.stats();
        let of_runs: Vec<RunLookups> = runs(&stats).iter().map(|run| run.lookups).collect();
        Ok((stats.lookups_sampled, of_runs, stats.latencies))
    };
    assert_eq!(once()?, once()?);
    Ok(())
}
