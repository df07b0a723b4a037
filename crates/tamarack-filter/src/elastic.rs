//! Elastic Bloom filter: several small filters (units) over the same keys, of which frequently
//! searched tables keep more in memory (Li, Tian, Guo, Li and Xu, *ElasticBF: Elastic Bloom Filter
//! with Hotness Awareness for Boosting Read Performance in Large Key-Value Stores*).
//!
//! ```text
//! unit u is a blocked filter of    digest · T^u  modulo 2⁶⁴  u = 0, 1, 2 …  T = 0xD1342543DE82EF95
//! ```
//!
//! A lookup probes the units in order until one is negative; it derives the digest of the next unit
//! by one multiplication, without hashing. The units in memory are always the first ones: all have
//! the same size, so that none is worth more than another.
//!
//! **False positives of units are independent** although they share the digest, because the
//! positions in one unit do not determine those in the next. They are taken from the high bits of
//! `d, d·T, d·T² …`, a congruential generator's sequence, and `T` is a multiplier with a good
//! spectral test (Steele and Vigna, *Computationally Easy, Spectrally Good Multipliers for
//! Congruential Pseudorandom Number Generators*). An odd multiplier loses no digest, and keeps low
//! zero bits zero.
//!
//! **Why blocked, and so small.** A lookup of an absent key reads `1/(1 - p)` cache lines, 1.4 with
//! the two probes of a unit of about 3 bits per entry; a lookup of an existing key reads one line
//! per unit. A standard filter as a unit would read a line per probe, for hardly any gain at so few
//! bits; the units' size is discussed at [`units`](tamarack_model::filter::units).

use std::sync::Arc;

use tamarack_model::filter::{self, LINE_BITS};

use crate::blocked;
use crate::digest::Digest;
use crate::lines::Line;

/// Multiplier from the digest of one unit to that of the next.
const TURN: u64 = 0xD134_2543_DE82_EF95;

/// Memory of a unit beside its lines: two counters on a cache line of their own, and the pointer to
/// them.
pub const UNIT_BYTES: usize = size_of::<Line>() + size_of::<Arc<[Line]>>();

/// Lines per unit and number of units for a total number of lines, which is not exceeded; few lines
/// make fewer units.
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

/// Not inlined: lookups of other kinds would otherwise save the registers that this one uses.
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

/// Cache lines that a lookup reads: one per probed unit.
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
