//! A filter over the whole tree: no key is hidden, its entries are those of the runs at every
//! moment, lookups have few false positives however many runs there are, and it follows the tree
//! while that grows, shrinks, changes its policy, its filter, or is opened again.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// Returns an even key; consecutive numbers give distinct keys all over the key space.
fn key(number: u64) -> [u8; 8] {
    ((number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1).to_be_bytes()
}

fn open(env: &Arc<dyn Env>, buffer: u64, filter: &str, policy: &str) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(env.clone()).filter(filter).policy(policy).cache_bytes(0);
    Options::new().advanced(advanced.memtable_bytes(buffer * ENTRY_BYTES).table_bytes(16 << 10)).open("/db")
}

fn settle(db: &Db) -> Result<()> {
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()
}

fn assert_verified(db: &Db, what: &str) -> Result<()> {
    let problems = db.verify(&mut |_, _| {})?.problems;
    assert!(problems.is_empty(), "{what}: {problems:?}");
    Ok(())
}

fn assert_all_there(db: &Db, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
    for number in numbers {
        assert_eq!(db.get(key(number))?.as_deref(), Some(&number.to_be_bytes()[..]), "{number}");
    }
    Ok(())
}

/// The data blocks read for each lookup of an absent key.
fn reads_of_absent(db: &Db, lookups: u64) -> Result<f64> {
    let random = Random::new(7);
    let before = db.stats().lookups.data_blocks_read;
    for _ in 0..lookups {
        assert!(!db.contains_key((random.next() | 1).to_be_bytes())?);
    }
    Ok((db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64)
}

/// While a tree grows from nothing with any policy, all keys are found and the filter has exactly
/// their entries, and lookups of absent keys read few blocks.
#[test]
fn a_growing_tree_has_the_entries_of_its_runs() -> Result<()> {
    for policy in ["leveling:T=3", "tiering:T=4", "lazy-leveling:T=3", "moose:last=0.8,k=1", "leveling:T=5,first=4"] {
        for (filter, most) in [("chucky:bits=18", 0.002), ("chucky:bits=12", 0.1)] {
            let env: Arc<dyn Env> = MemoryEnv::new(1);
            let db = open(&env, 500, filter, policy)?;
            for step in 0..8 {
                for number in step * 3000..(step + 1) * 3000 {
                    db.put(key(number), number.to_be_bytes())?;
                }
                settle(&db)?;
                assert_verified(&db, policy)?;
            }
            let reads = reads_of_absent(&db, 2000)?;
            let runs: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
            assert!(reads < most, "{policy}, {filter}, {runs} runs: {reads} blocks read");
            assert_all_there(&db, 0..24_000)?;
        }
    }
    Ok(())
}

/// With any policy, at eight moments of a tree's growth: block reads of lookups of absent keys are
/// the sum of the rates that statistics predict for the runs, within a tenth; the filter's bits for
/// each entry are at most those that were chosen.
#[test]
fn false_positives_are_as_predicted() -> Result<()> {
    for (policy, filter, bits) in [
        ("leveling:T=3", "chucky:bits=10", 10.0),
        ("leveling:T=10", "chucky:bits=12", 12.0),
        ("leveling:T=2", "chucky:bits=12", 12.0),
        ("lazy-leveling:T=5", "chucky:bits=12", 12.0),
        ("tiering:T=4", "chucky:bits=12", 12.0),
        ("tiering:T=10", "chucky:bits=12", 12.0),
        ("garnering:T=5,c=0.8", "chucky:bits=12", 12.0),
        ("moose:last=0.8,k=1", "chucky:bits=12", 12.0),
        ("qlsm-bush:T=2,X=2", "chucky:bits=12", 12.0),
    ] {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
        let db = open(&env, 500, filter, policy)?;
        let (mut written, mut ratios, mut rates, mut sizes) = (0, Vec::new(), Vec::new(), Vec::new());
        for moment in 1..=8 {
            let until = 5_000 * moment;
            (written..until).try_for_each(|number| db.put(key(number), number.to_be_bytes()))?;
            written = until;
            settle(&db)?;
            let stats = db.stats();
            let runs = || stats.levels.iter().flat_map(|level| &level.runs);
            let predicted: f64 = runs().map(|run| run.filter_fpr).sum();
            // Enough for errors of chance of 2 %.
            let lookups = (2500.0 / predicted) as u64;
            let measured = reads_of_absent(&db, lookups.clamp(1, 400_000))?;
            ratios.push(measured / predicted);
            rates.push(measured);
            let (of_filter, entries) =
                runs().fold((0, 0), |(bits, entries), run| (bits + run.filter_bits, entries + run.entries));
            sizes.push(of_filter as f64 / entries as f64 / bits);
        }
        // Bits are those of partitions with buckets for a sixteenth more entries, the mean while
        // they grow. The one or two partitions here, if just made, have them for up to three.
        let (last, mean) = (sizes[7], sizes.iter().sum::<f64>() / 8.0);
        let most = (1.0 + 3.0 / 16.0) / (1.0 + 1.0 / 16.0);
        println!("{policy}, {filter}: bits/chosen {sizes:.3?}, {mean:.3} on average");
        assert!(sizes.iter().all(|size| *size <= most), "{policy}, {filter}: {sizes:?}");
        assert!(last <= 1.07 && mean <= 1.07, "{policy}, {filter}: {sizes:?}");
        let [lowest, highest] = [f64::min, f64::max].map(|best| rates.iter().copied().reduce(best).expect("eight"));
        println!("{policy}, {filter}: measured/predicted {ratios:.3?}, {lowest:.4} to {highest:.4} blocks");
        assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.1), "{policy}, {filter}: {ratios:?}");
    }
    Ok(())
}

