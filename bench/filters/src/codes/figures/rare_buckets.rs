//! The paper's figure 13: how many of a lookup's two buckets the cached tables do not decode, by
//! the level of its key.
//!
//! All keys of the tables are looked up, and as many absent ones. The prediction assumes that level
//! IDs (LIDs) are independent of places: one bucket has the LID of the key in a slot, and all other
//! slots in use have random LIDs. An insertion takes the emptier one of two buckets, so the other
//! bucket of a key is fuller than most. Therefore the prediction takes the numbers of empty slots
//! from the tables.

use tamarack_env::Random;
use tamarack_filter::chucky::{Bucket, SLOTS_MAX};
use tamarack_model::filter::chucky::load;

use super::by_level::{
    Effort, LEVELS, PAPER_SLOTS, Point, RATIO, RUNS, Series, TARGETS, agreement, line, papers_tree, table_of,
};
use super::{Figure, Verdict, range, steps};
use crate::compare::FREQUENT_SHARE;
use crate::lengths::frequent;
use crate::plot::{Plot, Scale};
use crate::table::{Table, digest};
use crate::tree::{Distribution, SLOTS, Tree, is_frequent};

const OUTSIDE: &str = "outside of C_freq, 4 slots";
const OUTSIDE_OF_MORE: &str = "C_freq, 12 levels, predicted";
const RARE: [&str; 4] = ["rare, 4 slots", "rare, 5 slots", "rare, 6 slots", "rare, 7 slots"];

/// The levels of a larger tree, for which the paper's buckets are only predicted.
const MORE_LEVELS: usize = 12;

/// Places of the plot: how far the level of a key is from the largest.
const DISTANCES: [&str; MORE_LEVELS + 1] =
    ["-11", "-10", "-9", "-8", "-7", "-6", "-5", "-4", "-3", "-2", "-1", "0", "none"];

/// The share of buckets with each number of empty slots.
type EmptySlots = [f64; SLOTS_MAX + 1];

/// The buckets of lookups.
#[derive(Clone, Copy, Debug, Default)]
struct Occupancy {
    /// Those of absent keys.
    any: EmptySlots,
    /// Those in which a key is.
    own: EmptySlots,
    /// The other ones of keys that exist.
    other: EmptySlots,
}

impl Occupancy {
    /// All slots are independent of each other.
    fn independent(slots: usize) -> Self {
        let load = load(slots);
        let of = |random_slots: usize| {
            let mut shares = EmptySlots::default();
            shares[0] = 1.0;
            for _ in 0..random_slots {
                for empty in (0..=random_slots).rev() {
                    let fewer = if empty > 0 { shares[empty - 1] } else { 0.0 };
                    shares[empty] = shares[empty] * load + fewer * (1.0 - load);
                }
            }
            shares
        };
        Self { any: of(slots), own: of(slots - 1), other: of(slots) }
    }
}

/// Which buckets are counted: by the probability of their combination (Eq. 12), and by how many
/// slots they have of each class.
type IsCounted<'a> = dyn Fn(f64, &[u8]) -> bool + 'a;

/// The probability that a bucket is counted: of any one, and of one that has an entry of a class;
/// for each number of empty slots.
struct Chances {
    any: Vec<f64>,
    with_class: Vec<Vec<f64>>,
}

impl Chances {
    fn new(tree: &Tree, slots: usize, is_counted: &IsCounted<'_>) -> Self {
        assert_eq!(tree.lids[0], 1, "the last level is one run, whose LID empty slots have");
        let entries = Distribution::of_entries(tree);
        let last = Distribution::of_slots(tree, slots).classes()[0];
        let (mut any, mut with_class) = (vec![0.0; slots + 1], vec![vec![0.0; tree.lids.len()]; slots + 1]);
        for used in 1..=slots {
            let empty = slots - used;
            for of in entries.combinations(used) {
                // From `u! Π f^c / c!`, of u slots in use, to `S! Π q^c / c!`, of all slots: q is
                // the load times f for all LIDs but the first one.
                let own = usize::from(of.classes[0]);
                let others = of.probability * (1..=own).map(|count| count as f64 / tree.entries[0]).product::<f64>();
                let all_others = others * load(slots).powi((used - own) as i32);
                let more = ((used + 1)..=slots).map(|count| count as f64).product::<f64>();
                let of_last = (1..=own + empty).map(|count| last / count as f64).product::<f64>();
                let mut classes = of.classes.clone();
                classes[0] += empty as u8;
                if !is_counted(all_others * more * of_last, &classes) {
                    continue;
                }
                any[empty] += of.weight();
                for (class, chance) in with_class[empty].iter_mut().enumerate() {
                    *chance += of.weight() * f64::from(of.classes[class]) / used as f64 / tree.entries[class];
                }
            }
        }
        Self { any, with_class }
    }

