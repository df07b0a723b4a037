//! The paper's figure 11: false positives of a lookup, by the level of its key.
//!
//! A lookup goes from the youngest run to the oldest one and ends in the first that has the key, so
//! only matches in younger runs count. Few entries are in small levels, and among random lookups
//! their false positives are too few to be counted. But a false positive in a run requires an entry
//! of that run in the two buckets, with the same first bits of the fingerprint. Only lookups of
//! that kind are drawn, and what they count is weighted with their share in all lookups.

use tamarack_env::Random;
use tamarack_filter::chucky::Code;
use tamarack_model::filter::chucky::{code_length_limit, load, rate, rate_with_code};

use super::by_level::{
    Effort, LEVELS, PAPER_SLOTS, Point, RATIO, RUNS, Series, TARGETS, agreement, line, papers_tree, runs_of_level,
    table_of,
};
use super::{Figure, SLOT_BITS, Verdict, range};
use crate::compare::FREQUENT_SHARE;
use crate::lengths::Fit;
use crate::plot::{Plot, Scale};
use crate::table::{Entry, Table, pick};
use crate::tree::{BUCKET_BITS, Distribution, SLOTS, Tree};

/// A filter of the figure.
struct Filter {
    name: &'static str,
    slots: usize,
    /// The bits of a slot.
    bits: f64,
    /// The fingerprint's length of each class.
    lengths: Vec<u32>,
    /// `None` for the paper's, whose buckets do not have 64 bits.
    code: Option<Code>,
}

const PAPER: &str = "the paper's, 10 bits a slot";
const OWN: [&str; 4] = ["ours, 4 slots", "ours, 5 slots", "ours, 6 slots", "ours, 7 slots"];

/// The paper's, then ours.
fn filters(tree: &Tree) -> Vec<Filter> {
    let types = Distribution::of_entries(tree).combinations(PAPER_SLOTS);
    let fit = Fit::aligned_code(&types, FREQUENT_SHARE, SLOT_BITS * PAPER_SLOTS as u32);
    let lengths = fit.as_printed(tree.entries.len(), PAPER_SLOTS).expect("ten bits a slot are enough");
    let paper = Filter { name: PAPER, slots: PAPER_SLOTS, bits: f64::from(SLOT_BITS), lengths, code: None };
    let own = |(slots, name): (usize, &'static str)| {
        let code = tree.code(slots).expect("it fits");
        let bits = f64::from(BUCKET_BITS) / slots as f64;
        Filter { name, slots, bits, lengths: code.fingerprint_bits().collect(), code: Some(code) }
    };
    std::iter::once(paper).chain(SLOTS.zip(OWN).map(own)).collect()
}

impl Filter {
    /// Eq. 16 of the paper.
    fn bound(&self) -> f64 {
        rate_with_code(self.slots, self.bits, code_length_limit(RATIO, f64::from(RUNS), 1.0))
    }

    fn table(&self, tree: &Tree, buckets: usize, random: &Random) -> Table {
        let (mut table, _) = Table::filled(tree, self.slots, &self.lengths, buckets, random);
        if let Some(code) = &self.code {
            table.encode(code);
        }
        table
    }

    /// The false positives of lookups, predicted and measured.
    fn series(&self, tree: &Tree, effort: Effort) -> Series {
        let random = Random::new((self.slots as u64) << 32 | u64::from(self.code.is_some()) << 40);
        let mut table = self.table(tree, effort.buckets, &random);
        let of_run = |(lid, share): (u16, f64)| {
            rate(self.slots, load(self.slots), share, f64::from(self.lengths[tree.class_of(lid)]))
        };
        let rates: Vec<f64> = (0..).zip(tree.shares_of_runs()).map(of_run).collect();
        // LIDs ascend from the oldest run to the youngest one.
        let predicted =
            |target: Option<u16>| -> f64 { rates[target.map_or(0, |lid| usize::from(lid) + 1)..].iter().sum() };
        let mut of_targets = |targets: Vec<Option<u16>>, lookups: usize| {
            let lookups = lookups / targets.len();
            let of = |target: Option<u16>| (predicted(target), false_positives(&mut table, target, lookups, &random));
            mean(targets.into_iter().map(of).collect())
        };
        let mut of_level = |level: usize| of_targets(runs_of_level(tree, level).map(Some).collect(), effort.lookups);
        let mut points: Vec<Point> = (1..=LEVELS).map(&mut of_level).collect();
        points.push(of_targets(vec![None], 4 * effort.lookups));
        Series { name: self.name, points }
    }
}

/// What lookups have counted, and the weight of each count.
struct Counted {
    counts: u64,
    weight: f64,
}

