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
//! [`WINDOW`] are the recent mix, or those of [`WINDOW_SECONDS`] where operations are slow; when it
//! differs from the mix of the phase by a [`SHIFT`], a new phase has begun.
//!
//! **Operations to come.** How long a phase of a new mix will last is unknown. It is taken to last
//! as long again as it has so far. A change that costs as much as it gains in that time is made
//! when the phase has lasted for its own cost, so that a phase of any length costs at most about
//! twice what it costs with the change made at its beginning, or with none: the classical bound for
//! buying or renting without knowledge of the future.
//!
//! **Mixes that alternate.** The monitor remembers eight mixes, and how long their phases
//! were. A phase of such a mix is expected to last as long as these did: their mean, or as long as
//! the last of them if that was shorter. Then another mix is expected to come back, so a change has
//! to pay for the way there and back. A phase that outlasts that is again expected to last as long
//! as it has done so beyond.
//!
//! ```text
//! new mix      ├── so far ──┼── to come ──┤                     pays for the way there
//! met before   ├── so far ──┼── to come ─────────┤ length       pays for the way there and back
//! outlasts it  ├──────────────────── length ──────┼─ so ─┼─ to come ─┤   the way there
//! ```
//!
//! Where the phases of a mix are too short for the change that it asks for, the mixes that come
//! again and again are **one workload**, of one phase of each, which is expected to last as long
//! again as all their phases did. Its design is the one to stay with. Without that, a change that
//! was free to make would stay for ever where the way back never pays for a single phase.
//!
//! **Searches** come at the beginning of a phase, whenever it has become twice as long, and
//! whenever the data has grown or shrunk by half: a logarithmic number of them, each of some tenths
//! of a second of one processor.
//!
//! **Costs of a change** are what the reshape writes, simulated from the runs that are there, and
//! reading all digests once for other filters. A policy with more runs needs no reshape: it is free
//! to go to, and not free to come back from. Another size of blocks costs a rewrite of all data,
//! which is what carries it out: tables keep the blocks that they were built with, and without the
//! rewrite a tree that is only read would never gain anything. The rewrite leaves one run, so
//! nothing is left for a reshape.
//!
//! Pure functions of numbers, like all of the navigator. Tests: `tests/suite/controller.rs`.

use crate::bound::SpaceBound;
use crate::filter::FilterChoice;
use crate::navigator::union::{self, Impossible, PricedDesign, Request};
use crate::occupancy::Occupancy;
use crate::policy::Policy;
use crate::prediction::loaded;
use crate::shape::Shape;
use crate::simulate;
use crate::units::Bytes;
use crate::workload::Workload;

/// Operations that the recent mix remembers: older ones count 1/e.
pub const WINDOW: f64 = 20_000.0;

/// Seconds that the recent mix remembers where operations are slow. Scans of a tree with a hundred
/// runs come at some hundreds a second: a window of operations alone would let half a minute of
/// them pass before it noticed that they are scans.
pub const WINDOW_SECONDS: f64 = 1.0;

/// Operations that the recent mix remembers at least.
const WINDOW_MIN: f64 = 500.0;

/// The part of all operations that has to be of other kinds for a new phase.
pub const SHIFT: f64 = 0.2;

/// The same for the length of scans, where they are a twentieth of the operations or more: a
/// factor.
const LENGTH_SHIFT: f64 = 2.0;

/// Operations of a phase before the first search.
pub const OPERATIONS_MIN: f64 = 20_000.0;

/// Seconds of a phase before the first search where operations are slow.
const SECONDS_MIN: f64 = 2.0;

/// Operations of such a phase before the first search.
const FEW_OPERATIONS_MIN: f64 = 1_000.0;

/// The part of the predicted time of an operation that a change has to save.
pub const GAIN_MIN: f64 = 0.1;

/// The growth of the data, or the other way round, after which it is searched again.
const GROWTH: f64 = 1.5;

/// Mixes that the monitor remembers.
const MIXES_MAX: usize = 8;

