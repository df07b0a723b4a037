//! The bound on space amplification: measured space within it, under any overwrites and deletes;
//! compactions that report their cause; and no endless compactions where a snapshot keeps what they
//! would free.
//!
//! Entries are of one size here, for which the bound is exact: what runs hold, in raw bytes, is
//! compared with what the entries that are there would take alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Event, Listener, Options};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv};

const POLICIES: [&str; 6] =
    ["leveling:T=10", "tiering:T=4", "tiering:T=30", "lazy-leveling:T=5", "garnering:T=2,c=0.8", "moose:last=0.5,k=2"];

/// Raw bytes of an entry: a key of 7, a value of 40, and 8.
const ENTRY: u64 = 7 + 40 + 8;

/// The causes of compactions, and their raw bytes.
struct Causes(Mutex<Vec<(String, u64)>>);

impl Default for Causes {
    fn default() -> Self {
        Self(Mutex::new(Rank::Test, Vec::new()))
    }
}

impl Listener for Causes {
    fn on(&self, event: &Event) {
        if let Event::CompactionBegun { cause, raw_bytes, .. } = event {
            self.0.lock().push((cause.clone(), *raw_bytes));
        }
    }
}

impl Causes {
    /// The number of compactions for the bound, and their raw bytes.
    fn of_bound(&self) -> (usize, u64) {
        let all = self.0.lock();
        let of_bound = || all.iter().filter(|(cause, _)| cause == "space amplification exceeds its bound");
        (of_bound().count(), of_bound().map(|(_, bytes)| bytes).sum())
    }
}

fn options(env: &SimEnv, policy: &str, causes: &Arc<Causes>) -> Options {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    let advanced =
        AdvancedOptions::new().env(env).memtable_bytes(1500).block_bytes(128).table_bytes(400).policy(policy);
    Options::new().threads(2).listener(causes.clone()).advanced(advanced)
}

