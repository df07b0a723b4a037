//! Coverage: trees with keys against the closed forms of `cost::coverage`, for whole-level
//! compaction and for compaction by key ranges.
//!
//! Keys are drawn from all over the key space, evenly, as the closed forms assume.

use tamarack_model::agenda::Contents;
use tamarack_model::cost::coverage::{self, LevelMet, Order, Piece};
use tamarack_model::planner::CompactionPlan;
use tamarack_model::policy;
use tamarack_model::simulate::coverage::{RangeOrder, RangeSizes, RangeTree, WholeTree};
use tamarack_model::simulate::{Data, Tree, Writers};
use tamarack_model::{Bytes, Level, Occupancy, Run, RunId, Shape, allocate};
use tamarack_testing::{Random, seeds};

/// A batch of keys, one at random in each of equal parts of the key space.
fn batch(random: &mut Random, keys: usize) -> Vec<u64> {
    let part = u64::MAX / keys as u64;
    (0..keys as u64).map(|index| index * part + random.below(part)).collect()
}

/// The policy's shape of so many levels with this ratio.
fn shape(words: &str, buffer: u64, levels: u32, ratio: u64) -> Shape {
    let policy = policy::parse(words).expect(words);
    let shape = policy.shape(Bytes(buffer * ratio.pow(levels) - 1), Bytes(buffer));
    assert_eq!(shape.last(), levels as usize, "{words}");
    shape
}

fn assert_near(found: f64, predicted: f64, tolerance: f64, context: &str) {
    assert!((found / predicted - 1.0).abs() < tolerance, "{context}: found {found}, predicted {predicted}");
}

/// Whole levels, for every T from 2 to 10 and compactions that take no time, some, and all of it:
/// runs met in each level, and bytes written, within 1 %. A batch does not reach quite to the ends
/// of the key space.
#[test]
fn whole_levels_are_the_closed_form() {
    const BATCH: usize = 400;
    for ratio in 2..=10 {
        let levels = if ratio < 4 { 5 } else { 3 };
        let first = ratio.min(4);
        for words in [
            format!("leveling:T={ratio}"),
            format!("leveling:T={ratio},first={first}"),
            format!("lazy-leveling:T={ratio}"),
        ] {
            let shape = shape(&words, BATCH as u64, levels, ratio);
            let mut random = Random::new(ratio);
            for busy in [
                vec![0.0; shape.last()],
                vec![1.0; shape.last()],
                coverage::busy(&[1.0, 2.0, 3.0, 4.0, 5.0][..shape.last()], 0.9),
            ] {
                let policy = WholeTree::fixed(&shape);
                let mut tree = WholeTree::new(&policy, shape.holds().0, BATCH / 16, busy.clone());
                // One cycle of the largest level that is ever emptied.
                let cycle = ratio.pow(levels - 1);
                (0..cycle).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
                tree.count_anew();
                (0..cycle).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
                let predicted = coverage::whole_levels(&shape, &busy);
                for (level, predicted) in predicted.iter().enumerate() {
                    let context = format!("{words}, busy {busy:?}, level {}", level + 1);
                    assert_near(tree.coverage()[level], predicted.coverage(), 0.01, &context);
                    assert_near(tree.written()[level], predicted.written, 0.01, &context);
                }
                check_printed(&shape, &busy, &predicted);
            }
        }
    }
}

/// The formula as it is printed, for levels whose runs are equally large.
fn check_printed(shape: &Shape, busy: &[f64], levels: &[LevelMet]) {
    let mut inputs = 0.0;
    for (level, (busy, found)) in (1..).zip(busy.iter().zip(levels)) {
        let (b, v) = (shape.batches(level) as f64, shape.visible_runs(level) as f64);
        let printed = if level == shape.last() {
            1.0 + busy * inputs / 2.0
        } else {
            (b - 1.0) / b * ((v + 1.0) / 2.0 + busy * inputs / 2.0) - busy * v / (2.0 * b)
        };
        if ((b - 1.0) / v).fract() == 0.0 {
            assert!((found.coverage() - printed).abs() < 1e-9, "level {level} of\n{shape}");
        }
        inputs += v + if level == 1 { 1.0 } else { 0.0 };
    }
}

