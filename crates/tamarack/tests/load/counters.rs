//! Threads that add to a few counters by merge operands while others read them, and while flushes,
//! compactions, and changes of policy and filters go on: no operand is lost, and none counts twice.
//!
//! # The oracle
//!
//! Each writer adds 1 to a counter of its own and, in the same batch, to one that all share. So at
//! any time the shared counter is the sum of the others: in any consistent view, exactly; and for
//! each reader no counter ever goes back. At the end each is the number of writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack::operators::Add;
use tamarack::{AdvancedOptions, Batch, Db, Options, Result, Snapshot};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv, Random};

const WRITERS: u64 = 3;

/// Writes of a writer.
const WRITES: u64 = 4000;

#[test]
fn counters_lose_no_operand_and_repeat_none() -> Result<()> {
    let mut views = 0;
    for (seed, filter) in [(1, "chucky:bits=14"), (2, "blocked:bits=10"), (3, "elastic:bits=8")] {
        let env: Arc<dyn Env> = MemoryEnv::new(seed);
        let advanced = AdvancedOptions::new()
            .env(env)
            .policy("tiering:T=3")
            .filter(filter)
            .memtable_bytes(8 << 10)
            .table_bytes(16 << 10)
            .cache_bytes(if seed == 2 { 0 } else { 64 << 10 });
        let options = Options::new().threads(2).advanced(advanced).merge_operator(Arc::new(Add));
        let db = options.open("/db")?;
        let is_over = AtomicBool::new(false);
        views += thread::scope(|scope| {
            let (db, is_over) = (&db, &is_over);
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(db, writer))).collect();
            let readers: Vec<_> = (0..2)
                .map(|reader| scope.spawn(move || read(db, &Random::for_purpose(seed, reader), is_over)))
                .collect();
            let changer = scope.spawn(move || change(db, &Random::for_purpose(seed, 9), is_over));
            let written: Result<()> = writers.into_iter().try_for_each(|writer| writer.join().expect("no panic"));
            is_over.store(true, Ordering::Release);
            let views: Result<Vec<u64>> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
            changer.join().expect("no panic")?;
            written?;
            Ok::<u64, tamarack::Error>(views?.into_iter().sum())
        })?;
        for _ in 0..2 {
            assert_eq!(db.get("sum")?.map(|value| number(&value)), Some(WRITERS * WRITES), "seed {seed}");
            assert_eq!(look(&db.snapshot())?, (0..WRITERS).map(|writer| (writer, WRITES)).collect(), "seed {seed}");
            db.compact()?;
        }
        db.close()?;
        let db = options.open("/db")?;
        assert_eq!(db.get("sum")?.map(|value| number(&value)), Some(WRITERS * WRITES), "seed {seed}, opened again");
    }
    assert!(views > 100, "only {views} views");
    Ok(())
}

fn write(db: &Db, writer: u64) -> Result<()> {
    for at in 0..WRITES {
        let mut batch = Batch::new();
        batch.merge("sum", 1u64.to_le_bytes()).merge(format!("writer {writer}"), 1u64.to_le_bytes());
        // So that memtables fill, and counters spread over runs.
        batch.put(format!("other {writer} {:03}", at % 500), [b'v'; 40]);
        db.write(&batch)?;
        if at % 100 == 0 {
            let mine = db.get(format!("writer {writer}"))?.map(|value| number(&value));
            assert_eq!(mine, Some(at + 1), "writer {writer} reads its own writes");
        }
    }
    Ok(())
}

/// Compares views until `is_over`; returns their number.
fn read(db: &Db, random: &Random, is_over: &AtomicBool) -> Result<u64> {
    let (mut before, mut views) = (BTreeMap::new(), 0);
    let mut kept: Option<(Snapshot, BTreeMap<u64, u64>)> = None;
    while !is_over.load(Ordering::Acquire) {
        let snapshot = db.snapshot();
        let now = look(&snapshot)?;
        let went_back = before.iter().find(|(writer, count)| now.get(writer).is_none_or(|now| now < count));
        assert_eq!(went_back, None, "a counter went back, to {now:?}");
        if let Some((snapshot, then)) = &kept {
            assert_eq!(look(snapshot)?, *then, "a snapshot has changed");
        }
        if random.below(8) == 0 {
            kept = Some((snapshot, now.clone()));
        }
        before = now;
        views += 1;
    }
    Ok(views)
}

/// The counters of the writers, by lookups, `multi_get` or scans in both directions, all of which
/// must agree with each other and with the sum.
fn look(snapshot: &Snapshot) -> Result<BTreeMap<u64, u64>> {
    let name = |writer: u64| format!("writer {writer}");
    let keys: Vec<String> = (0..WRITERS).map(name).chain(["sum".to_owned()]).collect();
    let many: Vec<Option<u64>> =
        snapshot.multi_get(&keys)?.iter().map(|value| value.as_ref().map(|value| number(value))).collect();
    for (key, value) in keys.iter().zip(&many) {
        assert_eq!(snapshot.get(key)?.map(|value| number(&value)), *value, "{key}, alone and among many");
    }
    let forwards: Vec<_> = snapshot.scan("s".."x").collect::<Result<_>>()?;
    let mut backwards: Vec<_> = snapshot.scan("s".."x").rev().collect::<Result<_>>()?;
    backwards.reverse();
    assert_eq!(forwards, backwards, "scans in both directions");
    assert_eq!(forwards.len(), many.iter().flatten().count(), "scanned and looked up: {many:?}");
    let writers: BTreeMap<u64, u64> =
        (0..WRITERS).filter_map(|writer| Some((writer, many[writer as usize]?))).collect();
    let sum = many[WRITERS as usize].unwrap_or(0);
    assert_eq!(writers.values().sum::<u64>(), sum, "half a batch: {writers:?}");
    Ok(writers)
}

/// Changes the design, flushes and compacts until `is_over`.
fn change(db: &Db, random: &Random, is_over: &AtomicBool) -> Result<()> {
    let policies = ["tiering:T=3", "leveling:T=3", "lazy-leveling:T=4", "garnering:T=2,c=0.5,first=2"];
    let filters = ["chucky:bits=12", "blocked:bits=10", "none", "elastic:bits=8"];
    while !is_over.load(Ordering::Acquire) {
        match random.below(6) {
            0 => db.set_policy(policies[random.below(4) as usize])?,
            1 => db.set_filter(filters[random.below(4) as usize])?,
            2 => db.compact_range("s".."x")?,
            3 => db.reshape()?,
            _ => db.flush()?,
        }
    }
    Ok(())
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}
