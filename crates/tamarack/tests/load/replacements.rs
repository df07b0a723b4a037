//! Threads that replace groups of keys as a whole, by range deletes, while others read them, and
//! while flushes, compactions, and changes of policy and filters go on: nobody sees a key of an
//! older group, nor half of a group.
//!
//! # The oracle
//!
//! Each writer has a prefix of its own. A batch deletes all keys with the prefix and puts those of
//! the next generation, whose names have its number. So in any consistent view there are the keys
//! of one generation, all of them and no others; and for each reader no generation is older than
//! the one before.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Batch, Db, Options, Result, Snapshot};
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv, Random};

const WRITERS: usize = 3;

/// Generations of a writer.
const GENERATIONS: u64 = 600;

/// Keys of a generation: another number for each.
fn keys_of(generation: u64) -> u64 {
    5 + generation * 7 % 40
}

fn key(writer: usize, generation: u64, at: u64) -> String {
    // In no order of generations.
    format!("w{writer}/{:04}/{generation:06}", at * 7919 % 1000)
}

#[test]
fn groups_are_replaced_as_a_whole() -> Result<()> {
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
        let options = Options::new().threads(2).advanced(advanced);
        let db = options.open("/db")?;
        let is_over = AtomicBool::new(false);
        let latest: [AtomicU64; WRITERS] = std::array::from_fn(|_| AtomicU64::new(0));
        views += thread::scope(|scope| {
            let (db, is_over, latest) = (&db, &is_over, &latest);
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || write(db, writer, &latest[writer]))).collect();
            let readers: Vec<_> = (0..2)
                .map(|reader| scope.spawn(move || read(db, &Random::for_purpose(seed, reader), latest, is_over)))
                .collect();
            let changer = scope.spawn(move || change(db, &Random::for_purpose(seed, 9), is_over));
            let written: Result<()> = writers.into_iter().try_for_each(|writer| writer.join().expect("no panic"));
            is_over.store(true, Ordering::Release);
            let views: Result<Vec<u64>> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
            changer.join().expect("no panic")?;
            written?;
            Ok::<u64, tamarack::Error>(views?.into_iter().sum())
        })?;
        let all: u64 = WRITERS as u64 * keys_of(GENERATIONS);
        for _ in 0..2 {
            assert_eq!(look(&db.snapshot(), &Random::new(seed))?, [GENERATIONS; WRITERS], "seed {seed}");
            db.compact()?;
            db.wait_for_compactions()?;
            assert_eq!((db.len()?, db.stats().range_deletes), (all, 0), "seed {seed}");
        }
        db.close()?;
        let db = options.open("/db")?;
        assert_eq!(look(&db.snapshot(), &Random::new(seed))?, [GENERATIONS; WRITERS], "seed {seed}, opened again");
    }
    assert!(views > 100, "only {views} views");
    Ok(())
}

fn write(db: &Db, writer: usize, latest: &AtomicU64) -> Result<()> {
    for generation in 1..=GENERATIONS {
        let mut batch = Batch::new();
        batch.delete_range(format!("w{writer}/")..format!("w{writer}0"));
        for at in 0..keys_of(generation) {
            batch.put(key(writer, generation, at), generation.to_le_bytes());
        }
        db.write(&batch)?;
        latest.store(generation, Ordering::Release);
    }
    Ok(())
}

/// Compares views until `is_over`; returns their number.
fn read(db: &Db, random: &Random, latest: &[AtomicU64; WRITERS], is_over: &AtomicBool) -> Result<u64> {
    let mut views = 0;
    let mut kept: Option<(Snapshot, [u64; WRITERS])> = None;
    while !is_over.load(Ordering::Acquire) {
        let least: [u64; WRITERS] = std::array::from_fn(|writer| latest[writer].load(Ordering::Acquire));
        let snapshot = db.snapshot();
        let now = look(&snapshot, random)?;
        let is_old = (0..WRITERS).any(|writer| now[writer] < least[writer]);
        assert!(!is_old, "{now:?} is older than {least:?}");
        if let Some((snapshot, then)) = &kept {
            assert_eq!(look(snapshot, random)?, *then, "a snapshot has changed");
        }
        if random.below(8) == 0 {
            kept = Some((snapshot, now));
        }
        views += 1;
    }
    Ok(views)
}

/// The generations of the writers, by scans in both directions, and lookups of all their keys and
/// of those of older generations.
fn look(snapshot: &Snapshot, random: &Random) -> Result<[u64; WRITERS]> {
    let mut generations = [0; WRITERS];
    for (writer, generation) in generations.iter_mut().enumerate() {
        let found: Vec<_> = snapshot.prefix(format!("w{writer}/")).collect::<Result<_>>()?;
        let mut backwards: Vec<_> = snapshot.prefix(format!("w{writer}/")).rev().collect::<Result<_>>()?;
        backwards.reverse();
        assert_eq!(found, backwards, "scans in both directions");
        let Some((_, value)) = found.first() else { continue };
        *generation = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
        let mut expected: Vec<_> =
            (0..keys_of(*generation)).map(|at| key(writer, *generation, at).into_bytes()).collect();
        expected.sort_unstable();
        let keys: Vec<_> = found.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, expected, "writer {writer}, generation {generation}");
        assert!(snapshot.multi_get(&expected)?.iter().all(|value| value.as_deref() == Some(&generation.to_le_bytes())));
        let older = generation.saturating_sub(1 + random.below(4));
        for at in 0..keys_of(older) {
            let is_there = older == *generation;
            assert_eq!(snapshot.get(key(writer, older, at))?.is_some(), is_there, "generation {older}");
        }
    }
    Ok(generations)
}

/// Changes the design, flushes and compacts until `is_over`.
fn change(db: &Db, random: &Random, is_over: &AtomicBool) -> Result<()> {
    let policies = ["tiering:T=3", "leveling:T=3", "lazy-leveling:T=4", "garnering:T=2,c=0.5,first=2"];
    let filters = ["chucky:bits=12", "blocked:bits=10", "none", "elastic:bits=8"];
    while !is_over.load(Ordering::Acquire) {
        match random.below(6) {
            0 => db.set_policy(policies[random.below(4) as usize])?,
            1 => db.set_filter(filters[random.below(4) as usize])?,
            2 => db.compact_range("w0".."w2")?,
            3 => db.reshape()?,
            _ => db.flush()?,
        }
    }
    Ok(())
}
