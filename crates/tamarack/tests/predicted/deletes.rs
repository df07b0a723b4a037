//! Trees that lose data: deletes and overwrites, so that they shrink, and tombstones that become
//! due; beside requested compactions, changes of policy, and bounds on space.
//!
//! The simulation is told what is in the runs by [`Entries`], a slow obvious model of what a
//! compaction keeps: of each key the youngest entry, and a tombstone only while an older run may
//! hold its key. Each flush writes the smallest and the largest key as well, so that every run
//! covers all keys: then an older run always may.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tamarack::{Db, Result};
use tamarack_env::{Random, SimEnv};
use tamarack_model::agenda::{Contents, Garbage, Next, Scope};
use tamarack_model::bound::SpaceBound;
use tamarack_model::cost::space::RunContent;
use tamarack_model::planner::{Cause, CompactionPlan};
use tamarack_model::policy::{self, Policy};
use tamarack_model::simulate::{Data, Tree};
use tamarack_model::{Bytes, Entries as EntryCount, Occupancy, Run, RunId};

use super::{Setting, policies, sizes, written};

/// How many histories are tried.
const HISTORIES: u64 = 60;

/// Entries of a flush: few enough that the memtable is not full before.
const FLUSH_ENTRIES: u64 = 30;

/// Keys that the smallest trees have at most; others two, four and eight times as many.
const KEYS_MOST: u64 = 600;

/// Fewer keys than this are not deleted any further.
const KEYS_LEAST: usize = 100;

/// A version of a key.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// The number of the write.
    write: u64,
    /// `None` for a tombstone.
    value_bytes: Option<u64>,
}

type Versions = BTreeMap<u64, Version>;

impl Version {
    fn raw_bytes(self) -> u64 {
        8 + self.value_bytes.unwrap_or(0) + 8
    }
}

/// What is in memtables and runs.
#[derive(Debug, Default)]
struct Stock {
    memtables: VecDeque<Versions>,
    runs: BTreeMap<RunId, Versions>,
    writes: u64,
}

/// The same, shared by the history that writes and the simulation that compacts.
#[derive(Clone, Debug, Default)]
struct Entries(Rc<RefCell<Stock>>);

impl Stock {
    fn output(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Versions {
        let inputs = plan.inputs.iter().rev().map(|run| &self.runs[run]);
        let memtable = self.memtables.front().filter(|_| plan.cause == Cause::Flush);
        let mut output: Versions = inputs.chain(memtable).flatten().map(|(key, version)| (*key, *version)).collect();
        // What is older than the inputs; of a flush into a run of its own, all runs.
        let runs: Vec<RunId> = occupancy.runs().map(|(_, run)| run.id).collect();
        let last = plan.inputs.last().map(|last| runs.iter().position(|run| run == last).expect("an input"));
        if last.map_or(runs.is_empty(), |last| last + 1 == runs.len()) {
            output.retain(|_, version| version.value_bytes.is_some());
        }
        output
    }
}

fn raw_bytes(versions: &Versions) -> u64 {
    versions.values().map(|version| version.raw_bytes()).sum()
}

impl Contents for Entries {
    fn content(&self, run: &Run) -> RunContent {
        let stock = self.0.borrow();
        let versions = &stock.runs[&run.id];
        let tombstones = versions.values().filter(|version| version.value_bytes.is_none()).count() as u64;
        RunContent {
            bytes: run.bytes,
            entries: EntryCount(versions.len() as u64),
            tombstones: EntryCount(tombstones),
            tombstone_bytes: Bytes(16 * tombstones),
        }
    }

    fn entries(&self) -> EntryCount {
        EntryCount(self.0.borrow().runs.values().map(|versions| versions.len() as u64).sum())
    }

    fn garbage(&self) -> Vec<Garbage> {
        let stock = self.0.borrow();
        let garbage = |(run, versions): (&RunId, &Versions)| {
            versions.values().find(|version| version.value_bytes.is_none())?;
            let oldest = versions.values().map(|version| version.write).min()?;
            Some(Garbage { run: *run, age: stock.writes - 1 - oldest })
        };
        let mut all: Vec<Garbage> = stock.runs.iter().filter_map(garbage).collect();
        // Young to old: younger runs have younger writes.
        all.sort_by_key(|garbage| garbage.age);
        all
    }
}

impl Data for Entries {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        Bytes(raw_bytes(&self.0.borrow().output(plan, occupancy)))
    }

