//! Measurement of a cell: one mix on a fresh copy of a contender's loaded tree.
//!
//! ```text
//! checkpoint of the loaded tree, opened
//!   │   updates of two turnovers of the level before the last, in equal parts
//!   ├───────┬───────┬───────┬──── …
//!   │  ^^^  │ ^^^   │   ^^^ │            ^^^ the mix, timed, at a random place of each part
//! ```
//!
//! A mix with few updates would take hours for two turnovers, so between its timed parts the tree
//! gets updates alone. What they cost counts as what the mix's own updates cost: all of the time
//! until flushes and compactions are done is divided by all updates. The cost of an operation is
//!
//! ```text
//! time of the timed operations      share of      time of flushes and compactions
//! ────────────────────────────  +   updates   ×   ───────────────────────────────
//!  number of timed operations                          number of all updates
//! ```
//!
//! This is the time of one thread that waits for all that it causes, as the model has it. Updates
//! between timed parts replace blocks that the cache has; reads that are not timed then fill it
//! again, by as much as was rewritten.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::unit;
use serde_json::{Value, json};
use shape::store::reads;
use tamarack::{Db, Result, Stats};
use tamarack_env::Random;

use crate::client::Client;
use crate::contenders::Contender;
use crate::mixes::{Kind, Mix, Turns};
use crate::plan::{BLOCK_BYTES, Plan, RAW_BYTES};

/// Operations between two looks at the clock.
const BATCH: u64 = 16;

/// Lookups to fill the cache, for each block that it holds. Of keys drawn alike, so many touch
/// `1 - e^-1.6`, four fifths, of as many blocks.
const WARMING: f64 = 1.6;

/// The most updates of a cell, as a multiple of the entries: a level before the last may have a
/// larger capacity than there is data.
const UPDATES_MAX: u64 = 2;

/// Updates that turn the level before the last over twice, if that takes so many flushes: whole
/// memtables, so that all updates are flushed.
pub fn updates(plan: &Plan, contender: &Contender, flushes: u64) -> u64 {
    let memtable = contender.buffer_bytes / RAW_BYTES;
    flushes.min((UPDATES_MAX * plan.entries).div_ceil(memtable)) * memtable
}

