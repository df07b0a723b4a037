//! The model of a filter kind: its false positive rate, probes and cache lines, predicted from its
//! bits per entry.
//!
//! A filter answers "no" or "maybe". The share of absent keys for which it answers "maybe", its
//! *false positive rate* (FPR), is a function of the kind and of the bits per entry. Filter
//! allocation and cost models use it; the filters themselves take their number of probes from here
//! and are tested against these rates.
//!
//! Symbols: `b` bits per entry, any positive number; `k` probes, whole; `B` = 512, the bits of a
//! cache line.
//!
//! **Standard Bloom filter.** The k probes of a key may fall anywhere. Of `m` bits, `n` keys leave
//! each one clear with probability `(1 - 1/m)^(kn)`, for large filters `e^(-k/b)`, so
//!
//! ```text
//! FPR = (1 - e^(-k/b))^k
//! ```
//!
//! **Blocked Bloom filter.** A key first selects a line, then k bits of that line. Lines receive
//! different numbers of keys, and crowded ones produce more false positives than sparse ones save;
//! the proportion of set bits of a short line also varies, and the mean of its k-th power exceeds
//! the k-th power of its mean. Putze, Sanders and Singler (*Cache-, Hash- and Space-Efficient Bloom
//! Filters*) mix the formula above over the load, which covers the first effect. Both are covered,
//! exactly, as follows. Let `d` be the number of different bits that k probes hit. By inclusion and
//! exclusion over subsets of clear bits, with `q_i = (1 - i/B)^k` the chance that one key leaves i
//! given bits clear,
//!
//! ```text
//! FPR = Σ_d P(k probes meet d different bits) · Σ_i (-1)^i C(d, i) · E[q_i^J]
//!
//! J = keys in the line     E[q^J] = (1 - (1 - q)/lines)^n     for n keys
//!                          E[q^J] = e^(-(B/b)·(1 - q))        in the limit: J is Poisson, mean B/b
//! ```
//!
//! The terms alternate and are up to `C(14, 7)` = 3432; in double precision the absolute error of
//! the rate is below 10⁻¹², with 100 bits per entry 5·10⁻¹⁰.
//!
//! **Elastic filter.** Several blocked filters over the same keys, its *units*, of `b/u` bits per
//! entry each, probed one after the other until one answers "no". Their errors are independent:
//!
//! ```text
//! FPR = FPR_blocked(b/u)^u      lines, absent = Σ_(i<u) FPR_blocked(b/u)^i      lines, present = u
//! ```
//!
//! A filter of k probes matches the ideal where `b·ln 2` is k, and so does a blocked unit almost,
//! since its bits are few: units of about `2/ln 2` bits with two probes each ([`units`]) have a
//! lower combined rate than one blocked filter of all their bits.
//!
//! **The number of probes** is the whole number with the smallest FPR, found by trying: for the
//! standard filter `b·ln 2` rounded, except close to halves; for the blocked filter fewer at many
//! bits.
//!
//! Cost: a prediction takes some microseconds. Tested against brute force here, and against real
//! filters in `tamarack-filter`, whose `MEASURED.md` compares predicted and measured rates.

use std::sync::LazyLock;

pub mod chucky;
mod words;

pub use words::{Allocation, BITS_MAX, FilterChoice, FilterError};

/// Bits of a cache line, which is also the unit in which filters grow.
pub const LINE_BITS: u64 = 512;

/// The maximum number of units of an elastic filter, reached at [`BITS_MAX`] bits per entry.
pub const UNITS_MAX: u32 = 22;

/// A kind of filter; `tamarack-filter` compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Bits anywhere in the filter: the fewest false positives, a cache line for each probe.
    Bloom,
    /// All bits of a key in one cache line: one cache line in all, more false positives, above all
    /// with many bits.
    Blocked,
    /// Several small blocked filters over the same keys, of which [`crate::filter_plan`] loads as
    /// many as a table is worth.
    Elastic,
}

