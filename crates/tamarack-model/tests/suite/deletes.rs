//! Predictions of trees whose keys are deleted, beside trees of real keys: the same writes, made
//! one by one, and compacted by the same agenda. Of each key a compaction keeps the newest version,
//! and a tombstone unless its output is the oldest run; tombstones become due as in the engine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use tamarack_model::agenda::{Contents, Garbage};
use tamarack_model::design::Design;
use tamarack_model::planner::CompactionPlan;
use tamarack_model::prediction::{Length, Lookups, Question, Writes, predict};
use tamarack_model::simulate::{Data, Keys, Pace, Tree};
use tamarack_model::{Bytes, Entries, Occupancy, RunId, policy};
use tamarack_testing::Random;

const ENTRIES: u64 = 20_000;
const ENTRY_BYTES: u64 = 10;
const TOMBSTONE_BYTES: u64 = 3;
const BUFFER: u64 = 5_000;
/// Memtables written after the load: enough that tombstones become due.
const FLUSHES: u64 = 160;

/// The newest version of a key in a run: the number of its write, and whether it is a put.
type Versions = BTreeMap<u64, (u64, bool)>;

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, Versions>,
    memtable: Versions,
    writes: u64,
}

impl State {
    fn write(&mut self, key: u64, is_put: bool) -> u64 {
        self.memtable.insert(key, (self.writes, is_put));
        self.writes += 1;
        if is_put { ENTRY_BYTES } else { TOMBSTONE_BYTES }
    }

    fn output(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Versions {
        let memtable = Some(&self.memtable).filter(|_| plan.buffer > Bytes::ZERO);
        let inputs = plan.inputs.iter().rev().map(|input| &self.runs[input]);
        let mut output: Versions = inputs.chain(memtable).flatten().map(|(key, version)| (*key, *version)).collect();
        let oldest = occupancy.runs().last().map(|(_, run)| run.id);
        if plan.inputs.last().copied() == oldest {
            output.retain(|_, (_, is_put)| *is_put);
        }
        output
    }
}

fn bytes(versions: &Versions) -> u64 {
    versions.values().map(|(_, is_put)| if *is_put { ENTRY_BYTES } else { TOMBSTONE_BYTES }).sum()
}

#[derive(Clone, Debug, Default)]
struct RealEntries(Rc<RefCell<State>>);

impl Contents for RealEntries {
    fn entries(&self) -> Entries {
        Entries(self.0.borrow().runs.values().map(|run| run.len() as u64).sum())
    }

    fn garbage(&self) -> Vec<Garbage> {
        let state = self.0.borrow();
        let garbage = |(run, versions): (&RunId, &Versions)| {
            versions.values().find(|(_, is_put)| !is_put)?;
            let oldest = versions.values().map(|(write, _)| *write).min()?;
            Some(Garbage { run: *run, age: state.writes - 1 - oldest })
        };
        let mut all: Vec<Garbage> = state.runs.iter().filter_map(garbage).collect();
        all.sort_by_key(|garbage| garbage.age);
        all
    }
}

impl Data for RealEntries {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        Bytes(bytes(&self.0.borrow().output(plan, occupancy)))
    }

    fn written(&mut self, plan: &CompactionPlan, occupancy: &Occupancy, output: RunId) {
        let state = &mut *self.0.borrow_mut();
        let versions = state.output(plan, occupancy);
        plan.inputs.iter().for_each(|input| drop(state.runs.remove(input)));
        if plan.buffer > Bytes::ZERO {
            state.memtable.clear();
        }
        if !versions.is_empty() {
            state.runs.insert(output, versions);
        }
    }
}

/// What is written: shares of inserts and deletes, and the part of all keys that is deleted.
#[derive(Clone, Copy, Debug)]
struct Mix {
    inserts: f64,
    deletes: f64,
    deleted: f64,
}

/// Means of what was seen of a tree.
#[derive(Debug, Default)]
struct Twin {
    moments: f64,
    runs: f64,
    /// Runs from the youngest to the one with the newest version of a live key, that included.
    met: f64,
    space: f64,
    written: f64,
    due: u64,
}

