//! What scans cost beside updates: runs that a scan meets, times that an entry is rewritten, and the bound that no numbers of runs get below. MOOSE, sections 3.2 and 3.3.
//!
//! More runs in a level spare writes and cost seeks. For given ratios, the product of the two sums is least for `n_i = k √r_i`, whatever k is:
//!
//! ```text
//! Σ n_i · Σ r_i / n_i  ≥  (Σ √r_i)²  ≥  L² (N_L / F)^(1/L)  ≥  (e/2 · ln(N_L / F))²
//!                      Eq. 7         Eq. 8                  at r = e² = 7.4
//! ```
//!
//! These count slots and `r/n` rewritings, as the paper does. What is really paid are [visible runs](Shape::visible_runs) and
//! [`writes_per_entry`](super::update::writes_per_entry), which are less.

use crate::shape::Shape;

/// Runs that a scan meets, counted in slots: `Σ n_i`. MOOSE, Eq. 3.
pub fn slots(shape: &Shape) -> f64 {
    shape.levels().iter().map(|level| f64::from(level.runs)).sum()
}

/// Times that an entry is rewritten on its way, up to a factor: `Σ r_i / n_i`. MOOSE, Eq. 2 without 1/B.
pub fn rewritings(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| shape.magnification(level)).sum()
}

/// The least product of [`slots`] and [`rewritings`] with these ratios and any numbers of runs, not only whole ones: `(Σ √r_i)²`. MOOSE, Eq. 7.
pub fn least_product(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| shape.ratio(level).sqrt()).sum::<f64>().powi(2)
}

/// The least product of a tree of so many levels, the last of them so many times the buffer: `L² (N_L / F)^(1/L)`, reached by equal ratios. MOOSE, Eq. 8.
pub fn least_product_of_levels(levels: u32, last: f64) -> f64 {
    f64::from(levels).powi(2) * last.powf(1.0 / f64::from(levels))
}

/// The same with as many levels as are best, in real numbers: ratios are e².
pub fn least_product_of_size(last: f64) -> f64 {
    (std::f64::consts::E / 2.0 * last.ln()).powi(2)
}
