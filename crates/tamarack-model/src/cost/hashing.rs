//! Hashing cost of a lookup, and the gain of hashing once (Zhu, Mun, Raman, Athanassoulis:
//! *Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern Storage Devices*, DaMoN 2021).
//!
//! A lookup that probes a filter computes a digest of the key first. If all filters of a tree use
//! the same digest, it is computed once:
//!
//! ```text
//! each filter its own    Σ asked_j · (T_H + T_P) + reads · T_D + runs · T_N + T_R
//! one digest for all     T_H + Σ asked_j · T_P + reads · T_D + runs · T_N + T_R
//! ```
//!
//! where `asked_j` is the number of probes of run j's filter per lookup, `reads` the number of
//! blocks read, and `runs` the number of runs visited. `T_N` and `T_R` are the remaining costs of a
//! lookup, per run and constant; the paper omits them (0 in [`Times::of_paper`]). They do not
//! change the difference of the two lines, but the relative gain: where all data is in memory they
//! are as large as the rest. A processor also overlaps operations, so that a hash takes less of a
//! lookup's time than by itself ([`Overlap`]). The sums are exact sums over runs ([`Lookup`]); the
//! paper's closed forms (Eq. 4 to 9) are for full trees of one size ratio and one rate
//! ([`Closed`]), corrected where tests against the sums showed misprints.

use super::lookup;

/// The duration of one step of a lookup, in any unit of time that is the same for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// `T_H`: computing the digest of a key.
    pub hash: f64,
    /// `T_P`: probing a filter with a digest.
    pub probe: f64,
    /// `T_D`: reading a block and searching it.
    pub block: f64,
    /// `T_N`: visiting a run and finding its table, without the filter. Not in the paper.
    pub run: f64,
    /// `T_R`: the remaining time of a lookup, for any tree. Not in the paper.
    pub lookup: f64,
}

impl Times {
    /// The times that the paper has.
    pub fn of_paper(hash: f64, probe: f64, block: f64) -> Self {
        Self { hash, probe, block, run: 0.0, lookup: 0.0 }
    }
}

/// The mean steps of a lookup in a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// Filters probed.
    pub asked: f64,
    /// Runs visited, with a filter or without.
    pub runs: f64,
    /// Positive filters, other than the first one probed.
    pub later_positives: f64,
    /// Blocks read.
    pub reads: f64,
}

/// The part of a hash that takes no time, because the processor overlaps it with other work of the
/// lookup; in the same unit. Not in the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overlap {
    /// `T_O`: if the filter is negative, and the lookup goes on to the next run.
    pub negative: f64,
    /// `T_S`: if the filter is positive. The processor predicts that, and begins to search before
    /// the hash is known.
    pub positive: f64,
}

impl Lookup {
    /// Steps over runs, young to old, with these rates, where a share `found` of lookups find
    /// something, in run j with probability `targets[j]`. Runs without a filter have the rate 1.
    pub fn over(rates: &[f64], targets: &[f64], found: f64) -> Self {
        let mut reached = 1.0;
        let (mut asked, mut runs, mut later_positives) = (0.0, 0.0, 0.0);
        for (rate, target) in rates.iter().zip(targets) {
            runs += reached;
            if *rate < 1.0 {
                let here = found * target;
                later_positives += if asked > 0.0 { here + rate * (reached - here) } else { 0.0 };
                asked += reached;
            }
            reached -= found * target;
        }
        Self { asked, runs, later_positives, reads: lookup::mixed(rates, targets, found) }
    }

    /// The time with a digest per filter. Eq. 4 and 5, summed.
    pub fn hashed_by_each(&self, times: &Times) -> f64 {
        self.asked * times.hash + self.apart_from_hashing(times)
    }

    /// The time with one digest for all filters; it is always computed, even if there is no filter
    /// to probe. Eq. 7.
    pub fn hashed_once(&self, times: &Times) -> f64 {
        times.hash + self.apart_from_hashing(times)
    }

    fn apart_from_hashing(&self, times: &Times) -> f64 {
        self.asked * times.probe + self.reads * times.block + self.runs * times.run + times.lookup
    }

    /// The share of the time that one digest for all saves; 0 if nothing takes any time. Eq. 8 and
    /// 9.
    pub fn gain(&self, times: &Times) -> f64 {
        let by_each = self.hashed_by_each(times);
        if by_each == 0.0 { 0.0 } else { 1.0 - self.hashed_once(times) / by_each }
    }

    /// The time that one digest for all saves, with hashes that overlap other work; the first
    /// filter's hash is always computed.
    pub fn saved(&self, times: &Times, overlap: &Overlap) -> f64 {
        (self.asked - 1.0) * (times.hash - overlap.negative)
            - self.later_positives * (overlap.positive - overlap.negative)
    }

    /// [`gain`](Self::gain), with hashes that overlap other work.
    pub fn gain_overlapping(&self, times: &Times, overlap: &Overlap) -> f64 {
        let saved = self.saved(times, overlap);
        if saved == 0.0 { 0.0 } else { saved / (self.hashed_once(times) + saved) }
    }
}

/// A full tree of one size ratio, whose filters all have one rate, as in the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed {
    /// `T`.
    pub ratio: f64,
    /// `L`.
    pub levels: u32,
    /// `α`: the share of zero-result lookups.
    pub empty: f64,
    /// `f_p`.
    pub rate: f64,
}

impl Closed {
    /// `x = Σ_{i=2..L} Σ_{j<i} β_j`: the mean number of levels that a lookup does not visit, since
    /// it found its key before.
    fn spared(&self) -> f64 {
        let (t, levels) = (self.ratio, f64::from(self.levels));
        (1.0 - self.empty) / (t - 1.0) * (1.0 - levels * (t - 1.0) / (t.powf(levels) - 1.0))
    }

