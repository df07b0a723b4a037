//! What space costs: bytes on storage for each byte that is live, at worst.
//!
//! The worst workload updates the same keys over and over, so that all runs hold versions of the keys of one, the
//! largest.

use crate::occupancy::Occupancy;
use crate::shape::Shape;

/// `SA = (N / N_L) · n_L` of a full tree, if run slots do not shrink towards the last level. One run slot of the last
/// level is live.
///
/// Trees are not always full, and a tree that has just grown has as good as nothing in its last level: [`worst_now`]
/// can be larger for a while.
pub fn worst_amplification(shape: &Shape) -> f64 {
    shape.capacity().as_f64() / shape.run_size(shape.last())
}

/// What [`worst_amplification`] cannot exceed with a last level that has this share of all, `k √r` runs in it, rounded, and a level above it that is at least twice the next (or none): `(k √(2 w / (1 - w)) + ½) / w`. MOOSE, Eq. 16, corrected: level
/// L-1 has at least half of all that is above the last, so `r_L ≤ 2 w / (1 - w)`; the paper takes it for all of that, which makes a lower bound.
pub fn worst_amplification_at_most(share: f64, runs_for_root: f64) -> f64 {
    (runs_for_root * (2.0 * share / (1.0 - share)).sqrt() + 0.5) / share
}

/// The same of a tree as it is: all bytes over those of the largest run; 1 for an empty tree.
pub fn worst_now(occupancy: &Occupancy) -> f64 {
    let largest = occupancy.runs().map(|(_, run)| run.bytes).max();
    largest.map_or(1.0, |largest| occupancy.bytes().ratio(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::occupancy::{Run, RunId};
    use crate::units::Bytes;

    /// A full tree, built run by run, has what the formula says.
    #[test]
    fn full_tree_agrees() {
        let shape: Shape =
            "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 2 runs\nlevel 64 in 2 runs".parse().expect("a shape");
        let level = |number: usize| {
            let bytes = Bytes(shape.run_size(number) as u64);
            let ids = (0..shape.level(number).runs).map(|at| RunId(number as u64 * 10 + u64::from(at)));
            ids.map(|id| Run { id, bytes, entries: None }).collect()
        };
        let full = Occupancy::new((1..=shape.last()).map(level).collect());
        assert_eq!(worst_now(&full), worst_amplification(&shape));
        assert_eq!(worst_amplification(&shape), 84.0 / 64.0 * 2.0);
        assert_eq!(worst_now(&Occupancy::default()), 1.0);
    }
}
