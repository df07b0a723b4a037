//! Histories of eight threads, searched for anomalies as Elle does (K. Kingsbury, P. Alvaro: "Elle:
//! Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).
//!
//! Two workloads whose reads tell which write they have seen, and in which order writes came:
//!
//! * **lists**: a transaction reads lists, by lookups and by scans over all keys, and appends
//!   unique numbers to some. The last read of a list shows the order of its versions.
//! * **registers**: a transaction reads a register before it sets it to a unique number, so that
//!   each version names the one before. But each register has an owner, a thread that also sets it
//!   without having read it: in transactions, by puts, and by batches over all registers that it
//!   owns. What an owner sets blindly comes in the order in which it did that, each after the last
//!   version that came from the one before.
//!
//! What the registers are at the end is one more read. No key is deleted: an absent one does not
//! tell which delete it is from; `serial` has deletes.
//!
//! From these follow the dependencies between transactions: one overwrites what another wrote (ww),
//! reads what another wrote (wr), overwrites what another has read (rw), or begins after another
//! has returned. If the transactions are strictly serialisable, there is no cycle.
//!
//! Transactions are optimistic, pessimistic, or some threads run the one and some the other kind.
//! Pessimistic ones among themselves have no conflicts, and need no validation: their histories are
//! the same without one.
//!
//! That the search finds something is tested with planted mistakes: commits that do not validate
//! keys, or ranges; without validation, scans that do not lock what is not there, and locks that
//! are released before the commit.

use std::collections::{BTreeMap, BTreeSet};

use tamarack::mistake::{self, Mistake};
use tamarack::{Batch, Db, Error, PessimisticTransaction, Result, Stats, Transaction, Value};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_testing::{Random, seed};

const THREADS: u64 = 8;

/// Few, so that transactions meet.
const KEYS: u64 = 6;

/// So many threads own registers, each as many.
const OWNERS: u64 = 3;

/// Attempts of each thread in one history.
const ATTEMPTS: u64 = 60;

/// What a transaction that has committed has done to keys that it had not written before.
#[derive(Clone, Debug, Default)]
struct Record {
    /// Moments of its beginning and of its end, by a clock that all threads share.
    began: u64,
    ended: u64,
    /// The versions that it has read: as many writes had been made to the key.
    reads: BTreeMap<u64, Version>,
    /// Numbers that it has written, by key.
    writes: BTreeMap<u64, Vec<u64>>,
    /// What it has read twice, with two answers.
    torn: Option<String>,
}

/// A transaction of either kind.
enum Attempt {
    Optimistic(Transaction),
    /// With whether it locks what it is going to write when it reads it.
    Pessimistic(PessimisticTransaction, bool),
}

impl Attempt {
    fn get(&mut self, key: u64) -> Result<Option<Value>> {
        match self {
            Self::Optimistic(transaction) => transaction.get(key.to_be_bytes()),
            Self::Pessimistic(transaction, _) => transaction.get(key.to_be_bytes()),
        }
    }

    /// Reads a key that is written next.
    fn get_first(&mut self, key: u64) -> Result<Option<Value>> {
        match self {
            Self::Pessimistic(transaction, true) => transaction.get_for_update(key.to_be_bytes()),
            _ => self.get(key),
        }
    }

    fn scan(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        match self {
            Self::Optimistic(transaction) => transaction.scan(..).collect(),
            Self::Pessimistic(transaction, _) => transaction.scan(..)?.collect(),
        }
    }

    fn put(&mut self, key: u64, version: &[u64]) -> Result<()> {
        match self {
            Self::Optimistic(transaction) => drop(transaction.put(key.to_be_bytes(), bytes(version))),
            Self::Pessimistic(transaction, _) => drop(transaction.put(key.to_be_bytes(), bytes(version))?),
        }
        Ok(())
    }

    fn commit(self) -> Result<()> {
        match self {
            Self::Optimistic(transaction) => transaction.commit(),
            Self::Pessimistic(transaction, _) => transaction.commit(),
        }
    }
}

/// What a history consists of.
#[derive(Clone, Copy, Debug)]
struct Setting {
    workload: Workload,
    /// From this thread on, transactions are pessimistic.
    pessimistic_from: u64,
    /// Owners of registers also write plainly.
    is_written_plainly: bool,
    planted: &'static [Mistake],
}