/// A tree of levels with ratio T that was compacted by ranges: coverage and bytes written.
fn by_ranges(order: RangeOrder, seed: u64, ratio: u64, levels: u32) -> (Vec<f64>, Vec<f64>) {
    const BATCH: usize = 512;
    let mut random = Random::new(seed);
    let mut tree = RangeTree::new(sizes(BATCH, ratio, levels), order);
    // What level L-1 passes on in one round, twice.
    let round = 2 * ratio.pow(levels - 1);
    (0..round).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
    tree.count_anew();
    (0..round).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
    (tree.coverage(), tree.written())
}

fn sizes(batch: usize, ratio: u64, levels: u32) -> RangeSizes {
    let size = |level: u32| batch * ratio.pow(level) as usize;
    RangeSizes { capacities: (1..levels).map(size).collect(), last: size(levels), table: batch / 16, stacked: false }
}

fn predicted(order: Order, ratio: u64, levels: u32) -> Vec<LevelMet> {
    let size = |level: u32| (ratio as f64).powi(level as i32);
    coverage::by_ranges(order, 1.0, &(1..levels).map(size).collect::<Vec<f64>>(), size(levels))
}

/// Compaction by ranges, for every T from 2 to 10: runs met and bytes written within 5 %. Least
/// overlap and oldest first have no closed form of their own: they write as much as the order
/// beside them, within 8 %, and meet as many runs as one of the two orders that have one, or a
/// number in between.
#[test]
fn ranges_are_near_the_closed_form() {
    for seed in seeds(2) {
        for ratio in 2..=10 {
            let levels = if ratio < 4 { 5 } else { 3 };
            let [round_robin, densest] =
                [Order::RoundRobin, Order::Densest].map(|order| predicted(order, ratio, levels));
            let bounds = [&densest, &round_robin].map(|levels| coverage::met(levels));
            for (order, predicted, is_exact) in [
                (RangeOrder::RoundRobin, &round_robin, true),
                (RangeOrder::Oldest, &round_robin, false),
                (RangeOrder::Densest, &densest, true),
                (RangeOrder::LeastOverlap, &densest, false),
            ] {
                let (covered, written) = by_ranges(order, seed, ratio, levels);
                let context = format!("{order:?}, T = {ratio}, seed {seed}: {covered:.3?} {written:.3?}");
                let tolerance = if is_exact { 0.05 } else { 0.08 };
                assert_near(written.iter().sum(), coverage::written(predicted), tolerance, &context);
                let met: f64 = covered.iter().sum();
                if is_exact {
                    assert_near(met, coverage::met(predicted), 0.05, &context);
                } else {
                    assert!(met > bounds[0] * 0.97 && met < bounds[1] * 1.03, "{context}: {met} not in {bounds:?}");
                }
            }
        }
    }
}

/// A tiered level of any number of batches that passes on ranges to a last level: within 2 %.
#[test]
fn stacked_ranges_are_the_closed_form() {
    const BATCH: usize = 1000;
    for ratio in 2..=10 {
        let capacity = BATCH * ratio / 2;
        let sizes = RangeSizes { capacities: vec![capacity], last: 20 * BATCH, table: BATCH / 250, stacked: true };
        let mut tree = RangeTree::new(sizes, RangeOrder::RoundRobin);
        let mut random = Random::new(ratio as u64);
        (0..10 * ratio).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
        tree.count_anew();
        (0..20 * ratio).for_each(|_| tree.arrive(batch(&mut random, BATCH)));
        let predicted = coverage::stacked_by_ranges(BATCH as f64, capacity as f64, 20.0 * BATCH as f64);
        for (level, predicted) in predicted.iter().enumerate() {
            let context = format!("T = {ratio}, level {}", level + 1);
            assert_near(tree.coverage()[level], predicted.coverage(), 0.02, &context);
            assert_near(tree.written()[level], predicted.written, 0.02, &context);
        }
    }
}

