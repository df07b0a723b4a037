//! [`Hash`]: the hash functions that are compared.
//!
//! **MurmurHash64A** is that of Zhu, Mun, Raman and Athanassoulis (*Reducing Bloom Filter CPU
//! Overhead in LSM-Trees on Modern Storage Devices*, DaMoN 2021, section 4.1).

use tamarack::measure;

/// A hash function to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// XXH3-64, the hash of all digests.
    Digest,
    /// MurmurHash64A.
    Murmur64A,
}

impl Hash {
    /// The same, for the engine's lookups.
    pub fn of_lookups(self) -> measure::Hash {
        match self {
            Self::Digest => measure::Hash::Digest,
            Self::Murmur64A => measure::Hash::Other(|key| murmur_hash_64a(key, SEED)),
        }
    }
}

/// The seed, which may be any number.
const SEED: u64 = 0x7461_6D61_7261_636B;

/// MurmurHash64A (Appleby, the 64-bit variant of MurmurHash2), as on a little-endian machine.
pub fn murmur_hash_64a(key: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xC6A4_A793_5BD1_E995;
    const R: u32 = 47;
    let (words, rest) = key.as_chunks();
    let mut hash = seed ^ (key.len() as u64).wrapping_mul(M);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(M);
        word = (word ^ (word >> R)).wrapping_mul(M);
        hash = (hash ^ word).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verification value that SMHasher publishes for MurmurHash64A: the first four bytes of
    /// the hash of the hashes of the keys {}, {0}, {0, 1} … of 0 to 255 bytes, with seeds 256
    /// down to 1.
    #[test]
    fn murmur_is_the_published_one() {
        let bytes: Vec<u8> = (0..=255).collect();
        let hashes: Vec<u8> =
            (0..256).flat_map(|n| murmur_hash_64a(&bytes[..n], 256 - n as u64).to_le_bytes()).collect();
        assert_eq!(murmur_hash_64a(&hashes, 0) as u32, 0x1F0D_3804);
    }
}
