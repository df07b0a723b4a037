//! Merge operators: through puts, deletes, flushes, compactions, ingests, reopening and snapshots,
//! every read folds the operands of a key as a map that applies each one at once.
//!
//! Random histories from seeds, under several operators, policies, filters and caches. Planted
//! mistakes show that the histories can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::operators::{Add, Append, Max, Min, SetUnion};
use tamarack::{
    AdvancedOptions, Batch, Db, Durability, Error, ErrorKind, MergeFailure, MergeOperator, Merged, Options, Result,
    Snapshot,
};
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::atomic::Ordering;
use tamarack_env::{Env, MemoryEnv, Random, SimEnv, Step};
use tamarack_testing::{read_file, write_file};

use crate::crash_images::crash_images;
#[cfg(debug_assertions)]
use crate::noticed::is_noticed;

const OPERATIONS: usize = 600;

const KEYS: u64 = 30;

/// The upper bound on histories: a mistake that needs more is not noticed.
#[cfg(debug_assertions)]
const HISTORIES_MAX: u64 = 20;

/// Keys and values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Appends operands; `!` deletes the key, and joins only what is older.
struct Journal {
    has_partial_form: bool,
}

impl MergeOperator for Journal {
    fn name(&self) -> &str {
        "test.journal"
    }

    fn merge(
        &self,
        _: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        value: &mut Vec<u8>,
    ) -> Result<Merged, MergeFailure> {
        assert!(!operands.is_empty() && value.is_empty());
        let mut merged = existing.map(<[u8]>::to_vec);
        for operand in operands {
            match *operand {
                b"!" => merged = None,
                b"?" => return Err("a question".into()),
                _ => merged.get_or_insert_default().extend_from_slice(operand),
            }
        }
        match merged {
            Some(merged) => value.extend_from_slice(&merged),
            None => return Ok(Merged::Deleted),
        }
        Ok(Merged::Value)
    }

    fn merge_partial(&self, _: &[u8], older: &[u8], newer: &[u8], operand: &mut Vec<u8>) -> Result<bool, MergeFailure> {
        assert!(operand.is_empty());
        match (older, newer) {
            _ if !self.has_partial_form => return Ok(false),
            (b"?", _) | (_, b"?") => return Err("a question".into()),
            (_, b"!") => operand.extend_from_slice(b"!"),
            (b"!", _) => return Ok(false),
            _ => operand.extend([older, newer].concat()),
        }
        Ok(true)
    }
}

/// The operator of a history.
fn operator(random: &Random) -> Arc<dyn MergeOperator> {
    match random.below(8) {
        0 => Arc::new(Append),
        1 => Arc::new(Add),
        2 => Arc::new(Min),
        3 => Arc::new(Max),
        4 => Arc::new(SetUnion),
        number => Arc::new(Journal { has_partial_form: number < 7 }),
    }
}

struct World {
    options: Options,
    operator: Arc<dyn MergeOperator>,
    /// `None` only while it is opened again.
    db: Option<Db>,
    now: Content,
    snapshots: Vec<(Snapshot, Content)>,
    random: Random,
}

