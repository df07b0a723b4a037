//! Simulation and closed forms agree: writes per entry and visible runs, for a grid of T, K, Z and
//! L.
//!
//! Each tree gets one level more than it needs, so large that nothing ever leaves it, and then
//! exactly the flushes that fill its own last level once. Each of its levels then has been filled
//! and emptied a whole number of times, and what was written to it can be compared to the last
//! byte.
//!
//! Further: broken ratios, batches of varying size, and concurrent compactions, each with its
//! tolerance.

use tamarack_model::cost::{space, update};
use tamarack_model::policy::{self, Custom, Policy, ShapeFamily};
use tamarack_model::simulate::{self, ChangeCost, Pace, Report, Tree, simulate};
use tamarack_model::{Bytes, Level, Shape};
use tamarack_testing::{Random, seeds};

/// Policies of every kind, shallow and steep.
const POLICIES: [&str; 12] = [
    "leveling:T=2",
    "leveling:T=4",
    "leveling:T=10",
    "tiering:T=3",
    "tiering:T=4",
    "tiering:T=10",
    "lazy-leveling:T=3",
    "lazy-leveling:T=5",
    "lazy-leveling:T=10",
    "dostoevsky:T=5,K=2,Z=1",
    "dostoevsky:T=8,K=3,Z=2",
    "dostoevsky:T=10,K=7,Z=4",
];

/// Those whose ratios differ from level to level, some of them broken.
const UNEVEN: [&str; 6] = [
    "garnering:T=2,c=0.8",
    "garnering:T=3,c=0.4",
    "garnering:T=4,c=0.5,first=3",
    "moose:last=0.8,k=1",
    "smoose:last=0.8,k=0.5,range=0.33,update=0.0825",
    "qlsm-bush:T=2,X=2",
];

fn named(words: &str) -> Policy {
    policy::parse(words).expect(words)
}

/// The levels, and a sink below them.
fn with_sink(buffer: u64, mut levels: Vec<Level>) -> Shape {
    levels.push(Level { capacity: Bytes(1 << 40), runs: 1 });
    Shape::new(Bytes(buffer), levels).expect("a shape")
}

fn run(shape: &Shape, flushes: u64) -> Report {
    simulate(&Custom::new(shape.clone()), shape.buffer(), &vec![shape.buffer(); flushes as usize], Pace::Settled)
}

fn check(shape: &Shape) {
    let last = shape.last() - 1;
    let passed: u64 = (1..=last).map(|level| shape.batches(level)).product();
    let report = run(shape, passed);
    for level in 1..=last {
        let predicted = update::writes_per_entry(shape, level) * report.flushed.as_f64();
        let written = report.written.get(level - 1).map_or(0.0, |bytes| bytes.as_f64());
        assert!(
            (predicted - written).abs() < 1e-6 * predicted + 1e-6,
            "level {level}: predicted {predicted}, written {written} in\n{shape}"
        );
        let most = report.runs[level - 1].most;
        assert_eq!(most, shape.visible_runs(level) as f64, "runs of level {level} in\n{shape}");
    }
    assert_eq!(report.written[last], report.flushed, "everything has come down, once:\n{shape}");
}

/// For every T from 2 to 10, all K and Z (with T slots for T-1 visible runs), and as many levels as
/// hold 1000 buffers, three at least: exact.
#[test]
fn dostoevsky_is_exact() {
    for ratio in 2..=10_u64 {
        let slots = |visible: u64| u32::try_from(if visible == ratio - 1 { ratio } else { visible }).expect("small");
        for (inner, last) in (1..ratio).flat_map(|inner| (1..ratio).map(move |last| (inner, last))) {
            let deepest = (3..).take_while(|levels| *levels == 3 || ratio.pow(*levels) <= 1024).last().expect("three");
            for levels in 1..=deepest {
                let level = |number: u32| Level {
                    capacity: Bytes(ratio.pow(number)),
                    runs: slots(if number == levels { last } else { inner }),
                };
                let levels: Vec<Level> = (1..=levels).map(level).collect();
                check(&with_sink(1, levels.clone()));
                check_printed(&with_sink(1, levels.clone()));
                check_space(&Shape::new(Bytes(1), levels).expect("a shape"));
            }
        }
    }
}

