//! What-if questions: how much a design costs in changed circumstances, and how much less the best
//! one would cost there.

use super::choice::{best_of, ratios};
use super::setting::{MonkeyChoice, MonkeyDesign, MonkeySetting};

/// A design in a changed setting, beside the best one there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIf {
    /// The present policy, ratio and memtable. Filters have all other memory; a memtable that does
    /// not fit into the memory is as large as that.
    pub kept: MonkeyChoice,
    /// The best design of the changed setting.
    pub best: MonkeyChoice,
}

impl WhatIf {
    /// The share of the kept design's cost of an operation that the best one saves, from 0 to 1.
    pub fn saved(&self) -> f64 {
        1.0 - self.best.cost.operation / self.kept.cost.operation
    }
}

/// Searches again with a changed setting (workload, data, memory or device) and compares the best
/// design with keeping policy, ratio and memtable. The kept ratio is one of the candidates, so that
/// the best design never costs more than the kept one.
///
/// # Panics
/// If a size of the setting is 0.
pub fn what_if(kept: &MonkeyDesign, changed: &MonkeySetting) -> WhatIf {
    let memory_bits = changed.memory.as_f64() * 8.0;
    let filter_bits = (memory_bits - kept.buffer_bytes * 8.0).max(0.0);
    let kept = MonkeyDesign::dividing(changed.memory, kept.tree, filter_bits);
    let mut ratios = ratios(changed);
    ratios.push(kept.tree.ratio);
    WhatIf { kept: MonkeyChoice { design: kept, cost: changed.price(&kept) }, best: best_of(changed, &ratios) }
}
