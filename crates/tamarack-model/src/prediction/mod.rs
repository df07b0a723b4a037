//! Prediction: the mean cost of operations on a tree that does not exist yet, from its design
//! alone.
//!
//! [`design::price`](crate::design::price) counts a tree that is as full as its shape allows. A
//! real tree is mostly not: levels fill and are emptied, and the runs that a lookup meets vary with
//! them. Here the [simulation](crate::simulate) loads a tree of counts, writes to it as a workload
//! does, and looks at it after each flush:
//!
//! ```text
//! entries, policy, memtable ─► load, each key once ─► two turnovers of the last level but one
//! workload's writes ───────────────────────────────────────┘     │ after each flush
//!                                                                 ▼
//! filter ───────► filters of the runs, as the engine decides ─► costs at that moment
//!                                                                 ▼
//!                                               least, mean and most over all moments
//! ```
//!
//! The planner, the growth of shapes, the allocation of filters and the decision to rebuild them
//! are the engine's own. Nothing that was measured goes in: no sizes of flushes, no runs that were
//! met.
//!
//! Beside writers at full speed ([`Pace::AtFullSpeed`]) the load is at full speed, too; then the
//! tree takes its shape and comes to rest, as [`Tree::reshape`] makes it. It is looked at while
//! memtables fill, each time at another place, and compactions in progress hand over their keys in
//! tables. Such a load is simulated memtable by memtable, of a large one the last part.
//!
//! # What is assumed
//!
//! - A compaction in progress has handed over its keys evenly: lookups meet its inputs for some
//!   keys, its output for the others. At a settled pace none is in progress when a lookup comes.
//! - The memtable is half full, in the mean, and no immutable one waits; beside writers at full
//!   speed, memtables are as full as simulated.
//! - All runs cover all keys, so that only the oldest one drops tombstones.
//! - Blocks are read without a cache.
//! - A run has one filter of its size. The engine's has one for each table, of equal bits per
//!   entry.
//!
//! Cost: some microseconds for each flush, and some more for each moment with filters; a tree of
//! 1,000 memtables takes milliseconds. Beside writers at full speed, some tens of microseconds for
//! each flush. Tests: `tests/suite/prediction.rs`, `tests/suite/deletes.rs`.

mod filters;
mod pieces;

use crate::cost::range::{self, Met};
use crate::cost::space;
use crate::cost::time::{LookupWork, ScanWork, Work};
use crate::design::Design;
use crate::filter::FilterChoice;
use crate::policy::ShapeFamily;
use crate::simulate::{FullSpeed, Keys, Pace, Seen, Sought, Tree};
use crate::units::Bytes;

pub use filters::{Effort, Lookups};

use filters::RunRates;
use pieces::Pieces;

/// What is written after the tree was loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Writes {
    /// Nothing: the tree is at rest.
    Nothing,
    /// Puts.
    Puts {
        /// The share of new keys, from 0 to 1. All others are put again.
        inserts: f64,
        /// The exponent of Zipf's law by which existing keys are chosen; 0 if each is as likely.
        theta: f64,
    },
    /// Puts and deletes. Live keys are put again and deleted, each as likely.
    Deletes {
        /// The share of new keys, from 0 to 1.
        inserts: f64,
        /// The share of deletes, at most all but inserts. Once as large a part of all keys as
        /// `deleted` is deleted, in turns a key is deleted and the one deleted longest ago put
        /// again; these puts are a part of the share.
        deletes: f64,
        /// The largest part of all keys that is deleted, from 0 to 1; 1 if no deleted key is put
        /// again.
        deleted: f64,
        /// Raw bytes of a tombstone: its key and 8 bytes; at least 1.
        tombstone_bytes: u64,
    },
}

/// What is to be predicted, beside the design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question<'a> {
    /// What is written after the load.
    pub writes: Writes,
    /// Numbers of entries that scans return, each at least 1.
    pub scans: &'a [u64],
    /// The base of the random digits that keys consist of, at least 2: 256 for random bytes.
    pub digits: f64,
    /// How long the phase is over which means are taken.
    pub length: Length,
    /// How fast compactions are beside the writers.
    pub pace: Pace,
    /// The lookups beside the writes.
    pub lookups: Lookups,
}