/// Measures a cell with so many updates on a copy of `base`, which is made in `dir` and removed.
pub fn measure(
    base: &Db,
    dir: &Path,
    contender: &Contender,
    mix: &Mix,
    plan: &Plan,
    updates: u64,
    seed: u64,
) -> Result<Value> {
    base.checkpoint(dir)?;
    let client = Client::open(dir, contender, plan, mix.scanned, seed)?;
    let (began, cpu) = (Instant::now(), machine::process_cpu_us());
    let mut run = Run {
        mix_time: Duration::from_millis(plan.cell_ms) / plan.phases as u32,
        client,
        shares: mix.shares(),
        turns: Turns::of(mix),
        counts: Counts::default(),
    };
    let before = run.client.db.stats();
    // The same places for all contenders.
    let places = Random::new(seed);
    for phase in 0..plan.phases {
        let place = (phase as f64 + unit(places.next())) / plan.phases as f64 * updates as f64;
        let rewritten = run.update_until(place as u64)?;
        run.warm(if phase == 0 { 1.0 } else { rewritten / plan.entries as f64 })?;
        run.operate_until((phase + 1) * updates / plan.phases)?;
    }
    run.update_until(updates)?;
    let after = run.client.db.stats();
    run.client.db.close()?;
    fs::remove_dir_all(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut figures = run.counts.figures(mix, &before, &after);
    figures["cpu_seconds"] = json!((machine::process_cpu_us() - cpu) / 1e6);
    figures["all_seconds"] = json!(began.elapsed().as_secs_f64());
    Ok(figures)
}

/// What was counted.
#[derive(Default)]
struct Counts {
    /// Timed operations.
    operations: u64,
    /// All updates.
    updates: u64,
    /// Of each phase: seconds and data blocks of a timed operation, without awaited compactions.
    /// Phases count alike, as moments do in a prediction, however many operations each had time
    /// for.
    phases: Vec<[f64; 2]>,
    /// The time of awaited flushes and compactions.
    settling: Duration,
}

impl Counts {
    fn figures(&self, mix: &Mix, before: &Stats, after: &Stats) -> Value {
        let mean = |of: usize| self.phases.iter().map(|phase| phase[of]).sum::<f64>() / self.phases.len() as f64;
        let operating = mean(0);
        let settling = self.settling.as_secs_f64() / self.updates.max(1) as f64;
        let [.., share_of_updates] = mix.shares();
        let written = after.written_raw_bytes() - before.written_raw_bytes();
        let flushed = after.flushed_raw_bytes - before.flushed_raw_bytes;
        json!({
            "seconds_per_op": operating + share_of_updates * settling,
            "operating_seconds": operating,
            "settling_seconds": settling,
            "operations": self.operations,
            "updates": self.updates,
            "blocks": mean(1),
            "write_amplification": written as f64 / flushed.max(1) as f64,
            "cache_capacity_bytes": after.memory.cache_capacity_bytes,
        })
    }
}

struct Run {
    client: Client,
    /// Those of the mix.
    shares: [f64; 4],
    turns: Turns,
    /// The time of operations in a phase.
    mix_time: Duration,
    counts: Counts,
}

impl Run {
    fn settle(&mut self) -> Result<()> {
        let began = Instant::now();
        self.client.settle()?;
        self.counts.settling += began.elapsed();
        Ok(())
    }

    /// Updates the tree until there were so many updates. Returns the number of entries that were
    /// written meanwhile, by flushes and compactions.
    fn update_until(&mut self, updates: u64) -> Result<f64> {
        if self.counts.updates >= updates {
            return Ok(0.0);
        }
        let written = self.client.db.stats().written_raw_bytes();
        while self.counts.updates < updates {
            self.client.operate(Kind::Update)?;
            self.counts.updates += 1;
            if self.client.is_memtable_full() {
                self.settle()?;
            }
        }
        Ok((self.client.db.stats().written_raw_bytes() - written) as f64 / RAW_BYTES as f64)
    }

    /// Fills this share of the cache, at most all of it, by the reads that the mix would fill it
    /// with: lookups leave entries there, and scans blocks.
    fn warm(&mut self, share: f64) -> Result<()> {
        let blocks = self.client.db.stats().memory.cache_capacity_bytes as f64 / BLOCK_BYTES as f64;
        let reads = (WARMING * blocks * share.min(1.0)) as u64;
        let [_, lookups, scans, _] = self.shares;
        if scans > lookups {
            (0..reads).try_for_each(|_| self.client.operate(Kind::Scan))
        } else {
            self.client.warm(reads)
        }
    }

    /// Carries out operations of the mix until their time is over, or there were so many updates.
    fn operate_until(&mut self, updates: u64) -> Result<()> {
        let blocks = reads(&self.client.db.stats()).0;
        let operations = self.counts.operations;
        let mut operating = Duration::ZERO;
        let mut began = Instant::now();
        loop {
            for _ in 0..BATCH {
                let kind = self.turns.deal();
                self.client.operate(kind)?;
                self.counts.operations += 1;
                if kind == Kind::Update {
                    self.counts.updates += 1;
                    if self.client.is_memtable_full() {
                        operating += began.elapsed();
                        self.settle()?;
                        began = Instant::now();
                    }
                }
            }
            if operating + began.elapsed() >= self.mix_time || self.counts.updates >= updates {
                break;
            }
        }
        let seconds = (operating + began.elapsed()).as_secs_f64();
        let blocks = reads(&self.client.db.stats()).0 - blocks;
        let operations = (self.counts.operations - operations) as f64;
        self.counts.phases.push([seconds / operations, blocks as f64 / operations]);
        Ok(())
    }
}