/// A tree of real keys.
fn twin(words: &str, mix: Mix, seed: u64) -> Twin {
    let mut random = Random::new(seed);
    let policy = policy::parse(words).expect("a policy");
    let real = RealEntries::default();
    let mut tree = Tree::new(&policy, Bytes(BUFFER)).holding(real.clone());
    let (mut live, mut keys): (Vec<u64>, u64) = (Vec::new(), 0);
    let mut deleted: VecDeque<u64> = VecDeque::new();
    while keys < ENTRIES {
        let mut raw = 0;
        while raw < BUFFER {
            // Each key once, in no order: steps of 7919 visit all numbers.
            raw += real.0.borrow_mut().write(keys * 7919 % ENTRIES, true);
            keys += 1;
        }
        tree.rotate_memtable(Bytes(raw));
        tree.settle();
    }
    live.extend(0..keys);
    while tree.rest() {
        tree.settle();
    }
    let before = (tree.report().flushed.as_f64(), tree.report().written_total().as_f64());
    let mut seen = Twin::default();
    for _ in 0..FLUSHES {
        let (mut raw, mut is_looked_at) = (0, false);
        while raw < BUFFER {
            let (kind, any) = (random.fraction(), random.below(live.len() as u64) as usize);
            let (key, is_put) = if kind < mix.inserts {
                keys += 1;
                live.push(keys - 1);
                (keys - 1, true)
            } else if kind < mix.inserts + mix.deletes {
                if deleted.len() as f64 >= mix.deleted * keys as f64 {
                    let key = deleted.pop_front().expect("some are deleted");
                    live.push(key);
                    (key, true)
                } else {
                    let key = live.swap_remove(any);
                    deleted.push_back(key);
                    (key, false)
                }
            } else {
                (live[any], true)
            };
            raw += real.0.borrow_mut().write(key, is_put);
            if raw >= BUFFER / 2 && !is_looked_at {
                is_looked_at = true;
                seen.look(&tree, &real.0.borrow(), &live);
            }
        }
        tree.rotate_memtable(Bytes(raw));
        while !tree.in_progress().is_empty() {
            let is_due = |next: &tamarack_model::agenda::Next| next.to_string().contains("tombstones");
            seen.due += tree.decided().iter().filter(|next| is_due(next)).count() as u64;
            tree.end(0);
        }
    }
    let flushed = tree.report().flushed.as_f64() - before.0;
    seen.written = (tree.report().written_total().as_f64() - before.1) / flushed;
    let stored: BTreeSet<u64> = real.0.borrow().runs.values().flat_map(BTreeMap::keys).copied().collect();
    assert!(stored.len() as u64 <= keys, "no key is there twice");
    seen
}

impl Twin {
    fn look(&mut self, tree: &Tree<'_>, state: &State, live: &[u64]) {
        let runs: Vec<&Versions> = tree.occupancy().runs().map(|(_, run)| &state.runs[&run.id]).collect();
        let met = |key: &u64| {
            if state.memtable.contains_key(key) {
                return 0.0;
            }
            1.0 + runs.iter().position(|run| run.contains_key(key)).expect("a live key is somewhere") as f64
        };
        let step = live.len() / 400;
        let sample: Vec<f64> = live.iter().step_by(step).map(met).collect();
        self.moments += 1.0;
        self.runs += runs.len() as f64;
        self.met += sample.iter().sum::<f64>() / sample.len() as f64;
        self.space += tree.occupancy().bytes().as_f64() / (live.len() as u64 * ENTRY_BYTES) as f64;
    }
}

/// What lookups meet, what is written and what the tree takes are within 4 % of the prediction,
/// with few deletes and with many, while the tree shrinks, and while it grows; and tombstones are
/// due in some of these trees.
#[test]
fn trees_of_real_keys_with_deletes() {
    let mut due = 0;
    for (seed, words, inserts, deletes, deleted) in [
        (1, "leveling:T=4", 0.0, 0.1, 0.005),
        (2, "leveling:T=2", 0.0, 0.2, 0.05),
        (3, "tiering:T=4", 0.0, 0.1, 0.005),
        (4, "tiering:T=3", 0.0, 0.4, 0.2),
        (5, "lazy-leveling:T=3", 0.0, 0.5, 0.5),
        (6, "leveling:T=4", 0.3, 0.3, 1.0),
        (7, "leveling:T=3", 0.0, 0.3, 0.9),
    ] {
        let mix = Mix { inserts, deletes, deleted };
        let twin = twin(words, mix, seed);
        due += twin.due;
        let policy = policy::parse(words).expect("a policy");
        let design = Design {
            entries: ENTRIES,
            entry_bytes: ENTRY_BYTES,
            buffer: Bytes(BUFFER),
            policy: &policy,
            filter: "none".parse().expect("a filter"),
            block_bytes: ENTRY_BYTES,
        };
        let writes = Writes::Deletes { inserts, deletes, deleted, tombstone_bytes: TOMBSTONE_BYTES };
        let length = Length::Flushed(Bytes(FLUSHES * BUFFER));
        let found = predict(
            &design,
            &Question { writes, scans: &[1], digits: 256.0, length, pace: Pace::Settled, lookups: Lookups::Countless },
        );
        for (name, predicted, measured) in [
            ("runs", found.runs.mean(), twin.runs / twin.moments),
            ("existing", found.existing_reads.mean(), twin.met / twin.moments),
            ("space", found.space_amplification.mean(), twin.space / twin.moments),
            ("written", found.write_amplification, twin.written),
        ] {
            println!("{words} {mix:?}, {} due, {name}: {predicted:.3} {measured:.3}", twin.due);
            assert!(
                (predicted / measured - 1.0).abs() < 0.04,
                "{words} {mix:?} {name}: {predicted} instead of {measured}"
            );
        }
    }
    assert!(due > 0, "no tombstones were due");
}

