//! The effect of write throttling's pace, by simulation on counts: compactions meet their
//! deadlines, and writers are slowed evenly and never stopped; beside the same tree with unpaced
//! writers.
//!
//! All of it is in fractions of the device's speed, so it holds for slow and fast devices. The
//! tables in the documentation of [`tamarack_model::pace`] are figures from here.

use tamarack_model::cost::update;
use tamarack_model::planner;
use tamarack_model::policy::{self, Policy};
use tamarack_model::simulate::{Pace, STEPS, Tree, Writers, Writing, simulate};
use tamarack_model::{Bytes, Shape};
use tamarack_testing::{Random, seeds};

const POLICIES: [&str; 5] =
    ["leveling:T=10", "tiering:T=4", "tiering:T=10", "lazy-leveling:T=5", "dostoevsky:T=10,K=3,Z=1"];

/// Growth changes the sizes of all levels of these, and for MOOSE and SMOOSE their run slots: a
/// level may be left with more runs than it has slots from then on.
const MADE_ANEW: [&str; 3] =
    ["garnering:T=2,c=0.8", "moose:last=0.8,k=1", "smoose:last=0.8,k=0.5,range=0.33,update=0.0825"];

const BUFFER: Bytes = Bytes(1 << 20);

/// A tree that grew under writers.
struct Story {
    name: String,
    /// Write amplification with compactions that end between flushes, and with those of this story.
    settled: f64,
    amplification: f64,
    /// What was offered, in buffers per unit of time.
    offered: f64,
    writing: Writing,
    /// Its shape in the end.
    shape: Shape,
}

impl Story {
    /// Writers that offer `load` of what the tree digests on average; throttled, with this many
    /// workers, or let in at will beside one.
    fn new(words: &str, sizes: &[Bytes], load: f64, buffers: u64, pace: Option<usize>) -> Self {
        Self::with_allowance(words, sizes, load, buffers, pace, 0)
    }

    /// The same where compactions may be late by so many buffers. Then writers rest until the tree
    /// has its shape again.
    fn with_allowance(
        words: &str,
        sizes: &[Bytes],
        load: f64,
        buffers: u64,
        pace: Option<usize>,
        late_max: u64,
    ) -> Self {
        let policy: Policy = policy::parse(words).expect(words);
        let settled = simulate(&policy, BUFFER, sizes, Pace::Settled).write_amplification();
        let offered = (load / settled).min(1.0);
        let mut tree = Tree::new(&policy, BUFFER);
        let workers = pace.unwrap_or(1);
        let writing = tree.write(&Writers { offered, buffers, workers, late_max, throttled: pace.is_some() }, sizes);
        let shape = tree.shape().clone();
        tree.settle();
        let amplification = tree.report().write_amplification();
        let name =
            format!("{words}, {} buffers, load {load}, pace for {pace:?} workers, late by {late_max}", sizes.len());
        while tree.rest() {
            tree.settle();
        }
        let runs = tree.occupancy();
        let fits = |level| planner::fits(tree.shape(), runs, &[], level);
        assert!((1..=tree.shape().last()).all(fits), "{name}: after a rest\n{runs}\n{}", tree.shape());
        Self { name, settled, amplification, offered, writing, shape }
    }

    /// The slowest unit of time, against what was offered or what is digested on average.
    fn slowest(&self) -> f64 {
        let rates = &self.writing.rates[..self.writing.rates.len() - 1];
        rates.iter().copied().fold(f64::INFINITY, f64::min) / self.offered.min(1.0 / self.settled)
    }

    /// The share of all units of time in which the rate was within 2 % of that in the unit before.
    fn steady(&self) -> f64 {
        let pairs = self.writing.rates.windows(2);
        let steady = pairs.filter(|pair| (pair[1] / pair[0] - 1.0).abs() < 0.02).count();
        steady as f64 / (self.writing.rates.len() - 1) as f64
    }

    /// The mean rate against what was offered.
    fn accepted(&self) -> f64 {
        self.writing.mean_rate() / self.offered
    }

