//! Garnering against Autumn's formulas: capacities, levels, filters, writes, and the delayed
//! compaction of the last level.

use tamarack_model::allocate::{self, Load};
use tamarack_model::cost::autumn::AutumnTree;
use tamarack_model::cost::{space, update};
use tamarack_model::planner;
use tamarack_model::policy::{Custom, DATA_MAX, Garnering, Leveling, ShapeFamily};
use tamarack_model::simulate::{Pace, simulate};
use tamarack_model::{Bytes, Level, Occupancy, Run, RunId, Shape};

const RATIOS: [u32; 5] = [2, 3, 4, 6, 10];
const SCALINGS: [f64; 6] = [1.0, 0.95, 0.8, 0.6, 0.4, 0.2];

fn garnering(ratio: u32, scaling: f64) -> Garnering {
    Garnering::new(ratio, scaling, 1).expect("a policy")
}

/// Every combination of `T`, `c`, a buffer (odd sizes among them), and data from one buffer to ten
/// million.
fn grid() -> impl Iterator<Item = (u32, f64, Bytes, Bytes)> {
    let trees = RATIOS.into_iter().flat_map(|ratio| SCALINGS.map(|scaling| (ratio, scaling)));
    trees.flat_map(|(ratio, scaling)| {
        [1_000, 77_777, 2 << 20].into_iter().flat_map(move |buffer| {
            let data = (0..24)
                .map(move |half_decade| (1.01 * buffer as f64 * 10_f64.powf(f64::from(half_decade) * 0.3)) as u64);
            data.map(move |data| (ratio, scaling, Bytes(buffer), Bytes(data)))
        })
    })
}

/// Eq. 4 and 5, to the byte that is rounded; and as many levels as the closed form says.
#[test]
fn capacities_and_levels_are_the_formulas() {
    for (ratio, scaling, buffer, data) in grid() {
        let shape = garnering(ratio, scaling).shape(data, buffer);
        let context = format!("T={ratio}, c={scaling}, {data} bytes:\n{shape}");
        let levels = shape.last() as u32;
        let tree = AutumnTree { ratio: f64::from(ratio), scaling, levels };
        for number in 1..=levels {
            let (found, formula) =
                (shape.level(number as usize).capacity.as_f64(), tree.capacity(number) * buffer.as_f64());
            assert!((found - formula).abs() <= 0.5 + 1e-9 * formula, "level {number}, not {formula}: {context}");
            let (found, formula) = (shape.ratio(number as usize), tree.ratio_of(number));
            assert!((found / formula - 1.0).abs() < 2e-3, "ratio {number}, not {formula}: {context}");
            assert_eq!(shape.level(number as usize).runs, 1, "{context}");
        }
        // What the last level holds must be more than the data.
        assert_eq!(
            levels,
            AutumnTree::levels_for(tree.ratio, scaling, (data.as_f64() + 1.0) / buffer.as_f64()),
            "{context}"
        );
        let fewer = AutumnTree { levels: levels - 1, ..tree };
        assert!(levels == 1 || fewer.capacity(levels - 1) * buffer.as_f64() <= data.as_f64() + 0.5, "{context}");
    }
}

/// With c = 1 it is leveling, to the last byte, for all sizes and slots of level 1.
#[test]
fn without_scaling_it_is_leveling() {
    let ratios = RATIOS.into_iter().chain([65_536]).flat_map(|ratio| [(ratio, 1), (ratio, ratio.min(4))]);
    for ((ratio, first), buffer) in ratios.flat_map(|tree| [1, 3, 1_000_003].map(|buffer| (tree, buffer))) {
        let one = Garnering::new(ratio, 1.0, first).expect("a policy");
        let other = Leveling::new(ratio, first).expect("a policy");
        let mut data = Bytes::ZERO;
        while data < Bytes(1 << 47) {
            let shape = one.shape(data, Bytes(buffer));
            assert_eq!(shape, other.shape(data, Bytes(buffer)));
            data = shape.holds();
        }
    }
}