/// The formulas as they are printed for whole `s`, against those of the crate, which hold for any:
/// `A_i = (s_i + 1)/2 - 1/n_i`, once more `1/r_1` in level 1, and `v_i = n_i`, one fewer if a slot
/// takes one batch.
fn check_printed(shape: &Shape) {
    for level in (1..shape.last()).filter(|level| shape.magnification(*level).fract() == 0.0) {
        let (runs, absorbs) = (f64::from(shape.level(level).runs), shape.magnification(level));
        let flushed = if level == 1 { 1.0 / shape.ratio(1) } else { 0.0 };
        let writes = (absorbs + 1.0) / 2.0 - 1.0 / runs + flushed;
        assert!((update::writes_per_entry(shape, level) - writes).abs() < 1e-9, "level {level} of\n{shape}");
        let visible = if absorbs > 1.0 { runs } else { runs - 1.0 };
        assert_eq!(shape.visible_runs(level) as f64, visible, "level {level} of\n{shape}");
    }
}

/// Space when the tree is as full as it gets: exact where a slot takes a whole number of batches,
/// and never above the formula. Several runs in the last level lack one batch to be full, which is
/// a share of 1/r of it; a single run lacks it too, but is then that much smaller itself, so it
/// cancels out.
fn check_space(shape: &Shape) {
    let policy = Custom::new(shape.clone());
    let mut tree = Tree::resume(&policy, shape.clone(), tamarack_model::Occupancy::default());
    for _ in 1..shape.holds().0 / shape.buffer().0 {
        tree.rotate_memtable(shape.buffer());
        tree.settle();
    }
    let last = shape.last();
    let (found, formula) = (space::worst_now(tree.occupancy()), space::worst_amplification(shape));
    // The batch that would make the level full is not there; a slot of one batch was not counted
    // either.
    let is_short = shape.level(last).runs > 1 && shape.magnification(last) > 1.0;
    let lacking = if is_short { 1.0 / shape.ratio(last) } else { 0.0 };
    assert!(found <= formula + 1e-9, "{found} of at most {formula}:\n{shape}{}", tree.occupancy());
    if shape.magnification(last).fract() == 0.0 {
        assert!(
            (found - formula * (1.0 - lacking)).abs() < 1e-9,
            "{found}, not {formula}:\n{shape}{}",
            tree.occupancy()
        );
    }
}

/// Whole ratios that differ from level to level, any number of slots: still exact, since batches
/// are nominal and spread evenly.
#[test]
fn whole_ratios_are_exact() {
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let mut capacity = 1 + random.below(5);
        let buffer = capacity;
        let levels = (0..1 + random.below(3)).map(|_| {
            let ratio = 2 + random.below(14);
            capacity *= ratio;
            Level { capacity: Bytes(capacity), runs: u32::try_from(1 + random.below(ratio)).expect("small") }
        });
        println!("TAMARACK_SEED={seed}");
        check(&with_sink(buffer, levels.collect()));
    }
}

/// The shape whose writes were a third too low while nominal batches were counted: three flushes
/// make level 1 full, not the 2.16 of its capacity, so that two of its batches, not three, fill
/// level 2.
#[test]
fn batches_are_of_whole_flushes() {
    let level = |capacity, runs| Level { capacity: Bytes(capacity), runs };
    check(&with_sink(100_000, vec![level(215_997, 2), level(526_805, 1)]));
    check(&with_sink(1000, vec![level(2160, 1), level(5270, 1), level(15_300, 1)]));
}

/// Broken ratios: a level is full with a whole number of the batches that really arrive. With one
/// run in each level, writes and runs are exactly those of the formulas. With several, runs are
/// `v_i` or one fewer, and writes are within 8 %, 0.1 % on average (10,000 seeds).
#[test]
fn broken_ratios_are_close() {
    let (mut sum, mut count) = (0.0, 0.0);
    for seed in seeds(400) {
        let mut random = Random::new(seed);
        let is_leveled = random.below(4) == 0;
        let mut capacity = 1000;
        let levels = (0..3).map(|_| {
            let hundredths = 152 + random.below(1000);
            capacity = capacity * hundredths / 100;
            let runs = if is_leveled { 1 } else { 1 + random.below(hundredths / 100) };
            Level { capacity: Bytes(capacity), runs: u32::try_from(runs).expect("small") }
        });
        let shape = with_sink(1000, levels.collect());
        if is_leveled {
            check(&shape);
            continue;
        }
        let report = run(&shape, (1..=3).map(|level| shape.batches(level)).product());
        let written: f64 = report.written[..3].iter().map(|bytes| bytes.as_f64()).sum();
        let predicted: f64 = (1..=3).map(|level| update::writes_per_entry(&shape, level)).sum();
        let off = (written / report.flushed.as_f64() / predicted - 1.0).abs();
        assert!(off < 0.08, "seed {seed}: {off} off for\n{shape}");
        for level in 1..=3 {
            let (found, visible) = (report.runs[level - 1].most, shape.visible_runs(level) as f64);
            assert!(found <= visible && found + 1.0 >= visible, "{found} runs in level {level} of\n{shape}");
        }
        (sum, count) = (sum + off, count + 1.0);
    }
    assert!(sum / count < 0.001, "{} on average", sum / count);
}

