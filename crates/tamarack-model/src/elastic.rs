//! How many units of its elastic filter each table has in memory, so that lookups search as few tables in vain as the memory allows, while what is asked changes.
//!
//! A table stores all units of its filter ([`filter::units`](crate::filter::units)); in memory are the first `u` of them. Lookups that come to the table in vain, `h` of them in some time, its
//! *heat*, search it `h · p^u` times, with `p` the rate of one unit. So the next unit saves
//!
//! ```text
//! h · p^u · (1 - p)     searches, for as many bits as a unit has
//! ```
//!
//! which is less for each unit than for the one before. [`decide`] gives memory to the units that save most for each bit, until it is used up. If all units have one size, nothing
//! saves more; if not, what is missing is at most what the dearest unit saves that found no room.
//!
//! **What is there stays** unless what would take its place saves [`HOLD`] times as much: heat is known from samples, and a unit that is loaded is a read. `HOLD` is less than one unit makes, so
//! no table has more than one unit more or less than it should because of that.
//!
//! **Heat ages** ([`Heat`]): what came before half counts half, once the database has had [`half_life`] more lookups. Time does not matter: while nothing is asked nothing is forgotten. A
//! table that was as hot as others and is not asked any more loses a unit within three half-lives.
//!
//! **Who knows nothing of a table** assumes that lookups come to each run alike, and to its tables by their entries: [`decide`] is then Monkey's allocation in whole units, where smaller runs have
//! more bits. That [`PRIOR`] is added to what was seen.
//!
//! Tests: `tests/elastic.rs`: brute force on small trees; a simulation of skewed lookups whose hot tables change.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How many times as much a unit that is not in memory must save to take the place of one that is.
pub const HOLD: f64 = 1.5;

/// What is assumed of a table of mean size before anything is seen of it, in sampled lookups.
pub const PRIOR: f64 = 1.0;

/// In so many samples for each table, heat loses half of its weight: a table of mean heat is then known from some 46 samples, about 15 %.
const SAMPLES_PER_TABLE: u64 = 32;

/// In fewer samples than this there is nothing to be learned.
const HALF_LIFE_MIN: u64 = 512;

/// A table with an elastic filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table {
    /// What each of its units takes in memory, in bits; more than 0.
    pub unit_bits: u64,
    /// The false positive rate of a unit, in [0, 1].
    pub unit_fpr: f64,
    /// How many units it stores.
    pub stored: u32,
    /// How many of them are in memory.
    pub in_memory: u32,
    /// How many lookups come to it in vain, in any unit that is the same for all tables; from 0 on.
    pub heat: f64,
}

impl Table {
    /// How many searches in vain its next unit saves, if it has so many.
    pub fn saved_by_next(&self, units: u32) -> f64 {
        self.heat * self.unit_fpr.powi(units as i32) * (1.0 - self.unit_fpr)
    }

    /// How many searches are in vain, if it has so many units.
    pub fn searches_in_vain(&self, units: u32) -> f64 {
        self.heat * self.unit_fpr.powi(units as i32)
    }
}

/// A unit that may be had next.
struct Offer {
    saved_per_bit: f64,
    table: usize,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    /// Of equal ones, the earlier table's is the greater.
    fn cmp(&self, other: &Self) -> Ordering {
        self.saved_per_bit.total_cmp(&other.saved_per_bit).then(other.table.cmp(&self.table))
    }
}

/// How many units each table is to have in memory, which take `bits` together at most. Units that save nothing are not had. `hold` is [`HOLD`], or 1 for the best whatever is in
/// memory.
///
/// # Panics
/// If a heat is negative or no number, a rate not one, or a unit has no bits.
pub fn decide(tables: &[Table], bits: u64, hold: f64) -> Vec<u32> {
    for table in tables {
        let sound = table.heat >= 0.0 && table.heat.is_finite() && (0.0..=1.0).contains(&table.unit_fpr);
        assert!(sound && table.unit_bits > 0, "{table:?}");
    }
    let offer = |at: usize, units: u32| {
        let table = &tables[at];
        let held = if units < table.in_memory { hold } else { 1.0 };
        let saved_per_bit = held * table.saved_by_next(units) / table.unit_bits as f64;
        (units < table.stored && saved_per_bit > 0.0).then_some(Offer { saved_per_bit, table: at })
    };
    let mut units = vec![0; tables.len()];
    let mut offers: BinaryHeap<Offer> = (0..tables.len()).filter_map(|at| offer(at, 0)).collect();
    let mut left = bits;
    while let Some(Offer { table, .. }) = offers.pop() {
        // Where one finds no room, others of the same table do not either; smaller ones of others may.
        if tables[table].unit_bits <= left {
            left -= tables[table].unit_bits;
            units[table] += 1;
            offers.extend(offer(table, units[table]));
        }
    }
    units
}

/// Lookups that came to a table in vain, the fewer the longer ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat(f64);

impl Heat {
    /// That of `part` of what had this heat.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        Self(self.0 * part)
    }

    /// The heat of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Whether this is more heat than the other.
    pub fn is_more_than(self, other: Self) -> bool {
        self.0 > other.0
    }

    /// The heat after `all` more samples of the database's lookups, of which `here` came to the table in vain.
    #[must_use]
    pub fn after(self, all: u64, here: u64, half_life: u64) -> Self {
        Self(self.0 * (-(all as f64) / half_life as f64).exp2() + here as f64)
    }

    /// What [`Table::heat`] is, for a table with this part of the entries of its run, in a tree where so many tables are in a run on average.
    pub fn with_prior(self, part_of_run: f64, tables_per_run: f64) -> f64 {
        self.0 + PRIOR * part_of_run * tables_per_run
    }
}

/// How many samples of the database's lookups it takes until what came before counts half, in a tree of so many tables.
pub fn half_life(tables: usize) -> u64 {
    (SAMPLES_PER_TABLE * tables as u64).max(HALF_LIFE_MIN)
}
