//! Filter rebuilds of tables that stay: filter memory is within the budget at every step, false
//! positive rates are as predicted afterwards, and no key is ever hidden, also with concurrent
//! readers, with damaged digests, and without digests.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tamarack::{AdvancedOptions, Db, Error, Event, Options, Result, Stats};
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank, thread};
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};
use tamarack_format::table::FOOTER_BYTES;

use crate::gated::gated_env;

/// Raw bytes of an entry: 8 of the key, 8 of the value, 8.
const ENTRY_BYTES: u64 = 24;

/// Returns an even key; consecutive numbers give distinct keys all over the key space.
fn key(number: u64) -> [u8; 8] {
    ((number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1) ^ 1).to_be_bytes()
}

fn open(env: Arc<dyn Env>, buffer: u64, filter: &str, policy: &str, digests: bool) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(env).filter(filter).policy(policy).cache_bytes(0).filter_digests(digests);
    Options::new().advanced(advanced.memtable_bytes(buffer * ENTRY_BYTES).table_bytes(16 << 10)).open("/db")
}

/// Writes entries, and waits for compactions and filter rebuilds.
fn load(db: &Db, numbers: std::ops::Range<u64>) -> Result<()> {
    for number in numbers {
        db.put(key(number), number.to_be_bytes())?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()
}

fn assert_all_there(db: &Db, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
    for number in numbers {
        assert_eq!(db.get(key(number))?.as_deref(), Some(&number.to_be_bytes()[..]), "{number}");
    }
    Ok(())
}

/// Returns the predicted false positives of a zero-result lookup, summed over runs, and the
/// measured data blocks read per zero-result lookup.
fn predicted_and_measured(db: &Db, lookups: u64) -> Result<(f64, f64)> {
    let random = Random::new(7);
    let before = db.stats();
    for _ in 0..lookups {
        assert!(!db.contains_key((random.next() | 1).to_be_bytes())?);
    }
    let after = db.stats();
    let predicted = after.levels.iter().flat_map(|level| &level.runs).map(|run| run.filter_fpr).sum();
    let read = after.lookups.data_blocks_read - before.lookups.data_blocks_read;
    Ok((predicted, read as f64 / lookups as f64))
}

fn bits(stats: &Stats) -> u64 {
    stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.filter_bits).sum()
}

/// A live database gets another size, kind and allocation of filters without reading or compacting
/// data, and its false positive rate is then as predicted.
#[test]
fn a_live_database_gets_other_filters() -> Result<()> {
    let entries = 60_000;
    let db = open(MemoryEnv::new(1), 3000, "blocked:bits=5,allocation=monkey", "tiering:T=3", true)?;
    load(&db, 0..entries)?;
    let file_bytes = db.stats().space.live_bytes;
    for words in
        ["blocked:bits=10,allocation=monkey", "bloom:bits=8", "bloom:bits=4", "blocked:bits=6,allocation=monkey"]
    {
        let before = db.stats();
        db.set_filter(words)?;
        db.rebuild_filters()?;
        // Lookups open the tables, which then get their filters.
        assert_all_there(&db, (0..entries).step_by(7))?;
        let after = db.stats();
        let wanted: u64 = words.split(['=', ',']).nth(1).and_then(|bits| bits.parse().ok()).expect("a number of bits");
        let tables: u64 = after.levels.iter().map(|level| level.total().tables).sum();
        let budget = wanted * entries;
        let used = bits(&after);
        println!("{words}: {used} bits of {budget} in {tables} tables, {} bytes read", after.filter_rebuild_bytes_read);
        assert!(used <= budget + 512 * tables && used * 10 > budget * 7, "{words}: {used} bits of {budget}");
        assert_eq!(
            (after.compactions, after.compaction_bytes, after.flushes),
            (before.compactions, before.compaction_bytes, before.flushes)
        );
        // Each table's digests once, of five bytes an entry, and none of the data.
        let read = after.filter_rebuild_bytes_read - before.filter_rebuild_bytes_read;
        assert!(read <= 5 * entries + 64 * tables, "{words}: {read} bytes read of {file_bytes} in {tables} tables");
        let (predicted, measured) = predicted_and_measured(&db, 30_000)?;
        let spread = 3.0 * (predicted / 30_000.0).sqrt();
        assert!(
            (measured - predicted).abs() < 0.1 * predicted + spread,
            "{words}: {measured} read, {predicted} predicted"
        );
    }
    assert!(db.stats().filters_rebuilt > 10);
    db.set_filter("none")?;
    db.rebuild_filters()?;
    assert_eq!((bits(&db.stats()), db.stats().filter_bytes), (0, 0));
    assert_all_there(&db, (0..entries).step_by(11))?;
    let error = db.set_filter("blocked:bits=ten").expect_err("no number");
    assert!(matches!(&error, Error::InvalidArgument(what) if what.contains("bits=ten")), "{error:?}");
    assert!(db.verify(&mut |_, _| {})?.is_ok());
    Ok(())
}

