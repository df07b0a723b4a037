//! What each code takes for level IDs, and how often a filter with it errs, in the same buckets.

use common::numbers::mix;
use tamarack_filter::chucky::{CodeError, FINGERPRINT_BITS_MIN};
use tamarack_model::allocate::{self, Load};
use tamarack_model::filter::chucky::{combinations, load, rates};

use crate::arithmetic::Coder;
use crate::huffman::{self, entropy};
use crate::lengths::{self, EXHAUSTIVE_CLASSES_MAX, Fit, rate};
use crate::tree::{BUCKET_BITS, Distribution, Tree, average_length};

/// The share of buckets that do not overflow (the paper's NOV).
pub const FREQUENT_SHARE: f64 = 0.9999;

/// Random buckets that the arithmetic coder gets.
const BUCKETS: u64 = 4096;

/// A figure, or why there is none.
pub type Cell = Result<f64, String>;

/// One policy, and one number of slots.
pub struct Row {
    pub policy: &'static str,
    pub slots: usize,
    pub runs: usize,
    pub bits: Bits,
    pub rates: Rates,
}

/// Bits of a codeword for each LID.
pub struct Bits {
    pub integer: f64,
    pub huffman: f64,
    pub permutations: f64,
    pub combinations: f64,
    /// Our code for the full tree alone.
    pub own: Cell,
    /// Our code as the engine makes it.
    pub engine: Cell,
    /// The arithmetic coder, as measured.
    pub arithmetic: f64,
    pub entropy: f64,
    pub combination_entropy: f64,
}

/// False positives of a lookup of an absent key in a full filter.
pub struct Rates {
    pub integer: Cell,
    /// Numbers of combinations, all equally long.
    pub numbered: Cell,
    /// Uniform fingerprints beside the longest of Huffman's codewords: of frequent combinations,
    /// and of all.
    pub uniform_frequent: Cell,
    pub uniform_all: Cell,
    /// Malleable fingerprints beside Huffman's codewords, with the fewest false positives.
    pub malleable: Cell,
    /// The share of buckets that overflow then.
    pub overflowing: Cell,
    /// The same, with the fingerprints of our code.
    pub overflowing_own: Cell,
    pub algorithm_1: Cell,
    pub own: Cell,
    /// Our search of lengths, over single combinations.
    pub ungrouped: Cell,
    /// The fewest of all lengths that fit the groups.
    pub fewest: Cell,
    pub engine: Cell,
    pub bound: f64,
    pub bloom_uniform: f64,
    pub bloom_optimal: f64,
}

/// All figures of a tree but times.
pub fn row(policy: &'static str, tree: &Tree, slots: usize) -> Row {
    let distribution = Distribution::of_slots(tree, slots);
    let types = distribution.combinations(slots);
    let each = |bits: f64| bits / slots as f64;
    let own = tree.code(slots);
    let engine = tree.engine_code(slots).expect("a policy's tree");
    let integer = (tree.runs() as f64).log2().ceil();
    let average = |code: &Result<_, CodeError>| match code {
        Ok(code) => Ok(each(average_length(code, &types).0)),
        Err(error) => Err(refusal(error)),
    };
    let bits = Bits {
        integer,
        huffman: huffman::code(&distribution.combinations(1)).1,
        permutations: each(huffman::code(&distribution.permutations(slots)).1),
        combinations: each(huffman::code(&types).1),
        own: average(&own),
        engine: average(&engine),
        arithmetic: each(arithmetic(&distribution, slots)),
        entropy: distribution.probabilities().iter().map(|p| -p * p.log2()).sum(),
        combination_entropy: each(entropy(&types)),
    };

    let compared = 2.0 * slots as f64 * load(slots);
    let classes = tree.entries.len();
    let uniform = |code_bits: u32| {
        // A fingerprint that moves to the other bucket takes any slot there, so all are equal.
        let left = BUCKET_BITS.saturating_sub(code_bits) / slots as u32;
        if left < FINGERPRINT_BITS_MIN {
            return Err(format!("none: codewords of {code_bits} bits leave {left} a slot"));
        }
        Ok(compared * 0.5_f64.powi(left as i32))
    };
    let of_lengths = |lengths: Option<&Vec<u32>>| match lengths {
        Some(lengths) => Ok(compared * rate(&tree.entries, lengths)),
        None => Err(format!("none: fingerprints of {FINGERPRINT_BITS_MIN} bits overflow")),
    };
    let overflow = |lengths: Option<&Vec<u32>>| match lengths {
        Some(lengths) => Ok(lengths::overflowing(&types, lengths, BUCKET_BITS)),
        None => Err("no lengths".to_owned()),
    };
    let (frequent, all) = lengths::longest_of(&types, FREQUENT_SHARE);
    let malleable = Fit::given_code(&types, FREQUENT_SHARE, BUCKET_BITS).best(&tree.entries);
    let single = Fit::aligned_code(&types, FREQUENT_SHARE, BUCKET_BITS);
    let (printed, ungrouped) = (single.as_printed(classes, slots), single.best(&tree.entries));
    let own_lengths: Option<Vec<u32>> = own.as_ref().ok().map(|code| code.fingerprint_bits().collect());
    let shares = tree.shares_of_runs();
    let bits_per_entry = f64::from(BUCKET_BITS) / (slots as f64 * load(slots));
    let rates = Rates {
        integer: uniform(integer as u32 * slots as u32),
        numbered: uniform(combinations(tree.runs() as u64, slots as u32).log2().ceil() as u32),
        uniform_frequent: uniform(frequent),
        uniform_all: uniform(all),
        malleable: of_lengths(malleable.as_ref()),
        overflowing: overflow(malleable.as_ref()),
        overflowing_own: overflow(own_lengths.as_ref()),
        algorithm_1: of_lengths(printed.as_ref()),
        own: match &own {
            Ok(code) => Ok(code.false_positives(&tree.shares(), load(slots))),
            Err(error) => Err(refusal(error)),
        },
        ungrouped: of_lengths(ungrouped.as_ref()),
        fewest: if classes <= EXHAUSTIVE_CLASSES_MAX {
            let fit = Fit::aligned_groups(&types, FREQUENT_SHARE, BUCKET_BITS);
            fit.fewest(&tree.entries).map(|rate| compared * rate).ok_or_else(|| "none: does not fit".to_owned())
        } else {
            Err(format!("not tried: {classes} classes"))
        },
        engine: match &engine {
            Ok(code) => Ok(code.false_positives(&tree.engine_shares(code), load(slots))),
            Err(error) => Err(refusal(error)),
        },
        bound: rates(slots, &shares).iter().sum(),
        bloom_uniform: shares.len() as f64 * allocate::ideal_rate(bits_per_entry),
        bloom_optimal: bloom_optimal(&shares, bits_per_entry),
    };
    Row { policy, slots, runs: tree.runs(), bits, rates }
}

