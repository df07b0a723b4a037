//! Compactions for other reasons than a full level: requests for a range of keys, reshaping at
//! once, tombstones that are due; and the effect of a rate limit and a pause on all of them.

use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Db, Error, Event, Options};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv};
use tamarack_model::planner;

use crate::model::{Model, all, write_at_random};

fn open(env: &SimEnv, advanced: AdvancedOptions) -> Db {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let advanced = advanced.env(env).memtable_bytes(1500).block_bytes(128).table_bytes(400);
    Options::new().threads(2).advanced(advanced).open("/db").expect("it opens")
}

/// For random ranges and trees: what is read stays the same, each key of the range that has a value
/// has one version, the others have none, and what is outside stays where it is.
#[test]
fn a_range_is_compacted() {
    for seed in 0..60 {
        let env = SimEnv::new(seed);
        let random = Random::new(seed);
        let policy = ["tiering:T=30", "leveling:T=4", "tiering:T=3"][random.below(3) as usize];
        let db = open(&env, AdvancedOptions::new().policy(policy));
        let mut model = Model::new();
        write_at_random(&db, &random, 900, 300, 3, &mut model);
        for _ in 0..3 {
            let (a, b) = (random.below(320), random.below(320));
            let (from, to) = (format!("key {:03}", a.min(b)), format!("key {:03}", a.max(b)));
            match random.below(3) {
                0 => db.compact_range(&*from..).unwrap(),
                1 => db.compact_range(..=&*to).unwrap(),
                _ => db.compact_range(&*from..&*to).unwrap(),
            }
            assert_eq!(all(&db), model, "seed {seed}");
            let report = db.verify(&mut |_, _| {}).unwrap();
            assert!(report.is_ok(), "seed {seed}: {report:?}");
            write_at_random(&db, &random, 60, 300, 3, &mut model);
        }
        db.compact_range(..).unwrap();
        let stats = db.stats();
        let runs: Vec<_> = stats.levels.iter().flat_map(|level| &level.runs).collect();
        assert_eq!(runs.len(), 1, "seed {seed}: all keys are a range too");
        assert_eq!((runs[0].entries, runs[0].tombstones), (model.len() as u64, 0), "seed {seed}");
        db.close().unwrap();
        assert_eq!(all(&open(&env, AdvancedOptions::new())), model, "seed {seed}");
    }
}

/// A change of policy moves nothing by itself, and waiting for compactions does not either; a
/// request to reshape brings the new shape about, whatever the policies, beside compactions in
/// progress, and after reopening; reads return the same.
#[test]
fn a_tree_takes_the_form_of_its_shape() {
    let policies = [
        "tiering:T=6",
        "leveling:T=3",
        "moose:last=0.8,k=1",
        "garnering:T=2,c=0.5",
        "qlsm-bush:T=2,X=2",
        "custom:buffer 1500; level 9000 in 6 runs; level 200000 in 2 runs",
    ];
    let mut merged = 0;
    for seed in 0..60 {
        let env = SimEnv::new(seed);
        let random = Random::new(seed);
        let draw = || policies[random.below(6) as usize];
        let mut db = open(&env, AdvancedOptions::new().policy(draw()));
        let mut model = Model::new();
        for _ in 0..3 {
            write_at_random(&db, &random, 700, 300, 3, &mut model);
            let to = draw();
            let stats = match random.below(3) {
                0 => {
                    // Something is in progress, and what is flushed meanwhile may become runs of
                    // its own.
                    let before = db.stats();
                    db.set_policy(to).unwrap();
                    db.reshape().unwrap();
                    assert_eq!(all(&db), model, "seed {seed}");
                    db.flush().unwrap();
                    before
                }
                1 => {
                    db.flush().unwrap();
                    db.wait_for_compactions().unwrap();
                    let before = db.stats();
                    db.set_policy(to).unwrap();
                    db.wait_for_compactions().unwrap();
                    assert_eq!(db.stats().compactions, before.compactions, "seed {seed}: nothing has arrived");
                    before
                }
                _ => {
                    drop(db);
                    db = open(&env, AdvancedOptions::new().policy(to));
                    let before = db.stats();
                    db.reshape().unwrap();
                    db.flush().unwrap();
                    before
                }
            };
            // Beside flushes and compactions a level may get a run too many; at rest it does not.
            db.wait_for_compactions().unwrap();
            db.reshape().unwrap();
            merged += db.stats().compactions - stats.compactions;
            let (shape, occupancy, _) = db.planned();
            let fits = |level| planner::fits(&shape, &occupancy, &[], level);
            assert!((1..=shape.last()).all(fits), "seed {seed}, {to}:\n{occupancy}is not of\n{shape}");
            assert_eq!(all(&db), model, "seed {seed}");
            let report = db.verify(&mut |_, _| {}).unwrap();
            assert!(report.is_ok(), "seed {seed}: {report:?}");
            let (before, pause) = (db.stats().compactions, db.pause_compactions());
            assert!(matches!(db.reshape(), Err(Error::InvalidArgument(_))), "seed {seed}");
            drop(pause);
            db.reshape().unwrap();
            assert_eq!(db.stats().compactions, before, "seed {seed}: it has its form");
        }
    }
    assert!(merged > 60, "{merged} compactions");
}

