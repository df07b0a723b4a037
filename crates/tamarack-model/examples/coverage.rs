//! Runs met by a lookup that finds nothing, over bytes written: whole-level compaction beside
//! compaction by key ranges, by the closed forms of `cost::coverage` and by simulation with keys.
//!
//! Prints tables in Markdown, or the curves as CSV:
//!
//! ```text
//! cargo run --release -p tamarack-model --example coverage [csv]
//! ```
//!
//! All trees have a last level of [`DATA`] memtables, of constant size, and levels of size ratio T
//! above it. By ranges, levels have half of the capacities, as they are always full: a level
//! that is compacted whole is half full in the mean.

use std::fmt::Write as _;

use tamarack_model::allocate;
use tamarack_model::cost::coverage::{self, LevelMet, Order, Piece};
use tamarack_model::simulate::coverage::{RangeOrder, RangeSizes, RangeTree, WholeTree};
use tamarack_model::{Bytes, Level, Shape};
use tamarack_testing::Random;

/// Memtables in the last level: 8 GiB over memtables of 8 MiB.
const DATA: u64 = 1024;

/// Bits of filter per entry.
const BITS: [f64; 2] = [5.0, 10.0];

/// A policy with each way of compacting.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    /// One run in each level.
    Leveling,
    /// The same, with up to four runs in level 1, which is compacted whole in any case.
    FirstFour,
    /// T - 1 runs in each level but the last. By ranges, only level L-1 passes on ranges.
    LazyLeveling,
}

/// How levels are compacted.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Whole levels, as the engine does it.
    Whole,
    /// Whole levels, but in [`STAGGERED`] key ranges with a tree each, whose levels are full at
    /// times that are evenly spread: a compaction has so much less to do, and takes so much less
    /// time. By the closed form.
    Staggered,
    /// One range of a level after another.
    Ranges(Order),
}

/// Key ranges of a staggered tree.
const STAGGERED: f64 = 16.0;

/// What a tree costs.
struct Cost {
    name: String,
    ratio: u64,
    written: f64,
    /// Runs met at rest, with a device that is busy half of the time, and always.
    met: [f64; 3],
    /// False positives for each of [`BITS`]: with equal bits per entry and the best ones, at rest
    /// and with a device that is always busy.
    equal: [[f64; 2]; 2],
    best: [[f64; 2]; 2],
}

fn main() {
    let costs: Vec<Cost> = all().collect();
    if std::env::args().nth(1).is_some_and(|word| word == "csv") {
        print!("{}", csv(&costs));
        return;
    }
    let even = || costs.iter().filter(|cost| cost.ratio % 2 == 0);
    println!("### Runs met over bytes written\n");
    println!("| compaction | T | written | met at rest | half busy | always busy |");
    println!("|---|---:|---:|---:|---:|---:|");
    for Cost { name, ratio, written, met, .. } in even() {
        println!("| {name} | {ratio} | {written:.2} | {:.2} | {:.2} | {:.2} |", met[0], met[1], met[2]);
    }
    println!("\n### False positives of a lookup that finds nothing\n");
    println!("| compaction | T | 5 bits, at rest | always busy | 10 bits, at rest | always busy |");
    println!("|---|---:|---:|---:|---:|---:|");
    for cost in even() {
        let cell = |load: usize, bits: usize| format!("{:.4} ({:.4})", cost.equal[load][bits], cost.best[load][bits]);
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            cost.name,
            cost.ratio,
            cell(0, 0),
            cell(1, 0),
            cell(0, 1),
            cell(1, 1)
        );
    }
    at_equal_bytes(&costs);
    simulated();
    neighbouring();
}

fn all() -> impl Iterator<Item = Cost> {
    use Family::{FirstFour, LazyLeveling, Leveling};
    use Way::{Ranges, Staggered, Whole};
    let trees = [
        ("leveling, whole levels", Leveling, Whole),
        ("leveling, staggered", Leveling, Staggered),
        ("leveling, round robin", Leveling, Ranges(Order::RoundRobin)),
        ("leveling, densest first", Leveling, Ranges(Order::Densest)),
        ("first=4, whole levels", FirstFour, Whole),
        ("first=4, staggered", FirstFour, Staggered),
        ("first=4, round robin", FirstFour, Ranges(Order::RoundRobin)),
        ("first=4, densest first", FirstFour, Ranges(Order::Densest)),
        ("lazy leveling, whole levels", LazyLeveling, Whole),
        ("lazy leveling, staggered", LazyLeveling, Staggered),
        ("lazy leveling, round robin", LazyLeveling, Ranges(Order::RoundRobin)),
    ];
    trees.into_iter().flat_map(|(name, family, way)| (2..=10).map(move |ratio| cost(name, family, way, ratio)))
}

