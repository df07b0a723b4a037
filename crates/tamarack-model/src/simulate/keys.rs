//! [`Drawn`]: the data of a simulated tree whose runs are [draws of keys](super::draws).

use std::collections::BTreeMap;

use super::data::Data;
use super::draws::{DrawnContent, Keys};
use crate::agenda::{Contents, Garbage};
use crate::cost::space::RunContent;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::CompactionPlan;
use crate::units::{Bytes, Entries};

/// The contents of each run, if keys are written repeatedly.
#[derive(Debug)]
pub(super) struct Drawn {
    keys: Keys,
    runs: BTreeMap<RunId, Written>,
    /// Writes so far, those before the first draw included.
    writes: f64,
}

/// What a run has.
#[derive(Clone, Copy, Debug)]
struct Written {
    content: DrawnContent,
    /// The number of its oldest write.
    begins: f64,
    entries: f64,
    /// Tombstones among these.
    tombstones: f64,
}

impl Drawn {
    /// The present runs contain some of the keys, each once.
    pub(super) fn new(keys: Keys, occupancy: &Occupancy) -> Self {
        let (mut runs, mut writes) = (BTreeMap::new(), 0.0);
        for (_, run) in occupancy.runs().rev() {
            let once = run.bytes.as_f64() / keys.entry_bytes();
            let content = DrawnContent { once, ..DrawnContent::default() };
            runs.insert(run.id, Written { content, begins: writes, entries: once, tombstones: 0.0 });
            writes += once;
        }
        Self { keys, runs, writes }
    }

    /// The output of this plan. Tombstones go where nothing is older; all runs cover all keys.
    fn output(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Written {
        let mut content = self.keys.written(plan.buffer.as_f64());
        let mut begins = self.writes;
        // Young to old.
        for input in plan.inputs.iter().map(|id| &self.runs[id]) {
            let is_first = content.writes() == 0.0;
            content = if is_first { input.content } else { content.after(input.content) };
            begins = input.begins;
        }
        let last = occupancy.runs().next_back().map(|(_, run)| run.id);
        let is_oldest = plan.inputs.last().copied() == last;
        let tombstones = content.tombstones();
        let puts = self.keys.distinct(content) - tombstones;
        let tombstones = if is_oldest { 0.0 } else { tombstones };
        Written { content, begins, entries: puts + tombstones, tombstones }
    }

    fn bytes(&self, written: &Written) -> Bytes {
        let Written { entries, tombstones, .. } = written;
        let puts = (entries - tombstones) * self.keys.entry_bytes();
        Bytes((puts + tombstones * self.keys.tombstone_bytes()).round() as u64)
    }
}

impl Contents for Drawn {
    fn content(&self, run: &Run) -> RunContent {
        let Written { entries, tombstones, .. } = self.runs[&run.id];
        RunContent {
            bytes: run.bytes,
            entries: Entries(entries.round() as u64),
            tombstones: Entries(tombstones.round() as u64),
            tombstone_bytes: Bytes((tombstones * self.keys.tombstone_bytes()).round() as u64),
        }
    }

    fn entries(&self) -> Entries {
        Entries(self.runs.values().map(|run| run.entries).sum::<f64>().round() as u64)
    }

    fn garbage(&self) -> Vec<Garbage> {
        if !self.keys.are_deleted() {
            return Vec::new();
        }
        // Less than half of one is none.
        let with_garbage = self.runs.iter().filter(|(_, run)| run.tombstones >= 0.5);
        let garbage = |(id, run): (&RunId, &Written)| Garbage { run: *id, age: (self.writes - run.begins) as u64 };
        let mut all: Vec<Garbage> = with_garbage.map(garbage).collect();
        // Young to old: younger runs have younger writes.
        all.sort_by_key(|garbage| garbage.age);
        all
    }
}

impl Data for Drawn {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        self.bytes(&self.output(plan, occupancy))
    }

    fn written(&mut self, plan: &CompactionPlan, occupancy: &Occupancy, output: RunId) {
        let written = self.output(plan, occupancy);
        for input in &plan.inputs {
            self.runs.remove(input);
        }
        if self.bytes(&written) > Bytes::ZERO {
            self.runs.insert(output, written);
        }
        let flushed = plan.buffer.as_f64();
        self.writes += self.keys.written(flushed).writes();
        self.keys.grow(flushed);
    }

    fn keys(&self) -> Option<&Keys> {
        Some(&self.keys)
    }

    fn drawn(&self, run: RunId) -> DrawnContent {
        self.runs[&run].content
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
