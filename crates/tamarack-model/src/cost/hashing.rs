//! What hashing costs a lookup, and what it saves to hash once (Zhu, Mun, Raman, Athanassoulis: *Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern
//! Storage Devices*, DaMoN 2021).
//!
//! A lookup that asks a filter makes a digest of the key and probes. If all filters of a tree are asked with one digest, it is made once:
//!
//! ```text
//! each filter its own    Σ asked_j · (T_H + T_P) + reads · T_D
//! one digest for all     T_H + Σ asked_j · T_P + reads · T_D
//! ```
//!
//! where `asked_j` says how often a lookup comes to the filter of run j, and `reads` how many blocks it reads. These are exact sums over runs
//! ([`Lookup`]); the paper's closed forms (Eq. 4 to 9) are for full trees of one size ratio and one rate ([`Closed`]), and corrected where tests against the sums
//! showed misprints.

use super::lookup;

/// What one step of a lookup takes, in any unit of time that is the same for all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// `T_H`: a digest of a key.
    pub hash: f64,
    /// `T_P`: asking a filter with a digest.
    pub probe: f64,
    /// `T_D`: getting a block and searching it.
    pub block: f64,
}

/// What a mean lookup does in a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// Filters that are asked.
    pub asked: f64,
    /// Blocks that are read.
    pub reads: f64,
}

impl Lookup {
    /// Over runs, young to old, with these rates, where a share `found` of lookups find something, in run j with probability `targets[j]`. Runs without a
    /// filter have the rate 1.
    pub fn over(rates: &[f64], targets: &[f64], found: f64) -> Self {
        let mut reached = 1.0;
        let mut asked = 0.0;
        for (rate, target) in rates.iter().zip(targets) {
            asked += if *rate < 1.0 { reached } else { 0.0 };
            reached -= found * target;
        }
        Self { asked, reads: lookup::mixed(rates, targets, found) }
    }

    /// The time if each filter hashes for itself. Eq. 4 and 5, summed.
    pub fn hashed_by_each(&self, times: &Times) -> f64 {
        self.asked * (times.hash + times.probe) + self.reads * times.block
    }

    /// The time if one digest serves all. Eq. 7.
    pub fn hashed_once(&self, times: &Times) -> f64 {
        if self.asked == 0.0 { 0.0 } else { times.hash + self.asked * times.probe + self.reads * times.block }
    }

    /// The share of the time that one digest for all saves. Eq. 8 and 9.
    pub fn gain(&self, times: &Times) -> f64 {
        1.0 - self.hashed_once(times) / self.hashed_by_each(times)
    }
}

/// A full tree of one size ratio, whose filters all have one rate, as the paper has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closed {
    /// `T`.
    pub ratio: f64,
    /// `L`.
    pub levels: u32,
    /// `α`: the share of lookups that find nothing.
    pub empty: f64,
    /// `f_p`.
    pub rate: f64,
}

impl Closed {
    /// `x = Σ_{i=2..L} Σ_{j<i} β_j`: how many levels a mean lookup does not come to, since it found its key before.
    fn spared(&self) -> f64 {
        let (t, levels) = (self.ratio, f64::from(self.levels));
        (1.0 - self.empty) / (t - 1.0) * (1.0 - levels * (t - 1.0) / (t.powf(levels) - 1.0))
    }

    /// What a mean lookup does under leveling, Eq. 4.
    pub fn leveling(&self) -> Lookup {
        let asked = f64::from(self.levels) - self.spared();
        let found = 1.0 - self.empty;
        Lookup { asked, reads: found + (asked - found) * self.rate }
    }

    /// What a mean lookup does with `runs` visible runs in each level, Eq. 5 and 6, which have T of them; with the false positives that a lookup meets in younger runs of the
    /// level in which it finds its key, which they leave out.
    pub fn tiering(&self, runs: f64) -> Lookup {
        let found = 1.0 - self.empty;
        // Levels that a mean lookup goes through in vain.
        let levels = f64::from(self.levels) - self.spared() - found;
        let younger = (runs - 1.0) / 2.0;
        Lookup {
            asked: found * (younger + 1.0) + runs * levels,
            reads: found + (found * younger + runs * levels) * self.rate,
        }
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

    /// The gain is that of hashing once less often than filters are asked: Eq. 8, `(L - 1 - x) T_H / cost`.
    #[test]
    fn gain_is_the_papers() {
        let closed = Closed { ratio: 10.0, levels: 4, empty: 0.5, rate: 0.01 };
        let times = Times { hash: 3.0, probe: 1.0, block: 100.0 };
        let lookup = closed.leveling();
        let expected = (4.0 - 1.0 - closed.spared()) * times.hash / lookup.hashed_by_each(&times);
        assert!((lookup.gain(&times) - expected).abs() < 1e-12);
        let near_x = (1.0 - closed.empty) / (closed.ratio - 1.0);
        assert!((closed.spared() / near_x - 1.0).abs() < 0.01, "the paper's approximation of x");
    }
}