#[test]
fn every_read_folds_operands_as_a_map_does() -> Result<()> {
    for seed in 0..60 {
        if let Err(what) = history(seed)? {
            panic!("seed {seed}: {what}");
        }
    }
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn an_operand_that_a_partial_merge_loses_is_noticed() {
    is_noticed(Mistake::OperandLost, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn an_operand_that_is_merged_under_a_snapshot_is_noticed() {
    is_noticed(Mistake::OperandUnderSnapshot, HISTORIES_MAX, history);
}

/// The history of that seed; a wrong answer is an error of the second kind.
fn history(seed: u64) -> Result<std::result::Result<(), String>> {
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
        .cache_bytes([0, 3000, 1 << 20][random.below(3) as usize]);
    let operator = operator(&random);
    let options = Options::new().threads(1).advanced(advanced).merge_operator(operator.clone());
    let db = Some(options.open("/db")?);
    let mut world = World { options, operator, db, now: Content::new(), snapshots: Vec::new(), random };
    for at in 0..OPERATIONS {
        if let Err(what) = world.step()? {
            return Ok(Err(format!("operation {at}, {}: {what}", world.operator.name())));
        }
    }
    // Without snapshots, a compaction of everything leaves one entry per key.
    world.snapshots.clear();
    world.db().compact()?;
    let entries: u64 = world.db().stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    if entries != world.now.len() as u64 {
        return Ok(Err(format!("{entries} entries of {} keys", world.now.len())));
    }
    Ok(world.scan(None))
}

impl World {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between two operations")
    }

    fn step(&mut self) -> Result<std::result::Result<(), String>> {
        match self.random.below(1000) {
            0..60 => {
                let (key, value) = (self.key(), self.operand());
                self.db().put(&key, &value)?;
                self.now.insert(key, value);
            }
            60..90 => {
                let key = self.key();
                self.db().delete(&key)?;
                self.now.remove(&key);
            }
            90..340 => {
                let (key, operand) = (self.key(), self.operand());
                self.db().merge(&key, &operand)?;
                self.apply(&key, &operand);
            }
            340..380 => self.batch()?,
            380..430 => return self.transaction(),
            430..460 => self.snapshots.push((self.db().snapshot(), self.now.clone())),
            460..490 => drop((!self.snapshots.is_empty()).then(|| {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(at)
            })),
            490..520 => self.db().flush()?,
            520..526 => self.db().compact()?,
            526..532 => self.db().compact_range(self.key()..)?,
            532..542 => self.ingest()?,
            542..548 => {
                self.snapshots.clear();
                self.db.take().map_or(Ok(()), Db::close)?;
                self.db = Some(self.options.open("/db")?);
            }
            548..580 => {
                let keys: Vec<_> = (0..self.random.below(40)).map(|_| self.key()).collect();
                let found = self.db().multi_get(&keys)?;
                let is_wrong = |at: &usize| found[*at].as_deref() != self.now.get(&keys[*at]).map(Vec::as_slice);
                if let Some(at) = (0..keys.len()).find(is_wrong) {
                    let expected = self.now.get(&keys[at]);
                    return Ok(Err(format!("{:?} among many, instead of {expected:?}", found[at])));
                }
            }
            580..640 => {
                let at = self.random.below(2 + self.snapshots.len() as u64).checked_sub(2);
                return Ok(self.scan(at.map(|at| at as usize)));
            }
            _ => {
                let key = self.key();
                return self.look_up(&key);
            }
        }
        Ok(Ok(()))
    }

    /// Applies an operand to the map.
    fn apply(&mut self, key: &[u8], operand: &[u8]) {
        apply(&*self.operator, &mut self.now, key, operand);
    }

    fn batch(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        for _ in 0..self.random.below(12) {
            let (key, operand) = (self.key(), self.operand());
            match self.random.below(5) {
                0 => {
                    batch.put(&key, &operand);
                    self.now.insert(key, operand);
                }
                1 => {
                    batch.delete(&key);
                    self.now.remove(&key);
                }
                _ => {
                    batch.merge(&key, &operand);
                    self.apply(&key, &operand);
                }
            }
        }
        self.db().write(&batch)
    }

    /// A transaction that writes and reads, rolls a part back, and commits or does not.
    fn transaction(&mut self) -> Result<std::result::Result<(), String>> {
        let mut transaction = self.db().transaction();
        let (mut own, mut saved) = (self.now.clone(), None);
        for _ in 0..self.random.below(12) {
            let (key, operand) = (self.key(), self.operand());
            match self.random.below(9) {
                0 => {
                    transaction.put(&key, &operand);
                    own.insert(key, operand);
                }
                1 => {
                    transaction.delete(&key);
                    own.remove(&key);
                }
                2 => saved = Some((transaction.savepoint(), own.clone())),
                3 => {
                    if let Some((savepoint, then)) = &saved {
                        transaction.rollback_to(*savepoint)?;
                        own.clone_from(then);
                    }
                }
                4 => {
                    let found = transaction.get(&key)?;
                    let is_there = transaction.contains_key(&key)?;
                    let expected = own.get(&key);
                    if found.as_deref() != expected.map(Vec::as_slice) || is_there != expected.is_some() {
                        return Ok(Err(format!("{found:?} in a transaction, instead of {expected:?}")));
                    }
                }
                5 => {
                    let mut scan = transaction.scan(..);
                    let mut found = Content::new();
                    while let Some(next) = if self.random.below(2) == 0 { scan.next() } else { scan.next_back() } {
                        found.extend([next?]);
                    }
                    if found != own {
                        return Ok(Err(format!("{found:?} in a transaction, instead of {own:?}")));
                    }
                }
                _ => {
                    transaction.merge(&key, &operand);
                    apply(&*self.operator, &mut own, &key, &operand);
                }
            }
        }
        if self.random.below(4) > 0 {
            transaction.commit()?;
            self.now = own;
        }
        Ok(Ok(()))
    }

    fn ingest(&mut self) -> Result<()> {
        let keys: BTreeSet<_> = (0..self.random.below(8)).map(|_| self.key()).collect();
        let mut ingest = self.db().ingest()?;
        for key in keys {
            let value = self.operand();
            ingest.put(&key, &value)?;
            self.now.insert(key, value);
        }
        ingest.finish().map(drop)
    }

    fn key(&self) -> Vec<u8> {
        let below = [KEYS, 6, 2][self.random.below(3) as usize];
        format!("key {:05}", self.random.below(below) * 7919 % KEYS).into_bytes()
    }

    /// An operand, which is a value as well.
    fn operand(&self) -> Vec<u8> {
        let random = &self.random;
        match self.operator.name() {
            "test.journal" if random.below(10) == 0 => b"!".to_vec(),
            "test.journal" | "tamarack.append" => format!("{} ", random.below(100)).into_bytes(),
            "tamarack.union" => SetUnion::encode((0..random.below(3)).map(|_| vec![b'a' + random.below(20) as u8; 3])),
            _ => (random.next() >> random.below(64)).to_le_bytes().to_vec(),
        }
    }

    fn look_up(&self, key: &[u8]) -> Result<std::result::Result<(), String>> {
        let at = self.random.below(2 + self.snapshots.len() as u64).checked_sub(2);
        let (found, there, expected) = match at {
            None => (self.db().get(key)?, self.db().contains_key(key)?, self.now.get(key)),
            Some(at) => {
                let (snapshot, content) = &self.snapshots[at as usize];
                (snapshot.get(key)?, snapshot.contains_key(key)?, content.get(key))
            }
        };
        let is_right = found.as_deref() == expected.map(Vec::as_slice) && there == expected.is_some();
        Ok(if is_right { Ok(()) } else { Err(format!("{found:?} ({there}) instead of {expected:?} at {at:?}")) })
    }

    /// A scan of the present, or of a snapshot, from random ends.
    fn scan(&self, at: Option<usize>) -> std::result::Result<(), String> {
        let (mut scan, expected) = match at {
            None => (self.db().scan(..), &self.now),
            Some(at) => (self.snapshots[at].0.scan(..), &self.snapshots[at].1),
        };
        let mut expected = expected.iter();
        let in_thousand = [0, 500, 1000][self.random.below(3) as usize];
        loop {
            let is_backward = self.random.below(1000) < in_thousand;
            let (found, wanted) = match is_backward {
                true => (scan.next_back(), expected.next_back()),
                false => (scan.next(), expected.next()),
            };
            let found = found.transpose().map_err(|error| error.to_string())?;
            if found.as_ref().map(|(key, value)| (key, value)) != wanted {
                return Err(format!("{found:?} in a scan of {at:?}, backward {is_backward}, instead of {wanted:?}"));
            }
            if wanted.is_none() {
                return Ok(());
            }
        }
    }
}

fn apply(operator: &dyn MergeOperator, content: &mut Content, key: &[u8], operand: &[u8]) {
    let mut value = Vec::new();
    let existing = content.get(key).map(Vec::as_slice);
    match operator.merge(key, existing, &[operand], &mut value).expect("valid operands") {
        Merged::Value => content.insert(key.to_vec(), value),
        Merged::Deleted => content.remove(key),
    };
}

fn options(env: &Arc<dyn Env>) -> Options {
    Options::new().threads(1).advanced(AdvancedOptions::new().env(env.clone()))
}

fn journal() -> Arc<dyn MergeOperator> {
    Arc::new(Journal { has_partial_form: true })
}

/// A database with operands opens without its operator, and with no other. Reads of its keys say
/// what is missing, others succeed, and no flush or compaction loses an operand.
#[test]
fn operands_outlast_a_missing_operator() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(journal()).open("/db")?;
    db.put("ash", "value")?;
    db.flush()?;
    db.merge("oak", "a")?;
    db.flush()?;
    db.merge("oak", "b")?;
    drop(db);

    let db = options(&env).open("/db")?;
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Merge);
        let said = error.to_string();
        assert!(said.contains("test.journal") && said.contains("oak") && said.contains("merge_operator"), "{said}");
    };
    for _ in 0..2 {
        refused(db.get("oak").expect_err("no operator"));
        refused(db.contains_key("oak").expect_err("no operator"));
        refused(db.multi_get(&["ash", "oak"]).expect_err("no operator"));
        refused(db.scan(..).find_map(|entry| entry.err()).expect("no operator"));
        refused(db.scan(..).rev().find_map(|entry| entry.err()).expect("no operator"));
        assert_eq!(db.get("ash")?.as_deref(), Some(&b"value"[..]));
        db.compact()?;
    }
    let refused = db.merge("oak", "c").expect_err("no operator");
    assert!(
        refused.kind() == ErrorKind::InvalidArgument && refused.to_string().contains("merge_operator"),
        "{refused}"
    );
    drop(db);

    let other = options(&env).merge_operator(Arc::new(Append)).open("/db").map(drop).expect_err("another operator");
    let said = other.to_string();
    assert!(said.contains("test.journal") && said.contains("tamarack.append"), "{said}");
    let read_only = options(&env).merge_operator(Arc::new(Append)).open_read_only("/db").map(drop);
    assert!(read_only.is_err_and(|error| error.kind() == ErrorKind::InvalidArgument));
    let db = options(&env).merge_operator(journal()).open("/db")?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"ab"[..]));
    // Once there are no operands, the operator can be replaced.
    db.compact()?;
    drop(db);
    let db = options(&env).merge_operator(Arc::new(Append)).open("/db")?;
    db.merge("oak", "!")?;
    db.flush()?;
    drop(db);
    // A ready-made operator needs no registration.
    let db = options(&env).open("/db")?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"ab!"[..]));
    Ok(())
}

