//! SMOOSE: the tree of MOOSE's kind that costs a workload least (section 3.6).
//!
//! ```text
//! N, F, m, B, shares s, u, z of scans, updates and lookups
//!   │
//!   ├─ each capacity N_L of the last level, from 0.5 N to N
//!   │    ├─ the levels above, by the dynamic program: for √r, and for the workload
//!   │    │    └─ each vector of runs n_i = k √r_i, for k from 1/√r_max to √r_max
//!   ▼    ▼
//! least    s · Σ n_i  +  u · (1/B) Σ r_i / n_i  +  z · Σ n_i p_i          Eq. 17
//! ```
//!
//! The three terms are the block reads of a short scan, the block writes of an update and the block
//! reads of a zero-result lookup, up to factors ([`OperationCosts`]). They count slots, as the
//! paper does; [`design`](crate::design) prices a tree by the runs that it shows. `p_i` follows
//! from the best allocation of the filters' memory, with ideal filters.
//!
//! `N` is the paper's: the capacity of all levels together. A tree whose last level is full needs
//! its next shape ([`Shape::holds`]), so a tree of `N` takes data of `N_L` at most.
//!
//! **Levels above the last.** The paper's dynamic program minimises `Σ √r`, whatever the workload;
//! its published structures come from a cost for the workload that it does not print. Here, both
//! [`LevelCost::Root`] and [`LevelCost::Mixed`], the cost of a level with the best number of runs
//! for scans and updates, are tried everywhere.
//!
//! Neither is always better. For the published workloads at the size that the published structures
//! imply (10,490 memtables), structures for the workload cost 13 % less for 98 % of scans, 4 % less
//! for scans with lookups, and 0.3 % less to 0.3 % more for the others; at 30,517 memtables 15 %,
//! 13 % and 3 % (98 % of updates) less, and 0.7 % more for updates with lookups.
//!
//! **Steps of the last level.** Up to [`ALL_UP_TO`] memtables, all capacities are tried. Above it,
//! what is left above the last level counts: where scans prevail, a hundredth of all is best. So it
//! is tried from half of all down to two memtables in steps of a factor of 1.5, then nearer to the
//! best in steps of 1.15 and 1.05. Steps of 1.01 everywhere find structures that are 0.02 % cheaper
//! on the mean of the published workloads, and 0.2 % at most; single steps of 1.5 lose up to 1 %.
//!
//! **Runs.** A vector changes where `k √r_i` passes a half, so one `k` between two such numbers
//! stands for all between them. Levels with more than 128 slots are tried in steps of a 64th.
//!
//! **Time.** A billion entries of 1 KB over 32 MiB (30,517 memtables) take 7 to 44 ms for the
//! published workloads, the fastest of five runs in a release build on a busy machine with two
//! cores. The time is bounded for any workload: there are about `14 + 5 ln N/F` searches for the
//! levels above the last, each with a bound on its steps ([`structure::STEPS_MAX`]). Published
//! workloads and workloads of one kind of operations take up to 0.2 s at 10^6 memtables, 2 s at
//! 10^9 and 9 s at 10^12.
//!
//! Ratios are chosen for the cost of levels alone, and runs by `k` alone. Against all structures
//! with all numbers of runs, that loses nothing in 29 of 30 small trees, and 1.5 % in the other
//! one.
//!
//! Tests: `tests/suite/smoose.rs`; speed, and what other steps find: `cargo run --release -p
//! tamarack-model --example smoose_speed`.

use crate::allocate::{self, Load};
use crate::cost::range;
use crate::policy::structure::{self, LevelCost};
use crate::policy::{Moose, Policy, Smoose};
use crate::shape::Shape;
use crate::units::{Bytes, Entries};
use crate::workload::Workload;