    /// How many of the two buckets of a lookup are counted: in each level of its key, the smallest
    /// first, and for absent keys.
    fn accesses(&self, occupancy: &Occupancy) -> Vec<f64> {
        let sum = |shares: &EmptySlots, of: &dyn Fn(usize) -> f64| -> f64 {
            (0..self.any.len()).map(|empty| shares[empty] * of(empty)).sum()
        };
        let any = |shares| sum(shares, &|empty| self.any[empty]);
        let existing = (0..self.with_class[0].len()).rev();
        let existing =
            existing.map(|class| sum(&occupancy.own, &|empty| self.with_class[empty][class]) + any(&occupancy.other));
        existing.chain([2.0 * any(&occupancy.any)]).collect()
    }
}

/// The probability of the least probable combination in C_freq; those as probable belong to it.
fn least_frequent(tree: &Tree, slots: usize) -> f64 {
    let types = Distribution::of_slots(tree, slots).combinations(slots);
    let frequent = frequent(&types, FREQUENT_SHARE).into_iter().map(|place| types[place].probability);
    frequent.fold(f64::MAX, f64::min) * (1.0 - 1e-9)
}

/// The probability of the combination of LIDs in a bucket (Eq. 12): `S! Π q^c / c!`.
fn probability(bucket: &Bucket, of_lids: &[f64]) -> f64 {
    let (mut probability, mut before, mut equal) = (1.0, None, 0);
    for (slot, number) in bucket.slots().iter().zip(1..) {
        equal = if before == Some(slot.lid) { equal + 1 } else { 1 };
        before = Some(slot.lid);
        probability *= of_lids[usize::from(slot.lid)] * f64::from(number) / f64::from(equal);
    }
    probability
}

/// Lookups of a table: a number of [`TARGETS`], and the two buckets.
type Lookups = [(usize, [usize; 2])];

/// Counts of lookups for each of [`TARGETS`].
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    lookups: [u64; TARGETS.len()],
    accesses: [u64; TARGETS.len()],
    /// Different buckets: keys of large levels share them.
    buckets: [u64; TARGETS.len()],
}

impl Counter {
    fn look_up(&mut self, lookups: &Lookups, counted: &[bool]) {
        // A bit for each target.
        let mut seen = vec![0_u8; counted.len()];
        for &(target, pair) in lookups {
            self.lookups[target] += 1;
            for at in pair.into_iter().filter(|&at| counted[at]) {
                self.accesses[target] += 1;
                self.buckets[target] += u64::from(seen[at] >> target & 1 == 0);
                seen[at] |= 1 << target;
            }
        }
    }

    fn series(&self, name: &'static str, predicted: &[f64]) -> Series {
        let point = |(target, &predicted): (usize, &f64)| Point {
            predicted,
            measured: self.accesses[target] as f64 / self.lookups[target] as f64,
            counted: self.buckets[target],
            error: 1.0 / (self.buckets[target] as f64).sqrt(),
        };
        Series { name, points: predicted.iter().enumerate().map(point).collect() }
    }
}

/// What is counted in buckets with one number of slots.
struct Measured {
    /// The paper's, if it has as many slots, and ours.
    series: Vec<Series>,
    occupancy: Occupancy,
}

