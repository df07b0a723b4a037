//! Random pessimistic transactions on the simulator, interleaved with each other, with optimistic
//! ones, plain writes, ingests, flushes and compactions, against a model that has a mode for each
//! key and each transaction.
//!
//! # The oracle
//!
//! No transaction waits: a lock that another one has is a time-out at once, if, and only if, the
//! model has a mode of another transaction that conflicts, for any key of the range. Reads return
//! the newest content with own writes on top. A read is a conflict if, and only if, something that
//! the transaction has read before was written since by somebody who takes no locks, or a run was
//! ingested; a commit also if it writes. Locks stay until the end, whatever was rolled back to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{Db, Error, PessimisticTransaction, Result, Savepoint};
use tamarack_env::SimEnv;
use tamarack_testing::{Random, seeds};

/// Keys are single letters.
const KEYS: u8 = 12;

type Content = BTreeMap<u8, Vec<u8>>;
type OwnWrites = BTreeMap<u8, Option<Vec<u8>>>;

/// A transaction that is open.
struct Locked {
    transaction: PessimisticTransaction,
    own: OwnWrites,
    /// Keys that it has locked: true if for itself alone.
    locks: BTreeMap<u8, bool>,
    reads: BTreeSet<u8>,
    savepoints: Vec<(Savepoint, OwnWrites)>,
    /// Something that it has read was written by others since.
    is_outdated: bool,
    has_ended: bool,
}

#[derive(Default, Debug)]
struct Coverage {
    granted: u32,
    locked: u32,
    reads: u32,
    conflicts: u32,
    commits: u32,
    commit_conflicts: u32,
    rollbacks: u32,
    optimistic: u32,
}

fn keys(range: &Range<u8>) -> impl Iterator<Item = u8> + use<> {
    range.clone()
}

fn name(key: u8) -> [u8; 1] {
    [b'a' + key]
}

fn random_range(random: &mut Random) -> Range<u8> {
    let from = random.below(u64::from(KEYS)) as u8;
    from..from + random.below(u64::from(KEYS - from) + 1) as u8
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = random.below(60);
    random.bytes(length)
}

/// Marks what was written as changed for all transactions that have read it.
fn changed(open: &mut [Locked], written: impl Fn(&Locked) -> bool) {
    open.iter_mut().filter(|one| written(one)).for_each(|one| one.is_outdated = true);
}

impl Locked {
    fn begin(db: &Db) -> Self {
        let mut transaction = db.pessimistic_transaction();
        transaction.set_lock_timeout(Duration::ZERO);
        Self {
            transaction,
            own: OwnWrites::new(),
            locks: BTreeMap::new(),
            reads: BTreeSet::new(),
            savepoints: Vec::new(),
            is_outdated: false,
            has_ended: false,
        }
    }

    fn view(&self, content: &Content) -> Content {
        let mut view = content.clone();
        for (key, value) in &self.own {
            match value {
                Some(value) => drop(view.insert(*key, value.clone())),
                None => drop(view.remove(key)),
            }
        }
        view
    }

    /// Returns true if it lacks a lock of a range that others keep away from it.
    fn is_kept_away(&self, range: &Range<u8>, is_exclusive: bool, others: &[Self]) -> bool {
        let lacks = |key| self.locks.get(&key).is_none_or(|alone| is_exclusive && !*alone);
        let keeps_away = |other: &Self, key| other.locks.get(&key).is_some_and(|alone| *alone || is_exclusive);
        keys(range).any(lacks) && keys(range).any(|key| others.iter().any(|other| keeps_away(other, key)))
    }

