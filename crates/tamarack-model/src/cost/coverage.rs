//! Coverage: how many runs a lookup meets, if runs cover only a part of the keys; and the bytes
//! that it costs. For whole-level compaction, as the engine has it, and for compaction by key
//! ranges, as RocksDB has it. No paper's model has it.
//!
//! The **coverage** of a run is the probability that a table of it has a range that contains a key
//! drawn at random; here every key is equally likely. Expectations add up, so a lookup that finds
//! nothing **meets** as many runs as their coverages sum up to, and so does the seek of a scan.
//! There are two reasons for gaps:
//!
//! ```text
//! a compaction in progress        inputs  ░░░░░░▬▬▬▬▬▬▬    handed over up to here: the output
//! from left to right              output  ▬▬▬▬▬▬░░░░░░░    has what the inputs have lost
//!
//! ranges passed on                level i ▬▬▬▬▬░░▬▬▬▬▬▬    nothing has arrived there since
//! ```
//!
//! # The cycle of a level at one key
//!
//! Keys are written evenly, and the last level has a constant size: what arrives there are new
//! versions. Look at one key: batches of one density `d` (bytes, over the whole key space) arrive
//! at level i at equal intervals, and after `k` of them the level is emptied at this key. Let `g`
//! be the time from that moment to the next arrival, in intervals. Then, with nothing else
//! assumed:
//!
//! ```text
//! coverage   1 - g/k                     it is empty at this key for g of k intervals
//! density    d ((k + 1)/2 - g)           j d for one interval each, 0 for g, k d for 1 - g
//! written    (k + 1)/2 - 1/k             1 + 2 + … + k for k; the first finds nothing to be merged
//!                                        with, and is moved
//! passed on  k d                         the density of what arrives at level i+1
//! ```
//!
//! What tells the orders apart is g; k follows from the density, which is the capacity `C_i`:
//!
//! | order | g | arrivals k | of level 1, where whole batches arrive |
//! |---|---|---|---|
//! | whole level | 1 | `b_i`, of which the last is not written | the same |
//! | round robin | ½ | `2 C_i/d` | `2 C_1/F + 1` |
//! | densest first | 1 | `2 C_i/d + 1` | `2 C_1/F + 1`, with g = ½ |
//!
//! * **Round robin**: the range that level i passes on has nothing to do with the one that arrives,
//!   so g is anything from 0 to 1. That fails for a level smaller than one batch of what arrives,
//!   `C_i < d`: it is over its capacity before any key has a second arrival, so its cursor follows
//!   the one above at the same speed. Then k = 1: everything is moved, and coverage is `C_i/d`.
//! * **Densest first**: an arrival makes a range the densest, and it is passed on at once.
//! * **Least overlap** with the next level, and **oldest first**, have no closed form. The last
//!   level overlaps equally everywhere, so least overlap is densest first in the level before;
//!   further up, a range is wider than the gaps below it. What was emptied first is the oldest, so
//!   oldest first is round robin where ages are exact. Simulated, the first writes like densest
//!   first, the second like round robin, within 8 %, and both meet a number of runs in between.
//! * **Level 1** passes on evenly, until the next batch comes, what the last one has brought. It
//!   has `C_1` before a batch and `C_1 + F` after it, `C_1 + F/2` in the mean, and every g occurs.
//!   A batch covers everything, so nothing is moved: `(k + 1)/2` are written.
//! * **The last level** rewrites its size N for `k d` that arrive: `N/(k d)`.
//! * **If k is not whole**, keys have ⌊k⌋ or ⌈k⌉ arrivals in a cycle, and the formulas are means
//!   over both: of cycles of equal length with any g, and of cycles of whole length with g = 1.
//!
//! # Whole levels, and compactions that take time
//!
//! A level is emptied by the batch that fills it (g = 1) and which passes by: `b_i - 1` batches are
//! written, spread over its slots ([`update`]). A compaction into level i begins with a batch, and
//! takes a part `u_i` of the time until the next one. Until then it hands over its inputs in the
//! order of the keys at a constant rate, so a key has been handed over for half of that time: the
//! inputs count `u/2`, and the output `1 - u/2`. The batch has `q_i = 1 + Σ_{l<i} v_l` runs, all
//! that the levels above have when they are full, and the flush. For level 1 it is a memtable, `q_1
//! = 0`.
//!
//! ```text
//! met in level i < L   (b-1)/b ((v+1)/2 + u q/2) - u v/(2b)      v = v_i, b = b_i, q = q_i
//! met in level L       1 + u q/2
//! ```
//!
//! *Proof.* Level i is in state j after j batches, for `1/b` of the time each. State 0 has no run.
//! In states 1 to b-1 there are (v+1)/2 runs in the mean at rest, as b-1 batches are spread evenly
//! over v. During a compaction there are u/2 times as many more as there are inputs beyond one: q
//! of the batch, and the joined run in all states but the v that open a run; `q - 1` in v states,
//! and q in b-1-v. The last level is never in state 0, and always joins. ∎
//!
//! With the engine's order of work, earliest deadline first, small levels go first: the compaction
//! into level i gets what those above leave ([`busy`]). If writers are throttled by compactions,
//! the load is 1, and the last level's takes all of its time, `u_L = 1`.
//!
//! Tests: `tests/suite/coverage.rs` compares with trees of keys.

