//! Compaction filters by example: which entries they are shown, threads that read while decisions
//! take effect, failures, and crashes. Random histories: `compaction_filters`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::operators::Append;
use tamarack::{
    AdvancedOptions, Batch, CompactionFilter, Db, Durability, FilterDecision, FilterEntry, FilterFailure, Options,
    Result, Snapshot,
};
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Condvar, Mutex, Rank, thread};
use tamarack_env::{Env, Event, MemoryEnv, Random, SimEnv};
use tamarack_testing::{CarryOut, Hook, Hooked, HookedCall};

use crate::compaction_filters::Rule;
use crate::crash_images::crash_images;

type Decide = dyn Fn(&FilterEntry<'_>, &mut Vec<u8>) -> Result<FilterDecision, FilterFailure> + Send + Sync;

/// A filter that a function is.
struct By(Box<Decide>);

impl CompactionFilter for By {
    fn name(&self) -> &str {
        "test.by"
    }

    fn filter(&self, entry: &FilterEntry<'_>, value: &mut Vec<u8>) -> Result<FilterDecision, FilterFailure> {
        self.0(entry, value)
    }
}

fn by(
    decide: impl Fn(&FilterEntry<'_>, &mut Vec<u8>) -> Result<FilterDecision, FilterFailure> + Send + Sync + 'static,
) -> Arc<By> {
    Arc::new(By(Box::new(decide)))
}

fn options(env: &Arc<dyn Env>, policy: &str) -> Options {
    let advanced = AdvancedOptions::new().env(env.clone()).policy(policy).memtable_bytes(10_000);
    Options::new().threads(1).advanced(advanced)
}

/// What a filter was shown.
type Shown = Arc<Mutex<Vec<(String, String, usize, bool)>>>;

/// A filter that notes what it is shown, and then decides by [`Rule::ByValue`].
fn noting() -> (Arc<By>, Shown) {
    let shown: Shown = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let notes = shown.clone();
    let filter = by(move |entry, value| {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        notes.lock().push((text(entry.key), text(entry.value), entry.level, entry.is_oldest));
        Rule::ByValue.filter(entry, value)
    });
    (filter, shown)
}

fn text(db: &Db, key: &str) -> Result<Option<String>> {
    Ok(db.get(key)?.map(|value| value.escape_ascii().to_string()))
}

/// A flush shows nothing, and neither does the move of a run. A compaction of everything shows
/// each put, also in a tree of one run; not what deletes and range deletes hide, nor operands
/// before they are a value.
#[test]
fn a_compaction_shows_what_it_copies() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let (filter, shown) = noting();
    let db = options(&env, "tiering:T=4").merge_operator(Arc::new(Append)).compaction_filter(filter).open("/db")?;
    for key in ["ash", "elm", "fir", "oak"] {
        db.put(key, "a")?;
    }
    db.flush()?;
    db.delete("elm")?;
    db.delete_range("fir".."g")?;
    db.merge("oak", "b")?;
    db.merge("yew", "c1")?;
    db.put("ash", "d")?;
    db.flush()?;
    assert!(shown.lock().is_empty(), "flushes show nothing");
    db.compact()?;
    let one = |key: &str, value: &str, level| (key.to_owned(), value.to_owned(), level, true);
    let mut first = std::mem::take(&mut *shown.lock());
    let level = first.first().map_or(0, |(_, _, level, _)| *level);
    assert_eq!(first, [one("ash", "d", level), one("oak", "ab", level), one("yew", "c1", level)]);
    assert!(level > 0);
    assert_eq!((text(&db, "ash")?, text(&db, "yew")?), (None, Some("C1".to_owned())));
    db.compact()?;
    first = std::mem::take(&mut *shown.lock());
    let left: Vec<_> = first.iter().map(|(key, value, ..)| (key.as_str(), value.as_str())).collect();
    assert_eq!(left, [("oak", "ab"), ("yew", "C1")], "a run alone is rewritten, too");
    let stats = db.stats();
    assert_eq!((stats.compaction_filter_dropped, stats.compaction_filter_changed), (1, 1));
    Ok(())
}

/// A drop above an older version leaves a tombstone, whatever compactions come between them.
#[test]
fn a_drop_hides_older_versions_in_older_runs() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let (filter, shown) = noting();
    let advanced = AdvancedOptions::new().env(env).policy("tiering:T=2").memtable_bytes(300);
    let db = Options::new().threads(1).advanced(advanced).compaction_filter(filter).open("/db")?;
    for number in 0..60 {
        db.put(format!("maple {number}"), "a".repeat(30))?;
    }
    db.put("oak", "a")?;
    db.compact()?;
    let was_above = |(key, _, _, is_oldest): &(String, String, usize, bool)| key == "oak" && !is_oldest;
    shown.lock().clear();
    let mut rounds = 0..40;
    while !shown.lock().iter().any(was_above) {
        let round = rounds.next().expect("a compaction of young runs beside the old one");
        db.put("oak", format!("d{round}"))?;
        for number in 0..5 {
            db.put(format!("maple {number}"), "a".repeat(30))?;
        }
        db.flush()?;
        db.wait_for_compactions()?;
        assert!(text(&db, "oak")?.is_none_or(|value| value == format!("d{round}")));
    }
    assert_eq!(text(&db, "oak")?, None);
    assert!(db.stats().compaction_filter_dropped > 0);
    db.compact()?;
    assert_eq!(text(&db, "oak")?, None);
    let runs = db.stats().levels.into_iter().flat_map(|level| level.runs);
    assert_eq!(runs.map(|run| run.entries).sum::<u64>(), 60, "the tombstone went, too");
    Ok(())
}

