//! The measurements of `lookups`: what gets cost over trees of more and more runs and levels, with
//! a filter over the whole tree (Chucky) and with Bloom filters of equal memory.
//!
//! ```text
//! each tree: load ─► filters of equal memory ─► cached, direct: each round: each filter:
//!                                                 change it live ─► a slice of each workload
//! ```
//!
//! * [`plan`]: trees, filters, workloads; [`tree`]: loading, filters of equal memory.
//! * [`contenders`]: trees with a ratio of 10, beside RocksDB's.
//! * [`summary`]: medians, and which filter is better; [`report`], [`plot`].
//!
//! All is in one process; only one database, or one contender, is asked at a time.

pub mod contenders;
pub mod plan;
pub mod plot;
pub mod report;
pub mod summary;
pub mod tree;

use std::io;
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::noise;
use serde::{Deserialize, Serialize};
use tamarack::Db;
use tamarack_env::TempDir;

use crate::circumstances::Circumstances;
use crate::data::Data;
use crate::plan::Reads;
use crate::rows::Maker;
use crate::slice::{Bench, Sample, Times};
use crate::stores::Store;
use crate::table::count;
use contenders::ContenderFacts;
use plan::{FilterKind, Plan, TreePlan, Workload};
use tree::{Measure, TreeFacts, WORKS};

/// All that was measured, as it is kept in JSON.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Results {
    #[serde(flatten)]
    pub circumstances: Circumstances,
    pub entries: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// What Chucky was given.
    pub chucky_bits: Vec<f64>,
    pub slice_ms: u64,
    /// The cache of a database that is read past the page cache.
    pub small_cache_bytes: u64,
    pub trees: Vec<TreeFacts>,
    pub filters: Vec<FilterFacts>,
    pub contenders: Vec<ContenderFacts>,
    /// Bits that the contenders' Chucky was given.
    pub contender_bits: f64,
    pub measured: Vec<Measured>,
}

/// A filter of a tree.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct FilterFacts {
    pub tree: String,
    /// Bits that Chucky was given, whose memory this filter has.
    pub chucky_bits: f64,
    pub filter: String,
    pub measure: Measure,
}

/// One slice of a workload, on one tree with one filter, or on one contender.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Measured {
    /// [`contenders::TREE`] for contenders.
    pub tree: String,
    pub chucky_bits: f64,
    /// The filter's name, or the contender's.
    pub filter: String,
    pub reads: String,
    pub workload: String,
    pub round: usize,
    pub sample: Sample,
    /// Runs that filters did not exclude and that do not have the key, in all lookups. 0 for
    /// contenders.
    pub false_positives: u64,
    /// Data blocks that were searched, in the cache or not, and answers of the entry cache.
    pub searches: u64,
}

/// Measures everything. `save` is called with what there is after each tree.
pub fn measure(plan: &Plan, save: &dyn Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let began = Instant::now();
    let (data, maker) = (plan.data, Maker::new(plan.data));
    let mut run = Run { plan, noise: noise(), data, maker, results: Results::new(plan) };
    for (number, tree) in plan.trees.iter().enumerate() {
        eprintln!("{}: {} of {} trees", tree.name(), number + 1, plan.trees.len());
        run.tree(tree)?;
        run.results.circumstances.minutes = began.elapsed().as_secs_f64() / 60.0;
        save(&run.results)?;
    }
    if plan.has_beside {
        contenders::measure(&mut run)?;
        run.results.circumstances.minutes = began.elapsed().as_secs_f64() / 60.0;
        save(&run.results)?;
    }
    Ok(run.results)
}

struct Run<'a> {
    plan: &'a Plan,
    noise: Vec<u8>,
    /// Of the tree that is measured: trees differ a little in their number of entries.
    data: Data,
    maker: Maker,
    results: Results,
}

/// A filter that a tree gets again and again.
struct Candidate {
    chucky_bits: f64,
    kind: FilterKind,
    specification: String,
}

/// How long caches are warmed before reads past the page cache are measured, in slices.
const WARMING_SLICES: u32 = 4;

/// Lookups for each table, and for all tables at least, after which the engine has forgotten half
/// of what elastic filters follow: 32 samples for each table or 512, each of one in 64 lookups.
const HALF_LIFE_OF_TABLE: u64 = 32 * 64;
const HALF_LIFE_MIN: u64 = 512 * 64;

/// How many half-lives elastic filters get before they are measured.
const HALF_LIVES: u64 = 2;

/// The seeds of untimed lookups begin here: those of slices are smaller.
const UNTIMED_SEEDS: u64 = 1 << 40;