/// Overwrites and deletes leave no entries behind, and a compaction of everything leaves those of
/// one run.
#[test]
fn entries_go_with_what_compactions_drop() -> Result<()> {
    for policy in ["leveling:T=3", "tiering:T=4"] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let db = open(&env, 300, "chucky:bits=14.2", policy)?;
        let random = Random::new(5);
        for step in 0..40 {
            for _ in 0..400 {
                let number = random.below(3000);
                if random.below(3) == 0 {
                    db.delete(key(number))?;
                } else {
                    db.put(key(number), number.to_be_bytes())?;
                }
            }
            if step % 5 == 4 {
                settle(&db)?;
                assert_verified(&db, policy)?;
            }
        }
        for number in 0..3000 {
            db.put(key(number), number.to_be_bytes())?;
        }
        db.compact_range(key(1)..key(2).max(key(1)))?;
        assert_verified(&db, policy)?;
        db.compact()?;
        settle(&db)?;
        assert_verified(&db, policy)?;
        assert_all_there(&db, 0..3000)?;
        (0..3000).try_for_each(|number| db.delete(key(number)))?;
        db.compact()?;
        settle(&db)?;
        assert_verified(&db, policy)?;
        assert!((0..3000).all(|number| !db.contains_key(key(number)).expect("it can be read")));
    }
    Ok(())
}

