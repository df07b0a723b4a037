//! Fingerprints: bits 31 to 16 of a key's digest, of which slots keep prefixes.
//!
//! The bucket of a key comes from the high bits of its digest. Both are within the 48 bits that
//! tables store of digests, so that a filter can be built from tables. Below 2³² buckets they do
//! not overlap; above they share some bits, and a few more fingerprints agree by chance.

pub use tamarack_model::filter::chucky::lengths::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};

use crate::digest::Digest;

/// The fingerprint of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u16);

impl Fingerprint {
    /// Of `digest`. If the first `nonzero_bits` bits are zeros, the last of them becomes 1: only
    /// empty slots have zeros there.
    #[inline]
    pub(super) fn of(digest: Digest, nonzero_bits: u32) -> Self {
        let bits = (digest.stored() >> 16) as u16;
        let last = 1 << (FINGERPRINT_BITS_MAX - nonzero_bits);
        Self(if bits < last { bits | last } else { bits })
    }

    /// The first `bits` bits, as a number.
    #[inline]
    pub fn prefix(self, bits: u32) -> u16 {
        self.0 >> (FINGERPRINT_BITS_MAX - bits)
    }
}