/// The densities of the pieces add up to the capacities that were asked for.
#[test]
fn pieces_have_the_capacity() {
    for ratio in 2..=10 {
        for order in [Order::RoundRobin, Order::Densest] {
            for (level, met) in (1..).zip(predicted(order, ratio, 4)) {
                let entries: f64 = met.pieces.iter().map(|piece| piece.share * piece.density).sum();
                let capacity = (ratio as f64).powi(level);
                // In the mean, level 1 has half a batch more.
                let capacity = if level == 1 { capacity + 0.5 } else { capacity };
                assert_near(entries, capacity, 0.05, &format!("{order:?}, T = {ratio}, level {level}"));
            }
        }
    }
}

/// Batches of neighbouring keys, as of sorted imports that do not overlap: levels have gaps, so a
/// lookup meets fewer runs than there are, and slices that nothing else covers are moved. With
/// ranges as well.
#[test]
fn sorted_batches_leave_gaps() {
    const BATCH: usize = 256;
    let shape = shape("leveling:T=4", BATCH as u64, 3, 4);
    let policy = WholeTree::fixed(&shape);
    let mut whole = WholeTree::new(&policy, shape.holds().0, BATCH / 16, vec![0.0; 3]);
    let mut ranges = RangeTree::new(sizes(BATCH, 4, 3), RangeOrder::RoundRobin);
    let mut random = Random::new(5);
    let part = u64::MAX / 32;
    for _ in 0..640 {
        let start = random.below(32) * part;
        let keys: Vec<u64> = batch(&mut random, BATCH).iter().map(|key| start + key / 32).collect();
        whole.arrive(keys.clone());
        ranges.arrive(keys);
    }
    let rest = coverage::whole_levels(&shape, &[0.0; 3]);
    for (covered, written) in [(whole.coverage(), whole.written()), (ranges.coverage(), ranges.written())] {
        assert!(covered[0] < 0.2 && covered[1] < 0.5, "{covered:?}");
        assert!(covered.iter().sum::<f64>() < 0.6 * coverage::met(&rest), "{covered:?}");
        assert!(written.iter().sum::<f64>() < coverage::written(&rest), "{written:?}");
    }
}

/// Filters: a tree of one run is an ideal filter; runs of one density need no more bits for gaps.
#[test]
fn false_positives_by_hand() {
    let level = |pieces: &[(f64, f64)]| LevelMet {
        pieces: pieces.iter().map(|(share, density)| Piece { share: *share, density: *density }).collect(),
        written: 0.0,
    };
    for bits in [5.0, 10.0] {
        let rate = allocate::ideal_rate(bits);
        assert_near(coverage::false_positives(&[level(&[(1.0, 7.0)])], bits), rate, 1e-9, "one run");
        assert_near(coverage::false_positives(&[level(&[(0.5, 7.0), (0.5, 7.0)])], bits), rate, 1e-9, "two halves");
        // Each key is in one of two runs of equal size: one bit of entropy.
        let two = coverage::false_positives(&[level(&[(1.0, 7.0)]), level(&[(1.0, 7.0)])], bits);
        assert_near(two, 2.0 * rate, 1e-9, "two runs");
    }
}

/// Entries of one byte, of which the last level has a constant number.
#[derive(Debug)]
struct ConstantLast {
    level: usize,
}

impl Contents for ConstantLast {}