/// An operator that fails loses nothing, be the value below in the same memtable, in an older run
/// or deleted: it is there once the operator succeeds.
#[test]
fn what_is_below_outlasts_an_operator_that_fails() -> Result<()> {
    for (is_deleted, is_flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let db = options(&env).merge_operator(journal()).open("/db")?;
        db.put("elm", "value")?;
        db.put("oak", "a")?;
        db.flush()?;
        if is_deleted {
            db.delete("oak")?;
        } else {
            db.put("oak", "b")?;
        }
        if is_flushed {
            db.flush()?;
        }
        db.merge("oak", "?")?;
        for _ in 0..2 {
            db.compact()?;
            assert_eq!(db.get("oak").expect_err("a question").kind(), ErrorKind::Merge);
            let entries: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
            // At the bottom, nothing is below a key that is deleted.
            assert_eq!(entries, if is_deleted { 2 } else { 3 }, "deleted {is_deleted}, flushed {is_flushed}");
        }
        drop(db);
        // An operator of that name that knows what to do.
        let db = options(&env).merge_operator(Arc::new(Answered)).open("/db")?;
        let expected = if is_deleted { "?" } else { "b?" };
        assert_eq!(db.get("oak")?.as_deref(), Some(expected.as_bytes()));
        db.compact()?;
        assert_eq!(db.get("oak")?.as_deref(), Some(expected.as_bytes()));
    }
    Ok(())
}