impl Setting {
    fn optimistic(workload: Workload, planted: &'static [Mistake]) -> Self {
        Self { workload, pessimistic_from: THREADS, is_written_plainly: true, planted }
    }

    fn pessimistic(workload: Workload, planted: &'static [Mistake]) -> Self {
        Self { workload, pessimistic_from: 0, is_written_plainly: false, planted }
    }
}

/// Runs `run` with several mistakes planted.
fn with_all<T>(planted: &[Mistake], run: impl FnOnce() -> T) -> T {
    match planted {
        [] => run(),
        [first, others @ ..] => mistake::with(*first, || with_all(others, run)),
    }
}

/// The numbers in a list, or the number in a register; empty for an absent key.
type Version = Vec<u64>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Workload {
    Lists,
    Registers,
}

fn version(value: &[u8]) -> Version {
    value.chunks(8).map(|number| u64::from_be_bytes(number.try_into().expect("eight bytes each"))).collect()
}

fn bytes(version: &[u64]) -> Vec<u8> {
    version.iter().flat_map(|number| number.to_be_bytes()).collect()
}

impl Workload {
    /// Runs a random transaction of a thread.
    fn attempt(self, thread: u64, transaction: &mut Attempt, random: &mut Random, next: &AtomicU64) -> Result<Record> {
        let mut record = Record::default();
        for _ in 0..1 + random.below(3) {
            let key = random.below(KEYS);
            let is_own = self == Self::Registers && key % OWNERS == thread;
            match random.below(if self == Self::Lists { 5 } else { 4 }) {
                0 => drop(record.read(transaction, key)?),
                // What follows may append to a list that was read in the scan only.
                4 => record.scan(transaction)?,
                1 if is_own => {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    transaction.put(key, &[number])?;
                    record.writes.entry(key).or_default().push(number);
                }
                _ => {
                    let mut version = match record.scanned(key) {
                        Some(version) => version,
                        None => record.read_first(transaction, key)?,
                    };
                    if self == Self::Registers {
                        version.clear();
                    }
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    version.push(number);
                    transaction.put(key, &version)?;
                    record.writes.entry(key).or_default().push(number);
                }
            }
            thread::yield_now();
        }
        Ok(record)
    }
}

/// Writes without a transaction, by the owner of registers: a put, or a batch over all of them.
fn written_plainly(db: &Db, thread: u64, random: &mut Random, next: &AtomicU64) -> Result<Record> {
    let mut record = Record::default();
    let own = (0..KEYS).filter(|key| key % OWNERS == thread);
    let mut set = |key: u64| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        record.writes.insert(key, vec![number]);
        (key.to_be_bytes(), bytes(&[number]))
    };
    if random.one_in(2) {
        let (key, value) = set(thread + OWNERS * random.below(KEYS / OWNERS));
        db.put(key, value)?;
    } else {
        let mut batch = Batch::new();
        for (key, value) in own.map(set) {
            batch.put(key, value);
        }
        db.write(&batch)?;
    }
    Ok(record)
}

impl Record {
    /// The version of `key` that this transaction has seen before it wrote to it, with its own
    /// writes after it.
    fn scanned(&self, key: u64) -> Option<Version> {
        let mut version = self.reads.get(&key)?.clone();
        version.extend(self.writes.get(&key).into_iter().flatten());
        Some(version)
    }

    fn read(&mut self, transaction: &mut Attempt, key: u64) -> Result<Version> {
        let found = transaction.get(key)?.map_or(Version::new(), |value| version(&value));
        self.saw(key, &found);
        Ok(found)
    }

    fn read_first(&mut self, transaction: &mut Attempt, key: u64) -> Result<Version> {
        let found = transaction.get_first(key)?.map_or(Version::new(), |value| version(&value));
        self.saw(key, &found);
        Ok(found)
    }

    fn scan(&mut self, transaction: &mut Attempt) -> Result<()> {
        let mut found: BTreeMap<u64, Version> = (0..KEYS).map(|key| (key, Version::new())).collect();
        for (key, value) in transaction.scan()? {
            found.insert(u64::from_be_bytes(key.try_into().expect("eight bytes")), version(&value));
        }
        found.iter().for_each(|(key, version)| self.saw(*key, version));
        Ok(())
    }

