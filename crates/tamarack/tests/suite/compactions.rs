//! Merging everything: what readers see stays the same, what nobody can see goes, at every step of
//! the way and after any crash in it.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::sim::Crash;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv, Step};

use crate::model::{Model, all, all_of, write_at_random};

/// Tables of a few hundred bytes, so that a compaction hands over dozens of times; and a level that
/// takes all flushes as runs of their own.
fn open(env: &SimEnv) -> Result<Db> {
    options(env, "tiering:T=100").open("/db")
}

fn options(env: &SimEnv, policy: &str) -> Options {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let advanced =
        AdvancedOptions::new().env(env).memtable_bytes(1500).block_bytes(128).table_bytes(400).policy(policy);
    Options::new().advanced(advanced)
}

fn runs(db: &Db) -> usize {
    db.stats().levels.iter().map(|level| level.runs.len()).sum()
}

#[test]
fn one_run_remains_with_what_can_be_seen() {
    for seed in 0..20 {
        let env = SimEnv::new(seed);
        let random = Random::new(seed);
        let db = open(&env).unwrap();
        let mut model = Model::new();
        write_at_random(&db, &random, 400, 100, 4, &mut model);
        let (snapshot, then) = (db.snapshot(), model.clone());
        write_at_random(&db, &random, 400, 100, 4, &mut model);
        db.compact().unwrap();
        assert_eq!(runs(&db), 1, "seed {seed}");
        assert_eq!(all(&db), model, "seed {seed}");
        assert_eq!(all_of(snapshot.scan(..)), then, "seed {seed}");
        assert_eq!(all_of(snapshot.scan(..).rev()), then, "seed {seed}");

        drop(snapshot);
        assert_eq!(
            table_files(&env),
            db.stats().levels[0].runs[0].tables,
            "seed {seed}: tables that nothing names are gone"
        );
        db.put("key", "so that there are two runs again").unwrap();
        model.insert(b"key".to_vec(), b"so that there are two runs again".to_vec());
        db.compact().unwrap();
        let stats = db.stats();
        let run = &stats.levels[0].runs[0];
        assert_eq!(
            (run.entries, run.tombstones),
            (model.len() as u64, 0),
            "seed {seed}: only what can be seen is left"
        );
        assert!(db.verify(&mut |_, _| {}).unwrap().is_ok());
        assert_eq!(table_files(&env), run.tables, "seed {seed}: tables that nothing names are gone");
        db.close().unwrap();
        assert_eq!(all(&open(&env).unwrap()), model, "seed {seed}");
    }
}

#[test]
fn an_iterator_reads_on_through_a_merge() {
    let env = SimEnv::new(1);
    let db = open(&env).unwrap();
    let mut model = Model::new();
    write_at_random(&db, &Random::new(1), 500, 100, 4, &mut model);
    db.flush().unwrap();
    let mut scan = db.scan(..);
    let first = scan.next().unwrap().unwrap();
    db.compact().unwrap();
    let rest = all_of(std::iter::once(Ok(first)).chain(scan));
    assert_eq!(rest, model);
}

/// The machine after crashes before every `every`th call of `act` that changes storage, each with
/// the call's number: one that loses what is not synced, and one that keeps some of it.
fn images_during(env: &SimEnv, every: u64, act: impl FnOnce()) -> Vec<(u64, SimEnv)> {
    let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let taken = images.clone();
    env.set_hook(move |moment| {
        let number = moment.call.number;
        if number.is_multiple_of(every) {
            let draw = Crash::draw(number, moment.unsynced_changes());
            taken.lock().extend([Crash::LoseAll, draw].map(|crash| (number, moment.image(crash))));
        }
    });
    act();
    env.clear_hook();
    std::mem::take(&mut *images.lock())
}