/// Operands that are younger are merged with what the filter has made.
#[test]
fn younger_operands_stay() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let turnstile = Turnstile::new();
    let waiting = turnstile.clone();
    let filter = by(move |entry, value| {
        waiting.pass();
        Rule::ByValue.filter(entry, value)
    });
    let db = options(&env, "leveling:T=4").merge_operator(Arc::new(Append)).compaction_filter(filter).open("/db")?;
    db.put("changed", "c")?;
    db.put("dropped", "d")?;
    db.flush()?;
    let compacting = thread::spawn({
        let db = db.clone();
        move || db.compact()
    });
    turnstile.wait_for_one();
    db.merge("changed", "1")?;
    db.merge("dropped", "1")?;
    assert_eq!((text(&db, "changed")?, text(&db, "dropped")?), (Some("c1".to_owned()), Some("d1".to_owned())));
    turnstile.open();
    compacting.join().expect("it does not panic")?;
    assert_eq!((text(&db, "changed")?, text(&db, "dropped")?), (Some("C1".to_owned()), Some("1".to_owned())));
    Ok(())
}

/// What waits, and lets others wait.
struct Turnstile {
    state: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Turnstile {
    fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(Rank::Test, (0, false)), changed: Condvar::new() })
    }

    /// Waits until it is opened.
    fn pass(&self) {
        let mut state = self.state.lock();
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state);
        }
    }

    /// Blocks until somebody waits.
    fn wait_for_one(&self) {
        let mut state = self.state.lock();
        while state.0 == 0 {
            state = self.changed.wait(state);
        }
    }

    fn open(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }
}

/// A filter that drops `oak` after it has passed the turnstile.
fn waiting(turnstile: &Arc<Turnstile>) -> Arc<By> {
    let turnstile = turnstile.clone();
    by(move |entry, _| {
        if entry.key != b"oak" {
            return Ok(FilterDecision::Keep);
        }
        turnstile.pass();
        Ok(FilterDecision::Drop)
    })
}

