//! Predictions from the design alone: beside trees of real keys, and beside sums by hand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tamarack_model::agenda::Contents;
use tamarack_model::design::Design;
use tamarack_model::filter::predict as predict_filter;
use tamarack_model::filter_plan::REBUILD_SECONDS;
use tamarack_model::planner::CompactionPlan;
use tamarack_model::prediction::{Length, Lookups, Prediction, Question, Writes, loaded, predict};
use tamarack_model::simulate::{Data, Pace, Tree, Writers};
use tamarack_model::{Bytes, FilterKind, Occupancy, RunId, policy};
use tamarack_testing::{Random, Zipf};

const ENTRIES: u64 = 20_000;
const BUFFER: u64 = 500;

fn predicted(words: &str, filter: &str, writes: Writes) -> Prediction {
    let policy = policy::parse(words).expect("a policy");
    let design = Design {
        entries: ENTRIES,
        entry_bytes: 1,
        buffer: Bytes(BUFFER),
        policy: &policy,
        filter: filter.parse().expect("a filter"),
        block_bytes: 1,
    };
    predict(
        &design,
        &Question {
            writes,
            scans: &[1, 10],
            digits: 256.0,
            length: Length::Turnovers(2.0),
            pace: Pace::Settled,
            lookups: Lookups::Countless,
        },
    )
}

/// The keys of a tree's runs, from which the planner has their sizes.
#[derive(Clone, Debug, Default)]
struct RealKeys(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<RunId, BTreeSet<u64>>,
    /// The memtable, or the one being flushed.
    memtable: BTreeSet<u64>,
}

impl State {
    fn output(&self, plan: &CompactionPlan) -> BTreeSet<u64> {
        let mut output = if plan.buffer > Bytes::ZERO { self.memtable.clone() } else { BTreeSet::new() };
        plan.inputs.iter().for_each(|input| output.extend(&self.runs[input]));
        output
    }
}

impl Contents for RealKeys {}

impl Data for RealKeys {
    fn output_bytes(&self, plan: &CompactionPlan, _occupancy: &Occupancy) -> Bytes {
        Bytes(self.0.borrow().output(plan).len() as u64)
    }

    fn written(&mut self, plan: &CompactionPlan, _occupancy: &Occupancy, output: RunId) {
        let state = &mut *self.0.borrow_mut();
        let keys = state.output(plan);
        plan.inputs.iter().for_each(|input| drop(state.runs.remove(input)));
        state.runs.insert(output, keys);
        if plan.buffer > Bytes::ZERO {
            state.memtable.clear();
        }
    }
}

/// What was seen of a tree of real keys.
#[derive(Default)]
struct Twin {
    moments: f64,
    runs: f64,
    /// Runs from the youngest to the one with the newest entry of a key, that included; none for
    /// keys in the memtable. Each key as likely, and as they are drawn.
    uniform: f64,
    drawn: f64,
    stored: f64,
    written: f64,
}

/// A tree of real keys, to which these puts are made one by one. It is looked at when the memtable
/// is half full.
fn twin(words: &str, inserts: f64, theta: f64, seed: u64) -> Twin {
    let mut random = Random::new(seed);
    let policy = policy::parse(words).expect("a policy");
    let real = RealKeys::default();
    let mut tree = Tree::new(&policy, Bytes(BUFFER)).holding(real.clone());
    let zipf = Zipf::new(ENTRIES, theta);
    let draw = |random: &mut Random, keys: u64| if theta == 0.0 { random.below(keys) } else { zipf.draw(random) };
    let mut keys = 0;
    for _ in 0..ENTRIES / BUFFER {
        // Each key once, in no order: steps of 7919 visit all numbers.
        real.0.borrow_mut().memtable = (0..BUFFER).map(|at| (keys + at) * 7919 % ENTRIES).collect();
        keys += BUFFER;
        tree.rotate_memtable(Bytes(BUFFER));
        tree.settle();
    }
    let last = tree.shape().last();
    let flushes = (2.0 * tree.shape().level(last - 1).capacity.ratio(Bytes(BUFFER))).ceil().max(8.0);
    let before = tree.report().written_total().as_f64();
    let mut seen = Twin::default();
    for _ in 0..flushes as u64 {
        for put in 0..BUFFER {
            let key = if random.fraction() < inserts {
                keys += 1;
                keys - 1
            } else {
                draw(&mut random, keys)
            };
            real.0.borrow_mut().memtable.insert(key);
            if put == BUFFER / 2 {
                seen.look(&tree, &real.0.borrow(), keys, &mut || draw(&mut random, keys));
            }
        }
        tree.rotate_memtable(Bytes(BUFFER));
        tree.settle();
    }
    seen.written = (tree.report().written_total().as_f64() - before) / (flushes * BUFFER as f64);
    seen
}