/// Looks up all keys of as many tables as are needed, and as many absent ones.
fn measured(tree: &Tree, slots: usize, effort: Effort) -> Measured {
    let code = tree.code(slots).expect("it fits");
    let (least, of_lids) = (least_frequent(tree, slots), Distribution::of_slots(tree, slots).probabilities());
    let outside = Chances::new(tree, slots, &|probability, _| probability < least);
    let rare = Chances::new(tree, slots, &|_, classes| !is_frequent(&code, classes));
    // Of an absent key's two buckets, on the mean.
    let expected = |chances: &Chances| chances.accesses(&Occupancy::independent(slots))[LEVELS] / 2.0;
    let fewest = if slots == PAPER_SLOTS { expected(&outside).min(expected(&rare)) } else { expected(&rare) };
    let tables = (effort.rare_buckets / fewest / effort.buckets as f64).ceil() as u64;
    let lengths: Vec<u32> = code.fingerprint_bits().collect();
    let (mut of_paper, mut of_own, mut occupancy) = (Counter::default(), Counter::default(), Occupancy::default());
    for number in 0..tables {
        let random = Random::new((slots as u64) << 48 | number << 32);
        let (mut table, entries) = Table::filled(tree, slots, &lengths, effort.buckets, &random);
        table.encode(&code);
        let mut lookups = Vec::with_capacity(2 * entries.len());
        let empty = |at: usize| table.buckets()[at].empty_slots();
        for entry in &entries {
            let [own, other] = table.own_and_other(*entry);
            occupancy.own[empty(own)] += 1.0;
            occupancy.other[empty(other)] += 1.0;
            lookups.push((LEVELS - 1 - tree.class_of(entry.lid), [own, other]));
            let absent = table.pair(digest(&random));
            absent.into_iter().for_each(|at| occupancy.any[empty(at)] += 0.5);
            lookups.push((LEVELS, absent));
        }
        let all = |is_counted: &dyn Fn(usize) -> bool| (0..effort.buckets).map(is_counted).collect::<Vec<bool>>();
        of_own.look_up(&lookups, &all(&|at| table.is_rare(at)));
        if slots == PAPER_SLOTS {
            of_paper.look_up(&lookups, &all(&|at| probability(&table.buckets()[at], &of_lids) < least));
        }
    }
    for shares in [&mut occupancy.any, &mut occupancy.own, &mut occupancy.other] {
        let all: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= all);
    }
    let mut series = vec![of_own.series(RARE[slots - SLOTS.start], &rare.accesses(&occupancy))];
    if slots == PAPER_SLOTS {
        series.insert(0, of_paper.series(OUTSIDE, &outside.accesses(&occupancy)));
    }
    Measured { series, occupancy }
}

/// What is expected of the paper's buckets in a larger tree.
fn of_more_levels() -> Vec<f64> {
    let tree = Tree::of_paper(RATIO, RUNS, 1, MORE_LEVELS);
    let least = least_frequent(&tree, PAPER_SLOTS);
    let chances = Chances::new(&tree, PAPER_SLOTS, &|probability, _| probability < least);
    chances.accesses(&Occupancy::independent(PAPER_SLOTS))
}

