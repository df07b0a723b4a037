//! Measurement of a design: its load, and each workload on a tree of its own.
//!
//! ```text
//! load ──► at rest ──┬──► reads at rest
//!                    ├──► checkpoint ──► overwrites  w w w R w w w R w w w R …  ──► at rest
//!                    ├──► checkpoint ──► inserts     R: reads of each kind, counted
//!                    └──► …                          w: writes, as fast as they are accepted
//! ```
//!
//! Writes go on until as many raw bytes are written as [`Plan::turnovers`] times the capacity of
//! the last level but one: the level above the deepest one that has entries, at most that of all
//! data. Reads come in
//! [`GROUPS`] groups, one at a random place of each of so many equal parts of the workload: equal
//! distances could follow the rhythm of flushes. With [`Plan::settled`], compactions are awaited
//! before. Otherwise they go on while writes do, and are paused during reads: the thread that
//! writes also reads, and compactions would gain on writers meanwhile. After a pause writers may be
//! faster for a while, so that only one group in [`READ_EVERY`] has reads then, and more of them.
//!
//! Block reads are differences of the engine's counters; one pass over its statistics lies between
//! two kinds of reads of a group. Runs, space and filter bits are means over the groups.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::numbers::unit;
use common::words::List;
use serde_json::{Map, Value, json};
use shape::store::{absent_blocks, reads, runs_met};
use tamarack::{Result, RunStats, Stats};
use tamarack_env::Random;
use tamarack_model::Bytes;

use crate::costs::{Figure, Figures, SCANNED};
use crate::list::NamedDesign;
use crate::store::{RAW_BYTES, Store};
use crate::workloads::{WORKLOADS, WriteMix};

/// What is measured of each design.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Entries loaded.
    pub entries: u64,
    /// Reads of each kind.
    pub reads: u64,
    /// Turnovers of the last level but one.
    pub turnovers: u64,
    /// Await compactions after each memtable and before each group of reads.
    pub settled: bool,
    /// Seconds after which a workload is ended early.
    pub seconds_each: u64,
    /// Workloads.
    pub workloads: List,
}

/// Groups of reads in a workload.
pub const GROUPS: u64 = 400;

/// Of groups beside compactions, one in so many has reads, and so many times as many.
pub const READ_EVERY: u64 = 8;

/// The least number of memtables that a workload writes.
pub const MEMTABLES_MIN: u64 = 8;

/// With filters, so many more zero-result lookups than other reads: few of them read a block.
const MORE_ABSENT: u64 = 5;

