//! Elastic filters: what the decider decides is best, keeps to its memory, changes nothing for
//! nothing, and follows lookups whose hot tables change.

use tamarack_model::access_frequency::{AccessFrequency, half_life};
use tamarack_model::allocate::weights::Asked;
use tamarack_model::filter::{Allocation, FilterChoice, predict, units};
use tamarack_model::filter_plan::{FilterTarget, HOLD, RunFilters, StoredFilter, TableFilters, decide};
use tamarack_model::{Bytes, FilterKind, policy};
use tamarack_testing::{Random, seeds};

/// A table with an elastic filter.
#[derive(Clone, Copy, Debug)]
struct Table {
    unit_bits: u64,
    unit_fpr: f64,
    stored: u32,
    in_memory: u32,
    passing: f64,
}

impl Table {
    fn saved_by_next(&self, units: u32) -> f64 {
        self.false_positives(units) * (1.0 - self.unit_fpr)
    }

    fn false_positives(&self, units: u32) -> f64 {
        self.passing * self.unit_fpr.powi(units as i32)
    }

    /// For the decider. Its entries do not matter.
    fn filters(&self, live: u64) -> TableFilters {
        let stored = StoredFilter {
            kind: FilterKind::Elastic,
            steps: self.stored,
            step_bits: self.unit_bits,
            step_fpr: Some(self.unit_fpr),
            loaded: self.in_memory,
        };
        let in_use = Some((FilterKind::Elastic, (self.unit_bits * u64::from(self.in_memory)) as f64));
        let passing = Some(self.passing);
        TableFilters { entries: 1, live, in_use, can_be_made: false, stored: Some(stored), passing }
    }
}

/// How many units each table is to have in memory, of so many bits together.
fn decide_units(tables: &[Table], bits: u64) -> Vec<u32> {
    // One entry brings all bits, so that none is lost in a quotient.
    let filters = tables.iter().enumerate().map(|(at, table)| table.filters(u64::from(at == 0))).collect();
    let run = RunFilters { level: 1, bytes: Bytes(1), seen: None, tables: filters };
    let (kind, allocation) = (FilterKind::Elastic, Allocation::Uniform);
    let choice = FilterChoice::Each { kind, bits_per_entry: bits as f64, allocation };
    let shape = policy::parse("leveling:T=4").expect("a policy").shape(Bytes(1), Bytes(1));
    let mut units: Vec<u32> = tables.iter().map(|table| table.in_memory).collect();
    for change in decide(choice, &Asked::Found(0.0), &shape, &[run], true).changes {
        let FilterTarget::Units(bits) = change.target else { panic!("{change:?} of an elastic filter") };
        units[change.table] = (bits / tables[change.table].unit_bits) as u32;
    }
    units
}

/// The same if none were in memory.
fn decide_anew(tables: &[Table], bits: u64) -> Vec<u32> {
    let tables: Vec<Table> = tables.iter().map(|table| Table { in_memory: 0, ..*table }).collect();
    decide_units(&tables, bits)
}

fn saved(tables: &[Table], units: &[u32]) -> f64 {
    tables.iter().zip(units).map(|(table, units)| table.false_positives(0) - table.false_positives(*units)).sum()
}

fn bits(tables: &[Table], units: &[u32]) -> u64 {
    tables.iter().zip(units).map(|(table, units)| table.unit_bits * u64::from(*units)).sum()
}

fn random_table(random: &mut Random, unit_bits: u64) -> Table {
    let stored = random.below(4) as u32;
    Table {
        unit_bits,
        unit_fpr: [0.0, 0.15, 0.3, 0.5, 1.0][random.below(5) as usize],
        stored,
        in_memory: random.below(u64::from(stored) + 1) as u32,
        passing: [0.0, random.below(1000) as f64, 100.0 + random.below(100) as f64][random.below(3) as usize],
    }
}

/// The most that any choice within the memory saves.
fn best(tables: &[Table], bits: u64) -> f64 {
    let Some((first, rest)) = tables.split_first() else { return 0.0 };
    let with = |units: u32| {
        let left = bits.checked_sub(first.unit_bits * u64::from(units))?;
        Some(first.false_positives(0) - first.false_positives(units) + best(rest, left))
    };
    (0..=first.stored).filter_map(with).fold(0.0, f64::max)
}