    /// Takes a random step, beside `others`.
    fn step(&mut self, random: &mut Random, content: &Content, others: &[Self], coverage: &mut Coverage) {
        let key = random.below(u64::from(KEYS)) as u8;
        let one = key..key + 1;
        let (range, is_exclusive, is_read) = match random.below(10) {
            0 => (one, false, true),
            1 => (one, true, true),
            2 => (random_range(random), false, true),
            3 => (random_range(random), true, true),
            4..=6 => (one, true, false),
            7 => (random_range(random), true, false),
            8 => {
                self.savepoints.push((self.transaction.savepoint(), self.own.clone()));
                return;
            }
            _ if self.savepoints.is_empty() || self.has_ended => return,
            _ => {
                let at = random.below(self.savepoints.len() as u64) as usize;
                let (savepoint, own) = self.savepoints[at].clone();
                self.transaction.rollback_to(savepoint).unwrap();
                self.savepoints.truncate(at + 1);
                self.own = own;
                coverage.rollbacks += 1;
                return;
            }
        };
        let is_locked = self.is_kept_away(&range, is_exclusive, others);
        let new = (!random.one_in(3)).then(|| value(random));
        let answer = match is_read {
            true => self.read(&range, is_exclusive, random),
            false => self.write(&range, new.as_deref()).map(|()| Content::new()),
        };
        match answer {
            Err(Error::Conflict { .. }) if self.has_ended => {}
            Err(Error::LockTimeout { .. }) => {
                assert!(is_locked && !self.has_ended, "{range:?} was not locked");
                coverage.locked += 1;
            }
            Err(Error::Conflict { .. }) => {
                assert!(is_read && self.is_outdated && !is_locked, "{range:?}: nothing was overtaken");
                // Its locks are released.
                self.locks.clear();
                self.has_ended = true;
                coverage.conflicts += 1;
            }
            Err(other) => panic!("{other}"),
            Ok(found) => {
                assert!(!is_locked && !self.has_ended, "{range:?} was locked, or the transaction over");
                coverage.granted += 1;
                for key in keys(&range) {
                    let own = self.locks.entry(key).or_default();
                    *own |= is_exclusive;
                }
                if is_read {
                    assert!(!self.is_outdated, "{range:?} was read although something was overtaken");
                    let expected = self.view(content).into_iter().filter(|(key, _)| range.contains(key)).collect();
                    assert_eq!(found, expected, "{range:?}");
                    self.add_reads(&range);
                    coverage.reads += 1;
                } else {
                    keys(&range).for_each(|key| drop(self.own.insert(key, new.clone().filter(|_| range.len() == 1))));
                }
            }
        }
    }

    /// A lookup of an own write reads nothing of others; a scan reads all of its range.
    fn add_reads(&mut self, range: &Range<u8>) {
        let own = &self.own;
        self.reads.extend(keys(range).filter(|key| range.len() > 1 || !own.contains_key(key)));
    }

    fn read(&mut self, range: &Range<u8>, is_exclusive: bool, random: &mut Random) -> Result<Content> {
        let transaction = &mut self.transaction;
        if range.len() == 1 {
            let key = name(range.start);
            let value = if is_exclusive { transaction.get_for_update(key) } else { transaction.get(key) }?;
            assert_eq!(transaction.contains_key(key)?, value.is_some());
            return Ok(value.into_iter().map(|value| (range.start, value.to_vec())).collect());
        }
        let bounds = name(range.start)..name(range.end);
        let scan = if is_exclusive { transaction.scan_for_update(bounds) } else { transaction.scan(bounds) }?;
        let entries: Result<Vec<_>> = if random.one_in(2) { scan.collect() } else { scan.rev().collect() };
        Ok(entries?.into_iter().map(|(key, value)| (key[0] - b'a', value)).collect())
    }

    /// Writes one key, or deletes a range.
    fn write(&mut self, range: &Range<u8>, new: Option<&[u8]>) -> Result<()> {
        match (range.len(), new) {
            (1, Some(value)) => self.transaction.put(name(range.start), value).map(drop),
            (1, None) => self.transaction.delete(name(range.start)).map(drop),
            _ => self.transaction.delete_range(name(range.start)..name(range.end)).map(drop),
        }
    }
}

