//! [`AccessFrequency`]: how often lookups reach a table that lacks their key (*misses*), estimated
//! from samples.
//!
//! **It ages** ([`AccessFrequency::after`]). Older samples lose half of their weight with every
//! [`half_life`] further sampled lookups. Time does not matter: without lookups nothing is
//! forgotten. A table that was as hot as others and is no longer accessed loses a unit of its
//! elastic filter within three half-lives.
//!
//! **A table without samples** counts as if lookups reached each run equally, and its tables in
//! proportion to their entries: that [`PRIOR`] is added to the samples. The filter decider
//! ([`crate::filter_plan`]) then gives smaller runs more bits, as Monkey does, in whole units.
//!
//! Tests: `tests/suite/filter_steps.rs`, with skewed lookups whose hot tables change.

/// The number of sampled misses that is assumed for a table of mean size before any sample.
pub const PRIOR: f64 = 1.0;

/// Samples per table after which older ones have lost half of their weight: a table of mean
/// frequency is then known from some 46 samples, to about 15 %.
const SAMPLES_PER_TABLE: u64 = 32;

/// The smallest half-life; fewer samples than this are not significant.
const HALF_LIFE_MIN: u64 = 512;

/// An exponentially decaying count of lookups that missed in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessFrequency(f64);

impl AccessFrequency {
    /// The frequency of a `part` of what had this frequency.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        Self(self.0 * part)
    }

    /// The sum of both frequencies.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Returns true if this frequency is higher than the other.
    pub fn is_more_than(self, other: Self) -> bool {
        self.0 > other.0
    }

    /// The frequency after `all` more samples of the database's lookups, `here` of which missed in
    /// the table.
    #[must_use]
    pub fn after(self, all: u64, here: u64, half_life: u64) -> Self {
        Self(self.0 * (-(all as f64) / half_life as f64).exp2() + here as f64)
    }

    /// Adds the prior of a table with this part of its run's entries, in a tree with this mean
    /// number of tables per run; see
    /// [`TableFilters::passing`](crate::filter_plan::TableFilters::passing).
    pub fn with_prior(self, part_of_run: f64, tables_per_run: f64) -> f64 {
        self.0 + PRIOR * part_of_run * tables_per_run
    }
}

/// The number of sampled lookups after which older samples count half, in a tree of `tables`
/// tables.
pub fn half_life(tables: usize) -> u64 {
    (SAMPLES_PER_TABLE * tables as u64).max(HALF_LIFE_MIN)
}
