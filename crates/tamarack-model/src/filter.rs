//! What a filter kind promises: false positives, probes and cache lines, from the bits that each
//! entry gets.
//!
//! A filter answers "certainly not here" or "perhaps here". How often it says "perhaps" for a key
//! that is not there, its *false positive rate* (FPR), is a function of the kind and of the bits
//! per entry. Allocators and cost models ask here; the code of the filters asks here how many
//! probes to make, and is tested against these rates.
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
//! **Blocked Bloom filter.** A key first chooses a line, then k bits of that line. Lines receive
//! different numbers of keys, and crowded ones answer "perhaps" more often than others save; a
//! short line also holds a proportion of set bits that varies, and its k-th power is larger than
//! that of the mean. Putze, Sanders and Singler (*Cache-, Hash- and Space-Efficient Bloom Filters*)
//! mix the formula above over the load, and so count the first effect. Both are counted, exactly,
//! as follows. Let `d` be how many different bits k probes meet. They are all set if no subset of
//! them is clear; by inclusion and exclusion, with `q_i = (1 - i/B)^k` the chance that one key
//! leaves i given bits clear,
//!
//! ```text
//! FPR = Σ_d P(k probes meet d different bits) · Σ_i (-1)^i C(d, i) · E[q_i^J]
//!
//! J = keys in the line       E[q^J] = (1 - (1 - q)/lines)^n       for n keys
//!                            E[q^J] = e^(-(B/b)·(1 - q))          in the limit: J is Poisson with mean B/b
//! ```
//!
//! The terms alternate and are up to `C(14, 7)` = 3432; in double precision that leaves the rate
//! with an absolute error below 10⁻¹²; with 100 bits per entry it is 5·10⁻¹⁰.
//!
//! **Elastic filter.** Several blocked filters over the same keys, its *units*, of `b/u` bits per
//! entry each, which are asked one after the other until one says no. They err independently of
//! each other:
//!
//! ```text
//! FPR = FPR_blocked(b/u)^u          lines, absent = Σ_(i<u) FPR_blocked(b/u)^i          lines, present = u
//! ```
//!
//! A filter of k probes loses nothing against the ideal where `b·ln 2` is k, and a unit that is
//! blocked hardly more, since its bits are few: so units of about `2/ln 2` bits, two probes each
//! ([`units`]), err less often together than one blocked filter of all their bits.
//!
//! **The number of probes** is the whole number with the smallest FPR, found by trying: for the
//! standard filter that is `b·ln 2` rounded, except close to halves; the blocked filter wants fewer
//! at many bits.
//!
//! Cost: a promise takes some microseconds. Tested against brute force here, and against filters in
//! `tamarack-filter`, whose `MEASURED.md` is the table of it.

mod words;

pub use words::{Allocation, BITS_MAX, FilterChoice, FilterError};

/// Bits of a cache line, which is also the unit in which filters grow.
pub const LINE_BITS: u64 = 512;

/// The most units of an elastic filter: what [`BITS_MAX`] bits per entry come to.
pub const UNITS_MAX: u32 = 22;

/// A kind of filter. What each is good for is told in `tamarack-filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Bits anywhere in the filter: the fewest false positives, a cache line for each probe.
    Bloom,
    /// All bits of a key in one cache line: one cache line in all, more false positives, above all
    /// with many bits.
    Blocked,
    /// Several small blocked filters over the same keys, of which as many are in memory as a table
    /// is worth: [`crate::filter_plan`].
    Elastic,
}

/// A kind and a size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FilterSettings {
    /// The kind.
    pub kind: FilterKind,
    /// The size; more than 0.
    pub bits_per_entry: f64,
}

impl FilterSettings {
    /// The filter that a new table stores so that it can have `bits_per_entry` in memory. An
    /// elastic one has twice as many: hot tables load more units of it than others.
    pub fn stored(kind: FilterKind, bits_per_entry: f64) -> Self {
        let bits_per_entry = match kind {
            FilterKind::Elastic => (2.0 * bits_per_entry).min(BITS_MAX),
            FilterKind::Bloom | FilterKind::Blocked => bits_per_entry,
        };
        Self { kind, bits_per_entry }
    }
}