/// Phases of a mix that have ended, from which on it is one that comes again and again.
const RECURRING_MIN: u64 = 2;

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
    /// The time of the phase in which there were operations.
    seconds: f64,
    /// The phase as it was when it had lasted long enough for a search: its mix, without the
    /// beginning of the next one. `None` before.
    settled: Option<Operations>,
    /// Phases before this one.
    phases: u64,
    /// The last search.
    searched: Option<Searched>,
    /// The mixes of phases that have ended; that of the last one last.
    met: Vec<MixMet>,
}

/// A mix that was met before.
#[derive(Clone, Debug, PartialEq)]
struct MixMet {
    mix: Operations,
    /// Operations of its last phase.
    last: f64,
    /// The mean of all its phases.
    mean: f64,
    phases: u64,
}

impl MixMet {
    /// How long its next phase is expected to be, in operations. One that was very long, such as
    /// the first load, says nothing about those that follow shorter ones.
    fn length(&self) -> f64 {
        self.mean.min(self.last)
    }
}

/// What a search knew.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Searched {
    phase: u64,
    operations: f64,
    data: f64,
}

impl Monitor {
    /// Counts operations, in the order of time, and the seconds that they took.
    pub fn observe(&mut self, operations: &Operations, seconds: f64) {
        let count = operations.sum();
        let windows = (count / WINDOW).max((seconds / WINDOW_SECONDS).min(count / WINDOW_MIN));
        self.recent = self.recent.plus(operations, (-windows).exp());
        self.phase = self.phase.plus(operations, 1.0);
        self.seconds += if count > 0.0 { seconds } else { 0.0 };
        if self.recent.differ(&self.phase) {
            self.remember_phase(operations);
            // What comes now counts: what was seen of the new mix still has the old one in it.
            (self.phase, self.seconds) = (Operations::default(), 0.0);
            self.phases += 1;
        } else if self.settled.is_none() && self.is_long_enough() {
            self.settled = Some(self.phase);
        }
    }

    /// True if the phase has lasted long enough for a search.
    fn is_long_enough(&self) -> bool {
        let operations = self.phase.sum();
        operations >= OPERATIONS_MIN || operations >= FEW_OPERATIONS_MIN && self.seconds >= SECONDS_MIN
    }

    /// Remembers the phase that ends, which the latest operations are no part of. One too short for
    /// a search is part of the passage from one mix to another.
    fn remember_phase(&mut self, latest: &Operations) {
        let Some(mix) = self.settled.take() else { return };
        let last = self.phase.sum() - latest.sum();
        let before = self.met.iter().position(|met| !met.mix.differ(&mix)).map(|at| self.met.remove(at));
        let (mean, phases) = before.map_or((0.0, 0), |met| (met.mean, met.phases));
        let phases = phases + 1;
        if self.met.len() == MIXES_MAX {
            self.met.remove(0);
        }
        self.met.push(MixMet { mix, last, mean: mean + (last - mean) / phases as f64, phases });
    }

    /// The operations of the present phase.
    pub fn phase(&self) -> &Operations {
        &self.phase
    }

    /// Phases that have ended.
    pub fn phases(&self) -> u64 {
        self.phases
    }

    /// True if it is time for a search, in a tree with so much data in bytes.
    pub fn is_search_due(&self, data: f64) -> bool {
        let operations = self.phase.sum();
        self.is_long_enough()
            && self.searched.is_none_or(|last| {
                let growth = (data.max(1.0) / last.data.max(1.0)).ln().abs();
                last.phase != self.phases || operations >= 2.0 * last.operations || growth > GROWTH.ln()
            })
    }

    /// The mix of the phase, if it was met before.
    fn met(&self) -> Option<&MixMet> {
        self.met.iter().rev().find(|met| !met.mix.differ(&self.phase))
    }

    /// Returns the outlook for the present phase.
    pub fn outlook(&self) -> Outlook {
        let (seen, so_far) = (self.phase, self.phase.sum());
        let Some(length) = self.met().map(MixMet::length) else {
            return Outlook { seen, expected: so_far, is_passing: false };
        };
        Outlook { seen, expected: (length - so_far).abs(), is_passing: so_far < length }
    }