    /// Runs above slots in any level but the first, where the flush that fills the level is a run
    /// beyond its slots by rule; and in that.
    fn above_slots(&self) -> usize {
        self.above()[1..].iter().copied().max().unwrap_or(0)
    }

    fn above_slots_of_first(&self) -> usize {
        self.above()[0]
    }

    /// For policies that grow by making all levels anew: what is above what that left.
    fn above(&self) -> &[usize] {
        let is_made_anew = MADE_ANEW.iter().any(|words| self.name.starts_with(words));
        if is_made_anew { &self.writing.above_left } else { &self.writing.above_slots }
    }

    fn print(&self) {
        let Writing { line_most, stopped_longest, floor_longest, late_most, buffers_most, .. } = &self.writing;
        let above_slots = self.above();
        let (accepted, slowest, steady) = (self.accepted(), self.slowest(), self.steady());
        println!(
            "{}: writes {:.2} ({:.2} settled), accepted {accepted:.4}, line {line_most:.1}, stopped {stopped_longest:.2}, \
             floor {floor_longest:.2}, late {late_most:.1}, slowest {slowest:.3}, steady {steady:.4}, buffers {buffers_most:.2}, above slots {above_slots:?}",
            self.name, self.amplification, self.settled
        );
    }

    /// No stall and no writer at the floor; no compaction was late, so nothing was written that
    /// compactions between flushes would not have written, and no level had a run too many.
    fn assert_smooth(&self) {
        self.print();
        let Self { name, writing, .. } = self;
        assert_eq!((writing.stopped_longest, writing.floor_longest), (0.0, 0.0), "{name}");
        assert_eq!((self.above_slots(), self.amplification), (0, self.settled), "{name}");
        assert!(self.above_slots_of_first() <= 1, "{name}: {:?}", writing.above_slots);
        assert!(writing.buffers_most < 2.02, "{name}: {}", writing.buffers_most);
    }
}

fn equal(buffers: usize) -> Vec<Bytes> {
    vec![BUFFER; buffers]
}

/// At 90 % of what the tree digests on average, with two buffers: no put ever meets less than seven
/// tenths of the rate that is offered. What is behind for that is made up for later: the line is at
/// most one part in 25 of what has been written, and that is what is missing from the mean when the
/// run ends in the middle of it.
#[test]
fn nine_tenths_of_the_load() {
    for words in POLICIES {
        for (buffers, workers) in [(1000, 1), (3000, 1), (1000, 2), (1000, 4)] {
            let story = Story::new(words, &equal(buffers), 0.9, 2, Some(workers));
            story.assert_smooth();
            let Story { name, writing, .. } = &story;
            assert!(story.slowest() > 0.7, "{name}: slowest {}", story.slowest());
            assert!(story.steady() > 0.95, "{name}: steady {}", story.steady());
            assert!(story.accepted() > 0.965, "{name}: accepted {}", story.accepted());
            assert!(writing.line_most < buffers as f64 / 25.0, "{name}: line {}", writing.line_most);
        }
    }
}

/// Writers at full speed: their throughput is as even, and the device is never idle. In the worst
/// cycle of a tree, when the last level is about to be full, it is within 3 % of what no rule could
/// exceed: the compaction into the last level writes `r - 1` batches while one batch comes in,
/// besides what levels above need.
#[test]
fn as_fast_as_they_can() {
    for (words, workers) in POLICIES.into_iter().flat_map(|words| [1, 2, 4].map(|workers| (words, workers))) {
        let story = Story::new(words, &equal(1000), 1e9, 2, Some(workers));
        story.assert_smooth();
        // Four workers come and go more often, which leaves the rate less even, but no slower.
        let steady = if workers < 4 { 0.95 } else { 0.8 };
        assert!(story.steady() > steady, "{}: steady {}", story.name, story.steady());
        let shape = &story.shape;
        let last = shape.last();
        let above: f64 = (1..last).map(|level| update::writes_per_entry(shape, level)).sum();
        if shape.holds() == BUFFER * 10_000 && shape.level(last).runs == 1 {
            // The tree has just grown from 1000 buffers: the levels above the former last one, and
            // that one.
            let above = above - update::writes_per_entry(shape, last - 1);
            let bound = 1.0 / (above + shape.ratio(last) - 1.0);
            let slowest = story.slowest() / story.settled;
            assert!(slowest > 0.97 * bound, "{}: {slowest} of at most {bound}", story.name);
        }
    }
}