    /// What it saw first counts, unless it has written the key itself.
    fn saw(&mut self, key: u64, version: &Version) {
        match self.writes.get(&key) {
            Some(own) => assert!(version.ends_with(&own[own.len() - 1..]), "own writes of {key}: {own:?} {version:?}"),
            None => {
                let before = self.reads.entry(key).or_insert_with(|| version.clone());
                if before != version {
                    self.torn = Some(format!("{key} is read as {before:?} and as {version:?} by one transaction"));
                }
            }
        }
    }
}

/// Lets eight threads run transactions, and returns what those that have committed have done.
fn recorded(db: &Db, setting: Setting, seed: u64) -> Vec<Record> {
    let workload = setting.workload;
    let (clock, next) = (AtomicU64::new(0), AtomicU64::new(1));
    let run = |thread: u64| {
        let mut random = Random::new((seed << 8) | thread);
        let mut records = Vec::new();
        for attempt in 0..ATTEMPTS {
            let began = clock.fetch_add(1, Ordering::SeqCst);
            let may_be_plain = setting.is_written_plainly && workload == Workload::Registers && thread < OWNERS;
            if may_be_plain && random.one_in(4) {
                let record = written_plainly(db, thread, &mut random, &next).expect("writes succeed");
                records.push(Record { began, ended: clock.fetch_add(1, Ordering::SeqCst), ..record });
                continue;
            }
            let mut transaction = match thread < setting.pessimistic_from {
                true => Attempt::Optimistic(db.transaction()),
                false => Attempt::Pessimistic(db.pessimistic_transaction(), attempt % 2 == 0),
            };
            let record = workload.attempt(thread, &mut transaction, &mut random, &next);
            if let Ok(Record { torn: Some(_), .. }) = &record {
                // Also if it does not commit.
                records.push(Record { began, ended: clock.fetch_add(1, Ordering::SeqCst), ..record.unwrap() });
                continue;
            }
            match record.and_then(|record| transaction.commit().map(|()| record)) {
                Ok(record) => records.push(Record { began, ended: clock.fetch_add(1, Ordering::SeqCst), ..record }),
                Err(Error::Conflict { .. } | Error::Deadlock { .. } | Error::LockTimeout { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        records
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || with_all(setting.planted, || run(thread)))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it has not panicked")).collect()
    })
}

/// The order of the versions of each key: which number came after which; 0 stands for none.
fn successors(records: &[Record], finals: &BTreeMap<u64, Version>, workload: Workload) -> Result<Versions, String> {
    let mut versions = Versions::default();
    for (at, record) in records.iter().enumerate() {
        for number in record.writes.values().flatten() {
            versions.writers.insert(*number, at);
        }
    }
    match workload {
        Workload::Lists => {
            for (key, list) in finals {
                let mut before = 0;
                for number in list {
                    versions.next.insert((*key, before), BTreeSet::from([*number]));
                    before = *number;
                }
            }
            for record in records {
                for (key, numbers) in &record.writes {
                    if numbers.iter().any(|number| !finals[key].contains(number)) {
                        return Err(format!("lost update of {key}: {record:?}"));
                    }
                }
                for (key, read) in &record.reads {
                    if !finals[key].starts_with(read) {
                        return Err(format!("{key} was read as {read:?} but is {:?}", finals[key]));
                    }
                }
            }
        }
        Workload::Registers => {
            // What was set blindly, in the order of the owners' writes, after what was there first.
            let mut blind: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
            for record in records {
                for (key, numbers) in &record.writes {
                    let mut numbers = numbers.iter().copied();
                    let mut before = match record.reads.get(key) {
                        Some(version) => version.last().copied().unwrap_or(0),
                        None => {
                            let first = numbers.next().expect("it was written");
                            blind.entry(*key).or_default().insert(record.began, first);
                            first
                        }
                    };
                    for number in numbers {
                        versions.next.entry((*key, before)).or_default().insert(number);
                        before = number;
                    }
                }
            }
            for (key, numbers) in blind {
                let mut roots = vec![0];
                roots.extend(numbers.values());
                // Before any of them has a successor that did not come from it.
                let lasts: Vec<_> = roots.iter().map(|root| versions.last_from(key, *root)).collect();
                for (lasts, root) in lasts.into_iter().zip(&roots[1..]) {
                    for last in lasts {
                        versions.next.entry((key, last)).or_default().insert(*root);
                    }
                }
            }
        }
    }
    Ok(versions)
}

impl Versions {
    /// The last version of a key that came from `root`; several if an update was lost.
    fn last_from(&self, key: u64, root: u64) -> Vec<u64> {
        let (mut lasts, mut open, mut seen) = (Vec::new(), vec![root], BTreeSet::from([root]));
        while let Some(number) = open.pop() {
            match self.next.get(&(key, number)) {
                Some(next) => open.extend(next.iter().filter(|number| seen.insert(**number))),
                None => lasts.push(number),
            }
        }
        lasts
    }
}

#[derive(Default)]
struct Versions {
    /// The transaction that wrote a number.
    writers: BTreeMap<u64, usize>,
    /// The numbers that came directly after one, by key.
    next: BTreeMap<(u64, u64), BTreeSet<u64>>,
}

/// Finds an anomaly in a history, if it has one.
fn anomaly(records: &[Record], finals: &BTreeMap<u64, Version>, workload: Workload) -> Option<String> {
    if let Some(torn) = records.iter().find_map(|record| record.torn.clone()) {
        return Some(torn);
    }
    // What is there at the end was read by one more transaction, after all others.
    let end = records.iter().map(|record| record.ended).max().unwrap_or(0) + 1;
    let last = Record { began: end, ended: end + 1, reads: finals.clone(), ..Record::default() };
    let records = &[records, &[last]].concat();
    let Versions { writers, next } = match successors(records, finals, workload) {
        Ok(versions) => versions,
        Err(found) => return Some(found),
    };
    let all_read = records.iter().flat_map(|record| record.reads.values()).chain(finals.values()).flatten();
    if let Some(unknown) = all_read.into_iter().find(|number| !writers.contains_key(number)) {
        return Some(format!("{unknown} was read and never committed"));
    }
    // Transactions, then moments: each comes after the one before and after what ended there.
    let moments = records.iter().map(|record| record.ended).max().unwrap_or(0) as usize + 1;
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); records.len() + moments];
    for moment in 1..moments {
        edges[records.len() + moment - 1].push(records.len() + moment);
    }
    for (at, record) in records.iter().enumerate() {
        edges[at].push(records.len() + record.ended as usize);
        edges[records.len() + record.began as usize].push(at);
        for (key, version) in &record.reads {
            let seen = version.last().copied().unwrap_or(0);
            let wr = writers.get(&seen).map(|writer| (*writer, at));
            let rw = next.get(&(*key, seen)).into_iter().flatten().map(|number| (at, writers[number]));
            wr.into_iter()
                .chain(rw)
                .filter(|(one, other)| one != other)
                .for_each(|(one, other)| edges[one].push(other));
        }
    }
    for ((_, before), after) in &next {
        for number in after {
            if let Some(writer) = writers.get(before).filter(|writer| **writer != writers[number]) {
                edges[*writer].push(writers[number]);
            }
        }
    }
    let in_cycles = in_cycles(&edges);
    let involved: Vec<_> = in_cycles.iter().filter(|at| **at < records.len()).take(4).map(|at| &records[*at]).collect();
    (!in_cycles.is_empty()).then(|| format!("a cycle of dependencies, in or before {involved:?}"))
}

