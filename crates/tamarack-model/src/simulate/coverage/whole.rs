//! Whole-level compaction with keys: the engine's planner, and runs with what they cover.

use std::collections::BTreeMap;

use super::Sums;
use super::slices::{self, Slice, Slices};
use crate::agenda::Contents;
use crate::occupancy::{Occupancy, Run, RunId};
use crate::planner::CompactionPlan;
use crate::policy::Custom;
use crate::shape::Shape;
use crate::simulate::{Data, Tree};
use crate::units::Bytes;

/// A simulated tree of one shape whose flushes and compactions are planned by the agenda, with
/// runs of keys.
///
/// Compactions into level i take the part `busy[i - 1]` of the time until the next one, and hand
/// over their inputs evenly. While one is in progress, nothing else changes in its level: so the
/// mean over that time is half of what the inputs covered, and half of what the output covers.
#[derive(Debug)]
pub struct WholeTree<'a> {
    tree: Tree<'a>,
    busy: Vec<f64>,
    /// Entries of the last level, if they are a constant number.
    last: Option<f64>,
    /// Maximum entries of a table.
    table: usize,
    runs: BTreeMap<RunId, KeyedRun>,
    sums: Sums,
}

/// A run, and what the inputs covered together from which it was made last.
#[derive(Debug)]
struct KeyedRun {
    slices: Slices,
    inputs_covered: Option<f64>,
}

/// Entries of one byte, of which the last level has a constant number.
#[derive(Clone, Copy, Debug)]
struct Steady {
    level: usize,
}

impl Contents for Steady {}

impl Data for Steady {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        let runs = || occupancy.level(plan.target).iter();
        if plan.target == self.level {
            return runs().last().expect("the run of the last level").bytes;
        }
        plan.buffer + runs().filter(|run| plan.inputs.contains(&run.id)).map(|run| run.bytes).sum()
    }

    fn written(&mut self, _plan: &CompactionPlan, _occupancy: &Occupancy, _output: RunId) {}
}

impl<'a> WholeTree<'a> {
    /// Creates a tree in which only the last level has entries, a constant number of them, with
    /// tables of at most `table` entries. The policy is a [fixed](Self::fixed) one.
    ///
    /// # Panics
    /// If `busy` has not one number for each level.
    pub fn new(policy: &'a Custom, last: u64, table: usize, busy: Vec<f64>) -> Self {
        let level = policy.given().last();
        let mut occupancy = Occupancy::default();
        occupancy.level_mut(level).push(Run { id: RunId(1), bytes: Bytes(last), entries: None });
        let everything = KeyedRun { slices: Slices::everything(), inputs_covered: None };
        let mut tree = Self::empty(policy, table, busy);
        tree.tree = Tree::resume(policy, policy.given().clone(), occupancy).holding(Steady { level });
        Self { last: Some(last as f64), runs: BTreeMap::from([(RunId(1), everything)]), ..tree }
    }

    /// Creates an empty tree, all of whose entries have keys of their own. It must not outgrow the
    /// policy's shape.
    ///
    /// # Panics
    /// If `busy` has not one number for each level.
    pub fn empty(policy: &'a Custom, table: usize, busy: Vec<f64>) -> Self {
        let levels = policy.given().last();
        assert_eq!(busy.len(), levels, "a time for each level");
        Self {
            tree: Tree::resume(policy, policy.given().clone(), Occupancy::default()),
            sums: Sums::new(levels),
            runs: BTreeMap::new(),
            last: None,
            table,
            busy,
        }
    }

    /// The policy of a tree that keeps this shape: its last level is never full.
    pub fn fixed(shape: &Shape) -> Custom {
        let mut levels = shape.levels().to_vec();
        levels.last_mut().expect("a level").capacity = Bytes(1 << 50);
        Custom::new(Shape::new(shape.buffer(), levels).expect("a larger last level breaks no rule"))
    }

    /// Lets a batch of keys arrive, at least one and in order, and carries out all compactions
    /// until the next one.
    pub fn arrive(&mut self, keys: Vec<u64>) {
        self.sums.arrived += keys.len() as u64;
        self.tree.rotate_memtable(Bytes(keys.len() as u64));
        let mut memtable = Some(Slice::of_keys(keys, 0));
        while let Some(plan) = self.tree.in_progress().first().cloned() {
            let before: Vec<RunId> = self.tree.occupancy().runs().map(|(_, run)| run.id).collect();
            self.tree.end(0);
            let made = self.tree.occupancy().runs().map(|(_, run)| run.id).find(|id| !before.contains(id));
            let output = made.expect("a flush or compaction makes a run");
            let flushed = if plan.buffer > Bytes::ZERO { memtable.take() } else { None };
            self.merge(&plan, flushed, output);
        }
        self.look();
    }

    /// Forgets what was counted so far.
    pub fn count_anew(&mut self) {
        self.sums = Sums::new(self.busy.len());
    }

    /// The mean number of runs of each level, level 1 first, that cover a key.
    pub fn coverage(&self) -> Vec<f64> {
        self.sums.coverage()
    }

    /// Entries written to each level, level 1 first, for each entry that arrived.
    pub fn written(&self) -> Vec<f64> {
        self.sums.written()
    }

    fn merge(&mut self, plan: &CompactionPlan, flushed: Option<Slice>, output: RunId) {
        // The compactions before it into this level have ended.
        for run in self.tree.occupancy().level(plan.target) {
            self.runs.entry(run.id).and_modify(|run| run.inputs_covered = None);
        }
        let inputs: Vec<Slices> = plan.inputs.iter().map(|id| self.runs.remove(id).expect("a run").slices).collect();
        let inputs_covered = Some(inputs.iter().map(Slices::covers).sum());
        let memtable = flushed.as_ref().map(|slice| slice.range.clone());
        let all = flushed.into_iter().chain(inputs.into_iter().flat_map(Slices::into_slices));
        let written = &mut self.sums.written[plan.target - 1];
        let slices = match self.last.filter(|_| plan.target == self.busy.len()) {
            Some(last) => {
                // All that arrives overlaps the run of the last level, which has no keys here.
                let arrived = slices::clusters(all.filter(|slice| !slice.keys.is_empty()));
                *written += arrived.iter().map(|cluster| last * cluster.slice.width()).sum::<f64>();
                Slices::everything()
            }
            None => {
                let mut run = Slices::default();
                let mut copied: Option<Slice> = None;
                for cluster in slices::clusters(all) {
                    if cluster.is_lone() && memtable.as_ref() != Some(&cluster.slice.range) {
                        copied.take().into_iter().for_each(|slice| run.put(slice, &[], self.table));
                        run.put(cluster.slice, &[], self.table);
                    } else {
                        *written += cluster.slice.keys.len() as f64;
                        copied = Some(match copied {
                            Some(before) => before.through(cluster.slice),
                            None => cluster.slice,
                        });
                    }
                }
                copied.into_iter().for_each(|slice| run.put(slice, &[], self.table));
                run
            }
        };
        self.runs.insert(output, KeyedRun { slices, inputs_covered });
    }

    fn look(&mut self) {
        self.sums.looks += 1;
        for (level, run) in self.tree.occupancy().runs() {
            let KeyedRun { slices, inputs_covered } = &self.runs[&run.id];
            let (output, half) = (slices.covers(), self.busy[level - 1] / 2.0);
            self.sums.covered[level - 1] += inputs_covered.map_or(output, |inputs| output + half * (inputs - output));
        }
    }
}
