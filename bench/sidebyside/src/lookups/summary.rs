//! What slices sum up to: medians of throughput, counts of false positives, and which filter is
//! better, as far as the figures tell.

use common::numbers::median;

use super::plan::{FilterKind, Workload};
use super::tree::TreeFacts;
use super::{FilterFacts, Measured, Results};
use crate::plan::Reads;

/// One filter of one tree, with all of its slices.
pub struct Cell<'a> {
    pub tree: &'a TreeFacts,
    pub facts: &'a FilterFacts,
    pub slices: Vec<&'a Measured>,
}

/// Throughput over the rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
    pub rounds: usize,
}

/// Events that were counted in so many lookups.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counted {
    pub events: u64,
    pub lookups: u64,
}

/// Whether one filter is better than another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Better,
    /// The difference is within what chance or the spread of the rounds explains.
    Unsure,
    Worse,
}

/// What is compared of two filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    FalsePositives(Workload),
    Throughput(Reads, Workload),
}

/// Chucky beside the best of the other filters.
pub struct Comparison<'a> {
    pub best: &'a str,
    /// Chucky's figure divided by that of the best.
    pub ratio: f64,
    pub verdict: Verdict,
}

/// Cells of a tree with one size of Chucky, in the order of filters.
pub fn cells<'a>(results: &'a Results, tree: &'a TreeFacts, chucky_bits: f64) -> Vec<Cell<'a>> {
    let filters = results.filters.iter().filter(|facts| facts.tree == tree.name && facts.chucky_bits == chucky_bits);
    let cell = |facts: &'a FilterFacts| {
        let is_of = |measured: &&Measured| {
            measured.tree == facts.tree && measured.chucky_bits == chucky_bits && measured.filter == facts.filter
        };
        Cell { tree, facts, slices: results.measured.iter().filter(is_of).collect() }
    };
    filters.map(cell).filter(|cell| !cell.slices.is_empty()).collect()
}

impl Cell<'_> {
    fn of(&self, reads: Reads, workload: Workload) -> impl Iterator<Item = &Measured> {
        self.slices
            .iter()
            .copied()
            .filter(move |measured| measured.reads == reads.name() && measured.workload == workload.name())
    }

    pub fn rates(&self, reads: Reads, workload: Workload) -> Option<Rates> {
        Rates::of(self.of(reads, workload).map(|measured| measured.sample.ops_per_s))
    }

    /// Of all slices, cached or not: what a filter answers does not depend on that.
    pub fn false_positives(&self, workload: Workload) -> Counted {
        self.counted(workload, |measured| measured.false_positives)
    }

    /// Blocks that were searched, and answers of the entry cache.
    pub fn searches(&self, workload: Workload) -> Counted {
        self.counted(workload, |measured| measured.searches)
    }

    fn counted(&self, workload: Workload, events: impl Fn(&Measured) -> u64) -> Counted {
        let slices = Reads::ALL.into_iter().flat_map(|reads| self.of(reads, workload));
        slices.fold(Counted::default(), |sum, measured| Counted {
            events: sum.events + events(measured),
            lookups: sum.lookups + measured.sample.operations as u64,
        })
    }

    /// Blocks read past the page cache for each lookup.
    pub fn blocks(&self, workload: Workload) -> Option<f64> {
        let (mut blocks, mut lookups) = (0.0, 0.0);
        for measured in self.of(Reads::Direct, workload) {
            let operations = measured.sample.operations as f64;
            (blocks, lookups) = (blocks + measured.sample.blocks? * operations, lookups + operations);
        }
        (lookups > 0.0).then(|| blocks / lookups)
    }

    /// The figure for each lookup or second, `None` if it was not measured.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::FalsePositives(workload) => self.false_positives(workload).each(),
            Figure::Throughput(reads, workload) => self.rates(reads, workload).map(|rates| rates.median),
        }
    }

    fn is_chucky(&self) -> bool {
        self.facts.filter == FilterKind::Chucky.name()
    }

    fn compared(&self, other: &Self, figure: Figure) -> Option<Verdict> {
        match figure {
            Figure::FalsePositives(workload) => {
                Some(fewer(self.false_positives(workload), other.false_positives(workload)))
            }
            Figure::Throughput(reads, workload) => {
                Some(faster(self.rates(reads, workload)?, other.rates(reads, workload)?))
            }
        }
    }
}

