//! [`Design`]: the structure and cost of a tree that need not exist.
//!
//! ```text
//! entries, their size ┐                ┌ shape: capacity, runs, and filter of each level
//! memtable, policy    ├──▶ price() ──▶ ┤ memory
//! filter, block size  │                └ cost of each operation, and of a workload
//! workload, device    ┘
//! ```
//!
//! The tree is as full as its shape allows, which is when it costs most: level i shows `v_i` runs
//! of `N_i / v_i` each. Reads are counted without caches. Shapes come from
//! [`policy`](crate::policy), filters from [`allocate`](crate::allocate), costs from
//! [`cost`](crate::cost).
//!
//! Tests: below, by hand; `tests/suite/designs.rs` against the closed forms and the exact sums over
//! single runs.

use crate::allocate::weights::{Asked, Extent};
use crate::allocate::{Curve, Load};
use crate::cost::time::{LookupWork, ScanWork, Work};
use crate::cost::{lookup, range, space, update};
use crate::device::Device;
use crate::filter::{Allocation, FilterChoice, chucky, predict};
use crate::policy::ShapeFamily;
use crate::shape::Shape;
use crate::units::{Bytes, Entries};
use crate::workload::Workload;

/// The design to price.
#[derive(Clone, Copy, Debug)]
pub struct Design<'a> {
    /// The number of entries, all live.
    pub entries: u64,
    /// Raw bytes of each, at least 1: key, value, and what an entry carries.
    pub entry_bytes: u64,
    /// The memtable size. A custom shape has its own.
    pub buffer: Bytes,
    /// The source of the shape.
    pub policy: &'a dyn ShapeFamily,
    /// The filters of the tables.
    pub filter: FilterChoice,
    /// Bytes of a block, at least 1.
    pub block_bytes: u64,
}

/// The structure and cost of a design.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// Its shape.
    pub shape: Shape,
    /// Its levels, level 1 first.
    pub levels: Vec<PricedLevel>,
    /// Bits of all filters, for the number of entries.
    pub filter_bits: f64,
    /// The cost of each operation.
    pub cost: Cost,
}

/// A level and the filters of its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedLevel {
    /// Capacity in entries.
    pub capacity_entries: u64,
    /// Capacity in bytes.
    pub capacity_bytes: Bytes,
    /// Run slots.
    pub runs: u32,
    /// The maximum number of runs that a lookup visits.
    pub visible_runs: u64,
    /// Its capacity over that of the level above, or the memtable.
    pub size_ratio: f64,
    /// The false positive rate of each run; 1 without a filter.
    pub fpr: f64,
    /// Bits per entry of each run's filter.
    pub bits_per_entry: f64,
}

/// The cost of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Block reads of a zero-result lookup.
    pub zero_result_reads: f64,
    /// Block reads of a lookup that finds its key, each entry being equally likely.
    pub existing_reads: f64,
    /// Runs in which a scan seeks: block reads before its first entry.
    pub range_seeks: f64,
    /// Times that an entry is written on its way from the memtable through all levels (write
    /// amplification, without the WAL).
    pub update_writes: f64,
    /// Worst-case space amplification: bytes on storage per live byte.
    pub space_amplification: f64,
    /// Mean seconds of an operation of the workload, by one thread that waits for everything it
    /// causes, including compactions.
    pub seconds_per_op: f64,
}

impl Cost {
    /// Throughput of the workload in operations per second, one after the other.
    pub fn throughput_per_s(&self) -> f64 {
        1.0 / self.seconds_per_op
    }
}

/// Prices a design for a workload and a device.
///
/// # Panics
/// If an entry, a block or the memtable is empty.
pub fn price(design: &Design<'_>, workload: &Workload, device: &Device) -> Priced {
    assert!(design.entry_bytes > 0 && design.block_bytes > 0, "{design:?}");
    let data = Bytes(design.entries) * design.entry_bytes;
    let shape = design.policy.shape(data, design.buffer);
    let extents = extents(&shape, design.entry_bytes);
    let bits = bits_per_entry(design.filter, &extents);
    let rates = rates(design.filter, &extents, &bits);
    let level = |number: usize| PricedLevel {
        capacity_entries: shape.level(number).capacity.0 / design.entry_bytes,
        capacity_bytes: shape.level(number).capacity,
        runs: shape.level(number).runs,
        visible_runs: extents[number - 1].runs,
        size_ratio: shape.ratio(number),
        fpr: rates[number - 1],
        bits_per_entry: bits[number - 1],
    };
    let levels = (1..=shape.last()).map(level).collect();
    let all: u64 = extents.iter().map(|extent| extent.entries.0).sum();
    let used: f64 = extents.iter().zip(&bits).map(|(extent, bits)| extent.entries.0 as f64 * bits).sum();
    let filter_bits = used / (all as f64).max(1.0) * design.entries as f64;
    let cost = cost(design, &shape, &extents, &rates, workload, device);
    Priced { shape, levels, filter_bits, cost }
}

