//! An automatic policy: the navigator changes the design of a tree in use, says why, and leaves
//! alone what it is not to change.

use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Event, Options, Result};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, SimEnv, sim};
use tamarack_testing::Random;

const ENTRIES: u64 = 40_000;
const MEMORY_BYTES: u64 = 4 << 20;
const FAR: sim::Device = sim::Device::NETWORK_VOLUME;
/// The policy of a new database.
const FIRST: &str = "auto:leveling:T=5,first=4";

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn options(env: &SimEnv) -> Options {
    Options::new().memory_bytes(MEMORY_BYTES).threads(1).advanced(advanced(env))
}

fn advanced(env: &SimEnv) -> AdvancedOptions {
    AdvancedOptions::new().env(Arc::new(env.clone())).direct_io(true)
}

fn load(db: &Db) -> Result<()> {
    (0..ENTRIES).try_for_each(|number| db.put(key(number), [b'v'; 100]))?;
    db.flush()?;
    db.wait_for_compactions()
}

/// Lets the controller look at what has happened.
fn look(env: &SimEnv) {
    for _ in 0..3 {
        env.sleep_until(env.now() + Duration::from_secs(2));
    }
}

fn scans(db: &Db, number: u64) -> Result<()> {
    let random = &mut Random::new(3);
    for _ in 0..number {
        let from = key(random.below(ENTRIES));
        db.scan(from..).limit(10).try_for_each(|entry| entry.map(drop))?;
    }
    Ok(())
}

/// All is there, once.
fn check(db: &Db) -> Result<()> {
    for number in (0..ENTRIES).step_by(97) {
        assert!(db.get(key(number))?.is_some_and(|value| *value == [b'v'; 100]), "{number}");
    }
    assert_eq!(db.scan(..).count() as u64, ENTRIES);
    Ok(())
}

/// A tree of many runs that is scanned gets fewer, and says why; the design outlives closing, and
/// another workload changes it again.
#[test]
fn designs_follow_the_workload() -> Result<()> {
    let env = SimEnv::new(5);
    let told: Arc<Mutex<Vec<String>>> = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let listener = {
        let told = told.clone();
        Arc::new(move |event: &Event| {
            if let Event::DesignDecided { decision } = event
                && decision.is_change
            {
                told.lock().push(decision.reason.clone());
            }
        })
    };
    let policy = "auto:tiering:T=10";
    let db = options(&env).listener(listener).advanced(advanced(&env).policy(policy)).open("/db")?;
    load(&db)?;
    let runs = |db: &Db| db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>();
    let before = runs(&db);
    scans(&db, 100_000)?;
    look(&env);
    let stats = db.stats();
    let change = stats.decisions.iter().find(|decision| decision.is_change).expect("a change");
    assert_eq!(change.policy_before, "tiering:T=10");
    assert!(stats.policy.starts_with("auto:") && stats.policy != policy, "{}", stats.policy);
    assert!(change.op_seconds < 0.9 * change.op_seconds_before, "{change:?}");
    assert!(change.reason.contains("scans of 10 entries") && change.reason.contains("repay"), "{}", change.reason);
    db.flush()?;
    db.wait_for_compactions()?;
    assert!(runs(&db) < before, "{} of {before} runs", runs(&db));
    check(&db)?;
    let chosen = stats.policy.clone();
    db.close()?;
    assert!(told.lock().iter().any(|reason| reason.contains("scans")));

    let db = options(&env).open("/db")?;
    assert_eq!((db.stats().policy, db.stats().decisions.len()), (chosen.clone(), 0));
    assert_eq!(db.stats().memtable_capacity_bytes, change.memtable_bytes, "the budget does not change what was chosen");
    assert!(db.design_history().last().is_some_and(|last| last.contains("scans of 10 entries")));
    for round in 0..10 {
        (0..ENTRIES).try_for_each(|number| db.put(key((number * 7 + round) % ENTRIES), [b'v'; 100]))?;
    }
    look(&env);
    assert_ne!(db.stats().policy, chosen, "{:?}", db.stats().decisions);
    db.flush()?;
    check(&db)
}

