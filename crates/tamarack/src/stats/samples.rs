//! Sampled lookups: one in [`LOOKUPS_PER_SAMPLE`] is looked at more closely than all others can
//! afford.
//!
//! Of every sampled lookup each table that it comes to keeps what became of it there
//! ([`TableSamples`]), and the database keeps how long it took ([`super::latency`]). All others pay
//! for it with counting down to the next sample, two instructions.
//!
//! # Which lookups are sampled
//!
//! Each is, with the same probability and independently of all others: the gaps from one to the
//! next are drawn from a geometric distribution. So no pattern of keys, of whatever period, is seen
//! more or less often than it comes, and a thread of three lookups counts as a part of one with
//! many. The numbers behind it are pseudo-random, from when its thread first came to the database;
//! a simulated history samples the same lookups whenever it is repeated.
//!
//! # Lately
//!
//! What filters are shared out by (`allocation=observed`) is counted by *periods* of [`PERIOD`]
//! samples, about 262,000 lookups: the current one and the one before count ([`Lately`]). So a
//! workload that has changed is seen as it is after half a million lookups at most.
//!
//! # What an estimate is worth
//!
//! Of `n` samples, about `64 n` lookups were meant, with a standard deviation of `64 √n`: with 100
//! samples 10 %, with 10,000 samples 1 %.
//!
//! Tests: here, and `tests/suite/samples.rs` against what lookups really met.

use std::array;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use super::Counter;
use super::number::Number;

/// One in so many lookups is sampled. At 64, what a sample takes beside its lookup, below 500 ns,
/// adds less than 10 ns to each.
pub const LOOKUPS_PER_SAMPLE: u64 = 64;

/// So many samples are a period.
const PERIOD: u64 = 4096;

/// The period in which the last of so many samples came.
fn period(sampled: u64) -> u64 {
    sampled.saturating_sub(1) / PERIOD
}

/// How many of `sampled` lookups came lately, and after the first `before`.
pub(crate) fn sampled_lately(sampled: u64, before: u64) -> u64 {
    sampled.saturating_sub(before.max(period(sampled).saturating_sub(1) * PERIOD))
}

/// Numbers of this period and of the one before. When a period begins, samples that are noted at
/// that moment by several threads may be lost; so few do not matter.
#[derive(Debug)]
pub(super) struct Lately<const N: usize> {
    /// Which period is the current one.
    period: AtomicU64,
    now: [AtomicU64; N],
    before: [AtomicU64; N],
}

impl<const N: usize> Default for Lately<N> {
    fn default() -> Self {
        let zeros = || array::from_fn(|_| AtomicU64::new(0));
        Self { period: AtomicU64::new(0), now: zeros(), before: zeros() }
    }
}

impl<const N: usize> Lately<N> {
    /// Adds what a sample brings, the last of `sampled`.
    pub(super) fn add(&self, sampled: u64, amounts: [u64; N]) {
        let period = period(sampled);
        let counted = self.period.swap(period, Ordering::Relaxed);
        if counted != period {
            for (now, before) in self.now.iter().zip(&self.before) {
                let ended = now.swap(0, Ordering::Relaxed);
                before.store(if counted + 1 == period { ended } else { 0 }, Ordering::Relaxed);
            }
        }
        self.now.iter().zip(amounts).for_each(|(now, amount)| _ = now.fetch_add(amount, Ordering::Relaxed));
    }

    /// The sums of the two periods up to the last of `sampled`.
    pub(super) fn get(&self, sampled: u64) -> [u64; N] {
        let get = |numbers: &[AtomicU64; N], index: usize| numbers[index].load(Ordering::Relaxed);
        let counted = self.period.load(Ordering::Relaxed);
        array::from_fn(|index| match period(sampled).saturating_sub(counted) {
            0 => get(&self.now, index) + get(&self.before, index),
            1 => get(&self.now, index),
            _ => 0,
        })
    }
}

/// Picks the lookups of a thread that are sampled.
#[derive(Debug)]
pub struct Sampler {
    /// Lookups up to the next sample, that one included; at least 1.
    left: Number,
    random: Number,
}