/// The filter is there after opening, for all runs, those of an ingest included, and follows
/// changes of policy and of filter.
#[test]
fn it_follows_openings_ingests_policies_and_filters() -> Result<()> {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(3));
    let db = open(&env, 400, "blocked:bits=10", "tiering:T=4")?;
    (0..10_000).try_for_each(|number| db.put(key(number), number.to_be_bytes()))?;
    settle(&db)?;
    let memory = db.stats().memory.filters_bytes;
    db.set_filter("chucky:bits=12")?;
    settle(&db)?;
    assert_verified(&db, "after a change of filter")?;
    assert!(reads_of_absent(&db, 1000)? < 0.1);
    assert!(db.stats().memory.filters_bytes > memory / 2, "it takes memory, and Bloom filters are gone");
    db.set_policy("leveling:T=3")?;
    (10_000..15_000).try_for_each(|number| db.put(key(number), number.to_be_bytes()))?;
    settle(&db)?;
    assert_verified(&db, "after a change of policy")?;
    assert_all_there(&db, 0..15_000)?;
    let mut ingest = db.ingest()?;
    let mut keys: Vec<u64> = (15_000..20_000).collect();
    keys.sort_by_key(|number| key(*number));
    keys.iter().try_for_each(|number| ingest.put(key(*number), number.to_be_bytes()))?;
    ingest.finish()?;
    settle(&db)?;
    assert_verified(&db, "after an ingest")?;
    assert_all_there(&db, 0..20_000)?;
    assert!(reads_of_absent(&db, 1000)? < 0.1);
    db.close()?;
    let db = Options::new().advanced(AdvancedOptions::new().env(env.clone()).cache_bytes(0)).open("/db")?;
    assert_all_there(&db, 0..1000)?;
    settle(&db)?;
    assert_verified(&db, "after opening")?;
    assert!(reads_of_absent(&db, 1000)? < 0.1);
    db.set_filter("bloom:bits=10")?;
    settle(&db)?;
    assert_verified(&db, "after a change back")?;
    assert!(reads_of_absent(&db, 1000)? < 0.1);
    assert_all_there(&db, 0..20_000)
}

/// A tree whose last level is far larger than all that there is has a filter of the size that was
/// chosen: its buckets are not rare, though the shape's own states say that nearly all entries are
/// in the last level.
#[test]
fn trees_that_do_not_fill_their_last_level_have_no_larger_filters() -> Result<()> {
    const ENTRIES: u64 = 150_000;
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = open(&env, 500, "chucky:bits=17.9", "qlsm-bush:T=2,X=2")?;
    (0..ENTRIES).try_for_each(|number| db.put(key(number), number.to_be_bytes()))?;
    settle(&db)?;
    assert_verified(&db, "a tree of few levels")?;
    let stats = db.stats();
    assert!(stats.levels[0].runs.len() > 30, "a first level of many runs: {:?}", stats.levels[0]);
    let bits = (8 * stats.memory.filters_bytes) as f64 / ENTRIES as f64;
    // The code takes 3 bits for each of so few entries. Made for the shape's states, it makes 60.
    assert!((15.0..27.0).contains(&bits), "{bits} bits for each entry");
    assert!(reads_of_absent(&db, 2000)? < 0.05);
    Ok(())
}

/// Tells readers that it is over, when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Threads that read while others write, and compactions go on, find every key that is there.
#[test]
fn readers_beside_compactions_miss_nothing() -> Result<()> {
    for policy in ["tiering:T=3", "leveling:T=2"] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let db = open(&env, 200, "chucky:bits=12", policy)?;
        (0..2000).try_for_each(|number| db.put(key(number), number.to_be_bytes()))?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let (db, over) = (&db, &over);
                scope.spawn(move || {
                    let random = Random::new(reader);
                    while !over.load(Ordering::Relaxed) {
                        let number = random.below(2000);
                        let found = db.get(key(number)).expect("it can be read");
                        assert_eq!(found.as_deref(), Some(&number.to_be_bytes()[..]), "{policy}: {number}");
                        let keys = [key(random.below(2000)), key(random.below(2000))];
                        assert!(db.multi_get(&keys).expect("they can be read").iter().all(Option::is_some));
                    }
                });
            }
            // Readers end even if this fails.
            let _ends = Ends(&over);
            let random = Random::new(9);
            for number in 2000..40_000_u64 {
                // Most keys are overwritten with their own value, so that readers know it.
                let number = if number % 4 == 0 { number } else { random.below(2000) };
                db.put(key(number), number.to_be_bytes()).expect("it can be written");
            }
        });
        settle(&db)?;
        assert_verified(&db, policy)?;
    }
    Ok(())
}

/// The bits that the filter needs are refused below its least size.
#[test]
fn too_few_bits_are_refused() {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let refused = open(&env, 100, "chucky:bits=9", "leveling:T=2").expect_err("nine bits are too few").to_string();
    assert!(refused.contains("at least 10 bits"), "{refused}");
}