/// Where another design does not pay, runs become one if reads repay that; the reason is told, and
/// nothing is lost.
#[test]
fn runs_become_one_for_reads() -> Result<()> {
    let env = SimEnv::new(8);
    let advanced = advanced(&env).policy("auto:leveling:T=20").memtable_bytes(32 << 10);
    let db = options(&env).advanced(advanced).open("/db")?;
    load(&db)?;
    // Some runs above the last one, which a tree at rest leaves where they are.
    (0..ENTRIES / 8).try_for_each(|number| db.put(key(number * 8), [b'v'; 100]))?;
    db.flush()?;
    db.wait_for_compactions()?;
    let runs = |db: &Db| db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>();
    let before = runs(&db);
    assert!(before > 1, "{before} runs");
    for _ in 0..6 {
        scans(&db, 60_000)?;
        look(&env);
    }
    db.wait_for_compactions()?;
    let stats = db.stats();
    let told = stats.decisions.iter().find(|decision| decision.reason.contains("are to become one"));
    let told = told.unwrap_or_else(|| panic!("{:?}", stats.decisions));
    assert!(!told.is_change, "{told:?}");
    assert_eq!(runs(&db), 1, "{:?}", stats.levels);
    check(&db)
}

/// Only an automatic policy is changed; it begins with the policy that was there, ends with the
/// next one that is given.
#[test]
fn only_automatic_policies_change() -> Result<()> {
    let env = SimEnv::new(6);
    let db = options(&env).advanced(advanced(&env).policy("tiering:T=10")).open("/db")?;
    load(&db)?;
    scans(&db, 50_000)?;
    look(&env);
    assert_eq!((db.stats().policy.as_str(), db.stats().decisions.len()), ("tiering:T=10", 0));
    db.set_policy("auto")?;
    assert_eq!(db.stats().policy, "auto:tiering:T=10");
    look(&env);
    assert_eq!(db.stats().decisions.len(), 0, "what came before does not count");
    scans(&db, 50_000)?;
    look(&env);
    assert!(!db.stats().decisions.is_empty());
    db.set_policy("leveling:T=4")?;
    let decisions = db.stats().decisions.len();
    scans(&db, 50_000)?;
    look(&env);
    assert_eq!((db.stats().policy.as_str(), db.stats().decisions.len()), ("leveling:T=4", decisions));
    db.close()?;
    let db = options(&env).advanced(advanced(&env).policy("auto")).open("/db")?;
    assert_eq!(db.stats().policy, "auto:leveling:T=4");
    scans(&db, 50_000)?;
    drop(db);
    // Where nothing was chosen, memtables follow from the budget.
    for budget in [MEMORY_BYTES, 2 * MEMORY_BYTES] {
        let db = options(&env).memory_bytes(budget).open("/other")?;
        assert_eq!((db.stats().policy.as_str(), db.stats().memtable_capacity_bytes), (FIRST, budget / 8));
    }
    let db = options(&env).open_read_only("/db")?;
    assert_eq!((db.stats().policy.as_str(), db.stats().decisions.len()), ("auto:leveling:T=4", 0));
    Ok(())
}

/// A database that was idle for long notices within two seconds that it is used again: sampled
/// lookups and seeks wake the controller, and full memtables.
#[test]
fn idle_databases_notice_what_begins() -> Result<()> {
    for kind in ["lookups", "absent keys", "scans", "puts"] {
        let env = SimEnv::new(10);
        let db = options(&env).advanced(advanced(&env).policy("auto:tiering:T=10")).open("/db")?;
        load(&db)?;
        look(&env);
        // Six looks, after 1, 2, 4 … seconds; and one in the midst of the last pause.
        env.sleep_until(env.now() + Duration::from_secs(140));
        let decisions = db.stats().decisions.len();
        let random = &mut Random::new(5);
        for _ in 0..50_000 {
            match kind {
                "lookups" => drop(db.get(key(random.below(ENTRIES)))?),
                "absent keys" => drop(db.get(key(ENTRIES + random.below(ENTRIES)))?),
                "scans" => scans(&db, 1)?,
                _ => db.put(key(random.below(ENTRIES)), [b'v'; 100])?,
            }
        }
        env.sleep_until(env.now() + Duration::from_secs(2));
        assert_eq!(db.stats().decisions.len(), decisions + 1, "{kind}");
    }
    Ok(())
}