/// Levels grow with the square root of the logarithm: for ten thousand times the data, leveling
/// with T = 2 has 13 or 14 more, Garnering with c = 0.8 from 6 to 2, fewer the larger the tree is.
#[test]
fn levels_grow_slowly() {
    let levels = |scaling, exponent| f64::from(AutumnTree::levels_for(2.0, scaling, 10_f64.powi(exponent)));
    let more = |scaling| [4, 8, 12, 16].map(|exponent| levels(scaling, exponent) - levels(scaling, exponent - 4));
    assert_eq!(more(1.0), [13.0, 13.0, 13.0, 14.0]);
    assert_eq!(more(0.8), [6.0, 4.0, 3.0, 2.0]);
    // §3.1: about √(2 log_(1/c) N) - log_(1/c) T + ½.
    for exponent in 4..40 {
        let log = |x: f64| x.ln() / 1.25_f64.ln();
        let approximate = (2.0 * log(10_f64.powi(exponent))).sqrt() - log(2.0) + 0.5;
        let exact = levels(0.8, exponent);
        assert!((approximate - exact).abs() < 2.0, "10^{exponent}: {approximate}, not {exact}");
    }
}

/// Section 3.1, delayed last-level compaction: whatever the tree holds, another level moves no run
/// to another level, and where level 1 grows by about a flush, nothing is full afterwards.
#[test]
fn another_level_moves_nothing() {
    for (ratio, scaling, buffer, data) in grid() {
        let policy = garnering(ratio, scaling);
        let shape = policy.shape(data, buffer);
        if shape.holds() >= DATA_MAX {
            continue;
        }
        let level = |number: usize| {
            vec![Run { id: RunId(100 - number as u64), bytes: shape.level(number).capacity, entries: None }]
        };
        let tree = Occupancy::new((1..=shape.last()).map(level).collect());
        let next = policy.shape(shape.holds(), buffer);
        assert_eq!(next.last(), shape.last() + 1);
        let (relabelled, _) = planner::relabel(&tree, &[], &next);
        assert_eq!(relabelled, tree, "T={ratio}, c={scaling}: from\n{shape}to\n{next}");
        let arrived = planner::next_compaction(&next, &relabelled, &[], planner::Occasion::Arrived { level: 1 });
        // Level 1 grew to r/c memtables, of which r are there; it is full with half of one less
        // than the nearest whole number.
        let full_from = (next.ratio(1) + 33.0 / 64.0).floor() - 0.5;
        assert_eq!(arrived.is_none(), shape.ratio(1) < full_from, "T={ratio}, c={scaling}: {arrived:?} in\n{next}");
    }
}

/// Eq. 9 and 10 are what the allocator finds, which knows of no policy; Eq. 8 is the memory that it
/// was given.
#[test]
fn rates_come_out_of_the_allocator() {
    for (ratio, scaling, _, data) in grid().filter(|(.., buffer, _)| buffer.0 == 77_777) {
        let shape = garnering(ratio, scaling).shape(data, Bytes(77_777));
        let tree = AutumnTree { ratio: f64::from(ratio), scaling, levels: shape.last() as u32 };
        let runs: Vec<Load> = shape.levels().iter().map(|level| Load::new(level.capacity.0)).collect();
        for reads in [0.01, 0.3, 0.9] {
            let bits = tree.memory(reads);
            let allocated = allocate::ideal(&runs, bits * shape.capacity().as_f64());
            let found: Vec<f64> = allocated.iter().map(|bits| allocate::ideal_rate(*bits)).collect();
            let formula = tree.rates(reads);
            let last = formula[shape.last() - 1];
            for (level, (found, formula)) in (1..).zip(found.iter().zip(&formula)) {
                let above = (tree.levels - level) as f64;
                let eq_9 = last * scaling.powf(above * (above - 1.0) / 2.0) / f64::from(ratio).powf(above);
                assert!((formula / eq_9 - 1.0).abs() < 1e-9, "T={ratio}, c={scaling}: {formula} is Eq. 9's {eq_9}");
                assert!(
                    (found / formula - 1.0).abs() < 1e-3,
                    "T={ratio}, c={scaling}, level {level}: {found}, {formula}"
                );
            }
            assert!((found.iter().sum::<f64>() / reads - 1.0).abs() < 1e-3);
            // R = 2^H e^(-m ln²2), for any shape.
            let entropy = 2_f64.powf(shape.entropy()) * allocate::ideal_rate(bits);
            assert!(shape.last() == 1 || (entropy / reads - 1.0).abs() < 1e-3, "{entropy} {reads}");
        }
    }
}