/// A kind of filter and its size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FilterSettings {
    /// The kind.
    pub kind: FilterKind,
    /// The size; more than 0.
    pub bits_per_entry: f64,
}

impl FilterSettings {
    /// The filter that a new table stores so that it can have `bits_per_entry` in memory. An
    /// elastic one stores twice as many bits: hot tables load more of its units than others.
    pub fn stored(kind: FilterKind, bits_per_entry: f64) -> Self {
        let bits_per_entry = match kind {
            FilterKind::Elastic => (2.0 * bits_per_entry).min(BITS_MAX),
            FilterKind::Bloom | FilterKind::Blocked => bits_per_entry,
        };
        Self { kind, bits_per_entry }
    }
}

/// The predicted properties of a filter, averaged over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Probes for each key, the best whole number; 0 without a filter. In each unit of an elastic
    /// filter.
    pub probes: u32,
    /// False positive rate, in (0, 1]; 1 without a filter.
    pub fpr: f64,
    /// Cache lines that a lookup of an absent key reads, in a large filter.
    pub lines_absent: f64,
    /// Cache lines that a lookup of a present key reads, in a large filter.
    pub lines_present: f64,
}

impl FilterKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Bloom, Self::Blocked, Self::Elastic];

    /// Kinds whose filters are of one piece, so that any number of bits per entry is possible.
    pub const OF_ONE_PIECE: [Self; 2] = [Self::Bloom, Self::Blocked];

    /// The maximum number of probes of this kind, in each unit of an elastic filter. It is the best
    /// at 43 bits per entry (standard, an FPR of 10⁻⁹) and at 28 bits (blocked, 10⁻⁵); with more
    /// bits the rate falls slightly less than it could.
    pub const fn probes_max(self) -> u32 {
        match self {
            Self::Bloom => 30,
            Self::Blocked | Self::Elastic => 14,
        }
    }

    /// The name of this kind on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Blocked => "blocked",
            Self::Elastic => "elastic",
        }
    }
}

/// Predicts the properties of a large filter; 0 bits mean no filter.
///
/// # Panics
/// If `bits_per_entry` is negative, infinite or NaN.
pub fn predict(kind: FilterKind, bits_per_entry: f64) -> Predicted {
    let probes = best_probes(kind, bits_per_entry);
    if probes == 0 {
        return Predicted { probes, fpr: 1.0, lines_absent: 0.0, lines_present: 0.0 };
    }
    let fpr = fpr(kind, bits_per_entry, probes);
    let (lines_absent, lines_present) = match kind {
        FilterKind::Blocked => (1.0, 1.0),
        FilterKind::Elastic => {
            let (units, unit_fpr) = (units(bits_per_entry), fpr.powf(1.0 / f64::from(units(bits_per_entry))));
            ((0..units).map(|earlier| unit_fpr.powi(earlier as i32)).sum(), f64::from(units))
        }
        FilterKind::Bloom => {
            let set = bits_set(bits_per_entry, probes);
            ((0..probes).map(|earlier| set.powi(earlier as i32)).sum(), f64::from(probes))
        }
    };
    Predicted { probes, fpr, lines_absent, lines_present }
}

/// The number of probes with the smallest false positive rate; 0 without bits.
///
/// # Panics
/// If `bits_per_entry` is negative, infinite or NaN.
pub fn best_probes(kind: FilterKind, bits_per_entry: f64) -> u32 {
    assert!(bits_per_entry >= 0.0 && bits_per_entry.is_finite(), "{bits_per_entry} bits per entry");
    if bits_per_entry == 0.0 {
        return 0;
    }
    if kind == FilterKind::Elastic {
        return best_probes(FilterKind::Blocked, bits_per_entry / f64::from(units(bits_per_entry)));
    }
    // The rate falls with the number of probes up to the best one, and rises from there on.
    let mut rate = fpr(kind, bits_per_entry, 1);
    for probes in 1..kind.probes_max() {
        let of_more = fpr(kind, bits_per_entry, probes + 1);
        if rate <= of_more {
            return probes;
        }
        rate = of_more;
    }
    kind.probes_max()
}