    /// Returns the outlook for all mixes that come again and again, one phase of each, if that of
    /// the present phase is one of them and there are others.
    pub fn outlook_of_alternation(&self) -> Option<Outlook> {
        let present = self.met()?;
        let recurs = |met: &&MixMet| met.phases >= RECURRING_MIN || std::ptr::eq(*met, present);
        let alternating: Vec<&MixMet> = self.met.iter().filter(recurs).collect();
        let phase = |sum: Operations, met: &&MixMet| met.mix.plus(&sum, met.length() / met.mix.sum());
        let seen = alternating.iter().fold(Operations::default(), phase);
        let all: f64 = alternating.iter().map(|met| met.length() * met.phases as f64).sum();
        let outlook = Outlook { seen, expected: self.phase.sum() + all, is_passing: false };
        (alternating.len() > 1).then_some(outlook)
    }

    /// Notes a search.
    pub fn searched(&mut self, data: f64) {
        self.searched = Some(Searched { phase: self.phases, operations: self.phase.sum(), data });
    }
}

/// What a workload is expected to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Operations of the mix.
    pub seen: Operations,
    /// Operations of the mix that are expected to come.
    pub expected: f64,
    /// True if another mix is expected to come back after them.
    pub is_passing: bool,
}

impl Outlook {
    /// Seconds that a change is expected to save, without those that it takes; negative if it does
    /// not pay. `back_seconds` is what the way back takes, which counts only if the mix passes.
    pub fn net_seconds(&self, op_seconds_saved: f64, change_seconds: f64, back_seconds: f64) -> f64 {
        let back = if self.is_passing { back_seconds } else { 0.0 };
        op_seconds_saved * self.expected - change_seconds - back
    }
}

/// The tree as it is.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The filters.
    pub filter: FilterChoice,
    /// Bytes of a data block of new tables, at least 1.
    pub block_bytes: u64,
    /// The shape.
    pub shape: &'a Shape,
    /// The runs.
    pub occupancy: &'a Occupancy,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The operations of the phase so far, or of the mixes that alternate.
    pub operations: f64,
    /// Operations that are expected to come: see [`Outlook`].
    pub expected: f64,
    /// Their mix.
    pub workload: Workload,
    /// The present design.
    pub before: PricedDesign,
    /// The best design, its costs included; equal to `before` if no other was found.
    pub after: PricedDesign,
    /// Seconds that the change takes.
    pub change_seconds: f64,
    /// Seconds that the way back takes, which counts if the mix is expected to pass; else 0.
    pub back_seconds: f64,
    /// True if it pays.
    pub is_change: bool,
}

impl Decision {
    /// Seconds that all operations to come are predicted to save, without those of the change.
    pub fn gain_seconds(&self) -> f64 {
        (self.before.seconds_per_op - self.after.seconds_per_op) * self.expected
    }
}

/// Searches for a design, and decides whether it pays to change to it. The request's workload is
/// replaced by that of the monitor's phase; or, if a change would save time but not pay in this
/// phase, by that of the mixes that alternate. `None` if `goes_on` returned false, or there were no
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
    in_phase_or_alternation(monitor, |outlook| decide_for(outlook, request, present, goes_on))
}

/// What was judged in one outlook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement<D> {
    /// What was decided.
    pub decision: D,
    /// True if it is a change, which pays.
    pub is_change: bool,
    /// True if some change saves at least [`GAIN_MIN`] of the time of an operation, whether it pays
    /// or not.
    pub saves: bool,
}

/// Decides in the outlook for the present phase; or, if a change would save time there but not pay,
/// and does pay in the outlook for the mixes that alternate, in that one. The rule of [`decide`],
/// for anything that judges an outlook.
///
/// `judge` returns `None` if it was told to end, and so does this.
///
/// # Errors
/// Those of `judge` for the present phase.
pub fn in_phase_or_alternation<D, E>(
    monitor: &Monitor,
    judge: impl Fn(&Outlook) -> Option<Result<Judgement<D>, E>>,
) -> Option<Result<D, E>> {
    let in_phase = match judge(&monitor.outlook())? {
        Ok(judgement) => judgement,
        Err(error) => return Some(Err(error)),
    };
    if !in_phase.is_change
        && in_phase.saves
        && let Some(outlook) = monitor.outlook_of_alternation()
        && let Ok(of_all) = judge(&outlook)?
        && of_all.is_change
    {
        return Some(Ok(of_all.decision));
    }
    Some(Ok(in_phase.decision))
}