/// The workloads of the MOOSE paper, Table 4: their names, and scans, updates and lookups in
/// percent.
pub const WORKLOADS: [(char, [f64; 3]); 10] = [
    ('A', [98.0, 1.0, 1.0]),
    ('B', [1.0, 98.0, 1.0]),
    ('C', [1.0, 1.0, 98.0]),
    ('D', [49.0, 2.0, 49.0]),
    ('E', [2.0, 49.0, 49.0]),
    ('F', [49.0, 49.0, 2.0]),
    ('G', [40.0, 40.0, 20.0]),
    ('H', [40.0, 20.0, 40.0]),
    ('I', [20.0, 40.0, 40.0]),
    ('J', [33.0, 33.0, 33.0]),
];

/// The tree to find a structure for, and the operations on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmooseTask {
    /// `N`: the capacity of all levels, more than one memtable. It is rounded up to whole
    /// memtables.
    pub capacity: Bytes,
    /// `F`: the memtable size.
    pub buffer: Bytes,
    /// `m`: bits of filter memory per entry.
    pub bits_per_entry: f64,
    /// `B`: entries to a block, above 0; less than 1 if an entry has several blocks.
    pub entries_per_block: f64,
    /// Shares of scans, updates, and lookups of any kind.
    pub workload: Workload,
}

/// The structure that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SmooseDesign {
    /// The structure.
    pub shape: Shape,
    /// The cost of a level for which the levels above the last are cheapest; of equal ones the
    /// paper's.
    pub level_cost: LevelCost,
    /// `k`: all levels have `k √r` runs, rounded, at least 1 and at most one for each batch.
    pub runs: f64,
    /// The cost of each operation.
    pub costs: OperationCosts,
    /// The mean cost of an operation of the workload: Eq. 17.
    pub cost: f64,
}

/// The cost of operations on a full tree, in blocks, up to a factor. MOOSE, section 3.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationCosts {
    /// `Σ n_i`, of a short scan. Eq. 3.
    pub range: f64,
    /// `(1/B) Σ r_i / n_i`, of an update. Eq. 2.
    pub update: f64,
    /// `Σ n_i p_i`, of a zero-result lookup. Eq. 4, with rates `p_i ∝ N_i / n_i` by the best
    /// allocation (Eq. 10), at most 1.
    pub lookup: f64,
}

impl OperationCosts {
    /// Prices a shape with so many entries to a block and bits of filter per entry.
    pub fn of(shape: &Shape, entries_per_block: f64, bits_per_entry: f64) -> Self {
        Self { lookup: false_positives(shape, bits_per_entry), ..Self::without_lookups(shape, entries_per_block) }
    }

    fn without_lookups(shape: &Shape, entries_per_block: f64) -> Self {
        let update = range::rewritings(shape) / entries_per_block;
        Self { range: range::slots(shape), update, lookup: 0.0 }
    }

    /// The mean over a workload: Eq. 17.
    pub fn mean(&self, workload: &Workload) -> f64 {
        workload.ranges * self.range + workload.updates * self.update + lookups(workload) * self.lookup
    }
}

/// The share of lookups, `z`: those that find something cost what others do, and the block where
/// they find it, in any tree.
fn lookups(workload: &Workload) -> f64 {
    workload.zero_result + workload.existing
}

/// `Σ n_i p_i` for levels of the shape's capacities and slots, with ideal filters.
fn false_positives(shape: &Shape, bits_per_entry: f64) -> f64 {
    // Sizes of entries cancel: bytes stand for entries. A level's runs are alike.
    let loads: Vec<Load> = shape
        .levels()
        .iter()
        .map(|level| Load { entries: Entries(level.capacity.0), weight: f64::from(level.runs) })
        .collect();
    let bits = allocate::ideal(&loads, bits_per_entry * shape.capacity().as_f64());
    allocate::false_positives(&loads, bits.into_iter().map(allocate::ideal_rate))
}

/// Up to so many memtables all capacities of the last level are tried.
pub const ALL_UP_TO: u64 = 200;

/// In larger trees, the capacities above the last level that are tried in a round differ by this
/// factor: in the first round over the whole range, then near to the best, within one step of the
/// round before.
const ROUNDS: [f64; 3] = [1.5, 1.15, 1.05];