fn cost(name: &str, family: Family, way: Way, ratio: u64) -> Cost {
    let shape = shape(family, ratio);
    let loads = [0.0, 0.5, 1.0].map(|load| levels(family, &shape, way, load));
    let ends = [&loads[0], &loads[2]];
    let equal = ends.map(|levels| BITS.map(|bits| coverage::met(levels) * allocate::ideal_rate(bits)));
    let best = ends.map(|levels| BITS.map(|bits| coverage::false_positives(levels, bits)));
    let met = [0, 1, 2].map(|load| coverage::met(&loads[load]));
    Cost { name: name.into(), ratio, written: coverage::written(&loads[0]), met, equal, best }
}

/// The levels of a tree, with a device that is busy for a part `load` of the time.
fn levels(family: Family, shape: &Shape, way: Way, load: f64) -> Vec<LevelMet> {
    let at_rest = coverage::whole_levels(shape, &vec![0.0; shape.last()]);
    let whole_levels = |ranges: f64| {
        let busy = coverage::busy(&written_by(&at_rest), load);
        coverage::whole_levels(shape, &busy.iter().map(|busy| busy / ranges).collect::<Vec<f64>>())
    };
    let order = match way {
        Way::Whole => return whole_levels(1.0),
        Way::Staggered => return whole_levels(STAGGERED),
        Way::Ranges(order) => order,
    };
    // The levels above this one are compacted whole.
    let from = match family {
        Family::Leveling => 1,
        Family::FirstFour => 2,
        Family::LazyLeveling => shape.last() - 1,
    };
    let batch = shape.actual_batch(from);
    let capacities: Vec<f64> = (from..shape.last()).map(|level| shape.level(level).capacity.as_f64() / 2.0).collect();
    let last = shape.level(shape.last()).capacity.as_f64();
    let mut ranges = if family == Family::LazyLeveling {
        coverage::stacked_by_ranges(batch, capacities[0], last).to_vec()
    } else {
        coverage::by_ranges(order, batch, &capacities, last)
    };
    let written = [written_by(&at_rest[..from - 1]), written_by(&ranges)].concat();
    let busy = coverage::busy(&written, load);
    if from > 1 {
        // Until they have been compacted into level `from`, the runs of a batch are met instead.
        let share = busy[from - 1] / 2.0;
        ranges[0].pieces[0].share -= if family == Family::LazyLeveling { share } else { 0.0 };
        ranges[0].pieces.extend(batch_runs(shape, from).map(|density| Piece { share, density }));
    }
    let mut whole = coverage::whole_levels(shape, &busy);
    whole.truncate(from - 1);
    whole.extend(ranges);
    whole
}

fn written_by(levels: &[LevelMet]) -> Vec<f64> {
    levels.iter().map(|level| level.written).collect()
}

/// The runs of a batch that arrives at a level: the flush, and all of the levels above.
fn batch_runs(shape: &Shape, level: usize) -> impl Iterator<Item = f64> {
    let runs = |above: usize| {
        let (batches, runs) = ((shape.batches(above) - 1) as f64, shape.visible_runs(above));
        let density = shape.actual_batch(above) * batches / runs as f64;
        std::iter::repeat_n(density, runs as usize)
    };
    std::iter::once(shape.buffer().as_f64()).chain((1..level).flat_map(runs))
}

/// Levels of ratio T above a last one of [`DATA`] memtables, which has a ratio of 1.5 at least.
fn shape(family: Family, ratio: u64) -> Shape {
    let mut capacities = vec![ratio];
    while capacities[capacities.len() - 1] * ratio * 3 / 2 <= DATA {
        capacities.push(capacities[capacities.len() - 1] * ratio);
    }
    let slots = |index: usize| match family {
        Family::Leveling => 1,
        Family::FirstFour => {
            if index == 0 {
                ratio.min(4)
            } else {
                1
            }
        }
        Family::LazyLeveling => ratio,
    };
    let level = |(index, capacity): (usize, &u64)| Level {
        capacity: Bytes(*capacity),
        runs: u32::try_from(slots(index)).expect("a few runs"),
    };
    let mut levels: Vec<Level> = capacities.iter().enumerate().map(level).collect();
    levels.push(Level { capacity: Bytes(DATA), runs: 1 });
    Shape::new(Bytes(1), levels).expect("ratios of 1.5 and more")
}