/// A snapshot, a scan or a transaction that begins after an entry was shown makes the decision
/// void. When it has ended, the next compaction drops the entry.
#[test]
fn who_begins_while_an_entry_is_shown_reads_the_same_to_the_end() -> Result<()> {
    for who in ["snapshot", "scan", "transaction"] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let turnstile = Turnstile::new();
        let db = options(&env, "leveling:T=4").compaction_filter(waiting(&turnstile)).open("/db")?;
        db.put("ash", "a")?;
        db.put("oak", "a")?;
        db.flush()?;
        let compacting = thread::spawn({
            let db = db.clone();
            move || db.compact()
        });
        turnstile.wait_for_one();
        let snapshot: Option<Snapshot> = (who == "snapshot").then(|| db.snapshot());
        let transaction = (who == "transaction").then(|| db.transaction());
        let mut scan = (who == "scan").then(|| db.iter());
        if let Some(scan) = &mut scan {
            assert_eq!(scan.next().transpose()?.map(|(key, _)| key), Some(b"ash".to_vec()));
        }
        turnstile.open();
        compacting.join().expect("it does not panic")?;
        assert_eq!(text(&db, "oak")?.as_deref(), Some("a"), "the decision is void for all, {who}");
        for snapshot in snapshot.iter() {
            assert!(snapshot.get("oak")?.is_some());
        }
        for transaction in transaction.iter() {
            assert!(transaction.get("oak")?.is_some());
        }
        for scan in scan.iter_mut() {
            assert_eq!(scan.next().transpose()?.map(|(key, _)| key), Some(b"oak".to_vec()));
        }
        assert_eq!(db.stats().compaction_filter_dropped, 0);
        drop((snapshot, transaction, scan));
        db.compact()?;
        assert_eq!((text(&db, "oak")?, db.stats().compaction_filter_dropped), (None, 1), "{who}");
    }
    Ok(())
}

/// Reads of tables by the thread `lookup` wait at a turnstile.
struct SlowLookup(Arc<Turnstile>);

impl std::fmt::Debug for SlowLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SlowLookup")
    }
}

