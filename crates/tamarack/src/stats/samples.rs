//! Sampled lookups: one in [`LOOKUPS_PER_SAMPLE`] is observed in detail.
//!
//! For every sampled lookup, each table that it reaches counts the outcome there
//! ([`TableSamples`]), and the database keeps the latency ([`super::latency`]). All other lookups
//! only count down to the next sample, in two instructions.
//!
//! # Which lookups are sampled
//!
//! Each with the same probability, independently of the others: the gaps between samples have a
//! geometric distribution. So periodic patterns of keys are not over- or underrepresented, and
//! threads with few lookups count in proportion. The gaps are pseudo-random, seeded by the order in
//! which threads first read the database; a repeated simulation samples the same lookups.
//!
//! # Lately
//!
//! The allocation of filters by `allocation=observed` uses counts by *periods* of [`PERIOD`]
//! samples, about 262,000 lookups: the current period and the one before ([`Lately`]). So a change
//! of the workload is fully reflected after at most half a million lookups.
//!
//! # Precision
//!
//! `n` samples stand for about `64 n` lookups, with a standard deviation of `64 √n`: 10 % with 100
//! samples, 1 % with 10,000.
//!
//! Writes are sampled in another way, see [`super::writes`].
//!
//! Tests: here, and `tests/suite/samples.rs` against exact counts.

use std::array;

use tamarack_env::random::{STEP, mixed};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

use super::Counter;
use super::number::Number;
use super::statistics::statistics;

/// Mean number of lookups per sample. A sample costs less than 500 ns, so at 64 it adds less than
/// 10 ns to each lookup on average.
pub const LOOKUPS_PER_SAMPLE: u64 = 64;

/// Samples per period.
const PERIOD: u64 = 4096;

/// Returns the period of the last of `sampled` samples.
fn period(sampled: u64) -> u64 {
    sampled.saturating_sub(1) / PERIOD
}

/// Returns how many of `sampled` samples are recent and came after the first `before`.
pub(crate) fn sampled_lately(sampled: u64, before: u64) -> u64 {
    sampled.saturating_sub(before.max(period(sampled).saturating_sub(1) * PERIOD))
}

/// Counts of this period and of the one before. When a period begins, concurrent samples of several
/// threads may be lost; they are too few to matter.
#[derive(Debug)]
pub(super) struct Lately<const N: usize> {
    /// The current period.
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
    /// Adds the amounts of a sample, the last of `sampled`.
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

    /// Returns the sums of the two periods up to the last of `sampled`.
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

/// Picks the lookups of a thread to sample.
#[derive(Debug)]
#[repr(C)]
pub struct Sampler {
    /// Lookups up to and including the next sample; at least 1.
    left: Number,
    random: Number,
}

impl Sampler {
    /// The first bytes of a sampler, which each lookup touches; the others only when it is sampled.
    pub(super) const BYTES_OF_EACH_LOOKUP: usize = size_of::<Number>();

    /// Makes a sampler; `number` is its seed.
    pub fn new(number: u64) -> Self {
        let this = Self { left: Number::new(0), random: Number::new(number << 32) };
        this.draw();
        this
    }

    /// Returns true if this lookup is sampled.
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

    /// Draws the distance to the next sample.
    #[cold]
    #[inline(never)]
    fn draw(&self) {
        self.random.set(self.random.get().wrapping_add(STEP));
        self.left.set(distance(mixed(self.random.get()), LOOKUPS_PER_SAMPLE));
    }
}

/// Returns the distance to the next of samples of which there is one in `mean` operations: 1, 2, 3
/// … with probabilities p, p(1 - p), p(1 - p)² …, where p is 1 / `mean`. `random` has 64 random
/// bits.
pub(super) fn distance(random: u64, mean: u64) -> u64 {
    // In (0, 1].
    let uniform = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let passed_over = uniform.ln() / (-1.0 / mean as f64).ln_1p();
    1 + passed_over as u64
}

/// What became of lookups in one table.
#[derive(Debug, Default)]
pub struct TableSamples {
    lookups: Counter,
    zero_result: Counter,
    filter_negatives: Counter,
    filter_false_positives: Counter,
    filter_lines: Counter,
    /// Over all lookups, not only sampled ones.
    false_positives: Counter,
    /// Samples that reached the table, and those that did not find their key in it.
    lately: Lately<2>,
}

impl TableSamples {
    /// Counts a sampled lookup, the last of `sampled` of the database: whether it found its key,
    /// whether the filter probe was negative or a false positive, and how many cache lines it took.
    pub fn note(&self, sampled: u64, found: bool, is_negative: bool, is_false_positive: bool, filter_lines: u32) {
        self.lately.add(sampled, [1, u64::from(!found)]);
        self.lookups.add(1);
        self.zero_result.add(u64::from(!found));
        self.filter_negatives.add(u64::from(is_negative));
        self.filter_false_positives.add(u64::from(is_false_positive));
        self.filter_lines.add(u64::from(filter_lines));
    }