fn refusal(error: &CodeError) -> String {
    match error {
        CodeError::DoesNotFit { .. } => "none: does not fit".to_owned(),
        other => format!("none: {other}"),
    }
}

/// Monkey's allocation on the ideal curve.
fn bloom_optimal(shares: &[f64], bits_per_entry: f64) -> f64 {
    const ENTRIES: f64 = 1e12;
    let runs: Vec<Load> = shares.iter().map(|share| Load::new((share * ENTRIES) as u64)).collect();
    let bits = allocate::ideal(&runs, bits_per_entry * ENTRIES);
    bits.into_iter().map(allocate::ideal_rate).sum()
}

/// The average bits of a bucket, of random ones that the coder gives back.
fn arithmetic(distribution: &Distribution, slots: usize) -> f64 {
    let coder = Coder::new(distribution);
    let (mut bits, mut seed) = (0, 0);
    for _ in 0..BUCKETS {
        let random = || {
            seed += 1;
            mix(seed)
        };
        let lids = random_lids(distribution, slots, random);
        let code = coder.encode(&lids);
        bits += u64::from(code.count);
        let mut back = vec![0; slots];
        coder.decode(&code, &mut back);
        assert_eq!(back, lids, "the coder loses nothing");
    }
    bits as f64 / BUCKETS as f64
}

/// The LIDs of a random bucket, ascending.
fn random_lids(distribution: &Distribution, slots: usize, mut random: impl FnMut() -> u64) -> Vec<u16> {
    let probabilities = distribution.probabilities();
    let mut lid = || {
        let mut at = (random() >> 11) as f64 / (1_u64 << 53) as f64;
        let found = probabilities.iter().position(|probability| {
            at -= probability;
            at < 0.0
        });
        found.unwrap_or(0) as u16
    };
    let mut lids: Vec<u16> = (0..slots).map(|_| lid()).collect();
    lids.sort_unstable();
    lids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::POLICIES;

    /// Of each policy: no code is shorter than its entropy, and Huffman's is less than a bit a
    /// symbol longer. Collective codes are shorter than those of single LIDs; ours fills buckets.
    #[test]
    fn codes_are_in_order() {
        for (policy, memtables) in POLICIES {
            let Row { bits, rates, .. } = row(policy, &Tree::of_policy(policy, memtables), 4);
            let bit = 1.0 / 4.0;
            let Bits { entropy, combination_entropy, .. } = bits;
            assert!(combination_entropy < entropy && entropy <= bits.huffman && bits.huffman < entropy + 1.0);
            assert!(entropy <= bits.permutations && bits.permutations < entropy + bit, "{policy}");
            assert!(combination_entropy <= bits.combinations && bits.combinations < combination_entropy + bit);
            assert!(bits.combinations < bits.permutations && bits.permutations <= bits.huffman);
            assert!(bits.huffman <= bits.integer.max(1.0));
            // Of 4,096 buckets: two bits more than the entropy at most, and some sampling error.
            let more = bits.arithmetic - combination_entropy;
            assert!((-0.1..2.1 * bit + 0.1).contains(&more), "{policy}: {more}");
            let own = bits.own.expect("four slots fit");
            assert!(bits.combinations <= own, "{policy}: {own}");
            let rate = rates.own.expect("four slots fit");
            assert!(rates.bound <= rate && rate <= rates.integer.unwrap_or(f64::MAX), "{policy}");
            assert!(rates.bloom_optimal <= rates.bloom_uniform);
            assert!(rates.algorithm_1.expect("four slots fit") >= 0.98 * rate, "{policy}");
        }
    }
}