/// The length of a phase of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// As many memtables as the last level but one takes in so many turnovers; more than 0.
    Turnovers(f64),
    /// So many bytes flushed, in whole memtables.
    Flushed(Bytes),
}

/// The predicted costs, over the moments after each flush of the phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Flushes of the phase; 0 for a tree at rest.
    pub flushes: u64,
    /// Block reads of a zero-result lookup.
    pub zero_result_reads: Seen,
    /// Block reads of a lookup of an existing key, each as likely; 0 at a moment at which all keys
    /// are deleted.
    pub existing_reads: Seen,
    /// Block reads of a lookup of an existing key, chosen as writers choose those that they put
    /// again.
    pub drawn_reads: Seen,
    /// Block reads of scans, in the order of [`Question::scans`].
    pub scan_reads: Vec<Seen>,
    /// Filters that a zero-result lookup probes.
    pub zero_result_probes: Seen,
    /// Filters that a lookup of an existing key probes, each as likely.
    pub existing_probes: Seen,
    /// Runs that cover a key, in the mean over all keys: all runs of a tree without compactions in
    /// progress.
    pub runs: Seen,
    /// Raw bytes of all runs per raw byte of live entries.
    pub space_amplification: Seen,
    /// Filter bits in memory per entry of the runs.
    pub filter_bits_per_entry: Seen,
    /// Entries of filters that are built anew for an entry that is flushed, in the mean over the
    /// phase, besides the filters that are built with their runs. 0 with [`Effort::Quick`].
    pub filters_rebuilt: f64,
    /// Bytes written by flushes and compactions per byte flushed in the phase; of the load for a
    /// tree at rest. What compactions in progress at the end of the phase, and those that follow
    /// from them, will have written is included.
    pub write_amplification: f64,
    /// Raw bytes that writers at full speed put in a second, in the mean over the phase; 0 at any
    /// other pace.
    pub put_bytes_per_second: f64,
}

/// The least number of flushes over which means are taken.
const FLUSHES_MIN: u64 = 8;

/// The tree is looked at after so many flushes at most, evenly spaced. A prime number, so that they
/// are not all at the same place in the cycles of small levels.
const MOMENTS_MAX: u64 = 127;

/// The same for [`Effort::Quick`].
const QUICK_MOMENTS_MAX: u64 = 31;

/// Predicts the costs of a design.
///
/// # Panics
/// If an entry, a block or the memtable is empty, there are no entries, or a number of the question
/// is out of its range.
pub fn predict(design: &Design<'_>, question: &Question<'_>) -> Prediction {
    let own = Variant { filter: design.filter, block_bytes: design.block_bytes };
    predict_each(design, &[own], question, Effort::Full).remove(0)
}

/// What a tree's runs consist of, which does not change what is compacted when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variant {
    /// The filters.
    pub filter: FilterChoice,
    /// Bytes of a data block, at least 1.
    pub block_bytes: u64,
}