/// Chucky beside the best of the others. `None` if there is no other, or if one of them was not
/// measured.
pub fn compare<'a>(cells: &[Cell<'a>], figure: Figure) -> Option<Comparison<'a>> {
    let own = cells.iter().find(|cell| cell.is_chucky())?;
    let others = cells.iter().filter(|cell| !cell.is_chucky() && cell.figure(figure).is_some());
    let value = |cell: &&Cell<'a>| cell.figure(figure).unwrap_or(f64::NAN);
    let best = match figure {
        Figure::FalsePositives(_) => others.min_by(|a, b| value(a).total_cmp(&value(b)))?,
        Figure::Throughput(..) => others.max_by(|a, b| value(a).total_cmp(&value(b)))?,
    };
    let ratio = own.figure(figure)? / best.figure(figure)?;
    let facts = best.facts;
    Some(Comparison { best: &facts.filter, ratio, verdict: own.compared(best, figure)? })
}

impl Rates {
    /// `None` without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        if values.is_empty() {
            return None;
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(0.0, f64::max);
        Some(Self { rounds: values.len(), median: median(values.into_iter()), least, greatest })
    }
}

impl Counted {
    /// `None` without lookups.
    pub fn each(self) -> Option<f64> {
        (self.lookups > 0).then(|| self.events as f64 / self.lookups as f64)
    }
}

/// Standard deviations by which two counts must differ for a verdict.
const DEVIATIONS: f64 = 2.0;