/// A [`Journal`] that appends questions as well.
struct Answered;

impl MergeOperator for Answered {
    fn name(&self) -> &str {
        "test.journal"
    }

    fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        value: &mut Vec<u8>,
    ) -> Result<Merged, MergeFailure> {
        Append.merge(key, existing, operands, value)
    }
}

/// An operand that the operator refuses is not written, alone, in a batch or in a transaction.
#[test]
fn refused_operands_are_not_written() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(Arc::new(Add)).open("/db")?;
    let refused = |result: Result<()>| {
        let error = result.expect_err("one is no number of eight bytes");
        let said = error.to_string();
        assert!(error.kind() == ErrorKind::InvalidArgument && said.contains("oak") && said.contains("8"), "{said}");
    };
    refused(db.merge("oak", "one"));
    refused(db.write(Batch::new().merge("elm", 1u64.to_le_bytes()).merge("oak", "one")));
    let mut transaction = db.transaction();
    transaction.merge("oak", "one");
    refused(transaction.commit());
    assert_eq!((db.get("oak")?, db.get("elm")?), (None, None));
    Ok(())
}

/// Operands that no other compaction takes to the bottom become values in time, as tombstones go;
/// if the operator fails, no compaction tries again and again.
#[test]
fn operands_are_garbage() -> Result<()> {
    for fails in [false, true] {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let advanced = AdvancedOptions::new().env(env).policy("leveling:T=4").memtable_bytes(4000);
        let db = Options::new().threads(1).advanced(advanced).merge_operator(journal()).open("/db")?;
        db.put("a", "begin ")?;
        db.compact()?;
        // A snapshot keeps the operand apart from the value, at the bottom.
        let snapshot = db.snapshot();
        db.merge("a", if fails { "?" } else { "end" })?;
        db.compact()?;
        let operands =
            |db: &Db| db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.merge_operands).sum::<u64>();
        assert_eq!(operands(&db), 1);
        drop(snapshot);
        for at in 0..2000 {
            db.put(format!("b {:03}", at % 200), [b'v'; 20])?;
        }
        db.flush()?;
        db.wait_for_compactions()?;
        assert_eq!(operands(&db), u64::from(fails));
        if !fails {
            assert_eq!(db.get("a")?.as_deref(), Some(&b"begin end"[..]));
        }
    }
    Ok(())
}