impl Sampler {
    /// Another choice for each number.
    pub fn new(number: u64) -> Self {
        let this = Self { left: Number::new(0), random: Number::new(number << 32) };
        this.draw();
        this
    }

    /// True if this lookup is to be sampled.
    #[inline]
    pub fn picks(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 {
            return false;
        }
        self.draw();
        true
    }

    /// Draws how far the next sample is: 1, 2, 3 … with probabilities p, p(1 - p), p(1 - p)² …
    #[cold]
    #[inline(never)]
    fn draw(&self) {
        // SplitMix64.
        let mut bits = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(bits);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        // In (0, 1].
        let uniform = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let passed_over = uniform.ln() / (-1.0 / LOOKUPS_PER_SAMPLE as f64).ln_1p();
        self.left.set(1 + passed_over as u64);
    }
}

/// What became of lookups in one table.
#[derive(Debug, Default)]
pub struct TableSamples {
    lookups: Counter,
    in_vain: Counter,
    filter_negatives: Counter,
    filter_false_positives: Counter,
    filter_lines: Counter,
    /// Of all lookups, not only of sampled ones.
    false_positives: Counter,
    /// Samples that came, and those in vain.
    lately: Lately<2>,
}

impl TableSamples {
    /// A sampled lookup, the last of so many of the database, has come by: whether it found its
    /// key, whether the filter said no, or perhaps by mistake, and how many cache lines that took.
    pub fn note(&self, sampled: u64, found: bool, is_negative: bool, is_false_positive: bool, filter_lines: u32) {
        self.lately.add(sampled, [1, u64::from(!found)]);
        self.lookups.add(1);
        self.in_vain.add(u64::from(!found));
        self.filter_negatives.add(u64::from(is_negative));
        self.filter_false_positives.add(u64::from(is_false_positive));
        self.filter_lines.add(u64::from(filter_lines));
    }

    /// Any lookup was told by the filter that its key may be here, and it was not. This is rare.
    #[cold]
    pub fn note_false_positive(&self) {
        self.false_positives.add(1);
    }

    /// How many samples came, and how many in vain, of the last two periods up to the last of
    /// `sampled`.
    pub fn lately(&self, sampled: u64) -> [u64; 2] {
        self.lately.get(sampled)
    }

    /// The numbers so far. `since` is how many lookups of the database were sampled since the table
    /// has been there.
    pub fn get(&self, since: u64) -> RunLookups {
        let in_vain = self.in_vain.get();
        RunLookups {
            sampled: self.lookups.get(),
            sampled_in_vain: in_vain,
            sampled_filter_negatives: self.filter_negatives.get(),
            sampled_filter_false_positives: self.filter_false_positives.get(),
            sampled_filter_lines: self.filter_lines.get(),
            filter_false_positives: self.false_positives.get(),
            // Rarely, a lookup is noted here before it is noted there.
            in_vain_per_lookup: if in_vain == 0 { 0.0 } else { in_vain as f64 / since.max(in_vain) as f64 },
        }
    }
}

/// What became of lookups that came to a run, since its tables have been there, or the database was
/// opened. A lookup comes to a run if nothing younger has decided, and one of the run's tables may
/// hold its key.
///
/// All but [`RunLookups::filter_false_positives`] is of **sampled** lookups, one in
/// [`LOOKUPS_PER_SAMPLE`], chosen at random.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunLookups {
    /// Sampled lookups that came to the run.
    pub sampled: u64,
    /// Those that passed it in vain: it did not have the key.
    pub sampled_in_vain: u64,
    /// Those that a filter told so, without a search.
    pub sampled_filter_negatives: u64,
    /// Those that a filter told that the key may be there, when it was not.
    pub sampled_filter_false_positives: u64,
    /// Cache lines that filters took for all these.
    pub sampled_filter_lines: u64,
    /// False positives of the run's filters, of all lookups: exact.
    pub filter_false_positives: u64,
    /// The estimated share of the database's lookups that pass the run in vain: what its filter can
    /// save. For a table that is younger than others, of the lookups since it has been there.
    pub in_vain_per_lookup: f64,
}

impl RunLookups {
    /// About how many lookups came to the run.
    pub fn estimated(&self) -> u64 {
        self.sampled * LOOKUPS_PER_SAMPLE
    }