/// Whether `own` events are rarer. Events are rare and independent, so the deviation of a count is
/// its root.
pub fn fewer(own: Counted, other: Counted) -> Verdict {
    let (Some(own_each), Some(other_each)) = (own.each(), other.each()) else { return Verdict::Unsure };
    let variance = |counted: Counted| counted.events as f64 / (counted.lookups as f64).powi(2);
    let sure = DEVIATIONS * (variance(own) + variance(other)).sqrt();
    match own_each - other_each {
        difference if difference.abs() <= sure => Verdict::Unsure,
        difference if difference < 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// Two rates that are nearer to each other than this, as a share, are never told apart.
const LEAST_DIFFERENCE: f64 = 0.03;

/// Whether `own` is faster: the spreads over the rounds do not overlap, and the medians differ by
/// more than [`LEAST_DIFFERENCE`]. One round has no spread, and gives no verdict.
pub fn faster(own: Rates, other: Rates) -> Verdict {
    let ratio = own.median / other.median;
    if own.rounds.min(other.rounds) < 2 {
        Verdict::Unsure
    } else if own.least > other.greatest && ratio > 1.0 + LEAST_DIFFERENCE {
        Verdict::Better
    } else if own.greatest < other.least && ratio < 1.0 - LEAST_DIFFERENCE {
        Verdict::Worse
    } else {
        Verdict::Unsure
    }
}

/// The least size from which on the verdict is [`Verdict::Better`] for all; `None` if it is not for
/// the largest. Sizes come in ascending order.
pub fn better_from(verdicts: &[(u64, Verdict)]) -> Option<u64> {
    let better = verdicts.iter().rev().take_while(|(_, verdict)| *verdict == Verdict::Better);
    better.last().map(|(size, _)| *size)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::circumstances::Circumstances;
    use crate::lookups::tree::Measure;
    use crate::slice::Sample;

    /// A tree of so many runs, and slices of two filters.
    pub(in crate::lookups) fn results(rounds: usize) -> Results {
        let tree = |size| TreeFacts {
            name: format!("runs/{size}"),
            group: "runs".to_owned(),
            size,
            policy: "tiering:T=4".to_owned(),
            memtables: 14,
            memtable_bytes: 1 << 20,
            runs: vec![size / 2, size.div_ceil(2)],
            entries: 1000,
            load_s: 1.0,
        };
        let (mut filters, mut measured) = (Vec::new(), Vec::new());
        for size in [5, 10, 35] {
            for (filter, false_positives, per_s) in [("chucky", 1000, 1e6), ("blocked", 400 * size, 5e6 / size as f64)]
            {
                let tree = format!("runs/{size}");
                let measure = Measure {
                    specification: format!("{filter}:bits=14.2"),
                    bits: 14.3,
                    predicted_absent: 0.1,
                    predicted_present: 0.05,
                };
                filters.push(FilterFacts { tree: tree.clone(), chucky_bits: 14.2, filter: filter.to_owned(), measure });
                for (reads, workload) in Reads::ALL.into_iter().flat_map(|r| Workload::ALL.map(|w| (r, w))) {
                    for round in 0..rounds {
                        measured.push(Measured {
                            tree: tree.clone(),
                            chucky_bits: 14.2,
                            filter: filter.to_owned(),
                            reads: reads.name().to_owned(),
                            workload: workload.name().to_owned(),
                            round,
                            sample: sample(per_s * (1.0 + 0.01 * round as f64)),
                            false_positives,
                            searches: false_positives,
                        });
                    }
                }
            }
        }
        Results {
            circumstances: Circumstances::now(std::path::Path::new("/"), "", rounds),
            entries: 1000,
            key_bytes: 16,
            value_bytes: 48,
            chucky_bits: vec![14.2],
            slice_ms: 10,
            small_cache_bytes: 4096,
            trees: [5, 10, 35].map(tree).to_vec(),
            filters,
            contenders: Vec::new(),
            contender_bits: 14.2,
            measured,
        }
    }

    fn sample(ops_per_s: f64) -> Sample {
        let (blocks, operations) = (Some(1.25), 100_000);
        Sample { ops_per_s, p50_ns: 1, p99_ns: 2, cpu_ns: 3.0, blocks, device_bytes: 0.0, operations, gets: operations }
    }

    /// Medians, spreads and counts are over all rounds, those of false positives cached or not.
    #[test]
    fn slices_are_summed_up() {
        let results = results(3);
        let cells = cells(&results, &results.trees[0], 14.2);
        assert_eq!(cells.len(), 2);
        let rates = cells[0].rates(Reads::Cached, Workload::Absent).expect("rounds");
        assert_eq!(rates, Rates { median: 1.01e6, least: 1e6, greatest: 1.02e6, rounds: 3 });
        assert_eq!(cells[0].false_positives(Workload::Absent), Counted { events: 6000, lookups: 600_000 });
        assert_eq!(cells[1].blocks(Workload::Uniform), Some(1.25));
        assert!(super::cells(&results, &results.trees[0], 11.7).is_empty());
    }

    /// With more runs Bloom filters have more false positives and are slower; the table of one
    /// filter does not change.
    #[test]
    fn verdicts_follow_the_figures() {
        let results = results(2);
        let verdicts = |figure| {
            let of = |tree| compare(&cells(&results, tree, 14.2), figure).expect("both").verdict;
            results.trees.iter().map(|tree| (tree.size, of(tree))).collect::<Vec<_>>()
        };
        let fewest = verdicts(Figure::FalsePositives(Workload::Absent));
        assert_eq!(fewest.iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(), [Verdict::Better; 3]);
        let fastest = verdicts(Figure::Throughput(Reads::Cached, Workload::Absent));
        assert_eq!(fastest, [(5, Verdict::Unsure), (10, Verdict::Better), (35, Verdict::Better)]);
        assert_eq!((better_from(&fewest), better_from(&fastest)), (Some(5), Some(10)));
        assert_eq!(better_from(&[(5, Verdict::Better), (10, Verdict::Worse)]), None);
    }

    /// Counts that differ by chance give no verdict; nor do filters without another one.
    #[test]
    fn chance_gives_no_verdict() {
        let counted = |events| Counted { events, lookups: 1_000_000 };
        assert_eq!(fewer(counted(100), counted(110)), Verdict::Unsure);
        assert_eq!(fewer(counted(100), counted(200)), Verdict::Better);
        assert_eq!(fewer(counted(10_000), counted(9_000)), Verdict::Worse);
        assert_eq!(fewer(counted(0), Counted::default()), Verdict::Unsure);
        let mut results = results(1);
        results.filters.retain(|facts| facts.filter == "chucky");
        let cells = cells(&results, &results.trees[0], 14.2);
        assert!(compare(&cells, Figure::FalsePositives(Workload::Absent)).is_none());
    }
}