/// The runs of a full tree, grouped by level. A level that a single batch fills (a ratio of 1.5)
/// shows no run at rest, but is taken to have one.
fn extents(shape: &Shape, entry_bytes: u64) -> Vec<Extent> {
    let extent = |number| {
        let bytes = shape.level(number).capacity;
        Extent {
            runs: shape.visible_runs(number).max(1),
            bytes,
            entries: Entries((bytes.0 / entry_bytes).max(1)),
            seen: None,
        }
    };
    (1..=shape.last()).map(extent).collect()
}

/// The false positive rate of each level's runs, by the bits per entry of their filters.
fn rates(filter: FilterChoice, extents: &[Extent], bits: &[f64]) -> Vec<f64> {
    let of_kind = |bits: &f64| match filter {
        FilterChoice::Each { kind, .. } if *bits > 0.0 => predict(kind, *bits).fpr,
        _ => 1.0,
    };
    match filter {
        FilterChoice::Tree { bits_per_entry } => {
            let runs = extents
                .iter()
                .flat_map(|extent| (0..extent.runs).map(|_| extent.entries.0 as f64 / extent.runs as f64));
            let entries: Vec<f64> = runs.collect();
            let all: f64 = entries.iter().sum();
            let shares: Vec<f64> = entries.iter().map(|entries| entries / all).collect();
            let of_share = chucky::rates(chucky::slots(bits_per_entry), &shares);
            let mut next = of_share.into_iter();
            extents.iter().map(|extent| next.by_ref().take(extent.runs as usize).last().unwrap_or(1.0)).collect()
        }
        FilterChoice::None | FilterChoice::Each { .. } => bits.iter().map(of_kind).collect(),
    }
}

/// Bits per entry of each level's filters.
fn bits_per_entry(filter: FilterChoice, extents: &[Extent]) -> Vec<f64> {
    let FilterChoice::Each { kind, bits_per_entry, allocation } = filter else {
        return vec![filter.bits_per_entry(); extents.len()];
    };
    let found = match allocation {
        Allocation::Uniform => return vec![bits_per_entry; extents.len()],
        // Nothing has been observed yet.
        Allocation::Monkey | Allocation::Observed => 0.0,
        Allocation::MonkeyGeneral { v } => v / (v + 1.0),
    };
    let weights = Asked::Found(found).weights(extents);
    let loads: Vec<Load> =
        extents.iter().zip(weights).map(|(extent, weight)| Load { entries: extent.entries, weight }).collect();
    let all: f64 = loads.iter().map(|load| load.entries.0 as f64).sum();
    Curve::new(kind).allocate(&loads, bits_per_entry * all)
}

fn cost(
    design: &Design<'_>,
    shape: &Shape,
    extents: &[Extent],
    rates: &[f64],
    workload: &Workload,
    device: &Device,
) -> Cost {
    // Misses of a lookup in each level's runs, all of them together.
    let absent = Asked::Found(0.0).weights(extents);
    let present = Asked::Found(1.0).weights(extents);
    let wasted_reads = |weights: &[f64]| -> f64 { weights.iter().zip(rates).map(|(weight, rate)| weight * rate).sum() };
    let (zero_result_reads, existing_reads) = (wasted_reads(&absent), 1.0 + wasted_reads(&present));
    // The number of filters probed includes that of the run where the lookup ends.
    let all: f64 = extents.iter().map(|extent| extent.entries.0 as f64).sum();
    let asked = |weights: &[f64], found: f64| -> f64 {
        if let FilterChoice::Tree { .. } = design.filter {
            // However many runs there are.
            return 1.0;
        }
        let ends = extents.iter().map(|extent| found * extent.entries.0 as f64 / all);
        weights
            .iter()
            .zip(ends)
            .zip(rates)
            .filter(|(_, rate)| **rate < 1.0)
            .map(|((weight, end), _)| weight + end)
            .sum()
    };
    let range_seeks = extents.iter().map(|extent| extent.runs as f64).sum::<f64>();
    let per_block = range::entries_per_block(design.block_bytes as f64, design.entry_bytes as f64);
    let update_writes = update::writes_per_entry_total(shape);
    let work = Work {
        zero_result: LookupWork { probes: asked(&absent, 0.0), blocks: zero_result_reads, hits: 0.0 },
        existing: LookupWork { probes: asked(&present, 1.0), blocks: existing_reads, hits: 0.0 },
        scan: ScanWork {
            seeks: range_seeks,
            blocks: lookup::range(workload.range_entries, per_block, 0.0),
            entries: workload.range_entries,
            hits: 0.0,
        },
        update_writes,
        tables: Work::tables_of(update_writes, design.entry_bytes as f64, shape.buffer()),
        filter_entries: Work::filter_entries_of(design.filter, update_writes, space::worst_amplification(shape)),
        filters_rebuilt: 0.0,
        entry_bytes: design.entry_bytes as f64,
        block_bytes: design.block_bytes as f64,
        filter: design.filter,
    };
    let seconds_per_op = work.seconds(device).mean(workload);
    Cost {
        zero_result_reads,
        existing_reads,
        range_seeks,
        update_writes,
        space_amplification: space::worst_amplification(shape),
        seconds_per_op,
    }
}