/// An operator that fails loses nothing: reads say which key, and a later put decides.
#[test]
fn operands_outlast_an_operator_that_fails() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(journal()).open("/db")?;
    for operand in ["a", "?", "b"] {
        db.merge("oak", operand)?;
        db.flush()?;
    }
    db.put("elm", "value")?;
    db.compact()?;
    let error = db.get("oak").expect_err("a question").to_string();
    assert_eq!(error, "merge operator test.journal, key \"oak\": a question");
    let entries: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    assert_eq!(entries, 4, "the operands stay");
    db.put("oak", "c")?;
    db.merge("oak", "d")?;
    db.compact()?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"cd"[..]));
    Ok(())
}

/// A repair that has lost the manifest keeps operands, and the next opening says whose they are.
#[test]
fn operands_outlast_a_lost_manifest() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(journal()).open("/db")?;
    db.put("oak", "a")?;
    db.flush()?;
    db.merge("oak", "b")?;
    db.flush()?;
    db.merge("oak", "c")?;
    db.close()?;
    let dir = Path::new("/db");
    for name in env.list(dir).expect("it is there") {
        let name = name.to_str().expect("text").to_owned();
        if name == "CURRENT" || name.ends_with(".manifest") {
            env.remove(&dir.join(name), Step("test: lose the manifest")).expect("it is there");
        }
    }
    options(&env).repair(dir, &mut |_, _| ())?;
    let error = options(&env).open(dir)?.get("oak").expect_err("no operator");
    assert!(error.kind() == ErrorKind::Merge && error.to_string().contains("unknown name"), "{error}");
    let db = options(&env).merge_operator(journal()).open(dir)?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"abc"[..]));
    Ok(())
}