/// Data blocks that each cached lookup may read at most, on the mean.
const CACHED_BLOCKS_MAX: f64 = 0.001;

impl Run<'_> {
    /// Entries that are looked up from now on.
    fn take_data(&mut self, data: Data) {
        (self.data, self.maker) = (data, Maker::new(data));
    }

    /// Everything about one tree.
    fn tree(&mut self, tree: &TreePlan) -> io::Result<()> {
        let scratch = TempDir::below(&self.plan.dir)?;
        let dir = scratch.path().join("tree");
        self.results.circumstances.busy.push(machine::load());
        self.take_data(tree.data(&self.plan.data));
        let facts = tree::load(&dir, self.plan, tree, &self.noise);
        eprintln!(
            "{}: {}, runs of its levels: {}, loaded in {:.1} s",
            facts.name,
            facts.policy,
            facts.shown_runs(),
            facts.load_s
        );
        if let Some(trouble) = facts.differs_from(tree, &self.data) {
            self.trouble(trouble);
        }
        self.results.trees.push(facts.clone());
        let mut candidates = Vec::new();
        for reads in Reads::ALL {
            let db = tree::open(&dir, self.plan, reads, &facts.policy, facts.memtable_bytes, None);
            db.rebuild_filters().expect(WORKS);
            match reads {
                Reads::Cached => {
                    tree::touch_everything(&db, &self.data);
                    candidates = self.candidates(&db, &facts);
                }
                Reads::Direct => {
                    let time = self.plan.slice * WARMING_SLICES;
                    self.slice(&db, reads, Workload::Zipfian, 0, time);
                }
            }
            for round in 0..self.plan.rounds {
                self.round(&db, &facts, reads, round, &candidates);
            }
            db.close().expect(WORKS);
        }
        Ok(())
    }

    /// Finds filters of equal memory: Chucky's with each of its sizes, and that of the others.
    fn candidates(&mut self, db: &Db, facts: &TreeFacts) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for chucky_bits in self.plan.chucky_bits.iter().copied() {
            let mut wanted = chucky_bits;
            for kind in self.plan.filters.iter().copied() {
                let mut measure = if kind == FilterKind::Chucky {
                    let measure = tree::set_filter(db, &kind.specification(chucky_bits), facts.entries);
                    if measure.bits < 1.0 {
                        eprintln!("{}: {}: there is no such filter for this tree", facts.name, measure.specification);
                        break;
                    }
                    wanted = measure.bits;
                    measure
                } else {
                    tree::equal_memory(db, |bits| kind.specification(bits), wanted, facts.entries)
                };
                if kind == FilterKind::Elastic {
                    measure = self.measure_followed(db, &measure, facts);
                }
                eprintln!(
                    "{}: {}: {:.2} bits per entry; {:.5} false positives predicted for absent keys",
                    facts.name, measure.specification, measure.bits, measure.predicted_absent
                );
                candidates.push(Candidate { chucky_bits, kind, specification: measure.specification.clone() });
                let (tree, filter) = (facts.name.clone(), kind.name().to_owned());
                self.results.filters.push(FilterFacts { tree, chucky_bits, filter, measure });
            }
        }
        candidates
    }

    /// What an elastic filter is once it has followed lookups of absent keys, and of present ones.
    fn measure_followed(&self, db: &Db, fresh: &Measure, facts: &TreeFacts) -> Measure {
        let [absent, uniform] = [Workload::Absent, Workload::Uniform].map(|workload| {
            self.let_follow(db, Reads::Cached, workload);
            tree::measure(db, &fresh.specification, facts.entries)
        });
        eprintln!("{}: {}: {:.2} bits per entry before lookups", facts.name, fresh.specification, fresh.bits);
        Measure { predicted_present: uniform.predicted_present, ..absent }
    }

    /// Untimed lookups that an elastic filter follows, and the changes that it makes for them.
    fn let_follow(&self, db: &Db, reads: Reads, workload: Workload) {
        let mut left = HALF_LIVES * (HALF_LIFE_OF_TABLE * tree::tables(db)).max(HALF_LIFE_MIN);
        for slice in 0..u64::from(WARMING_SLICES) {
            let sample = self.slice_of_store(db, reads, workload, UNTIMED_SEEDS + slice, self.plan.slice);
            left = left.saturating_sub(sample.operations as u64);
            if left == 0 {
                break;
            }
        }
        db.rebuild_filters().expect(WORKS);
    }

    /// A slice of each workload with each filter. Another filter begins in each round.
    fn round(&mut self, db: &Db, facts: &TreeFacts, reads: Reads, round: usize, candidates: &[Candidate]) {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.rotate_left(round * candidates.len() / self.plan.rounds);
        for (turn, candidate) in order.into_iter().map(|place| &candidates[place]).enumerate() {
            tree::set_filter(db, &candidate.specification, facts.entries);
            let slices = round * candidates.len() + turn;
            if let Err(error) = tree::check(db, &self.data, &self.noise, slices as u64) {
                self.trouble(format!("{}, {}: {error}", facts.name, candidate.specification));
            }
            let follows = candidate.kind == FilterKind::Elastic;
            if follows && reads == Reads::Direct {
                // Uniform ones last: they leave least in the small cache for what is measured.
                Workload::ALL.into_iter().rev().for_each(|workload| self.let_follow(db, reads, workload));
            }
            // The first lookups after a change find cold processor caches.
            self.slice(db, reads, Workload::Uniform, 0, self.plan.slice / 4);
            let mut shown = Vec::new();
            for (place, workload) in Workload::ALL.into_iter().enumerate() {
                if follows && reads == Reads::Cached {
                    self.let_follow(db, reads, workload);
                }
                // No slice looks up what another has just looked up.
                let seed = (slices * Workload::ALL.len() + place) as u64 + 1;
                let (sample, false_positives, searches) = self.slice(db, reads, workload, seed, self.plan.slice);
                let each = false_positives as f64 / sample.operations as f64;
                shown.push(format!("{} {}/s ({each:.4} false positives)", workload.name(), count(sample.ops_per_s)));
                if reads == Reads::Cached && sample.blocks.is_some_and(|blocks| blocks > CACHED_BLOCKS_MAX) {
                    let blocks = sample.blocks.unwrap_or(0.0);
                    let (tree, filter) = (&facts.name, &candidate.specification);
                    self.trouble(format!("{tree}, {filter}: a cached lookup reads {blocks:.4} blocks"));
                }
                self.results.measured.push(Measured {
                    tree: facts.name.clone(),
                    chucky_bits: candidate.chucky_bits,
                    filter: candidate.kind.name().to_owned(),
                    reads: reads.name().to_owned(),
                    workload: workload.name().to_owned(),
                    round,
                    sample,
                    false_positives,
                    searches,
                });
            }
            let (tree, rounds, filter) = (&facts.name, self.plan.rounds, &candidate.specification);
            eprintln!("{tree}: {}: round {}/{rounds}: {filter}: {}", reads.name(), round + 1, shown.join(", "));
        }
    }

    /// Lookups for so long; also returns false positives, and blocks searched.
    fn slice(&self, db: &Db, reads: Reads, workload: Workload, seed: u64, time: Duration) -> (Sample, u64, u64) {
        let counted = || {
            let stats = db.stats();
            let searches = stats.cache_hits + stats.cache_misses + stats.lookups.cached_entries;
            (stats.lookups.filter_false_positives, searches)
        };
        let before = counted();
        let sample = self.slice_of_store(db, reads, workload, seed, time);
        let after = counted();
        (sample, after.0 - before.0, after.1 - before.1)
    }

    fn slice_of_store(&self, store: &dyn Store, reads: Reads, workload: Workload, seed: u64, time: Duration) -> Sample {
        let row = workload.row();
        let works = self.maker.slice(&row, seed, workload.most_operations(reads, time));
        let (direct_io, times) = (reads == Reads::Direct, Times { warm: Duration::ZERO, measured: time });
        Bench { store, data: &self.data, noise: &self.noise, direct_io }.run(&row, &works, times).0
    }

    fn trouble(&mut self, what: String) {
        eprintln!("lookups: {what}");
        self.results.circumstances.troubles.push(what);
    }
}

impl Results {
    fn new(plan: &Plan) -> Self {
        Self {
            circumstances: Circumstances::now(&plan.dir, &plan.command, plan.rounds),
            entries: plan.data.entries,
            key_bytes: plan.data.key_bytes(),
            value_bytes: plan.data.value_bytes,
            chucky_bits: plan.chucky_bits.clone(),
            slice_ms: plan.slice.as_millis() as u64,
            small_cache_bytes: plan.cache_bytes(Reads::Direct),
            trees: Vec::new(),
            filters: Vec::new(),
            contenders: Vec::new(),
            contender_bits: plan.chucky_bits[plan.chucky_bits.len() / 2],
            measured: Vec::new(),
        }
    }
}
