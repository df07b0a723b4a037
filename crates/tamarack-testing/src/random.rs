//! [`Random`]: the generator of all tests. Like [`tamarack_env::Random`] it mixes a counter
//! ([`tamarack_env::random::mixed`]), but belongs to one thread, and can be cloned to repeat what
//! follows.

use tamarack_env::random::{STEP, mixed};

/// A generator that gives the same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless iterator would need unwrapping at each call")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// Returns a number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is 0: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true once in `n` times, on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a number from 0, inclusive, to 1, exclusive.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns one of several values.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Returns so many bytes.
    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