/// The nodes that remain when those without predecessors are removed, again and again: none if, and
/// only if, there is no cycle.
fn in_cycles(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut predecessors = vec![0; edges.len()];
    edges.iter().flatten().for_each(|to| predecessors[*to] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|at| predecessors[*at] == 0).collect();
    while let Some(at) = free.pop() {
        for to in &edges[at] {
            predecessors[*to] -= 1;
            if predecessors[*to] == 0 {
                free.push(*to);
            }
        }
    }
    (0..edges.len()).filter(|at| predecessors[*at] > 0).collect()
}

/// A history with its anomaly, and how many transactions it has.
fn examined(setting: Setting, seed: u64) -> (Option<String>, usize, Stats) {
    let db = crate::in_memory();
    let records = recorded(&db, setting, seed);
    let workload = setting.workload;
    let version_of = |key: u64| db.get(key.to_be_bytes()).unwrap().map_or(Version::new(), |value| version(&value));
    let finals = (0..KEYS).map(|key| (key, version_of(key))).collect();
    (anomaly(&records, &finals, workload), records.len(), db.stats())
}

#[test]
fn histories_of_many_threads_have_no_anomaly() {
    let seed = seed(1);
    let (mut committed, mut refused) = (0, 0);
    for round in 0..20 {
        for workload in [Workload::Lists, Workload::Registers] {
            let (found, transactions, stats) = examined(Setting::optimistic(workload, &[]), seed + round);
            assert_eq!(found, None, "{workload:?}");
            committed += transactions;
            refused += stats.transaction_conflicts;
        }
    }
    println!("{committed} transactions committed, {refused} were refused");
    assert!(committed > 5000 && refused > 100, "{committed} committed, {refused} refused");
}

