//! Fingerprint lengths, one for each class: as few false positives as the buckets allow.
//!
//! A frequent group of `n` combinations, whose fingerprints take `c` bits, is an interval of `n`
//! codewords of `B - c` bits. All codewords fit if (Eq. 15 of the paper)
//!
//! ```text
//! Σ over frequent groups n · 2^(c - B)  +  (number of all combinations) · 2^(-B)  ≤  1
//! ```
//!
//! It is computed in whole numbers, both sides times 2^B: in floating point, rare buckets would
//! vanish beside 1.
//!
//! Among the lengths that fit, those are best that make `Σ f_i · 2^(-FP_i)` small, to which the
//! rate of false positives is proportional. The paper's Algorithm 1 maximises the average length
//! instead; with long buckets it neglects small levels, and the rate can be several times as high.
//! So it is only the start: it runs with each upper bound, then single classes are lengthened, and
//! the best is kept.

use crate::chucky::fingerprint::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};
use crate::chucky::groups::Counts;

/// What the lengths have to fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit<'a> {
    /// The frequent groups, each with its number of combinations.
    pub(super) frequent: &'a [(Counts, u64)],
    /// The number of all combinations.
    pub(super) combinations: u64,
    /// The bits of a bucket, at most 64.
    pub(super) bucket_bits: u32,
}

impl Fit<'_> {
    /// Eq. 15, times two to the power of the bits of a bucket.
    pub(super) fn holds(&self, lengths: &[u32]) -> bool {
        let limit = 1_u128 << self.bucket_bits;
        let mut sum = u128::from(self.combinations);
        for &(group, combinations) in self.frequent {
            let bits = fingerprint_bits(group, lengths);
            if bits > self.bucket_bits {
                return false;
            }
            // Fewer than 2⁴⁸ combinations times 2⁶⁴, of fewer than 2¹⁶ groups.
            sum += u128::from(combinations) << bits;
        }
        sum <= limit
    }
}

/// The bits that the fingerprints of a group take.
pub(super) fn fingerprint_bits(group: Counts, lengths: &[u32]) -> u32 {
    lengths.iter().enumerate().map(|(class, length)| length * group.of(class) as u32).sum()
}

/// What is to be small: the rate of false positives in the unit of twice the used slots of a
/// bucket. `shares` are those of the classes in all entries.
pub(super) fn rate(shares: &[f64], lengths: &[u32]) -> f64 {
    shares.iter().zip(lengths).map(|(share, &length)| share * 0.5_f64.powi(length as i32)).sum()
}

/// The best lengths, or `None` if not even the shortest fit.
pub(super) fn best(fit: Fit<'_>, shares: &[f64]) -> Option<Vec<u32>> {
    let all = (FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).filter_map(|top| {
        let mut lengths = algorithm_1(fit, shares.len(), top)?;
        lengthen(fit, shares, &mut lengths);
        Some(lengths)
    });
    all.min_by(|a, b| rate(shares, a).total_cmp(&rate(shares, b)))
}

/// Algorithm 1 of the paper: from the largest class on, each is lengthened while it fits and up to
/// the length of the class before. Here the first one has an upper bound, too.
pub(super) fn algorithm_1(fit: Fit<'_>, classes: usize, mut top: u32) -> Option<Vec<u32>> {
    let mut lengths = vec![FINGERPRINT_BITS_MIN; classes];
    if !fit.holds(&lengths) {
        return None;
    }
    for class in 0..classes {
        while lengths[class] < top {
            lengths[class] += 1;
            if !fit.holds(&lengths) {
                lengths[class] -= 1;
                top = lengths[class];
            }
        }
    }
    Some(lengths)
}

/// Lengthens single classes, the one with the most false positives first, while they fit. None
/// gets longer than the first class: an empty slot has zeros of that length.
fn lengthen(fit: Fit<'_>, shares: &[f64], lengths: &mut [u32]) {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    loop {
        let errors = |class: usize| shares[class] * 0.5_f64.powi(lengths[class] as i32);
        order.sort_by(|&a, &b| errors(b).total_cmp(&errors(a)));
        let longer = order.iter().find(|&&class| {
            let top = if class == 0 { FINGERPRINT_BITS_MAX } else { lengths[0] };
            let mut longer = lengths.to_vec();
            longer[class] += 1;
            longer[class] <= top && fit.holds(&longer)
        });
        let Some(&class) = longer else { return };
        lengths[class] += 1;
    }
}