/// After a change to elastic filters, tables keep their filters until they are compacted; after a
/// change away from them, elastic filters are replaced at once.
#[test]
fn elastic_filters_come_with_compactions_and_go_at_once() -> Result<()> {
    let db = open(MemoryEnv::new(1), 2000, "blocked:bits=5", "tiering:T=4", true)?;
    load(&db, 0..20_000)?;
    db.set_filter("elastic:bits=6")?;
    load(&db, 20_000..30_000)?;
    assert_all_there(&db, (0..30_000).step_by(5))?;
    assert!(bits(&db.stats()) <= 6 * 30_000 + 512 * 40, "{} bits", bits(&db.stats()));
    db.set_filter("bloom:bits=4")?;
    db.rebuild_filters()?;
    assert_all_there(&db, (0..30_000).step_by(5))?;
    let used = bits(&db.stats());
    assert!((100_000..=120_000 + 512 * 40).contains(&used), "{used} bits");
    let (predicted, measured) = predicted_and_measured(&db, 20_000)?;
    let spread = 3.0 * (predicted / 20_000.0).sqrt();
    assert!((measured - predicted).abs() < 0.1 * predicted + spread, "{measured} read, {predicted} predicted");
    // Chosen again, tables that store elastic filters get units of these, without a compaction.
    let before = db.stats();
    db.set_filter("elastic:bits=6")?;
    db.rebuild_filters()?;
    let after = db.stats();
    assert!(after.filters_loaded > before.filters_loaded, "no units were loaded");
    assert_eq!((after.compactions, after.flushes), (before.compactions, before.flushes));
    assert!(bits(&after) <= 6 * 30_000 + 512 * 40, "{} bits", bits(&after));
    assert_all_there(&db, (0..30_000).step_by(5))
}

/// Without digests, filters are kept as they were written or dropped: those that save least are
/// dropped first, and loaded again when there is memory for them.
#[test]
fn without_digests_whole_filters_are_dropped_and_loaded() -> Result<()> {
    let (entries, memtable) = (40_000, 2000);
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = open(env.clone(), memtable, "bloom:bits=10", "leveling:T=3", false)?;
    // One memtable at a time, so that the runs of the tree do not depend on the threads' timing.
    for first in (0..entries).step_by(memtable as usize) {
        load(&db, first..first + memtable)?;
    }
    let runs = |stats: &Stats| stats.levels.iter().map(|level| level.runs.len()).sum::<usize>();
    assert!(runs(&db.stats()) >= 2, "the smallest run is not the whole tree: {:?}", db.stats().levels);
    assert_all_there(&db, (0..entries).step_by(3))?;
    let full = db.stats();
    let smallest_run =
        |stats: &Stats| stats.levels.iter().flat_map(|level| level.runs.clone()).min_by_key(|run| run.entries);
    db.set_filter("bloom:bits=5")?;
    db.rebuild_filters()?;
    let half = db.stats();
    assert!(bits(&half) <= 5 * entries + 30_000 && bits(&half) > 4 * entries, "{} bits", bits(&half));
    assert!(half.filter_bytes < full.filter_bytes * 6 / 10, "{} of {}", half.filter_bytes, full.filter_bytes);
    let kept = smallest_run(&half).expect("there are runs");
    assert!(kept.filter_bits_per_entry() > 9.0, "the smallest run saves most for each bit: {kept:?}");
    assert_eq!((half.filters_rebuilt, half.filter_rebuild_bytes_read), (0, 0), "dropping a filter reads nothing");
    assert_all_there(&db, (0..entries).step_by(3))?;
    db.set_filter("bloom:bits=10")?;
    db.rebuild_filters()?;
    assert_eq!((bits(&db.stats()), db.stats().filter_bytes), (bits(&full), full.filter_bytes));
    assert_all_there(&db, (0..entries).step_by(3))?;
    // After opening with another filter, tables are first opened with the filters that they should
    // have, and nothing is read for the rebuild.
    db.close()?;
    let db = open(env, 2000, "bloom:bits=5", "leveling:T=3", false)?;
    assert!(bits(&db.stats()) <= 5 * entries + 30_000, "{} bits", bits(&db.stats()));
    assert_all_there(&db, (0..entries).step_by(3))?;
    db.rebuild_filters()?;
    let stats = db.stats();
    assert_eq!((stats.filters_loaded, stats.filter_rebuild_bytes_read), (0, 0), "{} bits", bits(&stats));
    Ok(())
}