impl Hook for SlowLookup {
    fn around(&self, path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize> {
        let is_lookup = std::thread::current().name() == Some("lookup");
        if is_lookup && matches!(call, HookedCall::Read) && path.extension().is_some_and(|it| it == "sst") {
            self.0.pass();
        }
        carry_out()
    }
}

/// A lookup that has pinned its state before a drop takes effect, and reads its block after that,
/// does not cache the entry. One that begins after the next write does.
#[test]
fn a_lookup_that_was_overtaken_by_a_drop_caches_nothing() -> Result<()> {
    let [showing, reading] = [Turnstile::new(), Turnstile::new()];
    let env: Arc<dyn Env> = Hooked::new(MemoryEnv::new(1), SlowLookup(reading.clone()));
    let advanced = AdvancedOptions::new().env(env).policy("leveling:T=4").memtable_bytes(60_000);
    let advanced = advanced.cache_bytes(6000).block_bytes(1000).index_bytes(60_000);
    let options = Options::new().threads(1).advanced(advanced).compaction_filter(waiting(&showing));
    let db = options.open("/db")?;
    for number in 0..200 {
        db.put(format!("maple {number:03}"), "v".repeat(100))?;
    }
    db.put("oak", "v".repeat(100))?;
    db.flush()?;
    // Opens the table.
    assert!(db.get("maple 003")?.is_some());
    let compacting = thread::spawn({
        let db = db.clone();
        move || db.compact()
    });
    showing.wait_for_one();
    let lookup = std::thread::Builder::new().name("lookup".to_owned()).spawn({
        let db = db.clone();
        move || db.get("oak").map(|found| found.is_some())
    });
    let lookup = lookup.expect("a thread");
    reading.wait_for_one();
    showing.open();
    compacting.join().expect("it does not panic")?;
    assert!(db.get("oak")?.is_none(), "it was dropped");
    reading.open();
    assert!(lookup.join().expect("it does not panic")?, "it has pinned the state before");
    assert!(db.get("oak")?.is_none(), "an entry that was dropped is cached");

    let cached = |key: &str| -> Result<bool> {
        let before = db.stats().lookups.cached_entries;
        for _ in 0..2 {
            assert!(db.get(key)?.is_some());
        }
        Ok(db.stats().lookups.cached_entries > before)
    };
    assert!(!cached("maple 050")?, "nothing tells who has pinned a state before");
    db.put("zoo", "v")?;
    assert!(cached("maple 150")?, "entries are cached again");
    Ok(())
}

/// What the reading threads of the next test have met.
#[derive(Default)]
struct MetByReaders {
    gone: AtomicU64,
    snapshots: AtomicU64,
}

/// The number in a value of [`threads_read_the_same_twice_and_nothing_comes_back`].
fn number_in(value: &[u8]) -> u64 {
    let text = std::str::from_utf8(&value[1..]).expect("a number");
    text.trim_end_matches('.').parse().expect("a number")
}

/// While a thread writes, and compactions drop what it writes, others look keys up (a value that
/// was gone does not come back, and no older one does), and read snapshots and transactions twice.
#[test]
fn threads_read_the_same_twice_and_nothing_comes_back() -> Result<()> {
    const KEYS: u64 = 2000;
    const WRITES: u64 = 40_000;
    for (seed, filter) in [(1, "blocked:bits=10"), (2, "chucky:bits=12")] {
        let env: Arc<dyn Env> = MemoryEnv::new(seed);
        let pause = |us: u64| env.wait(&Event::new(), Some(env.now() + Duration::from_micros(us)), &mut || false);
        let advanced =
            AdvancedOptions::new().env(env.clone()).policy("leveling:T=3").filter(filter).memtable_bytes(20_000);
        let advanced = advanced.table_bytes(8000).block_bytes(800).cache_bytes(4000);
        let options = Options::new().threads(2).advanced(advanced);
        let db = options.compaction_filter(Arc::new(Rule::ByValue)).open("/db")?;
        let met = MetByReaders::default();
        let is_done = AtomicU64::new(0);
        let goes_on = || is_done.load(Ordering::Relaxed) == 0;
        let key = |random: &Random| format!("key {:03}", random.below(KEYS));
        let look_up = |random: &Random| -> Result<()> {
            let mut last: BTreeMap<String, (u64, bool)> = BTreeMap::new();
            while goes_on() {
                let key = key(random);
                let found = db.get(&key)?.map(|value| number_in(&value));
                let (number, is_gone) = last.entry(key.clone()).or_default();
                match found {
                    Some(found) => {
                        assert!(found > *number || found == *number && !*is_gone, "{key}: {found} after {number}");
                        (*number, *is_gone) = (found, false);
                    }
                    None => {
                        met.gone.fetch_add(u64::from(*number > 0 && !*is_gone), Ordering::Relaxed);
                        *is_gone = true;
                    }
                }
            }
            Ok(())
        };
        let read_twice = |random: &Random| -> Result<()> {
            while goes_on() {
                let keys: Vec<String> = (0..20).map(|_| key(random)).collect();
                let (snapshot, transaction) = (db.snapshot(), db.transaction());
                let read = || -> Result<Vec<_>> {
                    let text = |value: Option<tamarack::Value>| value.map(|value| value.to_vec());
                    let one = |key: &String| Ok((text(snapshot.get(key)?), text(transaction.get(key)?)));
                    keys.iter().map(one).collect()
                };
                let first = read()?;
                pause(random.below(800));
                assert_eq!(read()?, first, "{keys:?}");
                drop((snapshot, transaction));
                met.snapshots.fetch_add(1, Ordering::Relaxed);
                pause(random.below(4000));
            }
            Ok(())
        };
        let look_up = &look_up;
        thread::scope(|scope| -> Result<()> {
            let readers = [0, 1].map(|number| scope.spawn(move || look_up(&Random::for_purpose(seed, number))));
            let twice = scope.spawn(|| read_twice(&Random::for_purpose(seed, 2)));
            let random = Random::for_purpose(seed, 3);
            let write = || -> Result<()> {
                // On a busy machine the readers may come late.
                let is_enough = || [&met.gone, &met.snapshots].iter().all(|met| met.load(Ordering::Relaxed) > 20);
                for number in 1..=20 * WRITES {
                    if number > WRITES && is_enough() {
                        break;
                    }
                    let fate = if random.below(3) == 0 { 'a' } else { 'd' };
                    db.put(key(&random), format!("{fate}{number}{:.<60}", ""))?;
                    if number % 10_000 == 0 {
                        db.compact()?;
                    }
                }
                Ok(())
            };
            let written = write();
            is_done.store(1, Ordering::Relaxed);
            for reader in readers.into_iter().chain([twice]) {
                reader.join().expect("a reader does not panic")?;
            }
            written
        })?;
        let dropped = db.stats().compaction_filter_dropped;
        let (gone, snapshots) = (met.gone.into_inner(), met.snapshots.into_inner());
        println!("{filter}: {dropped} dropped, {gone} seen to go, {snapshots} snapshots");
        assert!(dropped > 100 && gone > 20 && snapshots > 20, "{dropped} dropped, {gone} gone, {snapshots} snapshots");
        db.compact()?;
        let problems = db.verify(&mut |_, _| {})?.problems;
        assert!(problems.is_empty(), "{problems:?}");
    }
    Ok(())
}

/// Failures, panics and values that are too long leave entries as they are. Statistics count them,
/// and an event has the first reason.
#[test]
fn what_a_filter_fails_for_is_kept() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let events = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let filter = by(|entry, value| match entry.key {
        b"fails" => Err("it shall fail".into()),
        b"panics" => panic!("it shall panic"),
        b"too long" => {
            value.resize((1 << 20) / 8 + 1, b'x');
            Ok(FilterDecision::Change)
        }
        b"long" => {
            value.resize((1 << 20) / 8, b'x');
            Ok(FilterDecision::Change)
        }
        _ => Ok(FilterDecision::Drop),
    });
    let heard = events.clone();
    let listener = move |event: &tamarack::Event| {
        if let tamarack::Event::CompactionFilterFailed { failures, what } = event {
            heard.lock().push((*failures, what.clone()));
        }
    };
    let advanced = AdvancedOptions::new().env(env).policy("leveling:T=4");
    let options = Options::new().memory_bytes(1 << 20).threads(1).advanced(advanced);
    let db = options.compaction_filter(filter).listener(Arc::new(listener)).open("/db")?;
    let kept = ["fails", "panics", "too long"];
    for key in kept.into_iter().chain(["long", "other"]) {
        db.put(key, "a")?;
    }
    db.compact()?;
    for key in kept {
        assert_eq!(text(&db, key)?.as_deref(), Some("a"), "{key}");
    }
    assert_eq!(db.get("long")?.map(|value| value.len()), Some((1 << 20) / 8));
    assert_eq!(db.get("other")?.as_deref(), None);
    let stats = db.stats();
    let counted = [stats.compaction_filter_failures, stats.compaction_filter_dropped, stats.compaction_filter_changed];
    assert_eq!(counted, [3, 1, 1]);
    db.close()?;
    let events = std::mem::take(&mut *events.lock());
    assert!(matches!(&events[..], [(_, what), ..] if what.contains("it shall fail")), "{events:?}");
    assert_eq!(events.iter().map(|(failures, _)| failures).sum::<u64>(), 3);
    Ok(())
}