/// Once all keys are deleted nothing is read for existing ones, and all costs are numbers.
#[test]
fn trees_without_live_keys() {
    for words in ["leveling:T=4", "tiering:T=4"] {
        let policy = policy::parse(words).expect("a policy");
        let filter = "blocked:bits=10".parse().expect("a filter");
        let (entries, entry_bytes, buffer) = (ENTRIES, ENTRY_BYTES, Bytes(BUFFER));
        let design = Design { entries, entry_bytes, buffer, policy: &policy, filter, block_bytes: 40 };
        let writes = Writes::Deletes { inserts: 0.0, deletes: 1.0, deleted: 1.0, tombstone_bytes: TOMBSTONE_BYTES };
        let found = |deleted_times: u64| {
            let length = Length::Flushed(Bytes(deleted_times * ENTRIES * TOMBSTONE_BYTES));
            predict(
                &design,
                &Question {
                    writes,
                    scans: &[1],
                    digits: 256.0,
                    length,
                    pace: Pace::Settled,
                    lookups: Lookups::Countless,
                },
            )
        };
        // Half of the moments are after the last delete.
        let [once, twice] = [1, 2].map(found);
        for seen in [twice.existing_reads, twice.drawn_reads, twice.existing_probes] {
            assert!(seen.mean().is_finite() && seen.least == 0.0 && seen.most > 0.9, "{words}: {twice:?}");
        }
        assert!(once.existing_reads.mean() > twice.existing_reads.mean(), "{words}: {once:?}, {twice:?}");
        for seen in [twice.zero_result_reads, twice.scan_reads[0], twice.space_amplification] {
            assert!(seen.mean().is_finite(), "{words}: {twice:?}");
        }
    }
}

/// By hand: a queue of deleted keys, and what stretches of writes leave.
#[test]
fn queues_by_hand() {
    let near = |found: f64, right: f64| assert!((found - right).abs() < 1e-9 * right.max(1.0), "{found} not {right}");
    // Of 1,000 keys up to 100 are deleted; half of all writes do that.
    let keys = Keys::drawn(1_000, 10, 0.0).deleting(0.5, 0.1, 2);
    // 100 puts and 100 deletes take 1,200 bytes; then 100 puts, 50 deletes and 50 puts of deleted
    // keys 1,600.
    let at_first = keys.written(1_200.0);
    near(at_first.draws, 100.0);
    near(at_first.deletes, 100.0);
    near(at_first.restores, 0.0);
    near(at_first.tombstones(), 100.0);
    let both = keys.written(2_800.0);
    near(both.draws, 200.0);
    near(both.deletes, 150.0);
    near(both.restores, 50.0);
    near(both.deleted_after(), 100.0);
    near(both.tombstones(), 100.0);
    near(both.writes(), 400.0);
    // Nothing but deletes: each key of the 100 has one tombstone, and no other is written.
    let keys = Keys::drawn(1_000, 10, 0.0).deleting(1.0, 0.1, 2);
    near(keys.written(200.0).deletes, 100.0);
    // Without deletes there is no queue.
    let keys = Keys::drawn(1_000, 10, 0.0);
    let written = keys.written(500.0);
    near(written.draws, 50.0);
    near(keys.distinct(written), 1_000.0 * (1.0 - (-0.05_f64).exp()));
    near(keys.live(), 1_000.0);
}