/// Batches that vary by ±5 % at random change the bytes written for each byte that is flushed by
/// less than 3 %, at every size of the tree from 20 to 3000 buffers. In smaller ones a single batch
/// that goes the other way weighs more; there it holds on average.
#[test]
fn batches_may_vary() {
    for words in POLICIES {
        let policy = named(words);
        for count in [1_usize, 2, 5, 10, 20, 50, 99, 100, 101, 1000, 2222, 3000] {
            let buffer = 1000;
            let nominal = simulate(&policy, Bytes(buffer), &vec![Bytes(buffer); count], Pace::Settled);
            let rounds = if count < 20 { 20 } else { 4 };
            let mut sum = 0.0;
            for seed in seeds(rounds) {
                let mut random = Random::new(seed);
                let varied: Vec<Bytes> = (0..count).map(|_| Bytes(950 + random.below(101))).collect();
                let report = simulate(&policy, Bytes(buffer), &varied, Pace::Settled);
                let off: f64 = report.write_amplification() / nominal.write_amplification() - 1.0;
                assert!(count < 20 || off.abs() < 0.03, "{words}, {count} flushes, seed {seed}: {off}");
                sum += off.abs();
            }
            let mean = sum / seeds(rounds).count() as f64;
            assert!(mean < 0.03, "{words}, {count} flushes: {mean} on average");
        }
    }
}

/// The same where ratios are broken, or halfway between whole numbers, as 2.5: the number of
/// batches that make a level full does not change. A batch may join another run, or a tree grow a
/// few flushes later: writes change by less than 12 % in trees of 300 memtables and more, and by 4
/// % on average.
#[test]
fn batches_may_vary_with_uneven_ratios() {
    for words in UNEVEN {
        let policy = named(words);
        let (mut sum, mut tried) = (0.0, 0.0);
        for count in [300, 1000, 2222, 3000, 5000] {
            let buffer = 1000;
            let nominal = simulate(&policy, Bytes(buffer), &vec![Bytes(buffer); count], Pace::Settled);
            for seed in seeds(4) {
                let mut random = Random::new(seed);
                let varied: Vec<Bytes> = (0..count).map(|_| Bytes(950 + random.below(101))).collect();
                let report = simulate(&policy, Bytes(buffer), &varied, Pace::Settled);
                let off: f64 = report.write_amplification() / nominal.write_amplification() - 1.0;
                assert!(off.abs() < 0.12, "{words}, {count} flushes, seed {seed}: {off}");
                (sum, tried) = (sum + off.abs(), tried + 1.0);
            }
        }
        assert!(sum / tried < 0.04, "{words}: {} on average", sum / tried);
    }
}

/// Batches that are all 5 % too small, or too large, change nothing at all where slots take a whole
/// number of batches. Where they do not, the odd batch of a level comes into another of its runs,
/// and so earlier or later; when the last level is full, as much has been written.
#[test]
fn batches_may_all_be_off() {
    for words in POLICIES {
        let policy = named(words);
        let amplification = |bytes: u64, count: usize| {
            simulate(&policy, Bytes(1000), &vec![Bytes(bytes); count], Pace::Settled).write_amplification()
        };
        let shape = policy.shape(Bytes(900_000), Bytes(1000));
        let is_whole = (1..=shape.last()).all(|level| shape.magnification(level).fract() == 0.0);
        let counts: Vec<usize> =
            if is_whole { (1..1500).step_by(29).collect() } else { vec![shape.holds().0 as usize / 1000] };
        for (bytes, count) in [950, 1050].into_iter().flat_map(|bytes| counts.iter().map(move |count| (bytes, *count)))
        {
            let off = amplification(bytes, count) / amplification(1000, count) - 1.0;
            let most = if is_whole { 1e-9 } else { 0.03 };
            assert!(off.abs() < most, "{words}, {count} flushes of {bytes}: {off}");
        }
    }
}

