//! The model of a filter over the whole tree (Chucky): a cuckoo filter whose slots hold a
//! fingerprint of a key and the level ID of a run.
//!
//! Symbols: `S` slots of a bucket, `M` bits of a slot, `ρ` the share of slots in use, `f_j` the
//! share of run j in all entries, `H = Σ f_j log2(1/f_j)` their entropy, `A` runs; T, K and Z
//! describe the tree as in Dostoevsky: size ratio, visible runs of the last level (Z) and of others
//! (K).
//!
//! **False positives.** A lookup reads two buckets, and compares with `2S` slots, of which `2Sρ`
//! are in use. An entry of run j agrees by chance with probability `2^(-FP_j)`, FP_j the bits of
//! its fingerprint:
//!
//! ```text
//! p_j = 2Sρ · f_j · 2^(-FP_j)
//! ```
//!
//! Run j is searched for nothing with probability `p_j`, whether the key is in another run or
//! nowhere; the paper counts `2Sρ - 1` entries for a key that is there, but those that share its
//! buckets are independent of the slot that it takes.
//!
//! **Bounds.** No code of level IDs is shorter than their entropy, so that fingerprints have at
//! most `M - H` bits; coded one by one they have at least `M - ACL`, with the average code length
//! of Huffman's code, for which the paper has a bound (Eq. 11). With level IDs of a fixed length
//! there are `M - log2 A`.

mod classes;
mod code;
pub mod groups;
pub mod lengths;

pub use classes::{CLASSES_MAX, Classes, LATE_LIDS, SPARE, STATES};
pub use code::{CLASS_LIDS_MAX, CodeLengths, CodeParts};

/// The share of slots that can be in use when insertions move up to 500 entries, by the slots of a
/// bucket. Measured: .959 to .967 with four slots, .973 to .978 with five, .978 to .986 with six.
pub fn load(slots: usize) -> f64 {
    match slots {
        0..=4 => 0.95,
        5 => 0.96,
        6 => 0.97,
        _ => 0.975,
    }
}

/// Partitions that have too few buckets get so many more, as a share.
pub const GROWTH: f64 = 1.0 / 8.0;

/// The least bits per entry that buckets of 64 bits can have, growth included.
pub const BITS_MIN: f64 = 10.0;

/// A lookup in this filter takes as long as asking the filters of so many runs, each with the
/// search for the table that has the key: two of blocked filters, by instructions.
pub const PROBES: f64 = 2.0;

/// Bits per entry of a filter with so many slots in each bucket of 64 bits, on the mean over its
/// growth.
pub fn bits_per_entry(slots: usize) -> f64 {
    64.0 / (slots as f64 * load(slots)) * (1.0 + GROWTH / 2.0)
}

/// The slots of each bucket with which a filter takes at most `bits` per entry, at least
/// [`BITS_MIN`]: as few as possible, since fewer slots have longer fingerprints.
pub fn slots(bits: f64) -> usize {
    (4..7).find(|&slots| bits_per_entry(slots) <= bits).unwrap_or(7)
}

/// False positives for each lookup in a run that has the share `share` of all entries and
/// fingerprints of `fingerprint_bits`: `2Sρ f 2^(-FP)`.
pub fn rate(slots: usize, load: f64, share: f64, fingerprint_bits: f64) -> f64 {
    2.0 * slots as f64 * load * share * (-fingerprint_bits).exp2()
}

/// The entropy of a level ID, `H = Σ f_j log2(1/f_j)`, in bits. `shares` are those of all runs.
pub fn entropy(shares: impl Iterator<Item = f64>) -> f64 {
    shares.filter(|&share| share > 0.0).map(|share| -share * share.log2()).sum()
}

/// The entropy of a level ID in a tree of very many levels (Eq. 9), in bits:
/// `log2(Z^((T-1)/T) · K^(1/T) · T^(T/(T-1)) / (T-1))`.
pub fn entropy_limit(ratio: f64, runs: f64, last_runs: f64) -> f64 {
    let last = (ratio - 1.0) / ratio;
    last * last_runs.log2() + runs.log2() / ratio + ratio / (ratio - 1.0) * ratio.log2() - (ratio - 1.0).log2()
}

/// The upper bound on the average length of Huffman's code of level IDs in a tree of very many
/// levels (Eq. 11), in bits: `T/(T-1) + log2(K^(1/T) · Z^((T-1)/T))`.
pub fn code_length_limit(ratio: f64, runs: f64, last_runs: f64) -> f64 {
    ratio / (ratio - 1.0) + runs.log2() / ratio + (ratio - 1.0) / ratio * last_runs.log2()
}

/// The false positives of a lookup of an absent key with `bits` a slot, of which level IDs take
/// `level_id_bits`, all slots in use: `2S · 2^(level_id_bits - M)`. With the entropy, Eq. 10, the
/// lower bound; with the bound on Huffman's code, Eq. 16; with `log2 A`, Eq. 6.
pub fn rate_with_code(slots: usize, bits: f64, level_id_bits: f64) -> f64 {
    2.0 * slots as f64 * (level_id_bits - bits).exp2()
}

/// The number of combinations of the level IDs in a bucket, `C(A + S - 1, S)`: in any order.
pub fn combinations(runs: u64, slots: u32) -> f64 {
    (0..slots).fold(1.0, |all, slot| all * (runs + u64::from(slot)) as f64 / f64::from(slot + 1))
}