/// Predicts the costs of a design with each of these instead of its own filter and blocks, in their
/// order, by one simulation.
///
/// # Panics
/// As [`predict`].
pub fn predict_each(
    design: &Design<'_>,
    variants: &[Variant],
    question: &Question<'_>,
    effort: Effort,
) -> Vec<Prediction> {
    assert!(design.entries > 0 && design.entry_bytes > 0, "{design:?}");
    assert!(variants.iter().all(|variant| variant.block_bytes > 0), "{variants:?}");
    assert!(question.digits >= 2.0, "{question:?}");
    let data = Bytes(design.entries) * design.entry_bytes;
    let mut tree = match question.pace {
        Pace::AtFullSpeed(speed) => loaded_at_full_speed(design.policy, design.buffer, data, &speed),
        Pace::Settled | Pace::Concurrent { .. } | Pace::Beside(_) => loaded(design.policy, design.buffer, data),
    };
    let scan_reads = vec![Seen::default(); question.scans.len()];
    let prediction = Prediction { scan_reads, ..Prediction::default() };
    let mut moments = Moments { design, question, of_filters: Vec::new() };
    for (number, variant) in variants.iter().enumerate() {
        moments.add(number, *variant, &prediction, effort);
    }
    while tree.rest() {
        tree.settle();
    }
    let Some(keys) = keys(design, question.writes) else {
        moments.look(&tree, Bytes::ZERO);
        let write_amplification = tree.report().write_amplification();
        return moments.predictions(&Prediction { write_amplification, ..Prediction::default() });
    };
    tree = tree.drawing(keys);
    let buffer = tree.shape().buffer();
    let flushes = flushes(&tree, question.length);
    let most = match effort {
        Effort::Full => MOMENTS_MAX,
        Effort::Quick => QUICK_MOMENTS_MAX,
    };
    let before = Totals::of(&tree);
    for flush in 0..flushes {
        // The first of those that come to the same moment.
        let is_moment = flush == 0 || flush * most / flushes != (flush - 1) * most / flushes;
        match question.pace {
            Pace::AtFullSpeed(speed) => {
                // Each time at another place of the memtable, spread evenly.
                let place = (flush as f64 * GOLDEN_RATIO).fract();
                let mut is_due = is_moment;
                tree.write_at_full_speed(&speed, buffer, &mut |tree, full, memtables| {
                    if is_due && full >= place {
                        is_due = false;
                        moments.look(tree, memtables);
                    }
                });
            }
            Pace::Settled | Pace::Concurrent { .. } | Pace::Beside(_) => {
                tree.fill(buffer, question.pace);
                if is_moment {
                    moments.look(&tree, Bytes(buffer.0 / 2));
                }
            }
        }
    }
    let time = Totals::of(&tree).time - before.time;
    tree.settle();
    let after = Totals::of(&tree);
    let flushed = after.flushed - before.flushed;
    let put_bytes_per_second = match question.pace {
        Pace::AtFullSpeed(speed) => flushed / (time * buffer.as_f64()) * speed.bytes_per_second,
        Pace::Settled | Pace::Concurrent { .. } | Pace::Beside(_) => 0.0,
    };
    let write_amplification = (after.written - before.written) / flushed;
    moments.predictions(&Prediction { flushes, write_amplification, put_bytes_per_second, ..Prediction::default() })
}

/// The fractional parts of its multiples are spread evenly, however many there are.
const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;

/// The keys that are written; `None` if nothing is.
fn keys(design: &Design<'_>, writes: Writes) -> Option<Keys> {
    let drawn = |theta| Keys::drawn(design.entries, design.entry_bytes, theta);
    match writes {
        Writes::Nothing => None,
        Writes::Puts { inserts, theta } => Some(drawn(theta).inserting(inserts)),
        Writes::Deletes { inserts, deletes, deleted, tombstone_bytes } => {
            Some(drawn(0.0).inserting(inserts).deleting(deletes, deleted, tombstone_bytes))
        }
    }
}

/// What a tree has done so far.
struct Totals {
    flushed: f64,
    written: f64,
    time: f64,
}

impl Totals {
    fn of(tree: &Tree<'_>) -> Self {
        let report = tree.report();
        let (flushed, written) = (report.flushed.as_f64(), report.written_total().as_f64());
        Self { flushed, written, time: tree.time_at_full_speed() }
    }
}

/// A tree with so much data, each key once, all of it flushed.
///
/// While all levels above one are empty, what makes them full goes straight down to it, in whatever
/// pieces it came. So the load arrives in batches as large as still fit, which leaves the same tree
/// as single memtables do, after some steps for each level instead of one for each memtable.
pub fn loaded<'a>(policy: &'a dyn ShapeFamily, buffer: Bytes, data: Bytes) -> Tree<'a> {
    let mut tree = Tree::new(policy, buffer);
    let mut left = data;
    while left > Bytes::ZERO {
        let shape = tree.shape();
        let empty = (1..shape.last()).take_while(|level| tree.occupancy().level(*level).is_empty()).count();
        let batches = (1..=empty + 1).map(|level| Bytes(shape.actual_batch(level) as u64));
        // A single memtable makes the tree grow, as it does in life.
        let space = Bytes(shape.full_from(shape.last()).0.saturating_sub(tree.occupancy().bytes().0 + 1));
        let fits = |batch: &Bytes| *batch <= left && *batch <= space;
        let batch = batches.take_while(fits).last().unwrap_or(shape.buffer().min(left));
        tree.fill(batch, Pace::Settled);
        left = Bytes(left.0 - batch.0);
    }
    tree
}

