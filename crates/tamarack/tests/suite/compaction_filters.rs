//! Compaction filters: what they drop and change, and when, through puts, operands, deletes, range
//! deletes, flushes, compactions, ingests, reopening and snapshots.
//!
//! When a compaction comes is not known to the caller, so the model of a key is a set of values
//! that it may have: what was written, and what the filter makes of it. What a read has found makes
//! the set smaller: a dropped entry never comes back. What a snapshot has shown once, it shows
//! again. A compaction of everything leaves what the filter makes of each value.
//!
//! Random histories from seeds, under several filters, policies and caches. Planted mistakes show
//! that the histories can fail..

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::operators::Append;
use tamarack::{
    AdvancedOptions, Batch, CompactionFilter, Db, FilterDecision, FilterEntry, FilterFailure, Options, Result, Snapshot,
};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv};

#[cfg(debug_assertions)]
use crate::noticed::is_noticed;

const OPERATIONS: usize = 700;

const KEYS: u64 = 60;

const HISTORIES: u64 = 80;

/// The upper bound on histories: a mistake that needs more is not noticed.
#[cfg(debug_assertions)]
const HISTORIES_MAX: u64 = 60;

/// A value, or none.
type Found = Option<Vec<u8>>;

/// What a filter does, as a function of key and value; applied to its own result, it does nothing.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// Drops `d…`, changes `c…` to `C…`, fails for `f…`.
    ByValue,
    /// The same where no older version is.
    ByValueIfOldest,
    /// Drops every other key.
    ByKey,
    /// Changes all values that begin with another small letter than `f`, for which it fails.
    ChangeMost,
}

impl Rule {
    /// What the rule makes of a value in the end.
    pub(crate) fn result(self, key: &[u8], value: &[u8]) -> Found {
        let is_even = key.last().is_some_and(|last| last.is_multiple_of(2));
        match (self, value.first()) {
            (Self::ByKey, _) => (!is_even).then(|| value.to_vec()),
            (Self::ByValue | Self::ByValueIfOldest, Some(b'd')) => None,
            (Self::ByValue | Self::ByValueIfOldest, Some(b'c')) => Some([b"C", &value[1..]].concat()),
            (Self::ChangeMost, Some(first)) if first.is_ascii_lowercase() && *first != b'f' => {
                Some([&[first.to_ascii_uppercase()], &value[1..]].concat())
            }
            _ => Some(value.to_vec()),
        }
    }
}

impl CompactionFilter for Rule {
    fn name(&self) -> &str {
        "test.rule"
    }

    fn filter(
        &self,
        entry: &FilterEntry<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<FilterDecision, FilterFailure> {
        assert!(entry.level > 0 && value.is_empty(), "{entry:?}");
        if matches!(self, Self::ByValueIfOldest) && !entry.is_oldest {
            return Ok(FilterDecision::Keep);
        }
        if !matches!(self, Self::ByKey) && entry.value.first() == Some(&b'f') {
            return Err("a value that begins with f".into());
        }
        let Some(result) = self.result(entry.key, entry.value) else { return Ok(FilterDecision::Drop) };
        value.extend_from_slice(&result);
        Ok(if result == entry.value { FilterDecision::Keep } else { FilterDecision::Change })
    }
}

/// A filter during whose calls snapshots begin: between the moment when an entry is shown and the
/// one when the decision takes effect, nothing else happens on the simulator.
struct Interrupted {
    rule: Rule,
    random: Random,
    /// The database, while it is open and snapshots may begin.
    db: Mutex<Option<Db>>,
    /// Those that have begun.
    begun: Mutex<Vec<SnapshotAndContent>>,
}

type SnapshotAndContent = (Snapshot, BTreeMap<Vec<u8>, Vec<u8>>);

impl CompactionFilter for Interrupted {
    fn name(&self) -> &str {
        "test.interrupted"
    }

