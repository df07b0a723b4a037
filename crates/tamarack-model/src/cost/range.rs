//! Cost of scans against cost of updates: runs that a scan visits, rewrites of an entry, and the
//! lower bound on their product for any numbers of runs. MOOSE, sections 3.2 and 3.3.
//!
//! More runs in a level save writes and cost seeks. For given ratios, the product of the two sums
//! is smallest for `n_i = k √r_i`, with any k:
//!
//! ```text
//! Σ n_i · Σ r_i / n_i  ≥  (Σ √r_i)²  ≥  L² (N_L / F)^(1/L)  ≥  (e/2 · ln(N_L / F))²
//!                      Eq. 7         Eq. 8                  at r = e² = 7.4
//! ```
//!
//! These count slots and `r/n` rewrites, as the paper does. Real costs are [visible
//! runs](Shape::visible_runs) and [`writes_per_entry`](super::update::writes_per_entry), which are
//! lower.
//!
//! # Blocks of a short scan
//!
//! Monkey's Eq. 11 counts one block for each run, and the blocks that the entries fill. That is too
//! low for short scans with few entries to a block: [`blocks`] is the exact sum.
//!
//! ```text
//! run j     │ a  c  f │ k  m  p │ s …     a scan from g: the index leads to the first block, which
//!                    g│                   has nothing at or after g, and so to the second
//!                     └ fence of the second block: as much of k as tells it from f
//! ```
//!
//! A key before a fence is searched for in the block before it, which is the case in one of b gaps
//! between neighbours; [`before_fence`] is the share of such a gap that lies before the fence.
//! Fences are as short as possible, so that depends on the distribution of keys.

use crate::shape::Shape;

/// A run as a scan sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Met {
    /// Entries.
    pub entries: f64,
    /// The part of all keys that it covers: 1 for a run, less for one that a compaction has handed
    /// over in part, or has not completely written.
    pub covers: f64,
}

/// Data blocks that a scan reads without a cache: `Σ (1 + (1 - e_j/D) g_j / b) + (s - 1) (E/D) /
/// b`. E entries are in all these runs, D of them `live` (each key once). The scan starts at any
/// live entry, each equally likely, and returns `scanned` of them, at least 1. A block has b
/// entries, at least 1, and keys consist of random digits of this `base` ([`before_fence`]).
///
/// In each run the scan seeks its first key, and reads on as far as needed, skipping obsolete
/// versions like other entries. Memtables are ignored, and keys are assumed to be evenly spread
/// over all runs.
pub fn blocks(runs: &[Met], live: f64, scanned: f64, per_block: f64, base: f64) -> f64 {
    let seek = |run: &Met| {
        let density = run.entries / run.covers;
        run.covers * (1.0 + (1.0 - (density / live).min(1.0)) * before_fence(density, base) / per_block)
    };
    let met = || runs.iter().filter(|run| run.entries > 0.0 && run.covers > 0.0);
    let entries: f64 = met().map(|run| run.entries).sum();
    // If nothing is live, a scan passes all entries.
    let passed = if live > 0.0 { (scanned - 1.0).max(0.0) * (entries / live).max(1.0) } else { entries };
    met().map(seek).sum::<f64>() + passed / per_block
}

/// Whole entries to a block of this size; less than one if an entry has a larger block of its own.
pub fn entries_per_block(block_bytes: f64, entry_bytes: f64) -> f64 {
    let ratio = block_bytes / entry_bytes;
    if ratio < 1.0 { ratio } else { ratio.floor() }
}

/// The share of keys between the last entry of a block and the first of the next that lie before
/// the fence between them, and so lead to the first block; for `entries` random keys of digits of
/// this base, at least 2 (256 for random bytes, 16 for hexadecimal digits). A fence is the prefix
/// of the second block's first key, up to the first digit in which it differs from the key before.
///
/// Summed over the digit d in which these two differ, in which the searched key also differs from
/// the second: with `a = n / B^d` keys to a cell of d digits, `(1 - e^-a)/a - (1 - e^-aB)/(aB) -
/// e^-a (1 - e^-aB) / (B (1 - e^-a)) + e^-aB`.
pub fn before_fence(entries: f64, base: f64) -> f64 {
    let mut share = 0.0;
    let mut cell = entries / base;
    // Cells with almost no key distinguish no keys that larger cells did not.
    while cell * base > 1e-5 {
        let (none, none_above) = (-(-cell).exp_m1(), -(-cell * base).exp_m1());
        share +=
            none / cell - none_above / (cell * base) - (1.0 - none) * none_above / (base * none) + 1.0 - none_above;
        cell /= base;
    }
    share
}

/// Runs that a scan visits, counted in slots: `Σ n_i`. MOOSE, Eq. 3.
pub fn slots(shape: &Shape) -> f64 {
    shape.levels().iter().map(|level| f64::from(level.runs)).sum()
}

/// Rewrites of an entry on its way through the tree, up to a factor: `Σ r_i / n_i`. MOOSE, Eq. 2
/// without 1/B.
pub fn rewritings(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| shape.magnification(level)).sum()
}