/// Puts and deletes of few keys, all of one size.
fn write(db: &Db, random: &Random, writes: u64, deletes_of_ten: u64, model: &mut BTreeMap<String, String>) {
    for number in 0..writes {
        let key = format!("key {:03}", random.below(900));
        if random.below(10) < deletes_of_ten {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = format!("{number:040}");
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
}

fn size(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.total().raw_bytes).sum()
}

fn check(db: &Db, model: &BTreeMap<String, String>, most: f64, context: &str) {
    let (size, live, stats) = (size(db), model.len() as u64 * ENTRY, db.stats());
    assert!(size as f64 <= most * live as f64, "{context}: {size} bytes for {live}: {:?}", stats.levels);
    assert!(stats.space_amplification_worst <= most, "{context}: {}", stats.space_amplification_worst);
    assert_eq!(stats.space_amplification_max, Some(most));
}

/// Random overwrites and deletes, from none to nothing but: after each round the tree's size is
/// within the bound, nothing is lost, and some compactions were for the bound.
#[test]
fn measured_space_is_within_the_bound() {
    for (seed, policy) in (0..).zip(POLICIES) {
        let (random, causes) = (Random::new(seed), Arc::<Causes>::default());
        let most = [1.05, 1.3, 2.0][random.below(3) as usize];
        let options = options(&SimEnv::new(seed), policy, &causes).space_amplification_max(most);
        let db = options.open("/db").expect("it opens");
        let mut model = BTreeMap::new();
        for round in 0..40 {
            write(&db, &random, 20 + random.below(600), [0, 2, 5, 10][round / 3 % 4], &mut model);
            check(&db, &model, most, &format!("{policy}, seed {seed}, round {round}"));
        }
        let found = db.scan(..).map(|entry| entry.expect("readable"));
        assert!(found.eq(model.iter().map(|(key, value)| (key.clone().into_bytes(), value.clone().into_bytes()))));
        assert!(db.verify(&mut |_, _| {}).unwrap().is_ok());
        db.close().unwrap();
        assert!(causes.of_bound().0 > 0, "{policy}: {:?}", causes.0.lock());
    }
}

/// What is there is brought within the bound when a database is opened with one, and nothing is
/// merged for it that has none.
#[test]
fn opening_with_a_bound_keeps_it() {
    let (env, causes) = (SimEnv::new(1), Arc::<Causes>::default());
    let mut model = BTreeMap::new();
    let db = options(&env, "tiering:T=30", &causes).open("/db").expect("it opens");
    // No deletes, or tombstones that are due would have made it one run.
    write(&db, &Random::new(1), 2000, 0, &mut model);
    let stats = db.stats();
    assert!(stats.space_amplification_worst > 2.0, "{}", stats.space_amplification_worst);
    assert_eq!(stats.space_amplification_max, None);
    db.close().unwrap();
    assert_eq!(causes.of_bound().0, 0);

    let db = options(&env, "tiering:T=30", &causes).space_amplification_max(1.2).open("/db").expect("it opens");
    db.wait_for_compactions().unwrap();
    check(&db, &model, 1.2, "after opening");
    assert_eq!(db.stats().compactions, 1);
}

/// A snapshot that needs all overwritten entries: compactions free nothing, and yet there are only
/// as many as the flushes cause; none without writes. When the snapshot is gone, the next
/// compactions free what it pinned.
#[test]
fn a_snapshot_does_not_make_it_merge_for_ever() {
    let (env, causes) = (SimEnv::new(1), Arc::<Causes>::default());
    let db = options(&env, "tiering:T=30", &causes).space_amplification_max(1.5).open("/db").expect("it opens");
    let (random, mut model, mut came) = (Random::new(1), BTreeMap::new(), 0);
    let mut snapshots = Vec::new();
    for _ in 0..50 {
        write(&db, &random, 100, 1, &mut model);
        came += 100 * ENTRY;
        // Every version of this round that is left is needed from now on.
        snapshots.push(db.snapshot());
    }
    let (compactions, bytes) = causes.of_bound();
    assert!(compactions > 3, "{compactions}");
    assert!(bytes <= 3 * came, "{bytes} bytes were merged for the bound, and {came} came");
    let before = db.stats().compactions;
    env.run_background_until_idle();
    db.wait_for_compactions().unwrap();
    assert_eq!(db.stats().compactions, before, "nothing has come");
    assert!(size(&db) > 3 * model.len() as u64 * ENTRY, "the snapshots pin something");
    drop(snapshots);
    for _ in 0..60 {
        write(&db, &random, 100, 1, &mut model);
    }
    let live = model.len() as u64 * ENTRY;
    assert!(size(&db) as f64 <= 1.5 * live as f64, "{} bytes for {live}", size(&db));
}

/// The bound does not stop writers for ever: in a tree that is written to without a pause,
/// compactions for the bound begin and end as well, and at rest the bound is kept.
#[test]
fn a_busy_tree_comes_to_rest_within_its_bound() {
    for (seed, policy) in (0..).zip(POLICIES) {
        let (env, causes) = (SimEnv::new(seed), Arc::<Causes>::default());
        env.set_device(Some(tamarack_env::sim::Device::SATA_SSD));
        let db = options(&env, policy, &causes).space_amplification_max(1.3).open("/db").expect("it opens");
        let (random, mut model) = (Random::new(seed), BTreeMap::new());
        for number in 0..6000 {
            let key = format!("key {:03}", random.below(300));
            let value = format!("{number:040}");
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        let busy = db.stats();
        db.flush().unwrap();
        db.wait_for_compactions().unwrap();
        check(&db, &model, 1.3, policy);
        println!("{policy}: {} compactions while busy, then {}", busy.compactions, db.stats().compactions);
        db.close().unwrap();
        assert!(causes.of_bound().0 > 5, "{policy}: {:?}", causes.of_bound());
    }
}
