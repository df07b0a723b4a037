//! The uncertainty guard: the cost of a design under the worst workload that is not too far from
//! the expected one, and the design for which that is least.
//!
//! A design that is best for an expected workload may be bad for another one. The **distance** of a
//! workload `w'` from the expected `w`, both shares of operations, is the Kullback-Leibler
//! divergence, in nats:
//!
//! ```text
//! KL(w' ‖ w) = Σ w'_i ln(w'_i / w_i)
//! ```
//!
//! All workloads with a divergence of at most ρ make a ball around the expected one. MOOSE (section
//! 5) names this guard for SMOOSE; it is that of Endure. The worst cost within the ball and its
//! dual, for costs `c_i` of the operations:
//!
//! ```text
//! max Σ w'_i c_i   subject to   KL(w' ‖ w) ≤ ρ
//!
//! =  min over λ > 0 of   λ ρ + λ ln Σ w_i e^(c_i / λ)
//!
//! reached by   w'_i  ∝  w_i e^(c_i / λ)      for the λ with which KL(w' ‖ w) = ρ
//! ```
//!
//! So the worst workload has more of what is expensive. With ρ = 0 it is the expected one. From
//! `ρ = -ln Σ w_i` on, summed over the most expensive operations, it has these alone, and costs as
//! much as they do. An operation that is not expected at all stays away, however large ρ is: give
//! it a small share if it may come.
//!
//! **How it is solved.** The divergence rises with `1/λ`, from 0, so bisection finds λ. Costs are
//! measured downwards from the largest, in parts of their spread: no exponential overflows, and
//! none of the sums cancels where it matters. Results are within 10⁻⁹ of the largest cost.
//!
//! How large a ρ is: of three operations that are expected equally often, one may have a share of ½
//! with ρ = 0.06, and of 0.8 with ρ = 0.46. From workloads of the past, ρ is the largest
//! [`divergence`] of one from their mean.
//!
//! ```
//! use tamarack_model::navigator::guard;
//!
//! // Scans, updates and lookups, in blocks. The first design is better as expected, the second
//! // where scans become more.
//! let designs = [[12.0, 1.0, 0.5], [4.0, 4.0, 0.3]];
//! let expected = [0.2, 0.6, 0.2];
//! let choice = |rho| guard::least_worst_case(&designs, &expected, rho).map(|(design, _)| design);
//! assert_eq!([0.0, 0.2].map(choice), [Some(0), Some(1)]);
//! ```
//!
//! Tests: `tests/suite/guard.rs`: brute force over workloads, and the dual as a certificate.

/// The worst workload within a divergence of the expected one.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstCase {
    /// What an operation of it costs on average, in the unit of the costs.
    pub cost: f64,
    /// Its shares of operations, which add up to 1.
    pub workload: Vec<f64>,
}

/// Finds the workload with the largest mean cost among all whose [`divergence`] from the expected
/// one is at most `divergence_max`, in nats, from 0 to infinity. `costs` are those of the
/// operations, and `expected` their shares, in any unit. MOOSE, section 5.
///
/// # Panics
/// If there are not as many costs as shares, a cost is not finite, a share is negative or not
/// finite, all shares are 0, or the divergence is negative or not a number.
pub fn worst_case(costs: &[f64], expected: &[f64], divergence_max: f64) -> WorstCase {
    assert!(divergence_max >= 0.0, "a divergence of at most {divergence_max}");
    let tilted = Tilted::new(costs, normalized(costs, expected));
    let workload = tilted.workload(tilted.steepness(divergence_max));
    WorstCase { cost: tilted.cost(&workload), workload }
}

/// Finds the design whose [`worst_case`] is least, the first of equal ones, given the costs of the
/// operations under each: its index and its worst case. `None` if there is no design.
///
/// # Panics
/// As [`worst_case`], for any design.
pub fn least_worst_case<D: AsRef<[f64]>>(
    designs: &[D],
    expected: &[f64],
    divergence_max: f64,
) -> Option<(usize, WorstCase)> {
    let of = |design: &D| worst_case(design.as_ref(), expected, divergence_max);
    designs.iter().map(of).enumerate().min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost))
}

/// The Kullback-Leibler divergence of a workload from the expected one, `Σ w'_i ln(w'_i / w_i)`, in
/// nats: 0 if they are the same, infinite if it has an operation that is not expected. Shares add
/// up to 1.
///
/// # Panics
/// If there are not as many shares of one as of the other.
pub fn divergence(workload: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(workload.len(), expected.len(), "shares of {workload:?} and {expected:?}");
    let term = |(share, expected): (&f64, &f64)| if *share > 0.0 { share * (share / expected).ln() } else { 0.0 };
    workload.iter().zip(expected).map(term).sum::<f64>().max(0.0)
}