/// Pessimistic transactions among themselves have no anomaly and no conflict.
#[test]
fn histories_of_pessimistic_transactions_have_neither_anomaly_nor_conflict() {
    let seed = seed(1);
    let (mut committed, mut waits, mut deadlocks) = (0, 0, 0);
    for round in 0..20 {
        for workload in [Workload::Lists, Workload::Registers] {
            let (found, transactions, stats) = examined(Setting::pessimistic(workload, &[]), seed + round);
            assert_eq!(found, None, "{workload:?}");
            assert_eq!((stats.transaction_conflicts, stats.memory.transactions_bytes), (0, 0), "{workload:?}");
            committed += transactions;
            waits += stats.lock_waits;
            deadlocks += stats.deadlocks;
        }
    }
    println!("{committed} transactions committed, {waits} locks were waited for, {deadlocks} deadlocks");
    assert!(committed > 5000 && waits > 500 && deadlocks > 50, "{committed}, {waits}, {deadlocks}");
}

/// Nor have they without any validation of their commits: locks alone are enough.
#[test]
fn histories_of_pessimistic_transactions_need_no_validation() {
    for round in 0..20 {
        for workload in [Workload::Lists, Workload::Registers] {
            let (found, ..) = examined(Setting::pessimistic(workload, UNVALIDATED), round);
            assert_eq!(found, None, "{workload:?}");
        }
    }
}

const UNVALIDATED: &[Mistake] = &[Mistake::KeysNotValidated, Mistake::RangesNotValidated];

/// Optimistic and pessimistic transactions and plain writes, side by side.
#[test]
fn mixed_histories_have_no_anomaly() {
    let seed = seed(1);
    let (mut committed, mut refused, mut waits) = (0, 0, 0);
    for round in 0..20 {
        for workload in [Workload::Lists, Workload::Registers] {
            // Of the owners of registers, who write plainly, one runs pessimistic transactions.
            let setting = Setting { pessimistic_from: 2, ..Setting::optimistic(workload, &[]) };
            let (found, transactions, stats) = examined(setting, seed + round);
            assert_eq!(found, None, "{workload:?}");
            committed += transactions;
            refused += stats.transaction_conflicts;
            waits += stats.lock_waits;
        }
    }
    println!("{committed} transactions committed, {refused} were refused, {waits} locks were waited for");
    assert!(committed > 5000 && refused > 100 && waits > 500, "{committed}, {refused}, {waits}");
}

/// Commits that do not validate what they should are found, each soon.
#[track_caller]
fn is_found(setting: Setting) {
    let rounds = (0..50).find(|round| examined(setting, *round).0.is_some());
    println!("{setting:?}: found in round {rounds:?}");
    assert!(rounds.is_some(), "{setting:?} is not found");
}

#[test]
fn locks_that_are_released_early_are_found() {
    const RELEASED: &[Mistake] = &[Mistake::LocksReleasedEarly, Mistake::KeysNotValidated, Mistake::RangesNotValidated];
    is_found(Setting::pessimistic(Workload::Lists, RELEASED));
    is_found(Setting::pessimistic(Workload::Registers, RELEASED));
}

