//! What Monkey's Algorithm 1 chooses for a request, to be compared with the others: the search is
//! not worse than the paper.

use super::neighbours::{RUNS_MAX, quarters};
use super::request::{FENCE_BYTES, MEMTABLES, Request};
use crate::cost::monkey::Merging;
use crate::filter::{Allocation, FilterChoice, FilterKind};
use crate::navigator::monkey::{MonkeySetting, holistic, without_fence_pointers};
use crate::policy::{self, Policy};
use crate::prediction::Variant;
use crate::units::Bytes;

/// The fewest bits per entry that are filters.
const BITS_MIN: f64 = 0.125;

/// Lookups of existing keys for each of an absent one, at most, for which filters are divided.
const FOUND_MAX: f64 = 1000.0;

/// Sizes of its memtable and filters: the paper knows no old versions, with which the first may not
/// fit the memory.
const SIZES: [f64; 2] = [1.0, 0.8];

/// The design of the algorithm, with both whole ratios beside its own, filters for all lookups and
/// for those of absent keys, and in two sizes; none if memtables or filters are given, or a level
/// would have too many runs.
pub(super) fn monkey_choices(request: &Request) -> Vec<(Policy, Bytes, Variant)> {
    let Request { entries, entry_bytes, block_bytes, memory, workload, device, limits, .. } = *request;
    if limits.buffer.is_some() || limits.filter.is_some() {
        return Vec::new();
    }
    let read_seconds = device.block_seconds(block_bytes as f64);
    let write_cost = block_bytes as f64 / device.write_bytes_per_second / read_seconds;
    let all = MonkeySetting { workload, entries, entry_bytes, block_bytes, memory, write_cost, read_seconds };
    let Some(setting) = without_fence_pointers(&all, FENCE_BYTES) else { return Vec::new() };
    let design = holistic(&setting).design;
    let kind = match design.tree.merging {
        Merging::Leveling => "leveling",
        Merging::Tiering => "tiering",
    };
    let mut choices = Vec::new();
    for size in SIZES {
        let buffer = request.allowed(Bytes((size * design.buffer_bytes / MEMTABLES) as u64));
        let bits_per_entry = size * design.filter_bits / entries as f64;
        let filters: Vec<FilterChoice> = if bits_per_entry < BITS_MIN {
            limits.filters(&["none"])
        } else {
            let bits_per_entry = quarters(bits_per_entry, f64::round);
            let v = (workload.existing / workload.zero_result).min(FOUND_MAX);
            let general = (workload.existing > 0.0).then_some(Allocation::MonkeyGeneral { v });
            let bloom = |allocation| FilterChoice::Each { kind: FilterKind::Bloom, bits_per_entry, allocation };
            std::iter::once(Allocation::Monkey).chain(general).map(bloom).collect()
        };
        let ratios = [design.tree.ratio.floor(), design.tree.ratio.ceil()];
        for ratio in ratios.into_iter().filter(|ratio| kind == "leveling" || *ratio <= RUNS_MAX) {
            let Ok(policy) = policy::parse(&format!("{kind}:T={ratio}")) else { continue };
            choices.extend(filters.iter().map(|&filter| (policy.clone(), buffer, Variant { filter, block_bytes })));
        }
    }
    choices
}
