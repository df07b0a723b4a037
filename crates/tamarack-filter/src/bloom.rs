//! Standard Bloom filter: each key sets k bits anywhere.
//!
//! The positions come from one digest by enhanced double hashing (Dillinger and Manolios, *Bloom
//! Filters in Probabilistic Verification*): a start, a step, and a growing increment of the step.
//! Without the increment two keys would share all positions if one visits those of the other
//! backwards, and many of them if a step is tiny.
//!
//! ```text
//! x_0 = digest      y_0 = high half xor low half of digest · 2⁶⁴/φ      c = 2⁶⁴·(√3 - 1)
//! x_(i+1) = x_i + y_i      y_(i+1) = y_i + i·c                  modulo 2⁶⁴
//! position i = x_i · bits / 2⁶⁴, rounded down
//! ```
//!
//! Positions are fractions of the filter's size, which need not be a power of two; there is no
//! division. Bit `i` of the filter is bit `i % 64` of word `i / 64`.
//!
//! A lookup ends at the first bit that is not set. With the optimal number of probes half of all
//! bits are set, so that a lookup of an absent key reads two cache lines on average, one of an
//! existing key k. In return, this kind has the fewest false positives per bit.

use crate::digest::{Digest, FIRST, below};
use crate::lines::LINE_WORDS;

/// 2⁶⁴ times the fraction of √3, which is odd.
const BEND: u64 = 0xBB67_AE85_84CA_A73B;

pub(crate) fn insert(words: &mut [u64], probes: u32, digest: Digest) {
    let mut places = Places::new(words.len(), digest);
    for _ in 0..probes {
        let (word, bit) = places.next();
        words[word] |= 1 << bit;
    }
}

pub(crate) fn may_contain(words: &[u64], probes: u32, digest: Digest) -> bool {
    let mut places = Places::new(words.len(), digest);
    let mut left = probes;
    while left > 0 {
        let (word, bit) = places.next();
        if words[word] >> bit & 1 == 0 {
            break;
        }
        left -= 1;
    }
    left == 0
}

/// The word that a lookup reads first.
#[inline]
pub(crate) fn first_read(words: &[u64], digest: Digest) -> *const u64 {
    &raw const words[Places::new(words.len(), digest).next().0]
}

/// Number of distinct cache lines that a lookup reads.
pub(crate) fn lines_touched(words: &[u64], probes: u32, digest: Digest) -> u32 {
    let mut places = Places::new(words.len(), digest);
    let mut read = Vec::new();
    for _ in 0..probes {
        let (word, bit) = places.next();
        if !read.contains(&(word / LINE_WORDS)) {
            read.push(word / LINE_WORDS);
        }
        if words[word] >> bit & 1 == 0 {
            break;
        }
    }
    read.len() as u32
}

/// The positions of a key's bits.
struct Places {
    bits: u64,
    at: u64,
    step: u64,
    bend: u64,
}

impl Places {
    #[inline(always)]
    fn new(words: usize, digest: Digest) -> Self {
        Self { bits: words as u64 * 64, at: digest.stored(), step: digest.folded(FIRST), bend: 0 }
    }

    /// The word, and the bit in it, of the next probe.
    #[inline(always)]
    fn next(&mut self) -> (usize, u32) {
        let position = below(self.at, self.bits);
        self.at = self.at.wrapping_add(self.step);
        self.step = self.step.wrapping_add(self.bend);
        self.bend = self.bend.wrapping_add(BEND);
        ((position / 64) as usize, (position % 64) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recurrences at the top of this page, in closed form: the positions are part of the
    /// format, to the last of the 64 bits that they are fractions of.
    #[test]
    fn positions_follow_their_formula() {
        for number in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF] {
            let digest = Digest::from_stored(number);
            let mut places = Places::new(LINE_WORDS, digest);
            for probe in 0..32_u64 {
                let bent = if probe < 3 { 0 } else { probe * (probe - 1) * (probe - 2) / 6 };
                let stepped = probe.wrapping_mul(digest.folded(FIRST));
                let expected = number.wrapping_add(stepped).wrapping_add(bent.wrapping_mul(BEND));
                assert_eq!(places.at, expected, "probe {probe} of {number:#x}");
                let position = below(expected, 512);
                assert_eq!(places.next(), ((position / 64) as usize, (position % 64) as u32));
            }
        }
    }
}
