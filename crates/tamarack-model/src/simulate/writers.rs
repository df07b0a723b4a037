//! Simulated writers beside compactions, in virtual time: the effect of [pacing](crate::pace) on
//! them, and on a tree without it.
//!
//! A device writes at a constant rate, for the jobs with the least slack, one for each worker.
//! Writers offer bytes at a constant rate, even while they are throttled; bytes not admitted yet
//! wait in a queue. One **unit of time** is the device's time to write one memtable, and amounts
//! are counted in memtables: every rate is a fraction of the device's speed, and the results hold
//! for any device. Time advances in steps of 1/[`STEPS`] of a unit.
//!
//! Reads and the writers' own processor time are not simulated.

use super::{Seen, Tree};
use crate::pace::{Load, PacePlan, PacedJob, Pacer};
use crate::units::Bytes;

/// Steps in one unit of time: of 4 MiB each with memtables of 64 MiB, a few milliseconds of an
/// ordinary device.
pub const STEPS: u32 = 16;

/// The writers and the resources of the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writers {
    /// Bytes offered for each byte that the device can write. In the long run a tree absorbs 1 /
    /// its write amplification.
    pub offered: f64,
    /// Maximum number of memtables: active, immutable and being flushed.
    pub buffers: u64,
    /// Worker threads, which share the device's speed evenly; each works on one job, most urgent
    /// first.
    pub workers: usize,
    /// Memtables by which compactions may be late: the allowance of [the pace](crate::pace).
    pub late_max: u64,
    /// True if writers are throttled; otherwise they are admitted until all memtables are full, and
    /// then stalled.
    pub throttled: bool,
}

/// The result for the writers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writing {
    /// Memtables admitted during each unit of time, from the first to the last.
    pub rates: Vec<f64>,
    /// Maximum length of the queue, in memtables.
    pub line_most: f64,
    /// The longest time in which bytes waited and none were admitted: the longest write stall.
    pub stopped_longest: f64,
    /// The longest time in which bytes waited and the share was at its floor.
    pub floor_longest: f64,
    /// The maximum lateness of a compaction, in memtables ([`PacePlan::late`]).
    pub late_most: f64,
    /// Maximum memory of memtables in use, in memtables; a partly filled one counts its content.
    pub buffers_most: f64,
    /// The number of runs that a lookup meets, over time ([`Tree::runs_met`]).
    pub runs_met: Seen,
    /// For each level, level 1 first: the maximum number of runs above its slots. A compaction in
    /// progress counts as one run, so a tree that meets all deadlines has none.
    pub above_slots: Vec<usize>,
    /// The same, if a level may also keep the runs that the last change of shape left there.
    pub above_left: Vec<usize>,
}

/// The state of a simulation of writers.
#[derive(Default)]
struct Scene {
    /// Content of the active memtable, in memtables.
    active: f64,
    /// Offered bytes that were not admitted yet, in memtables.
    line: f64,
    /// Duration of the current stall, and of the current time at the floor.
    stopped: f64,
    at_floor: f64,
    /// For each level, level 1 first: the minimum number of runs since the last change of shape.
    left: Vec<usize>,
}