impl Twin {
    fn look(&mut self, tree: &Tree<'_>, state: &State, keys: u64, draw: &mut dyn FnMut() -> u64) {
        let runs: Vec<&BTreeSet<u64>> = tree.occupancy().runs().map(|(_, run)| &state.runs[&run.id]).collect();
        let met = |key: u64| {
            if state.memtable.contains(&key) {
                return 0.0;
            }
            1.0 + runs.iter().position(|run| run.contains(&key)).expect("every key is somewhere") as f64
        };
        let count = 500;
        self.moments += 1.0;
        self.runs += runs.len() as f64;
        self.uniform += (0..count).map(|at| met(keys * at / count)).sum::<f64>() / count as f64;
        self.drawn += (0..count).map(|_| met(draw())).sum::<f64>() / count as f64;
        self.stored += runs.iter().map(|run| run.len() as f64).sum::<f64>() / keys as f64;
    }
}

/// Keys are really written, compacted and looked for: what lookups meet, what is written and what
/// the tree takes are within 4 % of the prediction.
#[test]
fn trees_of_real_keys() {
    for (seed, words, inserts, theta) in [
        (1, "leveling:T=4", 0.0, 0.0),
        (2, "tiering:T=4", 0.0, 0.0),
        (3, "lazy-leveling:T=3", 0.0, 0.0),
        (4, "leveling:T=4", 1.0, 0.0),
        (5, "tiering:T=3", 0.5, 0.0),
        (6, "tiering:T=4", 0.0, 0.99),
        (7, "leveling:T=3", 0.0, 0.99),
    ] {
        let twin = twin(words, inserts, theta, seed);
        let found = predicted(words, "none", Writes::Puts { inserts, theta });
        for (name, predicted, measured) in [
            ("runs", found.runs.mean(), twin.runs / twin.moments),
            ("existing", found.existing_reads.mean(), twin.uniform / twin.moments),
            ("drawn", found.drawn_reads.mean(), twin.drawn / twin.moments),
            ("space", found.space_amplification.mean(), twin.stored / twin.moments),
            ("written", found.write_amplification, twin.written),
        ] {
            println!("{words} {inserts} {theta} {name}: {predicted:.3} {measured:.3}");
            assert!((predicted / measured - 1.0).abs() < 0.04, "{words} {name}: {predicted} instead of {measured}");
        }
    }
}

/// Without filters a lookup of an absent key reads a block in each run; with equal bits for all it
/// reads what their rate says.
#[test]
fn runs_and_rates() {
    let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
    for words in ["leveling:T=5", "tiering:T=5", "qlsm-bush:T=2,X=2"] {
        let none = predicted(words, "none", writes);
        assert_eq!(none.zero_result_reads, none.runs, "{words}");
        assert_eq!(none.filter_bits_per_entry.most, 0.0);
        let bloom = predicted(words, "bloom:bits=8,allocation=uniform", writes);
        let rate = predict_filter(FilterKind::Bloom, 8.0).fpr;
        let ratio = bloom.zero_result_reads.mean() / (none.runs.mean() * rate);
        assert!((0.88..1.001).contains(&ratio), "{words}: {ratio}: whole cache lines are a little more than 8 bits");
        assert_eq!(bloom.runs, none.runs);
    }
}

