//! Filter allocation: how many bits of filter each run gets, so that lookups have the fewest false
//! positives for the memory.
//!
//! # The identity
//!
//! With `m` bits of filter per entry, allocated optimally, a zero-result lookup has
//!
//! ```text
//! R = 2^H · e^(-m ln²2)          H = Σ (n_j / N) log2(N / n_j)
//! ```
//!
//! false positives, where `H` is the entropy of "which run is this entry in": the number of bits
//! that would name the run. A shape's limit depends on this one number. A tree of one run has H =
//! 0, leveling with T = 2 has about 2 bits. Every additional run and every entry outside the
//! largest run costs something, and no allocation does better. (The identity holds while all runs
//! have filters; with fewer bits, R is smaller than the identity says, since the largest runs have
//! no filter.)
//!
//! # The problem
//!
//! Let a run with `n` entries be missed by lookups with weight `w` (its misses per lookup). It gets
//! `b` bits per entry, and its filter answers "maybe" for a share `p(b)` of absent keys:
//!
//! ```text
//! minimise   Σ w_j · p(b_j)          subject to   Σ n_j · b_j ≤ M,   b_j ≥ 0
//! ```
//!
//! On the ideal curve, `p(b) = e^(-b ln²2)`, the answer is `p_j = min(1, λ · n_j / w_j)`: **the
//! rate is proportional to the size of the run**, and the largest runs may have no filter
//! ([`ideal`]; Monkey, §4.1 and Appendix B, for any sizes). On the curve of a real filter kind,
//! with whole numbers of probes and almost no effect below one bit per entry, [`Curve::allocate`]
//! solves it by prices.
//!
//! The **weights** describe the lookups ([`weights`]); all are 1 if no lookup finds anything. The
//! **curve** describes the filters. Neither knows levels: half-full trees, runs of any size and
//! entries of any length are not special cases.
//!
//! Tests: `tests/suite/allocate.rs`: an independent optimum of the ideal curve for random trees,
//! brute force for small ones on real curves, Monkey's own algorithm.

pub mod weights;

mod curve;

pub use curve::Curve;

use crate::units::Entries;

/// `ln²2`: a bit per entry multiplies the rate of an ideal filter by `e^(-ln²2)`, about 0.62.
pub const LN2_SQUARED: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;

/// A run to which filter bits are allocated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Its entries.
    pub entries: Entries,
    /// Misses of lookups in this run, in any unit that is the same for all runs; 0 if a filter
    /// would be useless.
    pub weight: f64,
}

impl Load {
    /// A run that every lookup misses, as all runs are if no lookup finds anything.
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

/// False positives over runs with these rates, `Σ weight · rate`: per lookup if weights are per
/// lookup. Monkey, Eq. 3, for runs of any size.
pub fn false_positives(runs: &[Load], rates: impl IntoIterator<Item = f64>) -> f64 {
    runs.iter().zip(rates).map(|(run, rate)| run.weight * rate).sum()
}

/// The entropy of "which run is this entry in", in bits: the `H` of the identity.
pub fn entropy(runs: &[Load]) -> f64 {
    let all: f64 = runs.iter().map(Load::entries).sum();
    let part = |run: &Load| run.entries() / all;
    runs.iter().map(part).filter(|part| *part > 0.0).map(|part| -part * part.log2()).sum()
}

/// The false positive rate of an ideal filter: `e^(-b ln²2)`, Monkey Eq. 2.
pub fn ideal_rate(bits_per_entry: f64) -> f64 {
    (-bits_per_entry * LN2_SQUARED).exp()
}

/// Allocates `bits` on the ideal curve and returns bits per entry for each run: exact, by
/// water-filling in O(n log n).
///
/// Runs lose their filter in order of entries per weight, largest first, until `p_j = λ · n_j /
/// w_j` is below 1 for all others, with λ such that the bits are used up.
///
/// # Panics
/// If `bits` or a weight is negative or no number.
pub fn ideal(runs: &[Load], bits: f64) -> Vec<f64> {
    check(runs, bits);
    let ln_rho = |at: usize| (runs[at].entries() / runs[at].weight).ln();
    // Largest first: these lose their filter first.
    let mut order: Vec<usize> = (0..runs.len()).filter(|&at| runs[at].counts()).collect();
    order.sort_by(|&a, &b| ln_rho(b).total_cmp(&ln_rho(a)));
    // From the smallest on, until one more would cost bits. Runs are compared by the ratio of their
    // ρ, and sums only grow, so that large runs cannot cancel the contribution of small ones.
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
        // Bits beyond those with which the largest of these has none.
        let each = (bits * LN2_SQUARED - needed) / entries;
        for &at in &order[first..] {
            allocated[at] = (each + ln_rho(largest) - ln_rho(at)) / LN2_SQUARED;
        }
    }
    // Rounding must not exceed the budget.
    let used = used(runs, &allocated);
    if used > bits {
        allocated.iter_mut().for_each(|share| *share *= bits / used);
    }
    allocated
}

/// Allocates the same bits per entry to every run: the baseline.
pub fn uniform(runs: &[Load], bits: f64) -> Vec<f64> {
    check(runs, bits);
    let entries: f64 = runs.iter().map(Load::entries).sum();
    vec![if entries > 0.0 { bits / entries } else { 0.0 }; runs.len()]
}

/// The bits that an allocation uses.
pub fn used(runs: &[Load], bits_per_entry: &[f64]) -> f64 {
    runs.iter().zip(bits_per_entry).map(|(run, bits)| run.entries() * bits).sum()
}

fn check(runs: &[Load], bits: f64) {
    assert!(bits >= 0.0 && bits.is_finite(), "{bits} bits to be given out");
    let sound = |run: &Load| run.weight >= 0.0 && run.weight.is_finite();
    assert!(runs.iter().all(sound), "weights are numbers from 0 on: {runs:?}");
}
