//! Key distributions: the size of a compaction's output when its inputs have keys in common.
//!
//! ```text
//! a run of `d` draws from n keys with shares p      D(d) = Σ (1 - e^(-d p)) keys are in it
//! two such runs, compacted                          D(d + d')
//! data present before, each key once                a share of all keys, plus the draws outside it
//! ```
//!
//! A compaction adds up draws and converts them into keys. By Zipf's law the r-th most frequent key
//! has a share proportional to `r^-θ`; with θ = 0 all shares are equal. Keys of nearly equal shares
//! are counted together, in 16 groups for each doubling of the rank, so the sum is short for any n.
//!
//! Tested below against sets of keys that are really drawn and merged.

use std::collections::BTreeMap;

use super::Data;
use crate::agenda::Contents;
use crate::occupancy::{Occupancy, RunId};
use crate::planner::CompactionPlan;
use crate::units::Bytes;

/// Keys that writers draw repeatedly.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The number of keys in each group, and the share of all draws of each key in it.
    groups: Vec<(f64, f64)>,
    entry_bytes: f64,
    all_bytes: f64,
}

/// The contents of a run: bytes of entries that are in no other run, and draws.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrawnContent {
    once: f64,
    draws: f64,
}

impl Keys {
    /// Creates a distribution of `entries` keys, at least 1, with `entry_bytes` raw bytes each, by
    /// Zipf's law with exponent `theta`; 0 makes all keys equally likely.
    pub fn drawn(entries: u64, entry_bytes: u64, theta: f64) -> Self {
        let mut groups = Vec::new();
        let mut first = 1_u64;
        while first <= entries {
            let after = (first + (first / 16).max(1)).min(entries + 1);
            let (count, middle) = ((after - first) as f64, (first + after - 1) as f64 / 2.0);
            groups.push((count, middle.powf(-theta)));
            first = after;
        }
        let sum: f64 = groups.iter().map(|(count, height)| count * height).sum();
        groups.iter_mut().for_each(|(_, height)| *height /= sum);
        Self { groups, entry_bytes: entry_bytes as f64, all_bytes: entries as f64 * entry_bytes as f64 }
    }

    /// Bytes of the distinct keys among this many draws.
    fn distinct(&self, draws: f64) -> f64 {
        let keys: f64 = self.groups.iter().map(|(count, share)| count * -(-draws * share).exp_m1()).sum();
        keys * self.entry_bytes
    }

    fn bytes(&self, content: DrawnContent) -> f64 {
        let once = content.once.min(self.all_bytes);
        once + (1.0 - once / self.all_bytes) * self.distinct(content.draws)
    }
}

/// The contents of each run, if keys are written repeatedly.
#[derive(Debug)]
pub(super) struct Drawn {
    keys: Keys,
    runs: BTreeMap<RunId, DrawnContent>,
}

impl Drawn {
    /// The present runs contain some of the keys, each once.
    pub(super) fn new(keys: Keys, occupancy: &Occupancy) -> Self {
        let content = |bytes: Bytes| DrawnContent { once: bytes.as_f64(), draws: 0.0 };
        Self { keys, runs: occupancy.runs().map(|(_, run)| (run.id, content(run.bytes))).collect() }
    }

    fn output(&self, plan: &CompactionPlan) -> DrawnContent {
        let buffer = DrawnContent { once: 0.0, draws: plan.buffer.as_f64() / self.keys.entry_bytes };
        let runs = plan.inputs.iter().map(|id| self.runs[id]);
        runs.fold(buffer, |sum, run| DrawnContent { once: sum.once + run.once, draws: sum.draws + run.draws })
    }
}

impl Contents for Drawn {}

impl Data for Drawn {
    fn output_bytes(&self, plan: &CompactionPlan, _occupancy: &Occupancy) -> Bytes {
        Bytes(self.keys.bytes(self.output(plan)).round() as u64)
    }

    fn written(&mut self, plan: &CompactionPlan, _occupancy: &Occupancy, output: RunId) {
        let content = self.output(plan);
        for input in &plan.inputs {
            self.runs.remove(input);
        }
        self.runs.insert(output, content);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tamarack_testing::Random;

    use super::*;
    use crate::policy;
    use crate::simulate::Tree;

    /// Keys are really drawn and merged while the simulation begins and ends compactions: each run
    /// has about as many as predicted. With equal shares and by Zipf's law, from an empty tree and
    /// from one with all keys.
    #[test]
    fn runs_have_as_many_keys_as_are_drawn() {
        const ENTRIES: u64 = 20_000;
        const BUFFER: u64 = 500;
        for (seed, words, theta, full) in [
            (1, "leveling:T=4", 0.0, false),
            (2, "leveling:T=4", 0.0, true),
            (3, "tiering:T=4", 0.0, true),
            (4, "leveling:T=4", 0.99, true),
            (5, "tiering:T=3", 0.99, false),
        ] {
            let mut random = Random::new(seed);
            let policy = policy::parse(words).expect("a policy");
            let mut tree = Tree::new(&policy, Bytes(BUFFER));
            let mut sets: BTreeMap<RunId, BTreeSet<u64>> = BTreeMap::new();
            let shares: Vec<f64> = (1..=ENTRIES).map(|rank| (rank as f64).powf(-theta)).collect();
            let all: f64 = shares.iter().sum();
            let sums: Vec<f64> = shares
                .iter()
                .scan(0.0, |sum, share| {
                    *sum += share / all;
                    Some(*sum)
                })
                .collect();
            let mut loaded = 0;
            let (mut said, mut real) = (0.0, 0.0);
            // Each key once, in no order: steps of 7919 visit all numbers.
            let loads = if full { ENTRIES / BUFFER } else { 0 };
            for flush in 0..loads + 120 {
                if flush == loads {
                    tree = tree.drawing(Keys::drawn(ENTRIES, 1, theta));
                }
                let buffer: BTreeSet<u64> = (0..BUFFER)
                    .map(|_| {
                        if flush < loads {
                            loaded += 1;
                            return (loaded * 7919) % ENTRIES;
                        }
                        let drawn = random.fraction();
                        (sums.partition_point(|sum| *sum < drawn) as u64).min(ENTRIES - 1)
                    })
                    .collect();
                tree.rotate_memtable(Bytes(BUFFER));
                while let Some(plan) = tree.in_progress().first().cloned() {
                    let before: BTreeSet<RunId> = tree.occupancy().runs().map(|(_, run)| run.id).collect();
                    let mut output = if plan.buffer > Bytes::ZERO { buffer.clone() } else { BTreeSet::new() };
                    for input in &plan.inputs {
                        output.extend(sets.remove(input).expect("a run"));
                    }
                    tree.end(0);
                    let made = tree.occupancy().runs().find(|(_, run)| !before.contains(&run.id));
                    let id = made.map_or_else(|| plan.inputs[0], |(_, run)| run.id);
                    let bytes = tree.occupancy().runs().find(|(_, run)| run.id == id).expect("it is there").1.bytes;
                    if flush >= loads {
                        (said, real) = (said + bytes.as_f64(), real + output.len() as f64);
                    }
                    sets.insert(id, output);
                }
            }
            assert!((said / real - 1.0).abs() < 0.03, "{words} {theta} {full}: {said} instead of {real}");
        }
    }
}
