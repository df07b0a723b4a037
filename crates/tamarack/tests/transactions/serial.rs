//! Random transactions on the simulator, interleaved with each other and with plain writes,
//! batches, ingests, flushes and compactions, against a serial model.
//!
//! # The oracle
//!
//! While a transaction is open, what it reads is what its snapshot has with its own writes on top.
//! When it commits, all that it has read is read once more, from the model's state at that moment:
//! the same must come out, for lookups and scans, in both directions and with limits, since it
//! takes effect there. It has a conflict if, and only if, it has read something, writes something,
//! and since it began a run was ingested, or a key was written that it has looked up, or that lies
//! in the part of a range that a scan has delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tamarack::{Batch, Db, Error, Savepoint, Transaction, TransactionScan};
use tamarack_env::SimEnv;
use tamarack_testing::{Random, seeds};

type Bytes = Vec<u8>;
type Content = BTreeMap<Bytes, Bytes>;
type OwnWrites = BTreeMap<Bytes, Option<Bytes>>;

/// A read of a transaction.
#[derive(Clone, Debug)]
enum Read {
    Get(Bytes),
    Scan {
        from: Bound<Bytes>,
        to: Bound<Bytes>,
        limit: Option<usize>,
        /// For each step, whether it is from the back.
        steps: Vec<bool>,
    },
}

/// The keys and values that a read returns; `None` for an absent key, or at the end.
type Answer = Vec<Option<(Bytes, Bytes)>>;

/// A transaction that is open.
struct Open {
    transaction: Transaction,
    /// The database when it began.
    snapshot: Content,
    own: OwnWrites,
    /// What it has read, with its own writes at that moment.
    reads: Vec<(OwnWrites, Read, Answer)>,
    savepoints: Vec<(Savepoint, OwnWrites)>,
    /// The numbers of writes and of ingests before it.
    writes_before: usize,
    ingests_before: usize,
}

/// The database as it should be, and the keys of each write to it.
#[derive(Default)]
struct Model {
    content: Content,
    writes: Vec<BTreeSet<Bytes>>,
    ingests: usize,
}

#[derive(Default, Debug)]
struct Coverage {
    commits: u32,
    conflicts: u32,
    ranges: u32,
    rollbacks: u32,
    retried: u32,
    /// Commits without reads since whose beginning a run was ingested.
    blind: u32,
}

impl Model {
    fn write(&mut self, writes: &OwnWrites) {
        self.content = view(&self.content, writes);
        self.writes.push(writes.keys().cloned().collect());
    }
}

fn view(content: &Content, own: &OwnWrites) -> Content {
    let mut content = content.clone();
    for (key, value) in own {
        match value {
            Some(value) => drop(content.insert(key.clone(), value.clone())),
            None => drop(content.remove(key)),
        }
    }
    content
}

fn is_within(key: &[u8], from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    let begins = match from {
        Bound::Included(from) => from[..] <= *key,
        Bound::Excluded(from) => from[..] < *key,
        Bound::Unbounded => true,
    };
    let ends = match to {
        Bound::Included(to) => *key <= to[..],
        Bound::Excluded(to) => *key < to[..],
        Bound::Unbounded => true,
    };
    begins && ends
}

