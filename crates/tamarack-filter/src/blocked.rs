//! Cache-line-blocked Bloom filter: each key sets k bits of one cache line (Putze, Sanders and
//! Singler, *Cache-, Hash- and Space-Efficient Bloom Filters*).
//!
//! ```text
//! line    = digest · lines / 2⁶⁴, rounded down         from the high bits
//! probe i = nine bits of f_j, from the top: bits 63..55, 54..46, …
//! f_j     = high half xor low half of digest · c_j      j = 1 for the first seven probes, 2 after
//! c_1     = 2⁶⁴/φ      c_2 = 2⁶⁴·(√2 - 1)                both made odd
//! ```
//!
//! All keys of a line share the high bits of the digest; the folded products depend on the other
//! bits. The probes of a key are drawn with replacement, which the model of the [false positive
//! rate](tamarack_model::filter) accounts for.
//!
//! A lookup reads one cache line and tests the first three bits without a branch, then the others.
//! There is one branch to predict, at which seven in eight absent keys end. A probe takes about ten
//! instructions, independent of the others.

use crate::digest::{Digest, FIRST, SECOND};
use crate::lines::Line;

/// Probes per product of 64 bits.
const PROBES_PER_PRODUCT: u32 = 7;

/// Probes that are tested first. Testing all at once took half as many instructions again for
/// absent keys at 10 bits per entry. One absent key in eight needs the others.
const PROBES_FIRST: u32 = 3;

pub(crate) fn insert(lines: &mut [Line], probes: u32, digest: Digest) {
    let at = digest.below(lines.len() as u64) as usize;
    let line = &mut lines[at];
    for_each_probe(probes, digest, |word, bit| line.0[word] |= 1 << bit);
}

/// The line of a key.
#[inline]
pub(crate) fn line(lines: &[Line], digest: Digest) -> &Line {
    &lines[digest.below(lines.len() as u64) as usize]
}

#[inline]
pub(crate) fn may_contain(lines: &[Line], probes: u32, digest: Digest) -> bool {
    let line = line(lines, digest);
    let mut bits = digest.folded(FIRST);
    let look = |bits: &mut u64, probes: u32| {
        let mut all = 1;
        for _ in 0..probes {
            all &= line.0[(*bits >> 61) as usize] >> (*bits >> 55 & 63);
            *bits <<= 9;
        }
        all & 1 == 1
    };
    if probes < PROBES_FIRST {
        return look(&mut bits, probes);
    }
    // A number that the compiler knows: no loop.
    if !look(&mut bits, PROBES_FIRST) {
        return false;
    }
    let passed = look(&mut bits, probes.min(PROBES_PER_PRODUCT) - PROBES_FIRST);
    if probes <= PROBES_PER_PRODUCT {
        return passed;
    }
    let mut bits = digest.folded(SECOND);
    passed & look(&mut bits, probes - PROBES_PER_PRODUCT)
}

/// Calls `visit` with the word in the line, below 8, and the bit in the word of each probe.
#[inline]
fn for_each_probe(probes: u32, digest: Digest, mut visit: impl FnMut(usize, u32)) {
    let mut draw = |mut bits: u64, probes: u32| {
        for _ in 0..probes {
            visit((bits >> 61) as usize, (bits >> 55) as u32 & 63);
            bits <<= 9;
        }
    };
    draw(digest.folded(FIRST), probes.min(PROBES_PER_PRODUCT));
    if probes > PROBES_PER_PRODUCT {
        draw(digest.folded(SECOND), probes - PROBES_PER_PRODUCT);
    }
}