/// The shares, divided by their sum.
fn normalized(costs: &[f64], expected: &[f64]) -> Vec<f64> {
    assert_eq!(costs.len(), expected.len(), "costs {costs:?} of operations with shares {expected:?}");
    assert!(costs.iter().all(|cost| cost.is_finite()), "costs {costs:?}");
    let sum: f64 = expected.iter().sum();
    let sound = expected.iter().all(|share| *share >= 0.0) && sum > 0.0 && sum.is_finite();
    assert!(sound, "shares are numbers from 0 on, and not all 0: {expected:?}");
    expected.iter().map(|share| share / sum).collect()
}

/// The expected workload, tilted towards what is expensive: `w_i e^(-t d_i)`, where `d_i` says how
/// far below the largest cost operation i is, from 0 to 1, and the steepness `t` is the costs'
/// spread over λ.
struct Tilted {
    shares: Vec<f64>,
    below: Vec<f64>,
    largest: f64,
    spread: f64,
}

/// The steepness above which nothing changes: two costs that differ at all are more than 10⁻¹⁷ of
/// the spread apart, and `e^-1000` is 0.
const STEEPNESS_MAX: f64 = 1e20;

/// Bisections of an interval whose ends differ by a factor of two, until no number lies between.
const BISECTIONS: usize = 60;

impl Tilted {
    fn new(costs: &[f64], shares: Vec<f64>) -> Self {
        let expected = || costs.iter().zip(&shares).filter(|(_, share)| **share > 0.0).map(|(cost, _)| *cost);
        let largest = expected().fold(f64::NEG_INFINITY, f64::max);
        let spread = largest - expected().fold(f64::INFINITY, f64::min);
        assert!(spread.is_finite(), "costs {costs:?} are too far apart");
        let below = |cost: &f64| if spread > 0.0 { (largest - cost) / spread } else { 0.0 };
        let below = costs.iter().map(below).collect();
        Self { shares, below, largest, spread }
    }

    /// The steepness at which the divergence reaches this; infinite if none does.
    fn steepness(&self, divergence_max: f64) -> f64 {
        if divergence_max >= self.divergence(f64::INFINITY) {
            return f64::INFINITY;
        }
        if divergence_max == 0.0 {
            return 0.0;
        }
        let mut high = 1.0;
        while self.divergence(high) < divergence_max && high < STEEPNESS_MAX {
            high *= 2.0;
        }
        let mut low = high / 2.0;
        while self.divergence(low) >= divergence_max && low > 0.0 {
            (low, high) = (low / 2.0, low);
        }
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2.0;
            if self.divergence(middle) < divergence_max { low = middle } else { high = middle }
        }
        low
    }

    /// The divergence of the tilted workload from the expected one: `-t Σ w'_i d_i - ln Σ w_i e^(-t
    /// d_i)`.
    fn divergence(&self, steepness: f64) -> f64 {
        let (mut sum, mut less, mut moment) = (0.0, 0.0, 0.0);
        for (share, below) in self.operations() {
            let part = share * weight(steepness, below);
            sum += part;
            if part > 0.0 && below > 0.0 {
                moment += part * steepness * below;
            }
            // For a gentle tilt, whose sum is almost 1.
            less += share * exponent(steepness, below).exp_m1();
        }
        let logarithm = if sum > 0.5 { less.ln_1p() } else { sum.ln() };
        -moment / sum - logarithm
    }

    /// The tilted workload.
    fn workload(&self, steepness: f64) -> Vec<f64> {
        let weights = |(share, below): (&f64, &f64)| if *share > 0.0 { share * weight(steepness, *below) } else { 0.0 };
        let weights: Vec<f64> = self.shares.iter().zip(&self.below).map(weights).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    /// The mean cost of a workload.
    fn cost(&self, workload: &[f64]) -> f64 {
        let parts = workload.iter().zip(&self.below).filter(|(share, _)| **share > 0.0);
        self.largest - self.spread * parts.map(|(share, below)| share * below).sum::<f64>()
    }

    /// Shares of operations that are expected, and how far below the largest cost they are.
    fn operations(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.shares.iter().copied().zip(self.below.iter().copied()).filter(|(share, _)| *share > 0.0)
    }
}

/// `-t d`, also for an infinite t: the largest cost stays.
fn exponent(steepness: f64, below: f64) -> f64 {
    if below > 0.0 { -steepness * below } else { 0.0 }
}

fn weight(steepness: f64, below: f64) -> f64 {
    exponent(steepness, below).exp()
}
