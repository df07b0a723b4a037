//! The controller of a tree in use: when another design pays, and which.
//!
//! ```text
//! operations ─► Monitor: recent mix, mix of the phase ─► is a search due?
//!                                                             │ yes
//! tree, memory, device ─► union search, present design ───────┴─► decide: keep, or change
//!                          priced by the same model               gain · operations to come > cost
//! ```
//!
//! **Phases.** A workload consists of phases of one mix each. Operations of about the last
//! [`WINDOW`] are the recent mix; when it differs from the mix of the phase by a [`SHIFT`], a new
//! phase has begun.
//!
//! **Operations to come.** How long a phase will last is unknown. It is taken to last as long again
//! as it has so far. A change that costs as much as it gains in that time is made when the phase
//! has lasted for its own cost, so that a phase of any length costs at most about twice what it
//! costs with the change made at its beginning, or with none: the classical bound for buying or
//! renting without knowledge of the future.
//!
//! **Searches** come at the beginning of a phase, whenever it has become twice as long, and
//! whenever the data has grown or shrunk by half: a logarithmic number of them, each of some tenths
//! of a second of one processor.
//!
//! **Costs of a change** are what the reshape writes, simulated from the runs that are there, and
//! reading all digests once for other filters. A policy with more runs needs no reshape: it is free
//! to go to, and not free to come back from.
//!
//! Pure functions of numbers, like all of the navigator. Tests: `tests/suite/controller.rs`.

use crate::bound::SpaceBound;
use crate::device::Device;
use crate::filter::FilterChoice;
use crate::navigator::union::{self, Impossible, PricedDesign, Request};
use crate::occupancy::Occupancy;
use crate::policy::Policy;
use crate::shape::Shape;
use crate::simulate;
use crate::workload::Workload;

/// Operations that the recent mix remembers: older ones count 1/e.
pub const WINDOW: f64 = 20_000.0;

/// The part of all operations that has to be of other kinds for a new phase.
pub const SHIFT: f64 = 0.2;

/// The same for the length of scans, where they are a twentieth of the operations or more: a
/// factor.
const LENGTH_SHIFT: f64 = 2.0;

/// Operations of a phase before the first search.
pub const OPERATIONS_MIN: f64 = 20_000.0;

/// The part of the predicted time of an operation that a change has to save.
pub const GAIN_MIN: f64 = 0.1;

/// The growth of the data, or the other way round, after which it is searched again.
const GROWTH: f64 = 1.5;

/// Bytes of a stored digest, about.
const DIGEST_BYTES: f64 = 4.4;

/// Counts of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Operations {
    /// Lookups of absent keys.
    pub zero_result: f64,
    /// Lookups of existing keys.
    pub existing: f64,
    /// Scans.
    pub scans: f64,
    /// Entries that scans returned.
    pub scanned: f64,
    /// Puts and deletes.
    pub updates: f64,
}

impl Operations {
    /// All of them.
    pub fn sum(&self) -> f64 {
        self.zero_result + self.existing + self.scans + self.updates
    }

    /// The mix; `None` if there are none.
    pub fn workload(&self) -> Option<Workload> {
        let after_first = self.per_scan() - 1.0;
        Workload::of_parts(self.zero_result, self.existing, self.scans, self.updates, after_first.max(0.0))
    }

    fn per_scan(&self) -> f64 {
        if self.scans > 0.0 { self.scanned / self.scans } else { 1.0 }
    }

    fn parts(&self) -> [f64; 4] {
        [self.zero_result, self.existing, self.scans, self.updates]
    }

    fn plus(&self, other: &Self, factor: f64) -> Self {
        Self {
            zero_result: self.zero_result * factor + other.zero_result,
            existing: self.existing * factor + other.existing,
            scans: self.scans * factor + other.scans,
            scanned: self.scanned * factor + other.scanned,
            updates: self.updates * factor + other.updates,
        }
    }

    /// True if the two are of different mixes.
    fn differ(&self, other: &Self) -> bool {
        let (all, others) = (self.sum(), other.sum());
        if all == 0.0 || others == 0.0 {
            return false;
        }
        let shares = self.parts().map(|part| part / all);
        let other_shares = other.parts().map(|part| part / others);
        let moved: f64 = shares.iter().zip(other_shares).map(|(one, other)| (one - other).abs()).sum::<f64>() / 2.0;
        let lengths = (self.per_scan().max(1.0) / other.per_scan().max(1.0)).ln().abs();
        let scans = shares[2].min(other_shares[2]) >= 0.05;
        moved > SHIFT || scans && lengths > LENGTH_SHIFT.ln()
    }
}

/// The operations of a tree: of late, and of the present phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Monitor {
    recent: Operations,
    phase: Operations,
    /// Phases before this one.
    phases: u64,
    /// The last search.
    searched: Option<Searched>,
}

/// What a search knew.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Searched {
    phase: u64,
    operations: f64,
    data: f64,
}

impl Monitor {
    /// Counts operations, in the order of time.
    pub fn observe(&mut self, operations: &Operations) {
        self.recent = self.recent.plus(operations, (-operations.sum() / WINDOW).exp());
        self.phase = self.phase.plus(operations, 1.0);
        if self.recent.differ(&self.phase) {
            // What comes now counts: what was seen of the new mix still has the old one in it.
            self.phase = Operations::default();
            self.phases += 1;
        }
    }