/// A tree whose filter memory is checked after every step of background work.
struct Watched {
    env: Arc<SimEnv>,
    db: Db,
    /// Allowed bits per entry; during a change the larger of both sizes.
    bits_per_entry: f64,
    /// Most entries since the tree was last at rest.
    entries: u64,
    checks: u64,
}

impl Watched {
    fn new(filter: &str, bits_per_entry: f64, policy: &str, digests: bool) -> Result<Self> {
        let env = Arc::new(SimEnv::new(3));
        let db = open(env.clone(), BUFFER, filter, policy, digests)?;
        Ok(Self { env, db, bits_per_entry, entries: 0, checks: 0 })
    }

    /// Checks the upper bound: bits for the entries of all runs, and again for those of runs in
    /// compactions, whose tables are removed when they are empty; a cache line and the filter's
    /// header for each table; and the largest filter, which may be under replacement.
    fn check(&mut self, is_at_rest: bool) {
        let stats = self.db.stats();
        let runs = || stats.levels.iter().flat_map(|level| &level.runs);
        let entries: u64 = runs().map(|run| run.entries).sum();
        self.entries = if is_at_rest { entries } else { self.entries.max(entries) };
        let in_compactions: u64 = runs().filter(|run| run.in_compaction).map(|run| run.entries).sum();
        let tables: u64 = runs().map(|run| run.tables).sum();
        let largest = if is_at_rest { 0 } else { TABLE_ENTRIES_MAX };
        let counted = self.entries + if is_at_rest { 0 } else { in_compactions };
        let bound = self.bits_per_entry * (counted + largest) as f64 + (tables + 4) as f64 * (512.0 + 8.0 * 80.0);
        let used = 8.0 * stats.memory.filters_bytes as f64;
        assert!(
            used <= bound,
            "{used} bits, {bound} allowed, {entries} entries, {in_compactions} in compactions, {tables} tables"
        );
        self.checks += 1;
    }

    fn settle(&mut self) -> Result<()> {
        while self.env.step_background() {
            self.check(false);
        }
        self.db.wait_for_compactions()?;
        self.db.rebuild_filters()?;
        self.check(true);
        Ok(())
    }

    fn buffer(&mut self, numbers: impl Iterator<Item = u64>, delete: bool) -> Result<()> {
        for number in numbers {
            match delete {
                true => self.db.delete(key(number))?,
                false => self.db.put(key(number), number.to_be_bytes())?,
            }
        }
        self.db.flush()?;
        self.settle()?;
        // Lookups open tables.
        for number in 0..16 {
            self.db.contains_key((number << 60 | 1_u64).to_be_bytes())?;
        }
        self.check(true);
        Ok(())
    }
}

/// Entries of a memtable.
const BUFFER: u64 = 60;

/// Upper bound on the entries of a table, about.
const TABLE_ENTRIES_MAX: u64 = 16_384 / 20;