/// Finds the structure that costs the workload least.
///
/// # Panics
/// If the memtable is empty or larger than [`BUFFER_MAX`](crate::BUFFER_MAX), the capacity is not
/// more than the memtable or more than [`DATA_MAX`](crate::policy::DATA_MAX), bits are negative or
/// not finite, or there is nothing to a block.
pub fn search(task: &SmooseTask) -> SmooseDesign {
    let buffers = task.buffers();
    let costs = [LevelCost::Root, task.level_cost()];
    if buffers <= ALL_UP_TO {
        return search_among(task, buffers.div_ceil(2)..=buffers, &costs).expect("a single level is a structure");
    }
    // What is above the last level: half of all and less, none, and what MOOSE has by default.
    let half = buffers - buffers.div_ceil(2);
    let coarse = std::iter::successors(Some(half), |above| Some((*above as f64 / ROUNDS[0]) as u64));
    let coarse = coarse.take_while(|above| *above >= 2).chain([0, buffers / 5]);
    let mut best =
        search_among(task, coarse.map(|above| buffers - above), &costs).expect("a single level is a structure");
    for round in ROUNDS.windows(2) {
        let above = (buffers - best.shape.holds().0 / task.buffer.0) as f64;
        let steps = std::iter::successors(Some(round[1]), |step| Some(step * round[1]));
        let near = steps.take_while(|step| *step < round[0]).flat_map(|step| [above / step, above * step]);
        let near = near.map(|above| above.round() as u64).filter(|above| (2..=half).contains(above));
        let found = search_among(task, near.map(|above| buffers - above), &costs);
        best = found.filter(|found| found.cost < best.cost).unwrap_or(best);
    }
    best
}

/// Finds the structure that costs the workload least among those with a last level of one of these
/// capacities, in memtables, and with the levels above it that are cheapest by one of these costs.
/// `None` if no capacity is possible: there must be levels for what is left above it.
///
/// # Panics
/// As [`search`], and if a capacity is 0 or more than that of the tree.
pub fn search_among(
    task: &SmooseTask,
    last: impl IntoIterator<Item = u64>,
    level_costs: &[LevelCost],
) -> Option<SmooseDesign> {
    let buffers = task.buffers();
    let mut best: Option<SmooseDesign> = None;
    for last in last {
        assert!((1..=buffers).contains(&last), "a last level of {last} memtables in a tree of {buffers}");
        let mut tried: Vec<Vec<u64>> = Vec::new();
        for level_cost in level_costs {
            let Some(capacities) = structure_of(buffers - last, last, *level_cost) else { continue };
            if !tried.contains(&capacities) {
                with_best_runs(task, &capacities, *level_cost, &mut best);
                tried.push(capacities);
            }
        }
    }
    best
}

/// Capacities of all levels in memtables; `None` if what is above the last makes no level.
fn structure_of(above: u64, last: u64, cost: LevelCost) -> Option<Vec<u64>> {
    let mut capacities = structure::levels_above(above, last as f64, cost);
    if capacities.is_empty() && above > 0 {
        return None;
    }
    capacities.push(last);
    Some(capacities)
}

/// Takes the cheapest vector of runs for these levels, if it is cheaper than the best so far.
fn with_best_runs(task: &SmooseTask, capacities: &[u64], level_cost: LevelCost, best: &mut Option<SmooseDesign>) {
    let batches = [1].iter().chain(capacities);
    let ratios: Vec<f64> = capacities.iter().zip(batches).map(|(level, batch)| *level as f64 / *batch as f64).collect();
    for (low, high) in regulators(&ratios) {
        let least = best.as_ref().map_or(f64::INFINITY, |best| best.cost);
        let middle = low + (high - low) / 2.0;
        let shape = structure::shape_of(capacities, middle, task.buffer)
            .unwrap_or_else(|error| panic!("levels of {capacities:?} memtables, k from {low} to {high}: {error}"));
        // Filters are left out where they cannot decide.
        if OperationCosts::without_lookups(&shape, task.entries_per_block).mean(&task.workload) >= least {
            continue;
        }
        let costs = OperationCosts::of(&shape, task.entries_per_block, task.bits_per_entry);
        let cost = costs.mean(&task.workload);
        if cost < least {
            // Where not all numbers of slots are tried, several vectors lie between the two.
            let short = shortest_between(low, high);
            let is_same = structure::shape_of(capacities, short, task.buffer).as_ref() == Ok(&shape);
            let runs = if is_same { short } else { middle };
            *best = Some(SmooseDesign { shape, level_cost, runs, costs, cost });
        }
    }
}