impl Data for ConstantLast {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        let runs = || occupancy.level(plan.target).iter();
        if plan.target == self.level {
            return runs().last().expect("the last level's run").bytes;
        }
        plan.buffer + runs().filter(|run| plan.inputs.contains(&run.id)).map(|run| run.bytes).sum()
    }

    fn written(&mut self, _plan: &CompactionPlan, _occupancy: &Occupancy, _output: RunId) {}
}

/// Writers that are throttled by compactions, and writers that bring half of what the tree absorbs:
/// runs met by lookups in the simulation of writers, over time, beside the closed form for a device
/// that is busy all the time, and half of it.
#[test]
fn paced_compactions_are_near_the_closed_form() {
    for words in ["leveling:T=4", "leveling:T=10", "leveling:T=10,first=4", "lazy-leveling:T=5"] {
        let ratio = words.split(['=', ',']).nth(1).and_then(|ratio| ratio.parse().ok()).expect(words);
        let shape = shape(words, 1000, 3, ratio);
        let policy = WholeTree::fixed(&shape);
        for load in [0.5, 1.0] {
            let last = Run { id: RunId(1), bytes: shape.holds(), entries: None };
            let occupancy = Occupancy::new(vec![vec![], vec![], vec![last]]);
            let mut tree = Tree::resume(&policy, policy.given().clone(), occupancy).holding(ConstantLast { level: 3 });
            let settled = coverage::whole_levels(&shape, &[0.0; 3]);
            let written: Vec<f64> = settled.iter().map(|level| level.written).collect();
            let offered = if load < 1.0 { load / coverage::written(&settled) } else { 1.0 };
            let writers = Writers { offered, buffers: 2, workers: 1, late_max: 0, throttled: true };
            let flushes = vec![shape.buffer(); ratio.pow(2) as usize];
            tree.write(&writers, &flushes);
            let found = tree.write(&writers, &flushes.repeat(3)).runs_met.mean();
            let predicted = coverage::met(&coverage::whole_levels(&shape, &coverage::busy(&written, load)));
            println!(
                "{words}, load {load}: {found:.3}, predicted {predicted:.3}, at rest {:.3}",
                coverage::met(&settled)
            );
            assert_near(found, predicted, 0.05, &format!("{words}, load {load}"));
        }
    }
}

/// A flush or compaction of one range in progress.
struct RangeJob {
    due: u64,
    left: f64,
    whole: f64,
    /// Inputs beyond one: runs that are met more than once the job has ended.
    excess: f64,
}

/// The mean number of runs met in a leveled tree of `levels` levels of ratio T, divided into this
/// many ranges of equal size, whose levels are full at different times if they are staggered. Each
/// range counts like an odometer, and one device works on the job that is due first.
fn met_in_ranges(ranges: u64, is_staggered: bool, ratio: u64, levels: u32, load: f64) -> f64 {
    const STEPS: u32 = 64;
    let cycle = ratio.pow(levels - 1);
    let shape = shape(&format!("leveling:T={ratio}"), 1, levels, ratio);
    let at_rest = coverage::whole_levels(&shape, &vec![0.0; levels as usize]);
    // Steps of the golden ratio are spread evenly over the cycles of all levels; an odd number is
    // no multiple of an even ratio.
    let stride = if is_staggered { (cycle as f64 * 0.618) as u64 | 1 } else { 0 };
    let (mut jobs, mut sum): (Vec<RangeJob>, f64) = (Vec::new(), 0.0);
    let flushes = 4 * cycle;
    for flush in 1..=flushes {
        for range in 0..ranges {
            let count = flush + range * stride;
            let target = (1..levels).find(|level| count % ratio.pow(*level) != 0).unwrap_or(levels);
            let batches = if target < levels { count / ratio.pow(target - 1) % ratio } else { ratio };
            let joined = if batches > 1 { 1.0 } else { 0.0 };
            let arrived = if target == 1 { 0.0 } else { f64::from(target) };
            let whole = (batches * ratio.pow(target - 1)) as f64 / ranges as f64;
            let due = flush + ratio.pow(target - 1);
            jobs.push(RangeJob { due, left: whole, whole, excess: arrived + joined - 1.0 });
        }
        for _ in 0..STEPS {
            let mut budget = coverage::written(&at_rest) / load / f64::from(STEPS);
            jobs.sort_by_key(|job| job.due);
            for job in &mut jobs {
                let written = job.left.min(budget);
                job.left -= written;
                budget -= written;
            }
            jobs.retain(|job| job.left > 0.0);
            let excess: f64 = jobs.iter().map(|job| job.excess * job.left / job.whole).sum();
            // The first cycle begins without jobs.
            sum += if flush > cycle { excess / ranges as f64 / f64::from(STEPS) } else { 0.0 };
        }
    }
    coverage::met(&at_rest) + sum / (flushes - cycle) as f64
}