/// Floods into trees whose compactions may be late: the allowance is not exceeded, no writer is
/// stopped, and writers are faster for it, while no more is written. Level 1 has at most one run
/// above its slots for each buffer of the allowance. At rest the tree takes its shape again.
#[test]
fn floods_use_the_allowance() {
    println!("| flood of 1,000 memtables, late by at most | 0 | 4 | 16 |");
    for words in POLICIES.into_iter().chain(["leveling:T=10,first=4", MADE_ANEW[0]]) {
        let [punctual, short, long] =
            [0, 4, 16].map(|late_max| Story::with_allowance(words, &equal(1000), 1e9, 2, Some(2), late_max));
        for (story, late_max) in [(&punctual, 0.0), (&short, 4.0), (&long, 16.0)] {
            story.print();
            let Story { name, writing, .. } = story;
            assert_eq!((writing.stopped_longest, writing.floor_longest), (0.0, 0.0), "{name}");
            assert!(writing.late_most <= late_max + 1.0 / f64::from(STEPS), "{name}: {}", writing.late_most);
            assert!(writing.buffers_most < 2.02, "{name}: {}", writing.buffers_most);
            let above = story.above_slots_of_first() as f64;
            assert!(above <= late_max + 2.0, "{name}: {:?}", writing.above_slots);
            assert!(story.amplification <= punctual.amplification * 1.02, "{name}: {}", story.amplification);
        }
        let speeds = [&short, &long].map(|story| story.writing.mean_rate() / punctual.writing.mean_rate());
        println!("| {words} | 1 | {:.2} | {:.2} |", speeds[0], speeds[1]);
        assert!(speeds[0] > 0.99 && speeds[1] > 1.01, "{words}: {speeds:?} times as fast");
    }
}

/// Writers that offer nine tenths of what a punctual tree digests on average: with the allowance
/// they are let in at more than 98 % of that on the mean, also where the last level is about to be
/// full and a punctual tree digests less than its mean.
#[test]
fn the_allowance_evens_out_cycles() {
    for words in POLICIES {
        let story = Story::with_allowance(words, &equal(1000), 0.9, 2, Some(2), 16);
        story.print();
        let Story { name, writing, .. } = &story;
        assert_eq!((writing.stopped_longest, writing.floor_longest), (0.0, 0.0), "{name}");
        assert!(writing.late_most <= 16.0, "{name}: {}", writing.late_most);
        assert!(story.accepted() > 0.98, "{name}: accepted {}", story.accepted());
    }
}

/// Where growth makes all levels anew, compactions meet their deadlines as well, though the pace
/// was made for levels that stay: no stall, nothing is written that compactions between flushes
/// would not have written, no level has more runs than its slots or than growth left there, and two
/// buffers suffice. It is less even: Garnering's writers are at the floor for one step with four
/// workers, and MOOSE's slowest unit of time has 0.58 of the offered load.
#[test]
fn levels_that_are_made_anew() {
    let cases = [
        (1000, 1, 0.9),
        (3000, 1, 0.9),
        (1000, 2, 0.9),
        (1000, 4, 0.9),
        (1000, 1, 1e9),
        (1000, 2, 1e9),
        (1000, 4, 1e9),
    ];
    for (words, (buffers, workers, load)) in MADE_ANEW.into_iter().flat_map(|words| cases.map(|case| (words, case))) {
        let story = Story::new(words, &equal(buffers), load, 2, Some(workers));
        story.print();
        let Story { name, writing, .. } = &story;
        assert!(writing.stopped_longest == 0.0 && writing.floor_longest <= 1.0 / f64::from(STEPS), "{name}");
        assert_eq!((story.above_slots(), story.amplification), (0, story.settled), "{name}");
        assert!(story.above_slots_of_first() <= 1, "{name}: {:?}", writing.above_slots);
        assert!(writing.buffers_most < 2.02, "{name}: {}", writing.buffers_most);
        assert!(story.slowest() > 0.5, "{name}: slowest {}", story.slowest());
        assert!(story.steady() > 0.9, "{name}: steady {}", story.steady());
        assert!(load > 1.0 || story.accepted() > 0.965, "{name}: accepted {}", story.accepted());
    }
}

