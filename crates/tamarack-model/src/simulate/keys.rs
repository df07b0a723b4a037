//! [`Drawn`]: the data of a simulated tree whose runs are [draws of keys](super::draws).

use std::collections::BTreeMap;

use super::data::Data;
use super::draws::{DrawnContent, Keys};
use crate::agenda::Contents;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::CompactionPlan;
use crate::units::Bytes;

/// The contents of each run, if keys are written repeatedly.
#[derive(Debug)]
pub(super) struct Drawn {
    keys: Keys,
    runs: BTreeMap<RunId, DrawnContent>,
}

impl Drawn {
    /// The present runs contain some of the keys, each once.
    pub(super) fn new(keys: Keys, occupancy: &Occupancy) -> Self {
        let content = |run: &Run| DrawnContent { once: run.bytes.as_f64() / keys.entry_bytes(), draws: 0.0 };
        let runs = occupancy.runs().map(|(_, run)| (run.id, content(run))).collect();
        Self { keys, runs }
    }

    fn output(&self, plan: &CompactionPlan) -> DrawnContent {
        let buffer = self.keys.written(plan.buffer.as_f64());
        let runs = plan.inputs.iter().map(|id| self.runs[id]);
        runs.fold(buffer, |sum, run| DrawnContent { once: sum.once + run.once, draws: sum.draws + run.draws })
    }
}

impl Contents for Drawn {}

impl Data for Drawn {
    fn output_bytes(&self, plan: &CompactionPlan, _occupancy: &Occupancy) -> Bytes {
        Bytes((self.keys.distinct(self.output(plan)) * self.keys.entry_bytes()).round() as u64)
    }

    fn written(&mut self, plan: &CompactionPlan, _occupancy: &Occupancy, output: RunId) {
        let content = self.output(plan);
        for input in &plan.inputs {
            self.runs.remove(input);
        }
        self.runs.insert(output, content);
        self.keys.grow(plan.buffer.as_f64());
    }

    fn keys(&self) -> Option<&Keys> {
        Some(&self.keys)
    }

    fn drawn(&self, run: RunId) -> DrawnContent {
        self.runs[&run]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tamarack_testing::{Random, Zipf};

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
            let zipf = Zipf::new(ENTRIES, theta);
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
                        zipf.draw(&mut random)
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