/// The same, loaded by writers at full speed, and brought into its shape then. Of more memtables
/// than [`LOADED_MAX`], the first ones are loaded at a settled pace.
fn loaded_at_full_speed<'a>(policy: &'a dyn ShapeFamily, buffer: Bytes, data: Bytes, speed: &FullSpeed) -> Tree<'a> {
    let last = data.min(buffer * LOADED_MAX);
    let mut tree = loaded(policy, buffer, Bytes(data.0 - last.0));
    let buffer = tree.shape().buffer();
    let mut left = last;
    while left > Bytes::ZERO {
        let memtable = buffer.min(left);
        tree.fill(memtable, Pace::AtFullSpeed(*speed));
        left = Bytes(left.0 - memtable.0);
    }
    tree.settle();
    tree.reshape();
    tree.settle();
    tree
}

/// Memtables of a load at full speed that are simulated one by one.
const LOADED_MAX: u64 = 1_000;

/// The flushes of a phase.
fn flushes(tree: &Tree<'_>, length: Length) -> u64 {
    let shape = tree.shape();
    let flushes = match length {
        Length::Turnovers(turnovers) if shape.last() > 1 => {
            turnovers * shape.level(shape.last() - 1).capacity.ratio(shape.buffer())
        }
        Length::Turnovers(_) => 0.0,
        Length::Flushed(bytes) => bytes.ratio(shape.buffer()),
    };
    (flushes.ceil() as u64).max(FLUSHES_MIN)
}

/// The moments at which a tree is looked at, and what was seen so far.
struct Moments<'a> {
    design: &'a Design<'a>,
    question: &'a Question<'a>,
    of_filters: Vec<OfFilter>,
}

/// What was seen with a filter.
struct OfFilter {
    filter: FilterChoice,
    rates: RunRates,
    /// For each variant with it: its number, entries of a block, and what was seen.
    variants: Vec<(usize, f64, Prediction)>,
}