/// A compaction of a reshape reports that cause in its event; what a change costs is
/// refused where it cannot be reckoned.
#[test]
fn a_reshape_names_its_cause() {
    let sim = SimEnv::new(1);
    let causes = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let listener = {
        let causes = causes.clone();
        move |event: &Event| {
            if let Event::CompactionBegun { cause, .. } = event {
                causes.lock().push(cause.clone());
            }
        }
    };
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(1500).policy("tiering:T=30");
    let db = Options::new().advanced(advanced).listener(Arc::new(listener)).open("/db").unwrap();
    for number in 0..300 {
        db.put(format!("key {:03}", number * 7 % 300), "v".repeat(30)).unwrap();
    }
    db.flush().unwrap();
    db.set_policy("leveling:T=30").unwrap();
    db.reshape().unwrap();
    sim.run_background_until_idle();
    assert_eq!(*causes.lock(), ["reshape of level 1"]);
    for (words, bytes) in [("mouse", 0), ("leveling:T=4", u64::MAX)] {
        assert!(matches!(db.estimate_reshape(words, bytes), Err(Error::InvalidArgument(_))), "{words} {bytes}");
    }
}

/// Keys that are deleted leave nothing behind once enough else was written, though no level is ever
/// full.
#[test]
fn tombstones_do_not_stay_for_ever() {
    let env = SimEnv::new(1);
    let db = open(&env, AdvancedOptions::new().policy("tiering:T=100"));
    for number in 0..100 {
        db.put(format!("old {number:03}"), "v".repeat(50)).unwrap();
    }
    db.flush().unwrap();
    for number in 0..100 {
        db.delete(format!("old {number:03}")).unwrap();
    }
    let tombstones =
        |db: &Db| db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tombstones).sum::<u64>();
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert!(tombstones(&db) > 90, "it is too early: only those that met their key in a flush are gone");
    // The same few keys again and again, so that the tree does not grow as fast as it is written
    // to.
    for number in 0..4000 {
        db.put(format!("new {:02}", number % 20), "v").unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(tombstones(&db), 0, "{:?}", db.stats().levels);
    assert_eq!(all(&db).len(), 20);
}