pub fn figure_13(effort: Effort) -> Figure {
    let tree = papers_tree();
    let all: Vec<Measured> = SLOTS.map(|slots| measured(&tree, slots, effort)).collect();
    let Occupancy { any, own: own_empty, other } = all[0].occupancy;
    let series: Vec<Series> = all.into_iter().flat_map(|measured| measured.series).collect();
    let of_more = of_more_levels();
    let (header, mut rows) = table_of(&series, "buckets", "different buckets", &[]);
    rows.extend(of_more.iter().zip(1..).map(|(accesses, level)| {
        let level = if level > MORE_LEVELS { "none".to_owned() } else { level.to_string() };
        let none = ["not measured", "—", "—", "—"].map(str::to_owned);
        [OUTSIDE_OF_MORE.to_owned(), level, format!("{accesses:.2e}")].into_iter().chain(none).collect()
    }));
    let first = 1 + MORE_LEVELS - LEVELS;
    let own = series[1..].iter().enumerate().map(|(number, series)| series.curve(0, number, first));
    let of_paper = [line(OUTSIDE_OF_MORE, 3, 1, 1, &of_more), series[0].curve(1, 0, first)];
    Figure {
        about: format!(
            "The two buckets of a lookup: how many have a combination outside of C_freq, which the paper decodes with its decoding table; and how many are \
             rare in our code. Ours has no such table: it computes the combination of a rare bucket from its number, and keeps the fingerprints elsewhere. \
             C_freq has the most probable combinations of {FREQUENT_SHARE} of all buckets, and those as probable as the last of them. Lazy leveling with T = 5 and six \
             levels, as many full tables of {} buckets as have about {:.0} buckets that count. All keys are looked up, and as many absent ones. Keys of large \
             levels share buckets, so the standard error is that of the number of different buckets. The prediction puts the key's level in one slot of its bucket; all other \
             level IDs are independent. It takes the numbers of empty slots from the tables: with four slots, {:.1} % of all buckets are full, {:.1} % of \
             the buckets in which a key is, and {:.1} % of the other ones of keys, since an insertion takes the emptier of two. For twelve levels, slots are empty \
             independently of each other.",
            effort.buckets,
            effort.rare_buckets,
            100.0 * any[0],
            100.0 * own_empty[0],
            100.0 * other[0]
        ),
        plot: Plot {
            name: "fig13",
            title: "Chucky, Fig. 13: buckets outside of the cached tables, by the level of the key",
            across: "level of the key (0: the largest; none: absent). Lines: predicted; marks: measured",
            across_scale: Scale::Names(&DISTANCES),
            up: "buckets for each lookup",
            up_scale: Scale::Logarithmic,
            curves: of_paper.into_iter().chain(own).collect(),
        },
        header,
        rows,
        verdicts: verdicts(&series, &of_more),
    }
}