    /// The probability that the youngest run's filter is positive, given the entries of the
    /// smallest level.
    fn first_perhaps(&self, runs: f64) -> f64 {
        let (t, levels) = (self.ratio, f64::from(self.levels));
        let here = (1.0 - self.empty) * (t - 1.0) / (t.powf(levels) - 1.0) / runs;
        here + (1.0 - here) * self.rate
    }

    /// Mean steps of a lookup under leveling, Eq. 4.
    pub fn leveling(&self) -> Lookup {
        let asked = f64::from(self.levels) - self.spared();
        let found = 1.0 - self.empty;
        let reads = found + (asked - found) * self.rate;
        Lookup { asked, runs: asked, later_positives: reads - self.first_perhaps(1.0), reads }
    }

    /// Mean steps of a lookup with `runs` visible runs in each level, Eq. 5 and 6, which have T of
    /// them; with the false positives in younger runs of the level in which a lookup finds its key,
    /// which the paper omits.
    pub fn tiering(&self, runs: f64) -> Lookup {
        let found = 1.0 - self.empty;
        // The number of levels in which a mean lookup finds nothing.
        let levels = f64::from(self.levels) - self.spared() - found;
        let younger = (runs - 1.0) / 2.0;
        let asked = found * (younger + 1.0) + runs * levels;
        let reads = found + (found * younger + runs * levels) * self.rate;
        Lookup { asked, runs: asked, later_positives: reads - self.first_perhaps(runs), reads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The closed forms are the sums over the runs of a full tree.
    #[test]
    fn closed_forms_are_the_sums() {
        for ratio in [2.0_f64, 3.0, 10.0] {
            for levels in 1..=6 {
                for runs in [1, 2, 9] {
                    for empty in [0.0, 0.3, 1.0] {
                        let sizes = (0..levels).map(|level| ratio.powi(level as i32));
                        let all: f64 = sizes.clone().sum();
                        let targets: Vec<f64> = sizes
                            .flat_map(|size| std::iter::repeat_n(size / all / f64::from(runs), runs as usize))
                            .collect();
                        let sum = Lookup::over(&vec![0.01; targets.len()], &targets, 1.0 - empty);
                        let closed = Closed { ratio, levels, empty, rate: 0.01 };
                        let of_tiering = closed.tiering(f64::from(runs));
                        let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs().max(1.0);
                        assert!(near(of_tiering.asked, sum.asked) && near(of_tiering.reads, sum.reads));
                        assert!(
                            near(of_tiering.later_positives, sum.later_positives) && near(of_tiering.runs, sum.runs)
                        );
                        if runs == 1 {
                            assert!(
                                near(closed.leveling().asked, sum.asked) && near(closed.leveling().reads, sum.reads)
                            );
                        }
                    }
                }
            }
        }
    }

    /// The gain is that of computing one hash instead of one per filter: Eq. 8, `(L - 1 - x) T_H /
    /// cost`.
    #[test]
    fn gain_is_the_papers() {
        let closed = Closed { ratio: 10.0, levels: 4, empty: 0.5, rate: 0.01 };
        let times = Times::of_paper(3.0, 1.0, 100.0);
        let lookup = closed.leveling();
        let expected = (4.0 - 1.0 - closed.spared()) * times.hash / lookup.hashed_by_each(&times);
        assert!((lookup.gain(&times) - expected).abs() < 1e-12);
        let near_x = (1.0 - closed.empty) / (closed.ratio - 1.0);
        assert!((closed.spared() / near_x - 1.0).abs() < 0.01, "the paper's approximation of x");
        // The omitted costs change only the total to which the gain is relative.
        let whole = Times { run: 2.0, lookup: 7.0, ..times };
        let more = lookup.hashed_by_each(&whole) - lookup.hashed_by_each(&times);
        assert!((more - (2.0 * lookup.runs + 7.0)).abs() < 1e-12);
        let saved = |times| lookup.hashed_by_each(times) - lookup.hashed_once(times);
        assert!((saved(&whole) - saved(&times)).abs() < 1e-12);
        assert!((lookup.gain(&whole) - saved(&times) / lookup.hashed_by_each(&whole)).abs() < 1e-12);
    }

    /// Runs without filters are visited, but not probed.
    #[test]
    fn runs_without_filters() {
        let lookup = Lookup::over(&[0.1, 0.2, 1.0], &[0.2, 0.3, 0.5], 0.5);
        assert!((lookup.asked - 1.9).abs() < 1e-12 && (lookup.runs - 2.65).abs() < 1e-12);
        // Of the second filter: found 0.15, and 0.2 of the other lookups that reach it.
        assert!((lookup.later_positives - (0.15 + 0.2 * 0.75)).abs() < 1e-12);
        let times = Times { hash: 5.0, probe: 1.0, block: 10.0, run: 2.0, lookup: 7.0 };
        assert!((lookup.gain_overlapping(&times, &Overlap::default()) - lookup.gain(&times)).abs() < 1e-12);
        let nothing = Times::of_paper(0.0, 0.0, 0.0);
        assert_eq!((lookup.gain(&nothing), lookup.gain_overlapping(&nothing, &Overlap::default())), (0.0, 0.0));
        let saved = lookup.saved(&times, &Overlap { negative: 1.0, positive: 3.0 });
        assert!((saved - ((0.9 - 0.3) * 4.0 + 0.3 * 2.0)).abs() < 1e-12);
    }
}