/// What a filter of a kind and size does, on average over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Probes for each key, the best whole number; 0 without a filter. Of an elastic filter, those
    /// in each unit.
    pub probes: u32,
    /// False positive rate, in (0, 1]; 1 without a filter.
    pub fpr: f64,
    /// Cache lines that a lookup of an absent key reads, in a filter of many lines.
    pub lines_absent: f64,
    /// Cache lines that a lookup of a present key reads, in a filter of many lines.
    pub lines_present: f64,
}

impl FilterKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Bloom, Self::Blocked, Self::Elastic];

    /// The kinds whose filters are of one piece, so that their size is any number of bits per
    /// entry.
    pub const OF_ONE_PIECE: [Self; 2] = [Self::Bloom, Self::Blocked];

    /// The most probes that a filter of this kind makes, an elastic one in each unit. So many are
    /// best at 43 bits per entry (standard, an FPR of 10⁻⁹) and at 28 bits (blocked, 10⁻⁵);
    /// with more bits than that the rate still falls, a little less than it could.
    pub const fn probes_max(self) -> u32 {
        match self {
            Self::Bloom => 30,
            Self::Blocked | Self::Elastic => 14,
        }
    }

    /// The word for this kind on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Blocked => "blocked",
            Self::Elastic => "elastic",
        }
    }
}

/// What a filter with many entries and `bits_per_entry` promises; with 0 bits, what no filter does.
///
/// # Panics
/// If `bits_per_entry` is negative, infinite or no number.
pub fn promise(kind: FilterKind, bits_per_entry: f64) -> Promise {
    let probes = best_probes(kind, bits_per_entry);
    if probes == 0 {
        return Promise { probes, fpr: 1.0, lines_absent: 0.0, lines_present: 0.0 };
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
    Promise { probes, fpr, lines_absent, lines_present }
}

/// The number of probes with the smallest false positive rate; 0 if there are no bits.
///
/// # Panics
/// If `bits_per_entry` is negative, infinite or no number.
pub fn best_probes(kind: FilterKind, bits_per_entry: f64) -> u32 {
    assert!(bits_per_entry >= 0.0 && bits_per_entry.is_finite(), "{bits_per_entry} bits per entry");
    if bits_per_entry == 0.0 {
        return 0;
    }
    if kind == FilterKind::Elastic {
        return best_probes(FilterKind::Blocked, bits_per_entry / f64::from(units(bits_per_entry)));
    }
    // The rate falls with the number of probes up to the best one, and rises from there on.
    let rate = |probes| fpr(kind, bits_per_entry, probes);
    (1..kind.probes_max()).find(|&probes| rate(probes) <= rate(probes + 1)).unwrap_or(kind.probes_max())
}

/// The false positive rate of a filter with many entries, `bits_per_entry` > 0 and a given number
/// of probes.
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

/// Bits per entry from which on four units err no more often than two: below, more bits would make
/// more errors. All other steps of [`units`] lower the rate where they are.
const FOUR_UNITS_BITS: f64 = 9.79;

/// The number of units of an elastic filter of so many bits per entry: an even one, so that half of
/// its bits are whole units, unless it is small, and such that each has about `2/ln 2` bits, 2.9:
/// between 2.1 and 4.9 from 8 bits on.
///
/// Fewer and larger units cannot follow so closely what tables are worth; more and smaller ones
/// take more cache lines. Never more than [`UNITS_MAX`].
pub fn units(bits_per_entry: f64) -> u32 {
    match (bits_per_entry * std::f64::consts::LN_2 / 4.0).round() as u32 {
        0 => 1,
        2 if bits_per_entry < FOUR_UNITS_BITS => 2,
        pairs => 2 * pairs.min(UNITS_MAX / 2),
    }
}

/// The same for a filter with `entries` in `lines` cache lines, exact for few as well (of the
/// standard filter up to the spread of the proportion of set bits, which the kind's formula leaves
/// out). Without lines, 1.
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
            // As few as there are lines for.
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
    // The chance that some `clear` given bits of the line are all clear.
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
    // Rounding must not make a chance of what is none.
    rate.clamp(0.0, 1.0)
}