/// With a small budget, the list of what was dropped ends an output table early, between keys; the
/// next one goes on with the filter.
#[test]
fn many_drops_are_handed_over_in_between() -> Result<()> {
    for filter in ["blocked:bits=10", "chucky:bits=12"] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let advanced = AdvancedOptions::new().env(env).policy("leveling:T=4").filter(filter).table_bytes(1 << 30);
        let options = Options::new().memory_bytes(2 << 20).threads(1).advanced(advanced);
        let db = options.compaction_filter(Arc::new(Rule::ByKey)).open("/db")?;
        let key = |number: u32| format!("key {number:06}");
        for number in 0..40_000 {
            db.put(key(number), "v")?;
        }
        db.compact()?;
        db.wait_for_filter_rebuild()?;
        let stats = db.stats();
        let tables: u64 = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
        assert!(tables >= 3, "{filter}: {tables} tables");
        for number in 0..40_000 {
            assert_eq!(db.contains_key(key(number))?, number % 2 == 1, "{filter}: {number}");
        }
        assert_eq!(db.len()?, 20_000);
        let problems = db.verify(&mut |_, _| {})?.problems;
        assert!(problems.is_empty(), "{filter}: {problems:?}");
    }
    Ok(())
}

/// Batches of the tests of crashes and failures. Some are flushed, and compacted.
const BATCHES: u64 = 20;

const DESIGNS: [(&str, &str); 2] = [("leveling:T=2", "blocked:bits=10"), ("tiering:T=3", "chucky:bits=14")];

fn open_small(env: &SimEnv, (policy, filter): (&str, &str)) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(300).policy(policy).filter(filter);
    let options = Options::new().durability(Durability::Sync).threads(1).advanced(advanced);
    options.compaction_filter(Arc::new(Rule::ByValue)).open("/db")
}

/// The entries of a batch. Each is written twice in all, with another fate.
fn entries_of(number: u64) -> Vec<(String, String)> {
    let fate = |number: u64| ["a", "c", "d"][(number % 3) as usize];
    let one = |key: u64| (format!("key {key:02}"), format!("{}{number}", fate(number + key)));
    vec![one(number), one(number / 2), ("number".to_owned(), format!("a{number}"))]
}