fn history(seed: u64, coverage: &mut Coverage) {
    let mut random = Random::new(seed);
    let env = SimEnv::new(seed);
    let db = crate::open(Arc::new(env.clone()));
    let mut content = Content::new();
    let mut open: Vec<Locked> = Vec::new();
    let others = random.below(10);
    for _ in 0..150 {
        match random.below(20 + others) {
            0..=2 if open.len() < 4 => open.push(Locked::begin(&db)),
            0..=14 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let mut one = open.swap_remove(at);
                one.step(&mut random, &content, &open, coverage);
                open.push(one);
            }
            15..=16 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let Locked { transaction, own, reads, is_outdated, has_ended, .. } = open.swap_remove(at);
                let is_conflict = has_ended || (is_outdated && !reads.is_empty() && !own.is_empty());
                match transaction.commit() {
                    Ok(()) => {
                        assert!(!is_conflict, "seed {seed}");
                        changed(&mut open, |one| own.keys().any(|key| one.reads.contains(key)));
                        for (key, value) in own {
                            match value {
                                Some(value) => drop(content.insert(key, value)),
                                None => drop(content.remove(&key)),
                            }
                        }
                        coverage.commits += 1;
                    }
                    Err(Error::Conflict { .. }) => {
                        assert!(is_conflict, "seed {seed}");
                        coverage.commit_conflicts += u32::from(!has_ended);
                    }
                    Err(other) => panic!("seed {seed}: {other}"),
                }
            }
            17 if random.one_in(8) => {
                let mut ingest = db.ingest().unwrap();
                let (key, new) = (random.below(u64::from(KEYS)) as u8, value(&mut random));
                ingest.put(name(key), &new).unwrap();
                ingest.finish().unwrap();
                content.insert(key, new);
                changed(&mut open, |one| !one.reads.is_empty());
            }
            17 if random.one_in(4) => db.flush().unwrap(),
            17 if random.one_in(4) => db.compact().unwrap(),
            18 => {
                // Optimistic, and never kept away.
                let (key, new) = (random.below(u64::from(KEYS)) as u8, value(&mut random));
                let before = db.fetch_update(name(key), |_| Some(&new)).unwrap();
                assert_eq!(before.as_deref(), content.get(&key).map(Vec::as_slice), "seed {seed}");
                if content.insert(key, new.clone()) != Some(new) {
                    changed(&mut open, |one| one.reads.contains(&key));
                }
                coverage.optimistic += 1;
            }
            19 => drop(env.step_background()),
            20.. if random.one_in(3) => {
                let range = random_range(&mut random);
                db.delete_range(name(range.start)..name(range.end)).unwrap();
                content.retain(|key, _| !range.contains(key));
                changed(&mut open, |one| keys(&range).any(|key| one.reads.contains(&key)));
            }
            20.. => {
                let (key, new) = (random.below(u64::from(KEYS)) as u8, value(&mut random));
                db.put(name(key), &new).unwrap();
                content.insert(key, new);
                changed(&mut open, |one| one.reads.contains(&key));
            }
            _ => {}
        }
    }
    drop(open);
    let found: Content = db.scan(..).map(|entry| entry.unwrap()).map(|(key, value)| (key[0] - b'a', value)).collect();
    assert_eq!(found, content, "seed {seed}");
    assert_eq!(db.stats().memory.transactions_bytes, 0, "seed {seed}");
}

#[test]
fn interleaved_pessimistic_transactions_agree_with_a_model() {
    let mut coverage = Coverage::default();
    let seeds = seeds(400);
    let is_long = seeds.clone().count() >= 400;
    for seed in seeds {
        println!("TAMARACK_SEED={seed}");
        history(seed, &mut coverage);
    }
    println!("{coverage:?}");
    let Coverage { granted, locked, reads, conflicts, commits, commit_conflicts, rollbacks, optimistic } = coverage;
    let often = [granted, locked, reads, conflicts, commits, rollbacks, optimistic];
    assert!(!is_long || (often.iter().all(|count| *count > 500) && commit_conflicts > 100));
}