/// Filters stay within their budget, and Monkey's allocation reads less than equal bits.
#[test]
fn filters() {
    let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
    for kind in ["bloom", "blocked", "elastic"] {
        for words in ["leveling:T=4", "tiering:T=4"] {
            let of = |allocation: &str| predicted(words, &format!("{kind}:bits=6{allocation}"), writes);
            let best = of(if kind == "elastic" { "" } else { ",allocation=monkey" });
            let bits = best.filter_bits_per_entry;
            // A line of each of some runs of 500 entries.
            // Of elastic filters, whole units of three bits.
            let least = if kind == "elastic" { 4.0 } else { 4.8 };
            assert!(bits.most < 6.3 && bits.mean() > least, "{kind} {words}: {bits:?}");
            if kind != "elastic" {
                let equal = of(",allocation=uniform");
                let ratio = best.zero_result_reads.mean() / equal.zero_result_reads.mean();
                assert!(ratio < 0.9, "{kind} {words}: {ratio} of equal bits");
            }
        }
    }
    let chucky = predicted("tiering:T=4", "chucky:bits=14.2", writes);
    let bloom = predicted("tiering:T=4", "bloom:bits=14.2,allocation=uniform", writes);
    assert!(chucky.zero_result_reads.mean() < bloom.zero_result_reads.mean(), "{chucky:?}");
}

/// A tree at rest after its load: what the planner leaves, and one moment.
#[test]
fn at_rest() {
    let found = predicted("leveling:T=10", "none", Writes::Nothing);
    assert_eq!((found.flushes, found.runs.least, found.runs.most), (0, found.runs.mean(), found.runs.mean()));
    assert!((found.space_amplification.mean() - 1.0).abs() < 1e-9, "each key once: {found:?}");
    assert!(found.write_amplification > 2.0, "of the load");
}

/// Loading in large batches leaves the levels that single memtables leave, of every policy and at
/// every size, within a memtable: a policy whose levels change as the tree grows may have passed
/// another step.
#[test]
fn loads_in_large_batches() {
    let mut random = Random::new(11);
    for words in [
        "leveling:T=2",
        "leveling:T=10",
        "leveling:T=5,first=4",
        "tiering:T=4",
        "lazy-leveling:T=5",
        "dostoevsky:T=5,K=2,Z=2",
        "garnering:T=2,c=0.8",
        "moose:last=0.8,k=1",
        "qlsm-bush:T=2,X=2",
    ] {
        let policy = policy::parse(words).expect("a policy");
        for _ in 0..20 {
            let data = Bytes(BUFFER * (1 + random.next() % 2_000));
            let batches = loaded(&policy, Bytes(BUFFER), data);
            let mut singles = Tree::new(&policy, Bytes(BUFFER));
            for _ in 0..data.0 / BUFFER {
                singles.rotate_memtable(Bytes(BUFFER));
                singles.settle();
            }
            assert_eq!(batches.shape(), singles.shape(), "{words}, {data} bytes");
            let sizes =
                |tree: &Tree<'_>| tree.occupancy().runs().map(|(level, run)| (level, run.bytes)).collect::<Vec<_>>();
            assert_eq!(sizes(&batches), sizes(&singles), "{words}, {data} bytes");
        }
    }
}