/// While a tree grows from 1 to 1,000 memtables, changes its policy and its filters, and shrinks by
/// deletes, its filters are within the budget after every step, with and without digests, and no
/// key is hidden.
#[test]
fn the_budget_holds_at_every_step() -> Result<()> {
    for digests in [true, false] {
        let mut tree = Watched::new("blocked:bits=8,allocation=monkey", 8.0, "leveling:T=4", digests)?;
        for buffer in 0..1000_u64 {
            tree.buffer(buffer * BUFFER..(buffer + 1) * BUFFER, false)?;
            if let Some(policy) = [(250, "tiering:T=4"), (600, "lazy-leveling:T=3"), (800, "leveling:T=2")]
                .iter()
                .find(|at| at.0 == buffer)
            {
                tree.db.set_policy(policy.1)?;
                tree.settle()?;
            }
            if let Some((_, words, bits)) = [
                (300, "blocked:bits=3,allocation=monkey", 3.0),
                (500, "bloom:bits=8", 8.0),
                (700, "blocked:bits=5,allocation=monkey", 5.0),
            ]
            .iter()
            .find(|at| at.0 == buffer)
            {
                let before = tree.bits_per_entry;
                tree.bits_per_entry = f64::max(before, *bits);
                tree.db.set_filter(words)?;
                while tree.env.step_background() {
                    tree.check(false);
                }
                tree.db.rebuild_filters()?;
                tree.bits_per_entry = *bits;
                tree.check(true);
                assert_all_there(&tree.db, (0..buffer * BUFFER).step_by(97))?;
            }
        }
        let grown = tree.db.stats();
        let rebuilt = (grown.filters_rebuilt, grown.filters_loaded, grown.filters_dropped);
        println!(
            "digests {digests}: {} checks; rebuilt, loaded, dropped: {rebuilt:?}; {} compactions",
            tree.checks, grown.compactions
        );
        for first in (0..960).step_by(4) {
            tree.buffer(first * BUFFER..(first + 4) * BUFFER, true)?;
        }
        tree.db.compact()?;
        tree.settle()?;
        assert_all_there(&tree.db, 960 * BUFFER..1000 * BUFFER)?;
        assert!(tree.db.stats().filter_bytes < grown.filter_bytes / 8, "little is left");
    }
    Ok(())
}

/// Filters that only save false positives are not rebuilt while nobody looks anything up, however
/// often the tree changes; lookups have them rebuilt, and so does whoever asks for it.
#[test]
fn rebuilds_wait_for_lookups() -> Result<()> {
    let env = SimEnv::new(1);
    let db = open(Arc::new(env.clone()), 100, "blocked:bits=10,allocation=monkey", "qlsm-bush:T=2,X=2", true)?;
    let settle = || while env.step_background() {};
    let write = |memtables: u64| -> Result<()> {
        for number in 0..100 * memtables {
            db.put(key(number), number.to_be_bytes())?;
            settle();
        }
        Ok(())
    };
    write(600)?;
    db.wait_for_compactions()?;
    db.rebuild_filters()?;
    let at_rest = db.stats().filters_rebuilt;
    write(30)?;
    db.wait_for_filter_rebuild()?;
    assert_eq!(db.stats().filters_rebuilt, at_rest, "nobody looks anything up");
    let random = Random::new(7);
    let mut lookups = 0;
    while db.stats().filters_rebuilt == at_rest {
        assert!(lookups < 100_000, "no filter was rebuilt in {lookups} lookups");
        (0..64).try_for_each(|_| db.contains_key((random.next() | 1).to_be_bytes()).map(drop))?;
        lookups += 64;
        settle();
    }
    write(30)?;
    let before = db.stats().filters_rebuilt;
    db.rebuild_filters()?;
    let rebuilt = db.stats().filters_rebuilt - before;
    println!("{lookups} lookups until filters were rebuilt; {rebuilt} tables on request");
    assert!(rebuilt > 0, "it was asked for");
    Ok(())
}