/// With units of one size nothing saves more; with units of several sizes what is missing is less
/// than one unit that found no room saves. The memory is never exceeded.
#[test]
fn nothing_saves_more() {
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let one_size = random.below(2) == 0;
        let count = 1 + random.below(5);
        let tables: Vec<Table> = (0..count)
            .map(|_| {
                let bits = if one_size { 7 } else { 1 + random.below(20) };
                random_table(&mut random, bits)
            })
            .collect();
        let memory = random.below(80);
        let found = decide_anew(&tables, memory);
        assert!(bits(&tables, &found) <= memory, "{seed}: {found:?} of {tables:?} in {memory}");
        assert!(found.iter().zip(&tables).all(|(units, table)| *units <= table.stored));
        let next_saves =
            |(table, &units): (&Table, &u32)| if units < table.stored { table.saved_by_next(units) } else { 0.0 };
        let missing = if one_size { 0.0 } else { tables.iter().zip(&found).map(next_saves).fold(0.0, f64::max) };
        let best = best(&tables, memory);
        let saves = saved(&tables, &found);
        assert!(saves >= best - missing - 1e-9, "{seed}: {saves} of {best} with {found:?} of {tables:?} in {memory}");
    }
}

/// What is in memory stays, unless something that finds room in its place saves [`HOLD`] times as
/// much for each bit; what is decided twice changes nothing.
#[test]
fn what_is_there_stays() {
    let mut kept = 0;
    for seed in seeds(2000) {
        let mut random = Random::new(seed);
        let tables: Vec<Table> = (0..1 + random.below(6)).map(|_| random_table(&mut random, 5)).collect();
        let memory = bits(&tables, &tables.iter().map(|table| table.in_memory).collect::<Vec<_>>());
        let found = decide_units(&tables, memory);
        let per_bit = |table: &Table, units| table.saved_by_next(units);
        let mut dearest_loaded = f64::INFINITY;
        let mut best_dropped = 0.0_f64;
        for (table, &units) in tables.iter().zip(&found) {
            if units > table.in_memory {
                dearest_loaded = dearest_loaded.min(per_bit(table, units - 1));
            }
            if units < table.in_memory {
                best_dropped = best_dropped.max(per_bit(table, units));
            }
        }
        assert!(dearest_loaded >= HOLD * best_dropped, "{seed}: {found:?} of {tables:?}");
        kept += usize::from(decide_anew(&tables, memory) != found);
        let settled: Vec<Table> =
            tables.iter().zip(&found).map(|(table, units)| Table { in_memory: *units, ..*table }).collect();
        assert_eq!(decide_units(&settled, memory), found, "{seed}");
    }
    assert!(kept > 40, "{kept} of 2000 would have been changed otherwise");
}

/// Nothing known: every run is taken to be asked alike, so units go to where they are cheap, as
/// Monkey has it.
#[test]
fn without_samples_small_runs_come_first() {
    let table = |entries: u64, of_run: f64| Table {
        unit_bits: 3 * entries,
        unit_fpr: 0.25,
        stored: 8,
        in_memory: 0,
        passing: AccessFrequency::default().with_prior(of_run, 3.0),
    };
    // Runs of 100, 1,000 and 16,000 entries, the last one in eight tables.
    let mut tables = vec![table(100, 1.0), table(1000, 1.0)];
    tables.extend((0..8).map(|_| table(2000, 0.125)));
    let found = decide_anew(&tables, 17_100 * 8);
    assert!(found[0] > found[1] && found[1] > found[2], "{found:?}");
    assert!(found[2..].iter().all(|units| found[2].abs_diff(*units) <= 1), "{found:?}");
}

/// Tables, and which lookups come to them.
struct Simulation {
    tables: Vec<Table>,
    frequencies: Vec<AccessFrequency>,
    /// How often each is asked, as a running sum.
    shares: Vec<f64>,
    memory: u64,
    random: Random,
}

const ENTRIES: u64 = 20_000;

impl Simulation {
    fn new(tables: usize, bits_per_entry: f64, seed: u64) -> Self {
        let stored = units(2.0 * bits_per_entry);
        let of_unit = 2.0 * bits_per_entry / f64::from(stored);
        let table = Table {
            unit_bits: (of_unit * ENTRIES as f64) as u64,
            unit_fpr: predict(FilterKind::Blocked, of_unit).fpr,
            stored,
            in_memory: 0,
            passing: 0.0,
        };
        Self {
            tables: vec![table; tables],
            frequencies: vec![AccessFrequency::default(); tables],
            shares: Vec::new(),
            memory: (bits_per_entry * (ENTRIES * tables as u64) as f64) as u64,
            random: Random::new(seed),
        }
    }

