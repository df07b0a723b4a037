//! How many bits of filter each run gets, so that lookups search as few runs in vain as the memory
//! allows.
//!
//! # The identity
//!
//! Give a tree `m` bits of filter per entry, spread as well as can be, and a lookup of an absent
//! key searches
//!
//! ```text
//! R = 2^H · e^(-m ln²2)          H = Σ (n_j / N) log2(N / n_j)
//! ```
//!
//! runs in vain, where `H` is the entropy of "which run is this entry in": the number of bits that
//! would say it. So what a shape can reach depends on one number of it. A tree that is one run has
//! H = 0. Leveling with T = 2 has about 2 bits; every run that is added, and every entry that
//! stands outside of the largest, costs something; and no allocation gets below. (It holds while
//! all runs have filters; with fewer bits than that, R is less than the identity says, since the
//! largest runs go without.)
//!
//! # What is solved
//!
//! A run with `n` entries, past which lookups go in vain with weight `w` (how often that is asked
//! of it), gets `b` bits per entry, and its filter answers "perhaps" for a share `p(b)` of absent
//! keys:
//!
//! ```text
//! minimise   Σ w_j · p(b_j)          subject to   Σ n_j · b_j ≤ M,   b_j ≥ 0
//! ```
//!
//! On the ideal curve, `p(b) = e^(-b ln²2)`, the answer is `p_j = min(1, λ · n_j / w_j)`: **the
//! rate is proportional to the size of the run**, and the largest may go without a filter
//! ([`ideal`]; Monkey, §4.1 and Appendix B, for any sizes). On a real kind's curve, whose probes
//! are whole numbers and which a filter of less than a bit per entry hardly moves,
//! [`Curve::allocate`] solves it by prices.
//!
//! The **weights** say what lookups there are ([`weights`]); all 1 if none of them finds anything.
//! The **curve** says which filters there are. Neither knows of levels: half-full trees, runs of
//! any size and entries of any length are not special.
//!
//! Tests: `tests/suite/allocate.rs`: an independent optimum of the ideal curve for random trees,
//! brute force for small ones on real curves, Monkey's own algorithm.

pub mod weights;

mod curve;

pub use curve::Curve;

use crate::units::Entries;

/// `ln²2`: a bit per entry multiplies the rate of an ideal filter by `e^(-ln²2)`, about 0.62.
pub const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;

/// A run that filters are given to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Its entries.
    pub entries: Entries,
    /// How often lookups pass it in vain, in any unit that is the same for all runs; 0 if never, so
    /// that a filter would be for nothing.
    pub weight: f64,
}

impl Load {
    /// A run that each lookup passes: what all runs are if no lookup finds anything.
    pub fn new(entries: u64) -> Self {
        Self { entries: Entries(entries), weight: 1.0 }
    }

    fn entries(&self) -> f64 {
        self.entries.0 as f64
    }

    /// True if a filter could be of use.
    fn counts(&self) -> bool {
        self.entries.0 > 0 && self.weight > 0.0
    }
}

/// The sum of `weight · rate` over runs with these rates: searches in vain, for each lookup if
/// weights are per lookup. Monkey, Eq. 3, for runs of any size.
pub fn searches_in_vain(runs: &[Load], rates: impl IntoIterator<Item = f64>) -> f64 {
    runs.iter().zip(rates).map(|(run, rate)| run.weight * rate).sum()
}

/// The entropy of "which run is this entry in", in bits: the `H` of the identity.
pub fn entropy(runs: &[Load]) -> f64 {
    let all: f64 = runs.iter().map(Load::entries).sum();
    let part = |run: &Load| run.entries() / all;
    runs.iter().map(part).filter(|part| *part > 0.0).map(|part| -part * part.log2()).sum()
}

/// The rate of an ideal filter with so many bits per entry: `e^(-b ln²2)`, Monkey Eq. 2.
pub fn ideal_rate(bits_per_entry: f64) -> f64 {
    (-bits_per_entry * LN2_SQUARED).exp()
}

/// Bits per entry for each run, on the ideal curve, that use `bits` in all: exact, by water-filling
/// in O(n log n).
///
/// Runs are left without a filter from the one with the most entries per weight on, until `p_j = λ
/// · n_j / w_j` stays below 1 for all others, where λ is such that the bits are used up.
///
/// # Panics
/// If `bits` or a weight is negative or no number.
pub fn ideal(runs: &[Load], bits: f64) -> Vec<f64> {
    check(runs, bits);
    let ln_rho = |at: usize| (runs[at].entries() / runs[at].weight).ln();
    // Largest first: these go without a filter first.
    let mut order: Vec<usize> = (0..runs.len()).filter(|&at| runs[at].counts()).collect();
    order.sort_by(|&a, &b| ln_rho(b).total_cmp(&ln_rho(a)));
    // From the smallest on, until one more would cost bits. A run is told from the next by the ratio of
    // their ρ, and sums only grow, so that large runs cannot cancel what small ones come to.
    let (mut first, mut entries, mut needed) = (order.len(), 0.0, 0.0);
    while let Some(larger) = first.checked_sub(1) {
        let more = if entries > 0.0 { entries * (ln_rho(order[larger]) - ln_rho(order[first])) } else { 0.0 };
        if needed + more > bits * LN2_SQUARED {
            break;
        }
        (first, entries, needed) = (larger, entries + runs[order[larger]].entries(), needed + more);
    }
    let mut allocated = vec![0.0; runs.len()];
    if let Some(&largest) = order.get(first) {
        // What each entry has beyond that with which the largest of these has none.
        let each = (bits * LN2_SQUARED - needed) / entries;
        for &at in &order[first..] {
            allocated[at] = (each + ln_rho(largest) - ln_rho(at)) / LN2_SQUARED;
        }
    }
    // Rounding must not spend more than there is.
    let used = used(runs, &allocated);
    if used > bits {
        allocated.iter_mut().for_each(|share| *share *= bits / used);
    }
    allocated
}

/// The same bits per entry for every run: what is compared with.
pub fn uniform(runs: &[Load], bits: f64) -> Vec<f64> {
    check(runs, bits);
    let entries: f64 = runs.iter().map(Load::entries).sum();
    vec![if entries > 0.0 { bits / entries } else { 0.0 }; runs.len()]
}

/// The bits that an allocation takes.
pub fn used(runs: &[Load], bits_per_entry: &[f64]) -> f64 {
    runs.iter().zip(bits_per_entry).map(|(run, bits)| run.entries() * bits).sum()
}

fn check(runs: &[Load], bits: f64) {
    assert!(bits >= 0.0 && bits.is_finite(), "{bits} bits to be given out");
    let sound = |run: &Load| run.weight >= 0.0 && run.weight.is_finite();
    assert!(runs.iter().all(sound), "weights are numbers from 0 on: {runs:?}");
}