/// The false positive rate of a large filter with `bits_per_entry` > 0 and a given number of
/// probes.
///
/// # Panics
/// If the probes are more than the maximum of a kind other than the standard filter.
pub fn fpr(kind: FilterKind, bits_per_entry: f64, probes: u32) -> f64 {
    match kind {
        FilterKind::Bloom => bits_set(bits_per_entry, probes).powi(probes as i32),
        FilterKind::Blocked => {
            let keys_per_line = LINE_BITS as f64 / bits_per_entry;
            line_fpr(probes, |q| (-keys_per_line * (1.0 - q)).exp())
        }
        FilterKind::Elastic => {
            let units = units(bits_per_entry);
            fpr(FilterKind::Blocked, bits_per_entry / f64::from(units), probes).powi(units as i32)
        }
    }
}

/// Bits per entry from which on four units have no higher rate than two; with fewer bits the step
/// from two to four would raise it. All other steps of [`units`] lower the rate.
const FOUR_UNITS_BITS: f64 = 9.79;

/// The number of units of an elastic filter: even, so that half of its bits are whole units, unless
/// the filter is small; and such that each unit has about `2/ln 2` = 2.9 bits per entry, between
/// 2.1 and 4.9 from 8 bits on.
///
/// Fewer and larger units follow the value of tables less closely; more and smaller ones read more
/// cache lines. At most [`UNITS_MAX`].
pub fn units(bits_per_entry: f64) -> u32 {
    match (bits_per_entry * std::f64::consts::LN_2 / 4.0).round() as u32 {
        0 => 1,
        2 if bits_per_entry < FOUR_UNITS_BITS => 2,
        pairs => 2 * pairs.min(UNITS_MAX / 2),
    }
}

/// The false positive rate of a filter with `entries` in `lines` cache lines, exact for small
/// filters too (for the standard filter except for the spread of the proportion of set bits, which
/// its formula ignores). Without lines, 1.
///
/// # Panics
/// As [`fpr`].
pub fn fpr_of(kind: FilterKind, entries: u64, lines: u64, probes: u32) -> f64 {
    let keys = entries as f64;
    match kind {
        _ if lines == 0 => 1.0,
        _ if entries == 0 => 0.0,
        FilterKind::Bloom => {
            let bits = (lines * LINE_BITS) as f64;
            let clear = (f64::from(probes) * keys * (-1.0 / bits).ln_1p()).exp();
            (1.0 - clear).powi(probes as i32)
        }
        FilterKind::Blocked => line_fpr(probes, |q| (keys * ((q - 1.0) / lines as f64).ln_1p()).exp()),
        FilterKind::Elastic => {
            // No more units than lines.
            let units = u64::from(units((lines * LINE_BITS) as f64 / keys)).min(lines);
            fpr_of(FilterKind::Blocked, entries, lines / units, probes).powi(units as i32)
        }
    }
}

/// The expected proportion of set bits in a standard filter.
fn bits_set(bits_per_entry: f64, probes: u32) -> f64 {
    -(-f64::from(probes) / bits_per_entry).exp_m1()
}

/// The chance that `probes` random bits of a line are all set; `mixed(q)` is the expectation of
/// `q^J`, J the number of keys in the line.
fn line_fpr(probes: u32, mixed: impl Fn(f64) -> f64) -> f64 {
    let LineTerms { clear, different } = &LINE_TERMS[probes as usize];
    // The chance that `i` given bits of the line are all clear.
    let mut chances = [0.0; LINE_PROBES_MAX + 1];
    for (chance, q) in chances.iter_mut().zip(clear) {
        *chance = mixed(*q);
    }
    let all_set =
        |choices: &[f64]| choices.iter().zip(&chances).fold(0.0, |sum, (choice, chance)| sum + choice * chance);
    let rate: f64 = different.iter().map(|(chance, choices)| chance * all_set(choices)).sum();
    // Rounding must not produce a rate outside [0, 1].
    rate.clamp(0.0, 1.0)
}