/// A crash before every call of a compaction that changes storage: flushed entries are there, the
/// compaction resumes, and ends with one run.
#[test]
fn a_compaction_resumes_after_a_crash_at_any_call() {
    let env = SimEnv::new(3);
    let random = Random::new(3);
    let db = open(&env).unwrap();
    let mut model = Model::new();
    write_at_random(&db, &random, 500, 100, 4, &mut model);
    db.flush().unwrap();
    let images = images_during(&env, 1, || db.compact().unwrap());
    drop(db);
    let mut in_progress = 0;
    for (call, image) in images {
        let db = open(&image).unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert_eq!(all(&db), model, "call {call}, before the compaction resumes");
        in_progress += usize::from(runs(&db) > 1);
        image.run_background_until_idle();
        assert_eq!(all_of(db.scan(..).rev()), model, "call {call}, after it went on");
        db.compact().unwrap();
        assert_eq!(runs(&db), 1, "call {call}");
        assert_eq!(all(&db), model, "call {call}");
        let report = db.verify(&mut |_, _| {}).unwrap();
        assert!(report.is_ok(), "call {call}: {report:?}");
    }
    assert!(in_progress > 20, "{in_progress} images were of a compaction in progress");
}

/// A repair keeps the runs of a compaction that has handed over a part of its keys, or finds their
/// tables without the manifest, but not the compaction: then the output has entries that are
/// younger than tables of its inputs, of other keys. Later compactions of some of these runs used
/// to take that for a broken order, and panicked.
#[test]
fn compactions_go_on_after_a_repair_in_the_midst_of_one() {
    let policies = [
        "tiering:T=8",
        "lazy-leveling:T=4",
        "custom:buffer 1500; level 4500 in 3 runs; level 18000 in 4 runs; level 72000 in 4 runs",
        "custom:buffer 1500; level 6000 in 1 runs; level 12000 in 2 runs; level 24000 in 1 runs",
    ];
    let mut repaired = 0;
    for (seed, policy) in policies.iter().cycle().take(8).enumerate() {
        let (env, random) = (SimEnv::new(seed as u64), Random::new(seed as u64));
        let db = options(&env, policy).open("/db").unwrap();
        let mut model = Model::new();
        write_at_random(&db, &random, 2500, 300, 4, &mut model);
        db.flush().unwrap();
        let images = images_during(&env, 7, || db.wait_for_compactions().unwrap());
        drop(db);
        for (_, image) in images {
            let has_manifest = random.below(2) == 0;
            let removed = if has_manifest { "CURRENT" } else { "0000000001.manifest" };
            image.remove(&Path::new("/db").join(removed), Step("test: remove")).unwrap();
            let report = options(&image, policy).repair("/db", &mut |_, _| {}).unwrap();
            assert_eq!((report.applied, report.rebuilt), (true, !has_manifest), "seed {seed}: {report:?}");
            repaired += 1;
            let db = options(&image, policies[random.below(4) as usize]).open("/db").unwrap();
            // Without the manifest, deleted entries may return.
            let mut model = if has_manifest { model.clone() } else { all(&db) };
            write_at_random(&db, &random, 100, 300, 4, &mut model);
            db.flush().unwrap();
            db.wait_for_compactions().unwrap();
            assert_eq!(all(&db), model, "seed {seed}");
            let report = db.verify(&mut |_, _| {}).unwrap();
            assert!(report.is_ok(), "seed {seed}: {report:?}");
        }
    }
    assert!(repaired > 100, "only {repaired} databases were repaired");
}

/// What is handed over is given back at once. So the disk never holds more than the inputs, and a
/// table of each input and of the output.
#[test]
fn a_merge_needs_little_extra_space() {
    for seed in 0..2 {
        let env = SimEnv::new(seed);
        let db = open_for_space(Arc::new(env.clone()), seed, 1);
        let (inputs, before) = (runs(&db) as u64, table_bytes(&env));
        let most = Arc::new(Mutex::new(Rank::Test, 0));
        let (seen, watched) = (most.clone(), env.clone());
        env.set_hook(move |_| {
            let now = table_bytes(&watched);
            let mut most = seen.lock();
            *most = now.max(*most);
        });
        db.compact().unwrap();
        env.clear_hook();
        let (extra, bound) = (*most.lock() - before, (inputs + 1) * TABLE_BYTES_MOST);
        assert!(
            inputs > 3 && before > 10 * bound,
            "seed {seed}: {before} bytes in {inputs} runs are more than {bound}"
        );
        assert!(
            extra <= bound,
            "seed {seed}: {extra} bytes more than the {before} of {inputs} runs, {bound} are allowed"
        );
    }
}