/// A repair without a manifest finds a table with an operand and the one in which a compaction has
/// merged it, and not what it was merged with: the value, which has the same sequence number, is
/// kept.
#[test]
fn a_repair_prefers_the_value_that_an_operand_became() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let dir = Path::new("/db");
    let advanced = AdvancedOptions::new().env(env.clone()).policy("tiering:T=10").memtable_bytes(1 << 20);
    let options = |env: &Arc<dyn Env>| options(env).advanced(advanced.clone());
    let db = options(&env).merge_operator(journal()).open(dir)?;
    // A flush takes a run along if both fit a memtable, so neither is small; and a compaction would
    // have garbage to remove as soon as there are two.
    let pause = db.pause_compactions();
    let others = |first: u32| (first..first + 1200).try_for_each(|key| db.put(key.to_be_bytes(), [b'v'; 500]));
    db.put("oak", "a").and_then(|()| others(0))?;
    db.flush()?;
    db.merge("oak", "b").and_then(|()| others(5000))?;
    db.flush()?;
    let files = |ending: &str| {
        let names = env.list(dir).expect("it is there").into_iter();
        let paths = names.map(|name| dir.join(name)).filter(|path| path.to_str().expect("text").ends_with(ending));
        paths.collect::<BTreeSet<_>>()
    };
    let before = files(".sst");
    // The younger table: that with the operand.
    let operand = before.last().expect("two tables");
    let bytes = read_file(&*env, operand);
    drop(pause);
    db.compact()?;
    db.close()?;
    // Files that are left over go in the background, or when the database is opened next.
    for path in before.intersection(&files(".sst")) {
        env.remove(path, Step("test: remove an obsolete table")).expect("it is there");
    }
    assert_eq!((before.len(), files(".sst").len()), (2, 1), "two tables have become one");
    write_file(&*env, operand, &bytes);
    for path in files("CURRENT").into_iter().chain(files(".manifest")).chain(files(".wal")) {
        env.remove(&path, Step("test: lose the manifest")).expect("it is there");
    }
    let report = options(&env).repair(dir, &mut |_, _| ())?;
    assert!(report.rebuilt && report.may_return, "{report:?}");
    let db = options(&env).merge_operator(journal()).open(dir)?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"ab"[..]));
    db.compact()?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"ab"[..]));
    Ok(())
}

/// A long chain in a memtable is one entry after the flush, and the checkpoint has its operator.
#[test]
fn a_flush_collapses_a_chain() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(Arc::new(Add)).open("/db")?;
    db.put("elm", "")?;
    db.merge("oak", 1u64.to_le_bytes())?;
    db.flush()?;
    for _ in 0..10_000 {
        db.merge("oak", 2u64.to_le_bytes())?;
    }
    assert_eq!(db.get("oak")?.as_deref(), Some(&20_001u64.to_le_bytes()[..]));
    db.flush()?;
    let entries: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    assert!(entries <= 3, "{entries} entries");
    assert_eq!(db.get("oak")?.as_deref(), Some(&20_001u64.to_le_bytes()[..]));
    db.checkpoint("/copy")?;
    let copy = options(&env).open("/copy")?;
    assert_eq!(copy.get("oak")?.as_deref(), Some(&20_001u64.to_le_bytes()[..]));
    Ok(())
}