    /// About how many lookups passed the run in vain.
    pub fn estimated_in_vain(&self) -> u64 {
        self.sampled_in_vain * LOOKUPS_PER_SAMPLE
    }

    /// How often the run's filters said "perhaps" of keys that are not there: all false positives
    /// for each time that one could have happened, which is an estimate. `None` if there was no
    /// such time among the samples.
    pub fn false_positive_rate(&self) -> Option<f64> {
        let negatives = self.sampled_filter_negatives * LOOKUPS_PER_SAMPLE;
        let asked_in_vain = self.filter_false_positives + negatives;
        (self.sampled_filter_negatives + self.sampled_filter_false_positives > 0)
            .then(|| self.filter_false_positives as f64 / asked_in_vain as f64)
    }

    /// The sums of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            sampled: self.sampled + other.sampled,
            sampled_in_vain: self.sampled_in_vain + other.sampled_in_vain,
            sampled_filter_negatives: self.sampled_filter_negatives + other.sampled_filter_negatives,
            sampled_filter_false_positives: self.sampled_filter_false_positives + other.sampled_filter_false_positives,
            sampled_filter_lines: self.sampled_filter_lines + other.sampled_filter_lines,
            filter_false_positives: self.filter_false_positives + other.filter_false_positives,
            in_vain_per_lookup: self.in_vain_per_lookup + other.in_vain_per_lookup,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every lookup is sampled as often as every other: in each place of a period of 64, in
    /// short-lived threads, and right after another sample.
    #[test]
    fn all_lookups_are_alike() {
        let periods = 200_000;
        let sampler = Sampler::new(1);
        let mut places = [0_u32; LOOKUPS_PER_SAMPLE as usize];
        let mut twice = 0;
        let mut before = false;
        for _ in 0..periods {
            for place in &mut places {
                let picked = sampler.picks();
                *place += u32::from(picked);
                twice += u32::from(picked && before);
                before = picked;
            }
        }
        // Means of 3125, with standard deviations of 55.5: six of them.
        assert!(places.iter().all(|count| (2792..3458).contains(count)), "{places:?}");
        assert!((2792..3458).contains(&twice), "{twice} samples right after another");
        // 6,400,000 lookups of threads that make ten each: 100,000 samples, with a standard deviation of
        // 314.
        let picked = |sampler: Sampler| (0..10).filter(|_| sampler.picks()).count();
        let of_short: usize = (0..640_000).map(|number| picked(Sampler::new(number))).sum();
        assert!((98_100..101_900).contains(&of_short), "{of_short} of short threads");
    }

    /// Two periods count, the rest is forgotten, also by what saw nothing meanwhile.
    #[test]
    fn lately_is_two_periods() {
        let lately = Lately::default();
        let note = |from: u64, to: u64| (from..to).for_each(|sampled| lately.add(sampled + 1, [1, sampled % 2]));
        note(0, PERIOD / 2);
        assert_eq!(lately.get(PERIOD), [PERIOD / 2, PERIOD / 4]);
        note(PERIOD, 2 * PERIOD);
        assert_eq!(lately.get(2 * PERIOD), [PERIOD * 3 / 2, PERIOD * 3 / 4]);
        assert_eq!(lately.get(3 * PERIOD), [PERIOD, PERIOD / 2]);
        assert_eq!(lately.get(3 * PERIOD + 1), [0, 0]);
        note(4 * PERIOD, 4 * PERIOD + 8);
        assert_eq!(lately.get(4 * PERIOD + 8), [8, 4]);
        assert_eq!([0, 1, 5].map(|sampled| sampled_lately(sampled, 1)), [0, 0, 4]);
        assert_eq!(sampled_lately(2 * PERIOD, 0), 2 * PERIOD);
        assert_eq!(sampled_lately(2 * PERIOD + 1, 7), PERIOD + 1);
    }

    /// A thread that comes again as the same number samples the same.
    #[test]
    fn samples_repeat() {
        let picked = |number| {
            let sampler = Sampler::new(number);
            (0..10_000).filter(|_| sampler.picks()).collect::<Vec<_>>()
        };
        assert_eq!(picked(3), picked(3));
        assert_ne!(picked(3), picked(4));
    }
}