    /// Absent keys are asked for by a Zipfian law of exponent 0.99; neighbours of so many are in
    /// one place, which is drawn.
    fn place_hot_keys(&mut self, neighbours: u64) {
        let mut shares = vec![0.0; self.tables.len()];
        let mut rank = 0.0_f64;
        for _ in 0..ENTRIES * self.tables.len() as u64 / neighbours {
            let mass: f64 = ((rank + neighbours as f64).powf(0.01) - rank.max(0.5).powf(0.01)) / 0.01;
            rank += neighbours as f64;
            shares[self.random.below(self.tables.len() as u64) as usize] += mass;
        }
        let all: f64 = shares.iter().sum();
        self.shares = shares.iter().map(|share| share / all).collect();
    }

    /// Number of sampled lookups, and a decision: false positives per lookup from then on, and
    /// how many units were loaded.
    fn step(&mut self, samples: u64) -> (f64, u32) {
        let mut here = vec![0; self.tables.len()];
        for _ in 0..samples {
            let mut point = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
            let table = self.shares.iter().position(|share| {
                point -= share;
                point < 0.0
            });
            here[table.unwrap_or(0)] += 1;
        }
        let count = self.tables.len();
        for (at, table) in self.tables.iter_mut().enumerate() {
            self.frequencies[at] = self.frequencies[at].after(samples, here[at], half_life(count));
            table.passing = self.frequencies[at].with_prior(1.0 / count as f64, count as f64);
        }
        let decided = decide_units(&self.tables, self.memory);
        assert!(bits(&self.tables, &decided) <= self.memory, "the memory is kept at every step");
        let mut loaded = 0;
        for (table, units) in self.tables.iter_mut().zip(decided) {
            loaded += units.saturating_sub(table.in_memory);
            table.in_memory = units;
        }
        (self.false_positives(), loaded)
    }

    fn false_positives(&self) -> f64 {
        let cost = |(table, share): (&Table, &f64)| share * table.unit_fpr.powi(table.in_memory as i32);
        self.tables.iter().zip(&self.shares).map(cost).sum()
    }

    /// With what is asked known for certain.
    fn least(&self) -> f64 {
        let known = |(table, share): (&Table, &f64)| Table { passing: *share, in_memory: 0, ..*table };
        let tables: Vec<Table> = self.tables.iter().zip(&self.shares).map(known).collect();
        let units = decide_anew(&tables, self.memory);
        tables.iter().zip(units).map(|(table, units)| table.false_positives(units)).sum()
    }
}

/// Zipfian lookups, whose hot keys then move: fewer false positives than filters of the same
/// memory that are alike, close to the best that could be known, again after two half-lives, and
/// hardly a unit is loaded while nothing changes.
#[test]
fn follows_the_hot_tables() {
    for (count, bits_per_entry, neighbours) in
        [(40, 5.0, 1000), (40, 10.0, 1000), (200, 8.0, 1000), (200, 10.0, 20_000)]
    {
        for seed in seeds(5) {
            let mut simulation = Simulation::new(count, bits_per_entry, seed);
            let alike = predict(FilterKind::Bloom, bits_per_entry).fpr;
            let half_life = half_life(count);
            let what = format!("seed {seed}: {count} tables with {bits_per_entry} bits");
            for round in 0..3 {
                simulation.place_hot_keys(neighbours);
                let moved = simulation.false_positives();
                for _ in 0..16 {
                    simulation.step(half_life / 8);
                }
                let least = simulation.least();
                let (adapted, _) = simulation.step(half_life / 8);
                println!("{what}, round {round}: {moved:.5}, adapted {adapted:.5}, least {least:.5}, alike {alike:.5}");
                assert!(adapted < alike && adapted < moved, "{what}: {adapted}, alike {alike}, before {moved}");
                // Where nearly all is in a few tables, samples say little of the others.
                assert!(adapted < (1.25 * least).max(alike / 5.0), "{what}: {adapted} instead of {least}");
                for _ in 0..16 {
                    simulation.step(half_life / 8);
                }
                let in_memory: u32 = simulation.tables.iter().map(|table| table.in_memory).sum();
                let loaded: u32 = (0..32).map(|_| simulation.step(half_life / 8).1).sum();
                println!("  {loaded} of {in_memory} units loaded in four half-lives");
                assert!(loaded * 8 < in_memory, "{what}: {loaded} of {in_memory} units");
            }
        }
    }
}