/// What compaction by ranges meets where it writes as much as whole levels do, between the two
/// nearest T.
fn at_equal_bytes(costs: &[Cost]) {
    println!("\n### Runs met at equal bytes written\n");
    println!(
        "| whole levels | T | written | at rest | half busy | always busy | by ranges: at rest | half busy | always busy | order |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let part_of = |cost: &Cost, part: usize| cost.name.split(", ").nth(part).expect("a policy and a way").to_owned();
    for whole in costs.iter().filter(|cost| part_of(cost, 1) == "whole levels") {
        let is_rival = |cost: &Cost| {
            part_of(cost, 0) == part_of(whole, 0) && ["round robin", "densest first"].contains(&&*part_of(cost, 1))
        };
        let pairs = costs.windows(2).filter(|pair| pair[0].name == pair[1].name && is_rival(&pair[0]));
        let between = pairs.filter_map(|pair| {
            let part = (whole.written - pair[0].written) / (pair[1].written - pair[0].written);
            let met = [0, 1, 2].map(|load| pair[0].met[load] + part * (pair[1].met[load] - pair[0].met[load]));
            (0.0..=1.0).contains(&part).then(|| (met, part_of(&pair[0], 1)))
        });
        // Those that write less with every T are better than any rival.
        let Some((rival, order)) = between.min_by(|a, b| a.0[2].total_cmp(&b.0[2])) else { continue };
        let Cost { ratio, written, met, .. } = whole;
        let cells = met.iter().chain(&rival).map(|met| format!(" {met:.2} |")).collect::<String>();
        println!("| {} | {ratio} | {written:.2} |{cells} {order} |", part_of(whole, 0));
    }
}

/// Batches of neighbouring keys, each from a part of the key space that begins anywhere.
fn neighbouring() {
    const BATCH: u64 = 256;
    println!("\n### Simulated: leveling with T = 4, batches of neighbouring keys\n");
    println!("| keys of a batch lie in | compaction | written | met |");
    println!("|---|---|---:|---:|");
    let shape = shape(Family::Leveling, 4);
    let batches = 2 * shape.level(shape.last() - 1).capacity.0;
    for parts in [1, 4, 32, 256] {
        let mut random = Random::new(parts);
        let mut keys = move || {
            let start = if parts == 1 { 0 } else { random.below(u64::MAX - u64::MAX / parts) };
            batch(&mut random, BATCH).into_iter().map(|key| start + key / parts).collect::<Vec<u64>>()
        };
        let row = |name: &str, covered: Vec<f64>, written: Vec<f64>| {
            let sum = |values: Vec<f64>| values.iter().sum::<f64>();
            println!("| 1/{parts} of all | {name} | {:.2} | {:.2} |", sum(written), sum(covered));
        };
        for (name, load) in [("whole levels, at rest", 0.0), ("whole levels, always busy", 1.0)] {
            let tree = whole_tree(&shape, BATCH, load, batches, &mut keys);
            row(name, tree.0, tree.1);
        }
        for order in [RangeOrder::RoundRobin, RangeOrder::LeastOverlap] {
            let tree = range_tree(&shape, BATCH, order, batches, &mut keys);
            row(range_name(order), tree.0, tree.1);
        }
    }
}

/// Keys of one batch: one at random in each of equal parts of the key space.
fn batch(random: &mut Random, keys: u64) -> Vec<u64> {
    let part = u64::MAX / keys;
    (0..keys).map(|index| index * part + random.below(part)).collect()
}

/// Trees with keys, beside the closed forms.
fn simulated() {
    const BATCH: u64 = 512;
    println!("\n### Simulated with keys: leveling\n");
    println!("| compaction | T | written | predicted | met | predicted |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut random = Random::new(1);
    for ratio in [2, 4, 10] {
        let shape = shape(Family::Leveling, ratio);
        // What level L-1 passes on in two rounds, at most.
        let batches = 2 * shape.level(shape.last() - 1).capacity.0;
        let mut keys = || batch(&mut random, BATCH);
        for (name, load) in [("whole levels, at rest", 0.0), ("whole levels, always busy", 1.0)] {
            let (covered, written) = whole_tree(&shape, BATCH, load, batches, &mut keys);
            let predicted = levels(Family::Leveling, &shape, Way::Whole, load);
            print_simulated(name, ratio, &covered, &written, Some(&predicted));
        }
        for order in RangeOrder::ALL {
            let (covered, written) = range_tree(&shape, BATCH, order, batches, &mut keys);
            let closed = match order {
                RangeOrder::RoundRobin => Some(Order::RoundRobin),
                RangeOrder::Densest => Some(Order::Densest),
                RangeOrder::Oldest | RangeOrder::LeastOverlap => None,
            };
            let predicted = closed.map(|closed| levels(Family::Leveling, &shape, Way::Ranges(closed), 0.0));
            print_simulated(range_name(order), ratio, &covered, &written, predicted.as_deref());
        }
    }
}

fn range_name(order: RangeOrder) -> &'static str {
    match order {
        RangeOrder::RoundRobin => "round robin",
        RangeOrder::Oldest => "oldest first",
        RangeOrder::Densest => "densest first",
        RangeOrder::LeastOverlap => "least overlap",
    }
}

/// Coverage and bytes written of a tree that is compacted by whole levels, counted from the second
/// half of its batches on.
fn whole_tree(
    shape: &Shape,
    batch: u64,
    load: f64,
    batches: u64,
    keys: &mut impl FnMut() -> Vec<u64>,
) -> (Vec<f64>, Vec<f64>) {
    let at_rest = coverage::whole_levels(shape, &vec![0.0; shape.last()]);
    let scaled = |level: &Level| Level { capacity: level.capacity * batch, runs: level.runs };
    let scaled = Shape::new(Bytes(batch), shape.levels().iter().map(scaled).collect()).expect("the same ratios");
    let policy = WholeTree::fixed(&scaled);
    let mut tree =
        WholeTree::new(&policy, DATA * batch, (batch / 16) as usize, coverage::busy(&written_by(&at_rest), load));
    (0..batches).for_each(|_| tree.arrive(keys()));
    tree.count_anew();
    (0..batches).for_each(|_| tree.arrive(keys()));
    (tree.coverage(), tree.written())
}

/// The same for a tree that is compacted by ranges, with half of the capacities.
fn range_tree(
    shape: &Shape,
    batch: u64,
    order: RangeOrder,
    batches: u64,
    keys: &mut impl FnMut() -> Vec<u64>,
) -> (Vec<f64>, Vec<f64>) {
    let entries = |level: &Level| (level.capacity.0 * batch) as usize;
    let capacities = shape.levels()[..shape.last() - 1].iter().map(|level| entries(level) / 2).collect();
    let last = (DATA * batch) as usize;
    let mut tree = RangeTree::new(RangeSizes { capacities, last, table: (batch / 16) as usize, stacked: false }, order);
    (0..batches).for_each(|_| tree.arrive(keys()));
    tree.count_anew();
    (0..batches).for_each(|_| tree.arrive(keys()));
    (tree.coverage(), tree.written())
}

fn print_simulated(name: &str, ratio: u64, covered: &[f64], written: &[f64], predicted: Option<&[LevelMet]>) {
    let cell = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    let (bytes, met) = (cell(predicted.map(coverage::written)), cell(predicted.map(coverage::met)));
    println!("| {name} | {ratio} | {:.2} | {bytes} | {:.2} | {met} |", sum(written), sum(covered));
}

fn csv(costs: &[Cost]) -> String {
    let mut text = String::from("compaction,T,written,met_at_rest,met_half_busy,met_always_busy");
    for (load, bits) in ["at_rest", "always_busy"].iter().flat_map(|load| BITS.map(|bits| (load, bits))) {
        let _ = write!(text, ",equal_{bits}_bits_{load},best_{bits}_bits_{load}");
    }
    text.push('\n');
    for Cost { name, ratio, written, met, equal, best } in costs {
        let _ = write!(text, "\"{name}\",{ratio},{written:.4}");
        met.iter().for_each(|met| _ = write!(text, ",{met:.4}"));
        let rates = equal.iter().flatten().zip(best.iter().flatten());
        rates.for_each(|(equal, best)| _ = write!(text, ",{equal:.6},{best:.6}"));
        text.push('\n');
    }
    text
}