    fn filter(
        &self,
        entry: &FilterEntry<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<FilterDecision, FilterFailure> {
        if self.random.below(100) == 0 {
            let db = self.db.lock().clone();
            if let Some(snapshot) = db.map(|db| db.snapshot()) {
                let content = snapshot.iter().collect::<Result<_>>()?;
                self.begun.lock().push((snapshot, content));
            }
        }
        self.rule.filter(entry, value)
    }
}

/// What a key may have.
#[derive(Clone, Debug)]
struct Possible {
    /// Values to which the filter may have been applied, or not.
    values: BTreeSet<Found>,
    /// True if operands may still be merged with something else than what was read last.
    has_operands: bool,
}

impl Possible {
    fn only(found: Found) -> Self {
        Self { values: BTreeSet::from([found]), has_operands: false }
    }
}

struct World {
    options: Options,
    filter: Arc<Interrupted>,
    rule: Rule,
    /// `None` only while it is opened again.
    db: Option<Db>,
    now: BTreeMap<Vec<u8>, Possible>,
    snapshots: Vec<SnapshotAndContent>,
    random: Random,
}

/// What a history has met.
#[derive(Default)]
struct Met {
    dropped: u64,
    changed: u64,
    failures: u64,
    cached: u64,
    interrupted: u64,
}

#[test]
fn every_read_finds_what_the_filter_allows() -> Result<()> {
    let mut sum = Met::default();
    for seed in 0..HISTORIES {
        match history(seed)? {
            Ok(met) => {
                sum.dropped += met.dropped;
                sum.changed += met.changed;
                sum.failures += met.failures;
                sum.cached += met.cached;
                sum.interrupted += met.interrupted;
            }
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    let Met { dropped, changed, failures, cached, interrupted } = sum;
    println!(
        "{dropped} entries dropped, {changed} changed, {failures} failures, {cached} cached entries found, \
         {interrupted} snapshots began while an entry was shown"
    );
    let is_enough = dropped > 1000 && changed > 1000 && failures > 100 && cached > 1000 && interrupted > 100;
    assert!(is_enough, "too little happens");
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn a_drop_that_brings_back_an_older_version_is_noticed() {
    is_noticed(Mistake::FilterDropsTombstone, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn a_filter_that_is_shown_what_a_snapshot_reads_is_noticed() {
    is_noticed(Mistake::FilterUnderSnapshot, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn a_decision_that_takes_effect_beside_a_snapshot_is_noticed() {
    is_noticed(Mistake::FilterBesideSnapshot, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn a_cached_entry_that_outlives_its_drop_is_noticed() {
    is_noticed(Mistake::CachedThroughFilter, HISTORIES_MAX, history);
}

/// The history of that seed; a wrong answer is an error of the second kind.
fn history(seed: u64) -> Result<std::result::Result<Met, String>> {
    let random = Random::new(seed);
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(seed));
    let policies = ["leveling:T=3", "tiering:T=4", "lazy-leveling:T=3", "garnering:T=2,c=0.5,first=2"];
    let filters = ["none", "blocked:bits=10", "bloom:bits=5", "elastic:bits=8", "chucky:bits=12"];
    let advanced = AdvancedOptions::new()
        .env(env)
        .policy(policies[random.below(4) as usize])
        .filter(filters[random.below(5) as usize])
        .memtable_bytes(1500)
        .block_bytes(300)
        .table_bytes(1200)
        .cache_bytes([0, 1000, 2000][random.below(3) as usize]);
    let rule = [Rule::ByValue, Rule::ByValueIfOldest, Rule::ByKey, Rule::ChangeMost][random.below(4) as usize];
    let options = Options::new().threads(1).advanced(advanced).merge_operator(Arc::new(Append));
    let filter = Arc::new(Interrupted {
        rule,
        random: Random::for_purpose(seed, 1),
        db: Mutex::new(Rank::Test, None),
        begun: Mutex::new(Rank::Test, Vec::new()),
    });
    let options = options.compaction_filter(filter.clone());
    let db = options.open("/db")?;
    *filter.db.lock() = Some(db.clone());
    let (now, snapshots) = (BTreeMap::new(), Vec::new());
    let mut world = World { options, filter, rule, db: Some(db), now, snapshots, random };
    let mut met = Met::default();
    for at in 0..OPERATIONS {
        if let Err(what) = world.step(&mut met)? {
            world.end_snapshots();
            return Ok(Err(format!("operation {at}: {what}")));
        }
        let begun = std::mem::take(&mut *world.filter.begun.lock());
        met.interrupted += begun.len() as u64;
        world.snapshots.extend(begun);
    }
    world.end_snapshots();
    let report = world.db().verify(&mut |_, _| {})?;
    if !report.is_ok() {
        return Ok(Err(format!("{:?}", report.problems)));
    }
    world.db().compact()?;
    world.db().wait_for_compactions()?;
    let report = world.db().verify(&mut |_, _| {})?;
    if !report.is_ok() {
        return Ok(Err(format!("after the last compaction: {:?}", report.problems)));
    }
    if let Err(what) = world.scan() {
        return Ok(Err(format!("after the last compaction: {what}")));
    }
    // One entry for each key that is left, on which the filter has had its effect.
    let left = world.db().iter().collect::<Result<Vec<_>>>()?;
    let unfiltered = left.iter().find(|(key, value)| rule.result(key, value).as_ref() != Some(value));
    let entries: u64 = world.db().stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    if unfiltered.is_some() || entries != left.len() as u64 {
        return Ok(Err(format!("{entries} entries of {} keys, {unfiltered:?} is not filtered", left.len())));
    }
    world.count(&mut met);
    Ok(Ok(met))
}

impl World {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between two operations")
    }

    /// Ends all snapshots, and lets the filter begin no more.
    fn end_snapshots(&mut self) {
        drop(self.filter.db.lock().take());
        drop(std::mem::take(&mut *self.filter.begun.lock()));
        self.snapshots.clear();
    }

    /// Adds the counters of the open database.
    fn count(&self, met: &mut Met) {
        let stats = self.db().stats();
        met.dropped += stats.compaction_filter_dropped;
        met.changed += stats.compaction_filter_changed;
        met.failures += stats.compaction_filter_failures;
        met.cached += stats.lookups.cached_entries;
    }

    fn step(&mut self, met: &mut Met) -> Result<std::result::Result<(), String>> {
        match self.random.below(1000) {
            0..200 => {
                let (key, value) = (self.key(), self.value());
                self.db().put(&key, &value)?;
                self.now.insert(key, Possible::only(Some(value)));
            }
            200..230 => {
                let key = self.key();
                self.db().delete(&key)?;
                self.now.insert(key, Possible::only(None));
            }
            230..270 => {
                let (key, operand) = (self.key(), self.value());
                self.db().merge(&key, &operand)?;
                self.merge(&key, &operand);
            }
            270..290 => self.batch()?,
            290..305 => {
                let (from, to) = (self.key(), self.key());
                if from < to {
                    self.db().delete_range(&from[..]..&to[..])?;
                    let keys: Vec<_> = self.now.range(from..to).map(|(key, _)| key.clone()).collect();
                    self.now.extend(keys.into_iter().map(|key| (key, Possible::only(None))));
                }
            }
            305..335 => return self.snapshot(),
            335..375 => drop((!self.snapshots.is_empty()).then(|| {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(at)
            })),
            375..415 => self.db().flush()?,
            415..422 => self.db().compact()?,
            422..429 => self.db().compact_range(self.key()..)?,
            429..437 => self.ingest()?,
            437..442 => {
                self.end_snapshots();
                self.count(met);
                self.db.take().map_or(Ok(()), Db::close)?;
                let db = self.options.open("/db")?;
                *self.filter.db.lock() = Some(db.clone());
                self.db = Some(db);
            }
            442..470 => return self.transaction(),
            470..490 => {
                let keys: Vec<_> = (0..self.random.below(40)).map(|_| self.key()).collect();
                let found = self.db().multi_get(&keys)?;
                for (key, value) in keys.iter().zip(found) {
                    if let Err(what) = self.look(key, value.map(|value| value.to_vec())) {
                        return Ok(Err(format!("{what}, among many")));
                    }
                }
            }
            490..540 => return Ok(self.scan()),
            540..600 if !self.snapshots.is_empty() => return self.read_snapshot(),
            _ => {
                let key = self.key();
                let found = self.db().get(&key)?.map(|value| value.to_vec());
                return Ok(self.look(&key, found));
            }
        }
        Ok(Ok(()))
    }

    /// The values that the key may have now.
    fn allowed(&self, key: &[u8]) -> BTreeSet<Found> {
        let Some(possible) = self.now.get(key) else { return BTreeSet::from([None]) };
        let filtered = |found: &Found| found.as_ref().and_then(|value| self.rule.result(key, value));
        possible.values.iter().flat_map(|found| [found.clone(), filtered(found)]).collect()
    }

    /// Compares what a read has found, and remembers it.
    fn look(&mut self, key: &[u8], found: Found) -> std::result::Result<(), String> {
        let allowed = self.allowed(key);
        if !allowed.contains(&found) {
            let shown = |found: &Found| found.as_ref().map(|value| value.escape_ascii().to_string());
            let allowed: Vec<_> = allowed.iter().map(shown).collect();
            return Err(format!("key {} has {:?}, not one of {allowed:?}", key.escape_ascii(), shown(&found)));
        }
        if let Some(possible) = self.now.get_mut(key).filter(|possible| !possible.has_operands) {
            possible.values = BTreeSet::from([found]);
        }
        Ok(())
    }

    /// Applies an operand to the model.
    fn merge(&mut self, key: &[u8], operand: &[u8]) {
        let merged = |found: Found| Some([&found.unwrap_or_default(), operand].concat());
        let values = self.allowed(key).into_iter().map(merged).collect();
        self.now.insert(key.to_vec(), Possible { values, has_operands: true });
    }

    fn batch(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        for _ in 0..self.random.below(12) {
            let (key, value) = (self.key(), self.value());
            match self.random.below(6) {
                0 => {
                    batch.delete(&key);
                    self.now.insert(key, Possible::only(None));
                }
                1 => {
                    batch.merge(&key, &value);
                    self.merge(&key, &value);
                }
                _ => {
                    batch.put(&key, &value);
                    self.now.insert(key, Possible::only(Some(value)));
                }
            }
        }
        self.db().write(&batch)
    }

    fn ingest(&mut self) -> Result<()> {
        let keys: BTreeSet<_> = (0..self.random.below(8)).map(|_| self.key()).collect();
        let mut ingest = self.db().ingest()?;
        for key in keys {
            let value = self.value();
            ingest.put(&key, &value)?;
            self.now.insert(key, Possible::only(Some(value)));
        }
        ingest.finish().map(drop)
    }

    /// A transaction reads the same twice, whatever is compacted in between.
    fn transaction(&mut self) -> Result<std::result::Result<(), String>> {
        let db = self.db().clone();
        let mut transaction = db.transaction();
        let (read, written, value) = (self.key(), self.key(), self.value());
        let first = transaction.get(&read)?.map(|value| value.to_vec());
        match self.random.below(3) {
            0 => db.compact()?,
            1 => db.flush()?,
            _ => {}
        }
        let second = transaction.get(&read)?.map(|value| value.to_vec());
        if first != second {
            return Ok(Err(format!("a transaction finds {first:?}, then {second:?}")));
        }
        if let Err(what) = self.look(&read, first) {
            return Ok(Err(format!("{what}, in a transaction")));
        }
        transaction.put(&written, &value);
        transaction.commit()?;
        self.now.insert(written, Possible::only(Some(value)));
        Ok(Ok(()))
    }

    fn snapshot(&mut self) -> Result<std::result::Result<(), String>> {
        let snapshot = self.db().snapshot();
        let content: BTreeMap<_, _> = snapshot.iter().collect::<Result<_>>()?;
        let looked = self.compare(&content);
        self.snapshots.push((snapshot, content));
        Ok(looked)
    }

    fn read_snapshot(&self) -> Result<std::result::Result<(), String>> {
        let (snapshot, content) = &self.snapshots[self.random.below(self.snapshots.len() as u64) as usize];
        if self.random.below(2) == 0 {
            let again: BTreeMap<_, _> = snapshot.iter().collect::<Result<_>>()?;
            let is_same = again == *content;
            return Ok(if is_same { Ok(()) } else { Err(format!("{again:?} in a snapshot, then {content:?}")) });
        }
        let key = self.key();
        let (found, before) = (snapshot.get(&key)?, content.get(&key));
        let is_same = found.as_deref() == before.map(Vec::as_slice);
        Ok(if is_same { Ok(()) } else { Err(format!("a snapshot finds {found:?}, and before {before:?}")) })
    }

    /// A scan of the present.
    fn scan(&mut self) -> std::result::Result<(), String> {
        let found: BTreeMap<_, _> = match self.random.below(2) {
            0 => self.db().iter().collect::<Result<_>>(),
            _ => self.db().iter().rev().collect::<Result<_>>(),
        }
        .map_err(|error| error.to_string())?;
        self.compare(&found).map_err(|what| format!("{what}, in a scan"))
    }

    fn compare(&mut self, found: &BTreeMap<Vec<u8>, Vec<u8>>) -> std::result::Result<(), String> {
        let keys: BTreeSet<_> = self.now.keys().chain(found.keys()).cloned().collect();
        keys.into_iter().try_for_each(|key| self.look(&key, found.get(&key).cloned()))
    }

    fn key(&self) -> Vec<u8> {
        let below = [KEYS, KEYS, 6][self.random.below(3) as usize];
        format!("key {:05}", self.random.below(below) * 7919 % KEYS).into_bytes()
    }

    fn value(&self) -> Vec<u8> {
        let random = &self.random;
        let first = [b'a', b'c', b'd', b'd', b'f'][random.below(5) as usize];
        let mut value = vec![first];
        value.extend_from_slice(random.below(10_000).to_string().as_bytes());
        value.resize(value.len() + random.below(60) as usize, b'.');
        value
    }
}