/// The maximum number of probes of a line.
const LINE_PROBES_MAX: usize = FilterKind::Blocked.probes_max() as usize;

/// The terms of a line's rate by number of probes, from 0 to the maximum. They depend on no load,
/// and a search for the best number of probes needs them many times.
static LINE_TERMS: LazyLock<Vec<LineTerms>> =
    LazyLock::new(|| (0..=LINE_PROBES_MAX as u32).map(LineTerms::of).collect());

/// The terms of a line's rate that depend on the number of probes alone.
struct LineTerms {
    /// `q_i` by `i`: the chance that one key leaves `i` given bits of the line clear.
    clear: Vec<f64>,
    /// By `d`: the chance that the probes hit `d` different bits, and `(-1)^i C(d, i)` by `i`.
    different: Vec<(f64, Vec<f64>)>,
}

impl LineTerms {
    fn of(probes: u32) -> Self {
        let clear = (0..=probes).map(|clear| (1.0 - f64::from(clear) / LINE_BITS as f64).powi(probes as i32)).collect();
        let different = different_bits(probes).into_iter().enumerate().map(|(bits, chance)| (chance, choices(bits)));
        Self { clear, different: different.collect() }
    }
}

/// The binomial coefficients `(-1)^i C(bits, i)` by `i`.
fn choices(bits: usize) -> Vec<f64> {
    let next = |choices: f64, clear: usize| choices * (-((bits - clear) as f64) / (clear + 1) as f64);
    (0..=bits).scan(1.0, |choices, clear| Some(std::mem::replace(choices, next(*choices, clear)))).collect()
}