    /// Counts a false positive of any lookup, sampled or not.
    #[cold]
    pub fn note_false_positive(&self) {
        self.false_positives.add(1);
    }

    /// Returns the samples that reached the table, and those that did not find their key in it, in
    /// the last two periods up to the last of `sampled`.
    pub fn lately(&self, sampled: u64) -> [u64; 2] {
        self.lately.get(sampled)
    }

    /// Returns the counts so far. `since` is the number of samples of the database since the table
    /// was created or the database was opened.
    pub fn get(&self, since: u64) -> RunLookups {
        let zero_result = self.zero_result.get();
        RunLookups {
            sampled: self.lookups.get(),
            sampled_zero_result: zero_result,
            sampled_filter_negatives: self.filter_negatives.get(),
            sampled_filter_false_positives: self.filter_false_positives.get(),
            sampled_filter_lines: self.filter_lines.get(),
            filter_false_positives: self.false_positives.get(),
            // A concurrent sample may be counted here before it is counted in the database.
            zero_results_per_lookup: if zero_result == 0 {
                0.0
            } else {
                zero_result as f64 / since.max(zero_result) as f64
            },
        }
    }
}

statistics! {
    sums;
    /// Lookups that reached a run, since its tables were created or the database was opened. A
    /// lookup reaches a run if no younger entry decides it, and the key range of one of the run's
    /// tables contains its key.
    ///
    /// All fields but [`RunLookups::filter_false_positives`] count **sampled** lookups, a random
    /// one in [`LOOKUPS_PER_SAMPLE`].
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct RunLookups {
        /// Sampled lookups that reached the run.
        sampled: u64, "lookups";

        /// Those whose key the run did not have.
        sampled_zero_result: u64, "lookups";

        /// Those with a negative filter probe, which skipped the table.
        sampled_filter_negatives: u64, "lookups";

        /// Those with a false positive.
        sampled_filter_false_positives: u64, "lookups";

        /// Cache lines of filters that all these lookups read.
        sampled_filter_lines: u64, "cache lines";

        /// False positives of the run's filters over all lookups, exactly.
        filter_false_positives: u64, "probes";

        /// Estimated share of the database's lookups that reach the run and do not find their
        /// key in it, which is what its filter can save. For a younger table, of the lookups
        /// since it was created.
        zero_results_per_lookup: f64, "fraction of lookups";
    }
}

impl RunLookups {
    /// Returns an estimate of the lookups that reached the run.
    pub fn estimated(&self) -> u64 {
        self.sampled * LOOKUPS_PER_SAMPLE
    }

    /// Returns an estimate of the lookups that did not find their key in the run.
    pub fn estimated_zero_result(&self) -> u64 {
        self.sampled_zero_result * LOOKUPS_PER_SAMPLE
    }

    /// Returns the measured false positive rate of the run's filters: false positives, which are
    /// exact, per probe for a key that the run does not have, which is an estimate. `None` if no
    /// sampled lookup made such a probe.
    pub fn false_positive_rate(&self) -> Option<f64> {
        let negatives = self.sampled_filter_negatives * LOOKUPS_PER_SAMPLE;
        let absent = self.filter_false_positives + negatives;
        (self.sampled_filter_negatives + self.sampled_filter_false_positives > 0)
            .then(|| self.filter_false_positives as f64 / absent as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lookups are equally likely to be sampled: at each position of a period of 64, in
    /// short-lived threads, and right after another sample.
    #[test]
    fn all_lookups_are_equally_likely() {
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
        // 6,400,000 lookups of threads that make ten each: 100,000 samples, with a standard
        // deviation of
        // 314.
        let picked = |sampler: Sampler| (0..10).filter(|_| sampler.picks()).count();
        let of_short: usize = (0..640_000).map(|number| picked(Sampler::new(number))).sum();
        assert!((98_100..101_900).contains(&of_short), "{of_short} of short threads");
    }

    /// Two periods count; older ones do not, even without samples since.
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

    /// Samplers with the same seed pick the same lookups.
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