/// Concurrent readers of all kinds find every existing key while filters are rebuilt.
#[test]
fn concurrent_readers_find_every_key() -> Result<()> {
    let entries = 20_000_u64;
    let db = open(MemoryEnv::new(1), 1000, "blocked:bits=10", "tiering:T=4", true)?;
    load(&db, 0..entries)?;
    // Opens all tables: a filter of a table that is not open is not rebuilt.
    assert_all_there(&db, 0..entries)?;
    let (ended, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3_u64)
            .map(|reader| {
                let (db, ended, asked) = (&db, &ended, &asked);
                scope.spawn(move || -> Result<()> {
                    let random = Random::new(reader);
                    while !ended.load(Ordering::Relaxed) {
                        let numbers: Vec<u64> = (0..20).map(|_| random.below(entries)).collect();
                        assert_all_there(db, numbers.iter().copied())?;
                        let found = db.multi_get(&numbers.iter().map(|number| key(*number)).collect::<Vec<_>>())?;
                        assert!(found.iter().all(Option::is_some), "{numbers:?}");
                        asked.fetch_add(40, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let changes = (0..12).try_for_each(|round| {
            let words = ["bloom:bits=3", "blocked:bits=12,allocation=monkey", "none", "blocked:bits=5"][round % 4];
            let before = asked.load(Ordering::Relaxed);
            db.set_filter(words)?;
            db.rebuild_filters()?;
            // Readers make progress in every round, however slow the machine.
            while asked.load(Ordering::Relaxed) == before && !readers.iter().any(|reader| reader.is_finished()) {
                thread::yield_now();
            }
            Ok(())
        });
        ended.store(true, Ordering::Relaxed);
        readers.into_iter().try_for_each(|reader| reader.join().expect("no reader panics")).and(changes)
    })?;
    println!("{} lookups during {:?} filter rebuilds", asked.into_inner(), db.stats().filters_rebuilt);
    assert!(db.stats().filters_rebuilt > 50);
    Ok(())
}

/// Damaged digests are reported as corruption and keep a table from getting another filter: it
/// keeps its filter, or has none if that is too large, and lookups stay correct.
#[test]
fn damaged_digests_hide_nothing() -> Result<()> {
    let env = Arc::new(SimEnv::new(1));
    let told = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let listener = {
        let told = told.clone();
        move |event: &Event| {
            if let Event::CorruptionFound { error } = event {
                told.lock().push(error.to_string());
            }
        }
    };
    let advanced = |filter: &str| {
        AdvancedOptions::new().env(env.clone()).filter(filter).policy("tiering:T=4").memtable_bytes(1000 * ENTRY_BYTES)
    };
    let options = |filter: &str| Options::new().advanced(advanced(filter)).listener(Arc::new(listener.clone()));
    let db = options("blocked:bits=5").open("/db")?;
    load(&db, 0..1000)?;
    db.close()?;
    let (path, bytes) =
        env.files().into_iter().find(|(path, _)| path.extension().is_some_and(|e| e == "sst")).expect("a table");
    let file = env.content(&path).expect("its bytes");
    let footer = file.len() - FOOTER_BYTES;
    let number = |at: usize| u64::from_le_bytes(file[footer + at..][..8].try_into().expect("eight bytes"));
    let (offset, length) = (number(72), number(80));
    assert!(offset > 0 && offset + length < bytes, "the table keeps digests");
    env.flip_bit(&path, offset + 40, 3).expect("the file exists");

    // With its stored size, then a larger one, the table keeps its filter; with a smaller one it
    // has none.
    let db = options("blocked:bits=5").open("/db")?;
    assert_all_there(&db, 0..1000)?;
    let five = bits(&db.stats());
    db.set_filter("blocked:bits=10")?;
    db.rebuild_filters()?;
    assert_eq!(bits(&db.stats()), five);
    assert_all_there(&db, 0..1000)?;
    db.set_filter("blocked:bits=2")?;
    db.rebuild_filters()?;
    assert_eq!(bits(&db.stats()), 0);
    assert_all_there(&db, 0..1000)?;
    let report = db.verify(&mut |_, _| {})?;
    assert!(report.problems.iter().any(|problem| matches!(problem, Error::Corruption { .. })), "{:?}", report.problems);
    db.close()?;
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(told.lock().iter().any(|told| told.contains(&name) && told.contains(&offset.to_string())), "{told:?}");

    // The same when the database is opened with another size.
    for (words, expected) in [("blocked:bits=10", five), ("blocked:bits=2", 0)] {
        let db = options(words).open("/db")?;
        assert_all_there(&db, 0..1000)?;
        assert_eq!(bits(&db.stats()), expected, "{words}");
        db.close()?;
    }
    Ok(())
}

const SMALL_AND_LARGE: [&str; 2] = ["blocked:bits=5,allocation=monkey", "blocked:bits=10,allocation=monkey"];

/// While the filter of a table is rebuilt, flushes, ingests, statistics and changes of policy go
/// on, although all of them look at the filters of all tables.
#[test]
fn nobody_waits_for_the_reads_of_a_filter_rebuild() -> Result<()> {
    let env = gated_env();
    let db = open(env.clone(), 2000, SMALL_AND_LARGE[0], "tiering:T=20", true)?;
    load(&db, 0..10_000)?;
    assert_all_there(&db, (0..10_000).step_by(10))?;
    env.hook().close();
    db.set_filter(SMALL_AND_LARGE[1])?;
    env.hook().wait_for_reader();
    let went_on = goes_on(&db, 10_000);
    env.hook().open();
    assert!(went_on, "something waited for a filter rebuild");
    db.rebuild_filters()?;
    assert!(db.stats().filters_rebuilt > 0);
    Ok(())
}

/// The same while a lookup opens a table. If another filter is chosen meanwhile, the table has that
/// one when it is open.
#[test]
fn nobody_waits_for_the_opening_of_a_table() -> Result<()> {
    let env = gated_env();
    let reopen = || open(env.clone(), 2000, SMALL_AND_LARGE[0], "tiering:T=20", true);
    load(&reopen()?, 0..10_000)?;
    let db = reopen()?;
    env.hook().close();
    let reader = {
        let db = db.clone();
        thread::spawn(move || db.get(key(0)).map(|value| value.is_some()))
    };
    env.hook().wait_for_reader();
    db.set_filter(SMALL_AND_LARGE[1])?;
    let went_on = goes_on(&db, 10_000);
    env.hook().open();
    assert!(went_on, "something waited for the opening of a table");
    assert!(reader.join().expect("it does not panic")?);
    db.rebuild_filters()?;
    assert_all_there(&db, 0..10_001)?;
    let stats = db.stats();
    let tables: u64 = stats.levels.iter().map(|level| level.total().tables).sum();
    let used = bits(&stats);
    assert!(used > 9 * 10_000 && used <= 10 * 10_001 + 512 * tables, "{used} bits");
    Ok(())
}

/// A wait for the rebuild ends with the error of a compaction that the rebuild waits for: on a full
/// disk it would never end otherwise.
#[test]
fn a_wait_for_filters_returns_the_error_of_a_compaction_that_they_wait_for() -> Result<()> {
    let sim = SimEnv::new(1);
    let failures = Arc::new(AtomicU64::new(0));
    let space_comes_back = {
        let (sim, failures) = (sim.clone(), failures.clone());
        move |event: &Event| {
            let failed = matches!(event, Event::BackgroundFailed { .. });
            if failed && failures.fetch_add(1, Ordering::Relaxed) == 20 {
                sim.set_capacity(None);
            }
        }
    };
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).policy("tiering:T=4").reserve_bytes(0);
    let options = Options::new().advanced(advanced.memtable_bytes(100 * ENTRY_BYTES).filter(SMALL_AND_LARGE[0]));
    let db = options.listener(Arc::new(space_comes_back)).open("/db")?;
    load(&db, 0..10_000)?;
    let pause = db.pause_compactions();
    for number in 10_000..10_600 {
        db.put(key(number), number.to_be_bytes())?;
    }
    db.flush()?;
    sim.set_capacity(Some(sim.used_bytes() + 4096));
    assert!(db.stats().disk.is_some_and(|disk| disk.free_bytes <= 4096));
    drop(pause);
    let outcome = db.rebuild_filters();
    let Err(error) = outcome else { panic!("it waited until there was space again: {failures:?} failures") };
    assert!(error.is_storage_full() && error.to_string().contains("compaction: find space"), "{error}");
    sim.set_capacity(None);
    db.wait_for_compactions().or_else(|_| db.compact())?;
    db.rebuild_filters()?;
    assert_all_there(&db, 0..10_600)
}

/// Returns true if a flush, statistics, an ingest and a change of policy end while reads wait. The
/// flush writes the entry of this number.
fn goes_on(db: &Db, number: u64) -> bool {
    let (db, (done, is_done)) = (db.clone(), mpsc::channel());
    thread::spawn(move || {
        let work = || -> Result<()> {
            db.put(key(number), number.to_be_bytes())?;
            db.flush()?;
            db.stats();
            drop(db.ingest()?);
            db.set_policy("tiering:T=30")
        };
        let outcome = work();
        drop(db);
        // The test may have ended.
        let _ = done.send(outcome);
    });
    // Far longer than that takes, on a machine with much else to do.
    matches!(is_done.recv_timeout(Duration::from_secs(20)), Ok(Ok(())))
}