/// The distribution of the number of different bits of a line that random probes hit, indexed by
/// that number.
fn different_bits(probes: u32) -> Vec<f64> {
    let mut chances = vec![0.0; probes as usize + 1];
    chances[0] = 1.0;
    for _ in 0..probes {
        for bits in (0..chances.len()).rev() {
            let old = chances[bits] * bits as f64;
            let new = if bits > 0 { chances[bits - 1] * (LINE_BITS as f64 - (bits - 1) as f64) } else { 0.0 };
            chances[bits] = (old + new) / LINE_BITS as f64;
        }
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64, share: f64, what: &str) {
        assert!((found / expected - 1.0).abs() < share, "{what}: {found:e} instead of {expected:e}");
    }

    /// The distribution of the number of set bits in a line of `keys`, computed bit by bit: the
    /// slow twin of the closed form.
    fn set_bits(keys: u32, probes: u32) -> Vec<f64> {
        let line = LINE_BITS as usize;
        let mut chances = vec![0.0; line + 1];
        chances[0] = 1.0;
        for _ in 0..keys * probes {
            for set in (1..=line).rev() {
                let stays = chances[set] * set as f64;
                chances[set] = (stays + chances[set - 1] * (line - set + 1) as f64) / line as f64;
            }
            chances[0] = 0.0;
        }
        chances
    }

    /// The rate by brute force: over all loads, over all numbers of set bits.
    fn brute_force(loads: &[f64], probes: u32) -> f64 {
        let of_load = |keys: usize| -> f64 {
            let bits = set_bits(keys as u32, probes);
            let rate = |set: usize| (set as f64 / LINE_BITS as f64).powi(probes as i32);
            bits.iter().enumerate().map(|(set, chance)| chance * rate(set)).sum()
        };
        loads.iter().enumerate().filter(|(_, chance)| **chance > 1e-15).map(|(n, chance)| chance * of_load(n)).sum()
    }

    /// The closed form of the blocked filter is the sum over loads and set bits, for Poisson and
    /// for binomial loads.
    #[test]
    fn blocked_equals_brute_force() {
        for (bits_per_entry, probes) in [(4.0, 3), (10.0, 6), (20.0, 9), (40.0, 14)] {
            let mean: f64 = LINE_BITS as f64 / bits_per_entry;
            let poisson: Vec<f64> = (0..3 * mean as usize + 40)
                .scan((-mean).exp(), |chance, n| {
                    let now = *chance;
                    *chance *= mean / (n + 1) as f64;
                    Some(now)
                })
                .collect();
            let expected = brute_force(&poisson, probes);
            assert_close(fpr(FilterKind::Blocked, bits_per_entry, probes), expected, 1e-6, "Poisson");
        }
        // 100 keys, each in the line with a chance of 1/3.
        let binomial: Vec<f64> = (0..=100)
            .scan((2.0_f64 / 3.0).powi(100), |chance, n| {
                let now = *chance;
                *chance *= f64::from(100 - n) / f64::from(n + 1) / 2.0;
                Some(now)
            })
            .collect();
        assert_close(fpr_of(FilterKind::Blocked, 100, 3, 8), brute_force(&binomial, 8), 1e-6, "binomial");
    }

    /// The rate of a line straight from its formula, without terms that were computed before.
    fn plain_line_fpr(probes: u32, mixed: impl Fn(f64) -> f64) -> f64 {
        let chances: Vec<f64> =
            (0..=probes).map(|clear| mixed((1.0 - f64::from(clear) / LINE_BITS as f64).powi(probes as i32))).collect();
        let all_set = |bits: usize| {
            let mut choices = 1.0;
            let mut sum = 0.0;
            for (clear, chance) in chances.iter().enumerate().take(bits + 1) {
                sum += choices * chance;
                choices *= -((bits - clear) as f64) / (clear + 1) as f64;
            }
            sum
        };
        let different = different_bits(probes);
        let rate: f64 = different.iter().enumerate().map(|(bits, chance)| chance * all_set(bits)).sum();
        rate.clamp(0.0, 1.0)
    }

    /// The number of probes by its definition, for every size that filters of up to 40 lines and
    /// 1200 entries can have, down to sizes where rounding decides: rates and numbers are the same
    /// to the last bit, since filters are stored with them.
    #[test]
    fn probes_are_those_of_the_definition() {
        let plain = |kind, bits: f64, probes| match kind {
            FilterKind::Bloom => bits_set(bits, probes).powi(probes as i32),
            _ => plain_line_fpr(probes, |q| (-(LINE_BITS as f64 / bits) * (1.0 - q)).exp()),
        };
        let of_lines = (1..=40).flat_map(|lines| (1..=1200).map(move |entries| (lines, entries)));
        let sizes = of_lines.map(|(lines, entries)| (lines * LINE_BITS) as f64 / entries as f64);
        let sizes: Vec<f64> = sizes.chain((1..6400).map(|hundredths| f64::from(hundredths) / 100.0)).collect();
        for kind in FilterKind::OF_ONE_PIECE {
            let max = kind.probes_max();
            for &bits in &sizes {
                let rates: Vec<f64> = (1..=max).map(|probes| plain(kind, bits, probes)).collect();
                let same =
                    (1..=max).all(|probes| fpr(kind, bits, probes).to_bits() == rates[probes as usize - 1].to_bits());
                assert!(same, "{} with {bits} bits", kind.name());
                let first = rates.windows(2).position(|pair| pair[0] <= pair[1]).map_or(max, |place| place as u32 + 1);
                assert_eq!(best_probes(kind, bits), first, "{} with {bits} bits", kind.name());
            }
        }
    }

    /// Large filters approach the limit, for every kind.
    #[test]
    fn limits_are_reached() {
        for kind in FilterKind::ALL {
            for bits in [1, 4, 16] {
                let probes = best_probes(kind, f64::from(bits));
                let lines = 100_000;
                let finite = fpr_of(kind, lines * LINE_BITS / u64::from(bits as u32), lines, probes);
                assert_close(finite, fpr(kind, f64::from(bits), probes), 1e-3, kind.name());
            }
        }
    }

    /// The standard filter matches the textbook, with `round(b ln 2)` probes except close to
    /// halves.
    #[test]
    fn standard_is_the_textbook() {
        for (bits, probes, rate) in
            [(1.0, 1, 0.632_121), (5.0, 3, 0.091_849), (10.0, 7, 0.008_194), (16.0, 11, 0.000_459)]
        {
            let predicted = predict(FilterKind::Bloom, bits);
            assert_eq!(predicted.probes, probes);
            assert_close(predicted.fpr, rate, 1e-3, "standard");
        }
        for tenths in 1..400 {
            let ideal = f64::from(tenths) / 10.0 * std::f64::consts::LN_2;
            if (ideal.fract() - 0.5).abs() > 0.08 && ideal > 0.5 {
                let found = best_probes(FilterKind::Bloom, f64::from(tenths) / 10.0);
                assert_eq!(f64::from(found), ideal.round(), "{tenths} tenths of a bit");
            }
        }
    }

    /// More bits never raise the rate, even where the number of units changes.
    #[test]
    fn elastic_rates_fall() {
        let mut before = 1.0;
        for hundredths in 1..6400 {
            let rate = predict(FilterKind::Elastic, f64::from(hundredths) / 100.0).fpr;
            assert!(rate <= before * (1.0 + 1e-9), "{hundredths} hundredths of a bit: {rate:e} after {before:e}");
            before = rate;
        }
        assert_eq!(predict(FilterKind::Elastic, 1e12).fpr, predict(FilterKind::Elastic, 1e11).fpr);
    }

    /// No number of probes beats the chosen one; more bits never hurt; blocked is worse, but close
    /// at few bits.
    #[test]
    fn predictions_are_the_best_and_fall() {
        for kind in FilterKind::OF_ONE_PIECE {
            let mut before = 1.0;
            for twentieths in 1..800 {
                let bits = f64::from(twentieths) / 20.0;
                let predicted = predict(kind, bits);
                let best = (1..=kind.probes_max()).map(|k| fpr(kind, bits, k)).fold(1.0, f64::min);
                assert_eq!(predicted.fpr, best, "{} with {bits} bits", kind.name());
                assert!(predicted.fpr <= before, "{} with {bits} bits", kind.name());
                assert!(predicted.lines_absent <= predicted.lines_present);
                before = predicted.fpr;
            }
        }
        let ratio = |bits| predict(FilterKind::Blocked, bits).fpr / predict(FilterKind::Bloom, bits).fpr;
        assert!(ratio(1.0) < 1.001 && ratio(10.0) < 1.3 && ratio(16.0) > 1.5 && ratio(20.0) > 2.0);
    }

    /// Units have two probes each and are even in number; together they almost match the best
    /// filter of their bits, and beat a blocked one.
    #[test]
    fn units_lose_little() {
        assert_eq!([1.0, 4.0, 10.0, 16.0, 20.0, 32.0, BITS_MAX, 1e9].map(units), [1, 2, 4, 6, 6, 12, 22, 22]);
        for tenths in 80..=320 {
            let bits = f64::from(tenths) / 10.0;
            let predicted = predict(FilterKind::Elastic, bits);
            let of_unit = bits / f64::from(units(bits));
            assert!((2.1..4.9).contains(&of_unit), "{bits} bits in units of {of_unit}");
            let efficiency = predicted.fpr.ln() / (-bits * std::f64::consts::LN_2.powi(2));
            assert!((0.95..1.0).contains(&efficiency), "{bits} bits: {predicted:?} has an efficiency of {efficiency}");
            assert!(bits < 12.0 || predicted.fpr < predict(FilterKind::Blocked, bits).fpr, "{bits} bits");
            assert!(predicted.lines_absent < 1.7, "{bits} bits: {predicted:?}");
        }
    }

    /// Without bits there is no filter.
    #[test]
    fn no_bits_no_filter() {
        for kind in FilterKind::ALL {
            let none = Predicted { probes: 0, fpr: 1.0, lines_absent: 0.0, lines_present: 0.0 };
            assert_eq!(predict(kind, 0.0), none);
            assert_eq!(fpr_of(kind, 5, 0, 0), 1.0);
            assert_eq!(fpr_of(kind, 0, 1, 1), 0.0);
        }
    }
}