/// Loads the design and measures the wanted workloads.
pub fn measure(dir: &Path, design: &NamedDesign, plan: &Plan) -> Result<Value> {
    let seed = design.number as u64 * 100;
    let began = Instant::now();
    let mut base = Store::open(&dir.join("loaded"), design, plan.entries, 0, seed)?;
    let mut pace = Pace::new(design, plan);
    while base.numbers() < plan.entries {
        let bytes = base.insert()?;
        pace.wrote(&base, bytes)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    base.come_to_rest(&design.parsed())?;
    let load = load_figures(&base, seconds, began.elapsed().as_secs_f64() - seconds);
    eprintln!("{}, load: {load}", design.name());
    let target = target_bytes(&base, design, plan);
    let mut workloads = Map::new();
    for (mix, seed) in WORKLOADS.iter().zip(seed + 1..).filter(|(mix, _)| plan.workloads.wants(mix.name)) {
        let measured = if mix.writes() {
            let path = dir.join(mix.name);
            base.db.checkpoint(&path)?;
            let mut store = Store::open(&path, design, plan.entries, plan.entries, seed)?;
            let measured = run(&mut store, design, mix, target, plan)?;
            store.db.close()?;
            fs::remove_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            measured
        } else {
            run(&mut base, design, mix, 0, plan)?
        };
        eprintln!("{}, {}: {measured}", design.name(), mix.name);
        workloads.insert(mix.name.to_owned(), measured);
    }
    Ok(json!({ "load": load, "target_bytes": target, "workloads": workloads }))
}

fn load_figures(store: &Store, seconds: f64, settle_seconds: f64) -> Value {
    let stats = store.db.stats();
    let (shape, occupancy, _) = store.db.planned();
    let buffer = shape.buffer().as_f64();
    json!({
        "seconds": seconds,
        "settle_seconds": settle_seconds,
        "write_amplification": stats.write_amplification(),
        "capacities": shape.levels().iter().map(|level| level.capacity.as_f64() / buffer).collect::<Vec<_>>(),
        "slots": shape.levels().iter().map(|level| level.runs).collect::<Vec<_>>(),
        "sizes": (1..=shape.last()).map(|level| occupancy.level_bytes(level).as_f64() / buffer).collect::<Vec<_>>(),
        "runs": (1..=shape.last()).map(|level| occupancy.level(level).len()).collect::<Vec<_>>(),
        "buffer_bytes": shape.buffer().0,
    })
}

/// Raw bytes that a workload writes. A level may have a larger capacity than all data together.
fn target_bytes(store: &Store, design: &NamedDesign, plan: &Plan) -> u64 {
    let (shape, occupancy, _) = store.db.planned();
    let above = occupancy.deepest().saturating_sub(1);
    let capacity = if above == 0 { Bytes::ZERO } else { shape.level(above).capacity };
    let turned_over = capacity.0.min(plan.entries * RAW_BYTES);
    (plan.turnovers * turned_over).max(MEMTABLES_MIN * design.buffer_bytes(plan.entries))
}

/// With [`Plan::settled`], awaits compactions each time that a memtable's bytes were written.
struct Pace {
    /// `None` if compactions go on while writes do.
    every_bytes: Option<u64>,
    written: u64,
}

impl Pace {
    fn new(design: &NamedDesign, plan: &Plan) -> Self {
        Self { every_bytes: plan.settled.then(|| design.buffer_bytes(plan.entries)), written: 0 }
    }

    fn wrote(&mut self, store: &Store, bytes: u64) -> Result<()> {
        self.written += bytes;
        if self.every_bytes.is_some_and(|every| self.written >= every) {
            self.written = 0;
            store.settle()?;
        }
        Ok(())
    }
}

/// The kinds of reads, in the order of a group.
const READS: [Figure; 5] =
    [Figure::ZeroResultReads, Figure::ExistingReads, Figure::ZipfianReads, Figure::SeekReads, Figure::ScanReads];

/// What was counted so far.
#[derive(Default)]
struct Counts {
    /// Operations and blocks of each of [`READS`].
    reads: [(u64, u64); READS.len()],
    groups: u64,
    runs: f64,
    space: f64,
    filter_bits: f64,
    /// False positives of a zero-result lookup, by the runs of the moment and their filters.
    false_positives: f64,
}

fn run(store: &mut Store, design: &NamedDesign, mix: &'static WriteMix, target: u64, plan: &Plan) -> Result<Value> {
    let began = Instant::now();
    let is_late = || began.elapsed().as_secs() >= plan.seconds_each;
    let (before, first) = (store.db.stats(), store.numbers());
    let places = Random::new(design.number as u64);
    let (mut written, mut counts, mut pace) = (0, Counts::default(), Pace::new(design, plan));
    let mut writes = 0_u64;
    let mut write_time = Duration::ZERO;
    let mut was_ended = false;
    for group in 0..GROUPS {
        let place = (group as f64 + unit(places.next())) / GROUPS as f64 * target as f64;
        let write_began = Instant::now();
        while (written as f64) < place && !was_ended {
            let bytes = store.write(mix)?;
            pace.wrote(store, bytes)?;
            written += bytes;
            writes += 1;
            was_ended = writes.is_multiple_of(256) && is_late();
        }
        write_time += write_began.elapsed();
        was_ended |= is_late();
        if was_ended {
            break;
        }
        if plan.settled {
            store.settle()?;
        }
        look(store, mix, &mut counts);
        if plan.settled {
            read_group(store, design, mix, plan.reads / GROUPS, &mut counts)?;
        } else if group % READ_EVERY == 0 {
            let _paused = store.db.pause_compactions();
            read_group(store, design, mix, plan.reads * READ_EVERY / GROUPS, &mut counts)?;
        }
    }
    let put_megabytes = written as f64 / write_time.as_secs_f64() / 1e6;
    while written < target && !was_ended {
        let bytes = store.write(mix)?;
        pace.wrote(store, bytes)?;
        written += bytes;
        writes += 1;
        was_ended = writes.is_multiple_of(256) && is_late();
    }
    let seconds = began.elapsed().as_secs_f64();
    store.settle()?;
    let after = store.db.stats();
    let done = if mix.writes() { written as f64 / target as f64 } else { counts.groups as f64 / GROUPS as f64 };
    Ok(json!({
        "figures": figures(&counts, (&before, &after), mix, (!plan.settled && mix.writes()).then_some(put_megabytes)).to_json(),
        "zero_result_blocks": counts.reads[0].1,
        "zero_result_lookups": counts.reads[0].0,
        "zero_result_by_runs": counts.false_positives / counts.groups as f64,
        "groups": counts.groups,
        "done": done.min(1.0),
        "writes": writes,
        "inserted": store.numbers() - first,
        "flushed": after.flushed_raw_bytes - before.flushed_raw_bytes,
        "compactions": after.compactions - before.compactions,
        "delayed_seconds": delayed(&after) - delayed(&before),
        "seconds": seconds,
        "settle_seconds": began.elapsed().as_secs_f64() - seconds,
    }))
}

fn delayed(stats: &Stats) -> f64 {
    stats.write_delay_seconds + stats.write_stall_seconds
}

/// Sees the state of the tree.
fn look(store: &Store, mix: &WriteMix, counts: &mut Counts) {
    let stats = store.db.stats();
    let all = RunStats::total(stats.levels.iter().flat_map(|level| &level.runs));
    let in_memtables: u64 = stats.memtables.iter().map(|memtable| memtable.entries).sum();
    // Those inserted are not on storage yet.
    let on_storage = store.live() as f64 - (in_memtables * mix.inserts) as f64 / 100.0;
    counts.groups += 1;
    counts.runs += runs_met(&stats);
    counts.space += all.raw_bytes as f64 / (on_storage * RAW_BYTES as f64);
    counts.filter_bits += all.filter_bits_per_entry();
    counts.false_positives += absent_blocks(&stats);
}

/// So many reads of each kind, counted.
fn read_group(store: &Store, design: &NamedDesign, mix: &WriteMix, each: u64, counts: &mut Counts) -> Result<()> {
    let each = each.max(1);
    let mut blocks = reads(&store.db.stats()).0;
    for (kind, (operations, sum)) in READS.iter().zip(&mut counts.reads) {
        let times = match kind {
            Figure::ZeroResultReads if design.has_filters() => MORE_ABSENT * each,
            Figure::ZipfianReads if !mix.is_zipfian() => continue,
            _ => each,
        };
        for _ in 0..times {
            match kind {
                Figure::ZeroResultReads => store.look_up_absent()?,
                Figure::ExistingReads => store.look_up_existing()?,
                Figure::ZipfianReads => store.look_up_frequent()?,
                Figure::SeekReads => store.scan(1)?,
                _ => store.scan(SCANNED)?,
            }
        }
        let now = reads(&store.db.stats()).0;
        *operations += times;
        *sum += now - blocks;
        blocks = now;
    }
    Ok(())
}

fn figures(counts: &Counts, (before, after): (&Stats, &Stats), mix: &WriteMix, put_megabytes: Option<f64>) -> Figures {
    let mut figures = Figures::default();
    for (kind, (operations, blocks)) in READS.into_iter().zip(counts.reads) {
        figures = figures.with(kind, blocks as f64 / operations as f64);
    }
    figures = figures.with(Figure::PutMegabytes, put_megabytes.unwrap_or(f64::NAN));
    let groups = counts.groups as f64;
    let flushed = (after.flushed_raw_bytes - before.flushed_raw_bytes) as f64;
    let written = (after.written_raw_bytes() - before.written_raw_bytes()) as f64;
    let figures = figures
        .with(Figure::Runs, counts.runs / groups)
        .with(Figure::FilterBits, counts.filter_bits / groups)
        .with(Figure::WriteAmplification, written / flushed);
    // 1 by definition where nothing becomes obsolete.
    if mix.makes_garbage() { figures.with(Figure::SpaceAmplification, counts.space / groups) } else { figures }
}