/// Levels of more slots than twice this are tried in steps of one of so many parts.
const SLOT_PARTS: f64 = 64.0;

/// For each vector of runs that levels of these ratios can have with a `k` from `1/√r_max` to
/// `√r_max`, the numbers between which `k` is, in ascending order.
fn regulators(ratios: &[f64]) -> Vec<(f64, f64)> {
    let root = ratios.iter().copied().fold(1.0, f64::max).sqrt();
    let mut borders = vec![1.0 / root, root];
    for ratio in ratios {
        let mut runs = 1.0;
        while runs < ratio.floor() {
            // From here on, one run more.
            let border = (runs + 0.5) / ratio.sqrt();
            if 1.0 / root < border && border < root {
                borders.push(border);
            }
            runs += (runs / SLOT_PARTS).floor().max(1.0);
        }
    }
    borders.sort_by(f64::total_cmp);
    borders.dedup();
    borders.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// A number between these with few digits.
fn shortest_between(low: f64, high: f64) -> f64 {
    let middle = low + (high - low) / 2.0;
    let rounded = |digits: usize| format!("{middle:.digits$e}").parse().unwrap_or(middle);
    (0..17).map(rounded).find(|number| low < *number && *number < high).unwrap_or(middle)
}

impl SmooseTask {
    /// `N / F`.
    fn buffers(&self) -> u64 {
        let sound = self.bits_per_entry >= 0.0 && self.bits_per_entry.is_finite() && self.entries_per_block > 0.0;
        assert!(sound && Bytes::ZERO < self.buffer && self.buffer < self.capacity, "{self:?}");
        assert!(self.capacity <= crate::policy::DATA_MAX, "{self:?}");
        self.capacity.0.div_ceil(self.buffer.0)
    }

    /// What a level costs the workload: a run the share of scans, a rewriting that of updates over
    /// entries to a block, both at most 1 and at least what a [`Smoose`] can have.
    pub fn level_cost(&self) -> LevelCost {
        let (range, update) = (self.workload.ranges, self.workload.updates / self.entries_per_block);
        let scale = range.max(update).max(1.0);
        LevelCost::Mixed {
            range: (range / scale).max(Smoose::RANGE_MIN),
            update: (update / scale).max(Smoose::UPDATE_MIN),
        }
    }
}

impl SmooseDesign {
    /// The last level's share of all.
    pub fn last(&self) -> f64 {
        self.shape.share(self.shape.last())
    }

    /// The policy that grows trees like this one: `moose` or `smoose`, by the cost of a level; its
    /// [`with_last`](Smoose::with_last) gives this structure for the capacity of this last level.
    /// `None` if the last level has more than 0.99 of all, or `k` is not from 0.01 to 100. Then
    /// [`Custom`](crate::policy::Custom) names the shape.
    pub fn policy(&self) -> Option<Policy> {
        let (all, last) = (self.shape.capacity().as_f64(), self.shape.holds().as_f64());
        // With all shares between these, as many whole memtables are left for the levels above.
        let last = shortest_between(last / (all + self.shape.buffer().as_f64()), last / all * (1.0 + 1e-12));
        match self.level_cost {
            LevelCost::Root => Moose::new(last, self.runs).map(Policy::from).ok(),
            LevelCost::Mixed { range, update } => Smoose::new(last, self.runs, range, update).map(Policy::from).ok(),
        }
    }
}
