//! [`AccessFrequency`]: how often lookups pass a table in vain, known from samples.
//!
//! **It ages** ([`AccessFrequency::after`]). What came before counts half once the database has had
//! [`half_life`] more sampled lookups. Time does not matter: while nothing is asked nothing is
//! forgotten. A table that was as hot as others and is not asked any more loses a unit of its
//! elastic filter within three half-lives.
//!
//! **A table of which nothing is known** counts as if lookups came to each run alike, and to its
//! tables by their entries: that [`PRIOR`] is added to what was seen. The filter decider
//! ([`crate::filter_plan`]) then gives smaller runs more bits, as Monkey does, in whole units.
//!
//! Tests: `tests/suite/filter_steps.rs`, with skewed lookups whose hot tables change.

/// The sampled lookups that are assumed to have passed a table of mean size before any was seen.
pub const PRIOR: f64 = 1.0;

/// In so many samples for each table, what came before loses half of its weight: a table of mean
/// frequency is then known from some 46 samples, about 15 %.
const SAMPLES_PER_TABLE: u64 = 32;

/// Fewer samples than this teach nothing.
const HALF_LIFE_MIN: u64 = 512;

/// Lookups that came to a table in vain, the fewer the longer ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AccessFrequency(f64);

impl AccessFrequency {
    /// That of `part` of what had this frequency.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        Self(self.0 * part)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// True if this is more than the other.
    pub fn is_more_than(self, other: Self) -> bool {
        self.0 > other.0
    }

    /// The frequency after `all` more samples of the database's lookups, of which `here` came to
    /// the table in vain.
    #[must_use]
    pub fn after(self, all: u64, here: u64, half_life: u64) -> Self {
        Self(self.0 * (-(all as f64) / half_life as f64).exp2() + here as f64)
    }

    /// With what is assumed of a table that has this part of the entries of its run, in a tree of
    /// so many tables for each run: see
    /// [`TableFilters::passing`](crate::filter_plan::TableFilters::passing).
    pub fn with_prior(self, part_of_run: f64, tables_per_run: f64) -> f64 {
        self.0 + PRIOR * part_of_run * tables_per_run
    }
}

/// How many samples of the database's lookups it takes until what came before counts half, in a
/// tree of so many tables.
pub fn half_life(tables: usize) -> u64 {
    (SAMPLES_PER_TABLE * tables as u64).max(HALF_LIFE_MIN)
}