impl Tree<'_> {
    /// Lets writers fill memtables of these sizes, one after the other. Compactions in progress at
    /// the end stay so.
    pub fn write(&mut self, writers: &Writers, buffers: &[Bytes]) -> Writing {
        let step = 1.0 / f64::from(STEPS);
        let (mut scene, mut writing) = (Scene::default(), Writing::default());
        let mut pacer = Pacer::new(&self.shape);
        let (mut switched, mut steps, mut growths) = (0, 0, self.report.growths);
        while let Some(size) = buffers.get(switched) {
            let (share, late) = self.pass_step(&pacer, writers, scene.active, scene.line > 0.0, step);
            writing.late_most = writing.late_most.max(late.ratio(self.shape.buffer()));
            scene.line += writers.offered * step;
            let in_use = |tree: &Self, active| tree.buffered(active).ratio(tree.shape.buffer());
            let free = (writers.buffers as f64 - in_use(self, scene.active)).max(0.0);
            let let_in = if writers.throttled { share * step } else { free };
            // A WAL on the same device is not written faster than anything else.
            let accepted = let_in.min(step).min(scene.line);
            scene.line -= accepted;
            scene.active += accepted;
            let is_floor = writers.throttled && share <= pacer.floor() * (1.0 + 1e-9);
            if steps % STEPS == 0 {
                writing.rates.push(0.0);
            }
            writing.note(&mut scene, accepted, is_floor, step);
            writing.runs_met.see(self.runs_met());
            writing.buffers_most = writing.buffers_most.max(in_use(self, scene.active));
            steps += 1;
            let full = size.ratio(self.shape.buffer());
            if scene.active >= full {
                scene.active -= full;
                self.rotate_memtable(*size);
                self.record();
                switched += 1;
            }
            self.note_above_slots(&mut writing, &mut scene.left, growths != self.report.growths);
            if growths != self.report.growths {
                (pacer, growths) = (Pacer::new(&self.shape), self.report.growths);
            }
        }
        writing
    }

    /// One step of the device, while writers wait or do not. Returns their mean share meanwhile,
    /// and the lateness of compactions at the most.
    fn pass_step(&mut self, pacer: &Pacer, writers: &Writers, active: f64, waits: bool, step: f64) -> (f64, Bytes) {
        let whole = step * self.shape.buffer().as_f64();
        let (mut budget, mut share, mut late) = (whole, 0.0, Bytes::ZERO);
        while budget > 0.0 {
            let (plan, order) = self.plan(pacer, writers, active, waits);
            late = late.max(plan.late);
            let at_work = &order[..writers.workers.min(order.len())];
            let Some(least) = at_work.iter().map(|job| self.unfinished[*job].left).reduce(f64::min) else {
                return (f64::INFINITY, late);
            };
            let each = least.min(budget / at_work.len() as f64);
            let written = each * at_work.len() as f64;
            share += if written > 0.0 { plan.share * written / whole } else { 0.0 };
            budget -= written;
            at_work.iter().for_each(|job| self.unfinished[*job].left -= each);
            if let Some(done) = at_work.iter().find(|job| self.unfinished[**job].left <= 0.0) {
                self.end(*done);
            }
        }
        (share, late)
    }

    /// The plan for now, and the jobs to continue in the order of their deadlines.
    pub(super) fn plan(&self, pacer: &Pacer, writers: &Writers, active: f64, waits: bool) -> (PacePlan, Vec<usize>) {
        let in_progress = self.in_progress.iter().zip(&self.unfinished);
        let jobs: Vec<PacedJob> =
            in_progress.map(|(plan, rest)| PacedJob::of(plan, Bytes(rest.left.ceil() as u64))).collect();
        let load = Load {
            occupancy: &self.occupancy,
            buffered: self.buffered(active),
            buffered_max: self.shape.buffer() * writers.buffers,
            late_max: self.shape.buffer() * writers.late_max,
        };
        let plan = pacer.plan(&load, &jobs);
        let order = plan.order(&jobs, waits);
        (plan, order)
    }

    /// Bytes in the active memtable, in immutable ones, and in the one being flushed.
    pub(super) fn buffered(&self, active: f64) -> Bytes {
        let flushing: Bytes = self.in_progress.iter().map(|plan| plan.buffer).sum();
        let waiting: Bytes = self.waiting.iter().copied().sum();
        flushing + waiting + Bytes((active * self.shape.buffer().as_f64()) as u64)
    }

    fn note_above_slots(&self, writing: &mut Writing, left: &mut Vec<usize>, has_grown: bool) {
        let levels = self.shape.last().max(left.len());
        writing.above_slots.resize(levels, 0);
        writing.above_left.resize(levels, 0);
        left.resize(levels, 0);
        for number in 1..=self.shape.last() {
            let into: Vec<_> = self.in_progress.iter().filter(|plan| plan.target == number).collect();
            let inputs: usize = into.iter().map(|plan| plan.inputs.len()).sum();
            let runs = self.occupancy.level(number).len() - inputs + into.len();
            let (slots, index) = (self.shape.level(number).runs as usize, number - 1);
            left[index] = if has_grown { runs } else { left[index].min(runs) };
            let above = |may: usize, most: &mut usize| *most = (*most).max(runs.saturating_sub(may));
            above(slots, &mut writing.above_slots[index]);
            above(slots.max(left[index]), &mut writing.above_left[index]);
        }
    }
}

impl Writing {
    /// Duration in units of time, rounded up.
    pub fn time(&self) -> f64 {
        self.rates.len() as f64
    }

    /// Mean number of memtables admitted per unit of time.
    pub fn mean_rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.time()
    }

    fn note(&mut self, scene: &mut Scene, accepted: f64, is_floor: bool, step: f64) {
        *self.rates.last_mut().expect("a unit of time has begun") += accepted;
        let waits = scene.line > 1e-9;
        scene.stopped = if waits && accepted <= 0.0 { scene.stopped + step } else { 0.0 };
        scene.at_floor = if waits && is_floor { scene.at_floor + step } else { 0.0 };
        self.line_most = self.line_most.max(scene.line);
        self.stopped_longest = self.stopped_longest.max(scene.stopped);
        self.floor_longest = self.floor_longest.max(scene.at_floor);
    }
}
