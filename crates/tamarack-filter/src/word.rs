//! A filter of 64-bit words, each key in one of them: the smallest Bloom filter that can be added
//! to while it is read, since a key is added by one atomic instruction.
//!
//! Here is only where a key belongs; the words are memory of whoever shares them between threads.
//! Four bits of the word are those of the key (some of them may be the same). The word follows from
//! the high bits of the digest, the bits from its low ones, so that in filters of up to 2⁴⁰ words
//! they do not depend on each other.

use crate::digest::Digest;

/// Bits of a word that are set for a key.
const PROBES: u32 = 4;

/// The place of a key in a filter of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPlace {
    /// The number of the word.
    pub word: usize,
    /// The bits of the word that are set if the key was added.
    pub mask: u64,
}

impl WordPlace {
    /// The place in a filter of so many words, at least 1.
    #[inline]
    pub fn of(digest: Digest, words: usize) -> Self {
        let word = digest.below(words as u64) as usize;
        let mask = (0..PROBES).fold(0, |mask, probe| mask | 1 << (digest.stored() >> (6 * probe) & 63));
        Self { word, mask }
    }

    /// Returns true if a word has all bits of the key.
    #[inline]
    pub fn is_in(self, word: u64) -> bool {
        word & self.mask == self.mask
    }

    /// The false positive rate of a filter with so many bits per key: keys fall into words by
    /// Poisson's law, and each sets four random bits of its word.
    pub fn false_positive_rate(bits_per_key: f64) -> f64 {
        let bits = f64::from(u64::BITS);
        let mean = bits / bits_per_key;
        let mut share = (-mean).exp();
        let mut rate = 0.0;
        for keys in 0..=(4.0 * mean + 64.0) as u32 {
            let is_set = 1.0 - (1.0 - 1.0 / bits).powf(f64::from(PROBES * keys));
            rate += share * is_set.powi(PROBES as i32);
            share *= mean / f64::from(keys + 1);
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that was added is denied, and the false positive rate is as predicted.
    #[test]
    fn answers() {
        const KEYS: u64 = 20_000;
        for bits_per_key in [6, 9, 16, 20] {
            let mut words = vec![0; KEYS as usize * bits_per_key / 64];
            let place = |key: u64, words: &[u64]| WordPlace::of(Digest::of(&key.to_be_bytes()), words.len());
            for key in 0..KEYS {
                let place = place(key, &words);
                words[place.word] |= place.mask;
            }
            let has = |key| {
                let place = place(key, &words);
                place.is_in(words[place.word])
            };
            assert!((0..KEYS).all(has), "{bits_per_key} bits");
            let found = (KEYS..20 * KEYS).filter(|key| has(*key)).count() as f64 / (19 * KEYS) as f64;
            let predicted = WordPlace::false_positive_rate(bits_per_key as f64);
            assert!((found / predicted - 1.0).abs() < 0.1, "{bits_per_key} bits: {found} of {predicted}");
        }
    }
}