/// The paper's buckets are the first ones, and ours with as many slots follow.
fn verdicts(series: &[Series], of_more: &[f64]) -> Vec<Verdict> {
    let paper = series[0].measured();
    let (existing, of_more) = (&paper[..LEVELS], &of_more[..MORE_LEVELS]);
    let rising = steps(existing).filter(|step| *step < 0.0).count();
    let rising_of_more = steps(of_more).filter(|step| *step < 0.0).count();
    let (greatest, last_step) = (range(of_more.iter().copied()).1, of_more[0] - of_more[1]);
    let beside = || series[1].points.iter().zip(&paper);
    let fewer = beside().filter(|(own, paper)| own.measured <= **paper).count();
    let ratios = range(beside().map(|(own, paper)| own.measured / paper));
    let (agrees, agreement) = agreement(series);
    vec![
        Verdict {
            claim: "The smaller the level of the key, the more often the decoding table is accessed.",
            holds: rising == LEVELS - 1,
            because: format!(
                "{:.1e} times for the largest level and {:.1e} for the smallest, more with {rising} of {} steps; {rising_of_more} of {} with twelve levels",
                existing[LEVELS - 1],
                existing[0],
                LEVELS - 1,
                MORE_LEVELS - 1
            ),
        },
        Verdict {
            claim: "With smaller levels this flattens at one access (within 5 %).",
            holds: (0.95..=1.05).contains(&greatest) && last_step.abs() < 0.05,
            because: format!(
                "with twelve levels at most {greatest:.4} accesses, {last_step:.4} more in the smallest than in the next; with six levels at most {:.4}",
                range(existing.iter().copied()).1
            ),
        },
        Verdict {
            claim: "(Not in the paper.) Accesses are those that the distribution of level IDs predicts, within 10 %.",
            holds: agrees,
            because: agreement,
        },
        Verdict {
            claim: "(Not in the paper.) With as many slots, ours has no more rare buckets than there are outside of C_freq.",
            holds: fewer == TARGETS.len(),
            because: format!(
                "at {fewer} of {} levels; {:.3} to {:.3} times as many",
                TARGETS.len(),
                ratios.0,
                ratios.1
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chances are those of a sum over all buckets, one by one.
    #[test]
    fn chances_are_those_of_all_buckets() {
        let tree = Tree::of_paper(5.0, 4, 1, 3);
        let (slots, of_lids) = (3, Distribution::of_slots(&tree, 3).probabilities());
        let least = 1e-4;
        let chances = Chances::new(&tree, slots, &|probability, _| probability < least);
        let entries = tree.shares_of_runs();
        for empty in 0..slots {
            let used = slots - empty;
            let (mut any, mut with_class) = (0.0, [0.0; 3]);
            for number in 0..9_usize.pow(used as u32) {
                let lids: Vec<usize> = (0..used as u32).map(|place| number / 9_usize.pow(place) % 9).collect();
                let mut bucket = Bucket::empty(slots);
                for &lid in &lids {
                    let slot = tamarack_filter::chucky::BucketSlot { lid: lid as u16, fingerprint: 1 };
                    assert!(bucket.insert(slot));
                }
                if probability(&bucket, &of_lids) < least {
                    let weight: f64 = lids.iter().map(|&lid| entries[lid]).product();
                    any += weight;
                    let class = tree.class_of(lids[0] as u16);
                    with_class[class] += weight / tree.entries[class];
                }
            }
            assert!((chances.any[empty] - any).abs() < 1e-12, "{empty} empty: {} and {any}", chances.any[empty]);
            for (one, other) in chances.with_class[empty].iter().zip(with_class) {
                assert!((one - other).abs() < 1e-12, "{empty} empty: {one} and {other}");
            }
        }
        let all = Chances::new(&tree, slots, &|_, _| true).accesses(&Occupancy::independent(slots));
        assert!(all.iter().all(|accesses| (accesses - 2.0).abs() < 2e-3), "all but empty buckets: {all:?}");
    }

    /// With slots independent of each other, the share of rare buckets is what the code says.
    #[test]
    fn rare_shares_agree() {
        let tree = papers_tree();
        let code = tree.code(4).expect("it fits");
        let chances = Chances::new(&tree, 4, &|_, classes| !is_frequent(&code, classes));
        let absent = chances.accesses(&Occupancy::independent(4))[LEVELS];
        assert!((absent / 2.0 - code.rare_share(&tree.shares())).abs() < 1e-9);
    }

    /// The paper's buckets and ours as they should be, and a larger tree.
    fn good() -> (Vec<Series>, Vec<f64>) {
        let point = |target: usize| {
            let accesses = if target == LEVELS { 1e-4 } else { 0.5_f64.powi(target as i32) };
            Point { predicted: accesses, measured: accesses, counted: 2_000, error: 0.02 }
        };
        let series = |name| Series { name, points: (0..=LEVELS).map(point).collect() };
        let of_more = (0..=MORE_LEVELS as i32).map(|level| 0.25_f64.powi((level - 2).max(0))).collect();
        (vec![series("outside"), series("rare")], of_more)
    }

    /// Each verdict holds for good data, and falls with a point that is wrong.
    #[test]
    fn verdicts_fall_with_wrong_data() {
        let (series, of_more) = good();
        let fallen = |series: &[Series], of_more: &[f64]| -> Vec<usize> {
            let verdicts = verdicts(series, of_more);
            (0..verdicts.len()).filter(|&verdict| !verdicts[verdict].holds).collect()
        };
        assert_eq!(fallen(&series, &of_more), [0; 0]);
        let falls = |number: usize, target: usize, factor: f64| {
            let mut wrong = series.clone();
            wrong[number].points[target].measured *= factor;
            fallen(&wrong, &of_more)
        };
        assert_eq!(falls(0, 2, 2.5), [0, 2]);
        assert_eq!(falls(1, 2, 0.8), [2]);
        assert_eq!(falls(1, 5, 1.05), [3]);
        let with = |level: usize, accesses: f64| {
            let mut wrong = of_more.clone();
            wrong[level] = accesses;
            fallen(&series, &wrong)
        };
        assert_eq!((with(0, 0.8), with(0, 1.2)), (vec![1], vec![1]));
    }
}