/// Section 3.2: "the first level consists of 0.18 % of total data, and the write amplification from
/// the first level consists of 30 % of the total".
#[test]
fn the_papers_first_level() {
    let tree = AutumnTree { ratio: 2.0, scaling: 0.8, levels: 6 };
    let share = tree.capacity(1) / (tree.capacity(6) * tree.over_last());
    let writes = tree.writes(1) / (1..=6).map(|level| tree.writes(level)).sum::<f64>();
    assert_eq!(
        (format!("{:.3} %", 100.0 * share), format!("{:.1} %", 100.0 * writes)),
        ("0.188 %".into(), "30.9 %".into())
    );
}

/// Filters for all levels take 1.44 bits per entry at most, with T = 2 and c = 1, and fewer the
/// smaller c is; the paper's (T-1)/T for the share of the last level, in Eq. 8, is 11 % too little
/// for T = 2, c = 0.8.
#[test]
fn the_papers_thresholds() {
    let threshold = |ratio, scaling| AutumnTree { ratio, scaling, levels: 28 }.threshold();
    assert!((threshold(2.0, 1.0) - 1.0 / std::f64::consts::LN_2).abs() < 1e-6, "{}", threshold(2.0, 1.0));
    for ratio in RATIOS.map(f64::from) {
        let falling: Vec<f64> = SCALINGS.iter().map(|scaling| threshold(ratio, *scaling)).collect();
        assert!(falling.windows(2).all(|pair| pair[1] < pair[0]) && falling[0] < 1.443, "{falling:?}");
    }
    // Levels that are too small for a number take nothing.
    let many = AutumnTree { ratio: 2.0, scaling: 0.1, levels: 40 };
    assert!(
        (many.threshold() / AutumnTree { levels: 20, ..many }.threshold() - 1.0).abs() < 1e-12,
        "{}",
        many.threshold()
    );
    let tree = AutumnTree { ratio: 2.0, scaling: 0.8, levels: 28 };
    let too_little = 1.0 - 0.5 * tree.over_last();
    assert_eq!(format!("{:.0} %", 100.0 * too_little), "11 %");
}

/// Space at worst: all levels over the last, below T/(T-1), and no more than leveling's.
#[test]
fn space_is_the_share_of_the_last_level() {
    for (ratio, scaling, buffer, data) in grid() {
        let shape = garnering(ratio, scaling).shape(data, buffer);
        let tree = AutumnTree { ratio: f64::from(ratio), scaling, levels: shape.last() as u32 };
        let (found, formula) = (space::worst_amplification(&shape), tree.over_last());
        assert!((found / formula - 1.0).abs() < 1e-3, "T={ratio}, c={scaling}: {found}, not {formula}");
        assert!(formula < tree.ratio / (tree.ratio - 1.0));
        assert!(formula <= AutumnTree { scaling: 1.0, ..tree }.over_last());
    }
}

