//! A tree that grows by whole memtables and settles after each, lookups in it, and the models'
//! costs of its runs.

use std::path::Path;
use std::time::Instant;

use common::numbers::{mix, noise};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result, RunStats};
use tamarack_env::{MemoryEnv, Random};
use tamarack_model::FilterKind;
use tamarack_model::allocate::weights::{Asked, Extent, by_entries, in_oldest};
use tamarack_model::allocate::{Curve, Load, uniform};
use tamarack_model::cost::lookup;
use tamarack_model::units::{Bytes, Entries};

/// Where trees are.
pub enum Place<'a> {
    /// In a directory, read and written past the page cache.
    Direct(&'a Path),
    Memory,
}

/// How entries are laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    pub value_bytes: u64,
    /// Entries of a buffer.
    pub buffer: u64,
}

pub struct Tree {
    db: Db,
    layout: Layout,
    noise: Vec<u8>,
    random: Random,
    pub entries: u64,
}

/// What lookups are of.
#[derive(Clone, Copy, PartialEq)]
pub enum Of {
    /// A share finds something, any entry as likely as any other.
    Any(f64),
    /// All find something among so many entries, the oldest.
    Oldest(u64),
}

/// What lookups took, for each.
#[derive(Clone, Copy, Default)]
pub struct Taken {
    pub blocks: f64,
    pub seconds: f64,
}

impl Tree {
    pub fn new(place: &Place<'_>, layout: Layout, policy: &str, filter: &str) -> Result<Self> {
        let buffer_bytes = layout.buffer * (16 + layout.value_bytes + 8);
        let advanced = AdvancedOptions::new().filter(filter).policy(policy).memtable_bytes(buffer_bytes).cache_bytes(0);
        let options = Options::new().compression(Compression::None).memory_bytes(1 << 30).threads(2);
        let db = match place {
            Place::Direct(dir) => options.advanced(advanced.direct_io(true)).open(dir)?,
            Place::Memory => options.advanced(advanced.env(MemoryEnv::new(1))).open("/db")?,
        };
        Ok(Self { db, layout, noise: noise(), random: Random::new(1), entries: 0 })
    }

    /// Writes so many full memtables, and waits for the end of compactions after each.
    pub fn grow(&mut self, buffers: u64) -> Result<()> {
        for _ in 0..buffers {
            for _ in 0..self.layout.buffer {
                let begin = mix(!self.entries) as usize % (self.noise.len() - self.layout.value_bytes as usize);
                self.db.put(key(self.entries), &self.noise[begin..begin + self.layout.value_bytes as usize])?;
                self.entries += 1;
            }
            self.db.flush()?;
            self.db.wait_for_compactions()?;
            self.db.rebuild_filters()?;
        }
        Ok(())
    }

    /// Young to old.
    pub fn runs(&self) -> Vec<RunStats> {
        self.db.stats().levels.iter().flat_map(|level| level.runs.clone()).collect()
    }

    pub fn look_up(&self, lookups: u64, of: Of) -> Result<Taken> {
        let before = self.db.stats().lookups.data_blocks_read;
        let began = Instant::now();
        for _ in 0..lookups {
            let present = match of {
                Of::Any(found) => {
                    ((self.random.below(1 << 32) as f64) < found * f64::from(1_u32 << 31) * 2.0).then_some(self.entries)
                }
                Of::Oldest(entries) => Some(entries),
            };
            // Keys of numbers that never come are of nothing.
            let number =
                present.map_or_else(|| 1 << 40 | self.random.below(1 << 40), |entries| self.random.below(entries));
            assert_eq!(self.db.contains_key(key(number))?, present.is_some(), "entry {number}");
        }
        let seconds = began.elapsed().as_secs_f64() / lookups as f64;
        Ok(Taken { blocks: (self.db.stats().lookups.data_blocks_read - before) as f64 / lookups as f64, seconds })
    }
}

/// Numbers in order are everywhere among keys.
fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}

/// How filters share their memory.
#[derive(Clone, Copy, PartialEq)]
pub enum Sharing {
    Uniform,
    /// For lookups of which this share finds something.
    Found(f64),
}

/// Block reads of a lookup by the exact model: the cost, for such lookups, of the best allocation
/// of `bits_per_entry` over these runs on the curve of the kind.
pub fn model(curve: &Curve, runs: &[RunStats], bits_per_entry: f64, sharing: Sharing, of: Of) -> f64 {
    let extent =
        |run: &RunStats| Extent { runs: 1, bytes: Bytes(run.raw_bytes), entries: Entries(run.entries), seen: None };
    let extents: Vec<Extent> = runs.iter().map(extent).collect();
    let bits = runs.iter().map(|run| run.entries as f64).sum::<f64>() * bits_per_entry;
    let loads = |found: f64| -> Vec<Load> {
        let weights = Asked::Found(found).weights(&extents);
        extents.iter().zip(weights).map(|(run, weight)| Load { entries: run.entries, weight }).collect()
    };
    let allocated = match sharing {
        Sharing::Uniform => uniform(&loads(0.0), bits),
        Sharing::Found(found) => curve.allocate(&loads(found), bits),
    };
    cost(runs, &allocated.iter().map(|bits| curve.rate(*bits)).collect::<Vec<_>>(), of)
}

/// Block reads of a lookup, predicted from the present filters.
pub fn predicted(runs: &[RunStats], of: Of) -> f64 {
    cost(runs, &runs.iter().map(|run| run.filter_fpr).collect::<Vec<_>>(), of)
}

fn cost(runs: &[RunStats], rates: &[f64], of: Of) -> f64 {
    match of {
        Of::Any(found) => {
            lookup::mixed(rates, &by_entries(&runs.iter().map(|run| run.entries).collect::<Vec<_>>()), found)
        }
        Of::Oldest(_) => lookup::existing(rates, &in_oldest(1, runs.len())),
    }
}

/// A filter's specification.
pub fn filter(kind: FilterKind, bits: f64, sharing: &str) -> String {
    format!("{}:bits={bits},allocation={sharing}", kind.name())
}