/// What a report says of a tree that grows: nothing is lost on the way, and each level's share of
/// the writes can be found by hand.
#[test]
fn a_report_adds_up() {
    let report = simulate(&named("tiering:T=4"), Bytes(1), &[Bytes(1); 63], Pace::Settled);
    for sample in &report.samples {
        assert_eq!(sample.levels.iter().map(|(_, bytes)| bytes.0).sum::<u64>(), sample.flushes);
    }
    // Each flush once in level 1; each full level 1 (15 times), and each full level 2 (3 times),
    // once in the next. But every fourth of the 15 fills level 2, and goes straight to level 3.
    assert_eq!(report.written, [Bytes(63), Bytes(12 * 4), Bytes(3 * 16)]);
    assert_eq!((report.compactions, report.moves, report.growths), (15, 0, 2));
    assert_eq!((report.runs_total.most, report.write_amplification()), (9.0, 159.0 / 63.0));
}

/// Concurrent compactions change the total bytes written by less than 15 %, if they are half again
/// as fast as needed.
#[test]
fn concurrent_compactions_write_about_as_much() {
    for words in POLICIES.into_iter().chain(UNEVEN) {
        let policy = named(words);
        let flushes = vec![Bytes(1000); 3000];
        let settled = simulate(&policy, Bytes(1000), &flushes, Pace::Settled);
        let speed = 1.5 * settled.write_amplification();
        let concurrent = simulate(&policy, Bytes(1000), &flushes, Pace::Concurrent { speed });
        let off = concurrent.written_total().ratio(settled.written_total()) - 1.0;
        assert!(off.abs() < 0.15, "{words}: {off}");
        let at_once = simulate(&policy, Bytes(1000), &flushes, Pace::Concurrent { speed: 1e9 });
        assert_eq!(at_once, settled, "{words}: compactions that take no time end before the next flush");
    }
}

/// What a change of policy costs a tree of 600 buffers over 600 more.
fn change_after_growth(from: &str, to: &str) -> ChangeCost {
    let [old, new] = [from, to].map(named);
    let (buffer, mut tree) = (Bytes(1000), Tree::new(&old, Bytes(1000)));
    for _ in 0..600 {
        tree.rotate_memtable(buffer);
        tree.settle();
    }
    let new_shape = new.shape(tree.occupancy().bytes(), buffer);
    let (now, then) = ((&old as &dyn ShapeFamily, tree.shape()), (&new as &dyn ShapeFamily, &new_shape));
    simulate::change(now, then, tree.occupancy(), None, |_| vec![buffer; 600])
}

/// Changing to the policy that a tree has costs nothing; from leveling to tiering saves writes, and
/// back costs them. No change writes more than the new policy would have written from the
/// beginning, plus the tree once more, plus a twentieth. At once, compactions write the tree once
/// at most, and what follows costs no more than it does lazily.
#[test]
fn changes_write_everything_once_more_at_most() {
    let all = || POLICIES.into_iter().chain(UNEVEN);
    for to in all() {
        let written =
            |buffers| simulate(&named(to), Bytes(1000), &vec![Bytes(1000); buffers], Pace::Settled).written_total();
        let most = written(1200).as_f64() - written(600).as_f64() + 600_000.0;
        for from in all() {
            let change = change_after_growth(from, to);
            assert!(change.lazily.as_f64() < 1.05 * most, "{from} -> {to}: {change:?}, {most} at most");
            assert!(change.reshaped <= Bytes(600_000), "{from} -> {to}: {change:?}");
            let then = change.at_once.as_f64() - change.reshaped.as_f64();
            assert!(then < 1.05 * most, "{from} -> {to}: {change:?}, {most} at most");
            assert!(from != to || change.extra_lazily() == 0.0, "{from}: {change:?}");
            assert!(from != to || change.extra_at_once() == 0.0, "{from}: {change:?}");
        }
    }
    let [spares, costs] = [("leveling:T=10", "tiering:T=10"), ("tiering:T=10", "leveling:T=10")]
        .map(|(from, to)| change_after_growth(from, to));
    assert!(spares.extra_lazily() < 0.0 && costs.extra_lazily() > 0.0, "{spares:?}, {costs:?}");
    assert!(spares.reshaped == Bytes::ZERO && costs.reshaped > Bytes::ZERO, "{spares:?}, {costs:?}");
}