impl Read {
    fn random(random: &mut Random) -> Self {
        if random.one_in(2) {
            return Self::Get(key(random));
        }
        let bound = |random: &mut Random| match random.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key(random)),
            _ => Bound::Included(key(random)),
        };
        let (from, to) = (bound(random), bound(random));
        let limit = random.one_in(2).then(|| random.below(5) as usize);
        let from_back = *random.pick(&[0, 500, 1000]);
        let steps = (0..random.below(9)).map(|_| random.below(1000) < from_back).collect();
        Self::Scan { from, to, limit, steps }
    }

    /// What it returns of `content`.
    fn expected(&self, content: &Content) -> Answer {
        match self {
            Self::Get(key) => vec![content.get(key).map(|value| (key.clone(), value.clone()))],
            Self::Scan { from, to, limit, steps } => {
                let within = content.iter().filter(|(key, _)| is_within(key, from, to));
                let mut entries: VecDeque<_> = within.map(|(key, value)| (key.clone(), value.clone())).collect();
                let mut limit = limit.unwrap_or(usize::MAX);
                let step = |is_back: &bool| {
                    limit = limit.checked_sub(1)?;
                    if *is_back { entries.pop_back() } else { entries.pop_front() }
                };
                steps.iter().map(step).collect()
            }
        }
    }

    /// What it returns in a transaction.
    fn answer(&self, transaction: &Transaction) -> Answer {
        match self {
            Self::Get(key) => {
                let value = transaction.get(key).unwrap();
                assert_eq!(transaction.contains_key(key).unwrap(), value.is_some());
                vec![value.map(|value| (key.clone(), value.to_vec()))]
            }
            Self::Scan { from, to, limit, steps } => {
                let mut scan: TransactionScan<'_> = transaction.scan((from.clone(), to.clone()));
                if let Some(limit) = limit {
                    scan = scan.limit(*limit);
                }
                let step = |is_back: &bool| if *is_back { scan.next_back() } else { scan.next() };
                steps.iter().map(step).map(|entry| entry.transpose().unwrap()).collect()
            }
        }
    }

    /// The parts of the key space on which a transaction with these own writes depends, once it has
    /// that answer: from a key to before another one.
    fn parts(&self, own: &OwnWrites, answer: &Answer) -> Vec<(Bytes, Option<Bytes>)> {
        let (from, to, limit, steps) = match self {
            Self::Get(key) if own.contains_key(key) => return Vec::new(),
            Self::Get(key) => return vec![(key.clone(), Some(after(key)))],
            Self::Scan { from, to, limit, steps } => (from, to, limit.unwrap_or(usize::MAX), steps),
        };
        let from = match from {
            Bound::Included(from) => from.clone(),
            Bound::Excluded(from) => after(from),
            Bound::Unbounded => Bytes::new(),
        };
        let to = match to {
            Bound::Included(to) => Some(after(to)),
            Bound::Excluded(to) => Some(to.clone()),
            Bound::Unbounded => None,
        };
        let delivered = |is_back: bool| {
            let keys = answer.iter().zip(steps).filter(move |(_, of_back)| **of_back == is_back);
            keys.filter_map(|(entry, _)| entry.as_ref().map(|(key, _)| key)).next_back()
        };
        let entries = answer.iter().flatten().count();
        let parts = if entries < answer.len() && entries < limit {
            vec![(from, to)]
        } else {
            let front = delivered(false).map(|last| (from, Some(after(last))));
            let back = delivered(true).map(|last| (last.clone(), to));
            front.into_iter().chain(back).collect()
        };
        parts.into_iter().filter(|(from, to)| to.as_ref().is_none_or(|to| from < to)).collect()
    }
}

/// The key right after another one.
fn after(key: &[u8]) -> Bytes {
    [key, &[0]].concat()
}

fn key(random: &mut Random) -> Bytes {
    vec![b'a' + random.below(12) as u8]
}

fn value(random: &mut Random) -> Bytes {
    let length = random.below(60);
    random.bytes(length)
}

fn writes(random: &mut Random, most: u64) -> OwnWrites {
    (0..1 + random.below(most)).map(|_| (key(random), (!random.one_in(3)).then(|| value(random)))).collect()
}

fn batch(writes: &OwnWrites) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in writes {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    batch
}

impl Open {
    fn begin(db: &Db, model: &Model) -> Self {
        Self {
            transaction: db.transaction(),
            snapshot: model.content.clone(),
            own: OwnWrites::new(),
            reads: Vec::new(),
            savepoints: Vec::new(),
            writes_before: model.writes.len(),
            ingests_before: model.ingests,
        }
    }

    fn step(&mut self, random: &mut Random, coverage: &mut Coverage) {
        match random.below(8) {
            0..=3 => {
                let read = Read::random(random);
                let answer = read.answer(&self.transaction);
                assert_eq!(answer, read.expected(&view(&self.snapshot, &self.own)), "{read:?}");
                coverage.ranges += u32::from(matches!(read, Read::Scan { .. }));
                self.reads.push((self.own.clone(), read, answer));
            }
            4 | 5 => {
                for (key, value) in writes(random, 2) {
                    match &value {
                        Some(value) => self.transaction.put(&key, value),
                        None => self.transaction.delete(&key),
                    };
                    self.own.insert(key, value);
                }
            }
            6 => self.savepoints.push((self.transaction.savepoint(), self.own.clone())),
            _ if !self.savepoints.is_empty() => {
                let at = random.below(self.savepoints.len() as u64) as usize;
                let (savepoint, own) = self.savepoints[at].clone();
                self.transaction.rollback_to(savepoint).unwrap();
                self.savepoints.truncate(at + 1);
                self.own = own;
                coverage.rollbacks += 1;
            }
            _ => {}
        }
    }