/// Beside others who take no locks, a pessimistic transaction has to be validated.
#[test]
fn pessimistic_transactions_that_are_not_validated_beside_others_are_found() {
    let setting = Setting { pessimistic_from: 2, ..Setting::optimistic(Workload::Registers, UNVALIDATED) };
    is_found(setting);
}

#[test]
fn keys_that_are_not_validated_are_found() {
    is_found(Setting::optimistic(Workload::Registers, &[Mistake::KeysNotValidated]));
    is_found(Setting::optimistic(Workload::Lists, &[Mistake::KeysNotValidated]));
}

#[test]
fn ranges_that_are_not_validated_are_found() {
    is_found(Setting::optimistic(Workload::Lists, &[Mistake::RangesNotValidated]));
}

/// The classical anomalies, as two transactions each.
#[test]
fn the_search_knows_the_classical_anomalies() {
    let record = |moments: [u64; 2], reads: &[(u64, &[u64])], writes: &[(u64, u64)]| Record {
        began: moments[0],
        ended: moments[1],
        reads: reads.iter().map(|(key, version)| (*key, version.to_vec())).collect(),
        writes: writes.iter().map(|(key, number)| (*key, vec![*number])).collect(),
        torn: None,
    };
    let finals = |lists: &[(u64, &[u64])]| lists.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    let found = |records: &[Record], lists: &[(u64, &[u64])]| anomaly(records, &finals(lists), Workload::Lists);
    let [first, second, both] = [[0, 2], [1, 3], [4, 5]];
    // One after the other.
    let serial = [record(first, &[(1, &[])], &[(1, 1)]), record(second, &[(1, &[1])], &[(1, 2)])];
    assert_eq!(found(&serial, &[(1, &[1, 2])]), None);
    // Write skew.
    let skew = [record(first, &[(1, &[]), (2, &[])], &[(1, 1)]), record(second, &[(1, &[]), (2, &[])], &[(2, 2)])];
    assert!(found(&skew, &[(1, &[1]), (2, &[2])]).is_some_and(|what| what.contains("cycle")));
    // Lost update.
    let lost = [record(first, &[(1, &[])], &[(1, 1)]), record(second, &[(1, &[])], &[(1, 2)])];
    assert!(found(&lost, &[(1, &[2])]).is_some_and(|what| what.contains("lost")));
    let registers = anomaly(&lost, &finals(&[(1, &[2])]), Workload::Registers);
    assert!(registers.is_some_and(|what| what.contains("cycle")));
    // A read of what was never committed.
    let dirty = [record(first, &[(1, &[9])], &[])];
    assert!(found(&dirty, &[(1, &[9])]).is_some_and(|what| what.contains("never committed")));
    // A read of the past, after the write has returned.
    let stale = [record(first, &[(1, &[])], &[(1, 1)]), record(both, &[(1, &[])], &[])];
    assert!(found(&stale, &[(1, &[1])]).is_some_and(|what| what.contains("cycle")));
    // Registers: the last write is not there at the end.
    let found =
        |records: &[Record], last: u64| anomaly(records, &finals(&[(1, &[last])]), Workload::Registers).is_some();
    assert!(!found(&serial, 2) && found(&serial, 1));
    // Registers that were set blindly: in that order, and after what came from the one before.
    let blind = |moments, number| record(moments, &[], &[(1, number)]);
    let [then, later] = [[6, 7], [8, 9]];
    let from_the_second = record(both, &[(1, &[2])], &[(1, 3)]);
    let mixed = [blind([0, 1], 1), blind([2, 3], 2), from_the_second.clone(), blind(then, 4)];
    assert!(!found(&mixed, 4) && found(&mixed, 3) && found(&mixed, 1));
    // An update that was lost to a blind write: it has read what was overwritten before.
    let lost = [blind([0, 1], 1), blind([2, 4], 2), record([3, 5], &[(1, &[1])], &[(1, 3)])];
    assert!(!found(&lost, 2) && found(&lost, 3));
    let read_later = record(later, &[(1, &[2])], &[]);
    assert!(found(&[mixed.to_vec(), vec![read_later]].concat(), 4));
}