    /// The operations of the present phase.
    pub fn phase(&self) -> &Operations {
        &self.phase
    }

    /// True if it is time for a search, in a tree with so much data in bytes.
    pub fn is_search_due(&self, data: f64) -> bool {
        let operations = self.phase.sum();
        operations >= OPERATIONS_MIN
            && self.searched.is_none_or(|last| {
                let growth = (data.max(1.0) / last.data.max(1.0)).ln().abs();
                last.phase != self.phases || operations >= 2.0 * last.operations || growth > GROWTH.ln()
            })
    }

    /// Notes a search.
    pub fn searched(&mut self, data: f64) {
        self.searched = Some(Searched { phase: self.phases, operations: self.phase.sum(), data });
    }
}

/// The tree as it is.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The filters.
    pub filter: FilterChoice,
    /// The shape.
    pub shape: &'a Shape,
    /// The runs.
    pub occupancy: &'a Occupancy,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The operations of the phase: as many are expected to come.
    pub operations: f64,
    /// Their mix.
    pub workload: Workload,
    /// The present design.
    pub before: PricedDesign,
    /// The best design, its costs included; equal to `before` if no other was found.
    pub after: PricedDesign,
    /// Seconds that the change takes.
    pub change_seconds: f64,
    /// True if it pays.
    pub is_change: bool,
}

impl Decision {
    /// Seconds that all operations to come are predicted to save, without those of the change.
    pub fn gain_seconds(&self) -> f64 {
        (self.before.seconds_per_op - self.after.seconds_per_op) * self.operations
    }
}

/// Searches for a design, and decides whether it pays to change to it. The request's workload is
/// replaced by that of the monitor's phase. `None` if `goes_on` returned false, or there were no
/// operations.
///
/// # Errors
/// As [`union::find`]; also if the tree has more memtables than the request allows.
///
/// # Panics
/// As [`union::find`].
pub fn decide(
    monitor: &Monitor,
    request: &Request,
    present: &Present<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Option<Result<Decision, Impossible>> {
    let operations = monitor.phase.sum();
    let workload = monitor.phase.workload()?;
    let request = &Request { workload, ..*request };
    if request.memtables(present.shape.buffer()) > request.limits.memtables_max {
        return Some(Err(Impossible::Memory { least: f64::INFINITY }));
    }
    let found = match union::find_while(request, goes_on)? {
        Ok(found) => found,
        Err(impossible) => return Some(Err(impossible)),
    };
    let before = union::price(request, present.policy, present.shape.buffer(), present.filter);
    // Filters alone are the cheapest change.
    let refiltered = union::price(request, present.policy, present.shape.buffer(), found.best.filter);
    let candidates = [found.best, refiltered].into_iter().chain(found.others);
    let net = |design: &PricedDesign| {
        let change = change_seconds(request, &before, design, present);
        ((before.seconds_per_op - design.seconds_per_op) * operations - change, change)
    };
    let (after, (gain, change_seconds)) = candidates
        .filter(|design| design.split.cache >= 0.0 && goes_on())
        .map(|design| {
            let net = net(&design);
            (design, net)
        })
        .max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0))?;
    let saved = 1.0 - after.seconds_per_op / before.seconds_per_op;
    let is_change = gain > 0.0 && saved >= GAIN_MIN;
    Some(Ok(Decision { operations, workload, before, after, change_seconds, is_change }))
}

/// Seconds of a change from one design to another.
fn change_seconds(request: &Request, before: &PricedDesign, after: &PricedDesign, present: &Present<'_>) -> f64 {
    let Device { read_bytes_per_second, write_bytes_per_second, compaction_seconds, .. } = request.device;
    let data = present.occupancy.bytes();
    let reshaped = if after.policy == before.policy && after.buffer == before.buffer {
        0.0
    } else {
        let shape = after.policy.shape(data, after.buffer);
        let (from, to) = ((present.policy as _, present.shape), (&after.policy as _, &shape));
        let bound = request.bounds.space_amplification.and_then(SpaceBound::new);
        simulate::change(from, to, present.occupancy, bound, |_| Vec::new()).reshaped.as_f64()
    };
    let copied = reshaped / request.entry_bytes as f64 * compaction_seconds
        + reshaped / read_bytes_per_second
        + reshaped / write_bytes_per_second;
    let refiltered = if after.filter == before.filter {
        0.0
    } else {
        let entries = data.as_f64() / request.entry_bytes as f64;
        entries * (DIGEST_BYTES / read_bytes_per_second + request.device.probe_seconds.chucky)
    };
    copied + refiltered
}

/// The exponent of Zipf's law with which a cache that has room for `cached` of `keys` keys serves
/// this share of lookups, from 0 to 2; 0 if it has none, or serves no more than it would if all
/// keys were as likely.
pub fn skew_of_hits(hits: f64, cached: f64, keys: f64) -> f64 {
    if cached < 1.0 || hits <= cached / keys {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 2.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if crate::cost::cache::hits(cached, keys, middle) < hits {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