/// Smallest product of [`slots`] and [`rewritings`] with these ratios and any real numbers of runs:
/// `(Σ √r_i)²`. MOOSE, Eq. 7.
pub fn least_product(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| shape.ratio(level).sqrt()).sum::<f64>().powi(2)
}

/// Smallest product for a tree of this many levels, with a last level of `last` memtables: `L² (N_L
/// / F)^(1/L)`, reached by equal ratios. MOOSE, Eq. 8.
pub fn least_product_of_levels(levels: u32, last: f64) -> f64 {
    f64::from(levels).powi(2) * last.powf(1.0 / f64::from(levels))
}

/// Smallest product for any real number of levels: ratios are e².
pub fn least_product_of_size(last: f64) -> f64 {
    (std::f64::consts::E / 2.0 * last.ln()).powi(2)
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    /// A run as it is stored: blocks of `per_block` keys, each with its fence.
    struct Stored {
        keys: Vec<u64>,
        fences: Vec<u64>,
        per_block: usize,
    }

    impl Stored {
        /// Keys are numbers of 64 bits, which have digits of so many.
        fn new(mut keys: Vec<u64>, per_block: usize, digit_bits: u32) -> Self {
            keys.sort_unstable();
            let fence = |at: usize| {
                let same_digits = (keys[at] ^ keys[at - 1]).leading_zeros() / digit_bits;
                keys[at] & !(u64::MAX.checked_shr((same_digits + 1) * digit_bits).unwrap_or(0))
            };
            let fences = (0..keys.len()).step_by(per_block).map(|at| if at == 0 { 0 } else { fence(at) }).collect();
            Self { keys, fences, per_block }
        }

        /// The blocks that are read to go from the first key at `from` or after to the `passed`th
        /// after it.
        fn read(&self, from: u64, passed: usize) -> usize {
            let first = self.fences.partition_point(|fence| *fence <= from) - 1;
            let last =
                (self.keys.partition_point(|key| *key < from) + passed).min(self.keys.len() - 1) / self.per_block;
            last.max(first) - first + 1
        }
    }

    /// Runs are really laid out in blocks with fences, and scanned; with random bytes and
    /// hexadecimal digits, at several densities, each key once and in two runs.
    #[test]
    fn blocks_are_those_of_runs_that_are_laid_out() {
        const SCANS: usize = 20_000;
        let mut random = Random::new(7);
        for (digit_bits, sizes, twice, per_block, scanned) in [
            (8, &[300, 700, 5_000, 20_000][..], false, 3, 10),
            (4, &[300, 700, 5_000, 20_000], false, 3, 10),
            (8, &[2_000; 12], false, 2, 1),
            (4, &[1_500; 12], false, 5, 30),
            (8, &[3_000, 9_000], true, 4, 20),
        ] {
            let mut newest = Vec::new();
            let mut runs = Vec::new();
            for size in sizes {
                let mut keys: Vec<u64> = (0..*size).map(|_| random.next()).collect();
                if twice {
                    // Every other key of the run before, again.
                    keys.extend(newest.iter().step_by(2));
                }
                newest.clone_from(&keys);
                runs.push(Stored::new(keys, per_block, digit_bits));
            }
            let mut live: Vec<u64> = runs.iter().flat_map(|run| run.keys.iter().copied()).collect();
            live.sort_unstable();
            live.dedup();
            let mut read = 0;
            for _ in 0..SCANS {
                let first = (random.next() % (live.len() - scanned) as u64) as usize;
                let (from, last) = (live[first], live[first + scanned - 1]);
                // A run stands on its first entry that is not before the last one returned; hidden
                // versions of that are not passed any more.
                let passed = |run: &Stored| {
                    run.keys.partition_point(|key| *key < last) - run.keys.partition_point(|key| *key < from)
                };
                read += runs.iter().map(|run| run.read(from, passed(run))).sum::<usize>();
            }
            let met: Vec<Met> = runs.iter().map(|run| Met { entries: run.keys.len() as f64, covers: 1.0 }).collect();
            let said = blocks(&met, live.len() as f64, scanned as f64, per_block as f64, f64::from(1 << digit_bits));
            let read = read as f64 / SCANS as f64;
            assert!((said / read - 1.0).abs() < 0.015, "{digit_bits} bits, {sizes:?}: {said} instead of {read}");
        }
    }

    /// A run that has been handed over in part counts for that part; an empty one not at all.
    #[test]
    fn parts_of_runs() {
        let met = |entries, covers| Met { entries, covers };
        let whole = blocks(&[met(1e6, 1.0)], 1e6, 1.0, 4.0, 256.0);
        assert_eq!(whole, 1.0, "the key is there");
        let halves = blocks(&[met(5e5, 0.5), met(5e5, 0.5), met(0.0, 1.0)], 1e6, 1.0, 4.0, 256.0);
        assert!((halves - whole).abs() < 1e-12);
        assert_eq!(blocks(&[met(400.0, 1.0)], 0.0, 1.0, 4.0, 256.0), 101.0, "all is hidden, and passed");
        assert_eq!(blocks(&[], 0.0, 1.0, 4.0, 256.0), 0.0);
        assert_eq!(
            [(4096.0, 1032.0), (4096.0, 10_000.0)].map(|(block, entry)| entries_per_block(block, entry)),
            [3.0, 0.4096]
        );
    }
}
