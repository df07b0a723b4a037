//! What is stored: keys and values of entries that have numbers.
//!
//! ```text
//! number of an entry, by age ── scatter ──► place among all keys ── key ──► 16 hexadecimal digits
//!
//! keys       place 0 ···              place 1 ···              place 2
//!            ├─ stored ─┼─ added later ─┼─ never ─┤├─ stored …
//!            0          ¼               ½        ¾          of the way to the next
//! ```
//!
//! Keys lie all over the 64-bit numbers, almost evenly. The entries of a load are below [`Data::entries`]; those from there on, which workloads add, and
//! those which are never stored lie between them. A place is its entry's number times a permutation without visible order, so a load in the order of
//! numbers comes in random order of keys, each once; a load in the order of places comes in ascending order.
//!
//! Values are pieces of noise that compresses to about a half, as `db_bench` has it.

use tamarack_env::Random;

/// How long keys are.
pub(crate) const KEY_BYTES: usize = 16;

/// The most entries, so that there is room between keys.
pub(crate) const ENTRIES_MAX: u64 = 1 << 40;

/// Noise is at least so long, more than a compressor looks back.
const NOISE_BYTES_MIN: usize = 1 << 20;

/// Noise repeats itself once within so many bytes; of shorter values, within each.
const PIECE_BYTES_MAX: usize = 100;

/// Keys and values.
pub(crate) struct Data {
    /// How many a load stores.
    pub(crate) entries: u64,
    /// How long values are.
    pub(crate) value_bytes: usize,
    /// From one place to the next.
    stride: u64,
    /// Pieces whose second half is the first; a value begins with one.
    noise: Vec<u8>,
    piece_bytes: usize,
}

impl Data {
    /// So many entries, 1 to [`ENTRIES_MAX`], with values of that size.
    pub(crate) fn new(entries: u64, value_bytes: usize) -> Self {
        assert!((1..=ENTRIES_MAX).contains(&entries), "{entries} entries");
        let random = Random::new(entries);
        let half = value_bytes.min(PIECE_BYTES_MAX).div_ceil(2).max(1);
        let mut noise = Vec::new();
        while noise.len() < NOISE_BYTES_MIN.max(2 * value_bytes) {
            noise.extend((0..half).map(|_| random.next() as u8));
            noise.extend_from_within(noise.len() - half..);
        }
        Self { entries, value_bytes, stride: u64::MAX / entries, noise, piece_bytes: 2 * half }
    }

    /// Key and value of an entry, in bytes.
    pub(crate) fn entry_bytes(&self) -> u64 {
        (KEY_BYTES + self.value_bytes) as u64
    }

    /// The key of the entry with this number.
    pub(crate) fn key(&self, number: u64) -> [u8; KEY_BYTES] {
        let place = self.place(number % self.entries);
        match number / self.entries {
            0 => self.key_at(place),
            _ => digits(place * self.stride + self.stride / 4 + mixed(number) % (self.stride / 8)),
        }
    }

    /// The key of the entry of a load that has this place in the order of keys.
    pub(crate) fn key_at(&self, place: u64) -> [u8; KEY_BYTES] {
        digits(place * self.stride + mixed(place) % (self.stride / 8))
    }

    /// A key that no entry has, between others; hardly ever the same twice.
    pub(crate) fn missing_key(&self, random: &Random) -> [u8; KEY_BYTES] {
        digits(random.below(self.entries) * self.stride + self.stride / 2 + random.below(self.stride / 4))
    }

    /// Some value.
    pub(crate) fn value(&self, random: &Random) -> &[u8] {
        let starts = (self.noise.len() - self.value_bytes) / self.piece_bytes + 1;
        let start = random.below(starts as u64) as usize * self.piece_bytes;
        &self.noise[start..start + self.value_bytes]
    }

    /// Where the entry of a load with this number stands among all.
    fn place(&self, number: u64) -> u64 {
        scatter(number, self.entries)
    }
}

/// The digits of a number, so that keys are ordered as numbers are.
fn digits(number: u64) -> [u8; KEY_BYTES] {
    std::array::from_fn(|i| b"0123456789abcdef"[(number >> (60 - 4 * i) & 15) as usize])
}

/// Other bits for each number.
fn mixed(number: u64) -> u64 {
    Random::new(number).next()
}

/// A permutation of the numbers below `bound`, without visible order.
pub(crate) fn scatter(number: u64, bound: u64) -> u64 {
    let bits = (u64::BITS - (bound - 1).leading_zeros()).max(1);
    let mask = u64::MAX >> (u64::BITS - bits);
    let mut scattered = number;
    // Permutes the numbers of so many bits, so from a number below the bound it comes to one again.
    loop {
        for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            // All of it can be undone: additions, odd factors, shifts by half of the bits.
            scattered = scattered.wrapping_add(factor).wrapping_mul(factor) & mask;
            scattered ^= scattered >> bits.div_ceil(2);
        }
        if scattered < bound {
            return scattered;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Each number comes once.
    #[test]
    fn scattering_is_a_permutation() {
        for bound in [1, 2, 3, 10, 1000, 1 << 12] {
            let scattered: BTreeSet<u64> = (0..bound).map(|number| scatter(number, bound)).collect();
            assert!(scattered.into_iter().eq(0..bound), "below {bound}");
        }
    }

    /// Loads in either order store the same keys, ascending in one; those added later are others, and missing ones are none of them.
    #[test]
    fn keys_differ() {
        for entries in [1, 7, 1000] {
            let data = Data::new(entries, 10);
            let ascending: Vec<_> = (0..entries).map(|place| data.key_at(place)).collect();
            assert!(ascending.is_sorted_by(|a, b| a < b));
            let mut keys: BTreeSet<_> = (0..entries).map(|number| data.key(number)).collect();
            assert!(keys.iter().eq(&ascending));
            keys.extend((entries..4 * entries).map(|number| data.key(number)));
            assert_eq!(keys.len() as u64, 4 * entries);
            let random = Random::new(entries);
            for _ in 0..1000 {
                let text = data.missing_key(&random);
                let number = u64::from_str_radix(str::from_utf8(&text).expect("digits"), 16).expect("digits");
                // Where no key is: chance alone would keep it from those that are there.
                let way = number % data.stride;
                assert!((data.stride / 2..data.stride / 4 * 3).contains(&way) && !keys.contains(&text));
            }
        }
        let most = Data::new(ENTRIES_MAX, 0);
        assert!(most.key_at(0) < most.key_at(1) && most.key_at(ENTRIES_MAX - 2) < most.key_at(ENTRIES_MAX - 1));
    }

    /// Values have their size, whatever that is, and the half of each says what the other half does.
    #[test]
    fn values_have_their_size() {
        for value_bytes in [0, 1, 20, 100, 1000, 3 << 20] {
            let data = Data::new(1, value_bytes);
            let value = data.value(&Random::new(1));
            assert_eq!(value.len(), value_bytes);
            for piece in value.chunks_exact(data.piece_bytes) {
                assert_eq!(piece[..piece.len() / 2], piece[piece.len() / 2..]);
            }
        }
    }
}