/// The same for each of several ranges that are merged at once, on threads; and where two ranges
/// meet, a table of each input that both need.
///
/// ```text
/// input a   │ ░░░░░░ │ ▒▒▒▓▓▓ │ ▓▓▓▓▓▓ │ ▓▓▓▒▒▒ │ ░░▒▒▓▓ │ ▓▓▓▓▓▓ │   ░ gone   ▓ not compacted yet
/// input b   │ ░░░░ │ ▒▒▒▒▓▓ │ ▓▓▓▓▓▓ │ ▓▓▓▓▓▒ │ ░░░░░░ │ ▒▒▓▓▓▓ │ ▓▓ │   ▒ handed over, in use
///           │ first range ──▶                  │ second range ──▶
/// ```
///
/// What counts is the tables that the tree names: how soon a thread gets to removing a file is up
/// to the machine.
#[test]
fn each_range_of_a_merge_needs_as_little() {
    for (seed, ranges) in [(1, 2), (2, 2), (3, 3), (4, 3)] {
        let db = open_for_space(MemoryEnv::new(seed), seed, ranges);
        let named = || {
            let space = db.stats().space;
            space.live_bytes + space.stale_bytes
        };
        let (inputs, before, ranges) = (runs(&db) as u64, named(), ranges as u64);
        let done = AtomicBool::new(false);
        let most = thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Ordering::Relaxed) {
                    most = named().max(most);
                    thread::yield_now();
                }
                most
            });
            db.compact().unwrap();
            done.store(true, Ordering::Relaxed);
            sampler.join().unwrap()
        });
        let bound = ((inputs + 1) * ranges + inputs * (ranges - 1)) * TABLE_BYTES_MOST;
        let extra = most.saturating_sub(before);
        assert!(before > 3 * bound, "seed {seed}: {before} bytes in {inputs} runs are more than {bound}");
        assert!(
            extra <= bound,
            "seed {seed}: {extra} bytes more than the {before} of {inputs} runs, {bound} are allowed"
        );
    }
}

/// The size of the largest table: one ends with the first entry past its 400 bytes, and has an
/// index and a footer of its own.
const TABLE_BYTES_MOST: u64 = 1000;

/// A database of one large run, and several small ones above it.
fn open_for_space(env: Arc<dyn Env>, seed: u64, ranges: usize) -> Db {
    let advanced =
        AdvancedOptions::new().env(env).memtable_bytes(8000).block_bytes(128).table_bytes(400).policy("tiering:T=300");
    // Filters as large in the output as in the inputs: their growth is no space that the compaction
    // needs.
    let advanced = advanced.filter("blocked:bits=10,allocation=uniform");
    let db = Options::new().threads(ranges).advanced(advanced).open("/db").unwrap();
    let random = Random::new(seed);
    let fill = |entries| {
        for _ in 0..entries {
            db.put(random.next().to_be_bytes(), random.next().to_be_bytes().repeat(12)).unwrap();
        }
        db.flush().unwrap();
    };
    fill(1000);
    db.compact().unwrap();
    fill(200);
    db
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

fn table_files(env: &SimEnv) -> u64 {
    env.files().iter().filter(|(path, _)| is_table(path)).count() as u64
}

fn table_bytes(env: &SimEnv) -> u64 {
    env.files().iter().filter(|(path, _)| is_table(path)).map(|(_, bytes)| bytes).sum()
}

/// A table whose middle was compacted into another one is one table of its run, in two slices.
#[test]
fn a_table_with_a_hole_counts_once() {
    let env = SimEnv::new(1);
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).policy("tiering:T=100");
    let db = Options::new().advanced(advanced).open("/db").unwrap();
    for key in 100..200 {
        db.put(key.to_string(), "value").unwrap();
    }
    db.flush().unwrap();
    db.compact_range("140".."160").unwrap();
    let stats = db.stats();
    let tables: Vec<u64> = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).collect();
    assert_eq!(tables, [2], "{:?}", env.files());
}