/// A snapshot that still needs the entries under tombstones keeps them, and no compaction is wasted
/// on them meanwhile.
#[test]
fn tombstones_wait_for_snapshots() {
    let env = SimEnv::new(1);
    let db = open(&env, AdvancedOptions::new().policy("tiering:T=100"));
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let snapshot = db.snapshot();
    db.delete("key").unwrap();
    for number in 0..4000 {
        db.put(format!("new {:02}", number % 20), "v").unwrap();
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(db.stats().compactions, 0);
    assert!(snapshot.get("key").unwrap().is_some());
}

/// Compactions keep to a rate limit; without work or without limit, they take no additional time.
#[test]
fn compactions_keep_to_their_rate() {
    let env = SimEnv::new(1);
    let db = open(&env, AdvancedOptions::new().policy("tiering:T=100").compaction_bytes_per_second(10_000));
    for number in 0..500 {
        db.put(format!("key {:03}", number * 7 % 500), "v".repeat(50)).unwrap();
    }
    db.flush().unwrap();
    let began = env.now();
    db.compact().unwrap();
    let (took, copies) = (env.now() - began, 500 * (50 + 7 + 8));
    // The last step need not be waited for.
    let expected = Duration::from_secs_f64(f64::from(copies) / 10_000.0);
    assert!(took <= expected && took > expected / 2, "{took:?} for {copies} bytes, not {expected:?}");
}

/// A pause stops compactions, and requests for them return an error; afterwards all resume.
#[test]
fn a_pause_stops_compactions() {
    let env = SimEnv::new(1);
    let random = Random::new(1);
    let db = open(&env, AdvancedOptions::new().policy("tiering:T=3"));
    let mut model = Model::new();
    write_at_random(&db, &random, 300, 300, 3, &mut model);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    let (before, pause) = (db.stats().compactions, db.pause_compactions());
    write_at_random(&db, &random, 900, 300, 3, &mut model);
    db.flush().unwrap();
    env.run_background_until_idle();
    assert_eq!(db.stats().compactions, before);
    assert!(matches!(db.compact(), Err(Error::InvalidArgument(_))));
    let second = db.pause_compactions();
    drop(pause);
    env.run_background_until_idle();
    assert_eq!(db.stats().compactions, before, "somebody else still holds them");
    drop(second);
    // What was left lying is merged when something arrives.
    write_at_random(&db, &random, 900, 300, 3, &mut model);
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert!(db.stats().compactions > before);
    assert_eq!(all(&db), model);
}

/// A tree that nothing is flushed to for a second has one run in a first level of several slots,
/// and reads the same. While flushes go on it keeps its runs.
#[test]
fn a_tree_at_rest_has_one_run_in_its_first_level() {
    const FIRST: &str = "garnering:T=10,c=1,first=4";
    let runs = |db: &Db| db.stats().levels[0].runs.len();
    let rest = |env: &SimEnv, milliseconds| {
        env.advance(Duration::from_millis(milliseconds));
        env.run_background_until_idle();
    };
    for seed in 0..30 {
        let env = SimEnv::new(seed);
        let random = Random::new(seed);
        let mut model = Model::new();
        let db = open(&env, AdvancedOptions::new().policy(FIRST));
        write_at_random(&db, &random, 300 + random.below(700), 300, 3, &mut model);
        while {
            write_at_random(&db, &random, 20, 300, 3, &mut model);
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
            rest(&env, 1);
            runs(&db) < 3
        } {}
        rest(&env, 900);
        assert!(runs(&db) >= 3, "seed {seed}: not yet");
        // Puts that fill no memtable do not keep it from resting.
        db.put("key 000", "again").unwrap();
        model.insert("key 000".into(), "again".into());
        let written = db.stats().compaction_bytes;
        rest(&env, 5_000);
        assert_eq!(runs(&db), 1, "seed {seed}");
        assert!(db.stats().compaction_bytes > written);
        assert_eq!(all(&db), model, "seed {seed}");
        let written = db.stats().compaction_bytes;
        rest(&env, 10_000);
        assert_eq!(db.stats().compaction_bytes, written, "seed {seed}: nothing is left to do");
        // It rests from the last flush on, whatever came before.
        let mut most = 0;
        for _ in 0..20 {
            write_at_random(&db, &random, 5, 300, 3, &mut model);
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
            rest(&env, 950);
            most = most.max(runs(&db));
        }
        assert!(most > 1, "seed {seed}: {most}");
        let report = db.verify(&mut |_, _| {}).unwrap();
        assert!(report.is_ok(), "seed {seed}: {report:?}");
        while runs(&db) < 2 {
            write_at_random(&db, &random, 20, 300, 3, &mut model);
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
        }
        db.close().unwrap();
        // Also when it was opened with its runs.
        let db = open(&env, AdvancedOptions::new());
        assert_eq!(all(&db), model, "seed {seed}");
        env.run_background_until_idle();
        assert!(runs(&db) >= 2, "seed {seed}");
        rest(&env, 1_000);
        assert_eq!(runs(&db), 1, "seed {seed}");
        assert_eq!(all(&db), model, "seed {seed}");
    }
}

/// While compactions are paused, or the disk's space is low, a tree keeps its runs. Where the next
/// level has as many slots, or would have in a larger tree, it always does.
#[test]
fn what_is_awaited_keeps_a_tree_from_resting() {
    let three_runs_with = |policy, limit: Option<u64>| {
        let env = SimEnv::new(1);
        let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy(policy);
        let mut advanced = advanced.memtable_bytes(1500).block_bytes(128).table_bytes(400);
        if let Some(bytes) = limit {
            advanced = advanced.compaction_bytes_per_second(bytes);
        }
        let db = Options::new().threads(1).advanced(advanced).open("/db").unwrap();
        for number in 0..100 {
            if db.stats().levels[0].runs.len() == 3 {
                break;
            }
            db.put(format!("key {number}"), [b'v'; 1400]).unwrap();
            db.flush().unwrap();
        }
        db.wait_for_compactions().unwrap();
        env.run_background_until_idle();
        (env, db)
    };
    let three_runs = |policy| three_runs_with(policy, None);
    let runs_after_seconds = |env: &SimEnv, db: &Db, seconds| {
        for _ in 0..seconds {
            env.advance(Duration::from_secs(1));
            env.run_background_until_idle();
        }
        db.stats().levels[0].runs.len()
    };
    let runs_after = |env: &SimEnv, db: &Db| runs_after_seconds(env, db, 60);
    let (env, db) = three_runs("custom:buffer 1500; level 6000 in 4 runs; level 60000 in 1 run");
    let pause = db.pause_compactions();
    assert_eq!(runs_after(&env, &db), 3, "paused");
    drop(pause);
    assert_eq!(runs_after(&env, &db), 1);
    let (env, db) = three_runs("custom:buffer 1500; level 6000 in 4 runs; level 60000 in 4 runs");
    assert_eq!(runs_after(&env, &db), 3, "the policy wants runs");
    // A tree of one level: as it will be with two.
    let (env, db) = three_runs("tiering:T=10");
    assert_eq!(runs_after(&env, &db), 3, "the policy wants runs");
    let (env, db) = three_runs("garnering:T=10,c=1,first=4");
    env.set_capacity(Some(env.used_bytes() + 4096));
    assert!(db.stats().disk.is_some_and(|disk| disk.is_low));
    assert_eq!(runs_after(&env, &db), 3, "space is low");
    env.set_capacity(None);
    assert_eq!(runs_after(&env, &db), 1);
    // What takes four seconds begins after sixteen.
    let (env, db) = three_runs_with("custom:buffer 1500; level 6000 in 4 runs; level 60000 in 1 run", Some(1_050));
    assert_eq!(runs_after_seconds(&env, &db, 14), 3, "its compaction takes long");
    assert_eq!(runs_after(&env, &db), 1);
    // An ingested run makes a further one; the tree rests from then on.
    let (env, db) = three_runs("custom:buffer 1500; level 9000 in 6 runs; level 90000 in 1 run");
    let mut ingest = db.ingest().unwrap();
    ingest.put("key 5", [b'w'; 1400]).unwrap();
    assert_eq!(runs_after_seconds(&env, &db, 3), 1, "nothing is ingested yet");
    ingest.finish().unwrap();
    assert_eq!(db.stats().levels[0].runs.len(), 2);
    assert_eq!(runs_after_seconds(&env, &db, 3), 1);
}