/// What reads take is measured where the database is, one alone and several at once, and stands in
/// the decision; unless it was calibrated, then the figures are those of the calibration.
#[test]
fn reads_are_measured() -> Result<()> {
    // Reads that pass together, and reads that wait for each other's transfers.
    let near = sim::Device { read_latency: Duration::from_micros(10), read_bytes_per_second: 40_000_000, ..FAR };
    for (device, other) in [(FAR, near), (near, FAR)] {
        let env = SimEnv::new(11);
        env.set_device(Some(device));
        let told = |device: sim::Device| -> Result<[f64; 2]> {
            // While it is measured, nothing else reads.
            env.set_device(None);
            let db = options(&env).open("/db")?;
            // The first look is what later ones compare with.
            look(&env);
            scans(&db, 50_000)?;
            env.set_device(Some(device));
            look(&env);
            let decision = db.stats().decisions.pop().expect("a decision");
            let words = format!("a block read takes {:.2} µs, 8 at once", 1e6 * decision.read_seconds);
            assert!(decision.reason.contains(&words), "{}: {words}", decision.reason);
            db.close()?;
            Ok([decision.read_seconds, decision.concurrent_reads_seconds])
        };
        let db = options(&env).open("/db")?;
        load(&db)?;
        db.close()?;
        // What is read is in two pages. Copies of the processor overlap.
        let [transfer, copy] =
            [device.read_bytes_per_second, device.cpu_bytes_per_second].map(|rate| 4096.0 / rate as f64);
        let expected = [1.0, 8.0].map(|reads| device.read_latency.as_secs_f64() + 2.0 * reads * transfer + copy);
        let close =
            |found: [f64; 2]| found.iter().zip(expected).all(|(found, expected)| (found / expected - 1.0).abs() < 0.05);
        let found = told(device)?;
        assert!(close(found), "{found:?}, not {expected:?}");
        options(&env).calibrate("/db", 4 << 20, Duration::from_secs(2), &mut |_, _| {})?;
        let found = told(other)?;
        assert!(close(found), "calibrated {expected:?}, and took {found:?}");
    }
    Ok(())
}

/// How lookups choose among keys is told from the present ones and all that is cached: neither what
/// was hot before nor blocks in the cache make uniform lookups look skewed. That absent keys do not
/// count as hits is shown where hits are counted.
#[test]
fn skew_is_that_of_the_present_lookups() -> Result<()> {
    let env = SimEnv::new(12);
    // Much more than the cache has room for.
    let options = options(&env).compression(Compression::None).memory_bytes(MEMORY_BYTES * 3 / 4);
    let db = options.advanced(advanced(&env).policy("auto").filter("none")).open("/db")?;
    load(&db)?;
    look(&env);
    env.set_device(Some(FAR));
    let random = &mut Random::new(6);
    let mut lookups = |first: u64, keys: u64, rounds: u64| -> Result<_> {
        for _ in 0..rounds {
            (0..20_000).try_for_each(|_| db.get(key(first + random.below(keys))).map(drop))?;
            look(&env);
        }
        let decision = db.stats().decisions.pop().expect("a decision");
        // How many blocks a lookup is expected to read.
        Ok((decision.op_seconds_before / decision.read_seconds, decision))
    };
    let (hot_reads, hot) = lookups(0, 500, 20)?;
    lookups(ENTRIES, 500, 3)?;
    let (uniform_reads, uniform) = lookups(0, ENTRIES, 3)?;
    let counts = db.stats().lookups;
    assert!(counts.cached_absences > 50_000 && counts.cached_entries > counts.cached_absences + 50_000, "{counts:?}");
    assert!(hot_reads < 0.01, "{hot:?}");
    // About a half of the data is cached.
    assert!(uniform_reads > 0.4, "{uniform:?}");
    Ok(())
}