/// The mean over runs, of which each has its prediction.
fn mean(runs: Vec<(f64, Counted)>) -> Point {
    let sum = |of: fn(&(f64, Counted)) -> f64| runs.iter().map(of).sum::<f64>();
    let measured = sum(|(_, run)| run.weight * run.counts as f64);
    let variance = sum(|(_, run)| run.weight * run.weight * run.counts as f64);
    Point {
        predicted: sum(|(predicted, _)| *predicted) / runs.len() as f64,
        measured: measured / runs.len() as f64,
        counted: runs.iter().map(|(_, run)| run.counts).sum(),
        error: if measured > 0.0 { variance.sqrt() / measured } else { f64::INFINITY },
    }
}

/// The false positives of lookups of keys in the run `target`, or of absent keys: the younger runs
/// that match. A run counts once for each lookup.
fn false_positives(table: &mut Table, target: Option<u16>, lookups: usize, random: &Random) -> Counted {
    let cells = table.cells_near(|lid| target.is_none_or(|target| lid > target));
    let weight = cells.len() as f64 / table.cells() as f64 / lookups as f64;
    if cells.is_empty() {
        return Counted { counts: 0, weight };
    }
    let mut counts = 0;
    let mut left = lookups;
    while left > 0 {
        let digest = table.digest_in(cells[pick(random, cells.len())], random);
        let Some(lid) = target else {
            counts += u64::from(table.candidates(digest).count_ones());
            left -= 1;
            continue;
        };
        // If the key has no place, another one is drawn.
        if let Some(candidates) = table.with_key(Entry { lid, digest }, |table| table.candidates(digest)) {
            assert!(candidates & 1 << lid != 0, "a key is missed");
            counts += u64::from((candidates >> (lid + 1)).count_ones());
            left -= 1;
        }
    }
    Counted { counts, weight }
}

pub fn figure_11(effort: Effort) -> Figure {
    let tree = papers_tree();
    let filters = filters(&tree);
    let series: Vec<Series> = filters.iter().map(|filter| filter.series(&tree, effort)).collect();
    let bounds: Vec<f64> = filters.iter().map(Filter::bound).collect();
    let lengths = |filter: &Filter| filter.lengths.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let (header, rows) = table_of(
        &series,
        "filter",
        "counted",
        &[
            ("Eq. 16", bounds.iter().map(|bound| format!("{bound:.2e}")).collect()),
            ("bits by level, the last first", filters.iter().map(lengths).collect()),
        ],
    );
    let own = series[1..].iter().enumerate().map(|(number, series)| series.curve(0, number, 1));
    let of_paper = [line("Eq. 16, 10 bits a slot", 3, 1, 1, &[bounds[0]; TARGETS.len()]), series[0].curve(1, 0, 1)];
    Figure {
        about: format!(
            "Lazy leveling with T = 5 and six levels, full tables of {} buckets. *The paper's* filter has four slots of {SLOT_BITS} bits with the \
             fingerprints of Algorithm 1; its slots are not encoded. *Ours* has buckets of 64 bits: 16, 12.8, 10.7 or 9.1 bits a slot. A lookup searches \
             the runs that match from the youngest to the oldest and ends in the run of its key, so the false positives are the younger runs among \
             them. Each level has {} lookups, spread over its runs, and absent keys have four times as many. Only lookups that can have a false \
             positive are drawn: their buckets have an entry of a younger run with the same first five bits. The result is weighted with the share of such lookups. \
             The prediction is `2Sρ · Σ f 2^-FP` over the younger runs, where ρ is the load. Eq. 16 knows neither levels nor the load.",
            effort.buckets, effort.lookups
        ),
        plot: Plot {
            name: "fig11",
            title: "Chucky, Fig. 11: false positives of a lookup, by the level of its key",
            across: "level of the key (6: the largest; none: absent). Lines: predicted; marks: measured",
            across_scale: Scale::Names(&TARGETS),
            up: "false positives for each lookup",
            up_scale: Scale::Logarithmic,
            curves: of_paper.into_iter().chain(own).collect(),
        },
        header,
        rows,
        verdicts: verdicts(&series, &bounds),
    }
}

/// The least factor between neighbouring levels that is called exponential.
const FALL: f64 = 1.5;