use super::update;
use crate::allocate::{self, Load};
use crate::shape::Shape;
use crate::units::Entries;

/// An order in which levels pass on ranges of keys, of those that have a closed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One range after the other through the key space.
    RoundRobin,
    /// The densest first.
    Densest,
}

/// What a lookup may meet: a run in one of the states of its cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// The probability that a lookup meets it, over keys and time.
    pub share: f64,
    /// Bytes that it would have if it covered all keys.
    pub density: f64,
}

/// One level in the mean over time.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelMet {
    /// What a lookup may meet in it.
    pub pieces: Vec<Piece>,
    /// Bytes written in it for each byte that passes through it.
    pub written: f64,
}

impl Piece {
    fn part(self, of: f64) -> Self {
        Self { share: self.share * of, ..self }
    }
}

impl LevelMet {
    /// The mean number of its runs that cover a key.
    pub fn coverage(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.share).sum()
    }
}

/// The mean number of runs that a lookup meets which finds nothing.
pub fn met(levels: &[LevelMet]) -> f64 {
    levels.iter().map(LevelMet::coverage).sum()
}

/// Bytes written for each byte that passes through all levels.
pub fn written(levels: &[LevelMet]) -> f64 {
    levels.iter().map(|level| level.written).sum()
}

/// False positives of a lookup that finds nothing, with ideal filters of so many bits per byte of
/// the pieces (per entry, if densities are in entries), allocated optimally.
pub fn false_positives(levels: &[LevelMet], bits: f64) -> f64 {
    let pieces = || levels.iter().flat_map(|level| &level.pieces).filter(|piece| piece.share > 0.0);
    // Loads have whole numbers of entries.
    let smallest = pieces().map(|piece| piece.share * piece.density).fold(f64::INFINITY, f64::min);
    let load = |piece: &Piece| Load {
        entries: Entries((piece.share * piece.density / smallest * 1000.0).round() as u64),
        weight: piece.share,
    };
    let loads: Vec<Load> = pieces().map(load).collect();
    let entries: f64 = loads.iter().map(|load| load.entries.0 as f64).sum();
    let allocated = allocate::ideal(&loads, bits * entries);
    allocate::false_positives(&loads, allocated.into_iter().map(allocate::ideal_rate))
}

/// Whole-level compaction of a tree of this shape, whose last level is full and gets updates; the
/// compaction into level i takes the part `busy[i - 1]` of the time until the next one: 0 in a tree
/// that is at rest whenever a lookup comes, at most 1.
pub fn whole_levels(shape: &Shape, busy: &[f64]) -> Vec<LevelMet> {
    let last = shape.last();
    assert_eq!(busy.len(), last, "a time for each level");
    // The runs of a batch, by their bytes.
    let mut batch: Vec<f64> = Vec::new();
    let mut levels = Vec::new();
    for (level, busy) in (1..last).zip(busy) {
        let (bytes, batches) = (shape.actual_batch(level), shape.batches(level));
        let state = 1.0 / batches as f64;
        let mut pieces = Vec::new();
        let mut full = Vec::new();
        let mut later = batches - 1;
        for count in spread(shape, level) {
            for arrived in 0..count {
                let [joined, output] = [arrived, arrived + 1].map(|count| count as f64 * bytes);
                pieces.extend(compaction(&batch, joined, output, *busy).map(|piece| piece.part(state)));
            }
            later -= count;
            let density = count as f64 * bytes;
            pieces.push(Piece { share: later as f64 * state, density });
            full.push(density);
        }
        // The flush that fills level 1 is a run of its own.
        full.extend((level == 1).then_some(bytes));
        batch.extend(full);
        levels.push(LevelMet { pieces, written: update::writes_per_entry(shape, level) });
    }
    let size = shape.level(last).capacity.as_f64();
    let pieces = compaction(&batch, size, size, busy[last - 1]).collect();
    levels.push(LevelMet { pieces, written: size / shape.actual_batch(last) });
    levels
}

/// Batches of each run of a level, old to young, when all are there but the one that makes it full:
/// spread over the slots as [the planner](crate::planner) does it. A run is full once it has more
/// than its equal part of what older runs leave of all batches but ¾, less half a batch.
fn spread(shape: &Shape, level: usize) -> impl Iterator<Item = u64> {
    let (slots, batches) = (u64::from(shape.level(level).runs), shape.batches(level));
    let mut left = batches - 1;
    (0..slots).map_while(move |older| {
        let part = (left as f64 + 0.25) / (slots - older) as f64 - 0.5;
        let count = (part.floor() as u64 + 1).min(left);
        left -= count;
        (count > 0).then_some(count)
    })
}