/// The distribution of how many different bits of a line so many random probes meet; index by that
/// number.
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

    /// The distribution of the number of set bits in a line of `keys`, throw by throw; the slow
    /// twin of the closed form.
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

    /// Many entries reach the limit, whichever the kind.
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

    /// The standard filter has the values of the textbook, `round(b ln 2)` probes among them, away
    /// from halves.
    #[test]
    fn standard_is_the_textbook() {
        for (bits, probes, rate) in
            [(1.0, 1, 0.632_121), (5.0, 3, 0.091_849), (10.0, 7, 0.008_194), (16.0, 11, 0.000_459)]
        {
            let promise = promise(FilterKind::Bloom, bits);
            assert_eq!(promise.probes, probes);
            assert_close(promise.fpr, rate, 1e-3, "standard");
        }
        for tenths in 1..400 {
            let ideal = f64::from(tenths) / 10.0 * std::f64::consts::LN_2;
            if (ideal.fract() - 0.5).abs() > 0.08 && ideal > 0.5 {
                let found = best_probes(FilterKind::Bloom, f64::from(tenths) / 10.0);
                assert_eq!(f64::from(found), ideal.round(), "{tenths} tenths of a bit");
            }
        }
    }

    /// More bits never make more errors, also where the number of units changes.
    #[test]
    fn elastic_rates_fall() {
        let mut before = 1.0;
        for hundredths in 1..6400 {
            let rate = promise(FilterKind::Elastic, f64::from(hundredths) / 100.0).fpr;
            assert!(rate <= before * (1.0 + 1e-9), "{hundredths} hundredths of a bit: {rate:e} after {before:e}");
            before = rate;
        }
        assert_eq!(promise(FilterKind::Elastic, 1e12).fpr, promise(FilterKind::Elastic, 1e11).fpr);
    }

    /// No number of probes beats the chosen one; more bits never hurt; blocked is worse, but close
    /// at few bits.
    #[test]
    fn promises_are_the_best_and_fall() {
        for kind in FilterKind::OF_ONE_PIECE {
            let mut before = 1.0;
            for twentieths in 1..800 {
                let bits = f64::from(twentieths) / 20.0;
                let promise = promise(kind, bits);
                let best = (1..=kind.probes_max()).map(|k| fpr(kind, bits, k)).fold(1.0, f64::min);
                assert_eq!(promise.fpr, best, "{} with {bits} bits", kind.name());
                assert!(promise.fpr <= before, "{} with {bits} bits", kind.name());
                assert!(promise.lines_absent <= promise.lines_present);
                before = promise.fpr;
            }
        }
        let ratio = |bits| promise(FilterKind::Blocked, bits).fpr / promise(FilterKind::Bloom, bits).fpr;
        assert!(ratio(1.0) < 1.001 && ratio(10.0) < 1.3 && ratio(16.0) > 1.5 && ratio(20.0) > 2.0);
    }

    /// Units are two probes each, an even number; together they err about as seldom as the best
    /// filter of their bits, and less often than a blocked one.
    #[test]
    fn units_lose_little() {
        assert_eq!([1.0, 4.0, 10.0, 16.0, 20.0, 32.0, BITS_MAX, 1e9].map(units), [1, 2, 4, 6, 6, 12, 22, 22]);
        for tenths in 80..=320 {
            let bits = f64::from(tenths) / 10.0;
            let promise = promise(FilterKind::Elastic, bits);
            let of_unit = bits / f64::from(units(bits));
            assert!((2.1..4.9).contains(&of_unit), "{bits} bits in units of {of_unit}");
            let efficiency = promise.fpr.ln() / (-bits * std::f64::consts::LN_2.powi(2));
            assert!((0.95..1.0).contains(&efficiency), "{bits} bits: {promise:?} has an efficiency of {efficiency}");
            assert!(bits < 12.0 || promise.fpr < super::promise(FilterKind::Blocked, bits).fpr, "{bits} bits");
            assert!(promise.lines_absent < 1.7, "{bits} bits: {promise:?}");
        }
    }

    /// Without bits there is no filter.
    #[test]
    fn no_bits_no_filter() {
        for kind in FilterKind::ALL {
            let none = Promise { probes: 0, fpr: 1.0, lines_absent: 0.0, lines_present: 0.0 };
            assert_eq!(promise(kind, 0.0), none);
            assert_eq!(fpr_of(kind, 5, 0, 0), 1.0);
            assert_eq!(fpr_of(kind, 0, 1, 1), 0.0);
        }
    }
}