/// The paper's filter is the first one. `bounds` has Eq. 16 for each.
fn verdicts(series: &[Series], bounds: &[f64]) -> Vec<Verdict> {
    let falls = |series: &[Series]| {
        let of = |series: &Series| series.points.windows(2).map(|pair| pair[1].measured / pair[0].measured).collect();
        range(series.iter().map(of).collect::<Vec<Vec<f64>>>().concat().into_iter())
    };
    let (of_paper, of_own) = (falls(&series[..1]), falls(&series[1..]));
    let absent = |number: usize| series[number].points[LEVELS].measured / bounds[number];
    let existing = range(series[0].points[..LEVELS].iter().map(|point| point.measured / bounds[0]));
    let of_absent = range((1..series.len()).map(absent));
    // By more than two standard errors.
    let exceeds = |(series, bound): (&Series, &f64)| {
        series.points.iter().filter(|point| point.measured * (1.0 - 2.0 * point.error) > *bound).count()
    };
    let exceeding: usize = series.iter().zip(bounds).skip(1).map(exceeds).sum();
    let (agrees, agreement) = agreement(series);
    vec![
        Verdict {
            claim: "False positives fall exponentially towards smaller levels, by a factor of 1.5 or more with each.",
            holds: of_paper.0 >= FALL && of_own.0 >= FALL,
            because: format!(
                "by factors of {:.1} to {:.1}; those of ours by {:.1} to {:.1}",
                of_paper.0, of_paper.1, of_own.0, of_own.1
            ),
        },
        Verdict {
            claim: "Eq. 16 predicts those of absent keys within reason (a factor of 1.5).",
            holds: (1.0 / 1.5..=1.5).contains(&absent(0)),
            because: format!("{:.3} times as many were measured", absent(0)),
        },
        Verdict {
            claim: "Eq. 16 is an upper bound where the key exists.",
            holds: existing.1 <= 1.0,
            because: format!("{:.1e} to {:.3} times as many were measured", existing.0, existing.1),
        },
        Verdict {
            claim: "(Not in the paper.) False positives are those that the fingerprints of younger runs predict, within 10 %.",
            holds: agrees,
            because: agreement,
        },
        Verdict {
            claim: "(Not in the paper.) Eq. 16, for as many bits a slot, is an upper bound of ours, also for absent keys.",
            holds: exceeding == 0,
            because: format!(
                "{:.3} to {:.3} times as many were measured for absent keys; {exceeding} points exceed it by more than two standard errors",
                of_absent.0, of_absent.1
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::digest;

    /// Lookups that are drawn have as many false positives as all keys of the table and as many
    /// random ones have.
    #[test]
    fn drawn_lookups_err_as_all_do() {
        let (tree, random) = (papers_tree(), Random::new(7));
        let filter = &filters(&tree)[4];
        let (mut table, entries) = Table::filled(&tree, filter.slots, &filter.lengths, 4_093, &random);
        table.encode(filter.code.as_ref().expect("it is ours"));
        let last = entries.iter().filter(|entry| entry.lid == 0);
        let (mut keys, mut counts) = (0, [0; 2]);
        for entry in last {
            keys += 1;
            counts[0] += (table.candidates(entry.digest) >> 1).count_ones();
            counts[1] += table.candidates(digest(&random)).count_ones();
        }
        for (target, count) in [Some(0), None].into_iter().zip(counts) {
            let drawn = false_positives(&mut table, target, 20_000, &random);
            let expected = drawn.weight * drawn.counts as f64 * f64::from(keys);
            let deviation = 4.0 * f64::from(count).sqrt() + 0.05 * expected;
            assert!(
                count > 300 && (f64::from(count) - expected).abs() < deviation,
                "{target:?}: {count}, not {expected}"
            );
        }
    }

    /// Two filters with Eq. 16 as they should be.
    fn good() -> (Vec<Series>, Vec<f64>) {
        let point = |place: i32| {
            let rate = 0.02 * 4_f64.powi(place - LEVELS as i32);
            Point { predicted: rate, measured: rate, counted: 2_000, error: 0.02 }
        };
        let series = |name| Series { name, points: (0..=LEVELS as i32).map(point).collect() };
        (vec![series("the paper's"), series("ours")], vec![0.021, 0.021])
    }

    /// Each verdict holds for good data, and falls with a point that is wrong.
    #[test]
    fn verdicts_fall_with_wrong_data() {
        let (series, bounds) = good();
        assert!(verdicts(&series, &bounds).iter().all(|verdict| verdict.holds));
        let falls = |number: usize, target: usize, measured: f64| -> Vec<usize> {
            let mut wrong = series.clone();
            wrong[number].points[target].measured = measured;
            let verdicts = verdicts(&wrong, &bounds);
            (0..verdicts.len()).filter(|&verdict| !verdicts[verdict].holds).collect()
        };
        let of = |target: usize| series[0].points[target].measured;
        assert_eq!(falls(0, 2, of(2) * 1.2), [3]);
        assert_eq!(falls(1, 2, of(2) * 0.8), [3]);
        assert_eq!(falls(1, 3, of(4)), [0, 3]);
        assert_eq!(falls(0, LEVELS, 0.04), [1, 3]);
        assert_eq!(falls(0, LEVELS - 1, 0.022), [0, 2, 3]);
        assert_eq!(falls(1, LEVELS, 0.0218), [0; 0], "within two standard errors");
        assert_eq!(falls(1, LEVELS, 0.03), [3, 4]);
    }
}
