//! What Monkey's navigation is given, what it chooses, and what that costs: Table 3, Eq. 21 to 23.

use crate::cost::monkey::MonkeyTree;
use crate::units::Bytes;
use crate::workload::Workload;

/// The inputs of Monkey's models: workload, data, memory and device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonkeySetting {
    /// The mix of operations. In the paper's symbols, `z = zero_result + existing`, `q = ranges`,
    /// `w = updates`, `v = existing / zero_result`, and the selectivity is `s = range_entries / N`.
    /// Existing keys are looked up in the largest level.
    pub workload: Workload,
    /// `N`: entries, at least 1.
    pub entries: u64,
    /// `E`: bytes of an entry, at least 1 (the paper counts bits).
    pub entry_bytes: u64,
    /// `B E`: bytes of a block, at least 1. `B` is a real number: blocks have no unused ends.
    pub block_bytes: u64,
    /// `M̂`: main memory for memtable and filters, at least 1 byte. Fence pointers are not part of
    /// it ([`without_fence_pointers`](super::without_fence_pointers)).
    pub memory: Bytes,
    /// `φ`: the cost of a block write in block reads, at least 0.
    pub write_cost: f64,
    /// `Ω`: seconds of a block read, above 0. Only [`MonkeySetting::throughput`] depends on it.
    pub read_seconds: f64,
}

/// A design of Monkey's design space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonkeyDesign {
    /// Merge policy and size ratio `T`, any real number from 2.
    pub tree: MonkeyTree,
    /// `M_buf`: bytes of the memtable, above 0.
    pub buffer_bytes: f64,
    /// `M_filt`: bits of all filters, at least 0.
    pub filter_bits: f64,
}

/// The cost of operations in block reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonkeyCost {
    /// `Z`: a lookup, existing and missing keys as in the workload (Eq. 19 and 20).
    pub lookup: f64,
    /// `Q`: a range lookup (Eq. 11).
    pub range: f64,
    /// `W`: an update, with the compactions that it causes (Eq. 10).
    pub update: f64,
    /// `θ`: the mean over the workload, `z Z + q Q + w W` (Eq. 21).
    pub operation: f64,
}

/// A design and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonkeyChoice {
    /// The design.
    pub design: MonkeyDesign,
    /// What it costs in the setting for which it was chosen.
    pub cost: MonkeyCost,
}

/// Upper bounds on the cost of single operations (service-level agreements), in block reads; none
/// by default. A cost may exceed its bound by [`BOUND_TOLERANCE`], for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostBounds {
    /// On `Z`, the mean of all lookups.
    pub lookup: Option<f64>,
    /// On `W`.
    pub update: Option<f64>,
}

/// The part of a bound by which a cost may exceed it: a memtable of one block in a memory of
/// terabytes is the small difference of two large numbers.
pub const BOUND_TOLERANCE: f64 = 1e-6;

impl MonkeySetting {
    /// The setting of the paper's evaluation: 1 GiB in entries of 1 KiB, and the memory of its
    /// default, 1 MiB and 5 bits for each entry. Its reads take 290 µs.
    pub fn evaluation(workload: Workload) -> Self {
        Self {
            workload,
            entries: 1 << 20,
            entry_bytes: 1 << 10,
            block_bytes: 1 << 12,
            memory: Bytes((1 << 20) + (5 << 20) / 8),
            write_cost: 1.0,
            read_seconds: 290e-6,
        }
    }

    /// The cost of a design with Monkey's filters: Eq. 23.
    ///
    /// # Panics
    /// If a size of the setting is 0.
    pub fn price(&self, design: &MonkeyDesign) -> MonkeyCost {
        let lookup = design.tree.mixed(self.bits_per_entry(design), self.levels(design), self.found());
        self.cost(design, lookup)
    }

    /// The cost of a design with equal bits for every entry, as most stores have it: Eq. 13 with
    /// the rates of Appendix D. Scans and updates cost what they do in [`MonkeySetting::price`].
    ///
    /// # Panics
    /// If a size of the setting is 0.
    pub fn price_uniform(&self, design: &MonkeyDesign) -> MonkeyCost {
        let lookup = design.tree.mixed_uniform(self.bits_per_entry(design), self.levels(design), self.found());
        self.cost(design, lookup)
    }

    /// `τ = 1 / (θ Ω)`: operations per second, one after the other (Eq. 22).
    pub fn throughput(&self, cost: &MonkeyCost) -> f64 {
        1.0 / (cost.operation * self.read_seconds)
    }

    /// `L` of a design, a real number of at least 1.
    pub fn levels(&self, design: &MonkeyDesign) -> f64 {
        design.tree.levels_continuous(self.data_bytes() / design.buffer_bytes)
    }

    /// `M_filt / N` of a design.
    pub fn bits_per_entry(&self, design: &MonkeyDesign) -> f64 {
        design.filter_bits / self.entries as f64
    }

    /// `N E`.
    pub(super) fn data_bytes(&self) -> f64 {
        self.entries as f64 * self.entry_bytes as f64
    }

    /// `B`: entries per block.
    pub(super) fn per_block(&self) -> f64 {
        self.block_bytes as f64 / self.entry_bytes as f64
    }

    /// `z`: the share of lookups in all operations.
    pub(super) fn lookups(&self) -> f64 {
        self.workload.zero_result + self.workload.existing
    }

    /// `v / (v + 1)`: the share of lookups that find something; 0 if there are no lookups.
    pub(super) fn found(&self) -> f64 {
        let lookups = self.lookups();
        if lookups > 0.0 { self.workload.existing / lookups } else { 0.0 }
    }

    fn cost(&self, design: &MonkeyDesign, lookup: f64) -> MonkeyCost {
        self.check();
        let levels = self.levels(design);
        let range = design.tree.range(levels, self.workload.range_entries, self.per_block());
        let update = design.tree.update(levels, self.per_block(), self.write_cost);
        let operation = self.lookups() * lookup + self.workload.ranges * range + self.workload.updates * update;
        MonkeyCost { lookup, range, update, operation }
    }

    pub(super) fn check(&self) {
        let sizes = [self.entries, self.entry_bytes, self.block_bytes, self.memory.0];
        assert!(!sizes.contains(&0), "sizes are at least 1: {self:?}");
    }
}

impl MonkeyDesign {
    /// Divides this memory: so many bits for filters, and the rest for the memtable.
    pub(super) fn dividing(memory: Bytes, tree: MonkeyTree, filter_bits: f64) -> Self {
        Self { tree, buffer_bytes: memory.as_f64() - filter_bits / 8.0, filter_bits }
    }
}

impl CostBounds {
    /// True if the costs of lookups and updates are within their bounds.
    pub fn are_met_by(&self, cost: &MonkeyCost) -> bool {
        let is_met = |bound: Option<f64>, cost: f64| bound.is_none_or(|bound| cost <= bound * (1.0 + BOUND_TOLERANCE));
        is_met(self.lookup, cost.lookup) && is_met(self.update, cost.update)
    }
}
