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

use super::groups::Counts;

/// The bits of a whole fingerprint.
pub const FINGERPRINT_BITS_MAX: u32 = 16;

/// The lower bound on the length of fingerprints. These first bits determine the second bucket of
/// a key, for runs of all classes (§4.3 of the paper).
pub const FINGERPRINT_BITS_MIN: u32 = 5;

/// The bits of a bucket.
pub const BUCKET_BITS: u32 = 64;

/// What the lengths have to fit.
#[derive(Clone, Copy, Debug)]
pub struct Fit<'a> {
    /// The frequent groups, each with its number of combinations.
    pub frequent: &'a [(Counts, u64)],
    /// The number of all combinations.
    pub combinations: u64,
    /// The bits of a bucket, at most 64.
    pub bucket_bits: u32,
}

impl Fit<'_> {
    /// Whether these lengths fit.
    pub fn holds(&self, lengths: &[u32]) -> bool {
        Lengths::new(*self, lengths.to_vec()).fits(None)
    }
}

/// Lengths, with the bits that they give each frequent group.
#[derive(Clone, Debug)]
struct Lengths<'a> {
    fit: Fit<'a>,
    lengths: Vec<u32>,
    /// Of each frequent group.
    bits: Vec<u32>,
}

impl<'a> Lengths<'a> {
    fn new(fit: Fit<'a>, lengths: Vec<u32>) -> Self {
        let bits = fit.frequent.iter().map(|&(group, _)| fingerprint_bits(group, &lengths)).collect();
        Self { fit, lengths, bits }
    }

    /// Eq. 15, times two to the power of the bits of a bucket; with one bit more for a class.
    fn fits(&self, longer: Option<usize>) -> bool {
        let limit = 1_u128 << self.fit.bucket_bits;
        let mut sum = u128::from(self.fit.combinations);
        for (&(group, combinations), bits) in self.fit.frequent.iter().zip(&self.bits) {
            let bits = bits + longer.map_or(0, |class| group.of(class) as u32);
            // Fewer than 2⁴⁸ combinations times 2⁶⁴, and the sum is below 2⁶⁵ before.
            if bits > self.fit.bucket_bits {
                return false;
            }
            sum += u128::from(combinations) << bits;
            if sum > limit {
                return false;
            }
        }
        true
    }

    /// Gives a class one bit more if that fits.
    fn lengthen(&mut self, class: usize) -> bool {
        let fits = self.fits(Some(class));
        if fits {
            self.lengths[class] += 1;
            for (bits, &(group, _)) in self.bits.iter_mut().zip(self.fit.frequent) {
                *bits += group.of(class) as u32;
            }
        }
        fits
    }
}

/// The bits that the fingerprints of a group take.
pub fn fingerprint_bits(group: Counts, lengths: &[u32]) -> u32 {
    lengths.iter().enumerate().map(|(class, length)| length * group.of(class) as u32).sum()
}

/// What is to be small: the rate of false positives in the unit of twice the used slots of a
/// bucket. `shares` are those of the classes in all entries.
pub fn rate(shares: &[f64], lengths: &[u32]) -> f64 {
    shares.iter().zip(lengths).map(|(share, &length)| share * 0.5_f64.powi(length as i32)).sum()
}

/// The best lengths, or `None` if not even the shortest fit.
pub fn best(fit: Fit<'_>, shares: &[f64]) -> Option<Vec<u32>> {
    let shortest = shortest(fit, shares.len())?;
    let all = (FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).map(|top| {
        let mut lengths = shortest.clone();
        lengthen_in_order(&mut lengths, top);
        lengthen_singly(&mut lengths, shares);
        lengths.lengths
    });
    all.min_by(|a, b| rate(shares, a).total_cmp(&rate(shares, b)))
}

/// Algorithm 1 of the paper, with an upper bound on the lengths, or `None` if not even the shortest
/// fit. To be compared with [`best`].
pub fn algorithm_1(fit: Fit<'_>, classes: usize, top: u32) -> Option<Vec<u32>> {
    let mut lengths = shortest(fit, classes)?;
    lengthen_in_order(&mut lengths, top);
    Some(lengths.lengths)
}

fn shortest(fit: Fit<'_>, classes: usize) -> Option<Lengths<'_>> {
    let lengths = Lengths::new(fit, vec![FINGERPRINT_BITS_MIN; classes]);
    lengths.fits(None).then_some(lengths)
}

/// The steps of Algorithm 1: from the largest class on, each is lengthened while it fits and up to
/// the length of the class before.
fn lengthen_in_order(lengths: &mut Lengths<'_>, mut top: u32) {
    for class in 0..lengths.lengths.len() {
        while lengths.lengths[class] < top {
            if !lengths.lengthen(class) {
                top = lengths.lengths[class];
            }
        }
    }
}

/// Lengthens single classes, the one with the most false positives first, while they fit. None gets
/// longer than the first class: an empty slot has zeros of that length.
fn lengthen_singly(lengths: &mut Lengths<'_>, shares: &[f64]) {
    let mut order: Vec<usize> = (0..shares.len()).collect();
    loop {
        let errors = |class: usize| shares[class] * 0.5_f64.powi(lengths.lengths[class] as i32);
        order.sort_by(|&a, &b| errors(b).total_cmp(&errors(a)));
        let longer = order.iter().any(|&class| {
            let top = if class == 0 { FINGERPRINT_BITS_MAX } else { lengths.lengths[0] };
            lengths.lengths[class] < top && lengths.lengthen(class)
        });
        if !longer {
            return;
        }
    }
}
