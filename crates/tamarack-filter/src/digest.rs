//! The digest of a key: the one hash of an operation, 64 bits, shared by all filters.
//!
//! In: the key's bytes. Out: XXH3-64 with the seed `"tamarack"` read as a little-endian number, the
//! same on every machine and in every version: filters and digests are stored, so function and seed
//! are **part of the format**. XXH3 has a written specification and implementations in many
//! languages; the golden values below hold ours to it. The seed is not 0, because other programs
//! use XXH3-64 with seed 0: keys that were chosen by that hash, such as one shard of many, would
//! have digests that agree in some bits, and filters over them would waste memory. The seed is
//! public; an attacker can find keys that all pass a filter.
//!
//! **A digest is opaque.** Only [`Digest::of`] computes it from a key, and it offers no bytes to
//! hash again. It offers what filters need: a number below a bound, from its high bits, and further
//! bits that depend on all of it.
//!
//! **64 bits suffice.** No filter distinguishes two keys with the same digest, so that a filter
//! over n keys has at least n/2⁶⁴ false positives per lookup: 6·10⁻⁸ for 2⁴⁰ keys, where the best
//! standard filter with 20 bits per entry has 7·10⁻⁵. Choosing among the lines of one filter for
//! 2⁴⁰ keys takes 34 bits at 10 bits per entry, and 30 are left to tell the fifty keys of a line
//! apart. A cuckoo filter for 2⁴⁰ keys in buckets of four takes 38 bits for the bucket, and has 26
//! for fingerprints. Filters of tables need fewer: their false positive rate is as predicted even
//! if the low bits of all digests are zero (tested with 40 bits), as long as they are built and
//! probed with the same ones.
//!
//! Cost: for keys of up to 16 bytes about 25 instructions, all inlined; see the crate's page.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const SEED: u64 = u64::from_le_bytes(*b"tamarack");

/// The digest of a key. Compared and ordered as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest(u64);

impl Digest {
    /// The digest of `key`. Called once per operation, at the interface's edge.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        #[cfg(debug_assertions)]
        COMPUTED.set(COMPUTED.get() + 1);
        Self(xxh3_64_with_seed(key, SEED))
    }

    /// A digest that was stored as [`stored`](Self::stored) gave it.
    #[inline]
    pub const fn from_stored(number: u64) -> Self {
        Self(number)
    }

    /// The number to store, to build filters from later without reading keys.
    #[inline]
    pub const fn stored(self) -> u64 {
        self.0
    }

    /// The digest without the bits that `mask` lacks.
    #[inline]
    pub(crate) fn masked(self, mask: u64) -> Self {
        Self(self.0 & mask)
    }

    /// A number in `0..bound`, from the high bits of the digest; `bound` must not be 0. Digests in
    /// order have numbers in order.
    #[inline]
    pub(crate) fn below(self, bound: u64) -> u64 {
        below(self.0, bound)
    }

    /// Another digest of the same key, of which the high bits depend on all of this one's. `odd`
    /// loses none.
    #[inline]
    pub(crate) fn turned(self, odd: u64) -> Self {
        Self(self.0.wrapping_mul(odd))
    }

    /// Other 64 bits made of the digest, by a folded multiplication: the two halves of the product
    /// with a constant, one over the other. The high bits of a product modulo 2⁶⁴ depend on all
    /// bits of the digest, its low bits on the low bits only; for the high half it is the other way
    /// round.
    #[inline]
    pub(crate) fn folded(self, odd: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(odd);
        (product >> 64) as u64 ^ product as u64
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static COMPUTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Number of digests that this thread has computed from keys. Only with debug assertions, for tests
/// that show that an operation computes one digest.
#[cfg(debug_assertions)]
pub fn digests_computed() -> u64 {
    COMPUTED.get()
}

/// 2⁶⁴ divided by the golden ratio, made odd: the first constant for [`Digest::folded`].
pub(crate) const FIRST: u64 = 0x9E37_79B9_7F4A_7C15;

/// 2⁶⁴ times the fraction of √2, made odd: the second one.
pub(crate) const SECOND: u64 = 0x6A09_E667_F3BC_C909;

/// `number`, read as a fraction of 2⁶⁴, of `bound`: a multiplication where a remainder would be a
/// division.
#[inline]
pub(crate) fn below(number: u64, bound: u64) -> u64 {
    ((u128::from(number) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the format, for every path of XXH3 (length 0, 1–3, 4–8, 9–16, 17–128, 129–240,
    /// longer). They were checked against the reference implementation in C, and must never
    /// change.
    #[test]
    fn golden_values() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1024).collect();
        for (length, expected) in GOLDEN {
            let found = Digest::of(&bytes[..length]).stored();
            assert_eq!(found, expected, "the first {length} of the bytes 0, 1, 2 …: {found:#018X}");
        }
    }

    const GOLDEN: [(usize, u64); 9] = [
        (0, 0xB93C_FA5D_91E4_8367),
        (1, 0xA74A_DBDC_AF81_BECC),
        (3, 0x6EAC_0418_9930_4657),
        (8, 0x397E_989E_5505_D217),
        (16, 0xC209_CA0C_A546_ED02),
        (100, 0xB376_B3DD_0697_7B4C),
        (200, 0xDD25_582E_701C_1591),
        (241, 0x795E_852D_E1FC_2B2C),
        (1024, 0x6AAA_CC29_82E0_48C7),
    ];

    /// Numbers below a bound reach both ends, and keep the order of digests.
    #[test]
    fn numbers_below_a_bound() {
        assert_eq!(Digest(0).below(7), 0);
        assert_eq!(Digest(u64::MAX).below(7), 6);
        assert_eq!(Digest(u64::MAX).below(1), 0);
        assert_eq!(Digest(1 << 63).below(1 << 49), 1 << 48);
    }

    /// Each bit of a key that flips changes each bit of the digest in about half of all cases.
    #[test]
    fn all_bits_depend_on_all_bits() {
        for length in [8, 16, 24] {
            for flipped in 0..length * 8 {
                let mut changes = [0_u32; 64];
                for number in 0..1000_u64 {
                    let mut key = vec![0; length];
                    key[..8].copy_from_slice(&number.to_be_bytes());
                    let before = Digest::of(&key).stored();
                    key[flipped / 8] ^= 1 << (flipped % 8);
                    let changed = before ^ Digest::of(&key).stored();
                    changes.iter_mut().enumerate().for_each(|(bit, count)| *count += (changed >> bit & 1) as u32);
                }
                // Five standard deviations and a half of a fair coin thrown a thousand times.
                assert!(changes.iter().all(|count| (412..588).contains(count)), "{length}, {flipped}: {changes:?}");
            }
        }
    }
}