/// What there is to be met of a compaction of a batch and a run of its target level, if any, until
/// the next one begins.
fn compaction(batch: &[f64], joined: f64, output: f64, busy: f64) -> impl Iterator<Item = Piece> {
    let inputs = batch.iter().copied().chain([joined]).filter(|density| *density > 0.0);
    let inputs = inputs.map(move |density| Piece { share: busy / 2.0, density });
    inputs.chain([Piece { share: 1.0 - busy / 2.0, density: output }])
}

/// The part of its time that the compaction into each level takes, level 1 first, if the device is
/// busy for `load` of the time (0 to 1) and works on the smallest level first: `u_i = U_i / (1 -
/// Σ_{l<i} U_l)`, where `U_i` is the part of all bytes that are written in level i, times the load.
pub fn busy(written: &[f64], load: f64) -> Vec<f64> {
    let all: f64 = written.iter().sum();
    let mut left = 1.0;
    let part = |written: &f64| {
        let used = load * written / all;
        let part: f64 = (used / left).min(1.0);
        left -= used;
        part
    };
    written.iter().map(part).collect()
}

/// Compaction by key ranges: levels of these capacities, which pass on ranges in this order, above
/// a last level of constant size. Batches of `batch` bytes arrive and cover all keys.
pub fn by_ranges(order: Order, batch: f64, capacities: &[f64], last: f64) -> Vec<LevelMet> {
    let mut density = batch;
    let mut levels = Vec::new();
    for (index, capacity) in capacities.iter().enumerate() {
        let ratio = capacity / density;
        let cycle = match order {
            _ if index == 0 => Cycle::any_gap(2.0 * ratio + 1.0).without_moves(),
            Order::RoundRobin if ratio < 1.0 => Cycle::passed_along(ratio),
            Order::RoundRobin => Cycle::any_gap(2.0 * ratio),
            Order::Densest => Cycle::full_gap(2.0 * ratio + 1.0),
        };
        let pieces = cycle.states.iter().map(|(count, share)| Piece { share: *share, density: count * density });
        levels.push(LevelMet { pieces: pieces.collect(), written: cycle.written });
        density *= cycle.arrivals;
    }
    levels.push(LevelMet { pieces: vec![Piece { share: 1.0, density: last }], written: last / density });
    levels
}

/// A tiered level of this capacity above a last level of constant size, to which it passes on
/// ranges of all its runs together, round robin. Batches arrive at it as runs of their own. As
/// level 1 of [`by_ranges`], it has half a batch more than its capacity in the mean, which makes
/// `C/d + ½` runs.
pub fn stacked_by_ranges(batch: f64, capacity: f64, last: f64) -> [LevelMet; 2] {
    let runs = Piece { share: capacity / batch + 0.5, density: batch };
    let passed_on = 2.0 * capacity + batch;
    [
        LevelMet { pieces: vec![runs], written: 1.0 },
        LevelMet { pieces: vec![Piece { share: 1.0, density: last }], written: last / passed_on },
    ]
}

/// The cycle of a level at one key, from one moment at which it is emptied there to the next.
struct Cycle {
    /// The mean number of arrivals.
    arrivals: f64,
    /// Numbers of arrivals since the level was emptied, and the part of the time with so many; the
    /// rest of the time it is empty.
    states: Vec<(f64, f64)>,
    /// Written for each byte that arrives, if the first of each cycle is moved.
    written: f64,
}

impl Cycle {
    /// A cycle of k intervals, k at least 1, and a first arrival after any part of the first one:
    /// m = ⌊k⌋ arrivals, and one more with probability f = k - m.
    fn any_gap(k: f64) -> Self {
        let (m, f) = (k.floor(), k.fract());
        let whole = (1..m as u64).map(|count| (count as f64, 1.0 / k));
        let states = whole.chain([(m, (1.0 - (1.0 - f).powi(2) / 2.0) / k), (m + 1.0, f * f / 2.0 / k)]);
        Self { arrivals: k, states: states.collect(), written: (triangle(k) - 1.0) / k }
    }

    /// Cycles that begin and end with an arrival: m or m + 1 of them, the latter for a part f of
    /// the time.
    fn full_gap(k: f64) -> Self {
        let (m, f) = (k.floor(), k.fract());
        let each = (1.0 - f) / m + f / (m + 1.0);
        let states = (1..m as u64).map(|count| (count as f64, each)).chain([(m, f / (m + 1.0))]);
        let written = |count: f64| (triangle(count) - 1.0) / count;
        let states = states.collect();
        Self { arrivals: k, states, written: (1.0 - f) * written(m) + f * written(m + 1.0) }
    }

    /// The same, with the first arrival written like all others.
    fn without_moves(self) -> Self {
        Self { written: self.written + 1.0 / self.arrivals, ..self }
    }

    /// A cycle of one arrival, which stays for a part of the time.
    fn passed_along(part: f64) -> Self {
        Self { arrivals: 1.0, states: vec![(1.0, part)], written: 0.0 }
    }
}

/// `1 + 2 + … + k`; between whole numbers, straight from one to the next.
fn triangle(k: f64) -> f64 {
    let (m, f) = (k.floor(), k.fract());
    m * (m + 1.0) / 2.0 + f * (m + 1.0)
}