/// Twice the buffers change the mean rate by a thousandth at most: two are enough.
#[test]
fn two_buffers_are_enough() {
    for words in POLICIES {
        for load in [0.9, 1e9] {
            let [two, four] = [2, 4].map(|buffers| Story::new(words, &equal(1000), load, buffers, Some(1)).accepted());
            assert!(
                (two / four - 1.0).abs() < if load < 1.0 { 0.001 } else { 0.005 },
                "{words}, {load}: {two}, {four}"
            );
        }
    }
}

/// Memtables that rotate up to a tenth before they are full, so that levels are full with another
/// number of bytes than predicted: still no stall and no floor. At most one compaction is late, and
/// its level has one run too many for a while.
#[test]
fn buffers_of_varying_size() {
    let all = POLICIES.into_iter().chain(MADE_ANEW);
    for (words, seed) in all.flat_map(|words| seeds(2).map(move |seed| (words, seed))) {
        println!("TAMARACK_SEED={seed}");
        let mut random = Random::new(seed);
        let sizes: Vec<Bytes> = (0..1000).map(|_| Bytes(BUFFER.0 * (900 + random.below(101)) / 1000)).collect();
        for load in [0.9, 1e9] {
            let story = Story::new(words, &sizes, load, 2, Some(1));
            story.print();
            let Story { name, writing, .. } = &story;
            assert_eq!((writing.stopped_longest, writing.floor_longest), (0.0, 0.0), "{name}");
            let above = story.above_slots().max(story.above_slots_of_first());
            assert!(above <= 1, "{name}: {:?}", writing.above_slots);
            assert!(writing.buffers_most < 2.02, "{name}: {}", writing.buffers_most);
            assert!(story.slowest() > 0.5, "{name}: slowest {}", story.slowest());
        }
    }
}

/// Shapes of any kind that grow by doubling their last level, which leaves compactions there of
/// many times the mean's size: no stall, the memtables' limit holds within a tenth of a memtable,
/// and no level has more than one run too many.
#[test]
fn any_shape() {
    for seed in seeds(12) {
        println!("TAMARACK_SEED={seed}");
        let mut random = Random::new(seed);
        let mut batch = BUFFER.0;
        let mut words = format!("custom:buffer {BUFFER}");
        for _ in 0..1 + random.below(3) {
            let capacity = batch * (150 + random.below(900)) / 100;
            let runs = 1 + random.below(capacity / batch);
            batch = capacity;
            words += &format!("; level {capacity} in {runs} runs");
        }
        let story = Story::new(&words, &equal(200), 1e9, 2, Some(2));
        story.print();
        let Story { name, writing, .. } = &story;
        assert_eq!(writing.stopped_longest, 0.0, "{name}");
        assert!(writing.buffers_most < 2.1, "{name}: {}", writing.buffers_most);
        assert!(writing.above_slots.iter().all(|runs| *runs <= 1), "{name}: {:?}", writing.above_slots);
    }
}

/// Without the throttle, and with twice the buffers, leveled trees stop their writers for several
/// units of time, and trees that are overrun pile up runs. So the tests above can fail.
#[test]
fn at_will_is_worse() {
    for words in ["leveling:T=10", "dostoevsky:T=10,K=3,Z=1"] {
        let story = Story::new(words, &equal(1000), 0.9, 4, None);
        story.print();
        assert!(story.writing.stopped_longest > 2.0, "{}", story.name);
        let context = || format!("{}: compactions were late", story.name);
        assert!(story.above_slots() >= 1 && story.amplification < story.settled, "{}", context());
    }
    for words in POLICIES {
        let story = Story::new(words, &equal(1000), 1e9, 4, None);
        story.print();
        assert!(story.writing.above_slots[0] > 50 && story.writing.stopped_longest > 0.9, "{}", story.name);
    }
}