    fn commit(self, model: &mut Model, coverage: &mut Coverage) {
        let Self { transaction, own, reads, writes_before, ingests_before, .. } = self;
        let parts: Vec<_> = reads.iter().flat_map(|(own, read, answer)| read.parts(own, answer)).collect();
        let is_read = |key: &Bytes| parts.iter().any(|(from, to)| from <= key && to.as_ref().is_none_or(|to| key < to));
        let is_changed = model.ingests > ingests_before || model.writes[writes_before..].iter().flatten().any(is_read);
        let is_conflict = !own.is_empty() && !parts.is_empty() && is_changed;
        let committed = transaction.commit();
        assert_eq!(matches!(committed, Err(Error::Conflict { .. })), is_conflict, "{committed:?}: {reads:?}");
        coverage.blind += u32::from(parts.is_empty() && !own.is_empty() && is_changed);
        match committed {
            Ok(()) if own.is_empty() => {}
            Ok(()) => {
                for (own, read, answer) in reads {
                    let expected = read.expected(&view(&model.content, &own));
                    assert_eq!(answer, expected, "{read:?} of a transaction that has committed");
                }
                model.write(&own);
                coverage.commits += 1;
            }
            Err(Error::Conflict { .. }) => coverage.conflicts += 1,
            Err(other) => panic!("{other}"),
        }
    }
}

fn ingest(db: &Db, random: &mut Random, model: &mut Model) {
    let mut ingest = db.ingest().unwrap();
    let run: OwnWrites = writes(random, 4).into_keys().map(|key| (key, Some(value(random)))).collect();
    for (key, value) in &run {
        ingest.put(key, value.as_ref().unwrap()).unwrap();
    }
    ingest.finish().unwrap();
    model.write(&run);
    model.ingests += 1;
}

fn history(seed: u64, coverage: &mut Coverage) {
    let mut random = Random::new(seed);
    let env = SimEnv::new(seed);
    let db = crate::open(Arc::new(env.clone()));
    let mut model = Model::default();
    let mut open: Vec<Open> = Vec::new();
    let others = 1 + random.below(10);
    for _ in 0..150 {
        match random.below(20 + others) {
            0..=2 if open.len() < 4 => open.push(Open::begin(&db, &model)),
            0..=14 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                open[at].step(&mut random, coverage);
            }
            15..=16 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                open.swap_remove(at).commit(&mut model, coverage);
            }
            17 if random.one_in(4) => ingest(&db, &mut random, &mut model),
            17 if random.one_in(4) => db.flush().unwrap(),
            17 if random.one_in(4) => db.compact().unwrap(),
            18 => {
                let (key, new) = (key(&mut random), (!random.one_in(4)).then(|| value(&mut random)));
                let before = db.fetch_update(&key, |_| new.clone()).unwrap();
                assert_eq!(before.as_deref(), model.content.get(&key).map(Vec::as_slice), "seed {seed}");
                if model.content.get(&key) != new.as_ref() {
                    model.write(&OwnWrites::from([(key, new)]));
                }
                coverage.retried += 1;
            }
            19 => {
                env.step_background();
            }
            20.. => {
                let writes = writes(&mut random, 3);
                db.write(&batch(&writes)).unwrap();
                model.write(&writes);
            }
            _ => {}
        }
    }
    for last in open {
        last.commit(&mut model, coverage);
    }
    let found: Content = db.scan(..).map(|entry| entry.unwrap()).collect();
    assert_eq!(found, model.content, "seed {seed}");
    assert_eq!(db.stats().memory.transactions_bytes, 0, "seed {seed}");
}

#[test]
fn interleaved_transactions_agree_with_a_serial_model() {
    let mut coverage = Coverage::default();
    let seeds = seeds(400);
    let is_long = seeds.clone().count() >= 400;
    for seed in seeds {
        println!("TAMARACK_SEED={seed}");
        history(seed, &mut coverage);
    }
    println!("{coverage:?}");
    let Coverage { commits, conflicts, ranges, rollbacks, retried, blind } = coverage;
    assert!(!is_long || [commits, conflicts, ranges, rollbacks, retried].iter().all(|count| *count > 500));
    assert!(!is_long || blind > 10);
}