/// Filters and memtables that the user has set stay.
#[test]
fn what_is_given_stays() -> Result<()> {
    let env = SimEnv::new(7);
    let filter = "bloom:bits=7";
    let advanced = advanced(&env).policy("auto:tiering:T=10").filter(filter).memtable_bytes(200_000);
    let db = options(&env).advanced(advanced).open("/db")?;
    load(&db)?;
    scans(&db, 100_000)?;
    look(&env);
    let stats = db.stats();
    let change = stats.decisions.iter().find(|decision| decision.is_change).expect("a change");
    assert_eq!((change.filter.as_str(), change.memtable_bytes), (filter, 200_000));
    assert_eq!(stats.memtable_capacity_bytes, 200_000);
    Ok(())
}

/// So do filters that are set while the database is in use, and those of tables without digests, of
/// which no others could be made.
#[test]
fn filters_stay_that_are_set_or_could_not_be_made_again() -> Result<()> {
    for without_digests in [false, true] {
        let env = SimEnv::new(9);
        let advanced = advanced(&env).policy("auto:tiering:T=10").filter_digests(!without_digests);
        let db = options(&env).advanced(advanced).open("/db")?;
        load(&db)?;
        if !without_digests {
            db.set_filter("bloom:bits=3")?;
        }
        let random = &mut Random::new(4);
        for _ in 0..100_000 {
            db.get(key(ENTRIES + random.below(ENTRIES)))?;
        }
        look(&env);
        let decisions = db.stats().decisions;
        let filter = if without_digests { "blocked:bits=10,allocation=monkey" } else { "bloom:bits=3" };
        assert!(!decisions.is_empty() && decisions.iter().all(|decision| decision.filter == filter), "{decisions:?}");
    }
    Ok(())
}

/// The counters that the monitor is fed with are exact.
#[test]
fn operations_are_counted() -> Result<()> {
    let env = SimEnv::new(8);
    let db = options(&env).open("/db")?;
    for number in 0..1_000 {
        db.put(key(number), "value")?;
    }
    db.flush()?;
    for number in 0..1_000 {
        db.put(key(number / 2), "young")?;
    }
    db.delete(key(0))?;
    let before = (db.stats().lookups, db.stats().scans);
    for number in 0..3_000 {
        db.get(key(number))?;
    }
    db.contains_key(key(5_000))?;
    db.multi_get(&[key(0), key(1), key(999), key(1_000), key(7_000)])?;
    // A deleted key is found: its tombstone ends the lookup.
    let lookups = db.stats().lookups;
    assert_eq!(lookups.lookups - before.0.lookups, 3_006);
    assert_eq!(lookups.zero_result - before.0.zero_result, 2_003);
    let mut entries = 0;
    for number in 0..200_usize {
        let mut scan = db.scan(key(number as u64)..).limit(1 + number % 70);
        entries += scan.by_ref().take(number % 50).count();
    }
    entries += db.scan(..).rev().count();
    drop(db.scan(..));
    let mut lent = db.scan(..).limit(500);
    for _ in 0..40 {
        entries += usize::from(lent.next_lent()?.is_some()) + usize::from(lent.next_back_lent()?.is_some());
    }
    drop(lent.limit(3));
    let scans = db.stats().scans;
    // One of those that take nothing was never begun, and so are the four with `take(0)`.
    assert_eq!((scans.scans - before.1.scans, scans.entries - before.1.entries), (198, entries as u64));
    Ok(())
}