/// Of a tree of three levels that fills and empties again and again, the simulation writes what
/// [`update`] says: exactly for whole ratios, within 12 % for broken ones (level i counts as full
/// with a whole number of batches), and within 3 % on average. The form of real numbers, `Σ (r_i -
/// 1) / 2` and the flush that fills level 1, is as near.
#[test]
fn writes_are_those_of_the_simulation() {
    let (mut off, mut closed_off) = (Vec::new(), Vec::new());
    for (ratio, scaling) in RATIOS.into_iter().flat_map(|ratio| SCALINGS.map(|scaling| (ratio, scaling))) {
        let buffer = Bytes(1000);
        let tree = AutumnTree { ratio: f64::from(ratio), scaling, levels: 3 };
        let shape = garnering(ratio, scaling).shape(Bytes((tree.capacity(3) * 1000.0) as u64 - 1), buffer);
        assert_eq!(shape.last(), 3);
        if shape.holds() > Bytes(50_000_000) {
            continue;
        }
        // Nothing ever leaves what is below.
        let sunk = [shape.levels(), &[Level { capacity: Bytes(1 << 50), runs: 1 }]].concat();
        let sunk = Custom::new(Shape::new(buffer, sunk).expect("a shape"));
        let flushes = vec![buffer; (shape.holds().0 / 1000) as usize * 3];
        let report = simulate(&sunk, buffer, &flushes, Pace::Settled);
        let found = report.written[..3].iter().copied().sum::<Bytes>().ratio(report.flushed);
        let closed = (1..=3).map(|level| tree.writes(level)).sum::<f64>() + 1.0 / tree.ratio_of(1);
        let formula = update::writes_per_entry_total(&shape);
        off.push((formula / found - 1.0).abs());
        closed_off.push((closed / found - 1.0).abs());
        let is_whole = (1..=3).all(|level| shape.ratio(level).fract() == 0.0);
        let most = if is_whole { 1e-9 } else { 0.12 };
        assert!(
            off.last() < Some(&most) && closed_off.last() < Some(&most),
            "T={ratio}, c={scaling}: {found}, {formula}, {closed}"
        );
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    assert!(off.len() > 20 && mean(&off) < 0.03 && mean(&closed_off) < 0.03, "{off:?} {closed_off:?}");
}

/// A byte more or less in the buffer changes neither what the model says nor what the planner does.
/// Capacities are rounded to bytes, and ratios such as T/c = 2.5 lie halfway between two numbers of
/// batches: whole numbers must not be told apart there.
#[test]
fn a_byte_of_the_buffer_changes_nothing() {
    let costs = |shape: &Shape| (update::writes_per_entry_total(shape), shape.visible_runs_total());
    for (ratio, scaling, buffer, data) in grid() {
        let policy = garnering(ratio, scaling);
        let shapes = [0, 1, 2, 3].map(|more| policy.shape(data, Bytes(buffer.0 + more)));
        for shape in shapes.iter().filter(|shape| shape.last() == shapes[0].last()) {
            let ((writes, runs), (others, other_runs)) = (costs(shape), costs(&shapes[0]));
            assert!(
                (writes / others - 1.0).abs() < 1e-6 && runs == other_runs,
                "{policy}: {writes}, {others}\n{shape}"
            );
        }
    }
    // Buffers that a user tried: 3 million entries, and 100 million.
    let of = |data: u64, buffer: u64| costs(&garnering(2, 0.8).shape(Bytes(data), Bytes(buffer))).0;
    for more in 1..4 {
        assert_eq!(of(3_096_000_000, 2_000_000 + more), of(3_096_000_000, 2_000_000));
    }
    for levels in 2..=5 {
        let tree = AutumnTree { ratio: 2.0, scaling: 0.8, levels };
        for buffer in [10_000, 10_001, 10_002, 10_003].map(Bytes) {
            let shape = garnering(2, 0.8).shape(Bytes((tree.capacity(levels) * 9_999.0) as u64), buffer);
            assert_eq!(shape.last() as u32, levels);
            let sunk = [shape.levels(), &[Level { capacity: Bytes(1 << 50), runs: 1 }]].concat();
            let sunk = Custom::new(Shape::new(buffer, sunk).expect("a shape"));
            // Memtables are never larger than their size, and may be some percent short of it.
            for flushed in [1.0, 0.995, 0.98, 0.92] {
                let flushed = Bytes((buffer.as_f64() * flushed) as u64);
                let passes: u64 = (1..=shape.last()).map(|level| shape.batches(level)).product();
                let report = simulate(&sunk, buffer, &vec![flushed; 3 * passes as usize], Pace::Settled);
                let found = report.written[..shape.last()].iter().copied().sum::<Bytes>().ratio(report.flushed);
                let said = update::writes_per_entry_total(&shape);
                assert!((said / found - 1.0).abs() < 1e-9, "{flushed} at a time: {found}, said {said}\n{shape}");
            }
        }
    }
}