/// The entropy of the combination of level IDs in a bucket, for each slot (Eq. 13), in bits:
///
/// ```text
/// H - (1/S) · (log2 S! - Σ_j Σ_t C(S, t) f_j^t (1 - f_j)^(S-t) log2 t!)
/// ```
///
/// The order of the slots, which a combination lacks, has `log2 S!` bits if all level IDs differ.
pub fn combination_entropy(shares: &[f64], slots: u32) -> f64 {
    let log2_factorial = |n: u32| (2..=n).map(|k| f64::from(k).log2()).sum::<f64>();
    let order_of_equals = |share: f64| {
        let times = |t: u32| {
            combinations(u64::from(slots - t) + 1, t) * share.powi(t as i32) * (1.0 - share).powi((slots - t) as i32)
        };
        (2..=slots).map(|t| times(t) * log2_factorial(t)).sum::<f64>()
    };
    let equals: f64 = shares.iter().map(|&share| order_of_equals(share)).sum();
    entropy(shares.iter().copied()) - (log2_factorial(slots) - equals) / f64::from(slots)
}

/// The false positives of a lookup in each run of a tree, whose runs have these shares of all
/// entries, with buckets of 64 bits and so many slots: the best that fingerprints of real lengths
/// can do.
///
/// `Σ f_j 2^(-FP_j)` is least for `Σ f_j FP_j = 64/S - H_c`, with the entropy `H_c` of a bucket's
/// combination for each slot (Eq. 13), if all fingerprints are equally long. Those of codes have
/// whole bits, and up to twice as many false positives: see [`CodeLengths`], which takes some
/// milliseconds.
pub fn rates(slots: usize, shares: &[f64]) -> Vec<f64> {
    let level_id_bits = combination_entropy(shares, slots as u32);
    let fingerprint_bits = (64.0 / slots as f64 - level_id_bits).clamp(0.0, FINGERPRINT_BITS_MAX);
    shares.iter().map(|&share| rate(slots, load(slots), share, fingerprint_bits).min(1.0)).collect()
}

/// The bits of a whole fingerprint.
const FINGERPRINT_BITS_MAX: f64 = 16.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::f64::consts::LN_2;

    use super::*;

    /// The rates of trees with full buckets, beside those of codes, whose fingerprints have whole
    /// bits (computed independently: leveling with a ratio of 10 and five levels, and with 2 and
    /// ten): up to 40 % less, and not more.
    #[test]
    fn rates_are_near_those_of_codes() {
        let trees =
            [(shares(10.0, 1, 1, 5), [0.0114, 0.00235, 0.00023]), (shares(2.0, 1, 1, 10), [0.0199, 0.0040, 0.00038])];
        for (shares, of_codes) in trees {
            for (slots, of_code) in [6, 5, 4].into_iter().zip(of_codes) {
                let rate: f64 = rates(slots, &shares).iter().sum();
                assert!((0.6..=1.0).contains(&(rate / of_code)), "{slots} slots: {rate} beside {of_code}");
            }
        }
        assert_eq!([10.0, 11.6, 12.0, 14.2, 17.8, 18.0].map(slots), [7, 7, 6, 5, 5, 4]);
    }

    /// The shares of all runs of a tree, the largest first.
    fn shares(ratio: f64, runs: usize, last_runs: usize, levels: i32) -> Vec<f64> {
        let entries = |level: i32| ratio.powi(-level);
        let all: f64 = (0..levels).map(entries).sum();
        let of_level = |level: i32| if level == 0 { last_runs } else { runs };
        let level = |level: i32| std::iter::repeat_n(entries(level) / all / of_level(level) as f64, of_level(level));
        (0..levels).flat_map(level).collect()
    }

    /// Deep trees reach the limit of the entropy, and Huffman's code lies between it and its bound.
    #[test]
    fn entropies_reach_their_limit() {
        for (ratio, runs, last_runs) in [(2.0, 1, 1), (5.0, 4, 1), (10.0, 9, 9), (10.0, 1, 1)] {
            let found = entropy(shares(ratio, runs, last_runs, 30).into_iter());
            let limit = entropy_limit(ratio, runs as f64, last_runs as f64);
            assert!((found - limit).abs() < 1e-6, "{ratio}, {runs}, {last_runs}: {found}, {limit}");
            assert!(limit <= code_length_limit(ratio, runs as f64, last_runs as f64) + 1e-12);
        }
    }

    /// Eq. 13 against the sum over all combinations.
    #[test]
    fn entropy_of_combinations() {
        let shares = shares(5.0, 4, 1, 3);
        let slots = 4;
        let mut combination_shares = BTreeMap::new();
        for number in 0..shares.len().pow(slots) {
            let mut lids = [0, 1, 2, 3].map(|place| number / shares.len().pow(place) % shares.len());
            let share: f64 = lids.iter().map(|&lid| shares[lid]).product();
            lids.sort_unstable();
            *combination_shares.entry(lids).or_insert(0.0) += share;
        }
        assert_eq!(combination_shares.len() as f64, combinations(9, slots));
        let expected = entropy(combination_shares.into_values()) / f64::from(slots);
        let found = combination_entropy(&shares, slots);
        assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
        assert!(found < entropy(shares.into_iter()));
    }

    /// The numbers of combinations that the paper names, and larger ones.
    #[test]
    fn numbers_of_combinations() {
        assert_eq!([combinations(21, 4), combinations(36, 4), combinations(10, 6)], [10_626.0, 82_251.0, 5_005.0]);
    }

    /// From `log2(2S) / (1 - ln 2)` = 9.78 bits on, the lower bound is below optimal Bloom filters,
    /// whatever the tree.
    #[test]
    fn bloom_filters_are_met_at_ten_bits() {
        for entropy in [0.5, 2.0, 5.0] {
            let bloom = |bits: f64| (entropy - bits * LN_2).exp2();
            assert!(rate_with_code(4, 9.7, entropy) > bloom(9.7) && rate_with_code(4, 9.8, entropy) < bloom(9.8));
        }
    }
}