    fn written(&mut self, plan: &CompactionPlan, occupancy: &Occupancy, output: RunId) {
        let mut stock = self.0.borrow_mut();
        let versions = stock.output(plan, occupancy);
        if plan.cause == Cause::Flush {
            stock.memtables.pop_front();
        }
        plan.inputs.iter().for_each(|run| _ = stock.runs.remove(run));
        if !versions.is_empty() {
            stock.runs.insert(output, versions);
        }
    }
}

/// A database, the simulation of it, and what was written.
struct Pair<'a> {
    db: Db,
    tree: Tree<'a>,
    entries: Entries,
    /// Of each key that is there, the bytes of its value.
    live: BTreeMap<u64, u64>,
    random: Random,
    /// What the agenda decided, by cause.
    causes: BTreeMap<&'static str, u64>,
}

impl<'a> Pair<'a> {
    fn new(setting: &Setting, policy: &'a Policy, seed: u64) -> Result<Self> {
        let db = setting.open(Arc::new(SimEnv::new(seed)))?;
        let entries = Entries::default();
        let mut tree = Tree::new(policy, setting.buffer()).holding(entries.clone());
        if let Some(most) = setting.space_amplification_max {
            tree = tree.bounded(SpaceBound::new(most).expect("a bound"));
        }
        let random = Random::for_purpose(seed, 0xde1e);
        Ok(Self { db, tree, entries, live: BTreeMap::new(), random, causes: BTreeMap::new() })
    }

    /// One flush, of which about so many entries in eight are deletes, and all that follows.
    fn flush(&mut self, deletes: u64) -> Result<()> {
        let mut memtable = Versions::new();
        let mut raw = 0;
        for number in 0..FLUSH_ENTRIES {
            let any = self.random.below(u64::MAX - 1) + 1;
            let near = || self.live.range(any..).chain(self.live.iter()).map(|(key, _)| *key).next();
            let (key, is_delete) = match number {
                0 => (0, false),
                1 => (u64::MAX, false),
                _ if self.random.eighths(deletes) => (near().expect("a key"), true),
                // An overwrite now and then.
                _ if self.random.below(20) == 0 => (near().expect("a key"), false),
                _ => (any, false),
            };
            // The smallest and the largest key stay.
            let is_delete = is_delete && key != 0 && key != u64::MAX;
            let value_bytes = (!is_delete).then(|| 10 + self.random.below(10));
            match value_bytes {
                Some(bytes) => self.db.put(key.to_be_bytes(), vec![b'v'; bytes as usize])?,
                None => self.db.delete(key.to_be_bytes())?,
            }
            _ = match value_bytes {
                Some(bytes) => self.live.insert(key, bytes),
                None => self.live.remove(&key),
            };
            let mut stock = self.entries.0.borrow_mut();
            let version = Version { write: stock.writes, value_bytes };
            stock.writes += 1;
            raw += version.raw_bytes();
            memtable.insert(key, version);
        }
        self.entries.0.borrow_mut().memtables.push_back(memtable);
        self.db.flush()?;
        self.db.wait_for_compactions()?;
        self.tree.rotate_memtable(Bytes(raw));
        self.settle();
        Ok(())
    }

    /// Ends all that is in progress in the simulation, and counts what is decided.
    fn settle(&mut self) {
        loop {
            for next in self.tree.decided() {
                let cause = match next {
                    Next::Compact { plan, .. } => match plan.cause {
                        Cause::TombstonesDue { .. } => "garbage due",
                        Cause::SpaceBound => "space bound",
                        Cause::Compact => "request",
                        Cause::Reshape { .. } => "reshape",
                        _ => "full",
                    },
                    Next::NewShape(_) => "new shape",
                    Next::Flush(_) | Next::Nothing => continue,
                };
                *self.causes.entry(cause).or_default() += 1;
            }
            if self.tree.in_progress().is_empty() {
                return;
            }
            self.tree.end(0);
        }
    }

