//! Range deletes: through puts, operands, flushes, compactions, ingests, reopening and snapshots,
//! every read finds what a map has from which the ranges were removed.
//!
//! Random histories from seeds, under several policies, filters and caches. Planted mistakes show
//! that the histories can fail. Examples: `range_deletes_applied`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

#[cfg(debug_assertions)]
use tamarack::mistake::Mistake;
use tamarack::operators::Append;
use tamarack::{AdvancedOptions, Batch, Db, Options, Result, Snapshot};
use tamarack_env::{Env, Random, SimEnv};

#[cfg(debug_assertions)]
use crate::noticed::is_noticed;

const OPERATIONS: usize = 700;

const KEYS: u64 = 60;

/// The upper bound on histories: a mistake that needs more is not noticed.
#[cfg(debug_assertions)]
const HISTORIES_MAX: u64 = 30;

/// Keys and values.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bounds of a range.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

struct World {
    options: Options,
    /// `None` only while it is opened again.
    db: Option<Db>,
    now: Content,
    snapshots: Vec<(Snapshot, Content)>,
    random: Random,
}

#[test]
fn every_read_finds_what_a_map_has() -> Result<()> {
    let mut deletes = 0;
    for seed in 0..80 {
        match history(seed)? {
            Ok(waited) => deletes += u64::from(waited),
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    assert!(deletes > 40, "range deletes waited for snapshots or compactions in {deletes} histories only");
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn a_range_delete_that_ends_early_is_noticed() {
    is_noticed(Mistake::RangeDeleteEndedEarly, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn a_range_delete_that_a_filter_hides_is_noticed() {
    is_noticed(Mistake::RangeDeleteUnderFilter, HISTORIES_MAX, history);
}

#[cfg(debug_assertions)]
#[test]
fn a_range_delete_that_hides_younger_entries_is_noticed() {
    is_noticed(Mistake::RangeDeleteHidesYounger, HISTORIES_MAX, history);
}

/// The history of that seed; a wrong answer is an error of the second kind. Returns true if range
/// deletes waited in the version at some moment.
fn history(seed: u64) -> Result<std::result::Result<bool, String>> {
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
    let options = Options::new().threads(1).advanced(advanced).merge_operator(Arc::new(Append));
    let db = Some(options.open("/db")?);
    let mut world = World { options, db, now: Content::new(), snapshots: Vec::new(), random };
    let mut waited = false;
    for at in 0..OPERATIONS {
        if let Err(what) = world.step()? {
            return Ok(Err(format!("operation {at}: {what}")));
        }
        waited |= at % 10 == 0 && world.db().stats().range_deletes > 0;
    }
    let report = world.db().verify(&mut |_, _| {})?;
    if !report.is_ok() {
        return Ok(Err(format!("{:?}", report.problems)));
    }
    // Without snapshots, a compaction of everything leaves one entry per key, and no range delete.
    world.snapshots.clear();
    world.db().compact()?;
    world.db().wait_for_compactions()?;
    let (stats, keys) = (world.db().stats(), world.now.len() as u64);
    let entries: u64 = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    if stats.range_deletes > 0 || entries != keys {
        return Ok(Err(format!("{entries} entries of {keys} keys, {} range deletes", stats.range_deletes)));
    }
    Ok(world.scan(None).map(|()| waited))
}

impl World {
    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between two operations")
    }

    fn step(&mut self) -> Result<std::result::Result<(), String>> {
        match self.random.below(1000) {
            0..250 => {
                let (key, value) = (self.key(), self.value());
                self.db().put(&key, &value)?;
                self.now.insert(key, value);
            }
            250..280 => {
                let key = self.key();
                self.db().delete(&key)?;
                self.now.remove(&key);
            }
            280..340 => {
                let (key, operand) = (self.key(), self.value());
                self.db().merge(&key, &operand)?;
                self.now.entry(key).or_default().extend_from_slice(&operand);
            }
            340..400 => {
                let range = self.range();
                self.db().delete_range(range.clone())?;
                remove(&mut self.now, &range);
            }
            400..404 => {
                self.db().clear()?;
                self.now.clear();
            }
            404..412 => {
                let prefix = format!("key {}", self.random.below(7));
                self.db().delete_prefix(&prefix)?;
                self.now.retain(|key, _| !key.starts_with(prefix.as_bytes()));
            }
            412..440 => self.batch()?,
            440..480 => return self.transaction(),
            480..505 => self.snapshots.push((self.db().snapshot(), self.now.clone())),
            505..535 => drop((!self.snapshots.is_empty()).then(|| {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                self.snapshots.swap_remove(at)
            })),
            535..560 => self.db().flush()?,
            560..566 => self.db().compact()?,
            566..574 => self.db().compact_range(self.range())?,
            574..584 => self.ingest()?,
            584..592 => {
                self.snapshots.clear();
                self.db.take().map_or(Ok(()), Db::close)?;
                self.db = Some(self.options.open("/db")?);
            }
            592..596 => self.db().wait_for_compactions()?,
            596..630 => {
                let keys: Vec<_> = (0..self.random.below(40)).map(|_| self.key()).collect();
                let found = self.db().multi_get(&keys)?;
                let is_wrong = |at: &usize| found[*at].as_deref() != self.now.get(&keys[*at]).map(Vec::as_slice);
                if let Some(at) = (0..keys.len()).find(is_wrong) {
                    let expected = self.now.get(&keys[at]);
                    return Ok(Err(format!("{:?} among many, instead of {expected:?}", found[at])));
                }
            }
            630..700 => {
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

    fn batch(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        for _ in 0..self.random.below(12) {
            let (key, value) = (self.key(), self.value());
            match self.random.below(6) {
                0 => {
                    batch.delete(&key);
                    self.now.remove(&key);
                }
                1 => {
                    batch.merge(&key, &value);
                    self.now.entry(key).or_default().extend_from_slice(&value);
                }
                2 => {
                    let range = self.range();
                    batch.delete_range(range.clone());
                    remove(&mut self.now, &range);
                }
                _ => {
                    batch.put(&key, &value);
                    self.now.insert(key, value);
                }
            }
        }
        self.db().write(&batch)
    }

    /// A transaction that writes and reads, rolls a part back, and commits or does not.
    fn transaction(&mut self) -> Result<std::result::Result<(), String>> {
        let mut transaction = self.db().transaction();
        let (mut own, mut saved) = (self.now.clone(), None);
        for _ in 0..self.random.below(14) {
            let (key, value) = (self.key(), self.value());
            match self.random.below(10) {
                0 => {
                    transaction.delete(&key);
                    own.remove(&key);
                }
                1 => {
                    transaction.merge(&key, &value);
                    own.entry(key).or_default().extend_from_slice(&value);
                }
                2 | 3 => {
                    let range = self.range();
                    transaction.delete_range(range.clone());
                    remove(&mut own, &range);
                }
                4 => saved = Some((transaction.savepoint(), own.clone())),
                5 => {
                    if let Some((savepoint, then)) = &saved {
                        transaction.rollback_to(*savepoint)?;
                        own.clone_from(then);
                    }
                }
                6 => {
                    let (found, is_there) = (transaction.get(&key)?, transaction.contains_key(&key)?);
                    let expected = own.get(&key);
                    if found.as_deref() != expected.map(Vec::as_slice) || is_there != expected.is_some() {
                        return Ok(Err(format!("{found:?} in a transaction, instead of {expected:?}")));
                    }
                }
                7 => {
                    let mut scan = transaction.scan(..);
                    let mut expected = own.iter();
                    let in_thousand = [0, 500, 1000][self.random.below(3) as usize];
                    loop {
                        let is_backward = self.random.below(1000) < in_thousand;
                        let (found, wanted) = match is_backward {
                            true => (scan.next_back(), expected.next_back()),
                            false => (scan.next(), expected.next()),
                        };
                        let found = found.transpose()?;
                        if found.as_ref().map(|(key, value)| (key, value)) != wanted {
                            return Ok(Err(format!("{found:?} in a transaction's scan, instead of {wanted:?}")));
                        }
                        if wanted.is_none() {
                            break;
                        }
                    }
                }
                _ => {
                    transaction.put(&key, &value);
                    own.insert(key, value);
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
            let value = self.value();
            ingest.put(&key, &value)?;
            self.now.insert(key, value);
        }
        ingest.finish().map(drop)
    }

    fn key(&self) -> Vec<u8> {
        let below = [KEYS, KEYS, 6][self.random.below(3) as usize];
        format!("key {:02}", self.random.below(below) * 7919 % KEYS).into_bytes()
    }

    fn value(&self) -> Vec<u8> {
        format!("{} ", self.random.below(1000)).into_bytes()
    }

    /// A range, sometimes empty or reversed, or without a bound.
    fn range(&self) -> Bounds {
        let from = self.key();
        let to = match self.random.below(4) {
            0 => self.key(),
            // A few keys.
            _ => [&from[..from.len() - 1], &[from[from.len() - 1] + self.random.below(5) as u8]].concat(),
        };
        let bound = |key: Vec<u8>| match self.random.below(8) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(key),
            _ => Bound::Included(key),
        };
        (bound(from), bound(to))
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
        let key = key.escape_ascii();
        Ok(if is_right { Ok(()) } else { Err(format!("{key}: {found:?} ({there}) instead of {expected:?} at {at:?}")) })
    }

    /// A scan of the present, or of a snapshot, from random ends, that skips at times.
    fn scan(&self, at: Option<usize>) -> std::result::Result<(), String> {
        let (db, content) = match at {
            None => (None, &self.now),
            Some(at) => (Some(&self.snapshots[at].0), &self.snapshots[at].1),
        };
        let range = if self.random.below(2) == 0 { (Bound::Unbounded, Bound::Unbounded) } else { self.range() };
        let mut scan = match db {
            None => self.db().scan(range.clone()),
            Some(snapshot) => snapshot.scan(range.clone()),
        };
        let mut expected: Vec<_> = content.iter().filter(|(key, _)| is_in(&range, key)).collect();
        expected.reverse();
        let mut expected = std::collections::VecDeque::from(expected);
        let in_thousand = [0, 500, 1000][self.random.below(3) as usize];
        loop {
            if self.random.below(20) == 0 {
                let key = self.key();
                scan.seek(&key);
                expected.retain(|(other, _)| **other >= key);
            }
            let is_backward = self.random.below(1000) < in_thousand;
            let (found, wanted) = match is_backward {
                true => (scan.next_back(), expected.pop_front()),
                false => (scan.next(), expected.pop_back()),
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

/// True if a key is in a range, which may be reversed.
fn is_in((from, to): &Bounds, key: &[u8]) -> bool {
    let is_after = match from {
        Bound::Included(from) => **from <= *key,
        Bound::Excluded(from) => **from < *key,
        Bound::Unbounded => true,
    };
    let is_before = match to {
        Bound::Included(to) => *key <= **to,
        Bound::Excluded(to) => *key < **to,
        Bound::Unbounded => true,
    };
    is_after && is_before
}

fn remove(content: &mut Content, range: &Bounds) {
    content.retain(|key, _| !is_in(range, key));
}