/// Ranges whose levels are full at different times: each compaction takes a part of the time, and a
/// device that is hardly ever idle leaves hardly more runs than there are at rest. Ranges that are
/// full together are compacted one after the other, and gain nothing.
#[test]
fn staggered_ranges_are_compacted_sooner() {
    for (ratio, levels) in [(4, 4), (10, 3)] {
        let shape = shape(&format!("leveling:T={ratio}"), 1, levels, ratio);
        let at_rest = coverage::whole_levels(&shape, &vec![0.0; levels as usize]);
        let written: Vec<f64> = at_rest.iter().map(|level| level.written).collect();
        let busy = coverage::busy(&written, 0.95);
        let predicted = coverage::met(&coverage::whole_levels(&shape, &busy));
        let beyond_rest = |ranges, is_staggered| {
            met_in_ranges(ranges, is_staggered, ratio, levels, 0.95) / coverage::met(&at_rest) - 1.0
        };
        let [one, together, staggered] =
            [(1, false), (16, false), (16, true)].map(|(ranges, is)| beyond_rest(ranges, is));
        println!("T = {ratio}, runs met beyond those at rest: {one:.3} {together:.3} {staggered:.3}");
        assert_near(1.0 + one, predicted / coverage::met(&at_rest), 0.06, "one range");
        assert_near(1.0 + together, 1.0 + one, 1e-6, "ranges that are full together");
        assert!(staggered < one / 6.0 && staggered > one / 16.0, "T = {ratio}: {staggered} of {one}");
    }
}

/// The smallest level goes first, and the last one gets what is left: at full load, all of its
/// time.
#[test]
fn small_levels_are_compacted_first() {
    assert_eq!(coverage::busy(&[1.0, 2.0, 5.0], 0.0), [0.0; 3]);
    let busy = coverage::busy(&[1.0, 2.0, 5.0], 0.8);
    let by_hand = [0.1, 0.2 / 0.9, 0.5 / 0.7];
    assert!(busy.iter().zip(by_hand).all(|(busy, by_hand)| (busy - by_hand).abs() < 1e-12), "{busy:?}");
    let full = coverage::busy(&[1.0, 2.0, 5.0], 1.0);
    assert!((full[2] - 1.0).abs() < 1e-12 && full[1] < 1.0, "{full:?}");
}

/// A level smaller than a batch of what arrives follows the cursor of the level above: nothing is
/// merged in it.
#[test]
fn small_levels_follow_the_cursor_above() {
    let levels = coverage::by_ranges(Order::RoundRobin, 1.0, &[2.0, 4.0], 8.0);
    assert_eq!((levels[0].written, levels[1].written), (3.0, 0.0));
    assert!((levels[1].coverage() - 4.0 / 5.0).abs() < 1e-12);
    let shape = Shape::new(Bytes(1), vec![Level { capacity: Bytes(8), runs: 1 }]).expect("a shape");
    assert_eq!(coverage::written(&coverage::whole_levels(&shape, &[0.0])), 8.0, "one level is rewritten by each batch");
}