/// Beside slow writers compactions are done in time, and costs are those of a settled tree; beside
/// writers at full speed lookups meet more runs, and no more is written.
#[test]
fn compactions_that_take_time() {
    let policy = policy::parse("leveling:T=4").expect("a policy");
    let filter = "bloom:bits=8,allocation=monkey".parse().expect("a filter");
    let design =
        Design { entries: 200_000, entry_bytes: 10, buffer: Bytes(5_000), policy: &policy, filter, block_bytes: 100 };
    let of = |pace: Pace| {
        let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
        predict(
            &design,
            &Question {
                writes,
                scans: &[1],
                digits: 256.0,
                length: Length::Turnovers(2.0),
                pace,
                lookups: Lookups::Countless,
            },
        )
    };
    let writers =
        |offered: f64| Pace::Beside(Writers { offered, buffers: 4, workers: 2, late_max: 16, throttled: true });
    let [settled, slow, fast] = [Pace::Settled, writers(0.01), writers(1.0)].map(of);
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.05, "{a} {b}");
    near(slow.runs.mean(), settled.runs.mean());
    near(slow.existing_reads.mean(), settled.existing_reads.mean());
    near(slow.scan_reads[0].mean(), settled.scan_reads[0].mean());
    near(slow.write_amplification, settled.write_amplification);
    assert!(fast.runs.mean() > settled.runs.mean() + 1.0, "{} {}", fast.runs.mean(), settled.runs.mean());
    assert!(fast.zero_result_reads.mean() > settled.zero_result_reads.mean());
    assert!(fast.write_amplification <= settled.write_amplification * 1.02);
    // A lookup probes the filters that cover its key, and reads a block in each run without one.
    let of = |filter: &str| {
        let design = Design { filter: filter.parse().expect("a filter"), ..design };
        let (writes, length) = (Writes::Puts { inserts: 0.0, theta: 0.0 }, Length::Turnovers(2.0));
        predict(
            &design,
            &Question { writes, scans: &[1], digits: 256.0, length, pace: writers(1.0), lookups: Lookups::Countless },
        )
    };
    let [none, uniform] = ["none", "bloom:bits=8,allocation=uniform"].map(of);
    assert_eq!((none.zero_result_reads, none.zero_result_probes.most), (none.runs, 0.0));
    assert_eq!((uniform.zero_result_probes, uniform.runs), (uniform.runs, none.runs));
    assert!(uniform.existing_probes.mean() > 1.0 && uniform.existing_probes.most < uniform.runs.most, "{uniform:?}");
}

/// Filters are rebuilt for the lookups that there are: the fewer they are beside the writes, the
/// fewer are rebuilt, and the more false positives are left; without lookups none is. Rebuilds
/// spend at most what lookups have lost by waiting for them.
#[test]
fn filters_are_rebuilt_when_that_repays() {
    let of = |words: &str, lookups| {
        let policy = policy::parse(words).expect("a policy");
        let filter = "blocked:bits=10,allocation=monkey".parse().expect("a filter");
        let (entries, entry_bytes, buffer, block_bytes) = (500_000, 124, Bytes(480 << 10), 4096);
        let design = Design { entries, entry_bytes, buffer, policy: &policy, filter, block_bytes };
        let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
        let (digits, length, pace) = (256.0, Length::Turnovers(2.0), Pace::Settled);
        let found = predict(&design, &Question { writes, scans: &[1], digits, length, pace, lookups });
        (found.filters_rebuilt, found.zero_result_reads.mean())
    };
    let read_seconds = 3e-6;
    for words in ["qlsm-bush:T=2,X=2", "tiering:T=8"] {
        let (mut fewer, best) = of(words, Lookups::Countless);
        let mut reads_of_more = best;
        for per_write in [100.0, 10.0, 1.0, 0.1, 0.0] {
            let (rebuilt, reads) = of(words, Lookups::Some { per_write, read_seconds });
            println!("{words}: {per_write} lookups a write: {rebuilt:.2} entries rebuilt, {reads:.4} false positives");
            assert!(rebuilt <= fewer, "{words}: {rebuilt} entries rebuilt with {per_write} lookups, {fewer} with more");
            assert!(reads >= reads_of_more, "{words}: {reads} with {per_write} lookups, {reads_of_more} with more");
            let (spent, lost) = (rebuilt * REBUILD_SECONDS, per_write * (reads - best) * read_seconds);
            assert!(spent <= lost, "{words}, {per_write} lookups: {spent} s spent, {lost} s lost");
            (fewer, reads_of_more) = (rebuilt, reads);
        }
        assert_eq!(fewer, 0.0, "{words}, no lookups");
    }
}