/// The decision in one outlook.
fn decide_for(
    outlook: &Outlook,
    request: &Request,
    present: &Present<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Option<Result<Judgement<Decision>, Impossible>> {
    let workload = outlook.seen.workload()?;
    let request = &Request { workload, ..*request };
    if request.memtables(present.shape.buffer()) > request.limits.memtables_max {
        return Some(Err(Impossible::Memory { least: f64::INFINITY }));
    }
    let found = match union::find_beside(request, present.block_bytes, goes_on)? {
        Ok(found) => found,
        Err(impossible) => return Some(Err(impossible)),
    };
    let with_present_blocks = &Request { block_bytes: present.block_bytes, ..*request };
    let with = |filter| union::price(with_present_blocks, present.policy, present.shape.buffer(), filter);
    // Filters alone are the cheapest change.
    let (before, refiltered) = (with(present.filter), with(found.best.filter));
    let candidates = [found.best, refiltered].into_iter().chain(found.others);
    let saved = |design: &PricedDesign| 1.0 - design.seconds_per_op / before.seconds_per_op;
    let mut saves = false;
    let mut best: Option<PricedChange> = None;
    for design in candidates.filter(|design| design.split.cache >= 0.0) {
        if !goes_on() {
            return None;
        }
        saves |= saved(&design) >= GAIN_MIN;
        let change_seconds = change_seconds(request, &before, &design, present);
        let back_seconds = if outlook.is_passing { way_back_seconds(request, &before, &design, present) } else { 0.0 };
        let saved_per_op = before.seconds_per_op - design.seconds_per_op;
        let net_seconds = outlook.net_seconds(saved_per_op, change_seconds, back_seconds);
        if best.as_ref().is_none_or(|best| net_seconds >= best.net_seconds) {
            best = Some(PricedChange { design, change_seconds, back_seconds, net_seconds });
        }
    }
    let PricedChange { design: after, change_seconds, back_seconds, net_seconds } = best?;
    let is_change = net_seconds > 0.0 && saved(&after) >= GAIN_MIN;
    let (operations, expected) = (outlook.seen.sum(), outlook.expected);
    let decision = Decision { operations, expected, workload, before, after, change_seconds, back_seconds, is_change };
    Some(Ok(Judgement { decision, is_change, saves }))
}

/// A design, with what a change to it takes and saves.
struct PricedChange {
    design: PricedDesign,
    change_seconds: f64,
    back_seconds: f64,
    net_seconds: f64,
}

/// Seconds of the change from `after` back to `before`, when the tree has taken the form of
/// `after`.
fn way_back_seconds(request: &Request, before: &PricedDesign, after: &PricedDesign, present: &Present<'_>) -> f64 {
    let tree = loaded(&after.policy, after.buffer, present.occupancy.bytes());
    let (shape, occupancy) = (tree.shape(), tree.occupancy());
    let PricedDesign { policy, filter, block_bytes, .. } = after;
    let changed = Present { policy, filter: *filter, block_bytes: *block_bytes, shape, occupancy };
    change_seconds(request, after, before, &changed)
}

/// Seconds of a change from one design to another.
fn change_seconds(request: &Request, before: &PricedDesign, after: &PricedDesign, present: &Present<'_>) -> f64 {
    let data = present.occupancy.bytes();
    let reshaped = if after.block_bytes != before.block_bytes {
        data
    } else if after.policy == before.policy && after.buffer == before.buffer {
        Bytes::ZERO
    } else {
        let shape = after.policy.shape(data, after.buffer);
        let (from, to) = ((present.policy as _, present.shape), (&after.policy as _, &shape));
        let bound = request.bounds.space_amplification.and_then(SpaceBound::new);
        simulate::change(from, to, present.occupancy, bound, |_| Vec::new()).reshaped
    };
    let copied = request.device.copy_seconds(reshaped, request.entry_bytes as f64);
    let refiltered = if after.filter == before.filter {
        0.0
    } else {
        let entries = data.as_f64() / request.entry_bytes as f64;
        entries * (DIGEST_BYTES / request.device.read_bytes_per_second + request.device.probe_seconds.chucky)
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