impl Moments<'_> {
    fn add(&mut self, number: usize, Variant { filter, block_bytes }: Variant, nothing: &Prediction, effort: Effort) {
        let entry_bytes = self.design.entry_bytes;
        let per_block = range::entries_per_block(block_bytes as f64, entry_bytes as f64);
        let variant = (number, per_block, nothing.clone());
        match self.of_filters.iter_mut().find(|of| of.filter == filter) {
            Some(of) => of.variants.push(variant),
            None => {
                let rates = RunRates::new(filter, entry_bytes, effort, self.question.lookups);
                self.of_filters.push(OfFilter { filter, rates, variants: vec![variant] });
            }
        }
    }

    /// Sees the costs of the tree as it is, with so many bytes in its memtables.
    fn look(&mut self, tree: &Tree<'_>, memtables: Bytes) {
        let entry = self.design.entry_bytes as f64;
        let memtables = memtables.as_f64();
        let pieces = Pieces::of(tree);
        let newest = |sought| pieces.divided(&tree.newest(memtables, sought));
        let uniform = newest(Sought::Uniform);
        let drawn = (!tree.has_keys_alike()).then(|| newest(Sought::Drawn));
        let met: Vec<Met> = pieces.met(entry);
        // Half of a compaction's inputs are gone when its output is half done.
        let stored: f64 = met.iter().map(|met| met.entries).sum();
        // All keys may be deleted.
        let live = tree.keys().unwrap_or(stored + memtables / entry).max(1.0);
        for OfFilter { rates: filter, variants, .. } in &mut self.of_filters {
            let rates = pieces.rates(&filter.of_runs(tree), |plan| filter.of_output(tree, plan));
            let probes: Vec<f64> = rates.iter().map(|rate| if *rate < 1.0 { 1.0 } else { 0.0 }).collect();
            let block = vec![1.0; rates.len()];
            let zero_result = pieces.covered(&rates).sum();
            let existing = pieces.until_found(&uniform, &rates, &block);
            let drawn = drawn.as_ref().map_or(existing, |drawn| pieces.until_found(drawn, &rates, &block));
            let (absent, present) = if filter.is_of_tree() {
                (1.0, 1.0)
            } else {
                (pieces.covered(&probes).sum(), pieces.until_found(&uniform, &probes, &probes))
            };
            let bits = filter.bits(tree) / stored.max(1.0);
            for (_, per_block, seen) in variants {
                seen.zero_result_reads.see(zero_result);
                seen.existing_reads.see(existing);
                seen.drawn_reads.see(drawn);
                for (seen, scanned) in seen.scan_reads.iter_mut().zip(self.question.scans) {
                    seen.see(range::blocks(&met, live, *scanned as f64, *per_block, self.question.digits));
                }
                seen.zero_result_probes.see(absent);
                seen.existing_probes.see(present);
                seen.runs.see(met.iter().map(|met| met.covers).sum());
                seen.space_amplification.see(stored / live);
                seen.filter_bits_per_entry.see(bits);
            }
        }
    }

    /// What was seen of each variant, with these totals.
    fn predictions(self, totals: &Prediction) -> Vec<Prediction> {
        let Prediction { flushes, write_amplification, put_bytes_per_second, .. } = *totals;
        let flushed = totals.flushes as f64 * self.design.buffer.ratio(Bytes(self.design.entry_bytes));
        let of_filter = |of: OfFilter| {
            let filters_rebuilt = if flushed > 0.0 { of.rates.rebuilt() as f64 / flushed } else { 0.0 };
            of.variants.into_iter().map(move |(number, _, seen)| {
                (number, Prediction { flushes, write_amplification, put_bytes_per_second, filters_rebuilt, ..seen })
            })
        };
        let mut variants: Vec<_> = self.of_filters.into_iter().flat_map(of_filter).collect();
        variants.sort_by_key(|(number, _)| *number);
        variants.into_iter().map(|(_, prediction)| prediction).collect()
    }
}

impl Prediction {
    /// What one operation of each kind does, in the mean, without a cache. Of [`Question::scans`],
    /// the first returns one entry, and the second so many more.
    ///
    /// # Panics
    /// If less than two scans were asked for.
    pub fn work(&self, design: &Design<'_>, range_entries: f64) -> Work {
        let [seeks, blocks] = [0, 1].map(|at| self.scan_reads[at].mean());
        let lookup =
            |probes: Seen, blocks: Seen| LookupWork { probes: probes.mean(), blocks: blocks.mean(), hits: 0.0 };
        let (writes, entry_bytes) = (self.write_amplification, design.entry_bytes as f64);
        // The phase may be a part of the last level's cycle only.
        let shape = design.policy.shape(Bytes(design.entries) * design.entry_bytes, design.buffer);
        let seen = self.space_amplification.most / self.space_amplification.least.max(1.0);
        let growth = if seen > 1.0 { seen.max(space::worst_amplification(&shape)) } else { 1.0 };
        Work {
            zero_result: lookup(self.zero_result_probes, self.zero_result_reads),
            existing: lookup(self.existing_probes, self.existing_reads),
            scan: ScanWork { seeks, blocks: blocks - seeks, entries: range_entries, hits: 0.0 },
            update_writes: writes,
            tables: Work::tables_of(writes, entry_bytes, design.buffer),
            filter_entries: Work::filter_entries_of(design.filter, writes, growth),
            filters_rebuilt: self.filters_rebuilt,
            entry_bytes,
            block_bytes: design.block_bytes as f64,
            filter: design.filter,
        }
    }
}
