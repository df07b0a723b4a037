//! The elastic filter: several small filters over the same keys, its units, of which as many are in
//! memory as the table is worth (Li, Tian, Guo, Li and Xu, *ElasticBF: Elastic Bloom Filter with
//! Hotness Awareness for Boosting Read Performance in Large Key-Value Stores*).
//!
//! ```text
//! unit u is a blocked filter of    digest · T^u  modulo 2⁶⁴         u = 0, 1, 2 …      T = 0xD1342543DE82EF95
//! ```
//!
//! Units are asked in order until one says no, so a lookup turns its digest by one multiplication
//! from each unit to the next, and hashes nothing. In memory are always the first units: all have
//! one size, and so none is worth more than another.
//!
//! **Units err independently** although they share the digest, since the places of one say nothing
//! of the places in the next. They are taken from the high bits of `d, d·T, d·T² …`, a congruential
//! generator's sequence, and `T` is a multiplier for which such sequences fill their space as
//! evenly as can be (Steele and Vigna, *Computationally Easy, Spectrally Good Multipliers for
//! Congruential Pseudorandom Number Generators*). Being odd it loses no digest. If the low bits of
//! all digests are zero, those of all turned ones are.
//!
//! **Why blocked, and so small.** An absent key takes `1/(1 - p)` lines, 1.4 with the two probes
//! that a unit of some 3 bits per entry makes, and a present one takes one line for each
//! unit. A standard filter as a unit would take a line for each probe, for what is at so few bits
//! hardly any gain; the units' size is discussed at [`units`](tamarack_model::filter::units).

use std::sync::Arc;

use tamarack_model::filter::{self, LINE_BITS};

use crate::blocked;
use crate::digest::Digest;
use crate::lines::Line;

/// Turns the digest of one unit into that of the next.
const TURN: u64 = 0xD134_2543_DE82_EF95;

/// What a unit takes in memory beside its lines: two counters on a line of their own, and the
/// pointer to them.
pub const UNIT_BYTES: usize = size_of::<Line>() + size_of::<Arc<[Line]>>();

/// How many lines each unit has, and how many units there are, of so many lines in all: not more
/// than these, and so fewer units for few lines.
pub(crate) fn split(lines: usize, entries: u64) -> (usize, usize) {
    let units = filter::units((lines as u64 * LINE_BITS) as f64 / entries.max(1) as f64) as usize;
    let units = units.min(lines);
    (lines / units, units)
}

pub(crate) fn build(units: usize, lines: usize, probes: u32, digests: &[Digest]) -> Box<[Arc<[Line]>]> {
    let unit = |number| {
        let mut unit: Arc<[Line]> = std::iter::repeat_n(Line::default(), lines).collect();
        let lines = Arc::get_mut(&mut unit).expect("nobody else has it yet");
        let turn = TURN.wrapping_pow(number as u32);
        digests.iter().for_each(|digest| blocked::insert(lines, probes, digest.turned(turn)));
        unit
    };
    (0..units).map(unit).collect()
}

/// Apart from the lookups of other kinds, which would otherwise save the registers that this one
/// takes.
#[inline(never)]
pub(crate) fn may_contain(units: &[Arc<[Line]>], probes: u32, digest: Digest) -> bool {
    let mut digest = digest;
    for lines in units {
        if !blocked::may_contain(lines, probes, digest) {
            return false;
        }
        digest = digest.turned(TURN);
    }
    true
}

/// How many lines a lookup reads: one in each unit that is asked.
pub(crate) fn lines_touched(units: &[Arc<[Line]>], probes: u32, digest: Digest) -> u32 {
    let mut digest = digest;
    let mut read = 0;
    for lines in units {
        read += 1;
        if !blocked::may_contain(lines, probes, digest) {
            break;
        }
        digest = digest.turned(TURN);
    }
    read
}