    fn check(&self, context: &str) {
        let (shape, occupancy, _) = self.db.planned();
        let context = || {
            format!("{context}: engine\n{shape}{occupancy}simulation\n{}{}", self.tree.shape(), self.tree.occupancy())
        };
        assert_eq!(&shape, self.tree.shape(), "{}", context());
        assert_eq!(sizes(&occupancy), sizes(self.tree.occupancy()), "{}", context());
    }
}

/// Histories that grow and shrink, settled: the same shape and runs after every step, the same
/// bytes written into each level, and the same entries in the end.
#[test]
fn settled_with_deletes() -> Result<()> {
    let all = policies(1000);
    let parsed: Vec<Policy> = all.iter().map(|words| policy::parse(words).expect("a policy")).collect();
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut shrunk, mut grown) = (0, 0);
    for seed in 0..HISTORIES {
        let random = Random::for_purpose(seed, 0x5341);
        let mut chosen = random.below(all.len() as u64) as usize;
        let bound = (random.below(4) == 0).then(|| [1.3, 2.0, 3.0][random.below(3) as usize]);
        let setting = Setting { space_amplification_max: bound, ..Setting::tiny(&all[chosen]) };
        let mut pair = Pair::new(&setting, &parsed[chosen], seed)?;
        let mut deletes = 0;
        for number in 0..400 {
            // Growing, about as large as before, or shrinking, for a while each.
            if random.below(40) == 0 {
                deletes = [0, 1, 4, 4, 7][random.below(5) as usize];
            }
            if pair.live.len() as u64 > KEYS_MOST << (seed % 4) {
                deletes = 7;
            } else if pair.live.len() < KEYS_LEAST {
                deletes = random.below(2);
            }
            let holds = pair.tree.shape().holds();
            match random.below(300) {
                0 => {
                    pair.db.compact()?;
                    pair.db.wait_for_compactions()?;
                    pair.tree.request(Scope::All);
                    pair.settle();
                }
                1..5 => {
                    chosen = random.below(all.len() as u64) as usize;
                    pair.db.set_policy(&all[chosen])?;
                    pair.tree.change_policy(&parsed[chosen]);
                    pair.check(&format!("seed {seed}, changed to {}", all[chosen]));
                    if random.eighths(4) {
                        pair.db.reshape()?;
                        pair.db.wait_for_compactions()?;
                        pair.tree.reshape();
                        pair.settle();
                    }
                }
                _ => pair.flush(deletes)?,
            }
            pair.check(&format!("seed {seed}, {} after step {number}", all[chosen]));
            shrunk += u64::from(pair.tree.shape().holds() < holds);
            grown += u64::from(pair.tree.shape().holds() > holds);
        }
        let (stats, report) = (pair.db.stats(), pair.tree.report());
        assert_eq!(written(&stats), report.written, "seed {seed}");
        assert_eq!((stats.compactions, stats.moves), (report.compactions, report.moves), "seed {seed}");
        let found: Vec<(u64, u64)> = pair
            .db
            .scan(..)
            .map(|entry| {
                entry.map(|(key, value)| (u64::from_be_bytes(key[..].try_into().expect("8 bytes")), value.len() as u64))
            })
            .collect::<Result<_>>()?;
        assert!(found.into_iter().eq(pair.live.iter().map(|(key, bytes)| (*key, *bytes))), "seed {seed}");
        for (cause, count) in pair.causes {
            *causes.entry(cause).or_default() += count;
        }
    }
    println!("{HISTORIES} histories: {causes:?}, {grown} steps after which the shape was larger, {shrunk} smaller");
    for cause in ["garbage due", "space bound", "request", "reshape", "full", "new shape"] {
        assert!(causes.get(cause).is_some_and(|count| *count > 10), "{cause}: {causes:?}");
    }
    assert!(shrunk > 10 && grown > 10, "{shrunk} smaller, {grown} larger");
    Ok(())
}