fn write_batch(db: &Db, number: u64) -> Result<()> {
    let mut batch = Batch::new();
    for (key, value) in entries_of(number) {
        batch.put(key, value);
    }
    db.write(&batch)?;
    match number % 5 {
        1 | 3 => db.flush(),
        4 => db.compact(),
        _ => Ok(()),
    }
}

/// Checks that the database has what some number of batches leaves, and which; each value as it was
/// written, or as the filter makes it. If it `is_compacted`, as the filter makes it.
fn check_batches(db: &Db, is_compacted: bool) -> Result<u64> {
    let found: BTreeMap<Vec<u8>, Vec<u8>> = db.iter().collect::<Result<_>>()?;
    let last = found
        .get(&b"number"[..])
        .map_or(0, |value| std::str::from_utf8(&value[1..]).expect("a number").parse::<u64>().expect("a number"));
    let mut written = BTreeMap::new();
    for number in 1..=last {
        written.extend(entries_of(number).into_iter().map(|(key, value)| (key.into_bytes(), value.into_bytes())));
    }
    for (key, value) in &written {
        let (raw, filtered) = (Some(value.clone()), Rule::ByValue.result(key, value));
        let is = found.get(key).cloned();
        let is_right = is == filtered || is == raw && !is_compacted;
        assert!(is_right, "{} is {is:?} after {last} batches, written {raw:?}", key.escape_ascii());
        assert_eq!(db.get(key)?.map(|value| value.to_vec()), is);
    }
    assert!(found.keys().all(|key| written.contains_key(key)), "{found:?} after {last} batches");
    Ok(last)
}

/// A crash at any call of the storage leaves all that was acknowledged, filtered or not; and what
/// has been dropped does not come back when the next process compacts.
#[test]
fn a_crash_brings_nothing_back() -> Result<()> {
    DESIGNS.into_iter().try_for_each(crashes)
}

fn crashes(design: (&str, &str)) -> Result<()> {
    let env = SimEnv::new(5);
    let db = open_small(&env, design)?;
    let images = crash_images(&env, |acknowledged| {
        for number in 1..=BATCHES {
            write_batch(&db, number)?;
            acknowledged.store(number, Ordering::SeqCst);
        }
        Ok(())
    })?;
    let stats = db.stats();
    assert!(stats.compaction_filter_dropped > 5 && stats.compaction_filter_changed > 5, "{stats:?}");
    assert!(images.len() > 300, "only {} images", images.len());
    for (acknowledged, crash, image) in images {
        let db = open_small(&image, design)?;
        let number = check_batches(&db, false)?;
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, {crash:?}");
        db.compact()?;
        assert_eq!(check_batches(&db, true)?, number, "{crash:?}");
        let problems = db.verify(&mut |_, _| {})?.problems;
        assert!(problems.is_empty(), "{crash:?}: {problems:?}");
    }
    Ok(())
}

/// Whichever call of the storage fails, this process and the next one find all batches that were
/// acknowledged, filtered or not.
#[test]
fn a_call_that_fails_brings_nothing_back() -> Result<()> {
    DESIGNS.into_iter().try_for_each(failures)
}

fn failures(design: (&str, &str)) -> Result<()> {
    let calls = {
        let env = SimEnv::new(5);
        let db = open_small(&env, design)?;
        (1..=BATCHES).try_for_each(|number| write_batch(&db, number))?;
        env.calls_made()
    };
    let mut failed = 0;
    for call in 1..=calls {
        let env = SimEnv::new(5);
        env.inject(Fault::new(Failure::Io).from_call(call));
        let mut acknowledged = 0;
        if let Ok(db) = open_small(&env, design) {
            for number in 1..=BATCHES {
                // A flush that fails is repeated; a write that fails may be there or not.
                if write_batch(&db, number).is_err() && check_batches(&db, false)? < number {
                    failed += 1;
                    break;
                }
                acknowledged = number;
            }
        }
        env.clear_faults();
        let db = open_small(&env, design)?;
        let number = check_batches(&db, false)?;
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, call {call}");
        db.compact()?;
        assert_eq!(check_batches(&db, true)?, number, "call {call}");
    }
    assert!(failed > 10, "only {failed} writes failed in {calls} calls");
    Ok(())
}