/// Two transactions with operands for one key have no conflict; one that has read it has.
#[test]
fn an_operand_is_no_conflict_and_a_read_is() -> Result<()> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let db = options(&env).merge_operator(Arc::new(Append)).open("/db")?;
    let (mut one, mut other, mut reader) = (db.transaction(), db.transaction(), db.transaction());
    one.merge("oak", "1");
    other.merge("oak", "2");
    reader.merge("oak", "3");
    assert_eq!(reader.get("oak")?.as_deref(), Some(&b"3"[..]));
    one.commit()?;
    other.commit()?;
    assert!(matches!(reader.commit(), Err(Error::Conflict { .. })));
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"12"[..]));
    let mut deleted = db.transaction();
    deleted.delete("oak").merge("oak", "4");
    assert_eq!(deleted.get("oak")?.as_deref(), Some(&b"4"[..]));
    deleted.commit()?;
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"4"[..]));
    Ok(())
}

/// Batches of the tests of crashes and failures. Some are flushed, and compacted.
const BATCHES: u64 = 25;

/// Policies and filters of the tests of crashes and failures.
const DESIGNS: [(&str, &str); 2] = [("leveling:T=2", "blocked:bits=10"), ("tiering:T=3", "chucky:bits=14")];

fn open_small(env: &SimEnv, (policy, filter): (&str, &str)) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(300).policy(policy).filter(filter);
    let options = Options::new().durability(Durability::Sync).threads(1).advanced(advanced);
    options.merge_operator(Arc::new(Append)).open("/db")
}

/// Writes an operand to each of two keys, and at times something besides.
fn write_batch(db: &Db, number: u64) -> Result<()> {
    let mut batch = Batch::new();
    for key in ["left", "right"] {
        if number.is_multiple_of(10) {
            batch.delete(key);
        }
        batch.merge(key, format!("{number},"));
    }
    db.write(batch.put(format!("other {number}"), [b'v'; 50]))?;
    if number.is_multiple_of(7) { db.flush() } else { Ok(()) }
}

/// The number of the last batch that is there; all before it must be, each once.
fn last_batch(db: &Db) -> u64 {
    let values = db.multi_get(&["left", "right"]).expect("readable");
    assert_eq!(values[0], values[1], "half a batch");
    let scanned: Vec<_> = db.scan("l".."o").map(|entry| entry.expect("readable").1).collect();
    let text = values[0].as_deref().unwrap_or_default();
    assert!(scanned.first().map_or(text.is_empty(), |value| value == text));
    let numbers = String::from_utf8(text.to_vec()).expect("text");
    let last = numbers.split(',').rev().nth(1).map_or(0, |last| last.parse().expect("a number"));
    let expected: String =
        (last / 10 * 10..=last).filter(|number| *number > 0).map(|number| format!("{number},")).collect();
    assert_eq!(numbers, expected, "operands are lost, or counted twice");
    last
}

/// After a loss of power at any call, what is there is a prefix of the batches, with all that were
/// acknowledged.
#[test]
fn a_crash_loses_no_operand_and_repeats_none() -> Result<()> {
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
    assert!(images.len() > 500, "only {} images", images.len());
    for (acknowledged, crash, image) in images {
        let db = open_small(&image, design)?;
        let number = last_batch(&db);
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, {crash:?}");
        db.compact()?;
        assert_eq!(last_batch(&db), number, "{crash:?}");
    }
    Ok(())
}

/// Whichever call of the storage fails, the next process finds all batches that were acknowledged,
/// each once.
#[test]
fn a_call_that_fails_loses_no_operand_and_repeats_none() -> Result<()> {
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
                if write_batch(&db, number).is_err() && last_batch(&db) < number {
                    failed += 1;
                    break;
                }
                acknowledged = number;
            }
        }
        env.clear_faults();
        let db = open_small(&env, design)?;
        let number = last_batch(&db);
        assert!((acknowledged..=acknowledged + 1).contains(&number), "{number} of {acknowledged}, call {call}");
        db.compact()?;
        assert_eq!(last_batch(&db), number, "call {call}");
    }
    assert!(failed > 20, "only {failed} writes failed in {calls} calls");
    Ok(())
}
